package edit

import (
	"context"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// FuzzLinear: finding, replacing, and finding what is closest to a string that
// is not there takes work in proportion to the text and the string.
func FuzzLinear(f *testing.F) {
	seeds := []string{"ab", "aab", "line #\n", "a\r\n", "a … b", "  \n", "A", "{ … }\n", "\xe9 a", "\x95\x5c\x81", "a\x00"}
	testbed.FuzzLinear(f, 16<<10, 2*time.Microsecond, seeds, func(text []byte) int {
		half, whole := string(text[:len(text)/2]), string(text)
		for _, e := range []Edit{
			{Old: "a", New: "bb", Count: -1}, {Old: whole[:min(8, len(whole))], New: "c", Count: -1}, {Old: half, New: "c", Count: 1}, {Old: half + "!", New: "c", Count: 1},
			{Old: "!" + half, New: "c", Count: 1}, {Old: half[:len(half)/2] + "\n " + half[len(half)/2:], New: "c", Count: 1},
		} {
			Apply(context.Background(), text, []Edit{e}, "")
		}
		return 0
	})
}
