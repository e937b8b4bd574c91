package resilientwrite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// deepProblems returns the problems that a deep check finds in the workspace.
func deepProblems(t *testing.T, s *rw.Store) string {
	t.Helper()
	r := must(s.Check(background, rw.CheckRequest{Deep: true}))(t)
	text := ""
	for _, p := range r.Problems {
		detail := p.Detail
		if p.Code != "file_unreadable" {
			detail = ""
		}
		text += fmt.Sprintf("%s %s %s;", p.Code, p.Path, detail)
	}
	if r.Clean != (text == "") {
		t.Errorf("clean %v, found %q", r.Clean, text)
	}
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
	if got := deepProblems(t, s); got != "" {
		t.Errorf("found %s", got)
	}
	// To and fro.
	deleted(t, s, "fd/inner")
	noErr(t, os.RemoveAll(filepath.Join(dir, "fd")))
	write(t, s, "fd", "file again", rw.ModeCreate)
	if got := deepProblems(t, s); got != "" {
		t.Errorf("back again: %s", got)
	}
}

// TestCheckStillNamesWhatStrangersDid, where the kind of a thing changed.
func TestCheckStillNamesWhatStrangersDid(t *testing.T) {
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
	if got := deepProblems(t, s); got != want {
		t.Errorf("found %s\nwant  %s", got, want)
	}
}
