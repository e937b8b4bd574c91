package surface_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/surface"
)

func compareInput(old, now string) []surface.Difference {
	return surface.CompareInput(json.RawMessage(old), json.RawMessage(now))
}

func compareOutput(old, now string) []surface.Difference {
	return surface.CompareOutput(json.RawMessage(old), json.RawMessage(now))
}

// TestSameMeaningIsNoDifference: what admits the same values is the same,
// however it is written.
func TestSameMeaningIsNoDifference(t *testing.T) {
	for _, same := range [][]string{
		{`{}`, `true`, `{"type":["null","boolean","number","string","array","object"]}`, `{"additionalProperties":true}`, `{"items":{}}`, `{"items":true}`,
			`{"type":["integer","number","null","boolean","string","array","object"]}`},
		{`false`, `{"type":"string","enum":[]}`, `{"type":"string","enum":[1]}`, `{"enum":[1],"const":2}`},
		{`{"const":"a"}`, `{"enum":["a"]}`, `{"type":"string","const":"a"}`, `{"enum":["a","a"]}`, `{"anyOf":[{"const":"a"}]}`, `{"enum":["a","b"],"const":"a"}`, `{"enum":["\u0061"]}`},
		{`{"enum":["a","b",null]}`, `{"type":["string","null"],"enum":[null,"b","a"]}`, `{"anyOf":[{"type":"null"},{"enum":["b","a"]}]}`,
			`{"type":["null","string"],"enum":["a","b",null,7]}`},
		{`{"type":["string","null"]}`, `{"type":["null","string"]}`, `{"anyOf":[{"type":"string"},{"type":"null"}]}`, `{"anyOf":[{"type":"string"},{"const":null}]}`},
		{`{"type":"boolean"}`, `{"enum":[true,false]}`, `{"type":"boolean","enum":[false,true]}`},
		{`{"type":"null"}`, `{"const":null}`, `{"enum":[null]}`},
		{`{"type":"integer","minimum":1}`, `{"type":"integer","minimum":1.0}`, `{"type":"integer","minimum":1e0}`},
		{`{"type":"integer","enum":[1,2]}`, `{"type":"number","enum":[2,1]}`, `{"enum":[1,2.0]}`, `{"type":"integer","enum":[1,2,2.5]}`},
		{`{"type":"object","properties":{"a":{"type":"string"},"b":{}},"required":["a","b"],"additionalProperties":false}`,
			`{"additionalProperties":false,"required":["b","a","a"],"properties":{"b":true,"a":{"type":["string"]}},"type":["object"]}`},
		{`{"anyOf":[{"required":["a"]},{"required":["b"]}]}`, `{"anyOf":[{"required":["b"]},{"required":["a"]}]}`},
		{`{"type":"object","anyOf":[{"properties":{"ok":{"const":true}},"required":["ok","x"]},{"properties":{"ok":{"const":false}},"required":["ok"]}]}`,
			`{"anyOf":[{"properties":{"ok":{"enum":[false]}},"required":["ok"]},{"required":["x","ok"],"properties":{"ok":{"type":"boolean","enum":[true]}}}],"type":"object"}`},
	} {
		for _, old := range same {
			for _, now := range same {
				if list := append(compareInput(old, now), compareOutput(old, now)...); len(list) > 0 {
					t.Errorf("%s\n%s\ndiffer: %v", old, now, list)
				}
			}
		}
	}
}

// step is one change of a schema with its class for arguments and for replies.
type step struct {
	name, old, now string
	input, output  surface.Class
	at             string // of the worst difference
}

const none surface.Class = 0

var steps = []step{
	{"another type", `{"type":"string"}`, `{"type":"integer"}`, surface.Breaking, surface.Breaking, "schema/type"},
	{"null too", `{"type":"string"}`, `{"type":["string","null"]}`, surface.Compatible, surface.Breaking, "schema/type"},
	{"integers only", `{"type":"number"}`, `{"type":"integer"}`, surface.Breaking, surface.Compatible, "schema/type"},
	{"an enum where there was none", `{"type":"string"}`, `{"type":"string","enum":["a"]}`, surface.Breaking, surface.Compatible, "schema/enum"},
	{"one more in an enum", `{"enum":["a"]}`, `{"enum":["a","b"]}`, surface.Compatible, surface.Breaking, "schema/enum"},
	{"const instead of an enum", `{"enum":["a","b"]}`, `{"const":"a"}`, surface.Breaking, surface.Compatible, "schema/enum"},
	{"an enum of another type too", `{"type":["string","integer"],"enum":["a"]}`, `{"type":["string","integer"],"enum":["a",1]}`, surface.Compatible, surface.Breaking, "schema/type"},
	{"a lower maximum", `{"type":"integer","maximum":9}`, `{"type":"integer","maximum":8}`, surface.Breaking, surface.Compatible, "schema/most value"},
	{"an exclusive maximum", `{"type":"number","maximum":9}`, `{"type":"number","exclusiveMaximum":9}`, surface.Breaking, surface.Breaking, "schema/exclusiveMaximum"},
	{"a minimum", `{"type":"integer"}`, `{"type":"integer","minimum":0}`, surface.Breaking, surface.Compatible, "schema/least value"},
	{"a higher minLength", `{"type":"string","minLength":1}`, `{"type":"string","minLength":2}`, surface.Breaking, surface.Breaking, "schema/minLength"},
	{"a lower maxLength", `{"type":"string","maxLength":200}`, `{"type":"string","maxLength":199}`, surface.Breaking, surface.Compatible, "schema/most length"},
	{"a bound on items", `{"type":"array"}`, `{"type":"array","maxItems":5}`, surface.Breaking, surface.Breaking, "schema/maxItems"},
	{"a bound on members", `{"type":"object"}`, `{"type":"object","minProperties":1}`, surface.Breaking, surface.Breaking, "schema/minProperties"},
	{"unique items", `{"type":"array"}`, `{"type":"array","uniqueItems":true}`, surface.Breaking, surface.Breaking, "schema/uniqueItems"},
	{"a pattern", `{"type":"string"}`, `{"type":"string","pattern":"^a"}`, surface.Breaking, surface.Breaking, "schema/pattern"},
	{"another pattern", `{"type":"string","pattern":"^a"}`, `{"type":"string","pattern":"^b"}`, surface.Breaking, surface.Breaking, "schema/pattern"},
	{"another format", `{"type":"string","format":"date"}`, `{"type":"string","format":"time"}`, surface.Breaking, surface.Breaking, "schema/format"},
	{"a divisor", `{"type":"integer"}`, `{"type":"integer","multipleOf":2}`, surface.Breaking, surface.Breaking, "schema/multipleOf"},
	{"narrower items", `{"type":"array","items":{}}`, `{"type":"array","items":{"type":"string"}}`, surface.Breaking, surface.Compatible, "schema/[]/type"},
	{"an optional field", `{"type":"object","additionalProperties":false}`, `{"type":"object","additionalProperties":false,"properties":{"a":{}}}`, surface.Compatible, surface.Compatible, "schema/a"},
	{"a required field", `{"type":"object"}`, `{"type":"object","properties":{"a":{}},"required":["a"]}`, surface.Breaking, surface.Compatible, "schema/a"},
	{"required without a schema", `{"type":"object"}`, `{"type":"object","required":["a"]}`, surface.Breaking, surface.Compatible, "schema/a"},
	{"required now", `{"type":"object","properties":{"a":{}}}`, `{"type":"object","properties":{"a":{}},"required":["a"]}`, surface.Breaking, surface.Compatible, "schema/a"},
	{"closed", `{"type":"object"}`, `{"type":"object","additionalProperties":false}`, surface.Breaking, surface.Breaking, "schema/{}"},
	{"members of one type", `{"type":"object"}`, `{"type":"object","additionalProperties":{"type":"integer"}}`, surface.Breaking, surface.Compatible, "schema/{}/type"},
	{"a default", `{"type":"integer"}`, `{"type":"integer","default":3}`, surface.Breaking, surface.Documentation, "schema/default"},
	{"another default", `{"default":3}`, `{"default":4}`, surface.Breaking, surface.Documentation, "schema/default"},
	{"a description", `{"type":"string"}`, `{"type":"string","description":"words"}`, surface.Documentation, surface.Documentation, "schema"},
	{"a title", `{"title":"a"}`, `{"title":"b"}`, surface.Documentation, surface.Documentation, "schema"},
	{"words of an alternative", `{"anyOf":[{"type":"string"},{"type":"null"}]}`, `{"anyOf":[{"type":"string","description":"x"},{"type":"null"}]}`, surface.Documentation, surface.Documentation, "schema"},
	{"an alternative less", `{"anyOf":[{"required":["a"]},{"required":["b"]},{"required":["c"]}]}`, `{"anyOf":[{"required":["c"]},{"required":["a"]}]}`, surface.Breaking, surface.Compatible, "schema/anyOf"},
	{"alternatives at all", `{"type":"object"}`, `{"type":"object","anyOf":[{"required":["a"]}]}`, surface.Breaking, surface.Compatible, "schema/anyOf"},
	{"an unknown keyword", `{"type":"object"}`, `{"type":"object","unevaluatedProperties":false}`, surface.Breaking, surface.Breaking, "schema/unevaluatedProperties"},
	{"another unknown keyword", `{"if":{"const":1}}`, `{"if":{"const":2}}`, surface.Breaking, surface.Breaking, "schema/if"},
	{"another dialect", `{}`, `{"$schema":"https://json-schema.org/draft/2020-12/schema"}`, surface.Breaking, surface.Breaking, "schema/$schema"},
	{"a tuple", `{"type":"array"}`, `{"type":"array","items":[{}]}`, surface.Breaking, surface.Breaking, "schema/items"},
	{"a bound that is no number", `{"type":"integer"}`, `{"type":"integer","maximum":"9"}`, surface.Breaking, surface.Breaking, "schema/maximum"},
	{"a number nobody can hold", `{"type":"integer"}`, `{"type":"integer","maximum":1e9999999}`, surface.Breaking, surface.Breaking, "schema/maximum"},
	{"a type nobody knows", `{"type":"string"}`, `{"type":["string","text"]}`, surface.Breaking, surface.Breaking, "schema/type"},
	{"one of two that overlap", `{"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"oneOf":[{"required":["a"]},{"required":["c"]}]}`, surface.Breaking, surface.Breaking, "schema/oneOf"},
	{"a reference elsewhere", `{"$ref":"http://x/y"}`, `{"$ref":"http://x/z"}`, surface.Breaking, surface.Breaking, "schema/$ref"},
	{"a reference to nothing", `{}`, `{"$ref":"#/$defs/none"}`, surface.Breaking, surface.Breaking, "schema/$ref"},
	{"what is not used is no difference", `{"$defs":{"a":{"type":"string"}}}`, `{"$defs":{"a":{"type":"integer"}}}`, none, none, ""},
	{"no JSON", `{}`, `{`, surface.Breaking, surface.Breaking, "schema"},
	{"no schema", `{}`, `7`, surface.Breaking, surface.Breaking, "schema/a schema that is no object"},
}

func TestSchemaDifferences(t *testing.T) {
	for _, s := range steps {
		for _, way := range []struct {
			name string
			list []surface.Difference
			want surface.Class
		}{{"input", compareInput(s.old, s.now), s.input}, {"output", compareOutput(s.old, s.now), s.output}} {
			if got := surface.Worst(way.list); got != way.want {
				t.Errorf("%s, %s: %v, want %v: %v", s.name, way.name, got, way.want, way.list)
				continue
			}
			if way.want == none {
				continue
			}
			found := false
			for _, d := range way.list {
				found = found || d.Class == way.want && d.Address == s.at
			}
			if !found {
				t.Errorf("%s, %s: nothing at %s: %v", s.name, way.name, s.at, way.list)
			}
		}
	}
}

// TestUndoingWhatIsCompatibleBreaks: nothing is free in both directions, but
// words.
func TestUndoingWhatIsCompatibleBreaks(t *testing.T) {
	for _, s := range steps {
		if s.input == surface.Compatible {
			if list := compareInput(s.now, s.old); surface.Worst(list) != surface.Breaking {
				t.Errorf("%s, input: %v", s.name, list)
			}
		}
		if s.output == surface.Compatible {
			if list := compareOutput(s.now, s.old); surface.Worst(list) != surface.Breaking {
				t.Errorf("%s, output: %v", s.name, list)
			}
		}
	}
}

// TestEndlessSchemas: very deep schemas end.
func TestEndlessSchemas(t *testing.T) {
	deep := strings.Repeat(`{"type":"array","items":`, 2000)
	deep += `{}` + strings.Repeat("}", 2000)
	if list := compareInput(deep, strings.Replace(deep, "{}", `{"type":"null"}`, 1)); len(list) != 5 || surface.Worst(list) != surface.Breaking {
		t.Errorf("%d differences", len(list))
	}
	var wide strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&wide, `"p%d":{"type":"string"},`, i)
	}
	many := `{"type":"object","properties":{` + wide.String() + `"q":{}}}`
	if list := compareInput(many, strings.Replace(many, `"q"`, `"r"`, 1)); len(list) != 2 {
		t.Errorf("%v", list)
	}
}

func FuzzCompareSchemas(f *testing.F) {
	for _, s := range steps {
		f.Add(s.old, s.now)
	}
	f.Fuzz(func(t *testing.T, old, now string) {
		compareInput(old, now)
		if list := compareOutput(old, old+" "); len(list) > 0 && json.Valid([]byte(old)) {
			t.Fatalf("%s differs from itself: %v", old, list)
		}
	})
}
