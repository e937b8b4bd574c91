package protect

import (
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// FuzzLinear: looking a path up in the table takes work in proportion to its
// length.
func FuzzLinear(f *testing.F) {
	seeds := []string{".claude/", ".CLAUDE/hooks/", ".cursor/mcp.json/", "a/.vscode/tasks.json", ".github/workflows/", ".ssh/", "package.json/", "*/", "~1/", ".idea/runConfigurations/"}
	testbed.FuzzLinear(f, 4<<10, 5*time.Microsecond, seeds, func(text []byte) int {
		Match(string(text))
		Match("a/" + string(text) + "/.envrc")
		return 0
	})
}
