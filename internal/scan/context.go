package scan

import "bytes"

// tried is how far a rule has looked after its keyword. What it did not find
// for one place of the keyword it does not look for again from the next: a row
// of keywords costs one pass.
type tried struct {
	text uint32
	upto int
}

func (t *text) tried(r *rule) *int {
	m := &t.runs.tried[r.order]
	if m.text != t.id {
		*m = tried{text: t.id}
	}
	return &m.upto
}

// longPiece is a piece of text without white space and quotes that is long
// enough for a value: the first one that ends after from.
type longPiece struct{ from, start, end int }

// longPiece is where the first one that ends after pos begins; limit when none
// does before. The answer is kept for the other rules of the keyword.
func (t *text) longPiece(pos, limit int) int {
	p := &t.long
	if pos >= p.from && pos < p.end && (p.start < p.end || limit <= p.end) {
		return min(p.start, limit)
	}
	for start := behind(t.b, pos, shortest, goesOn); start < limit; {
		end := ahead(t.b, start, shortest, goesOn)
		if end-start >= shortest {
			if end = ahead(t.b, end, pos+1-end, goesOn); end > pos {
				*p = longPiece{pos, start, end}
				return start
			}
		}
		for start = end; start < limit && ends(t.b[start]); start++ {
		}
	}
	*p = longPiece{pos, limit, limit}
	return limit
}

// follow looks for a secret after a keyword that only says whose it is.
// Between the two may be the rest of a name, an assignment, a quote; a word
// that says what the value is makes the finding sure.
func (r *rule) follow(t *text, end int) {
	b, seen := t.b, t.tried(r)
	i, limit, lines := end, min(len(b), end+r.within), 0
	if *seen > end {
		i = *seen
		lines = bytes.Count(b[end:min(i, len(b))], []byte{'\n'})
	}
	if r.x.least >= shortest {
		// What is shorter than any value is passed over.
		if start := t.longPiece(end, limit); start > i {
			lines += bytes.Count(b[i:min(start, limit)], []byte{'\n'})
			i = start
		}
	}
	for i < limit && lines < 2 {
		if i == 0 || !isWord(b[i-1]) {
			if r.value(t, end, i) {
				return
			}
			if k := t.escapeAt(i); k > 0 && i+k < limit && r.value(t, end, i+k) {
				return
			}
		}
		if b[i] == '\n' {
			lines++
		}
		if isWord(b[i]) {
			i += t.run(t.s.wordClass, i, limit-i)
		} else {
			i++
		}
	}
	t.runs.work += max(0, i-end)
	*seen = max(*seen, i)
}

// escapeAt is the number of letters at the start of the word at pos that
// belong to an escape in front of it.
func (t *text) escapeAt(pos int) int {
	if pos == 0 || pos+1 >= len(t.b) {
		return 0
	}
	switch c := t.b[pos]; {
	case t.b[pos-1] == '[' || t.b[pos-1] == ';':
		for n := 1; n <= 4 && pos+n < len(t.b); n++ {
			if colorBefore(t.b, pos+n) {
				return n
			}
		}
	case t.b[pos-1] == '%' && isHex(c) && isHex(t.b[pos+1]):
		return 2
	case t.b[pos-1] != '\\':
	case c == 'u':
		return 5
	case c == 'n' || c == 't' || c == 'r' || c == 'v' || c == 'f' || c == '0':
		return 1
	}
	return 0
}

// value judges what begins at pos, after a keyword that ends at end, and
// reports whether the search is over.
func (r *rule) value(t *text, end, pos int) bool {
	if !r.x.first.has(t.b[pos]) {
		return false
	}
	if first := &r.x.seq[0]; first.class >= 0 && t.run(first.class, pos, first.max) < first.min {
		return false
	}
	if r.vague() && pos > end && t.b[pos-1] == '/' {
		return false // a part of a path
	}
	m, ok := r.x.match(t, pos)
	if !ok || !t.ends(m.end) || !t.mixed(t.b[m.from:m.to]) {
		return false
	}
	*t.tried(r) = m.end
	if digested(t.b[max(0, pos-16):pos]) || t.amongVectors(m.from, m.to) {
		return true
	}
	gap := t.b[max(0, end-24):pos]
	switch said := named(gap); {
	case r.vague() && !said && pos-end <= 6 && adjoins(t.b[end:pos]) && t.looksRandom(t.b[m.from:m.to]):
		r.report(t, m, Likely)
	case !assigns(gap):
		if said && (!r.vague() || pos-end <= 16 && named(t.b[end:pos]) && t.looksRandom(t.b[m.from:m.to])) {
			r.report(t, m, Likely)
		}
	case said:
		r.report(t, m, r.grade())
	case !r.vague() && !bytes.ContainsAny(t.b[end:pos], "/,"):
		r.report(t, m, Likely)
	}
	return true
}

// vectors remembers where a long row of hexadecimal digits was last, so that
// many values do not read the same neighborhood again and again.
type vectors struct {
	read   int // up to here
	digits int // of the row that goes on at read
	gap    int // bytes that are none since its last digit
	last   int // end of the last long one
}

// longVector is the number of hexadecimal digits that no credential has: a
// public key, a ciphertext, a signature.
const longVector = 130

// amongVectors reports whether a value is one of the test vectors of a
// cryptographic function: hexadecimal, beside values that are longer than any
// credential, or as long itself.
func (t *text) amongVectors(from, to int) bool {
	if !onlyHex(bytes.TrimPrefix(t.b[from:to], []byte("0x"))) {
		return false
	}
	if to-from >= longVector {
		return true
	}
	v := &t.vectors
	limit := min(len(t.b), to+600)
	if v.read < from-600 {
		v.read, v.digits, v.gap = from-600, 0, 0
	}
	for v.read < limit {
		// A row with a byte of another kind in it ends there: where it cannot have
		// become long before, only the last such byte matters.
		ahead := min(v.read+longVector-v.digits, limit)
		i := ahead - 1
		for i >= v.read && byteKinds[t.b[i]]&kindVector != 0 {
			i--
		}
		if i >= v.read {
			v.read, v.digits, v.gap = i+1, 0, 0
			continue
		}
		for ; v.read < ahead; v.read++ {
			switch {
			case isHex(t.b[v.read]):
				v.gap = 0
				if v.digits = min(v.digits+1, longVector); v.digits == longVector {
					v.last = v.read + 1
				}
			case v.gap < 12:
				v.gap++ // string literals that the program joins
			default:
				v.digits = 0
			}
		}
		if v.digits == longVector {
			v.digits-- // the row goes on byte by byte
		}
	}
	return v.last > 0 && v.last > from-600
}

// digested reports whether what is in front of a value says that it is a
// digest: the integrity of a package, the address of an image.
func digested(before []byte) bool {
	return !only(before, func(c byte) bool { return c != '-' && c != ':' && c|0x20 != 'k' }) && digestSet.in(before)
}

var digestSet = newWordSet([]string{"sha1-", "sha256-", "sha384-", "sha512-", "sha1:", "sha256:", "sha384:", "sha512:", "md5-", "md5:", "h1:", "blake2", "blake3"})

// vague reports whether the shape of a value says next to nothing, so that
// nothing but an assignment to a name that says what it is will do.
func (r *rule) vague() bool { return r.confidence == Likely }

// adjoins reports whether nothing but blanks, quotes and an operator are
// between the name of a vendor and a value.
func adjoins(between []byte) bool {
	return len(between) > 0 && only(between, func(c byte) bool { return isSpace(c) || isQuote(c) || c == '=' || c == ':' })
}

// mixed reports whether a value is not a word or a number.
func (t *text) mixed(v []byte) bool {
	var s *shape
	if len(v) > longestShape {
		long := measured(v)
		s = &long
	} else {
		s = &t.facts(v).shape
	}
	return s.digits > 0 && s.lower+s.upper > 0 && (s.wordy() <= 0.9 || s.digits > len(v)/4)
}

// assigns reports whether the text between a keyword and a value hands the
// value over: by an operator, as an argument, in a table; after an option of a
// command and after ENV also by a blank.
func assigns(gap []byte) bool {
	gap = gap[max(0, len(gap)-160):]
	operator := !only(gap, func(c byte) bool { return c != '=' && c != ':' && c != '>' && c != ',' && c != '(' && c != '|' })
	return operator || bytes.Contains(gap, []byte("--")) || bytes.Contains(gap, []byte("ENV "))
}

// secretNames are words that say that a value is a secret.
var secretNames = []string{"key", "token", "secret", "passw", "passphrase", "pwd", "auth", "cred", "_pat", "-pat", "pat\"", "pat'", "pat=", "pat:", "pat ", "api", "webhook", "bearer", "signing", "contribsys", "x-"}

var secretNameSet = newWordSet(secretNames)

// looksRandom reports whether a generator made a value whose bounds are known.
func (t *text) looksRandom(v []byte) bool {
	v = v[:min(len(v), longestShape)]
	return t.facts(v).looksRandom(v, true)
}

// named reports whether the text in front of a value says that it is a secret.
func named(gap []byte) bool { return secretNameSet.in(gap[max(0, len(gap)-160):]) }
