package resilientwrite_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	rw "github.com/resilientwrite/resilientwrite"
)

// tellsOf reports whether a check names a problem at a path.
func tellsOf(r rw.CheckResult, code, path string) bool {
	return slices.ContainsFunc(r.Problems, func(p rw.CheckProblem) bool { return p.Code == code && p.Path == path })
}

func besideObject(dir, content string) string {
	return inState(dir, "scratch", hash(content)+".jsonl")
}

// TestNothingIsLostWithTheScratchIndex: after any deletion or damage of the index,
// every entry is restored with its label, notes, type, caller, times and order; expiry
// times still apply; and the next put writes a complete index.
func TestNothingIsLostWithTheScratchIndex(t *testing.T) {
	for name, damage := range map[string]func(string){
		"lost":      func(p string) { os.Remove(p) },
		"empty":     func(p string) { os.Truncate(p, 0) },
		"one line":  func(p string) { os.WriteFile(p, []byte("{\n"), 0o600) },
		"cut":       func(p string) { st, _ := os.Stat(p); os.Truncate(p, st.Size()/2) },
		"directory": func(p string) { os.Remove(p); os.Mkdir(p, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := ramspace(t)
			s := open(t, dir, &rw.Options{Sync: rw.SyncOff, Caller: "keeper"})
			now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
			at := func(seconds int) { s.SetNow(now.Add(time.Duration(seconds) * time.Second)) }
			for i, r := range []rw.ScratchPutRequest{
				{Content: []byte("b"), Label: "dump", Notes: "of the <first> \"run\"\n\u2028", ContentType: "text/plain", TTL: "PT1H"},
				{Content: []byte("a"), Label: "log", Call: rw.Call{Caller: "another"}},
				{Content: []byte("b"), Label: "again"}, {Content: []byte("b"), Label: "dump", TTL: "PT2H"},
				{Content: []byte("c"), TTL: "PT1H", Notes: strings.Repeat("ä", 2000)}, {Content: []byte("a")},
			} {
				at(i)
				keep(t, s, r)
			}
			before := listed(t, s)
			check(t, s, true)
			damage(inState(dir, "scratch", "index.jsonl"))
			after := listed(t, s)
			if diff := cmp.Diff(before.Entries, after.Entries); diff != "" || after.Rebuilt != 0 || after.Count != 6 {
				t.Fatalf("%+v\n%s", after, diff)
			}
			found, err := s.Check(background, rw.CheckRequest{})
			if err != nil || !tellsOf(found, "scratch_index_damaged", "scratch/index.jsonl") || len(found.Problems) != 1 {
				t.Errorf("%v %+v", err, found.Problems)
			}
			at(5000) // c has expired
			keep(t, s, rw.ScratchPutRequest{Content: []byte("d"), Label: "new"})
			if l := listed(t, s); l.Objects != 3 || l.Entries[0].Label != "new" || l.Malformed != 0 || l.Entries[len(l.Entries)-1].Label != "log" {
				t.Errorf("%+v", l)
			}
			if _, err := os.Stat(besideObject(dir, "c")); !os.IsNotExist(err) {
				t.Errorf("the entry outlives its object: %v", err)
			}
			check(t, s, true)
		})
	}
}

// TestRepairMakesTheScratchIndexAgain from the facts files of the objects, and reports
// the entries of an older scratchpad that cannot be restored.
func TestRepairMakesTheScratchIndexAgain(t *testing.T) {
	dir := ramspace(t)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	for i := range 3 {
		keep(t, s, rw.ScratchPutRequest{Content: []byte(fmt.Sprint(i)), Label: fmt.Sprint("label ", i), TTL: "PT1H"})
	}
	index := inState(dir, "scratch", "index.jsonl")
	os.Remove(index)
	if r := repairIt(t, s, rw.RepairRequest{}); !r.Clean || len(r.Actions) != 1 || r.Actions[0].Did != rw.RepairRebuilt {
		t.Fatalf("%+v", r)
	}
	forgetFacts(index) // the index alone has all of it now
	if l := listed(t, s); l.Count != 3 || l.Entries[0].Label != "label 2" || l.Entries[0].ExpiresAt == "" {
		t.Errorf("%+v", l)
	}
	keep(t, s, rw.ScratchPutRequest{Content: []byte("1"), Label: "again"}) // also restores the lines
	os.Remove(index)
	found, _ := s.Check(background, rw.CheckRequest{})
	if len(found.Problems) == 0 || !strings.Contains(found.Problems[0].Detail, "of 3 objects") || !strings.Contains(found.Problems[0].Detail, "of 2 of them are lost") {
		t.Errorf("%+v", found.Problems)
	}
	l := listed(t, s)
	if l.Rebuilt != 2 || l.Entries[0].Label != "again" || l.Entries[1].Label != "label 1" || l.Entries[1].ExpiresAt == "" {
		t.Errorf("%+v", l)
	}
}

// TestScratchLinesGoWithTheObject: the caller's text about an object exists nowhere
// once the object is deleted, expired or erased.
func TestScratchLinesGoWithTheObject(t *testing.T) {
	dir := ramspace(t)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	s.SetNow(now)
	deleted := keep(t, s, rw.ScratchPutRequest{Content: []byte("a"), Label: "said-of-deleted"})
	keep(t, s, rw.ScratchPutRequest{Content: []byte("b"), Label: "said-of-expired", TTL: "PT1H"})
	secret := "swordfish-" + strings.Repeat("7", 9)
	keep(t, s, rw.ScratchPutRequest{Content: []byte("c"), Label: "kept", Notes: "it is " + secret})
	keep(t, s, rw.ScratchPutRequest{Content: []byte("d " + secret), Label: "said-of-erased"})
	must(s.ScratchDelete(background, rw.ScratchDeleteRequest{SHA256: deleted.SHA256}))(t)
	s.SetNow(now.Add(2 * time.Hour))
	listed(t, s)
	erase(t, s, rw.EraseRequest{Secret: []byte(secret)})
	for _, said := range []string{"said-of-deleted", "said-of-expired", "said-of-erased", secret} {
		nowhere(t, realTree(t, dir), said)
	}
	os.Remove(inState(dir, "scratch", "index.jsonl"))
	if l := listed(t, s); l.Count != 1 || l.Entries[0].Label != "kept" || strings.Contains(l.Entries[0].Notes, secret) || l.Entries[0].Notes == "" {
		t.Errorf("%+v", l)
	}
}

// TestScratchLinesOfStrangers: a foreign facts file, whatever it contains, describes no
// other object, prevents no put, and no byte of it is lost without a copy.
func TestScratchLinesOfStrangers(t *testing.T) {
	row := func(content, label string) string {
		line, _ := json.Marshal(map[string]any{"sha256": hash(content), "label": label, "bytes": 1, "ts": "2026-11-21T10:00:00Z"})
		return string(line)
	}
	for name, c := range map[string]struct {
		plant func(t *testing.T, path string)
		label string // of a once the index is lost
	}{
		"of another object": {func(t *testing.T, p string) { os.WriteFile(p, []byte(row("b", "stolen")+"\n"), 0o600) }, ""},
		"garbage":           {func(t *testing.T, p string) { os.WriteFile(p, []byte("\xff{\n\x00\n[]\n{\"sha256\":7}\n"), 0o600) }, ""},
		"torn": {func(t *testing.T, p string) {
			os.WriteFile(p, []byte(row("a", "whole")+"\n"+row("a", "torn")[:20]), 0o600)
		}, "whole"},
		"a long line": {func(t *testing.T, p string) {
			os.WriteFile(p, []byte(strings.Repeat("x", 200<<10)+"\n"+row("a", "behind")), 0o600)
		}, "behind"},
		"a directory": {func(t *testing.T, p string) { os.Mkdir(p, 0o700) }, ""},
		"a symlink":   {func(t *testing.T, p string) { os.Symlink("index.jsonl", p) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := ramspace(t)
			s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
			keep(t, s, rw.ScratchPutRequest{Content: []byte("a"), Label: "true"})
			keep(t, s, rw.ScratchPutRequest{Content: []byte("b"), Label: "other"})
			os.Remove(besideObject(dir, "a"))
			c.plant(t, besideObject(dir, "a"))
			if l := listed(t, s); l.Count != 2 || l.Entries[1].Label != "true" {
				t.Errorf("a whole index was not believed: %+v", l)
			}
			os.Rename(inState(dir, "scratch", "index.jsonl"), filepath.Join(dir, "index"))
			if r, err := s.ScratchRef(background, rw.ScratchRefRequest{SHA256: digest(hash("a"))}); err != nil || r.Entry.Label != c.label {
				t.Errorf("%+v %v", r, err)
			}
			if r, err := s.ScratchRef(background, rw.ScratchRefRequest{SHA256: digest(hash("b"))}); err != nil || r.Entry.Label != "other" {
				t.Errorf("%+v %v", r, err)
			}
			keep(t, s, rw.ScratchPutRequest{Content: []byte("a"), Label: "again"})
			os.Remove(inState(dir, "scratch", "index.jsonl"))
			if l := listed(t, s); l.Entries[0].Label != "again" || l.Objects != 2 {
				t.Errorf("%+v", l)
			}
		})
	}
}

// TestScratchLinesDoNotGrow without limit when the same bytes are put repeatedly for a
// short time.
func TestScratchLinesDoNotGrow(t *testing.T) {
	dir := ramspace(t)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for i := range 40 {
		s.SetNow(now.Add(time.Duration(i) * time.Hour))
		keep(t, s, rw.ScratchPutRequest{Content: []byte("a"), Notes: strings.Repeat("€", 2000), TTL: "PT30M"})
	}
	st := must(os.Stat(besideObject(dir, "a")))(t)
	if st.Size() > 80<<10 {
		t.Errorf("%d bytes", st.Size())
	}
	keep(t, s, rw.ScratchPutRequest{Content: []byte("a"), Label: "last"})
	os.Remove(inState(dir, "scratch", "index.jsonl"))
	if l := listed(t, s); l.Entries[0].Label != "last" {
		t.Errorf("%+v", l)
	}
}

// TestScratchSizesAreThoseOfTheFiles before a put is refused for them: an index with
// sizes that are too large, or whose sum overflows, blocks nothing and hides nothing.
func TestScratchSizesAreThoseOfTheFiles(t *testing.T) {
	for _, size := range []int64{1 << 26, 1 << 40, 1<<63 - 1} {
		dir := ramspace(t)
		s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
		for i := range 10 {
			keep(t, s, rw.ScratchPutRequest{Content: []byte(fmt.Sprint(i))})
		}
		index := inState(dir, "scratch", "index.jsonl")
		data, _ := os.ReadFile(index)
		forged := strings.ReplaceAll(string(data), `"bytes":1,`, fmt.Sprintf(`"bytes":%d,`, size))
		if forged == string(data) {
			t.Fatal("nothing was forged")
		}
		os.WriteFile(index, []byte(forged), 0o600)
		keep(t, s, rw.ScratchPutRequest{Content: []byte("more")})
		if l := listed(t, s); l.TotalBytes < 14 {
			t.Errorf("%d: %d bytes in all", size, l.TotalBytes)
		}
	}
}
