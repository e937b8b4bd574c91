package resilientwrite

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/changes"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/layer/handoff"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// DefaultHandoff is the path of the handoff of a workspace.
const DefaultHandoff = "HANDOFF.md"

// HandoffStatus is how far the task of a handoff is.
type HandoffStatus string

const (
	HandoffComplete  HandoffStatus = "complete"   // nothing is left to do
	HandoffPartial   HandoffStatus = "partial"    // stopped on the way
	HandoffBlocked   HandoffStatus = "blocked"    // cannot go on without help
	HandoffHandedOff HandoffStatus = "handed_off" // another agent continues
)

// HandoffEnvelope is what one agent leaves for the next: the front matter of a
// handoff. Fields that it does not know are kept in Extra, in their order, and
// so are those of the things it lists.
type HandoffEnvelope struct {
	TaskID string `json:"task_id"` // Identifier of the task, the same in all of its handoffs.
	// Progress of the task.
	Status HandoffStatus `json:"status" enum:"complete,partial,blocked,handed_off"`
	// Who writes the handoff.
	Agent string `json:"agent"`
	// What was done and the current state, for a reader with no prior knowledge.
	Summary   string   `json:"summary"`
	NextSteps []string `json:"next_steps"` // What to do next, in order; may be empty.
	// The files the next agent may build on, with their hashes; may be empty.
	// Optional with auto_state.
	LastGoodState []HandoffFile `json:"last_good_state"`
	StartedAt     Timestamp     `json:"started_at,omitzero"` // When the task began, RFC 3339.
	// When the handoff was written, RFC 3339 UTC. Always set by the server.
	UpdatedAt Timestamp `json:"updated_at,omitzero"`
	// What was learned and cannot be seen in the files.
	ContextHints []string `json:"context_hints,omitempty"`
	// Questions that only a person can decide.
	OpenQuestions []string          `json:"open_questions,omitempty"`
	Blockers      []string          `json:"blockers,omitempty"`  // What blocks the task.
	Artifacts     []HandoffArtifact `json:"artifacts,omitempty"` // What the task produced.
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
	Path   string `json:"path" required:"true"`   // Path of the file, relative to the workspace.
	SHA256 string `json:"sha256" required:"true"` // SHA-256 of the file.
	// Size of the file in bytes.
	Bytes int64          `json:"bytes,omitempty" min:"0"`
	Extra []HandoffField `json:"-" extra:"true"`
}

// HandoffArtifact is something that the task made.
type HandoffArtifact struct {
	Kind string `json:"kind,omitempty"` // Type of the artifact: pdf, binary, report …
	Path string `json:"path,omitempty"` // Path, relative to the workspace.
	// SHA-256 of the artifact.
	SHA256 string         `json:"sha256,omitempty"`
	Extra  []HandoffField `json:"-" extra:"true"`
}

// HandoffStep is one step of a task.
type HandoffStep struct {
	ID string `json:"id" required:"true"` // Unique identifier of the step.
	// Identifiers of the steps that must be done first.
	DependsOn   []string `json:"depends_on,omitempty"`
	Description string   `json:"description,omitempty"` // What the step is.
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

// view returns what the layer needs to know of an envelope.
func (e *HandoffEnvelope) view() handoff.Envelope {
	v := handoff.Envelope{TaskID: e.TaskID, Status: string(e.Status), Agent: e.Agent, Summary: e.Summary, NextSteps: e.NextSteps}
	if e.LastGoodState != nil {
		v.Files = []handoff.File{}
	}
	for _, f := range e.LastGoodState {
		v.Files = append(v.Files, handoff.File{Path: f.Path, SHA256: f.SHA256, Bytes: f.Bytes})
	}
	for _, st := range e.DependencyGraph {
		v.Steps = append(v.Steps, handoff.Step{ID: st.ID, Status: st.Status, DependsOn: st.DependsOn})
	}
	return v
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

// HandoffDrift is a file that is not as last_good_state says.
type HandoffDrift struct {
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

func handoffDrift(list []handoff.Drift) []HandoffDrift {
	return convert(list, func(d handoff.Drift) HandoffDrift { return HandoffDrift(d) })
}

// HandoffWriteRequest asks for a handoff to be written.
type HandoffWriteRequest struct {
	Call

	// What the next agent must know. Fields of your own are preserved.
	Envelope HandoffEnvelope `json:"envelope" required:"true"`
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
	Expect Expect `json:"expected_prev_sha256,omitzero"`
	Force  bool   `json:"force,omitempty"` // Allow a read-only file to be replaced.
}

// HandoffWriteResult is what writing a handoff did.
type HandoffWriteResult struct {
	Receipt     `json:"receipt" copies:"sha256,bytes,journal_id,wrote_at,status,warnings"`
	HandoffPath string `json:"handoff_path"` // Path of the handoff, relative to the workspace.
	// Files that differ from last_good_state; empty when none do.
	DriftWarnings  []HandoffDrift `json:"drift_warnings"`
	CheckpointRefs []string       `json:"checkpoint_refs"` // Names of the existing checkpoints.
	// Archive path of the handoff that was replaced; Store.HandoffRead reads it.
	ArchivedPath string `json:"archived_path,omitempty"`
	// Unified diff, truncated when long; dry run only.
	Diff string `json:"diff,omitempty"`
}

// HandoffWrite writes what one agent leaves for the next: a Markdown file with
// the envelope as YAML front matter and a body that is preserved byte for byte.
// The envelope is validated (required fields, hashes, a dependency graph without
// cycles), updated_at is filled in, and every file of last_good_state is compared
// with the current content.
//
// When it returns nil at [SyncFull], the handoff and its journal row are on
// stable storage. With Archive the previous handoff moves to the state directory
// in the same commit, under a unique name that begins with its task_id. Without
// Archive, the same happens to a handoff that no one has acknowledged by
// [Store.HandoffRead] since it was written, and to a file that is not a handoff.
// The previous content goes into history as well, as with any write. The content
// gate judges the whole file.
//
// The front matter has at most 1 MiB, the file 64 MiB. Errors: [ErrMissingFields],
// [ErrInvalidArgument], [ErrBadSHA256], [ErrDuplicateStep], [ErrUnknownStep],
// [ErrDependencyCycle], [ErrStateDrift] when strict, [ErrNotValidUTF8], [ErrTooLarge], and
// those of [Store.SafeWrite]: the path details, [ErrHashMismatch], [ErrReadOnlyFile],
// [ErrHardLinkRefused], [ErrIdempotencyKeyReused], [ErrLockTimeout], [ErrIOBusy],
// [ErrChangedDuringWrite], [ErrRiskBlocked], [ErrRetryExhausted], [ErrBadStateDir], the
// storage details, [ErrStorePoisoned], [ErrStoreClosed], [ErrStoreReadOnly],
// [ErrCanceled]. After an error whose Effect is EffectNone nothing has changed.
func (s *Store) HandoffWrite(ctx context.Context, r HandoffWriteRequest) (HandoffWriteResult, error) {
	r.Path = cmp.Or(r.Path, DefaultHandoff)
	req := requestOf(r.Call, "handoff_write", r)
	req.complete = r.Envelope.Status == HandoffComplete
	c := s.newCommit(ctx, req)
	w := s.handoffs.NewWrite(c.Commit, handoff.Request{
		Path: r.Path, Expected: r.Expect.hash(), Force: r.Force, Archive: r.Archive, Strict: r.Strict, AutoState: string(r.AutoState),
		Envelope: r.Envelope.view(), Body: r.Body, Wrote: changes.HandedOver(c.Commit, c.session).Made,
		Document: func(added []handoff.File) ([]byte, *fault.Fault) { return r.document(c.Began, added) },
	})
	c.check(w.Check())
	refs, plan := []string{}, c.Plan
	c.Plan = func(ctx context.Context) error {
		refs = s.checkpoints.Names()
		return plan(ctx)
	}
	if err := s.commit(ctx, c); err != nil {
		if c.bad == nil { // there are two files in the commit; the error is about this one
			err = s.handoffError("handoff_write", c.First().Path, err)
		}
		return HandoffWriteResult{}, err
	}
	return HandoffWriteResult{
		Receipt: c.finished(), HandoffPath: c.First().Path, DriftWarnings: handoffDrift(w.Drift), CheckpointRefs: refs,
		ArchivedPath: w.Archived, Diff: c.Diff,
	}, nil
}

// handoffError returns the error of a call about the handoff at a path.
func (s *Store) handoffError(op, path string, err error) *Error {
	e := AsError(op, err)
	if e.Path == "" && relPathShown(e) {
		e.Path = s.gate.HideName(path)
	}
	if list, ok := e.Context["drift_warnings"].([]handoff.Drift); ok {
		e.Context["drift_warnings"] = handoffDrift(list)
	}
	return e
}

// document makes the file of a handoff, with further files in last_good_state.
func (r *HandoffWriteRequest) document(at time.Time, added []handoff.File) ([]byte, *fault.Fault) {
	e := r.Envelope
	e.UpdatedAt, e.LastGoodState = timestamp(at.UTC().Format(time.RFC3339)), []HandoffFile{}
	for _, f := range r.Envelope.LastGoodState {
		f.SHA256 = strings.ToLower(f.SHA256)
		e.LastGoodState = append(e.LastGoodState, f)
	}
	for _, f := range added {
		e.LastGoodState = append(e.LastGoodState, HandoffFile{Path: f.Path, SHA256: f.SHA256, Bytes: f.Bytes})
	}
	return handoff.Document(e, r.Body)
}

// HandoffReadRequest asks for a handoff.
type HandoffReadRequest struct {
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

// HandoffReadResult is a handoff with what has become of it.
type HandoffReadResult struct {
	HandoffPath string `json:"handoff_path"` // Path of the handoff, relative to the workspace.
	// SHA-256 of the whole file; pass it as expected_prev_sha256 when you replace
	// it.
	SHA256 Digest `json:"sha256"`
	Bytes  int64  `json:"bytes"` // Size of the whole file in bytes.
	// The front matter. A missing required field is empty, a missing status is
	// partial.
	Envelope HandoffEnvelope `json:"envelope"`
	// Required fields missing from the front matter.
	MissingFields []string `json:"missing_fields"`
	// The text after the front matter, byte for byte.
	Body []byte `json:"body"`
	// Encoding of body: base64 when it is not UTF-8.
	_ schema.Encoding `wire:"body_encoding" enum:"utf-8,base64"`
	// Files that differ from last_good_state; empty when none do. Examine them
	// before you build on them.
	DriftWarnings  []HandoffDrift `json:"drift_warnings"`
	CheckpointRefs []string       `json:"checkpoint_refs"` // Names of the existing checkpoints.
	// Steps of dependency_graph that are not done and whose dependencies all are.
	ReadySteps []string `json:"ready_steps"`
	// Who has acknowledged this version of the handoff.
	ReadBy   []HandoffReader `json:"read_by"`
	Archives []string        `json:"archives"` // Replaced handoffs, newest first, at most 20.
	// Number of replaced handoffs.
	ArchiveCount int `json:"archive_count"`
	// Identifier of the journal row of a new acknowledgment.
	JournalID string `json:"journal_id,omitempty"`
	// What the caller should know although the call succeeded.
	Warnings []Warning `json:"warnings"`
	Receipt  *Receipt  `json:"receipt,omitempty"` // The record of a call that acknowledges.
}

// HandoffReader is an agent that has acknowledged a handoff.
type HandoffReader struct {
	Name string    `json:"name"` // Who acknowledged it.
	At   Timestamp `json:"at"`   // When, RFC 3339 UTC.
}

// HandoffRead returns a handoff: its envelope, its body, the files that differ
// from last_good_state, the steps that can be worked on, the existing checkpoints
// and archives, and who has read it. It accepts what people write by hand:
// unquoted timestamps and numbers, comments, CRLF, a byte order mark, a single
// text in place of a list. A missing required field is reported, not refused.
//
// With AcknowledgeAs it durably records that this version was read; reading does
// not change the handoff itself. An archive whose bytes were changed goes to
// quarantine/.
//
// A handoff has at most 64 MiB. Errors: the path details, [ErrNotFound],
// [ErrMissingDelimiter], [ErrUnterminatedFrontMatter], [ErrFrontMatterNotMapping],
// [ErrYAML] with line and column of the file, [ErrBadEnvelope] with the field,
// [ErrTooLarge], [ErrStateDrift] when strict, [ErrHashDriftOnRead] for an archive,
// [ErrInvalidArgument], [ErrRetryExhausted], the storage details, [ErrStoreClosed],
// [ErrCanceled]; with AcknowledgeAs also [ErrRiskBlocked], [ErrLockTimeout],
// [ErrBadStateDir], [ErrStorePoisoned] and [ErrStoreReadOnly].
func (s *Store) HandoffRead(ctx context.Context, r HandoffReadRequest) (HandoffReadResult, error) {
	r.Path = cmp.Or(r.Path, DefaultHandoff)
	var req any = r
	if r.Optional {
		req = []any{r} // another call: the failures of one that is not do not count
	}
	var d handoff.Doc
	absent := false
	out, err := reading(ctx, s, "handoff_read", r.Path, req, func() (out HandoffReadResult, err error) {
		out, d, err = s.handoffRead(ctx, r)
		if f := (*fault.Fault)(nil); r.Optional && errors.As(err, &f) && f.Code == fault.NotFound {
			absent = true
			return HandoffReadResult{}, nil
		}
		return out, err
	})
	if err == nil && r.AcknowledgeAs != "" && !absent {
		err = s.acknowledge(ctx, r, d, &out)
	} else if err != nil {
		err = s.handoffError("handoff_read", d.Path, err)
	}
	if err != nil {
		return HandoffReadResult{}, err
	}
	return out, nil
}

func (s *Store) handoffRead(ctx context.Context, r HandoffReadRequest) (out HandoffReadResult, d handoff.Doc, err error) {
	if e := r.check(); e != nil {
		return out, d, e
	}
	if d, err = s.handoffs.Load(r.Path); err != nil {
		return out, d, err
	}
	out.HandoffPath, out.SHA256, out.Bytes, out.Warnings = d.Path, digest(d.SHA256), int64(len(d.Data)), []Warning{}
	body, e := handoff.Parse(d.Data, &out.Envelope)
	if e != nil {
		return out, d, e
	}
	view := out.Envelope.view()
	out.Body, out.MissingFields = body, view.Missing()
	out.Envelope.fill()
	st, err := s.handoffs.StateOf(ctx, d, view, r.Strict)
	if err != nil {
		return out, d, err
	}
	if st.Graph != nil {
		out.Warnings = append(out.Warnings, Warning{Reason: string(st.Graph.Code), Hint: st.Graph.Hint})
	}
	if st.Unreadable {
		out.Warnings = append(out.Warnings, call.WarningOf(call.WarnHandoffRecords))
	}
	out.DriftWarnings, out.CheckpointRefs, out.ReadySteps = handoffDrift(st.Drift), s.checkpoints.Names(), st.Ready
	out.ReadBy, out.Archives, out.ArchiveCount = handoffReaders(st.ReadBy), st.Archives, st.ArchiveCount
	return out, d, nil
}

func (r *HandoffReadRequest) check() *fault.Fault {
	if e := checkLabels(r.Caller, r.Session, ""); e != nil {
		return e
	}
	name := r.AcknowledgeAs
	if len(name) > maxLabel || !utf8.ValidString(name) || name != "" && strings.TrimSpace(name) == "" {
		return fault.New(fault.InvalidArgument).With("argument", "acknowledge_as").Hintf("acknowledge_as must be valid UTF-8 of at most %d bytes and not blank", maxLabel)
	}
	return nil
}

// fill gives the absent required fields a value.
func (e *HandoffEnvelope) fill() {
	if e.Status == "" {
		e.Status = HandoffPartial
	}
	if e.NextSteps == nil {
		e.NextSteps = []string{}
	}
	if e.LastGoodState == nil {
		e.LastGoodState = []HandoffFile{}
	}
}

// acknowledge records that an agent has read a handoff.
func (s *Store) acknowledge(ctx context.Context, r HandoffReadRequest, d handoff.Doc, out *HandoffReadResult) error {
	c := s.newCommit(ctx, request{args: r, op: "handoff_read", caller: r.Caller, session: r.Session})
	a, err := s.handoffs.NewAcknowledgment(c.Commit, d, r.AcknowledgeAs)
	if err != nil {
		return c.Failed(err)
	}
	if err := s.commit(ctx, c); err != nil {
		return err
	}
	rec := c.finished()
	out.ReadBy, out.JournalID, out.Receipt = handoffReaders(a.Readers), rec.JournalID, &rec
	out.Warnings = append(out.Warnings, rec.Warnings...)
	return nil
}

func handoffReaders(list []handoff.Reader) []HandoffReader {
	return convert(list, func(r handoff.Reader) HandoffReader { return HandoffReader{r.Name, timestamp(r.At)} })
}
