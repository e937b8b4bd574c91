package syntax

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// badCase is a text with one mistake that must be reported at its place.
type badCase struct {
	text      string
	line, col int
	message   string // a part of the message
}

// accept checks texts that must give no problem at all.
func accept(t *testing.T, format string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		r := Check(format, []byte(text))
		testbed.Expect(t, r.Valid && len(r.Problems) == 0, "%s: %.300q: unexpected %v", format, text, r.Problems)
		// Windows line ends must make no difference.
		r = Check(format, []byte(strings.ReplaceAll(text, "\n", "\r\n")))
		testbed.Expect(t, r.Valid, "%s with CRLF: %.300q: unexpected %v", format, text, r.Problems)
	}
}

// reject checks texts that must be reported as errors, with either line end.
func reject(t *testing.T, format string, cases ...badCase) {
	t.Helper()
	find(t, format, Error, cases...)
}

// warn checks texts that must be reported as valid with a warning.
func warn(t *testing.T, format string, cases ...badCase) {
	t.Helper()
	find(t, format, Warning, cases...)
}

func find(t *testing.T, format, severity string, cases ...badCase) {
	t.Helper()
	for _, c := range cases {
		for _, text := range []string{c.text, strings.ReplaceAll(c.text, "\n", "\r\n")} {
			r := Check(format, []byte(text))
			testbed.Expect(t, r.Valid == (severity == Warning), "%s: %q: valid is %v: %v", format, text, r.Valid, r.Problems)
			testbed.Expect(t, slices.ContainsFunc(r.Problems, func(p Problem) bool {
				return p.Line == c.line && p.Col == c.col && p.Severity == severity && strings.Contains(p.Message, c.message)
			}), "%s: %q: no %s %q at %d:%d in %v", format, text, severity, c.message, c.line, c.col, r.Problems)
		}
	}
}

func TestUnknownFormat(t *testing.T) {
	r := Check("rust", []byte("\xff{{{"))
	testbed.Expect(t, r.Format == Unknown && r.Valid && r.Problems != nil && len(r.Problems) == 0, "got %+v", r)
}

func TestEveryFormat(t *testing.T) {
	for _, l := range languages() {
		format := l.name
		got := Detect(format, "", nil)
		testbed.Expect(t, got == format, "the name %s is not taken as a hint: %s", format, got)
		for _, text := range []string{"", "\ufeff", "\n", "\r", "\r\n", "\x00", "\\", "-", "\ufeff\ufeff"} {
			r := Check(format, []byte(text))
			testbed.Expect(t, r.Format == format && r.Problems != nil, "%s: %q: %+v", format, text, r)
		}
		reject(t, format, badCase{"ab\nä\xff\n", 2, 2, "not valid UTF-8: byte 0xff"})
		r := Check(format, []byte("\xff\xfea\x00"))
		testbed.Expect(t, !r.Valid && r.Problems[0].Message == "the text is UTF-16, not UTF-8", "%s: UTF-16: %+v", format, r)
	}
}

func TestByteOrderMark(t *testing.T) {
	for format, text := range map[string]string{
		"yaml": "a: 1\n", "toml": "a = 1\n", "xml": "<?xml version='1.0'?><a/>", "go": "package a\n",
		"python": "a = 1\n", "markdown": "---\na: 1\n---\n",
	} {
		accept(t, format, "\ufeff"+text)
	}
	warn(t, "json", badCase{"\ufeff{}", 1, 1, "byte order mark"})
	// The mark is no character of the first line.
	reject(t, "toml", badCase{"\ufeffa = \n", 1, 5, "a value is expected"})
}

func TestDeclaredEncoding(t *testing.T) {
	accept(t, "python", "# -*- coding: latin-1 -*-\ns = '\xe4'\n")
	accept(t, "xml", "<?xml version='1.0' encoding='ISO-8859-1'?><a>\xe4</a>")
	reject(t, "python", badCase{"# coding: latin-1\ns = '\xe4' + \n", 2, 10, "a value is missing"})
	warn(t, "python", badCase{"# coding: shift_jis\ns = '\x83\x5c'\n", 1, 1, "declares the encoding shift-jis"})
}

// TestMessagesAreBounded: no message repeats a text of any length.
func TestMessagesAreBounded(t *testing.T) {
	long := strings.Repeat("9", 100_000)
	for format, texts := range map[string][]string{
		"toml":     {"a=" + long, "a=1e" + long, "a=\"\\" + long, long + long, "[" + long},
		"json":     {`{"` + long + `":1,"` + long + `":2}`, long + "x"},
		"yaml":     {long + ": 1\n" + long + ": 2\n", "a: *" + long, "!<" + long, "a: \"\\x" + long},
		"xml":      {"<" + long + ">", "<a" + long + "></b" + long + ">", "<a>&" + long + ";</a>"},
		"python":   {"class " + long, long + "a" + long, "if x:\nelse " + long},
		"go":       {"package " + long, "package p\nimport " + long},
		"latex":    {"\\begin{" + long + "}", "\\begin{a}\\end{" + long + "}"},
		"markdown": {"---\n" + long + ": 1\n" + long + ": 2\n---\n"},
	} {
		for i, text := range texts {
			for _, p := range Check(format, []byte(text)).Problems {
				testbed.Expect(t, len(p.Message) <= 600, "%s, text %d: a message of %d bytes: %.200s", format, i, len(p.Message), p.Message)
			}
		}
	}
}

func TestAtMostAHundredProblems(t *testing.T) {
	many := strings.Repeat("NaN\n", 150)
	r := Check("jsonl", []byte(many))
	testbed.Require(t, len(r.Problems) == 101 && !r.Valid, "%d problems, valid %v", len(r.Problems), r.Valid)
	for i, p := range r.Problems[:100] {
		testbed.MustEqual(t, p.Line, i+1, "problem ", i, " is at line")
	}
	last := r.Problems[100]
	testbed.Expect(t, last.Message == "50 more problems are not listed" && last.Severity == Error, "last: %+v", last)
	exact := strings.Repeat("NaN\n", 100)
	r = Check("jsonl", []byte(exact))
	testbed.Expect(t, len(r.Problems) == 100, "%d problems instead of 100", len(r.Problems))
	// Errors come before warnings where there is no room for both.
	mixed := strings.Repeat("a_b ", 150) + "\n}"
	r = Check("latex", []byte(mixed))
	testbed.Expect(t, !r.Valid && slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Severity == Error && p.Line == 2 }), "the error is missing among %d problems", len(r.Problems))
}

func TestColumnsCountCharacters(t *testing.T) {
	reject(t, "json", badCase{"{\"ä€😀\": NaN}", 1, 9, "NaN"})
	reject(t, "toml", badCase{"'ä€😀' = x", 1, 9, "a value is expected"})
	reject(t, "yaml", badCase{"ä€😀: [1\n", 1, 6, ""})
	reject(t, "xml", badCase{"<ä>€</b>", 1, 5, "</b> does not match <ä>"})
	reject(t, "go", badCase{"package a; var s = \"ä€😀\" 1", 1, 26, "expected"})
	reject(t, "python", badCase{"s = 'ä€😀' 1", 1, 11, "an operator or a comma"})
}

func ExampleCheck() {
	r := Check(Detect("", "settings.json", nil), []byte("{\n  \"a\": 1,\n}"))
	fmt.Println(r.Format, r.Valid, r.Problems)
	// Output: json false [{2 9 invalid character '}' looking for beginning of object key string; a trailing comma error}]
}

// FuzzLinear: no checker does more than linear work, of what it counts, of
// memory, or of time, also in front matter.
func FuzzLinear(f *testing.F) {
	long := "k#: " + strings.Repeat("v", 80) + "\n"
	seeds := append(append(common, hostile...), "k#: v\r\n", "k#:\n  a: b\n", "&a# k#: v\n", "? k#\n", "k# = 1\n", "[t#]\nk = 1\n", "a.k#.c = {d = 1}\n", "a = [ … ]\n", "\"k#\": 1, ", "from k# import (a, b)\n", "a: \"b\t", "a: |\n\n", long, "  "+long)
	testbed.FuzzLinear(f, 4<<10, 20*time.Microsecond, seeds, func(text []byte) (work int) {
		for _, l := range languages() {
			format := l.name
			Check(format, text)
			work += workFor(format, text)
		}
		front := append(append([]byte("---\n"), text...), "\n---\n"...)
		Check("markdown", front)
		Check("yaml", []byte("{"+string(text)+"}"))
		Check("yaml", []byte("["+string(text)+"]"))
		Detect("", "", text)
		return work + workFor("markdown", front)
	})
}

func TestDetect(t *testing.T) {
	for _, c := range []struct{ hint, path, content, want string }{
		{"json", "a.yaml", "---", "json"},
		{" .PY ", "", "", "python"},
		{"auto", "a.toml", "", "toml"},
		{"rust", "a.py", "{", Unknown},
		{"", "a.json", "", "json"},
		{"", "a.ndjson", "", "jsonl"},
		{"", "a.JSONL", "", "jsonl"},
		{"", "dir.go/a.yml", "", "yaml"},
		{"", `dir\a.YAML`, "", "yaml"},
		{"", "a.tex", "", "latex"},
		{"", "a.sty", "", "latex"},
		{"", "a.cls", "", "latex"},
		{"", "a.py", "{", "python"},
		{"", "a.pyi", "", "python"},
		{"", "a.go", "", "go"},
		{"", "a.svg", "", "xml"},
		{"", "a.xhtml", "", "xml"},
		{"", "README.md", "---", "markdown"},
		{"", "a.txt", "[1]", Unknown},
		{"", "data", "\ufeff {\"a\": 1}", "json"},
		{"", "data", "\n[\n[1]]", "json"},
		{"", "data", "[true]", "json"},
		{"", "config", "[core]\na = 1", Unknown},
		{"", "config", "[[bin]]", Unknown},
		{"", "template", "{{ a }}", Unknown},
		{"", "template", "{% if a %}", Unknown},
		{"", "x", "---\na: 1", "yaml"},
		{"", "x", "----", Unknown},
		{"", "x", "<?xml version='1.0'?>", "xml"},
		{"", "x", "<p>", Unknown},
		{"", "", "", Unknown},
		{"", "x", "plain", Unknown},
	} {
		testbed.Equal(t, Detect(c.hint, c.path, []byte(c.content)), c.want, "Detect ", c.hint, " ", c.path, " ", c.content)
	}
}

// FuzzCheck runs a checker over anything: it must never panic and never report a
// place outside the text.
func FuzzCheck(f *testing.F) {
	for format, seeds := range map[string][]string{
		"json":     {`{"a": [1, -2.5e3, "\ud83d\ude00", null], "b": {}}`, "\ufeff[NaN, 'x', // c\n]"},
		"jsonl":    {"{}\n[1]\n\n\"a\""},
		"yaml":     {"a: &x [1, {b: c}]\n---\n- *x\n- |\n  text\n- \"q\\n\"\n", "%YAML 1.2\n---\n? a\n: !!str b\n...\n"},
		"toml":     {"[a.b]\nc = {d = [1, 2.5], e.f = 1979-05-27T07:32:00Z}\n[[g]]\nh = \"\"\"x\\\n  y\"\"\"\n'i' = 0x1F\n"},
		"xml":      {"<?xml version='1.0' encoding='latin1'?>\n<!DOCTYPE a [<!ENTITY b 'c'>]><a x='1'>&b;<b/></a>\n"},
		"go":       {"package a\n\nimport \"fmt\"\n\nfunc f[T any](x T) { fmt.Println(`a`, 'b', []T{x}) }\n", "package a\n//line b.go:10\nvar x = ("},
		"python":   {"@d\nasync def f(a: int = 1, *b) -> c:\n\tif a: return f'{b!r:>{c}}'\n\telse:\n\t\tx = [1,\n 2]\n", "match x:\n  case [1]: pass\n", "# coding: latin-1\n'\xe4'"},
		"latex":    {"\\documentclass{a}\n\\begin{document}$a_b$ \\verb|x| \\url{a%b} \\[c\\] % d\n\\newcommand{\\e}{\\begin{f}}\\end{document}\n"},
		"markdown": {"---\na: 1\n---\n# T\n\n- b\n\n  ```go\n  c\n  ```\n> ~~~\n"},
	} {
		for _, seed := range append(seeds, hostile...) {
			f.Add(format, []byte(seed))
			f.Add(format, []byte(seed+"\r\n"+seed))
		}
	}
	f.Fuzz(func(t *testing.T, format string, text []byte) {
		if slices.ContainsFunc(languages(), func(l language) bool { return l.name == format }) {
			verify(t, format, text)
		}
	})
}
