package syntax

import (
	"fmt"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

func TestYAML(t *testing.T) {
	accept(t, "yaml",
		"", "# only a comment\n", "a: 1\nb: [1, 2, {c: d}]\n", "- a\n- b:\n    - c\n", "a: |\n  text: [\n  more\nb: >-\n  folded\n",
		"---\na: 1\n---\nb: 2\n...\n", "a: &x\n  b: 1\nc: *x\nd:\n  <<: *x\n", "a: 'it''s'\nb: \"\\u00e4\\n\"\n", "%YAML 1.2\n---\na: 1\n",
		"a: !!str 1\nb: !local {c: d}\n", "? key\n: value\n", "a:\nb: ~\nc: null\n", "a: 1 # comment\n", "plain scalar\n", "ä: €\n",
		"a:\n- 1\n- 2\nb: 3\n", "url: http://a.b/c?d=e#f\n", "a: \"multi\n  line\"\n",
	)
	reject(t, "yaml",
		badCase{"a: 1\na: 2\n", 2, 1, "already defined"},
		badCase{"a:\n  b: 1\n  b: 2\n", 3, 3, "already defined"},
		badCase{"x: 1\n---\na: 1\na: 2\n", 4, 1, "already defined at line 3"},
		badCase{"a: [1, 2\n", 1, 4, ""},
		badCase{"a: {b: 1\n", 1, 4, ""},
		badCase{"a: \"x\n", 1, 4, ""},
		badCase{"a: 'x\n", 1, 4, ""},
		badCase{"a: b: c\n", 1, 5, "mapping value"},
		badCase{"a: 1\n b: 2\n", 2, 3, ""},
		badCase{"a:\n\tb: 1\n", 2, 1, "cannot start"},
		badCase{"- a\nb: 1\n", 2, 1, ""},
		badCase{"a: @x\n", 1, 4, "cannot start"},
		badCase{"a: 1\n---\nb: [\n", 4, 1, ""},
		badCase{"a: [\n---\nb: {\n", 4, 1, ""},
		badCase{"a: [1]]\n", 1, 7, ""},
	)
	r := Check("yaml", []byte("{a: b}: 1\nc: 1\nc: 2\nd: {e: 1, e: 2}\n"))
	testbed.Expect(t, !r.Valid && len(r.Problems) == 3 && r.Problems[2].Line == 4, "several mistakes: %v", r.Problems)
	warn(t, "yaml", badCase{"a:\n  {b: c}: 1\n", 2, 3, "used as a key"})
}

// TestYAMLAliasBomb makes sure that aliases are not followed.
func TestYAMLAliasBomb(t *testing.T) {
	var b strings.Builder
	b.WriteString("a0: &a0 [x, x]\n")
	for i := 1; i < 100; i++ {
		fmt.Fprintf(&b, "a%d: &a%d [*a%d, *a%d, *a%d]\n", i, i, i-1, i-1, i-1)
	}
	accept(t, "yaml", b.String())
}

// TestYAMLLimits covers what the parser would take very long for.
func TestYAMLLimits(t *testing.T) {
	var keys strings.Builder
	for i := range 20000 {
		fmt.Fprintf(&keys, "key%d: 1\n", i)
	}
	accept(t, "yaml", keys.String())
	some := keys.String()[:strings.Index(keys.String(), "key2000:")]
	for name, row := range map[string]struct {
		more   string
		column int // of the key that is there twice
	}{
		"last":      {"key7: 2\n", 1},
		"quoted":    {"\"key7\": 2\n", 1},
		"nested":    {"more:\n  key7: 2\n  key8: 1\n  key7: 3\n", 3},
		"brackets":  {"more: {key7: 2, b: {key7: 3}, key7: 4}\n", 31},
		"of a list": {"more:\n- key7: 1\n  key8: 2\n  key7: 3\n", 3},
		"anchored":  {"&a key7: 2\n", 1},
		"none":      {"more:\n- key7: {key7: [key7: 1, key7: 2]}\n- key7: 2\nlast: &b\n  key7: 3\n&c other:\n   other: 1\n!!str tagged:\n      tagged: 1\n", 0},
	} {
		r := Check("yaml", []byte(some+row.more))
		testbed.Expect(t, row.column == 0 == r.Valid && (r.Valid || r.Problems[0].Col == row.column && strings.Contains(r.Problems[0].Message, `"key7" is already defined at line`)), "%s: %+v", name, r.Problems)
	}
	accept(t, "yaml", strings.Repeat("k", 100000)+":\n"+strings.Repeat("  - a\n", 10000))
	// A large ordinary text is accepted.
	accept(t, "yaml", strings.Repeat("- name: x\n  empty:\n  list: [a, b]\n", 4000))
}

// TestYAMLOfTooManyTokensIsNotRead: the library needs hundreds of bytes for each token. A
// document with too many is valid as far as is known, and the others are checked.
func TestYAMLOfTooManyTokensIsNotRead(t *testing.T) {
	r := Check("yaml", []byte("a: 1\n---\n["+strings.Repeat("1,", 1<<18)+"]\n---\nb: ]\n"))
	testbed.Expect(t, !r.Valid && len(r.Problems) == 2 && r.Problems[0].Severity == Warning && r.Problems[0].Line == 3 && strings.Contains(r.Problems[0].Message, "not checked") && r.Problems[1].Line == 5, "%v", r)
	accept(t, "yaml", "["+strings.Repeat("1,", 1<<17)+"]\n")
}

// TestYAMLShape covers what the parser of the library lets pass.
func TestYAMLShape(t *testing.T) {
	reject(t, "yaml",
		badCase{"\"a\n", 1, 1, "unexpected end"},
		badCase{"'a\n", 1, 1, "unexpected end"},
		badCase{"\"", 1, 1, "unexpected end"},
		badCase{"{", 1, 2, ""},
		badCase{"a: *nope\n", 1, 4, "unknown anchor 'nope'"},
		badCase{"a: *b\nb: &b 1\n", 1, 4, "unknown anchor 'b'"},
		badCase{"a: &b 1\n---\nc: *b\n", 3, 4, "unknown anchor 'b'"},
		badCase{"a: *\n", 1, 4, ""},
		badCase{"x:\n \ta: 1\n", 2, 2, "a tab"},
		badCase{"x:\n \t- a\n", 2, 2, "a tab"},
		badCase{"version: 2\n - package: \"g\"\n", 2, 11, "mapping values are not allowed"},
		badCase{"- }p: 2\n", 1, 5, ""},
		badCase{"a: 1\n,b: 2\n", 2, 1, "expected key"},
		badCase{"a: %b\n", 1, 4, ""},
		badCase{"a: \"b\" c\n", 1, 8, ""},
		badCase{"a: [b] c: d\n", 1, 9, ""},
		badCase{"a: 1\nb\n", 2, 1, ""},
		badCase{"a:\n  b: 1\n c: 2\n", 3, 2, ""},
		badCase{"- a\n  - b: c\n", 2, 6, "mapping values are not allowed"},
		badCase{"[a, , b]\n", 1, 5, ""},
		badCase{"[- a]\n", 1, 2, "expected node content"},
		badCase{"[23\n]: 42\n", 2, 2, "mapping values"},
		badCase{"a: \"\\q\"\n", 1, 5, "unknown escape"},
		badCase{"a: \"\\x1\"\n", 1, 7, ""},
		badCase{"a: | text\n  b\n", 1, 6, ""},
		badCase{"a: >x\n  b\n", 1, 5, ""},
		badCase{"%YAML 1.2\na: 1\n", 2, 2, ""},
		badCase{"a: b\x00c\n", 1, 5, "the control character U+0000 must be escaped"},
		badCase{"a: 1\r\rb: \"\x1b\"\n", 3, 5, "the control character U+001B must be escaped"},
		badCase{"a: 1\n---\n# é\x07\n", 3, 4, "the control character U+0007 must be escaped"},
	)
	accept(t, "yaml", "a: \"b\tc\"\nd: 'e\tf'\ng: h\ti\n",
		":\n", "- - a\n  - b\n-\n  - c\n", "a:\n- b\n- c: d\n  e: f\ng: h\n", "{a: [b, {c: d}], e, ? f : g, \"h\":i, }\n",
		"[a: b, {c: d}, \"e\": f,\n  g\n]\n", "a:\n  [b,\nc\n]\n", "a: b\n  c\n   d\ne: 'f\n\n  g'\n", "a:\tb\t# c\nd: [\te\t]\n", "a: b\n  # c\nc: d\n",
		"a: |2-  # c\n    b\n  d\n\ne: >+\n  f\n\n\n", "--- |\na\n b\n", "--- >\n a\n---\n- |\n b\n- c\n", "a: |\nb: >\n\nd: 1\n",
		"&a b: &c d\n*a : *c\n", "a: &b\n  c: *b\n", "&a\nb: 1\n", "!!map {a: !<b> c, d: !e f}\n", "- &a\n- !b\n- !b &c d\n- *a\n",
		"# a\n%YAML 1.2\n# b\n---\na: 1\n...\n%TAG ! x:\n---\nb: 2\n", "a: 1\n# b\n%TAG ! x:\n--- !c\n- d\n", "--- a\n%b\n", "a: http://b:c/d?e,f#g[h]{i}\n",
		"a: -1\nb: ?c\nd: :e\nf: [-1, :g, h:i]\n", "\"a\": b\n'c' : d\n? \"e\n  f\"\n: g\n", "a: b # c\n # d\ne: f\n", "a: '#b'\nc: d#e\n", "- a: b\n  c:\n  - d\n- e\n",
		"a: \"\x7f\u0080\u0085\ufeff\"\n", "a: \"\\0\\a\\b\\t\\n\\v\\f\\r\\e\\ \\\"\\/\\\\\\N\\_\\L\\P\\x41\\u00e9\\U0001f600\\\n  b\"\n", "a: <<<<<<< b\n", "a: &x {b: 1}\nc:\n  <<: *x\n",
	)
	// Where lines end with a lone CR, the documents are not cut apart.
	accept(t, "yaml", "a: 1\r---\rb: [\rc]\r")
	reject(t, "yaml", badCase{"a: &b 1\r---\rc: *b\r", 3, 4, "unknown anchor 'b'"})
}

// TestYAMLLong covers what the scanner of the library needs very long for.
func TestYAMLLong(t *testing.T) {
	for _, src := range []string{
		"a: " + strings.Repeat("<", 1_000_000) + "\nb: 1\n", "a: \"x" + strings.Repeat("\t", 200_000) + "\"\n",
		"a: |\n  x" + strings.Repeat("\n", 200_000) + "b: 1\n", "a: |\n  x\n" + strings.Repeat(" \n", 200_000) + "b: 1\n",
	} {
		accept(t, "yaml", src)
		reject(t, "yaml", badCase{src + "c: [\n", strings.Count(src, "\n") + 2, 1, ""})
	}
}
