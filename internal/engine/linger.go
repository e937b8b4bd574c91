package engine

import (
	"cmp"
	"context"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// A previous version that another program has open for writing may still change
// after it was replaced in the workspace. It was copied into history; its file
// stays in the slot while it is open, and is checked again before it is removed.
// So does one that could not be kept, until it can. If a process leaves such files,
// the next Open takes them over with its slots.
type lingering struct {
	mu      sync.Mutex
	list    []lingerer
	at      time.Time    // when they were checked last without a call
	looking sync.RWMutex // shared by those who check some
}

// lingerer is such a file, with its state when it was copied.
type lingerer struct {
	spent
	size, mtime int64
	failed      bool // it could not be kept; only calls try again
}

// lingerDelay is how long files linger until they are checked again, if no call checks
// them before: Erase in another process waits for their slots.
const lingerDelay = time.Second

// unknownSize is the size of a file that was changed while it was copied, or that could
// not be kept.
const unknownSize = -1

// linger keeps the slot if another program may still write to its file, or has
// written to it since it was copied. One with other names is found under them.
func (s *Engine) linger(x spent, f fsx.File, was fsx.Stat) bool {
	if was.Kind != fsx.Regular || was.Nlink != 1 {
		return false
	}
	if !f.InUse() {
		now, err := f.Stat()
		if err == nil && now.Size == was.Size && now.Mtime == was.Mtime {
			return false
		}
	}
	x.held = nil // its owner closes it
	s.lingers(lingerer{spent: x, size: was.Size, mtime: was.Mtime})
	return true
}

// lingers adds a file to those that linger.
func (s *Engine) lingers(x lingerer) {
	s.lingering.mu.Lock()
	s.lingering.list = append(s.lingering.list, x)
	s.lingering.mu.Unlock()
	s.Heads.soon(false)
}

// any reports whether a file is to be checked without a call.
func (l *lingering) any() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.list, func(x lingerer) bool { return !x.failed })
}

// checkLingering checks the files that linger without a call, if that is due.
func (s *Engine) checkLingering() {
	l := &s.lingering
	l.mu.Lock()
	due := time.Since(l.at) >= lingerDelay
	if due {
		l.at = time.Now()
	}
	l.mu.Unlock()
	if due {
		s.lookAgain(func(x lingerer) bool { return !x.failed })
	}
}

// LookAgain checks the first n files that linger, or all when n is negative. Those that
// are still open, or cannot be kept, stay.
func (s *Engine) LookAgain(n int) {
	left := n
	s.lookAgain(func(lingerer) bool {
		left--
		return n < 0 || left >= 0
	})
}

// lookAgain checks the files that linger and are wanted.
func (s *Engine) lookAgain(wanted func(lingerer) bool) {
	l := &s.lingering
	l.looking.RLock()
	defer l.looking.RUnlock()
	l.mu.Lock()
	var list []lingerer
	l.list = slices.DeleteFunc(l.list, func(x lingerer) bool {
		is := wanted(x)
		if is {
			list = append(list, x)
		}
		return is
	})
	l.mu.Unlock()
	for _, x := range list {
		s.lookAgainAt(x)
	}
}

// OpenVersion opens a version in history, also one that has waited in a slot: commits put
// versions into history after their replies. by are mutations that have replaced it; those
// of commits that are not known to be settled need not be given. A nil one is none.
func (s *Engine) OpenVersion(sha string, by ...*journal.Mutation) (fsx.File, error) {
	if s.History == nil { // of a store that is only read
		return nil, fs.ErrNotExist
	}
	f, err := s.History.Open(sha)
	for i := 0; i < len(by) && IsAbsent(err); i++ {
		f, err = s.openReplaced(by[i], sha)
	}
	if IsAbsent(err) {
		f, err = s.openWaiting(sha)
	}
	if IsAbsent(err) { // it may have gone there meanwhile
		s.LookAgain(-1)
		s.lingering.looking.Lock() // when others that check some have ended
		f, err = s.History.Open(sha)
		s.lingering.looking.Unlock()
	}
	return f, err
}

// openWaiting opens a version in the slot of a commit that is not known to be settled.
func (s *Engine) openWaiting(sha string) (fsx.File, error) {
	if s.Log == nil {
		return nil, fs.ErrNotExist
	}
	s.Log.CatchUp() // what cannot be read leaves the rows that are known
	recs, err := s.waiting.rows(s)
	if err != nil {
		return nil, err
	}
	for _, rec := range recs {
		for i := range rec.Muts {
			if f, err := s.openReplaced(&rec.Muts[i], sha); !IsAbsent(err) {
				return f, err
			}
		}
	}
	return nil, fs.ErrNotExist
}

// waiting are the rows of the commits that are not known to be settled. They are read once.
type waiting struct {
	mu   sync.Mutex
	recs map[uint64]*journal.Record
}

func (w *waiting) rows(s *Engine) (recs []*journal.Record, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	seqs := s.Rows.unsettled("")
	found, err := s.Log.FindAll(slices.DeleteFunc(slices.Clone(seqs), func(seq uint64) bool { return w.recs[seq] != nil }))
	if err != nil {
		return nil, err
	}
	for _, seq := range seqs {
		if rec := cmp.Or(w.recs[seq], found[seq]); rec != nil {
			found[seq] = rec
			recs = append(recs, rec)
		}
	}
	w.recs = found
	return recs, nil
}

// openReplaced opens the content with the hash that a mutation has replaced or, if it is not
// published, that it replaces or makes, if that is there and still is what it was.
func (s *Engine) openReplaced(m *journal.Mutation, sha string) (fsx.File, error) {
	if m == nil || m.Slot == "" || m.PrevSHA256 != sha && m.SHA256 != sha {
		return nil, fs.ErrNotExist
	}
	d, err := s.slotDirAt(m.SlotDir)
	if err != nil {
		return nil, err
	}
	slot, wanted, name := d.slot(m.Slot), publish.Staged, m.From
	if m.PrevSHA256 == sha {
		wanted, name = publish.Other, m.Identity()
	}
	held, err := slot.Holds()
	if err == nil && held == publish.Staged && name != "" {
		in, failure := s.openEntry(name)
		if in, failure = ofHash(in, failure, sha); failure == nil || IsShortage(failure) {
			return in, failure
		}
		held, err = slot.Holds() // published meanwhile
	}
	if err != nil || held != wanted {
		return nil, cmp.Or(err, fs.ErrNotExist)
	}
	f, err := slot.Dir.Open(slot.Name, fsx.Read, 0)
	return ofHash(f, err, sha)
}

// ofHash closes a file that was opened if it does not have the hash.
func ofHash(f fsx.File, err error, sha string) (fsx.File, error) {
	if err != nil {
		return nil, err
	}
	if now, _, err := HashFile(f); err != nil || now != sha {
		f.Close()
		return nil, cmp.Or(err, fs.ErrNotExist)
	}
	return f, nil
}

func (s *Engine) lookAgainAt(x lingerer) {
	f, err := x.slot.Dir.Open(x.slot.Name, fsx.Read, 0)
	if err != nil {
		if !IsAbsent(err) {
			x.failed = true
			s.lingers(x)
		}
		return
	}
	defer f.Close()
	done, err := s.emptying()
	if err != nil {
		return
	}
	inUse := f.InUse() && s.slotDirs.has(x.slot.Dir) // nothing would lead to a slot elsewhere
	now, err := f.Stat()
	same := !inUse && err == nil && now.Size == x.size && now.Mtime == x.mtime
	if same {
		x.slot.Remove()
	}
	done()
	switch {
	case same:
	case inUse:
		s.lingers(x)
	case s.keepChanged(x.spent, f) != nil:
		x.failed = true
		s.lingers(x)
	}
}

// keepChanged makes a version of what another program wrote to a file after it
// was replaced, and writes a row that records it.
func (s *Engine) keepChanged(x spent, f fsx.File) error {
	x.check, x.was, x.had = true, fsx.Stat{}, false
	sha, size, err := s.keepFile(x, f)
	if err != nil || x.seq == 0 || sha == "" || sha == x.old {
		return err
	}
	note := s.RowAbout(journal.KindNote, &journal.Record{Seq: x.seq}, NoteForeign)
	note.Note = &journal.Note{What: NoteForeign, Path: x.path, SHA256: sha, Bytes: size}
	s.WriteRow(WithSpare(context.Background()), note)
	return nil
}

// adopted are the previous versions that became objects without a copy, and that no
// process had open for writing at that moment. A process whose open had found the file
// before it left the workspace, and had not returned, can still write to it. So each is
// checked again after a while.
type adopted struct {
	mu      sync.Mutex
	list    []adoption // in the order of at
	stopped bool
}

type adoption struct {
	spent // old is the hash that the object is named after
	was   fsx.Stat
	at    time.Time
}

const (
	adoptedDelay = time.Second // until an object is checked again
	adoptedMost  = 4096        // objects that wait; with more, none waits that long
)

func (a *adopted) add(s *Engine, x spent, sha string, was fsx.Stat) {
	if s.Opts.Sync == SyncOff {
		return
	}
	x.held, x.old = nil, sha // its owner closes it
	a.mu.Lock()
	if !a.stopped && len(a.list) < 2*adoptedMost {
		a.list = append(a.list, adoption{x, was, time.Now()})
	}
	full := len(a.list) > adoptedMost
	a.mu.Unlock()
	s.Heads.soon(full)
}

// due is the time up to which objects were adopted that are to be checked now.
func (a *adopted) due() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.list) > adoptedMost {
		return time.Now()
	}
	return time.Now().Add(-adoptedDelay)
}

// take removes the first of the list if it was added up to a time.
func (a *adopted) take(upto time.Time) (x adoption, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.list) == 0 || a.list[0].at.After(upto) {
		return x, false
	}
	x = a.list[0]
	a.list[0] = adoption{}
	a.list = a.list[1:]
	return x, true
}

func (a *adopted) any() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.list) > 0
}

// stop drops those that still wait.
func (a *adopted) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.list, a.stopped = nil, true
}

// checkAdopted checks the objects that were adopted up to a time.
func (s *Engine) checkAdopted(upto time.Time) {
	for {
		x, ok := s.adopted.take(upto)
		if !ok {
			return
		}
		s.checkObject(x)
	}
}

// checkObject moves an object back into its slot if another program has it open for
// writing or has changed it. There it is kept again, as what it is now.
//
//	openat(aa/sha)  fcntl(F_SETLEASE)  fstat  [renameat(aa/sha, slot)  fsync(aa)  fsync(slots)]
func (s *Engine) checkObject(x adoption) {
	f, err := s.History.Open(x.old)
	if err != nil {
		return // the limits of history may have removed it
	}
	defer f.Close()
	free := f.Unshared()
	now, err := f.Stat()
	if err != nil || now.Ino != x.was.Ino {
		return
	}
	if free && now.Size == x.was.Size && now.Mtime == x.was.Mtime && now.Ctime <= x.at.UnixNano() {
		return
	}
	if free {
		if sha, _, err := HashFile(f); err != nil || sha == x.old {
			return
		}
	}
	done, err := s.shareHistory()
	if err != nil {
		s.adopted.add(s, x.spent, x.old, x.was)
		return
	}
	err = s.History.Release(x.old, x.slot.Dir, x.slot.Name)
	done()
	if err != nil || s.syncDirs(x.slot.Dir) != nil {
		return
	}
	if s.keepChanged(x.spent, f) != nil {
		s.lingers(lingerer{spent: x.spent, size: unknownSize, failed: true})
	}
}
