package resilientwrite_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/failpoint"
)

// losses are the ways in which a running store loses its directories, with the reason
// that the error must give.
var losses = []struct {
	name, want string
	stateDir   bool // the state directory is elsewhere
	lose       func(t *testing.T, dir, state string)
}{
	{"state removed", "state_dir_gone", false, func(t *testing.T, _, state string) { noErr(t, os.RemoveAll(state)) }},
	{"state elsewhere removed", "state_dir_gone", true, func(t *testing.T, _, state string) { noErr(t, os.RemoveAll(state)) }},
	{"state moved", "state_dir_gone", false, func(t *testing.T, dir, state string) { noErr(t, os.Rename(state, dir+".moved")) }},
	{"state a file now", "state_dir_replaced", false, func(t *testing.T, dir, state string) {
		noErr(t, os.Rename(state, dir+".moved"))
		noErr(t, os.WriteFile(state, nil, 0o600))
	}},
	{"state replaced", "state_dir_replaced", false, func(t *testing.T, dir, state string) {
		noErr(t, os.Rename(state, dir+".moved"))
		write(t, open(t, dir, nil), "theirs.txt", "of the second store", rw.ModeCreate)
	}},
	{"state emptied", "state_dir_emptied", false, func(t *testing.T, _, state string) { emptyDir(t, state) }},
	{"state emptied and made anew", "state_dir_emptied", false, func(t *testing.T, dir, state string) {
		emptyDir(t, state)
		write(t, open(t, dir, nil), "theirs.txt", "of the second store", rw.ModeCreate)
	}},
	{"workspace removed", "workspace_gone", false, func(t *testing.T, dir, _ string) { noErr(t, os.RemoveAll(dir)) }},
	{"workspace removed, state elsewhere", "workspace_gone", true, func(t *testing.T, dir, _ string) { noErr(t, os.RemoveAll(dir)) }},
	{"workspace made anew", "workspace_gone", false, func(t *testing.T, dir, _ string) {
		noErr(t, os.RemoveAll(dir))
		noErr(t, os.Mkdir(dir, 0o755))
	}},
}

func emptyDir(t *testing.T, dir string) {
	t.Helper()
	names := must(os.ReadDir(dir))(t)
	for _, n := range names {
		noErr(t, os.RemoveAll(filepath.Join(dir, n.Name())))
	}
}

// lostCalls are the calls that need the state directory. Those of the first
// list need the workspace as well.
func lostCalls(s *rw.Store) (writes, reads map[string]func() error) {
	writes = map[string]func() error{
		"create":    func() error { _, err := s.SafeWrite(background, put("new.txt", "x", rw.ModeCreate)); return err },
		"overwrite": func() error { _, err := s.SafeWrite(background, put("a.txt", "other", rw.ModeOverwrite)); return err },
		"append":    func() error { _, err := s.SafeWrite(background, put("a.txt", "+", rw.ModeAppend)); return err },
		"edit": func() error {
			_, err := s.Edit(background, rw.EditRequest{Path: "a.txt", Edits: []rw.EditOp{{Old: "one", New: "two"}}})
			return err
		},
		"delete":          func() error { _, err := s.Delete(background, rw.DeleteRequest{Path: "a.txt"}); return err },
		"undo":            func() error { _, err := s.Undo(background, rw.UndoRequest{}); return err },
		"read of nothing": func() error { _, err := s.Read(background, rw.ReadRequest{Path: "nowhere.txt"}); return err },
	}
	reads = map[string]func() error{
		"chunk": func() error {
			_, err := s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte("x")})
			return err
		},
		"scratch": func() error {
			_, err := s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte("raw")})
			return err
		},
		"compact": func() error { _, err := s.Admin().Compact(background, rw.CompactRequest{}); return err },
		"check":   func() error { _, err := s.Check(background, rw.CheckRequest{}); return err },
		"history": func() error { _, err := s.History(background, rw.HistoryRequest{Path: "a.txt"}); return err },
		"tail":    func() error { _, err := s.JournalTail(background, rw.JournalTailRequest{}); return err },
		"draft":   func() error { _, err := s.DraftGet(background, rw.DraftGetRequest{DraftRef: "draft_0"}); return err },
		"checkpoint": func() error {
			_, err := s.CheckpointRead(background, rw.CheckpointReadRequest{Name: "none"})
			return err
		},
	}
	return writes, reads
}

// TestALostStoreSaysSo: when the state directory or the workspace of a running store is
// removed, moved, emptied or replaced, every call that needs it reports the problem and
// the remedy, changes nothing, and so do all later calls; a second store created in its
// place is not disturbed.
func TestALostStoreSaysSo(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("directories that are open cannot be removed or renamed here")
	}
	for _, l := range losses {
		t.Run(l.name, func(t *testing.T) {
			dir := workspace(t)
			state, opts := filepath.Join(dir, rw.StateDirName), &rw.Options{}
			if l.stateDir {
				state = filepath.Join(t.TempDir(), "state")
				opts.StateDir = state
			}
			s := open(t, dir, opts)
			write(t, s, "a.txt", "one\n", rw.ModeCreate)
			l.lose(t, dir, state)
			before := whatLies(t, dir)
			writes, reads := lostCalls(s)
			if l.stateDir && l.want == "workspace_gone" {
				reads = nil // the state is there
			}
			for _, calls := range []map[string]func() error{writes, reads} {
				for name, call := range calls {
					err := call()
					e := rw.AsError("", err)
					if !errors.Is(err, rw.ErrStorePoisoned) || e.Context["lost"] != l.want {
						t.Errorf("%s: %v %v (%v)", name, err, e, errors.Unwrap(err))
						continue
					}
					if e.Effect != rw.EffectNone || !strings.Contains(e.Hint, "restart the server") || !strings.Contains(e.Hint, "open it again") {
						t.Errorf("%s: effect %s, hint %q", name, e.Effect, e.Hint)
					}
					if text, _ := json.Marshal(e); strings.Contains(string(text), filepath.Dir(dir)) {
						t.Errorf("%s: the error shows a path: %s", name, text)
					}
				}
			}
			if d, err := s.Describe(background, rw.DescribeRequest{}); err != nil || !d.Poisoned {
				t.Errorf("describe: poisoned %v, %v", d.Poisoned, err)
			}
			if after := whatLies(t, dir); after != before {
				t.Errorf("the lost store changed\n%s\nto\n%s", before, after)
			}
			noErr(t, s.Close(background))
		})
	}
}

// whatLies returns the content of a workspace, including the state directory, but
// without its locks and without the files that a refusal may write.
func whatLies(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	for _, part := range []string{"", "journal", "staging", "history"} {
		at := dir
		if part != "" {
			at = filepath.Join(dir, rw.StateDirName, part)
		}
		names, err := os.ReadDir(at)
		if err != nil {
			b.WriteString(part + " is not there\n")
			continue
		}
		for _, n := range names {
			b.WriteString(part + "/" + n.Name())
			if n.Type().IsRegular() {
				data := must(os.ReadFile(filepath.Join(at, n.Name())))(t)
				b.WriteString(" " + hash(string(data)))
			}
			b.WriteByte('\n')
		}
	}
	return b.String()
}

// TestLossInTheMiddle: if the state directory disappears during a write, no row is
// written to its replacement. Up to the commit point nothing happened; after it no call
// reports success.
func TestLossInTheMiddle(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("directories that are open cannot be removed or renamed here")
	}
	for _, c := range []struct {
		stage rw.Stage
		moved bool
		want  rw.Effect
	}{
		{rw.StageLock, true, rw.EffectNone}, {rw.StageRecord, true, rw.EffectNone}, {rw.StageStage, false, rw.EffectNone},
		{rw.StageRecord, false, rw.EffectNone}, {rw.StagePublish, false, rw.EffectUnknown},
	} {
		dir := workspace(t)
		state := filepath.Join(dir, rw.StateDirName)
		s := open(t, dir, nil)
		write(t, s, "a.txt", "one\n", rw.ModeCreate)
		done := false
		disarm := failpoint.Arm(func(point string) {
			if done || point != string(c.stage) {
				return
			}
			done = true
			if c.moved {
				noErr(t, os.Rename(state, dir+".moved"))
				noErr(t, os.Mkdir(state, 0o700))
			} else {
				noErr(t, os.RemoveAll(state))
			}
		})
		_, err := s.SafeWrite(background, put("a.txt", "two\n", rw.ModeOverwrite))
		disarm()
		if e := rw.AsError("", err); e.Detail != rw.ErrStorePoisoned || e.Effect != c.want {
			t.Errorf("lost before %s, moved %v: %v, effect %s (%v)", c.stage, c.moved, err, e.Effect, errors.Unwrap(err))
		}
		fileIs(t, dir, "a.txt", "one\n")
		refused(t, s, dir, put("a.txt", "three\n", rw.ModeOverwrite), rw.ErrStorePoisoned)
		noErr(t, s.Close(background))
	}
}

// TestReadingGoesOnWithoutState: a file that is there can be read although the
// state directory is gone.
func TestReadingGoesOnWithoutState(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("directories that are open cannot be removed or renamed here")
	}
	dir := workspace(t)
	s := open(t, dir, nil)
	write(t, s, "a.txt", "one\n", rw.ModeCreate)
	noErr(t, os.RemoveAll(filepath.Join(dir, rw.StateDirName)))
	if r, err := s.Read(background, rw.ReadRequest{Path: "a.txt"}); err != nil || string(r.Content) != "one\n" {
		t.Errorf("read: %q %v", r.Content, err)
	}
	// The next store starts from scratch.
	noErr(t, s.Close(background))
	next := open(t, dir, nil)
	write(t, next, "a.txt", "two\n", rw.ModeOverwrite)
	check(t, next, true)
}

// TestAStateThatComesBackIsNotTrusted: writes made in the meantime under another state
// directory are unknown to this one, so the store stays closed until it is opened
// again.
func TestAStateThatComesBackIsNotTrusted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("directories that are open cannot be removed or renamed here")
	}
	dir := workspace(t)
	state := filepath.Join(dir, rw.StateDirName)
	s := open(t, dir, nil)
	write(t, s, "a.txt", "one\n", rw.ModeCreate)
	noErr(t, os.Rename(state, dir+".moved"))
	refused(t, s, dir, put("a.txt", "two\n", rw.ModeOverwrite), rw.ErrStorePoisoned)
	noErr(t, os.Rename(dir+".moved", state))
	refused(t, s, dir, put("a.txt", "two\n", rw.ModeOverwrite), rw.ErrStorePoisoned)
	noErr(t, s.Close(background))
	s = open(t, dir, nil)
	write(t, s, "a.txt", "two\n", rw.ModeOverwrite)
	check(t, s, true)
	// A workspace that is moved with its state stays a workspace.
	noErr(t, os.Rename(dir, dir+".moved"))
	write(t, s, "a.txt", "three\n", rw.ModeOverwrite)
	fileIs(t, dir+".moved", "a.txt", "three\n")
	fails(s.Read(background, rw.ReadRequest{Path: "nowhere.txt"}))(t, rw.ErrNotFound, "read of nothing")
	check(t, s, true)
}

// TestOpenSaysWhatIsMissing: the hint names the workspace, not a file.
func TestOpenSaysWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	noErr(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	noErr(t, os.Mkdir(filepath.Join(dir, "ws"), 0o755))
	for _, c := range []struct {
		at, state string
		want      rw.Detail
		hint      string
	}{
		{filepath.Join(dir, "none"), "", rw.ErrNotFound, "the workspace directory does not exist; create it, or give the path of an existing one"},
		{filepath.Join(dir, "none", "deeper"), "", rw.ErrNotFound, "the workspace directory does not exist; create it, or give the path of an existing one"},
		{filepath.Join(dir, "file"), "", rw.ErrNotADirectory, "the workspace is a file; give the path of a directory"},
		{filepath.Join(dir, "ws"), filepath.Join(dir, "no", "state"), rw.ErrNotFound, "the parent of the state directory does not exist; create it, or choose another location"},
	} {
		s, err := rw.Open(background, c.at, &rw.Options{StateDir: c.state})
		e := rw.AsError("", err)
		if s != nil || !errors.Is(err, c.want) || e.Hint != c.hint || e.Op != "open" || e.Effect != rw.EffectNone {
			t.Errorf("%s: %v %+v", c.at, err, e)
		}
		if text, _ := json.Marshal(e); strings.Contains(string(text), dir) {
			t.Errorf("the error shows a path: %s", text)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); err == nil {
		t.Error("the workspace was made")
	}
}
