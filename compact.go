package resilientwrite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/index"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// defaultKeepRows is how many of the newest rows stay where cursors reach
// them.
const defaultKeepRows = 10_000

// CompactRequest asks for the state directory to be put in order.
type CompactRequest struct {
	KeepRows *int   `json:"keep_rows,omitempty" default:"10000" min:"0" desc:"At least this many of the newest rows stay in live segments, where cursors reach them."`
	DryRun   bool   `json:"dry_run,omitempty" desc:"Tell what would be parked and removed, change nothing."`
	Caller   string `json:"caller,omitempty" maxlen:"200" desc:"Who asks, for the journal."`
	Session  string `json:"session,omitempty" maxlen:"200" desc:"Name of the working session, for the journal."`
}

// CompactResult tells what was put in order.
type CompactResult struct {
	Archived        []ArchivedSegment `json:"archived" desc:"Segments that were moved to archive/, oldest first."`
	LiveFrom        uint64            `json:"live_from" desc:"Oldest row that a cursor reaches."`
	Snapshots       int               `json:"snapshots" desc:"Snapshots of the index that are there and were read back."`
	VersionsRemoved int               `json:"versions_removed" desc:"Kept versions that were over a limit of history."`
	VersionBytes    int64             `json:"version_bytes" desc:"Size of those in bytes."`
	ScratchRemoved  int               `json:"scratch_removed" desc:"Objects of the scratchpad whose time was over."`
	CheckpointsGone int               `json:"checkpoints_removed" desc:"Checkpoints whose time was over, or that were damaged; damaged ones are in quarantine."`
	DraftsRemoved   int               `json:"drafts_removed" desc:"Refused drafts whose time was over."`
	TxDropped       int               `json:"transactions_dropped" desc:"Staged transactions whose time was over."`
	BudgetsRemoved  int               `json:"budgets_removed" desc:"Counts of failed calls that were too old to matter."`
	Status          Status            `json:"status" enum:"succeeded,unchanged" desc:"How the call ended."`
	Warnings        []Warning         `json:"warnings" desc:"What you should know although the call succeeded."`
	Receipt         Receipt           `json:"receipt" desc:"The full account of the call."`
}

// ArchivedSegment is one segment of the journal in archive/.
type ArchivedSegment struct {
	First  uint64 `json:"first" desc:"Its first row."`
	Last   uint64 `json:"last" desc:"Its last row."`
	Rows   int64  `json:"rows" desc:"How many rows it holds."`
	Bytes  int64  `json:"bytes" desc:"Its size in bytes."`
	SHA256 string `json:"sha256" desc:"SHA-256 of the segment."`
}

// Compact puts the state directory in order, beside running writers. It writes
// fresh snapshots of the index and reads them back; it moves the segments of
// the journal that lie behind the older snapshot, and behind the newest
// keep_rows rows, to archive/; it applies the limits of history and removes
// what has expired: objects of the scratchpad, checkpoints, refused drafts,
// staged transactions, counts of failed calls.
//
// No row is lost: what is in archive/ is still read by [Store.History],
// [Store.JournalTail], [Store.Undo] and [Store.Check]. Only a cursor of
// [Store.JournalSince] does not reach it and is told of a gap. For each segment
// a note in the journal holds its rows, size and hash before it moves. Killed
// at any point it leaves a sound store, and the next call finishes. A second
// call with nothing to do changes nothing and says unchanged.
//
// Limits of history are not applied while another process has the store open
// for writing; the warning other_writer_live says so. Errors:
// [InvalidArgument], [LockTimeout], [JournalDamaged] when archive/ holds another
// segment of the same name, the storage details, [StorePoisoned],
// [StoreClosed], [StoreReadOnly], [Canceled].
func (s *Store) Compact(ctx context.Context, r CompactRequest) (CompactResult, error) {
	u, ctx, err := s.beginUpkeep(ctx, upkeepCall{op: "compact", caller: r.Caller, session: r.Session, dryRun: r.DryRun})
	if err != nil {
		return CompactResult{}, err
	}
	p := &compaction{u: u, s: s, keep: defaultKeepRows, dryRun: r.DryRun}
	if r.KeepRows != nil {
		p.keep = *r.KeepRows
	}
	p.out = CompactResult{Archived: []ArchivedSegment{}, Warnings: []Warning{}}
	if p.keep < 0 {
		return CompactResult{}, u.failed(fail(InvalidArgument).with("argument", "keep_rows").hint("keep_rows is 0 or more"))
	}
	if err := p.run(ctx); err != nil {
		return CompactResult{}, u.failed(err)
	}
	p.out.Status = StatusUnchanged
	if p.changed {
		p.out.Status = StatusSucceeded
	}
	p.out.Receipt = u.done(p.out.Status, p.out.Warnings)
	return p.out, nil
}

// compaction is one Compact under way.
type compaction struct {
	u       *upkeep
	s       *Store
	keep    int
	dryRun  bool
	changed bool
	out     CompactResult
}

func (p *compaction) run(ctx context.Context) error {
	if p.s.log == nil {
		return nil
	}
	if p.s.behind != nil && !p.dryRun {
		if err := p.s.behind.drain(); err != nil {
			return err
		}
	}
	p.u.account.things(StepSweep, 0, "removing what has expired")
	for _, step := range []func(context.Context) error{
		p.scratch, p.checkpoints, p.drafts, p.transactions, p.budgets, p.versions, p.journal,
	} {
		if err := canceled(ctx); err != nil {
			return err
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// did counts things that are gone.
func (p *compaction) did(into *int, n int) {
	*into += n
	p.changed = p.changed || n > 0
	if n > 0 && !p.dryRun {
		p.u.effect = EffectUnknown
	}
}

// scratch removes the objects of the scratchpad whose time is over, in commits
// as a delete makes them.
func (p *compaction) scratch(ctx context.Context) error {
	if p.dryRun {
		pad, err := p.s.openScratch()
		if err != nil {
			return err
		}
		gone, err := p.s.expiredScratch(pad, "")
		p.did(&p.out.ScratchRemoved, len(gone))
		return err
	}
	for {
		n, err := p.s.expireScratch(ctx, p.u.c.req)
		p.did(&p.out.ScratchRemoved, n)
		if err != nil || n == 0 {
			return err
		}
	}
}

// expireScratch removes some objects whose time is over, with their entries.
func (s *Store) expireScratch(ctx context.Context, req request) (int, error) {
	c := s.newCommit(request{op: req.op, caller: req.caller, session: req.session, hash: "expired"})
	removed := 0
	c.also = []string{pathLock(stateDirName + "/" + scratchIndex)}
	c.plan = func(context.Context) error {
		pad, err := s.openScratch()
		if err != nil {
			return err
		}
		gone, err := s.expiredScratch(pad, "")
		if err != nil {
			return err
		}
		removed = len(gone)
		var muts []*mutation
		for _, sha := range gone {
			muts = append(muts, scratchObject(sha, modeDelete))
		}
		if pad.exists && len(gone) > 0 {
			index, err := s.indexWithout(c, pad, gone)
			if err != nil {
				return err
			}
			muts = append(muts, index)
		}
		return c.choose(muts...)
	}
	if err := s.commit(ctx, c); err != nil {
		return 0, err
	}
	return removed, nil
}

func (p *compaction) checkpoints(ctx context.Context) error {
	others := false
	for {
		r, err := p.s.CheckpointCleanup(ctx, CheckpointCleanupRequest{
			IncludeSession: &others, DryRun: p.dryRun, Caller: p.u.c.req.caller, Session: p.u.c.req.session,
		})
		p.did(&p.out.CheckpointsGone, len(r.Removed))
		if err != nil || !r.More || p.dryRun || len(r.Removed) == 0 {
			return err
		}
	}
}

func (p *compaction) drafts(context.Context) error {
	list, err := p.s.drafts()
	if err != nil {
		return err
	}
	now, over := p.s.now().UTC().Format(timeFormat), 0
	for _, d := range list {
		if d.ExpiresAt <= now {
			over++
		}
	}
	if !p.dryRun {
		if err := p.s.alone("quarantine", p.s.sweepDrafts); err != nil {
			return err
		}
	}
	p.did(&p.out.DraftsRemoved, over)
	return nil
}

func (p *compaction) transactions(ctx context.Context) error {
	now, over := p.s.now().UTC().Format(timeFormat), 0
	for _, h := range p.s.openTxs() {
		if h.ExpiresAt < now {
			over++
		}
	}
	if !p.dryRun {
		if err := p.s.sweepTxs(ctx); err != nil {
			return err
		}
	}
	p.did(&p.out.TxDropped, over)
	return nil
}

// budgets writes the counts of failed calls anew when some are too old.
func (p *compaction) budgets(context.Context) error {
	data, err := durable.ReadFile(p.s.disk.state, guardName, guardLimit)
	if isAbsent(err) {
		return nil
	}
	var all tally
	if err != nil || json.Unmarshal(data, &all) != nil {
		return nil // a lost count; Check names it
	}
	over := len(all.Strikes) - len(p.s.readTally().Strikes)
	if over <= 0 {
		return nil
	}
	p.did(&p.out.BudgetsRemoved, over)
	if p.dryRun {
		return nil
	}
	return p.s.alone("budget", func() error {
		p.s.guard.mu.Lock()
		defer p.s.guard.mu.Unlock()
		t := p.s.readTally()
		p.s.guard.task, p.s.guard.strikes = t.Task, t.Strikes
		return p.s.writeStrikes()
	})
}

// versions applies the limits of history.
func (p *compaction) versions(context.Context) error {
	if p.s.history == nil || p.dryRun {
		return nil
	}
	if others, err := p.s.othersLive(); err != nil || others {
		p.out.Warnings = append(p.out.Warnings, warning(WarnOtherWriterLive))
		return err
	}
	p.s.pruning.Lock()
	defer p.s.pruning.Unlock()
	before, bytes, err := p.s.historySize()
	if err != nil {
		return err
	}
	if err := p.s.prune(); err != nil {
		return err
	}
	after, left, err := p.s.historySize()
	p.did(&p.out.VersionsRemoved, before-after)
	p.out.VersionBytes = bytes - left
	return err
}

// historySize counts the kept versions.
func (s *Store) historySize() (n int, bytes int64, err error) {
	err = s.history.Each(func(_ string, size int64, ok bool) error {
		if ok {
			n++
			bytes += size
		}
		return nil
	})
	return n, bytes, err
}

// journal writes snapshots and parks segments. The order is what makes it
// safe: a segment moves only when two snapshots that were read back lie behind
// it and a durable row tells of it.
func (p *compaction) journal(ctx context.Context) error {
	p.u.account.things(StepJournal, 0, "parking old segments of the journal")
	if err := p.s.log.CatchUp(); err != nil {
		return err
	}
	due, err := p.due(math.MaxUint64)
	if err != nil {
		return err
	}
	fresh, err := p.snapshotsFresh()
	if err != nil {
		return err
	}
	if p.dryRun {
		p.changed = p.changed || len(due) > 0 || !fresh
		return p.describe(due)
	}
	if fresh && len(due) == 0 && !p.changed {
		return p.finish()
	}
	p.changed = true
	if err := p.snapshot(); err != nil {
		return err
	}
	if err := p.tell(ctx, due); err != nil {
		return err
	}
	if err := p.snapshot(); err != nil {
		return err
	}
	oldest, err := p.oldestSnapshot()
	if err != nil {
		return err
	}
	if due, err = p.due(oldest); err != nil {
		return err
	}
	if err := p.park(ctx, due); err != nil {
		return err
	}
	return p.finish()
}

// due lists the segments that can be parked: sealed ones that hold none of the
// newest rows and lie behind the segment limit.
func (p *compaction) due(limit uint64) ([]uint64, error) {
	sealed, err := p.s.log.Sealed()
	if err != nil {
		return nil, err
	}
	parked, err := p.s.log.Parked()
	if err != nil {
		return nil, err
	}
	live, err := p.s.log.Oldest()
	if err != nil {
		return nil, err
	}
	head := p.s.log.Head()
	upto := head - min(head, uint64(p.keep)) // this row and those before it may go
	var list []uint64
	for i, first := range sealed {
		if first < live && slices.Contains(parked, first) {
			continue
		}
		next := p.s.log.End().Segment
		if i+1 < len(sealed) {
			next = sealed[i+1]
		}
		if next <= upto+1 && first < limit {
			list = append(list, first)
		}
	}
	return list, nil
}

// describe fills in what is known of the segments.
func (p *compaction) describe(due []uint64) error {
	for _, first := range due {
		f, err := p.s.log.Facts(first)
		if err != nil {
			return err
		}
		p.out.Archived = append(p.out.Archived, ArchivedSegment{First: f.First, Last: f.Last, Rows: f.Rows, Bytes: f.Bytes, SHA256: f.SHA256})
		p.u.account.one()
	}
	return p.finish()
}

// tell leaves a note for every segment of which none tells yet, and one for
// the call as a whole.
func (p *compaction) tell(ctx context.Context, due []uint64) error {
	if len(due) > 0 {
		known, err := p.s.log.Known()
		if err != nil {
			return err
		}
		for _, first := range due {
			if err := canceled(ctx); err != nil {
				return err
			}
			f, err := p.s.log.Facts(first)
			if err != nil {
				return err
			}
			p.u.account.one()
			if known.Archived(first, f.SHA256) {
				continue
			}
			if err := p.u.note(ctx, journal.Note{
				What: journal.NoteArchived, Segment: first, Last: f.Last, Rows: f.Rows, To: f.Bytes, SHA256: f.SHA256,
			}); err != nil {
				return err
			}
		}
	}
	return p.u.note(ctx, journal.Note{What: journal.NoteCompact, Rows: int64(len(due)), Text: fmt.Sprintf("%d segments to the archive", len(due))})
}

func (p *compaction) park(ctx context.Context, due []uint64) error {
	if len(due) == 0 {
		return nil
	}
	facts := make([]ArchivedSegment, 0, len(due))
	for _, first := range due {
		f, err := p.s.log.Facts(first)
		if err != nil {
			return err
		}
		facts = append(facts, ArchivedSegment{First: f.First, Last: f.Last, Rows: f.Rows, Bytes: f.Bytes, SHA256: f.SHA256})
	}
	err := p.s.log.Park(context.WithoutCancel(ctx), due)
	if errors.Is(err, journal.ErrTaken) {
		return fail(JournalDamaged).because(err).hint("archive/ holds another segment of the same name; look at it, move it away, then call again")
	}
	if err != nil {
		return err
	}
	p.out.Archived = facts
	return nil
}

// finish tells how things stand.
func (p *compaction) finish() error {
	list, err := index.Snapshots(p.s.disk.index)
	if err != nil {
		return err
	}
	for _, snap := range list {
		if snap.Err == nil {
			p.out.Snapshots++
		}
	}
	p.out.LiveFrom, err = p.s.log.Oldest()
	return err
}

// snapshot writes a snapshot of the index and reads it back.
func (p *compaction) snapshot() error {
	p.u.effect = EffectUnknown
	return p.s.alone("snapshot", func() error {
		err := p.s.rows.write(p.s.disk.index, p.s.log)
		if err != nil && p.s.log.Poisoned() {
			return p.s.poison(err)
		}
		if err != nil {
			return err
		}
		list, err := index.Snapshots(p.s.disk.index)
		if err != nil {
			return err
		}
		if len(list) == 0 || list[0].Err != nil {
			return fail(ReadBackMismatch)
		}
		return nil
	})
}

// snapshotsFresh reports whether two snapshots are sound and the newer one
// knows every row.
func (p *compaction) snapshotsFresh() (bool, error) {
	list, err := p.snapshots()
	if err != nil || len(list) < 2 {
		return false, err
	}
	return list[0].Seq == p.s.log.Head(), nil
}

// oldestSnapshot is the segment in which the older of the two newest sound
// snapshots ends; without two of them nothing may be parked.
func (p *compaction) oldestSnapshot() (uint64, error) {
	list, err := p.snapshots()
	if err != nil || len(list) < 2 {
		return 0, err
	}
	return min(list[0].Segment, list[1].Segment), nil
}

// snapshots are the ends of the sound snapshots, newest first.
func (p *compaction) snapshots() ([]journal.Pos, error) {
	list, err := index.Snapshots(p.s.disk.index)
	if err != nil {
		return nil, err
	}
	var ends []journal.Pos
	for _, snap := range list {
		var st snapshotState
		if snap.Err == nil && json.Unmarshal(snap.State, &st) == nil && st.Format == FormatVersion {
			ends = append(ends, st.Pos)
		}
	}
	return ends, nil
}
