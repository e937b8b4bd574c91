package resilientwrite

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/blob"
	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/lock"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// FormatVersion is the version of the state directory.
const FormatVersion = 2

// Open opens the workspace dir and makes its state directory when there is
// none. nil options mean the defaults.
//
// Writes that a dead process left unfinished are finished or undone first;
// [Store.Recovery] tells what was found. Open may run while other processes
// have the workspace open. It fails with [UnsafeRoot] for a system or home
// directory and for one that is in a repository's own, [BadStateDir] for a state directory that is a symbolic link or
// no directory, [NewerFormat] for one that a newer version wrote, and with the
// details of the file system's errors. A failed Open leaves a workspace that
// can be opened again.
func Open(ctx context.Context, dir string, opts *Options) (*Store, error) {
	o, e := opts.withDefaults()
	if e != nil {
		e.Op = "open"
		return nil, errorFrom(e)
	}
	attempt := func(gave int64) (*Store, error) {
		s := &Store{opts: o, seam: seam{now: time.Now, nonce: randomNonce}}
		s.reserve.gave = gave
		err := s.openDirs(dir)
		if err == nil {
			err = s.openPolicy(ctx, s.realRoot)
		}
		if err != nil {
			s.closeDirs()
			return s, s.verbError("open", err)
		}
		return s, s.start(ctx)
	}
	return openTwice(attempt)
}

// openTwice opens a store, and once more when there was no space for what
// opening writes and the reserve was given up for it.
func openTwice(attempt func(gave int64) (*Store, error)) (*Store, error) {
	s, err := attempt(0)
	if err != nil && s.reserve.gave > 0 {
		s, err = attempt(s.reserve.gave)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// openOn opens a store on a workspace that is already open: the way of tests
// to a simulated file system.
func openOn(ctx context.Context, root fsx.Dir, opts *Options, seam seam) (*Store, error) {
	o, e := opts.withDefaults()
	if e != nil {
		return nil, errorFrom(e)
	}
	return openTwice(func(gave int64) (*Store, error) {
		s := &Store{opts: o, seam: seam}
		s.reserve.gave = gave
		s.disk.root = root
		s.tree = relpath.Tree{Root: root, Rules: relpath.Rules{Roots: []string{"/ws"}, Protected: []string{stateDirName}}}
		err := s.openState(root, stateDirName)
		if err == nil {
			err = s.openPolicy(ctx, "/ws")
		}
		if err != nil {
			return s, s.verbError("open", err)
		}
		return s, s.start(ctx)
	})
}

func randomNonce() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// unsafeRoots are directories nobody means as a workspace. What lies below
// them is fine.
var unsafeRoots = []string{"/", "/bin", "/sbin", "/usr", "/etc", "/var", "/tmp"}

// openDirs opens the workspace and the directory of the state.
func (s *Store) openDirs(dir string) error {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	real, err := filepath.EvalSymlinks(abs)
	if isAbsent(err) {
		return fault.New(fault.NotFound).Because(err).Hintf("the workspace directory does not exist; create it, or give the path of an existing one")
	}
	if err != nil {
		return err
	}
	s.realRoot = real
	if !s.opts.AllowUnsafeRoot && isUnsafeRoot(real) {
		return fault.New(fault.UnsafeRoot)
	}
	if !s.opts.AllowUnsafeRoot && insideRepository(real) {
		return fault.New(fault.UnsafeRoot).Hintf("this directory is inside a repository's own directory, where files can make git or another program run code; open the work tree, or allow it explicitly")
	}
	if st, err := os.Stat(real); err == nil && !st.IsDir() {
		return fault.New(fault.NotADirectory).Hintf("the workspace is a file; give the path of a directory")
	}
	if s.disk.root, err = fsx.OpenRoot(real); err != nil {
		return err
	}
	s.tree = relpath.Tree{Root: s.disk.root, Rules: relpath.Rules{
		Roots:     []string{filepath.ToSlash(abs), filepath.ToSlash(real)},
		Protected: []string{stateDirName},
		Windows:   runtime.GOOS == "windows",
	}}
	parent, name := s.disk.root, stateDirName
	s.statePlace = filepath.Join(real, stateDirName)
	if s.opts.StateDir != "" {
		place := s.opts.StateDir
		if !filepath.IsAbs(place) {
			place = filepath.Join(real, place)
		}
		if parent, err = fsx.OpenRoot(filepath.Dir(place)); isAbsent(err) {
			return fault.New(fault.NotFound).Because(err).Hintf("the parent of the state directory does not exist; create it, or choose another location")
		}
		if err != nil {
			return err
		}
		name, s.statePlace = filepath.Base(place), place
	}
	return s.openState(parent, name)
}

func isUnsafeRoot(real string) bool {
	for _, dir := range unsafeRoots {
		if d, err := filepath.EvalSymlinks(dir); err == nil && d == real || dir == real {
			return true
		}
	}
	if filepath.Dir(real) == real { // the root of a Windows volume
		return true
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return false
	}
	if h, err := filepath.EvalSymlinks(home); err == nil {
		home = h
	}
	return home == real
}

// openState opens the state directory, which must be a plain directory.
func (s *Store) openState(parent fsx.Dir, name string) error {
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
func (s *Store) openParts() error {
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
		s.report.Warnings = append(s.report.Warnings, warning(WarnDurabilityUnproven))
	}
	return s.openLock()
}

// openPart opens a directory of the state directory; a read-only store makes
// none.
func (s *Store) openPart(name string) (fsx.Dir, error) {
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
func (s *Store) openLock() error {
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
func (s *Store) othersLive() (bool, error) {
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
func (s *Store) start(ctx context.Context) error {
	s.report.Finished, s.report.Aborted, s.report.Conflicts = []RecoveredPath{}, []RecoveredPath{}, []RecoveredPath{}
	if s.report.Warnings == nil {
		s.report.Warnings = []Warning{}
	}
	s.openGuard()
	s.openRepositories()
	err := s.openParts()
	if err == nil && !s.opts.ReadOnly {
		err = s.startWriter()
	}
	if err == nil && !s.opts.ReadOnly && s.closed.Format < FormatVersion {
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
			if err == nil && s.sweepTxs(ctx) != nil {
				s.report.Warnings = append(s.report.Warnings, warning(WarnDraftsNotSwept))
			}
		}
	}
	if err != nil {
		if s.disk.state != nil && !s.opts.ReadOnly && s.lacksSpace(err) {
			s.giveUp()
		}
		s.shut()
		return s.verbError("open", err)
	}
	return nil
}

// startWriter gives this opening of the store its identity.
func (s *Store) startWriter() error {
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
		if s.opts.Sync == SyncOff {
			return nil
		}
		return s.syncDir(d)
	}}
	s.unlive, err = lock.Register(s.disk.locks, s.writer)
	return err
}

// alone runs fn while no other process writes the small files of the state
// directory.
func (s *Store) alone(what string, fn func() error) error {
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
func (s *Store) ignoreSelf() error {
	if data, err := durable.ReadFile(s.disk.state, ignoreName, metaLimit); err == nil && strings.Contains(string(data), "*") {
		return nil
	}
	return durable.WriteFile(s.disk.state, ignoreName, []byte("*\n"), 0o600)
}

// openJournal reads the journal from the last snapshot of the index to its
// end.
func (s *Store) openJournal(ctx context.Context) error {
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
func (s *Store) finishOpen() error {
	if err := s.sweepDrafts(); err != nil {
		s.report.Warnings = append(s.report.Warnings, warning(WarnDraftsNotSwept))
	}
	if !s.seam.noReserve {
		s.history.Prepare() // without it the directories are made one by one
	}
	if err := s.makeReserve(); err != nil {
		s.report.Warnings = append(s.report.Warnings, warning(WarnReserveNotAvailable))
	}
	if data, err := durable.ReadFile(s.disk.state, metaName, metaLimit); err != nil || len(data) == 0 || s.report.Rebuilt {
		if err := s.writeMeta(); err != nil && s.errorOf(err).Code != fault.DiskFull {
			return err
		}
	}
	return nil
}

// Recovery returns what Open found and did.
func (s *Store) Recovery() RecoveryReport {
	r := s.report
	r.Warnings = append(slices.Clip(r.Warnings), s.policy().warnings...)
	return r
}
