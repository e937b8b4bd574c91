package resilientwrite_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

const allowSamples = "gate: {mode: block, overrides: any}\nallow: [{path: 'testdata/**', reason: samples}, {path: 'more/**', pattern: aws_access_key_id, reason: samples}]\n"

// place writes a file as another program would.
func place(t *testing.T, dir, name, text string) {
	t.Helper()
	full := filepath.Join(dir, filepath.FromSlash(name))
	noErr(t, os.MkdirAll(filepath.Dir(full), 0o755))
	noErr(t, os.WriteFile(full, []byte(text), 0o644))
}

func holds(t *testing.T, dir, name, want string) {
	t.Helper()
	if got, _ := os.ReadFile(filepath.Join(dir, filepath.FromSlash(name))); string(got) != want {
		t.Errorf("%s holds %d bytes, want %d", name, len(got), len(want))
	}
}

// TestAMoveOutOfAnAllowedPathIsJudgedAsAWrite: by the single verb, of a
// directory, in a transaction and as a version of the other name.
func TestAMoveOutOfAnAllowedPathIsJudgedAsAWrite(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	s := openWith(t, dir, allowSamples, nil)
	key, harmless := "id "+awsID(500)+"\n", "nothing\n"
	passes(t, s, put("testdata/key.txt", key, rw.ModeCreate))
	passes(t, s, put("testdata/d/deep/key.txt", key+"x\n", rw.ModeCreate))
	passes(t, s, put("testdata/d/plain.txt", harmless, rw.ModeCreate))
	for to, calls := range map[string]func() error{
		"src/key.txt": func() error {
			_, err := s.Move(background, rw.MoveRequest{Path: "testdata/key.txt", To: "src/key.txt"})
			return err
		},
		"src/d/deep/key.txt": func() error {
			_, err := s.Move(background, rw.MoveRequest{Path: "testdata/d", To: "src/d"})
			return err
		},
		"src/tx.txt": func() error {
			_, err := s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "src/a.txt", Content: []byte("a")}, {Op: "move", Path: "testdata/key.txt", To: "src/tx.txt"}}})
			return err
		},
	} {
		err := calls()
		if e := rw.AsError("", err); !errors.Is(err, rw.ErrRiskBlocked) || e.Path != to || e.Context["draft_ref"] != nil || strings.Join(e.Patterns, "") != "api_key" {
			t.Errorf("%s: %v %+v", to, err, e)
		}
	}
	holds(t, dir, "testdata/key.txt", key)
	holds(t, dir, "testdata/d/plain.txt", harmless)
	if _, err := os.Stat(filepath.Join(dir, "src")); err == nil {
		t.Error("a refused move left a directory")
	}
	// Another path that allows it, and one where the caller takes the risk.
	must(s.Move(background, rw.MoveRequest{Path: "testdata/key.txt", To: "more/key.txt"}))(t)
	r, err := s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{{Op: "move", Path: "more/key.txt", To: "src/key.txt"}}, Call: rw.Call{AcceptRisk: "a sample"}})
	if err != nil || !strings.Contains(reasons(r.Warnings), rw.WarnRiskAccepted) {
		t.Errorf("%v %v", err, r.Warnings)
	}
	check(t, s, true)
}

// TestAVersionOfAnAllowedPathIsJudgedWhereItComesBack: redacted, moved out, and
// the older version asked for under the new name.
func TestAVersionOfAnAllowedPathIsJudgedWhereItComesBack(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	s := openWith(t, dir, allowSamples, nil)
	first := passes(t, s, put("testdata/key.txt", "id "+awsID(501)+"\n", rw.ModeCreate))
	passes(t, s, put("testdata/key.txt", "id none\n", rw.ModeOverwrite))
	must(s.Move(background, rw.MoveRequest{Path: "testdata/key.txt", To: "src/key.txt"}))(t)
	fails(s.Restore(background, rw.RestoreRequest{Path: "src/key.txt", SHA256: first.SHA256}))(t, rw.ErrRiskBlocked)
	holds(t, dir, "src/key.txt", "id none\n")
	if _, err := s.Undo(background, rw.UndoRequest{N: 2}); err != nil { // back to where it was allowed
		t.Error(err)
	}
	check(t, s, true)
}

// TestAMoveOfWhatWasThereIsNotRefused: without an exception at the old path
// nothing refuses a move, and a large file moves unseen with a warning.
func TestAMoveOfWhatWasThereIsNotRefused(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	s := openWith(t, dir, allowSamples, nil)
	place(t, dir, "src/old.txt", "id "+awsID(502)+"\n")
	if r, err := s.Move(background, rw.MoveRequest{Path: "src/old.txt", To: "src/new.txt"}); err != nil || len(r.Warnings) > 0 {
		t.Errorf("%v %v", err, r.Warnings)
	}
	large := "id " + awsID(503) + "\n" + strings.Repeat("filler line\n", 9<<20/12)
	place(t, dir, "testdata/large.txt", large)
	if r, err := s.Move(background, rw.MoveRequest{Path: "testdata/large.txt", To: "src/large.txt"}); err != nil || reasons(r.Warnings) != rw.WarnNotScanned {
		t.Errorf("%v %v", err, r.Warnings)
	}
}

// TestAMoveIntoTheSightOfGitIsTold: a secret that leaves an ignored path, with
// the workspace at the top of the repository and below it.
func TestAMoveIntoTheSightOfGitIsTold(t *testing.T) {
	t.Parallel()
	for _, inside := range []string{"", "sub/workspace"} {
		top := ramspace(t)
		noErr(t, os.MkdirAll(filepath.Join(top, ".git"), 0o755))
		dir := filepath.Join(top, inside)
		place(t, top, ".gitignore", "*.env\n/"+strings.TrimPrefix(inside+"/private/", "/")+"\n")
		place(t, dir, "conf/.gitignore", "!kept.env\n")
		s := openWith(t, dir, "gate: {mode: block}\n", nil)
		for i, row := range []struct{ from, to, want string }{
			{"a.env", "a.txt", rw.WarnSecretUnignored},
			{"b.env", "c/b.env", ""}, // still ignored
			{"private/d.txt", "d.txt", rw.WarnSecretUnignored},
			{"private/e.env", "conf/kept.env", rw.WarnSecretUnignored},
			{"f.txt", "g.txt", ""}, // git saw it before
		} {
			place(t, dir, row.from, "id "+awsID(510+uint64(i))+"\n")
			r, err := s.Move(background, rw.MoveRequest{Path: row.from, To: row.to})
			if err != nil || reasons(r.Warnings) != row.want {
				t.Errorf("%q: %s: %v %v, want %q", inside, row.from, err, r.Warnings, row.want)
			}
		}
		place(t, dir, "h.env", "nothing\n")
		if r, err := s.Move(background, rw.MoveRequest{Path: "h.env", To: "h.txt"}); err != nil || len(r.Warnings) > 0 {
			t.Errorf("%v %v", err, r.Warnings)
		}
		s.Close(background)
	}
}
