package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/surface"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

func envelopeSchema(make func() (json.RawMessage, error)) []byte {
	doc, err := make()
	if err != nil {
		panic(err)
	}
	return pretty(doc)
}

const surfaceText = `# The surface

What a client can see besides the [tools](tools.md) and the [errors](errors.md), at version %s of the surface. [governance.md](governance.md)
says how it may change, [mcp-schema-changelog.md](mcp-schema-changelog.md) how it did.

## Presets

The flag ` + "`--tier`" + ` chooses which tools are listed. It is a setting of the process: every connection sees one list. A tool that is not
listed can be called all the same.

| tool | tier | %s |
|---|---|%s
`

// surfaceDoc tells of presets, warnings, resources, prompts and variables.
func surfaceDoc() []byte {
	data, err := mcpserver.Surface()
	if err != nil {
		panic(err)
	}
	doc, err := surface.Decode(data)
	if err != nil {
		panic(err)
	}
	var b strings.Builder
	b.WriteString(generated)
	var names []string
	for _, p := range doc.Presets {
		names = append(names, p.Name)
	}
	fmt.Fprintf(&b, surfaceText, doc.SchemaVersion, strings.Join(names, " | "), strings.Repeat("---|", len(names)))
	for _, t := range doc.Tools {
		fmt.Fprintf(&b, "| `rw_%s` | %s |", t.Name, t.Tier)
		for _, p := range doc.Presets {
			fmt.Fprintf(&b, " %s |", shownBy(p, t.Name))
		}
		b.WriteString("\n")
	}
	listWarnings(&b, doc)
	listAddresses(&b, doc)
	listEnvironment(&b, doc)
	return []byte(b.String())
}

// shownBy says whether a preset lists a tool, and of which arguments it tells
// when not of all.
func shownBy(p surface.Preset, tool string) string {
	for _, t := range p.Tools {
		switch {
		case t.Name != tool:
		case len(t.Arguments) == 0:
			return "yes"
		default:
			return "`" + strings.Join(t.Arguments, "` `") + "`"
		}
	}
	return ""
}

func listWarnings(b *strings.Builder, doc surface.Document) {
	b.WriteString("\n## Warnings\n\nWhat may stand in `warnings` of a reply although the call succeeded.\n\n| reason | meaning |\n|---|---|\n")
	for _, w := range doc.Warnings {
		fmt.Fprintf(b, "| `%s` | %s |\n", w.Name, w.Hint)
	}
}

func listAddresses(b *strings.Builder, doc surface.Document) {
	if len(doc.Resources) > 0 {
		b.WriteString("\n## Resources\n\n| address | what it is | subscribers hear of changes |\n|---|---|---|\n")
	}
	for _, r := range doc.Resources {
		updates := "no"
		if r.Updates {
			updates = "yes"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", r.Address, r.Description, updates)
	}
	if len(doc.Prompts) > 0 {
		b.WriteString("\n## Prompts\n\n| prompt | arguments | what it is for |\n|---|---|---|\n")
	}
	for _, p := range doc.Prompts {
		var args []string
		for _, a := range p.Arguments {
			if a.Required {
				args = append(args, "`"+a.Name+"` (required)")
			} else {
				args = append(args, "`"+a.Name+"`")
			}
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", p.Name, strings.Join(args, ", "), p.Description)
	}
}

func listEnvironment(b *strings.Builder, doc surface.Document) {
	b.WriteString("\n## Environment\n\nThe command reads these variables; the library reads none. A flag wins over its variable.\n\n| variable | flag | default | meaning |\n|---|---|---|---|\n")
	for _, v := range doc.Environment {
		flag := ""
		if v.Flag != "" {
			flag = "`--" + v.Flag + "`"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s | %s |\n", v.Name, flag, v.Default, v.Meaning)
	}
}
