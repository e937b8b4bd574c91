package gitdir

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// FuzzLinear: reading a configuration file of git takes work in proportion to
// its length.
func FuzzLinear(f *testing.F) {
	seeds := []string{"[a]\n", "[core \"", "[a \"\\", "[a \"b\"]", "k = v\n", "k = \"", "k = a\\\n", "k=a ", "k = # c\n", "; c\n", "[", "\"", "[include]\npath = a#\n", "x … \"]\nk\n"}
	testbed.FuzzLinear(f, 16<<10, 5*time.Microsecond, seeds, func(text []byte) (steps int) {
		for _, head := range []string{"", "[a]\nk = \"", "[a \""} {
			for key, value := range settings(head + string(text)) {
				steps += 1 + len(key.name) + len(value)
			}
		}
		Pointed("gitdir:"+string(text), "/a")
		return steps
	})
}

// TestTheLastSettingOfAFileHolds: a file that names directories of hooks again
// and again gives one to protect, which is the one that git runs.
func TestTheLastSettingOfAFileHolds(t *testing.T) {
	dir := t.TempDir()
	var config strings.Builder
	config.WriteString("[core]\n")
	for i := range 1000 {
		fmt.Fprintf(&config, "hooksPath = h%d\n", i)
	}
	testbed.NoErr(t, os.Mkdir(filepath.Join(dir, ".git"), 0o700))
	testbed.NoErr(t, os.WriteFile(filepath.Join(dir, ".git", "config"), []byte(config.String()), 0o600))
	var own []string
	for _, hooks := range Find(dir, User{}).Hooks {
		if rel, err := filepath.Rel(dir, hooks); err == nil && filepath.IsLocal(rel) {
			own = append(own, rel)
		}
	}
	if !slices.Equal(own, []string{"h999"}) {
		t.Errorf("%d directories, %v", len(own), own[:min(len(own), 3)])
	}
}
