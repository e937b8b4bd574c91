package syntax

import (
	"bytes"
	"path"
	"strings"
)

// formatNames maps the names and file extensions people use to formats. A name that is
// mapped to Unknown is the extension of text whose first character is not significant:
// a note may start with "[".
var formatNames = map[string]string{
	"json": "json", "geojson": "json", "webmanifest": "json", "ipynb": "json", "jsonld": "json",
	"jsonl": "jsonl", "ndjson": "jsonl", "jsonlines": "jsonl",
	"yaml": "yaml", "yml": "yaml",
	"toml": "toml",
	"xml":  "xml", "svg": "xml", "xhtml": "xml", "xsd": "xml", "xsl": "xml", "xslt": "xml", "rss": "xml", "atom": "xml", "plist": "xml",
	"go": "go", "golang": "go",
	"python": "python", "py": "python", "pyi": "python", "python3": "python",
	"latex": "latex", "tex": "latex", "sty": "latex", "cls": "latex",
	"markdown": "markdown", "md": "markdown", "mdown": "markdown",
	"txt": Unknown, "text": Unknown, "log": Unknown, "ini": Unknown, "cfg": Unknown, "conf": Unknown,
	"properties": Unknown, "csv": Unknown, "tsv": Unknown, "js": Unknown, "ts": Unknown, "c": Unknown, "h": Unknown,
	"rs": Unknown, "sh": Unknown, "rst": Unknown, "json5": Unknown, "jsonc": Unknown, "tmpl": Unknown, "j2": Unknown,
	"css": Unknown, "html": Unknown, "htm": Unknown, "sql": Unknown, "patch": Unknown, "diff": Unknown, "bib": Unknown,
}

// Detect returns the format of a text: the one that hint names, otherwise that of the
// extension of path, otherwise the one that the beginning of the text suggests. A hint
// that names no format of this package means text of another format, so it is not
// overruled by the extension.
func Detect(hint, file string, content []byte) string {
	hint = strings.ToLower(strings.TrimPrefix(strings.TrimSpace(hint), "."))
	if hint != "" && hint != "auto" {
		if format, known := formatNames[hint]; known {
			return format
		}
		return Unknown
	}
	// Windows paths come with backslashes, on whatever system this runs.
	ext := path.Ext(strings.ReplaceAll(file, `\`, "/"))
	if format, known := formatNames[strings.ToLower(strings.TrimPrefix(ext, "."))]; known {
		return format
	}
	return detectByContent(content)
}

func detectByContent(content []byte) string {
	const blanks = " \t\r\n"
	content = bytes.TrimPrefix(content, utf8Mark)
	if bytes.HasPrefix(content, []byte("<?xml")) {
		return "xml"
	}
	if rest, ok := bytes.CutPrefix(content, []byte("---")); ok && (len(rest) == 0 || bytes.IndexByte([]byte(blanks), rest[0]) >= 0) {
		return "yaml"
	}
	content = bytes.TrimLeft(content, blanks)
	if len(content) == 0 || content[0] != '{' && content[0] != '[' {
		return Unknown
	}
	// "[core]" starts an INI or TOML file and "{{" or "{%" a template, so one
	// more character decides.
	inner := bytes.TrimLeft(content[1:], blanks)
	if content[0] == '{' {
		if len(inner) > 0 && bytes.IndexByte([]byte(`{%\#`), inner[0]) >= 0 {
			return Unknown
		}
		return "json"
	}
	inner = bytes.TrimLeft(inner, blanks+"[")
	letters := bytes.TrimLeft(inner, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_")
	switch word := string(inner[:len(inner)-len(letters)]); word {
	case "", "true", "false", "null", "NaN", "Infinity":
		return "json"
	}
	return Unknown
}
