package resilientwrite_test

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"syscall"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// fullFrom makes a simulated disk full at one of the operations that take
// space.
type fullFrom struct {
	at    int  // which of them fails
	stays bool // and all that follow, until the reserve is given up
	seen  int
	hit   bool
	given bool // the reserve was given up
}

// takesSpace reports the operations that a file system may refuse for lack of space.
// The lock files are excluded: their blocks exist since Open.
func takesSpace(op simfs.Op) bool {
	switch op.Kind {
	case "create", "write", "append", "mkdir", "link", "rename", "exchange":
		return !strings.Contains(op.Path, "/locks/") && path.Base(op.Path) != "reserve"
	}
	return false
}

func (f *fullFrom) fault(op simfs.Op) simfs.Fault {
	if op.Kind == "remove" && path.Base(op.Path) == "reserve" {
		f.given = true
	}
	if !takesSpace(op) {
		return simfs.Fault{}
	}
	f.seen++
	if f.seen-1 < f.at || f.given || f.hit && !f.stays {
		return simfs.Fault{}
	}
	f.hit = true
	return simfs.Fault{Err: syscall.ENOSPC, Short: 7}
}

func simReserve(fs *simfs.FS) int {
	data, _ := fs.ReadFile(rw.StateDirName + "/reserve")
	return len(data)
}

var reserveFiles = map[string]string{"a.txt": longText, "b.txt": otherText, "c.txt": "c\n"}

// waysOut are the calls that may have the reserve.
var waysOut = []struct {
	name   string
	before func(*rw.Store) error
	run    func(*rw.Store) error
	gone   string // the file that is not there afterwards
}{
	{"delete", nil, func(s *rw.Store) error {
		_, err := s.Delete(background, rw.DeleteRequest{Path: "a.txt"})
		return err
	}, "a.txt"},
	{"undo_delete", func(s *rw.Store) error {
		_, err := s.Delete(background, rw.DeleteRequest{Path: "a.txt"})
		return err
	}, func(s *rw.Store) error {
		_, err := s.Undo(background, rw.UndoRequest{})
		return err
	}, ""},
	{"undo_overwrite", do(put("a.txt", otherText, rw.ModeOverwrite)), func(s *rw.Store) error {
		_, err := s.Undo(background, rw.UndoRequest{})
		return err
	}, ""},
	{"undo_create", do(put("d/e.txt", "new", rw.ModeCreate)), func(s *rw.Store) error {
		_, err := s.Undo(background, rw.UndoRequest{})
		return err
	}, ""},
	{"undo_move", func(s *rw.Store) error {
		if err := do(put("d/e/f.txt", "deep", rw.ModeCreate))(s); err != nil {
			return err
		}
		_, err := s.Move(background, rw.MoveRequest{Path: "d", To: "x"})
		return err
	}, func(s *rw.Store) error {
		r, err := s.Undo(background, rw.UndoRequest{})
		if err == nil && len(r.Results) != 2 {
			return errors.New("nothing was moved back")
		}
		return err
	}, ""},
	{"compact", func(s *rw.Store) error {
		for i := range 12 {
			r := put("c.txt", fmt.Sprintf("c %d\n", i), rw.ModeOverwrite)
			if i == 11 {
				r.Content = []byte("c\n")
			}
			if _, err := s.SafeWrite(background, r); err != nil {
				return err
			}
		}
		return nil
	}, func(s *rw.Store) error {
		none := 0
		r, err := s.Admin().Compact(background, rw.CompactRequest{KeepRows: &none})
		if err == nil && len(r.Archived) == 0 {
			return errors.New("nothing was parked")
		}
		return err
	}, ""},
}

// TestReserveIsForTheWayOut: if a disk gets full at any point during Delete, Undo or
// Compact, the call releases the reserve and succeeds, and the reserve is complete
// again when it ends.
func TestReserveIsForTheWayOut(t *testing.T) {
	for _, way := range waysOut {
		for _, level := range []rw.SyncLevel{rw.SyncFull, rw.SyncJournal} {
			hits, step := 0, 1
			if level == rw.SyncJournal {
				step = 3
			}
			for at := 0; ; at += step {
				full := &fullFrom{at: at, stays: at%2 == 0}
				fs, s := storeWithReserve(t, level)
				if way.before != nil {
					noErr(t, way.before(s))
					noErr(t, s.Sync(background))
				}
				fs.Inject(full.fault)
				err := way.run(s)
				fs.Inject(nil)
				if !full.hit {
					break
				}
				hits++
				noErr(t, err, way.name, " ", level, ", full at ", at)
				noErr(t, s.Sync(background))
				if left, _ := s.Unfinished(); len(left) > 0 {
					t.Errorf("%s %s, full at %d: left in staging: %v", way.name, level, at, left)
				}
				got := files(fs)
				for name, want := range reserveFiles {
					if is, there := got[name]; is != want && name != way.gone || there == (name == way.gone) {
						t.Errorf("%s %s, full at %d: %s holds %.20q", way.name, level, at, name, is)
					}
				}
				if n := simReserve(fs); n != rw.ReserveSize {
					t.Errorf("%s %s, full at %d: the reserve has %d bytes", way.name, level, at, n)
				}
				check(t, s, true)
				noErr(t, s.Close(background))
			}
			if hits*step < 4 {
				t.Errorf("%s %s: the disk was full at %d places only", way.name, level, hits)
			}
		}
	}
}

func storeWithReserve(t *testing.T, level rw.SyncLevel) (*simfs.FS, *rw.Store) {
	t.Helper()
	fs := simfs.New()
	s := must(rw.OpenSimWithReserve(fs, &rw.Options{Sync: level}, rw.Sim{Nonce: "0001", Segment: 900}))(t)
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		write(t, s, name, reserveFiles[name], rw.ModeCreate)
	}
	noErr(t, s.Sync(background))
	if n := simReserve(fs); n != rw.ReserveSize {
		t.Fatalf("the reserve has %d bytes", n)
	}
	return fs, s
}

// TestOrdinaryWritesLeaveTheReserve: wherever a disk gets full during a write,
// the write is refused with nothing changed, and the reserve is touched only for
// the row that takes a commit back.
func TestOrdinaryWritesLeaveTheReserve(t *testing.T) {
	for _, r := range []rw.SafeWriteRequest{
		put("a.txt", otherText, rw.ModeOverwrite), put("x/new.txt", longText, rw.ModeCreate), put("c.txt", longText, rw.ModeAppend),
	} {
		refusals, aborts := 0, 0
		for at := 0; ; at++ {
			full := &fullFrom{at: at, stays: true}
			fs, s := storeWithReserve(t, rw.SyncFull)
			before := files(fs)
			fs.Inject(full.fault)
			_, err := s.SafeWrite(background, r)
			fs.Inject(nil)
			if !full.hit {
				break
			}
			rows, terr := s.JournalSince(background, rw.JournalSinceRequest{AfterSeq: new(uint64), Limit: 1000})
			noErr(t, terr)
			aborted := false
			for _, e := range rows.Entries {
				aborted = aborted || e.Kind == "abort"
			}
			if full.given != aborted {
				t.Errorf("%s at %d: reserve given up %v, taken back %v", r.Path, at, full.given, aborted)
			}
			if err != nil {
				refusals++
				if e := rw.AsError("", err); e.Detail != rw.ErrDiskFull || e.Effect != rw.EffectNone {
					t.Errorf("%s at %d: %v (%v)", r.Path, at, err, errors.Unwrap(err))
				}
				if got := files(fs); fmt.Sprint(got) != fmt.Sprint(before) {
					t.Errorf("%s at %d: the refusal changed the workspace", r.Path, at)
				}
			}
			if aborted {
				aborts++
			}
			write(t, s, "later.txt", "x", rw.ModeCreate)
			if n := simReserve(fs); n != rw.ReserveSize {
				t.Errorf("%s at %d: the reserve has %d bytes", r.Path, at, n)
			}
			check(t, s, true)
			noErr(t, s.Close(background))
		}
		if refusals < 2 || aborts < 1 {
			t.Errorf("%s: %d refusals, %d of them taken back", r.Path, refusals, aborts)
		}
	}
}

// TestCompactTellsTheTruthOnAFullDisk: a Compact for which even the reserve is too
// little fails with nothing changed and reports it.
func TestCompactTellsTheTruthOnAFullDisk(t *testing.T) {
	fs, s := storeWithReserve(t, rw.SyncFull)
	before := fs.Tree()
	fs.Inject(func(op simfs.Op) simfs.Fault {
		if takesSpace(op) || path.Base(op.Path) == "reserve" && op.Kind != "remove" && op.Mut >= 0 {
			return simfs.Fault{Err: syscall.ENOSPC}
		}
		return simfs.Fault{}
	})
	_, err := s.Admin().Compact(background, rw.CompactRequest{})
	fs.Inject(nil)
	if e := rw.AsError("", err); e.Detail != rw.ErrDiskFull || e.Effect != rw.EffectNone {
		t.Errorf("compact: %v, effect %s (%v)", err, e.Effect, errors.Unwrap(err))
	}
	after := fs.Tree()
	for name, was := range before {
		if is := after[name]; is != was && path.Base(name) != "reserve" && !strings.Contains(name, "/locks/") {
			t.Errorf("%s changed", name)
		}
	}
	write(t, s, "later.txt", "x", rw.ModeCreate)
	if n := simReserve(fs); n != rw.ReserveSize {
		t.Errorf("the reserve has %d bytes", n)
	}
	check(t, s, true)
	noErr(t, s.Close(background))
}

// TestHalfARowIsNotTriedAgain: if the bytes of a row that did not fit cannot be
// removed, it is unknown whether the commit will be found, and a second attempt would
// not change that.
func TestHalfARowIsNotTriedAgain(t *testing.T) {
	fs, s := storeWithReserve(t, rw.SyncFull)
	given, wrote := false, false
	fs.Inject(func(op simfs.Op) simfs.Fault {
		given = given || op.Kind == "remove" && path.Base(op.Path) == "reserve"
		if given || !strings.Contains(op.Path, "/journal/") {
			return simfs.Fault{}
		}
		wrote = wrote || op.Kind == "write"
		if wrote && (op.Kind == "write" || op.Kind == "truncate") {
			return simfs.Fault{Err: syscall.ENOSPC, Short: 7}
		}
		return simfs.Fault{}
	})
	_, err := s.Delete(background, rw.DeleteRequest{Path: "a.txt"})
	fs.Inject(nil)
	if err == nil || rw.AsError("", err).Effect != rw.EffectUnknown || given {
		t.Fatalf("delete: %v, reserve given up %v", err, given)
	}
	noErr(t, s.Close(background))
}
