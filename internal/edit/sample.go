package edit

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

const (
	samples    = 64      // grams of a string that are looked for
	filterBits = 14      // size of the table of these
	maxPlaces  = 8       // where to look closely
	longText   = 4 << 20 // above which a look at half of the bytes is enough
	longHead   = 1 << 10 // when the string is as long as this
)

// A sample is some of the grams of a string, from all parts of it.
type sample struct {
	head   []byte
	mask   uint64
	filter [1 << filterBits]uint8 // by hash, the number of a gram from 1
	grams  [samples]uint64
	used   int
}

// newSample picks grams at equal distances. The string has slack.
func newSample(head []byte, size int) *sample {
	s := &sample{head: head, mask: gramMask(size)}
	total := len(head) - size + 1
	padded := head[:len(head)+slack]
	for n := range samples {
		from, to := n*total/samples, (n+1)*total/samples
		for i := from; i < min(to, from+16); i++ {
			g := binary.LittleEndian.Uint64(padded[i:]) & s.mask
			slot := &s.filter[g*gramPrime>>(64-filterBits)]
			if *slot != 0 {
				continue
			}
			s.grams[s.used] = g
			s.used++
			*slot = uint8(s.used)
			break
		}
	}
	return s
}

// masks tells for each block of a text which grams of the sample are in it,
// when every step-th byte is looked at.
func (s *sample) masks(text []byte, block, step int) []uint64 {
	masks := make([]uint64, (len(text)+block-1)/block)
	padded := text[:len(text)+slack]
	mask := s.mask
	for n := range masks {
		part := padded[n*block : min((n+1)*block, len(text))+slack]
		var m uint64
		for ; len(part) > slack; part = part[step:] {
			g := binary.LittleEndian.Uint64(part) & mask
			if k := s.filter[g*gramPrime>>(64-filterBits)]; k != 0 && s.grams[(k-1)%samples] == g {
				m |= 1 << (k - 1)
			}
		}
		masks[n] = m
	}
	return masks
}

// A place is a part of a text, with the number of sample grams in and near it.
type place struct{ from, to, score int }

// places finds where a stretch like the string may begin: where most of the
// sample is, best first, then in the order of the text. The text has slack.
func (s *sample) places(text []byte) []place {
	block := min(max(len(s.head)/4, 64), len(text))
	step := 1
	if len(text) > longText && len(s.head) > longHead {
		step = 2
	}
	masks := s.masks(text, block, step)
	width := min((len(s.head)+block-1)/block+1, len(masks))
	best := make([]place, 0, maxPlaces+1)
	for i := range len(masks) - width + 1 {
		p := place{i, i + width, commonBits(masks[i : i+width])}
		if 4*step*p.score < s.used || p.score == 0 || len(best) == maxPlaces && p.score <= best[maxPlaces-1].score {
			continue
		}
		near := func(q place) bool { return q.to > p.from }
		if j := slices.IndexFunc(best, near); j >= 0 {
			if best[j].score >= p.score {
				continue
			}
			best = slices.DeleteFunc(best, near)
		}
		j := slices.IndexFunc(best, func(q place) bool { return q.score < p.score })
		if j < 0 {
			j = len(best)
		}
		best = slices.Insert(best, j, p)
		best = best[:min(len(best), maxPlaces)]
	}
	for i, p := range best {
		best[i].from, best[i].to = (p.from-1)*block, (p.to+1)*block
	}
	return best
}

// commonBits counts the bits set in any of the masks.
func commonBits(masks []uint64) int {
	var all uint64
	for _, m := range masks {
		all |= m
	}
	return bits.OnesCount64(all)
}
