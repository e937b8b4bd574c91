package edit

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/unicode"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// codec is the encoding of a charset as the library has it.
func codec(c *charset) encoding.Encoding {
	switch c.name {
	case "utf-8":
		return unicode.UTF8
	case "utf-16le":
		return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
	case "utf-16be":
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	}
	return c.enc
}

func encoded(t testing.TB, name, text string) []byte {
	t.Helper()
	out := testbed.Must(codec(charsetOf(name)).NewEncoder().String(text))(t, name, " ", text)
	return []byte(out)
}

// A letter is a character as bytes and as text; other bytes have none.
type letter struct {
	raw  string
	text string
}

func joined(list []letter) (raw string, text string) {
	for _, l := range list {
		raw += l.raw
		text += l.text
	}
	return raw, text
}

// alphabet is some characters of a charset, with all ways to write them.
func alphabet(rnd *rand.Rand, c *charset) []letter {
	list := []letter{}
	add := func(raw []byte) {
		out, err := codec(c).NewDecoder().Bytes(raw)
		if s := string(out); err == nil && utf8.RuneCountInString(s) == 1 && s != "\ufffd" && s != "\r" && s != "\ufeff" {
			list = append(list, letter{string(raw), s})
		}
	}
	for i := range 256 {
		add([]byte{byte(i)})
	}
	for range 4000 {
		add([]byte{byte(0x80 + rnd.IntN(0x80)), byte(0x40 + rnd.IntN(0xc0))})
	}
	for range 1000 {
		add([]byte{byte(rnd.IntN(256)), byte(rnd.IntN(256))})
		add([]byte{byte(0x81 + rnd.IntN(3)), byte('0' + rnd.IntN(10)), byte(0x81 + rnd.IntN(0x7e)), byte('0' + rnd.IntN(10))})
		add([]byte{0x8f, byte(0xa1 + rnd.IntN(0x5e)), byte(0xa1 + rnd.IntN(0x5e))})
		add([]byte{0x3d + byte(rnd.IntN(4)), 0xd8 + byte(rnd.IntN(4)), byte(rnd.IntN(256)), 0xdc + byte(rnd.IntN(4))})
		add([]byte(string(rune(0x80 + rnd.IntN(0x3000)))))
	}
	// Whether it is itself also beside others.
	list = slices.DeleteFunc(list, func(l letter) bool {
		out, _ := codec(c).NewDecoder().String(l.raw + l.raw)
		return out != l.text+l.text
	})
	return list
}

// some are letters of an alphabet, few of them different, so that they recur.
func some(rnd *rand.Rand, from []letter, n int) []letter {
	few := make([]letter, 4)
	for i := range few {
		few[i] = from[rnd.IntN(len(from))]
	}
	list := make([]letter, n)
	for i := range list {
		list[i] = few[rnd.IntN(len(few))]
	}
	return list
}

// oracle makes an edit letter by letter: what the match and its replacement have
// in common at their ends stays as it was written.
func oracle(c *charset, list []letter, old, new string) (out []byte, n int) {
	out = []byte{}
	enc := codec(c).NewEncoder()
	for i := 0; i < len(list); {
		end, text := i, ""
		for end < len(list) && len(text) < len(old) && list[end].text != "" {
			text += list[end].text
			end++
		}
		if text != old {
			out = append(out, list[i].raw...)
			i++
			continue
		}
		match, is := list[i:end], []rune(new)
		k, m := 0, 0
		for k < min(len(match), len(is)) && match[k].text == string(is[k]) {
			k++
		}
		for m < min(len(match), len(is))-k && match[len(match)-1-m].text == string(is[len(is)-1-m]) {
			m++
		}
		head, _ := joined(match[:k])
		tail, _ := joined(match[len(match)-m:])
		mid, err := enc.String(string(is[k : len(is)-m]))
		if err != nil {
			return nil, 0
		}
		out = append(out, head+mid+tail...)
		i, n = end, n+1
	}
	return out, n
}

// TestEncodedSweep makes random edits of random texts in every encoding: the
// bytes are those that the oracle has, and outside of the matches those before.
func TestEncodedSweep(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testbed.Seed(t), 3))
	for _, c := range charsets {
		c.prepare()
		all := alphabet(rnd, c)
		made := 0
		for range rounds(4000) {
			list := some(rnd, all, 1+rnd.IntN(24))
			from := rnd.IntN(len(list))
			_, old := joined(list[from:min(len(list), from+1+rnd.IntN(4))])
			_, new := joined(some(rnd, all, rnd.IntN(5)))
			if rnd.IntN(2) == 0 { // with what surrounds the change
				new = old[:len(old)/2] + new + old[len(old)/2:]
			}
			if !utf8.ValidString(new) || old == new {
				continue
			}
			raw, _ := joined(list)
			want, n := oracle(c, list, old, new)
			got, err := Apply(context.Background(), []byte(raw), []Edit{{old, new, -1}}, c.name)
			if want == nil { // a character is only decoded
				f, ok := err.(*Failure)
				testbed.Require(t, ok && f.Reason == NotEncodable && f.Char != 0, "%s % x %q → %q: %v", c.name, raw, old, new, err)
				continue
			}
			testbed.Require(t, err == nil && bytes.Equal(got.Content, want) && got.Replacements == n,
				"%s % x %q → %q: % x (%d), %v, want % x (%d)", c.name, raw, old, new, got.Content, got.Replacements, err, want, n)
			made++
		}
		testbed.Expect(t, made >= rounds(2000), "%s: only %d edits, of %d letters", c.name, made, len(all))
	}
}

// TestDamagedSweep damages texts: between two bytes below 0x30, what does not
// decode as a whole is not matched, in UTF-16 and charsets of one byte only what
// is no character itself.
func TestDamagedSweep(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testbed.Seed(t), 4))
	for _, c := range charsets {
		c.prepare()
		all := alphabet(rnd, c)
		made := 0
		for range rounds(4000) {
			letters := some(rnd, all, 4+rnd.IntN(24))
			for i := range letters {
				if rnd.IntN(4) == 0 && !c.wide() {
					letters[i] = letter{"\n", "\n"}
				}
			}
			from := rnd.IntN(len(letters))
			_, old := joined(letters[from:min(len(letters), from+1+rnd.IntN(3))])
			whole, _ := joined(letters)
			raw := []byte(whole)
			i := rnd.IntN(len(raw))
			switch rnd.IntN(3) {
			case 0:
				raw = slices.Delete(raw, i, i+1)
			case 1:
				raw[i] = byte(rnd.IntN(256))
			default:
				raw = slices.Insert(raw, i, byte(0x80+rnd.IntN(128)))
			}
			if bytes.Contains(raw, []byte("\r")) || bytes.HasPrefix(raw, byteOrderMark) || bytes.Contains(raw, []byte("\ufeff")) {
				continue
			}
			if d, _ := c.decode(raw, false); c.name == "utf-8" && d.share < 0.5 {
				continue // it is not taken for that
			}
			list := readLetters(c, raw)
			new := "x" + old
			want, n := oracle(c, list, old, new)
			got, err := Apply(context.Background(), raw, []Edit{{old, new, -1}}, c.name)
			f, _ := err.(*Failure)
			switch {
			case want == nil || f != nil && f.Reason == NotEncodable:
				testbed.Require(t, err != nil && got.Content == nil, "%s % x %q: %v", c.name, raw, old, err)
			case n == 0:
				testbed.Require(t, f != nil && f.Reason == OldStringNotFound, "%s % x %q: %v % x", c.name, raw, old, err, got.Content)
			case err != nil || !bytes.Equal(got.Content, want) || got.Replacements != n:
				t.Fatalf("%s % x %q: % x (%d), %v, want % x (%d)", c.name, raw, old, got.Content, got.Replacements, err, want, n)
			default:
				made++
			}
		}
		testbed.Expect(t, made >= rounds(500), "%s: only %d edits", c.name, made)
	}
}

// readLetters reads damaged bytes with the library alone.
func readLetters(c *charset, raw []byte) (list []letter) {
	piece := func(b []byte) {
		var read []letter
		for len(b) > 0 {
			n := 1
			for n = 1; n <= min(4, len(b)); n++ {
				out, err := codec(c).NewDecoder().Bytes(b[:n])
				if s := string(out); err == nil && utf8.RuneCountInString(s) == 1 && (s != "\ufffd" || string(b[:n]) == s || c.name == "gb18030" && n == 4) {
					read = append(read, letter{string(b[:n]), s})
					break
				}
			}
			if n > min(4, len(b)) {
				if c.double != nil {
					list = append(list, letter{raw: joinedRaw(read) + string(b)})
					return
				}
				n = 1
				if c.wide() {
					n = min(2, len(b))
				}
				read = append(read, letter{raw: string(b[:n])})
			}
			b = b[n:]
		}
		list = append(list, read...)
	}
	if c.double == nil {
		piece(raw)
		return list
	}
	for from, i := 0, 0; i <= len(raw); i++ {
		if i == len(raw) || raw[i] < synchronous {
			piece(raw[from:i])
			if from = i + 1; i < len(raw) {
				list = append(list, letter{string(raw[i : i+1]), string(raw[i : i+1])})
			}
		}
	}
	return list
}

func joinedRaw(list []letter) string {
	raw, _ := joined(list)
	return raw
}

// samples are ordinary texts in the encodings that are guessed.
var samples = []struct{ name, text, old, new string }{
	{"iso-8859-1", "# Größe des Fensters\nbreite = 80\nhöhe = 25 # in Zeilen, für später\n", "höhe = 25", "höhe = 30 # geändert"},
	{"iso-8859-1", "/* Le caractère « é » est répété à la fin */\nint x;\n", "int x;", "int été;"},
	{"windows-1252", "It’s “quoted” – naïve text, 5 € a piece\nname = x\n", "name = x", "name = “x”"},
	{"gbk", "# 配置文件，请不要修改这一行的内容\nname = 测试\nport = 80\n", "port = 80", "port = 8080 # 端口"},
	{"gbk", "// 朱镕基和其他人的名字在这里，用于测试编码的判断\nF = 1\n", "F = 1", "F = 2 // 好"},
	{"shift_jis", "# 設定ファイルです。表示の能力を変えるための項目\nname = テスト\nport = 80\n", "port = 80", "port = 8080 # ポート"},
	{"big5", "# 設定檔案，請不要修改這一行的內容，功能說明在這裡\nport = 80\n", "設定檔案", "組態檔案"},
	{"euc-kr", "# 설정 파일입니다. 이 줄을 바꾸지 마십시오\nport = 80\n", "설정 파일", "구성 파일"},
	{"euc-jp", "# 設定ファイルです。この行を変えないでください\nport = 80\n", "この行", "あの行"},
}

// TestGuessOfOrdinaryTexts edits ordinary texts without a declared encoding.
func TestGuessOfOrdinaryTexts(t *testing.T) {
	for _, s := range samples {
		raw := encoded(t, s.name, s.text)
		want := encoded(t, s.name, strings.Replace(s.text, s.old, s.new, 1))
		got, err := Apply(context.Background(), raw, []Edit{{s.old, s.new, 1}}, "")
		if err != nil || !bytes.Equal(got.Content, want) {
			t.Errorf("%s %q: %+v % x", s.name, s.old, err.(*Failure).Encodings, got.Content)
		} else if got.Encoding != s.name {
			t.Errorf("%s was taken for %s", s.name, got.Encoding)
		}
	}
}

// TestGuessNeverCorrupts makes random edits of texts of all languages without
// naming the encoding: the bytes are those that the true encoding has, or the
// edit is refused. The text may be so short that its encoding is unknown.
func TestGuessNeverCorrupts(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testbed.Seed(t), 5))
	made, refused := 0, 0
	for range rounds(20_000) {
		s := samples[rnd.IntN(len(samples))]
		runes := []rune(s.text)
		from := rnd.IntN(len(runes))
		text := string(runes[from:min(len(runes), from+1+rnd.IntN(len(runes)))])
		runes = []rune(text)
		from = rnd.IntN(len(runes))
		old, new := string(runes[from:min(len(runes), from+1+rnd.IntN(8))]), "new"
		c := charsetOf(s.name)
		raw := encoded(t, s.name, text)
		if utf8.Valid(raw) {
			continue
		}
		_, list := joinedLetters(t, s.name, text)
		want, _ := oracle(c, list, old, new)
		got, err := Apply(context.Background(), raw, []Edit{{old, new, -1}}, "")
		switch f, _ := err.(*Failure); {
		case err == nil && !bytes.Equal(got.Content, want):
			t.Fatalf("%s %q (% x) %q: % x as %s, want % x", s.name, text, raw, old, got.Content, got.Encoding, want)
		case err == nil:
			made++
		case f == nil || f.Reason != NotUTF8 && f.Reason != OldStringNotFound && f.Reason != NotEncodable:
			t.Fatalf("%s %q %q: %v", s.name, text, old, err)
		default:
			refused++
		}
	}
	t.Logf("%d made, %d refused", made, refused)
	testbed.Expect(t, made >= 9*refused, "%d made, %d refused", made, refused)
}

func joinedLetters(t *testing.T, name, text string) (raw string, list []letter) {
	for _, r := range text {
		list = append(list, letter{string(encoded(t, name, string(r))), string(r)})
	}
	raw, _ = joined(list)
	return raw, list
}

// TestGuessOfASCII makes edits of ASCII in random bytes of every encoding, also
// those that are never guessed.
func TestGuessOfASCII(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testbed.Seed(t), 6))
	made := 0
	for _, c := range charsets {
		if c.wide() || c.name == "utf-8" {
			continue
		}
		c.prepare()
		all := slices.DeleteFunc(alphabet(rnd, c), func(l letter) bool { return l.text == "\x00" })
		for range rounds(3000) {
			list := some(rnd, all, 1+rnd.IntN(24))
			for i := range list {
				if rnd.IntN(3) == 0 {
					c := string(rune('0' + rnd.IntN(75)))
					list[i] = letter{c, c}
				}
			}
			raw, _ := joined(list)
			at := rnd.IntN(len(raw))
			old := raw[at:min(len(raw), at+1+rnd.IntN(2))] // bytes that are no characters too
			if !isASCII(old) || !utf8.ValidString(old) || utf8.ValidString(raw) {
				continue
			}
			want, n := oracle(c, list, old, "#")
			got, err := Apply(context.Background(), []byte(raw), []Edit{{old, "#", -1}}, "")
			// Letters of one byte can look like those of two; then other matches are made, but no letter is cut.
			testbed.Require(t, err != nil || bytes.Equal(got.Content, want) && got.Replacements == n || c.double == nil, "%s % x %q: % x as %s, want % x", c.name, raw, old, got.Content, got.Encoding, want)
			if err == nil {
				made++
			}
		}
	}
	testbed.Expect(t, made >= rounds(5000), "only %d edits", made)
}

// TestEncodedCases are edits that have a certain outcome.
func TestEncodedCases(t *testing.T) {
	for _, c := range []struct {
		name, raw, encoding string
		edit                Edit
		want, reason, used  string
	}{
		{"utf-16 with a mark", "\xff\xfea\x00\r\x00\n\x00b\x00", "", Edit{"a\nb", "a\nc\n", 1}, "\xff\xfea\x00\r\x00\n\x00c\x00\r\x00\n\x00", "", "utf-16le"},
		{"utf-16 big", "\xfe\xff\x00a\x4e\x2d", "", Edit{"中", "文", 1}, "\xfe\xff\x00a\x65\x87", "", "utf-16be"},
		{"utf-16 without a mark", "a\x00b\x00c\x00", "", Edit{"b", "é", 1}, "a\x00\xe9\x00c\x00", "", "utf-16le"},
		{"utf-16 of no ASCII must be named", "\x2d\x4e\x87\x65", "utf-16le", Edit{"文", "中", 1}, "\x2d\x4e\x2d\x4e", "", "utf-16le"},
		{"a match is of whole units", "\xff\xfe\x00a\x00b", "", Edit{"a", "c", 1}, "", OldStringNotFound, ""},
		{"the mark is no part of the text", "\xff\xfea\x00", "", Edit{"\ufeffa", "b", 1}, "", OldStringNotFound, ""},
		{"half a surrogate pair stays", "\xff\xfe\x00\xd8a\x00", "", Edit{"a", "b", 1}, "\xff\xfe\x00\xd8b\x00", "", "utf-16le"},
		{"an odd byte stays", "\xff\xfea\x00b", "", Edit{"a", "c", 1}, "\xff\xfec\x00b", "", "utf-16le"},
		{"utf-32 is no utf-16", "\xff\xfe\x00\x00a\x00\x00\x00", "", Edit{"a", "b", 1}, "", NotUTF8, ""},
		{"zeros", "a\x00\xffb", "", Edit{"b", "c", 1}, "", NotUTF8, ""},
		{"utf-8 with stray bytes", "naïve\xff caf\xe9 x\n", "", Edit{"naïve", "naïf", 1}, "naïf\xff caf\xe9 x\n", "", "utf-8"},
		{"utf-8 named by habit", "caf\xe9 = x\n", "utf-8", Edit{"x", "é", 1}, "caf\xe9 = \xe9\n", "", "iso-8859-1"},
		{"utf-8 named for what is mostly that", "naïve café\xff \xe9\n", "utf-8", Edit{"naïve", "né", 1}, "né café\xff \xe9\n", "", "utf-8"},
		{"half a character is not matched", "\x95\x5c", "shift_jis", Edit{"\\", "/", 1}, "", OldStringNotFound, ""},
		{"nor where it is not named", "x\x95\x5c = 1", "", Edit{"\\ = 1", "/", 1}, "", NotUTF8, ""},
		{"a trail byte and what follows", "\xb1\x41A", "gbk", Edit{"A", "B", 1}, "\xb1\x41B", "", "gbk"},
		{"no such character", "caf\xe9\n", "", Edit{"café", "中", 1}, "", NotEncodable, ""},
		{"it could have the character", "caf\xe9\n", "", Edit{"caf", "中", 1}, "", NotEncodable, ""},
		{"one of the two has it", "caf\xe9\n", "", Edit{"café", "€", 1}, "", NotUTF8, ""},
		{"no such character, named", "caf\xe9\n", "iso-8859-1", Edit{"café", "中", 1}, "", NotEncodable, ""},
		{"no such old, named", "caf\xe9\n", "iso-8859-1", Edit{"中", "x", 1}, "", NotEncodable, ""},
		{"no such encoding", "caf\xe9\n", "utf-7", Edit{"caf", "x", 1}, "", BadEncoding, ""},
		{"Cyrillic must be named", "\xef\xf0\xe8\xe2\xe5\xf2 = x", "", Edit{"x", "привет", 1}, "", NotUTF8, ""},
		{"Cyrillic, named", "\xef\xf0\xe8\xe2\xe5\xf2 = x", "windows-1251", Edit{"x", "привет", 1}, "\xef\xf0\xe8\xe2\xe5\xf2 = \xef\xf0\xe8\xe2\xe5\xf2", "", "windows-1251"},
		{"ASCII in Cyrillic", "\xef\xf0\xe8\xe2\xe5\xf2 = x", "", Edit{"x", "y", 1}, "\xef\xf0\xe8\xe2\xe5\xf2 = y", "", "ascii"},
		{"what is inserted makes no character of what was none", "\x81 x", "gbk", Edit{" x", "ax", 1}, "", NotEncodable, ""},
		{"a name overrides what it looks like", "\xe4\xb8\xad x", "iso-8859-1", Edit{"x", "é", 1}, "\xe4\xb8\xad \xe9", "", "iso-8859-1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Apply(context.Background(), []byte(c.raw), []Edit{c.edit}, c.encoding)
			if c.reason != "" {
				f, ok := err.(*Failure)
				testbed.Expect(t, ok && f.Reason == c.reason, "%v % x", err, got.Content)
				return
			}
			testbed.Expect(t, err == nil && string(got.Content) == c.want && got.Encoding == c.used, "%v % x as %q", err, got.Content, got.Encoding)
		})
	}
}
