package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

// wire is a client that speaks line by line.
type wire struct {
	t     *testing.T
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
	w := &wire{t: t, dir: t.TempDir(), lines: make(chan map[string]any, 10000)}
	o := rw.Options{}
	if opts != nil {
		o = *opts
	}
	o.Sync = rw.SyncOff
	store := must(rw.Open(context.Background(), w.dir, &o))(t)
	w.store = store
	clientOut, serverIn := io.Pipe()
	serverOut, clientIn := io.Pipe()
	w.in = serverIn
	done := make(chan error, 1)
	go func() {
		done <- mcpserver.ServeStdio(context.Background(), mcpserver.New(store, full), clientOut, clientIn)
		clientIn.Close()
	}()
	go func() {
		defer close(w.lines)
		out := bufio.NewScanner(serverOut)
		out.Buffer(nil, 4<<20)
		for out.Scan() {
			var m map[string]any
			if json.Unmarshal(out.Bytes(), &m) != nil {
				m = map[string]any{"broken": out.Text()}
			}
			w.lines <- m
		}
	}()
	t.Cleanup(func() {
		serverIn.Close()
		select {
		case err := <-done:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("the server does not end")
		}
		store.Close(context.Background())
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
	if _, err := fmt.Fprintf(w.in, format+"\n", args...); err != nil {
		w.t.Fatal(err)
	}
}

// call sends a call of a tool and returns its id. more are further parameters.
func (w *wire) call(tool string, args any, more ...string) int {
	w.t.Helper()
	w.next++
	data, err := wireArgs(args)
	if err != nil {
		w.t.Fatal(err)
	}
	w.send(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s%s%s}}`, w.next, tool, data, w.meta, strings.Join(more, ""))
	return w.next
}

// message returns the next message.
func (w *wire) message() map[string]any {
	w.t.Helper()
	select {
	case m, ok := <-w.lines:
		if !ok {
			w.t.Fatal("the server ended")
		}
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
	if m["id"] != float64(id) {
		w.t.Fatalf("reply to %v, want %d: %v", m["id"], id, m)
	}
	res, ok := m["result"].(map[string]any)
	if !ok {
		w.t.Fatalf("no result: %v", m)
	}
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
	if !ok {
		t.Fatalf("neither success nor an envelope: %v", result)
	}
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
	tail, err := w.store.JournalTail(context.Background(), rw.JournalTailRequest{N: 1, IncludeRefused: true})
	if err != nil {
		w.t.Fatal(err)
	}
	if len(tail.Entries) == 0 {
		return 0
	}
	return tail.Entries[len(tail.Entries)-1].Seq
}

func create(path, content string) rw.SafeWriteRequest {
	return rw.SafeWriteRequest{Path: path, Content: []byte(content), Mode: rw.ModeCreate}
}

// TestHooksAskTheUserBehindTheClient: a question of an authorizer is one
// elicitation; what the user says counts, also "from now on"; a client that
// cannot ask gets a refusal that says what to do.
func TestHooksAskTheUserBehindTheClient(t *testing.T) {
	t.Parallel()
	perm := &rw.Options{Hooks: roles(rw.Permission{AutoApprove: []string{"docs/**"}})}
	for _, caps := range []string{"{}", `{"elicitation":{"url":{}}}`} {
		w := connect(t, perm).initialize(caps)
		if got := reasonOf(t, w.result(w.call("rw_safe_write", create("docs/a.txt", "x")))); got != "ok" {
			t.Errorf("an approved path: %s", got)
		}
		res := w.result(w.call("rw_safe_write", create("a.txt", "x")))
		text := fmt.Sprint(res["structuredContent"])
		if reasonOf(t, res) != "denied" || res["isError"] != true || !strings.Contains(text, "may safe_write do this: create a.txt?") || !strings.Contains(text, "ask the user yourself") {
			t.Errorf("capabilities %s: %s", caps, text)
		}
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
		if q["method"] != "elicitation/create" || !strings.Contains(fmt.Sprint(params["message"]), "a.txt") {
			t.Fatalf("no question: %v", q)
		}
		w.send(`{"jsonrpc":"2.0","id":%q,%s}`, q["id"], step.answer)
		if got := reasonOf(t, w.result(id)); got != step.want { // and no second question
			t.Errorf("%s: %s", step.answer, got)
		}
	}
	os.Remove(filepath.Join(w.dir, "a.txt"))
	if got := reasonOf(t, w.result(w.call("rw_safe_write", create("a.txt", "again")))); got != "ok" {
		t.Errorf("from now on: %s", got)
	}
	// What only a client of the other protocol may send has no meaning here.
	id := w.call("rw_safe_write", create("b.txt", "x"), `,"requestState":"rw1.AAAA","inputResponses":{"consent_1":{"action":"accept","content":{"allow":true}}}`)
	if q := w.read(); q["method"] != "elicitation/create" {
		t.Fatalf("not asked: %v", q)
	} else {
		w.send(`{"jsonrpc":"2.0","id":%q,"result":{"action":"decline"}}`, q["id"])
	}
	if got := reasonOf(t, w.result(id)); got != "denied" || w.file("b.txt") != "none" {
		t.Errorf("an answer nobody asked for: %s", got)
	}
}

// counts is a hook that asks for every path that is not approved, and counts
// how often it is called.
type counts struct {
	mu          sync.Mutex
	asked, told int
	approved    []string
}

func (c *counts) Authorize(_ context.Context, op rw.HookCall) (rw.Decision, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	if slices.Contains(c.approved, op.Changes[0].Path) {
		return rw.Allow(), nil
	}
	return rw.AskUser("may I?"), nil
}

func (c *counts) Observe(context.Context, rw.HookCall, rw.Receipt, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.told++
}

// TestAQuestionHoldsNobodyUp: while a user thinks, the calls behind go on, as
// many as there are, and the user's answer is still heard.
func TestAQuestionHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	hook := &counts{}
	for i := range 1500 { // more than wait in the lane
		hook.approved = append(hook.approved, fmt.Sprint("n", i))
	}
	w := connect(t, &rw.Options{Hooks: roles(hook)}).initialize(`{"elicitation":{}}`)
	asking := w.call("rw_safe_write", create("slow.txt", "x"))
	q := w.read()
	if q["method"] != "elicitation/create" {
		t.Fatalf("%v", q)
	}
	first := w.next + 1
	for i := range 1500 {
		w.call("rw_safe_write", create(fmt.Sprint("n", i), "x"))
	}
	for i := range 1500 { // in their order
		if got := reasonOf(t, w.result(first+i)); got != "ok" {
			t.Fatalf("call %d: %s", i, got)
		}
	}
	w.send(`{"jsonrpc":"2.0","id":%q,"result":{"action":"accept","content":{"allow":true}}}`, q["id"])
	if got := reasonOf(t, w.result(asking)); got != "ok" || w.file("slow.txt") != "x" {
		t.Errorf("%s", got)
	}
	if hook.told != 1501 || hook.asked != 1502 {
		t.Errorf("authorizers were asked %d times, observers told %d times", hook.asked, hook.told)
	}
	// An answer that comes twice, or to no question, is answered by nobody.
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
		if got := reasonOf(t, m["result"].(map[string]any)); got != "denied" {
			t.Fatal(got)
		}
		denied++
	}
	if len(questions) != 64 || denied != 150-64 {
		t.Errorf("%d questions, %d refused", len(questions), denied)
	}
	for _, q := range questions {
		w.send(`{"jsonrpc":"2.0","id":%q,"result":{"action":"accept","content":{"allow":true}}}`, q)
	}
	for range questions {
		if got := reasonOf(t, w.read()["result"].(map[string]any)); got != "ok" {
			t.Errorf("%s", got)
		}
	}
}

// TestAnInputThatEndsRefusesWhatIsAsked: nobody can answer any more, so the
// call is refused, and answered.
func TestAnInputThatEndsRefusesWhatIsAsked(t *testing.T) {
	t.Parallel()
	w := connect(t, &rw.Options{Hooks: roles(&counts{})}).initialize(`{"elicitation":{}}`)
	id := w.call("rw_safe_write", create("a.txt", "x"))
	behind := w.call("rw_safe_write", create("b.txt", "x"))
	if q := w.read(); q["method"] != "elicitation/create" {
		t.Fatalf("%v", q)
	}
	w.in.Close()
	got := map[any]string{}
	for m := range w.lines {
		if m["method"] == nil {
			got[m["id"]] = reasonOf(t, m["result"].(map[string]any))
		}
	}
	if got[float64(id)] != "denied" || got[float64(behind)] != "denied" || w.file("a.txt") != "none" {
		t.Errorf("%v", got)
	}
}

// roles is Options.Hooks with every value in the lists of its roles.
func roles(list ...any) (h rw.Hooks) {
	for _, v := range list {
		if a, ok := v.(rw.Authorizer); ok {
			h.Authorize = append(h.Authorize, a)
		}
		if t, ok := v.(rw.Transformer); ok {
			h.Transform = append(h.Transform, t)
		}
		if y, ok := v.(rw.Verifier); ok {
			h.Verify = append(h.Verify, y)
		}
		if o, ok := v.(rw.Observer); ok {
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
