package scan

import (
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"
	"time"
)

func TestZZHostile(t *testing.T) {
	if os.Getenv("ZZ") == "" {
		t.Skip()
	}
	s := scanner(t)
	pieces := map[string]bool{}
	for _, r := range table() {
		h := expand(r.hits[0], 1)
		for _, w := range s.words {
			_ = w
		}
		words := r.words
		if words == nil && r.expr != "" {
			x, _ := (&classes{}).compile(r.expr)
			words = []string{x.literal}
		}
		for _, w := range words {
			for _, tail := range []string{"", "a", "a1B2", "\n", " ", "-", "aaaaaaaa\n", "a1B2c3D4e5\n", "=", "=\"", "_", ".", "\\\n", "0"} {
				pieces[w+tail] = true
				if len(words) > 3 {
					break
				}
			}
			pieces[w+"aaaaaaaa\n"] = true
		}
		pieces[h+"\n"] = true
		pieces[h] = true
		pieces[h+" "] = true
		pieces[h[:len(h)*3/4]+"\n"] = true
		pieces[h[:len(h)/2]+"\n"+h[len(h)/2:]+"\n"] = true
		pieces[b64(h)+"\n"] = true
		pieces[b64(b64(h))] = true
	}
	for _, p := range []string{
		"\"a\"+\"b\"+", "'a' 'b' ", "`a`+`b`", "\"a\"", "a\"", "%41", "%2541", "%25%34%31", "a\u200b", "\u200b", "\u00ada", "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\nMIIEabc1", "----- ",
		"\\u0041", "\\x41", "&#65;", "&#x41;", "\\\\u0041", "a@b.co ", "a@b.co", "@a", "a@", "jane.doe@acme.io\n", "a b ", "a b c d\n", "[", "1 ", "1-", "123-45-6789 ", "4532015112830366 ", "DE02120300000000202051 ", "DE0212030000000020205 ", "DE00 ", "+1 (415) 867-5309 ", "+1", "+49 30 90182634\n",
		"://", "a://b:c@", "a://b:", "postgres://a:b", "postgres://a:b@c@", "postgres://", "eyJ", "eyJhbGci.", "eyJhbGciOiJIUzI1NiJ9.", "eyJhbGciOiJIUzI1NiJ9.e30.", "machine ", "machine a login b ", "password=", "password=\"", "password: ", "token = \"aA1bB2cC3dD4eE5fF6gG7\"\n", "secret", "\\", "\"", "'", "`", "\\\"", "%", "&#", "&", "\\u", "<", "aGVsbG8gd29ybGQ", "aGVsbG8gd29ybGQgaGVsbG8gd29ybGQg\n", "QUJD", b64(b64(b64("hello world this is text, yes"))),
		"414243", "6162", "0a0a", "41 ", "sk-", "sk-proj-", "sk-proj-aaaa\n", "AAAAAAAAAAAAAAAAAAAAA%3D", "%3D", "%3Da", "\"d\"", "\"d\":\"", "PuTTY-User-Key-File-", "PuTTY-User-Key-File-2 Private-Lines: 1\n", "basic ", "bearer ", "basic aaaaaaaaaaaa", "bearer aaaaaaaaaaaaaaaaaaaaaaaa ", "\xe2", "\xef", "\xc2", "\xf3", "\xf3\xa0\x80\x81", "\xe2\x80", "e\xcd\x8f", "sig=", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\n", "aA1/", "A1b2C3d4E5\n", "twilio ", "twilio:aaaa ", "twilio\n", "wallet 0x", "cloudflare-", "a-", "a_", "a.", "0/1", "1/1", "SK0", "AC0", "SKa", "1.", "x:AA", "1:AA", "ABa", "+ABa", "ACDb", "msh", "jsn", "00d", "eaa", "xapp-1-A", "dapi", "A3-", "a.b.c.", "EAAA",
		"\\n", "\\t", "\\nsk-", "%0asecret", "aws_secret", "ldap ", "ldap=", "jira:", "secret_key", "secret_key=", "eyJhbGciOiJIUzI1NiJ9.eyJhbGciOiJIUzI1NiJ9.eyJhbGciOiJIUzI1NiJ9.", "x-", "glpat-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "sk-ant-api03-", "xoxb-1", "hvs.", "hvs.aaaaaaa", "a1B2c3D4e5F6g7H8i9J0\r\n", "sk_live_aaaa\\\n", "ghp_aaa\n   \n", "ghp_aaa\n                       ",
	} {
		pieces[p] = true
	}
	type res struct {
		p    string
		rate float64
	}
	var all []res
	measure := func(p string, size int) time.Duration {
		text := []byte(strings.Repeat(p, size/len(p)+1)[:size])
		best := time.Hour
		for range 2 {
			b := time.Now()
			s.Score(text, Options{})
			best = min(best, time.Since(b))
		}
		return best
	}
	for p := range pieces {
		if p == "" {
			continue
		}
		d := measure(p, 64<<10)
		all = append(all, res{p, 64. / 1024 / d.Seconds()})
	}
	sort.Slice(all, func(i, j int) bool { return all[i].rate < all[j].rate })
	under := 0
	for _, a := range all {
		if a.rate < 100 {
			under++
		}
	}
	fmt.Printf("%d pieces, %d under 100 MB/s\n", len(all), under)
	for i, a := range all {
		if i < 70 || i%40 == 0 {
			d := measure(a.p, 512<<10)
			fmt.Printf("%8.2f MB/s  %8.2f  %.90q\n", a.rate, .5/d.Seconds(), a.p)
		}
	}
}
