package mcpserver_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/resilientwrite/resilientwrite/internal/surface"
	"github.com/resilientwrite/resilientwrite/mcpserver"
	"github.com/resilientwrite/resilientwrite/spec"
)

// keywords are all that a schema of ours may say: what draft-07 and 2020-12
// have in common and clients are known to understand. A validator passes over
// what it does not know, so another word here would be a promise nobody keeps.
var keywords = []string{
	"type", "properties", "required", "additionalProperties", "items", "enum", "const", "anyOf", "default",
	"minimum", "maximum", "maxLength", "description",
}

// open are the objects that take any member, with the reason.
var open = map[string]string{
	"handoff_write/input/envelope":                     "unknown fields of a handoff are kept",
	"handoff_write/input/envelope/last_good_state/[]":  "the same",
	"handoff_write/input/envelope/artifacts/[]":        "the same",
	"handoff_write/input/envelope/dependency_graph/[]": "the same",
	"handoff_read/output/envelope":                     "the same",
	"handoff_read/output/envelope/last_good_state/[]":  "the same",
	"handoff_read/output/envelope/artifacts/[]":        "the same",
	"handoff_read/output/envelope/dependency_graph/[]": "the same",
}

// strict walks through a schema.
type strict struct {
	t    *testing.T
	seen map[string]bool // open objects
}

func (s *strict) walk(at string, v any, within bool) {
	m, ok := v.(map[string]any)
	if !ok {
		s.t.Errorf("%s: %v is no schema", at, v)
		return
	}
	for key := range m {
		if !slices.Contains(keywords, key) {
			s.t.Errorf("%s: the keyword %s is not one of ours", at, key)
		}
	}
	if m["type"] == nil && m["anyOf"] == nil && m["const"] == nil && !within {
		s.t.Errorf("%s: no type", at)
	}
	types, _ := m["type"].([]any)
	if m["type"] == "array" || slices.Contains(types, any("array")) {
		if _, ok := m["items"].(map[string]any); !ok {
			s.t.Errorf("%s: an array that does not say what it holds", at)
		}
	}
	if m["type"] == "object" || slices.Contains(types, any("object")) {
		s.object(at, m, within)
	}
	props, _ := m["properties"].(map[string]any)
	for name, p := range props {
		s.walk(at+"/"+name, p, within)
	}
	need, _ := m["required"].([]any)
	for _, name := range need {
		if props[name.(string)] == nil && !within {
			s.t.Errorf("%s: %s is required and not described", at, name)
		}
	}
	if items, ok := m["items"].(map[string]any); ok && len(items) > 0 {
		s.walk(at+"/[]", items, within)
	}
	list, _ := m["anyOf"].([]any)
	for _, one := range list {
		s.walk(at+"/anyOf", one, true)
	}
}

// object demands that an object is closed, or open for a reason.
func (s *strict) object(at string, m map[string]any, within bool) {
	switch rest := m["additionalProperties"].(type) {
	case bool:
		if !rest || within || strings.HasSuffix(at, "/output/context") { // any JSON, and the context of a refusal
			return
		}
		if s.seen[at] = true; open[at] == "" {
			s.t.Errorf("%s: an open object; close it, or tell the reason in the test", at)
		}
	case map[string]any:
		s.walk(at+"/{}", rest, within)
	default:
		s.t.Errorf("%s: an object that does not say whether it is closed", at)
	}
}

// TestSchemasAreStrict: every array says what it holds, every object closes,
// and no schema uses a word that a validator may not know.
func TestSchemasAreStrict(t *testing.T) {
	s := &strict{t, map[string]bool{}}
	for _, tool := range current(t).Tools {
		for side, raw := range map[string]json.RawMessage{"input": tool.Input, "output": tool.Output} {
			var v map[string]any
			noErr(t, json.Unmarshal(raw, &v))
			if v["type"] != "object" {
				t.Errorf("%s: the %s is no object", tool.Name, side)
			}
			s.walk(tool.Name+"/"+side, v, false)
		}
	}
	for at := range open {
		if !s.seen[at] {
			t.Errorf("%s is not open any more; take it off the list", at)
		}
	}
}

// TestNamesAndWordsFitClients: the form that the strictest client accepts, and
// descriptions that none cuts off.
func TestNamesAndWordsFitClients(t *testing.T) {
	form := regexp.MustCompile(`^[a-z][a-z0-9_]{1,60}$`)
	for _, tool := range current(t).Tools {
		if !form.MatchString(tool.Name) || strings.Contains(tool.Name, "__") {
			t.Errorf("%s is a name that some clients refuse", tool.Name)
		}
		if len(tool.Description) > 1024 || tool.Title == "" || len(tool.Title) > 60 {
			t.Errorf("%s: a description of %d bytes, a title of %d", tool.Name, len(tool.Description), len(tool.Title))
		}
	}
}

// portable compiles a schema with the validator of the protocol's library.
func portable(t *testing.T, raw json.RawMessage, draft *jsonschema.Draft) *jsonschema.Schema {
	t.Helper()
	doc := must(jsonschema.UnmarshalJSON(bytes.NewReader(raw)))(t)
	c := jsonschema.NewCompiler()
	c.DefaultDraft(draft)
	noErr(t, c.AddResource("mem:schema", doc))
	s, err := c.Compile("mem:schema")
	if err != nil {
		t.Fatalf("%v: %s", err, raw)
	}
	return s
}

// TestValidatorsAgree: each schema compiles in both validators, as draft-07
// and as 2020-12, and all of them judge the same documents alike, so that it
// does not matter which one a client has.
func TestValidatorsAgree(t *testing.T) {
	docs := []string{
		`{}`, `[]`, `null`, `7`, `"x"`, `{"path":"a"}`, `{"path":1}`, `{"path":"a","content":"x"}`, `{"path":"a","content":"x","mode":"create"}`, `{"path":"a","content":"x","mode":"destroy"}`,
		`{"ops":[]}`, `{"ops":[{"op":"write","path":"a","content":"x"}]}`, `{"ops":[{"op":"x"}]}`, `{"session":"s","content":"x"}`, `{"session":"s","index":0,"content":"x"}`,
		`{"session":"s","index":1.0,"content":"x"}`, `{"n":1}`, `{"n":-1}`, `{"n":1.5}`, `{"n":1e3}`, `{"n":1000000}`, `{"name":"a","data":[1,{"b":null}]}`,
		`{"caller":"` + strings.Repeat("é", 200) + `"}`, `{"caller":"` + strings.Repeat("é", 201) + `"}`, `{"envelope":{"task_id":"t","zzz":1}}`, `{"ok":true}`, `{"ok":false}`, `{"ok":null}`,
		`{"ok":false,"schema_version":"1","error":"blocked","reason_hint":"unknown","detected_patterns":[],"suggested_action":"redact","retry_budget":1,"context":{"reason":"risk_blocked","code":8}}`,
		`{"ok":false,"schema_version":"1","error":"blocked","reason_hint":"unknown","detected_patterns":[1],"suggested_action":"redact","retry_budget":"1","context":{}}`,
	}
	schemas := map[string]json.RawMessage{"the envelope": current(t).Envelope}
	store := openStore(t)
	for _, p := range mcpserver.Presets() {
		for _, tool := range list(t, mcpserver.New(store, &mcpserver.Options{Tier: p})) {
			data := must(json.Marshal(tool))(t)
			var one struct{ InputSchema, OutputSchema json.RawMessage }
			noErr(t, json.Unmarshal(data, &one))
			schemas[fmt.Sprintf("%s %s input", p, tool.Name)] = one.InputSchema
			if one.OutputSchema != nil {
				schemas[fmt.Sprintf("%s %s output", p, tool.Name)] = one.OutputSchema
			}
		}
	}
	conform := 0
	for name, raw := range schemas {
		seven, twenty := portable(t, raw, jsonschema.Draft7), portable(t, raw, jsonschema.Draft2020)
		own := must(spec.Compile(raw))(t)
		for _, doc := range docs {
			v := must(jsonschema.UnmarshalJSON(strings.NewReader(doc)))(t)
			ours := own.Validate([]byte(doc)) == nil
			if a, b := seven.Validate(v) == nil, twenty.Validate(v) == nil; a != ours || b != ours {
				t.Errorf("%s: %.80s: we say %t, draft-07 %t, 2020-12 %t", name, doc, ours, a, b)
			}
			if ours {
				conform++
			}
		}
	}
	if conform < 100 {
		t.Errorf("only %d documents conformed to anything", conform)
	}
}

// leftOut are the ends of the addresses at which the lists of core and standard
// say less than the tool checks: the server refuses in time.
var leftOut = regexp.MustCompile(`/(default|least value|most value|most length|\{\})$|^schema/envelope/last_good_state$`)

// TestPresetsTellTheTruth: what a smaller preset says of the arguments of a
// tool holds for the tool, but for bounds; its objects are open, so that a
// client that validates rejects nothing that the server takes; and it lists no
// schema of the reply.
func TestPresetsTellTheTruth(t *testing.T) {
	store := openStore(t)
	tools := map[string]surface.Tool{}
	for _, tool := range current(t).Tools {
		tools["rw_"+tool.Name] = tool
	}
	for _, o := range []mcpserver.Options{{Tier: mcpserver.Core}, {}, {Tools: []string{"scratch_put", "rw_checkpoint", "rw.tx_stage"}}} {
		for _, tool := range list(t, mcpserver.New(store, &o)) {
			info := tools[tool.Name]
			data := must(json.Marshal(tool))(t)
			var one struct{ InputSchema, OutputSchema json.RawMessage }
			noErr(t, json.Unmarshal(data, &one))
			for _, d := range surface.CompareInput(one.InputSchema, info.Input) {
				long := tool.Name == "rw_read" && d.Address == "schema/encoding/enum" // 27 names, which a refusal tells
				if d.Class == surface.Breaking && !leftOut.MatchString(d.Address) && !long {
					t.Errorf("%s, %s, arguments: %s", o.Tier, tool.Name, d)
				}
			}
			if one.OutputSchema != nil || strings.Contains(string(one.InputSchema), "additionalProperties") && !slices.Contains(o.Tools, "rw.tx_stage") {
				t.Errorf("%s, %s: %s", o.Tier, tool.Name, data)
			}
		}
	}
	if n := len(list(t, mcpserver.New(store, &mcpserver.Options{Tools: []string{"scratch_put", "rw_checkpoint", "rw.tx_stage"}}))); n != 15 {
		t.Errorf("%d tools", n)
	}
}

// TestSizesOfTheList bounds what a client pays for the list of tools before it
// has called one: what hosts give to the model, and all bytes.
func TestSizesOfTheList(t *testing.T) {
	store := openStore(t)
	for _, row := range []struct {
		o            mcpserver.Options
		tools        int
		model, whole int // bytes
	}{
		{mcpserver.Options{Tier: mcpserver.Core}, 7, 4300, 5600},
		{mcpserver.Options{}, 12, 6700, 9000},
		{mcpserver.Options{Tier: mcpserver.Full, OmitOutputSchemas: true}, 46, 64000, 72000},
		{mcpserver.Options{Tier: mcpserver.Full}, 46, 64000, 260000},
	} {
		tools := list(t, mcpserver.New(store, &row.o))
		whole, model, most := len(ask(t, mcpserver.New(store, &row.o), "tools/list")), 0, 0
		for _, tool := range tools {
			one := must(json.Marshal(map[string]any{"name": tool.Name, "description": tool.Description, "input_schema": tool.RawInputSchema, "i": tool.InputSchema}))(t)
			model += len(one)
			all := must(json.Marshal(tool))(t)
			if limit := 950 + 200*strings.Count(tool.Name, "rw_tx"); row.o.Tier != mcpserver.Full && (len(all) > limit || whole > 800*len(tools)) {
				t.Errorf("%s: %d bytes", tool.Name, len(all))
			}
			most = max(most, len(all))
		}
		t.Logf("%s: %d tools, %d bytes for the model, %d in all, the largest has %d", row.o.Tier, len(tools), model, whole, most)
		if len(tools) != row.tools || model > row.model || whole > row.whole {
			t.Errorf("%s: over the limits", row.o.Tier)
		}
	}
}
