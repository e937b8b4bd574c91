package resilientwrite_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// withHistoryPolicy makes a workspace with a policy that limits history.
func withHistoryPolicy(t *testing.T, text string) string {
	t.Helper()
	dir := workspace(t)
	noErr(t, os.MkdirAll(filepath.Join(dir, rw.StateDirName), 0o700))
	noErr(t, os.WriteFile(filepath.Join(dir, rw.StateDirName, "policy.yaml"), []byte("history: "+text+"\n"), 0o600))
	return dir
}

// keptBytes is the size of everything in history.
func keptBytes(t *testing.T, dir string) (sum int64) {
	t.Helper()
	filepath.WalkDir(filepath.Join(dir, rw.StateDirName, "history"), func(_ string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			if st, err := d.Info(); err == nil {
				sum += st.Size()
			}
		}
		return nil
	})
	return sum
}

// TestPruneBesideAnotherProcess: history stays within its bounds while another
// process has the store open for writing, and while many do one write each.
func TestPruneBesideAnotherProcess(t *testing.T) {
	dir := withHistoryPolicy(t, "{max_bytes: 1MiB, max_versions: 10}")
	cmd, out := spawn(t, "hold", dir, "", rw.SyncFull)
	defer func() { cmd.Process.Kill(); cmd.Wait() }()
	waitFor(t, func() bool { return len(out.lines()) > 0 })
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	for i := range 400 {
		write(t, s, fmt.Sprintf("f%d.txt", i%4), fmt.Sprint(i)+strings.Repeat("x", 30_000), rw.ModeOverwrite)
		if got := keptBytes(t, dir); i%50 == 49 && got > 3<<19 {
			t.Fatalf("after %d writes history has %d bytes", i+1, got)
		}
	}
	r := compact(t, s, rw.CompactRequest{})
	if got := kept(t, dir); got > 4*10 || len(r.Warnings) > 0 {
		t.Errorf("%d versions are kept; %+v", got, r.Warnings)
	}
	must(s.Undo(background, rw.UndoRequest{}))(t)
}

// TestPruneByShortProcesses: processes that make one write each apply the bounds
// as well.
func TestPruneByShortProcesses(t *testing.T) {
	fs := simfs.New()
	fs.WriteFile(rw.StateDirName+"/policy.yaml", []byte("history: {max_versions: 5}\n"), 0o600)
	for i := range 320 {
		s := must(rw.OpenSim(fs, &rw.Options{Sync: rw.SyncOff}, rw.Sim{Nonce: fmt.Sprint(i)}))(t)
		write(t, s, "a.txt", fmt.Sprintf("version %d", i), rw.ModeOverwrite)
		noErr(t, s.Close(background))
	}
	if n := simKept(fs); n > 5+256 {
		t.Errorf("%d versions are kept", n)
	}
}

func simKept(fs *simfs.FS) (n int) {
	for path, content := range fs.Tree() {
		if strings.HasPrefix(path, rw.StateDirName+"/history/") && content != "/" {
			n++
		}
	}
	return n
}

// TestSweepBesideACreator: a process that applies the limits is stopped at any point,
// another one continues, and a version that it has kept again in the meantime is not
// removed.
func TestSweepBesideACreator(t *testing.T) {
	step := 1
	if short() {
		step = 13
	}
	ran := 0
	for at := phase(step); ; at += step {
		fs := simfs.New()
		fs.WriteFile(rw.StateDirName+"/policy.yaml", []byte("history: {max_versions: 2}\n"), 0o600)
		process := fs.NewProcess()
		sweeper := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001", Process: process}))(t)
		creator := must(rw.OpenSim(fs, &rw.Options{LockTimeout: 20 * time.Millisecond}, rw.Sim{Nonce: "0002", LockWait: 20 * time.Millisecond}))(t)
		for i := range 6 {
			write(t, sweeper, "a.txt", fmt.Sprintf("a%d", i), rw.ModeOverwrite)
		}
		reached, done := process.PauseAt(at), make(chan error, 1)
		go func() {
			_, err := sweeper.Admin().Compact(background, rw.CompactRequest{})
			done <- err
		}()
		over := false
		select {
		case <-reached:
		case err := <-done:
			noErr(t, err)
			over = true
		}
		began := time.Now()
		for _, text := range []string{"a0", "a1"} { // known, and over the bound until now
			if _, err := creator.SafeWrite(background, put("b.txt", text, rw.ModeOverwrite)); err != nil && rw.AsError("", err).Detail != rw.ErrLockTimeout {
				t.Fatalf("stopped at %d: %v (%v)", at, err, errors.Unwrap(err))
			}
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("stopped at %d: the other process took %s", at, took)
		}
		noErr(t, creator.Sync(background))
		process.Continue()
		if !over {
			noErr(t, <-done)
		}
		look := func(s *rw.Store) {
			for _, path := range []string{"a.txt", "b.txt"} {
				h, err := s.History(background, rw.HistoryRequest{Path: path})
				if errors.Is(err, rw.ErrNotFound) && path == "b.txt" {
					continue
				}
				noErr(t, err)
				for i, v := range h.Versions[:min(2, len(h.Versions))] {
					if !v.Available || v.HeadNotKept && path == "b.txt" {
						t.Errorf("stopped at %d: version %d of %s (%s) is gone", at, i, path, v.SHA256.String()[:12])
					}
				}
			}
		}
		look(creator)
		noErr(t, creator.Close(background))
		noErr(t, sweeper.Close(background))
		s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0003"}))(t)
		look(s)
		check(t, s, true)
		noErr(t, s.Close(background))
		if ran++; over {
			break
		}
	}
	if ran < 10 {
		t.Errorf("stopped at %d places only", ran)
	}
}

// TestSweepBesideAWriteInPlace: a process that overwrites a file, or moves one over
// another, keeps the previous version first. It is stopped at any point, and another
// process applies the limits, under which that version is one too many. The version
// exists when the call continues, and after it.
func TestSweepBesideAWriteInPlace(t *testing.T) {
	calls := map[string]func(*rw.Store) error{
		"in place":  do(rw.SafeWriteRequest{Path: "a.txt", Content: []byte("new"), Mode: rw.ModeOverwrite}),
		"move over": move("c.txt", "a.txt", true),
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at, step := 0, stride(7)
			for at = phase(step); !sweepBesideWrite(t, at, call); at += step {
			}
			if at < 30 {
				t.Errorf("the call has %d operations only", at)
			}
		})
	}
}

func sweepBesideWrite(t *testing.T, at int, call func(*rw.Store) error) (over bool) {
	t.Helper()
	fs := simfs.New()
	fs.WriteFile(rw.StateDirName+"/policy.yaml", []byte("history: {max_versions: 2}\n"), 0o600)
	process := fs.NewProcess()
	writer := must(rw.OpenSim(fs, &rw.Options{HardLinks: rw.HardLinksInPlace}, rw.Sim{Nonce: "0001", Process: process}))(t)
	sweeper := must(rw.OpenSim(fs, &rw.Options{LockTimeout: time.Millisecond}, rw.Sim{Nonce: "0002", LockWait: time.Millisecond}))(t)
	for i := range 6 { // the first of these is over the limit
		write(t, sweeper, "b.txt", fmt.Sprintf("b%d", i), rw.ModeOverwrite)
	}
	write(t, sweeper, "c.txt", "c", rw.ModeCreate)
	noErr(t, sweeper.Sync(background))
	fs.WriteFile("a.txt", []byte("b0"), 0o644) // by another program
	noErr(t, fs.Foreign().Link("a.txt", fs.Foreign(), "link.txt"))
	reached, ended := process.PauseAt(at), make(chan error, 1)
	go func() { ended <- call(writer) }()
	select {
	case <-reached:
	case err := <-ended:
		noErr(t, err)
		over = true
	}
	if _, err := sweeper.Admin().Compact(background, rw.CompactRequest{}); err != nil && rw.AsError("", err).Detail != rw.ErrLockTimeout {
		t.Fatalf("stopped at %d: %v", at, err)
	}
	process.Continue()
	if !over {
		noErr(t, <-ended, "stopped at ", at)
	}
	h := must(writer.History(background, rw.HistoryRequest{Path: "a.txt"}))(t)
	for _, v := range h.Versions {
		if v.SHA256.String() == hash("b0") && !v.Available {
			t.Errorf("stopped at %d: the version before is gone", at)
		}
	}
	return over
}
