package resilientwrite_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// editorSaves are the ways in which an editor saves a file that is there. Each
// returns what must not be lost, as the file then holds it.
var editorSaves = map[string]func(d fsx.Dir, name string) string{
	"exchanges": func(d fsx.Dir, name string) string {
		f, _ := d.Open(".editor", fsx.Write|fsx.Create, 0o644)
		f.WriteAt([]byte(strangersText), 0)
		f.Sync()
		f.Close()
		d.Rename(".editor", d, name)
		return strangersText
	},
	"rewrites": func(d fsx.Dir, name string) string {
		f, _ := d.Open(name, fsx.Read|fsx.Write, 0)
		f.Truncate(0)
		f.WriteAt([]byte(strangersText), 0)
		f.Close()
		return strangersText
	},
	"appends": func(d fsx.Dir, name string) string {
		f, _ := d.Open(name, fsx.Read|fsx.Write, 0)
		st, _ := f.Stat()
		f.WriteAt([]byte(strangersText), st.Size)
		f.Close()
		return strangersText
	},
}

// besideEditor is a call during which an editor saves a file.
type besideEditor struct {
	name string
	call func(s *rw.Store) error
	path string // the file that the editor saves
	// fails, when set, is where another program creates bad.txt so that the
	// call fails after its commit: at the first operation on this path.
	fails string
	moves bool // the saved file must stay in the workspace
}

var besideEditors = []besideEditor{
	{name: "replace", path: "a.txt", call: func(s *rw.Store) error {
		_, err := s.SafeWrite(background, rw.SafeWriteRequest{Path: "a.txt", Content: []byte(otherText), Mode: rw.ModeOverwrite})
		return err
	}},
	{name: "merge", path: "a.txt", call: func(s *rw.Store) error {
		if _, err := s.SafeWrite(background, put("a.txt", "before\n"+longText+"a.txt", rw.ModeOverwrite)); err != nil {
			return err
		}
		r := put("a.txt", longText+"a.txt\nbehind\n", rw.ModeOverwrite)
		r.Expect, r.Merge = rw.Exactly(digest(hash(longText+"a.txt"))), rw.MergeClean
		_, err := s.SafeWrite(background, r)
		return err
	}},
	{name: "append", path: "a.txt", call: func(s *rw.Store) error {
		_, err := s.SafeWrite(background, rw.SafeWriteRequest{Path: "a.txt", Content: []byte(otherText), Mode: rw.ModeAppend})
		return err
	}},
	{name: "delete", path: "a.txt", call: func(s *rw.Store) error {
		_, err := s.Delete(background, rw.DeleteRequest{Path: "a.txt"})
		return err
	}},
	{name: "move", path: "a.txt", moves: true, call: func(s *rw.Store) error {
		_, err := s.Move(background, rw.MoveRequest{Path: "a.txt", To: "n/b.txt"})
		return err
	}},
	{name: "move over", path: "a.txt", moves: true, call: func(s *rw.Store) error {
		_, err := s.Move(background, rw.MoveRequest{Path: "a.txt", To: "c.txt", Overwrite: true})
		return err
	}},
	{name: "move over, the other", path: "c.txt", call: func(s *rw.Store) error {
		_, err := s.Move(background, rw.MoveRequest{Path: "a.txt", To: "c.txt", Overwrite: true})
		return err
	}},
	{name: "undo", path: "a.txt", call: func(s *rw.Store) error {
		if _, err := s.SafeWrite(background, rw.SafeWriteRequest{Path: "a.txt", Content: []byte(otherText), Mode: rw.ModeOverwrite}); err != nil {
			return err
		}
		_, err := s.Undo(background, rw.UndoRequest{})
		return err
	}},
	{name: "rollback of a replace", path: "a.txt", fails: "a.txt", call: txBeside(txWrite("a.txt", otherText, rw.ModeOverwrite))},
	{name: "rollback of a create", path: "new.txt", fails: "new.txt", call: txBeside(txWrite("new.txt", otherText, ""))},
	{name: "rollback of a delete", path: "a.txt", fails: "a.txt", call: txBeside(txDelete("a.txt"))},
	{name: "rollback of a move", path: "a.txt", fails: "a.txt", moves: true, call: txBeside(txMove("a.txt", "b.txt", false))},
	{name: "rollback of a move, the new name", path: "b.txt", fails: "a.txt", moves: true, call: txBeside(txMove("a.txt", "b.txt", false))},
}

// txBeside is a transaction whose last file cannot be made.
func txBeside(op rw.TxOp) func(s *rw.Store) error {
	return func(s *rw.Store) error {
		_, err := s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{op, txWrite("bad.txt", longText, "")}})
		return err
	}
}

// TestEditorSweep: an editor saves a file in each way before each operation of each
// verb. The saved content is under its name afterwards, or it is kept as a version;
// after a move, it is a file of the workspace.
func TestEditorSweep(t *testing.T) {
	step := txStep()
	for i, level := range []rw.SyncLevel{rw.SyncFull, rw.SyncJournal, rw.SyncOff} {
		for _, x := range besideEditors {
			for how := range editorSaves {
				t.Run(fmt.Sprintf("%s/%s/%s", x.name, how, level), func(t *testing.T) {
					t.Parallel()
					x.besideOne(t, level, how, 0)
					for n := (phase(step) + i) % step; x.besideOne(t, level, how, n); n += step {
					}
				})
			}
		}
	}
}

// besideOne lets the editor save before operation n; false when the call has
// fewer.
func (x besideEditor) besideOne(t *testing.T, level rw.SyncLevel, how string, n int) bool {
	t.Helper()
	fs := simfs.New()
	opts := &rw.Options{Sync: level}
	s := must(rw.OpenSim(fs, opts, rw.Sim{Nonce: "0001"}))(t)
	for _, name := range []string{"a.txt", "c.txt"} {
		must(s.SafeWrite(background, rw.SafeWriteRequest{Path: name, Content: []byte(longText + name)}))(t)
	}
	editor := fs.Foreign()
	var mu sync.Mutex // a store also works after its replies
	saved, reached, blocked, count := "", false, false, 0
	fs.Before(func(op simfs.Op) {
		mu.Lock()
		defer mu.Unlock()
		if x.fails != "" && !blocked && publishes(op, x.fails) {
			blocked = true
			f, _ := editor.Open("bad.txt", fsx.Write|fsx.Create, 0o644)
			f.WriteAt([]byte("in the way\n"), 0)
			f.Close()
		}
		if count == n {
			reached = true
			if _, err := editor.Lstat(x.path); err == nil {
				saved = editorSaves[how](editor, x.path)
			}
		}
		count++
	})
	callErr := x.call(s)
	fs.Before(nil)
	mu.Lock()
	defer mu.Unlock()
	if n == 0 && callErr == nil && level == rw.SyncFull && saved != "" {
		// The editor did not flush the content that the call replaced. Now it is a
		// version.
		for seed := range uint64(4) {
			x.survives(t, fs.Crash(seed, []simfs.Loss{simfs.All, simfs.Some}[seed%2]), opts, saved, "a power cut")
		}
	}
	if x.moves && callErr == nil && saved != "" {
		// The content under the new name is the one in the row. The editor cannot have
		// saved there.
		found, err := s.Check(background, rw.CheckRequest{Deep: true})
		if err != nil || slices.ContainsFunc(found.Problems, func(p rw.CheckProblem) bool { return p.Code == "file_differs" }) {
			t.Fatalf("saved before operation %d: the move reports success: %v %+v", n, err, found.Problems)
		}
	}
	s.Close(background)
	if saved == "" {
		return reached
	}
	x.survives(t, fs, opts, saved, fmt.Sprintf("saved before operation %d, call: %v", n, callErr))
	return reached
}

// survives opens the store again and looks for the content that the editor saved.
func (x besideEditor) survives(t *testing.T, fs *simfs.FS, opts *rw.Options, saved, when string) {
	t.Helper()
	after := must(rw.OpenSim(fs, opts, rw.Sim{Nonce: "0002"}))(t, when, ": open")
	noErr(t, after.Close(background))
	found := false
	for path, content := range fs.Tree() {
		inside := ofStore(path)
		kept := strings.Contains(content, saved)
		found = found || kept && (!inside || !x.moves && strings.Contains(path, "/history/"))
	}
	if !found {
		t.Fatalf("%s: what the editor saved is lost\n%v", when, files(fs))
	}
}

// publishes reports whether an operation gives or takes the name of a file.
func publishes(op simfs.Op, name string) bool {
	return (strings.HasSuffix(op.Path, name) || strings.HasSuffix(op.To, name)) && strings.Contains("link rename exchange", op.Kind) && op.Kind != ""
}

// TestForeignSaveOfTheSameSizeSweep: an editor replaces a large file by another
// one of the same size, or rewrites it in place, before each operation of a
// write or after the last one. A guarded write that expects ours then fails
// where the editor's is there.
func TestForeignSaveOfTheSameSizeSweep(t *testing.T) {
	for _, inPlace := range []bool{false, true} {
		step := stride(1)
		for n := phase(step); saveOfTheSameSize(t, inPlace, n); n += step {
		}
		saveOfTheSameSize(t, inPlace, math.MaxInt)
	}
}

// saveOfTheSameSize saves before operation n; false when the write has fewer.
func saveOfTheSameSize(t *testing.T, inPlace bool, n int) bool {
	t.Helper()
	const size = 1 << 20 // from which hashes are kept
	ours, theirs := strings.Repeat("our line\n", size/9+1), strings.Repeat("their row", size/9+1)
	fs := simfs.New()
	s := must(rw.OpenSim(fs, &rw.Options{Gate: rw.Gate{Mode: rw.GateOff}}, rw.Sim{}))(t)
	defer s.Close(background)
	editor, count, reached := fs.Foreign(), 0, false
	save := func() {
		name := ".editor"
		if inPlace {
			name = "a.txt"
		}
		if _, err := editor.Lstat(name); inPlace && err != nil {
			return
		}
		f, _ := editor.Open(name, fsx.Write|fsx.Create, 0o644)
		f.WriteAt([]byte(theirs), 0)
		f.Close()
		if !inPlace {
			editor.Rename(name, editor, "a.txt")
		}
	}
	fs.Before(func(simfs.Op) {
		if count == n {
			reached = true
			save()
		}
		count++
	})
	wrote, err := s.SafeWrite(background, rw.SafeWriteRequest{Path: "a.txt", Content: []byte(ours), Mode: rw.ModeOverwrite})
	fs.Before(nil)
	if !reached {
		save()
	}
	if before, _ := fs.ReadFile("a.txt"); err == nil && string(before) == theirs {
		_, err = s.SafeWrite(background, rw.SafeWriteRequest{Path: "a.txt", Content: []byte("short\n"), Mode: rw.ModeOverwrite, AllowShrink: true, Expect: rw.Exactly(wrote.SHA256)})
		if err == nil {
			t.Fatalf("operation %d: the guarded write replaced what the editor saved", n)
		}
	}
	return reached
}

// TestUnchangedInATransactionIsDurable: a transaction acknowledges a file that already
// has the new content like the others.
func TestUnchangedInATransactionIsDurable(t *testing.T) {
	for how, save := range editorSaves {
		fs := simfs.New()
		s := must(rw.OpenSim(fs, &rw.Options{}, rw.Sim{}))(t)
		noErr(t, do(put("d/x.txt", longText, rw.ModeCreate))(s))
		editor := must(fs.Foreign().OpenDir("d"))(t)
		f, _ := editor.Open("a.txt", fsx.Write|fsx.Create, 0o644)
		f.Close()
		save(editor, "a.txt")
		noErr(t, together(put("d/a.txt", strangersText, rw.ModeOverwrite), put("b.txt", longText, rw.ModeCreate))(s))
		if have, _ := fs.Crash(0, simfs.All).ReadFile("d/a.txt"); string(have) != strangersText {
			t.Errorf("the editor %s: an acknowledged file is lost: %q", how, have)
		}
	}
}

// TestPreviousHashIsOfOneContent: an editor rewrites the file while its hash is
// computed. The receipt contains the hash of a content that the file had, and never
// that of a mixture of two.
func TestPreviousHashIsOfOneContent(t *testing.T) {
	old, saved := strings.Repeat("a", 300<<10), strings.Repeat("b", 300<<10)
	for at := range 6 {
		fs := simfs.New()
		fs.WriteFile("a.txt", []byte(old), 0o644)
		s := must(rw.OpenSim(fs, nil, rw.Sim{}))(t)
		reads := 0
		fs.Before(func(op simfs.Op) {
			if op.Kind != "read" || op.Path != "a.txt" {
				return
			}
			if reads++; reads != at+1 {
				return
			}
			f, err := fs.Foreign().Open("a.txt", fsx.Read|fsx.Write, 0)
			if err != nil {
				t.Error(err)
				return
			}
			defer f.Close()
			if _, err := f.WriteAt([]byte(saved), 0); err != nil {
				t.Error(err)
			}
		})
		req := put("a.txt", "new", rw.ModeOverwrite)
		req.AllowShrink = true
		r, err := s.SafeWrite(background, req)
		fs.Before(nil)
		if err != nil || r.Receipt.PrevSHA256.String() != hash(old) && r.Receipt.PrevSHA256.String() != hash(saved) {
			t.Errorf("read %d: %v, prev_sha256 %s", at, err, r.Receipt.PrevSHA256)
		}
		s.Close(background)
	}
}
