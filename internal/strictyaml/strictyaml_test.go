package strictyaml

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

var (
	data = Profile{MaxDepth: 64, MaxTokens: 30_000, MaxMembers: 4096, References: true}
	bare = Profile{MaxDepth: 32, MaxTokens: 100_000, MaxMembers: 1000}
	full = Profile{MaxDepth: 200, Any: true}
)

var samples = []string{
	"a: 1\nb:\n  c: 1\n  d:\n  - e: 1\n    f: 2\n    g: 3\n  h: |\n    i\n  j: 5\n# k\nl: &m\n  n: 1\n  o: 2\n  p: 3\nq: *m\nr: {s: t,\nu: v}\nw: x\n",
	"0: 0\n1: 0\n2: |\n:", "? a\n: b\nc: d\n", "- a: 1\n  b: [c, 'd', \"e\\x41\"]\n  f:\n  - g\n- h\n", "a: !!str 1\nb: &x !!map {c: d}\n", "%YAML 1.2\n---\na: b\n...\n",
	"a: >-\n  x\n  y\n\n  z\nb: 'p\n  q'\n", "<<: {a: b}\n\"c\": # y\n  - - 1\n    - 2\n",
}

// TestPieces: a long mapping is the same read in pieces of two keys.
func TestPieces(t *testing.T) {
	for _, text := range samples {
		pieces(t, text)
	}
}

// FuzzPieces: so is any text, and no text makes Parse panic or report a place
// outside of it.
func FuzzPieces(f *testing.F) {
	for _, text := range samples {
		f.Add(text)
	}
	f.Fuzz(pieces)
}

func pieces(t *testing.T, text string) {
	for name, p := range map[string]Profile{"data": data, "bare": bare, "full": full} {
		root, problems := Parse(text, p)
		if root != nil && problems != nil {
			t.Fatalf("%s: %q: a value and %v", name, text, problems[0])
		}
		lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text), "\n")
		for _, p := range problems {
			testbed.Require(t, p.Line >= 1 && p.Line <= len(lines)+1 && p.Column >= 1, "%s: %q: %+v", name, text, p)
			testbed.Require(t, !strings.Contains(p.Message, "parser could not read") || name == "full", "%s: %q: a panic", name, text)
		}
		if p.Any {
			continue // it has no exact values
		}
		again, others := inPieces(text, p)
		testbed.Require(t, (problems == nil) == (others == nil) && reflect.DeepEqual(root, again), "%s: %q: %v, in pieces %v", name, text, problems, others)
	}
}

func inPieces(text string, p Profile) (*Node, []*Problem) {
	defer func(n int) { maxRun = n }(maxRun)
	maxRun = 2
	return Parse(text, p)
}

// TestPlaces: the nodes are where they begin, also after what the scanner
// miscounts.
func TestPlaces(t *testing.T) {
	root, problems := Parse("é: \"\\x41\" # ü\nb: !!str c\nd:\n- 'e\n  f'\n- g\n", data)
	if problems != nil {
		t.Fatal(problems[0])
	}
	var got []int
	for _, f := range root.Fields {
		got = append(got, f.Key.Line, f.Key.Column, f.Value.Line, f.Value.Column)
	}
	for _, item := range root.Fields[2].Value.Items {
		got = append(got, item.Line, item.Column)
	}
	want := []int{1, 1, 1, 4, 2, 1, 2, 4, 3, 1, 4, 1, 4, 3, 6, 3}
	testbed.Expect(t, reflect.DeepEqual(got, want), "got %v, want %v", got, want)
}

// TestDropped: problems after dropped blank lines have their own line.
func TestDropped(t *testing.T) {
	text := "a: |\n  b\n" + strings.Repeat("\n", 150) + "c: 1\n" + strings.Repeat(" \n", 150) + "a: [\n"
	_, problems := Parse(text, full)
	testbed.Expect(t, len(problems) != 0 && problems[0].Line == 304, "%v", problems)
}

// FuzzLinear: reading takes work in proportion to the length of the text, for
// every profile.
func FuzzLinear(f *testing.F) {
	seeds := []string{
		"k#: v\n", "  k#: v\n", "- k: v\n", "k#:\n  - a\n", "k#: |\n  a\n\n", "k#: \"\\x41\"\n", "&a# [ … ]", "*a ", "{k#: … }", "? k#\n", "[ … ]", "- ", "a: ", "\n", " \n", "\t", "<", "a: |\n", "a: |\n\n", "- >\n\n", "? |\n", "a: |-\n \n", "\"a\t", "&a ", "!!str ", "!a ",
		"a: 'b'\n", "%a b\n", "---\n", "k#:\n", "- \n", "'", "\"",
	}
	testbed.FuzzLinear(f, 4<<10, 20*time.Microsecond, seeds, func(text []byte) int {
		for _, p := range []Profile{data, bare, full} {
			for _, head := range []string{"", "h: |\n  x", "h: \"", "h: [", "h:\n  i:\n"} {
				Parse(head+string(text), p)
			}
		}
		return 0
	})
}

// TestEmptyValuesAreCounted: the parser moves the tokens after each of them, in
// block style and between braces.
func TestEmptyValuesAreCounted(t *testing.T) {
	for _, entry := range []string{"a,", "a: ,", "\"a\",", "{a},", "[a: ,],"} {
		_, problems := Parse("{"+strings.Repeat(entry, 40_000)+"}", full)
		testbed.Expect(t, len(problems) == 1 && problems[0].Kind == Unread, "%s: %d problems", entry, len(problems))
	}
}
