package usage

import (
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// FuzzLinear: reading the names of objects takes work in proportion to their
// length.
func FuzzLinear(f *testing.F) {
	testbed.FuzzLinear(f, 16<<10, time.Microsecond, []string{"chunks/", "9", ".json"}, func(text []byte) int {
		parseObject(string(text))
		parseObject("checkpoints/" + string(text) + ".json")
		return 0
	})
}
