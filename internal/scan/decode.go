package scan

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"slices"
	"unicode/utf8"
)

const (
	maxDepth   = 3        // wrappings taken off, one inside the other
	maxRegion  = 4 << 10  // bytes of text around an escape that are decoded together
	maxJoined  = 16 << 10 // bytes of a string that is joined from pieces
	shortest   = 16       // bytes below which what was decoded holds no secret
	minRun     = 24       // base64 characters below which nothing fits
	maxPlain   = 4        // bytes decoded for each byte of the text, all in all
	leastPlain = 4 << 10  // bytes, and the share of the text in bytes, that all rules look at whatever that costs
	leastShare = 16
	// packedShare is how many times the text comes out of archives at most, so that
	// they leave something to what else is encoded.
	packedShare = 3
	lookCost    = 256 // bytes that a rule counts whose keyword is in what was decoded
)

// wrapped looks for secrets that are not there as they are: encoded,
// escaped, cut into pieces, or with hidden characters in between. What is taken
// off is scanned by the rules that need no context. Text that was unescaped or
// joined is not unescaped or joined again.
func (t *text) wrapped() {
	if t.depth >= maxDepth {
		return
	}
	t.runs.work += len(t.b)
	t.whole = true
	if !t.literals {
		t.joined()
	}
	if !t.unescaped {
		t.escaped()
	}
	if !t.typed {
		t.wide()
		t.archived()
	}
}

// note keeps, in order, where the text itself holds confirmed findings.
func (t *text) note() {
	m := t.runs
	m.keys = m.keys[:0]
	for i := range t.found {
		if f := &t.found[i]; f.confidence == Confirmed && f.from == "" {
			m.keys = append(m.keys, uint64(f.start)<<40|uint64(f.end))
		}
	}
	sure := m.sure[t.depth][:0]
	for _, k := range m.sortKeys(len(t.b)) {
		sure = append(sure, stretch{int(k >> 40), int(k & (1<<40 - 1))})
	}
	m.sure[t.depth], t.noted = sure, true
}

// settled reports whether the text itself holds a confirmed finding between two
// places. It is preferred to all that is decoded from there (see resolve), which
// need not be looked at then.
func (t *text) settled(start, end int) bool {
	if !t.whole {
		return false
	}
	if !t.noted {
		t.note()
	}
	sure := t.runs.sure[t.depth]
	n, _ := slices.BinarySearchFunc(sure, start, func(s stretch, start int) int { return cmp.Compare(s.from, start) })
	return n < len(sure) && sure[n].to <= end
}

// within scans what was decoded from t.b[start:end] and keeps what it finds
// under the span of the whole.
func (t *text) within(plain []byte, how string, start, end int) {
	if t.settled(start, end) {
		return
	}
	t.runs.work += end - start
	ratio := float64(end-start) / float64(max(1, len(plain)))
	first := len(t.found)
	t.decoded(plain, how, func(int, int) (int, int) { return start, end })
	for i := first; i < len(t.found); i++ {
		t.found[i].at = start + int(float64(t.found[i].at)*ratio)
	}
}

// decoded scans plain and keeps what it finds under the span that place returns
// of one in plain. Where a finding begins in plain is left in at. What would
// exceed the bytes that are decoded of a text is passed over.
func (t *text) decoded(plain []byte, how string, place func(from, to int) (start, end int)) {
	packed := t.packed || how == "gzip" || how == "zip" || how == "base64>gzip" || how == "base64>zip"
	if len(plain) < shortest {
		return
	}
	bare, ok := t.runs.afford(len(plain), packed)
	if !ok {
		return
	}
	inner := &t.runs.inner[t.depth]
	kept := inner.found[:0]
	*inner = t.inner(plain)
	inner.found = kept
	inner.packed, inner.bare = packed, t.bare || bare
	switch how {
	case "whitespace":
		inner.spaced = true
	case "concat", joinedEscapes:
		inner.literals, inner.unescaped = true, true
	case escapeNames[0], escapeNames[1], escapeNames[2], escapeNames[3]:
		inner.unescaped, inner.literals = true, t.literals || !t.revealed
	}
	inner.direct()
	inner.wrapped()
	inner.resolve()
	for _, f := range inner.found {
		if f.rule.family == familyInvisible || f.rule.family == familyBinary || f.rule.family == familyFilter || f.rule.family == familyPII || f.rule.confidence == Info {
			continue
		}
		from := how
		if f.from != "" {
			from += ">" + f.from
		}
		start, end := place(f.start, f.end)
		t.keep(raw{rule: f.rule, start: start, end: end, secret: bytes.Clone(f.secret), confidence: f.confidence, from: from, at: f.start})
	}
}

// room is memory for n bytes that are decoded from this text. It is used again
// for the next ones: what is found in them is copied.
func (t *text) room(n int) []byte {
	keep := &t.runs.plain[min(t.depth, maxDepth-1)]
	if cap(*keep) < n {
		*keep = make([]byte, 0, n+n/4)
	}
	return (*keep)[:0]
}

// --- base64 and hexadecimal ---

// inRun marks the characters of base64 in both alphabets.
var inRun = bytesThat(func(c byte) bool { return isWord(c) || c == '+' || c == '/' || c == '-' })

// encodedAt decodes the run of base64 or of hexadecimal digits that the eight
// bytes at p belong to, if it is long enough to hold anything, and returns where
// it ends.
func (t *text) encodedAt(p int) int {
	b := t.b
	start, end := p, p+8
	for start > 0 && p-start < minRun && inRun[b[start-1]] {
		start--
	}
	for end < len(b) && end-start < minRun && inRun[b[end]] {
		end++
	}
	if end-start < leastFold || end-start < minRun && foldedAt(b, start) == 0 {
		if end-start == minRun-1 && end < len(b) && b[end] == '.' {
			t.discord(end)
		}
		return end
	}
	return t.encodedRun(start)
}

// leastFold is the length of the shortest lines that are taken as encoded data
// which was folded.
const leastFold = 16

// foldedAt is the length of the line that begins at start, if that is folded
// data: characters of base64, not fewer than those of which the next line
// consists. Else it is 0.
func foldedAt(b []byte, start int) int {
	end := runEnd(b, start)
	next := ahead(b, end, 24, isSpace)
	if width := end - start; next > end && lineBreak(b, end) && width >= leastFold && (start == 0 || !inRun[b[start-1]]) {
		second := runEnd(b, next)
		if stop := padded(b, second); second-next >= 2 && second-next <= width && (stop == len(b) || isSpace(b[stop]) || b[stop] == '"' || b[stop] == '\'') {
			return width
		}
	}
	return 0
}

// encodedRun decodes the run that begins at start, over its line breaks, and
// returns its end. Where nothing is decoded of several lines, that is the end of
// the first one: a run may begin in each of the others.
func (t *text) encodedRun(start int) int {
	line, end, joined, again := 0, 0, false, start < t.lines
	if again {
		if !beginsRun(t.b[start:]) {
			return runEnd(t.b, start)
		}
		line = runEnd(t.b, start)
		end, joined = t.lines, line < t.lines
	} else {
		end, joined = t.runOverLines(start)
		if line = end; joined {
			line = runEnd(t.b, start)
		}
		t.runs.work += end - start
		if end < len(t.b) && t.b[end] == '.' {
			t.discord(end)
		}
	}
	start = min(start+t.escapeAt(start), end)
	if end-start < minRun {
		return end
	}
	var buf [blobFrom + 56]byte
	raw := t.b[start:end]
	head := raw[:min(len(raw), len(buf))] // the first characters
	if joined {
		head = withoutSpace(buf[:0], raw, len(buf))
	}
	if !again {
		if blob := t.s.alone[blobRule]; blob != nil && !t.own && len(head) >= blobFrom && isBlob(head) {
			t.add(blob, start, end, start, start+64, Info)
		}
		t.identifiers(start, end)
	}
	if t.decodeRun(head, raw, joined, start, end) || !joined {
		return end
	}
	t.lines = end
	return line
}

// beginsRun reports whether a run may begin with the first characters of a line:
// those of a text in base64 or in hexadecimal digits, or of an archive.
func beginsRun(line []byte) bool {
	return len(line) >= 8 && (beginsText(line) && beginsText(line[4:]) || onlyHex(line[:8]) ||
		hasPrefixAt(line, 0, packedRun[0], false) || hasPrefixAt(line, 0, packedRun[1], false))
}

// decodeRun decodes a run and scans it; false when nothing is in it.
func (t *text) decodeRun(head, raw []byte, joined bool, start, end int) bool {
	if hexed := withoutMark(head); len(hexed) >= 40 && onlyHex(hexed[:40]) && isHexText(hexed) {
		if line := runEnd(t.b, start) - start; joined && line%2 == 1 {
			t.hexRun(withoutMark(raw[:line]), start, start+line) // the next one is another
			return false
		}
		t.hexRun(withoutMark(t.runOf(raw, joined)), start, end)
		return true
	}
	if t.archivedRun(head, raw, joined, start, end) {
		return true
	}
	if oneCase(head[:min(len(head), 64)]) {
		return false // an identifier, a digest, a path
	}
	// What comes before the first slash or dash may be a path in front of it.
	for skip := 0; skip < 4 && len(head)-skip >= minRun && (skip == 0 || start == 0); skip++ {
		if t.base64Run(head, raw, joined, skip, start, end) {
			return true
		}
	}
	i := min(len(head)-minRun, 64)
	for i >= 0 && base64Value[head[i]] < 62 {
		i--
	}
	return i >= 0 && len(head)-i > minRun && t.base64Run(head, raw, joined, i+1, start, end)
}

// base64Run decodes a run without its first characters and scans it; false when
// it holds no text. The head is decoded first, so that noise costs little.
func (t *text) base64Run(head, raw []byte, joined bool, skip, start, end int) bool {
	if !isBase64Text(head[skip:]) {
		return false
	}
	plain := t.base64Text(t.runOf(raw, joined)[skip:])
	if plain == nil {
		return false
	}
	t.within(plain, "base64", start, padded(t.b, end))
	return true
}

// runOf is the characters of a run, without the white space of its lines; they
// stay until the next call.
func (t *text) runOf(raw []byte, joined bool) []byte {
	if !joined {
		return raw
	}
	t.runs.chars = withoutSpace(t.runs.chars[:0], raw, len(raw))
	return t.runs.chars
}

// identifiers looks for what begins with two letters only, too few for a
// keyword: at the start of a run and after each slash, plus and underscore.
func (t *text) identifiers(start, end int) {
	next := [3]int{-1, -1, -1}
	for at := start; end-at >= 34; {
		if c := t.b[at]; c == 'S' || c == 'A' {
			t.identifier(at)
		}
		part := end
		for i, c := range [...]byte{'/', '+', '_'} {
			if next[i] < at {
				next[i] = indexFrom(t.b[:end], at, []byte{c})
			}
			part = min(part, next[i])
		}
		at = part + 1
	}
}

// identifier looks for one at a place.
func (t *text) identifier(at int) {
	for _, r := range [...]*rule{t.s.alone[twilioKeyRule], t.s.alone[twilioAccountRule]} {
		if r == nil || t.b[at] != r.x.literal[0] || t.b[at+1] != r.x.literal[1] || !t.begins(at) {
			continue
		}
		if m, ok := r.x.match(t, at); ok && t.ends(m.end) {
			r.report(t, m, r.grade())
		}
	}
}

// indexFrom is the place of the first sep from i; the length of b when there is
// none.
func indexFrom(b []byte, i int, sep []byte) int {
	if n := bytes.Index(b[min(i, len(b)):], sep); n >= 0 {
		return i + n
	}
	return len(b)
}

// padded is the end of a run with its padding.
func padded(b []byte, end int) int {
	return ahead(b, end, 2, func(c byte) bool { return c == '=' })
}

// runOverLines finds the end of a run, going on in the next line where a line
// is long enough to have been wrapped.
func (t *text) runOverLines(start int) (end int, joined bool) {
	b, line, least := t.b, start, 40
	if end = runEnd(b, start); end == len(b) || b[end] != '\n' && b[end] != '\r' {
		return end, false
	}
	if width := foldedAt(b, start); width > 0 {
		least = min(least, width)
	}
	for end = start; ; {
		end = runEnd(b, end)
		if end-line < least || end >= len(b) || b[end] != '\n' && b[end] != '\r' {
			return end, joined
		}
		next := ahead(b, end, 24, isSpace)
		if next+1 >= len(b) || !inRun[b[next]] || !inRun[b[next+1]] {
			return end, joined
		}
		stop := runEnd(b, next)
		if stop < len(b) && !isSpace(b[stop]) && b[stop] != '=' && b[stop] != '"' && b[stop] != '\'' && stop-next < least {
			return end, joined
		}
		line, end, joined = next, stop, true
	}
}

// withoutSpace appends at most most characters of b that are no white space.
func withoutSpace(out, b []byte, most int) []byte {
	for _, c := range b {
		if !isSpace(c) {
			if len(out) == most {
				break
			}
			out = append(out, c)
		}
	}
	return out
}

// base64Of is the alphabet of a run.
func base64Of(chars []byte) *base64.Encoding {
	for _, c := range chars[:min(len(chars), 4096)] {
		if c == '-' || c == '_' {
			return base64.RawURLEncoding
		}
	}
	return base64.RawStdEncoding
}

// isBase64Text reports whether the start of a run is that of a text.
func isBase64Text(head []byte) bool {
	if !beginsText(head) {
		return false
	}
	var plain [minRun]byte
	n, err := base64Of(head).Decode(plain[:], head[:minRun])
	return err == nil && n > 0 && textual(plain[:n])
}

// base64Text decodes a run; nil when it is not base64.
func (t *text) base64Text(chars []byte) []byte {
	std := base64Of(chars)
	if len(chars)%4 == 1 {
		chars = chars[:len(chars)-1] // too much to be base64
	}
	plain := t.room(std.DecodedLen(len(chars)))[:std.DecodedLen(len(chars))]
	n, err := std.Decode(plain, chars)
	if err != nil && n < minRun/2 {
		return nil
	}
	plain = plain[:n]
	if n > 1 && (plain[1] == 0 || plain[0] == 0) {
		plain = bytes.ReplaceAll(plain, []byte{0}, nil) // UTF-16
	}
	return plain
}

// base64Value is the number that a character of base64 stands for, in either
// alphabet.
var base64Value = func() (value [256]uint8) {
	for i, c := range []byte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/") {
		value[c] = uint8(i)
	}
	value['-'], value['_'] = 62, 63
	return value
}()

// beginsText reports whether the first four characters of a run are three bytes
// that a text in ASCII, UTF-16 or UTF-8 may begin with.
func beginsText(chars []byte) bool {
	a, b, c, d := base64Value[chars[0]], base64Value[chars[1]], base64Value[chars[2]], base64Value[chars[3]]
	first, second, third := a<<2|b>>4, b<<4|c>>2, c<<6|d
	return inText[first] && inText[second] && inText[third] || beginsUTF8([]byte{first, second, third})
}

// beginsUTF8 reports whether a text in UTF-8 without control characters may
// begin with b, which may end in the middle of a character.
func beginsUTF8(b []byte) bool {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			return !utf8.FullRune(b)
		}
		if r < utf8.RuneSelf && !inText[r] {
			return false
		}
		b = b[n:]
	}
	return true
}

// inText marks the bytes of text in ASCII or UTF-16.
var inText = bytesThat(func(c byte) bool { return c == 0 || visible(c) })

// oneCase reports whether letters of one case are missing.
func oneCase(v []byte) bool {
	kinds := 0
	for _, c := range v {
		kinds |= 1 << mixKinds[c]
		if kinds&3 == 3 {
			return false
		}
	}
	return true
}

// textual reports whether decoded bytes look like the start of a text: in UTF-8,
// in UTF-16, or in an encoding of which three quarters are ASCII.
func textual(b []byte) bool {
	zeros, high := 0, 0
	for _, c := range b {
		switch {
		case c == 0:
			zeros++
		case c >= utf8.RuneSelf:
			high++
		case !inText[c]:
			return false
		}
	}
	if zeros > 0 {
		return zeros >= len(b)/2-1
	}
	return high <= len(b)/4 || beginsUTF8(b)
}

// isBlob reports whether a run is encoded bytes rather than words or one
// letter over and over.
func isBlob(chars []byte) bool {
	s := measured(chars[:blobFrom])
	return s.digits > 0 && s.upper > 0 && s.lower > 0 && s.wordy() < 0.75 && s.kinds > 20
}

// withoutMark is a number without the 0x in front of it.
func withoutMark(chars []byte) []byte {
	if hasPrefixAt(chars, 0, "0x", true) {
		return chars[2:]
	}
	return chars
}

// isHexText reports whether the start of a row of hexadecimal digits is that of
// a text.
func isHexText(digits []byte) bool {
	var head [16]byte
	k, err := hex.Decode(head[:], digits[:32])
	return err == nil && textual(head[:k])
}

func (t *text) hexRun(chars []byte, start, end int) {
	n := 0
	for n < len(chars) && isHex(chars[n]) {
		n++
	}
	plain := t.room(n / 2)[:n/2]
	k, _ := hex.Decode(plain, chars[:n&^1])
	t.within(plain[:k], "hex", start, end)
}
