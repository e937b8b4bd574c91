// Package excerpt reads a part of a file, or of an earlier version of it, with the facts
// of the whole.
package excerpt

import (
	"io"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/history"
)

// Part is a part of a file.
type Part struct {
	RealPath string // of a symbolic link
	Content  []byte
	Offset   int64 // of the content

	// Of the whole file.
	SHA    string
	Bytes  int64
	Traits engine.Traits
	Mode   uint32
}

// Current reads at most limit bytes of the file at a path.
func Current(e *engine.Engine, rel string, offset, limit int64) (p Part, err error) {
	target, err := e.Tree.Resolve(rel)
	if err != nil {
		return p, err
	}
	defer target.Close()
	if !target.Exists() {
		return p, fault.New(fault.NotFound)
	}
	f, err := target.Parent.Open(target.Name, fsx.Read, 0)
	if err != nil {
		return p, err
	}
	defer f.Close()
	if target.Path != rel {
		p.RealPath = target.Path
	}
	st, err := f.Stat()
	if err != nil {
		return p, err
	}
	known, err := measured(e, f, st)
	if err != nil {
		return p, err
	}
	p.SHA, p.Bytes, p.Traits, p.Mode = known.SHA, known.Traits.Size, known.Traits, st.Mode
	p.Offset = min(offset, p.Bytes)
	p.Content = make([]byte, min(limit, p.Bytes-p.Offset))
	n, err := f.ReadAt(p.Content, p.Offset)
	if err != nil && err != io.EOF {
		return p, err
	}
	p.Content = p.Content[:n]
	return p, nil
}

// measured returns the facts of an open file, from the cache if its stat is known.
func measured(e *engine.Engine, f fsx.File, st fsx.Stat) (engine.HashEntry, error) {
	known, ok := e.Hashes.Get(st)
	if ok {
		return known, nil
	}
	d, t, err := engine.Measure(io.NewSectionReader(f, 0, st.Size))
	if err != nil {
		return known, err
	}
	known = engine.HashEntry{SHA: d.Hex(), State: d.State(), Traits: t}
	if now, err := f.Stat(); err == nil && engine.IDOf(now) == engine.IDOf(st) && t.Size == st.Size {
		e.Hashes.Put(st, known)
	}
	return known, nil
}

// Version reads at most limit bytes of the version that the commit seq made.
func Version(h *history.Layer, path string, seq uint64, offset, limit int64) (p Part, err error) {
	l, err := h.Lineage(path)
	if err != nil {
		return p, err
	}
	v, err := l.Version(seq)
	if err != nil {
		return p, err
	}
	src, size, err := h.VersionContent(v)
	if err != nil {
		return p, err
	}
	defer src.Close()
	w := &Window{From: offset, Left: limit}
	d, t, err := engine.Measure(io.TeeReader(src, w))
	if err != nil {
		return p, err
	}
	if d.Hex() != v.M.SHA256 {
		return p, fault.New(fault.HashDriftOnRead)
	}
	return Part{Content: w.Got, Offset: min(offset, size), SHA: v.M.SHA256, Bytes: size, Traits: t, Mode: v.M.Mode}, nil
}

// Window keeps the Left bytes after the first From of what is written to it.
type Window struct {
	From, Left int64
	At         int64 // bytes that were written
	Got        []byte
}

func (w *Window) Write(p []byte) (int, error) {
	begin := min(max(w.From-w.At, 0), int64(len(p)))
	end := min(begin+w.Left, int64(len(p)))
	w.Got = append(w.Got, p[begin:end]...)
	w.Left -= end - begin
	w.At += int64(len(p))
	return len(p), nil
}
