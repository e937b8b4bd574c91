package syntax

import (
	"bytes"

	"github.com/resilientwrite/resilientwrite/internal/strictyaml"
)

// yamlProfile allows every feature of YAML. Aliases are not
// followed, so an alias bomb costs no more than its text.
var yamlProfile = strictyaml.Profile{MaxDepth: 200, Any: true}

// inspectYAML reads each document alone, which shows the mistakes of all.
func inspectYAML(t *text) {
	starts := yamlDocuments(t.src)
	for i, start := range starts {
		end := len(t.src)
		if i+1 < len(starts) {
			end = starts[i+1]
		}
		if !t.full() {
			inspectYAMLDocument(t, start, end)
		}
	}
}

// yamlDocuments returns the offsets at which the documents of a text start. The
// directives before a document belong to it, also where the document before
// them has no end of its own, as YAML 1.1 had it.
func yamlDocuments(src []byte) []int {
	starts := []int{0}
	begun := false   // the current document has more than directives and comments
	directives := -1 // where those just read start
	for pos := 0; pos < len(src); {
		line, size := nextLine(src[pos:])
		inner := bytes.TrimLeft(line, " \t\r")
		switch {
		case yamlMarker(line, "---"):
			if begun && directives >= 0 {
				starts = append(starts, directives)
			} else if begun {
				starts = append(starts, pos)
			}
			begun, directives = true, -1
		case yamlMarker(line, "..."):
			starts = append(starts, pos+size)
			begun, directives = false, -1
		case len(inner) == 0 || inner[0] == '#':
		case line[0] != '%':
			begun, directives = true, -1
		case directives < 0:
			directives = pos
		}
		pos += size
	}
	return starts
}

// yamlMarker reports whether a line starts with a complete marker.
func yamlMarker(line []byte, marker string) bool {
	return bytes.HasPrefix(line, []byte(marker)) && (len(line) == len(marker) || bytes.IndexByte([]byte(" \t\r"), line[len(marker)]) >= 0)
}

// inspectYAMLDocument reads one document.
func inspectYAMLDocument(t *text, start, end int) {
	switch string(bytes.TrimSpace(t.src[start:end])) {
	case "", "---", "...":
		// Most of the documents of a text full of "---" are empty.
		return
	}
	profile := yamlProfile
	if start > 0 {
		profile.Before = t.lineOf(start) - 1
	}
	_, problems := strictyaml.Parse(string(t.src[start:end]), profile)
	for _, p := range problems {
		if t.full() {
			return
		}
		at := t.offsetOf(p.Line, p.Column)
		switch p.Kind {
		case strictyaml.Unread:
			t.warnAt(at, "%s", p.Message)
		case strictyaml.TooDeep:
			t.errorAt(at, "%s; the text is not checked", p.Message)
		default:
			t.errorAt(at, "%s", p.Message)
		}
	}
}
