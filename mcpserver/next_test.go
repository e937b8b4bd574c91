package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/mcpserver"
	"github.com/resilientwrite/resilientwrite/spec"
)

// nexts are the next steps that a reply names, wherever they stand.
func nexts(t *testing.T, doc []byte) []mcpserver.NextAction {
	t.Helper()
	var r struct {
		Next    []mcpserver.NextAction `json:"next_actions"`
		Context struct {
			Next []mcpserver.NextAction `json:"next_actions"`
		}
	}
	noErr(t, json.Unmarshal(doc, &r))
	return append(r.Next, r.Context.Next...)
}

// TestNextActions goes through the calls that have a clear next step, and
// follows it: the arguments that a step gives must be ones its tool takes.
func TestNextActions(t *testing.T) {
	dir := t.TempDir()
	store := must(rw.Open(ctx, dir, &rw.Options{Sync: rw.SyncOff}))(t)
	defer store.Close(ctx)
	os.Mkdir(filepath.Join(dir, "many"), 0o755)
	for i := range 257 {
		noErr(t, os.WriteFile(filepath.Join(dir, "many", fmt.Sprint(i)), nil, 0o644))
	}
	s := mcpserver.New(store, &mcpserver.Options{Tier: mcpserver.Full})
	tools := map[string]mcpserver.ToolInfo{}
	for _, info := range mcpserver.Table() {
		tools["rw_"+info.Name] = info
	}
	secret := "AKIA" + strings.ToUpper("qwertyuiopas2345")
	var txID string
	for _, call := range []struct{ tool, args, next string }{
		{"rw_chunk_append", `{"session":"s","content":"a"}`, "rw_chunk_preview"},
		{"rw_chunk_write", `{"session":"s","index":3,"content":"c"}`, "rw_chunk_status rw_chunk_preview"},
		{"rw_chunk_status", `{"session":"s"}`, ""},
		{"rw_chunk_preview", `{"session":"s"}`, "rw_chunk_status"},
		{"rw_chunk_compose", `{"session":"s","output_path":"o"}`, "rw_chunk_status"},
		{"rw_chunk_write", `{"session":"s","index":2,"content":"b"}`, "rw_chunk_status rw_chunk_preview"},
		{"rw_chunk_preview", `{"session":"s"}`, ""},
		{"rw_chunk_status", `{"session":"s"}`, "rw_chunk_preview"},
		{"rw_chunk_compose", `{"session":"s","output_path":"o"}`, ""},
		{"rw_chunk_append", `{"session":"s","content":"a"}`, "rw_chunk_reset"},
		{"rw_chunk_status", `{"session":"s"}`, "rw_chunk_reset"},
		{"rw_chunk_status", `{"session":"nope"}`, ""},
		{"rw_chunk_compose", `{"session":"nope","output_path":"o"}`, "rw_chunk_list"},
		{"rw_safe_write", `{"path":"a","content":"x"}`, ""},
		{"rw_safe_write", `{"path":"a","content":"y"}`, "rw_read"},
		{"rw_safe_write", `{"path":"a","content":"y","mode":"overwrite","expected_prev_sha256":"` + strings.Repeat("0", 64) + `"}`, "rw_read"},
		{"rw_safe_write", `{"path":"a"}`, ""},
		{"rw_safe_write", `{"path":"none","content":"y","mode":"overwrite","expected_prev_sha256":"` + strings.Repeat("0", 64) + `"}`, ""},
		{"rw_safe_write", `{"path":"b","content":"key ` + secret + `"}`, "rw_redact"},
		{"rw_draft_list", `{}`, "rw_redact"},
		{"rw_redact", `{"content":"x"}`, ""},
		{"rw_edit", `{"path":"a","edits":[{"old":"z","new":"q"}]}`, "rw_read"},
		{"rw_edit", `{"path":"a","edits":[{"old":"x","new":"xx"}]}`, ""},
		{"rw_edit", `{"path":"a","edits":[{"old":"x","new":"q"}]}`, "rw_read"},
		{"rw_history", `{"path":"a"}`, "rw_restore"},
		{"rw_restore", `{"path":"a","version":999}`, "rw_history"},
		{"rw_move", `{"path":"many","to":"elsewhere"}`, ""},
		{"rw_delete", `{"path":"none","idempotency_key":"refused"}`, ""},
		{"rw_operation", `{"invocation_id":"inv_nobody"}`, "rw_journal_tail"},
		{"rw_safe_write", `{"path":"deleted","content":"1"}`, ""},
		{"rw_safe_write", `{"path":"deleted","content":"2","mode":"overwrite"}`, ""},
		{"$remove", `deleted`, ""},
		{"rw_restore", `{"path":"deleted","version":1}`, "rw_history"},
		{"rw_undo", `{}`, "rw_history"},
		{"rw_checkpoint_read", `{"name":"no"}`, "rw_checkpoint_list"},
		{"rw_operation", `{"idempotency_key":"never"}`, "rw_journal_tail"},
		{"rw_draft_get", `{"draft_ref":"draft_none"}`, "rw_draft_list"},
		{"rw_tx_begin", `{"dry_run":true}`, ""},
		{"rw_tx_begin", `{}`, "rw_tx_rollback"},
		{"rw_tx_stage", `{"tx_id":"$tx","op":{"op":"write","path":"t","content":"1"}}`, "rw_tx_commit rw_tx_rollback"},
		{"rw_tx_commit", `{"tx_id":"$tx"}`, ""},
		{"rw_tx_commit", `{"tx_id":"tx_nope"}`, "rw_describe"},
	} {
		if call.tool == "$remove" {
			noErr(t, os.Remove(filepath.Join(dir, call.args)))
			continue
		}
		doc, isError := reply(t, s, call.tool, json.RawMessage(strings.ReplaceAll(call.args, "$tx", txID)))
		conforms(t, tools[call.tool], doc, isError)
		var r struct {
			TxID string `json:"tx_id"`
		}
		if json.Unmarshal(doc, &r); r.TxID != "" {
			txID = r.TxID
		}
		var got []string
		for _, step := range nexts(t, doc) {
			got = append(got, step.Tool)
			args, _ := json.Marshal(step.Args)
			noErr(t, spec.ValidateWith(tools[step.Tool].Input, args), call.tool, ": ", step.Tool, " ", args)
			if step.When == "" || strings.Contains(step.When, secret) {
				t.Errorf("%s: %+v", call.tool, step)
			}
		}
		if strings.Join(got, " ") != call.next {
			t.Errorf("%s %s: next %v, want %s: %s", call.tool, call.args, got, call.next, doc)
		}
	}
}
