package observe

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

func sample(n int) *Index {
	x := &Index{Scanned: 5, Seq: 7, Rules: 9, Tracked: 11, Growing: true, dirs: map[string][]Entry{"": nil, "empty": {}}}
	for i := range n {
		dir := fmt.Sprintf("d%d", i%7)
		e := Entry{Name: fmt.Sprintf("f%05d", i), Size: int64(i), Mtime: int64(i) << 30, Ctime: -1, Ino: uint64(i), Mode: 0o644, Flags: uint8(i % 8)}
		e.SHA[i%32] = 1
		if i%3 == 0 {
			e.Git = string(bytes.Repeat([]byte{byte(i)}, 20))
		}
		x.dirs[dir] = append(x.dirs[dir], e)
	}
	return x
}

// TestIndexRoundTrip: what is written is read again, and any other text is
// refused: an index with one byte changed, cut off, or longer.
func TestIndexRoundTrip(t *testing.T) {
	x := sample(100)
	data := x.encode()
	y := testbed.Must(decodeIndex(data))(t)
	testbed.Require(t, bytes.Equal(y.encode(), data) && y.Files() == x.Files() && len(y.dirs) == len(x.dirs) && y.dirs["d3"][2] == x.dirs["d3"][2],
		"not the same")
	for i := range data {
		if i%5 == 0 {
			_, err := decodeIndex(data[:i])
			testbed.Require(t, err != nil, "cut off at %v", i)
		}
		changed := bytes.Clone(data)
		changed[i] ^= 0x40
		_, err := decodeIndex(changed)
		testbed.Require(t, err != nil, "changed at %v", i)
	}
	_, err := decodeIndex(append(data, 0))
	testbed.Require(t, err != nil, "longer")
}

// FuzzIndex: no text ends the process or takes more than linear work, also one
// whose checksum is right.
func FuzzIndex(f *testing.F) {
	testbed.FuzzLinear(f, 16<<10, 5*time.Microsecond, []string{string(sample(3).encode()), magic, "\xff\xff\xff\x7f"}, func(text []byte) int {
		decodeIndex(text)
		decodeIndex(sealed(text))
		return 0
	})
}

// TestRacyEntry: a file whose time stamps are not clearly older than the scan
// is looked at again. What is clear depends on who sets them, and how exactly.
func TestRacyEntry(t *testing.T) {
	for _, row := range []struct {
		mtime, ctime, scanned int64
		local, want           bool
	}{
		{10e9, 10e9, 9e9, true, true}, {10e9, 10e9, 12e9, true, true}, {10e9, 10e9, 12e9 + 1, true, false}, {10e9, 10e9, 20e9, true, false},
		{10e9, 10e9 + 1, 10e9, true, true}, {10e9, 10e9 + 1, 10.1e9 + 1, true, true}, {10e9, 10e9 + 1, 10.1e9 + 2, true, false},
		{10e9, 10e9 + 1, 12e9 + 1, false, true}, {10e9, 10e9 + 1, 12e9 + 2, false, false},
		{20e9, 10e9 + 1, 11e9, true, true},
	} {
		e := (Entry{Mtime: row.mtime, Ctime: row.ctime})
		testbed.Expect(t, e.racy(row.scanned, row.local) == row.want, "%+v", row)
	}
}

// TestDiskLow: a large disk is not low as long as there is room for history.
func TestDiskLow(t *testing.T) {
	for _, c := range []struct {
		size, free int64
		low        bool
	}{{0, 0, false}, {100 << 30, 5 << 30, false}, {100 << 30, 5<<30 - 1, true}, {1 << 40, 10 << 30, false}, {1 << 40, 10<<30 - 1, true}} {
		if got := isLow(fsx.Volume{Size: c.size, Free: c.free}); got != c.low {
			t.Errorf("%d of %d bytes free: %v, want %v", c.free, c.size, got, c.low)
		}
	}
}
