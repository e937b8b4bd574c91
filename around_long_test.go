package resilientwrite_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// longGroup is a store with a snapshot and a group that is too long for a line, with a
// secret in the name of one of its files.
func longGroup(t *testing.T, secret string) (*simfs.FS, *rw.Store, rw.ScanResult) {
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
	must(s.Scan(background, rw.ScanRequest{}))(t)
	must(s.Snapshot(background, rw.SnapshotRequest{Label: "of " + secret}))(t)
	for i := range 1500 {
		disk.WriteFile(name(i), fmt.Appendf(nil, "after %d\n", i), 0o644)
	}
	r, err := s.Scan(background, rw.ScanRequest{Calls: []string{"c1"}, Host: "h", Command: "fmt ./..."})
	if noErr(t, err); r.Changed != 1500 {
		t.Fatal(r.Changed)
	}
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
	secret := "hunter-" + strings.Repeat("q7", 6)
	disk, s, found := longGroup(t, secret)
	disk.Remove("keys/" + secret + ".txt")
	must(s.Scan(background, rw.ScanRequest{}))(t)
	if n := len(holdersOf(disk, secret)); n < 3 {
		t.Fatalf("only %d files hold it", n)
	}
	dry, err := s.Admin().Erase(background, rw.EraseRequest{Secret: []byte(secret), Call: rw.Call{DryRun: true}})
	if noErr(t, err); !strings.Contains(fmt.Sprint(dry.Places), "manifests") || !strings.Contains(fmt.Sprint(dry.Places), "observe") {
		t.Errorf("%+v", dry.Places)
	}
	r := must(s.Admin().Erase(background, rw.EraseRequest{Secret: []byte(secret)}))(t)
	if list := holdersOf(disk, secret); len(list) > 0 || len(r.Left) > 0 {
		t.Errorf("%q hold it; %+v", list, r)
	}
	for range 2 { // in this process and in the next
		h, err := s.History(background, rw.HistoryRequest{Path: "dir1/a file with a name of some length 11"})
		if err != nil || len(h.Versions) != 1 || h.Versions[0].Caller != rw.CallerOutside {
			t.Fatalf("%+v %v", h, err)
		}
		check(t, s, true)
		noErr(t, s.Close(background))
		s = openAround(t, disk, rw.SyncFull, "b")
	}
	if list, err := s.SnapshotList(background, rw.SnapshotListRequest{}); err != nil || len(list.Snapshots) != 1 {
		t.Errorf("%+v %v", list, err)
	}
	if again, err := s.Scan(background, rw.ScanRequest{}); err != nil || again.Baseline || again.Created+again.Changed > 0 {
		t.Errorf("%+v %v", again, err)
	}
	must(s.Restore(background, rw.RestoreRequest{Path: "dir1/a file with a name of some length 11", Version: found.Seq}))(t)
	if list := holdersOf(disk, secret); len(list) > 0 {
		t.Errorf("%q hold it again", list)
	}
}

// TestLongGroupsTravel: an export carries the changes of a row that is too long
// for a line, import shows them, and one that is damaged is refused.
func TestLongGroupsTravel(t *testing.T) {
	_, s, _ := longGroup(t, "nothing-secret")
	data := exported(t, s)
	fresh := openAround(t, simfs.New(), rw.SyncFull, "c")
	importInto(t, fresh, data)
	for i := range 1500 {
		if i%100 != 1 {
			continue
		}
		h, err := fresh.History(background, rw.HistoryRequest{Path: fmt.Sprintf("dir%d/a file with a name of some length %d", i%10, i)})
		if err != nil || len(h.Versions) != 1 || h.Versions[0].Caller != rw.CallerOutside || h.Versions[0].SHA256 != rw.DigestOf(fmt.Appendf(nil, "after %d\n", i)) {
			t.Fatalf("%d: %+v %v", i, h, err)
		}
	}
	check(t, fresh, true)
	if again := importInto(t, fresh, data); again.Imported != 0 {
		t.Errorf("%+v", again)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	for i, line := range lines {
		if bytes.HasPrefix(line, []byte(`{"of":`)) {
			cut := bytes.Join(append(append([][]byte{}, lines[:i]...), lines[i+1:]...), nil)
			fails(openAround(t, simfs.New(), rw.SyncFull, "d").Admin().Import(background, rw.ImportRequest{R: bytes.NewReader(cut)}))(t, rw.ErrExportDamaged)
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
	r, err := s.Check(background, rw.CheckRequest{})
	if err != nil || len(r.Problems) != 1 || r.Problems[0].Code != "manifest_missing" || r.Problems[0].Seq != found.Seq {
		t.Errorf("%+v %v", r, err)
	}
}
