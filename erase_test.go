package resilientwrite_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

func erase(t *testing.T, s *rw.Store, r admin.EraseRequest) admin.EraseResult {
	t.Helper()
	return must(s.Admin().Erase(background, r))(t, "erase")
}

// leaked is the secret of these tests, with characters that JSON escapes.
func leaked() string { return ghToken(2) + `"<é` }

// spread puts a secret into every part of the state directory. The gate only advises, but for one draft.
func spread(t *testing.T, s *rw.Store, secret string) {
	t.Helper()
	write(t, s, "clean.txt", "clean 1\n", rw.ModeCreate)
	write(t, s, "clean.txt", "clean 2\n", rw.ModeOverwrite)
	write(t, s, "a.txt", "before\n", rw.ModeCreate)
	write(t, s, "a.txt", "key = "+secret+"\n", rw.ModeOverwrite)
	write(t, s, "a.txt", "more\n", rw.ModeAppend)
	write(t, s, "a.txt", "wrapped: "+base64.StdEncoding.EncodeToString([]byte("xy"+secret+"z"))+" end of the line", rw.ModeOverwrite)
	write(t, s, "a.txt", "after, without the key, and as long as the shrink guard wants it to be\n", rw.ModeOverwrite)
	name := "dir/" + secret + ".txt"
	write(t, s, name, "named by it", rw.ModeCreate)
	must(s.Delete(background, rw.DeleteRequest{Path: name}))(t)
	r := put("b.txt", "b", rw.ModeCreate)
	r.Caller = secret
	must(s.SafeWrite(background, r))(t)
	must(s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte("dump " + secret), Label: "dump"}))(t)
	must(s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte("innocent"), Label: secret, Notes: "about " + secret}))(t)
	must(s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte("other"), Label: "other"}))(t)
	for i, piece := range []string{"one ", "two " + secret + " ", "three " + secret[:11], secret[11:] + " four", " five"} {
		must(s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "up", Index: i + 1, Content: []byte(piece), TotalExpected: 5}))(t)
	}
	must(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "fine", Content: []byte("fine")}))(t)
	data, _ := json.Marshal(map[string]any{"token": secret, "n": 7, secret: "as a name"})
	must(s.Checkpoint(background, rw.CheckpointRequest{Name: "point", Data: data, TTL: "permanent"}))(t)
	text, _ := json.Marshal("some notes\n" + secret + "\nmore notes")
	must(s.Checkpoint(background, rw.CheckpointRequest{Name: "notes", Data: text, Format: "markdown", TTL: "permanent"}))(t)
	must(s.Checkpoint(background, rw.CheckpointRequest{Name: "sound", Data: []byte(`{"n":1}`), TTL: "permanent"}))(t)
	for i := range 2 {
		must(s.HandoffWrite(background, handoff.WriteRequest{Envelope: anEnvelope(fmt.Sprint("t", i)), Body: []byte("# Notes\nthe key is " + secret + "\n")}))(t)
	}
	must(s.HandoffWrite(background, handoff.WriteRequest{Envelope: anEnvelope("t2"), Body: []byte("# Notes\nnothing, but enough of it to be no shrinking\n")}))(t)
	tx := must(s.TxBegin(background, rw.TxBeginRequest{}))(t)
	must(s.TxStage(background, rw.TxStageRequest{TxID: tx.TxID, Op: rw.TxOp{Op: "write", Path: "t.txt", Content: []byte("\xff" + secret)}}))(t)
	zero := uint64(0)
	must(s.JournalSince(background, rw.JournalSinceRequest{Agent: secret, AfterSeq: &zero}))(t)
	refused := put("refused.txt", "key = "+secret+"\n", rw.ModeCreate)
	fails(s.SafeWrite(rw.WithGate(background, rw.GateOfAgents), refused))(t, rw.ErrRiskBlocked, "not refused")
}

// forms are the encodings in which the secret must not be found afterwards.
func forms(secret string) map[string]string {
	once, _ := json.Marshal(secret)
	out := map[string]string{"raw": secret, "hex": hex.EncodeToString([]byte(secret)), "json": string(once[1 : len(once)-1]), "a part": secret[4:min(36, len(secret))]}
	for shift := range 3 {
		wrapped := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + secret))
		out[fmt.Sprint("base64 at ", shift)] = wrapped[4 : len(wrapped)-4]
	}
	return out
}

// legacyFiles are the files that the journal of the Python implementation names.
func legacyFiles(fs *simfs.FS, secret string) {
	fs.WriteFile(secret+"/x.md", []byte("x"), 0o644)
	fs.WriteFile("py.md", []byte("y"), 0o644)
}

// nowhere fails when the secret is in a file, or in the name of one, of a disk.
func nowhere(t *testing.T, tree map[string]string, secret string) {
	t.Helper()
	for path, content := range tree {
		if !strings.HasPrefix(path, rw.StateDirName) {
			continue
		}
		for form, text := range forms(secret) {
			expect(t, !strings.Contains(content, text) && !strings.Contains(path, text), "%s holds it: %s", path, form)
		}
	}
}

// realTree is the tree of a real directory.
func realTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	quiesce(dir)
	tree := map[string]string{}
	for e := range testbed.Entries(t, dir) {
		tree[e.Path] = "/"
		if e.Info.Mode().IsRegular() {
			tree[e.Path] = e.Text
		}
	}
	return tree
}

// strangers puts the secret where no call of ours puts it.
func strangers(fs *simfs.FS, secret string) {
	legacyFiles(fs, secret)
	state := rw.StateDirName + "/"
	once, _ := json.Marshal(secret)
	fs.WriteFile(state+"notes.txt", []byte("a stray "+secret), 0o600)
	fs.WriteFile(state+"quarantine/scratch-index.jsonl.0123", []byte(`{"label":`+string(once)+`}`+"\n"+secret), 0o600)
	fs.WriteFile(state+"journal.jsonl", []byte(`{"journal_id":"wj_1","ts":"2026-01-01T00:00:00Z","path":`+string(once[:len(once)-1])+`/x.md","sha256":"`+hash("x")+`","bytes":1,"mode":"create","caller":"py"}`+"\n"+
		`{"path":`+string(once)+"\n"+`{"journal_id":"wj_2","ts":"2026-01-01T00:00:01Z","path":"py.md","sha256":"`+hash("y")+`","bytes":1,"mode":"create","caller":"py"}`+"\n"), 0o600)
	fs.WriteFile(state+"deep/er/still.json", []byte(`{"a":["\u0067`+string(once[2:])+`]}`), 0o600)
}

// TestEraseLeavesNothing: no part of the state directory contains the secret, and
// everything else is unchanged.
func TestEraseLeavesNothing(t *testing.T) {
	secret := leaked()
	fs := simfs.New()
	strangers(fs, secret)
	sim := rw.Sim{Segment: 4000}
	openIt := func(nonce string) *rw.Store {
		t.Helper()
		sim.Nonce = nonce
		return must(rw.OpenSim(fs, &rw.Options{Caller: "tester"}, sim))(t)
	}
	s := openIt("0001")
	spread(t, s, secret)
	compact(t, s, admin.CompactRequest{KeepRows: none()})
	write(t, s, "clean.txt", "clean 3\n", rw.ModeOverwrite)
	rows, _ := s.CountRows()
	tail, _ := s.JournalTail(background, rw.JournalTailRequest{N: 1000, IncludeRefused: true})
	clean := allHistory(t, s, "clean.txt", "b.txt")
	h, _ := s.History(background, rw.HistoryRequest{Path: "a.txt"})

	plan := erase(t, s, admin.EraseRequest{Secret: []byte(secret), Call: rw.Call{DryRun: true}})
	expect(t, len(plan.Places) >= 9 && plan.Status == rw.StatusSucceeded, "dry run: %+v", plan)
	for _, part := range []string{"chunks/", "quarantine/", "scratch/"} {
		expect(t, slices.ContainsFunc(plan.Removed, func(name string) bool { return strings.HasPrefix(name, rw.StateDirName+"/"+part) }),
			"the dry run lists no object of %s: %q", part, plan.Removed)
	}
	n, _ := s.CountRows()
	expect(t, n == rows, "a dry run left a row")
	r := erase(t, s, admin.EraseRequest{Secret: []byte(secret), Reason: "a key leaked", Call: rw.Call{Caller: "operator"}})
	for _, want := range []string{"journal", "history", "scratch", "quarantine", "chunks", "checkpoints", "handoffs", "tx", "cursors", "others", "deep"} {
		found := slices.ContainsFunc(r.Places, func(p admin.ErasedPlace) bool { return p.Place == want && p.Count > 0 })
		expect(t, found, "nothing was erased in %s: %+v", want, r.Places)
	}
	equal(t, cmp.Diff(plan.Removed, r.Removed), "", "it removed other objects than the dry run had listed:\n")
	expect(t, len(r.Left) == 0 && r.Rows >= 3 && len(r.Versions) >= 3 && len(r.Workspace) == 1, "%+v", r)
	text := fmt.Sprintf("%+v %v", r, admin.EraseRequest{Secret: []byte(secret)})
	expect(t, !strings.Contains(text, secret[4:30]), "the reply shows the secret")
	nowhere(t, fs.Tree(), secret)
	look := func(s *rw.Store) {
		t.Helper()
		check(t, s, true)
		equal(t, allHistory(t, s, "clean.txt", "b.txt"), clean, "history is")
		got, err := s.JournalTail(background, rw.JournalTailRequest{N: 1000, IncludeRefused: true})
		require(t, err == nil && len(got.Entries) == len(tail.Entries) && got.Malformed == tail.Malformed,
			"%v: %d entries and %d bad lines, had %d and %d", err, len(got.Entries), got.Malformed, len(tail.Entries), tail.Malformed)
		for i, e := range got.Entries {
			if was := tail.Entries[i]; e.Seq != was.Seq || e.SHA256 != was.SHA256 || e.TS != was.TS || e.Kind != was.Kind || strings.Contains(e.Path, secret) {
				t.Errorf("entry %+v was %+v", e, was)
			}
		}
		now, err := s.History(background, rw.HistoryRequest{Path: "a.txt"})
		require(t, err == nil && len(now.Versions) == len(h.Versions), "%v %+v", err, now)
		for i, v := range now.Versions {
			want := i == 0 || i == 4
			expect(t, v.Available == want && v.Erased != want, "version %d of a.txt (%s): available %v, erased %v", i, v.Op, v.Available, v.Erased)
		}
		_, err = s.Read(background, rw.ReadRequest{Path: "a.txt", Version: now.Versions[1].Version})
		e := rw.AsError("", err)
		expect(t, errors.Is(err, rw.ErrVersionNotKept) && e.Context["erased"] == true, "%v %+v", err, e)
	}
	look(s)
	again := erase(t, s, admin.EraseRequest{Secret: []byte(secret)})
	expect(t, again.Status == rw.StatusUnchanged && len(again.Places) == 0, "again: %+v", again)
	for i := range 2 {
		s.Close(background)
		s = openIt(fmt.Sprint("001", i))
		expect(t, !s.Recovery().Rebuilt, "the snapshot does not fit any more")
		look(s)
	}
	workGoesOn(t, s)
	check(t, s, true)
	nowhere(t, fs.Tree(), secret)
}

// workGoesOn uses every layer after an erasure.
func workGoesOn(t *testing.T, s *rw.Store) {
	t.Helper()
	status, err := s.ChunkStatus(background, rw.ChunkStatusRequest{Session: "up"})
	expect(t, err == nil && fmt.Sprint(status.Missing) == "[2 3 4]" && !status.Sealed, "%v %+v", err, status)
	for i := 2; i <= 4; i++ {
		must(s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "up", Index: i, Content: []byte(fmt.Sprint(i, " "))}))(t)
	}
	out := must(s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "up", OutputPath: "up.txt"}))(t)
	expect(t, out.SHA256.String() == hash("one 2 3 4  five"), "%+v", out)
	for _, name := range []string{"point", "notes"} {
		_, err := s.CheckpointRead(background, rw.CheckpointReadRequest{Name: name})
		fails(0, err)(t, rw.ErrCheckpointNotFound, name)
		must(s.Checkpoint(background, rw.CheckpointRequest{Name: name, Data: []byte(`{"n":2}`), TTL: "permanent"}))(t)
	}
	p := must(s.CheckpointRead(background, rw.CheckpointReadRequest{Name: "sound"}))(t)
	equal(t, string(p.Data), `{"n":1}`)
	list, err := s.ScratchList(background, rw.ScratchListRequest{})
	expect(t, err == nil && len(list.Entries) == 1 && list.Entries[0].Label == "other" && list.Malformed == 0, "%v %+v", err, list)
	_, err = s.ScratchGet(background, rw.ScratchGetRequest{SHA256: digest(hash("innocent"))})
	fails(0, err)(t, rw.ErrNotFound)
	must(s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte("new"), Label: "new"}))(t)
	d, _ := s.DraftList(background, rw.DraftListRequest{})
	expect(t, d.Count == 0, "%+v", d)
	if d, _ := s.Describe(background, rw.DescribeRequest{}); len(d.Transactions) != 0 {
		t.Errorf("%+v", d.Transactions)
	}
	must(s.HandoffRead(background, handoff.ReadRequest{AcknowledgeAs: "next"}))(t)
	write(t, s, "a.txt", "a new version, after everything, that is as long as it has to be, and more\n", rw.ModeOverwrite)
	must(s.Undo(background, rw.UndoRequest{}))(t)
}

// TestEraseByHash: an object, or everything with the content of a draft, is erased
// without naming the secret.
func TestEraseByHash(t *testing.T) {
	dir := workspace(t)
	secret := "key = " + ghToken(4) + "\n"
	s := open(t, dir, nil)
	write(t, s, "a.txt", secret, rw.ModeCreate)
	write(t, s, "a.txt", strings.Repeat("clean ", 20), rw.ModeOverwrite)
	must(s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte(secret)}))(t)
	_, err := s.SafeWrite(agents(), put("b.txt", secret, rw.ModeCreate))
	ref, _ := rw.AsError("", err).Context["draft_ref"].(string)
	require(t, ref != "", "no draft: %v", err)
	fails(s.Admin().Erase(background, admin.EraseRequest{DraftRef: "draft_" + strings.Repeat("0", 32)}))(t, rw.ErrDraftNotFound)
	r := erase(t, s, admin.EraseRequest{DraftRef: ref})
	expect(t, fmt.Sprint(r.Places) == "[{history 1} {quarantine 2} {scratch 3}]" && fmt.Sprint(r.Versions) == "["+hash(secret)+"]", "%+v", r)
	nowhere(t, realTree(t, dir), secret[6:46])
	equal(t, erase(t, s, admin.EraseRequest{SHA256: digest(strings.ToUpper(hash(secret)))}).Status, rw.StatusUnchanged)
	check(t, s, true)
}

// TestEraseRefusals: nothing is changed, and no error shows the secret.
func TestEraseRefusals(t *testing.T) {
	s, dir := opened(t, nil)
	write(t, s, "a.txt", "a", rw.ModeCreate)
	write(t, s, "a.txt", "b", rw.ModeOverwrite)
	secret := "correct-horse-battery"
	look := func() string { // without the record of who has had a lock
		tree := realTree(t, dir)
		delete(tree, rw.StateDirName+"/locks/paths")
		return fmt.Sprint(tree)
	}
	before := look()
	for name, r := range map[string]admin.EraseRequest{
		"nothing": {}, "two ways": {Secret: []byte(secret), SHA256: digest(hash("x"))}, "short": {Secret: []byte("1234567")}, "hash of nothing": {SHA256: digest(hash(""))},
		"uniform":   {Secret: []byte(strings.Repeat(" ", 100))},
		"structure": {Secret: []byte(`"kind":"commit"`)}, "op": {Secret: []byte("overwrite")}, "a hash": {Secret: []byte(hash("a")[:20])},
		"caller": {Secret: []byte(secret), Call: rw.Call{Caller: "by " + secret}}, "reason": {Secret: []byte(secret), Reason: "leaked: " + secret},
		"session": {Secret: []byte(secret), Call: rw.Call{Session: secret}}, "draft": {DraftRef: "../../etc/passwd"},
	} {
		_, err := s.Admin().Erase(background, r)
		var e *rw.Error
		if !errors.As(err, &e) || e.Effect != rw.EffectNone || e.Code() != rw.CodeInvalid && e.Code() != rw.CodeNotFound {
			t.Errorf("%s: %v", name, err)
			continue
		}
		text, _ := json.Marshal(e)
		expect(t, !strings.Contains(string(text)+fmt.Sprintf("%v %+v %#v", e, r, r), secret), "%s: the error or the request shows the secret: %s",
			name, text)
	}
	equal(t, look(), before, "a refusal changed something")
	ro := open(t, dir, &rw.Options{ReadOnly: true})
	fails(ro.Admin().Erase(background, admin.EraseRequest{Secret: []byte(secret)}))(t, rw.ErrStoreReadOnly)
}

// TestEraseNamesWhatItDoesNotTouch: files of the workspace and the policy file
// stay, and are listed.
func TestEraseNamesWhatItDoesNotTouch(t *testing.T) {
	dir := workspace(t)
	secret := "correct-horse-battery"
	os.MkdirAll(statePath(dir), 0o700)
	os.WriteFile(statePath(dir, "policy.yaml"), []byte("# never write "+secret+"\nretry_budget:\n  default: 3\n"), 0o600)
	os.MkdirAll(filepath.Join(dir, "sub", ".git"), 0o755)
	os.WriteFile(filepath.Join(dir, "sub", "x.bin"), append(make([]byte, 300_000), secret...), 0o644)
	os.WriteFile(filepath.Join(dir, "sub", ".git", "index"), []byte(secret), 0o644)
	os.WriteFile(filepath.Join(dir, "sub", secret+".txt"), []byte("named"), 0o644)
	os.Symlink("/etc/passwd", filepath.Join(dir, "link"))
	s := open(t, dir, nil)
	write(t, s, "a.txt", "it is "+secret, rw.ModeCreate)
	r := erase(t, s, admin.EraseRequest{Secret: []byte(secret)})
	got := fmt.Sprint(r.Workspace)
	expect(t, got == "[a.txt sub/ERASED_ERASED_ERASED_.txt sub/x.bin]" && fmt.Sprint(r.Left) == "[policy.yaml]" && len(r.Warnings) == 2, "%+v", r)
	fileIs(t, dir, "a.txt", "it is "+secret)
	r = erase(t, s, admin.EraseRequest{Secret: []byte(secret), SkipWorkspace: true})
	expect(t, len(r.Workspace) == 0, "%+v", r)
	// According to the warning, replacing the file keeps its old bytes, until the next
	// call.
	write(t, s, "a.txt", "it is no more, for ever and ever", rw.ModeOverwrite)
	r = erase(t, s, admin.EraseRequest{Secret: []byte(secret)})
	expect(t, fmt.Sprint(r.Places) == "[{history 1}]", "%+v", r)
	check(t, s, true)
}

// TestEraseOfNames: what is named by the secret is removed whole, and what others have
// recorded next to it stays.
func TestEraseOfNames(t *testing.T) {
	s, dir := opened(t, nil)
	secret := "correct-horse-battery"
	for _, name := range []string{secret, "fine"} {
		must(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: name, Content: []byte("piece")}))(t)
		must(s.Checkpoint(background, rw.CheckpointRequest{Name: name, Data: []byte(`{"n":1}`), TTL: "permanent"}))(t)
	}
	must(s.HandoffWrite(background, handoff.WriteRequest{Envelope: anEnvelope("t"), Body: []byte("# Notes\n")}))(t)
	for _, agent := range []string{secret, "other"} {
		must(s.HandoffRead(background, handoff.ReadRequest{AcknowledgeAs: agent}))(t)
	}
	os.MkdirAll(statePath(dir, "odd", "of "+secret, "deep"), 0o700)
	os.WriteFile(statePath(dir, "odd", "of "+secret, "deep", "x"), []byte("x"), 0o600)
	os.WriteFile(statePath(dir, "odd", "y"), []byte("y"), 0o600)
	r := erase(t, s, admin.EraseRequest{Secret: []byte(secret)})
	expect(t, len(r.Left) == 0, "%+v", r)
	for path, content := range realTree(t, statePath(dir)) {
		expect(t, !strings.Contains(path+content, secret), "%s holds it", path)
	}
	equal(t, len(must(s.ChunkStatus(background, rw.ChunkStatusRequest{Session: "fine"}))(t).PresentIndices), 1)
	must(s.CheckpointRead(background, rw.CheckpointReadRequest{Name: "fine"}))(t)
	testbed.Contains(t, string(must(os.ReadFile(statePath(dir, "handoffs", "read.json")))(t)), `"other"`, "ERASED_")
	equal(t, string(must(os.ReadFile(statePath(dir, "odd", "y")))(t)), "y")
	check(t, s, true)
}

// TestEraseBesideWriters: writers in two stores continue, all of their rows and
// versions exist, and their earlier content no longer contains the secret.
func TestEraseBesideWriters(t *testing.T) {
	fs := simfs.New()
	secret := leaked()
	var stores [2]*rw.Store
	for i, level := range []rw.SyncLevel{rw.SyncFull, rw.SyncJournal} {
		s := must(rw.OpenSim(fs, &rw.Options{Sync: level, LockTimeout: time.Minute}, rw.Sim{Segment: 3000, Nonce: fmt.Sprint("00", i)}))(t)
		stores[i] = s
	}
	spread(t, stores[0], secret)
	for i := range 4 {
		r := put(fmt.Sprintf("%d.txt", i), "holds "+secret, rw.ModeCreate)
		r.Session = secret
		must(stores[i%2].SafeWrite(background, r))(t)
	}
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 25 {
				_, err := stores[w%2].SafeWrite(background, put(fmt.Sprintf("%d.txt", w), fmt.Sprintf("%60d", i), rw.ModeOverwrite))
				expect(t, err == nil, "write: %v (%v)", err, errors.Unwrap(err))
			}
		})
	}
	for i := range 3 {
		erase(t, stores[i%2], admin.EraseRequest{Secret: []byte(secret), SkipWorkspace: true})
	}
	wg.Wait()
	for _, s := range stores {
		noErr(t, s.Sync(background))
	}
	erase(t, stores[0], admin.EraseRequest{Secret: []byte(secret)})
	nowhere(t, fs.Tree(), secret)
	for _, s := range stores {
		for w := range 4 {
			h, err := s.History(background, rw.HistoryRequest{Path: fmt.Sprintf("%d.txt", w), N: 100})
			expect(t, err == nil && len(h.Versions) == 26, "%v: %d versions", err, len(h.Versions))
		}
		check(t, s, true)
		s.Close(background)
	}
}

// TestEraseBesideVersionsThatWait: a version that waits in another process for its copy in
// history gets none after an erasure, although that process has not read the rows that
// others wrote before it. No part of the copy is made: the process may die with it.
func TestEraseBesideVersionsThatWait(t *testing.T) {
	secret := leaked()
	for n := -1; n < 12; n++ { // more operations than a copy has
		fs := simfs.New()
		s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "000a"}))(t)
		other := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "000b"}))(t)
		write(t, s, "a.txt", "holds "+secret, rw.ModeCreate)
		write(t, other, "b.txt", "text", rw.ModeCreate)
		erase(t, other, admin.EraseRequest{Secret: []byte(secret), SkipWorkspace: true})
		other.Close(background)
		fs.StopAt(n)
		s.Sync(background)
		fs.StopAt(-1)
		for path, content := range fs.Tree() {
			expect(t, !strings.HasPrefix(path, rw.StateDirName+"/") || !strings.Contains(content, secret), "operation %d: it is in %s", n, path)
		}
		fs.Kill()
	}
}

// TestEraseWaitsForCallsInProgress: the row of a commit whose writer died keeps its path
// until the commit is completed.
func TestEraseWaitsForCallsInProgress(t *testing.T) {
	secret := "correct-horse-battery"
	for n := 0; ; n++ {
		fs := simfs.New()
		s, _ := rw.OpenSim(fs, nil, rw.Sim{Nonce: "000a"})
		write(t, s, "a.txt", "first", rw.ModeCreate)
		fs.StopAt(n)
		_, err := s.SafeWrite(background, put("d/"+secret+".txt", "content of it", rw.ModeCreate))
		fs.StopAt(-1)
		fs.Kill()
		s, oerr := rw.OpenSim(fs, nil, rw.Sim{Nonce: "000b"})
		noErr(t, oerr)
		erase(t, s, admin.EraseRequest{Secret: []byte(secret)})
		check(t, s, true)
		nowhere(t, fs.Tree(), secret)
		content, there := fs.ReadFile("d/" + secret + ".txt")
		require(t, (err != nil || there) && (!there || string(content) == "content of it"), "operation %d: %v, the file holds %q", n, err, content)
		for p := range fs.Tree() {
			require(t, !strings.Contains(p, "ERASED") || strings.HasPrefix(p, rw.StateDirName), "operation %d: %s was made", n, p)
		}
		s.Close(background)
		if err == nil {
			return
		}
	}
}

// TestEraseSweep kills Erase everywhere and makes every operation fail.
func TestEraseSweep(t *testing.T) {
	t.Parallel()
	secret := leaked()
	upkeepSweep{
		step: 61, name: "erase", sim: rw.Sim{Segment: 4000},
		before: func(t *testing.T, s *rw.Store) {
			spread(t, s, secret)
			compact(t, s, admin.CompactRequest{KeepRows: none()})
			write(t, s, "clean.txt", "clean 3\n", rw.ModeOverwrite)
			addSecret(t, s, "added.txt", secret)
		},
		disk: func(fs *simfs.FS) { strangers(fs, secret) },
		run: func(ctx context.Context, s *rw.Store) error {
			return errorOf(s.Admin().Erase(ctx, admin.EraseRequest{Secret: []byte(secret)}))
		},
		same: func(t *testing.T, s *rw.Store) string {
			all := must(s.JournalTail(background, rw.JournalTailRequest{N: 1000}))(t)
			text := allHistory(t, s, "clean.txt", "b.txt") + beginnings(t, s, "added.txt")
			for _, e := range all.Entries {
				if e.Path != "after.txt" {
					text += fmt.Sprintln(e.Seq, e.Op, e.SHA256, strings.Count(e.Path, "/"))
				}
			}
			return text
		},
		after: func(t *testing.T, s *rw.Store, fs *simfs.FS) { nowhere(t, fs.Tree(), secret) },
	}.sweeps(t)
}

// addSecret makes a file by adding to it, the secret between other lines, and then cleans it.
func addSecret(t *testing.T, s *rw.Store, path, secret string) {
	t.Helper()
	write(t, s, path, "one\n", rw.ModeCreate)
	for _, line := range []string{"two\n", secret + "\n", "four\n"} {
		write(t, s, path, line, rw.ModeAppend)
	}
	write(t, s, path, "one\ntwo\nfour\n", rw.ModeOverwrite)
}

// beginnings are the contents of the first two versions of such a file.
func beginnings(t *testing.T, s *rw.Store, path string) string {
	t.Helper()
	list := must(s.History(background, rw.HistoryRequest{Path: path}))(t).Versions
	length(t, list, 5, "versions")
	text := ""
	for _, v := range list[3:] {
		text += string(must(s.Read(background, rw.ReadRequest{Path: path, Version: v.Version}))(t, "version ", v.Rev).Content) + "."
	}
	return text
}

// TestEraseKeepsWhatWasAddedTo: history has the states before an append as the beginning of
// the one after it. If that is erased, those without the secret stay.
func TestEraseKeepsWhatWasAddedTo(t *testing.T) {
	t.Parallel()
	secret, long := leaked(), strings.Repeat("0123456789abcdef\n", 80<<10)
	for _, level := range []rw.SyncLevel{rw.SyncFull, rw.SyncOff} {
		dir := workspace(t)
		s := open(t, dir, &rw.Options{Sync: level, Gate: rw.Gate{Mode: rw.GateAdvise}})
		addSecret(t, s, "small.txt", secret)
		write(t, s, "large.txt", long, rw.ModeCreate)
		write(t, s, "large.txt", secret, rw.ModeAppend) // in place
		must(s.Delete(background, rw.DeleteRequest{Path: "large.txt"}))(t)
		write(t, s, "by hash.txt", "first\n", rw.ModeCreate)
		write(t, s, "by hash.txt", "two\n", rw.ModeAppend)
		write(t, s, "by hash.txt", "three\n", rw.ModeOverwrite)
		erase(t, s, admin.EraseRequest{Secret: []byte(secret)})
		erase(t, s, admin.EraseRequest{SHA256: digest(hash("first\ntwo\n"))})
		nowhere(t, realTree(t, dir), secret)
		equal(t, beginnings(t, s, "small.txt"), "one\ntwo\n.one\n.", level)
		for path, want := range map[string][]bool{"small.txt": {true, false, false, true, true}, "large.txt": {true, false, true}, "by hash.txt": {true, false, true}} {
			list := must(s.History(background, rw.HistoryRequest{Path: path}))(t).Versions
			require(t, len(list) == len(want), "%s: %d versions", path, len(list))
			for i, v := range list {
				expect(t, v.Available == want[i] && v.Erased != want[i], "%s at %s: version %d: available %v, erased %v", path, level, v.Rev, v.Available, v.Erased)
			}
		}
		check(t, s, true)
	}
}

// TestEraseAfterOneThatFailed: an erasure that fails while it keeps the beginning of a version
// lets go of history, so that it can be repeated.
func TestEraseAfterOneThatFailed(t *testing.T) {
	secret, fs := leaked(), simfs.New()
	s := must(rw.OpenSim(fs, &rw.Options{LockTimeout: time.Second}, rw.Sim{}))(t)
	addSecret(t, s, "added.txt", secret)
	noErr(t, s.Sync(background))
	fs.Inject(func(op simfs.Op) simfs.Fault {
		if op.Kind == "mkdir" && strings.HasPrefix(op.Path, rw.StateDirName+"/history/") {
			return simfs.Fault{Err: syscall.EIO}
		}
		return simfs.Fault{}
	})
	r := admin.EraseRequest{Secret: []byte(secret)}
	fails(s.Admin().Erase(background, r))(t, rw.ErrIO)
	fs.Inject(nil)
	erase(t, s, r)
	nowhere(t, fs.Tree(), secret)
	equal(t, beginnings(t, s, "added.txt"), "one\ntwo\n.one\n.")
}

// TestPruneBesideAnErasure: an erasure is stopped at any point, and another process removes
// the versions that are the beginning of a later one. Those that the erasure keeps stay.
func TestPruneBesideAnErasure(t *testing.T) {
	t.Parallel()
	secret, ran, step := leaked(), 0, stride(1)
	for at := phase(step); ; at += step {
		fs := simfs.New()
		fs.WriteFile(rw.StateDirName+"/policy.yaml", []byte("history: {max_bytes: 64KiB}\n"), 0o600)
		process := fs.NewProcess()
		brief := 20 * time.Millisecond
		eraser := must(rw.OpenSim(fs, &rw.Options{Gate: rw.Gate{Mode: rw.GateAdvise}, LockTimeout: 10 * brief}, rw.Sim{Nonce: "0001", Process: process}))(t)
		other := must(rw.OpenSim(fs, &rw.Options{LockTimeout: brief}, rw.Sim{Nonce: "0002", LockWait: brief}))(t)
		write(t, eraser, "added.txt", "one\n", rw.ModeCreate)
		write(t, eraser, "added.txt", secret, rw.ModeAppend)
		write(t, eraser, "added.txt", "clean\n", rw.ModeOverwrite)
		noErr(t, eraser.Sync(background))
		run := func() error {
			return errorOf(eraser.Admin().Erase(background, admin.EraseRequest{Secret: []byte(secret)}))
		}
		done, stopped := stoppedAt(t, process, at, run)
		for i := range 4 { // the bytes that these keep have all limits applied
			err := errorOf(other.SafeWrite(background, put("b.txt", strings.Repeat(fmt.Sprint(i), 5<<10), rw.ModeOverwrite)))
			require(t, err == nil || rw.AsError("", err).Action == rw.ActionRetryLater, "stopped at %d: %v (%v)", at, err, errors.Unwrap(err))
		}
		process.Continue()
		if stopped && <-done != nil { // a version of the other process could not reach history
			noErr(t, other.Sync(background))
			noErr(t, run(), "stopped at ", at)
		}
		list := must(eraser.History(background, rw.HistoryRequest{Path: "added.txt"}))(t).Versions
		expect(t, len(list) == 3 && list[2].Available && list[1].Erased, "stopped at %d: %+v", at, list)
		nowhere(t, fs.Tree(), secret)
		noErr(t, other.Close(background))
		noErr(t, eraser.Close(background))
		if ran++; !stopped {
			break
		}
	}
	expect(t, ran >= 10, "stopped at %d places only", ran)
}

// TestEraseInLargeData: checkpoint data in a separate file, and a large object, are
// found and removed as well.
func TestEraseInLargeData(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	secret := "correct-horse-battery"
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	filler := strings.Repeat("0123456789abcdef", 80<<10)
	data, _ := json.Marshal(map[string]string{"a": filler, "key": secret, "b": filler})
	must(s.Checkpoint(background, rw.CheckpointRequest{Name: "large", Data: data}))(t)
	write(t, s, "large.txt", filler+secret+filler, rw.ModeCreate)
	write(t, s, "large.txt", filler+filler+filler, rw.ModeOverwrite)
	r := erase(t, s, admin.EraseRequest{Secret: []byte(secret)})
	equal(t, fmt.Sprint(r.Places), "[{checkpoints 2} {history 1}]", r.Places)
	nowhere(t, realTree(t, dir), secret)
	fails(s.CheckpointRead(background, rw.CheckpointReadRequest{Name: "large"}))(t, rw.ErrCheckpointNotFound)
	check(t, s, true)
}

// TestEraseBesideAnotherProcess: a process that writes all the time, under paths that
// contain the secret, continues through erasures and parking by this one; nothing that
// was acknowledged to it is lost.
func TestEraseBesideAnotherProcess(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	secret := "correct-horse-battery"
	s := open(t, dir, &rw.Options{LockTimeout: time.Minute})
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "RW_CHILD=rows", "RW_DIR="+dir, "RW_LEVEL=journal", "RW_ARG="+secret)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out := must(cmd.StdoutPipe())(t)
	noErr(t, cmd.Start())
	lines := bufio.NewScanner(out)
	rows := 0
	for lines.Scan() { // one round of two writes was acknowledged
		if n, _ := strconv.Atoi(lines.Text()); n%20 != 3 {
			continue
		}
		mine := fmt.Sprintf("%s %s", secret, lines.Text())
		write(t, s, "mine.txt", mine, rw.ModeOverwrite)
		write(t, s, "mine.txt", fmt.Sprintf("nothing to be seen here %s", lines.Text()), rw.ModeOverwrite)
		r := erase(t, s, admin.EraseRequest{Secret: []byte(secret), SkipWorkspace: true})
		for _, left := range r.Left { // the child continues to write it, as name and as content
			of, name := filepath.Base(filepath.Dir(filepath.Dir(left))), filepath.Base(left)
			beside := strings.HasPrefix(left, "journal/") || strings.HasPrefix(left, "staging/") || strings.HasPrefix(left, "locks/w-")
			expect(t, beside || of == "history" && name != hash(mine), "left %s", left)
		}
		rows += r.Rows
		compact(t, s, admin.CompactRequest{KeepRows: none()})
	}
	err := cmd.Wait()
	expect(t, err == nil && complaint.Len() <= 0 && rows != 0, "the child: %v %s; %d rows were written over", err, complaint.String(), rows)
	erase(t, s, admin.EraseRequest{Secret: []byte(secret)})
	nowhere(t, realTree(t, dir), secret)
	for path, want := range map[string]int{"shared.log": 100, "mine.txt": 10} {
		h, err := s.History(background, rw.HistoryRequest{Path: path, N: 1000})
		expect(t, err == nil && len(h.Versions) == want, "%s: %v, %d versions", path, err, len(h.Versions))
	}
	for i := range 100 {
		fileIs(t, dir, fmt.Sprintf("own/%s-%d.txt", secret, i), strings.Repeat(secret, i))
	}
	check(t, s, true)
}

// TestEraseBesideNewObjects: an erasure is stopped at any point, and another process keeps
// objects with the secret and without. Those without it stay, and the store is sound.
func TestEraseBesideNewObjects(t *testing.T) {
	t.Parallel()
	secret, ran, step := leaked(), 0, stride(3)
	quoted := string(must(json.Marshal(secret))(t))
	for at := phase(step); ; at += step {
		fs := simfs.New()
		process := fs.NewProcess()
		brief := 20 * time.Millisecond
		eraser := must(rw.OpenSim(fs, &rw.Options{Gate: rw.Gate{Mode: rw.GateOff}, LockTimeout: 10 * brief}, rw.Sim{Nonce: "0001", Process: process}))(t)
		other := must(rw.OpenSim(fs, &rw.Options{Gate: rw.Gate{Mode: rw.GateOff}, LockTimeout: brief}, rw.Sim{Nonce: "0002", LockWait: brief}))(t)
		must(other.ScratchPut(background, rw.ScratchPutRequest{Content: []byte("innocent"), Label: "innocent"}))(t)
		must(other.Checkpoint(background, rw.CheckpointRequest{Name: "innocent", Data: []byte(`1`)}))(t)
		write(t, eraser, "a.txt", secret, rw.ModeCreate)
		write(t, eraser, "a.txt", "clean\n", rw.ModeOverwrite)
		noErr(t, eraser.Sync(background))
		run := func() error {
			return errorOf(eraser.Admin().Erase(background, admin.EraseRequest{Secret: []byte(secret)}))
		}
		done, stopped := stoppedAt(t, process, at, run)
		other.ScratchPut(background, rw.ScratchPutRequest{Content: []byte("new"), Label: secret})
		other.ChunkAppend(background, rw.ChunkAppendRequest{Session: "up", Content: []byte(secret)})
		other.Checkpoint(background, rw.CheckpointRequest{Name: "point", Data: []byte(quoted)})
		process.Continue()
		if stopped {
			<-done
		}
		noErr(t, run(), "stopped at ", at)
		nowhere(t, fs.Tree(), secret)
		check(t, other, true)
		list := must(other.ScratchList(background, rw.ScratchListRequest{}))(t)
		require(t, len(list.Entries) == 1 && list.Entries[0].Label == "innocent", "stopped at %d: %+v", at, list)
		must(other.CheckpointRead(background, rw.CheckpointReadRequest{Name: "innocent"}))(t, "stopped at ", at)
		noErr(t, other.Close(background))
		noErr(t, eraser.Close(background))
		if ran++; !stopped {
			break
		}
	}
	expect(t, ran >= 10, "stopped at %d places only", ran)
}
