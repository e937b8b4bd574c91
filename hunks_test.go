package resilientwrite_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// gitIn runs git in a directory.
func gitIn(t *testing.T, dir string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("NOT RUN: git is not installed")
	}
	cmd := exec.Command("git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "core.autocrlf=false"}, args...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v %s", args, err, out)
	}
	return string(out)
}

// editAs replaces a string in a session.
func editAs(t *testing.T, s *rw.Store, session, path, old, now string) {
	t.Helper()
	must(s.Edit(background, rw.EditRequest{Call: rw.Call{Session: session}, Path: path, Edits: []rw.EditOp{{Old: old, New: now}}}))(t)
}

// lettered is a file of lines that are far enough from each other.
var lettered = "a\n1\n2\nb\n3\n4\nc\n5\n6\nd\n7\n8\ne\n9\n"

// TestStageTakesExactlyOneSession: two sessions and the user change one file,
// the user has staged something, another session made files and deleted some.
func TestStageTakesExactlyOneSession(t *testing.T) {
	for _, below := range []string{"", "sub/dir"} {
		top := workspace(t)
		dir := filepath.Join(top, below)
		noErr(t, os.MkdirAll(dir, 0o755))
		put := func(name, text string) {
			noErr(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
		}
		gitIn(t, top, "init", "-q")
		put("f.txt", lettered)
		put("gone.txt", "gone\n")
		put("kept.txt", "kept\n")
		put("run.sh", "echo\n")
		gitIn(t, top, "add", "-A")
		gitIn(t, top, "commit", "-qm", "first")
		// The user stages one hunk and leaves another one unstaged.
		put("f.txt", strings.Replace(lettered, "a\n", "A by user\n", 1))
		gitIn(t, top, "add", "-A")
		put("f.txt", strings.NewReplacer("a\n", "A by user\n", "e\n", "E later\n").Replace(lettered))
		s := open(t, dir, nil)
		must(s.Scan(background, rw.ScanRequest{}))(t)
		editAs(t, s, "one", "f.txt", "b\n", "B one\n")
		editAs(t, s, "two", "f.txt", "c\n", "C two\n")
		editAs(t, s, "one", "f.txt", "d\n", "D one\n")
		editAs(t, s, "one", "f.txt", "B one\n", "B one, again\n")
		for _, name := range []string{"new one.txt", "new\ttwo.txt"} {
			session := strings.TrimSuffix(name[4:], ".txt")
			must(s.SafeWrite(background, rw.SafeWriteRequest{Call: rw.Call{Session: session}, Path: name, Content: []byte("new\n")}))(t)
		}
		must(s.Delete(background, rw.DeleteRequest{Call: rw.Call{Session: "one"}, Path: "gone.txt"}))(t)
		// A shell command of the session, seen by a scan.
		put("kept.txt", "kept\nby a command\n")
		noErr(t, os.Chmod(filepath.Join(dir, "run.sh"), 0o755))
		must(s.Scan(background, rw.ScanRequest{Session: "one", Calls: []string{"call"}}))(t)
		// The user continues.
		put("f.txt", "user\n"+read(t, dir, "f.txt"))
		must(s.Scan(background, rw.ScanRequest{}))(t)
		tree, refs := snapshotOf(t, dir), gitIn(t, top, "for-each-ref")
		got := must(s.StageChanges(background, rw.ChangesRequest{Session: "one"}))(t)
		if want := []string{"f.txt", "gone.txt", "kept.txt", "new one.txt", "run.sh"}; !slices.Equal(got.Staged, want) || len(got.Skipped) > 0 {
			t.Errorf("%+v", got)
		}
		index := strings.NewReplacer("a\n", "A by user\n", "b\n", "B one, again\n", "d\n", "D one\n").Replace(lettered)
		if have := gitIn(t, dir, "show", ":./f.txt"); have != index {
			t.Errorf("the index has %q", have)
		}
		if have := gitIn(t, dir, "show", ":./kept.txt"); have != "kept\nby a command\n" {
			t.Errorf("the index has %q", have)
		}
		status := gitIn(t, dir, "status", "--porcelain", "-z", "--untracked-files=all")
		for _, want := range []string{"MM " + join(below, "f.txt"), "D  " + join(below, "gone.txt"), "M  " + join(below, "kept.txt"), "A  " + join(below, "new one.txt"), "M  " + join(below, "run.sh"), "?? " + join(below, "new\ttwo.txt")} {
			if !slices.Contains(strings.Split(status, "\x00"), want) {
				t.Errorf("no %q in %q", want, status)
			}
		}
		if now := snapshotOf(t, dir); now != tree || gitIn(t, top, "for-each-ref") != refs {
			t.Errorf("more than the index changed")
		}
		again, err := s.StageChanges(background, rw.ChangesRequest{Session: "one"})
		if err != nil || len(again.Staged) > 0 || len(again.Already) != 5 {
			t.Errorf("%+v %v", again, err)
		}
		// The patch is the same change for git.
		ch := must(s.Changes(background, rw.ChangesRequest{Session: "one", Hunks: true}))(t)
		patch := ""
		for _, f := range ch.Files {
			patch += f.Patch
		}
		if strings.Contains(patch, "+C two") || strings.Contains(patch, "+E later") || strings.Contains(patch, "+user") {
			t.Errorf("%s", patch)
		}
		file := filepath.Join(t.TempDir(), "patch")
		noErr(t, os.WriteFile(file, []byte(patch), 0o600))
		gitIn(t, dir, "apply", "--reverse", "--check", file)
	}
}

func join(below, name string) string { return strings.TrimPrefix(below+"/"+name, "/") }

func read(t *testing.T, dir, name string) string {
	t.Helper()
	data := must(os.ReadFile(filepath.Join(dir, name)))(t)
	return string(data)
}

// snapshotOf is the files of a work tree with their modes and times.
func snapshotOf(t *testing.T, dir string) string {
	t.Helper()
	list := must(os.ReadDir(dir))(t)
	var b strings.Builder
	for _, e := range list {
		if st, err := e.Info(); err == nil && e.Type().IsRegular() {
			b.WriteString(st.Name() + st.Mode().String() + st.ModTime().String() + read(t, dir, st.Name()))
		}
	}
	return b.String()
}

// TestStageLeavesWhatItCannotTell: it reports the skipped files and the reasons; the
// index of these files stays unchanged, also while another program has locked it.
func TestStageLeavesWhatItCannotTell(t *testing.T) {
	dir := workspace(t)
	gitIn(t, dir, "init", "-q")
	marker := filepath.Join(t.TempDir(), "ran")
	files := map[string]string{
		"overlap.txt": lettered, "index.txt": lettered, "filtered.dat": "x\n", "binary": "x\x00\n", ".gitignore": "ignored.txt\n",
		".gitattributes": "*.dat filter=evil\n",
	}
	for name, text := range files {
		noErr(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	gitIn(t, dir, "add", "-A")
	gitIn(t, dir, "commit", "-qm", "first")
	for _, key := range []string{"filter.evil.clean", "core.fsmonitor"} {
		gitIn(t, dir, "config", key, "touch "+marker)
	}
	s := open(t, dir, nil)
	for _, name := range []string{"overlap.txt", "index.txt"} {
		editAs(t, s, "one", name, "b\n", "B\n")
	}
	editAs(t, s, "two", "overlap.txt", "B\n", "Bee\n")
	noErr(t, os.WriteFile(filepath.Join(dir, "index.txt"), []byte(strings.Replace(lettered, "b\n", "other\n", 1)), 0o644))
	gitIn(t, dir, "-c", "core.fsmonitor=false", "add", "index.txt")
	for name, text := range map[string]string{"filtered.dat": "y\n", "binary": "y\x00\n", "ignored.txt": "new\n"} {
		must(s.SafeWrite(background, rw.SafeWriteRequest{Call: rw.Call{Session: "one"}, Path: name, Content: []byte(text), Mode: rw.ModeOverwrite}))(t)
	}
	os.Remove(marker)
	index := read(t, dir, ".git/index")
	got := must(s.StageChanges(background, rw.ChangesRequest{Session: "one"}))(t)
	want := map[string]string{"overlap.txt": rw.HunksOverlap, "index.txt": rw.HunksOverlap, "filtered.dat": rw.HunksFiltered, "binary": rw.HunksBinary, "ignored.txt": rw.HunksIgnored}
	for _, f := range got.Skipped {
		if want[f.Path] != f.Reason {
			t.Errorf("%+v", f)
		}
		delete(want, f.Path)
	}
	if len(want) > 0 || len(got.Staged) > 0 || read(t, dir, ".git/index") != index {
		t.Errorf("%v %+v", want, got)
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("git ran a program")
	}
	editAs(t, s, "three", "index.txt", "other\n", "mine\n")
	noErr(t, os.WriteFile(filepath.Join(dir, ".git/index.lock"), nil, 0o600))
	if _, err := s.StageChanges(background, rw.ChangesRequest{Session: "three"}); err == nil || read(t, dir, ".git/index") != index || read(t, dir, ".git/index.lock") != "" {
		t.Errorf("%v", err)
	}
}
