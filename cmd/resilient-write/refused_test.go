package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// refusals returns calls with a text that contains a credential, by the reason
// for which they are refused. If a flag is named, the server gets it.
func refusals(text, gone string) map[string][]struct {
	flag string
	step
} {
	type row = struct {
		flag string
		step
	}
	write := func(path string, more ...any) row {
		a := args{"path": path, "content": text, "mode": "overwrite"}
		for i := 0; i < len(more); i += 2 {
			a[more[i].(string)] = more[i+1]
		}
		return row{"", step{"rw_safe_write", a}}
	}
	with := func(flag string, r row) row { return row{flag, r.step} }
	tool := func(name string, a args) row { return row{"", step{name, a}} }
	edit := func(more args) row {
		a := args{"path": "old.txt", "edits": []any{args{"old": "old", "new": text}}}
		for name, value := range more {
			a[name] = value
		}
		return tool("rw_edit", a)
	}
	ops := func(list ...any) args { return args{"ops": list} }
	op := func(path string) args { return args{"op": "write", "path": path, "content": text} }
	return map[string][]row{
		"risk_blocked": {
			write("a.txt"), write("old.txt", "mode", "append"), write("a.txt", "dry_run", true), edit(nil), tool("rw_tx", ops(args{"op": "write", "path": "b.txt", "content": "x"}, op("a.txt"))),
			tool("rw_chunk_append", args{"session": "s", "content": text}), tool("rw_checkpoint", args{"name": "c", "data": args{"a": text}}),
			tool("rw_handoff_write", args{"envelope": args{"task_id": "t", "status": "partial", "agent": "a", "summary": text, "next_steps": []any{}}, "auto_state": true}),
			write("a.txt", "accept_risk", "needed: "+text), with("-gate block", write("a.txt")),
		},
		"protected_default":    {write(".envrc"), tool("rw_tx", ops(op("a.txt"), op(".mcp.json")))},
		"protected_path":       {write(".git/config"), write(".resilient_write/journal/x"), tool("rw_tx", ops(op("d/HEAD"), op(".git")))},
		"hash_mismatch":        {write("old.txt", "expected_prev_sha256", gone), edit(args{"expected_prev_sha256": gone})},
		"file_already_exists":  {write("old.txt", "mode", "create")},
		"file_not_found":       {tool("rw_edit", args{"path": "none.txt", "edits": []any{args{"old": text, "new": "x"}}})},
		"old_string_not_found": {tool("rw_edit", args{"path": "old.txt", "edits": []any{args{"old": text, "new": "x"}}}), tool("rw_edit", args{"path": "old.txt", "edits": []any{args{"old": "olb", "new": text}}})},
		"invalid_argument":     {write("a.txt", "mode", text)},
		"bad_base64":           {write("a.txt", "encoding", "base64")},
		"unknown_argument":     {write("a.txt", "contents", text)},
		"invalid_path":         {write("a\x00b")},
		"escapes_workspace":    {write("../a.txt")},
		"syntax_invalid":       {write("a.json", "validate", true), tool("rw_edit", args{"path": "old.json", "validate": true, "edits": []any{args{"old": "1", "new": text}}})},
		"store_read_only":      {with("-read-only", write("a.txt")), with("-read-only", edit(nil)), with("-read-only", tool("rw_scratch_put", args{"content": text, "label": "l"}))},
		"bad_policy":           {with("-policy-file missing.yaml", write("a.txt")), with("-policy-file missing.yaml", tool("rw_chunk_append", args{"session": "s", "content": text}))},
	}
}

// TestNoRefusalLeavesASecretFromOutside: after a refusal of each kind neither
// the reply, nor the log, nor a file below the workspace contains the sent
// text; only the quarantine may.
func TestNoRefusalLeavesASecretFromOutside(t *testing.T) {
	t.Parallel()
	gone := shaOf("gone")
	secrets, seeds := map[string]string{}, 5_000_000
	type server struct {
		dir string
		c   *client.Client
		log chan []byte
	}
	servers := map[string]*server{}
	start := func(flag string) *server {
		if s := servers[flag]; s != nil {
			return s
		}
		s := &server{dir: t.TempDir(), log: make(chan []byte, 1)}
		testbed.Plant(t, s.dir, 0o644, map[string]string{"old.txt": "old\n", "old.json": "[1]\n"})
		if flag == "-read-only" {
			connect(t, s.dir).Close() // creates the store
		}
		s.c = connect(t, s.dir, strings.Fields(flag)...)
		log, _ := client.GetStderr(s.c)
		go func() {
			data, _ := io.ReadAll(log)
			s.log <- data
		}()
		servers[flag] = s
		return s
	}
	for want, list := range refusals("", gone) {
		for i := range list {
			seeds++
			secret := token(seeds)
			r := refusals("{key: \""+secret+"\"\n", gone)[want][i]
			what := fmt.Sprint(want, " ", i, " ", r.tool)
			secrets[what] = secret
			s := start(r.flag)
			for range 5 { // the last ones are refused by the budget
				out := call(t, s.c, r.tool, r.args)
				if got := reason(out); got != want && got != "retry_exhausted" {
					t.Errorf("%s: %q %v", what, got, out)
				}
				doc, _ := json.Marshal(out)
				for _, where := range tellers(doc, "its reply", map[string]string{what: secret}) {
					t.Errorf("%s: %s", where, doc)
				}
			}
		}
	}
	for flag, s := range servers {
		for _, end := range []string{"", " after the end"} {
			for _, where := range holding(t, s.dir, secrets) {
				t.Error(flag + " " + where + end)
			}
			s.c.Close()
		}
		for _, where := range tellers(<-s.log, "the log", secrets) {
			t.Error(where)
		}
		kept, _ := os.ReadDir(filepath.Join(s.dir, ".resilient_write", "quarantine"))
		if (len(kept) > 0) != (flag == "" || flag == "-gate block") {
			t.Errorf("%q: %d files in quarantine", flag, len(kept))
		}
	}
}
