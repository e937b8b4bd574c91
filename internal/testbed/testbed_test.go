package testbed_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestSharesVisitEverything: over runs every element is in a share, what is
// sure is in each, and a long run takes all.
func TestSharesVisitEverything(t *testing.T) {
	t.Setenv("RW_LONG", "")
	all := make([]int, 40)
	for i := range all {
		all[i] = i
	}
	seen := map[int]int{}
	for seed := range 100 {
		t.Setenv("RW_SEED", strconv.Itoa(seed))
		share := testbed.Share(t, all, 8, func(i int) bool { return i == 7 })
		testbed.Require(t, len(share) <= 6 && slices.Contains(share, 7) && slices.IsSorted(share), "%v", share)
		again := testbed.Share(t, all, 8, func(i int) bool { return i == 7 })
		testbed.Require(t, slices.Equal(share, again), "%v is not %v", again, share)
		for _, i := range share {
			seen[i]++
		}
	}
	testbed.Expect(t, len(seen) == len(all) && seen[7] == 100, "%d of %d were visited: %v", len(seen), len(all), seen)
	t.Setenv("RW_LONG", "5")
	got := testbed.Share(t, all, 8, nil)
	testbed.Expect(t, slices.Equal(got, all), "a long run takes %v", got)
}

// TestLinearTargetsAreRun: every fuzz target that counts the work of a decoder,
// validator, differ, redactor or scanner is among those that the check of a
// fresh clone runs, and each of those is there.
func TestLinearTargetsAreRun(t *testing.T) {
	top := filepath.Join("..", "..")
	script, err := os.ReadFile(filepath.Join(top, ".ci", "run"))
	if err != nil {
		t.Skip("the tree is not there")
	}
	_, list, _ := strings.Cut(string(script), "\n\t{\n")
	list, _, ok := strings.Cut(list, "\n\t} | xargs")
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
		testbed.Expect(t, slices.Contains(all, name), ".ci/run names %s, which is not there", name)
	}
	testbed.Expect(t, linear >= 20, "only %d targets count work", linear)
}

// TestEntries: files, directories and links are there with what they hold, without the
// paths that are left out; a directory that does not exist is empty.
func TestEntries(t *testing.T) {
	dir := t.TempDir()
	testbed.Plant(t, dir, 0o755, map[string]string{"a": "one", "d/b": "two", "out/c": "three", "d/out/e": "four", "d/f/no": "five"})
	testbed.NoErr(t, os.Symlink("a", filepath.Join(dir, "link")))
	var got []string
	for e := range testbed.Entries(t, dir, "out", "**/no") {
		got = append(got, fmt.Sprint(e.Path, " ", e.Info.Mode().Type(), " ", e.Text))
	}
	testbed.Equal(t, strings.Join(got, ","), ". d--------- ,a ---------- one,d d--------- ,d/b ---------- two,d/f d--------- ,d/out d--------- ,d/out/e ---------- four,link L--------- a")
	for e := range testbed.Entries(t, filepath.Join(dir, "none")) {
		t.Errorf("%+v", e)
	}
}
