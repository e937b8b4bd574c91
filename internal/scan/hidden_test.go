package scan

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// A control sequence in front of a token ends in a letter, which is not a part
// of the token, however the sequence is spelled.
func TestTokensAfterColorsAreFound(t *testing.T) {
	s := scanner(t)
	for _, color := range []string{"\x1b[32m", "\x1b[1;31m", "\x1b[m", "\x1b[0K", "\x1b[38;5;208m", `\033[1;31m`, `\x1b[32m`, `\x1B[0;32m`, `\u001b[32m`, `\e[33m`, "^[[32m"} {
		for _, template := range []string{"ghp_{an 30}{crc}", "AKIA{b32 16}", "SK{hex 32}", "glpat-{an 20}", "{jwt}", "AIza{url 35}", "sk-proj-{url 58}T3BlbkFJ{url 58}", "postgres://app:{an 20}@db.acme.io/x", "github_pat_{an 22}_{an 59}"} {
			token := expand(template, 3)
			testbed.Equal(t, s.Score([]byte("log: "+color+token+"\x1b[0m done\n"), Options{}).Verdict, VerdictHigh, template, " after ", color)
			wrapped := base64.StdEncoding.EncodeToString([]byte("token=" + token))
			testbed.Equal(t, s.Score([]byte(color+wrapped+"\n"), Options{}).Verdict, VerdictHigh, "base64 of ", template, " after ", color)
		}
		value := expand("{hex 32}", 5)
		testbed.Equal(t, s.Score([]byte("TWILIO_AUTH_TOKEN="+color+value+"\x1b[0m\n"), Options{}).Verdict, VerdictHigh, "a value after ", color)
	}
	// A letter that ends no control sequence is a part of the word.
	for _, front := range []string{"m", "[32m", "x[1;31m", "b[m", `\x1c[32m`} {
		testbed.Equal(t, s.Score([]byte(front+expand("hf_{an 34}", 3)), Options{}).Verdict, VerdictSafe, "a token inside of a word, after ", front)
	}
}

// A token with a blank after every letter is found whatever it touches.
func TestSpreadTokensAreFound(t *testing.T) {
	s := scanner(t)
	for _, around := range []string{"%s", "K=%s", "K: %s", `"%s"`, "(%s)", "`%s`", "k = '%s'", "[%s]", "<b>%s</b>", "a %s b", "the key %s\n", "monkey %s business", "it is %s.", "  %s  ", "x\t%s\ty"} {
		for seed := range uint64(10) {
			token := strings.Join(strings.Split(expand("ghp_{an 30}{crc}", seed), ""), " ")
			text := fmt.Sprintf(around, token)
			r := s.Score([]byte(text), Options{})
			if r.Verdict != VerdictHigh {
				t.Errorf("%q with seed %d: %s", around, seed, r.Verdict)
				continue
			}
			out, _ := s.Redact([]byte(text), Options{})
			if after := s.Score(out, Options{}); after.Verdict != VerdictSafe || bytes.Contains(out, []byte(token[4:])) {
				t.Errorf("%q with seed %d: %s after redaction", around, seed, after.Verdict)
			}
		}
	}
	// A long row is looked at once, so the words beside it must be left out.
	dashes := strings.Repeat("-", 2*mostTrials)
	for seed := range uint64(5) {
		token := expand("ghp_{an 30}{crc}", seed)
		for _, text := range []string{
			"the key " + strings.Join(strings.Split(token+dashes, ""), " "),
			strings.Join(strings.Split(dashes+token, ""), " ") + " itself",
		} {
			testbed.Equal(t, s.Score([]byte(text), Options{}).Verdict, VerdictHigh, "beside a word, in a long row")
		}
	}
	for _, long := range []int{1000, maxRegion, 3 * maxRegion} {
		token := expand("ghp_{an 30}{crc}", 2)
		text := strings.TrimSpace(strings.Repeat("- ", long)) + " " + strings.Join(strings.Split(token, ""), " ") + " -"
		testbed.Equal(t, s.Score([]byte(text), Options{}).Verdict, VerdictHigh, "after ", long, " letters")
	}
}

// What a vendor prints in its manual is not a leak, wherever it appears.
func TestPublishedKeysPass(t *testing.T) {
	s := scanner(t)
	for _, key := range []string{
		"sk_test_" + "4eC39HqLyjWDarjtT1zdp7dc", "sk_test_" + "BQokikJOvBiI2HlWgH4olfQ2",
		"AIza" + "SyDaGmWKa4JsXZ-HjGw7ISLn_3namBGewQe", "AIza" + "SyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY",
		"110201543" + ":AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw", "SG." + "ngeVfQFYQlKU0ufo8x5d1A.TwL2iGABf9DHoTf-09kqeF8tAmbihYzrnopKc-1s5cr",
		"ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a", "gho_" + "16C7e42F292c6912E7710c838347Ae178B4a", "ghu_" + "16C7e42F292c6912E7710c838347Ae178B4a",
		"AccountName=devstoreaccount1;AccountKey=" + "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsu" + "Fq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==",
		"AccountEndpoint=https://localhost:8081/;AccountKey=" + "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nD" + "uVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==",
	} {
		for _, around := range []string{"%s", "key = \"%s\"", "API_TOKEN=%s\n", "{\"secret\": \"%s\"}", "curl -u %s: https://api.acme.io"} {
			if strings.HasPrefix(around, "curl") && strings.ContainsAny(key, ":=") {
				continue // a user and a password
			}
			text := fmt.Sprintf(around, key)
			for _, text := range []string{text, "data: " + b64("some text: "+text)} {
				r := s.Score([]byte(text), Options{})
				testbed.Expect(t, r.Verdict == VerdictSafe || fmt.Sprint(r.Families()) == "[binary_hint]", "%.12s… in %q: %s %v", key, around, r.Verdict, r.Findings)
			}
		}
		// One letter less or more is another key.
		other := []byte(key)
		other[len(other)-6] = "ab"[int(other[len(other)-6])&1]
		testbed.Expect(t, s.Score(other, Options{}).Verdict != VerdictSafe, "a key that is like %.12s… passes", key)
	}
	for _, digest := range publishedDigests {
		testbed.Equal(t, len(digest), 64, digest, " is no SHA-256")
	}
	testbed.Equal(t, len(publishedSet), len(publishedDigests), "a published key is there twice")
}

// A policy's own rule finds what its author asked for, published or not.
func TestPolicyFindsPublishedKeys(t *testing.T) {
	s := testbed.Must(New(&Policy{Extend: []CustomRule{{Family: "house", Name: "test_keys", Regex: `sk_test_\w+`}}}))(t)
	r := s.Score([]byte("k: sk_test_"+"4eC39HqLyjWDarjtT1zdp7dc"), Options{})
	testbed.Expect(t, len(r.Findings) == 1 && r.Findings[0].Pattern == "test_keys", "%+v", r.Findings)
}

// The header of a token is a JSON object that names what a token's names: any
// other object, and what is no object, begins no token.
func TestJWTHeadersNameWhatTheyAre(t *testing.T) {
	s := scanner(t)
	for head, want := range map[string]string{
		`{"alg":"HS256"}`: VerdictHigh, `{"typ":"JWT"}`: VerdictHigh, `{"enc":"A256GCM","x":1}`: VerdictHigh, `{"kid":"k-2024-1"}`: VerdictHigh,
		`{"iss":"acme","sub":"x1"}`: VerdictSafe, `{"page":4,"size":20}`: VerdictSafe, `{"ALG":"HS256"}`: VerdictSafe, `{"a":{"alg":"HS256"}}`: VerdictSafe,
		`{"alg":"HS256"`: VerdictSafe, `{"alg" "HS256"}`: VerdictSafe,
	} {
		body := base64.RawURLEncoding.EncodeToString([]byte(`{"n":"` + expand("{an 24}", 1) + `"}`))
		text := "x " + base64.RawURLEncoding.EncodeToString([]byte(head)) + "." + body + "." + expand("{url 43}", 2) + "\n"
		r := s.Score([]byte(text), Options{})
		testbed.Expect(t, r.Verdict == want, "a token with the header %s: %s, want %s (%v)", head, r.Verdict, want, r.Families())
	}
}

// However much was found, the score stays within 0 and 1.
func TestScoreStaysWithinOne(t *testing.T) {
	s := scanner(t)
	var b bytes.Buffer
	sum := 0.0
	for id, text := range secrets() {
		fmt.Fprintf(&b, "%s\n%s\n", strings.ReplaceAll(id, "_", " "), text)
	}
	r := s.Score(b.Bytes(), Options{})
	for _, family := range r.Families() {
		sum += weights[family]
	}
	testbed.Require(t, sum >= 2, "the families found weigh %v, too little to say anything", sum)
	testbed.Equal(t, r.Score, 1, "score")
	var all Tally
	for _, f := range r.Findings {
		all.Add(f)
	}
	score, _ := s.VerdictOf(&all)
	testbed.Expect(t, score == 1, "score of the findings alone %v", score)
}

// Text in UTF-16 is found and redacted in its own encoding, in either order,
// with and without a mark, as a whole file and after other bytes.
func TestWideText(t *testing.T) {
	s := scanner(t)
	big := func(s string) string {
		var b strings.Builder
		for _, c := range []byte(s) {
			b.Write([]byte{0, c})
		}
		return b.String()
	}
	token := expand("ghp_{an 30}{crc}", 8)
	for name, encode := range map[string]func(string) string{
		"little": wide, "big": big, "little with a mark": func(s string) string { return "\xff\xfe" + wide(s) }, "big with a mark": func(s string) string { return "\xfe\xff" + big(s) },
		"after text": func(s string) string { return "plain text:" + wide(s) }, "between others": func(s string) string { return "\xe5\x65" + wide(s) + "\x9e\x8a" },
		"big between others": func(s string) string { return "\x65\xe5" + big(s) + "\x8a\x9e" },
	} {
		for _, text := range []string{"api: " + token + " end\n", token, "\r\nK=" + token, strings.Repeat("filling words and\n", 3000) + token + " more"} {
			text := []byte(encode(text))
			r := s.Score(text, Options{})
			if r.Verdict != VerdictHigh && s.ContentVerdict(&r) != VerdictHigh || len(r.Findings) != 1 || r.Findings[0].DecodedFrom != wideText {
				t.Errorf("%s, %d bytes: %s %+v", name, len(text), r.Verdict, r.Findings)
				continue
			}
			if got := strings.ReplaceAll(string(text[r.Findings[0].Start:r.Findings[0].End]), "\x00", ""); got != token {
				t.Errorf("%s: the finding is %d bytes at %d", name, len(got), r.Findings[0].Start)
			}
			out, _ := s.Redact(text, Options{})
			want := strings.Replace(strings.ReplaceAll(string(text), "\x00", ""), token, "{GHP-REDACTED}", 1)
			testbed.Equal(t, strings.ReplaceAll(string(out), "\x00", ""), want, name, ": redacted to something else")
			testbed.Expect(t, len(out)%2 == len(text)%2 && bytes.Count(out, []byte{0})-bytes.Count(text, []byte{0}) == len("{GHP-REDACTED}")-len(token),
				"%s: redacted in another encoding", name)
		}
	}
}

// A token is found inside of a longer word where its checksum or its prefix and
// length say what it is, and any token after an underscore or where capitals
// follow small letters.
func TestTokensInLongerWordsAreFound(t *testing.T) {
	s := scanner(t)
	for template, around := range map[string][]string{
		"ghp_{an 30}{crc}":           {"_%s", "KEY_%s", "x%s", "%sx", "%s0", "9%sZ", "abc%sdef", "a1%s_b"},
		"npm_{an 30}{crc}":           {"_%s", "x%s", "%sx", "x%sx"},
		"glpat-{an 20}":              {"_%s", "x%s", "%s", "KEY%s"},
		"github_pat_{an 22}_{an 59}": {"_%s", "x%s", "%sx", "7%s"},
		"sq0csp-{an 43}":             {"_%s", "x%s", "%sx"},
		"AKIA{b32 16}":               {"_%s", "KEY_%s", "key%s", "x%s", "myKey_%s"},
		"AIza{url 35}":               {"_%s", "acme%s"},
		"hf_{an 34}":                 {"_%s", "TOKEN_%s"},
		"SK{hex 32}":                 {"_%s"},
	} {
		for _, form := range around {
			for seed := range uint64(4) {
				text := "k: " + fmt.Sprintf(form, expand(template, seed)) + " .\n"
				r := s.Score([]byte(text), Options{})
				testbed.Expect(t, r.Verdict == VerdictHigh, "%s in %q: %s", template, form, r.Verdict)
				out, _ := s.Redact([]byte(text), Options{})
				r = s.Score(out, Options{})
				testbed.Expect(t, r.Verdict == VerdictSafe, "%s in %q: %s after redaction", template, form, r.Verdict)
			}
		}
	}
	// What is no prefix of its own, or has no checksum, stays a part of the word.
	for _, text := range []string{
		"xhf_{an 34}", "mhf_{an 34}", "hf_{an 34}x", "monkey-{hex 32}", "cachekey-{hex 32}", "optical_{an 37}", "champion_{an 42}", "xghp_{an 36}", "ghp_{an 30}x{hex 6}y", "xnpm_{an 36}",
		"9AKIA{b32 16}", "zAKIA{b32 16}A", "BAKIA{b32 16}", "{an 9}7AIza{url 35}", "0eAKIA{b32 16}", "handle_secret_{low 43}", "task-{an 48}",
	} {
		for seed := range uint64(4) {
			r := s.Score([]byte(expand(text, seed)), Options{})
			testbed.Expect(t, r.Verdict != VerdictHigh, "%s with seed %d: %v", text, seed, r.Findings)
		}
	}
}

// A token that its checksum proves, or whose distinctive prefix and fixed length
// do, is found with anything beside it; a wrong checksum, another length and a
// prefix that ends ordinary words need a boundary.
func TestTokensGluedToWordsAreFound(t *testing.T) {
	s := scanner(t)
	for _, template := range []string{"ghp_{an 30}{crc}", "ghr_{an 30}{crc}", "npm_{an 30}{crc}", "p8e-{hex 32}", "secret-live-{url 36}=", "os_v2_app_{l32 103}", "dop_v1_{hex 64}", "sqp_{hex 40}"} {
		for seed := range uint64(5) {
			token := expand(template, seed)
			for _, front := range []string{"_", "KEY_", "x", "9", "key", "X"} {
				testbed.Equal(t, s.Score([]byte("a "+front+token+"\n"), Options{}).Verdict, VerdictHigh, template, " after ", front)
			}
		}
	}
	for _, template := range []string{"xghp_{an 36}", "xghr_{an 36}", "xghr_{an 50}", "clip_{an 20}", "monkey-{hex 32}", "xp8e-{low 32}", "xsecret-live-{url 20}=", "non-secret-{low 8}", "xos_v2_app_{l32 60}", "the_api-{uuid}"} {
		for seed := range uint64(5) {
			r := s.Score([]byte("a "+expand(template, seed)+" b\n"), Options{})
			testbed.Expect(t, r.Verdict != VerdictHigh, "%s: %+v", template, r.Findings)
		}
	}
}

// Numbers in columns are not a dump, and do not hide a secret among them.
func TestTextLikeOctalDumps(t *testing.T) {
	s := scanner(t)
	var b strings.Builder
	for i := range 300 {
		fmt.Fprintf(&b, "%07d %03d %03d %03d %06d %06d\n%03d %03d %03d %03d %03d\n| %3d   a   b   c   d |\n", i, i, i+7, 777, i*7, 177777, i%8, i, 147, 150, 160, i)
	}
	r := s.Score([]byte(b.String()), Options{})
	testbed.Expect(t, len(r.Findings) == 0, "%+v", r.Findings)
	token := expand("ghp_{an 30}{crc}", 3)
	for _, text := range []string{"0000000 147 150 160 " + token + "\n", "0000000   g   h   p   _ " + token + "\n", "0000000 064147 057560 057560 " + token + "\n"} {
		testbed.Equal(t, s.Score([]byte(b.String()+text+b.String()), Options{}).Verdict, VerdictHigh, text)
	}
}

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

// spellOut is a text with each character escaped in one way.
func spellOut(form, s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		b.WriteString(spelled[form](c))
	}
	return b.String()
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
		texts[name] = spellOut(name, token)
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
			testbed.Expect(t, slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Pattern == "gitlab_pat" }),
				"%s of %q: %+v", name, text, r.Findings)
		}
	}
}

func gzipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write([]byte(s))
	w.Close()
	return b.String()
}

func zipped(s string) string {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range []string{"readme.txt", ".env"} {
		w, _ := z.Create(name)
		w.Write([]byte("some text of " + name + "\n"))
		if name == ".env" {
			w.Write([]byte(s))
		}
	}
	z.Close()
	return b.String()
}

// A token in a member of an archive is found, as bytes and in base64, and
// redacted with the member; an archive in an archive is left alone.
func TestArchivesAreUnpacked(t *testing.T) {
	s := scanner(t)
	plain := "KEY=" + expand("ghp_{an 30}{crc}", 5) + "\n" + strings.Repeat("words of the member\n", 8)
	for name, text := range map[string]string{
		"gzip": gzipped(plain), "zip": zipped(plain), "gzip in base64": b64(gzipped(plain)), "zip in base64": b64(zipped(plain)),
		"gzip in lines of base64": lines(b64(gzipped(plain)), 76),
	} {
		text = "data: " + text + "\nend\n"
		r := s.Score([]byte(text), Options{})
		testbed.Expect(t, r.Verdict == VerdictHigh, "%s: %s", name, r.Verdict)
		out, _ := s.Redact([]byte(text), Options{})
		r = s.Score(out, Options{})
		testbed.Expect(t, r.Verdict != VerdictHigh, "%s: %s after redaction", name, r.Verdict)
	}
	twice := gzipped(gzipped(plain) + strings.Repeat("x", 40))
	testbed.Expect(t, s.Score([]byte(twice), Options{}).Verdict != VerdictHigh, "an archive in an archive was unpacked")
}

// What is unpacked is bounded, by the length of the text and altogether.
func TestBombsAreBounded(t *testing.T) {
	bomb := gzipped(strings.Repeat("a", 64<<20))
	for _, text := range []string{bomb, b64(bomb), strings.Repeat(gzipped(strings.Repeat("b", 1<<20)), 200), strings.Repeat("\x1f\x8b\x08", 1<<16), strings.Repeat("PK\x03\x04", 1<<16)} {
		s := testbed.Must(New(&Policy{}))(t)
		work := worked(s, func() { s.Score([]byte(text), Options{}) })
		most := workPerByte * len(text)
		testbed.Expect(t, work <= most, "%d bytes: work %d, want at most %d", len(text), work, most)
	}
}

// What only looks like the start of a member is tried a few times, and hides no
// member after it.
func TestFalseMembers(t *testing.T) {
	s := scanner(t)
	token := expand("ghp_{an 30}{crc}", 3)
	for name, magic := range map[string]string{
		"gzip": "\x1f\x8b\b", "gzip with flags": "\x1f\x8b\b\xff\xff", "gzip with a field": "\x1f\x8b\b\x04\x00\x00\x00\x00\x00\x00\xff\xff", "zip": "PK\x03\x04\x14\x00\x00\x00\x08\x00", "base64": "H4sI" + strings.Repeat("AAEC", 9) + " ",
	} {
		false10 := strings.Repeat(magic+"words and more of them, until it is long enough\n", 10)
		testbed.Equal(t, s.Score([]byte(false10+gzipped("k="+token)), Options{}).Verdict, VerdictHigh, "a member after ten that are not archives ", name)
		text := []byte(strings.Repeat(false10, 200))
		x := s.newText(text)
		x.findings()
		left := x.runs.archive
		testbed.Expect(t, left <= falseCost+memberCost, "%s: %d of what may be unpacked is left", name, left)
		x.free()
	}
}
