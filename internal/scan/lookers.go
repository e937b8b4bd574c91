package scan

import (
	"bytes"
	"encoding/base64"
	"slices"
	"unicode/utf8"
)

// add keeps a finding of a rule that looks for itself, unless it is a key of a
// manual.
func (t *text) add(r *rule, start, end, from, to int, c Confidence) {
	if secret := t.b[from:to]; !t.published(secret) {
		t.keep(raw{rule: r, start: start, end: end, secret: secret, confidence: c})
	}
}

// ahead returns where the bytes from a place on that are in a set end, at most
// so many further.
func ahead(b []byte, from, most int, in func(byte) bool) int {
	for stop := min(len(b), from+most); from < stop && in(b[from]); from++ {
	}
	return from
}

// behind is ahead in the other direction: where those before a place begin.
func behind(b []byte, to, most int, in func(byte) bool) int {
	for stop := max(0, to-most); to > stop && in(b[to-1]); to-- {
	}
	return to
}

// only reports whether all bytes are in a set.
func only(b []byte, in func(byte) bool) bool { return ahead(b, 0, len(b), in) == len(b) }

// bytesThat marks the bytes that are in a set.
func bytesThat(in func(byte) bool) (t [256]bool) {
	for c := range t {
		t[c] = in(byte(c))
	}
	return t
}

// What keys are made of.
func isKey(c byte) bool    { return isWord(c) || c == '-' }
func isBase64(c byte) bool { return inRun[c] || c == '=' }
func isQuote(c byte) bool  { return c == '\'' || c == '"' }
func inLine(c byte) bool   { return c != '\n' }

// --- private keys ---

const (
	maxKeyBody = 24 << 10 // bytes of the longest private key that is looked at
	minKeyBody = 40       // base64 characters below which it is only a header
	minKeyLine = 14       // and that are together, or they are words
	derLong    = 100      // fewer cannot hold a structure of 256 bytes, which begins with MII
)

// lookPEM finds a private key in the textual encodings of RFC 7468, RFC 4880
// and OpenSSH, also where its lines are joined by escapes or string operators.
// The search goes on after what it took, so repeated headers cost one pass.
func lookPEM(t *text, r *rule, pos, end int) {
	if pos < t.pem {
		return
	}
	label := ahead(t.b, end, 60, func(c byte) bool { return c == ' ' || 'A' <= c && c <= 'Z' || digit(c) })
	name := t.b[end:label]
	if !bytes.HasSuffix(name, []byte("PRIVATE KEY")) && !bytes.HasSuffix(name, []byte("PRIVATE KEY BLOCK")) {
		return
	}
	if !hasPrefixAt(t.b, label, "-----", false) {
		return
	}
	i, chars, run := label+5, 0, 0
	stop := min(len(t.b), i+maxKeyBody)
	dashes := bytes.Index(t.b[i:stop], []byte("-----"))
	if dashes >= 0 {
		stop = i + dashes
	}
	var kinds [4]bool
	last := i
	for ; i < stop; i++ {
		c := t.b[i]
		switch {
		case isWord(c) && c != '_', c == '+', c == '/', c == '=':
			if run++; run == minKeyLine {
				chars += minKeyLine
			} else if run > minKeyLine {
				chars++
			}
			last = i + 1
			kinds[0] = kinds[0] || 'a' <= c && c <= 'z'
			kinds[1] = kinds[1] || 'A' <= c && c <= 'Z'
			kinds[2] = kinds[2] || digit(c)
		case isSpace(c), c == '\\', c == '"', c == '\'', c == ',', c == ':', c == '-', c == '.', c == '(', c == ')', c == '@', c == '<', c == '>', c == ';', c == '#', c == '*', c == '|', c == '$', c == '%', c == '`':
		default:
			stop = i
		}
		if c := t.b[i]; !isWord(c) && c != '+' && c != '/' && c != '=' {
			run = 0
		}
	}
	t.runs.work += i - label
	t.pem = last
	body := t.b[label+5 : last]
	if chars < minKeyBody || !(kinds[0] && kinds[1] && kinds[2]) || placeholder(longestRun(body)) || bytes.Contains(body, []byte("...")) || measured(body).entropy < 3.8 {
		return
	}
	if hasPrefixAt(t.b, stop, "-----END ", false) {
		if n := bytes.Index(t.b[stop+9:min(len(t.b), stop+90)], []byte("-----")); n >= 0 {
			last = stop + 9 + n + 5
		}
	}
	t.pem = last
	c := Confirmed
	if chars < derLong && bytes.HasPrefix(longestRun(body), []byte("MII")) {
		c = Likely // cut short: the length it begins with is larger
	}
	t.add(r, pos, last, label+5, min(last, label+5+len(body)), c)
}

// longestRun is the longest run of base64 characters of b.
func longestRun(b []byte) []byte {
	from, best := 0, b[:0]
	for i := 0; i <= len(b); i++ {
		if i < len(b) && (isWord(b[i]) || b[i] == '+' || b[i] == '/') {
			continue
		}
		if i-from > len(best) {
			best = b[from:i]
		}
		from = i + 1
	}
	return best
}

// --- tokens in parts ---

// lookJWT finds a JSON Web Token in compact form: header, payload, signature,
// the header decoded and looked at (RFC 7519).
func lookJWT(t *text, r *rule, pos, end int) {
	if !t.begins(pos) || pos > 0 && (t.b[pos-1] == '.' || t.b[pos-1] == '-' && !hasPrefixAt(t.b, pos-2, "--", false)) {
		return
	}
	parts, i := 0, pos
	var header, payload []byte
	last := pos
	for parts < 5 {
		n := t.run(r.x.firstClass(), i, unbounded)
		if parts == 0 && (n < 12 || n > 2048) || parts == 1 && n < 8 {
			return
		}
		switch parts {
		case 0:
			header = t.b[i : i+n]
		case 1:
			payload = t.b[i : i+n]
		}
		i += n
		parts++
		last = i
		if i >= len(t.b) || t.b[i] != '.' {
			break
		}
		i++
	}
	if parts < 3 || last-pos < 60 || !jwtHeader(header) {
		return
	}
	if bytes.Contains(payload, []byte("IjEyMzQ1Njc4OTAi")) && bytes.Contains(payload, []byte("Sm9obiBEb2")) || bytes.Contains(payload, []byte("IxMjM0NTY3ODkwI")) || string(payload) == "eyJzb21lIjoicGF5bG9hZCJ9" || placeholder(t.b[pos:last]) {
		return // the examples of jwt.io and PyJWT, and what was made from them
	}
	c := Confirmed
	if last-pos-len(header)-len(payload) < 22 || bytes.HasPrefix(payload, []byte("eyJpc3MiOiJqb2UiLA0K")) {
		c = Likely // no signature to speak of, or the example of RFC 7515
	}
	t.add(r, pos, last, pos, last, c)
}

// lookAuthorization finds the credentials of an HTTP Authorization header.
func lookAuthorization(t *text, r *rule, pos, end int) {
	if !t.begins(pos) {
		return
	}
	m, ok := r.x.match(t, ahead(t.b, end, 3, func(c byte) bool { return c == ' ' }))
	if !ok {
		return
	}
	value := t.b[m.from:m.to]
	if variable(value) || placeholder(value) {
		return
	}
	if r.id == "basic_credentials" {
		if !userPassword(value) || string(value) == "QWxhZGRpbjpvcGVuIHNlc2FtZQ==" { // the example of RFC 7617
			return
		}
		t.add(r, pos, m.end, m.from, m.to, Confirmed)
		return
	}
	s := measured(value)
	if s.digits < 2 || s.lower+s.upper < 4 || s.entropy < 3.2 || s.wordy() > 0.7 {
		return
	}
	t.add(r, pos, m.end, m.from, m.to, Confirmed)
}

// userPassword reports whether a base64 text is user:password.
func userPassword(v []byte) bool {
	v = bytes.TrimRight(v, "=")
	plain := make([]byte, base64.RawStdEncoding.DecodedLen(len(v)))
	n, err := base64.RawStdEncoding.Decode(plain, v)
	if err != nil || n < 5 || !printable(plain[:n]) {
		return false
	}
	user, pass, ok := bytes.Cut(plain[:n], []byte{':'})
	return ok && len(user) > 0 && user[0] != '{' && len(pass) >= 3 && !weakPassword(pass) && !saysPassword(pass)
}

func printable(b []byte) bool {
	return only(b, func(c byte) bool { return !control[c] }) && utf8.Valid(b)
}

// lookNetrc finds the password of a .netrc entry.
func lookNetrc(t *text, r *rule, pos, end int) {
	if pos > 0 && !isSpace(t.b[pos-1]) && t.b[pos-1] != '"' && t.b[pos-1] != '\'' && t.b[pos-1] != 'n' {
		return
	}
	stop := min(len(t.b), end+400)
	_, at := field(t.b[:stop], end) // the name of the machine
	for range 3 {
		var key, value []byte
		key, at = field(t.b[:stop], at)
		value, at = field(t.b[:stop], at)
		switch string(key) {
		case "login", "account":
		case "password":
			from := at - len(value)
			v := bytes.TrimRight(value, `"'\`)
			s := measured(v)
			if !bytes.ContainsAny(v, `"'(){}<>\`) && !s.weakPassword(v) && s.strongPassword() && !variable(v) && !s.placeholder(v) {
				t.add(r, pos, from+len(v), from, from+len(v), Confirmed)
			}
			return
		default:
			return
		}
	}
}

// field is the next word after white space, and where it ends.
func field(b []byte, from int) (word []byte, end int) {
	for from < len(b) && isSpace(b[from]) {
		from++
	}
	end = from
	for end < len(b) && !isSpace(b[end]) {
		end++
	}
	return b[from:end], end
}

// --- short prefixes ---

// lookApart matches an expression whose prefix is met in encoded data: zero
// bytes in base64 are rows of A. What is a part of such data is passed over.
func lookApart(t *text, r *rule, pos, end int) {
	if pos > 1 && (t.b[pos-1] == '+' || t.b[pos-1] == '/') && inRun[t.b[pos-2]] || t.lineOfRun(pos) {
		return
	}
	n := t.run(r.x.firstClass(), pos, unbounded)
	if next := pos + n; next < len(t.b) && (t.b[next] == '+' || t.b[next] == '/') {
		return
	}
	r.around(t, pos, string(t.b[pos:end]))
}

// lineOfRun reports whether the line before that of pos ends in encoded data,
// or the one after it begins so, as that of pos does then too.
func (t *text) lineOfRun(pos int) bool {
	const enough = 48
	low := max(0, pos-2*enough)
	if n := bytes.LastIndexByte(t.b[low:pos], '\n'); n >= 0 {
		if before := bytes.TrimSuffix(t.b[:low+n], []byte{'\r'}); len(before) >= enough && encodedOnly(before[len(before)-enough:]) {
			return true
		}
	}
	end := t.pieceEnd(pos)
	next := ahead(t.b, end, 4, isSpace)
	return next > end && len(t.b)-next >= enough && encodedOnly(t.b[next:next+enough])
}

func encodedOnly(b []byte) bool {
	return only(b, func(c byte) bool { return inRun[c] })
}

// --- hints ---

// blobFrom is the number of base64 characters from which a run is no text.
const blobFrom = 200

// invisible reports characters that show nothing: zero width spaces and
// joiners, marks that turn the direction of text, tags.
func (t *text) invisible() {
	if t.s.alone[hiddenRule] == nil {
		return
	}
	for p := t.hidden.from; p < t.hidden.to && t.unseen < maxFindings; {
		at, width := nextHidden(t.b[p:])
		p += at
		switch r, _ := utf8.DecodeRune(t.b[p:]); {
		case invisibles[r]:
			t.invisibleAt(t.s.alone[hiddenRule], p, p+width)
		case r == '\u00ad' && hasPrefixAt(t.b, p+width, "\u00ad", false):
			t.invisibleAt(t.s.alone[hiddenRule], p, p+2*width) // one shows nothing, and is in ordinary text
		}
		p += width
	}
}

func (t *text) invisibleAt(r *rule, pos, end int) {
	if hasPrefixAt(t.b, pos, "\xe2\x80\x8d", false) || hasPrefixAt(t.b, pos, "\xe2\x80\x8c", false) {
		// Joiners belong to scripts and emoji; between ASCII they hide something.
		if pos == 0 || end >= len(t.b) || t.b[pos-1] >= 0x80 || t.b[end] >= 0x80 {
			return
		}
	}
	if pos == 0 && hasPrefixAt(t.b, 0, "\xef\xbb\xbf", false) {
		return // a byte order mark
	}
	t.unseen++
	t.add(r, pos, end, pos, end, Info)
}

// masks are what a redacted secret ends with.
var masks = []string{"***", "•••", "…", "...", "[redacted", "<redacted", "(redacted"}

// maskStart marks the bytes with which a mask begins.
var maskStart = bytesThat(func(c byte) bool { return slices.ContainsFunc(masks, func(m string) bool { return m[0] == c }) })

// lookFilter finds the prefix of a credential whose rest was masked: no
// secret, but upstream filters refuse it anyway.
func lookFilter(t *text, r *rule, pos, end int) {
	if !t.begins(pos) {
		return
	}
	i := ahead(t.b, end, 16, isKey)
	if i >= len(t.b) || !maskStart[t.b[i]] {
		return
	}
	for _, m := range masks {
		if hasPrefixAt(t.b, i, m, true) {
			t.add(r, pos, i+len(m), pos, end, Info)
			return
		}
	}
}
