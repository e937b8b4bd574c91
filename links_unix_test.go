//go:build unix

package resilientwrite_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/analytics"
	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/blob"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// entries returns the entries of a workspace, byte for byte, by path: kind, mode, and
// the content of a file or the target of a link.
func entries(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for e := range testbed.Entries(t, dir, ".git", rw.StateDirName) {
		if out[e.Path] = "link " + e.Text; e.Info.Mode().Type() != os.ModeSymlink {
			out[e.Path] = fmt.Sprintf("%v %s", e.Info.Mode(), e.Text)
		}
	}
	return out
}

func shell(t *testing.T, dir, script string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = dir
	text, err := cmd.CombinedOutput()
	require(t, err == nil, "%s: %v %s", script, err, text)
}

// shellCalls are operations of a shell on a tree other than writing files.
var shellCalls = []struct{ name, before, run string }{
	{"install", `echo '{}' > package.json`, `
		for p in left right; do
			mkdir -p node_modules/$p/bin node_modules/.bin
			echo "#!/bin/sh" > node_modules/$p/bin/run && chmod 755 node_modules/$p/bin/run
			ln -s ../$p/bin/run node_modules/.bin/$p
		done
		ln -s ../packages/own node_modules/own && ln -s /usr/bin/env node_modules/.bin/env
		echo '{"lock":1}' > package-lock.json`},
	{"make links", `echo a > a`, `ln -s a rel; ln -s "$PWD/a" abs; ln -s none dangling; ln -s ../../.. out; ln -s . dir; ln a hard`},
	{"bend", `echo a > a; echo b > b; ln -s a cur; ln -s a kept; mkdir r1 r2; echo 1 > r1/f; echo 2 > r2/f; ln -s r1 release`, `ln -sfn b cur; ln -sfn r2 release`},
	{"remove links", `echo a > a; ln -s a one; ln -s none two; mkdir d; ln -s ../a d/three`, `rm one two d/three`},
	{"move a link", `echo a > a; ln -s a one; mkdir d`, `mv one two; mv two d/three`},
	{"a link for a file", `echo a > a; printf a > was; chmod 640 was; ln -s a keep`, `rm was; ln -s a was`},
	{"a file for a link", `echo a > a; ln -s a was`, `rm was; printf a > was; chmod 755 was`},
	{"make directories", `mkdir d`, `mkdir -p x/y/z d/e; echo f > x/y/f; chmod 750 d; mkdir -m 700 own`},
	{"only directories", `mkdir -p d/e; chmod 711 d/e`, `mkdir -p x/y; rmdir d/e; chmod 700 d`},
	{"remove directories", `mkdir -p d/e/f empty; chmod 700 d/e; echo 1 > d/e/1; mkdir -m 2755 d/sub`, `rm -r d; rmdir empty`},
	{"a directory for a file", `echo a > a; chmod 640 a`, `rm a; mkdir -m 700 a; echo x > a/x; mkdir -p a/y/z; echo 1 > a/y/1`},
	{"a file for a directory", `mkdir -m 750 d; echo x > d/x; mkdir -p d/e/f d/none; ln -s ../x d/e/l; chmod 711 d/none`, `rm -r d; echo d > d; chmod 600 d`},
	{"a link for a directory", `mkdir d y; echo x > d/x; echo y > y/x`, `rm -r d; ln -s y d`},
	{"a directory for a link", `mkdir y; echo x > y/x; ln -s y d`, `rm d; mkdir d; echo x > d/x; echo z > d/z`},
	{"an empty directory for a file", `printf a > a; mkdir b`, `rm a; mkdir a; rmdir b; printf b > b`},
	{"moved in and out", `echo a > lib; mkdir d; echo d > d/index; echo 2 > d/two`, `mv lib t; mkdir lib; mv t lib/index; mv d/index t; rm -r d; mv t d`},
	{"several, deep", `mkdir -p p/q; echo 1 > p/q/a; mkdir p/q/b; echo 2 > p/q/b/c; echo 3 > p/r`, `rm p/q/a; mkdir p/q/a; echo 1 > p/q/a/c; rm -r p/q/b; echo 2 > p/q/b; rm p/r; mkdir -p p/r/s; echo 3 > p/r/s/t`},
	{"sed", `echo alpha > a; mkdir d; echo alpha > d/b`, `sed -i s/alpha/ALPHA/ a d/b`},
	{"heredoc", `echo a > a`, "cat > new <<X\nhello\nX\ncat >> a <<X\nmore\nX"},
	{"cp", `echo a > a; mkdir d; echo b > d/b`, `cp a copy; cp d/b a`},
	{"untracked and ignored", `git init -q; printf '*.log\n.env\n' > .gitignore; echo 1 > loose; echo k=1 > .env; echo x > a.log`, `rm loose; echo k=2 > .env; echo y >> a.log`},
	{"odd names", `:`, `printf x > "$(printf 'line\nbreak')"; printf y > ' space '; printf z > 'quote"'; printf u > ü`},
	{"empty files", `: > void; echo a > a`, `rm void; : > other; : > a`},
	{"binary", `head -c 300000 /dev/zero > big`, `printf '\000\377' >> big`},
	{"a formatter", `i=0; while [ $i -lt 1000 ]; do echo 'func  x()' > f$i.go; i=$((i+1)); done`, `sed -i 's/func  x/func x/' *.go`},
	{"the same time stamps", `echo alpha > a`, `touch -r a ref; sed -i s/alpha/ALPHA/ a; touch -r ref a; rm ref`},
	{"rename over", `echo a > a`, `echo other > tmp; mv tmp a`},
	{"modes", `echo a > a; echo b > b; chmod +x b`, `chmod 600 a; chmod -x b`},
	{"remove a tree", `mkdir -p d/e/f; echo 1 > d/1; echo 2 > d/e/2; ln -s ../1 d/e/l; echo 3 > d/e/f/3; chmod 600 d/e/f/3`, `rm -r d`},
}

// TestShellCallsAreUndone: the changes of a shell in a call are listed under the call,
// and undone byte for byte, with links and modes, and so is the undo.
func TestShellCallsAreUndone(t *testing.T) {
	for _, c := range shellCalls {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, dir := opened(t, nil)
			shell(t, dir, c.before)
			undoneAndRedone(t, s, dir, func() { shell(t, dir, c.run) })
		})
	}
}

// undoneAndRedone has run made in a tool call, and takes it back twice.
func undoneAndRedone(t *testing.T, s *rw.Store, dir string, run func()) {
	t.Helper()
	call := around.ToolCall{ID: "c1", Host: "loop", Event: "before", Command: "sh"}
	must(s.BeginCall(background, call))(t)
	before := entries(t, dir)
	run()
	after := entries(t, dir)
	call.Event = "after"
	ended := must(s.EndCall(background, call))(t)
	require(t, len(ended.Skipped)+len(ended.Busy)+len(ended.NotKept) <= 0, "%+v", ended)
	again, err := s.Scan(background, around.ScanRequest{})
	require(t, err == nil && again.Group == "", "a second scan found %+v %v", again, err)
	undone := must(s.Undo(background, rw.UndoRequest{Group: "c1"}))(t)
	equal(t, cmp.Diff(before, entries(t, dir)), "", "undone")
	again, err = s.Scan(background, around.ScanRequest{})
	expect(t, err == nil && again.Group == "", "a scan after the undo found %+v %v", again, err)
	redone(t, s, dir, undone, after)
}

// redone undoes an undo, and checks the store.
func redone(t *testing.T, s *rw.Store, dir string, undone rw.UndoResult, after map[string]string) {
	t.Helper()
	must(s.Undo(background, rw.UndoRequest{Row: undone.Seq}))(t)
	equal(t, cmp.Diff(after, entries(t, dir)), "", "redone")
	check(t, s, true)
}

// TestCheckoutIsUndone: a branch with other links, files and directories.
func TestCheckoutIsUndone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	gitIn(t, dir, "init", "-q")
	shell(t, dir, `echo a > a; ln -s a cur; mkdir d; ln -s ../a d/l; echo f > was_file; ln -s a was_link; echo old > d/old; echo lib > lib; mkdir -p pkg/in; echo 1 > pkg/in/one; echo 2 > pkg/two`)
	gitIn(t, dir, "add", "-A")
	gitIn(t, dir, "commit", "-qm", "one")
	gitIn(t, dir, "checkout", "-qb", "other")
	shell(t, dir, `ln -sfn d cur; rm d/l d/old; rmdir d 2>/dev/null || true; mkdir -p e/f; ln -s ../../a e/f/new; rm was_file; ln -s a was_file; rm was_link; echo l > was_link
		rm lib; mkdir -p lib/sub; echo lib > lib/sub/x; rm -r pkg; echo pkg > pkg`)
	gitIn(t, dir, "add", "-A")
	gitIn(t, dir, "commit", "-qm", "two")
	gitIn(t, dir, "checkout", "-q", "-")
	s := open(t, dir, nil)
	undoneAndRedone(t, s, dir, func() { gitIn(t, dir, "checkout", "-q", "other") })
}

// TestLinksHaveVersions: history lists the targets of a link, also of one that
// leads nowhere or out of the workspace, restore makes it again or puts a file in
// its place, and a snapshot brings links back. Nothing is written through them.
func TestLinksHaveVersions(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(t.TempDir(), "outside")
	noErr(t, os.WriteFile(outside, []byte("outside"), 0o644))
	s := open(t, dir, nil)
	shell(t, dir, `echo a > a; echo file > cur`)
	snap := must(s.Snapshot(background, around.SnapshotRequest{}))(t)
	var seqs []uint64
	for _, script := range []string{"rm cur; ln -s a cur", "ln -sfn none cur", "ln -sfn " + outside + " cur", "rm cur"} {
		shell(t, dir, script)
		found := must(s.Scan(background, around.ScanRequest{}))(t)
		require(t, len(found.Files) == 1 && found.Files[0].Link == (script != "rm cur"), "%s: %+v", script, found)
		seqs = append(seqs, found.Seq)
	}
	h := must(s.History(background, rw.HistoryRequest{Path: "cur"}))(t)
	require(t, len(h.Versions) == 4 && h.Versions[1].Link && !h.Versions[0].Link && h.Versions[3].Link, "%+v", h)
	for i, want := range []string{"link a", "link none", "link " + outside} {
		must(s.Restore(background, rw.RestoreRequest{Path: "cur", Version: seqs[i]}))(t)
		equal(t, entries(t, dir)["cur"], want, "restored")
		h := must(s.History(background, rw.HistoryRequest{Path: "cur"}))(t)
		expect(t, h.Path == "cur" && h.Versions[0].Link && h.Versions[0].Available, "%+v", h.Versions[0])
	}
	diff := must(s.SnapshotDiff(background, around.SnapshotDiffRequest{From: snap.ID}))(t)
	expect(t, len(diff.Files) == 1 && diff.Files[0].Change == "changed" && diff.Files[0].Link, "%+v", diff)
	back := rw.SnapshotRestoreRequest{ID: snap.ID}
	fails(s.SnapshotRestore(background, back))(t, rw.ErrChangedOutside, "over changes of a person")
	back.Force = true
	must(s.SnapshotRestore(background, back))(t)
	got := entries(t, dir)["cur"]
	expect(t, strings.HasSuffix(got, " file\n"), "the snapshot has %q", got)
	testbed.Holds(t, outside, "outside", "outside")
}

// TestLaterEditIsNeverLost: the undo of a group is refused, and changes nothing,
// where a person has since changed, removed or made one of its files or links, whether
// a scan was between or not, where a link is on the way to a file, and where a protected
// file would be reached through one.
func TestLaterEditIsNeverLost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, before, run, since string
		want                     error
	}{
		{"bent since", `echo a > a; ln -s a l`, `ln -sfn b l; echo b > a`, `ln -sfn c l`, rw.ErrChangedOutside},
		{"a file since", `echo a > a; ln -s a l`, `rm l; echo b > a`, `printf a > l`, rw.ErrChangedOutside},
		{"changed since", `echo a > a`, `echo b > a`, `echo mine >> a`, rw.ErrChangedOutside},
		{"removed since", `echo a > a`, `echo b > a`, `rm a`, rw.ErrChangedOutside},
		{"made since", `echo a > a`, `rm a`, `echo mine > a`, rw.ErrChangedOutside},
		{"a directory since", `echo a > a`, `echo b > a`, `rm a; mkdir a`, rw.ErrIsADirectory},
		{"a link since", `echo a > a; echo k > k`, `echo b > a`, `rm a; ln -s k a`, rw.ErrChangedOutside},
		{"a link made since", `echo a > a; echo k > k`, `rm a`, `ln -s k a`, rw.ErrChangedOutside},
		{"on the way", `mkdir d e; echo a > d/a`, `echo b > d/a`, `mv d f; ln -s f d`, rw.ErrChangedOutside},
		{"protected", `mkdir evil; ln -s evil .vscode; echo a > a`, `rm .vscode; echo b > a`, `:`, rw.ErrProtectedDefault},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, dir := opened(t, &rw.Options{ProtectDefaults: rw.ProtectAsk})
			shell(t, dir, c.before)
			must(s.Scan(background, around.ScanRequest{}))(t)
			shell(t, dir, c.run)
			found := must(s.Scan(background, around.ScanRequest{}))(t)
			shell(t, dir, c.since)
			before := entries(t, dir)
			fails(s.Undo(background, rw.UndoRequest{Group: found.Group}))(t, c.want)
			must(s.Scan(background, around.ScanRequest{}))(t)
			fails(s.Undo(background, rw.UndoRequest{Group: found.Group}))(t, c.want)
			equal(t, cmp.Diff(before, entries(t, dir)), "", "changed")
		})
	}
}

// TestDirectoriesRemovedLater: directories that an undo of an undo made are recorded
// when a shell removes them, although no scan was between.
func TestDirectoriesRemovedLater(t *testing.T) {
	s, dir := opened(t, nil)
	undoneAndRedone(t, s, dir, func() { shell(t, dir, "mkdir -p d/e f") })
	shell(t, dir, "rmdir d/e d f")
	found, err := s.Scan(background, around.ScanRequest{})
	require(t, err == nil && found.Group != "", "%+v %v", found, err)
	must(s.Undo(background, rw.UndoRequest{Group: found.Group}))(t)
	if _, there := entries(t, dir)["d/e"]; !there {
		t.Errorf("%v", entries(t, dir))
	}
}

// TestUndoRemovesItsDirectories: an undo removes the directories that the calls made,
// unless something else is in them, and its undo makes them again.
func TestUndoRemovesItsDirectories(t *testing.T) {
	for name, c := range map[string]struct {
		beside string // the operation of a shell before the undo
		left   []string
	}{
		"alone":             {"true", []string{"."}},
		"another file":      {"touch x/other", []string{".", "x", "x/other"}},
		"another directory": {"mkdir x/y/other", []string{".", "x", "x/y", "x/y/other"}},
		"another mode":      {"chmod 700 x/y", []string{"."}},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := opened(t, nil)
			must(s.SafeWrite(background, rw.SafeWriteRequest{Path: "x/y/one", Content: []byte("one")}))(t)
			must(s.SafeWrite(background, rw.SafeWriteRequest{Path: "x/y/two", Content: []byte("two")}))(t)
			must(s.Undo(background, rw.UndoRequest{}))(t)
			want := entries(t, dir) // the directories are the other call's
			_, there := want["x/y/one"]
			require(t, there, "%v", want)
			_, err := s.Undo(background, rw.UndoRequest{}) // redo, so that both are there
			noErr(t, err)
			shell(t, dir, c.beside)
			before := entries(t, dir)
			must(s.Undo(background, rw.UndoRequest{N: 4}))(t)
			got := slices.Sorted(maps.Keys(entries(t, dir)))
			expect(t, slices.Equal(got, c.left), "left: %v, want %v", got, c.left)
			must(s.Undo(background, rw.UndoRequest{}))(t)
			equal(t, cmp.Diff(before, entries(t, dir)), "", "undone and redone")
			found, err := s.Scan(background, around.ScanRequest{})
			expect(t, err == nil && (found.Group == "" || c.beside != "true"), "a scan found %+v, %v", found, err)
		})
	}
}

// TestUndoBesideAWriter: an undo that removes a directory while another session writes
// into it removes no file of that session. The write succeeds, or asks to be sent
// again, and then succeeds.
func TestUndoBesideAWriter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, other := open(t, dir, nil), open(t, dir, nil)
	write := func() error {
		return errorOf(other.SafeWrite(background, rw.SafeWriteRequest{Path: "x/y/theirs", Content: []byte("theirs"), Call: rw.Call{Caller: "b"}}))
	}
	for i := range 60 {
		must(s.SafeWrite(background, rw.SafeWriteRequest{Path: "x/y/mine", Content: []byte("one"), Call: rw.Call{Caller: "a"}}))(t)
		done := make(chan error)
		go func() { done <- write() }()
		_, err := s.Undo(background, rw.UndoRequest{Call: rw.Call{Caller: "a"}})
		noErr(t, err)
		if err = <-done; errors.Is(err, rw.ErrChangedDuringWrite) {
			err = write()
		}
		noErr(t, err, "round ", i)
		data, err := os.ReadFile(filepath.Join(dir, "x/y/theirs"))
		require(t, string(data) == "theirs", "round %d: %q %v", i, data, err)
		shell(t, dir, "rm -r x")
	}
}

// TestScansOfTwoStores: a store continues from the scan of another one, even if it has
// not yet read the rows of that scan.
func TestScansOfTwoStores(t *testing.T) {
	dir := t.TempDir()
	s, other := open(t, dir, nil), open(t, dir, nil)
	must(s.Scan(background, around.ScanRequest{}))(t)
	shell(t, dir, "mkdir -p d/e; echo 1 > f")
	must(s.Scan(background, around.ScanRequest{}))(t)
	before := entries(t, dir)
	shell(t, dir, "rm -r d; ln -s nowhere d")
	found, err := other.Scan(background, around.ScanRequest{})
	require(t, err == nil && !found.Baseline && found.Group != "", "%+v %v", found, err)
	must(other.Undo(background, rw.UndoRequest{Group: found.Group}))(t)
	equal(t, cmp.Diff(before, entries(t, dir)), "")
}

// TestScanFromAnOlderIndex: where the index is older than the rows, because two scans
// ran at once, a scan records nothing again.
func TestScanFromAnOlderIndex(t *testing.T) {
	for name, c := range map[string]struct{ before, change string }{
		"a link for a directory":        {"mkdir -p d/e; echo 1 > d/f", "rm -r d; ln -s nowhere d"},
		"a file for a directory":        {"mkdir -p d/e; echo 1 > d/f", "rm -r d; echo 2 > d"},
		"a directory for a file":        {"echo 1 > d", "rm d; mkdir -p d/e; echo 2 > d/f"},
		"an empty directory for a link": {"ln -s nowhere d", "rm d; mkdir d"},
		"a directory gone":              {"mkdir -p d/e; echo 1 > d/f", "rm -r d"},
		"a directory made":              {"echo 1 > f", "mkdir -p d/e; echo 2 > d/f"},
		"a mode":                        {"mkdir d; echo 1 > d/f", "chmod 700 d; chmod 600 d/f"},
		"a moved directory":             {"mkdir -p d/e; echo 1 > d/e/f", "mv d g"},
	} {
		t.Run(name, func(t *testing.T) {
			s, dir := opened(t, nil)
			must(s.Scan(background, around.ScanRequest{}))(t)
			shell(t, dir, c.before)
			must(s.Scan(background, around.ScanRequest{}))(t)
			before := entries(t, dir)
			index := filepath.Join(dir, rw.StateDirName, "observe", "index")
			older := must(os.ReadFile(index))(t)
			shell(t, dir, c.change)
			found := must(s.Scan(background, around.ScanRequest{}))(t)
			noErr(t, os.WriteFile(index, older, 0o600))
			again, err := s.Scan(background, around.ScanRequest{})
			expect(t, err == nil && again.Group == "", "again: %+v %v", again, err)
			must(s.Undo(background, rw.UndoRequest{Group: found.Group}))(t)
			equal(t, cmp.Diff(before, entries(t, dir)), "")
		})
	}
}

// TestHistoryBelowALink: the files of a directory keep their history when a symbolic
// link replaces the directory, and are not restored through the link.
func TestHistoryBelowALink(t *testing.T) {
	s, dir := opened(t, nil)
	shell(t, dir, "mkdir d other")
	must(s.SafeWrite(background, rw.SafeWriteRequest{Path: "d/f", Content: []byte("one")}))(t)
	shell(t, dir, "rm -r d; ln -s other d")
	must(s.Scan(background, around.ScanRequest{}))(t)
	list, err := s.History(background, rw.HistoryRequest{Path: "d/f"})
	require(t, err == nil && len(list.Versions) == 2, "%+v %v", list, err)
	written := list.Versions[1].Version
	if got, err := s.Read(background, rw.ReadRequest{Path: "d/f", Version: written}); err != nil || string(got.Content) != "one" {
		t.Errorf("%q %v", got.Content, err)
	}
	if _, err = s.Restore(background, rw.RestoreRequest{Path: "d/f", Version: written}); !errors.Is(err, rw.ErrChangedOutside) {
		t.Errorf("restored through the link: %v", err)
	}
	shell(t, dir, "rm d")
	if _, err = s.Restore(background, rw.RestoreRequest{Path: "d/f", Version: written}); err != nil || entries(t, dir)["d/f"] == "" {
		t.Errorf("%v %v", entries(t, dir), err)
	}
}

// TestUndoOfAMoveGivesModesBack: a private file that a move replaced is restored with
// its old mode.
func TestUndoOfAMoveGivesModesBack(t *testing.T) {
	s, dir := opened(t, nil)
	shell(t, dir, "echo new > x; echo key > .env; chmod 600 .env")
	before := entries(t, dir)
	_, err := s.Move(background, rw.MoveRequest{Path: "x", To: ".env", Overwrite: true, Force: true})
	noErr(t, err)
	after := entries(t, dir)
	for _, want := range []map[string]string{before, after, before} {
		_, err = s.Undo(background, rw.UndoRequest{})
		noErr(t, err)
		equal(t, cmp.Diff(want, entries(t, dir)), "")
	}
}

// TestEmptyVersion: the version in which a shell emptied a file can be read.
func TestEmptyVersion(t *testing.T) {
	s, dir := opened(t, nil)
	for _, script := range []string{"echo 1 > f", ": > f", "echo 2 > f"} {
		shell(t, dir, script)
		must(s.Scan(background, around.ScanRequest{}))(t)
	}
	list := must(s.History(background, rw.HistoryRequest{Path: "f"}))(t)
	for _, v := range list.Versions {
		_, err := s.Read(background, rw.ReadRequest{Path: "f", Version: v.Version})
		expect(t, err == nil && v.Available, "%+v %v", v, err)
	}
}

// TestKindsThatAreNotChanged: a directory that contains entries unknown to a group is
// not removed to restore the file that it replaced: the undo names them and changes
// nothing; without them the undo succeeds.
func TestKindsThatAreNotChanged(t *testing.T) {
	for _, c := range []struct{ name, since, clear, named string }{
		{"a later file", `echo mine > lib/sub/mine`, `rm lib/sub/mine`, "lib/sub/mine"},
		{"an ignored file", `echo big > lib/x.log`, `rm lib/x.log`, "lib/x.log"},
		{"an ignored directory", `mkdir lib/node_modules; echo m > lib/node_modules/m`, `rm -r lib/node_modules`, "lib/node_modules"},
		{"a later directory", `mkdir lib/empty`, `rmdir lib/empty`, "lib/empty"},
		{"a later link", `ln -s ../other lib/l`, `rm lib/l`, "lib/l"},
		{"a FIFO", `mkfifo lib/pipe`, `rm lib/pipe`, "lib/pipe"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			gitIn(t, dir, "init", "-q")
			s := open(t, dir, nil)
			shell(t, dir, `echo '*.log' > .gitignore; echo node_modules/ >> .gitignore; echo lib > lib; echo other > other`)
			must(s.Scan(background, around.ScanRequest{}))(t)
			want := entries(t, dir)
			shell(t, dir, `rm lib; mkdir -p lib/sub; echo in > lib/in; echo deep > lib/sub/deep; echo changed > other`)
			found := must(s.Scan(background, around.ScanRequest{}))(t)
			shell(t, dir, c.since)
			before := entries(t, dir)
			_, err := s.Undo(background, rw.UndoRequest{Group: found.Group})
			e := rw.AsError("undo", err)
			require(t, errors.Is(err, rw.ErrChangedOutside) && e.Path == "lib" && fmt.Sprint(e.Context["files"]) == "["+c.named+"]" && strings.Contains(e.Hint, "move them elsewhere or delete them"),
				"%v, context %v", err, e.Context)
			equal(t, cmp.Diff(before, entries(t, dir)), "", "changed")
			shell(t, dir, c.clear)
			must(s.Undo(background, rw.UndoRequest{Group: found.Group}))(t)
			equal(t, cmp.Diff(want, entries(t, dir)), "", "undone")
		})
	}
}

// TestKindsOfSnapshots: a snapshot is restored over names that are files where it has
// directories, and the reverse, and the restoration is undone.
func TestKindsOfSnapshots(t *testing.T) {
	s, dir := opened(t, nil)
	shell(t, dir, `echo a > a; mkdir -m 700 d; echo x > d/x; ln -s a l; mkdir -p e/none`)
	snap := must(s.Snapshot(background, around.SnapshotRequest{}))(t)
	want := entries(t, dir)
	shell(t, dir, `rm a; mkdir -m 711 a; echo in > a/in; rm -r d; echo d > d; rm l; mkdir l; rm -r e; ln -s a e`)
	call := around.ToolCall{ID: "c", Host: "h", Event: "after"}
	must(s.EndCall(background, call))(t)
	after := entries(t, dir)
	restored := must(s.SnapshotRestore(background, rw.SnapshotRestoreRequest{ID: snap.ID, Force: true}))(t)
	equal(t, cmp.Diff(want, entries(t, dir)), "", "restored")
	must(s.Undo(background, rw.UndoRequest{Row: restored.Seq}))(t)
	equal(t, cmp.Diff(after, entries(t, dir)), "", "undone")
	again, err := s.Scan(background, around.ScanRequest{})
	expect(t, err == nil && again.Group == "", "a scan after the undo found %+v %v", again, err)
	check(t, s, true)
}

// TestKindsOfSeveralGroups: groups of one call that changed the kind of a name back and
// forth are undone together, also where a name is free in between or at the end.
func TestKindsOfSeveralGroups(t *testing.T) {
	for _, c := range []struct {
		name string
		runs []string
	}{
		{"there and back", []string{`rm a; mkdir a; echo 1 > a/x`, `rm -r a; echo other > a`}},
		{"twice", []string{`rm a; mkdir a; echo 1 > a/x`, `rm -r a; echo other > a`, `rm a; mkdir a; echo 2 > a/x; echo 3 > a/y`}},
		{"made, then a directory", []string{`echo new > n`, `rm n; mkdir n; echo 1 > n/x`}},
		{"a directory, then gone", []string{`rm a; mkdir a; echo 1 > a/x`, `rm -r a`}},
		{"a file for a directory, then gone", []string{`rm -r d; echo d > d`, `rm d`}},
		{"a mode, then a file", []string{`chmod 711 d`, `rm -r d; echo d > d`}},
		{"a file, then changed", []string{`rm -r d; echo d > d`, `echo e >> d`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, dir := opened(t, nil)
			shell(t, dir, `echo a > a; mkdir -p d/e; echo x > d/x; echo y > d/e/y`)
			must(s.Scan(background, around.ScanRequest{}))(t)
			before := entries(t, dir)
			for _, run := range c.runs {
				shell(t, dir, run)
				must(s.Scan(background, around.ScanRequest{Calls: []string{"c"}}))(t)
			}
			after := entries(t, dir)
			undone := must(s.Undo(background, rw.UndoRequest{Group: "c"}))(t)
			equal(t, cmp.Diff(before, entries(t, dir)), "", "undone")
			redone(t, s, dir, undone, after)
		})
	}
}

// TestRestoreAfterAKind: a file that a directory had replaced is restored, when that is
// gone, with the mode that it had.
func TestRestoreAfterAKind(t *testing.T) {
	s, dir := opened(t, nil)
	shell(t, dir, `echo 1 > a`)
	must(s.Scan(background, around.ScanRequest{}))(t)
	var seqs []uint64
	for _, run := range []string{`echo 2 > a; chmod 600 a`, `rm a; mkdir a`, `rmdir a; echo 3 > a; chmod 640 a`, `rm a; mkdir -m 711 a; echo x > a/x`} {
		shell(t, dir, run)
		found := must(s.Scan(background, around.ScanRequest{}))(t)
		seqs = append(seqs, found.Seq)
	}
	expect(t, errorOf(s.Restore(background, rw.RestoreRequest{Path: "a", Version: seqs[0]})) != nil, "a directory was replaced")
	shell(t, dir, `rm -r a`)
	for _, c := range []struct {
		row  int
		want string
	}{{2, "-rw-r----- 3\n"}, {0, "-rw-r----- 2\n"}} { // the second has the mode of the file that was removed last
		must(s.Restore(background, rw.RestoreRequest{Path: "a", Version: seqs[c.row], Force: true}))(t)
		equal(t, entries(t, dir)["a"], c.want, "restored")
		shell(t, dir, `rm a`)
		must(s.Scan(background, around.ScanRequest{}))(t)
	}
}

// TestKindsAreListed: the files and the directories of a change of kind are listed
// with the group.
func TestKindsAreListed(t *testing.T) {
	s, dir := opened(t, nil)
	shell(t, dir, `echo a > a; mkdir d; echo x > d/x`)
	must(s.Scan(background, around.ScanRequest{}))(t)
	shell(t, dir, `rm a; mkdir a; echo in > a/in; rm -r d; echo d > d`)
	found := must(s.Scan(background, around.ScanRequest{Calls: []string{"c"}}))(t)
	var ops []string
	for _, f := range found.Files {
		ops = append(ops, f.Op+" "+f.Path)
	}
	for _, d := range found.Dirs {
		ops = append(ops, d.Change+" directory "+d.Path)
	}
	equal(t, strings.Join(ops, ", "), "delete a, create a/in, create d, delete d/x, created directory a, deleted directory d")
	out := must(s.Changes(background, around.ChangesRequest{}))(t)
	expect(t, len(out.Files) == 4 && out.Created == 2 && out.Deleted == 2 && len(out.Groups) == 1 && len(out.Groups[0].Dirs) == 2, "%+v", out)
}

// TestFileMadeAgain: a file that a tool removed and a person made again with the same
// bytes is recorded, so that its next removal is undone.
func TestFileMadeAgain(t *testing.T) {
	s, dir := opened(t, nil)
	shell(t, dir, "mkdir d; echo k > d/in")
	scan := func() around.ScanResult {
		t.Helper()
		return must(s.Scan(background, around.ScanRequest{}))(t)
	}
	scan()
	must(s.Delete(background, rw.DeleteRequest{Path: "d/in", Force: true}))(t)
	shell(t, dir, "mkdir -p d; echo k > d/in")
	scan()
	before := entries(t, dir)
	shell(t, dir, "rm -r d")
	found := scan()
	must(s.Undo(background, rw.UndoRequest{Group: found.Group}))(t)
	equal(t, cmp.Diff(before, entries(t, dir)), "")
}

// TestUndoOfSeveralGivesModesBack: a file that was deleted and made again has its old mode
// after an undo of both; a file whose mode was changed afterwards keeps the new mode.
func TestUndoOfSeveralGivesModesBack(t *testing.T) {
	s, dir := opened(t, nil)
	file := filepath.Join(dir, "a.txt")
	is := func(what string, mode os.FileMode) {
		t.Helper()
		st, err := os.Lstat(file)
		expect(t, err == nil && st.Mode() == mode, "%s: %v %v, want %v", what, st.Mode(), err, mode)
	}
	noErr(t, os.WriteFile(file, []byte("private"), 0o600))
	deleted(t, s, "a.txt")
	write(t, s, "a.txt", "new", rw.ModeCreate)
	is("made again", 0o644)
	undone(t, s, 2)
	is("undone", 0o600)
	undone(t, s, 1)
	is("redone", 0o644)
	write(t, s, "a.txt", "newer", rw.ModeOverwrite)
	noErr(t, os.Chmod(file, 0o640))
	undone(t, s, 1)
	is("changed by the user", 0o640)
}

// TestDirectoriesAfterCommits: the changes of a shell to a directory after commits that
// have changed it, and changed it back, are recorded and undone.
func TestDirectoriesAfterCommits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ before, change, then string }{
		"mode after mode":    {"mkdir d", "chmod 700 d", "chmod 711 d"},
		"mode back":          {"mkdir d", "chmod 700 d", "chmod 755 d"},
		"gone after mode":    {"mkdir d", "chmod 700 d", "rmdir d"},
		"made after gone":    {"mkdir -m 700 d", "rmdir d", "mkdir d"},
		"gone after made":    {"true", "mkdir -m 700 d", "rmdir d"},
		"a file where it is": {"true", "mkdir -m 700 d", "rmdir d; echo 1 > d"},
	} {
		for undos := 1; undos <= 2; undos++ {
			s, dir := opened(t, nil)
			scan := func() around.ScanResult {
				return must(s.Scan(background, around.ScanRequest{}))(t)
			}
			shell(t, dir, c.before)
			scan()
			shell(t, dir, c.change)
			group := scan().Group
			_, err := s.Undo(background, rw.UndoRequest{Group: group})
			noErr(t, err)
			if undos == 2 {
				undone(t, s, 1)
			}
			scan()
			before := entries(t, dir)
			shell(t, dir, "{ "+c.then+"; } 2>/dev/null || true")
			after := entries(t, dir)
			found := scan()
			if changed := !maps.Equal(before, after); changed != (found.Group != "") {
				t.Errorf("%s, %d: recorded as %q: %v", name, undos, found.Group, cmp.Diff(before, after))
			} else if changed {
				_, err = s.Undo(background, rw.UndoRequest{Group: found.Group})
				noErr(t, err)
				equal(t, cmp.Diff(before, entries(t, dir)), "", name, ", ", undos)
			}
		}
	}
}

// TestMoveKeepsModesOfDirectories: a private directory is as private under its new
// name, after undo and after its undo; one that is there already keeps its own mode, and one
// that keeps a directory without files stays.
func TestMoveKeepsModesOfDirectories(t *testing.T) {
	s, dir := opened(t, nil)
	for _, d := range []struct {
		path string
		mode os.FileMode
	}{
		{"old", 0o700}, {"old/in", 0o750}, {"old/in/deep", 0o770}, {"old/stays", 0o711}, {"old/stays/void", 0o755}, {"there", 0o755}, {"there/in", 0o711},
	} {
		at := filepath.Join(dir, d.path)
		noErr(t, os.MkdirAll(at, 0o755))
		if !strings.HasSuffix(d.path, "void") && !strings.HasPrefix(d.path, "there") {
			noErr(t, os.WriteFile(filepath.Join(at, "f"), []byte(d.path), 0o644))
		}
		defer os.Chmod(at, 0o755)
		noErr(t, os.Chmod(at, d.mode))
	}
	modes := func() string {
		var list []string
		for e := range testbed.Entries(t, dir, rw.StateDirName) {
			list = append(list, fmt.Sprint(e.Info.Mode(), " ", e.Path))
		}
		return strings.Join(list[1:], "\n")
	}
	undo := func() {
		t.Helper()
		must(s.Undo(t.Context(), rw.UndoRequest{}))(t)
	}
	before := modes()
	for to, want := range map[string]string{
		"new/name": "drwxr-xr-x new\ndrwx------ new/name\n-rw-r--r-- new/name/f\ndrwxr-x--- new/name/in\ndrwxrwx--- new/name/in/deep\n-rw-r--r-- new/name/in/deep/f\n-rw-r--r-- new/name/in/f\n" +
			"drwx--x--x new/name/stays\n-rw-r--r-- new/name/stays/f\ndrwx------ old\ndrwx--x--x old/stays\ndrwxr-xr-x old/stays/void\ndrwxr-xr-x there\ndrwx--x--x there/in",
		"there": "drwx------ old\ndrwx--x--x old/stays\ndrwxr-xr-x old/stays/void\ndrwxr-xr-x there\n-rw-r--r-- there/f\ndrwx--x--x there/in\ndrwxrwx--- there/in/deep\n-rw-r--r-- there/in/deep/f\n-rw-r--r-- there/in/f\n" +
			"drwx--x--x there/stays\n-rw-r--r-- there/stays/f",
	} {
		out, err := s.Move(t.Context(), rw.MoveRequest{Path: "old", To: to})
		require(t, err == nil && out.Files == 4, "%v %v", out, err)
		equal(t, modes(), want, "moved to ", to)
		undo()
		equal(t, modes(), before, "undone")
		undo()
		equal(t, modes(), want, "redone")
		undo()
		equal(t, modes(), before, "undone again")
	}
}

// TestGonePrivateDirectories: a directory that was removed with its content is as
// private as before when a file in it is restored.
func TestGonePrivateDirectories(t *testing.T) {
	for what, back := range map[string]func(t *testing.T, s *rw.Store) error{
		"restore": func(t *testing.T, s *rw.Store) error {
			return errorOf(s.Restore(t.Context(), rw.RestoreRequest{Path: "private/in/key", Version: 1}))
		},
		"undo": func(t *testing.T, s *rw.Store) error { return errorOf(s.Undo(t.Context(), rw.UndoRequest{})) },
	} {
		s, dir := opened(t, nil)
		write(t, s, "private/in/key", "value", rw.ModeCreate)
		for d, mode := range map[string]os.FileMode{"private": 0o700, "private/in": 0o710} {
			noErr(t, os.Chmod(filepath.Join(dir, d), mode))
		}
		must(s.Scan(t.Context(), around.ScanRequest{}))(t)
		deleted(t, s, "private/in/key")
		noErr(t, os.RemoveAll(filepath.Join(dir, "private")))
		must(s.Scan(t.Context(), around.ScanRequest{}))(t)
		noErr(t, back(t, s))
		for d, mode := range map[string]os.FileMode{"private": 0o700, "private/in": 0o710} {
			st, err := os.Stat(filepath.Join(dir, d))
			expect(t, err == nil && st.Mode().Perm() == mode, "%s: %s is %v, want %v (%v)", what, d, st.Mode(), mode, err)
		}
		fileIs(t, dir, "private/in/key", "value")
	}
}

// TestMoveKeepsOwnersOfDirectories: a process that may set owners does not take a
// directory from its user.
func TestMoveKeepsOwnersOfDirectories(t *testing.T) {
	testbed.SkipIf(t, os.Geteuid() != 0, "only root can give a directory to another user")
	s, dir := opened(t, nil)
	write(t, s, "old/in/f", "text", rw.ModeCreate)
	for d, id := range map[string]int{"old": 1234, "old/in": 1235} {
		noErr(t, os.Chown(filepath.Join(dir, d), id, id+1))
		noErr(t, os.Chmod(filepath.Join(dir, d), os.ModeSetgid|0o700))
	}
	must(s.Move(t.Context(), rw.MoveRequest{Path: "old", To: "new/name"}))(t)
	for d, id := range map[string]int{"new": 0, "new/name": 1234, "new/name/in": 1235} {
		st := must(os.Stat(filepath.Join(dir, d)))(t)
		owner := st.Sys().(*syscall.Stat_t)
		expect(t, (id == 0 || int(owner.Uid) == id && int(owner.Gid) == id+1 && owner.Mode&0o7777 == 0o2700) && (id != 0 || owner.Uid == 0),
			"%s: owner %d, group %d, mode %o", d, owner.Uid, owner.Gid, owner.Mode)
	}
}

// TestMoveOntoADirectorySaysHow: a file that is moved onto a directory is refused with
// the path that would move it there.
func TestMoveOntoADirectorySaysHow(t *testing.T) {
	s, _ := opened(t, nil)
	write(t, s, "a.txt", "text", rw.ModeCreate)
	write(t, s, "d/b.txt", "text", rw.ModeCreate)
	_, err := s.Move(t.Context(), rw.MoveRequest{Path: "a.txt", To: "d"})
	e := rw.AsError("move", err)
	expect(t, e != nil && e.Detail == rw.ErrIsADirectory && strings.Contains(e.Hint, "d/a.txt"), "%v", err)
	if _, err = s.Move(t.Context(), rw.MoveRequest{Path: "none", To: "d"}); !errors.Is(err, rw.ErrNotFound) {
		t.Errorf("%v", err)
	}
	must(s.Move(t.Context(), rw.MoveRequest{Path: "a.txt", To: "d/a.txt"}))(t)
}

// misplacing is a foreign entry in the place of an object of a layer.
type misplacing struct {
	name  string
	plant func(t *testing.T, at string)
}

var misplacings = []misplacing{
	{"a file", func(t *testing.T, at string) { os.WriteFile(at, []byte("x\n"), 0o600) }},
	{"a symlink", func(t *testing.T, at string) {
		noErr(t, os.Symlink(t.TempDir(), at))
	}},
	{"a dead symlink", func(t *testing.T, at string) { os.Symlink("nowhere", at) }},
	{"a FIFO", func(t *testing.T, at string) {
		noErr(t, syscall.Mkfifo(at, 0o600))
	}},
	{"a directory", func(t *testing.T, at string) { os.Mkdir(at, 0o700) }},
}

// TestCheckGoesOnPastWhatIsMisplaced: a foreign entry in the place of a part of the
// state directory, of a session, a chunk, an object, a checkpoint or the index is one
// named problem of a quick check and of a deep one, and both checks continue. Repair
// moves it to quarantine/, and afterwards the layer accepts new objects.
func TestCheckGoesOnPastWhatIsMisplaced(t *testing.T) {
	sha := hash("kept apart")
	for _, at := range []struct {
		path, code string
		directory  bool // is what belongs there
		replaced   bool // unless it is a directory
		lost       bool // the old content is lost: deep checks continue to report that
	}{
		{path: "chunks/loose", code: "unknown_file", directory: true},
		{path: "cursors", code: "unknown_file", directory: true},
		{path: "claims", code: "unknown_file", directory: true},
		{path: "claims/claims.json", code: "unknown_file", replaced: true},
		{path: "observe", code: "unknown_file", directory: true},
		{path: "observe/index", code: "unknown_file", replaced: true},
		{path: "observe/calls.json", code: "unknown_file", replaced: true},
		{path: "observe/snapshots", code: "unknown_file", directory: true},
		{path: "observe/events", code: "unknown_file", directory: true},
		{path: "tx", code: "unknown_file", directory: true},
		{path: "archive", code: "unknown_file", directory: true},
		{path: "manifests", code: "unknown_file", directory: true},
		{path: "tmp-unused", directory: true}, // foreign: not checked
		{path: "chunks/up/part-001.txt", code: "unknown_file", lost: true},
		{path: "scratch/" + sha + ".bin", code: "scratch_damaged"},
		{path: "scratch/" + hash("never put") + ".bin", code: "scratch_damaged"},
		{path: "scratch/index.jsonl", code: "scratch_index_damaged"},
		{path: "checkpoints/point.json", code: "checkpoint_damaged"},
		{path: "checkpoints/other.json", code: "checkpoint_damaged"},
	} {
		for _, plant := range testbed.Share(t, misplacings, 2, nil) {
			if at.directory == (plant.name == "a directory") && at.directory || !at.directory && plant.name == "a file" || at.replaced && plant.name != "a directory" {
				continue
			}
			t.Run(strings.ReplaceAll(at.path, "/", " ")+" is "+plant.name, func(t *testing.T) {
				t.Parallel()
				dir := ramspace(t)
				damageable(t, dir)
				os.Remove(statePath(dir, at.path))
				os.RemoveAll(statePath(dir, at.path))
				os.MkdirAll(filepath.Dir(statePath(dir, at.path)), 0o700)
				plant.plant(t, statePath(dir, at.path))
				os.WriteFile(statePath(dir, "chunks", "manifest garbage"), nil, 0o600) // after it in every order
				s := open(t, dir, &rw.Options{Caller: "tester", Sync: rw.SyncOff})
				for _, deep := range []bool{false, true} {
					got := must(s.Check(background, admin.CheckRequest{Deep: deep}))(t, "deep ", deep)
					expect(t, at.code == "" || tellsOf(got, at.code, at.path), "deep %v: %s is not named at %s: %+v", deep, at.code, at.path, got.Problems)
					expect(t, tellsOf(got, "unknown_file", "chunks/manifest garbage"), "deep %v: the check did not go on: %+v", deep, got.Problems)
				}
				r := repairIt(t, s, admin.RepairRequest{})
				expect(t, r.Clean || at.lost && len(r.Left) == 1 && r.Left[0].Code == "file_differs", "left %+v, did %+v", r.Left, r.Actions)
				if at.code != "" {
					keptFiles, _ := filepath.Glob(statePath(dir, "quarantine", "*"))
					expect(t, slices.ContainsFunc(keptFiles, func(p string) bool {
						return !isPlainFile(p) || at.directory && strings.Contains(p, filepath.Base(at.path))
					}),
						"not in quarantine: %v", keptFiles)
				}
				takesNewThings(t, s)
			})
		}
	}
}

func isPlainFile(path string) bool {
	st, err := os.Lstat(path)
	return err == nil && st.Mode().IsRegular()
}

// takesNewThings puts something new into every layer and reads it back.
func takesNewThings(t *testing.T, s *rw.Store) {
	t.Helper()
	keep(t, s, rw.ScratchPutRequest{Content: []byte("kept apart"), Label: "again"})
	gotBack(t, s, hash("kept apart"), "kept apart")
	r, err := s.ScratchRef(background, rw.ScratchRefRequest{Label: "again"})
	expect(t, err == nil && r.Entry.SHA256.String() == hash("kept apart"), "%+v %v", r, err)
	must(s.Checkpoint(background, rw.CheckpointRequest{Name: "point", Data: []byte(`2`)}))(t)
	got, err := s.CheckpointRead(background, rw.CheckpointReadRequest{Name: "point"})
	expect(t, err == nil && string(got.Data) == "2", "%s %v", got.Data, err)
	must(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "loose", Content: []byte("piece")}))(t)
	must(s.JournalSince(background, rw.JournalSinceRequest{Agent: "reader", Limit: 1}))(t)
	must(s.Claim(inSession("one"), []string{"claimed"}, time.Minute))(t)
	call := around.ToolCall{ID: "call", Host: "claude", Event: "before"}
	must(s.BeginCall(background, call))(t)
	must(s.SeenCall(background, call))(t)
	must(s.Snapshot(background, around.SnapshotRequest{}))(t)
	must(s.TxBegin(background, rw.TxBeginRequest{}))(t)
}

// TestMisplacedInObserve: the error of a call names the part of the state directory that is
// misplaced. Erase passes it over, and a file that is much too large. What is not of the store
// stays in the directories of observe/.
func TestMisplacedInObserve(t *testing.T) {
	s, dir := quick(t, nil)
	call := around.ToolCall{ID: "call", Host: "claude", Event: "before"}
	calls := map[string]func() error{
		"index":     func() error { return errorOf(s.Scan(background, around.ScanRequest{})) },
		"snapshots": func() error { return errorOf(s.Snapshot(background, around.SnapshotRequest{})) },
		"events":    func() error { return errorOf(s.SeenCall(background, call)) },
		"loose":     func() error { return nil },
	}
	erase := func() error {
		return errorOf(s.Admin().Erase(background, admin.EraseRequest{Secret: []byte("in no file of the store")}))
	}
	for name, do := range calls {
		at := statePath(dir, "observe", name)
		noErr(t, os.MkdirAll(filepath.Dir(at), 0o700))
		for _, plant := range misplacings {
			if (plant.name == "a directory") == (name == "index") {
				noErr(t, os.RemoveAll(at))
				plant.plant(t, at)
				e := rw.AsError("", do())
				expect(t, name == "loose" || e != nil && e.Detail == rw.ErrBadStateDir && e.Context["part"] == "observe/"+name, "%s is %s: %v", name, plant.name, e)
				noErr(t, erase(), name, " is ", plant.name)
			}
		}
		noErr(t, os.RemoveAll(at))
		noErr(t, do())
	}
	theirs := []string{"snapshots/notes.txt", "snapshots/snap_theirs.json/x", "events/notes.txt"}
	for _, name := range theirs {
		human(t, dir, filepath.Join(rw.StateDirName, "observe", name), "of another program")
	}
	long := time.Now().Add(-time.Hour)
	noErr(t, os.Chtimes(statePath(dir, "observe", "events", "notes.txt"), long, long))
	noErr(t, os.WriteFile(statePath(dir, "observe", "large"), nil, 0o600))
	noErr(t, os.Truncate(statePath(dir, "observe", "large"), 3<<30))
	for _, do := range calls {
		noErr(t, do())
	}
	noErr(t, erase())
	for _, name := range theirs {
		fileIs(t, dir, filepath.Join(rw.StateDirName, "observe", name), "of another program")
	}
}

// TestOpenNamesWhatIsMisplaced: the error of Open, and of Check, names the path in the
// state directory of a directory that is in the place of a file.
func TestOpenNamesWhatIsMisplaced(t *testing.T) {
	for _, name := range []string{"meta.json", "slots.json", ".gitignore", "locks/paths", "locks/journal", "journal/00000000000000000001.jsonl"} {
		s, dir := quick(t, nil)
		write(t, s, "a.txt", "text", rw.ModeCreate)
		noErr(t, s.Close(background))
		os.Remove(statePath(dir, name))
		noErr(t, os.Mkdir(statePath(dir, name), 0o700))
		_, err := rw.Open(background, dir, nil)
		e := rw.AsError("", err)
		expect(t, e != nil && e.Detail == rw.ErrBadStateDir && e.Context["part"] == name && strings.Contains(e.Hint, name+" in the state directory"), "%s: %v", name, err)
		if name == "slots.json" {
			s := open(t, dir, &rw.Options{ReadOnly: true})
			_, err := s.Check(background, admin.CheckRequest{})
			e := rw.AsError("", err)
			expect(t, e != nil && e.Detail == rw.ErrBadStateDir && e.Context["part"] == name, "check: %v", err)
		}
	}
}

// TestRemainsOfATransactionOnly: what another program puts into the directory of a staged
// transaction stays when its remains are removed.
func TestRemainsOfATransactionOnly(t *testing.T) {
	s, dir := quick(t, nil)
	id := must(s.TxBegin(background, rw.TxBeginRequest{}))(t).TxID
	noErr(t, s.Close(background))
	noErr(t, os.Remove(statePath(dir, "tx", id, "begin.json")))
	for _, name := range []string{"op-00001.json", "notes.txt"} {
		noErr(t, os.WriteFile(statePath(dir, "tx", id, name), []byte("x"), 0o600))
	}
	open(t, dir, nil)
	left := must(os.ReadDir(statePath(dir, "tx", id)))(t)
	expect(t, len(left) == 1 && left[0].Name() == "notes.txt", "left: %v", left)
}

// TestScratchPutReplacesAnIndexThatIsNoFile without a repair: the index is a cache, and
// an entry in its place is moved to quarantine/.
func TestScratchPutReplacesAnIndexThatIsNoFile(t *testing.T) {
	for _, plant := range misplacings[1:] {
		t.Run(plant.name, func(t *testing.T) {
			s, dir := quick(t, nil)
			keep(t, s, rw.ScratchPutRequest{Content: []byte("one"), Label: "one"})
			os.Remove(statePath(dir, "scratch", "index.jsonl"))
			plant.plant(t, statePath(dir, "scratch", "index.jsonl"))
			keep(t, s, rw.ScratchPutRequest{Content: []byte("two"), Label: "two"})
			l := listed(t, s)
			expect(t, l.Count == 2 && l.Entries[0].Label == "two", "%+v", l)
			expect(t, isPlainFile(statePath(dir, "scratch", "index.jsonl")), "the index is no file")
			odd, _ := filepath.Glob(statePath(dir, "quarantine", "scratch-index*.odd.*"))
			expect(t, len(odd) == 1, "in quarantine: %v", odd)
			check(t, s, true)
		})
	}
}

// TestCheckOfDeletedObjects: nothing is wrong with an object that was deleted if another
// entry is in the place of its directory.
func TestCheckOfDeletedObjects(t *testing.T) {
	s, dir := quick(t, nil)
	keep(t, s, rw.ScratchPutRequest{Content: []byte("one"), Label: "one"})
	must(s.ScratchDelete(background, rw.ScratchDeleteRequest{Label: "one"}))(t)
	noErr(t, os.RemoveAll(statePath(dir, "scratch")))
	noErr(t, os.Symlink(t.TempDir(), statePath(dir, "scratch")))
	got := must(s.Check(background, admin.CheckRequest{Deep: true}))(t)
	for _, p := range got.Problems {
		expect(t, !strings.HasSuffix(p.Path, ".bin"), "%+v", p)
	}
}

// TestCheckWithoutQuarantine: an entry in the place of quarantine/ itself is reported
// by Check, and left by Repair with a reason.
func TestCheckWithoutQuarantine(t *testing.T) {
	dir := ramspace(t)
	damageable(t, dir)
	os.RemoveAll(statePath(dir, "quarantine"))
	os.WriteFile(statePath(dir, "quarantine"), []byte("x"), 0o600)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	got, err := s.Check(background, admin.CheckRequest{Deep: true})
	require(t, err == nil && tellsOf(got, "unknown_file", "quarantine") && len(got.Problems) == 1, "%v %+v", err, got.Problems)
	r := repairIt(t, s, admin.RepairRequest{})
	expect(t, !r.Clean && len(r.Left) == 1 && strings.Contains(r.Left[0].Why, "by hand") && len(r.Actions) == 0, "%+v", r)
}

// limited reports whether this process is the one that may have n descriptors. If not,
// it runs the test in such a process.
func limited(t *testing.T, n uint64) bool {
	t.Helper()
	if !alone(t, "RW_NOFILE") {
		return false
	}
	var old unix.Rlimit
	unix.Getrlimit(unix.RLIMIT_NOFILE, &old)
	noErr(t, unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: old.Max}))
	return true
}

// TestFewDescriptors: a process that may have 64 descriptors opens a store whose
// history has all its directories, writes, reads old versions and closes.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	if !limited(t, 64) {
		return
	}
	blob.OneByOne = false
	dir := workspace(t)
	for range 2 {
		s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
		for i := range 100 {
			mode := rw.ModeOverwrite
			if i == 0 {
				s.Delete(background, rw.DeleteRequest{Path: "a"})
				mode = rw.ModeCreate
			}
			must(s.SafeWrite(background, put("a", fmt.Sprint("text ", i+1000), mode)))(t, "write ", i)
		}
		h := must(s.History(background, rw.HistoryRequest{Path: "a", N: 1000}))(t)
		kept := 0
		for i, v := range h.Versions {
			if v.Available && v.SHA256.String() != "" && i%5 == 0 {
				must(s.Read(background, rw.ReadRequest{Path: "a", Version: v.Version}))(t)
				kept++
			}
		}
		expect(t, kept >= 10, "%d versions are kept", kept)
		check(t, s, true)
		noErr(t, s.Close(background))
	}
}

// TestFewDescriptorsManyWriters: many writers in a process that may have 64 descriptors
// have no call fail for want of one, at each level.
func TestFewDescriptorsManyWriters(t *testing.T) {
	t.Parallel()
	if !limited(t, 64) {
		return
	}
	for _, level := range inTurn(0, allLevels...) {
		dir := workspace(t)
		s := open(t, dir, &rw.Options{Sync: level})
		var wg sync.WaitGroup
		for w := range 96 {
			wg.Go(func() {
				for i := range 6 {
					name := fmt.Sprintf("d%d/f%d", w%5, (w+i)%16)
					r := put(name, strings.Repeat(fmt.Sprintln("text", w, i), 1+i%3*16000), rw.ModeOverwrite)
					r.AllowShrink = true
					_, err := s.SafeWrite(background, r)
					expect(t, err == nil, "%s, writer %d, write %d: %v (%v)", level, w, i, err, errors.Unwrap(err))
				}
			})
		}
		wg.Wait()
		check(t, s, true)
		noErr(t, s.Close(background))
	}
}

// TestFewDescriptorsManyTransactions: transactions of several files in a process that may
// have 512 descriptors do not use them up while their files wait to be settled.
func TestFewDescriptorsManyTransactions(t *testing.T) {
	t.Parallel()
	if !limited(t, 512) {
		return
	}
	for _, level := range allLevels {
		s := open(t, workspace(t), &rw.Options{Sync: level})
		var wg sync.WaitGroup
		for w := range 8 {
			wg.Go(func() {
				for i := range 8 {
					var r rw.TxRequest
					for k := range 12 {
						r.Ops = append(r.Ops, rw.TxOp{Op: "write", Path: fmt.Sprintf("d%d/f%d", w, k), Content: fmt.Appendln(nil, "text", w, i, k), Mode: rw.ModeOverwrite})
					}
					_, err := s.Tx(background, r)
					expect(t, err == nil, "%s, writer %d, transaction %d: %v", level, w, i, err)
				}
			})
		}
		wg.Wait()
		check(t, s, true)
		noErr(t, s.Close(background))
	}
}

// TestFewDescriptorsManyFiles: a process that may have 256 descriptors undoes a
// group of 1,200 files in 60 directories, in one commit that it can undo too:
// files that were changed, deleted with their directories, and made.
func TestFewDescriptorsManyFiles(t *testing.T) {
	t.Parallel()
	if !limited(t, 256) {
		return
	}
	dir := workspace(t)
	write := func(i int, text string) {
		name := filepath.Join(dir, fmt.Sprintf("d%d/f%d.txt", i%60, i))
		os.MkdirAll(filepath.Dir(name), 0o755)
		noErr(t, os.WriteFile(name, []byte(fmt.Sprint(text, i)), 0o644))
	}
	for i := range 1000 {
		write(i, "before ")
	}
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	scan := func() string {
		t.Helper()
		return must(s.Scan(background, around.ScanRequest{}))(t).Group
	}
	scan()
	before := diskOf(t, dir)
	for d := range 20 {
		os.RemoveAll(filepath.Join(dir, fmt.Sprint("d", d)))
	}
	for i := range 1200 {
		if i%60 >= 20 {
			write(i, "after ")
		}
	}
	group, after := scan(), diskOf(t, dir)
	for i, want := range []map[string]string{before, after} {
		req := rw.UndoRequest{Group: group}
		if i > 0 {
			req = rw.UndoRequest{} // of the undo
		}
		r := must(s.Undo(background, req))(t, i)
		require(t, len(r.Results) >= 1000 && len(r.Undone) == 1, "%v %v", len(r.Results), r.Undone)
		got := diskOf(t, dir)
		require(t, maps.Equal(got, want), "undo %d: %d files, want %d", i, len(got), len(want))
		scan()
	}
	check(t, s, true)
	noErr(t, s.Close(background))
}

// diskOf are the files below a directory with their modes, without the state of
// a store.
func diskOf(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for e := range testbed.Entries(t, dir, rw.StateDirName) {
		if !e.Info.IsDir() {
			out[e.Path] = fmt.Sprint(e.Info.Mode(), " ", e.Text)
		}
	}
	return out
}

// BenchmarkAnalytics folds a journal of a million rows into figures: as
// Analytics reads it, and with every row decoded in full.
func BenchmarkAnalytics(b *testing.B) {
	dir := journalOf(b, 1_000_000)
	s := must(rw.Open(background, dir, &rw.Options{ReadOnly: true}))(b)
	defer s.Close(background)
	for _, way := range []struct {
		name    string
		figures func() (analytics.Result, error)
	}{
		{"skimmed", func() (analytics.Result, error) { return s.Analytics(background, analytics.Request{}) }},
		{"decoded", s.AnalyticsDecoded},
	} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			before := cpuTime()
			for b.Loop() {
				mustEqual(b, must(way.figures())(b).TotalWrites, 1_000_000)
			}
			b.ReportMetric((cpuTime()-before).Seconds()/float64(b.N), "cpu-s/op")
		})
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
