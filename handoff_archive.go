package resilientwrite

import (
	"io"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/frontmatter"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/layer/handoff"
)

const archiveInMem = 4 << 20 // bytes up to which an archive is held in memory

// HandoffReader is an agent that has acknowledged a handoff.
type HandoffReader struct {
	// Who acknowledged it.
	Name string `json:"name"`
	// When, RFC 3339 UTC.
	At string `json:"at"`
}

// keepOld adds the existing handoff to the commit, as an archive, if requested or
// if no one has acknowledged it.
func (h *handoffWrite) keepOld() error {
	h.archived = ""
	for _, m := range h.c.Muts[1:] {
		m.Target.Close()
	}
	h.c.Muts = h.c.Muts[:1]
	m := h.c.First()
	target, err := h.s.engine.Tree.Resolve(m.Path)
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
	h.c.Handles = append(h.c.Handles, f)
	sha, err := engine.ShaOf(f, st.Size)
	if err != nil {
		return err
	}
	if !h.r.Archive {
		known, _, err := h.s.handoffs.Records()
		if err != nil {
			return err
		}
		if sha == m.Measured.Digest.Hex() || len(known.ReadBy(target.Path, sha)) > 0 {
			return nil
		}
		m.Warn(WarnUnreadHandoff)
	}
	return h.archive(f, st.Size)
}

// archive adds the mutation that keeps a handoff. The gate is not run, because
// its bytes are already on disk.
func (h *handoffWrite) archive(f fsx.File, size int64) error {
	head := make([]byte, min(size, frontmatter.MaxSize+4096))
	if n, err := f.ReadAt(head, 0); err != nil && err != io.EOF {
		return err
	} else if n < len(head) {
		head = head[:n]
	}
	name, err := h.s.handoffs.ArchiveName(handoff.TaskOf(head), h.c.Began.UTC().Format("20060102T150405Z"))
	if err != nil {
		return err
	}
	a := engine.NewObject(handoff.Dir+"/"+name, handoff.KindArchive, engine.OpCreate)
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
	if err := h.c.ResolveOne(a); err != nil {
		return err
	}
	h.c.Muts = append(h.c.Muts, a)
	h.archived = a.Path
	return nil
}

// readersOf converts the readers that the state directory records.
func readersOf(list []handoff.Reader) []HandoffReader {
	readers := []HandoffReader{}
	for _, r := range list {
		readers = append(readers, HandoffReader(r))
	}
	return readers
}

// stepsOf converts the dependency graph of an envelope.
func stepsOf(list []HandoffStep) (steps []handoff.Step) {
	for _, st := range list {
		steps = append(steps, handoff.Step{ID: st.ID, Status: st.Status, DependsOn: st.DependsOn})
	}
	return steps
}
