package resilientwrite

import (
	"bytes"
	"context"
	"io"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/history"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
)

// DiffRequest asks what changed between two versions of a file.
type DiffRequest struct {
	// Path of the file, relative to the workspace. The file need not exist any
	// more.
	Path string `json:"path" required:"true"`
	// The earlier version, from Store.History. Default: the newest version before
	// the other side that differs from it.
	From uint64 `json:"from,omitempty" min:"0"`
	// The later version. Default: the current file.
	To uint64 `json:"to,omitempty" min:"0"`
}

// DiffResult is the change between two versions of a file.
type DiffResult struct {
	// Path of the file, relative to the workspace.
	Path string `json:"path"`
	// The earlier version; 0 when there was none, so that the whole file is new.
	From uint64 `json:"from"`
	// The later version; 0 for the current file.
	To uint64 `json:"to"`
	// SHA-256 of the earlier version; empty where the file did not exist.
	FromSHA256 Digest `json:"from_sha256"`
	// SHA-256 of the later version; empty where the file did not exist.
	ToSHA256 Digest `json:"to_sha256"`
	// True when both versions are identical.
	Identical bool `json:"identical"`
	// Unified diff, at most 32 KiB; empty when there are no differences to show.
	Diff string `json:"diff"`
	// True when the diff was truncated.
	Truncated bool `json:"truncated"`
	// Why there is no diff although the versions differ.
	Omitted string `json:"omitted,omitempty" enum:"binary,too_large"`
}

// Diff returns the unified diff between two versions of a file, or between a
// version and the current file. The versions are those of [Store.History],
// including those of a file that another one replaced. Files that contain a NUL,
// or that together exceed 1 MiB, are compared only by their hashes. Errors: the
// path details, [ErrNotFound] for a path that is neither on disk nor in the
// journal, [ErrVersionNotFound], [ErrVersionNotKept], [ErrHashDriftOnRead], the
// storage details, [ErrStoreClosed]. Nothing is changed on disk.
func (s *Store) Diff(ctx context.Context, r DiffRequest) (DiffResult, error) {
	a, err := s.begin(ctx, "diff", r.Path, r)
	if err != nil {
		return DiffResult{}, err
	}
	out, err := s.diff(r)
	if err != nil {
		return DiffResult{}, a.failed(err)
	}
	s.engine.Leave()
	return out, nil
}

// side is one of the two versions that are compared.
type side struct {
	v    *history.Version // nil: the file as it is, or absence
	sha  string           // empty: the file was absent
	size int64
}

func sideOf(v *history.Version) side {
	if v == nil {
		return side{}
	}
	return side{v, v.M.SHA256, v.M.Bytes}
}

// seq returns the number of the version; 0 for the current file.
func (of side) seq() uint64 {
	if of.v == nil {
		return 0
	}
	return of.v.Seq
}

func (s *Store) diff(r DiffRequest) (DiffResult, error) {
	path, err := s.versioned(r.Path)
	if err != nil {
		return DiffResult{}, err
	}
	l, err := s.versions.Lineage(path)
	if err != nil {
		return DiffResult{}, err
	}
	from, to, err := s.sides(l, r)
	if err != nil {
		return DiffResult{}, err
	}
	out := DiffResult{
		Path: path, From: from.seq(), To: to.seq(), FromSHA256: digest(from.sha), ToSHA256: digest(to.sha), Identical: from.sha == to.sha,
	}
	if out.Identical {
		return out, nil
	}
	return out, s.compare(&out, from, to)
}

// sides finds the two versions to compare.
func (s *Store) sides(l *history.Lineage, r DiffRequest) (from, to side, err error) {
	newest, err := l.At(0)
	if err != nil {
		return from, to, err
	}
	var noFile error
	if r.To > 0 {
		to.v, err = l.Version(r.To)
		to = sideOf(to.v)
	} else if to.sha, to.size, err = s.onDisk(l.Path); newest != nil && s.engine.NoFile(err) {
		noFile, err = err, nil // what was there is known, and now it is not
	}
	if err != nil {
		return from, to, err
	}
	if newest == nil && to.sha == "" {
		return from, to, fault.New(fault.NotFound).Hintf("the path exists neither on disk nor in the journal; check it")
	}
	var v *history.Version
	if r.From > 0 {
		v, err = l.Version(r.From)
	} else {
		v, err = l.Before(to.v, to.sha)
	}
	if from = sideOf(v); err == nil && noFile != nil && from.sha == "" {
		err = noFile // a directory, before and now
	}
	return from, to, err
}

// onDisk returns the hash and the size of the current file; no hash if it does
// not exist.
func (s *Store) onDisk(path string) (sha string, size int64, err error) {
	f, size, err := s.engine.OpenCurrent(path)
	if err != nil {
		if engine.IsAbsent(err) {
			err = nil
		}
		return "", 0, err
	}
	defer f.Close()
	d, t, err := engine.Measure(f)
	return d.Hex(), t.Size, err
}

// compare fills in the diff of two sides that differ.
func (s *Store) compare(out *DiffResult, from, to side) error {
	if from.size+to.size > engine.DiffLimit {
		out.Omitted = "too_large"
		return nil
	}
	old, err := s.bytesOf(out.Path, from)
	if err != nil {
		return err
	}
	now, err := s.bytesOf(out.Path, to)
	if err != nil {
		return err
	}
	if bytes.IndexByte(old, 0) >= 0 || bytes.IndexByte(now, 0) >= 0 {
		out.Omitted = "binary"
		return nil
	}
	text := udiff.Unified("a/"+out.Path, "b/"+out.Path, string(old), string(now))
	out.Diff, out.Truncated = strings.ToValidUTF8(engine.CutDiff(text, engine.DiffCap), "�"), len(text) > engine.DiffCap
	return nil
}

// diffOf returns the diff of what an earlier commit did to its file, if the bytes
// before and after it are still available; otherwise it is empty.
func (s *Store) diffOf(rec *journal.Record) string {
	m := &rec.Muts[0]
	if m.SHA256 == "" || m.PrevBytes+m.Bytes > engine.DiffLimit || s.engine.History == nil || s.engine.EnterReader() != nil {
		return ""
	}
	defer s.engine.Leave()
	src, _, err := s.versions.ContentAt(m.Identity(), rec.Seq, m.Bytes)
	if err != nil {
		return ""
	}
	after, err := observe.ReadKept(src, m.SHA256)
	if err != nil {
		return ""
	}
	before, err := observe.ReadKept(s.observed.Kept(m.PrevSHA256, m.PrevBytes), m.PrevSHA256)
	if err != nil || bytes.IndexByte(before, 0) >= 0 || bytes.IndexByte(after, 0) >= 0 {
		return ""
	}
	return engine.UnifiedDiff(m.Path, before, after)
}

// bytesOf reads one side and compares it with its hash.
func (s *Store) bytesOf(path string, of side) ([]byte, error) {
	if of.sha == "" {
		return nil, nil
	}
	var src io.ReadCloser
	var err error
	if of.v != nil {
		src, _, err = s.versions.VersionContent(of.v)
	} else {
		src, _, err = s.engine.OpenCurrent(path)
	}
	if err != nil {
		return nil, err
	}
	return observe.ReadKept(src, of.sha)
}
