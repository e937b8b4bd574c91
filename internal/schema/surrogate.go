package schema

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// LoneSurrogate returns the offset of the first escaped half of a surrogate pair in a
// JSON text, or -1 if there is none; encoding/json would replace it with U+FFFD.
func LoneSurrogate(text []byte) int {
	for at := 0; ; {
		i := bytes.IndexByte(text[at:], '\\')
		if i < 0 {
			return -1
		}
		at += i
		first, ok := escaped(text[at:])
		switch {
		case !ok:
			at = min(at+2, len(text))
		case !utf16.IsSurrogate(first):
			at += 6
		default:
			second, _ := escaped(text[at+6:])
			if utf16.DecodeRune(first, second) == utf8.RuneError {
				return at
			}
			at += 12
		}
	}
}

// escaped reads the escape \u0000 at the beginning of a text.
func escaped(text []byte) (rune, bool) {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(text[2:6]), 16, 32)
	return rune(n), err == nil
}
