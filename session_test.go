package resilientwrite_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestSessionOfAContext: a host that knows the connection of a call sets it once, for
// every verb; the value in the request takes precedence.
func TestSessionOfAContext(t *testing.T) {
	s, _ := quick(t, &rw.Options{Session: "of the store"})
	first, second := rw.WithCaller(background, "", "first"), rw.WithCaller(background, "", "second")
	for _, c := range []struct {
		want string
		call func() (rw.Receipt, error)
	}{
		{"of the store", func() (rw.Receipt, error) {
			r, err := s.SafeWrite(background, put("a.txt", "a", rw.ModeOverwrite))
			return r.Receipt, err
		}},
		{"first", func() (rw.Receipt, error) {
			r, err := s.SafeWrite(first, put("a.txt", "b", rw.ModeOverwrite))
			return r.Receipt, err
		}},
		{"named", func() (rw.Receipt, error) {
			r := put("a.txt", "c", rw.ModeOverwrite)
			r.Session = "named"
			out, err := s.SafeWrite(first, r)
			return out.Receipt, err
		}},
		{"second", func() (rw.Receipt, error) {
			r, err := s.ChunkAppend(second, rw.ChunkAppendRequest{Session: "pieces", Content: []byte("d")})
			return r.Receipt, err
		}},
		{"second", func() (rw.Receipt, error) {
			r, err := s.ChunkCompose(second, rw.ChunkComposeRequest{Session: "pieces", OutputPath: "out.txt"})
			return r.Receipt, err
		}},
		{"first", func() (rw.Receipt, error) {
			r, err := s.Edit(rw.WithCaller(first, "", ""), rw.EditRequest{Path: "a.txt", Edits: []rw.EditOp{{Old: "c", New: "e"}}})
			return r.Receipt, err
		}},
	} {
		r := must(c.call())(t)
		tail := must(s.JournalTail(background, rw.JournalTailRequest{N: 1}))(t)
		if row := tail.Entries[len(tail.Entries)-1]; r.Session != c.want || row.Session != c.want || row.JournalID == "" {
			t.Errorf("%s: the receipt says %q, the row %q, want %q", r.Op, r.Session, row.Session, c.want)
		}
	}
}

// TestUndoTakesItsOwnSession: without caller and session, nothing of another session is
// touched; a call that names the caller undoes the newest commit.
func TestUndoTakesItsOwnSession(t *testing.T) {
	s, dir := quick(t, nil)
	for _, name := range []string{"first", "second", "third"} {
		must(s.SafeWrite(rw.WithCaller(background, "", name), put(name+".txt", name, rw.ModeCreate)))(t)
	}
	left := func(want ...string) {
		t.Helper()
		got := must(filepath.Glob(filepath.Join(dir, "*.txt")))(t)
		for i, name := range got {
			got[i] = strings.TrimSuffix(filepath.Base(name), ".txt")
		}
		if !slices.Equal(got, want) {
			t.Fatalf("left are %v, want %v", got, want)
		}
	}
	undo := func(session string, r rw.UndoRequest) error {
		_, err := s.Undo(rw.WithCaller(background, "", session), r)
		return err
	}
	noErr(t, undo("first", rw.UndoRequest{}))
	left("second", "third")
	err := undo("fourth", rw.UndoRequest{})
	if e := (*rw.Error)(nil); !errors.As(err, &e) || e.Detail != rw.ErrNothingToUndo || !strings.Contains(e.Hint, "pass caller") {
		t.Fatalf("in a session without commits: %v", err)
	}
	left("second", "third")
	noErr(t, undo("fourth", rw.UndoRequest{Call: rw.Call{Caller: "unknown"}})) // the newest is the undo itself
	left("first", "second", "third")
	noErr(t, undo("fourth", rw.UndoRequest{Call: rw.Call{Session: "second"}}))
	left("first", "third")
}

// TestAnotherConnectionIsNoOtherCall: an agent that connects again has the
// budget and the key that it had.
func TestAnotherConnectionIsNoOtherCall(t *testing.T) {
	s, dir := quick(t, nil)
	r := put("a.txt", "x", rw.ModeCreate)
	human(t, dir, "a.txt", "there")
	for _, name := range []string{"first", "second", "third"} {
		fails(s.SafeWrite(rw.WithCaller(background, "", name), r))(t, rw.ErrFileAlreadyExists)
	}
	fails(s.SafeWrite(rw.WithCaller(background, "", "fourth"), r))(t, rw.ErrRetryExhausted, "the fourth connection")
	r.Session = "named"
	fails(s.SafeWrite(background, r))(t, rw.ErrFileAlreadyExists, "a request that names another session")
	r = put("b.txt", "x", rw.ModeCreate)
	r.IdempotencyKey = "k"
	for _, name := range []string{"first", "second"} {
		must(s.SafeWrite(rw.WithCaller(background, "", name), r))(t)
	}
}

// TestSessionOfAContextIsCut: a name from the wire cannot break a row.
func TestLabelsOfAContextAreCut(t *testing.T) {
	s, _ := quick(t, nil)
	for in, want := range map[string]string{
		strings.Repeat("é", 150): strings.Repeat("é", 100), "a\xffb": "a\uFFFDb", strings.Repeat("x", 199) + "é": strings.Repeat("x", 199),
	} {
		r := must(s.SafeWrite(rw.WithCaller(background, in, in), put("a.txt", "x", rw.ModeOverwrite)))(t)
		if r.Receipt.Session != want || r.Receipt.Caller != want {
			t.Errorf("%q became %q and %q", in, r.Receipt.Caller, r.Receipt.Session)
		}
	}
}
