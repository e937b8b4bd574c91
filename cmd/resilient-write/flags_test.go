package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

// resultIn returns what a run wrote to a result file.
func (s shell) resultIn(file string) (got result) {
	s.t.Helper()
	data, err := os.ReadFile(file)
	if err != nil || json.Unmarshal(data, &got) != nil {
		s.t.Fatalf("%v %s", err, data)
	}
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
			if !ok {
				t.Fatalf("no value to try --%s with", f.Name)
			}
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
				t.Errorf("%v in front: code %d: %s%s, behind: code %d: %s", front, r.code, r.out, r.errs, after.code, after.out)
			}
		}
	})
	if changed < 5 {
		t.Errorf("only %d flags made a difference: the test sees nothing", changed)
	}
	if r := s.ok("--root", elsewhere.dir, "--json", "journal", "tail"); !strings.Contains(r.out, "b.txt") {
		t.Errorf("%s", r.out)
	}
	if r := s.ok("--root", s.dir, "serve", "-h"); !strings.Contains(r.errs, "-transport") || r.out != "" {
		t.Errorf("serve behind a flag: %s", r.errs)
	}
	if r := s.ok("--root", s.dir, "--help"); !strings.Contains(r.out, "journal") {
		t.Errorf("help behind a flag: %s", r.out)
	}
	if help := s.ok("help").out; !strings.Contains(help, "--version") {
		t.Errorf("help does not list --version: %s", help)
	}
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
		if r.code != code || strings.Count(r.out, "\n") != 1 || r.doc["ok"] != false || !strings.Contains(r.errs, "resilient-write: ") {
			t.Errorf("%s: code %d: %s%s", flags, r.code, r.out, r.errs)
		}
		if strings.Contains(r.out+r.errs, s.dir) {
			t.Errorf("%s: the error names a directory: %s", flags, r.errs)
		}
	}
	if diff := cmp.Diff(before, everyFile(t, s.dir)); diff != "" {
		t.Errorf("something was done:\n%s", diff)
	}
	if runtime.GOOS != "windows" {
		if got := s.resultIn(file); got.Code != rw.CodeUsage {
			t.Errorf("%+v", got)
		}
	}
	if names, _ := os.ReadDir(filepath.Dir(file)); len(names) > 1 {
		t.Errorf("left %v", names)
	}
}

// TestDescriptorsOfTheCaller: a descriptor that is open only for reading is
// refused, a full device is reported, and a wrong flag before a good descriptor
// does not prevent the result. Standard output under another name is refused.
func TestDescriptorsOfTheCaller(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("descriptors cannot be passed on")
	}
	s := newShell(t)
	try := func(fd *os.File, args ...string) (code int, errs string) {
		cmd := s.process(append([]string{"write", "a.txt", "--mode", "append"}, args...)...)
		cmd.Stdin, cmd.ExtraFiles = strings.NewReader("x\n"), []*os.File{fd}
		if fd == nil {
			cmd.ExtraFiles = nil
		}
		var b bytes.Buffer
		cmd.Stderr = &b
		cmd.Run()
		return cmd.ProcessState.ExitCode(), b.String()
	}
	for _, fd := range []string{"4", "5"} { // only the process itself could have opened them
		if code, errs := try(nil, "--result-fd", fd); code != int(rw.CodeUsage) || !strings.Contains(errs, fd+" is not open for writing") {
			t.Errorf("%s: code %d: %s", fd, code, errs)
		}
	}
	for _, flag := range []string{"--result-fd", "--progress-fd"} {
		ends := pipe(t)
		if code, errs := try(ends.r, flag, "3"); code != int(rw.CodeUsage) || !strings.Contains(errs, flag+": 3 is not open for writing") {
			t.Errorf("%s: code %d: %s", flag, code, errs)
		}
		ends.all()
	}
	if _, err := os.Stat(filepath.Join(s.dir, "a.txt")); err == nil {
		t.Error("a refused descriptor let the write happen")
	}
	ends := pipe(t)
	var got result
	if code, errs := try(ends.w, "--nothing", "--result-fd", "3"); code != int(rw.CodeUsage) || json.Unmarshal([]byte(ends.all()), &got) != nil || got.Code != rw.CodeUsage {
		t.Errorf("code %d: %s: %+v", code, errs, got)
	}
	if full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0); err == nil {
		defer full.Close()
		if code, errs := try(full, "--result-fd", "3"); code != int(rw.CodeStorage) || !strings.Contains(errs, "result") {
			t.Errorf("full: code %d: %s", code, errs)
		}
	}
	out := filepath.Join(t.TempDir(), "out")
	f := must(os.Create(out))(t)
	defer f.Close()
	cmd := s.process("describe", "--result-out", out)
	cmd.Stdout = f
	cmd.Run()
	if data, _ := os.ReadFile(out); cmd.ProcessState.ExitCode() != int(rw.CodeUsage) || !strings.Contains(string(data), "standard output") {
		t.Errorf("%v: %s", cmd.ProcessState, data)
	}
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
	for _, table := range [][]verb{files, txs, chunks, handoffs, checkpoints, scratches, drafts, journals} {
		for _, v := range table {
			name := commandOf(v)
			tool, _ := mcpserver.Tool(v.tool)
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
					given := sample(v)
					given = append(given[:min(i, len(given))], document)
					lines = append(lines, slices.Concat(name, given))
				}
			}
			lines = append(lines, slices.Concat(name, sample(v), []string{"x", "x", document}))
		}
	}
	for _, line := range lines {
		r := s.with(secret).run(line...)
		if r.code == rw.CodeOK || r.code == rw.CodeInternal {
			t.Errorf("%q: code %d: %s", line, r.code, r.errs)
		}
		if strings.Contains(r.out+r.errs, secret) {
			t.Errorf("%q: %s%s", line, r.out, r.errs)
		}
	}
}

// commandOf returns the command line of a verb, without its arguments.
func commandOf(v verb) []string {
	name := strings.Fields(v.use)[:1]
	group, _, _ := strings.Cut(v.tool, "_")
	if v.group == "" {
		name = slices.Insert(name, 0, group)
	}
	return name
}

// sample returns arguments that a verb accepts.
func sample(v verb) (list []string) {
	for range v.args {
		list = append(list, "1")
	}
	return list
}
