package toolbox

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"sync"

	rw "github.com/resilientwrite/resilientwrite"
)

const (
	pageBytes    = 24 << 10 // bytes of a page as JSON text
	countedBytes = 64 << 20 // how far into a file lines are counted
	keptLines    = 1024     // pages whose first line is remembered
)

// readFile reads a page in a brief call: whole lines, as long as they fit.
func readFile(s *rw.Store, ctx context.Context, in rw.ReadRequest) (rw.ReadResult, error) {
	one := callOf(ctx)
	if !one.isBrief() {
		return s.Read(ctx, in)
	}
	unbounded := in.MaxBytes == 0
	if unbounded {
		in.MaxBytes = pageBytes
		if one.encoding == "base64" {
			in.MaxBytes = pageBytes / 4 * 3
		}
	}
	r, err := s.Read(ctx, in)
	if err != nil || one.encoding == "base64" || !isText(&r) {
		return r, err
	}
	if unbounded {
		fits := jsonPrefix(string(r.Content), pageBytes)
		r.Truncated = r.Truncated || fits < len(r.Content)
		r.Content = r.Content[:fits]
	}
	if end := bytes.LastIndexByte(r.Content, '\n') + 1; r.Truncated && end > 0 {
		r.Content = r.Content[:end]
	}
	one.line = one.box.lines.first(ctx, s, in, r)
	return r, nil
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
func (b *Toolbox) showPage(o *object, r rw.ReadResult, line int64) {
	content := string(r.Content)
	if o.encoding == "base64" {
		content = base64.StdEncoding.EncodeToString(r.Content)
		o.add("encoding", o.encoding)
	}
	o.add("sha256", r.SHA256)
	o.add("bytes", r.Bytes)
	if line > 0 {
		o.add("first_line", line)
		o.add("last_line", line+int64(bytes.Count(bytes.TrimSuffix(r.Content, []byte("\n")), []byte("\n"))))
	}
	o.add("truncated", r.Truncated)
	if r.Truncated {
		o.add("next_offset", r.Offset+int64(len(r.Content)))
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
	o.add("content", content)
}

// lineNumbers remembers on which line a byte of a file is, for the pages after
// the first. The hash of the file is part of the name, so that a file that
// changed is counted anew.
type lineNumbers struct {
	mu sync.Mutex
	at map[string]int64
}

func lineKey(sha string, offset int64) string { return fmt.Sprintf("%s:%d", sha, offset) }

func (l *lineNumbers) get(sha string, offset int64) (int64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	line, ok := l.at[lineKey(sha, offset)]
	return line, ok
}

func (l *lineNumbers) put(sha string, offset, line int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.at == nil || len(l.at) >= keptLines {
		l.at = map[string]int64{}
	}
	l.at[lineKey(sha, offset)] = line
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
