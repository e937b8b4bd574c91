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

// TestPart: every spelling that a file system which folds names takes for an
// entry is that entry; elsewhere only its own name is.
func TestPart(t *testing.T) {
	for _, part := range Parts() {
		testbed.Expect(t, Part(part, false) == part && Part(part, true) == part, "%s is not itself", part)
		for _, name := range []string{strings.ToUpper(part), strings.ToLower(part), strings.ToUpper(part[:1]) + part[1:]} {
			testbed.Equal(t, Part(name, true), part, name, ", folded")
			got := Part(name, false)
			testbed.Expect(t, name == part || got == "", "%s, not folded: %q", name, got)
		}
		for _, name := range []string{part + "x", "x" + part, part[1:], ""} {
			testbed.Equal(t, Part(name, true), "", name)
		}
	}
}

// TestShape: what git takes for a repository, and what it does not.
func TestShape(t *testing.T) {
	for _, row := range []struct {
		parts string
		want  bool
	}{
		{"HEAD objects refs", true}, {"HEAD commondir", true}, {"objects refs config", true}, {"HEAD objects", false}, {"HEAD refs config", false},
		{"objects refs", false}, {"commondir objects refs", false}, {"HEAD", false}, {"", false}, {"config commondir", false},
	} {
		s := Shape{}
		for _, part := range strings.Fields(row.parts) {
			s[part] = true
		}
		got := s.Repository()
		testbed.Expect(t, got == row.want, "%s: %v", row.parts, got)
	}
	id := strings.Repeat("0aF", 14)
	for data, want := range map[string]bool{
		"ref: refs/heads/main\n": true, "ref:x": true, id[:40]: true, id[:40] + "\n": true, id[:39]: false, "": false, "re: refs/heads/main": false, "g" + id[:39]: false, " ref: x": false,
	} {
		got := ValidHead([]byte(data))
		testbed.Expect(t, got == want, "%q: %v", data, got)
	}
}

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
