package resilientwrite

import (
	"context"
	"errors"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/frontmatter"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/layer/handoff"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

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
	// Path of the handoff, relative to the workspace.
	HandoffPath string `json:"handoff_path"`
	// SHA-256 of the whole file; pass it as expected_prev_sha256 when you replace
	// it.
	SHA256 Digest `json:"sha256"`
	// Size of the whole file in bytes.
	Bytes int64 `json:"bytes"`
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
	DriftWarnings []HandoffDrift `json:"drift_warnings"`
	// Names of the existing checkpoints.
	CheckpointRefs []string `json:"checkpoint_refs"`
	// Steps of dependency_graph that are not done and whose dependencies all are.
	ReadySteps []string `json:"ready_steps"`
	// Who has acknowledged this version of the handoff.
	ReadBy []HandoffReader `json:"read_by"`
	// Replaced handoffs, newest first, at most 20.
	Archives []string `json:"archives"`
	// Number of replaced handoffs.
	ArchiveCount int `json:"archive_count"`
	// Identifier of the journal row of a new acknowledgment.
	JournalID string `json:"journal_id,omitempty"`
	// What the caller should know although the call succeeded.
	Warnings []Warning `json:"warnings"`
	// The record of a call that acknowledges.
	Receipt *Receipt `json:"receipt,omitempty"`

	realPath string // after symbolic links are resolved
}

const (
	maxHandoff    = 64 << 20 // bytes of a handoff that can be read
	listedHandoff = 20       // archives that a reply lists
)

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
	if r.Path == "" {
		r.Path = DefaultHandoff
	}
	var req any = r
	if r.Optional {
		req = []any{r} // another call: the failures of one that is not do not count
	}
	a, err := s.begin(ctx, "handoff_read", r.Path, req)
	if err != nil {
		return HandoffReadResult{}, err
	}
	out, err := s.handoffRead(ctx, r)
	if f := (*fault.Fault)(nil); r.Optional && errors.As(err, &f) && f.Code == fault.NotFound {
		s.engine.Leave()
		return HandoffReadResult{}, nil
	}
	if err != nil {
		e := a.failed(err)
		if e.Path == "" && relPathShown(e) {
			e.Path = s.hideName(out.HandoffPath)
		}
		return HandoffReadResult{}, e
	}
	s.engine.Leave()
	if r.AcknowledgeAs == "" {
		return out, nil
	}
	if err := s.acknowledge(ctx, r, &out); err != nil {
		return HandoffReadResult{}, err
	}
	return out, nil
}

func (s *Store) handoffRead(ctx context.Context, r HandoffReadRequest) (HandoffReadResult, error) {
	var out HandoffReadResult
	if e := r.check(); e != nil {
		return out, e
	}
	doc, err := s.readHandoff(r.Path, &out)
	if err != nil {
		return out, err
	}
	out.SHA256, out.Bytes, out.Warnings = digest(engine.HashOf(doc)), int64(len(doc)), []Warning{}
	body, e := out.Envelope.parse(doc)
	if e != nil {
		return out, e
	}
	out.Body = body
	out.MissingFields = out.Envelope.fillMissing()
	steps := stepsOf(out.Envelope.DependencyGraph)
	if e := handoff.Check(steps); e != nil {
		out.Warnings = append(out.Warnings, Warning{Reason: string(e.Code), Hint: e.Hint})
	}
	out.ReadySteps = handoff.Ready(steps)
	if out.DriftWarnings, err = s.driftOf(ctx, out.Envelope.LastGoodState, nil); err != nil {
		return out, err
	}
	if r.Strict && len(out.DriftWarnings) > 0 {
		return out, s.drifted(out.DriftWarnings)
	}
	out.CheckpointRefs = s.checkpoints.Names()
	s.handoffRecords(&out)
	return out, nil
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

// handoffRecords fills in what the state directory records. Damage there does not
// prevent reading a handoff.
func (s *Store) handoffRecords(out *HandoffReadResult) {
	records, whole, err := s.handoffs.Records()
	if err != nil || !whole {
		out.Warnings = append(out.Warnings, warning(WarnHandoffRecords))
	}
	out.ReadBy = readersOf(records.ReadBy(out.realPath, out.SHA256.String()))
	out.Archives, out.ArchiveCount, err = s.handoffs.Archives(listedHandoff)
	if err != nil {
		out.Archives, out.ArchiveCount = []string{}, 0
	}
}

// readHandoff returns the bytes of a handoff of the workspace, or of an
// archive.
func (s *Store) readHandoff(raw string, out *HandoffReadResult) ([]byte, error) {
	if name, ok := strings.CutPrefix(raw, engine.StateDirName+"/"+handoff.Dir+"/"); ok {
		return s.readArchive(name, out)
	}
	rel, _, err := relpath.Clean(raw, s.engine.Tree.Rules)
	if err != nil {
		return nil, err
	}
	out.HandoffPath = rel
	target, err := s.engine.Tree.Resolve(rel)
	if err != nil {
		return nil, err
	}
	defer target.Close()
	out.realPath = target.Path
	return readTarget(target)
}

func readTarget(target *relpath.Target) ([]byte, error) {
	if !target.Exists() {
		return nil, noHandoff()
	}
	f, err := target.Parent.Open(target.Name, fsx.Read, 0)
	if engine.IsAbsent(err) {
		return nil, noHandoff()
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxHandoff+1))
	if err == nil && len(data) > maxHandoff {
		return nil, fault.New(fault.TooLarge).Hintf("a handoff has at most %d bytes", maxHandoff)
	}
	return data, err
}

func noHandoff() *fault.Fault {
	return fault.New(fault.NotFound).Hintf("there is no handoff at that path; read the journal to see what was done, or ask the user")
}

// readArchive returns the bytes of an archive. An archive that was changed goes
// to quarantine.
func (s *Store) readArchive(name string, out *HandoffReadResult) ([]byte, error) {
	if name == "" || strings.ContainsAny(name, "/\\\x00") || !strings.HasSuffix(name, ".md") || !utf8.ValidString(name) {
		return nil, noHandoff()
	}
	out.HandoffPath = engine.StateDirName + "/" + handoff.Dir + "/" + name
	if s.engine.Disk.State == nil {
		return nil, noHandoff()
	}
	target, err := s.engine.LocateObject(handoff.Dir + "/" + name)
	if err != nil {
		return nil, err
	}
	defer target.Close()
	out.realPath = target.Path
	data, err := readTarget(target)
	if err != nil || s.engine.Log == nil {
		return data, err
	}
	last, err := s.engine.LastRow(out.HandoffPath)
	if err != nil || last.Seq == 0 { // of the Python implementation: nothing is known of it
		return data, err
	}
	rec, err := s.engine.Log.Find(last.Seq)
	if err != nil {
		return nil, err
	}
	for i := range rec.Muts {
		if m := &rec.Muts[i]; m.Identity() != out.HandoffPath || m.SHA256 == engine.HashOf(data) {
			continue
		}
		e := fault.New(fault.HashDriftOnRead).Hintf("the archive was changed since it was written; it is kept in quarantine")
		if s.opts.ReadOnly {
			return nil, e.Hintf("the archive was changed since it was written")
		}
		to, err := s.handoffs.Quarantine(name)
		if err != nil {
			return nil, err
		}
		return nil, e.With("quarantined", to)
	}
	return data, nil
}

// acknowledge records that an agent has read a handoff.
func (s *Store) acknowledge(ctx context.Context, r HandoffReadRequest, out *HandoffReadResult) error {
	c := s.newCommit(ctx, request{args: r, op: "handoff_read", caller: r.Caller, session: r.Session})
	c.Req.Hash = engine.HashOf([]byte(strings.Join([]string{"handoff_read", out.realPath, out.SHA256.String(), r.AcknowledgeAs}, "\x00")))
	m := engine.NewObject(handoff.Dir+"/"+handoff.ReadName, handoff.KindRead, engine.OpOverwrite)
	m.Hold(nil)
	c.Muts, c.Also = []*engine.Mutation{m}, []string{handoff.Lock}
	if dir, err := s.handoffs.Open(); err != nil {
		return c.Failed(err)
	} else if dir != nil {
		dir.Close()
	}
	var readers []HandoffReader
	c.Plan = func(context.Context) error {
		records, whole, err := s.handoffs.Records()
		if err != nil {
			return err
		}
		if !whole {
			if _, err := s.handoffs.Quarantine(handoff.ReadName); err != nil {
				return err
			}
		}
		records.Add(out.realPath, out.SHA256.String(), r.AcknowledgeAs, c.Began.UTC().Format(engine.TimeFormat))
		readers = readersOf(records.ReadBy(out.realPath, out.SHA256.String()))
		data, err := records.Encode()
		if err != nil {
			return err
		}
		m.Hold(data)
		return nil
	}
	if err := s.commit(ctx, c); err != nil {
		return err
	}
	status := StatusSucceeded
	if c.Ended {
		status = StatusUnchanged
	}
	rec := c.receipt(m, status)
	c.deliver(rec)
	out.ReadBy, out.JournalID, out.Receipt = readers, rec.JournalID, &rec
	out.Warnings = append(out.Warnings, rec.Warnings...)
	return nil
}

// parse reads the front matter of a document and returns its body.
func (e *HandoffEnvelope) parse(doc []byte) ([]byte, *fault.Fault) {
	yaml, body, err := frontmatter.Split(doc)
	if err != nil {
		return nil, frontMatterError(err)
	}
	m, err := frontmatter.Decode(yaml)
	if err != nil {
		return nil, frontMatterError(err)
	}
	handoff.Loosen(m)
	data, err := m.MarshalJSON()
	if err == nil {
		_, err = schema.Decode(context.Background(), data, e)
	}
	var p *schema.Problem
	if errors.As(err, &p) {
		return nil, fault.New(fault.BadEnvelope).With("field", p.Argument).With("problem", p.Code).
			Hintf("the front matter is invalid: %s; correct it in the file", p.Error())
	}
	if err != nil {
		return nil, fault.New(fault.BadEnvelope).Because(err)
	}
	return body, nil
}

// fillMissing gives the absent required fields a value, and returns their names.
func (e *HandoffEnvelope) fillMissing() []string {
	missing := e.missing()
	if e.Status == "" {
		e.Status = HandoffPartial
	}
	if e.NextSteps == nil {
		e.NextSteps = []string{}
	}
	if e.LastGoodState == nil {
		e.LastGoodState = []HandoffFile{}
	}
	return missing
}

// frontMatterError reports what is wrong with a document, and where in it.
func frontMatterError(err error) *fault.Fault {
	var at *frontmatter.SyntaxError
	var limit *frontmatter.LimitError
	switch {
	case errors.Is(err, frontmatter.MissingDelimiter):
		return fault.New(fault.MissingDelimiter)
	case errors.Is(err, frontmatter.Unterminated):
		return fault.New(fault.UnterminatedFrontMatter)
	case errors.Is(err, frontmatter.NotMapping):
		return fault.New(fault.FrontMatterNotMapping)
	case errors.As(err, &limit):
		e := fault.New(fault.TooLarge).With("limit", limit.Message).Because(err)
		if limit.Line > 0 {
			return e.With("line", limit.Line+1).With("column", limit.Column).
				Hintf("the front matter exceeds a limit at line %d, column %d of the file: %s; correct it there, or move text into the body", limit.Line+1, limit.Column, limit.Message)
		}
		return e.Hintf("the front matter exceeds a limit: %s; move text into the body", limit.Message)
	case errors.As(err, &at):
		e := fault.New(fault.YAMLError).Because(err)
		if at.Line > 0 { // the line that opens the front matter is the first one
			return e.With("line", at.Line+1).With("column", at.Column).
				Hintf("the front matter is not valid YAML at line %d, column %d of the file; correct it there", at.Line+1, at.Column)
		}
		return e
	}
	return fault.New(fault.Internal).Because(err)
}
