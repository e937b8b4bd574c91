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
		badCase{`[1, -Infinity]`, 1, 5, "-Infinity"},
		badCase{"[1,\n2,\n]", 2, 2, "trailing comma before ']'"},
		badCase{`{"a": 1,}`, 1, 8, "trailing comma before '}'"},
		badCase{`["a\qb"]`, 1, 4, `unknown escape \q`},
		badCase{`["\u12g4"]`, 1, 3, "four hexadecimal digits"},
		badCase{`["\ud83d"]`, 1, 3, "half of a surrogate pair"},
		badCase{`["\ude00\ud83d"]`, 1, 9, "half of a surrogate pair"},
		badCase{"[\"a\nb\"]", 1, 2, "not closed on its line"},
		badCase{"[\"a\tb\"]", 1, 4, "control character 0x09"},
		badCase{"[1,\n [2", 2, 2, "'[' opened at line 2 is never closed"},
		badCase{"[1}", 1, 3, "'}' does not match '[' opened at line 1"},
		badCase{"[1]]", 1, 4, "text after the end"},
		badCase{"]", 1, 1, "closes nothing"},
		badCase{`{"a" 1}`, 1, 6, "':' is missing"},
		badCase{`{"a":}`, 1, 6, "a value is missing"},
		badCase{`[1 2]`, 1, 4, "a comma is missing"},
		badCase{`[,1]`, 1, 2, "a comma where a value"},
		badCase{`{a: 1}`, 1, 2, "not in double quotes"},
		badCase{`['a']`, 1, 2, "single quotes"},
		badCase{`[True]`, 1, 2, "JSON has true"},
		badCase{`[01]`, 1, 2, "a leading zero"},
		badCase{`[1.]`, 1, 2, "no digit after the point"},
		badCase{`[.5]`, 1, 2, "no digit in front"},
		badCase{`[+1]`, 1, 2, "a plus sign"},
		badCase{`[1e]`, 1, 2, "no digit in the exponent"},
		badCase{`[0x1]`, 1, 2, "it ends in"},
		badCase{"// c\n1", 1, 1, "a comment"},
		badCase{"[1, /* c */ 2]", 1, 5, "a comment"},
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
