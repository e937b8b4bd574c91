package versions

import (
	"bytes"
	"io"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/history"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
	"github.com/resilientwrite/resilientwrite/internal/merge"
)

// Diff is the difference between two versions of a file. The numbers are those of
// versions; 0 is the current file, or absence.
type Diff struct {
	From, To             uint64
	FromSHA256, ToSHA256 string
	Text                 string
	Truncated            bool
	Omitted              string // why there is no text: binary, too_large
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

// Compare returns the difference between two versions of a path. From 0 is the newest
// version before the other one that differs from it, to 0 the current file.
func Compare(h *history.Layer, path string, from, to uint64) (out Diff, err error) {
	for range 3 { // the current file may change after it was hashed
		out, err = compare(h, path, from, to)
		if err == nil || to > 0 || !engine.IsAbsent(err) && h.ErrorOf(err).Code != fault.HashDriftOnRead {
			break
		}
	}
	return out, err
}

func compare(h *history.Layer, path string, from, to uint64) (out Diff, err error) {
	l, err := h.Lineage(path)
	if err != nil {
		return out, err
	}
	old, now, err := sides(h, l, from, to)
	if err != nil {
		return out, err
	}
	out = Diff{From: old.seq(), To: now.seq(), FromSHA256: old.sha, ToSHA256: now.sha}
	if old.sha != now.sha {
		err = out.compare(h, path, old, now)
	}
	return out, err
}

// sides finds the two versions to compare.
func sides(h *history.Layer, l *history.Lineage, a, b uint64) (from, to side, err error) {
	newest, err := l.At(0)
	if err != nil {
		return from, to, err
	}
	var noFile error
	if b > 0 {
		to.v, err = l.Version(b)
		to = sideOf(to.v)
	} else if to.sha, to.size, err = h.HashEntry(l.Path); newest != nil && h.NoFile(err) {
		noFile, err = err, nil // what was there is known, and now it is not
	}
	if err != nil {
		return from, to, err
	}
	if newest == nil && to.sha == "" {
		return from, to, fault.New(fault.NotFound).Hintf("the path exists neither on disk nor in the journal; check it")
	}
	var v *history.Version
	if a > 0 {
		v, err = l.Version(a)
	} else {
		v, err = l.Before(to.v, to.sha)
	}
	if from = sideOf(v); err == nil && noFile != nil && from.sha == "" {
		err = noFile // a directory, before and now
	}
	return from, to, err
}

// compare fills in the diff of two sides that differ.
func (out *Diff) compare(h *history.Layer, path string, from, to side) error {
	if from.size+to.size > engine.DiffLimit {
		out.Omitted = "too_large"
		return nil
	}
	old, err := bytesOf(h, path, from)
	if err != nil {
		return err
	}
	now, err := bytesOf(h, path, to)
	if err != nil {
		return err
	}
	if bytes.IndexByte(old, 0) >= 0 || bytes.IndexByte(now, 0) >= 0 {
		out.Omitted = "binary"
		return nil
	}
	a, b := merge.Names(path)
	text := udiff.Unified(a, b, string(old), string(now))
	out.Text, out.Truncated = strings.ToValidUTF8(engine.CutDiff(text, engine.DiffCap), "�"), len(text) > engine.DiffCap
	return nil
}

// DiffOf returns the diff of what an earlier commit did to its file, if the bytes
// before and after it are still available; otherwise it is empty.
func DiffOf(h *history.Layer, l *observe.Layer, rec *journal.Record) string {
	m := &rec.Muts[0]
	if m.SHA256 == "" || m.PrevBytes+m.Bytes > engine.DiffLimit || h.History == nil || h.EnterReader() != nil {
		return ""
	}
	defer h.Leave()
	src, _, err := h.ContentAt(m.Identity(), rec.Seq, m.Bytes)
	if err != nil {
		return ""
	}
	after, err := observe.ReadKept(src, m.SHA256)
	if err != nil {
		return ""
	}
	if src, err = l.Kept(m.PrevSHA256, m.PrevBytes); err != nil {
		return ""
	}
	before, err := observe.ReadKept(src, m.PrevSHA256)
	if err != nil || bytes.IndexByte(before, 0) >= 0 || bytes.IndexByte(after, 0) >= 0 {
		return ""
	}
	return engine.UnifiedDiff(m.Path, before, after)
}

// bytesOf reads one side and compares it with its hash.
func bytesOf(h *history.Layer, path string, of side) ([]byte, error) {
	if of.sha == "" {
		return nil, nil
	}
	var src io.ReadCloser
	var err error
	if of.v != nil {
		src, _, err = h.VersionContent(of.v)
	} else {
		src, _, err = h.OpenCurrent(path)
	}
	if err != nil {
		return nil, err
	}
	return observe.ReadKept(src, of.sha)
}
