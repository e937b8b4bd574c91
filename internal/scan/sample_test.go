package scan

import (
	"encoding/base64"
	"encoding/hex"
	"math/rand/v2"
	"strconv"
	"strings"
)

// The texts of samples.txt are templates, so that no file of ours holds
// anything that looks like a live secret. {hex 32} is 32 random
// hexadecimal digits; the alphabets are named below. {crc NAME} is the
// checksum of the 30 characters before it, {b64 …} wraps what follows the
// colon.
var alphabets = map[string]string{
	"hex": "0123456789abcdef", "HEX": "0123456789ABCDEF", "num": "0123456789",
	"low": "abcdefghijklmnopqrstuvwxyz", "up": "ABCDEFGHIJKLMNOPQRSTUVWXYZ",
	"let": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz",
	"an":  base62, "lan": "abcdefghijklmnopqrstuvwxyz0123456789", "uan": "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
	"b32": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", "l32": "abcdefghijklmnopqrstuvwxyz234567",
	"url": base62 + "-_", "b64": base62 + "+/", "bech": "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
}

// expand fills a template; the same seed gives the same text.
func expand(template string, seed uint64) string {
	rng := rand.New(rand.NewPCG(seed, 0x5eed))
	var out strings.Builder
	for {
		end := strings.IndexByte(template, '}')
		open := strings.LastIndexByte(template[:max(end, 0)], '{')
		if end < 0 {
			out.WriteString(template)
			return out.String()
		}
		if open < 0 {
			out.WriteString(template[:end+1])
		} else {
			out.WriteString(template[:open])
			out.WriteString(fill(template[open+1:end], out.String(), rng))
		}
		template = template[end+1:]
	}
}

func fill(field, before string, rng *rand.Rand) string {
	name, arg, _ := strings.Cut(field, " ")
	switch name {
	case "crc":
		return Checksum(before[len(before)-30:])
	case "uuid":
		d := fill("hex 32", "", rng)
		return d[:8] + "-" + d[8:12] + "-4" + d[13:16] + "-a" + d[17:20] + "-" + d[20:]
	case "jwt": // a signed token with a payload of random claims
		head := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`))
		body := base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"` + fill("an 12", "", rng) + `","iat":1` + fill("num 9", "", rng) + `}`))
		return head + "." + body + "." + fill("url 43", "", rng)
	case "pem": // the body of a key, in lines
		return strings.TrimRight(strings.Repeat(fill("b64 64", "", rng)+"\n", 6), "\n")
	case "snowflake": // the id of an account in base64, of so many digits
		n, err := strconv.Atoi(arg)
		if err != nil {
			n = 18
		}
		return base64.RawURLEncoding.EncodeToString([]byte("1" + fill("num "+strconv.Itoa(n-1), "", rng)))
	case "grafana":
		return base64.StdEncoding.EncodeToString([]byte(`{"k":"` + fill("an 32", "", rng) + `","n":"deploy","id":1}`))
	case "tob64":
		return base64.StdEncoding.EncodeToString([]byte(arg + fill("an 24", "", rng)))
	case "tohex":
		return hex.EncodeToString([]byte(arg + fill("an 24", "", rng)))
	case "age":
		return ageSample(rng)
	case "card": // arg is the prefix; the last digit is the check digit
		d := []byte(arg + fill("num 20", "", rng))[:15]
		for c := byte('0'); c <= '9'; c++ {
			if luhn(append(d, c)) {
				return string(d) + string(c)
			}
		}
	}
	letters, ok := alphabets[name]
	n, err := strconv.Atoi(arg)
	if !ok || err != nil {
		return "{" + field + "}"
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[rng.IntN(len(letters))]
	}
	// Short values must hold a digit and a letter, as nearly all real ones do.
	if n >= 8 && strings.ContainsRune(letters, '5') && len(letters) > 10 {
		b[n/2] = "234567"[rng.IntN(6)]
		b[n/2+1] = "234567"[rng.IntN(6)]
		if i := strings.IndexByte(letters, 'd'); i >= 0 {
			b[n/3] = 'd'
		} else {
			b[n/3] = 'D'
		}
	}
	return string(b)
}

// ageSample makes a key with a correct checksum: the checksum of the body
// followed by six zeros, with its lowest bit turned, is what the last six
// characters must be.
func ageSample(rng *rand.Rand) string {
	body := strings.ToLower("AGE-SECRET-KEY-1" + fill("bech 52", "", rng))
	sum, _ := bech32([]byte(body + "qqqqqq"))
	sum ^= 1
	for i := range 6 {
		body += string(bech32Letters[sum>>(5*(5-i))&31])
	}
	return strings.ToUpper(body)
}
