package journal_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestTornRowsNeedNoSpace: on a disk without a free byte the journal opens
// after a torn row of any length, in every reading, every row before
// it is there, and the row that comes when there is room follows them.
func TestTornRowsNeedNoSpace(t *testing.T) {
	for _, text := range []string{"z", "\n{\"seq\":3,", strings.Repeat("z", 300), strings.Repeat("z", 200_000)} {
		fs := simfs.New()
		l := open(t, fs, journal.Options{})
		for _, path := range []string{"a", "b"} {
			testbed.NoErr(t, write(l, path, true))
		}
		testbed.NoErr(t, l.Close())
		name := fmt.Sprintf("journal/%020d.jsonl", 1)
		data, _ := fs.ReadFile(name)
		fs.WriteFile(name, append(data, text...), 0o600)
		fs.CapBytes(1) // everything that is there stays
		for range 3 {
			fs.Kill()
			l, rep, err := tryOpen(fs, journal.Options{})
			testbed.NoErr(t, err, text)
			if got := fmt.Sprint(paths(t, l)); got != "[a b]" || l.Head() != 2 {
				t.Errorf("%.10q: %s, head %d, %+v", text, got, l.Head(), rep)
			}
		}
		fs.Kill()
		fs.CapBytes(0)
		l = open(t, fs, journal.Options{})
		testbed.NoErr(t, write(l, "c", true))
		if got := fmt.Sprint(paths(t, l)); got != "[a b c]" || l.Head() != 3 {
			t.Errorf("%.10q: %s, head %d", text, got, l.Head())
		}
		l.Close()
	}
}

// TestARowWithoutItsNewlineNeedsNoSpace: it is a row, and the next one ends it.
func TestARowWithoutItsNewlineNeedsNoSpace(t *testing.T) {
	fs := simfs.New()
	l := open(t, fs, journal.Options{})
	for _, path := range []string{"a", "b"} {
		testbed.NoErr(t, write(l, path, true))
	}
	l.Close()
	name := fmt.Sprintf("journal/%020d.jsonl", 1)
	data, _ := fs.ReadFile(name)
	fs.WriteFile(name, []byte(strings.TrimRight(string(data), "\n\x00")), 0o600)
	fs.CapBytes(1)
	fs.Kill()
	l, _, err := tryOpen(fs, journal.Options{})
	testbed.Require(t, err == nil && l.Head() == 2, "%v", err)
	fs.CapBytes(0)
	testbed.NoErr(t, write(l, "c", true))
	testbed.Equal(t, fmt.Sprint(paths(t, l)), "[a b c]")
	l.Close()
}
