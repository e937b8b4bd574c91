package toolbox

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/edit"
)

const (
	pageBytes    = 24 << 10 // bytes of a page as JSON text
	countedBytes = 64 << 20 // how far into a file lines are counted
	keptLines    = 1024     // pages whose first line is remembered
)

// readArgs are the arguments of the tool read.
type readArgs struct {
	rw.ReadRequest
	// How content is returned: as text, or base64 for bytes that are not text. A
	// file that is not UTF-8 is decoded when its encoding is named; in brief
	// replies it is found where it is the only likely one.
	Encoding string `json:"encoding,omitempty" enum:"utf-8,base64,@charsets" default:"utf-8"`
}

// readReply is the reply of the tool read.
type readReply struct {
	rw.ReadResult
	// The requested bytes, as text or base64.
	Content string `json:"content"`
	// How content is encoded: utf-8, base64, or the encoding that the file has and
	// from which content was decoded. What is decoded can be edited in the same
	// words.
	Encoding string `json:"encoding" enum:"utf-8,base64,@charsets"`
	// Offset of the byte after what was returned, when the content was decoded
	// and the file continues.
	NextOffset int64 `json:"next_offset,omitempty"`

	line int64 // of the first byte, 0 when it is not known
}

// decodedBytes is the size up to which a file that is not UTF-8 is decoded: a
// character can only be found from the beginning.
const decodedBytes = 8 << 20

// editFile edits a file. In a brief call a stale edit is merged unless it says
// otherwise.
func editFile(s *rw.Store, ctx context.Context, in rw.EditRequest) (rw.EditResult, error) {
	if in.Merge == "" && callOf(ctx).isBrief() {
		in.Merge = rw.MergeClean
	}
	return s.Edit(ctx, in)
}

// readFile reads a page. In a brief call these are whole lines, as long as they
// fit, and text in another encoding is decoded.
func readFile(s *rw.Store, ctx context.Context, in readArgs) (readReply, error) {
	one := callOf(ctx)
	req, unbounded := in.ReadRequest, in.MaxBytes == 0
	switch {
	case in.Encoding != "" && in.Encoding != "utf-8" && in.Encoding != "base64":
		return readDecoded(s, ctx, in)
	case one.isBrief() && unbounded && in.Encoding == "base64":
		req.MaxBytes = pageBytes / 4 * 3
	case one.isBrief() && unbounded:
		req.MaxBytes = pageBytes
	}
	r, err := s.Read(ctx, req)
	if err != nil {
		return readReply{}, err
	}
	out := readReply{ReadResult: r, Encoding: "utf-8"}
	if in.Encoding == "base64" {
		out.Encoding, out.Content = "base64", base64.StdEncoding.EncodeToString(r.Content)
		if one.isBrief() {
			out.next(len(r.Content))
		}
		return out, nil
	}
	text := r.Content
	if r.Truncated {
		text = wholeRunes(text)
	}
	if !one.isBrief() {
		if !utf8.Valid(text) {
			return readReply{}, notDecoded(s, in, nil, false)
		}
		out.Content = string(text)
		return out, nil
	}
	// A part of a text in UTF-16 can be valid UTF-8, with zeros.
	if _, other := one.box.lines.get(r.SHA256.String(), otherText); other || !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 && r.Bytes <= decodedBytes {
		return readDecoded(s, ctx, in)
	}
	if unbounded {
		fits := jsonPrefix(string(text), pageBytes)
		out.Truncated = r.Truncated || fits < len(r.Content)
		text = text[:fits]
	}
	if out.Content = string(text); out.Truncated {
		out.Content = wholeLines(out.Content)
		out.next(len(out.Content))
	}
	r.Content, r.Truncated = []byte(out.Content), out.Truncated
	out.line = one.box.lines.first(ctx, s, req, r)
	return out, nil
}

// next sets where the file continues after n bytes.
func (r *readReply) next(n int) {
	if r.Truncated {
		r.NextOffset = r.Offset + int64(n)
	}
}

// wholeLines leaves out the end of a text after its last line end, if it has
// one.
func wholeLines(text string) string {
	if end := strings.LastIndexByte(text, '\n') + 1; end > 0 {
		return text[:end]
	}
	return text
}

// readDecoded reads a page of a file that is not UTF-8 as text. Offsets are those
// of the file. The text is exactly what the bytes mean: where that is not so, or
// not known, the call is refused.
func readDecoded(s *rw.Store, ctx context.Context, in readArgs) (readReply, error) {
	req := in.ReadRequest
	req.Offset, req.MaxBytes = 0, decodedBytes
	r, err := s.Read(ctx, req)
	if err != nil {
		return readReply{}, err
	}
	name := in.Encoding
	if name == "utf-8" { // many clients say so whatever the file is
		name = ""
	}
	whole, err := edit.Read(r.Content, name)
	if err != nil || r.Truncated {
		return readReply{}, notDecoded(s, in, err, r.Truncated)
	}
	out := readReply{ReadResult: r, Encoding: cmp.Or(whole.Encoding, "utf-8")}
	rest, at := whole.Skip(int(min(in.Offset, r.Bytes)))
	text := rest.Text
	switch brief := callOf(ctx).isBrief(); {
	case in.MaxBytes > 0:
		text = text[:rest.Fit(int(min(in.MaxBytes, r.Bytes)))]
	case brief:
		text = text[:jsonPrefix(text, pageBytes)]
	default:
		text = text[:rest.Fit(1<<20)]
	}
	if out.Offset, out.Truncated = int64(at), len(text) < len(rest.Text); out.Truncated {
		text = wholeLines(text)
	}
	out.next(rest.Bytes(len(text)))
	if text != "" {
		out.line = int64(1 + strings.Count(whole.Text[:len(whole.Text)-len(rest.Text)], "\n"))
	}
	if whole.Encoding != "" {
		callOf(ctx).box.lines.put(r.SHA256.String(), otherText, 1)
	}
	out.BOM, out.EOL = strings.HasPrefix(whole.Text, "\ufeff"), eolOf(whole.Text)
	if out.Content = text; at == 0 && whole.Encoding != "" {
		out.Content = strings.TrimPrefix(text, "\ufeff")
	}
	return out, nil
}

// eolOf is the style of the line ends of a text.
func eolOf(text string) string {
	all, crlf := strings.Count(text, "\n"), strings.Count(text, "\r\n")
	switch {
	case all == 0:
		return "none"
	case crlf == 0:
		return "lf"
	case crlf == all:
		return "crlf"
	}
	return "mixed"
}

// notDecoded is the refusal of a file that cannot be shown as text.
func notDecoded(s *rw.Store, in readArgs, cause error, large bool) error {
	hint, about := "retry_with_encoding_base64: the content is not UTF-8 text, or begins inside a character", map[string]any{}
	f, _ := cause.(*edit.Failure)
	switch {
	case large:
		hint = fmt.Sprintf("the file is not UTF-8, and larger than the %d bytes up to which it is decoded; read it with encoding base64", decodedBytes)
	case f != nil && len(f.Encodings) > 1:
		hint = fmt.Sprintf("the file is not UTF-8 and could be %s; name its encoding with encoding, or read it as base64", strings.Join(f.Encodings, " or "))
		about["choices"] = f.Encodings
	case in.Encoding != "" && in.Encoding != "utf-8":
		hint = fmt.Sprintf("the file is not text in %s; name another encoding, or read it with encoding base64", in.Encoding)
	}
	return count(s, "read", plain(in), rw.NewError("read", rw.ErrNotValidUTF8, hint, about))
}

// jsonPrefix is how many bytes of a text are at most n bytes as JSON. It ends
// between two characters.
func jsonPrefix(text string, n int) int {
	for i, c := range text {
		switch {
		case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t':
			n -= 2
		case c < ' ' || c == '\u2028' || c == '\u2029':
			n -= 6
		default:
			n -= len(string(c))
		}
		if n < 0 {
			return i
		}
	}
	return len(text)
}

// pageFields are the fields that showPage adds.
var pageFields = []string{"encoding", "sha256", "bytes", "first_line", "last_line", "truncated", "next_offset", "eol", "bom", "real_path", "content"}

// showPage adds a page: the facts first, the content last.
func (b *Toolbox) showPage(o *object, r readReply) {
	if r.Encoding != "utf-8" {
		o.add("encoding", r.Encoding)
	}
	o.add("sha256", r.SHA256)
	o.add("bytes", r.Bytes)
	if r.line > 0 {
		o.add("first_line", r.line)
		o.add("last_line", r.line+int64(strings.Count(strings.TrimSuffix(r.Content, "\n"), "\n")))
	}
	o.add("truncated", r.Truncated)
	if r.Truncated {
		o.add("next_offset", r.NextOffset)
	}
	if r.EOL == "crlf" || r.EOL == "mixed" {
		o.add("eol", r.EOL)
	}
	if r.BOM {
		o.add("bom", true)
	}
	if r.RealPath != "" {
		o.add("real_path", r.RealPath)
	}
	o.add("content", r.Content)
}

// otherText is the place that is remembered of a file that is not UTF-8.
const otherText = -1

// lineNumbers remembers on which line a byte of a file is, for the pages after
// the first. The hash of the file is part of the name, so that a file that
// changed is counted again.
type lineNumbers struct {
	mu sync.Mutex
	at map[place]int64
}

// place is a byte of a file with the hash.
type place struct {
	sha    string
	offset int64
}

func (l *lineNumbers) get(sha string, offset int64) (int64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line, ok := l.at[place{sha, offset}]
	return line, ok
}

func (l *lineNumbers) put(sha string, offset, line int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at == nil || len(l.at) >= keptLines {
		l.at = map[place]int64{}
	}
	l.at[place{sha, offset}] = line
}

// first is the line of the first byte of a page, 0 when there is none or it is
// not known.
func (l *lineNumbers) first(ctx context.Context, s *rw.Store, in rw.ReadRequest, r rw.ReadResult) int64 {
	if len(r.Content) == 0 {
		return 0
	}
	line, ok := l.get(r.SHA256.String(), r.Offset)
	if r.Offset == 0 {
		line = 1
	} else if !ok {
		if line = countLines(ctx, s, in, r); line == 0 {
			return 0
		}
	}
	if r.Truncated {
		l.put(r.SHA256.String(), r.Offset+int64(len(r.Content)), line+int64(bytes.Count(r.Content, []byte("\n"))))
	}
	return line
}

// countLines counts the lines in front of a page, 0 when the file changes
// meanwhile or is too long.
func countLines(ctx context.Context, s *rw.Store, in rw.ReadRequest, r rw.ReadResult) int64 {
	if r.Offset > countedBytes {
		return 0
	}
	lines := int64(1)
	for at := int64(0); at < r.Offset; {
		part, err := s.Read(ctx, rw.ReadRequest{Path: in.Path, Version: in.Version, Offset: at, MaxBytes: min(1<<20, r.Offset-at)})
		if err != nil || part.SHA256 != r.SHA256 || len(part.Content) == 0 {
			return 0
		}
		lines += int64(bytes.Count(part.Content, []byte("\n")))
		at += int64(len(part.Content))
	}
	return lines
}
