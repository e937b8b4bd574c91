package syntax

import (
	"slices"
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
	"<", "\\verb|a| ", "\\verb*", "\\lstinline[", "\\lstinline[]", "\\mintinline{", "\\mintinline[", "\\url[", "\\url[]", "\\usepackage", "\\begin {",
	"<!DOCTYPE a SYSTEM 'b'>", "<!DOCTYPE a [<!ENTITY b 'c'>]>", "&#1;", "<a b=''", "%a\n---\na\n", "* ", "*a, ", "!a ", "a <", "a\n ", " #", "'a' ", "a if b else ", "lambda ", "a(", "a[",
}

// TestHostile gives every text to every checker. FuzzLinear bounds what they
// cost. A short run takes its share of the pairs of a text and a checker.
func TestHostile(t *testing.T) {
	type pair struct{ piece, format string }
	repeat := func(pieces []string, size int) {
		var all []pair
		for _, piece := range pieces {
			for _, l := range languages() {
				format := l.name
				all = append(all, pair{piece, format})
			}
		}
		for _, p := range testbed.Share(t, all, 59, nil) { // 59 does not divide the number of formats
			verify(t, p.format, []byte(strings.Repeat(p.piece, size/len(p.piece))))
		}
	}
	repeat(hostile, 100_000)
	if !testing.Short() {
		repeat(common, 1_000_000)
	}
}

// maxWork is how often a checker may look at each byte of a text.
const maxWork = 12

// TestWork counts what the checkers of this package look at in every hostile
// text: it must grow no faster than the text. No clock is asked, so the texts can
// be short and all of them are tried in every run.
func TestWork(t *testing.T) {
	const size = 10_000
	for _, format := range []string{"latex", "python", "xml"} {
		for _, piece := range append(common, hostile...) {
			text := strings.Repeat(piece, size/len(piece))
			work := workFor(format, []byte(text))
			testbed.Expect(t, work <= maxWork*size, "%s: %d bytes of %q are looked at %d times", format, size, piece, work)
		}
	}
}

// workFor returns how many bytes and tokens a checker looks at.
func workFor(format string, src []byte) int {
	for _, l := range languages() {
		if l.name == format {
			if t, readable := decode(format, src); readable {
				l.inspect(t)
				return t.work
			}
		}
	}
	return 0
}

// TestWorkIsCounted makes sure that TestWork has something to count.
func TestWorkIsCounted(t *testing.T) {
	for format, text := range map[string]string{
		"latex": "\\verb|a| \\lstinline[b]|c| \\url{d}", "python": "a = b(c)\n", "xml": "<!DOCTYPE a SYSTEM 'b'><a c='d'>e</a>",
	} {
		work := workFor(format, []byte(text))
		testbed.Expect(t, work >= len(text)/3 && work <= maxWork*len(text), "%s: work of %d for %d bytes", format, work, len(text))
	}
}

func TestDepthLimits(t *testing.T) {
	sizes := []int{100_000}
	if testbed.Long() {
		sizes = append(sizes, 1_000_000)
	}
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
		for _, size := range sizes {
			text := c.before + strings.Repeat(c.piece, size/len(c.piece))
			if c.format == "markdown" {
				text += "\n---\n"
			}
			r := Check(c.format, []byte(text))
			found := slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Severity == Error && strings.Contains(p.Message, "nested deeper than") })
			testbed.Expect(t, found && !r.Valid && len(r.Problems) <= 3, "%s of %d %q: %v", c.format, size, c.piece, r.Problems)
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
	testbed.Require(t, r.Format == format && r.Problems != nil && len(r.Problems) <= maxProblems+1,
		"%s: %q: %d problems, format %s", format, shown, len(r.Problems), r.Format)
	lines := linesOf(strings.TrimPrefix(string(text), "\ufeff"))
	broken := false
	for _, p := range r.Problems {
		broken = broken || p.Severity == Error
		testbed.Expect(t, p.Message != "" && (p.Severity == Error || p.Severity == Warning), "%s: %q: malformed problem %+v", format, shown, p)
		testbed.Require(t, p.Line >= 1 && p.Line <= len(lines) && p.Col >= 1, "%s: %q: %+v is outside the text", format, shown, p)
		// One past the last character is the end of the line; of
		// CR LF, the first may be the last character.
		line := lines[p.Line-1]
		testbed.Expect(t, p.Col <= len([]rune(line))+2, "%s: %q: %+v is outside its line", format, shown, p)
	}
	testbed.Expect(t, r.Valid != broken, "%s: %q: valid is %v: %v", format, shown, r.Valid, r.Problems)
}

// linesOf cuts a text the way the positions count its lines.
func linesOf(text string) []string {
	text = strings.ReplaceAll(text, "\r\n", "\n")
	return strings.Split(strings.ReplaceAll(text, "\r", "\n"), "\n")
}
