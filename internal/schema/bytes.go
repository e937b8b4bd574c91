package schema

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Encoding is the type of a blank field with the tag wire:"encoding": an argument or
// reply field that only the wire has, because JSON has no bytes. Its value, utf-8 or
// base64, is the form in which the []byte fields of the struct are written. If a struct
// has a field of its own named encoding, the field base64 is used instead.
type Encoding struct{}

const (
	encodingName = "encoding"
	textForm     = "utf-8"
	base64Form   = "base64"
)

var (
	bytesType    = reflect.TypeFor[[]byte]()
	encodingType = reflect.TypeFor[Encoding]()
)

// wants reports whether a field counts: some fields count only if another one has a
// given value.
func (o *members) wants(f *field) bool {
	name, value, when := strings.Cut(f.needed, "=")
	return !when || o.text(name) == value
}

// givesBytes reports whether an object has a member for a []byte field.
func (o *members) givesBytes(t reflect.Type) bool {
	return slices.ContainsFunc(fields(t).list, func(f field) bool {
		return f.typ == bytesType && !isNull(o.value(f.name)) && o.wants(&f)
	})
}

// hasBytes reports whether a struct has a []byte field.
func hasBytes(t reflect.Type) bool {
	return slices.ContainsFunc(fields(t).list, func(f field) bool { return f.typ == bytesType })
}

// formName returns the member that says how the []byte fields of a struct are written.
func formName(t reflect.Type) string {
	for _, f := range fields(t).list {
		if f.typ == encodingType {
			return f.name
		}
	}
	return encodingName
}

// bytes reads the member of the []byte field f of the struct v.
func (d *decoder) bytes(f *field, raw *members, v reflect.Value) error {
	value := raw.value(f.name)
	if isNull(value) {
		return nil
	}
	var text string
	if f.name == "content" && (value[0] == '{' || value[0] == '[') && strings.HasSuffix(strings.ToLower(raw.text("path")), ".json") {
		var err error
		if text, err = indent(value); err != nil {
			return err
		}
		d.wire.Notes = append(d.wire.Notes, ContentWasObject)
	} else if err := decodeString(f, value, reflect.ValueOf(&text).Elem()); err != nil {
		return err
	}
	content := []byte(text)
	if raw.text(formName(v.Type())) == base64Form && raw.wants(f) {
		decoded, err := base64.StdEncoding.DecodeString(text)
		if err != nil {
			d.wire.Malformed = append(d.wire.Malformed, d.in+f.name)
		} else {
			content = decoded
		}
	}
	v.FieldByIndex(f.index).SetBytes(content)
	return nil
}

// FormOf is the encoding in which the []byte fields of a struct can be written:
// utf-8, or base64 when one of them is not UTF-8.
func FormOf(v reflect.Value) string {
	for _, f := range fields(v.Type()).list {
		if f.typ == bytesType && formOf(v.FieldByIndex(f.index).Bytes()) == base64Form {
			return base64Form
		}
	}
	return textForm
}

func formOf(b []byte) string {
	if utf8.Valid(b) {
		return textForm
	}
	return base64Form
}

func bytesText(b []byte, encoding string) string {
	if encoding == base64Form {
		return base64.StdEncoding.EncodeToString(b)
	}
	return string(b)
}

// Unquoted returns the JSON object or array, by its first byte, that a string holds as
// text, as some models send one. Anything else is returned as it is.
func Unquoted(raw json.RawMessage, first byte) json.RawMessage {
	var text string
	if len(raw) == 0 || raw[0] != '"' || LoneSurrogate(raw) >= 0 || json.Unmarshal(raw, &text) != nil {
		return raw
	}
	if value := bytes.TrimSpace([]byte(text)); len(value) > 0 && value[0] == first && json.Valid(value) {
		return value
	}
	return raw
}

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
