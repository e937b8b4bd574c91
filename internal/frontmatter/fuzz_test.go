package frontmatter_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/frontmatter"
)

// FuzzSplit: the parts lie in the document as they are, and joined again by
// hand they are split in the same way.
func FuzzSplit(f *testing.F) {
	for _, s := range []string{"---\na: 1\n---\nbody", "\ufeff--- \r\na: 1\r\n...\r\nx", "---\n---", "---", "--", "---\n---\n---\n", "---\na: |\n  ---\n---\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, doc []byte) {
		yaml, body, err := frontmatter.Split(doc)
		if err != nil {
			if !errors.Is(err, frontmatter.MissingDelimiter) && !errors.Is(err, frontmatter.Unterminated) {
				t.Fatal(err)
			}
			return
		}
		if !bytes.HasSuffix(doc, body) || !bytes.Contains(doc, yaml) {
			t.Fatalf("%q: %q, %q", doc, yaml, body)
		}
		again := append(append([]byte("---\n"), yaml...), "---\n"...)
		yaml2, body2, err := frontmatter.Split(append(again, body...))
		if err != nil || !bytes.Equal(yaml, yaml2) || !bytes.Equal(body, body2) {
			t.Fatalf("%q: %q, %q, %v", doc, yaml2, body2, err)
		}
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
		if err != nil {
			t.Fatalf("%q: %v", yaml, err)
		}
		if back, err := frontmatter.Decode(text); err != nil || !back.Equal(m) {
			t.Fatalf("%q became %q: %v", yaml, text, err)
		}
		data, err := json.Marshal(m)
		if err != nil {
			t.Fatalf("%q: %v", yaml, err)
		}
		var read frontmatter.Map
		if err := json.Unmarshal(data, &read); err != nil || !read.Equal(m) {
			t.Fatalf("%q became %q: %v", yaml, data, err)
		}
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
		if valid := utf8.ValidString(a) && utf8.ValidString(b); err != nil && (valid && len(a+b) < 1000) || err == nil && !valid {
			t.Fatalf("%q %q: %v", a, b, err)
		}
		if err == nil {
			if _, _, err := frontmatter.Split(append([]byte("---\n"), yaml...)); err == nil {
				t.Fatalf("%q %q: %q holds a delimiter", a, b, yaml)
			}
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
		if syntax.Message == "" || strings.Count(syntax.Message, "\n") > 2 || len(syntax.Message) > 300 || syntax.Line < 0 {
			t.Fatalf("%+v", syntax)
		}
		if strings.Contains(syntax.Message, "the parser failed") {
			t.Fatalf("a panic: %s", syntax.Message)
		}
	default:
		t.Fatalf("another error: %v", err)
	}
}
