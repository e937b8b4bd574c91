package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/mcpserver"
	"github.com/resilientwrite/resilientwrite/spec"
)

// shell runs the command in a workspace.
type shell struct {
	t     testing.TB
	dir   string
	in    string
	extra []string
}

type ran struct {
	code rw.Code
	out  string
	errs string
	doc  map[string]any
}

func (s shell) run(args ...string) ran {
	s.t.Helper()
	var out, errs bytes.Buffer
	env := func(name string) string {
		return map[string]string{"RW_WORKSPACE": s.dir, "RW_SYNC": "off"}[name]
	}
	r := ran{code: run(append(args, s.extra...), env, strings.NewReader(s.in), &out, &errs)}
	r.out, r.errs = out.String(), errs.String()
	json.Unmarshal(out.Bytes(), &r.doc)
	return r
}

func (s shell) with(in string) shell { s.in = in; return s }

func (s shell) ok(args ...string) ran {
	s.t.Helper()
	r := s.run(args...)
	if r.code != rw.CodeOK {
		s.t.Fatalf("%v: code %d: %s%s", args, r.code, r.out, r.errs)
	}
	return r
}

func newShell(t testing.TB) shell { return shell{t: t, dir: t.TempDir()} }

// asPerson makes every stream a terminal for one test.
func asPerson(t *testing.T) {
	before := isTerminal
	isTerminal = func(any) bool { return true }
	t.Cleanup(func() { isTerminal = before })
}

// TestEveryToolHasACommand: what an agent can do an operator can do by name,
// with every argument.
func TestEveryToolHasACommand(t *testing.T) {
	reached := map[string]verb{"check": {tool: "check"}}
	for _, table := range [][]verb{files, txs, chunks, handoffs, checkpoints, scratches, drafts, journals} {
		for _, v := range table {
			reached[v.tool] = v
		}
	}
	for _, tool := range mcpserver.Table() {
		v, ok := reached[tool.Name]
		if !ok {
			t.Errorf("no command calls %s", tool.Name)
			continue
		}
		list, err := arguments(tool)
		if err != nil {
			t.Fatal(err)
		}
		known := map[string]bool{}
		for _, a := range list {
			known[a.Name] = true
		}
		for _, name := range append(v.args, v.body) {
			if name = strings.TrimRight(name, "?@"); name != "" && !known[name] {
				t.Errorf("%s has no argument %s", tool.Name, name)
			}
		}
		for _, a := range list {
			if c := (verb{tool: v.tool, args: v.args}); !c.positional(a.Name) && a.Name != "content" {
				if built(t, v).Flags().Lookup(flagName(a.Name)) == nil {
					t.Errorf("%s has no flag for %s", v.use, a.Name)
				}
			}
		}
	}
}

// built is the command of a verb.
func built(t *testing.T, v verb) *cobra.Command {
	a := &app{args: append(strings.Fields(v.use), "check"), env: func(string) string { return "" }}
	if v.use == "" {
		return a.check()
	}
	return a.build(v)
}

// TestWriteAndReadBytes: any bytes come back as they went in, of any length.
func TestWriteAndReadBytes(t *testing.T) {
	s := newShell(t)
	for name, content := range map[string]string{
		"empty": "", "text": "hello\r\nwörld", "nul": "a\x00b", "bytes": "\xff\xfe\x00\x01", "large": strings.Repeat("0123456789abcdef", 2<<20),
	} {
		s.with(content).ok("write", name, "--gate", "off", "--sync", "off")
		if got, err := os.ReadFile(filepath.Join(s.dir, name)); err != nil || string(got) != content {
			t.Errorf("%s: %d bytes, want %d (%v)", name, len(got), len(content), err)
		}
	}
	if r := s.ok("read", "text"); r.doc["content"] != "hello\r\nwörld" {
		t.Errorf("%s", r.out)
	}
	if r := s.run("read", "bytes"); r.code != rw.CodeInvalid {
		t.Errorf("code %d: %s", r.code, r.errs)
	}
	from := filepath.Join(t.TempDir(), "from")
	os.WriteFile(from, []byte("from a file"), 0o600)
	s.ok("write", "text", "--from", from, "--mode", "overwrite")
	if got, _ := os.ReadFile(filepath.Join(s.dir, "text")); string(got) != "from a file" {
		t.Errorf("%q", got)
	}
}

// TestCodes: the exit code is the code of the outcome, and the reply is the one
// an agent would have got.
func TestCodes(t *testing.T) {
	s := newShell(t)
	s.with("x\n").ok("write", "a.txt")
	for _, row := range []struct {
		args   string
		code   rw.Code
		reason string
	}{
		{"write a.txt", rw.CodePrecondition, "file_already_exists"},
		{"write ../a.txt", rw.CodeInvalid, "escapes_workspace"},
		{"write .git/config", rw.CodePolicy, "protected_path"},
		{"read none.txt", rw.CodeNotFound, "not_found"},
		{"history none.txt", rw.CodeNotFound, "not_found"},
		{"chunk compose none o.txt", rw.CodeNotFound, "session_not_found"},
		{"write a.txt --read-only --mode overwrite", rw.CodePermission, "store_read_only"},
		{"undo --caller nobody", rw.CodeNotFound, "nothing_to_undo"},
		{"call rw_safe_wirte", rw.CodeUsage, "unknown_tool"},
	} {
		r := s.with("y\n").run(strings.Fields(row.args)...)
		ctx, _ := r.doc["context"].(map[string]any)
		if r.code != row.code || ctx["reason"] != row.reason || !strings.HasPrefix(r.errs, "resilient-write: ") || strings.Count(r.errs, "\n") != 1 {
			t.Errorf("%s: code %d, want %d: %s%s", row.args, r.code, row.code, r.out, r.errs)
		}
		if err := spec.Validate("errors", []byte(r.out)); err != nil {
			t.Errorf("%s: %v", row.args, err)
		}
		if strings.Contains(r.out+r.errs, s.dir) {
			t.Errorf("%s: the error names a directory outside the workspace: %s", row.args, r.errs)
		}
	}
}

// TestMisuse: every name that is almost right is named, with code 2.
func TestMisuse(t *testing.T) {
	s := newShell(t)
	for args, want := range map[string]string{
		"wirte a.txt":                   "did you mean write",
		"journal tial":                  "did you mean tail",
		"chunk apend s":                 "did you mean append",
		"write a.txt --mdoe create":     "did you mean --mode",
		"write":                         "usage: resilient-write write PATH",
		"write a b":                     "takes one argument",
		"move a":                        "takes 2 arguments",
		"check now":                     "takes no arguments",
		"version now":                   "unexpected argument",
		"journal tail --n many":         "is no integer",
		"read a --json=perhaps":         "invalid argument",
		"read a --color red":            "use auto, always or never",
		"edit a.txt /does/not/exist":    "cannot read",
		"journal follow --after=-1":     "invalid argument",
		"handoff write /does/not/exist": "cannot read",
		"help wriet":                    "did you mean write",
		"help journal tial":             "did you mean tail",
		"help write a.txt":              "has no subcommands",
		"completion bahs":               "did you mean bash",
		"completion csh":                "did you mean",
		"serve --rooott .":              "did you mean --root",
		"serve --root":                  "needs an argument: --root",
		"serve --port many":             "invalid argument for --port",
		"serve --transport htpt":        "did you mean http",
		"serve --tier standart":         "did you mean standard",
		"serve --tier none-of-these":    "core, standard and full",
		"--rooott . check":              "did you mean --root",
		"--jsn check":                   "did you mean --json",
		"--root . chekc":                "did you mean check",
		"--root . serve --teir core":    "did you mean --tier",
		"--color alwys describe":        "use auto, always or never",
		"write --mode":                  "needs an argument: --mode",
		"write a.txt -mdoe create":      "did you mean --mode",
		"journal help":                  "run resilient-write journal --help",
	} {
		r := s.run(strings.Fields(args)...)
		if r.code != rw.CodeUsage || !strings.Contains(r.errs, want) {
			t.Errorf("%s: code %d: %s", args, r.code, r.errs)
		}
	}
	if names, _ := os.ReadDir(s.dir); len(names) > 0 {
		t.Errorf("a wrong command line left %v", names)
	}
}

// TestLookingMakesNoStore: a command that only looks leaves a directory as it
// was.
func TestLookingMakesNoStore(t *testing.T) {
	s := newShell(t)
	os.WriteFile(filepath.Join(s.dir, "a.txt"), []byte("x"), 0o600)
	for _, args := range []string{"read a.txt", "journal tail", "history a.txt", "check", "describe", "analytics", "diff a.txt", "chunk list", "draft list"} {
		s.run(strings.Fields(args)...)
	}
	if names, _ := os.ReadDir(s.dir); len(names) != 1 {
		t.Errorf("looking left %v", names)
	}
}

// TestResult: the receipt lies where it was asked for, on success, refusal and
// misuse alike, and never on standard output.
func TestResult(t *testing.T) {
	s := newShell(t)
	file := filepath.Join(t.TempDir(), "result.json")
	for _, row := range []struct {
		args    string
		code    rw.Code
		receipt string // its status
	}{
		{"write a.txt", 0, "succeeded"},
		{"write a.txt", rw.CodePrecondition, "refused"},
		{"write a.txt --mode overwrite --dry-run", 0, "unchanged"},
		{"write b.txt --idempotency-key k", 0, "succeeded"},
		{"write b.txt --idempotency-key k", 0, "replayed"},
		{"write --nothing", rw.CodeUsage, ""},
		{"describe", 0, ""},
		{"version", 0, ""},
		{"help wriet", rw.CodeUsage, ""},
		{"describe --no-such-flag x", rw.CodeUsage, ""},
	} {
		os.Remove(file)
		r := s.with("x\n").run(append(strings.Fields(row.args), "--result-out", file)...)
		data, err := os.ReadFile(file)
		var got result
		if err != nil || json.Unmarshal(data, &got) != nil || got.Code != row.code || r.code != row.code {
			t.Fatalf("%s: %v %s (code %d)", row.args, err, data, r.code)
		}
		var receipt struct{ Status string }
		json.Unmarshal(got.Receipt, &receipt)
		if receipt.Status != row.receipt {
			t.Errorf("%s: receipt %s", row.args, got.Receipt)
		}
		if names, _ := os.ReadDir(filepath.Dir(file)); len(names) != 1 {
			t.Errorf("%s: %v", row.args, names)
		}
	}
}

// TestInterrupt: Ctrl-C in the middle of a long write leaves nothing half done,
// also where the command waits for input that does not come.
func TestInterrupt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no signals")
	}
	bin := build(t)
	for _, row := range []struct {
		name  string
		args  []string
		dries bool // it has read all there was
	}{
		{"reading", []string{"write", "a.txt", "--mode", "overwrite", "--gate", "off"}, false},
		{"waiting", []string{"write", "a.txt", "--mode", "overwrite", "--gate", "off"}, true},
		{"waiting, not streamed", []string{"redact"}, true},
		{"waiting, as an argument", []string{"tx", "-"}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			shell{t: t, dir: dir, in: "old\n"}.ok("write", "a.txt")
			cmd := exec.Command(bin, append(row.args, "--root", dir)...)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			var said bytes.Buffer
			cmd.Stdout = &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			fmt.Fprint(in, strings.Repeat("new\n", 1<<18)) // read, so it is under way
			if row.dries {
				time.Sleep(200 * time.Millisecond)
			}
			cmd.Process.Signal(syscall.SIGINT)
			done := make(chan error, 1)
			go func() { done <- cmd.Wait() }()
			select {
			case err = <-done:
			case <-time.After(time.Minute):
				cmd.Process.Kill()
				t.Fatal("Ctrl-C did not end it")
			}
			if err == nil || !strings.Contains(said.String(), "canceled") {
				t.Errorf("%v: %s", err, said.String())
			}
			if got, _ := os.ReadFile(filepath.Join(dir, "a.txt")); string(got) != "old\n" {
				t.Errorf("the file holds %d bytes", len(got))
			}
			if r := (shell{t: t, dir: dir}).ok("check"); r.doc["clean"] != true {
				t.Errorf("%s", r.out)
			}
		})
	}
}

// TestForPeople: on a terminal replies are words and tables, and what stands in
// a file name cannot drive the terminal.
func TestForPeople(t *testing.T) {
	s := newShell(t)
	hostile := "a\x1b[2Jb.txt"
	s.with("one\n").ok("write", "a.txt")
	s.with("two\n").ok("write", "a.txt", "--mode", "overwrite")
	s.with("x\n").ok("write", hostile)
	asPerson(t)
	for _, row := range []struct{ args, want string }{
		{"read a.txt", "two\n"},
		{"history a.txt", "VERSION"},
		{"diff a.txt", "-one\n+two\n"},
		{"journal tail", "a?[2Jb.txt"},
		{"check", "clean"},
		{"describe", "usage: 2"},
		{"analytics", "total_writes: 3"},
		{"write a.txt --mode overwrite --dry-run", "would overwrite a.txt"},
		{"undo", "undo"},
	} {
		r := s.with("three\n").ok(append(strings.Fields(row.args), "--color", "never")...)
		if !strings.Contains(r.out, row.want) || strings.Contains(r.out, "\x1b") || strings.HasPrefix(r.out, "{") {
			t.Errorf("%s: %q", row.args, r.out)
		}
	}
	if r := s.ok("diff", "a.txt", "--color", "always"); !strings.Contains(r.out, "\x1b[32m+") {
		t.Errorf("%q", r.out)
	}
	if r := s.ok("history", "a.txt", "--json"); r.doc["ok"] != true {
		t.Errorf("%q", r.out)
	}
}

// TestFollow prints the rows that come while it runs, and ends well on Ctrl-C.
func TestFollow(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no signals")
	}
	dir := t.TempDir()
	s := shell{t: t, dir: dir, in: "x\n"}
	s.ok("write", "before.txt")
	cmd := exec.Command(build(t), "journal", "follow", "--root", dir, "--after", "0")
	out := pipe(t)
	cmd.Stdout = out.w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.w.Close()
	time.AfterFunc(2*time.Minute, func() { cmd.Process.Kill() }) // ends the wait for a row that never comes
	dec := json.NewDecoder(out.r)
	var row struct{ Path string }
	if err := dec.Decode(&row); err != nil || row.Path != "before.txt" {
		t.Fatalf("%v %+v", err, row)
	}
	s.ok("write", "while.txt")
	if err := dec.Decode(&row); err != nil || row.Path != "while.txt" {
		t.Fatalf("%v %+v", err, row)
	}
	cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v", err)
	}
}

// TestCompletion: the scripts are there for the usual shells.
func TestCompletion(t *testing.T) {
	for _, sh := range []string{"bash", "zsh", "fish", "powershell"} {
		if r := newShell(t).ok("completion", sh); !strings.Contains(r.out, "resilient-write") {
			t.Errorf("%s: %.80s", sh, r.out)
		}
	}
}

// TestEditByHand: one edit needs no file of JSON.
func TestEditByHand(t *testing.T) {
	s := newShell(t)
	s.with("one two two\n").ok("write", "a.txt")
	for _, row := range []struct {
		args string
		want string // of the file, or a part of the complaint
		code rw.Code
	}{
		{"--old one --new three", "three two two\n", rw.CodeOK},
		{"--old two --new 2", "match", rw.CodePrecondition},
		{"--old two --new 2 --all", "three 2 2\n", rw.CodeOK},
		{"--old three", " 2 2\n", rw.CodeOK},
		{"--new x", "no edit was given", rw.CodeUsage},
		{"", "no edit was given", rw.CodeUsage},
		{"- --old 2", "given twice", rw.CodeUsage},
	} {
		r := s.with("[]").run(append([]string{"edit", "a.txt"}, strings.Fields(row.args)...)...)
		if r.code != row.code {
			t.Errorf("%s: code %d: %s", row.args, r.code, r.out)
		}
		if row.code != rw.CodeOK {
			if !strings.Contains(r.out, row.want) {
				t.Errorf("%s: %s", row.args, r.out)
			}
		} else if got, _ := os.ReadFile(filepath.Join(s.dir, "a.txt")); string(got) != row.want {
			t.Errorf("%s: %q", row.args, got)
		}
	}
}

// TestAPersonIsToldThatItServes: without a subcommand the command waits for a
// client, which looks like hanging to whoever only tries it out.
func TestAPersonIsToldThatItServes(t *testing.T) {
	asPerson(t)
	if r := newShell(t).run("serve"); !strings.Contains(r.errs, "serving MCP") || !strings.Contains(r.errs, "--help") {
		t.Errorf("%q", r.errs)
	}
}
