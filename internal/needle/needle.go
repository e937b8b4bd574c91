// Package needle finds one secret in files, in the forms in which it may occur there,
// and overwrites it without moving anything else.
//
// The forms are the bytes themselves, escaped as JSON does (also twice), in base64 at
// each of its three alignments, in hexadecimal, and percent-encoded. A replacement is
// as long as its match.
package needle

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"sort"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/jsontext"
)

// MinBytes is the length of the shortest secret that is looked for: a shorter
// one would match by chance.
const MinBytes = 8

// minKinds is how many different bytes a secret has at least: a run of blanks
// is not a secret.
const minKinds = 4

var (
	// ErrShort is returned for a secret that is too short or too uniform.
	ErrShort = errors.New("too short or too uniform to be looked for")
	// ErrStructure is returned when a match is not inside a text that may be
	// changed: writing over it would break what holds it.
	ErrStructure = errors.New("the match is a part of the structure")
)

// filler takes the place of a match. It is harmless in JSON strings, YAML,
// Markdown and file names.
const filler = "ERASED_"

// Needle is one secret in all its forms. It is safe for concurrent use.
type Needle struct {
	forms   [][]byte
	longest int
}

// New makes the forms of a secret.
func New(secret []byte) (*Needle, error) {
	kinds := map[byte]bool{}
	for _, b := range secret {
		kinds[b] = true
	}
	mask := bytes.Repeat([]byte(filler), len(secret)/len(filler)+2)
	if len(secret) < MinBytes || len(kinds) < minKinds || bytes.Contains(mask, secret) {
		return nil, ErrShort
	}
	n := &Needle{}
	seen := map[string]bool{}
	add := func(form string) {
		if len(form) < MinBytes || seen[form] {
			return
		}
		seen[form] = true
		n.forms = append(n.forms, []byte(form))
		n.longest = max(n.longest, len(form))
	}
	add(string(secret))
	for _, form := range escaped(string(secret)) {
		add(form)
		for _, again := range escaped(form) {
			add(again)
		}
	}
	for shift := range 3 {
		for _, enc := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			add(aligned(enc, secret, shift))
		}
	}
	add(hex.EncodeToString(secret))
	add(strings.ToUpper(hex.EncodeToString(secret)))
	add(url.QueryEscape(string(secret)))
	add(url.PathEscape(string(secret)))
	return n, nil
}

// escaped are the ways to write a text between the quotes of a JSON string:
// with and without the escapes for HTML, and all in ASCII.
func escaped(text string) []string {
	if !utf8.ValidString(text) {
		return nil
	}
	html, _ := json.Marshal(text) // of a string: that cannot fail
	plain, _ := jsontext.Encode(text, "")
	inside := string(plain[1 : len(plain)-len("\"\n")])
	return []string{string(html[1 : len(html)-1]), inside, inASCII(inside)}
}

// inASCII writes everything outside of ASCII as escapes, as other languages do.
func inASCII(text string) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(text)) {
		if unit < 0x7f {
			b.WriteByte(byte(unit))
		} else {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// aligned is what base64 makes of the secret after shift other bytes, without
// the characters that depend on its neighbours.
func aligned(enc *base64.Encoding, secret []byte, shift int) string {
	text := enc.EncodeToString(append(make([]byte, shift), secret...))
	return text[(shift*8+5)/6 : (shift+len(secret))*8/6]
}

// Span is a match: text[From:To].
type Span struct{ From, To int }

// Find returns the matches in a text, in order; those that touch or overlap
// are one.
func (n *Needle) Find(text []byte) []Span {
	var all []Span
	for _, form := range n.forms {
		for at := 0; ; {
			i := bytes.Index(text[at:], form)
			if i < 0 {
				break
			}
			all = append(all, Span{at + i, at + i + len(form)})
			at += i + 1
		}
	}
	if len(all) < 2 {
		return all
	}
	sort.Slice(all, func(i, j int) bool { return all[i].From < all[j].From })
	out := all[:1]
	for _, s := range all[1:] {
		if last := &out[len(out)-1]; s.From <= last.To {
			last.To = max(last.To, s.To)
			continue
		}
		out = append(out, s)
	}
	return out
}

// Within reports whether there is a match in a text.
func (n *Needle) Within(text []byte) bool {
	return slices.ContainsFunc(n.forms, func(form []byte) bool { return bytes.Contains(text, form) })
}

// Finder returns a writer that calls found with the place of each match in what is
// written to it, at the latest when it is flushed. A match may be reported in pieces that
// overlap. It takes constant memory.
func (n *Needle) Finder(found func(from, to int64)) *bufio.Writer {
	return bufio.NewWriterSize(&finder{n: n, found: found}, max(256<<10, 4*n.longest))
}

type finder struct {
	n     *Needle
	found func(from, to int64)
	kept  []byte // the end of what was written, in which a match may begin
	at    int64  // where that is
}

func (f *finder) Write(p []byte) (int, error) {
	f.kept = append(f.kept, p...)
	for _, s := range f.n.Find(f.kept) {
		f.found(f.at+int64(s.From), f.at+int64(s.To))
	}
	if gone := len(f.kept) - f.n.longest + 1; gone > 0 {
		f.at += int64(gone)
		f.kept = f.kept[:copy(f.kept, f.kept[gone:])]
	}
	return len(p), nil
}

// In reports whether there is a match in a stream. It takes constant memory.
func (n *Needle) In(r io.Reader) (found bool, err error) {
	w := n.Finder(func(int64, int64) { found = true })
	if _, err = io.Copy(w, r); err == nil {
		err = w.Flush()
	}
	return found, err
}

// fill writes the filler over a match.
func fill(text []byte) {
	for i := range text {
		text[i] = filler[i%len(filler)]
	}
}

// Mask overwrites every match in a copy and reports whether there was one. The text
// itself is not changed.
func (n *Needle) Mask(text []byte) ([]byte, bool) {
	spans := n.Find(text)
	if len(spans) == 0 {
		return text, false
	}
	out := bytes.Clone(text)
	for _, s := range spans {
		fill(out[s.From:s.To])
	}
	return out, true
}
