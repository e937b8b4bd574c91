package syntax

import "testing"

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
