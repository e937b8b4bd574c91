// Package edit replaces exact strings in the bytes of a text file, in the
// encoding of the file.
//
// It works on memory alone: the caller reads the file and writes the result.
// Nothing outside the matched text is ever changed.
package edit

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/fault"
)

// An Edit replaces one string by another.
type Edit struct {
	Old string // the present text, exactly
	New string // what takes its place
	// Count is how often Old has to be there: 1 for exactly once, N for exactly
	// N times, -1 for at least once. All matches are replaced.
	Count int
}

// The reasons for which edits fail.
const (
	NoEdits             = "no_edits"             // the list is empty
	EmptyOldString      = "empty_old_string"     // Old is empty
	OldStringNotFound   = "old_string_not_found" // no match
	AmbiguousMatch      = "ambiguous_match"      // Count is 1 and there are more
	InsufficientMatches = "insufficient_matches" // some matches, but fewer than Count
	TooManyMatches      = "too_many_matches"     // more than a Count above 1
	NotUTF8             = "not_utf8"             // Old or New of an edit, or the content and its encoding is not known
	NotEncodable        = "not_encodable"        // Old or New has a character that the encoding of the file lacks
	BadEncoding         = "bad_encoding"         // the named encoding is not one of Encodings
	BadCount            = "bad_count"            // Count is 0 or less than -1
	NoChange            = "no_change"            // the bytes would stay unchanged
	TooMuchWork         = "too_much_work"        // more than MaxEdits, or MaxWork
	ResultTooLarge      = "result_too_large"     // the text would grow by more than 256 MiB
)

// maxGrowth is how many bytes longer than the content a result may be. Without
// a bound, a short file and two strings could ask for terabytes.
const maxGrowth = 256 << 20

// What one call may ask for. For each edit the text, as the edits before it
// left it, is gone through once, and each match counts as some bytes more.
const (
	MaxEdits = 4096    // edits
	MaxWork  = 1 << 30 // bytes gone through

	matchWork = 32
	placeWork = 4 * matchWork // of a match whose place is kept
)

var maxWork int64 = MaxWork // tests make it smaller

// maxClosest is the length of the longest text in which a failure searches for the
// stretch most similar to Old.
const maxClosest = 32 << 20

// maxLines is how many line numbers a failure lists.
const maxLines = 20

// A Failure says which edit could not be made, and why. It holds no text of
// the file. Line numbers begin at 1 and are those of the text as the edits
// before this one left it, which for the first edit is the content itself.
type Failure struct {
	Edit    int      // from 1; 0 when it is no single edit that failed
	Reason  string   // one of the constants above
	Matches int      // how many there are
	Lines   []int    // the lines on which the first 20 matches begin
	Closest *Closest // for OldStringNotFound, when something is like Old

	Encodings []string // for NotUTF8, the possible encodings of the content; for NotEncodable, its encoding
	Char      rune     // for NotEncodable, the first such character; 0 if the bytes next to the match are the cause
	InNew     bool     // for NotEncodable, that it is not in Old
}

// Error names the edit and the reason.
func (f *Failure) Error() string {
	if f.Edit == 0 {
		return "edits: " + f.Reason
	}
	return fmt.Sprintf("edit %d: %s", f.Edit, f.Reason)
}

// Fault reports which edit failed and what to do about it.
func (f *Failure) Fault() *fault.Fault {
	code := fault.Code(f.Reason)
	switch f.Reason {
	case BadEncoding:
		names := Encodings()
		return fault.New(fault.InvalidArgument).With("argument", "encoding").With("choices", names).Hintf("encoding must be one of %s", strings.Join(names, ", "))
	case BadCount:
		code = fault.InvalidArgument
	case TooMuchWork, ResultTooLarge:
		code = fault.TooLarge
	}
	e := fault.New(code)
	if f.Edit > 0 {
		e.With("edit", f.Edit)
	}
	if f.Matches > 0 {
		e.With("matches", f.Matches).With("lines", f.Lines)
	}
	lines := strings.Trim(strings.ReplaceAll(fmt.Sprint(f.Lines), " ", ", "), "[]")
	missing := "old is not in the file"
	if f.Edit > 1 {
		missing += " as the edits before it leave it"
	}
	switch {
	case f.Closest != nil:
		e.With("closest", map[string]any{"line": f.Closest.Line, "similarity": math.Round(f.Closest.Similarity*1000) / 1000, "why": f.Closest.Why})
		e.Hintf("%s; line %d is closest (%s): read the file and copy the text exactly", missing, f.Closest.Line, strings.ReplaceAll(f.Closest.Why, "_", " "))
	case f.Reason == OldStringNotFound:
		e.Hintf("%s; read the file and copy the text exactly", missing)
	case f.Reason == AmbiguousMatch:
		e.Hintf("old occurs %d times, on lines %s; include more context to make it unique, or pass count", f.Matches, lines)
	case f.Reason == InsufficientMatches, f.Reason == TooManyMatches:
		e.Hintf("old occurs %d times, on lines %s; correct count", f.Matches, lines)
	case f.Reason == TooMuchWork:
		e.Hintf("a call has at most %d edits, at most %d matches, and the number of edits times the size of the file is at most %d; send them in several calls, or let a program make them", MaxEdits, MaxWork/matchWork, int64(MaxWork))
	case f.Reason == NotUTF8 && len(f.Encodings) > 0:
		e.Hintf("the file is not UTF-8 and could be %s; name its encoding with encoding", strings.Join(f.Encodings, " or ")).With("choices", f.Encodings)
	case f.Reason == NotEncodable && f.Char != 0:
		e.Hintf("U+%04X of %s is not in %s, the encoding of the file; use other characters, or name another encoding with encoding", f.Char, map[bool]string{true: "new", false: "old"}[f.InNew], f.Encodings[0])
	case f.Reason == BadCount:
		e.Hintf("count must be 1 or more, or -1 for all").With("argument", "count")
	}
	return e
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// A Result is a text after its edits.
type Result struct {
	Content      []byte // shares no memory with the content before
	Replacements int
	// Encoding is the encoding of the content: empty if all of it is UTF-8, and "ascii"
	// if it is unknown and was not needed.
	Encoding string

	clear bool // no match begins after a character that is not ASCII
}

// Apply makes the edits in order, each in the result of the previous one. If an edit
// cannot be made, none is made: the error is then a *Failure. The content is never
// modified.
//
// Matches are found from left to right and do not overlap. In a text without
// CRLF everything is taken byte for byte. In a text with CRLF, a line feed of
// an Old that has no carriage return matches a CRLF as well as a line feed, and
// every line end of New takes the style of the one it replaces, or the style of
// most lines of the text when the match has no line end. A byte order mark at
// the start of the content stays there and is not part of what is matched.
//
// A content in another encoding is edited in that encoding: characters are matched, New
// is encoded, and bytes outside of what changes are copied. The encoding is the named
// one, or the one that [guess] finds.
//
// The time is linear in the content for each edit; [MaxEdits] and [MaxWork] bound both
// together. When ctx is done, Apply returns its error.
func Apply(ctx context.Context, content []byte, edits []Edit, encoding string) (Result, error) {
	if f := check(edits); f != nil {
		return Result{}, f
	}
	if len(edits) > MaxEdits {
		return Result{}, &Failure{Reason: TooMuchWork}
	}
	a := &apply{ctx: ctx, content: content}
	c := wideOf(content)
	if encoding != "" {
		if c = charsetOf(encoding); c == nil {
			return Result{}, &Failure{Reason: BadEncoding}
		}
	}
	switch {
	case c != nil && c != charsets[0]:
		return a.in(c, edits)
	case utf8.Valid(content):
		return a.decoded(charsets[0], decoding{text: content, clean: true}, edits)
	case c != nil:
		// Many callers name UTF-8 by habit. Inserted into another encoding, it
		// would be the damage that this package is to prevent.
		if d, _ := c.decode(content, false); d.share >= 0.5 {
			return a.decoded(c, d, edits)
		}
	}
	return a.guess(edits)
}

// apply is one call.
type apply struct {
	ctx     context.Context
	content []byte
	work    int64
}

// in makes the edits in a content of one encoding.
func (a *apply) in(c *charset, edits []Edit) (Result, error) {
	d, _ := c.decode(a.content, false)
	return a.decoded(c, d, edits)
}

func (a *apply) decoded(c *charset, d decoding, edits []Edit) (Result, error) {
	out, text := Result{Content: a.content, Encoding: c.name, clear: true}, d.text
	same := d.clean && c == charsets[0] // the text is the content
	limit := len(text) + maxGrowth
	for i := range edits {
		if err := a.ctx.Err(); err != nil {
			return Result{}, err
		}
		if a.work += int64(len(text)); a.work > maxWork {
			return Result{}, &Failure{Edit: i + 1, Reason: TooMuchWork}
		}
		each := int64(placeWork)
		if same {
			each = matchWork
		}
		next, places, n, f := edits[i].apply(text, limit, int((maxWork-a.work)/each), !same)
		a.work += int64(n) * each
		if f == nil && same {
			out.Content = next
		} else if f == nil {
			out.Content, f = c.replace(out.Content, text, next, places, limit)
		} else if _, bad, ok := c.encode([]byte(edits[i].Old)); f.Reason == OldStringNotFound && !ok {
			f = &Failure{Reason: NotEncodable, Char: bad, Encodings: []string{c.name}}
		}
		if f != nil {
			f.Edit = i + 1
			return Result{}, f
		}
		for _, p := range places {
			out.clear = out.clear && (p.start == 0 || text[p.start-1] < utf8.RuneSelf)
		}
		text = next
		out.Replacements += n
	}
	if same {
		out.Encoding = ""
	}
	return out, nil
}

// check validates the edits independently of the content.
func check(edits []Edit) *Failure {
	if len(edits) == 0 {
		return &Failure{Reason: NoEdits}
	}
	for i, e := range edits {
		reason := ""
		switch {
		case e.Old == "":
			reason = EmptyOldString
		case e.Count == 0 || e.Count < -1:
			reason = BadCount
		case !utf8.ValidString(e.Old) || !utf8.ValidString(e.New):
			reason = NotUTF8
		case e.Old == e.New:
			reason = NoChange
		}
		if reason != "" {
			return &Failure{Edit: i + 1, Reason: reason}
		}
	}
	return nil
}

// A place is a match, and what took its place.
type place struct{ start, end, newStart, newEnd int }

// apply makes one edit of a text, and returns the places of the matches if keep is set,
// and their number. The result has at most limit bytes; there are at most most matches.
func (e *Edit) apply(content []byte, limit, most int, keep bool) (out []byte, places []place, total int, _ *Failure) {
	body := bytes.TrimPrefix(content, byteOrderMark)
	mark := content[:len(content)-len(body)]
	crlf := bytes.Contains(body, []byte("\r\n"))

	s := newSearch(e.Old, crlf)
	total, first := s.count(body)
	fail := func(reason string) *Failure {
		return &Failure{Reason: reason, Matches: total, Lines: lineNumbers(body, first)}
	}
	if reason := misses(total, e.Count); reason != "" {
		f := fail(reason)
		if total == 0 && len(body) <= maxClosest {
			f.Closest = closest(body, e.Old)
		}
		return nil, nil, 0, f
	}
	if total > most {
		return nil, nil, 0, fail(TooMuchWork)
	}

	p := newPatch(e, body, crlf)
	// A match may have a CRLF for each line feed of Old.
	least := len(content) + total*(len(p.text)-len(e.Old)-strings.Count(e.Old, "\n"))
	if least > limit {
		return nil, nil, 0, fail(ResultTooLarge)
	}
	out = append(make([]byte, 0, max(least, len(content))), mark...)
	done := 0
	for range total {
		start, end, _ := s.after(body, done)
		out = append(out, body[done:start]...)
		from := len(out)
		out = p.appendTo(out, body[start:end])
		if keep {
			places = append(places, place{len(mark) + start, len(mark) + end, from, len(out)})
		}
		if done = end; len(out)+len(body)-done > limit {
			return nil, nil, 0, fail(ResultTooLarge)
		}
	}
	out = append(out, body[done:]...)
	if bytes.Equal(out, content) {
		return nil, nil, 0, fail(NoChange)
	}
	return out, places, total, nil
}

// lineNumbers turns ascending positions into line numbers.
func lineNumbers(text []byte, at []int) []int {
	var lines []int
	line, done := 1, 0
	for _, p := range at {
		line += bytes.Count(text[done:p], []byte{'\n'})
		done = p
		lines = append(lines, line)
	}
	return lines
}

// A patch is the text that takes the place of the matches of one edit. Where
// the file has CRLF, its line ends depend on those of the match.
type patch struct {
	text string // New; with plain line feeds when there are ends
	ends int    // line ends that take a style, 0 when text is inserted unchanged
	tail int    // of these, the last ones that belong to what Old ends with too
	crlf bool   // most lines of the file end with CRLF

	was []bool // for the ends of one match, whether they are CRLF; for a match without any, crlf
}

// newPatch prepares the text of an edit of a body that has CRLF or has none.
func newPatch(e *Edit, body []byte, crlf bool) *patch {
	if !crlf || !strings.Contains(e.New, "\n") {
		return &patch{text: e.New}
	}
	was, is := lineFeeds(e.Old), lineFeeds(e.New)
	p := &patch{text: is, ends: strings.Count(is, "\n"), tail: commonTailEnds(was, is)}
	pairs := bytes.Count(body, []byte("\r\n"))
	p.crlf = pairs > bytes.Count(body, []byte{'\n'})-pairs
	return p
}

// lineFeeds is a text with its CRLF replaced by line feeds.
func lineFeeds(s string) string { return strings.ReplaceAll(s, "\r\n", "\n") }

// commonTailEnds counts the line ends in the common suffix of both texts, without their
// common prefix.
func commonTailEnds(a, b string) int {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	ends := 0
	for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
		if a[len(a)-1] == '\n' {
			ends++
		}
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return ends
}

// appendTo appends the text in the place of a match.
func (p *patch) appendTo(dst, match []byte) []byte {
	if p.ends == 0 {
		return append(dst, p.text...)
	}
	p.was = p.was[:0]
	for line := range bytes.Lines(match) {
		if bytes.HasSuffix(line, []byte{'\n'}) {
			p.was = append(p.was, bytes.HasSuffix(line, []byte("\r\n")))
		}
	}
	if len(p.was) == 0 {
		p.was = append(p.was, p.crlf)
	}
	rest := p.text
	for k := range p.ends {
		i := strings.IndexByte(rest, '\n')
		dst = append(dst, rest[:i]...)
		if p.endAt(k) {
			dst = append(dst, '\r')
		}
		dst = append(dst, '\n')
		rest = rest[i+1:]
	}
	return append(dst, rest...)
}

// endAt says whether line end k of the text is to be CRLF: those of a common
// tail stay what they were, the others take the style of the one at the same
// place in the match, or of the last before the tail.
func (p *patch) endAt(k int) bool {
	if left := p.ends - k; left <= p.tail {
		return p.was[len(p.was)-left]
	}
	return p.was[max(0, min(k, len(p.was)-p.tail-1))]
}
