package scan

import (
	"bytes"
	"strings"
)

// assignment is how a value is handed over to a name.
type assignment struct {
	span
	quoted bool
	how    string // the operator; "" for an argument
	line   bool   // a line of its own, as in files of settings and environments
}

// lookGeneric finds a value that is assigned to a name which says that it is
// a secret: api_key = "…", "password": "…", client-secret: …, TOKEN=…. The
// value must look as if a generator had made it: code is full of such names
// with harmless values.
func lookGeneric(t *text, r *rule, pos, end int) {
	v, ok := t.assigned(end)
	if !ok && pos > 1 {
		v, ok = t.option(pos, end)
	}
	if !ok && !r.short {
		v, ok = t.spoken(end)
	}
	if !ok {
		return
	}
	password := r.id == "generic_password"
	seen := &t.judged[0]
	if password {
		seen = &t.judged[1]
	}
	if r.short {
		seen = &t.judged[2]
	}
	if v.from <= *seen {
		return // by another part of the same name, or a part of a long value
	}
	*seen = v.from
	value := t.b[v.from:v.to]
	if len(value) > longValue && !v.quoted {
		*seen = v.to - longValue
	}
	if len(value) < 8 || len(value) > 512 {
		return
	}
	name := nameStart(t.b, pos)
	v.line = v.line && (v.how == "<>" || lineStart(t.b, name))
	random := false
	switch t.judge(value, v.quoted) {
	case isRandom:
		random = true
	case isPassword:
		if !password || !v.settles() {
			return
		}
	default:
		return
	}
	if r.short && (!v.settles() || t.facts(value).lower == 0 && onlyHex(value)) || t.amongVectors(v.from, v.to) || t.harmless(name, end, v.from) {
		return
	}
	c := r.grade()
	if random && (v.quoted || v.line || v.how == "=" && shouted(t.b[name:end])) && v.how != "==" && v.how != "===" && v.how != "" && !r.short && t.certain(t.b[name:v.from], value) {
		c = Confirmed
	}
	t.add(r, v.start, v.end, v.from, v.to, c)
}

// lookShortName does the same for names that only count where nothing follows
// them: key = …, but not keys = ….
func lookShortName(t *text, r *rule, pos, end int) {
	if end >= len(t.b) || isWord(t.b[end]) || pos > 0 && letter(t.b[pos-1]) && (!upper(t.b[pos]) || upper(t.b[pos-1])) {
		return
	}
	lookGeneric(t, r, pos, end)
}

// settles reports whether a value is where a password would be that is no
// word of a program: in quotes, right after an equals sign, on a line of its
// own.
func (v *assignment) settles() bool { return v.quoted || v.how == "=" || v.line }

// certain reports whether name and value leave no doubt: the name says what
// the value is, and the value is as long and as random as what vendors issue.
func (t *text) certain(name, value []byte) bool {
	if name = name[:min(len(name), 64)]; len(value) < 20 || !certainSet.in(name) || isUUID(value) || bytes.IndexByte(value, '.') >= 0 || testSet.in(name) {
		return false
	}
	f := t.facts(value)
	if onlyHex(value) {
		return len(value) >= 32 && f.entropy >= 3.2
	}
	return f.digits >= 3 && f.entropy >= 3.6
}

var certainSet = newWordSet([]string{
	"secret", "password", "passwd", "passphrase", "pwd", "api_key", "apikey", "api-key", "access_key", "accesskey", "access-key", "auth_key", "authkey",
	"token", "private_key", "privatekey", "encryption_key", "encryptionkey", "signing_key", "signingkey", "master_key", "masterkey",
})

// testSet marks names of what only tests use.
var testSet = newWordSet([]string{"test", "sample", "example", "demo", "mock", "fake", "fixture", "subject"})

// shouted reports whether a name is that of a variable of the environment.
func shouted(name []byte) bool {
	capitals := 0
	for _, c := range name {
		switch mixKinds[c] {
		case 0:
			return false
		case 1:
			capitals++
		}
	}
	return capitals >= 3
}

// nameStart is where the name begins in which pos is.
func nameStart(b []byte, pos int) int { return behind(b, pos, 40, inName) }

// lineStart reports whether a name is the first of its line, but for what
// exports it, lists it, quotes it or adds it in a diff.
func lineStart(b []byte, name int) bool {
	if name > 0 && strings.IndexByte("\n \t+-\"'$=", b[name-1]) < 0 {
		return false
	}
	from := behind(b, name, 64, inLine)
	before := bytes.TrimLeft(b[from:name], " \t+-\"'$")
	for _, word := range []string{"export ", "set ", "ENV ", "ARG ", "Environment="} {
		before = bytes.TrimPrefix(before, []byte(word))
	}
	return len(bytes.TrimLeft(before, " \"'")) == 0 && name-from < 64
}

// lineEnd reports whether nothing but a comment follows on the line.
func lineEnd(b []byte, end int) bool {
	i := skipBlank(b, end)
	return i >= len(b) || b[i] == '\n' || b[i] == '\r' || i > end && b[i] == '#' || b[i] == '\\' && i+1 < len(b) && (b[i+1] == 'n' || b[i+1] == '\n')
}

// spoken finds the value that is right after the word, as in a sentence.
// It must be longer than others, and no digest.
func (t *text) spoken(end int) (v assignment, ok bool) {
	if end+20 >= len(t.b) || t.b[end] != ' ' || !isWord(t.b[end+1]) || t.run(t.s.valueClass, end+1, 20) < 20 {
		return v, false
	}
	if v, ok = t.plain(end + 1); !ok {
		return v, false
	}
	value := t.b[v.from:v.to]
	if len(value) > longestShape {
		return v, false
	}
	f := t.facts(value)
	return v, f.digits >= 3 && f.entropy >= 3.3 && !(onlyHex(value) && (len(value) == 40 || len(value) == 64))
}

// option finds the value of a command's option: the next word.
func (t *text) option(pos, end int) (v assignment, ok bool) {
	name := nameStart(t.b, pos)
	end = ahead(t.b, end, pos+32-end, isKey)
	if !hasPrefixAt(t.b, name, "--", false) || end >= len(t.b) || t.b[end] != ' ' {
		return v, false
	}
	from := skipBlank(t.b, end)
	if from >= len(t.b) || t.b[from] == '-' {
		return v, false
	}
	if v, ok = t.plain(from); ok && !v.quoted {
		v.how = "="
	}
	return v, ok
}

// assigned finds the value that is assigned to the name that goes on at pos:
// the rest of the name, an operator, a quote.
func (t *text) assigned(pos int) (v assignment, ok bool) {
	m := &t.assigns
	if m.known && m.from <= pos && pos <= m.end && m.end-pos < maxName {
		return m.v, m.ok
	}
	i := ahead(t.b, pos, maxName, inName)
	v, ok = t.assignedTo(i)
	*m = assigned{from: pos, end: i, v: v, ok: ok, known: i-pos < maxName}
	return v, ok
}

// maxName is how much of a name may follow the word that makes it one of a
// secret.
const maxName = 32

// assigned is what was found for the name that goes on between two places: it
// may hold several such words.
type assigned struct {
	from, end int
	v         assignment
	ok, known bool
}

func inName(c byte) bool { return isWord(c) || c == '-' || c == '.' }

// assignedTo finds the value that is assigned to the name that ends at name.
func (t *text) assignedTo(name int) (v assignment, ok bool) {
	b := t.b
	i := ahead(b, name, 4, func(c byte) bool { return bytes.IndexByte([]byte("\"'`]\\)"), c) >= 0 })
	i, how, ok := operator(b, i, i > name)
	if !ok || how == "=>" && bytes.IndexByte(b[name:i], ')') >= 0 {
		return v, false
	}
	if how == "<>" {
		return t.element(i)
	}
	if v, ok = t.plain(skipBlank(b, i)); !ok {
		return v, false
	}
	v.how = how
	v.line = !v.quoted && lineEnd(b, v.end)
	return v, true
}

// longValue is the length from which a value without quotes is more than one
// assignment if there is an equals sign in it.
const longValue = 128

// plain is the value that begins at i, in quotes or without.
func (t *text) plain(i int) (v assignment, ok bool) {
	b := t.b
	// String prefixes of Python, C# and Rust, and a call that only wraps it.
	if i+1 < len(b) && (b[i] == 'b' || b[i] == 'r' || b[i] == 'f' || b[i] == 'u' || b[i] == '@') && (b[i+1] == '"' || b[i+1] == '\'') {
		i++
	}
	for i < len(b) && b[i] == '\\' && i+1 < len(b) && (b[i+1] == '"' || b[i+1] == '\'') {
		i++ // JSON within a string
	}
	if i >= len(b) {
		return v, false
	}
	if q := b[i]; q == '"' || q == '\'' || q == '`' {
		v.quoted = true
		v.span, ok = quotedValue(b, i+1, q)
		return v, ok
	}
	end := i + t.run(t.s.valueClass, i, 521)
	to := end
	if end-i > longValue {
		if n := bytes.IndexByte(b[i:i+longValue], '='); n > 0 {
			to = i + n
		}
	}
	if to > i && (b[to-1] == '.' || b[to-1] == ':') {
		to--
	}
	if end < len(b) && b[end] > ' ' && b[end] < 0x7f && bytes.IndexByte([]byte(";,\"'&}\\`|]<>)"), b[end]) < 0 {
		return v, false // a call, an index, an expression
	}
	v.span = span{start: i, end: to, from: i, to: to}
	return v, true
}

// maxElement bounds the text of an element that is looked at.
const maxElement = 320

// element is the value that an element of XML holds, from i; of several words
// the last one.
func (t *text) element(i int) (v assignment, ok bool) {
	b := t.b
	stop := bytes.IndexByte(b[i:min(len(b), i+maxElement)], '<')
	if stop < 0 || !hasPrefixAt(b, i+stop, "</", false) {
		return v, false
	}
	inner := bytes.TrimRight(b[i:i+stop], " \t\r\n}")
	from := i
	for n := len(inner); n > 0; n-- {
		if c := inner[n-1]; isSpace(c) || c == '{' {
			from = i + n
			break
		}
	}
	v.span = span{start: from, end: i + len(inner), from: from, to: i + len(inner)}
	v.how, v.line = "<>", true
	return v, v.to > v.from
}

// quotedValue is the text from from to the quote q.
func quotedValue(b []byte, from int, q byte) (v span, ok bool) {
	end := ahead(b, from, 521, func(c byte) bool { return c != q && c > ' ' && c < 0x7f })
	if end >= len(b) || b[end] != q {
		return span{}, false
	}
	to := end
	if to > from && b[to-1] == '\\' {
		to--
	}
	return span{start: from, end: to, from: from, to: to}, true
}

// operator finds what hands a value over to the name that ends at i, with its
// closing quote when closed is set, and returns where the value begins.
func operator(b []byte, i int, closed bool) (value int, how string, ok bool) {
	at := skipBlank(b, i)
	if at < len(b) && (letter(b[at]) || b[at] == '\n' || b[at] == '\r') {
		if closed || b[at] <= ' ' {
			// <add key="name" value="…" />, and the next line of a manifest.
			at = ahead(b, at, i+24-at, isSpace)
			if next := at + len("value"); hasPrefixAt(b, at, "value", true) {
				if next = skipBlank(b, next); next < len(b) && (b[next] == '=' || b[next] == ':') {
					return next + 1, "=", true
				}
			}
			return 0, "", false
		}
		at = typed(b, at) // const Name string = "…"
	}
	op := at
	at = ahead(b, op, 4, func(c byte) bool { return c == '=' || c == ':' || c == '>' || c == '?' })
	if at == op && at+1 < len(b) && (b[at] == '.' || b[at] == '+') && b[at+1] == '=' {
		return at + 2, "=", true
	}
	switch how := operatorOf(b[op:at]); how {
	case ":": // or a type: let name: String = "…"
		if from := skipBlank(b, at); typed(b, from) > from {
			if to := typed(b, from); to < len(b) && b[to] == '=' {
				return to + 1, "=", true
			}
		}
		return at, how, true
	case ">": // an element of XML
		if op != i {
			return 0, "", false
		}
		return ahead(b, at, op+24-at, isSpace), "<>", true
	case "":
		if at < len(b) && at == op && (closed && b[at] == ',' || b[at] == '(') {
			if closed && b[at] == ',' {
				how = ","
			}
			if at = skipBlank(b, at+1); at < len(b) && (b[at] == '"' || b[at] == '\'') {
				return at, how, true // an argument
			}
		}
	case unknownOperator:
	default:
		return at, how, true
	}
	return 0, "", false
}

const unknownOperator = "?"

// operatorOf is what of at most four characters hands a value over, and makes no
// string of its own.
func operatorOf(b []byte) string {
	for _, op := range [...]string{"=", ":", "", ":=", "=>", ">", "?=", "==", "===", "::=", ":::="} {
		if string(b) == op {
			return op
		}
	}
	return unknownOperator
}

// typed is where the text goes on after the name of a type for strings.
func typed(b []byte, i int) int {
	for _, name := range []string{"string", "&str", "str", "&'static str"} {
		if hasPrefixAt(b, i, name, true) && i+len(name) < len(b) && !isWord(b[i+len(name)]) {
			return skipBlank(b, i+len(name))
		}
	}
	return i
}

// inValue reports whether a byte may be in a value without quotes.
func inValue(c byte) bool { return isWord(c) || bytes.IndexByte([]byte("+/=-.~!@#%^*:$"), c) >= 0 }

func skipBlank(b []byte, i int) int {
	return ahead(b, i, 8, func(c byte) bool { return c == ' ' || c == '\t' })
}

// harmlessNames are parts of names whose values only look random.
var harmlessNames = []string{
	"public", "integrity", "checksum", "sha1", "sha256", "sha512", "digest", "csrf", "xsrf", "keyboard", "keyword", "primarykey", "primary_key",
	"foreign", "keyframe", "keypath", "key_path", "keyfile", "key_file", "keyname", "key_name", "key_id", "keyid", "token_type", "tokentype", "token_url",
	"tokenurl", "tokenizer", "token_endpoint", "secret_name", "secretname", "secret_arn", "secretarn", "password_hash", "passwordhash", "password_field", "partition_key", "sort_key", "cache_key", "cachekey",
	"monkey", "turkey", "hotkey", "lookup", "nextpagetoken", "next_token", "nexttoken", "pagetoken", "page_token", "continuation", "idempotency", "cancellation", "fingerprint", "hash", "pubkey", "pub_key", "site_key", "sitekey", "i18n", "translation", "key_type", "keytype",
	"request_token", "requesttoken", "version", "changetoken", "change_token", "clienttoken", "client_token", "termtoken", "locktoken", "lock_token", "notsosecret", "authenticity",
}

var harmlessSet = newWordSet(respelled(harmlessNames, "_", "-", "."))

// harmless reports whether the name that begins at start says so; the word that
// makes it one of a secret ends at end.
func (t *text) harmless(start, end, limit int) bool {
	stop := end
	for stop < min(limit, end+32) && inName(t.b[stop]) {
		stop++
	}
	m, name := &t.names, stretch{max(start, end-48), stop}
	if m.last != name {
		m.last, m.harmless = name, harmlessSet.in(t.b[name.from:name.to])
	}
	return m.harmless
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

func onlyHex(v []byte) bool { return only(v, isHex) }
