package scan

import (
	"bytes"
	"math/bits"
)

// joinedEscapes is what a finding was decoded from whose pieces were joined and
// then unescaped.
const joinedEscapes = "concat>escape"

// joined puts string literals together that the program would join: "a" + "b",
// also over lines, "a" "b" where white space is enough, and "a""b" where
// nothing is. Only joints inside of a word are followed.
func (t *text) joined() {
	t.runs.joins[t.depth] = t.runs.joins[t.depth][:0]
	for n, upTo := 0, 0; n < len(t.runs.quotes[t.depth]); n++ {
		for marks := t.runs.quotes[t.depth][n]; marks != 0; marks &= marks - 1 {
			p := n<<6 + bits.TrailingZeros64(marks)
			if p >= upTo && (inRun[t.b[p-1]] || t.b[p-1] == '.' || t.b[p-1] == '~') && joint(t.b, p) > 0 {
				upTo = t.join(p)
			}
		}
	}
}

// quotes are the bytes between which literals are written.
const quotes = "\"'`"

// quotesIn counts quotes.
func quotesIn(b []byte) (n int) {
	for _, q := range []byte(quotes) {
		n += bytes.Count(b, []byte{q})
	}
	return n
}

// joint returns the start of the literal that is joined to the one that ends
// with the quote at p; 0 for none.
func joint(b []byte, p int) int {
	i, ops := p+1, 0
	for n := 0; i < len(b) && n < 64; n++ {
		switch c := b[i]; {
		case isSpace(c):
		case c == '+' || c == '.' || c == '&' || c == '~' || c == '\\':
			if ops++; ops > 2 {
				return 0
			}
		case c == '"' || c == '\'' || c == '`':
			if i+1 >= len(b) || !inRun[b[i+1]] && b[i+1] != '.' && b[i+1] != '~' && !isMark(b[i+1]) {
				return 0
			}
			return i + 1
		case (c == 'f' || c == 'r' || c == 'b' || c == 'u') && i+1 < len(b) && (b[i+1] == '"' || b[i+1] == '\''):
		default:
			return 0
		}
		i++
	}
	return 0
}

// join scans the literals that are joined from the one whose end is the quote
// at p, and returns where they end.
func (t *text) join(p int) int {
	start := behind(t.b, p, maxRegion, joins)
	plain := append(t.room(maxJoined+maxRegion), t.b[start:p]...)
	end := p
	for len(plain) < maxJoined {
		next := joint(t.b, end)
		if next == 0 {
			break
		}
		stop := ahead(t.b, next, maxRegion, joins)
		plain = append(plain, t.b[next:stop]...)
		end = stop
		if stop >= len(t.b) || t.b[stop] <= ' ' || t.b[stop] == '<' || t.b[stop] == '>' {
			break
		}
	}
	how, settled := "concat", t.settled(start, end)
	if !t.unescaped && hasEscape(plain) {
		t.runs.joins[t.depth] = append(t.runs.joins[t.depth], [2]int{start, end})
		if how = joinedEscapes; !settled {
			plain = unescaped(plain[:0], plain)
		}
	}
	if !settled {
		t.within(plain, how, start, end)
	}
	return max(end, p+1)
}
