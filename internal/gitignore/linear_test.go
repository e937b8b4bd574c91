package gitignore_test

import (
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/gitignore"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// FuzzLinear: reading patterns and matching a path takes work in proportion to
// their length.
func FuzzLinear(f *testing.F) {
	seeds := []string{"a\n", "!a\n", "a#\n", "**/a", "*a", "[a-z]", "a/\n", "[a … ]"}
	testbed.FuzzLinear(f, 8<<10, 20*time.Microsecond, seeds, func(text []byte) int {
		gitignore.Hides([]gitignore.File{gitignore.Parse("", text)}, "x/y.txt", false)
		gitignore.Hides([]gitignore.File{gitignore.Parse("", []byte("*a*a*a*a\n**/b/**/c\n"))}, string(text[:min(len(text), 4000)]), false)
		return 0
	})
}
