package resilientwrite_test

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// nextStep finds the instruction in a hint: a verb at the start of one of its parts.
var nextStep = regexp.MustCompile(`(^|[;:,] |\band |\bthen |\bto continue |\belse |\bor )(add|allow|append|ask|begin|call|change|check|choose|copy|correct|create|do|export|free|give|import|leave|look|move|name|open|pass|put|read|redact|remove|replace|report|restore|run|say|send|split|stay|to have|to replace|try|use|wait|write|Store\.[A-Za-z]+)\b`)

// TestEveryHintSaysWhatToDoNext: a refusal that only states the problem does not help
// its reader.
func TestEveryHintSaysWhatToDoNext(t *testing.T) {
	says := map[rw.Detail]string{ // these name the next step in other words
		rw.ErrMissingFields:  "context.missing_fields names them",
		rw.ErrNotADirectory:  "choose another path",
		rw.ErrNothingToUndo:  "Store.Restore",
		rw.ErrNewerFormat:    "use that version",
		rw.ErrNoChange:       "nothing is left to do",
		rw.ErrInputRequired:  "send the same call again",
		rw.ErrCrossDevice:    "read the file, write it to the new path, then delete the old one",
		rw.ErrSymlinkLoop:    "give the path of the target itself",
		rw.ErrReadOnlyVolume: "ask the user",
		rw.ErrStateDrift:     "examine each of context.drift_warnings",
	}
	for _, d := range rw.Details() {
		_, _, _, _, hint := d.Describe()
		if want, known := says[d]; known && strings.Contains(hint, want) {
			continue
		} else if known || !nextStep.MatchString(hint) {
			t.Errorf("%s: no next step in %q", d, hint)
		}
		if strings.Contains(hint, "pass force") && d != rw.ErrReadOnlyFile {
			t.Errorf("%s: not every verb that it comes from has force: %q", d, hint)
		}
	}
}

// TestUndoAdvisesNothingItDoesNotHave: it has no force, restore has.
func TestUndoAdvisesNothingItDoesNotHave(t *testing.T) {
	for what, c := range map[string]struct {
		change func(dir string) error
		says   string
	}{
		"changed": {func(dir string) error { return os.WriteFile(filepath.Join(dir, "a.txt"), []byte("mine"), 0o644) }, "the file was changed outside this store"},
		"deleted": {func(dir string) error { return os.Remove(filepath.Join(dir, "a.txt")) }, "the file was deleted outside this store"},
	} {
		s, dir := quick(t, nil)
		write(t, s, "a.txt", "one", rw.ModeCreate)
		write(t, s, "a.txt", "two", rw.ModeOverwrite)
		noErr(t, c.change(dir))
		_, err := s.Undo(background, rw.UndoRequest{})
		e := rw.AsError("", err)
		if !errors.Is(err, rw.ErrChangedOutside) || strings.Contains(e.Hint, "pass force") || !strings.Contains(e.Hint, "Store.Restore with force") || !strings.Contains(e.Hint, c.says) {
			t.Errorf("undo, %s: %v %q", what, err, e.Hint)
		}
		conformsEnvelope(t, e)
		_, err = s.Restore(background, rw.RestoreRequest{Path: "a.txt", Version: 1})
		if e := rw.AsError("", err); !errors.Is(err, rw.ErrChangedOutside) || !strings.Contains(e.Hint, "pass force") || !strings.Contains(e.Hint, c.says) {
			t.Errorf("restore, %s: %v %q", what, err, e.Hint)
		}
		// What undo advises works.
		must(s.Restore(background, rw.RestoreRequest{Path: "a.txt", Version: 1, Force: true}))(t)
		fileIs(t, dir, "a.txt", "one")
	}
}

// TestAMoveWithoutItsNewPathSaysSo: the old path is right, and the hint should not
// point at it.
func TestAMoveWithoutItsNewPathSaysSo(t *testing.T) {
	s, dir := quick(t, nil)
	write(t, s, "a.txt", "x", rw.ModeCreate)
	write(t, s, "b.txt", "x", rw.ModeCreate)
	first := rw.TxOp{Op: "edit", Path: "b.txt", Edits: []rw.EditOp{{Old: "x", New: "y"}}}
	for to, c := range map[string]struct {
		want rw.Detail
		says string
	}{
		"": {rw.ErrEmptyPath, "to, the new path, is required"}, "/etc/passwd": {rw.ErrAbsolutePathRejected, "to is not a valid path"}, "../x": {rw.ErrEscapesWorkspace, "to is not a valid path"}, "a\x00b": {rw.ErrInvalidPath, "to is not a valid path"},
	} {
		move := rw.TxOp{Op: "move", Path: "a.txt", To: to}
		for what, call := range map[string]func() error{
			"move":  func() error { _, err := s.Move(background, rw.MoveRequest{Path: "a.txt", To: to}); return err },
			"alone": func() error { return transact(s, move) },
			"after": func() error { return transact(s, first, move) },
			"stage": func() error {
				b := must(s.TxBegin(background, rw.TxBeginRequest{}))(t)
				_, err := s.TxStage(background, rw.TxStageRequest{TxID: b.TxID, Op: move})
				return err
			},
		} {
			err := call()
			e := rw.AsError("", err)
			if !errors.Is(err, c.want) || e.Path != "" || e.Context["argument"] != "to" || !strings.Contains(e.Hint, c.says) || strings.Contains(e.Hint, "passwd") {
				t.Errorf("%s to %q: %v path %q %q", what, to, err, e.Path, e.Hint)
			}
			conformsEnvelope(t, e)
		}
		if err := transact(s, rw.TxOp{Op: "move", Path: "../a", To: to}); rw.AsError("", err).Context["argument"] == "to" {
			t.Errorf("the old path is wrong too, and first: %v", err)
		}
	}
	fileIs(t, dir, "a.txt", "x")
	fileIs(t, dir, "b.txt", "x")
}

// TestStagedTransactionsNameNoPathOfTheirOwn: callers know them by tx_id, and
// no tool takes a path of the state directory.
func TestStagedTransactionsNameNoPathOfTheirOwn(t *testing.T) {
	s, _ := quick(t, nil)
	b := must(s.TxBegin(background, rw.TxBeginRequest{Call: rw.Call{IdempotencyKey: "begin"}}))(t)
	op := rw.TxOp{Op: "write", Path: "a.txt", Content: []byte("x")}
	must(s.TxStage(background, rw.TxStageRequest{TxID: b.TxID, Op: op, Call: rw.Call{IdempotencyKey: "stage"}}))(t)
	other := op
	other.Content = []byte("another")
	long := strings.Repeat("k", 300)
	for what, call := range map[string]func() error{
		"begin, key of another": func() error {
			_, err := s.TxBegin(background, rw.TxBeginRequest{Call: rw.Call{IdempotencyKey: "begin", Session: "another"}})
			return err
		},
		"begin, long key": func() error {
			_, err := s.TxBegin(background, rw.TxBeginRequest{Call: rw.Call{IdempotencyKey: long}})
			return err
		},
		"stage, key of another": func() error {
			_, err := s.TxStage(background, rw.TxStageRequest{TxID: b.TxID, Op: other, Call: rw.Call{IdempotencyKey: "stage"}})
			return err
		},
		"stage, none": func() error {
			_, err := s.TxStage(background, rw.TxStageRequest{TxID: "tx_none", Op: op})
			return err
		},
		"commit, none": func() error { _, err := s.TxCommit(background, rw.TxCommitRequest{TxID: "tx_none"}); return err },
		"commit, no id": func() error {
			_, err := s.TxCommit(background, rw.TxCommitRequest{TxID: "../../x"})
			return err
		},
		"rollback, key of another": func() error {
			_, err := s.TxRollback(background, rw.TxRollbackRequest{TxID: b.TxID, Call: rw.Call{IdempotencyKey: "stage"}})
			return err
		},
		"rollback, long key": func() error {
			_, err := s.TxRollback(background, rw.TxRollbackRequest{TxID: b.TxID, Call: rw.Call{IdempotencyKey: long}})
			return err
		},
	} {
		err := call()
		e := rw.AsError("", err)
		if err == nil || e.Path != "" {
			t.Errorf("%s: %v, path %q", what, err, e.Path)
		}
		conformsEnvelope(t, e)
	}
	// A file of the workspace is still named.
	write(t, s, "a.txt", "in the way", rw.ModeCreate)
	if _, err := s.TxCommit(background, rw.TxCommitRequest{TxID: b.TxID}); !errors.Is(err, rw.ErrFileAlreadyExists) || rw.AsError("", err).Path != "a.txt" {
		t.Errorf("%v, path %q", err, rw.AsError("", err).Path)
	}
}

// TestAMovedDirectoryLeavesWhatItDoesNotTake: links and special files refuse the move,
// empty directories stay, and the content of the new path stays too.
func TestAMovedDirectoryLeavesWhatItDoesNotTake(t *testing.T) {
	s, dir := quick(t, nil)
	write(t, s, "d/a.txt", "a", rw.ModeCreate)
	write(t, s, "d/sub/b.txt", "b", rw.ModeCreate)
	write(t, s, "e/kept.txt", "kept", rw.ModeCreate)
	noErr(t, os.MkdirAll(filepath.Join(dir, "d/empty/deep"), 0o755))
	noErr(t, os.Symlink("a.txt", filepath.Join(dir, "d/sub/link")))
	before := snapshot(t, dir)
	if _, err := s.Move(background, rw.MoveRequest{Path: "d", To: "e"}); !errors.Is(err, rw.ErrNotARegularFile) || snapshot(t, dir) != before {
		t.Errorf("a link: %v", err)
	}
	noErr(t, os.Remove(filepath.Join(dir, "d/sub/link")))
	write(t, s, "e/a.txt", "in the way", rw.ModeCreate)
	before = snapshot(t, dir)
	if _, err := s.Move(background, rw.MoveRequest{Path: "d", To: "e"}); !errors.Is(err, rw.ErrFileAlreadyExists) || snapshot(t, dir) != before {
		t.Errorf("a file in the way: %v", err)
	}
	if out, err := s.Move(background, rw.MoveRequest{Path: "d", To: "e", Overwrite: true}); err != nil || out.Files != 2 {
		t.Fatalf("%v %+v", err, out)
	}
	fileIs(t, dir, "e/a.txt", "a")
	fileIs(t, dir, "e/sub/b.txt", "b")
	fileIs(t, dir, "e/kept.txt", "kept")
	must(os.Stat(filepath.Join(dir, "d/empty/deep")))(t)
	gone(t, dir, "d/sub")
	check(t, s, true)
}
