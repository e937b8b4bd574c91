package isoduration_test

import (
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/isoduration"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// FuzzLinear: reading a duration takes work in proportion to its length.
func FuzzLinear(f *testing.F) {
	testbed.FuzzLinear(f, 16<<10, time.Microsecond, []string{"9", "1Y", "T1H", "0", "P", "1.", ".9"}, func(text []byte) int {
		for _, s := range []string{string(text), "P" + string(text), "P" + string(text) + "D", "PT0." + string(text) + "H", "P1DT" + string(text) + "S"} {
			isoduration.Parse(s)
		}
		return 0
	})
}
