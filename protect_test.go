package resilientwrite_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/hook"
)

// TestWhereTheDefaultsHold: off in the library, as set by the options or the context,
// and never beyond the policy.
func TestWhereTheDefaultsHold(t *testing.T) {
	t.Parallel()
	ask := rw.WithProtectDefaults(background, rw.ProtectAsk)
	for _, c := range []struct {
		ctx    context.Context
		option rw.ProtectMode
		policy string
		want   string
	}{
		{background, "", "", ""}, {background, rw.ProtectWarn, "", "changes_entry"}, {background, rw.ProtectAsk, "", "protected_default"},
		{ask, "", "", "protected_default"}, {ask, rw.ProtectWarn, "", "changes_entry"}, {ask, rw.ProtectOff, "", ""},
		{rw.WithProtectDefaults(background, "?"), "", "", "protected_default"},
		{ask, "", "protect_defaults: warn", "changes_entry"}, {ask, "", "protect_defaults: off", ""}, {background, "", "protect_defaults: ask", ""},
		{background, rw.ProtectWarn, "protect_defaults: ask", "changes_entry"}, {background, rw.ProtectAsk, "protect_exceptions: [.envrc]", ""},
		{background, rw.ProtectAsk, "protect_exceptions: ['.e*']", ""}, {background, rw.ProtectAsk, "protect_exceptions: ['**/.ENVRC']", "protected_default"},
	} {
		opts := &rw.Options{Sync: rw.SyncOff, ProtectDefaults: c.option}
		if c.policy != "" {
			opts.PolicyFile = filepath.Join(t.TempDir(), "p.yaml")
			noErr(t, os.WriteFile(opts.PolicyFile, []byte(c.policy+"\n"), 0o600))
		}
		s := open(t, workspace(t), opts)
		r, err := s.SafeWrite(c.ctx, put(".envrc", "x", rw.ModeCreate))
		got := reasons(r.Warnings)
		if err != nil {
			got = string(rw.AsError("", err).Detail)
			conformsEnvelope(t, rw.AsError("", err))
		}
		equal(t, got, c.want, c)
		dry, err := s.SafeWrite(c.ctx, rw.SafeWriteRequest{Path: ".envrc", Content: []byte("y"), Mode: rw.ModeOverwrite, Call: rw.Call{DryRun: true}})
		expect(t, errors.Is(err, rw.ErrProtectedDefault) == (c.want == "protected_default") && (err != nil || reasons(dry.Warnings) == c.want),
			"%+v: the dry run says %v %v", c, err, dry.Warnings)
	}
	fails(rw.Open(background, workspace(t), &rw.Options{ProtectDefaults: "loud"}))(t, rw.ErrInvalidArgument)
}

// TestAQuestionAboutDefaults: each answer, no answer, a late answer, a panic; a hook
// asks in addition; no question is asked about a dry run or a replay.
func TestAQuestionAboutDefaults(t *testing.T) {
	t.Parallel()
	var questions []string
	answer := func(hook.Call) (hook.Answer, error) { return hook.Answer{}, nil }
	opts := &rw.Options{Sync: rw.SyncOff, ProtectDefaults: rw.ProtectAsk, Ask: func(_ context.Context, op hook.Call, text string) (hook.Answer, error) {
		questions = append(questions, text)
		return answer(op)
	}}
	s, dir := opened(t, opts)
	for _, c := range []struct {
		answer hook.Answer
		err    error
		want   rw.Detail
	}{
		{want: rw.ErrProtectedDefault}, {err: errors.New("no screen"), want: rw.ErrProtectedDefault}, {err: rw.ErrInputRequired, want: rw.ErrInputRequired}, {answer: hook.Answer{Allow: true}},
	} {
		questions, answer = nil, func(hook.Call) (hook.Answer, error) { return c.answer, c.err }
		ops := []rw.TxOp{{Op: "write", Path: ".envrc", Content: []byte("x")}, {Op: "write", Path: "a/.mcp.json", Content: []byte("x")}, {Op: "write", Path: "b.txt", Content: []byte("x")}}
		_, err := s.Tx(background, rw.TxRequest{Ops: ops, Call: rw.Call{IdempotencyKey: "k"}})
		var got rw.Detail
		if err != nil {
			got = rw.AsError("", err).Detail
			gone(t, dir, "b.txt")
		}
		expect(t, got == c.want && len(questions) == 1 && strings.Contains(questions[0], ".envrc (it runs when") &&
			strings.Contains(questions[0], "a/.mcp.json (it launches"), "%+v: %q, asked %q", c, got, questions)
		if c.want == "" { // the key returns the result, no question is asked
			r := must(s.Tx(background, rw.TxRequest{Ops: ops, Call: rw.Call{IdempotencyKey: "k"}}))(t)
			expect(t, r.Status == rw.StatusReplayed && len(questions) == 1, "%v", r.Status)
		}
	}
	questions, answer = nil, func(hook.Call) (hook.Answer, error) { panic("x") }
	fails(s.SafeWrite(background, put(".envrc", "y", rw.ModeOverwrite)))(t, rw.ErrProtectedDefault)
	questions = nil
	_, err := s.SafeWrite(background, rw.SafeWriteRequest{Path: ".envrc", Content: []byte("z"), Mode: rw.ModeOverwrite, Call: rw.Call{DryRun: true}})
	expect(t, err == nil && len(questions) == 0, "a dry run: %v, asked %q", err, questions)
}

// TestAnAnswerIsForWhatItWasAskedAbout: a link that leads to a protected file
// by the time the user has answered, and a file that is put into a directory
// that moves.
func TestAnAnswerIsForWhatItWasAskedAbout(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	plant(t, dir, map[string]string{"a.txt": "x", ".mcp.json": "x", "d/x.txt": "x", "d/.envrc": "x"})
	link, question := filepath.Join(dir, "link"), ""
	noErr(t, os.Symlink("a.txt", link))
	bend := func() {}
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff, ProtectDefaults: rw.ProtectAsk, Ask: func(_ context.Context, _ hook.Call, text string) (hook.Answer, error) {
		question = text
		bend()
		return hook.Answer{Allow: true}, nil
	}})
	bend = func() {
		os.Remove(link)
		os.Symlink(".mcp.json", link)
	}
	_, err := s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: ".envrc", Content: []byte("x")}, {Op: "write", Path: "link", Content: []byte("y"), Mode: rw.ModeOverwrite}}})
	isErr(t, err, rw.ErrChangedDuringWrite, "a bent link")
	must(s.SafeWrite(background, rw.SafeWriteRequest{Path: "link", Content: []byte("x"), Mode: rw.ModeOverwrite}))(t)
	expect(t, strings.Contains(question, "change link, which leads to .mcp.json ("), "%s", question)
	bend = func() { plant(t, dir, map[string]string{"d/.mcp.json": "x"}) }
	fails(s.Move(background, rw.MoveRequest{Path: "d", To: "e"}))(t, rw.ErrChangedDuringWrite, "a file that was put into the directory")
	bend = func() {}
	_, err = s.Move(background, rw.MoveRequest{Path: "d", To: "e"})
	expect(t, err == nil, "%v", err)
	equal(t, string(must(os.ReadFile(filepath.Join(dir, ".mcp.json")))(t)), "x")
}

// TestAnAlwaysIsForOneClient: a yes from now on holds for the session of the
// client that asked, over its connection, and for no other that only claims it.
func TestAnAlwaysIsForOneClient(t *testing.T) {
	t.Parallel()
	asked := 0
	s := open(t, workspace(t), &rw.Options{Sync: rw.SyncOff, ProtectDefaults: rw.ProtectAsk, Ask: func(context.Context, hook.Call, string) (hook.Answer, error) {
		asked++
		return hook.Answer{Allow: true, Always: true}, nil
	}})
	for i, c := range []struct {
		via     *rw.Via
		session string
		asked   int
	}{
		{&rw.Via{Client: "a", Connection: "mcp-1"}, "s", 1}, {&rw.Via{Client: "a", Connection: "mcp-1"}, "s", 0}, {&rw.Via{Client: "b", Connection: "mcp-2"}, "s", 1},
		{&rw.Via{Client: "a", Connection: "mcp-1"}, "t", 1}, {&rw.Via{Client: "a"}, "s", 1}, {&rw.Via{}, "", 1}, {&rw.Via{}, "", 1}, {nil, "s", 1}, {nil, "", 1}, {nil, "s", 0},
	} {
		ctx := background
		if c.via != nil {
			ctx = rw.WithVia(ctx, *c.via)
		}
		before := asked
		_, err := s.SafeWrite(ctx, rw.SafeWriteRequest{Path: ".envrc", Content: []byte(string(rune('a' + i))), Mode: rw.ModeOverwrite, Call: rw.Call{Session: c.session}})
		expect(t, err == nil && asked-before == c.asked, "%d: asked %d times, %v", i, asked-before, err)
	}
}
