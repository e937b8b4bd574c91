package upkeep

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/internal/blob"
	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/progress"
)

// Check compares everything that the store keeps with everything else, and, if
// it is deep, the bytes of kept versions and files with their hashes. It changes
// nothing.
func (s *Store) Check(ctx context.Context, deep bool, meter *progress.Meter) (admin.CheckResult, error) {
	c := newChecker(s, deep, meter)
	err := c.run(ctx)
	c.out.Clean = len(c.out.Problems) == 0
	return c.out, err
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
		for _, step := range []func() error{c.journal, c.meta, c.staging, c.parts, c.files} {
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
	deep   bool
	out    admin.CheckResult
	pos    journal.Pos
	newest map[string]newestRow
	rows   []journal.Problem // those of the problems that are the journal's
	known  *journal.Known
	closed engine.Meta // as meta.json was when the check began
	heads  map[uint64][32]byte
	last   uint64      // newest row that was checked
	gaps   [][2]uint64 // rows that are not there
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
	counts, err := c.Engine.Log.Audit(c.auditor())
	c.pos = counts.Pos
	n := &c.out.Counters
	n.Segments, n.Parked, n.Rows, n.Malformed, n.Accepted = counts.Segments, counts.Parked, counts.Rows, counts.Malformed, counts.Accepted
	return err
}

// row follows the versions of every path.
func (c *checker) row(rec *journal.Record, _ journal.Pos) {
	c.One()
	c.follow(rec.Seq)
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
	data, err := durable.ReadFile(c.Engine.Disk.State, engine.MetaName, engine.MetaLimit)
	if engine.IsAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var m engine.Meta
	if json.Unmarshal(data, &m) != nil {
		c.problem("meta_unreadable", engine.MetaName, 0, "the cache is not valid JSON; the next open rebuilds it")
		return nil
	}
	c.head()
	return nil
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
		if errors.Is(err, blob.ErrDamaged) {
			c.problem("object_damaged", "history/"+name, 0, "the kept version does not match its hash")
			return nil
		}
		return err
	})
}

// files compares the workspace with the newest rows.
func (c *checker) files() error {
	if !c.deep {
		return nil
	}
	paths := slices.Sorted(maps.Keys(c.newest))
	c.Things(StepFiles, int64(len(paths)), "comparing files with the journal")
	for _, path := range paths {
		c.One()
		c.out.Counters.Paths++
		want := c.newest[path]
		if want.imported { // it refers to another workspace
			continue
		}
		have, _, err := c.Engine.HashEntry(path)
		if want.sha == "" && c.Engine.NoFile(err) {
			continue // it is gone, even if its name or that of its directory is used again
		}
		if err != nil {
			c.problem("file_unreadable", path, want.seq, string(c.Engine.ErrorOf(err).Code))
		} else if have == "" && strings.HasPrefix(path, engine.StateDirName+"/tx/") {
			continue // staged operations go with their transaction
		} else if c.known.FileLeads(path, want.sha, have) || c.known.RowChanged(want.seq) {
			continue // erased, or under a path that was erased
		} else if have != want.sha {
			c.problem("file_differs", path, want.seq, "the file differs from its newest journal row; it was changed outside this store")
		}
	}
	return nil
}
