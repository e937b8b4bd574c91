package syntax

import (
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// FuzzLinear: no checker does more than linear work, of what it counts, of
// memory, or of time.
func FuzzLinear(f *testing.F) {
	testbed.FuzzLinear(f, 4<<10, 8*time.Microsecond, testbed.Share(f, append(common, hostile...), 7, nil), func(text []byte) (work int) {
		for _, format := range Formats() {
			if format != "yaml" {
				Check(format, text)
			}
			work += workFor(format, text)
		}
		Detect("", "", text)
		return work
	})
}

// FuzzYAMLLinear is the same for YAML, in texts that reach the bounds of the
// parser: below them it takes more than linear work.
func FuzzYAMLLinear(f *testing.F) {
	testbed.FuzzLinear(f, 32<<10, 20*time.Microsecond, testbed.Share(f, common, 7, nil), func(text []byte) (work int) {
		front := append(append([]byte("---\n"), text...), "\n---\n"...)
		Check("yaml", text)
		Check("markdown", front)
		return workFor("yaml", text) + workFor("markdown", front)
	})
}
