package scan_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	gobuild "go/build"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/scan"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// texts are what scanners meet, from ordinary to hostile; size in bytes.
func texts(size int) map[string][]byte {
	rng := rand.New(rand.NewPCG(1, 2))
	fill := func(piece func() string) []byte {
		var b bytes.Buffer
		for b.Len() < size {
			b.WriteString(piece())
		}
		return b.Bytes()[:size]
	}
	words := strings.Fields("the store writes every file so that a crash leaves the old bytes or the new ones and keeps what was there before because nobody wants to lose a draft that took an hour to make")
	noise := func(letters string) func() string {
		return func() string {
			b := make([]byte, 4096)
			for i := range b {
				b[i] = letters[rng.IntN(len(letters))]
			}
			return string(b)
		}
	}
	value := func() string { return noise("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")()[:32] }
	return map[string][]byte{
		"go": fill(goSource()),
		"english": fill(func() string {
			return words[rng.IntN(len(words))] + []string{" ", " ", " ", ", ", ".\n"}[rng.IntN(5)]
		}),
		"minified": fill(func() string {
			return fmt.Sprintf("function %c%d(e,t){return e.%c&&t(\"%x\")||{key:e.token,a:[%d,%d]}};", 'a'+rng.IntN(26), rng.IntN(99), 'a'+rng.IntN(26), rng.IntN(1<<20), rng.IntN(9), rng.IntN(9))
		}),
		"lockfile": fill(func() string {
			return fmt.Sprintf("    \"node_modules/p%d\": {\n      \"version\": \"%d.%d.1\",\n      \"integrity\": \"sha512-%s==\"\n    },\n", rng.IntN(999), rng.IntN(9), rng.IntN(20), noise("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")()[:86])
		}),
		"base64":   fill(noise("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")),
		"hex":      fill(noise("0123456789abcdef")),
		"binary":   fill(func() string { return string([]byte{byte(rng.IntN(256))}) }),
		"cjk":      fill(func() string { return string(rune(0x4e00 + rng.IntN(5000))) }),
		"letter":   fill(func() string { return strings.Repeat("a", 4096) }),
		"at":       fill(func() string { return strings.Repeat("@", 4096) }),
		"dots":     fill(func() string { return strings.Repeat("a.", 2048) }),
		"brackets": fill(func() string { return strings.Repeat("[", 4096) }),
		"digits":   fill(func() string { return strings.Repeat("1234 5678 ", 400) }),
		"headers":  fill(func() string { return "-----BEGIN RSA PRIVATE KEY-----\nMIIE" }),
		"keywords": fill(func() string { return "password=token secret_key: datadog " }),
		"prefixes": fill(func() string { return "sk-ant-api03-ghp_AKIAxoxb-eyJ " }),
		"percent":  fill(func() string { return "%41%42%43" }),
		"quotes":   fill(func() string { return "\"a\" + \"b\" + " }),
		"spread":   fill(func() string { return "a b c d e f " }),
		"zero":     fill(func() string { return "a\u200bb\u200b" }),
		"urls":     fill(func() string { return "http://a:b://c:d@" }),
		"lines":    fill(func() string { return "sk-aaaaa\n" }),

		"names":         fill(func() string { return "datadog cloudflare twilio " }),
		"assigned":      fill(func() string { return "pwd=" }),
		"connections":   fill(func() string { return "password=a1B2c3D4e5\n" }),
		"long prefixes": fill(func() string { return "sk-ant-api03-" }),
		"projects":      fill(func() string { return "sk-proj-aaaa\n" }),
		"databases":     fill(func() string { return "postgres://a:b@c@" }),
		"netrc":         fill(func() string { return "machine a login b " }),
		"workflows":     fill(func() string { return "logic.azure.com." }),
		"twice": fill(func() string {
			return base64.StdEncoding.EncodeToString([]byte("aGVsbG8gd29ybGQsIHRoaXMgaXMgdGV4dA==\n"))
		}),
		"escapes":       fill(func() string { return "\\u0041\\x42&#67;%44 " }),
		"percent twice": fill(func() string { return "%2541%25%34%31 " }),
		"grapheme":      fill(func() string { return "e\u034f " }),
		"addresses":     fill(func() string { return "jane.doe@acme.io\n" }),
		"short address": fill(func() string { return "a@b.co" }),
		"begin":         fill(func() string { return "-----BEGIN " }),
		"begin key":     fill(func() string { return "-----BEGIN PRIVATE KEY-----" }),
		"secrets":       fill(func() string { return "LDAP_BIND_PASSWORD=GHl9hkdcz0mE\n" }),

		// What a search by mutation found to be slow: bench/scan/worst.
		"glued escapes": fill(func() string {
			return "%41\\u0041a\u200bb&#65;FINNHUB_API_KEY=" + value() + "password=STABILITY_API_KEY=" + value() + "\\u{41}password=\\x41=41\\101"
		}),
		"glued values": fill(func() string {
			return "AI21_API_KEY=" + value() + "\" \"LDAP_BIND_PASSWORD=" + value() + "''password=DEEPGRAM_API_KEY=" + value() + "\\u{41}"
		}),
		"glued joints": fill(func() string {
			return "https://prod-01.westus.logic.azure.com:443/workflows/" + value() + "/triggers?sp=%2Frun&sig=" + value() + "LDAP_BIND_PASSWORD=" + value() + "' . 'AI21_API_KEY=" + value() + "\" \"sk-proj-"
		}),
	}
}

// goSource repeats files of the standard library.
func goSource() func() string {
	files, _ := filepath.Glob(filepath.Join(gobuild.Default.GOROOT, "src", "net", "http", "*.go"))
	i := 0
	return func() string {
		if len(files) == 0 {
			return "func f(a int) error { return nil }\n"
		}
		b, _ := os.ReadFile(files[i%len(files)])
		i++
		return string(b) + "\n"
	}
}

func BenchmarkScore(b *testing.B) {
	s := testbed.Must(scan.New(nil))(b)
	for name, text := range texts(1 << 20) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				s.Score(text, scan.Options{})
			}
		})
	}
}

// No text may cost more than its length: at half a megabyte, what is not linear
// takes minutes rather than seconds.
func TestEveryTextIsLinear(t *testing.T) {
	s := testbed.Must(scan.New(nil))(t)
	for name, text := range texts(512 << 10) {
		end := testbed.Within(t, 5*time.Second, name)
		s.Score(text, scan.Options{})
		end()
	}
}

func BenchmarkSizes(b *testing.B) {
	s := testbed.Must(scan.New(nil))(b)
	for _, size := range []int{1 << 10, 100 << 10, 1 << 20, 64 << 20} {
		text := texts(size)["go"]
		b.Run(fmt.Sprint(size>>10, "KiB"), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				st := s.NewStream(scan.Options{})
				st.Write(text)
				st.Report()
			}
		})
	}
}
