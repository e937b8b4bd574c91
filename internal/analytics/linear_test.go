package analytics

import (
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// FuzzLinear: reading times and the names of objects takes work in proportion
// to their length.
func FuzzLinear(f *testing.F) {
	testbed.FuzzLinear(f, 16<<10, time.Microsecond, []string{"chunks/", "2026-01-31T23:59:59Z", "9", ".json"}, func(text []byte) int {
		_ = parseInstant(string(text))
		_ = parseInstant("2026-01-31T23:59:59." + string(text) + "Z")
		parseObject(string(text))
		parseObject("checkpoints/" + string(text) + ".json")
		return 0
	})
}
