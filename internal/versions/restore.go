package versions

import (
	"io"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/history"
)

// Restore is a request for a file to become what it was.
type Restore struct {
	Op, Path string
	Seq      uint64 // of the version
	SHA256   string // or the newest version with this hash
	Force    bool

	// Take takes the bytes of the version and returns their hash. A file that is created
	// gets the mode.
	Take func(m *engine.Mutation, src io.Reader, mode uint32) (string, error)
}

// Plan finds the version, and returns it with the mutation that brings the file back to
// it, if the file is still what it was in the newest one.
func (r Restore) Plan(h *history.Layer) (*engine.Mutation, *history.Version, error) {
	path, err := Path(h.Engine, r.Path)
	if err != nil {
		return nil, nil, err
	}
	l, err := h.Lineage(path)
	if err != nil {
		return nil, nil, err
	}
	v, err := l.Find(r.Seq, func(v *history.Version) bool { return v.Seq == r.Seq || r.SHA256 != "" && v.M.SHA256 == r.SHA256 })
	if err != nil {
		return nil, nil, err
	}
	newest := l.Got[0]
	m := &engine.Mutation{Path: r.Path, Origin: v.Path, Op: engine.OpOverwrite, Kind: r.Op, Force: true, AllowShrink: true, Ungated: true}
	if !r.Force {
		m.Expected, m.ExpectJournalHash = &newest.M.SHA256, true
	}
	if at, err := Identity(h.Engine, r.Path); err != nil || at != path {
		m.Path, m.NoFollow = path, true // the name itself, as it was
	}
	return m, v, r.fill(h, m, v, newest)
}

// fill takes the content of the version.
func (r Restore) fill(h *history.Layer, m *engine.Mutation, v, newest *history.Version) error {
	link := v.M.Link() || newest.M.Link()
	if link {
		m.NoFollow, m.WasLink, m.Perm = true, newest.M.Link(), &v.M.Mode
	}
	if v.M.SHA256 == "" {
		m.Op, m.AbsentOK, m.Perm = engine.OpDelete, true, nil
		return nil
	}
	src, _, err := h.VersionContent(v)
	if err != nil {
		return err
	}
	defer src.Close()
	mode := v.M.Mode
	if last := newest.M.ModeBefore(); newest.M.SHA256 == "" && fsx.KindOf(last) != fsx.Directory { // what was to be kept from others stays so
		mode = last
	}
	if link {
		mode = 0 // Perm is
	}
	sum, err := r.Take(m, src, mode)
	if err == nil && sum != v.M.SHA256 {
		m.DropSpooled()
		err = fault.New(fault.HashDriftOnRead).Hintf("the kept content of this version is damaged; restore another one")
	}
	return err
}
