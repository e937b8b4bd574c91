package observe

import (
	"bytes"
	"io"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Kept opens a version in history; nil if it is not there.
func (l *Layer) Kept(sha string, size int64) io.ReadCloser {
	if sha == engine.HashOf(nil) { // history holds no object for an empty file
		return io.NopCloser(bytes.NewReader(nil))
	}
	f, err := l.History.Open(sha)
	if err != nil {
		return nil
	}
	return engine.SectionCloser{Reader: io.NewSectionReader(f, 0, size), Closer: f}
}

// StartOf opens the first bytes of the current file: its content before an append; nil
// if there is no such file.
func (l *Layer) StartOf(path string, size int64) io.ReadCloser {
	t, err := l.LocateEntry(path)
	if err != nil {
		return nil
	}
	defer t.Close()
	if !t.Exists() {
		return nil
	}
	f, err := t.Parent.Open(t.Name, fsx.Read, 0)
	if err != nil {
		return nil
	}
	return engine.SectionCloser{Reader: io.NewSectionReader(f, 0, size), Closer: f}
}

// Open opens the object that has the bytes of a file according to a scan; nil if git
// does not have it.
func (g *Git) Open(path, object string) io.ReadCloser {
	if object == "" {
		return nil
	}
	data, err := g.Read(engine.ParentOf(path), object)
	if err != nil {
		return nil
	}
	return io.NopCloser(bytes.NewReader(data))
}

// ReadKept reads the content of a version to the end, and compares it with its hash.
func ReadKept(src io.ReadCloser, sha string) ([]byte, error) {
	if src == nil {
		return nil, fault.New(fault.VersionNotKept)
	}
	defer src.Close()
	data, err := io.ReadAll(io.LimitReader(src, engine.MergeLimit+1))
	if err == nil && engine.HashOf(data) != sha {
		err = fault.New(fault.HashDriftOnRead)
	}
	return data, err
}
