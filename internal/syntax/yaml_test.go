package syntax

import (
	"fmt"
	"strings"
	"testing"
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
		badCase{"a: [1, 2\n", 1, 4, ""},
		badCase{"a: {b: 1\n", 1, 4, ""},
		badCase{"a: \"x\n", 1, 4, ""},
		badCase{"a: 'x\n", 1, 4, ""},
		badCase{"a: b: c\n", 1, 4, "mapping value"},
		badCase{"a: 1\n b: 2\n", 1, 4, ""},
		badCase{"a:\n\tb: 1\n", 2, 1, "cannot start"},
		badCase{"- a\nb: 1\n", 2, 1, ""},
		badCase{"a: @x\n", 1, 4, "reserved"},
		badCase{"a: 1\n---\nb: [\n", 3, 4, ""},
		badCase{"a: [\n---\nb: {\n", 3, 4, ""},
		badCase{"a: [1]]\n", 1, 7, ""},
	)
	warn(t, "yaml", badCase{"a:\n  {b: c}: 1\n", 2, 9, "used as a key"})
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
	for i := range 60000 {
		fmt.Fprintf(&keys, "key%d: 1\n", i)
	}
	if r := Check("yaml", []byte(keys.String())); !r.Valid || len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Message, "too many keys") {
		t.Errorf("many keys: %v", r.Problems)
	}
	long := strings.Repeat("k", 100000) + ":\n" + strings.Repeat("  - a\n", 10000)
	if r := Check("yaml", []byte(long)); r.Valid || !strings.Contains(r.Problems[0].Message, "too long") {
		t.Errorf("long keys: %v", r.Problems)
	}
	// A large text of the usual kind is none of that.
	accept(t, "yaml", strings.Repeat("- name: x\n  empty:\n  list: [a, b]\n", 4000))
	accept(t, "yaml", keys.String()[:strings.Index(keys.String(), "key4000:")])
}
