package resilientwrite

import (
	"errors"
	"io"
	"io/fs"

	"github.com/resilientwrite/resilientwrite/internal/blob"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// version is one row of a file's history.
type version struct {
	seq    uint64
	i      int // of the mutation
	m      journal.Mutation
	ts     string
	caller string
}

// versions follows the rows of a path back, at most n, newest first. A row
// that moved the file here leads on to the rows of its old path.
func (s *Store) versions(path string, n int) ([]version, error) { return s.rowsOf(path, n, true) }

// rowsOf is versions, which follow moves, or the rows of the path alone: they
// also tell of files that a move replaced.
func (s *Store) rowsOf(path string, n int, follow bool) ([]version, error) {
	if s.log == nil {
		return nil, nil
	}
	if s.behind != nil { // what is settled behind goes into history only then
		if err := s.behind.drain(); err != nil {
			return nil, err
		}
	}
	if err := s.log.CatchUp(); err != nil && !s.opts.ReadOnly {
		return nil, err
	}
	last, err := s.lastRow(path)
	if err != nil {
		return nil, err
	}
	var list []version
	for seq := last.Seq; seq > 0 && len(list) < n; {
		rec, err := s.log.Find(seq)
		if errors.Is(err, journal.ErrNotFound) {
			break
		}
		if err != nil {
			return nil, err
		}
		i := mutationOf(rec, path)
		if i < 0 {
			break
		}
		m := rec.Muts[i]
		list = append(list, version{seq: rec.Seq, i: i, m: m, ts: rec.TS, caller: rec.Caller})
		seq = m.PrevSeq
		if m.From != "" && follow {
			if j := mutationOf(rec, m.From); j >= 0 {
				path, seq = m.From, rec.Muts[j].PrevSeq
			}
		}
	}
	return list, nil
}

// mutationOf is the index of the mutation of a path in a record, -1 for none.
func mutationOf(rec *journal.Record, path string) int {
	for i := range rec.Muts {
		if rec.Muts[i].Identity() == path {
			return i
		}
	}
	return -1
}

// available reports whether the bytes of the last of some versions, newest
// first, can be had.
func (s *Store) available(list []version) bool {
	r, _, err := s.versionContent(list)
	if err != nil {
		return false
	}
	r.Close()
	return true
}

// versionContent opens the bytes of the last of some versions, newest first:
// in history, in the file itself, or, for what was appended to, as the first
// part of the version behind it.
func (s *Store) versionContent(list []version) (io.ReadCloser, int64, error) {
	v := list[len(list)-1]
	if v.m.SHA256 == "" {
		return nil, 0, fail(VersionNotKept).hint("the file was not there in this version")
	}
	if s.history != nil {
		if f, err := s.history.Open(v.m.SHA256); err == nil {
			return sectionCloser{io.NewSectionReader(f, 0, v.m.Bytes), f}, v.m.Bytes, nil
		} else if !isAbsent(err) && !errors.Is(err, blob.ErrDamaged) {
			return nil, 0, err
		}
	}
	if len(list) == 1 {
		return s.currentContent(v)
	}
	next := list[len(list)-2]
	switch {
	case next.m.SHA256 == v.m.SHA256, next.m.How == howAppend && next.m.PrevSHA256 == v.m.SHA256: // moved, or left as it was
		return firstBytes(list[:len(list)-1], v.m.Bytes, s)
	case next.m.How == howUnlink && next.m.PrevSHA256 == v.m.SHA256:
		return s.movedContent(next.seq, v.m.Identity(), v.m.Bytes)
	}
	return nil, 0, s.notKept(v.m.SHA256)
}

// notKept is the error of a version whose bytes are gone; it tells when they
// were erased.
func (s *Store) notKept(sha string) *Error {
	e := fail(VersionNotKept)
	if s.history == nil || !s.history.Erased(sha) {
		return e
	}
	return e.with("erased", true).hint("the operator erased the bytes of this version because they held a secret")
}

// isErased reports whether the last of some versions, newest first, cannot be
// had because it, or the one whose beginning it is, was erased.
func (s *Store) isErased(list []version) bool {
	r, _, err := s.versionContent(list)
	if err == nil {
		r.Close()
	}
	var e *Error
	return errors.As(err, &e) && e.Context["erased"] == true
}

// firstBytes opens the first size bytes of the last of some versions.
func firstBytes(list []version, size int64, s *Store) (io.ReadCloser, int64, error) {
	r, have, err := s.versionContent(list)
	if err != nil {
		return nil, 0, err
	}
	if have < size {
		r.Close()
		return nil, 0, fail(VersionNotKept)
	}
	return sectionCloser{io.LimitReader(r, size), r}, size, nil
}

// movedContent opens what a file held when the commit seq moved it away: the
// bytes went on under the new name, and history may not have them.
func (s *Store) movedContent(seq uint64, path string, size int64) (io.ReadCloser, int64, error) {
	rec, err := s.log.Find(seq)
	if err != nil {
		return nil, 0, fail(VersionNotKept)
	}
	for i := range rec.Muts {
		if rec.Muts[i].From == path {
			return s.contentAt(rec.Muts[i].Identity(), seq, size)
		}
	}
	return nil, 0, fail(VersionNotKept)
}

// contentAt opens the first size bytes of what a file held after the commit
// seq.
func (s *Store) contentAt(path string, seq uint64, size int64) (io.ReadCloser, int64, error) {
	list, err := s.rowsOf(path, maxVersions, false)
	if err != nil {
		return nil, 0, err
	}
	for i := range list {
		if list[i].seq == seq {
			return firstBytes(list[:i+1], size, s)
		}
	}
	return nil, 0, fail(VersionNotKept)
}

// currentContent opens the file itself, when it still is what the version was.
func (s *Store) currentContent(v version) (io.ReadCloser, int64, error) {
	f, size, err := s.openCurrent(v.m.Identity())
	if isAbsent(err) {
		err = s.notKept(v.m.SHA256)
	}
	if err != nil {
		return nil, 0, err
	}
	if size != v.m.Bytes {
		f.Close()
		return nil, 0, s.notKept(v.m.SHA256)
	}
	return f, size, nil
}

// openCurrent opens a file as it is.
func (s *Store) openCurrent(path string) (io.ReadCloser, int64, error) {
	t, err := s.locate(path)
	if err != nil {
		return nil, 0, err
	}
	defer t.Close()
	if !t.Exists() {
		return nil, 0, fs.ErrNotExist
	}
	f, err := t.Parent.Open(t.Name, fsx.Read, 0)
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return sectionCloser{io.NewSectionReader(f, 0, st.Size), f}, st.Size, nil
}

type sectionCloser struct {
	io.Reader
	io.Closer
}
