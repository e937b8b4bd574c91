package scan

import (
	_ "embed"
	"encoding/binary"
	"math/bits"
	"slices"
	"strings"
	"sync"
)

// A prefilter finds every place of a text where one of some hundred keywords
// is, without regard to ASCII case, in one pass that costs the same on any
// text: three bytes at a time are folded, hashed, and looked up in a table.
// It looks at every position and knows a keyword by its rarest three bytes. Where
// the processor can look up many bytes at a time, a filter for whole texts has
// buckets, which find the places at which it looks.
type prefilter struct {
	buckets *buckets             // nil for none
	longest int                  // length of the longest word
	used    [1 << hashBits]uint8 // for a hash, a bit for the low bits of each byte that may follow
	slots   []slot               // those of one hash are next to each other
	// Where those of a hash begin, by its rank among those that are used: a table
	// of all hashes would not fit into the nearest memory.
	bits  [1 << (hashBits - 6)]uint64
	ranks [1 << (hashBits - 6)]uint16
	first []uint16
}

// word is a keyword and the rules that wait for it.
type word struct {
	text   string // lower case
	rules  []*rule
	starts bool // all its rules want it at the beginning of a word
}

func (w *word) add(r *rule) {
	starts := r.starts || r.look == nil && r.within == 0 && !r.inside && r.x.lead == 0 && !r.glued
	w.starts = starts && (w.starts || len(w.rules) == 0)
	w.rules = append(w.rules, r)
}

type slot struct {
	folded
	word  *word
	off   int  // offset of the three bytes in the word
	final bool // the last of its hash
}

// next has a bit for the low bits of the byte after the three; all bits where
// that is not part of the word.
func (s *slot) next() uint8 {
	if n := s.off + 3; n < len(s.text) {
		return 1 << (s.text[n] & 7)
	}
	return 0xff
}

const hashBits = 17

const caseBits = 0x2020202020202020

// hash3 is the hash of the three low bytes: the factor shifts the fourth out.
func hash3(x uint32) uint32 { return x * (0x9E3779B1 << 8 & 0xffffffff) >> (32 - hashBits) }

func three[T string | []byte](b T) uint32 { return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 }

// newTextFilter prepares words, each of at least three bytes, for whole texts.
func newTextFilter(words []word) *prefilter {
	// A short word has less choice of the bytes that it is known by.
	words = slices.Clone(words)
	slices.SortStableFunc(words, func(a, b word) int { return len(a.text) - len(b.text) })
	f := newFrequency()
	p := newPrefilter(words, f.rarest)
	if fastBuckets {
		p.buckets = f.buckets(p.slots)
	}
	return p
}

// newPrefilter prepares words, each of at least three bytes. choose decides by
// which of them a word is known.
func newPrefilter(words []word, choose func(w string, known map[uint32]int) int) *prefilter {
	p := &prefilter{}
	type place struct {
		hash uint32
		word *word
		off  int
	}
	places := make([]place, len(words))
	known := make(map[uint32]int, len(words)) // the number of places with a hash
	for i := range words {
		w := &words[i]
		p.longest = max(p.longest, len(w.text))
		at := choose(w.text, known)
		hash := hash3(three(w.text[at:]) | 0x202020)
		places[i] = place{hash, w, at}
		known[hash]++
		p.bits[hash>>6] |= 1 << (hash & 63)
	}
	n := 0
	for i, set := range p.bits {
		for p.ranks[i] = uint16(len(p.first)); set != 0; set &= set - 1 {
			p.first = append(p.first, uint16(n))
			n += known[uint32(i<<6+bits.TrailingZeros64(set))]
		}
	}
	p.slots = make([]slot, n)
	for _, l := range slices.Backward(places) { // known is what of a hash is left
		known[l.hash]--
		at := int(p.first[p.rank(l.hash)]) + known[l.hash]
		p.slots[at] = slot{folded: fold(l.word.text), word: l.word, off: l.off}
		p.used[l.hash] |= p.slots[at].next()
	}
	for _, first := range p.first {
		if first > 0 {
			p.slots[first-1].final = true
		}
	}
	if n > 0 {
		p.slots[n-1].final = true
	}
	return p
}

// rank is the number of lower hashes that are used.
func (p *prefilter) rank(h uint32) int {
	return int(p.ranks[h>>6]) + bits.OnesCount64(p.bits[h>>6]&(1<<(h&63)-1))
}

// commonTriples are the three bytes, with caseBits, that are met most in source
// code, prose and data, beginning with the most frequent, in lines of fifty.
//
//go:embed triples.txt
var commonTriples string

// common is how often three bytes with a hash are met: higher is more often, 0
// for those that are rare.
var common = sync.OnceValue(func() map[uint32]int {
	rank := map[uint32]int{}
	triples := strings.ReplaceAll(commonTriples, "\n", "")
	for i := 0; i < len(triples); i += 3 {
		rank[hash3(three(triples[i:]))] += 1 << 20 / (i + 30)
	}
	return rank
})

// rarest is the offset of the three bytes of a word that are met least; of
// several the one that fewest words are known by so far.
func rarest(w string, known map[uint32]int) (at int) {
	common, best := common(), [2]int{1 << 30}
	for i := range len(w) - 2 {
		h := hash3(three(w[i:]) | 0x202020)
		if n := [2]int{common[h], known[h]}; n[0] < best[0] || n[0] == best[0] && n[1] < best[1] {
			best, at = n, i
		}
	}
	return at
}

// scan looks at every word of the filter whose three bytes are between two
// places of the text, and calls keyword with each.
func (p *prefilter) scan(t *text, from, to int) {
	if to = min(to, len(t.b)-2); from >= to {
		return
	}
	t.runs.work += to - from
	if p.buckets != nil && to-from >= leastFast {
		from = p.scanPlaces(t, t.b[:to+2], from)
	}
	used, b := &p.used, t.b
	i := from
	for ; i < to && i+9 <= len(b); i += 6 {
		x := binary.LittleEndian.Uint64(b[i:]) | caseBits
		if used[hash3(uint32(x))]|used[hash3(uint32(x>>8))]|used[hash3(uint32(x>>16))]|used[hash3(uint32(x>>24))]|used[hash3(uint32(x>>32))]|used[hash3(uint32(x>>40))] == 0 {
			continue
		}
		follow := binary.LittleEndian.Uint64(b[i+1:]) >> 16
		for k := range min(6, to-i) {
			if h := hash3(uint32(x >> (8 * k))); used[h]>>(follow>>(8*k)&7)&1 != 0 {
				p.compare(t, i+k, h)
			}
		}
	}
	for ; i < to; i++ {
		if h := hash3(three(b[i:]) | 0x202020); used[h] != 0 && (i+3 == len(b) || used[h]>>(b[i+3]&7)&1 != 0) {
			p.compare(t, i, h)
		}
	}
}

const (
	leastFast = 256 // bytes of a text below which buckets are no faster
	mostMet   = 16  // one of so many places has a word at most where they are faster
)

// scanPlaces looks at every word whose three bytes are in b, from a place on, where
// the buckets find one. It returns where the filter goes on without them: near the
// end, or where there are too many words.
func (p *prefilter) scanPlaces(t *text, b []byte, from int) int {
	var places [64]uint64
	next, hits := from, 0
	for n := min((len(b)-from-3)/64, len(places)); n > 0 && hits <= (next-from)/mostMet; n = min((len(b)-next-3)/64, len(places)) {
		piece := b[next:]
		p.buckets.places(piece, places[:n])
		for k, found := range places[:n] {
			for ; found != 0; found &= found - 1 {
				i := 64*k + bits.TrailingZeros64(found)
				x := binary.LittleEndian.Uint32(piece[i:])
				if h := hash3(x | caseBits&0xffffffff); p.used[h]>>(x>>24&7)&1 != 0 {
					hits++
					p.compare(t, next+i, h)
				}
			}
		}
		next += 64 * n
	}
	return next
}

// compare looks at the words with the hash of the three bytes at i.
func (p *prefilter) compare(t *text, i int, h uint32) {
	for n := int(p.first[p.rank(h)]); ; n++ {
		s := &p.slots[n]
		if pos := i - s.off; s.mayBeAt(t.b, pos) && s.isAt(t.b, pos) {
			t.keyword(s.word, pos)
		}
		if s.final {
			return
		}
	}
}
