package edit

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// A Reading is the text of a content, in the encoding in which [Apply] edits it.
type Reading struct {
	Text     string // UTF-8
	Encoding string // "" when the content is UTF-8

	charset *charset
	raw     []byte
}

// Read reads a content as text. The encoding is the named one, that of the byte order
// mark, or the only one that the content is likely to have. Encoding the text again
// yields the whole content byte for byte. If there is no such text, the failure names
// the possible encodings.
func Read(content []byte, name string) (Reading, error) {
	c := wideOf(content)
	if name != "" {
		if c = charsetOf(name); c == nil {
			return Reading{}, &Failure{Reason: BadEncoding}
		}
	}
	switch {
	case c != nil && c != charsets[0]:
		return whole(c, content)
	case utf8.Valid(content):
		return Reading{Text: string(content), charset: charsets[0], raw: content}, nil
	case name != "" || bytes.IndexByte(content, 0) >= 0:
		return Reading{}, &Failure{Reason: NotUTF8}
	}
	a := &apply{content: content}
	list := slices.DeleteFunc(a.readings(), func(r *reading) bool { return !r.isLikely() })
	f := &Failure{Reason: NotUTF8}
	for _, r := range list {
		f.Encodings = append(f.Encodings, r.charset.name)
	}
	if len(list) == 0 || slices.ContainsFunc(list, func(r *reading) bool { return !bytes.Equal(r.text, list[0].text) }) {
		return Reading{}, f
	}
	return whole(list[0].charset, content)
}

// whole reads a content that is valid in one encoding from the first byte to the last.
func whole(c *charset, content []byte) (Reading, error) {
	d, _ := c.decode(content, false)
	if d.clean {
		if back, _, ok := c.encode(d.text); ok && bytes.Equal(back, content) {
			return Reading{Text: string(d.text), Encoding: c.name, charset: c, raw: content}, nil
		}
	}
	return Reading{}, &Failure{Reason: NotUTF8}
}

// Skip leaves out the characters that begin before a byte of the content, and
// returns how many bytes they are.
func (r Reading) Skip(n int) (Reading, int) {
	from, at := r.walk(func(from, _, _ int) bool { return from < n })
	r.Text, r.raw = r.Text[at:], r.raw[from:]
	return r, from
}

// Bytes is how many bytes of the content the first n bytes of the text are.
func (r Reading) Bytes(n int) int {
	from, _ := r.walk(func(_, _, at int) bool { return at < n })
	return from
}

// walk goes on while pass says so of the next character, which is from one byte of the
// content to another and at one of the text.
func (r Reading) walk(pass func(from, to, at int) bool) (from, at int) {
	for at < len(r.Text) {
		_, size := r.charset.next(r.raw[from:])
		if !pass(from, from+size, at) {
			break
		}
		_, n := utf8.DecodeRuneInString(r.Text[at:])
		from, at = from+size, at+n
	}
	return from, at
}

// Fit is how many bytes of the text are characters that are together at most n
// bytes of the content.
func (r Reading) Fit(n int) int {
	_, at := r.walk(func(_, to, _ int) bool { return to <= n })
	return at
}
