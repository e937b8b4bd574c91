package scan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// ownScanner is a scanner with one rule of a policy.
func ownScanner(t testing.TB, expr string, keywords ...string) *Scanner {
	t.Helper()
	s := testbed.Must(New(&Policy{Extend: []CustomRule{{Family: "own", Name: "own_rule", Regex: expr, Keywords: keywords}}}))(t)
	return s
}

// ownPlaces are the places that a rule finds in a text.
func ownPlaces(s *Scanner, own *customRule, b []byte) (places [][]int, work int) {
	t := s.newText(b)
	own.scan(t)
	for _, f := range t.found {
		places = append(places, []int{f.start, f.end})
	}
	work, t.runs.work = t.runs.work, 0
	t.free()
	return places, work
}

// matches are the places that package regexp finds, empty ones left out.
func matches(expr string, b []byte) (places [][]int) {
	for _, m := range regexp.MustCompile(expr).FindAllIndex(b, -1) {
		if m[1] > m[0] {
			places = append(places, m)
		}
	}
	return places
}

var ownExprs = []string{
	`acme_[0-9a-f]{8}`, `\bacme_[0-9a-f]{8}\b`, `(?i)acme[-_]key\s*[=:]\s*(\w+)`, `(?m)^acme.*$`, `^acme`, `acme$`, `\Aacme|b\z`, `a+b|a`, `a+?b?`, `(a|ab)(c|bcd)`, `\Ba\B`,
	`[^a]a`, `é+|\x{10FFFF}`, `(?s)a.{3}b`, `a*`, `|a`, `\b`, `(?U)a+b`, `a\Qc_`, `((((a)b?)c?)d?)+`, `(?:a{2,3}){2}`, `(?P<n>ac)me`, `[[:^alpha:]]a`, `(?i:K)e`, `x|\x{fffd}a`,
}

// TestOwnPatternsFindWhatTheirExpressionsDo: at every distance from the edges
// of what one search reads.
func TestOwnPatternsFindWhatTheirExpressionsDo(t *testing.T) {
	random, rounds := rand.New(rand.NewPCG(1, 2)), 60
	if testbed.Long() {
		rounds = 300
	}
	words := []string{"acme_0123abcd", "acme", " ", "\n", "a", "b", "c", "d", "_", "é", "\xff", "\u212a", "Acme-Key = abc", "x"}
	for _, expr := range ownExprs {
		s := ownScanner(t, expr)
		check := func(b []byte) {
			t.Helper()
			if got, _ := ownPlaces(s, &s.custom[0], b); fmt.Sprint(got) != fmt.Sprint(matches(expr, b)) {
				t.Fatalf("%s in %.80q of %d bytes: %v, want %v", expr, b, len(b), got, matches(expr, b))
			}
		}
		for range rounds {
			var b []byte
			for range random.IntN(40) {
				b = append(b, words[random.IntN(len(words))]...)
			}
			check(b)
		}
		for _, edge := range []int{ownReach - Window, ownReach} {
			b := bytes.Repeat([]byte("…."), (ownReach+Window)/4)
			copy(b[edge-13:], "acme_0123abcd aab\xffabcd ")
			for _, off := range []int{-500, -200, 30} {
				copy(b[edge+off:], " acme_0123abcd aab\xffabcd ")
			}
			check(b)
			check(b[1:])
		}
	}
}

// FuzzOwnMatches compares the scan of a rule with its expression, where the
// searches do not read too much.
func FuzzOwnMatches(f *testing.F) {
	for _, expr := range ownExprs {
		f.Add(expr, "acme_0123abcd aab\xffabcd é")
	}
	s := ownScanner(f, "x")
	f.Fuzz(func(t *testing.T, expr, text string) {
		if len(expr) > 100 || len(text) > 1000 {
			return
		}
		own, err := newCustomRule(&CustomRule{Regex: expr})
		if _, other := regexp.Compile(expr); err != nil || other != nil {
			testbed.Expect(t, other != nil || strings.Count(expr, "(") >= 50, "%q is refused", expr)
			return
		}
		got, work := ownPlaces(s, &own, []byte(text))
		want := matches(expr, []byte(text))
		testbed.Expect(t, work >= rereads*Window || fmt.Sprint(got) == fmt.Sprint(want), "%q in %q: %v, want %v", expr, text, got, want)
	})
}

// costly are expressions whose searches read what others read before them,
// each with a text that is made of pieces.
var costly = []struct{ expr, piece string }{
	{`(?s)a.*z|a`, "a"}, {`(?s)a.*?z|a`, "ab"}, {`(?s:a(?:.*z)?)`, "a\n"}, {`(?s)acme_(?:.*END)?`, "acme_ "}, {`a[^z]{0,900}z|a`, "a"},
	{`(?s)(a.{0,60}){2}z|aa`, "a"}, {`é(?s:.*)z|é`, "é"}, {`(?s)a.*\z|b`, "b"}, {`(?i)a(?s:.*)\bz\b|a`, "aA "}, {`a+b|a`, "a"}, {`x`, "x"}, {`a*`, "ba"},
}

// someCostly are the expressions of one run: under the race detector, which has
// nothing to find in one goroutine that computes, a few.
func someCostly(most int) []struct{ expr, piece string } {
	if testbed.RaceDetector {
		most = 1
	}
	return costly[:min(most, len(costly))]
}

// checkOwnWork fails when the work of a rule is not linear in the text.
func checkOwnWork(t *testing.T, s *Scanner, own *customRule, piece []byte) {
	t.Helper()
	const n = 2 * Window
	last := 0
	for _, size := range []int{n, 2 * n, 4 * n} {
		b := bytes.Repeat(piece, size/len(piece)+1)[:size]
		_, work := ownPlaces(s, own, b)
		most := rereads*size + Window
		testbed.Expect(t, work <= most, "%s in %.40q repeated to %d bytes: work %d, want at most %d", own.re, piece, size, work, most)
		testbed.Expect(t, last <= 0 || work <= last*5/2+ownReach, "%s in %.40q repeated to %d bytes: work %d after %d", own.re, piece, size, work, last)
		last = work
	}
}

// TestOwnPatternsWorkIsLinear: most of the expressions are also seeds of FuzzOwnLinear,
// so a short run takes a part of them.
func TestOwnPatternsWorkIsLinear(t *testing.T) {
	for _, c := range testbed.Share(t, someCostly(len(costly)), 36, nil) {
		s := ownScanner(t, c.expr)
		checkOwnWork(t, s, &s.custom[0], []byte(c.piece))
	}
}

// FuzzOwnLinear looks for an expression and a text that break the bound.
func FuzzOwnLinear(f *testing.F) {
	for _, c := range testbed.Share(f, someCostly(len(costly)), 12, nil) {
		f.Add(c.expr, []byte(c.piece))
	}
	s := ownScanner(f, "x")
	f.Fuzz(func(t *testing.T, expr string, piece []byte) {
		if len(expr) > 40 || strings.Contains(expr, "{") || len(piece) == 0 || len(piece) > 512 {
			return
		}
		if own, err := newCustomRule(&CustomRule{Regex: expr}); err == nil {
			checkOwnWork(t, s, &own, piece)
		}
	})
}

// TestOwnPatternsFailClosed: where an expression reads too much, all of the
// text that is not judged is in a finding, and nothing of it is left by Redact.
func TestOwnPatternsFailClosed(t *testing.T) {
	const secret = "Q-secret-Q"
	try := func(s *Scanner, piece string, size, block, at int) {
		t.Helper()
		b := bytes.Repeat([]byte(piece), size/len(piece))
		copy(b[at:], secret)
		held := false
		st := s.NewStream(Options{Each: func(f Finding) { held = held || f.Start <= at && f.End > at }})
		st.block = block
		st.Write(b)
		if st.Report(); !held {
			t.Errorf("%s in %d bytes: what is at %d is in no finding", s.custom[0].re, size, at)
		}
		if clean, _ := s.Redact(b, Options{}); bytes.Contains(clean, []byte("secret")) {
			t.Errorf("%s in %d bytes: what is at %d is not redacted", s.custom[0].re, size, at)
		}
	}
	for _, c := range someCostly(2) {
		s := ownScanner(t, c.expr+"|"+secret)
		for _, at := range testbed.Share(t, []int{2*Window - 3, Window / 2, Window - 4, Window + 10, 4 * Window}, 5, nil) {
			if try(s, c.piece, 5*Window, Window, at); testbed.RaceDetector {
				return
			}
		}
	}
	size := 2 * Window
	if testbed.Long() {
		size = block
	}
	try(ownScanner(t, `(?s)a.*z|a|`+secret), "a", size+2*Window, size, size+Window+100)
}

// looks is a context that is done at the look with the number end.
type looks struct {
	context.Context
	n, end int
}

func (c *looks) Err() error {
	if c.n++; c.n >= c.end {
		return context.Canceled
	}
	return nil
}

// TestOwnPatternsLookAtTheContext: once for each piece of what they read, and
// they end when it is done.
func TestOwnPatternsLookAtTheContext(t *testing.T) {
	b := bytes.Repeat([]byte("a"), 4*Window)
	s := ownScanner(t, `(?s)a.*z|a`)
	scans := map[string]func(Options){
		"Score":  func(opt Options) { s.Score(b, opt) },
		"Redact": func(opt Options) { s.Redact(b, opt) },
		"Stream": func(opt Options) {
			st := s.NewStream(opt)
			st.Write(b)
			st.Report()
		},
	}
	for name, scan := range scans {
		if testbed.RaceDetector && name != "Stream" {
			continue
		}
		all := &looks{Context: context.Background(), end: math.MaxInt}
		whole := worked(s, func() { scan(Options{Context: all}) })
		testbed.Expect(t, all.n*lookEvery >= rereads*len(b), "%s: %d looks for %d bytes read", name, all.n, whole)
		ctx := &looks{Context: context.Background(), end: 100}
		work := worked(s, func() { scan(Options{Context: ctx}) })
		testbed.Expect(t, ctx.n >= 100 && work <= whole/2, "%s: %d looks, work %d of %d after the context was done", name, ctx.n, work, whole)
	}
	s = ownScanner(t, "never", "first", "second", "third")
	ctx := &looks{Context: context.Background(), end: 4}
	work := worked(s, func() { s.Score(b, Options{Context: ctx}) })
	testbed.Expect(t, ctx.n >= 4 && work >= 2*len(b), "keywords: %d looks, work %d", ctx.n, work)
}

// TestOwnPatternsHaveABound: what the patterns of a policy cost is bounded for
// a request, over all its texts; beyond it every scan fails closed.
func TestOwnPatternsHaveABound(t *testing.T) {
	s := ownScanner(t, "[ab]{1,900}c|Q-secret-Q")
	text := append(bytes.Repeat([]byte("ab"), 64<<10), "Q-secret-Q"...)
	poor := func(unasked bool) *allowance {
		return newAllowance(context.Background(), 1, unasked)
	}
	ctx, costly := poor(false), &CostlyError{}
	s.Score(text[:lookEvery/2], Options{Context: ctx})
	err := ctx.Err()
	testbed.Expect(t, err == nil, "a short text: %v", err)
	s.Score(text, Options{Context: context.WithValue(ctx, looks{}, 1)})
	err = ctx.Err()
	testbed.Expect(t, errors.As(err, &costly) && costly.Pattern == s.custom[0].rule.id, "a long one: %v", err)
	clean, _ := s.Redact(text, Options{Context: ctx})
	testbed.Expect(t, clean == nil, "Redact returned a text that was not looked at")
	for name, scan := range map[string]func(opt Options) bool{
		"Score": func(opt Options) bool {
			r := s.Score(text, opt)
			return len(r.Findings) > 0 && r.Findings[len(r.Findings)-1].End == len(text)
		},
		"Redact": func(opt Options) bool {
			clean, _ := s.Redact(text, opt)
			return !bytes.Contains(clean, []byte("secret"))
		},
		"Stream": func(opt Options) bool {
			st := s.NewStream(opt)
			st.block = Window
			st.Write(text)
			return slices.ContainsFunc(st.Report().Findings, func(f Finding) bool { return f.End == len(text) })
		},
	} {
		testbed.Expect(t, scan(Options{Context: poor(true)}), "%s: the end of the text is in no finding", name)
	}
}
