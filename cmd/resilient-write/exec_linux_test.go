package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// sandboxed is a workspace in which commands run as transactions, with the
// directory of their views.
type sandboxed struct {
	*surroundings
	state string
}

func newSandboxed(t *testing.T) *sandboxed {
	t.Helper()
	s := &sandboxed{newAround(t), filepath.Join(t.TempDir(), "state")}
	s.sh(`git init -q; mkdir -p src/deep docs; echo i > docs/index.md; printf 'one\ntwo\n' > src/a.txt; echo b > src/b.txt; echo c > src/deep/c.txt; echo x > run.sh
printf 'node_modules/\nout/\n' > .gitignore; ln -s src/a.txt link; ln -s a.txt src/bent; ln -s a.txt src/was; git add .; git commit -qm start`)
	if r := s.run("true"); r.code != 0 {
		if strings.Contains(r.errs, "no_isolation") {
			testbed.NotRun(t, r.errs)
		}
		t.Fatalf("code %d: %s", r.code, r.errs)
	}
	return s
}

// command is exec in a process of its own, which is killed, signaled or has pipes.
func (s *sandboxed) command(args ...string) *exec.Cmd {
	cmd := s.process(append([]string{"exec"}, args...)...)
	cmd.Env = append(cmd.Env, "XDG_STATE_HOME="+s.state)
	return cmd
}

// begin starts a script in exec, in a process group of its own, and returns when it has
// printed ready.
func (s *sandboxed) begin(script string) (cmd *exec.Cmd, in io.WriteCloser, out io.Reader, errs *bytes.Buffer) {
	s.t.Helper()
	cmd, errs = s.command("--", "sh", "-ec", script), &bytes.Buffer{}
	cmd.Dir, cmd.Stderr, cmd.SysProcAttr = filepath.Join(s.dir, "src"), errs, &syscall.SysProcAttr{Setpgid: true}
	in, out = must(cmd.StdinPipe())(s.t), must(cmd.StdoutPipe())(s.t)
	noErr(s.t, cmd.Start())
	until(s.t, out, "ready\n")
	return cmd, in, out, errs
}

// exec runs the command with its flags; run runs a script, flags before it.
func (s *sandboxed) exec(args ...string) ran {
	s.t.Helper()
	code, out, errs := s.call(append([]string{"exec"}, args...), map[string]string{"XDG_STATE_HOME": s.state})
	return ran{code: code, out: out.String(), errs: errs.String()}
}

func (s *sandboxed) run(script string, flags ...string) ran {
	s.t.Helper()
	return s.exec(append(flags, "--", "sh", "-ec", script)...)
}

// tree returns everything in the workspace except the store and git's directory,
// as text.
func (s *sandboxed) tree() string {
	s.t.Helper()
	var b strings.Builder
	files := everyEntry(s.t, s.dir, ".git", ".resilient_write")
	for _, name := range slices.Sorted(maps.Keys(files)) {
		fmt.Fprintf(&b, "%s %q\n", name, files[name])
	}
	return b.String()
}

// left returns the views that remain.
func (s *sandboxed) left() []string {
	names, _ := filepath.Glob(filepath.Join(s.state, "resilientwrite", "exec", "exec_*"))
	return names
}

func (s *sandboxed) write(name, text string) {
	s.t.Helper()
	noErr(s.t, os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o644))
}

func (s *sandboxed) clean() {
	s.t.Helper()
	doc := s.rw("check", "--deep")
	expect(s.t, doc["clean"] == true, "check: %v", doc)
}

// TestExecCommits: typical changes by a shell are one commit, equal byte for
// byte and mode for mode to those without exec, and undo reverts it.
func TestExecCommits(t *testing.T) {
	s, plain := newSandboxed(t), newSandboxed(t)
	const script = `umask 022
sed -i s/one/ONE/ src/a.txt
cat >> src/b.txt <<END
more
END
mv src/deep/c.txt moved.txt
rm -r src/deep
chmod 755 run.sh
mkdir -p new/dir empty
echo n > new/dir/n.txt; chmod 600 new/dir/n.txt
ln -s new/dir there; rm link; ln -sfn ../src/b.txt src/bent; rm src/was; echo f > src/was; rm run.sh; ln -s src/a.txt run.sh
rm src/b.txt; mkdir -p src/b.txt/in; echo b > src/b.txt/in/f; chmod 750 src/b.txt; mkdir gone; rm -r docs; ln -s src docs
mkdir -p node_modules/.bin; echo m > node_modules/m; ln -s ../m node_modules/.bin/m; chmod 700 src`
	before := s.tree()
	r := s.run(script)
	require(t, r.code == 0 && strings.Contains(r.errs, "in row 1"), "code %d: %s", r.code, r.errs)
	plain.sh(script)
	equal(t, s.tree(), plain.tree(), "with exec and without")
	expect(t, strings.Contains(r.errs, "2 files that git ignores"), "%s", r.errs)
	left := s.left()
	expect(t, len(left) == 0, "views remain: %q", left)
	doc := s.rw("history", "moved.txt")
	expect(t, len(doc["versions"].([]any)) >= 1 && strings.Contains(fmt.Sprint(doc), "src/deep/c.txt"), "history does not follow the move: %v", doc)
	s.rw("undo")
	s.sh(`rm -r node_modules`) // files without versions
	equal(t, s.tree(), before, "undone")
	s.clean()
}

// TestExecIsPrivate: until the command ends its changes are not visible, and it runs
// in the directory that it was called from.
func TestExecIsPrivate(t *testing.T) {
	s := newSandboxed(t)
	before := s.tree()
	cmd, in, out, errs := s.begin("echo changed > b.txt; rm a.txt; echo ready; read line; cat b.txt; pwd; echo $line > a.txt")
	equal(t, s.tree(), before, "seen before the end")
	fmt.Fprintln(in, "the end")
	in.Close()
	equal(t, until(t, out, cmd.Dir+"\n"), "changed\n"+cmd.Dir+"\n")
	noErr(t, cmd.Wait(), errs)
	testbed.Holds(t, filepath.Join(s.dir, "src", "a.txt"), "the end\n")
}

// until reads until the text ends with the expected end.
func until(t *testing.T, r interface{ Read([]byte) (int, error) }, end string) string {
	t.Helper()
	var got []byte
	for !strings.HasSuffix(string(got), end) {
		var b [1]byte
		_, err := r.Read(b[:])
		require(t, err == nil, "%q: %v", got, err)
		got = append(got, b[0])
	}
	return string(got)
}

// TestExecConflict: neither a file that an editor saves while the command runs
// nor the changes of the command are lost. These are in the directory that the
// refusal names, until an exec more than a week later.
func TestExecConflict(t *testing.T) {
	cases := map[string]struct{ script, file string }{
		"changed":      {"echo command > src/b.txt; echo fine > fine.txt", "src/b.txt"},
		"deleted":      {"rm src/b.txt", "src/b.txt"},
		"both created": {"echo command > new.txt", "new.txt"},
		"moved":        {"mv src/b.txt fine.txt", "src/b.txt"},
		"in the way":   {"mv src/b.txt new.txt", "new.txt"},
		"mode":         {"chmod 755 src/b.txt", "src/b.txt"},
	}
	for _, name := range testbed.Share(t, slices.Sorted(maps.Keys(cases)), 3, func(name string) bool { return name == "changed" }) {
		c := cases[name]
		t.Run(name, func(t *testing.T) {
			s := newSandboxed(t)
			cmd, in, _, errs := s.begin("cd ..; " + c.script + "; echo ready; cat > /dev/null")
			s.write(c.file, "a person's\n")
			before := s.tree()
			in.Close()
			cmd.Wait()
			code := cmd.ProcessState.ExitCode()
			require(t, code == 125 && strings.Contains(errs.String(), "another program changed the file"), "code %d: %s", code, errs.String())
			left := s.left()
			got := s.tree()
			require(t, got == before && len(left) == 1, "not what the person left:\n%s", got)
			s.clean()
			if name != "changed" {
				return
			}
			kept, err := os.ReadFile(filepath.Join(left[0], "upper", "src", "b.txt"))
			expect(t, string(kept) == "command\n" && strings.Contains(errs.String(), filepath.Join(left[0], "upper")),
				"kept: %q %v: %s", kept, err, errs.String())
			for _, after := range []struct {
				days int
				left []string
			}{{0, left}, {8, nil}} {
				old := time.Now().AddDate(0, 0, -after.days)
				os.Chtimes(filepath.Join(left[0], "kept"), old, old)
				s.run("true")
				equal(t, fmt.Sprint(s.left()), fmt.Sprint(after.left), after.days, " days later")
			}
		})
	}
}

// TestExecUnread: a file that this process must not read is not removed, and the
// command's other changes are kept.
func TestExecUnread(t *testing.T) {
	testbed.SkipIf(t, os.Getuid() != 0, "only root can compare the file")
	s := newSandboxed(t)
	s.sh("echo x > secret; chmod 000 secret")
	before := s.tree()
	cmd := s.command("--", "sh", "-ec", "rm -f secret; echo command > src/b.txt")
	done := make(chan string)
	go func() {
		runtime.LockOSThread() // and the thread ends here, because it has fewer capabilities
		unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_DAC_OVERRIDE, 0, 0, 0)
		unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_DAC_READ_SEARCH, 0, 0, 0)
		out, _ := cmd.CombinedOutput()
		done <- string(out)
	}()
	out := <-done
	expect(t, strings.Contains(out, "exec secret") && strings.Contains(out, "permission_denied") && s.tree() == before && len(s.left()) == 1, "%s\n%s", out, s.tree())
}

// TestExecMany: a formatter over hundreds of files is one commit, and so are a
// thousand new ones, which one undo reverts.
func TestExecMany(t *testing.T) {
	s := newSandboxed(t)
	if r := s.run(`mkdir many; for i in $(seq 300); do echo $i > many/$i; done`); r.code != 0 {
		t.Fatalf("%s", r.errs)
	}
	r := s.run(`sed -i s/1/one/ many/*`, "--json")
	expect(t, r.code == 0 && strings.Count(r.out, `"op":"write"`) == 138, "code %d: %s", r.code, r.errs)
	before := s.tree()
	if r = s.run(`for i in $(seq 1000); do echo $i > many/new$i; done`); r.code != 0 || strings.Count(s.tree(), "many/new") != 1000 {
		t.Errorf("code %d: %s", r.code, r.errs)
	}
	s.rw("undo")
	expect(t, s.tree() == before, "not undone")
	s.clean()
}

// TestExecKilled: when exec is killed while its command runs, the workspace is as it
// was, all processes of the command die, and the next call removes the view.
func TestExecKilled(t *testing.T) {
	s := newSandboxed(t)
	before := s.tree()
	cmd, _, out, _ := s.begin("echo changed > b.txt; (trap '' TERM HUP; setsid sleep 12345.678) & echo ready; sleep 12345.678")
	cmd.Process.Kill()
	var rest [1]byte
	if _, err := out.Read(rest[:]); err == nil { // it ends when the last process of the command does
		t.Error("something was written after the end")
	}
	cmd.Wait()
	got := s.tree()
	expect(t, got == before && len(s.left()) == 1, "left %q\n%s", s.left(), got)
	r := s.run("true")
	expect(t, r.code == 0 && len(s.left()) == 0, "left %q: %s", s.left(), r.errs)
	s.clean()
}

// TestExecKilledOnItsWay: exec is killed when its view exists, when the first file
// is staged, when the row is written, or when the first file is published. After
// the next open the whole commit is applied, or none of it.
func TestExecKilledOnItsWay(t *testing.T) {
	t.Setenv("RW_STATE_DIR", ".resilient_write")
	s := newSandboxed(t)
	s.sh(`mkdir many; for i in $(seq 200); do echo old > many/$i; done`)
	s.run("true")
	state := filepath.Join(s.dir, ".resilient_write")
	size := func() (n int64) {
		names, _ := filepath.Glob(filepath.Join(state, "journal", "*"))
		for _, name := range names {
			if st, err := os.Stat(name); err == nil {
				n += st.Size()
			}
		}
		return n
	}
	staged := func() int {
		names, _ := os.ReadDir(filepath.Join(state, "staging"))
		return len(names)
	}
	first := func() string {
		data, _ := os.ReadFile(filepath.Join(s.dir, "many", "1"))
		return string(data)
	}
	require(t, size() != 0, "no journal")
	for i, when := range []string{"view", "staged", "row", "published"} {
		journal, slots, text := size(), staged(), fmt.Sprint("new ", i, "\n")
		reached := map[string]func() bool{
			"view":      func() bool { return len(s.left()) > 0 },
			"staged":    func() bool { return staged() > slots+20 },
			"row":       func() bool { return size() > journal },
			"published": func() bool { return first() == text },
		}[when]
		cmd := s.command("--", "sh", "-ec", fmt.Sprintf("for i in $(seq 200); do echo new %d > many/$i; done", i))
		noErr(t, cmd.Start())
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for over := false; !over && !reached(); {
			select {
			case <-ended:
				over = true
				ended <- nil
			default:
			}
		}
		cmd.Process.Kill()
		<-ended
		s.rw("recover")
		count := map[string]int{}
		for n := 1; n <= 200; n++ {
			data, _ := os.ReadFile(filepath.Join(s.dir, "many", fmt.Sprint(n)))
			count[string(data)]++
		}
		require(t, len(count) == 1 && (when != "view" || count[text] <= 0) && (when != "published" || count[text] == 200), "killed at %s: %v", when, count)
	}
	r := s.run("true")
	expect(t, r.code == 0 && len(s.left()) == 0, "left %q: %s", s.left(), r.errs)
	s.clean()
}

// TestExecEndsBackground: no process of the command outlives it.
func TestExecEndsBackground(t *testing.T) {
	s := newSandboxed(t)
	cmd := s.command("--", "sh", "-c", "(trap '' TERM HUP INT; setsid sleep 23456.789) & echo x > new")
	r, w, err := os.Pipe()
	noErr(t, err)
	cmd.Stdout = w
	noErr(t, cmd.Run())
	w.Close()
	_, err = r.Read(make([]byte, 1))
	expect(t, err != nil, "the output is still open")
	expect(t, strings.Contains(s.tree(), "new"), "nothing was committed")
}

// TestExecInterrupted: after Ctrl-C exec exits with the code of the command,
// and nothing is committed.
func TestExecInterrupted(t *testing.T) {
	s := newSandboxed(t)
	before := s.tree()
	cmd, _, _, _ := s.begin("echo x > new; echo ready; sleep 600")
	syscall.Kill(-cmd.Process.Pid, syscall.SIGINT)
	err := cmd.Wait()
	var ended *exec.ExitError
	expect(t, errors.As(err, &ended) && ended.ExitCode() >= 128, "%v", err)
	got := s.tree()
	expect(t, got == before && len(s.left()) == 0, "left %q\n%s", s.left(), got)
}

// TestExecTool: an agent can run a command in tier full, and in no other.
func TestExecTool(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", filepath.Join(t.TempDir(), "state"))
	dir := must(filepath.EvalSymlinks(t.TempDir()))(t)
	secret := reportKey
	script := map[string]any{"argv": []string{"sh", "-c", "echo said; echo key " + secret + "; echo x > made.txt"}}
	for _, args := range [][]string{nil, {"--tier", "core"}} {
		out := callTool(t, connect(t, dir, args...), "rw_exec", script)
		expect(t, reason(out) == "unknown_tool", "%q: %v", args, out)
	}
	c := connect(t, dir, "--tier", "full")
	out := callTool(t, c, "rw_exec", script)
	if reason(out) == "no_isolation" {
		testbed.NotRun(t, reason(out))
	}
	said, _ := out["stdout"].(string)
	require(t, out["ok"] == true && out["exit_code"] == 0.0 && strings.HasPrefix(said, "said\n") && !strings.Contains(said, secret), "%v", out)
	data, err := os.ReadFile(filepath.Join(dir, "made.txt"))
	expect(t, err == nil && string(data) == "x\n", "%q %v", data, err)
	script["argv"] = []string{"sh", "-c", "echo " + secret + " > key.txt"}
	out = callTool(t, c, "rw_exec", script)
	expect(t, reason(out) == "risk_blocked", "%v", out)
	script["argv"] = []string{"sh", "-c", "mkdir -p .vscode; echo {} > .vscode/tasks.json"}
	out = callTool(t, c, "rw_exec", script)
	expect(t, reason(out) == "protected_default", "%v", out)
	_, err = os.Stat(filepath.Join(dir, "key.txt"))
	expect(t, err != nil, "the secret is there")
	out = callTool(t, c, "rw_undo", nil)
	expect(t, out["ok"] == true, "%v", out)
}

// TestExecOnATerminal: what exec reports is on a line of its own, without what is left of
// the progress bar.
func TestExecOnATerminal(t *testing.T) {
	s := newSandboxed(t)
	term := onTerminal(t, s.dir, "exec", "--", "sh", "-c", "for i in $(seq 3000); do echo $i > $i; done")
	code, screen := term.ends()
	expect(t, code == 0 && strings.Contains(screen, "changed files: 3000"), "code %d: %s", code, screen)
	before, _, _ := strings.Cut(term.seen.String(), "resilient-write: ")
	expect(t, before == "" || strings.HasSuffix(before, "\n") || strings.HasSuffix(before, wipe), "before the line there is %q", before)
}
