package toolbox

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
	Facade   Tier = "facade"   // listed by every preset
	Common   Tier = "standard" // listed unless the operator asks for less
	Advanced Tier = "advanced" // listed when the operator asks for more
	Internal Tier = "internal" // never listed
)

// Preset names a list of tools: what the --tier flag takes.
type Preset string

// The presets, each a part of the next one.
const (
	// Core is seven tools, for clients that pay for each byte.
	Core Preset = "core"
	// Standard is the twelve tools that a coding agent needs, in 9 kB.
	Standard Preset = "standard"
	// Full is every tool with every argument.
	Full Preset = "full"
)

// Presets lists the presets, smallest first.
func Presets() []Preset { return []Preset{Core, Standard, Full} }

// ParsePreset reads the name of a preset; an error names the one that was
// probably meant.
func ParsePreset(name string) (Preset, error) { return parse("tier", name, Presets()) }

// Replies is the form of replies: what the --replies flag takes.
type Replies string

// The forms.
const (
	// BriefReplies are one block of text with what a model needs.
	BriefReplies Replies = "brief"
	// FullReplies are structured content that conforms to an output schema, and
	// the same JSON as text, with the receipt.
	FullReplies Replies = "full"
)

// ParseReplies reads the name of a form.
func ParseReplies(name string) (Replies, error) {
	return parse("replies", name, []Replies{BriefReplies, FullReplies})
}

func parse[T ~string](what, name string, list []T) (T, error) {
	if slices.Contains(list, T(name)) {
		return T(name), nil
	}
	if near := schema.Closest(name, texts(list)); near != "" {
		return "", fmt.Errorf("unknown %s %q; did you mean %s", what, name, near)
	}
	return "", fmt.Errorf("unknown %s %q; it is one of %s", what, name, strings.Join(texts(list), ", "))
}

// tier is who the tool is for.
func (t tool) tier() Tier {
	switch l := listing[t.name]; {
	case l == nil:
		return Advanced
	case l.core:
		return Facade
	}
	return Common
}

// Lists reports whether the preset lists the tools of a tier.
func (p Preset) Lists(t Tier) bool {
	switch t {
	case Facade:
		return true
	case Common:
		return p != Core
	}
	return p == Full
}

// input is the schema of the arguments as the preset lists it.
func (p Preset) input(t tool) json.RawMessage {
	switch l := listing[t.name]; {
	case p == Full:
		return schema.Input(t.in)
	case l != nil:
		return schema.BriefInput(t.in, l.args)
	}
	return schema.BriefInput(t.in, schema.Arguments(t.in, rare))
}

// outputs are the schemas of replies that were made, by outputKey: they are the
// same in every server, and making them is most of the work of a new one.
var outputs sync.Map

type outputKey struct {
	name  string
	reply reflect.Type
}

// output is the schema of the full reply: the fields of the type, and
// next_actions where the tool has them.
func (t tool) output() json.RawMessage {
	key := outputKey{t.name, t.out}
	if made, ok := outputs.Load(key); ok {
		return bytes.Clone(made.([]byte))
	}
	var more []schema.Member
	if next[t.name] != nil {
		more = append(more, schema.Field[[]NextAction]("next_actions", "Suggested next calls, at most three."))
	}
	out := json.RawMessage(NameTools(string(schema.Output(t.out, more...))))
	outputs.Store(key, bytes.Clone([]byte(out)))
	return out
}

// description is what the preset says of the tool. Where there is no short
// text, that is the beginning, which says what the tool does and when to use
// it.
func (p Preset) description(t tool) string {
	switch l := listing[t.name]; {
	case p == Full:
		return t.description
	case l != nil:
		return l.text
	}
	sentences := strings.SplitAfterN(t.description, ". ", 3)
	return strings.TrimSpace(strings.Join(sentences[:min(2, len(sentences))], ""))
}

func texts[T ~string](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = string(v)
	}
	return out
}

// SchemaVersion is the version of the surface: tools, arguments, replies,
// enums, environment. It moves by the rules of docs/governance.md, apart from
// the version of the library.
const SchemaVersion = "0.2.0"
