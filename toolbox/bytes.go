package toolbox

import (
	"reflect"
	"unicode/utf8"

	rw "github.com/resilientwrite/resilientwrite"
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

// notText refuses a reply whose content is not text.
func notText(op string, out any) *rw.Error {
	e := rw.NewError(op, rw.ErrNotValidUTF8, "retry_with_encoding_base64: the content is not UTF-8 text, or begins inside a character", nil)
	if f := reflect.ValueOf(out).Elem().FieldByName("Path"); f.IsValid() && f.Kind() == reflect.String {
		e.Path = f.String()
	}
	return e
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
