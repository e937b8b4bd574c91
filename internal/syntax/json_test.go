package syntax

import "testing"

func TestJSON(t *testing.T) {
	accept(t, "json",
		`{}`, `[]`, `null`, "\t true\n", `-0.5e+10`, `0`, `""`, `"\u00e4\"\\\/\b\f\n\r\t"`, `"\ud83d\ude00"`,
		`{"a": {"a": [1, 2.50, -3E5]}, "b": {"a": null}}`, `[[], {}, [{}], "x"]`, `{"": 1, " ": 2}`, `1E400`,
		"{\n  \"a\": [\n    1\n  ]\n}\n",
	)
	reject(t, "json",
		badCase{``, 1, 1, "empty"},
		badCase{"{\"a\": 1,\n \"a\": 2}", 2, 2, "duplicate key \"a\", first at line 1"},
		badCase{`{"a": 1, "\u0061": 2}`, 1, 10, `duplicate key "a"`},
		badCase{`[NaN]`, 1, 2, "NaN"},
		badCase{`[1, -Infinity]`, 1, 6, "JSON has no Infinity"},
		badCase{"[1,\n2,\n]", 2, 2, "a trailing comma"},
		badCase{`{"a": 1,}`, 1, 8, "a trailing comma"},
		badCase{`["a\qb"]`, 1, 5, "invalid character 'q' in string escape code"},
		badCase{`["\u12g4"]`, 1, 7, "invalid character 'g' in \\u hexadecimal"},
		badCase{`["\ud83d"]`, 1, 3, "half of a surrogate pair"},
		badCase{`["\ude00\ud83d"]`, 1, 3, "half of a surrogate pair"},
		badCase{"[\"a\nb\"]", 1, 4, "in string literal"},
		badCase{"[\"a\tb\"]", 1, 4, "written as escapes"},
		badCase{"[1,\n [2", 2, 2, "'[' opened at line 2 is never closed"},
		badCase{"[1}", 1, 3, "invalid character '}' after array element; a"},
		badCase{"[1]]", 1, 4, "text after the end"},
		badCase{"]", 1, 1, "invalid character ']' looking for beginning"},
		badCase{`{"a" 1}`, 1, 6, "invalid character '1' after object key; a"},
		badCase{`{"a":}`, 1, 6, "invalid character '}' looking for beginning"},
		badCase{`[1 2]`, 1, 4, "a comma, a colon or a bracket is missing"},
		badCase{`[,1]`, 1, 2, "invalid character ',' looking for beginning"},
		badCase{`{a: 1}`, 1, 2, "invalid character 'a' looking for beginning"},
		badCase{`['a']`, 1, 2, "in double quotes"},
		badCase{`[True]`, 1, 2, "JSON has true"},
		badCase{`[01]`, 1, 3, "invalid character '1' after array element; a"},
		badCase{`[1.]`, 1, 4, "invalid character ']' after decimal point in"},
		badCase{`[.5]`, 1, 2, "a digit is before"},
		badCase{`[+1]`, 1, 2, "no plus sign"},
		badCase{`[1e]`, 1, 4, "invalid character ']' in exponent of numeric"},
		badCase{`[0x1]`, 1, 3, "invalid character 'x' after array element; a"},
		badCase{"// c\n1", 1, 1, "JSON has no comments"},
		badCase{"[1, /* c */ 2]", 1, 5, "JSON has no comments"},
		badCase{`"abc`, 1, 1, "never closed"},
		badCase{`"abc\`, 1, 1, "never closed"},
	)
}

func TestJSONLines(t *testing.T) {
	accept(t, "jsonl", "", "{}\n", "{}\n\n[1]\n\"a\"", "1\n2\n3\n", "null", "{\"a\":1}\n{\"a\":1}\n")
	reject(t, "jsonl",
		badCase{"{}\n{\n}\n", 2, 1, "'{' opened at line 2 is never closed"},
		badCase{"1 2\n", 1, 3, "text after the end"},
		badCase{"{}\n[NaN]\n{}", 2, 2, "NaN"},
		badCase{"{}\n[1,]\n[2,]\n", 3, 3, "trailing comma"},
		badCase{"[\"a\n\"]", 1, 2, "closed"},
	)
}

func TestGo(t *testing.T) {
	accept(t, "go",
		"package a\n", "// c\npackage a\n\nimport \"fmt\"\n\nfunc F() { fmt.Println() }\n", "package a\ntype T[K comparable, V any] map[K]V\n",
		"package a\nvar x = []int{1, 2}\n", "package a\nconst (\n\tA = iota\n\tB\n)\n", "package a\nfunc f() (int, error) { return 0, nil }\n",
		"package a\ntype I interface{ ~int | string }\n", "package a\nvar s = `raw\n\\`\n", "package a\nfunc f() { for i := range 3 { _ = i } }\n",
		"package a\nfunc f() {\nl:\n\tgoto l\n}\n", "package a; var undefined = nowhere\n",
	)
	reject(t, "go",
		badCase{"", 1, 1, "expected 'package'"},
		badCase{"func f() {}\n", 1, 1, "expected 'package'"},
		badCase{"package a\nfunc f() {\n", 3, 1, "expected '}'"},
		badCase{"package a\nfunc f( {}\n", 2, 9, "expected"},
		badCase{"package a\nvar x = \n", 3, 1, "expected"},
		badCase{"package a\nvar s = \"x\n", 2, 9, "string literal not terminated"},
		badCase{"package a\nvar s = `x\n", 2, 9, "raw string literal not terminated"},
		badCase{"package a\n/* x\n", 2, 1, "comment not terminated"},
		badCase{"package a\nfunc f() { if x { }\n", 3, 1, "expected"},
		badCase{"package a\nimport fmt; import 1\n", 2, 11, "import path"},
		badCase{"package a\nvar c = 'ab'\n", 2, 9, "rune literal"},
		badCase{"package a\nvar n = 08\n", 2, 10, "invalid digit"},
		badCase{"package a\n\n//line x.go:100\nvar = 1\n", 4, 5, "expected"},
	)
}

func TestMarkdown(t *testing.T) {
	accept(t, "markdown",
		"", "# Title\n\ntext [ { ( _ * `\n", "---\ntitle: x\ntags: [a, b]\n---\n# T\n", "---\na: 1\n...\ntext\n", "---\n---\ntext\n",
		"text\n\n---\n\nmore\n", "```go\nx\n```\n", "~~~\n```\n~~~\n", "````\n```\n````\n", "- item\n\n    ```\n    x\n    ```\n",
		"```inline``` text\n", "    ```\n    an indented block\n", "> ```\n> x\n\nafter the quote\n",
	)
	reject(t, "markdown",
		badCase{"---\ntitle: x\n# T\n", 1, 1, "front matter"},
		badCase{"---", 1, 1, "never closed"},
		badCase{"---\n---x\n", 1, 1, "never closed"},
		badCase{"---\na: 1\na: 2\n---\n", 3, 1, "already defined"},
		badCase{"---\na: [1\n---\n", 2, 4, ""},
		badCase{"---\na: \"x\n---\n", 2, 4, ""},
		badCase{"---\na: b: c\n---\n", 2, 5, "mapping value"},
		badCase{"---\na:\n\tb: 1\n---\n", 3, 1, "cannot start"},
		badCase{"---\na: 1\n b: 2\n---\ntext\n", 3, 3, ""},
		badCase{"---\n- a\nb: 1\n---\ntext\n", 3, 1, ""},
	)
	warn(t, "markdown",
		badCase{"text\n```go\nx\n", 2, 1, "the code fence opened at line 2 is never closed"},
		badCase{"~~~\n```\n", 1, 1, "never closed"},
		badCase{"````\n```\n", 1, 1, "never closed"},
		badCase{"---\na: 1\n---\n```\n", 4, 1, "opened at line 4"},
		badCase{"```\n``` x\n", 1, 1, "never closed"},
	)
}
