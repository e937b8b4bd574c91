package testbed_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestLinearTargetsAreRun: every fuzz target that counts the work of a decoder,
// validator, differ, redactor or scanner is among those that the check of a
// fresh clone runs, and each of those is there.
func TestLinearTargetsAreRun(t *testing.T) {
	top := filepath.Join("..", "..")
	script, err := os.ReadFile(filepath.Join(top, ".ci", "run"))
	if err != nil {
		t.Skip("the tree is not there")
	}
	_, list, _ := strings.Cut(string(script), "\n{\n")
	list, _, ok := strings.Cut(list, "\n} | xargs")
	if !ok {
		t.Fatal(".ci/run has no list of targets")
	}
	out, err := exec.Command("bash", "-c", list).Output()
	if err != nil {
		t.Skip("bash is not installed")
	}
	run := strings.Split(strings.TrimSpace(string(out)), "\n")
	target := regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)
	var all []string
	err = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || path != top && strings.HasPrefix(d.Name(), ".") && d.Name() != ".."):
			return fs.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		dir, _ := filepath.Rel(top, filepath.Dir(path))
		for _, m := range target.FindAllSubmatch(text, -1) {
			all = append(all, strings.TrimSuffix("./"+filepath.ToSlash(dir), "/.")+" "+string(m[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	linear := 0
	for _, name := range all {
		if strings.HasSuffix(name, "Linear") {
			if linear++; !slices.Contains(run, name) {
				t.Errorf(".ci/run does not run %s", name)
			}
		}
	}
	for _, name := range run {
		if !slices.Contains(all, name) {
			t.Errorf(".ci/run names %s, which is not there", name)
		}
	}
	if linear < 20 {
		t.Errorf("only %d targets count work", linear)
	}
}
