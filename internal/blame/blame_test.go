package blame

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

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
