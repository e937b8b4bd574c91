package edit

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// source is a made-up program of about size bytes in which no line occurs twice.
func source(size int, eol string) []byte {
	var b bytes.Buffer
	b.Grow(size + 256)
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "func name%d(ctx Context, value int) error {%s\tif value > %d {%s\t\treturn fmt.Errorf(\"value %%d of %x\", value)%s\t}%s\treturn nil%s}%s%s", i, eol, i*7, eol, uint32(i)*2654435761, eol, eol, eol, eol, eol)
	}
	return b.Bytes()
}

// spoilt is n lines from the middle of text with every fifth one changed, and
// the number of the first of them.
func spoilt(text []byte, n int) (old string, line int) {
	lines := strings.SplitAfter(string(text), "\n")
	line = len(lines) / 2
	part := append([]string(nil), lines[line:line+n]...)
	for i := 2; i < n; i += 5 {
		part[i] = strings.Replace(part[i], "return", "Panic!!", 1) + "\t// added\n"
	}
	return strings.Join(part, ""), line + 1
}

// edited is a text in UTF-8 after its edits.
func edited(ctx context.Context, content []byte, edits []Edit) ([]byte, int, error) {
	r, err := Apply(ctx, content, edits, "")
	return r.Content, r.Replacements, err
}

func mustApply(tb testing.TB, content []byte, edits ...Edit) []byte {
	tb.Helper()
	out, _, err := edited(context.Background(), content, edits)
	testbed.NoErr(tb, err)
	return out
}

// TestHostile makes the calls that take longest with a search that is not
// linear: minutes and more. The bound is far above what they need.
func TestHostile(t *testing.T) {
	a := func(n int) string { return strings.Repeat("a", n) }
	k, m := 1<<10, 1<<20
	if testbed.RaceDetector {
		k, m = k/32, m/32
	}
	period := strings.Repeat("aaaaaaaaaaaaaaaab", 600*k)
	for _, c := range []struct {
		name, text, old, reason string
		matches                 int
	}{
		{"one letter", a(m), a(100 * k), TooManyMatches, 10},
		{"last letter differs", a(m), a(100*k) + "b", OldStringNotFound, 0},
		{"first letter differs", a(m), "b" + a(100*k), OldStringNotFound, 0},
		{"middle differs", a(m), a(50*k) + "b" + a(50*k), OldStringNotFound, 0},
		{"period", period, period[:17*6*k] + "c", OldStringNotFound, 0},
		{"only line ends", strings.Repeat("\r\n", m), strings.Repeat("\n", 100*k) + "x", OldStringNotFound, 0},
		{"only spaces", strings.Repeat(" ", m), strings.Repeat(" ", 100*k) + "x", OldStringNotFound, 0},
		{"spaces around letters", strings.Repeat("a"+strings.Repeat(" ", 10*k), 500), strings.Repeat("a ", 50*k), OldStringNotFound, 0},
		{"every byte a match", a(4 * m), "a", TooManyMatches, 4 * m},
		{"case", a(4 * m), strings.Repeat("A", 100*k), OldStringNotFound, 0},
		{"two letters", strings.Repeat("ab", m), strings.Repeat("ba", 50*k) + "c", OldStringNotFound, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			end := testbed.Within(t, 3*time.Second, "the search")
			f := failure(t, c.text, Edit{Old: c.old, New: "x", Count: 2})
			end()
			testbed.Expect(t, f.Reason == c.reason && f.Matches == c.matches, "%s with %d matches, want %s with %d", f.Reason, f.Matches, c.reason, c.matches)
		})
	}
}
