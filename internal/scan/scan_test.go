package scan

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	gobuild "go/build"
	"io/fs"
	"math"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

func scanner(t testing.TB) *Scanner {
	s := testbed.Must(New(nil))(t)
	return s
}

// secrets are one text of each rule that makes a text high by itself.
func secrets() map[string]string {
	all := map[string]string{}
	for _, r := range table() {
		if r.grade() == Confirmed && len(r.hits) > 0 {
			all[r.id] = expand(r.hits[0], 7)
		}
	}
	return all
}

func TestEveryConfirmedCredentialIsHigh(t *testing.T) {
	s := scanner(t)
	for id, text := range secrets() {
		r := s.Score([]byte("# notes\n"+text+"\n"), Options{})
		testbed.Expect(t, r.Verdict == VerdictHigh, "%s: %s with %v", id, r.Verdict, r.Families())
	}
}

func TestThousandKeysAreHigh(t *testing.T) {
	var b bytes.Buffer
	for i := range uint64(1000) {
		b.WriteString(expand("key = sk-ant-api03-{url 93}AA\n", i))
	}
	r := scanner(t).Score(b.Bytes(), Options{})
	testbed.Expect(t, r.Verdict == VerdictHigh && len(r.Findings)+r.Omitted == 1000,
		"%s, %d findings and %d omitted", r.Verdict, len(r.Findings), r.Omitted)
}

func TestSnippetsShowNothingUsable(t *testing.T) {
	s := scanner(t)
	for _, r := range table() {
		for _, h := range r.hits {
			text := expand(h, 3)
			for _, f := range s.Score([]byte(text), Options{}).Findings {
				testbed.Expect(t, strings.HasSuffix(f.Match, "…") && utf8.RuneCountInString(f.Match) <= 17, "%s: snippet %q", r.id, f.Match)
				for other := range uint64(3) {
					shown := strings.TrimSuffix(f.Match, "…")
					testbed.Expect(t, shown == "***" || strings.Contains(expand(h, 90+other), shown), "%s: snippet %q shows random characters", r.id, f.Match)
				}
			}
		}
	}
}

func TestFormula(t *testing.T) {
	s := scanner(t)
	mail := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "person%d@acme-corp.io\n", i)
		}
		return b.String()
	}
	for _, c := range []struct {
		name, text string
		score      float64
		verdict    string
	}{
		{"nothing", "plain words", 0, VerdictSafe},
		{"empty", "", 0, VerdictSafe},
		{"one address", mail(1), .15, VerdictLow},
		{"two addresses", mail(2), .1875, VerdictLow},
		{"three addresses", mail(3), .225, VerdictLow},
		{"a thousand addresses", mail(1000), .225, VerdictLow},
		{"long line at the limit", strings.Repeat("a b ", 500), 0, VerdictSafe},
		{"long line", strings.Repeat("a b ", 500) + "x", .20, VerdictLow},
		{"long line of wide characters at the limit", strings.Repeat("語", 2000), 0, VerdictSafe},
		{"100 000 bytes", strings.Repeat("word and\n", 100_000/9) + "x", 0.10, VerdictLow},
		{"over 100 000 bytes", strings.Repeat("word and some more of these\n", 100_000/28+1), .15, VerdictLow},
		{"over 500 000 bytes", strings.Repeat("a line of some length that is here to fill the text with words and more words, quite a lot of them, until it is long enough for us to stop\n", 500_000/130), .45, VerdictMedium},
	} {
		r := s.Score([]byte(c.text), Options{})
		if math.Abs(r.Score-c.score) > 1e-9 || r.Verdict != c.verdict {
			t.Errorf("%s: %v %s, want %v %s (%v %v)", c.name, r.Score, r.Verdict, c.score, c.verdict, r.Families(), r.Size)
		}
	}
}

func TestSizeIsNoContent(t *testing.T) {
	s := scanner(t)
	r := s.Score([]byte(strings.Repeat("many words here\n", 80_000)+strings.Repeat("x ", 2000)), Options{})
	testbed.Require(t, r.Verdict == VerdictHigh && len(r.Size) == 4, "%s %v", r.Verdict, r.Size)
	v := s.ContentVerdict(&r)
	testbed.Expect(t, v == VerdictSafe, "prose is %s by content", v)
}

func TestPlaces(t *testing.T) {
	key := expand("ghp_{an 30}{crc}", 1)
	r := scanner(t).Score([]byte("first\n日本語 = \""+key+"\"\n"), Options{})
	testbed.Require(t, len(r.Findings) == 1, "%+v", r.Findings)
	f := r.Findings[0]
	testbed.Expect(t, f.Line == 2 && f.Column == 8 && f.Pattern == "ghp" && f.End-f.Start == len(key) && f.Match == "ghp_…", "%+v", f)
}

func TestFailedChecksumDemotes(t *testing.T) {
	s := scanner(t)
	good := expand("ghp_{an 30}{crc}", 1)
	bad := good[:10] + "zz" + good[12:]
	r := s.Score([]byte(bad), Options{})
	testbed.Expect(t, len(r.Findings) == 1 && r.Findings[0].Confidence == Likely && r.Verdict == VerdictLow, "%s %+v", r.Verdict, r.Findings)
}

// wrappings are ways in which a secret is hidden.
var wrappings = map[string]func(string) string{
	"base64":       func(s string) string { return base64.StdEncoding.EncodeToString([]byte("token=" + s)) },
	"base64url":    func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s + "\n")) },
	"base64 twice": func(s string) string { return b64(b64(s)) },
	"base64 lines": func(s string) string {
		return lines(b64("some words in front of "+s+" and behind it, to fill the lines"), 64)
	},
	"hex":           func(s string) string { return hex.EncodeToString([]byte(s)) },
	"percent":       func(s string) string { return "https://x.io/?q=" + spellOut("%XX", s) },
	"query":         func(s string) string { return "https://x.io/?q=" + url.QueryEscape("k="+s) },
	"concat":        func(s string) string { return `k := "` + s[:9] + `" + "` + s[9:20] + `" + "` + s[20:] + `"` },
	"concat lines":  func(s string) string { return "k = ('" + s[:12] + "' +\n     '" + s[12:] + "')" },
	"adjacent":      func(s string) string { return "k = (\"" + s[:12] + "\"\n     \"" + s[12:] + "\")" },
	"zero width":    func(s string) string { return s[:8] + "\u200b" + s[8:15] + "\u2060" + s[15:] },
	"soft hyphen":   func(s string) string { return s[:8] + "\u00ad" + s[8:] },
	"line break":    func(s string) string { return s[:16] + "\n" + s[16:] },
	"continuation":  func(s string) string { return "k=" + s[:16] + "\\\n" + s[16:] },
	"spread":        func(s string) string { return "the key: " + strings.Join(strings.Split(s, ""), " ") + " it is" },
	"json escapes":  func(s string) string { return `{"k":"` + spellOut(`\uXXXX`, s) + `"}` },
	"entities":      func(s string) string { return "<p>" + spellOut("&#NN;", s) + "</p>" },
	"utf-16 base64": func(s string) string { return b64(wide("$t = '" + s + "'")) },

	"color":               func(s string) string { return "\x1b[32m" + s + "\x1b[0m" },
	"color in source":     func(s string) string { return `echo -e "\033[1;31m` + s + `\033[0m"` },
	"spread in quotes":    func(s string) string { return `K="` + strings.Join(strings.Split(s, ""), " ") + `"` },
	"spread after a word": func(s string) string { return "the key " + strings.Join(strings.Split(s, ""), " ") + " fits" },
	"hex number":          func(s string) string { return "blob=0x" + hex.EncodeToString([]byte(s)) },
	"hex pairs":           func(s string) string { return fmt.Sprintf("% x", s) },
	"hex colons":          func(s string) string { return strings.ReplaceAll(fmt.Sprintf("% X", s), " ", ":") },
	"byte list":           byteList,
	"soft break":          func(s string) string { return "k: " + s[:16] + "=\r\n" + s[16:] },
	"quoted printable":    func(s string) string { return "k: =" + strings.ReplaceAll(fmt.Sprintf("% X", s), " ", "=") },
	"gzip":                func(s string) string { return b64(gzipped("k=" + s)) },
	"base64 three times":  func(s string) string { return b64(b64(b64(s))) },
	"braces": func(s string) string {
		return "'" + strings.ReplaceAll(fmt.Sprintf(" % x", s), " ", "}\\u{")[1:] + "}'"
	},
	"base64 folded": func(s string) string {
		return "k: |\n  " + strings.ReplaceAll(lines(b64("token="+s), 20), "\n", "\n  ")
	},
	"base64 folded three times": func(s string) string { return lines(b64(lines(b64(lines(b64("token="+s), 32)), 24)), 36) },
	"xxd":                       func(s string) string { return dumped("k="+s, "%08x: ", 2, "  ", "\n") },
	"xxd of bytes":              func(s string) string { return dumped("k="+s, "%08x: ", 1, "  ", "\n") },
	"hexdump":                   func(s string) string { return dumped(swapped("k="+s), "%07x ", 2, "", "\n") },
	"hexdump -C":                func(s string) string { return dumped("k="+s, "%08x  ", 1, "  |", "|\n") },
	"hexdump with its end":      func(s string) string { return dumped(swapped(s), "%07x ", 2, "", "\n") + "0000040\n" },
	"hexdump -C in capitals":    func(s string) string { return strings.ToUpper(dumped(s, "%08x  ", 1, "", "\r\n")) },
	"od -x":                     func(s string) string { return dumped(swapped(s), "%07o ", 2, "", "\n") },
	"od -t x1z":                 func(s string) string { return dumped(s, "%06x ", 1, "  >", "<\n") },
	"od -t x1":                  func(s string) string { return dumped("k="+s, "%07o ", 1, "", "\n") },
	"od":                        func(s string) string { return octalDump("k="+s, "%07o", 2) + "0000060\n" },
	"od -b":                     func(s string) string { return octalDump(s, "%07o", 1) },
	"od -c":                     func(s string) string { return octalDump("k="+s+"\n", "%07o", 0) },
	"od -A n -b":                func(s string) string { return octalDump("k="+s, "", 1) },
	"od -A x -c in CRLF":        func(s string) string { return strings.ReplaceAll(octalDump(s, "%06x", 0), "\n", "\r\n") },
	"hexdump -b":                func(s string) string { return "see\n" + octalDump(s, "%07x", 1) + "\nend\n" },
	"xxd after //":              func(s string) string { return dumped("k="+s, "\t// %08x: ", 2, "  ", "\n") },
	"hexdump -C after #":        func(s string) string { return dumped("k="+s, "# %08x  ", 1, "  |", "|\n") },
	"hexdump after *":           func(s string) string { return "/*\n" + dumped(swapped("k="+s), " * %07x ", 2, "", "\n") + " */\n" },
	"od -t x1 after >":          func(s string) string { return dumped("k="+s, "> > %07o ", 1, "", "\n") },
	"juxtaposed":                func(s string) string { return `K="` + s[:9] + `""` + s[9:] + `"` },
	"mixed quotes":              func(s string) string { return `K='` + s[:9] + `'"` + s[9:] + `"` },
	"utf-16":                    func(s string) string { return wide("token: " + s + " and more\n") },
}

// dumped is a dump in lines of 16 bytes: the offset, groups of so many bytes,
// and the characters between front and back where there is a front.
func dumped(s, offset string, group int, front, back string) string {
	var b strings.Builder
	for at := 0; at < len(s); at += 16 {
		line := s[at:min(len(s), at+16)]
		fmt.Fprintf(&b, offset, at)
		hexed := ""
		for i := 0; i < len(line); i += group {
			if hexed += fmt.Sprintf("%x", line[i:min(len(line), i+group)]) + " "; i == 7 && strings.HasSuffix(front, "|") {
				hexed += " "
			}
		}
		b.WriteString(strings.TrimRight(hexed, " "))
		if front != "" {
			b.WriteString(front + line)
		}
		b.WriteString(back)
	}
	return b.String()
}

// octalDump is a dump of od in lines of 16 bytes: words of two bytes, bytes, or,
// for 0, characters.
func octalDump(s, offset string, group int) string {
	var b strings.Builder
	for at := 0; at < len(s); at += 16 {
		line := s[at:min(len(s), at+16)]
		if offset != "" {
			fmt.Fprintf(&b, offset, at)
		}
		for i := 0; i < len(line); i += max(group, 1) {
			switch {
			case group == 2:
				fmt.Fprintf(&b, " %06o", int(line[i])|int((line + "\x00")[i+1])<<8)
			case group == 1:
				fmt.Fprintf(&b, " %03o", line[i])
			case line[i] == '\n':
				b.WriteString("  \\n")
			default:
				fmt.Fprintf(&b, "   %c", line[i])
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// swapped is a text with the bytes of each pair swapped, as hexdump shows them.
func swapped(s string) string {
	b := []byte(s + strings.Repeat("\x00", len(s)%2))
	for i := 0; i+1 < len(b); i += 2 {
		b[i], b[i+1] = b[i+1], b[i]
	}
	return string(b)
}

// byteList is a text as an array of C, twelve bytes in a line.
func byteList(s string) string {
	var b strings.Builder
	b.WriteString("static const char k[] = {")
	for i, c := range []byte(s) {
		if i%12 == 0 {
			b.WriteString("\n  ")
		}
		fmt.Fprintf(&b, "0x%02x, ", c)
	}
	return b.String() + "0x00 };"
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func wide(s string) string {
	var b strings.Builder
	for _, c := range []byte(s) {
		b.Write([]byte{c, 0})
	}
	return b.String()
}

func lines(s string, n int) string {
	var b strings.Builder
	for len(s) > n {
		b.WriteString(s[:n] + "\n")
		s = s[n:]
	}
	return b.String() + s + "\n"
}

func TestWrappedSecretsAreFound(t *testing.T) {
	s := scanner(t)
	for _, template := range []string{"ghp_{an 30}{crc}", "sk-ant-api03-{url 93}AA", "AKIA{b32 16}", "xoxb-{num 12}-{num 13}-{an 24}", "glpat-{an 20}", "sk_live_{an 24}", "sk-proj-{url 58}T3BlbkFJ{url 58}"} {
		for name, wrap := range wrappings {
			if strings.HasPrefix(template, "AKIA") && name == "line break" || len(expand(template, 2)) < 22 && strings.HasPrefix(name, "concat") {
				continue // too short for the cut, or without a mark of its own
			}
			text := "before\n" + wrap(expand(template, 2)) + "\nafter\n"
			r := s.Score([]byte(text), Options{})
			testbed.Expect(t, r.Verdict == VerdictHigh, "%s of %s: %s %v", name, template, r.Verdict, r.Families())
		}
	}
}

// Where a wrapped secret begins, in the text and in what is wrapped, makes no
// difference: what steps over the text steps over none.
func TestWrappedSecretsAreFoundAtEveryOffset(t *testing.T) {
	s := scanner(t)
	for _, template := range []string{"ghp_{an 30}{crc}", "sk-ant-api03-{url 93}AA"} {
		for name, wrap := range wrappings {
			for n := range 75 {
				token := expand(template, uint64(n))
				if strings.Contains(name, "dump") || strings.HasPrefix(name, "xxd") || strings.HasPrefix(name, "od ") {
					token = prose(n) + " " + token
				}
				text := prose(n) + "\n" + wrap(token) + "\n"
				testbed.Equal(t, s.Score([]byte(text), Options{}).Verdict, VerdictHigh, name, " of ", template, " after ", n, " bytes")
			}
		}
	}
}

// What parts a credential from the text around it may be anything.
func TestOrdinaryPlacements(t *testing.T) {
	s := scanner(t)
	for _, template := range []string{
		"ghp_{an 30}{crc}", "AKIA{b32 16}", "sk-ant-api03-{url 93}AA", "AIza{url 35}", "xoxb-{num 12}-{num 13}-{an 24}", "SG.{url 22}.{url 43}", "{jwt}", "hf_{let 34}", "dop_v1_{hex 64}",
		"DB_PASSWORD={an 20}", "api_key: {an 32}", "DATADOG_API_KEY={hex 32}", "postgres://app:{an 16}@db.corp.net:5432/x",
	} {
		token := expand(template, 3)
		for _, place := range []string{
			"a;%s;b", "a|%s|b", "a&%s&b", "a,%s,b", "%s=", "日本%s日本", "é%sé", "—%s—", "a\r\n%s\r\nb", "a\t%s\tb", "\v%s\f", "“%s”", "«%s»", "`%s`", "**%s**", "[%s]", "(%s)", "<%s>", "<!--%s-->", "/*%s*/",
			"#%s", "!%s!", "~%s~", "^%s^", "\x00%s\x00", "\a%s\b", "\x1b[1m%s\x1b[0m", "\xef\xbb\xbf%s", "\xe9%s\xe9", "\u00a0%s\u00a0", "&quot;%s&quot;", "a%%20%s%%20b", "k%%3D%s%%26b", `"a\n%s\nb"`,
			`"{\"k\":\"%s\"}"`, "K=%s;run", "K=$(echo %s)", "?a=%s&b=1", "<k>%s</k>", "<k v='%s'/>", "[a](%s)", "> %s", "+%s", "\\\n%s\\\n",
		} {
			text := fmt.Sprintf(place, token)
			r := s.Score([]byte(text), Options{})
			testbed.Expect(t, slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Confidence != Info }),
				"%s in %q is not found", template, place)
		}
	}
}

func TestRedact(t *testing.T) {
	s := scanner(t)
	check := func(name, text string) {
		out, spans := s.Redact([]byte(text), Options{})
		r := s.Score(out, Options{})
		v := s.ContentVerdict(&r)
		testbed.Expect(t, v == VerdictSafe || fmt.Sprint(r.Families()) == "[binary_hint]", "%s: %s with %v after redaction", name, v, r.Families())
		testbed.Equal(t, bytes.Count(out, []byte("\n")), strings.Count(text, "\n"), name, ": lines changed")
		again, more := s.Redact(out, Options{})
		testbed.Expect(t, bytes.Equal(out, again) && len(more) == 0, "%s: a second redaction changes something", name)
		testbed.Expect(t, len(spans) != 0 && bytes.Contains(bytes.ReplaceAll(out, []byte{0}, nil), []byte("-REDACTED}")), "%s: nothing was redacted", name)
	}
	for _, r := range table() {
		if r.family == familyBinary || r.family == familyInvisible {
			continue
		}
		for _, h := range r.hits {
			check(r.id, "first line\n"+expand(h, 11)+"\nlast line\n")
		}
	}
	for name, wrap := range wrappings {
		check(name, "a\n"+wrap(expand("ghp_{an 30}{crc}", 4))+"\nb\n")
	}
	out, _ := s.Redact([]byte("key: "+expand("ghp_{an 30}{crc}", 4)+"\n"), Options{})
	testbed.Expect(t, string(out) == "key: {GHP-REDACTED}\n", "got %q", out)
}

func TestStreamFindsWhatScoreFinds(t *testing.T) {
	s := scanner(t)
	rng := rand.New(rand.NewPCG(5, 6))
	var text bytes.Buffer
	n := 0
	for _, r := range table() {
		for text.Len() < (n+1)*900 {
			text.WriteString("some words of no interest in a line\n")
		}
		n++
		text.WriteString(expand(r.hits[0], uint64(n)) + "\n")
	}
	for name, wrap := range wrappings {
		text.WriteString(strings.Repeat("more words "+name+"\n", 40) + wrap(expand("ghp_{an 30}{crc}", 9)) + "\n")
	}
	whole := s.Score(text.Bytes(), Options{})
	st := s.NewStream(Options{})
	st.block = 40_000
	for rest := text.Bytes(); len(rest) > 0; {
		k := min(len(rest), 1+rng.IntN(9000))
		st.Write(rest[:k])
		rest = rest[k:]
	}
	got := st.Report()
	testbed.Expect(t, got.Verdict == whole.Verdict && got.Score == whole.Score && got.LineCount == whole.LineCount && got.MaxLineLen == whole.MaxLineLen && got.Bytes == whole.Bytes,
		"streamed %s %v %d %d, whole %s %v %d %d", got.Verdict, got.Score, got.LineCount, got.MaxLineLen, whole.Verdict, whole.Score, whole.LineCount, whole.MaxLineLen)
	// One that is wrapped may be seen first in another block.
	streamed, want := slices.Sorted(slices.Values(placesOf(got))), slices.Sorted(slices.Values(placesOf(whole)))
	testbed.Equal(t, strings.Join(streamed, "\n"), strings.Join(want, "\n"))
}

// placesOf lists the findings of a report.
func placesOf(r Report) (all []string) {
	for _, f := range r.Findings {
		all = append(all, fmt.Sprintf("%s %d-%d line %d column %d %s %s", f.Pattern, f.Start, f.End, f.Line, f.Column, f.Confidence, f.DecodedFrom))
	}
	return all
}

func TestPolicy(t *testing.T) {
	key := expand("ghp_{an 30}{crc}", 1)
	ticket := "see ACME-12345-SECRET now"
	s, err := New(&Policy{
		Extend:          []CustomRule{{Family: "internal", Name: "ticket", Regex: `ACME-\d+-SECRET`, Weight: .5}, {Family: "internal", Name: "never", Regex: `see`, Keywords: []string{"absent"}}},
		DisablePatterns: []string{"email"}, DisableFamilies: []string{"jwt"}, Markers: true,
	})
	testbed.NoErr(t, err)
	r := s.Score([]byte(ticket), Options{})
	testbed.Expect(t, r.Verdict == VerdictMedium && r.Score == .5 && len(r.Findings) == 1, "custom rule: %s %v %v", r.Verdict, r.Score, r.Findings)
	r = s.Score([]byte("a@acme-corp.io "+expand("{jwt}", 1)), Options{})
	testbed.Expect(t, r.Verdict == VerdictSafe, "disabled rules: %v", r.Families())
	r = s.Score([]byte(key+" // "+Marker+"\n"), Options{})
	testbed.Expect(t, r.Verdict == VerdictSafe && r.Allowed == 1, "marker: %s %d", r.Verdict, r.Allowed)
	allow := Options{Allow: func(family, pattern string) bool { return pattern == "ghp" }}
	r = s.Score([]byte(key), allow)
	testbed.Expect(t, r.Verdict == VerdictSafe && r.Allowed == 1, "allow: %s %d", r.Verdict, r.Allowed)
	_, err = New(&Policy{Extend: []CustomRule{{Name: "x", Family: "y", Regex: "("}}})
	testbed.Expect(t, err != nil, "a bad expression was accepted")
	testbed.Expect(t, scanner(t).Score([]byte(key+" // "+Marker+"\n"), Options{}).Verdict == VerdictHigh, "a marker works without the policy")
}

// Ordinary text must not be refused: of the Go tree fewer than 0.2 findings per
// megabyte are confirmed and fewer than 0.25 are more than information, and no
// file but those with a private key reaches the verdict high.
func TestOrdinaryTextPasses(t *testing.T) {
	root := filepath.Join(gobuild.Default.GOROOT, "src")
	if _, err := os.Stat(root); err != nil {
		t.Skip("the Go source tree is not installed here")
	}
	s := scanner(t)
	total, blocking, reported := 0, 0, 0
	filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || total > 30<<20 {
			return nil
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return nil
		}
		total += len(b)
		key := bytes.Contains(b, []byte("PRIVATE KEY-----\n")) || bytes.Contains(b, []byte("PRIVATE KEY BLOCK-----\n"))
		for _, f := range s.Score(b, Options{}).Findings {
			if f.Confidence == Confirmed {
				blocking++
			}
			if f.Confidence != Info && f.Family != familyPII {
				reported++
			}
		}
		verdict, what := gated(s, b)
		testbed.Expect(t, verdict != VerdictHigh || key, "%s is refused: %s", path, what)
		return nil
	})
	if per := float64(reported) / (float64(total) / 1e6); per > 0.25 {
		t.Errorf("%.3f findings per MB", per)
	}
	rate := float64(blocking) / (float64(total) / 1e6)
	t.Logf("%d MB, %d findings that block, %.3f per MB", total/1e6, blocking, rate)
	testbed.Expect(t, rate <= 0.2, "%.3f findings that block per MB", rate)
}

// The work for hostile text is bounded: the memory of the runs is what makes
// it linear, so every byte class is measured over a text at most a few times.
func TestHostileTextAllocatesLittle(t *testing.T) {
	s := scanner(t)
	for name, piece := range map[string]string{"letter": "a", "at": "@", "dots": "a.", "brackets": "[", "headers": "-----BEGIN RSA PRIVATE KEY-----\nMIIE", "keywords": "password=token secret_key: datadog "} {
		text := []byte(strings.Repeat(piece, (1<<20)/len(piece)))
		if n := testing.AllocsPerRun(1, func() { s.Score(text, Options{}) }); n > 100 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

// slowest are the texts that a search by mutation found to take the most time
// for a byte: bench/scan/worst.
var slowest = []string{
	"%41\\u0041a\u200bb&#65;FINNHUB_API_KEY={lan 20}password=STABILITY_API_KEY={an 64}ASSEWEATHERSTACK_API_KEY={hex 32}\\u{41}password=password=",
	"AI21_API_KEY={an 32}\" \"LDAP_BIND_PASSWORD={an 20}''password=DEEPGRAM_API_KEY={hex 40}\\u{41}",
	"https://prod-01.westus.logic.azure.com:443/workflows/{hex 32}/triggers?sp=%2Frun&sig={an 43}LDAP_BIND_PASSWORD={an 20}' . 'aws_secrAI21_API_KEY={an 32}\" \"sk-proj-",
}

func FuzzScore(f *testing.F) {
	for _, r := range table() {
		f.Add([]byte(expand(r.hits[0], 1)))
	}
	for _, wrap := range wrappings {
		f.Add([]byte(wrap(expand("ghp_{an 30}{crc}", 9))))
	}
	for _, slow := range slowest {
		f.Add([]byte(expand(slow, 1) + expand(slow, 2)))
	}
	s := scanner(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		end := testbed.Within(t, 2*time.Second, fmt.Sprint(len(text), " bytes"))
		r := s.Score(text, Options{})
		if len(text) < 100_000 {
			end()
		}
		last := 0
		for _, x := range r.Findings {
			testbed.Require(t, x.Start >= last && x.End > x.Start && x.End <= len(text) && x.Line >= 1 && x.Column >= 1,
				"finding %+v of %d bytes after %d", x, len(text), last)
			last = x.Start
		}
		out, _ := s.Redact(text, Options{})
		after := s.Score(out, Options{})
		for _, x := range after.Findings {
			testbed.Require(t, x.Family == familyBinary || x.Family == familyInvisible, "%s is found after redaction", x.Pattern)
		}
		testbed.MustEqual(t, bytes.Count(out, []byte{'\n'}), bytes.Count(text, []byte{'\n'}), "redaction changed the lines")
		st := s.NewStream(Options{})
		st.Write(text[:len(text)/2])
		st.Write(text[len(text)/2:])
		got := st.Report()
		testbed.Require(t, got.Verdict == r.Verdict && got.Score == r.Score, "streamed %s %v, whole %s %v", got.Verdict, got.Score, r.Verdict, r.Score)
	})
}

// redactAtOnce redacts a text in one piece, whatever its length.
func redactAtOnce(s *Scanner, b []byte) (out []byte, spans []Span) {
	for round := range maxRedactions {
		r := redaction{s: s, b: b, at: place{b: b, line: 1}, note: func(x Span) {
			if round == 0 {
				spans = append(spans, x)
			}
		}}
		r.take(s.newText(b).findings(), 0, len(b))
		r.replace(len(b))
		if r.out == nil {
			break
		}
		b = append(r.out, b[r.last:]...)
	}
	return b, spans
}

// TestLongTextsAreRedactedAsShortOnes: with secrets, plain and wrapped, around
// every place where a block may end, the text and the places are those of a
// redaction in one piece.
func TestLongTextsAreRedactedAsShortOnes(t *testing.T) {
	s := scanner(t)
	rng := rand.New(rand.NewPCG(9, 10))
	var b bytes.Buffer
	var secrets []string
	for b.Len() < 2*block+3*Window {
		fmt.Fprintf(&b, "%s\n", strings.Repeat("a word or two, ", 1+rng.IntN(12)))
		near := b.Len() % block
		if near > Window+2000 && near < block-Window-2000 && rng.IntN(60) > 0 {
			continue
		}
		token := expand("ghp_{an 30}{crc}", rng.Uint64())
		secrets = append(secrets, token)
		switch rng.IntN(5) {
		case 0:
			token = base64.StdEncoding.EncodeToString([]byte("the token is " + token))
		case 1:
			token = "jo" + fmt.Sprint(rng.IntN(1e6)) + "@acme-mail.org " + token
		case 2:
			token = token[:12] + "\u200b" + token[12:]
		}
		fmt.Fprintf(&b, "key: %s\n", token)
	}
	text := b.Bytes()
	var reported []Span
	got, none := s.Redact(text, Options{Span: func(x Span) { reported = append(reported, x) }})
	want, spans := redactAtOnce(s, text)
	testbed.Expect(t, len(none) == 0 && slices.Equal(reported, spans),
		"%d places, want %d; %d are returned besides", len(reported), len(spans), len(none))
	testbed.Expect(t, bytes.Equal(got, want), "%d bytes, want %d", len(got), len(want))
	testbed.Require(t, len(secrets) >= 500 && len(spans) >= len(secrets), "%d places for %d secrets", len(spans), len(secrets))
	for _, x := range secrets {
		testbed.Require(t, !bytes.Contains(got, []byte(x)), "a secret is left")
	}
	again, _ := s.Redact(got, Options{})
	testbed.Expect(t, bytes.Equal(again, got), "redacting again changes it")
	_, list := s.Redact(text, Options{})
	testbed.Expect(t, slices.Equal(list, spans), "%d places are returned, want %d", len(list), len(spans))
}

// TestLongTextsAreScoredAsShortOnes: a text above the length that is judged in
// one piece has the findings that its parts have.
func TestLongTextsAreScoredAsShortOnes(t *testing.T) {
	s := scanner(t)
	line := "jo@acme-mail.org and some words\n"
	text := []byte(strings.Repeat(line, (2*block+Window)/len(line)))
	r := s.Score(text, Options{})
	tally := r.Tally()
	if want := len(text) / len(line); tally.Total != want || r.Omitted != want-len(r.Findings) || r.LineCount != want || r.Bytes != len(text) || tally.Confirmed {
		t.Errorf("%d findings, %d omitted, %d lines, want %d", tally.Total, r.Omitted, r.LineCount, want)
	}
	text = append(text, "key "+expand("ghp_{an 30}{crc}", 3)+"\n"...)
	r = s.Score(text, Options{})
	last := r.Findings[len(r.Findings)-1]
	testbed.Expect(t, r.Tally().Confirmed && r.Verdict == VerdictHigh && last.Pattern == "ghp" && last.Line == r.LineCount && last.Column == 5,
		"%s, %+v", r.Verdict, last)
}
