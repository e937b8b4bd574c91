package scan

import (
	"bytes"
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
func tokenByte(c byte) bool { return lanesOf(c)>>laneToken&1 == 1 }

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

// The kind of a byte is four bits, one in each lane: whether it may be in a token,
// and three that mean other kinds in a token than outside of one. An odd byte is
// not ASCII, or a control character below the tabulator.
const (
	laneToken = iota
	lane1     // in a token: a digit or a sign; else odd, or a line feed
	lane2     // in a token: a capital or a sign; else a quote, or what continues a line
	lane3     // in a token: a character of base64; else the end of a line, or what continues one
	laneCount
)

// lanesOf is the kind of a byte.
func lanesOf(c byte) int {
	const token = 1 << laneToken
	switch {
	case digit(c):
		return token | 1<<lane1 | 1<<lane3
	case upper(c):
		return token | 1<<lane2 | 1<<lane3
	case isWord(c), c == '/':
		return token | 1<<lane3
	case c == '+', c == '-':
		return token | 1<<lane1 | 1<<lane2 | 1<<lane3
	case c == 0x7f, strings.IndexByte(".:~^", c) >= 0:
		return token
	case c < '\t', c >= 0x80:
		return 1 << lane1
	case strings.IndexByte(quotes, c) >= 0:
		return 1 << lane2
	case c == '\\', c == '=':
		return 1<<lane2 | 1<<lane3
	case c == '\n':
		return 1<<lane1 | 1<<lane3
	case c == '\r':
		return 1 << lane3
	}
	return 0
}

// lanes has, of 64 bytes, a bit for each in each lane.
type lanes [laneCount]uint64

func (l *lanes) digits() uint64   { return l[laneToken] & l[lane1] &^ l[lane2] }
func (l *lanes) newlines() uint64 { return l[lane1] & l[lane3] &^ (l[laneToken] | l[lane2]) }

// run marks the characters of base64, in both alphabets.
func (l *lanes) run() uint64 { return l[laneToken] & l[lane3] }

// byteLanes has, for a byte, the lowest bit of sixteen for each lane that it
// belongs to.
var byteLanes = func() (t [256]uint64) {
	for c := range t {
		for lane := range laneCount {
			t[c] |= uint64(lanesOf(byte(c))>>lane&1) << (16 * lane)
		}
	}
	return t
}()

// lanesPortable sets the lanes of each 64 bytes of b.
func lanesPortable(b []byte, out []lanes) {
	t := &byteLanes
	for n := range out {
		piece, l := (*[64]byte)(b[64*n:]), &out[n]
		for i := 0; i <= 48; i += 16 {
			x := piece[i : i+16]
			in := t[x[0]] | t[x[1]]<<1 | t[x[2]]<<2 | t[x[3]]<<3 | t[x[4]]<<4 | t[x[5]]<<5 | t[x[6]]<<6 | t[x[7]]<<7 |
				t[x[8]]<<8 | t[x[9]]<<9 | t[x[10]]<<10 | t[x[11]]<<11 | t[x[12]]<<12 | t[x[13]]<<13 | t[x[14]]<<14 | t[x[15]]<<15
			l[0] = l[0]>>16 | in<<48
			l[1] = l[1]>>16 | in>>16<<48
			l[2] = l[2]>>16 | in>>32<<48
			l[3] = l[3]>>16 | in>>48<<48
		}
	}
}

// mayBeSpread reports, of 64 bytes, whether something may be in them that was
// written with something between its characters: letters that a blank each parts,
// bytes in hexadecimal of which a blank, colon or equals sign each parts two,
// dumps, and lists of bytes; 0 if not. Of a visible character the first hexadecimal
// digit is one that is no letter.
func mayBeSpread(token, d uint64) uint64 {
	gap, other := ^token, token&^d
	three := gap & (gap >> 2) & (gap >> 4) & (token>>1 | token>>3)
	after := gap & (d >> 1)
	colons := d & (other >> 2)
	return three&(three>>6) | after&(after>>3)&(gap>>6) | after&(d>>3)&(gap>>5|other>>2) | colons&(colons>>3)&(colons>>6)&(colons>>9)
}

// octalRuns marks three digits or three consecutive blanks, which are in
// all that od writes.
func octalRuns(token, d uint64) uint64 {
	gap := ^token
	return d&(d>>1)&(d>>2)&(gap<<1) | gap&(gap>>1)&(gap>>2)&(token>>3)&(gap>>4)
}

// octalAt marks where, of such runs, something may be that od wrote: words of six
// digits, numbers of three digits, or characters in four columns each.
func octalAt(runs, token, d uint64) uint64 {
	gap := ^token
	three := runs & d
	words := three & (d >> 3) & (d >> 4) & (d >> 5) & (gap >> 6)
	bytes := three & (gap >> 3)
	blanks := runs &^ d
	return words&(words>>7) | bytes&(bytes>>4)&(bytes>>8) | blanks&(blanks>>4)&(blanks>>8)
}

// reading is what is known of the bytes that are read at a time, by 64 bytes.
type reading struct {
	lanes  [64]lanes
	places [64]places
	busy   [64]uint8 // the places that must be looked at, in order
	base   int       // where the bytes begin
	open   int       // where the token begins that reaches base
	digit  bool      // whether a digit is in it
	// Of the last bytes that were read: those up to which the last so many are of
	// tokens.
	one, two, four, eight, fifteen uint64
}

// places is what must be looked at in 64 bytes.
type places struct {
	ended  uint64 // the bytes after tokens
	odd    uint64
	spread uint64
	octal  uint64
}

// read sets the lanes of the first bytes of b and returns how many times 64 bytes
// that is. Blanks follow the end of b.
func (r *reading) read(b []byte) int {
	n := min(len(b)/64, len(r.lanes))
	lanesIn(b[:64*n], r.lanes[:n])
	if rest := b[64*n:]; n < len(r.lanes) && len(rest) > 0 {
		tail := [64]byte(blanks)
		copy(tail[:], rest)
		lanesIn(tail[:], r.lanes[n:n+1])
		n++
	}
	return n
}

var blanks = bytes.Repeat([]byte{' '}, 64)

// The methods of reading look at all that was read. No branch of theirs depends on
// the text: most would be mispredicted. Each has few variables, for registers.

// tokens finds the ends of the tokens of at least shortToken bytes and of those of
// at least eight that may go on in the next line, and marks in quotes those after
// tokens.
func (r *reading) tokens(quotes []uint64) {
	one, two, four, eight, fifteen := r.one, r.two, r.four, r.eight, r.fifteen
	for i := range quotes {
		l := &r.lanes[i&63]
		now, in2, in3 := l[laneToken], l[lane2], l[lane3]
		quotes[i] = in2 &^ (now | in3) & (now<<1 | one>>63)
		upTo2 := now & (now<<1 | one>>63)
		upTo4 := upTo2 & (upTo2<<2 | two>>62)
		upTo8 := upTo4 & (upTo4<<4 | four>>60)
		upTo15 := upTo8 & (upTo8<<7 | eight>>57)
		end, on := in3&^(now|in2), in3&^now&in2 // of a line
		short := (upTo8<<1 | eight>>63) & (end | on&(end>>1|1<<63))
		r.places[i&63].ended = (upTo15<<1 | fifteen>>63 | short) &^ now
		one, two, four, eight, fifteen = now, upTo2, upTo4, upTo8, upTo15
	}
	r.one, r.two, r.four, r.eight, r.fifteen = one, two, four, eight, fifteen
}

// marks finds what else must be looked at and lists the busy places.
func (r *reading) marks(n int) []uint8 {
	busy := 0
	for i := range n {
		l, p := &r.lanes[i&63], &r.places[i&63]
		token, d := l[laneToken], l.digits()
		p.odd = l[lane1] &^ (token | l[lane2] | l[lane3])
		p.spread = mayBeSpread(token, d)
		p.octal = octalRuns(token, d)
		r.busy[busy&63] = uint8(i)
		busy -= whether(p.ended | p.odd | p.spread | p.octal)
	}
	return r.busy[:busy]
}

// token is the start of the token that ends with the first i bytes of a place, and
// whether it holds a digit.
func (r *reading) token(n, i int) (start int, digit bool) {
	l, upTo := &r.lanes[n], uint64(1)<<i-1
	gaps, digits := ^l[laneToken]&upTo, l.digits()&upTo
	for ; gaps == 0; gaps, digits = ^r.lanes[n][laneToken], r.lanes[n].digits() {
		digit = digit || digits != 0
		if n--; n < 0 {
			return r.open, digit || r.digit
		}
	}
	i = bits.Len64(gaps)
	return r.base + 64*n + i, digit || digits>>i != 0
}

// mayHoldRun reports whether something may be encoded in a token: so many characters
// of base64 are in a row that they may hold it, or so many that they may be folded
// at the end of a line.
func (t *text) mayHoldRun(start, end int) bool {
	r := &t.runs.reading[t.depth]
	at, n := start-r.base, end-start
	if at < 0 || n > 64 {
		return true
	}
	x := r.lanes[at>>6&63].run() >> (at & 63)
	if at&63+n > 64 {
		x |= r.lanes[(at>>6+1)&63].run() << (64 - at&63)
	}
	x &= 1<<n - 1
	x &= x >> 1
	x &= x >> 2
	x &= x >> 4
	x &= x >> (leastFold - 8)
	return x&(x>>(minRun-1-leastFold)) != 0 || x != 0 && lineBreak(t.b, end)
}

// whether is -1, of which all bits are set, if a bit of x is, else 0.
func whether(x uint64) int { return int(int64(x|-x) >> 63) }

// tokens looks at all of the text, some kilobytes at a time. It calls look with each
// token of at least shortToken bytes and with those of at least eight that may go
// on in the next line, and passes whether they hold a digit. What was spread is
// looked for where it may be. Where numbers may be, and quotes after tokens, are
// marked for later.
func (t *text) tokens(look func(t *text, start, end int, digit bool)) {
	b, m := t.b, t.runs
	m.work += len(b)
	quotes := slices.Grow(m.quotes[t.depth][:0], len(b)/64+1)
	if !t.own {
		m.numbers = slices.Grow(m.numbers[:0], len(b)/64+1)
	}
	t.typed, t.hidden = true, stretch{}
	var marks numberMarks
	r := &m.reading[t.depth]
	r.one, r.two, r.four, r.eight, r.fifteen, r.open, r.digit = 0, 0, 0, 0, 0, 0, false
	for base := 0; base < len(b); base += 64 * len(r.lanes) {
		n := r.read(b[base:])
		r.base = base
		if !t.own {
			m.numbers = m.numbers[:len(m.numbers)+n]
			m.lines.read(b, base, r.lanes[:n])
			marks.in(r.lanes[:n], m.numbers[len(m.numbers)-n:])
		}
		quotes = quotes[:len(quotes)+n]
		r.tokens(quotes[len(quotes)-n:])
		for _, i := range r.marks(n) {
			t.busy(r, int(i), look)
		}
		r.open, r.digit = r.token(n-1, 64)
	}
	m.quotes[t.depth] = quotes
	if r.open < len(b) && r.fifteen>>63 == 1 {
		look(t, r.open, len(b), r.digit)
	}
}

// busy looks at what must be looked at in a place.
func (t *text) busy(r *reading, n int, look func(t *text, start, end int, digit bool)) {
	p, base := &r.places[n], r.base+64*n
	if p.odd != 0 {
		t.odd(base, p.odd)
	}
	for ended := p.ended; ended != 0; ended &= ended - 1 {
		i := bits.TrailingZeros64(ended)
		if start, digit := r.token(n, i); base+i <= len(t.b) {
			look(t, start, base+i, digit)
		}
	}
	if p.spread != 0 && t.depth < maxDepth {
		t.spread(base-32, base+64+32)
	}
	if p.octal != 0 && t.depth < maxDepth && base+64 > t.octalTo {
		if at := octalAt(p.octal, r.lanes[n][laneToken], r.lanes[n].digits()); at != 0 {
			first := base + bits.TrailingZeros64(at)
			t.octalTo = max(t.dump(first), first+1)
		}
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
	if long && t.depth < maxDepth && t.mayHoldRun(start, end) {
		t.encodedIn(start, end)
	}
}
