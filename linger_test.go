package resilientwrite_test

import (
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// TestLateSaves: another program has a file open for writing while a call replaces or
// removes it, and writes to it afterwards. The content that it writes is a version,
// whether the store is closed or its process dies, and the slot is removed when the
// program has closed the file.
func TestLateSaves(t *testing.T) {
	for _, x := range attacks {
		if x.inside || x.before == nil && x.disk == nil {
			continue
		}
		if strings.HasPrefix(x.name, "move") {
			continue // the file itself is moved; the replaced one is kept before
		}
		for _, level := range allLevels {
			for _, dies := range []bool{false, true} {
				t.Run(x.name+"/"+string(level), func(t *testing.T) {
					fs, _ := x.broken(t, level, 0)
					fs.Kill()
					x := x
					p := fs.NewProcess()
					x.sim.Process = p
					s, err := x.open(fs, level, "0003")
					noErr(t, err)
					before := files(fs)
					dir, name := fs.Foreign(), ""
					for path := range before {
						if _, stays := x.new[path]; !stays || before[path] != x.new[path] {
							name = path
						}
					}
					if over := x.new["d/b.txt"]; over != "" {
						name = "d/b.txt"
					}
					if d, base, below := strings.Cut(name, "/"); below {
						if dir, err = dir.OpenDir(d); err != nil {
							t.Fatal(err)
						}
						name = base
					}
					f, err := dir.Open(name, fsx.Read|fsx.Write, 0)
					noErr(t, err)
					noErr(t, x.run(s))
					s.Sync(background)
					f.WriteAt([]byte(humansText), 7)
					if dies {
						p.Kill()
						x.sim.Process = fs.NewProcess()
						if s, err = x.open(fs, level, "0004"); err != nil {
							t.Fatal(err)
						}
					}
					f.WriteAt([]byte("once more, "+humansText), 7)
					f.Close()
					do(put("later.txt", longText, rw.ModeCreate))(s)
					noErr(t, s.Close(background))
					if s, err = x.open(fs, level, "0005"); err != nil {
						t.Fatal(err)
					}
					if !haveText(contents(fs, false), "once more, "+humansText) {
						t.Errorf("what was written to %s late is lost", name)
					}
					if left, err := s.Unfinished(); err != nil || len(left) > 0 {
						t.Errorf("slots %v are left: %v", left, err)
					}
				})
			}
		}
	}
}
