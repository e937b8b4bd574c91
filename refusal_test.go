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
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/hook"
	"github.com/resilientwrite/resilientwrite/internal/adapter"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
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

func (x shot) call() rw.Call {
	return rw.Call{AcceptRisk: x.accept, DryRun: x.dry, IdempotencyKey: x.key}
}

func (x shot) write(s *rw.Store, name string, mode rw.WriteMode, content string) error {
	return errorOf(s.SafeWrite(background, rw.SafeWriteRequest{
		Path: x.path(name), Content: []byte(content), Mode: mode, Expect: x.expected, Validate: x.validate,
		Call: x.call(),
	}))
}

func (x shot) edit(s *rw.Store, edits ...rw.EditOp) error {
	return errorOf(s.Edit(background, rw.EditRequest{
		Path: x.path("old"), Edits: edits, Expect: x.expected, Validate: x.validate, Call: x.call(),
	}))
}

func (x shot) tx(s *rw.Store, ops ...rw.TxOp) error {
	return errorOf(s.Tx(background, rw.TxRequest{Ops: ops, Validate: x.validate, Call: x.call()}))
}

// staged begins a transaction, stages operations and commits it.
func (x shot) staged(s *rw.Store, ops ...rw.TxOp) error {
	b, err := s.TxBegin(background, rw.TxBeginRequest{})
	if err != nil {
		return err
	}
	for _, op := range ops {
		_, serr := s.TxStage(background, rw.TxStageRequest{TxID: b.TxID, Op: op, Call: x.call()})
		err = errors.Join(err, serr)
	}
	_, cerr := s.TxCommit(background, rw.TxCommitRequest{TxID: b.TxID, Call: rw.Call{AcceptRisk: x.accept, DryRun: x.dry}, Validate: x.validate})
	_, rerr := s.TxRollback(background, rw.TxRollbackRequest{TxID: b.TxID})
	return errors.Join(err, cerr, rerr)
}

func (x shot) checkpoint(s *rw.Store, format string, data any) error {
	raw, _ := json.Marshal(data)
	return errorOf(s.Checkpoint(background, rw.CheckpointRequest{Name: "state", Format: format, Data: raw, Call: x.call()}))
}

func (x shot) handoff(s *rw.Store, body string, change func(*handoff.Envelope)) error {
	env := handoff.Envelope{TaskID: "t", Status: handoff.Partial, Agent: "a", Summary: "s", NextSteps: []string{"n"}, LastGoodState: []handoff.File{}}
	change(&env)
	return errorOf(s.HandoffWrite(background, handoff.WriteRequest{
		Envelope: env, Body: []byte(body), Path: x.dir + "HANDOFF.md", Archive: true, Expect: x.expected, Call: x.call(),
	}))
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
		Call: x.call(),
	})
	return errors.Join(all, err)
}

// places are the arguments that take content.
var places = map[string]func(s *rw.Store, x shot) error{
	"create":    func(s *rw.Store, x shot) error { return x.write(s, "new", rw.ModeCreate, x.text) },
	"overwrite": func(s *rw.Store, x shot) error { return x.write(s, "old", rw.ModeOverwrite, x.text) },
	"append":    func(s *rw.Store, x shot) error { return x.write(s, "old", rw.ModeAppend, x.text) },
	"bytes":     func(s *rw.Store, x shot) error { return x.write(s, "old", rw.ModeOverwrite, "bytes "+x.text) },
	"stream": func(s *rw.Store, x shot) error {
		return errorOf(s.SafeWriteFrom(background, rw.SafeWriteRequest{
			Path: x.path("old"), Mode: rw.ModeOverwrite, Expect: x.expected, Validate: x.validate, Call: x.call(),
		}, io.MultiReader(strings.NewReader(x.text), &endless{left: 1<<20 + 1})))
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
		return errorOf(s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "w", Index: 1, Content: []byte(x.text), Call: x.call()}))
	},
	"chunk append": func(s *rw.Store, x shot) error {
		return errorOf(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "a", Content: []byte(x.text), Call: x.call()}))
	},
	"compose":             func(s *rw.Store, x shot) error { return x.compose(s) },
	"checkpoint":          func(s *rw.Store, x shot) error { return x.checkpoint(s, "json", map[string]any{"log": x.text}) },
	"checkpoint member":   func(s *rw.Store, x shot) error { return x.checkpoint(s, "json", map[string]any{x.text: []int{1}}) },
	"checkpoint markdown": func(s *rw.Store, x shot) error { return x.checkpoint(s, "markdown", "# Log\n\n"+x.text) },
	"handoff body":        func(s *rw.Store, x shot) error { return x.handoff(s, x.text, func(*handoff.Envelope) {}) },
	"handoff summary": func(s *rw.Store, x shot) error {
		return x.handoff(s, "", func(e *handoff.Envelope) { e.Summary = x.text })
	},
	"handoff fields": func(s *rw.Store, x shot) error {
		return x.handoff(s, "", func(e *handoff.Envelope) {
			list := []string{x.text}
			e.NextSteps, e.ContextHints, e.OpenQuestions, e.Blockers, e.Verified, e.Requirements = list, list, list, list, list, list
			e.DependencyGraph = []handoff.Step{{ID: "1", Description: x.text}}
		})
	},
	"handoff names": func(s *rw.Store, x shot) error {
		return x.handoff(s, "", func(e *handoff.Envelope) {
			e.TaskID, e.Agent = x.text, x.text
			e.UpdatedAt.UnmarshalText([]byte(x.text))
			e.LastGoodState = []handoff.File{{Path: x.text, SHA256: x.text}}
			e.Artifacts = []handoff.Artifact{{Kind: x.text, Path: x.text}}
		})
	},
	"scratch": func(s *rw.Store, x shot) error {
		return errorOf(s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte(x.text), Label: "log", Call: rw.Call{DryRun: x.dry, IdempotencyKey: x.key}}))
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
		o.Hooks.Authorize = append(o.Hooks.Authorize, authorizer(func(hook.Call) (hook.Decision, error) {
			return hook.Decision{Reason: "not with " + host, Rule: host}, nil
		}))
	}},
	"authorizer fails": {want: rw.ErrDenied, least: 14, options: func(o *rw.Options, host string) {
		o.Hooks.Authorize = append(o.Hooks.Authorize, authorizer(func(hook.Call) (hook.Decision, error) { return hook.Allow(), errors.New(host) }))
	}},
	"verifier": {want: rw.ErrVerifyFailed, least: 10, policy: "gate: {mode: advise}\n", options: func(o *rw.Options, _ string) {
		o.Hooks.Verify = append(o.Hooks.Verify, verifier(func(_ context.Context, c hook.Staged) error {
			var all []byte
			for _, f := range c.Files {
				text, _ := os.ReadFile(f.Staged)
				all = append(all, text[:min(len(text), 4096)]...)
			}
			return &hook.FileError{Path: c.Files[0].Path, Err: said(all)}
		}))
	}},
	"transformer fails": {want: rw.ErrTransformFailed, least: 7, options: func(o *rw.Options, _ string) {
		o.Hooks.Transform = append(o.Hooks.Transform, transformer(func(_ hook.Call, _ string, r io.Reader) (io.Reader, error) {
			text, _ := io.ReadAll(io.LimitReader(r, 4096))
			return nil, said(text)
		}))
	}},
	"transformer fails late": {want: rw.ErrTransformFailed, least: 7, options: func(o *rw.Options, _ string) {
		o.Hooks.Transform = append(o.Hooks.Transform, transformer(func(_ hook.Call, _ string, r io.Reader) (io.Reader, error) {
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
	for _, name := range slices.Sorted(maps.Keys(refusalKinds)) {
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
	var reported bytes.Buffer
	note := func(list ...any) {
		for _, v := range list {
			data, _ := json.Marshal(v)
			fmt.Fprintf(&reported, "%s %+v %v\n", data, v, v)
		}
	}
	s, restore := openRefusing(t, dir, host, k, note)
	secrets, refusals := map[string][]string{}, 0
	for n, place := range slices.Sorted(maps.Keys(places)) {
		for i, c := range secretTexts(seed + uint64(n)*10 + 1) {
			if (i+n+phase(turns(1)))%turns(1) != 0 {
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
	expect(t, refusals >= k.least*3/turns(1)-1, "only %d calls were refused with %s", refusals, k.want)
	secrets["of the host"] = testbed.Forms(host)
	os.Remove(filepath.Join(dir, "old.txt")) // may have its previous content
	look := func(when string, files map[string][]byte) {
		for where, data := range files {
			for what, list := range secrets {
				expect(t, !slices.ContainsFunc(list, func(n string) bool { return bytes.Contains(data, []byte(n)) }),
					"%s: %s in %s", what, when, where)
			}
		}
	}
	look("left", readTree(t, dir, !k.nowhere))
	noErr(t, s.Close(background))
	look("left after the end", readTree(t, dir, !k.nowhere))
	look("reported", map[string][]byte{"an error, receipt or operation": reported.Bytes()})
}

// openRefusing opens a store in which calls are refused; restore resets the files of
// the workspace.
func openRefusing(t *testing.T, dir, host string, k refusalKind, note func(...any)) (*rw.Store, func()) {
	o := rw.Options{Gate: rw.GateOfAgents, Sync: rw.SyncOff, ReceiptSink: func(r rw.Receipt) { note(r) }}
	fill := func() {
		for _, sub := range []string{"", "infra", ".git/hooks"} {
			noErr(t, os.MkdirAll(filepath.Join(dir, sub), 0o755))
			for _, ext := range append(slices.Sorted(maps.Keys(malformed)), ".txt") {
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
	o.Hooks.Observe = append(o.Hooks.Observe, observer(func(op hook.Call, r rw.Receipt, err error) { note(op, r); note(errorsOf(err)...) }))
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

// namePlaces are the arguments that are names: what TestNoRefusalLeavesASecret puts
// into content is put into each of them as well, where it is a credential that
// its format alone shows.
var namePlaces = map[string]func(s *rw.Store, x shot) error{
	"path":      func(s *rw.Store, x shot) error { return x.write(s, x.secret, rw.ModeCreate, "harmless\n") },
	"directory": func(s *rw.Store, x shot) error { return x.write(s, "a/"+x.secret+"/b", rw.ModeCreate, "harmless\n") },
	"caller": func(s *rw.Store, x shot) error {
		return errorOf(s.SafeWrite(background, rw.SafeWriteRequest{Path: x.path("named"), Content: []byte("x\n"), Call: rw.Call{Caller: "agent " + x.secret, DryRun: x.dry, AcceptRisk: x.accept, IdempotencyKey: x.key}}))
	},
	"session": func(s *rw.Store, x shot) error {
		return errorOf(s.SafeWrite(background, rw.SafeWriteRequest{Path: x.path("named"), Content: []byte("x\n"), Call: rw.Call{Session: x.secret, DryRun: x.dry, AcceptRisk: x.accept, IdempotencyKey: x.key}}))
	},
	"key": func(s *rw.Store, x shot) error {
		return errorOf(s.SafeWrite(background, rw.SafeWriteRequest{Path: x.path("named"), Content: []byte("x\n"), Call: rw.Call{IdempotencyKey: x.secret, DryRun: x.dry, AcceptRisk: x.accept}}))
	},
	"move to": func(s *rw.Store, x shot) error {
		return errorOf(s.Move(background, rw.MoveRequest{Path: x.path("old"), To: x.path("to " + x.secret), Expect: x.expected, Call: rw.Call{DryRun: x.dry, IdempotencyKey: x.key}}))
	},
	"move from": func(s *rw.Store, x shot) error {
		return errorOf(s.Move(background, rw.MoveRequest{Path: x.path(x.secret), To: x.path("to"), Call: rw.Call{DryRun: x.dry, IdempotencyKey: x.key}}))
	},
	"delete": func(s *rw.Store, x shot) error {
		return errorOf(s.Delete(background, rw.DeleteRequest{Path: x.path(x.secret), Call: rw.Call{DryRun: x.dry, IdempotencyKey: x.key}}))
	},
	"edit": func(s *rw.Store, x shot) error {
		return errorOf(s.Edit(background, rw.EditRequest{Path: x.path(x.secret), Edits: []rw.EditOp{{Old: "a", New: "b"}}, Call: rw.Call{DryRun: x.dry, IdempotencyKey: x.key}}))
	},
	"tx path": func(s *rw.Store, x shot) error {
		return x.tx(s, rw.TxOp{Op: "write", Path: x.path("first"), Content: []byte("harmless\n")}, rw.TxOp{Op: "write", Path: x.path(x.secret), Content: []byte("harmless\n")})
	},
	"tx move": func(s *rw.Store, x shot) error {
		return x.tx(s, rw.TxOp{Op: "move", Path: x.path("old"), To: x.path(x.secret), Expect: x.expected})
	},
	"staged path": func(s *rw.Store, x shot) error {
		return x.staged(s, rw.TxOp{Op: "write", Path: x.path(x.secret), Content: []byte("harmless\n")})
	},
	"transaction": func(s *rw.Store, x shot) error {
		return errorOf(s.TxCommit(background, rw.TxCommitRequest{TxID: x.secret, Call: rw.Call{DryRun: x.dry}}))
	},
	"session of pieces": func(s *rw.Store, x shot) error {
		return errorOf(s.ChunkWrite(background, rw.ChunkWriteRequest{Session: x.secret, Index: 1, Content: []byte("harmless\n"), Call: rw.Call{DryRun: x.dry, IdempotencyKey: x.key}}))
	},
	"compose to": func(s *rw.Store, x shot) error {
		_, err := s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "plain", Index: 1, TotalExpected: 1, Content: []byte("harmless\n")})
		_, cerr := s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "plain", OutputPath: x.path(x.secret), Call: x.call()})
		return errors.Join(err, cerr)
	},
	"checkpoint": func(s *rw.Store, x shot) error {
		return errorOf(s.Checkpoint(background, rw.CheckpointRequest{Name: x.secret, Format: "json", Data: []byte(`{"a":1}`), Call: rw.Call{DryRun: x.dry, IdempotencyKey: x.key}}))
	},
	"handoff": func(s *rw.Store, x shot) error {
		return errorOf(s.HandoffWrite(background, handoff.WriteRequest{
			Envelope: handoff.Envelope{TaskID: "t", Status: handoff.Partial, Agent: "a", Summary: "s", NextSteps: []string{"n"}, LastGoodState: []handoff.File{}},
			Path:     x.dir + x.secret + ".md", Call: x.call(),
		}))
	},
	"label": func(s *rw.Store, x shot) error {
		return errorOf(s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte("harmless\n"), Label: "key " + x.secret, Call: rw.Call{DryRun: x.dry, IdempotencyKey: x.key}}))
	},
	"restore": func(s *rw.Store, x shot) error {
		return errorOf(s.Restore(background, rw.RestoreRequest{Path: x.path(x.secret), Call: rw.Call{DryRun: x.dry, IdempotencyKey: x.key}}))
	},
	"redact": func(s *rw.Store, x shot) error {
		_, err := s.Redact(background, rw.RedactRequest{DraftRef: x.secret})
		_, terr := s.Redact(adapter.WithMalformed(background, []string{"content"}), rw.RedactRequest{Content: []byte("%"), TargetPath: x.path(x.secret)})
		return errors.Join(err, terr)
	},
	"redacted content": func(s *rw.Store, x shot) error {
		return errorOf(s.Redact(adapter.WithMalformed(background, []string{"content"}), rw.RedactRequest{Content: []byte(x.secret + "%")}))
	},
}

func init() {
	for argument, do := range namePlaces {
		places["name: "+argument] = func(s *rw.Store, x shot) error {
			if !strings.HasPrefix(x.secret, "gh") {
				return nil // no format shows it without surrounding text
			}
			return do(s, x)
		}
	}
}

// nextStep finds the instruction in a hint: a verb at the start of one of its parts.
var nextStep = regexp.MustCompile(`(^|[;:,] |\band |\bthen |\bto continue |\belse |\bor )(add|allow|append|ask|begin|call|change|check|choose|copy|correct|create|do|export|free|give|import|leave|look|move|name|open|pass|put|read|redact|remove|replace|report|restore|run|say|send|split|stay|to have|to replace|try|use|wait|write|Store\.[A-Za-z]+)\b`)

// TestEveryHintSaysWhatToDoNext: a refusal that only states the problem does not help
// its reader.
func TestEveryHintSaysWhatToDoNext(t *testing.T) {
	says := map[rw.Detail]string{ // these name the next step in other words
		rw.ErrMissingFields:  "context.missing_fields names them",
		rw.ErrNotADirectory:  "choose another path",
		rw.ErrNothingToUndo:  "Store.Restore",
		rw.ErrNewerFormat:    "use that version",
		rw.ErrNoChange:       "nothing is left to do",
		rw.ErrInputRequired:  "send the same call again",
		rw.ErrCrossDevice:    "read the file, write it to the new path, then delete the old one",
		rw.ErrSymlinkLoop:    "give the path of the target itself",
		rw.ErrReadOnlyVolume: "ask the user",
		rw.ErrStateDrift:     "examine each of context.drift_warnings",
	}
	for _, d := range rw.Details() {
		_, _, _, _, hint := d.Describe()
		if want, known := says[d]; known && strings.Contains(hint, want) {
			continue
		} else if known || !nextStep.MatchString(hint) {
			t.Errorf("%s: no next step in %q", d, hint)
		}
		expect(t, !strings.Contains(hint, "pass force") || d == rw.ErrReadOnlyFile, "%s: not every verb that it comes from has force: %q", d, hint)
	}
}

// TestRefusedStreamSweep: a stream with a secret is refused, and the power is cut at once.
// The removal of its slot was not flushed, but the slot does not hold the secret.
func TestRefusedStreamSweep(t *testing.T) {
	t.Parallel()
	secret := ghToken(77)
	for i, mode := range []rw.WriteMode{rw.ModeCreate, rw.ModeAppend} {
		fs := simfs.New()
		fs.WriteFile("a.txt", []byte(longText), 0o644)
		s := must(rw.OpenSim(fs, &rw.Options{Gate: rw.Gate{Mode: rw.GateBlock}}, rw.Sim{Nonce: "0001"}))(t)
		text := strings.Repeat(longText, 600) + "export GH_TOKEN=" + secret + "\n"
		_, err := s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: []string{"new.txt", "a.txt"}[i], Mode: mode}, strings.NewReader(text))
		require(t, errors.Is(err, rw.ErrRiskBlocked), "%v", err)
		for seed := range uint64(20) {
			for p, text := range fs.Crash(seed, simfs.Older).Tree() {
				require(t, !strings.Contains(text, secret) || strings.Contains(p, "/quarantine/"), "%s: %s holds the secret after a power cut", mode, p)
			}
		}
	}
}
