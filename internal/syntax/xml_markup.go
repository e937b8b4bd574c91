package syntax

import (
	"bytes"
	"strconv"
	"strings"
)

// xmlBlanks are the characters that count as white space in XML markup.
const xmlBlanks = " \t\r\n"

// xmlDeclared lists what an XML declaration may hold, in its order.
var xmlDeclared = []struct {
	name   string
	valid  func(value string) bool
	wanted string
}{
	{"version", xmlVersion, `"1." and digits`},
	{"encoding", xmlEncodingName, "the name of an encoding"},
	{"standalone", func(v string) bool { return v == "yes" || v == "no" }, `"yes" or "no"`},
}

func xmlVersion(v string) bool {
	digits, ok := strings.CutPrefix(v, "1.")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}

func xmlEncodingName(v string) bool {
	if v == "" || v[0]|0x20 < 'a' || v[0]|0x20 > 'z' {
		return false
	}
	for _, c := range []byte(v) {
		if !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'z') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

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
		s.declaration(start, raw)
	}
}

// declaration checks the XML declaration, which is like a tag with attributes
// but has its own names, values and order.
func (s *xmlScanner) declaration(start int, raw []byte) {
	body := bytes.TrimSuffix(raw, []byte("?>"))
	pos, next := len("<?xml"), 0
	for {
		rest := bytes.TrimLeft(body[pos:], xmlBlanks)
		blanks := len(body) - pos - len(rest)
		pos += blanks
		if len(rest) == 0 {
			break
		}
		if blanks == 0 {
			s.t.errorAt(start+pos, "white space is missing in the XML declaration")
			return
		}
		name := string(rest[:len(rest)-len(bytes.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyz"))])
		for next < len(xmlDeclared) && xmlDeclared[next].name != name {
			next++
		}
		if next == len(xmlDeclared) {
			s.t.errorAt(start+pos, "the XML declaration has a version, then perhaps an encoding, then perhaps standalone; found %s", quoted(rest))
			return
		}
		value, size, ok := xmlAssigned(rest[len(name):])
		if !ok {
			s.t.errorAt(start+pos, `%s in the XML declaration needs "=" and a value in quotes`, name)
			return
		}
		if entry := xmlDeclared[next]; !entry.valid(value) {
			s.t.errorAt(start+pos, "%s in the XML declaration must be %s, not %s", name, entry.wanted, quoted([]byte(value)))
		}
		if next > 0 && !s.versioned {
			break
		}
		s.versioned = true
		pos += len(name) + size
		next++
	}
	if !s.versioned {
		s.t.errorAt(start, "the XML declaration does not start with a version")
	}
}

// xmlAssigned reads an equals sign and a value in quotes.
func xmlAssigned(src []byte) (value string, size int, ok bool) {
	rest, ok := bytes.CutPrefix(bytes.TrimLeft(src, xmlBlanks), []byte("="))
	if !ok {
		return "", 0, false
	}
	rest = bytes.TrimLeft(rest, xmlBlanks)
	if len(rest) == 0 || rest[0] != '"' && rest[0] != '\'' {
		return "", 0, false
	}
	end := bytes.IndexByte(rest[1:], rest[0])
	if end < 0 {
		return "", 0, false
	}
	return string(rest[1 : 1+end]), len(src) - len(rest) + end + 2, true
}

// attributeBlanks looks for two attributes of a tag with nothing between them,
// which the decoder accepts.
func (s *xmlScanner) attributeBlanks(start int) {
	raw := s.raw(start)
	for pos := 0; pos < len(raw); pos++ {
		quote := raw[pos]
		if quote != '"' && quote != '\'' {
			continue
		}
		size := bytes.IndexByte(raw[pos+1:], quote)
		if size < 0 {
			return
		}
		pos += size + 1
		if pos+1 < len(raw) && bytes.IndexByte([]byte(xmlBlanks+"/>"), raw[pos+1]) < 0 {
			s.t.errorAt(start+pos+1, "white space is missing between the attributes")
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

// raw returns the token that starts at start as it stands in the text.
func (s *xmlScanner) raw(start int) []byte {
	raw := s.t.src[start:s.d.InputOffset()]
	s.t.looked(len(raw))
	return raw
}
