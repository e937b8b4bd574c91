package resilientwrite_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sort"
	"strings"
	"syscall"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// scenario is one call that is broken off everywhere.
type scenario struct {
	name   string
	sim    rw.Sim
	opts   rw.Options
	disk   func(*simfs.FS)       // the content before the store is opened
	before func(*rw.Store) error // acknowledged calls before
	after  func(*simfs.FS)       // the changes of another program then
	run    func(*rw.Store) error // the call
	old    map[string]string     // files before the call; absent ones are missing
	new    map[string]string     // files after it
	dirs   string                // directories after it, in order; "": any
}

// ofStore reports whether a path is the store's own.
func ofStore(p string) bool {
	return strings.HasPrefix(p, rw.StateDirName) || strings.HasPrefix(p, "elsewhere") || strings.Contains(p, relpath.SlotsPrefix)
}

// dirsOf are the directories of the workspace on a disk.
func dirsOf(fs *simfs.FS) string {
	var list []string
	for p, content := range fs.Tree() {
		if content == "/" && !ofStore(p) && !strings.HasPrefix(p, ".git") {
			list = append(list, p)
		}
	}
	sort.Strings(list)
	return strings.Join(list, " ")
}

func put(path, content string, mode rw.WriteMode) rw.SafeWriteRequest {
	return rw.SafeWriteRequest{Path: path, Content: []byte(content), Mode: mode}
}

func do(reqs ...rw.SafeWriteRequest) func(*rw.Store) error {
	return func(s *rw.Store) error {
		for _, r := range reqs {
			if _, err := s.SafeWrite(context.Background(), r); err != nil {
				return err
			}
		}
		return nil
	}
}

func together(reqs ...rw.SafeWriteRequest) func(*rw.Store) error {
	return func(s *rw.Store) error { return s.CommitAll(context.Background(), reqs...) }
}

var (
	longText  = strings.Repeat("a longer line of text that fills several sectors\n", 40)
	otherText = strings.Repeat("quite another line, of another length than before\n", 45)
)

var scenarios = []scenario{
	{name: "create", run: do(put("a.txt", longText, rw.ModeCreate)), old: map[string]string{}, new: map[string]string{"a.txt": longText}},
	{name: "create_deep", run: do(put("x/y/z.txt", "deep", rw.ModeCreate)), old: map[string]string{}, new: map[string]string{"x/y/z.txt": "deep"}},
	{name: "overwrite", before: do(put("a.txt", longText, rw.ModeCreate)), run: do(put("a.txt", otherText, rw.ModeOverwrite)),
		old: map[string]string{"a.txt": longText}, new: map[string]string{"a.txt": otherText}},
	{name: "overwrite_strangers_file", disk: func(f *simfs.FS) { f.WriteFile("a.txt", []byte(longText), 0o640) },
		run: do(put("a.txt", otherText, rw.ModeOverwrite)),
		old: map[string]string{"a.txt": longText}, new: map[string]string{"a.txt": otherText}},
	{name: "append", before: do(put("a.txt", longText, rw.ModeCreate)), run: do(put("a.txt", otherText, rw.ModeAppend)),
		old: map[string]string{"a.txt": longText}, new: map[string]string{"a.txt": longText + otherText}},
	{name: "several", before: do(put("a.txt", longText, rw.ModeCreate), put("b.txt", "b", rw.ModeCreate), put("c.txt", longText, rw.ModeCreate)),
		run: together(put("a.txt", otherText, rw.ModeOverwrite), put("n/new.txt", "new", rw.ModeCreate), put("b.txt", otherText, rw.ModeOverwrite), put("c.txt", "+", rw.ModeAppend)),
		old: map[string]string{"a.txt": longText, "b.txt": "b", "c.txt": longText},
		new: map[string]string{"a.txt": otherText, "b.txt": otherText, "n/new.txt": "new", "c.txt": longText + "+"}},
	{name: "segment_roll", sim: rw.Sim{Segment: 700}, before: do(put("a.txt", longText, rw.ModeCreate), put("b.txt", "b", rw.ModeCreate)),
		run: do(put("a.txt", otherText, rw.ModeOverwrite)),
		old: map[string]string{"a.txt": longText, "b.txt": "b"}, new: map[string]string{"a.txt": otherText, "b.txt": "b"}},
	{name: "no_exchange", disk: func(f *simfs.FS) { f.NoExchange = true }, before: do(put("a.txt", longText, rw.ModeCreate)),
		run: do(put("a.txt", otherText, rw.ModeOverwrite)),
		old: map[string]string{"a.txt": longText}, new: map[string]string{"a.txt": otherText}},
	{name: "no_links", disk: func(f *simfs.FS) { f.NoLink, f.NoExchange = true, true }, before: do(put("a.txt", longText, rw.ModeCreate)),
		run: together(put("a.txt", otherText, rw.ModeOverwrite), put("new.txt", longText, rw.ModeCreate)),
		old: map[string]string{"a.txt": longText}, new: map[string]string{"a.txt": otherText, "new.txt": longText}},
	{name: "hard_link_in_place", opts: rw.Options{HardLinks: rw.HardLinksInPlace},
		before: func(s *rw.Store) error { return do(put("a.txt", longText, rw.ModeCreate))(s) },
		run:    do(put("a.txt", otherText, rw.ModeOverwrite)),
		old:    map[string]string{"a.txt": longText}, new: map[string]string{"a.txt": otherText}},
	{name: "edit", before: do(put("a.txt", longText+"end\n", rw.ModeCreate)), run: func(s *rw.Store) error {
		_, err := s.Edit(context.Background(), rw.EditRequest{Path: "a.txt", Edits: []rw.EditOp{{Old: "end\n", New: "other end\n"}}})
		return err
	}, old: map[string]string{"a.txt": longText + "end\n"}, new: map[string]string{"a.txt": longText + "other end\n"}},
	{name: "edit_merged", before: do(put("a.txt", "begin\n"+longText+"end\n", rw.ModeCreate), put("a.txt", "beginning\n"+longText+"end\n", rw.ModeOverwrite)), run: func(s *rw.Store) error {
		_, err := s.Edit(context.Background(), rw.EditRequest{
			Path: "a.txt", Edits: []rw.EditOp{{Old: "end\n", New: "other end\n"}}, Expect: rw.Exactly(digest(hash("begin\n" + longText + "end\n"))), Merge: rw.MergeClean,
		})
		return err
	}, old: map[string]string{"a.txt": "beginning\n" + longText + "end\n"}, new: map[string]string{"a.txt": "beginning\n" + longText + "other end\n"}},
	{name: "delete", before: do(put("a.txt", longText, rw.ModeCreate), put("b.txt", "b", rw.ModeCreate)), run: func(s *rw.Store) error {
		_, err := s.Delete(context.Background(), rw.DeleteRequest{Path: "a.txt"})
		return err
	}, old: map[string]string{"a.txt": longText, "b.txt": "b"}, new: map[string]string{"b.txt": "b"}},
	{name: "delete_empty_file", before: do(put("a.txt", "", rw.ModeCreate)), run: func(s *rw.Store) error {
		_, err := s.Delete(context.Background(), rw.DeleteRequest{Path: "a.txt"})
		return err
	}, old: map[string]string{"a.txt": ""}, new: map[string]string{}},
	{name: "move", before: do(put("a.txt", longText, rw.ModeCreate)), run: move("a.txt", "x/b.txt", false),
		old: map[string]string{"a.txt": longText}, new: map[string]string{"x/b.txt": longText}},
	{name: "move_over", before: do(put("a.txt", longText, rw.ModeCreate), put("b.txt", otherText, rw.ModeCreate)), run: move("a.txt", "b.txt", true),
		old: map[string]string{"a.txt": longText, "b.txt": otherText}, new: map[string]string{"b.txt": longText}},
	{name: "move_directory", before: do(put("d/a.txt", longText, rw.ModeCreate), put("d/e/b.txt", otherText, rw.ModeCreate)), run: move("d", "f", false),
		old: map[string]string{"d/a.txt": longText, "d/e/b.txt": otherText}, new: map[string]string{"f/a.txt": longText, "f/e/b.txt": otherText}},
}

func init() {
	scenarios = append(scenarios, scenario{
		name: "undo_tx", before: func(s *rw.Store) error {
			if err := do(put("a.txt", longText, rw.ModeCreate), put("b.txt", otherText, rw.ModeCreate))(s); err != nil {
				return err
			}
			_, err := s.Tx(context.Background(), rw.TxRequest{Ops: []rw.TxOp{
				{Op: "write", Path: "a.txt", Content: []byte("changed"), Mode: rw.ModeOverwrite, AllowShrink: true},
				{Op: "delete", Path: "b.txt"}, {Op: "write", Path: "new.txt", Content: []byte("new")},
			}})
			return err
		},
		run: func(s *rw.Store) error {
			_, err := s.Undo(context.Background(), rw.UndoRequest{})
			return err
		},
		old: map[string]string{"a.txt": "changed", "new.txt": "new"}, new: map[string]string{"a.txt": longText, "b.txt": otherText},
	}, scenario{
		name:   "undo_deep",
		before: do(put("k/k.txt", "k", rw.ModeCreate), put("x/y/z.txt", "deep", rw.ModeCreate)),
		run: func(s *rw.Store) error {
			_, err := s.Undo(context.Background(), rw.UndoRequest{})
			return err
		},
		old: map[string]string{"k/k.txt": "k", "x/y/z.txt": "deep"}, new: map[string]string{"k/k.txt": "k"}, dirs: "k",
	}, scenario{
		name: "restore", before: do(put("a.txt", longText, rw.ModeCreate), put("a.txt", otherText, rw.ModeOverwrite)),
		run: func(s *rw.Store) error {
			_, err := s.Restore(context.Background(), rw.RestoreRequest{Path: "a.txt", SHA256: digest(hash(longText))})
			return err
		},
		old: map[string]string{"a.txt": otherText}, new: map[string]string{"a.txt": longText},
	}, scenario{
		name:   "tx",
		before: do(put("a.txt", longText, rw.ModeCreate), put("b.txt", "b\n", rw.ModeCreate), put("c.txt", otherText, rw.ModeCreate)),
		run: func(s *rw.Store) error {
			_, err := s.Tx(context.Background(), rw.TxRequest{Ops: []rw.TxOp{
				{Op: "write", Path: "a.txt", Content: []byte(otherText), Mode: rw.ModeOverwrite},
				{Op: "edit", Path: "b.txt", Edits: []rw.EditOp{{Old: "b", New: "beta"}}},
				{Op: "delete", Path: "c.txt"}, {Op: "write", Path: "x/new.txt", Content: []byte("new")},
			}})
			return err
		},
		old: map[string]string{"a.txt": longText, "b.txt": "b\n", "c.txt": otherText},
		new: map[string]string{"a.txt": otherText, "b.txt": "beta\n", "x/new.txt": "new"},
	}, scenario{
		name: "tx_staged", before: func(s *rw.Store) error {
			if _, err := s.TxBegin(context.Background(), rw.TxBeginRequest{}); err != nil {
				return err
			}
			return do(put("a.txt", longText, rw.ModeCreate))(s)
		},
		run: func(s *rw.Store) error {
			d, err := s.Describe(context.Background(), rw.DescribeRequest{})
			if err != nil || len(d.Transactions) == 0 {
				return err
			}
			id := d.Transactions[0]
			for _, op := range []rw.TxOp{{Op: "write", Path: "b.txt", Content: []byte(otherText)}, {Op: "delete", Path: "a.txt"}} {
				if _, err := s.TxStage(context.Background(), rw.TxStageRequest{TxID: id, Op: op}); err != nil {
					return err
				}
			}
			_, err = s.TxCommit(context.Background(), rw.TxCommitRequest{TxID: id})
			return err
		},
		old: map[string]string{"a.txt": longText}, new: map[string]string{"b.txt": otherText},
	})
	for _, c := range scenarios { // as commits of many files
		switch c.name {
		case "several", "no_links", "move_over", "undo_tx":
			c.name, c.sim.Many = c.name+"_many", 1
			scenarios = append(scenarios, c)
		}
	}
}

// linked is the changes that a shell made to symbolic links: the disk before and after.
var linked = struct{ before, after map[string]string }{
	before: map[string]string{"a.txt": longText, "bent": "-> a.txt", "rm/d/gone": "-> none", "rm/empty": "/", "was_link": "-> /outside/of/it", "was_file": "text", "same": "-> a.txt"},
	after:  map[string]string{"a.txt": otherText, "bent": "-> ../b", "mk/d/fresh": "-> a.txt", "mk/empty": "/", "was_link": "/outside/of/it", "was_file": "-> x", "same": "-> a.txt"},
}

// filesOf leaves directories out.
func filesOf(all map[string]string) map[string]string {
	all = maps.Clone(all)
	maps.DeleteFunc(all, func(_, text string) bool { return text == "/" })
	return all
}

func init() {
	for name, disk := range map[string]func(*simfs.FS){
		"undo_links":             func(*simfs.FS) {},
		"undo_links_no_exchange": func(f *simfs.FS) { f.NoExchange = true },
	} {
		scenarios = append(scenarios, scenario{
			name: name, disk: func(f *simfs.FS) {
				disk(f)
				for p, text := range linked.before {
					putEntry(f, p, text)
				}
			},
			before: func(s *rw.Store) error {
				_, err := s.Scan(background, rw.ScanRequest{})
				return err
			},
			after: func(f *simfs.FS) {
				f.Remove("rm")
				for p, text := range linked.after {
					if linked.before[p] != text {
						putEntry(f, p, text)
					}
				}
			},
			run: func(s *rw.Store) error {
				if _, err := s.Scan(background, rw.ScanRequest{Calls: []string{"c"}}); err != nil {
					return err
				}
				_, err := s.Undo(background, rw.UndoRequest{Group: "c"})
				return err
			},
			old: filesOf(linked.after), new: filesOf(linked.before), dirs: "rm rm/d rm/empty",
		})
	}
}

// turned is the changes that a shell made to names, from file to directory and back:
// the disk before and after.
var turned = struct{ before, after map[string]string }{
	before: map[string]string{"f": longText, "d/x": otherText, "d/e/y": "y", "d/none": "/", "l": "-> d/x", "g/k": "k", "p": "p", "q": "/", "same/a": "a"},
	after:  map[string]string{"f/x": otherText, "f/e/z": "z", "f/none": "/", "d": longText, "l/in": "in", "g": "-> same", "p": "/", "q": "q", "same/a": "a"},
}

func init() {
	for name, run := range map[string]struct{ from, to map[string]string }{
		"undo_kinds":      {turned.before, turned.after},
		"undo_kinds_back": {turned.after, turned.before},
	} {
		scenarios = append(scenarios, scenario{
			name: name, disk: func(f *simfs.FS) { putEntries(f, run.from) },
			before: func(s *rw.Store) error {
				_, err := s.Scan(background, rw.ScanRequest{})
				return err
			},
			after: func(f *simfs.FS) {
				for p := range run.from {
					f.Remove(strings.SplitN(p, "/", 2)[0])
				}
				putEntries(f, run.to)
			},
			run: func(s *rw.Store) error {
				if _, err := s.Scan(background, rw.ScanRequest{Calls: []string{"c"}}); err != nil {
					return err
				}
				_, err := s.Undo(background, rw.UndoRequest{Group: "c"})
				return err
			},
			old: filesOf(run.to), new: filesOf(run.from), dirs: dirsIn(run.from),
		})
	}
}

func putEntries(f *simfs.FS, all map[string]string) {
	for p, text := range all {
		putEntry(f, p, text)
	}
}

// dirsIn are the directories that a disk of these entries has, as dirsOf lists them.
func dirsIn(all map[string]string) string {
	f := simfs.New()
	putEntries(f, all)
	return dirsOf(f)
}

func move(from, to string, over bool) func(*rw.Store) error {
	return func(s *rw.Store) error {
		_, err := s.Move(context.Background(), rw.MoveRequest{Path: from, To: to, Overwrite: over})
		return err
	}
}

// prepare makes a disk with a store after all calls before the tested one, all of them
// settled.
func (c scenario) prepare(t *testing.T) (*simfs.FS, *rw.Store) {
	t.Helper()
	fs := simfs.New()
	if c.disk != nil {
		c.disk(fs)
	}
	s := c.open(t, fs, "0001")
	if c.before != nil {
		noErr(t, c.before(s), "before")
	}
	if c.after != nil {
		c.after(fs)
	}
	return fs, s
}

func (c scenario) open(t *testing.T, fs *simfs.FS, nonce string) *rw.Store {
	t.Helper()
	sim, opts := c.sim, c.opts
	sim.Nonce, sim.Manual = nonce, true
	s := must(rw.OpenSim(fs, &opts, sim))(t)
	return s
}

// files are the files of the workspace on a disk.
func files(fs *simfs.FS) map[string]string {
	out := map[string]string{}
	for p, content := range fs.Tree() {
		if content != "/" && !ofStore(p) && !strings.HasPrefix(p, ".git/") {
			out[p] = content
		}
	}
	return out
}

func same(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}

func brief(m map[string]string) string {
	var list []string
	for k, v := range m {
		list = append(list, fmt.Sprintf("%s=%d:%.12q", k, len(v), v))
	}
	sort.Strings(list)
	return strings.Join(list, " ")
}

// outcome is the set of allowed states after a reopen.
type outcome int

const (
	either outcome = iota
	applied
	untouched
)

// verify reopens the disk and checks its content.
func (c scenario) verify(t *testing.T, fs *simfs.FS, want outcome) {
	t.Helper()
	s := c.open(t, fs, "0002")
	got := files(fs)
	isOld, isNew := same(got, c.old), same(got, c.new)
	switch {
	case want == applied && !isNew, want == untouched && !isOld, !isOld && !isNew:
		t.Fatalf("found %s\n old %s\n new %s\n want %v; recovery %+v", brief(got), brief(c.old), brief(c.new), want, s.Recovery())
	}
	if have := dirsOf(fs); isNew && c.dirs != "" && have != c.dirs {
		t.Fatalf("directories %s, want %s", have, c.dirs)
	}
	check(t, s, true)
	left, err := s.Unfinished()
	if err != nil || len(left) > 0 {
		t.Fatalf("left in staging: %v %v", left, err)
	}
	noErr(t, s.Close(context.Background()))
	// Opening once more changes nothing.
	s = c.open(t, fs, "0003")
	if again := files(fs); !same(again, got) {
		t.Fatalf("a second open changed %s to %s", brief(got), brief(again))
	}
	if r := s.Recovery(); len(r.Finished)+len(r.Aborted)+len(r.Conflicts) > 0 {
		t.Fatalf("a second open recovered again: %+v", r)
	}
	// The store continues to work.
	must(s.SafeWrite(context.Background(), put("after.txt", "after", rw.ModeCreate)))(t, "write after recovery")
	s.Close(context.Background())
}

// TestCrashSweep kills the process at every mutating operation of every scenario, with
// and without a power failure, and reopens the disk.
func TestCrashSweep(t *testing.T) {
	for _, c := range scenarios {
		for _, level := range []rw.SyncLevel{rw.SyncFull, rw.SyncJournal, rw.SyncOff} {
			c := c
			c.opts.Sync = level
			t.Run(c.name+"/"+string(level), func(t *testing.T) {
				t.Parallel()
				c.crashSweep(t)
			})
		}
	}
}

func (c scenario) crashSweep(t *testing.T) {
	for n := 0; ; n++ {
		fs, s := c.prepare(t)
		fs.StopAt(n)
		err := c.run(s)
		fs.StopAt(-1)
		want := either
		if err == nil {
			want = applied
		} else if !errors.Is(err, simfs.ErrDead) && !errors.Is(err, rw.ErrStorePoisoned) {
			t.Fatalf("operation %d: %v", n, err)
		}
		if t.Run(fmt.Sprintf("op%d", n), func(t *testing.T) { c.losses(t, fs, want, n) }); t.Failed() {
			return
		}
		if err == nil {
			return
		}
	}
}

// losses checks the disks that are possible after the process died.
func (c scenario) losses(t *testing.T, fs *simfs.FS, want outcome, n int) {
	killed := fs.Crash(0, simfs.None) // the process died, the machine did not
	c.verify(t, killed, want)
	if c.opts.Sync == rw.SyncOff {
		return // promises nothing about a power cut
	}
	c.verify(t, fs.Crash(0, simfs.All), want)
	for seed := range someLosses(60, n) {
		disk := fs.Crash(seed*7919+uint64(n), simfs.Some)
		c.verify(t, disk, want)
	}
}

// TestRecoveryCrashSweep kills recovery itself at every operation, then lets
// it run again.
func TestRecoveryCrashSweep(t *testing.T) {
	for _, c := range scenarios {
		c := c
		c.opts.Sync = rw.SyncFull
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.recoverySweep(t)
		})
	}
}

func (c scenario) recoverySweep(t *testing.T) {
	step := stride(3)
	for n := phase(step); ; n += step {
		fs, s := c.prepare(t)
		fs.StopAt(n)
		err := c.run(s)
		fs.StopAt(-1)
		want := either
		if err == nil {
			want = applied
		}
		for seed := range someLosses(20, n) {
			for m := int(seed % 3); ; m += step {
				disk := fs.Crash(seed, simfs.Some)
				disk.StopAt(m)
				opts := c.opts
				s2, oerr := rw.OpenSim(disk, &opts, rw.Sim{Nonce: "0009", Segment: c.sim.Segment, State: c.sim.State, Mount: c.sim.Mount})
				disk.StopAt(-1)
				if oerr == nil && s2 != nil {
					break // recovery got through
				}
				c.verify(t, disk.Crash(seed+uint64(m), simfs.Some), want)
			}
		}
		if err == nil {
			return
		}
	}
}

// TestFaultSweep makes operation i fail, applied and not applied, for every i until a
// run succeeds. What the error reports about the disk must be true. A short run gives
// every operation one of the two errors, and the next run the other.
func TestFaultSweep(t *testing.T) {
	for _, c := range scenarios {
		for _, level := range []rw.SyncLevel{rw.SyncFull, rw.SyncOff} {
			for _, happened := range []bool{false, true} {
				for _, errnos := range errorsOfASweep() {
					c := c
					c.opts.Sync = level
					if c.after != nil && level == rw.SyncOff {
						continue // a flush that fails takes versions that a scan has kept unflushed
					}
					t.Run(fmt.Sprintf("%s/%s/applied=%v/%v", c.name, level, happened, errnos), func(t *testing.T) {
						t.Parallel()
						c.faultSweep(t, happened, errnos)
					})
				}
			}
		}
	}
}

func (c scenario) faultSweep(t *testing.T, happened bool, errnos []syscall.Errno) {
	c.dirs = ""      // one that cannot be removed stays
	step := turns(7) // no divisor of the two errors
	for i := phase(step); ; i += step {
		errno := errnos[i%len(errnos)]
		fs, s := c.prepare(t)
		base, hit := fs.Muts(), ""
		fs.Inject(func(op simfs.Op) simfs.Fault {
			if op.Mut == base+i {
				hit = op.String()
				return simfs.Fault{Err: errno, Applied: happened, Short: int(op.Len / 2)}
			}
			return simfs.Fault{}
		})
		err := c.run(s)
		fs.Inject(nil)
		c.judgeFault(t, fs, s, err, hit)
		if hit == "" || t.Failed() {
			return
		}
	}
}

func (c scenario) judgeFault(t *testing.T, fs *simfs.FS, s *rw.Store, err error, hit string) {
	t.Helper()
	got := files(fs)
	want := either
	if err == nil {
		want = applied
		if !same(got, c.new) {
			t.Fatalf("%s: success, but found %s", hit, brief(got))
		}
	} else {
		e := rw.AsError("test", err)
		if e.Detail == rw.ErrInternal {
			t.Fatalf("%s: internal error %v (%v)", hit, err, errors.Unwrap(err))
		}
		switch e.Effect {
		case rw.EffectNone:
			want = untouched
			if !same(got, c.old) {
				t.Fatalf("%s: effect none, but found %s", hit, brief(got))
			}
		case rw.EffectApplied:
			want = applied
		}
	}
	s.Close(context.Background())
	defer func() {
		if t.Failed() {
			t.Logf("fault at %q: %v", hit, err)
		}
	}()
	c.verify(t, fs.Crash(0, simfs.None), want)
	if c.opts.Sync == rw.SyncFull {
		c.verify(t, fs.Crash(0, simfs.All), want)
		for seed := range someLosses(20, fs.Muts()) {
			c.verify(t, fs.Crash(seed, simfs.Some), want)
		}
	}
}

// TestHistoryThatCannotBeWritten: the write succeeds with a warning, the version
// it replaced is not lost, and the next Open keeps it.
func TestHistoryThatCannotBeWritten(t *testing.T) {
	c := scenarios[2]
	fs, s := c.prepare(t)
	fs.Inject(func(op simfs.Op) simfs.Fault {
		if op.Mut >= 0 && strings.Contains(op.Path+op.To, "/history") {
			return simfs.Fault{Err: syscall.ENOSPC}
		}
		return simfs.Fault{}
	})
	r, err := s.SafeWrite(background, put("a.txt", otherText, rw.ModeOverwrite))
	if err != nil || len(r.Warnings) != 1 || r.Warnings[0].Reason != rw.WarnHistorySkipped {
		t.Fatalf("%v %v", err, r.Warnings)
	}
	s.Close(background)
	s = c.open(t, fs, "0002") // still no room
	if w := s.Recovery().Warnings; len(w) != 1 {
		t.Errorf("%v", w)
	}
	s.Close(background)
	fs.Inject(nil)
	s = c.open(t, fs, "0003")
	if left, _ := s.Unfinished(); len(left) > 0 {
		t.Errorf("left in staging: %v", left)
	}
	if got, _ := fs.ReadFile(rw.StateDirName + "/history/" + hash(longText)[:2] + "/" + hash(longText)); string(got) != longText {
		t.Error("the version that was replaced is lost")
	}
	check(t, s, true)
}
