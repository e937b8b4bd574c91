// Package texts provides the input of the scanner's benchmarks: ordinary texts,
// recipes of hostile ones, and a clock of CPU time.
package texts

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Recipe makes a text of any length: the words of the unit one after the other,
// wrapped from the first to the last of Wrap, repeated. In a word {an 20}
// stands for 20 random letters and digits, different in each repetition.
type Recipe struct {
	Unit []string `json:"unit"`
	Wrap []string `json:"wrap,omitempty"`
}

// Wraps are the names that Wrap may have.
var Wraps = []string{"base64", "base64 lines", "base64 url", "hex", "hex lines", "percent", "backslash x", "backslash u", "entity", "quoted-printable", "concat", "zero width", "spaced", "gzip", "json", "utf-16"}

// Text returns the first n bytes of the recipe's text. The same recipe always
// gives the same text.
func (r Recipe) Text(n int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	var out bytes.Buffer
	for out.Len() < n {
		before := out.Len()
		unit := []byte(expand(strings.Join(r.Unit, ""), rng))
		for _, w := range r.Wrap {
			unit = wrap(w, unit)
		}
		out.Write(unit)
		if out.Len() == before {
			out.WriteByte(' ')
		}
	}
	return out.Bytes()[:n]
}

var alphabets = map[string]string{
	"an": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789", "b64": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
	"hex": "0123456789abcdef", "num": "0123456789", "let": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", "lan": "abcdefghijklmnopqrstuvwxyz0123456789",
}

// expand fills the fields of a word.
func expand(word string, rng *rand.Rand) string {
	var out strings.Builder
	for {
		open := strings.IndexByte(word, '{')
		if open < 0 {
			out.WriteString(word)
			return out.String()
		}
		out.WriteString(word[:open])
		word = word[open:]
		end := strings.IndexByte(word, '}')
		name, arg, _ := strings.Cut(word[1:max(end, 1)], " ")
		n, err := strconv.Atoi(arg)
		letters := alphabets[name]
		if end < 0 || err != nil || letters == "" || n < 0 || n > 4096 {
			out.WriteByte('{')
			word = word[1:]
			continue
		}
		for range n {
			out.WriteByte(letters[rng.IntN(len(letters))])
		}
		word = word[end+1:]
	}
}

func wrap(how string, b []byte) []byte {
	switch how {
	case "base64":
		return []byte(base64.StdEncoding.EncodeToString(b))
	case "base64 url":
		return []byte(base64.RawURLEncoding.EncodeToString(b))
	case "base64 lines":
		return inLines(base64.StdEncoding.EncodeToString(b), 76)
	case "hex":
		return []byte(hex.EncodeToString(b))
	case "hex lines":
		return inLines(hex.EncodeToString(b), 64)
	case "gzip":
		var z bytes.Buffer
		w := gzip.NewWriter(&z)
		w.Write(b)
		w.Close()
		return []byte(base64.StdEncoding.EncodeToString(z.Bytes()))
	case "json":
		return []byte(strconv.Quote(string(b)))
	}
	f := map[string]string{"percent": "%%%02x", "backslash x": `\x%02x`, "backslash u": `\u%04x`, "entity": "&#%d;", "quoted-printable": "=%02X", "concat": "\"%c\" + ", "zero width": "%c\u200b", "spaced": "%c ", "utf-16": "%c\x00"}[how]
	var out bytes.Buffer
	for _, c := range b {
		fmt.Fprintf(&out, f, c)
	}
	return out.Bytes()
}

// inLines returns a text in lines of n characters.
func inLines(s string, n int) []byte {
	var out bytes.Buffer
	for len(s) > n {
		out.WriteString(s[:n] + "\n")
		s = s[n:]
	}
	out.WriteString(s + "\n")
	return out.Bytes()
}

// Hostile are texts that were slow once. A search starts with them.
var Hostile = []struct {
	Name string
	Recipe
}{
	{"glued keys", Recipe{Unit: []string{"n", "AI21_API_KEY={an 32}", "AI21_API_KEY={an 32}", "AI21_API_KEY={an 32}", "\\n", "AI21_API_KEY={an 32}", "0", "password=", "password=", "k-o", "AI21_API_KEY={an 32}", "'", "'", "\\101", "n", "sk", "AI21_API_KEY={an 32}", "AI21_API_KEY={an 32}", "AI21_API_KEY={an 32}", "AI21_API_KEY={an 32}", "\\n"}}},
	{"glued names, escaped", Recipe{Unit: []string{"%41", "H4sI", "http", "_gitlab_", "passwordd=", "PUSHER_APP_SECRET={hex 20}", "MANDRILL", "FINNHUB_API_KEY={lan 20}", "glpa", "\ufffd", "{\"auths\": {\"ghcr", "PUSHER_APP_SECRET={hex 20}", "Se", "GGQV", "tske", "PUSHER_APP_SECRET={hex 20}", "GGQ", "PUSHER_APP_SECRET={hex 20}", "xoxe.xox", "\u00ad", "pdl_live", "PPK\x03\x04", "passwordd="}}},
	{"glued names, hyphenated", Recipe{Unit: []string{"ghs_", "SNYK", "IGQV", "GQV", "PUSHER_APP_SECRET={hex 20}", "AQEy", "\u00ad", "PUSHER_APP_SECRET={hex 20}", "GQV", "ghs_", "ADOB", "ADOB", "GQV", "PUSHER_APP_SECRET={hex 20}", "PUSHER_APP_SECRET={hex 20}", "\u00ad", "ADOB", "vcp_"}}},
	{"packed values", Recipe{Unit: []string{"pay\u200bload", "ALGOLIA_ADMIN_KEY={hex 32}", "ALGOLIA_ADMIN_KEY={hex 32}", "pay\u200bload", "pay\u200bload", "SEND", "ASSEMBLYAI_API_KEY={hex 32}", "xoxa", "WEATHERSTACK_API_KEY={hex 32}", "pay\u200bload", "PODIO_API_KEY={an 32}", "tk-us-{a", "ALGOLIA_ADMIN_KEY={hex 32}", "pay\u2000\ufffdload", "xoxa", "SEND", "pay\u200bload", "PODIO_API_KEY={an 32}", "PRIVATE_", "VULT", "ALGOLIA_ADMIN_KEY={hex 32}", "SEND", "pay\u200bload", "pay\u200bload"}, Wrap: []string{"gzip", "json"}}},
	{"glued values", Recipe{Unit: []string{"AI21_API_KEY={an 32}", "sk-proj-", "LDAP_BIND_PASSWORD={an 20}", "sk-o", "'", "'", "password=", "\\n", "NRAK-{la", "ADAFRUIT_API_KEY", "OPSGENIE", "\\101", "password="}}},
	{"glued values, longer", Recipe{Unit: []string{"LDAP_BIND_PASSWORD={an 20}", "AI21_API_KEY={an 32}", "sk-proj-", "APP_USR-", "password=", "FINICITY_TOKEN={hex 32}", "sk-o", "'", "'", "password=", "GITEA_TOKEN={hex 40}", "\\n", "NRAK-{la", "ADAFRUIT_API_KEY", "\\101", "password=", "sgp_", "AQ.Ab8R{", "VULT", "\" \"", "sgp_", "password", "sgp_"}}},
	{"glued joints", Recipe{Unit: []string{"https://prod-01.westus.logic.azure.com:443/workflows/{hex 32}/triggers?sp=%2Frun&sig={an 43}", "LDAP_BIND_PASSWORD={an 20}", "' . '", "aws_secr", "AI21_API_KEY={an 32}", "\" \"", "sk-proj-"}}},
	{"glued escapes", Recipe{Unit: []string{"%41", "\\u0041", "a\u200bb", "&#65;", "FINNHUB_API_KEY={lan 20}", "password=", "STABILITY_API_KEY={an 64}", "ASSE", "WEATHERSTACK_API_KEY={hex 32}", "\\u{41}", "password=", "password="}}},
	{"false archives", Recipe{Unit: []string{"\x1f\x8b\b", "\x1f\x8b\b", "SPOTIFY_CLIENT_SECRET={hex 32}", "PK\x03\x04", "%41", "H4sI", "a\u200bb", "STABILITY_API_KEY={an 64}", "password=", "FINNHUB_API_KEY={lan 20}"}}},
	{"every kind of escape", Recipe{Unit: []string{"%41", "\\x41", "\\u0041", "&#65;", "A", "\\101", "\\u{41}", "=41", "a\u200bb", "password=", "{an 12}"}}},
	{"escapes of escapes", Recipe{Unit: []string{"{an 8}", "=", "%5cx26%5cx2341;", "%255cu0041", "&#37;41", "\\x25\\x34\\x31"}}},
	{"prefixes", Recipe{Unit: []string{"sk-ant-api03-ghp_AKIAxoxb-eyJ glpat-AIza npm_hf_\n"}}},
	{"keywords", Recipe{Unit: []string{"password=token secret_key: datadog aws_secret api_key=\n"}}},
	{"headers of keys", Recipe{Unit: []string{"-----BEGIN RSA PRIVATE KEY-----\nMIIE"}}},
	{"at signs", Recipe{Unit: []string{"postgres://a:b@c@\n"}}},
}
