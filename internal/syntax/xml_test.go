package syntax

import "testing"

func TestXML(t *testing.T) {
	accept(t, "xml",
		"<a/>", "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<a></a>\n", "<a b='1' c=\"2\">text</a>", "<a><!-- c --><b/><b/></a>",
		"<a><![CDATA[ <x> & ]]></a>", "<a>&lt;&amp;&#65;&#x41;&quot;&apos;&gt;</a>", "<!-- c -->\n<a/>\n<!-- d -->",
		"<svg xmlns='u' xmlns:x='v'><x:g x:h='1' h='2'/></svg>", "<!DOCTYPE a [<!ENTITY e 'x'>]><a>&e;</a>",
		"<!DOCTYPE html PUBLIC '-//W3C//DTD XHTML 1.0 Strict//EN' 'x.dtd'><html>&nbsp;&other;</html>",
		"<?pi some data?><a/>", "<ä/>",
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
	)
}
