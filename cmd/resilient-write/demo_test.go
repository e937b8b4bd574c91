package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestDemoShowsARefusalAndItsRepair: it needs no workspace, leaves nothing, and
// shows no token.
func TestDemoShowsARefusalAndItsRepair(t *testing.T) {
	dir, tmp := t.TempDir(), t.TempDir()
	for _, form := range []string{"--json", "--color=never"} {
		cmd := exec.Command(build(t), "demo", form)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "TMPDIR="+tmp)
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if strings.Contains(string(out), "ghp_") || !strings.Contains(string(out), "risk_blocked") || !strings.Contains(string(out), "GITHUB_TOKEN={GHP-REDACTED}") {
			t.Errorf("%s", out)
		}
		var r struct{ Written string }
		if form == "--json" && (json.Unmarshal(out, &r) != nil || r.Written != "GITHUB_TOKEN={GHP-REDACTED}\n") {
			t.Errorf("%s", out)
		}
	}
	for _, d := range []string{dir, tmp} {
		if left, _ := os.ReadDir(d); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	}
}
