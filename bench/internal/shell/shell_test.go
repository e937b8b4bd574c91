package shell

import (
	"os"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestThePublishedTablesAreWhole: each scenario has a row in both pages.
func TestThePublishedTablesAreWhole(t *testing.T) {
	for _, name := range []string{"benchmark-record.md", "around.md"} {
		page := testbed.Must(os.ReadFile("../../../docs/" + name))(t)
		for _, s := range scenarios {
			testbed.Contains(t, string(page), "\n| "+s.name+" |")
		}
	}
}
