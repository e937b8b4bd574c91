package scan

import (
	"bytes"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// hostile are pieces of text that cost much when they are repeated.
var hostile = []string{
	"a", "@", "a.", "[", "\"", "\\", "%", "=", "-----BEGIN ", "-----BEGIN RSA PRIVATE KEY-----\nMIIE", "-----BEGIN PRIVATE KEY-----", "PuTTY-User-Key-File-2: ",
	"password=token secret_key: datadog ", "sk-ant-api03-ghp_AKIAxoxb-eyJ ", "sk-ant-api03-", "sk-proj-aaaa\n", "sk-aaaaa\n", "ghp_", "ghp_0123456789abcdefABCDEF0123456789abcd", "_ghp_0aB",
	"%41%42%43", "%2541%25%34%31 ", "%25", `\u0041\x42&#67;%44 `, `\u0041\x42&#67;%44`, "a\u200b%41\\x41\"+\"", "%41\u2060&#65;", `\\u0041`, "&#37;41", `\U00000041\101\u{41}`,
	"\"a\" + \"b\" + ", `"a%41" + "\x41b" + `, `a"+"`, "a b c d e f ", "0x41, 0x42, ", "41 42 43 ", "41:42:", "a\u200bb\u200b", "e\u034f ", "\u3000",
	"http://a:b://c:d@", "postgres://a:b@c@", "machine a login b ", "curl -u a:b ", "logic.azure.com.", "pwd=", "password=a1B2c3D4e5\n", "datadog cloudflare twilio ",
	"YWJj", "aGVsbG8gd29ybGQsIHRoaXMgaXMgdGV4dA==\n", "YUdWc2JHOGdkMjl5YkdRc0lIUm9hWE1nYVhNZ2RHVjRkQT09Cg==", "VjJ4a1IwMVhXa1ZT", "YWJj\u200b", "6162636465666768", "a\x00b\x00", "%\x004\x001\x00", "\x00",
	"1234 5678 ", "123-45-6789 ", "+1 (415) 555-0132 ", "GB29NWBK60161331926819 ", "jane.doe@acme.io\n", "a@b.co", "LDAP_BIND_PASSWORD=GHl9hkdcz0mE\n",
	"AKIA0123456\n789", "AKIA01234567\\\n89abcdef", "{\"kty\":\"EC\",\"d\":\"", "eyJhbGciOiJIUzI1NiJ9.", "SK0123456789abcdef0123456789abcdef/", "x\x1b[32m",
	"\x1f\x8b\b", "PK\x03\x04", "PK\x03\x04\x14\x00\x00\x00\x08\x00", "\x1f\x8b\ba\x1f\x8b\b\x04", "H4sIH4sI",
	"00000000: 6162 6364\n", "0000000 6261 6463\n", "00000000  61 62 63 64  |abcd|\n", "00000000: ", "000000: 61 ", "6162 6364 ", "0000000 6261 ",
}

const (
	workPiece   = 16 << 10 // bytes of the shortest text whose work is counted
	workPerByte = 100      // at most, on any text
)

// worked is the work of a scan.
func worked(s *Scanner, scan func()) (work int) {
	s.spent = func(n int) { work += n }
	scan()
	s.spent = nil
	return work
}

// checkWork fails when the work grows by more than its text does, or is more
// than a constant for each byte. Only a Scanner of its own counts.
func checkWork(t *testing.T, s *Scanner, piece []byte) {
	check := func(name string, text []byte, work, most int) {
		if work > most {
			t.Errorf("%s of %q repeated to %d bytes: work %d, want at most %d", name, piece[:min(len(piece), 40)], len(text), work, most)
		}
	}
	scored := 0
	for n := workPiece; n <= 4*workPiece; n *= 2 {
		text := bytes.Repeat(piece, n/len(piece)+1)
		score := worked(s, func() { s.Score(text, Options{}) })
		redact := worked(s, func() { s.Redact(text, Options{}) })
		check("Score", text, score, workPerByte*len(text))
		check("Redact", text, redact, workPerByte*len(text)*maxRedactions)
		if n > workPiece {
			check("Score", text, score, scored*5/2)
		}
		scored = score
		if n == 4*workPiece {
			stream := worked(s, func() {
				st := s.NewStream(Options{})
				st.block = n
				st.Write(text)
				st.Write(text)
				st.Report()
			})
			// Each block is scanned with what is around it.
			check("Stream", text, stream, workPerByte*2*(len(text)+2*Window))
		}
	}
}

// FuzzScoreIsLinear repeats a text and counts the work of scanning it.
func FuzzScoreIsLinear(f *testing.F) {
	for _, piece := range testbed.Share(f, hostile, 4, nil) {
		f.Add([]byte(piece))
	}
	s := testbed.Must(New(&Policy{}))(f)
	f.Fuzz(func(t *testing.T, piece []byte) {
		if len(piece) == 0 || len(piece) > 512 {
			return
		}
		checkWork(t, s, piece)
	})
}
