package syntax

import (
	"strings"
	"testing"

	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// FuzzYAMLTwice: of texts that are YAML, the keys that are defined twice are
// those that the parser finds as well.
func FuzzYAMLTwice(f *testing.F) {
	for _, text := range append(append(common, hostile...), "a: 1\nb:\n  a: 2\n  a: 3\n", "{a: 1, a: 2}", "- a: 1\n  a: 2\n", "&x a: 1\na: 2\n", "!!str a: 1\nb: {a: [a: 1, a: 2]}\n",
		"a:\n- b: 1\n- b: 2\nc: 3\n", "a: |\n  b: 1\n  b: 2\n", "\"a\": 1\n'a': 2\n", "a: &b\n  a: 1\n  c: *b\n<<: *b\n") {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, src string) {
		if len(src) > 1000 || len(yamlDocuments([]byte(src))) > 1 {
			t.Skip()
		}
		tokens := lexer.Tokenize(src)
		if tokens.InvalidToken() != nil {
			t.Skip()
		}
		n := yamlNesting{names: true}
		for _, tk := range tokens {
			if n.next(tk); tk.Type == token.AliasType {
				t.Skip() // the parser takes all of them for the same key
			}
		}
		x, readable := decode("yaml", []byte(src))
		if !readable {
			t.Skip()
		}
		if yamlShape(x, 0, len(x.src)); x.errors.total > 0 || n.complex {
			t.Skip()
		}
		_, err := parser.Parse(tokens, 0)
		if twice := err != nil && strings.Contains(err.Error(), "already defined"); (err == nil || twice) && twice != (n.twice != nil) {
			t.Errorf("%q: %v, but the parser says %v", src, n.twice, err)
		}
	})
}
