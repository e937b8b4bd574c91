package resilientwrite_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"strings"
	"syscall"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/analytics"
	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// longGroup is a store with a snapshot and a group that is too long for a line, with a
// secret in the name of one of its files.
func longGroup(t *testing.T, secret string) (*simfs.FS, *rw.Store, around.ScanResult) {
	t.Helper()
	disk := simfs.New()
	name := func(i int) string {
		if i == 700 {
			return "keys/" + secret + ".txt"
		}
		return fmt.Sprintf("dir%d/a file with a name of some length %d", i%10, i)
	}
	for i := range 1500 {
		disk.WriteFile(name(i), fmt.Appendf(nil, "before %d\n", i), 0o644)
	}
	s := openAround(t, disk, rw.SyncFull, "a")
	must(s.Scan(background, around.ScanRequest{}))(t)
	must(s.Snapshot(background, around.SnapshotRequest{Label: "of " + secret}))(t)
	for i := range 1500 {
		disk.WriteFile(name(i), fmt.Appendf(nil, "after %d\n", i), 0o644)
	}
	r := must(s.Scan(background, around.ScanRequest{Calls: []string{"c1"}, Host: "h", Command: "fmt ./..."}))(t)
	require(t, r.Changed == 1500, "%v", r.Changed)
	return disk, s, r
}

// holdersOf are the files of the state directory that hold a text, or have it in
// their names.
func holdersOf(disk *simfs.FS, text string) (list []string) {
	for name, data := range disk.Tree() {
		if strings.HasPrefix(name, rw.StateDirName+"/") && (strings.Contains(name, text) || strings.Contains(data, text)) {
			list = append(list, name)
		}
	}
	return list
}

// TestEraseInLongGroups: a secret in the path of a file that a scan found leaves
// the manifest, the stat index and the snapshots; the other files of the group
// keep their history, can be undone one by one, and the store is sound.
func TestEraseInLongGroups(t *testing.T) {
	t.Parallel()
	secret := "hunter-" + strings.Repeat("q7", 6)
	disk, s, found := longGroup(t, secret)
	disk.Remove("keys/" + secret + ".txt")
	must(s.Scan(background, around.ScanRequest{}))(t)
	n := len(holdersOf(disk, secret))
	require(t, n >= 3, "only %d files hold it", n)
	dry, err := s.Admin().Erase(background, admin.EraseRequest{Secret: []byte(secret), Call: rw.Call{DryRun: true}})
	noErr(t, err)
	expect(t, strings.Contains(fmt.Sprint(dry.Places), "manifests") && strings.Contains(fmt.Sprint(dry.Places), "observe"), "%+v", dry.Places)
	r := must(s.Admin().Erase(background, admin.EraseRequest{Secret: []byte(secret)}))(t)
	list := holdersOf(disk, secret)
	expect(t, len(list) == 0 && len(r.Left) == 0, "%q hold it; %+v", list, r)
	for range 2 { // in this process and in the next
		h, err := s.History(background, rw.HistoryRequest{Path: "dir1/a file with a name of some length 11"})
		require(t, err == nil && len(h.Versions) == 1 && h.Versions[0].Caller == around.CallerOutside, "%+v %v", h, err)
		check(t, s, true)
		noErr(t, s.Close(background))
		s = openAround(t, disk, rw.SyncFull, "b")
	}
	if list, err := s.SnapshotList(background, around.SnapshotListRequest{}); err != nil || len(list.Snapshots) != 1 {
		t.Errorf("%+v %v", list, err)
	}
	again := must(s.Scan(background, around.ScanRequest{}))(t)
	expect(t, !again.Baseline && again.Created+again.Changed == 0, "%+v", again)
	must(s.Restore(background, rw.RestoreRequest{Path: "dir1/a file with a name of some length 11", Version: found.Seq}))(t)
	length(t, holdersOf(disk, secret), 0, "hold it again")
}

// TestLongGroupsTravel: an export carries the changes of a row that is too long
// for a line, import shows them, and one that is damaged is refused.
func TestLongGroupsTravel(t *testing.T) {
	t.Parallel()
	_, s, _ := longGroup(t, "nothing-secret")
	data := exported(t, s)
	fresh := openAround(t, simfs.New(), rw.SyncFull, "c")
	importInto(t, fresh, data)
	for i := range 1500 {
		if i%100 != 1 {
			continue
		}
		h, err := fresh.History(background, rw.HistoryRequest{Path: fmt.Sprintf("dir%d/a file with a name of some length %d", i%10, i)})
		require(t, err == nil && len(h.Versions) == 1 && h.Versions[0].Caller == around.CallerOutside &&
			h.Versions[0].SHA256 == call.DigestOf(fmt.Appendf(nil, "after %d\n", i)), "%d: %+v %v", i, h, err)
	}
	check(t, fresh, true)
	equal(t, importInto(t, fresh, data).Imported, 0)
	lines := bytes.SplitAfter(data, []byte("\n"))
	for i, line := range lines {
		if bytes.HasPrefix(line, []byte(`{"of":`)) {
			cut := bytes.Join(append(append([][]byte{}, lines[:i]...), lines[i+1:]...), nil)
			fails(openAround(t, simfs.New(), rw.SyncFull, "d").Admin().Import(background, admin.ImportRequest{R: bytes.NewReader(cut)}))(t, rw.ErrExportDamaged)
			break
		}
	}
}

// TestMissingManifestIsReported: check names the row, once, and nothing else.
func TestMissingManifestIsReported(t *testing.T) {
	disk, s, found := longGroup(t, "nothing-secret")
	noErr(t, s.Close(background))
	for name := range disk.Tree() {
		if strings.HasPrefix(name, rw.StateDirName+"/manifests/") {
			disk.Remove(name)
		}
	}
	s = openAround(t, disk, rw.SyncFull, "e")
	r, err := s.Check(background, admin.CheckRequest{})
	expect(t, err == nil && len(r.Problems) == 1 && r.Problems[0].Code == "manifest_missing" && r.Problems[0].Seq == found.Seq, "%+v %v", r, err)
}

// state is a workspace that another program changes: its content before and after the
// change.
var state = struct{ old, new map[string]string }{
	old: map[string]string{
		"a.txt": longText, "b.txt": "b", "gone/c.txt": otherText, "from.txt": "moved", "same.txt": "same",
		"same": "-> same.txt", "bent": "-> a.txt", "gone/link": "-> ../b.txt", "was_link": "-> /outside/of/it", "was_file": "text",
	},
	new: map[string]string{
		"a.txt": otherText, "b.txt": "b2", "to/to.txt": "moved", "fresh/new.txt": longText, "same.txt": "same",
		"same": "-> same.txt", "bent": "-> b.txt", "fresh/link": "-> none", "was_link": "/outside/of/it", "was_file": "-> ../../etc/passwd",
	},
}

// putEntry makes a file as files shows it.
func putEntry(disk *simfs.FS, p, text string) {
	if disk.Remove(p); text == "/" {
		disk.MkdirAll(p)
		return
	}
	if target, ok := strings.CutPrefix(text, "-> "); ok {
		disk.Symlink(p, target)
	} else {
		disk.WriteFile(p, []byte(text), 0o644)
	}
}

// changedOutside makes a disk with a store that knows the old content, and has another
// program change it.
func changedOutside(t *testing.T, level rw.SyncLevel) (*simfs.FS, *rw.Store) {
	t.Helper()
	disk := simfs.New()
	for p, text := range state.old {
		putEntry(disk, p, text)
	}
	s := openAround(t, disk, level, "0001")
	found := must(s.Scan(background, around.ScanRequest{}))(t)
	require(t, found.Baseline, "%v", found)
	for p := range state.old {
		if _, ok := state.new[p]; !ok {
			disk.Remove(p)
		}
	}
	for p, text := range state.new {
		if state.old[p] != text {
			putEntry(disk, p, text)
		}
	}
	return disk, s
}

func openAround(t *testing.T, disk *simfs.FS, level rw.SyncLevel, nonce string) *rw.Store {
	t.Helper()
	return must(rw.OpenSim(disk, &rw.Options{Sync: level}, rw.Sim{Nonce: nonce, Manual: true}))(t)
}

// TestScanCrashSweep kills a scan at every operation. The next scan completes it from
// any state: every change is recorded, none twice, and undoing the rows restores every
// byte.
func TestScanCrashSweep(t *testing.T) {
	for _, level := range allLevels {
		t.Run(string(level), func(t *testing.T) {
			t.Parallel()
			for n := phase(turns(1)); ; n += turns(1) {
				disk, s := changedOutside(t, level)
				_, err := killed(t, disk, n, func() error { return errorOf(s.Scan(background, around.ScanRequest{Calls: []string{"c"}})) })
				for i, left := range theDisks(disk, level, 20, n) {
					t.Run(fmt.Sprintf("op%d.%d", n, i), func(t *testing.T) { scannedWhole(t, left, level) })
				}
				if err == nil || t.Failed() {
					return
				}
			}
		})
	}
}

// scannedWhole completes a scan and judges the rows.
func scannedWhole(t *testing.T, disk *simfs.FS, level rw.SyncLevel) {
	s := openAround(t, disk, level, "0002")
	defer s.Close(background)
	if got := files(disk); !maps.Equal(got, state.new) {
		t.Fatalf("the scan changed the workspace: %s", brief(got))
	}
	must(s.Scan(background, around.ScanRequest{Calls: []string{"c"}}))(t)
	out := must(s.Changes(background, around.ChangesRequest{}))(t)
	got := map[string]string{}
	for _, f := range out.Files {
		require(t, f.Changes == 1 && !f.Conflict, "%+v", f)
		got[f.Path] = f.Change
	}
	want := map[string]string{"a.txt": "changed", "b.txt": "changed", "gone/c.txt": "deleted", "from.txt": "deleted", "to/to.txt": "created", "fresh/new.txt": "created",
		"bent": "changed", "gone/link": "deleted", "fresh/link": "created", "was_link": "changed", "was_file": "changed"}
	require(t, maps.Equal(got, want), "listed %v", got)
	again, err := s.Scan(background, around.ScanRequest{})
	require(t, err == nil && again.Group == "", "%v %v", again, err)
	check(t, s, true)
	must(s.Undo(background, rw.UndoRequest{Group: "c"}))(t)
	if got := files(disk); !maps.Equal(got, state.old) {
		t.Fatalf("undone: %s", brief(got))
	}
}

// TestUndoGroupCrashSweep kills the undo of a group at every operation: all of
// it is undone or nothing, and it can be undone itself. So it is where the files of
// the group are too many to be held open.
func TestUndoGroupCrashSweep(t *testing.T) {
	t.Parallel()
	for _, many := range []int{0, 1} {
		for _, level := range allLevels {
			t.Run(fmt.Sprint(level, many), func(t *testing.T) { undoGroupCrashSweep(t, level, many) })
		}
	}
}

func undoGroupCrashSweep(t *testing.T, level rw.SyncLevel, many int) {
	t.Parallel()
	c := scenario{opts: rw.Options{Sync: level}, sim: rw.Sim{Many: many}, old: state.new, new: state.old}
	step := turns(7)
	for n := phase(step); ; n += step {
		disk, s := changedOutside(t, level)
		found := must(s.Scan(background, around.ScanRequest{}))(t)
		s.SetMany(many)
		want, err := killed(t, disk, n, func() error { return errorOf(s.Undo(background, rw.UndoRequest{Group: found.Group})) })
		if t.Run(fmt.Sprintf("op%d", n), func(t *testing.T) { c.losses(t, disk, want, n) }); t.Failed() || err == nil {
			return
		}
	}
}

// TestScanFaultSweep makes every operation of a scan fail, done and not done. A
// scan that fails has recorded nothing that is not kept, and the next one
// completes it.
func TestScanFaultSweep(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.ENOSPC} {
		t.Run(errno.Error(), func(t *testing.T) {
			t.Parallel()
			for i := 0; ; i++ {
				disk, s := changedOutside(t, rw.SyncFull)
				hit, _ := failing(t, disk, i, errno, i%2 == 0, func() error { return errorOf(s.Scan(background, around.ScanRequest{Calls: []string{"c"}})) })
				s.Close(background)
				t.Run(fmt.Sprintf("op%d", i), func(t *testing.T) { scannedWhole(t, disk.Crash(uint64(i), simfs.Some), rw.SyncFull) })
				if hit == "" || t.Failed() {
					return
				}
			}
		})
	}
}

// TestLowDiskKeepsHashesOnly: with less than a twentieth of the disk free a scan
// records the changes and keeps no bytes, and undo reports that.
func TestLowDiskKeepsHashesOnly(t *testing.T) {
	disk, s := changedOutside(t, rw.SyncFull)
	disk.WriteFile("ballast", []byte(strings.Repeat("x", 1<<20)), 0o600)
	disk.CapBytes(1<<20 + 64<<10)
	found, err := s.Scan(background, around.ScanRequest{})
	require(t, err == nil && found.DiskLow && found.Changed == 5 && len(found.NotKept) == 9, "%+v %v", found, err)
	c := must(s.Capture(background))(t)
	expect(t, c.DiskLow, "%+v", c)
	disk.CapBytes(0)
	c, err = s.Capture(background)
	expect(t, err == nil && !c.DiskLow, "%+v %v", c, err)
	disk.Remove("b.txt") // the bytes of the others were there before
	fails(s.Restore(background, rw.RestoreRequest{Path: "b.txt", Version: found.Seq, Force: true}))(t, rw.ErrVersionNotKept)
}

// TestHistoryTakesATwentiethOfTheDisk: where that is less than the default, the
// oldest versions go.
func TestHistoryTakesATwentiethOfTheDisk(t *testing.T) {
	t.Parallel()
	disk := simfs.New()
	disk.CapBytes(40 << 20) // 2 MiB
	s := openAround(t, disk, rw.SyncFull, "a")
	text := strings.Repeat("some text that is kept\n", 8<<10)
	for i := range 30 {
		disk.WriteFile("a.txt", fmt.Appendf(nil, "%d %s", i, text), 0o644)
		must(s.Scan(background, around.ScanRequest{}))(t)
	}
	noErr(t, s.Close(background))
	s = openAround(t, disk, rw.SyncFull, "b")
	r := must(s.Admin().Compact(background, admin.CompactRequest{}))(t)
	kept := int64(0)
	h := must(s.History(background, rw.HistoryRequest{Path: "a.txt", N: 50}))(t)
	for _, v := range h.Versions {
		if v.Available {
			kept += v.Bytes
		}
	}
	expect(t, kept <= 2<<20 && kept >= 1<<20, "%d bytes are kept; %+v", kept, r)
}

// TestObservedRowsAppearOnlyWhenAskedFor: not in tail, since, analytics and a
// bare undo, but in history.
func TestObservedRowsAppearOnlyWhenAskedFor(t *testing.T) {
	_, s := changedOutside(t, rw.SyncFull)
	must(s.Scan(background, around.ScanRequest{}))(t)
	for _, asked := range []bool{false, true} {
		tail, err := s.JournalTail(background, rw.JournalTailRequest{IncludeObserved: asked})
		zero := uint64(0)
		since, err2 := s.JournalSince(background, rw.JournalSinceRequest{AfterSeq: &zero, IncludeObserved: asked})
		require(t, err == nil && err2 == nil && asked == (len(tail.Entries) > 0) && asked == (len(since.Entries) > 0),
			"%v %v %v %v %v", asked, tail, since, err, err2)
		if asked && (tail.Entries[0].Kind != "observed" || tail.Entries[0].Caller != around.CallerOutside) {
			t.Fatal(tail.Entries[0])
		}
	}
	out := must(s.Analytics(background, analytics.Request{}))(t)
	require(t, out.TotalWrites == 0, "%v", out)
	fails(s.Undo(background, rw.UndoRequest{}))(t, rw.ErrNothingToUndo)
	h, err := s.History(background, rw.HistoryRequest{Path: "a.txt"})
	require(t, err == nil && len(h.Versions) == 1 && h.Versions[0].Caller == around.CallerOutside && h.Versions[0].Available, "%v %v", h, err)
	must(s.Diff(background, rw.DiffRequest{Path: "fresh/new.txt"}))(t)
}

// TestNoLinksCanBeMade: an undo that would create a link on a system without links is
// refused before anything is done.
func TestNoLinksCanBeMade(t *testing.T) {
	disk, s := changedOutside(t, rw.SyncFull)
	found := must(s.Scan(background, around.ScanRequest{}))(t)
	disk.NoSymlink = true
	_, err := s.Undo(background, rw.UndoRequest{Group: found.Group})
	require(t, errors.Is(err, rw.ErrNotARegularFile) && maps.Equal(files(disk), state.new), "%v %s", err, brief(files(disk)))
	disk.NoSymlink = false
	if _, err := s.Undo(background, rw.UndoRequest{Group: found.Group}); err != nil || !maps.Equal(files(disk), state.old) {
		t.Fatalf("%v %s", err, brief(files(disk)))
	}
}
