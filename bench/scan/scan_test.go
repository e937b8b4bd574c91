// Package scan_test measures the scanner beside a loop of regular expressions,
// one for each rule, and beside gitleaks, all on the same bytes and in one run.
//
//	cd bench && go test -run xxx -bench Scan -benchtime 3x -count 6 ./scan | tee scan.txt
//	benchstat -col /arm scan.txt
//
// Above slowAbove bytes only ours runs, because the others need minutes for
// one text; RW_LONG=1 lets them.
package scan_test

import (
	"bytes"
	"fmt"
	"hash/crc32"
	"os"
	"regexp"
	"runtime"
	"testing"

	"github.com/rs/zerolog"
	"github.com/zricethezav/gitleaks/v8/detect"
	gitleaks "github.com/zricethezav/gitleaks/v8/logging"

	"github.com/resilientwrite/resilientwrite/internal/scan"
)

// An arm reports how many secrets it found in a text.
type arm struct {
	name  string
	start func(tb testing.TB) func(text []byte) int
	slow  bool
}

var arms = []arm{{"ours", ours, false}, {"regexps", loop, true}, {"gitleaks", peer, true}}

// slowAbove is the size of the largest text that the slow arms are given.
const slowAbove = 100 << 10

func ours(tb testing.TB) func([]byte) int {
	s, err := scan.New(nil)
	if err != nil {
		tb.Fatal(err)
	}
	return func(text []byte) int {
		r := s.Score(text, scan.Options{})
		return len(r.Findings) + r.Omitted
	}
}

// byCode are expressions for the formats that our table finds by code, as the
// rules of other scanners have them.
var byCode = []string{
	`-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----[\s\S]{40,}?-----END`,
	`\b[a-z][a-z0-9+.-]{1,20}://[^\s:/@"']{0,64}:[^\s/@"']{3,128}@[\w.-]+`,
	`(?i)\b[\w.-]{0,40}(?:secret|token|passw(?:or)?d|passphrase|pwd|api[_-]?key|access[_-]?key|credential)[\w.-]{0,20}["']?\s{0,5}(?:=|:|:=|=>)\s{0,5}["'` + "`" + `]?([\w.=+/~!@#%^*-]{8,128})`,
	`(?i)curl\b.{0,200}(?:-u|--user) ?["']?([^\s:]{1,40}:[^\s"']{8,80})`,
	`(?i)machine\s+\S+\s+login\s+\S+\s+password\s+(\S{8,})`,
	`(?i)\b(?:password|pwd)=([^;"'\s]{6,128})`,
	`(?i)client-key-data:\s*([A-Za-z0-9+/=]{80,})`,
	`[\w.%+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{2,63})+`,
	`\b\d{3}-\d{2}-\d{4}\b`, `\b(?:\d[ -]?){13,19}\b`, `\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}`, `\+\d{1,3}[ (-]{0,2}\d[\d -]{8,14}`,
}

// loop tries one expression after the other, as many small scanners do.
func loop(tb testing.TB) func([]byte) int {
	var all []*regexp.Regexp
	seen := map[string]bool{}
	for _, r := range scan.Rules() {
		if r.Expr != "" && !seen[r.Expr] {
			seen[r.Expr] = true
			all = append(all, regexp.MustCompile(r.Expr))
		}
	}
	for _, e := range byCode {
		all = append(all, regexp.MustCompile(e))
	}
	if len(all) < 300 {
		tb.Fatalf("%d expressions", len(all))
	}
	return func(text []byte) int {
		n := 0
		for _, re := range all {
			n += len(re.FindAllIndex(text, -1))
		}
		return n
	}
}

// peer is gitleaks with the rules it comes with.
func peer(tb testing.TB) func([]byte) int {
	gitleaks.Logger = gitleaks.Logger.Level(zerolog.Disabled)
	d, err := detect.NewDetectorDefaultConfig()
	if err != nil {
		tb.Fatal(err)
	}
	return func(text []byte) int { return len(d.DetectBytes(text)) }
}

func BenchmarkScan(b *testing.B) {
	for _, c := range classes {
		for _, size := range []int{1 << 10, 100 << 10, 1 << 20, 64 << 20} {
			text := sized(c.text, size)
			for _, a := range arms {
				if a.slow && size > slowAbove && os.Getenv("RW_LONG") == "" {
					continue
				}
				b.Run(fmt.Sprintf("class=%s/size=%dKiB/arm=%s", c.name, size>>10, a.name), func(b *testing.B) {
					find := a.start(b)
					b.SetBytes(int64(size))
					b.ReportAllocs()
					for b.Loop() {
						runtime.KeepAlive(find(text))
					}
				})
			}
		}
	}
}

// token is a personal access token of GitHub with a correct checksum.
func token() []byte {
	const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	random := noise(base62, 30)
	sum, tail := crc32.ChecksumIEEE(random), make([]byte, 6)
	for i := 5; i >= 0; i-- {
		tail[i] = base62[sum%62]
		sum /= 62
	}
	return append(append([]byte("ghp_"), random...), tail...)
}

// What is measured is a scan: each arm finds one more secret in a text of any
// class when a token is put into it, and ours finds none in ordinary text.
func TestArmsFindAToken(t *testing.T) {
	for _, a := range arms {
		find := a.start(t)
		for _, c := range classes {
			text := sized(c.text, 4<<10)
			before := find(text)
			with := bytes.Join([][]byte{text[:2<<10], []byte("\nkey: "), token(), []byte("\n"), text[2<<10:]}, nil)
			if after := find(with); after <= before {
				t.Errorf("%s in %s: %d found without the token, %d with it", a.name, c.name, before, after)
			}
			if ordinary := c.name == "source" || c.name == "english" || c.name == "lockfile"; ordinary && a.name == "ours" && before > 0 {
				t.Errorf("%s in %s: %d found in ordinary text", a.name, c.name, before)
			}
		}
	}
}
