package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
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
	page, err := os.ReadFile(out)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(page)
}

// everyFile returns the files of a directory, with their hashes and times.
func everyFile(t *testing.T, dir string) map[string]string {
	t.Helper()
	return must(filesBelow(dir))(t)
}

// filesBelow is everyFile without the directories of a name.
func filesBelow(dir string, without ...string) (map[string]string, error) {
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && slices.Contains(without, d.Name()) {
			return fs.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		text := info.Mode().String() + info.ModTime().String()
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			text += fmt.Sprintf("%x", sha256.Sum256(data))
		}
		found[name] = text
		return nil
	})
	return found, err
}

func wants(t *testing.T, page string, all ...string) {
	t.Helper()
	for _, want := range all {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not hold %q", want)
		}
	}
}

func without(t *testing.T, page string, all ...string) {
	t.Helper()
	for _, never := range all {
		if strings.Contains(page, never) {
			t.Errorf("the page holds %q", never)
		}
	}
}

// TestReportShowsTheStore: the report of a store in which everything happened
// once shows all of it, contains no secret and no path on the machine, and
// changes nothing.
func TestReportShowsTheStore(t *testing.T) {
	s := newShell(t)
	off := []string{"--sync", "off"}
	s.with("one\ntwo\n").ok(append([]string{"write", "src/a.txt", "--caller", "coder", "--session", "first"}, off...)...)
	s.with("one\n2\n").ok(append([]string{"write", "src/a.txt", "--mode", "overwrite", "--caller", "<img src=x onerror=alert(1)>"}, off...)...)
	s.with("key: " + reportKey + "\nname: shop\n").ok(append([]string{"write", "conf.yaml", "--gate", "off"}, off...)...)
	s.with("key: none\nname: shop\n").ok(append([]string{"write", "conf.yaml", "--mode", "overwrite"}, off...)...)
	s.with("x\n").ok(append([]string{"write", "old name.txt"}, off...)...)
	s.ok(append([]string{"move", "old name.txt", "new name.txt"}, off...)...)
	s.ok(append([]string{"delete", "new name.txt"}, off...)...)
	s.with("piece").ok(append([]string{"chunk", "append", "pieces"}, off...)...)
	if r := s.with("key: "+reportKey+"\n").run("write", "refused.env"); r.code != rw.CodePolicy {
		t.Fatalf("code %d: %s", r.code, r.errs)
	}
	before := everyFile(t, s.dir)
	page := s.reportOf("--title", "Day <1>", "--path", "src/a.txt", "--path", "conf.yaml", "--path", "new name.txt")
	equal(t, cmp.Diff(before, everyFile(t, s.dir)), "", "the report changed the store")
	wants(t, page, "<title>Day &lt;1&gt;</title>", "src/a.txt", "&lt;img src=x onerror=alert(1)&gt;", "risk_blocked", "refused.env", "pieces", "first",
		"<del>-<bdi>two</bdi>", "<ins>+<bdi>2</bdi>", "{AWS-ACCESS-KEY-ID-REDACTED}", "The file was then <bdi>old name.txt</bdi>", "gone", "The quick check found nothing wrong.",
		`class="chart" id="timeline"`, "all within a minute", "What did the agents change?", "resilient-write undo --row ", "a refused draft of refused.env",
		"what looks like a secret: api_key", "a session that is not composed: pieces, chunks: 1")
	without(t, page, reportKey, reportKey[4:14], s.dir, "<img", "<script", "Nothing was written", `id="rate"`)
}

// TestReportReply: the reply describes the page correctly, and only its owner
// may read the page. Standard output contains only the page.
func TestReportReply(t *testing.T) {
	s := newShell(t)
	s.with("x\n").ok("write", "a.txt", "--sync", "off")
	out := filepath.Join(t.TempDir(), "r.html")
	noErr(t, os.WriteFile(out, []byte("an older one"), 0o644))
	r := s.ok("report", "--out", out)
	page := must(os.ReadFile(out))(t)
	sum := sha256.Sum256(page)
	if r.doc["sha256"] != hex.EncodeToString(sum[:]) || r.doc["bytes"] != float64(len(page)) || r.doc["rows"] != 1.0 || r.doc["files"] != 1.0 || r.doc["problems"] != 0.0 {
		t.Errorf("%s", r.out)
	}
	if left, _ := r.doc["left_out"].([]any); len(left) != 1 || !strings.Contains(left[0].(string), "use --path for others") {
		t.Errorf("left out: %v", r.doc["left_out"])
	}
	if info, err := os.Stat(out); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	account := filepath.Join(t.TempDir(), "result")
	r = s.ok("report", "--result-out", account)
	if !strings.HasPrefix(r.out, "<!DOCTYPE html>") || !strings.HasSuffix(r.out, "</html>\n") {
		t.Errorf("standard output: %.60q … %q", r.out, r.out[max(0, len(r.out)-60):])
	}
	if data, err := os.ReadFile(account); err != nil || !strings.Contains(string(data), `"left_out"`) {
		t.Errorf("the account: %s %v", data, err)
	}
	asPerson(t)
	if r := s.ok("report", "--out", out); !strings.Contains(r.out, "1 rows") || !strings.Contains(r.out, "left out") || strings.Contains(r.out, "{") {
		t.Errorf("a person reads %q", r.out)
	}
}

// TestReportBesideAWriter: a report is made while another program writes, and waits
// for no process.
func TestReportBesideAWriter(t *testing.T) {
	s := newShell(t)
	store := must(rw.Open(context.Background(), s.dir, &rw.Options{StateDir: ".resilient_write"}))(t)
	defer store.Close(context.Background())
	for _, name := range []string{"one.txt", "two.txt"} {
		must(store.SafeWrite(context.Background(), rw.SafeWriteRequest{Path: name, Content: []byte("x\n")}))(t)
		wants(t, s.reportOf(), name, "found nothing wrong")
	}
}

// TestReportSince: earlier events are in no part of the page.
func TestReportSince(t *testing.T) {
	s := newShell(t)
	s.with("x\n").ok("write", "early.txt", "--sync", "off")
	s.with("key: "+reportKey).run("write", "early.env")
	since := s
	since.extra = []string{"--since", time.Now().UTC().Format(time.RFC3339Nano)}
	without(t, since.reportOf(), "early.txt", "early.env", "risk_blocked")
	s.with("y\n").ok("write", "late.txt", "--sync", "off")
	page := since.reportOf()
	wants(t, page, "late.txt", "looked at from")
	without(t, page, "early.txt", "early.env")
	wants(t, s.reportOf("--since", "1h"), "early.txt", "late.txt", "early.env")
	wants(t, s.reportOf("--since", "2001-01-01"), "early.txt")
}

// TestReportOfADamagedStore: unreadable rows and a torn end are reported as
// problems, and hide nothing else.
func TestReportOfADamagedStore(t *testing.T) {
	s := newShell(t)
	for i := range 3 {
		s.with("x\n").ok("write", fmt.Sprintf("f%d.txt", i), "--sync", "off")
	}
	segments, err := filepath.Glob(filepath.Join(s.dir, ".resilient_write", "journal", "*.jsonl"))
	if err != nil || len(segments) != 1 {
		t.Fatalf("%v %v", segments, err)
	}
	data := must(os.ReadFile(segments[0]))(t)
	data = bytes.Replace(data, []byte(`"f1.txt"`), []byte(`"</b>{.txt"`), 1)
	data = append(bytes.TrimRight(data, "\x00"), []byte("\n{\"seq\":4,\"</script><b>")...)
	noErr(t, os.WriteFile(segments[0], data, 0o600))
	page := s.reportOf()
	wants(t, page, "f0.txt", "f2.txt", `class="verdict bad"`)
	without(t, page, "<script", "</b>{")
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
	if first, second := at(now), at(now); first != second {
		t.Error("two reports at one time differ")
	}
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
	if !errors.Is(err, rw.ErrIO) || strings.Contains(err.Error(), s.dir) {
		t.Errorf("%v", err)
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if err := a.makeReport(ctx, reportOptions{out: filepath.Join(t.TempDir(), "x")}, time.Now()); err == nil {
		t.Error("a report that was interrupted says nothing")
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("the pipe is broken") }

// hostileText controls a terminal in every way that a text can: control
// sequences of 7 and of 8 bits, bidirectional controls, invisible characters.
const hostileText = "a\x1b]0;t\x07\x1b[2Jb\u009bc\u202ed\u2066e\u200bf\u2028g\u3164h\ufe0fi\U000e0041j"

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
	t.Chdir(t.TempDir()) // for what --out names
	ran := 0
	a := &app{args: everyName(t), env: func(string) string { return "" }}
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
		}
		try()
		for _, value := range values {
			try(value)
			try(value, "--json")
			try(value, value)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() != "bool" && f.Name != "color" && !strings.HasSuffix(f.Name, "-fd") {
				try("--"+f.Name, hostileText)
				try(hostileText, "--"+f.Name, hostileText)
			}
		})
		try("--" + hostileText)
	})
	if ran < 500 {
		t.Errorf("only %d calls", ran)
	}
	for _, args := range [][]string{{hostileText}, {"serve", hostileText}, {"serve", "-" + hostileText}, {"serve", "-root", filepath.Join(s.dir, hostileText)}, {"help", hostileText}, {"serve", "-tier", hostileText}, {"serve", "-transport", hostileText}} {
		r := s.run(args...)
		shownSafely(t, fmt.Sprintf("%q", args), r.out+r.errs)
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
		if shownSafely(t, strings.Join(args, " "), r.out+r.errs); r.code != 0 || strings.Contains(args[1], "list") && !strings.Contains(r.out, "]0;t") {
			t.Errorf("%q: exit %d: %q %q", args, r.code, r.out, r.errs)
		}
	}
}

// everyName returns the names of all subcommands. Naming them all makes all
// their flags.
func everyName(t *testing.T) (names []string) {
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
	if err := json.Unmarshal(escaped(doc), &back); err != nil || back != hostileText {
		t.Errorf("%q %v", back, err)
	}
}
