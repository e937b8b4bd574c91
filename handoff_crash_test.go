package resilientwrite_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

func leave(r rw.HandoffWriteRequest) func(*rw.Store) error {
	return func(s *rw.Store) error {
		_, err := s.HandoffWrite(background, r)
		return err
	}
}

func acknowledgeAs(name string) func(*rw.Store) error {
	return func(s *rw.Store) error {
		_, err := s.HandoffRead(background, rw.HandoffReadRequest{AcknowledgeAs: name})
		return err
	}
}

// handoffScenario is a call that is interrupted at every operation, with the possible
// content of the state directory.
type handoffScenario struct {
	scenario
	oldState, newState map[string]string // contents of handoffs/ before and after
}

// handoffState returns the content of handoffs/ on a disk.
func handoffState(fs *simfs.FS) map[string]string {
	out := map[string]string{}
	for p, content := range fs.Tree() {
		if name, ok := strings.CutPrefix(p, rw.StateDirName+"/handoffs/"); ok && content != "/" {
			out[name] = content
		}
	}
	return out
}

// handoffScenarios: the first handoff, one that replaces and archives another one, and
// an acknowledged read.
func handoffScenarios(t *testing.T) []handoffScenario {
	first := leave(rw.HandoffWriteRequest{Envelope: anEnvelope("first"), Body: []byte(longText)})
	second := leave(rw.HandoffWriteRequest{Envelope: anEnvelope("second"), Body: []byte(otherText), Archive: true})
	nothing := func(*rw.Store) error { return nil }
	list := []handoffScenario{
		{scenario: scenario{name: "handoff", before: nothing, run: first}},
		{scenario: scenario{name: "handoff_archive", before: first, run: second}},
		{scenario: scenario{name: "handoff_acknowledge", before: first, run: acknowledgeAs("me")}},
	}
	for i := range list {
		c := &list[i]
		fs, s := c.prepare(t)
		c.old, c.oldState = files(fs), handoffState(fs)
		noErr(t, c.run(s), c.name)
		c.new, c.newState = files(fs), handoffState(fs)
		s.Close(background)
	}
	return list
}

// judge reopens a disk: the workspace and the state directory must both be as
// before the call or both as after it.
func (c handoffScenario) judge(t *testing.T, disk *simfs.FS, want outcome) {
	t.Helper()
	visible := want
	if same(c.old, c.new) { // only the state directory shows the difference
		visible = either
	}
	c.verify(t, disk, visible)
	got := files(disk)
	delete(got, "after.txt")
	state := handoffState(disk)
	before, after := same(got, c.old) && same(state, c.oldState), same(got, c.new) && same(state, c.newState)
	if !before && !after || want == applied && !after {
		t.Fatalf("half of the commit: %s; %s", brief(got), brief(state))
	}
}

// TestHandoffSurvivesACrash at every operation of the call, with and without a power
// failure: handoff and archive either both exist or both do not.
func TestHandoffSurvivesACrash(t *testing.T) {
	for _, c := range handoffScenarios(t) {
		for _, level := range []rw.SyncLevel{rw.SyncFull, rw.SyncJournal, rw.SyncOff} {
			c := c
			c.opts.Sync = level
			t.Run(c.name+"/"+string(level), func(t *testing.T) {
				t.Parallel()
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
					c.judge(t, fs.Crash(0, simfs.None), want)
					if level != rw.SyncOff {
						c.judge(t, fs.Crash(0, simfs.All), want)
						for seed := range someLosses(30, n) {
							c.judge(t, fs.Crash(seed*7919+uint64(n), simfs.Some), want)
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

// TestHandoffRecoveryMayBeKilled at every operation, and repeated.
func TestHandoffRecoveryMayBeKilled(t *testing.T) {
	for _, c := range handoffScenarios(t) {
		if c.opts.Sync = rw.SyncFull; c.name == "handoff_archive" {
			c.recoverySweep(t)
		}
	}
}

// TestHandoffFaultsAreTold: an operation fails, applied or not; what the error reports
// about the disk is true, and the store continues or says that it does not.
func TestHandoffFaultsAreTold(t *testing.T) {
	for _, c := range handoffScenarios(t) {
		for _, happened := range []bool{false, true} {
			errnos := []syscall.Errno{syscall.EIO, syscall.ENOSPC}
			if !*long && happened {
				errnos = errnos[:1]
			} else if !*long {
				errnos = errnos[1:]
			}
			for _, errno := range errnos {
				t.Run(fmt.Sprintf("%s/applied=%v/%v", c.name, happened, errno), func(t *testing.T) {
					t.Parallel()
					for n := 0; ; n++ {
						fs, s := c.prepare(t)
						start, hit := -1, false
						fs.Inject(func(op simfs.Op) simfs.Fault {
							if op.Mut < 0 {
								return simfs.Fault{}
							}
							if start < 0 {
								start = op.Mut
							}
							if op.Mut-start == n {
								hit = true
								return simfs.Fault{Err: errno, Applied: happened}
							}
							return simfs.Fault{}
						})
						err := c.run(s)
						fs.Inject(nil)
						if err == nil {
							c.judge(t, fs.Crash(0, simfs.None), applied)
							if !hit {
								return // after the last operation
							}
							continue
						}
						switch effect := rw.AsError("", err).Effect; effect {
						case rw.EffectNone:
							if !same(files(fs), c.old) || !same(handoffState(fs), c.oldState) {
								t.Fatalf("operation %d: %v has an effect: %s", n, err, brief(files(fs)))
							}
						case rw.EffectApplied, rw.EffectUnknown:
						default:
							t.Fatalf("operation %d: effect %q", n, effect)
						}
						c.judge(t, fs.Crash(0, simfs.None), either)
					}
				})
			}
		}
	}
}

// TestHandoffOfKilledWriter: the handoff that a writer acknowledged before it was
// killed is the current one or an archived one, complete, and the next writer
// continues.
func TestHandoffOfKilledWriter(t *testing.T) {
	if dir := os.Getenv("RW_HANDOFF_CHILD"); dir != "" {
		s := must(rw.Open(background, dir, &rw.Options{Sync: rw.SyncOff}))(t)
		for i := 0; ; i++ {
			body := fmt.Sprintf("%d-%d\n", os.Getpid(), i)
			must(s.HandoffWrite(background, rw.HandoffWriteRequest{Envelope: anEnvelope("t"), Body: []byte(body), Archive: true}))(t)
			fmt.Print("acknowledged " + body)
		}
	}
	dir := workspace(t)
	promised := map[string]bool{}
	for range 3 {
		cmd, out := spawnTest(t, "TestHandoffOfKilledWriter", "RW_HANDOFF_CHILD="+dir)
		noErr(t, cmd.Start())
		acknowledged := func() []string {
			var list []string
			for _, line := range out.lines() {
				if body, ok := strings.CutPrefix(line, "acknowledged "); ok {
					list = append(list, body+"\n")
				}
			}
			return list
		}
		waitFor(t, func() bool { return len(acknowledged()) > 20 })
		cmd.Process.Kill()
		cmd.Wait()
		for _, body := range acknowledged() {
			promised[body] = true
		}
		s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
		found := map[string]bool{string(takeOver(t, s, rw.HandoffReadRequest{}).Body): true}
		for name := range archivesIn(t, dir) {
			found[string(takeOver(t, s, rw.HandoffReadRequest{Path: rw.StateDirName + "/handoffs/" + name}).Body)] = true
		}
		for body := range promised {
			if !found[body] {
				t.Errorf("%q is lost", body)
			}
		}
		check(t, s, true)
		s.Close(background)
	}
}
