package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/hook"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// What tests from outside have to see or to change inside, so that they need
// not guess how long something takes.

// Subscribers is how many clients and streams of a server are sent what
// changes.
func Subscribers(s *server.MCPServer) int {
	subs := hostOf(s).live.subs
	subs.mu.Lock()
	defer subs.mu.Unlock()
	return len(subs.all)
}

// Rest is what a call does, until the test ends, while what it reported is
// written.
func Rest(t *testing.T, f func()) {
	testbed.Set(t, &rest, f)
}

// TestTooLargeNamesWhatIsListed: the refusal of a message that is too long names
// the chunk tools where they are listed, and a way without them everywhere.
func TestTooLargeNamesWhatIsListed(t *testing.T) {
	for preset, chunks := range map[Preset]bool{Core: false, Standard: true, Full: true} {
		e := carried(New(nil, &Options{Tier: preset})).TooLarge(5)
		testbed.Expect(t, strings.Contains(e.Hint, "5 bytes") && strings.Contains(e.Hint, "mode append") &&
			strings.Contains(e.Hint, "rw_chunk") == chunks && (e.Context["tools"] != nil) == chunks, "%s: %s %v", preset, e.Hint, e.Context)
	}
}

func TestATicketIsGoodOnceForAnHourForWhatItNames(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	o := &office{now: func() time.Time { return now }}
	about := []subject{subjectOf(hook.Call{Verb: "a"}, "q"), subjectOf(hook.Call{Verb: "b"}, "q")}
	state := o.issue(about)
	got := o.find(state)
	testbed.Require(t, got != nil && reflect.DeepEqual(got.asked, about), "%v", got)
	testbed.Expect(t, len(state) >= 26 && o.issue(about) != state, "two tickets are the same")
	testbed.Expect(t, o.find("") == nil && o.find(state[1:]) == nil && (&office{now: o.now}).find(state) == nil, "an unknown state is taken")
	now = now.Add(ticketAge - time.Second)
	testbed.Expect(t, o.find(state) == got, "it is too old too early")
	old := o.issue(about)
	testbed.Expect(t, o.redeem(got) && !o.redeem(got) && o.find(state) == nil, "it is not good once")
	now = now.Add(ticketAge)
	testbed.Expect(t, o.find(old) == nil, "it never gets too old")
}

// TestTicketsAreBounded: those that are too old make room for others, then all go.
func TestTicketsAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	o := &office{now: func() time.Time { return now }}
	var states []string
	for range 2 {
		now = now.Add(ticketAge)
		for range maxTickets {
			states = append(states, o.issue(nil))
		}
		testbed.Expect(t, len(o.open) == maxTickets && o.find(states[len(states)-maxTickets]) != nil, "%d tickets", len(o.open))
	}
	held := o.find(states[len(states)-1])
	last := o.issue(nil)
	testbed.Expect(t, len(o.open) == 1 && o.find(last) != nil && !o.redeem(held), "%d tickets", len(o.open))
}

// TestASubjectIsEverythingThatWasAsked: each field that a user answers for
// makes it another question. A field that is new must be looked at here.
func TestASubjectIsEverythingThatWasAsked(t *testing.T) {
	t.Parallel()
	base := func() hook.Call {
		return hook.Call{Verb: "v", Caller: "c", Session: "s", Request: "r", Changes: []hook.Change{{Op: "create", Path: "p", RealPath: "p"}}}
	}
	same := map[string]bool{ // the same in the call that comes with the answer, or another in each
		"InvocationID": true, "DryRun": true, "Complete": true, "SHA256": true, "PrevSHA256": true, "Bytes": true,
	}
	try := func(name string, op hook.Call) {
		changed := subjectOf(op, "q") != subjectOf(base(), "q")
		testbed.Expect(t, changed != same[name], "%s makes another question: %v", name, changed)
	}
	set := func(f reflect.Value) bool {
		switch f.Kind() {
		case reflect.String:
			f.SetString(f.String() + "x")
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int64:
			f.SetInt(7)
		default:
			return false
		}
		return true
	}
	for i := range reflect.TypeFor[hook.Call]().NumField() {
		op := base()
		if f := reflect.ValueOf(&op).Elem().Field(i); set(f) {
			try(reflect.TypeFor[hook.Call]().Field(i).Name, op)
		}
	}
	for i := range reflect.TypeFor[hook.Change]().NumField() {
		op := base()
		set(reflect.ValueOf(&op.Changes[0]).Elem().Field(i))
		try(reflect.TypeFor[hook.Change]().Field(i).Name, op)
	}
	op := base()
	op.Changes = append(op.Changes, hook.Change{Op: "delete", Path: "q"})
	try("Changes", op)
	testbed.Expect(t, subjectOf(base(), "q") != subjectOf(base(), "p"), "the words do not count")
}

// TestNoServerTextNamesAToolThatIsNotListed: prompts, resources, lists, replies and
// refusals, of a store in which there is something of everything. Of a renamed tool
// none of them has the old name.
func TestNoServerTextNamesAToolThatIsNotListed(t *testing.T) {
	t.Parallel()
	rename := func(name string) string { return "files-" + strings.TrimPrefix(name, "rw_") }
	for name, o := range map[string]*Options{
		"renamed core": {Tier: Core, Rename: rename}, "renamed": {Tier: Full, Replies: FullReplies, Rename: rename},
		"core": {Tier: Core}, "standard": nil, "full replies": {Replies: FullReplies}, "added": {Tools: []string{"checkpoint", "restore"}},
		"full": {Tier: Full}, "full, brief": {Tier: Full, Replies: BriefReplies},
		"filtered": {Filter: func(i ToolInfo) bool { return i.Name == "safe_write" || i.Name == "chunk_status" }},
	} {
		t.Run(name, func(t *testing.T) { checkServerTexts(t, o) })
	}
}

func checkServerTexts(t *testing.T, o *Options) {
	store := testbed.Must(rw.Open(t.Context(), t.TempDir(), &rw.Options{Sync: rw.SyncOff}))(t)
	defer store.Close(t.Context())
	s := New(store, o)
	h, texts, wire := hostOf(s), 0, func(name string) string { return name }
	if o != nil && o.Rename != nil {
		wire = o.Rename
	}
	check := func(where, text string) {
		texts++
		for _, name := range regexp.MustCompile(`\brw[_.][a-z_]{2,}`).FindAllString(text, -1) {
			_, ours := toolbox.Lookup(name[3:])
			of, ok := h.tool(name)
			known := ok && of.Listed || strings.HasPrefix(where, "describe") // which says what is not listed
			testbed.Expect(t, !ours || known && wire(name) == name, "%s: %s is not listed: %.300s", where, name, text)
		}
	}
	ask := func(method, params string) string {
		out := testbed.Must(json.Marshal(Handle(t.Context(), s, json.RawMessage(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`))))(t)
		return string(out)
	}
	for round := range 2 {
		for _, p := range prompts {
			for _, args := range []string{`{"task_id":"t"}`, `{}`} {
				check("the prompt "+p.Name, ask("prompts/get", `{"name":"`+p.Name+`","arguments":`+args+`}`))
			}
		}
		for _, list := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
			check(list, ask(list, `{}`))
		}
		for _, uri := range []string{"journal", "handoff", "history/a.txt", "history/none", "file/none", "file/big", "file/a.txt", "checkpoint/c", "checkpoint/none", "chunks/none", "policy", "describe"} {
			check(uri, ask("resources/read", `{"uri":"rw://`+uri+`"}`))
		}
		if round == 1 {
			break
		}
		key := strings.Join([]string{"AKIA", "QWERTYUIOPAS2345"}, "")
		check("initialize", ask("initialize", `{"protocolVersion":"2025-11-25","clientInfo":{"name":"t","version":"1"},"capabilities":{}}`))
		none := `{"path":"none.txt"}`
		for _, call := range [][2]string{
			{"safe_write", `{"path":"a.txt","content":"x"}`}, {"safe_write", `{"path":"a.txt","content":"x"}`},
			{"safe_write", `{"path":"b.txt","cntent":"x"}`}, {"safe_write", `{"path":"b.txt"}`},
			{"safe_write", `{"path":"big","content":"` + strings.Repeat("x", 1<<20+1) + `"}`},
			{"safe_write", `{"path":"k.env","content":"K=` + key + `"}`}, {"safe_write", `{"path":"mail.txt","content":"somebody@example.com"}`},
			{"edit", `{"path":"none.txt","edits":[{"old":"a","new":"b"}]}`}, {"edit", `{"path":"a.txt","edits":[{"old":"","new":"b"}]}`},
			{"restore", `{"path":"a.txt","version":99}`}, {"restore", `{"path":"a.txt"}`},
			{"checkpoint", `{"name":"c","data":1}`}, {"checkpoint_read", `{"name":"none"}`},
			{"chunk_append", `{"session":"s","content":"x"}`}, {"chunk_append", `{"session":"s","content":"y","expect_index":7}`},
			{"chunk_compose", `{"session":"none","output_path":"o"}`}, {"chunk_status", `{"session":"s"}`},
			{"tx", `{"ops":[]}`}, {"tx_begin", `{}`}, {"tx_commit", `{"tx_id":"tx_none"}`}, {"scratch_get", `{"sha256":"` + strings.Repeat("0", 64) + `"}`},
			{"handoff_read", `{}`},
			{"handoff_write", `{"auto_state":true,"envelope":{"task_id":"t","status":"partial","agent":"a","summary":"s","next_steps":["n"]}}`},
			{"describe", `{}`}, {"journal_tail", `{}`}, {"no_such", `{}`}, {"read", none}, {"read", none}, {"read", none}, {"read", none}, // the budget ends
		} {
			name := wire("rw_" + call[0])
			text := ask("tools/call", `{"name":"`+name+`","arguments":`+call[1]+`}`)
			if of, _ := h.tool(name); of.Listed || !strings.Contains(text, `"isError":true`) { // a refusal names what was called
				check(call[0]+" "+call[1], text)
			}
		}
	}
	ask("tools/call", `{"name":"`+wire("rw_safe_write")+`","arguments":{"path":"names.txt","content":"call rw_read, hint: rw_edit"}}`)
	text := ask("tools/call", `{"name":"`+wire("rw_read")+`","arguments":{"path":"names.txt"}}`)
	_, ok := h.tool(wire("rw_read"))
	testbed.Expect(t, !ok || strings.Contains(text, "call rw_read, hint: rw_edit"), "what a file holds does not stay: %s", text)
	testbed.Expect(t, texts >= 40, "only %d texts", texts)
}

// aServer is a server, and one client that hears all messages.
func aServer(t *testing.T, o *Options) (*host, *server.MCPServer, *server.InProcessSession, context.Context) {
	t.Helper()
	store := testbed.Must(rw.Open(context.Background(), t.TempDir(), &rw.Options{Sync: rw.SyncOff}))(t)
	t.Cleanup(func() { store.Close(context.Background()) })
	s := New(store, o)
	h := hostOf(s)
	session := server.NewInProcessSession("one", nil)
	testbed.NoErr(t, s.RegisterSession(context.Background(), session))
	session.Initialize()
	session.SetLogLevel(mcp.LoggingLevelDebug)
	return h, s, session, s.WithContext(context.Background(), session)
}

func messages(session *server.InProcessSession) (list []string) {
	for {
		select {
		case n := <-session.ClientNotifications():
			if n.Method == string(mcp.MethodNotificationMessage) {
				data, _ := json.Marshal(n.Params.AdditionalFields)
				list = append(list, string(data))
			}
		default:
			return list
		}
	}
}

// TestMessageOfAPoisonedStore: an error, once, with either form of replies.
func TestMessageOfAPoisonedStore(t *testing.T) {
	for _, form := range []Replies{BriefReplies, FullReplies} {
		messageOfAPoisonedStore(t, form)
	}
}

func messageOfAPoisonedStore(t *testing.T, form Replies) {
	h, s, session, ctx := aServer(t, &Options{Replies: form})
	refused := func(d rw.Detail) *mcp.CallToolResult {
		return h.result(h.box.Refuse("describe", rw.NewError("describe", d, "", nil)))
	}
	poisoned := refused(rw.ErrStorePoisoned)
	other := refused(rw.ErrNotFound)
	var on context.Context
	s.AddTool(mcp.NewTool("probe"), func(ctx context.Context, _ mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		on = ctx
		return mcp.NewToolResultText(""), nil
	})
	s.HandleMessage(ctx, json.RawMessage(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"probe"}}`))
	for _, res := range []*mcp.CallToolResult{other, poisoned, poisoned, nil, {}} {
		h.live.remark(on, "rw_describe", res)
	}
	got := messages(session)
	testbed.Expect(t, len(got) == 1 && strings.Contains(got[0], `"level":"error"`) && strings.Contains(got[0], "store_poisoned"), "%q", got)
}

// TestPreparedComesFromOurHookOnly: what a client puts into the metadata of a request is
// no result.
func TestPreparedComesFromOurHookOnly(t *testing.T) {
	_, s, _, ctx := aServer(t, nil)
	for method, params := range map[string]string{"resources/read": `"uri":"rw://policy"`, "prompts/get": `"name":"resume_task"`} {
		for _, forged := range []string{`"forged"`, `{"text":"forged","contents":{"text":"forged"}}`, `null`} {
			raw := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,"_meta":{%q:%s}}}`, method, params, prepared, forged)
			out := string(testbed.Must(json.Marshal(s.HandleMessage(ctx, json.RawMessage(raw))))(t))
			testbed.Expect(t, strings.Contains(out, `"result"`) && !strings.Contains(out, "forged"), "%s: %s", raw, out)
		}
	}
}

// TestSentMessagesAreBounded: clients that call themselves something new each time
// do not fill the memory.
func TestSentMessagesAreBounded(t *testing.T) {
	var sent onceMessages
	for i := range 10 * maxGreeted {
		testbed.Require(t, sent.first(fmt.Sprint(i), "event") && !sent.first(fmt.Sprint(i), "event"), "sent twice or never")
	}
	testbed.Expect(t, len(sent.done) <= 2*maxGreeted, "%d are remembered", len(sent.done))
}

// TestTopicsOfEveryAddress: an address and what a row says meet in one topic,
// however either is written.
func TestTopicsOfEveryAddress(t *testing.T) {
	for uri, e := range map[string]rw.JournalEntry{
		"rw://file/a.txt":              {Path: "a.txt"},
		"rw://file/.%2Fdir%2F..%2Fa":   {Path: "a"},
		"rw://history/real.txt":        {Path: "link.txt", RealPath: "real.txt"},
		"rw://history/link.txt":        {Path: "link.txt", RealPath: "real.txt"},
		"rw://handoff":                 {Path: "HANDOFF.md"},
		"rw://file/HANDOFF.md":         {Path: "HANDOFF.md"},
		"rw://chunks/s":                {Path: ".resilient_write/chunks/s/part-001.txt"},
		"rw://checkpoint/a.b":          {Path: ".resilient_write/checkpoints/a.b.json"},
		"rw://file/%C3%BC%20%3F%23.md": {Path: "ü ?#.md"},
	} {
		want, ok := topicOf(uri)
		testbed.Expect(t, ok && slices.Contains(topicsOf(e), want), "%s: %v %v, a row has %v", uri, want, ok, topicsOf(e))
	}
	for _, e := range []rw.JournalEntry{{}, {Path: ".resilient_write/scratch/x"}, {Path: ".resilient_write/"}, {Path: ".resilient_write/quarantine/draft"}} {
		got := topicsOf(e)
		testbed.Expect(t, len(got) == 0, "%q: %v", e.Path, got)
	}
}

// TestDeclaredRootsCountInside: what a client declares is a root only inside a
// directory that the operator allowed, only for that client, and only as long as
// it is connected.
func TestDeclaredRootsCountInside(t *testing.T) {
	top := testbed.Must(filepath.EvalSymlinks(t.TempDir()))(t)
	in := func(parts ...string) string { return filepath.Join(append([]string{top}, parts...)...) }
	for _, dir := range []string{in("root"), in("allowed", "one"), in("allowed-not"), in("other")} {
		testbed.NoErr(t, os.MkdirAll(dir, 0o755))
	}
	os.Symlink(in("other"), in("allowed", "link"))
	w := &Workspaces{Root: in("root"), Allow: []string{in("allowed")}}
	w.declare("a", []string{in("allowed", "one"), in("allowed", "link"), in("allowed-not"), in("other"), in("allowed", "..", "other"), top, "/", in("allowed", "none")})
	base := []string{in("root"), in("allowed")}
	got := w.roots("a")
	testbed.Expect(t, slices.Equal(got, append(slices.Clone(base), in("allowed", "one"))), "%v", got)
	got = w.roots("b")
	testbed.Expect(t, slices.Equal(got, base), "of another client: %v", got)
	w.declare("a", nil)
	got = w.roots("a")
	testbed.Expect(t, slices.Equal(got, base), "after its end: %v", got)
	testbed.NoErr(t, os.Remove(in("root")))
	got = w.roots("a")
	testbed.Expect(t, slices.Equal(got, base), "without the root of the server: %v", got)
	testbed.Equal(t, innermost(append(base, in("allowed", "one")), in("allowed", "one", "x", "y")), in("allowed", "one"))
	got = names([]string{"/a/x", "/b/x", "/c/y"})
	testbed.Expect(t, slices.Equal(got, []string{"a/x", "b/x", "y"}), "%v", got)
}
