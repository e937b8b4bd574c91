package surface_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/surface"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

func compareInput(old, now string) []surface.Difference {
	return surface.CompareInput(json.RawMessage(old), json.RawMessage(now))
}

func compareOutput(old, now string) []surface.Difference {
	return surface.CompareOutput(json.RawMessage(old), json.RawMessage(now))
}

// step is one change of a schema with its class for arguments and for replies.
type step struct {
	name, old, now string
	input, output  surface.Class
	at             string // of the worst difference
}

var steps = []step{
	{"another type", `{"type":"string"}`, `{"type":"integer"}`, breaking, breaking, "schema/type"},
	{"null too", `{"type":"string"}`, `{"type":["string","null"]}`, compatible, breaking, "schema/type"},
	{"integers only", `{"type":"number"}`, `{"type":"integer"}`, breaking, compatible, "schema/type"},
	{"an enum where there was none", `{"type":"string"}`, `{"type":"string","enum":["a"]}`, breaking, compatible, "schema/enum"},
	{"one more in an enum", `{"enum":["a"]}`, `{"enum":["a","b"]}`, compatible, breaking, "schema/enum"},
	{"const instead of an enum", `{"enum":["a","b"]}`, `{"const":"a"}`, breaking, compatible, "schema/enum"},
	{"an enum of another type too", `{"type":["string","integer"],"enum":["a"]}`, `{"type":["string","integer"],"enum":["a",1]}`, compatible, breaking, "schema/enum"},
	{"a lower maximum", `{"type":"integer","maximum":9}`, `{"type":"integer","maximum":8}`, breaking, compatible, "schema/most value"},
	{"an exclusive maximum", `{"type":"number","maximum":9}`, `{"type":"number","exclusiveMaximum":9}`, breaking, breaking, "schema/exclusiveMaximum"},
	{"a minimum", `{"type":"integer"}`, `{"type":"integer","minimum":0}`, breaking, compatible, "schema/least value"},
	{"a lower maxLength", `{"type":"string","maxLength":200}`, `{"type":"string","maxLength":199}`, breaking, compatible, "schema/most length"},
	{"a bound on items", `{"type":"array"}`, `{"type":"array","maxItems":5}`, breaking, breaking, "schema/maxItems"},
	{"a pattern", `{"type":"string"}`, `{"type":"string","pattern":"^a"}`, breaking, breaking, "schema/pattern"},
	{"another format", `{"type":"string","format":"date"}`, `{"type":"string","format":"time"}`, breaking, breaking, "schema/format"},
	{"narrower items", `{"type":"array","items":{}}`, `{"type":"array","items":{"type":"string"}}`, breaking, compatible, "schema/[]/type"},
	{"an optional field", `{"type":"object","additionalProperties":false}`, `{"type":"object","additionalProperties":false,"properties":{"a":{}}}`, compatible, compatible, "schema/a"},
	{"a required field", `{"type":"object"}`, `{"type":"object","properties":{"a":{}},"required":["a"]}`, breaking, compatible, "schema/a"},
	{"required without a schema", `{"type":"object"}`, `{"type":"object","required":["a"]}`, breaking, compatible, "schema/a"},
	{"required now", `{"type":"object","properties":{"a":{}}}`, `{"type":"object","properties":{"a":{}},"required":["a"]}`, breaking, compatible, "schema/a"},
	{"closed", `{"type":"object"}`, `{"type":"object","additionalProperties":false}`, breaking, breaking, "schema/{}"},
	{"members of one type", `{"type":"object"}`, `{"type":"object","additionalProperties":{"type":"integer"}}`, breaking, compatible, "schema/{}/type"},
	{"a default", `{"type":"integer"}`, `{"type":"integer","default":3}`, breaking, words, "schema/default"},
	{"another default", `{"default":3}`, `{"default":4}`, breaking, words, "schema/default"},
	{"a description", `{"type":"string"}`, `{"type":"string","description":"words"}`, words, words, "schema"},
	{"a title", `{"title":"a"}`, `{"title":"b"}`, words, words, "schema"},
	{"words of an alternative", `{"anyOf":[{"type":"string"},{"type":"null"}]}`, `{"anyOf":[{"type":"string","description":"x"},{"type":"null"}]}`, words, words, "schema"},
	{"an alternative less", `{"anyOf":[{"properties":{"ok":{"const":true}}},{"properties":{"ok":{"const":false}}},{"type":"null"}]}`, `{"anyOf":[{"type":"null"},{"properties":{"ok":{"const":true}}}]}`, breaking, compatible, "schema/anyOf"},
	{"an alternative that changed", `{"anyOf":[{"type":"string"},{"type":"array"}]}`, `{"anyOf":[{"type":"array"},{"type":"string","maxLength":3}]}`, breaking, compatible, "schema/most length"},
	{"alternatives in another order", `{"anyOf":[{"type":"string"},{"type":"array"}]}`, `{"anyOf":[{"type":"array"},{"type":"string"}]}`, none, none, ""},
	{"alternatives that look alike", `{"anyOf":[{"required":["a"]},{"required":["b"]}]}`, `{"anyOf":[{"required":["b"]},{"required":["a"]}]}`, breaking, breaking, "schema/anyOf"},
	{"lists in another order", `{"type":["null","string"],"enum":["a",null],"required":["a","b"]}`, `{"type":["string","null"],"enum":[null,"a"],"required":["b","a"]}`, none, none, ""},
	{"open said and not said", `{"type":"object"}`, `{"type":"object","additionalProperties":true}`, none, none, ""},
	{"both enum and const", `{"enum":["a"]}`, `{"enum":["a"],"const":"a"}`, breaking, breaking, "schema/const"},
	{"alternatives at all", `{"type":"object"}`, `{"type":"object","anyOf":[{"required":["a"]}]}`, breaking, compatible, "schema/anyOf"},
	{"another unknown keyword", `{"if":{"const":1}}`, `{"if":{"const":2}}`, breaking, breaking, "schema/if"},
	{"another dialect", `{}`, `{"$schema":"https://json-schema.org/draft/2020-12/schema"}`, breaking, breaking, "schema/$schema"},
	{"a tuple", `{"type":"array"}`, `{"type":"array","items":[{}]}`, breaking, breaking, "schema/[]/not a schema"},
	{"a bound that is no number", `{"type":"integer"}`, `{"type":"integer","maximum":"9"}`, breaking, breaking, "schema/maximum"},
	{"a number out of range", `{"type":"integer"}`, `{"type":"integer","maximum":1e9999999}`, breaking, breaking, "schema/maximum"},
	{"an unknown type", `{"type":"string"}`, `{"type":["string","text"]}`, breaking, breaking, "schema/type"},
	{"one of two that overlap", `{"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"oneOf":[{"required":["a"]},{"required":["c"]}]}`, breaking, breaking, "schema/oneOf"},
	{"a reference elsewhere", `{"$ref":"http://x/y"}`, `{"$ref":"http://x/z"}`, breaking, breaking, "schema/$ref"},
	{"definitions", `{"$defs":{"a":{"type":"string"}}}`, `{"$defs":{"a":{"type":"integer"}}}`, breaking, breaking, "schema/$defs"},
	{"no JSON", `{}`, `{`, breaking, breaking, "schema"},
	{"no schema", `{}`, `7`, breaking, breaking, "schema/not a schema"},
}

func TestSchemaDifferences(t *testing.T) {
	for _, s := range steps {
		for _, way := range []struct {
			name       string
			list, undo []surface.Difference
			want       surface.Class
		}{
			{"input", compareInput(s.old, s.now), compareInput(s.now, s.old), s.input},
			{"output", compareOutput(s.old, s.now), compareOutput(s.now, s.old), s.output},
		} {
			if want := back[way.want]; want != none && s.name != "an optional field" && surface.Worst(way.undo) != want {
				t.Errorf("%s, %s, undone: %v, want %v", s.name, way.name, way.undo, want)
			}
			if got := surface.Worst(way.list); got != way.want {
				t.Errorf("%s, %s: %v, want %v: %v", s.name, way.name, got, way.want, way.list)
				continue
			}
			if way.want == none {
				continue
			}
			found := slices.ContainsFunc(way.list, func(d surface.Difference) bool { return d.Class == way.want && d.Address == s.at })
			testbed.Expect(t, found, "%s, %s: nothing at %s: %v", s.name, way.name, s.at, way.list)
		}
	}
}

// TestEndlessSchemas: very deep schemas end.
func TestEndlessSchemas(t *testing.T) {
	deep := strings.Repeat(`{"type":"array","items":`, 500)
	deep += `{}` + strings.Repeat("}", 500)
	list := compareInput(deep, strings.Replace(deep, "{}", `{"type":"null"}`, 1))
	testbed.Expect(t, len(list) == 1 && surface.Worst(list) == breaking, "%d differences", len(list))
	var wide strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&wide, `"p%d":{"type":"string"},`, i)
	}
	many := `{"type":"object","properties":{` + wide.String() + `"q":{}}}`
	list = compareInput(many, strings.Replace(many, `"q"`, `"r"`, 1))
	testbed.Expect(t, len(list) == 2, "%v", list)
}

func FuzzCompareSchemas(f *testing.F) {
	for _, s := range steps {
		f.Add(s.old, s.now)
	}
	f.Add(`{"properties":"{a{:"}`, `{"items":"{a{:"}`)
	f.Fuzz(func(t *testing.T, old, now string) {
		compareInput(old, now)
		list := compareOutput(old, old+" ")
		testbed.Require(t, len(list) == 0 || !json.Valid([]byte(old)), "%s differs from itself: %v", old, list)
	})
}
