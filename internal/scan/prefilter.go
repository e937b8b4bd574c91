package scan

import (
	"encoding/binary"
	"sort"
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
	longest int                   // length of the longest word
	used    [1 << hashBits]uint8  // 1 for a hash that is used
	first   [1 << hashBits]uint16 // 1 + its place in slots
	slots   []slot                // those of one hash are next to each other
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
	word  *word
	head  uint64 // the first bytes of the word, with caseBits
	mask  uint64 // of head
	off   int    // offset of the three bytes in the word
	final bool   // the last of its hash
}

func newSlot(w *word, off int) slot {
	var head [8]byte
	n := copy(head[:], w.text)
	mask := uint64(1)<<(8*n-1)<<1 - 1
	return slot{word: w, off: off, mask: mask, head: (binary.LittleEndian.Uint64(head[:]) | caseBits) & mask}
}

// at reports whether the word is at pos of b.
func (s *slot) at(b []byte, pos int) bool {
	if pos+8 <= len(b) && (binary.LittleEndian.Uint64(b[pos:])|caseBits)&s.mask != s.head {
		return false
	}
	return hasPrefixAt(b, pos, s.word.text, true)
}

const hashBits = 17

const caseBits = 0x2020202020202020

// hash3 is the hash of the three low bytes: the factor shifts the fourth out.
func hash3(x uint32) uint32 { return x * (0x9E3779B1 << 8 & 0xffffffff) >> (32 - hashBits) }

func three(b []byte) uint32 { return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 }

// newPrefilter prepares words, each of at least three bytes.
func newPrefilter(step int, words []word) *prefilter {
	p := &prefilter{step: step, words: words}
	byHash := map[uint32][]slot{}
	for i := range words {
		w := &words[i]
		p.longest = max(p.longest, len(w.text))
		for offset := range step {
			at := rarest(w.text, offset, step)
			if at+3 <= len(w.text) {
				h := hash3(three([]byte(w.text[at:])) | 0x202020)
				byHash[h] = append(byHash[h], newSlot(w, at))
				continue
			}
			for c := range 0x80 { // whatever comes after its last two bytes
				if h := hash3(uint32(w.text[at]) | uint32(w.text[at+1])<<8 | uint32(c)<<16 | 0x202020); c == c|0x20 {
					byHash[h] = append(byHash[h], newSlot(w, at))
				}
			}
		}
	}
	hashes := make([]uint32, 0, len(byHash))
	for h := range byHash {
		hashes = append(hashes, h)
	}
	sort.Slice(hashes, func(i, j int) bool { return hashes[i] < hashes[j] })
	for _, h := range hashes {
		p.used[h] = 1
		p.first[h] = uint16(len(p.slots) + 1)
		p.slots = append(p.slots, byHash[h]...)
		p.slots[len(p.slots)-1].final = true
	}
	return p
}

// letterShare is how often a letter is met in English text and source code,
// in parts of a thousand, a to z.
var letterShare = [26]int{80, 15, 32, 38, 120, 22, 20, 40, 72, 3, 8, 42, 28, 70, 75, 24, 2, 66, 65, 90, 29, 10, 16, 4, 17, 2}

// ordinary is text whose every three bytes are met often; a keyword is not
// looked up by three bytes that share their hash with some of them.
const ordinary = `// The function returns an error when there is no such file, and the other value that was set before with this
	if err != nil { return nil, fmt.Errorf("could not read the string: %w", err) } // for each of these it is the same as in that case
	for i := range len(data) { result = append(result, item.name) }; const default = true, false; type interface struct int64 uint32 byte
def __init__(self, *args, **kwargs): self.value = None import os from sys import path class Node(object): else: try: except Exception as
function(module, exports, require) { var options = this.options || {}; let element = document.createElement("div"); } copyright license version
  "name": "package", "description": "text content", www.com/user/lib/include/share/doc org.html http static void public private --- === ***
	which have been their would about could than them then will can not but you all are from one our out his her she they were more been has had
	conversion alternative information complete number support system program distribution software permission warranties conditions character
	writer api, an app, reader apply; line channel loads local code apis; other stable table iterator enable variable; limit minimal examine siliconflow
	aaaa 0000 1111 ffff xxxx .... //// step, steam, look, looked, looking, shown, should, geometry, codes, encoder exact expr, client, patch pattern, credit, facing, space, filter finder
	primary private keyboard keyword token section sector second record vector active native relative positive secretary access success address process`

var ordinaryHash = func() map[uint32]bool {
	seen := map[uint32]bool{}
	for i := range len(ordinary) - 2 {
		seen[hash3(three([]byte(ordinary[i:i+3]))|0x202020)] = true
	}
	return seen
}()

// rarest is the offset of the three bytes of a word that are met least, of
// those at an offset and in steps after it; the offset itself when the word is
// too short for three bytes there.
func rarest(w string, offset, step int) int {
	best, at := -1, offset
	for i := offset; i+3 <= len(w); i += step {
		share := 1
		for _, c := range []byte(w[i : i+3]) {
			switch {
			case 'a' <= c && c <= 'z':
				share *= letterShare[c-'a']
			case c == ' ' || c == '_' || c == '-' || c == '/' || c == '"' || c == '=':
				share *= 30
			default:
				share *= 4
			}
		}
		if ordinaryHash[hash3(three([]byte(w[i:i+3]))|0x202020)] {
			share *= 1000
		}
		if best < 0 || share < best {
			best, at = share, i
		}
	}
	return at
}

// scan looks at every word of the filter that is in the text from from to to,
// begins before limit and ends after done.
func (p *prefilter) scan(t *text, from, done, limit, to int) {
	t.runs.work += to - from
	used, b := &p.used, t.b[:to]
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
					p.compare(t, from, done, limit, to, i+k, h)
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
					p.compare(t, from, done, limit, to, i+k, h)
				}
			}
		}
	}
	for ; i+3 <= len(b); i += p.step {
		if h := hash3(three(b[i:]) | 0x202020); used[h] != 0 {
			p.compare(t, from, done, limit, to, i, h)
		}
	}
	if p.step == 2 && i+2 == len(b) { // the end of a word of three bytes
		if h := hash3(uint32(b[i]) | uint32(b[i+1])<<8 | 0x202020); used[h] != 0 {
			p.compare(t, from, done, limit, to, i, h)
		}
	}
}

// compare looks at the words with a hash, which was found at i.
func (p *prefilter) compare(t *text, from, done, limit, to, i int, h uint32) {
	for n := int(p.first[h]) - 1; ; n++ {
		s := &p.slots[n]
		if pos := i - s.off; pos >= from && pos < limit && pos+len(s.word.text) > done && s.at(t.b[:to], pos) {
			t.keyword(s.word, pos)
		}
		if s.final {
			return
		}
	}
}
