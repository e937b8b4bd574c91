package main

import (
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestLayers checks that packages depend on those below them alone: nothing
// inside on the root, the engine on no layer, a layer on no other one, and the
// lowest packages on none.
func TestLayers(t *testing.T) {
	cmd := exec.Command("go", "list", "-f", "{{.ImportPath}}{{range .Imports}} {{.}}{{end}}", "./admin", "./analytics", "./around", "./call", "./command", "./handoff", "./hook", "./internal/...")
	cmd.Dir = repository
	out := testbed.Must(cmd.Output())(t)
	const module = "github.com/resilientwrite/resilientwrite"
	programs := []string{"gen", "stress", "mutants", "testbed", "overview"}                        // they stand above the root
	nouns := []string{"/admin", "/analytics", "/around", "/call", "/command", "/handoff", "/hook"} // public, and below the root
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	testbed.Require(t, len(lines) >= 30, "%d packages", len(lines))
	for _, line := range lines {
		words := strings.Fields(line)
		pkg := strings.TrimPrefix(words[0], module+"/internal/")
		top, _, _ := strings.Cut(pkg, "/")
		for _, imported := range words[1:] {
			inside, ok := strings.CutPrefix(imported, module)
			if !ok {
				continue
			}
			below, isInternal := strings.CutPrefix(inside, "/internal/")
			bad := ""
			switch {
			case !isInternal && slices.Contains(nouns, inside):
			case !isInternal && !slices.Contains(programs, top):
				bad = "packages inside do not import those above them"
			case top == "engine" && strings.HasPrefix(below, "layer/"):
				bad = "the engine knows no layer"
			case top == "layer" && strings.HasPrefix(below, "layer/"):
				bad = "layers do not know each other"
			case slices.Contains([]string{"fault", "fsx", "failpoint"}, pkg):
				bad = "it is one of the lowest packages"
			}
			if bad != "" {
				t.Errorf("%s imports %s: %s", words[0], imported, bad)
			}
		}
	}
}

// TestBars checks that the command prints each size.
func TestBars(t *testing.T) {
	var b strings.Builder
	testbed.NoErr(t, bars(&b, repository))
	for line := range strings.Lines(b.String()) {
		words := strings.Fields(line)
		have, err := strconv.Atoi(words[len(words)-4])
		testbed.Expect(t, err == nil && (have != 0 || strings.Contains(line, "columns")), "%q", line)
	}
	testbed.Equal(t, strings.Count(b.String(), "\n"), 8, "lines")
}
