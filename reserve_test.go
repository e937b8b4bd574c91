package resilientwrite_test

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/slotdir"
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
	{"delete", nil, doing((*rw.Store).Delete, rw.DeleteRequest{Path: "a.txt"}), "a.txt"},
	{"undo_delete", doing((*rw.Store).Delete, rw.DeleteRequest{Path: "a.txt"}), doing((*rw.Store).Undo, rw.UndoRequest{}), ""},
	{"undo_overwrite", do(put("a.txt", otherText, rw.ModeOverwrite)), doing((*rw.Store).Undo, rw.UndoRequest{}), ""},
	{"undo_create", do(put("d/e.txt", "new", rw.ModeCreate)), doing((*rw.Store).Undo, rw.UndoRequest{}), ""},
	{"undo_move", inSequence(do(put("d/e/f.txt", "deep", rw.ModeCreate)), move("d", "x", false)), func(s *rw.Store) error {
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
		r, err := s.Admin().Compact(background, admin.CompactRequest{KeepRows: &none})
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
	t.Parallel()
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
				length(t, must(s.Unfinished())(t), 0, way.name, " ", level, ", full at ", at, ": left in staging")
				got := files(fs)
				for name, want := range reserveFiles {
					is, there := got[name]
					expect(t, (is == want || name == way.gone) && there != (name == way.gone), "%s %s, full at %d: %s holds %.20q", way.name, level, at, name, is)
				}
				equal(t, simReserve(fs), rw.ReserveSize, way.name, " ", level, ", full at ", at, ": the reserve has")
				check(t, s, true)
				noErr(t, s.Close(background))
			}
			expect(t, hits*step >= 4, "%s %s: the disk was full at %d places only", way.name, level, hits)
		}
	}
}

func storeWithReserve(t *testing.T, level rw.SyncLevel) (*simfs.FS, *rw.Store) {
	t.Helper()
	fs := simfs.New()
	s := must(rw.OpenSimWithReserve(fs, &rw.Options{Sync: level}, rw.Sim{Nonce: "0001", Segment: 1000}))(t)
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		write(t, s, name, reserveFiles[name], rw.ModeCreate)
	}
	noErr(t, s.Sync(background))
	mustEqual(t, simReserve(fs), rw.ReserveSize, "the reserve has bytes")
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
			aborted := slices.ContainsFunc(rows.Entries, func(e rw.JournalEntry) bool { return e.Kind == "abort" })
			expect(t, full.given == aborted, "%s at %d: reserve given up %v, rolled back %v", r.Path, at, full.given, aborted)
			if err != nil {
				refusals++
				e := rw.AsError("", err)
				expect(t, e.Detail == rw.ErrDiskFull && e.Effect == rw.EffectNone, "%s at %d: %v (%v)", r.Path, at, err, errors.Unwrap(err))
				got := files(fs)
				expect(t, fmt.Sprint(got) == fmt.Sprint(before), "%s at %d: the refusal changed the workspace", r.Path, at)
			}
			if aborted {
				aborts++
			}
			write(t, s, "later.txt", "x", rw.ModeCreate)
			equal(t, simReserve(fs), rw.ReserveSize, r.Path, " at ", at, ": the reserve has")
			check(t, s, true)
			noErr(t, s.Close(background))
		}
		expect(t, refusals >= 2 && aborts >= 1, "%s: %d refusals, %d of them rolled back", r.Path, refusals, aborts)
	}
}

// TestCompactReportsAFullDisk: a Compact for which even the reserve is too
// little fails with nothing changed and reports it.
func TestCompactReportsAFullDisk(t *testing.T) {
	fs, s := storeWithReserve(t, rw.SyncFull)
	before := fs.Tree()
	fs.Inject(func(op simfs.Op) simfs.Fault {
		if takesSpace(op) || path.Base(op.Path) == "reserve" && op.Kind != "remove" && op.Mut >= 0 {
			return simfs.Fault{Err: syscall.ENOSPC}
		}
		return simfs.Fault{}
	})
	_, err := s.Admin().Compact(background, admin.CompactRequest{})
	fs.Inject(nil)
	e := rw.AsError("", err)
	expect(t, e.Detail == rw.ErrDiskFull && e.Effect == rw.EffectNone, "compact: %v, effect %s (%v)", err, e.Effect, errors.Unwrap(err))
	after := fs.Tree()
	for name, was := range before {
		is := after[name]
		expect(t, is == was || path.Base(name) == "reserve" || strings.Contains(name, "/locks/"), "%s changed", name)
	}
	write(t, s, "later.txt", "x", rw.ModeCreate)
	equal(t, simReserve(fs), rw.ReserveSize, "the reserve has bytes")
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
	require(t, err != nil && rw.AsError("", err).Effect == rw.EffectUnknown && !given, "delete: %v, reserve given up %v", err, given)
	noErr(t, s.Close(background))
}

// slotDirs are the directories of slots at the top of a workspace.
func slotDirs(t *testing.T, fs *simfs.FS) (list []string) {
	t.Helper()
	names := must(fs.Foreign().Names())(t)
	for _, name := range names {
		if strings.HasPrefix(name, relpath.SlotsPrefix) {
			list = append(list, name)
		}
	}
	return list
}

// removeSlots removes a directory of slots, as git clean -fdx does.
func removeSlots(t *testing.T, fs *simfs.FS, name string) {
	t.Helper()
	root := fs.Foreign()
	dir := must(root.OpenDir(name))(t)
	names, err := dir.Names()
	for _, n := range names {
		err = errors.Join(err, dir.Remove(n))
	}
	noErr(t, errors.Join(err, root.Rmdir(name)))
}

// elsewhereStore makes a store whose state is on another file system, with the file
// a.txt.
func elsewhereStore(t *testing.T) (*simfs.FS, *rw.Store) {
	t.Helper()
	fs := simfs.New()
	s := openElsewhere(t, fs, "0001")
	write(t, s, "a.txt", "one", rw.ModeCreate)
	return fs, s
}

func openElsewhere(t *testing.T, fs *simfs.FS, nonce string) *rw.Store {
	t.Helper()
	return must(rw.OpenSim(fs, &rw.Options{}, rw.Sim{Nonce: nonce, Mount: true}))(t)
}

// TestSlotsRemovedWhileOpen: a directory of slots that goes away under an open store
// is made again, under another name, and nothing is lost.
func TestSlotsRemovedWhileOpen(t *testing.T) {
	fs, s := elsewhereStore(t)
	before := slotDirs(t, fs)
	require(t, len(before) == 1 && fs.Mode(before[0]) == 0o700, "directories of slots: %v", before)
	ignore, _ := fs.ReadFile(before[0] + "/.gitignore")
	expect(t, string(ignore) == "*\n", ".gitignore holds %q", ignore)
	removeSlots(t, fs, before[0])
	write(t, s, "a.txt", "two", rw.ModeOverwrite)
	write(t, s, "a.txt", "three", rw.ModeOverwrite)
	after := slotDirs(t, fs)
	expect(t, len(after) == 1 && after[0] != before[0], "directories of slots: %v, before %v", after, before)
	must(s.Undo(background, rw.UndoRequest{}))(t)
	got, _ := fs.ReadFile("a.txt")
	expect(t, string(got) == "two", "after the undo: %q", got)
	check(t, s, true)
	noErr(t, s.Close(background))
}

// TestSlotDirectorySweep: a process dies at each operation of its first call, which makes a
// directory of slots, another one writes at the level journal, and the power is cut. Directories of slots are in
// the list, so that they are removed with the store, and what was acknowledged is there.
func TestSlotDirectorySweep(t *testing.T) {
	listed := func(fs *simfs.FS, when string) {
		t.Helper()
		list, _ := fs.ReadFile(rw.StateDirName + "/" + slotdir.ListName)
		for _, name := range slotDirs(t, fs) {
			expect(t, strings.Contains(string(list), name), "%s: %s is not in the list %s", when, name, list)
		}
	}
	for n, died := 0, true; died; n++ {
		fs := simfs.New()
		fs.MountAt(rw.StateDirName)
		first := fs.NewProcess()
		s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001", Mount: true, Process: first}))(t)
		second := must(rw.OpenSim(fs, &rw.Options{Sync: rw.SyncJournal}, rw.Sim{Nonce: "0002", Mount: true, Manual: true}))(t)
		first.StopAt(n)
		died = do(put("a.txt", longText, rw.ModeCreate))(s) != nil
		first.Kill()
		for seed := range uint64(8) {
			listed(fs.Crash(seed, simfs.Some), fmt.Sprint("power cut at ", n))
		}
		write(t, second, "b.txt", otherText, rw.ModeCreate)
		for seed := range uint64(8) {
			disk := fs.Crash(seed, []simfs.Loss{simfs.All, simfs.Some}[seed%2])
			after := openElsewhere(t, disk, "0003")
			listed(disk, fmt.Sprint("dead at ", n, ", power cut after another call"))
			equal(t, files(disk)["b.txt"], otherText, "dead at ", n, ", power cut ", seed)
			length(t, after.Recovery().Conflicts, 0, "dead at ", n, ": conflicts")
			noErr(t, after.Close(background))
		}
	}
}

// TestSlotsThatAreNotOurs: an entry of another program in the place of a directory of slots
// is not followed, not used and not changed.
func TestSlotsThatAreNotOurs(t *testing.T) {
	const other = 4711
	for what, plant := range map[string]func(fs *simfs.FS, name string){
		"a link":             func(fs *simfs.FS, name string) { fs.MkdirAll("trap"); fs.Symlink(name, "trap") },
		"a file":             func(fs *simfs.FS, name string) { fs.WriteFile(name, []byte("text"), 0o600) },
		"another user's":     func(fs *simfs.FS, name string) { fs.MkdirAll(name); fs.Own(name, other, 0o700) },
		"writable by others": func(fs *simfs.FS, name string) { fs.MkdirAll(name); fs.Own(name, 0, 0o777) },
		"ours, with entries": func(fs *simfs.FS, name string) {
			fs.WriteFile(name+"/witness-1", nil, 0o600)
			fs.WriteFile(name+"/abc-0-1", []byte("planted"), 0o600)
			fs.Own(name, 0, 0o700)
		},
	} {
		t.Run(what, func(t *testing.T) {
			fs, s := elsewhereStore(t)
			name := slotDirs(t, fs)[0]
			s.Close(background)
			removeSlots(t, fs, name)
			plant(fs, name)
			before := below(fs, name, "trap")
			s = openElsewhere(t, fs, "0002")
			write(t, s, "a.txt", "two", rw.ModeOverwrite)
			write(t, s, "a.txt", "three", rw.ModeOverwrite)
			s.Close(background)
			s = openElsewhere(t, fs, "0003")
			after := below(fs, name, "trap")
			if what == "ours, with entries" { // it had no witness, so another one took its place
				before = map[string]string{}
			}
			expect(t, maps.Equal(before, after), "what was there became %v, before %v", after, before)
			dirs := slotDirs(t, fs)
			expect(t, dirs[len(dirs)-1] != name, "directories of slots: %v", dirs)
			check(t, s, true)
		})
	}
}

// below returns the files of a disk under one of some names.
func below(fs *simfs.FS, names ...string) map[string]string {
	all := fs.Tree()
	maps.DeleteFunc(all, func(p, _ string) bool {
		top, _, _ := strings.Cut(p, "/")
		return !slices.Contains(names, top)
	})
	return all
}

// TestSlotsAreProtected: no path of a call leads into a directory of slots, in any
// spelling, and a scan does not see it.
func TestSlotsAreProtected(t *testing.T) {
	fs, s := elsewhereStore(t)
	name := slotDirs(t, fs)[0]
	fs.Symlink("way", name)
	root := fs.Foreign()
	if err := root.Rename(name, root, "renamed"); err != nil { // recognized by identity
		t.Fatal(err)
	}
	for _, p := range []string{
		name + "/x", strings.ToUpper(name) + "/x", name + ".", "d/" + name + "/x", relpath.SlotsPrefix + "other/x", relpath.SlotsPrefix, "way/x", "renamed/x",
		strings.Replace(name, "s", "ſ", 1) + "/x", ".rw\u200c" + name[3:] + "/x",
	} {
		for verb, call := range map[string]func() error{
			"write":  calling(s.SafeWrite, put(p, "x", rw.ModeCreate)),
			"move":   func() error { return move("a.txt", p, false)(s) },
			"delete": calling(s.Delete, rw.DeleteRequest{Path: p}),
			"read":   calling(s.Read, rw.ReadRequest{Path: p}),
		} {
			isErr(t, call(), rw.ErrProtectedPath, verb, " ", p)
		}
	}
	noErr(t, root.Rename("renamed", root, name))
	fs.Remove("way")
	must(s.Scan(background, around.ScanRequest{}))(t)
	fs.WriteFile(name+"/planted", []byte("x"), 0o600)
	r, err := s.Scan(background, around.ScanRequest{Calls: []string{"c"}})
	expect(t, err == nil && r.Seq == 0, "a scan records what is in a directory of slots: %+v %v", r, err)
}

// TestTopThatCannotBeWritten: the slots of a user who cannot write at the top of a file
// system are in the nearest directory that can hold them.
func TestTopThatCannotBeWritten(t *testing.T) {
	fs := simfs.New()
	fs.MkdirAll("a/b")
	fs.Inject(func(op simfs.Op) simfs.Fault {
		if op.Kind == "mkdir" && (op.Path == "a" || strings.HasPrefix(op.Path, relpath.SlotsPrefix) || strings.HasPrefix(op.Path, "a/"+relpath.SlotsPrefix)) {
			return simfs.Fault{Err: syscall.EACCES}
		}
		return simfs.Fault{}
	})
	s := openElsewhere(t, fs, "0001")
	write(t, s, "a/b/c.txt", "one", rw.ModeCreate)
	write(t, s, "a/b/c.txt", "two", rw.ModeOverwrite)
	names := slices.Sorted(maps.Keys(below(fs, "a")))
	expect(t, len(names) == 7 && strings.HasPrefix(names[2], "a/b/"+relpath.SlotsPrefix), "found %v", names)
	check(t, s, true)
}

// TestSlotsOfASecret: Erase leaves a secret in no directory of slots, also where
// another program has the file that was replaced open.
func TestSlotsOfASecret(t *testing.T) {
	fs, s := elsewhereStore(t)
	secret := strings.Join([]string{"a word", "must not be read"}, " ")
	write(t, s, "a.txt", secret, rw.ModeOverwrite)
	f := must(fs.Foreign().Open("a.txt", fsx.Read|fsx.Write, 0))(t)
	write(t, s, "a.txt", "harmless", rw.ModeOverwrite)
	f.Close()
	must(s.Admin().Erase(background, admin.EraseRequest{Secret: []byte(secret)}))(t)
	for p, text := range fs.Tree() {
		expect(t, !strings.Contains(text, secret), "%s holds the secret", p)
	}
	check(t, s, true)
}
