package resilientwrite

import (
	"bytes"
	"context"
	"io"
	"strings"

	"github.com/aymanbagabas/go-udiff"
)

const (
	diffLimit = 1 << 20  // bytes of both sides together that are compared
	diffCap   = 32 << 10 // bytes of a diff that are shown
)

// unifiedDiff is the change of one file, cut off at a line when it is long.
func unifiedDiff(path string, before, after []byte) string {
	return cutDiff(udiff.Unified("a/"+path, "b/"+path, string(before), string(after)), diffCap)
}

func cutDiff(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	cut := strings.LastIndexByte(text[:limit], '\n') + 1
	return text[:cut] + "… cut off\n"
}

// errorLines is how many lines of a file an error may show.
const errorLines = 20

// firstLines cuts a text off behind n lines, and long lines behind 200 bytes.
func firstLines(text string, n int) string {
	lines := strings.SplitAfterN(text, "\n", n+1)
	if len(lines) > n {
		lines[n] = "… cut off\n"
	}
	for i, l := range lines {
		if len(l) > 200 {
			lines[i] = strings.ToValidUTF8(l[:200], "") + "…\n"
		}
	}
	return strings.Join(lines, "")
}

// DiffRequest asks what changed between two versions of a file.
type DiffRequest struct {
	Path string `json:"path" required:"true" desc:"Path of the file, relative to the workspace. The file need not be there any more."`
	From uint64 `json:"from,omitempty" min:"0" desc:"The earlier version, from rw_history; absent means the newest one before the other side that differs from it."`
	To   uint64 `json:"to,omitempty" min:"0" desc:"The later version; absent means the file as it is."`
}

// DiffResult is the change between two versions of a file.
type DiffResult struct {
	Path       string `json:"path" desc:"Path of the file, relative to the workspace."`
	From       uint64 `json:"from" desc:"The earlier version; 0 when there was none, so that the whole file is new."`
	To         uint64 `json:"to" desc:"The later version; 0 for the file as it is."`
	FromSHA256 string `json:"from_sha256" desc:"SHA-256 of the earlier version; empty where the file was absent."`
	ToSHA256   string `json:"to_sha256" desc:"SHA-256 of the later version; empty where the file was absent."`
	Identical  bool   `json:"identical" desc:"True when both hold the same bytes."`
	Diff       string `json:"diff" desc:"Unified diff, at most 32 KiB; empty when there is nothing to show."`
	Truncated  bool   `json:"truncated" desc:"True when the diff goes on."`
	Omitted    string `json:"omitted,omitempty" enum:"binary,too_large" desc:"Why there is no diff although the versions differ."`
}

// Diff returns the unified diff between two versions of a file, or between a
// version and the file as it is. Two files that hold a NUL, or more than 1 MiB
// together, are compared by their hashes alone. Errors: the path details,
// [NotFound] for a path that neither the disk nor the journal knows,
// [VersionNotFound], [VersionNotKept], [HashDriftOnRead], the storage details,
// [StoreClosed]. Nothing is changed on disk.
func (s *Store) Diff(ctx context.Context, r DiffRequest) (DiffResult, error) {
	a, err := s.begin(ctx, "diff", r.Path, r)
	if err != nil {
		return DiffResult{}, err
	}
	out, err := s.diff(r)
	if err != nil {
		return DiffResult{}, a.failed(err)
	}
	s.leave()
	return out, nil
}

// side is one of two things that are compared.
type side struct {
	seq  uint64
	sha  string // empty: the file was absent
	size int64
	at   int // index of the version in the list; -1 for the file as it is
}

func (s *Store) diff(r DiffRequest) (DiffResult, error) {
	path, err := s.identity(r.Path)
	if err != nil {
		return DiffResult{}, err
	}
	list, err := s.versions(path, maxVersions)
	if err != nil {
		return DiffResult{}, err
	}
	to := side{at: -1}
	if r.To > 0 {
		to, err = sideOf(list, r.To)
	} else {
		to.sha, to.size, err = s.onDisk(path)
	}
	if err != nil {
		return DiffResult{}, err
	}
	if len(list) == 0 && to.sha == "" {
		return DiffResult{}, fail(NotFound).hint("neither the disk nor the journal knows this path; check it")
	}
	from := before(list, to)
	if r.From > 0 {
		if from, err = sideOf(list, r.From); err != nil {
			return DiffResult{}, err
		}
	}
	out := DiffResult{
		Path: path, From: from.seq, To: to.seq, FromSHA256: from.sha, ToSHA256: to.sha, Identical: from.sha == to.sha,
	}
	if out.Identical {
		return out, nil
	}
	return out, s.compare(&out, list, from, to)
}

// sideOf finds a version in the list.
func sideOf(list []version, seq uint64) (side, error) {
	for i, v := range list {
		if v.seq == seq {
			return side{seq: seq, sha: v.m.SHA256, size: v.m.Bytes, at: i}, nil
		}
	}
	return side{}, fail(VersionNotFound)
}

// before is the newest version in front of one side that differs from it, and
// absence when there is none.
func before(list []version, of side) side {
	for i := of.at + 1; i < len(list); i++ {
		if v := list[i]; v.m.SHA256 != of.sha {
			return side{seq: v.seq, sha: v.m.SHA256, size: v.m.Bytes, at: i}
		}
	}
	return side{at: len(list)}
}

// onDisk is the hash and the size of a file as it is; no hash when it is not
// there.
func (s *Store) onDisk(path string) (sha string, size int64, err error) {
	f, size, err := s.openCurrent(path)
	if err != nil {
		if isAbsent(err) {
			err = nil
		}
		return "", 0, err
	}
	defer f.Close()
	d, t, err := measure(f)
	return d.hex(), t.size, err
}

// compare fills in the diff of two sides that differ.
func (s *Store) compare(out *DiffResult, list []version, from, to side) error {
	if from.size+to.size > diffLimit {
		out.Omitted = "too_large"
		return nil
	}
	old, err := s.bytesOf(out.Path, list, from)
	if err != nil {
		return err
	}
	now, err := s.bytesOf(out.Path, list, to)
	if err != nil {
		return err
	}
	if bytes.IndexByte(old, 0) >= 0 || bytes.IndexByte(now, 0) >= 0 {
		out.Omitted = "binary"
		return nil
	}
	text := udiff.Unified("a/"+out.Path, "b/"+out.Path, string(old), string(now))
	out.Diff, out.Truncated = strings.ToValidUTF8(cutDiff(text, diffCap), "�"), len(text) > diffCap
	return nil
}

// bytesOf reads one side and compares it with its hash.
func (s *Store) bytesOf(path string, list []version, of side) ([]byte, error) {
	if of.sha == "" {
		return nil, nil
	}
	var src io.ReadCloser
	var err error
	if of.at >= 0 {
		src, _, err = s.versionContent(list[:of.at+1])
	} else {
		src, _, err = s.openCurrent(path)
	}
	if err != nil {
		return nil, err
	}
	defer src.Close()
	data, err := io.ReadAll(io.LimitReader(src, diffLimit+1))
	if err == nil && hashOf(data) != of.sha {
		err = fail(HashDriftOnRead)
	}
	return data, err
}
