//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
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
	p := testbed.Must(startProc(arm, t.TempDir(), "full"))(t)
	t.Cleanup(p.kill)
	w, err := p.watched()
	if err != nil {
		testbed.Require(t, os.Getenv("RW_CI") != "1", "%v", err)
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
		testbed.NoErr(t, os.WriteFile(name, []byte("old"), 0o644))
		p.doomed = true
		w.observe(at)
		rep := p.Call(t.Context(), call{Verb: write, Path: "a.txt", Text: "new"})
		testbed.Require(t, rep.Gone == (at < 2) && p.dead == (at < 2), "killed in front of call %d: gone %v, dead %v", at, rep.Gone, p.dead)
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("killed in front of call %d: %q, want %q (%v)", at, got, want, err)
		}
		count, _ := w.rest()
		testbed.Expect(t, at != 2 || count == 2, "%d calls", count)
	}
}

// TestErrorsTakeThePlaceOfCalls checks that calls fail as long as requested.
func TestErrorsTakeThePlaceOfCalls(t *testing.T) {
	for _, arm := range armNames {
		p, w := child(t, arm)
		c := call{Verb: write, Path: "a.txt", Text: "text", Replace: true}
		w.refuse(writing, unix.ENOSPC)
		rep := p.Call(t.Context(), c)
		testbed.Expect(t, !rep.OK && (strings.Contains(rep.Text, "no space") || strings.Contains(rep.Text, "disk_full")), "%s: %s", arm, rep.Text)
		_, hits := w.rest()
		testbed.Expect(t, hits != 0, "%s: no call was refused", arm)
		if rep := p.Call(t.Context(), c); !rep.OK {
			t.Errorf("%s, after it: %s", arm, rep.Text)
		}
		testbed.Expect(t, p.err == nil, "%v", p.err)
	}
}

// TestTheLimitIsThatOfTheChild: the kernel cuts a write at that byte.
func TestTheLimitIsThatOfTheChild(t *testing.T) {
	p, _ := child(t, "naive")
	testbed.NoErr(t, p.limit(1000))
	text := strings.Repeat("x", 5000)
	if rep := p.Call(t.Context(), call{Verb: write, Path: "a.txt", Text: text}); rep.OK || !strings.Contains(rep.Text, "too large") {
		t.Errorf("%+v", rep)
	}
	if got, err := os.ReadFile(filepath.Join(p.dir, "a.txt")); err != nil || len(got) != 1000 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	testbed.NoErr(t, p.limit(0))
	if rep := p.Call(t.Context(), call{Verb: write, Path: "a.txt", Text: text}); !rep.OK {
		t.Error(rep.Text)
	}
}

// TestAnUnexpectedDeathIsAnError checks that it is not counted as a lost
// reply.
func TestAnUnexpectedDeathIsAnError(t *testing.T) {
	p, _ := child(t, "naive")
	p.cmd.Process.Kill()
	rep := p.Call(t.Context(), call{Verb: read, Path: "a.txt"})
	testbed.Expect(t, rep.Gone && p.err != nil, "%+v, %v", rep, p.err)
}
