package resilientwrite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/drafts"
	"github.com/resilientwrite/resilientwrite/internal/needle"
)

// EraseRequest asks for a leaked secret to be erased from the state directory.
// Give exactly one of Secret, SHA256 and DraftRef.
type EraseRequest struct {
	Call `omit:"idempotency_key,accept_risk"`

	Secret []byte `json:"-"` // the bytes themselves, at least 8; they are written nowhere
	// Instead of the bytes: erase everything whose whole content has this
	// SHA-256.
	SHA256 Digest `json:"sha256,omitzero" maxlen:"200"`
	// Instead of the bytes: erase everything whose whole content equals this
	// draft.
	DraftRef string `json:"draft_ref,omitempty" maxlen:"200"`
	// Reason, recorded in the journal; it must not contain the secret.
	Reason string `json:"reason,omitempty" maxlen:"500"`
	// Do not search the files of the workspace for the secret.
	SkipWorkspace bool `json:"skip_workspace,omitempty"`
}

// String hides the secret when someone prints a request.
func (r EraseRequest) String() string {
	return fmt.Sprintf("{Secret:%d bytes SHA256:%s DraftRef:%s DryRun:%v}", len(r.Secret), r.SHA256, r.DraftRef, r.DryRun)
}

// GoString is String.
func (r EraseRequest) GoString() string { return r.String() }

// EraseResult reports what was erased.
type EraseResult struct {
	// Occurrences in the state directory, by part.
	Places []ErasedPlace `json:"places"`
	// Number of journal rows that were overwritten.
	Rows int `json:"rows"`
	// SHA-256 of the kept versions that were erased, at most 1000.
	Versions []string `json:"versions"`
	// Files of the workspace that still contain it; they are not changed. At most
	// 1000.
	Workspace []string `json:"workspace"`
	// True when there are more.
	WorkspaceMore bool `json:"workspace_more"`
	// Files of the workspace that could not be read.
	Unreadable int `json:"unreadable"`
	// Files of the state directory that still contain it, such as a policy file
	// that names it.
	Left []string `json:"left"`
	// Outcome of the call.
	Status Status `json:"status" enum:"succeeded,unchanged"`
	// What the caller should know although the call succeeded.
	Warnings []Warning `json:"warnings"`
	// The full record of the call.
	Receipt Receipt `json:"receipt"`
}

// ErasedPlace is one part of the state directory.
type ErasedPlace struct {
	// Name of the part: journal, history, scratch, quarantine, chunks …
	Place string `json:"place"`
	// Number of items erased or overwritten.
	Count int `json:"count"`
}

// Erase erases a leaked secret from every part of the state directory, archive
// included: as it is, escaped as in JSON, in base64, in hexadecimal and
// percent-encoded. It is meant for the operator and is no tool.
//
// Kept versions, objects of the scratchpad, refused drafts, pieces of chunk
// sessions and staged transactions that hold it are removed; the session then
// lacks the piece, and the version is [ErrVersionNotKept] with erased set in the
// context. Checkpoints, archived handoffs, rows of the journal and everything
// else keep their size and their other bytes; only the secret is written over,
// also in the names of files that a scan found. The stat index of the last scan
// and snapshots lose the files that are named so.
// Numbers of rows, cursors and the chain stay valid: notes in the journal tell
// the hash of each row and file before and afterwards, and [Store.Check] accepts
// them. Neither the secret nor a hash of it is written anywhere; hashes of
// whole files that held it stay.
//
// Files of the workspace are not touched; Workspace lists those that still
// hold it, but for those in .git. Clean them first: a write that replaces such
// a file keeps its old bytes in history. What the disk itself keeps of bytes
// that were removed, and copies elsewhere, are out of reach.
//
// It works beside running writers and may be killed at any point: the store is
// sound, and calling again finishes. Errors: [ErrInvalidArgument] for a secret that
// is shorter than 8 bytes, too uniform, or a part of what the journal itself is
// made of, and for a reason or label that holds it; [ErrBadSHA256],
// [ErrDraftNotFound], [ErrLockTimeout], the storage details, [ErrStorePoisoned],
// [ErrStoreClosed], [ErrStoreReadOnly], [ErrCanceled].
func (a Admin) Erase(ctx context.Context, r EraseRequest) (EraseResult, error) {
	s := a.s
	e := &eraser{s: s, dryRun: r.DryRun, places: map[string]int{}}
	u, ctx, err := s.beginUpkeep(ctx, upkeepCall{op: "erase", dryRun: r.DryRun, caller: "", session: ""})
	if err != nil {
		return EraseResult{}, err
	}
	e.u = u
	e.out = EraseResult{Places: []ErasedPlace{}, Versions: []string{}, Workspace: []string{}, Left: []string{}, Warnings: []Warning{}}
	if err := e.prepare(r); err != nil {
		return EraseResult{}, u.failed(err)
	}
	if err := e.run(ctx, !r.SkipWorkspace); err != nil {
		return EraseResult{}, u.failed(err)
	}
	e.out.Status = StatusUnchanged
	for place, n := range e.places {
		e.out.Places = append(e.out.Places, ErasedPlace{place, n})
		e.out.Status = StatusSucceeded
	}
	slices.SortFunc(e.out.Places, func(a, b ErasedPlace) int { return strings.Compare(a.Place, b.Place) })
	slices.Sort(e.out.Versions)
	if len(e.out.Left) > 0 {
		e.out.Warnings = append(e.out.Warnings, warning(WarnSecretLeft))
	}
	if len(e.out.Workspace) > 0 {
		e.out.Warnings = append(e.out.Warnings, warning(WarnSecretInWorkspace))
	}
	e.out.Receipt = u.done(e.out.Status, e.out.Warnings)
	return e.out, nil
}

// eraser is one Erase in progress.
type eraser struct {
	s      *Store
	u      *upkeep
	n      *needle.Needle // nil when something is erased by its hash
	sha    string         // of whole contents, when there is no needle
	reason string
	dryRun bool
	found  int    // things that this round changed
	began  uint64 // newest row when this round began
	places map[string]int
	out    EraseResult
}

// prepare judges the arguments. Whatever goes into the journal is judged too:
// the secret must not come back through it.
func (e *eraser) prepare(r EraseRequest) error {
	given := 0
	for _, is := range []bool{len(r.Secret) > 0, !r.SHA256.IsZero(), r.DraftRef != ""} {
		if is {
			given++
		}
	}
	if given != 1 {
		return fault.New(fault.InvalidArgument).With("argument", "secret").Hintf("give exactly one of the secret, sha256 and draft_ref")
	}
	if bad := checkLabels(r.Caller, r.Session, ""); bad != nil {
		return bad
	}
	if bad := checkTexts(boundedText{"reason", r.Reason, maxReason}); bad != nil {
		return bad
	}
	switch {
	case !r.SHA256.IsZero():
		e.sha = r.SHA256.String()
	case r.DraftRef != "":
		if err := e.byDraft(r.DraftRef); err != nil {
			return err
		}
	default:
		var err error
		if e.n, err = needle.New(r.Secret); err != nil {
			return fault.New(fault.InvalidArgument).With("argument", "secret").With("min_bytes", needle.MinBytes).
				Hintf("a secret must have at least %d bytes that are not all the same; a shorter one would match by chance", needle.MinBytes)
		}
		for name, text := range map[string]string{"caller": r.Caller, "session": r.Session, "reason": r.Reason} {
			if e.n.Within([]byte(text)) {
				return fault.New(fault.InvalidArgument).With("argument", name).Hintf("%s contains the secret itself and would be recorded in the journal", name)
			}
		}
	}
	if r.Caller != "" {
		e.u.c.Req.Caller = r.Caller
	}
	if r.Session != "" {
		e.u.c.Req.Session = r.Session
	}
	e.reason = e.s.safeText(r.Reason)
	return nil
}

func (e *eraser) byDraft(ref string) error {
	dir, err := e.s.drafts.OpenDir()
	if err != nil {
		return err
	}
	if dir == nil || !drafts.ValidRef(ref) {
		return fault.New(fault.DraftNotFound)
	}
	defer dir.Close()
	d, err := drafts.ReadFacts(dir, ref)
	if engine.IsAbsent(err) {
		return fault.New(fault.DraftNotFound)
	}
	e.sha = d.SHA256
	return err
}

// maxRounds is how often the state directory is gone through: a writer beside
// us may have written the secret again meanwhile.
const maxRounds = 4

func (e *eraser) run(ctx context.Context, workspace bool) error {
	if e.s.engine.Log == nil {
		return nil
	}
	if err := e.foresee(); err != nil {
		return err
	}
	for range maxRounds {
		e.found = 0
		e.u.account.things(StepErase, 0, "searching the state directory")
		if err := e.round(ctx); err != nil {
			return err
		}
		if e.dryRun {
			break
		}
		more, err := e.cameBetween()
		if err != nil {
			return err
		}
		if e.found == 0 && !more {
			break
		}
	}
	if !e.dryRun {
		if err := e.renew(); err != nil {
			return err
		}
		if err := e.whatIsLeft(); err != nil {
			return err
		}
	}
	if workspace {
		return e.searchWorkspace(ctx)
	}
	return nil
}

// foresee refuses a secret that is a part of what the journal is made of,
// before anything is changed.
func (e *eraser) foresee() error {
	if e.n == nil {
		return nil
	}
	known, err := e.s.engine.Log.Known()
	if err != nil {
		return err
	}
	segs, err := e.allSegments()
	if err != nil {
		return err
	}
	for _, first := range segs {
		if _, err := e.s.engine.Log.PlanRedaction(known, first, e.mask()); err != nil {
			return e.refused(err)
		}
	}
	return nil
}

func (e *eraser) refused(err error) error {
	if errors.Is(err, needle.ErrStructure) {
		return fault.New(fault.InvalidArgument).With("argument", "secret").
			Hintf("these bytes also occur in the structure of the journal; give more of the secret, or another part of it")
	}
	return err
}

func (e *eraser) mask() journal.Mask {
	return journal.Mask{
		// Rows are written by us, in one form of JSON, which is among the forms
		// that are looked for.
		In:   e.n.Within,
		Line: func(line []byte) ([]byte, bool, error) { return e.n.MaskJSON(line, journal.Fixed) },
		Raw:  e.n.Mask,
	}
}

// allSegments lists the sealed segments and the one that is written to.
func (e *eraser) allSegments() ([]uint64, error) {
	if err := e.s.engine.Log.CatchUp(); err != nil {
		return nil, err
	}
	segs, err := e.s.engine.Log.Sealed()
	if err != nil {
		return nil, err
	}
	if now := e.s.engine.Log.End().Segment; now > 0 && !slices.Contains(segs, now) {
		segs = append(segs, now)
	}
	return segs, nil
}

// round goes through everything once.
func (e *eraser) round(ctx context.Context) error {
	if err := e.quiet(ctx); err != nil {
		return err
	}
	for _, part := range []func(context.Context) error{
		e.journal, e.manifests, e.slots, e.versions, e.scratch, e.drafts, e.sessions, e.checkpoints, e.transactions, e.smallFiles, e.observed, e.rest, e.names,
	} {
		if err := canceled(ctx); err != nil {
			return err
		}
		if err := part(ctx); err != nil {
			return err
		}
	}
	return nil
}

// journal seals the segment that is written to when it has something to erase,
// and waits for the commits whose rows stand there: recovery needs their paths
// as they are.
func (e *eraser) journal(ctx context.Context) error {
	if e.n == nil {
		return nil
	}
	known, err := e.s.engine.Log.Known()
	if err != nil {
		return err
	}
	segs, err := e.allSegments()
	if err != nil {
		return err
	}
	for _, first := range segs {
		plan, err := e.s.engine.Log.PlanRedaction(known, first, e.mask())
		if err != nil {
			return e.refused(err)
		}
		e.u.account.one()
		if len(plan.Changes) == 0 {
			continue
		}
		if e.dryRun {
			e.count("journal", max(1, plan.Rows))
			e.out.Rows += plan.Rows
			continue
		}
		if first == e.s.engine.Log.End().Segment {
			if plan, err = e.seal(ctx, known, first); err != nil {
				return err
			}
		}
		if err := e.u.noteChanges(ctx, journal.NoteErased, e.reason, plan.Changes); err != nil {
			return err
		}
		if err := plan.Apply(e.s.engine.Disk.Staging, e.u.tempName()); err != nil {
			return err
		}
		e.count("journal", max(1, plan.Rows))
		e.out.Rows += plan.Rows
	}
	return nil
}

// seal begins a new segment and plans the old one again, when nothing of it is
// in progress any more.
func (e *eraser) seal(ctx context.Context, known *journal.Known, first uint64) (*journal.Redaction, error) {
	e.u.effect = fault.EffectUnknown
	if err := e.s.engine.Log.Roll(ctx); err != nil {
		return nil, e.u.journalFailed(err)
	}
	if err := e.quiet(ctx); err != nil {
		return nil, err
	}
	return e.s.engine.Log.PlanRedaction(known, first, e.mask())
}

// count notes things that were erased.
func (e *eraser) count(place string, n int) {
	e.places[place] += n
	e.found += n
	if !e.dryRun {
		e.u.effect = fault.EffectUnknown
	}
}

// holds reports whether a file is to be erased.
func (e *eraser) holds(dir fsx.Dir, name string) (bool, error) {
	f, err := dir.Open(name, fsx.Read, 0)
	var kind *fsx.TypeError
	if engine.IsAbsent(err) || errors.As(err, &kind) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	if e.n != nil {
		return e.n.In(f)
	}
	st, err := f.Stat()
	if err != nil {
		return false, err
	}
	sha, err := engine.ShaOf(f, st.Size)
	return sha == e.sha, err
}

// shown is a path as it may be told and journaled.
func (e *eraser) shown(path string) string {
	if e.n == nil {
		return path
	}
	out, _ := e.n.Mask([]byte(path))
	return string(out)
}

// renew makes the caches again that knew erased paths.
func (e *eraser) renew() error {
	if e.out.Rows == 0 && e.places["manifests"] == 0 {
		return nil
	}
	if err := e.s.engine.RebuildRows(); err != nil {
		return err
	}
	return e.s.engine.Alone("snapshot", func() error { return e.s.engine.Rows.Write(e.s.engine.Disk.Index, e.s.engine.Log) })
}
