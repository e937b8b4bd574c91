package scan

import (
	"cmp"
	"math/bits"
	"slices"
	"strings"
)

// buckets finds the places of a text where one of some hundred words may be,
// 64 of them at a time, with instructions that look up sixteen or more bytes at
// once in a table of sixteen. Every word is in one of sixteen buckets. A place is
// found if there is a bucket for which each of four bytes has the low half of one
// of its words and the high half of one; case bits are ignored. The tables have,
// for each of the four bytes, a bit for each bucket: by the low half the first
// eight and the others, then by the high half.
type buckets [4][4][16]uint8

// bucket is the set of words in one: for each of the four bytes the low halves and
// the high ones, as rows of the table of letters.
type bucket struct {
	low [4]uint16
	row [4]uint8
}

// rowOf numbers the high halves of ASCII with caseBits.
func rowOf(c byte) int { return int(c>>4&1 | c>>5&2) }

// with is the bucket with another word, which is known by three bytes and the one
// after them.
func (k bucket) with(s *slot) bucket {
	for i := range k.low {
		if s.off+i < len(s.text) {
			c := s.text[s.off+i] | 0x20
			k.low[i] |= 1 << (c & 15)
			k.row[i] |= 1 << rowOf(c)
		} else {
			k.low[i], k.row[i] = 1<<16-1, 1<<4-1
		}
	}
	return k
}

// frequency is how often a byte is met that has one of some rows and a low half.
type frequency [16][16]float64

func newFrequency() *frequency {
	f := new(frequency)
	triples := strings.ReplaceAll(commonTriples, "\n", "")
	for i := range len(triples) {
		c := triples[i] | 0x20
		f[1<<rowOf(c)][c&15] += 1 / float64(i+90)
	}
	sum := 0.0
	for row := 1; row < 16; row *= 2 {
		for low := range f[row] {
			f[row][low] += 0.002 // of the others
			sum += f[row][low]
		}
	}
	for rows := range f {
		for low := range f[rows] {
			if rest := rows & (rows - 1); rest != 0 {
				f[rows][low] = f[rest][low] + f[rows&-rows][low]
			} else {
				f[rows][low] /= sum
			}
		}
	}
	return f
}

// of is the share of places that a bucket finds, if bytes were independent.
func (f *frequency) of(k *bucket) float64 {
	share := 1.0
	for i, low := range k.low {
		sum, in := 0.0, &f[k.row[i]&15]
		for ; low != 0; low &= low - 1 {
			sum += in[bits.TrailingZeros16(low)&15]
		}
		share *= sum
	}
	return share
}

// rarest is the offset of three bytes of a word of which few places have those:
// of those that are rarest together the ones that another word is known by, else
// those whose bytes are rarest.
func (f *frequency) rarest(w string, known map[uint32]int) (at int) {
	common := common()
	var best [3]float64
	for i := range len(w) - 2 {
		h := hash3(three(w[i:]) | 0x202020)
		k := bucket{}.with(&slot{folded: folded{text: w}, off: i})
		n := [3]float64{float64(common[h]), 1 / float64(1+min(known[h], 1)), f.of(&k)}
		if i == 0 || slices.Compare(n[:], best[:]) < 0 {
			best, at = n, i
		}
	}
	return at
}

// buckets puts each word where it adds least to what is found.
func (f *frequency) buckets(slots []slot) *buckets {
	type one struct {
		slot  *slot
		share float64
		in    int
	}
	all := make([]one, len(slots))
	for i := range slots {
		k := bucket{}.with(&slots[i])
		all[i] = one{slot: &slots[i], share: f.of(&k), in: -1}
	}
	slices.SortStableFunc(all, func(a, b one) int { return cmp.Compare(b.share, a.share) })
	var sets [16]bucket
	var shares [16]float64
	for round := range 2 {
		for i := range all {
			if in := all[i].in; round > 0 {
				all[i].in = -1
				sets[in] = bucket{}
				for n := range all {
					if all[n].in == in {
						sets[in] = sets[in].with(all[n].slot)
					}
				}
				shares[in] = f.of(&sets[in])
			}
			best := 2.0
			for n := range sets {
				more := sets[n].with(all[i].slot)
				if added := f.of(&more) - shares[n]; added < best {
					best, all[i].in = added, n
				}
			}
			in := all[i].in
			sets[in] = sets[in].with(all[i].slot)
			shares[in] = f.of(&sets[in])
		}
	}
	t := new(buckets)
	for n, k := range sets {
		for i := range t {
			for half := range 16 {
				if k.low[i]>>half&1 == 1 {
					t[i][n/8][half] |= 1 << (n & 7)
				}
				if half < 8 && k.row[i]>>rowOf(byte(half<<4)|0x20)&1 == 1 {
					t[i][2+n/8][half] |= 1 << (n & 7)
				}
			}
		}
	}
	return t
}

// placesPortable sets a bit in out for each place of b that the buckets find; of
// each of them 64.
func (t *buckets) placesPortable(b []byte, out []uint64) {
	for n := range out {
		out[n] = 0
		for i, p := 0, b[64*n:]; i < 64; i++ {
			first, others := uint8(255), uint8(255)
			for k := range t {
				low, high := p[i+k]&15, p[i+k]>>4
				first &= t[k][0][low] & t[k][2][high]
				others &= t[k][1][low] & t[k][3][high]
			}
			if first|others != 0 {
				out[n] |= 1 << i
			}
		}
	}
}
