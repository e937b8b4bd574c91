package policyfile

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// bad is a file with one problem.
type bad struct {
	name, text   string
	line, column int
	reason       string
	message      string // a part of it
	hint         string // all of it
}

const (
	starHint   = `put a text that begins with * in quotes, such as "**/*.md"`
	nameHint   = "use a to z, 0 to 9 and _, at most 64 of them, beginning with a letter"
	giveHint   = "remove the key or give it a value"
	setHint    = "put a text that begins with [ or { in quotes"
	deeperHint = "a value on lines of its own is indented deeper than its key"
	foldedHint = "a dash or a key may be missing, or put it in quotes"
)

var badYAML = []bad{
	{"scalar", "foo\n", 1, 1, NotAMapping, "not text", "begin with version: 1"},
	{"list", "# c\n- a\n", 2, 1, NotAMapping, "not a list", "begin with version: 1"},
	{"null", "null\n", 1, 1, NotAMapping, "not nothing", "begin with version: 1"},
	{"utf-8", "gate:\n  mode: b\xffd\n", 2, 10, BadYAML, "not valid UTF-8", "save the file as UTF-8"},
	{"utf-16", "\xff\xfea\x00", 1, 1, BadYAML, "not valid UTF-8", "save the file as UTF-8"},
	{"control", "version: 1 # \x1b[31m\n", 1, 14, BadYAML, "U+001B", ""},
	{"carriage return", "version: 1\rgate: {}\n", 1, 11, BadYAML, "carriage return", "end lines with LF or CRLF"},
	{"alias", "protect:\n  - **/x\n", 2, 5, BadYAML, "aliases", starHint},
	{"lone star", "allow:\n  - pattern: *\n    reason: x\n", 2, 14, BadYAML, "aliases", starHint},
	{"anchor", "protect: &a [x]\n", 1, 10, BadYAML, "anchors", "put a text that begins with & in quotes"},
	{"tag", "version: !!int 1\n", 1, 10, BadYAML, "tags", "put a text that begins with ! in quotes"},
	{"bare tag", "protect:\n- !x\n", 2, 3, BadYAML, "tags", "put a text that begins with ! in quotes"},
	{"merge key", "gate:\n  <<: {mode: off}\n", 2, 3, BadYAML, "merge keys", ""},
	{"directive", "%YAML 1.2\n---\nversion: 1\n", 1, 1, BadYAML, "directives", "leave out the line, or put a text that begins with % in quotes"},
	{"two documents", "version: 1\n---\ngate: {}\n", 2, 1, BadYAML, "more than one", "leave out the text from here on"},
	{"two headers", "---\n---\nversion: 1\n", 2, 1, BadYAML, "more than one", "leave out the text from here on"},
	{"after the end", "version: 1\n...\ngate: {}\n", 3, 1, BadYAML, "more than one", "leave out the text from here on"},
	{"nested too deep", "version: " + strings.Repeat("[", 33) + strings.Repeat("]", 33) + "\n", 1, 41, BadYAML, "deeper than 32", ""},
	{"lists too deep", "protect:\n" + strings.Repeat("- ", 40) + "x\n", 2, 63, BadYAML, "deeper than 32", ""},
	{"dash in brackets", "protect: [\n- a]\n", 2, 1, BadYAML, "node content", "put a text that begins with - in quotes"},
	{"open quote", "gate:\n  mode: \"block\n", 2, 9, BadYAML, "not valid YAML", ""},
	{"escape", "protect: [\"\\d\"]\n", 1, 12, BadYAML, "escape", "write regular expressions in single quotes"},
	{"tab", "gate:\n\tmode: off\n", 2, 1, BadYAML, "not valid YAML", "indent with spaces"},
	{"set as regex", "extend_patterns:\n  a:\n    - name: b\n      regex: [a-z]+\n", 4, 19, BadYAML, "not valid YAML", setHint},
	{"two values", "gate: {mode: 'off' 'on'}\n", 1, 20, BadYAML, "not valid YAML", ""},
	{"stray text", "version: 1\n!!!!\n", 2, 1, BadYAML, "tags", "put a text that begins with ! in quotes"},
	{"not indented", "gate: {mode:\n  'off'}\nprotect:\nx\n", 4, 1, BadYAML, "expected ':'", deeperHint},
	{"tab in a text", "protect:\n  - a\tb\n", 2, 5, BadValue, "U+0009", ""},
	{"line separator", "version: 1 # \u2028 x\n", 1, 14, BadYAML, "U+2028", ""},
	{"no space", "gate: {mode:off}\n", 1, 8, UnknownKey, "mode:off", "did you mean mode?"},
	{"item not indented", "protect:\n-\ngate: {}\n", 2, 2, BadType, "found nothing", giveHint},
	{"end with more", "version: 1\n...#gate: {}\n", 2, 1, UnknownKey, "...#gate", "did you mean gate?"},
	{"short escape", "protect: [\"a\\x1mn\"]\n", 1, 15, BadYAML, "hexadecimal number", ""},
	{"bracket in a text", "protect: [a}b]\n", 1, 12, BadYAML, "expected ',' or ']'", ""},
	{"lone question mark", "protect:\n  - ?\n", 2, 5, BadType, "found a mapping", "put it in quotes"},
	{"block as key", "|-\n version\n: 1\n", 3, 1, BadYAML, "document start", ""},
	{"set not indented", "protect:\n[a]\n", 2, 1, BadYAML, "expected ':'", deeperHint},
	{"bracket not closed", "protect: [a,\n  b\n", 1, 10, BadYAML, "not valid YAML", ""},
}

var badKeys = []bad{
	{"unknown key", "version: 1\n\nthreshholds:\n  high: .8\n", 3, 1, UnknownKey, `"threshholds"`, "did you mean thresholds?"},
	{"unknown in gate", "gate:\n  mode: block\n  reject-at: low\n", 3, 3, UnknownKey, `"reject-at"`, "did you mean reject_at?"},
	{"prefix", "history: {max_v: 3}\n", 1, 11, UnknownKey, `"max_v"`, "did you mean max_versions?"},
	{"other place", "mode: block\n", 1, 1, UnknownKey, `"mode"`, "did you mean gate.mode?"},
	{"not indented enough", "gate:\n  mode: block\nreject_at: low\n", 3, 1, UnknownKey, `"reject_at"`, "did you mean gate.reject_at?"},
	{"nothing near", "é: 1\nxyzzy: 1\n", 1, 1, UnknownKey, `"é"`, ""},
	{"case", "Gate:\n  mode: block\n", 1, 1, UnknownKey, `"Gate"`, "did you mean gate?"},
	{"invisible", "ga\u200bte: {}\n", 1, 1, UnknownKey, `\u200b`, "did you mean gate?"},
	{"key of a rule", "extend_patterns:\n  a:\n  - name: b\n    regexp: x\n    regex: x\n", 4, 5, UnknownKey, `"regexp"`, "did you mean regex?"},
	{"key of allow", "allow:\n- {path: a, reasons: b, reason: c}\n", 2, 13, UnknownKey, `"reasons"`, "did you mean reason?"},
	{"long key", strings.Repeat("k", 200) + ": 1\n", 1, 1, UnknownKey, "kkk…", ""},
	{"duplicate", "version: 1\ngate: {}\n\"gate\": {mode: off}\n", 3, 1, DuplicateKey, `"gate" is already defined at line 2`, "keep one of them"},
	{"duplicate inside", "gate: {mode: block, mode: off}\n", 1, 21, DuplicateKey, `"mode" is already defined at line 1`, "keep one of them"},
	{"duplicate family", "extend_patterns:\n  a: [{name: b, regex: c}]\n  a: [{name: c, regex: c}]\n", 3, 3, DuplicateKey, `"a" is already defined at line 2`, "keep one of them"},
	{"reason missing", "allow:\n  - path: a\n    pattern: b\n", 2, 5, BadValue, `"reason" is missing`, "say why the exception is safe"},
	{"path and pattern missing", "allow:\n  - reason: a\n", 2, 5, BadValue, "path and pattern", "say what the exception is for"},
	{"name missing", "extend_patterns: {a: [{regex: x}]}\n", 1, 23, BadValue, `"name" is missing`, "give the rule a name"},
	{"no rules", "extend_patterns:\n  a: []\n", 2, 6, BadValue, "empty", "remove the key or give it an item"},
	{"family name", "extend_patterns:\n  A-b:\n  - {name: a, regex: b}\n", 2, 3, BadValue, `"A-b" is not a name`, nameHint},
	{"name twice", "extend_patterns:\n  a:\n  - {name: x, regex: b}\n  b:\n  - {name: x, regex: b}\n", 5, 12, BadValue, `"x" is given twice`, "first given on line 3"},
}

var badValues = []bad{
	{"version", "version: 2\n", 1, 10, UnsupportedVersion, "2", "write version: 1"},
	{"quoted version", "version: '1'\n", 1, 10, BadType, `text "1"`, "write a number without quotes"},
	{"version with a point", "version: 1.0\n", 1, 10, BadType, "a whole number", "write a whole number"},
	{"no value", "gate:\nversion: 1\n", 1, 1, BadType, "found nothing", giveHint},
	{"tilde", "version: ~\n", 1, 10, BadType, "found nothing", giveHint},
	{"empty item", "protect:\n  - a\n  -\n", 3, 4, BadType, "found nothing", giveHint},
	{"yes", "gate:\n  inline_markers: yes\n", 2, 19, BadType, `text "yes"`, "write true or false"},
	{"mode", "gate:\n  mode: blok\n", 2, 9, BadValue, `"blok"`, "did you mean block?"},
	{"no near mode", "gate: {mode: never}\n", 1, 14, BadValue, `"never"`, "use block, advise or off"},
	{"false for off", "gate: {mode: false}\n", 1, 14, BadType, "true or false", "use block, advise or off"},
	{"empty text", "gate: {overrides: ''}\n", 1, 19, BadValue, `""`, "use none, reason or any"},
	{"list for text", "allow: [{path: [a], reason: b}]\n", 1, 16, BadType, "a list", "put it in quotes"},
	{"text for list", "protect: secrets/**\n", 1, 10, BadType, "found text", "write it as a list, with a dash before each item"},
	{"number for name", "disable_patterns: [12]\n", 1, 20, BadType, "a number", "put it in quotes"},
	{"name", "disable_families:\n  - ok\n  - Bad Name\n", 3, 5, BadValue, `"Bad Name"`, nameHint},
	{"missing dash", "protect:\n  - a/**\n    b/**\n", 2, 5, BadValue, "more than one line", foldedHint},
	{"blank reason", "allow: [{path: a, reason: ' '}]\n", 1, 27, BadValue, "empty", ""},
	{"escape in reason", "allow: [{path: a, reason: \"x\\x1b[0m\"}]\n", 1, 27, BadValue, "U+001B", ""},
	{"threshold type", "thresholds: {high: lots}\n", 1, 20, BadType, `text "lots"`, "write a number without quotes"},
	{"threshold range", "thresholds:\n  high: 1.5\n", 2, 9, BadThresholds, "out of range", "it must be above 0 and at most 1"},
	{"threshold zero", "thresholds:\n  low: 0\n", 2, 8, BadThresholds, "out of range", "it must be above 0 and at most 1"},
	{"threshold order", "thresholds:\n  low: .5\n  medium: .5\n", 3, 11, BadThresholds, "low (0.5) must be below medium (0.5)", "low < medium < high"},
	{"threshold order in a line", "thresholds: {medium: .5, low: .6}\n", 1, 31, BadThresholds, "low (0.6) must be below medium (0.5)", "low < medium < high"},
	{"threshold default", "thresholds:\n  high: 0.3\n", 2, 9, BadThresholds, "must be below high (0.3)", "medium is 0.4 by default"},
	{"infinity", "thresholds: {high: .inf}\n", 1, 20, BadType, "a special number", ""},
	{"hexadecimal", "retry_budget: {default: 0x10}\n", 1, 25, BadValue, "decimal form", "write a plain decimal number"},
	{"underscore", "retry_budget: {default: 1_0}\n", 1, 25, BadValue, "decimal form", "write a plain decimal number"},
	{"leading zero", "retry_budget: {default: 010}\n", 1, 25, BadValue, "decimal form", "write a plain decimal number"},
	{"budget", "retry_budget:\n  default: 101\n", 2, 12, BadValue, "out of range", "it must be from 1 to 100"},
	{"no budget", "retry_budget:\n  default: 0\n", 2, 12, BadValue, "out of range", "it must be from 1 to 100"},
	{"size", "history: {max_bytes: 512mb}\n", 1, 22, BadValue, `"512mb" is not a size`, sizeHint},
	{"negative size", "history: {max_bytes: -1}\n", 1, 22, BadValue, "negative", "leave the key out for the default"},
	{"huge size", "history: {max_object_bytes: 9999999999TiB}\n", 1, 29, BadValue, "too large", "leave the key out for the default"},
	{"fractional size", "history: {max_bytes: 1.5}\n", 1, 22, BadType, "a number of bytes", sizeHint},
	{"hexadecimal size", "history: {max_bytes: 0x10}\n", 1, 22, BadValue, "decimal form", sizeHint},
	{"negative versions", "history: {max_versions: -1}\n", 1, 25, BadValue, "out of range", "it must be from 0 to 1000000000"},
	{"age", "history: {max_age: 30 days}\n", 1, 20, BadValue, "not a duration", "write it such as 30d, 12h, 90m or P30D"},
	{"age without unit", "history: {max_age: 30}\n", 1, 20, BadType, "a number", `write it with a unit, such as "30d"`},
	{"negative age", "history: {max_age: -30d}\n", 1, 20, BadValue, "not a duration", "write it such as 30d, 12h, 90m or P30D"},
	{"age in months", "history: {max_age: P1M}\n", 1, 20, BadValue, "fixed length", "write it in days"},
	{"age in years", "history: {max_age: P1Y}\n", 1, 20, BadValue, "fixed length", "write it in days"},
	{"long age", "history: {max_age: 36526d}\n", 1, 20, BadValue, "too long", "it is at most 36525d; leave the key out for no limit"},
	{"long age of ISO 8601", "history: {max_age: P36526D}\n", 1, 20, BadValue, "too long", "it is at most 36525d; leave the key out for no limit"},
}

func TestBadFiles(t *testing.T) {
	for _, group := range [][]bad{badYAML, badKeys, badValues, badPatterns} {
		for _, b := range group {
			t.Run(b.name, func(t *testing.T) {
				f, problems := Parse([]byte(b.text))
				testbed.Require(t, f == nil && len(problems) != 0, "got a file and %v", problems)
				p := problems[0]
				testbed.Expect(t, p.Line == b.line && p.Column == b.column && p.Reason == b.reason && p.Hint == b.hint && strings.Contains(p.Message, b.message),
					"got  %d:%d %s %q hint %q\nwant %d:%d %s %q hint %q", p.Line, p.Column, p.Reason, p.Message, p.Hint, b.line, b.column, b.reason, b.message, b.hint)
				want := 1 + strings.Count(b.name, "nothing near")
				testbed.Expect(t, len(problems) == want, "%d problems: %v", len(problems), problems)
				crlf := "\ufeff" + strings.ReplaceAll(b.text, "\n", "\r\n")
				_, again := Parse([]byte(crlf))
				testbed.Expect(t, len(again) != 0 && *again[0] == *p, "with a mark and CRLF: %v", again)
			})
		}
	}
}

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
	{"large regex in a repeat", rule("'(" + strings.Repeat("[^x]{900}", 3) + "){0,}y'"), 2, 24, BadRegex, "too large", "use smaller repeat counts"},
	{"large classes", rule("'" + strings.Repeat(`\pL`, 20) + "'"), 2, 24, BadRegex, "too large", "use smaller repeat counts"},
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
	{"empty range", glob("a[cz-a]"), 2, 5, BadGlob, `"z-a"`, "begin a range with its lowest character"},
	{"range over letter case", glob("[Z-_]"), 2, 5, BadGlob, `"z-_"`, "begin a range with its lowest character"},
	{"spaces", glob(" a"), 2, 5, BadGlob, "space", ""},
	{"glob of allow", "allow:\n- path: a\n  reason: b\n- path: /a\n  reason: b\n", 4, 9, BadGlob, "relative", "leave out what precedes the first name"},
}

func TestGoodGlobs(t *testing.T) {
	for _, s := range []string{"**", "*", "a", ".env", "**/.env*", "a/**/b", "{a,b/**}/c", "**/*.{go,md}", "[a-c]?", "a b", "é/ü", "{**/a,b}", "[*]", "[!a]x", "a,b", "..a/b.."} {
		f, problems := Parse([]byte(glob(s)))
		testbed.Expect(t, problems == nil && f.Protect[0] == s, "%q: %v", s, problems)
	}
}

// TestCoversEveryChoice: a glob matches what one of its choices matches, an empty one
// included.
func TestCoversEveryChoice(t *testing.T) {
	for glob, want := range map[string]string{
		".env*{,.bak}": ".env .env.d .env/x", "a{,/**}": "a a/b", "?/{**/,}**": "a b a/b", "{a,{B,*c{,d}}}": "a b cd a/b", `A\{,\}`: "a{,}", "[{,}]x": "{x", "[!a]{b,}": "b bb",
	} {
		for _, path := range strings.Fields("a b bb cd .env .env.d .env/x a/b a{,} {x") {
			covered := slices.Contains(strings.Fields(want), path)
			testbed.Expect(t, Covers([]string{glob}, strings.ToUpper(path)) == covered, "%s covers %s: %v", glob, path, !covered)
		}
	}
}

func TestGoodExpressions(t *testing.T) {
	for _, s := range []string{`a`, `\bAKIA[0-9A-Z]{16}\b`, `(?i)token\s*=\s*\S+`, `^x$`, `(a|b)+`, `\pL{3}`, `x{2,}`, `.`, `[^a]{1000}`, `"quoted"`, `# no comment`} {
		f, problems := Parse([]byte(rule("'" + s + "'")))
		testbed.Expect(t, problems == nil && f.ExtendPatterns[0].Patterns[0].Regex == s, "%q: %v", s, problems)
	}
}

// TestTooMany: a file of the most is accepted. The problem of one with more is where
// the limit is exceeded.
func TestTooMany(t *testing.T) {
	each := func(n int, format string) (text string) {
		for i := range n {
			text += fmt.Sprintf(format, i)
		}
		return text
	}
	for name, one := range map[string]struct {
		file         func(n int) string
		most, more   int
		line, column int
	}{
		"patterns": {func(n int) (text string) {
			for at := 0; at < n; at += 100 {
				text += fmt.Sprintf("  f%d:\n", at) + each(min(100, n-at), fmt.Sprintf("  - {name: n%d_%%d, regex: x}\n", at))
			}
			return "extend_patterns:\n" + text
		}, 200, 201, 205, 5},
		"expressions, together too large": {func(n int) string {
			return "extend_patterns:\n" + each(n, "  f%[1]d:\n  - name: n%[1]d\n    regex: '[a-z]{98}'\n")
		}, 10, 30, 34, 12},
		"keywords of all rules": {func(n int) string {
			return fmt.Sprintf("extend_patterns:\n  a:\n  - name: n1\n    regex: x\n    keywords: [%s]\n  - name: n2\n    regex: x\n    keywords: [%s]\n",
				strings.Repeat("k,", 500), strings.Repeat("k,", n-500))
		}, 1000, 1001, 8, 0},
		"items of a list": {func(n int) string { return "disable_families:\n" + strings.Repeat("  - pii\n", n) }, MaxItems, MaxItems + 1, MaxItems + 2, 0},
		"globs, with the choices in braces, of all lists": {func(n int) string {
			text := "protect:\n" + strings.Repeat("  - '{a,b,c,d,e}/{1,2}'\n", 100) + "protect_exceptions:\n" + strings.Repeat("  - a\n", 1000)
			if n > 2000 {
				text = "allow: [{path: a, reason: b}]\n" + text
			}
			return text
		}, 2000, 2001, 1103, 0},
	} {
		_, problems := Parse([]byte(one.file(one.most)))
		testbed.Expect(t, problems == nil, "%s, %d: %v", name, one.most, problems)
		_, problems = Parse([]byte(one.file(one.more)))
		testbed.Expect(t, len(problems) == 1 && problems[0].Reason == TooLarge && problems[0].Line == one.line && (one.column == 0 || problems[0].Column == one.column),
			"%s, %d: %v", name, one.more, problems)
	}
}
