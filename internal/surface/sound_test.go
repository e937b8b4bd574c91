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
