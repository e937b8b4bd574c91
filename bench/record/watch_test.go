//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	plant()
	if ran, err := job(); ran {
		if err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// child starts an arm in a process whose system calls are watched.
func child(t *testing.T, arm string) (*proc, *watcher) {
	t.Helper()
	p, err := startProc(arm, t.TempDir(), "full")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	w, err := p.watched()
	if err != nil {
		if os.Getenv("RW_CI") == "1" {
			t.Fatal(err)
		}
		t.Skip("the kernel does not let a process be watched: ", err)
	}
	return p, w
}

// TestKillsInFrontOfTheCallThatIsAsked: the naive tool makes two system calls,
// one that empties the file and one that fills it.
func TestKillsInFrontOfTheCallThatIsAsked(t *testing.T) {
	for at, want := range []string{"old", "", "new"} {
		p, w := child(t, "naive")
		name := filepath.Join(p.dir, "a.txt")
		if err := os.WriteFile(name, []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
		p.doomed = true
		w.observe(at)
		rep := p.Call(t.Context(), call{Verb: write, Path: "a.txt", Text: "new"})
		if rep.Gone != (at < 2) || p.dead != (at < 2) {
			t.Fatalf("killed in front of call %d: gone %v, dead %v", at, rep.Gone, p.dead)
		}
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("killed in front of call %d: %q, want %q (%v)", at, got, want, err)
		}
		if count, _ := w.rest(); at == 2 && count != 2 {
			t.Errorf("%d calls", count)
		}
	}
}

// TestErrorsTakeThePlaceOfCalls checks that calls fail as long as requested.
func TestErrorsTakeThePlaceOfCalls(t *testing.T) {
	for _, arm := range armNames {
		p, w := child(t, arm)
		c := call{Verb: write, Path: "a.txt", Text: "text", Replace: true}
		w.refuse(writing, unix.ENOSPC)
		rep := p.Call(t.Context(), c)
		if rep.OK || !strings.Contains(rep.Text, "no space") && !strings.Contains(rep.Text, "disk_full") {
			t.Errorf("%s: %s", arm, rep.Text)
		}
		if _, hits := w.rest(); hits == 0 {
			t.Errorf("%s: no call was refused", arm)
		}
		if rep := p.Call(t.Context(), c); !rep.OK {
			t.Errorf("%s, after it: %s", arm, rep.Text)
		}
		if p.err != nil {
			t.Error(p.err)
		}
	}
}

// TestTheLimitIsThatOfTheChild: the kernel cuts a write at that byte.
func TestTheLimitIsThatOfTheChild(t *testing.T) {
	p, _ := child(t, "naive")
	if err := p.limit(1000); err != nil {
		t.Fatal(err)
	}
	text := strings.Repeat("x", 5000)
	if rep := p.Call(t.Context(), call{Verb: write, Path: "a.txt", Text: text}); rep.OK || !strings.Contains(rep.Text, "too large") {
		t.Errorf("%+v", rep)
	}
	if got, err := os.ReadFile(filepath.Join(p.dir, "a.txt")); err != nil || len(got) != 1000 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := p.limit(0); err != nil {
		t.Fatal(err)
	}
	if rep := p.Call(t.Context(), call{Verb: write, Path: "a.txt", Text: text}); !rep.OK {
		t.Error(rep.Text)
	}
}

// TestAnUnexpectedDeathIsAnError checks that it is not counted as a lost
// reply.
func TestAnUnexpectedDeathIsAnError(t *testing.T) {
	p, _ := child(t, "naive")
	p.cmd.Process.Kill()
	if rep := p.Call(t.Context(), call{Verb: read, Path: "a.txt"}); !rep.Gone || p.err == nil {
		t.Errorf("%+v, %v", rep, p.err)
	}
}
