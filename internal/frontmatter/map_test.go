package frontmatter_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resilientwrite/resilientwrite/internal/frontmatter"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

func TestMap(t *testing.T) {
	var m frontmatter.Map
	m.Delete("none")
	m.Set("b", 1)
	m.Set("a", 2)
	m.Set("c", nil)
	m.Set("b", 3) // keeps its place
	if diff := cmp.Diff([]string{"b", "a", "c"}, m.Keys()); diff != "" {
		t.Error(diff)
	}
	m.Keys()[0] = "changed"
	if v, ok := m.Get("b"); v != 3 || !ok {
		t.Error(v, ok)
	}
	if v, ok := m.Get("c"); v != nil || !ok {
		t.Error(v, ok)
	}
	m.Delete("a")
	m.Set("a", 4) // comes last now
	if diff := cmp.Diff([]string{"b", "c", "a"}, m.Keys()); diff != "" {
		t.Error(diff)
	}
	if _, ok := m.Get("x"); ok || m.Len() != 3 {
		t.Error("x is there, or", m.Len())
	}
	var none *frontmatter.Map
	none.Delete("a")
	if _, ok := none.Get("a"); ok || none.Len() != 0 || none.Keys() != nil || !none.Equal(pairs()) {
		t.Error("a nil Map is not empty")
	}
}

func TestEqual(t *testing.T) {
	a := pairs("x", num("1"), "y", []any{nil, "s", true, pairs("z", 1.5)})
	for name, c := range map[string]struct {
		b    *frontmatter.Map
		want bool
	}{
		"same":    {pairs("x", 1, "y", []any{(*frontmatter.Map)(nil), "s", true, pairs("z", num("1.5"))}), true},
		"order":   {pairs("y", []any{nil, "s", true, pairs("z", 1.5)}, "x", 1), false},
		"text":    {pairs("x", num("1.0"), "y", []any{nil, "s", true, pairs("z", 1.5)}), false},
		"string":  {pairs("x", "1", "y", []any{nil, "s", true, pairs("z", 1.5)}), false},
		"deep":    {pairs("x", 1, "y", []any{nil, "s", true, pairs("z", 2.5)}), false},
		"shorter": {pairs("x", 1), false},
	} {
		if a.Equal(c.b) != c.want || c.b.Equal(a) != c.want {
			t.Error(name)
		}
	}
}

func TestJSON(t *testing.T) {
	const text = `{"z":1.10,"a":[1e5,-0,123456789012345678901234567890,null,true],"m":{"<&>":"é😀\u2028\n"},"":""}`
	var m frontmatter.Map
	testbed.NoErr(t, json.Unmarshal([]byte(text), &m))
	got, err := m.MarshalJSON()
	if err != nil || string(got) != text {
		t.Errorf("%s\n%s\n%v", got, text, err)
	}
	outer, err := json.Marshal(map[string]any{"m": &m, "n": (*frontmatter.Map)(nil)})
	if err != nil || !strings.Contains(string(outer), `"z":1.10,"a":[1e5,-0,`) || !strings.HasSuffix(string(outer), `"n":null}`) {
		t.Errorf("%s, %v", outer, err)
	}
	if err := json.Unmarshal([]byte("null"), &m); err != nil || m.Len() != 4 {
		t.Error(err, m.Len())
	}
	deep := func(n int) string { return `{"a":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + "}" }
	if err := json.Unmarshal([]byte(deep(frontmatter.MaxDepth)), &m); err != nil {
		t.Error(err)
	}
	for _, bad := range []string{
		`[]`, `"x"`, `1`, `{"a":1,"a":2}`, `{"a":{"b":1,"\u0062":2}}`, `{"a":"\ud800"}`, `{"a":"\udc00"}`, `{"a":"\ud83d\u0041"}`, `{"\ud800x":1}`,
		"{\"a\":\"\xff\"}", deep(frontmatter.MaxDepth + 1), `{"a":1`, `{"a"}`, ``, `{} {}`,
	} {
		if err := m.UnmarshalJSON([]byte(bad)); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	if err := m.UnmarshalJSON([]byte(`{"a":"\\ud800 \ud83d\ude00"}`)); err != nil {
		t.Error(err)
	}
}

// hostileSeeds are the units that hostile texts repeat.
var hostileSeeds = []string{
	"[", "]", "{", "}", "{a: ", "[{", "- ", "-\n", "- - a\n", "? ", ": ", "a: ", "a:\n", "k: v\n", ",", "[,", "&a ", "*a ", "! ", "!!str ", "!!map a: ", "@\n", "|\n", ">\n",
	"#\n", "%a\n", "---\n", "...\n", "<", "<< ", "\\", "\"", "'", "\"a\",", "\t", "a\t", " ", "\n", "\r", " \n", "x ", "x\n", "\"\t", "a: \"\t\t\"\n", "<<: *a\n", "\ufeff", "日",
}

func TestHostileShapes(t *testing.T) {
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		n, next := string(rune('0'+i)), string(rune('1'+i))
		bomb += "a" + next + ": &a" + next + " [" + strings.Repeat("*a"+n+", ", 9) + "*a" + n + "]\n"
	}
	nested := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString(strings.Repeat(" ", i) + "a:\n")
		}
		return b.String()
	}
	aliasDepth := "a: &a " + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "\nb: " + strings.Repeat("[", 40) + "*a" + strings.Repeat("]", 40) + "\n"
	entries := func(n int) string {
		var b strings.Builder
		for i := range n {
			b.WriteString("key" + strings.Repeat("x", i%7) + string(rune(0x4e00+i)) + ": value\n")
		}
		return b.String()
	}
	for name, text := range map[string]string{
		"4,097 keys": entries(frontmatter.MaxMembers + 1), "alias bomb": bomb, "alias depth": aliasDepth, "keys": nested(1000), "65 keys": nested(65),
		"brackets": "a: " + strings.Repeat("[", 64) + strings.Repeat("]", 64), "size": "a: " + strings.Repeat("x", frontmatter.MaxSize),
		"long paths": strings.Repeat("k", 500_000) + ":\n" + strings.Repeat("  - a: 1\n", 8000),
	} {
		end := testbed.Within(t, 10*time.Second, name)
		m, err := frontmatter.Decode([]byte(text))
		if m != nil || err == nil || !strings.Contains(err.Error(), string(frontmatter.TooLarge)) {
			t.Errorf("%s: %v", name, err)
		}
		end()
	}
	for name, text := range map[string]string{
		"64 keys": nested(64), "brackets": "a: " + strings.Repeat("[", 63) + strings.Repeat("]", 63),
		"entries": entries(frontmatter.MaxMembers), "items": "a:\n" + strings.Repeat("- a\n", 9000),
	} {
		if _, err := frontmatter.Decode([]byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
