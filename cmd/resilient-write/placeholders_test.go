package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// TestReportedPlaceholdersDoNotShowInWrites: under placeholders: report, the
// default, every call that writes placeholders gets the same reply, byte for
// byte, as under a policy that ignores them; only rw_risk_score differs.
func TestReportedPlaceholdersDoNotShowInWrites(t *testing.T) {
	t.Parallel()
	text := "id AKIA" + "IOSFODNN7" + "EXAMPLE\ntok ghp_" + strings.Repeat("E", 36) + "\nkey sk-proj-" + strings.Repeat("Z", 40) + "\nmail user@example.com\nssn 123-45-" + "6789\n-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEvQ...\n"
	steps := []step{
		{"rw_safe_write", args{"path": "a.txt", "content": text}},
		{"rw_safe_write", args{"path": "a.txt", "content": text + text, "mode": "overwrite"}},
		{"rw_safe_write", args{"path": "a.txt", "content": text, "mode": "append"}},
		{"rw_safe_write", args{"path": "dry.txt", "content": text, "dry_run": true}},
		{"rw_edit", args{"path": "a.txt", "edits": []any{map[string]any{"old": "mail user", "new": "to user", "count": 3}}}},
		{"rw_tx", args{"ops": []any{map[string]any{"op": "write", "path": "b.txt", "content": text}, map[string]any{"op": "write", "path": "AKIA" + "IOSFODNN7" + "EXAMPLE.txt", "content": "x"}}}},
		{"rw_move", args{"path": "b.txt", "to": "c.txt"}},
		{"rw_chunk_append", args{"session": "s", "content": text}},
		{"rw_chunk_compose", args{"session": "s", "output_path": "d.txt"}},
		{"rw_scratch_put", args{"content": text, "label": "ghp_" + strings.Repeat("E", 36)}},
		{"rw_checkpoint", args{"name": "n", "data": text}},
		{"rw_handoff_write", args{"envelope": map[string]any{"task_id": "t", "status": "partial", "agent": "a", "summary": text, "next_steps": []any{text}}, "body": text, "auto_state": true}},
		{"rw_undo", args{"n": 1}},
		{"rw_risk_score", args{"content": text}},
	}
	replies := map[string][]map[string]any{}
	for _, policy := range []string{"", "placeholders: report\n", "placeholders: ignore\n"} {
		file := filepath.Join(t.TempDir(), "policy.yaml")
		noErr(t, os.WriteFile(file, []byte("gate: {mode: block, reject_at: low}\n"+policy), 0o600))
		c := connect(t, t.TempDir(), "-policy-file", file)
		for _, s := range steps {
			out := call(t, c, s.tool, s.args)
			if receipt, ok := out["receipt"].(map[string]any); ok {
				delete(receipt, "duration_ms") // its number of digits varies
			}
			replies[policy] = append(replies[policy], out)
		}
	}
	size := func(v any) int { b, _ := json.Marshal(v); return len(b) }
	for i, s := range steps {
		for _, policy := range []string{"", "placeholders: report\n"} {
			got, want := replies[policy][i], replies["placeholders: ignore\n"][i]
			if s.tool == "rw_risk_score" {
				if size(got) <= size(want) || !strings.Contains(fmt.Sprint(got), "placeholder:true") {
					t.Errorf("rw_risk_score lists no placeholders: %v", got)
				}
				continue
			}
			if got["ok"] != true || got["warnings"] != nil && fmt.Sprint(got["warnings"]) != "[]" || !reflect.DeepEqual(got["warnings"], want["warnings"]) || size(got) != size(want) {
				t.Errorf("%q, %s: %v\ninstead of %v", policy, s.tool, got, want)
			}
		}
	}
}
