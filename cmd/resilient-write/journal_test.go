package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/overview"
	"github.com/resilientwrite/resilientwrite/internal/surface"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestExportIsWholeOrNotAtAll: an interrupted export leaves the older file
// unchanged, and no other file next to it; a place where it would do harm is
// refused.
func TestExportIsWholeOrNotAtAll(t *testing.T) {
	s := newShell(t)
	s.with("one\n").ok("write", "a.txt")
	dir := t.TempDir()
	out := filepath.Join(dir, "old")
	noErr(t, os.WriteFile(out, []byte("older"), 0o644))
	a := &app{env: func(string) string { return "" }, in: strings.NewReader(""), out: &output{w: io.Discard}, errs: io.Discard, command: "journal export"}
	a.set.root = s.dir
	ctx, stop := context.WithCancel(t.Context())
	stop()
	expect(t, a.runExport(ctx, out) != nil, "an export that was interrupted says nothing")
	testbed.Holds(t, out, "older")
	err := replace(out, 0o600, func(w io.Writer) error { w.Write([]byte("half")); return errors.New("no more") })
	expect(t, err != nil, "a half file took its place")
	names, _ := os.ReadDir(dir)
	expect(t, len(names) == 1, "left %v", names)
	a.out = &output{w: broken{}}
	isErr(t, a.runExport(t.Context(), "-"), rw.ErrIO)
	for _, place := range []string{filepath.Join(s.dir, ".resilient_write", "journal", "x"), dir, os.DevNull, filepath.Join(dir, "none", "x"), ""} {
		r := s.run("journal", "export", "--out", place)
		expect(t, r.code == rw.CodeUsage && !strings.Contains(r.out+r.errs, dir) && !strings.Contains(r.out+r.errs, s.dir), "%s: code %d: %s", place, r.code, r.errs)
	}
	elsewhere := s
	elsewhere.extra = []string{"--state-dir", "state"}
	elsewhere.with("x\n").ok("write", "b.txt")
	if r := elsewhere.run("journal", "export", "--out", filepath.Join(s.dir, "state", "journal", "x")); r.code != rw.CodeUsage {
		t.Errorf("a state directory of another name: code %d: %s", r.code, r.errs)
	}
	r := s.ok("journal", "export", "--out", out)
	info, err := os.Stat(out)
	expect(t, err == nil && (runtime.GOOS == "windows" || info.Mode().Perm() == 0o600) && r.doc["bytes"] == float64(info.Size()), "%v %v: %s", info, err, r.out)
	asPerson(t)
	r = s.run("journal", "export")
	expect(t, r.code == rw.CodeUsage && strings.Contains(r.errs, "--out"), "an export for a terminal: %d %s", r.code, r.errs)
	r = s.ok("journal", "export", "--out", out, "--color", "never")
	expect(t, strings.Contains(r.out, "exported 1 row, "), "%q", r.out)
}

// TestRowsInTheArchive: the output names the rows that a cursor no longer
// reaches.
func TestRowsInTheArchive(t *testing.T) {
	var b bytes.Buffer
	showRows(&printer{w: &b}, reply{fields: map[string]any{"gap": true, "reason": "archived", "archived": map[string]any{"from": 3.0, "to": 8.0}}})
	expect(t, strings.HasPrefix(b.String(), "rows 3 to 8 are in the archive"), "%q", b.String())
}

// TestFollowOnlyReads: follow creates no store, waits for one, shows its rows,
// and prevents no process from applying the limits of history.
func TestFollowOnlyReads(t *testing.T) {
	s := newShell(t)
	ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
	defer stop()
	out, in := io.Pipe()
	a := &app{env: func(string) string { return "" }, in: strings.NewReader(""), out: &output{w: in}, errs: io.Discard}
	a.set.root = s.dir
	ended := make(chan error, 1)
	go func() {
		err := a.everyLook(ctx, (&follower{a: a, p: &printer{w: in}, known: true}).rows)
		in.CloseWithError(io.EOF)
		ended <- err
	}()
	dec := json.NewDecoder(out)
	time.Sleep(overview.Every / 2)
	names, _ := os.ReadDir(s.dir)
	expect(t, len(names) == 0, "following made %v", names)
	for _, name := range []string{"a.txt", "b.txt"} {
		s.with("x\n").ok("write", name)
		var row struct{ Path string }
		err := dec.Decode(&row)
		require(t, err == nil && row.Path == name, "%v %+v", err, row)
	}
	r := s.ok("compact", "--keep-rows", "0")
	expect(t, !strings.Contains(r.out, call.WarnOtherWriterLive), "%s", r.out)
	stop()
	noErr(t, <-ended)
	s.clean()
	asPerson(t)
	var b bytes.Buffer
	f := &follower{a: &app{out: &output{w: &b}}, p: &printer{w: &b}}
	f.a.set.root = s.dir
	for _, e := range []rw.JournalEntry{{JournalID: "wj_1.0", Op: "create", Bytes: 3, Caller: "x", Path: "a\x1b.txt"}, {JournalID: "wj_2.0", Op: "abort", Kind: "abort", Path: "b", Reason: "disk_full"}} {
		noErr(t, f.print(e))
	}
	lines := strings.Split(b.String(), "\n")
	expect(t, len(lines) == 4 && strings.HasPrefix(lines[0], "ROW ") && strings.HasSuffix(lines[1], "a?.txt") && strings.HasSuffix(lines[2], "b (abort: disk_full)"), "%q", b.String())
}

// TestServeHelpListsTheEnvironment checks that the help lists all environment
// variables, as describe does.
func TestServeHelpListsTheEnvironment(t *testing.T) {
	r := newShell(t).ok("serve", "-h")
	for _, v := range surface.Environment() {
		expect(t, strings.Contains(r.errs, v.Name+"\n") && strings.Contains(r.errs, v.Meaning), "no %s in %s", v.Name, r.errs)
	}
}
