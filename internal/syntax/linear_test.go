package syntax

import (
	"strings"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// FuzzLinear: no checker does more than linear work, of what it counts, of
// memory, or of time, also in front matter.
func FuzzLinear(f *testing.F) {
	long := "k#: " + strings.Repeat("v", 80) + "\n"
	seeds := append(append(common, hostile...), "k#: v\r\n", "k#:\n  a: b\n", "&a# k#: v\n", "? k#\n", "k# = 1\n", "[t#]\nk = 1\n", "a.k#.c = {d = 1}\n", "a = [ … ]\n", "\"k#\": 1, ", "from k# import (a, b)\n", "a: \"b\t", "a: |\n\n", long, "  "+long)
	testbed.FuzzLinear(f, 4<<10, 20*time.Microsecond, seeds, func(text []byte) (work int) {
		for _, l := range languages() {
			format := l.name
			Check(format, text)
			work += workFor(format, text)
		}
		front := append(append([]byte("---\n"), text...), "\n---\n"...)
		Check("markdown", front)
		Check("yaml", []byte("{"+string(text)+"}"))
		Check("yaml", []byte("["+string(text)+"]"))
		Detect("", "", text)
		return work + workFor("markdown", front)
	})
}
