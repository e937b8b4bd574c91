package scan

import "bytes"

// Passwords that a command takes as an argument.
var rulesCommand = []rule{
	{id: "command_password", family: familyBasic, what: "Password of a MySQL client or of sshpass on a command line", words: []string{"mysql", "mariadb", "sshpass"}, look: lookCommand,
		hits:   []string{"mysql -h db.acme.io -u app -p{an 20} shop", "mysqldump -uroot -p'{an 18}' --all-databases", "sshpass -p '{an 16}' ssh ops@files.acme.io", "sshpass -p{an 18} ssh ops@files.acme.io"},
		misses: []string{"mysql -u root -p shop2024_archive", "mysql -u app -p$MYSQL_PASSWORD9x shop", "mysql -P33061 -h db", "sshpass -p \"$PASS\" ssh x", "sshpass -f secret.d9x8w7 ssh x", "docker run --name mysql -p13306:3306/tcp img", "mysql -pchangeme"}},
}

// commandLine bounds how far behind a command its option is looked for.
const commandLine = 200

// lookCommand finds the password behind the option -p: in the same word for a
// client of MySQL, which takes the next word for a database, in the same or the
// next one for sshpass.
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
	next := lower(t.b[pos]) == 's'
	for at := end; ; {
		n := bytes.Index(t.b[at:limit], []byte(" -p"))
		if n < 0 {
			return
		}
		if at += n + len(" -p"); r.argument(t, at, next) {
			return
		}
	}
}

// argument judges the word at from, and with next also the one behind a blank,
// as a password.
func (r *rule) argument(t *text, from int, next bool) bool {
	if next {
		from = skipBlank(t.b, from)
	}
	var quote byte
	if from < len(t.b) && (t.b[from] == '"' || t.b[from] == '\'') {
		quote = t.b[from]
		from++
	}
	to := from
	for to < len(t.b) && to-from < 160 && t.b[to] > ' ' && t.b[to] != quote && (quote != 0 || !parts(t.b[to])) {
		to++
	}
	value := t.b[from:to]
	kind := mix(value)
	if port, _, ok := bytes.Cut(value, []byte{':'}); ok && mix(port).lower+mix(port).upper == 0 {
		return false // the ports of a container
	}
	if kind.lower+kind.upper == 0 || kind.digits == 0 || !strongPassword(value, kind) || variable(value) || placeholder(value) || weakPassword(value) {
		return false
	}
	t.add(r, from, to, from, to, Confirmed)
	return true
}
