// Package surface describes everything a client of the MCP server can see, as one
// document. Its tests classify the differences between two versions: those that break a
// client that was written for the older one, those that do not, and those of wording
// only. docs/governance.md describes the use of these classes.
package surface

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/resilientwrite/resilientwrite/internal/jsontext"
)

// Document is the surface of one version. Its lists are in an order of their
// own, so that the same surface is always the same bytes. The tag differs says
// how the tests compare a field.
type Document struct {
	SchemaVersion   string          `json:"schema_version"`
	EnvelopeVersion string          `json:"envelope_version" differs:"breaks"`
	Names           []string        `json:"names" differs:"list"`               // how a tool can be called; * is its name
	Tools           []Tool          `json:"tools" differs:"list"`               // by name
	Presets         []Preset        `json:"presets" differs:"list"`             // smallest first
	Kinds           []string        `json:"kinds" differs:"closed"`             // closed
	Reasons         []string        `json:"reasons" differs:"closed"`           // closed
	Actions         []string        `json:"actions" differs:"closed"`           // closed
	Effects         []string        `json:"effects" differs:"closed"`           // closed
	Codes           []Code          `json:"codes" differs:"closed"`             // closed, by number
	Details         []Detail        `json:"details" differs:"list"`             // by name
	Warnings        []Warning       `json:"warnings" differs:"list"`            // by name
	Envelope        json.RawMessage `json:"envelope" differs:"envelope"`        // schema of a refusal
	Brief           *Brief          `json:"brief,omitempty" differs:"optional"` // absent before 0.2.0
	Environment     []Variable      `json:"environment" differs:"list"`         // by name
	Resources       []Resource      `json:"resources" differs:"list"`           // by address
	Prompts         []Prompt        `json:"prompts" differs:"list"`             // by name
}

// Tool is one tool with everything that is said of it. Names are without the
// prefix of the wire.
type Tool struct {
	Name        string          `json:"name"`
	Title       string          `json:"title" differs:"words"`
	Tier        string          `json:"tier" differs:"tier"`
	Description string          `json:"description" differs:"words"`
	Annotations Annotations     `json:"annotations" differs:"inside"`
	Input       json.RawMessage `json:"input" differs:"input"`
	Output      json.RawMessage `json:"output" differs:"output"`
}

// Annotations are what clients decide by whether a call needs to be asked for.
type Annotations struct {
	ReadOnly    bool `json:"read_only" differs:"freer"`
	Destructive bool `json:"destructive" differs:"stricter"`
	Idempotent  bool `json:"idempotent" differs:"freer"`
	OpenWorld   bool `json:"open_world" differs:"stricter"`
}

// Preset is a list of tools that a server can be configured to show.
type Preset struct {
	Name  string       `json:"name"`
	Tools []PresetTool `json:"tools" differs:"inside"`           // by name
	Brief bool         `json:"brief,omitempty" differs:"breaks"` // replies are brief unless the operator configures otherwise
}

// Brief is what brief replies hold.
type Brief struct {
	Envelope json.RawMessage `json:"envelope" differs:"envelope"` // schema of a refusal
	Replies  []BriefReply    `json:"replies" differs:"list"`      // of the tools of the default list, by name
	Actions  []BriefAction   `json:"actions" differs:"list"`      // those that differ from the full refusal, by detail
}

// BriefReply is the fields of a brief success.
type BriefReply struct {
	Name   string   `json:"name"`
	Fields []string `json:"fields" differs:"inside"`
}

// BriefAction is the suggested action of a detail.
type BriefAction struct {
	Name   string `json:"reason"`
	Action string `json:"suggested_action" differs:"here"`
}

// PresetTool is a tool of a preset.
type PresetTool struct {
	Name      string   `json:"name"`
	Arguments []string `json:"arguments,omitempty" differs:"shown"` // those it names, when not all
}

// Code is a numeric class of outcomes.
type Code struct {
	Name   string `json:"name"`
	Number int    `json:"number"`
}

// Detail is one exact failure and its meaning for the caller.
type Detail struct {
	Name   string `json:"name"`
	Kind   string `json:"error" differs:"breaks"`
	Reason string `json:"reason_hint" differs:"breaks"`
	Action string `json:"suggested_action" differs:"breaks"`
	Code   int    `json:"code" differs:"breaks"`
	Hint   string `json:"hint" differs:"words"`
}

// Warning is a reason that appears in warnings.
type Warning struct {
	Name string `json:"reason"`
	Hint string `json:"hint" differs:"words"`
}

// Resource is something that can be read by address.
type Resource struct {
	URI         string `json:"address"` // a URI, or a template of one
	Name        string `json:"name" differs:"words"`
	Title       string `json:"title" differs:"words"`
	Description string `json:"description" differs:"words"`
	MIMEType    string `json:"mime_type" differs:"breaks"` // "" if it depends on the resource
	Template    bool   `json:"template,omitempty" differs:"breaks"`
	Updates     bool   `json:"updates,omitempty" differs:"freer"` // subscribers hear of changes
}

// Prompt is a text that a user can ask for.
type Prompt struct {
	Name        string     `json:"name"`
	Title       string     `json:"title" differs:"words"`
	Description string     `json:"description" differs:"words"`
	Arguments   []Argument `json:"arguments,omitempty" differs:"inside"`
}

// Argument is one argument of a prompt.
type Argument struct {
	Name        string `json:"name"`
	Description string `json:"description" differs:"words"`
	Required    bool   `json:"required" differs:"stricter"`
}

// Encode writes the document in the form that testdata/surface stores.
func (d Document) Encode() ([]byte, error) {
	return jsontext.Encode(d, " ")
}

// Decode reads the output of [Document.Encode]. It refuses unknown members, because
// they would not be compared.
func Decode(data []byte) (Document, error) {
	var d Document
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&d); err != nil {
		return Document{}, fmt.Errorf("surface: %w", err)
	}
	return d, nil
}

// Variable is an environment variable that the command reads.
type Variable struct {
	Name    string `json:"name"`
	Flag    string `json:"flag,omitempty" differs:"flag"` // the flag that wins over it
	Default string `json:"default" differs:"breaks"`
	Meaning string `json:"meaning" differs:"words"`
}

// Environment lists the variables that the command reads, by name. The
// library reads none. A test compares the list with the source of the command.
func Environment() []Variable {
	return []Variable{
		{"RW_ALLOW_UNSAFE_ROOT", "allow-unsafe-root", "", "1 accepts a system or home directory as the workspace."},
		{"RW_POLICY_FILE", "policy-file", "policy.yaml in the state directory", "The policy file, absolute or relative to the workspace."},
		{"RW_REPLIES", "replies", "full with --tier full and --dotted-names, otherwise brief", "The form of replies: brief or full."},
		{"RW_SCRATCH_DISABLE_GET", "", "", "Any value: the scratchpad and refused drafts cannot be read back."},
		{"RW_STATE_DIR", "state-dir", "the one that exists, else in the git directory of the repository, in the user's state, or .resilient_write in the workspace", "The state directory."},
		{"RW_SYNC", "sync", "full", "What a successful call has on stable storage: full, journal or off."},
		{"RW_TOKEN", "token", "", "The bearer token of HTTP clients. Without one, and without a file that holds one, a token is generated and printed once."},
		{"RW_WORKSPACE", "root", "the working directory", "The workspace."},
	}
}
