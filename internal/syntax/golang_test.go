package syntax

import "testing"

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
