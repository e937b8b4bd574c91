package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// watching starts the built command with its output in a pipe, and returns
// what reads its lines up to one that holds a text.
func watching(t *testing.T, dir string, args ...string) (sees func(text string) string, end func()) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("no signals")
	}
	cmd := exec.Command(build(t), append([]string{"watch", "--root", dir}, args...)...)
	out := pipe(t)
	cmd.Stdout = out.w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.w.Close()
	late := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() }) // ends the wait for a line that never comes
	lines := bufio.NewScanner(out.r)
	lines.Buffer(nil, 1<<20)
	sees = func(text string) string {
		t.Helper()
		for lines.Scan() {
			if strings.Contains(lines.Text(), text) {
				return lines.Text()
			}
		}
		t.Fatalf("%q does not come", text)
		return ""
	}
	return sees, func() {
		t.Helper()
		late.Stop()
		cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// TestWatchPrintsLines where standard output is no terminal: an event each,
// from now on, without secrets, and what waits already.
func TestWatchPrintsLines(t *testing.T) {
	s := newShell(t)
	s.with("x\n").ok("write", "before.txt")
	s.with("piece").ok("chunk", "append", "pieces")
	before := everyFile(t, s.dir)
	sees, end := watching(t, s.dir)
	sees("watching from row 3 on")
	if line := sees(""); !strings.Contains(line, "waiting  a session that is not composed: pieces, chunks: 1: resilient-write chunk status pieces") {
		t.Errorf("first: %q", line)
	}
	if diff := cmp.Diff(before, everyFile(t, s.dir)); diff != "" {
		t.Errorf("it changed the store:\n%s", diff)
	}
	s.with("y\n").ok("write", "before.txt", "--mode", "overwrite")
	if line := sees("changed"); !strings.Contains(line, "overwrite  before.txt  +1 -1 lines  row ") || strings.Contains(line, "\x1b") {
		t.Errorf("%q", line)
	}
	s.with("key "+reportKey).run("write", "a\x1b[2J.env")
	if line := sees("  refused  "); !strings.Contains(line, "a?[2J.env") || !strings.Contains(line, "looks like a secret: api_key") {
		t.Errorf("%q", line)
	}
	s.ok("chunk", "reset", "pieces")
	sees("ended    session pieces")
	end()
}

// TestWatchIsReadByPrograms: with --json each event is an object, which has the
// diff.
func TestWatchIsReadByPrograms(t *testing.T) {
	s := newShell(t)
	s.with("one\n").ok("write", "a.txt")
	sees, end := watching(t, s.dir, "--json")
	sees(`"event":"watching"`)
	s.with("key "+reportKey+"\n").ok("write", "a.txt", "--mode", "overwrite", "--gate", "off")
	s.with("two\n").ok("write", "a.txt", "--mode", "overwrite")
	var e event
	if err := json.Unmarshal([]byte(sees(`{"op":"-","text":"key {AWS`)), &struct {
		*event
		Diffs any `json:"diffs"`
	}{event: &e}); err != nil || e.Event != "changed" || e.Change.Files[0].Path != "a.txt" {
		t.Errorf("%v %+v", err, e)
	}
	end()
}
