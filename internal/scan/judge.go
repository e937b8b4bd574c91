package scan

import (
	"bytes"
	"encoding/base64"
	"hash/maphash"
	"math"
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
		*kept = judged{sum, judgeValue(v, quoted)}
		t.runs.work += len(v)
	}
	return kept.verdict
}

func judgeValue(v []byte, quoted bool) verdict {
	var s shape
	s.measure(v)
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

// measure fills in a shape.
func (s *shape) measure(v []byte) {
	var kinds [4]int
	sum, same, up := 0.0, 1, 1
	var last, lastKind byte
	s.same, s.up, s.length = 1, 1, len(v)
	for i, c := range v {
		k := s.count[c]
		s.count[c] = k + 1
		if k == 0 {
			s.kinds++
		}
		sum += logSteps[k&(uint16(len(logSteps))-1)]
		kind, low := mixKinds[c], lower(c)
		kinds[kind&3]++
		if i > 0 {
			if kind != lastKind {
				s.turns++
			}
			switch {
			case low == last:
				same++
				up = 1
			case low == last+1:
				up++
				same = 1
			default:
				same, up = 1, 1
			}
			s.same, s.up = max(s.same, same), max(s.up, up)
			if a, b := last-'a', low-'a'; a < 26 && b < 26 {
				s.pairs++
				if pairTable[a][b] {
					s.common++
				}
			}
		}
		last, lastKind = low, kind
	}
	s.lower, s.upper, s.digits, s.other = kinds[0], kinds[1], kinds[2], kinds[3]
	if len(v) > 0 {
		s.entropy = math.Log2(float64(len(v))) - sum/float64(len(v))
	}
}

// wordy is what the function of that name computes.
func (s *shape) wordy() float64 {
	if s.pairs < 8 {
		return 0 // too few to tell
	}
	return float64(s.common) / float64(s.pairs)
}

// monotonous is what the function of that name computes.
func (s *shape) monotonous() bool {
	return s.same >= 6 || s.up >= 8 || s.length >= 16 && s.kinds <= 5
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
	s.measure(v[:min(len(v), 512)])
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
