package resilientwrite

import (
	"encoding/binary"

	"github.com/resilientwrite/resilientwrite/internal/scan"
)

// fingerprints is a set of findings in bounded memory, each with a mark. A
// finding beyond the bound is not in it and is never marked: what cannot be
// shown to be old counts as new. Its zero value is empty.
type fingerprints struct {
	slots []uint64 // open addressing; 0 is free; the lowest bit is the mark
	held  int
}

// maxFingerprints bounds the set, at 8 MiB. What is for information only may
// fill half of it, so that a list of addresses leaves room for the keys in it.
const (
	minFingerprints  = 1 << 6
	fingerprintSlots = 1 << 20
	maxFingerprints  = fingerprintSlots / 4 * 3
)

// add takes a finding into the set, as long as there is room.
func (p *fingerprints) add(x scan.Finding) {
	most := maxFingerprints
	if x.Confidence == scan.Info {
		most /= 2
	}
	if p.held < most {
		p.put(printOf(x))
	}
}

// mark marks a finding of the set; others are left alone.
func (p *fingerprints) mark(x scan.Finding) {
	if i, ok := p.find(printOf(x)); ok {
		p.slots[i] |= 1
	}
}

// marked reports whether a finding is in the set and marked.
func (p *fingerprints) marked(x scan.Finding) bool {
	i, ok := p.find(printOf(x))
	return ok && p.slots[i]&1 == 1
}

// printOf is the part of a fingerprint that is kept: 63 bits, of which a
// million have one chance in ten million to hold two that are the same.
func printOf(x scan.Finding) uint64 {
	return max(binary.LittleEndian.Uint64(x.Fingerprint[:])&^1, 2)
}

// find is the slot of a print, or the free one where it belongs.
func (p *fingerprints) find(print uint64) (slot int, ok bool) {
	if len(p.slots) == 0 {
		return 0, false
	}
	last := len(p.slots) - 1
	for i := int(print>>32) & last; ; i = (i + 1) & last {
		switch p.slots[i] &^ 1 {
		case print:
			return i, true
		case 0:
			return i, false
		}
	}
}

func (p *fingerprints) put(print uint64) {
	if p.held >= len(p.slots)/4*3 {
		old := p.slots
		p.slots = make([]uint64, max(minFingerprints, 2*len(old)))
		for _, slot := range old {
			if slot != 0 {
				i, _ := p.find(slot &^ 1)
				p.slots[i] = slot
			}
		}
	}
	if i, ok := p.find(print); !ok {
		p.slots[i] = print
		p.held++
	}
}
