package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestExecTool: an agent can run a command in tier full, and in no other.
func TestExecTool(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", filepath.Join(t.TempDir(), "state"))
	dir := must(filepath.EvalSymlinks(t.TempDir()))(t)
	secret := strings.Join([]string{"AKIA", "QZ7RTN4WMXJ2KVHD"}, "")
	script := map[string]any{"argv": []string{"sh", "-c", "echo said; echo key " + secret + "; echo x > made.txt"}}
	for _, args := range [][]string{nil, {"--tier", "core"}} {
		out := callTool(t, connect(t, dir, args...), "rw_exec", script)
		expect(t, reason(out) == "unknown_tool", "%q: %v", args, out)
	}
	c := connect(t, dir, "--tier", "full")
	out := callTool(t, c, "rw_exec", script)
	if reason(out) == "no_isolation" {
		testbed.NotRun(t, reason(out))
	}
	said, _ := out["stdout"].(string)
	require(t, out["ok"] == true && out["exit_code"] == 0.0 && strings.HasPrefix(said, "said\n") && !strings.Contains(said, secret), "%v", out)
	data, err := os.ReadFile(filepath.Join(dir, "made.txt"))
	expect(t, err == nil && string(data) == "x\n", "%q %v", data, err)
	script["argv"] = []string{"sh", "-c", "echo " + secret + " > key.txt"}
	out = callTool(t, c, "rw_exec", script)
	expect(t, reason(out) == "risk_blocked", "%v", out)
	script["argv"] = []string{"sh", "-c", "mkdir -p .vscode; echo {} > .vscode/tasks.json"}
	out = callTool(t, c, "rw_exec", script)
	expect(t, reason(out) == "protected_default", "%v", out)
	_, err = os.Stat(filepath.Join(dir, "key.txt"))
	expect(t, err != nil, "the secret is there")
	out = callTool(t, c, "rw_undo", nil)
	expect(t, out["ok"] == true, "%v", out)
}
