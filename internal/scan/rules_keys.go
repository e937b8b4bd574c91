package scan

// Private keys and signed tokens.
var rulesKeys = []rule{
	{id: "pem_private_key", family: familyPEM, what: "Private key in PEM: PKCS #8, RSA, EC, DSA, OpenSSH, PGP", words: []string{"-----begin "}, look: lookPEM},
	{id: "putty_private_key", family: familyKey, what: "PuTTY private key", words: []string{"putty-user-key-file-"}, look: lookPuTTY},
	{id: "age_secret_key", family: familyKey, what: "age identity", expr: `(?i)AGE-SECRET-KEY-1[qpzry9x8gf2tvdw0s3jn54khce6mua7l]{58}`, check: ageKey},
	{id: "jwk_private_key", family: familyKey, what: "Private part of a JSON Web Key", words: []string{`"d":`, `"d" `}, look: lookJWK},
	{id: "jwt_triplet", family: familyJWT, what: "JSON Web Token", words: []string{"eyj"}, expr: `eyJ[\w=-]{8,}\.`, starts: true, place: inToken, look: lookJWT},
	{id: "bearer_token", family: familyAPIKey, what: "Token in an Authorization header", words: []string{"bearer ", "authorization: token", "authorization: apikey"}, expr: `[\w.~+/=-]{20,}`, starts: true, look: lookAuthorization},
	{id: "basic_credentials", family: familyBasic, what: "Credentials in an Authorization header", words: []string{"basic "}, expr: `[A-Za-z0-9+/]{10,400}={0,2}`, starts: true, look: lookAuthorization},
}

// lookPuTTY finds the private lines of a PuTTY key file.
func lookPuTTY(t *text, r *rule, pos, end int) {
	if pos < t.pem {
		return
	}
	stop := min(len(t.b), pos+maxKeyBody)
	at := indexOf(t.b[pos:stop], "Private-Lines:")
	if at < 0 {
		t.pem = stop
		return
	}
	from := pos + at
	last, chars := from, 0
	for i := from + len("Private-Lines:"); i < stop; i++ {
		c := t.b[i]
		switch {
		case inRun[c] || c == '=':
			chars++
			last = i + 1
		case c == ':' || isSpace(c):
		default:
			stop = i
		}
		if c == 'P' && hasPrefixAt(t.b, i, "Private-MAC", false) {
			break
		}
	}
	t.pem = last
	if chars < minKeyBody {
		return
	}
	t.add(r, pos, last, from, last, Confirmed)
}

// lookJWK finds the private exponent or scalar of a JSON Web Key (RFC 7518).
func lookJWK(t *text, r *rule, pos, end int) {
	v, ok := t.assigned(pos + len(`"d"`))
	if !ok || !v.quoted || v.to-v.from < 43 || v.to-v.from > 512 {
		return
	}
	value := t.b[v.from:v.to]
	s := measured(value)
	if s.digits == 0 || s.upper == 0 || s.lower == 0 || s.placeholder(value) {
		return
	}
	if around := t.b[max(0, pos-900):min(len(t.b), v.to+900)]; indexOf(around, `"kty"`) < 0 {
		return
	}
	t.add(r, v.start, v.end, v.from, v.to, Confirmed)
}
