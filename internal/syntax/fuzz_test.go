package syntax

import "testing"

// fuzz runs one checker over anything: it must never panic and never report a
// place outside the text.
func fuzz(f *testing.F, format string, seeds ...string) {
	for _, seed := range append(seeds, hostile...) {
		f.Add([]byte(seed))
		f.Add([]byte(seed + "\r\n" + seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) { verify(t, format, text) })
}

func FuzzJSON(f *testing.F) {
	fuzz(f, "json", `{"a": [1, -2.5e3, "\ud83d\ude00", null], "b": {}}`, "\ufeff[NaN, 'x', // c\n]")
}

func FuzzJSONLines(f *testing.F) { fuzz(f, "jsonl", "{}\n[1]\n\n\"a\"") }

func FuzzYAML(f *testing.F) {
	fuzz(f, "yaml", "a: &x [1, {b: c}]\n---\n- *x\n- |\n  text\n- \"q\\n\"\n", "%YAML 1.2\n---\n? a\n: !!str b\n...\n")
}

func FuzzTOML(f *testing.F) {
	fuzz(f, "toml", "[a.b]\nc = {d = [1, 2.5], e.f = 1979-05-27T07:32:00Z}\n[[g]]\nh = \"\"\"x\\\n  y\"\"\"\n'i' = 0x1F\n")
}

func FuzzXML(f *testing.F) {
	fuzz(f, "xml", "<?xml version='1.0' encoding='latin1'?>\n<!DOCTYPE a [<!ENTITY b 'c'>]><a x='1'>&b;<b/></a>\n")
}

func FuzzGo(f *testing.F) {
	fuzz(f, "go", "package a\n\nimport \"fmt\"\n\nfunc f[T any](x T) { fmt.Println(`a`, 'b', []T{x}) }\n", "package a\n//line b.go:10\nvar x = (")
}

func FuzzPython(f *testing.F) {
	fuzz(f, "python", "@d\nasync def f(a: int = 1, *b) -> c:\n\tif a: return f'{b!r:>{c}}'\n\telse:\n\t\tx = [1,\n 2]\n", "match x:\n  case [1]: pass\n", "# coding: latin-1\n'\xe4'")
}

func FuzzLaTeX(f *testing.F) {
	fuzz(f, "latex", "\\documentclass{a}\n\\begin{document}$a_b$ \\verb|x| \\url{a%b} \\[c\\] % d\n\\newcommand{\\e}{\\begin{f}}\\end{document}\n")
}

func FuzzMarkdown(f *testing.F) {
	fuzz(f, "markdown", "---\na: 1\n---\n# T\n\n- b\n\n  ```go\n  c\n  ```\n> ~~~\n")
}
