package policyfile

import (
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// FuzzLinear: reading a policy takes work in proportion to its length.
func FuzzLinear(f *testing.F) {
	seeds := []string{"- ", "protect: [ … ]", "  - a#\n", "  - \"**/a#/{a,b}\"\n", "allow:\n", "  - {path: a#, reason: b}\n", "version: 1\n", "{a,b}", "(a{9}", "(a|b)*"}
	testbed.FuzzLinear(f, 4<<10, 20*time.Microsecond, seeds, func(text []byte) int {
		Parse(text)
		for _, head := range []string{"version: 1\nprotect:\n", "version: 1\nallow:\n", "version: 1\nextend_patterns:\n  own:\n", "version: 1\nprotect: [\"", "version: 1\nprotect: [", "version: 1\nextend_patterns: {own: [{name: a, weight: 0.5, regex: '"} {
			Parse(append([]byte(head), text...))
		}
		return 0
	})
}
