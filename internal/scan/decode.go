package scan

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"unicode/utf8"
)

const (
	maxDepth  = 2        // wrappings taken off, one inside the other
	maxRegion = 4 << 10  // bytes of text around an escape that are decoded together
	maxJoined = 16 << 10 // bytes of a string that is joined from pieces
	minRun    = 24       // base64 characters below which nothing fits
)

// wrapped looks for secrets that do not stand there as they are: encoded,
// escaped, cut into pieces, or with characters in between that show nothing.
// What is taken off is scanned by the rules that need no context.
func (t *text) wrapped() {
	if t.depth >= maxDepth {
		return
	}
	t.encoded()
	t.escaped()
	t.joined()
	t.hidden()
	if !t.spaced {
		t.spread()
	}
}

// within scans what was decoded from t.b[start:end] and keeps what it finds
// under the span of the whole.
func (t *text) within(plain []byte, how string, start, end int) {
	ratio := float64(end-start) / float64(max(1, len(plain)))
	inner := t.inner(plain)
	inner.spaced = inner.spaced || how == "whitespace"
	inner.direct()
	inner.wrapped()
	for _, f := range resolve(inner.found) {
		if f.rule.family == familyInvisible || f.rule.family == familyBinary || f.rule.family == familyFilter || f.rule.family == familyPII || f.rule.confidence == Info {
			continue
		}
		from := how
		if f.from != "" {
			from += ">" + f.from
		}
		t.found = append(t.found, raw{rule: f.rule, start: start, end: end, secret: f.secret, confidence: f.confidence, from: from,
			at: start + int(float64(f.start)*ratio)})
	}
}

// --- base64 and hexadecimal ---

// inRun marks the characters of base64 in both alphabets.
var inRun = func() (in [256]bool) {
	for _, c := range []byte(base62 + "+/-_") {
		in[c] = true
	}
	return in
}()

// encoded decodes runs of base64 and of hexadecimal digits. A run of minRun
// characters cannot be between two looks that are that far apart, so most
// text is not looked at at all.
func (t *text) encoded() {
	b := t.b
	for p := minRun - 1; p < len(b); {
		if !inRun[b[p]] {
			p += minRun
			continue
		}
		start := p
		for start > 0 && p-start < minRun && inRun[b[start-1]] {
			start--
		}
		if p-start < minRun-1 {
			end := p + 1
			for end < len(b) && end-start < minRun && inRun[b[end]] {
				end++
			}
			if end-start < minRun {
				p = end + minRun
				continue
			}
		}
		p = t.encodedRun(start) + minRun
	}
}

// encodedRun decodes the run that begins at start, over its line breaks, and
// returns its end.
func (t *text) encodedRun(start int) int {
	end, joined := t.runOverLines(start)
	chars := t.b[start:end]
	if joined {
		chars = withoutSpace(chars)
	}
	if blob := t.s.blob; blob != nil && !t.own && len(chars) >= blobFrom && isBlob(chars) {
		t.add(blob, start, end, start, start+64, Info)
	}
	if len(chars) >= 40 && onlyHex(chars[:40]) {
		t.hexRun(chars, start, end)
	}
	if kind := mix(chars[:min(len(chars), 64)]); kind.upper == 0 || kind.lower == 0 {
		return end // an identifier, a digest, a path
	}
	// What comes before the first slash or dash may be a path in front of it.
	for _, skip := range []int{0, 1, 2, 3} {
		if len(chars)-skip < minRun || skip > 0 && start > 0 {
			break
		}
		if plain := base64Text(chars[skip:]); plain != nil {
			t.within(plain, "base64", start, padded(t.b, end))
			return end
		}
	}
	if i := bytes.LastIndexAny(chars[:min(len(chars)-minRun, 64)+1], "/-_+"); i >= 0 && len(chars)-i > minRun {
		if plain := base64Text(chars[i+1:]); plain != nil {
			t.within(plain, "base64", start, padded(t.b, end))
		}
	}
	return end
}

// padded is the end of a run with its padding.
func padded(b []byte, end int) int {
	for n := 0; n < 2 && end < len(b) && b[end] == '='; n++ {
		end++
	}
	return end
}

// runOverLines finds the end of a run, going on in the next line where a line
// is long enough to have been wrapped.
func (t *text) runOverLines(start int) (end int, joined bool) {
	b, line := t.b, start
	for end = start; ; {
		for end < len(b) && inRun[b[end]] {
			end++
		}
		next := end
		if end-line < 40 || next >= len(b) || b[next] != '\n' && b[next] != '\r' {
			return end, joined
		}
		for n := 0; next < len(b) && isSpace(b[next]) && n < 24; n++ {
			next++
		}
		n := 0
		for next+n < len(b) && n < 8 && inRun[b[next+n]] {
			n++
		}
		if n < 4 {
			return end, joined
		}
		stop := next
		for stop < len(b) && inRun[b[stop]] {
			stop++
		}
		if stop < len(b) && !isSpace(b[stop]) && b[stop] != '=' && b[stop] != '"' && b[stop] != '\'' && stop-next < 40 {
			return end, joined
		}
		line, end, joined = next, next, true
	}
}

func withoutSpace(b []byte) []byte {
	out := make([]byte, 0, len(b))
	for _, c := range b {
		if !isSpace(c) {
			out = append(out, c)
		}
	}
	return out
}

// base64Text decodes a run that holds text; nil when it does not. The first
// characters are tried alone, so that noise costs little.
func base64Text(chars []byte) []byte {
	std := base64.RawStdEncoding
	for _, c := range chars[:min(len(chars), 4096)] {
		if c == '-' || c == '_' {
			std = base64.RawURLEncoding
			break
		}
	}
	var head [24]byte
	n, err := std.Decode(head[:], chars[:minRun])
	if err != nil || n == 0 || !textual(head[:n]) {
		return nil
	}
	chars = chars[:len(chars)-leftover(len(chars))]
	plain := make([]byte, std.DecodedLen(len(chars)))
	n, err = std.Decode(plain, chars)
	if err != nil && n < minRun/2 {
		return nil
	}
	plain = plain[:n]
	if n > 1 && (plain[1] == 0 || plain[0] == 0) {
		plain = bytes.ReplaceAll(plain, []byte{0}, nil) // UTF-16
	}
	return plain
}

// leftover is what a run has too much to be base64.
func leftover(n int) int {
	if n%4 == 1 {
		return 1
	}
	return 0
}

// textual reports whether decoded bytes look like text, in ASCII or UTF-16.
func textual(b []byte) bool {
	zeros := 0
	for _, c := range b {
		switch {
		case c == 0:
			zeros++
		case c < 0x20 && !isSpace(c) || c >= 0x7f:
			return false
		}
	}
	return zeros == 0 || zeros >= len(b)/2-1
}

// isBlob reports whether a run is encoded bytes rather than words or one
// letter over and over.
func isBlob(chars []byte) bool {
	head := chars[:blobFrom]
	kind := mix(head)
	return kind.digits > 0 && kind.upper > 0 && kind.lower > 0 && wordy(head) < 0.75 && distinct(head) > 20
}

func (t *text) hexRun(chars []byte, start, end int) {
	n := 0
	for n < len(chars) && isHex(chars[n]) {
		n++
	}
	var head [16]byte
	if k, err := hex.Decode(head[:], chars[:32]); err != nil || !textual(head[:k]) {
		return
	}
	plain := make([]byte, n/2)
	k, _ := hex.Decode(plain, chars[:n&^1])
	t.within(plain[:k], "hex", start, end)
}

// --- escapes ---

// escaped decodes percent-encoding, \x and \u escapes, and character
// references, each with the text around it.
func (t *text) escaped() {
	for _, e := range []struct {
		mark byte
		how  string
	}{{'%', "percent"}, {'\\', "escape"}, {'&', "entity"}} {
		t.escapedBy(e.mark, e.how)
	}
}

func (t *text) escapedBy(mark byte, how string) {
	b := t.b
	for p := 0; p < len(b); {
		n := bytes.IndexByte(b[p:], mark)
		if n < 0 {
			return
		}
		p += n
		if _, width := unescape(b[p:]); width == 0 {
			p++
			continue
		}
		start, end := region(b, p)
		plain := make([]byte, 0, end-start)
		for i := start; i < end; {
			if b[i] == mark {
				if c, width := unescape(b[i:end]); width > 0 {
					plain = utf8Append(plain, c)
					i += width
					continue
				}
			}
			plain = append(plain, b[i])
			i++
		}
		t.within(plain, how, start, end)
		p = max(end, p+1)
	}
}

func utf8Append(b []byte, r rune) []byte {
	if r < 0x80 {
		return append(b, byte(r))
	}
	return utf8.AppendRune(b, r)
}

// unescape reads one escape of an ASCII character at the start of b and
// returns its width, 0 for none.
func unescape(b []byte) (rune, int) {
	if len(b) < 3 {
		return 0, 0
	}
	hexAt := func(from, n int) (rune, bool) {
		if len(b) < from+n {
			return 0, false
		}
		v := rune(0)
		for _, c := range b[from : from+n] {
			switch {
			case digit(c):
				v = v<<4 | rune(c-'0')
			case isHex(c):
				v = v<<4 | rune(c|0x20-'a'+10)
			default:
				return 0, false
			}
		}
		return v, v >= 0x20 && v < 0x7f
	}
	switch {
	case b[0] == '%':
		if v, ok := hexAt(1, 2); ok {
			return v, 3
		}
		if hasPrefixAt(b, 1, "25", false) { // encoded twice
			if v, ok := hexAt(3, 2); ok {
				return v, 5
			}
		}
	case b[0] == '\\' && b[1] == 'x':
		if v, ok := hexAt(2, 2); ok {
			return v, 4
		}
	case b[0] == '\\' && b[1] == 'u':
		if v, ok := hexAt(2, 4); ok {
			return v, 6
		}
	case b[0] == '&' && b[1] == '#':
		v, i := rune(0), 2
		for i < len(b) && i < 6 && digit(b[i]) {
			v = v*10 + rune(b[i]-'0')
			i++
		}
		if i > 2 && i < len(b) && b[i] == ';' && v >= 0x20 && v < 0x7f {
			return v, i + 1
		}
		if b[2] == 'x' || b[2] == 'X' {
			if v, ok := hexAt(3, 2); ok && len(b) > 5 && b[5] == ';' {
				return v, 6
			}
		}
	}
	return 0, 0
}

// region is the text without white space and quotes around p.
func region(b []byte, p int) (start, end int) {
	start, end = p, p
	for start > 0 && p-start < maxRegion/2 && !parts(b[start-1]) {
		start--
	}
	for end < len(b) && end-p < maxRegion && !parts(b[end]) {
		end++
	}
	return start, end
}

func parts(c byte) bool { return c <= ' ' || c == '"' || c == '\'' || c == '`' || c == '<' || c == '>' }

// --- pieces ---

// joined puts string literals together that the program would join: "a" + "b",
// also over lines, and "a" "b" where white space is enough. Only joints inside
// of a word are followed.
func (t *text) joined() {
	for _, quote := range []byte{'"', '\'', '`'} {
		for p := 0; p < len(t.b); {
			n := bytes.IndexByte(t.b[p:], quote)
			if n < 0 {
				break
			}
			p += n
			if p == 0 || !inRun[t.b[p-1]] && t.b[p-1] != '.' && t.b[p-1] != '~' {
				p++
				continue
			}
			if next := joint(t.b, p); next > 0 {
				p = t.join(p)
				continue
			}
			p++
		}
	}
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
			if i == p+1 || i+1 >= len(b) || !inRun[b[i+1]] && b[i+1] != '.' && b[i+1] != '~' {
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
	start := p
	for start > 0 && p-start < maxRegion && !parts(t.b[start-1]) {
		start--
	}
	plain := append([]byte(nil), t.b[start:p]...)
	end := p
	for len(plain) < maxJoined {
		next := joint(t.b, end)
		if next == 0 {
			break
		}
		stop := next
		for stop < len(t.b) && stop-next < maxRegion && !parts(t.b[stop]) {
			stop++
		}
		plain = append(plain, t.b[next:stop]...)
		end = stop
		if stop >= len(t.b) || t.b[stop] <= ' ' || t.b[stop] == '<' || t.b[stop] == '>' {
			break
		}
	}
	t.within(plain, "concat", start, end)
	return max(end, p+1)
}

// --- characters that show nothing ---

// hidden takes out characters of no width and scans the words they were in.
func (t *text) hidden() {
	for p := 0; p < len(t.b); {
		n, width := nextHidden(t.b[p:])
		if n < 0 {
			return
		}
		p += n
		start, end := region(t.b, p)
		if p == 0 && width == 3 && t.b[0] == 0xef { // a byte order mark
			p += width
			continue
		}
		plain := make([]byte, 0, end-start)
		for i := start; i < end; {
			if w := hiddenWidth(t.b[i:]); w > 0 {
				i += w
				continue
			}
			plain = append(plain, t.b[i])
			i++
		}
		t.within(plain, "zero_width", start, end)
		p = max(end, p+width)
	}
}

// nextHidden finds the next character of no width.
func nextHidden(b []byte) (at, width int) {
	at = -1
	for _, lead := range []byte{0xe2, 0xef, 0xc2, 0xe1, 0xf3, 0xcd} {
		limit := len(b)
		if at >= 0 {
			limit = at
		}
		for i := 0; i < limit; i++ {
			n := bytes.IndexByte(b[i:limit], lead)
			if n < 0 {
				break
			}
			i += n
			if w := hiddenWidth(b[i:]); w > 0 {
				at, width = i, w
				break
			}
		}
	}
	return at, width
}

// hiddenWidth is the number of bytes of a character at the start of b that
// shows nothing: U+00AD, U+034F, U+180B–E, U+200B–F, U+202A–E, U+2060–F,
// U+FE00–F, U+FEFF, U+E0000–E01EF; 0 for others.
func hiddenWidth(b []byte) int {
	if len(b) < 2 || b[0] < 0xc2 {
		return 0
	}
	r, n := utf8.DecodeRune(b)
	switch {
	case r == 0xad, r == 0x34f, r >= 0x180b && r <= 0x180e, r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e,
		r >= 0x2060 && r <= 0x206f, r >= 0xfe00 && r <= 0xfe0f, r == 0xfeff, r >= 0xe0000 && r <= 0xe01ef:
		return n
	}
	return 0
}

// spread finds words that were written with a blank behind every letter.
func (t *text) spread() {
	b := t.b
	for p := 2; p+6 < len(b); {
		if !(b[p] == ' ' && b[p+2] == ' ' && b[p+4] == ' ' || b[p+1] == ' ' && b[p+3] == ' ' && b[p+5] == ' ') {
			p += 16
			continue
		}
		if b[p] != ' ' {
			p++
		}
		start, end := p, p
		for start >= 2 && b[start-2] == ' ' && b[start-1] > ' ' {
			start -= 2
		}
		for end+2 < len(b) && b[end+2] == ' ' && b[end+1] > ' ' {
			end += 2
		}
		if end-start >= 30 && end-start < maxRegion {
			from, to := max(0, start-1), min(len(b), end+2)
			if from > 0 && b[from-1] > ' ' {
				from += 2 // the end of a word
			}
			if to < len(b) && b[to] > ' ' {
				to -= 2 // the start of one
			}
			plain := make([]byte, 0, (to-from)/2+1)
			for _, c := range b[from:to] {
				if c != ' ' {
					plain = append(plain, c)
				}
			}
			t.within(plain, "whitespace", from, to)
		}
		p = end + 16
	}
}

// overLines tries an expression that did not fit where a line ends again
// over the end of the line.
func (r *rule) overLines(t *text, start int) {
	stop := t.pieceEnd(start)
	if stop-start < 8 || !lineBreak(t.b, stop) {
		return
	}
	inner := t.overBreaks(start)
	whole := inner.b
	defer func() { inner.b = whole }()
	for i, cut := range t.runs.breaks[:t.runs.broken] {
		if i == 0 {
			continue // the first line alone did not fit
		}
		inner.cutAt(whole, cut.at)
		m, ok := r.x.match(inner, 0)
		if !ok || m.end < len(inner.b) && !inner.ends(m.end) {
			continue
		}
		r.report(inner, m, r.grade())
		for _, f := range inner.found {
			if f.confidence == Confirmed {
				t.found = append(t.found, raw{rule: r, start: start, end: cut.end, secret: bytes.Clone(f.secret), confidence: f.confidence, from: "whitespace", at: start})
			}
		}
		inner.found = nil
		return
	}
}

// overBreaks is the text that begins at start with its line breaks taken out;
// where they were stands in breaks. It stays until the next call.
func (t *text) overBreaks(start int) *text {
	m := t.runs
	m.joined.found = nil
	if m.joinAt == start && m.joinOf == t.id {
		return &m.joined
	}
	buf := m.pieces[:0]
	end := start
	m.broken = 0
	for end < len(t.b) && len(buf) < len(m.pieces) {
		c := t.b[end]
		if lineBreak(t.b, end) {
			m.breaks[m.broken] = lineCut{len(buf), end}
			if m.broken++; m.broken == len(m.breaks)-1 {
				break
			}
			for end++; end < len(t.b) && isSpace(t.b[end]); end++ {
			}
			continue
		}
		if ends(c) {
			break
		}
		buf = append(buf, c)
		end++
	}
	m.breaks[m.broken] = lineCut{len(buf), end}
	m.broken++
	m.joined = t.inner(buf)
	m.joined.spaced = true
	m.joinAt, m.joinOf = start, t.id
	return &m.joined
}

// ends reports whether a byte cannot be part of a credential.
func ends(c byte) bool { return c <= ' ' || c == '"' || c == '\'' || c >= 0x80 }

// lineBreak reports whether a line ends at pos, or is continued in the next
// one with a backslash.
func lineBreak(b []byte, pos int) bool {
	if pos < len(b) && b[pos] == '\\' {
		pos++
	}
	return pos < len(b) && (b[pos] == '\n' || b[pos] == '\r')
}

// pieceEnd is where the characters of a credential that go on from start end.
// It is remembered, because many rules ask from the same place.
func (t *text) pieceEnd(start int) int {
	if start >= t.piece[0] && start < t.piece[1] {
		return t.piece[1]
	}
	end := start
	for end < len(t.b) && !ends(t.b[end]) && !lineBreak(t.b, end) {
		end++
	}
	t.piece = [2]int{start, end}
	return end
}
