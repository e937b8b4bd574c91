package resilientwrite_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/spec"
)

// anEnvelope is the smallest one that can be written.
func anEnvelope(task string, change ...func(*rw.HandoffEnvelope)) rw.HandoffEnvelope {
	e := rw.HandoffEnvelope{
		TaskID: task, Status: rw.HandoffPartial, Agent: "tester", Summary: "half way",
		NextSteps: []string{"go on"}, LastGoodState: []rw.HandoffFile{},
	}
	for _, f := range change {
		f(&e)
	}
	return e
}

func handOff(t *testing.T, s *rw.Store, r rw.HandoffWriteRequest) rw.HandoffWriteResult {
	t.Helper()
	out, err := s.HandoffWrite(background, r)
	if err != nil {
		t.Fatalf("handoff: %v %v (%v)", err, rw.AsError("", err).Context, errors.Unwrap(err))
	}
	return out
}

func takeOver(t *testing.T, s *rw.Store, r rw.HandoffReadRequest) rw.HandoffReadResult {
	t.Helper()
	out, err := s.HandoffRead(background, r)
	if err != nil {
		t.Fatalf("read: %v %v (%v)", err, rw.AsError("", err).Context, errors.Unwrap(err))
	}
	return out
}

// envelopeOf checks that an error is a complete envelope without absolute
// paths.
func envelopeOf(t *testing.T, dir string, err error, want rw.Detail) *rw.Error {
	t.Helper()
	isErr(t, err, want)
	e := rw.AsError("", err)
	text, jerr := json.Marshal(e)
	if jerr != nil {
		t.Fatal(jerr)
	}
	if err := spec.Validate("errors", text); err != nil {
		t.Errorf("%v: %s", err, text)
	}
	if strings.Contains(string(text), dir) || e.Hint == "" || !strings.HasPrefix(e.Op, "handoff_") {
		t.Errorf("an incomplete envelope: %s", text)
	}
	return e
}

// handoffRefused makes a write that must be refused and must change nothing.
func handoffRefused(t *testing.T, s *rw.Store, dir string, r rw.HandoffWriteRequest, want rw.Detail) *rw.Error {
	t.Helper()
	before, archives := snapshot(t, dir), archivesIn(t, dir)
	_, err := s.HandoffWrite(background, r)
	e := envelopeOf(t, dir, err, want)
	if e.Effect != rw.EffectNone {
		t.Errorf("effect %s", e.Effect)
	}
	if after := snapshot(t, dir); after != before {
		t.Fatalf("the refusal changed\n%s\nto\n%s", before, after)
	}
	if after := archivesIn(t, dir); !cmp.Equal(after, archives) {
		t.Fatalf("the refusal changed the archives: %v", after)
	}
	if left, _ := s.Unfinished(); len(left) > 0 {
		t.Errorf("left in staging: %v", left)
	}
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

func handoffRows(t *testing.T, s *rw.Store) []rw.JournalEntry {
	t.Helper()
	tail := must(s.JournalTail(background, rw.JournalTailRequest{N: 1000}))(t)
	return tail.Entries
}

func TestHandoffComesBackAsItWasWritten(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	a := write(t, s, "src/a.go", "package a\n", rw.ModeCreate)
	e := anEnvelope("parser rewrite", func(e *rw.HandoffEnvelope) {
		e.Status, e.StartedAt = rw.HandoffBlocked, "2026-11-21T10:00:00Z"
		e.Summary = "Zeile eins\n  eingerückt: ja\n\n日本語 😀 # no comment\n"
		e.LastGoodState = []rw.HandoffFile{{Path: "src/a.go", SHA256: strings.ToUpper(a.SHA256.String()), Bytes: a.Bytes}}
		e.ContextHints, e.OpenQuestions, e.Blockers = []string{"yes", "- x", "a: b"}, []string{"?"}, []string{"null", "1.0"}
		e.Artifacts = []rw.HandoffArtifact{{Kind: "pdf", Path: "out.pdf", SHA256: hash("x")}}
		e.DependencyGraph = []rw.HandoffStep{{ID: "a", Status: "Done"}, {ID: "b", DependsOn: []string{"a"}}, {ID: "c", DependsOn: []string{"b", "a"}}}
		e.Verified, e.Requirements = []string{"go test"}, []string{"fast"}
	})
	w := handOff(t, s, rw.HandoffWriteRequest{Envelope: e, Body: []byte("# Body\n"), Call: rw.Call{Caller: "one", Session: "s1"}})
	if w.HandoffPath != "HANDOFF.md" || w.Status != rw.StatusSucceeded || w.JournalID == "" || len(w.DriftWarnings) != 0 || w.ArchivedPath != "" {
		t.Errorf("%+v", w)
	}
	r := takeOver(t, s, rw.HandoffReadRequest{})
	if r.SHA256 != w.SHA256 || r.Bytes != w.Bytes || string(r.Body) != "# Body\n" || len(r.DriftWarnings) != 0 || len(r.MissingFields) != 0 {
		t.Errorf("%+v", r)
	}
	if r.Envelope.UpdatedAt == "" {
		t.Error("updated_at was not filled in")
	}
	r.Envelope.UpdatedAt = ""
	e.LastGoodState[0].SHA256 = a.SHA256.String()
	if diff := cmp.Diff(e, r.Envelope); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"b"}, r.ReadySteps); diff != "" {
		t.Error(diff)
	}
	last := handoffRows(t, s)[1]
	if last.Path != "HANDOFF.md" || last.Op != "handoff" || last.SHA256 != w.SHA256 || last.Caller != "one" || last.Session != "s1" {
		t.Errorf("%+v", last)
	}
	check(t, s, true)
}

// TestHandoffKeepsUnknownFieldsInOrder: at the top and in every thing that is
// listed, with the text of numbers.
func TestHandoffKeepsUnknownFieldsInOrder(t *testing.T) {
	s := open(t, workspace(t), &rw.Options{Sync: rw.SyncOff})
	const args = `{"envelope":{"zz":1.10,"task_id":"t","status":"partial","agent":"a","description":"kept too","summary":"s","next_steps":[],
		"last_good_state":[{"path":"x","sha256":"` + zeroSHA + `","why":{"b":1,"a":[null,true,1e2]},"at":"now"}],
		"aa":{"y":[{"q":""}],"x":"2026-11-21T10:00:00Z"},"dependency_graph":[{"id":"1","zeta":0,"alpha":-0.0}],"artifacts":[{"kind":"k","Kind":"other"}],"mm":[]}}`
	var r rw.HandoffWriteRequest
	must(schema.Decode(background, []byte(args), &r))(t)
	handOff(t, s, r)
	got := takeOver(t, s, rw.HandoffReadRequest{})
	data := must(json.Marshal(got.Envelope))(t)
	for _, want := range []string{
		`"zz":1.10,"description":"kept too","aa":{"y":[{"q":""}],"x":"2026-11-21T10:00:00Z"},"mm":[]}`,
		`{"path":"x","sha256":"` + zeroSHA + `","why":{"b":1,"a":[null,true,1e2]},"at":"now"}`, `{"id":"1","zeta":0,"alpha":-0.0}`, `{"kind":"k","Kind":"other"}`,
	} {
		if !bytes.Contains(data, []byte(want)) {
			t.Errorf("%s\nis not in %s", want, data)
		}
	}
	// The result of a read can be written again, and nothing is lost.
	again := handOff(t, s, rw.HandoffWriteRequest{Envelope: got.Envelope})
	next := takeOver(t, s, rw.HandoffReadRequest{})
	next.Envelope.UpdatedAt = got.Envelope.UpdatedAt
	if diff := cmp.Diff(got.Envelope, next.Envelope); diff != "" || again.SHA256.String() == "" {
		t.Error(diff)
	}
}

const zeroSHA = "0000000000000000000000000000000000000000000000000000000000000000"

// TestHandoffBodyIsKeptToTheByte with bodies made of what tends to be changed.
func TestHandoffBodyIsKeptToTheByte(t *testing.T) {
	s := open(t, workspace(t), &rw.Options{Sync: rw.SyncOff})
	pieces := []string{"---\n", "...\n", "---", "\r\n", "\n", "\ufeff", "\x00", " ", "\t", "a: b\n", "日本語", "😀", "\u2028", "\x1b[1m", "# H\n", "```\n", "\r", "x"}
	rng := rand.New(rand.NewPCG(7, 11))
	for i := range scale(2000) {
		var b strings.Builder
		for range rng.IntN(12) {
			b.WriteString(pieces[rng.IntN(len(pieces))])
		}
		body := b.String()
		w := handOff(t, s, rw.HandoffWriteRequest{Envelope: anEnvelope("t"), Body: []byte(body), Call: rw.Call{AcceptRisk: "a test"}})
		r := takeOver(t, s, rw.HandoffReadRequest{AcknowledgeAs: "me"})
		if string(r.Body) != body || r.SHA256 != w.SHA256 {
			t.Fatalf("%d: %q came back as %q", i, body, r.Body)
		}
	}
}

// TestHandoffEnvelopeIsChecked: missing fields are listed, errors are named, and
// nothing is written.
func TestHandoffEnvelopeIsChecked(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	handOff(t, s, rw.HandoffWriteRequest{Envelope: anEnvelope("t")})
	e := handoffRefused(t, s, dir, rw.HandoffWriteRequest{Envelope: rw.HandoffEnvelope{Agent: "a", NextSteps: []string{}}}, rw.ErrMissingFields)
	if diff := cmp.Diff([]string{"task_id", "status", "summary", "last_good_state"}, e.Context["missing_fields"]); diff != "" || e.Kind != rw.ErrPolicyViolation || e.Reason != rw.ReasonEncoding {
		t.Errorf("%s %+v", diff, e)
	}
	for name, row := range map[string]struct {
		change func(*rw.HandoffEnvelope)
		want   rw.Detail
	}{
		"status":    {func(e *rw.HandoffEnvelope) { e.Status = "wip" }, rw.ErrInvalidArgument},
		"no path":   {func(e *rw.HandoffEnvelope) { e.LastGoodState = []rw.HandoffFile{{SHA256: zeroSHA}} }, rw.ErrInvalidArgument},
		"bad hash":  {func(e *rw.HandoffEnvelope) { e.LastGoodState = []rw.HandoffFile{{Path: "a", SHA256: "4b0c..."}} }, rw.ErrBadSHA256},
		"no id":     {func(e *rw.HandoffEnvelope) { e.DependencyGraph = []rw.HandoffStep{{}} }, rw.ErrInvalidArgument},
		"not UTF-8": {func(e *rw.HandoffEnvelope) { e.Blockers = []string{"\xff"} }, rw.ErrNotValidUTF8},
		"not JSON":  {func(e *rw.HandoffEnvelope) { e.Extra = []rw.HandoffField{{Name: "x", Value: json.RawMessage("{")}} }, rw.ErrInvalidArgument},
		"twice": {func(e *rw.HandoffEnvelope) {
			e.Extra = []rw.HandoffField{{Name: "x", Value: json.RawMessage(`{"a":1,"a":2}`)}}
		}, rw.ErrInvalidArgument},
		"half": {func(e *rw.HandoffEnvelope) {
			e.Extra = []rw.HandoffField{{Name: "x", Value: json.RawMessage(`"\ud800"`)}}
		}, rw.ErrInvalidArgument},
		"too large": {func(e *rw.HandoffEnvelope) { e.Summary = strings.Repeat("x", 2<<20) }, rw.ErrTooLarge},
		"too nested": {func(e *rw.HandoffEnvelope) {
			e.Extra = []rw.HandoffField{{Name: "x", Value: json.RawMessage(strings.Repeat("[", 100) + strings.Repeat("]", 100))}}
		}, rw.ErrInvalidArgument},
	} {
		t.Run(name, func(t *testing.T) {
			handoffRefused(t, s, dir, rw.HandoffWriteRequest{Envelope: anEnvelope("t", row.change)}, row.want)
		})
	}
	handoffRefused(t, s, dir, rw.HandoffWriteRequest{Envelope: anEnvelope("t"), Body: []byte("\xff")}, rw.ErrNotValidUTF8)
	stale := zeroSHA
	if e := handoffRefused(t, s, dir, rw.HandoffWriteRequest{Envelope: anEnvelope("t"), Expect: rw.Exactly(digest(stale))}, rw.ErrHashMismatch); e.Path != "HANDOFF.md" {
		t.Errorf("the error is about %q", e.Path)
	}
	handoffRefused(t, s, dir, rw.HandoffWriteRequest{Envelope: anEnvelope("t"), Body: []byte(strings.Repeat("x", 64<<20))}, rw.ErrTooLarge)
	for _, path := range []string{"../HANDOFF.md", ".git/x", rw.StateDirName + "/handoffs/x.md", "a\x00", "/etc/passwd"} {
		_, err := s.HandoffWrite(background, rw.HandoffWriteRequest{Envelope: anEnvelope("t"), Path: path})
		if err == nil || rw.AsError("", err).Kind != rw.ErrPolicyViolation {
			t.Errorf("%q: %v", path, err)
		}
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
		var r rw.HandoffWriteRequest
		_, err := schema.Decode(background, []byte(args), &r)
		var p *schema.Problem
		if !errors.As(err, &p) || p.Argument != argument {
			t.Errorf("%s: %v, want %s", args, err, argument)
		}
	}
	for args, want := range map[string]rw.AutoState{`true`: rw.AutoStateSession, `false`: "", `null`: "", `"src/**"`: "src/**"} {
		var r rw.HandoffWriteRequest
		if _, err := schema.Decode(background, []byte(`{"envelope":{},"auto_state":`+args+`}`), &r); err != nil || r.AutoState != want {
			t.Errorf("%s: %v %q", args, err, r.AutoState)
		}
	}
}

func TestHandoffGraphMustBeWorkable(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	graph := func(steps ...rw.HandoffStep) rw.HandoffWriteRequest {
		return rw.HandoffWriteRequest{Envelope: anEnvelope("t", func(e *rw.HandoffEnvelope) { e.DependencyGraph = steps })}
	}
	step := func(id string, on ...string) rw.HandoffStep { return rw.HandoffStep{ID: id, DependsOn: on} }
	handoffRefused(t, s, dir, graph(step("a"), step("a")), rw.ErrDuplicateStep)
	if e := handoffRefused(t, s, dir, graph(step("a"), step("b", "a", "nope")), rw.ErrUnknownStep); e.Context["depends_on"] != "nope" || e.Context["id"] != "b" {
		t.Errorf("%v", e.Context)
	}
	e := handoffRefused(t, s, dir, graph(step("x", "a"), step("a", "b"), step("b", "c"), step("c", "a")), rw.ErrDependencyCycle)
	if diff := cmp.Diff([]string{"a", "b", "c", "a"}, e.Context["cycle"]); diff != "" {
		t.Error(diff)
	}
	handoffRefused(t, s, dir, graph(step("self", "self")), rw.ErrDependencyCycle)
	var long []rw.HandoffStep
	for i := range 2000 {
		long = append(long, step(fmt.Sprint(i), fmt.Sprint((i+1)%2000)))
	}
	if e := handoffRefused(t, s, dir, graph(long...), rw.ErrDependencyCycle); len(e.Context["cycle"].([]string)) > 30 {
		t.Error("the whole cycle is told")
	}
	long[1999].DependsOn = nil
	handOff(t, s, graph(long...))
	if r := takeOver(t, s, rw.HandoffReadRequest{}); len(r.ReadySteps) != 1 || r.ReadySteps[0] != "1999" {
		t.Errorf("%v", r.ReadySteps)
	}
}

func TestHandoffRefusals(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff, Gate: rw.GateOfAgents})
	secret := "gh" + "p_" + unissuedToken()
	for name, change := range map[string]func(*rw.HandoffEnvelope){
		"blocker": func(e *rw.HandoffEnvelope) { e.Blockers = []string{"it said " + secret} },
		"hint":    func(e *rw.HandoffEnvelope) { e.ContextHints = []string{secret} },
		"unknown": func(e *rw.HandoffEnvelope) {
			e.Extra = []rw.HandoffField{{Name: "x", Value: json.RawMessage(`["` + secret + `"]`)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := handoffRefused(t, s, dir, rw.HandoffWriteRequest{Envelope: anEnvelope("t", change)}, rw.ErrRiskBlocked)
			if e.Kind != rw.ErrBlocked || e.Context["draft_ref"] == nil {
				t.Errorf("%+v", e)
			}
			if text, _ := json.Marshal(e); bytes.Contains(text, []byte(secret)) {
				t.Error("the envelope shows the secret")
			}
		})
	}
	handoffRefused(t, s, dir, rw.HandoffWriteRequest{Envelope: anEnvelope("t"), Body: []byte("# x\n" + secret)}, rw.ErrRiskBlocked)
	// Hashes and times are no secrets.
	many := anEnvelope("t", func(e *rw.HandoffEnvelope) {
		for i := range 50 {
			e.LastGoodState = append(e.LastGoodState, rw.HandoffFile{Path: fmt.Sprint("f", i), SHA256: hash(fmt.Sprint(i))})
		}
	})
	if out := handOff(t, s, rw.HandoffWriteRequest{Envelope: many}); len(out.Warnings) != 0 {
		t.Errorf("%+v", out.Warnings)
	}
	if r := takeOver(t, s, rw.HandoffReadRequest{AcknowledgeAs: "agent one"}); len(r.Warnings) != 0 {
		t.Errorf("%+v", r.Warnings)
	}
	// The content of an old handoff does not prevent its archiving.
	os.WriteFile(filepath.Join(dir, "HANDOFF.md"), []byte("---\ntask_id: old\n---\n"+secret+"\n"), 0o644)
	if out := handOff(t, s, rw.HandoffWriteRequest{Envelope: anEnvelope("t")}); !strings.Contains(out.ArchivedPath, "/old-") {
		t.Errorf("%+v", out)
	}
	os.Chmod(filepath.Join(dir, "HANDOFF.md"), 0o444)
	handoffRefused(t, s, dir, rw.HandoffWriteRequest{Envelope: anEnvelope("t2")}, rw.ErrReadOnlyFile)
	handOff(t, s, rw.HandoffWriteRequest{Envelope: anEnvelope("t2"), Force: true})

	ro := must(rw.Open(background, dir, &rw.Options{ReadOnly: true}))(t)
	fails(ro.HandoffWrite(background, rw.HandoffWriteRequest{Envelope: anEnvelope("t")}))(t, rw.ErrStoreReadOnly)
	if r, err := ro.HandoffRead(background, rw.HandoffReadRequest{}); err != nil || r.Envelope.TaskID != "t2" {
		t.Errorf("%v", err)
	}
	fails(ro.HandoffRead(background, rw.HandoffReadRequest{AcknowledgeAs: "x"}))(t, rw.ErrStoreReadOnly)
	ro.Close(background)
	fails(ro.HandoffRead(background, rw.HandoffReadRequest{}))(t, rw.ErrStoreClosed)
}

// unissuedToken returns the part after the prefix of a token that was never issued,
// with the checksum of a real one.
func unissuedToken() string {
	const digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	random, sum := make([]byte, 30), make([]byte, 6)
	for i, x := 0, uint32(5); i < len(random); i++ {
		x = x*1664525 + 1013904223
		random[i] = digits[(x>>16)%62]
	}
	for i, x := len(sum)-1, crc32.ChecksumIEEE(random); i >= 0; i, x = i-1, x/62 {
		sum[i] = digits[x%62]
	}
	return string(random) + string(sum)
}
