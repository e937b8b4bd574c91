package edit

import (
	"bytes"
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestReadSweep reads random bytes in every encoding: the text is the one that
// the library reads, and encoded again it is the same bytes; what has no such
// text is refused. Each page of it begins at a character.
func TestReadSweep(t *testing.T) {
	rnd := rand.New(rand.NewPCG(seed(t), 7))
	for _, c := range charsets {
		c.prepare()
		all := alphabet(rnd, c)
		read := 0
		for range rounds(2000) {
			list := some(rnd, all, 1+rnd.IntN(24))
			whole, text := joined(list)
			raw := []byte(whole)
			if rnd.IntN(8) == 0 { // damaged
				raw[rnd.IntN(len(raw))] = byte(rnd.IntN(256))
				out, err := codec(c).NewDecoder().Bytes(raw)
				if text = string(out); err != nil || c.name == "gb18030" && strings.ContainsRune(text, utf8.RuneError) {
					text = ""
				}
			}
			back, err := codec(c).NewEncoder().Bytes([]byte(text))
			same := err == nil && bytes.Equal(back, raw)
			got, err := Read(raw, c.name)
			testbed.Require(t, (err == nil) == same && (err != nil || got.Text == text), "%s % x: %q %v, want %q (%v)", c.name, raw, got.Text, err, text, same)
			if err != nil {
				continue
			}
			read++
			from := rnd.IntN(len(raw) + 1)
			rest, at := got.Skip(from)
			head, err := codec(c).NewEncoder().Bytes([]byte(strings.TrimSuffix(text, rest.Text)))
			testbed.Require(t, err == nil && at >= from && at == len(head) && at-from <= 3, "%s % x from %d: %q from %d", c.name, raw, from, rest.Text, at)
			n := rest.Bytes(len(rest.Text))
			testbed.Require(t, at+n == len(raw), "%s % x from %d: %d bytes from %d", c.name, raw, from, n, at)
		}
		testbed.Expect(t, read >= rounds(500), "%s: only %d texts", c.name, read)
	}
}

// TestReadAndEdit reads ordinary texts without a declared encoding, whole and in
// parts, and edits what was read: no edit is made in another encoding than the
// one that was reported.
func TestReadAndEdit(t *testing.T) {
	rnd := rand.New(rand.NewPCG(seed(t), 8))
	for _, s := range samples {
		raw := encoded(t, s.name, s.text)
		got, err := Read(raw, "")
		if f, ok := err.(*Failure); ok && slices.Contains(f.Encodings, s.name) { // one of several
			t.Logf("%s is one of %v", s.name, f.Encodings)
			got, err = Read(raw, s.name)
		}
		testbed.Expect(t, err == nil && got.Text == s.text && got.Encoding == s.name, "%s: %q in %s, %v", s.name, got.Text, got.Encoding, err)
	}
	read, edited := 0, 0
	for range 20_000 {
		s := samples[rnd.IntN(len(samples))]
		runes := []rune(s.text)
		from := rnd.IntN(len(runes))
		text := string(runes[from:min(len(runes), from+1+rnd.IntN(len(runes)))])
		raw := encoded(t, s.name, text)
		got, err := Read(raw, "")
		if err != nil {
			continue
		}
		back, err := codec(got.charset).NewEncoder().Bytes([]byte(got.Text))
		testbed.Require(t, err == nil && bytes.Equal(back, raw), "%s %q is read as %q in %s: % x %v", s.name, text, got.Text, got.Encoding, back, err)
		read++
		is := []rune(got.Text)
		from = rnd.IntN(len(is))
		old := string(is[from:min(len(is), from+1+rnd.IntN(8))])
		out, err := Apply(context.Background(), raw, []Edit{{old, old + "x", -1}}, "")
		if err != nil || out.Encoding == "ascii" {
			continue
		}
		testbed.Require(t, out.Encoding == got.Encoding, "%s %q is read as %q in %s and edited in %s", s.name, text, got.Text, got.Encoding, out.Encoding)
		edited++
	}
	t.Logf("%d read, %d edited", read, edited)
	testbed.Expect(t, read >= 10_000 && edited >= read*8/10, "%d read, %d edited", read, edited)
}

// TestReadCases are contents with a certain reading.
func TestReadCases(t *testing.T) {
	for _, c := range []struct{ name, raw, encoding, want, used string }{
		{"empty", "", "", "", ""},
		{"ASCII", "a\n", "", "a\n", ""},
		{"UTF-8", "gr\u00fc\u00df\n", "", "gr\u00fc\u00df\n", ""},
		{"UTF-8 that is named", "gr\u00fc\u00df\n", "utf-8", "gr\u00fc\u00df\n", ""},
		{"Latin-1", "gr\xfc\xdfe an alle\n", "", "gr\u00fc\u00dfe an alle\n", "iso-8859-1"},
		{"a mark", "\xff\xfea\x00\xfc\x00", "", "\ufeffa\u00fc", "utf-16le"},
		{"no mark", "\x00a\x00b\x00c\x00\n", "", "abc\n", "utf-16be"},
		{"Cyrillic that is named", "\xcf\xf0\xe8\xe2\xe5\xf2\n", "windows-1251", "\u041f\u0440\u0438\u0432\u0435\u0442\n", "windows-1251"},
		{"Cyrillic", "\xcf\xf0\xe8\xe2\xe5\xf2\n", "", "", NotUTF8},
		{"half a unit", "\xff\xfea\x00\xfc", "", "", NotUTF8},
		{"half a pair", "\xff\xfe\x00\xd8", "", "", NotUTF8},
		{"an image", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "", "", NotUTF8},
		{"one byte of another encoding", "# gr\u00fc\u00dfe\nx = \xfc\n", "", "", NotUTF8},
		{"another encoding than the one named", "\x82\xa0", "utf-8", "", NotUTF8},
		{"an encoding that lacks the byte", "a\x81", "windows-1252", "", NotUTF8},
		{"no encoding", "a", "utf-9", "", BadEncoding},
	} {
		got, err := Read([]byte(c.raw), c.encoding)
		if f, ok := err.(*Failure); ok {
			testbed.Expect(t, f.Reason == c.used, "%s: %v", c.name, f)
		} else if got.Text != c.want || got.Encoding != c.used {
			t.Errorf("%s: %q in %q", c.name, got.Text, got.Encoding)
		}
	}
}
