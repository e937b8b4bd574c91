package blame

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestRowsOfVersions: each letter is a line of a version. A * means that the version may bring an
// earlier one back, a ? that its content cannot be had.
func TestRowsOfVersions(t *testing.T) {
	for _, c := range []struct{ versions, rows, undone string }{
		{"a ab xab", "[3 1 2]", "0 0 0"},
		{"ab b ab*", "[1 1]", "0 3 0"},
		{"a ab a* ab*", "[1 2]", "0 0 4 0"},
		{"a b a* c a*", "[1]", "0 3 0 5 0"},
		{"a b ab*", "[3 2]", "0 0 0"}, // nothing earlier is like it
		{"a - a*", "[1]", "0 3 0"},
		{"a ?b c cd", "[0 4]", "0 0 0 0"},
		{"a ?b a*", "[1]", "0 3 0"},
		{"?a b a*", "[0]", "0 3 0"},
		{"?a b a* ab", "[0 4]", "0 3 0 0"},
	} {
		f := File{Restored: map[string]bool{}}
		list := strings.Fields(c.versions)
		for _, v := range list {
			f.Restored[strings.Trim(v, "*?")] = true
		}
		for i, v := range list {
			sha := strings.Trim(v, "*?")
			text := strings.Join(strings.Split(strings.Trim(sha, "-"), ""), "\n")
			if text != "" {
				text += "\n"
			}
			testbed.NoErr(t, f.Add(Version{Row: uint64(i + 1), SHA: sha, Back: strings.HasSuffix(v, "*"), Opaque: v[0] == '?', Text: []byte(text)}))
		}
		var undone []string
		for i := range list {
			undone = append(undone, fmt.Sprint(f.UndoneBy(uint64(i+1))))
		}
		rows, complete := f.Rows()
		testbed.Expect(t, fmt.Sprint(rows) == c.rows && strings.Join(undone, " ") == c.undone && complete != strings.Contains(c.versions, "?"),
			"%s: rows %v, undone by %v, complete %v", c.versions, rows, undone, complete)
	}
}

// TestManyVersionsTakeLittleMemory: only what a later version brings back is kept.
func TestManyVersionsTakeLittleMemory(t *testing.T) {
	used := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	text, before := strings.Repeat("x\n", 20_000), used()
	f := File{Restored: map[string]bool{"100": true}}
	for i := range 201 {
		text += "y\n"
		v := Version{Row: uint64(i), SHA: fmt.Sprint(i), Text: []byte(text)}
		if i == 200 {
			v = Version{Row: 200, SHA: "100", Back: true, Text: []byte(text[:40_202])}
		}
		testbed.NoErr(t, f.Add(v))
	}
	took := int64(used() - before)
	rows, complete := f.Rows()
	testbed.Expect(t, complete && len(rows) == 20_101 && rows[20_100] == 100 && f.UndoneBy(150) == 200, "%d lines, the last of %d", len(rows), rows[len(rows)-1])
	testbed.Expect(t, took < 8<<20, "%d bytes are in use", took)
}
