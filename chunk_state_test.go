package resilientwrite_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	rw "github.com/resilientwrite/resilientwrite"
)

// wreckedManifests are unusable manifests, and ways to create them.
var wreckedManifests = map[string]func(path string) error{
	"deleted":  os.Remove,
	"empty":    func(p string) error { return os.Truncate(p, 0) },
	"torn":     func(p string) error { return os.Truncate(p, 60) },
	"garbage":  func(p string) error { return os.WriteFile(p, []byte("\x00\xff}{ not json"), 0o600) },
	"an array": func(p string) error { return os.WriteFile(p, []byte("[1,2]"), 0o600) },
	"null":     func(p string) error { return os.WriteFile(p, []byte("null"), 0o600) },
	"other":    func(p string) error { return os.WriteFile(p, []byte(`{"format":"resilientwrite.chunks/1"}`), 0o600) },
	"python's": func(p string) error {
		return os.WriteFile(p, []byte(`{"session": "s", "created": 1.5, "parts": 3}`), 0o600)
	},
	"edited":    func(p string) error { return editFile(p, `"bytes":3`, `"bytes":4`) },
	"directory": func(p string) error { return errors.Join(os.Remove(p), os.MkdirAll(filepath.Join(p, "x"), 0o700)) },
	"link":      func(p string) error { return errors.Join(os.Remove(p), os.Symlink("/etc/passwd", p)) },
}

func editFile(path, old, new string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(strings.Replace(string(data), old, new, 1)), 0o600)
}

// TestManifestIsACache: whatever happens to the manifest, the chunks exist and the
// session continues.
func TestManifestIsACache(t *testing.T) {
	t.Parallel()
	s, dir := chunkStore(t)
	for name, wreck := range wreckedManifests {
		t.Run(name, func(t *testing.T) {
			for _, piece := range []string{"one", "two", ""} {
				addChunk(t, s, "s", piece)
			}
			noErr(t, wreck(chunkDir(dir, "s", "manifest.json")))
			st := chunkStatus(t, s, "s")
			if diff := cmp.Diff([]int{1, 2, 3}, st.PresentIndices); diff != "" || st.Bytes != 6 || st.Sealed {
				t.Errorf("%s %+v", diff, st)
			}
			if p, err := s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: "s"}); err != nil || string(p.Content) != "onetwo" {
				t.Errorf("%v %+v", err, p)
			}
			if l, err := s.ChunkList(background, rw.ChunkListRequest{}); err != nil || l.Count != 1 {
				t.Errorf("%v %+v", err, l)
			}
			if r := addChunk(t, s, "s", "four"); r.Index != 4 {
				t.Errorf("index %d", r.Index)
			}
			composed(t, s, "s", "out.txt")
			fileIs(t, dir, "out.txt", "onetwofour")
			noErr(t, wreck(chunkDir(dir, "s", "manifest.json")))
			// The journal still knows that it was composed – unless the other
			// implementation has taken the session over since.
			if st := chunkStatus(t, s, "s"); st.Sealed != (name != "python's") {
				t.Errorf("sealed %v", st.Sealed)
			}
			composed(t, s, "s", "out.txt")
			if r, err := s.ChunkReset(background, rw.ChunkResetRequest{Session: "s"}); err != nil || r.Removed != 4 {
				t.Errorf("%v %+v", err, r)
			}
			if _, err := os.Stat(chunkDir(dir, "s")); err == nil {
				t.Error("the directory is still there")
			}
			check(t, s, false)
		})
	}
}

// tampers are what can happen to a piece.
var tampers = map[string]func(p string) error{
	"byte":   func(p string) error { return os.WriteFile(p, []byte("twO"), 0o600) },
	"cut":    func(p string) error { return os.Truncate(p, 1) },
	"longer": func(p string) error { return os.WriteFile(p, []byte("two and more"), 0o600) },
	"link":   func(p string) error { return errors.Join(os.Remove(p), os.Symlink("part-001.txt", p)) },
}

// TestPartChangedOnDisk: a changed chunk is detected in any state of the manifest,
// named by its number, and can be sent again.
func TestPartChangedOnDisk(t *testing.T) {
	t.Parallel()
	s, dir := chunkStore(t)
	for name, wreck := range wreckedManifests {
		t.Run(name, func(t *testing.T) {
			for what, tamper := range tampers {
				switch {
				case name == "python's": // then its pieces are its own
					continue
				case what == "link" && name != "edited": // then it is not a chunk at all
					continue
				case what == "link":
					wreck = func(string) error { return nil }
				}
				for _, piece := range []string{"one", "two", "three"} {
					addChunk(t, s, what, piece)
				}
				noErr(t, errors.Join(wreck(chunkDir(dir, what, "manifest.json")), tamper(chunkDir(dir, what, "part-002.txt"))))
				addChunk(t, s, what, "four") // a write in between takes nothing over
				driftIsRefused(t, s, dir, what)
				must(s.ChunkWrite(background, rw.ChunkWriteRequest{Session: what, Index: 2, Content: []byte("two")}))(t, what)
				composed(t, s, what, "deep/"+what)
				fileIs(t, dir, "deep/"+what, "onetwothreefour")
				must(s.ChunkReset(background, rw.ChunkResetRequest{Session: what}))(t)
			}
			check(t, s, false)
		})
	}
}

func driftIsRefused(t *testing.T, s *rw.Store, dir, session string) {
	t.Helper()
	for _, call := range []func() error{
		func() error {
			_, err := s.ChunkCompose(background, rw.ChunkComposeRequest{Session: session, OutputPath: "deeper/out.txt"})
			return err
		},
		func() error {
			_, err := s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: session})
			return err
		},
	} {
		e := chunkRefused(t, s, dir, rw.ErrHashDriftOnRead, call)
		if e.Kind != rw.ErrWriteCorruption || e.Context["index"] != 2 {
			t.Errorf("%+v", e)
		}
	}
}

// TestPiecesOfAnotherProgram: a session begun by the Python implementation continues,
// and chunks that it adds in between are adopted.
func TestPiecesOfAnotherProgram(t *testing.T) {
	t.Parallel()
	s, dir := chunkStore(t)
	os.MkdirAll(chunkDir(dir, "py"), 0o700)
	for name, content := range map[string]string{
		"part-001.txt": "one", "part-002.txt": "two", "manifest.json": `{"session": "py", "total_expected": null}`,
		"part-1.txt": "no piece", "part-0003.txt": "no piece", "part-000.txt": "no piece", "notes.txt": "no piece", "part-002.txt.tmp": "no piece",
	} {
		os.WriteFile(chunkDir(dir, "py", name), []byte(content), 0o600)
	}
	if st := chunkStatus(t, s, "py"); st.NextIndex != 3 || st.Bytes != 6 {
		t.Errorf("%+v", st)
	}
	addChunk(t, s, "py", "three")
	os.WriteFile(chunkDir(dir, "py", "part-004.txt"), []byte("four"), 0o600)
	if r := addChunk(t, s, "py", "five"); r.Index != 5 {
		t.Errorf("index %d", r.Index)
	}
	// It replaces a chunk, and rewrites its manifest.
	os.WriteFile(chunkDir(dir, "py", "part-003.txt"), []byte("THREE"), 0o600)
	os.WriteFile(chunkDir(dir, "py", "manifest.json"), []byte(`{"session": "py"}`), 0o600)
	composed(t, s, "py", "out.txt")
	fileIs(t, dir, "out.txt", "onetwoTHREEfourfive")
	// From here on the manifest is ours.
	os.WriteFile(chunkDir(dir, "py", "part-004.txt"), []byte("FOUR"), 0o600)
	chunkRefused(t, s, dir, rw.ErrHashDriftOnRead, func() error {
		_, err := s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: "py"})
		return err
	})
	if r, err := s.ChunkReset(background, rw.ChunkResetRequest{Session: "py"}); err != nil || r.Removed != 5 {
		t.Errorf("%v %+v", err, r)
	}
	if data, _ := os.ReadFile(chunkDir(dir, "py", "notes.txt")); string(data) != "no piece" {
		t.Error("a reset removed a file that is no piece")
	}
	if chunkStatus(t, s, "py").Exists {
		t.Error("still there")
	}
	check(t, s, false)
}

// TestResetBeginsAnew: all chunks are removed, even more than one commit can remove,
// and none of them is part of a later session.
func TestResetBeginsAnew(t *testing.T) {
	t.Parallel()
	s, dir := chunkStore(t)
	if r, err := s.ChunkReset(background, rw.ChunkResetRequest{Session: "s"}); err != nil || r.Existed || r.Removed != 0 || r.Status != rw.StatusUnchanged {
		t.Fatalf("%v %+v", err, r)
	}
	os.MkdirAll(chunkDir(dir, "s"), 0o700)
	for i := range 600 {
		os.WriteFile(chunkDir(dir, "s", fmt.Sprintf("part-%03d.txt", i+1)), []byte("old"), 0o600)
	}
	addChunk(t, s, "s", "last")
	addChunk(t, s, "neighbour", "stays")
	req := rw.ChunkResetRequest{Session: "s", Call: rw.Call{IdempotencyKey: "reset-1"}}
	r, err := s.ChunkReset(background, req)
	if err != nil || !r.Existed || r.Removed != 601 || r.JournalID == "" || len(r.Warnings) != 0 {
		t.Fatalf("%v %+v", err, r)
	}
	if _, err := os.Stat(chunkDir(dir, "s")); err == nil {
		t.Error("the directory is still there")
	}
	addChunk(t, s, "s", "new")
	// The reset whose reply was lost does not touch the new session.
	if again, err := s.ChunkReset(background, req); err != nil || again.Status != rw.StatusReplayed || !again.Existed {
		t.Fatalf("%v %+v", err, again)
	}
	composed(t, s, "s", "out.txt")
	fileIs(t, dir, "out.txt", "new")
	if st := chunkStatus(t, s, "neighbour"); st.NextIndex != 2 {
		t.Errorf("%+v", st)
	}
	tail := must(s.JournalTail(background, rw.JournalTailRequest{N: 1000}))(t)
	gone := 0
	for _, e := range tail.Entries {
		if e.Op == "delete" {
			gone++
		}
	}
	if gone != 602 { // the pieces and the manifest
		t.Errorf("%d rows of removals", gone)
	}
	check(t, s, true)
}

// TestComposeCleansUp: the session goes once the file is there, its name is
// free, and a call that is repeated learns what happened.
func TestComposeCleansUp(t *testing.T) {
	t.Parallel()
	s, dir := chunkStore(t)
	addChunk(t, s, "s", "one")
	addChunk(t, s, "s", "two")
	req := rw.ChunkComposeRequest{Session: "s", OutputPath: "out.txt", Cleanup: true, Call: rw.Call{IdempotencyKey: "c1"}}
	r, err := s.ChunkCompose(background, req)
	if err != nil || !r.CleanedUp || r.ChunkCount != 2 || len(r.Warnings) != 0 {
		t.Fatalf("%v %+v", err, r)
	}
	fileIs(t, dir, "out.txt", "onetwo")
	if _, err := os.Stat(chunkDir(dir, "s")); err == nil || chunkStatus(t, s, "s").Exists {
		t.Error("the session is still there")
	}
	e := chunkRefused(t, s, dir, rw.ErrSessionNotFound, func() error {
		_, err := s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "s", OutputPath: "out.txt"})
		return err
	})
	if !strings.HasPrefix(e.Hint, "already_applied") || !strings.Contains(e.Hint, "out.txt") {
		t.Errorf("hint %q", e.Hint)
	}
	addChunk(t, s, "s", "another text")
	again, err := s.ChunkCompose(background, req)
	if err != nil || again.Status != rw.StatusReplayed || again.SHA256 != r.SHA256 || again.JournalID != r.JournalID || again.Bytes != 6 {
		t.Fatalf("%v %+v", err, again)
	}
	if st := chunkStatus(t, s, "s"); st.NextIndex != 2 {
		t.Errorf("the repeated call touched the new session: %+v", st)
	}
	composed(t, s, "s", "two.txt")
	// A sealed session can be cleaned up later by composing it once more.
	if r, err := s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "s", OutputPath: "two.txt", Cleanup: true}); err != nil || !r.CleanedUp {
		t.Fatalf("%v %+v", err, r)
	}
	if l, err := s.ChunkList(background, rw.ChunkListRequest{}); err != nil || l.Count != 0 {
		t.Errorf("%v %+v", err, l)
	}
	fileIs(t, dir, "two.txt", "another text")
	check(t, s, true)
}

// TestLinkedSessionDirectories: a symbolic link in the place of a directory of
// sessions is refused, not followed, and hides no other session.
func TestLinkedSessionDirectories(t *testing.T) {
	t.Parallel()
	outside := t.TempDir()
	os.WriteFile(filepath.Join(outside, "part-001.txt"), []byte("outside"), 0o600)
	tryAll := func(t *testing.T, s *rw.Store, dir, session string) {
		for _, call := range []func() error{
			func() error {
				_, err := s.ChunkAppend(background, rw.ChunkAppendRequest{Session: session, Content: []byte("x")})
				return err
			},
			func() error {
				_, err := s.ChunkCompose(background, rw.ChunkComposeRequest{Session: session, OutputPath: "o"})
				return err
			},
			func() error {
				_, err := s.ChunkReset(background, rw.ChunkResetRequest{Session: session})
				return err
			},
			func() error {
				_, err := s.ChunkStatus(background, rw.ChunkStatusRequest{Session: session})
				return err
			},
			func() error {
				_, err := s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: session})
				return err
			},
		} {
			chunkRefused(t, s, dir, rw.ErrBadStateDir, call)
		}
		if data, _ := os.ReadFile(filepath.Join(outside, "part-001.txt")); string(data) != "outside" {
			t.Error("a file outside was changed")
		}
		if names, _ := os.ReadDir(outside); len(names) != 1 {
			t.Errorf("%d files outside", len(names))
		}
	}
	s, dir := chunkStore(t)
	addChunk(t, s, "good", "x")
	os.Symlink(outside, chunkDir(dir, "linked"))
	tryAll(t, s, dir, "linked")
	if l, err := s.ChunkList(background, rw.ChunkListRequest{}); err != nil || l.Count != 1 || l.Sessions[0].Session != "good" {
		t.Errorf("%v %+v", err, l)
	}
	composed(t, s, "good", "good.txt")

	s, dir = chunkStore(t)
	os.Symlink(outside, chunkDir(dir))
	tryAll(t, s, dir, "s")
	fails(s.ChunkList(background, rw.ChunkListRequest{}))(t, rw.ErrBadStateDir)
}

// TestOddThingsInTheWay: an entry with the name of a chunk that is not a chunk is moved
// to quarantine when the chunk is sent.
func TestOddThingsInTheWay(t *testing.T) {
	t.Parallel()
	s, dir := chunkStore(t)
	addChunk(t, s, "s", "one")
	os.Mkdir(chunkDir(dir, "s", "part-002.txt"), 0o700)
	os.WriteFile(chunkDir(dir, "s", "part-002.txt", "kept"), []byte("kept"), 0o600)
	if r := addChunk(t, s, "s", "two"); r.Index != 2 {
		t.Errorf("index %d", r.Index)
	}
	composed(t, s, "s", "out.txt")
	fileIs(t, dir, "out.txt", "onetwo")
	found, _ := filepath.Glob(filepath.Join(dir, rw.StateDirName, "quarantine", "chunk-*", "kept"))
	if len(found) != 1 {
		t.Errorf("in quarantine: %v", found)
	}
	check(t, s, true)
}

// TestResetWhileOthersAppend: no call is refused, and the chunks that remain were sent
// after the last reset.
func TestResetWhileOthersAppend(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	stores := []*rw.Store{open(t, dir, &rw.Options{Sync: rw.SyncOff}), open(t, dir, &rw.Options{Sync: rw.SyncOff})}
	var wg sync.WaitGroup
	for g := range 3 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := range 30 {
				if _, err := stores[g%2].ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte(fmt.Sprintf("<%d.%d>", g, i))}); err != nil {
					t.Errorf("append: %v %v", err, errors.Unwrap(err))
				}
			}
		}()
	}
	for range 15 {
		if r, err := stores[1].ChunkReset(background, rw.ChunkResetRequest{Session: "s"}); err != nil || len(r.Warnings) > 0 {
			t.Errorf("reset: %v %v %v", err, errors.Unwrap(err), r.Warnings)
		}
		if _, err := stores[0].ChunkPreview(background, rw.ChunkPreviewRequest{Session: "s"}); err != nil && !errors.Is(err, rw.ErrSessionNotFound) && !errors.Is(err, rw.ErrRetryExhausted) {
			t.Errorf("preview: %v %v", err, errors.Unwrap(err))
		}
	}
	wg.Wait()
	addChunk(t, stores[0], "s", "last")
	st := chunkStatus(t, stores[1], "s")
	if st.MissingCount != 0 || st.NextIndex != len(st.PresentIndices)+1 {
		t.Errorf("%+v", st)
	}
	composed(t, stores[1], "s", "out.txt")
	data, _ := os.ReadFile(filepath.Join(dir, "out.txt"))
	for g := range 3 {
		for i := range 30 {
			if n := strings.Count(string(data), fmt.Sprintf("<%d.%d>", g, i)); n > 1 {
				t.Errorf("<%d.%d> is there %d times", g, i, n)
			}
		}
	}
	check(t, stores[0], true)
}

// TestRefusedSessionMayChange: calls that were refused too often are executed again
// once the session has changed.
func TestRefusedSessionMayChange(t *testing.T) {
	t.Parallel()
	s, dir := chunkStore(t)
	preview := func() error {
		_, err := s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: "s"})
		return err
	}
	appendTo := func() error {
		_, err := s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte("x"), ExpectIndex: 2})
		return err
	}
	for range 3 {
		chunkRefused(t, s, dir, rw.ErrSessionNotFound, preview)
		chunkRefused(t, s, dir, rw.ErrIndexMismatch, appendTo)
	}
	chunkRefused(t, s, dir, rw.ErrRetryExhausted, preview)
	chunkRefused(t, s, dir, rw.ErrRetryExhausted, appendTo)
	addChunk(t, s, "s", "one")
	noErr(t, errors.Join(preview(), appendTo()))
}
