package hunks

import (
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

func TestMain(m *testing.M) { testbed.Main(m) }

// version reads a version: "-" is none, and * marks one that may be executed.
func version(text string) Version {
	rest, exec := strings.CutPrefix(text, "*")
	return Version{Exists: text != "-", Exec: exec, Text: []byte(strings.TrimPrefix(rest, "-"))}
}

// TestPatch: what a writer changed, when others change the file too. A step is the file
// before and after a change of the writer.
func TestPatch(t *testing.T) {
	for _, row := range []struct{ steps, now, head, lines string }{
		{"- *a", "*a", "new file mode 100755", "+a"},
		{"*a -", "-", "deleted file mode 100755", "-a"},
		{"a *a", "*a", "old mode 100644 new mode 100755", ""},
		{"*a b", "b", "old mode 100755 new mode 100644", "-a +b"},
		{"a b", "*b", "", "-a +b"},       // others changed the mode
		{"a *b", "b", "", "-a +b"},       // and took the change of the mode back
		{"a *a *a a", "a", "", ""},       // the writer did
		{"a b *b *c", "*c", "", "-a +c"}, // others, between two changes
		{"a b b *c", "*c", "old mode 100644 new mode 100755", "-a +c"},
		{"a b b a", "a", "", ""},
		{"a b *b -", "-", "deleted file mode 100755", "-a"},
	} {
		steps := strings.Fields(row.steps)
		n := Start("f", version(steps[0]+"\n"), version(steps[1]+"\n"))
		if steps[0] == "-" {
			n = Start("f", version("-"), version(steps[1]+"\n"))
		} else if steps[1] == "-" {
			n = Start("f", version(steps[0]+"\n"), version("-"))
		}
		for i := 2; i < len(steps); i += 2 {
			after := version("-")
			if steps[i+1] != "-" {
				after = version(steps[i+1] + "\n")
			}
			testbed.NoErr(t, n.Mine(version(steps[i]+"\n"), after), row)
		}
		if row.now != "-" {
			testbed.NoErr(t, n.Others(version(row.now+"\n")), row)
		}
		var head, lines []string
		for line := range strings.Lines(testbed.Must(n.Patch())(t)) {
			switch line = strings.TrimSuffix(line, "\n"); {
			case strings.Contains(line, "mode"):
				head = append(head, line)
			case strings.ContainsAny(line[:1], "+-") && len(line) == 2:
				lines = append(lines, line)
			}
		}
		testbed.Equal(t, strings.Join(head, " "), row.head, row)
		testbed.Equal(t, strings.Join(lines, " "), row.lines, row)
		testbed.Equal(t, n.Same(), row.head+row.lines == "", row)
	}
}

// TestMadeAndRemoved: a file that one side made or removed and the other changed has no
// lines of one of them.
func TestMadeAndRemoved(t *testing.T) {
	for _, row := range [][3]string{{"a", "b", "-"}, {"-", "a", "b"}, {"a", "-", "b"}, {"-", "a", "-"}} {
		err := Start("f", version(row[0]), version(row[1])).Others(version(row[2]))
		testbed.Expect(t, err == ErrOverlap, "%v: %v", row, err)
	}
}

// TestInTheIndex: the index gets a new file, and loses one, only if it does not have another
// content.
func TestInTheIndex(t *testing.T) {
	for _, row := range []struct{ without, in, have, want string }{
		{"-", "*a", "-", "*a"}, {"-", "a", "a", "a"}, {"-", "a", "b", "overlap"},
		{"a", "-", "a", "-"}, {"a", "-", "-", "-"}, {"a", "-", "b", "overlap"},
		{"a", "b", "-", "overlap"}, {"a", "b", "*a", "*b"}, {"a", "*a", "a", "*a"}, {"a", "b", "c", "overlap"},
	} {
		got, err := Start("f", version(row.without), version(row.in)).in(version(row.have))
		want := version(row.want)
		if row.want == "overlap" {
			testbed.Expect(t, err == ErrOverlap, "%v: %v", row, err)
			continue
		}
		testbed.Expect(t, err == nil && got.Exists == want.Exists && got.Exec == want.Exec && string(got.Text) == string(want.Text), "%v: %+v %v", row, got, err)
	}
}
