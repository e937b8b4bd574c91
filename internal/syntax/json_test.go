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
