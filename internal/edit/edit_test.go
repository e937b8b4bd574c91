package edit

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// failure is what Apply fails with.
func failure(tb testing.TB, text string, edits ...Edit) *Failure {
	tb.Helper()
	out, n, err := edited(context.Background(), []byte(text), edits)
	var f *Failure
	testbed.Require(tb, errors.As(err, &f), "error %v of type %T, %d replacements", err, err, n)
	testbed.Expect(tb, out == nil && n == 0, "a failure with %d bytes and %d replacements", len(out), n)
	return f
}

const bom = "\ufeff"

func one(old, new string) []Edit { return []Edit{{old, new, 1}} }
func all(old, new string) []Edit { return []Edit{{old, new, -1}} }

var applyCases = []struct {
	name, in string
	edits    []Edit
	out      string
	n        int
}{
	{"middle", "one two three", one("two", "2"), "one 2 three", 1},
	{"first byte", "abc", one("a", "X"), "Xbc", 1},
	{"last byte", "abc", one("c", "X"), "abX", 1},
	{"everything", "abc", one("abc", "X"), "X", 1},
	{"to nothing", "abc", one("abc", ""), "", 1},
	{"delete", "a b c", one(" b", ""), "a c", 1},
	{"longer", "a b c", one("b", "bbbb"), "a bbbb c", 1},
	{"overlap once", "aaa", one("aa", "b"), "ba", 1},
	{"overlap all", "aaaaa", all("aa", "b"), "bba", 2},
	{"overlap with border", "ababab", all("abab", "x"), "xab", 1},
	{"all of one", "abc", all("b", "x"), "axc", 1},
	{"all adjacent", "bbb", all("b", "xy"), "xyxyxy", 3},
	{"exactly three", "b.b.b", []Edit{{"b", "x", 3}}, "x.x.x", 3},
	{"new holds old", "a", all("a", "aa"), "aa", 1},
	{"false starts", "aabaabaac", one("aabaac", "x"), "aabx", 1},
	{"long with false start", strings.Repeat("ab", 40) + "c" + strings.Repeat("ab", 30), one(strings.Repeat("ab", 20)+"c", "x"), strings.Repeat("ab", 20) + "x" + strings.Repeat("ab", 30), 1},
	{"no final newline", "a\nb", one("b", "c"), "a\nc", 1},
	{"add final newline", "a\nb", one("a\nb", "a\nb\n"), "a\nb\n", 1},
	{"drop final newline", "a\nb\n", one("b\n", "b"), "a\nb", 1},
	{"lines", "a\nb\nc\n", one("a\nb\n", "x\ny\nz\n"), "x\ny\nz\nc\n", 1},
	{"nul", "a\x00b", one("\x00", "-"), "a-b", 1},
	{"to nul", "a-b", one("-", "\x00"), "a\x00b", 1},
	{"cjk", "你好，世界", one("世界", "朋友"), "你好，朋友", 1},
	{"cjk all", "人人人", all("人", "大"), "大大大", 3},
	{"emoji", "a 👩‍👩‍👧 b 👧", one(" 👧", " 🙂"), "a 👩‍👩‍👧 b 🙂", 1},
	{"combining", "e\u0301e", one("\u0301", ""), "ee", 1},
	{"tabs", "\tif a {\n\t\tb\n\t}\n", one("\t\tb\n", "\t\tc\n"), "\tif a {\n\t\tc\n\t}\n", 1},

	{"in order", "a", []Edit{{"a", "b", 1}, {"b", "c", 1}, {"c", "d", 1}}, "d", 3},
	{"in what was put in", "f()", []Edit{{"f", "g(x)", 1}, {"x", "y", 1}}, "g(y)()", 2},
	{"unique only then", "a a", []Edit{{"a a", "b a", 1}, {"a", "c", 1}}, "b c", 2},
	{"swap", "x y", []Edit{{"x", "\x00", 1}, {"y", "x", 1}, {"\x00", "y", 1}}, "y x", 3},
	{"back", "a", []Edit{{"a", "b", 1}, {"b", "a", 1}}, "a", 2},

	{"lf file as it is", "a\nb\n", one("a", "x\r\ny"), "x\r\ny\nb\n", 1},
	{"lone cr", "a\rb\rc", one("a\rb", "x"), "x\rc", 1},
	{"crlf found by lf", "a\r\nb\r\nc\r\n", one("a\nb\n", "x\ny\nz\n"), "x\r\ny\r\nz\r\nc\r\n", 1},
	{"crlf found by crlf", "a\r\nb\r\nc\r\n", one("a\r\nb\r\n", "x\r\ny\r\n"), "x\r\ny\r\nc\r\n", 1},
	{"crlf found by crlf, lf put in", "a\r\nb\r\n", one("a\r\nb", "x\ny"), "x\r\ny\r\n", 1},
	{"crlf in one line", "a\r\nb\r\n", one("a", "x\ny"), "x\r\ny\r\nb\r\n", 1},
	{"crlf line joined", "a\r\nb\r\n", one("a\nb", "ab"), "ab\r\n", 1},
	{"crlf leading", "a\r\nb", one("\nb", "\nc"), "a\r\nc", 1},
	{"crlf leading, dropped", "a\r\nb", one("\nb", "b"), "ab", 1},
	{"crlf alone", "a\r\nb\r\n", all("\n", "\n\n"), "a\r\n\r\nb\r\n\r\n", 2},
	{"crlf alone, dropped", "a\r\nb\r\n", all("\n", ""), "ab", 2},
	{"crlf empty lines", "\r\n\r\n\r\n", one("\n\n", "x"), "x\r\n", 1},
	{"crlf cr put in", "a\r\nb", one("b", "c\rd"), "a\r\nc\rd", 1},
	{"crlf without cr", "a\r\nb\r\n", all("\r", ""), "a\nb\n", 2},
	{"crlf after cr", "a\r\r\nb", one("\nb", "\nc"), "a\r\r\nc", 1},
	{"crlf false start", "a\r\na\r\na\r\nb", one("a\na\nb", "x"), "a\r\nx", 1},
	{"crlf put in by the first edit", "a\nb\n", []Edit{{"a", "x\r\ny", 1}, {"x\ny", "z\nz", 1}}, "z\r\nz\nb\n", 2},
	{"mixed stays mixed", "a\r\nb\nc\r\nd\n", one("b\nc", "x\ny"), "a\r\nx\ny\r\nd\n", 1},
	{"mixed lf part", "a\r\nb\nc\nd\r\n", one("b\nc\n", "x\ny\nz\n"), "a\r\nx\ny\nz\nd\r\n", 1},
	{"mixed match keeps each", "a\r\nb\nc\r\n", one("a\nb\nc\n", "x\ny\nz\n"), "x\r\ny\nz\r\n", 1},
	{"mixed match, line added first", "a\nb\r\nc\n", one("a\nb\nc\n", "n\na\nb\nc\n"), "n\na\nb\r\nc\n", 1},
	{"mixed match, line added last", "a\nb\r\nc", one("a\nb\nc", "a\nb\nc\nd"), "a\nb\r\nc\r\nd", 1},
	{"mixed match, line added between", "a\r\nc\nd", one("a\nc\nd", "a\nb\nc\nd"), "a\r\nb\r\nc\nd", 1},
	{"mixed match, line dropped", "a\nb\r\nc\n", one("a\nb\nc\n", "a\nc\n"), "a\nc\n", 1},
	{"mixed match, first line dropped", "a\nb\r\nc\n", one("a\nb\nc\n", "b\nc\n"), "b\r\nc\n", 1},
	{"mixed all", "a\r\nb a\nb", all("a\nb", "x\ny"), "x\r\ny x\ny", 2},
	{"mixed, mostly crlf", "a\r\nb\r\nc\n", one("b", "x\ny"), "a\r\nx\r\ny\r\nc\n", 1},
	{"mixed, mostly lf", "a\r\nb\nc\n", one("b", "x\r\ny"), "a\r\nx\ny\nc\n", 1},
	{"mixed, as many", "a\r\nb\n", one("b", "x\ny"), "a\r\nx\ny\n", 1},
	{"mixed, crlf is exact", "a\nb a\r\nb", one("a\r\nb", "x"), "a\nb x", 1},

	{"bom kept", bom + "a\nb", one("a", "x"), bom + "x\nb", 1},
	{"bom, all", bom + "abc", one("abc", ""), bom, 1},
	{"bom and crlf", bom + "a\r\nb", one("a\nb", "x\ny"), bom + "x\r\ny", 1},
	{"second bom is text", bom + bom + "a", one(bom+"a", "b"), bom + "b", 1},
	{"bom inside is text", "a" + bom + "b", one(bom, ""), "ab", 1},
}

func TestApply(t *testing.T) {
	for _, c := range applyCases {
		t.Run(c.name, func(t *testing.T) {
			in := []byte(c.in)
			out, n, err := edited(context.Background(), in, c.edits)
			testbed.NoErr(t, err)
			testbed.Expect(t, string(out) == c.out && n == c.n, "%q with %d replacements, want %q with %d", out, n, c.out, c.n)
			testbed.Expect(t, string(in) == c.in, "the content has become %q", in)
			testbed.Expect(t, len(c.edits) != 1 || cap(out)-len(out) <= 64+len(out)/7, "room for %d bytes in a result of %d", cap(out), len(out))
		})
	}
}

var failureCases = []struct {
	name, in string
	edits    []Edit
	edit     int
	reason   string
	matches  int
	lines    []int
}{
	{"no edits", "a", nil, 0, NoEdits, 0, nil},
	{"empty list", "a", []Edit{}, 0, NoEdits, 0, nil},
	{"empty old", "a", one("", "b"), 1, EmptyOldString, 0, nil},
	{"empty old in an empty file", "", one("", "b"), 1, EmptyOldString, 0, nil},
	{"both empty", "a", one("", ""), 1, EmptyOldString, 0, nil},
	{"second is empty", "a", []Edit{{"a", "b", 1}, {"", "c", 1}}, 2, EmptyOldString, 0, nil},
	{"count 0", "a", []Edit{{"a", "b", 0}}, 1, BadCount, 0, nil},
	{"count -2", "a", []Edit{{"a", "b", -2}}, 1, BadCount, 0, nil},
	{"old", "é", one("\xa9", "b"), 1, NotUTF8, 0, nil},
	{"new", "a", one("a", "\xc3"), 1, NotUTF8, 0, nil},
	{"same", "a", one("a", "a"), 1, NoChange, 0, nil},
	{"same in the end", "a\r\nb", one("a\r\nb", "a\nb"), 1, NoChange, 1, []int{1}},
	{"same in the end, all", "a\r\nb\na\r\n", all("a\n", "a\r\n"), 1, NoChange, 2, []int{1, 3}},
	{"empty file", "", one("a", "b"), 1, OldStringNotFound, 0, nil},
	{"only a mark", bom, one(bom, "b"), 1, OldStringNotFound, 0, nil},
	{"mark is not in line 1", bom + "a", one(bom+"a", "b"), 1, OldStringNotFound, 0, nil},
	{"longer than the file", "abc", one("abcd", "b"), 1, OldStringNotFound, 0, nil},
	{"not found, all", "abc", all("x", "b"), 1, OldStringNotFound, 0, nil},
	{"not found, three", "abc", []Edit{{"x", "b", 3}}, 1, OldStringNotFound, 0, nil},
	{"crlf in an lf file", "a\nb", one("a\r\nb", "x"), 1, OldStringNotFound, 0, nil},
	{"two", "a\nb\na\n", one("a", "x"), 1, AmbiguousMatch, 2, []int{1, 3}},
	{"two in a line", "a a\n", one("a", "x"), 1, AmbiguousMatch, 2, []int{1, 1}},
	{"two, crlf", "a\r\nb\r\na\r\n", one("a\n", "x"), 1, AmbiguousMatch, 2, []int{1, 3}},
	{"begins with a line end", "a\n\nb\n\n", one("\n\n", "x"), 1, AmbiguousMatch, 2, []int{1, 3}},
	{"two of three", "a\na", []Edit{{"a", "x", 3}}, 1, InsufficientMatches, 2, []int{1, 2}},
	{"overlap of two", "aaa", []Edit{{"aa", "x", 2}}, 1, InsufficientMatches, 1, []int{1}},
	{"three of two", "a\na\n\na", []Edit{{"a", "x", 2}}, 1, TooManyMatches, 3, []int{1, 2, 4}},
	{"thirty", strings.Repeat("a\n", 30), one("a", "x"), 1, AmbiguousMatch, 30, []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}},
	{"all or nothing", "a b", []Edit{{"a", "x", 1}, {"a", "y", 1}}, 2, OldStringNotFound, 0, nil},
	{"ambiguous by the first", "a b", []Edit{{"a", "b", 1}, {"b", "y", 1}}, 2, AmbiguousMatch, 2, []int{1, 1}},
	{"lines as the first left them", "a\nb\nb", []Edit{{"a", "1\n2\n3", 1}, {"b", "y", 1}}, 2, AmbiguousMatch, 2, []int{4, 5}},
	{"mark and lines", bom + "a\na", one("a", "y"), 1, AmbiguousMatch, 2, []int{1, 2}},
	{"too large", strings.Repeat("a", 1<<10), all("a", strings.Repeat("b", 1<<20)), 1, ResultTooLarge, 1 << 10, slices.Repeat([]int{1}, 20)},
	{"too large with line ends", strings.Repeat("a\r\nb\n", 1<<10), all("a\nb\n", strings.Repeat("\n", 1<<20)), 1, ResultTooLarge, 1 << 10, []int{1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31, 33, 35, 37, 39}},
}

func TestFailures(t *testing.T) {
	for _, c := range failureCases {
		t.Run(c.name, func(t *testing.T) {
			f := failure(t, c.in, c.edits...)
			testbed.Expect(t, f.Edit == c.edit && f.Reason == c.reason && f.Matches == c.matches && slices.Equal(f.Lines, c.lines),
				"%+v, want edit %d, %s, %d matches on %v", *f, c.edit, c.reason, c.matches, c.lines)
			want := fmt.Sprintf("edit %d: %s", c.edit, c.reason)
			if c.edit == 0 {
				want = "edits: " + c.reason
			}
			testbed.Equal(t, f.Error(), want)
		})
	}
}

// TestNoSharing writes to the result and looks whether the content changes.
func TestNoSharing(t *testing.T) {
	in := []byte("a b c")
	out := mustApply(t, in, Edit{"b", "x", 1})
	for i := range out {
		out[i] = '!'
	}
	testbed.Expect(t, bytes.Equal(in, []byte("a b c")), "the content has become %q", in)
}

// TestWorkOfEditsIsBounded: what edits go through is counted as the text grows,
// and a context that is done ends them at the next edit.
func TestWorkOfEditsIsBounded(t *testing.T) {
	testbed.Set(t, &maxWork, 3<<20)
	var list []Edit
	for range 12 { // to 4 KiB
		list = append(list, Edit{Old: "a", New: "aa", Count: -1})
	}
	for range 100 {
		list = append(list, Edit{Old: "a", New: "b", Count: -1}, Edit{Old: "b", New: "a", Count: -1})
	}
	_, _, err := edited(context.Background(), []byte("a"), list)
	f, ok := err.(*Failure)
	testbed.Expect(t, ok && f.Reason == TooMuchWork && f.Edit >= 30 && f.Edit <= 40, "%v", err)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, _, err = edited(ctx, []byte("a"), list)
	testbed.Expect(t, err == context.Canceled, "%v", err)
}

// TestMatchesOfEditsAreBounded: edits that double a text of one letter end before there are
// more matches than memory.
func TestMatchesOfEditsAreBounded(t *testing.T) {
	testbed.Set(t, &maxWork, 1<<20)
	double := slices.Repeat([]Edit{{Old: "a", New: "aa", Count: -1}}, 40)
	for name, content := range map[string]string{"UTF-8": "a", "Latin-1": "a\xe9"} {
		_, err := Apply(context.Background(), []byte(content), double, "")
		f, ok := err.(*Failure)
		most := 15 // 2 to the 14th matches of 32 bytes each, and those before
		if name != "UTF-8" {
			most = 13
		}
		testbed.Expect(t, ok && f.Reason == TooMuchWork && f.Edit >= 10 && f.Edit <= most+1, "%s: %v", name, err)
	}
}

const program = "package main\n\nimport \"fmt\"\n\nfunc main() {\n\tfor i := 0; i < 10; i++ {\n\t\tfmt.Println(\"hello\", i)\n\t}\n}\n\n// Total adds up what a list holds.\nfunc Total(list []int) (sum int) {\n\tfor _, n := range list {\n\t\tsum += n\n\t}\n\treturn sum\n}\n"

var closestCases = []struct {
	name, in, old string
	line          int // 0 for nothing
	why           string
	least         float64
}{
	{"spaces for tabs", program, "    for _, n := range list {\n        sum += n\n", 13, DiffersInWhitespace, 0.8},
	{"one space too many", program, "func Total(list  []int)", 12, DiffersInWhitespace, 0.95},
	{"space missing", program, "i:=0; i < 10", 6, DiffersInWhitespace, 0.9},
	{"blank line", program, "func main() {\n\n\tfor i", 5, DiffersInWhitespace, 0.9},
	{"blank line missing", program, "\t}\n}\n// Total", 8, DiffersInWhitespace, 0.9},
	{"space at the end", program, "return sum \n}", 16, DiffersInWhitespace, 0.9},
	{"final newline", "a b c\nend", "end\n", 2, DiffersInWhitespace, 0.9},
	{"line before", program, "\n\n\tfor i :=", 6, DiffersInWhitespace, 0.9},
	{"one of the lines before", "x\n\n\n\tfoo(bar)\n", "\n foo(bar)", 4, DiffersInWhitespace, 0.9},
	{"indent of the first line", program, "\t\treturn sum", 16, DiffersInWhitespace, 0.9},
	{"case", program, "func total(list []int)", 12, DiffersInCase, 0.9},
	{"all in the other case", program, "PACKAGE MAIN", 1, DiffersInCase, 0.75},
	{"case outside ASCII", "un\nÉTÉ\n", "été", 2, DiffersInCase, 0.75},
	{"case and space", program, "func  total(list []int)", 12, SimilarText, 0.9},
	{"whitespace goes before", "FOO  bar\nfoo  bar\n", "foo bar", 2, DiffersInWhitespace, 0.9},
	{"crlf for lf", program, "func main() {\r\n\tfor", 5, DiffersInLineEnds, 0.9},
	{"lf for cr", "a\rbc\rdef\r", "bc\ndef", 1, DiffersInLineEnds, 0.8},
	{"crlf in the lf part", "a\r\nb\nfoo\nbar\n", "foo\r\nbar", 3, DiffersInLineEnds, 0.8},
	{"line ends go before", "foo  \nbar\nfoo\nbar\n", "foo\r\nbar", 3, DiffersInLineEnds, 0.8},
	{"end of a line", "name=(a,b)\nquite other text\n", "=(a,bx)", 1, SimilarText, 0.6},
	{"beginning unlike", program, "qqqqqqqq zzzzzzzz qqqqqqqq\n\tfor _, n := range list {\n\t\tsum += n\n\t}\n\treturn sum\n}\n", 12, SimilarText, 0.55},
	{"ideographic space", "前\n世界　你好", "世界 你好", 2, DiffersInWhitespace, 0.7},
	{"mark", bom + "first line", bom + "first line", 1, DiffersInWhitespace, 0.9},
	{"typo", program, "fmt.Println(\"helo\", i)", 7, SimilarText, 0.7},
	{"other name", program, "func Total(items []int) (sum int) {\n\tfor _, n := range items {\n\t\tsum += n\n\t}\n", 12, SimilarText, 0.6},
	{"line left out", program, "// Total adds up what a list holds.\nfunc Total(list []int) (sum int) {\n\t\tsum += n\n\t}\n\treturn sum\n}\n", 11, SimilarText, 0.7},
	{"line too many", program, "import \"fmt\"\n\nfunc main() {\n\tx := 17\n\tfor i := 0; i < 10; i++ {\n\t\tfmt.Println(\"hello\", i)\n", 3, SimilarText, 0.7},
	{"longer than the file", "func main() {\n}\n", "func main() {\n\treturn\n}\n", 1, SimilarText, 0.55},
	{"cjk", "标题\n\n这是一个文件的内容，没有什么特别的东西。\n完\n", "这是一个文件的内容，没有什么特殊的东西。", 3, SimilarText, 0.8},
	{"emoji", "a\n🙂🙃 all is well today 🎉\n", "🙂🙃 all is well todey 🎉", 2, SimilarText, 0.7},
	{"nothing like it", program, "SELECT name FROM customers WHERE id = 7", 0, "", 0},
	{"only spaces", program, "   \t  ", 0, "", 0},
	{"in spaces", " \n\t\n", "foo", 0, "", 0},
	{"one letter", program, "Z", 0, "", 0},
	{"mostly other whitespace", "a\nb", strings.Repeat("\n", 60) + "b", 0, "", 0},
	{"empty file", "", "foo", 0, "", 0},
}

func TestClosest(t *testing.T) {
	for _, c := range closestCases {
		t.Run(c.name, func(t *testing.T) {
			f := failure(t, c.in, Edit{c.old, "new text", 1})
			testbed.Require(t, f.Reason == OldStringNotFound, "%v", f)
			got := f.Closest
			switch {
			case c.line == 0:
				testbed.Expect(t, got == nil, "%+v, want nothing", got)
			case got == nil:
				t.Error("nothing found")
			case got.Line != c.line || got.Why != c.why || got.Similarity < c.least || got.Similarity >= 1:
				t.Errorf("%+v, want line %d, %s, at least %v", *got, c.line, c.why, c.least)
			}
		})
	}
}

// TestClosestInLongText looks for changed stretches in 10 MB, far from a
// boundary of what is read at once and across one.
func TestClosestInLongText(t *testing.T) {
	size := 2 << 20
	if testbed.Long() {
		size = 10 << 20
	}
	text := source(size, "\n")
	for _, n := range []int{6, 20, 200, 1000, 5000} {
		old, line := spoilt(text, n)
		c := closest(text, old)
		testbed.Expect(t, c != nil && c.Line == line && c.Why == SimilarText && c.Similarity >= 0.6, "%d lines: %+v, want line %d", n, c, line)
		old = strings.ReplaceAll(old, "\t// added\n", "")
		old = strings.ReplaceAll(strings.ReplaceAll(old, "Panic!!", "return"), "\t", "  ")
		c = closest(text, old)
		testbed.Expect(t, c != nil && c.Line == line && c.Why == DiffersInWhitespace, "%d lines with other white space: %+v, want line %d", n, c, line)
	}
}

// FuzzLinear: finding, replacing, and finding what is closest to a string that
// is not there takes work in proportion to the text and the string.
func FuzzLinear(f *testing.F) {
	seeds := []string{"ab", "aab", "line #\n", "a\r\n", "a … b", "  \n", "A", "{ … }\n", "\xe9 a", "\x95\x5c\x81", "a\x00"}
	testbed.FuzzLinear(f, 16<<10, 2*time.Microsecond, seeds, func(text []byte) int {
		half, whole := string(text[:len(text)/2]), string(text)
		for _, e := range []Edit{
			{Old: "a", New: "bb", Count: -1}, {Old: whole[:min(8, len(whole))], New: "c", Count: -1}, {Old: half, New: "c", Count: 1}, {Old: half + "!", New: "c", Count: 1},
			{Old: "!" + half, New: "c", Count: 1}, {Old: half[:len(half)/2] + "\n " + half[len(half)/2:], New: "c", Count: 1},
		} {
			Apply(context.Background(), text, []Edit{e}, "")
		}
		return 0
	})
}

// TestReadSweep reads random bytes in every encoding: the text is the one that
// the library reads, and encoded again it is the same bytes; what has no such
// text is refused. Each page of it begins at a character.
func TestReadSweep(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testbed.Seed(t), 7))
	for _, c := range charsets {
		c.prepare()
		all := alphabet(rnd, c)
		read := 0
		for range rounds(2000) {
			list := some(rnd, all, 1+rnd.IntN(24))
			whole, text := joined(list)
			raw := []byte(whole)
			if rnd.IntN(8) == 0 { // damaged
				raw[rnd.IntN(len(raw))] = byte(rnd.IntN(256))
				out, err := codec(c).NewDecoder().Bytes(raw)
				if text = string(out); err != nil || c.name == "gb18030" && strings.ContainsRune(text, utf8.RuneError) {
					text = ""
				}
			}
			back, err := codec(c).NewEncoder().Bytes([]byte(text))
			same := err == nil && bytes.Equal(back, raw)
			got, err := Read(raw, c.name)
			testbed.Require(t, (err == nil) == same && (err != nil || got.Text == text), "%s % x: %q %v, want %q (%v)", c.name, raw, got.Text, err, text, same)
			if err != nil {
				continue
			}
			read++
			from := rnd.IntN(len(raw) + 1)
			rest, at := got.Skip(from)
			head, err := codec(c).NewEncoder().Bytes([]byte(strings.TrimSuffix(text, rest.Text)))
			testbed.Require(t, err == nil && at >= from && at == len(head) && at-from <= 3, "%s % x from %d: %q from %d", c.name, raw, from, rest.Text, at)
			n := rest.Bytes(len(rest.Text))
			testbed.Require(t, at+n == len(raw), "%s % x from %d: %d bytes from %d", c.name, raw, from, n, at)
		}
		testbed.Expect(t, read >= rounds(500), "%s: only %d texts", c.name, read)
	}
}

// TestReadAndEdit reads ordinary texts without a declared encoding, whole and in
// parts, and edits what was read: no edit is made in another encoding than the
// one that was reported.
func TestReadAndEdit(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testbed.Seed(t), 8))
	for _, s := range samples {
		raw := encoded(t, s.name, s.text)
		got, err := Read(raw, "")
		if f, ok := err.(*Failure); ok && slices.Contains(f.Encodings, s.name) { // one of several
			t.Logf("%s is one of %v", s.name, f.Encodings)
			got, err = Read(raw, s.name)
		}
		testbed.Expect(t, err == nil && got.Text == s.text && got.Encoding == s.name, "%s: %q in %s, %v", s.name, got.Text, got.Encoding, err)
	}
	read, edited := 0, 0
	for range 20_000 {
		s := samples[rnd.IntN(len(samples))]
		runes := []rune(s.text)
		from := rnd.IntN(len(runes))
		text := string(runes[from:min(len(runes), from+1+rnd.IntN(len(runes)))])
		raw := encoded(t, s.name, text)
		got, err := Read(raw, "")
		if err != nil {
			continue
		}
		back, err := codec(got.charset).NewEncoder().Bytes([]byte(got.Text))
		testbed.Require(t, err == nil && bytes.Equal(back, raw), "%s %q is read as %q in %s: % x %v", s.name, text, got.Text, got.Encoding, back, err)
		read++
		is := []rune(got.Text)
		from = rnd.IntN(len(is))
		old := string(is[from:min(len(is), from+1+rnd.IntN(8))])
		out, err := Apply(context.Background(), raw, []Edit{{old, old + "x", -1}}, "")
		if err != nil || out.Encoding == "ascii" {
			continue
		}
		testbed.Require(t, out.Encoding == got.Encoding, "%s %q is read as %q in %s and edited in %s", s.name, text, got.Text, got.Encoding, out.Encoding)
		edited++
	}
	t.Logf("%d read, %d edited", read, edited)
	testbed.Expect(t, read >= 10_000 && edited >= read*8/10, "%d read, %d edited", read, edited)
}

// TestReadCases are contents with a certain reading.
func TestReadCases(t *testing.T) {
	for _, c := range []struct{ name, raw, encoding, want, used string }{
		{"empty", "", "", "", ""},
		{"ASCII", "a\n", "", "a\n", ""},
		{"UTF-8", "gr\u00fc\u00df\n", "", "gr\u00fc\u00df\n", ""},
		{"UTF-8 that is named", "gr\u00fc\u00df\n", "utf-8", "gr\u00fc\u00df\n", ""},
		{"Latin-1", "gr\xfc\xdfe an alle\n", "", "gr\u00fc\u00dfe an alle\n", "iso-8859-1"},
		{"a mark", "\xff\xfea\x00\xfc\x00", "", "\ufeffa\u00fc", "utf-16le"},
		{"no mark", "\x00a\x00b\x00c\x00\n", "", "abc\n", "utf-16be"},
		{"Cyrillic that is named", "\xcf\xf0\xe8\xe2\xe5\xf2\n", "windows-1251", "\u041f\u0440\u0438\u0432\u0435\u0442\n", "windows-1251"},
		{"Cyrillic", "\xcf\xf0\xe8\xe2\xe5\xf2\n", "", "", NotUTF8},
		{"half a unit", "\xff\xfea\x00\xfc", "", "", NotUTF8},
		{"half a pair", "\xff\xfe\x00\xd8", "", "", NotUTF8},
		{"an image", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "", "", NotUTF8},
		{"one byte of another encoding", "# gr\u00fc\u00dfe\nx = \xfc\n", "", "", NotUTF8},
		{"another encoding than the one named", "\x82\xa0", "utf-8", "", NotUTF8},
		{"an encoding that lacks the byte", "a\x81", "windows-1252", "", NotUTF8},
		{"no encoding", "a", "utf-9", "", BadEncoding},
	} {
		got, err := Read([]byte(c.raw), c.encoding)
		if f, ok := err.(*Failure); ok {
			testbed.Expect(t, f.Reason == c.used, "%s: %v", c.name, f)
		} else if got.Text != c.want || got.Encoding != c.used {
			t.Errorf("%s: %q in %q", c.name, got.Text, got.Encoding)
		}
	}
}
