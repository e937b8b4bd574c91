package policyfile

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// inside reports whether a position is in the text, its end included.
func inside(data []byte, p *Problem) bool {
	text := strings.ReplaceAll(strings.TrimPrefix(string(data), "\ufeff"), "\r\n", "\n")
	lines := strings.Split(text, "\n")
	return p.Line >= 1 && p.Line <= len(lines) && p.Column >= 1 && p.Column <= utf8.RuneCountInString(lines[p.Line-1])+1
}

// soon parses a hostile text, which must have problems and be done quickly.
func soon(t *testing.T, name, text string) {
	t.Helper()
	end := testbed.Within(t, 10*time.Second, name)
	f, problems := Parse([]byte(text))
	end()
	testbed.Expect(t, f == nil && len(problems) != 0 && len(problems) <= MaxProblems, "%s: %v", name, problems)
	for _, p := range problems {
		testbed.Expect(t, inside([]byte(text), p), "%s: outside: %v", name, p)
	}
}

// repeated are texts that nest or go on when they are repeated.
var repeated = []string{
	"[", "{", "a: ", "a:\n", "- ", "? ", "{a: ", "\"", "a", "[a,", "[a: ", "a: >\n\n", "*", "&a ", "!", "!!", "k: [[[]]]\n",
	"- {a: b}\n", "''", "-\n", "é: ", "a: |\n b\n", "]", "}", ": ", "%", "--- ", "...\n", "\\", "x\n\n", "<<: ", "a: 'b' ",
}

func TestHostileShapes(t *testing.T) {
	bomb := "a: &a [x, x]\n"
	for c := 'b'; c < 'm'; c++ {
		bomb += fmt.Sprintf("%c: &%c [%s]\n", c, c, strings.Repeat(fmt.Sprintf("*%c,", c-1), 9))
	}
	soon(t, "alias bomb", bomb)
	soon(t, "too large", strings.Repeat(" ", MaxBytes+1))
	var deep, long strings.Builder
	for i := range 1000 {
		deep.WriteString(strings.Repeat(" ", i) + "a:\n")
	}
	soon(t, "deep mappings", deep.String())
	for i := range 29 {
		long.WriteString(strings.Repeat(" ", i) + strings.Repeat("k", 120) + ":\n")
	}
	soon(t, "long keys", long.String()+strings.Repeat(" ", 30)+"["+strings.Repeat("a,", 49_000)+"]\n")
	soon(t, "flow set", "{"+strings.Repeat("a,", 49_000)+"}")
	soon(t, "many items", "allow:\n"+strings.Repeat("- a\n", 49_000))
	soon(t, "long value", "gate: {mode: "+strings.Repeat("b", 1<<19)+"}")
	soon(t, "long key", strings.Repeat("b", 1<<19)+": x")
	soon(t, "braces", glob(strings.Repeat("{", 500)+strings.Repeat("}", 500)))
	soon(t, "alternatives", glob(strings.Repeat("{a,{b,c}}", 80)))
	var heavy strings.Builder
	for i := range MaxPatterns {
		fmt.Fprintf(&heavy, "  - {name: n%d, regex: '%s'}\n", i, strings.Repeat("[^x]{1000}", 150))
	}
	soon(t, "heavy expressions", "extend_patterns:\n  a:\n"+heavy.String())
}

// TestManyProblems: all problems are reported, in order, but no more than the
// maximum.
func TestManyProblems(t *testing.T) {
	_, problems := Parse([]byte("thresholds: {low: 2}\nfoo: 1\ngate:\n  mode: x\n  bar: 2\nallow:\n- path: /a\nversion: 3\n"))
	var got []string
	for _, p := range problems {
		got = append(got, fmt.Sprintf("%d:%d %s", p.Line, p.Column, p.Reason))
	}
	want := "1:19 bad_thresholds, 2:1 unknown_key, 4:9 bad_value, 5:3 unknown_key, 7:3 bad_value, 7:9 bad_glob, 8:10 unsupported_version"
	testbed.Equal(t, strings.Join(got, ", "), want)
	_, problems = Parse([]byte("disable_patterns:\n" + strings.Repeat("- X\n", 50)))
	testbed.Expect(t, len(problems) == MaxProblems && problems[19].Line == 21, "%d problems", len(problems))
	var keys strings.Builder
	for i := range 2 * MaxProblems {
		fmt.Fprintf(&keys, "k%d: 1, ", i)
	}
	_, problems = Parse([]byte("extend_patterns: {a: [{" + keys.String() + "regex: x}]}"))
	testbed.Expect(t, len(problems) == MaxProblems && problems[0].Column == 23 && strings.Contains(problems[0].Message, "missing"), "found last, but first in the file: %v", problems)
}

func TestProblemText(t *testing.T) {
	_, problems := Parse([]byte("gate:\n  mode: block\n\n  inline_marker: true\n"))
	testbed.Equal(t, problems[0].Error(), `line 4, column 3: unknown key "inline_marker" (did you mean inline_markers?)`)
	_, problems = Parse([]byte("xyzzy: 1"))
	testbed.Equal(t, problems[0].Error(), `line 1, column 1: unknown key "xyzzy"`)
}

func TestCheckNames(t *testing.T) {
	families, patterns := []string{"email", "aws"}, []string{"aws_key", "generic_secret"}
	f, problems := Parse([]byte(full))
	testbed.Require(t, problems == nil, "%v", problems)
	testbed.Equal(t, len(f.CheckNames(families, patterns)), 0)
	f, problems = Parse([]byte(`disable_families: [emial, aws_key, acme, generic_secret]
disable_patterns:
  - aws_kye
  - email
  - nothing_like_it
extend_patterns:
  acme:
  - {name: generic_secret, regex: x}
allow:
- {pattern: aws, reason: a}
- {pattern: acme, reason: a}
- {pattern: "*", reason: a}
- reason: b
  pattern: aws_ke
`))
	testbed.Require(t, problems == nil, "%v", problems)
	var got []string
	for _, p := range f.CheckNames(families, patterns) {
		got = append(got, p.Reason+" "+p.Error())
	}
	want := []string{
		`bad_value line 1, column 20: unknown family "emial" (did you mean email?)`,
		`bad_value line 1, column 27: unknown family "aws_key" (did you mean aws?)`,
		`bad_value line 1, column 42: unknown family "generic_secret" (it is a pattern; name it under disable_patterns)`,
		`bad_value line 3, column 5: unknown pattern "aws_kye" (did you mean aws_key?)`,
		`bad_value line 4, column 5: unknown pattern "email" (it is a family; name it under disable_families)`,
		`bad_value line 5, column 5: unknown pattern "nothing_like_it"`,
		`bad_value line 8, column 12: the name "generic_secret" is that of a built-in pattern (choose another name)`,
		`bad_value line 14, column 12: unknown pattern or family "aws_ke" (did you mean aws_key?)`,
	}
	testbed.Equal(t, strings.Join(got, "\n"), strings.Join(want, "\n"))
	f, _ = Parse([]byte("extend_patterns: {a: [{name: b, regex: c}]}\ndisable_families: [apricot" + strings.Repeat(", zebra", MaxProblems) + "]\n"))
	many := f.CheckNames(families, patterns)
	testbed.Expect(t, len(many) == MaxProblems && many[0].Hint == "", "%d problems, the first %v", len(many), many[0])
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	for _, s := range append(repeated, " ", "\n", "#", "# x\n", "\r\n") {
		f.Add([]byte(strings.Repeat(s, 1000)))
	}
	for _, group := range [][]bad{badYAML, badKeys, badValues, badPatterns} {
		for _, b := range group {
			f.Add([]byte(b.text))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, problems := Parse(data)
		testbed.Require(t, (file == nil) == (len(problems) > 0) && len(problems) <= MaxProblems, "file %v, problems %v", file, problems)
		for i, p := range problems {
			testbed.Expect(t, inside(data, p), "outside: %v", p)
			testbed.Expect(t, i <= 0 || problems[i-1].Line <= p.Line && (problems[i-1].Line != p.Line || problems[i-1].Column <= p.Column), "not sorted: %v", problems)
		}
		if file != nil {
			file.CheckNames(nil, nil)
			th := file.Thresholds
			testbed.Expect(t, 0 < th.Low && th.Low < th.Medium && th.Medium < th.High && th.High <= 1, "thresholds %v", th)
		}
	})
}
