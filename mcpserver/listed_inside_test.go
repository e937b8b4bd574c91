package mcpserver

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestNoServerTextNamesAToolThatIsNotListed: prompts, resources and the list, of
// a store in which there is something of everything.
func TestNoServerTextNamesAToolThatIsNotListed(t *testing.T) {
	for name, o := range map[string]*Options{
		"core": {Tier: Core}, "standard": nil, "full replies": {Replies: FullReplies}, "added": {Tools: []string{"checkpoint", "restore"}},
		"full": {Tier: Full}, "full, brief": {Tier: Full, Replies: BriefReplies},
		"filtered": {Filter: func(i ToolInfo) bool { return i.Name == "safe_write" || i.Name == "chunk_status" }},
	} {
		t.Run(name, func(t *testing.T) { checkServerTexts(t, o) })
	}
}

func checkServerTexts(t *testing.T, o *Options) {
	store := must(rw.Open(t.Context(), t.TempDir(), &rw.Options{Sync: rw.SyncOff}))(t)
	defer store.Close(t.Context())
	s := New(store, o)
	h, texts := hostOf(s), 0
	check := func(where, text string) {
		texts++
		for _, name := range regexp.MustCompile(`\brw[_.][a-z_]{2,}`).FindAllString(text, -1) {
			if of, ok := h.tool(name); ok && !of.Listed {
				t.Errorf("%s: %s is not listed: %.300s", where, name, text)
			}
		}
	}
	ask := func(method, params string) string {
		out := must(json.Marshal(Handle(t.Context(), s, json.RawMessage(`{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`))))(t)
		return string(out)
	}
	for round := range 2 {
		for _, p := range prompts {
			for _, args := range []string{`{"task_id":"t"}`, `{}`} {
				check("the prompt "+p.name, ask("prompts/get", `{"name":"`+p.name+`","arguments":`+args+`}`))
			}
		}
		for _, list := range []string{"tools/list", "prompts/list", "resources/list", "resources/templates/list"} {
			check(list, ask(list, `{}`))
		}
		for _, uri := range []string{"journal", "handoff", "history/a.txt", "history/none", "file/none", "file/big", "checkpoint/c", "checkpoint/none", "chunks/none", "policy"} {
			check(uri, ask("resources/read", `{"uri":"rw://`+uri+`"}`))
		}
		if round == 1 {
			break
		}
		key := strings.Join([]string{"AKIA", "QWERTYUIOPAS2345"}, "")
		for _, call := range []string{
			`{"name":"rw_safe_write","arguments":{"path":"a.txt","content":"x"}}`,
			`{"name":"rw_safe_write","arguments":{"path":"big","content":"` + strings.Repeat("x", 1<<20+1) + `"}}`,
			`{"name":"rw_safe_write","arguments":{"path":"k.env","content":"K=` + key + `"}}`,
			`{"name":"rw_checkpoint","arguments":{"name":"c","data":1}}`,
			`{"name":"rw_chunk_append","arguments":{"session":"s","content":"x"}}`,
			`{"name":"rw_tx_begin","arguments":{}}`,
			`{"name":"rw_handoff_write","arguments":{"auto_state":true,"envelope":{"task_id":"t","status":"partial","agent":"a","summary":"s","next_steps":["n"]}}}`,
		} {
			check("a call", ask("tools/call", call))
		}
	}
	if texts < 40 {
		t.Errorf("only %d texts", texts)
	}
}
