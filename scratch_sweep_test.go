package resilientwrite_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// stateSweep is a call on objects of the state directory that is interrupted at every
// operation: after a reopen the state is the one before the call, or the complete
// result of the call.
type stateSweep struct {
	name   string
	part   string
	before func(*rw.Store) error
	disk   func(*simfs.FS) // what happens to the disk before the call
	run    func(*rw.Store) error
	then   func(*testing.T, *rw.Store) // works after every crash
}

func (c stateSweep) view(fsys *simfs.FS) string {
	var list []string
	for p, content := range fsys.Tree() {
		if content != "/" && strings.HasPrefix(p, rw.StateDirName+"/"+c.part+"/") {
			list = append(list, fmt.Sprintf("%s %d %s", p, len(content), hash(content)))
		}
	}
	sort.Strings(list)
	return strings.Join(list, "\n")
}

func (c stateSweep) open(t *testing.T, fsys *simfs.FS, level rw.SyncLevel, nonce string) *rw.Store {
	t.Helper()
	s := must(rw.OpenSim(fsys, &rw.Options{Sync: level, Gate: rw.Gate{Mode: rw.GateOff}}, rw.Sim{Nonce: nonce, Manual: true}))(t)
	return s
}

func (c stateSweep) prepare(t *testing.T, level rw.SyncLevel) (*simfs.FS, *rw.Store) {
	t.Helper()
	fsys := simfs.New()
	s := c.open(t, fsys, level, "0001")
	if c.before != nil {
		noErr(t, c.before(s), "before")
	}
	noErr(t, s.Close(background))
	if c.disk != nil {
		c.disk(fsys)
	}
	return fsys, c.open(t, fsys, level, "0002")
}

func (c stateSweep) sweep(t *testing.T, level rw.SyncLevel) {
	fsys, s := c.prepare(t, level)
	old := c.view(fsys)
	noErr(t, c.run(s), "run")
	want := c.view(fsys)
	if old == want {
		t.Fatal("the call changes nothing")
	}
	step := turns(7)
	for n := phase(step); ; n += step {
		fsys, s := c.prepare(t, level)
		fsys.StopAt(n)
		err := c.run(s)
		fsys.StopAt(-1)
		if err != nil && !errors.Is(err, simfs.ErrDead) && !errors.Is(err, rw.ErrStorePoisoned) {
			t.Fatalf("operation %d: %v (%v)", n, err, errors.Unwrap(err))
		}
		disks := []*simfs.FS{fsys.Crash(0, simfs.None)}
		if level != rw.SyncOff {
			disks = append(disks, fsys.Crash(0, simfs.All))
			for seed := range someLosses(20, n) {
				disks = append(disks, fsys.Crash(seed*7919+uint64(n), simfs.Some))
			}
		}
		for i, disk := range disks {
			again := c.open(t, disk, level, "0003")
			got := c.view(disk)
			if got != want && (err == nil || got != old) {
				t.Fatalf("operation %d, disk %d: found\n%s\nold\n%s\nnew\n%s\n%+v", n, i, got, old, want, again.Recovery())
			}
			check(t, again, c.disk == nil)
			if left, err := again.Unfinished(); err != nil || len(left) > 0 {
				t.Fatalf("operation %d: left in staging: %v %v", n, left, err)
			}
			c.then(t, again)
			noErr(t, again.Close(background))
			if t.Failed() {
				t.Fatalf("operation %d, disk %d", n, i)
			}
		}
		if err == nil {
			return
		}
	}
}

// faults makes every operation fail once, done and not done: what the error reports
// about the disk must be true.
func (c stateSweep) faults(t *testing.T) {
	fsys, s := c.prepare(t, rw.SyncFull)
	old := c.view(fsys)
	noErr(t, c.run(s))
	want := c.view(fsys)
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		step := turns(7)
		for i := phase(step); ; i += step {
			fsys, s := c.prepare(t, rw.SyncFull)
			base, hit := fsys.Muts(), ""
			fsys.Inject(func(op simfs.Op) simfs.Fault {
				if op.Mut == base+i {
					hit = op.String()
					return simfs.Fault{Err: errno, Applied: errno == syscall.ENOSPC, Short: int(op.Len / 2)}
				}
				return simfs.Fault{}
			})
			err := c.run(s)
			fsys.Inject(nil)
			got := c.view(fsys)
			switch e := rw.AsError("", err); {
			case err == nil && got != want:
				t.Fatalf("%s: success, but found\n%s\nwant\n%s", hit, got, want)
			case err != nil && (e.Detail == rw.ErrInternal || e.Effect == rw.EffectNone && got != old || e.Effect == rw.EffectApplied && got != want):
				t.Fatalf("%s: %v (%v), but found\n%s\nold\n%s\nnew\n%s", hit, err, errors.Unwrap(err), got, old, want)
			}
			s.Close(background)
			again := c.open(t, fsys.Crash(uint64(i), simfs.Some), rw.SyncFull, "0003")
			c.then(t, again)
			again.Close(background)
			if hit == "" || t.Failed() {
				break
			}
		}
	}
}

func scratchAll(reqs ...rw.ScratchPutRequest) func(*rw.Store) error {
	return func(s *rw.Store) error {
		for _, r := range reqs {
			if _, err := s.ScratchPut(background, r); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestScratchCrashSweep(t *testing.T) {
	long := strings.Repeat("raw material that fills several sectors\n", 50)
	bin := rw.StateDirName + "/scratch/" + hash(long) + ".bin"
	then := func(t *testing.T, s *rw.Store) {
		keep(t, s, rw.ScratchPutRequest{Content: []byte(long), Label: "after"})
		gotBack(t, s, hash(long), long)
		if l := listed(t, s); l.Malformed+l.Rebuilt != 0 || l.Entries[0].Label != "after" {
			t.Errorf("%+v", l)
		}
	}
	for _, c := range []stateSweep{
		{name: "first", run: scratchAll(rw.ScratchPutRequest{Content: []byte(long), Label: "a"})},
		{name: "second", before: scratchAll(rw.ScratchPutRequest{Content: []byte("b"), Label: "b"}), run: scratchAll(rw.ScratchPutRequest{Content: []byte(long), Label: "a"})},
		{name: "dedup", before: scratchAll(rw.ScratchPutRequest{Content: []byte(long), Label: "a"}), run: scratchAll(rw.ScratchPutRequest{Content: []byte(long), Label: "b"})},
		{name: "repair", before: scratchAll(rw.ScratchPutRequest{Content: []byte(long), Label: "a"}),
			disk: func(f *simfs.FS) { f.WriteFile(bin, []byte("damaged"), 0o600) },
			run:  scratchAll(rw.ScratchPutRequest{Content: []byte(long), Label: "b"})},
		{name: "delete", before: scratchAll(rw.ScratchPutRequest{Content: []byte("b"), Label: "b"}, rw.ScratchPutRequest{Content: []byte(long), Label: "a"}),
			run: func(s *rw.Store) error {
				_, err := s.ScratchDelete(background, rw.ScratchDeleteRequest{Label: "a"})
				return err
			}},
		{name: "expire", before: scratchAll(rw.ScratchPutRequest{Content: []byte("b"), TTL: "PT1H"}, rw.ScratchPutRequest{Content: []byte("c"), TTL: "PT2H"}, rw.ScratchPutRequest{Content: []byte("d")}),
			run: func(s *rw.Store) error {
				s.SetNow(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
				return scratchAll(rw.ScratchPutRequest{Content: []byte(long)})(s)
			}},
	} {
		c.part, c.then = "scratch", then
		for _, level := range []rw.SyncLevel{rw.SyncFull, rw.SyncJournal, rw.SyncOff} {
			t.Run(c.name+"/"+string(level), func(t *testing.T) {
				t.Parallel()
				c.sweep(t, level)
			})
		}
		t.Run(c.name+"/faults", func(t *testing.T) {
			t.Parallel()
			c.faults(t)
		})
	}
}

// TestScratchSurvivesKill: after a process is killed while it puts, every acknowledged
// put exists.
func TestScratchSurvivesKill(t *testing.T) {
	if dir := os.Getenv("RW_SCRATCH_DIR"); dir != "" {
		s := must(rw.Open(background, dir, nil))(t)
		for i := 0; ; i++ {
			must(s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte(version(i)), Label: fmt.Sprint(i)}))(t)
			must(s.Checkpoint(background, rw.CheckpointRequest{Name: "at", Data: json.RawMessage(fmt.Sprintf(`{"i":%d,"text":%q}`, i, version(i)))}))(t)
			fmt.Println("done", i)
		}
	}
	dir := workspace(t)
	told := -1
	for round := range 3 {
		cmd, out := spawnTest(t, "TestScratchSurvivesKill", "RW_SCRATCH_DIR="+dir)
		noErr(t, cmd.Start())
		waitFor(t, func() bool { return strings.Contains(strings.Join(out.lines(), "\n"), "done") })
		time.Sleep(time.Duration(20+70*round) * time.Millisecond)
		cmd.Process.Kill()
		cmd.Wait()
		last := -1
		for _, line := range out.lines() {
			fmt.Sscanf(line, "done %d", &last)
		}
		told = max(told, last)
		s := open(t, dir, nil)
		for i := range last + 1 {
			r, err := s.ScratchRef(background, rw.ScratchRefRequest{Label: fmt.Sprint(i)})
			if err != nil || !r.BinExists || r.Entry.SHA256.String() != hash(version(i)) {
				t.Fatalf("put %d is lost: %+v %v", i, r, err)
			}
		}
		if c, err := s.CheckpointRead(background, rw.CheckpointReadRequest{Name: "at"}); last >= 0 && err != nil {
			t.Errorf("%+v %v", c, err)
		}
		if l := listed(t, s); l.Malformed+l.Rebuilt > 0 {
			t.Errorf("%d malformed, %d rebuilt", l.Malformed, l.Rebuilt)
		}
		check(t, s, true)
		s.Close(background)
	}
	if told < 0 {
		t.Error("the child told of nothing")
	}
}
