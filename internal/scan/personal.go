package scan

import (
	"bytes"
	"math/bits"
	"slices"
)

// addresses looks for mail addresses, at every @.
func (t *text) addresses() {
	r := t.s.alone[emailRule]
	if r == nil {
		return
	}
	for p := 0; p < len(t.b); p++ {
		n := bytes.IndexByte(t.b[p:], '@')
		if n < 0 {
			return
		}
		p += n
		for p+1 < len(t.b) && t.b[p+1] == '@' {
			p++
		}
		if p > 0 && p+1 < len(t.b) && isWord(t.b[p-1]) && isWord(t.b[p+1]) {
			t.address(r, p, p+1)
		}
	}
}

// address judges one @. Addresses are information only: they are in every
// licence and every changelog.
func (t *text) address(r *rule, pos, end int) {
	from, to := behind(t.b, pos, 64, func(c byte) bool { return isWord(c) || bytes.IndexByte([]byte(".+-%"), c) >= 0 }), end
	dot, labels := -1, 0
	for to < len(t.b) && to-end < 253 && (letter(t.b[to]) || digit(t.b[to]) || t.b[to] == '-' || t.b[to] == '.') {
		if t.b[to] == '.' {
			if to == end || t.b[to-1] == '.' {
				break
			}
			dot = to
			labels++
		}
		to++
	}
	for to > end && (t.b[to-1] == '.' || t.b[to-1] == '-') {
		to--
	}
	if from == pos || dot < 0 || to-dot < 3 || t.b[from] == '.' || digit(t.b[dot+1]) || exampleHost(t.b[end:to]) {
		return
	}
	t.add(r, from, to, from, to, Info)
}

// numbers looks for what has no keyword: the personal numbers, at runs of digits.
func (t *text) numbers() {
	b, from := t.b, 0
	for i := t.nextNumber(0); i < len(b); i = t.nextNumber(from) {
		// The number begins with the first of its groups of digits.
		for i > from && (digit(b[i-1]) || i-1 > from && (b[i-1] == ' ' || b[i-1] == '-') && digit(b[i-2])) {
			i--
		}
		from = t.numberAt(i)
	}
}

// numberAt judges the number that begins at i and returns where the search goes
// on.
func (t *text) numberAt(i int) int {
	b := t.b
	if i >= 2 && upper(b[i-1]) && upper(b[i-2]) && (i == 2 || !isWord(b[i-3])) {
		if end := t.account(i - 2); end > i {
			return end
		}
	}
	if i > 0 && isWord(b[i-1]) {
		return ahead(b, i, len(b), isWord) // the digits of a name
	}
	if end := shortNumber(b, i); end > 0 {
		return end
	}
	n := readNumber(b, i)
	if !n.joined(b) {
		t.number(&n)
	}
	return n.end
}

// numberMarks finds the digits by which numbers show that are looked at: the
// first one of another group, the ninth in a row, one after a sign, and the
// second one after two capitals. The masks are of the bytes before.
type numberMarks struct{ digit, two, four, eight, sign, apart, upper uint64 }

// in sets a bit for each of the next bytes in marks.
func (m *numberMarks) in(read []lanes, marks []uint64) {
	digit, two, four, eight, sign, apart, upper := m.digit, m.two, m.four, m.eight, m.sign, m.apart, m.upper
	for i := range marks {
		l := &read[i]
		d, s, u := l.digits(), l[laneToken]&l[lane1]&l[lane2], l[laneToken]&l[lane2]&^l[lane1]
		a := ^l[laneToken] | s
		upTo2 := d & (d<<1 | digit>>63)
		upTo4 := upTo2 & (upTo2<<2 | two>>62)
		upTo8 := upTo4 & (upTo4<<4 | four>>60)
		group := (d<<2 | digit>>62) & (a<<1 | apart>>63)
		marks[i] = d&(group|upTo8<<1|eight>>63|s<<1|sign>>63) | upTo2&(u<<2|upper>>62)&(u<<3|upper>>61)
		digit, two, four, eight, sign, apart, upper = d, upTo2, upTo4, upTo8, s, a, u
	}
	*m = numberMarks{digit, two, four, eight, sign, apart, upper}
}

// nextNumber is the place of the first marked digit from i; the length of the
// text when there is none.
func (t *text) nextNumber(i int) int {
	for n := i >> 6; n < len(t.runs.numbers); n++ {
		if x := t.runs.numbers[n] >> (i & 63); x != 0 {
			return i + bits.TrailingZeros64(x)
		}
		i = (n + 1) << 6
	}
	return len(t.b)
}

// number is a run of digits, in groups that one space, dash, dot or bracket
// parts.
type number struct {
	start, end int
	digits     int
	count      int  // of groups
	sep        byte // between the groups; 0 for one group, 1 for mixed
	d          [20]byte
	sizes      [8]int
}

// shortNumber is the end of a number that is too short for any of ours and is
// not the first group of a longer one; 0 for others.
func shortNumber(b []byte, i int) int {
	if i > 0 && b[i-1] == '+' {
		return 0
	}
	end := ahead(b, i, 9, digit)
	if end-i < 9 && (end+1 >= len(b) || b[end] != ' ' && b[end] != '-' || b[end+1]-'0' > 9) {
		return end
	}
	return 0
}

func readNumber(b []byte, i int) (n number) {
	n.start = i
	size, group := 0, 0
	for i < len(b) && n.digits < 40 {
		if b[i]-'0' <= 9 {
			if n.digits < len(n.d) {
				n.d[n.digits] = b[i]
			}
			n.digits++
			size++
			i++
			continue
		}
		if (b[i] != '-' && b[i] != ' ') || i+1 >= len(b) || b[i+1]-'0' > 9 || group == len(n.sizes)-1 {
			break
		}
		n.sizes[group] = size
		group, size = group+1, 0
		if n.sep == 0 {
			n.sep = b[i]
		} else if n.sep != b[i] {
			n.sep = 1
		}
		i++
	}
	n.sizes[group] = size
	n.count = group + 1
	n.end = i
	return n
}

// joined reports whether the number is a part of something longer.
func (n *number) joined(b []byte) bool {
	if n.start > 0 {
		if c := b[n.start-1]; isWord(c) || c == '.' || c == '-' || c == '/' {
			return true
		}
	}
	if n.end < len(b) {
		c := b[n.end]
		if isWord(c) || c == '-' || c == '/' || c == '.' && n.end+1 < len(b) && digit(b[n.end+1]) {
			return true
		}
	}
	return false
}

// number judges one.
func (t *text) number(n *number) {
	d := n.d[:min(n.digits, len(n.d))]
	switch {
	case n.digits == 9 && n.sep != 1 && n.count == 3 && n.sizes[0] == 3 && n.sizes[1] == 2:
		if r := t.s.alone[ssnRule]; r != nil && ssnRange(d) && !publicSSN[string(d)] && measured(d[:3]).kinds+measured(d[5:]).kinds > 2 && (n.sep == '-' || near(t.b, n.start, "ssn", "social")) {
			t.add(r, n.start, n.end, n.start, n.end, Likely)
		}
	case n.digits >= 13 && n.digits <= 19 && n.sep != 1 && cardGroups(n.sizes[:n.count], n.digits):
		if r := t.s.alone[cardRule]; r != nil && (n.digits != 13 && n.digits != 19 || near(t.b, n.start, "card", "visa", "pan")) && issuer(d, n.digits) && luhn(d) && measured(d).kinds > 3 && !testCards[string(d)] {
			t.add(r, n.start, n.end, n.start, n.end, Likely)
		}
	case n.digits >= 10 && n.digits <= 15 && n.start > 0 && t.b[n.start-1] == '+' && d[0] != '0':
		bare := n.count == 1 && (n.start == 1 || t.b[n.start-2] == '\n')
		if r := t.s.alone[phoneRule]; r != nil && !bare && (n.start < 2 || !isWord(t.b[n.start-2])) && measured(d).kinds > 3 {
			t.add(r, n.start-1, n.end, n.start-1, n.end, Info)
		}
	case n.digits == 1 || n.digits == 2 || n.digits == 3:
		t.bracketed(n)
	}
}

// bracketed finds a telephone number with its area code in brackets:
// +1 (415) 555-0132.
func (t *text) bracketed(n *number) {
	r := t.s.alone[phoneRule]
	if r == nil || n.start == 0 || t.b[n.start-1] != '+' || !hasPrefixAt(t.b, n.end, " (", false) {
		return
	}
	area := readNumber(t.b, min(n.end+2, len(t.b)))
	if area.digits < 2 || area.digits > 5 || !hasPrefixAt(t.b, area.end, ") ", false) {
		return
	}
	rest := readNumber(t.b, min(area.end+2, len(t.b)))
	if total := n.digits + area.digits + rest.digits; total < 10 || total > 15 || rest.digits < 5 {
		return
	}
	t.add(r, n.start-1, rest.end, n.start-1, rest.end, Info)
}

// publicSSN are numbers that were printed where all could read them.
var publicSSN = map[string]bool{"123456789": true, "078051120": true, "219099999": true, "457555462": true}

// near reports whether one of the words is shortly before pos.
func near(b []byte, pos int, words ...string) bool {
	before := b[max(0, pos-32):pos]
	return slices.ContainsFunc(words, func(w string) bool { return containsFold(before, w) })
}

func upper(c byte) bool { return 'A' <= c && c <= 'Z' }

// account finds an international bank account number that begins at start,
// in one piece or in groups of four, and returns its end.
func (t *text) account(start int) int {
	r := t.s.alone[ibanRule]
	want, ok := ibanLength[string(t.b[start:start+2])]
	if r == nil || !ok {
		return 0
	}
	var buf [34]byte
	v, i := buf[:0], start
	for i < len(t.b) && len(v) < want {
		c := t.b[i]
		switch {
		case digit(c) || upper(c):
			v = append(v, c)
		case c == ' ' && len(v)%4 == 0 && len(v) > 0 && i+1 < len(t.b) && t.b[i+1] != ' ':
		default:
			return 0
		}
		i++
	}
	if len(v) != want || i < len(t.b) && isWord(t.b[i]) || !digit(v[2]) || !digit(v[3]) || measured(v[4:]).kinds < 4 || !mod97(v) {
		return 0
	}
	t.add(r, start, i, start, i, Likely)
	return i
}

// cardGroups reports whether the digits are in one piece or in the groups in
// which cards show them.
func cardGroups(groups []int, digits int) bool {
	if len(groups) == 1 {
		return true
	}
	if len(groups) == 3 && groups[0] == 4 && groups[1] == 6 {
		return digits == 15 || digits == 14
	}
	for i, n := range groups {
		if n != 4 && i < len(groups)-1 {
			return false
		}
	}
	return len(groups) >= 4
}

// issuer reports whether a number begins with a range of an issuer and has its
// length (ISO/IEC 7812 and what the networks publish).
func issuer(d []byte, n int) bool {
	if len(d) < 4 {
		return false
	}
	two, four := int(d[0]-'0')*10+int(d[1]-'0'), 0
	for _, c := range d[:4] {
		four = four*10 + int(c-'0')
	}
	switch {
	case d[0] == '4':
		return n == 16 || n == 13 || n == 19
	case two >= 51 && two <= 55 || four >= 2221 && four <= 2720:
		return n == 16
	case two == 34 || two == 37:
		return n == 15
	case two == 36 || two == 38 || four >= 3000 && four <= 3059:
		return n == 14
	case four == 6011 || two == 65 || four >= 6440 && four <= 6499:
		return n == 16 || n == 19
	case four >= 3528 && four <= 3589:
		return n == 16
	case two == 62:
		return n >= 16
	}
	return false
}

// testCards are the numbers that payment services publish for tests.
var testCards = map[string]bool{
	"4242424242424242": true, "4111111111111111": true, "4012888888881881": true, "5555555555554444": true, "5105105105105100": true,
	"378282246310005": true, "371449635398431": true, "6011111111111117": true, "6011000990139424": true, "30569309025904": true,
	"38520000023237": true, "3530111333300000": true, "3566002020360505": true, "4000056655665556": true, "5200828282828210": true,
	"2223003122003222": true, "4000000000000002": true, "4222222222222": true,
}

// ibanLength is the length of an IBAN by country (ISO 13616 registry).
var ibanLength = map[string]int{
	"AD": 24, "AE": 23, "AL": 28, "AT": 20, "AZ": 28, "BA": 20, "BE": 16, "BG": 22, "BH": 22, "BR": 29, "BY": 28, "CH": 21, "CR": 22, "CY": 28,
	"CZ": 24, "DE": 22, "DK": 18, "DO": 28, "EE": 20, "EG": 29, "ES": 24, "FI": 18, "FO": 18, "FR": 27, "GB": 22, "GE": 22, "GI": 23, "GL": 18,
	"GR": 27, "GT": 28, "HR": 21, "HU": 28, "IE": 22, "IL": 23, "IS": 26, "IT": 27, "JO": 30, "KW": 30, "KZ": 20, "LB": 28, "LI": 21, "LT": 20,
	"LU": 20, "LV": 21, "MC": 27, "MD": 24, "ME": 22, "MK": 19, "MR": 27, "MT": 31, "MU": 30, "NL": 18, "NO": 15, "PK": 24, "PL": 28, "PS": 29,
	"PT": 25, "QA": 29, "RO": 24, "RS": 22, "SA": 24, "SE": 24, "SI": 19, "SK": 24, "SM": 27, "TN": 24, "TR": 26, "UA": 29, "XK": 20,
}
