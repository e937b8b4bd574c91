package resilientwrite_test

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"syscall"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// chunkScript is a sequence of calls that is interrupted at every operation. After each
// call the session and the file are in one known state. A crash within a call leaves
// the state before it or after it, and the remaining calls then lead to the same result
// as without the crash.
type chunkScript struct {
	name  string
	disk  func(*simfs.FS)
	steps []func(*rw.Store) error
	from  int // the first step that is broken off
	every int // of the operations; 0 means all
}

func stepAppend(content string) func(*rw.Store) error {
	return func(s *rw.Store) error {
		_, err := s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte(content)})
		return err
	}
}

func stepWrite(index int, content string) func(*rw.Store) error {
	return func(s *rw.Store) error {
		_, err := s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "s", Index: index, Content: []byte(content), TotalExpected: 3})
		return err
	}
}

func stepCompose(cleanup bool) func(*rw.Store) error {
	return func(s *rw.Store) error {
		_, err := s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "s", OutputPath: "out/file.txt", Cleanup: cleanup})
		return err
	}
}

func stepReset(s *rw.Store) error {
	_, err := s.ChunkReset(background, rw.ChunkResetRequest{Session: "s"})
	return err
}

var chunkScripts = []chunkScript{
	{name: "build_and_clean_up", steps: []func(*rw.Store) error{
		stepAppend(longText), stepWrite(3, "third"), stepWrite(2, "wrong"), stepWrite(2, otherText), stepCompose(true),
	}},
	{name: "seal_and_reset", from: 2, steps: []func(*rw.Store) error{
		stepAppend("one"), stepAppend("two"), stepCompose(false), stepCompose(false), stepReset, stepAppend("new"), stepCompose(false),
	}},
	{name: "reset_of_many", every: 37, disk: func(f *simfs.FS) {
		for i := range 260 {
			f.WriteFile(fmt.Sprintf("%s/chunks/s/part-%03d.txt", rw.StateDirName, i+1), []byte("old"), 0o600)
		}
	}, steps: []func(*rw.Store) error{stepReset, stepAppend("new"), stepCompose(true)}},
	{name: "manifest_lost", from: 2, disk: func(f *simfs.FS) {
		f.WriteFile(rw.StateDirName+"/chunks/s/manifest.json", []byte("{torn"), 0o600)
		f.WriteFile(rw.StateDirName+"/chunks/s/part-001.txt", []byte("found"), 0o600)
	}, steps: []func(*rw.Store) error{
		stepAppend("two"), stepCompose(false), stepCompose(true),
	}},
}

// chunkState is the session and the file as a caller sees them.
func chunkState(t *testing.T, s *rw.Store) string {
	t.Helper()
	st := must(s.ChunkStatus(background, rw.ChunkStatusRequest{Session: "s"}))(t, "status")
	state := fmt.Sprint(st.Exists, st.PresentIndices, st.Sealed)
	if len(st.PresentIndices) > 0 {
		p := must(s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: "s"}))(t, "preview")
		state += p.SHA256.String()
	}
	if r, err := s.Read(background, rw.ReadRequest{Path: "out/file.txt"}); err == nil {
		state += " file " + r.SHA256.String()
	}
	return state
}

// chunkFiles are the files of all sessions on a disk.
func chunkFiles(fs *simfs.FS) string {
	var list []string
	for p, content := range fs.Tree() {
		if strings.HasPrefix(p, rw.StateDirName+"/chunks/") && content != "/" {
			list = append(list, p+"="+hash(content))
		}
	}
	sort.Strings(list)
	return strings.Join(list, "\n")
}

func (c chunkScript) open(t *testing.T, fs *simfs.FS, level rw.SyncLevel, nonce string) *rw.Store {
	t.Helper()
	s := must(rw.OpenSim(fs, &rw.Options{Sync: level}, rw.Sim{Nonce: nonce, Manual: true}))(t)
	return s
}

// start makes a disk with everything up to the first step that is broken off.
func (c chunkScript) start(t *testing.T, level rw.SyncLevel) (*simfs.FS, *rw.Store) {
	t.Helper()
	fs := simfs.New()
	if c.disk != nil {
		c.disk(fs)
	}
	s := c.open(t, fs, level, "0001")
	for _, step := range c.steps[:c.from] {
		noErr(t, step(s))
	}
	return fs, s
}

// states runs the script to its end and returns the state after each step, and
// the files that are left.
func (c chunkScript) states(t *testing.T, level rw.SyncLevel) (list []string, left string) {
	t.Helper()
	fs, s := c.start(t, level)
	list = append(list, chunkState(t, s))
	for i, step := range c.steps[c.from:] {
		noErr(t, step(s), "step ", c.from+i)
		list = append(list, chunkState(t, s))
	}
	check(t, s, true)
	return list, chunkFiles(fs)
}

// run takes the steps until one fails and returns how many succeeded.
func (c chunkScript) run(s *rw.Store) (int, error) {
	for i, step := range c.steps[c.from:] {
		if err := step(s); err != nil {
			return i, err
		}
	}
	return len(c.steps) - c.from, nil
}

// resume opens a disk that a crash left, compares the state with those that
// are allowed, and takes the rest of the steps.
func (c chunkScript) resume(t *testing.T, fs *simfs.FS, level rw.SyncLevel, done int, states []string, left string, allowed ...int) {
	t.Helper()
	s := c.open(t, fs, level, "0002")
	got, at := chunkState(t, s), -1
	for _, i := range allowed {
		if i < len(states) && states[i] == got {
			at = i
		}
	}
	if at < 0 {
		t.Fatalf("after %d steps: %s\nallowed %v of\n%s", done, got, allowed, strings.Join(states, "\n"))
	}
	check(t, s, true)
	for i, step := range c.steps[c.from+at:] {
		noErr(t, step(s), "step ", at+i, " after the crash")
	}
	if end := chunkState(t, s); end != states[len(states)-1] {
		t.Fatalf("the end is %s, not %s", end, states[len(states)-1])
	}
	check(t, s, true)
	noErr(t, s.Close(background))
	if files := chunkFiles(fs); at < len(states)-1 && files != left {
		t.Fatalf("left behind\n%s\nnot\n%s", files, left)
	}
	if left, err := c.open(t, fs, level, "0003").Unfinished(); err != nil || len(left) > 0 {
		t.Fatalf("left in staging: %v %v", left, err)
	}
}

// stride is how many operations a sweep passes over, but for the long ones.
func (c chunkScript) stride(short int) int {
	return max(c.every, 1) * stride(short)
}

// TestChunkCrashSweep kills the process at every mutating operation of every
// script, with and without a power cut.
func TestChunkCrashSweep(t *testing.T) {
	for _, c := range chunkScripts {
		for _, level := range []rw.SyncLevel{rw.SyncFull, rw.SyncJournal, rw.SyncOff} {
			t.Run(c.name+"/"+string(level), func(t *testing.T) {
				t.Parallel()
				states, left := c.states(t, level)
				step := c.stride(7)
				for n := phase(step); ; n += step {
					fs, s := c.start(t, level)
					fs.StopAt(n)
					done, err := c.run(s)
					fs.StopAt(-1)
					if err == nil {
						break
					}
					if !errors.Is(err, simfs.ErrDead) && !errors.Is(err, rw.ErrStorePoisoned) {
						t.Fatalf("operation %d: %v (%v)", n, err, errors.Unwrap(err))
					}
					c.resume(t, fs.Crash(0, simfs.None), level, done, states, left, done, done+1)
					if level == rw.SyncOff {
						continue
					}
					c.resume(t, fs.Crash(0, simfs.All), level, done, states, left, done, done+1)
					for seed := range uint64(scale(10)) {
						c.resume(t, fs.Crash(seed*7919+uint64(n), simfs.Some), level, done, states, left, done, done+1)
					}
				}
			})
		}
	}
}

// TestChunkFaultSweep makes operation i fail, applied and not applied, for every i
// until a run succeeds. What the error reports about the disk must be true.
func TestChunkFaultSweep(t *testing.T) {
	for _, c := range chunkScripts {
		for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
			for _, happened := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%v/applied=%v", c.name, errno, happened), func(t *testing.T) {
					t.Parallel()
					states, left := c.states(t, rw.SyncFull)
					step := c.stride(11)
					for i := phase(step); c.oneFault(t, i, errno, happened, states, left); i += step {
					}
				})
			}
		}
	}
}

// oneFault lets one operation fail and reports whether there was one.
func (c chunkScript) oneFault(t *testing.T, i int, errno syscall.Errno, happened bool, states []string, left string) bool {
	t.Helper()
	fs, s := c.start(t, rw.SyncFull)
	base, hit := fs.Muts(), ""
	fs.Inject(func(op simfs.Op) simfs.Fault {
		if op.Mut == base+i {
			hit = op.String()
			return simfs.Fault{Err: errno, Applied: happened, Short: int(op.Len / 2)}
		}
		return simfs.Fault{}
	})
	done, err := c.run(s)
	fs.Inject(nil)
	allowed := []int{done}
	if err != nil {
		e := rw.AsError("test", err)
		switch e.Effect {
		case rw.EffectApplied:
			allowed = []int{done + 1}
		case rw.EffectUnknown:
			allowed = []int{done, done + 1}
		}
		if e.Detail == rw.ErrInternal {
			t.Fatalf("%s: %v (%v)", hit, err, errors.Unwrap(err))
		}
	}
	defer func() {
		if t.Failed() {
			t.Logf("fault %d at %q: %v", i, hit, err)
		}
	}()
	c.resume(t, fs.Crash(0, simfs.None), rw.SyncFull, done, states, left, allowed...)
	c.resume(t, fs.Crash(uint64(i), simfs.Some), rw.SyncFull, done, states, left, allowed...)
	return hit != "" && !t.Failed()
}
