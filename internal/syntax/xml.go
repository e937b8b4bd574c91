package syntax

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"maps"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/resilientwrite/resilientwrite/internal/visible"
)

// maxXMLDepth is above the 256 levels at which libxml2 stops by default.
const maxXMLDepth = 1000

// The classes of letters take a while to compile, and few commands check XML.
var (
	xmlEntityUse = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`&([\pL_:][\pL\pN_:.\-]*);`)
	})
	xmlDoctype = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^DOCTYPE[ \t\r\n]+[\pL_:][\pL\pN\pM_:.\-·]*([ \t\r\n]+(SYSTEM|PUBLIC[ \t\r\n]+("[^"]*"|'[^']*'))[ \t\r\n]+("[^"]*"|'[^']*'))?[ \t\r\n]*(\[(?s:.*)\][ \t\r\n]*)?$`)
	})
	xmlEntityDecl = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`<!ENTITY\s+([\pL_:][\pL\pN_:.\-]*)\s`)
	})
)

// xmlScanner matches the tags by itself: the decoder of the standard library would stop
// at the first mismatch and does not report where the tag was opened.
type xmlScanner struct {
	t       *text
	d       *xml.Decoder
	stack   []xmlTag
	rooted  bool // the root element has begun
	outside bool // text outside the root was reported

	doctype bool // there was a DOCTYPE
}

type xmlTag struct {
	name   string
	offset int
}

func inspectXML(t *text) {
	s := &xmlScanner{t: t, d: xml.NewDecoder(bytes.NewReader(t.src))}
	s.d.Entity = map[string]string{}
	// The text has been turned into UTF-8 already, whatever it declares.
	s.d.CharsetReader = func(_ string, r io.Reader) (io.Reader, error) { return r, nil }
	for {
		start := int(s.d.InputOffset())
		token, err := s.d.RawToken()
		if err != nil {
			s.atEnd(start, err)
			return
		}
		if !s.token(start, token) {
			return
		}
	}
}

// atEnd reports the syntax error that ended the scan, or the elements that are not
// closed at the end of the text.
func (s *xmlScanner) atEnd(start int, err error) {
	if !errors.Is(err, io.EOF) {
		offset := int(s.d.InputOffset())
		message := err.Error()
		var bad *xml.SyntaxError
		if errors.As(err, &bad) {
			message = bad.Msg
		}
		if strings.HasPrefix(message, "unexpected EOF") {
			s.t.errorAt(start, "the text ends inside the tag, comment or section that starts here")
			return
		}
		s.t.errorAt(max(start, offset-1), "%s", strings.TrimPrefix(message, "xml: "))
		return
	}
	for i := len(s.stack) - 1; i >= 0; i-- {
		tag := s.stack[i]
		s.t.errorAt(tag.offset, "<%s> opened at line %d is never closed", tag.name, s.t.lineOf(tag.offset))
	}
	if !s.rooted {
		s.t.errorAt(0, "there is no root element")
	}
}

// token checks one token and says whether to go on.
func (s *xmlScanner) token(start int, token xml.Token) bool {
	switch token := token.(type) {
	case xml.StartElement:
		return s.open(start, token)
	case xml.EndElement:
		return s.close(start, xmlName(token.Name))
	case xml.CharData:
		// Outside the root not even a section or reference may replace blanks.
		if rest := bytes.TrimLeft(s.raw(start), xmlBlanks); len(s.stack) == 0 && !s.outside && len(rest) > 0 {
			s.outside = true
			s.t.errorAt(int(s.d.InputOffset())-len(rest), "text outside the root element")
		}
		if !bytes.HasPrefix(s.t.src[start:], []byte("<![CDATA[")) {
			s.references(start)
		}
	case xml.ProcInst:
		s.instruction(start, token.Target)
	case xml.Directive:
		s.directive(start, token)
	}
	return true
}

func (s *xmlScanner) open(start int, element xml.StartElement) bool {
	name := xmlName(element.Name)
	if len(s.stack) == maxXMLDepth {
		s.t.errorAt(start, "nested deeper than %d levels; the rest is not checked", maxXMLDepth)
		return false
	}
	if len(s.stack) == 0 && s.rooted {
		s.t.errorAt(start, "<%s> is a second root element; a document has one", shorten(name))
	}
	s.rooted = true
	s.attributeBlanks(start)
	s.references(start)
	s.stack = append(s.stack, xmlTag{shorten(name), start})
	seen := make(map[string]bool, len(element.Attr))
	for _, a := range element.Attr {
		attr := xmlName(a.Name)
		if seen[attr] {
			s.t.errorAt(start, "<%s> has the attribute %s twice", shorten(name), shorten(attr))
		}
		seen[attr] = true
	}
	return true
}

func (s *xmlScanner) close(start int, name string) bool {
	name = shorten(name)
	n := len(s.stack)
	if n == 0 {
		s.t.errorAt(start, "</%s> closes nothing", name)
		return true
	}
	top := s.stack[n-1]
	s.stack = s.stack[:n-1]
	if top.name == name {
		return true
	}
	s.t.errorAt(start, "</%s> does not match <%s> opened at line %d", name, top.name, s.t.lineOf(top.offset))
	// If the tag belongs to the enclosing element, the inner one was left open;
	// continuing from there keeps one mistake from being reported many times.
	if n > 1 && s.stack[n-2].name == name {
		s.stack = s.stack[:n-2]
	}
	return true
}

// directive reads a DOCTYPE for the entities it declares.
func (s *xmlScanner) directive(start int, d xml.Directive) {
	if !bytes.HasPrefix(d, []byte("DOCTYPE")) {
		s.t.errorAt(start, "<!%s is not allowed here", shorten(string(d)))
		return
	}
	if s.rooted {
		s.t.errorAt(start, "the DOCTYPE must come before the root element")
	}
	if s.doctype {
		s.t.errorAt(start, "a second DOCTYPE; a document has one")
		return
	}
	s.doctype = true
	if !xmlDoctype().Match(d) {
		s.t.errorAt(start, "the DOCTYPE is malformed: the name of the root element, perhaps SYSTEM or PUBLIC with quoted identifiers, perhaps declarations in []")
	}
	for _, m := range xmlEntityDecl().FindAllSubmatch(d, -1) {
		s.d.Entity[string(m[1])] = ""
	}
	head, _, _ := bytes.Cut(d, []byte("["))
	if bytes.Contains(head, []byte("SYSTEM")) || bytes.Contains(head, []byte("PUBLIC")) || bytes.Contains(d, []byte("%")) {
		// The DTD is external and may declare any entity.
		s.t.looked(len(s.t.src))
		maps.Copy(s.d.Entity, xml.HTMLEntity)
		for _, m := range xmlEntityUse().FindAllSubmatch(s.t.src, -1) {
			s.d.Entity[string(m[1])] = ""
		}
	}
}

func xmlName(n xml.Name) string {
	if n.Space != "" {
		return n.Space + ":" + n.Local
	}
	return n.Local
}

// shorten keeps a name of any length from filling a message. Two names that
// differ only after that count as one, which does not occur in real documents.
func shorten(name string) string { return visible.Cut(name, 200) }

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
