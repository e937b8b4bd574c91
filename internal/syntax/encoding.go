package syntax

import (
	"bytes"
	"regexp"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"golang.org/x/text/encoding/charmap"
)

var (
	utf8Mark = []byte("\ufeff")
	// pythonCoding is the coding comment of PEP 263, in the first two lines.
	pythonCoding = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)`) })
	xmlCoding    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^<\?xml[^>]*\sencoding\s*=\s*["']([-\w.]+)["']`) })
	latexCoding  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^[^%\n]*\\usepackage\[([-\w]+)\]\{inputenc\}`) })
)

// decode prepares content for a checker. If it cannot be read as text, the
// returned text holds the reason and readable is false.
func decode(format string, content []byte) (t *text, readable bool) {
	src := bytes.TrimPrefix(content, utf8Mark)
	t = &text{src: src}
	if len(src) < len(content) && (format == "json" || format == "jsonl") {
		t.warnAt(0, "the text starts with a byte order mark, which many JSON parsers refuse")
	}
	if bytes.HasPrefix(content, []byte{0xff, 0xfe}) || bytes.HasPrefix(content, []byte{0xfe, 0xff}) {
		t.src = nil
		t.errorAt(0, "the text is UTF-16, not UTF-8")
		return t, false
	}
	if utf8.Valid(src) {
		return t, true
	}
	if name := declaredEncoding(format, src); name != "" && len(src) == len(content) {
		if singleByte(name) {
			// The meaning of the upper 128 bytes does not affect the syntax, so Latin-1
			// serves for all of these encodings.
			src, _ = charmap.ISO8859_1.NewDecoder().Bytes(src) // which cannot fail
			return &text{src: src}, true
		}
		t.warnAt(0, "the text declares the encoding %s, so its syntax was not checked", name)
		t.src = nil
		return t, false
	}
	bad := firstInvalid(src)
	t.errorAt(bad, "the text is not valid UTF-8: byte 0x%02x", src[bad])
	return t, false
}

// firstInvalid returns the offset of the first byte that is not UTF-8.
func firstInvalid(src []byte) int {
	for i := 0; i < len(src); {
		r, size := utf8.DecodeRune(src[i:])
		if r == utf8.RuneError && size == 1 {
			return i
		}
		i += size
	}
	return len(src)
}

// declaredEncoding returns the encoding other than UTF-8 that the text says it
// is written in, or "".
func declaredEncoding(format string, src []byte) string {
	head := src[:min(len(src), 4096)]
	var found [][]byte
	switch format {
	case "python":
		lines := bytes.SplitN(head, []byte("\n"), 3)
		found = pythonCoding().FindSubmatch(lines[0])
		if found == nil && len(lines) > 1 {
			found = pythonCoding().FindSubmatch(lines[1])
		}
	case "xml":
		found = xmlCoding().FindSubmatch(head)
	case "latex":
		found = latexCoding().FindSubmatch(head)
	}
	if found == nil {
		return ""
	}
	name := strings.ToLower(strings.ReplaceAll(string(found[1]), "_", "-"))
	if name == "utf8" || strings.HasPrefix(name, "utf-8") {
		return ""
	}
	return name
}

// singleByte reports whether the encoding has one byte for every character and
// ASCII in its lower half.
func singleByte(name string) bool {
	prefixes := []string{"latin", "iso-8859", "iso8859", "cp125", "cp437", "cp85", "windows-125", "koi8", "ansinew", "ibm8", "applemac", "mac"}
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
