package scan

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"hash/crc32"
)

// A check judges the inside of a match.
type check func(secret []byte) outcome

type outcome int

const (
	passes outcome = iota // it may be one
	proven                // a checksum is right
	fails                 // a checksum is wrong: likely, not confirmed
	isNone                // it is something else
)

// made is a check of what a secret is made of behind its prefix, and that it is
// no more of a word than that.
func made(prefix int, word float64, of func(*shape) bool) check {
	return func(secret []byte) outcome {
		if s := measured(secret[prefix:]); !of(&s) || word < 1 && s.wordy() > word {
			return isNone
		}
		return passes
	}
}

const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"

// Checksum is the six digits that end the tokens of GitHub and npm: the CRC-32
// (IEEE) of the 30 characters before, in base 62, padded with zeros
// (github.blog, "Behind GitHub's new authentication token formats", 2021).
func Checksum(random string) string {
	n := crc32.ChecksumIEEE([]byte(random))
	var out [6]byte
	for i := 5; i >= 0; i-- {
		out[i] = base62[n%62]
		n /= 62
	}
	return string(out[:])
}

// crcTail checks a token whose last 36 characters are 30 random ones and
// their checksum.
func crcTail(secret []byte) outcome {
	tail := string(secret[len(secret)-36:])
	if tail[30:] == Checksum(tail[:30]) {
		return proven
	}
	return fails
}

// luhn is the check digit of payment cards (ISO/IEC 7812-1).
func luhn(digits []byte) bool {
	sum, double := 0, false
	for i := len(digits) - 1; i >= 0; i-- {
		d := int(digits[i] - '0')
		if double {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
		double = !double
	}
	return sum%10 == 0
}

// mod97 is the check of an IBAN (ISO 13616): moved round, letters as numbers,
// the remainder by 97 is 1.
func mod97(iban []byte) bool {
	rest := 0
	for i := range iban {
		c := iban[(i+4)%len(iban)]
		if digit(c) {
			rest = (rest*10 + int(c-'0')) % 97
		} else {
			rest = (rest*100 + int(c-'A') + 10) % 97
		}
	}
	return rest == 1
}

// jwtHeader reports whether the first part of a token is the header of a JWS
// or JWE (RFC 7515, RFC 7516): a JSON object with one of the parameters that are
// registered for it.
func jwtHeader(part []byte) bool {
	raw, err := base64.RawURLEncoding.DecodeString(string(bytes.TrimRight(part, "=")))
	if err != nil {
		return false
	}
	var h map[string]json.RawMessage
	if json.Unmarshal(raw, &h) != nil {
		return false
	}
	for _, key := range []string{"alg", "typ", "enc", "kid", "jku", "jwk", "x5u", "x5c", "x5t", "x5t#S256", "cty", "crit", "zip", "epk", "apu", "apv", "iv", "tag", "p2s", "p2c"} {
		if _, ok := h[key]; ok {
			return true
		}
	}
	return false
}

// ssnRange reports whether nine digits can be a social security number: no
// area 000, 666 or 900 and above, no group 00, no serial 0000 (ssa.gov).
func ssnRange(d []byte) bool {
	area, group, serial := string(d[:3]), string(d[3:5]), string(d[5:9])
	return area != "000" && area != "666" && area[0] != '9' && group != "00" && serial != "0000"
}

// bech32Letters is the alphabet of age keys (BIP 173).
const bech32Letters = "qpzry9x8gf2tvdw0s3jn54khce6mua7l"

// bech32 computes the checksum of a bech32 text in lower case (BIP 173): 1 for
// one whose last six characters are right. ok is false for other characters.
func bech32(low []byte) (sum uint32, ok bool) {
	sep := bytes.LastIndexByte(low, '1')
	if sep < 1 {
		return 0, false
	}
	sum = 1
	feed := func(v byte) {
		top := sum >> 25
		sum = sum&0x1ffffff<<5 ^ uint32(v)
		for i, g := range [5]uint32{0x3b6a57b2, 0x26508e6d, 0x1ea119fa, 0x3d4233dd, 0x2a1462b3} {
			if top>>i&1 == 1 {
				sum ^= g
			}
		}
	}
	for _, c := range low[:sep] {
		feed(c >> 5)
	}
	feed(0)
	for _, c := range low[:sep] {
		feed(c & 31)
	}
	for _, c := range low[sep+1:] {
		v := bytes.IndexByte([]byte(bech32Letters), c)
		if v < 0 {
			return 0, false
		}
		feed(byte(v))
	}
	return sum, true
}

func ageKey(secret []byte) outcome {
	if sum, ok := bech32(bytes.ToLower(secret)); ok && sum == 1 {
		return proven
	}
	return fails
}
