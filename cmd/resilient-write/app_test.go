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
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/mcpserver"
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
		return map[string]string{"RW_WORKSPACE": s.dir, "RW_SYNC": "off", "RW_STATE_DIR": os.Getenv("RW_STATE_DIR")}[name]
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

// TestEveryToolHasACommand: an operator can call every tool of an agent by
// name, with every argument.
func TestEveryToolHasACommand(t *testing.T) {
	reached := map[string]verb{"check": {tool: "check"}, "exec": {tool: "exec", use: "exec", args: []string{"argv"}},
		"claim": {tool: "claim", use: "claim", args: []string{"action", "paths", "fence", "ttl_seconds", "session"}}} // one has subcommands
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
		list := must(arguments(tool))(t)
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

// built returns the command of a verb.
func built(t *testing.T, v verb) *cobra.Command {
	a := &app{args: append(strings.Fields(v.use), "check"), env: func(string) string { return "" }}
	if v.use == "" {
		return a.check()
	}
	if v.use == "exec" {
		return a.exec()
	}
	return a.build(v)
}

// TestWriteAndReadBytes: bytes of any value and length are read as they were
// written.
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

// TestInterrupt: Ctrl-C in the middle of a long write leaves nothing half done,
// also if the command waits for input that does not arrive.
func TestInterrupt(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no signals")
	}
	bin := build(t)
	for _, row := range []struct {
		name  string
		args  []string
		dries bool // it has read all of its input
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
			noErr(t, err)
			var said bytes.Buffer
			cmd.Stdout = &said
			noErr(t, cmd.Start())
			fmt.Fprint(in, strings.Repeat("new\n", 1<<18)) // read, so the write is in progress
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

// noErr, isErr and must check errors, as testbed describes.
var noErr, isErr = testbed.NoErr, testbed.IsErr

func must[T any](v T, err error) func(testing.TB, ...any) T { return testbed.Must(v, err) }
