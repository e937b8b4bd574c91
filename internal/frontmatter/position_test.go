package frontmatter_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/frontmatter"
)

// TestEveryRefusalHasAPlace: whatever is refused is reported with its line and
// column, and a limit by its name.
func TestEveryRefusalHasAPlace(t *testing.T) {
	for name, c := range map[string]struct {
		yaml         string
		line, column int
		want         frontmatter.Problem
		says         string
	}{
		"invalid byte":             {"a: 1\nb: é\xffx\n", 2, 5, frontmatter.InvalidYAML, "UTF-8"},
		"invalid byte after CRLF":  {"a: 1\r\n\r\nb: \xc3\r\n", 3, 4, frontmatter.InvalidYAML, "UTF-8"},
		"invalid byte after CR":    {"a: 1\rb: \xed\xa0\x80\r", 2, 4, frontmatter.InvalidYAML, "UTF-8"},
		"invalid first byte":       {"\xff", 1, 1, frontmatter.InvalidYAML, "UTF-8"},
		"a real U+FFFD before it":  {"a: \ufffd\xfe", 1, 5, frontmatter.InvalidYAML, "UTF-8"},
		"control character":        {"a: 1\nb: \x01\n", 2, 4, frontmatter.InvalidYAML, "control"},
		"nested on one line":       {"summary: " + strings.Repeat("a: ", 100) + "\n", 1, 200, frontmatter.TooLarge, "nested deeper than 64"},
		"nested by indent":         {nestedBy(70, ""), 65, 66, frontmatter.TooLarge, "nested deeper than 64"},
		"nested brackets":          {"a: 1\nb: " + strings.Repeat("[", 70), 2, 67, frontmatter.TooLarge, "nested deeper than 64"},
		"nested dashes under keys": {nestedBy(40, "- "), 0, 0, frontmatter.TooLarge, "nested deeper than 64"},
		"blank lines":              {"a: 1\n" + strings.Repeat("\n", 200) + "b: 1\n", 102, 1, frontmatter.TooLarge, "blank lines"},
		"angles":                   {"a: " + strings.Repeat("<", 2000), 1, 1004, frontmatter.TooLarge, "in a row"},
		"tokens":                   {"a: [" + strings.Repeat("1,\n", 20_000) + "]", 0, 0, frontmatter.TooLarge, "tokens"},
		"anchors":                  {"a: " + strings.Repeat("\n- &a x", 1200), 0, 0, frontmatter.TooLarge, "tags and anchors"},
	} {
		_, err := frontmatter.Decode([]byte(c.yaml))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		line, column, message := placeOf(err)
		if line < 1 || column < 1 || c.line > 0 && (line != c.line || column != c.column) || !strings.Contains(message, c.says) {
			t.Errorf("%s: %d, %d: %q; want %d, %d", name, line, column, message, c.line, c.column)
		}
	}
	_, err := frontmatter.Decode([]byte(strings.Repeat("a", frontmatter.MaxSize+1)))
	if _, _, message := placeOf(err); !errors.Is(err, frontmatter.TooLarge) || !strings.Contains(message, "1048576 bytes") {
		t.Errorf("size: %v", err)
	}
}

// nestedBy is a mapping in a mapping, and so on.
func nestedBy(depth int, mark string) string {
	var b strings.Builder
	for i := range depth {
		b.WriteString(strings.Repeat(" ", i*(1+len(mark))) + mark + "a:\n")
	}
	return b.String()
}

func placeOf(err error) (line, column int, message string) {
	var at *frontmatter.Error
	if errors.As(err, &at) {
		return at.Line, at.Column, at.Message
	}
	return 0, 0, err.Error()
}
