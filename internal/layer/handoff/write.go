package handoff

import (
	"cmp"
	"context"
	"io"
	"path"
	"sort"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/frontmatter"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/policyfile"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/tree"
)

// Write is the writing of a handoff in progress.
type Write struct {
	handoff.WriteRequest
	Drift    []handoff.Drift
	Archived string // path of the archive, "" when nothing is archived

	wrote    func(*journal.Record) bool // selects the commits whose files AutoStateSession adds
	l        *Layer
	c        *engine.Commit
	composed bool // the content of the handoff is made
}

// NewWrite makes c the writing of a handoff. wrote selects the commits whose files
// [handoff.AutoStateSession] adds.
func (l *Layer) NewWrite(c *engine.Commit, r handoff.WriteRequest, wrote func(*journal.Record) bool) *Write {
	w := &Write{WriteRequest: r, wrote: wrote, l: l, c: c}
	c.Muts = []*engine.Mutation{{Path: r.Path, Op: engine.OpOverwrite, Kind: "handoff", AllowShrink: true, Force: r.Force, Expected: r.Expect.Hash()}}
	c.ExtraLocks, c.Plan = []string{Lock}, w.plan
	return w
}

// Check validates the arguments that need no access to the disk.
func (w *Write) Check() *fault.Fault {
	if !utf8.Valid(w.Body) {
		return fault.New(fault.NotValidUTF8).With("argument", "body")
	}
	return check(&w.Envelope, w.AutoState != "")
}

// plan makes the content, and decides under the locks whether the existing
// handoff is archived. A repeated call is answered before anything can refuse it.
func (w *Write) plan(ctx context.Context) error {
	if done, err := w.c.Answered(); err != nil {
		return err
	} else if done {
		return w.again(ctx)
	}
	if !w.composed {
		if err := w.compose(ctx); err != nil {
			return err
		}
	}
	return w.keepOld()
}

// compose makes the content of the file. It reads files that are not locked, so
// once is enough.
func (w *Write) compose(ctx context.Context) error {
	added, sure, err := w.autoState(ctx)
	if err != nil {
		return err
	}
	if w.Drift, err = w.l.drift(ctx, append(w.Envelope.LastGoodState[:len(w.Envelope.LastGoodState):len(w.Envelope.LastGoodState)], added...), sure); err != nil {
		return err
	}
	if w.Strict && len(w.Drift) > 0 {
		e := w.l.drifted(w.Drift)
		e.Stage = engine.StagePrecondition
		return e
	}
	doc, e := w.document(added)
	if e != nil {
		e.Stage = engine.StageCompose
		return e
	}
	w.c.First().Hold(doc)
	w.composed = true
	return nil
}

// document makes the file, with further files in last_good_state.
func (w *Write) document(added []handoff.File) ([]byte, *fault.Fault) {
	e := w.Envelope
	e.UpdatedAt.UnmarshalText([]byte(w.c.Began.UTC().Format(time.RFC3339)))
	e.LastGoodState = []handoff.File{}
	for _, f := range w.Envelope.LastGoodState {
		f.SHA256 = strings.ToLower(f.SHA256)
		e.LastGoodState = append(e.LastGoodState, f)
	}
	e.LastGoodState = append(e.LastGoodState, added...)
	return document(e, w.Body)
}

// again completes the facts of a repeated call.
func (w *Write) again(ctx context.Context) (err error) {
	for i := range w.c.Replayed.Muts {
		if m := &w.c.Replayed.Muts[i]; m.Op == KindArchive {
			w.Archived = m.Path
		}
	}
	w.Drift, err = w.l.drift(ctx, w.Envelope.LastGoodState, nil)
	return err
}

// keepOld adds the existing handoff to the commit, as an archive, if requested or
// if no one has acknowledged it.
func (w *Write) keepOld() error {
	w.Archived = ""
	for _, m := range w.c.Muts[1:] {
		m.Target.Close()
	}
	w.c.Muts = w.c.Muts[:1]
	m := w.c.First()
	target, err := w.l.Tree.Resolve(m.Path)
	if err != nil {
		return err
	}
	defer target.Close()
	if !target.Exists() {
		return nil
	}
	f, st, err := engine.OpenIfThere(target.Parent, target.Name)
	if err != nil || f == nil {
		return err
	}
	w.c.Handles = append(w.c.Handles, f)
	sha, _, err := engine.HashFile(f)
	if err != nil {
		return err
	}
	if !w.Archive {
		known, _, _ := w.l.Records() // a handoff is archived if it is unknown who has read it
		if sha == m.Measured.Digest.Hex() || len(known.ReadBy(target.Path, sha)) > 0 {
			return nil
		}
		m.Warn("unread_handoff_archived")
	}
	return w.archive(f, st.Size)
}

const archiveInMem = 4 << 20 // bytes up to which an archive is held in memory

// archive adds the mutation that keeps a handoff. The gate is not run, because
// its bytes are already on disk.
func (w *Write) archive(f fsx.File, size int64) error {
	head := make([]byte, min(size, frontmatter.MaxSize+4096))
	if n, err := f.ReadAt(head, 0); err != nil && err != io.EOF {
		return err
	} else if n < len(head) {
		head = head[:n]
	}
	name, err := w.l.archiveName(taskOf(head), w.c.Began.UTC().Format("20060102T150405Z"))
	if err != nil {
		return err
	}
	a := engine.NewObject(Dir+"/"+name, KindArchive, engine.OpCreate)
	a.Ungated = true
	if size > archiveInMem {
		a.Content = engine.FileBody(f, size)
	} else {
		whole, err := io.ReadAll(io.NewSectionReader(f, 0, size))
		if err != nil {
			return err
		}
		a.Hold(whole)
	}
	if err := w.c.ResolveOne(a); err != nil {
		return err
	}
	w.c.Muts = append(w.c.Muts, a)
	w.Archived = a.Path
	return nil
}

const (
	maxAutoState = 1000    // files that auto_state takes
	maxWalked    = 200_000 // entries that a glob, and journal rows that true, looks at
)

// autoState returns the files that the write adds to last_good_state, by path, and
// the hashes of those that were read.
func (w *Write) autoState(ctx context.Context) (added []handoff.File, sure map[string]string, err error) {
	var found []handoff.File
	switch w.AutoState {
	case "":
		return nil, nil, nil
	case handoff.AutoStateSession:
		found, err = w.written()
	default:
		found, err = w.l.glob(ctx, string(w.AutoState), w.c.First().Path)
	}
	if err != nil {
		return nil, nil, err
	}
	found = found[:min(len(found), maxAutoState)] // the newest
	sort.Slice(found, func(i, j int) bool { return found[i].Path < found[j].Path })
	listed := map[string]bool{}
	for _, f := range w.Envelope.LastGoodState {
		listed[f.Path] = true
	}
	sure = map[string]string{}
	for _, f := range found {
		if !listed[f.Path] {
			added = append(added, f)
		}
		if w.AutoState != handoff.AutoStateSession {
			sure[f.Path] = f.SHA256
		}
	}
	return added, sure, nil
}

// glob returns the files that match, but for one.
func (l *Layer) glob(ctx context.Context, glob, without string) ([]handoff.File, error) {
	if policyfile.GlobTooLarge(glob) {
		return nil, fault.New(fault.TooLarge).With("argument", "auto_state").Hintf("the glob of auto_state is too long, or its braces expand to too many globs; send a simpler one")
	}
	if !doublestar.ValidatePattern(glob) || strings.HasPrefix(glob, "/") || strings.Contains("/"+glob+"/", "/../") {
		return nil, fault.New(fault.InvalidArgument).With("argument", "auto_state").Hintf("auto_state must be true or a glob relative to the workspace, such as src/**/*.go")
	}
	w := &globWalk{l: l, glob: glob, without: without}
	w.base, _ = doublestar.SplitPattern(glob)
	err := tree.Walk(ctx, l.Disk.Root, struct{}{}, w.visit, w.failed)
	return w.files, cmp.Or(err, w.err)
}

// written returns the files that the journal last recorded as written by the
// selected commits, with the recorded hashes.
func (w *Write) written() ([]handoff.File, error) {
	out, seen, aborted := []handoff.File{}, map[string]bool{w.c.First().Path: true}, map[uint64]bool{}
	keep := func(rec *journal.Record) bool {
		if rec.Kind == journal.KindAbort {
			aborted[rec.Ref] = true
		}
		if rec.Kind != journal.KindCommit || aborted[rec.Seq] || len(out) >= maxAutoState || !w.wrote(rec) {
			return false
		}
		for i := range rec.Muts {
			m := &rec.Muts[i]
			if m.Class != "" || seen[m.Identity()] {
				continue
			}
			seen[m.Identity()] = true
			if m.SHA256 != "" {
				out = append(out, handoff.File{Path: m.Identity(), SHA256: m.SHA256, Bytes: m.Bytes})
			}
		}
		return false
	}
	if _, _, err := w.l.Log.Tail(1, keep, maxWalked); err != nil {
		return nil, err
	}
	return out, nil
}

// globWalk collects the files that match a glob. Links are not followed, and
// protected directories are not entered.
type globWalk struct {
	l       *Layer
	glob    string
	base    string // the directory that all matches are in
	without string

	mu     sync.Mutex
	walked int
	files  []handoff.File
	err    error // of a directory that could not be listed
}

// visit takes the entries of a directory.
func (w *globWalk) visit(d *tree.Dir[struct{}]) error {
	w.mu.Lock()
	w.walked += len(d.Entries)
	many := w.walked > maxWalked
	w.mu.Unlock()
	if many {
		return fault.New(fault.TooLarge).With("argument", "auto_state").Hintf("auto_state would examine too many files; start the glob with a directory")
	}
	for _, e := range d.Entries {
		at := tree.Join(d.Path, e.Name)
		switch {
		case relpath.ProtectedName(e.Name, w.l.Tree.Rules.Protected):
		case e.Kind == fsx.Directory && w.mayHold(at) && (w.l.Tree.Guard == nil || w.l.Tree.Guard(e.Stat) == nil):
			d.Enter(e.Name, struct{}{})
		case e.Kind == fsx.Regular && at != w.without && policyfile.Match(w.glob, at):
			if err := w.add(at, e.Size); err != nil {
				return err
			}
		}
	}
	return nil
}

// failed notes that a directory could not be listed, unless it is none any more.
func (w *globWalk) failed(_ string, _ struct{}, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !fsx.NotDir(err) {
		w.err = cmp.Or(w.err, err)
	}
}

// add takes a file that matches.
func (w *globWalk) add(at string, size int64) error {
	sha, err := w.l.HashPath(at)
	if err != nil || sha == "" {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.files) == maxAutoState {
		return fault.New(fault.TooLarge).With("argument", "auto_state").Hintf("auto_state matches more than %d files; narrow the glob", maxAutoState)
	}
	w.files = append(w.files, handoff.File{Path: at, SHA256: sha, Bytes: size})
	return nil
}

// mayHold reports whether something below a directory can match: it is on the way to
// the base of the glob or in it, and a glob without ** only matches paths with as many
// names as it has.
func (w *globWalk) mayHold(at string) bool {
	if w.base != "." && at != w.base && !strings.HasPrefix(w.base, at+"/") && !strings.HasPrefix(at, w.base+"/") {
		return false
	}
	if strings.Contains(w.glob, "**") || strings.Contains(w.glob, "{") {
		return true
	}
	depth := strings.Count(at, "/") + 1
	parts := strings.Split(w.glob, "/")
	return depth < len(parts) && doublestar.MatchUnvalidated(path.Join(parts[:depth]...), at)
}
