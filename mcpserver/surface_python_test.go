package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/mcpserver"
	"github.com/resilientwrite/resilientwrite/spec"
)

// python lists the tools of the older Python implementation: the arguments of
// each with the values at the ends of what it takes; * is a required one.
var python = map[string]string{
	"safe_write": `{"path*":["a.txt"],"content*":["x",""],"mode":["create","overwrite","append"],"expected_prev_sha256":["","` + zeros + `"],
		"classify":[true,false],"classify_reject_at":["low","medium","high"]}`,
	"risk_score":    `{"content*":["x"],"language_hint":["json","latex"],"target_path":["a.txt"]}`,
	"chunk_write":   `{"session*":["s","A-b_9"],"index*":[1,999],"content*":["x"],"total_expected":[1,999]}`,
	"chunk_append":  `{"session*":["s","` + sixtyFour + `"],"content*":["x"],"total_expected":[1,999]}`,
	"chunk_compose": `{"session*":["s"],"output_path*":["a.txt"],"separator":["","\n\n"],"cleanup":[true,false]}`,
	"chunk_reset":   `{"session*":["s"]}`,
	"chunk_status":  `{"session*":["s"]}`,
	"chunk_preview": `{"session*":["s"],"separator":["","--"]}`,
	"scratch_put":   `{"content*":["x"],"label":["l"],"content_type":["application/json"],"notes":["n"],"encoding":["utf-8","base64"]}`,
	"scratch_ref":   `{"sha256":["` + zeros + `"],"label":["l"]}`,
	"scratch_get":   `{"sha256*":["` + zeros + `"],"encoding":["utf-8","base64"]}`,
	"handoff_write": `{"envelope*":[{"task_id":"t","status":"partial","agent":"a","summary":"s","next_steps":["n"],"last_good_state":[{"path":"a","sha256":"` + zeros + `","bytes":0}],
		"started_at":"2026-01-01T00:00:00Z","updated_at":"2026-01-01T00:00:00Z","context_hints":["h"],"open_questions":[],"blockers":[],"artifacts":[],"anything else":{"a":[1]}}],
		"body":["","# Notes"],"path":["HANDOFF.md"],"archive":[true,false]}`,
	"handoff_read":       `{"path":["HANDOFF.md"]}`,
	"journal_tail":       `{"n":[1,20,1000],"filter_path":["a.txt"],"filter_mode":["create","overwrite","append"]}`,
	"validate":           `{"content*":["x"],"format_hint":["latex","json","python","yaml"],"target_path":["a.tex"]}`,
	"analytics":          `{"since":["2026-01-01T00:00:00Z"],"session_filter":["s"]}`,
	"checkpoint":         `{"name*":["n","A-b_9"],"data*":[null,1,"x",[1],{"a":1}],"format":["json","yaml","markdown"],"ttl":["session","permanent","P1D"]}`,
	"checkpoint_read":    `{"name*":["n"]}`,
	"checkpoint_list":    `{}`,
	"checkpoint_cleanup": `{"include_session":[true,false]}`,
}

const (
	zeros     = "0000000000000000000000000000000000000000000000000000000000000000"
	sixtyFour = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
)

// TestPythonToolsAreASubset: a call that the Python implementation took is one
// we take: every tool, every argument, every value at the ends of its range,
// and nothing required that was not.
func TestPythonToolsAreASubset(t *testing.T) {
	if len(python) != 20 {
		t.Fatalf("%d tools", len(python))
	}
	for name, text := range python {
		var args map[string][]any
		noErr(t, json.Unmarshal([]byte(text), &args), name)
		least := map[string]any{}
		for arg, values := range args {
			if arg, must := strings.CutSuffix(arg, "*"); must {
				least[arg] = values[0]
			}
		}
		validArguments(t, name, least)
		for arg, values := range args {
			for _, v := range values {
				call := map[string]any{strings.TrimSuffix(arg, "*"): v}
				for key, value := range least {
					if _, given := call[key]; !given {
						call[key] = value
					}
				}
				validArguments(t, name, call)
			}
		}
	}
}

func validArguments(t *testing.T, tool string, call map[string]any) {
	t.Helper()
	text := must(json.Marshal(call))(t)
	for _, wire := range []string{"rw_" + tool, "rw." + tool} {
		noErr(t, spec.ValidateArguments(wire, text), wire, " ", text)
	}
}

// TestPythonUsersGetWhatTheyKnow: replies of the Python implementation that
// programs look at (SURFACE.md 5).
func TestPythonUsersGetWhatTheyKnow(t *testing.T) {
	s, _, _ := briefServer(t, full)
	call := func(tool, args string) string {
		doc, isError := reply(t, s, tool, json.RawMessage(args))
		info, _ := mcpserver.Tool(strings.TrimPrefix(tool, "rw."))
		conforms(t, info, doc, isError)
		return string(doc)
	}
	call("rw.chunk_write", `{"session":"s","index":1,"content":"one"}`)
	call("rw.chunk_write", `{"session":"s","index":3,"content":"three"}`)
	if doc := call("rw.chunk_preview", `{"session":"s"}`); is(t, doc, "context", "reason") != "non_contiguous_chunks" || fmt.Sprint(is(t, doc, "context", "missing")) != "[2]" || fmt.Sprint(is(t, doc, "context", "have")) != "[1 3]" {
		t.Errorf("%s", doc)
	}
	call("rw.chunk_write", `{"session":"s","index":2,"content":"two","total_expected":4}`)
	if doc := call("rw.chunk_preview", `{"session":"s"}`); is(t, doc, "context", "reason") != "chunk_count_mismatch" || is(t, doc, "context", "have") != 3.0 || is(t, doc, "context", "total_expected") != 4.0 {
		t.Errorf("%s", doc)
	}
	call("rw.chunk_write", `{"session":"s","index":4,"content":"four"}`)
	if doc := call("rw.chunk_preview", `{"session":"s"}`); is(t, doc, "content") != "onetwothreefour" {
		t.Errorf("%s", doc)
	}
	call("rw.checkpoint", `{"name":"plan","data":{"a":1}}`)
	call("rw.checkpoint", `{"name":"plan","data":{"a":2}}`)
	if doc := call("rw.analytics", `{}`); is(t, doc, "checkpoints", "by_name", "plan", "saves") != 2.0 || is(t, doc, "checkpoints", "by_name", "plan", "total_bytes").(float64) < 10 {
		t.Errorf("%s", doc)
	}
	envelope := `"envelope":{"task_id":"t","status":"partial","agent":"a","summary":"s","next_steps":["n"],"last_good_state":[]}`
	for _, doc := range []string{call("rw.handoff_write", `{`+envelope+`}`), call("rw.handoff_read", `{}`)} {
		if fmt.Sprint(is(t, doc, "checkpoint_refs")) != "[map[name:plan]]" {
			t.Errorf("%s", doc)
		}
	}
	fresh, _, _ := briefServer(t, full)
	if doc, isError := reply(t, fresh, "rw.handoff_write", json.RawMessage(`{`+envelope+`}`)); isError || strings.Contains(string(doc), "checkpoint_refs") {
		t.Errorf("%s", doc)
	}
	for text, word := range map[string]string{`a {b`: "brace", `a } b`: "brace", `\\being{document}`: `\being`} {
		if doc := call("rw.validate", `{"format_hint":"latex","content":"`+text+`"}`); is(t, doc, "valid") != false || !strings.Contains(fmt.Sprint(is(t, doc, "errors")), word) {
			t.Errorf("%s: %s", text, doc)
		}
	}
}
