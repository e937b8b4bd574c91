package resilientwrite_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestHandoffDriftIsTold: every way in which a file can differ from its entry in the
// handoff is reported, when it is written and when it is read; strict refuses both.
func TestHandoffDriftIsTold(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	ok := write(t, s, "ok.txt", "fine", rw.ModeCreate)
	write(t, s, "changed.txt", "now", rw.ModeCreate)
	os.Mkdir(filepath.Join(dir, "adir"), 0o755)
	os.Symlink("/etc/passwd", filepath.Join(dir, "out"))
	os.Symlink("ok.txt", filepath.Join(dir, "alias"))
	var state []rw.HandoffFile
	for _, p := range []string{"ok.txt", "alias", "changed.txt", "gone.txt", "../x", "/etc/passwd", ".git/config", rw.StateDirName + "/meta.json", "adir", "out", "ok.txt/below", "a\x00b"} {
		state = append(state, rw.HandoffFile{Path: p, SHA256: ok.SHA256.String()})
	}
	reasons := func(list []rw.HandoffDrift) string {
		var out []string
		for _, d := range list {
			if d.Path != state[d.Index].Path && d.Path != "" || d.ExpectedSHA256 != ok.SHA256.String() || (d.ActualSHA256 != "") != (d.Reason == "hash_mismatch") || d.ActualSHA256 != "" && d.ActualSHA256 != hash("now") {
				t.Errorf("%+v", d)
			}
			out = append(out, strings.ReplaceAll(d.Path, "\x00", "0")+"="+d.Reason)
		}
		return strings.Join(out, " ")
	}
	const want = "changed.txt=hash_mismatch gone.txt=missing ../x=invalid_path /etc/passwd=invalid_path .git/config=invalid_path " +
		rw.StateDirName + "/meta.json=invalid_path adir=invalid_path out=invalid_path ok.txt/below=invalid_path a0b=invalid_path"
	// A refusal shows no path that leads out of the workspace.
	const hidden = "changed.txt=hash_mismatch gone.txt=missing =invalid_path =invalid_path =invalid_path =invalid_path " +
		"adir=invalid_path out=invalid_path ok.txt/below=invalid_path =invalid_path"
	r := rw.HandoffWriteRequest{Envelope: anEnvelope("t", func(e *rw.HandoffEnvelope) { e.LastGoodState = state })}
	strict := r
	strict.Strict = true
	e := handoffRefused(t, s, dir, strict, rw.ErrStateDrift)
	if got := reasons(e.Context["drift_warnings"].([]rw.HandoffDrift)); got != hidden || e.Kind != rw.ErrStalePrecondition {
		t.Errorf("strict: %s %s", got, e.Kind)
	}
	if got := reasons(handOff(t, s, r).DriftWarnings); got != want {
		t.Errorf("write: %s", got)
	}
	if got := reasons(takeOver(t, s, rw.HandoffReadRequest{}).DriftWarnings); got != want {
		t.Errorf("read: %s", got)
	}
	_, err := s.HandoffRead(background, rw.HandoffReadRequest{Strict: true, AcknowledgeAs: "me"})
	envelopeOf(t, dir, err, rw.ErrStateDrift)
	if r := takeOver(t, s, rw.HandoffReadRequest{}); len(r.ReadBy) != 0 {
		t.Error("a refused read was noted")
	}
	good := rw.HandoffWriteRequest{Envelope: anEnvelope("t", func(e *rw.HandoffEnvelope) { e.LastGoodState = state[:2] }), Strict: true}
	if out := handOff(t, s, good); len(out.DriftWarnings) != 0 {
		t.Errorf("%+v", out.DriftWarnings)
	}
	if out := takeOver(t, s, rw.HandoffReadRequest{Strict: true}); len(out.DriftWarnings) != 0 {
		t.Errorf("%+v", out.DriftWarnings)
	}
}

func TestHandoffTakesStateFromTheJournal(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	put := func(path, content, caller, session string) {
		t.Helper()
		must(s.SafeWrite(background, rw.SafeWriteRequest{Path: path, Content: []byte(content), Mode: rw.ModeOverwrite, Call: rw.Call{Caller: caller, Session: session}}))(t)
	}
	put("mine/a.txt", "1", "one", "s1")
	put("mine/a.txt", "2", "one", "s1")
	put("mine/b.txt", "b", "one", "s1")
	put("theirs.txt", "x", "two", "s2")
	put("mine/b.txt", "theirs now", "two", "s2")
	os.WriteFile(filepath.Join(dir, "mine", "c.txt"), []byte("c"), 0o644)
	os.WriteFile(filepath.Join(dir, "mine", "c.md"), []byte("c"), 0o644)
	os.MkdirAll(filepath.Join(dir, ".git"), 0o755)
	os.WriteFile(filepath.Join(dir, ".git", "c.txt"), []byte("c"), 0o644)
	os.Symlink("..", filepath.Join(dir, "mine", "loop"))
	state := func(auto rw.AutoState, caller, session string, listed ...rw.HandoffFile) (string, int) {
		t.Helper()
		e := anEnvelope("t", func(e *rw.HandoffEnvelope) { e.LastGoodState = listed })
		w := handOff(t, s, rw.HandoffWriteRequest{Envelope: e, AutoState: auto, Call: rw.Call{Caller: caller, Session: session}})
		var out []string
		for _, f := range takeOver(t, s, rw.HandoffReadRequest{}).Envelope.LastGoodState {
			out = append(out, fmt.Sprintf("%s:%.6s:%d", f.Path, f.SHA256, f.Bytes))
		}
		return strings.Join(out, " "), len(w.DriftWarnings)
	}
	of := func(path, content string) string { return fmt.Sprintf("%s:%.6s:%d", path, hash(content), len(content)) }
	for _, row := range []struct {
		auto            rw.AutoState
		caller, session string
		want            string
		drift           int
	}{
		{rw.AutoStateSession, "one", "s1", of("mine/a.txt", "2") + " " + of("mine/b.txt", "b"), 1},
		{rw.AutoStateSession, "two", "", of("mine/b.txt", "theirs now") + " " + of("theirs.txt", "x"), 0},
		{rw.AutoStateSession, "nobody", "", "", 0},
		{"mine/*.txt", "one", "s1", of("mine/a.txt", "2") + " " + of("mine/b.txt", "theirs now") + " " + of("mine/c.txt", "c"), 0},
		{"**/c.*", "one", "", of("mine/c.md", "c") + " " + of("mine/c.txt", "c"), 0},
		{"{mine,other}/c.{md,txt}", "one", "", of("mine/c.md", "c") + " " + of("mine/c.txt", "c"), 0},
		{"*.txt", "one", "", of("theirs.txt", "x"), 0}, {"none/**", "one", "", "", 0}, {".git/**", "one", "", "", 0}, {"mine/loop/**", "x", "", "", 0},
	} {
		if got, drift := state(row.auto, row.caller, row.session); got != row.want || drift != row.drift {
			t.Errorf("%s for %s %s: %s, %d drifted; want %s", row.auto, row.caller, row.session, got, drift, row.want)
		}
	}
	if got, _ := state("mine/a.txt", "one", "", rw.HandoffFile{Path: "mine/a.txt", SHA256: zeroSHA}); got != "mine/a.txt:000000:0" {
		t.Errorf("what was listed was replaced: %s", got)
	}
	for _, glob := range []rw.AutoState{"[", "/etc/*", "../*", "a/../../*"} {
		handoffRefused(t, s, dir, rw.HandoffWriteRequest{Envelope: anEnvelope("t"), AutoState: glob}, rw.ErrInvalidArgument)
	}
}
