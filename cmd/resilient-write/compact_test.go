package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// init lets the test binary act as the command, for tests that need a separate
// process: building one takes longer than most of them.
func init() {
	if args := os.Getenv("RW_TEST_COMMAND"); args != "" {
		if os.Getenv("RW_TEST_PERSON") != "" {
			isTerminal = func(stream any) bool { return stream == any(os.Stdout) || stream == any(os.Stderr) }
			os.Setenv("NO_COLOR", "1")
		}
		process(strings.Split(args, "\n"), testEnv)
	}
}

// testEnv returns an environment variable of the command in a process of a
// test.
func testEnv(name string) string {
	return map[string]string{"NO_COLOR": os.Getenv("NO_COLOR"), "RW_SYNC": "off", "RW_WORKSPACE": os.Getenv("RW_WORKSPACE"), "RW_STATE_DIR": os.Getenv("RW_STATE_DIR")}[name]
}

// process returns the command in a separate process.
func (s shell) process(args ...string) *exec.Cmd {
	s.t.Helper()
	self := must(os.Executable())(s.t)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "RW_TEST_COMMAND="+strings.Join(append(args, "--root", s.dir), "\n"))
	return cmd
}

// interrupted sends Ctrl-C to a command, waits for its end and returns its code.
func interrupted(t *testing.T, cmd *exec.Cmd) rw.Code {
	t.Helper()
	late := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	cmd.Process.Signal(os.Interrupt)
	cmd.Wait()
	require(t, late.Stop(), "Ctrl-C did not end it")
	return rw.Code(cmd.ProcessState.ExitCode())
}

// clean checks that check finds no problem.
func (s shell) clean() {
	s.t.Helper()
	r := s.ok("check", "--deep")
	expect(s.t, r.doc["clean"] == true, "%s", r.out)
}

// status returns the status in the receipt.
func (r result) status() string {
	var receipt struct{ Status string }
	json.Unmarshal(r.Receipt, &receipt)
	return receipt.Status
}

// grown creates a store with so many rows that maintenance takes a moment.
func grown(t *testing.T, dir string, n int) {
	t.Helper()
	store := must(rw.Open(t.Context(), dir, &rw.Options{Sync: rw.SyncOff, StateDir: ".resilient_write"}))(t)
	for i := range n {
		text := fmt.Sprintf("%d correct-horse-battery %s\n", i, strings.Repeat("x", i%97))
		must(store.SafeWrite(t.Context(), rw.SafeWriteRequest{Path: fmt.Sprintf("d/%d.txt", i%7), Content: []byte(text), Mode: rw.ModeOverwrite, AllowShrink: true}))(t)
	}
	for i := range 7 {
		must(store.SafeWrite(t.Context(), rw.SafeWriteRequest{Path: fmt.Sprintf("d/%d.txt", i), Content: []byte("clean\n"), Mode: rw.ModeOverwrite, AllowShrink: true}))(t)
	}
	noErr(t, store.Close(t.Context()))
}

// TestUpkeepInterrupted: Ctrl-C at several moments of every call leaves a clean
// store, and calling again completes the call.
func TestUpkeepInterrupted(t *testing.T) {
	testbed.SkipIf(t, runtime.GOOS == "windows", "no signals")
	secret := filepath.Join(t.TempDir(), "secret")
	noErr(t, os.WriteFile(secret, []byte("correct-horse-battery\n"), 0o600))
	exported := filepath.Join(t.TempDir(), "export")
	from := t.TempDir()
	grown(t, from, 30)
	shell{t: t, dir: from}.ok("journal", "export", "--out", exported)
	for _, row := range []struct {
		args  string
		fresh bool
	}{
		{args: "compact --keep-rows 0"}, {args: "erase --secret-file " + secret}, {args: "check --repair"}, {args: "journal import " + exported, fresh: true},
	} {
		t.Run(strings.Fields(row.args)[0], func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := shell{t: t, dir: dir}
			if !row.fresh {
				grown(t, dir, 30)
			}
			for _, wait := range []time.Duration{0, 4 * time.Millisecond} {
				cmd := s.process(append(strings.Fields(row.args), "--progress-fd", "3")...)
				events := pipe(t)
				cmd.ExtraFiles = []*os.File{events.w}
				noErr(t, cmd.Start())
				events.w.Close()
				lines := bufio.NewReader(events.r)
				lines.ReadString('\n') // it has begun, and listens to signals
				time.Sleep(wait)
				code := interrupted(t, cmd)
				require(t, code == rw.CodeOK || code == rw.CodePrecondition, "%v: code %d", wait, code)
				events.r.Close()
				s.clean()
			}
			s.ok(strings.Fields(row.args)...)
			s.clean()
			r := s.ok(strings.Fields(row.args)...)
			expect(t, r.doc["status"] == "unchanged", "again: %s", r.out)
		})
	}
}

// TestUpkeepInTwoProcesses: all calls at once, in several processes,
// concurrently with a writer, wait for each other, and the store stays sound.
func TestUpkeepInTwoProcesses(t *testing.T) {
	s := newShell(t)
	grown(t, s.dir, 20)
	secret := filepath.Join(t.TempDir(), "secret")
	noErr(t, os.WriteFile(secret, []byte("correct-horse-battery"), 0o600))
	out := t.TempDir()
	var running []*exec.Cmd
	for i := range 2 {
		for _, args := range []string{
			"compact --keep-rows 0", "erase --secret-file " + secret, "check --repair",
			"journal export --out " + filepath.Join(out, fmt.Sprint(i)), fmt.Sprintf("write w%d.txt --gate off", i),
		} {
			cmd := s.process(strings.Fields(args)...)
			cmd.Stdin = strings.NewReader("beside\n")
			cmd.Stderr = os.Stderr
			noErr(t, cmd.Start())
			running = append(running, cmd)
		}
	}
	for _, cmd := range running {
		err := cmd.Wait()
		expect(t, err == nil, "%q: %v", cmd.Env[len(cmd.Env)-1], err)
	}
	s.clean()
	for i := range 2 {
		fresh := newShell(t)
		r := fresh.ok("journal", "import", filepath.Join(out, fmt.Sprint(i)))
		expect(t, r.doc["imported"].(float64) >= 20, "%s", r.out)
	}
	names, _ := os.ReadDir(out)
	expect(t, len(names) == 2, "the exports left %v", names)
}

// TestProgressIsDrawnAndWiped: a bar is on its own line, is removed before the
// reply is printed, and is never drawn into output for a program.
func TestProgressIsDrawnAndWiped(t *testing.T) {
	s := newShell(t)
	grown(t, s.dir, 3)
	asPerson(t)
	r := s.ok("check", "--repair", "--color", "never")
	expect(t, strings.Contains(r.errs, "\r\x1b[Krepair     ") && strings.HasSuffix(r.errs, wipe) && strings.HasPrefix(r.out, "clean"),
		"%q %q", r.errs, r.out)
	equal(t, s.ok("check", "--repair", "--json").errs, "")
	t.Setenv("TERM", "dumb")
	equal(t, s.ok("check", "--repair").errs, "")
}

// leakedSecret is the secret to erase.
var leakedSecret = "correct-" + "horse-battery\"<é"

// leaky returns a store into whose history a secret leaked, twice.
func leaky(t *testing.T) shell {
	t.Helper()
	s := newShell(t)
	for _, name := range []string{"a.txt", "b.txt"} {
		s.with("the key is "+leakedSecret+"\n").ok("write", name, "--gate", "off")
		s.with("it was taken out of here, and this text is longer\n").ok("write", name, "--mode", "overwrite")
	}
	return s
}

// holders returns the files below a directory that contain a text.
func holders(t *testing.T, dir, text string) (names []string) {
	t.Helper()
	for e := range testbed.Entries(t, dir) {
		if e.Info.Mode().IsRegular() && strings.Contains(e.Text, text) {
			names = append(names, filepath.Join(dir, e.Path))
		}
	}
	return names
}

// TestEraseStripsOneNewline and no more: other newlines belong to the secret.
func TestEraseStripsOneNewline(t *testing.T) {
	for given, want := range map[string]string{
		"s\n": "s", "s\r\n": "s", "s\n\n": "s\n", "s": "s", "s\r": "s\r", " s \n": " s ", "\n": "", "": "", "a\nb\n": "a\nb",
	} {
		equal(t, string(withoutNewline([]byte(given))), want, given)
	}
	s := leaky(t)
	r := s.with(leakedSecret + "\n\n\n").ok("erase")
	expect(t, r.doc["status"] == "unchanged" && len(holders(t, s.dir, leakedSecret)) != 0, "a secret with a newline in it was found: %s", r.out)
}
