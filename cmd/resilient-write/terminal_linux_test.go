package main_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is the command in a session of its own, under a pseudo-terminal.
type terminal struct {
	t    *testing.T
	keys *os.File
	cmd  *exec.Cmd

	mu   sync.Mutex
	seen bytes.Buffer
	more chan struct{}
	read chan struct{} // closed when everything was read
}

// onTerminal starts the built command as a person would, in a directory.
func onTerminal(t *testing.T, dir string, args ...string) *terminal {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no pseudo-terminal here:", err)
	}
	n, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	cmd := exec.Command(build(t), args...)
	cmd.Dir, cmd.Env = dir, []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH"), "NO_COLOR=1"}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	term := &terminal{t: t, keys: master, cmd: cmd, more: make(chan struct{}, 1), read: make(chan struct{})}
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
				return // the last one has closed it
			}
		}
	}()
	t.Cleanup(func() { cmd.Process.Kill(); master.Close() })
	return term
}

var control = regexp.MustCompile("\x1b\\[[0-9;]*[A-Za-z]|\r")

func (s *terminal) screen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return control.ReplaceAllString(s.seen.String(), "")
}

// sees waits until a text is on the screen.
func (s *terminal) sees(text string) {
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

func (s *terminal) types(keys string) {
	s.t.Helper()
	if _, err := s.keys.WriteString(keys); err != nil {
		s.t.Fatal(err)
	}
}

// ends waits for the end, and returns the code and everything that was shown.
func (s *terminal) ends() (code int, screen string) {
	s.t.Helper()
	late := time.AfterFunc(time.Minute, func() { s.cmd.Process.Kill() })
	s.cmd.Wait()
	if !late.Stop() {
		s.t.Fatalf("it does not end:\n%s", s.screen())
	}
	<-s.read
	return s.cmd.ProcessState.ExitCode(), s.screen()
}

const ctrlD = "\x04"

// TestCtrlDEndsTheServer at the first press, before and after a message.
func TestCtrlDEndsTheServer(t *testing.T) {
	for _, message := range []string{"", `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n"} {
		s := onTerminal(t, t.TempDir(), "serve")
		s.sees("until Ctrl-D")
		if s.types(message); message != "" {
			s.sees(`"result":{}`)
		}
		s.types(ctrlD)
		if code, screen := s.ends(); code != 0 {
			t.Errorf("after %q: code %d\n%s", message, code, screen)
		}
	}
}

// TestBareCommandOnATerminal shows the help and the state of the directory, and
// ends; a global flag changes nothing about that.
func TestBareCommandOnATerminal(t *testing.T) {
	dir := t.TempDir()
	for _, args := range [][]string{nil, {"--root", "."}, {"-root", "."}} {
		code, screen := onTerminal(t, dir, args...).ends()
		if code != 0 || !strings.Contains(screen, "Available Commands") && !strings.Contains(screen, "Usage:") || !strings.Contains(screen, "no agent has written here yet") {
			t.Errorf("%q: code %d\n%s", args, code, screen)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, ".resilient_write")); !os.IsNotExist(err) {
		t.Errorf("it made a store: %v", err)
	}
	server := onTerminal(t, dir, "--transport", "stdio")
	server.sees("until Ctrl-D")
	server.types(ctrlD)
	server.ends()
}

// TestTerminalSession is an hour of a person: two versions, a refusal whose hint
// speaks flags, the log, one version shown and restored, and the state.
func TestTerminalSession(t *testing.T) {
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
			if !strings.Contains(screen, want) && !(want == "ago" && strings.Contains(screen, "just now")) {
				t.Errorf("%d %s: no %q\n%s", i, one.line, want, screen)
			}
		}
		if code != one.code || strings.Contains(screen, "rw_") && args[0] != "call" {
			t.Errorf("%d %s: code %d\n%s", i, one.line, code, screen)
		}
	}
}

// TestFollowShowsRefusals on a terminal, in the order of the rows.
func TestFollowShowsRefusals(t *testing.T) {
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
	if code, screen := f.ends(); code != 0 {
		t.Errorf("%d\n%s", code, screen)
	}
}

// TestInitAsksOnATerminal: nothing is written before a yes, and approval is a
// question of its own.
func TestInitAsksOnATerminal(t *testing.T) {
	for keys, written := range map[string]bool{"n\nn\n": false, "n\ny\n": true, "y\ny\n": true} {
		dir := t.TempDir()
		s := onTerminal(t, dir, "init", "gemini")
		s.sees("without asking you")
		s.types(keys[:2])
		s.sees("Write these changes?")
		if _, err := os.Stat(filepath.Join(dir, ".gemini")); !os.IsNotExist(err) {
			t.Errorf("written before the answer: %v", err)
		}
		s.types(keys[2:])
		_, screen := s.ends()
		text, err := os.ReadFile(filepath.Join(dir, ".gemini", "settings.json"))
		if (err == nil) != written || strings.Contains(string(text), "trust") != (keys[0] == 'y') {
			t.Errorf("%q: %v %s\n%s", keys, err, text, screen)
		}
	}
}
