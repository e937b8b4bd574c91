package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// agent is one connection to the built command, as a client with some name that
// sends arbitrary claims in every call.
type agent struct {
	t    *testing.T
	send func(message string) map[string]any // returns the reply
	stop func()
	last int
}

// way is a transport: connect starts the command over stdio for a workspace, or
// joins one that serves HTTP.
type way struct {
	name    string
	connect func(t *testing.T, client string) *agent
}

const identityToken = "a-token-of-this-test-long-enough"

func transports(t *testing.T) []way {
	dir := t.TempDir()
	web := startHTTP(t, nil, "-transport", "http", "-token", identityToken)
	return []way{
		{"stdio", func(t *testing.T, client string) *agent { return connectStdio(t, dir, client) }},
		{"http", func(t *testing.T, client string) *agent { return connectHTTP(t, web, client) }},
	}
}

func (a *agent) initialize(client string) *agent {
	info, _ := json.Marshal(client)
	a.request("initialize", fmt.Sprintf(`{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":%s,"version":"1.2"}}`, info))
	return a
}

func (a *agent) request(method, params string) map[string]any {
	a.t.Helper()
	a.last++
	return a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, a.last, method, params))
}

// tool calls a tool; meta is what a host sends with it.
func (a *agent) tool(name, args, meta string) map[string]any {
	a.t.Helper()
	meta = cmp.Or(meta, `{}`)
	doc := a.request("tools/call", fmt.Sprintf(`{"name":%q,"arguments":%s,"_meta":%s}`, name, args, meta))
	out := structured(doc)
	require(a.t, out != nil, "%s: %v", name, doc)
	return out
}

// reply calls a tool and returns the structured reply, or nil.
// It may be called from other goroutines.
func (a *agent) reply(name, args string) map[string]any {
	return structured(a.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, name, args)))
}

// structured returns the structured reply of a message.
func structured(doc map[string]any) map[string]any {
	result, _ := doc["result"].(map[string]any)
	out, _ := result["structuredContent"].(map[string]any)
	return out
}

func (a *agent) write(path, more, meta string) {
	a.t.Helper()
	doc := a.tool("rw_safe_write", fmt.Sprintf(`{"path":%q,"content":"x"%s}`, path, more), meta)
	require(a.t, doc["ok"] == true, "%s: %v", path, doc)
}

// undo calls rw_undo and returns the paths that it reverted, or the reason why
// it did not.
func (a *agent) undo(args, meta string) string {
	a.t.Helper()
	doc := a.tool("rw_undo", args, meta)
	if doc["ok"] != true {
		return reason(doc)
	}
	var paths []string
	for _, one := range doc["results"].([]any) {
		paths = append(paths, one.(map[string]any)["path"].(string))
	}
	return strings.Join(paths, ",")
}

// row returns the newest row.
func (a *agent) row(more string) map[string]any {
	a.t.Helper()
	list := a.tool("rw_journal_tail", `{"n":1`+more+`}`, "")["entries"].([]any)
	return list[len(list)-1].(map[string]any)
}

func connectStdio(t *testing.T, dir, client string) *agent {
	t.Helper()
	w := startStdio(t, dir)
	a := &agent{t: t, stop: w.stop}
	a.send = func(message string) map[string]any {
		w.line(message)
		return w.answer(float64(a.last), servedTime)
	}
	return a.initialize(client)
}

func connectHTTP(t *testing.T, s *served, client string) *agent {
	t.Helper()
	session := ""
	a := &agent{t: t, stop: func() {}}
	a.send = func(message string) (doc map[string]any) {
		res, body, err := s.post(identityToken, session, message)
		noErr(t, err)
		if id := res.Header.Get("Mcp-Session-Id"); session == "" {
			session = id
		}
		for _, line := range strings.Split(body, "\n") {
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				body = data
			}
		}
		json.Unmarshal([]byte(body), &doc)
		return doc
	}
	return a.initialize(client)
}

// TestUndoNeverCrosses: two clients of one name, on two connections, one of
// which claims to be the other in every argument. Neither undoes what the other
// wrote, and rows keep what the server knew in addition to the claims.
func TestUndoNeverCrosses(t *testing.T) {
	for _, over := range transports(t) {
		t.Run(over.name, func(t *testing.T) {
			honest, liar := over.connect(t, "agent"), over.connect(t, "agent")
			honest.write("mine.txt", "", "")
			own := honest.row("")
			via := own["via"].(map[string]any)
			expect(t, via["client"] == "agent" && via["version"] == "1.2" && via["connection"] == own["session"] && strings.HasPrefix(fmt.Sprint(own["session"]), "mcp-"),
				"%v", own)
			session := own["session"].(string)
			for i, claim := range []string{
				`,"caller":"agent"`,
				`,"caller":"alice (human)"`,
				`,"caller":"agent","session":"work"`,
			} {
				liar.write(fmt.Sprintf("lie%d.txt", i), claim, "")
				row := liar.row("")
				expect(t, row["via"].(map[string]any)["client"] == "agent" && row["via"].(map[string]any)["connection"] != session, "claim %s: %v", claim, row)
			}
			for _, forged := range []string{session, "mcp-0", "MCP-" + session[4:]} {
				for _, tool := range []string{"rw_safe_write", "rw_undo", "rw_scratch_put"} {
					args := map[string]string{"rw_safe_write": `"path":"f","content":"x",`, "rw_undo": "", "rw_scratch_put": `"content":"x","label":"l",`}[tool]
					doc := liar.tool(tool, `{`+args+`"session":"`+forged+`"}`, "")
					about, _ := doc["context"].(map[string]any)
					expect(t, reason(doc) == "invalid_argument" && about["argument"] == "session", "%s in session %s: %v", tool, forged, doc)
				}
			}
			for step, got := range []string{
				honest.undo(`{}`, ""), // although the liar wrote later, under its name
				honest.undo(`{}`, ""), // and again
				honest.undo(`{"session":"work"}`, ""),
				over.connect(t, "agent").undo(`{}`, ""),
			} {
				want := []string{"mine.txt", "mine.txt", "lie2.txt", "nothing_to_undo"}[step]
				expect(t, got == want, "step %d: %s, want %s", step, got, want)
			}
			got := liar.undo(`{"n":1}`, "")
			expect(t, got != "mine.txt", "the liar took back %s", got)
		})
	}
}

// TestAClaimIsNotTrusted: an agent whose rows name another caller can undo its
// own rows, and the named caller cannot. History also shows what the server knew.
func TestAClaimIsNotTrusted(t *testing.T) {
	for _, over := range transports(t) {
		t.Run(over.name, func(t *testing.T) {
			alice, bot := over.connect(t, "alice (human)"), over.connect(t, "bot")
			alice.write("a.txt", "", "")
			bot.write("b.txt", `,"caller":"alice (human)"`, "")
			versions := bot.tool("rw_history", `{"path":"b.txt"}`, "")["versions"].([]any)
			for _, row := range []map[string]any{bot.row(""), versions[0].(map[string]any)} {
				expect(t, row["caller"] == "alice (human)" && row["via"].(map[string]any)["client"] == "bot", "%v", row)
			}
			equal(t, alice.undo(`{}`, ""), "a.txt", "alice took back")
			equal(t, bot.undo(`{}`, ""), "b.txt", "the bot took back")
		})
	}
}

// TestAThreadContinues: the thread of the client's host is the session,
// whatever the arguments say, and a client that reconnects continues in it.
// Neither another client that names the thread nor one that claims it in an
// argument gets into the session.
func TestAThreadContinues(t *testing.T) {
	t.Parallel()
	const thread = `{"threadId":"01a2-thread","callId":"call_7"}`
	for _, over := range transports(t) {
		t.Run(over.name, func(t *testing.T) {
			first := over.connect(t, "codex")
			first.write("one.txt", `,"session":"elsewhere"`, thread)
			row := first.row("")
			via := row["via"].(map[string]any)
			expect(t, row["session"] == "01a2-thread" && via["thread"] == "01a2-thread" && via["call"] == "call_7", "%v", row)
			first.stop()
			again, other, same := over.connect(t, "codex"), over.connect(t, "intruder"), over.connect(t, "codex")
			same.write("lie.txt", `,"session":"01a2-thread","caller":"codex"`, "")
			other.write("third.txt", `,"caller":"codex"`, thread)
			equal(t, same.undo(`{}`, `{"threadId":"another"}`), "nothing_to_undo", "in another thread")
			equal(t, again.undo(`{}`, thread), "one.txt", "after a reconnect")
			equal(t, other.undo(`{}`, thread), "third.txt", "another client in the thread")
		})
	}
}

// TestSessionOfClaudeCode: calls over stdio are in the session that the host
// passes to its server, which is that of its hooks, unless a call names another
// one.
func TestSessionOfClaudeCode(t *testing.T) {
	t.Setenv("CLAUDE_CODE_SESSION_ID", "6f14-session")
	a := connectStdio(t, t.TempDir(), "claude-code")
	for meta, want := range map[string]string{"": "6f14-session", `{"threadId":"01a2-thread"}`: "01a2-thread"} {
		a.write("of-"+want+".txt", `,"session":"elsewhere"`, meta)
		row := a.row("")
		expect(t, row["session"] == want, "%v", row)
	}
}

// TestMetaOfAnyType: a host may send values of any type; a thread that is not
// text, or that would look like a connection, counts as absent.
func TestMetaOfAnyType(t *testing.T) {
	t.Parallel()
	long, _ := json.Marshal(strings.Repeat("t", 1<<17))
	for _, over := range transports(t) {
		t.Run(over.name, func(t *testing.T) {
			a := over.connect(t, "agent")
			for i, thread := range []string{
				`5`, `null`, `true`, `[]`, `{"a":"b"}`, `""`, `"mcp-0123456789abcdef"`, `"Mcp-x"`, `"a\u202eb"`, `"\u001b[2J"`, `"\ud800"`, string(long),
			} {
				a.write(fmt.Sprintf("f%d", i), "", `{"threadId":`+thread+`,"callId":`+thread+`,"claudecode/toolUseId":`+thread+`}`)
				row := a.row("")
				via := row["via"].(map[string]any)
				expect(t, via["thread"] == nil && row["session"] == via["connection"], "thread %.40s: %v", thread, row)
				call, _ := via["call"].(string)
				expect(t, len(call) <= 200 && !strings.ContainsAny(call, "\x1b\u202e"), "call %.40s: %q", thread, call)
			}
			for _, meta := range []string{`7`, `"x"`, `[]`, `null`} {
				doc := a.request("tools/call", `{"name":"rw_describe","arguments":{},"_meta":`+meta+`}`)
				expect(t, doc["result"] != nil || doc["error"] != nil, "_meta %s: %v", meta, doc)
			}
		})
	}
}

// TestHostileClientNames: whatever name a client gives, its rows contain at
// most 200 bytes of it, no control sequence for a terminal, and no secret. The
// same is true of refusals.
func TestHostileClientNames(t *testing.T) {
	t.Parallel()
	secret := "xoxb-" + strings.Repeat("4815162342", 2)[:12] + "-" + strings.Repeat("7238109456", 2)[:12] + "-" + strings.Repeat("aB3dE6gH9j", 3)[:24]
	for _, over := range transports(t) {
		t.Run(over.name, func(t *testing.T) {
			for _, name := range []string{strings.Repeat("n", 900<<10), "a\x1b]0;x\x07b\u202ec\u200bd", secret, "", "\x00"} {
				a := over.connect(t, name)
				a.write(fmt.Sprintf("%s-%d.txt", over.name, len(name)), "", "")
				doc := a.tool("rw_safe_write", fmt.Sprintf(`{"path":"%s-%d.txt","content":"y","mode":"create"}`, over.name, len(name)), "")
				require(t, doc["ok"] != true, "%v", doc)
				for _, more := range []string{"", `,"include_refused":true`} {
					row := a.row(more)
					text, _ := json.Marshal(row)
					via, _ := row["via"].(map[string]any)
					client, _ := via["client"].(string)
					expect(t, len(client) <= 200 && len(text) <= 2000 && via["connection"] != nil && !strings.Contains(string(text), secret),
						"%.40q: %.300s", name, text)
					expect(t, !strings.ContainsAny(client, "\x00\x07\x1b\u202e\u200b"), "%.40q: %q", name, client)
				}
			}
		})
	}
}

// TestSinceHidesOnlyOwnRows: an agent that continues from its cursor does not get
// the rows that it wrote itself, but does get those that another one wrote under
// its name.
func TestSinceHidesOnlyOwnRows(t *testing.T) {
	for _, over := range transports(t) {
		t.Run(over.name, func(t *testing.T) {
			honest, liar := over.connect(t, "agent"), over.connect(t, "agent")
			honest.write("mine.txt", `,"caller":"planner"`, "")
			liar.write("lie.txt", `,"caller":"planner"`, "")
			honest.write("thread.txt", `,"caller":"planner"`, `{"threadId":"one"}`)
			for meta, want := range map[string]string{"": "lie.txt thread.txt", `{"threadId":"one"}`: "mine.txt lie.txt", `{"threadId":"two"}`: "mine.txt lie.txt thread.txt"} {
				var paths []string
				for _, e := range honest.tool("rw_journal_since", `{"agent":"planner"}`, meta)["entries"].([]any) {
					paths = append(paths, e.(map[string]any)["path"].(string))
				}
				equal(t, strings.Join(paths, " "), want, "in ", meta)
			}
		})
	}
}

// TestNoSessionIsFixed: a client can neither choose the id of its session nor
// get into one by naming it at the start.
func TestNoSessionIsFixed(t *testing.T) {
	web := startHTTP(t, nil, "-transport", "http", "-token", identityToken)
	begin := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}`
	for _, want := range []string{"chosen-by-the-attacker", web.begin(identityToken)} {
		res, _, err := web.post(identityToken, want, begin)
		noErr(t, err)
		got := res.Header.Get("Mcp-Session-Id")
		expect(t, got != "" && got != want, "a client that asked for the session %q got %q", want, got)
	}
	res, _, err := web.post(identityToken, "chosen-by-the-attacker", `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	expect(t, err == nil && res.StatusCode == 404, "%v %v", res, err)
}

// argumentAt is the path to one argument of a tool: names of members, and 0 for
// the first item of a list.
type argumentAt []any

func (a argumentAt) String() string { return fmt.Sprint([]any(a)...) }

// textArguments returns the arguments of a schema that may be text, including
// nested ones.
func textArguments(t *testing.T, schema json.RawMessage) (list []argumentAt) {
	t.Helper()
	root := testbed.Decoded[map[string]any](t, schema)
	var walk func(node map[string]any, at argumentAt)
	walk = func(node map[string]any, at argumentAt) {
		for _, kind := range []string{"anyOf", "oneOf", "allOf"} {
			branches, _ := node[kind].([]any)
			for _, b := range branches {
				walk(b.(map[string]any), at)
			}
		}
		kinds := fmt.Sprint(node["type"])
		if (strings.Contains(kinds, "string") || node["type"] == nil && len(at) > 0) && !slices.ContainsFunc(list, func(a argumentAt) bool { return a.String() == at.String() }) {
			list = append(list, slices.Clone(at))
		}
		if items, ok := node["items"].(map[string]any); ok {
			walk(items, append(slices.Clone(at), 0))
		}
		members, _ := node["properties"].(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(members)) {
			walk(members[name].(map[string]any), append(slices.Clone(at), name))
		}
	}
	walk(root, nil)
	return list
}

// set returns a copy of arguments with one of them replaced; missing parents
// are created.
func set(node any, at argumentAt, value any) any {
	if len(at) == 0 {
		return value
	}
	if name, ok := at[0].(string); ok {
		members, _ := node.(args)
		members = maps.Clone(members)
		if members == nil {
			members = args{}
		}
		members[name] = set(members[name], at[1:], value)
		return members
	}
	items, _ := node.([]any)
	if items = slices.Clone(items); len(items) == 0 {
		items = []any{nil}
	}
	items[0] = set(items[0], at[1:], value)
	return items
}

// holding lists the files below a directory whose name or content contains one
// of the secrets, except those in the quarantine.
func holding(t *testing.T, dir string, secrets map[string]string) (found []string) {
	t.Helper()
	for e := range testbed.Entries(t, dir, ".resilient_write/quarantine") {
		found = append(found, tellers([]byte(e.Path+e.Text), e.Path, secrets)...)
	}
	return found
}

func tellers(data []byte, where string, secrets map[string]string) (found []string) {
	for what, secret := range secrets {
		forms, known := formsOf[secret]
		if !known {
			for _, form := range testbed.Forms(secret) {
				forms = append(forms, []byte(form))
			}
			formsOf[secret] = forms
		}
		if slices.ContainsFunc(forms, func(form []byte) bool { return bytes.Contains(data, form) }) {
			found = append(found, what+" in "+where)
		}
	}
	return found
}

// formsOf caches the forms of secrets.
var formsOf = map[string][][]byte{}

// mayKeep are the arguments whose text is kept on purpose: the scratchpad is
// where raw material belongs.
var mayKeep = map[string]bool{"scratch_put content": true}

// TestNoArgumentLeavesACredential puts a different credential into every
// argument of every tool that accepts text, as the schemas list them, and calls
// the tool in the binary. Whatever the outcome of the call, neither its reply,
// nor the log, nor a file or its name contains the credential afterwards; only
// the quarantine may. A new argument is covered by its schema.
func TestNoArgumentLeavesACredential(t *testing.T) {
	t.Parallel()
	s := openSurface(t)
	log, _ := client.GetStderr(s.c)
	logged := make(chan []byte, 1)
	go func() {
		data, _ := io.ReadAll(log)
		logged <- data
	}()
	secrets, calls := map[string]string{}, 0
	try := func(tool string, at argumentAt, a any, what string) {
		calls++
		secret := madeUpToken()
		key := what + tool + " " + at.String()
		if !mayKeep[key] {
			secrets[key] = secret
		}
		times := 1
		if len(at) == 1 && at[0] == "path" {
			times = 4 // the last one is refused by the retry budget
		}
		for range times {
			out := callTool(t, s.c, "rw_"+tool, set(a, at, secret).(args))
			if out["ok"] == true && s.tools[tool].ReadOnly && tool != "validate" {
				continue // the caller's own text, stored nowhere
			}
			doc, _ := json.Marshal(out)
			for _, where := range tellers(doc, "its reply", map[string]string{key: secret}) {
				t.Errorf("%s: %s", where, doc)
			}
		}
	}
	for _, c := range surfaceCases {
		good := c.good(s)
		s.replies[c.tool] = callTool(t, s.c, "rw_"+c.tool, good)
		for _, at := range testbed.Share(t, textArguments(t, s.tools[c.tool].Input), 3, nil) {
			try(c.tool, at, good, "")
			try(c.tool, at, c.bad, "refused ")
		}
		surplus := madeUpToken() // as the name of an argument
		secrets["the name of an argument of "+c.tool] = surplus
		try(c.tool, argumentAt{surplus}, good, "unknown ")
	}
	expect(t, calls >= 300 || !testbed.Long(), "only %d arguments were tried", calls)
	for _, where := range holding(t, s.dir, secrets) {
		t.Error(where)
	}
	s.c.Close()
	for _, where := range tellers(<-logged, "the log", secrets) {
		t.Error(where)
	}
	for _, where := range holding(t, s.dir, secrets) {
		t.Error(where + " after the end of the server")
	}
}
