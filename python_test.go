package resilientwrite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	rw "github.com/resilientwrite/resilientwrite"
)

// pythonFixture is a workspace as the Python implementation leaves it, made from facts
// of its format; its README describes the content.
const pythonFixture = "testdata/compat_python"

// pythonRows is how many whole rows its journal has, pythonTorn how many torn
// ones.
const (
	pythonRows = 12
	pythonTorn = 2
)

// pythonWorkspace copies the fixture into place. Its policy scores placeholders,
// as the Python implementation does.
func pythonWorkspace(t *testing.T) string {
	t.Helper()
	dir := ramspace(t)
	for from, to := range map[string]string{"workspace": dir, "state": inState(dir)} {
		noErr(t, os.CopyFS(to, os.DirFS(filepath.Join(pythonFixture, from))))
	}
	noErr(t, os.WriteFile(inState(dir, "policy.yaml"), []byte(pythonPolicy(t)), 0o600))
	return dir
}

func pythonPolicy(t *testing.T) string { return pythonFile(t, "policy.yaml") + "placeholders: score\n" }

// openPython opens it; at the end of the test the old journal must be unchanged byte
// for byte, and the store sound except for the file that was changed by hand.
func openPython(t *testing.T) (*rw.Store, string) {
	t.Helper()
	dir := pythonWorkspace(t)
	s := open(t, dir, nil)
	t.Cleanup(func() {
		pythonJournalIs(t, dir, pythonFile(t, "journal.jsonl"))
		pythonSound(t, s)
	})
	return s, dir
}

// pythonFile is a file of the state directory as the fixture has it.
func pythonFile(t *testing.T, name string) string {
	t.Helper()
	data := must(os.ReadFile(filepath.Join(pythonFixture, "state", name)))(t)
	return string(data)
}

func pythonJournalIs(t *testing.T, dir, want string) {
	t.Helper()
	got := must(os.ReadFile(inState(dir, "journal.jsonl")))(t)
	if string(got) != want {
		t.Error("the journal of the Python implementation was changed")
	}
}

// pythonSound demands a sound store: the file that was changed by hand, and the
// checkpoint and the line of the scratch index that are broken in the fixture,
// are all that Check names.
func pythonSound(t *testing.T, s *rw.Store) {
	t.Helper()
	r := must(s.Check(background, rw.CheckRequest{Deep: true}))(t)
	differs := 0
	for _, p := range r.Problems {
		switch p.Code + " " + p.Path {
		case "checkpoint_damaged checkpoints/broken.json", "scratch_index_damaged scratch/index.jsonl":
		case "file_differs report.tex":
			differs++
		default:
			t.Errorf("check: %+v", p)
		}
	}
	if differs != 1 {
		t.Errorf("check: %+v", r.Problems)
	}
}

func tailOf(t *testing.T, s *rw.Store) []rw.JournalEntry {
	t.Helper()
	r := must(s.JournalTail(background, rw.JournalTailRequest{N: 1000}))(t)
	return r.Entries
}

// ids are the journal ids of rows.
func ids(rows []rw.JournalEntry) []string {
	var list []string
	for _, e := range rows {
		list = append(list, e.JournalID)
	}
	return list
}

// pythonIDs are those of the rows that were taken over.
func pythonIDs() []string {
	var list []string
	for i := range pythonRows {
		list = append(list, fmt.Sprintf("wj_%012x", 0xabc001+i))
	}
	return list
}

// TestPythonJournalComesFirst: the rows precede all others, with their original
// content; torn lines are counted and hide no adjacent row.
func TestPythonJournalComesFirst(t *testing.T) {
	s, dir := openPython(t)
	if r := s.Recovery(); r.Imported != pythonRows || r.ImportSkipped != pythonTorn {
		t.Errorf("%+v", r)
	}
	next := write(t, s, "notes.md", "- by the new program\n", rw.ModeAppend)
	fileIs(t, dir, "notes.md", "# Notes\n- the export takes 40 minutes\n- by the new program\n")
	rows := tailOf(t, s)
	if diff := cmp.Diff(append(pythonIDs(), next.JournalID), ids(rows)); diff != "" {
		t.Fatal(diff)
	}
	first := rows[0]
	if first.TS != "2026-04-11T10:00:00Z" || first.Path != "report.tex" || first.Mode != "create" || first.Caller != "claude" ||
		first.SHA256.String() != hash("\\section{Telemetry}\nFirst draft.\n") || first.Bytes != 33 || first.Rev != 1 {
		t.Errorf("%+v", first)
	}
	for i, e := range rows[:pythonRows] {
		if e.Seq != uint64(i)+1 {
			t.Errorf("row %d has seq %d", i, e.Seq)
		}
	}
	if over := rows[4]; over.Path != "report.tex" || over.Mode != "overwrite" || over.Rev != 2 || over.PrevSHA256 != first.SHA256 {
		t.Errorf("%+v", over)
	}
	if last := rows[pythonRows]; last.Rev != 3 || last.PrevSHA256 != rows[10].SHA256 {
		t.Errorf("%+v", last)
	}
	mine, err := s.JournalTail(background, rw.JournalTailRequest{FilterCaller: "codex", FilterMode: "append"})
	if err != nil || len(mine.Entries) != 1 || mine.Entries[0].Path != "notes.md" {
		t.Errorf("%v %+v", err, mine)
	}
	since, err := s.JournalSince(background, rw.JournalSinceRequest{AfterSeq: new(uint64), Limit: 1000})
	if err != nil || since.Gap || !slices.Equal(ids(since.Entries)[:pythonRows], pythonIDs()) {
		t.Errorf("%v %+v", err, since)
	}
	history, err := s.History(background, rw.HistoryRequest{Path: "notes.md"})
	if err != nil || len(history.Versions) != 3 || history.Versions[2].Caller != "codex" || history.Versions[2].Available {
		t.Errorf("%v %+v", err, history)
	}
}

// TestPythonJournalIsCounted: the figures are of both journals.
func TestPythonJournalIsCounted(t *testing.T) {
	s, _ := openPython(t)
	write(t, s, "new.md", "new\n", rw.ModeCreate)
	a := must(s.Analytics(background, rw.AnalyticsRequest{}))(t)
	if a.TotalWrites != 7 || a.UniquePaths != 5 || a.Timeline[0].Path != "report.tex" || a.Period.FirstEntry != "2026-04-11T10:00:00Z" || a.Timeline[6].Path != "new.md" {
		t.Errorf("%+v", a)
	}
	if diff := cmp.Diff(map[string]int{"create": 5, "overwrite": 1, "append": 1}, a.ByMode); diff != "" {
		t.Error(diff)
	}
	if a.ByCaller["claude"] != 3 || a.ByCaller["codex"] != 3 {
		t.Errorf("%v", a.ByCaller)
	}
	if deck := a.Sessions["deck"]; deck.ChunkWrites != 3 || deck.Composes != 0 || deck.FirstWrite != "2026-04-11T10:00:10.000000Z" || deck.DurationSeconds != 20 {
		t.Errorf("%+v", deck)
	}
	if c := a.Checkpoints; c.TotalSaves != 2 || c.Overwrites != 1 || c.ByName["plan"].Saves != 2 {
		t.Errorf("%+v", c)
	}
}

// TestPythonIsImportedOnce: however often the workspace is opened, also when
// the old program added to its journal in between, and when the index of ours
// is lost.
func TestPythonIsImportedOnce(t *testing.T) {
	dir := pythonWorkspace(t)
	old := pythonFile(t, "journal.jsonl")
	reopened := func(imported int64, want []string) {
		t.Helper()
		s := must(rw.Open(background, dir, nil))(t)
		if r := s.Recovery(); r.Imported != imported || len(r.Conflicts)+len(r.Aborted) != 0 {
			t.Errorf("%+v", r)
		}
		if diff := cmp.Diff(want, ids(tailOf(t, s))); diff != "" {
			t.Error(diff)
		}
		pythonSound(t, s)
		if err := s.Close(background); err != nil {
			t.Error(err)
		}
		pythonJournalIs(t, dir, old)
	}
	reopened(pythonRows, pythonIDs())
	reopened(0, pythonIDs())
	os.Remove(inState(dir, "meta.json"))
	reopened(0, pythonIDs())

	// The old program begins a new line after the torn one.
	noErr(t, os.WriteFile(filepath.Join(dir, "late.md"), []byte("x"), 0o644))
	row := `{"bytes":1,"caller":"claude","journal_id":"wj_0000000fffff","mode":"create","path":"late.md","sha256":"` + hash("x") + `","ts":"2026-04-12T10:00:00Z"}` + "\n"
	f := must(os.OpenFile(inState(dir, "journal.jsonl"), os.O_APPEND|os.O_WRONLY, 0))(t)
	must(f.WriteString("\n" + row))(t)
	f.Close()
	old += "\n" + row
	reopened(1, append(pythonIDs(), "wj_0000000fffff"))
	reopened(0, append(pythonIDs(), "wj_0000000fffff"))
}

// TestPythonWorkspaceReadOnly: a store that may write nothing leaves every file
// unchanged, and can still read the data that needs no journal of ours.
func TestPythonWorkspaceReadOnly(t *testing.T) {
	dir := pythonWorkspace(t)
	before := everyFile(t, dir)
	s := open(t, dir, &rw.Options{ReadOnly: true})
	if c, err := s.CheckpointList(background, rw.CheckpointListRequest{}); err != nil || c.Count != 3 {
		t.Errorf("%v %+v", err, c)
	}
	if st := chunkStatus(t, s, "deck"); st.NextIndex != 4 {
		t.Errorf("%+v", st)
	}
	must(s.HandoffRead(background, rw.HandoffReadRequest{}))(t)
	gotBack(t, s, listed(t, s).Entries[0].SHA256.String(), "warning: 3 rows without a device id\n")
	if diff := cmp.Diff(before, everyFile(t, dir)); diff != "" {
		t.Error(diff)
	}
}

func everyFile(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	noErr(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all[path] = string(data)
		return err
	}))
	return all
}
