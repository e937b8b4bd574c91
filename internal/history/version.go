package history

import (
	"bytes"
	"errors"
	"io"

	"github.com/resilientwrite/resilientwrite/internal/blob"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// Kept reports whether the bytes of a version can be read; if not, erased reports whether
// that is so because it, or the version that begins with it, was erased, and problem
// what is wrong if it may be kept. It fails if too many files are open to find out.
func (s *Layer) Kept(v *Version) (kept, erased bool, problem fault.Code, err error) {
	r, _, err := s.VersionContent(v)
	if err == nil {
		r.Close()
		return true, false, "", nil
	}
	if engine.IsShortage(err) {
		return false, false, "", err
	}
	e := s.ErrorOf(err)
	if problem = e.Code; problem == fault.VersionNotKept {
		problem = ""
	}
	return false, e.Context["erased"] == true, problem, nil
}

// VersionContent opens the bytes of a version: in history, in the file itself,
// or, for what was appended to or moved, as the first part of a later version.
func (s *Layer) VersionContent(v *Version) (io.ReadCloser, int64, error) {
	if v.M.SHA256 == "" {
		return nil, 0, fault.New(fault.VersionNotKept).Hintf("the file did not exist in this version")
	}
	if v.M.SHA256 == engine.HashOf(nil) { // history holds no object for it
		return io.NopCloser(bytes.NewReader(nil)), 0, nil
	}
	for at := v; ; {
		r, have, err := s.heldContent(at)
		if err != nil {
			return nil, 0, err
		}
		if r != nil {
			return firstBytes(r, have, v.M.Bytes)
		}
		heir, moved := at.heir()
		switch {
		case len(at.Later) == 0:
			r, have, err := s.currentContent(at)
			if s.Log.CatchUp(); s.replaced(at) { // meanwhile
				if err == nil {
					r.Close()
				}
				return s.ContentAt(v.Path, v.Seq, v.M.Bytes)
			}
			if err != nil {
				return nil, 0, err
			}
			return firstBytes(r, have, v.M.Bytes)
		case heir == nil:
			return nil, 0, s.NotKept(at.M.SHA256)
		case moved: // or deleted
			r, have, err := s.MovedContent(heir.Seq, at.Path, v.M.Bytes)
			if gone := s.NotKept(at.M.SHA256); err != nil && gone.Context["erased"] == true {
				err = gone
			}
			return r, have, err
		}
		at = heir
	}
}

// replaced reports whether a commit has changed the file of a newest version since.
func (s *Layer) replaced(v *Version) bool {
	last, err := s.LastRow(v.Path)
	return err == nil && last.Seq != v.Seq
}

// heldContent opens the content of a version in history; nil if history does not have it.
func (s *Layer) heldContent(v *Version) (io.ReadCloser, int64, error) {
	var by []*journal.Mutation
	for _, next := range v.Later {
		by = append(by, &next.M)
	}
	if f, err := s.OpenVersion(v.M.SHA256, by...); err == nil {
		return engine.SectionCloser{Reader: io.NewSectionReader(f, 0, v.M.Bytes), Closer: f}, v.M.Bytes, nil
	} else if !engine.IsAbsent(err) && !errors.Is(err, blob.ErrDamaged) {
		return nil, 0, err
	}
	return nil, 0, nil
}

// heir returns the later version that begins with the bytes of v: one that was
// left unchanged, moved, or appended to. If the bytes continued under a name
// outside the lineage, it returns the version that records the move.
func (v *Version) heir() (heir *Version, moved bool) {
	for _, next := range v.Later {
		if next.M.SHA256 == v.M.SHA256 || next.M.PaySHA256 != "" && next.M.PrevSHA256 == v.M.SHA256 {
			return next, false
		}
	}
	for _, next := range v.Later {
		if next.M.SHA256 == "" && next.M.PrevSHA256 == v.M.SHA256 {
			return next, true
		}
	}
	return nil, false
}

// NotKept returns the error of a version whose bytes are gone. If they were
// erased, it reports when.
func (s *Layer) NotKept(sha string) *fault.Fault {
	e := fault.New(fault.VersionNotKept)
	if s.History == nil || !s.History.Erased(sha) {
		return e
	}
	return e.With("erased", true).Hintf("the operator erased the content of this version because it contained a secret")
}

// firstBytes returns the first size bytes of the have bytes of r.
func firstBytes(r io.ReadCloser, have, size int64) (io.ReadCloser, int64, error) {
	switch {
	case have < size:
		r.Close()
		return nil, 0, fault.New(fault.VersionNotKept)
	case have == size:
		return r, size, nil
	}
	return engine.SectionCloser{Reader: io.LimitReader(r, size), Closer: r}, size, nil
}

// MovedContent opens what a file held when the commit seq moved it away: the
// bytes continued under the new name, and history may not have them.
func (s *Layer) MovedContent(seq uint64, path string, size int64) (io.ReadCloser, int64, error) {
	rec, err := s.Log.Find(seq)
	if errors.Is(err, journal.ErrNotFound) {
		err = fault.New(fault.VersionNotKept)
	}
	if err != nil {
		return nil, 0, err
	}
	for i := range rec.Muts {
		if rec.Muts[i].From == path {
			return s.ContentAt(rec.Muts[i].Identity(), seq, size)
		}
	}
	return nil, 0, fault.New(fault.VersionNotKept)
}

// ContentAt opens the first size bytes of what a file held after the commit
// seq.
func (s *Layer) ContentAt(path string, seq uint64, size int64) (io.ReadCloser, int64, error) {
	l, err := s.Lineage(path)
	if err != nil {
		return nil, 0, err
	}
	v, err := l.Version(seq)
	if errors.Is(err, fault.VersionNotFound) {
		err = fault.New(fault.VersionNotKept)
	}
	if err != nil {
		return nil, 0, err
	}
	r, have, err := s.VersionContent(v)
	if err != nil {
		return nil, 0, err
	}
	return firstBytes(r, have, size)
}

// currentContent opens the file itself, if it still is what the version was.
func (s *Layer) currentContent(v *Version) (io.ReadCloser, int64, error) {
	f, size, err := s.OpenCurrent(v.Path)
	if engine.IsAbsent(err) {
		err = s.NotKept(v.M.SHA256)
	}
	if err != nil {
		return nil, 0, err
	}
	if size != v.M.Bytes {
		f.Close()
		return nil, 0, s.NotKept(v.M.SHA256)
	}
	return f, size, nil
}
