package resilientwrite_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/internal/failpoint"
	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/spec"
)

// anEnvelope is the smallest one that can be written.
func anEnvelope(task string, change ...func(*handoff.Envelope)) handoff.Envelope {
	e := handoff.Envelope{
		TaskID: task, Status: handoff.Partial, Agent: "tester", Summary: "half way",
		NextSteps: []string{"go on"}, LastGoodState: []handoff.File{},
	}
	for _, f := range change {
		f(&e)
	}
	return e
}

func handOff(t *testing.T, s *rw.Store, r handoff.WriteRequest) handoff.WriteResult {
	t.Helper()
	return must(s.HandoffWrite(background, r))(t)
}

func takeOver(t *testing.T, s *rw.Store, r handoff.ReadRequest) handoff.ReadResult {
	t.Helper()
	return must(s.HandoffRead(background, r))(t)
}

// envelopeOf checks that an error is a complete envelope without absolute
// paths.
func envelopeOf(t *testing.T, dir string, err error, want rw.Detail) *rw.Error {
	t.Helper()
	isErr(t, err, want)
	e := rw.AsError("", err)
	text := conformsEnvelope(t, e)
	expect(t, !strings.Contains(string(text), dir) && e.Hint != "" && strings.HasPrefix(e.Op, "handoff_"), "an incomplete envelope: %s", text)
	return e
}

// handoffRefused makes a write that must be refused and must change nothing.
func handoffRefused(t *testing.T, s *rw.Store, dir string, r handoff.WriteRequest, want rw.Detail) *rw.Error {
	t.Helper()
	e := deny(t, s, dir, "", want, calling(s.HandoffWrite, r))
	expect(t, strings.HasPrefix(e.Op, "handoff_"), "%+v", e)
	return e
}

// archivesIn are the archived handoffs on disk: name to content.
func archivesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	names := must(filepath.Glob(statePath(dir, "handoffs", "*.md")))(t)
	for _, name := range names {
		data := must(os.ReadFile(name))(t)
		out[filepath.Base(name)] = string(data)
	}
	return out
}

func TestHandoffComesBackAsItWasWritten(t *testing.T) {
	s, _ := opened(t, &rw.Options{Sync: rw.SyncOff})
	a := write(t, s, "src/a.go", "package a\n", rw.ModeCreate)
	e := anEnvelope("parser rewrite", func(e *handoff.Envelope) {
		e.Status, e.StartedAt = handoff.Blocked, rw.Timestamp{Time: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)}
		e.Summary = "Zeile eins\n  eingerückt: ja\n\n日本語 😀 # no comment\n"
		e.LastGoodState = []handoff.File{{Path: "src/a.go", SHA256: strings.ToUpper(a.SHA256.String()), Bytes: a.Bytes}}
		e.ContextHints, e.OpenQuestions, e.Blockers = []string{"yes", "- x", "a: b"}, []string{"?"}, []string{"null", "1.0"}
		e.Artifacts = []handoff.Artifact{{Kind: "pdf", Path: "out.pdf", SHA256: hash("x")}}
		e.DependencyGraph = []handoff.Step{{ID: "a", Status: "Done"}, {ID: "b", DependsOn: []string{"a"}}, {ID: "c", DependsOn: []string{"b", "a"}}}
		e.Verified, e.Requirements = []string{"go test"}, []string{"fast"}
	})
	w := handOff(t, s, handoff.WriteRequest{Envelope: e, Body: []byte("# Body\n"), Call: rw.Call{Caller: "one", Session: "s1"}})
	expect(t, w.HandoffPath == "HANDOFF.md" && w.Status == rw.StatusSucceeded && w.JournalID != "" && len(w.DriftWarnings) == 0 &&
		w.ArchivedPath == "", "%+v", w)
	r := takeOver(t, s, handoff.ReadRequest{})
	expect(t, r.SHA256 == w.SHA256 && r.Bytes == w.Bytes && string(r.Body) == "# Body\n" && len(r.DriftWarnings) == 0 && len(r.MissingFields) == 0,
		"%+v", r)
	expect(t, !r.Envelope.UpdatedAt.IsZero(), "updated_at was not filled in")
	r.Envelope.UpdatedAt = rw.Timestamp{}
	e.LastGoodState[0].SHA256 = a.SHA256.String()
	equal(t, cmp.Diff(e, r.Envelope, timestamps), "")
	equal(t, cmp.Diff([]string{"b"}, r.ReadySteps), "")
	last := tailOf(t, s)[1]
	expect(t, last.Path == "HANDOFF.md" && last.Op == "handoff" && last.SHA256 == w.SHA256 && last.Caller == "one" && last.Session == "s1", "%+v",
		last)
	check(t, s, true)
}

// TestHandoffKeepsUnknownFieldsInOrder: at the top and in every thing that is
// listed, with the text of numbers.
func TestHandoffKeepsUnknownFieldsInOrder(t *testing.T) {
	s := open(t, workspace(t), &rw.Options{Sync: rw.SyncOff})
	const args = `{"envelope":{"zz":1.10,"task_id":"t","status":"partial","agent":"a","description":"kept too","summary":"s","next_steps":[],
		"last_good_state":[{"path":"x","sha256":"` + zeroSHA + `","why":{"b":1,"a":[null,true,1e2]},"at":"now"}],
		"aa":{"y":[{"q":""}],"x":"2026-11-21T10:00:00Z"},"dependency_graph":[{"id":"1","zeta":0,"alpha":-0.0}],"artifacts":[{"kind":"k","Kind":"other"}],"mm":[]}}`
	var r handoff.WriteRequest
	must(schema.Decode(background, []byte(args), &r))(t)
	handOff(t, s, r)
	got := takeOver(t, s, handoff.ReadRequest{})
	data := must(json.Marshal(got.Envelope))(t)
	for _, want := range []string{
		`"zz":1.10,"description":"kept too","aa":{"y":[{"q":""}],"x":"2026-11-21T10:00:00Z"},"mm":[]}`,
		`{"path":"x","sha256":"` + zeroSHA + `","why":{"b":1,"a":[null,true,1e2]},"at":"now"}`, `{"id":"1","zeta":0,"alpha":-0.0}`, `{"kind":"k","Kind":"other"}`,
	} {
		expect(t, bytes.Contains(data, []byte(want)), "%s\nis not in %s", want, data)
	}
	// The result of a read can be written again, and nothing is lost.
	again := handOff(t, s, handoff.WriteRequest{Envelope: got.Envelope})
	next := takeOver(t, s, handoff.ReadRequest{})
	next.Envelope.UpdatedAt = got.Envelope.UpdatedAt
	diff := cmp.Diff(got.Envelope, next.Envelope, timestamps)
	expect(t, diff == "" && again.SHA256.String() != "", "%v", diff)
}

const zeroSHA = "0000000000000000000000000000000000000000000000000000000000000000"

// TestHandoffBodyIsKeptToTheByte with bodies made of what tends to be changed.
func TestHandoffBodyIsKeptToTheByte(t *testing.T) {
	t.Parallel()
	s := open(t, workspace(t), &rw.Options{Sync: rw.SyncOff})
	pieces := []string{"---\n", "...\n", "---", "\r\n", "\n", "\ufeff", "\x00", " ", "\t", "a: b\n", "日本語", "😀", "\u2028", "\x1b[1m", "# H\n", "```\n", "\r", "x"}
	rng := rand.New(rand.NewPCG(7, 11))
	for i := range scale(2000) {
		var b strings.Builder
		for range rng.IntN(12) {
			b.WriteString(pieces[rng.IntN(len(pieces))])
		}
		body := b.String()
		w := handOff(t, s, handoff.WriteRequest{Envelope: anEnvelope("t"), Body: []byte(body), Call: rw.Call{AcceptRisk: "a test"}})
		r := takeOver(t, s, handoff.ReadRequest{AcknowledgeAs: "me"})
		require(t, string(r.Body) == body && r.SHA256 == w.SHA256, "%d: %q came back as %q", i, body, r.Body)
	}
}

// TestHandoffEnvelopeIsChecked: missing fields are listed, errors are named, and
// nothing is written.
func TestHandoffEnvelopeIsChecked(t *testing.T) {
	t.Parallel()
	s, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
	handOff(t, s, handoff.WriteRequest{Envelope: anEnvelope("t")})
	e := handoffRefused(t, s, dir, handoff.WriteRequest{Envelope: handoff.Envelope{Agent: "a", NextSteps: []string{}}}, rw.ErrMissingFields)
	diff := cmp.Diff([]string{"task_id", "status", "summary", "last_good_state"}, e.Context["missing_fields"])
	expect(t, diff == "" && e.Kind == rw.ErrPolicyViolation && e.Reason == rw.ReasonEncoding, "%s %+v", diff, e)
	for name, row := range map[string]struct {
		change func(*handoff.Envelope)
		want   rw.Detail
	}{
		"status":    {func(e *handoff.Envelope) { e.Status = "wip" }, rw.ErrInvalidArgument},
		"no path":   {func(e *handoff.Envelope) { e.LastGoodState = []handoff.File{{SHA256: zeroSHA}} }, rw.ErrInvalidArgument},
		"bad hash":  {func(e *handoff.Envelope) { e.LastGoodState = []handoff.File{{Path: "a", SHA256: "4b0c..."}} }, rw.ErrBadSHA256},
		"no id":     {func(e *handoff.Envelope) { e.DependencyGraph = []handoff.Step{{}} }, rw.ErrInvalidArgument},
		"not UTF-8": {func(e *handoff.Envelope) { e.Blockers = []string{"\xff"} }, rw.ErrNotValidUTF8},
		"not JSON":  {func(e *handoff.Envelope) { e.Extra = []handoff.Field{{Name: "x", Value: json.RawMessage("{")}} }, rw.ErrInvalidArgument},
		"twice": {func(e *handoff.Envelope) {
			e.Extra = []handoff.Field{{Name: "x", Value: json.RawMessage(`{"a":1,"a":2}`)}}
		}, rw.ErrInvalidArgument},
		"half": {func(e *handoff.Envelope) {
			e.Extra = []handoff.Field{{Name: "x", Value: json.RawMessage(`"\ud800"`)}}
		}, rw.ErrInvalidArgument},
		"too large": {func(e *handoff.Envelope) { e.Summary = strings.Repeat("x", 2<<20) }, rw.ErrTooLarge},
		"too nested": {func(e *handoff.Envelope) {
			e.Extra = []handoff.Field{{Name: "x", Value: json.RawMessage(strings.Repeat("[", 100) + strings.Repeat("]", 100))}}
		}, rw.ErrInvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			e := handoffRefused(t, s, dir, handoff.WriteRequest{Envelope: anEnvelope("t", row.change)}, row.want)
			expect(t, name != "half" || strings.Contains(e.Hint, "valid Unicode"), "the hint is %s", e.Hint)
		})
	}
	handoffRefused(t, s, dir, handoff.WriteRequest{Envelope: anEnvelope("t"), Body: []byte("\xff")}, rw.ErrNotValidUTF8)
	stale := zeroSHA
	e = handoffRefused(t, s, dir, handoff.WriteRequest{Envelope: anEnvelope("t"), Expect: rw.Exactly(digest(stale))}, rw.ErrHashMismatch)
	expect(t, e.Path == "HANDOFF.md", "the error is about %q", e.Path)
	handoffRefused(t, s, dir, handoff.WriteRequest{Envelope: anEnvelope("t"), Body: []byte(strings.Repeat("x", 64<<20))}, rw.ErrTooLarge)
	for _, path := range []string{"../HANDOFF.md", ".git/x", rw.StateDirName + "/handoffs/x.md", "a\x00", "/etc/passwd"} {
		_, err := s.HandoffWrite(background, handoff.WriteRequest{Envelope: anEnvelope("t"), Path: path})
		expect(t, err != nil && rw.AsError("", err).Kind == rw.ErrPolicyViolation, "%q: %v", path, err)
	}
	check(t, s, true)
}

// TestHandoffArgumentsAreStrict: on the wire every known field with a wrong type is
// refused by name.
func TestHandoffArgumentsAreStrict(t *testing.T) {
	for args, argument := range map[string]string{
		`{}`: "envelope", `{"envelope":null}`: "envelope", `{"envelope":[]}`: "envelope", `{"envelope":"x"}`: "envelope",
		`{"envelope":{"task_id":7}}`: "envelope.task_id", `{"envelope":{"status":"wip"}}`: "envelope.status", `{"envelope":{"next_steps":"x"}}`: "envelope.next_steps",
		`{"envelope":{"next_steps":[1]}}`: "envelope.next_steps[0]", `{"envelope":{"last_good_state":[{"path":"a"}]}}`: "envelope.last_good_state[0].sha256",
		`{"envelope":{"last_good_state":{}}}`: "envelope.last_good_state", `{"envelope":{"last_good_state":[{"path":"a","sha256":"b","bytes":-1}]}}`: "envelope.last_good_state[0].bytes",
		`{"envelope":{"dependency_graph":[{"id":"a","depends_on":"b"}]}}`: "envelope.dependency_graph[0].depends_on", `{"envelope":{"task_id":"\ud800"}}`: "envelope.task_id",
		`{"envelope":{},"auto_state":7}`: "auto_state", `{"envelope":{},"auto_state":["a"]}`: "auto_state", `{"envelope":{},"auto_state":"\ud800"}`: "auto_state", `{"envelope":{},"bodi":""}`: "bodi",
	} {
		var r handoff.WriteRequest
		_, err := schema.Decode(background, []byte(args), &r)
		var p *schema.Problem
		expect(t, errors.As(err, &p) && p.Argument == argument, "%s: %v, want %s", args, err, argument)
	}
	for args, want := range map[string]handoff.AutoState{`true`: handoff.AutoStateSession, `false`: "", `null`: "", `"src/**"`: "src/**"} {
		var r handoff.WriteRequest
		_, err := schema.Decode(background, []byte(`{"envelope":{},"auto_state":`+args+`}`), &r)
		expect(t, err == nil && r.AutoState == want, "%s: %v %q", args, err, r.AutoState)
	}
}

func TestHandoffGraphMustBeWorkable(t *testing.T) {
	s, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
	graph := func(steps ...handoff.Step) handoff.WriteRequest {
		return handoff.WriteRequest{Envelope: anEnvelope("t", func(e *handoff.Envelope) { e.DependencyGraph = steps })}
	}
	step := func(id string, on ...string) handoff.Step { return handoff.Step{ID: id, DependsOn: on} }
	handoffRefused(t, s, dir, graph(step("a"), step("a")), rw.ErrDuplicateStep)
	if e := handoffRefused(t, s, dir, graph(step("a"), step("b", "a", "nope")), rw.ErrUnknownStep); e.Context["depends_on"] != "nope" || e.Context["id"] != "b" {
		t.Errorf("%v", e.Context)
	}
	e := handoffRefused(t, s, dir, graph(step("x", "a"), step("a", "b"), step("b", "c"), step("c", "a")), rw.ErrDependencyCycle)
	equal(t, cmp.Diff([]string{"a", "b", "c", "a"}, e.Context["cycle"]), "")
	handoffRefused(t, s, dir, graph(step("self", "self")), rw.ErrDependencyCycle)
	var long []handoff.Step
	for i := range 2000 {
		long = append(long, step(fmt.Sprint(i), fmt.Sprint((i+1)%2000)))
	}
	expect(t, len(handoffRefused(t, s, dir, graph(long...), rw.ErrDependencyCycle).Context["cycle"].([]string)) <= 30, "the whole cycle is reported")
	long[1999].DependsOn = nil
	handOff(t, s, graph(long...))
	r := takeOver(t, s, handoff.ReadRequest{})
	expect(t, len(r.ReadySteps) == 1 && r.ReadySteps[0] == "1999", "%v", r.ReadySteps)
}

func TestHandoffRefusals(t *testing.T) {
	s, dir := opened(t, &rw.Options{Sync: rw.SyncOff, Gate: rw.GateOfAgents})
	secret := ghToken(5)
	for name, change := range map[string]func(*handoff.Envelope){
		"blocker": func(e *handoff.Envelope) { e.Blockers = []string{"it said " + secret} },
		"hint":    func(e *handoff.Envelope) { e.ContextHints = []string{secret} },
		"unknown": func(e *handoff.Envelope) {
			e.Extra = []handoff.Field{{Name: "x", Value: json.RawMessage(`["` + secret + `"]`)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := handoffRefused(t, s, dir, handoff.WriteRequest{Envelope: anEnvelope("t", change)}, rw.ErrRiskBlocked)
			expect(t, e.Kind == rw.ErrBlocked && e.Context["draft_ref"] != nil, "%+v", e)
			text, _ := json.Marshal(e)
			expect(t, !bytes.Contains(text, []byte(secret)), "the envelope shows the secret")
		})
	}
	handoffRefused(t, s, dir, handoff.WriteRequest{Envelope: anEnvelope("t"), Body: []byte("# x\n" + secret)}, rw.ErrRiskBlocked)
	// Hashes and times are no secrets.
	many := anEnvelope("t", func(e *handoff.Envelope) {
		for i := range 50 {
			e.LastGoodState = append(e.LastGoodState, handoff.File{Path: fmt.Sprint("f", i), SHA256: hash(fmt.Sprint(i))})
		}
	})
	out := handOff(t, s, handoff.WriteRequest{Envelope: many})
	expect(t, len(out.Warnings) == 0, "%+v", out.Warnings)
	r := takeOver(t, s, handoff.ReadRequest{AcknowledgeAs: "agent one"})
	expect(t, len(r.Warnings) == 0, "%+v", r.Warnings)
	// The content of an old handoff does not prevent its archiving.
	os.WriteFile(filepath.Join(dir, "HANDOFF.md"), []byte("---\ntask_id: old\n---\n"+secret+"\n"), 0o644)
	out = handOff(t, s, handoff.WriteRequest{Envelope: anEnvelope("t")})
	expect(t, strings.Contains(out.ArchivedPath, "/old-"), "%+v", out)
	os.Chmod(filepath.Join(dir, "HANDOFF.md"), 0o444)
	handoffRefused(t, s, dir, handoff.WriteRequest{Envelope: anEnvelope("t2")}, rw.ErrReadOnlyFile)
	handOff(t, s, handoff.WriteRequest{Envelope: anEnvelope("t2"), Force: true})

	ro := must(rw.Open(background, dir, &rw.Options{ReadOnly: true}))(t)
	fails(ro.HandoffWrite(background, handoff.WriteRequest{Envelope: anEnvelope("t")}))(t, rw.ErrStoreReadOnly)
	equal(t, must(ro.HandoffRead(background, handoff.ReadRequest{}))(t).Envelope.TaskID, "t2")
	fails(ro.HandoffRead(background, handoff.ReadRequest{AcknowledgeAs: "x"}))(t, rw.ErrStoreReadOnly)
	ro.Close(background)
	fails(ro.HandoffRead(background, handoff.ReadRequest{}))(t, rw.ErrStoreClosed)
}

// TestThreeArchivesInOneSecondAreThreeFiles, each with the bytes of the handoff
// it was and in the commit of the one that replaced it.
func TestThreeArchivesInOneSecondAreThreeFiles(t *testing.T) {
	s, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
	s.SetNow(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)) // however long it takes
	var docs []string
	for i := range 4 {
		out := handOff(t, s, handoff.WriteRequest{Envelope: anEnvelope("task"), Body: []byte(fmt.Sprint(i)), Archive: true})
		equal(t, out.ArchivedPath != "", i > 0, i, ": ", out)
		data, _ := os.ReadFile(filepath.Join(dir, "HANDOFF.md"))
		docs = append(docs, string(data))
		if i > 0 {
			old := takeOver(t, s, handoff.ReadRequest{Path: out.ArchivedPath})
			expect(t, string(old.Body) == fmt.Sprint(i-1) && old.HandoffPath == out.ArchivedPath, "%+v", old)
		}
	}
	found := archivesIn(t, dir)
	mustEqual(t, len(found), 3, "archives")
	for name, content := range found {
		expect(t, strings.HasPrefix(name, "task-2") && strings.Contains(strings.Join(docs[:3], ""), content), "%s holds %q", name, content)
	}
	for _, p := range []string{"handoffs", filepath.Join("handoffs", filepath.Base(takeOver(t, s, handoff.ReadRequest{}).Archives[0]))} {
		info, err := os.Stat(statePath(dir, p))
		expect(t, err == nil && info.Mode().Perm()&0o077 == 0, "%s: %v %v", p, info.Mode(), err)
	}
	all := tailOf(t, s)
	for i := 1; i < len(all); i += 2 {
		expect(t, all[i].Seq == all[i+1].Seq && all[i].Op == "handoff" && all[i+1].Op == "handoff_archive" && all[i+1].SHA256 == all[i].PrevSHA256,
			"not one commit: %+v", all[i:i+2])
	}
	r := takeOver(t, s, handoff.ReadRequest{})
	expect(t, len(r.Archives) == 3 && r.ArchiveCount == 3, "%v", r.Archives)
	check(t, s, true)
}

// TestHostileTaskIDs harm nothing: the archive is in its directory under a name of its
// own.
func TestHostileTaskIDs(t *testing.T) {
	s, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
	ids := []string{
		"a/b", "../../etc/passwd", "line\nbreak", "nul\x00", strings.Repeat("x", 10<<10), "ü/日本語", ".hidden", "..", "-rf", "CON", "a b", "A/B", "a\\b", "😀", "---", "x: y # z", "\u202e",
	}
	for _, id := range ids {
		handOff(t, s, handoff.WriteRequest{Envelope: anEnvelope(id), Archive: true})
		r := takeOver(t, s, handoff.ReadRequest{})
		expect(t, r.Envelope.TaskID == id, "%q came back as %q", id, r.Envelope.TaskID)
	}
	out := handOff(t, s, handoff.WriteRequest{Envelope: anEnvelope("last"), Archive: true})
	found := archivesIn(t, dir)
	require(t, len(found) == len(ids) && strings.HasPrefix(out.ArchivedPath, rw.StateDirName+"/handoffs/"), "%d archives of %d", len(found), len(ids))
	for name := range found {
		expect(t, len(name) <= 120 && !strings.ContainsAny(name, " /\\\n\x00:") && !strings.HasPrefix(name, ".") && !strings.HasPrefix(name, "-"),
			"an archive is called %q", name)
	}
	check(t, s, true)
}

// TestUnreadHandoffIsArchivedNotLost, and one that was read is not kept twice.
func TestUnreadHandoffIsArchivedNotLost(t *testing.T) {
	t.Parallel()
	s, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
	next := func(body string) handoff.WriteResult {
		t.Helper()
		return handOff(t, s, handoff.WriteRequest{Envelope: anEnvelope("t"), Body: []byte(body)})
	}
	warned := func(out handoff.WriteResult) bool {
		return slices.ContainsFunc(out.Warnings, func(w rw.Warning) bool { return w.Reason == call.WarnUnreadHandoff && w.Hint != "" })
	}
	next("one")
	out := next("two")
	expect(t, out.ArchivedPath != "" && warned(out), "an unread handoff was not archived: %+v", out)
	takeOver(t, s, handoff.ReadRequest{}) // looking is not reading
	out = next("three")
	expect(t, out.ArchivedPath != "", "%+v", out)
	r := takeOver(t, s, handoff.ReadRequest{AcknowledgeAs: "me"})
	expect(t, len(r.ReadBy) == 1 && r.ReadBy[0].Name == "me" && r.Receipt != nil && r.JournalID != "", "%+v", r)
	out = next("four")
	expect(t, out.ArchivedPath == "" && !warned(out), "one that was read was archived: %+v", out)
	takeOver(t, s, handoff.ReadRequest{AcknowledgeAs: "me"})
	os.WriteFile(filepath.Join(dir, "HANDOFF.md"), []byte("---\ntask_id: human\n---\nchanged since\n"), 0o644)
	testbed.Contains(t, next("five").ArchivedPath, "/human-")
	os.WriteFile(filepath.Join(dir, "HANDOFF.md"), []byte("no handoff at all"), 0o644)
	testbed.Contains(t, next("six").ArchivedPath, "/unnamed-")
	// A large file goes to the archive in constant memory.
	large := strings.Repeat("0123456789abcdef", 400<<10)
	os.WriteFile(filepath.Join(dir, "HANDOFF.md"), []byte(large), 0o644)
	out = next("seven")
	got := archivesIn(t, dir)[filepath.Base(out.ArchivedPath)]
	expect(t, got == large, "%d bytes in the archive", len(got))
	var paths, tasks []string
	for _, task := range []string{"z", "y", "a"} {
		paths = append(paths, handOff(t, s, handoff.WriteRequest{Envelope: anEnvelope(task)}).ArchivedPath)
	}
	for _, path := range takeOver(t, s, handoff.ReadRequest{}).Archives {
		name, _, _ := strings.Cut(filepath.Base(path), "-")
		tasks = append(tasks, name)
	}
	equal(t, strings.Join(tasks, " "), "y z t unnamed unnamed human t t", "newest first", paths)
	check(t, s, true)
}

// TestReadingIsRemembered: across a restart, once per reader, by the bytes that were
// read; the handoff itself stays unchanged.
func TestReadingIsRemembered(t *testing.T) {
	t.Parallel()
	s, dir := opened(t, nil)
	handOff(t, s, handoff.WriteRequest{Envelope: anEnvelope("t")})
	handOff(t, s, handoff.WriteRequest{Envelope: anEnvelope("t"), Path: "docs/other.md"})
	before := snapshot(t, dir)
	for _, name := range []string{"a", "b", "a", "日本"} {
		takeOver(t, s, handoff.ReadRequest{AcknowledgeAs: name})
	}
	equal(t, snapshot(t, dir), before, "reading changed")
	n := len(tailOf(t, s))
	equal(t, n, 5, "rows")
	s.Close(background)
	s = open(t, dir, nil)
	names := func(path string) string {
		var list []string
		for _, r := range takeOver(t, s, handoff.ReadRequest{Path: path}).ReadBy {
			expect(t, !r.At.Time.IsZero(), "%v", r.At)
			list = append(list, r.Name)
		}
		return strings.Join(list, " ")
	}
	equal(t, names(""), "a b 日本")
	equal(t, names("docs/other.md"), "")
	for _, name := range []string{" ", "\xff", strings.Repeat("x", 201)} {
		fails(s.HandoffRead(background, handoff.ReadRequest{AcknowledgeAs: name}))(t, rw.ErrInvalidArgument, name)
	}
	// A link to the handoff is the handoff.
	os.Symlink("HANDOFF.md", filepath.Join(dir, "alias.md"))
	equal(t, names("alias.md"), "a b 日本")
	for i := range 150 {
		takeOver(t, s, handoff.ReadRequest{AcknowledgeAs: fmt.Sprint("reader ", i)})
	}
	r := takeOver(t, s, handoff.ReadRequest{})
	expect(t, len(r.ReadBy) == 100 && r.ReadBy[99].Name == "reader 149", "%d readers are kept", len(r.ReadBy))
	check(t, s, true)
}

// TestDamageAroundHandoffsAffectsOnlyItself: notes that cannot be read, an
// archive that was changed, a directory that is a link.
func TestDamageAroundHandoffsAffectsOnlyItself(t *testing.T) {
	s, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
	for i := range 3 {
		handOff(t, s, handoff.WriteRequest{Envelope: anEnvelope(fmt.Sprint("t", i)), Archive: true})
	}
	takeOver(t, s, handoff.ReadRequest{AcknowledgeAs: "me"})
	notes := statePath(dir, "handoffs", "read.json")
	os.WriteFile(notes, []byte(`{"handoffs": [{`), 0o600)
	r := takeOver(t, s, handoff.ReadRequest{})
	expect(t, len(r.ReadBy) == 0 && len(r.Warnings) == 1 && r.Warnings[0].Reason == call.WarnHandoffRecords && len(r.Archives) == 2, "%+v", r)
	out := handOff(t, s, handoff.WriteRequest{Envelope: anEnvelope("t3")})
	expect(t, out.ArchivedPath != "", "a handoff without a known reader was removed")
	r = takeOver(t, s, handoff.ReadRequest{AcknowledgeAs: "me"})
	expect(t, len(r.ReadBy) == 1, "%+v", r.ReadBy)
	kept, _ := filepath.Glob(statePath(dir, "quarantine", "handoff_read.json.*"))
	mustEqual(t, len(kept), 1)
	testbed.Holds(t, kept[0], `{"handoffs": [{`)

	noErr(t, errors.Join(os.Remove(notes), os.Symlink(filepath.Join(dir, "elsewhere"), notes)))
	_, err := s.HandoffRead(background, handoff.ReadRequest{AcknowledgeAs: "me"})
	envelopeOf(t, dir, err, rw.ErrBadStateDir)
	repairIt(t, s, admin.RepairRequest{})
	takeOver(t, s, handoff.ReadRequest{AcknowledgeAs: "me"})

	archives := takeOver(t, s, handoff.ReadRequest{}).Archives
	victim := filepath.Join(dir, filepath.FromSlash(archives[1]))
	data, _ := os.ReadFile(victim)
	os.WriteFile(victim, append(data, "more"...), 0o600)
	_, err = s.HandoffRead(background, handoff.ReadRequest{Path: archives[1]})
	e := envelopeOf(t, dir, err, rw.ErrHashDriftOnRead)
	name, _ := e.Context["quarantined"].(string)
	testbed.Holds(t, statePath(dir, filepath.FromSlash(name)), string(data)+"more", name, " holds")
	for _, p := range []string{archives[0], archives[2], "HANDOFF.md"} {
		takeOver(t, s, handoff.ReadRequest{Path: p})
	}
	_, err = s.HandoffRead(background, handoff.ReadRequest{Path: archives[1]})
	envelopeOf(t, dir, err, rw.ErrNotFound)
	// An archive of the Python implementation is in no journal.
	os.WriteFile(statePath(dir, "handoffs", "20260411T172804_old.md"), []byte("---\ntask_id: old\nstatus: complete\n---\n"), 0o600)
	r = takeOver(t, s, handoff.ReadRequest{Path: rw.StateDirName + "/handoffs/20260411T172804_old.md"})
	expect(t, r.Envelope.TaskID == "old", "%+v", r)
	for _, p := range []string{"/handoffs/../meta.json", "/handoffs/read.json", "/handoffs/", "/handoffs/a/b.md", "/handoffs/\x00.md"} {
		expect(t, errorOf(s.HandoffRead(background, handoff.ReadRequest{Path: rw.StateDirName + p})) != nil, "%q was read", p)
	}

	elsewhere := t.TempDir()
	os.Rename(statePath(dir, "handoffs"), filepath.Join(elsewhere, "handoffs"))
	os.Symlink(filepath.Join(elsewhere, "handoffs"), statePath(dir, "handoffs"))
	r = takeOver(t, s, handoff.ReadRequest{})
	expect(t, len(r.Archives) == 0 && len(r.Warnings) == 1, "%+v", r)
	handoffRefused(t, s, dir, handoff.WriteRequest{Envelope: anEnvelope("x"), Archive: true}, rw.ErrBadStateDir)
	_, err = s.HandoffRead(background, handoff.ReadRequest{AcknowledgeAs: "me"})
	envelopeOf(t, dir, err, rw.ErrBadStateDir)
}

// TestOneOfManyHandoffsWins if all of them name the version they replace; no handoff is
// lost if none of them does.
func TestOneOfManyHandoffsWins(t *testing.T) {
	dir := workspace(t)
	stores := []*rw.Store{open(t, dir, &rw.Options{Sync: rw.SyncOff}), open(t, dir, &rw.Options{Sync: rw.SyncOff})}
	first := handOff(t, stores[0], handoff.WriteRequest{Envelope: anEnvelope("t")})
	const writers = 8
	race := func(r func(i int) handoff.WriteRequest) (won int, errs []error) {
		var wg sync.WaitGroup
		var mu sync.Mutex
		for i := range writers {
			wg.Go(func() {
				_, err := stores[i%2].HandoffWrite(background, r(i))
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won++
				} else {
					errs = append(errs, err)
				}
			})
		}
		wg.Wait()
		return won, errs
	}
	won, errs := race(func(i int) handoff.WriteRequest {
		return handoff.WriteRequest{Envelope: anEnvelope("t"), Body: []byte(fmt.Sprint("guarded ", i)), Expect: rw.Exactly(first.SHA256)}
	})
	equal(t, won, 1, "won")
	for _, err := range errs {
		isErr(t, err, rw.ErrHashMismatch)
	}
	won, errs = race(func(i int) handoff.WriteRequest {
		return handoff.WriteRequest{Envelope: anEnvelope("t"), Body: []byte(fmt.Sprint("free ", i))}
	})
	mustEqual(t, won, writers, errs)
	// Every handoff is the current one or in an archive.
	bodies := map[string]bool{string(takeOver(t, stores[0], handoff.ReadRequest{}).Body): true}
	for name := range archivesIn(t, dir) {
		bodies[string(takeOver(t, stores[1], handoff.ReadRequest{Path: rw.StateDirName + "/handoffs/" + name}).Body)] = true
	}
	for i := range writers {
		expect(t, bodies[fmt.Sprint("free ", i)], "handoff %d is lost", i)
	}
	equal(t, len(bodies), writers+2, "handoffs in all")
	check(t, stores[0], true)
}

// TestRepeatedHandoffIsWrittenOnce, even if the first call changed the state that the
// second one is checked against.
func TestRepeatedHandoffIsWrittenOnce(t *testing.T) {
	s, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
	a := write(t, s, "a.txt", "a", rw.ModeCreate)
	first := handOff(t, s, handoff.WriteRequest{Envelope: anEnvelope("t")})
	r := handoff.WriteRequest{
		Envelope: anEnvelope("t", func(e *handoff.Envelope) {
			e.LastGoodState = []handoff.File{{Path: "a.txt", SHA256: a.SHA256.String()}}
		}),
		Strict: true, Archive: true, Expect: rw.Exactly(first.SHA256), Call: rw.Call{IdempotencyKey: "k"},
	}
	once := handOff(t, s, r)
	write(t, s, "a.txt", "b", rw.ModeOverwrite)
	n := len(tailOf(t, s))
	s.Close(background)
	s = open(t, dir, &rw.Options{Sync: rw.SyncOff})
	again := handOff(t, s, r)
	expect(t, again.Status == rw.StatusReplayed && again.SHA256 == once.SHA256 && again.Bytes == once.Bytes && again.ArchivedPath == once.ArchivedPath &&
		again.JournalID == once.JournalID && !again.WroteAt.IsZero() && len(again.DriftWarnings) == 1 && len(tailOf(t, s)) == n,
		"%+v\n%+v", once, again)
	r.Body = []byte("other")
	handoffRefused(t, s, dir, r, rw.ErrIdempotencyKeyReused)
	check(t, s, true)
}

// TestHandoffDryRunChangesNothing but reports what would happen.
func TestHandoffDryRunChangesNothing(t *testing.T) {
	s, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
	handOff(t, s, handoff.WriteRequest{Envelope: anEnvelope("t"), Body: []byte("old\n")})
	before, n := snapshot(t, dir), len(tailOf(t, s))
	out := handOff(t, s, handoff.WriteRequest{Envelope: anEnvelope("t"), Body: []byte("new\n"), Call: rw.Call{DryRun: true}})
	expect(t, strings.Contains(out.Diff, "+new") && out.ArchivedPath != "" && out.JournalID == "" && out.Receipt.DryRun, "%+v", out)
	gone(t, statePath(dir), "handoffs")
	after := snapshot(t, dir)
	expect(t, after == before && len(tailOf(t, s)) == n, "%s\n%s", before, after)
	real := handOff(t, s, handoff.WriteRequest{Envelope: anEnvelope("t"), Body: []byte("new\n")})
	expect(t, !out.SHA256.IsZero() && !real.SHA256.IsZero(), "%v %v", out.SHA256, real.SHA256)
	for _, name := range []string{"b", "a"} {
		os.MkdirAll(statePath(dir, "checkpoints"), 0o700)
		os.WriteFile(statePath(dir, "checkpoints", name+".json"), []byte("{}"), 0o600)
	}
	os.WriteFile(statePath(dir, "checkpoints", "a.tmp"), nil, 0o600)
	equal(t, cmp.Diff([]string{"a", "b"}, takeOver(t, s, handoff.ReadRequest{}).CheckpointRefs), "")
}

func leave(r handoff.WriteRequest) func(*rw.Store) error {
	return doing((*rw.Store).HandoffWrite, r)
}

func acknowledgeAs(name string) func(*rw.Store) error {
	return doing((*rw.Store).HandoffRead, handoff.ReadRequest{AcknowledgeAs: name})
}

// handoffScenarios: the first handoff, one that replaces and archives another one, and
// an acknowledged read.
func handoffScenarios() []scenario {
	first := leave(handoff.WriteRequest{Envelope: anEnvelope("first"), Body: []byte(longText)})
	second := leave(handoff.WriteRequest{Envelope: anEnvelope("second"), Body: []byte(otherText), Archive: true})
	return []scenario{
		{name: "handoff", run: first},
		{name: "handoff_archive", before: first, run: second},
		{name: "handoff_acknowledge", before: first, run: acknowledgeAs("me")},
	}
}

// TestHandoffSurvivesACrash and a fault at every operation of the call: handoff and
// archive either both exist or both do not, and what an error reports is true.
func TestHandoffSurvivesACrash(t *testing.T) { sweepPart(t, "handoffs", nil, handoffScenarios()) }

// TestHandoffRecoveryMayBeKilled at every operation, and repeated.
func TestHandoffRecoveryMayBeKilled(t *testing.T) {
	c := handoffScenarios()[1]
	c.part, c.opts.Sync = "handoffs", rw.SyncFull
	c.known(t).recoverySweep(t)
}

// TestHandoffOfKilledWriter: the handoff that a writer acknowledged before it was
// killed is the current one or an archived one, complete, and the next writer
// continues.
func TestHandoffOfKilledWriter(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	promised := map[string]bool{}
	for range 3 {
		p := spawn(t, "handoffs", dir, "", rw.SyncOff)
		p.printed(t, 21)
		p.kill()
		for i := range p.lines() {
			promised[fmt.Sprintf("%d-%d\n", p.Process.Pid, i)] = true
		}
		s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
		found := map[string]bool{string(takeOver(t, s, handoff.ReadRequest{}).Body): true}
		for name := range archivesIn(t, dir) {
			found[string(takeOver(t, s, handoff.ReadRequest{Path: rw.StateDirName + "/handoffs/" + name}).Body)] = true
		}
		for body := range promised {
			expect(t, found[body], "%q is lost", body)
		}
		check(t, s, true)
		s.Close(background)
	}
}

// TestHandoffErrorsSayWhereAndWhat: the place of a problem is one of the file, not of
// its front matter, and a limit is reported by its own name and not by that of others.
func TestHandoffErrorsSayWhereAndWhat(t *testing.T) {
	t.Parallel()
	s, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
	text, token := documentedTemplate(t), ghToken(3)
	for name, c := range map[string]struct {
		line         string // inserted after the opening line
		detail       rw.Detail
		column       int
		says, silent string
	}{
		"not UTF-8": {"summary: é\xff", rw.ErrYAML, 11, "line 2, column 11", ""},
		"nested":    {"summary: " + strings.Repeat("[", 70) + strings.Repeat("]", 70), rw.ErrTooLarge, 73, "nested deeper than 64", "1 MiB"},
		"key twice": {"x: 1\nx: 2", rw.ErrYAML, 0, `line 3, column 1 of the file: mapping key "x" is already defined at line 2`, ""},
		"a secret":  {token + ": 1\n" + token + ": 2", rw.ErrYAML, 0, "is already defined at line 2", token},
	} {
		_, err := readByHand(t, s, dir, strings.Replace(text, "---\n", "---\n"+c.line+"\n", 1))
		e := rw.AsError("", err)
		if err == nil || e.Detail != c.detail || !strings.Contains(e.Hint, c.says) || c.silent != "" && strings.Contains(e.Hint, c.silent) {
			t.Errorf("%s: %v: %s", name, err, e.Hint)
			continue
		}
		expect(t, (c.column <= 0 || fmt.Sprint(e.Context["line"]) == "2" && fmt.Sprint(e.Context["column"]) == fmt.Sprint(c.column)) && e.Context["line"] != nil,
			"%s: %v", name, e.Context)
		expect(t, !strings.Contains(err.Error()+e.Hint, "summary"), "%s: the text shows content", name)
		conformsEnvelope(t, e)
	}
	big := anEnvelope("t")
	big.Summary = strings.Repeat("x", 2<<20)
	_, err := s.HandoffWrite(background, handoff.WriteRequest{Envelope: big})
	expect(t, err != nil && !strings.Contains(rw.AsError("", err).Hint, "100000"), "%v: %s", err, rw.AsError("", err).Hint)
}

// documentedTemplate is the handoff in docs/handoff.md, as people copy it.
func documentedTemplate(t testing.TB) string {
	t.Helper()
	data := must(os.ReadFile(filepath.Join("docs", "handoff.md")))(t)
	_, rest, ok := strings.Cut(string(data), "```markdown\n")
	text, _, closed := strings.Cut(rest, "\n```")
	require(t, ok && closed, "the document has no template")
	return text + "\n"
}

// readByHand puts a file where the handoff belongs and reads it.
func readByHand(t testing.TB, s *rw.Store, dir, text string) (handoff.ReadResult, error) {
	t.Helper()
	noErr(t, os.WriteFile(filepath.Join(dir, "HANDOFF.md"), []byte(text), 0o644))
	return s.HandoffRead(background, handoff.ReadRequest{})
}

// TestDocumentedTemplateReads: the template can be read unchanged, and in the forms
// that editors give it; the result of a read can be written.
func TestDocumentedTemplateReads(t *testing.T) {
	s, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
	write(t, s, "tokenizer.go", "", rw.ModeCreate)
	text := documentedTemplate(t)
	var first handoff.Envelope
	for name, change := range map[string]func(string) string{
		"unchanged": func(s string) string { return s },
		"CRLF":      func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
		"BOM":       func(s string) string { return "\ufeff" + s },
		"blanks":    func(s string) string { return strings.Replace(s, "---\n", "--- \t\n", 2) },
	} {
		r, err := readByHand(t, s, dir, change(text))
		require(t, err == nil, "%s: %v", name, err)
		e := r.Envelope
		expect(t, e.StartedAt.String() == "2026-11-21T09:00:00Z" && e.UpdatedAt.String() == "2026-11-21T17:30:00Z" && e.Status == handoff.Partial && len(e.Summary) == 79 && len(r.MissingFields) == 0 &&
			len(e.NextSteps) == 2 && e.Blockers[0] == "The tests of the printer need a license: ask Ben." && e.OpenQuestions != nil && len(e.OpenQuestions) == 0,
			"%s: %d %+v", name, len(e.Summary), e)
		diff := cmp.Diff([]string{"printer"}, r.ReadySteps)
		expect(t, diff == "" && len(r.DriftWarnings) == 0 && len(r.Warnings) == 0, "%s: %s %+v %+v", name, diff, r.DriftWarnings, r.Warnings)
		if first.TaskID == "" {
			first = e
		} else if diff := cmp.Diff(first, e, timestamps); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		doc := must(json.Marshal(e))(t)
		noErr(t, spec.Validate("handoff", doc), name)
	}
	handOff(t, s, handoff.WriteRequest{Envelope: first, Strict: true})
}

// TestDocumentNamesEveryField of the envelope, and the schema has them.
func TestDocumentNamesEveryField(t *testing.T) {
	data := must(os.ReadFile(filepath.Join("docs", "handoff.md")))(t)
	schemaDoc := must(spec.Schema("handoff"))(t)
	typ := reflect.TypeFor[handoff.Envelope]()
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		expect(t, strings.Contains(string(data), "\n| `"+name+"` |") && strings.Contains(string(schemaDoc), `"`+name+`"`), "%s is not documented",
			name)
	}
	for _, reason := range []string{"invalid_path", "missing", "hash_mismatch", call.WarnUnreadHandoff, string(rw.ErrStateDrift), string(rw.ErrDependencyCycle)} {
		expect(t, strings.Contains(string(data), "`"+reason+"`"), "%s is not documented", reason)
	}
	for doc, valid := range map[string]bool{
		`{}`: false, `{"task_id":"t","status":"partial","agent":"a","summary":"s","next_steps":[],"last_good_state":[]}`: true,
		`{"task_id":"t","status":"wip","agent":"a","summary":"s","next_steps":[],"last_good_state":[]}`:                             false,
		`{"task_id":"t","status":"partial","agent":"a","summary":"s","next_steps":[],"last_good_state":[{"path":"x"}],"x":{"y":1}}`: false,
		`{"task_id":"t","status":"partial","agent":"a","summary":"s","next_steps":[],"last_good_state":[],"x":{"y":1}}`:             true,
	} {
		err := spec.Validate("handoff", []byte(doc))
		expect(t, (err == nil) == valid, "%s: %v", doc, err)
	}
}

// olderHandoffs are files as agents of the Python implementation left them, and as
// people wrote them at that time.
var olderHandoffs = map[string]string{
	"yaml.safe_dump": `---
task_id: telemetry-report
status: partial
agent: claude
summary: 'Report built.

  Deck is next.'
next_steps:
- 'Run latexmk: twice.'
- "Check page 12 \u2026"
last_good_state:
- path: report.tex
  sha256: e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855
  bytes: 50347
open_questions: []
blockers:
- safe_write said blocked, content_filter
artifacts:
- kind: pdf
  path: report.pdf
  sha256: 3fe9
updated_at: '2026-04-11T17:28:04Z'
---
# notes

prose
`,
	"aligned comments":     "---\ntask_id:   x-1      # the ticket\nstatus:    Handed off\nagent:     ben\nupdated_at: 2026-04-11 17:28:04\nsummary: >-\n  folded\n  text\nnext_steps:\n    - deep indent\nlast_good_state: []\nminutes: 40\n---\n",
	"numbers and one text": "---\ntask_id: 4711\nstatus: blocked\nagent: 007\nsummary: 1.50\nnext_steps: just one thing\nlast_good_state:\nblockers:\n  - Fix it: the colon makes this a mapping\n  - 3\n  - true\nverified: yes\nartifacts: report.pdf\ndependency_graph: build\n---\n",
}

func TestOlderHandoffsRead(t *testing.T) {
	s, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
	got := map[string]handoff.ReadResult{}
	for name, text := range olderHandoffs {
		r, err := readByHand(t, s, dir, text)
		require(t, err == nil, "%s: %v", name, err)
		got[name] = r
	}
	dump := got["yaml.safe_dump"]
	if e := dump.Envelope; e.Summary != "Report built.\nDeck is next." || e.NextSteps[1] != "Check page 12 …" || e.LastGoodState[0].Bytes != 50347 ||
		e.UpdatedAt.String() != "2026-04-11T17:28:04Z" || string(dump.Body) != "# notes\n\nprose\n" || dump.DriftWarnings[0].Reason != "missing" {
		t.Errorf("%+v", dump)
	}
	if e := got["aligned comments"].Envelope; e.TaskID != "x-1" || e.Status != handoff.HandedOff || e.UpdatedAt.String() != "2026-04-11 17:28:04" || e.Summary != "folded text" ||
		e.NextSteps[0] != "deep indent" || len(e.Extra) != 1 || string(e.Extra[0].Value) != "40" {
		t.Errorf("%+v", e)
	}
	r := got["numbers and one text"]
	want := handoff.Envelope{
		TaskID: "4711", Status: handoff.Blocked, Agent: "007", Summary: "1.50", NextSteps: []string{"just one thing"}, LastGoodState: []handoff.File{},
		Blockers: []string{"Fix it: the colon makes this a mapping", "3", "true"}, Verified: []string{"yes"}, Artifacts: []handoff.Artifact{{Path: "report.pdf"}}, DependencyGraph: []handoff.Step{{ID: "build"}},
	}
	diff := cmp.Diff(want, r.Envelope, timestamps)
	expect(t, diff == "" && len(r.MissingFields) == 0, "%s %v", diff, r.MissingFields)
}

// TestHandoffThatCannotBeReadSaysWhere: each kind of invalid handoff has its detail,
// and errors in the YAML have the line and column of the file.
func TestHandoffThatCannotBeReadSaysWhere(t *testing.T) {
	s, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
	_, err := s.HandoffRead(background, handoff.ReadRequest{})
	equal(t, envelopeOf(t, dir, err, rw.ErrNotFound).Kind, rw.ErrStalePrecondition)
	fields := ""
	for i := range 4097 {
		fields += fmt.Sprintf("f%d: 1\n", i)
	}
	for _, row := range []struct {
		text  string
		want  rw.Detail
		about map[string]any
	}{
		{"", rw.ErrMissingDelimiter, nil}, {"# Title\n---\na: b\n---\n", rw.ErrMissingDelimiter, nil}, {"\n---\na: b\n---\n", rw.ErrMissingDelimiter, nil},
		{"---\ntask_id: t\n", rw.ErrUnterminatedFrontMatter, nil}, {"---\n- a\n---\n", rw.ErrFrontMatterNotMapping, nil}, {"---\n---\n", rw.ErrFrontMatterNotMapping, nil},
		{"---\ntask_id: t\nsummary: a: b\n---\n", rw.ErrYAML, map[string]any{"line": 3, "column": 11}},
		{"---\ntask_id: t\ntask_id: u\n---\n", rw.ErrYAML, map[string]any{"line": 3, "column": 1}},
		{"---\r\nok: 1\r\nx: [a\r\n---\r\n", rw.ErrYAML, nil}, {"---\na: \x00\n---\n", rw.ErrYAML, map[string]any{"line": 2}}, {"---\na: \xff\n---\n", rw.ErrYAML, nil},
		{"---\na: " + strings.Repeat("x", 2<<20) + "\n---\n", rw.ErrTooLarge, nil},
		{"---\nstatus: wip\n---\n", rw.ErrBadEnvelope, map[string]any{"field": "status"}},
		{"---\nlast_good_state: report.tex\n---\n", rw.ErrBadEnvelope, map[string]any{"field": "last_good_state[0].sha256"}},
		{"---\nlast_good_state: 7\n---\n", rw.ErrBadEnvelope, map[string]any{"field": "last_good_state"}},
		{"---\nlast_good_state:\n  - path: a\n---\n", rw.ErrBadEnvelope, map[string]any{"field": "last_good_state[0].sha256"}},
		{"---\nlast_good_state:\n  - path: a\n    sha256: b\n    bytes: many\n---\n", rw.ErrBadEnvelope, map[string]any{"field": "last_good_state[0].bytes"}},
		{"---\ndependency_graph: [7]\n---\n", rw.ErrBadEnvelope, map[string]any{"field": "dependency_graph[0]"}},
		{"---\n" + fields + "---\n", rw.ErrBadEnvelope, map[string]any{
			"hint": "the front matter is invalid: it has more than 4096 fields; move what is left over into the body; correct it in the file",
		}},
	} {
		_, err := readByHand(t, s, dir, row.text)
		e := envelopeOf(t, dir, err, row.want)
		for key, want := range row.about {
			expect(t, e.Context[key] == want || key == "hint" && e.Hint == want, "%.40q: %s is %v, want %v", row.text, key, e.Context[key], want)
		}
		expect(t, e.Path == "HANDOFF.md" && e.Effect == rw.EffectNone, "%+v", e)
	}
	// It is still there, and what replaces it does not lose it.
	broken := "---\ntask_id: t\nsummary: a: b\n---\nprecious\n"
	readByHand(t, s, dir, broken)
	out := handOff(t, s, handoff.WriteRequest{Envelope: anEnvelope("t")})
	equal(t, archivesIn(t, dir)[filepath.Base(out.ArchivedPath)], broken)
	for path, want := range map[string]rw.Detail{
		"../x": rw.ErrEscapesWorkspace, "/etc/passwd": rw.ErrAbsolutePathRejected, ".git/x": rw.ErrProtectedPath, rw.StateDirName + "/meta.json": rw.ErrProtectedPath, "a\x00": rw.ErrInvalidPath,
		".": rw.ErrIsADirectory, "docs/no.md": rw.ErrNotFound,
	} {
		_, err := s.HandoffRead(background, handoff.ReadRequest{Path: path})
		envelopeOf(t, dir, err, want)
	}
}

// TestIncompleteHandoffIsStillRead: missing fields are named; a broken graph is a
// warning; a body in another encoding is returned.
func TestIncompleteHandoffIsStillRead(t *testing.T) {
	s, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
	r := must(readByHand(t, s, dir, "---\nsummary: only this\nnext_steps:\n---\nLatin-1: \xe4\n"))(t)
	diff := cmp.Diff([]string{"task_id", "status", "agent", "last_good_state"}, r.MissingFields)
	expect(t, diff == "" && r.Envelope.Status == handoff.Partial, "%s %+v", diff, r.Envelope)
	equal(t, string(r.Body), "Latin-1: \xe4\n")
	r = must(readByHand(t, s, dir, "---\nsummary: x\ndependency_graph:\n  - id: a\n    depends_on: b\n  - id: b\n    depends_on: [a]\n  - c\n  - {id: d, depends_on: [zz]}\n  - {id: e, depends_on: [f]}\n  - {id: f, status: COMPLETE}\n---\n"))(t)
	diff = cmp.Diff([]string{"c", "e"}, r.ReadySteps)
	expect(t, diff == "" && len(r.Warnings) == 1 && r.Warnings[0].Reason == string(rw.ErrUnknownStep), "%s %+v", diff, r.Warnings)
}

// FuzzHandoffRead: no file makes a read panic or return an invalid reply; the result of
// a read can be written, and reads the same again.
func FuzzHandoffRead(f *testing.F) {
	f.Add([]byte(documentedTemplate(f)))
	for _, text := range olderHandoffs {
		f.Add([]byte(text))
	}
	for _, text := range []string{
		"---\nlast_good_state: [{path: ../x, sha256: 00}]\n---\n", "---\ndependency_graph: [{id: a, depends_on: [a]}]\n---\n", "---\nblockers: {a: {b: [c]}}\nstatus: ~\n---\n\xff",
		"---\nx: &a [*a]\n---\n", "---\nnext_steps: [[a], {b: c}, ~, {d: {}}]\nartifacts: x\n---\n", "---\nartifacts: {kind: 7, path: [a]}\ntask_id: [1]\n---\n",
	} {
		f.Add([]byte(text))
	}
	dir := f.TempDir()
	s := must(rw.Open(background, dir, &rw.Options{Sync: rw.SyncOff}))(f)
	f.Cleanup(func() { s.Close(background) })
	f.Fuzz(func(t *testing.T, text []byte) {
		noErr(t, s.ResetTask(background))
		r, err := readByHand(t, s, dir, string(text))
		if err != nil {
			doc, jerr := json.Marshal(rw.AsError("", err))
			require(t, jerr == nil && rw.AsError("", err).Detail != rw.ErrInternal && !errors.Is(err, rw.ErrRetryExhausted), "%q: %v %s", text, err,
				doc)
			return
		}
		doc, err := json.Marshal(r.Envelope)
		require(t, err == nil, "%q: %v", text, err)
		err = spec.Validate("handoff", doc)
		require(t, err == nil || strings.Contains(err.Error(), "number is out of range"), "%q: %v: %s", text, err, doc)
		require(t, strings.HasSuffix(string(text), string(r.Body)), "%q: body %q", text, r.Body)
		r.Envelope.Extra = nil
		_, err = s.HandoffWrite(background, handoff.WriteRequest{Envelope: r.Envelope, Call: rw.Call{DryRun: true}})
		require(t, !errors.Is(err, rw.ErrInternal), "%q: %v (%v)", text, err, errors.Unwrap(err))
	})
}

// TestHandoffDriftIsReported: every way in which a file can differ from its entry in the
// handoff is reported, when it is written and when it is read; strict refuses both.
func TestHandoffDriftIsReported(t *testing.T) {
	s, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
	ok := write(t, s, "ok.txt", "fine", rw.ModeCreate)
	write(t, s, "changed.txt", "now", rw.ModeCreate)
	os.Mkdir(filepath.Join(dir, "adir"), 0o755)
	os.Symlink("/etc/passwd", filepath.Join(dir, "out"))
	os.Symlink("ok.txt", filepath.Join(dir, "alias"))
	var state []handoff.File
	for _, p := range []string{"ok.txt", "alias", "changed.txt", "gone.txt", "../x", "/etc/passwd", ".git/config", rw.StateDirName + "/meta.json", "adir", "out", "ok.txt/below", "a\x00b"} {
		state = append(state, handoff.File{Path: p, SHA256: ok.SHA256.String()})
	}
	reasons := func(list []handoff.Drift) string {
		var out []string
		for _, d := range list {
			expect(t, (d.Path == state[d.Index].Path || d.Path == "") && d.ExpectedSHA256 == ok.SHA256.String() &&
				(d.ActualSHA256 != "") == (d.Reason == "hash_mismatch") && (d.ActualSHA256 == "" || d.ActualSHA256 == hash("now")), "%+v", d)
			out = append(out, strings.ReplaceAll(d.Path, "\x00", "0")+"="+d.Reason)
		}
		return strings.Join(out, " ")
	}
	const want = "changed.txt=hash_mismatch gone.txt=missing ../x=invalid_path /etc/passwd=invalid_path .git/config=invalid_path " +
		rw.StateDirName + "/meta.json=invalid_path adir=invalid_path out=invalid_path ok.txt/below=invalid_path a0b=invalid_path"
	// A refusal shows no path that leads out of the workspace.
	const hidden = "changed.txt=hash_mismatch gone.txt=missing =invalid_path =invalid_path =invalid_path =invalid_path " +
		"adir=invalid_path out=invalid_path ok.txt/below=invalid_path =invalid_path"
	r := handoff.WriteRequest{Envelope: anEnvelope("t", func(e *handoff.Envelope) { e.LastGoodState = state })}
	strict := r
	strict.Strict = true
	e := handoffRefused(t, s, dir, strict, rw.ErrStateDrift)
	got := reasons(e.Context["drift_warnings"].([]handoff.Drift))
	expect(t, got == hidden && e.Kind == rw.ErrStalePrecondition, "strict: %s %s", got, e.Kind)
	equal(t, reasons(handOff(t, s, r).DriftWarnings), want)
	equal(t, reasons(takeOver(t, s, handoff.ReadRequest{}).DriftWarnings), want, "read")
	_, err := s.HandoffRead(background, handoff.ReadRequest{Strict: true, AcknowledgeAs: "me"})
	envelopeOf(t, dir, err, rw.ErrStateDrift)
	expect(t, len(takeOver(t, s, handoff.ReadRequest{}).ReadBy) == 0, "a refused read was noted")
	good := handoff.WriteRequest{Envelope: anEnvelope("t", func(e *handoff.Envelope) { e.LastGoodState = state[:2] }), Strict: true}
	out := handOff(t, s, good)
	expect(t, len(out.DriftWarnings) == 0, "%+v", out.DriftWarnings)
	length(t, takeOver(t, s, handoff.ReadRequest{Strict: true}).DriftWarnings, 0)
}

// TestHandoffReadsAFileOnce: a file that a handoff lists many times is read once, when
// the handoff is read and when it is written.
func TestHandoffReadsAFileOnce(t *testing.T) {
	fs := simfs.New()
	fs.WriteFile("a.txt", []byte("now"), 0o644)
	s := must(rw.OpenSim(fs, nil, rw.Sim{}))(t)
	defer s.Close(background)
	r := handoff.WriteRequest{Envelope: anEnvelope("t", func(e *handoff.Envelope) {
		e.LastGoodState = slices.Repeat([]handoff.File{{Path: "a.txt", SHA256: hash("then")}, {Path: "./a.txt", SHA256: hash("now")}}, 100)
	})}
	opened := func(drift []handoff.Drift) {
		t.Helper()
		length(t, drift, 100)
		mustEqual(t, testbed.Count(fs.Trace(), func(op simfs.Op) bool { return op.Kind == "open" && op.Path == "a.txt" }), 1)
		fs.ResetTrace()
	}
	fs.ResetTrace()
	opened(handOff(t, s, r).DriftWarnings)
	opened(takeOver(t, s, handoff.ReadRequest{}).DriftWarnings)
}

func TestHandoffTakesStateFromTheJournal(t *testing.T) {
	s, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
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
	state := func(auto handoff.AutoState, caller, session string, listed ...handoff.File) (string, int) {
		t.Helper()
		e := anEnvelope("t", func(e *handoff.Envelope) { e.LastGoodState = listed })
		w := handOff(t, s, handoff.WriteRequest{Envelope: e, AutoState: auto, Call: rw.Call{Caller: caller, Session: session}})
		var out []string
		for _, f := range takeOver(t, s, handoff.ReadRequest{}).Envelope.LastGoodState {
			out = append(out, fmt.Sprintf("%s:%.6s:%d", f.Path, f.SHA256, f.Bytes))
		}
		return strings.Join(out, " "), len(w.DriftWarnings)
	}
	of := func(path, content string) string { return fmt.Sprintf("%s:%.6s:%d", path, hash(content), len(content)) }
	for _, row := range []struct {
		auto            handoff.AutoState
		caller, session string
		want            string
		drift           int
	}{
		{handoff.AutoStateSession, "one", "s1", of("mine/a.txt", "2") + " " + of("mine/b.txt", "b"), 1},
		{handoff.AutoStateSession, "two", "", of("mine/b.txt", "theirs now") + " " + of("theirs.txt", "x"), 0},
		{handoff.AutoStateSession, "nobody", "", "", 0},
		{"mine/*.txt", "one", "s1", of("mine/a.txt", "2") + " " + of("mine/b.txt", "theirs now") + " " + of("mine/c.txt", "c"), 0},
		{"**/c.*", "one", "", of("mine/c.md", "c") + " " + of("mine/c.txt", "c"), 0},
		{"{mine,other}/c.{md,txt}", "one", "", of("mine/c.md", "c") + " " + of("mine/c.txt", "c"), 0},
		{"*.txt", "one", "", of("theirs.txt", "x"), 0}, {"none/**", "one", "", "", 0}, {".git/**", "one", "", "", 0}, {"mine/loop/**", "x", "", "", 0},
	} {
		got, drift := state(row.auto, row.caller, row.session)
		expect(t, got == row.want && drift == row.drift, "%s for %s %s: %s, %d drifted; want %s", row.auto, row.caller, row.session, got, drift, row.want)
	}
	got, _ := state("mine/a.txt", "one", "", handoff.File{Path: "mine/a.txt", SHA256: zeroSHA})
	expect(t, got == "mine/a.txt:000000:0", "what was listed was replaced: %s", got)
	for _, glob := range []handoff.AutoState{"[", "/etc/*", "../*", "a/../../*"} {
		handoffRefused(t, s, dir, handoff.WriteRequest{Envelope: anEnvelope("t"), AutoState: glob}, rw.ErrInvalidArgument)
	}
	// A commit that was rolled back wrote nothing.
	put("mine/a.txt", "3", "one", "s4")
	disarm := failpoint.Arm(func(point string) {
		if point == string(rw.StagePublish) {
			os.WriteFile(filepath.Join(dir, "mine", "a.txt"), []byte("other"), 0o644)
		}
	})
	_, err := s.SafeWrite(background, rw.SafeWriteRequest{Path: "mine/a.txt", Content: []byte("4"), Mode: rw.ModeOverwrite, Expect: rw.Exactly(digest(hash("3"))), Call: rw.Call{Session: "s4"}})
	disarm()
	expect(t, errors.Is(err, rw.ErrChangedDuringWrite), "%v", err)
	got, _ = state(handoff.AutoStateSession, "one", "s4")
	equal(t, got, of("mine/a.txt", "3"))
	// Of too many files it takes the newest; a glob must match fewer.
	for i := range 1001 {
		file := filepath.Join(dir, "many", fmt.Sprint(i))
		os.MkdirAll(filepath.Dir(file), 0o755)
		noErr(t, os.WriteFile(file, nil, 0o644))
	}
	must(s.Move(background, rw.MoveRequest{Path: "many", To: "much", Call: rw.Call{Session: "s3"}}))(t)
	put("newest.txt", "n", "one", "s3")
	got, _ = state(handoff.AutoStateSession, "one", "s3")
	expect(t, strings.Count(got, " ") == 999 && strings.HasSuffix(got, of("newest.txt", "n")), "%d, %s", strings.Count(got, " "), got[max(0, len(got)-80):])
	handoffRefused(t, s, dir, handoff.WriteRequest{Envelope: anEnvelope("t"), AutoState: "much/*"}, rw.ErrTooLarge)
}
