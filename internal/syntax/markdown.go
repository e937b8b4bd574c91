package syntax

import (
	"bytes"

	"github.com/resilientwrite/resilientwrite/internal/frontmatter"
)

// inspectMarkdown checks the front matter and looks for a code fence that is
// never closed, which swallows the rest of the page.
func inspectMarkdown(t *text) {
	body := 0
	switch yaml, rest, err := frontmatter.Split(t.src); err {
	case nil:
		body = len(t.src) - len(rest)
		// The opening line is a YAML document start as well, so the YAML
		// checker can be given it too and its positions fit.
		whole := t.src
		_, opening := nextLine(whole)
		t.src = whole[:opening+len(yaml)]
		inspectYAML(t)
		t.src, t.starts = whole, nil
	case frontmatter.Unterminated:
		t.errorAt(0, "the front matter that starts with --- is never closed by another --- line")
		return
	}
	checkFences(t, body)
}

// nextLine cuts the first line, without its end, from src.
func nextLine(src []byte) (line []byte, size int) {
	i := bytes.IndexByte(src, '\n')
	if i < 0 {
		return src, len(src)
	}
	return bytes.TrimSuffix(src[:i], []byte("\r")), i + 1
}

// fence is an open code fence.
type fence struct {
	mark   byte
	length int
	offset int
	quote  bool // it is in a block quote, whose end closes it as well
}

func checkFences(t *text, pos int) {
	var open *fence
	inList := false
	for pos < len(t.src) {
		line, size := nextLine(t.src[pos:])
		content, indent, quote, item := container(line)
		mark, length, info := fenceMarks(content)
		switch {
		case open != nil:
			closes := mark == open.mark && length >= open.length && len(bytes.TrimSpace(info)) == 0
			if closes || open.quote && !quote {
				open = nil
			}
		case length >= 3 && (indent < 4 || inList || item) && (mark == '~' || bytes.IndexByte(info, '`') < 0):
			open = &fence{mark, length, pos, quote}
		}
		if open == nil && len(content) > 0 {
			// Deep indentation is a code block, except inside a list.
			inList = item || inList && indent > 0
		}
		pos += size
	}
	if open != nil && !open.quote {
		t.warnAt(open.offset, "the code fence opened at line %d is never closed", t.lineOf(open.offset))
	}
}

// container strips block quote and list markers from a line. The indentation is
// that of the line itself.
func container(line []byte) (content []byte, indent int, quote, item bool) {
	content = bytes.TrimLeft(line, " \t")
	for _, c := range line[:len(line)-len(content)] {
		indent++
		if c == '\t' {
			indent += 3
		}
	}
	for {
		n := 0
		for n < len(content) && n < 9 && content[n] >= '0' && content[n] <= '9' {
			n++
		}
		switch {
		case len(content) > 0 && content[0] == '>':
			quote = true
			content = bytes.TrimLeft(content[1:], " \t")
		case n > 0 && len(content) > n+1 && (content[n] == '.' || content[n] == ')') && content[n+1] == ' ',
			n == 0 && len(content) > 1 && bytes.IndexByte([]byte("-*+"), content[0]) >= 0 && content[1] == ' ':
			item = true
			content = bytes.TrimLeft(content[n+1:], " \t")
		default:
			return content, indent, quote, item
		}
	}
}

// fenceMarks returns the run of fence characters a line starts with and what
// follows it.
func fenceMarks(content []byte) (mark byte, length int, info []byte) {
	if len(content) == 0 || content[0] != '`' && content[0] != '~' {
		return 0, 0, nil
	}
	rest := bytes.TrimLeft(content, string(content[0]))
	return content[0], len(content) - len(rest), rest
}
