package resilientwrite

import (
	"context"

	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/gate"
)

// RepairRequest asks for what Check finds to be put right.
type RepairRequest struct {
	Call `omit:"idempotency_key,accept_risk"`

	// Reason for accepting journal damage that cannot be repaired. It is recorded
	// in the journal, and Check no longer reports that damage.
	Acknowledge string `json:"acknowledge,omitempty" maxlen:"500"`
}

// RepairResult reports what was done.
type RepairResult struct {
	// What was done, in order.
	Actions []RepairAction `json:"actions"`
	// Problems that a deep check still finds, and why they remain.
	Left []LeftProblem `json:"left"`
	// True when a deep check finds no more problems.
	Clean bool `json:"clean"`
	// Outcome of the call.
	Status Status `json:"status" enum:"succeeded,unchanged"`
	// What the caller should know although the call succeeded.
	Warnings []Warning `json:"warnings"`
	// The full record of the call.
	Receipt Receipt `json:"receipt"`
}

// RepairAction is one thing that was done.
type RepairAction struct {
	// The operation.
	Did RepairKind `json:"did" enum:"rebuilt,set_aside,put_in_order,finished,acknowledged"`
	// The problem that was repaired, as Check names it.
	Code string `json:"code"`
	// The file that was repaired, relative to the state directory.
	Path string `json:"path,omitempty"`
	// The journal row concerned.
	Seq uint64 `json:"seq,omitempty"`
	// Description in words.
	Detail string `json:"detail,omitempty"`
}

// RepairKind is what Repair did about a problem.
type RepairKind string

const (
	// A cache was made again from the journal or from the files it describes.
	RepairRebuilt RepairKind = "rebuilt"
	// Something damaged was moved to quarantine/, where it keeps its bytes.
	RepairSetAside RepairKind = "set_aside"
	// Rows that are all present, as the hash chain proves, were put in order.
	RepairOrdered RepairKind = "put_in_order"
	// A write that a dead process left was completed or rolled back.
	RepairFinished RepairKind = "finished"
	// Damage that cannot be repaired was accepted, with a note in the journal.
	RepairAcknowledged RepairKind = "acknowledged"
)

// LeftProblem is a problem that Repair does not repair.
type LeftProblem struct {
	CheckProblem
	// Why it remains, and what can be done.
	Why string `json:"why"`
}

// Repair repairs the problems that a deep [Store.Check] finds, as far as that is
// possible without inventing data. Caches – meta.json, snapshots of the index,
// lists of sessions, the index of the scratchpad – are rebuilt from their
// sources. Files that are damaged or do not belong here are moved to quarantine/,
// where they keep their bytes. Segments of the journal whose rows are all
// present, as the chain proves, are put in order: rows that were swapped,
// duplicated or run together, garbage between them, a wrong name; the old segment
// is kept in quarantine/. Nothing is deleted, and no row is invented.
//
// A journal with missing or changed rows cannot be repaired. Left reports this,
// and with Acknowledge a note in the journal accepts exactly that damage, with
// the reason: Check does not report it again, but still reports any other. Files
// of the workspace are never changed: one that differs from its newest row was
// changed by another program, which is no damage.
//
// Repeating it changes nothing. If Repair is killed at any point, the store is no
// worse, and the next call continues. Errors: [ErrInvalidArgument],
// [ErrLockTimeout], the storage details, [ErrStorePoisoned], [ErrStoreClosed],
// [ErrStoreReadOnly], [ErrCanceled].
func (a Admin) Repair(ctx context.Context, r RepairRequest) (RepairResult, error) {
	s := a.s
	u, ctx, err := s.beginUpkeep(ctx, upkeepCall{op: "repair", caller: r.Caller, session: r.Session, dryRun: r.DryRun})
	if err != nil {
		return RepairResult{}, err
	}
	if e := fault.CheckText("acknowledge", r.Acknowledge, gate.MaxReason); e != nil {
		return RepairResult{}, u.failed(e)
	}
	done, err := u.Repair(ctx, r.Acknowledge)
	if err != nil {
		return RepairResult{}, u.failed(err)
	}
	out := RepairResult{Actions: make([]RepairAction, len(done.Actions)), Left: make([]LeftProblem, len(done.Left)), Warnings: []Warning{}}
	for i, a := range done.Actions {
		out.Actions[i] = RepairAction{Did: RepairKind(a.Did), Code: a.Code, Path: a.Path, Seq: a.Seq, Detail: a.Detail}
	}
	for i, p := range done.Left {
		out.Left[i] = LeftProblem{CheckProblem(p.Problem), p.Why}
	}
	out.Clean, out.Status = len(out.Left) == 0, changedOr(len(out.Actions) > 0)
	out.Receipt = u.done(out.Status, out.Warnings)
	return out, nil
}
