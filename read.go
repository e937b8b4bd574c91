package resilientwrite

import (
	"context"
	"io"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// ReadRequest asks for the bytes of one file.
type ReadRequest struct {
	// Path of the file, relative to the workspace.
	Path string `json:"path" required:"true"`
	// An earlier version, from Store.History. Default: the current file.
	Version uint64 `json:"version,omitempty" min:"0"`
	// Offset of the first byte to return.
	Offset int64 `json:"offset,omitempty" min:"0"`
	// Maximum bytes of content to return; 0 means 1 MiB.
	MaxBytes int64 `json:"max_bytes,omitempty" min:"0"`
}

// ReadResult is a file, or a part of it, with what the next write needs.
type ReadResult struct {
	// Path of the file, relative to the workspace.
	Path string `json:"path"`
	// Resolved path of a symbolic link.
	RealPath string `json:"real_path,omitempty"`
	// The requested bytes, as text or base64.
	Content []byte `json:"content"`
	// SHA-256 of the whole file; pass it as expected_prev_sha256 when you replace
	// it.
	SHA256 Digest `json:"sha256"`
	// Size of the whole file in bytes.
	Bytes int64 `json:"bytes"`
	// Offset of the first byte returned.
	Offset int64 `json:"offset"`
	// True when the file continues after the returned bytes.
	Truncated bool `json:"truncated"`
	// Line endings of the whole file.
	EOL string `json:"eol" enum:"none,lf,crlf,mixed"`
	// True when the file begins with a byte order mark.
	BOM bool `json:"bom"`
	// Permission bits, octal.
	Mode string `json:"mode"`
}

const (
	defaultRead = 1 << 20  // bytes
	maxRead     = 64 << 20 // bytes
)

// Read returns a file, or a part of it, with its hash, which the next write
// passes as expected_prev_sha256. Symbolic links inside the workspace are
// followed.
//
// Errors: the path details, [ErrNotFound], [ErrVersionNotFound],
// [ErrVersionNotKept], [ErrIsADirectory], [ErrNotARegularFile], the storage
// details, [ErrStoreClosed]. Nothing is changed on disk.
func (s *Store) Read(ctx context.Context, r ReadRequest) (ReadResult, error) {
	a, err := s.begin(ctx, "read", r.Path, r)
	if err != nil {
		return ReadResult{}, err
	}
	out, err := s.read(ctx, r)
	if err != nil {
		e := a.failed(err)
		if e.Path == "" && relPathShown(e) {
			e.Path = s.hideName(out.Path)
		}
		return ReadResult{}, e
	}
	s.engine.Leave()
	return out, nil
}

// relPathShown reports whether the path of a request may appear in the error: a
// path that was itself refused may name something outside.
func relPathShown(e *Error) bool {
	switch e.Detail {
	case ErrAbsolutePathRejected, ErrEscapesWorkspace, ErrInvalidPath, ErrPathTooLong:
		return false
	}
	return true
}

func (s *Store) read(ctx context.Context, r ReadRequest) (ReadResult, error) {
	var out ReadResult
	limit := r.MaxBytes
	if limit == 0 {
		limit = defaultRead
	}
	switch {
	case limit < 0 || r.Offset < 0:
		return out, fault.New(fault.InvalidArgument).Hintf("offset and max_bytes must not be negative")
	case limit > maxRead:
		return out, fault.New(fault.TooLarge).Hintf("read the file in parts of at most %d bytes, with offset", maxRead)
	}
	rel, _, err := relpath.Clean(r.Path, s.engine.Tree.Rules)
	if err != nil {
		return out, err
	}
	out.Path = rel
	if r.Version > 0 {
		return s.readVersion(out, r, limit)
	}
	target, err := s.engine.Tree.Resolve(rel)
	if err != nil {
		return out, err
	}
	defer target.Close()
	if !target.Exists() {
		return out, fault.New(fault.NotFound)
	}
	f, err := target.Parent.Open(target.Name, fsx.Read, 0)
	if err != nil {
		return out, err
	}
	defer f.Close()
	if target.Path != rel {
		out.RealPath = target.Path
	}
	return out, s.readInto(&out, f, r, limit)
}

// readInto fills in the result from the open file.
func (s *Store) readInto(out *ReadResult, f fsx.File, r ReadRequest, limit int64) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	known, ok := s.engine.Hashes.Get(st)
	if !ok {
		d, t, err := engine.Measure(io.NewSectionReader(f, 0, st.Size))
		if err != nil {
			return err
		}
		known = engine.HashEntry{SHA: d.Hex(), State: d.State(), Traits: t}
		if now, err := f.Stat(); err == nil && engine.IDOf(now) == engine.IDOf(st) && t.Size == st.Size {
			s.engine.Hashes.Put(st, known)
		}
	}
	size := known.Traits.Size
	out.SHA256, out.Bytes, out.Offset = digest(known.SHA), size, min(r.Offset, size)
	out.EOL, out.BOM, out.Mode = known.Traits.EOL(), known.Traits.BOM, engine.Octal(st.Mode)
	part := make([]byte, min(limit, size-out.Offset))
	if n, err := f.ReadAt(part, out.Offset); err != nil && err != io.EOF {
		return err
	} else if n < len(part) {
		part = part[:n]
	}
	out.show(part)
	return nil
}

// show puts the requested part of the file into the reply.
func (out *ReadResult) show(part []byte) {
	out.Content, out.Truncated = part, out.Offset+int64(len(part)) < out.Bytes
}

// readVersion is read for an earlier version of the file.
func (s *Store) readVersion(out ReadResult, r ReadRequest, limit int64) (ReadResult, error) {
	path, err := s.versioned(r.Path)
	if err != nil {
		return out, err
	}
	l, err := s.versions.Lineage(path)
	if err != nil {
		return out, err
	}
	v, err := l.Version(r.Version)
	if err != nil {
		return out, err
	}
	src, size, err := s.versions.VersionContent(v)
	if err != nil {
		return out, err
	}
	defer src.Close()
	part := &window{from: r.Offset, left: limit}
	d, t, err := engine.Measure(io.TeeReader(src, part))
	if err != nil {
		return out, err
	}
	if d.Hex() != v.M.SHA256 {
		return out, fault.New(fault.HashDriftOnRead)
	}
	out.SHA256, out.Bytes, out.Offset = digest(v.M.SHA256), size, min(r.Offset, size)
	out.EOL, out.BOM, out.Mode = t.EOL(), t.BOM, engine.Octal(v.M.Mode)
	out.show(part.got)
	return out, nil
}
