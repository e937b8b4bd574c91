package gitindex

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// FuzzLinear: reading an index takes work in proportion to its length, also
// where an entry of a few bytes repeats the long name of the one before.
func FuzzLinear(f *testing.F) {
	f4 := func(name string) string {
		entry := make([]byte, statBytes+20+2)
		binary.BigEndian.PutUint16(entry[statBytes+20:], uint16(min(len(name), nameBits)))
		return string(entry) + "\x00" + name + "\x00"
	}
	seeds := []string{f4("a"), f4("st/policy.yaml"), f4(""), "link", "\x00\x00\x00\x08"}
	testbed.FuzzLinear(f, 16<<10, 5*time.Microsecond, seeds, func(text []byte) int {
		for version := uint32(2); version <= 4; version++ {
			for _, count := range []uint32{0, uint32(len(text) / 64), 1 << 31} {
				head := binary.BigEndian.AppendUint32([]byte("DIRC"), version)
				data := append(binary.BigEndian.AppendUint32(head, count), text...)
				ix := index{data: data, hash: 20, names: []string{"st", "policy.yaml"}, same: relpath.SameName}
				ix.parse()
			}
		}
		return 0
	})
}

// TestLongNamesOfFormat4: entries that repeat a name of the greatest length
// cost in proportion to it and to their number.
func TestLongNamesOfFormat4(t *testing.T) {
	testbed.Linear(t, "entries of a few bytes", 32<<10, 20*time.Microsecond, func(n int) int {
		data := binary.BigEndian.AppendUint32([]byte("DIRC"), 4)
		data = binary.BigEndian.AppendUint32(data, uint32(1+n/64))
		entry := make([]byte, statBytes+20+2)
		binary.BigEndian.PutUint16(entry[statBytes+20:], nameBits)
		data = append(append(append(data, entry...), 0), make([]byte, 0, maxPath)...)
		for range maxPath / 2 {
			data = append(data, "a/"...)
		}
		data = append(data, 0)
		for range n / 64 {
			data = append(append(data, entry...), 0, 0)
		}
		data = append(data, make([]byte, 20)...)
		compared := 0
		ix := index{data: data, hash: 20, names: []string{"a", "a", "b"}, same: func(a, b string) bool {
			compared += len(a) + len(b)
			return a == b
		}}
		if err := ix.parse(); err != nil || ix.found {
			t.Fatal(err, ix.found)
		}
		return compared
	})
}
