// Package versions finds the versions of a file that a request names, lists them and
// compares them.
package versions

import (
	"errors"
	"io"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/history"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// Path returns the path whose versions a request means: that of a symbolic
// link itself, if the journal knows it, and otherwise the resolved path. If a
// directory of the path is now a symbolic link and only the path itself is known,
// it returns the path itself.
func Path(e *engine.Engine, raw string) (string, error) {
	rel, _, err := relpath.Clean(raw, e.Tree.Rules)
	if err != nil {
		return "", err
	}
	if t, err := e.LocateEntry(rel); err == nil {
		defer t.Close()
		st, err := t.Parent.Lstat(t.Name)
		if err == nil && st.Kind == fsx.Symlink && t.Exists() {
			if known, err := isKnown(e, t.Path); err != nil || known {
				return t.Path, err
			}
		}
	}
	path, err := Identity(e, rel)
	if path == rel {
		return path, err
	}
	if err == nil {
		if known, err := isKnown(e, path); err != nil || known {
			return path, err
		}
	}
	if known, failure := isKnown(e, rel); failure == nil && known {
		return rel, nil
	}
	return path, err
}

// isKnown reports whether the journal has a row of a path.
func isKnown(e *engine.Engine, path string) (bool, error) {
	last, err := e.LastRow(path)
	return last.Seq > 0, err
}

// Identity returns the path without links that a requested path has in the
// journal. A path whose directory is now a file is found there as well.
func Identity(e *engine.Engine, raw string) (string, error) {
	rel, _, err := relpath.Clean(raw, e.Tree.Rules)
	if err != nil {
		return "", err
	}
	t, err := e.Tree.Resolve(rel)
	if err != nil && e.ErrorOf(err).Code == fault.NotADirectory {
		return rel, nil
	}
	if err != nil {
		return "", err
	}
	defer t.Close()
	return t.Path, nil
}

// Listed is a version in a list.
type Listed struct {
	*history.Version
	Available   bool // its content can still be read
	HeadNotKept bool // it is the newest, and history has no copy of it
	Erased      bool
	Problem     fault.Code // why the content cannot be read, although it may be kept
}

// List returns the newest versions of a path, at most n, newest first, and whether there
// are older ones.
func List(h *history.Layer, path string, n int) (list []Listed, more bool, err error) {
	l, err := h.Lineage(path)
	if err != nil {
		return nil, false, err
	}
	all, err := l.First(n + 1)
	if err == nil && len(all) == 0 {
		err = fault.New(fault.NotFound).Hintf("the journal has no file at this path; check the path")
	}
	if err != nil {
		return nil, false, err
	}
	for _, v := range all[:min(len(all), n)] {
		x := Listed{Version: v, Available: true}
		if v.M.SHA256 != "" {
			if x.Available, x.Erased, x.Problem, err = h.Kept(v); err != nil {
				return nil, false, err
			}
		}
		x.HeadNotKept = len(v.Later) == 0 && v.M.SHA256 != "" && (h.History == nil || !h.History.Has(v.M.SHA256))
		list = append(list, x)
	}
	return list, len(all) > n, nil
}

// Restore is a request for a file to become what it was.
type Restore struct {
	Op, Path string
	Seq      uint64 // of the version
	SHA256   string // or the newest version with this hash
	Force    bool

	// Take takes the bytes of the version and returns their hash. A file that is created
	// gets the mode.
	Take func(m *engine.Mutation, src io.Reader, mode uint32) (string, error)

	at  string // the path whose versions these are
	row uint64 // its newest one
}

// Plan finds the version, and returns it with the mutation that brings the file back to
// it, if the file is still what it was in the newest one.
func (r *Restore) Plan(h *history.Layer) (*engine.Mutation, *history.Version, error) {
	path, err := Path(h.Engine, r.Path)
	if err != nil {
		return nil, nil, err
	}
	l, err := h.Lineage(path)
	if err != nil {
		return nil, nil, err
	}
	v, err := l.Find(r.Seq, func(v *history.Version) bool { return v.Seq == r.Seq || r.SHA256 != "" && v.M.SHA256 == r.SHA256 })
	if errors.Is(err, fault.VersionNotFound) && r.SHA256 != "" && len(l.Got) > 0 {
		v, err = l.Foreign(r.SHA256)
	}
	if err != nil {
		return nil, nil, err
	}
	newest := l.Got[0]
	r.at, r.row = path, newest.Seq
	m := &engine.Mutation{Path: r.Path, Origin: v.Path, Op: engine.OpOverwrite, Kind: r.Op, Force: true, AllowShrink: true, Ungated: true}
	r.over(m, v, &newest.M)
	if at, err := Identity(h.Engine, r.Path); err != nil || at != path {
		m.Path, m.NoFollow = path, true // the name itself, as it was
	}
	return m, v, r.fill(h, m, v, newest)
}

// Again is Plan under the lock of the file: what another commit has made of the file since
// then may be replaced too.
func (r *Restore) Again(h *history.Layer, m *engine.Mutation, v *history.Version) error {
	row, _, newest, err := h.NewNewest().Of(r.at)
	if err != nil || newest == nil || row.Seq == r.row {
		return err
	}
	r.over(m, v, newest)
	if mode := newest.ModeBefore(); newest.SHA256 == "" && m.Op != engine.OpDelete && m.Perm == nil && mode != 0 && fsx.KindOf(mode) == fsx.Regular {
		m.Perm = &mode
	}
	return nil
}

// over makes the mutation one that replaces the newest version.
func (r *Restore) over(m *engine.Mutation, v *history.Version, newest *journal.Mutation) {
	if m.Former = nil; newest.SHA256 == "" {
		m.Former = newest
	}
	if !r.Force {
		m.Expected, m.ExpectJournalHash = &newest.SHA256, true
	}
	if v.M.Link() || newest.Link() {
		m.NoFollow, m.WasLink, m.Perm = true, newest.Link(), &v.M.Mode
	}
	if v.M.SHA256 == "" {
		m.Op, m.AbsentOK, m.Perm = engine.OpDelete, true, nil
	}
}

// fill takes the content of the version.
func (r *Restore) fill(h *history.Layer, m *engine.Mutation, v, newest *history.Version) error {
	if v.M.SHA256 == "" {
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
	if v.M.Link() || newest.M.Link() {
		mode = 0 // Perm is
	}
	sum, err := r.Take(m, src, mode)
	if err == nil && sum != v.M.SHA256 {
		m.DropSpooled()
		err = fault.New(fault.HashDriftOnRead).Hintf("the kept content of this version is damaged; restore another one")
	}
	return err
}
