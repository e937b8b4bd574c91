package mcpserver_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/server"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/resilientwrite/resilientwrite/internal/surface"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/mcpserver"
	"github.com/resilientwrite/resilientwrite/spec"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// current is the surface as the code makes it.
func current(t testing.TB) surface.Document {
	t.Helper()
	data := must(mcpserver.Surface())(t)
	return must(surface.Decode(data))(t)
}

// TestSurfaceIsAlwaysTheSameBytes: no map order, no time, no host shows in it.
func TestSurfaceIsAlwaysTheSameBytes(t *testing.T) {
	t.Parallel()
	first := must(mcpserver.Surface())(t)
	for range 5 {
		again, err := mcpserver.Surface()
		require(t, err == nil && bytes.Equal(first, again), "another surface, %v", err)
	}
	doc := current(t)
	sorted := func(what string, list []string) {
		expect(t, len(list) >= 2 && slices.IsSorted(list) && len(slices.Compact(slices.Clone(list))) == len(list),
			"%s are not in order, or there twice: %v", what, list)
	}
	sorted("tools", allOf(doc.Tools, func(t surface.Tool) string { return t.Name }))
	sorted("details", allOf(doc.Details, func(d surface.Detail) string { return d.Name }))
	sorted("warnings", allOf(doc.Warnings, func(w surface.Warning) string { return w.Name }))
	sorted("variables", allOf(doc.Environment, func(v surface.Variable) string { return v.Name }))
	sorted("resources", allOf(doc.Resources, func(r surface.Resource) string { return r.URI }))
	sorted("prompts", allOf(doc.Prompts, func(p surface.Prompt) string { return p.Name }))
	for _, d := range doc.Details {
		expect(t, d.Hint != "" && d.Kind != "" && d.Action != "" && d.Reason != "", "%+v says too little", d)
	}
}

func allOf[T any](list []T, name func(T) string) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = name(v)
	}
	return out
}

// ask sends one request and returns its result.
func ask(t testing.TB, s *server.MCPServer, method string) []byte {
	t.Helper()
	out := handled(t, s, method, "{}")
	var m struct{ Result, Error json.RawMessage }
	require(t, json.Unmarshal([]byte(out), &m) == nil && m.Error == nil, "%s: %s", method, out)
	return m.Result
}

// TestSurfaceIsWhatClientsGet: what is kept as the surface is what a server
// lists, to the letter: tools, resources, prompts; and describe returns the same
// version, codes and tools.
func TestSurfaceIsWhatClientsGet(t *testing.T) {
	t.Parallel()
	doc := current(t)
	store := openStore(t)
	for i, p := range toolbox.Presets() {
		var want []string
		for _, tool := range doc.Presets[i].Tools {
			want = append(want, "rw_"+tool.Name)
		}
		equal(t, cmp.Diff(want, names(list(t, mcpserver.New(store, &mcpserver.Options{Tier: p})))), "", p)
	}
	s := mcpserver.New(store, &mcpserver.Options{Tier: mcpserver.Full})
	var tools struct {
		Tools []struct {
			Name, Title, Description  string
			InputSchema, OutputSchema json.RawMessage
			Annotations               struct{ ReadOnlyHint, DestructiveHint, IdempotentHint, OpenWorldHint *bool }
		}
	}
	noErr(t, json.Unmarshal(ask(t, s, "tools/list"), &tools))
	var got []surface.Tool
	for i, one := range tools.Tools {
		a := one.Annotations
		got = append(got, surface.Tool{
			Name: strings.TrimPrefix(one.Name, "rw_"), Title: one.Title, Tier: doc.Tools[i].Tier, Description: one.Description,
			Annotations: surface.Annotations{ReadOnly: *a.ReadOnlyHint, Destructive: *a.DestructiveHint, Idempotent: *a.IdempotentHint, OpenWorld: *a.OpenWorldHint},
			Input:       squeezed(t, one.InputSchema), Output: squeezed(t, one.OutputSchema),
		})
	}
	want := slices.Clone(doc.Tools)
	for i := range want {
		want[i].Input, want[i].Output = squeezed(t, want[i].Input), squeezed(t, want[i].Output)
	}
	equal(t, cmp.Diff(want, got), "", "tools")
	compareListed(t, s, doc)
	result, _ := reply(t, s, "rw_describe", json.RawMessage(`{}`))
	var d struct {
		Codes   map[string]int
		Surface toolbox.SurfaceFacts
	}
	noErr(t, json.Unmarshal(result, &d))
	codes := map[string]int{}
	for _, c := range doc.Codes {
		codes[c.Name] = c.Number
	}
	equal(t, cmp.Diff(codes, d.Codes), "", "codes")
	expect(t, d.Surface.SchemaVersion == doc.SchemaVersion && len(d.Surface.Tools) == len(doc.Tools),
		"describe names %s with %d tools", d.Surface.SchemaVersion, len(d.Surface.Tools))
}

// squeezed is JSON without blanks.
func squeezed(t testing.TB, raw json.RawMessage) json.RawMessage {
	t.Helper()
	var b bytes.Buffer
	noErr(t, json.Compact(&b, raw))
	return b.Bytes()
}

// compareListed compares resources and prompts with what a server lists.
func compareListed(t *testing.T, s *server.MCPServer, doc surface.Document) {
	t.Helper()
	var fixed, templates struct {
		Resources, ResourceTemplates []struct{ URI, URITemplate, Name, Title, Description, MIMEType string }
	}
	var prompts struct{ Prompts []surface.Prompt }
	for method, into := range map[string]any{"resources/list": &fixed, "resources/templates/list": &templates, "prompts/list": &prompts} {
		noErr(t, json.Unmarshal(ask(t, s, method), into), method)
	}
	got := map[string]surface.Resource{}
	for _, r := range append(fixed.Resources, templates.ResourceTemplates...) {
		one := surface.Resource{URI: r.URI + r.URITemplate, Name: r.Name, Title: r.Title, Description: r.Description, MIMEType: r.MIMEType, Template: r.URITemplate != ""}
		got[one.URI] = one
	}
	want := map[string]surface.Resource{}
	for _, r := range doc.Resources {
		r.Updates = false // a listing does not say
		want[r.URI] = r
	}
	equal(t, cmp.Diff(want, got), "", "resources")
	equal(t, cmp.Diff(doc.Prompts, prompts.Prompts), "", "prompts")
	for _, p := range doc.Prompts {
		expect(t, p.Title != "" && len(p.Description) >= 60 && !slices.ContainsFunc(p.Arguments, func(a surface.Argument) bool { return a.Description == "" }), "%+v", p)
	}
	for _, r := range doc.Resources {
		expect(t, r.Title != "" && r.Description != "", "%+v", r)
	}
}

// TestEnvironmentIsWhatTheCommandReads: the table and the source of the
// command name the same variables, and flags that exist.
func TestEnvironmentIsWhatTheCommandReads(t *testing.T) {
	files := must(filepath.Glob("../cmd/resilient-write/*.go"))(t)
	read, flags := map[string]bool{}, map[string]bool{}
	variable := regexp.MustCompile(`env\("(RW_[A-Z_]+)"\)|Getenv\("(RW_[A-Z_]+)"\)|LookupEnv\("(RW_[A-Z_]+)"\)`)
	option := regexp.MustCompile(`(?:Var|Func)\((?:&[\w.]+, )?"([a-z][a-z-]*)"`)
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text := must(os.ReadFile(name))(t)
		for _, m := range variable.FindAllSubmatch(text, -1) {
			read[string(m[1])+string(m[2])+string(m[3])] = true
		}
		for _, m := range option.FindAllSubmatch(text, -1) {
			flags[string(m[1])] = true
		}
	}
	declaredNames := map[string]bool{}
	for _, v := range surface.Environment() {
		declaredNames[v.Name] = true
		expect(t, v.Flag == "" || flags[v.Flag], "%s: the command has no flag %s", v.Name, v.Flag)
		expect(t, len(v.Meaning) >= 10 && strings.HasSuffix(v.Meaning, "."), "%s: %q says too little", v.Name, v.Meaning)
	}
	diff := cmp.Diff(declaredNames, read)
	expect(t, diff == "" && len(declaredNames) >= 6, "internal/surface/document.go and the command differ: %s", diff)
}

// TestEveryWarningIsInTheSurface: a reason that the code can give is declared.
func TestEveryWarningIsInTheSurface(t *testing.T) {
	text := must(os.ReadFile("../call/warnings.go"))(t)
	declared := regexp.MustCompile(`\n\tWarn\w+ += "([a-z_]+)"`).FindAllSubmatch(text, -1)
	known := map[string]bool{}
	for _, w := range current(t).Warnings {
		known[w.Name] = true
		expect(t, w.Hint != "", "%s has no hint", w.Name)
	}
	expect(t, len(declared) >= 20 && len(declared) == len(known), "%d warnings are declared, %d are in the surface", len(declared), len(known))
	for _, m := range declared {
		expect(t, known[string(m[1])], "%s is not in the surface", m[1])
	}
}

// python lists the tools of the older Python implementation: the arguments of
// each with the values at the ends of what it takes; * is a required one.
var python = map[string]string{
	"safe_write": `{"path*":["a.txt"],"content*":["x",""],"mode":["create","overwrite","append"],"expected_prev_sha256":["","` + zeros + `"],
		"classify":[true,false],"classify_reject_at":["low","medium","high"]}`,
	"risk_score":    `{"content*":["x"],"language_hint":["json","latex"],"target_path":["a.txt"]}`,
	"chunk_write":   `{"session*":["s","A-b_9"],"index*":[1,999],"content*":["x"],"total_expected":[1,999]}`,
	"chunk_append":  `{"session*":["s","` + sixtyFour + `"],"content*":["x"],"total_expected":[1,999]}`,
	"chunk_compose": `{"session*":["s"],"output_path*":["a.txt"],"separator":["","\n\n"],"cleanup":[true,false]}`,
	"chunk_reset":   `{"session*":["s"]}`,
	"chunk_status":  `{"session*":["s"]}`,
	"chunk_preview": `{"session*":["s"],"separator":["","--"]}`,
	"scratch_put":   `{"content*":["x"],"label":["l"],"content_type":["application/json"],"notes":["n"],"encoding":["utf-8","base64"]}`,
	"scratch_ref":   `{"sha256":["` + zeros + `"],"label":["l"]}`,
	"scratch_get":   `{"sha256*":["` + zeros + `"],"encoding":["utf-8","base64"]}`,
	"handoff_write": `{"envelope*":[{"task_id":"t","status":"partial","agent":"a","summary":"s","next_steps":["n"],"last_good_state":[{"path":"a","sha256":"` + zeros + `","bytes":0}],
		"started_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z","context_hints":["h"],"open_questions":[],"blockers":[],"artifacts":[],"anything else":{"a":[1]}}],
		"body":["","# Notes"],"path":["HANDOFF.md"],"archive":[true,false]}`,
	"handoff_read":       `{"path":["HANDOFF.md"]}`,
	"journal_tail":       `{"n":[1,20,1000],"filter_path":["a.txt"],"filter_mode":["create","overwrite","append"]}`,
	"validate":           `{"content*":["x"],"format_hint":["latex","json","python","yaml"],"target_path":["a.tex"]}`,
	"analytics":          `{"since":["2026-01-01T00:00:00Z"],"session_filter":["s"]}`,
	"checkpoint":         `{"name*":["n","A-b_9"],"data*":[null,1,"x",[1],{"a":1}],"format":["json","yaml","markdown"],"ttl":["session","permanent","P1D"]}`,
	"checkpoint_read":    `{"name*":["n"]}`,
	"checkpoint_list":    `{}`,
	"checkpoint_cleanup": `{"include_session":[true,false]}`,
}

const (
	zeros     = "0000000000000000000000000000000000000000000000000000000000000000"
	sixtyFour = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
)

// TestPythonToolsAreASubset: a call that the Python implementation took is one
// we take: every tool, every argument, every value at the ends of its range,
// and nothing required that was not.
func TestPythonToolsAreASubset(t *testing.T) {
	mustEqual(t, len(python), 20, "tools")
	for name, text := range python {
		args := testbed.Decoded[map[string][]any](t, []byte(text), name)
		least := map[string]any{}
		for arg, values := range args {
			if arg, must := strings.CutSuffix(arg, "*"); must {
				least[arg] = values[0]
			}
		}
		validArguments(t, name, least)
		for arg, values := range args {
			for _, v := range values {
				call := map[string]any{strings.TrimSuffix(arg, "*"): v}
				for key, value := range least {
					if _, given := call[key]; !given {
						call[key] = value
					}
				}
				validArguments(t, name, call)
			}
		}
	}
}

func validArguments(t *testing.T, tool string, call map[string]any) {
	t.Helper()
	text := must(json.Marshal(call))(t)
	for _, wire := range []string{"rw_" + tool, "rw." + tool} {
		noErr(t, spec.ValidateArguments(wire, text), wire, " ", text)
	}
}

// keywords are all that a schema of ours may say: what draft-07 and 2020-12
// have in common and clients are known to understand. A validator passes over
// what it does not know, so another word here would be a false promise.
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
		expect(s.t, slices.Contains(keywords, key), "%s: the keyword %s is not one of ours", at, key)
	}
	expect(s.t, m["type"] != nil || m["anyOf"] != nil || m["const"] != nil || within, "%s: no type", at)
	types, _ := m["type"].([]any)
	if m["type"] == "array" || slices.Contains(types, any("array")) {
		_, ok := m["items"].(map[string]any)
		expect(s.t, ok, "%s: an array that does not say what it holds", at)
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
		expect(s.t, props[name.(string)] != nil || within, "%s: %s is required and not described", at, name)
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
			s.t.Errorf("%s: an open object; close it, or give the reason in the test", at)
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
			v := testbed.Decoded[map[string]any](t, raw)
			equal(t, v["type"], "object", tool.Name, ": the ", side, " is no object")
			s.walk(tool.Name+"/"+side, v, false)
		}
	}
	for at := range open {
		expect(t, s.seen[at], "%s is not open any more; take it off the list", at)
	}
}

// TestNamesAndWordsFitClients: the form that the strictest client accepts, and
// descriptions that none cuts off.
func TestNamesAndWordsFitClients(t *testing.T) {
	form := regexp.MustCompile(`^[a-z][a-z0-9_]{1,60}$`)
	for _, tool := range current(t).Tools {
		expect(t, form.MatchString(tool.Name) && !strings.Contains(tool.Name, "__"), "%s is a name that some clients refuse", tool.Name)
		expect(t, len(tool.Description) <= 1024 && tool.Title != "" && len(tool.Title) <= 60,
			"%s: a description of %d bytes, a title of %d", tool.Name, len(tool.Description), len(tool.Title))
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
	require(t, err == nil, "%v: %s", err, raw)
	return s
}

// TestValidatorsAgree: each schema compiles in both validators, as draft-07
// and as 2020-12, and all of them judge the same documents alike, so that it
// does not matter which one a client has.
func TestValidatorsAgree(t *testing.T) {
	t.Parallel()
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
	for _, p := range toolbox.Presets() {
		for _, tool := range list(t, mcpserver.New(store, &mcpserver.Options{Tier: p})) {
			data := must(json.Marshal(tool))(t)
			one := testbed.Decoded[struct{ InputSchema, OutputSchema json.RawMessage }](t, data)
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
			a, b := seven.Validate(v) == nil, twenty.Validate(v) == nil
			expect(t, a == ours && b == ours, "%s: %.80s: we say %t, draft-07 %t, 2020-12 %t", name, doc, ours, a, b)
			if ours {
				conform++
			}
		}
	}
	expect(t, conform >= 100, "only %d documents conformed to anything", conform)
}

// TestSizesOfTheList bounds what a client pays for the list of tools before it
// has called one: what hosts give to the model, and all bytes.
func TestSizesOfTheList(t *testing.T) {
	t.Parallel()
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
			limit := 950 + 200*strings.Count(tool.Name, "rw_tx")
			expect(t, row.o.Tier == mcpserver.Full || len(all) <= limit && whole <= 800*len(tools), "%s: %d bytes", tool.Name, len(all))
			most = max(most, len(all))
		}
		t.Logf("%s: %d tools, %d bytes for the model, %d in all, the largest has %d", row.o.Tier, len(tools), model, whole, most)
		expect(t, len(tools) == row.tools && model <= row.model && whole <= row.whole, "%s: over the limits", row.o.Tier)
	}
}
