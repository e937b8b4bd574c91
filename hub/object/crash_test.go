package object

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// step is one call of a script. It leads to the contents before it with key set to data, or absent
// for "".
type step struct {
	name      string
	key, data string
	run       func(s Store, tags map[string]string) (string, error)
}

func putStep(key, data string) step {
	return step{"put", key, data, func(s Store, _ map[string]string) (string, error) { return s.PutIfAbsent(ctx, key, []byte(data)) }}
}

func swapStep(key, data string) step {
	return step{"swap", key, data, func(s Store, tags map[string]string) (string, error) {
		return s.CompareAndSwap(ctx, key, tags[key], []byte(data))
	}}
}

func deleteStep(key string) step {
	return step{"delete", key, "", func(s Store, _ map[string]string) (string, error) { return "", s.Delete(ctx, key) }}
}

var (
	large  = strings.Repeat("large", 500) // several sectors
	script = []step{
		putStep("a/b/c", "one"), swapStep("a/b/c", large), putStep("a/b/d", large), swapStep("a/b/c", "three"), deleteStep("a/b/d"),
		putStep("a/b/d", "again"), swapStep("e", "made"), swapStep("e", "replaced"), deleteStep("a/b/c"),
	}
)

// play runs the script until a call fails. It returns the contents before that call, those after it, and its error.
func play(root fsx.Dir) (before, after map[string]string, err error) {
	before = map[string]string{}
	s, err := openDir(root)
	if err != nil {
		return before, before, err
	}
	tags := map[string]string{}
	for _, step := range script {
		after = maps.Clone(before)
		if after[step.key] = step.data; step.data == "" {
			delete(after, step.key)
		}
		tag, err := step.run(s, tags)
		if err != nil {
			return before, after, fmt.Errorf("%s %s: %w", step.name, step.key, err)
		}
		before, tags[step.key] = after, tag
	}
	return before, before, nil
}

// contents returns what a store holds, read in every way.
func contents(t *testing.T, s Store) map[string]string {
	t.Helper()
	list, _, err := s.List(ctx, "", "")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, info := range list {
		data, _, err := s.Get(ctx, info.Key)
		if err != nil || int64(len(data)) != info.Size {
			t.Fatalf("%v: %d bytes, %v", info, len(data), err)
		}
		all[info.Key] = string(data)
	}
	return all
}

func mustOpenDir(t *testing.T, root fsx.Dir) *dirStore {
	t.Helper()
	s, err := openDir(root)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// losses tries what crashes lose: everything unsynced, nothing, and parts.
func losses(disk *simfs.FS, do func(after *simfs.FS)) {
	do(disk.Crash(0, simfs.All))
	do(disk.Crash(0, simfs.None))
	for seed := range uint64(6) {
		do(disk.Crash(seed, simfs.Some))
		do(disk.Crash(seed, simfs.Older))
	}
}

// TestCrashSweep: a power cut at any operation leaves every call that returned applied, and the one
// that did not applied completely or not at all. The next process continues, and no temporary file
// stays.
func TestCrashSweep(t *testing.T) {
	for n := 0; ; n++ {
		disk := simfs.New()
		disk.StopAt(n)
		before, after, err := play(disk.Root())
		disk.StopAt(-1)
		losses(disk, func(disk *simfs.FS) {
			s := mustOpenDir(t, disk.Root())
			s.sweep()
			found := contents(t, s)
			if !maps.Equal(found, before) && !maps.Equal(found, after) {
				t.Fatalf("operation %d (%v): found %v, want %v or %v", n, err, found, before, after)
			}
			for key, data := range found { // the other side of a swap
				if _, err := s.PutIfAbsent(ctx, key, []byte("next")); !errors.Is(err, ErrExists) {
					t.Fatalf("operation %d: %v", n, err)
				}
				if _, err := s.CompareAndSwap(ctx, key, contentTag([]byte(data)), []byte("next")); err != nil {
					t.Fatalf("operation %d: %v", n, err)
				}
			}
			for path := range disk.Tree() {
				if strings.HasPrefix(path, writing+"/") {
					t.Fatalf("operation %d: %s is left", n, path)
				}
			}
		})
		if err == nil {
			if n < 50 {
				t.Errorf("only %d operations", n)
			}
			return
		}
	}
}

// TestSeenIsDurable: after another process was killed at any operation, everything that a store
// returned or reported about a key survives a power cut.
func TestSeenIsDurable(t *testing.T) {
	for name, look := range map[string]func(s *dirStore, seen map[string]bool){
		"get": func(s *dirStore, seen map[string]bool) {
			for key, data := range contents(t, s) {
				seen[key+"="+data] = true
			}
		},
		"put": func(s *dirStore, seen map[string]bool) {
			for _, step := range script {
				if _, err := s.PutIfAbsent(ctx, step.key, []byte("mine")); err != nil && !errors.Is(err, ErrExists) {
					t.Fatal(err)
				}
				seen[step.key] = true
			}
		},
		"delete": func(s *dirStore, seen map[string]bool) { // of one key: another one would have the directory flushed
			last := script[len(script)-1].key
			if err := s.Delete(ctx, last); err != nil {
				t.Fatal(err)
			}
			seen["not "+last] = true
		},
	} {
		for n := 0; ; n++ {
			disk := simfs.New()
			disk.StopAt(n)
			_, _, err := play(disk.Root())
			disk.Kill()
			seen := map[string]bool{}
			look(mustOpenDir(t, disk.Root()), seen)
			losses(disk, func(disk *simfs.FS) {
				holds := map[string]bool{}
				found := contents(t, mustOpenDir(t, disk.Root()))
				for _, step := range script {
					data, ok := found[step.key]
					holds[step.key], holds["not "+step.key], holds[step.key+"="+data] = ok, !ok, ok
				}
				for fact := range seen {
					if !holds[fact] {
						t.Fatalf("%s, operation %d (%v): %s was seen, and is gone", name, n, err, fact)
					}
				}
			})
			if err == nil {
				break
			}
		}
	}
}

// TestFaultSweep: an operation that fails does not affect the calls before it; a call that failed
// is applied only if its error says that it may be.
func TestFaultSweep(t *testing.T) {
	for _, errno := range []error{syscall.EIO, syscall.ENOSPC} {
		for n := 0; ; n++ {
			disk := simfs.New()
			hit := false
			disk.Inject(func(op simfs.Op) simfs.Fault {
				if hit || op.Mut != n {
					return simfs.Fault{}
				}
				hit = true
				return simfs.Fault{Err: errno, Short: 3}
			})
			before, after, err := play(disk.Root())
			disk.Inject(nil)
			if !errors.Is(err, ErrUncertain) && err != nil {
				after = before
			}
			disk.Kill()
			check := func(disk *simfs.FS) {
				if found := contents(t, mustOpenDir(t, disk.Root())); !maps.Equal(found, before) && !maps.Equal(found, after) {
					t.Fatalf("operation %d (%v): found %v, want %v or %v", n, err, found, before, after)
				}
			}
			losses(disk, check)
			check(disk)
			if !hit {
				break
			}
		}
	}
}

// TestNothingAfterAFailedFlush: a handle whose flush failed returns only errors, because what it
// sees may be lost in a power cut.
func TestNothingAfterAFailedFlush(t *testing.T) {
	disk := simfs.New()
	s := mustOpenDir(t, disk.Root())
	tag, err := s.PutIfAbsent(ctx, "a", []byte("1"))
	if err != nil {
		t.Fatal(err)
	}
	disk.Inject(func(op simfs.Op) simfs.Fault {
		if op.Kind == "syncdir" {
			return simfs.Fault{Err: syscall.EIO}
		}
		return simfs.Fault{}
	})
	if _, err := s.CompareAndSwap(ctx, "a", tag, []byte("2")); !errors.Is(err, ErrUncertain) || !errors.Is(err, syscall.EIO) {
		t.Errorf("%v", err)
	}
	disk.Inject(nil)
	_, _, lerr := s.List(ctx, "", "")
	for i, err := range append(callAll(s, "a", tag), lerr) {
		if !errors.Is(err, syscall.EIO) || errors.Is(err, ErrExists) || errors.Is(err, ErrChanged) {
			t.Errorf("call %d: %v", i, err)
		}
	}
}

// TestStoppedHolder: a process is stopped before any operation of a swap, another one swaps
// meanwhile, and the first continues or is killed. One of the two swaps succeeds, or none if the
// first was killed. The content is that of the successful one, also after a power cut.
func TestStoppedHolder(t *testing.T) {
	for _, kill := range []bool{false, true} {
		waited, lost, n := 0, 0, 0
		for stopped := true; stopped; n++ {
			disk := simfs.New()
			first, second := disk.NewProcess(), disk.NewProcess()
			a, b := mustOpenDir(t, first.Root()), mustOpenDir(t, second.Root())
			tag, err := a.PutIfAbsent(ctx, "k", []byte("0"))
			if err != nil {
				t.Fatal(err)
			}
			reached := first.PauseAt(n)
			done := make(chan error, 1)
			go func() {
				_, err := a.CompareAndSwap(ctx, "k", tag, []byte("a"))
				done <- err
			}()
			var aerr error
			select {
			case <-reached:
			case aerr = <-done:
				stopped = false
			}
			short, cancel := context.WithTimeout(ctx, 2*time.Millisecond)
			_, berr := b.CompareAndSwap(short, "k", tag, []byte("b"))
			cancel()
			b.sweep() // removes nothing of the first
			if errors.Is(berr, context.DeadlineExceeded) {
				waited++
			}
			switch {
			case !stopped:
			case kill:
				first.Kill()
				aerr = <-done
			default:
				first.Continue()
				aerr = <-done
			}
			disk = disk.Crash(0, simfs.All)
			got := contents(t, mustOpenDir(t, disk.Root()))["k"]
			switch {
			case errors.Is(aerr, fs.ErrNotExist) && got == "0" && lost == 0:
				lost++
				// It was stopped before it locked the file that it writes. A sweep leaves such a file alone for an hour, but times are small here.
			case aerr == nil && berr == nil, aerr == nil && got != "a", berr == nil && got != "b", !kill && aerr != nil && berr != nil, got == "":
				t.Errorf("operation %d: first %v, second %v, found %q", n, aerr, berr, got)
			}
		}
		if waited < 5 || n < 15 {
			t.Errorf("the second waited %d times at %d operations", waited, n)
		}
	}
}
