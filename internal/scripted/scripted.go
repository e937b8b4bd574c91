// Package scripted is a language model that follows a script, for the tests of
// the adapters: it writes a file with a credential in it, is refused, redacts
// the draft, and writes the result.
package scripted

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Path is the file that the model wants to write.
const Path = "deploy.env"

// Done is the last message of the model, after the file is written.
const Done = "deploy.env is written, without the credential."

// credential looks like one, and is made at run time.
func credential() string { return strings.Join([]string{"AKIA", "QZ7RTN4W", "MXJ2KVHD"}, "") }

// Model is one conversation. Its zero value is at the beginning.
type Model struct{ step int }

// Call is a call that the model makes.
type Call struct {
	ID        string // unique, in the form of a provider's
	Name      string
	Arguments string // a JSON object
}

// Next returns the call that follows the answer to the previous one, which is "" at
// first, or nil if the file is written. An answer that the script does not expect is an
// error.
func (m *Model) Next(answer string) (*Call, error) {
	var a struct {
		OK      bool
		Path    string
		Content string
		Action  string `json:"suggested_action"`
		Context struct {
			Draft string `json:"draft_ref"`
		}
	}
	if m.step > 0 {
		if err := json.Unmarshal([]byte(answer), &a); err != nil {
			return nil, fmt.Errorf("step %d: the answer is no JSON: %q", m.step, answer)
		}
		if strings.Contains(answer, credential()) {
			return nil, fmt.Errorf("step %d: the answer repeats the credential", m.step)
		}
	}
	m.step++
	switch {
	case m.step == 1:
		return m.call("rw_safe_write", map[string]any{"path": Path, "content": "KEY=" + credential() + "\nREPLICAS=3\n"}), nil
	case m.step == 2 && !a.OK && a.Action == "redact" && a.Context.Draft != "":
		return m.call("rw_redact", map[string]any{"draft_ref": a.Context.Draft}), nil
	case m.step == 3 && a.OK && strings.Contains(a.Content, "REPLICAS=3"):
		return m.call("rw_safe_write", map[string]any{"path": Path, "content": a.Content}), nil
	case m.step == 4 && a.OK && a.Path == Path:
		return nil, nil
	}
	return nil, fmt.Errorf("step %d: unexpected answer %s", m.step, answer)
}

func (m *Model) call(name string, args map[string]any) *Call {
	doc, _ := json.Marshal(args) // texts only
	return &Call{ID: fmt.Sprintf("call_%020d", m.step), Name: name, Arguments: string(doc)}
}

// Tools checks the list of tools that the model was given: names, descriptions and JSON
// Schemas.
func Tools(list map[string]json.RawMessage) error {
	for _, name := range []string{"rw_safe_write", "rw_redact", "rw_tx"} {
		var schema struct {
			Type       string
			Properties map[string]any
			Required   []string
		}
		if err := json.Unmarshal(list[name], &schema); err != nil || schema.Type != "object" || len(schema.Properties) < 2 {
			return fmt.Errorf("%s: no schema of its arguments: %s", name, list[name])
		}
		if name == "rw_tx" && (len(schema.Required) == 0 || !strings.Contains(string(list[name]), `"items"`)) {
			return fmt.Errorf("%s: the schema lost its inside: %s", name, list[name])
		}
	}
	return nil
}

// Check checks the workspace at the end.
func Check(dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, Path))
	if err != nil {
		return err
	}
	if text := string(data); !strings.Contains(text, "REPLICAS=3") || !strings.Contains(text, "REDACTED") || strings.Contains(text, credential()) {
		return fmt.Errorf("the file has %q", data)
	}
	return nil
}
