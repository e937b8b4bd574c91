package surface_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/surface"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

const (
	none       surface.Class = 0
	words                    = surface.Documentation
	compatible               = surface.Compatible
	breaking                 = surface.Breaking
)

// back is what undoing must be called: nothing is free in both directions, but
// words.
var back = map[surface.Class]surface.Class{none: none, words: words, compatible: breaking, breaking: none}

// real is the surface of the server: its newest golden, which a test of
// mcpserver compares with the code.
func real(t testing.TB) surface.Document {
	t.Helper()
	names, err := filepath.Glob("../../testdata/surface/*.json")
	testbed.Require(t, err == nil && len(names) != 0, "no golden, %v", err)
	version := func(name string) surface.Version {
		base := filepath.Base(name)
		v := testbed.Must(surface.ParseVersion(base[:len(base)-len(".json")]))(t)
		return v
	}
	data := testbed.Must(os.ReadFile(slices.MaxFunc(names, func(a, b string) int { return version(a).Compare(version(b)) })))(t)
	doc := testbed.Must(surface.Decode(data))(t)
	again, err := doc.Encode()
	testbed.Require(t, err == nil && bytes.Equal(again, data), "the surface is not read and written without a change: %v", err)
	return doc
}

// shorter, longer and first change a list: without its first item, with one
// more, with another first one.
func shorter[T any](list *[]T)       { *list = slices.Clone(*list)[1:] }
func longer[T any](list *[]T, one T) { *list = append(slices.Clone(*list), one) }
func first[T any](list *[]T, f func(*T)) {
	*list = slices.Clone(*list)
	f(&(*list)[0])
}

// schemaOf changes a schema in place.
func schemaOf(raw *json.RawMessage, f func(s map[string]any)) {
	var s map[string]any
	if err := json.Unmarshal(*raw, &s); err != nil {
		panic(err)
	}
	f(s)
	*raw, _ = json.Marshal(s)
}

type docp = *surface.Document

// mutation is one change of a surface and what it must be called.
type mutation struct {
	name  string
	class surface.Class
	apply func(docp)
}

func detail(f func(*surface.Detail)) func(docp) { return func(d docp) { first(&d.Details, f) } }
func variable(f func(*surface.Variable)) func(docp) {
	return func(d docp) { first(&d.Environment, f) }
}
func resource(f func(*surface.Resource)) func(docp) {
	return func(d docp) {
		d.Resources = slices.Clone(d.Resources)
		slices.SortStableFunc(d.Resources, func(a, b surface.Resource) int { return map[bool]int{true: -1}[a.Updates] })
		first(&d.Resources, f)
	}
}
func prompt(f func(*surface.Prompt)) func(docp) { return func(d docp) { first(&d.Prompts, f) } }
func core(f func(*surface.PresetTool)) func(docp) {
	return func(d docp) { first(&d.Presets, func(p *surface.Preset) { first(&p.Tools, f) }) }
}
func tool(f func(*surface.Tool)) func(docp) { return func(d docp) { first(&d.Tools, f) } }

func envelope(f func(props, context map[string]any)) func(docp) {
	return func(d docp) {
		schemaOf(&d.Envelope, func(s map[string]any) {
			props := s["properties"].(map[string]any)
			f(props, props["context"].(map[string]any))
		})
	}
}

func brief(f func(*surface.Brief)) func(docp) {
	return func(d docp) {
		b := *d.Brief
		f(&b)
		d.Brief = &b
	}
}

func enum(s any, one string) {
	m := s.(map[string]any)
	m["enum"] = append(m["enum"].([]any), one)
}

var documentMutations = []mutation{
	{"envelope version", breaking, func(d docp) { d.EnvelopeVersion = "2" }},
	{"a form of names less", breaking, func(d docp) { shorter(&d.Names) }},
	{"a form of names more", compatible, func(d docp) { longer(&d.Names, "*") }},
	{"a kind less", breaking, func(d docp) { shorter(&d.Kinds) }},
	{"a kind more", breaking, func(d docp) { longer(&d.Kinds, "new") }},
	{"a reason less", breaking, func(d docp) { shorter(&d.Reasons) }},
	{"a reason more", breaking, func(d docp) { longer(&d.Reasons, "new") }},
	{"an action less", breaking, func(d docp) { shorter(&d.Actions) }},
	{"an action more", breaking, func(d docp) { longer(&d.Actions, "new") }},
	{"an effect less", breaking, func(d docp) { shorter(&d.Effects) }},
	{"an effect more", breaking, func(d docp) { longer(&d.Effects, "new") }},
	{"a code less", breaking, func(d docp) { shorter(&d.Codes) }},
	{"a code more", breaking, func(d docp) { longer(&d.Codes, surface.Code{Name: "new", Number: 9}) }},
	{"a code renumbered", breaking, func(d docp) { first(&d.Codes, func(c *surface.Code) { c.Number = 77 }) }},
	{"a detail less", breaking, func(d docp) { shorter(&d.Details) }},
	{"a detail more", compatible, func(d docp) { longer(&d.Details, surface.Detail{Name: "zzz"}) }},
	{"a detail renamed", breaking, detail(func(x *surface.Detail) { x.Name += "_2" })},
	{"a detail of another kind", breaking, detail(func(x *surface.Detail) { x.Kind = "blocked" })},
	{"a detail of another reason", breaking, detail(func(x *surface.Detail) { x.Reason = "network" })},
	{"a detail of another action", breaking, detail(func(x *surface.Detail) { x.Action = "escape" })},
	{"a detail of another code", breaking, detail(func(x *surface.Detail) { x.Code = 1 })},
	{"a detail in other words", words, detail(func(x *surface.Detail) { x.Hint = "do so" })},
	{"a warning less", breaking, func(d docp) { shorter(&d.Warnings) }},
	{"a warning more", compatible, func(d docp) { longer(&d.Warnings, surface.Warning{Name: "zzz"}) }},
	{"a warning in other words", words, func(d docp) { first(&d.Warnings, func(x *surface.Warning) { x.Hint = "do so" }) }},
	{"a variable less", breaking, func(d docp) { shorter(&d.Environment) }},
	{"a variable more", compatible, func(d docp) { longer(&d.Environment, surface.Variable{Name: "RW_ZZZ"}) }},
	{"a variable renamed", breaking, variable(func(v *surface.Variable) { v.Name += "_2" })},
	{"another default of a variable", breaking, variable(func(v *surface.Variable) { v.Default = "1" })},
	{"another flag of a variable", breaking, variable(func(v *surface.Variable) { v.Flag = "other" })},
	{"a variable in other words", words, variable(func(v *surface.Variable) { v.Meaning = "other" })},
	{"a preset less", breaking, func(d docp) { shorter(&d.Presets) }},
	{"a preset more", compatible, func(d docp) { longer(&d.Presets, surface.Preset{Name: "tiny"}) }},
	{"a preset hides a tool", breaking, func(d docp) { first(&d.Presets, func(p *surface.Preset) { shorter(&p.Tools) }) }},
	{"core lists an argument less", breaking, core(func(p *surface.PresetTool) { shorter(&p.Arguments) })},
	{"core lists an argument more", compatible, core(func(p *surface.PresetTool) { longer(&p.Arguments, "zzz") })},
	{"core lists all arguments", compatible, core(func(p *surface.PresetTool) { p.Arguments = nil })},
	{"a resource less", breaking, func(d docp) { shorter(&d.Resources) }},
	{"a resource more", compatible, func(d docp) { longer(&d.Resources, surface.Resource{URI: "rw://zz"}) }},
	{"a resource at another address", breaking, resource(func(r *surface.Resource) { r.URI += "2" })},
	{"a resource of another type", breaking, resource(func(r *surface.Resource) { r.MIMEType = "text/html" })},
	{"a resource that is a template or not", breaking, resource(func(r *surface.Resource) { r.Template = !r.Template })},
	{"a resource without updates", breaking, resource(func(r *surface.Resource) { r.Updates = false })},
	{"a resource in other words", words, resource(func(r *surface.Resource) { r.Description, r.Name, r.Title = "d", "n", "t" })},
	{"a prompt less", breaking, func(d docp) { shorter(&d.Prompts) }},
	{"a prompt more", compatible, func(d docp) { longer(&d.Prompts, surface.Prompt{Name: "zz"}) }},
	{"a prompt in other words", words, prompt(func(p *surface.Prompt) { p.Description, p.Title = "d", "t" })},
	{"a new required argument of a prompt", breaking, prompt(func(p *surface.Prompt) { longer(&p.Arguments, surface.Argument{Name: "zz", Required: true}) })},
	{"a new optional argument of a prompt", compatible, prompt(func(p *surface.Prompt) { longer(&p.Arguments, surface.Argument{Name: "zz"}) })},
	{"envelope: a field less", breaking, envelope(func(props, _ map[string]any) { delete(props, "retry_budget") })},
	{"envelope: a field more", compatible, envelope(func(props, _ map[string]any) { props["more"] = map[string]any{"type": "string"} })},
	{"envelope: a field of another type", breaking, envelope(func(props, _ map[string]any) { props["retry_budget"] = map[string]any{"type": "string"} })},
	{"envelope: another error", breaking, envelope(func(props, _ map[string]any) { enum(props["error"], "new") })},
	{"envelope: a closed context", breaking, envelope(func(_, context map[string]any) { context["additionalProperties"] = false })},
	{"envelope: a detail more", none, envelope(func(_, context map[string]any) { enum(context["properties"].(map[string]any)["reason"], "new") })},
	{"envelope: details no longer closed", breaking, envelope(func(_, context map[string]any) {
		delete(context["properties"].(map[string]any)["reason"].(map[string]any), "enum")
	})},
	{"no brief replies", breaking, func(d docp) { d.Brief = nil }},
	{"a brief reply less", breaking, brief(func(b *surface.Brief) { shorter(&b.Replies) })},
	{"a field of a brief reply less", breaking, brief(func(b *surface.Brief) { first(&b.Replies, func(r *surface.BriefReply) { shorter(&r.Fields) }) })},
	{"a field of a brief reply more", compatible, brief(func(b *surface.Brief) { first(&b.Replies, func(r *surface.BriefReply) { longer(&r.Fields, "zz") }) })},
	{"another action of a brief refusal", breaking, brief(func(b *surface.Brief) { first(&b.Actions, func(a *surface.BriefAction) { a.Action = "redact" }) })},
	{"another error in a brief refusal", breaking, brief(func(b *surface.Brief) {
		schemaOf(&b.Envelope, func(s map[string]any) { enum(s["properties"].(map[string]any)["error"], "new") })
	})},
	{"a preset replies in full", breaking, func(d docp) { first(&d.Presets, func(p *surface.Preset) { p.Brief = !p.Brief }) }},
	{"a tool less", breaking, func(d docp) { shorter(&d.Tools) }},
	{"a tool more", compatible, func(d docp) {
		longer(&d.Tools, surface.Tool{Name: "zz", Input: json.RawMessage("{}"), Output: json.RawMessage("{}")})
	}},
	{"a tool renamed", breaking, tool(func(t *surface.Tool) { t.Name += "_2" })},
	{"a tool in other words", words, tool(func(t *surface.Tool) { t.Title, t.Description = "t", "d" })},
	{"a tool of a lower tier", breaking, tool(func(t *surface.Tool) { t.Tier = "internal" })},
	{"a tool of an unknown tier", breaking, tool(func(t *surface.Tool) { t.Tier = "secret" })},
	{"an argument less", breaking, tool(func(t *surface.Tool) {
		schemaOf(&t.Input, func(s map[string]any) { s["properties"] = map[string]any{} })
	})},
	{"an object of a reply less", breaking, tool(func(t *surface.Tool) { t.Output = json.RawMessage(`{}`) })},
}

// TestEveryMutationOfTheSurfaceIsCalledWhatItIs changes each part of the real
// surface, then undoes it: what was compatible breaks on the way back.
func TestEveryMutationOfTheSurfaceIsCalledWhatItIs(t *testing.T) {
	list := documentMutations
	doc := real(t)
	one := doc.Tools[0].Annotations
	for _, a := range []struct {
		name string
		care bool // it asks for care now
		flip func(*surface.Annotations)
	}{
		{"read only", one.ReadOnly, func(a *surface.Annotations) { a.ReadOnly = !a.ReadOnly }},
		{"destructive", !one.Destructive, func(a *surface.Annotations) { a.Destructive = !a.Destructive }},
		{"idempotent", one.Idempotent, func(a *surface.Annotations) { a.Idempotent = !a.Idempotent }},
		{"open world", !one.OpenWorld, func(a *surface.Annotations) { a.OpenWorld = !a.OpenWorld }},
	} {
		class := map[bool]surface.Class{true: breaking, false: compatible}[a.care]
		list = append(list, mutation{a.name, class, tool(func(t *surface.Tool) { a.flip(&t.Annotations) })})
	}
	for _, m := range list {
		now := doc
		m.apply(&now)
		if list := surface.Compare(doc, now); surface.Worst(list) != m.class {
			t.Errorf("%s: %v, want %v: %v", m.name, surface.Worst(list), m.class, list)
		}
		list := surface.Compare(now, doc)
		want := back[m.class]
		testbed.Expect(t, want == none || surface.Worst(list) == want, "%s, undone: %v, want %v: %v", m.name, surface.Worst(list), want, list)
	}
}

// TestPromptArguments: what the prompts that exist do not happen to have.
func TestPromptArguments(t *testing.T) {
	doc := func(args ...surface.Argument) surface.Document {
		return surface.Document{Prompts: []surface.Prompt{{Name: "p", Arguments: args}}, Envelope: json.RawMessage(`{}`)}
	}
	must, may := surface.Argument{Name: "a", Required: true}, surface.Argument{Name: "a"}
	for _, row := range []struct {
		name     string
		old, now surface.Document
		want     surface.Class
	}{
		{"required now", doc(may), doc(must), breaking},
		{"no longer required", doc(must), doc(may), compatible},
		{"gone", doc(may), doc(), breaking},
		{"in other words", doc(may), doc(surface.Argument{Name: "a", Description: "d"}), words},
	} {
		list := surface.Compare(row.old, row.now)
		testbed.Expect(t, surface.Worst(list) == row.want, "%s: %v", row.name, list)
	}
}
