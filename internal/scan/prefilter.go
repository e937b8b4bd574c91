package scan

import (
	"encoding/binary"
	"sort"
)

// A prefilter finds every place of a text where one of some hundred keywords
// stands, without regard to ASCII case, in one pass that costs the same on any
// text: each position's three bytes are folded, hashed, and looked up in a
// table, of which a text touches the few lines that its letters lead to. Every keyword is looked up by its
// rarest three bytes, so that ordinary words seldom pass. What passes is
// compared with the keywords of its hash.
type prefilter struct {
	used  [1 << hashBits]uint8  // 1 for a hash that is used
	first [1 << hashBits]uint16 // 1 + its place in slots
	slots []slot                // those of one hash stand together
}

type slot struct {
	word  string // lower case
	off   int    // offset of the three bytes in the word
	id    int
	final bool // the last of its hash
}

const hashBits = 17

const caseBits = 0x2020202020202020

// hash3 is the hash of the three low bytes: the factor shifts the fourth out.
func hash3(x uint32) uint32 { return x * (0x9E3779B1 << 8 & 0xffffffff) >> (32 - hashBits) }

// newPrefilter prepares words, whose indexes are reported; each has at least
// three bytes.
func newPrefilter(words []string) *prefilter {
	p := &prefilter{}
	byHash := map[uint32][]slot{}
	for id, w := range words {
		folded := make([]byte, len(w))
		for i := range len(w) {
			folded[i] = lower(w[i])
		}
		at := rarest(string(folded))
		h := hash3(three(folded[at:]) | 0x202020)
		byHash[h] = append(byHash[h], slot{word: string(folded), off: at, id: id})
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

func three(b []byte) uint32 { return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 }

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

// rarest is the offset of the three bytes of a word that are met least.
func rarest(w string) int {
	best, at := -1, 0
	for i := 0; i+3 <= len(w); i++ {
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

// each calls found with the index of the word and its place, for every word
// that begins in b.
func (p *prefilter) each(b []byte, found func(id, pos int)) {
	used := &p.used
	i := 0
	for ; i+8 <= len(b); i += 6 {
		x := binary.LittleEndian.Uint64(b[i:]) | caseBits
		h0, h1, h2 := hash3(uint32(x)), hash3(uint32(x>>8)), hash3(uint32(x>>16))
		h3, h4, h5 := hash3(uint32(x>>24)), hash3(uint32(x>>32)), hash3(uint32(x>>40))
		if used[h0]|used[h1]|used[h2]|used[h3]|used[h4]|used[h5] == 0 {
			continue
		}
		for k := range 6 {
			if h := hash3(uint32(x >> (8 * k))); used[h] != 0 {
				p.compare(b, i+k, h, found)
			}
		}
	}
	for ; i+3 <= len(b); i++ {
		if h := hash3(three(b[i:]) | 0x202020); used[h] != 0 {
			p.compare(b, i, h, found)
		}
	}
}

func (p *prefilter) compare(b []byte, i int, h uint32, found func(id, pos int)) {
	for n := int(p.first[h]) - 1; ; n++ {
		s := &p.slots[n]
		if s.at(b, i-s.off) {
			found(s.id, i-s.off)
		}
		if s.final {
			return
		}
	}
}

// at reports whether the word stands at pos, without regard to ASCII case.
func (s *slot) at(b []byte, pos int) bool {
	if pos < 0 || len(b)-pos < len(s.word) {
		return false
	}
	for i, c := range b[pos : pos+len(s.word)] {
		if lower(c) != s.word[i] {
			return false
		}
	}
	return true
}
