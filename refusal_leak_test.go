package resilientwrite_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// shot is one call of the sweep: a credential in a text, and what makes the
// call one that is refused.
type shot struct {
	dir, ext string // of the file
	secret   string
	text     string // holds the secret
	old      string // the text that an edit replaces
	expected rw.Expect
	accept   string
	key      string
	validate bool
	dry      bool
}

func (x shot) path(name string) string { return x.dir + name + x.ext }

func (x shot) write(s *rw.Store, name string, mode rw.WriteMode, content string) error {
	_, err := s.SafeWrite(background, rw.SafeWriteRequest{
		Path: x.path(name), Content: []byte(content), Mode: mode, Expect: x.expected, Validate: x.validate,
		Call: rw.Call{AcceptRisk: x.accept, DryRun: x.dry, IdempotencyKey: x.key},
	})
	return err
}

func (x shot) edit(s *rw.Store, edits ...rw.EditOp) error {
	_, err := s.Edit(background, rw.EditRequest{
		Path: x.path("old"), Edits: edits, Expect: x.expected, Validate: x.validate, Call: rw.Call{AcceptRisk: x.accept, DryRun: x.dry, IdempotencyKey: x.key},
	})
	return err
}

func (x shot) tx(s *rw.Store, ops ...rw.TxOp) error {
	_, err := s.Tx(background, rw.TxRequest{Ops: ops, Validate: x.validate, Call: rw.Call{AcceptRisk: x.accept, DryRun: x.dry, IdempotencyKey: x.key}})
	return err
}

// staged begins a transaction, stages operations and commits it.
func (x shot) staged(s *rw.Store, ops ...rw.TxOp) error {
	b, err := s.TxBegin(background, rw.TxBeginRequest{})
	if err != nil {
		return err
	}
	for _, op := range ops {
		_, serr := s.TxStage(background, rw.TxStageRequest{TxID: b.TxID, Op: op, Call: rw.Call{AcceptRisk: x.accept, DryRun: x.dry, IdempotencyKey: x.key}})
		err = errors.Join(err, serr)
	}
	_, cerr := s.TxCommit(background, rw.TxCommitRequest{TxID: b.TxID, Call: rw.Call{AcceptRisk: x.accept, DryRun: x.dry}, Validate: x.validate})
	_, rerr := s.TxRollback(background, rw.TxRollbackRequest{TxID: b.TxID})
	return errors.Join(err, cerr, rerr)
}

func (x shot) checkpoint(s *rw.Store, format string, data any) error {
	raw, _ := json.Marshal(data)
	_, err := s.Checkpoint(background, rw.CheckpointRequest{Name: "state", Format: format, Data: raw, Call: rw.Call{AcceptRisk: x.accept, DryRun: x.dry, IdempotencyKey: x.key}})
	return err
}

func (x shot) handoff(s *rw.Store, body string, change func(*rw.HandoffEnvelope)) error {
	env := rw.HandoffEnvelope{TaskID: "t", Status: rw.HandoffPartial, Agent: "a", Summary: "s", NextSteps: []string{"n"}, LastGoodState: []rw.HandoffFile{}}
	change(&env)
	_, err := s.HandoffWrite(background, rw.HandoffWriteRequest{
		Envelope: env, Body: []byte(body), Path: x.dir + "HANDOFF.md", Archive: true, Expect: x.expected, Call: rw.Call{AcceptRisk: x.accept, DryRun: x.dry, IdempotencyKey: x.key},
	})
	return err
}

// compose sends the text in two parts, the secret across their seam.
func (x shot) compose(s *rw.Store) error {
	cut := strings.Index(x.text, x.secret) + len(x.secret)/2
	session := "s-" + hash(x.text)[:8]
	var all error
	for i, part := range []string{x.text[:cut], x.text[cut:]} {
		_, err := s.ChunkWrite(background, rw.ChunkWriteRequest{Session: session, Index: i + 1, TotalExpected: 2, Content: []byte(part)})
		all = errors.Join(all, err)
	}
	none := ""
	_, err := s.ChunkCompose(background, rw.ChunkComposeRequest{
		Session: session, OutputPath: x.path("old"), Separator: &none, Expect: x.expected, Validate: x.validate,
		Call: rw.Call{AcceptRisk: x.accept, DryRun: x.dry, IdempotencyKey: x.key},
	})
	return errors.Join(all, err)
}

// places are the arguments that take content.
var places = map[string]func(s *rw.Store, x shot) error{
	"create":    func(s *rw.Store, x shot) error { return x.write(s, "new", rw.ModeCreate, x.text) },
	"overwrite": func(s *rw.Store, x shot) error { return x.write(s, "old", rw.ModeOverwrite, x.text) },
	"append":    func(s *rw.Store, x shot) error { return x.write(s, "old", rw.ModeAppend, x.text) },
	"bytes": func(s *rw.Store, x shot) error {
		return x.write(s, "old", rw.ModeOverwrite, "bytes "+x.text)
	},
	"stream": func(s *rw.Store, x shot) error {
		_, err := s.SafeWriteFrom(background, rw.SafeWriteRequest{
			Path: x.path("old"), Mode: rw.ModeOverwrite, Expect: x.expected, Validate: x.validate, Call: rw.Call{AcceptRisk: x.accept, DryRun: x.dry, IdempotencyKey: x.key},
		}, io.MultiReader(strings.NewReader(x.text), &endless{left: 1<<20 + 1}))
		return err
	},
	"edit new": func(s *rw.Store, x shot) error { return x.edit(s, rw.EditOp{Old: x.old, New: x.text}) },
	"edit old": func(s *rw.Store, x shot) error { return x.edit(s, rw.EditOp{Old: x.text, New: "x"}) },
	"tx write": func(s *rw.Store, x shot) error {
		return x.tx(s, rw.TxOp{Op: "write", Path: x.path("first"), Content: []byte("harmless\n")},
			rw.TxOp{Op: "write", Path: x.path("old"), Mode: rw.ModeOverwrite, Content: []byte(x.text), Expect: x.expected})
	},
	"tx edits": func(s *rw.Store, x shot) error {
		return x.tx(s, rw.TxOp{Op: "edit", Path: x.path("old"), Edits: []rw.EditOp{{Old: x.old, New: x.text}}, Expect: x.expected},
			rw.TxOp{Op: "edit", Path: x.path("old"), Edits: []rw.EditOp{{Old: x.text, New: "y" + x.text}}})
	},
	"staged write": func(s *rw.Store, x shot) error {
		return x.staged(s, rw.TxOp{Op: "write", Path: x.path("first"), Content: []byte("harmless\n")}, rw.TxOp{Op: "write", Path: x.path("new"), Content: []byte(x.text)})
	},
	"staged base64": func(s *rw.Store, x shot) error {
		return x.staged(s, rw.TxOp{Op: "write", Path: x.path("new"), Content: []byte("bytes " + x.text)})
	},
	"staged edit new": func(s *rw.Store, x shot) error {
		return x.staged(s, rw.TxOp{Op: "edit", Path: x.path("old"), Edits: []rw.EditOp{{Old: x.old, New: x.text}}})
	},
	"staged edit old": func(s *rw.Store, x shot) error {
		return x.staged(s, rw.TxOp{Op: "edit", Path: x.path("old"), Edits: []rw.EditOp{{Old: x.text, New: "x"}}})
	},
	"chunk write": func(s *rw.Store, x shot) error {
		_, err := s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "w", Index: 1, Content: []byte(x.text), Call: rw.Call{AcceptRisk: x.accept, DryRun: x.dry, IdempotencyKey: x.key}})
		return err
	},
	"chunk append": func(s *rw.Store, x shot) error {
		_, err := s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "a", Content: []byte(x.text), Call: rw.Call{AcceptRisk: x.accept, DryRun: x.dry, IdempotencyKey: x.key}})
		return err
	},
	"compose":             func(s *rw.Store, x shot) error { return x.compose(s) },
	"checkpoint":          func(s *rw.Store, x shot) error { return x.checkpoint(s, "json", map[string]any{"log": x.text}) },
	"checkpoint member":   func(s *rw.Store, x shot) error { return x.checkpoint(s, "json", map[string]any{x.text: []int{1}}) },
	"checkpoint markdown": func(s *rw.Store, x shot) error { return x.checkpoint(s, "markdown", "# Log\n\n"+x.text) },
	"handoff body": func(s *rw.Store, x shot) error {
		return x.handoff(s, x.text, func(*rw.HandoffEnvelope) {})
	},
	"handoff summary": func(s *rw.Store, x shot) error {
		return x.handoff(s, "", func(e *rw.HandoffEnvelope) { e.Summary = x.text })
	},
	"handoff fields": func(s *rw.Store, x shot) error {
		return x.handoff(s, "", func(e *rw.HandoffEnvelope) {
			list := []string{x.text}
			e.NextSteps, e.ContextHints, e.OpenQuestions, e.Blockers, e.Verified, e.Requirements = list, list, list, list, list, list
			e.DependencyGraph = []rw.HandoffStep{{ID: "1", Description: x.text}}
		})
	},
	"handoff names": func(s *rw.Store, x shot) error {
		return x.handoff(s, "", func(e *rw.HandoffEnvelope) {
			e.TaskID, e.Agent, e.UpdatedAt = x.text, x.text, x.text
			e.LastGoodState = []rw.HandoffFile{{Path: x.text, SHA256: x.text}}
			e.Artifacts = []rw.HandoffArtifact{{Kind: x.text, Path: x.text}}
		})
	},
	"scratch": func(s *rw.Store, x shot) error {
		_, err := s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte(x.text), Label: "log", Call: rw.Call{DryRun: x.dry, IdempotencyKey: x.key}})
		return err
	},
}

// refusalKind is a way in which calls are refused.
type refusalKind struct {
	want    rw.Detail
	only    []string // places, where not all of them
	least   int      // of the places are refused so
	policy  string   // of the workspace
	options func(o *rw.Options, host string)
	change  func(x *shot)
	before  func(t *testing.T, s *rw.Store, dir, host string)
	times   int
	nowhere bool // the quarantine keeps nothing either
}

// said returns its argument in an error of a hook.
func said(text []byte) error {
	return fmt.Errorf("line 1: %s\nbase64 %s\nhex %s", text, base64.StdEncoding.EncodeToString(text), hex.EncodeToString(text))
}

// refusalKinds: host is a credential of the host's own, which was in the workspace
// before or which a hook returns.
var refusalKinds = map[string]refusalKind{
	"gate":            {want: rw.ErrRiskBlocked, least: 20},
	"gate, by reason": {want: rw.ErrRiskBlocked, least: 20, change: func(x *shot) { x.accept = "because " + x.text[:min(len(x.text), 450)] }},
	"budget":          {want: rw.ErrRetryExhausted, least: 19, times: 5},
	"dry run":         {want: rw.ErrRiskBlocked, least: 20, change: func(x *shot) { x.dry = true }, nowhere: true},
	"denied": {want: rw.ErrDenied, least: 14, options: func(o *rw.Options, host string) {
		o.Hooks.Authorize = append(o.Hooks.Authorize, authorizer(func(rw.HookCall) (rw.Decision, error) { return rw.Deny("not with " + host).Rule(host), nil }))
	}},
	"authorizer fails": {want: rw.ErrDenied, least: 14, options: func(o *rw.Options, host string) {
		o.Hooks.Authorize = append(o.Hooks.Authorize, authorizer(func(rw.HookCall) (rw.Decision, error) { return rw.Allow(), errors.New(host) }))
	}},
	"verifier": {want: rw.ErrVerifyFailed, least: 10, policy: "gate: {mode: advise}\n", options: func(o *rw.Options, _ string) {
		o.Hooks.Verify = append(o.Hooks.Verify, verifier(func(_ context.Context, c rw.StagedCommit) error {
			var all []byte
			for _, f := range c.Files {
				text, _ := os.ReadFile(f.Staged)
				all = append(all, text[:min(len(text), 4096)]...)
			}
			return &rw.FileError{Path: c.Files[0].Path, Err: said(all)}
		}))
	}},
	"transformer fails": {want: rw.ErrTransformFailed, least: 7, options: func(o *rw.Options, _ string) {
		o.Hooks.Transform = append(o.Hooks.Transform, transformer(func(_ rw.HookCall, _ string, r io.Reader) (io.Reader, error) {
			text, _ := io.ReadAll(io.LimitReader(r, 4096))
			return nil, said(text)
		}))
	}},
	"transformer fails late": {want: rw.ErrTransformFailed, least: 7, options: func(o *rw.Options, _ string) {
		o.Hooks.Transform = append(o.Hooks.Transform, transformer(func(_ rw.HookCall, _ string, r io.Reader) (io.Reader, error) {
			text, _ := io.ReadAll(r)
			return io.MultiReader(bytes.NewReader(text), &endless{left: 1 << 20}, broken{said(text[:min(len(text), 4096)])}), nil
		}))
	}},
	"protected":           {want: rw.ErrProtectedPath, least: 14, change: func(x *shot) { x.dir = ".git/hooks/" }},
	"protected by policy": {want: rw.ErrProtectedPath, least: 14, policy: "protect: ['infra/**']\n", change: func(x *shot) { x.dir = "infra/" }},
	"stale": {want: rw.ErrHashMismatch, least: 9, before: func(t *testing.T, s *rw.Store, dir, host string) {
		write(t, s, "old.txt", "one\n", rw.ModeOverwrite)
		noErr(t, os.WriteFile(filepath.Join(dir, "old.txt"), []byte("one\nkey = "+host+"\n"), 0o644))
	}, change: func(x *shot) { x.expected = rw.Exactly(digest(hash("one\n"))) }},
	"key reused": {want: rw.ErrIdempotencyKeyReused, least: 20, before: func(t *testing.T, s *rw.Store, _, _ string) {
		must(s.SafeWrite(background, rw.SafeWriteRequest{Path: "keyed.txt", Content: []byte("x"), Call: rw.Call{IdempotencyKey: "used"}}))(t)
	}, change: func(x *shot) { x.key = "used" }},
	"no match":  {want: rw.ErrOldStringNotFound, least: 3, before: contains("key = %s and more\n"), change: func(x *shot) { x.old = "key is and more" }},
	"ambiguous": {want: rw.ErrAmbiguousMatch, least: 1, before: contains("key = %[1]s\nkey = %[1]s\n"), change: func(x *shot) { x.old = "key = " }},
	"too large": {want: rw.ErrTooLarge, least: 7, options: func(o *rw.Options, _ string) { o.MaxContentBytes = 4 << 10 },
		change: func(x *shot) { x.text += strings.Repeat("more text\n", 1000) }},
	"read-only":     {want: rw.ErrStoreReadOnly, least: 20, options: func(o *rw.Options, _ string) { o.ReadOnly = true }, nowhere: true},
	"broken policy": {want: rw.ErrBadPolicy, least: 20, policy: "gate: [\n", options: func(o *rw.Options, _ string) { o.ServeWithBadPolicy = true }, nowhere: true},
}

// broken is a reader that fails.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// contains puts a text with the credential of the host into the file of the sweep.
func contains(format string) func(*testing.T, *rw.Store, string, string) {
	return func(t *testing.T, _ *rw.Store, dir, host string) {
		noErr(t, os.WriteFile(filepath.Join(dir, "old.txt"), fmt.Appendf(nil, format, host), 0o644))
	}
}

// malformed are texts with a syntax error at the secret, by extension.
var malformed = map[string][]string{
	".json": {`{"a": %s}`, `{"%[1]s": 1, "%[1]s": 2}`, `{"a": "%s`},
	".yaml": {"a: 1\n\t%s: 2\n", "%[1]s: 1\n%[1]s: 2\n", "a: *%s\n", "a: !<%s\n", "password: \"%s\n"},
	".toml": {"%s\n", "%[1]s = 1\n%[1]s = 2\n", "[%s\n", "a = %s\n", "password = \"%s\n"},
	".xml":  {"<a><%s></a>", "<a>&%s;</a>", "<a b=\"%s></a>"},
	".py":   {"def %s(:\n", "x = (%s\n", "password = '%s\n"},
	".go":   {"package a\nfunc %s( {\n", "package a\nvar x = %s %[1]s\n", "package %s-\n"},
	".tex":  {"\\begin{%s}\n", "\\begin{a}\\end{%s}\n"},
	".md":   {"---\n%[1]s: 1\n%[1]s: 2\n---\n", "```%s\n"},
}

func init() {
	for ext, list := range malformed {
		for i, form := range list {
			refusalKinds[fmt.Sprintf("syntax %s %d", ext, i)] = refusalKind{want: rw.ErrSyntaxInvalid, only: []string{"create", "edit new", "tx write"}, change: func(x *shot) {
				x.ext, x.validate, x.text = ext, true, fmt.Sprintf(form, x.secret)
			}}
		}
	}
}

// secretTexts are texts with a secret each, new ones for every seed.
func secretTexts(seed uint64) []credential {
	lines, password := strings.Split(pemKey(seed), "\n"), random(alphaBase, 24, seed+5)
	lines[1] = "/" + lines[1][1:] // looks like a path
	pem := strings.Join(lines, "\n")
	return []credential{
		{secret: ghToken(seed), text: "export GH_TOKEN=" + ghToken(seed) + "\n"},
		{secret: lines[2], text: pem},
		{secret: password, text: "url: postgres://app:" + password + "@db.internal.corp.net:5432/app\n"},
	}
}

// TestNoRefusalLeavesASecret puts a secret into every argument that takes
// content, and has the call refused in every way there is. Afterwards no file
// of the workspace and of the state directory, no name of one, no error,
// receipt and operation that a hook is shown holds it; only the quarantine
// may, and nothing may where no draft is kept. A short run puts one of the three
// secrets into each argument.
func TestNoRefusalLeavesASecret(t *testing.T) {
	t.Parallel()
	seed := uint64(1000)
	for _, name := range sortedKeys(refusalKinds) {
		seed += 1000
		k, first := refusalKinds[name], seed
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			sweepRefusals(t, k, first)
		})
	}
}

func sweepRefusals(t *testing.T, k refusalKind, seed uint64) {
	dir, host := ramspace(t), ghToken(seed)
	var told bytes.Buffer
	note := func(list ...any) {
		for _, v := range list {
			data, _ := json.Marshal(v)
			fmt.Fprintf(&told, "%s %+v %v\n", data, v, v)
		}
	}
	s, restore := openRefusing(t, dir, host, k, note)
	secrets, refusals := map[string][]string{}, 0
	for n, place := range sortedKeys(places) {
		for i, c := range secretTexts(seed + uint64(n)*10 + 1) {
			if (i+n+int(turn()%3))%turns(3) != 0 {
				continue
			}
			x := shot{ext: ".txt", secret: c.secret, text: c.text, old: "line two"}
			if k.change != nil {
				k.change(&x)
			}
			if k.only != nil && (!slices.Contains(k.only, place) || rw.ScoreContent([]byte(x.text), nil).Verdict != rw.VerdictHigh) {
				continue // no credential without its surrounding text
			}
			var err error
			for range max(k.times, 1) {
				if err = places[place](s, x); err != nil {
					note(errorsOf(err)...)
				}
			}
			if errors.Is(err, k.want) {
				refusals++
			}
			if err == nil { // the accepted content is at its destination
				restore()
			} else {
				secrets[fmt.Sprint(place, " ", i)] = testbed.Forms(c.secret)
			}
		}
	}
	if refusals < k.least*3/turns(3) {
		t.Errorf("only %d calls were refused with %s", refusals, k.want)
	}
	secrets["of the host"] = testbed.Forms(host)
	os.Remove(filepath.Join(dir, "old.txt")) // may have its previous content
	look := func(when string, files map[string][]byte) {
		for where, data := range files {
			for what, list := range secrets {
				if slices.ContainsFunc(list, func(n string) bool { return bytes.Contains(data, []byte(n)) }) {
					t.Errorf("%s: %s in %s", what, when, where)
				}
			}
		}
	}
	look("left", readTree(t, dir, !k.nowhere))
	noErr(t, s.Close(background))
	look("left after the end", readTree(t, dir, !k.nowhere))
	look("reported", map[string][]byte{"an error, receipt or operation": told.Bytes()})
}

// openRefusing opens a store in which calls are refused; restore resets the files of
// the workspace.
func openRefusing(t *testing.T, dir, host string, k refusalKind, note func(...any)) (*rw.Store, func()) {
	o := rw.Options{Gate: rw.GateOfAgents, Sync: rw.SyncOff, ReceiptSink: func(r rw.Receipt) { note(r) }}
	fill := func() {
		for _, sub := range []string{"", "infra", ".git/hooks"} {
			noErr(t, os.MkdirAll(filepath.Join(dir, sub), 0o755))
			for _, ext := range append(sortedKeys(malformed), ".txt") {
				noErr(t, os.WriteFile(filepath.Join(dir, sub, "old"+ext), []byte("one\nline two\n"), 0o644))
			}
		}
	}
	fill()
	s := open(t, dir, &o) // there is a state directory also where it cannot be made later
	if k.before != nil {
		k.before(t, s, dir, host)
	}
	noErr(t, s.Close(background))
	if k.policy != "" {
		writePolicy(t, dir, k.policy)
		o.Gate = rw.Gate{}
	}
	if k.options != nil {
		k.options(&o, host)
	}
	o.Hooks.Observe = append(o.Hooks.Observe, observer(func(op rw.HookCall, r rw.Receipt, err error) { note(op, r); note(errorsOf(err)...) }))
	return open(t, dir, &o), fill
}

// errorsOf are the errors that were joined, as a caller gets them.
func errorsOf(err error) (list []any) {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		for _, one := range many.Unwrap() {
			list = append(list, errorsOf(one)...)
		}
	} else if err != nil {
		list = []any{rw.AsError("", err), err.Error()}
	}
	return list
}

func sortedKeys[V any](m map[string]V) []string {
	var list []string
	for k := range m {
		list = append(list, k)
	}
	slices.Sort(list)
	return list
}
