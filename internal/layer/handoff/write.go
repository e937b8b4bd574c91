package handoff

import (
	"context"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/frontmatter"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
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
		known, _, err := w.l.Records()
		if err != nil {
			return err
		}
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
