package resilientwrite

import (
	"encoding/binary"

	"github.com/resilientwrite/resilientwrite/internal/scan"
)

// fingerprints is a set of findings in bounded memory, each with a mark. A
// finding beyond the bound is not in the set and is never marked: a finding that
// is not known to be old counts as new. Its zero value is empty.
type fingerprints struct{ marks map[uint64]bool }

// maxFingerprints bounds the set, at some 20 MiB. Findings of confidence info may
// fill half of it, so that a list of addresses leaves room for the keys in it.
const maxFingerprints = 786_432

// add takes a finding into the set, as long as there is room.
func (p *fingerprints) add(x scan.Finding) {
	most := maxFingerprints
	if x.Confidence == scan.Info {
		most /= 2
	}
	if len(p.marks) >= most {
		return
	}
	if p.marks == nil {
		p.marks = map[uint64]bool{}
	}
	p.marks[printOf(x)] = p.marks[printOf(x)]
}

// mark marks a finding of the set; others are left alone.
func (p *fingerprints) mark(x scan.Finding) {
	if _, in := p.marks[printOf(x)]; in {
		p.marks[printOf(x)] = true
	}
}

// marked reports whether a finding is in the set and marked.
func (p *fingerprints) marked(x scan.Finding) bool { return p.marks[printOf(x)] }

// printOf returns the part of a fingerprint that is kept: 64 bits. Among a
// million of them, the chance that two are equal is one in ten million.
func printOf(x scan.Finding) uint64 { return binary.LittleEndian.Uint64(x.Fingerprint[:]) }
