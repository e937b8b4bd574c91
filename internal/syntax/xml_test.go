package syntax

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

func TestXML(t *testing.T) {
	accept(t, "xml",
		"<a/>", "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<a></a>\n", "<a b='1' c=\"2\">text</a>", "<a><!-- c --><b/><b/></a>",
		"<a><![CDATA[ <x> & ]]></a>", "<a>&lt;&amp;&#65;&#x41;&quot;&apos;&gt;</a>", "<!-- c -->\n<a/>\n<!-- d -->",
		"<svg xmlns='u' xmlns:x='v'><x:g x:h='1' h='2'/></svg>", "<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>",
		"<!DOCTYPE html PUBLIC '-//W3C//DTD XHTML 1.0 Strict//EN' 'x.dtd'><html>&nbsp;&other;</html>",
		"<?pi some data?><a/>", "<ä/>", "<?pi?><a/>", "<a\n b='1'\n\tc = \"2\" />", "<a b='>\"'/>", "<a b='/'/>",
		"<?xml version='1.0'?><a/>", "<?xml\tversion = \"1.0\"\n encoding='utf-8' standalone=\"no\" ?><a/>", "<?xml version='1.0' standalone='yes'?><a/>",
		"<?xml-stylesheet href='a'?><a/>", "<!DOCTYPE html>\n<html/>", "<!DOCTYPE a SYSTEM 'b' [<!ENTITY c 'd'>\n]><a/>", "<!DOCTYPE a\n  PUBLIC 'b' 'c' ><a/>", "<a>&#x10ffff;</a>",
	)
	reject(t, "xml",
		badCase{"", 1, 1, "no root element"},
		badCase{"<a>\n<b>\n</a>", 3, 1, "</a> does not match <b> opened at line 2"},
		badCase{"<a>\n  <b>", 2, 3, "<b> opened at line 2 is never closed"},
		badCase{"<a/></b>", 1, 5, "</b> closes nothing"},
		badCase{"<a/>\n<b/>", 2, 1, "second root element"},
		badCase{"<a/>\ntext", 2, 1, "text outside the root"},
		badCase{"<a b='1' b='2'/>", 1, 1, "the attribute b twice"},
		badCase{"<a b=1/>", 1, 6, "quoted"},
		badCase{"<a b/>", 1, 5, "attribute name without ="},
		badCase{"<a>&nbsp;</a>", 1, 9, "entity"},
		badCase{"<a>a & b</a>", 1, 6, "entity"},
		badCase{"<a b='<'/>", 1, 7, "unescaped <"},
		badCase{"<a><!-- a -- b --></a>", 1, 13, "--"},
		badCase{" <?xml version='1.0'?><a/>", 1, 2, "the very first thing"},
		badCase{"<a><b", 1, 4, "the text ends inside"},
		badCase{"<a><![CDATA[ x </a>", 1, 4, "the text ends inside"},
		badCase{"<a/><!DOCTYPE a>", 1, 5, "before the root"},
		badCase{"<a>]]></a>", 1, 6, "]]>"},
		badCase{"<a>\x01</a>", 1, 4, "illegal character"},
		badCase{"\v\U0008aeca", 1, 2, "illegal character"},
	)
}

// TestXMLMarkup covers what the decoder of the standard library lets pass.
func TestXMLMarkup(t *testing.T) {
	reject(t, "xml",
		badCase{"<a b=\"1\"c=\"2\"/>", 1, 9, "white space is missing between the attributes"},
		badCase{"<a b='1' c='\"'d='2'>\n</a>", 1, 15, "white space is missing between the attributes"},
		badCase{"<?xml version=\"1.0\" encoding=UTF-8\"?><a/>", 1, 1, "the XML declaration is malformed; it has a"},
		badCase{"<?xmlversion=\"1.0\"?><a/>", 1, 13, "white space is missing after <?xmlversion"},
		badCase{"<?xml version='1.0' encodng='UTF-8'?><a/>", 1, 1, "then perhaps an encoding"},
		badCase{"<?xml version='1.0'encoding='UTF-8'?><a/>", 1, 1, "the XML declaration is malformed; it has a"},
		badCase{"<?xml version='1.0' standalone='yes' encoding='UTF-8'?><a/>", 1, 1, "then perhaps standalone"},
		badCase{"<?xml version='1.0' version='1.0'?><a/>", 1, 1, "then perhaps an encoding"},
		badCase{"<?xml version='1.0' standalone='maybe'?><a/>", 1, 1, "the XML declaration is malformed; it has a"},
		badCase{"<?xml version='1.0' encoding=''?><a/>", 1, 1, "the XML declaration is malformed; it has a"},
		badCase{"<?xml encoding='UTF-8'?><a/>", 1, 1, "the XML declaration is malformed; it has a"},
		badCase{"<?xml version?><a/>", 1, 1, "the XML declaration is malformed; it has a"},
		badCase{"<?xml?><a/>", 1, 1, "the XML declaration is malformed; it has a"},
		badCase{"<?XML version='1.0'?><a/>", 1, 1, "reserved"},
		badCase{"<?pi=?><a/>", 1, 5, "white space is missing after <?pi"},
		badCase{"<a>\n&#xD800;</a>", 2, 1, "half of a surrogate pair"},
		badCase{"<a b='&#57343;'/>", 1, 7, "half of a surrogate pair"},
		badCase{"<![CDATA[ ]]><a/>", 1, 1, "text outside the root"},
		badCase{"<a/>\n&#32;", 2, 1, "text outside the root"},
		badCase{"<!DOCTYPE a><!DOCTYPE a><a/>", 1, 13, "a second DOCTYPE"},
		badCase{"<!DOCTYPE><a/>", 1, 1, "the DOCTYPE"},
		badCase{"<!DOCTYPE a SYSTEM><a/>", 1, 1, "the DOCTYPE"},
		badCase{"<!DOCTYPE a [<!ENTITY b 'c'>><a/>", 1, 1, "the DOCTYPE"},
	)
}

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
	testbed.SkipIf(t, len(cases) == 0, "no test data of TOML is installed on this machine")
	for name, valid := range cases {
		content := testbed.Must(os.ReadFile(name))(t)
		r := Check("toml", content)
		testbed.Expect(t, r.Valid == valid, "%s: valid is %v: %v", name, r.Valid, r.Problems)
	}
	t.Logf("%d files checked", len(cases))
}
