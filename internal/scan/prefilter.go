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
// A filter of step 1 looks at every position and knows a keyword by its rarest
// three bytes. One of step 2 looks at every other position, which is faster,
// and knows it by the rarest three bytes at an even offset and by the rarest at
// an odd one, so that it meets a keyword wherever it begins.
type prefilter struct {
	step    int
	words   []word
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
	off   int  // offset of the three bytes in the word; -1 for one byte before it
	final bool // the last of its hash
}

func newSlot(w *word, off int) slot { return slot{folded: fold(w.text), word: w, off: off} }

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

// newPrefilter prepares words, each of at least three bytes.
func newPrefilter(step int, words []word) *prefilter {
	p := &prefilter{step: step, words: words}
	type place struct {
		hash uint32
		word *word
		off  int
	}
	places := make([]place, 0, 2*len(words))
	known := make(map[uint32]int, len(words)) // the number of places with a hash
	add := func(hash uint32, w *word, off int) {
		places = append(places, place{hash, w, off})
		known[hash]++
		p.bits[hash>>6] |= 1 << (hash & 63)
	}
	for i := range words {
		w := &words[i]
		p.longest = max(p.longest, len(w.text))
		for offset := range step {
			if offset+3 <= len(w.text) {
				at := rarest(w.text, offset, step, known)
				add(hash3(three(w.text[at:])|0x202020), w, at)
				continue
			}
			for c := range 0x100 { // whatever comes before its first two bytes
				if c == c|0x20 {
					add(hash3(uint32(c)|uint32(w.text[0])<<8|uint32(w.text[1])<<16|0x202020), w, -1)
				}
			}
		}
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
		p.slots[at] = newSlot(l.word, l.off)
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

// rarest is the offset of the three bytes of a word that are met least, of
// those at an offset and in steps after it; of several the one that fewest words
// are known by so far.
func rarest(w string, offset, step int, known map[uint32]int) int {
	common, best, at := common(), [2]int{1 << 30}, offset
	for i := offset; i+3 <= len(w); i += step {
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
	used, b := &p.used, t.b[:to+2]
	i := from
	if p.step == 1 {
		for ; i+8 <= len(b); i += 6 {
			x := binary.LittleEndian.Uint64(b[i:]) | caseBits
			h0, h1, h2 := hash3(uint32(x)), hash3(uint32(x>>8)), hash3(uint32(x>>16))
			h3, h4, h5 := hash3(uint32(x>>24)), hash3(uint32(x>>32)), hash3(uint32(x>>40))
			if used[h0]|used[h1]|used[h2]|used[h3]|used[h4]|used[h5] == 0 {
				continue
			}
			for k := range 6 {
				if h := hash3(uint32(x >> (8 * k))); used[h] != 0 {
					p.compare(t, i+k, h)
				}
			}
		}
	} else {
		for ; i+8 <= len(b); i += 6 {
			x := binary.LittleEndian.Uint64(b[i:]) | caseBits
			h0, h2, h4 := hash3(uint32(x)), hash3(uint32(x>>16)), hash3(uint32(x>>32))
			if used[h0]|used[h2]|used[h4] == 0 {
				continue
			}
			for k := 0; k < 6; k += 2 {
				if h := hash3(uint32(x >> (8 * k))); used[h] != 0 {
					p.compare(t, i+k, h)
				}
			}
		}
	}
	for ; i+3 <= len(b); i += p.step {
		if h := hash3(three(b[i:]) | 0x202020); used[h] != 0 {
			p.compare(t, i, h)
		}
	}
}

// compare looks at the words with the hash of the three bytes at i.
func (p *prefilter) compare(t *text, i int, h uint32) {
	if i+3 < len(t.b) && p.used[h]>>(t.b[i+3]&7)&1 == 0 {
		return
	}
	for n := int(p.first[p.rank(h)]); ; n++ {
		s := &p.slots[n]
		if pos := i - s.off; s.at(t.b, pos) {
			t.keyword(s.word, pos)
		}
		if s.final {
			return
		}
	}
}
