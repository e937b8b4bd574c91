package scan

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// everywhere is a scanner that looks for every keyword at every place.
func everywhere(t testing.TB) *Scanner {
	s := testbed.Must(New(&Policy{}))(t)
	var words []word
	known := map[string]int{}
	for _, r := range s.rules {
		for _, w := range r.words {
			w = strings.ToLower(w)
			n, ok := known[w]
			if !ok {
				n = len(words)
				known[w] = n
				words = append(words, word{text: w})
			}
			words[n].add(r)
		}
	}
	own := *s.builtin // the other is everyone's
	s.builtin = &own
	none := newPrefilter(nil, rarest)
	s.anywhere, s.inTokens, s.beforeTokens, s.inBoth = newPrefilter(words, rarest), none, none, none
	return s
}

// foundIn lists the findings in a text.
func foundIn(s *Scanner, b []byte) []string {
	x := s.newText(b)
	defer x.free()
	var all []string
	for _, f := range x.findings() {
		all = append(all, fmt.Sprintf("%s %d-%d %s %s", f.rule.id, f.start, f.end, f.confidence, f.from))
	}
	return all
}

// prose is n bytes of ordinary text.
func prose(n int) string {
	const plain = "The writer keeps each file in a draft until the call ends; then it moves it (see the notes, part 2), and returns 14 lines = \"ok\".\n\tif err != nil { return nil, err } // v1.2.3-rc.1 of github.com/acme/tool/v2 was the first\n"
	return strings.Repeat(plain, n/len(plain)+1)[:n]
}

// A keyword that is looked for in some places only finds what one finds that is
// looked for everywhere, whatever is around a credential.
func TestPlacesOfKeywordsMissNothing(t *testing.T) {
	s, all := scanner(t), everywhere(t)
	same := func(name, text string) {
		t.Helper()
		b := []byte(text)
		if got, want := foundIn(s, b), foundIn(all, b); !slices.Equal(got, want) {
			t.Errorf("%s: %q\nfound      %q\neverywhere %q", name, text, got, want)
		}
	}
	inURL := strings.NewReplacer("=", "%3D", "&", "%26", " ", "+", "\n", "%0A", `"`, "%22")
	inJSON := strings.NewReplacer(`"`, `\"`, "\n", `\n`, "\t", `\t`)
	for i, r := range testbed.Share(t, table(), 6, nil) {
		if testbed.RaceDetector && i%16 > 0 {
			continue // one goroutine: the rest would take minutes and show nothing
		}
		for n, h := range r.hits {
			hit := expand(h, uint64(n))
			name := r.id + " " + h
			step := 1
			if len(hit) > 200 {
				step = 7
			}
			for at := 0; at <= 130; at += step {
				same(name, prose(at)+hit+prose(at%67))
				same(name, prose(at)+"\n"+hit)
			}
			for at := n % 7; at <= 130; at += 29 * step {
				for _, glue := range []string{"=", `"`, "'", ":", "/", "(", ",", ">", ";", "|", "&", "\t", "`", "{", "@", "_", "x", "é", "\u00a0"} {
					same(name, prose(at)+glue+hit)
					same(name, prose(at)+glue+hit+glue+prose(70))
				}
				for _, end := range []string{"\n", "\r\n", "\\\n", "\n  ", "=\n"} {
					for cut := 1 + at%5; cut < len(hit); cut += 1 + len(hit)/16 {
						same(name, prose(at)+hit[:cut]+end+hit[cut:]+end+prose(20))
					}
				}
				if _, value, ok := strings.Cut(hit, "="); ok && r.within > 0 {
					for gap := 0; gap < r.within+4; gap += 3 {
						same(name, prose(at)+r.words[0]+strings.Repeat(" the", r.within/4+2)[:gap]+" key = "+value)
					}
				}
				same(name, prose(at)+"<property><name>a</name><value>"+hit+"</value></property>\n")
				same(name, prose(at)+"<add key='a' value='"+hit+"'/>\r\n")
				same(name, prose(at)+`{"a": "`+inJSON.Replace(hit)+`", "b": [1]}`)
				same(name, prose(at)+"https://api.acme.io/v1?a=1&b="+inURL.Replace(hit)+"&c=2")
			}
		}
	}
}

// The words that a filter finds are those that are there.
func FuzzPrefilter(f *testing.F) {
	s := testbed.Must(New(&Policy{}))(f)
	var words []string
	for _, r := range s.rules {
		words = append(words, r.words...)
	}
	f.Add([]byte("xpassword="), uint64(1), 0, 5, 10)
	f.Add([]byte("\xffAKIA"), uint64(2), 1, 2, 5)
	f.Fuzz(func(t *testing.T, text []byte, seed uint64, from, middle, to int) {
		checkPrefilter(t, words, text, seed, from, middle, to)
	})
}

func TestPrefilterFindsEveryWord(t *testing.T) {
	s := scanner(t)
	var words []string
	for _, r := range s.rules {
		words = append(words, r.words...)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	rounds, step := 300, 10
	if !testbed.Long() {
		rounds, step = 100, 30
	}
	if testbed.RaceDetector {
		rounds, step = 20, 200
	}
	for i := range rounds {
		// Words glued to each other, with few bytes between them.
		var b strings.Builder
		for range 1 + rng.IntN(8) {
			b.WriteString(prose(rng.IntN(12)))
			b.WriteString(anyCase(words[rng.IntN(len(words))], rng))
		}
		text := []byte(b.String())
		from := rng.IntN(len(text) + 1)
		middle := from + rng.IntN(len(text)-from+1)
		checkPrefilter(t, words, text, uint64(i), from, middle, middle+rng.IntN(len(text)-middle+1))
	}
	for i, w := range words { // one word, at each offset, at the end of the text and before it
		if i%step > 0 && (len(w) > 4 || testbed.RaceDetector) {
			continue
		}
		f := newFilters([]string{w})
		for _, at := range []int{0, 1, 5, 6} {
			for _, rest := range []string{"", "x y and z"} {
				for _, before := range []string{"#", "\xff"} {
					text := []byte(strings.Repeat(before, at) + w + rest)
					f.check(t, text, 0, 0, len(text))
				}
			}
		}
	}
}

func anyCase(w string, rng *rand.Rand) string {
	if rng.IntN(2) == 0 {
		return strings.ToUpper(w)
	}
	return w
}

// checkPrefilter checks the filters of some of the words.
func checkPrefilter(t *testing.T, words []string, b []byte, seed uint64, from, middle, to int) {
	rng := rand.New(rand.NewPCG(seed, 3))
	var some []string
	for range min(len(words), 40) {
		if w := strings.ToLower(words[rng.IntN(len(words))]); !slices.Contains(some, w) {
			some = append(some, w)
		}
	}
	f := newFilters(some)
	f.check(t, b, from, middle, to)
	long := slices.Concat([]byte(prose(4200)), bytes.Repeat(append(b, ' '), 9000/(len(b)+1)+1))
	for n := 0; n < 64; n += 1 + int(seed%7) {
		f.check(t, long[:leastFast+n], 0, 0, leastFast+n)
	}
	f.check(t, long, 0, len(b), len(long))
}

// filters are those of both kinds for some words, and what they have found.
type filters struct {
	words []string
	each  []*prefilter
	got   []foundWord
}

type foundWord struct {
	word string
	at   int
}

func newFilters(words []string) *filters {
	f := &filters{words: words}
	list := make([]word, len(words))
	for i, w := range words {
		list[i].text = w
		list[i].add(&rule{id: w, look: func(_ *text, r *rule, pos, end int) { f.got = append(f.got, foundWord{r.id, pos}) }})
	}
	f.each = []*prefilter{newPrefilter(list, rarest), newTextFilter(list)}
	return f
}

// check compares the filters with a search for each word: those between from and to
// must be found, also where the text is scanned in two parts, and no word twice.
func (f *filters) check(t *testing.T, b []byte, from, middle, to int) {
	if to = min(max(to, 0), len(b)); from < 0 || from > middle || middle > to {
		from, middle = 0, 0
	}
	s, low := scanner(t), bytes.Clone(b)
	for i, c := range b {
		low[i] = lower(c)
	}
	for kind, p := range f.each {
		f.got = nil
		x := s.newText(b)
		p.scan(x, from, middle)
		p.scan(x, middle, to)
		x.free()
		found := map[foundWord]bool{}
		for _, one := range f.got {
			testbed.Require(t, !found[one] && bytes.EqualFold(b[one.at:one.at+len(one.word)], []byte(one.word)),
				"filter %d, %q: found %v twice, or it is not there", kind, b, one)
			found[one] = true
		}
		for _, w := range f.words {
			for at := from; at < to; at++ {
				n := bytes.Index(low[at:to], []byte(w))
				if n < 0 {
					break
				}
				at += n
				testbed.Require(t, found[foundWord{w, at}],
					"filter %d, %q from %d over %d to %d: %q at %d is not found", kind, b, from, middle, to, w, at)
			}
		}
	}
}

// Tokens are the runs of at least shortToken bytes of a token, and the shorter
// ones that may go on in the next line.
func TestTokens(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	check := func(b []byte) {
		t.Helper()
		checkTokens(t, b)
	}
	for n := range 140 { // one token of every length, at the ends of the text and at each offset
		for _, at := range []int{0, 1, 7, 31, 55, 56, 57, 62, 63, 64, 65, 100, 127, 128, 129} {
			run := bytes.Repeat([]byte("a"), n)
			for _, digit := range []int{0, n / 2, n - 1} {
				one := bytes.Clone(run)
				if n > 0 && at%2 == 1 {
					one[digit] = '7'
				}
				for _, rest := range []string{"", " ", "é"} {
					check([]byte(strings.Repeat("(", at) + string(one) + rest))
				}
			}
		}
	}
	const kinds = "aZ09_-./:+~^ \n\"'=(\x00\x7f\x80\xff\t[{`@;,<>?!"
	for range 2000 {
		b := make([]byte, rng.IntN(400))
		for i := range b {
			if b[i] = kinds[rng.IntN(len(kinds))]; rng.IntN(20) > 0 {
				b[i] = kinds[rng.IntN(12)]
			}
		}
		check(b)
	}
	for c := range 256 {
		want := isWord(byte(c)) || c == 0x7f || strings.IndexByte("-./:+~^", byte(c)) >= 0
		testbed.Expect(t, tokenByte(byte(c)) == want, "%q: %v", byte(c), !want)
	}
}

func FuzzTokens(f *testing.F) {
	f.Add([]byte("aaaaaaaaaaaaaaaaaaaaaaaaaaaa 1aaaaaaaa\n"))
	f.Fuzz(checkTokens)
}

// tokenSpan is a token that was looked at.
type tokenSpan struct {
	start, end int
	digit      bool
}

func checkTokens(t *testing.T, b []byte) {
	t.Helper()
	var want []tokenSpan
	for i := 0; i < len(b); i++ {
		if !tokenByte(b[i]) {
			continue
		}
		one := tokenSpan{start: i}
		for i < len(b) && tokenByte(b[i]) {
			one.digit = one.digit || digit(b[i])
			i++
		}
		i--
		one.end = i + 1
		if n := one.end - one.start; n >= shortToken || n >= 8 && lineBreak(b, one.end) {
			want = append(want, one)
		}
	}
	var hidden []int
	control := false
	for i := range b {
		if control = control || b[i] < 9; hiddenWidth(b[i:]) > 0 {
			hidden = append(hidden, i)
		}
	}
	bounds := stretch{}
	if hidden != nil {
		bounds = stretch{hidden[0], hidden[len(hidden)-1] + 1}
	}
	s := scanner(t)
	x := s.newText(b)
	defer x.free()
	var got []tokenSpan
	x.tokens(func(_ *text, start, end int, digit bool) {
		if end-start >= shortToken || lineBreak(b, end) {
			got = append(got, tokenSpan{start, end, digit})
		}
	})
	testbed.Require(t, slices.Equal(got, want), "%q: tokens %v, want %v", b, got, want)
	testbed.Require(t, x.hidden == bounds && x.typed != control, "%q: hidden %v, want %v, typed %v", b, x.hidden, bounds, x.typed)
	checkNumbers(t, x)
}

// checkNumbers compares what is found at the marked digits with what is found
// when all are.
func checkNumbers(t *testing.T, x *text) {
	t.Helper()
	found := func() (all []string) {
		x.found = x.found[:0]
		x.numbers()
		for _, f := range x.found {
			all = append(all, fmt.Sprint(f.rule.id, f.start, f.end))
		}
		return all
	}
	got := found()
	for i, c := range x.b {
		if digit(c) {
			x.runs.numbers[i>>6] |= 1 << (i & 63)
		}
	}
	if want := found(); !slices.Equal(got, want) {
		t.Fatalf("%q: numbers %v, want %v", x.b, got, want)
	}
}

// Numbers are found wherever they begin and whatever is around them.
func TestNumbers(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	whole := []string{"4539 1488 0343 6467", "4539148803436467", "536-22-8741", "+14155550132", "+1 (415) 555-0132", "GB29NWBK60161331926819", "GB29 NWBK 6016 1331 9268 19", "12345678", "123456789", "SHA256"}
	s, found := scanner(t), 0
	for range 20_000 {
		var b []byte
		for range 1 + rng.IntN(8) {
			if rng.IntN(3) == 0 {
				b = append(b, whole[rng.IntN(len(whole))]...)
			}
			for range rng.IntN(20) {
				b = append(b, "0123456789012345678901234567890123456789  --++AGBx_.(\né"[rng.IntN(54)])
			}
		}
		x := s.newText(b)
		x.tokens(func(*text, int, int, bool) {})
		checkNumbers(t, x)
		found += len(x.found)
		x.free()
	}
	testbed.Expect(t, found >= 1000, "found %d numbers", found)
}
