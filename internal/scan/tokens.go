package scan

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// placeOfWords says where the keywords of a rule are looked for.
type placeOfWords int

const (
	// anywhere: in all of the text.
	anywhere placeOfWords = iota
	// inToken: in tokens of keyedToken bytes, because a match holds the keyword
	// and so many bytes of a token in one piece.
	inToken
	// beforeToken: in tokens of shortToken bytes that hold a digit, and in front
	// of them, because the value is such a token or a part of one.
	beforeToken
)

// The lengths of the shortest tokens in which keywords are looked for. A shorter
// one is looked at where it goes on in the next line.
const (
	shortToken = 15
	keyedToken = 20
)

// reach is how far in front of a token a keyword may end.
const reach = 64

// tokenByte marks the bytes of tokens: letters, digits and _-./:+~^, of which
// nearly every credential consists in one piece.
var tokenByte = func() (in [256]bool) {
	var b [64]byte
	for c := range 256 {
		b[0] = byte(c)
		token, _, _ := tokenBits(&b)
		in[c] = token&1 == 1
	}
	return in
}()

// ofTokens reports whether a sequence matches bytes of tokens only, and with
// padding equals signs.
func (c *classes) ofTokens(seq []elem, padding bool) bool {
	for _, e := range seq {
		for b := range 256 {
			if e.class >= 0 && c.has(e.class, byte(b)) && !tokenByte[b] && !(padding && b == '=') {
				return false
			}
		}
		for _, b := range []byte(e.lit) {
			if !tokenByte[b] {
				return false
			}
		}
		for _, alt := range e.alts {
			if !c.ofTokens(alt, padding) {
				return false
			}
		}
	}
	return true
}

// settle says where the keywords of a rule are looked for, unless its row does.
func (r *rule) settle(c *classes) {
	switch {
	case r.look != nil || r.x == nil || r.place != anywhere:
	case r.within > 0:
		if r.x.least >= shortToken && c.ofTokens(r.x.seq, true) {
			r.place = beforeToken // value asks for a letter and a digit
		}
	default:
		for n := len(r.x.seq); n > 0; n-- {
			if least, _ := bounds(r.x.seq[:n]); least >= keyedToken && (n == len(r.x.seq) || r.x.lead == 0) && c.ofTokens(r.x.seq[:n], false) {
				r.place = inToken
			}
		}
	}
}

// tokenBits says of each of 64 bytes whether it belongs to a token and whether
// it is a digit, by bit; odd has the highest bit of a byte set if one is not
// ASCII, and another bit if one is a control character below the tabulator.
func tokenBits(b *[64]byte) (token, digit, odd uint64) {
	var seen, control uint64
	for rest := b[:]; len(rest) >= 8; rest = rest[8:] {
		x := binary.LittleEndian.Uint64(rest)
		low := x & lowBits
		folded := low | caseBits
		// The highest bit of each sum says that the byte is not below a bound.
		digits := (low + (0x80-'0')*eachByte) &^ (low + (0x80-':')*eachByte)
		joints := (low + (0x80-'-')*eachByte) &^ (low + (0x80-';')*eachByte) // -./ digits :
		letters := (folded + (0x80-'a')*eachByte) &^ (folded + (0x80-'{')*eachByte)
		others := folded + (0x80-'~')*eachByte // ^ _ ~ DEL
		noPlus := (low ^ '+'*eachByte) + lowBits
		token = token>>8 | gather((joints|letters|others|^noPlus)&^x)
		digit = digit>>8 | gather(digits&^x)
		seen |= x
		control |= (x - 9*eachByte) &^ x
	}
	return token, digit, seen&highBits | control&highBits>>1
}

// gather collects the highest bits of eight bytes in the highest byte.
func gather(x uint64) uint64 {
	return x & highBits >> 7 * 0x0102040810204080 & (0xff << 56)
}

// tokens calls look with each token of at least eight bytes, and whether it
// holds a digit. It marks the digits of the text.
func (t *text) tokens(look func(t *text, start, end int, digit bool)) {
	b := t.b
	t.runs.work += len(b)
	if !t.own {
		t.runs.digits = slices.Grow(t.runs.digits[:0], len(b)/64+1)
	}
	var one, two, four, eight uint64 // of the bytes before: the last so many are of tokens
	open, digit := 0, -1             // where the token begins that reaches the next byte, and the last digit
	var tail [64]byte
	var kinds uint64
	for base := 0; base < len(b); base += 64 {
		piece := &tail
		if base+64 <= len(b) {
			piece = (*[64]byte)(b[base:])
		} else {
			for i := copy(tail[:], b[base:]); i < len(tail); i++ {
				tail[i] = ' '
			}
		}
		now, digits, odd := tokenBits(piece)
		kinds |= odd
		if !t.own {
			t.runs.digits = append(t.runs.digits, digits)
		}
		upTo2 := now & (now<<1 | one>>63)
		upTo4 := upTo2 & (upTo2<<2 | two>>62)
		upTo8 := upTo4 & (upTo4<<4 | four>>60)
		ended := (upTo8<<1 | eight>>63) &^ now
		one, two, four, eight = now, upTo2, upTo4, upTo8
		for ; ended != 0; ended &= ended - 1 {
			i := bits.TrailingZeros64(ended)
			start := open
			if gap := ^now & (1<<i - 1); gap != 0 {
				start = base + 64 - bits.LeadingZeros64(gap)
			}
			last := digit
			if d := digits & (1<<i - 1); d != 0 {
				last = base + 63 - bits.LeadingZeros64(d)
			}
			if base+i <= len(b) {
				look(t, start, base+i, last >= start)
			}
		}
		if digits != 0 {
			digit = base + 63 - bits.LeadingZeros64(digits)
		}
		if now != 1<<64-1 {
			open = base + 64 - bits.LeadingZeros64(^now)
		}
	}
	t.shown, t.typed = kinds&highBits == 0, kinds&(highBits>>1) == 0
	if open < len(b) && eight>>63 == 1 {
		look(t, open, len(b), digit >= open)
	}
}

// token looks at the token between two places: for keywords that are in it or
// in front of it, and for what is encoded in it.
func (t *text) token(start, end int, digit bool) {
	long, after := end-start >= shortToken, min(end+3, len(t.b))
	switch {
	case long && digit:
		t.before(start, end)
		t.s.inBoth.scan(t, start, start, after, after)
	case end-start >= keyedToken:
		t.s.inTokens.scan(t, start, start, after, after)
	case lineBreak(t.b, end):
		t.s.inTokens.scan(t, start, start, end, end)
	}
	if long && t.depth < maxDepth {
		t.encodedIn(start, end)
	}
}

// before looks for keywords that begin in front of a token.
func (t *text) before(start, end int) {
	f := t.s.beforeTokens
	f.scan(t, max(0, start-reach-f.longest, t.near-f.longest), t.near, start, min(end, start+f.longest))
	t.near = end
}
