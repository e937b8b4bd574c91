package syntax

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// xmlBlanks are the characters that count as white space in XML markup.
const xmlBlanks = " \t\r\n"

// xmlDeclaration is the XML declaration: a version, then perhaps an encoding,
// then perhaps standalone.
var xmlDeclaration = sync.OnceValue(func() *regexp.Regexp {
	const blank, assigned = `[ \t\r\n]+`, `[ \t\r\n]*=[ \t\r\n]*`
	part := func(name, value string) string {
		return blank + name + assigned + `("` + value + `"|'` + value + `')`
	}
	return regexp.MustCompile(`^<\?xml` + part("version", `1\.[0-9]+`) + "(" + part("encoding", `[A-Za-z][A-Za-z0-9._-]*`) + ")?(" + part("standalone", "(yes|no)") + `)?[ \t\r\n]*\?>$`)
})

// xmlValue finds the values of attributes, the only place where a tag has quotes.
var xmlValue = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`"[^"]*"|'[^']*'`) })

// instruction checks a processing instruction. The decoder lets anything follow
// the name of one, the XML declaration as well.
func (s *xmlScanner) instruction(start int, target string) {
	raw := s.raw(start)
	after := len("<?") + len(target)
	switch {
	case target == "xml" && start > 0:
		s.t.errorAt(start, "the XML declaration must be the very first thing in the text")
	case target != "xml" && strings.EqualFold(target, "xml"):
		s.t.errorAt(start, "<?%s is reserved; the XML declaration is written <?xml", target)
	case !bytes.HasPrefix(raw[after:], []byte("?>")) && bytes.IndexByte([]byte(xmlBlanks), raw[after]) < 0:
		s.t.errorAt(start+after, "white space is missing after <?%s", shorten(target))
	case target == "xml":
		if !xmlDeclaration().Match(raw) {
			s.t.errorAt(start, "the XML declaration is malformed; it has a version, then perhaps an encoding, then perhaps standalone, each with \"=\" and a value in quotes")
		}
	}
}

// attributeBlanks looks for two attributes of a tag with nothing between them,
// which the decoder accepts.
func (s *xmlScanner) attributeBlanks(start int) {
	raw := s.raw(start)
	for _, m := range xmlValue().FindAllIndex(raw, -1) {
		if end := m[1]; end < len(raw) && !strings.ContainsRune(xmlBlanks+"/>", rune(raw[end])) {
			s.t.errorAt(start+end, "white space is missing between the attributes")
		}
	}
}

// references looks for references to characters that do not exist. The decoder
// turns the halves of a surrogate pair into another character.
func (s *xmlScanner) references(start int) {
	raw := s.raw(start)
	for pos := 0; ; {
		i := bytes.Index(raw[pos:], []byte("&#"))
		if i < 0 {
			return
		}
		pos += i + len("&#")
		digits, base := raw[pos:min(len(raw), pos+20)], 10
		if bytes.HasPrefix(digits, []byte("x")) {
			digits, base = digits[1:], 16
		}
		digits, _, _ = bytes.Cut(digits, []byte(";"))
		if n, err := strconv.ParseUint(string(digits), base, 32); err == nil && n >= 0xd800 && n <= 0xdfff {
			s.t.errorAt(start+pos-len("&#"), "&#%s; is half of a surrogate pair and no character", shorten(string(raw[pos:pos+bytes.IndexByte(raw[pos:], ';')])))
		}
	}
}

// raw returns the token that starts at start as it is in the text.
func (s *xmlScanner) raw(start int) []byte {
	raw := s.t.src[start:s.d.InputOffset()]
	s.t.looked(len(raw))
	return raw
}
