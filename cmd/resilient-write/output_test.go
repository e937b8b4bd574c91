package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
)

// narrow is an output with room for a number of bytes. A write that does not
// fit fails as on a full disk; later writes succeed again, as after space was
// freed.
type narrow struct {
	room  int
	taken bytes.Buffer
	full  bool
}

func (n *narrow) Write(p []byte) (int, error) {
	if n.full || len(p) <= n.room {
		n.room -= len(p)
		return n.taken.Write(p)
	}
	n.full = true
	n.taken.Write(p[:n.room])
	return n.room, &os.PathError{Op: "write", Path: "/somewhere/stdout", Err: syscall.ENOSPC}
}

// into runs the command with the given standard output. A command that does not
// end by itself fails the test.
func (s shell) into(out io.Writer, args ...string) (code rw.Code, errs string) {
	s.t.Helper()
	type ending struct {
		code rw.Code
		errs string
	}
	done := make(chan ending, 1)
	go func() {
		var b bytes.Buffer
		env := func(name string) string {
			return map[string]string{"RW_WORKSPACE": s.dir, "RW_SYNC": "off", "NO_COLOR": "1", "RW_STATE_DIR": os.Getenv("RW_STATE_DIR")}[name]
		}
		code := run(append(args, s.extra...), env, strings.NewReader(s.in), out, &b)
		done <- ending{code, b.String()}
	}()
	select {
	case e := <-done:
		return e.code, e.errs
	case <-time.After(time.Minute):
		s.t.Fatalf("%v does not end", args)
		return 0, ""
	}
}

var everyKindOfReply = []string{
	"read a.txt", "check", "history a.txt", "diff a.txt", "journal tail", "journal since", "journal follow --after 0", "describe",
	"analytics", "chunk list", "scratch list", "draft list", "version", "--version", "help", "help write", "write --help", "completion bash", "recover",
	"compact --dry-run", "undo --dry-run", "delete a.txt --dry-run", "check --repair --dry-run", "journal import --dry-run --allow-non-empty",
}

// TestALostResultIsNotSuccess: for any reply, for programs and for people, an
// output that does not accept all of it is reported once, with the code of
// storage and no path, and nothing is written after the gap.
func TestALostResultIsNotSuccess(t *testing.T) {
	s := newShell(t)
	s.with("one\n").ok("write", "a.txt")
	s.with("two\n").ok("write", "a.txt", "--mode", "overwrite")
	s.in = s.ok("journal", "export").out
	lines := append(everyKindOfReply, "report", "journal export")
	for _, person := range []bool{false, true} {
		if person {
			asPerson(t)
			lines = everyKindOfReply
		}
		for _, line := range lines {
			for _, room := range []int{0, 3} {
				out := &narrow{room: room}
				code, errs := s.into(out, strings.Fields(line)...)
				if code != rw.CodeStorage || strings.Count(errs, "no space left") != 1 || strings.Contains(errs, "internal") || strings.Contains(errs, "somewhere") {
					t.Errorf("%s (person: %v): code %d: %q", line, person, code, errs)
				}
				if out.taken.Len() > room {
					t.Errorf("%s: behind the gap comes %q", line, out.taken.String())
				}
			}
		}
	}
}

// TestALostResultLeavesWhatWasDone: the write happened, its receipt says so,
// and the message does too.
func TestALostResultLeavesWhatWasDone(t *testing.T) {
	s := newShell(t)
	file := filepath.Join(t.TempDir(), "result")
	s.in = "text\n"
	s.ok("write", "b.txt")
	code, errs := s.into(&narrow{}, "write", "b.txt", "--result-out", file)
	if got := s.resultIn(file); code != rw.CodeStorage || got.status() != "refused" || !strings.Contains(errs, "file_already_exists") || !strings.Contains(errs, "no space left") {
		t.Errorf("a refusal: code %d: %s: %s", code, errs, got.Receipt)
	}
	for _, person := range []bool{false, true} {
		if person {
			asPerson(t)
		}
		code, errs := s.into(&narrow{}, "write", "a.txt", "--mode", "append", "--result-out", file)
		got := s.resultIn(file)
		if code != rw.CodeStorage || got.Code != code || got.status() != "succeeded" || !strings.Contains(errs, "completed changes remain") {
			t.Errorf("code %d: %s: %s", code, errs, got.Receipt)
		}
	}
	if data, _ := os.ReadFile(filepath.Join(s.dir, "a.txt")); string(data) != "text\ntext\n" {
		t.Errorf("%q", data)
	}
	for _, line := range []string{"completion bash", "journal follow --after 0"} {
		s.into(&narrow{}, append(strings.Fields(line), "--result-out", file)...)
		if got := s.resultIn(file); !strings.Contains(string(got.Reply), "disk_full") {
			t.Errorf("%s: %s", line, got.Reply)
		}
	}
}

// TestTheResultOutlivesTheReader: the result is written even if the reader of
// standard output has closed it, which otherwise ends the process.
func TestTheResultOutlivesTheReader(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no signals")
	}
	s := newShell(t)
	file := filepath.Join(t.TempDir(), "result")
	gone := pipe(t)
	gone.r.Close()
	defer gone.w.Close()
	cmd := s.process("write", "a.txt", "--result-out", file)
	cmd.Stdin, cmd.Stdout = strings.NewReader("text\n"), gone.w
	var errs bytes.Buffer
	cmd.Stderr = &errs
	cmd.Run()
	if got := s.resultIn(file); cmd.ProcessState.ExitCode() != int(rw.CodeStorage) || got.status() != "succeeded" || !strings.Contains(errs.String(), "broken pipe") {
		t.Errorf("%v: %s: %s", cmd.ProcessState, errs.String(), got.Receipt)
	}
}
