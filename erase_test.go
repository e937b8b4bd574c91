package resilientwrite_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

func erase(t *testing.T, s *rw.Store, r rw.EraseRequest) rw.EraseResult {
	t.Helper()
	out := must(s.Admin().Erase(background, r))(t, "erase")
	return out
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
		must(s.HandoffWrite(background, rw.HandoffWriteRequest{Envelope: anEnvelope(fmt.Sprint("t", i)), Body: []byte("# Notes\nthe key is " + secret + "\n")}))(t)
	}
	must(s.HandoffWrite(background, rw.HandoffWriteRequest{Envelope: anEnvelope("t2"), Body: []byte("# Notes\nnothing, but enough of it to be no shrinking\n")}))(t)
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
			if strings.Contains(content, text) || strings.Contains(path, text) {
				t.Errorf("%s holds it: %s", path, form)
			}
		}
	}
}

// realTree is the tree of a real directory.
func realTree(t *testing.T, dir string) map[string]string {
	t.Helper()
	quiesce(dir)
	tree := map[string]string{}
	filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(dir, path)
		tree[filepath.ToSlash(rel)] = "/"
		if d.Type().IsRegular() {
			data := must(os.ReadFile(path))(t)
			tree[filepath.ToSlash(rel)] = string(data)
		}
		return err
	})
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
		s := must(rw.OpenSim(fs, &rw.Options{Caller: "tester"}, sim))(t)
		return s
	}
	s := openIt("0001")
	spread(t, s, secret)
	compact(t, s, rw.CompactRequest{KeepRows: none()})
	write(t, s, "clean.txt", "clean 3\n", rw.ModeOverwrite)
	rows, _ := s.CountRows()
	tail, _ := s.JournalTail(background, rw.JournalTailRequest{N: 1000, IncludeRefused: true})
	clean := allHistory(t, s, "clean.txt", "b.txt")
	h, _ := s.History(background, rw.HistoryRequest{Path: "a.txt"})

	plan := erase(t, s, rw.EraseRequest{Secret: []byte(secret), Call: rw.Call{DryRun: true}})
	if len(plan.Places) < 9 || plan.Status != rw.StatusSucceeded {
		t.Errorf("dry run: %+v", plan)
	}
	if n, _ := s.CountRows(); n != rows {
		t.Error("a dry run left a row")
	}
	r := erase(t, s, rw.EraseRequest{Secret: []byte(secret), Reason: "a key leaked", Call: rw.Call{Caller: "operator"}})
	for _, want := range []string{"journal", "history", "scratch", "quarantine", "chunks", "checkpoints", "handoffs", "tx", "cursors", "others", "deep"} {
		found := false
		for _, p := range r.Places {
			found = found || p.Place == want && p.Count > 0
		}
		if !found {
			t.Errorf("nothing was erased in %s: %+v", want, r.Places)
		}
	}
	if len(r.Left) > 0 || r.Rows < 3 || len(r.Versions) < 3 || len(r.Workspace) != 1 {
		t.Errorf("%+v", r)
	}
	if text := fmt.Sprintf("%+v %v", r, rw.EraseRequest{Secret: []byte(secret)}); strings.Contains(text, secret[4:30]) {
		t.Error("the reply shows the secret")
	}
	nowhere(t, fs.Tree(), secret)
	look := func(s *rw.Store) {
		t.Helper()
		check(t, s, true)
		if got := allHistory(t, s, "clean.txt", "b.txt"); got != clean {
			t.Errorf("history is\n%s\nwas\n%s", got, clean)
		}
		got, err := s.JournalTail(background, rw.JournalTailRequest{N: 1000, IncludeRefused: true})
		if err != nil || len(got.Entries) != len(tail.Entries) || got.Malformed != tail.Malformed {
			t.Fatalf("%v: %d entries and %d bad lines, had %d and %d", err, len(got.Entries), got.Malformed, len(tail.Entries), tail.Malformed)
		}
		for i, e := range got.Entries {
			if was := tail.Entries[i]; e.Seq != was.Seq || e.SHA256 != was.SHA256 || e.TS != was.TS || e.Kind != was.Kind || strings.Contains(e.Path, secret) {
				t.Errorf("entry %+v was %+v", e, was)
			}
		}
		now, err := s.History(background, rw.HistoryRequest{Path: "a.txt"})
		if err != nil || len(now.Versions) != len(h.Versions) {
			t.Fatalf("%v %+v", err, now)
		}
		for i, v := range now.Versions {
			if want := i == 0 || i == 4; v.Available != want || v.Erased == want {
				t.Errorf("version %d of a.txt (%s): available %v, erased %v", i, v.Op, v.Available, v.Erased)
			}
		}
		_, err = s.Read(background, rw.ReadRequest{Path: "a.txt", Version: now.Versions[1].Version})
		if e := rw.AsError("", err); !errors.Is(err, rw.ErrVersionNotKept) || e.Context["erased"] != true {
			t.Errorf("%v %+v", err, e)
		}
	}
	look(s)
	if again := erase(t, s, rw.EraseRequest{Secret: []byte(secret)}); again.Status != rw.StatusUnchanged || len(again.Places) > 0 {
		t.Errorf("again: %+v", again)
	}
	for i := range 2 {
		s.Close(background)
		if s = openIt(fmt.Sprint("001", i)); s.Recovery().Rebuilt {
			t.Error("the snapshot does not fit any more")
		}
		look(s)
	}
	workGoesOn(t, s, secret)
	check(t, s, true)
	nowhere(t, fs.Tree(), secret)
}

// workGoesOn uses every layer after an erasure.
func workGoesOn(t *testing.T, s *rw.Store, secret string) {
	t.Helper()
	status, err := s.ChunkStatus(background, rw.ChunkStatusRequest{Session: "up"})
	if err != nil || fmt.Sprint(status.Missing) != "[2 3 4]" || status.Sealed {
		t.Errorf("%v %+v", err, status)
	}
	for i := 2; i <= 4; i++ {
		must(s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "up", Index: i, Content: []byte(fmt.Sprint(i, " "))}))(t)
	}
	if out, err := s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "up", OutputPath: "up.txt"}); err != nil || out.SHA256.String() != hash("one 2 3 4  five") {
		t.Errorf("%v %+v", err, out)
	}
	if p, err := s.CheckpointRead(background, rw.CheckpointReadRequest{Name: "point"}); err != nil || !bytes.Contains(p.Data, []byte(`"n":7`)) || bytes.Contains(p.Data, []byte(secret[4:30])) {
		t.Errorf("%v %s", err, p.Data)
	}
	if p, err := s.CheckpointRead(background, rw.CheckpointReadRequest{Name: "notes"}); err != nil || !bytes.Contains(p.Data, []byte("more notes")) {
		t.Errorf("%v %s", err, p.Data)
	}
	list, err := s.ScratchList(background, rw.ScratchListRequest{})
	if err != nil || len(list.Entries) != 2 || list.Malformed != 0 {
		t.Errorf("%v %+v", err, list)
	}
	if got, err := s.ScratchGet(background, rw.ScratchGetRequest{SHA256: digest(hash("innocent"))}); err != nil || string(got.Content) != "innocent" {
		t.Errorf("%v %+v", err, got)
	}
	must(s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte("new"), Label: "new"}))(t)
	if d, _ := s.DraftList(background, rw.DraftListRequest{}); d.Count != 0 {
		t.Errorf("%+v", d)
	}
	if d, _ := s.Describe(background, rw.DescribeRequest{}); len(d.Transactions) != 0 {
		t.Errorf("%+v", d.Transactions)
	}
	must(s.HandoffRead(background, rw.HandoffReadRequest{AcknowledgeAs: "next"}))(t)
	write(t, s, "a.txt", "a new version, after everything, that is as long as it has to be, and more\n", rw.ModeOverwrite)
	must(s.Undo(background, rw.UndoRequest{}))(t)
}
