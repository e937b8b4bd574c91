package toolbox_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/hook"
	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

var ctx = context.Background()

func open(t *testing.T) *rw.Store {
	t.Helper()
	store := testbed.Must(rw.Open(ctx, t.TempDir(), &rw.Options{Sync: rw.SyncOff}))(t)
	t.Cleanup(func() { store.Close(ctx) })
	return store
}

func raw(s string) json.RawMessage { return json.RawMessage(s) }

// TestNoProtocolInside: a program that uses the toolbox contains neither an
// MCP library nor an HTTP server, and this package no third one but the limiter
// of calls.
func TestNoProtocolInside(t *testing.T) {
	deps, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	testbed.Require(t, err == nil, "%v: %s", err, deps)
	bad := regexp.MustCompile(`(?m)^(net/http|.*mcp-go.*|.*gojsonschema.*|.*/mcpserver.*)$`).FindAllString(string(deps), -1)
	testbed.Expect(t, bad == nil, "depends on %v", bad)
	direct, err := exec.Command("go", "list", "-f", `{{join .Imports "\n"}}`, ".").CombinedOutput()
	testbed.Require(t, err == nil, "%v: %s", err, direct)
	for name := range strings.Lines(string(direct)) {
		if name = strings.TrimSpace(name); strings.Contains(name, ".") && !strings.HasPrefix(name, "github.com/resilientwrite/") && name != "golang.org/x/time/rate" {
			t.Errorf("imports %s", name)
		}
	}
}

// TestCalls: what a call answers, under every name, and what is refused.
func TestCalls(t *testing.T) {
	for _, form := range []toolbox.Replies{toolbox.BriefReplies, toolbox.FullReplies} {
		box := toolbox.New(open(t), &toolbox.Options{Caller: "robot", Replies: form})
		a := box.Call(ctx, "rw_safe_write", raw(`{"path":"a","content":"x"}`), nil)
		testbed.Expect(t, a.OK && a.Receipt.Caller == "robot" && a.Receipt.JournalSeq != 0 && a.Receipt.Journaled && a.Receipt.Code == rw.CodeOK &&
			a.Receipt.InvocationID != "", "%s %+v", a.Text, a.Receipt)
		for _, call := range []struct{ name, args, want string }{
			{"rw_safe_write", `{"path":"a","content":"y"}`, "file_already_exists"},
			{"rw.safe_write", `{"path":"a","content":"y"}`, "file_already_exists"},
			{"rw_safe_wirte", `{}`, `"did_you_mean":"rw_safe_write"`},
			{"safe_write", `{}`, `"did_you_mean":"rw_safe_write"`},
			{"rw_create", `{}`, `"did_you_mean":"rw_safe_write"`},
			{"write_file", `{}`, `"did_you_mean":"rw_safe_write"`},
			{"str_replace", `{}`, `"did_you_mean":"rw_edit"`},
			{"mcp__resilientwrite__rw_safe_write", `{}`, `"did_you_mean":"rw_safe_write"`},
			{"rw_read", `[`, "invalid_argument"},
			{"", ``, "unknown_tool"},
		} {
			a := box.Call(ctx, call.name, raw(call.args), nil)
			testbed.Expect(t, !a.OK && strings.Contains(a.Text, call.want) && a.Receipt.Code != rw.CodeOK && a.Receipt.Status != rw.StatusSucceeded,
				"%s %s: %s", call.name, call.args, a.Text)
		}
		refused := box.Refuse("my_tool", rw.NewError("my_tool", rw.ErrDenied, "", nil))
		testbed.Expect(t, !refused.OK && strings.Contains(refused.Text, `"ok":false`) && strings.Contains(refused.Text, "denied") &&
			refused.Receipt.Code == rw.CodePolicy, "%+v", refused)
	}
}

// TestToolsOfATier: names to call, schemas as bytes and as a map, and the same
// tools by Find with all their arguments.
func TestToolsOfATier(t *testing.T) {
	store := open(t)
	for tier, want := range map[toolbox.Preset]int{toolbox.Core: 7, toolbox.Standard: 12, toolbox.Full: len(toolbox.Table())} {
		for _, info := range toolbox.Table() { // what is not listed can be called, and with every argument
			a := toolbox.New(store, &toolbox.Options{Tier: tier}).Call(ctx, "rw_"+info.Name, raw(`{"no such argument":1}`), nil)
			if (info.Name == "exec" || info.Name == "claim") && tier != toolbox.Full { // but for those that hosts have to ask for
				testbed.Expect(t, !a.OK && strings.Contains(a.Text, "unknown_tool"), "%s under %s: %s", info.Name, tier, a.Text)
				continue
			}
			testbed.Expect(t, !a.OK && (strings.Contains(a.Text, "unknown_argument") || strings.Contains(a.Text, "retry_exhausted")),
				"%s under %s: %s", info.Name, tier, a.Text)
		}
		a := toolbox.New(store, &toolbox.Options{Tier: tier}).Call(ctx, "rw_safe_write", raw(`{"path":"a","content":"x","dry_run":true,"caller":"me"}`), nil)
		testbed.Expect(t, a.OK, "%s: %s", tier, a.Text)
		box := toolbox.New(nil, &toolbox.Options{Tier: tier})
		tools := box.Tools()
		missing := len(toolbox.Table()) - len(box.All())
		testbed.Expect(t, len(tools) == want && (missing == 2 || tier == toolbox.Full) && (missing <= 0 || tier != toolbox.Full), "%s lists %d tools of %d", tier, len(tools), len(box.All()))
		for _, info := range tools {
			testbed.Expect(t, info.Name == "rw_"+info.Stem && info.Description != "" && info.Listed, "%+v", info)
			m := info.InputMap()
			back, err := json.Marshal(m)
			testbed.Expect(t, err == nil && m["type"] == "object" && sameJSON(t, back, info.Input), "%s: %s is not %s", info.Name, back, info.Input)
			whole, ok := box.Find("rw." + info.Stem)
			testbed.Expect(t, ok && whole.Name == info.Name && len(whole.Input) >= len(info.Input), "%s: %v", info.Name, whole)
		}
	}
	_, ok := toolbox.New(nil, nil).Find("rw_nothing")
	testbed.Expect(t, !ok, "found what does not exist")
	_, err := toolbox.ParsePreset("standart")
	testbed.Expect(t, err != nil && strings.Contains(err.Error(), "did you mean standard"), "%v", err)
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	testbed.NoErr(t, errors.Join(json.Unmarshal(a, &x), json.Unmarshal(b, &y)))
	return reflect.DeepEqual(x, y)
}

// TestSessionsOfCalls: the host names the conversation, not the model; undo
// stays inside it.
func TestSessionsOfCalls(t *testing.T) {
	store := open(t)
	box := toolbox.New(store, &toolbox.Options{Caller: "robot"})
	one, two := &toolbox.CallOpts{Session: "thread-1", CallID: "call_1"}, &toolbox.CallOpts{Session: "thread-2"}
	for path, o := range map[string]*toolbox.CallOpts{"one": one, "two": two} {
		a := box.Call(ctx, "rw_safe_write", raw(`{"path":"`+path+`","content":"x","session":"made up"}`), o)
		testbed.Expect(t, a.OK && a.Receipt.Session == o.Session, "%s: %s, session %q", path, a.Text, a.Receipt.Session)
	}
	a := box.Call(ctx, "rw_undo", nil, one)
	testbed.Expect(t, a.OK && strings.Contains(a.Text, `"one"`) && !strings.Contains(a.Text, `"two"`), "%s", a.Text)
	a = box.Call(ctx, "rw_undo", raw(`{"n":1}`), &toolbox.CallOpts{Session: "thread-3"})
	testbed.Expect(t, !a.OK && strings.Contains(a.Text, "nothing_to_undo"), "a conversation that wrote nothing: %s", a.Text)
	// A composed file is of the session that composed it.
	box.Call(ctx, "rw_chunk_append", raw(`{"session":"parts","content":"x"}`), one)
	a = box.Call(ctx, "rw_chunk_compose", raw(`{"session":"parts","output_path":"composed"}`), one)
	testbed.Expect(t, a.OK, "%s", a.Text)
	box.Call(ctx, "rw_safe_write", raw(`{"path":"later","content":"x"}`), two)
	a = box.Call(ctx, "rw_undo", nil, one)
	testbed.Expect(t, a.OK && strings.Contains(a.Text, `"composed"`) && !strings.Contains(a.Text, `"later"`), "%s", a.Text)
	inContext := toolbox.WithCallOpts(toolbox.WithCallOpts(ctx, *one), toolbox.CallOpts{Client: "c"})
	for _, c := range []struct {
		opts    *toolbox.CallOpts
		session string
	}{{nil, "thread-1"}, {two, "thread-2"}} {
		a := box.Call(inContext, "rw_safe_write", raw(`{"path":"three","content":"`+c.session+`","mode":"overwrite"}`), c.opts)
		tail, err := store.JournalTail(ctx, rw.JournalTailRequest{N: 1})
		via := tail.Entries[0].Via
		testbed.Expect(t, err == nil && a.OK && a.Receipt.Session == c.session && via != nil && via.Client == "c" && via.Call == "call_1", "%s: %s %+v %v", c.session, a.Text, via, err)
	}
	a = box.Call(ctx, "rw_read", raw(`{"path":"two"}`), two)
	testbed.Expect(t, a.OK, "%s", a.Text)
}

// TestKeysOfCalls: a key makes a repeated call happen once, an id of the
// provider does the same for the same arguments and never refuses others.
func TestKeysOfCalls(t *testing.T) {
	const id = "call_0123456789abcdef0123"
	appendTo := func(path, text string) json.RawMessage {
		return raw(`{"path":"` + path + `","content":"` + text + `","mode":"append"}`)
	}
	for _, c := range []struct {
		name   string
		opts   toolbox.CallOpts
		change string // what the third call appends
		want   string // the status of the third call, or the reason of its refusal
	}{
		{"a key", toolbox.CallOpts{IdempotencyKey: "k1"}, "x", "replayed"},
		{"a key of another request", toolbox.CallOpts{IdempotencyKey: "k2"}, "y", "idempotency_key_reused"},
		{"an id", toolbox.CallOpts{CallID: id}, "x", "replayed"},
		{"an id of another request", toolbox.CallOpts{CallID: id}, "y", "succeeded"},
		{"a short id", toolbox.CallOpts{CallID: "call_0"}, "x", "succeeded"},
		{"nothing", toolbox.CallOpts{}, "x", "succeeded"},
	} {
		box := toolbox.New(open(t), nil)
		if a := box.Call(ctx, "rw_safe_write", raw(`{"path":"f","content":"0","idempotency_key":"first"}`), &c.opts); !a.OK {
			t.Fatalf("%s: %s", c.name, a.Text) // the arguments' own key wins
		}
		if a := box.Call(ctx, "rw_safe_write", appendTo("f", "x"), &c.opts); !a.OK || a.Receipt.Status != rw.StatusSucceeded {
			t.Fatalf("%s: %s", c.name, a.Text)
		}
		a := box.Call(ctx, "rw_safe_write", appendTo("f", c.change), &c.opts)
		got := string(a.Receipt.Status)
		testbed.Expect(t, got == c.want || strings.Contains(a.Text, c.want), "%s: %s, %s", c.name, got, a.Text)
		if a := box.Call(ctx, "rw_read", raw(`{"path":"f"}`), &c.opts); !a.OK { // takes none
			t.Errorf("%s: %s", c.name, a.Text)
		}
	}
}

// TestProgressOfCalls reaches the host.
func TestProgressOfCalls(t *testing.T) {
	box := toolbox.New(open(t), nil)
	content := testbed.Must(json.Marshal(strings.Repeat("x", 1<<16)))(t)
	var chunks []string
	for range 40 {
		a := box.Call(ctx, "rw_chunk_append", raw(`{"session":"s","content":`+string(content)+`}`), nil)
		testbed.Require(t, a.OK, "%v", a.Text)
	}
	reports := 0
	a := box.Call(ctx, "rw_chunk_compose", raw(`{"session":"s","output_path":"big"}`), &toolbox.CallOpts{Progress: func(p rw.Progress) {
		reports++
		chunks = append(chunks, string(p.Stage))
	}})
	testbed.Expect(t, a.OK && reports != 0, "%d reports, %v: %s", reports, chunks, a.Text)
}

// TestAgentsAreGuarded: without any configuration a secret is refused, and so
// is a file that executes code when no user can be asked (the library itself
// only warns).
func TestAgentsAreGuarded(t *testing.T) {
	store := open(t)
	box := toolbox.New(store, nil)
	key := strings.Join([]string{"AKIA", "QWERTYUIOPAS2345"}, "")
	for args, want := range map[string]string{
		`{"path":"k.env","content":"K=` + key + `"}`: "risk_blocked",
		`{"path":".envrc","content":"ls\n"}`:         "protected_default",
	} {
		a := box.Call(ctx, "rw_safe_write", raw(args), nil)
		testbed.Expect(t, !a.OK && strings.Contains(a.Text, want) && !strings.Contains(a.Text, key), "%s", a.Text)
		var r rw.SafeWriteRequest
		testbed.Must(schema.Decode(ctx, raw(args), &r))(t)
		_, err := store.SafeWrite(ctx, r)
		testbed.Expect(t, err == nil, "the library refuses as well: %v", err)
	}
	asked := 0
	yes := rw.WithAsk(ctx, func(context.Context, hook.Call, string) (hook.Answer, error) {
		asked++
		return hook.Answer{Allow: true}, nil
	})
	a := box.Call(yes, "rw_safe_write", raw(`{"path":".envrc","content":"pwd\n","mode":"overwrite"}`), nil)
	testbed.Expect(t, a.OK && asked != 0, "asked %d times: %s", asked, a.Text)
}

// TestClaimTool: a claim belongs to the session of the call, as its writes do,
// whether the host or the call names that; and only a listed tool makes claims.
func TestClaimTool(t *testing.T) {
	store := open(t)
	box := toolbox.New(store, &toolbox.Options{Tools: []string{"claim"}, Replies: toolbox.FullReplies})
	a := toolbox.New(store, nil).Call(ctx, "rw_claim", raw(`{"paths":["src"]}`), nil)
	testbed.Expect(t, !a.OK && strings.Contains(a.Text, "unknown_tool"), "%s", a.Text)
	said := &toolbox.CallOpts{Client: "c", Connection: "one"}
	for _, mine := range []struct {
		opts         *toolbox.CallOpts
		session, key string
	}{{&toolbox.CallOpts{Client: "c", Session: "thread-1", Connection: "one"}, "thread-1", ""}, {said, "told", `,"session":"told"`}, {said, "mcp-", ""}} {
		a := box.Call(ctx, "rw_claim", raw(`{"paths":["src","a.txt"],"ttl_seconds":60`+mine.key+`}`), mine.opts)
		var out struct{ Claims []around.Claim }
		testbed.Require(t, json.Unmarshal([]byte(a.Text), &out) == nil && len(out.Claims) == 1 && strings.HasPrefix(out.Claims[0].Session, mine.session),
			"%s", a.Text)
		fence := strconv.FormatUint(out.Claims[0].Fence, 10)
		write := `{"path":"src/x.txt","mode":"overwrite","content":"` + mine.session + `"`
		a = box.Call(ctx, "rw_safe_write", raw(write+mine.key+`}`), mine.opts)
		testbed.Expect(t, a.OK, "%s", a.Text)
		a = box.Call(ctx, "rw_safe_write", raw(write+`}`), &toolbox.CallOpts{Client: "c", Connection: "two"})
		testbed.Expect(t, !a.OK && strings.Contains(a.Text, "path_claimed"), "%s", a.Text)
		for _, step := range []struct {
			args string
			opts *toolbox.CallOpts
			want string
		}{
			{`{"action":"list"}`, nil, `"fence":` + fence}, {`{"action":"renew","fence":` + fence + mine.key + `}`, mine.opts, `"fence":` + fence},
			{`{"action":"release","fence":` + fence + `,"session":"another"}`, nil, `"ok":true`}, {`{"action":"list"}`, nil, `"fence":` + fence},
			{`{"action":"release","fence":` + fence + mine.key + `}`, mine.opts, `"ok":true`}, {`{"action":"list"}`, nil, `"claims":[]`},
			{`{"action":"renew","fence":` + fence + mine.key + `}`, mine.opts, "claim_lost"}, {`{"action":"claim"` + mine.key + `}`, mine.opts, "invalid_argument"},
		} {
			a := box.Call(ctx, "rw_claim", raw(step.args), step.opts)
			testbed.Expect(t, strings.Contains(a.Text, step.want), "%s: %s", step.args, a.Text)
		}
	}
	a = box.Call(ctx, "rw_claim", raw(`{"paths":["a"]}`), nil)
	testbed.Expect(t, !a.OK && strings.Contains(a.Text, `"argument":"session"`), "a claim of no session: %s", a.Text)
	a = box.Call(ctx, "rw_claim", raw(`{"paths":["dir/"]}`), said)
	testbed.Expect(t, strings.Contains(a.Text, `"paths":["dir"]`), "a directory: %s", a.Text)
	a = box.Call(ctx, "rw_claim", raw(`{"paths":["./"]}`), said)
	testbed.Expect(t, strings.Contains(a.Text, "the workspace itself"), "the workspace: %s", a.Text)
	a = box.Call(ctx, "rw_claim", raw(`{"paths":["a","`+strings.Join([]string{"AKIA", "QWERTYUIOPAS2345"}, "")+`"]}`), said)
	testbed.Expect(t, !a.OK && strings.Contains(a.Text, "secret_in_name"), "a claim of a credential: %s", a.Text)
}

func TestMain(m *testing.M) { testbed.Main(m) }

// A loop around a language model shows it the tools and calls what it chooses;
// a refusal is an answer that says what to do next.
func ExampleToolbox() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	store, err := rw.Open(ctx, dir, nil)
	if err != nil {
		panic(err)
	}
	defer store.Close(ctx)

	box := toolbox.New(store, &toolbox.Options{Caller: "model", Tier: toolbox.Core})
	for _, tool := range box.Tools() {
		fmt.Println(tool.Name)
	}

	call := json.RawMessage(`{"path": "notes.md", "content": "# Notes\n"}`)
	for range 2 {
		answer := box.Call(ctx, "rw_safe_write", call, nil)
		var said struct {
			Path            string
			SuggestedAction string `json:"suggested_action"`
			Context         struct{ Reason string }
		}
		if err := json.Unmarshal([]byte(answer.Text), &said); err != nil {
			panic(err)
		}
		if answer.OK {
			fmt.Println(said.Path, answer.Receipt.Status)
		} else {
			fmt.Println(said.Context.Reason, said.SuggestedAction)
		}
	}
	// Output:
	// rw_safe_write
	// rw_edit
	// rw_tx
	// rw_read
	// rw_history
	// rw_undo
	// rw_redact
	// notes.md succeeded
	// file_already_exists read_again
}

func text(t *testing.T, name string) string {
	t.Helper()
	data := testbed.Must(os.ReadFile(name))(t)
	return string(data)
}

// TestAdapters: each module below adapters/ has at most 40 lines of code, a
// pinned framework, a test with the scripted model, and a row in docs/embed.md
// with that version, whose lines stand in its example. The library itself
// depends on none of them.
func TestAdapters(t *testing.T) {
	page, root := text(t, "../docs/embed.md"), text(t, "../go.mod")
	testbed.Expect(t, !strings.Contains(root, "replace "), "the library's go.mod replaces a module")
	testbed.Expect(t, strings.Contains(text(t, "../.ci/run"), "for adapter in adapters/*/"), ".ci/run does not run the adapters")
	row := regexp.MustCompile("(?m)^\\| `([^`]+)` \\| (v[0-9.]+) \\| \\[(\\w+)\\]\\(\\.\\./adapters/(\\w+)\\) \\| `([^`]+)` \\|(?: `([^`]+)`)? \\|$")
	shown := map[string]bool{}
	for _, m := range row.FindAllStringSubmatch(page, -1) {
		framework, version, dir := m[1], m[2], "../adapters/"+m[4]
		shown[m[4]] = m[3] == m[4]
		if mod := text(t, dir+"/go.mod"); !strings.Contains(mod, framework+" "+version+"\n") || !strings.Contains(mod, "resilientwrite => ../..") {
			t.Errorf("%s: go.mod does not require %s %s, or does not take the library from the tree", dir, framework, version)
		}
		testbed.Expect(t, !strings.Contains(root, framework), "the library requires %s", framework)
		for _, line := range m[5:] {
			testbed.Expect(t, strings.Contains(text(t, dir+"/example/main.go"), line), "%s: the example does not have %s", dir, line)
		}
		testbed.Expect(t, strings.Contains(text(t, dir+"/example/main_test.go"), "scripted.Check(dir)"), "%s: no test with the scripted model", dir)
		lines := 0
		for line := range strings.Lines(text(t, dir+"/"+m[4]+".go")) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
				lines++
			}
		}
		testbed.Expect(t, lines <= 40, "%s: %d lines", dir, lines)
	}
	dirs, err := filepath.Glob("../adapters/*/go.mod")
	testbed.Require(t, err == nil && len(dirs) >= 6, "%v %v", dirs, err)
	for _, mod := range dirs {
		name := filepath.Base(filepath.Dir(mod))
		testbed.Expect(t, shown[name] && strings.Contains(text(t, "../adapters/go.work"), "./"+name+"\n"), "%s: no row in docs/embed.md, or not in go.work", name)
	}
}

// TestAdaptersRequireWhatTheLibraryDoes: a module that takes the library from
// the tree must list its dependencies, at the same version or a newer one; go
// mod tidy in the module does that.
func TestAdaptersRequireWhatTheLibraryDoes(t *testing.T) {
	out := testbed.Must(exec.Command("go", "list", "-deps", "-f", `{{with .Module}}{{if .Version}}{{.Path}} {{.Version}}{{end}}{{end}}`, ".").Output())(t)
	numbers := func(version string) (list []int) {
		for _, n := range regexp.MustCompile(`\d+`).FindAllString(version, 3) {
			i, _ := strconv.Atoi(n)
			list = append(list, i)
		}
		return list
	}
	mods, err := filepath.Glob("../adapters/*/go.mod")
	testbed.Require(t, err == nil && len(mods) >= 6 && len(strings.Fields(string(out))) >= 8, "%v %v %v", mods, err, string(out))
	for line := range strings.Lines(string(out)) {
		name, version, ok := strings.Cut(strings.TrimSpace(line), " ")
		for _, mod := range mods {
			has := regexp.MustCompile(`(?m)^\s*` + regexp.QuoteMeta(name) + ` (v\S+)`).FindStringSubmatch(text(t, mod))
			testbed.Expect(t, !ok || has != nil && slices.Compare(numbers(has[1]), numbers(version)) >= 0,
				"%s: %s %s, the library has %s; run go mod tidy there", mod, name, has, version)
		}
	}
}
