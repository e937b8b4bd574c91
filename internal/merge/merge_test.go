package merge

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// gitMerge is what git merge-file makes of three texts.
func gitMerge(t *testing.T, dir string, base, ours, theirs []byte) (content []byte, clean bool) {
	t.Helper()
	for name, text := range map[string][]byte{"base": base, "ours": ours, "theirs": theirs} {
		testbed.NoErr(t, os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	cmd := exec.Command("git", "merge-file", "-p", "-q", "ours", "base", "theirs")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull)
	content, err := cmd.Output()
	var exit *exec.ExitError
	testbed.Require(t, err == nil || errors.As(err, &exit) && exit.ExitCode() >= 1 && exit.ExitCode() <= 127, "git merge-file: %v", err)
	return content, err == nil
}

// shape is a way to make random texts.
type shape struct {
	name          string
	lines, kinds  int  // of the base; different lines
	edits, length int  // of one side at most; lines of an edit
	apart         bool // the sides mostly change different halves
}

var shapes = []shape{
	{"few lines", 6, 3, 2, 2, false},
	{"often the same", 40, 4, 4, 3, false},
	{"a program", 120, 30, 5, 6, false},
	{"all different", 200, 1 << 30, 8, 5, false},
	{"rewritten", 300, 60, 120, 4, true},
	{"long and rewritten", 1500, 40, 900, 3, true},
}

func (s shape) base(r *rand.Rand) [][]byte {
	lines := make([][]byte, r.IntN(s.lines+1))
	for i := range lines {
		lines[i] = s.line(r)
	}
	return lines
}

func (s shape) line(r *rand.Rand) []byte { return fmt.Appendf(nil, "line %d\n", r.IntN(s.kinds)) }

func (s shape) edited(r *rand.Rand, base [][]byte, second bool) []byte {
	lines := append([][]byte(nil), base...)
	for range r.IntN(s.edits + 1) {
		at := r.IntN(len(lines) + 1)
		if half := len(lines) / 2; s.apart && r.IntN(4*s.edits) > 0 {
			if at = r.IntN(half + 1); second {
				at += half
			}
		}
		gone := min(r.IntN(s.length+1), len(lines)-at)
		var fresh [][]byte
		for range r.IntN(s.length + 1) {
			fresh = append(fresh, s.line(r))
		}
		lines = append(append(append([][]byte(nil), lines[:at]...), fresh...), lines[at+gone:]...)
	}
	text := bytes.Join(lines, nil)
	if r.IntN(8) == 0 {
		text = bytes.TrimSuffix(text, []byte{'\n'})
	}
	return text
}

// TestAgreesWithGit merges random texts as git does.
func TestAgreesWithGit(t *testing.T) {
	t.Parallel()
	testbed.Needs(t, "git")
	dir, r := t.TempDir(), rand.New(rand.NewPCG(1, testbed.Seed(t)))
	n := 30
	if testbed.Long() {
		n = 170
	}
	for _, s := range shapes {
		clean := 0
		for i := range n {
			lines := s.base(r)
			base := bytes.Join(lines, nil)
			ours, theirs := s.edited(r, lines, false), s.edited(r, lines, true)
			want, ok := gitMerge(t, dir, base, ours, theirs)
			got := testbed.Must(Three(base, ours, theirs))(t, s.name, " ", i)
			if ok {
				clean++
			}
			testbed.Require(t, ok == (len(got.Conflicts) == 0) && (!ok || bytes.Equal(want, got.Content)), "%s %d: git clean %v, here %d conflicts\nbase %q\nours %q\ntheirs %q\ngit %q\nhere %q", s.name, i, ok, len(got.Conflicts), base, ours, theirs, want, got.Content)
		}
		t.Logf("%s: %d of %d clean", s.name, clean, n)
		testbed.Expect(t, clean != 0 && clean != n, "%s: %d of %d are clean, so one of both was not tested", s.name, clean, n)
	}
}

// TestHunksRebuild applies the hunks of random texts.
func TestHunksRebuild(t *testing.T) {
	r := rand.New(rand.NewPCG(2, testbed.Seed(t)))
	for _, s := range shapes {
		for range 50 {
			lines := s.base(r)
			old := bytes.Join(lines, nil)
			checkHunks(t, old, s.edited(r, lines, false))
		}
	}
}

func checkHunks(t *testing.T, old, now []byte) {
	t.Helper()
	hunks := testbed.Must(Hunks(old, now))(t)
	a, b, from := Lines(old), Lines(now), 0
	var out []byte
	for _, h := range hunks {
		out = append(out, bytes.Join(a[from:h.From], nil)...)
		out = append(out, bytes.Join(b[h.NewFrom:h.NewTo], nil)...)
		from = h.To
	}
	if out = append(out, bytes.Join(a[from:], nil)...); !bytes.Equal(out, now) {
		t.Fatalf("the hunks of %q and %q lead to %q", old, now, out)
	}
}

// TestNames: git reads each name.
func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"d/é b": "b/d/é b", "a\tb": `"b/a\011b"`, "a\"b": `"b/a\"b"`, `a\b`: `"b/a\\b"`, "a\x7fb": `"b/a\177b"`, "a\n b": `"b/a\012 b"`,
	} {
		_, to := Names(name)
		testbed.Equal(t, to, want, name)
	}
}

// FuzzThree checks what holds for every merge.
func FuzzThree(f *testing.F) {
	f.Add("a\nb\nc\n", "a\nx\nb\nc\n", "a\nb\nc\ny")
	f.Add("", "a", "a\n")
	f.Fuzz(func(t *testing.T, base, ours, theirs string) {
		b, o, h := []byte(base), []byte(ours), []byte(theirs)
		got, err := Three(b, o, h)
		if err != nil {
			return
		}
		swapped, err := Three(b, h, o)
		testbed.Expect(t, err == nil && len(swapped.Conflicts) == 0 == (len(got.Conflicts) == 0) && bytes.Equal(swapped.Content, got.Content),
			"the sides are not equal: %v %v %v", got, swapped, err)
		for _, c := range []struct{ ours, theirs, want []byte }{{b, h, h}, {o, b, o}, {o, o, o}} {
			got, err := Three(b, c.ours, c.theirs)
			testbed.Expect(t, err == nil && bytes.Equal(got.Content, c.want), "a change beside none: %q %v", got.Content, err)
		}
		checkHunks(t, b, o)
	})
}

// FuzzLinear: a merge takes steps in proportion to the texts.
func FuzzLinear(f *testing.F) {
	seeds := []string{"a\n … b\n", "line #\n", "a\nb\n", "\n", "a #\nb\n", "{\n … }\n"}
	testbed.FuzzLinear(f, 32<<10, 2*time.Microsecond, seeds, func(text []byte) int {
		lines := Lines(text)
		var odd, turned [][]byte
		for i, l := range lines {
			if i%2 == 1 {
				odd = append(odd, l)
			}
			turned = append(turned, lines[len(lines)-1-i])
		}
		_, steps, _ := three(text, bytes.Join(odd, nil), bytes.Join(turned, nil))
		return steps
	})
}
