package mcpserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// Tier says who a tool is for. It decides which presets list it.
type Tier string

// The tiers.
const (
	Facade   Tier = "facade"   // every agent needs it
	Common   Tier = "standard" // listed unless the operator asks for less
	Advanced Tier = "advanced" // listed when the operator asks for more
	Internal Tier = "internal" // never listed
)

// Preset names a list of tools: what the --tier flag takes.
type Preset string

// The presets, each a part of the next one.
const (
	// Core is seven tools with their main arguments, for clients that pay for
	// each byte: less than 6 KB without schemas of the replies.
	Core Preset = "core"
	// Standard is everything a coding agent uses.
	Standard Preset = "standard"
	// Full adds the tools of operators and of unusual work, and describes the
	// fields of every reply.
	Full Preset = "full"
)

// Presets lists the presets, smallest first.
func Presets() []Preset { return []Preset{Core, Standard, Full} }

// ParsePreset reads the name of a preset; an error names the one that was
// probably meant.
func ParsePreset(name string) (Preset, error) {
	if p := Preset(name); slices.Contains(Presets(), p) {
		return p, nil
	}
	if near := schema.Closest(name, []string{"core", "standard", "full"}); near != "" {
		return "", fmt.Errorf("unknown tier %q; did you mean %s", name, near)
	}
	return "", fmt.Errorf("unknown tier %q; the tiers are core, standard and full", name)
}

// core is what the preset of that name lists: a tool, and the arguments that it
// lists. The other arguments work as well.
var core = map[string][]string{
	"safe_write":    {"path", "content", "mode", "expected_prev_sha256", "idempotency_key"},
	"edit":          {"path", "edits", "expected_prev_sha256"},
	"read":          {"path", "offset", "max_bytes"},
	"tx":            {"ops.op", "ops.path", "ops.content", "ops.mode", "ops.edits", "ops.to", "ops.expected_prev_sha256"},
	"chunk_append":  {"session", "content", "expect_index"},
	"chunk_compose": {"session", "output_path", "expected_prev_sha256"},
	"undo":          {"n"},
}

// lists reports whether the preset lists the tool.
func (p Preset) lists(t tool) bool {
	switch {
	case t.tier == Internal:
		return false
	case p == Core:
		return core[t.name] != nil
	case p == Full:
		return true
	}
	return t.tier == Facade || t.tier == Common
}

// input is the schema of the arguments as the preset lists it.
func (p Preset) input(t tool) json.RawMessage {
	if names := core[t.name]; p == Core && names != nil {
		return schema.BriefInput(t.in, names)
	}
	return schema.Input(t.in)
}

// outputs are the schemas of replies that were made, by outputKey: they are the
// same in every server, and making them is most of the work of a new one.
var outputs sync.Map

type outputKey struct {
	preset Preset
	name   string
	reply  reflect.Type
}

// output is the schema of the reply as the preset lists it.
func (p Preset) output(t tool) json.RawMessage {
	if p == Core {
		return schema.BriefOutput()
	}
	key := outputKey{p, t.name, t.out}
	if made, ok := outputs.Load(key); ok {
		return bytes.Clone(made.([]byte))
	}
	out := t.output()
	if p != Full {
		out = schema.WithoutDescriptions(out)
	}
	outputs.Store(key, bytes.Clone([]byte(out)))
	return out
}

// description is what the preset says of the tool: the core has the beginning,
// which says what the tool does and when to use it.
func (p Preset) description(t tool) string {
	if p != Core {
		return t.description
	}
	sentences := strings.SplitAfterN(t.description, ". ", 3)
	return strings.TrimSpace(strings.Join(sentences[:min(2, len(sentences))], ""))
}
