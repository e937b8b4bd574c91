package policyfile

import (
	"fmt"
	"strings"
	"testing"
)

// rule is a file with one added rule; its expression is in column 30.
func rule(regex string) string {
	return "extend_patterns:\n  a: [{name: b, regex: " + regex + "}]\n"
}

// glob is a file with one protected glob.
func glob(s string) string { return "protect:\n  - '" + s + "'\n" }

const (
	re2Hint   = "expressions are those of RE2, without look-around and back-references"
	emptyHint = "use + instead of *, or add what must be there"
	aloneHint = "** must be alone between slashes"
)

var badPatterns = []bad{
	{"regex", rule("'a('"), 2, 24, BadRegex, "missing closing )", ""},
	{"look-ahead", rule("'a(?=b)'"), 2, 24, BadRegex, "invalid or unsupported Perl syntax", re2Hint},
	{"back-reference", rule(`'(a)\1'`), 2, 24, BadRegex, "invalid escape", re2Hint},
	{"empty match", rule("'a*'"), 2, 24, BadRegex, "matches the empty string", emptyHint},
	{"boundary alone", rule(`'\b'`), 2, 24, BadRegex, "matches the empty string", emptyHint},
	{"boundary and option", rule(`'(?:\ba?|b{0,3})'`), 2, 24, BadRegex, "matches the empty string", emptyHint},
	{"empty regex", rule("''"), 2, 24, BadValue, "empty", ""},
	{"long regex", rule("'" + strings.Repeat("a", 2001) + "'"), 2, 24, BadRegex, "2001 bytes", ""},
	{"large regex", rule("'" + strings.Repeat("[^x]{900}", 30) + "'"), 2, 24, BadRegex, "too large", "use smaller repeat counts"},
	{"regex as a set", rule("[a-z]"), 2, 24, BadType, "a list", "put it in quotes"},
	{"regex as a number", rule("123"), 2, 24, BadType, "a number", "put it in quotes"},
	{"weight", "extend_patterns:\n  a:\n    - name: b\n      regex: c\n      weight: 0\n", 5, 15, BadValue, "out of range", "it must be above 0 and at most 1"},
	{"heavy", "extend_patterns:\n  a:\n    - name: b\n      regex: c\n      weight: 1.01\n", 5, 15, BadValue, "out of range", "it must be above 0 and at most 1"},
	{"empty keyword", "extend_patterns:\n  a:\n    - name: b\n      regex: c\n      keywords: [x, '']\n", 5, 21, BadValue, "empty", ""},
	{"glob", glob("a/[b"), 2, 5, BadGlob, "not valid", "close every [ and {"},
	{"open brace", glob("a/{b,c"), 2, 5, BadGlob, "not valid", "close every [ and {"},
	{"absolute glob", glob("/etc/**"), 2, 5, BadGlob, "relative", "leave out what precedes the first name"},
	{"drive", glob("C:/x"), 2, 5, BadGlob, "relative", "leave out what precedes the first name"},
	{"directory", glob("secrets/"), 2, 5, BadGlob, "ends with /", "did you mean secrets/**?"},
	{"parent", glob("a/../b"), 2, 5, BadGlob, "hold ..", "paths of a store have no .."},
	{"here", glob("./a"), 2, 5, BadGlob, "hold .", "paths of a store have no ."},
	{"hidden parent", glob("{a,..}/b"), 2, 5, BadGlob, "hold ..", "paths of a store have no .."},
	{"two slashes", glob("a//b"), 2, 5, BadGlob, "empty name", "leave out one /"},
	{"backslash", glob(`a\b`), 2, 5, BadGlob, `\`, "separate names with /, and write [*] for a star itself"},
	{"negation", glob("!a"), 2, 5, BadGlob, "negated", "leave out the !"},
	{"two stars", glob("src/**.go"), 2, 5, BadGlob, aloneHint, "did you mean **/*.go?"},
	{"two stars by a brace", glob("x{**/a,b}"), 2, 5, BadGlob, aloneHint, "did you mean **/x*?"},
	{"many braces", glob(strings.Repeat("{a,b}", 9)), 2, 5, BadGlob, "too many", "write more than one glob"},
	{"set with a slash", glob("a[/]b"), 2, 5, BadGlob, "brackets", "write {a,b} for a choice"},
	{"spaces", glob(" a"), 2, 5, BadGlob, "space", ""},
	{"glob of allow", "allow:\n- path: a\n  reason: b\n- path: /a\n  reason: b\n", 4, 9, BadGlob, "relative", "leave out what precedes the first name"},
}

func TestGoodGlobs(t *testing.T) {
	for _, s := range []string{"**", "*", "a", ".env", "**/.env*", "a/**/b", "{a,b/**}/c", "**/*.{go,md}", "[a-c]?", "a b", "é/ü", "{**/a,b}", "[*]", "[!a]x", "a,b", "..a/b.."} {
		if f, problems := Parse([]byte(glob(s))); problems != nil || f.Protect[0] != s {
			t.Errorf("%q: %v", s, problems)
		}
	}
}

func TestGoodExpressions(t *testing.T) {
	for _, s := range []string{`a`, `\bAKIA[0-9A-Z]{16}\b`, `(?i)token\s*=\s*\S+`, `^x$`, `(a|b)+`, `\pL{3}`, `x{2,}`, `.`, `[^a]{1000}`, `"quoted"`, `# no comment`} {
		if f, problems := Parse([]byte(rule("'" + s + "'"))); problems != nil || f.ExtendPatterns[0].Patterns[0].Regex != s {
			t.Errorf("%q: %v", s, problems)
		}
	}
}

func TestTooManyPatterns(t *testing.T) {
	file := func(n int) []byte {
		var b strings.Builder
		b.WriteString("extend_patterns:\n")
		for i := range n {
			if i%100 == 0 {
				fmt.Fprintf(&b, "  f%d:\n", i)
			}
			fmt.Fprintf(&b, "  - {name: n%d, regex: x}\n", i)
		}
		return []byte(b.String())
	}
	if f, problems := Parse(file(200)); problems != nil || len(f.ExtendPatterns) != 2 {
		t.Errorf("200: %v", problems)
	}
	_, problems := Parse(file(201))
	if len(problems) != 1 || problems[0].Reason != TooLarge || problems[0].Line != 205 || problems[0].Column != 5 {
		t.Errorf("201: %v", problems)
	}
}

// TestExpressionsTooLargeTogether: the problem is at the expression that
// exceeds the limit, wherever the others are.
func TestExpressionsTooLargeTogether(t *testing.T) {
	file := func(n int) []byte {
		var b strings.Builder
		b.WriteString("extend_patterns:\n")
		for i := range n {
			fmt.Fprintf(&b, "  f%d:\n  - name: n%d\n    regex: '[a-z]{98}'\n", i, i)
		}
		return []byte(b.String())
	}
	if _, problems := Parse(file(10)); problems != nil {
		t.Errorf("10: %v", problems)
	}
	_, problems := Parse(file(30))
	if len(problems) != 1 || problems[0].Reason != TooLarge || problems[0].Line != 34 || problems[0].Column != 12 {
		t.Errorf("30: %v", problems)
	}
}

// TestTooManyKeywords: all rules together have so many at most.
func TestTooManyKeywords(t *testing.T) {
	file := func(n int) []byte {
		return fmt.Appendf(nil, "extend_patterns:\n  a:\n  - name: n1\n    regex: x\n    keywords: [%s]\n  - name: n2\n    regex: x\n    keywords: [%s]\n",
			strings.Repeat("k,", 500), strings.Repeat("k,", n-500))
	}
	if _, problems := Parse(file(1000)); problems != nil {
		t.Errorf("1000: %v", problems)
	}
	_, problems := Parse(file(1001))
	if len(problems) != 1 || problems[0].Reason != TooLarge || problems[0].Line != 8 {
		t.Errorf("1001: %v", problems)
	}
}

// TestTooManyGlobs: the choices in braces count, in all lists together.
func TestTooManyGlobs(t *testing.T) {
	file := func(n int) []byte {
		var b strings.Builder
		b.WriteString("protect:\n")
		for range 100 {
			b.WriteString("  - '{a,b,c,d,e}/{1,2}'\n")
		}
		b.WriteString("protect_exceptions:\n")
		for range n - 1000 {
			b.WriteString("  - a\n")
		}
		return []byte(b.String())
	}
	if _, problems := Parse(file(2000)); problems != nil {
		t.Errorf("2000: %v", problems)
	}
	list := strings.Replace(string(file(2000)), "protect:\n", "allow: [{path: a, reason: b}]\nprotect:\n", 1)
	_, problems := Parse([]byte(list))
	if len(problems) != 1 || problems[0].Reason != TooLarge || problems[0].Line != 1103 {
		t.Errorf("2001: %v", problems)
	}
}
