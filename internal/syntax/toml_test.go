package syntax

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

func TestTOML(t *testing.T) {
	accept(t, "toml",
		"", "# comment only", "a = 1\n", "a.b.c = 'x'\na.b.d = \"y\"\n", "\"quoted key\" = true\n'a.b' = false\n",
		"[a.b]\nc = 1\n[a]\nd = 2\n", "[[p]]\nn = 1\n[[p]]\nn = 2\n[p.q]\nr = 1\n",
		"a = [\n  1, # one\n  [2, 3],\n]\n", "a = {b = 1, c.d = [2], e = {}}\n",
		"s = \"\"\"\na \\\n  b \"quoted\" \"\"\"\"\"\n", "s = '''a\n'b' \\ '''\n", "s = \"\\u00e4\\U0001F600\\t\"\n",
		"a = +1_000\nb = 0xDEAD_beef\nc = 0o17\nd = 0b1_0\ne = -0\n", "a = 1.5e-3\nb = -inf\nc = nan\nd = 6E2\n",
		"a = 1979-05-27T07:32:00Z\nb = 1979-05-27 07:32:00.5+02:00\nc = 1979-05-27\nd = 07:32:00\n",
		"[a]\nb.c = 1\n[a.b.d]\ne = 1\n", "1234 = 1\n3.14 = 2\n",
	)
	reject(t, "toml",
		badCase{"a = 1\na = 2\n", 2, 1, "duplicate key \"a\", first at line 1"},
		badCase{"[a]\nb = 1\n[a]\nc = 1\n", 3, 2, "already defined at line 1"},
		badCase{"[a]\nb = 1\n[a.b]\n", 3, 2, "already defined at line 2"},
		badCase{"a = 1\n[a.b.c]\n", 2, 2, "is a value since line 1"},
		badCase{"[[a]]\n[a]\n", 2, 2, "array of tables since line 1"},
		badCase{"a = [1]\n[[a]]\n", 2, 3, "already defined"},
		badCase{"[a.b.c]\nz = 1\n[a]\nb.c.t = 2\n", 4, 3, "a dotted key cannot add to \"c\""},
		badCase{"a = {b = 1}\na.c = 2\n", 2, 1, "a dotted key cannot add"},
		badCase{"a = {b = 1, b = 2}\n", 1, 13, "duplicate key"},
		badCase{"a = {b = 1,}\n", 1, 12, "invalid character at start of key: }"},
		badCase{"a = {b = 1\n}\n", 1, 11, "expected character ,"},
		badCase{"a = [1 2]\n", 1, 8, "array elements must be separated by commas"},
		badCase{"a = [1,", 1, 8, "expected value, not eof"},
		badCase{"a = \"x\nb = 1\n", 1, 7, "basic strings cannot have new lines"},
		badCase{"a = '''x\n", 2, 1, "multiline literal string not terminated by"},
		badCase{"a = \"\\q\"\n", 1, 7, "invalid escaped character U+0071 'q'"},
		badCase{"a = \"\\ud800\"\n", 1, 8, "escape sequence is invalid Unicode code"},
		badCase{"a = 01\n", 1, 6, "expected newline but got U+0031 '1'"},
		badCase{"a = 1__0\n", 1, 5, "number must have at least one digit between"},
		badCase{"a = 9223372036854775808\n", 1, 5, "couldn't parse decimal number:"},
		badCase{"a = 2021-02-29\n", 1, 5, "impossible date"},
		badCase{"a = 25:00:00\n", 1, 5, "hour cannot be greater 23"},
		badCase{"a = 2021-01-01T00:00:00+25:00\n", 1, 5, "invalid timezone offset hours"},
		badCase{"a = yes\n", 1, 5, "strings must be in quotes"},
		badCase{"a =\nb = 1\nc = \n", 1, 4, "a value is expected; strings must be in"},
		badCase{"a 1\n", 1, 3, "expected character ="},
		badCase{"= 1\n", 1, 1, "invalid character at start of key: ="},
		badCase{"[a\nb = 1\n", 1, 3, "expected character ]"},
		badCase{"a = 1 b = 2\n", 1, 7, "expected newline but got U+0062 'b'"},
		badCase{"# \x01\n", 1, 3, "invalid character in comment"},
		badCase{"\"\"\"a\"\"\" = 1\n", 1, 3, "expected character ="},
	)
	// A lone CR is not a line end here.
	reject(t, "toml", badCase{"a = 1\rb = 2", 1, 6, ""})
}

// TestTOMLSuite runs the cases that the authors of TOML publish, below RW_TOML_SUITE, or
// those that come with the tomllib of Python.
func TestTOMLSuite(t *testing.T) {
	cases := map[string]bool{} // file: whether it is valid
	home, _ := os.UserHomeDir()
	for _, pattern := range []string{"/usr/lib/python3*/test/test_tomllib/data", home + "/.pyenv/versions/*/lib/python3.*/test/test_tomllib/data"} {
		for _, deep := range []string{"*.toml", "*/*.toml"} {
			valid, _ := filepath.Glob(filepath.Join(pattern, "valid", deep))
			invalid, _ := filepath.Glob(filepath.Join(pattern, "invalid", deep))
			for _, name := range append(valid, invalid...) {
				cases[name] = strings.Contains(name, "/data/valid/")
			}
		}
	}
	if suite := os.Getenv("RW_TOML_SUITE"); suite != "" {
		list := testbed.Must(os.ReadFile(filepath.Join(suite, "files-toml-1.0.0")))(t)
		for _, name := range strings.Fields(string(list)) {
			if filepath.Ext(name) == ".toml" {
				cases[filepath.Join(suite, name)] = strings.HasPrefix(name, "valid/")
			}
		}
	}
	if len(cases) == 0 {
		t.Skip("no test data of TOML is installed on this machine")
	}
	for name, valid := range cases {
		content := testbed.Must(os.ReadFile(name))(t)
		if r := Check("toml", content); r.Valid != valid {
			t.Errorf("%s: valid is %v: %v", name, r.Valid, r.Problems)
		}
	}
	t.Logf("%d files checked", len(cases))
}
