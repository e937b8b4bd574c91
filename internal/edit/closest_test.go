package edit

import (
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

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
			if f.Reason != OldStringNotFound {
				t.Fatal(f)
			}
			got := f.Closest
			switch {
			case c.line == 0:
				if got != nil {
					t.Errorf("%+v, want nothing", *got)
				}
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
	size := 10 << 20
	if testbed.RaceDetector {
		size = 1 << 20
	}
	text := source(size, "\n")
	for _, n := range []int{6, 20, 200, 1000, 5000} {
		old, line := spoilt(text, n)
		c := closest(text, old)
		if c == nil || c.Line != line || c.Why != SimilarText || c.Similarity < 0.6 {
			t.Errorf("%d lines: %+v, want line %d", n, c, line)
		}
		old = strings.ReplaceAll(old, "\t// added\n", "")
		old = strings.ReplaceAll(strings.ReplaceAll(old, "Panic!!", "return"), "\t", "  ")
		c = closest(text, old)
		if c == nil || c.Line != line || c.Why != DiffersInWhitespace {
			t.Errorf("%d lines with other white space: %+v, want line %d", n, c, line)
		}
	}
}
