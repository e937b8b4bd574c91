package mcpserver

import (
	"github.com/mark3labs/mcp-go/mcp"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/surface"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// Surface is everything that a client can see, as one JSON document: tools with their
// schemas, tiers and annotations, presets, closed sets, details, warnings, the schema
// of a refusal, environment variables, resources and prompts. The same code always
// gives the same bytes. testdata/surface keeps one such document for each released
// [toolbox.SchemaVersion], and docs/governance.md describes how changes are reviewed.
func Surface() ([]byte, error) {
	doc, err := surfaceDocument()
	if err != nil {
		return nil, err
	}
	return doc.Encode()
}

// surfaceDocument gathers the tables that the surface is made of.
func surfaceDocument() (surface.Document, error) {
	envelope, err := toolbox.EnvelopeSchema()
	if err != nil {
		return surface.Document{}, err
	}
	brief, err := toolbox.BriefEnvelopeSchema()
	if err != nil {
		return surface.Document{}, err
	}
	replies := mapped(toolbox.BriefForms(), func(b toolbox.BriefForm) surface.BriefReply {
		return surface.BriefReply{Name: b.Name, Fields: b.Fields}
	})
	return surface.Document{
		SchemaVersion:   toolbox.SchemaVersion,
		EnvelopeVersion: rw.EnvelopeVersion,
		Names:           []string{"rw_*", "rw.*"},
		Tools:           mapped(toolbox.Table(), surfaceTool),
		Presets:         surfacePresets(),
		Kinds:           mapped(rw.Kinds(), text),
		Reasons:         mapped(rw.Reasons(), text),
		Actions:         mapped(toolbox.EnvelopeActions(), text),
		Effects:         mapped(rw.Effects(), text),
		Codes:           codes,
		Details:         mapped(rw.Details(), surfaceDetail),
		Warnings:        mapped(call.Warnings(), surfaceWarning),
		Envelope:        envelope,
		Brief:           &surface.Brief{Envelope: brief, Replies: replies, Actions: surfaceActions()},
		Environment:     surface.Environment(),
		Resources:       mapped(Resources(), func(r ResourceInfo) surface.Resource { return surface.Resource(r) }),
		Prompts:         mapped(Prompts(), surfacePrompt),
	}, nil
}

// codes are the numeric classes of outcomes, as describe names them.
var codes = []surface.Code{
	{Name: "ok", Number: int(rw.CodeOK)}, {Name: "internal", Number: int(rw.CodeInternal)},
	{Name: "usage", Number: int(rw.CodeUsage)}, {Name: "permission", Number: int(rw.CodePermission)},
	{Name: "not_found", Number: int(rw.CodeNotFound)}, {Name: "invalid", Number: int(rw.CodeInvalid)},
	{Name: "precondition", Number: int(rw.CodePrecondition)}, {Name: "storage", Number: int(rw.CodeStorage)},
	{Name: "policy", Number: int(rw.CodePolicy)},
}

func surfaceTool(t ToolInfo) surface.Tool {
	return surface.Tool{
		Name: t.Name, Title: t.Title, Tier: string(t.Tier), Description: t.Description,
		Annotations: surface.Annotations{ReadOnly: t.ReadOnly, Destructive: t.Destructive, Idempotent: t.Idempotent},
		Input:       t.Input, Output: t.Output,
	}
}

// surfacePresets lists the tools of each preset, and the arguments that it
// lists when not all.
func surfacePresets() []surface.Preset {
	short := map[string][]string{}
	for _, b := range toolbox.BriefForms() {
		short[b.Name] = b.Arguments
	}
	var list []surface.Preset
	for _, p := range toolbox.Presets() {
		one := surface.Preset{Name: string(p), Tools: []surface.PresetTool{}, Brief: toolbox.New(nil, &toolbox.Options{Tier: p}).Replies() == BriefReplies}
		for _, t := range toolbox.Table() {
			if !p.Lists(t.Tier) {
				continue
			}
			shown := surface.PresetTool{Name: t.Name}
			if p != Full {
				shown.Arguments = short[t.Name]
			}
			one.Tools = append(one.Tools, shown)
		}
		list = append(list, one)
	}
	return list
}

func surfaceActions() []surface.BriefAction {
	var list []surface.BriefAction
	for _, d := range rw.Details() {
		if e := rw.NewError("", d, "", nil); e.Action != e.Envelope().SuggestedAction {
			list = append(list, surface.BriefAction{Name: string(d), Action: string(e.Action)})
		}
	}
	return list
}

func surfacePrompt(p mcp.Prompt) surface.Prompt {
	one := surface.Prompt{Name: p.Name, Title: p.Title, Description: p.Description}
	for _, a := range p.Arguments {
		one.Arguments = append(one.Arguments, surface.Argument{Name: a.Name, Description: a.Description, Required: a.Required})
	}
	return one
}

func surfaceDetail(d rw.Detail) surface.Detail {
	kind, reason, _, code, hint := d.Describe()
	action := rw.NewError("", d, "", nil).Envelope().SuggestedAction
	return surface.Detail{
		Name: string(d), Kind: string(kind), Reason: string(reason), Action: string(action), Code: int(code), Hint: toolbox.NameTools(hint),
	}
}

func surfaceWarning(w rw.Warning) surface.Warning {
	return surface.Warning{Name: w.Reason, Hint: toolbox.NameTools(w.Hint)}
}

func text[T ~string](v T) string { return string(v) }

func mapped[In, Out any](list []In, f func(In) Out) []Out {
	out := make([]Out, len(list))
	for i, v := range list {
		out[i] = f(v)
	}
	return out
}
