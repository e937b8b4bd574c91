package frontmatter_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/resilientwrite/resilientwrite/internal/frontmatter"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// pairs returns a Map of alternating keys and values. A number becomes a
// json.Number.
func pairs(kv ...any) *frontmatter.Map {
	m := &frontmatter.Map{}
	for i := 0; i < len(kv); i += 2 {
		switch v := kv[i+1].(type) {
		case int, float64:
			m.Set(kv[i].(string), num(fmt.Sprint(v)))
		default:
			m.Set(kv[i].(string), v)
		}
	}
	return m
}

func num(s string) json.Number { return json.Number(s) }

func TestSplit(t *testing.T) {
	for _, c := range []struct {
		doc, yaml, body string
		err             error
	}{
		{"---\na: 1\n---\nbody\n", "a: 1\n", "body\n", nil},
		{"---\n---\n", "", "", nil},
		{"---\n---", "", "", nil},
		{"---\na: 1\n...\nbody", "a: 1\n", "body", nil},
		{"\ufeff---\na: 1\n---\n\ufeffbody", "a: 1\n", "\ufeffbody", nil},
		{"--- \t\r\na: 1\r\n---  \r\n\r\nbody\r\n", "a: 1\r\n", "\r\nbody\r\n", nil},
		{"---\na: |\n  ---\n----\n --- \n---\n---\n", "a: |\n  ---\n----\n --- \n", "---\n", nil},
		{"", "", "", frontmatter.MissingDelimiter},
		{"\n---\na: 1\n---\n", "", "", frontmatter.MissingDelimiter},
		{" ---\na: 1\n---\n", "", "", frontmatter.MissingDelimiter},
		{"----\na: 1\n---\n", "", "", frontmatter.MissingDelimiter},
		{"--- a: 1\n---\n", "", "", frontmatter.MissingDelimiter},
		{"...\na: 1\n---\n", "", "", frontmatter.MissingDelimiter},
		{"# Title\n", "", "", frontmatter.MissingDelimiter},
		{"\ufeff\ufeff---\n---\n", "", "", frontmatter.MissingDelimiter},
		{"---", "", "", frontmatter.Unterminated},
		{"---\n", "", "", frontmatter.Unterminated},
		{"---\na: 1\n", "", "", frontmatter.Unterminated},
		{"---\na: 1\n --- \n--- x\n", "", "", frontmatter.Unterminated},
	} {
		yaml, body, err := frontmatter.Split([]byte(c.doc))
		testbed.Expect(t, string(yaml) == c.yaml && string(body) == c.body && errors.Is(err, c.err), "%q: %q, %q, %v", c.doc, yaml, body, err)
	}
}

// template is a handoff as a person writes it, timestamps without quotes.
const template = `# who hands over what
handoff: 1
from: planner   # the agent
created: 2026-11-21T10:00:00Z
due: 2026-11-21
offset: 2026-11-21T10:00:00.5+01:00
window: 10:30
expires_in: P1W
version: 1.10
build: 007
commit: 1234567
sha: 12e5
hex: 0x1F
country: NO
answer: yes
done: false
nothing:
tilde: ~
url: https://example.org/a?b=c#d
owner: 山田 太郎 😀
tags: [parser, "10:30", 'it''s', 2.50]
steps:
- name: first
  text: |
    Read the file.

      indented
    Done.
- name: second
  text: >-
    folded
    text
- [1, [2]]
extra: {unknown: {deep: true}}
`

func TestDecodeTemplate(t *testing.T) {
	want := pairs("handoff", num("1"), "from", "planner", "created", "2026-11-21T10:00:00Z", "due", "2026-11-21",
		"offset", "2026-11-21T10:00:00.5+01:00", "window", "10:30", "expires_in", "P1W", "version", num("1.10"), "build", "007",
		"commit", num("1234567"), "sha", num("12e5"), "hex", "0x1F", "country", "NO", "answer", "yes", "done", false,
		"nothing", nil, "tilde", nil, "url", "https://example.org/a?b=c#d", "owner", "山田 太郎 😀",
		"tags", []any{"parser", "10:30", "it's", num("2.50")},
		"steps", []any{
			pairs("name", "first", "text", "Read the file.\n\n  indented\nDone.\n"),
			pairs("name", "second", "text", "folded text"),
			[]any{num("1"), []any{num("2")}},
		},
		"extra", pairs("unknown", pairs("deep", true)))
	for name, text := range map[string]string{"LF": template, "CRLF": strings.ReplaceAll(template, "\n", "\r\n")} {
		got := testbed.Must(frontmatter.Decode([]byte(text)))(t, name)
		testbed.Equal(t, cmp.Diff(want, got), "", name)
	}
}

func TestDecode(t *testing.T) {
	for in, want := range map[string]*frontmatter.Map{
		"{}":                                            pairs(),
		"a: 1":                                          pairs("a", num("1")),
		"a: -0\nb: 1E+400\nc: 0.10":                     pairs("a", num("-0"), "b", num("1E+400"), "c", num("0.10")),
		"a: +1\nb: .5\nc: 1.\nd: 0o7\ne: 1_0":           pairs("a", "+1", "b", ".5", "c", "1.", "d", "0o7", "e", "1_0"),
		"a: .inf\nb: .nan\nc: 0b1\nd: 1.2.3":            pairs("a", ".inf", "b", ".nan", "c", "0b1", "d", "1.2.3"),
		"a: True\nb: FALSE\nc: NULL\nd: Null":           pairs("a", true, "b", false, "c", nil, "d", nil),
		"a: no\nb: On\nc: y\nd: 'true'\ne: \"1\"":       pairs("a", "no", "b", "On", "c", "y", "d", "true", "e", "1"),
		"1: a\ntrue: b\n~: c\n2026-11-21: d":            pairs("1", "a", "true", "b", "~", "c", "2026-11-21", "d"),
		"a: !!str 1\nb: !!float 1\nc: !!int '1'":        pairs("a", "1", "b", num("1"), "c", num("1")),
		"a: !!str 007\nb: !!float 1\nc: !!null ~":       pairs("a", "007", "b", num("1"), "c", nil),
		"a: !!seq [1]\nb: !!map {}\nc: !!str\nd: 1":     pairs("a", []any{num("1")}, "b", pairs(), "c", "", "d", num("1")),
		"a: [!!str , !!null ]":                          pairs("a", []any{"", nil}),
		"a: !!seq [1]\nb: !!map {c: d}":                 pairs("a", []any{num("1")}, "b", pairs("c", "d")),
		"a: !!map\n  b: 1\nc: !!seq\n- 2":               pairs("a", pairs("b", num("1")), "c", []any{num("2")}),
		"a: !!str |\n  x\n":                             pairs("a", "x\n"),
		"a: &x {b: [1]}\nc: *x\nd: [*x, *x]":            pairs("a", pairs("b", []any{num("1")}), "c", pairs("b", []any{num("1")}), "d", []any{pairs("b", []any{num("1")}), pairs("b", []any{num("1")})}),
		"a: &x\nb: *x":                                  pairs("a", nil, "b", nil),
		"a: &x 1\nb: &x 2\nc: *x":                       pairs("a", num("1"), "b", num("2"), "c", num("2")),
		"a: &x [&y 1, *y]\nb: &y 2\nc: *x\nd: *y":       pairs("a", []any{num("1"), num("1")}, "b", num("2"), "c", []any{num("1"), num("1")}, "d", num("2")),
		`a: "\x41\u00e9\ud83d\ude00\U0001F600\n\t\e\/"`: pairs("a", "Aé😀😀\n\t\x1b/"),
		"a: \"x\n  y\n\n  z\"\nb: 'p\n  q'":             pairs("a", "x y\nz", "b", "p q"),
		"a: b\n  c\nd: e":                               pairs("a", "b c", "d", "e"),
		"{a: [x, y], \"b\":1, c: , d}":                  pairs("a", []any{"x", "y"}, "b", num("1"), "c", nil, "d", nil),
		"{at: 2026-11-21T10:00:00Z, u: http://x}":       pairs("at", "2026-11-21T10:00:00Z", "u", "http://x"),
		"? a\n: b\nc: \"x\ty\"":                         pairs("a", "b", "c", "x\ty"),
		"a: 'x\n  ''  y'\nb: {c: [10:30]}":              pairs("a", "x '  y", "b", pairs("c", []any{"10:30"})),
		`a: "\ud83d\ude00\ud83d\ude00\\"`:               pairs("a", "😀😀\\"),
		"a: '\\ud83d\\ude00'":                           pairs("a", `\ud83d\ude00`),
		"x.y: 1\n\"'x\":\n  \"y'\": 2":                  pairs("x.y", num("1"), "'x", pairs("y'", num("2"))),
		"a: |+\n  x\n\nb: |-\n  y\nc: >\n  z\n  z\n":    pairs("a", "x\n\n", "b", "y", "c", "z z\n"),
	} {
		got, err := frontmatter.Decode([]byte(in))
		if want == nil {
			testbed.Expect(t, errors.Is(err, frontmatter.InvalidYAML), "%q: %v, %v", in, got, err)
			continue
		}
		if err != nil {
			t.Errorf("%q: %v", in, err)
		} else if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q:\n%s", in, diff)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, c := range []struct {
		in   string
		want error
		line int // of in, which follows the opening line
		text string
	}{
		{"", frontmatter.NotMapping, 0, ""}, {"\n# only\n", frontmatter.NotMapping, 0, ""}, {"- a\n", frontmatter.NotMapping, 0, ""},
		{"text\n", frontmatter.NotMapping, 0, ""}, {"[a]\n", frontmatter.NotMapping, 0, ""}, {"null", frontmatter.NotMapping, 0, ""},
		{"a: 1\nb: 2\na: 3\n", frontmatter.InvalidYAML, 3, "already defined"},
		{"a: {b: 1, 'b': 2}\n", frontmatter.InvalidYAML, 1, "already defined"},
		{"a: 1\n  b: 2\n", frontmatter.InvalidYAML, 2, "mapping values"},
		{"a: b: c\n", frontmatter.InvalidYAML, 1, "not allowed"},
		{"a: [1, 2\nb: 3\n", frontmatter.InvalidYAML, 2, "expected ',' or ']'"},
		{"a: \"x\nb: 1\n", frontmatter.InvalidYAML, 1, "quoted scalar"},
		{"a: \"\\q\"\n", frontmatter.InvalidYAML, 1, "escape"}, {"a: @x\n", frontmatter.InvalidYAML, 1, "start any token"},
		{"a: 1\n\tb: 2\n", frontmatter.InvalidYAML, 0, ""},
		{"a: 1\n---\nb: 2\n", frontmatter.InvalidYAML, 2, "document"}, {"%YAML 1.2\n---\na: 1\n", frontmatter.InvalidYAML, 1, "directives"},
		{"a: !foo x\n", frontmatter.InvalidYAML, 1, "!foo"}, {"a: !foo", frontmatter.InvalidYAML, 1, "!foo"}, {"a: !!binary aGk=\n", frontmatter.InvalidYAML, 1, "!!binary"},
		{"a: !!timestamp 2026-11-21\n", frontmatter.InvalidYAML, 1, "!!timestamp"}, {"a: !!set {b}\n", frontmatter.InvalidYAML, 1, "!!set"},
		{"a: !!int x\n", frontmatter.InvalidYAML, 1, "!!int"}, {"a: [!!int , 3]\n", frontmatter.InvalidYAML, 1, "!!int"}, {"a: !!map\nb: 1\n", frontmatter.InvalidYAML, 1, "!!map"},
		{"a: !!seq\nb: 1\n", frontmatter.InvalidYAML, 1, "!!seq"}, {"a: !!bool yes\n", frontmatter.InvalidYAML, 1, "!!bool"},
		{"<<: {a: 1}\n", frontmatter.InvalidYAML, 1, "merge"}, {"? [a]\n: b\n", frontmatter.InvalidYAML, 1, "only scalars"},
		{"&x a: 1\n", frontmatter.InvalidYAML, 1, "keys"}, {"!!str a: 1\n", frontmatter.InvalidYAML, 1, "keys"}, {"a: &x b\n*x : 1\n", frontmatter.InvalidYAML, 2, "keys"},
		{"a: *x\n", frontmatter.InvalidYAML, 1, "anchor"}, {"a: &x [*x]\n", frontmatter.InvalidYAML, 1, "anchor"},
		{"a: \"\\ud800\"\n", frontmatter.InvalidYAML, 1, ""}, {"a: \"\\udc00 abcdef\"\n", frontmatter.InvalidYAML, 1, "escape"}, {"a: \"\\ud83d\\u0041 abcdefgh\"\n", frontmatter.InvalidYAML, 1, ""},
		{"a: \"\\xZZ\"\n", frontmatter.InvalidYAML, 1, "hexadecimal"}, {"a: [x, \"ok\", \"\\u12G4\"]\n", frontmatter.InvalidYAML, 1, "hexadecimal"}, {"a: \"\\U00110000\"\n", frontmatter.InvalidYAML, 1, "escape"},
		{"a: \x00\n", frontmatter.InvalidYAML, 1, "control"}, {"a: b\nc: \x1b[1m\n", frontmatter.InvalidYAML, 2, "control"},
		{"a: \xff\n", frontmatter.InvalidYAML, 0, "UTF-8"}, {"a: \xed\xa0\x80\n", frontmatter.InvalidYAML, 0, "UTF-8"},
		{"a: \"\\ud83d\\ude00\"\nb: '\\ud83d\\ude00'\n", frontmatter.InvalidYAML, 2, "whole character"}, {"a: \"\\\\ud83d\\ude00\"\n", frontmatter.InvalidYAML, 1, "escape"}, {"{a: [\n- b]}\n", frontmatter.InvalidYAML, 2, "node content"},
	} {
		m, err := frontmatter.Decode([]byte(c.in))
		if m != nil || !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.text) {
			t.Errorf("%q: %v, %v", c.in, m, err)
			continue
		}
		checkError(t, err)
		var syntax *frontmatter.Error
		if errors.As(err, &syntax) && errors.Is(err, frontmatter.InvalidYAML) && c.line != 0 && syntax.Line != c.line+1 {
			t.Errorf("%q: line %d, want %d: %v", c.in, syntax.Line, c.line+1, err)
		}
	}
}

// encoded is what TestEncode expects.
const encoded = `title: Parser rewrite
count: 5
f: 1.5
big: 1.10
none: null
"yes": true
"off": "off"
date: "2026-11-21T10:00:00Z"
num: "007"
empty: ""
cjk: 日本語 😀
url: https://x.org/#a
ctl: "a\x1b\u202eb\U000e0001"
text: |
  one
    two

  three
cut: |-
  a
  b
keep: |+
  a

lead: " a\nb"
tail: "a \nb "
crlf: "a\r\nb"
dash: "- x"
hash: "a #b"
colon: "a: b"
quote: say "hi"
merge: "<<"
time: "2026-11-21 10:00:00"
letter: "y"
wide: "a　b"
joined: 👩‍🚀
joined too: "- 👩‍🚀\\"
list:
  - a
  - - 1
    - null
  - k: v
    w: []
  - {}
map:
  in:
    deep: x
`

func TestEncode(t *testing.T) {
	m := pairs("title", "Parser rewrite", "count", 5, "f", 1.5, "big", num("1.10"), "none", nil, "yes", true, "off", "off",
		"date", "2026-11-21T10:00:00Z", "num", "007", "empty", "", "cjk", "日本語 😀", "url", "https://x.org/#a", "ctl", "a\x1b\u202eb\U000e0001",
		"text", "one\n  two\n\nthree\n", "cut", "a\nb", "keep", "a\n\n", "lead", " a\nb", "tail", "a \nb ", "crlf", "a\r\nb",
		"dash", "- x", "hash", "a #b", "colon", "a: b", "quote", "say \"hi\"", "merge", "<<",
		"time", "2026-11-21 10:00:00", "letter", "y", "wide", "a\u3000b", "joined", "👩\u200d🚀", "joined too", "- 👩\u200d🚀\\",
		"list", []any{"a", []any{num("1"), nil}, pairs("k", "v", "w", []any{}), pairs()}, "map", pairs("in", pairs("deep", "x")))
	got := testbed.Must(frontmatter.Encode(m))(t)
	testbed.Equal(t, cmp.Diff(encoded, string(got)), "")
	got, err := frontmatter.Encode(&frontmatter.Map{})
	testbed.Expect(t, string(got) == "{}\n" && err == nil, "%q, %v", got, err)
}

func TestEncodeRefuses(t *testing.T) {
	deep := any("x")
	for range frontmatter.MaxDepth {
		deep = []any{deep}
	}
	loop := pairs()
	loop.Set("a", loop)
	many := make([]any, frontmatter.MaxNodes)
	for name, c := range map[string]struct {
		value any
		want  error
	}{
		"invalid UTF-8": {"a\xff", frontmatter.NotEncodable}, "half a character": {"\xed\xa0\x80", frontmatter.NotEncodable},
		"invalid key": {pairs("\xff", 1), frontmatter.NotEncodable}, "NaN": {math.NaN(), frontmatter.NotEncodable}, "infinity": {math.Inf(1), frontmatter.NotEncodable},
		"no number": {num("0x1"), frontmatter.NotEncodable}, "empty number": {num(""), frontmatter.NotEncodable}, "number in two lines": {num("1\n"), frontmatter.NotEncodable},
		"type": {struct{}{}, frontmatter.NotEncodable}, "too deep": {deep, frontmatter.NotEncodable}, "loop": {loop, frontmatter.NotEncodable},
		"size": {strings.Repeat("x", frontmatter.MaxSize), frontmatter.TooLarge}, "count": {many, frontmatter.TooLarge},
	} {
		got, err := frontmatter.Join(pairs("k", c.value), nil)
		testbed.Expect(t, got == nil && errors.Is(err, c.want) && len(err.Error()) <= 300, "%s: %q, %v", name, got, err)
		_, err = json.Marshal(pairs("k", c.value))
		testbed.Expect(t, c.want != frontmatter.NotEncodable || err != nil, "%s: JSON accepts it", name)
	}
	_, err := frontmatter.Encode(pairs("k", deep.([]any)[0]))
	testbed.Expect(t, err == nil, "depth %d: %v", frontmatter.MaxDepth, err)
}

// FuzzLinear: splitting, reading and writing front matter takes work in
// proportion to its length.
func FuzzLinear(f *testing.F) {
	seeds := append([]string{"k#: v\n", "  k#: v\n", "- k: v\n", "k#:\n  - a\n", "k#: |\n  a\n\n", "k#: \"\\x41\"\n", "&a# [ … ]", "*a ", "{k#: … }", "? "}, hostileSeeds...)
	testbed.FuzzLinear(f, 4<<10, 20*time.Microsecond, seeds, func(text []byte) int {
		decode := func(yaml []byte) {
			if m, err := frontmatter.Decode(yaml); err == nil {
				m.MarshalJSON()
				frontmatter.Encode(m)
			}
		}
		for _, prefix := range []string{"", "h:\n", "a: \"", "a: |\n  x", "a: [", "a: >\n "} {
			decode(append([]byte(prefix), text...))
		}
		if yaml, _, err := frontmatter.Split(append([]byte("---\n"), text...)); err == nil {
			decode(yaml)
		}
		quoted, _ := json.Marshal(string(text))
		for _, doc := range []string{string(text), `{"a":` + string(quoted) + `}`, `{` + string(text) + `"z":1}`, `{"a":[` + string(text) + `1]}`} {
			var m frontmatter.Map
			if m.UnmarshalJSON([]byte(doc)) == nil {
				frontmatter.Encode(&m)
			}
		}
		return 0
	})
}

// TestEveryRefusalHasAPlace: whatever is refused is reported with its line and
// column, and a limit by its name.
func TestEveryRefusalHasAPlace(t *testing.T) {
	for name, c := range map[string]struct {
		yaml         string
		line, column int
		want         frontmatter.Problem
		says         string
	}{
		"invalid byte":             {"a: 1\nb: é\xffx\n", 2, 5, frontmatter.InvalidYAML, "UTF-8"},
		"invalid byte after CRLF":  {"a: 1\r\n\r\nb: \xc3\r\n", 3, 4, frontmatter.InvalidYAML, "UTF-8"},
		"invalid byte after CR":    {"a: 1\rb: \xed\xa0\x80\r", 2, 4, frontmatter.InvalidYAML, "UTF-8"},
		"invalid first byte":       {"\xff", 1, 1, frontmatter.InvalidYAML, "UTF-8"},
		"a real U+FFFD before it":  {"a: \ufffd\xfe", 1, 5, frontmatter.InvalidYAML, "UTF-8"},
		"control character":        {"a: 1\nb: \x01\n", 2, 4, frontmatter.InvalidYAML, "control"},
		"nested on one line":       {"summary: " + strings.Repeat("a: ", 100) + "\n", 1, 11, frontmatter.InvalidYAML, "mapping values"},
		"nested by indent":         {nestedBy(70, ""), 65, 65, frontmatter.TooLarge, "nested deeper than 64"},
		"nested brackets":          {"a: 1\nb: " + strings.Repeat("[", 70) + strings.Repeat("]", 70), 2, 67, frontmatter.TooLarge, "nested deeper than 64"},
		"nested dashes under keys": {nestedBy(40, "- "), 0, 0, frontmatter.TooLarge, "nested deeper than 64"},
		"nested by an alias":       {"a: &a " + nestedIn(40) + "\nb: " + nestedIn(40, "*a"), 2, 44, frontmatter.TooLarge, "nested deeper than 64"},
		"nested by two aliases":    {"a: &a " + nestedIn(25) + "\nb: &b [" + nestedIn(25, "*a") + "]\nc: " + nestedIn(20, "*b"), 3, 24, frontmatter.TooLarge, "nested deeper than 64"},
		"values by an alias":       {"a: &a [" + strings.Repeat("1,", 9000) + "]\nb: [" + strings.Repeat("*a, ", 20) + "]", 2, 45, frontmatter.TooLarge, "more than 100000 values"},
	} {
		_, err := frontmatter.Decode([]byte(c.yaml))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		line, column, message := placeOf(err)
		if line < 1 || column < 1 || c.line > 0 && (line != c.line || column != c.column) || !strings.Contains(message, c.says) {
			t.Errorf("%s: %d, %d: %q; want %d, %d", name, line, column, message, c.line, c.column)
		}
	}
	_, err := frontmatter.Decode([]byte(strings.Repeat("a", frontmatter.MaxSize+1)))
	_, _, message := placeOf(err)
	testbed.Expect(t, errors.Is(err, frontmatter.TooLarge) && strings.Contains(message, "1048576 bytes"), "size: %v", err)
}

// nestedIn is a list in a list, and so on, with the items in the innermost one.
func nestedIn(depth int, items ...string) string {
	return strings.Repeat("[", depth) + strings.Join(items, ", ") + strings.Repeat("]", depth)
}

// nestedBy is a mapping in a mapping, and so on.
func nestedBy(depth int, mark string) string {
	var b strings.Builder
	for i := range depth {
		b.WriteString(strings.Repeat(" ", i*(1+len(mark))) + mark + "a:\n")
	}
	return b.String()
}

// placeOf returns the place of a problem within the YAML text, which follows the opening line.
func placeOf(err error) (line, column int, message string) {
	var at *frontmatter.Error
	if errors.As(err, &at) {
		return at.Line - 1, at.Column, at.Message
	}
	return 0, 0, err.Error()
}

func TestMap(t *testing.T) {
	var m frontmatter.Map
	m.Delete("none")
	m.Set("b", 1)
	m.Set("a", 2)
	m.Set("c", nil)
	m.Set("b", 3) // keeps its place
	testbed.Equal(t, cmp.Diff([]string{"b", "a", "c"}, m.Keys()), "")
	m.Keys()[0] = "changed"
	v, ok := m.Get("b")
	testbed.Expect(t, v == 3 && ok, "%v %v", v, ok)
	v, ok = m.Get("c")
	testbed.Expect(t, v == nil && ok, "%v %v", v, ok)
	m.Delete("a")
	m.Set("a", 4) // comes last now
	testbed.Equal(t, cmp.Diff([]string{"b", "c", "a"}, m.Keys()), "")
	_, ok = m.Get("x")
	testbed.Expect(t, !ok && m.Len() == 3, "x is there, or %v", m.Len())
}

func TestEqual(t *testing.T) {
	a := pairs("x", num("1"), "y", []any{nil, "s", true, pairs("z", 1.5)})
	for name, c := range map[string]struct {
		b    *frontmatter.Map
		want bool
	}{
		"same":    {pairs("x", 1, "y", []any{nil, "s", true, pairs("z", num("1.5"))}), true},
		"order":   {pairs("y", []any{nil, "s", true, pairs("z", 1.5)}, "x", 1), false},
		"text":    {pairs("x", num("1.0"), "y", []any{nil, "s", true, pairs("z", 1.5)}), false},
		"string":  {pairs("x", "1", "y", []any{nil, "s", true, pairs("z", 1.5)}), false},
		"deep":    {pairs("x", 1, "y", []any{nil, "s", true, pairs("z", 2.5)}), false},
		"shorter": {pairs("x", 1), false},
	} {
		testbed.Expect(t, a.Equal(c.b) == c.want && c.b.Equal(a) == c.want, "%v", name)
	}
}

func TestJSON(t *testing.T) {
	const text = `{"z":1.10,"a":[1e5,-0,123456789012345678901234567890,null,true],"m":{"<&>":"é😀\u2028\n"},"":""}`
	m := testbed.Decoded[frontmatter.Map](t, []byte(text))
	got, err := m.MarshalJSON()
	testbed.Expect(t, err == nil && string(got) == text, "%s\n%s\n%v", got, text, err)
	outer, err := json.Marshal(map[string]any{"m": &m, "n": (*frontmatter.Map)(nil)})
	testbed.Expect(t, err == nil && strings.Contains(string(outer), `"z":1.10,"a":[1e5,-0,`) && strings.HasSuffix(string(outer), `"n":null}`),
		"%s, %v", outer, err)
	err = json.Unmarshal([]byte("null"), &m)
	testbed.Expect(t, err == nil && m.Len() == 4, "%v %v", err, m.Len())
	deep := func(n int) string { return `{"a":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + "}" }
	err = json.Unmarshal([]byte(deep(frontmatter.MaxDepth)), &m)
	testbed.Expect(t, err == nil, "%v", err)
	for _, bad := range []string{
		`[]`, `"x"`, `1`, `{"a":1,"a":2}`, `{"a":{"b":1,"\u0062":2}}`, `{"a":"\ud800"}`, `{"a":"\udc00"}`, `{"a":"\ud83d\u0041"}`, `{"\ud800x":1}`,
		"{\"a\":\"\xff\"}", deep(frontmatter.MaxDepth + 1), `{"a":1`, `{"a"}`, ``, `{} {}`,
	} {
		testbed.Expect(t, m.UnmarshalJSON([]byte(bad)) != nil, "%s is accepted", bad)
	}
	err = m.UnmarshalJSON([]byte(`{"a":"\\ud800 \ud83d\ude00"}`))
	testbed.Expect(t, err == nil, "%v", err)
}

// hostileSeeds are the units that hostile texts repeat.
var hostileSeeds = []string{
	"[", "]", "{", "}", "{a: ", "[{", "- ", "-\n", "- - a\n", "? ", ": ", "a: ", "a:\n", "k: v\n", ",", "[,", "&a ", "*a ", "! ", "!!str ", "!!map a: ", "@\n", "|\n", ">\n",
	"#\n", "%a\n", "---\n", "...\n", "<", "<< ", "\\", "\"", "'", "\"a\",", "\t", "a\t", " ", "\n", "\r", " \n", "x ", "x\n", "\"\t", "a: \"\t\t\"\n", "<<: *a\n", "\ufeff", "日",
}

func TestHostileShapes(t *testing.T) {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		n, next := string(rune('0'+i)), string(rune('1'+i))
		bomb += "a" + next + ": &a" + next + " [" + strings.Repeat("*a"+n+", ", 9) + "*a" + n + "]\n"
	}
	entries := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString("key" + strings.Repeat("x", i%7) + string(rune(0x4e00+i)) + ": value\n")
		}
		return b.String()
	}
	for name, text := range map[string]string{
		"alias bomb": bomb, "alias depth": "a: &a " + nestedIn(40) + "\nb: " + nestedIn(40, "*a"), "keys": nestedBy(1000, ""), "65 keys": nestedBy(65, ""),
		"brackets": "a: " + nestedIn(64), "size": "a: " + strings.Repeat("x", frontmatter.MaxSize),
		"values": "a: [" + strings.Repeat("1,", frontmatter.MaxNodes) + "]",
	} {
		end := testbed.Within(t, 10*time.Second, name)
		m, err := frontmatter.Decode([]byte(text))
		testbed.Expect(t, m == nil && err != nil && strings.Contains(err.Error(), string(frontmatter.TooLarge)), "%s: %v", name, err)
		end()
	}
	for name, text := range map[string]string{
		"64 keys": nestedBy(64, ""), "brackets": "a: " + nestedIn(63),
		"entries": entries(5000), "long paths": strings.Repeat("k", 500_000) + ":\n" + strings.Repeat("  - a: 1\n", 8000), "items": "a:\n" + strings.Repeat("- a\n", 9000),
	} {
		_, err := frontmatter.Decode([]byte(text))
		testbed.Expect(t, err == nil, "%s: %v", name, err)
	}
}

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
		doc := testbed.Must(frontmatter.Join(m, body))(t, name)
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
	m.Set("no block", "a"+strings.Repeat("\n", 200)+"b") // which Decode refuses
	m.Set("angles", strings.Repeat("<", 2000))
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
