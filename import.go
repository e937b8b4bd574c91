package resilientwrite

import (
	"context"
	"io"

	"github.com/resilientwrite/resilientwrite/internal/fault"
)

// ImportRequest asks for the rows of an export to be taken over.
type ImportRequest struct {
	Call `omit:"idempotency_key,accept_risk"`

	R io.Reader `json:"-"` // the export; it is read to its end
	// Also import into a store that has rows of its own. Rows of paths it already
	// knows become notes.
	AllowNonEmpty bool `json:"allow_non_empty,omitempty"`
}

// ImportResult reports what was taken over.
type ImportResult struct {
	// Rows in the export.
	Rows int64 `json:"rows"`
	// Number of rows imported, or that would be imported.
	Imported int64 `json:"imported"`
	// Number of rows that an earlier call imported.
	Present int64 `json:"present"`
	// Rows about the old store itself: notes, rolled-back commits, objects of its
	// state directory.
	Skipped int64 `json:"skipped"`
	// Hash in the last line of the export, which identifies it.
	SHA256 Digest `json:"sha256"`
	// Outcome of the call.
	Status Status `json:"status" enum:"succeeded,unchanged"`
	// What the caller should know although the call succeeded.
	Warnings []Warning `json:"warnings"`
	// The full record of the call.
	Receipt Receipt `json:"receipt"`
}

// Import adds the rows of an export to a fresh store, where tail, history and
// analytics show them with their original ids. The export is read to its end and
// verified before anything is written: header, order, chain, number of rows,
// final hash. An export has no content: versions of imported rows are available
// only if history has their bytes.
//
// Rows are written in batches. If Import is killed, the store has a part of them,
// and importing the same export again continues where it stopped; when all rows
// are present the call is unchanged. Idempotency keys are not imported.
//
// Errors: [ErrExportDamaged] for an export that is truncated or changed, with
// nothing left on disk; [ErrNewerFormat]; [ErrStoreNotEmpty] for a store with
// rows of its own unless the request allows it; [ErrInvalidArgument] without a
// reader; [ErrLockTimeout]; the storage details – also those of R –;
// [ErrStorePoisoned], [ErrStoreClosed], [ErrStoreReadOnly], [ErrCanceled].
func (a Admin) Import(ctx context.Context, r ImportRequest) (ImportResult, error) {
	s := a.s
	u, ctx, err := s.beginUpkeep(ctx, upkeepCall{op: "import", caller: r.Caller, session: r.Session, dryRun: r.DryRun})
	if err != nil {
		return ImportResult{}, err
	}
	if r.R == nil {
		return ImportResult{}, u.failed(fault.New(fault.InvalidArgument).With("argument", "r").Hintf("give a reader"))
	}
	done, err := u.Import(ctx, r.R, r.AllowNonEmpty)
	if err != nil {
		return ImportResult{}, u.failed(err)
	}
	out := ImportResult{
		Rows: done.Rows, Imported: done.Imported, Present: done.Present, Skipped: done.Skipped, SHA256: digest(done.SHA256),
		Status: changedOr(done.Imported > 0), Warnings: []Warning{},
	}
	out.Receipt = u.done(out.Status, out.Warnings)
	return out, nil
}
