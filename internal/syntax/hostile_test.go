package syntax

import (
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// common are the texts that get long the soonest.
var common = []string{"[", "{", "(", "\\begin{a}", "\"", "'", "\"\"\"", "-", "_", "- ", "<a>", "a: ", "$", "\n", "\\", "[1,", "f'{", "if a:\n", "---\n"}

// hostile are texts that a careless checker recurses or loops over.
var hostile = []string{
	"[", "{", "(", "]", "}", ")", "[[", "{\"a\":", "{a: ", "[1,", "<a>", "</a>", "<!--", "&a;", "&a ", "*a ",
	"\\begin{a}", "\\end{a}", "\\begin{verbatim}", "\\verb", "\\url{", "\\iffalse", "$", "$$", "\\(", "\\[", "\\newcommand{",
	"\"", "'", "\"\"\"", "'''", "`", "f'{", "f\"{", "f'''{x:", "{x:", "-", "- ", "_", "a_b ", "\\", "\\\n", "\n", "\r\n", "\r", "\t", " ", "\x00",
	"a\n", "a: ", "a:\n", "-\n", "- a\n", "? ", "! ", "|\n", "---\n", "---\na\n", "...\n", "%\n", "#", "# a\n", "```\n", "> ", "1. ", "~~~\n```\n",
	"a=", "a.", "a = 1\n", "[a]\n", "[[a]]\n", "[a.", "x = [\n", "\"a\"", "if a:\n", "if a: ", "lambda:", "else:\n", "try:\n", "async ", "@a\n", "a;", ",", "=", "0", "0_",
	"func(", "package a;", "if x {} else ", "*", "!", "chan ", "a:", "/*", "//", "é", "\ufeff", "<a b='1' ", "<![CDATA[", "<!DOCTYPE a [", "<?a", "NaN,", "\\u", "{,",
}

// TestHostile gives every text to every checker. Nothing is timed: a checker
// that is not linear would keep the test from ending. A short run takes its
// share of the pairs of a text and a checker.
func TestHostile(t *testing.T) {
	type pair struct{ piece, format string }
	repeat := func(pieces []string, size int) {
		var all []pair
		for _, piece := range pieces {
			for _, format := range Formats() {
				all = append(all, pair{piece, format})
			}
		}
		for _, p := range testbed.Share(t, all, 7, nil) { // 7 does not divide the number of formats
			verify(t, p.format, []byte(strings.Repeat(p.piece, size/len(p.piece))))
		}
	}
	repeat(hostile, 100_000)
	if !testing.Short() {
		repeat(common, 1_000_000)
	}
}

func TestDepthLimits(t *testing.T) {
	for _, c := range []struct{ format, before, piece string }{
		{"json", "", "["}, {"json", "", `{"a":`}, {"jsonl", "", "["},
		{"yaml", "", "["}, {"yaml", "", "{"}, {"yaml", "", "- "}, {"yaml", "", "? "},
		{"toml", "a = ", "["}, {"toml", "a = ", "{a = "},
		{"xml", "", "<a>"},
		{"go", "package a; var x = ", "("}, {"go", "package a; var x = ", "[]int{"}, {"go", "package a; var x = ", "- "},
		{"python", "", "("}, {"python", "", "["}, {"python", "", "{"}, {"python", "", "f'{"},
		{"latex", "", "{"}, {"latex", "", `\begin{a}`}, {"latex", "", `\(`},
		{"markdown", "---\n", "[\n"},
	} {
		for _, size := range []int{100_000, 1_000_000} {
			text := c.before + strings.Repeat(c.piece, size/len(c.piece))
			if c.format == "markdown" {
				text += "\n---\n"
			}
			r := Check(c.format, []byte(text))
			found := false
			for _, p := range r.Problems {
				found = found || p.Severity == Error && strings.Contains(p.Message, "nested deeper than")
			}
			if !found || r.Valid || len(r.Problems) > 3 {
				t.Errorf("%s of %d %q: %v", c.format, size, c.piece, r.Problems)
			}
		}
	}
	deep := ""
	for i := range 300 {
		deep += strings.Repeat(" ", i) + "if a:\n"
	}
	reject(t, "python", badCase{deep, 101, 101, "indented deeper than 100 levels"})
}

// verify checks what must hold for every text.
func verify(t *testing.T, format string, text []byte) {
	t.Helper()
	shown := text[:min(len(text), 60)]
	r := Check(format, text)
	if r.Format != format || r.Problems == nil || len(r.Problems) > maxProblems+1 {
		t.Fatalf("%s: %q: %d problems, format %s", format, shown, len(r.Problems), r.Format)
	}
	lines := linesOf(strings.TrimPrefix(string(text), "\ufeff"))
	broken := false
	for _, p := range r.Problems {
		broken = broken || p.Severity == Error
		if p.Message == "" || p.Severity != Error && p.Severity != Warning {
			t.Errorf("%s: %q: malformed problem %+v", format, shown, p)
		}
		if p.Line < 1 || p.Line > len(lines) || p.Col < 1 {
			t.Fatalf("%s: %q: %+v lies outside the text", format, shown, p)
		}
		// One past the last character stands for the end of the line; of
		// CR LF, the first may be the last character.
		if line := lines[p.Line-1]; p.Col > len([]rune(line))+2 {
			t.Errorf("%s: %q: %+v lies outside its line", format, shown, p)
		}
	}
	if r.Valid == broken {
		t.Errorf("%s: %q: valid is %v: %v", format, shown, r.Valid, r.Problems)
	}
}

// linesOf cuts a text the way the positions count its lines.
func linesOf(text string) []string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.Split(strings.ReplaceAll(text, "\r", "\n"), "\n")
}
