package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/lock"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// recoveryReport says what opening a store found and did.
type Report struct {
	Finished, Aborted, Conflicts []RecoveredPath

	Swept         int   // stale staging files that were removed
	Pending       int   // unfinished writes left to a live writer, to the next Open, or by a read-only open
	TornBytes     int64 // of torn journal rows that were skipped
	Malformed     int   // unreadable journal lines
	Imported      int64 // rows of the journal of the Python implementation
	ImportSkipped int64 // unreadable lines of it
	Rebuilt       bool  // caches were missing or damaged
	Poisoned      bool  // a flush had failed in an earlier process
	Warnings      []Note

	broken   error // EIO, of a file that could not be placed
	doubtful bool  // a name that a failed flush may have lost could not be given again
}

// RecoveredPath is one file that recovery looked at.
type RecoveredPath struct {
	Path   string
	Seq    uint64 // its journal row
	SHA256 string // recorded in the row
	Reason string
}

// Warn adds a warning once.
func (r *Report) Warn(reason string) {
	if !slices.Contains(r.Warnings, Note{Reason: reason}) {
		r.Warnings = append(r.Warnings, Note{Reason: reason})
	}
}

// add adds what a finisher has found.
func (r *Report) add(found *Report) {
	r.Finished = append(r.Finished, found.Finished...)
	r.Conflicts = append(r.Conflicts, found.Conflicts...)
	for _, note := range found.Warnings {
		r.Warn(note.Reason)
	}
	r.Pending += found.Pending
	r.broken = cmp.Or(r.broken, found.broken)
	r.doubtful = r.doubtful || found.doubtful
}

// A valid row is a commit, and the slot that it names shows whether it is
// published. Recovery completes the commits of dead writers that are not known
// to be settled; it takes none back.

// TempSuffix ends the name of a file in staging/ that no commit uses.
const TempSuffix = ".tmp"

// recover completes what dead writers left, then removes their slots. One
// process does so at a time; where another one takes too long, the commits are
// completed by the next writer of their paths.
func (s *Engine) recover(ctx context.Context) error {
	if s.TestHooks.Unrecovered {
		s.doubt.left = true
		return nil
	}
	until := time.Now().Add(s.Opts.LockTimeout)
	unlock, err := s.Locks.Names(ctx, s.Opts.LockTimeout, recovering, "recovery")
	if isTimeout(err) || errors.Is(err, context.DeadlineExceeded) {
		s.doubt.left = true
		return s.countPending()
	}
	if err != nil {
		return err
	}
	defer unlock()
	blocked, err := s.recoverUntil(ctx, until, &s.Report)
	if err != nil {
		return err
	}
	if s.doubt.left = blocked != nil || s.Report.doubtful; blocked == nil {
		s.renewWitness()
		if err := unlessTimeout(s.Tidy(ctx, s.tidySlotDirs)); err != nil {
			return err
		}
	}
	if err := s.forgetDead(); err != nil {
		return err
	}
	s.poisonBroken(&s.Report) // the store is open, for those that read
	return nil
}

// RecoverDead is recovery for a call that cannot go on before everything is
// completed.
func (s *Engine) RecoverDead(ctx context.Context, out *Report) error {
	blocked, err := s.recoverUntil(ctx, time.Now().Add(s.Opts.LockTimeout), out)
	return cmp.Or(err, blocked, s.poisonBroken(out))
}

// poisonBroken poisons the store if the device failed while a file was placed. That
// comes last: the other files are placed, and the rows of the conflicts written.
func (s *Engine) poisonBroken(out *Report) error {
	if out.broken == nil {
		return nil
	}
	return s.Poison(out.broken)
}

// recovering is what the holder of a lock does that completes commits of others.
const recovering = "recovery"

func isTimeout(err error) bool {
	var timeout *lock.TimeoutError
	return errors.As(err, &timeout)
}

// recoverUntil completes the commits of writers that are dead, then empties and
// removes their slots. blocked is why some could not be: their paths are locked,
// by a process that was stopped perhaps. The next writer of the path completes
// them.
//
// Who is dead is found out before the journal is read to its end: a writer that
// dies later may have added a row that was not seen, so its slots stay.
func (s *Engine) recoverUntil(ctx context.Context, until time.Time, out *Report) (blocked, err error) {
	alive := aliveness{s: s}
	var found []foundSlots
	err = s.eachSlotDir(func(d *slotDir) error {
		names, err := d.dir.Names()
		for _, name := range names {
			if _, err := alive.of(writerOf(name)); err != nil {
				return err
			}
		}
		found = append(found, foundSlots{d, names})
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := s.Log.Settle(ctx); err != nil { // also rows that their writer did not live to flush
		return nil, err
	}
	left := map[string]bool{} // writers with commits that could not be completed
	finish := func(seqs []uint64) error {
		recs, err := s.unsettledRows(seqs)
		if err != nil || len(recs) == 0 {
			return err
		}
		err = s.finishWithin(ctx, time.Until(until), recs, out)
		if !isTimeout(err) {
			return err
		}
		for _, rec := range recs { // one of them is locked
			err := s.finishWithin(ctx, time.Until(until), []*journal.Record{rec}, out)
			if isTimeout(err) {
				left[rec.Writer], blocked = true, err
				out.Pending++
			} else if err != nil {
				return err
			}
		}
		return nil
	}
	var todo []uint64 // the newest first
	for _, seq := range s.Rows.unsettled(s.Writer) {
		writer, ok := s.Rows.doubtful(seq)
		if !ok {
			continue
		}
		live, err := alive.of(writer)
		if err != nil {
			return nil, err
		}
		if !live || s.inDoubt(writer) {
			todo = append(todo, seq)
		}
	}
	for seqs := range slices.Chunk(todo, s.finishAtOnce()) {
		if err := finish(seqs); err != nil {
			return nil, err
		}
	}
	for _, x := range found {
		x.names = slices.DeleteFunc(x.names, func(name string) bool { return left[writerOf(name)] })
		if err := s.sweepSlots(x, &alive, out); err != nil {
			return nil, err
		}
	}
	if s.FlushCopies() != nil {
		out.Warn(call.WarnHistorySkipped)
	}
	return blocked, nil
}

// foundSlots are the names in a directory of slots.
type foundSlots struct {
	in    *slotDir
	names []string
}

// finishAtOnce is how many mutations recovery completes together at most. Each
// holds a few descriptors meanwhile.
func (s *Engine) finishAtOnce() int {
	return cmp.Or(s.TestHooks.Many, min(256, max(1, fsx.DescriptorLimit()/16)))
}

// unsettledRows are the rows of commits, in the order of seqs. One that is gone
// leaves nothing to be done.
func (s *Engine) unsettledRows(seqs []uint64) (recs []*journal.Record, err error) {
	found, err := s.Log.FindAll(seqs)
	if err != nil {
		return nil, err
	}
	for _, seq := range seqs {
		if rec := found[seq]; rec != nil {
			recs = append(recs, rec)
		} else {
			s.Rows.trust(seq)
		}
	}
	return recs, nil
}

// writerOf is the writer that a name in staging/ begins with.
func writerOf(name string) string {
	writer, _, _ := strings.Cut(name, "-")
	return writer
}

// aliveness remembers which writers are alive.
type aliveness struct {
	s     *Engine
	known map[string]bool
}

func (a *aliveness) of(writer string) (bool, error) {
	if writer == a.s.Writer {
		return true, nil
	}
	if live, ok := a.known[writer]; ok {
		return live, nil
	}
	live, err := lock.Alive(a.s.Disk.locks, writer)
	if err != nil {
		return false, err
	}
	if a.known == nil {
		a.known = map[string]bool{}
	}
	a.known[writer] = live
	return live, nil
}

// sweepSlots removes the slots of dead writers. Every row that names one was
// judged, so what a slot holds besides the file that was made for it is a
// previous version that has not reached history.
func (s *Engine) sweepSlots(found foundSlots, alive *aliveness, out *Report) error {
	w, err := found.in.witnessed()
	if err != nil {
		return err
	}
	for _, name := range found.names {
		_, ino, ok := publish.ParseSlot(name)
		temp := strings.HasSuffix(name, TempSuffix)
		if !ok && !temp {
			continue // no name of ours: it stays
		}
		if _, left := s.Unkept.Load(found.in.label(name)); left {
			continue // the only copy of a version
		}
		if live, err := alive.of(writerOf(name)); err != nil || live {
			if err != nil {
				return err
			}
			continue
		}
		slot := found.in.slot(name)
		slot.Copied, slot.Is = w == witnessCopied, func(st fsx.Stat) (bool, error) { return publish.IsUnused(slot.Dir, name, st) }
		if err := s.sweepSlot(slot, temp || ino == 0, out); err != nil {
			return err
		}
	}
	return nil
}

func (s *Engine) sweepSlot(slot publish.Slot, temp bool, out *Report) error {
	held, err := slot.Holds()
	if err != nil || held == publish.Empty {
		return err
	}
	if held == publish.Other && !temp {
		if s.keep(spent{slot: slot, old: "?", check: true}) != nil {
			out.Warn(call.WarnHistorySkipped)
		}
		return nil
	}
	out.Swept++
	return slot.Remove()
}

// OwnStaging reports whether a name in staging/ is one that this package makes.
func OwnStaging(name string) bool {
	_, _, ok := publish.ParseSlot(name)
	return ok || strings.HasSuffix(name, TempSuffix) || strings.HasPrefix(name, WitnessStem)
}

// HeldSlots lists the slots that commits use, which are those that hold something, and
// which of them are of dead writers. One that a writer is making is not held.
func (s *Engine) HeldSlots() (held, dead []string, err error) {
	alive := aliveness{s: s}
	err = s.eachSlotDir(func(d *slotDir) error {
		names, err := d.dir.Names()
		for _, name := range names {
			writer, ino, ok := publish.ParseSlot(name)
			if !ok {
				continue
			}
			st, err := d.dir.Lstat(name)
			if err != nil {
				continue
			}
			unused := st.Size == 0
			if !unused && (st.Ino == ino || ino == 0) { // one that cannot be read is held
				unused, _ = publish.IsUnused(d.dir, name, st)
			}
			if unused && st.Ino == ino {
				continue
			}
			live, err := alive.of(writer)
			switch {
			case err != nil:
				return err
			case !live:
				dead = append(dead, d.label(name))
			case ino == 0 && unused:
				continue
			}
			held = append(held, d.label(name))
		}
		return err
	})
	return held, dead, err
}

// forgetDead removes the liveness files of dead writers that left nothing.
func (s *Engine) forgetDead() error {
	busy := map[string]bool{s.Writer: true}
	err := s.eachSlotDir(func(d *slotDir) error {
		names, err := d.dir.Names()
		for _, name := range names {
			busy[writerOf(name)] = true
		}
		return err
	})
	if err != nil {
		return err
	}
	writers, err := lock.Writers(s.Disk.locks)
	if err != nil {
		return err
	}
	for _, w := range writers {
		if busy[w] {
			continue
		}
		if live, err := lock.Alive(s.Disk.locks, w); err == nil && !live {
			lock.Forget(s.Disk.locks, w)
		}
	}
	return nil
}

// countPending counts the commits that are not published, for an open that
// leaves them so.
func (s *Engine) countPending() error {
	if s.Log == nil {
		return nil
	}
	for _, seq := range s.Rows.unsettled(s.Writer) {
		rec, err := s.Log.Find(seq)
		if errors.Is(err, journal.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		if pending, err := s.isPending(rec); err != nil {
			return err
		} else if pending {
			s.Report.Pending++
		}
	}
	return nil
}

// isPending reports whether a slot of the commit shows that it is not
// published.
func (s *Engine) isPending(rec *journal.Record) (bool, error) {
	for i := range rec.Muts {
		m := &rec.Muts[i]
		if m.Slot == "" {
			continue
		}
		d, err := s.slotDirAt(m.SlotDir)
		if err != nil {
			return false, err
		}
		held, err := d.slot(m.Slot).Holds()
		if err != nil || held == publish.Staged {
			return err == nil, err
		}
	}
	return false, nil
}

// LeftBehind returns the newest commit of one of the paths when its writer died
// before it was settled. The caller holds the locks of the paths.
func (s *Engine) LeftBehind(paths []string) (*journal.Record, error) {
	for _, path := range paths {
		last, err := s.LastRow(path)
		if err != nil {
			return nil, err
		}
		if left, err := s.leftAt(last.Seq); left != nil || err != nil {
			return left, err
		}
	}
	return nil, nil
}

// leftAt returns a commit if its writer died before it was settled.
func (s *Engine) leftAt(seq uint64) (*journal.Record, error) {
	writer, ok := s.Rows.doubtful(seq)
	if !ok {
		return nil, nil
	}
	if ended, err := s.hasEnded(writer); err != nil || !ended {
		return nil, err
	}
	return s.Log.Find(seq)
}

// hasEnded reports whether the commits of a writer are completed by others: it is dead,
// or saw a flush fail.
func (s *Engine) hasEnded(writer string) (bool, error) {
	live, err := lock.Alive(s.Disk.locks, writer)
	return err == nil && (!live || s.inDoubt(writer)), err
}

// writesInPlace reports whether a recorded mutation writes to the file of its name.
func writesInPlace(m *journal.Mutation) bool {
	how := publish.Primitive(m.How)
	return how == publish.InPlace || how == publish.Append
}

// settleEarlier makes the newest commits of the paths durable under their
// names, so that a power cut undoes at most one publication of a path. At the
// level full they are, unless another process wrote them, or one at the level off.
func (c *Commit) settleEarlier(paths []string) error {
	s := c.s
	if err := c.flushHomes(paths); err != nil {
		return err
	}
	if err := s.Settler.drainFor(paths); err != nil {
		return err
	}
	for _, path := range paths {
		last, err := s.LastRow(path)
		_, doubtful := s.Rows.doubtful(last.Seq)
		if err == nil && !doubtful {
			doubtful, err = s.madeAtOff(last.Seq)
		}
		if err == nil && doubtful {
			err = s.syncParent(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// flushHomes flushes the directories of the targets in which commits of this
// process wait for that.
func (c *Commit) flushHomes(paths []string) error {
	for _, m := range c.Muts {
		if m.home == (inode{}) {
			continue
		}
		if err := c.s.Settler.flushIn(m.Target.Parent, m.home, paths); err != nil {
			return err
		}
	}
	return nil
}

// secure makes the files of a commit as durable as the level of this process promises: the
// commit may be one of another process, at a lower level.
func (s *Engine) secure(rec *journal.Record) error {
	_, doubtful := s.Rows.doubtful(rec.Seq)
	if s.Opts.Sync == SyncOff || rec.Level != string(SyncOff) && !(doubtful && s.Opts.Sync == SyncFull) {
		return nil
	}
	flushed := map[string]bool{} // directories on the way
	for i := range rec.Muts {
		path := rec.Muts[i].Identity()
		target, err := s.LocateEntry(path)
		if IsShortage(err) {
			return err
		}
		if err != nil {
			continue // it leads nowhere now
		}
		err = s.syncEntry(target)
		target.Close()
		for dir := ParentOf(path); err == nil && dir != "" && dir != StateDirName && !flushed[dir]; dir = ParentOf(dir) {
			flushed[dir] = true
			err = s.syncParent(dir)
		}
		if err != nil {
			return err
		}
	}
	return s.certify()
}

// syncEntry makes a name durable, with what is under it.
//
//	fsync(file)  fsync(directory)
func (s *Engine) syncEntry(t *relpath.Target) error {
	if t.Exists() {
		f, err := fsx.OpenEntry(t.Parent, t.Name)
		if err == nil {
			if err = f.Sync(); err != nil {
				err = s.Poison(err)
			}
			f.Close()
		}
		if err != nil && !IsAbsent(err) && !IsOdd(err) { // no directory, and nothing that is gone
			return err
		}
	}
	return s.SyncDir(t.Parent)
}

func (s *Engine) syncParent(path string) error {
	target, err := s.LocateEntry(path)
	if IsShortage(err) {
		return err
	}
	if err != nil {
		return nil // it leads nowhere now: nothing is there to be flushed
	}
	defer target.Close()
	return s.SyncDir(target.Parent)
}

// FinishDead completes the commit of a dead writer, under the locks of all its
// paths.
func (s *Engine) FinishDead(ctx context.Context, rec *journal.Record, out *Report) error {
	err := s.finishWithin(ctx, s.Opts.LockTimeout, []*journal.Record{rec}, out)
	return cmp.Or(err, s.poisonBroken(out))
}

// finishWithin completes commits together, so that they share their flushes.
func (s *Engine) finishWithin(ctx context.Context, wait time.Duration, recs []*journal.Record, out *Report) error {
	var paths []string
	var shared []inode
	many := 0
	for _, rec := range recs {
		many = max(many, len(rec.Muts))
		for i := range rec.Muts {
			m := &rec.Muts[i]
			paths = append(paths, m.Identity())
			if !writesInPlace(m) {
				continue
			}
			if target, err := s.LocateEntry(m.Identity()); err == nil {
				if id, err := sharedFile(target); err == nil && id != (inode{}) {
					shared = append(shared, id)
				}
				target.Close()
			}
		}
	}
	unlock, err := s.lockPaths(ctx, wait, recovering, paths, many, shared...)
	if err != nil {
		return err
	}
	defer unlock()
	if slices.ContainsFunc(recs, func(rec *journal.Record) bool { return s.inDoubt(rec.Writer) }) {
		// Its writer may live, and be emptying a slot.
		ended, err := s.Locks.History(ctx, wait, recovering)
		if err != nil {
			return err
		}
		ended()
	}
	// An abort of the commit may not be published yet, and neither may it be.
	if err := s.Log.Settle(ctx); err != nil {
		return err
	}
	var all []*finisher
	held, most := 0, s.finishAtOnce()
	settle := func() error {
		err := s.finishAll(ctx, all, out)
		all, held = nil, 0
		return err
	}
	for _, rec := range recs {
		if _, ok := s.Rows.doubtful(rec.Seq); !ok { // another process has done it
			continue
		}
		dead := s.newDeadCommit(rec)
		for part := range slices.Chunk(rec.Muts, most) {
			if held > 0 && held+len(part) > most {
				if err := settle(); err != nil {
					return err
				}
			}
			f := &finisher{deadCommit: dead, s: s, muts: part, first: &part[0] == &rec.Muts[0], last: &part[len(part)-1] == &rec.Muts[len(rec.Muts)-1]}
			all, held = append(all, f), held+len(part)
		}
	}
	return settle()
}

// finishAll places the files of the finishers, concurrently except for those that write in
// place, flushes what was placed, then empties the slots. out gets what each has found, in
// their order.
func (s *Engine) finishAll(ctx context.Context, all []*finisher, out *Report) error {
	var places []func() error
	var inTurn []*finisher // those that write in place: two may write to one file by two names
	for _, f := range all {
		defer f.close()
		if slices.ContainsFunc(f.muts, func(m journal.Mutation) bool { return writesInPlace(&m) }) {
			inTurn = append(inTurn, f)
		} else {
			places = append(places, func() error { return f.place(ctx) })
		}
	}
	places = append(places, func() error {
		for _, f := range inTurn {
			if err := f.place(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	err := s.Together(places...)
	if err == nil {
		err = s.settleFinished(all, out)
	}
	for _, f := range all {
		out.add(&f.found)
	}
	return err
}

// settleFinished flushes what was placed, then empties the slots.
func (s *Engine) settleFinished(all []*finisher, out *Report) error {
	seen := map[inode]bool{}
	for _, f := range all {
		if err := f.flush(seen); err != nil {
			return err
		}
	}
	s.flushReplaced(all)
	if err := s.emptyAll(all); err != nil {
		return err
	}
	if s.FlushCopies() != nil {
		out.Warn(call.WarnHistorySkipped)
	}
	for _, f := range all {
		f.left = f.left || slices.ContainsFunc(f.parts, func(p *recovered) bool { return p.left })
		switch {
		case f.last && f.left:
			s.Rows.leave(f.rec.Seq)
		case f.last:
			s.Rows.trust(f.rec.Seq)
		}
	}
	return nil
}

// emptyAll empties the slots of several finishers, concurrently.
func (s *Engine) emptyAll(all []*finisher) error {
	var each []func() error
	for _, f := range all {
		each = append(each, f.empty)
	}
	if err := s.Together(each...); err != nil {
		return err
	}
	var marks []fsx.Dir
	for _, f := range all {
		marks = append(marks, f.marks...)
		if f.skipped {
			f.found.Warn(call.WarnHistorySkipped)
		}
		if err := s.arrange(f.rec); err != nil {
			return err
		}
	}
	return s.syncMarks(marks)
}

// flushReplaced makes the files that the slots have received durable, all at once,
// since it is not known what wrote them. They are versions soon. Where that fails, each
// is flushed by itself.
func (s *Engine) flushReplaced(all []*finisher) {
	var parts []*recovered
	var files []fsx.File
	for _, f := range all {
		for _, p := range f.parts {
			if p.openReplaced() {
				parts, files = append(parts, p), append(files, p.replaced)
			}
		}
	}
	flushed := s.flushFiles(files) == nil
	for _, p := range parts {
		p.flushed = flushed
	}
}

// Note is a warning: its reason and, for some, what it is about.
type Note struct{ Reason, About string }
