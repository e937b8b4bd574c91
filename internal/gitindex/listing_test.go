package gitindex

import (
	"encoding/hex"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestListing: every file that git lists is found with its object, in each
// format; what it does not list is not.
func TestListing(t *testing.T) {
	for _, row := range []struct {
		name string
		init []string
		form []string
		ok   bool
	}{
		{"2", nil, []string{"update-index", "--index-version", "2"}, true},
		{"4", nil, []string{"update-index", "--index-version", "4"}, true},
		{"sha256", []string{"--object-format=sha256"}, []string{"status"}, true},
		{"split", nil, []string{"update-index", "--split-index"}, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRepo(t, row.init...)
			r.fill(60)
			r.git("add", ".")
			r.git(row.form...)
			r.write("untracked", "x")
			l, ok := Read(filepath.Join(r.dir, ".git"))
			if ok != row.ok {
				t.Fatal(ok)
			}
			if !ok {
				return
			}
			cmd := exec.Command("git", "ls-files", "-s")
			cmd.Dir = r.dir
			out := testbed.Must(cmd.Output())(t)
			for line := range strings.Lines(string(out)) {
				facts, name, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
				if object, ok := l.Find(name); !ok || hex.EncodeToString([]byte(object)) != strings.Fields(facts)[1] {
					t.Fatalf("%s: %x, git says %s", name, object, facts)
				}
			}
			for _, name := range []string{"untracked", "s", "", "zzz", "s/"} {
				if _, ok := l.Find(name); ok {
					t.Errorf("%q is listed", name)
				}
			}
			if !l.Below("s") || !l.Below("s/0001") || l.Below("t") || l.Below("untracked") {
				t.Error("directories")
			}
		})
	}
	if l, ok := Read(t.TempDir()); !ok || l.Below("x") {
		t.Error("a repository without an index lists nothing")
	}
}
