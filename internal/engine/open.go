package engine

import (
	"cmp"
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/blob"
	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/lock"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// OpenState opens the state directory, which must be a plain directory. If it is known to
// exist it is not made.
func (s *Engine) OpenState(parent fsx.Dir, name string, exists bool) error {
	s.Disk.above, s.Disk.stateName = parent, name
	st, err := parent.Lstat(name)
	switch {
	case err == nil && st.Kind != fsx.Directory:
		return fault.New(fault.BadStateDir)
	case IsAbsent(err) && exists:
		return err
	case IsAbsent(err) && s.Opts.ReadOnly:
		return nil // nothing was ever written here
	case err != nil && !IsAbsent(err):
		return err
	}
	switch {
	case s.Opts.ReadOnly:
	case err == nil:
		s.unflushed = parent.Sync() // the process that made it may have died before it could
	default:
		if _, err = fsx.Inherit(parent); err == nil {
			err = durable.Mkdirs(parent, 0o700, name)
		}
	}
	if err == nil {
		s.Disk.State, err = parent.OpenDir(name)
	}
	if err != nil {
		return err
	}
	for _, d := range []fsx.Dir{s.Disk.Root, s.Disk.State} {
		d.OnFailedSync(s.lostNames)
	}
	if other, err := fsx.Inherit(s.Disk.State); err != nil {
		return err
	} else if other {
		if _, err := fsx.Inherit(s.Disk.Root); err != nil {
			return err
		}
	}
	return s.takeCustody()
}

// openParts opens what is in the state directory.
func (s *Engine) openParts() error {
	if s.Disk.State == nil {
		return nil
	}
	id, err := s.Disk.State.Stat()
	if err != nil {
		return err
	}
	s.Disk.stateStat = id
	s.Tree.Guard = func(st fsx.Stat) error {
		if st.SameFile(id) || s.slotDirs.is(st) {
			return relpath.ErrProtected
		}
		return nil
	}
	if err := s.checkFormat(); err != nil {
		return err
	}
	if !s.Opts.ReadOnly {
		if err := durable.Mkdirs(s.Disk.State, 0o700, openedParts...); err != nil && s.unflushed == nil {
			return err
		}
	}
	for _, part := range []struct {
		name string
		dir  *fsx.Dir
	}{
		{"journal", &s.Disk.journal}, {"staging", &s.Disk.Staging}, {"locks", &s.Disk.locks},
		{"index", &s.Disk.Index}, {"history", &s.Disk.history},
	} {
		if *part.dir, err = s.Disk.State.OpenDir(part.name); err != nil && !(s.Opts.ReadOnly && IsAbsent(err)) {
			return cmp.Or(s.unflushed, err)
		}
	}
	if s.Disk.history != nil {
		s.History = blob.New(s.Disk.history)
		s.History.Flushed = s.flushedHistory
		if s.Disk.historyStat, err = s.Disk.history.Stat(); err != nil {
			return err
		}
	}
	if !s.Opts.ReadOnly {
		if err := s.singleNames(); err != nil {
			return err
		}
	}
	s.flushes.disk, s.flushes.alone = s.Disk.State, s.TestHooks.InTurn
	s.flushes.expect = func(n int) { s.Log.Expect(n) }
	if s.Disk.Staging != nil {
		home := &s.slotDirs.home
		home.dir = s.Disk.Staging
		if home.at, err = home.dir.Stat(); err != nil {
			return err
		}
	}
	s.lookAtVolumes()
	return s.openLock()
}

// lookAtVolumes finds out what the file systems of the state directory and of the
// workspace promise. One that is mounted within the workspace is taken for the same kind.
func (s *Engine) lookAtVolumes() {
	s.births = true
	for _, d := range []fsx.Dir{s.Disk.Root, s.Disk.State} {
		vol, err := d.Volume()
		if err != nil {
			continue
		}
		s.births = s.births && vol.Births
		s.Disk.Size = vol.Size
		if vol.Remote || vol.NoJournal {
			s.Unverified = true
			s.Report.Warn(call.WarnDurabilityUnproven)
		}
	}
}

// OpenPart opens a directory of the state directory; a read-only store makes
// none.
func (s *Engine) OpenPart(name string) (fsx.Dir, error) {
	if s.Opts.ReadOnly {
		return s.StatePart(name)
	}
	dir, err := durable.Mkdir(s.Disk.State, name, 0o700)
	if fsx.NotDir(err) {
		return nil, Misplaced(name)
	}
	return dir, err
}

// openLock opens the file that holds the journal's lock and shared header.
func (s *Engine) openLock() error {
	if s.Disk.locks == nil {
		return nil
	}
	flag := fsx.Read | fsx.Write | fsx.Create
	if s.Opts.ReadOnly {
		flag = fsx.Read
	}
	f, err := s.Disk.locks.Open("journal", flag, 0o600)
	if IsAbsent(err) && s.Opts.ReadOnly {
		return nil
	}
	if err != nil {
		return err
	}
	s.Disk.lockf = f
	s.Disk.lockStat, err = f.Stat()
	return err
}

// othersLive reports whether another writer has the store open.
func (s *Engine) othersLive() (bool, error) { return s.anyOther(lock.Alive) }

// anyOther reports whether something is true of a writer other than this one.
func (s *Engine) anyOther(is func(locks fsx.Dir, writer string) (bool, error)) (bool, error) {
	writers, err := lock.Writers(s.Disk.locks)
	for _, w := range writers {
		if w == s.Writer {
			continue
		}
		if yes, err := is(s.Disk.locks, w); err != nil || yes {
			return yes, err
		}
	}
	return false, err
}

// aloneOnThisHost refuses a store that a process on another host writes to, or one in a
// sandbox with a kernel of its own. Each of them looks after it has registered, so that of
// two that open at once not both succeed.
func (s *Engine) aloneOnThisHost() error {
	shared, err := s.anyOther(lock.Elsewhere)
	if err == nil && shared {
		err = fault.New(fault.IOBusy).With("part", StateDirName+"/locks").
			Hintf("a process on another host, or in a sandbox, has this store open; two systems do not see each other's writes in time. End that process, open the store read-only, or give each system a state directory of its own")
	}
	return err
}

// Start brings the opened directories to life: locks, journal, recovery.
func (s *Engine) Start(ctx context.Context) error {
	err := s.openParts()
	if err == nil && !s.Opts.ReadOnly {
		err = s.startWriter(ctx)
	}
	if err == nil && s.Disk.journal != nil {
		err = s.openJournal(ctx)
	}
	if err == nil && s.unflushed != nil {
		err = s.Poison(s.unflushed)
	}
	if err == nil && !s.Opts.ReadOnly {
		err = s.recover(ctx)
	}
	if err == nil && s.Opts.ReadOnly && s.Disk.Staging != nil {
		err = s.countPending()
	}
	if err == nil {
		s.Open, s.Ended = true, make(chan error, 1)
		if !s.Opts.ReadOnly && !s.Poisoned.Load() {
			// What another process keeps from being done now, the next Open does.
			if err = s.clearPoison(); err == nil {
				err = unlessTimeout(s.Tidy(ctx, s.finishOpen))
			}
		}
	}
	if err != nil {
		if s.Disk.State != nil && !s.Opts.ReadOnly && s.LacksSpace(err) {
			s.giveUp()
		}
		err = s.VerbFault("open", err)
		s.shut()
		return err
	}
	return nil
}

// unlessTimeout is err, unless it says that a process that was stopped holds a lock, or
// that the time of the caller is over.
func unlessTimeout(err error) error {
	if isTimeout(err) || errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return err
}

// startWriter gives this opening of the store its identity.
func (s *Engine) startWriter(ctx context.Context) error {
	s.Writer = strconv.FormatInt(int64(os.Getpid()), 36) + s.TestHooks.Nonce()
	s.Settler, s.Heads = newSettler(s), newHeads(s)
	var err error
	if s.Locks, err = lock.Open(s.Disk.locks, lock.Name, lock.Owner{Writer: s.Writer, PID: os.Getpid()}); err != nil {
		return err
	}
	if err := unlessTimeout(s.Tidy(ctx, s.ignoreSelf)); err != nil {
		return err
	}
	if s.closed.Format < FormatVersion { // before others take this process for one of that version
		if err := s.AloneWithin(ctx, "open", s.migrate); err != nil {
			return err
		}
	}
	s.makeSlots(&s.slotDirs.home)
	calls, releaseLiveness, err := lock.Register(s.Disk.locks, s.Writer)
	if s.releaseLiveness = releaseLiveness; s.StatePlace != "" { // in a simulation no time passes
		s.calls = calls
	}
	if err != nil {
		return err
	}
	if err := s.stays(); err != nil {
		return err
	}
	return s.aloneOnThisHost()
}

// stays refuses a store whose state directory is being copied to another file system: the
// copy, which becomes the store, would lack what is written.
func (s *Engine) stays() error {
	moves, err := s.Locks.Moves()
	if err == nil && moves {
		err = fault.New(fault.IOBusy).With("part", StateDirName).
			Hintf("another process moves the state directory; try again when it has ended")
	}
	return err
}

// Alone runs fn while no other process writes the small files of the state
// directory.
func (s *Engine) Alone(what string, fn func() error) error {
	return s.AloneWithin(context.Background(), what, fn)
}

// AloneWithin is Alone for a caller that waits no longer than its context.
func (s *Engine) AloneWithin(ctx context.Context, what string, fn func() error) error {
	unlock, err := s.Locks.Names(ctx, s.Opts.LockTimeout, what, "state")
	if err != nil {
		return err
	}
	defer unlock()
	return fn()
}

// Tidy is AloneWithin for what Open can leave to the next one. Where a process was stopped
// with the lock, Open waits for it only once.
func (s *Engine) Tidy(ctx context.Context, fn func() error) error {
	wait := s.Opts.LockTimeout
	if s.stuck {
		wait = 0
	}
	unlock, err := s.Locks.Names(ctx, wait, "open", "state")
	if err != nil {
		s.stuck = true
		return err
	}
	defer unlock()
	return fn()
}

const IgnoreName = ".gitignore"

// ignoreSelf keeps the state directory out of the user's repository without
// touching the user's .gitignore.
func (s *Engine) ignoreSelf() error { return ignoreIn(s.Disk.State) }

func ignoreIn(dir fsx.Dir) error {
	if data, err := durable.ReadFile(dir, IgnoreName, MetaLimit); err == nil && strings.Contains(string(data), "*") {
		return nil
	}
	return durable.WriteFile(dir, IgnoreName, []byte("*\n"), 0o600)
}

// openJournal reads the journal from the last snapshot of the index to its
// end.
func (s *Engine) openJournal(ctx context.Context) error {
	_, err := s.Disk.State.Lstat(poisonMark)
	if err != nil && !IsAbsent(err) {
		return err
	}
	s.Report.Poisoned = err == nil
	if s.History != nil {
		s.History.Distrust = s.Report.Poisoned
	}
	if s.Rows, err = OpenRows(s.Disk.Index); err != nil {
		return err
	}
	s.Rows.own = s.Writer
	live := false
	if s.Opts.ReadOnly && s.Disk.locks != nil {
		live, _ = s.othersLive()
	}
	from := s.Rows.from
	for {
		var rep journal.OpenReport
		s.Log, rep, err = journal.Open(ctx, journal.Options{
			Dir: s.Disk.journal, Lock: s.Disk.lockf, Writer: s.Writer, Now: s.TestHooks.Now,
			SegmentBytes: s.TestHooks.Segment, Preallocate: s.TestHooks.Preallocate,
			ReadOnly: s.Opts.ReadOnly, Live: live, From: from, OnRecord: s.Rows.Fold, Temp: s.Disk.Staging, Lost: s.lostRows, Failed: s.markPoisoned, Marked: s.marked,
			LockWait: s.TestHooks.LockWait, Archive: s.openArchive, Manifests: manifests{s}, Flushed: max(s.closed.NextSeq, 1) - 1, Present: s.locksPresent,
			Leads: func(name string, segment fsx.Stat) (bool, error) { return s.leads("journal/"+name, segment) },
		})
		if err != nil {
			return err
		}
		s.Report.Malformed = rep.Malformed
		for _, note := range rep.Torn {
			s.Report.TornBytes += note.To - note.From
		}
		if from == nil || rep.SnapshotUsed {
			break
		}
		// The snapshot does not fit the journal: it is a cache, and is rebuilt.
		s.Report.Rebuilt = true
		s.Log.Close()
		s.Rows.reset()
		from = nil
	}
	if s.Opts.ReadOnly {
		return nil
	}
	if err := s.noteHead(ctx); err != nil {
		return err
	}
	if _, err := s.Disk.State.Lstat(LegacyName); err != nil {
		return nil
	}
	return s.AloneWithin(ctx, "import", func() error {
		if err := s.Log.CatchUp(); err != nil {
			return err
		}
		return s.importLegacy(ctx)
	})
}

// finishOpen writes down that the store is open and well.
func (s *Engine) finishOpen() error {
	if !s.TestHooks.NoReserve && !blob.OneByOne {
		s.History.Prepare() // without it the directories are made one by one
	}
	if err := s.MakeReserve(); err != nil {
		s.Report.Warn(call.WarnReserveNotAvailable)
	}
	if data, err := durable.ReadFile(s.Disk.State, MetaName, MetaLimit); err != nil || len(data) == 0 || s.Report.Rebuilt {
		if err := s.WriteMeta(); err != nil && s.ErrorOf(err).Code != fault.DiskFull {
			return err
		}
	}
	return nil
}

// End closes a store that no call uses.
func (s *Engine) End() error {
	var err error
	lost := s.Present() != nil
	if !s.Opts.ReadOnly && !s.Poisoned.Load() && !lost {
		if err = s.Drain(); err == nil {
			s.LookAgain(-1)
			s.checkAdopted(time.Now())
			err = unlessTimeout(s.Alone("close", s.saveCaches))
		}
	}
	if serr := s.shut(); err == nil && !lost { // what is lost cannot be left tidy
		err = serr
	}
	if err != nil {
		return s.VerbFault("close", err)
	}
	return nil
}

// saveCaches writes what makes the next Open fast. A full disk is no failure, nor is a
// process that was stopped with the lock: caches can be rebuilt.
func (s *Engine) saveCaches() error {
	// The rows first: a cache must not know of rows that a power cut takes.
	if err := s.Log.Sync(); err != nil {
		return s.Poison(err)
	}
	err := s.Rows.save(s.Disk.Index, s.Log)
	if err == nil {
		err = s.WriteMeta()
	}
	if err != nil && s.ErrorOf(err).Code == fault.DiskFull {
		return nil
	}
	return err
}

// snapshot writes a snapshot of the index while the store is in use.
func (s *Engine) snapshot() {
	if !s.snapping.TryLock() {
		return
	}
	defer s.snapping.Unlock()
	s.Alone("snapshot", func() error {
		if err := s.Log.Sync(); err != nil {
			return err
		}
		return s.Rows.save(s.Disk.Index, s.Log)
	})
}

// shut releases everything, in the order opposite to opening.
func (s *Engine) shut() error {
	s.adopted.stop()
	if s.Heads != nil {
		s.Heads.close()
	}
	s.copies.close()
	var first error
	keep := func(err error) {
		first = cmp.Or(first, err)
	}
	if s.Settler != nil {
		s.Settler.stop()
	}
	s.slotDirs.close(s.lost.Load() != nil)
	if s.Log != nil {
		s.tellPoison()
		keep(s.Log.Close())
	}
	if s.Rows != nil {
		keep(s.Rows.Close())
	}
	if s.releaseLiveness != nil {
		keep(s.releaseLiveness())
	}
	if s.Locks != nil {
		keep(s.Locks.Close())
	}
	if s.History != nil {
		keep(s.History.Close())
	}
	s.CloseDirs()
	return first
}

func (s *Engine) CloseDirs() {
	if s.Disk.lockf != nil {
		s.Disk.lockf.Close()
	}
	if s.Disk.above != nil && s.Disk.above != s.Disk.Root {
		s.Disk.above.Close()
	}
	s.slotDirs.closeDirs()
	for _, d := range []fsx.Dir{s.Disk.Index, s.Disk.locks, s.Disk.Staging, s.Disk.journal, s.Disk.State, s.Disk.Root} {
		if d != nil {
			d.Close()
		}
	}
}

// openArchive opens the directory of parked segments.
func (s *Engine) openArchive(make bool) (fsx.Dir, error) {
	if make && !s.Opts.ReadOnly {
		return s.OpenPart(archiveDir)
	}
	return s.Disk.State.OpenDir(archiveDir)
}

// noteHead leaves a note when the journal is not the one that the last Close
// saw: rows were cut off, or the newest one was changed. meta.json, which shows
// it, is written again by the next Close; the note stays, and [Store.Check] names
// it until the operator acknowledges it. Numbers of rows that are gone are not
// given again: a receipt or a cursor may know them.
func (s *Engine) noteHead(ctx context.Context) error {
	m := s.closed
	if m.NextSeq < 2 || m.Head == "" {
		return nil
	}
	note := &journal.Note{What: journal.NoteHead, SHA256: m.Head, Last: m.NextSeq - 1}
	pos := s.Log.End()
	if pos.Seq < m.NextSeq-1 {
		note.Missing = &[2]uint64{pos.Seq + 1, m.NextSeq - 1}
	} else {
		now, err := s.Log.HashOf(m.NextSeq - 1)
		if err == nil && now == m.Head {
			s.Rows.trustTo(m.Settled)
		}
		if errors.Is(err, journal.ErrNotFound) || err == nil && now == m.Head {
			return nil
		}
		if err != nil {
			return err
		}
		known, err := s.Log.Known()
		if err != nil || known.HeadTold(m.Head) || known.RowLeads(m.NextSeq-1, m.Head, now) {
			return err
		}
	}
	rec := &journal.Record{TS: stamp.Text(s.Now()), Kind: journal.KindNote, Writer: s.Writer, Note: note}
	if err := s.Log.Jump(ctx, m.NextSeq-1, rec); err != nil {
		return err
	}
	return s.Log.Sync()
}

const archiveDir = "archive"
