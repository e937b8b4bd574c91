package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/toolbox"
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
	var out bytes.Buffer
	r := ran{}
	r.code, r.errs = s.into(&out, args...)
	r.out = out.String()
	json.Unmarshal(out.Bytes(), &r.doc)
	return r
}

func (s shell) with(in string) shell { s.in = in; return s }

func (s shell) ok(args ...string) ran {
	s.t.Helper()
	r := s.run(args...)
	require(s.t, r.code == rw.CodeOK, "%v: code %d: %s%s", args, r.code, r.out, r.errs)
	return r
}

func newShell(t testing.TB) shell { return shell{t: t, dir: t.TempDir()} }

// asPerson makes every stream a terminal for one test.
func asPerson(t *testing.T) {
	testbed.Set(t, &isTerminal, func(any) bool { return true })
}

// TestColorIsForTerminalsThatShowIt: NO_COLOR and a dumb terminal get no colors, unless
// the flag asks for them.
func TestColorIsForTerminalsThatShowIt(t *testing.T) {
	for _, row := range []struct {
		flag, noColor, term string
		want                bool
	}{
		{"auto", "", "xterm", true}, {"auto", "", "", true}, {"auto", "1", "xterm", false}, {"auto", "", "dumb", false},
		{"always", "1", "dumb", true}, {"never", "", "xterm", false},
	} {
		a := &app{color: row.flag, env: func(name string) string {
			return map[string]string{"NO_COLOR": row.noColor, "TERM": row.term}[name]
		}}
		equal(t, a.printer().color, row.want, row)
	}
}

// TestEveryToolHasACommand: an operator can call every tool of an agent by
// name, with every argument.
func TestEveryToolHasACommand(t *testing.T) {
	reached := map[string]verb{"check": {tool: "check"}, "exec": {tool: "exec", use: "exec", args: []string{"argv"}},
		"claim": {tool: "claim", use: "claim", args: []string{"action", "paths", "fence", "ttl_seconds", "session"}}} // one has subcommands
	for _, g := range groups {
		for _, v := range g.verbs {
			reached[v.tool] = v
		}
	}
	commands := map[string]bool{}
	for tool, v := range reached {
		name, _, _ := strings.Cut(v.use, " ")
		commands["resilient-write "+name], commands["resilient-write "+subcommandOf(tool)] = true, true
	}
	unlisted := toolbox.New(nil, &toolbox.Options{Filter: func(toolbox.Tool) bool { return false }})
	for _, tool := range toolbox.Table() {
		v, ok := reached[tool.Name]
		if !ok {
			t.Errorf("no command calls %s", tool.Name)
			continue
		}
		if said := unlisted.Words("rw_" + tool.Name); strings.HasPrefix(said, "`") {
			expect(t, commands[strings.Trim(said, "`")], "%s: there is no command %s", tool.Name, said)
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
				expect(t, built(v).Flags().Lookup(flagName(a.Name)) != nil, "%s has no flag for %s", v.use, a.Name)
			}
		}
	}
}

// built returns the command of a verb.
func built(v verb) *cobra.Command {
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
		got, err := os.ReadFile(filepath.Join(s.dir, name))
		expect(t, err == nil && string(got) == content, "%s: %d bytes, want %d (%v)", name, len(got), len(content), err)
	}
	r := s.ok("read", "text")
	expect(t, r.doc["content"] == "hello\r\nwörld", "%s", r.out)
	r = s.run("read", "bytes")
	expect(t, r.code == rw.CodeInvalid, "code %d: %s", r.code, r.errs)
	for _, args := range [][]string{{"write", "a\xff", "--content", "x"}, {"write", "a", "--content", "\xff"}, {"delete", "\xff"}, {"edit", "text", "--old", "w", "--new", "\xff"}} {
		r = s.run(args...)
		expect(t, r.code == rw.CodeUsage && strings.Contains(r.errs, "not valid UTF-8"), "%q: code %d: %s", args, r.code, r.errs)
	}
	from := filepath.Join(t.TempDir(), "from")
	os.WriteFile(from, []byte("from a file"), 0o600)
	s.ok("write", "text", "--from", from, "--mode", "overwrite")
	testbed.Holds(t, filepath.Join(s.dir, "text"), "from a file")
}

// TestInterrupt: Ctrl-C in the middle of a long write leaves nothing half done,
// also if the command waits for input that does not arrive.
func TestInterrupt(t *testing.T) {
	testbed.SkipIf(t, runtime.GOOS == "windows", "no signals")
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
		{"waiting for a secret", []string{"erase"}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			shell{t: t, dir: dir, in: "old\n"}.ok("write", "a.txt")
			cmd := exec.Command(bin, append(row.args, "--root", dir)...)
			in := must(cmd.StdinPipe())(t)
			var said bytes.Buffer
			cmd.Stdout = &said
			noErr(t, cmd.Start())
			fmt.Fprint(in, strings.Repeat("new\n", 1<<18)) // read, so the write is in progress
			if row.dries {
				time.Sleep(200 * time.Millisecond)
			}
			code := interrupted(t, cmd)
			expect(t, code == rw.CodePrecondition && strings.Contains(said.String(), "canceled"), "code %d: %s", code, said.String())
			got, _ := os.ReadFile(filepath.Join(dir, "a.txt"))
			expect(t, string(got) == "old\n", "the file holds %d bytes", len(got))
			r := (shell{t: t, dir: dir}).ok("check")
			expect(t, r.doc["clean"] == true, "%s", r.out)
		})
	}
}

// noErr, isErr, must and fails check errors, equal and mustEqual values, expect and
// require conditions, as testbed describes.
var noErr, isErr = testbed.NoErr, testbed.IsErr

func expect(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	testbed.Expect(t, ok, format, args...)
}

func require(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	testbed.Require(t, ok, format, args...)
}

func must[T any](v T, err error) func(testing.TB, ...any) T { return testbed.Must(v, err) }

func fails[T any](v T, err error) func(testing.TB, error, ...any) { return testbed.Fails(v, err) }

func equal[T comparable](t testing.TB, got, want T, what ...any) {
	t.Helper()
	testbed.Equal(t, got, want, what...)
}

func mustEqual[T comparable](t testing.TB, got, want T, what ...any) {
	t.Helper()
	testbed.MustEqual(t, got, want, what...)
}

func TestWhen(t *testing.T) {
	at := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	testbed.Set(t, &now, func() time.Time { return at })
	for ago, want := range map[time.Duration]string{
		0: "just now", 59 * time.Second: "59 s ago", 2*time.Minute + time.Second: "2 min ago", 23 * time.Hour: "23 h ago",
		48 * time.Hour: at.Add(-48 * time.Hour).Local().Format("2006-01-02 15:04"), -time.Hour: at.Add(time.Hour).Local().Format("2006-01-02 15:04"),
	} {
		equal(t, when(at.Add(-ago).Format(time.RFC3339Nano)), want, ago)
	}
	equal(t, when("no time"), "no time")
}

// TestSpokenHintsNameNoTool: no hint of a refusal names a tool or an argument
// as on the wire.
func TestSpokenHintsNameNoTool(t *testing.T) {
	flags := 0
	for _, d := range rw.Details() {
		_, _, _, _, hint := d.Describe()
		said := spoken(hint)
		for _, word := range regexp.MustCompile(`[a-z]+(?:_[a-z0-9]+)+`).FindAllString(said, -1) {
			expect(t, !strings.HasPrefix(word, "rw_") && !isArgument(word), "%s: %s", d, said)
		}
		if said != hint {
			flags++
		}
	}
	expect(t, flags >= 15, "%d hints are spoken", flags)
	for hint, want := range map[string]string{
		"read the file; to replace it use mode overwrite with expected_prev_sha256": "read the file; to replace it use --mode overwrite with --expected-prev-sha256",
		"call rw_redact with draft_ref, then rw_draft_list":                         "call resilient-write redact with --draft-ref, then resilient-write draft list",
		"to replace it anyway, pass force":                                          "to replace it anyway, pass --force",
		"rw_nothing and other_words stay":                                           "rw_nothing and other_words stay",
	} {
		equal(t, spoken(hint), want)
	}
}

// TestProgressBar: how much, of what, and how fast once that is known.
func TestProgressBar(t *testing.T) {
	for _, one := range []struct {
		p     rw.Progress
		since time.Duration
		want  string
	}{
		{rw.Progress{Stage: "read", Done: 3 << 20}, 0, "3.0 MiB"},
		{rw.Progress{Stage: "read", Done: 3 << 20, Total: 12 << 20}, 2 * time.Second, " 25%  3.0 MiB of 12.0 MiB  1.5 MiB/s"},
		{rw.Progress{Stage: "files", Done: 500, Total: 1000}, 500 * time.Millisecond, "[############            ]  50%  500 files of 1000 files"},
		{rw.Progress{Stage: "journal", Done: 500}, 10 * time.Second, "500 rows  50 rows/s"},
		{rw.Progress{Stage: "erase", Done: 7}, 0, "7 places"},
	} {
		got := drawBar(one.p, one.since)
		expect(t, strings.HasSuffix(got, one.want), "%+v: %q, want %q", one.p, got, one.want)
	}
}

// TestCompletion offers values, tools, clients, and what is in the store.
func TestCompletion(t *testing.T) {
	s := newShell(t)
	out := s.run("__complete", "draft", "get", "").out
	expect(t, !strings.Contains(out, "draft_") && len(everyFile(t, s.dir)) == 1, "of no store: %q", out)
	s.with("one").ok("write", "a.txt")
	s.with("two").ok("write", "a.txt", "--mode", "overwrite")
	s.with("x").ok("write", "e\x1b[2J.txt")
	s.ok("delete", "a.txt")
	s.with(reportKey).run("write", "conf.env")
	s.with("1").ok("chunk", "append", "pieces")
	s.with("{}").ok("checkpoint", "save", "step", "-")
	tx := s.ok("tx", "begin").doc["tx_id"].(string)
	for line, want := range map[string]string{
		"draft get ":               "\tconf.env",
		"chunk status p":           "pieces\t1 chunks",
		"chunk compose pieces ":    ":0",
		"checkpoint read ":         "step",
		"tx commit ":               tx,
		"show ":                    "a.txt\t3 versions",
		"show a.txt ":              "1\tcreate ",
		"restore a.txt --version ": "2\toverwrite ",
		"diff a.txt --from ":       "1\tcreate ",
		"undo --row ":              "2\toverwrite a.txt, ",
		"serve --ti":               "--tier",
		"serve --tier ":            "standard",
		"serve --read-only --tr":   "--transport",
		"serve --transport ":       "http",
		"write a --mode ":          "overwrite",
		"status --color ":          "never",
		"init --scope ":            "project",
		"init ":                    "claude-code",
		"doctor ":                  "codex",
		"call ":                    "rw_safe_write",
		"write --gate ":            "advise",
		"journal tail --f":         "--filter-path",
	} {
		args := append([]string{"__complete"}, strings.Split(line, " ")...)
		out := s.run(args...).out
		expect(t, strings.Contains(out, want) && !strings.Contains(out, "\x1b"), "%q: %q", line, out)
	}
}

// TestOneFlagDialect: no help shows a long flag with one hyphen, although serve
// still accepts it.
func TestOneFlagDialect(t *testing.T) {
	s := newShell(t)
	single := regexp.MustCompile(`(?:^|[\s(;])-[a-z]{2,}[a-z-]*`)
	lines := []string{"help", "serve -h"}
	for _, c := range (&app{env: func(string) string { return "" }}).commands() {
		lines = append(lines, c.Name()+" --help")
	}
	for _, line := range lines {
		r := s.ok(strings.Fields(line)...)
		found := single.FindAllString(r.out+r.errs, -1)
		expect(t, found == nil && len(r.out+r.errs) >= 200, "%s: %q", line, found)
	}
	r := s.with("").run("-sync", "off", "-tier", "core")
	expect(t, r.code == 0, "%d %s", r.code, r.errs)
}

// TestHelpNamesSubcommands: the help of a subcommand that calls a tool names other
// subcommands, not tools.
func TestHelpNamesSubcommands(t *testing.T) {
	s := newShell(t)
	for _, g := range groups {
		for _, v := range g.verbs {
			name, _, _ := strings.Cut(v.use, " ")
			out := s.ok(append(strings.Fields(g.before), name, "--help")...).out
			own, _, _ := strings.Cut(out, "Global Flags:") // whose defaults may be long
			long := slices.ContainsFunc(strings.Split(own, "\n"), func(line string) bool { return len(line) > 110 })
			expect(t, !strings.Contains(out, "rw_") && !strings.Contains(own, "prev_sha256") && !long, "%s%s: %s", g.before, name, out)
		}
	}
	expect(t, strings.Contains(s.ok("restore", "--help").out, "resilient-write history"), "restore does not say where versions are listed")
}

// TestHelpFillsItsLines: no help breaks a line where the next word has room.
func TestHelpFillsItsLines(t *testing.T) {
	a := &app{env: func(string) string { return "" }}
	leaves(a.root(), nil, func(path []string, cmd *cobra.Command) {
		lines := strings.Split(folded(cmd.Long, 80), "\n")
		for i, line := range lines[:len(lines)-1] {
			next, _, _ := strings.Cut(lines[i+1], " ") // "" in an indented line
			expect(t, line == "" || next == "" || len(line)+1+len(next) > 80, "%q: %q, then %q", path, line, lines[i+1])
		}
	})
}

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
			return map[string]string{"RW_WORKSPACE": s.dir, "RW_SYNC": "off", "NO_COLOR": "1", "TERM": os.Getenv("TERM"), "RW_STATE_DIR": os.Getenv("RW_STATE_DIR")}[name]
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
	"analytics", "changes", "changes --patch", "blame --format agent-trace a.txt", "chunk list", "scratch list", "draft list", "version", "--version", "help", "help write", "write --help", "completion bash", "recover",
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
				expect(t, code == rw.CodeStorage && strings.Count(errs, "no space left") == 1 && !strings.Contains(errs, "internal") && !strings.Contains(errs, "somewhere"),
					"%s (person: %v): code %d: %q", line, person, code, errs)
				expect(t, out.taken.Len() <= room, "%s: after the gap comes %q", line, out.taken.String())
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
		expect(t, code == rw.CodeStorage && got.Code == code && got.status() == "succeeded" && strings.Contains(errs, "completed changes remain"),
			"code %d: %s: %s", code, errs, got.Receipt)
	}
	testbed.Holds(t, filepath.Join(s.dir, "a.txt"), "text\ntext\n")
	for line, want := range map[string]string{"completion bash": "disk_full", "journal follow --after 0": "disk_full", "changes --patch": `"files"`, "blame --format agent-trace a.txt": `"text"`} {
		s.into(&narrow{}, append(strings.Fields(line), "--result-out", file)...)
		got := s.resultIn(file)
		expect(t, strings.Contains(string(got.Reply), want), "%s: %s", line, got.Reply)
	}
}

// TestTheResultOutlivesTheReader: the result is written even if the reader of
// standard output has closed it, which otherwise ends the process.
func TestTheResultOutlivesTheReader(t *testing.T) {
	testbed.SkipIf(t, runtime.GOOS == "windows", "no signals")
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
	got := s.resultIn(file)
	expect(t, cmd.ProcessState.ExitCode() == int(rw.CodeStorage) && got.status() == "succeeded" && strings.Contains(errs.String(), "broken pipe"), "%v: %s: %s", cmd.ProcessState, errs.String(), got.Receipt)
}

// binary builds the command, once for all tests, and returns its path; removeBinary
// removes it.
var binary = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "rwbin")
	if err != nil {
		return "", err
	}
	binaryDir = dir
	path := filepath.Join(dir, "resilient-write")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", path, ".")
	build.Env = environ
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

var (
	binaryDir string
	environ   = os.Environ() // before a test names another home, which has no build cache
)

func removeBinary(int) {
	if binaryDir != "" {
		os.RemoveAll(binaryDir)
	}
}

// build returns the path of the built command.
func build(t testing.TB) string {
	t.Helper()
	return must(binary())(t)
}

// resultIn returns what a run wrote to a result file.
func (s shell) resultIn(file string) (got result) {
	s.t.Helper()
	data, err := os.ReadFile(file)
	require(s.t, err == nil && json.Unmarshal(data, &got) == nil, "%v %s", err, data)
	return got
}

// TestFlagsInFrontOfTheSubcommand: every flag that all subcommands have means
// the same before them, with one hyphen and with two, with = and without.
func TestFlagsInFrontOfTheSubcommand(t *testing.T) {
	s := newShell(t)
	s.with("x\n").ok("write", "a.txt")
	elsewhere := newShell(t)
	elsewhere.with("x\n").ok("write", "b.txt")
	values := map[string]string{
		"root": elsewhere.dir, "state-dir": "none", "sync": "full", "policy-file": "none.yaml", "gate": "off", "session": "s",
		"color": "never", "result-out": filepath.Join(t.TempDir(), "r"), "result-fd": "99", "progress-fd": "99",
	}
	known := pflag.NewFlagSet("", pflag.ContinueOnError)
	(&app{env: func(string) string { return "" }}).globalFlags(known)
	plain := s.ok("describe").out
	changed := 0
	known.VisitAll(func(f *pflag.Flag) {
		given := []string{"--" + f.Name}
		if f.NoOptDefVal == "" {
			value, ok := values[f.Name]
			require(t, ok, "no value to try --%s with", f.Name)
			given = append(given, value)
		}
		after := s.run(append([]string{"describe"}, given...)...)
		if after.out != plain {
			changed++
		}
		single := slices.Clone(given)
		single[0] = single[0][1:]
		for _, front := range [][]string{given, single, {strings.Join(given, "=")}} {
			if r := s.run(append(front, "describe")...); r.code != after.code || r.out != after.out || r.errs != after.errs {
				t.Errorf("%v in front: code %d: %s%s, after: code %d: %s", front, r.code, r.out, r.errs, after.code, after.out)
			}
		}
	})
	expect(t, changed >= 5, "only %d flags made a difference: the test sees nothing", changed)
	r := s.ok("--root", elsewhere.dir, "--json", "journal", "tail")
	expect(t, strings.Contains(r.out, "b.txt"), "%s", r.out)
	r = s.ok("--root", s.dir, "serve", "-h")
	expect(t, strings.Contains(r.errs, "-transport") && r.out == "", "serve after a flag: %s", r.errs)
	r = s.ok("--root", s.dir, "--help")
	expect(t, strings.Contains(r.out, "journal"), "help after a flag: %s", r.out)
	help := s.ok("help").out
	expect(t, strings.Contains(help, "--version"), "help does not list --version: %s", help)
}

// TestPlacesOfTheResultAreTriedFirst: an unusable destination is code 2, and
// nothing was done. Standard output and input cannot be used, whatever else is
// wrong with the command line.
func TestPlacesOfTheResultAreTriedFirst(t *testing.T) {
	s := newShell(t)
	s.with("old\n").ok("write", "a.txt")
	file := filepath.Join(t.TempDir(), "result")
	before := everyFile(t, s.dir)
	rows := map[string]rw.Code{
		"--result-out " + filepath.Join(s.dir, "none", "r.json"): rw.CodeUsage,
		"--result-out " + s.dir:                                  rw.CodeUsage,
		"--result-out=":                                          rw.CodeUsage,
		"--result-out " + os.DevNull:                             rw.CodeUsage,
		"--result-fd 0":                                          rw.CodeUsage,
		"--result-fd 1":                                          rw.CodeUsage,
		"--result-fd=-3":                                         rw.CodeUsage,
		"--progress-fd 0":                                        rw.CodeUsage,
		"--progress-fd 1":                                        rw.CodeUsage,
		"--result-fd 1 --nothing":                                rw.CodeUsage,
		"--nothing --result-fd 1":                                rw.CodeUsage,
	}
	if runtime.GOOS != "windows" {
		rows["--result-fd 99"], rows["--progress-fd 99"] = rw.CodeUsage, rw.CodeUsage
		rows["--result-fd 99 --result-out "+file] = rw.CodeUsage
	}
	for flags, code := range rows {
		r := s.with("new\n").run(append([]string{"write", "a.txt", "--mode", "overwrite"}, strings.Fields(flags)...)...)
		expect(t, r.code == code && strings.Count(r.out, "\n") == 1 && r.doc["ok"] == false && strings.Contains(r.errs, "resilient-write: "),
			"%s: code %d: %s%s", flags, r.code, r.out, r.errs)
		expect(t, !strings.Contains(r.out+r.errs, s.dir), "%s: the error names a directory: %s", flags, r.errs)
	}
	equal(t, cmp.Diff(before, everyFile(t, s.dir)), "", "something was done")
	if runtime.GOOS != "windows" {
		got := s.resultIn(file)
		expect(t, got.Code == rw.CodeUsage, "%+v", got)
	}
	names, _ := os.ReadDir(filepath.Dir(file))
	expect(t, len(names) <= 1, "left %v", names)
}

// TestDescriptorsOfTheCaller: the result and the progress go to open descriptors of the
// caller; the events of a run begin and end in a pair. A descriptor that is open only for
// reading is refused, a full device is reported, and a wrong flag before a good descriptor
// does not prevent the result. Standard output under another name is refused.
func TestDescriptorsOfTheCaller(t *testing.T) {
	testbed.SkipIf(t, runtime.GOOS == "windows", "descriptors cannot be passed on")
	s := newShell(t)
	try := func(open []*os.File, args ...string) (code int, errs string) {
		cmd := s.process(append([]string{"write", "a.txt", "--mode", "append"}, args...)...)
		cmd.Stdin, cmd.ExtraFiles = strings.NewReader("x\n"), open
		var b bytes.Buffer
		cmd.Stderr = &b
		cmd.Run()
		return cmd.ProcessState.ExitCode(), b.String()
	}
	for _, fd := range []string{"4", "5"} { // only the process itself could have opened them
		code, errs := try(nil, "--result-fd", fd)
		expect(t, code == int(rw.CodeUsage) && strings.Contains(errs, fd+" is not open for writing"), "%s: code %d: %s", fd, code, errs)
	}
	for _, flag := range []string{"--result-fd", "--progress-fd"} {
		ends := pipe(t)
		code, errs := try([]*os.File{ends.r}, flag, "3")
		expect(t, code == int(rw.CodeUsage) && strings.Contains(errs, flag+": 3 is not open for writing"), "%s: code %d: %s", flag, code, errs)
		ends.all()
	}
	_, err := os.Stat(filepath.Join(s.dir, "a.txt"))
	expect(t, err != nil, "a refused descriptor let the write happen")
	ends := pipe(t)
	var got result
	if code, errs := try([]*os.File{ends.w}, "--nothing", "--result-fd", "3"); code != int(rw.CodeUsage) || json.Unmarshal([]byte(ends.all()), &got) != nil || got.Code != rw.CodeUsage {
		t.Errorf("code %d: %s: %+v", code, errs, got)
	}
	if full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0); err == nil {
		defer full.Close()
		code, errs := try([]*os.File{full}, "--result-fd", "3")
		expect(t, code == int(rw.CodeStorage) && strings.Contains(errs, "result"), "full: code %d: %s", code, errs)
	}
	results, progress := pipe(t), pipe(t)
	code, errs := try([]*os.File{results.w, progress.w}, "--result-fd", "3", "--progress-fd", "4")
	got = testbed.Decoded[result](t, []byte(results.all()))
	expect(t, code == 0 && got.Command == "write" && got.status() == "succeeded", "code %d: %s: %+v", code, errs, got)
	lines := strings.Split(strings.TrimSpace(progress.all()), "\n")
	first, last := testbed.Decoded[progressEvent](t, []byte(lines[0])), testbed.Decoded[progressEvent](t, []byte(lines[len(lines)-1]))
	expect(t, first.Event == "begin" && last.Event == "end" && last.Code != nil && *last.Code == 0 && first.Command == "write", "%v", lines)
	out := filepath.Join(t.TempDir(), "out")
	f := must(os.Create(out))(t)
	defer f.Close()
	cmd := s.process("describe", "--result-out", out)
	cmd.Stdout = f
	cmd.Run()
	data, _ := os.ReadFile(out)
	expect(t, cmd.ProcessState.ExitCode() == int(rw.CodeUsage) && strings.Contains(string(data), "standard output"), "%v: %s", cmd.ProcessState, data)
}

// TestErrorsHoldNoContent: a misplaced argument is not repeated in an error, in
// any place of any command line that is not the name of a file.
func TestErrorsHoldNoContent(t *testing.T) {
	const secret = "horse battery"
	s := newShell(t)
	s.with("x\n").ok("write", "a.txt")
	document := `{"path":"a.txt","content":"` + secret + `"}`
	lines := [][]string{
		{"call", "rw_safe_write", document}, {"call", "rw_safe_write", "[" + document + "]"}, {"call", "rw_safe_write", " " + document}, {"call", document},
		{"call", "rw_safe_write", "-", document}, {document}, {secret}, {"journal", secret}, {"help", document}, {"completion", secret}, {"version", secret},
		{"compact", secret}, {"report", "--since", secret}, {"journal", "follow", "--after", secret}, {"compact", "--keep-rows", secret},
		{"serve", document}, {"serve", "--transport", secret}, {"serve", "--tier", secret}, {"serve", "--port", secret + " -root: x"}, {"serve", "--read-only=" + secret},
		{"serve", "--" + document}, {"--" + document}, {"--" + document, "check"}, {"write", "a.txt", "-" + secret}, {"write", "a.txt", "--" + secret}, {"write", "a.txt", "--=" + secret},
		{"describe", "--color", secret}, {"describe", "--result-fd", secret}, {"describe", "--json=" + secret}, {"describe", "--sync", secret}, {"write", "a.txt", "--gate", secret},
		{"write", "a.txt", "--from", document}, {"journal", "import", document},
	}
	for _, g := range groups {
		for _, v := range g.verbs {
			name := append(strings.Fields(g.before), strings.Fields(v.use)[0])
			tool, _ := toolbox.Lookup(v.tool)
			list := must(arguments(tool))(t)
			kinds := map[string]string{}
			for _, one := range list {
				kinds[one.Name] = one.kind()
				if k := one.kind(); !v.positional(one.Name) && (k == "boolean" || k == "integer" || k == "number") && len(lines) < 120 {
					lines = append(lines, slices.Concat(name, sample(v), []string{"--" + flagName(one.Name) + "=" + document}))
				}
			}
			for i, arg := range v.args {
				if bare := strings.TrimRight(arg, "?@"); strings.Contains(arg, "@") || kinds[bare] == "integer" {
					given, text := sample(v), document
					if bare == "data" { // which may be any document
						text = strings.TrimSuffix(document, "}")
					}
					given = append(given[:min(i, len(given))], text)
					lines = append(lines, slices.Concat(name, given))
				}
			}
			lines = append(lines, slices.Concat(name, sample(v), []string{"x", "x", document}))
		}
	}
	for _, line := range lines {
		r := s.with(secret).run(line...)
		expect(t, r.code != rw.CodeOK && r.code != rw.CodeInternal, "%q: code %d: %s", line, r.code, r.errs)
		expect(t, !strings.Contains(r.out+r.errs, secret), "%q: %s%s", line, r.out, r.errs)
	}
}

// sample returns arguments that a verb accepts.
func sample(v verb) (list []string) {
	for range v.args {
		list = append(list, "1")
	}
	return list
}
