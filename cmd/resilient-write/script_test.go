package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/testscript"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/spec"
)

// TestScripts runs the scenarios in testdata/script. Besides the commands of
// testscript they have
//
//	rw CODE ARG... [< INPUT] [=> TEXT...]
//	status STATUS
//	holds FILE TEXT
//	change FILES REGEXP TO
//	isolated
//	reply CONDITION...
//	keep NAME KEY
//	workspace NAME
//	sh LINE
//	event HOST EVENT TOOL CALL [KEY=VALUE...] [=> TEXT...]
//	snapshot NAME [DIR]
//	unchanged NAME
//	inside DIR TEXT
//	glob NAME PATTERN
//	page FILE TEXT...
//
// rw runs the command in the workspace $WORK/ws, with INPUT and a newline on standard
// input. It fails unless the exit code is CODE and each TEXT is in an output. No output
// and no result of a run may contain the variable SECRET. status is that of the receipt
// of the last rw, "" for none. holds compares the content of a file; \n and \r are the line
// ends in its arguments, in INPUT, VALUE and CONDITION.
// isolated skips the rest where commands cannot run as transactions. reply checks fields of the last reply, as testbed.Unmet describes, and keep sets a
// variable to one. workspace makes a workspace $WORK/NAME and enters it. event passes an
// event of the form of Claude Code to the hook for HOST: a call of TOOL with the input
// KEY=VALUE, in the current directory and in the session SESSION. The answer is JSON that
// holds each TEXT, or nothing. unchanged compares the files of a directory, without locks, or
// of the workspace, without those of git and the store, with a snapshot.
// change replaces a text in the journal. glob sets a variable to the only file that
// matches. page demands each TEXT in a file, or none of them. RW_TEST_PERSON=1 makes the
// outputs a terminal, and "types" the input as well. KEY and TOKEN are credentials, and
// something listens on TAKEN_PORT. The condition root says who runs the tests.
func TestScripts(t *testing.T) {
	taken := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { taken.Close() })
	testscript.Run(t, testscript.Params{
		Dir: must(filepath.Abs("testdata/script"))(t), RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(e *testscript.Env) error {
			e.Values[snapshotsKey{}] = snapshots{}
			e.Values[testingKey{}] = e.T()
			e.Setenv("VERSION", rw.Version)
			e.Setenv("KEY", reportKey)
			e.Setenv("TOKEN", madeUpToken())
			e.Setenv("SESSION", "s1")
			e.Setenv("GIT_CONFIG_NOSYSTEM", "1")
			_, port, _ := net.SplitHostPort(taken.Addr().String())
			e.Setenv("TAKEN_PORT", port)
			e.Setenv("RW_STATE_DIR", os.Getenv("RW_STATE_DIR"))
			e.Setenv("HOME", filepath.Join(e.WorkDir, "home"))
			e.Setenv("XDG_STATE_HOME", filepath.Join(e.WorkDir, "state"))
			for _, name := range []string{"GIT_AUTHOR", "GIT_COMMITTER"} {
				e.Setenv(name+"_NAME", "a")
				e.Setenv(name+"_EMAIL", "a@example.org")
			}
			e.Setenv("RW_WORKSPACE", filepath.Join(e.WorkDir, "ws"))
			return errors.Join(os.MkdirAll(filepath.Join(e.WorkDir, "ws"), 0o755), os.Mkdir(filepath.Join(e.WorkDir, "result"), 0o755))
		},
		Condition: func(name string) (bool, error) {
			if name != "root" {
				return false, errors.New("there is no such condition")
			}
			return os.Getuid() == 0, nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"rw": scriptRun, "event": scriptEvent, "status": scriptStatus, "holds": scriptHolds, "change": scriptChange,
			"snapshot": scriptSnapshot, "unchanged": scriptUnchanged,
			"isolated": func(ts *testscript.TestScript, _ bool, _ []string) {
				if _, _, errs := runInScript(ts, []string{"exec", "--", "true"}, ""); strings.Contains(errs, "no_isolation") {
					testbed.NotRun(ts.Value(testingKey{}).(testing.TB), errs)
				}
			},
			"reply": func(ts *testscript.TestScript, _ bool, args []string) {
				for i := range args {
					args[i] = unescaped(args[i])
				}
				if unmet := testbed.Unmet(lastReply(ts), args); unmet != "" {
					ts.Fatalf("%s", unmet)
				}
			},
			"keep": func(ts *testscript.TestScript, _ bool, args []string) {
				ts.Setenv(args[0], testbed.Field(lastReply(ts), args[1]))
			},
			"workspace": func(ts *testscript.TestScript, _ bool, args []string) {
				dir := filepath.Join(ts.Getenv("WORK"), args[0])
				ts.Check(os.Mkdir(dir, 0o755))
				ts.Setenv("RW_WORKSPACE", dir)
				ts.Check(ts.Chdir(dir))
			},
			"sh": func(ts *testscript.TestScript, _ bool, args []string) { ts.Check(ts.Exec("sh", "-ec", args[0])) },
			"page": func(ts *testscript.TestScript, not bool, args []string) {
				page := ts.ReadFile(args[0])
				for _, text := range args[1:] {
					if strings.Contains(page, text) == not {
						ts.Fatalf("%s: %q is there: %v", args[0], text, not)
					}
				}
			},
			"glob": func(ts *testscript.TestScript, _ bool, args []string) {
				names, err := filepath.Glob(ts.MkAbs(args[1]))
				if err != nil || len(names) != 1 {
					ts.Fatalf("%q matches %q", args[1], names)
				}
				ts.Setenv(args[0], names[0])
			},
			"inside": func(ts *testscript.TestScript, not bool, args []string) {
				if names := holders(t, ts.MkAbs(args[0]), args[1]); len(names) > 0 == not {
					ts.Fatalf("%q is in %q", args[1], names)
				}
			},
		},
	})
}

func scriptRun(ts *testscript.TestScript, _ bool, args []string) {
	args, want := cutAt(args, "=>")
	args, input := cutAt(args, "<")
	result := ts.MkAbs(filepath.Join(ts.Getenv("WORK"), "result", "r.json"))
	os.Remove(result)
	serves := slices.Contains(args, "serve") || args[1] == "hook" || strings.HasPrefix(args[1], "-") // these write no result
	if !serves {
		args = slices.Insert(args, 1, "--result-out="+result)
	}
	in := ""
	for _, line := range input {
		in = unescaped(line) + "\n"
	}
	code, out, errs := runInScript(ts, args[1:], in)
	io.WriteString(ts.Stdout(), out)
	io.WriteString(ts.Stderr(), errs)
	said := out + errs
	if code := strconv.Itoa(int(code)); code != args[0] {
		ts.Fatalf("code %s: %s", code, said)
	}
	for _, text := range want {
		if !strings.Contains(said, text) {
			ts.Fatalf("no %q in %s", text, said)
		}
	}
	checkOutputs(ts, args[0] != "0", slices.Contains(args, "exec"), out, errs)
	data, err := os.ReadFile(result)
	if secret := ts.Getenv("SECRET"); secret != "" && strings.Contains(said+string(data), secret) {
		ts.Fatalf("the secret is in %s%s", said, data)
	}
	if serves {
		return
	}
	var r struct{ Code int }
	ts.Check(err)
	if err := json.Unmarshal(data, &r); err != nil || strconv.Itoa(r.Code) != args[0] {
		ts.Fatalf("%v: the result is %s", err, data)
	}
	if names, _ := os.ReadDir(filepath.Dir(result)); len(names) != 1 {
		ts.Fatalf("the result left %v", names)
	}
}

// scriptEvent passes an event to the hook of a host.
func scriptEvent(ts *testscript.TestScript, _ bool, args []string) {
	args, want := cutAt(args, "=>")
	input := map[string]any{}
	for _, pair := range args[4:] {
		key, value, _ := strings.Cut(pair, "=")
		input[key] = unescaped(value)
	}
	event, err := json.Marshal(map[string]any{
		"session_id": ts.Getenv("SESSION"), "cwd": ts.MkAbs("."), "hook_event_name": args[1],
		"tool_name": args[2], "tool_use_id": args[3], "tool_input": input,
	})
	ts.Check(err)
	code, out, errs := runInScript(ts, []string{"hook", "--host", args[0], "--deadline", "1m"}, string(event))
	if code != rw.CodeOK || errs != "" || out != "" && !json.Valid([]byte(out)) || (out == "") != (want == nil) {
		ts.Fatalf("code %d: %s%s", code, out, errs)
	}
	for _, text := range want {
		if !strings.Contains(out, text) {
			ts.Fatalf("no %q in %s", text, out)
		}
	}
	if secret := ts.Getenv("SECRET"); secret != "" && strings.Contains(out, secret) {
		ts.Fatalf("the secret is in %s", out)
	}
}

// unescaped returns an argument with the line ends that it names.
func unescaped(arg string) string { return strings.NewReplacer(`\n`, "\n", `\r`, "\r").Replace(arg) }

// lastReply is the reply of the last rw.
func lastReply(ts *testscript.TestScript) any {
	var r struct{ Reply any }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(filepath.Join(ts.Getenv("WORK"), "result", "r.json"))), &r))
	return r.Reply
}

// inTurn excludes other runs: each has the directory and the variables of the process.
var inTurn sync.Mutex

// runInScript runs the command in the directory and with the variables of a script.
func runInScript(ts *testscript.TestScript, args []string, in string) (code rw.Code, out, errs string) {
	env := func(name string) string {
		switch name {
		case "RW_SYNC":
			return "off"
		case "NO_COLOR":
			return ts.Getenv("RW_TEST_PERSON")
		}
		return ts.Getenv(name)
	}
	var o, e bytes.Buffer
	stdin := strings.NewReader(in)
	ts.Check(inDirectory(ts.MkAbs("."), env, func() {
		defer func(before func(any) bool) { isTerminal = before }(isTerminal)
		isTerminal = func(stream any) bool {
			person := ts.Getenv("RW_TEST_PERSON")
			return person != "" && (stream == any(&o) || stream == any(&e)) || person == "types" && stream == any(stdin)
		}
		code = run(args, env, stdin, &o, &e)
	}))
	return code, o.String(), e.String()
}

// inDirectory runs a command in a directory of its own and with the variables that it
// does not take from env.
func inDirectory(dir string, env func(string) string, command func()) error {
	inTurn.Lock()
	defer inTurn.Unlock()
	back, err := os.Getwd()
	if err != nil {
		return err
	}
	defer os.Chdir(back)
	for _, name := range []string{"HOME", "PATH", "TMPDIR", "XDG_CONFIG_HOME", "XDG_STATE_HOME"} {
		defer os.Setenv(name, os.Getenv(name))
		os.Setenv(name, env(name))
	}
	if err := os.Chdir(dir); err != nil {
		return err
	}
	command()
	return nil
}

// checkOutputs checks rules for every run: a refusal is an envelope and one
// line that names no directory, unless it is about a command.
func checkOutputs(ts *testscript.TestScript, refused, runs bool, out, errs string) {
	if !refused || runs || strings.HasPrefix(out, `{"ok":true`) || ts.Getenv("RW_TEST_PERSON") != "" {
		return
	}
	if strings.HasPrefix(out, "{") {
		ts.Check(spec.Validate("errors", []byte(out)))
	}
	if !strings.HasPrefix(errs, "resilient-write: ") || strings.Count(errs, "\n") != 1 {
		ts.Fatalf("not one line: %s", errs)
	}
	if strings.Contains(out+errs, ts.Getenv("WORK")) {
		ts.Fatalf("the error names a directory: %s%s", out, errs)
	}
}

func cutAt(args []string, mark string) (before, after []string) {
	if i := slices.Index(args, mark); i >= 0 {
		return args[:i], args[i+1:]
	}
	return args, nil
}

func scriptStatus(ts *testscript.TestScript, _ bool, args []string) {
	var r result
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(filepath.Join(ts.Getenv("WORK"), "result", "r.json"))), &r))
	if r.status() != args[0] {
		ts.Fatalf("the receipt is %s", r.Receipt)
	}
}

func scriptHolds(ts *testscript.TestScript, _ bool, args []string) {
	if got := ts.ReadFile(args[0]); got != unescaped(args[1]) {
		ts.Fatalf("%s holds %q", args[0], got)
	}
}

func scriptChange(ts *testscript.TestScript, _ bool, args []string) {
	names, err := filepath.Glob(ts.MkAbs(args[0]))
	ts.Check(err)
	changed := 0
	for _, name := range names {
		text := ts.ReadFile(name)
		if at := regexp.MustCompile(args[1]).FindStringIndex(text); at != nil {
			ts.Check(os.WriteFile(name, []byte(text[:at[0]]+args[2]+text[at[1]:]), 0o600))
			changed++
		}
	}
	if changed == 0 {
		ts.Fatalf("nothing matches %s", args[1])
	}
}

// snapshots are files of directories, by the name of the snapshot.
type snapshots map[string]snapshot

type snapshot struct {
	dir   string
	files map[string]string
}

type snapshotsKey struct{}

type testingKey struct{} // of the test of a script

func scriptSnapshot(ts *testscript.TestScript, _ bool, args []string) {
	dir := ""
	if len(args) > 1 {
		dir = ts.MkAbs(args[1])
	}
	ts.Value(snapshotsKey{}).(snapshots)[args[0]] = snapshot{dir, scriptFiles(ts, dir)}
}

func scriptUnchanged(ts *testscript.TestScript, _ bool, args []string) {
	one := ts.Value(snapshotsKey{}).(snapshots)[args[0]]
	if diff := cmp.Diff(one.files, scriptFiles(ts, one.dir)); one.files == nil || diff != "" {
		ts.Fatalf("%s was changed: %s", args[0], diff)
	}
}

// scriptFiles returns the modes and contents of the files of a directory; "" is the
// workspace.
func scriptFiles(ts *testscript.TestScript, dir string) map[string]string {
	t := ts.Value(testingKey{}).(testing.TB)
	if dir == "" {
		return everyEntry(t, ts.Getenv("RW_WORKSPACE"), ".git", ".resilient_write", "node_modules")
	}
	files := regularFiles(t, dir)
	maps.DeleteFunc(files, func(name, _ string) bool { return strings.Contains(name, "locks") })
	return files
}
