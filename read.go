package resilientwrite

import (
	"cmp"
	"context"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/excerpt"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/versions"
)

// ReadRequest asks for the bytes of one file.
type ReadRequest struct {
	Path string `json:"path" required:"true"` // Path of the file, relative to the workspace.
	// An earlier version, from Store.History. Default: the current file.
	Version uint64 `json:"version,omitempty" min:"0"`
	Offset  int64  `json:"offset,omitempty" min:"0"` // Offset of the first byte to return.
	// Maximum bytes of content to return; 0 means 1 MiB.
	MaxBytes int64 `json:"max_bytes,omitempty" min:"0"`
}

// ReadResult is a file, or a part of it, with what the next write needs.
type ReadResult struct {
	Path     string `json:"path"`                // Path of the file, relative to the workspace.
	RealPath string `json:"real_path,omitempty"` // Resolved path of a symbolic link.
	Content  []byte `json:"content"`             // The requested bytes, as text or base64.
	// SHA-256 of the whole file; pass it as expected_prev_sha256 when you replace
	// it.
	SHA256    Digest `json:"sha256"`
	Bytes     int64  `json:"bytes"`     // Size of the whole file in bytes.
	Offset    int64  `json:"offset"`    // Offset of the first byte returned.
	Truncated bool   `json:"truncated"` // True when the file continues after the returned bytes.
	// Line endings of the whole file.
	EOL string `json:"eol" enum:"none,lf,crlf,mixed"`
	// True when the file begins with a byte order mark.
	BOM  bool   `json:"bom"`
	Mode string `json:"mode"` // Permission bits, octal.
}

const (
	defaultRead = 1 << 20  // bytes
	maxRead     = 64 << 20 // bytes
)

// Read returns a file, or a part of it, with its hash, which the next write
// passes as expected_prev_sha256. Symbolic links inside the workspace are
// followed.
//
// Errors: the common ones, the path details, [ErrNotFound],
// [ErrVersionNotFound], [ErrVersionNotKept], [ErrIsADirectory],
// [ErrNotARegularFile].
func (s *Store) Read(ctx context.Context, r ReadRequest) (ReadResult, error) {
	path := ""
	out, err := reading(ctx, s, "read", r.Path, r, func() (ReadResult, error) {
		out, err := s.read(r)
		path = out.Path
		return out, err
	})
	if err != nil {
		return ReadResult{}, s.errorAt("read", path, err)
	}
	return out, nil
}

// errorAt returns an error with the path of the request, unless that was itself refused:
// it may name something outside.
func (s *Store) errorAt(op, path string, err error) *Error {
	e := AsError(op, err)
	switch e.Detail {
	case ErrAbsolutePathRejected, ErrEscapesWorkspace, ErrInvalidPath, ErrPathTooLong:
		return e
	}
	if e.Path == "" {
		e.Path = s.gate.HideName(path)
	}
	return e
}

func (s *Store) read(r ReadRequest) (out ReadResult, err error) {
	limit := cmp.Or(r.MaxBytes, defaultRead)
	switch {
	case limit < 0 || r.Offset < 0:
		return out, fault.New(fault.InvalidArgument).Hintf("offset and max_bytes must not be negative")
	case limit > maxRead:
		return out, fault.New(fault.TooLarge).Hintf("read the file in parts of at most %d bytes, with offset", maxRead)
	}
	if out.Path, _, err = relpath.Clean(r.Path, s.engine.Tree.Rules); err != nil {
		return out, err
	}
	var p excerpt.Part
	if r.Version == 0 {
		p, err = excerpt.Current(s.engine, out.Path, r.Offset, limit)
	} else if path, perr := versions.Path(s.engine, r.Path); perr == nil {
		p, err = excerpt.Version(s.versions, path, r.Version, r.Offset, limit)
	} else {
		err = perr
	}
	if err != nil {
		return out, err
	}
	return ReadResult{
		Path: out.Path, RealPath: p.RealPath, Content: p.Content, SHA256: digest(p.SHA), Bytes: p.Bytes, Offset: p.Offset,
		Truncated: p.Offset+int64(len(p.Content)) < p.Bytes, EOL: p.Traits.EOL(), BOM: p.Traits.BOM, Mode: engine.Octal(p.Mode),
	}, nil
}
