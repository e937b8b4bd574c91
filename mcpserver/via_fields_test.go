package mcpserver_test

import (
	"testing"
)

// TestRowsNameModelTurnAndTrace: what a host says of a call beside its
// arguments is in its row.
func TestRowsNameModelTurnAndTrace(t *testing.T) {
	t.Parallel()
	s, _, _ := briefServer(t, nil)
	for name, c := range map[string]struct{ meta, model, turn, trace string }{
		"codex":       {`{"callId":"c","threadId":"t","x-codex-turn-metadata":{"model":"m-1","turn_id":"turn-1","sandbox":"none"}}`, "m-1", "turn-1", "<nil>"},
		"traceparent": {`{"traceparent":"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01","model":"m-2","turnId":"7"}`, "m-2", "7", "4bf92f3577b34da6a3ce929d0e0e4736"},
		"wrong types": {`{"traceparent":"00","model":3,"x-codex-turn-metadata":{"model":[],"turn_id":1},"callId":"c"}`, "<nil>", "<nil>", "<nil>"},
	} {
		if text, isError, _ := brieflyAs(t, s, "rw_safe_write", `{"path":"`+name+`","content":"x"}`, c.meta); isError {
			t.Fatal(text)
		}
		text, _, _ := briefly(t, s, "rw_journal_tail", `{"n":1}`)
		via := is(t, text, "entries").([]any)[0].(map[string]any)["via"].(map[string]any)
		for field, want := range map[string]string{"model": c.model, "turn": c.turn, "trace": c.trace} {
			if got, _ := via[field].(string); got != want && !(want == "<nil>" && via[field] == nil) {
				t.Errorf("%s: %s is %v", name, field, via[field])
			}
		}
	}
}
