package edit

import (
	"slices"
	"sync"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/japanese"
	"golang.org/x/text/encoding/korean"
	"golang.org/x/text/encoding/simplifiedchinese"
	"golang.org/x/text/encoding/traditionalchinese"
)

// A charset is an encoding in which files are edited. All of them are stateless,
// and ASCII is ASCII in all but UTF-16, so that text at the border of two
// characters can be cut, and bytes joined there again.
type charset struct {
	name string
	enc  encoding.Encoding // nil for UTF-8 and UTF-16
	high int               // of UTF-16: which byte of a unit is the high one
	// usual reports whether a character that is not ASCII is common in ordinary text.
	// It is nil for a charset that is only used when it is named.
	usual func(raw []byte, at, size int) bool

	tables sync.Once
	single [256]rune // character of each single byte, -1 if none
	double []rune    // character of each pair of bytes
}

// charsets are all of them; those that are tried come in the order in which they
// are preferred.
var charsets = []*charset{
	{name: "utf-8", usual: func(_ []byte, _, size int) bool { return size > 1 }},
	{name: "utf-16le", high: 1},
	{name: "utf-16be", high: 0},
	{name: "gbk", enc: simplifiedchinese.GBK, usual: pairs(0xa3, 0xd7)},
	{name: "gb18030", enc: simplifiedchinese.GB18030, usual: pairs(0xa3, 0xd7)},
	{name: "shift_jis", enc: japanese.ShiftJIS, usual: func(raw []byte, at, size int) bool {
		return size == 2 && (raw[at] >= 0x81 && raw[at] <= 0x83 || raw[at] >= 0x88 && raw[at] <= 0x97)
	}},
	{name: "big5", enc: traditionalchinese.Big5, usual: func(raw []byte, at, size int) bool { return size == 2 && raw[at] >= 0xa1 && raw[at] <= 0xc6 }},
	{name: "euc-kr", enc: korean.EUCKR, usual: pairs(0xa3, 0xc8)},
	{name: "euc-jp", enc: japanese.EUCJP, usual: pairs(0xa5, 0xcf)},
	{name: "iso-8859-1", enc: charmap.ISO8859_1, usual: isolated},
	{name: "windows-1252", enc: charmap.Windows1252, usual: isolated},
	{name: "iso-8859-2", enc: charmap.ISO8859_2},
	{name: "iso-8859-5", enc: charmap.ISO8859_5},
	{name: "iso-8859-7", enc: charmap.ISO8859_7},
	{name: "iso-8859-15", enc: charmap.ISO8859_15},
	{name: "windows-1250", enc: charmap.Windows1250},
	{name: "windows-1251", enc: charmap.Windows1251},
	{name: "windows-1253", enc: charmap.Windows1253},
	{name: "windows-1254", enc: charmap.Windows1254},
	{name: "windows-1255", enc: charmap.Windows1255},
	{name: "windows-1256", enc: charmap.Windows1256},
	{name: "windows-1257", enc: charmap.Windows1257},
	{name: "koi8-r", enc: charmap.KOI8R},
	{name: "koi8-u", enc: charmap.KOI8U},
	{name: "ibm850", enc: charmap.CodePage850},
	{name: "macintosh", enc: charmap.Macintosh},
}

// Encodings are the names of the encodings in which files are edited.
func Encodings() []string {
	var names []string
	for _, c := range charsets {
		names = append(names, c.name)
	}
	return names
}

// charsetOf returns the charset of a name, or nil if there is none.
func charsetOf(name string) *charset {
	if i := slices.IndexFunc(charsets, func(c *charset) bool { return c.name == name }); i >= 0 {
		return charsets[i]
	}
	return nil
}

// pairs reports whether a character has two bytes of a national standard, the
// first of them in the rows of signs or in those of frequent characters; these are the
// last rows of both.
func pairs(signs, frequent byte) func([]byte, int, int) bool {
	return func(raw []byte, at, size int) bool {
		lead := raw[at]
		return size == 2 && raw[at+1] >= 0xa1 && (lead >= 0xa1 && lead <= signs || lead >= 0xb0 && lead <= frequent)
	}
}

// isolated reports whether a byte is one of a Latin text: alone, or one of two
// letters in a word of ASCII letters, and no sign within a word.
func isolated(raw []byte, at, _ int) bool {
	from, to := at, at+1
	for from > 0 && raw[from-1] >= utf8.RuneSelf && at-from < 3 {
		from--
	}
	for to < len(raw) && raw[to] >= utf8.RuneSelf && to-at < 3 {
		to++
	}
	letter := func(i int) bool {
		return i >= 0 && i < len(raw) && (raw[i]|0x20 >= 'a' && raw[i]|0x20 <= 'z')
	}
	if sign := raw[at] >= 0xa0 && raw[at] < 0xc0 && raw[at] != '\xb7'; sign && letter(from-1) && letter(to) {
		return false
	}
	return to-from == 1 || to-from == 2 && (letter(from-1) || letter(to))
}

// wide reports whether the charset is one of UTF-16.
func (c *charset) wide() bool { return c.enc == nil && c.name != "utf-8" }

// prepare makes the tables.
func (c *charset) prepare() {
	c.tables.Do(func() {
		if c.enc == nil {
			return
		}
		dec := c.enc.NewDecoder()
		for i := range c.single {
			c.single[i] = character(dec, []byte{byte(i)})
		}
		if _, ok := c.enc.(*charmap.Charmap); ok {
			return
		}
		c.double = make([]rune, 1<<16)
		for i := range c.double {
			c.double[i] = -1
			if lead := byte(i >> 8); c.single[lead] < 0 {
				c.double[i] = character(dec, []byte{lead, byte(i)})
			}
		}
	})
}

// character returns the character that the bytes encode, or -1 if they encode none.
func character(dec *encoding.Decoder, raw []byte) rune {
	var dst [4 * utf8.UTFMax]byte
	dec.Reset()
	n, used, err := dec.Transform(dst[:], raw, true)
	if err != nil || used != len(raw) {
		return -1
	}
	r, size := utf8.DecodeRune(dst[:n])
	if size != n || r == utf8.RuneError {
		return -1
	}
	return r
}

// next reads one character of raw bytes; r is -1 for invalid bytes.
func (c *charset) next(raw []byte) (r rune, size int) {
	switch {
	case c.wide():
		return c.unit(raw)
	case raw[0] < utf8.RuneSelf:
		return rune(raw[0]), 1
	case c.enc == nil:
		if r, size = utf8.DecodeRune(raw); size == 1 {
			r = -1
		}
		return r, size
	case c.single[raw[0]] >= 0:
		return c.single[raw[0]], 1
	}
	if c.double == nil || len(raw) == 1 {
		return -1, 1
	}
	if r := c.double[int(raw[0])<<8|int(raw[1])]; r >= 0 {
		return r, 2
	}
	if c.name == "euc-jp" && raw[0] == 0x8f || c.name == "gb18030" && raw[1] < 0x40 {
		for size := 3; size <= min(4, len(raw)); size++ {
			if r := character(c.enc.NewDecoder(), raw[:size]); r >= 0 {
				return r, size
			}
		}
	}
	return -1, 1
}

// unit reads one character of UTF-16.
func (c *charset) unit(raw []byte) (rune, int) {
	if len(raw) < 2 {
		return -1, 1
	}
	r := rune(raw[c.high])<<8 | rune(raw[1-c.high])
	if !utf16.IsSurrogate(r) {
		return r, 2
	}
	if len(raw) >= 4 {
		if r := utf16.DecodeRune(r, rune(raw[2+c.high])<<8|rune(raw[3-c.high])); r != utf8.RuneError {
			return r, 4
		}
	}
	return -1, 2
}

// undecoded replaces bytes that are no character. No string that is
// looked for has it.
const undecoded = 0xff

// synchronous is a lower bound of the bytes after the first of a character, in any
// of the charsets with characters of several bytes.
const synchronous = 0x30

// A decoding is the text of a file in UTF-8. Each character of the file is one
// of the text, or one byte undecoded.
type decoding struct {
	text  []byte
	clean bool    // all bytes are characters
	share float64 // of the characters that are not ASCII, how many are usual; 0 with one that no text has
}

// decode decodes a file. Between two synchronous characters, invalid bytes make the
// boundaries of the characters around them ambiguous, so all of these are left
// undecoded. A strict decoding ends with ok false at the first invalid byte, or, in a
// single-byte charset, at a character that no text has.
func (c *charset) decode(raw []byte, strict bool) (d decoding, ok bool) {
	c.prepare()
	d = decoding{text: make([]byte, 0, len(raw)+len(raw)/8), clean: true}
	all, usual, odd := 0, 0, false
	begin, broken := 0, false // of the part after the last synchronous character
	for at := 0; at < len(raw); {
		r, size := c.next(raw[at:])
		if r < 0 {
			if strict {
				return d, false
			}
			d.clean, broken = false, c.double != nil
			d.text = append(d.text, undecoded)
		} else {
			if c.double != nil && r < synchronous {
				d.hide(begin, broken)
				begin, broken = len(d.text)+1, false
			}
			d.text = utf8.AppendRune(d.text, r)
		}
		if r < 0 || r >= utf8.RuneSelf {
			if all++; r >= 0 && (r < 0xa0 || unicode.Is(unicode.Co, r)) {
				if odd = true; strict && c.double == nil {
					return d, false
				}
			}
			if c.usual != nil && c.usual(raw, at, size) {
				usual++
			}
		}
		at += size
	}
	d.hide(begin, broken)
	if !odd {
		d.share = float64(usual) / float64(max(all, 1))
	}
	return d, true
}

// hide makes all characters from begin on undecoded.
func (d *decoding) hide(begin int, broken bool) {
	if !broken {
		return
	}
	n := utf8.RuneCount(d.text[begin:])
	d.text = d.text[:begin]
	for range n {
		d.text = append(d.text, undecoded)
	}
}

// encode encodes a text; when a character of it cannot be encoded, it is
// returned with ok false.
func (c *charset) encode(text []byte) (raw []byte, bad rune, ok bool) {
	switch {
	case c.wide():
		for _, u := range utf16.Encode([]rune(string(text))) {
			pair := [2]byte{}
			pair[c.high], pair[1-c.high] = byte(u>>8), byte(u)
			raw = append(raw, pair[:]...)
		}
		return raw, 0, true
	case c.enc == nil:
		return text, 0, true
	}
	enc := c.enc.NewEncoder()
	raw, err := enc.Bytes(text)
	if back, ok := c.decode(raw, false); err == nil && ok && string(back.text) == string(text) {
		return raw, 0, true
	}
	for _, r := range string(text) {
		one, err := enc.Bytes([]byte(string(r)))
		if back, _ := c.decode(one, false); err != nil || string(back.text) != string(r) {
			return nil, r, false
		}
	}
	return nil, 0, false
}
