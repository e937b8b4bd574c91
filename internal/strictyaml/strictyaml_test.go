package strictyaml

import (
	"reflect"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

var (
	data = Profile{MaxDepth: 64, References: true}
	bare = Profile{MaxDepth: 32}
	full = Profile{MaxDepth: 200, Any: true}
)

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
