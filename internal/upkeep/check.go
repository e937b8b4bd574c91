package upkeep

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/internal/blob"
	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/feed"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/index"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/budget"
	"github.com/resilientwrite/resilientwrite/internal/layer/checkpoint"
	"github.com/resilientwrite/resilientwrite/internal/layer/chunks"
	"github.com/resilientwrite/resilientwrite/internal/layer/drafts"
	"github.com/resilientwrite/resilientwrite/internal/layer/handoff"
	"github.com/resilientwrite/resilientwrite/internal/layer/scratch"
	"github.com/resilientwrite/resilientwrite/internal/progress"
)

// Check compares everything that the store keeps with everything else, and, if
// it is deep, the bytes of kept versions and files with their hashes. It changes
// nothing.
func (s *Store) Check(ctx context.Context, deep bool, meter *progress.Meter) (admin.CheckResult, error) {
	for tries := 3; ; tries-- {
		c := newChecker(s, deep, meter)
		err := c.run(ctx)
		if c.out.Clean = len(c.out.Problems) == 0; err == nil && c.out.Clean || tries == 1 || ctx.Err() != nil || !c.disturbed() {
			return c.out, err
		}
	}
}

// disturbed reports whether the journal has a note about a change of the operator that
// was made while the check ran: what it found may only be half of that.
func (c *checker) disturbed() (found bool) {
	if c.Engine.Log == nil || c.Engine.Log.CatchUp() != nil {
		return false
	}
	c.Engine.Log.Range(c.began+1, func(rec *journal.Record, _ journal.Pos) error {
		found = found || rec.Note != nil
		return nil
	})
	return found
}

func newChecker(s *Store, deep bool, meter *progress.Meter) *checker {
	return &checker{Store: s, Meter: meter, deep: deep, newest: map[string]newestRow{}, out: admin.CheckResult{Problems: []admin.CheckProblem{}}}
}

// run checks everything.
func (c *checker) run(ctx context.Context) error {
	if c.Engine.Settler != nil {
		c.Engine.Settler.Drain() // the checks below report what cannot be settled
		c.Engine.FlushCopies()
	}
	if c.Engine.Disk.State != nil {
		var data []byte
		if data, c.metaErr = durable.ReadFile(c.Engine.Disk.State, engine.MetaName, engine.MetaLimit); c.metaErr == nil && json.Unmarshal(data, &c.closed) != nil {
			c.closed, c.badMeta = engine.Meta{}, true
		}
		for _, step := range []func() error{c.journal, c.meta, c.staging, c.parts, func() error { return c.files(ctx) }} {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := step(); err != nil {
				return err
			}
		}
	}
	return nil
}

// checker is one check in progress.
type checker struct {
	*Store
	*progress.Meter
	deep    bool
	out     admin.CheckResult
	pos     journal.Pos
	newest  map[string]newestRow
	rows    []journal.Problem // those of the problems that are the journal's
	known   *journal.Known
	closed  engine.Meta // as meta.json was when the check began
	metaErr error
	badMeta bool // it is not valid JSON
	heads   map[uint64][32]byte
	began   uint64      // newest row when the check began
	last    uint64      // newest row that was checked
	gaps    [][2]uint64 // rows that are not there
}

// newestRow is the last row of a path that happened.
type newestRow struct {
	seq uint64
	sha string

	imported bool // from an export: it does not refer to this workspace
}

func (c *checker) problem(code, path string, seq uint64, detail string) {
	c.out.Problems = append(c.out.Problems, admin.CheckProblem{Code: code, Path: path, Seq: seq, Detail: detail})
}

func (c *checker) journal() error {
	if c.Engine.Log == nil {
		return nil
	}
	c.Things(StepJournal, 0, "checking journal rows")
	c.began = c.Engine.Log.Head()
	c.heads = map[uint64][32]byte{}
	if c.closed.NextSeq > 1 {
		c.heads[c.closed.NextSeq-1] = [32]byte{}
	}
	counts, err := c.Engine.Log.Audit(journal.Auditor{
		Problem: c.rowProblem, Row: c.row, Deep: c.deep, Watch: c.heads,
		Start: func(known *journal.Known) { c.known = known },
	})
	c.pos = counts.Pos
	n := &c.out.Counters
	n.Segments, n.Parked, n.Rows, n.Malformed, n.Accepted = counts.Segments, counts.Parked, counts.Rows, counts.Malformed, counts.Accepted
	return err
}

// row follows the versions of every path.
func (c *checker) row(rec *journal.Record, _ journal.Pos) {
	c.One()
	if rec.Seq > c.last+1 {
		c.gaps = append(c.gaps, [2]uint64{c.last + 1, rec.Seq - 1})
	}
	c.last = max(c.last, rec.Seq)
	if rec.Manifest != "" && len(rec.Muts) == 0 {
		c.manifestMissing(rec)
	}
	for i := range rec.Muts {
		m := &rec.Muts[i]
		path := m.Identity()
		was := c.newest[path]
		switch rec.Kind {
		case journal.KindCommit, journal.KindObserved:
			if m.PrevSeq != was.seq && !c.unlinked(rec.Seq, m.PrevSeq, was.seq) {
				c.linkBroken(path, rec.Seq, m.PrevSeq, was.seq)
			}
			c.newest[path] = newestRow{seq: rec.Seq, sha: m.SHA256, imported: strings.HasPrefix(m.ImportID, exportedRow)}
		case journal.KindConflict:
			if m.Rev > 0 {
				c.newest[path] = newestRow{seq: rec.Seq, sha: m.SHA256}
			}
		case journal.KindAbort:
			if m.PrevSeq == 0 { // the journal never wrote the current content
				delete(c.newest, path)
				continue
			}
			c.newest[path] = newestRow{seq: m.PrevSeq, sha: m.SHA256, imported: was.imported}
		}
	}
}

// meta compares the head that the last Close saw: a journal that was cut off
// ends before it.
func (c *checker) meta() error {
	if c.metaErr == nil && c.badMeta {
		c.problem("meta_unreadable", engine.MetaName, 0, "the cache is not valid JSON; the next open rebuilds it")
	} else if c.metaErr == nil {
		c.head()
	}
	return ignoreAbsent(c.metaErr)
}

// staging counts the entries of commits in progress. An entry of a dead writer that
// still exists after Open was missed.
func (c *checker) staging() error {
	if c.Engine.Disk.Staging == nil {
		return nil
	}
	held, dead, err := c.Engine.HeldSlots()
	if err != nil {
		return err
	}
	c.out.Counters.Staged = len(held)
	for _, name := range dead {
		c.problem("stale_staging", name, 0, "a dead writer left it; the next open completes or removes it")
	}
	return nil
}

// history checks every kept version.
func (c *checker) history() error {
	if c.Engine.History == nil {
		return nil
	}
	c.Things(StepHistory, 0, "checking kept versions")
	return c.Engine.History.Each(func(name string, st fsx.Stat, ok bool) error {
		if !ok {
			if !strings.HasSuffix(name, durable.TempSuffix) && !strings.HasSuffix(name, erasedMark) {
				c.problem("unknown_file", "history/"+name, 0, "this is not the name of a kept version")
			}
			return nil
		}
		c.One()
		c.out.Counters.Objects++
		c.out.Counters.Bytes += st.Size
		if !c.deep {
			return nil
		}
		err := c.Engine.History.Verify(name)
		if engine.IsAbsent(err) { // a sweep removed it
			return nil
		}
		if errors.Is(err, blob.ErrDamaged) {
			c.problem("object_damaged", "history/"+name, 0, "the kept version does not match its hash")
			return nil
		}
		return err
	})
}

// files compares the workspace with the newest rows. Another process may write meanwhile: a
// file that differs is compared again with the rows that have come since, until no commit is
// in progress, or for a second. What a row has changed until the end is not judged.
func (c *checker) files(ctx context.Context) error {
	if !c.deep {
		return nil
	}
	paths := slices.Sorted(maps.Keys(c.newest))
	c.Things(StepFiles, int64(len(paths)), "comparing files with the journal")
	c.out.Counters.Paths = len(paths)
	for wait := time.Millisecond; len(paths) > 0; wait *= 2 {
		found := map[string]admin.CheckProblem{}
		for _, path := range paths {
			if wait == time.Millisecond {
				c.One()
			}
			p, err := c.file(path)
			if err != nil {
				return err
			}
			if p.Code != "" {
				found[path] = p
			}
		}
		held, _, err := c.Engine.HeldSlots()
		if err == nil {
			err = c.catchUp()
		}
		if err != nil {
			return err
		}
		paths = slices.Sorted(maps.Keys(found))
		moved := func(path string) bool { return c.newest[path].seq != found[path].Seq }
		if last := wait > 500*time.Millisecond; last || len(held) == 0 && !slices.ContainsFunc(paths, moved) {
			for _, path := range slices.DeleteFunc(paths, moved) {
				c.out.Problems = append(c.out.Problems, found[path])
			}
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
	return nil
}

// file compares one file with its newest row. Without a problem the code is "".
func (c *checker) file(path string) (p admin.CheckProblem, err error) {
	want := c.newest[path]
	if want.imported { // it refers to another workspace
		return p, nil
	}
	have, _, err := c.Engine.HashEntry(path)
	if want.sha == "" && c.Engine.NoFile(err) {
		return p, nil // it is gone, even if its name or that of its directory is used again
	}
	if engine.IsShortage(err) {
		return p, err
	}
	p.Path, p.Seq = path, want.seq
	if err != nil {
		p.Code, p.Detail = "file_unreadable", string(c.Engine.ErrorOf(err).Code)
	} else if have == "" && strings.HasPrefix(path, engine.StateDirName+"/tx/") {
		return p, nil // staged operations go with their transaction
	} else if c.known.FileLeads(path, want.sha, have) || c.known.RowChanged(want.seq) {
		return p, nil // erased, or under a path that was erased
	} else if have != want.sha {
		p.Code, p.Detail = "file_differs", "the file differs from its newest journal row; it was changed outside this store"
	}
	return p, nil
}

// catchUp takes the rows that have come since the last one that was checked.
func (c *checker) catchUp() error {
	if c.Engine.Log == nil {
		return nil
	}
	if err := c.Engine.Log.CatchUp(); err != nil {
		return err
	}
	return c.Engine.Log.Range(c.last+1, func(rec *journal.Record, at journal.Pos) error {
		c.known.Take(rec)
		c.row(rec, at)
		return nil
	})
}

// rowProblem takes a problem of the journal.
func (c *checker) rowProblem(p journal.Problem) {
	c.problem(p.Code, p.Name, p.Seq, p.Detail)
	c.rows = append(c.rows, p)
}

// unlessAccepted takes a problem that the operator may have accepted.
func (c *checker) unlessAccepted(p journal.Problem) {
	if c.known.Accepts(p) {
		c.out.Counters.Accepted++
		return
	}
	c.rowProblem(p)
}

// head compares the journal with the head that the last Close saw: one that
// was cut off ends before it.
func (c *checker) head() {
	m := c.closed
	if c.known == nil || m.NextSeq < 2 || c.known.HeadTold(m.Head) {
		return
	}
	p := journal.Problem{Seq: m.NextSeq - 1, Evidence: m.Head}
	now := c.heads[m.NextSeq-1]
	switch {
	case m.NextSeq > c.pos.Seq+1:
		p.Code, p.Seq, p.Detail = journal.ProblemTruncated, c.pos.Seq+1, "the journal ends before the head recorded in meta.json"
	case m.Head == "" || now == [32]byte{} || c.known.RowLeads(p.Seq, m.Head, hex.EncodeToString(now[:])):
		return
	default:
		p.Code, p.Detail = journal.ProblemHead, "the newest row differs from the head recorded in meta.json"
	}
	c.unlessAccepted(p)
}

// unlinked reports whether two rows of a path cannot be expected to be linked:
// one of them is gone, or its path was erased.
func (c *checker) unlinked(seq, prev, was uint64) bool {
	return slices.ContainsFunc([]uint64{seq, prev, was}, c.known.RowChanged) ||
		slices.ContainsFunc(c.gaps, func(g [2]uint64) bool { return prev >= g[0] && prev <= g[1] })
}

// linkBroken names a row that does not point at the row of its path before it.
func (c *checker) linkBroken(path string, seq, prev, was uint64) {
	c.unlessAccepted(journal.Problem{
		Code: "history_link_broken", Seq: seq, Name: path, Evidence: fmt.Sprint(prev, "/", was),
		Detail: "the row does not refer to the previous row of its path",
	})
}

// manifestMissing reports a row whose mutations cannot be read. The row counts as a
// gap, so links to it are not checked.
func (c *checker) manifestMissing(rec *journal.Record) {
	c.gaps = append(c.gaps, [2]uint64{rec.Seq, rec.Seq})
	c.unlessAccepted(journal.Problem{
		Code: "manifest_missing", Seq: rec.Seq, Name: engine.ManifestDir + "/" + rec.Manifest, Evidence: rec.Manifest,
		Detail: "the row has more changes than a line holds, and the file with them is missing or damaged",
	})
}

// erasedMark ends the name of the mark that is left where a kept version was
// erased.
const erasedMark = ".erased"

// exportedRow begins the import_id of a row that came from an export.
const exportedRow = "export:"

// The problems that Check finds outside the journal and the kept versions. Most of them
// are in caches: a damaged cache costs time or a label, never a row.
const (
	problemSnapshot     = "snapshot_damaged"
	problemScratch      = "scratch_damaged"
	problemScratchIndex = "scratch_index_damaged"
	problemCheckpoint   = "checkpoint_damaged"
	problemManifest     = "manifest_damaged"
	problemDraft        = "draft_damaged"
	problemBudgets      = "budgets_damaged"
	problemCursor       = "cursor_damaged"
	problemHandoffs     = "handoff_records_damaged"
	problemForeign      = "unknown_file"
)

// parts checks everything but the journal.
func (c *checker) parts() error {
	for _, part := range parts {
		if !part.isFile && c.misplaced(part.name) {
			continue
		}
		for _, name := range part.files {
			if st, err := c.Engine.LstatPart(part.name, name); err == nil && st.Kind == fsx.Directory {
				c.problem(problemForeign, part.name+"/"+name, 0, "this should be a file of the state directory, and is a directory")
			}
		}
		for _, name := range part.dirs {
			if st, err := c.Engine.LstatPart(part.name, name); err == nil && st.Kind != fsx.Directory {
				c.problem(problemForeign, part.name+"/"+name, 0, notADirectory)
			}
		}
		if part.check == nil {
			continue
		}
		if err := part.check(c); err != nil {
			return err
		}
	}
	return nil
}

// quarantineName is where damaged things are moved to.
const quarantineName = "quarantine"

const notADirectory = "this should be a directory of the state directory, and is not a directory"

// misplaced reports an entry that has the name of a part of the state directory and is
// not a directory. It must not keep the check from the other parts.
func (c *checker) misplaced(part string) bool {
	st, err := c.Engine.Disk.State.Lstat(part)
	if err != nil || st.Kind == fsx.Directory {
		return false
	}
	c.problem(problemForeign, part, 0, notADirectory)
	return true
}

func (c *checker) snapshots() error {
	if c.Engine.Disk.Index == nil {
		return nil
	}
	list, err := index.Snapshots(c.Engine.Disk.Index)
	for _, snap := range list {
		if snap.Err != nil {
			c.problem(problemSnapshot, "index/"+snap.Name, 0, "the cache is damaged; it can be rebuilt from the journal")
		}
	}
	return err
}

func (c *checker) scratchpad() error {
	pad, err := c.Scratch.Open()
	if err != nil {
		return err
	}
	bad := pad.Malformed
	if pad.Torn && bad > 0 { // another process may be writing it
		bad--
	}
	if bad > 0 {
		c.problem(problemScratchIndex, scratch.Index, 0, "the index has unreadable lines")
	} else if said, err := c.unlisted(pad); err != nil {
		return err
	} else if said != "" && !pad.Odd {
		c.problem(problemScratchIndex, scratch.Index, 0, said)
	}
	dir, err := c.Engine.StatePart(scratch.Dir)
	if dir == nil || err != nil {
		return err
	}
	defer dir.Close()
	if pad.Odd {
		c.problem(problemScratchIndex, scratch.Index, 0, "the index is not a regular file")
	}
	for _, sha := range slices.Sorted(maps.Keys(pad.Facts)) {
		if c.notAFile(scratch.Dir, scratch.FactsName(sha)) {
			c.problem(problemScratchIndex, scratch.Dir+"/"+scratch.FactsName(sha), 0, "the sidecar of an object is not a regular file")
		}
	}
	for _, sha := range slices.Sorted(maps.Keys(pad.Stored)) {
		object := scratch.Dir + "/" + scratch.BinName(sha)
		if c.notAFile(scratch.Dir, scratch.BinName(sha)) {
			c.problem(problemScratch, object, 0, "the object is not a file")
			continue
		}
		if !c.deep {
			continue
		}
		if sound, err := holdsSHA(dir, scratch.BinName(sha), sha); err != nil {
			return err
		} else if !sound {
			c.problem(problemScratch, object, 0, "the object does not match its hash")
		}
	}
	return nil
}

// unlisted reports what the index has lost. A put in progress may have its object in
// place but not yet its entry, so missing entries are looked up again.
func (c *checker) unlisted(pad *scratch.Pad) (said string, err error) {
	lost := pad.Unlisted
	for range 3 {
		if len(lost) == 0 {
			return "", nil
		}
		time.Sleep(20 * time.Millisecond)
		if pad, err = c.Scratch.Open(); err != nil {
			return "", err
		}
		lost = slices.DeleteFunc(lost, func(sha string) bool { return !slices.Contains(pad.Unlisted, sha) })
	}
	if len(lost) == 0 {
		return "", nil
	}
	said = fmt.Sprintf("it lacks the entries of %d objects", len(lost))
	if pad.Rebuilt > 0 {
		return said + fmt.Sprintf("; label, notes and expiry of %d of them are lost", pad.Rebuilt), nil
	}
	return said + ", which the sidecars of the objects still have", nil
}

// notAFile reports whether a name is there and is something else than a
// regular file.
func (s *Store) notAFile(part, name string) bool {
	st, err := s.Engine.LstatPart(part, name)
	return err == nil && st.Kind != fsx.Regular
}

// holdsSHA reports whether a file is there as it should be; one that is gone
// by now is.
func holdsSHA(dir fsx.Dir, name, sha string) (bool, error) {
	have, err := fileSHA(file{dir: dir, name: name})
	if engine.IsOdd(err) {
		return false, nil
	}
	return have == "" || have == sha, err
}

func (c *checker) checkpoints() error {
	names, err := c.Checkpoints.List()
	if err != nil {
		return err
	}
	for _, name := range names {
		if !c.deep {
			if c.notAFile(checkpoint.Dir, name+checkpoint.FileSuffix) {
				c.problem(problemCheckpoint, checkpoint.Dir+"/"+name+checkpoint.FileSuffix, 0, "it is not a file")
			}
			continue
		}
		saved, err := c.Checkpoints.Read(name, false)
		if engine.IsAbsent(err) {
			continue
		}
		if err != nil {
			return err
		}
		if saved.Corrupt != "" {
			c.problem(problemCheckpoint, checkpoint.Dir+"/"+name+checkpoint.FileSuffix, 0, saved.Corrupt)
		}
	}
	return nil
}

func (c *checker) sessions() error {
	return c.Engine.EachIn(chunks.Dir, func(all fsx.Dir, name string) error {
		if chunks.CheckName(name) != nil {
			c.problem(problemForeign, chunks.SessionObject(name), 0, "this is not the name of a session")
			return nil
		}
		if st, err := all.Lstat(name); err == nil && st.Kind != fsx.Directory {
			c.problem(problemForeign, chunks.SessionObject(name), 0, "not a session: it is not a directory")
			return nil
		}
		return c.session(name)
	})
}

// session checks the names in one session, and its list.
func (c *checker) session(name string) error {
	sess, err := c.Chunks.Read(name)
	if err != nil {
		return err
	}
	dir, err := c.Chunks.OpenDir(name)
	if dir == nil || err != nil {
		return err
	}
	defer dir.Close()
	if _, err := dir.Lstat(chunks.ManifestName); err == nil && sess.State == chunks.ManifestLost {
		c.problem(problemManifest, chunks.ManifestObject(name), 0, "the manifest of the session cannot be read; it can be rebuilt from the chunks")
	}
	for _, odd := range sess.Odd {
		if odd != chunks.ManifestName {
			c.problem(problemForeign, chunks.SessionObject(name)+"/"+odd, 0, "this is not the name of a chunk")
		}
	}
	for _, part := range sess.Parts { // chunks.Read did not check those that the manifest lists
		if st, err := dir.Lstat(chunks.PartName(part.Index)); err == nil && st.Kind != fsx.Regular {
			c.problem(problemForeign, chunks.PartObject(name, part.Index), 0, "the chunk is not a regular file")
		}
	}
	return nil
}

func (c *checker) drafts() error {
	return c.Engine.EachIn(quarantineName, func(dir fsx.Dir, name string) error {
		ref, ok := strings.CutSuffix(name, drafts.FactsSuffix)
		if !ok || !drafts.ValidRef(ref) {
			return nil
		}
		d, err := drafts.ReadFacts(dir, ref)
		if engine.IsAbsent(err) {
			return nil
		}
		if err != nil && !engine.IsOdd(err) && c.Engine.ErrorOf(err).Code != fault.HashDriftOnRead {
			return err
		}
		sound := err == nil
		if sound && c.deep {
			if sound, err = holdsSHA(dir, ref+drafts.BytesSuffix, d.SHA256); err != nil {
				return err
			}
		}
		if !sound {
			c.problem(problemDraft, "quarantine/"+name, 0, "the refused draft does not match its hash")
		}
		return nil
	})
}

func (c *checker) budgets() error {
	data, err := durable.ReadFile(c.Engine.Disk.State, budget.Name, budget.Limit)
	if engine.IsAbsent(err) || engine.IsUnread(err) {
		return ignoreAbsent(err)
	}
	if err != nil || !budget.Sound(data) {
		c.problem(problemBudgets, budget.Name, 0, "the retry counts cannot be read; they start again from zero")
	}
	return nil
}

func (c *checker) cursors() error {
	return c.Engine.EachIn("cursors", func(dir fsx.Dir, name string) error {
		if strings.HasSuffix(name, durable.TempSuffix) {
			return nil
		}
		data, err := durable.ReadFile(dir, name, engine.MetaLimit)
		if engine.IsAbsent(err) || engine.IsUnread(err) {
			return ignoreAbsent(err)
		}
		var cur struct{ Agent string }
		if err != nil || json.Unmarshal(data, &cur) != nil || name != feed.CursorName(cur.Agent) {
			c.problem(problemCursor, "cursors/"+name, 0, "the cursor cannot be read; its agent starts at the first row")
		}
		return nil
	})
}

func (c *checker) handoffs() error {
	_, whole, err := c.Handoffs.Records()
	if err == nil && !whole {
		c.problem(problemHandoffs, handoff.Dir+"/"+handoff.ReadName, 0, "it is unknown who has read which handoff")
	}
	return err
}
