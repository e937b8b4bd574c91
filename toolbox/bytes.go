package toolbox

import (
	"reflect"
	"unicode/utf8"
)

// isText reports whether the content of a reply, if it has one, can be sent as
// text. Content that goes on in a next part never ends within a character.
func isText(out any) bool {
	v := reflect.ValueOf(out).Elem()
	if v.Kind() != reflect.Struct {
		return true
	}
	f := v.FieldByName("Content")
	if !f.IsValid() || f.Type() != reflect.TypeFor[[]byte]() {
		return true
	}
	if more := v.FieldByName("Truncated"); more.IsValid() && more.Bool() {
		f.SetBytes(wholeRunes(f.Bytes()))
	}
	return utf8.Valid(f.Bytes())
}

// wholeRunes cuts a character off that the end of p splits.
func wholeRunes(p []byte) []byte {
	for back := 1; back < utf8.UTFMax && back <= len(p); back++ {
		if c := p[len(p)-back]; utf8.RuneStart(c) {
			if !utf8.FullRune(p[len(p)-back:]) {
				return p[:len(p)-back]
			}
			break
		}
	}
	return p
}
