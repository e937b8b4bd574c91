package engine

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding"
	"encoding/hex"
	"hash"
	"io"
	"io/fs"
	"sync"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

const (
	CopyBuffer = 256 << 10 // bytes moved at a time
	InMemory   = 1 << 20   // content up to this size is kept in memory
)

// Traits is what a write must know of a text besides its bytes.
type Traits struct {
	CRLF, LF int64 // line ends of each style; lf counts the bare ones
	BOM      bool
	nul      bool

	Size int64
	cr   bool // the last byte was a carriage return
}

var utf8BOM = []byte("\xef\xbb\xbf")

// Write takes the next piece of the text.
func (t *Traits) Write(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if t.Size == 0 {
		t.BOM = bytes.HasPrefix(p, utf8BOM)
	}
	pairs := int64(bytes.Count(p, []byte("\r\n")))
	if t.cr && p[0] == '\n' {
		pairs++
	}
	t.CRLF += pairs
	t.LF += int64(bytes.Count(p, []byte{'\n'})) - pairs
	t.nul = t.nul || bytes.IndexByte(p, 0) >= 0
	t.cr = p[len(p)-1] == '\r'
	t.Size += int64(len(p))
	return len(p), nil
}

// followedBy returns the traits of this text with more appended.
func (t Traits) followedBy(more Traits) Traits {
	if t.Size == 0 {
		return more
	}
	return Traits{
		CRLF: t.CRLF + more.CRLF, LF: t.LF + more.LF,
		BOM: t.BOM, nul: t.nul || more.nul, Size: t.Size + more.Size, cr: more.cr,
	}
}

// EOL returns the name of the line endings of the text.
func (t *Traits) EOL() string {
	switch {
	case t.CRLF == 0 && t.LF == 0:
		return "none"
	case t.CRLF == 0:
		return "lf"
	case t.LF == 0:
		return "crlf"
	}
	return "mixed"
}

// dominant returns the style of most lines, "" if there are no lines.
func (t *Traits) dominant() string {
	switch {
	case t.CRLF == 0 && t.LF == 0:
		return ""
	case t.CRLF > t.LF:
		return "crlf"
	}
	return "lf"
}

// measurement is the result of one pass over a content.
type measurement struct {
	Digest Digest
	traits Traits
}

func measureBytes(b []byte) *measurement {
	m := &measurement{Digest: NewDigest()}
	m.Digest.Write(b)
	m.traits.Write(b)
	return m
}

// Digest hashes content and can be copied at any point, so that the hash of these
// bytes and some more only costs hashing the additional ones.
type Digest struct{ hash.Hash }

func NewDigest() Digest { return Digest{sha256.New()} }

func (d Digest) Hex() string { return hex.EncodeToString(d.Sum(nil)) }

// State is the digest as bytes; resume is the way back.
func (d Digest) State() []byte {
	b, err := d.Hash.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		return nil
	}
	return b
}

func resume(state []byte) (Digest, bool) {
	d := NewDigest()
	err := d.Hash.(encoding.BinaryUnmarshaler).UnmarshalBinary(state)
	return d, err == nil
}

func HashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// ValidSHA256 reports whether s is a SHA-256 in lower-case hex.
func ValidSHA256(s string) bool {
	if len(s) != 64 {
		return false
	}
	for i := 0; i < len(s); i++ {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Body is content that can be read any number of times: in memory, or a file
// that is already staged, or both one after the other.
type Body struct {
	before fsx.File // read first, up to beforeSize bytes; nil for none
	size0  int64
	Mem    []byte
	file   fsx.File // instead of mem when not nil
	size1  int64    // of mem or file
}

func MemBody(b []byte) Body { return Body{Mem: b, size1: int64(len(b))} }

func FileBody(f fsx.File, size int64) Body { return Body{file: f, size1: size} }

func (b Body) Size() int64 { return b.size0 + b.size1 }

// Reader reads the whole content from its start.
func (b Body) Reader() io.Reader {
	var second io.Reader = bytes.NewReader(b.Mem)
	if b.file != nil {
		second = io.NewSectionReader(b.file, 0, b.size1)
	}
	if b.before == nil {
		return second
	}
	return io.MultiReader(io.NewSectionReader(b.before, 0, b.size0), second)
}

// Whole returns the content when it is in memory.
func (b Body) Whole() ([]byte, bool) { return b.Mem, b.before == nil && b.file == nil }

// buffers are shared by everything that copies bytes.
var buffers = sync.Pool{New: func() any { return new([CopyBuffer]byte) }}

// Move copies r to w through a borrowed buffer.
func Move(w io.Writer, r io.Reader) (int64, error) {
	buf := buffers.Get().(*[CopyBuffer]byte)
	defer buffers.Put(buf)
	// The wrappers keep io.CopyBuffer from going around the buffer.
	return io.CopyBuffer(struct{ io.Writer }{w}, struct{ io.Reader }{r}, buf[:])
}

// Measure reads everything once for its hash and traits.
func Measure(r io.Reader) (d Digest, t Traits, err error) {
	d = NewDigest()
	_, err = Move(io.MultiWriter(d, &t), r)
	return d, t, err
}

// convert rewrites line endings and the byte order mark of a text as it is read.
type convert struct {
	eol  string // "lf", "crlf" or "" for as it is
	bom  bool   // begin with a byte order mark, whatever the text has
	seen bool   // the start has been dealt with
	cr   bool   // a carriage return is held back
}

func (c *convert) idle() bool { return c.eol == "" && !c.bom }

// next converts one piece; last marks the end of the text.
func (c *convert) next(p []byte, last bool) []byte {
	out := make([]byte, 0, len(p)+len(p)/32+4)
	if !c.seen && (len(p) > 0 || last) {
		c.seen = true
		if c.bom && !bytes.HasPrefix(p, utf8BOM) {
			out = append(out, utf8BOM...)
		}
	}
	if c.eol == "" {
		return append(out, p...)
	}
	for _, b := range p {
		switch {
		case b == '\n' && c.eol == "crlf":
			out = append(out, '\r', '\n')
			c.cr = false
			continue
		case b == '\n':
			out = append(out, '\n')
			c.cr = false
			continue
		case c.cr:
			out = append(out, '\r')
			c.cr = false
		}
		if b == '\r' {
			c.cr = true
			continue
		}
		out = append(out, b)
	}
	if last && c.cr {
		out = append(out, '\r')
		c.cr = false
	}
	return out
}

// convertReader applies a convert to a stream.
type convertReader struct {
	src  io.Reader
	conv convert
	buf  []byte
	out  []byte
	err  error
}

func (r *convertReader) Read(p []byte) (int, error) {
	for len(r.out) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		if r.buf == nil {
			r.buf = make([]byte, CopyBuffer)
		}
		n, err := io.ReadFull(r.src, r.buf)
		if err == io.ErrUnexpectedEOF {
			err = io.EOF
		}
		if err != nil && err != io.EOF {
			return 0, err
		}
		r.err = err
		r.out = r.conv.next(r.buf[:n], err == io.EOF)
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}

func OpenIfThere(dir fsx.Dir, name string) (fsx.File, fsx.Stat, error) {
	f, err := dir.Open(name, fsx.Read, 0)
	if IsAbsent(err) {
		return nil, fsx.Stat{}, nil
	}
	if err != nil {
		return nil, fsx.Stat{}, err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, st, err
	}
	return f, st, nil
}

// HashFile hashes an open file as it is now.
func HashFile(f fsx.File) (sha string, st fsx.Stat, err error) {
	if st, err = f.Stat(); err != nil {
		return "", st, err
	}
	d := NewDigest()
	if _, err = Move(d, io.NewSectionReader(f, 0, st.Size)); err != nil {
		return "", st, err
	}
	return d.Hex(), st, nil
}

// OpenCurrent opens the current file by its journal path. The content of a
// symbolic link is its target.
func (s *Engine) OpenCurrent(path string) (io.ReadCloser, int64, error) {
	f, err := s.openEntry(path)
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return SectionCloser{io.NewSectionReader(f, 0, st.Size), f}, st.Size, nil
}

// openEntry opens a file, or a symbolic link itself.
func (s *Engine) openEntry(path string) (fsx.File, error) {
	t, err := s.LocateEntry(path)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	if !t.Exists() || t.Linked || t.Path != path { // what a symbolic link or another spelling leads to has another path
		return nil, fs.ErrNotExist
	}
	return fsx.OpenEntry(t.Parent, t.Name)
}

type SectionCloser struct {
	io.Reader
	io.Closer
}

// stoppable ends a stream when its context ends.
type stoppable struct {
	ctx context.Context
	src io.Reader
}

// NewStoppable returns src as a stream that ends when ctx does.
func NewStoppable(ctx context.Context, src io.Reader) io.Reader { return stoppable{ctx, src} }

func (r stoppable) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.src.Read(p)
}
