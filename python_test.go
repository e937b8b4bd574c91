package resilientwrite_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/analytics"
	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/lock"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
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
	for from, to := range map[string]string{"workspace": dir, "state": statePath(dir)} {
		noErr(t, os.CopyFS(to, os.DirFS(filepath.Join(pythonFixture, from))))
	}
	noErr(t, os.WriteFile(statePath(dir, "policy.yaml"), []byte(pythonPolicy(t)), 0o600))
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
	got := must(os.ReadFile(statePath(dir, "journal.jsonl")))(t)
	equal(t, string(got), want, "the journal of the Python implementation was changed")
}

// pythonSound demands a sound store: the file that was changed by hand, and the
// checkpoint and the line of the scratch index that are broken in the fixture,
// are all that Check names.
func pythonSound(t *testing.T, s *rw.Store) {
	t.Helper()
	r := must(s.Check(background, admin.CheckRequest{Deep: true}))(t)
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
	equal(t, differs, 1, "check: ", r.Problems)
}

func tailOf(t *testing.T, s *rw.Store) []rw.JournalEntry {
	t.Helper()
	return must(s.JournalTail(background, rw.JournalTailRequest{N: 1000}))(t).Entries
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
	r := s.Recovery()
	expect(t, r.Imported == pythonRows && r.ImportSkipped == pythonTorn, "%+v", r)
	next := write(t, s, "notes.md", "- by the new program\n", rw.ModeAppend)
	fileIs(t, dir, "notes.md", "# Notes\n- the export takes 40 minutes\n- by the new program\n")
	rows := tailOf(t, s)
	mustEqual(t, cmp.Diff(append(pythonIDs(), next.JournalID), ids(rows)), "")
	first := rows[0]
	expect(t, first.TS.String() == "2026-04-11T10:00:00Z" && first.Path == "report.tex" && first.Mode == "create" && first.Caller == "claude" &&
		first.SHA256.String() == hash("\\section{Telemetry}\nFirst draft.\n") && first.Bytes == 33 && first.Rev == 1, "%+v", first)
	for i, e := range rows[:pythonRows] {
		equal(t, e.Seq, uint64(i)+1, "row ", i, " has seq")
	}
	over := rows[4]
	expect(t, over.Path == "report.tex" && over.Mode == "overwrite" && over.Rev == 2 && over.PrevSHA256 == first.SHA256, "%+v", over)
	last := rows[pythonRows]
	expect(t, last.Rev == 3 && last.PrevSHA256 == rows[10].SHA256, "%+v", last)
	mine, err := s.JournalTail(background, rw.JournalTailRequest{FilterCaller: "codex", FilterMode: "append"})
	expect(t, err == nil && len(mine.Entries) == 1 && mine.Entries[0].Path == "notes.md", "%v %+v", err, mine)
	since, err := s.JournalSince(background, rw.JournalSinceRequest{AfterSeq: new(uint64), Limit: 1000})
	expect(t, err == nil && !since.Gap && slices.Equal(ids(since.Entries)[:pythonRows], pythonIDs()), "%v %+v", err, since)
	history, err := s.History(background, rw.HistoryRequest{Path: "notes.md"})
	expect(t, err == nil && len(history.Versions) == 3 && history.Versions[2].Caller == "codex" && !history.Versions[2].Available, "%v %+v", err,
		history)
}

// TestPythonJournalIsCounted: the figures are of both journals.
func TestPythonJournalIsCounted(t *testing.T) {
	s, _ := openPython(t)
	write(t, s, "new.md", "new\n", rw.ModeCreate)
	a := must(s.Analytics(background, analytics.Request{}))(t)
	expect(t, a.TotalWrites == 7 && a.UniquePaths == 5 && a.Timeline[0].Path == "report.tex" &&
		a.Period.FirstEntry.String() == "2026-04-11T10:00:00Z" && a.Timeline[6].Path == "new.md", "%+v", a)
	equal(t, cmp.Diff(map[string]int{"create": 5, "overwrite": 1, "append": 1}, a.ByMode), "")
	expect(t, a.ByCaller["claude"] == 3 && a.ByCaller["codex"] == 3, "%v", a.ByCaller)
	deck := a.Sessions["deck"]
	expect(t, deck.ChunkWrites == 3 && deck.Composes == 0 && deck.FirstWrite.String() == "2026-04-11T10:00:10.000000Z" && deck.DurationSeconds == 20, "%+v", deck)
	c := a.Checkpoints
	expect(t, c.TotalSaves == 2 && c.Overwrites == 1 && c.ByName["plan"].Saves == 2, "%+v", c)
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
		r := s.Recovery()
		expect(t, r.Imported == imported && len(r.Conflicts)+len(r.Aborted) == 0, "%+v", r)
		equal(t, cmp.Diff(want, ids(tailOf(t, s))), "")
		pythonSound(t, s)
		noErr(t, s.Close(background))
		pythonJournalIs(t, dir, old)
	}
	reopened(pythonRows, pythonIDs())
	reopened(0, pythonIDs())
	os.Remove(statePath(dir, "meta.json"))
	reopened(0, pythonIDs())

	// The old program begins a new line after the torn one.
	noErr(t, os.WriteFile(filepath.Join(dir, "late.md"), []byte("x"), 0o644))
	row := `{"bytes":1,"caller":"claude","journal_id":"wj_0000000fffff","mode":"create","path":"late.md","sha256":"` + hash("x") + `","ts":"2026-04-12T10:00:00Z"}` + "\n"
	f := must(os.OpenFile(statePath(dir, "journal.jsonl"), os.O_APPEND|os.O_WRONLY, 0))(t)
	must(f.WriteString("\n" + row))(t)
	f.Close()
	old += "\n" + row
	reopened(1, append(pythonIDs(), "wj_0000000fffff"))
	reopened(0, append(pythonIDs(), "wj_0000000fffff"))
}

// TestPythonRowsThatCannotBe: lines that no row of ours can be made of are counted as
// unreadable, whatever is in them, and hide no other line.
func TestPythonRowsThatCannotBe(t *testing.T) {
	dir := pythonWorkspace(t)
	long := strings.Repeat("x", 300_000)
	lines := ""
	for _, of := range []struct{ path, sha, caller, more string }{
		{long, hash("x"), "c", ""}, {"a.md", hash("x"), long, ""}, {"../../etc/passwd", hash("x"), "c", ""}, {"/etc/passwd", hash("x"), "c", ""},
		{"a.md", "nothex", "c", ""}, {"a.md", strings.Repeat("../", 20) + "pass", "c", ""}, {"a.md", hash("x"), "c", `,"bytes":-5`}, {"a.md", hash("x"), "c", `,"ts":"` + long + `"`},
		{"fine.md", hash("x"), "c", `,"bytes":1`},
	} {
		lines += fmt.Sprintf(`{"path":%q,"sha256":%q,"caller":%q,"mode":"create","journal_id":"wj_1"%s}`+"\n", of.path, of.sha, of.caller, of.more)
	}
	f := must(os.OpenFile(statePath(dir, "journal.jsonl"), os.O_APPEND|os.O_WRONLY, 0))(t)
	must(f.WriteString("\n" + lines))(t)
	f.Close()
	noErr(t, os.WriteFile(filepath.Join(dir, "fine.md"), []byte("x"), 0o644))
	s := open(t, dir, nil)
	r := s.Recovery()
	expect(t, r.Imported == pythonRows+1 && r.ImportSkipped == pythonTorn+8, "%+v", r)
	rows := tailOf(t, s)
	equal(t, rows[len(rows)-1].Path, "fine.md")
	must(s.Analytics(background, analytics.Request{}))(t)
	pythonSound(t, s)
}

// TestPythonImportSweep: the process dies, or the power fails, at any operation of the first
// open. The next one has each row once, in order, with the versions that they make.
func TestPythonImportSweep(t *testing.T) {
	rows := func(s *rw.Store) (list []string) {
		for _, e := range tailOf(t, s) {
			list = append(list, fmt.Sprint(e.JournalID, " ", e.Path, " ", e.Rev))
		}
		return list
	}
	var want []string
	for n := phase(turns(1)); ; n += turns(1) {
		fs := simfs.New()
		for from, to := range map[string]string{"workspace": "", "state": rw.StateDirName} {
			for e := range testbed.Entries(t, filepath.Join(pythonFixture, from)) {
				if !e.Info.IsDir() {
					fs.WriteFile(path.Join(to, e.Path), []byte(e.Text), 0o600)
				}
			}
		}
		fs.StopAt(n)
		_, err := rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001"})
		fs.StopAt(-1)
		for seed, loss := range []simfs.Loss{simfs.None, simfs.All, simfs.Some, simfs.Older, simfs.Some} {
			disk := fs.Crash(uint64(seed), loss)
			for _, nonce := range []string{"0002", "0003"} {
				s := must(rw.OpenSim(disk, nil, rw.Sim{Nonce: nonce}))(t, "operation ", n)
				if want == nil {
					want = rows(s)
				}
				mustEqual(t, cmp.Diff(want, rows(s)), "", "operation ", n, ", seed ", seed)
				pythonSound(t, s)
				noErr(t, s.Close(background))
			}
		}
		if err == nil {
			break
		}
	}
	length(t, want, pythonRows, "rows")
}

// TestPythonWorkspaceReadOnly: a store that may write nothing leaves every file
// unchanged, and can still read the data that needs no journal of ours.
func TestPythonWorkspaceReadOnly(t *testing.T) {
	dir := pythonWorkspace(t)
	before := everyFile(t, dir)
	s := open(t, dir, &rw.Options{ReadOnly: true})
	equal(t, must(s.CheckpointList(background, rw.CheckpointListRequest{}))(t).Count, 3)
	equal(t, chunkStatus(t, s, "deck").NextIndex, 4)
	must(s.HandoffRead(background, handoff.ReadRequest{}))(t)
	gotBack(t, s, listed(t, s).Entries[0].SHA256.String(), "warning: 3 rows without a device id\n")
	equal(t, cmp.Diff(before, everyFile(t, dir)), "")
}

func everyFile(t *testing.T, dir string) map[string]string {
	t.Helper()
	quiesce(dir)
	all := map[string]string{}
	for e := range testbed.Entries(t, dir) {
		if !e.Info.IsDir() {
			all[filepath.Join(dir, e.Path)] = e.Text
		}
	}
	return all
}

// TestPythonSessionContinues: a session begun there is completed here.
func TestPythonSessionContinues(t *testing.T) {
	s, dir := openPython(t)
	st := chunkStatus(t, s, "deck")
	diff := cmp.Diff([]int{1, 2, 3}, st.PresentIndices)
	require(t, diff == "" && st.Exists && !st.Sealed && st.NextIndex == 4 && st.Bytes == 51, "%s %+v", diff, st)
	l := must(s.ChunkList(background, rw.ChunkListRequest{}))(t)
	expect(t, l.Count == 1 && l.Sessions[0].Session == "deck", "%+v", l)
	r, err := s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "deck", Content: []byte("## Slide 3\n"), ExpectIndex: 4})
	require(t, err == nil && r.Index == 4 && r.NextIndex == 5, "%v %+v", err, r)
	const whole = "# Deck\n\n## Slide 1\n\ntelemetry in März\n\n## Slide 2\n## Slide 3\n"
	p, err := s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: "deck"})
	require(t, err == nil && string(p.Content) == whole && p.ChunkCount == 4, "%v %+v", err, p)
	c, err := s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "deck", OutputPath: "deck.md", ExpectedSHA256: p.SHA256})
	require(t, err == nil && c.ChunkCount == 4 && c.SHA256.String() == hash(whole), "%v %+v", err, c)
	fileIs(t, dir, "deck.md", whole)
	a, err := s.Analytics(background, analytics.Request{SessionFilter: "deck"})
	expect(t, err == nil && a.Sessions["deck"].ChunkWrites == 4 && a.Sessions["deck"].Composes == 1, "%v %+v", err, a.Sessions)
}

// TestPythonTotalHolds: how many pieces were announced there is known here, so
// that no compose makes a file with its end cut off.
func TestPythonTotalHolds(t *testing.T) {
	s, dir := openPython(t)
	st := chunkStatus(t, s, "deck")
	expect(t, st.TotalExpected != nil && *st.TotalExpected == 4 && slices.Equal(st.Missing, []int{4}), "%+v", st)
	_, err := s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "deck", OutputPath: "deck.md"})
	expect(t, errors.Is(err, rw.ErrChunkCountMismatch) || errors.Is(err, rw.ErrNonContiguous), "3 of 4 pieces were composed: %v", err)
	gone(t, dir, "deck.md")
}

// TestPythonScratchIsThere: by each label and by hash, bytes and text, and with
// an index whose last line is torn.
func TestPythonScratchIsThere(t *testing.T) {
	s, _ := openPython(t)
	l := listed(t, s)
	expect(t, l.Count == 3 && l.Objects == 2 && l.Malformed == 1 && l.Rebuilt == 0 && l.Entries[0].Label == "latest-log", "%+v", l)
	const text = "warning: 3 rows without a device id\n"
	for _, label := range []string{"export-log", "latest-log"} {
		r, err := s.ScratchRef(background, rw.ScratchRefRequest{Label: label})
		expect(t, err == nil && r.Entry.SHA256.String() == hash(text) && r.BinExists && r.AliasCount == 1 && r.Entry.ContentType == "text/plain" &&
			r.Entry.Bytes == int64(len(text)), "%s: %v %+v", label, err, r)
	}
	gotBack(t, s, hash(text), text)
	shot := must(s.ScratchRef(background, rw.ScratchRefRequest{Label: "screenshot"}))(t)
	b, err := s.ScratchGet(background, rw.ScratchGetRequest{SHA256: shot.Entry.SHA256})
	expect(t, err == nil && b.Bytes == 12 && string(b.Content) == "\x89PNG\r\n\x1a\n\x00\xff\xfe\x00", "%v %+v", err, b)
	r := keep(t, s, rw.ScratchPutRequest{Content: []byte(text), Label: "again"})
	expect(t, r.Deduped, "%+v", r)
	l = listed(t, s)
	expect(t, l.Count == 4 && l.Entries[0].Label == "again", "%+v", l)
}

// TestPythonCheckpointsAreThere: data to the letter, the broken one named and
// alone.
func TestPythonCheckpointsAreThere(t *testing.T) {
	s, dir := openPython(t)
	list, err := s.CheckpointList(background, rw.CheckpointListRequest{})
	require(t, err == nil && list.Count == 3, "%v %+v", err, list)
	for i, want := range []struct {
		name    string
		corrupt bool
	}{{"broken", true}, {"plan", false}, {"reading", false}} {
		c := list.Checkpoints[i]
		expect(t, c.Name == want.name && c.Corrupt == want.corrupt, "%+v", c)
	}
	plan, err := s.CheckpointRead(background, rw.CheckpointReadRequest{Name: "plan"})
	require(t, err == nil && plan.TTL == "permanent" && plan.CreatedAt.String() == "2026-04-11T10:02:00Z" &&
		plan.UpdatedAt.String() == "2026-04-11T10:02:30Z", "%v %+v", err, plan)
	testbed.Contains(t, string(plan.Data), `"März"`, "1.10")
	saved(t, s, "reading", `"# Read\n\n- spec\n"`)
	fails(s.CheckpointRead(background, rw.CheckpointReadRequest{Name: "broken"}))(t, rw.ErrHashDriftOnRead)
	r := must(s.Checkpoint(background, rw.CheckpointRequest{Name: "plan", Data: []byte(`{"step":3}`), TTL: "permanent"}))(t)
	expect(t, r.CreatedAt.String() == "2026-04-11T10:02:00Z", "%+v", r)
	keepSession := false
	c, err := s.CheckpointCleanup(background, rw.CheckpointCleanupRequest{IncludeSession: &keepSession})
	expect(t, err == nil && len(c.Removed) == 1 && c.Removed[0].Name == "broken" && c.Removed[0].Reason == "corrupt" && c.Kept == 2, "%v %+v", err, c)
	kept := slices.Collect(maps.Values(everyFile(t, statePath(dir, "quarantine"))))
	expect(t, slices.Contains(kept, pythonFile(t, "checkpoints/broken.json")), "the broken checkpoint is not in quarantine")
}

// TestPythonHandoffReads: with the files that changed since, and with the one
// that it replaced.
func TestPythonHandoffReads(t *testing.T) {
	s, _ := openPython(t)
	r := must(s.HandoffRead(background, handoff.ReadRequest{AcknowledgeAs: "the next"}))(t)
	if e := r.Envelope; e.TaskID != "telemetry-report" || e.Status != handoff.Partial || e.Agent != "claude" || e.Summary != "Report written.\nDeck is next." ||
		e.UpdatedAt.String() != "2026-04-11T10:05:00Z" || len(e.NextSteps) != 2 || e.NextSteps[1] != "Translate the notes …" || len(e.LastGoodState) != 3 {
		t.Errorf("%+v", e)
	}
	expect(t, len(r.MissingFields) == 0 && string(r.Body) == "# Notes for the next agent\n\nThe deck lies in three chunks.\n", "%v %q",
		r.MissingFields, r.Body)
	drift := map[string]string{}
	for _, d := range r.DriftWarnings {
		drift[d.Path] = string(d.Reason)
	}
	equal(t, cmp.Diff(map[string]string{"report.tex": "hash_mismatch", "data/figures.csv": "missing"}, drift), "")
	expect(t, slices.Contains(r.CheckpointRefs, "plan") && r.ArchiveCount == 1, "%v %v", r.CheckpointRefs, r.Archives)
	old, err := s.HandoffRead(background, handoff.ReadRequest{Path: r.Archives[0]})
	expect(t, err == nil && old.Envelope.Summary == "Nothing written yet.", "%v %+v", err, old.Envelope)
	fails(s.HandoffRead(background, handoff.ReadRequest{Strict: true}))(t, rw.ErrStateDrift)
}

// TestPythonScores: under placeholders: score, what its users test with is named
// and scored as there: the sum over the families of the weight times 1 + 0.25 for
// each further finding, at most 1.5 times.
func TestPythonScores(t *testing.T) {
	s, _ := openPython(t)
	long, marks := strings.Repeat("E", 36), strings.Repeat("Z", 44)
	akia, ssn := "AKIA"+"IOSFODNN7"+"EXAMPLE", "123-45-"+"6789"
	key := "-----BEGIN RSA " + "PRIVATE KEY-----\n...\n"
	for text, want := range map[string]struct {
		patterns string
		score    float64
	}{
		akia:                             {"api_key/aws_access_key_id", 0.35},
		"sk-ant-" + "oat01-" + marks:     {"api_key/anthropic_oat", 0.35},
		"sk-ant-" + "api03-" + marks:     {"api_key/anthropic_api", 0.35},
		"sk-proj-" + marks:               {"api_key/openai_project_key", 0.35},
		"sk-" + long:                     {"api_key/openai_key", 0.35},
		"pub" + strings.Repeat("0", 32):  {"api_key/datadog_client_key", 0.35},
		"client-" + long:                 {"api_key/statsig_client_key", 0.35},
		"Bearer " + long:                 {"api_key/bearer_token", 0.35},
		"ghp_" + long:                    {"github_pat/ghp", 0.35},
		"gho_" + long:                    {"github_pat/gho", 0.35},
		"ghu_" + long:                    {"github_pat/ghu", 0.35},
		"ghs_" + long:                    {"github_pat/ghs", 0.35},
		"ghr_" + long:                    {"github_pat/ghr", 0.35},
		"eyJ" + "aaaa.eyJ" + "bbbb.cccc": {"jwt/jwt_triplet", 0.25},
		key:                              {"pem_block/pem_private_key", 0.50},
		"aws_secret_access_key = " + strings.Repeat("A", 40): {"aws_secret/aws_secret_access_key", 0.40},
		"user@example.com":                        {"pii/email", 0.15},
		ssn:                                       {"pii/ssn", 0.15},
		strings.Repeat("A", 240):                  {"binary_hint/long_base64_blob", 0.20},
		akia + "\n" + akia:                        {"api_key/aws_access_key_id api_key/aws_access_key_id", 0.4375},
		strings.Repeat(akia+"\n", 4):              {strings.TrimSpace(strings.Repeat("api_key/aws_access_key_id ", 4)), 0.525},
		key + "user@example.com " + ssn:           {"pem_block/pem_private_key pii/email pii/ssn", 0.6875},
		key + akia + " ghp_" + long:               {"pem_block/pem_private_key api_key/aws_access_key_id github_pat/ghp", 1},
		"nothing of the kind, and sk-learn too\n": {"", 0},
	} {
		r := must(s.RiskScore(background, rw.RiskScoreRequest{Content: []byte(text)}))(t)
		var got []string
		for _, p := range r.DetectedPatterns {
			got = append(got, p.Kind+"/"+p.Pattern)
			expect(t, p.Match != nil && !strings.Contains(*p.Match, "EEEE"), "%.30q: shown as %v", text, p.Match)
		}
		expect(t, strings.Join(got, " ") == want.patterns && r.Score == want.score, "%.30q: %v %v, want %s %v", text, got, r.Score, want.patterns,
			want.score)
	}
}

// TestPythonPolicyIsInForce checks its family, thresholds, exception and protected
// directory; none of its refusals leaves anything.
func TestPythonPolicyIsInForce(t *testing.T) {
	s, dir := openPython(t)
	d, err := s.Describe(background, rw.DescribeRequest{})
	expect(t, err == nil && d.Policy.Hash == hash(pythonPolicy(t)) && d.Policy.Exceptions == 1 &&
		slices.Equal(d.Policy.Protected, []string{"deploy/**"}), "%v %+v", err, d.Policy)
	const badge = "issued BADGE-482913 today\n"
	for content, want := range map[string]rw.Verdict{
		badge:                         rw.VerdictHigh,   // 0.35, high from 0.3
		"mail jo.doe@tele-metry.io\n": rw.VerdictMedium, // 0.15, medium from 0.12
		"nothing of the kind\n":       rw.VerdictSafe,
	} {
		equal(t, must(s.RiskScore(background, rw.RiskScoreRequest{Content: []byte(content)}))(t).Verdict, want, content)
	}
	before := everyFile(t, dir)
	agent := rw.WithGate(context.Background(), rw.GateOfAgents)
	for path, want := range map[string]error{"badges.txt": rw.ErrRiskBlocked, "deploy/prod.yaml": rw.ErrProtectedPath, ".resilient_write/policy.yaml": rw.ErrProtectedPath} {
		content := badge
		if want == rw.ErrProtectedPath {
			content = "a: 1\n"
		}
		_, err := s.SafeWrite(agent, rw.SafeWriteRequest{Path: path, Content: []byte(content), Mode: rw.ModeOverwrite})
		isErr(t, err, want, path)
		if e := rw.AsError("", err); want == rw.ErrRiskBlocked && !slices.Contains(e.Patterns, "internal") {
			t.Errorf("%+v", e.Patterns)
		}
	}
	after := everyFile(t, dir)
	for path := range after {
		rel, _ := filepath.Rel(dir, path)
		_, was := before[path]
		expect(t, was || strings.HasPrefix(rel, rw.StateDirName), "a refusal made %s", rel)
	}
	equal(t, after[statePath(dir, "policy.yaml")], pythonPolicy(t), "the policy was changed")
	must(s.SafeWrite(agent, rw.SafeWriteRequest{Path: "fixtures/badges.txt", Content: []byte(badge)}))(t, "the exception does not hold")
}

// TestCompatStores opens stores that earlier versions wrote. They must open for
// ever. testdata/compat/<version> holds workspace/ and state/; existing ones are
// never rewritten.
func TestCompatStores(t *testing.T) {
	t.Run("format1-closed", func(t *testing.T) {
		dir := compatStore(t, "format1-closed")
		s := open(t, dir, nil)
		fileIs(t, dir, "moved.txt", "old")
		tail, err := s.JournalTail(background, rw.JournalTailRequest{})
		expect(t, err == nil && len(tail.Entries) == 7 && tail.Entries[0].Seq == 1, "%v %+v", err, tail)
		check(t, s, true)
		must(s.Undo(background, rw.UndoRequest{N: 2}))(t)
		fileIs(t, dir, "log.txt", "one\ntwo\n")
		fileIs(t, dir, "deep/er/file.txt", "old")
		for path, want := range map[string]string{"log.txt": "one\n", "deep/er/file.txt": "first"} {
			h := must(s.History(background, rw.HistoryRequest{Path: path}))(t)
			for _, v := range h.Versions {
				if v.SHA256.String() == hash(want) {
					must(s.Restore(background, rw.RestoreRequest{Path: path, Version: v.Version}))(t)
					break
				}
			}
			fileIs(t, dir, path, want)
		}
		write(t, s, "more.txt", "more", rw.ModeCreate)
		check(t, s, true)
		meta, _ := os.ReadFile(statePath(dir, "meta.json"))
		expect(t, strings.Contains(string(meta), `"format": 2`), "%s", meta)
	})
	// A commit whose writer died before it published it is completed only by the
	// version that made it.
	t.Run("format1", func(t *testing.T) {
		dir := compatStore(t, "format1")
		before := snapshot(t, dir)
		for range 2 {
			_, err := rw.Open(background, dir, nil)
			e := rw.AsError("", err)
			require(t, errors.Is(err, rw.ErrBadStateDir) && strings.Contains(e.Hint, "version 0.1") && e.Context["format"] == 1, "%+v", e)
		}
		equal(t, snapshot(t, dir), before, "the workspace changed")
		fileIs(t, dir, "deep/er/file.txt", "old")
	})
	t.Run("format1-closed, opened by several at once", func(t *testing.T) {
		for range 20 {
			dir := compatStore(t, "format1-closed")
			var opening sync.WaitGroup
			for range 8 {
				opening.Go(func() {
					s, err := rw.Open(background, dir, nil)
					if err == nil {
						err = s.Close(background)
					}
					expect(t, err == nil, "%v", err)
				})
			}
			opening.Wait()
		}
	})
	t.Run("format1 in use", func(t *testing.T) {
		dir := compatStore(t, "format1-closed")
		release := holdLiveness(t, dir, "old")
		fails(rw.Open(background, dir, nil))(t, rw.ErrIOBusy)
		release()
		open(t, dir, nil)
	})
}

// compatStore copies a store into a workspace.
func compatStore(t *testing.T, name string) string {
	t.Helper()
	store, dir := filepath.Join("testdata", "compat", name), workspace(t)
	noErr(t, os.CopyFS(dir, os.DirFS(filepath.Join(store, "workspace"))))
	noErr(t, os.CopyFS(filepath.Join(dir, rw.StateDirName), os.DirFS(filepath.Join(store, "state"))))
	return dir
}

// holdLiveness looks to others like a live writer.
func holdLiveness(t *testing.T, dir, writer string) (release func()) {
	t.Helper()
	d := must(fsx.OpenRoot(statePath(dir, "locks")))(t)
	_, end, err := lock.Register(d, writer)
	noErr(t, err)
	return func() { end(); d.Close() }
}
