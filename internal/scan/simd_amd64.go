package scan

import "golang.org/x/sys/cpu"

// laneTables has, for each lane, by the low half of a byte, a bit for each high
// half; last, by the high half, its bit.
type laneTables [laneCount + 1][16]uint8

var tablesOfLanes = func() (t laneTables) {
	for c := range 0x80 {
		for lane := range laneCount {
			t[lane][c&15] |= uint8(lanesOf(byte(c)) >> lane & 1 << (c >> 4))
		}
	}
	for high := range 16 {
		t[laneCount][high] = 1 << (high & 7)
	}
	return t
}()

//go:noescape
func lanesAVX2(b *byte, blocks int, tables *laneTables, out *lanes)

// lanesIn sets the lanes of each 64 bytes of b.
func lanesIn(b []byte, out []lanes) {
	if len(out) > 0 && cpu.X86.HasAVX2 {
		_ = b[64*len(out)-1]
		lanesAVX2(&b[0], len(out), &tablesOfLanes, &out[0])
		return
	}
	lanesPortable(b, out)
}

//go:noescape
func placesAVX2(b *byte, blocks int, tables *buckets, out *uint64)

// places sets a bit in out for each place of b that the buckets find; b has three
// bytes more than places.
func (t *buckets) places(b []byte, out []uint64) {
	if len(out) > 0 && fastBuckets {
		_ = b[64*len(out)+2]
		placesAVX2(&b[0], len(out), t, &out[0])
		return
	}
	t.placesPortable(b, out)
}

// fastBuckets says that buckets cost less than other filters.
var fastBuckets = cpu.X86.HasAVX2
