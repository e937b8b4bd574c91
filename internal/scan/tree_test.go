package scan

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// The project's own tree can be written through its own default gate: no
// tracked text file reaches the verdict high.
func TestOwnTreePasses(t *testing.T) {
	root := testbed.Must(filepath.Abs("../.."))(t)
	list, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	testbed.SkipIf(t, err != nil, "not a checkout of git")
	s, files := scanner(t), 0
	for name := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || bytes.IndexByte(b, 0) >= 0 {
			continue // removed, a link to a directory, not text
		}
		files++
		verdict, finding := gated(s, b)
		testbed.Expect(t, verdict != VerdictHigh, "%s is refused: %s", name, finding)
	}
	testbed.Expect(t, files >= 500, "%d files", files)
}

// gated is the verdict of the gate, which information does not move, and what
// it rests on.
func gated(s *Scanner, b []byte) (verdict, finding string) {
	var sum Tally
	var found []string
	s.Score(b, Options{Each: func(f Finding) {
		if f.Confidence != Info {
			sum.Add(f)
			found = append(found, f.Pattern+" "+string(f.Confidence))
		}
	}})
	_, verdict = s.VerdictOf(&sum)
	return verdict, strings.Join(found, ", ")
}
