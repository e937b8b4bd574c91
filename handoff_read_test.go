package resilientwrite_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/spec"
)

// documentedTemplate is the handoff in docs/handoff.md, as people copy it.
func documentedTemplate(t testing.TB) string {
	t.Helper()
	data := must(os.ReadFile(filepath.Join("docs", "handoff.md")))(t)
	_, rest, ok := strings.Cut(string(data), "```markdown\n")
	text, _, closed := strings.Cut(rest, "\n```")
	if !ok || !closed {
		t.Fatal("the document has no template")
	}
	return text + "\n"
}

// readByHand puts a file where the handoff belongs and reads it.
func readByHand(t testing.TB, s *rw.Store, dir, text string) (rw.HandoffReadResult, error) {
	t.Helper()
	noErr(t, os.WriteFile(filepath.Join(dir, "HANDOFF.md"), []byte(text), 0o644))
	return s.HandoffRead(background, rw.HandoffReadRequest{})
}

// TestDocumentedTemplateReads: the template can be read unchanged, and in the forms
// that editors give it; the result of a read can be written.
func TestDocumentedTemplateReads(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	write(t, s, "tokenizer.go", "", rw.ModeCreate)
	text := documentedTemplate(t)
	var first rw.HandoffEnvelope
	for name, change := range map[string]func(string) string{
		"as it stands": func(s string) string { return s },
		"CRLF":         func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
		"BOM":          func(s string) string { return "\ufeff" + s },
		"blanks":       func(s string) string { return strings.Replace(s, "---\n", "--- \t\n", 2) },
	} {
		r, err := readByHand(t, s, dir, change(text))
		if err != nil {
			t.Fatalf("%s: %v %v", name, err, rw.AsError("", err).Context)
		}
		e := r.Envelope
		if e.StartedAt != "2026-11-21T09:00:00Z" || e.UpdatedAt != "2026-11-21T17:30:00Z" || e.Status != rw.HandoffPartial || len(e.Summary) != 79 || len(r.MissingFields) != 0 ||
			len(e.NextSteps) != 2 || e.Blockers[0] != "The tests of the printer need a license: ask Ben." || e.OpenQuestions == nil || len(e.OpenQuestions) != 0 {
			t.Errorf("%s: %d %+v", name, len(e.Summary), e)
		}
		if diff := cmp.Diff([]string{"printer"}, r.ReadySteps); diff != "" || len(r.DriftWarnings) != 0 || len(r.Warnings) != 0 {
			t.Errorf("%s: %s %+v %+v", name, diff, r.DriftWarnings, r.Warnings)
		}
		if first.TaskID == "" {
			first = e
		} else if diff := cmp.Diff(first, e); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		doc := must(json.Marshal(e))(t)
		noErr(t, spec.Validate("handoff", doc), name)
	}
	handOff(t, s, rw.HandoffWriteRequest{Envelope: first, Strict: true})
}

// TestDocumentNamesEveryField of the envelope, and the schema has them.
func TestDocumentNamesEveryField(t *testing.T) {
	data := must(os.ReadFile(filepath.Join("docs", "handoff.md")))(t)
	schemaDoc := must(spec.Schema("handoff"))(t)
	typ := reflect.TypeFor[rw.HandoffEnvelope]()
	for i := range typ.NumField() {
		name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		if !strings.Contains(string(data), "\n| `"+name+"` |") || !strings.Contains(string(schemaDoc), `"`+name+`"`) {
			t.Errorf("%s is not documented", name)
		}
	}
	for _, reason := range []string{"invalid_path", "missing", "hash_mismatch", rw.WarnUnreadHandoff, string(rw.ErrStateDrift), string(rw.ErrDependencyCycle)} {
		if !strings.Contains(string(data), "`"+reason+"`") {
			t.Errorf("%s is not documented", reason)
		}
	}
	for doc, valid := range map[string]bool{
		`{}`: false, `{"task_id":"t","status":"partial","agent":"a","summary":"s","next_steps":[],"last_good_state":[]}`: true,
		`{"task_id":"t","status":"wip","agent":"a","summary":"s","next_steps":[],"last_good_state":[]}`:                             false,
		`{"task_id":"t","status":"partial","agent":"a","summary":"s","next_steps":[],"last_good_state":[{"path":"x"}],"x":{"y":1}}`: false,
		`{"task_id":"t","status":"partial","agent":"a","summary":"s","next_steps":[],"last_good_state":[],"x":{"y":1}}`:             true,
	} {
		if err := spec.Validate("handoff", []byte(doc)); (err == nil) != valid {
			t.Errorf("%s: %v", doc, err)
		}
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
	"numbers and one text": "---\ntask_id: 4711\nstatus: blocked\nagent: 007\nsummary: 1.50\nnext_steps: just one thing\nlast_good_state:\nblockers:\n  - Fix it: the colon makes this a mapping\n  - 3\n  - true\nverified: yes\n---\n",
}

func TestOlderHandoffsRead(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	got := map[string]rw.HandoffReadResult{}
	for name, text := range olderHandoffs {
		r, err := readByHand(t, s, dir, text)
		if err != nil {
			t.Fatalf("%s: %v %v", name, err, rw.AsError("", err).Context)
		}
		got[name] = r
	}
	dump := got["yaml.safe_dump"]
	if e := dump.Envelope; e.Summary != "Report built.\nDeck is next." || e.NextSteps[1] != "Check page 12 …" || e.LastGoodState[0].Bytes != 50347 ||
		e.UpdatedAt != "2026-04-11T17:28:04Z" || string(dump.Body) != "# notes\n\nprose\n" || dump.DriftWarnings[0].Reason != "missing" {
		t.Errorf("%+v", dump)
	}
	if e := got["aligned comments"].Envelope; e.TaskID != "x-1" || e.Status != rw.HandoffHandedOff || e.UpdatedAt != "2026-04-11 17:28:04" || e.Summary != "folded text" ||
		e.NextSteps[0] != "deep indent" || len(e.Extra) != 1 || string(e.Extra[0].Value) != "40" {
		t.Errorf("%+v", e)
	}
	r := got["numbers and one text"]
	want := rw.HandoffEnvelope{
		TaskID: "4711", Status: rw.HandoffBlocked, Agent: "007", Summary: "1.50", NextSteps: []string{"just one thing"}, LastGoodState: []rw.HandoffFile{},
		Blockers: []string{"Fix it: the colon makes this a mapping", "3", "true"}, Verified: []string{"yes"},
	}
	if diff := cmp.Diff(want, r.Envelope); diff != "" || len(r.MissingFields) != 0 {
		t.Errorf("%s %v", diff, r.MissingFields)
	}
}

// TestHandoffThatCannotBeReadSaysWhere: each kind of invalid handoff has its detail,
// and errors in the YAML have the line and column of the file.
func TestHandoffThatCannotBeReadSaysWhere(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	_, err := s.HandoffRead(background, rw.HandoffReadRequest{})
	if e := envelopeOf(t, dir, err, rw.ErrNotFound); e.Kind != rw.ErrStalePrecondition {
		t.Errorf("%+v", e)
	}
	for _, row := range []struct {
		text  string
		want  rw.Detail
		about map[string]any
	}{
		{"", rw.ErrMissingDelimiter, nil}, {"# Title\n---\na: b\n---\n", rw.ErrMissingDelimiter, nil}, {"\n---\na: b\n---\n", rw.ErrMissingDelimiter, nil},
		{"---\ntask_id: t\n", rw.ErrUnterminatedFrontMatter, nil}, {"---\n- a\n---\n", rw.ErrFrontMatterNotMapping, nil}, {"---\n---\n", rw.ErrFrontMatterNotMapping, nil},
		{"---\ntask_id: t\nsummary: a: b\n---\n", rw.ErrYAML, map[string]any{"line": 3, "column": 10}},
		{"---\ntask_id: t\ntask_id: u\n---\n", rw.ErrYAML, map[string]any{"line": 3, "column": 1}},
		{"---\r\nok: 1\r\nx: [a\r\n---\r\n", rw.ErrYAML, nil}, {"---\na: \x00\n---\n", rw.ErrYAML, map[string]any{"line": 2}}, {"---\na: \xff\n---\n", rw.ErrYAML, nil},
		{"---\na: " + strings.Repeat("x", 2<<20) + "\n---\n", rw.ErrTooLarge, nil},
		{"---\nstatus: wip\n---\n", rw.ErrBadEnvelope, map[string]any{"field": "status"}},
		{"---\nlast_good_state: report.tex\n---\n", rw.ErrBadEnvelope, map[string]any{"field": "last_good_state"}},
		{"---\nlast_good_state:\n  - path: a\n---\n", rw.ErrBadEnvelope, map[string]any{"field": "last_good_state[0].sha256"}},
		{"---\nlast_good_state:\n  - path: a\n    sha256: b\n    bytes: many\n---\n", rw.ErrBadEnvelope, map[string]any{"field": "last_good_state[0].bytes"}},
		{"---\ndependency_graph: [7]\n---\n", rw.ErrBadEnvelope, map[string]any{"field": "dependency_graph[0]"}},
	} {
		_, err := readByHand(t, s, dir, row.text)
		e := envelopeOf(t, dir, err, row.want)
		for key, want := range row.about {
			if e.Context[key] != want {
				t.Errorf("%.40q: %s is %v, want %v", row.text, key, e.Context[key], want)
			}
		}
		if e.Path != "HANDOFF.md" || e.Effect != rw.EffectNone {
			t.Errorf("%+v", e)
		}
	}
	// It is still there, and what replaces it does not lose it.
	broken := "---\ntask_id: t\nsummary: a: b\n---\nprecious\n"
	readByHand(t, s, dir, broken)
	out := handOff(t, s, rw.HandoffWriteRequest{Envelope: anEnvelope("t")})
	if got := archivesIn(t, dir)[filepath.Base(out.ArchivedPath)]; got != broken {
		t.Errorf("%q", got)
	}
	for path, want := range map[string]rw.Detail{
		"../x": rw.ErrEscapesWorkspace, "/etc/passwd": rw.ErrAbsolutePathRejected, ".git/x": rw.ErrProtectedPath, rw.StateDirName + "/meta.json": rw.ErrProtectedPath, "a\x00": rw.ErrInvalidPath,
		".": rw.ErrIsADirectory, "docs/no.md": rw.ErrNotFound,
	} {
		_, err := s.HandoffRead(background, rw.HandoffReadRequest{Path: path})
		envelopeOf(t, dir, err, want)
	}
}

// TestIncompleteHandoffIsStillRead: missing fields are named; a broken graph is a
// warning; a body in another encoding is returned.
func TestIncompleteHandoffIsStillRead(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	r := must(readByHand(t, s, dir, "---\nsummary: only this\nnext_steps:\n---\nLatin-1: \xe4\n"))(t)
	if diff := cmp.Diff([]string{"task_id", "status", "agent", "last_good_state"}, r.MissingFields); diff != "" || r.Envelope.Status != rw.HandoffPartial {
		t.Errorf("%s %+v", diff, r.Envelope)
	}
	if string(r.Body) != "Latin-1: \xe4\n" {
		t.Errorf("%q", r.Body)
	}
	r = must(readByHand(t, s, dir, "---\nsummary: x\ndependency_graph:\n  - id: a\n    depends_on: b\n  - id: b\n    depends_on: [a]\n  - c\n  - {id: d, depends_on: [zz]}\n  - {id: e, depends_on: [f]}\n  - {id: f, status: COMPLETE}\n---\n"))(t)
	if diff := cmp.Diff([]string{"c", "e"}, r.ReadySteps); diff != "" || len(r.Warnings) != 1 || r.Warnings[0].Reason != string(rw.ErrUnknownStep) {
		t.Errorf("%s %+v", diff, r.Warnings)
	}
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
			if jerr != nil || rw.AsError("", err).Detail == rw.ErrInternal || errors.Is(err, rw.ErrRetryExhausted) {
				t.Fatalf("%q: %v %s", text, err, doc)
			}
			return
		}
		doc, err := json.Marshal(r.Envelope)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if err := spec.Validate("handoff", doc); err != nil && !strings.Contains(err.Error(), "number is out of range") {
			t.Fatalf("%q: %v: %s", text, err, doc)
		}
		if !strings.HasSuffix(string(text), string(r.Body)) {
			t.Fatalf("%q: body %q", text, r.Body)
		}
		r.Envelope.Extra = nil
		if _, err := s.HandoffWrite(background, rw.HandoffWriteRequest{Envelope: r.Envelope, Call: rw.Call{DryRun: true}}); errors.Is(err, rw.ErrInternal) {
			t.Fatalf("%q: %v (%v)", text, err, errors.Unwrap(err))
		}
	})
}
