package syntax

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

func TestPython(t *testing.T) {
	accept(t, "python",
		"", "# comment only", "x = 1\n", "if a:\n    pass\nelif b:\n    pass\nelse:\n    pass\n",
		"try:\n  a\nexcept (A, B) as e:\n  b\nexcept:\n  c\nelse:\n  d\nfinally:\n  e\n", "try:\n  a\nexcept* A:\n  b\n",
		"@d(1)\n@e\nasync def f(a: int = 1, /, b=2, *args: str, c, **kw) -> dict[str, int]:\n    async with a as b, c:\n        await b\n    return\n",
		"class A(B, metaclass=C):\n    x: int = 1\n    def f(self): return lambda a, *b, c=1, **d: (a, b)\n", "class A: pass\nclass B[T]: ...\n",
		"while (n := f()) > 1: break\nelse: pass\n", "for a, *b in c:\n\tcontinue\nelse:\n\tpass\n",
		"match x:\n    case [1, *_] | {'a': b, **c} if b:\n        pass\n    case A(x=1): pass\n    case _:\n        pass\n",
		"match = 1\ncase = match + 2\nmatch[case] = 3\nmatch(case)\nprint(match.x)\ntype = 1\n", "type X[T] = list[T]\n",
		"s = r'\\\\' b'' + u\"x\" f'' rb'\\x' Rb'' '''a\n'b'\n''' \"\"\"c\"d\\\"\"\"\"\n",
		"s = f'{a!r:>{width}} {{}} {b[\"k\"]} {c:%H:%M} {d=} {e if f else g} {lambda_}'\n", "s = f'{a['b']} {f\"{x:{y}}\"} \\N{DASH} {x!=y}'\n",
		"s = f'''{\n  a # comment }\n}'''\n", "s = f\"{', '.join(f'{k}={v!r}' for k, v in d)}\"\n", "s = rf'\\{a}\\d'\n",
		"n = [0, 00, 0xFF, 0o17, 0b11, 1_000, 1., .5, 1e10, 1.5E-3, 2j, 0_0, 1e5j, 09.5, 07j, 1if x else 2]\n",
		"a = 1 + \\\n    2\n", "x = [\n  1,\n2,\n    3,\n]\n", "a = b = c, *d = (e, f) = [g]\n", "a.b().c = d[f()] = 1\n", "(a), b = c\n",
		"x = a if b else c\ny = not a in b\nz = a is not b\nw = -a ** -b\n", "if a: b; c\n", "x = yield_ = 1;\n", "del a, b[1]\n",
		"def f():\n    nonlocal_ = 1\n    yield\n    x = yield from a\n    return *a, b\n", "global a\nassert a, b\nraise A from b\n",
		"from . import a\nfrom ... import b\nfrom ..c import (d, e as f,)\nimport g.h as i\nfrom j import *\n", "x = ...\n", "print(*a, sep='')\n",
		"d = {**a, 'b': 1, **c}\ns = {*a}\ne = {k: v for k, v in x if y}\n", "a[1:2, ::3, ..., :] = b\n", "def f(a, *, b): ...\n",
		"if a:\n        b\n\n# comment at column 0\n        c\n", "if a:\n\tb\n\tif c:\n\t        d\n", "\x0cdef f():\n    pass\n", "äöü = 1\n变量 = äöü\n",
		"with (open(a) as b, open(c) as d):\n    pass\n", "x = lambda: (yield)\n", "a @ b; a @= c\n", "x: list[int]\ny: dict = {}\n", "lambda x=1: x\n",
		"async def f():\n    return [x async for x in y if await z]\n", "if a:\n    pass", "f(a)(b)[c].d\n", "not_a = not a\n", "i = f(x for x in y)\n",
	)
	// A lone CR ends a line too.
	accept(t, "python", "if a:\r    b\rc = 1\r")
}

func TestPythonErrors(t *testing.T) {
	reject(t, "python",
		badCase{"if a\n    b\n", 1, 5, "':' is missing after \"if\""},
		badCase{"def f()\n    pass\n", 1, 8, "':' is missing after \"def\""},
		badCase{"class A\n    pass\n", 1, 8, "':' is missing"},
		badCase{"try\n    a\nexcept:\n    b\n", 1, 4, "':' is missing"},
		badCase{"match x\n    case 1:\n        pass\n", 1, 8, "':' is missing"},
		badCase{"match x:\n    case 1\n        pass\n", 2, 11, "':' is missing"},
		badCase{"else if a:\n    b\n", 1, 6, "':' is missing after \"else\""},
		badCase{"else:\n    a\n", 1, 1, "\"else\" without a statement"},
		badCase{"a\nelif b:\n    c\n", 2, 1, "\"elif\" without"},
		badCase{"if a:\n    b\nexcept:\n    c\n", 3, 1, "\"except\" without"},
		badCase{"finally:\n    a\n", 1, 1, "\"finally\" without"},
		badCase{"if a:\n  b\nelse:\n  c\nelse:\n  d\n", 5, 1, "\"else\" without"},
		badCase{"try:\n    a\nb\n", 1, 1, "neither an except nor a finally"},
		badCase{"def f():\n    try:\n        a\nb\n", 2, 5, "neither an except"},
		badCase{"if a:\nb\n", 2, 1, "an indented block is expected after \"if\" at line 1"},
		badCase{"def f():\n", 2, 1, "an indented block is expected after \"def\""},
		badCase{"a\n  b\n", 2, 3, "unexpected indentation"},
		badCase{"if a:\n    b\n  c\n", 3, 3, "matches no outer level"},
		badCase{"if a:\n        b\n\tc\n", 3, 2, "tabs and spaces"},
		badCase{"f(1,\n  2\n", 1, 2, "'(' opened at line 1 is never closed"},
		badCase{"x = [1,\n  2)\n", 2, 4, "')' does not match '[' opened at line 1"},
		badCase{"x = 1)\n", 1, 6, "')' closes nothing"},
		badCase{"s = 'abc\nx = 1\n", 1, 5, "not closed on its line"},
		badCase{"x\ns = '''abc\nx = 1\n", 2, 5, "the string opened at line 2 is never closed"},
		badCase{"1 = x\n", 1, 1, "cannot assign to the literal"},
		badCase{"'a' = x\n", 1, 1, "cannot assign to the literal"},
		badCase{"None = x\n", 1, 1, "cannot assign to None"},
		badCase{"f(x) = 1\n", 1, 1, "the result of a call"},
		badCase{"a + b = c\n", 1, 1, "an expression with \"+\""},
		badCase{"a, 1 = c\n", 1, 4, "cannot assign"},
		badCase{"1 += 2\n", 1, 1, "cannot assign"},
		badCase{"def 1x():\n    pass\n", 1, 5, "invalid number"},
		badCase{"def class():\n    pass\n", 1, 5, "\"class\" is not allowed inside a statement"},
		badCase{"class 1:\n    pass\n", 1, 7, "a name is expected"},
		badCase{"def f:\n    pass\n", 1, 6, "'(' is expected"},
	)
}

func TestPythonStatementErrors(t *testing.T) {
	reject(t, "python",
		badCase{"a = 'b'\nc = '\x00'  # d\n", 2, 6, "a NUL byte"},
		badCase{"return 1\n", 1, 1, "outside of a function"},
		badCase{"class A:\n    return\n", 2, 5, "outside of a function"},
		badCase{"if a:\n    break\n", 2, 5, "outside of a loop"},
		badCase{"for a in b:\n    def f():\n        continue\n", 3, 9, "outside of a loop"},
		badCase{"for a:\n    c\n", 1, 5, "\"in\" is missing"},
		badCase{"if a = 1:\n    b\n", 1, 6, "a comparison is written =="},
		badCase{"while :\n    a\n", 1, 6, "something is missing"},
		badCase{"x = 0777\n", 1, 5, "leading zeros"},
		badCase{"x = 0xg\n", 1, 5, "invalid number"},
		badCase{"x = 1__0\n", 1, 5, "invalid number"},
		badCase{"x = a?\n", 1, 6, "invalid character"},
		badCase{"x = “a”\n", 1, 5, "U+201C"},
		badCase{"x = 1 \\ \ny\n", 1, 7, "last character of its line"},
		badCase{"s = f'{a'\n", 1, 9, "not closed on its line"},
		badCase{"s = f'{}'\n", 1, 7, "empty expression"},
		badCase{"s = f'}'\n", 1, 7, "single '}'"},
		badCase{"s = f'{a!r'\n", 1, 7, "not closed"},
		badCase{"print 'x'\n", 1, 7, "an operator or a comma is missing"},
		badCase{"x = [1 2]\n", 1, 8, "an operator or a comma is missing"},
		badCase{"x = 1 +\n", 1, 8, "a value is missing"},
		badCase{"x = (1 + )\n", 1, 10, "a value is missing"},
		badCase{"x =\n", 1, 4, "a value is missing"},
		badCase{"f(a,, b)\n", 1, 5, "a value is missing before ','"},
		badCase{"raise A, 'x'\n", 1, 8, "one exception"},
		badCase{"@d\nx = 1\n", 1, 1, "a decorator must be followed"},
		badCase{"async x\n", 1, 1, "\"async\" must be followed"},
		badCase{"foo:\n    a\n", 1, 4, "opens no block"},
		badCase{"match x:\n    a = 1\n", 2, 5, "only \"case\""},
		badCase{"case x:\n    a\n", 1, 1, "outside of a match"},
		badCase{"if a: if b: c\n", 1, 7, "is not allowed on the line"},
	)
}

// TestPythonGrammar covers statements that are cut short or hold a token where
// none of its kind is allowed.
func TestPythonGrammar(t *testing.T) {
	reject(t, "python",
		badCase{"from a.b import\n", 1, 16, "a value is missing after \"import\""},
		badCase{"from a.b import c,\n", 1, 1, "this \"from\" statement is malformed"},
		badCase{"from a import (b\n  c)\n", 2, 3, ""},
		badCase{"from import a\n", 1, 6, "a value is missing between \"from\" and"},
		badCase{"from a. import b\n", 1, 9, "a name is missing after '.'"},
		badCase{"from a\n", 1, 1, "this \"from\" statement is malformed"},
		badCase{"self.\n", 1, 6, "a value is missing after \".\""},
		badCase{"self.x = self.\n", 1, 15, "a value is missing after \".\""},
		badCase{"a..b\n", 1, 3, "a name is missing after '.'"},
		badCase{"f(a.)\n", 1, 5, "a name is missing after '.'"},
		badCase{"import\n", 1, 7, "a value is missing after \"import\""},
		badCase{"import a as\n", 1, 12, "a value is missing after \"as\""},
		badCase{"import a.b as c.d\n", 1, 1, "this \"import\" statement is malformed"},
		badCase{"import a b\n", 1, 10, ""},
		badCase{"pass pass\n", 1, 6, "\"pass\" is not allowed inside a statement"},
		badCase{"pass a\n", 1, 1, "this \"pass\" statement is malformed"},
		badCase{"del\n", 1, 4, "a value is missing after \"del\""},
		badCase{"global\n", 1, 7, "a value is missing after \"global\""},
		badCase{"global a.b\n", 1, 1, "this \"global\" statement is malformed"},
		badCase{"assert\n", 1, 7, "a value is missing after \"assert\""},
		badCase{"@\ndef f(): pass\n", 1, 2, "a value is missing after \"@\""},
		badCase{"{1: }\n", 1, 5, "a value is missing before \"}\""},
		badCase{"a <> b\n", 1, 4, "a value is missing between \"<\" and \">\""},
		badCase{"for in x: pass\n", 1, 5, "a value is missing between \"for\" and \"in\""},
		badCase{"for a in: pass\n", 1, 9, "a value is missing between \"in\" and \":\""},
		badCase{"try:\n  a\nexcept:\n  b\nexcept A:\n  c\n", 5, 1, "after the bare"},
		badCase{"f(a b)\n", 1, 5, ""},
		badCase{"f(a=)\n", 1, 5, "a value is missing"},
		badCase{"a[]\n", 1, 3, "a value is missing before \"]\""},
		badCase{"lambda a b: c\n", 1, 10, ""},
		badCase{"def f(a) b: pass\n", 1, 10, ""},
		badCase{"class A(: pass\n", 1, 8, ""},
		badCase{"if a, b: pass\n", 1, 5, "':' is expected"},
		badCase{"with a as: pass\n", 1, 10, "a value is missing between \"as\" and \":\""},
		badCase{"while not: pass\n", 1, 10, ""},
		badCase{"a = b c\n", 1, 7, ""},
		badCase{"a = * \n", 1, 6, "a value is missing after \"*\""},
		badCase{"yield a\n", 1, 1, "\"yield\" outside of a function"},
		badCase{"class A:\n    a = yield\n", 2, 9, "\"yield\" outside of a function"},
	)
	accept(t, "python",
		"from .a import (b, c as d,)\nfrom ...e import f\nfrom .. import g as h\n", "a. b .c\n1 .real\n1..real\n...\na = ...\n", "x = a.b[c](*d, e=f, **g).h\n",
		"{1: 2, **a, 3: 4,}\n{1, *a, 2,}\n{**a}\n{a: b for c in d}\n{a for b in c}\n{}\n", "f(a for b in c)\nf(a, *b, c=d, **e)\nf(a := 1)\n", "a[b, :, ::2, 1:, :2, *c]\n",
		"x = [a for b, *c in d if e if f for g in h or i]\n", "x = lambda: 0, lambda *a, **b: 1, lambda a, /, b=1, *, c: 2\n", "x = a if b else c if d else e\nx = a if not b else -c\n",
		"def f(a: b = 1, /, *c: *d, e: f = 2, **g: h) -> i: ...\ndef g(*, a): ...\nclass A[T: int, *U, **V](B, c=d): ...\n", "def f():\n    a = yield\n    b = yield c, d\n    await e\n    return (yield from f)\n",
		"try:\n  a\nexcept A:\n  b\nexcept:\n  c\ntry:\n  a\nexcept B:\n  b\n", "with (a as b, c as d.e,): pass\nwith (a), b as (c, d): pass\n", "for a, in b: pass\nfor a.b in *c, d: pass\nfor (a, b) in c: pass\n",
		"match a, *b:\n    case {'a': b as c, **d} | [1, (2 | 3) as e] if f: pass\n    case A.b(-1, c=1+2j), *_: pass\n    case (a, b) as c: pass\n", "del a, (b, c), d[e],\n", "raise\nraise A(b) from None\n",
		"a: b = c, d\na.b: c\n(a): b\na += b, c\na = b = *c, d\n", "print >>a, b\nassert a, b if c else d\nnonlocal_ = 1\n", "a = (yield_)\nf(b'a' b'b')\nx = not a in b, a not in b, a is not b\n",
		"@a.b(c)[d]\n@(lambda f: f)\nasync def f(): pass\n", "type A = b | c\ntype = type(a)\nprint(type)\n",
	)
}

// TestPythonNotChecked: the inside of expressions and parameters is not read by
// the grammar.
func TestPythonNotChecked(t *testing.T) {
	accept(t, "python", "{1:2, 3}\n", "{1, 2: 3}\n", "a = b if c\n", "[a for b]\n", "[a for b in c, d]\n", "a[1:2:3:4]\n", "def f(a, (b, c)): pass\n")
}

// TestPythonRecovers makes sure that one mistake is reported once.
func TestPythonRecovers(t *testing.T) {
	for _, text := range []string{
		"if a\n    b\nelse:\n    c\n", "foo x:\n    a\nb\n", "x = (1\n", "def f(:\n    return 1\n", "try\n    a\nexcept A:\n    b\n",
		"a\n    b\n    c\nd\n", "class A\n    def f(self):\n        return 1\n",
	} {
		r := Check("python", []byte(text))
		testbed.Expect(t, !r.Valid && len(r.Problems) == 1, "%q: %v", text, r.Problems)
	}
}

// TestRealPython checks the Python code that is installed, none of which may
// give an error.
func TestRealPython(t *testing.T) {
	roots, _ := filepath.Glob("/usr/lib/python3*")
	checked, share := 0, 5
	if testbed.Long() {
		share = 1
	}
	for _, root := range roots {
		err := filepath.WalkDir(root, func(path string, entry os.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != ".py" {
				return err
			}
			// These hold mistakes on purpose, or Python 2.
			for _, part := range []string{"/lib2to3/tests/", "/test/", "/tests/data/", "badsyntax", "bad_coding", "py2"} {
				if strings.Contains(path, part) {
					return nil
				}
			}
			content, err := os.ReadFile(path)
			if os.IsNotExist(err) {
				return nil // a dangling link
			}
			if checked++; checked%share != 0 {
				return nil
			}
			if r := Check("python", content); !r.Valid {
				t.Errorf("%s: %v", path, r.Problems[0])
			}
			return err
		})
		testbed.Expect(t, err == nil, "%v", err)
	}
	testbed.SkipIf(t, checked == 0, "no Python code is installed below /usr/lib/python3*")
	t.Logf("%d files checked", checked)
}
