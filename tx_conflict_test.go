package resilientwrite_test

import (
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

const strangersText = "a stranger's work of an afternoon\n"

// strangerActs are the changes that another program may make to a file while no process
// has the store open.
var strangerActs = map[string]func(fs *simfs.FS, path string){
	"rewrites": func(fs *simfs.FS, path string) { fs.WriteFile(path, []byte(strangersText), 0o644) },
	"replaces": func(fs *simfs.FS, path string) { // as editors do: a new file gets the name
		fs.Remove(path)
		fs.WriteFile(path, []byte(strangersText), 0o644)
	},
	"appends": func(fs *simfs.FS, path string) {
		have, _ := fs.ReadFile(path)
		fs.WriteFile(path, append(have, strangersText...), 0o644)
	},
	"deletes": func(fs *simfs.FS, path string) { fs.Remove(path) },
}

// conflictDraft changes five files in five ways.
var conflictDraft = txDraft{
	name: "five",
	made: []rw.TxOp{txWrite("a.txt", longText, ""), txWrite("b.txt", longText, ""), txWrite("c.txt", "mark\n"+longText, ""), txWrite("e.txt", otherText, "")},
	ops: []rw.TxOp{
		txWrite("a.txt", otherText, rw.ModeOverwrite), txWrite("b.txt", otherText, rw.ModeAppend), txEdit("c.txt", "mark", "landmark"),
		txWrite("n/d.txt", longText+"new", ""), txDelete("e.txt"),
	},
}

// TestStrangersEditBetweenCrashAndRecovery: a transaction of five files is recorded and
// the machine dies while they get their names. Before the store is opened again,
// another program changes one of them, each in its turn. Its content is never touched,
// our version of that file is in history and the conflict in the journal and in the
// report, and the other files are rolled forward.
func TestStrangersEditBetweenCrashAndRecovery(t *testing.T) {
	for _, draft := range []txDraft{conflictDraft} {
		for _, level := range []rw.SyncLevel{rw.SyncFull, rw.SyncJournal} {
			x := draft.shape()
			x.opts.Sync = level
			t.Run(draft.name+"/"+string(level), func(t *testing.T) {
				t.Parallel()
				conflicts := map[string]int{}
				for n := 0; ; n += min(txStep(), 12) { // the commit point is never far from one
					fs, _, over := x.broken(t, n)
					for loss, name := range map[simfs.Loss]string{simfs.None: "none", simfs.All: "all", simfs.Some: "some"} {
						if !x.goesForward(t, fs.Crash(uint64(n), loss)) {
							continue
						}
						for p := range x.future {
							for act, change := range strangerActs {
								disk := fs.Crash(uint64(n), loss)
								was := files(disk)
								change(disk, p)
								conflicts[p] += x.judgeStranger(t, disk, was, p)
								if t.Failed() {
									t.Fatalf("dead at operation %d, lost %s, a stranger %s %s", n, name, act, p)
								}
							}
						}
					}
					if over {
						break
					}
				}
				t.Logf("conflicts: %v", conflicts)
				for p := range x.future {
					if conflicts[p] == 0 {
						t.Errorf("%s never came into conflict", p)
					}
				}
			})
		}
	}
}

// goesForward reports whether recovery finishes the transaction on a disk.
func (x txShape) goesForward(t *testing.T, disk *simfs.FS) bool {
	t.Helper()
	s := x.open(t, disk, "0002")
	defer s.Close(background)
	return same(files(disk), x.new)
}

// fileNow is a file as it is, was or should be.
type fileNow struct {
	content string
	there   bool
}

func at(files map[string]string, path string) fileNow {
	content, there := files[path]
	return fileNow{content, there}
}

// judgeStranger opens a disk on which another program has changed path; was is the
// content before. It returns how often our version was not published.
func (x txShape) judgeStranger(t *testing.T, disk *simfs.FS, was map[string]string, path string) int {
	t.Helper()
	theirs, mine := at(files(disk), path), at(x.new, path)
	published := at(was, path) == mine
	want, conflict := x.behindStranger(published, theirs, path)

	s := x.open(t, disk, "0002")
	r, got := s.Recovery(), files(disk)
	if x.appended(path) && at(got, path).content == mine.content+strangersText {
		want, conflict = at(got, path), never // the foreign content follows ours, which was torn
	}
	if published && theirs == at(x.old, path) && at(got, path) == theirs {
		want, conflict = theirs, may // the trace was lost, and so is the removed content
	}
	if at(got, path) != want {
		t.Errorf("published %v: found %.40v, want %.40v", published, at(got, path), want)
	}
	pair := x.movedWith(path)
	for p := range x.future {
		if p != path && p != pair && at(got, p) != at(x.new, p) {
			t.Errorf("%s was not rolled forward", p)
		}
	}
	if now := at(got, pair); pair != "" && now != at(x.new, pair) && now != at(was, pair) && now != theirs {
		t.Errorf("%s, which is moved with it, holds %.40v", pair, now)
	}
	n := 0
	for _, c := range r.Conflicts {
		if c.Path == path && published && c.Reason == "staged_bytes_lost" {
			conflict = may // its trace was taken away already, those of others were not
			continue
		}
		if c.Path != path && c.Path != pair || c.Reason != "changed_by_somebody_else" || c.Seq == 0 {
			t.Errorf("conflict %+v", c)
		}
		if c.Path == path {
			n++
			x.keepsOurs(t, s, disk, path)
		}
	}
	if conflict == always && n != 1 || conflict == never && n != 0 || len(r.Aborted) > 0 {
		t.Errorf("published %v, a conflict %s: %+v", published, conflict, r)
	}
	c := must(s.Check(background, rw.CheckRequest{Deep: true}))(t)
	for _, p := range c.Problems {
		// An edit of a file that was already in place is reported by the deep check.
		if p.Code != "file_differs" || p.Path != path && p.Path != pair || n > 0 && p.Path == path {
			t.Errorf("check: %+v", p)
		}
	}
	noErr(t, s.Close(background))
	if t.Failed() {
		t.Logf("found %s\n was %s\n new %s\n recovery %+v", brief(got), brief(was), brief(x.new), r)
	}
	return n
}

// How certain it is that a conflict is reported.
const (
	never  = "never"
	may    = "may be"
	always = "always"
)

// behindStranger returns the content that path must have after the store was opened,
// and whether a conflict is reported.
func (x txShape) behindStranger(published bool, theirs fileNow, path string) (fileNow, string) {
	old, mine := at(x.old, path), at(x.new, path)
	switch {
	case theirs == mine, theirs == old: // the second as without a foreign change
		return mine, never
	case x.appended(path):
		// An append leaves no trace: only the bytes show it.
		if strings.HasPrefix(theirs.content, mine.content) {
			return theirs, never
		}
		if published {
			return theirs, may
		}
		return theirs, always
	case !published:
		return theirs, always
	case !old.there, !mine.there:
		// A name that was set and then removed by another program cannot be
		// distinguished from one that was never set.
		return theirs, may
	}
	return theirs, never
}

func (x txShape) appended(path string) bool {
	old, mine := at(x.old, path), at(x.new, path)
	return old.there && mine.there && strings.HasPrefix(mine.content, old.content)
}

// movedWith is the other name of a file that is moved.
func (x txShape) movedWith(path string) string {
	for _, op := range x.ops {
		switch path {
		case op.Path:
			return op.To
		case op.To:
			return op.Path
		}
	}
	return ""
}

// keepsOurs looks for our version of a file that another program changed, and for its
// row.
func (x txShape) keepsOurs(t *testing.T, s *rw.Store, disk *simfs.FS, path string) {
	t.Helper()
	if ours := at(x.new, path); ours.there {
		if old := at(x.old, path); old.there {
			ours.content = strings.TrimPrefix(ours.content, old.content) // of an append, the bytes to be added
		}
		if kept, _ := disk.ReadFile(rw.StateDirName + "/history/" + hash(ours.content)[:2] + "/" + hash(ours.content)); string(kept) != ours.content {
			t.Errorf("our version of %s is not in history", path)
		}
	}
	tail := must(s.JournalTail(background, rw.JournalTailRequest{FilterPath: path}))(t)
	if last := tail.Entries[len(tail.Entries)-1]; last.Kind != "conflict" || last.Path != path {
		t.Errorf("the newest row of %s is %+v", path, last)
	}
}
