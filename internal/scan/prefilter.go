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
//
// Where the processor can look up many bytes at a time, a filter for whole texts
// has another one of step 1 with buckets, which find the places at which it looks.
type prefilter struct {
	step    int
	fast    *prefilter // with buckets; nil for none
	buckets *buckets
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
	order  int
	known  [2]int // offsets of the bytes that a filter of step 2 knows it by
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

// newTextFilter prepares words, each of at least three bytes, for whole texts.
func newTextFilter(words []word) *prefilter {
	p := newPrefilter(2, words, rarest)
	if !fastBuckets {
		return p
	}
	// A short word has less choice of the bytes that it is known by.
	words = slices.Clone(words)
	slices.SortStableFunc(words, func(a, b word) int { return len(a.text) - len(b.text) })
	f := newFrequency()
	p.fast = newPrefilter(1, words, f.rarest)
	p.fast.buckets = f.buckets(p.fast.slots)
	return p
}

// newPrefilter prepares words, each of at least three bytes. choose decides by
// which of them, beginning with an offset and in steps after it, a word is known.
func newPrefilter(step int, words []word, choose func(w string, offset, step int, known map[uint32]int) int) *prefilter {
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
		if step == 2 {
			w.order, w.known = i, [2]int{-1, -1}
		}
		for offset := range step {
			if offset+3 <= len(w.text) {
				at := choose(w.text, offset, step, known)
				if step == 2 {
					w.known[offset] = at
				}
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
	if p.fast != nil && to-from >= leastFast {
		from = p.fast.scanPlaces(t, t.b[:to+2], from)
	}
	used, b, step := &p.used, t.b, p.step
	i := from
	for ; i < to && i+9 <= len(b); i += 6 {
		x := binary.LittleEndian.Uint64(b[i:]) | caseBits
		met := used[hash3(uint32(x))] | used[hash3(uint32(x>>16))] | used[hash3(uint32(x>>32))]
		if step == 1 {
			met |= used[hash3(uint32(x>>8))] | used[hash3(uint32(x>>24))] | used[hash3(uint32(x>>40))]
		}
		if met == 0 {
			continue
		}
		follow := binary.LittleEndian.Uint64(b[i+1:]) >> 16
		for k := 0; k < min(6, to-i); k += step {
			if h := hash3(uint32(x >> (8 * k))); used[h]>>(follow>>(8*k)&7)&1 != 0 {
				p.compare(t, i+k, h)
			}
		}
	}
	for ; i < to; i += step {
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
// the buckets find one. It calls keyword in the order of a filter of step 2, because
// what a rule finds may depend on what it has looked at before. It returns where
// such a filter goes on: near the end, or where there are too many words.
func (p *prefilter) scanPlaces(t *text, b []byte, from int) int {
	var places [64]uint64
	waiting := metWords{words: t.runs.met[t.depth][:0], t: t, from: from}
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
					waiting.upTo(next + i - p.longest)
					p.meet(t, next+i, h, &waiting)
				}
			}
		}
		next += 64 * n
	}
	// What is met from here on may be known by bytes that were not looked at.
	next = max(from, next-p.longest)
	next -= (next - from) & 1
	waiting.upTo(next)
	t.runs.met[t.depth] = waiting.words
	return next
}

// meet takes the words with the hash of the three bytes at i.
func (p *prefilter) meet(t *text, i int, h uint32, waiting *metWords) {
	for n := int(p.first[p.rank(h)]); ; n++ {
		s := &p.slots[n]
		if pos := i - s.off; s.mayBeAt(t.b, pos) && s.isAt(t.b, pos) {
			waiting.add(s.word, pos)
		}
		if s.final {
			return
		}
	}
}

// met is a word that is at pos, and at is where a filter of step 2 meets it.
type met struct {
	at, pos int
	word    *word
}

// metWords are words in the order in which a filter of step 2 meets them that
// begins at from; those before first were passed on.
type metWords struct {
	words []met
	first int
	t     *text
	from  int
}

func (m *metWords) add(w *word, pos int) {
	one := met{pos + w.known[(pos-m.from)&1], pos, w}
	m.words = append(m.words, one)
	i := len(m.words) - 1
	for ; i > m.first && (m.words[i-1].at > one.at || m.words[i-1].at == one.at && m.words[i-1].word.order > w.order); i-- {
		m.words[i] = m.words[i-1]
	}
	m.words[i] = one
}

// upTo calls keyword with those that are met before a place.
func (m *metWords) upTo(at int) {
	for m.first < len(m.words) && m.words[m.first].at < at {
		one := m.words[m.first]
		m.first++
		m.t.keyword(one.word, one.pos)
	}
	if m.first == len(m.words) || m.first >= 64 {
		m.words = m.words[:copy(m.words, m.words[m.first:])]
		m.first = 0
	}
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
