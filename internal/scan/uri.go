package scan

import "bytes"

// databases are the schemes whose URI is the key to a data store.
var databases = map[string]bool{
	"postgres": true, "postgresql": true, "mysql": true, "mariadb": true, "mongodb": true, "mongodb+srv": true,
	"redis": true, "rediss": true, "amqp": true, "amqps": true, "mssql": true, "sqlserver": true, "oracle": true,
	"cassandra": true, "clickhouse": true, "couchdb": true, "couchbase": true, "cockroachdb": true, "neo4j": true,
	"neo4j+s": true, "bolt": true, "influxdb": true, "kafka": true, "nats": true, "mqtt": true, "mqtts": true, "stomp": true,
	"ldap": true, "ldaps": true, "snowflake": true, "redshift": true, "presto": true, "trino": true, "db2": true,
	"vertica": true, "cockroach": true, "tds": true, "hana": true, "memcached": true, "elasticsearch": true, "opensearch": true,
	"mysql2": true, "mysqlx": true, "asyncpg": true, "postgresql+psycopg2": true, "postgresql+asyncpg": true, "mysql+pymysql": true, "mssql+pyodbc": true, "mysql+mysqlconnector": true, "oracle+cx_oracle": true,
}

// maxAuthority bounds the part of a URI that is looked at for a password.
const maxAuthority = 320

// lookURI finds a password in the authority of a URI (RFC 3986, 3.2.1):
// scheme://user:password@host. What looks like an example is passed over.
func lookURI(t *text, r *rule, pos, end int) {
	if limit := min(len(t.b), end+maxAuthority); bytes.IndexByte(t.b[end:limit], '@') < 0 {
		return
	}
	start := behind(t.b, pos, 24, func(c byte) bool { return inName(c) || c == '+' })
	start += t.escapeAt(start)
	for start < pos && !letter(t.b[start]) {
		start++ // a scheme begins with a letter: the sign of a diff is not part of it
	}
	if start >= pos {
		return
	}
	var low [24]byte
	for i, c := range t.b[start:pos] {
		low[i] = lower(c)
	}
	isDB := databases[string(low[:pos-start])]
	if isDB != (r.family == familyDB) {
		return
	}
	colon, at := t.userinfo(end, isDB)
	if colon < 0 || at < colon+2 {
		return
	}
	pass := t.b[colon+1 : at]
	user := t.b[end:colon]
	if len(user) == 0 && !isDB || len(pass) < 3 || variable(pass) || len(user) > 0 && variable(user) || bytes.ContainsAny(pass, "<>{}[]|") || pass[0] == '$' || bytes.HasPrefix(pass, []byte("%s")) {
		return
	}
	s, plain := measured(pass), plainPercent(pass)
	if s.placeholder(pass) {
		return
	}
	if len(plain) < len(pass) {
		s = measured(plain)
	}
	if s.weakPassword(plain) || exampleHost(t.b[at+1:min(len(t.b), at+80)]) || bytes.EqualFold(user, pass) {
		return
	}
	c := Confirmed
	if !s.strongPassword() && !(s.digits > 0 && s.length >= 12 && s.wordy() < 0.9) {
		if c = Likely; (weakPassword(user) || saysPassword(plain)) && len(user) > 0 || !realHost(t.b[at+1:min(len(t.b), at+80)]) {
			return // user:something, in a manual
		}
	}
	t.add(r, start, ahead(t.b, at+1, 119, func(c byte) bool { return inName(c) || c == ':' }), colon+1, at, c)
}

// userinfo is where user and password are parted and where they end; the
// passwords of data stores may hold what should have been encoded.
func (t *text) userinfo(from int, isDB bool) (colon, at int) {
	colon, at = -1, -1
	limit, signs := min(len(t.b), from+maxAuthority), 0
	t.runs.work += limit - from
	for i := from; i < limit; i++ {
		switch c := t.b[i]; {
		case c == '@':
			at = i
			rest := t.b[i+1 : max(i+1, min(limit, i+64))]
			if signs++; isDB && signs < 4 && bytes.IndexByte(rest, '@') >= 0 && !spaceBefore(rest, '@') {
				continue // a password with an @ in it
			}
			return colon, at
		case c == ':':
			if colon < 0 {
				colon = i
			}
		case ends(c) || c == '`' || c == '\\' || c == ')', colon < 0 && (c == '<' || c == '?' || c == ',' || c == '('), c == '/' && (colon < 0 || !isDB):
			return colon, at
		}
	}
	return colon, at
}

// plainPercent is a part of an address without its percent-encoding.
func plainPercent(v []byte) []byte {
	if bytes.IndexByte(v, '%') < 0 {
		return v
	}
	plain := make([]byte, 0, len(v))
	for i := 0; i < len(v); i++ {
		if c, width := unescape(v[i:]); v[i] == '%' && width > 0 {
			plain = append(plain, byte(c))
			i += width - 1
			continue
		}
		plain = append(plain, v[i])
	}
	return plain
}

// spaceBefore reports whether white space or a quote comes before stop.
func spaceBefore(b []byte, stop byte) bool {
	for _, c := range b {
		if c == stop {
			return false
		}
		if c <= ' ' || c == '"' || c == '\'' || c == '/' || c == ',' {
			return true
		}
	}
	return true
}

// exampleHost reports whether a host is one of documentation and tests
// (RFC 2606, RFC 5737).
func exampleHost(b []byte) bool {
	end := ahead(b, 0, len(b), inName)
	var buf [64]byte
	if end > len(buf) {
		b, end = b[end-len(buf):], len(buf)
	}
	host := buf[:end]
	for i, c := range b[:end] {
		host[i] = lower(c)
	}
	dot := bytes.LastIndexByte(host, '.')
	switch string(host[dot+1:]) {
	case "", "example", "test", "invalid", "host", "hostname", "localhost", "server", "your-host":
		return true
	}
	two := host[bytes.LastIndexByte(host[:max(dot, 0)], '.')+1:]
	switch string(two) {
	case "example.com", "example.org", "example.net", "foo.com", "domain.com":
		return true
	}
	return string(host) == "127.0.0.1"
}

// realHost reports whether a host is one of the network: a name of several
// parts, whose last is a domain.
func realHost(b []byte) bool {
	end := ahead(b, 0, len(b), inName)
	dot := bytes.LastIndexByte(b[:end], '.')
	return dot > 0 && end-dot > 2
}

// saysPassword reports whether a password only says that it is one.
func saysPassword(v []byte) bool {
	return measured(v).digits == 0 && (containsFold(v, "pass") || containsFold(v, "secret") || containsFold(v, "word"))
}

// weakWords are used in place of passwords in documents and tests.
var weakWords = map[string]bool{
	"password": true, "passwd": true, "pass": true, "pwd": true, "secret": true, "test": true, "testing": true, "user": true,
	"admin": true, "root": true, "guest": true, "foo": true, "bar": true, "baz": true, "foobar": true, "postgres": true,
	"mysql": true, "mongo": true, "redis": true, "example": true, "changeme": true, "hunter2": true, "letmein": true, "welcome": true,
	"qwerty": true, "token": true, "key": true, "none": true, "null": true, "nil": true, "undefined": true, "true": true, "false": true,
	"xxx": true, "abc": true, "abc123": true, "123": true, "1234": true, "12345": true, "123456": true, "12345678": true, "password1": true,
	"password123": true, "passw0rd": true, "p@ssw0rd": true, "p@ssword": true, "pw": true, "mypassword": true, "my-password": true, "my_password": true,
	"secretpassword": true, "yourpassword": true, "your_password": true, "user_password": true, "dbpassword": true, "pass123": true, "test123": true, "admin123": true, "mysecretpassword": true, "supersecret": true, "s3cret": true, "s3cr3t": true, "secret123": true, "string": true, "value": true, "opensesame": true, "open sesame": true, "gx1fbat3bv": true, "gx1fbatvbw": true, "ignored": true, "my pass": true,
}

// weakPassword reports whether v is not meant as a password.
func weakPassword(v []byte) bool {
	s := measured(v)
	return s.weakPassword(v)
}

// weakPassword is the same for a value of that shape.
func (s *shape) weakPassword(v []byte) bool {
	return s.kinds < 3 || s.monotonous() || len(v) > 64 && measured(v[:64]).kinds < 3 || weakWord(v)
}

// weakWord reports whether v is a word used in place of a password, or begins
// and ends with one but for digits.
func weakWord(v []byte) bool {
	if len(v) > 48 {
		return false
	}
	var low [16]byte // as long as the longest
	from, to := 0, len(v)
	for to > 0 && weakEnd[v[to-1]] {
		to--
	}
	for from < to && weakEnd[v[from]] {
		from++
	}
	for _, word := range [...][]byte{v, v[from:to]} {
		if len(word) > len(low) || len(word) == 0 || weakLengths[lower(word[0])]>>len(word)&1 == 0 {
			continue
		}
		for i, c := range word {
			low[i] = lower(c)
		}
		if weakWords[string(low[:len(word)])] {
			return true
		}
	}
	return false
}

// weakEnd marks what may be around such a word.
var weakEnd = bytesThat(func(c byte) bool { return digit(c) || bytes.IndexByte([]byte("!._-*"), c) >= 0 })

// weakLengths has a bit for each length of such words that begin with a byte.
var weakLengths = func() (bits [256]uint32) {
	for w := range weakWords {
		bits[w[0]] |= 1 << len(w)
	}
	return bits
}()

// strongPassword reports whether a value was generated or chosen as a real password:
// several kinds of characters and no plain word.
func (s *shape) strongPassword() bool {
	kinds := 0
	for _, n := range [...]int{s.lower, s.upper, s.digits, s.other} {
		if n > 0 {
			kinds++
		}
	}
	switch {
	case s.length < 8:
		return false
	case kinds >= 3:
		return true
	case kinds == 2 && s.digits >= 2:
		return s.turns >= 3 || s.length >= 16
	}
	return s.length >= 12 && s.wordy() < 0.6
}
