package edit

import (
	"bytes"
	"cmp"
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// rounds is n at full size, and a quarter of it in a short run.
func rounds(n int) int {
	if testbed.Long() {
		return n
	}
	return n / 4
}

// words makes short texts of few letters, so that strings often match, more
// than once and overlapping.
func words(rnd *rand.Rand, letters []string, n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(letters[rnd.IntN(len(letters))])
	}
	return b.String()
}

// model is what Apply does to a text without carriage returns.
func model(in string, edits []Edit) (out string, n int, reason string) {
	for _, e := range edits {
		c := strings.Count(in, e.Old)
		switch {
		case c == 0:
			return "", 0, OldStringNotFound
		case e.Count < 0 || c == e.Count:
		case c < e.Count:
			return "", 0, InsufficientMatches
		case e.Count == 1:
			return "", 0, AmbiguousMatch
		default:
			return "", 0, TooManyMatches
		}
		in = string(bytes.ReplaceAll([]byte(in), []byte(e.Old), []byte(e.New)))
		n += c
	}
	return in, n, ""
}

func randomEdits(rnd *rand.Rand, letters []string) []Edit {
	edits := make([]Edit, 1+rnd.IntN(3))
	for i := range edits {
		edits[i] = Edit{words(rnd, letters, 1+rnd.IntN(5)), words(rnd, letters, rnd.IntN(5)), rnd.IntN(4)}
		edits[i].Count = cmp.Or(edits[i].Count, -1)
		for edits[i].New == edits[i].Old {
			edits[i].New += "c"
		}
	}
	return edits
}

// verify compares Apply with what the model says.
func verify(t *testing.T, in string, edits []Edit, want string, n int, reason string) {
	t.Helper()
	out, m, err := edited(context.Background(), []byte(in), edits)
	if reason != "" {
		f, ok := err.(*Failure)
		testbed.Require(t, ok && f.Reason == reason, "%q %q: %v, want %s", in, edits, err, reason)
		return
	}
	testbed.Require(t, err == nil && string(out) == want && m == n, "%q %q: %q, %d, %v, want %q, %d", in, edits, out, m, err, want, n)
}

// TestModel compares random edits with the model: of a file with LF, and of the
// same file with CRLF, in which the same has to happen.
func TestModel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testbed.Seed(t), 1))
	letters := []string{"a", "a", "b", "\n", "世", " "}
	for range rounds(30_000) {
		in := words(rnd, letters, rnd.IntN(30))
		edits := randomEdits(rnd, letters)
		want, n, reason := model(in, edits)
		verify(t, in, edits, want, n, reason)

		// After its last line end, the CRLF file would be one without.
		if !strings.Contains(in, "\n") || reason == "" && len(edits) > 1 {
			continue
		}
		crlf := func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") }
		verify(t, crlf(in), edits, crlf(want), n, reason)
		verify(t, bom+crlf(in), edits, bom+crlf(want), n, reason)
	}
}

// TestMixed makes random edits of mixed files. Without regard to the style of
// line ends, the result is that of the model, and the line ends in front of and
// after the matches stay the same.
func TestMixed(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testbed.Seed(t), 2))
	letters := []string{"a", "b", "\n", "\r\n"}
	for range rounds(30_000) {
		in := words(rnd, letters, rnd.IntN(30))
		e := randomEdits(rnd, []string{"a", "b", "\n"})[0]
		want, n, reason := model(lineFeeds(in), []Edit{e})
		out, m, err := edited(context.Background(), []byte(in), []Edit{e})
		if reason != "" {
			f, ok := err.(*Failure)
			testbed.Require(t, ok && f.Reason == reason, "%q %q: %v, want %s", in, e, err, reason)
			continue
		}
		testbed.Require(t, err == nil && m == n && lineFeeds(string(out)) == want, "%q %q: %q, %d, %v", in, e, out, m, err)
		start, _, _ := newSearch(e.Old, true).after([]byte(in), 0)
		testbed.Require(t, strings.HasPrefix(string(out), in[:start]), "%q %q: %q begins otherwise", in, e, out)
		if n > 1 {
			continue
		}
		_, end, _ := newSearch(e.Old, true).after([]byte(in), 0)
		testbed.Require(t, strings.HasSuffix(string(out), in[end:]), "%q %q: %q ends otherwise", in, e, out)
	}
}

func FuzzApply(f *testing.F) {
	for _, c := range applyCases {
		f.Add([]byte(c.in), c.edits[0].Old, c.edits[0].New, c.edits[0].Count)
	}
	for _, c := range closestCases {
		f.Add([]byte(c.in), c.old, "x", -1)
	}
	f.Fuzz(func(t *testing.T, in []byte, old, new string, count int) {
		before := string(in)
		out, n, err := edited(context.Background(), in, []Edit{{old, new, count}})
		testbed.MustEqual(t, string(in), before, "the content has changed")
		if fail, ok := err.(*Failure); err != nil {
			testbed.Require(t, ok && fail.Reason != "" && out == nil && n == 0 && len(fail.Lines) == min(fail.Matches, maxLines), "%#v with %q", err, out)
			if c := fail.Closest; c != nil && (c.Line < 1 || c.Line > 1+bytes.Count(in, []byte("\n")) || c.Similarity <= 0.5 || c.Similarity >= 1 || c.Why == "") {
				t.Fatalf("%+v", *c)
			}
		} else if utf8.ValidString(before) && !utf8.Valid(out) && wideOf(in) == nil || n < 1 || count > 0 && n != count || bytes.Equal(in, out) {
			t.Fatalf("%q with %d replacements", out, n)
		}
		fuzzLF(t, before, Edit{old, new, count}, string(out), n, err)
	})
}

// fuzzLF looks at what has to come out for a file without carriage returns or a
// byte order mark.
func fuzzLF(t *testing.T, in string, e Edit, out string, n int, err error) {
	valid := utf8.ValidString(in) && utf8.ValidString(e.Old) && utf8.ValidString(e.New)
	if wideOf([]byte(in)) != nil || wideOf([]byte(out)) != nil { // NULs, as in UTF-16
		return
	}
	if !valid || strings.Contains(in, "\r") || strings.HasPrefix(in, bom) || e.Old == "" || e.Old == e.New {
		return
	}
	want, c, reason := model(in, []Edit{e})
	testbed.Require(t, (reason == "") == (err == nil), "%s: %v", reason, err)
	if err != nil {
		return
	}
	testbed.Require(t, out == want && n == c, "%q with %d, want %q with %d", out, n, want, c)
	if c != 1 || strings.Contains(e.New, "\r") || strings.HasPrefix(out, bom) || e.New == "" || strings.Count(out, e.New) != 1 {
		return
	}
	if back := mustApply(t, []byte(out), Edit{e.New, e.Old, 1}); string(back) != in {
		// The only match of New need not be where Old was: "ab" → "ba" in "aab".
		i := strings.Index(in, e.Old)
		testbed.Require(t, strings.Index(out, e.New) != i, "back to %q from %q", back, out)
	}
}
