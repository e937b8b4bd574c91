package resilientwrite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
)

// TestTheEndOfTheJournalIsNotForgotten: if rows were cut off, or the newest one was
// changed, while no process had the store open, Check reports it permanently, whatever
// is written afterwards, and no number of a lost row is assigned again.
func TestTheEndOfTheJournalIsNotForgotten(t *testing.T) {
	for name, row := range map[string]struct {
		change func([]string) []string
		code   string
		next   uint64
	}{
		"cut off": {func(l []string) []string { return l[:3] }, "tail_missing", 8},
		"all cut": {func(l []string) []string { return nil }, "tail_missing", 8},
		"changed": {func(l []string) []string {
			l[5] = strings.Replace(l[5], "tester", "forger", 1)
			return l
		}, "head_changed", 8},
	} {
		t.Run(name, func(t *testing.T) {
			dir := workspace(t)
			s, _ := rw.Open(background, dir, &rw.Options{Caller: "tester"})
			for i := range 6 {
				write(t, s, "a.txt", fmt.Sprint("version ", i), rw.ModeOverwrite)
			}
			s.Close(background)
			path := statePath(dir, "journal", firstSegment)
			data, _ := os.ReadFile(path)
			list := row.change(strings.Split(strings.Trim(string(data), "\n\x00"), "\n\n"))
			os.WriteFile(path, []byte("\n"+strings.Join(list, "\n\n")+"\n"), 0o600)
			os.RemoveAll(statePath(dir, "index"))
			for round := range 3 {
				s := must(rw.Open(background, dir, &rw.Options{Caller: "tester"}))(t)
				r := write(t, s, "b.txt", fmt.Sprint("on ", round), rw.ModeOverwrite)
				want := row.next + uint64(round)
				expect(t, r.Receipt.JournalSeq == want, "round %d: row %d, want %d", round, r.Receipt.JournalSeq, want)
				got := must(s.Check(background, admin.CheckRequest{}))(t)
				named := 0
				for _, p := range got.Problems {
					if p.Code == row.code {
						named++
					} else if p.Code != "chain_broken" && p.Code != "history_link_broken" {
						t.Errorf("round %d: %+v", round, p)
					}
				}
				equal(t, named, 1, "round ", round, ": found ", got.Problems, ", want ", row.code, " once")
				if round == 1 { // the process dies: meta.json stays unchanged
					continue
				}
				s.Close(background)
			}
		})
	}
}

// deepProblems returns the problems that a deep check finds in the workspace.
func deepProblems(t *testing.T, s *rw.Store) string {
	t.Helper()
	r := must(s.Check(background, admin.CheckRequest{Deep: true}))(t)
	text := ""
	for _, p := range r.Problems {
		detail := p.Detail
		if p.Code != "file_unreadable" {
			detail = ""
		}
		text += fmt.Sprintf("%s %s %s;", p.Code, p.Path, detail)
	}
	expect(t, r.Clean == (text == ""), "clean %v, found %q", r.Clean, text)
	return text
}

// TestCheckTakesNoDirectoryForAFile: if the store itself replaces a file with a
// directory, or a directory with a file, that is not a problem.
func TestCheckTakesNoDirectoryForAFile(t *testing.T) {
	s, dir := quick(t, nil)
	write(t, s, "fd", "file", rw.ModeCreate)
	deleted(t, s, "fd")
	write(t, s, "fd/inner", "below", rw.ModeCreate)
	write(t, s, "d/x", "x", rw.ModeCreate)
	write(t, s, "d/s/y", "y", rw.ModeCreate)
	renamed(t, s, "d", "e")
	os.RemoveAll(filepath.Join(dir, "d"))
	write(t, s, "d", "file", rw.ModeCreate)
	equal(t, deepProblems(t, s), "", "found")
	// To and fro.
	deleted(t, s, "fd/inner")
	noErr(t, os.RemoveAll(filepath.Join(dir, "fd")))
	write(t, s, "fd", "file again", rw.ModeCreate)
	equal(t, deepProblems(t, s), "", "back again")
}

// TestCheckStillNamesForeignChanges, where the kind of a thing changed.
func TestCheckStillNamesForeignChanges(t *testing.T) {
	s, dir := quick(t, nil)
	for _, p := range []string{"file", "gone", "d/x"} {
		write(t, s, p, p, rw.ModeCreate)
	}
	deleted(t, s, "gone")
	human(t, dir, "gone", "a stranger's")
	noErr(t, os.Remove(filepath.Join(dir, "file")))
	noErr(t, os.Mkdir(filepath.Join(dir, "file"), 0o755))
	noErr(t, os.RemoveAll(filepath.Join(dir, "d")))
	human(t, dir, "d", "a stranger's")
	want := "file_unreadable d/x not_a_directory;file_unreadable file is_a_directory;file_differs gone ;"
	equal(t, deepProblems(t, s), want, "found")
}

// TestDeepCheckBesideWriters: files that another process changes while they are compared
// with the journal are no problem, and one that was changed outside is.
func TestDeepCheckBesideWriters(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	writer, s := open(t, dir, &rw.Options{Sync: rw.SyncOff}), open(t, dir, &rw.Options{Sync: rw.SyncOff})
	for i := range 50 {
		write(t, writer, fmt.Sprint("f", i), "content", rw.ModeCreate)
	}
	noErr(t, os.WriteFile(filepath.Join(dir, "f7"), []byte("by a person"), 0o644))
	stop, done := make(chan struct{}), make(chan struct{})
	defer func() { close(stop); <-done }()
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			write(t, writer, fmt.Sprint("f", 10+i%20), fmt.Sprint("content ", i), rw.ModeOverwrite)
			must(writer.ScratchPut(background, rw.ScratchPutRequest{Content: fmt.Append(nil, i)}))(t)
			must(writer.Checkpoint(background, rw.CheckpointRequest{Name: "one", Data: fmt.Append(nil, i)}))(t)
		}
	}()
	for range 5 {
		r := must(s.Check(background, admin.CheckRequest{Deep: true}))(t)
		if len(r.Problems) != 1 || r.Problems[0].Code != "file_differs" || r.Problems[0].Path != "f7" {
			t.Errorf("%+v", r.Problems)
		}
	}
}
