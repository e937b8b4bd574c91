package scan

import (
	"bytes"
	"encoding/base64"
	"hash/maphash"
)

// verdict is what a value of 8 to 512 bytes looks like, whatever its name is.
type verdict uint8

const (
	unjudged   verdict = iota
	isNothing          // a variable, a placeholder, a word, a part of a program
	isPassword         // it was meant as one
	isRandom           // a generator made it
)

// judged is a verdict that is kept: a text and what is decoded from it hold the
// same values.
type judged struct {
	sum uint64
	verdict
}

// judge is the verdict on a value.
func (t *text) judge(v []byte, quoted bool) verdict {
	sum := maphash.Bytes(t.s.seed, v)
	if quoted {
		sum++
	}
	kept := &t.runs.judged[sum%uint64(len(t.runs.judged))]
	if kept.sum != sum || kept.verdict == unjudged {
		*kept = judged{sum, judgeValue(t.shape(v), v, quoted)}
	}
	return kept.verdict
}

func judgeValue(s *shape, v []byte, quoted bool) verdict {
	is := isNothing
	switch {
	case s.looksRandom(v, quoted):
		is = isRandom
	case s.plausiblePassword(v, quoted):
		is = isPassword
	}
	if is == isNothing || s.holds("${<%#@[") && variable(v) || s.monotonous() || s.kinds < 3 || placeholderSet.in(v[:min(len(v), 256)]) || weakWord(v) || publicKey(v) || mashed(v, s.mixture) || english(v) {
		return isNothing
	}
	return is
}

// shape is what one pass over a value of at most 512 bytes measures.
type shape struct {
	mixture
	count         [256]uint16
	entropy       float64 // as that function has it
	pairs, common int     // as wordy counts them
	same, up      int     // the longest repetition, and the longest row of neighbors
	kinds         int     // different bytes
	length        int
}

// measure fills in a shape. Random values make every branch a guess, so it has
// none that depends on more than a repetition.
func (s *shape) measure(v []byte) {
	*s = shape{same: 1, up: 1, length: len(v)}
	if len(v) == 0 {
		return
	}
	var sum, mixed uint64
	var pairs uint32
	same, up, turns := 1, 1, 0
	last := byteShapes[v[0]]
	last.low ^= 0x80 // neither the same nor a neighbor
	last.letter = noLetter
	for _, c := range v {
		k := s.count[c]
		s.count[c] = k + 1
		sum += logSteps[k%uint16(len(logSteps))]
		b := byteShapes[c]
		mixed += 1 << (b.kind * 16 % 64)
		turn := b.kind ^ last.kind
		turns += int(turn|turn>>1) & 1
		pairs += pairShapes[last.letter%32][b.letter%32]
		if d := b.low - last.low; d > 1 {
			same, up = 1, 1
		} else if d == 0 {
			same, up = same+1, 1
			s.same = max(s.same, same)
		} else {
			same, up = 1, up+1
			s.up = max(s.up, up)
		}
		last = b
	}
	s.mixture = mixture{lower: int(mixed & 0xffff), upper: int(mixed >> 16 & 0xffff), digits: int(mixed >> 32 & 0xffff), other: int(mixed >> 48), turns: turns}
	s.pairs, s.common = int(pairs&0xffff), int(pairs>>16)
	s.kinds = int(sum >> firstShift)
	s.entropy = entropyOf(sum, len(v))
}

// byteShape is what measure asks of a byte.
type byteShape struct {
	low    byte // without its ASCII case
	kind   byte // as in mixKinds
	letter byte // 0 for a; noLetter for other bytes
}

const noLetter = 26

var byteShapes = func() (t [256]byteShape) {
	for i := range t {
		c := byte(i)
		t[i] = byteShape{low: lower(c), kind: mixKinds[c], letter: noLetter}
		if letter(c) {
			t[i].letter = lower(c) - 'a'
		}
	}
	return t
}()

// pairShapes counts, of two letters, in its lower half that they are a pair and
// in its upper half that it is a common one.
var pairShapes = func() (t [32][32]uint32) {
	for a := range pairTable {
		for b, common := range pairTable[a] {
			if t[a][b] = 1; common {
				t[a][b] |= 1 << 16
			}
		}
	}
	return t
}()

// wordy is what the function of that name computes.
func (s *shape) wordy() float64 {
	if s.pairs < 8 {
		return 0 // too few to decide
	}
	return float64(s.common) / float64(s.pairs)
}

// monotonous is what the function of that name computes.
func (s *shape) monotonous() bool {
	return s.same >= 6 || s.up >= 8 || s.length >= 16 && s.kinds <= 5
}

// longestShape is the length of the longest value that a shape describes.
const longestShape = 512

// measured is the shape that was measured last, and of what.
type measured struct {
	shape
	first *byte
	text  uint32
}

// shape is the shape of a part of the text, measured once for those who ask in
// turn; it stays until the next call.
func (t *text) shape(v []byte) *shape {
	m := &t.runs.measured
	if len(v) == 0 || m.first != &v[0] || m.length != len(v) || m.text != t.id {
		m.measure(v)
		if m.text, m.first = t.id, nil; len(v) > 0 {
			m.first = &v[0]
		}
		t.runs.work += len(v)
	}
	return &m.shape
}

// holds reports whether one of the given bytes is in the value.
func (s *shape) holds(any string) bool {
	for _, c := range []byte(any) {
		if s.count[c] > 0 {
			return true
		}
	}
	return false
}

// looksRandom reports whether a generator made the value. Words, names, paths,
// addresses, versions, dates and digests of other things are not.
func (s *shape) looksRandom(v []byte, quoted bool) bool {
	switch {
	case len(v) < 15 || s.digits < 2 || s.lower+s.upper < 4 || !quoted && member(v):
		return false
	case s.other > 0 && s.holds("(){}[]<>|\\,;\"'`"), v[0] == '/', bytes.HasPrefix(v, []byte("./")):
		return false
	case s.count['.'] > 2 || s.count['/'] > 4 || s.count[':'] > 1, s.count[':'] > 0 && bytes.Contains(v, []byte("://")):
		return false
	case s.snakeCase(v):
		return false
	case isUUID(v):
		return true
	}
	if s.lower+s.digits == len(v) || s.upper+s.digits == len(v) {
		if onlyHex(v) {
			return len(v) >= 24 && s.entropy >= 3.0 && s.turns >= len(v)/5
		}
		return s.entropy >= 3.1 && s.turns >= len(v)/6 && s.wordy() < 0.7
	}
	return s.entropy >= 3.5 && s.turns >= len(v)/5 && s.wordy() < 0.65 && s.other <= len(v)/4
}

// looksRandom reports whether a generator made a value whose bounds are known.
func looksRandom(v []byte) bool {
	var s shape
	s.measure(v[:min(len(v), longestShape)])
	return s.looksRandom(v, true)
}

// snakeCase reports whether a value is a name made of short parts.
func (s *shape) snakeCase(v []byte) bool {
	joints := int(s.count['_'] + s.count['-'])
	return joints >= 2 && len(v)/(joints+1) <= 8 && s.upper == 0 && s.digits*4 < len(v) && !isUUID(v)
}

// plausiblePassword reports whether v is meant as a password. Without quotes it
// must not be a name of the program.
func (s *shape) plausiblePassword(v []byte, quoted bool) bool {
	if s.digits == 0 || s.lower+s.upper == 0 || s.other > 0 && s.holds("(){}<>\\") || v[0] == '/' || v[0] == '#' || v[0] == '.' || bytes.HasPrefix(v, []byte("--")) || s.count[':'] > 0 && bytes.Contains(v, []byte("://")) {
		return false
	}
	if !quoted && (member(v) || s.snakeCase(v) || s.other == 0 && s.digits < 2) {
		return false
	}
	return strongPassword(v, s.mixture) && s.entropy >= 2.75 && (s.turns >= 4 || s.wordy() < 0.5 || s.digits >= 4)
}

// member reports whether a value without quotes names a part of something, as
// self.lib.X does.
func member(v []byte) bool {
	dot := bytes.IndexByte(v, '.')
	if dot < 1 {
		return false
	}
	for _, c := range v[:dot] {
		if (c < 'a' || c > 'z') && c != '_' {
			return false
		}
	}
	return true
}

// mashed reports whether a value was typed by hands that rest on the keyboard,
// as in the examples of many pages: most of its letters are of the middle row.
func mashed(v []byte, kind mixture) bool {
	if len(v) > 24 || kind.upper > 0 || kind.lower < 8 || onlyHex(v) {
		return false
	}
	row := 0
	for _, c := range v {
		if bytes.IndexByte([]byte("asdfghjkl"), c) >= 0 {
			row++
		}
	}
	return row*10 >= kind.lower*7
}

// publicKey reports whether a value is a public key in base64: of one of the
// usual algorithms (RFC 5280, SubjectPublicKeyInfo).
func publicKey(v []byte) bool {
	for _, start := range []string{"MFkwEwYHKoZI", "MHYwEAYHKoZI", "MIIBIjANBgkq", "MIICIjANBgkq", "MCowBQYDK2Vw", "MCowBQYDK2Vu"} {
		if bytes.HasPrefix(v, []byte(start)) {
			return true
		}
	}
	return false
}

// english reports whether a value is base64 of a text that people read.
func english(v []byte) bool {
	var plain [512 / 4 * 3]byte
	if len(v)%4 != 0 || len(v) > 512 {
		return false
	}
	if first := base64Value[v[0]]<<2 | base64Value[v[1]]>>4; first < ' ' && !isSpace(first) {
		return false
	}
	n, err := base64.StdEncoding.Decode(plain[:], v)
	return err == nil && n >= 8 && printable(plain[:n]) && bytes.IndexByte(plain[:n], ' ') >= 0
}
