package resilientwrite_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// foreignActs are the changes of another program to names that an undo turns from files
// into directories, and the reverse. Each returns the name that it took, "" for none.
var foreignActs = map[string]func(root fsx.Dir) string{
	"saves into a directory": func(root fsx.Dir) string { return saveIn(root, "d", "late") },
	"saves below it":         func(root fsx.Dir) string { return saveIn(root, "d", "e", "late") },
	"saves into the other":   func(root fsx.Dir) string { return saveIn(root, "f", "late") },
	"makes a file":           func(root fsx.Dir) string { return saveIn(root, "p") },
	"makes a file again":     func(root fsx.Dir) string { return saveIn(root, "d") },
	"makes a directory": func(root fsx.Dir) string {
		root.Mkdir("g", 0o755)
		return saveIn(root, "g", "late")
	},
	"makes an empty directory": func(root fsx.Dir) string {
		if root.Mkdir("f", 0o755) != nil {
			return ""
		}
		return "f"
	},
	"edits a file": func(root fsx.Dir) string {
		d, err := root.OpenDir("d")
		if err != nil {
			return ""
		}
		if _, err := d.Lstat("x"); err != nil {
			return ""
		}
		editorSaves["exchanges"](d, "x")
		return "d/x"
	},
}

// saveIn makes a new file.
func saveIn(dir fsx.Dir, names ...string) string {
	for _, name := range names[:len(names)-1] {
		var err error
		if dir, err = dir.OpenDir(name); err != nil {
			return ""
		}
	}
	f, err := dir.Open(names[len(names)-1], fsx.Write|fsx.Create|fsx.Excl, 0o644)
	if err != nil {
		return ""
	}
	defer f.Close()
	f.WriteAt([]byte(strangersText), 0)
	return strings.Join(names, "/")
}

// TestKindsForeignSweep: another program acts before each operation of an undo that
// turns files into directories and directories into files. Its content exists
// afterwards, under its name or as a version. Every other file is as the call reports:
// as before the call, or as after it. If a name was taken, history contains the file.
func TestKindsForeignSweep(t *testing.T) {
	for _, c := range scenarios {
		if !strings.HasPrefix(c.name, "undo_kinds") {
			continue
		}
		for _, many := range []int{0, 1} {
			for name := range foreignActs {
				t.Run(fmt.Sprint(c.name, many, "/", name), func(t *testing.T) {
					t.Parallel()
					c := c // Many is set in each
					c.sim.Many = many
					step := stride(3)
					for n := phase(step); c.besideForeign(t, name, n); n += step {
					}
				})
			}
		}
	}
}

// besideForeign lets another program act before operation n; false when the undo has
// fewer.
func (c scenario) besideForeign(t *testing.T, act string, n int) bool {
	t.Helper()
	disk, s := c.prepare(t)
	must(s.Scan(background, rw.ScanRequest{Calls: []string{"c"}}))(t)
	count, taken, root := 0, "", disk.Foreign()
	disk.Before(func(simfs.Op) {
		if count == n {
			taken = foreignActs[act](root)
		}
		count++
	})
	_, err := s.Undo(background, rw.UndoRequest{Group: "c"})
	disk.Before(nil)
	s.Close(background)
	got, all := files(disk), disk.Tree()
	when := fmt.Sprintf("%s before operation %d, took %q: %v", act, n, taken, err)
	want := c.new
	if err != nil {
		want = c.old
		if e := rw.AsError("undo", err); e.Effect != rw.EffectNone || e.Detail == rw.ErrInternal {
			t.Fatalf("%s: %v", when, errors.Unwrap(err))
		}
	}
	for p, text := range want {
		if got[p] != text && !(overlap(p, taken) && held(all, text)) {
			t.Fatalf("%s: %s is not there\n%s", when, p, brief(got))
		}
	}
	for p, text := range got {
		if text != want[p] && !overlap(p, taken) {
			t.Fatalf("%s: %s is there\n%s", when, p, brief(got))
		}
	}
	if taken != "" && all[taken] != "/" && got[taken] != strangersText && !held(all, strangersText) {
		t.Fatalf("%s: what it saved is lost\n%s", when, brief(got))
	}
	s = c.open(t, disk, "0002")
	if again := files(disk); !same(again, got) {
		t.Fatalf("%s: a second open changed %s to %s", when, brief(got), brief(again))
	}
	s.Close(background)
	return count > n
}

// overlap reports whether two names cannot both be those of files.
func overlap(a, b string) bool {
	return a == b || b != "" && strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

// held reports whether history holds a text.
func held(tree map[string]string, text string) bool {
	for p, have := range tree {
		if strings.HasPrefix(p, rw.StateDirName+"/history/") && have == text {
			return true
		}
	}
	return false
}
