package resilientwrite_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/analytics"
	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// digest is the digest of a text that the tests have in hexadecimal digits.
func digest(text string) rw.Digest {
	d, err := call.ParseDigest(text)
	if err != nil {
		panic(err)
	}
	return d
}

func statePath(dir string, parts ...string) string {
	return filepath.Join(append([]string{dir, rw.StateDirName}, parts...)...)
}

const firstSegment = "00000000000000000001.jsonl"

// TestDamageIsNamed plants damage of every kind and expects Check to name it.
func TestDamageIsNamed(t *testing.T) {
	for _, row := range plantedDamages() {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			dir := workspace(t)
			damageable(t, dir)
			row.damage(t, dir)
			// Opened read-only: nothing is repaired before the check.
			r := open(t, dir, &rw.Options{ReadOnly: true})
			got := must(r.Check(background, admin.CheckRequest{Deep: true}))(t)
			named := func(p admin.CheckProblem) bool { return p.Code == row.code }
			expect(t, slices.ContainsFunc(got.Problems, named), "found %+v, want %s", got.Problems, row.code)
		})
	}
}

// TestBadLinesNeverHideOthers: whatever the journal contains, the store opens and
// writes, tail shows the other rows, and the bad ones are counted.
func TestBadLinesNeverHideOthers(t *testing.T) {
	t.Parallel()
	for name, tail := range map[string]string{
		"torn": "\n{\"seq\":4,\"ts\":\"2026", "garbage": "\nxxxxxxxx", "fused": "\n{}{}\n", "nul": "\x00\x00\x00x", "newlines": "\n\n\n",
		"json of another kind": "\n[1,2]\n", "a row without seq": "\n{\"kind\":\"commit\"}\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := workspace(t)
			s, _ := rw.Open(background, dir, nil)
			for i := range 3 {
				write(t, s, fmt.Sprintf("%d.txt", i), "x", rw.ModeCreate)
			}
			s.Close(background)
			f, _ := os.OpenFile(statePath(dir, "journal", firstSegment), os.O_APPEND|os.O_WRONLY, 0)
			f.WriteString(tail)
			f.Close()
			os.Remove(statePath(dir, "meta.json"))
			s = open(t, dir, nil)
			write(t, s, "4.txt", "x", rw.ModeCreate)
			got, err := s.JournalTail(background, rw.JournalTailRequest{})
			require(t, err == nil && len(got.Entries) == 4, "%v %+v", err, got)
			check(t, s, true)
		})
	}
}

func TestCursors(t *testing.T) {
	s, dir := opened(t, nil)
	for i := range 10 {
		caller := []string{"me", "you"}[i%2]
		must(s.SafeWrite(background, rw.SafeWriteRequest{Path: fmt.Sprintf("%d.txt", i), Content: []byte("x"), Call: rw.Call{Caller: caller}}))(t)
	}
	since := func(r rw.JournalSinceRequest) rw.JournalSinceResult {
		t.Helper()
		return must(s.JournalSince(background, r))(t)
	}
	at := func(n uint64) *uint64 { return &n }
	r := since(rw.JournalSinceRequest{AfterSeq: at(4), Limit: 3})
	expect(t, len(r.Entries) == 3 && r.NextSeq == 7 && !r.Gap, "%+v", r)
	r = since(rw.JournalSinceRequest{AfterSeq: at(99)})
	expect(t, r.Gap && r.Reason == "cursor_ahead" && r.NextSeq == 10, "%+v", r)
	// A reply alone moves nothing; passing after_seq acknowledges.
	for range 2 {
		r := since(rw.JournalSinceRequest{Agent: "me"})
		expect(t, len(r.Entries) == 5 && r.NextSeq == 10, "%+v", r)
	}
	since(rw.JournalSinceRequest{Agent: "me", AfterSeq: at(8)})
	r = since(rw.JournalSinceRequest{Agent: "me"})
	expect(t, len(r.Entries) == 1 && r.Entries[0].Seq == 10, "%+v", r)
	s.Close(background)
	s = open(t, dir, nil)
	r = since(rw.JournalSinceRequest{Agent: "me"})
	expect(t, len(r.Entries) == 1, "the cursor is lost: %+v", r)
	fails(s.JournalSince(background, rw.JournalSinceRequest{}))(t, rw.ErrInvalidArgument)
	// A refusal has a row, which is returned on request.
	fails(s.SafeWrite(background, rw.SafeWriteRequest{Path: "0.txt", Content: []byte("y"), Call: rw.Call{Caller: "you"}}))(t, rw.ErrFileAlreadyExists)
	for refused, want := range map[bool]int{false: 0, true: 1} {
		r := since(rw.JournalSinceRequest{AfterSeq: at(10), IncludeRefused: refused})
		expect(t, len(r.Entries) == want && r.NextSeq == 11 &&
			(want != 1 || r.Entries[0].Kind == "refused" && r.Entries[0].Reason == "file_already_exists"), "refused %v: %+v", refused, r)
	}
	r = since(rw.JournalSinceRequest{Agent: "you", AfterSeq: at(10), IncludeRefused: true})
	expect(t, len(r.Entries) == 0, "the agent's own: %+v", r)
}

func TestNewerFormatIsRefused(t *testing.T) {
	dir := workspace(t)
	s, _ := rw.Open(background, dir, nil)
	s.Close(background)
	os.WriteFile(statePath(dir, "meta.json"), []byte(`{"format":99}`), 0o600)
	fails(rw.Open(background, dir, nil))(t, rw.ErrNewerFormat)
	os.RemoveAll(statePath(dir))
	os.Symlink(t.TempDir(), statePath(dir))
	fails(rw.Open(background, dir, nil))(t, rw.ErrBadStateDir)
	for _, root := range []string{"/", "/etc", "/tmp", "/usr", "/var"} {
		fails(rw.Open(background, root, nil))(t, rw.ErrUnsafeRoot, root)
	}
}

// TestSnapshotsAreOnlyCaches: damaged or missing, they cost time and nothing
// else.
func TestSnapshotsAreOnlyCaches(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	s, _ := rw.Open(background, dir, &rw.Options{Sync: rw.SyncOff})
	for i := range 700 {
		write(t, s, fmt.Sprintf("%d.txt", i%50), fmt.Sprint(i), rw.ModeOverwrite)
	}
	s.Close(background)
	snaps, _ := filepath.Glob(statePath(dir, "index", "*.snap"))
	mustEqual(t, len(snaps), 1, "snapshots")
	for _, damage := range []func(){
		func() {},
		func() { data, _ := os.ReadFile(snaps[0]); data[100] ^= 1; os.WriteFile(snaps[0], data, 0o600) },
		func() { os.Truncate(snaps[0], 4000) },
		func() { os.Remove(snaps[0]) },
		func() { os.Remove(statePath(dir, "meta.json")); os.Remove(statePath(dir, "locks", "journal")) },
		func() { os.WriteFile(statePath(dir, "locks", "journal"), []byte(strings.Repeat("x", 300)), 0o600) },
	} {
		damage()
		s := open(t, dir, nil)
		r := write(t, s, "7.txt", fmt.Sprint("again ", s.Recovery().Rebuilt, snaps), rw.ModeOverwrite)
		_ = r
		cachesAside(t, s)
		s.Close(background)
		os.WriteFile(filepath.Join(dir, "7.txt"), []byte("human"), 0o644)
		s = open(t, dir, nil)
		rep := s.Recovery()
		expect(t, len(rep.Aborted)+len(rep.Conflicts) == 0, "a human edit was taken for damage: %+v", rep)
		fileIs(t, dir, "7.txt", "human")
		write(t, s, "7.txt", "back"+fmt.Sprint(len(snaps)), rw.ModeOverwrite)
		s.Close(background)
	}
}

// TestSnapshotsWhileOpen: a store that is never closed in good order still
// opens without reading its whole journal.
// cachesAside checks the store; a cache that is damaged is named, and harms
// nothing.
func cachesAside(t *testing.T, s *rw.Store) {
	t.Helper()
	r := must(s.Check(background, admin.CheckRequest{Deep: true}))(t)
	for _, p := range r.Problems {
		expect(t, p.Code == "snapshot_damaged", "check: %s %s: %s", p.Code, p.Path, p.Detail)
	}
}

func TestSnapshotsWhileOpen(t *testing.T) {
	t.Parallel()
	s, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
	noErr(t, s.FillJournal(60_000))
	write(t, s, "a.txt", "x", rw.ModeCreate)
	length(t, must(filepath.Glob(statePath(dir, "index", "*.snap")))(t), 1, "snapshots")
	other := open(t, dir, nil) // as after a crash: nothing was closed
	r := other.Recovery()
	expect(t, !r.Rebuilt, "%+v", r)
	equal(t, must(other.LastRows("p7", 3))(t), 3)
}

// TestTailFiltersEveryKind: every value in the rows can be used as a filter, and every
// filter is in the schema.
func TestTailFiltersEveryKind(t *testing.T) {
	s := open(t, t.TempDir(), nil)
	must(s.SafeWrite(background, put("a.txt", "1", rw.ModeCreate)))(t)
	must(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte("piece")}))(t)
	must(s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "s", OutputPath: "b.txt"}))(t)
	must(s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte("raw"), Label: "l"}))(t)
	must(s.Checkpoint(background, rw.CheckpointRequest{Name: "c", Data: json.RawMessage(`1`)}))(t)
	must(s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{{Op: "move", Path: "a.txt", To: "m.txt"}, {Op: "delete", Path: "b.txt"}}}))(t)
	must(s.Undo(background, rw.UndoRequest{}))(t)
	tail := must(s.JournalTail(background, rw.JournalTailRequest{N: 100}))(t)
	f, _ := reflect.TypeFor[rw.JournalTailRequest]().FieldByName("FilterMode")
	offered := schema.Words(f.Tag.Get("enum"))
	for _, e := range tail.Entries {
		expect(t, slices.Contains(offered, e.Op), "rows say %s, which cannot be asked for", e.Op)
		one, err := s.JournalTail(background, rw.JournalTailRequest{N: 100, FilterMode: e.Op})
		expect(t, err == nil && slices.ContainsFunc(one.Entries, func(x rw.JournalEntry) bool { return x.JournalID == e.JournalID }),
			"%s does not find its row %s: %v", e.Op, e.JournalID, err)
	}
}

// foreignActs are the changes of another program to names that an undo turns from files
// into directories, and the reverse. Each returns the name that it took, "" for none.
var foreignActs = map[string]func(root fsx.Dir) string{
	"saves into a directory": func(root fsx.Dir) string { return saveIn(root, "d", "late") },
	"saves below it":         func(root fsx.Dir) string { return saveIn(root, "d", "e", "late") },
	"saves into the other":   func(root fsx.Dir) string { return saveIn(root, "f", "late") },
	"makes a file":           func(root fsx.Dir) string { return saveIn(root, "p") },
	"makes a file again":     func(root fsx.Dir) string { return saveIn(root, "d") },
	"makes a directory": func(root fsx.Dir) string {
		root.Mkdir("g", 0o755)
		return saveIn(root, "g", "late")
	},
	"makes an empty directory": func(root fsx.Dir) string {
		if root.Mkdir("f", 0o755) != nil {
			return ""
		}
		return "f"
	},
	"edits a file": func(root fsx.Dir) string {
		d, err := root.OpenDir("d")
		if err != nil {
			return ""
		}
		if _, err := d.Lstat("x"); err != nil {
			return ""
		}
		editorSaves["exchanges"](d, "x")
		return "d/x"
	},
}

// saveIn makes a new file.
func saveIn(dir fsx.Dir, names ...string) string {
	for _, name := range names[:len(names)-1] {
		var err error
		if dir, err = dir.OpenDir(name); err != nil {
			return ""
		}
	}
	f, err := dir.Open(names[len(names)-1], fsx.Write|fsx.Create|fsx.Excl, 0o644)
	if err != nil {
		return ""
	}
	defer f.Close()
	f.WriteAt([]byte(strangersText), 0)
	return strings.Join(names, "/")
}

// TestKindsForeignSweep: another program acts before each operation of an undo that
// turns files into directories and directories into files. Its content exists
// afterwards, under its name or as a version. Every other file is as the call reports:
// as before the call, or as after it. If a name was taken, history contains the file.
func TestKindsForeignSweep(t *testing.T) {
	for _, c := range scenarios {
		if !strings.HasPrefix(c.name, "undo_kinds") {
			continue
		}
		for _, many := range []int{0, 1} {
			for name := range foreignActs {
				t.Run(fmt.Sprint(c.name, many, "/", name), func(t *testing.T) {
					t.Parallel()
					c := c // Many is set in each
					c.sim.Many = many
					step := stride(3) * turns(3)
					for n := phase(step); c.besideForeign(t, name, n); n += step {
					}
				})
			}
		}
	}
}

// TestKindsRolledBackSweep: an operation of such an undo fails, and the process dies while
// it rolls the undo back, or the power fails. After the next Open everything is as before
// the call or as after it.
func TestKindsRolledBackSweep(t *testing.T) {
	step := attackStep(6)
	for _, c := range scenarios {
		if !strings.HasPrefix(c.name, "undo_kinds") {
			continue
		}
		c.dirs = "" // one that cannot be removed stays
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for i, failed := phase(step), true; failed; i += step {
				for n, died := i+1+phase(step), true; died && failed; n += step {
					fs, s := c.prepare(t)
					base, hit := fs.Muts(), ""
					fs.StopAt(n)
					fs.Inject(func(op simfs.Op) (fault simfs.Fault) {
						if op.Mut == base+i {
							hit, fault.Err = op.String(), syscall.EACCES
						}
						return fault
					})
					c.run(s)
					fs.Inject(nil)
					fs.StopAt(-1)
					failed, died = hit != "", fs.Muts() >= base+n
					for seed := range someLosses(20, n) {
						c.verify(t, fs.Crash(seed, simfs.Some), either)
					}
					require(t, !t.Failed(), "%s failed, the process died at operation %d", hit, n)
				}
			}
		})
	}
}

// besideForeign lets another program act before operation n; false when the undo has
// fewer.
func (c scenario) besideForeign(t *testing.T, act string, n int) bool {
	t.Helper()
	disk, s := c.prepare(t)
	must(s.Scan(background, around.ScanRequest{Calls: []string{"c"}}))(t)
	count, taken, root := 0, "", disk.Foreign()
	disk.Before(func(simfs.Op) {
		if count == n {
			taken = foreignActs[act](root)
		}
		count++
	})
	_, err := s.Undo(background, rw.UndoRequest{Group: "c"})
	disk.Before(nil)
	s.Close(background)
	got, all := files(disk), disk.Tree()
	when := fmt.Sprintf("%s before operation %d, took %q: %v", act, n, taken, err)
	want := c.new
	if err != nil {
		want = c.old
		e := rw.AsError("undo", err)
		require(t, e.Effect == rw.EffectNone && e.Detail != rw.ErrInternal, "%s: %v", when, errors.Unwrap(err))
	}
	for p, text := range want {
		require(t, got[p] == text || overlap(p, taken) && held(all, text), "%s: %s is not there\n%s", when, p, brief(got))
	}
	for p, text := range got {
		require(t, text == want[p] || overlap(p, taken), "%s: %s is there\n%s", when, p, brief(got))
	}
	require(t, taken == "" || all[taken] == "/" || got[taken] == strangersText || held(all, strangersText), "%s: what it saved is lost\n%s", when, brief(got))
	s = c.open(t, disk, "0002")
	again := files(disk)
	require(t, maps.Equal(again, got), "%s: a second open changed %s to %s", when, brief(got), brief(again))
	s.Close(background)
	return count > n
}

// overlap reports whether two names cannot both be those of files.
func overlap(a, b string) bool {
	return a == b || b != "" && strings.HasPrefix(a, b+"/") || strings.HasPrefix(b, a+"/")
}

// held reports whether history holds a text.
func held(tree map[string]string, text string) bool {
	for p, have := range tree {
		if strings.HasPrefix(p, rw.StateDirName+"/history/") && have == text {
			return true
		}
	}
	return false
}

// TestReplayedEditRepliesAsTheFirst: by another store, after a restart and
// when the file has gone on; the row itself holds numbers alone.
func TestReplayedEditRepliesAsTheFirst(t *testing.T) {
	s, dir := quick(t, nil)
	write(t, s, "a.txt", "one two one\nrest\none\n", rw.ModeCreate)
	r := rw.EditRequest{Path: "./a.txt", Edits: []rw.EditOp{{Old: "one", New: "eleven", Count: 3}, {Old: "rest", New: "more"}}, Call: rw.Call{IdempotencyKey: "k"}}
	first, err := s.Edit(background, r)
	require(t, err == nil && first.Replacements == 4 && strings.Contains(first.Diff, "+eleven two eleven\n"), "%v %+v", err, first)
	again := func(what string, s *rw.Store, diff string) {
		t.Helper()
		got, err := s.Edit(background, r)
		expect(t, err == nil && got.Status == rw.StatusReplayed && got.Replacements == 4 && got.Diff == diff, "%s: %v %+v", what, err, got)
		expect(t, got.Path == first.Path && got.SHA256 == first.SHA256 && got.Bytes == first.Bytes && got.JournalID == first.JournalID,
			"%s: %+v\nwant %+v", what, got, first)
	}
	again("at once", s, first.Diff)
	again("by another store", quickAt(t, dir, nil), first.Diff)
	write(t, s, "a.txt", "appended\n", rw.ModeAppend)
	again("after an append", s, first.Diff)
	write(t, s, "a.txt", "quite another\n", rw.ModeOverwrite)
	renamed(t, s, "a.txt", "b.txt")
	noErr(t, s.Close(background))
	s = quickAt(t, dir, nil)
	again("after a restart", s, first.Diff)
	equal(t, string(must(s.ReplyOf(first.Receipt.JournalSeq))(t)), `{"replacements":4}`, "the row holds")
	emptyDir(t, filepath.Join(dir, rw.StateDirName, "history"))
	again("when nothing is kept", s, "")
}

// TestReplayedRowsWithoutAReply: the journal of an earlier version is read.
func TestReplayedRowsWithoutAReply(t *testing.T) {
	s, _ := quick(t, nil)
	write(t, s, "a.txt", "one", rw.ModeCreate)
	r := rw.EditRequest{Path: "a.txt", Edits: []rw.EditOp{{Old: "one", New: "two"}}, Call: rw.Call{IdempotencyKey: "k"}}
	noErr(t, s.KeepWithoutReply(r, hash("two")))
	got, err := s.Edit(background, r)
	expect(t, err == nil && got.Status == rw.StatusReplayed && got.SHA256.String() == hash("two") && got.Replacements == 0 && got.Diff == "",
		"%v %+v", err, got)
}

// TestReplayedUndoAndRestoreReplyAsTheFirst: which commits were undone, the
// maximum that one call undoes, and which version was restored. It runs beside no other
// test: a child that one starts has the versions open, and check finds them in staging.
func TestReplayedUndoAndRestoreReplyAsTheFirst(t *testing.T) {
	s, dir := quick(t, nil)
	for i := range 51 {
		write(t, s, fmt.Sprintf("f%d.txt", i%5), fmt.Sprint(i), rw.ModeOverwrite)
	}
	u := rw.UndoRequest{N: 50, Call: rw.Call{IdempotencyKey: "undo"}}
	undo, err := s.Undo(background, u)
	require(t, err == nil && len(undo.Undone) == 50 && undo.Undone[0] == 51 && undo.Undone[49] == 2, "%v %+v", err, undo.Undone)
	v := rw.RestoreRequest{Path: "f0.txt", SHA256: digest(hash("45")), Call: rw.Call{IdempotencyKey: "restore"}}
	back, err := s.Restore(background, v)
	require(t, err == nil && back.Version == 46, "%v %+v", err, back)
	row := must(s.ReplyOf(undo.Seq))(t)
	expect(t, len(row) <= 4<<10 && len(row) != 0, "the row holds %d bytes,", len(row))
	write(t, s, "f0.txt", "goes on", rw.ModeOverwrite)
	noErr(t, s.Close(background))
	s = quickAt(t, dir, nil)
	u2, err := s.Undo(background, u)
	expect(t, err == nil && u2.Status == rw.StatusReplayed && slices.Equal(u2.Undone, undo.Undone) && u2.Seq == undo.Seq &&
		u2.Receipt.Path == undo.Receipt.Path, "%v %+v\nwant %+v", err, u2, undo)
	equal(t, fmt.Sprintf("%+v", u2.Results), fmt.Sprintf("%+v", undo.Results), "results ", u2.Results, "\nwant ", undo.Results)
	r2 := must(s.Restore(background, v))(t)
	expect(t, r2.Status == rw.StatusReplayed && r2.Version == 46 && r2.Path == "f0.txt" && r2.SHA256 == back.SHA256, "%+v", r2)
	fileIs(t, dir, "f0.txt", "goes on")
	check(t, s, true)
}

// TestIdempotencyKeysAreBounded: a snapshot leaves out keys that are both old and far
// back, and no others; paths stay at any age.
func TestIdempotencyKeysAreBounded(t *testing.T) {
	const head = 3*rw.KeyCount + 7
	day, young := rw.KeyAge+time.Hour, rw.KeyAge-time.Hour
	fs := simfs.New()
	x := must(rw.OpenKeyIndex(fs.Root()))(t)
	rows := []struct {
		name string
		seq  uint64
		ago  time.Duration
		kept bool
	}{
		{"old and far", 5, day, false},
		{"old, the first that is too far", head - rw.KeyCount - 1, day, false},
		{"old, the last of the newest", head - rw.KeyCount, day, true},
		{"old and near", head - 1, day, true},
		{"young and far", 6, young, true},
		{"young and near", head, young, true},
	}
	for _, row := range rows {
		x.Fold(row.seq, row.name, "path of "+row.name, row.ago)
	}
	judge := func(what string) {
		t.Helper()
		for _, row := range rows {
			want := uint64(0)
			if row.kept {
				want = row.seq
			}
			key, path, err := x.Knows(row.name, "path of "+row.name)
			expect(t, err == nil && key == want && path == row.seq, "%s, %s: key %d, path %d, %v; want %d and %d", what, row.name, key, path, err,
				want, row.seq)
		}
	}
	noErr(t, x.Save(fs.Root(), head))
	judge("saved")
	noErr(t, x.Close())
	x = must(rw.OpenKeyIndex(fs.Root()))(t)
	judge("loaded")
	// The entries already in the file are judged again when the next one is written.
	rows[2].kept, rows[3].kept = false, true
	noErr(t, x.Save(fs.Root(), head+1))
	judge("saved again")
	noErr(t, x.Close())
}

// TestOperationOfACommitThatWasRolledBack: neither its invocation nor its key reports
// that it happened, and the result of the second attempt does not change that.
func TestOperationOfACommitThatWasRolledBack(t *testing.T) {
	fs := simfs.New()
	s := must(rw.OpenSim(fs, nil, rw.Sim{}))(t)
	fs.Inject(func(op simfs.Op) simfs.Fault {
		if op.Kind == "rename" && strings.HasSuffix(op.To, "a.txt") {
			return simfs.Fault{Err: syscall.ENOSPC}
		}
		return simfs.Fault{}
	})
	r := put("a.txt", "x", rw.ModeCreate)
	r.IdempotencyKey = "k"
	_, err := s.SafeWrite(background, r)
	e := rw.AsError("", err)
	require(t, errors.Is(err, rw.ErrDiskFull) && e.Effect == rw.EffectNone, "%v %+v", err, e)
	fs.Inject(nil)
	inv := e.Context["invocation_id"].(string)
	judge := func(ask rw.OperationRequest, happened bool) {
		t.Helper()
		op, err := s.Operation(background, ask)
		expect(t, err == nil && op.Happened == happened && !op.Refused && len(op.Entries) > 0 == happened, "%+v: %v %+v", ask, err, op)
	}
	judge(rw.OperationRequest{InvocationID: inv}, false)
	judge(rw.OperationRequest{IdempotencyKey: "k"}, false)
	again := must(s.SafeWrite(background, r))(t)
	judge(rw.OperationRequest{InvocationID: again.Receipt.InvocationID}, true)
	judge(rw.OperationRequest{IdempotencyKey: "k"}, true)
	judge(rw.OperationRequest{InvocationID: inv}, false)
	// The row itself is in the journal: it is skipped, not missing.
	all := must(s.JournalSince(background, rw.JournalSinceRequest{AfterSeq: new(uint64)}))(t)
	rows := testbed.Count(all.Entries, func(e rw.JournalEntry) bool { return e.InvocationID == inv && e.Kind == "commit" })
	equal(t, rows, 1, "rows of the commit that was rolled back")
	noErr(t, s.Close(background))
}

// keyedCall is a call on the state directory with an idempotency key. A repeated call
// must return the same reply.
type keyedCall struct {
	name   string
	part   string
	before func(*rw.Store) error
	call   func(s *rw.Store, key string, dry bool) (reply any, r rw.Receipt, err error)
	other  func(s *rw.Store, key string) error // another request
	undo   func(*rw.Store) error               // restores the objects that a second run would remove again
}

const stagedID = "tx_staged"

// keyedCalls are the verbs that had no key of their own.
func keyedCalls() []keyedCall {
	secondTx := func(s *rw.Store) string {
		d, err := s.Describe(background, rw.DescribeRequest{})
		if err != nil || len(d.Transactions) == 0 {
			return stagedID
		}
		return d.Transactions[0]
	}
	txID := ""
	return []keyedCall{
		{
			name: "tx_begin", part: "tx",
			call: func(s *rw.Store, key string, dry bool) (any, rw.Receipt, error) {
				out, err := s.TxBegin(background, rw.TxBeginRequest{Call: rw.Call{IdempotencyKey: key, DryRun: dry}})
				return []string{out.TxID, out.ExpiresAt.String()}, out.Receipt, err
			},
			other: func(s *rw.Store, key string) error {
				return errorOf(s.TxBegin(background, rw.TxBeginRequest{Call: rw.Call{IdempotencyKey: key, Caller: "another"}}))
			},
			undo: func(s *rw.Store) error {
				return errorOf(s.TxRollback(background, rw.TxRollbackRequest{TxID: secondTx(s)}))
			},
		},
		{
			name: "tx_rollback", part: "tx",
			before: func(s *rw.Store) error {
				b, err := s.TxBegin(background, rw.TxBeginRequest{})
				txID = b.TxID
				for i := range 3 {
					if err == nil {
						_, err = s.TxStage(background, rw.TxStageRequest{TxID: txID, Op: rw.TxOp{Op: "delete", Path: fmt.Sprint(i)}})
					}
				}
				return err
			},
			call: func(s *rw.Store, key string, dry bool) (any, rw.Receipt, error) {
				out, err := s.TxRollback(background, rw.TxRollbackRequest{TxID: txID, Call: rw.Call{IdempotencyKey: key, DryRun: dry}})
				return []any{out.TxID, out.Dropped, out.Existed}, out.Receipt, err
			},
			other: func(s *rw.Store, key string) error {
				return errorOf(s.TxRollback(background, rw.TxRollbackRequest{TxID: stagedID, Call: rw.Call{IdempotencyKey: key}}))
			},
		},
		{
			name: "scratch_delete", part: "scratch",
			before: func(s *rw.Store) error {
				for i, r := range []rw.ScratchPutRequest{{Content: []byte("kept"), Label: "kept"}, {Content: []byte("one"), Label: "log"}, {Content: []byte("one"), Label: "again"}} {
					if _, err := s.ScratchPut(background, r); err != nil {
						return fmt.Errorf("%d: %w", i, err)
					}
				}
				return nil
			},
			call: func(s *rw.Store, key string, dry bool) (any, rw.Receipt, error) {
				out, err := s.ScratchDelete(background, rw.ScratchDeleteRequest{Label: "log", Call: rw.Call{IdempotencyKey: key, DryRun: dry}})
				return []any{out.SHA256, out.Removed, out.RowsRemoved, out.BytesFreed, out.ExpiredRemoved}, out.Receipt, err
			},
			other: func(s *rw.Store, key string) error {
				return errorOf(s.ScratchDelete(background, rw.ScratchDeleteRequest{Label: "kept", Call: rw.Call{IdempotencyKey: key}}))
			},
			undo: doing((*rw.Store).ScratchPut, rw.ScratchPutRequest{Content: []byte("put since"), Label: "log"}),
		},
		{
			name: "checkpoint_cleanup", part: "checkpoints",
			before: func(s *rw.Store) error {
				for name, ttl := range map[string]rw.TTL{"kept": "permanent", "mine": "session", "other.one": "session"} {
					if _, err := s.Checkpoint(background, rw.CheckpointRequest{Name: name, Data: jsonString("x"), TTL: ttl}); err != nil {
						return err
					}
				}
				return nil
			},
			call: func(s *rw.Store, key string, dry bool) (any, rw.Receipt, error) {
				out, err := s.CheckpointCleanup(background, rw.CheckpointCleanupRequest{Call: rw.Call{IdempotencyKey: key, DryRun: dry}})
				return []any{out.Removed, out.Kept, out.More}, out.Receipt, err
			},
			other: func(s *rw.Store, key string) error {
				no := false
				return errorOf(s.CheckpointCleanup(background, rw.CheckpointCleanupRequest{IncludeSession: &no, Call: rw.Call{IdempotencyKey: key}}))
			},
			undo: doing((*rw.Store).Checkpoint, rw.CheckpointRequest{Name: "since", Data: jsonString("x"), TTL: "session"}),
		},
	}
}

// TestAKeyedCallOnTheStateIsRepeated: a dry run changes nothing and binds no key; the
// call then happens once, and the same key returns the same reply again, also in
// another process and after a restart, and does not touch later changes.
func TestAKeyedCallOnTheStateIsRepeated(t *testing.T) {
	t.Parallel()
	for _, c := range keyedCalls() {
		s, dir := quick(t, nil)
		if c.before != nil {
			noErr(t, c.before(s))
		}
		before := stateSnapshot(t, dir)
		would, r, err := c.call(s, "key", true)
		require(t, err == nil && r.DryRun && r.JournalSeq == 0 && stateSnapshot(t, dir) == before, "%s: a dry run: %v %+v", c.name, err, r)
		first, r, err := c.call(s, "key", false)
		require(t, err == nil && r.Status == rw.StatusSucceeded && r.JournalSeq != 0 && r.IdempotencyKey == "key", "%s: %v %+v", c.name, err, r)
		expect(t, c.name == "tx_begin" || reflect.DeepEqual(would, first), "%s: a dry run reports %v, the call %v", c.name, would, first)
		if c.undo != nil {
			noErr(t, c.undo(s))
		}
		after := stateSnapshot(t, dir)
		again := func(where string, s *rw.Store) {
			t.Helper()
			for _, dry := range []bool{false, true} {
				got, g, err := c.call(s, "key", dry)
				expect(t, err == nil && g.Status == rw.StatusReplayed && g.JournalSeq == r.JournalSeq && g.Path == r.Path &&
					reflect.DeepEqual(got, first), "%s, %s: %v %v\nwant %v\n%+v\nwant %+v", c.name, where, err, got, first, g, r)
			}
		}
		again("at once", s)
		again("by another store", quickAt(t, dir, nil))
		equal(t, stateSnapshot(t, dir), after, c.name, ": a repeated call changed something")
		noErr(t, s.Close(background))
		s = quickAt(t, dir, nil)
		again("after a restart", s)
		isErr(t, c.other(s, "key"), rw.ErrIdempotencyKeyReused, c.name, ": the key for another request")
		_, g, err := c.call(s, strings.Repeat("k", 201), false)
		expect(t, errors.Is(err, rw.ErrInvalidArgument), "%s: a long key: %v %+v", c.name, err, g)
		check(t, s, true)
	}
}

// TestAKeyedCallOnTheStateHappensOnceOverCrashes: interrupted at every operation, the
// repeated call returns the reply that the first call would have returned.
func TestAKeyedCallOnTheStateHappensOnceOverCrashes(t *testing.T) {
	t.Parallel()
	for _, c := range keyedCalls() {
		sweep := scenario{name: c.name, part: c.part, before: c.before, opts: rw.Options{Sync: rw.SyncFull, Gate: rw.Gate{Mode: rw.GateOff}}}
		_, s := sweep.prepare(t)
		want, _, err := c.call(s, "key", false)
		noErr(t, err)
		replayed, ran := 0, 0
		for n := 0; ; n++ {
			fsys, s := sweep.prepare(t)
			_, err := killed(t, fsys, n, func() error {
				_, _, err := c.call(s, "key", false)
				return err
			})
			for _, disk := range []*simfs.FS{fsys.Crash(0, simfs.None), fsys.Crash(0, simfs.All)} {
				s := sweep.open(t, disk, "0003")
				got, r, aerr := c.call(s, "key", false)
				require(t, aerr == nil && (c.name == "tx_begin" || reflect.DeepEqual(got, want)), "%s, operation %d: %v %v, want %v", c.name, n, aerr,
					got, want)
				if r.Status == rw.StatusReplayed {
					replayed++
				} else {
					ran++
				}
				expect(t, err != nil || r.Status == rw.StatusReplayed, "%s: an acknowledged call happened again", c.name)
				if c.name == "tx_begin" {
					if d, err := s.Describe(background, rw.DescribeRequest{}); err != nil || len(d.Transactions) != 1 || d.Transactions[0] != got.([]string)[0] {
						t.Errorf("operation %d: %v transactions, the call reports %v", n, d.Transactions, got)
					}
				}
				check(t, s, true)
				noErr(t, s.Close(background))
			}
			if err == nil {
				break
			}
		}
		expect(t, replayed >= 2 && ran >= 2, "%s: %d calls were answered by the key, %d ran", c.name, replayed, ran)
	}
}

// TestAKeyedCleanupFitsIntoItsRow: names have the maximum length, including damaged
// ones; one call lists everything that it removed and the next key continues.
func TestAKeyedCleanupFitsIntoItsRow(t *testing.T) {
	s, dir := quick(t, nil)
	for i := range 40 {
		name := strings.Repeat("n", 125) + fmt.Sprintf("%03d", i)
		save(t, s, rw.CheckpointRequest{Name: name, Data: jsonString("x"), TTL: "session"})
		if i%3 == 0 {
			noErr(t, os.WriteFile(filepath.Join(dir, rw.StateDirName, "checkpoints", name+".json"), []byte("damaged"), 0o600))
		}
	}
	left := 40
	for i := 0; left > 0; i++ {
		r := rw.CheckpointCleanupRequest{Call: rw.Call{IdempotencyKey: fmt.Sprint("key", i)}}
		first, err := s.CheckpointCleanup(background, r)
		require(t, err == nil && len(first.Removed) != 0 && len(first.Removed) <= 30, "%d removed, %v", len(first.Removed), err)
		left -= len(first.Removed)
		expect(t, first.Kept == left && first.More == (left > 0), "%d left: %d %v", left, first.Kept, first.More)
		row := must(s.ReplyOf(first.Receipt.JournalSeq))(t)
		expect(t, len(row) <= 4<<10, "the row holds %d bytes,", len(row))
		before := stateSnapshot(t, dir)
		again, err := s.CheckpointCleanup(background, r)
		expect(t, err == nil && again.Status == rw.StatusReplayed && reflect.DeepEqual(again.Removed, first.Removed) && again.Kept == first.Kept &&
			again.More == first.More, "%v %+v\nwant %+v", err, again, first)
		equal(t, stateSnapshot(t, dir), before, "a repeated call set aside what is damaged")
	}
	check(t, s, true)
}

// TestAReadOnlyStoreFollows: a store that is only read shows the rows that come after it was
// opened, whether others had it open then or not.
func TestAReadOnlyStoreFollows(t *testing.T) {
	for _, beside := range []bool{true, false} {
		fs := simfs.New()
		s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001"}))(t)
		write(t, s, "a.txt", "one", rw.ModeCreate)
		if !beside {
			noErr(t, s.Close(background))
		}
		reader := must(rw.OpenSim(fs, &rw.Options{ReadOnly: true}, rw.Sim{Nonce: "0002", Process: fs.NewProcess()}))(t)
		if !beside {
			s = must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0003"}))(t)
		}
		for _, key := range []string{"first", "second"} {
			r := put("a.txt", key, rw.ModeOverwrite)
			r.IdempotencyKey = key
			w := must(s.SafeWrite(background, r))(t)
			found := must(reader.Operation(background, rw.OperationRequest{IdempotencyKey: key}))(t)
			expect(t, found.Happened, "%v, %s: the key is not known", beside, key)
			tail := must(reader.JournalTail(background, rw.JournalTailRequest{N: 1}))(t)
			expect(t, len(tail.Entries) == 1 && tail.Entries[0].Seq == w.Receipt.JournalSeq, "%v, %s: %+v", beside, key, tail)
			before := w.Receipt.JournalSeq - 1
			since := must(reader.JournalSince(background, rw.JournalSinceRequest{AfterSeq: &before}))(t)
			expect(t, len(since.Entries) == 1, "%v, %s: %+v", beside, key, since)
		}
	}
}

// TestDryRunsOfStagingAndDrafts: they return the same result as the call, report that
// they are dry runs, and leave no trace.
func TestDryRunsOfStagingAndDrafts(t *testing.T) {
	dir := ramspace(t)
	s := openGated(t, dir, &rw.Options{Sync: rw.SyncOff})
	b := must(s.TxBegin(background, rw.TxBeginRequest{}))(t)
	op := rw.TxOp{Op: "write", Path: "a.txt", Content: []byte("x")}
	must(s.TxStage(background, rw.TxStageRequest{TxID: b.TxID, Op: op}))(t)
	_, err := s.SafeWrite(background, put("secret.txt", "key AKIA"+strings.ToUpper("qwertyuiopas2345"), rw.ModeCreate))
	ref, _ := rw.AsError("", err).Context["draft_ref"].(string)
	require(t, ref != "", "no draft: %v", err)
	before := stateSnapshot(t, dir)
	out := must(s.TxStage(background, rw.TxStageRequest{TxID: b.TxID, Op: op, Call: rw.Call{DryRun: true, IdempotencyKey: "k"}}))(t)
	expect(t, out.Index == 2 && out.Receipt.DryRun, "stage: %+v", out)
	fails(s.TxStage(background, rw.TxStageRequest{TxID: "tx_none", Op: op, Call: rw.Call{DryRun: true}}))(t, rw.ErrTxNotFound, "stage in none")
	for i, without := range []func() error{
		calling(s.TxStage, rw.TxStageRequest{Op: op}), calling(s.TxCommit, rw.TxCommitRequest{}), calling(s.TxRollback, rw.TxRollbackRequest{}),
	} {
		e := rw.AsError("", without())
		expect(t, e != nil && e.Detail == rw.ErrInvalidArgument && e.Context["argument"] == "tx_id", "call %d without an identifier: %v", i, e)
	}
	if out, err := s.TxBegin(background, rw.TxBeginRequest{Call: rw.Call{DryRun: true}}); err != nil || out.TxID != "" || out.ExpiresAt.IsZero() {
		t.Errorf("begin: %v %+v", err, out)
	}
	if out, err := s.DraftDelete(background, rw.DraftDeleteRequest{DraftRef: ref, DryRun: true}); err != nil || !out.Removed {
		t.Errorf("draft: %v %+v", err, out)
	}
	equal(t, stateSnapshot(t, dir), before, "a dry run left something")
	for _, removed := range []bool{true, false} { // once, and again after a lost reply
		equal(t, must(s.DraftDelete(background, rw.DraftDeleteRequest{DraftRef: ref}))(t).Removed, removed, "draft")
	}
	out, err = s.TxStage(background, rw.TxStageRequest{TxID: b.TxID, Op: op, Call: rw.Call{IdempotencyKey: "k"}})
	expect(t, err == nil && out.Index == 2, "a dry run bound the key or took a number: %v %+v", err, out)
	ro := openGated(t, dir, &rw.Options{ReadOnly: true})
	_, err = ro.DraftDelete(background, rw.DraftDeleteRequest{DraftRef: ref, DryRun: true})
	expect(t, errors.Is(err, rw.ErrStoreReadOnly) && rw.AsError("", err).RetryBudget == rw.DefaultRetryBudget, "read-only: %v", err)
}

// TestAnalyticsReadsEveryRow: the fast way through the journal yields the
// figures that fully decoded rows do, for rows of every layer, names that need
// escapes, calls that were refused, and keys with replies.
func TestAnalyticsReadsEveryRow(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff, Caller: `an "agent" <&>`})
	other := hash("other")
	for i, path := range []string{"a.txt", "b & c.txt", "d <e>.txt", "ünïcode.txt", "f\u2028g.txt"} {
		write(t, s, path, "one", rw.ModeOverwrite)
		write(t, s, path, "two", rw.ModeAppend)
		_, err1 := s.SafeWrite(background, rw.SafeWriteRequest{Path: path, Content: []byte("x"), Expect: rw.Exactly(digest(other))})
		_, err2 := s.Edit(background, rw.EditRequest{Path: path, Call: rw.Call{IdempotencyKey: fmt.Sprint("k", i)}, Edits: []rw.EditOp{{Old: "two", New: "2"}}})
		require(t, err1 != nil && err2 == nil, "%v %v", err1, err2)
	}
	keep(t, s, rw.ScratchPutRequest{Content: []byte("one"), Label: "l"})
	_, err1 := s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "up", Content: []byte("piece"), Call: rw.Call{Caller: "other"}})
	_, err2 := s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "up", OutputPath: "up.txt"})
	_, err3 := s.Checkpoint(background, rw.CheckpointRequest{Name: "p", Data: []byte(`1`)})
	_, err4 := s.Checkpoint(background, rw.CheckpointRequest{Name: "p", Data: []byte(`2`)})
	_, err5 := s.Move(background, rw.MoveRequest{Path: "a.txt", To: "z.txt"})
	_, err6 := s.Delete(background, rw.DeleteRequest{Path: "z.txt"})
	_, err7 := s.Undo(background, rw.UndoRequest{})
	noErr(t, errors.Join(err1, err2, err3, err4, err5, err6, err7))
	noErr(t, s.FillJournal(2000))
	fast, err1 := s.Analytics(background, analytics.Request{})
	slow, err2 := s.AnalyticsDecoded()
	require(t, err1 == nil && err2 == nil, "%v %v", err1, err2)
	got, _ := json.Marshal(fast)
	want, _ := json.Marshal(slow)
	expect(t, string(got) == string(want), "\n got %s\nwant %s", got, want)
	expect(t, fast.TotalWrites >= 2018, "%d writes", fast.TotalWrites)
}
