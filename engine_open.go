package resilientwrite

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/blob"
	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/lock"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// openState opens the state directory, which must be a plain directory.
func (s *engine) openState(parent fsx.Dir, name string) error {
	s.disk.above, s.disk.stateName = parent, name
	st, err := parent.Lstat(name)
	switch {
	case err == nil && st.Kind != fsx.Directory:
		return fault.New(fault.BadStateDir)
	case isAbsent(err) && s.opts.ReadOnly:
		return nil // nothing was ever written here
	case err != nil && !isAbsent(err):
		return err
	}
	if s.opts.ReadOnly {
		s.disk.state, err = parent.OpenDir(name)
	} else {
		s.disk.state, err = durable.Mkdir(parent, name, 0o700)
	}
	if err != nil {
		return err
	}
	return s.takeCustody()
}

// openParts opens what is in the state directory.
func (s *engine) openParts() error {
	if s.disk.state == nil {
		return nil
	}
	id, err := s.disk.state.Stat()
	if err != nil {
		return err
	}
	s.disk.stateStat = id
	s.tree.Guard = func(st fsx.Stat) error {
		if st.SameFile(id) {
			return relpath.ErrProtected
		}
		return nil
	}
	if err := s.checkFormat(); err != nil {
		return err
	}
	var history fsx.Dir
	for _, part := range []struct {
		name string
		dir  *fsx.Dir
	}{
		{"journal", &s.disk.journal}, {"staging", &s.disk.staging}, {"locks", &s.disk.locks},
		{"index", &s.disk.index}, {"history", &history},
	} {
		if *part.dir, err = s.openPart(part.name); err != nil {
			return err
		}
	}
	if history != nil {
		s.history = blob.New(history)
	}
	if s.disk.staging != nil {
		st, err := s.disk.staging.Stat()
		if err != nil {
			return err
		}
		s.disk.dev = st.Dev
	}
	if vol, err := s.disk.state.Volume(); err == nil && vol.Remote {
		s.unverified = true
		s.report.warn(warnDurabilityUnproven)
	}
	return s.openLock()
}

// openPart opens a directory of the state directory; a read-only store makes
// none.
func (s *engine) openPart(name string) (fsx.Dir, error) {
	if !s.opts.ReadOnly {
		return durable.Mkdir(s.disk.state, name, 0o700)
	}
	d, err := s.disk.state.OpenDir(name)
	if isAbsent(err) {
		return nil, nil
	}
	return d, err
}

// openLock opens the file that holds the journal's lock and shared header.
func (s *engine) openLock() error {
	if s.disk.locks == nil {
		return nil
	}
	flag := fsx.Read | fsx.Write | fsx.Create
	if s.opts.ReadOnly {
		flag = fsx.Read
	}
	f, err := s.disk.locks.Open("journal", flag, 0o600)
	if isAbsent(err) && s.opts.ReadOnly {
		return nil
	}
	s.disk.lockf = f
	return err
}

// othersLive reports whether another writer has the store open.
func (s *engine) othersLive() (bool, error) {
	writers, err := lock.Writers(s.disk.locks)
	if err != nil {
		return false, err
	}
	for _, w := range writers {
		if w == s.writer {
			continue
		}
		if live, err := lock.Alive(s.disk.locks, w); err != nil || live {
			return live, err
		}
	}
	return false, nil
}

// start brings the opened directories to life: locks, journal, recovery.
func (s *engine) start(ctx context.Context) error {
	err := s.openParts()
	if err == nil && !s.opts.ReadOnly {
		err = s.startWriter()
	}
	if err == nil && !s.opts.ReadOnly && s.closed.Format < formatVersion {
		err = s.alone("open", s.migrate)
	}
	if err == nil && s.disk.journal != nil {
		err = s.openJournal(ctx)
	}
	if err == nil && !s.opts.ReadOnly {
		err = s.recover(ctx)
	}
	if err == nil && s.opts.ReadOnly && s.disk.staging != nil {
		err = s.countPending()
	}
	if err == nil {
		s.open, s.ended = true, make(chan error, 1)
		if !s.opts.ReadOnly {
			if err = s.clearPoison(); err == nil {
				err = s.alone("open", s.finishOpen)
			}
		}
	}
	if err != nil {
		if s.disk.state != nil && !s.opts.ReadOnly && s.lacksSpace(err) {
			s.giveUp()
		}
		s.shut()
		return s.verbFault("open", err)
	}
	return nil
}

// startWriter gives this opening of the store its identity.
func (s *engine) startWriter() error {
	s.writer = strconv.FormatInt(int64(os.Getpid()), 36) + s.seam.nonce()
	s.behind, s.heads = newBehind(s), newHeads(s)
	var err error
	if s.locks, err = lock.Open(s.disk.locks, "paths", lock.Owner{Writer: s.writer, PID: os.Getpid()}); err != nil {
		return err
	}
	if err := s.alone("open", s.ignoreSelf); err != nil {
		return err
	}
	s.slots = &publish.Slots{Dir: s.disk.staging, Writer: s.writer, Set: s.seam.slots, InTurn: s.seam.inTurn, Sync: func(d fsx.Dir) error {
		if s.opts.Sync == syncOff {
			return nil
		}
		return s.syncDir(d)
	}}
	s.unlive, err = lock.Register(s.disk.locks, s.writer)
	return err
}

// alone runs fn while no other process writes the small files of the state
// directory.
func (s *engine) alone(what string, fn func() error) error {
	unlock, err := s.locks.Names(context.Background(), s.opts.LockTimeout, what, "state")
	if err != nil {
		return err
	}
	defer unlock()
	return fn()
}

const ignoreName = ".gitignore"

// ignoreSelf keeps the state directory out of the user's repository without
// touching the user's .gitignore.
func (s *engine) ignoreSelf() error {
	if data, err := durable.ReadFile(s.disk.state, ignoreName, metaLimit); err == nil && strings.Contains(string(data), "*") {
		return nil
	}
	return durable.WriteFile(s.disk.state, ignoreName, []byte("*\n"), 0o600)
}

// openJournal reads the journal from the last snapshot of the index to its
// end.
func (s *engine) openJournal(ctx context.Context) error {
	_, err := s.disk.state.Lstat(poisonMark)
	s.report.Poisoned = err == nil
	if s.rows, err = openRows(s.disk.index); err != nil {
		return err
	}
	s.rows.own = s.writer
	live := false
	if s.opts.ReadOnly && s.disk.locks != nil {
		live, _ = s.othersLive()
	}
	from := s.rows.from
	for {
		var rep journal.OpenReport
		s.log, rep, err = journal.Open(ctx, journal.Options{
			Dir: s.disk.journal, Lock: s.disk.lockf, Writer: s.writer, Now: s.seam.now,
			SegmentBytes: s.seam.segment, Preallocate: s.seam.preallocate,
			ReadOnly: s.opts.ReadOnly, Live: live, From: from, OnRecord: s.rows.fold, Temp: s.disk.staging, Lost: s.lostRows, Failed: s.markPoisoned,
			LockWait: s.seam.lockWait, Archive: s.openArchive, Flushed: max(s.closed.NextSeq, 1) - 1, Present: s.present,
		})
		if err != nil {
			return err
		}
		s.report.Malformed = rep.Malformed
		for _, note := range rep.Torn {
			s.report.TornBytes += note.To - note.From
		}
		if from == nil || rep.SnapshotUsed {
			break
		}
		// The snapshot does not fit the journal: it is a cache, and is rebuilt.
		s.report.Rebuilt = true
		s.log.Close()
		s.rows.reset()
		from = nil
	}
	if s.opts.ReadOnly {
		return nil
	}
	if err := s.noteHead(ctx); err != nil {
		return err
	}
	if _, err := s.disk.state.Lstat(legacyName); err != nil {
		return nil
	}
	return s.alone("import", func() error {
		if err := s.log.CatchUp(); err != nil {
			return err
		}
		return s.importLegacy(ctx)
	})
}

// finishOpen writes down that the store is open and well.
func (s *engine) finishOpen() error {
	if !s.seam.noReserve {
		s.history.Prepare() // without it the directories are made one by one
	}
	if err := s.makeReserve(); err != nil {
		s.report.warn(warnReserveNotAvailable)
	}
	if data, err := durable.ReadFile(s.disk.state, metaName, metaLimit); err != nil || len(data) == 0 || s.report.Rebuilt {
		if err := s.writeMeta(); err != nil && s.errorOf(err).Code != fault.DiskFull {
			return err
		}
	}
	return nil
}

// end closes a store that no call uses.
func (s *engine) end() error {
	var err error
	lost := s.present() != nil
	if !s.opts.ReadOnly && !s.poisoned.Load() && !lost {
		if err = s.behind.drain(); err == nil {
			s.heads.drain()
			s.lookAgain(-1)
			err = s.alone("close", s.saveCaches)
		}
	}
	if serr := s.shut(); err == nil && !lost { // what is lost cannot be left tidy
		err = serr
	}
	if err != nil {
		return s.verbFault("close", err)
	}
	return nil
}

// saveCaches writes what makes the next Open fast. A full disk is no failure:
// caches can be rebuilt.
func (s *engine) saveCaches() error {
	// The rows first: a cache must not know of rows that a power cut takes.
	if err := s.log.Sync(); err != nil {
		return s.poison(err)
	}
	err := s.rows.save(s.disk.index, s.log)
	if err == nil {
		err = s.writeMeta()
	}
	if err != nil && s.errorOf(err).Code == fault.DiskFull {
		return nil
	}
	return err
}

// snapshot writes a snapshot of the index while the store is in use.
func (s *engine) snapshot() {
	if !s.snapping.TryLock() {
		return
	}
	defer s.snapping.Unlock()
	s.alone("snapshot", func() error {
		if err := s.log.Sync(); err != nil {
			return err
		}
		return s.rows.save(s.disk.index, s.log)
	})
}

// shut releases everything, in the order opposite to opening.
func (s *engine) shut() error {
	if s.heads != nil {
		s.heads.close()
	}
	var first error
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	if s.behind != nil {
		s.behind.stop()
	}
	if s.slots != nil && s.lost.Load() == nil {
		s.slots.Close()
	}
	if s.log != nil {
		keep(s.log.Close())
	}
	if s.rows != nil {
		keep(s.rows.close())
	}
	if s.unlive != nil {
		keep(s.unlive())
	}
	if s.locks != nil {
		keep(s.locks.Close())
	}
	if s.history != nil {
		keep(s.history.Close())
	}
	s.closeDirs()
	return first
}

func (s *engine) closeDirs() {
	if s.disk.lockf != nil {
		s.disk.lockf.Close()
	}
	if s.disk.above != nil && s.disk.above != s.disk.root {
		s.disk.above.Close()
	}
	for _, d := range []fsx.Dir{s.disk.index, s.disk.locks, s.disk.staging, s.disk.journal, s.disk.state, s.disk.root} {
		if d != nil {
			d.Close()
		}
	}
}

// openArchive opens the directory of parked segments.
func (s *engine) openArchive(make bool) (fsx.Dir, error) {
	if make && !s.opts.ReadOnly {
		return durable.Mkdir(s.disk.state, archiveDir, 0o700)
	}
	return s.disk.state.OpenDir(archiveDir)
}

// noteHead leaves a note when the journal is not the one that the last Close
// saw: rows were cut off, or the newest one was changed. meta.json, which shows
// it, is written anew by the next Close; the note stays, and [Store.Check] names
// it until the operator acknowledges it. Numbers of rows that are gone are not
// given again: a receipt or a cursor may know them.
func (s *engine) noteHead(ctx context.Context) error {
	m := s.closed
	if m.NextSeq < 2 || m.Head == "" {
		return nil
	}
	note := &journal.Note{What: journal.NoteHead, SHA256: m.Head, Last: m.NextSeq - 1}
	pos := s.log.End()
	if pos.Seq < m.NextSeq-1 {
		note.Missing = &[2]uint64{pos.Seq + 1, m.NextSeq - 1}
	} else {
		now, err := s.log.HashOf(m.NextSeq - 1)
		if err == nil && now == m.Head {
			s.rows.trustTo(m.Settled)
		}
		if errors.Is(err, journal.ErrNotFound) || err == nil && now == m.Head {
			return nil
		}
		if err != nil {
			return err
		}
		known, err := s.log.Known()
		if err != nil || known.HeadTold(m.Head) || known.RowLeads(m.NextSeq-1, m.Head, now) {
			return err
		}
	}
	rec := &journal.Record{TS: s.now().UTC().Format(timeFormat), Kind: journal.KindNote, Writer: s.writer, Note: note}
	if err := s.log.Jump(ctx, m.NextSeq-1, rec); err != nil {
		return err
	}
	return s.log.Sync()
}

const archiveDir = "archive"
