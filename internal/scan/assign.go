package scan

import "bytes"

// lookGeneric finds a value that is assigned to a name which says that it is
// a secret: api_key = "…", "password": "…", client-secret: …, TOKEN=…. The
// value must look as if a generator had made it: code is full of such names
// with harmless values.
func lookGeneric(t *text, r *rule, pos, end int) {
	v, quoted, ok := t.assigned(end)
	if !ok {
		return
	}
	password := r.id == "generic_password"
	seen := &t.judged[0]
	if password {
		seen = &t.judged[1]
	}
	if v.from <= *seen {
		return // by another part of the same name, or a part of a long value
	}
	*seen = v.from
	value := t.b[v.from:v.to]
	if len(value) > 128 && !quoted {
		*seen = v.to - 128
	}
	if len(value) < 8 || len(value) > 512 || variable(value) || placeholder(value) || weakPassword(value) {
		return
	}
	kind := mix(value)
	switch {
	case password && (quoted || t.b[v.start-1] == '=') && plausiblePassword(value, kind):
	case looksRandom(value, kind, quoted):
	default:
		return
	}
	if t.amongVectors(v.from, v.to) {
		return
	}
	name := pos
	for name > 0 && pos-name < 40 && (isWord(t.b[name-1]) || t.b[name-1] == '-' || t.b[name-1] == '.') {
		name--
	}
	if harmlessName(t.b[name:end], t.b[end:v.from]) {
		return
	}
	t.add(r, v.start, v.end, v.from, v.to, r.grade())
}

// assigned finds the value that is assigned to the name that goes on at pos:
// the rest of the name, an operator, a quote.
func (t *text) assigned(pos int) (v span, quoted, ok bool) {
	i, b := pos, t.b
	for i < len(b) && i-pos < 32 && (isWord(b[i]) || b[i] == '-' || b[i] == '.') {
		i++
	}
	name := i
	for i < len(b) && i-name < 4 && (b[i] == '"' || b[i] == '\'' || b[i] == '`' || b[i] == ']' || b[i] == '\\' || b[i] == ')') {
		i++
	}
	i, element, ok := operator(b, i, i > name)
	if !ok {
		return span{}, false, false
	}
	i = skipBlank(b, i)
	// String prefixes of Python, C# and Rust, and a call that only wraps it.
	if i+1 < len(b) && (b[i] == 'b' || b[i] == 'r' || b[i] == 'f' || b[i] == 'u' || b[i] == '@') && (b[i+1] == '"' || b[i+1] == '\'') {
		i++
	}
	for i < len(b) && b[i] == '\\' && i+1 < len(b) && (b[i+1] == '"' || b[i+1] == '\'') {
		i++ // JSON within a string
	}
	if i >= len(b) {
		return span{}, false, false
	}
	if q := b[i]; q == '"' || q == '\'' || q == '`' {
		return quotedValue(b, i+1, q)
	}
	end := i + t.run(t.s.valueClass, i, 521)
	to := end
	if to > i && (b[to-1] == '.' || b[to-1] == ':') {
		to--
	}
	if end < len(b) && !isSpace(b[end]) && bytes.IndexByte([]byte(";,\"'&}\\`"), b[end]) < 0 && !(element && b[end] == '<') {
		return span{}, false, false // a call, an index, an expression
	}
	return span{start: i, end: to, from: i, to: to}, false, true
}

// quotedValue is what stands from from to the quote q.
func quotedValue(b []byte, from int, q byte) (v span, quoted, ok bool) {
	end := from
	for end < len(b) && end-from <= 520 && b[end] != q && b[end] > ' ' && b[end] < 0x7f {
		end++
	}
	if end >= len(b) || b[end] != q {
		return span{}, true, false
	}
	to := end
	if to > from && b[to-1] == '\\' {
		to--
	}
	return span{start: from, end: to, from: from, to: to}, true, true
}

// operator finds what hands a value over to the name that ends at i, with its
// closing quote when closed is set, and returns where the value begins.
func operator(b []byte, i int, closed bool) (value int, element, ok bool) {
	at := skipBlank(b, i)
	if at < len(b) && (letter(b[at]) || b[at] == '\n' || b[at] == '\r') {
		if closed || b[at] <= ' ' {
			// <add key="name" value="…" />, and the next line of a manifest.
			for at < len(b) && isSpace(b[at]) && at-i < 24 {
				at++
			}
			if next := at + len("value"); hasPrefixAt(b, at, "value", true) {
				if next = skipBlank(b, next); next < len(b) && (b[next] == '=' || b[next] == ':') {
					return next + 1, false, true
				}
			}
			return 0, false, false
		}
		at = typed(b, at) // const Name string = "…"
	}
	op := at
	for at < len(b) && at-op < 3 && (b[at] == '=' || b[at] == ':' || b[at] == '>' || b[at] == '?') {
		at++
	}
	switch string(b[op:at]) {
	case ":": // or a type: let name: String = "…"
		if from := skipBlank(b, at); typed(b, from) > from {
			if to := typed(b, from); to < len(b) && b[to] == '=' {
				return to + 1, false, true
			}
		}
		return at, false, true
	case "=", ":=", "=>", "?=", "::=", "==", "===":
		return at, false, true
	case ">": // an element of XML
		return at, true, true
	case "":
		if at < len(b) && (closed && b[at] == ',' || b[at] == '(') {
			if at = skipBlank(b, at+1); at < len(b) && (b[at] == '"' || b[at] == '\'') {
				return at, false, true // an argument
			}
		}
	}
	return 0, false, false
}

// typed is where the text goes on behind the name of a type for strings.
func typed(b []byte, i int) int {
	for _, name := range []string{"string", "&str", "str", "&'static str"} {
		if hasPrefixAt(b, i, name, true) && i+len(name) < len(b) && !isWord(b[i+len(name)]) {
			return skipBlank(b, i+len(name))
		}
	}
	return i
}

// inValue reports whether a byte may stand in a value without quotes.
func inValue(c byte) bool { return isWord(c) || bytes.IndexByte([]byte("+/=-.~!@#%^*:$"), c) >= 0 }

func skipBlank(b []byte, i int) int {
	for n := 0; i < len(b) && n < 8 && (b[i] == ' ' || b[i] == '\t'); n++ {
		i++
	}
	return i
}

// harmlessNames are parts of names whose values only look random.
var harmlessNames = []string{
	"public", "integrity", "checksum", "sha1", "sha256", "sha512", "digest", "csrf", "xsrf", "keyboard", "keyword", "primarykey", "primary_key",
	"foreign", "keyframe", "keypath", "key_path", "keyfile", "key_file", "keyname", "key_name", "key_id", "keyid", "token_type", "tokentype", "token_url",
	"tokenurl", "tokenizer", "token_endpoint", "secret_name", "secretname", "secret_arn", "secretarn", "password_hash", "passwordhash", "password_field", "partition_key", "sort_key", "cache_key", "cachekey",
	"monkey", "turkey", "hotkey", "lookup", "nextpagetoken", "next_token", "nexttoken", "pagetoken", "page_token", "continuation", "idempotency", "cancellation", "fingerprint", "hash", "pubkey", "pub_key", "site_key", "sitekey", "i18n", "translation", "key_type", "keytype",
	"request_token", "requesttoken", "version",
}

var harmlessSet = newWordSet(harmlessNames)

func harmlessName(name, rest []byte) bool {
	var buf [96]byte
	low := append(buf[:0], name[max(0, len(name)-48):]...)
	for _, c := range rest[:min(len(rest), 32)] {
		if !isWord(c) && c != '-' && c != '.' {
			break
		}
		low = append(low, c)
	}
	for i, c := range low {
		if c == '-' || c == '.' {
			low[i] = '_'
		}
	}
	return harmlessSet.in(low)
}

// looksRandom reports whether a generator made the value. Words, names, paths,
// addresses, versions, dates and digests of other things are not.
func looksRandom(v []byte, kind mixture, quoted bool) bool {
	letters := kind.lower + kind.upper
	switch {
	case len(v) < 16 || kind.digits < 2 || letters < 4:
		return false
	case !quoted && (len(v) < 18 || member(v)):
		return false
	case bytes.ContainsAny(v, "(){}[]<>|\\,;\"'`"), bytes.Contains(v, []byte("://")), bytes.Contains(v, []byte("::")), bytes.HasPrefix(v, []byte("/")), bytes.HasPrefix(v, []byte("./")):
		return false
	case bytes.Count(v, []byte(".")) > 2 || bytes.Count(v, []byte("/")) > 4 || bytes.Count(v, []byte(":")) > 1:
		return false
	case snakeCase(v):
		return false
	case isUUID(v):
		return true
	}
	h := entropy(v)
	if kind.lower+kind.digits == len(v) || kind.upper+kind.digits == len(v) {
		if onlyHex(v) {
			return len(v) >= 24 && h >= 3.0 && kind.turns >= len(v)/5
		}
		return h >= 3.1 && kind.turns >= len(v)/6 && wordy(v) < 0.7
	}
	return h >= 3.5 && kind.turns >= len(v)/5 && wordy(v) < 0.65 && kind.other <= len(v)/4
}

// snakeCase reports whether a value is a name made of short parts.
func snakeCase(v []byte) bool {
	joints := bytes.Count(v, []byte{'_'}) + bytes.Count(v, []byte{'-'})
	return joints >= 2 && len(v)/(joints+1) <= 8 && mix(v).upper == 0 && !isUUID(v)
}

// member reports whether a value without quotes names a part of something, as
// self.lib.X does.
func member(v []byte) bool {
	dot := bytes.IndexByte(v, '.')
	if dot < 1 {
		return false
	}
	for _, c := range v[:dot] {
		if (c < 'a' || c > 'z') && c != '_' {
			return false
		}
	}
	return true
}

// plausiblePassword reports whether somebody means v as a password.
func plausiblePassword(v []byte, kind mixture) bool {
	if bytes.ContainsAny(v, "(){}<>\\") || bytes.Contains(v, []byte("://")) || bytes.HasPrefix(v, []byte("/")) || bytes.HasPrefix(v, []byte("--")) || bytes.HasPrefix(v, []byte("#")) || bytes.HasPrefix(v, []byte(".")) {
		return false
	}
	if kind.digits == 0 || kind.lower+kind.upper == 0 {
		return false
	}
	return strongPassword(v, kind) && entropy(v) >= 2.75 && (kind.turns >= 4 || wordy(v) < 0.5)
}

func isUUID(v []byte) bool {
	if len(v) != 36 {
		return false
	}
	for i, c := range v {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if c != '-' {
				return false
			}
		} else if !isHex(c) {
			return false
		}
	}
	return true
}

func onlyHex(v []byte) bool {
	for _, c := range v {
		if !isHex(c) {
			return false
		}
	}
	return true
}
