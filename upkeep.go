package resilientwrite

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// Admin has the calls of an operator. They are not tools, and do not go through
// commit: they change segments, kept versions and caches, on which a commit
// relies. One of them runs at a time in all processes, concurrently with
// writers.
type Admin struct{ s *Store }

// Admin returns the calls of an operator.
func (s *Store) Admin() Admin { return Admin{s} }

// The steps of calls of the operator.
const (
	StepSweep  Stage = "sweep"  // what has expired is removed
	StepErase  Stage = "erase"  // the state directory is searched and written over
	StepRepair Stage = "repair" // what is damaged is set aside or made again
	StepExport Stage = "export" // rows are written out
	StepImport Stage = "import" // rows are taken over
)

// upkeep is one call of the operator in progress.
type upkeep struct {
	s       *Store
	c       *commit // who calls, and the receipt
	account *meter
	effect  fault.Effect // what is on disk if the call fails now
	seq     uint64       // the newest row it wrote
	end     []func()
	temps   []string // files in staging/ that were made to take the place of others
}

// upkeepCall says what kind of call it is.
type upkeepCall struct {
	op, caller, session string
	dryRun              bool
	reads               bool // it changes nothing, so a read-only store will do
}

// beginUpkeep counts a call in and keeps others of its kind out.
func (s *Store) beginUpkeep(ctx context.Context, call upkeepCall) (*upkeep, context.Context, error) {
	u := &upkeep{s: s, effect: fault.EffectNone}
	u.c = s.newCommit(ctx, request{op: call.op, caller: call.caller, session: call.session, dryRun: call.dryRun})
	enter := s.engine.Enter
	if call.reads {
		enter = s.engine.EnterReader
	}
	if e := checkLabels(call.caller, call.session, ""); e != nil {
		return nil, ctx, u.failed(e)
	}
	if err := u.c.checkNames(ctx); err != nil {
		return nil, ctx, u.failed(err)
	}
	if err := enter(); err != nil {
		return nil, ctx, u.failed(err)
	}
	u.end = append(u.end, s.engine.Leave)
	if err := ctx.Err(); err != nil {
		return nil, ctx, u.failed(fault.New(fault.Canceled).Because(err))
	}
	if s.engine.Locks != nil {
		unlock, err := s.engine.Locks.Names(ctx, s.opts.LockTimeout, call.op, "upkeep")
		if err != nil {
			return nil, ctx, u.failed(err)
		}
		u.end = append(u.end, unlock)
	}
	ctx, account, end := metered(ctx)
	u.account = account
	u.end = append(u.end, end)
	return u, ctx, nil
}

func (u *upkeep) close() {
	for i := len(u.end) - 1; i >= 0; i-- {
		u.end[i]()
	}
	u.end = nil
}

// failed ends the call with an error.
func (u *upkeep) failed(err error) *Error {
	for _, name := range u.temps { // those that were not used would look like work in progress
		u.s.engine.Disk.Staging.Remove(name)
	}
	u.close()
	e := u.s.engine.ErrorOf(err)
	u.c.hideNames()
	u.s.hideIn(e)
	e.Op = u.c.Req.Op
	if u.effect != fault.EffectNone {
		e.Effect = u.effect
	}
	e.RetryBudget = u.s.budget()
	status := StatusRefused
	if storageFailed(e) {
		status = StatusFailed
	}
	r := u.c.receipt(u.c.First(), status)
	e.With("invocation_id", u.c.Inv).With("receipt", r)
	u.s.deliver(r)
	out := errorFrom(e)
	u.c.observe(r, out)
	return out
}

// done ends the call.
func (u *upkeep) done(status Status, warnings []Warning) Receipt {
	u.close()
	r := u.c.receipt(u.c.First(), status)
	r.Warnings = append(r.Warnings, warnings...)
	if u.seq > 0 && status == StatusSucceeded {
		r.JournalSeq, r.JournalID = u.seq, engine.JournalID(u.seq, 0)
	}
	u.c.tell(r)
	return r
}

// note writes a note about the journal or the state directory, and makes it
// durable whatever the level: what follows relies on it.
func (u *upkeep) note(ctx context.Context, n journal.Note) error {
	rec := &journal.Record{
		TS: u.s.engine.Now().UTC().Format(engine.TimeFormat), Kind: journal.KindNote, Writer: u.s.engine.Writer,
		Settled: u.s.engine.Unsettled.Floor(u.s.engine.Log.Head()),
		Caller:  u.c.Req.Caller, Session: u.c.Req.Session, Via: u.c.Via, Invocation: u.c.Inv, Note: &n,
	}
	u.effect = fault.EffectUnknown
	err := u.s.engine.WriteRow(context.WithoutCancel(ctx), rec)
	if err == nil {
		err = u.s.engine.Log.Sync()
	}
	if err != nil {
		return u.journalFailed(err)
	}
	u.seq = rec.Seq
	return nil
}

// journalFailed judges a journal that did not take a row: where no one knows
// what it holds, the store takes nothing more.
func (u *upkeep) journalFailed(err error) error {
	var we *journal.WriteError
	if errors.As(err, &we) && we.Effect == journal.EffectUnknown || u.s.engine.Log.Poisoned() {
		return u.s.engine.Poison(err)
	}
	return err
}

// noteBytes bounds one note: a row of the journal has at most 256 KiB.
const noteBytes = 128 << 10

// noteChanges writes down what is about to be changed on purpose, in as many
// notes as it takes.
func (u *upkeep) noteChanges(ctx context.Context, what, text string, list []journal.Change) error {
	for len(list) > 0 {
		n, size := 0, 0
		for n < len(list) && size < noteBytes {
			data, err := json.Marshal(list[n])
			if err != nil {
				return err
			}
			size += len(data) + 1
			n++
		}
		if err := u.note(ctx, journal.Note{What: what, Text: text, Changed: list[:n]}); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// forGood flushes the removal of the entries of commits that are settled. One
// that came back with a power cut would have recovery do the commit again, and
// with it what this call is about to take away.
func (u *upkeep) forGood() error {
	if u.s.engine.Disk.Staging == nil {
		return nil
	}
	return u.s.engine.Disk.Staging.Sync()
}

// tempName is a name in staging/ for a file that takes the place of another
// one. What a crash leaves of it is swept by the next Open.
func (u *upkeep) tempName() string {
	name := u.s.engine.NewCommitID() + engine.TempSuffix
	u.temps = append(u.temps, name)
	return name
}

// createTemp makes such a file.
func (u *upkeep) createTemp(name string) (fsx.File, error) {
	return u.s.engine.Disk.Staging.Open(name, fsx.Read|fsx.Write|fsx.Create|fsx.Excl, 0o600)
}

// canceled is the error of a call that was broken off between two steps.
func canceled(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fault.New(fault.Canceled).Because(err).Hintf("the call was canceled between two steps; completed steps remain, and calling again continues")
	}
	return nil
}
