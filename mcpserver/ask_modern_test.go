package mcpserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// pending reads the questions that a call ended with.
func pending(t *testing.T, result map[string]any) (state string, questions map[string]any) {
	t.Helper()
	questions, _ = result["inputRequests"].(map[string]any)
	state, _ = result["requestState"].(string)
	if result["resultType"] != "input_required" || state == "" || len(questions) == 0 || result["isError"] == true {
		t.Fatalf("no question: %v", result)
	}
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
	hook := &counts{}
	receipts := 0
	w := connect(t, &rw.Options{Hooks: roles(hook, &rw.TaskBudget{Writes: 1}), ReceiptSink: func(rw.Receipt) { receipts++ }}).modern(`{"elicitation":{}}`)
	var state string
	for range 5 { // as often as the client likes
		res := w.result(w.call("rw_safe_write", create("a.txt", "x")))
		var questions map[string]any
		state, questions = pending(t, res)
		q, _ := questions["consent_1"].(map[string]any)
		params, _ := q["params"].(map[string]any)
		form, _ := json.Marshal(params["requestedSchema"])
		if q["method"] != "elicitation/create" || params["message"] != "may I?" || !strings.Contains(string(form), `"allow"`) || len(questions) != 1 {
			t.Errorf("%v", questions)
		}
		if res["structuredContent"] != nil {
			t.Errorf("%v", res)
		}
	}
	if hook.told != 0 || receipts != 0 || w.rows() != 0 || w.file("a.txt") != "none" {
		t.Fatalf("told %d, %d receipts, %d rows", hook.told, receipts, w.rows())
	}
	res := w.result(w.call("rw_safe_write", create("a.txt", "x"), answers(state, yes)))
	if reasonOf(t, res) != "ok" || res["resultType"] != "complete" || w.file("a.txt") != "x" {
		t.Fatalf("%v", res)
	}
	if hook.told != 1 || receipts != 1 || w.rows() != 1 || hook.asked != 6 {
		t.Errorf("asked %d, told %d, %d receipts, %d rows", hook.asked, hook.told, receipts, w.rows())
	}
}

// TestAnAnswerIsOneToItsQuestionOnly: whatever else an answer is sent with,
// it is none: the user is asked again and nothing is written.
func TestAnAnswerIsOneToItsQuestionOnly(t *testing.T) {
	t.Parallel()
	w := connect(t, &rw.Options{Hooks: roles(rw.Permission{})}).modern(`{"elicitation":{}}`)
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
		if w.rows() != rows || w.file("a.txt") != before || w.file("b.txt") != "none" {
			t.Errorf("%s: something was written", what)
		}
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
	if got := reasonOf(t, w.result(w.call("rw_safe_write", create("a.txt", "harmless"), ok))); got != "ok" {
		t.Fatalf("the answer to its own question: %s", got)
	}
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
		if got := reasonOf(t, w.result(w.call("rw_safe_write", create(path, "x"), answers(state, a)))); got != "denied" || w.file(path) != "none" {
			t.Errorf("%s: %s", a, got)
		}
	}
	// An answer that is missing, or under another name.
	for i, more := range []string{`,"inputResponses":{}`, ``, `,"inputResponses":{"consent_2":` + yes + `}`, `,"inputResponses":{"":` + yes + `}`} {
		path := fmt.Sprintf("m%d.txt", i)
		state, _ := pending(t, w.result(w.call("rw_safe_write", create(path, "x"))))
		quoted, _ := json.Marshal(state)
		if got := reasonOf(t, w.result(w.call("rw_safe_write", create(path, "x"), `,"requestState":`+string(quoted)+more))); got != "denied" {
			t.Errorf("%s: %s", more, got)
		}
	}
	// What is no map or no text at all is an error of the protocol.
	for _, more := range []string{`,"inputResponses":[]`, `,"inputResponses":"x"`, `,"requestState":7`} {
		w.call("rw_safe_write", create("p.txt", "x"), more)
		if m := w.read(); m["error"] == nil || w.file("p.txt") != "none" {
			t.Errorf("%s: %v", more, m)
		}
	}
	// No three times.
	for i := range 3 {
		state, _ := pending(t, w.result(w.call("rw_safe_write", create("n.txt", "x"))))
		res := w.result(w.call("rw_safe_write", create("n.txt", "x"), answers(state, `{"action":"decline"}`)))
		if doc := res["structuredContent"].(map[string]any); doc["retry_budget"] != float64(2-i) {
			t.Errorf("no %d: %v attempts are left", i+1, doc["retry_budget"])
		}
	}
	if got := reasonOf(t, w.result(w.call("rw_safe_write", create("n.txt", "x")))); got != "retry_exhausted" {
		t.Errorf("after three refusals: %s", got)
	}
}

// TestSeveralQuestionsOfOneCall: all are put at once, a transaction is one
// question for all its files, and one no is enough.
func TestSeveralQuestionsOfOneCall(t *testing.T) {
	t.Parallel()
	w := connect(t, &rw.Options{Hooks: roles(rw.Permission{}, &counts{})}).modern(`{"elicitation":{}}`)
	os.WriteFile(filepath.Join(w.dir, "old.txt"), []byte("old"), 0o644)
	tx := rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "a.txt", Content: []byte("a")}, {Op: "write", Path: "b.txt", Content: []byte("b")}, {Op: "delete", Path: "old.txt"}}}
	for _, c := range []struct{ first, second, want string }{
		{yes, `{"action":"decline"}`, "denied"}, {`{"action":"cancel"}`, yes, "denied"}, {yes, yes, "ok"},
	} {
		state, questions := pending(t, w.result(w.call("rw_tx", tx)))
		text := fmt.Sprint(questions["consent_1"])
		if len(questions) != 2 || !strings.Contains(text, "may tx do this: delete old.txt, create a.txt, create b.txt?") || strings.Contains(text, "pattern") ||
			!strings.Contains(fmt.Sprint(questions["consent_2"]), "may I?") {
			t.Fatalf("%v", questions)
		}
		if got := reasonOf(t, w.result(w.call("rw_tx", tx, answers(state, c.first, c.second)))); got != c.want {
			t.Errorf("%s and %s: %s", c.first, c.second, got)
		}
	}
	if w.file("a.txt") != "a" || w.file("b.txt") != "b" || w.file("old.txt") != "none" {
		t.Error("the transaction did not happen")
	}
}

// TestAlwaysAndPatternsHoldOverTheWire: an answer for good is remembered, and
// a glob for what destroys nothing.
func TestAlwaysAndPatternsHoldOverTheWire(t *testing.T) {
	t.Parallel()
	w := connect(t, &rw.Options{Hooks: roles(rw.Permission{})}).modern(`{"elicitation":{}}`)
	put := func(path, content string, mode rw.WriteMode, answer string) {
		t.Helper()
		r := rw.SafeWriteRequest{Path: path, Content: []byte(content), Mode: mode}
		res := w.result(w.call("rw_safe_write", r))
		if answer != "" {
			state, _ := pending(t, res)
			res = w.result(w.call("rw_safe_write", r, answers(state, answer)))
		}
		if got := reasonOf(t, res); got != "ok" {
			t.Fatalf("%s: %s", path, got)
		}
	}
	put("docs/a.md", "1", rw.ModeCreate, `{"action":"accept","content":{"allow":true,"always":true,"pattern":"docs/**"}}`)
	put("docs/b.md", "1", rw.ModeCreate, "")
	put("docs/b.md", "2", rw.ModeOverwrite, `{"action":"accept","content":{"allow":true,"always":true}}`)
	put("docs/b.md", "3", rw.ModeOverwrite, "")
	put("docs/a.md", "3", rw.ModeOverwrite, yes)
	put("docs/a.md", "4", rw.ModeOverwrite, yes)
}

// TestAModernClientThatCannotAskIsTold: what counts is what this request says
// the client can do, and the server never sends a request of its own.
func TestAModernClientThatCannotAskIsTold(t *testing.T) {
	t.Parallel()
	w := connect(t, &rw.Options{Hooks: roles(rw.Permission{})})
	for _, caps := range []string{`{}`, `{"elicitation":{"url":{}}}`, `{"sampling":{}}`} {
		w.modern(`{"elicitation":{}}`)
		pending(t, w.result(w.call("rw_safe_write", create("a.txt", "x"))))
		w.modern(caps)
		res := w.result(w.call("rw_safe_write", create("a.txt", caps)))
		if text := fmt.Sprint(res["structuredContent"]); reasonOf(t, res) != "denied" || !strings.Contains(text, "ask the user yourself") {
			t.Errorf("%s: %s", caps, text)
		}
	}
	// A store with a channel of its own needs no client.
	own := connect(t, &rw.Options{Hooks: roles(rw.Permission{}), Ask: func(context.Context, rw.HookCall, string) (rw.Answer, error) {
		return rw.Answer{Allow: true}, nil
	}})
	for _, caps := range []string{`{}`, `{"elicitation":{}}`} {
		own.modern(caps)
		if got := reasonOf(t, own.result(own.call("rw_safe_write", create("a"+fmt.Sprint(len(caps)), "x")))); got != "ok" {
			t.Errorf("%s: %s", caps, got)
		}
	}
}

// TestARetriedCallWithAKeyIsNotAskedAgain: the reply was lost, the answer is
// used up, and the key answers.
func TestARetriedCallWithAKeyIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	w := connect(t, &rw.Options{Hooks: roles(rw.Permission{})}).modern(`{"elicitation":{}}`)
	r := rw.SafeWriteRequest{Path: "a.txt", Content: []byte("x"), Call: rw.Call{IdempotencyKey: "k"}}
	state, _ := pending(t, w.result(w.call("rw_safe_write", r)))
	for _, want := range []string{"succeeded", "replayed"} {
		res := w.result(w.call("rw_safe_write", r, answers(state, yes)))
		if doc := res["structuredContent"].(map[string]any); doc["status"] != want {
			t.Errorf("%v, want %s", doc, want)
		}
	}
}
