//go:build unix

package resilientwrite_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

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
		lost       bool // the old content is lost: deep checks continue to report that
	}{
		{path: "chunks/loose", code: "unknown_file", directory: true},
		{path: "cursors", code: "unknown_file", directory: true},
		{path: "tmp-unused", directory: true}, // foreign: not checked
		{path: "chunks/up/part-001.txt", code: "unknown_file", lost: true},
		{path: "scratch/" + sha + ".bin", code: "scratch_damaged"},
		{path: "scratch/" + hash("never put") + ".bin", code: "scratch_damaged"},
		{path: "scratch/index.jsonl", code: "scratch_index_damaged"},
		{path: "checkpoints/point.json", code: "checkpoint_damaged"},
		{path: "checkpoints/other.json", code: "checkpoint_damaged"},
	} {
		for _, plant := range misplacings {
			if at.directory == (plant.name == "a directory") && at.directory || !at.directory && plant.name == "a file" {
				continue
			}
			t.Run(strings.ReplaceAll(at.path, "/", " ")+" is "+plant.name, func(t *testing.T) {
				t.Parallel()
				dir := ramspace(t)
				damageable(t, dir)
				os.Remove(statePath(dir, at.path))
				os.RemoveAll(statePath(dir, at.path))
				plant.plant(t, statePath(dir, at.path))
				os.WriteFile(statePath(dir, "chunks", "manifest garbage"), nil, 0o600) // after it in every order
				s := open(t, dir, &rw.Options{Caller: "tester", Sync: rw.SyncOff})
				for _, deep := range []bool{false, true} {
					got := must(s.Check(background, rw.CheckRequest{Deep: deep}))(t, "deep ", deep)
					if at.code != "" && !tellsOf(got, at.code, at.path) {
						t.Errorf("deep %v: %s is not named at %s: %+v", deep, at.code, at.path, got.Problems)
					}
					if !tellsOf(got, "unknown_file", "chunks/manifest garbage") {
						t.Errorf("deep %v: the check did not go on: %+v", deep, got.Problems)
					}
				}
				r := repairIt(t, s, rw.RepairRequest{})
				if !r.Clean && !(at.lost && len(r.Left) == 1 && r.Left[0].Code == "file_differs") {
					t.Errorf("left %+v, did %+v", r.Left, r.Actions)
				}
				if at.code != "" {
					stands, _ := filepath.Glob(statePath(dir, "quarantine", "*"))
					if !slices.ContainsFunc(stands, func(p string) bool {
						return !isPlainFile(p) || strings.Contains(p, "loose") || strings.Contains(p, "cursors")
					}) {
						t.Errorf("not in quarantine: %v", stands)
					}
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
	if r, err := s.ScratchRef(background, rw.ScratchRefRequest{Label: "again"}); err != nil || r.Entry.SHA256.String() != hash("kept apart") {
		t.Errorf("%+v %v", r, err)
	}
	must(s.Checkpoint(background, rw.CheckpointRequest{Name: "point", Data: []byte(`2`)}))(t)
	if got, err := s.CheckpointRead(background, rw.CheckpointReadRequest{Name: "point"}); err != nil || string(got.Data) != "2" {
		t.Errorf("%s %v", got.Data, err)
	}
	must(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "loose", Content: []byte("piece")}))(t)
	must(s.JournalSince(background, rw.JournalSinceRequest{Agent: "reader", Limit: 1}))(t)
}

// TestScratchPutReplacesAnIndexThatIsNoFile without a repair: the index is a cache, and
// an entry in its place is moved to quarantine/.
func TestScratchPutReplacesAnIndexThatIsNoFile(t *testing.T) {
	for _, plant := range misplacings[1:] {
		t.Run(plant.name, func(t *testing.T) {
			dir := ramspace(t)
			s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
			keep(t, s, rw.ScratchPutRequest{Content: []byte("one"), Label: "one"})
			os.Remove(inState(dir, "scratch", "index.jsonl"))
			plant.plant(t, inState(dir, "scratch", "index.jsonl"))
			keep(t, s, rw.ScratchPutRequest{Content: []byte("two"), Label: "two"})
			if l := listed(t, s); l.Count != 2 || l.Entries[0].Label != "two" {
				t.Errorf("%+v", l)
			}
			if !isPlainFile(inState(dir, "scratch", "index.jsonl")) {
				t.Error("the index is no file")
			}
			if odd, _ := filepath.Glob(inState(dir, "quarantine", "scratch-index*.odd")); len(odd) != 1 {
				t.Errorf("in quarantine: %v", odd)
			}
			check(t, s, true)
		})
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
	got, err := s.Check(background, rw.CheckRequest{Deep: true})
	if err != nil || !tellsOf(got, "unknown_file", "quarantine") || len(got.Problems) != 1 {
		t.Fatalf("%v %+v", err, got.Problems)
	}
	r := repairIt(t, s, rw.RepairRequest{})
	if r.Clean || len(r.Left) != 1 || !strings.Contains(r.Left[0].Why, "by hand") || len(r.Actions) > 0 {
		t.Errorf("%+v", r)
	}
}
