package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/hook"
	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/mcpserver"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// wire is a client that speaks line by line.
type wire struct {
	t     testing.TB
	dir   string // the workspace
	store *rw.Store
	in    io.WriteCloser
	lines chan map[string]any
	meta  string // of every request, when the client is a modern one
	next  int
}

// patience is how long a message may take on a slow machine.
const patience = time.Minute

// connect starts a server on a new workspace and a client of it.
func connect(t *testing.T, opts *rw.Options) *wire {
	t.Helper()
	store, dir := storeIn(t, opts)
	w := connectTo(t, mcpserver.New(store, full))
	w.dir, w.store = dir, store
	return w
}

// connectTo starts a server over pipes and returns a client of it.
func connectTo(t testing.TB, s *server.MCPServer) *wire {
	t.Helper()
	w := &wire{t: t, lines: make(chan map[string]any, 10000)}
	clientOut, serverIn := io.Pipe()
	serverOut, clientIn := io.Pipe()
	w.in = serverIn
	done := make(chan error, 1)
	go func() {
		done <- mcpserver.ServeStdio(context.Background(), s, clientOut, clientIn)
		clientIn.Close()
	}()
	go func() {
		defer close(w.lines)
		for d := json.NewDecoder(serverOut); ; {
			var m map[string]any
			if d.Decode(&m) != nil {
				return
			}
			w.lines <- m
		}
	}()
	t.Cleanup(func() {
		serverIn.Close()
		noErr(t, soon(t, done, "the server ends"))
	})
	return w
}

// initialize begins a session of the older protocol.
func (w *wire) initialize(capabilities string) *wire {
	w.t.Helper()
	w.send(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-06-18","clientInfo":{"name":"t","version":"1"},"capabilities":%s}}`, capabilities)
	w.read()
	w.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return w
}

// modern says with every request who the client is and what it can do.
func (w *wire) modern(capabilities string) *wire {
	w.meta = fmt.Sprintf(`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"},"io.modelcontextprotocol/clientCapabilities":%s}`, capabilities)
	return w
}

func (w *wire) send(format string, args ...any) {
	w.t.Helper()
	must(fmt.Fprintf(w.in, format+"\n", args...))(w.t)
}

// call sends a call of a tool and returns its id. more are further parameters.
func (w *wire) call(tool string, args any, more ...string) int {
	w.t.Helper()
	w.next++
	data := must(wireArgs(args))(w.t)
	w.send(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s%s%s}}`, w.next, tool, data, w.meta, strings.Join(more, ""))
	return w.next
}

// message returns the next message.
func (w *wire) message() map[string]any {
	w.t.Helper()
	select {
	case m, ok := <-w.lines:
		require(w.t, ok, "the server ended")
		return m
	case <-time.After(patience):
		w.t.Fatal("no message comes")
	}
	return nil
}

// read returns the next message that is no notification.
func (w *wire) read() map[string]any {
	w.t.Helper()
	for {
		if m := w.message(); m["id"] != nil {
			return m
		}
	}
}

// result returns the result of a call, which must be the next reply.
func (w *wire) result(id int) map[string]any {
	w.t.Helper()
	m := w.read()
	require(w.t, m["id"] == float64(id), "reply to %v, want %d: %v", m["id"], id, m)
	res, ok := m["result"].(map[string]any)
	require(w.t, ok, "no result: %v", m)
	return res
}

// reasonOf is "ok", or why a call was refused.
func reasonOf(t *testing.T, result map[string]any) string {
	t.Helper()
	doc, _ := result["structuredContent"].(map[string]any)
	if doc["ok"] == true {
		return "ok"
	}
	about, ok := doc["context"].(map[string]any)
	require(t, ok, "neither success nor an envelope: %v", result)
	return fmt.Sprint(about["reason"])
}

func (w *wire) file(path string) string {
	data, err := os.ReadFile(filepath.Join(w.dir, path))
	if err != nil {
		return "none"
	}
	return string(data)
}

// rows is how many rows the journal has, of refusals too.
func (w *wire) rows() uint64 {
	w.t.Helper()
	tail := must(w.store.JournalTail(context.Background(), rw.JournalTailRequest{N: 1, IncludeRefused: true}))(w.t)
	if len(tail.Entries) == 0 {
		return 0
	}
	return tail.Entries[len(tail.Entries)-1].Seq
}

func create(path, content string) rw.SafeWriteRequest {
	return rw.SafeWriteRequest{Path: path, Content: []byte(content), Mode: rw.ModeCreate}
}

// TestHooksAskTheUserOfTheClient: a question of an authorizer is one
// elicitation; what the user says counts, also "from now on"; a client that
// cannot ask gets a refusal that says what to do.
func TestHooksAskTheUserOfTheClient(t *testing.T) {
	t.Parallel()
	perm := &rw.Options{Hooks: roles(hook.Permission{AutoApprove: []string{"docs/**"}})}
	for _, caps := range []string{"{}", `{"elicitation":{"url":{}}}`} {
		w := connect(t, perm).initialize(caps)
		equal(t, reasonOf(t, w.result(w.call("rw_safe_write", create("docs/a.txt", "x")))), "ok", "an approved path")
		res := w.result(w.call("rw_safe_write", create("a.txt", "x")))
		text := fmt.Sprint(res["structuredContent"])
		expect(t, reasonOf(t, res) == "denied" && res["isError"] == true && strings.Contains(text, "may safe_write do this: create a.txt?") &&
			strings.Contains(text, "ask the user yourself"), "capabilities %s: %s", caps, text)
	}
	w := connect(t, perm).initialize(`{"elicitation":{}}`)
	for i, step := range []struct{ answer, want string }{
		{`"result":{"action":"decline"}`, "denied"},
		{`"result":{"action":"cancel"}`, "denied"},
		{`"result":{"action":"accept","content":{"allow":false}}`, "denied"},
		{`"error":{"code":-1,"message":"no"}`, "denied"},
		{`"result":{"action":"accept","content":{"allow":true,"always":true}}`, "ok"},
	} {
		id := w.call("rw_safe_write", create("a.txt", fmt.Sprint(i)))
		q := w.read()
		params, _ := q["params"].(map[string]any)
		require(t, q["method"] == "elicitation/create" && strings.Contains(fmt.Sprint(params["message"]), "a.txt"), "no question: %v", q)
		w.send(`{"jsonrpc":"2.0","id":%q,%s}`, q["id"], step.answer)
		if got := reasonOf(t, w.result(id)); got != step.want { // and no second question
			t.Errorf("%s: %s", step.answer, got)
		}
	}
	os.Remove(filepath.Join(w.dir, "a.txt"))
	equal(t, reasonOf(t, w.result(w.call("rw_safe_write", create("a.txt", "again")))), "ok", "from now on")
	// What only a client of the other protocol may send has no meaning here.
	id := w.call("rw_safe_write", create("b.txt", "x"), `,"requestState":"rw1.AAAA","inputResponses":{"consent_1":{"action":"accept","content":{"allow":true}}}`)
	if q := w.read(); q["method"] != "elicitation/create" {
		t.Fatalf("not asked: %v", q)
	} else {
		w.send(`{"jsonrpc":"2.0","id":%q,"result":{"action":"decline"}}`, q["id"])
	}
	got := reasonOf(t, w.result(id))
	expect(t, got == "denied" && w.file("b.txt") == "none", "an answer without a question: %s", got)
}

// counts is a hook that asks for every path that is not approved, and counts
// how often it is called.
type counts struct {
	mu              sync.Mutex
	asked, observed int
	approved        []string
}

func (c *counts) Authorize(_ context.Context, op hook.Call) (hook.Decision, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if slices.Contains(c.approved, op.Changes[0].Path) {
		return hook.Allow(), nil
	}
	return hook.AskUser("may I?"), nil
}

func (c *counts) Observe(context.Context, hook.Call, rw.Receipt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.observed++
}

// TestAQuestionBlocksNoCall: while a user thinks, the later calls go on, as
// many as there are, and the user's answer is still heard.
func TestAQuestionBlocksNoCall(t *testing.T) {
	t.Parallel()
	counter := &counts{}
	for i := range 1500 { // more than wait in the lane
		counter.approved = append(counter.approved, fmt.Sprint("n", i))
	}
	w := connect(t, &rw.Options{Hooks: roles(counter)}).initialize(`{"elicitation":{}}`)
	asking := w.call("rw_safe_write", create("slow.txt", "x"))
	q := w.read()
	mustEqual(t, q["method"], "elicitation/create", q)
	first := w.next + 1
	for i := range 1500 {
		w.call("rw_safe_write", create(fmt.Sprint("n", i), "x"))
	}
	for i := range 1500 { // in their order
		mustEqual(t, reasonOf(t, w.result(first+i)), "ok", "call ", i)
	}
	w.send(`{"jsonrpc":"2.0","id":%q,"result":{"action":"accept","content":{"allow":true}}}`, q["id"])
	got := reasonOf(t, w.result(asking))
	expect(t, got == "ok" && w.file("slow.txt") == "x", "%s", got)
	expect(t, counter.observed == 1501 && counter.asked == 1502,
		"authorizers were asked %d times, observers called %d times", counter.asked, counter.observed)
	// An answer that comes twice, or to no question, is not answered.
	for _, late := range []string{`"result":{"action":"accept","content":{"allow":true}}`, `"error":{"code":-1,"message":"x"}`} {
		w.send(`{"jsonrpc":"2.0","id":%q,%s}`, q["id"], late)
		w.send(`{"jsonrpc":"2.0","id":"rw-ask-99",%s}`, late)
	}
	w.result(w.call("rw_journal_tail", map[string]any{}))
}

// TestTooManyQuestionsAreRefused: a client that lets many calls ask at once has
// the first of them open, and is refused the others.
func TestTooManyQuestionsAreRefused(t *testing.T) {
	t.Parallel()
	w := connect(t, &rw.Options{Hooks: roles(&counts{})}).initialize(`{"elicitation":{}}`)
	for i := range 150 {
		w.call("rw_safe_write", create(fmt.Sprint(i), "x"))
	}
	questions, denied := []any{}, 0
	for range 150 {
		m := w.read()
		if m["method"] == "elicitation/create" {
			questions = append(questions, m["id"])
			continue
		}
		mustEqual(t, reasonOf(t, m["result"].(map[string]any)), "denied")
		denied++
	}
	expect(t, len(questions) == 64 && denied == 150-64, "%d questions, %d refused", len(questions), denied)
	for _, q := range questions {
		w.send(`{"jsonrpc":"2.0","id":%q,"result":{"action":"accept","content":{"allow":true}}}`, q)
	}
	for range questions {
		equal(t, reasonOf(t, w.read()["result"].(map[string]any)), "ok")
	}
}

// TestAnInputThatEndsRefusesWhatIsAsked: no client can answer any more, so the
// call is refused, and answered.
func TestAnInputThatEndsRefusesWhatIsAsked(t *testing.T) {
	t.Parallel()
	w := connect(t, &rw.Options{Hooks: roles(&counts{})}).initialize(`{"elicitation":{}}`)
	id := w.call("rw_safe_write", create("a.txt", "x"))
	later := w.call("rw_safe_write", create("b.txt", "x"))
	q := w.read()
	require(t, q["method"] == "elicitation/create", "%v", q)
	w.in.Close()
	got := map[any]string{}
	for m := range w.lines {
		if m["method"] == nil {
			got[m["id"]] = reasonOf(t, m["result"].(map[string]any))
		}
	}
	expect(t, got[float64(id)] == "denied" && got[float64(later)] == "denied" && w.file("a.txt") == "none", "%v", got)
}

// roles is Options.Hooks with every value in the lists of its roles.
func roles(list ...any) (h hook.Hooks) {
	for _, v := range list {
		if a, ok := v.(hook.Authorizer); ok {
			h.Authorize = append(h.Authorize, a)
		}
		if t, ok := v.(hook.Transformer); ok {
			h.Transform = append(h.Transform, t)
		}
		if y, ok := v.(hook.Verifier); ok {
			h.Verify = append(h.Verify, y)
		}
		if o, ok := v.(hook.Observer); ok {
			h.Observe = append(h.Observe, o)
		}
	}
	return h
}

// wireArgs is the arguments of a call as JSON.
func wireArgs(args any) ([]byte, error) {
	if reflect.ValueOf(args).Kind() == reflect.Struct {
		return schema.Encode(args)
	}
	return json.Marshal(args)
}

// asker is the user of a client.
type asker struct {
	mu     sync.Mutex
	times  int
	answer mcp.ElicitationResponse
	err    error
}

func (a *asker) Elicit(_ context.Context, r mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.times++
	if a.err != nil {
		return nil, a.err
	}
	return &mcp.ElicitationResult{ElicitationResponse: a.answer}, nil
}

// eras are the ways in which a client of the library may speak with us.
func eras(t *testing.T, s *server.MCPServer, user *asker) map[string]*client.Client {
	t.Helper()
	out := map[string]*client.Client{}
	with := client.WithElicitationHandler(user)
	web := httptest.NewServer(server.NewStreamableHTTPServer(s, server.WithStateful(true)))
	t.Cleanup(web.Close)
	//lint:ignore SA1019 clients of the earlier versions of the protocol are supported
	for name, opts := range map[string][]client.ClientOption{"modern": {with}, "legacy": {with, client.WithLegacyProtocolOnly()}} {
		c := must(client.NewInProcessClientWithOptions(s, opts...))(t)
		out[name+" in process"] = c
		link := must(transport.NewStreamableHTTP(web.URL + "/mcp"))(t)
		out[name+" over http"] = client.NewClient(link, opts...)
	}
	for name, c := range out {
		noErr(t, c.Start(ctx), name)
		t.Cleanup(func() { c.Close() })
		res := must(c.Initialize(ctx, mcp.InitializeRequest{}))(t, name)
		mustEqual(t, res.ProtocolVersion == "2026-07-28", name[0] == 'm', name, " speaks ", res.ProtocolVersion)
	}
	return out
}

// TestAToolboxAsksThroughItsContext: a host without a protocol puts the
// questions itself, and may answer later.
func TestAToolboxAsksThroughItsContext(t *testing.T) {
	t.Parallel()
	counter := &counts{}
	store, _ := storeIn(t, &rw.Options{Hooks: roles(counter)})
	box := toolbox.New(store, &toolbox.Options{Caller: "agent", Tier: toolbox.Full})
	for i, step := range []struct {
		answer hook.Answer
		err    error
		want   string
	}{
		{err: rw.ErrInputRequired, want: "input_required"}, {err: errors.New("no screen"), want: "denied"}, {want: "denied"},
		{answer: hook.Answer{Allow: true}, want: "ok"},
	} {
		asking := rw.WithAsk(ctx, func(context.Context, hook.Call, string) (hook.Answer, error) { return step.answer, step.err })
		a := box.Call(asking, "rw_safe_write", []byte(`{"path":"a.txt","content":"x"}`), nil)
		doc := testbed.Decoded[map[string]any](t, []byte(a.Text))
		got := reasonOf(t, map[string]any{"structuredContent": doc})
		expect(t, got == step.want && a.OK == (got == "ok"), "step %d: %s", i, a.Text)
		equal(t, counter.observed, i, "step : observers were called  times")
	}
}

// TestAUserIsAskedOnceInEachEra: with the clients of the library, in process
// and over HTTP, one call is one question, whatever the answer; observers and
// the journal hear of the call once.
func TestAUserIsAskedOnceInEachEra(t *testing.T) {
	t.Parallel()
	user, counter := &asker{}, &counts{}
	store, _ := storeIn(t, &rw.Options{Hooks: roles(counter)})
	accept := func(content any) mcp.ElicitationResponse {
		return mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionAccept, Content: content}
	}
	for name, c := range eras(t, mcpserver.New(store, full), user) {
		for i, step := range []struct {
			answer mcp.ElicitationResponse
			want   string
		}{
			{accept(map[string]any{"allow": true}), "ok"},
			{accept(struct {
				Allow bool `json:"allow"`
			}{true}), "ok"},
			{accept(map[string]any{"allow": "yes"}), "denied"},
			{accept(nil), "denied"},
			{mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionDecline}, "denied"},
			{mcp.ElicitationResponse{Action: mcp.ElicitationResponseActionCancel}, "denied"},
		} {
			user.answer, user.times, user.err = step.answer, 0, nil
			*counter = counts{}
			path := fmt.Sprintf("%s %d", name, i)
			var call mcp.CallToolRequest
			call.Params.Name, call.Params.Arguments = "rw_safe_write", map[string]any{"path": path, "content": "x"}
			res := must(c.CallTool(ctx, call))(t, path)
			doc, _ := res.StructuredContent.(map[string]any)
			got := reasonOf(t, map[string]any{"structuredContent": doc})
			expect(t, got == step.want && user.times == 1 && counter.observed == 1 && counter.asked == 2,
				"%s: %s, asked %d times, hooks %d and %d", path, got, user.times, counter.asked, counter.observed)
		}
		// A client that fails to ask gets a refusal in the older protocol; in
		// the newer one it never comes back, and nothing was begun.
		user.err, *counter = errors.New("no screen"), counts{}
		var call mcp.CallToolRequest
		call.Params.Name, call.Params.Arguments = "rw_safe_write", map[string]any{"path": name, "content": "x"}
		res, err := c.CallTool(ctx, call)
		switch {
		case name[0] == 'm' && (err == nil || counter.observed != 0):
			t.Errorf("%s: %v %v, observed %d", name, res, err, counter.observed)
		case name[0] == 'l' && (err != nil || !res.IsError || counter.observed != 1):
			t.Errorf("%s: %v %v, observed %d", name, res, err, counter.observed)
		}
	}
	r, err := store.Check(ctx, admin.CheckRequest{Deep: true})
	expect(t, err == nil && len(r.Problems) == 0, "%v %v", r, err)
}

// pending reads the questions that a call ended with.
func pending(t *testing.T, result map[string]any) (state string, questions map[string]any) {
	t.Helper()
	questions, _ = result["inputRequests"].(map[string]any)
	state, _ = result["requestState"].(string)
	require(t, result["resultType"] == "input_required" && state != "" && len(questions) != 0 && result["isError"] != true, "no question: %v", result)
	return state, questions
}

// answers are the parameters of a call that comes with answers, in order.
func answers(state string, list ...string) string {
	var fields []string
	for i, a := range list {
		fields = append(fields, fmt.Sprintf(`"consent_%d":%s`, i+1, a))
	}
	quoted, _ := json.Marshal(state)
	return fmt.Sprintf(`,"requestState":%s,"inputResponses":{%s}`, quoted, strings.Join(fields, ","))
}

const yes = `{"action":"accept","content":{"allow":true}}`

// TestAModernClientAsksOnOurBehalf: the question is the result of the call,
// which has left no trace; the call with the answer does the work, once.
func TestAModernClientAsksOnOurBehalf(t *testing.T) {
	t.Parallel()
	counter := &counts{}
	receipts := 0
	w := connect(t, &rw.Options{Hooks: roles(counter, &hook.TaskBudget{Writes: 1}), ReceiptSink: func(rw.Receipt) { receipts++ }}).modern(`{"elicitation":{}}`)
	var state string
	for range 5 { // as often as the client likes
		res := w.result(w.call("rw_safe_write", create("a.txt", "x")))
		var questions map[string]any
		state, questions = pending(t, res)
		q, _ := questions["consent_1"].(map[string]any)
		params, _ := q["params"].(map[string]any)
		form, _ := json.Marshal(params["requestedSchema"])
		expect(t, q["method"] == "elicitation/create" && params["message"] == "may I?" && strings.Contains(string(form), `"allow"`) && len(questions) == 1,
			"%v", questions)
		expect(t, res["structuredContent"] == nil, "%v", res)
	}
	require(t, counter.observed == 0 && receipts == 0 && w.rows() == 0 && w.file("a.txt") == "none",
		"observed %d, %d receipts, %d rows", counter.observed, receipts, w.rows())
	res := w.result(w.call("rw_safe_write", create("a.txt", "x"), answers(state, yes)))
	require(t, reasonOf(t, res) == "ok" && res["resultType"] == "complete" && w.file("a.txt") == "x", "%v", res)
	expect(t, counter.observed == 1 && receipts == 1 && w.rows() == 1 && counter.asked == 6,
		"asked %d, observed %d, %d receipts, %d rows", counter.asked, counter.observed, receipts, w.rows())
}

// TestAnAnswerIsOneToItsQuestionOnly: whatever else an answer is sent with,
// it is not an answer: the user is asked again and nothing is written.
func TestAnAnswerIsOneToItsQuestionOnly(t *testing.T) {
	t.Parallel()
	w := connect(t, &rw.Options{Hooks: roles(hook.Permission{})}).modern(`{"elicitation":{}}`)
	ask := func(r rw.SafeWriteRequest) string {
		t.Helper()
		state, _ := pending(t, w.result(w.call("rw_safe_write", r)))
		return state
	}
	state := ask(create("a.txt", "harmless"))
	again := func(what, tool string, args any, more string) {
		t.Helper()
		rows, before := w.rows(), w.file("a.txt")
		pending(t, w.result(w.call(tool, args, more)))
		expect(t, w.rows() == rows && w.file("a.txt") == before && w.file("b.txt") == "none", "%s: something was written", what)
	}
	ok := answers(state, yes)
	again("another path", "rw_safe_write", create("b.txt", "harmless"), ok)
	again("another content", "rw_safe_write", create("a.txt", "harmful"), ok)
	again("another mode", "rw_safe_write", rw.SafeWriteRequest{Path: "a.txt", Content: []byte("harmless"), Mode: rw.ModeAppend}, ok)
	again("another caller", "rw_safe_write", rw.SafeWriteRequest{Path: "a.txt", Content: []byte("harmless"), Mode: rw.ModeCreate, Call: rw.Call{Caller: "somebody"}}, ok)
	again("another verb", "rw_tx", rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "a.txt", Content: []byte("harmless")}}}, ok)
	again("more paths", "rw_tx", rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "a.txt", Content: []byte("harmless")}, {Op: "write", Path: "b.txt", Content: []byte("x")}}}, ok)
	again("no state", "rw_safe_write", create("a.txt", "harmless"), `,"inputResponses":{"consent_1":`+yes+`}`)
	again("state without answers", "rw_safe_write", create("a.txt", "more"), answers(state))
	for i := range len(state) {
		if i%7 != 0 && i > 4 {
			continue
		}
		other := byte('A')
		if state[i] == 'A' {
			other = 'B'
		}
		again(fmt.Sprint("byte ", i), "rw_safe_write", create("a.txt", "harmless"), answers(state[:i]+string(other)+state[i+1:], yes))
	}
	for _, forged := range []string{"", "rw1.", "rw1.!", state + "A", state[:len(state)-4], "rw2." + state[4:], strings.Repeat("rw1.", 20000)} {
		again("forged", "rw_safe_write", create("a.txt", "harmless"), answers(forged, yes))
	}
	// The state of the workspace is part of the question.
	replace := rw.SafeWriteRequest{Path: "a.txt", Content: []byte("new"), Mode: rw.ModeOverwrite}
	fresh := ask(replace)
	os.WriteFile(filepath.Join(w.dir, "a.txt"), []byte("made meanwhile"), 0o644)
	again("a file that appeared", "rw_safe_write", replace, answers(fresh, yes))
	os.Remove(filepath.Join(w.dir, "a.txt"))
	// After all that, the answer is still good, once.
	mustEqual(t, reasonOf(t, w.result(w.call("rw_safe_write", create("a.txt", "harmless"), ok))), "ok", "the answer to its own question")
	os.Remove(filepath.Join(w.dir, "a.txt"))
	again("a second time", "rw_safe_write", create("a.txt", "harmless"), ok)
}

// TestWhatIsNoClearYesIsNo: an answer of any other form refuses; it is counted
// like every refusal, and the third one ends the asking.
func TestWhatIsNoClearYesIsNo(t *testing.T) {
	t.Parallel()
	w := connect(t, &rw.Options{Hooks: roles(&counts{})}).modern(`{"elicitation":{"form":{}}}`)
	for i, a := range []string{
		`{"action":"decline"}`, `{"action":"cancel"}`, `{"action":"accept"}`, `{}`, `null`, `[]`, `7`, `"yes"`, `true`,
		`{"action":"accept","content":{}}`, `{"action":"accept","content":null}`, `{"action":"accept","content":[]}`, `{"action":"accept","content":true}`,
		`{"action":"accept","content":{"allow":"true"}}`, `{"action":"accept","content":{"allow":1}}`, `{"action":"accept","content":{"Allow":true}}`,
		`{"action":"accept","content":{"allow":false}}`, `{"action":"accept","content":{"allow":null}}`, `{"action":"accept","content":{"allow":[true]}}`,
		`{"action":"accept","content":{"allow":true,"always":"yes"}}`, `{"action":"accept","content":{"allow":true,"pattern":7}}`,
		`{"action":"Accept","content":{"allow":true}}`, `{"action":"decline","content":{"allow":true}}`, `{"action":"","content":{"allow":true}}`,
		`{"action":7,"content":{"allow":true}}`, `{"content":{"allow":true}}`,
	} {
		path := fmt.Sprintf("f%d.txt", i)
		state, _ := pending(t, w.result(w.call("rw_safe_write", create(path, "x"))))
		got := reasonOf(t, w.result(w.call("rw_safe_write", create(path, "x"), answers(state, a))))
		expect(t, got == "denied" && w.file(path) == "none", "%s: %s", a, got)
	}
	// An answer that is missing, or under another name.
	for i, more := range []string{`,"inputResponses":{}`, ``, `,"inputResponses":{"consent_2":` + yes + `}`, `,"inputResponses":{"":` + yes + `}`} {
		path := fmt.Sprintf("m%d.txt", i)
		state, _ := pending(t, w.result(w.call("rw_safe_write", create(path, "x"))))
		quoted, _ := json.Marshal(state)
		equal(t, reasonOf(t, w.result(w.call("rw_safe_write", create(path, "x"), `,"requestState":`+string(quoted)+more))), "denied", more)
	}
	// What is no map or no text at all is an error of the protocol.
	for _, more := range []string{`,"inputResponses":[]`, `,"inputResponses":"x"`, `,"requestState":7`} {
		w.call("rw_safe_write", create("p.txt", "x"), more)
		m := w.read()
		expect(t, m["error"] != nil && w.file("p.txt") == "none", "%s: %v", more, m)
	}
	// No three times.
	for i := range 3 {
		state, _ := pending(t, w.result(w.call("rw_safe_write", create("n.txt", "x"))))
		res := w.result(w.call("rw_safe_write", create("n.txt", "x"), answers(state, `{"action":"decline"}`)))
		doc := res["structuredContent"].(map[string]any)
		expect(t, doc["retry_budget"] == float64(2-i), "no %d: %v attempts are left", i+1, doc["retry_budget"])
	}
	equal(t, reasonOf(t, w.result(w.call("rw_safe_write", create("n.txt", "x")))), "retry_exhausted", "after three refusals")
}

// TestSeveralQuestionsOfOneCall: all are put at once, a transaction is one
// question for all its files, and one no is enough.
func TestSeveralQuestionsOfOneCall(t *testing.T) {
	t.Parallel()
	w := connect(t, &rw.Options{Hooks: roles(hook.Permission{}, &counts{})}).modern(`{"elicitation":{}}`)
	os.WriteFile(filepath.Join(w.dir, "old.txt"), []byte("old"), 0o644)
	tx := rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "a.txt", Content: []byte("a")}, {Op: "write", Path: "b.txt", Content: []byte("b")}, {Op: "delete", Path: "old.txt"}}}
	for _, c := range []struct{ first, second, want string }{
		{yes, `{"action":"decline"}`, "denied"}, {`{"action":"cancel"}`, yes, "denied"}, {yes, yes, "ok"},
	} {
		state, questions := pending(t, w.result(w.call("rw_tx", tx)))
		text := fmt.Sprint(questions["consent_1"])
		require(t, len(questions) == 2 && strings.Contains(text, "may tx do this: delete old.txt, create a.txt, create b.txt?") && !strings.Contains(text, "pattern") &&
			strings.Contains(fmt.Sprint(questions["consent_2"]), "may I?"), "%v", questions)
		equal(t, reasonOf(t, w.result(w.call("rw_tx", tx, answers(state, c.first, c.second)))), c.want, c.first, " and ", c.second)
	}
	expect(t, w.file("a.txt") == "a" && w.file("b.txt") == "b" && w.file("old.txt") == "none", "the transaction did not happen")
}

// TestAlwaysAndPatternsHoldOverTheWire: an answer for good is remembered, and
// a glob for what destroys nothing.
func TestAlwaysAndPatternsHoldOverTheWire(t *testing.T) {
	t.Parallel()
	w := connect(t, &rw.Options{Hooks: roles(hook.Permission{})}).modern(`{"elicitation":{}}`)
	put := func(path, content string, mode rw.WriteMode, answer string) {
		t.Helper()
		r := rw.SafeWriteRequest{Path: path, Content: []byte(content), Mode: mode}
		res := w.result(w.call("rw_safe_write", r))
		if answer != "" {
			state, _ := pending(t, res)
			res = w.result(w.call("rw_safe_write", r, answers(state, answer)))
		}
		mustEqual(t, reasonOf(t, res), "ok", path)
	}
	put("docs/a.md", "1", rw.ModeCreate, `{"action":"accept","content":{"allow":true,"always":true,"pattern":"docs/**"}}`)
	put("docs/b.md", "1", rw.ModeCreate, "")
	put("docs/b.md", "2", rw.ModeOverwrite, `{"action":"accept","content":{"allow":true,"always":true}}`)
	put("docs/b.md", "3", rw.ModeOverwrite, "")
	put("docs/a.md", "3", rw.ModeOverwrite, yes)
	put("docs/a.md", "4", rw.ModeOverwrite, yes)
}

// TestAModernClientThatCannotAskIsRefused: what counts is what this request says
// the client can do, and the server never sends a request of its own.
func TestAModernClientThatCannotAskIsRefused(t *testing.T) {
	t.Parallel()
	w := connect(t, &rw.Options{Hooks: roles(hook.Permission{})})
	for _, caps := range []string{`{}`, `{"elicitation":{"url":{}}}`, `{"sampling":{}}`} {
		w.modern(`{"elicitation":{}}`)
		pending(t, w.result(w.call("rw_safe_write", create("a.txt", "x"))))
		w.modern(caps)
		res := w.result(w.call("rw_safe_write", create("a.txt", caps)))
		text := fmt.Sprint(res["structuredContent"])
		expect(t, reasonOf(t, res) == "denied" && strings.Contains(text, "ask the user yourself"), "%s: %s", caps, text)
	}
	// A store with a channel of its own needs no client.
	own := connect(t, &rw.Options{Hooks: roles(hook.Permission{}), Ask: func(context.Context, hook.Call, string) (hook.Answer, error) {
		return hook.Answer{Allow: true}, nil
	}})
	for _, caps := range []string{`{}`, `{"elicitation":{}}`} {
		own.modern(caps)
		equal(t, reasonOf(t, own.result(own.call("rw_safe_write", create("a"+fmt.Sprint(len(caps)), "x")))), "ok", caps)
	}
}

// TestARetriedCallWithAKeyIsNotAskedAgain: the reply was lost, the answer is
// used up, and the key answers.
func TestARetriedCallWithAKeyIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	w := connect(t, &rw.Options{Hooks: roles(hook.Permission{})}).modern(`{"elicitation":{}}`)
	r := rw.SafeWriteRequest{Path: "a.txt", Content: []byte("x"), Call: rw.Call{IdempotencyKey: "k"}}
	state, _ := pending(t, w.result(w.call("rw_safe_write", r)))
	for _, want := range []string{"succeeded", "replayed"} {
		res := w.result(w.call("rw_safe_write", r, answers(state, yes)))
		doc := res["structuredContent"].(map[string]any)
		expect(t, doc["status"] == want, "%v, want %s", doc, want)
	}
}
