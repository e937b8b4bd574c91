package relpath_test

import (
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// FuzzLinear: cleaning a path takes work in proportion to its length, up to the
// length at which it is refused unread.
func FuzzLinear(f *testing.F) {
	testbed.FuzzLinear(f, 400, 20*time.Microsecond, []string{"a/", "../a/", "./", "a/../", "git~1", `..\`, "/ws/", "a … /.."}, func(text []byte) int {
		for range 20 { // one path is too short to count
			relpath.Clean(string(text), rules)
			relpath.Clean("/ws/"+string(text), rules)
			relpath.Clean(string(text), relpath.Rules{Windows: true})
			_ = relpath.Key(string(text))
		}
		return 0
	})
}
