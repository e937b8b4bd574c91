package scan

import (
	"bytes"
	"slices"
)

// Passwords in addresses and in the files that hold them.
var rulesURI = []rule{
	{id: "database_uri", family: familyDB, what: "Database address with a password", words: []string{"://"}, look: lookURI},
	{id: "url_password", family: familyBasic, what: "Address with a password", words: []string{"://"}, look: lookURI},
	{id: "curl_credentials", family: familyBasic, what: "User and password of a curl command", words: []string{" -u", "--user", "-user "}, look: lookCurl},
	{id: "netrc_password", family: familyBasic, what: "Password in .netrc", words: []string{"machine "}, look: lookNetrc},
	{id: "kubeconfig_token", family: familyCloud, what: "Token in a kubeconfig", words: []string{"client-key-data", "client_key_data"}, place: beforeToken, look: lookKubeKey},
	{id: "ado_password", family: familyDB, what: "Password in a connection string", words: []string{"password=", "pwd="}, look: lookConnection},
}

// lookCurl finds user:password after the option of a curl command.
func lookCurl(t *text, r *rule, pos, end int) {
	from := end
	if from < len(t.b) && t.b[from] == '=' {
		from++
	}
	from, to := t.word(skipBlank(t.b, from), func(c byte) bool { return c == '<' || c == '`' })
	colon := bytes.IndexByte(t.b[from:to], ':')
	if colon < 1 || hasPrefixAt(t.b, end, "-", false) {
		return
	}
	user, start := t.b[from:from+colon], from+colon+1
	start = ahead(t.b, start, to-start, isQuote) // only the password is in quotes
	last := behind(t.b, to, to-start, isQuote)
	if variable(user) || bytes.ContainsAny(t.b[start:last], "\"'(") || !givenPassword(t.b[start:last]) || !t.before(&t.curl, "curl", pos-300, pos) {
		return
	}
	t.add(r, start, last, start, last, Confirmed)
}

// lookKubeKey finds the base64 of a client key.
func lookKubeKey(t *text, r *rule, pos, end int) {
	v, ok := t.assigned(end)
	if !ok {
		return
	}
	to := ahead(t.b, v.from, maxKeyBody, isBase64)
	if to-v.from < 80 || placeholder(t.b[v.from:v.from+64]) {
		return
	}
	t.add(r, v.from, to, v.from, to, Confirmed)
}

// connectionWords occur in a connection string beside the password, in front
// of an equals sign.
var connectionWords = []string{"server", "data source", "host", "database", "user id", "uid", "initial catalog", "dbname", "username", "user"}

var endsConnectionWord = bytesThat(func(c byte) bool {
	return slices.ContainsFunc(connectionWords, func(w string) bool { return w[len(w)-1] == lower(c) })
})

// equalSigns remembers where the words of connection strings stood last, so
// that a row of passwords does not read the same neighborhood again and again.
type equalSigns struct {
	read int // up to here
	last [10]int
}

// beside counts the words that a connection string holds between from and to.
func (t *text) beside(from, to int) int {
	e := &t.equals
	for p := max(e.read, from); p < to; p++ {
		n := bytes.IndexByte(t.b[p:to], '=')
		if n < 0 {
			break
		}
		p += n
		if p == 0 || !endsConnectionWord[t.b[p-1]] {
			continue
		}
		for i, w := range connectionWords {
			if hasPrefixAt(t.b, p-len(w), w, true) {
				e.last[i] = p
			}
		}
	}
	e.read = max(e.read, to)
	words := 0
	for _, at := range e.last {
		if at > from {
			words++
		}
	}
	return words
}

// before reports whether a word is between two places. Where the last one was is
// kept in m, so that a row of values does not read the same text again and again.
func (t *text) before(m *wordBefore, word string, from, to int) bool {
	for end := max(m.read+1, from+len(word), len(word)); end <= to; end++ {
		if lower(t.b[end-1]) == word[len(word)-1] && hasPrefixAt(t.b, end-len(word), word, true) {
			m.last = end
		}
	}
	m.read = max(m.read, to)
	return m.last > 0 && m.last-len(word) >= from
}

// wordBefore is how far the text was searched for a word, and where the last one
// ends.
type wordBefore struct{ read, last int }

// lookConnection finds the password of a connection string.
func lookConnection(t *text, r *rule, pos, end int) {
	if pos > 0 && isWord(t.b[pos-1]) {
		return
	}
	to := end + t.run(t.s.passClass, end, 129)
	value := t.b[end:to]
	if len(value) < 6 || len(value) > 128 {
		return
	}
	from, limit := max(0, pos-200), min(len(t.b), to+120)
	if t.beside(from, limit) < 2 && !t.before(&t.jdbc, "jdbc:", from, pos) {
		return
	}
	s := t.facts(value)
	if !s.strongPassword() || s.kinds < 3 || s.monotonous() || variable(value) || s.standsIn(value) || weakWord(value) {
		return
	}
	t.add(r, end, to, end, to, Confirmed)
}

// inPassword reports whether a byte may occur in the password of a connection
// string.
func inPassword(c byte) bool {
	return c > ' ' && c < 0x7f && bytes.IndexByte([]byte(";\"'&`<"), c) < 0
}
