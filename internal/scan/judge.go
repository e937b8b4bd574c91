package scan

import (
	"bytes"
	"encoding/base64"
	"hash/maphash"
	"slices"
)

// verdict is what a value of 8 to 512 bytes looks like, whatever its name is.
type verdict uint8

const (
	unjudged   verdict = iota
	isNothing          // a variable, a placeholder, a word, a part of a program
	isPassword         // it was meant as one
	isRandom           // a generator made it
)

// judge is the verdict on a value.
func (t *text) judge(v []byte, quoted bool) verdict {
	f, n := t.facts(v), 0
	if quoted {
		n = 1
	}
	if f.verdicts[n] == unjudged {
		f.verdicts[n] = f.judge(v, quoted)
	}
	return f.verdicts[n]
}

func (f *facts) judge(v []byte, quoted bool) verdict {
	s, is := &f.shape, isNothing
	switch {
	case s.looksRandom(v, quoted):
		is = isRandom
	case s.plausiblePassword(v, quoted):
		is = isPassword
	}
	if is == isNothing || s.marks&markVariable != 0 && variable(v) || s.monotonous() || s.kinds < 3 || f.standsIn(v) || weakWord(v) || publicKey(v) || s.mashed(v) || english(v) {
		return isNothing
	}
	return is
}

// shape is what one pass over a value measures.
type shape struct {
	lower, upper, digits, other int
	turns                       int     // changes between these kinds
	entropy                     float64 // bits per byte
	pairs, common               int     // neighboring letters, and those of them that are common in words
	same, up                    int     // the longest repetition, and the longest row of neighbors
	kinds                       int     // different bytes
	length                      int
	dots, slashes, colons       int
	bars, dashes                int
	marks                       byte // which of the marks below are in it
}

// Marks of characters that a shape distinguishes.
const (
	markVariable = 1 << iota // of variables and templates
	markBracket              // of programs
	markSign                 // other signs of programs
)

var (
	inVariable = "${<%#@["
	inBracket  = "(){}<>\\"
	inSign     = "[]|,;\"'`"
)

// measure fills in a shape, which is zero, with one step for each byte and what precedes it:
// random values make every branch a guess. The counts are zero before and after; no
// byte occurs more often than they can hold.
func (s *shape) measure(v []byte, count *[256]uint16) {
	s.same, s.up, s.length = 1, 1, len(v)
	if len(v) == 0 {
		return
	}
	same, up := 1, 1
	last := stepCodes[v[0]]
	steps := stepSums[stepTable[last<<6|last]&stepKind]
	count[v[0]]++
	sum := logSteps[0]
	for from := 1; ; from += longestShape {
		piece, before := v[from:min(len(v), from+longestShape)], v[from-1:]
		for i, c := range piece {
			k := count[c]
			count[c] = k + 1
			if int(k) < len(logSteps) {
				sum += logSteps[k]
			} else {
				sum += logStep(int(k))
			}
			code := stepCodes[c]
			step := stepTable[last<<6&0xfff|code]
			last = code
			steps += stepSums[step%uint8(len(stepSums))]
			if step&(stepSame|stepNext) == 0 {
				same, up = 1, 1
				continue
			}
			switch d := lower(c) - lower(before[i]); d { // some signs share a code
			case 0:
				same, up = same+1, 1
				s.same = max(s.same, same)
			case 1:
				same, up = 1, up+1
				s.up = max(s.up, up)
			default:
				same, up = 1, 1
			}
		}
		s.add(steps)
		if steps = 0; from+longestShape >= len(v) {
			break
		}
	}
	s.other = len(v) - s.lower - s.upper - s.digits
	s.kinds = int(sum >> firstShift)
	s.entropy = entropyOf(sum, len(v))
	if s.other > 0 {
		s.signs(count)
	}
	clear(count[:])
}

// add counts the steps of a piece.
func (s *shape) add(steps uint64) {
	lane := func(n int) int { return int(steps >> (n * stepLane) & (1<<stepLane - 1)) }
	s.lower, s.upper, s.digits, s.turns = s.lower+lane(0), s.upper+lane(1), s.digits+lane(2), s.turns+lane(3)
	s.pairs, s.common = s.pairs+lane(4), s.common+lane(5)
}

// measured is the shape of a value that no rule asks for again.
func measured(v []byte) (s shape) {
	var count [256]uint16
	s.measure(v, &count)
	return s
}

// signs counts those that a shape distinguishes.
func (s *shape) signs(count *[256]uint16) {
	s.dots, s.slashes, s.colons, s.bars, s.dashes = int(count['.']), int(count['/']), int(count[':']), int(count['_']), int(count['-'])
	for n, in := range [...]string{inVariable, inBracket, inSign} {
		for _, c := range []byte(in) {
			if count[c] > 0 {
				s.marks |= 1 << n
			}
		}
	}
}

// A step is what measure asks of two neighboring bytes: the kind of the second
// one as in mixKinds, whether the first is of another kind, whether both are letters,
// and a common pair of them, and whether the second is the same or the next one, without
// regard to ASCII case.
const (
	stepKind   = 3
	stepTurn   = 1 << 2
	stepPair   = 1 << 3
	stepCommon = 1 << 4
	stepSame   = 1 << 5
	stepNext   = 1 << 6
	stepLane   = 10 // bits for each sum of a piece of longestShape bytes
)

// stepCodes number letters and digits; other bytes share the last two codes, by
// turns.
var stepCodes = func() (t [256]uint16) {
	n := uint16(0)
	for c := range t {
		switch t[c] = 62 | uint16(c&1); {
		case letter(byte(c)) || digit(byte(c)):
			t[c] = n
			n++
		}
	}
	return t
}()

var stepTable = func() (t [64 << 6]uint8) {
	for a := range 0x80 { // the others are as those below '0'
		for b := range 0x80 {
			a, b := byte(a), byte(b)
			step := mixKinds[b]
			if mixKinds[a] != mixKinds[b] {
				step |= stepTurn
			}
			if letter(a) && letter(b) {
				step |= stepPair
				if pairTable[lower(a)-'a'][lower(b)-'a'] {
					step |= stepCommon
				}
			}
			switch lower(b) - lower(a) {
			case 0:
				step |= stepSame
			case 1:
				step |= stepNext
			}
			t[stepCodes[a]<<6|stepCodes[b]] |= step
		}
	}
	return t
}()

// stepSums has a lane for each sum: lower case, upper case, digits, turns, pairs,
// common pairs.
var stepSums = func() (t [128]uint64) {
	for step := range t {
		if kind := step & stepKind; kind < stepKind {
			t[step] |= 1 << (kind * stepLane)
		}
		for n, bit := range []int{stepTurn, stepPair, stepCommon} {
			if step&bit != 0 {
				t[step] |= 1 << ((3 + n) * stepLane)
			}
		}
	}
	return t
}()

// wordy is the share of neighboring letters that are common in words: of random
// letters a third are, of words nearly all.
func (s *shape) wordy() float64 {
	if s.pairs < 8 {
		return 0 // too few to decide
	}
	return float64(s.common) / float64(s.pairs)
}

// monotonous reports whether a value consists of long repetitions or of counting,
// which no random value does.
func (s *shape) monotonous() bool {
	return s.same >= 6 || s.up >= 8 || s.length >= 16 && s.kinds <= 5
}

// longestShape is the length of the longest value of which facts are kept.
const longestShape = 512

// facts is what is known about a value, for all rules that ask: a text and what
// is decoded from it hold the same values.
type facts struct {
	sum uint64 // of the value; 0 for none
	shape
	verdicts              [2]verdict // without quotes, and in quotes
	asksStands, asksTold  bool       // whether the next two are known
	standsInPlace, isTold bool
}

// factMemory holds the facts of some values, by a part of their sums.
type factMemory struct {
	of    [64]facts
	count [256]uint16
	// The value that was asked for last, and in which text.
	first *byte
	size  int
	text  uint32
	last  *facts
}

// facts are those of a value of at most longestShape bytes; they stay until the
// next call.
func (t *text) facts(v []byte) *facts {
	m := &t.runs.facts
	if len(v) > 0 && m.first == &v[0] && m.size == len(v) && m.text == t.id {
		return m.last
	}
	sum := maphash.Bytes(t.s.seed, v) | 1
	f := &m.of[sum>>1%uint64(len(m.of))]
	if f.sum != sum {
		*f = facts{sum: sum}
		f.measure(v, &m.count)
		t.runs.work += len(v)
	}
	if m.first, m.size, m.text, m.last = nil, len(v), t.id, f; len(v) > 0 {
		m.first = &v[0]
	}
	return f
}

// standsIn reports whether a part of the value is one of a placeholder.
func (f *facts) standsIn(v []byte) bool {
	if !f.asksStands {
		f.asksStands, f.standsInPlace = true, placeholderSet.in(v[:min(len(v), 256)])
	}
	return f.standsInPlace
}

// published is what the function of that name says of the value.
func (f *facts) published(v []byte) bool {
	if !f.asksTold {
		f.asksTold, f.isTold = true, published(v)
	}
	return f.isTold
}

// looksRandom reports whether a generator made the value. Words, names, paths,
// addresses, versions, dates and digests of other things are not.
func (s *shape) looksRandom(v []byte, quoted bool) bool {
	switch {
	case len(v) < 15 || s.digits < 2 || s.lower+s.upper < 4 || !quoted && member(v):
		return false
	case s.marks&(markBracket|markSign) != 0, v[0] == '/', bytes.HasPrefix(v, []byte("./")):
		return false
	case s.dots > 2 || s.slashes > 4 || s.colons > 1, s.colons > 0 && bytes.Contains(v, []byte("://")):
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

// snakeCase reports whether a value is a name made of short parts.
func (s *shape) snakeCase(v []byte) bool {
	joints := s.bars + s.dashes
	return joints >= 2 && len(v)/(joints+1) <= 8 && s.upper == 0 && s.digits*4 < len(v) && !isUUID(v)
}

// plausiblePassword reports whether v is meant as a password. Without quotes it
// must not be a name of the program.
func (s *shape) plausiblePassword(v []byte, quoted bool) bool {
	if s.digits == 0 || s.lower+s.upper == 0 || s.marks&markBracket != 0 || v[0] == '/' || v[0] == '#' || v[0] == '.' || bytes.HasPrefix(v, []byte("--")) || s.colons > 0 && bytes.Contains(v, []byte("://")) {
		return false
	}
	if !quoted && (member(v) || s.snakeCase(v) || s.other == 0 && s.digits < 2) {
		return false
	}
	return s.strongPassword() && s.entropy >= 2.75 && (s.turns >= 4 || s.wordy() < 0.5 || s.digits >= 4)
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
func (s *shape) mashed(v []byte) bool {
	if len(v) > 24 || s.upper > 0 || s.lower < 8 || onlyHex(v) {
		return false
	}
	row := 0
	for _, c := range v {
		if bytes.IndexByte([]byte("asdfghjkl"), c) >= 0 {
			row++
		}
	}
	return row*10 >= s.lower*7
}

// publicKey reports whether a value is a public key in base64: of one of the
// usual algorithms (RFC 5280, SubjectPublicKeyInfo).
func publicKey(v []byte) bool {
	starts := []string{"MFkwEwYHKoZI", "MHYwEAYHKoZI", "MIIBIjANBgkq", "MIICIjANBgkq", "MCowBQYDK2Vw", "MCowBQYDK2Vu"}
	return slices.ContainsFunc(starts, func(start string) bool { return bytes.HasPrefix(v, []byte(start)) })
}

// english reports whether a value is base64 of a text that people read.
func english(v []byte) bool {
	var plain [512 / 4 * 3]byte
	if len(v)%4 != 0 || len(v) > 512 {
		return false
	}
	for i := 0; i+8 <= len(v); i += 4 { // padding is in the last four only
		a, b, c, d := base64Value[v[i]], base64Value[v[i+1]], base64Value[v[i+2]], base64Value[v[i+3]]
		if control[a<<2|b>>4] || control[b<<4|c>>2] || control[c<<6|d] {
			return false
		}
	}
	n, err := base64.StdEncoding.Decode(plain[:], v)
	return err == nil && n >= 8 && printable(plain[:n]) && bytes.IndexByte(plain[:n], ' ') >= 0
}

// control marks the bytes that are in no text.
var control = bytesThat(func(c byte) bool { return c < 0x80 && !visible(c) })
