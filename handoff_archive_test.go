package resilientwrite_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestThreeArchivesInOneSecondAreThreeFiles, each with the bytes of the handoff
// it was and in the commit of the one that replaced it.
func TestThreeArchivesInOneSecondAreThreeFiles(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	s.SetNow(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)) // however long it takes
	var docs []string
	for i := range 4 {
		out := handOff(t, s, rw.HandoffWriteRequest{Envelope: anEnvelope("task"), Body: []byte(fmt.Sprint(i)), Archive: true})
		if (out.ArchivedPath != "") != (i > 0) {
			t.Errorf("%d: %+v", i, out)
		}
		data, _ := os.ReadFile(filepath.Join(dir, "HANDOFF.md"))
		docs = append(docs, string(data))
		if i > 0 {
			if old := takeOver(t, s, rw.HandoffReadRequest{Path: out.ArchivedPath}); string(old.Body) != fmt.Sprint(i-1) || old.HandoffPath != out.ArchivedPath {
				t.Errorf("%+v", old)
			}
		}
	}
	found := archivesIn(t, dir)
	if len(found) != 3 {
		t.Fatalf("%d archives: %v", len(found), found)
	}
	for name, content := range found {
		if !strings.HasPrefix(name, "task-2") || !strings.Contains(strings.Join(docs[:3], ""), content) {
			t.Errorf("%s holds %q", name, content)
		}
	}
	for _, p := range []string{"handoffs", filepath.Join("handoffs", filepath.Base(takeOver(t, s, rw.HandoffReadRequest{}).Archives[0]))} {
		if info, err := os.Stat(statePath(dir, p)); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v %v", p, info.Mode(), err)
		}
	}
	all := handoffRows(t, s)
	for i := 1; i < len(all); i += 2 {
		if all[i].Seq != all[i+1].Seq || all[i].Op != "handoff" || all[i+1].Op != "handoff_archive" || all[i+1].SHA256 != all[i].PrevSHA256 {
			t.Errorf("not one commit: %+v", all[i:i+2])
		}
	}
	r := takeOver(t, s, rw.HandoffReadRequest{})
	if len(r.Archives) != 3 || r.ArchiveCount != 3 {
		t.Errorf("%v", r.Archives)
	}
	check(t, s, true)
}

// TestHostileTaskIDs harm nothing: the archive is in its directory under a name of its
// own.
func TestHostileTaskIDs(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	ids := []string{
		"a/b", "../../etc/passwd", "line\nbreak", "nul\x00", strings.Repeat("x", 10<<10), "ü/日本語", ".hidden", "..", "-rf", "CON", "a b", "A/B", "a\\b", "😀", "---", "x: y # z", "\u202e",
	}
	for _, id := range ids {
		handOff(t, s, rw.HandoffWriteRequest{Envelope: anEnvelope(id), Archive: true})
		if r := takeOver(t, s, rw.HandoffReadRequest{}); r.Envelope.TaskID != id {
			t.Errorf("%q came back as %q", id, r.Envelope.TaskID)
		}
	}
	out := handOff(t, s, rw.HandoffWriteRequest{Envelope: anEnvelope("last"), Archive: true})
	found := archivesIn(t, dir)
	if len(found) != len(ids) || !strings.HasPrefix(out.ArchivedPath, rw.StateDirName+"/handoffs/") {
		t.Fatalf("%d archives of %d", len(found), len(ids))
	}
	for name := range found {
		if len(name) > 120 || strings.ContainsAny(name, " /\\\n\x00:") || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "-") {
			t.Errorf("an archive is called %q", name)
		}
	}
	check(t, s, true)
}

// TestUnreadHandoffIsArchivedNotLost, and one that was read is not kept twice.
func TestUnreadHandoffIsArchivedNotLost(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	next := func(body string) rw.HandoffWriteResult {
		t.Helper()
		return handOff(t, s, rw.HandoffWriteRequest{Envelope: anEnvelope("t"), Body: []byte(body)})
	}
	warned := func(out rw.HandoffWriteResult) bool {
		for _, w := range out.Warnings {
			if w.Reason == rw.WarnUnreadHandoff && w.Hint != "" {
				return true
			}
		}
		return false
	}
	next("one")
	if out := next("two"); out.ArchivedPath == "" || !warned(out) {
		t.Errorf("an unread handoff was not archived: %+v", out)
	}
	takeOver(t, s, rw.HandoffReadRequest{}) // looking is not reading
	if out := next("three"); out.ArchivedPath == "" {
		t.Errorf("%+v", out)
	}
	if r := takeOver(t, s, rw.HandoffReadRequest{AcknowledgeAs: "me"}); len(r.ReadBy) != 1 || r.ReadBy[0].Name != "me" || r.Receipt == nil || r.JournalID == "" {
		t.Errorf("%+v", r)
	}
	if out := next("four"); out.ArchivedPath != "" || warned(out) {
		t.Errorf("one that was read was archived: %+v", out)
	}
	takeOver(t, s, rw.HandoffReadRequest{AcknowledgeAs: "me"})
	os.WriteFile(filepath.Join(dir, "HANDOFF.md"), []byte("---\ntask_id: human\n---\nchanged since\n"), 0o644)
	if out := next("five"); !strings.Contains(out.ArchivedPath, "/human-") {
		t.Errorf("what a human wrote was not archived: %+v", out)
	}
	os.WriteFile(filepath.Join(dir, "HANDOFF.md"), []byte("no handoff at all"), 0o644)
	if out := next("six"); !strings.Contains(out.ArchivedPath, "/unnamed-") {
		t.Errorf("%+v", out)
	}
	// A large file goes to the archive in constant memory.
	large := strings.Repeat("0123456789abcdef", 400<<10)
	os.WriteFile(filepath.Join(dir, "HANDOFF.md"), []byte(large), 0o644)
	out := next("seven")
	if got := archivesIn(t, dir)[filepath.Base(out.ArchivedPath)]; got != large {
		t.Errorf("%d bytes in the archive", len(got))
	}
	check(t, s, true)
}

// TestReadingIsRemembered: across a restart, once per reader, by the bytes that were
// read; the handoff itself stays unchanged.
func TestReadingIsRemembered(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, nil)
	handOff(t, s, rw.HandoffWriteRequest{Envelope: anEnvelope("t")})
	handOff(t, s, rw.HandoffWriteRequest{Envelope: anEnvelope("t"), Path: "docs/other.md"})
	before := snapshot(t, dir)
	for _, name := range []string{"a", "b", "a", "日本"} {
		takeOver(t, s, rw.HandoffReadRequest{AcknowledgeAs: name})
	}
	if after := snapshot(t, dir); after != before {
		t.Errorf("reading changed\n%s\nto\n%s", before, after)
	}
	n := len(handoffRows(t, s))
	if n != 5 {
		t.Errorf("%d rows", n)
	}
	s.Close(background)
	s = open(t, dir, nil)
	names := func(path string) string {
		var list []string
		for _, r := range takeOver(t, s, rw.HandoffReadRequest{Path: path}).ReadBy {
			if _, err := time.Parse(time.RFC3339Nano, r.At); err != nil {
				t.Error(err)
			}
			list = append(list, r.Name)
		}
		return strings.Join(list, " ")
	}
	if got := names(""); got != "a b 日本" {
		t.Error(got)
	}
	if got := names("docs/other.md"); got != "" {
		t.Error(got)
	}
	for _, name := range []string{" ", "\xff", strings.Repeat("x", 201)} {
		if _, err := s.HandoffRead(background, rw.HandoffReadRequest{AcknowledgeAs: name}); !errors.Is(err, rw.ErrInvalidArgument) {
			t.Errorf("%q: %v", name, err)
		}
	}
	// A link to the handoff is the handoff.
	os.Symlink("HANDOFF.md", filepath.Join(dir, "alias.md"))
	if got := names("alias.md"); got != "a b 日本" {
		t.Error(got)
	}
	for i := range 150 {
		takeOver(t, s, rw.HandoffReadRequest{AcknowledgeAs: fmt.Sprint("reader ", i)})
	}
	if r := takeOver(t, s, rw.HandoffReadRequest{}); len(r.ReadBy) != 100 || r.ReadBy[99].Name != "reader 149" {
		t.Errorf("%d readers are kept", len(r.ReadBy))
	}
	check(t, s, true)
}

// TestDamageAroundHandoffsAffectsOnlyItself: notes that cannot be read, an
// archive that was changed, a directory that is a link.
func TestDamageAroundHandoffsAffectsOnlyItself(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	for i := range 3 {
		handOff(t, s, rw.HandoffWriteRequest{Envelope: anEnvelope(fmt.Sprint("t", i)), Archive: true})
	}
	takeOver(t, s, rw.HandoffReadRequest{AcknowledgeAs: "me"})
	notes := statePath(dir, "handoffs", "read.json")
	os.WriteFile(notes, []byte(`{"handoffs": [{`), 0o600)
	r := takeOver(t, s, rw.HandoffReadRequest{})
	if len(r.ReadBy) != 0 || len(r.Warnings) != 1 || r.Warnings[0].Reason != rw.WarnHandoffRecords || len(r.Archives) != 2 {
		t.Errorf("%+v", r)
	}
	if out := handOff(t, s, rw.HandoffWriteRequest{Envelope: anEnvelope("t3")}); out.ArchivedPath == "" {
		t.Error("of a handoff of which nobody knows who read it nothing is left")
	}
	if r := takeOver(t, s, rw.HandoffReadRequest{AcknowledgeAs: "me"}); len(r.ReadBy) != 1 {
		t.Errorf("%+v", r.ReadBy)
	}
	kept, _ := filepath.Glob(statePath(dir, "quarantine", "handoff_read.json.*"))
	if len(kept) != 1 {
		t.Fatalf("%v", kept)
	}
	if data, _ := os.ReadFile(kept[0]); string(data) != `{"handoffs": [{` {
		t.Errorf("%q", data)
	}

	archives := takeOver(t, s, rw.HandoffReadRequest{}).Archives
	victim := filepath.Join(dir, filepath.FromSlash(archives[1]))
	data, _ := os.ReadFile(victim)
	os.WriteFile(victim, append(data, "more"...), 0o600)
	_, err := s.HandoffRead(background, rw.HandoffReadRequest{Path: archives[1]})
	e := envelopeOf(t, dir, err, rw.ErrHashDriftOnRead)
	name, _ := e.Context["quarantined"].(string)
	if got, _ := os.ReadFile(statePath(dir, filepath.FromSlash(name))); string(got) != string(data)+"more" {
		t.Errorf("%s holds %q", name, got)
	}
	for _, p := range []string{archives[0], archives[2], "HANDOFF.md"} {
		takeOver(t, s, rw.HandoffReadRequest{Path: p})
	}
	_, err = s.HandoffRead(background, rw.HandoffReadRequest{Path: archives[1]})
	envelopeOf(t, dir, err, rw.ErrNotFound)
	// An archive of the Python implementation is in no journal.
	os.WriteFile(statePath(dir, "handoffs", "20260411T172804_old.md"), []byte("---\ntask_id: old\nstatus: complete\n---\n"), 0o600)
	if r := takeOver(t, s, rw.HandoffReadRequest{Path: rw.StateDirName + "/handoffs/20260411T172804_old.md"}); r.Envelope.TaskID != "old" {
		t.Errorf("%+v", r)
	}
	for _, p := range []string{"/handoffs/../meta.json", "/handoffs/read.json", "/handoffs/", "/handoffs/a/b.md", "/handoffs/\x00.md"} {
		if _, err := s.HandoffRead(background, rw.HandoffReadRequest{Path: rw.StateDirName + p}); err == nil {
			t.Errorf("%q was read", p)
		}
	}

	elsewhere := t.TempDir()
	os.Rename(statePath(dir, "handoffs"), filepath.Join(elsewhere, "handoffs"))
	os.Symlink(filepath.Join(elsewhere, "handoffs"), statePath(dir, "handoffs"))
	if r := takeOver(t, s, rw.HandoffReadRequest{}); len(r.Archives) != 0 || len(r.Warnings) != 1 {
		t.Errorf("%+v", r)
	}
	handoffRefused(t, s, dir, rw.HandoffWriteRequest{Envelope: anEnvelope("x"), Archive: true}, rw.ErrBadStateDir)
	_, err = s.HandoffRead(background, rw.HandoffReadRequest{AcknowledgeAs: "me"})
	envelopeOf(t, dir, err, rw.ErrBadStateDir)
}

// TestOneOfManyHandoffsWins if all of them name the version they replace; no handoff is
// lost if none of them does.
func TestOneOfManyHandoffsWins(t *testing.T) {
	dir := workspace(t)
	stores := []*rw.Store{open(t, dir, &rw.Options{Sync: rw.SyncOff}), open(t, dir, &rw.Options{Sync: rw.SyncOff})}
	first := handOff(t, stores[0], rw.HandoffWriteRequest{Envelope: anEnvelope("t")})
	const writers = 8
	race := func(r func(i int) rw.HandoffWriteRequest) (won int, errs []error) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		for i := range writers {
			wg.Add(1)
			go func() {
				defer wg.Done()
				_, err := stores[i%2].HandoffWrite(background, r(i))
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won++
				} else {
					errs = append(errs, err)
				}
			}()
		}
		wg.Wait()
		return won, errs
	}
	won, errs := race(func(i int) rw.HandoffWriteRequest {
		return rw.HandoffWriteRequest{Envelope: anEnvelope("t"), Body: []byte(fmt.Sprint("guarded ", i)), Expect: rw.Exactly(first.SHA256)}
	})
	if won != 1 {
		t.Errorf("%d won", won)
	}
	for _, err := range errs {
		isErr(t, err, rw.ErrHashMismatch)
	}
	won, errs = race(func(i int) rw.HandoffWriteRequest {
		return rw.HandoffWriteRequest{Envelope: anEnvelope("t"), Body: []byte(fmt.Sprint("free ", i))}
	})
	if won != writers {
		t.Fatalf("%v", errs)
	}
	// Every handoff is the current one or in an archive.
	bodies := map[string]bool{string(takeOver(t, stores[0], rw.HandoffReadRequest{}).Body): true}
	for name := range archivesIn(t, dir) {
		bodies[string(takeOver(t, stores[1], rw.HandoffReadRequest{Path: rw.StateDirName + "/handoffs/" + name}).Body)] = true
	}
	for i := range writers {
		if !bodies[fmt.Sprint("free ", i)] {
			t.Errorf("handoff %d is lost", i)
		}
	}
	if len(bodies) != writers+2 {
		t.Errorf("%d handoffs in all", len(bodies))
	}
	check(t, stores[0], true)
}

// TestRepeatedHandoffIsWrittenOnce, even if the first call changed the state that the
// second one is checked against.
func TestRepeatedHandoffIsWrittenOnce(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	a := write(t, s, "a.txt", "a", rw.ModeCreate)
	first := handOff(t, s, rw.HandoffWriteRequest{Envelope: anEnvelope("t")})
	r := rw.HandoffWriteRequest{
		Envelope: anEnvelope("t", func(e *rw.HandoffEnvelope) {
			e.LastGoodState = []rw.HandoffFile{{Path: "a.txt", SHA256: a.SHA256.String()}}
		}),
		Strict: true, Archive: true, Expect: rw.Exactly(first.SHA256), Call: rw.Call{IdempotencyKey: "k"},
	}
	once := handOff(t, s, r)
	write(t, s, "a.txt", "b", rw.ModeOverwrite)
	n := len(handoffRows(t, s))
	s.Close(background)
	s = open(t, dir, &rw.Options{Sync: rw.SyncOff})
	again := handOff(t, s, r)
	if again.Status != rw.StatusReplayed || again.SHA256 != once.SHA256 || again.Bytes != once.Bytes || again.ArchivedPath != once.ArchivedPath ||
		again.JournalID != once.JournalID || again.WroteAt == "" || len(again.DriftWarnings) != 1 || len(handoffRows(t, s)) != n {
		t.Errorf("%+v\n%+v", once, again)
	}
	r.Body = []byte("other")
	handoffRefused(t, s, dir, r, rw.ErrIdempotencyKeyReused)
	check(t, s, true)
}

// TestHandoffDryRunChangesNothing but reports what would happen.
func TestHandoffDryRunChangesNothing(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	handOff(t, s, rw.HandoffWriteRequest{Envelope: anEnvelope("t"), Body: []byte("old\n")})
	before, n := snapshot(t, dir), len(handoffRows(t, s))
	out := handOff(t, s, rw.HandoffWriteRequest{Envelope: anEnvelope("t"), Body: []byte("new\n"), Call: rw.Call{DryRun: true}})
	if !strings.Contains(out.Diff, "+new") || out.ArchivedPath == "" || out.JournalID != "" || !out.Receipt.DryRun {
		t.Errorf("%+v", out)
	}
	if _, err := os.Stat(statePath(dir, "handoffs")); !os.IsNotExist(err) {
		t.Error("the directory of archives was made")
	}
	if after := snapshot(t, dir); after != before || len(handoffRows(t, s)) != n {
		t.Errorf("%s\n%s", before, after)
	}
	real := handOff(t, s, rw.HandoffWriteRequest{Envelope: anEnvelope("t"), Body: []byte("new\n")})
	if out.SHA256.IsZero() || real.SHA256.IsZero() {
		t.Errorf("%v %v", out.SHA256, real.SHA256)
	}
	for _, name := range []string{"b", "a"} {
		os.MkdirAll(statePath(dir, "checkpoints"), 0o700)
		os.WriteFile(statePath(dir, "checkpoints", name+".json"), []byte("{}"), 0o600)
	}
	os.WriteFile(statePath(dir, "checkpoints", "a.tmp"), nil, 0o600)
	if diff := cmp.Diff([]string{"a", "b"}, takeOver(t, s, rw.HandoffReadRequest{}).CheckpointRefs); diff != "" {
		t.Error(diff)
	}
}
