package resilientwrite

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/resilientwrite/resilientwrite/internal/admin"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/gate"
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
// else keep their size and their other bytes; only the secret is overwritten,
// also in the names of files that a scan found. Files with such names are removed
// from the stat index of the last scan and from snapshots.
// Numbers of rows, cursors and the chain stay valid: notes in the journal record
// the hash of each row and file before and afterwards, and [Store.Check] accepts
// them. Neither the secret nor a hash of it is written anywhere; hashes of
// whole files that held it stay.
//
// Files of the workspace are not changed; Workspace lists those that still hold
// it, except those in .git. Clean them first: a write that replaces such a file
// keeps its old bytes in history. Removed bytes that the disk itself retains, and
// copies elsewhere, are out of reach.
//
// Erase works concurrently with writers and may be killed at any point: the store
// is sound, and calling again finishes. Errors: [ErrInvalidArgument] for a secret
// that is shorter than 8 bytes, too uniform, or a part of what the journal itself
// is made of, and for a reason or label that holds it; [ErrBadSHA256],
// [ErrDraftNotFound], [ErrLockTimeout], the storage details, [ErrStorePoisoned],
// [ErrStoreClosed], [ErrStoreReadOnly], [ErrCanceled].
func (a Admin) Erase(ctx context.Context, r EraseRequest) (EraseResult, error) {
	s := a.s
	u, ctx, err := s.beginUpkeep(ctx, upkeepCall{op: "erase", dryRun: r.DryRun})
	if err != nil {
		return EraseResult{}, err
	}
	what, err := s.whatToErase(r)
	if err != nil {
		return EraseResult{}, u.failed(err)
	}
	u.calls(r.Caller, r.Session)
	done, err := u.Erase(ctx, what)
	if err != nil {
		return EraseResult{}, u.failed(err)
	}
	out := EraseResult{
		Places: []ErasedPlace{}, Rows: done.Rows, Versions: done.Versions, Workspace: done.Workspace, WorkspaceMore: done.WorkspaceMore,
		Unreadable: done.Unreadable, Left: done.Left, Status: changedOr(len(done.Places) > 0), Warnings: []Warning{},
	}
	for _, place := range slices.Sorted(maps.Keys(done.Places)) {
		out.Places = append(out.Places, ErasedPlace{place, done.Places[place]})
	}
	if len(out.Left) > 0 {
		out.Warnings = append(out.Warnings, warning(WarnSecretLeft))
	}
	if len(out.Workspace) > 0 {
		out.Warnings = append(out.Warnings, warning(WarnSecretInWorkspace))
	}
	out.Receipt = u.done(out.Status, out.Warnings)
	return out, nil
}

// whatToErase validates the arguments. It also checks everything that goes into
// the journal: the secret must not be stored there again.
func (s *Store) whatToErase(r EraseRequest) (what admin.EraseRequest, err error) {
	given := 0
	for _, is := range []bool{len(r.Secret) > 0, !r.SHA256.IsZero(), r.DraftRef != ""} {
		if is {
			given++
		}
	}
	if given != 1 {
		return what, fault.New(fault.InvalidArgument).With("argument", "secret").Hintf("give exactly one of the secret, sha256 and draft_ref")
	}
	if bad := checkLabels(r.Caller, r.Session, ""); bad != nil {
		return what, bad
	}
	if bad := fault.CheckText("reason", r.Reason, gate.MaxReason); bad != nil {
		return what, bad
	}
	switch {
	case !r.SHA256.IsZero():
		what.SHA256 = r.SHA256.String()
	case r.DraftRef != "":
		if what.SHA256, err = s.draftDigest(r.DraftRef); err != nil {
			return what, err
		}
	default:
		if what.Needle, err = needle.New(r.Secret); err != nil {
			return what, fault.New(fault.InvalidArgument).With("argument", "secret").With("min_bytes", needle.MinBytes).
				Hintf("a secret must have at least %d bytes that are not all equal; a shorter one would match by chance", needle.MinBytes)
		}
		for name, text := range map[string]string{"caller": r.Caller, "session": r.Session, "reason": r.Reason} {
			if what.Needle.Within([]byte(text)) {
				return what, fault.New(fault.InvalidArgument).With("argument", name).Hintf("%s contains the secret itself and would be recorded in the journal", name)
			}
		}
	}
	what.Reason, what.Workspace = s.safeText(r.Reason), !r.SkipWorkspace
	return what, nil
}

// draftDigest returns the hash of a refused draft.
func (s *Store) draftDigest(ref string) (string, error) {
	dir, err := s.drafts.OpenDir()
	if err != nil {
		return "", err
	}
	if dir == nil || !drafts.ValidRef(ref) {
		return "", fault.New(fault.DraftNotFound)
	}
	defer dir.Close()
	d, err := drafts.ReadFacts(dir, ref)
	if engine.IsAbsent(err) {
		return "", fault.New(fault.DraftNotFound)
	}
	return d.SHA256, err
}
