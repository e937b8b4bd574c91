package frontmatter_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/frontmatter"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

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
