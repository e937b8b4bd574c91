package scan

import (
	"bytes"
	"slices"
)

// Passwords that a command takes as an argument, and those of statements.
var rulesCommand = []rule{
	{id: "command_password", family: familyBasic, what: "Password in the short option of a command that documents it", words: commandWords(), look: lookCommand},
	{id: "sql_password", family: familyGeneric, what: "Password in a statement of SQL", words: []string{"identified by", "identified with", "password '", "password for", "password("}, look: lookSQL},
	{id: "curl_userpwd", family: familyBasic, what: "User and password of a transfer with libcurl", words: []string{"curlopt_userpwd", "curlopt_proxyuserpwd"}, look: lookUserPwd},
}

// A command is one whose manual says that an option takes a password.
type command struct {
	word   string
	option string
	next   bool // the password may also be the word after the option
}

// commands are those, in lower case.
var commands = []command{
	{"mysql", " -p", false}, {"mariadb", " -p", false}, {"sshpass", " -p", true}, {"redis-cli", " -a", true},
	{"az login", " -p", true}, {"docker login", " -p", true}, {"podman login", " -p", true}, {"buildah login", " -p", true}, {"oc login", " -p", true},
	{"mongosh", " -p", true}, {"mongodump", " -p", true}, {"mongorestore", " -p", true}, {"mongoexport", " -p", true}, {"mongoimport", " -p", true},
	{"ldapsearch", " -w", true}, {"ldapadd", " -w", true}, {"ldapmodify", " -w", true}, {"sqlcmd", " -p", true}, {"ipmitool", " -p", true}, {"cqlsh", " -p", true},
	{"rabbitmqadmin", " -p", true}, {"keytool", " -storepass", true}, {"keytool", " -keypass", true}, {"jarsigner", " -storepass", true},
	{"openssl", " -passin pass:", false}, {"openssl", " -passout pass:", false}, {"openssl", " -pass pass:", false}, {"kinit", " --password=", false},
}

func commandWords() (words []string) {
	for _, c := range commands {
		words = append(words, c.word)
	}
	return slices.Compact(words) // the options of a command are listed together
}

// commandLine bounds how far after a command its option is looked for.
const commandLine = 200

// lookCommand finds the password after the options of a command.
func lookCommand(t *text, r *rule, pos, end int) {
	seen := t.tried(r)
	if end <= *seen || !t.begins(pos) {
		return
	}
	limit := min(len(t.b), end+commandLine)
	if n := bytes.IndexByte(t.b[end:limit], '\n'); n >= 0 {
		limit = end + n
	}
	*seen = limit // of a row of commands on one line the first is enough
	for i := range commands {
		if c := &commands[i]; hasPrefixAt(t.b, pos, c.word, true) && end-pos == len(c.word) {
			r.options(t, c, end, limit)
		}
	}
}

// options looks for an option of a command between two places.
func (r *rule) options(t *text, c *command, from, limit int) {
	for at := from; ; {
		n := bytes.IndexByte(t.b[at:limit], c.option[1])
		if n < 0 {
			return
		}
		if at += n + 1; hasPrefixAt(t.b, at-2, c.option, true) && r.argument(t, at-2+len(c.option), c.next) {
			return
		}
	}
}

// word is where a word is: in quotes, or up to what parts it.
func (t *text) word(at int, parted func(byte) bool) (from, to int) {
	var quote byte
	if at < len(t.b) && isQuote(t.b[at]) {
		quote = t.b[at]
		at++
	}
	return at, ahead(t.b, at, 160, func(c byte) bool { return c > ' ' && c != quote && (quote != 0 || !parted(c)) })
}

// argument judges the word at from, and with next also the one after a blank,
// as a password.
func (r *rule) argument(t *text, from int, next bool) bool {
	if next {
		from = skipBlank(t.b, from)
	}
	from, to := t.word(from, parts)
	value := t.b[from:to]
	port, _, parted := bytes.Cut(value, []byte{':'})
	if s := measured(port); parted && s.lower+s.upper == 0 {
		return false // the ports of a container
	}
	if !givenPassword(value) {
		return false
	}
	t.add(r, from, to, from, to, Confirmed)
	return true
}

// givenPassword reports whether what is handed over as a password is one.
func givenPassword(v []byte) bool {
	s := measured(v)
	return s.lower+s.upper > 0 && s.digits > 0 && s.strongPassword() && !variable(v) && !s.placeholder(v) && !s.weakPassword(v)
}

// lookSQL finds the password that a statement gives a user: in quotes, within
// the same statement.
func lookSQL(t *text, r *rule, pos, end int) {
	if !t.begins(pos) {
		return
	}
	if t.b[end-1] == '\'' {
		end--
	}
	limit := min(len(t.b), end+64)
	from := ahead(t.b, end, limit-end, func(c byte) bool { return !isQuote(c) && c != ';' && c != '\n' })
	if hasPrefixAt(t.b, pos, "password for", true) || hasPrefixAt(t.b, pos, "identified with", true) {
		from = t.quoteBehind(end, limit) // the name of a user may come first
	} else if len(bytes.TrimSpace(t.b[end:min(from, limit)])) > 0 {
		return
	}
	if from >= limit || !isQuote(t.b[from]) {
		return
	}
	v, ok := quotedValue(t.b, from+1, t.b[from])
	if !ok || !givenPassword(t.b[v.from:v.to]) {
		return
	}
	if before := t.b[max(0, pos-120):pos]; !containsFold(t.b[pos:end], "identified") && !statementSet.in(before) && !containsFold(t.b[pos:end], "password for") {
		return
	}
	t.add(r, v.start, v.end, v.from, v.to, Confirmed)
}

// quoteBehind is the quote that opens the value after the last BY, AS or equals
// sign before limit; limit when there is none.
func (t *text) quoteBehind(from, limit int) int {
	for i := from; i < limit && t.b[i] != ';' && t.b[i] != '\n'; i++ {
		if t.b[i] == '=' || hasPrefixAt(t.b, i, " by ", true) || hasPrefixAt(t.b, i, " as ", true) {
			for i++; i < limit; i++ {
				if c := t.b[i]; c == '\'' || c == '"' {
					return i
				}
			}
		}
	}
	return limit
}

var statementSet = newWordSet([]string{"create user", "alter user", "create role", "alter role", "create login", "alter login", "set password", "create or replace user"})

// lookUserPwd finds user:password in quotes after an option of libcurl.
func lookUserPwd(t *text, r *rule, pos, end int) {
	i := ahead(t.b, end, 8, func(c byte) bool { return !isQuote(c) })
	if i >= len(t.b) || !isQuote(t.b[i]) {
		return
	}
	v, ok := quotedValue(t.b, i+1, t.b[i])
	if !ok {
		return
	}
	user, pass, ok := bytes.Cut(t.b[v.from:v.to], []byte{':'})
	if !ok || len(user) == 0 || variable(user) || !givenPassword(pass) {
		return
	}
	t.add(r, v.to-len(pass), v.to, v.to-len(pass), v.to, Confirmed)
}
