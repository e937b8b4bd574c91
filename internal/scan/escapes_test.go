package scan

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// spelled are the escapes of a character, by what they are decoded from.
var spelled = map[string]func(c byte) string{
	"%XX":        func(c byte) string { return fmt.Sprintf("%%%02X", c) },
	"%25XX":      func(c byte) string { return fmt.Sprintf("%%25%02x", c) },
	`\xXX`:       func(c byte) string { return fmt.Sprintf(`\x%02x`, c) },
	`\x{XX}`:     func(c byte) string { return fmt.Sprintf(`\x{%x}`, c) },
	`\uXXXX`:     func(c byte) string { return fmt.Sprintf(`\u%04x`, c) },
	`\\uXXXX`:    func(c byte) string { return fmt.Sprintf(`\\u%04X`, c) },
	`\u{XX}`:     func(c byte) string { return fmt.Sprintf(`\u{%x}`, c) },
	`\UXXXXXXXX`: func(c byte) string { return fmt.Sprintf(`\U%08x`, c) },
	`\OOO`:       func(c byte) string { return fmt.Sprintf(`\%03o`, c) },
	"&#NN;":      func(c byte) string { return fmt.Sprintf("&#%d;", c) },
	"&#xNN;":     func(c byte) string { return fmt.Sprintf("&#x%X;", c) },
	"&#00NN;":    func(c byte) string { return fmt.Sprintf("&#%06d;", c) },
}

// A token is found however its characters are escaped, in one way or in many,
// and redaction takes all of it.
func TestEscapedTokensAreFound(t *testing.T) {
	s := scanner(t)
	token := expand("ghp_{an 30}{crc}", 12)
	var mixed strings.Builder
	names := []string{"%XX", `\xXX`, `\u{XX}`, "&#NN;", `\OOO`, `\UXXXXXXXX`}
	for i, c := range []byte(token) {
		mixed.WriteString(spelled[names[i%len(names)]](c))
	}
	texts := map[string]string{"mixed": mixed.String()}
	for name, spell := range spelled {
		var all strings.Builder
		for _, c := range []byte(token) {
			all.WriteString(spell(c))
		}
		texts[name] = all.String()
		texts[name+" once"] = token[:20] + spell(token[20]) + token[21:]
	}
	for name, text := range texts {
		text = "k = '" + text + "';\n"
		r := s.Score([]byte(text), Options{})
		testbed.Expect(t, r.Verdict == VerdictHigh, "%s: %s", name, r.Verdict)
		out, _ := s.Redact([]byte(text), Options{})
		r = s.Score(out, Options{})
		testbed.Expect(t, r.Verdict == VerdictSafe && !bytes.Contains(out, []byte(token[24:])), "%s: %s after redaction: %s", name, r.Verdict, out)
	}
}

// An escape in an escape is decoded at any depth, in one pass.
func TestNestedEscapesAreDecoded(t *testing.T) {
	for text, want := range map[string]string{
		"%41": "A", "%2541": "A", "%252541": "A", "%25%34%31": "A", "&#37;41": "A", "&#x25;34%31": "41", `\u0025\u00341`: "A", `\\\\u0041`: "A",
		`\u{25}41`: "A", `\04541`: "A", `&#3&#55;;41`: "A", "%zz": "%zz", `\u00`: `\u00`, "&#;": "&#;", "%4": "%4", `\400`: `\400`, `\x1b`: `\x1b`,
		"a\u200b%34%3\u2060x": "a4%3x", "%E2%80%8Bx": "x", `\u200Bx\u{feff}`: "x", `&#8203;x`: "x", `\u00e9`: `\u00e9`,
	} {
		testbed.Equal(t, string(unescaped(nil, []byte(text))), want, text)
	}
	deep := "41"
	for range 1000 {
		deep = "25" + deep
	}
	testbed.Equal(t, string(unescaped(nil, []byte("%"+deep))), "A", "a thousand levels")
}

// What is decoded of a text, all in all, is bounded, whatever is nested.
func TestDecodedBytesAreBounded(t *testing.T) {
	s := scanner(t)
	for _, piece := range []string{
		"\\u0041\\x42&#67;%44", "%2541%25%34%31 ", "a\u200b%41\\x41\"+\"", "%41\u2060&#65;", `"a%41" + "\x41b" + `, "a b c d e f ", "0x41, 0x42, ", "41 42 43 ", "YWJj", "VjJ4a1IwMVhXa1ZT",
	} {
		text := []byte(strings.Repeat(piece, 64<<10/len(piece)))
		x := s.newText(text)
		x.findings()
		decoded := x.runs.decoded
		testbed.Expect(t, decoded <= maxPlain*len(text), "%q: %d bytes decoded of %d", piece, decoded, len(text))
		x.free()
	}
}

// A character that shows nothing does not part a token, nor does one that shows
// space and is not ASCII.
func TestHiddenCharactersAreTakenOut(t *testing.T) {
	s := scanner(t)
	token := expand("glpat-{an 20}", 3)
	n := 0
	for r := rune(0x80); r <= unicode.MaxRune; r++ {
		if !isHidden(r) {
			continue
		}
		n++
		hidden := string(r)
		testbed.Expect(t, hiddenWidth([]byte(hidden)) == len(hidden) && hiddenBehind([]byte("a"+hidden)) == len(hidden), "%U is not taken out", r)
		if r > 0xe0100 && r&0xff != 0 {
			continue
		}
		testbed.Equal(t, s.Score([]byte("k: "+token[:9]+hidden+token[9:]), Options{}).Verdict, VerdictHigh, r, " in a token")
	}
	testbed.Expect(t, n >= 4000, "%d hidden characters", n)
	for _, r := range []rune{0xad, 0x34f, 0x61c, 0x115f, 0x3164, 0x180b, 0x200b, 0x2028, 0x2029, 0x202f, 0x2060, 0x3000, 0xa0, 0xfe0f, 0xfeff, 0xffa0, 0xe0001, 0xe01ef} {
		testbed.Expect(t, isHidden(r), "%U is not hidden", r)
	}
	for _, r := range []rune{'a', 0x80, 0xe9, 0x4e00, 0x1f600} {
		testbed.Expect(t, !isHidden(r), "%U is hidden", r)
	}
}

// What is written around a token in other scripts and encodings does not hide it
// in base64 or in hexadecimal digits.
func TestEncodedTextOfAnyScript(t *testing.T) {
	s := scanner(t)
	token := expand("glpat-{an 20}", 3)
	for _, text := range []string{
		"Der Schlüssel ist %s, bitte", "Für alle: %s, bitte", "キーは %s です", "ключ доступа: %s, вот", "🔑 %s is the key",
		"Der Schl\xfcssel ist %s, bitte", // ISO 8859-1
	} {
		plain := []byte(fmt.Sprintf(text, token))
		for name, line := range map[string]string{
			"base64": base64.StdEncoding.EncodeToString(plain), "base64url": base64.RawURLEncoding.EncodeToString(plain), "hex": hex.EncodeToString(plain),
		} {
			r := s.Score([]byte("data = \""+line+"\"\n"), Options{})
			if !slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Pattern == "gitlab_pat" }) {
				t.Errorf("%s of %q: %+v", name, text, r.Findings)
			}
		}
	}
}
