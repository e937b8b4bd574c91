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
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// attack is a call with an idempotency key, which is broken off everywhere
// while others act on the same disk.
type attack struct {
	name   string
	opts   rw.Options
	sim    rw.Sim
	disk   func(*simfs.FS)
	before func(*rw.Store) error
	run    func(*rw.Store) error
	paths  []string          // files that the call touches
	new    map[string]string // after it
	inside bool              // it writes into the file, so a stranger's bytes and ours mix
}

const attackKey = "once"

func keyed(r rw.SafeWriteRequest) func(*rw.Store) error {
	r.IdempotencyKey = attackKey
	return do(r)
}

func keyedTx(ops ...rw.TxOp) func(*rw.Store) error {
	return doing((*rw.Store).Tx, rw.TxRequest{Ops: ops, Call: rw.Call{IdempotencyKey: attackKey}})
}

func keyedMove(from, to string, over bool) func(*rw.Store) error {
	return doing((*rw.Store).Move, rw.MoveRequest{Path: from, To: to, Overwrite: over, Call: rw.Call{IdempotencyKey: attackKey}})
}

var (
	makeA  = do(put("a.txt", longText, rw.ModeCreate))
	makeAB = do(put("a.txt", longText, rw.ModeCreate), put("d/b.txt", otherText, rw.ModeCreate))
	linkA  = linkedFile(longText)
	linkB  = linkedFile(otherText)
)

// linkedFile makes a file with two names.
func linkedFile(text string) func(*simfs.FS) {
	return func(f *simfs.FS) {
		f.WriteFile("a.txt", []byte(text), 0o644)
		d := f.Foreign()
		d.Link("a.txt", d, "link.txt")
		d.Sync()
	}
}

var attacks = []attack{
	{name: "create", run: keyed(put("a.txt", otherText, rw.ModeCreate)), paths: []string{"a.txt"}, new: map[string]string{"a.txt": otherText}},
	{name: "create deep", run: keyed(put("d/e/a.txt", otherText, rw.ModeCreate)), paths: []string{"d/e/a.txt"}, new: map[string]string{"d/e/a.txt": otherText}},
	{name: "create below", before: do(put("d/b.txt", longText, rw.ModeCreate)), run: keyed(put("d/a.txt", otherText, rw.ModeCreate)),
		paths: []string{"d/a.txt"}, new: map[string]string{"d/a.txt": otherText, "d/b.txt": longText}},
	{name: "replace", before: makeA, run: keyed(put("a.txt", otherText, rw.ModeOverwrite)), paths: []string{"a.txt"}, new: map[string]string{"a.txt": otherText}},
	{name: "replace below", before: do(put("d/a.txt", longText, rw.ModeCreate)), run: keyed(put("d/a.txt", otherText, rw.ModeOverwrite)),
		paths: []string{"d/a.txt"}, new: map[string]string{"d/a.txt": otherText}},
	{name: "replace a stranger's", disk: func(f *simfs.FS) { f.WriteFile("a.txt", []byte(longText), 0o640) },
		run: keyed(put("a.txt", otherText, rw.ModeOverwrite)), paths: []string{"a.txt"}, new: map[string]string{"a.txt": otherText}},
	{name: "append copied", before: makeA, run: keyed(put("a.txt", otherText, rw.ModeAppend)), paths: []string{"a.txt"}, new: map[string]string{"a.txt": longText + otherText}},
	{name: "append in place", sim: rw.Sim{AppendFrom: 1}, before: makeA, run: keyed(put("a.txt", otherText, rw.ModeAppend)), inside: true,
		paths: []string{"a.txt"}, new: map[string]string{"a.txt": longText + otherText}},
	{name: "hard link in place", opts: rw.Options{HardLinks: rw.HardLinksInPlace}, disk: linkA, inside: true,
		run: keyed(put("a.txt", otherText, rw.ModeOverwrite)), paths: []string{"a.txt"}, new: map[string]string{"a.txt": otherText, "link.txt": otherText}},
	{name: "hard link in place, shorter", opts: rw.Options{HardLinks: rw.HardLinksInPlace}, disk: linkB, inside: true,
		run: keyed(put("a.txt", longText, rw.ModeOverwrite)), paths: []string{"a.txt"}, new: map[string]string{"a.txt": longText, "link.txt": longText}},
	{name: "delete", before: makeA, run: doing((*rw.Store).Delete, rw.DeleteRequest{Path: "a.txt", Call: rw.Call{IdempotencyKey: attackKey}}), paths: []string{"a.txt"}, new: map[string]string{}},
	{name: "move", before: makeA, run: keyedMove("a.txt", "b.txt", false), paths: []string{"a.txt", "b.txt"}, new: map[string]string{"b.txt": longText}},
	{name: "move into new", before: makeA, run: keyedMove("a.txt", "n/m/b.txt", false), paths: []string{"a.txt", "n/m/b.txt"}, new: map[string]string{"n/m/b.txt": longText}},
	{name: "move over", before: makeAB, run: keyedMove("a.txt", "d/b.txt", true), paths: []string{"a.txt", "d/b.txt"}, new: map[string]string{"d/b.txt": longText}},
	{name: "move directory", before: do(put("d/a.txt", longText, rw.ModeCreate), put("d/e/b.txt", otherText, rw.ModeCreate)), run: keyedMove("d", "n/m", false),
		paths: []string{"d/a.txt", "n/m/e/b.txt"}, new: map[string]string{"n/m/a.txt": longText, "n/m/e/b.txt": otherText}},
	{name: "tx", before: makeAB, run: keyedTx(txWrite("a.txt", otherText, rw.ModeOverwrite), txMove("d/b.txt", "n/c.txt", false), txWrite("new.txt", "new one\n", "")),
		paths: []string{"a.txt", "d/b.txt", "n/c.txt", "new.txt"}, new: map[string]string{"a.txt": otherText, "n/c.txt": otherText, "new.txt": "new one\n"}},
	{name: "tx of deletes", before: makeAB, run: keyedTx(txDelete("a.txt"), txDelete("d/b.txt"), txWrite("a.new", "new one\n", "")),
		paths: []string{"a.txt", "d/b.txt", "a.new"}, new: map[string]string{"a.new": "new one\n"}},
}

const (
	humansText = "what the human wrote meanwhile, which must not be lost\n"
	humanMoved = "moved-by-the-human.txt"
)

// besideText is the content that a process writes during a recovery.
var besideText = strings.Repeat("a line of the other process\n", 60)

// The state of some attacks is on a file system of its own, so that their slots are
// in a directory of the workspace. The content of others is in its slot before it is hashed.
func init() {
	for _, x := range attacks {
		switch x.name {
		case "create", "replace", "delete", "move over", "tx":
			x.name, x.sim.Mount = x.name+", the state elsewhere", true
			attacks = append(attacks, x)
		case "create deep", "replace below":
			x.name, x.sim.AheadFrom = x.name+", written ahead", 1
			attacks = append(attacks, x)
		}
	}
	for _, x := range attacks { // where names can neither be swapped nor moved without replacing
		switch x.name {
		case "create", "replace a stranger's":
			disk := x.disk
			x.name, x.disk = x.name+", plain rename", func(f *simfs.FS) {
				if f.NoExchange, f.NoReplace = true, true; disk != nil {
					disk(f)
				}
			}
			attacks = append(attacks, x)
		}
	}
}

// humans are the changes that a user makes to a file, with a shell or an editor, while
// no store is open.
var humans = map[string]func(d fsx.Dir, name string, before string){
	"nothing": func(fsx.Dir, string, string) {},
	"reverts": func(d fsx.Dir, name, before string) { replaceBy(d, name, before) },
	"saves":   func(d fsx.Dir, name, _ string) { replaceBy(d, name, humansText) },
	"edits": func(d fsx.Dir, name, _ string) {
		if f, err := d.Open(name, fsx.Read|fsx.Write, 0); err == nil {
			st, _ := f.Stat()
			f.WriteAt([]byte(humansText), st.Size)
			f.Close()
		}
	},
	"corrects the beginning": func(d fsx.Dir, name, _ string) {
		if f, err := d.Open(name, fsx.Read|fsx.Write, 0); err == nil {
			f.WriteAt([]byte(humansText), 0)
			f.Close()
		}
	},
	"deletes": func(d fsx.Dir, name, _ string) { d.Remove(name) },
	"moves":   func(d fsx.Dir, name, _ string) { d.Rename(name, d, humanMoved) },
	"makes a directory": func(d fsx.Dir, name, _ string) {
		d.Remove(name)
		d.Mkdir(name, 0o755)
	},
}

func replaceBy(d fsx.Dir, name, content string) {
	if content == "" {
		d.Remove(name)
		return
	}
	f, err := d.Open(".human", fsx.Write|fsx.Create, 0o644)
	if err != nil {
		return
	}
	f.WriteAt([]byte(content), 0)
	f.Sync()
	f.Close()
	d.Rename(".human", d, name)
}

// act applies the human's change to one file; a file in a missing directory is skipped.
func act(disk *simfs.FS, how, name, before string) {
	d := disk.Foreign()
	dir, base := path.Split(name)
	for _, part := range strings.Split(strings.TrimSuffix(dir, "/"), "/") {
		if part == "" {
			continue
		}
		next, err := d.OpenDir(part)
		if err != nil {
			return
		}
		d = next
	}
	humans[how](d, base, before)
}

func (x attack) open(disk *simfs.FS, level rw.SyncLevel, nonce string) (*rw.Store, error) {
	opts, sim := x.opts, x.sim
	opts.Sync, sim.Nonce, sim.Manual = level, nonce, true
	return rw.OpenSim(disk, &opts, sim)
}

// prepared returns a disk on which the call can be made, and a store of it.
func (x attack) prepared(t *testing.T, level rw.SyncLevel) (*simfs.FS, *rw.Store) {
	t.Helper()
	fs := simfs.New()
	if x.disk != nil {
		x.disk(fs)
	}
	s := must(x.open(fs, level, "0001"))(t)
	if x.before != nil {
		noErr(t, x.before(s))
		noErr(t, s.Close(background))
		s = must(x.open(fs, level, "0002"))(t)
	}
	return fs, s
}

// broken runs the call until the process dies at operation n. What the files held is kept.
func (x attack) broken(t *testing.T, level rw.SyncLevel, n int) (fs *simfs.FS, err error) {
	t.Helper()
	fs, s := x.prepared(t, level)
	was := files(fs)
	fs.StopAt(n)
	err = x.run(s)
	fs.StopAt(-1)
	for p, text := range was {
		require(t, haveText(contents(fs, true), text), "operation %d: the version of %s before the call is lost", n, p)
	}
	return fs, err
}

// contents returns the texts on a disk, outside of the store's own files.
func contents(disk *simfs.FS, staged bool) []string {
	var list []string
	for p, text := range disk.Tree() {
		slot := strings.Contains(p, "/staging/") || strings.Contains(p, relpath.SlotsPrefix)
		if !ofStore(p) || strings.Contains(p, "/history/") || staged && slot {
			list = append(list, text)
		}
	}
	return list
}

func haveText(list []string, text string) bool {
	return slices.ContainsFunc(list, func(s string) bool { return strings.Contains(s, text) })
}

// judge opens the disk and compares: everything that was in the workspace or
// belonged to a commit is there still, an acknowledged call happened, and its
// key is not free.
func (x attack) judge(t *testing.T, disk *simfs.FS, level rw.SyncLevel, acked bool) rw.RecoveryReport {
	t.Helper()
	kept, staged, left := contents(disk, false), contents(disk, true), files(disk)
	s := must(x.open(disk, level, "0003"))(t)
	now := contents(disk, false)
	defer func() {
		if t.Failed() {
			t.Logf("before the open %s\nafter it %s\nrecovery %+v", brief(left), brief(files(disk)), s.Recovery())
		}
	}()
	op := must(s.Operation(background, rw.OperationRequest{IdempotencyKey: attackKey}))(t, "operation")
	known := len(op.Entries) > 0
	require(t, !acked || known, "an acknowledged call is not in the journal")
	texts := []string{humansText, longText, otherText, "new one\n"}
	for _, text := range texts {
		require(t, !haveText(kept, text) || haveText(now, text), "%.20q was in the workspace, and is lost", text)
		if known && haveText(staged, text) && !haveText(now, text) {
			t.Fatalf("%.20q was in a slot of a commit, and is lost", text)
		}
	}
	for p := range disk.Tree() {
		require(t, path.Base(p) != hash(""), "an unused slot became a version")
	}
	before := files(disk)
	for p, text := range left {
		require(t, !strings.Contains(text, humansText) || before[p] == text, "what a human wrote to %s was changed: %.90q", p, before[p])
	}
	err := x.run(s)
	if known {
		require(t, op.Entries[0].Kind != "conflict" || err != nil, "the key of a commit that ended in a conflict replays a success")
		require(t, err == nil || errors.Is(err, rw.ErrChangedOutside) || errors.Is(err, rw.ErrNotADirectory), "the call with the same key: %v", err)
		if after := files(disk); !maps.Equal(before, after) {
			t.Fatalf("the call with the same key ran again: %s, before %s", brief(after), brief(before))
		}
	}
	noErr(t, s.Close(background))
	return s.Recovery()
}

var allLevels = []rw.SyncLevel{rw.SyncFull, rw.SyncJournal, rw.SyncOff}

// TestHumanSweep: a call is killed, or the power is cut, at each operation; a
// human works on each of its files; the store is opened.
func TestHumanSweep(t *testing.T) {
	step := attackStep(5)
	for i, x := range attacks {
		for j, level := range inTurn(i, allLevels...) {
			t.Run(x.name+"/"+string(level), func(t *testing.T) {
				t.Parallel()
				for n := (phase(step) + i + j) % step; ; n += step {
					fs, err := x.broken(t, level, n)
					if x.humansAct(t, fs, level, n, err == nil); t.Failed() || err == nil {
						return
					}
				}
			})
		}
	}
}

func (x attack) humansAct(t *testing.T, fs *simfs.FS, level rw.SyncLevel, n int, acked bool) {
	t.Helper()
	losses := []simfs.Loss{simfs.None}
	if level != rw.SyncOff {
		losses = append(losses, simfs.Older)
	}
	before := files(fs.Crash(0, simfs.None))
	for _, loss := range losses {
		for how := range humans {
			for _, name := range x.paths {
				for seed := range someLosses(30, n) {
					disk := fs.Crash(seed*7919+uint64(n), loss)
					act(disk, how, name, before[name])
					left := files(disk)
					report := x.judge(t, disk, level, acked)
					if acked && level == rw.SyncFull && len(report.Conflicts) > 0 {
						t.Errorf("an acknowledged call became a conflict: %v", report.Conflicts)
					}
					if acked && level != rw.SyncJournal && !maps.Equal(files(disk), left) {
						t.Errorf("the human left %s, the open made %s of it", brief(left), brief(files(disk)))
					}
					expect(t, how != "nothing" || len(report.Conflicts) == 0, "conflicts %v", report.Conflicts)
					if acked && how == "nothing" && !maps.Equal(files(disk), x.new) {
						t.Errorf("found %s", brief(files(disk)))
					}
					require(t, !t.Failed(), "operation %d, loss %v, seed %d: the human %s %s; acknowledged: %v", n, loss, seed, how, name, acked)
					if loss == simfs.None {
						break
					}
				}
			}
		}
	}
}

// TestHumanBeforeThePowerCutSweep: at the level journal a user edits or reverts a file right
// after the reply, durably, and the power is cut. Bytes that are not those of the row are
// never published: they become a version. After Sync, what the user did stays.
func TestHumanBeforeThePowerCutSweep(t *testing.T) {
	t.Parallel()
	for i, x := range attacks {
		for how := range humans {
			for _, name := range x.paths {
				for _, seed := range inTurn(i+len(how), 0, 1, 2, 3, 4, uint64(5)) {
					x.actBefore(t, how, name, seed)
				}
			}
		}
	}
}

func (x attack) actBefore(t *testing.T, how, name string, seed uint64) {
	t.Helper()
	synced := seed%2 > 0
	fs := simfs.New()
	if x.disk != nil {
		x.disk(fs)
	}
	s := must(x.open(fs, rw.SyncJournal, "0001"))(t)
	if x.before != nil {
		noErr(t, x.before(s))
	}
	noErr(t, s.Sync(background))
	before := files(fs)
	noErr(t, x.run(s))
	if synced {
		noErr(t, s.Sync(background))
	}
	act(fs, how, name, before[name])
	left := files(fs)
	d := fs.Foreign()
	if synced {
		d.Sync()
	}
	if f, err := d.Open(name, fsx.Read, 0); err == nil {
		f.Sync()
	}
	disk := fs.Crash(seed, []simfs.Loss{simfs.All, simfs.All, simfs.Some}[seed%3])
	hidden := !haveText(slices.Collect(maps.Values(files(disk))), humansText)
	report := x.judge(t, disk, rw.SyncJournal, true)
	now := files(disk)
	expect(t, !hidden || !haveText(slices.Collect(maps.Values(now)), humansText), "bytes that are not those of the row were published")
	if synced && path.Dir(name) == "." && !maps.Equal(now, left) {
		t.Errorf("after Sync the human left %s, the open made %s of it", brief(left), brief(now))
	}
	if t.Failed() {
		t.Fatalf("%s: the human %s %s, seed %d: found %s, recovery %+v", x.name, how, name, seed, brief(now), report)
	}
}

// upheavals are what happens to whole directories while no store is open. They
// return false where the disk gives no cause for them.
var upheavals = map[string]func(disk *simfs.FS, x attack) (*simfs.FS, bool){
	"the directory becomes a file": func(disk *simfs.FS, x attack) (*simfs.FS, bool) {
		top, _, below := strings.Cut(x.paths[len(x.paths)-1], "/")
		if !below {
			return disk, false
		}
		d := disk.Foreign()
		d.Rename(top, d, humanMoved)
		replaceBy(d, top, humansText)
		return disk, true
	},
	"the directory is moved": func(disk *simfs.FS, x attack) (*simfs.FS, bool) {
		d := disk.Foreign()
		return disk, strings.Contains(x.name, "below") && d.Rename("d", d, humanMoved) == nil
	},
	"the store is copied": func(disk *simfs.FS, _ attack) (*simfs.FS, bool) { return disk.Copied(), true },
	"staging is removed": func(disk *simfs.FS, _ attack) (*simfs.FS, bool) {
		state, err := disk.Foreign().OpenDir(rw.StateDirName)
		if err != nil {
			return disk, false
		}
		staging, err := state.OpenDir("staging")
		if err != nil {
			return disk, false
		}
		names, _ := staging.Names()
		for _, name := range names {
			staging.Remove(name)
		}
		state.Rmdir("staging")
		return disk, true
	},
	"the slots are removed": func(disk *simfs.FS, x attack) (*simfs.FS, bool) {
		d := disk.Foreign()
		names, _ := d.Names()
		for _, name := range names {
			if !strings.HasPrefix(name, relpath.SlotsPrefix) {
				continue
			}
			slots, err := d.OpenDir(name)
			if err != nil {
				return disk, false
			}
			held, _ := slots.Names()
			for _, name := range held {
				slots.Remove(name)
			}
			d.Rmdir(name)
		}
		return disk, x.sim.Mount
	},
}

// TestUpheavalSweep: between the death of a process and the next Open, a directory
// becomes a file or is moved, the state directory is copied, or its slots are removed.
// Acknowledged writes are present, or a conflict says why they are not; a copy of a store
// behaves like the store itself; recovery makes no directory that the call did not make.
func TestUpheavalSweep(t *testing.T) {
	step := attackStep(4)
	for what, change := range upheavals {
		for i, x := range attacks {
			for j, level := range inTurn(i+len(what), allLevels...) {
				t.Run(what+"/"+x.name+"/"+string(level), func(t *testing.T) {
					t.Parallel()
					for n := (phase(step) + i + j) % step; ; n += step {
						fs, err := x.broken(t, level, n)
						losses := []simfs.Loss{simfs.None, simfs.Older}
						if level == rw.SyncOff {
							losses = losses[:1]
						}
						for _, loss := range losses {
							for seed := range someLosses(30, n) {
								plain := fs.Crash(seed*7919+uint64(n), loss)
								disk, fits := change(fs.Crash(seed*7919+uint64(n), loss), x)
								if !fits {
									return
								}
								x.upheaval(t, what, plain, disk, level, err == nil)
								require(t, !t.Failed(), "operation %d, loss %v, seed %d, acknowledged %v", n, loss, seed, err == nil)
							}
						}
						if err == nil {
							return
						}
					}
				})
			}
		}
	}
}

func (x attack) upheaval(t *testing.T, what string, plain, disk *simfs.FS, level rw.SyncLevel, acked bool) {
	t.Helper()
	if what == "the directory is moved" {
		noErr(t, must(x.open(disk, level, "0004"))(t).Close(background))
		equal(t, dirsOf(disk), humanMoved, "directories after the open")
	}
	report := x.judge(t, disk, level, acked)
	switch what {
	case "the store is copied":
		x.judge(t, plain, level, acked)
		if want := files(plain); !maps.Equal(files(disk), want) {
			t.Errorf("the copy became %s, the store %s", brief(files(disk)), brief(want))
		}
	case "staging is removed", "the slots are removed":
		if maps.Equal(files(disk), x.new) {
			return
		}
		if acked && len(report.Conflicts) == 0 {
			t.Errorf("found %s, and no conflict", brief(files(disk)))
		}
		for _, c := range report.Conflicts {
			expect(t, c.Reason == "unwitnessed" || c.Reason == "changed_by_somebody_else", "%+v", c)
		}
	}
}

// TestSlotsRemovedSweep: before each operation of a call, another program removes the
// directory of slots. After a success the files are those of the call, and after an error
// with the effect none those before it.
func TestSlotsRemovedSweep(t *testing.T) {
	for i, x := range attacks {
		for _, level := range inTurn(i, allLevels...) {
			if !x.sim.Mount {
				continue
			}
			t.Run(x.name+"/"+string(level), func(t *testing.T) {
				t.Parallel()
				for n, reached := 0, true; reached; n++ {
					fs, s := x.prepared(t, level)
					want, count := files(fs), 0
					fs.Before(func(simfs.Op) {
						if count++; count == n+1 {
							upheavals["the slots are removed"](fs, x)
						}
					})
					err := x.run(s)
					fs.Before(nil)
					if reached = count > n; err == nil {
						want = x.new
					}
					have := files(fs)
					require(t, maps.Equal(have, want) || err != nil && rw.AsError("", err).Effect != rw.EffectNone, "removed before operation %d, the call: %v: found %s", n, err, brief(have))
				}
			})
		}
	}
}

// TestTwoOpenersSweep: while a process recovers, before each of its operations, another
// one opens the store, or one that has it open writes and dies. Then the first one is
// killed, or continues, or the power fails.
func TestTwoOpenersSweep(t *testing.T) {
	step := attackStep(13)
	for i, x := range attacks {
		for j, level := range inTurn(i, allLevels...) {
			t.Run(x.name+"/"+string(level), func(t *testing.T) {
				t.Parallel()
				for n := (phase(step) + i + j) % step; ; n += step {
					fs, err := x.broken(t, level, n)
					for m := (i + n) % step; x.openBeside(t, fs, level, n, m, err == nil); m += step {
					}
					if t.Failed() || err == nil {
						return
					}
				}
			})
		}
	}
}

// openBeside opens the disk after operation n, and lets another process act at
// operation m of that; false if there are fewer.
func (x attack) openBeside(t *testing.T, fs *simfs.FS, level rw.SyncLevel, n, m int, acked bool) (reached bool) {
	t.Helper()
	x.opts.LockTimeout, x.sim.LockWait = time.Millisecond, time.Millisecond
	hows := []string{"opens", "writes and dies", "opens, and the first one dies", "opens, and the power is cut"}
	if short() {
		hows = hows[(n+m)%4:][:1]
	}
	for _, how := range hows {
		loss := simfs.None
		if level != rw.SyncOff && n%2 == 1 {
			loss = simfs.Older
		}
		disk := fs.Crash(uint64(n), loss)
		first, second := disk.NewProcess(), disk.NewProcess()
		y := x
		y.sim.Process = second
		var beside *rw.Store
		if how == "writes and dies" {
			// It opened the store before the first process, and leaves it to that
			// one to recover.
			beside = y.openUnrecovered(t, disk, level)
		}
		count := 0
		reached = false
		disk.Before(func(op simfs.Op) {
			if count++; count != m+1 || reached {
				return
			}
			reached = true
			disk.Before(nil)
			if beside != nil {
				second.StopAt(9 + (n+m)%7)
				beside.SafeWrite(background, put("beside.txt", besideText, rw.ModeCreate))
				second.Kill()
				return
			}
			y.open(disk, level, "0008")
			if strings.Contains(how, "first one dies") {
				first.Kill()
			}
		})
		z := x
		z.sim.Process = first
		s, err := z.open(disk, level, "0009")
		disk.Before(nil)
		died := reached && strings.Contains(how, "first one dies") // the error is that of a dead process
		require(t, err == nil || died || errors.Is(err, simfs.ErrDead) || errors.Is(err, rw.ErrLockTimeout),
			"operation %d, %s at %d: open: %v (%v)", n, how, m, err, errors.Unwrap(err))
		_ = s
		loss = simfs.None
		if strings.Contains(how, "power") && level != rw.SyncOff {
			loss = simfs.Older
		}
		last := disk.Crash(uint64(n+m), loss)
		report := x.judge(t, last, level, acked)
		if acked && !maps.Equal(withoutBeside(files(last)), x.new) {
			t.Errorf("found %s", brief(files(last)))
		}
		length(t, report.Conflicts, 0, "conflicts")
		x.explainsBeside(t, last, level)
		require(t, !t.Failed(), "operation %d, another process %s at operation %d of the recovery; acknowledged: %v", n, how, m, acked)
	}
	return reached
}

// openUnrecovered opens a store as another process while a third one holds the lock of
// the recovery, so that it leaves everything unchanged.
func (x attack) openUnrecovered(t *testing.T, disk *simfs.FS, level rw.SyncLevel) *rw.Store {
	t.Helper()
	x.sim.Unrecovered = true
	return must(x.open(disk, level, "0007"))(t)
}

// TestUnsettledSweep: at the level journal a process changes files whose last commits, its
// own or those of another process, are not flushed under their names, and the power is cut
// at each operation. The files are as before the call or as after it.
func TestUnsettledSweep(t *testing.T) {
	for i, x := range attacks {
		if x.before == nil {
			continue
		}
		for _, who := range inTurn(i, 0, 1) {
			t.Run(fmt.Sprint(x.name, "/", who), func(t *testing.T) {
				t.Parallel()
				for n := 0; !x.unsettled(t, who, n); n++ {
				}
			})
		}
	}
}

// unsettled runs the call in one of two processes until the power is cut at operation n,
// and reports whether it was acknowledged before.
func (x attack) unsettled(t *testing.T, who, n int) (acked bool) {
	t.Helper()
	fs := simfs.New()
	var stores [2]*rw.Store
	for i := range stores { // with slots: to make some would flush what left their directory
		y := x
		y.sim.Slots, y.sim.Process = 8, fs.NewProcess()
		stores[i] = must(y.open(fs, rw.SyncJournal, fmt.Sprint("000", i)))(t)
		noErr(t, do(put("first.txt", "first", rw.ModeCreate))(stores[i]))
		deleted(t, stores[i], "first.txt")
	}
	noErr(t, x.before(stores[0]))
	before := files(fs)
	fs.StopAt(n)
	acked = x.run(stores[who]) == nil
	for _, loss := range []simfs.Loss{simfs.All, simfs.Some, simfs.Older} {
		for seed := range someLosses(60, n) {
			disk := fs.Crash(seed, loss)
			after := must(x.open(disk, rw.SyncJournal, "0003"))(t)
			if now := files(disk); !maps.Equal(now, x.new) && (acked || !maps.Equal(now, before)) {
				t.Fatalf("power cut at %d, loss %v, seed %d, acknowledged %v: found %s, recovery %+v", n, loss, seed, acked, brief(now), after.Recovery())
			}
			noErr(t, after.Close(background))
		}
	}
	return acked
}

// TestDeletedAfterRecovery: recovery completes a create where names cannot be moved without
// replacing, a user deletes the file, and the power is cut. The slot does not come back.
func TestDeletedAfterRecovery(t *testing.T) {
	fs := simfs.New()
	fs.NoExchange, fs.NoReplace = true, true
	s := must(attack{}.open(fs, rw.SyncFull, "0001"))(t)
	fs.Before(func(op simfs.Op) {
		if op.Kind == "link" {
			fs.StopAt(0)
		}
	})
	isErr(t, makeA(s), simfs.ErrDead)
	fs.Before(nil)
	fs.StopAt(-1)
	fs.Kill()
	must(attack{}.open(fs, rw.SyncFull, "0002"))(t)
	equal(t, files(fs)["a.txt"], longText)
	d := fs.Foreign()
	d.Remove("a.txt")
	d.Sync()
	disk := fs.Crash(0, simfs.All)
	must(attack{}.open(disk, rw.SyncFull, "0003"))(t)
	equal(t, len(files(disk)), 0, "files")
}

// TestOlderCommitSweep: a call whose slot is not emptied yet is followed by another
// process that writes the content before it again. Then the first process dies, and the
// power is cut or not. The newer commit stays.
func TestOlderCommitSweep(t *testing.T) {
	for _, x := range attacks {
		if x.before == nil && x.disk == nil || x.paths[0] != "a.txt" || len(x.paths) > 1 {
			continue
		}
		for _, level := range allLevels[:2] {
			for _, loss := range []simfs.Loss{simfs.None, simfs.Older, simfs.All} {
				fs := simfs.New()
				if x.disk != nil {
					x.disk(fs)
				}
				first, second := x, x
				first.sim.Process, second.sim.Process = fs.NewProcess(), fs.NewProcess()
				s := must(first.open(fs, level, "0001"))(t)
				if x.before != nil {
					noErr(t, x.before(s))
					noErr(t, s.Sync(background))
				}
				beside := must(second.open(fs, level, "0002"))(t)
				noErr(t, x.run(s))
				r := put("a.txt", longText, rw.ModeOverwrite)
				r.AllowShrink = true
				noErr(t, do(r)(beside))
				first.sim.Process.Kill()
				second.sim.Process.Kill()
				disk := fs.Crash(1, loss)
				after := must(x.open(disk, level, "0003"))(t)
				if have := files(disk)["a.txt"]; have != longText || len(after.Recovery().Conflicts) > 0 {
					t.Errorf("%s, %s, loss %v: found %.30q of %d bytes, recovery %+v", x.name, level, loss, have, len(have), after.Recovery())
				}
				noErr(t, after.Close(background))
			}
		}
	}
}

func withoutBeside(m map[string]string) map[string]string {
	delete(m, "beside.txt")
	return m
}

// explainsBeside: if the journal contains the write made during the recovery, its file
// exists.
func (x attack) explainsBeside(t *testing.T, disk *simfs.FS, level rw.SyncLevel) {
	t.Helper()
	s := must(x.open(disk, level, "0005"))(t)
	defer s.Close(background)
	h, err := s.History(background, rw.HistoryRequest{Path: "beside.txt"})
	have, _ := disk.ReadFile("beside.txt")
	expect(t, err != nil || len(h.Versions) == 0 || string(have) == besideText,
		"the journal holds the write of beside.txt, the disk %.20q; recovery %+v", have, s.Recovery())
}

// takenBack are attacks in which another program makes the last file at the last
// moment, so that the commit is rolled back. Nothing of it may be left, unless the
// bytes of another program were written over it.
var takenBack = []attack{
	{name: "replace", run: keyedTx(txWrite("a.txt", otherText, rw.ModeOverwrite), txWrite("bad.txt", "new one\n", "")), paths: []string{"a.txt"}},
	{name: "create", run: keyedTx(txWrite("new.txt", otherText, ""), txWrite("bad.txt", "new one\n", "")), paths: []string{"new.txt"}},
	{name: "delete", run: keyedTx(txDelete("a.txt"), txWrite("bad.txt", "new one\n", "")), paths: []string{"a.txt"}},
	{name: "move", run: keyedTx(txMove("a.txt", "n/m.txt", false), txWrite("bad.txt", "new one\n", "")), paths: []string{"a.txt", "n/m.txt"}},
	{name: "move over", run: keyedTx(txMove("a.txt", "d/b.txt", true), txWrite("bad.txt", "new one\n", "")), paths: []string{"a.txt", "d/b.txt"}},
	{name: "append in place", sim: rw.Sim{AppendFrom: 1}, inside: true, run: func(s *rw.Store) error {
		return s.CommitAll(background, put("a.txt", otherText, rw.ModeAppend), put("bad.txt", "new one\n", rw.ModeCreate))
	}, paths: []string{"a.txt"}},
	{name: "in place", opts: rw.Options{HardLinks: rw.HardLinksInPlace}, inside: true, run: func(s *rw.Store) error {
		return s.CommitAll(background, put("l.txt", otherText, rw.ModeOverwrite), put("bad.txt", "new one\n", rw.ModeCreate))
	}, paths: []string{"l.txt"}},
	{name: "mixed", run: keyedTx(txWrite("a.txt", otherText, rw.ModeOverwrite), txDelete("l2.txt"), txMove("d/b.txt", "n/m.txt", false), txWrite("bad.txt", "new one\n", "")),
		paths: []string{"a.txt", "d/b.txt", "n/m.txt", "l2.txt"}},
}

// TestUnplacedSweep: a call is killed at each operation, and an operation on the
// workspace fails while the next Open completes the commit. Open does not fail for it,
// and nothing is lost. An error of the device poisons the store once the other files are
// placed; after any other one, all paths can be written at once.
func TestUnplacedSweep(t *testing.T) {
	step := attackStep(2)
	for i, x := range attacks {
		for j, errno := range []syscall.Errno{syscall.EIO, syscall.EACCES, syscall.EBUSY, syscall.ENOSPC} {
			t.Run(x.name+"/"+errno.Error(), func(t *testing.T) {
				t.Parallel()
				unplaced := 0
				for n := (phase(step) + i + j) % step; ; n += step {
					for m := phase(turns(3)); x.unplaced(t, errno, n, m, &unplaced); m += turns(3) {
					}
					if _, err := x.broken(t, rw.SyncFull, n); err == nil {
						break
					}
				}
				expect(t, unplaced != 0 || short(), "every file was placed")
			})
		}
	}
}

func (x attack) unplaced(t *testing.T, errno syscall.Errno, n, m int, seen *int) (reached bool) {
	t.Helper()
	fs, err := x.broken(t, rw.SyncFull, n)
	acked := err == nil
	fs.Kill()
	count, hit := 0, simfs.Op{}
	fs.Inject(func(op simfs.Op) simfs.Fault {
		onFile := slices.ContainsFunc(x.paths, func(p string) bool { return p == op.Path || p == op.To || strings.HasPrefix(p, op.Path+"/") })
		if !onFile || strings.Contains(op.Kind, "sync") { // a flush that fails poisons by itself
			return simfs.Fault{}
		}
		if count++; count != m+1 {
			return simfs.Fault{}
		}
		reached, hit = true, op
		return simfs.Fault{Err: errno, Applied: (n+m)%2 > 0}
	})
	s, err := x.open(fs, rw.SyncFull, "0006")
	fs.Inject(nil)
	if !reached {
		if err == nil {
			noErr(t, s.Close(background))
		}
		return false
	}
	defer func() {
		require(t, !t.Failed(), "call killed at %d, %s of the workspace fails at %d", n, hit, m)
	}()
	noErr(t, err, "open")
	wants := error(nil)
	for _, c := range s.Recovery().Conflicts {
		if c.Reason == "unplaced" {
			if *seen++; errno == syscall.EIO {
				wants = rw.ErrStorePoisoned
			}
		}
	}
	isErr(t, do(put("later.txt", longText, rw.ModeCreate))(s), wants, "the next write")
	s.Close(background)
	x.judge(t, fs, rw.SyncFull, acked)
	return true
}

// TestUnplacedObjectsSweep: a call that keeps an object in the state directory is killed at each
// operation, and an operation on the object fails while the next Open completes the commit.
// Open does not fail for it, and the Open after that finds the object if its row was written.
func TestUnplacedObjectsSweep(t *testing.T) {
	t.Parallel()
	keyed := rw.Call{IdempotencyKey: attackKey}
	for _, x := range []struct {
		name    string
		run, of func(*rw.Store) error
	}{
		{"/chunks/", doing((*rw.Store).ChunkAppend, rw.ChunkAppendRequest{Call: keyed, Session: "s", Content: []byte(longText)}), func(s *rw.Store) error {
			_, err := s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: "s"})
			return err
		}},
		{"/scratch/", doing((*rw.Store).ScratchPut, rw.ScratchPutRequest{Call: keyed, Content: []byte(longText)}), func(s *rw.Store) error {
			_, err := s.ScratchGet(background, rw.ScratchGetRequest{SHA256: digest(hash(longText))})
			return err
		}},
		{"/checkpoints/", doing((*rw.Store).Checkpoint, rw.CheckpointRequest{Call: keyed, Name: "c", Data: []byte(`"x"`)}), func(s *rw.Store) error {
			_, err := s.CheckpointRead(background, rw.CheckpointReadRequest{Name: "c"})
			return err
		}},
	} {
		failed := 0
		for n := 0; ; n++ {
			var done error
			for m := 0; ; m++ {
				fs := simfs.New()
				fs.StopAt(n)
				s, err := attack{}.open(fs, rw.SyncFull, "0001")
				if err == nil {
					err = x.run(s)
				}
				done = err
				fs.StopAt(-1)
				fs.Kill()
				count := 0
				fs.Inject(func(op simfs.Op) simfs.Fault {
					if strings.Contains(op.Path+op.To, x.name) && !strings.Contains(op.Kind, "sync") {
						if count++; count == m+1 {
							return simfs.Fault{Err: syscall.EIO}
						}
					}
					return simfs.Fault{}
				})
				s = must(attack{}.open(fs, rw.SyncFull, "0002"))(t, "open")
				fs.Inject(nil)
				if count <= m {
					break
				}
				failed++
				s.Close(background)
				s = must(attack{}.open(fs, rw.SyncFull, "0003"))(t, "the open after it")
				if op := must(s.Operation(background, rw.OperationRequest{IdempotencyKey: attackKey}))(t); len(op.Entries) > 0 {
					noErr(t, x.of(s), "killed at ", n, ", an operation on ", x.name, " fails at ", m)
				}
			}
			if done == nil {
				break
			}
		}
		expect(t, failed > 0, "nothing failed in %s", x.name)
	}
}

// TestUnplacedAfterAFailedFlushSweep: a flush of what a call has published fails, and so does an
// operation on it while the next Open publishes it again. The Open after that does it, and
// a power cut loses nothing.
func TestUnplacedAfterAFailedFlushSweep(t *testing.T) {
	t.Parallel()
	const text = "some text of the call\n"
	for name, x := range map[string]struct{ before, run func(*rw.Store) error }{
		"a.txt":     {run: do(put("a.txt", text, rw.ModeCreate))},
		"b.txt":     {do(put("b.txt", "old\n", rw.ModeCreate)), do(put("b.txt", text, rw.ModeOverwrite))},
		"d.txt":     {do(put("c.txt", text, rw.ModeCreate)), doing((*rw.Store).Move, rw.MoveRequest{Path: "c.txt", To: "d.txt"})},
		"/scratch/": {run: doing((*rw.Store).ScratchPut, rw.ScratchPutRequest{Content: []byte(text)})},
	} {
		failed := 0
		for m := 0; ; m++ {
			fs := simfs.New()
			open := func(nonce string) *rw.Store { return must(attack{}.open(fs, rw.SyncJournal, nonce))(t, "open") }
			s := open("0001")
			if x.before != nil {
				noErr(t, x.before(s))
				noErr(t, s.Sync(background))
			}
			noErr(t, x.run(s))
			fs.Inject(func(op simfs.Op) simfs.Fault {
				if op.Kind == "syncdir" {
					return simfs.Fault{Err: syscall.ENOSPC}
				}
				return simfs.Fault{}
			})
			s.Sync(background)
			fs.Kill()
			count := 0
			fs.Inject(func(op simfs.Op) simfs.Fault {
				if strings.Contains(op.Path+" "+op.To, name) && !strings.Contains(op.Kind, "sync") {
					if count++; count == m+1 {
						return simfs.Fault{Err: syscall.ENOSPC, Applied: m%2 > 0}
					}
				}
				return simfs.Fault{}
			})
			open("0002")
			fs.Inject(nil)
			if count <= m {
				break
			}
			failed++
			fs.Kill()
			fs = fs.Crash(uint64(m), simfs.All)
			open("0003")
			kept := contents(fs, false)
			for p, text := range fs.Tree() {
				if strings.HasSuffix(p, ".bin") {
					kept = append(kept, text)
				}
			}
			expect(t, haveText(kept, text), "an operation on %s fails at %d: its text is lost", name, m)
		}
		expect(t, failed > 0, "no operation on %s failed", name)
	}
}

// TestRewrittenByAnotherName: a flush of a new file's name fails after the file was written in
// place by another of its names. The next Open leaves it under both.
func TestRewrittenByAnotherName(t *testing.T) {
	fs, x := simfs.New(), attack{opts: rw.Options{HardLinks: rw.HardLinksInPlace}}
	s := must(x.open(fs, rw.SyncJournal, "0001"))(t)
	noErr(t, do(put("a.txt", "old\n", rw.ModeCreate))(s))
	noErr(t, fs.Foreign().Link("a.txt", fs.Foreign(), "link.txt"))
	noErr(t, do(put("link.txt", "new\n", rw.ModeOverwrite))(s))
	fs.Inject(func(op simfs.Op) simfs.Fault {
		if op.Kind == "syncdir" {
			return simfs.Fault{Err: syscall.EIO}
		}
		return simfs.Fault{}
	})
	s.Sync(background)
	fs.Inject(nil)
	fs.Kill()
	s = must(x.open(fs, rw.SyncJournal, "0002"))(t)
	length(t, s.Recovery().Conflicts, 0, "conflicts")
	equal(t, brief(files(fs)), brief(map[string]string{"a.txt": "new\n", "link.txt": "new\n"}))
}

// TestPermissionBeforeTheRow: a file whose name this process may not change is refused
// before the commit is recorded, so that none has to be rolled back.
func TestPermissionBeforeTheRow(t *testing.T) {
	const self, other = 1000, 1001
	for how, deny := range map[string]func(fs *simfs.FS, x attack) bool{
		"no directory may be written": func(fs *simfs.FS, x attack) bool {
			for _, dir := range []string{"", "d"} {
				if dir == "" || dirsOf(fs) != "" {
					fs.Own(dir, self, 0o555)
				}
			}
			return true
		},
		"the directory below may not be written": func(fs *simfs.FS, x attack) bool {
			if dirsOf(fs) == "" {
				return false
			}
			fs.Own("d", self, 0o555)
			return true
		},
		"the files of others in sticky directories": func(fs *simfs.FS, x attack) bool {
			for p := range files(fs) {
				fs.Own(p, other, 0o666)
				fs.Own(strings.TrimSuffix(path.Dir(p), "."), other, 0o1777)
			}
			return slices.ContainsFunc(x.paths, func(p string) bool { _, there := files(fs)[p]; return there })
		},
	} {
		for _, x := range attacks {
			if x.sim.Mount {
				continue
			}
			fs := simfs.New()
			fs.User = self
			fs.Own("", self, 0o755)
			if x.disk != nil {
				x.disk(fs)
			}
			x.sim.User = self
			s := must(x.open(fs, rw.SyncFull, "0001"))(t)
			if x.before != nil {
				noErr(t, x.before(s))
			}
			if !deny(fs, x) {
				continue
			}
			rows := func() (n int) {
				for p, text := range fs.Tree() {
					if strings.Contains(p, "/journal/") {
						n += strings.Count(text, `"kind":"commit"`) + strings.Count(text, `"kind":"abort"`)
					}
				}
				return n
			}
			before := rows()
			err := x.run(s)
			if x.inside {
				noErr(t, err, how, ": ", x.name) // its name does not change
				continue
			}
			expect(t, errors.Is(err, rw.ErrPermission) && rw.AsError("", err).Effect == rw.EffectNone, "%s: %s: %v", how, x.name, err)
			equal(t, rows(), before, how, ": ", x.name, ": commits and aborts in the journal")
		}
	}
}

// attackStep is the stride of these sweeps, which go through pairs of
// operations: eight times short in a short run, half of it in a longer one, 1 in a full one.
func attackStep(short int) int {
	switch {
	case *long:
		return 1
	case testbed.Long():
		return max(1, short/2)
	}
	return 8*short + 1
}

const inTheWay = "in the way\n"

// TestRollbackSweep: a commit is rolled back because of a file that another program
// made, a user saves or edits a file of it before each operation, and the process dies
// at a later one. The user's content survives; if the user wrote nothing, everything is
// as before.
func TestRollbackSweep(t *testing.T) {
	step, deaths := turns(1), turns(4)
	for i, x := range takenBack {
		x.disk = func(fs *simfs.FS) {
			for p, text := range map[string]string{"a.txt": longText, "d/b.txt": otherText, "l.txt": longText, "l2.txt": longText} {
				fs.WriteFile(p, []byte(text), 0o644)
			}
			d := fs.Foreign()
			d.Link("l.txt", d, "link.txt")
			d.Sync()
		}
		for j, level := range inTurn(i, allLevels...) {
			for how := range humans {
				t.Run(x.name+"/"+string(level)+"/"+how, func(t *testing.T) {
					t.Parallel()
					for _, name := range x.paths {
						for n := (phase(step) + i + j) % step; x.takeBack(t, level, how, name, n, -1); n += step {
							for m := 1 + (n+i)%deaths; x.takeBack(t, level, how, name, n, m); m += deaths {
							}
						}
					}
				})
			}
		}
	}
}

// takeBack lets the human act before operation n and the process die m later
// mutations later; -1 never. It returns false when there are fewer operations.
func (x attack) takeBack(t *testing.T, level rw.SyncLevel, how, name string, n, m int) (reached bool) {
	t.Helper()
	fs := simfs.New()
	x.disk(fs)
	s, err := x.open(fs, level, "0002")
	noErr(t, err)
	count, blocked, acted, wrote, unseen := 0, false, false, false, false
	last := x.paths[len(x.paths)-1]
	fs.Before(func(op simfs.Op) {
		if !blocked && strings.Contains("link rename exchange append write", op.Kind) &&
			(strings.HasSuffix(op.Path, last) || strings.HasSuffix(op.To, last)) {
			blocked = true
			replaceBy(fs.Foreign(), "bad.txt", inTheWay)
		}
		if blocked {
			count++
		}
		if count > n && !acted {
			acted = true
			// A change to a file between its comparison and the next step is not
			// detected: no file system has such a step.
			unseen = x.inside && (how == "edits" || how == "corrects the beginning") && (op.Kind == "read" || strings.HasSuffix(op.Path, name) && strings.Contains("write append truncate sync stat open", op.Kind))
			act(fs, how, name, longText)
			wrote = haveText(contents(fs, false), humansText)
			fs.StopAt(m)
		}
	})
	err = x.run(s)
	fs.Before(nil)
	died := fs.Stopped()
	fs.StopAt(-1)
	if !died {
		s.Close(background)
	}
	disk := fs.Crash(uint64(n), simfs.None)
	kept := contents(disk, false)
	after, oerr := x.open(disk, level, "0003")
	noErr(t, oerr, "open")
	now := contents(disk, false)
	defer func() {
		if t.Failed() {
			t.Fatalf("the human %s %s at %d, death %d later: %v: found %s; recovery %+v", how, name, n, m, err, brief(files(disk)), after.Recovery())
		}
	}()
	for _, text := range []string{humansText, longText, otherText} {
		if haveText(kept, text) && !haveText(now, text) && text != otherText {
			t.Errorf("%.20q is lost", text)
		}
	}
	if wrote && !unseen && !haveText(now, humansText) {
		t.Error("what the human wrote is lost")
	}
	have := files(disk)
	if e := rw.AsError("", err); blocked && !died && e.Effect == rw.EffectNone && (!acted || how == "nothing") {
		want := map[string]string{"a.txt": longText, "d/b.txt": otherText, "l.txt": longText, "link.txt": longText, "l2.txt": longText, "bad.txt": inTheWay}
		expect(t, maps.Equal(have, want), "effect none, and the files changed")
	}
	expect(t, !blocked || have["bad.txt"] == inTheWay, "what was in the way is lost")
	after.Close(background)
	return acted && (m < 0 || died)
}

// TestDirectoryOfAnotherSweep: another program makes a directory and does not flush it;
// a write into it that is acknowledged survives a power failure.
func TestDirectoryOfAnotherSweep(t *testing.T) {
	fs := simfs.New()
	s := must(attack{}.open(fs, rw.SyncFull, "0001"))(t)
	fs.Foreign().Mkdir("d", 0o755)
	noErr(t, do(put("d/a.txt", longText, rw.ModeCreate))(s))
	have, _ := fs.Crash(0, simfs.All).ReadFile("d/a.txt")
	expect(t, string(have) == longText, "an acknowledged write is lost with the directory that another program made")
}

// TestDeletedInTwoDeathsSweep: a process dies while it rolls a delete back, and the one
// that opens the store next dies in recovery. The file is deleted then, or the commit is
// aborted, or in conflict.
func TestDeletedInTwoDeathsSweep(t *testing.T) {
	t.Parallel()
	for n := 0; ; n++ {
		reached := false
		for m, died := 0, true; died; m++ {
			fs := simfs.New()
			fs.WriteFile("a.txt", []byte(longText), 0o644)
			s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0002"}))(t)
			blocked := false
			fs.Before(func(op simfs.Op) {
				if !blocked && op.Kind == "rename" && op.Path == "a.txt" {
					blocked = true
					replaceBy(fs.Foreign(), "bad.txt", inTheWay)
					fs.StopAt(n)
				}
			})
			err := keyedTx(txDelete("a.txt"), txWrite("bad.txt", "new one\n", ""))(s)
			fs.Before(nil)
			fs.StopAt(-1)
			if e := rw.AsError("", err); e == nil || e.Effect == rw.EffectNone {
				break
			}
			reached = true
			disk := fs.Crash(0, simfs.None)
			disk.StopAt(m)
			_, err = rw.OpenSim(disk, nil, rw.Sim{Nonce: "0003"})
			disk.StopAt(-1)
			died = err != nil
			disk = disk.Crash(0, simfs.None)
			last := must(rw.OpenSim(disk, nil, rw.Sim{Nonce: "0004"}))(t)
			_, there := files(disk)["a.txt"]
			rows := must(last.JournalTail(background, rw.JournalTailRequest{N: 100}))(t).Entries
			about := func(kind string) bool { // rows that were aborted are not listed
				return slices.ContainsFunc(rows, func(e rw.JournalEntry) bool { return e.Kind == kind && e.Path == "a.txt" })
			}
			if there && about("commit") && !about("conflict") {
				t.Errorf("dead at %d, then at %d: the commit is recorded and the file is there: %+v", n, m, rows)
			}
			noErr(t, last.Close(background))
		}
		if !reached {
			return
		}
	}
}

// TestLinkedInPlaceSweep: one writer changes a file in place and dies, another then
// changes it by its other name. After the next Open the file is as the second has left
// it. At the level journal that is so after a power cut also if none of them died.
func TestLinkedInPlaceSweep(t *testing.T) {
	opened := func(fs *simfs.FS, nonce string, level rw.SyncLevel) (*rw.Store, *simfs.Process) {
		p := fs.NewProcess()
		return must(rw.OpenSim(fs, &rw.Options{HardLinks: rw.HardLinksInPlace, Sync: level}, rw.Sim{Nonce: nonce, Process: p, Manual: true, AppendFrom: 1}))(t), p
	}
	linked := func() *simfs.FS {
		fs := simfs.New()
		fs.WriteFile("a.txt", []byte(longText), 0o644)
		d := fs.Foreign()
		d.Link("a.txt", d, "link.txt")
		d.Sync()
		return fs
	}
	for _, level := range allLevels {
		for n := 0; ; n++ {
			fs := linked()
			first, dead := opened(fs, "0001", level)
			second, _ := opened(fs, "0002", level)
			dead.StopAt(n)
			err := do(put("a.txt", otherText, rw.ModeOverwrite))(first)
			dead.Kill()
			if err == nil {
				break
			}
			require(t, n < 1000, "a write that nothing stops fails: %v", err)
			noErr(t, do(put("link.txt", longText, rw.ModeOverwrite))(second), "dead at ", n)
			opened(fs, "0003", level)
			equal(t, files(fs)["a.txt"], longText, level, ": dead at ", n)
		}
	}
	for _, mode := range []rw.WriteMode{rw.ModeAppend, rw.ModeOverwrite} {
		for seed := range uint64(20) {
			fs := linked()
			first, _ := opened(fs, "0001", rw.SyncJournal)
			second := first
			if seed%2 == 1 {
				second, _ = opened(fs, "0002", rw.SyncJournal)
			}
			noErr(t, do(put("a.txt", otherText, mode))(first))
			noErr(t, do(put("link.txt", longText, mode))(second))
			want := files(fs)["a.txt"]
			disk := fs.Crash(seed, []simfs.Loss{simfs.All, simfs.Some, simfs.Some, simfs.Some}[seed%4])
			opened(disk, "0003", rw.SyncJournal)
			equal(t, files(disk)["link.txt"], want, mode, ", power cut ", seed)
		}
	}
}
