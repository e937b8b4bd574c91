package scan

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
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
