package scan

import (
	"math/bits"
	"slices"
	"strings"
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

// tokenByte reports whether a byte may be in a token: letters, digits and
// _-./:+~^, of which nearly every credential consists in one piece.
func tokenByte(c byte) bool { return lanes[c]>>laneToken&1 == 1 }

// settle says where the keywords of a rule are looked for, unless its row does.
func (r *rule) settle(c *classes) {
	switch {
	case r.look != nil || r.x == nil || r.place != anywhere:
	case r.within > 0:
		if r.x.least >= shortToken && c.only(r.x.seq, &tokenBytes, &paddedToken) {
			r.place = beforeToken // value asks for a letter and a digit
		}
	default:
		for n := len(r.x.seq); n > 0; n-- {
			if least, _ := bounds(r.x.seq[:n]); least >= keyedToken && (n == len(r.x.seq) || r.x.lead == 0) && c.only(r.x.seq[:n], &tokenBytes, &tokenBytes) {
				r.place = inToken
			}
		}
	}
}

var (
	tokenBytes  = setOf(tokenByte)
	paddedToken = setOf(func(b byte) bool { return tokenByte(b) || b == '=' })
)

// Kinds of bytes, each a lane of sixteen bits for sixteen bytes. A digit is a
// byte of a token that is in the second lane; a byte there that is not of a
// token is odd: not ASCII, or a control character below the tabulator.
const (
	laneToken = 0
	laneDigit = 16
	laneQuote = 32
	laneBreak = 48 // the end of a line
)

// lanes has, for a byte, the lowest bit of each lane that it belongs to.
var lanes = func() (t [256]uint64) {
	for c := range t {
		switch c := byte(c); {
		case digit(c):
			t[c] = 1<<laneToken | 1<<laneDigit
		case isWord(c), c == 0x7f, strings.IndexByte("-./:+~^", c) >= 0:
			t[c] = 1 << laneToken
		case c < '\t', c >= 0x80:
			t[c] = 1 << laneDigit
		case strings.IndexByte(quotes, c) >= 0:
			t[c] = 1 << laneQuote
		case c == '\n', c == '\r':
			t[c] = 1 << laneBreak
		}
	}
	return t
}()

// kinds says of 64 bytes which belong to each kind, by bit.
type kinds struct{ token, digit, odd, quote, end uint64 }

func (k *kinds) of(b *[64]byte) {
	var token, digit, quote, end uint64
	for i := 0; i <= 48; i += 16 {
		x := b[i : i+16]
		in := lanes[x[0]] | lanes[x[1]]<<1 | lanes[x[2]]<<2 | lanes[x[3]]<<3 | lanes[x[4]]<<4 | lanes[x[5]]<<5 | lanes[x[6]]<<6 | lanes[x[7]]<<7 |
			lanes[x[8]]<<8 | lanes[x[9]]<<9 | lanes[x[10]]<<10 | lanes[x[11]]<<11 | lanes[x[12]]<<12 | lanes[x[13]]<<13 | lanes[x[14]]<<14 | lanes[x[15]]<<15
		token = token>>16 | in>>laneToken<<48
		digit = digit>>16 | in>>laneDigit<<48
		quote = quote>>16 | in>>laneQuote<<48
		end = end>>16 | in>>laneBreak<<48
	}
	k.token, k.digit, k.odd, k.quote, k.end = token, digit&token, digit&^token, quote, end
}

// spread reports whether something may be in the bytes that was written with
// something between its characters: letters that a blank each parts, bytes in
// hexadecimal of which a blank, colon or equals sign each parts two, dumps, and
// lists of bytes. Of a visible character the first hexadecimal digit is one that
// is no letter.
func (k *kinds) spread() bool {
	gap, d := ^k.token, k.digit
	other := k.token &^ d
	three := gap & (gap >> 2) & (gap >> 4) & (k.token>>1 | k.token>>3)
	after := gap & (d >> 1)
	colons := d & (other >> 2)
	return three&(three>>6) != 0 ||
		after&(after>>3)&(gap>>6) != 0 ||
		after&(d>>3)&(gap>>5|other>>2) != 0 ||
		colons&(colons>>3)&(colons>>6)&(colons>>9) != 0
}

// octalRuns marks three digits or three consecutive blanks, which are in
// all that od writes.
func (k *kinds) octalRuns() uint64 {
	gap, d := ^k.token, k.digit
	return d&(d>>1)&(d>>2)&(gap<<1) | gap&(gap>>1)&(gap>>2)&(k.token>>3)&(gap>>4)
}

// octal marks where, of such runs, something may be that od wrote: words of six
// digits, numbers of three digits, or characters in four columns each.
func (k *kinds) octal(runs uint64) uint64 {
	gap, d := ^k.token, k.digit
	three := runs & d
	words := three & (d >> 3) & (d >> 4) & (d >> 5) & (gap >> 6)
	bytes := three & (gap >> 3)
	blanks := runs &^ d
	return words&(words>>7) | bytes&(bytes>>4)&(bytes>>8) | blanks&(blanks>>4)&(blanks>>8)
}

// tokens looks at all of the text, 64 bytes at a time. It calls look with each
// token of at least shortToken bytes and with those of at least eight that may go
// on in the next line, because the line ends after them or one byte later, and passes
// whether they hold a digit. What was spread is
// looked for where it may be. Digits, and quotes after tokens, are marked for
// later.
func (t *text) tokens(look func(t *text, start, end int, digit bool)) {
	b, m := t.b, t.runs
	m.work += len(b)
	marks := slices.Grow(m.quotes[t.depth][:0], len(b)/64+1)
	if !t.own {
		m.digits = slices.Grow(m.digits[:0], len(b)/64+1)
	}
	t.typed, t.hidden = true, stretch{}
	var one, two, four, eight, fifteen uint64 // of the bytes before: the last so many are of tokens
	open, digit := 0, -1                      // where the token begins that reaches the next byte, and the last digit
	var tail [64]byte
	var in kinds
	for base := 0; base < len(b); base += 64 {
		piece := &tail
		if base+64 <= len(b) {
			piece = (*[64]byte)(b[base:])
		} else {
			for i := copy(tail[:], b[base:]); i < len(tail); i++ {
				tail[i] = ' '
			}
		}
		in.of(piece)
		if in.odd != 0 {
			t.odd(base, in.odd)
		}
		if !t.own {
			m.digits = append(m.digits, in.digit)
		}
		now := in.token
		marks = append(marks, in.quote&(now<<1|one>>63))
		upTo2 := now & (now<<1 | one>>63)
		upTo4 := upTo2 & (upTo2<<2 | two>>62)
		upTo8 := upTo4 & (upTo4<<4 | four>>60)
		upTo15 := upTo8 & (upTo8<<7 | eight>>57)
		ended := (upTo15<<1|fifteen>>63)&^now | (upTo8<<1|eight>>63)&^now&(in.end|in.end>>1|1<<63)
		one, two, four, eight, fifteen = now, upTo2, upTo4, upTo8, upTo15
		for ; ended != 0; ended &= ended - 1 {
			i := bits.TrailingZeros64(ended)
			start := open
			if gap := ^now & (1<<i - 1); gap != 0 {
				start = base + 64 - bits.LeadingZeros64(gap)
			}
			last := digit
			if d := in.digit & (1<<i - 1); d != 0 {
				last = base + 63 - bits.LeadingZeros64(d)
			}
			if base+i <= len(b) {
				look(t, start, base+i, last >= start)
			}
		}
		if in.digit != 0 {
			digit = base + 63 - bits.LeadingZeros64(in.digit)
		}
		if now != 1<<64-1 {
			open = base + 64 - bits.LeadingZeros64(^now)
		}
		if in.spread() && t.depth < maxDepth {
			t.spread(base-32, base+64+32)
		}
		if runs := in.octalRuns(); runs != 0 && t.depth < maxDepth && base+64 > t.octalTo {
			if at := in.octal(runs); at != 0 {
				p := base + bits.TrailingZeros64(at)
				t.octalTo = max(t.dump(p), p+1)
			}
		}
	}
	m.quotes[t.depth] = marks
	if open < len(b) && fifteen>>63 == 1 {
		look(t, open, len(b), digit >= open)
	}
}

// odd looks at the bytes of a piece that are not ASCII or are control
// characters.
func (t *text) odd(base int, which uint64) {
	for ; which != 0; which &= which - 1 {
		i := base + bits.TrailingZeros64(which)
		switch {
		case t.b[i] < 0x80:
			t.typed = false
		case hiddenWidth(t.b[i:]) > 0:
			if t.hidden.from == t.hidden.to {
				t.hidden.from = i
			}
			t.hidden.to = i + 1
		}
	}
}

// token looks at the token between two places: for keywords that are in it or
// in front of it, and for what is encoded in it.
func (t *text) token(start, end int, digit bool) {
	long := end-start >= shortToken
	switch {
	case long && digit && !t.bare: // before tokens are words only
		f := t.s.beforeTokens
		f.scan(t, max(0, start-reach-f.longest, t.near), start)
		t.near = end + 1
		t.s.inBoth.scan(t, start, end+1)
	case end-start >= keyedToken:
		t.s.inTokens.scan(t, start, end+1)
	case lineBreak(t.b, end):
		t.s.inTokens.scan(t, start, end-2)
	}
	if long && t.depth < maxDepth {
		t.encodedIn(start, end)
	}
}
