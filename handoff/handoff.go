// Package handoff defines what one agent leaves for the next: the envelope of a
// handoff, and the requests and results of the calls that write and read it.
package handoff

import (
	"context"
	"encoding/json"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// DefaultPath is the path of the handoff of a workspace.
const DefaultPath = "HANDOFF.md"

// Status is how far the task of a handoff is.
type Status string

const (
	Complete  Status = "complete"   // nothing is left to do
	Partial   Status = "partial"    // stopped on the way
	Blocked   Status = "blocked"    // cannot go on without help
	HandedOff Status = "handed_off" // another agent continues
)

// Envelope is what one agent leaves for the next: the front matter of a
// handoff. Fields that it does not know are kept in Extra, in their order, and
// so are those of the things it lists.
type Envelope struct {
	TaskID string `json:"task_id"` // Identifier of the task, the same in all of its handoffs.
	// Progress of the task.
	Status Status `json:"status" enum:"complete,partial,blocked,handed_off"`
	// Who writes the handoff.
	Agent string `json:"agent"`
	// What was done and the current state, for a reader with no prior knowledge.
	Summary   string   `json:"summary"`
	NextSteps []string `json:"next_steps"` // What to do next, in order; may be empty.
	// The files the next agent may build on, with their hashes; may be empty.
	// Optional with auto_state.
	LastGoodState []File         `json:"last_good_state"`
	StartedAt     call.Timestamp `json:"started_at,omitzero"` // When the task began, RFC 3339.
	// When the handoff was written, RFC 3339 UTC. Always set by the server.
	UpdatedAt call.Timestamp `json:"updated_at,omitzero"`
	// What was learned and cannot be seen in the files.
	ContextHints []string `json:"context_hints,omitempty"`
	// Questions that only a person can decide.
	OpenQuestions []string   `json:"open_questions,omitempty"`
	Blockers      []string   `json:"blockers,omitempty"`  // What blocks the task.
	Artifacts     []Artifact `json:"artifacts,omitempty"` // What the task produced.
	// The steps of the task and their dependencies.
	DependencyGraph []Step `json:"dependency_graph,omitempty"`
	// What was tested or reviewed, and how.
	Verified []string `json:"verified,omitempty"`
	// Conditions that the result must meet.
	Requirements []string `json:"requirements,omitempty"`
	Extra        []Field  `json:"-" extra:"true"`
}

// File is a file as it was when all was well.
type File struct {
	Path   string `json:"path" required:"true"`   // Path of the file, relative to the workspace.
	SHA256 string `json:"sha256" required:"true"` // SHA-256 of the file.
	// Size of the file in bytes.
	Bytes int64   `json:"bytes,omitempty" min:"0"`
	Extra []Field `json:"-" extra:"true"`
}

// Artifact is something that the task made.
type Artifact struct {
	Kind string `json:"kind,omitempty"` // Type of the artifact: pdf, binary, report …
	Path string `json:"path,omitempty"` // Path, relative to the workspace.
	// SHA-256 of the artifact.
	SHA256 string  `json:"sha256,omitempty"`
	Extra  []Field `json:"-" extra:"true"`
}

// Step is one step of a task.
type Step struct {
	ID string `json:"id" required:"true"` // Unique identifier of the step.
	// Identifiers of the steps that must be done first.
	DependsOn   []string `json:"depends_on,omitempty"`
	Description string   `json:"description,omitempty"` // What the step is.
	// Progress of the step; done and complete mean that it is finished.
	Status string  `json:"status,omitempty"`
	Extra  []Field `json:"-" extra:"true"`
}

// Field is a field that this version does not know.
type Field struct {
	Name  string
	Value json.RawMessage
}

// MarshalJSON writes the known fields, then those in Extra.
func (e Envelope) MarshalJSON() ([]byte, error) { return schema.Encode(e) }

// MarshalJSON writes the known fields, then those in Extra.
func (f File) MarshalJSON() ([]byte, error) { return schema.Encode(f) }

// MarshalJSON writes the known fields, then those in Extra.
func (a Artifact) MarshalJSON() ([]byte, error) { return schema.Encode(a) }

// MarshalJSON writes the known fields, then those in Extra.
func (st Step) MarshalJSON() ([]byte, error) { return schema.Encode(st) }

// UnmarshalJSON reads an envelope strictly: a known field of another type is
// an error, an unknown one is kept in Extra.
func (e *Envelope) UnmarshalJSON(data []byte) error {
	var fresh Envelope
	if _, err := schema.Decode(context.Background(), data, &fresh); err != nil {
		return err
	}
	*e = fresh
	return nil
}

// AutoState says which files a handoff takes into last_good_state by itself:
// none, those the session wrote, or those that match a glob.
type AutoState string

// AutoStateSession takes the files that the journal last saw this session
// write, or this caller when there is no session. On the wire it is true.
const AutoStateSession AutoState = "true"

// MarshalJSON writes true or a glob.
func (a AutoState) MarshalJSON() ([]byte, error) {
	if a == AutoStateSession {
		return []byte("true"), nil
	}
	return json.Marshal(string(a))
}

// UnmarshalJSON reads true, false or a glob.
func (a *AutoState) UnmarshalJSON(data []byte) error {
	switch string(data) {
	case "true":
		*a = AutoStateSession
	case "false", "null":
		*a = ""
	default:
		var glob string
		if err := json.Unmarshal(data, &glob); err != nil {
			return err
		}
		*a = AutoState(glob)
	}
	return nil
}

// Drift is a file that is not as last_good_state says.
type Drift struct {
	// Path as given in last_good_state; empty in a refusal when it leads outside
	// the workspace.
	Path  string `json:"path"`
	Index int    `json:"index"` // Its position in last_good_state, from 0.
	// The problem: the path is invalid, the file does not exist, or its content
	// differs.
	Reason string `json:"reason" enum:"invalid_path,missing,hash_mismatch"`
	// SHA-256 recorded in last_good_state.
	ExpectedSHA256 string `json:"expected_sha256"`
	// SHA-256 of the current file; empty when it does not exist.
	ActualSHA256 string `json:"actual_sha256"`
}

// WriteRequest asks for a handoff to be written.
type WriteRequest struct {
	call.Call

	// What the next agent must know. Fields of your own are preserved.
	Envelope Envelope `json:"envelope" required:"true"`
	// Markdown for human readers, preserved byte for byte.
	Body []byte `json:"body,omitempty"`
	// Path of the handoff, relative to the workspace.
	Path string `json:"path,omitempty" default:"HANDOFF.md"`
	// Archive the handoff that is replaced. One that was not acknowledged is
	// always archived.
	Archive bool `json:"archive,omitempty"`
	// Refuse when a file differs from last_good_state; otherwise the difference
	// is reported in drift_warnings.
	Strict bool `json:"strict,omitempty"`
	// Fill last_good_state. true: the files that the journal says this session
	// (or, without one, this caller) last wrote. A glob such as src/**/*.go:
	// every matching file. Entries of the envelope are kept.
	AutoState AutoState `json:"auto_state,omitempty" types:"boolean,string"`
	// SHA-256 the handoff must have now, from Store.HandoffRead or the last reply;
	// the empty string means that it must not exist.
	Expect call.Expect `json:"expected_prev_sha256,omitzero"`
	Force  bool        `json:"force,omitempty"` // Allow a read-only file to be replaced.
}

// WriteResult is what writing a handoff did.
type WriteResult struct {
	call.Receipt `json:"receipt" copies:"sha256,bytes,journal_id,wrote_at,status,warnings"`
	HandoffPath  string `json:"handoff_path"` // Path of the handoff, relative to the workspace.
	// Files that differ from last_good_state; empty when none do.
	DriftWarnings  []Drift  `json:"drift_warnings"`
	CheckpointRefs []string `json:"checkpoint_refs"` // Names of the existing checkpoints.
	// Archive path of the handoff that was replaced; Store.HandoffRead reads it.
	ArchivedPath string `json:"archived_path,omitempty"`
	// Unified diff, truncated when long; dry run only.
	Diff string `json:"diff,omitempty"`
}

// ReadRequest asks for a handoff.
type ReadRequest struct {
	// Path of the handoff, relative to the workspace, or the archived_path of one
	// that was replaced.
	Path string `json:"path,omitempty" default:"HANDOFF.md"`
	// Your name. Acknowledges the handoff durably. A handoff that was not
	// acknowledged is archived when it is replaced.
	AcknowledgeAs string `json:"acknowledge_as,omitempty" maxlen:"200"`
	// Refuse when a file differs from last_good_state; otherwise the difference
	// is reported in drift_warnings.
	Strict bool `json:"strict,omitempty"`
	// Who is reading; recorded in the journal row of an acknowledgment.
	Caller string `json:"caller,omitempty" maxlen:"200"`
	// Name of the working session; recorded in that row.
	Session string `json:"session,omitempty" maxlen:"200"`
	// Makes a handoff that does not exist an empty result, not an error.
	Optional bool `json:"-"`
}

// ReadResult is a handoff with what has become of it.
type ReadResult struct {
	HandoffPath string `json:"handoff_path"` // Path of the handoff, relative to the workspace.
	// SHA-256 of the whole file; pass it as expected_prev_sha256 when you replace
	// it.
	SHA256 call.Digest `json:"sha256"`
	Bytes  int64       `json:"bytes"` // Size of the whole file in bytes.
	// The front matter. A missing required field is empty, a missing status is
	// partial.
	Envelope Envelope `json:"envelope"`
	// Required fields missing from the front matter.
	MissingFields []string `json:"missing_fields"`
	// The text after the front matter, byte for byte.
	Body []byte `json:"body"`
	// Encoding of body: base64 when it is not UTF-8.
	_ schema.Encoding `wire:"body_encoding" enum:"utf-8,base64"`
	// Files that differ from last_good_state; empty when none do. Examine them
	// before you build on them.
	DriftWarnings  []Drift  `json:"drift_warnings"`
	CheckpointRefs []string `json:"checkpoint_refs"` // Names of the existing checkpoints.
	// Steps of dependency_graph that are not done and whose dependencies all are.
	ReadySteps []string `json:"ready_steps"`
	// Who has acknowledged this version of the handoff.
	ReadBy   []Reader `json:"read_by"`
	Archives []string `json:"archives"` // Replaced handoffs, newest first, at most 20.
	// Number of replaced handoffs.
	ArchiveCount int `json:"archive_count"`
	// Identifier of the journal row of a new acknowledgment.
	JournalID string `json:"journal_id,omitempty"`
	// What the caller should know although the call succeeded.
	Warnings []call.Warning `json:"warnings"`
	Receipt  *call.Receipt  `json:"receipt,omitempty"` // The record of a call that acknowledges.
}

// Reader is an agent that has acknowledged a handoff.
type Reader struct {
	Name string         `json:"name"` // Who acknowledged it.
	At   call.Timestamp `json:"at"`   // When, RFC 3339 UTC.
}

// Missing lists the required fields that are absent.
func (e *Envelope) Missing() []string {
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
