package resilientwrite_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"path"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"sort"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/overview"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// scenario is one call that is broken off everywhere.
type scenario struct {
	name   string
	sim    rw.Sim
	opts   rw.Options
	disk   func(*simfs.FS)             // the content before the store is opened
	before func(*rw.Store) error       // acknowledged calls before
	damage func(*simfs.FS)             // what happens to the disk then, while the store is closed
	after  func(*simfs.FS)             // the changes of another program then
	run    func(*rw.Store) error       // the call
	again  func(*rw.Store) error       // does what the call left because it could not read it; may be nil
	old    map[string]string           // files before the call; absent ones are missing
	new    map[string]string           // files after it
	dirs   string                      // directories after it, in order; "": any
	part   string                      // of the state directory, whose files are in old and new, too
	then   func(*testing.T, *rw.Store) // works after every crash
	every  int                         // of the operations, in a short run; 0: 3
	slow   bool                        // swept at the level full only
}

// killed makes a call in a process that dies at its mutating operation n. The call may
// fail for no other reason.
func killed(t *testing.T, fs *simfs.FS, n int, call func() error) (want outcome, err error) {
	t.Helper()
	fs.StopAt(n)
	err = call()
	fs.StopAt(-1)
	if err == nil {
		return applied, nil
	}
	require(t, errors.Is(err, simfs.ErrDead) || errors.Is(err, rw.ErrStorePoisoned), "operation %d: %v (%v)", n, err, errors.Unwrap(err))
	return either, err
}

// failing makes a call whose mutating operation i fails. It returns that operation, ""
// if the call has fewer.
func failing(t *testing.T, fs *simfs.FS, i int, errno syscall.Errno, happened bool, call func() error) (hit string, err error) {
	t.Helper()
	base := fs.Muts()
	return injected(t, fs, func(op simfs.Op) (f simfs.Fault) {
		if op.Mut == base+i {
			f = simfs.Fault{Err: errno, Applied: happened, Short: int(op.Len / 2)}
		}
		return f
	}, call)
}

// failingRead is failing for the operations that change nothing.
func failingRead(t *testing.T, fs *simfs.FS, i int, errno syscall.Errno, call func() error) (hit string, err error) {
	t.Helper()
	n := -1
	return injected(t, fs, func(op simfs.Op) (f simfs.Fault) {
		if op.Mut < 0 {
			if n++; n == i {
				f.Err = errno
			}
		}
		return f
	}, call)
}

// failingAs is one of the two.
func failingAs(t *testing.T, fs *simfs.FS, i int, errno syscall.Errno, how string, call func() error) (hit string, err error) {
	t.Helper()
	if how == "read" {
		return failingRead(t, fs, i, errno, call)
	}
	return failing(t, fs, i, errno, how == "applied=true", call)
}

// injected makes a call with a fault, and returns the operation that it hit.
func injected(t *testing.T, fs *simfs.FS, fault func(simfs.Op) simfs.Fault, call func() error) (hit string, err error) {
	t.Helper()
	fs.Inject(func(op simfs.Op) simfs.Fault {
		f := fault(op)
		if f.Err != nil {
			hit = op.String()
		}
		return f
	})
	err = call()
	fs.Inject(nil)
	if e := rw.AsError("", err); e != nil {
		require(t, e.Detail != rw.ErrInternal && strings.Count(e.Hint, "accepts no more writes") < 2, "%s: %v (%v): %s", hit, err, errors.Unwrap(err), e.Hint)
	}
	return hit, err
}

// theDisks are those that are possible after the process died at operation n, with some
// of the disks that a power failure can leave. The level off promises nothing about that.
func theDisks(disk *simfs.FS, level rw.SyncLevel, losses, n int) []*simfs.FS {
	list := []*simfs.FS{disk.Crash(0, simfs.None)}
	if level == rw.SyncOff {
		return list
	}
	list = append(list, disk.Crash(0, simfs.All))
	for seed := range someLosses(losses, n) {
		list = append(list, disk.Crash(seed*7919+uint64(n), simfs.Some))
	}
	return list
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
	return doing((*rw.Store).SafeWrite, reqs...)
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
	{name: "create_ordered", disk: ordered, run: do(put("a.txt", longText, rw.ModeCreate)), old: map[string]string{}, new: map[string]string{"a.txt": longText}},
	{name: "overwrite_ordered", disk: ordered, before: do(put("a.txt", longText, rw.ModeCreate)), run: do(put("a.txt", otherText, rw.ModeOverwrite)),
		old: map[string]string{"a.txt": longText}, new: map[string]string{"a.txt": otherText}},
	{name: "overwrite_ahead", sim: rw.Sim{AheadFrom: 1}, before: do(put("a.txt", longText, rw.ModeCreate)), run: do(put("a.txt", otherText, rw.ModeOverwrite)),
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
	{name: "hard_link_in_place", opts: rw.Options{HardLinks: rw.HardLinksInPlace}, disk: linkA,
		run: do(put("a.txt", otherText, rw.ModeOverwrite)),
		old: map[string]string{"a.txt": longText, "link.txt": longText}, new: map[string]string{"a.txt": otherText, "link.txt": otherText}},
	{name: "edit", before: do(put("a.txt", longText+"end\n", rw.ModeCreate)), run: doing((*rw.Store).Edit, rw.EditRequest{Path: "a.txt", Edits: []rw.EditOp{{Old: "end\n", New: "other end\n"}}}),
		old: map[string]string{"a.txt": longText + "end\n"}, new: map[string]string{"a.txt": longText + "other end\n"}},
	{name: "edit_merged", before: do(put("a.txt", "begin\n"+longText+"end\n", rw.ModeCreate), put("a.txt", "beginning\n"+longText+"end\n", rw.ModeOverwrite)),
		run: doing((*rw.Store).Edit, rw.EditRequest{
			Path: "a.txt", Edits: []rw.EditOp{{Old: "end\n", New: "other end\n"}}, Expect: rw.Exactly(digest(hash("begin\n" + longText + "end\n"))), Merge: rw.MergeClean,
		}), old: map[string]string{"a.txt": "beginning\n" + longText + "end\n"}, new: map[string]string{"a.txt": "beginning\n" + longText + "other end\n"}},
	{name: "delete", before: do(put("a.txt", longText, rw.ModeCreate), put("b.txt", "b", rw.ModeCreate)), run: doing((*rw.Store).Delete, rw.DeleteRequest{Path: "a.txt"}),
		old: map[string]string{"a.txt": longText, "b.txt": "b"}, new: map[string]string{"b.txt": "b"}},
	{name: "delete_empty_file", before: do(put("a.txt", "", rw.ModeCreate)), run: doing((*rw.Store).Delete, rw.DeleteRequest{Path: "a.txt"}),
		old: map[string]string{"a.txt": ""}, new: map[string]string{}},
	{name: "move", before: do(put("a.txt", longText, rw.ModeCreate)), run: move("a.txt", "x/b.txt", false),
		old: map[string]string{"a.txt": longText}, new: map[string]string{"x/b.txt": longText}},
	{name: "move_over", before: do(put("a.txt", longText, rw.ModeCreate), put("b.txt", otherText, rw.ModeCreate)), run: move("a.txt", "b.txt", true),
		old: map[string]string{"a.txt": longText, "b.txt": otherText}, new: map[string]string{"b.txt": longText}},
	{name: "move_directory", before: do(put("d/a.txt", longText, rw.ModeCreate), put("d/e/b.txt", otherText, rw.ModeCreate)), run: move("d", "f", false),
		old: map[string]string{"d/a.txt": longText, "d/e/b.txt": otherText}, new: map[string]string{"f/a.txt": longText, "f/e/b.txt": otherText}},
}

func ordered(f *simfs.FS) { f.Ordered = true }

func init() {
	scenarios = append(scenarios, scenario{
		name: "undo_tx", before: inSequence(do(put("a.txt", longText, rw.ModeCreate), put("b.txt", otherText, rw.ModeCreate)),
			doing((*rw.Store).Tx, rw.TxRequest{Ops: []rw.TxOp{
				{Op: "write", Path: "a.txt", Content: []byte("changed"), Mode: rw.ModeOverwrite, AllowShrink: true},
				{Op: "delete", Path: "b.txt"}, {Op: "write", Path: "new.txt", Content: []byte("new")},
			}})),
		run: doing((*rw.Store).Undo, rw.UndoRequest{}),
		old: map[string]string{"a.txt": "changed", "new.txt": "new"}, new: map[string]string{"a.txt": longText, "b.txt": otherText},
	}, scenario{
		name:   "undo_deep",
		before: do(put("k/k.txt", "k", rw.ModeCreate), put("x/y/z.txt", "deep", rw.ModeCreate)),
		run:    doing((*rw.Store).Undo, rw.UndoRequest{}),
		old:    map[string]string{"k/k.txt": "k", "x/y/z.txt": "deep"}, new: map[string]string{"k/k.txt": "k"}, dirs: "k",
	}, scenario{
		name: "restore", before: do(put("a.txt", longText, rw.ModeCreate), put("a.txt", otherText, rw.ModeOverwrite)),
		run: doing((*rw.Store).Restore, rw.RestoreRequest{Path: "a.txt", SHA256: digest(hash(longText))}),
		old: map[string]string{"a.txt": otherText}, new: map[string]string{"a.txt": longText},
	}, scenario{
		name:   "tx",
		before: do(put("a.txt", longText, rw.ModeCreate), put("b.txt", "b\n", rw.ModeCreate), put("c.txt", otherText, rw.ModeCreate)),
		run: doing((*rw.Store).Tx, rw.TxRequest{Ops: []rw.TxOp{
			{Op: "write", Path: "a.txt", Content: []byte(otherText), Mode: rw.ModeOverwrite},
			{Op: "edit", Path: "b.txt", Edits: []rw.EditOp{{Old: "b", New: "beta"}}},
			{Op: "delete", Path: "c.txt"}, {Op: "write", Path: "x/new.txt", Content: []byte("new")},
		}}),
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
			if err != nil {
				return err
			}
			id := d.Transactions[0]
			for _, op := range []rw.TxOp{{Op: "write", Path: "b.txt", Content: []byte(otherText)}, {Op: "delete", Path: "a.txt"}} {
				if _, err := s.TxStage(context.Background(), rw.TxStageRequest{TxID: id, Op: op}); err != nil {
					return err
				}
			}
			return errorOf(s.TxCommit(context.Background(), rw.TxCommitRequest{TxID: id}))
		},
		old: map[string]string{"a.txt": longText}, new: map[string]string{"b.txt": otherText},
	})
	for _, c := range scenarios { // where names can neither be swapped nor moved without replacing
		switch c.name {
		case "several", "move", "move_over":
			c.name, c.disk = c.name+"_plain_rename", func(f *simfs.FS) { f.NoExchange, f.NoReplace = true, true }
			scenarios = append(scenarios, c)
		}
	}
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
			before: doing((*rw.Store).Scan, around.ScanRequest{}),
			after: func(f *simfs.FS) {
				f.Remove("rm")
				for p, text := range linked.after {
					if linked.before[p] != text {
						putEntry(f, p, text)
					}
				}
			},
			run: func(s *rw.Store) error {
				if _, err := s.Scan(background, around.ScanRequest{Calls: []string{"c"}}); err != nil {
					return err
				}
				return errorOf(s.Undo(background, rw.UndoRequest{Group: "c"}))
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
			before: doing((*rw.Store).Scan, around.ScanRequest{}),
			after: func(f *simfs.FS) {
				for p := range run.from {
					f.Remove(strings.SplitN(p, "/", 2)[0])
				}
				putEntries(f, run.to)
			},
			run: func(s *rw.Store) error {
				if _, err := s.Scan(background, around.ScanRequest{Calls: []string{"c"}}); err != nil {
					return err
				}
				return errorOf(s.Undo(background, rw.UndoRequest{Group: "c"}))
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
	return doing((*rw.Store).Move, rw.MoveRequest{Path: from, To: to, Overwrite: over})
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
	if c.part != "" {
		noErr(t, s.Close(background))
		if c.damage != nil {
			c.damage(fs)
		}
		s = c.open(t, fs, "0002")
	}
	if c.after != nil {
		c.after(fs)
	}
	return fs, s
}

// known returns the scenario with its files before and after the call.
func (c scenario) known(t *testing.T) scenario {
	t.Helper()
	fs, s := c.prepare(t)
	c.old = c.files(fs)
	noErr(t, c.run(s), c.name)
	if c.new = c.files(fs); maps.Equal(c.old, c.new) {
		t.Fatalf("%s changes nothing", c.name)
	}
	s.Close(background)
	return c
}

// files are the files of the workspace on a disk, and those of the part of the state.
func (c scenario) files(fs *simfs.FS) map[string]string {
	out := files(fs)
	for p, content := range fs.Tree() {
		if c.part != "" && content != "/" && strings.HasPrefix(p, rw.StateDirName+"/"+c.part+"/") {
			out[p] = content
		}
	}
	return out
}

func (c scenario) open(t *testing.T, fs *simfs.FS, nonce string) *rw.Store {
	t.Helper()
	sim, opts := c.sim, c.opts
	sim.Nonce, sim.Manual = nonce, true
	return must(rw.OpenSim(fs, &opts, sim))(t)
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
	s := c.open(t, fs, "0003")
	got := c.files(fs)
	isOld, isNew := maps.Equal(got, c.old), maps.Equal(got, c.new)
	switch {
	case want == applied && !isNew, want == untouched && !isOld, !isOld && !isNew:
		t.Fatalf("found %s\n old %s\n new %s\n want %v; recovery %+v", brief(got), brief(c.old), brief(c.new), want, s.Recovery())
	}
	have := dirsOf(fs)
	require(t, !isNew || c.dirs == "" || have == c.dirs, "directories %s, want %s", have, c.dirs)
	check(t, s, c.damage == nil)
	left, err := s.Unfinished()
	require(t, err == nil && len(left) == 0, "left in staging: %v %v", left, err)
	noErr(t, s.Close(context.Background()))
	// Opening once more changes nothing.
	s = c.open(t, fs, "0004")
	if again := c.files(fs); !maps.Equal(again, got) {
		t.Fatalf("a second open changed %s to %s", brief(got), brief(again))
	}
	r := s.Recovery()
	require(t, len(r.Finished)+len(r.Aborted)+len(r.Conflicts) <= 0, "a second open recovered again: %+v", r)
	// The store continues to work.
	if c.then != nil {
		c.then(t, s)
	}
	must(s.SafeWrite(context.Background(), put("after.txt", "after", rw.ModeCreate)))(t, "write after recovery")
	s.Close(context.Background())
}

// TestCrashSweep kills the process at every mutating operation of every scenario, with
// and without a power failure, and reopens the disk.
func TestCrashSweep(t *testing.T) {
	t.Parallel()
	for i, c := range scenarios {
		c.crashSweeps(t, inTurn(i, allLevels...)...)
	}
}

func (c scenario) crashSweeps(t *testing.T, levels ...rw.SyncLevel) {
	for _, level := range levels {
		c := c
		if c.opts.Sync = level; !c.slow || level == rw.SyncFull {
			t.Run(c.name+"/"+string(level), func(t *testing.T) {
				t.Parallel()
				c.crashSweep(t)
			})
		}
	}
}

func (c scenario) crashSweep(t *testing.T) {
	step := turns(max(c.every, 3))
	for n := phase(step); ; n += step {
		fs, s := c.prepare(t)
		want, err := killed(t, fs, n, func() error { return c.run(s) })
		if t.Run(fmt.Sprintf("op%d", n), func(t *testing.T) { c.losses(t, fs, want, n) }); t.Failed() || err == nil {
			return
		}
	}
}

// losses checks the disks that are possible after the process died.
func (c scenario) losses(t *testing.T, fs *simfs.FS, want outcome, n int) {
	for _, disk := range theDisks(fs, c.opts.Sync, 60, n) {
		c.verify(t, disk, want)
	}
}

// TestRecoveryCrashSweep kills recovery itself at every operation, or has too many files
// be open at one that reads, then lets it run again.
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
		want, err := killed(t, fs, n, func() error { return c.run(s) })
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
			c := c
			c.dirs = "" // one that cannot be looked at stays
			for m := (phase(53) + n) % 53; ; m += 53 {
				disk := fs.Crash(seed, simfs.Some)
				hit, _ := failingRead(t, disk, m, syscall.EMFILE, func() error {
					opts := c.opts
					s2, err := rw.OpenSim(disk, &opts, rw.Sim{Nonce: "0009", Segment: c.sim.Segment, State: c.sim.State, Mount: c.sim.Mount})
					if err == nil {
						err = s2.Close(background)
					}
					return err
				})
				length(t, disk.Open(), 0, hit)
				if c.verify(t, disk.Crash(seed+uint64(m), simfs.Some), want); hit == "" {
					break
				}
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
	t.Parallel()
	for i, c := range scenarios {
		c.faultSweeps(t, inTurn(i, allLevels...)...)
	}
}

func (c scenario) faultSweeps(t *testing.T, levels ...rw.SyncLevel) {
	for _, level := range levels {
		c := c
		c.opts.Sync = level
		for _, how := range []string{"applied=false", "applied=true", "read"} {
			for _, errnos := range errorsOfASweep() {
				if c.after != nil && (level == rw.SyncOff || how == "read") {
					continue // a flush that fails takes versions that a scan has kept unflushed; a file that cannot be read is left to the next scan
				}
				t.Run(fmt.Sprintf("faults/%s/%s/%s/%v", c.name, level, how, errnos), func(t *testing.T) {
					t.Parallel()
					c.faultSweep(t, how, errnos)
				})
			}
		}
	}
}

func (c scenario) faultSweep(t *testing.T, how string, errnos []syscall.Errno) {
	c.dirs = ""      // one that cannot be removed stays
	step := turns(7) // no divisor of the two errors
	for i := phase(step); ; i += step {
		fs, s := c.prepare(t)
		hit, err := failingAs(t, fs, i, errnos[i%len(errnos)], how, func() error {
			err := c.run(s)
			if err == nil {
				s.Sync(background) // which settles at the level journal, and may fail
			}
			return err
		})
		if how == "read" && err == nil && c.again != nil {
			noErr(t, c.again(s), hit)
		}
		c.judgeFault(t, fs, s, err, hit)
		if hit == "" || t.Failed() {
			return
		}
	}
}

func (c scenario) judgeFault(t *testing.T, fs *simfs.FS, s *rw.Store, err error, hit string) {
	t.Helper()
	got := c.files(fs)
	want := either
	// What counts is the kernel's locks and durable rows, and a slot that is not durable
	// was not named by a row: neither fault poisons.
	if strings.HasPrefix(hit, "write "+rw.StateDirName+"/locks/") || strings.HasPrefix(hit, "sync "+rw.StateDirName+"/staging/") {
		noErr(t, s.Sync(background), hit)
	}
	switch {
	case err == nil:
		want = applied
		if !maps.Equal(got, c.new) {
			t.Fatalf("%s: success, but found %s", hit, brief(got))
		}
	case rw.AsError("test", err).Effect == rw.EffectNone:
		want = untouched
		if !maps.Equal(got, c.old) {
			t.Fatalf("%s: effect none, but found %s", hit, brief(got))
		}
	case rw.AsError("test", err).Effect == rw.EffectApplied:
		want = applied
	}
	s.Close(context.Background())
	defer func() {
		if t.Failed() {
			t.Logf("fault at %q: %v", hit, err)
		}
	}()
	length(t, fs.Open(), 0, "open after Close")
	c.verify(t, fs.Crash(0, simfs.None), want)
	if c.opts.Sync != rw.SyncOff {
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
	require(t, err == nil && len(r.Warnings) == 1 && r.Warnings[0].Reason == call.WarnHistorySkipped, "%v %v", err, r.Warnings)
	s.Close(background)
	s = c.open(t, fs, "0002") // still no room
	length(t, s.Recovery().Warnings, 1)
	s.Close(background)
	fs.Inject(nil)
	s = c.open(t, fs, "0003")
	nothingStaged(t, s)
	got, _ := fs.ReadFile(rw.StateDirName + "/history/" + hash(longText)[:2] + "/" + hash(longText))
	expect(t, string(got) == longText, "the version that was replaced is lost")
	check(t, s, true)
}

// TestVersionsWaitForASweep: a version that cannot go into history because a sweep of
// another process takes long does so later: by the call that needs it, with the next
// commit, or by Sync. It is never lost for that.
func TestVersionsWaitForASweep(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]func(*rw.Store) error{
		"undo":        doing((*rw.Store).Undo, rw.UndoRequest{}),
		"next commit": do(put("b.txt", "b", rw.ModeCreate)),
		"sync":        func(s *rw.Store) error { return s.Sync(background) },
	} {
		fs := simfs.New()
		s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "000a"}))(t)
		other := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "000b"}))(t)
		write(t, s, "a.txt", longText, rw.ModeCreate)
		release := must(other.HoldHistory())(t)
		r := must(s.SafeWrite(background, put("a.txt", otherText, rw.ModeOverwrite)))(t)
		expect(t, len(r.Warnings) == 1 && r.Warnings[0].Reason == call.WarnHistorySkipped, "%s: %v", name, r.Warnings)
		noErr(t, s.Sync(background)) // in vain
		release()
		noErr(t, later(s), name)
		length(t, must(s.Unfinished())(t), 0, name, ": left in staging")
		s.Close(background)
		other.Close(background)
	}
}

// TestAppendRecoverySweep: a process appends to a file, continues with it in several ways, and is
// killed, or the power fails, at each operation. At the level journal the work after its replies is
// then not done yet. The next Open leaves the file as the last acknowledged call left it, or as the
// call in progress would have: an append is not repeated after later content.
func TestAppendRecoverySweep(t *testing.T) {
	const base = "one\n"
	write := func(content string) func(*rw.Store) error {
		return do(put("a.log", content, rw.ModeOverwrite))
	}
	add := func(content string) func(*rw.Store) error {
		return do(put("a.log", content, rw.ModeAppend))
	}
	undo := doing((*rw.Store).Undo, rw.UndoRequest{})
	remove := doing((*rw.Store).Delete, rw.DeleteRequest{Path: "a.log"})
	type step struct {
		call func(*rw.Store) error
		want string // content of the file afterwards; "" when it is gone
	}
	shapes := map[string][]step{
		"undo":          {{add("two\n"), base + "two\n"}, {undo, base}},
		"write back":    {{add("two\n"), base + "two\n"}, {write(base), base}},
		"write longer":  {{add("two\n"), base + "two\n"}, {write(base + "2\n" + base), base + "2\n" + base}},
		"append twice":  {{add("two\n"), base + "two\n"}, {add("three\n"), base + "two\nthree\n"}, {write(base), base}},
		"delete, make":  {{add("two\n"), base + "two\n"}, {remove, ""}, {write(base), base}},
		"append, write": {{add("two\n"), base + "two\n"}, {write(base), base}, {add("3\n"), base + "3\n"}},
	}
	for name, steps := range shapes {
		for _, level := range allLevels {
			t.Run(fmt.Sprintf("%s/%s", name, level), func(t *testing.T) {
				t.Parallel()
				for n := phase(stride(1)); ; n += stride(1) {
					fs := simfs.New()
					fs.Ordered = n%2 == 1
					opts := &rw.Options{Sync: level}
					s := must(rw.OpenSim(fs, opts, rw.Sim{Nonce: "0001", Manual: true}))(t)
					noErr(t, write(base)(s))
					fs.StopAt(n)
					allowed, died := []string{base}, false
					for _, x := range steps {
						if err := x.call(s); err != nil {
							allowed, died = append(allowed, x.want), true
							break
						}
						allowed = []string{x.want}
					}
					losses := []simfs.Loss{simfs.None} // killed: the pages stay
					if level != rw.SyncOff {
						losses = append(losses, simfs.Some, simfs.All)
					}
					for _, loss := range losses {
						disk := fs.Crash(uint64(n), loss)
						after := must(rw.OpenSim(disk, opts, rw.Sim{Nonce: "0002"}))(t, "operation ", n, ", loss ", loss, ": open")
						have, _ := disk.ReadFile("a.log")
						require(t, slices.Contains(allowed, string(have)), "operation %d, loss %v: %q, want one of %q", n, loss, have, allowed)
						after.Close(background)
					}
					if !died {
						return
					}
				}
			})
		}
	}
}

// TestNextWriterSweep: a process dies at each operation of a call, and another process
// that has the store open makes the same call with the same key. It completes the work of
// the dead process, or does it itself. The result reported to it survives a power failure,
// and happened once.
func TestNextWriterSweep(t *testing.T) {
	step := attackStep(3)
	for i, x := range attacks {
		for j, level := range inTurn(i, allLevels[:2]...) {
			t.Run(x.name+"/"+string(level), func(t *testing.T) {
				t.Parallel()
				x := x
				x.opts.LockTimeout, x.sim.LockWait = time.Millisecond, time.Millisecond
				for n := (phase(step) + i + j) % step; x.next(t, level, n); n += step {
				}
			})
		}
	}
}

func (x attack) next(t *testing.T, level rw.SyncLevel, n int) (died bool) {
	t.Helper()
	fs := simfs.New()
	fs.Ordered = n%2 == 1
	if x.disk != nil {
		x.disk(fs)
	}
	open := func(p *simfs.Process, nonce string) *rw.Store {
		y := x
		y.sim.Process = p
		return must(y.open(fs, level, nonce))(t)
	}
	if x.before != nil {
		s := open(fs.NewProcess(), "0001")
		noErr(t, errors.Join(x.before(s), s.Close(background)))
	}
	next := open(fs.NewProcess(), "0003")
	first := fs.NewProcess()
	s := open(first, "0002")
	first.StopAt(n)
	died = errors.Is(x.run(s), simfs.ErrDead)
	first.Kill()
	result := x.run(next)
	cut := fs.Crash(uint64(n), simfs.All)
	noErr(t, result, "the process died at operation ", n, " ; the next one")
	y := x
	y.sim.Process = cut.NewProcess()
	after := must(y.open(cut, level, "0004"))(t)
	op, err := after.Operation(background, rw.OperationRequest{IdempotencyKey: attackKey})
	expect(t, err == nil && len(op.Entries) != 0, "the call is not in the journal: %v", err)
	if c := after.Recovery().Conflicts; len(c) > 0 || !maps.Equal(files(cut), x.new) {
		t.Errorf("a power cut left %s, conflicts %v", brief(files(cut)), c)
	}
	r, err := after.Check(background, admin.CheckRequest{})
	expect(t, err == nil && len(r.Problems) == 0, "check: %+v, %v", r.Problems, err)
	require(t, !t.Failed(), "the process died at operation %d", n)
	return died
}

// editorSaves are the ways in which an editor saves a file that is there. Each
// returns what must not be lost, as the file then holds it.
var editorSaves = map[string]func(d fsx.Dir, name string) string{
	"exchanges": func(d fsx.Dir, name string) string {
		f, _ := d.Open(".editor", fsx.Write|fsx.Create, 0o644)
		f.WriteAt([]byte(strangersText), 0)
		f.Sync()
		f.Close()
		d.Rename(".editor", d, name)
		return strangersText
	},
	"rewrites": func(d fsx.Dir, name string) string {
		f, _ := d.Open(name, fsx.Read|fsx.Write, 0)
		st, _ := f.Stat()
		text := strangersText + strings.Repeat(".", int(st.Size)) // longer than before
		f.Truncate(0)
		f.WriteAt([]byte(text), 0)
		f.Close()
		return text
	},
	"exchanges for the same": func(d fsx.Dir, name string) string {
		old, _ := d.Open(name, fsx.Read, 0)
		st, _ := old.Stat()
		text := make([]byte, st.Size)
		old.ReadAt(text, 0)
		old.Close()
		f, _ := d.Open(".editor", fsx.Write|fsx.Create, 0o644)
		f.WriteAt(text, 0)
		f.Close()
		d.Rename(".editor", d, name)
		return string(text)
	},
	"appends": func(d fsx.Dir, name string) string {
		f, _ := d.Open(name, fsx.Read|fsx.Write, 0)
		st, _ := f.Stat()
		f.WriteAt([]byte(strangersText), st.Size)
		f.Close()
		return strangersText
	},
}

// TestReplacedVersionsAfterRecovery: a process dies when its commit has taken the name of a
// file that an editor had just saved, or that was written at the level off. The next Open
// makes a version of that file, which a power cut does not take.
func TestReplacedVersionsAfterRecovery(t *testing.T) {
	t.Parallel()
	ways := append(slices.Sorted(maps.Keys(editorSaves)), "nothing")
	for _, level := range []rw.SyncLevel{rw.SyncOff, rw.SyncFull} {
		for _, how := range ways {
			fs := simfs.New()
			s := must(rw.OpenSim(fs, &rw.Options{Sync: level}, rw.Sim{Nonce: "0001"}))(t)
			write(t, s, "a.txt", longText, rw.ModeOverwrite)
			saved := longText
			fs.Before(func(op simfs.Op) {
				if save := editorSaves[how]; save != nil && publishes(op, "a.txt") {
					saved = save(fs.Foreign(), "a.txt")
				}
			})
			fs.After(func(op simfs.Op) {
				if publishes(op, "a.txt") {
					fs.StopAt(0)
				}
			})
			s.SafeWrite(background, put("a.txt", otherText, rw.ModeOverwrite))
			require(t, fs.Stopped(), "the process lives")
			fs.Before(nil)
			fs.After(nil)
			fs.Kill()
			must(rw.OpenSim(fs, &rw.Options{Sync: rw.SyncFull}, rw.Sim{Nonce: "0002"}))(t)
			disk := fs.Crash(0, simfs.All)
			must(rw.OpenSim(disk, &rw.Options{Sync: rw.SyncFull}, rw.Sim{Nonce: "0003"}))(t)
			expect(t, haveText(contents(disk, false), saved), "written at %s, the editor %s: found %s", level, how, brief(files(disk)))
		}
	}
}

// throughOpenFile is one more way: the editor opened the file before the call,
// rewrites it and closes it.
const throughOpenFile = "rewrites an open file"

func saveThrough(f fsx.File) string {
	if f == nil {
		return ""
	}
	f.Truncate(0)
	f.WriteAt([]byte(strangersText), 0)
	f.Close()
	return strangersText
}

// throughLateOpen is the last way: the editor's open has found the file before the
// call, and returns when the file is somewhere else.
const throughLateOpen = "rewrites a file that it was opening"

// saveLate rewrites the file with an inode, whatever its name is now.
func saveLate(d fsx.Dir, ino uint64) string {
	names, _ := d.Names()
	for _, name := range names {
		switch st, _ := d.Lstat(name); {
		case st.Kind == fsx.Directory:
			if sub, err := d.OpenDir(name); err == nil {
				if saved := saveLate(sub, ino); saved != "" {
					return saved
				}
			}
		case st.Ino == ino:
			return editorSaves["rewrites"](d, name)
		}
	}
	return ""
}

// besideEditor is a call during which an editor saves a file.
type besideEditor struct {
	name string
	call func(s *rw.Store) error
	path string // the file that the editor saves
	// fails, when set, is where another program creates bad.txt so that the
	// call fails after its commit: at the first operation on this path.
	fails string
	moves bool // the saved file must stay in the workspace
	// guarded: the call names the version that it replaces, so another one stays there too.
	guarded bool
	// foreign: another program wrote a.txt, so that the store has no bytes of it.
	foreign bool
	// inside: the call writes into the file.
	inside bool
}

var besideEditors = []besideEditor{
	{name: "replace", path: "a.txt", call: do(put("a.txt", otherText, rw.ModeOverwrite))},
	{name: "merge", path: "a.txt", call: func(s *rw.Store) error {
		if _, err := s.SafeWrite(background, put("a.txt", "before\n"+longText+"a.txt", rw.ModeOverwrite)); err != nil {
			return err
		}
		r := put("a.txt", longText+"a.txt\nbehind\n", rw.ModeOverwrite)
		r.Expect, r.Merge = rw.Exactly(digest(hash(longText+"a.txt"))), rw.MergeClean
		return errorOf(s.SafeWrite(background, r))
	}},
	{name: "guarded replace", path: "a.txt", guarded: true, call: func(s *rw.Store) error {
		r := put("a.txt", otherText, rw.ModeOverwrite)
		r.Expect = rw.Exactly(digest(hash(longText + "a.txt")))
		return errorOf(s.SafeWrite(background, r))
	}},
	{name: "append", path: "a.txt", call: do(put("a.txt", otherText, rw.ModeAppend))},
	{name: "append in place", path: "a.txt", inside: true, call: do(put("a.txt", otherText, rw.ModeAppend))},
	{name: "edit", path: "a.txt", call: doing((*rw.Store).Edit, rw.EditRequest{Path: "a.txt", Edits: []rw.EditOp{{Old: "\na.txt", New: "\nedited"}}})},
	{name: "delete", path: "a.txt", call: doing((*rw.Store).Delete, rw.DeleteRequest{Path: "a.txt"})},
	{name: "move", path: "a.txt", moves: true, call: move("a.txt", "n/b.txt", false)},
	{name: "move over", path: "a.txt", moves: true, call: move("a.txt", "c.txt", true)},
	{name: "move over, the other", path: "c.txt", call: move("a.txt", "c.txt", true)},
	{name: "move, the new name", path: "b.txt", foreign: true, call: move("a.txt", "b.txt", false)},
	{name: "append to a foreign file", path: "a.txt", foreign: true, call: do(put("a.txt", otherText, rw.ModeAppend))},
	{name: "undo", path: "a.txt", call: func(s *rw.Store) error {
		if _, err := s.SafeWrite(background, rw.SafeWriteRequest{Path: "a.txt", Content: []byte(otherText), Mode: rw.ModeOverwrite}); err != nil {
			return err
		}
		return errorOf(s.Undo(background, rw.UndoRequest{}))
	}},
	{name: "rollback of a replace", path: "a.txt", fails: "a.txt", call: txBeside(txWrite("a.txt", otherText, rw.ModeOverwrite))},
	{name: "rollback of a create", path: "new.txt", fails: "new.txt", call: txBeside(txWrite("new.txt", otherText, ""))},
	{name: "rollback of a delete", path: "a.txt", fails: "a.txt", call: txBeside(txDelete("a.txt"))},
	{name: "rollback of a move", path: "a.txt", fails: "a.txt", moves: true, call: txBeside(txMove("a.txt", "b.txt", false))},
	{name: "rollback of a move, the new name", path: "b.txt", fails: "a.txt", moves: true, call: txBeside(txMove("a.txt", "b.txt", false))},
}

// txBeside is a transaction whose last file cannot be made.
func txBeside(op rw.TxOp) func(s *rw.Store) error {
	return doing((*rw.Store).Tx, rw.TxRequest{Ops: []rw.TxOp{op, txWrite("bad.txt", longText, "")}})
}

// TestEditorSweep: an editor saves a file in each way before each operation of each
// verb. The saved content is under its name afterwards, or it is kept as a version;
// after a move, it is a file of the workspace. Every run visits the operations that rename
// the file or append to it, when the call has looked at it for the last time: there are
// few, also in a roll-back.
func TestEditorSweep(t *testing.T) {
	step := txStep()
	for k, x := range besideEditors {
		for j, how := range append(slices.Sorted(maps.Keys(editorSaves)), throughOpenFile, throughLateOpen) {
			for i, level := range inTurn(k+j, allLevels...) {
				if how == throughLateOpen && level == rw.SyncOff {
					continue // kept objects are not looked at again
				}
				t.Run(fmt.Sprintf("%s/%s/%s", x.name, how, level), func(t *testing.T) {
					t.Parallel()
					x.besideOne(t, level, how, 0)
					for n := -1; x.besideOne(t, level, how, n); n-- {
					}
					for n := (phase(step) + i) % step; x.besideOne(t, level, how, n); n += step {
					}
				})
			}
		}
	}
}

// besideOne lets the editor save before operation n, or with -n before the nth one that
// renames its file; false when the call has fewer.
func (x besideEditor) besideOne(t *testing.T, level rw.SyncLevel, how string, n int) bool {
	t.Helper()
	x.guarded = x.guarded && slices.Contains([]string{"exchanges", "rewrites", "appends"}, how)
	fs := simfs.New()
	fs.Ordered = n%2 == 1
	opts, sim := &rw.Options{Sync: level}, rw.Sim{Nonce: "0001"}
	if x.inside {
		sim.AppendFrom = 1
	}
	s := must(rw.OpenSim(fs, opts, sim))(t)
	for _, name := range []string{"a.txt", "c.txt"} {
		if x.foreign {
			fs.WriteFile(name, []byte(longText+name), 0o644)
		} else {
			must(s.SafeWrite(background, rw.SafeWriteRequest{Path: name, Content: []byte(longText + name)}))(t)
		}
	}
	editor := fs.Foreign()
	var open fsx.File
	if how == throughOpenFile {
		open, _ = editor.Open(x.path, fsx.Read|fsx.Write, 0)
	}
	before, _ := editor.Lstat(x.path)
	var mu sync.Mutex // a store also works after its replies
	saved, reached, blocked, took, count, renames := "", false, false, false, 0, 0
	fs.Before(func(op simfs.Op) {
		mu.Lock()
		defer mu.Unlock()
		if publishes(op, x.path) {
			renames++
		}
		if x.fails != "" && !blocked && publishes(op, x.fails) {
			blocked = true
			f, _ := editor.Open("bad.txt", fsx.Write|fsx.Create, 0o644)
			f.WriteAt([]byte("in the way\n"), 0)
			f.Close()
		}
		if count == n || renames == -n && !reached && n < 0 {
			reached = true
			was, _ := fs.ReadFile(x.path)
			took = strings.Contains(string(was), otherText)
			if how == throughOpenFile {
				saved = saveThrough(open)
			} else if how == throughLateOpen {
				if op.Kind != "remove" { // the file is redundant: no later look finds it
					saved = saveLate(editor, before.Ino)
				}
			} else if _, err := editor.Lstat(x.path); err == nil {
				saved = editorSaves[how](editor, x.path)
			}
		}
		count++
	})
	callErr := x.call(s)
	require(t, !errors.Is(callErr, rw.ErrInternal), "saved before operation %d: %v: %v", n, callErr, errors.Unwrap(callErr))
	if how == throughLateOpen {
		noErr(t, s.Sync(background)) // it settles
	}
	fs.Before(nil)
	mu.Lock()
	defer mu.Unlock()
	if !reached && open != nil {
		open.Close()
	}
	require(t, !errors.Is(callErr, rw.ErrInternal), "saved before operation %d: %v (%v)", n, callErr, errors.Unwrap(callErr))
	if n == 0 && callErr == nil && level == rw.SyncFull && saved != "" {
		// The editor did not flush the content that the call replaced. Now it is a
		// version.
		for seed := range uint64(4) {
			x.survives(t, fs.Crash(seed, []simfs.Loss{simfs.All, simfs.Some}[seed%2]), opts, saved, "a power cut")
		}
	}
	if x.moves && how != throughOpenFile && how != throughLateOpen && callErr == nil && saved != "" {
		// The content under the new name is the one in the row. The editor cannot have
		// saved there.
		found, err := s.Check(background, admin.CheckRequest{Deep: true})
		require(t, err == nil && !slices.ContainsFunc(found.Problems, func(p admin.CheckProblem) bool { return p.Code == "file_differs" }),
			"saved before operation %d: the move reports success: %v %+v", n, err, found.Problems)
	}
	s.Close(background)
	if saved == "" {
		return reached
	}
	if x.inside && callErr == nil && !took {
		require(t, haveText(contents(fs, false), otherText), "saved before operation %d: what was acknowledged is lost", n)
	}
	x.survives(t, fs, opts, saved, fmt.Sprintf("saved before operation %d, call: %v", n, callErr))
	return reached
}

// survives opens the store again and looks for the content that the editor saved.
func (x besideEditor) survives(t *testing.T, fs *simfs.FS, opts *rw.Options, saved, when string) {
	t.Helper()
	after := must(rw.OpenSim(fs, opts, rw.Sim{Nonce: "0002"}))(t, when, ": open")
	noErr(t, after.Close(background))
	found := false
	for path, content := range fs.Tree() {
		inside := ofStore(path)
		kept := strings.Contains(content, saved)
		if inside && strings.Contains(path, "/history/") && content != "/" && hash(content) != path[strings.LastIndexByte(path, '/')+1:] {
			t.Fatalf("%s: version %s has another content", when, path)
		}
		found = found || kept && (!inside || !x.moves && !x.guarded && strings.Contains(path, "/history/"))
	}
	if !found {
		t.Fatalf("%s: what the editor saved is lost\n%v", when, files(fs))
	}
}

var strangersNote = regexp.MustCompile(`"what":"stranger"[^}]*"sha256":"([0-9a-f]{64})"`)

// TestChangesWhileKeptSweep: an editor has the file open that a call replaces, writes to
// it after the reply, and again before each operation by which the store keeps it. After
// the editor has closed it, the next call keeps what it wrote last. Notes of the journal
// name kept versions.
func TestChangesWhileKeptSweep(t *testing.T) {
	for _, level := range allLevels[:2] {
		for n, more := 0, true; more; n++ {
			fs := simfs.New()
			s := must(rw.OpenSim(fs, &rw.Options{Sync: level}, rw.Sim{Nonce: "0001", Manual: true}))(t)
			noErr(t, makeA(s))
			editor := must(fs.Foreign().Open("a.txt", fsx.Read|fsx.Write, 0))(t)
			replaced, count := false, 0
			more = false
			fs.Before(func(op simfs.Op) {
				if replaced = replaced || publishes(op, "a.txt"); !replaced || !strings.Contains(op.Path, "/staging/") {
					return
				}
				if count++; count == 1 {
					editor.WriteAt([]byte("first "), 0)
				}
				if count == n+2 {
					more = true
					editor.WriteAt([]byte(strangersText), 0)
				}
			})
			noErr(t, do(put("a.txt", otherText, rw.ModeOverwrite))(s))
			noErr(t, s.Sync(background))
			fs.Before(nil)
			editor.Close()
			noErr(t, do(put("c.txt", "next", rw.ModeCreate), put("c.txt", "after", rw.ModeOverwrite))(s))
			noErr(t, s.Sync(background))
			kept, journal, found := map[string]bool{}, "", !more
			for path, content := range fs.Tree() {
				switch {
				case strings.Contains(path, "/history/"):
					kept[hash(content)] = true
					found = found || strings.HasPrefix(content, strangersText)
				case strings.Contains(path, "/journal/"):
					journal += content
				}
			}
			expect(t, found, "%s, written before operation %d: the next call has not kept it", level, n)
			for _, note := range strangersNote.FindAllStringSubmatch(journal, -1) {
				expect(t, kept[note[1]], "%s, written before operation %d: a note names a version that is not kept", level, n)
			}
			noErr(t, s.Close(background))
		}
	}
}

// TestRewriteAfterAppends: a file of more than 64 KiB is appended to, and an editor
// overwrites it in place before any copy of a version was made. The first version of those
// is kept.
func TestRewriteAfterAppends(t *testing.T) {
	for _, level := range allLevels {
		fs := simfs.New()
		s := must(rw.OpenSim(fs, &rw.Options{Sync: level}, rw.Sim{Nonce: "0001", Manual: true}))(t)
		first := strings.Repeat(longText, 50)
		noErr(t, do(put("a.txt", first, rw.ModeCreate))(s))
		for range 5 {
			noErr(t, do(put("a.txt", otherText, rw.ModeAppend))(s))
		}
		editorSaves["rewrites"](fs.Foreign(), "a.txt")
		noErr(t, s.Close(background))
		kept := slices.DeleteFunc(contents(fs, false), func(text string) bool { return !strings.HasPrefix(text, longText) })
		if len(kept) != 1 || kept[0] != first { // the later ones begin with it
			t.Errorf("%s: %d versions", level, len(kept))
		}
	}
}

// TestEditThroughAnotherName: a file that a call replaces, deletes or moves another one
// over has a second name, by which an editor changes it right after the reply. The
// version is kept as it was.
func TestEditThroughAnotherName(t *testing.T) {
	for _, level := range allLevels {
		for what, call := range map[string]func(*rw.Store) error{
			"replace": do(put("a.txt", otherText, rw.ModeOverwrite)),
			"append":  do(put("a.txt", otherText, rw.ModeAppend)),
			"delete":  doing((*rw.Store).Delete, rw.DeleteRequest{Path: "a.txt"}),
			"move over": func(s *rw.Store) error {
				return errors.Join(do(put("c.txt", "c", ""))(s), move("c.txt", "a.txt", true)(s))
			},
		} {
			fs := simfs.New()
			linkA(fs)
			s := must(rw.OpenSim(fs, &rw.Options{Sync: level}, rw.Sim{Nonce: "0001", Manual: true}))(t)
			noErr(t, call(s))
			editorSaves["rewrites"](fs.Foreign(), "link.txt")
			noErr(t, s.Close(background))
			expect(t, slices.ContainsFunc(contents(fs, false), func(text string) bool { return strings.HasPrefix(text, longText) }),
				"%s at level %s: the version before is lost", what, level)
		}
	}
}

// TestMoveOverReadsNoVersion: a version that is kept before a move is not read again
// after it, also where it is unknown whether its file is open.
func TestMoveOverReadsNoVersion(t *testing.T) {
	fs := simfs.New()
	fs.NoLeases = true
	s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001"}))(t)
	noErr(t, makeAB(s))
	moved, reads := false, 0
	fs.Before(func(op simfs.Op) {
		moved = moved || publishes(op, "d/b.txt")
		if moved && op.Kind == "read" && strings.Contains(op.Path, "/history/") {
			reads++
		}
	})
	noErr(t, move("a.txt", "d/b.txt", true)(s))
	fs.Before(nil)
	expect(t, moved && reads <= 0, "moved %v, %d reads of versions", moved, reads)
	noErr(t, s.Close(background))
}

// publishes reports whether an operation gives or takes the name of a file, or appends to it.
func publishes(op simfs.Op, name string) bool {
	return (strings.HasSuffix(op.Path, name) || strings.HasSuffix(op.To, name)) && strings.Contains("link rename exchange append", op.Kind) && op.Kind != ""
}

// TestForeignSaveOfTheSameSizeSweep: an editor replaces a large file by another
// one of the same size, or rewrites it in place, before each operation of a
// write or after the last one. A guarded write that expects ours then fails
// where the editor's is there.
func TestForeignSaveOfTheSameSizeSweep(t *testing.T) {
	for _, inPlace := range []bool{false, true} {
		step := stride(1)
		for n := phase(step); saveOfTheSameSize(t, inPlace, n); n += step {
		}
		saveOfTheSameSize(t, inPlace, math.MaxInt)
	}
}

// saveOfTheSameSize saves before operation n; false when the write has fewer.
func saveOfTheSameSize(t *testing.T, inPlace bool, n int) bool {
	t.Helper()
	const size = 1 << 20 // from which hashes are kept
	ours, theirs := strings.Repeat("our line\n", size/9+1), strings.Repeat("their row", size/9+1)
	fs := simfs.New()
	s := must(rw.OpenSim(fs, &rw.Options{Gate: rw.Gate{Mode: rw.GateOff}}, rw.Sim{}))(t)
	defer s.Close(background)
	editor, count, reached := fs.Foreign(), 0, false
	save := func() {
		name := ".editor"
		if inPlace {
			name = "a.txt"
		}
		if _, err := editor.Lstat(name); inPlace && err != nil {
			return
		}
		f, _ := editor.Open(name, fsx.Write|fsx.Create, 0o644)
		f.WriteAt([]byte(theirs), 0)
		f.Close()
		if !inPlace {
			editor.Rename(name, editor, "a.txt")
		}
	}
	fs.Before(func(simfs.Op) {
		if count == n {
			reached = true
			save()
		}
		count++
	})
	wrote, err := s.SafeWrite(background, rw.SafeWriteRequest{Path: "a.txt", Content: []byte(ours), Mode: rw.ModeOverwrite})
	fs.Before(nil)
	if !reached {
		save()
	}
	if before, _ := fs.ReadFile("a.txt"); err == nil && string(before) == theirs {
		_, err = s.SafeWrite(background, rw.SafeWriteRequest{Path: "a.txt", Content: []byte("short\n"), Mode: rw.ModeOverwrite, AllowShrink: true, Expect: rw.Exactly(wrote.SHA256)})
		require(t, err != nil, "operation %d: the guarded write replaced what the editor saved", n)
	}
	return reached
}

// TestUnchangedInATransactionIsDurable: a transaction acknowledges a file that already
// has the new content like the others.
func TestUnchangedInATransactionIsDurable(t *testing.T) {
	for how, save := range editorSaves {
		fs := simfs.New()
		s := must(rw.OpenSim(fs, &rw.Options{}, rw.Sim{}))(t)
		noErr(t, do(put("d/x.txt", longText, rw.ModeCreate))(s))
		editor := must(fs.Foreign().OpenDir("d"))(t)
		f, _ := editor.Open("a.txt", fsx.Write|fsx.Create, 0o644)
		f.Close()
		save(editor, "a.txt")
		noErr(t, together(put("d/a.txt", strangersText, rw.ModeOverwrite), put("b.txt", longText, rw.ModeCreate))(s))
		have, _ := fs.Crash(0, simfs.All).ReadFile("d/a.txt")
		expect(t, string(have) == strangersText, "the editor %s: an acknowledged file is lost: %q", how, have)
	}
}

// TestPreviousHashIsOfOneContent: an editor rewrites the file while its hash is
// computed. The receipt contains the hash of a content that the file had, and never
// that of a mixture of two.
func TestPreviousHashIsOfOneContent(t *testing.T) {
	old, saved := strings.Repeat("a", 300<<10), strings.Repeat("b", 300<<10)
	for at := range 6 {
		fs := simfs.New()
		fs.WriteFile("a.txt", []byte(old), 0o644)
		s := must(rw.OpenSim(fs, nil, rw.Sim{}))(t)
		reads := 0
		fs.Before(func(op simfs.Op) {
			if op.Kind != "read" || op.Path != "a.txt" {
				return
			}
			if reads++; reads != at+1 {
				return
			}
			f, err := fs.Foreign().Open("a.txt", fsx.Read|fsx.Write, 0)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			_, err = f.WriteAt([]byte(saved), 0)
			expect(t, err == nil, "%v", err)
		})
		req := put("a.txt", "new", rw.ModeOverwrite)
		req.AllowShrink = true
		r, err := s.SafeWrite(background, req)
		fs.Before(nil)
		expect(t, err == nil && (r.Receipt.PrevSHA256.String() == hash(old) || r.Receipt.PrevSHA256.String() == hash(saved)),
			"read %d: %v, prev_sha256 %s", at, err, r.Receipt.PrevSHA256)
		s.Close(background)
	}
}

// failFlush makes the flush n, counted from now on, fail once without effect.
// It reports which one that was.
func failFlush(fs *simfs.FS, n int) *simfs.Op {
	failed := &simfs.Op{}
	fs.Inject(func(op simfs.Op) simfs.Fault {
		if !strings.Contains(op.Kind, "sync") || failed.Kind != "" {
			return simfs.Fault{}
		}
		if n--; n >= 0 {
			return simfs.Fault{}
		}
		*failed = op
		return simfs.Fault{Err: syscall.EIO}
	})
	return failed
}

// poisoned runs the call as one process and lets its flush n fail; another one
// has the store open. The process lives on.
func (x attack) poisoned(t *testing.T, level rw.SyncLevel, n int) (fs *simfs.FS, a, b *rw.Store, failed *simfs.Op, err error) {
	t.Helper()
	fs = simfs.New()
	fs.Ordered = n%2 == 1
	if x.disk != nil {
		x.disk(fs)
	}
	s, err := x.open(fs, level, "0001")
	if err == nil && x.before != nil {
		err = x.before(s)
	}
	if err == nil {
		err = s.Close(background)
	}
	noErr(t, err)
	open := func(nonce string) *rw.Store {
		y := x
		y.sim.Process = fs.NewProcess()
		return must(y.open(fs, level, nonce))(t)
	}
	a, b = open("0002"), open("0004")
	if level != rw.SyncFull { // waits for the flush of its name
		noErr(t, do(put("early.txt", longText, rw.ModeCreate))(a))
	}
	failed = failFlush(fs, n)
	err = x.run(a)
	synced := a.Sync(background)
	fs.Inject(nil)
	if _, mark := fs.ReadFile(rw.StateDirName + "/poisoned"); mark {
		for _, err := range []error{synced, a.Sync(background), b.Sync(background)} {
			if !errors.Is(err, rw.ErrStorePoisoned) && !errors.Is(err, syscall.EIO) {
				t.Errorf("flush %d (%v) failed, and Sync says %v", n, *failed, err)
			}
		}
	}
	return fs, a, b, failed, err
}

// TestPoisonSweep: each flush of a call fails, and the process that saw it continues to
// run. Another process opens the store; before each of its operations a third one opens
// it, too, or it dies, or the power fails. The content that an opener shows is durable,
// although the pages of the failed flush are lost, and the processes that were there
// before accept no more writes.
func TestPoisonSweep(t *testing.T) {
	step := attackStep(43)
	for i, x := range attacks {
		for j, level := range inTurn(i, allLevels[:2]...) {
			t.Run(x.name+"/"+string(level), func(t *testing.T) {
				t.Parallel()
				x := x
				x.opts.LockTimeout, x.sim.LockWait = time.Millisecond, time.Millisecond
				for n := 0; ; n++ {
					if !x.heal(t, level, n, -1, "") {
						return
					}
					for k, how := range []string{"opens", "opens, and the first one dies", "opens, and the power is cut", "the power is cut"} {
						if (n+k+phase(turns(2)))%turns(2) > 0 {
							continue
						}
						for m := (phase(step) + i + j + k + n) % step; x.heal(t, level, n, m, how); m += step {
						}
					}
				}
			})
		}
	}
}

// TestPoisonMoveOverSweep is TestPoisonSweep at more operations for a replacing move
// whose directories could not be flushed: completing such a move before it is rolled
// back would rely on names that the disk does not have.
func TestPoisonMoveOverSweep(t *testing.T) {
	t.Parallel()
	step := attackStep(2)
	for _, x := range attacks {
		if x.name != "move over" {
			continue
		}
		x.opts.LockTimeout, x.sim.LockWait = time.Millisecond, time.Millisecond
		for n := 0; ; n++ {
			_, _, _, failed, _ := x.poisoned(t, rw.SyncFull, n)
			if failed.Kind == "" {
				break
			}
			if failed.Kind != "syncdir" {
				continue
			}
			for m := (phase(step) + n) % step; x.heal(t, rw.SyncFull, n, m, "the power is cut"); m += step {
			}
		}
	}
}

// TestFailedDirectorySweep: each flush of a directory fails, whatever part of the store makes
// it. Another process that has the store open accepts no more writes: what it made there
// may be lost.
func TestFailedDirectorySweep(t *testing.T) {
	t.Parallel()
	calls := map[string]func(*rw.Store) error{
		"overwrite":  do(put("a.txt", otherText, rw.ModeOverwrite)),
		"refusal":    do(put("a.txt", "x", rw.ModeCreate)),
		"chunk":      doing((*rw.Store).ChunkAppend, rw.ChunkAppendRequest{Session: "s", Content: []byte(longText)}),
		"checkpoint": doing((*rw.Store).Checkpoint, rw.CheckpointRequest{Name: "c", Data: []byte(`"x"`)}),
		"scratch":    doing((*rw.Store).ScratchPut, rw.ScratchPutRequest{Content: []byte(longText)}),
		"staged":     doing((*rw.Store).TxBegin, rw.TxBeginRequest{}),
		"call": func(s *rw.Store) error {
			_, err := s.BeginCall(background, around.ToolCall{Host: "h", Session: "s", ID: "1"})
			return err
		},
		"erase": func(s *rw.Store) error {
			_, err := s.Admin().Erase(background, admin.EraseRequest{Secret: []byte("quite another line")})
			return err
		},
		"scan":     doing((*rw.Store).Scan, around.ScanRequest{}),
		"snapshot": doing((*rw.Store).Snapshot, around.SnapshotRequest{}),
		"compact": func(s *rw.Store) error {
			_, err := s.Admin().Compact(background, admin.CompactRequest{KeepRows: new(int)})
			return err
		},
		"repair": func(s *rw.Store) error {
			_, err := s.Admin().Repair(background, admin.RepairRequest{})
			return err
		},
		"close": func(s *rw.Store) error { return s.Close(background) },
		"open":  nil, // after a process that died in a call that makes directories
	}
	for name, call := range calls {
		failed := 0
		for n := 0; ; n++ {
			fs := simfs.New()
			open := func(nonce string) (*simfs.Process, *rw.Store, error) {
				p := fs.NewProcess()
				s, err := rw.OpenSim(fs, &rw.Options{LockTimeout: time.Millisecond},
					rw.Sim{Nonce: nonce, Process: p, LockWait: time.Millisecond, Segment: 500})
				return p, s, err
			}
			p, a, err := open("0001")
			noErr(t, err)
			_, b, err := open("0002")
			noErr(t, err)
			noErr(t, do(put("a.txt", longText, rw.ModeCreate), put("a.txt", otherText, rw.ModeAppend))(a))
			if call == nil {
				fs.Before(func(op simfs.Op) {
					if strings.HasSuffix(op.To, "x/y/z.txt") {
						fs.Before(nil)
						p.Kill()
					}
				})
				do(put("x/y/z.txt", longText, rw.ModeCreate))(a)
				fs.Before(nil)
				fs.Foreign().Rename("x", fs.Foreign(), "moved")
			}
			count := 0
			fs.Inject(func(op simfs.Op) simfs.Fault {
				if op.Kind == "syncdir" {
					if count++; count == n+1 {
						return simfs.Fault{Err: syscall.ENOSPC}
					}
				}
				return simfs.Fault{}
			})
			if call == nil {
				open("0003")
			} else {
				call(a)
			}
			fs.Inject(nil)
			if count <= n {
				break
			}
			failed++
			isErr(t, do(put("b.txt", longText, rw.ModeCreate))(b), rw.ErrStorePoisoned, name, ": flush ", n)
		}
		expect(t, failed > 0, "%s flushes no directory", name)
	}
}

// TestPoisonBesideSettlingSweep: a process is stopped while it empties the slots of commits,
// after their replies. The flush of another one fails, and a third one opens the store. Before
// one of its operations on a slot, the first one continues.
func TestPoisonBesideSettlingSweep(t *testing.T) {
	t.Parallel()
	for n, stopped := 0, true; stopped; n++ {
		for m, reached := 0, true; stopped && reached; m++ {
			stopped, reached = besideSettling(t, n, m)
		}
	}
}

func besideSettling(t *testing.T, n, m int) (stopped, reached bool) {
	t.Helper()
	fs := simfs.New()
	fs.WriteFile("a.txt", []byte(longText), 0o644)
	fs.WriteFile("b.txt", []byte(humansText), 0o644)
	open := func(nonce string, p *simfs.Process) (*rw.Store, error) {
		return rw.OpenSim(fs, &rw.Options{Sync: rw.SyncJournal, LockTimeout: time.Millisecond},
			rw.Sim{Nonce: nonce, Manual: true, Process: p, LockWait: time.Millisecond, Slots: 8})
	}
	first := fs.NewProcess()
	a, b := must(open("0001", first))(t), must(open("0002", fs.NewProcess()))(t)
	noErr(t, do(put("a.txt", otherText, rw.ModeOverwrite))(a))
	deleted(t, a, "b.txt")
	ended, stopped := stoppedAt(t, first, n, func() error { a.Sync(background); return nil })
	if !stopped {
		return false, false
	}
	failFlush(fs, 0)
	require(t, do(put("c.txt", "c", rw.ModeCreate))(b) != nil, "no flush failed")
	fs.Inject(nil)
	count := 0
	fs.Before(func(op simfs.Op) {
		if !strings.Contains(op.Path+op.To, "/staging/") || !slices.Contains([]string{"exchange", "rename", "remove"}, op.Kind) {
			return
		}
		if count++; count == m+1 {
			fs.Before(nil)
			first.Continue()
			<-ended
		}
	})
	c, err := open("0003", fs.NewProcess())
	fs.Before(nil)
	if reached = count > m; !reached {
		first.Continue()
		<-ended
	}
	noErr(t, err)
	conflicts := c.Recovery().Conflicts
	noErr(t, c.Close(background))
	noErr(t, must(open("0004", fs.NewProcess()))(t).Close(background)) // where the paths were locked
	kept := contents(fs, false)
	if have := files(fs); have["a.txt"] != otherText || have["b.txt"] != "" || len(conflicts) > 0 || !haveText(kept, longText) || !haveText(kept, humansText) {
		t.Fatalf("stopped at %d, continued at %d: found %s, conflicts %+v", n, m, brief(have), conflicts)
	}
	return true, reached
}

// heal makes flush n of the call fail and opens the store while the process that saw
// the failure is still running. At operation m of that, something happens.
func (x attack) heal(t *testing.T, level rw.SyncLevel, n, m int, how string) (reached bool) {
	t.Helper()
	fs, a, b, failed, callErr := x.poisoned(t, level, n)
	if failed.Kind == "" {
		return false
	}
	mark := func(fs *simfs.FS) bool {
		_, there := fs.ReadFile(rw.StateDirName + "/poisoned")
		return there
	}
	poisoned := mark(fs)
	defer func() {
		if t.Failed() {
			t.Fatalf("flush %d (%v) failed, poisoned %v, call %v; %s at operation %d", n, *failed, poisoned, callErr, how, m)
		}
	}()
	disk, first := fs, fs.NewProcess()
	count := 0
	fs.Before(func(simfs.Op) {
		if count++; m < 0 || count != m+1 {
			return
		}
		reached = true
		fs.Before(nil)
		if strings.HasPrefix(how, "opens") {
			y := x
			y.sim.Process = fs.NewProcess()
			if s, err := y.open(fs, level, "0008"); err == nil {
				do(put("third.txt", longText, rw.ModeCreate))(s)
			}
		}
		if strings.Contains(how, "first one dies") {
			first.Kill()
		}
		if strings.Contains(how, "power") {
			disk = fs.Crash(uint64(n+m), simfs.Older)
			first.Kill()
		}
	})
	y := x
	y.sim.Process = first
	c, err := y.open(fs, level, "0005")
	fs.Before(nil)
	if m >= 0 && !reached {
		return false
	}
	if poisoned {
		for _, s := range []*rw.Store{a, b} {
			err := do(put("late.txt", otherText, rw.ModeCreate))(s)
			expect(t, errors.Is(err, rw.ErrStorePoisoned) || errors.Is(err, rw.ErrLockTimeout), "a process that had the store open before writes: %v", err)
		}
	}
	if strings.Contains(how, "power") || strings.Contains(how, "dies") {
		x.settled(t, disk, level)
		return true
	}
	if err != nil {
		expect(t, m >= 0 && errors.Is(err, rw.ErrLockTimeout), "open: %v (%v)", err, errors.Unwrap(err))
		return true
	}
	if poisoned && how == "" && !c.Recovery().Poisoned {
		t.Error("the report says nothing of the failed flush")
	}
	// The old content must survive a power failure at once, and so must the following
	// write.
	shown := files(fs)
	cut := fs.Crash(uint64(n), simfs.All)
	x.settled(t, cut, level)
	if have := files(cut); !maps.Equal(have, shown) {
		t.Errorf("the opener showed %s, a power cut left %s", brief(shown), brief(have))
	}
	mode := rw.ModeCreate
	if _, there := shown[x.paths[0]]; there {
		mode = rw.ModeOverwrite
	}
	noErr(t, do(put("later.txt", otherText, rw.ModeCreate), put(x.paths[0], longText+humansText, mode))(c), "a write of the opener")
	noErr(t, c.Close(background))
	for _, s := range []*rw.Store{a, b} {
		s.Close(background)
	}
	expect(t, !mark(fs), "the mark is there although nothing is in doubt")
	shown = files(fs)
	kept := contents(fs, false)
	cut = fs.Crash(uint64(n), simfs.All)
	x.settled(t, cut, level)
	if have := files(cut); !maps.Equal(have, shown) {
		t.Errorf("the opener closed with %s, a power cut left %s", brief(shown), brief(have))
	}
	for _, text := range []string{longText, otherText, humansText} {
		expect(t, !haveText(kept, text) || haveText(contents(cut, false), text), "%.20q is lost", text)
	}
	return true
}

// settled opens a disk and closes it: its journal is in order, and opening it
// once more finds the same files.
func (x attack) settled(t *testing.T, disk *simfs.FS, level rw.SyncLevel) {
	t.Helper()
	x.sim.Process = disk.NewProcess()
	s, err := x.open(disk, level, "0006")
	if err != nil {
		t.Errorf("open after it: %v (%v)", err, errors.Unwrap(err))
		return
	}
	r, err := s.Check(background, admin.CheckRequest{})
	expect(t, err == nil && len(r.Problems) == 0, "check: %+v, %v", r.Problems, err)
	length(t, s.Recovery().Conflicts, 0, "conflicts")
	noErr(t, s.Close(background))
}

// TestPoisonMarkStaysSweep: the mark of a failed flush stays while an opener could not
// recover the files that it names, so that the next one publishes it again.
func TestPoisonMarkStaysSweep(t *testing.T) {
	t.Parallel()
	mark := rw.StateDirName + "/poisoned"
	for _, x := range attacks {
		for n := 0; ; n++ {
			fs, _, _, failed, _ := x.poisoned(t, rw.SyncFull, n)
			if failed.Kind == "" {
				break
			}
			if _, there := fs.ReadFile(mark); !there {
				continue
			}
			fs.Kill()
			y := x
			y.sim.Unrecovered = true
			if s, err := y.open(fs, rw.SyncFull, "0005"); err == nil {
				s.Close(background)
			}
			if _, there := fs.ReadFile(mark); !there {
				t.Errorf("%s: flush %d (%v) failed: the mark went with an opener that recovered nothing", x.name, n, *failed)
			}
			s, err := x.open(fs, rw.SyncFull, "0006")
			if err != nil || !s.Recovery().Poisoned {
				t.Fatalf("%s: flush %d (%v) failed: the next opener does not know: %v", x.name, n, *failed, err)
			}
			s.Close(background)
			if _, there := fs.ReadFile(mark); there {
				t.Errorf("%s: flush %d (%v) failed: the mark stays after recovery", x.name, n, *failed)
			}
		}
	}
}

// sweepPart kills calls on the objects of a part of the state directory everywhere, and
// makes every operation fail.
func sweepPart(t *testing.T, part string, then func(*testing.T, *rw.Store), all []scenario) {
	for _, c := range all {
		c.part, c.then, c.every, c.opts.Gate.Mode = part, then, 7, rw.GateOff
		c = c.known(t)
		c.crashSweeps(t, allLevels...)
		c.faultSweeps(t, rw.SyncFull)
	}
}

// elsewhere are the scenarios that are repeated with the state elsewhere: one for
// each primitive, and several in one commit.
var elsewhere = []string{"create_deep", "overwrite", "append", "several", "delete", "move", "move_over", "undo_tx", "restore", "tx", "undo_links", "undo_kinds", "undo_kinds_back"}

// TestCrashSweepElsewhere is TestCrashSweep, that of recovery and TestFaultSweep, with the
// state in the git directory and on another file system.
func TestCrashSweepElsewhere(t *testing.T) {
	t.Parallel()
	states := map[string]string{"git": ".git/resilientwrite/main", "mount": "elsewhere/resilientwrite/0123"}
	for i, c := range scenarios {
		if !slices.Contains(elsewhere, c.name) {
			continue
		}
		for _, layout := range inTurn(i, "git", "mount") {
			c, state := c, states[layout]
			c.sim.State, c.opts.Sync, c.every = state, rw.SyncFull, 7
			disk := c.disk
			c.disk = func(f *simfs.FS) {
				if disk != nil {
					disk(f)
				}
				f.MkdirAll(path.Dir(state))
				if layout == "mount" {
					f.MountAt("elsewhere")
				}
			}
			c.sweepIn(t, layout, layout == "mount")
		}
	}
}

// sweepIn runs the sweeps of crashes, recovery and faults at the level full.
func (c scenario) sweepIn(t *testing.T, layout string, faults bool) {
	c.name = layout + "/" + c.name
	t.Run(c.name, func(t *testing.T) {
		t.Parallel()
		c.crashSweep(t)
	})
	t.Run("recovery/"+c.name, func(t *testing.T) {
		t.Parallel()
		c.recoverySweep(t)
	})
	if faults {
		c.faultSweeps(t, rw.SyncFull)
	}
}

// mounted are calls for files on a file system that is mounted in the workspace.
var mounted = []scenario{
	{name: "create", run: do(put("mnt/d/a.txt", longText, rw.ModeCreate)), old: map[string]string{}, new: map[string]string{"mnt/d/a.txt": longText}},
	{name: "overwrite", before: do(put("mnt/a.txt", longText, rw.ModeCreate)), run: do(put("mnt/a.txt", otherText, rw.ModeOverwrite)),
		old: map[string]string{"mnt/a.txt": longText}, new: map[string]string{"mnt/a.txt": otherText}},
	{name: "overwrite_ahead", sim: rw.Sim{AheadFrom: 1}, before: do(put("mnt/a.txt", longText, rw.ModeCreate)), run: do(put("mnt/a.txt", otherText, rw.ModeOverwrite)),
		old: map[string]string{"mnt/a.txt": longText}, new: map[string]string{"mnt/a.txt": otherText}},
	{name: "append_in_place", sim: rw.Sim{AppendFrom: 1}, before: do(put("mnt/a.txt", longText, rw.ModeCreate)), run: do(put("mnt/a.txt", otherText, rw.ModeAppend)),
		old: map[string]string{"mnt/a.txt": longText}, new: map[string]string{"mnt/a.txt": longText + otherText}},
	{name: "move_over", before: do(put("mnt/a.txt", longText, rw.ModeCreate), put("mnt/d/b.txt", otherText, rw.ModeCreate)), run: move("mnt/a.txt", "mnt/d/b.txt", true),
		old: map[string]string{"mnt/a.txt": longText, "mnt/d/b.txt": otherText}, new: map[string]string{"mnt/d/b.txt": longText}},
	{name: "tx", before: do(put("mnt/a.txt", longText, rw.ModeCreate), put("a.txt", longText, rw.ModeCreate), put("mnt/gone.txt", otherText, rw.ModeCreate)),
		run: doing((*rw.Store).Tx, rw.TxRequest{Ops: []rw.TxOp{
			{Op: "write", Path: "mnt/a.txt", Content: []byte(otherText), Mode: rw.ModeOverwrite}, {Op: "write", Path: "a.txt", Content: []byte(otherText), Mode: rw.ModeOverwrite},
			{Op: "delete", Path: "mnt/gone.txt"}, {Op: "write", Path: "mnt/new.txt", Content: []byte("new")},
		}}),
		old: map[string]string{"mnt/a.txt": longText, "a.txt": longText, "mnt/gone.txt": otherText},
		new: map[string]string{"mnt/a.txt": otherText, "a.txt": otherText, "mnt/new.txt": "new"}},
}

// TestSweepNestedMount is TestCrashSweepElsewhere for files on a file system that is
// mounted in the workspace, where the state is elsewhere and where it is not.
func TestSweepNestedMount(t *testing.T) {
	t.Parallel()
	for _, c := range mounted {
		for _, elsewhere := range []bool{false, true} {
			c.opts.Sync, c.sim.Mount, c.disk = rw.SyncFull, elsewhere, func(f *simfs.FS) { f.MountAt("mnt") }
			c.sweepIn(t, fmt.Sprintf("elsewhere=%v", elsewhere), true)
		}
	}
}

// besideRemoval is a call that places a file into a directory that has nothing in it.
type besideRemoval struct {
	name, want string // the file
	call       func(s *rw.Store) error
}

var besideRemovals = []besideRemoval{
	{"create", "d/e/f.txt", makeFile("d/e/f.txt")},
	{"create in a new directory", "m/n/f.txt", makeFile("m/n/f.txt")},
	{"move", "d/e/f.txt", move("a.txt", "d/e/f.txt", false)},
	{"transaction", "d/e/f.txt", doing((*rw.Store).Tx, rw.TxRequest{Ops: []rw.TxOp{txWrite("a.txt", otherText, rw.ModeOverwrite), txWrite("d/e/f.txt", longText+"a.txt", ""), txWrite("d/e/g.txt", longText, "")}})},
}

func makeFile(path string) func(s *rw.Store) error {
	return do(put(path, longText+"a.txt", ""))
}

// removeEmpty removes a directory and those above it that are empty, and reports whether
// it removed one.
func removeEmpty(dir fsx.Dir, path string) bool {
	name, below, _ := strings.Cut(path, "/")
	inside := false
	if in, err := dir.OpenDir(name); err == nil && below != "" {
		inside = removeEmpty(in, below)
		in.Close()
	}
	return dir.Rmdir(name) == nil || inside
}

// TestRemovedDirectorySweep: before each operation of a call, another program removes the
// empty directories on the way to its file. The call makes them again, also where it ends
// with a power cut after its reply.
func TestRemovedDirectorySweep(t *testing.T) {
	t.Parallel()
	for i, x := range besideRemovals {
		for _, level := range inTurn(i, allLevels...) {
			t.Run(fmt.Sprintf("%s/%s", x.name, level), func(t *testing.T) {
				t.Parallel()
				removed := 0
				for n, more := 0, true; more; n++ {
					fs, did, err := x.besideRemoval(t, level, n, 0)
					more = did != nil
					if more && !*did {
						continue
					}
					removed++
					noErr(t, err, "removed before operation", n)
					equal(t, fs.Tree()[x.want], longText+"a.txt", "removed before operation", n)
					if level == rw.SyncFull && more && n%9 == phase(9) {
						x.cut(t, n)
					}
				}
				expect(t, removed > 10, "removed %d times", removed)
			})
		}
	}
}

// cut ends the call with a power cut at each of its changes. The file is whole, or it is
// absent and the call has not succeeded.
func (x besideRemoval) cut(t *testing.T, n int) {
	for stop := 1 + phase(3); ; stop += 3 {
		fs, _, err := x.besideRemoval(t, rw.SyncFull, n, stop)
		for seed := range uint64(3) {
			disk := fs.Crash(seed+uint64(stop), []simfs.Loss{simfs.None, simfs.All, simfs.Some}[seed])
			s := must(rw.OpenSim(disk, &rw.Options{Sync: rw.SyncFull}, rw.Sim{Nonce: "0002"}))(t)
			r := must(s.Check(background, admin.CheckRequest{Deep: true}))(t)
			expect(t, len(r.Problems) == 0, "removed before %d, cut at %d: %+v", n, stop, r.Problems)
			noErr(t, s.Close(background))
			made, ok := disk.Tree()[x.want]
			expect(t, made == longText+"a.txt" || !ok && err != nil, "removed before %d, cut at %d, seed %d, call: %v: %q", n, stop, seed, err, made)
		}
		if err == nil {
			return
		}
	}
}

// besideRemoval makes the call and has the directories removed before operation n; the
// disk stops at its change number stop, if that is not 0. did is nil if the call has fewer
// operations, otherwise it reports whether a directory was removed.
func (x besideRemoval) besideRemoval(t *testing.T, level rw.SyncLevel, n, stop int) (fs *simfs.FS, did *bool, err error) {
	fs = simfs.New()
	s := must(rw.OpenSim(fs, &rw.Options{Sync: level}, rw.Sim{Nonce: "0001"}))(t)
	must(s.SafeWrite(background, put("a.txt", longText+"a.txt", "")))(t)
	other := fs.Foreign()
	noErr(t, other.Mkdir("d", 0o755))
	below := must(other.OpenDir("d"))(t)
	noErr(t, below.Mkdir("e", 0o755))
	noErr(t, errors.Join(below.Sync(), other.Sync()))
	var mu sync.Mutex // a store also works after its replies
	count := 0
	fs.Before(func(simfs.Op) {
		mu.Lock()
		defer mu.Unlock()
		if count == n {
			removed := removeEmpty(other, path.Dir(x.want))
			did = &removed
		}
		count++
	})
	if stop > 0 {
		fs.StopAt(stop)
	}
	err = x.call(s)
	if stop == 0 {
		noErr(t, s.Sync(background))
	}
	fs.Before(nil)
	if stop == 0 {
		s.Close(background)
	}
	mu.Lock()
	defer mu.Unlock()
	return fs, did, err
}

// TestVersionInAnotherProcess: a version that another process has just replaced waits in
// its slot for history. It is kept, another process can undo to it and restore it, and the
// refusal of a stale call shows what was changed since.
func TestVersionInAnotherProcess(t *testing.T) {
	for _, level := range allLevels {
		for verb, call := range map[string]func(*rw.Store) error{
			"overwrite": do(put("a.txt", otherText, rw.ModeOverwrite)), "delete": doing((*rw.Store).Delete, rw.DeleteRequest{Path: "a.txt"}),
		} {
			for name, back := range map[string]func(*rw.Store) error{"undo": doing((*rw.Store).Undo, rw.UndoRequest{}), "restore": func(s *rw.Store) error {
				v := must(s.History(background, rw.HistoryRequest{Path: "a.txt"}))(t).Versions[1]
				expect(t, v.Available, "%+v", v)
				return errorOf(s.Restore(background, rw.RestoreRequest{Path: "a.txt", Version: v.Version}))
			}} {
				t.Run(fmt.Sprintf("%s/%s/%s", verb, name, level), func(t *testing.T) {
					fs := simfs.New()
					open := func(nonce string) *rw.Store {
						return must(rw.OpenSim(fs, &rw.Options{Sync: level}, rw.Sim{Nonce: nonce, Process: fs.NewProcess(), Manual: true}))(t)
					}
					a, b := open("0001"), open("0002")
					noErr(t, makeA(a))
					for _, text := range []string{longText, otherText, otherText + "third\n"} {
						noErr(t, do(put("b.txt", text, rw.ModeOverwrite))(a))
					}
					noErr(t, call(a))
					for _, path := range []string{"a.txt", "b.txt"} { // the second was replaced twice
						stale := put(path, "mine", rw.ModeOverwrite)
						stale.Expect = rw.Exactly(digest(hash(longText)))
						_, err := b.SafeWrite(background, stale)
						expect(t, errors.Is(err, rw.ErrHashMismatch) && (verb == "delete" && path == "a.txt" || rw.AsError("", err).Context["diff"] != nil), "%s: %v %v", path, err, rw.AsError("", err).Context)
					}
					noErr(t, back(b))
					equal(t, fs.Tree()["a.txt"], longText)
					noErr(t, errors.Join(a.Close(background), b.Close(background)))
				})
			}
		}
	}
}

// readSweep is a call of which one operation that reads fails. Made again, it gives what
// it would have given: what could not be read is not taken for absent or damaged.
type readSweep struct {
	name   string
	before func(*testing.T, *rw.Store)
	disk   func(*simfs.FS) // what other programs change then
	run    func(*rw.Store) error
	look   func(*testing.T, *rw.Store) string
}

var readSweeps = []readSweep{
	{name: "chunks", before: func(t *testing.T, s *rw.Store) {
		must(s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "up", Index: 1, TotalExpected: 3, Content: []byte("one")}))(t)
	}, run: doing((*rw.Store).ChunkWrite, rw.ChunkWriteRequest{Session: "up", Index: 2, Content: []byte("two")}), look: func(t *testing.T, s *rw.Store) string {
		r := must(s.ChunkStatus(background, rw.ChunkStatusRequest{Session: "up"}))(t)
		require(t, r.TotalExpected != nil, "the number of chunks is lost")
		return fmt.Sprint(*r.TotalExpected, r.NextIndex)
	}},
	{name: "scan", before: func(t *testing.T, s *rw.Store) { must(s.Scan(background, around.ScanRequest{}))(t) }, disk: outsideChanges,
		run: doing((*rw.Store).Scan, around.ScanRequest{}), look: observedPaths},
	{name: "end of a call", before: func(t *testing.T, s *rw.Store) {
		must(s.BeginCall(background, around.ToolCall{ID: "c1", Host: "h"}))(t)
		must(s.BeginCall(background, around.ToolCall{ID: "c2", Host: "h"}))(t)
	}, disk: outsideChanges, run: doing((*rw.Store).EndCall, around.ToolCall{ID: "c1", Host: "h"}), look: func(t *testing.T, s *rw.Store) string {
		return fmt.Sprint(observedPaths(t, s), len(must(s.Capture(background))(t).Open))
	}},
	{name: "failures", before: func(t *testing.T, s *rw.Store) {
		for range 4 {
			s.Delete(background, rw.DeleteRequest{Path: "none"})
		}
	}, run: func(s *rw.Store) error {
		s.Delete(background, rw.DeleteRequest{Path: "other"})
		return nil
	}, look: func(t *testing.T, s *rw.Store) string {
		return rw.AsError("", errorOf(s.Delete(background, rw.DeleteRequest{Path: "none"}))).Error()
	}},
	{name: "readers of a handoff", before: func(t *testing.T, s *rw.Store) {
		must(s.HandoffWrite(background, handoff.WriteRequest{Envelope: anEnvelope("t")}))(t)
		must(s.HandoffRead(background, handoff.ReadRequest{AcknowledgeAs: "one"}))(t)
	}, run: doing((*rw.Store).HandoffRead, handoff.ReadRequest{AcknowledgeAs: "two"}), look: func(t *testing.T, s *rw.Store) (names string) {
		for _, r := range must(s.HandoffRead(background, handoff.ReadRequest{}))(t).ReadBy {
			names += r.Name + " "
		}
		return names
	}},
	{name: "versions", before: func(t *testing.T, s *rw.Store) {
		noErr(t, do(put("a.txt", longText, rw.ModeCreate), put("a.txt", otherText, rw.ModeOverwrite))(s))
	}, run: func(s *rw.Store) error {
		_, err := s.Admin().Content(background, admin.ContentRequest{Path: "a.txt", SHA256: digest(hash(longText)), Bytes: int64(len(longText)), Seq: 1})
		if errors.Is(err, rw.ErrVersionNotKept) {
			err = errors.New("a version that could not be read is called lost")
		}
		return err
	}, look: func(t *testing.T, s *rw.Store) string { return "" }},
	{name: "drafts", before: func(*testing.T, *rw.Store) {}, disk: func(f *simfs.FS) {
		f.WriteFile(".resilient_write/quarantine/draft_a.json", []byte(`{"draft_ref":"draft_a","expires_at":"9"}`), 0o600)
	}, run: func(s *rw.Store) error {
		d, err := s.DraftList(background, rw.DraftListRequest{})
		if err == nil && d.Count == 0 {
			err = errors.New("a draft is missing")
		}
		return err
	}, look: func(t *testing.T, s *rw.Store) string { return "" }},
	{name: "handoff", before: func(t *testing.T, s *rw.Store) {
		must(s.HandoffWrite(background, handoff.WriteRequest{Envelope: anEnvelope("t")}))(t)
		must(s.HandoffWrite(background, handoff.WriteRequest{Envelope: anEnvelope("u")}))(t)
		must(s.HandoffRead(background, handoff.ReadRequest{AcknowledgeAs: "one"}))(t)
		must(s.Checkpoint(background, rw.CheckpointRequest{Name: "c", Data: []byte("{}")}))(t)
	}, run: func(s *rw.Store) error {
		h, err := s.HandoffRead(background, handoff.ReadRequest{Optional: true})
		if err == nil && (len(h.Archives) == 0 || len(h.ReadBy) == 0 || len(h.CheckpointRefs) == 0 || len(h.Warnings) > 0) {
			err = fmt.Errorf("something is missing: %+v", h)
		}
		return err
	}, look: func(t *testing.T, s *rw.Store) string { return "" }},
	{name: "facts of the hub", before: func(t *testing.T, s *rw.Store) {
		noErr(t, s.Admin().SetShipState([]byte(`{"seq":1}`)))
	}, run: func(s *rw.Store) error {
		d, err := s.Describe(background, rw.DescribeRequest{})
		if err == nil && d.Hub == nil {
			err = errors.New("a store that is shipped is called one that is not")
		}
		return err
	}, look: func(t *testing.T, s *rw.Store) string { return "" }},
	{name: "claims", before: func(t *testing.T, s *rw.Store) {
		must(s.Claim(rw.WithCaller(background, "", "x"), []string{"a"}, time.Minute))(t)
	}, run: func(s *rw.Store) error {
		return errorOf(s.Claim(rw.WithCaller(background, "", "x"), []string{"b"}, time.Minute))
	}, look: func(t *testing.T, s *rw.Store) string {
		paths := map[string]bool{}
		for _, c := range must(s.Claims(background))(t) {
			paths[c.Paths[0]] = true
		}
		return fmt.Sprint(paths)
	}},
}

// TestAnswersOfAShortage: a call that cannot open a file, because too many are open, fails
// or answers as it does otherwise. So does one that may not read what history has.
func TestAnswersOfAShortage(t *testing.T) {
	dry, first, snapshot := rw.Call{DryRun: true}, "one\ntwo\n", ""
	prepared := func(t *testing.T) (*simfs.FS, *rw.Store) {
		fs := simfs.New()
		fs.WriteFile("given", []byte("given\n"), 0o644)
		s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001", Manual: true}))(t)
		noErr(t, do(put("a", first, rw.ModeCreate), put("a", "three\n", rw.ModeAppend), put("given", "given\nmore\n", rw.ModeOverwrite))(s))
		snapshot = must(s.Snapshot(background, around.SnapshotRequest{}))(t).ID
		noErr(t, do(put("a", "1\n", rw.ModeOverwrite))(s))
		must(s.Restore(background, rw.RestoreRequest{Path: "a", SHA256: digest(hash(first))}))(t)
		must(s.Move(background, rw.MoveRequest{Path: "a", To: "b"}))(t)
		noErr(t, do(put("b", "one\nzwei\n", rw.ModeOverwrite), put("gone", "gone\n", rw.ModeCreate))(s))
		must(s.Delete(background, rw.DeleteRequest{Path: "gone"}))(t)
		must(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "pieces", Content: []byte("1")}))(t)
		must(s.HandoffWrite(background, handoff.WriteRequest{Envelope: anEnvelope("t")}))(t)
		noErr(t, s.Close(background))
		return fs, must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0002", Manual: true}))(t)
	}
	for name, call := range map[string]func(*rw.Store) (any, error){
		"blame":        func(s *rw.Store) (any, error) { return s.Blame(background, around.BlameRequest{Path: "b"}) },
		"blame, given": func(s *rw.Store) (any, error) { return s.Blame(background, around.BlameRequest{Path: "given"}) },
		"changes":      func(s *rw.Store) (any, error) { return s.Changes(background, around.ChangesRequest{Hunks: true}) },
		"diff":         func(s *rw.Store) (any, error) { return s.Diff(background, rw.DiffRequest{Path: "b"}) },
		"history":      func(s *rw.Store) (any, error) { return s.History(background, rw.HistoryRequest{Path: "b"}) },
		"snapshot diff": func(s *rw.Store) (any, error) {
			return s.SnapshotDiff(background, around.SnapshotDiffRequest{From: snapshot})
		},
		"snapshot restore": func(s *rw.Store) (any, error) {
			out, err := s.SnapshotRestore(background, rw.SnapshotRestoreRequest{Call: dry, ID: snapshot})
			return out.Results, err
		},
		"overview": func(s *rw.Store) (any, error) {
			o, err := overview.Read(background, s, overview.NewCleaner(s), overview.Request{Rows: 100, Changes: 10})
			if err == nil && (len(o.Waiting) != 2 || strings.Contains(o.Waiting[0].Text, "chunks: 0")) {
				err = rw.ErrVersionNotKept
			}
			return nil, err
		},
		"undo": func(s *rw.Store) (any, error) {
			_, err := s.Undo(background, rw.UndoRequest{Call: dry, N: 2}) // a file and a deletion
			return errors.Is(err, rw.ErrVersionNotKept), err
		},
	} {
		_, s := prepared(t)
		answer := must(call(s))(t)
		from := 0
		if name == "undo" || name == "snapshot restore" {
			from = -1
		}
		for i, hit := from, "first"; hit != ""; i++ {
			fs, s := prepared(t)
			var got any
			var err error
			n := -1
			hit, _ = injected(t, fs, func(op simfs.Op) (f simfs.Fault) {
				if op.Mut < 0 && strings.HasPrefix(op.String(), "open") {
					if n++; n == i {
						f.Err = syscall.EMFILE
					} else if i < 0 && strings.Contains(op.String(), "/history/") {
						f.Err = syscall.EACCES
					}
				}
				return f
			}, func() error {
				got, err = call(s)
				return err
			})
			expect(t, err != nil && !errors.Is(err, rw.ErrVersionNotKept) || err == nil && reflect.DeepEqual(got, answer), "%s, %s: %v %+v", name, hit, err, got)
			noErr(t, s.Close(background))
		}
	}
}

// outsideChanges are changes of another program, and a directory that git ignores.
func outsideChanges(f *simfs.FS) {
	f.WriteFile("changed", []byte("changed"), 0o644)
	f.WriteFile("d/made", []byte("made"), 0o644)
	f.WriteFile("d/.gitignore", []byte("hidden\n"), 0o644)
	f.WriteFile("d/hidden/x", []byte("hidden"), 0o644)
}

// observedPaths are the files that scans have recorded.
func observedPaths(t *testing.T, s *rw.Store) string {
	paths := map[string]bool{}
	for _, e := range must(s.JournalSince(background, rw.JournalSinceRequest{AfterSeq: new(uint64), IncludeObserved: true}))(t).Entries {
		paths[e.Path] = true
	}
	return fmt.Sprint(paths)
}

// TestReadSweep makes every operation that reads fail. The call does, or does without it;
// its repetition has the same result as if nothing had failed.
func TestReadSweep(t *testing.T) {
	for _, c := range readSweeps {
		for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.EIO, syscall.EACCES} {
			t.Run(fmt.Sprint(c.name, "/", errno), func(t *testing.T) {
				t.Parallel()
				_, s := c.prepare(t)
				noErr(t, errors.Join(c.run(s), c.run(s)))
				want := c.look(t, s)
				for i := 0; ; i++ {
					fs, s := c.prepare(t)
					hit, err := failingRead(t, fs, i, errno, func() error { return c.run(s) })
					expect(t, err == nil || errors.Is(err, rw.ErrTooManyFiles) || errors.Is(err, rw.ErrIO) || errors.Is(err, rw.ErrPermission), "%s: %v", hit, err)
					err = c.run(s)
					if errors.Is(err, rw.ErrStorePoisoned) { // it could not flush
						s.Close(background)
						s = c.open(t, fs, "0003")
						err = c.run(s)
					}
					noErr(t, err, hit)
					if errno != syscall.EACCES || !strings.HasSuffix(hit, ".gitignore") { // git, too, reads none then
						mustEqual(t, c.look(t, s), want, hit)
					}
					noErr(t, s.Close(background))
					length(t, fs.Open(), 0, "open after Close: ", hit)
					if hit == "" {
						return
					}
				}
			})
		}
	}
}

// TestContentOfAnotherPlace: a version that cannot be read in history is read from the file
// that begins with it.
func TestContentOfAnotherPlace(t *testing.T) {
	c := readSweep{before: func(t *testing.T, s *rw.Store) { noErr(t, do(put("a.txt", longText, rw.ModeCreate))(s)) }}
	kinds := map[string]bool{}
	for i, hit := 0, "none"; hit != ""; i++ {
		fs, s := c.prepare(t)
		var err error
		hit, err = failingRead(t, fs, i, syscall.EIO, func() error {
			return errorOf(s.Admin().Content(background, admin.ContentRequest{Path: "a.txt", SHA256: digest(hash(longText)), Bytes: int64(len(longText)), Seq: 1}))
		})
		if kind, path, _ := strings.Cut(hit, " "); strings.Contains(path, "/history/") {
			kinds[kind] = true
			noErr(t, err, hit)
		}
		noErr(t, s.Close(background))
	}
	expect(t, kinds["open"] && kinds["read"], "%v", kinds)
}

func (c readSweep) prepare(t *testing.T) (*simfs.FS, *rw.Store) {
	t.Helper()
	fs := simfs.New()
	fs.WriteFile("changed", []byte("as it was"), 0o644)
	s := c.open(t, fs, "0001")
	c.before(t, s)
	noErr(t, s.Close(background))
	if c.disk != nil {
		c.disk(fs)
	}
	return fs, c.open(t, fs, "0002")
}

func (c readSweep) open(t *testing.T, fs *simfs.FS, nonce string) *rw.Store {
	t.Helper()
	return must(rw.OpenSim(fs, nil, rw.Sim{Nonce: nonce, Manual: true}))(t)
}

// TestReadersBesideOthers stops a call that reads at its operations, while another process
// prunes, erases, archives, lets expire or changes what it reads. It succeeds, or says what
// happened, and Check finds no problem.
func TestReadersBesideOthers(t *testing.T) {
	secret := "correct-horse-battery"
	compact := func(s *rw.Store) error {
		return errorOf(s.Admin().Compact(background, admin.CompactRequest{KeepRows: new(int)}))
	}
	erase := func(s *rw.Store) error {
		return errorOf(s.Admin().Erase(background, admin.EraseRequest{Secret: []byte(secret)}))
	}
	sound := func(s *rw.Store, _, _ string) error {
		r, err := s.Check(background, admin.CheckRequest{Deep: true})
		if err == nil && !r.Clean {
			err = fmt.Errorf("%+v", r.Problems)
		}
		return err
	}
	diff := func(s *rw.Store, from, to string) error {
		return errorOf(s.SnapshotDiff(background, around.SnapshotDiffRequest{From: from, To: to}))
	}
	for _, c := range []besideOthers{
		{name: "check, prune", read: sound, others: compact, policy: "history: {max_versions: 1}\n"},
		{name: "check, erase", read: sound, others: erase},
		{name: "check, archive", read: sound, others: func(s *rw.Store) error {
			return errors.Join(compact(s), do(put("b", "b", rw.ModeOverwrite))(s), compact(s))
		}},
		{name: "scan, erase", read: func(s *rw.Store, snapshot, _ string) error { return diff(s, snapshot, "") }, others: erase, may: rw.ErrIOBusy},
		{name: "snapshots, expire", read: func(s *rw.Store, snapshot, _ string) error { return diff(s, snapshot, snapshot) }, may: rw.ErrNotFound, years: 1,
			others: doing((*rw.Store).Snapshot, around.SnapshotRequest{})},
		{name: "commit, expire", others: compact, years: 1, may: rw.ErrTxNotFound,
			read: func(s *rw.Store, _, tx string) error {
				return errorOf(s.TxCommit(background, rw.TxCommitRequest{TxID: tx}))
			}},
		{name: "diff, change", read: func(s *rw.Store, _, _ string) error { return errorOf(s.Diff(background, rw.DiffRequest{Path: "a"})) },
			others: func(s *rw.Store) error {
				return errors.Join(do(put("a", "others\n", rw.ModeOverwrite))(s), move("a", "b", false)(s))
			}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			step := turns(1)
			for at := phase(step); c.stopped(t, at, secret); at += step {
			}
		})
	}
}

type besideOthers struct {
	name   string
	read   func(s *rw.Store, snapshot, tx string) error
	others func(*rw.Store) error
	years  int    // by which the clock of the others is ahead
	policy string // that the others bring
	may    rw.Detail
}

// stopped makes the call, stopped at an operation; it reports whether it has that many.
func (c besideOthers) stopped(t *testing.T, at int, secret string) bool {
	t.Helper()
	fs := simfs.New()
	sim := func(nonce string) rw.Sim { return rw.Sim{Nonce: nonce, Segment: 800, LockWait: time.Millisecond} }
	s := must(rw.OpenSim(fs, nil, sim("0001")))(t)
	for _, text := range []string{"one\n", secret + "\n", "two\n", "three\n"} {
		noErr(t, do(put("a", text, rw.ModeOverwrite))(s))
	}
	noErr(t, do(put("n/"+secret, "x", rw.ModeCreate))(s))
	snapshot := must(s.Snapshot(background, around.SnapshotRequest{}))(t).ID
	tx := must(s.TxBegin(background, rw.TxBeginRequest{}))(t).TxID
	must(s.TxStage(background, rw.TxStageRequest{TxID: tx, Op: rw.TxOp{Op: "write", Path: "t", Content: []byte("x")}}))(t)
	must(s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte(secret)}))(t)
	must(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "pieces", Content: []byte(secret)}))(t)
	noErr(t, s.Close(background))
	fs.WriteFile("outside", []byte("changed"), 0o644)
	process := fs.NewProcess()
	it := sim("0002")
	it.Process = process
	s = must(rw.OpenSim(fs, nil, it))(t)
	reached, ended := process.PauseAt(at), make(chan error, 1)
	go func() { ended <- c.read(s, snapshot, tx) }()
	var err error
	stopped := false
	select {
	case err = <-ended:
	case <-reached:
		if stopped = true; c.policy != "" {
			fs.WriteFile(rw.StateDirName+"/policy.yaml", []byte(c.policy), 0o600)
		}
		others := sim("0003")
		others.Years = c.years
		if o, err := rw.OpenSim(fs, &rw.Options{LockTimeout: time.Millisecond}, others); err == nil {
			c.others(o) // it fails where the other process has a lock
			o.Close(background)
		}
		process.Continue()
		err = <-ended
	}
	process.Continue()
	expect(t, err == nil || c.may != "" && errors.Is(err, c.may), "stopped at %d: %v", at, err)
	noErr(t, s.Close(background))
	return stopped
}

// TestVersionsOfConcurrentCommits: concurrent commits at full move what they replace into
// history after their replies. Another process finds each version from the reply on, and
// once the store is closed all are in history.
func TestVersionsOfConcurrentCommits(t *testing.T) {
	t.Parallel()
	later := 0 // how often there were two at once
	for range 10 {
		if versionsOfConcurrentCommits(t) > 0 {
			later++
		}
	}
	expect(t, later > 0, "everything was in history before the replies")
}

// versionsOfConcurrentCommits returns how many versions were not in history yet when the
// last reply came.
func versionsOfConcurrentCommits(t *testing.T) int {
	const writers, rounds = 4, 6
	fs := simfs.New()
	a := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001", Process: fs.NewProcess(), Beside: true, Manual: true}))(t)
	b := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0002", Process: fs.NewProcess(), Manual: true}))(t)
	content := func(w, i int) string { return fmt.Sprintf("%d of %d\n", i, w) }
	fs.Before(func(simfs.Op) { runtime.Gosched() }) // the commits are concurrent on one processor too
	var wg sync.WaitGroup
	for w := range writers {
		path := fmt.Sprint("f", w)
		wg.Go(func() {
			for i := range rounds {
				if _, err := a.SafeWrite(background, put(path, content(w, i), rw.ModeOverwrite)); err != nil {
					t.Error(err)
					return
				}
				h, err := b.History(background, rw.HistoryRequest{Path: path})
				if err != nil || len(h.Versions) != i+1 {
					t.Errorf("%s after %d writes: %+v %v", path, i+1, h, err)
					return
				}
				for back, v := range h.Versions {
					r, err := b.Read(background, rw.ReadRequest{Path: path, Version: v.Version})
					expect(t, err == nil && string(r.Content) == content(w, i-back),
						"version %d of %s after %d writes: %q %v", v.Version, path, i+1, r.Content, err)
				}
			}
		})
	}
	wg.Wait()
	later := len(must(a.Unfinished())(t))
	noErr(t, a.Close(background))
	length(t, must(b.Unfinished())(t), 0, "left in staging")
	check(t, b, true)
	noErr(t, b.Close(background))
	return later
}
