package resilientwrite

import (
	"context"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/layer/handoff"
)

// DefaultHandoff is the path of the handoff of a workspace.
const DefaultHandoff = "HANDOFF.md"

// modeHandoff is what the journal calls the writing of a handoff.
const modeHandoff = "handoff"

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
	// Allow a read-only file to be replaced.
	Force bool `json:"force,omitempty"`
}

// HandoffWriteResult is what writing a handoff did.
type HandoffWriteResult struct {
	// Path of the handoff, relative to the workspace.
	HandoffPath string `json:"handoff_path"`
	// SHA-256 of the whole file; pass it as expected_prev_sha256 next time.
	SHA256 Digest `json:"sha256"`
	// Size of the whole file in bytes.
	Bytes int64 `json:"bytes"`
	// Identifier of the journal row; absent when nothing was written.
	JournalID string `json:"journal_id,omitempty"`
	// When, RFC 3339 UTC.
	WroteAt string `json:"wrote_at"`
	// Outcome of the call.
	Status Status `json:"status" enum:"succeeded,unchanged,replayed"`
	// Files that differ from last_good_state; empty when none do.
	DriftWarnings []HandoffDrift `json:"drift_warnings"`
	// Names of the existing checkpoints.
	CheckpointRefs []string `json:"checkpoint_refs"`
	// Archive path of the handoff that was replaced; Store.HandoffRead reads it.
	ArchivedPath string `json:"archived_path,omitempty"`
	// Unified diff, truncated when long; dry run only.
	Diff string `json:"diff,omitempty"`
	// What the caller should know although the call succeeded.
	Warnings []Warning `json:"warnings"`
	// The full record of the call.
	Receipt Receipt `json:"receipt"`
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
	h := s.newHandoff(ctx, &r)
	h.c.Req.Hash = identity("handoff_write", r)
	if e := r.check(ctx); e != nil {
		return HandoffWriteResult{}, h.c.Failed(e)
	}
	h.c.Plan = h.plan
	if err := s.commit(ctx, h.c); err != nil {
		e := AsError("handoff_write", err)
		if e.Path == "" && relPathShown(e) { // there are two files in the commit; it is about this one
			e.Path = h.c.First().Path
		}
		return HandoffWriteResult{}, e
	}
	return h.result(), nil
}

// handoffWrite is a handoff write in progress.
type handoffWrite struct {
	s *Store
	r *HandoffWriteRequest
	c *commit

	composed bool // the content of the handoff is made
	drift    []HandoffDrift
	refs     []string
	archived string // path of the archive, "" when nothing is archived
}

func (s *Store) newHandoff(ctx context.Context, r *HandoffWriteRequest) *handoffWrite {
	if r.Path == "" {
		r.Path = DefaultHandoff
	}
	m := &engine.Mutation{Path: r.Path, Op: engine.OpOverwrite, Kind: modeHandoff, AllowShrink: true, Force: r.Force, Expected: r.Expect.hash()}
	req := r.request("handoff_write", nil)
	req.args, req.complete = r, r.Envelope.Status == HandoffComplete
	c := s.newCommit(ctx, req)
	c.Muts, c.Also = []*engine.Mutation{m}, []string{handoff.Lock}
	return &handoffWrite{s: s, r: r, c: c, drift: []HandoffDrift{}, refs: []string{}}
}

// check validates the arguments that need no access to the disk.
func (r *HandoffWriteRequest) check(ctx context.Context) *fault.Fault {
	if e := r.Call.check(ctx); e != nil {
		return e
	}
	if !utf8.Valid(r.Body) {
		return fault.New(fault.NotValidUTF8).With("argument", "body")
	}
	return r.Envelope.check(r.AutoState)
}

// plan makes the content, and decides under the locks whether the existing
// handoff is archived. A repeated call is answered before anything can refuse it.
func (h *handoffWrite) plan(ctx context.Context) error {
	if h.c.Req.Key != "" {
		if err := h.s.engine.Log.CatchUp(); err != nil {
			return err
		}
		if done, err := h.c.Replay(); err != nil {
			return err
		} else if done {
			return h.again(ctx)
		}
	}
	if err := h.compose(ctx); err != nil {
		return err
	}
	return h.keepOld()
}

// compose makes the content of the file. It reads files that are not locked, so
// once is enough.
func (h *handoffWrite) compose(ctx context.Context) error {
	if h.composed {
		return nil
	}
	env, sure := h.r.Envelope, map[string]string{}
	if h.r.AutoState != "" {
		found, err := h.s.autoState(ctx, h.r.AutoState, h.c)
		if err != nil {
			return err
		}
		listed := map[string]bool{}
		env.LastGoodState = append([]HandoffFile{}, env.LastGoodState...)
		for _, f := range env.LastGoodState {
			listed[f.Path] = true
		}
		for _, f := range found {
			if !listed[f.Path] {
				env.LastGoodState = append(env.LastGoodState, f)
			}
			if h.r.AutoState != AutoStateSession {
				sure[f.Path] = f.SHA256
			}
		}
	}
	if err := h.look(ctx, env.LastGoodState, sure); err != nil {
		return err
	}
	if h.r.Strict && len(h.drift) > 0 {
		e := h.s.drifted(h.drift)
		e.Stage = string(StagePrecondition)
		return e
	}
	doc, e := env.document(string(h.r.Body), h.c.Began)
	if e == nil && len(doc) > maxHandoff {
		e = fault.New(fault.TooLarge).With("bytes", len(doc)).With("max_bytes", maxHandoff).Hintf("a handoff has at most %d bytes; put long text into a file and refer to it", maxHandoff)
	}
	if e != nil {
		e.Stage = string(StageCompose)
		return e
	}
	h.c.First().Hold(doc)
	h.composed = true
	return nil
}

// look collects what the reply reports about the workspace.
func (h *handoffWrite) look(ctx context.Context, files []HandoffFile, sure map[string]string) error {
	drift, err := h.s.driftOf(ctx, files, sure)
	if err != nil {
		return err
	}
	h.drift, h.refs = drift, h.s.checkpoints.Names()
	return nil
}

// again fills in the reply to a repeated call.
func (h *handoffWrite) again(ctx context.Context) error {
	for i := range h.c.Replayed.Muts {
		if m := &h.c.Replayed.Muts[i]; m.Op == handoff.KindArchive {
			h.archived = m.Path
		}
	}
	return h.look(ctx, h.r.Envelope.LastGoodState, nil)
}

// result is the reply.
func (h *handoffWrite) result() HandoffWriteResult {
	c, m := h.c, h.c.First()
	rec, status := c.finished()
	return HandoffWriteResult{
		HandoffPath: m.Path, SHA256: rec.SHA256, Bytes: rec.Bytes, JournalID: rec.JournalID,
		WroteAt: c.wroteAt(), Status: status,
		DriftWarnings: h.drift, CheckpointRefs: h.refs, ArchivedPath: h.archived,
		Diff: c.Diff, Warnings: rec.Warnings, Receipt: rec,
	}
}
