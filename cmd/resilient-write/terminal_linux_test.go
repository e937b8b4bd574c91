package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/failpoint"
)

// tty is the command in a separate session, under a pseudo-terminal.
type tty struct {
	t    *testing.T
	keys *os.File
	cmd  *exec.Cmd

	mu   sync.Mutex
	seen bytes.Buffer
	more chan struct{}
	read chan struct{} // closed when everything was read
}

// onTerminal starts the built command as a person would, in a directory.
func onTerminal(t *testing.T, dir string, args ...string) *tty {
	t.Helper()
	master, slave := terminal(t)
	defer slave.Close()
	noErr(t, unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 200}))
	cmd := exec.Command(build(t), args...)
	cmd.Dir, cmd.Env = dir, []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "NO_COLOR=1", "RW_STATE_DIR=.resilient_write"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	noErr(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); master.Close() })
	return reading(t, master, cmd)
}

// reading reads what a command prints to a terminal.
func reading(t *testing.T, master *os.File, cmd *exec.Cmd) *tty {
	term := &tty{t: t, keys: master, cmd: cmd, more: make(chan struct{}, 1), read: make(chan struct{})}
	go func() {
		defer close(term.read)
		part := make([]byte, 4096)
		for {
			n, err := master.Read(part)
			term.mu.Lock()
			term.seen.Write(part[:n])
			term.mu.Unlock()
			select {
			case term.more <- struct{}{}:
			default:
			}
			if err != nil {
				return // the last process has closed it
			}
		}
	}()
	return term
}

var control = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]|\r")

func (s *tty) screen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return control.ReplaceAllString(s.seen.String(), "")
}

// sees waits until a text appears on the screen.
func (s *tty) sees(text string) {
	s.t.Helper()
	late := time.After(time.Minute)
	for !strings.Contains(s.screen(), text) {
		select {
		case <-s.more:
		case <-late:
			s.t.Fatalf("%q does not appear:\n%s", text, s.screen())
		}
	}
}

func (s *tty) types(keys string) {
	s.t.Helper()
	must(s.keys.WriteString(keys))(s.t)
}

// ends waits for the end, and returns the code and everything that was printed.
func (s *tty) ends() (code int, screen string) {
	s.t.Helper()
	late := time.AfterFunc(time.Minute, func() { s.cmd.Process.Kill() })
	s.cmd.Wait()
	require(s.t, late.Stop(), "it does not end:\n%s", s.screen())
	<-s.read
	return s.cmd.ProcessState.ExitCode(), s.screen()
}

const ctrlD = "\x04"

// TestCtrlDEndsTheServer at the first press, before and after a message.
func TestCtrlDEndsTheServer(t *testing.T) {
	t.Parallel()
	for _, message := range []string{"", `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"} {
		s := onTerminal(t, t.TempDir(), "serve")
		s.sees("until Ctrl-D")
		if s.types(message); message != "" {
			s.sees(`"result":{}`)
		}
		s.types(ctrlD)
		code, screen := s.ends()
		expect(t, code == 0, "after %q: code %d\n%s", message, code, screen)
	}
}

// TestBareCommandOnATerminal shows the help and the state of the directory, and
// ends; a global flag changes nothing about that.
func TestBareCommandOnATerminal(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, args := range [][]string{nil, {"--root", "."}, {"-root", "."}} {
		code, screen := onTerminal(t, dir, args...).ends()
		expect(t, code == 0 && (strings.Contains(screen, "Available Commands") || strings.Contains(screen, "Usage:")) && strings.Contains(screen, "no agent has written here yet"),
			"%q: code %d\n%s", args, code, screen)
	}
	_, err := os.Stat(filepath.Join(dir, ".resilient_write"))
	expect(t, os.IsNotExist(err), "it made a store: %v", err)
	server := onTerminal(t, dir, "--transport", "stdio")
	server.sees("until Ctrl-D")
	server.types(ctrlD)
	server.ends()
}

// TestTerminalSession is a typical session of a person: two versions, a refusal
// whose hint names flags, the log, one version shown and restored, and the
// state.
func TestTerminalSession(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, one := range []struct {
		line, keys string
		code       int
		want       []string
	}{
		{"write a.txt", "one\n" + ctrlD, 0, []string{"succeeded create a.txt"}},
		{"write a.txt", "two\n" + ctrlD, 6, []string{"file_already_exists", "--mode overwrite with --expected-prev-sha256"}},
		{"write a.txt --mode overwrite", "two\n" + ctrlD, 0, []string{"succeeded overwrite a.txt"}},
		{"call rw_safe_write {\"path\":\"sub/b.txt\",\"content\":\"b\"}", "", 0, []string{"sub/b.txt"}},
		{"history a.txt", "", 0, []string{"2        ", "1        ", "ago"}},
		{"show a.txt 1", "", 0, []string{"one"}},
		{"show a.txt 3", "", 2, []string{"there is no version 3", "resilient-write history"}},
		{"diff a.txt --from 1 --to 2", "", 0, []string{"-one", "+two"}},
		{"restore a.txt --version 1", "", 0, []string{"succeeded restore a.txt"}},
		{"show a.txt seq:3", "", 0, []string{"two"}},
		{"journal tail", "", 0, []string{"refused: file_already_exists"}},
		{"log a.txt", "", 0, []string{"refused: file_already_exists", "restore"}},
		{"ls", "", 0, []string{"a.txt", "sub/b.txt", "VERSIONS"}},
		{"ls sub", "", 0, []string{"sub/b.txt"}},
		{"status", "", 0, []string{"changed last", "refused", "file_already_exists", "resilient-write undo"}},
		{"delete sub/b.txt", "", 0, []string{"succeeded delete"}},
		{"ls sub", "", 0, []string{"gone"}},
		{"draft get nope", "", 4, []string{"resilient-write draft list lists them"}},
	} {
		args := strings.Fields(one.line)
		s := onTerminal(t, dir, args...)
		if one.keys != "" {
			s.sees("end it with Ctrl-D")
			s.types(one.keys)
		}
		code, screen := s.ends()
		for _, want := range one.want {
			expect(t, strings.Contains(screen, want) || want == "ago" && strings.Contains(screen, "just now"), "%d %s: no %q\n%s", i, one.line, want, screen)
		}
		expect(t, code == one.code && (!strings.Contains(screen, "rw_") || args[0] == "call"), "%d %s: code %d\n%s", i, one.line, code, screen)
	}
}

// TestFollowShowsRefusals on a terminal, in the order of the rows.
func TestFollowShowsRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name string) {
		cmd := exec.Command(build(t), "write", name, "--root", dir)
		cmd.Stdin = strings.NewReader("x")
		cmd.Run() // the second one is refused
	}
	write("a.txt")
	f := onTerminal(t, dir, "journal", "follow", "--after", "0")
	f.sees("a.txt")
	write("a.txt")
	f.sees("refused: file_already_exists")
	write("b.txt")
	f.sees("b.txt")
	f.types("\x03")
	code, screen := f.ends()
	expect(t, code == 0, "%d\n%s", code, screen)
}

// TestWatchOnATerminal: watch shows what other processes do: changes with the
// diff of the chosen one, refusals with their reasons, what waits, and what
// runs. It changes nothing, and no name can control the terminal.
func TestWatchOnATerminal(t *testing.T) {
	dir := t.TempDir()
	s := shell{t: t, dir: dir}
	empty := onTerminal(t, dir, "watch")
	empty.sees("nothing was changed yet")
	empty.types("q")
	if code, screen := empty.ends(); code != 0 || len(everyFile(t, dir)) != 1 {
		t.Errorf("code %d\n%s", code, screen)
	}
	s.with("one\n").ok("write", "a.txt", "--caller", "coder")
	s.with("two\n").ok("write", "a.txt", "--mode", "overwrite", "--caller", "coder")
	s.with("x\n").ok("write", "e\x1b[2J\u202ef.txt", "--caller", "evil\x1b]0;t\x07")
	before := everyFile(t, dir)
	w := onTerminal(t, dir, "watch")
	w.sees("e?[2J?f.txt")
	w.sees("evil?]0;t?")
	w.types("j")
	w.sees("-one\n+two")
	w.sees("resilient-write undo --row 2")
	w.types("\x1b[B")
	w.sees("undo it: resilient-write undo --row 1")
	w.types("kk\x1b[A")
	equal(t, cmp.Diff(before, everyFile(t, dir)), "", "it changed the store")
	s.with("key "+reportKey).run("write", "conf.env")
	w.sees("what looks like a secret: api_key")
	w.sees("a refused draft of conf.env")
	store := must(rw.Open(context.Background(), dir, &rw.Options{StateDir: ".resilient_write"}))(t)
	defer store.Close(context.Background())
	inside, leave := make(chan struct{}), make(chan struct{})
	disarm := failpoint.Arm(func(point string) {
		if point == string(rw.StageRecord) {
			close(inside)
			<-leave
		}
	})
	done := make(chan error, 1)
	go func() {
		_, err := store.SafeWrite(context.Background(), rw.SafeWriteRequest{Path: "a.txt", Content: []byte("three\n"), Mode: rw.ModeOverwrite})
		done <- err
	}()
	<-inside
	disarm()
	release := sync.OnceFunc(func() { close(leave) })
	defer release()
	w.sees("safe_write  a.txt  by unknown, process " + strconv.Itoa(os.Getpid()))
	release()
	noErr(t, <-done)
	w.sees("row 5 by")
	if screen := w.screen(); strings.Contains(screen, reportKey) || strings.Contains(screen, dir) {
		t.Errorf("it shows too much:\n%s", screen)
	}
	w.types("q")
	code, screen := w.ends()
	expect(t, code == 0 && strings.HasSuffix(w.seen.String(), leaveScreen) && !strings.Contains(w.seen.String(), "\x1b[2J"), "code %d\n%s", code, screen)
	for _, end := range []string{"\x03", "\x04"} {
		w := onTerminal(t, dir, "watch")
		w.sees("changed last")
		w.types(end)
		code, _ := w.ends()
		expect(t, code == 0 && strings.HasSuffix(w.seen.String(), leaveScreen), "%q: code %d", end, code)
	}
	w = onTerminal(t, dir, "watch")
	w.sees("changed last")
	w.cmd.Process.Signal(syscall.SIGTERM)
	code, _ = w.ends()
	expect(t, code == 0 && strings.HasSuffix(w.seen.String(), leaveScreen), "terminated: code %d %q", code, w.seen.String())
}

// TestProgressOnATerminal: the bar shows how much is done, in percent and in
// its unit, if the length is known; nothing of it stays on the screen.
func TestProgressOnATerminal(t *testing.T) {
	t.Parallel()
	dir, from := t.TempDir(), filepath.Join(t.TempDir(), "big.txt")
	noErr(t, os.WriteFile(from, bytes.Repeat([]byte("a line of plain text\n"), 1<<20), 0o600))
	s := onTerminal(t, dir, "write", "big.txt", "--from", from)
	s.sees("%  ")
	code, screen := s.ends()
	expect(t, code == 0 && strings.Contains(screen, " MiB of 21.0 MiB") && strings.Contains(s.seen.String(), wipe+"succeeded create big.txt  21.0 MiB"), "code %d\n%s", code, screen)
}

// TestInitAsksOnATerminal: nothing is written before a yes, approval and hooks
// are separate questions, and a refusal is reported as one.
func TestInitAsksOnATerminal(t *testing.T) {
	t.Parallel()
	for keys, written := range map[string]bool{"nnn": false, "nny": true, "yny": true, "nyy": true} {
		dir := t.TempDir()
		s := onTerminal(t, dir, "init", "gemini")
		s.sees("without asking you")
		s.types(keys[:1] + "\n")
		s.sees("Shall hooks")
		s.types(keys[1:2] + "\n")
		s.sees("Write these changes?")
		if _, err := os.Stat(filepath.Join(dir, ".gemini")); !os.IsNotExist(err) {
			t.Errorf("written before the answer: %v", err)
		}
		s.types(keys[2:] + "\n")
		_, screen := s.ends()
		text, err := os.ReadFile(filepath.Join(dir, ".gemini", "settings.json"))
		expect(t, (err == nil) == written && strings.Contains(string(text), "trust") == (keys[0] == 'y') && strings.Contains(string(text), "BeforeTool") == (keys[1] == 'y'),
			"%q: %v %s\n%s", keys, err, text, screen)
		expect(t, strings.Contains(screen, "nothing was changed, because it was not confirmed") != written && !strings.Contains(screen, "stale"),
			"%q: %s", keys, screen)
	}
}

// terminal returns a real terminal: what is typed, and what is shown.
func terminal(t *testing.T) (keys, screen *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminal can be made here:", err)
	}
	t.Cleanup(func() { keys.Close() })
	fd := int(keys.Fd())
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Skip("no terminal can be made here:", err)
	}
	n := must(unix.IoctlGetInt(fd, unix.TIOCGPTN))(t)
	screen, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skip("no terminal can be made here:", err)
	}
	t.Cleanup(func() { screen.Close() })
	return keys, screen
}

// TestEraseOnATerminal: the typed secret is never on the screen, the question
// is, and Ctrl-C restores the echo of the terminal.
func TestEraseOnATerminal(t *testing.T) {
	s := leaky(t)
	for _, row := range []struct {
		name  string
		typed string
		sig   bool
		code  rw.Code
	}{
		{"confirmed", leakedSecret + "\n", false, rw.CodeOK},
		{"Ctrl-C", leakedSecret[:9] + "\x03", true, rw.CodePrecondition},
	} {
		keys, screen := terminal(t)
		cmd := s.process("erase")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true} // Ctrl-C is a signal
		noErr(t, cmd.Start())
		defer time.AfterFunc(3*time.Minute, func() { cmd.Process.Kill() }).Stop()
		term := reading(t, keys, cmd)
		term.sees("not shown")
		waitForEcho(t, screen, false)
		term.types(row.typed)
		if !row.sig {
			term.sees("Type yes")
			term.types("yes\n")
			term.sees("history")
		}
		cmd.Wait()
		waitForEcho(t, screen, true)
		screen.Close()
		<-term.read
		code := rw.Code(cmd.ProcessState.ExitCode())
		expect(t, code == row.code, "%s: code %d, screen %q", row.name, code, term.screen())
		expect(t, !strings.Contains(term.seen.String(), leakedSecret[:9]), "%s: the screen shows the secret: %q", row.name, term.screen())
	}
	left := holders(t, s.dir, leakedSecret)
	expect(t, len(left) == 0, "still in %v", left)
}

// waitForEcho waits until a terminal echoes, or does not echo, what is typed.
func waitForEcho(t *testing.T, screen *os.File, want bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		mode := must(unix.IoctlGetTermios(int(screen.Fd()), unix.TCGETS))(t)
		if (mode.Lflag&unix.ECHO != 0) == want {
			return
		}
		require(t, !time.Now().After(deadline), "the terminal shows what is typed: %v", !want)
		time.Sleep(5 * time.Millisecond)
	}
}
