//go:build unix

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// fifo creates a named pipe.
func fifo(t *testing.T) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "fifo")
	if err := syscall.Mkfifo(name, 0o600); err != nil {
		t.Skip("no pipe can be made here:", err)
	}
	return name
}

// writerOf waits until a process opens a pipe for reading, and holds its other
// end.
func writerOf(t *testing.T, name string) *os.File {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		f, err := os.OpenFile(name, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err == nil {
			return f
		}
		require(t, !time.Now().After(deadline), "no reader: %v", err)
	}
}

// TestInterruptWhileANamedInputWaits: Ctrl-C ends the command wherever a name
// is that of a pipe whose writer has not written yet.
func TestInterruptWhileANamedInputWaits(t *testing.T) {
	s := newShell(t)
	s.with("old\n").ok("write", "a.txt")
	for _, line := range []string{
		"write b.txt --from PIPE", "redact --from PIPE", "edit a.txt PIPE", "call rw_edit PIPE", "journal import PIPE",
		"erase --secret-file PIPE", "handoff write PIPE", "checkpoint save x --data @PIPE", "serve --transport http --tls-cert PIPE --tls-key PIPE",
	} {
		name := fifo(t)
		args := strings.Fields(strings.ReplaceAll(line, "PIPE", name))
		if strings.HasPrefix(line, "checkpoint") {
			args = []string{"checkpoint", "save", "x", name}
		}
		cmd := s.process(args...)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		noErr(t, cmd.Start())
		w := writerOf(t, name)
		code := interrupted(t, cmd)
		w.Close()
		expect(t, code == rw.CodePrecondition && strings.Contains(errs.String(), "canceled"), "%s: code %d: %s", line, code, errs.String())
	}
	names, _ := os.ReadDir(s.dir)
	expect(t, len(names) == 2, "left %v", names)
	s.clean()
}

// TestInterruptWithoutReader: Ctrl-C also ends the command when standard
// output is a full pipe. Changes made before are kept, and the result reports
// them.
func TestInterruptWithoutReader(t *testing.T) {
	t.Parallel()
	s := newShell(t)
	s.with(strings.Repeat("long\n", 1<<16)).ok("write", "a.txt")
	for line, code := range map[string]rw.Code{"read a.txt": rw.CodeStorage, "journal export": rw.CodePrecondition} {
		if line == "journal export" {
			grown(t, s.dir, 250)
		}
		file := filepath.Join(t.TempDir(), "result")
		held := pipe(t)
		cmd := s.process(append(strings.Fields(line), "--result-out", file)...)
		cmd.Stdout = held.w
		noErr(t, cmd.Start())
		held.r.Read(make([]byte, 1)) // the command writes, and only this byte is read
		ended := interrupted(t, cmd)
		held.w.Close()
		held.r.Close()
		got := s.resultIn(file)
		expect(t, ended == code && got.Code == code, "%s: code %d: %.200s", line, ended, got.Reply)
	}
	s.clean()
}

// TestOpeningAPipeCanBeCalledOff: opening a pipe without a writer can be
// canceled, before the call and during it. A pipe whose writer arrives late is
// read to its end, which a non-blocking open would miss.
func TestOpeningAPipeCanBeCalledOff(t *testing.T) {
	for _, wait := range []time.Duration{0, 20 * time.Millisecond} {
		name := fifo(t)
		ctx, stop := context.WithCancel(t.Context())
		if wait == 0 {
			stop()
		}
		time.AfterFunc(wait, stop)
		ended := make(chan error, 1)
		go func() {
			_, err := openNamed(ctx, name)
			ended <- err
		}()
		select {
		case err := <-ended:
			expect(t, errors.Is(err, context.Canceled), "%v", err)
		case <-time.After(time.Minute):
			t.Fatal("the opening waits for a writer")
		}
		writerOf(t, name).Close() // lets the opening end
	}
	s, name := newShell(t), fifo(t)
	go func() {
		w := writerOf(t, name)
		defer w.Close()
		time.Sleep(20 * time.Millisecond)
		io.WriteString(w, "late")
	}()
	s.ok("write", "a.txt", "--from", name)
	testbed.Holds(t, filepath.Join(s.dir, "a.txt"), "late")
	r := s.run("write", "b.txt", "--from", s.dir)
	expect(t, r.code == rw.CodeUsage && strings.Contains(r.errs, "directory") && !strings.Contains(r.errs, s.dir), "a directory: code %d: %s", r.code, r.errs)
}

// TestOwnDescriptorsAreNotHandedOver: a descriptor that the process opened
// itself, such as a file of the journal, is refused as a place for a result,
// although it is writable.
func TestOwnDescriptorsAreNotHandedOver(t *testing.T) {
	own := pipe(t)
	defer own.all()
	fd := int(own.w.Fd())
	expect(t, !handedOver(fd), "a descriptor of its own")
	inherit(t, fd)
	expect(t, handedOver(fd), "one that an exec leaves open is refused")
	reader := int(own.r.Fd())
	inherit(t, reader)
	expect(t, !handedOver(reader), "one that cannot be written to")
}

// inherit clears the close-on-exec flag of a descriptor.
func inherit(t *testing.T, fd int) {
	t.Helper()
	must(unix.FcntlInt(uintptr(fd), unix.F_SETFD, 0))(t)
}

// TestHubIsAProgramOfItsOwn: both subcommands run the hub program with all
// arguments, and exit with its code; if it is missing, they say how to get it.
func TestHubIsAProgramOfItsOwn(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		args, got string
		code      rw.Code
	}{
		{"hub status --hub x", "status --hub x|typed\n", 6},
		{"--root w hub ship --task t", "--root w ship --task t|typed\n", 6},
		{"resume t --into d", "resume t --into d|typed\n", 6},
		{"hub verify --json", "verify --json|typed\n", 6},
	} {
		t.Setenv("PATH", dir)
		var out, errs bytes.Buffer
		code := run(strings.Fields(c.args), os.Getenv, strings.NewReader(""), &out, &errs)
		expect(t, code == rw.CodeNotFound && strings.Contains(errs.String(), "go build"),
			"%s without it: %d %s%s", c.args, code, out.String(), errs.String())
		os.WriteFile(filepath.Join(dir, hubProgram), []byte("#!/bin/sh\nread -r line\necho \"$*|$line\"\nexit 6\n"), 0o755)
		out.Reset()
		code = run(strings.Fields(c.args), os.Getenv, strings.NewReader("typed\n"), &out, &errs)
		expect(t, out.String() == c.got && code == c.code, "%s: %d %q", c.args, code, out.String())
		os.Remove(filepath.Join(dir, hubProgram))
	}
}

// TestStatusShowsTheLag: status reports how many rows a hub lacks, and whether
// the task was lost.
func TestStatusShowsTheLag(t *testing.T) {
	sh := newShell(t)
	s := must(rw.Open(t.Context(), sh.dir, &rw.Options{StateDir: ".resilient_write"}))(t)
	for range 3 {
		must(s.SafeWrite(t.Context(), rw.SafeWriteRequest{Path: "a.txt", Content: []byte("text\n"), Mode: rw.ModeAppend}))(t)
	}
	expect(t, !strings.Contains(sh.ok("status").out, `"hub"`), "there is no hub")
	for state, want := range map[string]string{
		`{"seq":1,"task":"t"}`:    `"hub":{"seq":1,"waiting":2,"task":"t"}`,
		`{"seq":3,"forked":true}`: `"hub":{"seq":3,"waiting":0,"forked":true}`,
	} {
		noErr(t, s.Admin().SetShipState([]byte(state)))
		got := sh.ok("status").out
		expect(t, strings.Contains(got, want), "%s: %s", state, got)
	}
	s.Close(t.Context())
}

// TestInitKeepsOwners: a file that root configures for a user stays the user's, who can
// go on reading it.
func TestInitKeepsOwners(t *testing.T) {
	testbed.SkipIf(t, os.Geteuid() != 0, "only root can give a file to another user")
	d := newDesk(t)
	d.write("~/.claude.json", "{}\n", 0o600)
	noErr(t, os.Chown(d.path("~/.claude.json"), 4711, 4712))
	_, code := d.run("init", "claude-code", "--scope", "user")
	st := must(os.Lstat(d.path("~/.claude.json")))(t)
	is := st.Sys().(*syscall.Stat_t)
	expect(t, code == 0 && st.Size() > 3 && st.Mode().Perm() == 0o600 && is.Uid == 4711 && is.Gid == 4712, "%d: %v %d:%d", code, st.Mode(), is.Uid, is.Gid)
}

// TestStateThatCannotBeWritten checks that this is an error, and that no second
// store is created.
func TestStateThatCannotBeWritten(t *testing.T) {
	testbed.SkipIf(t, os.Geteuid() != 0, "needs root, to run as another user")
	a, state := newPlaced(t)
	a.sh("git init -q; printf x > ../in; chmod -R a+rX ../..")
	a.rw("write", "a.txt", "--from", filepath.Join(filepath.Dir(a.dir), "in"))
	store := filepath.Join(a.dir, ".git", "resilientwrite", "main")
	a.sh("mkdir -p '" + state + "'; chmod 755 .git/resilientwrite .git/resilientwrite/main; chown -R 4711 .; chmod 500 .git/resilientwrite/main; chown 4711 '" + state + "'")
	bin := filepath.Join(filepath.Dir(a.dir), "rw")
	data, err := os.ReadFile(build(t))
	if err == nil {
		err = os.WriteFile(bin, data, 0o755)
	}
	noErr(t, err)
	for dir := a.dir; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if st, _ := os.Stat(dir); st.Mode().Perm()&0o055 == 0 {
			os.Chmod(dir, 0o755)
		}
	}
	for _, named := range [][]string{nil, {"--state-dir", store}} {
		cmd := exec.Command(bin, append(named, "write", "b.txt", "--from", filepath.Join(filepath.Dir(a.dir), "in"))...)
		cmd.Dir = a.dir
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 4711, Gid: 4711}}
		out, err := cmd.CombinedOutput()
		expect(t, err != nil && strings.Contains(string(out), "state_not_writable") && !strings.Contains(string(out), store), "%v: %v %s", named, err, out)
	}
	expect(t, len(stores(state)) == 0, "a second store was made")
	_, err = os.Lstat(filepath.Join(a.dir, ".resilient_write"))
	expect(t, err != nil, "a second store was made in the tree")
}
