// Package edit replaces exact strings in the bytes of a text file.
//
// It works on memory alone: the caller reads the file and writes the result.
// Nothing outside the matched text is ever changed.
package edit

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"unicode/utf8"
)

// An Edit replaces one string by another.
type Edit struct {
	Old string // what is there, exactly
	New string // what takes its place
	// Count is how often Old has to be there: 1 for exactly once, N for exactly
	// N times, -1 for at least once. All matches are replaced.
	Count int
}

// The reasons for which edits fail.
const (
	NoEdits             = "no_edits"             // the list is empty
	EmptyOldString      = "empty_old_string"     // Old is empty
	OldStringNotFound   = "old_string_not_found" // no match at all
	AmbiguousMatch      = "ambiguous_match"      // Count is 1 and there are more
	InsufficientMatches = "insufficient_matches" // some matches, but fewer than Count
	TooManyMatches      = "too_many_matches"     // more than a Count above 1
	NotUTF8             = "not_utf8"             // the content, or Old or New of an edit
	BadCount            = "bad_count"            // Count is 0 or less than -1
	NoChange            = "no_change"            // the bytes would stay as they are
	TooMuchWork         = "too_much_work"        // more than MaxEdits, or MaxWork
	ResultTooLarge      = "result_too_large"     // the text would grow by more than 256 MiB
)

// maxGrowth is how many bytes longer than the content a result may be. Without
// a bound, a short file and two strings could ask for terabytes.
const maxGrowth = 256 << 20

// What one call may ask for. For each edit the text, as the edits before it
// left it, is gone through once.
const (
	MaxEdits = 4096    // edits
	MaxWork  = 1 << 30 // bytes gone through
)

var maxWork int64 = MaxWork // tests make it smaller

// maxClosest is the length of the longest text in which a failure looks for what
// is most like Old.
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
}

// Error names the edit and the reason.
func (f *Failure) Error() string {
	if f.Edit == 0 {
		return "edits: " + f.Reason
	}
	return fmt.Sprintf("edit %d: %s", f.Edit, f.Reason)
}

var byteOrderMark = []byte("\xef\xbb\xbf")

// Apply makes the edits in order, each in the result of the one before, and
// returns the new bytes and the number of replacements. When an edit cannot be
// made, none is: the error is then a *Failure. The content is never written to
// and shares no memory with the result.
//
// Matches are found from left to right and do not overlap. In a text without
// CRLF everything is taken byte for byte. In a text with CRLF, a line feed of
// an Old that has no carriage return matches a CRLF as well as a line feed, and
// every line end of New takes the style of the one it replaces, or the style of
// most lines of the text when the match has no line end. A byte order mark at
// the start of the content stays there and is not part of what is matched.
//
// The time is linear in the content for each edit; [MaxEdits] and [MaxWork]
// bound both together. When ctx is done, Apply ends with its error.
func Apply(ctx context.Context, content []byte, edits []Edit) (out []byte, replacements int, err error) {
	if f := check(edits); f != nil {
		return nil, 0, f
	}
	if len(edits) > MaxEdits {
		return nil, 0, &Failure{Reason: TooMuchWork}
	}
	if !utf8.Valid(content) {
		return nil, 0, &Failure{Reason: NotUTF8}
	}
	limit := len(content) + maxGrowth
	out = content
	work := int64(0)
	for i := range edits {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		if work += int64(len(out)); work > maxWork {
			return nil, 0, &Failure{Edit: i + 1, Reason: TooMuchWork}
		}
		next, n, f := edits[i].apply(out, limit)
		if f != nil {
			f.Edit = i + 1
			return nil, 0, f
		}
		out, replacements = next, replacements+n
	}
	return out, replacements, nil
}

// check finds what is wrong with the edits whatever the content is.
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

// apply makes one edit. The result has at most limit bytes.
func (e *Edit) apply(content []byte, limit int) ([]byte, int, *Failure) {
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
		return nil, 0, f
	}

	p := newPatch(e, body, crlf)
	// A match may have a CRLF for each line feed of Old.
	least := len(content) + total*(len(p.text)-len(e.Old)-strings.Count(e.Old, "\n"))
	if least > limit {
		return nil, 0, fail(ResultTooLarge)
	}
	out := append(make([]byte, 0, max(least, len(content))), mark...)
	done := 0
	for range total {
		start, end, _ := s.after(body, done)
		out = append(out, body[done:start]...)
		out = p.appendTo(out, body[start:end])
		if done = end; len(out)+len(body)-done > limit {
			return nil, 0, fail(ResultTooLarge)
		}
	}
	out = append(out, body[done:]...)
	if bytes.Equal(out, content) {
		return nil, 0, fail(NoChange)
	}
	return out, total, nil
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
