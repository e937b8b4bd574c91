package surface_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/surface"
)

// shorter, longer and first are copies of a list: without its first item, with
// one more, with another first one.
func shorter[T any](list []T) []T       { return slices.Clone(list)[1:] }
func longer[T any](list []T, one T) []T { return append(slices.Clone(list), one) }
func first[T any](list []T, f func(*T)) []T {
	out := slices.Clone(list)
	f(&out[0])
	return out
}

// documentMutations are the changes of everything but the tools.
func documentMutations(doc surface.Document) []mutation {
	var list []mutation
	add := func(what string, class surface.Class, f func(*surface.Document)) {
		target := "document " + what
		switch { // what the same lists are touched by
		case strings.Contains(what, "preset"), strings.Contains(what, "core"):
			target = "presets"
		case what == "details more":
			target = "envelope"
		}
		list = append(list, mutation{name: "document: " + what, target: target, class: class, undo: back(class), apply: func(d surface.Document) surface.Document {
			f(&d)
			return d
		}})
	}
	type doc_ = *surface.Document
	add("envelope version", breaking, func(d doc_) { d.EnvelopeVersion = "2" })
	add("a form of names less", breaking, func(d doc_) { d.Names = shorter(d.Names) })
	add("a form of names more", compatible, func(d doc_) { d.Names = longer(d.Names, "*") })
	for _, set := range []struct {
		name string
		list func(doc_) *[]string
	}{
		{"kinds", func(d doc_) *[]string { return &d.Kinds }}, {"reasons", func(d doc_) *[]string { return &d.Reasons }},
		{"actions", func(d doc_) *[]string { return &d.Actions }}, {"effects", func(d doc_) *[]string { return &d.Effects }},
	} {
		add(set.name+" less", breaking, func(d doc_) { *set.list(d) = shorter(*set.list(d)) })
		add(set.name+" more", breaking, func(d doc_) { *set.list(d) = longer(*set.list(d), "new_one") })
	}
	add("codes less", breaking, func(d doc_) { d.Codes = shorter(d.Codes) })
	add("codes more", breaking, func(d doc_) { d.Codes = longer(d.Codes, surface.Code{Name: "new", Number: 9}) })
	add("codes renumbered", breaking, func(d doc_) { d.Codes = first(d.Codes, func(c *surface.Code) { c.Number = 77 }) })
	add("details less", breaking, func(d doc_) { d.Details = shorter(d.Details) })
	add("details more", compatible, func(d doc_) { d.Details = longer(d.Details, surface.Detail{Name: "zzz_new"}) })
	add("details renamed", breaking, func(d doc_) { d.Details = first(d.Details, func(x *surface.Detail) { x.Name += "_2" }) })
	add("details of another kind", breaking, func(d doc_) { d.Details = first(d.Details, func(x *surface.Detail) { x.Kind = "blocked" }) })
	add("details of another reason", breaking, func(d doc_) { d.Details = first(d.Details, func(x *surface.Detail) { x.Reason = "network" }) })
	add("details of another action", breaking, func(d doc_) { d.Details = first(d.Details, func(x *surface.Detail) { x.Action = "escape" }) })
	add("details of another code", breaking, func(d doc_) { d.Details = first(d.Details, func(x *surface.Detail) { x.Code = 1 }) })
	add("details in other words", words, func(d doc_) { d.Details = first(d.Details, func(x *surface.Detail) { x.Hint = "do so" }) })
	add("warnings less", breaking, func(d doc_) { d.Warnings = shorter(d.Warnings) })
	add("warnings more", compatible, func(d doc_) { d.Warnings = longer(d.Warnings, surface.Warning{Name: "zzz_new"}) })
	add("warnings in other words", words, func(d doc_) { d.Warnings = first(d.Warnings, func(x *surface.Warning) { x.Hint = "do so" }) })
	add("environment less", breaking, func(d doc_) { d.Environment = shorter(d.Environment) })
	add("environment more", compatible, func(d doc_) { d.Environment = longer(d.Environment, surface.Variable{Name: "RW_ZZZ"}) })
	add("environment renamed", breaking, func(d doc_) { d.Environment = first(d.Environment, func(v *surface.Variable) { v.Name += "_2" }) })
	add("environment default", breaking, func(d doc_) { d.Environment = first(d.Environment, func(v *surface.Variable) { v.Default = "1" }) })
	add("environment flag", breaking, func(d doc_) { d.Environment = first(d.Environment, func(v *surface.Variable) { v.Flag = "other" }) })
	add("environment words", words, func(d doc_) { d.Environment = first(d.Environment, func(v *surface.Variable) { v.Meaning = "other" }) })
	add("a preset less", breaking, func(d doc_) { d.Presets = shorter(d.Presets) })
	add("a preset more", compatible, func(d doc_) { d.Presets = longer(d.Presets, surface.Preset{Name: "tiny"}) })
	core := func(f func(*surface.PresetTool)) func(doc_) {
		return func(d doc_) {
			d.Presets = first(d.Presets, func(p *surface.Preset) { p.Tools = first(p.Tools, f) })
		}
	}
	add("core tells of an argument less", breaking, core(func(p *surface.PresetTool) { p.Arguments = shorter(p.Arguments) }))
	add("core tells of an argument more", compatible, core(func(p *surface.PresetTool) { p.Arguments = longer(p.Arguments, "zzz") }))
	add("core tells of all arguments", compatible, core(func(p *surface.PresetTool) { p.Arguments = nil }))
	list = append(list, envelopeMutations()...)
	return append(list, listedMutations()...)
}

// envelopeMutations are changes of the schema of a refusal, which a server
// writes.
func envelopeMutations() []mutation {
	var list []mutation
	add := func(what string, class surface.Class, f func(map[string]any)) {
		list = append(list, mutation{name: "envelope: " + what, target: "envelope", class: class, undo: back(class), apply: func(d surface.Document) surface.Document {
			s := tree(d.Envelope)
			f(s)
			d.Envelope, _ = json.Marshal(s)
			return d
		}})
	}
	props := func(s map[string]any) map[string]any { return s["properties"].(map[string]any) }
	context := func(s map[string]any) map[string]any { return props(s)["context"].(map[string]any) }
	add("a field removed", breaking, func(s map[string]any) { delete(props(s), "retry_budget") })
	add("a field added", compatible, func(s map[string]any) { props(s)["more"] = map[string]any{"type": "string"} })
	add("a field not always there", breaking, func(s map[string]any) { s["required"] = shorter(s["required"].([]any)) })
	add("a field of another type", breaking, func(s map[string]any) { props(s)["retry_budget"] = map[string]any{"type": "string"} })
	add("another error", breaking, func(s map[string]any) {
		e := props(s)["error"].(map[string]any)
		e["enum"] = longer(e["enum"].([]any), any("new"))
	})
	add("another version", breaking, func(s map[string]any) { props(s)["schema_version"] = map[string]any{"const": "2"} })
	add("a closed context", breaking, func(s map[string]any) { context(s)["additionalProperties"] = false })
	add("a code more", breaking, func(s map[string]any) { props(context(s))["code"].(map[string]any)["maximum"] = 9 })
	add("a reason that no detail is", breaking, func(s map[string]any) {
		r := props(context(s))["reason"].(map[string]any)
		r["enum"] = longer(r["enum"].([]any), any("zzz"))
	})
	list = append(list, mutation{name: "envelope: a detail more, told in both places", target: "envelope", class: compatible, undo: breaking, apply: func(d surface.Document) surface.Document {
		s := tree(d.Envelope)
		r := props(context(s))["reason"].(map[string]any)
		r["enum"] = longer(r["enum"].([]any), any("zzz"))
		d.Envelope, _ = json.Marshal(s)
		d.Details = longer(d.Details, surface.Detail{Name: "zzz"})
		return d
	}})
	return list
}

// TestAnEnvelopeThatNamesOtherReasons is compared as it is written.
func TestAnEnvelopeThatNamesOtherReasons(t *testing.T) {
	doc := func(reasons, words string) surface.Document {
		return surface.Document{
			Details:  []surface.Detail{{Name: "a"}, {Name: "b"}},
			Envelope: json.RawMessage(`{"description":"` + words + `","properties":{"context":{"properties":{"reason":{"enum":[` + reasons + `]}}}}}`),
		}
	}
	for _, row := range []struct {
		old, now surface.Document
		want     surface.Class
	}{
		{doc(`"a"`, "x"), doc(`"a"`, "y"), words}, {doc(`"a","b"`, "x"), doc(`"b","a"`, "x"), none}, {doc(`"a"`, "x"), doc(`"a","b"`, "x"), breaking},
		{doc(`"a","b"`, "x"), doc(`"a","a"`, "x"), compatible}, {doc(`"a","b"`, "x"), doc(`"a","c"`, "x"), breaking},
	} {
		if list := surface.Compare(row.old, row.now); surface.Worst(list) != row.want {
			t.Errorf("%s, %s: %v", row.old.Envelope, row.now.Envelope, list)
		}
	}
}

// listedMutations are changes of resources and prompts.
func listedMutations() []mutation {
	var list []mutation
	add := func(what string, class surface.Class, f func(*surface.Document)) {
		list = append(list, mutation{name: "listed: " + what, target: "listed " + what, class: class, undo: back(class), apply: func(d surface.Document) surface.Document {
			f(&d)
			return d
		}})
	}
	resource := func(f func(*surface.Resource)) func(*surface.Document) {
		return func(d *surface.Document) { d.Resources = first(d.Resources, f) }
	}
	prompt := func(f func(*surface.Prompt)) func(*surface.Document) {
		return func(d *surface.Document) { d.Prompts = first(d.Prompts, f) }
	}
	add("a resource less", breaking, func(d *surface.Document) { d.Resources = shorter(d.Resources) })
	add("a resource more", compatible, func(d *surface.Document) { d.Resources = longer(d.Resources, surface.Resource{Address: "rw://zz"}) })
	add("a resource at another address", breaking, resource(func(r *surface.Resource) { r.Address += "2" }))
	add("a resource of another type", breaking, resource(func(r *surface.Resource) { r.MIMEType = "text/html" }))
	add("a resource that is a template or not", breaking, resource(func(r *surface.Resource) { r.Template = !r.Template }))
	add("a resource in other words", words, resource(func(r *surface.Resource) { r.Description, r.Name, r.Title = "d", "n", "t" }))
	add("a resource that tells of no changes", breaking, func(d *surface.Document) {
		d.Resources = slices.Clone(d.Resources)
		i := slices.IndexFunc(d.Resources, func(r surface.Resource) bool { return r.Updates })
		d.Resources[i].Updates = false
	})
	add("a prompt less", breaking, func(d *surface.Document) { d.Prompts = shorter(d.Prompts) })
	add("a prompt more", compatible, func(d *surface.Document) { d.Prompts = longer(d.Prompts, surface.Prompt{Name: "zz"}) })
	add("a prompt in other words", words, prompt(func(p *surface.Prompt) { p.Description, p.Title = "d", "t" }))
	add("a prompt asks for one thing more", breaking, prompt(func(p *surface.Prompt) {
		p.Arguments = longer(p.Arguments, surface.Argument{Name: "zz", Required: true})
	}))
	add("a prompt takes one thing more", compatible, prompt(func(p *surface.Prompt) { p.Arguments = longer(p.Arguments, surface.Argument{Name: "zz"}) }))
	return list
}

// TestPresetsTellWhatTiersDoNot: a tool that a preset drops while its tier rises
// is a loss all the same.
func TestPresetsTellWhatTiersDoNot(t *testing.T) {
	doc := func(tier string, shown bool, args ...string) surface.Document {
		d := surface.Document{Presets: []surface.Preset{{Name: "core"}}}
		if tier != "" {
			d.Tools = []surface.Tool{{Name: "a", Tier: tier, Input: json.RawMessage(`{}`), Output: json.RawMessage(`{}`)}}
		}
		if shown {
			d.Presets[0].Tools = []surface.PresetTool{{Name: "a", Arguments: args}}
		}
		return d
	}
	for _, row := range []struct {
		name     string
		old, now surface.Document
		want     []string
	}{
		{"dropped though its tier rose", doc("standard", true), doc("facade", false), []string{"breaking presets/core/a", "compatible tools/a/tier"}},
		{"dropped with its tier", doc("standard", true), doc("advanced", false), []string{"breaking tools/a/tier"}},
		{"dropped alone", doc("standard", true), doc("standard", false), []string{"breaking presets/core/a"}},
		{"shown though its tier fell", doc("standard", false), doc("advanced", true), []string{"compatible presets/core/a", "breaking tools/a/tier"}},
		{"shown with its tier", doc("standard", false), doc("facade", true), []string{"compatible tools/a/tier"}},
		{"gone", doc("standard", true), doc("", false), []string{"breaking tools/a"}},
		{"new", doc("", false), doc("standard", true), []string{"compatible tools/a"}},
		{"an argument less while its tier rose", doc("standard", true, "x", "y"), doc("facade", true, "x"), []string{"breaking presets/core/a/y", "compatible tools/a/tier"}},
	} {
		var got []string
		for _, d := range surface.Compare(row.old, row.now) {
			got = append(got, d.Class.String()+" "+d.Address)
		}
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v", row.name, got, row.want)
		}
	}
}

// TestPromptArguments: what the prompts that there are do not happen to have.
func TestPromptArguments(t *testing.T) {
	doc := func(args ...surface.Argument) surface.Document {
		return surface.Document{Prompts: []surface.Prompt{{Name: "p", Arguments: args}}}
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
		if list := surface.Compare(row.old, row.now); surface.Worst(list) != row.want {
			t.Errorf("%s: %v", row.name, list)
		}
	}
}
