package resilientwrite

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/index"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/chunks"
	"github.com/resilientwrite/resilientwrite/internal/layer/scratch"
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

// Repair puts right what a deep [Store.Check] names, as far as that is possible
// without inventing anything. Caches – meta.json, snapshots of the index, lists
// of sessions, the index of the scratchpad – are made again from what they are
// caches of. What is damaged or has no place here is moved to quarantine/, where
// it keeps its bytes. Segments of the journal whose rows are all there, as the
// chain proves, are put in order: rows that were swapped, doubled or run
// together, garbage between them, a wrong name; the old segment is kept in
// quarantine/. Nothing is deleted, and no row is made up.
//
// A journal from which rows are missing or in which they were changed cannot be
// repaired. Left says so, and with Acknowledge a note in the journal accepts
// exactly that damage, with the reason: Check does not name it again, but any
// other. Files of the workspace are never touched: one that differs from its
// newest row was changed by another program, which is no damage.
//
// Doing it again changes nothing. Killed at any point it leaves a store that is
// no worse, and the next call goes on. Errors: [ErrInvalidArgument],
// [ErrLockTimeout], the storage details, [ErrStorePoisoned], [ErrStoreClosed],
// [ErrStoreReadOnly], [ErrCanceled].
func (a Admin) Repair(ctx context.Context, r RepairRequest) (RepairResult, error) {
	s := a.s
	u, ctx, err := s.beginUpkeep(ctx, upkeepCall{op: "repair", caller: r.Caller, session: r.Session, dryRun: r.DryRun})
	if err != nil {
		return RepairResult{}, err
	}
	p := &repair{s: s, u: u, req: r, seen: map[string]bool{}}
	p.out = RepairResult{Actions: []RepairAction{}, Left: []LeftProblem{}, Warnings: []Warning{}}
	if e := checkTexts(boundedText{"acknowledge", r.Acknowledge, maxReason}); e != nil {
		return RepairResult{}, u.failed(e)
	}
	if err := p.run(ctx); err != nil {
		return RepairResult{}, u.failed(err)
	}
	p.out.Status = StatusUnchanged
	if len(p.out.Actions) > 0 {
		p.out.Status = StatusSucceeded
	}
	p.out.Clean = len(p.out.Left) == 0
	p.out.Receipt = u.done(p.out.Status, p.out.Warnings)
	return p.out, nil
}

// repair is one Repair in progress.
type repair struct {
	s    *Store
	u    *upkeep
	req  RepairRequest
	out  RepairResult
	seen map[string]bool // problems that were worked on

	journal bool // segments were changed, so the caches of the journal are made again
}

// repairRounds is how often the store is checked: putting one thing right may
// show another.
const repairRounds = 3

func (p *repair) run(ctx context.Context) error {
	if p.s.engine.Log == nil {
		return nil
	}
	if !p.req.DryRun {
		if err := p.s.engine.Behind.Drain(); err != nil {
			return err
		}
		if err := p.s.engine.RecoverDead(ctx, new(engine.Report)); err != nil {
			return err
		}
		if err := p.u.forGood(); err != nil {
			return err
		}
	}
	var c *checker
	for range repairRounds {
		p.u.account.things(StepRepair, 0, "checking and repairing")
		var err error
		if c, err = p.check(ctx); err != nil {
			return err
		}
		before := len(p.out.Actions)
		if err := p.round(ctx, c); err != nil {
			return err
		}
		if len(p.out.Actions) == before || p.req.DryRun {
			break
		}
	}
	if err := p.caches(); err != nil {
		return err
	}
	if err := p.acknowledge(ctx, c); err != nil {
		return err
	}
	return p.rest(ctx, c)
}

func (p *repair) check(ctx context.Context) (*checker, error) {
	c := newChecker(p.s, true, nil)
	return c, c.run(ctx)
}

// did notes one action.
func (p *repair) did(kind RepairKind, q CheckProblem, detail string) {
	p.out.Actions = append(p.out.Actions, RepairAction{Did: kind, Code: q.Code, Path: q.Path, Seq: q.Seq, Detail: detail})
	if !p.req.DryRun {
		p.u.effect = fault.EffectUnknown
	}
}

// round works on every problem that has not been worked on.
func (p *repair) round(ctx context.Context, c *checker) error {
	for _, q := range c.out.Problems {
		if err := canceled(ctx); err != nil {
			return err
		}
		key := fmt.Sprint(q.Code, " ", q.Path, " ", q.Seq)
		if p.seen[key] {
			continue
		}
		p.seen[key] = true
		if err := p.one(ctx, q); err != nil {
			return err
		}
	}
	return p.segments(ctx, c)
}

// one puts a single problem right, if that can be done by itself.
func (p *repair) one(ctx context.Context, q CheckProblem) error {
	switch q.Code {
	case "meta_unreadable":
		p.did(RepairRebuilt, q, "rebuilt from the journal")
		if p.req.DryRun {
			return nil
		}
		return p.s.engine.Alone("repair", p.s.engine.WriteMeta)
	case "stale_staging":
		p.did(RepairFinished, q, "completed or rolled back")
		if p.req.DryRun {
			return nil
		}
		return p.s.engine.RecoverDead(ctx, new(engine.Report))
	case problemForeign, "object_damaged", problemBudgets, problemCursor, problemHandoffs, problemSnapshot, problemScratch:
		return p.aside(ctx, q)
	case "file_differs":
		if object, ok := strings.CutPrefix(q.Path, engine.StateDirName+"/"+chunks.Dir+"/"); ok && chunks.IndexOf(object) > 0 {
			return p.aside(ctx, q) // a piece that is not what was sent has to be sent again
		}
	case problemScratchIndex:
		if q.Path != scratch.Index { // lines beside an object, which the index has as well
			return p.aside(ctx, q)
		}
		return p.scratchIndex(ctx, q)
	case problemCheckpoint:
		return p.checkpoint(ctx, q)
	case problemManifest:
		return p.manifest(ctx, q)
	case problemDraft:
		return p.draft(q)
	}
	return nil
}

// segments puts the segments in order in which a problem was found.
func (p *repair) segments(ctx context.Context, c *checker) error {
	var firsts []uint64
	for _, q := range c.rows {
		if q.Segment > 0 && !slices.Contains(firsts, q.Segment) {
			firsts = append(firsts, q.Segment)
		}
	}
	slices.Sort(firsts)
	for _, first := range firsts {
		if err := p.segment(ctx, c, first); err != nil {
			return err
		}
	}
	return nil
}

func (p *repair) segment(ctx context.Context, c *checker, first uint64) error {
	if first == p.s.engine.Log.End().Segment {
		if plan, err := p.s.engine.Log.PlanMending(c.known, first); err != nil || plan == nil {
			return err
		}
		if !p.req.DryRun {
			p.u.effect = fault.EffectUnknown
			if err := p.s.engine.Log.Roll(ctx); err != nil {
				return p.u.journalFailed(err)
			}
		}
	}
	plan, err := p.s.engine.Log.PlanMending(c.known, first)
	if err != nil || plan == nil {
		return err
	}
	q := CheckProblem{Code: journal.ProblemOrder, Path: "journal/" + journal.SegmentFile(first), Seq: first}
	for _, r := range c.rows {
		if r.Segment == first {
			q.Code = r.Code
			break
		}
	}
	p.did(RepairOrdered, q, fmt.Sprintf("all %d rows are present, as the hash chain proves, and are in order now", plan.Rows))
	if p.req.DryRun {
		return nil
	}
	if err := p.keepSegment(plan, first); err != nil {
		return err
	}
	if err := p.u.noteChanges(ctx, journal.NoteMended, "segment reordered", plan.Changes); err != nil {
		return err
	}
	p.journal = true
	return plan.Apply(p.s.engine.Disk.Staging, p.u.tempName())
}

// keepSegment copies the old segment to quarantine/.
func (p *repair) keepSegment(plan *journal.Mending, first uint64) error {
	return p.s.engine.Alone("quarantine", func() error {
		to, err := p.s.engine.OpenPart("quarantine")
		if err != nil {
			return err
		}
		defer to.Close()
		return engine.CopyDamaged(plan.Dir(), journal.SegmentFile(first), to, "journal-"+journal.SegmentFile(first))
	})
}

// caches makes the snapshots of the index again when something they are made
// from was changed, or when one of them was damaged.
func (p *repair) caches() error {
	if p.req.DryRun {
		return nil
	}
	list, err := index.Snapshots(p.s.engine.Disk.Index)
	if err != nil {
		return err
	}
	stale := p.journal
	for _, a := range p.out.Actions {
		stale = stale || a.Code == problemSnapshot
	}
	for _, snap := range list {
		stale = stale || snap.Err != nil
	}
	if !stale {
		return nil
	}
	if err := p.s.engine.RebuildRows(); err != nil {
		return err
	}
	return p.s.engine.Alone("snapshot", func() error { return p.s.engine.Rows.Write(p.s.engine.Disk.Index, p.s.engine.Log) })
}

// acknowledge accepts the damage of the journal that is left.
func (p *repair) acknowledge(ctx context.Context, c *checker) error {
	if p.req.Acknowledge == "" {
		return nil
	}
	var err error
	if !p.req.DryRun { // as it is now
		if c, err = p.check(ctx); err != nil {
			return err
		}
	}
	var list []journal.Accepted
	for _, q := range c.rows {
		if q.Code == journal.ProblemForeign {
			continue
		}
		list = append(list, journal.Accepted{Code: q.Code, Segment: q.Segment, Seq: q.Seq, Evidence: q.Evidence})
		p.did(RepairAcknowledged, CheckProblem{Code: q.Code, Path: q.Name, Seq: q.Seq}, q.Detail)
	}
	if p.req.DryRun {
		return nil
	}
	reason := p.s.safeText(p.req.Acknowledge)
	for len(list) > 0 {
		n := min(len(list), 400)
		if err := p.u.note(ctx, journal.Note{What: journal.NoteAccepted, Text: reason, Accepted: list[:n]}); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// rest lists what a check still names.
func (p *repair) rest(ctx context.Context, c *checker) error {
	var err error
	if !p.req.DryRun {
		if c, err = p.check(ctx); err != nil {
			return err
		}
	}
	handled := map[string]bool{}
	aside := map[string]bool{} // with the file goes that it differs from its row
	for _, a := range p.out.Actions {
		handled[fmt.Sprint(a.Code, " ", a.Path, " ", a.Seq)] = true
		aside[engine.StateDirName+"/"+a.Path] = aside[engine.StateDirName+"/"+a.Path] || a.Did == RepairSetAside
	}
	for _, q := range c.out.Problems {
		if p.req.DryRun && (handled[fmt.Sprint(q.Code, " ", q.Path, " ", q.Seq)] || p.req.Acknowledge != "" && whyLeft[q.Code] == needsWord) {
			continue
		}
		if p.req.DryRun && q.Code == "file_differs" && aside[q.Path] {
			continue
		}
		why, ok := whyLeft[q.Code]
		if !ok {
			why = "it could not be repaired now; call again when there is no other writer"
		}
		p.out.Left = append(p.out.Left, LeftProblem{CheckProblem: q, Why: why})
	}
	return nil
}

const needsWord = "lost rows cannot be restored; find out what happened, then acknowledge the damage with a reason"

// whyLeft says why a problem is not repaired.
var whyLeft = map[string]string{
	"file_differs":           "the file was changed outside this store, which is not damage; write it again, or restore the version you want",
	problemForeign:           "quarantine/ is not a directory; move it away by hand",
	"file_unreadable":        "the file of the workspace cannot be read; correct its permissions or type",
	journal.ProblemChain:     needsWord,
	journal.ProblemMissing:   needsWord,
	journal.ProblemOrder:     needsWord,
	journal.ProblemGarbage:   needsWord,
	journal.ProblemChanged:   needsWord,
	journal.ProblemName:      needsWord,
	journal.ProblemTruncated: needsWord,
	journal.ProblemHead:      needsWord,
	journal.ProblemParked:    needsWord,
	journal.ProblemArchive:   "the archived segment is missing; restore it from a backup, or acknowledge the loss with a reason",
	"history_link_broken":    needsWord,
	"manifest_missing":       needsWord,
}

// splitPath is the directory and the name of a file of the state directory.
func splitPath(p string) (part, name string) {
	part, name = path.Split(p)
	return strings.TrimSuffix(part, "/"), name
}
