package resilientwrite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/frontmatter"
	"github.com/resilientwrite/resilientwrite/internal/layer/handoff"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// HandoffStatus is how far the task of a handoff is.
type HandoffStatus string

const (
	HandoffComplete  HandoffStatus = "complete"   // nothing is left to do
	HandoffPartial   HandoffStatus = "partial"    // stopped on the way
	HandoffBlocked   HandoffStatus = "blocked"    // cannot go on without help
	HandoffHandedOff HandoffStatus = "handed_off" // another agent continues
)

// handoffStatuses are the choices of the field status.
var handoffStatuses = []string{string(HandoffComplete), string(HandoffPartial), string(HandoffBlocked), string(HandoffHandedOff)}

// HandoffEnvelope is what one agent leaves for the next: the front matter of a
// handoff. Fields that it does not know are kept in Extra, in their order, and
// so are those of the things it lists.
type HandoffEnvelope struct {
	// Identifier of the task, the same in all of its handoffs.
	TaskID string `json:"task_id"`
	// Progress of the task.
	Status HandoffStatus `json:"status" enum:"complete,partial,blocked,handed_off"`
	// Who writes the handoff.
	Agent string `json:"agent"`
	// What was done and the current state, for a reader with no prior knowledge.
	Summary string `json:"summary"`
	// What to do next, in order; may be empty.
	NextSteps []string `json:"next_steps"`
	// The files the next agent may build on, with their hashes; may be empty.
	// Optional with auto_state.
	LastGoodState []HandoffFile `json:"last_good_state"`
	// When the task began, RFC 3339.
	StartedAt string `json:"started_at,omitempty"`
	// When the handoff was written, RFC 3339 UTC. Always set by the server.
	UpdatedAt string `json:"updated_at,omitempty"`
	// What was learned and cannot be seen in the files.
	ContextHints []string `json:"context_hints,omitempty"`
	// Questions that only a person can decide.
	OpenQuestions []string `json:"open_questions,omitempty"`
	// What blocks the task.
	Blockers []string `json:"blockers,omitempty"`
	// What the task produced.
	Artifacts []HandoffArtifact `json:"artifacts,omitempty"`
	// The steps of the task and their dependencies.
	DependencyGraph []HandoffStep `json:"dependency_graph,omitempty"`
	// What was tested or reviewed, and how.
	Verified []string `json:"verified,omitempty"`
	// Conditions that the result must meet.
	Requirements []string       `json:"requirements,omitempty"`
	Extra        []HandoffField `json:"-" extra:"true"`
}

// HandoffFile is a file as it was when all was well.
type HandoffFile struct {
	// Path of the file, relative to the workspace.
	Path string `json:"path" required:"true"`
	// SHA-256 of the file.
	SHA256 string `json:"sha256" required:"true"`
	// Size of the file in bytes.
	Bytes int64          `json:"bytes,omitempty" min:"0"`
	Extra []HandoffField `json:"-" extra:"true"`
}

// HandoffArtifact is something that the task made.
type HandoffArtifact struct {
	// Type of the artifact: pdf, binary, report …
	Kind string `json:"kind,omitempty"`
	// Path, relative to the workspace.
	Path string `json:"path,omitempty"`
	// SHA-256 of the artifact.
	SHA256 string         `json:"sha256,omitempty"`
	Extra  []HandoffField `json:"-" extra:"true"`
}

// HandoffStep is one step of a task.
type HandoffStep struct {
	// Unique identifier of the step.
	ID string `json:"id" required:"true"`
	// Identifiers of the steps that must be done first.
	DependsOn []string `json:"depends_on,omitempty"`
	// What the step is.
	Description string `json:"description,omitempty"`
	// Progress of the step; done and complete mean that it is finished.
	Status string         `json:"status,omitempty"`
	Extra  []HandoffField `json:"-" extra:"true"`
}

// HandoffField is a field that this version does not know.
type HandoffField struct {
	Name  string
	Value json.RawMessage
}

// MarshalJSON writes the known fields, then those in Extra.
func (e HandoffEnvelope) MarshalJSON() ([]byte, error) { return schema.Encode(e) }

// MarshalJSON writes the known fields, then those in Extra.
func (f HandoffFile) MarshalJSON() ([]byte, error) { return schema.Encode(f) }

// MarshalJSON writes the known fields, then those in Extra.
func (a HandoffArtifact) MarshalJSON() ([]byte, error) { return schema.Encode(a) }

// MarshalJSON writes the known fields, then those in Extra.
func (st HandoffStep) MarshalJSON() ([]byte, error) { return schema.Encode(st) }

// UnmarshalJSON reads an envelope strictly: a known field of another type is
// an error, an unknown one is kept in Extra.
func (e *HandoffEnvelope) UnmarshalJSON(data []byte) error {
	var fresh HandoffEnvelope
	if _, err := schema.Decode(context.Background(), data, &fresh); err != nil {
		return err
	}
	*e = fresh
	return nil
}

// missing lists the required fields that are absent.
func (e *HandoffEnvelope) missing() []string {
	list := []string{}
	for _, f := range []struct {
		name   string
		absent bool
	}{
		{"task_id", e.TaskID == ""}, {"status", e.Status == ""}, {"agent", e.Agent == ""}, {"summary", e.Summary == ""},
		{"next_steps", e.NextSteps == nil}, {"last_good_state", e.LastGoodState == nil},
	} {
		if f.absent {
			list = append(list, f.name)
		}
	}
	return list
}

// check validates an envelope before it is written.
func (e *HandoffEnvelope) check(auto AutoState) *fault.Fault {
	missing := e.missing()
	if n := len(missing); n > 0 && auto != "" && missing[n-1] == "last_good_state" {
		missing = missing[:n-1]
	}
	if len(missing) > 0 {
		return fault.New(fault.MissingFields).With("missing_fields", missing).
			Hintf("the envelope needs %s; a list may be empty but must be present", strings.Join(missing, ", "))
	}
	if !isOneOf(string(e.Status), handoffStatuses) {
		return badChoice("envelope.status", handoffStatuses...)
	}
	for i, f := range e.LastGoodState {
		at := fmt.Sprintf("envelope.last_good_state[%d]", i)
		if f.Path == "" {
			return fault.New(fault.InvalidArgument).With("argument", at+".path").Hintf("%s.path is required", at)
		}
		if !engine.ValidSHA256(strings.ToLower(f.SHA256)) {
			return fault.New(fault.BadSHA256).With("argument", at+".sha256")
		}
	}
	return handoff.Check(stepsOf(e.DependencyGraph))
}

func isOneOf(word string, list []string) bool {
	for _, x := range list {
		if x == word {
			return true
		}
	}
	return false
}

// document makes the file of a handoff.
func (e HandoffEnvelope) document(body string, at time.Time) ([]byte, *fault.Fault) {
	e.UpdatedAt = at.UTC().Format(time.RFC3339)
	if e.LastGoodState == nil {
		e.LastGoodState = []HandoffFile{}
	}
	for i := range e.LastGoodState {
		e.LastGoodState[i].SHA256 = strings.ToLower(e.LastGoodState[i].SHA256)
	}
	if text := e.invalidText(); text != "" || !utf8.ValidString(body) {
		if text == "" {
			text = "body"
		}
		return nil, fault.New(fault.NotValidUTF8).With("argument", text).Hintf("%s is not valid UTF-8", text)
	}
	data, err := e.MarshalJSON()
	if err != nil {
		return nil, badEnvelope(err)
	}
	var m frontmatter.Map
	if err := m.UnmarshalJSON(data); err != nil {
		return nil, badEnvelope(err)
	}
	doc, err := frontmatter.Join(&m, []byte(body))
	if err != nil {
		return nil, badEnvelope(err)
	}
	return doc, nil
}

// invalidText names the first text of an envelope made in Go that is not UTF-8,
// because JSON would silently replace its bytes.
func (e *HandoffEnvelope) invalidText() string {
	type text struct {
		name   string
		values []string
	}
	list := []text{
		{"task_id", []string{e.TaskID}}, {"agent", []string{e.Agent}}, {"summary", []string{e.Summary}}, {"next_steps", e.NextSteps},
		{"started_at", []string{e.StartedAt}}, {"context_hints", e.ContextHints}, {"open_questions", e.OpenQuestions},
		{"blockers", e.Blockers}, {"verified", e.Verified}, {"requirements", e.Requirements},
	}
	extra := append([]HandoffField{}, e.Extra...)
	for _, f := range e.LastGoodState {
		list = append(list, text{"last_good_state", []string{f.Path}})
		extra = append(extra, f.Extra...)
	}
	for _, a := range e.Artifacts {
		list = append(list, text{"artifacts", []string{a.Kind, a.Path, a.SHA256}})
		extra = append(extra, a.Extra...)
	}
	for _, st := range e.DependencyGraph {
		list = append(list, text{"dependency_graph", append([]string{st.ID, st.Description, st.Status}, st.DependsOn...)})
		extra = append(extra, st.Extra...)
	}
	for _, f := range extra {
		list = append(list, text{"extra", []string{f.Name, string(f.Value)}})
	}
	for _, f := range list {
		for _, v := range f.values {
			if !utf8.ValidString(v) {
				return "envelope." + f.name
			}
		}
	}
	return ""
}

// badEnvelope says why an envelope cannot be written as front matter.
func badEnvelope(err error) *fault.Fault {
	var limit *frontmatter.LimitError
	if errors.As(err, &limit) {
		return fault.New(fault.TooLarge).With("argument", "envelope").With("limit", limit.Message).Because(err).
			Hintf("the envelope exceeds a limit of front matter: %s; put long text into the body", limit.Message)
	}
	return fault.New(fault.InvalidArgument).With("argument", "envelope").Because(err).
		Hintf("the envelope cannot be written as YAML: keys must be unique, and nesting is limited to %d levels", frontmatter.MaxDepth)
}
