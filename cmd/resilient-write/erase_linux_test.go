package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	rw "github.com/resilientwrite/resilientwrite"
)

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

// onScreen waits until the screen shows something and returns all of it.
func onScreen(t *testing.T, keys *os.File, seen *strings.Builder, want string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	b := make([]byte, 4096)
	for !strings.Contains(seen.String(), want) {
		require(t, !time.Now().After(deadline), "the screen shows %q, not %q", seen.String(), want)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(keys.Fd()), Events: unix.POLLIN}}, 200)
		if err == nil && n > 0 {
			if n, _ = keys.Read(b); n > 0 {
				seen.Write(b[:n])
			}
		}
	}
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
		{"Ctrl-C", leakedSecret[:9], true, rw.CodePrecondition},
	} {
		keys, screen := terminal(t)
		cmd := s.process("erase")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = screen, screen, screen
		noErr(t, cmd.Start())
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
		defer stop()
		context.AfterFunc(ctx, func() { cmd.Process.Kill() })
		var seen strings.Builder
		onScreen(t, keys, &seen, "not shown")
		waitForEcho(t, screen, false)
		keys.WriteString(row.typed)
		if row.sig {
			cmd.Process.Signal(os.Interrupt)
		} else {
			onScreen(t, keys, &seen, "Type yes")
			keys.WriteString("yes\n")
			onScreen(t, keys, &seen, "history")
		}
		cmd.Wait()
		code := rw.Code(cmd.ProcessState.ExitCode())
		expect(t, code == row.code, "%s: code %d, screen %q", row.name, code, seen.String())
		expect(t, !strings.Contains(seen.String(), leakedSecret[:9]), "%s: the screen shows the secret: %q", row.name, seen.String())
		waitForEcho(t, screen, true)
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
