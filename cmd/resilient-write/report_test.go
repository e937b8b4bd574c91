package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/internal/visible"
)

// reportKey is a credential that its form alone confirms, assembled here.
var reportKey = strings.Join([]string{"AKIA", "QZ7RTN4WMXJ2KVHD"}, "")

// reportOf makes a report of the store and returns the page.
func (s shell) reportOf(args ...string) string {
	s.t.Helper()
	out := filepath.Join(s.t.TempDir(), "report.html")
	s.ok(append([]string{"report", "--out", out}, args...)...)
	page := must(os.ReadFile(out))(s.t)
	return string(page)
}

// everyFile returns the files of a directory, with their hashes and times.
func everyFile(t testing.TB, dir string, without ...string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for e := range testbed.Entries(t, dir, without...) {
		text := e.Info.Mode().String() + e.Info.ModTime().String()
		if e.Info.Mode().IsRegular() {
			text += fmt.Sprintf("%x", sha256.Sum256([]byte(e.Text)))
		}
		found[filepath.Join(dir, e.Path)] = text
	}
	return found
}

// TestReportBesideAWriter: a report is made while another program writes, and waits
// for no process.
func TestReportBesideAWriter(t *testing.T) {
	s := newShell(t)
	store := must(rw.Open(context.Background(), s.dir, &rw.Options{StateDir: ".resilient_write"}))(t)
	defer store.Close(context.Background())
	for _, name := range []string{"one.txt", "two.txt"} {
		must(store.SafeWrite(context.Background(), rw.SafeWriteRequest{Path: name, Content: []byte("x\n")}))(t)
		testbed.Contains(t, s.reportOf(), name, "found nothing wrong")
	}
}

// TestReportForAClock: two reports of one store differ only in the clock.
func TestReportForAClock(t *testing.T) {
	s := newShell(t)
	s.with("one\n").ok("write", "a.txt", "--sync", "off")
	s.with("two\n").ok("write", "a.txt", "--sync", "off", "--mode", "overwrite")
	at := func(now time.Time) string {
		var out bytes.Buffer
		a := &app{env: func(string) string { return "" }, in: strings.NewReader(""), out: &output{w: &out}, errs: &out}
		a.set.root = s.dir
		noErr(t, a.makeReport(context.Background(), reportOptions{out: "-"}, now))
		return out.String()
	}
	now := time.Date(2026, 3, 14, 15, 9, 26, 0, time.FixedZone("", 3600))
	first, second := at(now), at(now)
	expect(t, first == second, "two reports at one time differ")
	later := strings.ReplaceAll(at(now.Add(time.Hour)), "2026-03-14 16:09:26", "2026-03-14 15:09:26")
	equal(t, cmp.Diff(at(now), later), "", "the time changed more than itself")
}

// TestReportThatCannotBeWritten: a closed output, or a full disk, is an error
// of storage that contains no path.
func TestReportThatCannotBeWritten(t *testing.T) {
	s := newShell(t)
	s.with("x\n").ok("write", "a.txt", "--sync", "off")
	a := &app{env: func(string) string { return "" }, in: strings.NewReader(""), out: &output{w: broken{}}, errs: &bytes.Buffer{}}
	a.set.root = s.dir
	err := a.makeReport(context.Background(), reportOptions{out: "-"}, time.Now())
	expect(t, errors.Is(err, rw.ErrIO) && !strings.Contains(err.Error(), s.dir), "%v", err)
	ctx, stop := context.WithCancel(context.Background())
	stop()
	expect(t, a.makeReport(ctx, reportOptions{out: filepath.Join(t.TempDir(), "x")}, time.Now()) != nil, "a report that was interrupted says nothing")
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("the pipe is broken") }

// hostileText controls a terminal in every way that a text can: a line of its own, control
// sequences of 7 and of 8 bits, bidirectional controls, invisible characters.
const hostileText = "x\nforged a\x1b]0;t\x07\x1b[2Jb\u009bc\u202ed\u2066e\u200bf\u2028g\u3164h\ufe0fi\U000e0041j"

// shownSafely fails if the output contains what a terminal must not get.
func shownSafely(t *testing.T, what, out string) {
	t.Helper()
	for _, r := range out {
		if !visible.Rune(r) && r != '\n' && r != '\t' {
			t.Errorf("%s prints %U: %.300q", what, r, out)
			return
		}
	}
}

// hostileStore returns a workspace in which every name and text that a reply
// could show is hostile.
func hostileStore(t *testing.T) (shell, []string) {
	s := newShell(t)
	who := []string{"--caller", hostileText, "--session", hostileText}
	s.with(hostileText + "\n").ok(append([]string{"write", hostileText}, who...)...)
	s.with(hostileText + "\nmore\n").ok(append([]string{"write", hostileText, "--mode", "overwrite", "--idempotency-key", hostileText}, who...)...)
	s.with(hostileText).run(append([]string{"write", hostileText}, who...)...) // refused
	s.with(hostileText).run("scratch", "put", "--label", hostileText, "--notes", hostileText, "--caller", hostileText)
	s.with(hostileText).run("chunk", "append", "s")
	s.run("checkpoint", "save", "c", "--data", `{"`+strings.Repeat("x", 3)+`":"`+"\u202e"+`"}`)
	s.run("tx", "begin", "--caller", hostileText)
	return s, []string{hostileText, "s", "c", "1", "2"}
}

// leaves calls each for the subcommands that do something.
func leaves(cmd *cobra.Command, path []string, each func(path []string, cmd *cobra.Command)) {
	for _, one := range cmd.Commands() {
		here := append(append([]string{}, path...), one.Name())
		if one.HasSubCommands() {
			leaves(one, here, each)
			continue
		}
		each(here, one)
	}
}

// TestNothingHostileReachesATerminal runs every subcommand as a person would,
// with a hostile text in every argument and every flag, in a workspace full of
// them, with output as text and as JSON.
func TestNothingHostileReachesATerminal(t *testing.T) {
	s, values := hostileStore(t)
	asPerson(t)
	t.Setenv("HOME", t.TempDir())
	t.Chdir(t.TempDir()) // for what --out names
	ran, some := 0, testbed.Share(t, values, 3, func(v string) bool { return v == hostileText })
	a := &app{args: everyName(), env: func(string) string { return "" }}
	leaves(a.root(), nil, func(path []string, cmd *cobra.Command) {
		name := strings.Join(path, " ")
		switch path[0] + path[len(path)-1] {
		case "serveserve", "journalfollow", "watchwatch", "completionbash": // the second and the third have separate tests
			return
		}
		try := func(args ...string) {
			ran++
			r := s.with(hostileText).run(append(append(append([]string{}, path...), args...), "--color", "never")...)
			shownSafely(t, name+fmt.Sprintf(" %q", args), r.out)
			shownSafely(t, name+fmt.Sprintf(" %q on stderr", args), strings.ReplaceAll(r.errs, wipe, "")) // the bar is ours
			expect(t, !strings.Contains(r.errs, "\nforged"), "%s %q forges a line: %q", name, args, r.errs)
		}
		try()
		for _, value := range some {
			try(value)
			try(value, "--json")
			try(value, value)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() == "bool" && f.Name != "json" {
				try("--" + f.Name)
				try(values[0], "--"+f.Name)
			} else if f.Name != "color" && !strings.HasSuffix(f.Name, "-fd") {
				try("--"+f.Name, hostileText)
				try(hostileText, "--"+f.Name, hostileText)
			}
		})
		try("--" + hostileText)
	})
	expect(t, ran >= 300, "only %d calls", ran)
	for _, args := range [][]string{{hostileText}, {"serve", hostileText}, {"serve", "-" + hostileText}, {"serve", "-root", filepath.Join(s.dir, hostileText)}, {"help", hostileText}, {"serve", "-tier", hostileText}, {"serve", "-transport", hostileText}} {
		r := s.run(args...)
		shownSafely(t, fmt.Sprintf("%q", args), r.out+r.errs)
		expect(t, !strings.Contains(r.errs, "\nforged"), "%q forges a line: %q", args, r.errs)
	}
}

// TestTrustListShowsNoHostileName: the name of a workspace directory can be
// hostile, too.
func TestTrustListShowsNoHostileName(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	s, root := newShell(t), filepath.Join(t.TempDir(), hostileText)
	testbed.Plant(t, root, 0o600, map[string]string{".resilient_write/policy.yaml": "gate: {mode: off}\n"})
	asPerson(t)
	for _, args := range [][]string{{"trust", "--root", root}, {"trust", "--list"}, {"trust", "--list", "--json"}, {"trust", "--remove", "--root", root}} {
		r := s.run(append(args, "--color", "never")...)
		shownSafely(t, strings.Join(args, " "), r.out+r.errs)
		expect(t, r.code == 0 && (!strings.Contains(args[1], "list") || strings.Contains(r.out, "]0;t")), "%q: exit %d: %q %q", args, r.code, r.out, r.errs)
	}
}

// everyName returns the names of all subcommands. Naming them all makes all
// their flags.
func everyName() (names []string) {
	a := &app{env: func(string) string { return "" }}
	leaves(a.root(), nil, func(path []string, _ *cobra.Command) { names = append(names, path...) })
	return names
}

// TestJSONOnATerminalMeansTheSame: an escaped character decodes to the
// original.
func TestJSONOnATerminalMeansTheSame(t *testing.T) {
	s, _ := hostileStore(t)
	asPerson(t)
	r := s.ok("journal", "tail", "--json")
	shownSafely(t, "journal tail --json", r.out)
	entries := r.doc["entries"].([]any)
	equal(t, entries[0].(map[string]any)["path"], hostileText)
	doc, _ := json.Marshal(hostileText)
	var back string
	err := json.Unmarshal(escaped(doc), &back)
	expect(t, err == nil && back == hostileText, "%q %v", back, err)
}
