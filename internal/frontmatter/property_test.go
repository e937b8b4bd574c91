package frontmatter_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/resilientwrite/resilientwrite/internal/frontmatter"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// fragments are what random texts are made of: the places where YAML is
// surprising, beside plain words.
var fragments = []string{
	"a", "word", "two words", " ", "  ", "\n", "\n\n", "\n  ", "\t", "\r", "\r\n", ": ", ":", " #", "#", "- ", "-", "---", "...",
	"\n---\n", "? ", "|", ">", "|-\n", "[", "]", "{", "}", ",", "&a ", "*a", "!!str ", "!", "%", "@", "`", "'", "\"", "\\", "\\n",
	"<<", "<", "=", "~", "null", "true", "False", "yes", "No", "on", "0", "1", "-1", "1.0", "1e5", "007", "0x1F", "0o17", "1_000", ".5", ".inf", ".NaN",
	"2026-11-21", "2026-11-21T10:00:00Z", "10:30", "12:30:45", "http://example.org/a#b", "C:\\users\\x41", "日本語", "中文。", "한국어",
	"😀", "👩‍👩‍👧", "é", "\u00a0", "\u3000", "\u0085", "\u2028", "\u2029", "\ufeff", "\u202e", "\x00", "\x1b[31m", "\x7f", "\u009f", "\ufffd", "\uffff", "\U0010ffff",
}

func randomText(r *rand.Rand) string {
	var b strings.Builder
	for range r.IntN(1 + r.IntN(8)) {
		b.WriteString(fragments[r.IntN(len(fragments))])
	}
	return b.String()
}

var numbers = []json.Number{"0", "-0", "1", "-17", "1.0", "1.50", "1e5", "1E+400", "0.1", "123456789012345678901234567890", "-1.5e-7"}

func randomValue(r *rand.Rand, depth int) any {
	kind := r.IntN(12)
	if depth > 5 && kind > 8 {
		kind = 5
	}
	switch kind {
	case 0:
		return nil
	case 1:
		return r.IntN(2) == 0
	case 2:
		return numbers[r.IntN(len(numbers))]
	case 3:
		return json.Number(fmt.Sprint(r.Int64() - 1<<62))
	case 9:
		list := []any{}
		for range r.IntN(5) {
			list = append(list, randomValue(r, depth+1))
		}
		return list
	case 10, 11:
		return randomMap(r, depth+1)
	}
	return randomText(r)
}

func randomMap(r *rand.Rand, depth int) *frontmatter.Map {
	m := &frontmatter.Map{}
	for range r.IntN(6) {
		m.Set(randomText(r), randomValue(r, depth))
	}
	return m
}

func randomBody(r *rand.Rand) []byte {
	body := []byte(randomText(r) + randomText(r))
	if r.IntN(3) == 0 {
		for range r.IntN(100) {
			body = append(body, byte(r.Uint32()))
		}
	}
	return body
}

// TestRoundTrip: what Join wrote, Split and Decode read back, and so does the
// JSON form.
func TestRoundTrip(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for round := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, round))
		m, body := randomMap(r, 0), randomBody(r)
		name := fmt.Sprintf("seed %d, round %d", seed, round)
		doc, err := frontmatter.Join(m, body)
		testbed.NoErr(t, err, name)
		again, err := frontmatter.Join(m, body)
		testbed.Require(t, err == nil && bytes.Equal(doc, again), "%s: not deterministic: %v", name, err)
		yaml, gotBody, err := frontmatter.Split(doc)
		testbed.Require(t, err == nil && bytes.Equal(body, gotBody), "%s: body %q, want %q, %v", name, gotBody, body, err)
		got, err := frontmatter.Decode(yaml)
		testbed.Require(t, err == nil, "%s: %v\n%s", name, err, yaml)
		diff := cmp.Diff(m, got)
		testbed.Require(t, diff == "", "%s:\n%s\n%s", name, diff, yaml)
		text, err := json.Marshal(m)
		testbed.NoErr(t, err, name)
		var read frontmatter.Map
		err = json.Unmarshal(text, &read)
		testbed.Require(t, err == nil && read.Equal(m), "%s: %v\n%s", name, err, text)
	}
}

// TestSplitJoinBodies: bodies that look like front matter, or like nothing.
func TestSplitJoinBodies(t *testing.T) {
	m := &frontmatter.Map{}
	m.Set("text", "one\n---\ntwo\n...\n")
	m.Set("---", "---")
	for _, body := range []string{
		"", "\n", "x", "no final newline", "---", "---\n", "...\n", "\n---\n", "---\na: 1\n---\n", "\r\n", "a\r\nb\r\n", "\x00\xff\xfe", "\ufeff---\n",
	} {
		doc := testbed.Must(frontmatter.Join(m, []byte(body)))(t)
		yaml, got, err := frontmatter.Split(doc)
		testbed.Expect(t, err == nil && string(got) == body, "body %q became %q, %v", body, got, err)
		back, err := frontmatter.Decode(yaml)
		testbed.Expect(t, err == nil && back.Equal(m), "%q: %v, %v", body, back, err)
	}
}

// FuzzSplit: the parts lie in the document as they are, and joined again by
// hand they are split in the same way.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{"---\na: 1\n---\nbody", "\ufeff--- \r\na: 1\r\n...\r\nx", "---\n---", "---", "--", "---\n---\n---\n", "---\na: |\n  ---\n---\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		yaml, body, err := frontmatter.Split(doc)
		if err != nil {
			testbed.Require(t, errors.Is(err, frontmatter.MissingDelimiter) || errors.Is(err, frontmatter.Unterminated), "%v", err)
			return
		}
		testbed.Require(t, bytes.HasSuffix(doc, body) && bytes.Contains(doc, yaml), "%q: %q, %q", doc, yaml, body)
		again := append(append([]byte("---\n"), yaml...), "---\n"...)
		yaml2, body2, err := frontmatter.Split(append(again, body...))
		testbed.Require(t, err == nil && bytes.Equal(yaml, yaml2) && bytes.Equal(body, body2), "%q: %q, %q, %v", doc, yaml2, body2, err)
	})
}

// FuzzDecode: nothing makes Decode panic or linger, its errors are of the named kinds,
// and what it read survives Encode and Decode, and JSON too.
func FuzzDecode(f *testing.F) {
	for _, s := range append(hostileSeeds, template, "a: &x [1, {b: c}]\nd: *x\n", "a: >-\n  x\n  y\n\n  z\n", "a: \"\\ud83d\\ude00\\x41\"\n",
		"a: !!str 1\nb: !!map {}\n", "a: {b: [c, 'd', \"e\"]}\n", "'a b': x\n\"c\": # y\n  - - 1\n    - 2\n",
		"a: 1\nb:\n  c: 1\n  d:\n  - e: 1\n    f: 2\n    g: 3\n  h: |\n    i\n  j: 5\n# k\nl: &m\n  n: 1\n  o: 2\n  p: 3\nq: *m\nr: {s: t,\nu: v}\nw: x\n", "0: 0\n1: 0\n2: |\n:") {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, yaml []byte) {
		defer time.AfterFunc(time.Minute, func() { panic("too slow: " + string(yaml)) }).Stop()
		m, err := frontmatter.Decode(yaml)
		if err != nil {
			checkError(t, err)
			return
		}
		text, err := frontmatter.Encode(m)
		if errors.Is(err, frontmatter.TooLarge) {
			return
		}
		testbed.Require(t, err == nil, "%q: %v", yaml, err)
		back, err := frontmatter.Decode(text)
		testbed.Require(t, err == nil && back.Equal(m), "%q became %q: %v", yaml, text, err)
		data, err := json.Marshal(m)
		testbed.Require(t, err == nil, "%q: %v", yaml, err)
		var read frontmatter.Map
		err = json.Unmarshal(data, &read)
		testbed.Require(t, err == nil && read.Equal(m), "%q became %q: %v", yaml, data, err)
	})
}

// FuzzEncode: any text is kept as key and as value, or refused because it is
// not UTF-8.
func FuzzEncode(f *testing.F) {
	for _, s := range fragments {
		f.Add(s, s+"\n"+s)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		m, inner := &frontmatter.Map{}, &frontmatter.Map{}
		inner.Set(b, a)
		m.Set(a, []any{a, b, inner, []any{b, a}})
		m.Set(b, b)
		yaml, err := frontmatter.Encode(m)
		valid := utf8.ValidString(a) && utf8.ValidString(b)
		testbed.Require(t, (err == nil || !valid || len(a+b) >= 1000) && (err != nil || valid), "%q %q: %v", a, b, err)
		if err == nil {
			_, _, err := frontmatter.Split(append([]byte("---\n"), yaml...))
			testbed.Require(t, err != nil, "%q %q: %q holds a delimiter", a, b, yaml)
		}
	})
}

// checkError fails unless err is one of the problems of Decode, in short form.
func checkError(t *testing.T, err error) {
	t.Helper()
	var syntax *frontmatter.Error
	switch {
	case errors.Is(err, frontmatter.NotMapping), errors.Is(err, frontmatter.TooLarge):
	case errors.As(err, &syntax) && errors.Is(err, frontmatter.InvalidYAML):
		testbed.Require(t, syntax.Message != "" && strings.Count(syntax.Message, "\n") <= 2 && len(syntax.Message) <= 300 && syntax.Line >= 0,
			"%+v", syntax)
		testbed.Require(t, !strings.Contains(syntax.Message, "the parser failed"), "a panic: %s", syntax.Message)
	default:
		t.Fatalf("another error: %v", err)
	}
}
