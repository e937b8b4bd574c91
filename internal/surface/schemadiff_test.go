package surface_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/xeipuuv/gojsonschema"

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

var seed = flag.Uint64("surface.seed", 0, "seed of the random schemas, 0 for a new one")

// source makes random schemas and values over few words, so that they often
// meet.
type source struct{ *rand.Rand }

func (r source) pick(words ...string) string { return words[r.IntN(len(words))] }

func (r source) scalar() string {
	return r.pick(`null`, `true`, `false`, `0`, `1`, `2`, `-1`, `1.5`, `"a"`, `"b"`, `"ab"`, `""`)
}

func (r source) value(depth int) string {
	if depth == 0 || r.IntN(3) == 0 {
		return r.scalar()
	}
	var parts []string
	if r.IntN(2) == 0 {
		for range r.IntN(3) {
			parts = append(parts, r.value(depth-1))
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	for _, name := range []string{"a", "b", "c"} {
		if r.IntN(2) == 0 {
			parts = append(parts, fmt.Sprintf("%q:%s", name, r.value(depth-1)))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func (r source) schema(depth int) map[string]any {
	s := map[string]any{}
	for range 1 + r.IntN(3) {
		r.keyword(s, depth)
	}
	return s
}

// keyword sets one keyword; depth bounds how deep schemas lie in it.
func (r source) keyword(s map[string]any, depth int) {
	list := func() (out []any) {
		for range 1 + r.IntN(3) {
			out = append(out, json.RawMessage(r.scalar()))
		}
		return dedupe(out)
	}
	switch kind := r.IntN(18); {
	case kind < 3:
		s["type"] = r.pick("null", "boolean", "integer", "number", "string", "array", "object")
	case kind == 3:
		s["type"] = []string{"string", r.pick("null", "integer", "object", "array")}
	case kind == 4:
		s["enum"] = list()
	case kind == 5:
		s["const"] = json.RawMessage(r.scalar())
	case kind == 6:
		s[r.pick("minimum", "exclusiveMinimum")] = r.IntN(3) - 1
		s[r.pick("maximum", "exclusiveMaximum")] = r.IntN(2) + 2
	case kind == 7: // the validator refuses ranges without a value
		s[r.pick("minLength", "minItems", "minProperties")] = r.IntN(2)
		s[r.pick("maxLength", "maxItems", "maxProperties")] = r.IntN(2) + 1
	case kind == 8:
		s["pattern"] = r.pick("^a", "b$")
	case kind == 9:
		s["required"] = []string{r.pick("a", "b", "c")}
	case kind == 10:
		s["additionalProperties"] = r.IntN(2) == 0
	case kind == 11:
		s["uniqueItems"] = r.IntN(2) == 0
	case depth == 0:
	case kind < 14:
		s["properties"] = map[string]any{r.pick("a", "b"): r.schema(depth - 1), "c": r.schema(depth - 1)}
	case kind == 14:
		s["items"] = r.schema(depth - 1)
	case kind == 15:
		s["additionalProperties"] = r.schema(depth - 1)
	case kind == 16:
		s[r.pick("anyOf", "oneOf")] = []any{r.schema(depth - 1), r.schema(depth - 1)}
	default:
		s["anyOf"] = []any{r.schema(depth - 1), r.schema(depth - 1), r.schema(depth - 1)}
	}
}

// dedupe leaves equal values out: the validator refuses an enum that has them.
func dedupe(list []any) (out []any) {
	known := map[string]bool{}
	for _, v := range list {
		if text := string(v.(json.RawMessage)); !known[text] {
			known[text] = true
			out = append(out, v)
		}
	}
	return out
}

// changed is a schema with a keyword or two set again or removed, here or
// further in.
func (r source) changed(s map[string]any, depth int) map[string]any {
	out := map[string]any{}
	maps.Copy(out, s)
	for key, v := range s {
		if inner, ok := v.(map[string]any); ok && r.IntN(2) == 0 {
			if key == "properties" {
				props := map[string]any{}
				for name, p := range inner {
					props[name] = r.changed(p.(map[string]any), depth-1)
				}
				out[key] = props
			} else {
				out[key] = r.changed(inner, depth-1)
			}
			return out
		}
	}
	switch r.IntN(3) {
	case 0:
		for key := range out {
			delete(out, key)
			break
		}
	default:
		r.keyword(out, max(depth, 0))
	}
	return out
}

func compiled(t *testing.T, text []byte) *gojsonschema.Schema {
	t.Helper()
	loader := gojsonschema.NewSchemaLoader()
	loader.Draft, loader.AutoDetect = gojsonschema.Draft7, false
	s, err := loader.Compile(gojsonschema.NewBytesLoader(text))
	testbed.Require(t, err == nil, "%s: %v", text, err)
	return s
}

// admits asks a validator that knows nothing of this package.
func admits(t *testing.T, s *gojsonschema.Schema, doc string) bool {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(doc))
	dec.UseNumber()
	var v any
	testbed.NoErr(t, dec.Decode(&v))
	res := testbed.Must(s.Validate(gojsonschema.NewRawLoader(v)))(t)
	return res.Valid()
}

// TestNothingThatBreaksIsCalledCompatible makes random schemas and changes of
// them and asks a validator. A value that was accepted and is not any more, as
// an argument, must have been called breaking; so must a value that is replied
// now and could not be replied before, but for new members of objects.
func TestNothingThatBreaksIsCalledCompatible(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("seed %d", *seed)
	r := source{rand.New(rand.NewPCG(*seed, 1))}
	verdicts := map[surface.Class]int{}
	seen, compared := 0, 0
	for range 2000 {
		first := r.schema(2)
		second := r.changed(first, 2)
		old, _ := json.Marshal(first)
		now, _ := json.Marshal(second)
		in, out := surface.CompareInput(old, now), surface.CompareOutput(old, now)
		verdicts[surface.Worst(in)]++
		if surface.Worst(in) == surface.Breaking && surface.Worst(out) == surface.Breaking {
			continue
		}
		compared++
		a, b := compiled(t, old), compiled(t, now)
		for range 25 {
			doc := r.value(3)
			was, is := admits(t, a, doc), admits(t, b, doc)
			if was != is {
				seen++
			}
			if was && !is && surface.Worst(in) != surface.Breaking && !fresh(in) {
				t.Fatalf("seed %d: %s\nwas accepted by %s\nis not by %s\nyet: %v", *seed, doc, old, now, in)
			}
			if is && !was && surface.Worst(out) != surface.Breaking && !fresh(out) {
				t.Fatalf("seed %d: %s\ncould not be replied by %s\ncan be by %s\nyet: %v", *seed, doc, old, now, out)
			}
		}
	}
	t.Logf("input %v; %d pairs compared, %d values distinguished them", verdicts, compared, seen)
	testbed.Expect(t, verdicts[surface.Breaking] >= 200 && verdicts[surface.Compatible] >= 200 && verdicts[none] >= 10 && seen >= 500,
		"the random schemas prove little: %v, %d", verdicts, seen)
}

// fresh reports whether an object gained a member or was opened. That is called
// compatible by decision: callers do not send members that are not described,
// clients ignore them.
func fresh(list []surface.Difference) bool {
	return slices.ContainsFunc(list, func(d surface.Difference) bool {
		return d.What == "new" || strings.HasPrefix(d.What, "other members are allowed")
	})
}
