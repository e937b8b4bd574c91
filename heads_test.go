package resilientwrite_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// headCases are ways in which a file gets its newest version.
var headCases = []struct {
	name string
	make func(t *testing.T, s *rw.Store) // gives a.md the content want
	want string
}{
	{"create", func(t *testing.T, s *rw.Store) { write(t, s, "a.md", "created\n", rw.ModeCreate) }, "created\n"},
	{"empty", func(t *testing.T, s *rw.Store) { write(t, s, "a.md", "", rw.ModeCreate) }, ""},
	{"replace", func(t *testing.T, s *rw.Store) {
		write(t, s, "a.md", "created\n", rw.ModeCreate)
		write(t, s, "a.md", "replaced\n", rw.ModeOverwrite)
	}, "replaced\n"},
	{"append", func(t *testing.T, s *rw.Store) {
		write(t, s, "a.md", "created\n", rw.ModeCreate)
		write(t, s, "a.md", "appended\n", rw.ModeAppend)
	}, "created\nappended\n"},
	{"edit", func(t *testing.T, s *rw.Store) {
		write(t, s, "a.md", "created\n", rw.ModeCreate)
		must(s.Edit(background, rw.EditRequest{Path: "a.md", Edits: []rw.EditOp{{Old: "created", New: "edited"}}}))(t)
	}, "edited\n"},
	{"move", func(t *testing.T, s *rw.Store) {
		write(t, s, "b.md", "moved\n", rw.ModeCreate)
		must(s.Move(background, rw.MoveRequest{Path: "b.md", To: "a.md"}))(t)
	}, "moved\n"},
	{"transaction", func(t *testing.T, s *rw.Store) {
		noErr(t, s.CommitAll(background, put("a.md", "one of two\n", rw.ModeCreate), put("c.md", "two\n", rw.ModeCreate)))
	}, "one of two\n"},
	{"64 KiB", func(t *testing.T, s *rw.Store) {
		write(t, s, "a.md", strings.Repeat("y", 64<<10), rw.ModeCreate)
	}, strings.Repeat("y", 64<<10)},
	{"large", func(t *testing.T, s *rw.Store) {
		write(t, s, "a.md", strings.Repeat("large\n", 20_000), rw.ModeCreate)
	}, strings.Repeat("large\n", 20_000)},
	{"large, added to in place", func(t *testing.T, s *rw.Store) {
		write(t, s, "a.md", strings.Repeat("large\n", 200_000), rw.ModeCreate)
		write(t, s, "a.md", "more\n", rw.ModeAppend)
	}, strings.Repeat("large\n", 200_000) + "more\n"},
}

// TestTheNewestVersionIsKept: the last written content can be restored after a shell
// has removed or changed the file, at every level, before a Sync and after it, and by
// the next process.
func TestTheNewestVersionIsKept(t *testing.T) {
	shell := map[string]string{"removed": "rm a.md", "changed": "sed -i '1s/.*/changed/' a.md", "truncated": ": > a.md"}
	for _, level := range []rw.SyncLevel{rw.SyncFull, rw.SyncJournal, rw.SyncOff} {
		for _, c := range headCases {
			for how, command := range shell {
				for _, then := range []string{"at once", "synced", "reopened"} {
					if short() && (level != rw.SyncFull && how != "removed" || how == "truncated" && then == "at once") {
						continue
					}
					if how == "truncated" && then == "at once" && len(c.want) > 64<<10 {
						continue // in place, before the copy: the bytes are gone
					}
					name := fmt.Sprint(level, " ", c.name, " ", how, " ", then)
					dir := workspace(t)
					s := open(t, dir, &rw.Options{Sync: level})
					c.make(t, s)
					switch then {
					case "synced":
						noErr(t, s.Sync(background))
					case "reopened":
						noErr(t, s.Close(background))
						s = open(t, dir, &rw.Options{Sync: level})
					}
					sh := exec.Command("sh", "-c", command)
					sh.Dir = dir
					noErr(t, sh.Run())
					r, err := s.Restore(background, rw.RestoreRequest{Path: "a.md", SHA256: digest(hash(c.want)), Force: true})
					if err != nil {
						t.Errorf("%s: %v", name, err)
					} else if got, _ := os.ReadFile(filepath.Join(dir, "a.md")); string(got) != c.want {
						t.Errorf("%s: the file holds %.20q (%s)", name, got, r.Status)
					}
					noErr(t, s.Close(background))
				}
			}
		}
	}
}

// TestHeadNotKept: above keep_head_max the newest version is not copied, and History
// reports that until it is replaced. If files can be cloned it is kept.
func TestHeadNotKept(t *testing.T) {
	for _, clones := range []bool{false, true} {
		fs := simfs.New()
		fs.Clones = clones
		fs.WriteFile(rw.StateDirName+"/policy.yaml", []byte("history: {keep_head_max: 100KiB}\n"), 0o600)
		s := must(rw.OpenSim(fs, nil, rw.Sim{}))(t)
		text := map[string]string{"small.md": strings.Repeat("s", 100<<10), "large.md": strings.Repeat("l", 100<<10+1)}
		for _, path := range []string{"small.md", "large.md"} {
			write(t, s, path, text[path], rw.ModeCreate)
		}
		for path, kept := range map[string]bool{"small.md": true, "large.md": clones} {
			h := must(s.History(background, rw.HistoryRequest{Path: path}))(t)
			if v := h.Versions[0]; v.HeadNotKept == kept || !v.Available {
				t.Errorf("clones %v, %s: %+v", clones, path, v)
			}
			check(t, s, true)
			fs.Remove(path)
			h = must(s.History(background, rw.HistoryRequest{Path: path}))(t)
			if v := h.Versions[0]; v.Available != kept {
				t.Errorf("clones %v, %s removed: %+v", clones, path, v)
			}
			write(t, s, path, text[path], rw.ModeCreate)
		}
		noErr(t, s.Close(background))
	}
}

// TestHotPathKeepsFewVersions: a path that is written all the time has no more
// objects than versions are kept, with the newest one.
func TestHotPathKeepsFewVersions(t *testing.T) {
	for _, most := range []int{1, 2, 10} {
		dir := withHistoryPolicy(t, fmt.Sprintf("{max_versions: %d}", most))
		s := open(t, dir, nil)
		for i := range 100 {
			write(t, s, "a.md", fmt.Sprintf("version %d", i), rw.ModeOverwrite)
		}
		noErr(t, s.Sync(background))
		compact(t, s, rw.CompactRequest{})
		if n := kept(t, dir); n > most || n < min(most, 2) {
			t.Errorf("max_versions %d: %d objects", most, n)
		}
		check(t, s, true)
		noErr(t, os.Remove(filepath.Join(dir, "a.md")))
		h := must(s.History(background, rw.HistoryRequest{Path: "a.md", N: 3}))(t)
		if !h.Versions[1].Available || h.Versions[0].Available != (most > 1) {
			t.Errorf("max_versions %d: %+v", most, h.Versions)
		}
	}
}

// TestAddedVersionsAreNotKeptTwice: of a file that only grows, history keeps the
// newest version, and the earlier ones can be had from it.
func TestAddedVersionsAreNotKeptTwice(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, nil)
	text := ""
	for i := range 20 {
		line := fmt.Sprintf("line %d\n", i)
		write(t, s, "log.md", line, rw.ModeAppend)
		text += line
		noErr(t, s.Sync(background))
	}
	compact(t, s, rw.CompactRequest{})
	if n := kept(t, dir); n != 1 {
		t.Errorf("%d objects", n)
	}
	noErr(t, os.Remove(filepath.Join(dir, "log.md")))
	h := must(s.History(background, rw.HistoryRequest{Path: "log.md", N: 20}))(t)
	for i, v := range h.Versions {
		r, err := s.Read(background, rw.ReadRequest{Path: "log.md", Version: v.Version})
		if err != nil || !strings.HasPrefix(text, string(r.Content)) || strings.Count(string(r.Content), "\n") != 20-i {
			t.Errorf("version %d: %v %q", i, err, r.Content)
		}
	}
}

// TestNewestVersionsNeverShareAnInode: an object is no second name of a file.
func TestNewestVersionsNeverShareAnInode(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, nil)
	write(t, s, "small.md", "small", rw.ModeCreate)
	write(t, s, "large.md", strings.Repeat("l", 200_000), rw.ModeCreate)
	noErr(t, s.Sync(background))
	for _, name := range []string{"small.md", "large.md"} {
		text := must(os.ReadFile(filepath.Join(dir, name)))(t)
		sha := hash(string(text))
		a := must(os.Stat(filepath.Join(dir, name)))(t)
		b := must(os.Stat(filepath.Join(dir, rw.StateDirName, "history", sha[:2], sha)))(t)
		if os.SameFile(a, b) || b.Size() != a.Size() {
			t.Errorf("%s: one file", name)
		}
	}
}

// TestEraseStopsCopiesOfOthers: content that another process has written but not yet
// copied is not added to history after an Erase.
func TestEraseStopsCopiesOfOthers(t *testing.T) {
	secret := leaked()
	fs := simfs.New()
	a := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001", Process: fs.NewProcess()}))(t)
	b := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0002"}))(t)
	write(t, a, "a.txt", "key = "+secret+"\n", rw.ModeCreate)
	fs.Remove("a.txt") // by a person, to be rid of it
	r := erase(t, b, rw.EraseRequest{Secret: []byte(secret)})
	if len(r.Left) > 0 || len(r.Workspace) > 0 {
		t.Errorf("%+v", r)
	}
	noErr(t, a.Sync(background))
	nowhere(t, fs.Tree(), secret)
	// Versions that are written later are copied as ever.
	write(t, a, "b.txt", "later\n", rw.ModeCreate)
	noErr(t, a.Sync(background))
	fs.Remove("b.txt")
	must(b.Restore(background, rw.RestoreRequest{Path: "b.txt", SHA256: digest(hash("later\n")), Force: true}))(t)
	noErr(t, a.Close(background))
	noErr(t, b.Close(background))
}

// TestEraseWritesOverSlots: a version that could not reach history is in the slot of a
// dead writer. Erase overwrites it before it removes it, and overwrites no other file.
func TestEraseWritesOverSlots(t *testing.T) {
	secret := leaked()
	fs := simfs.New()
	victim := fs.NewProcess()
	s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001", Process: victim}))(t)
	write(t, s, "a.txt", "before\n", rw.ModeCreate)
	fs.Before(func(op simfs.Op) { // it dies between the row and the file
		if op.Kind == "exchange" {
			victim.StopAt(0)
		}
	})
	s.SafeWrite(background, put("a.txt", "key = "+secret+"\n", rw.ModeOverwrite))
	fs.Before(nil)
	victim.Kill()
	fs.WriteFile("a.txt", []byte("by a person\n"), 0o644)
	full := true
	fs.Inject(func(op simfs.Op) simfs.Fault {
		if full && op.Kind == "create" && strings.Contains(op.Path, "/history/") {
			return simfs.Fault{Err: syscall.ENOSPC}
		}
		return simfs.Fault{}
	})
	s = must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0002"}))(t)
	if len(s.Recovery().Conflicts) != 1 || !strings.Contains(fmt.Sprint(fs.Tree()), secret) {
		t.Fatalf("%+v", s.Recovery())
	}
	fs.ResetTrace()
	r := erase(t, s, rw.EraseRequest{Secret: []byte(secret)})
	if len(r.Left) > 0 || fmt.Sprint(r.Places) != "[{staging 1}]" {
		t.Errorf("%+v", r)
	}
	nowhere(t, fs.Tree(), secret)
	wiped := ""
	for _, op := range fs.Trace() {
		if strings.Contains(op.Path, "/staging/0") || strings.Contains(op.Path, "/staging/") && strings.Contains(op.Path, "0001") {
			switch op.Kind {
			case "write", "sync", "truncate", "remove":
				wiped += op.Kind + " "
			}
		}
	}
	if !strings.Contains(wiped, "write sync truncate sync remove") {
		t.Errorf("the slot: %s", wiped)
	}
	full = false
	check(t, s, true)
	noErr(t, s.Close(background))
}
