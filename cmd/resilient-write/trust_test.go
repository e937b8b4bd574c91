package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestOtherRepositoriesFromOutside: the directories of Mercurial, Jujutsu,
// Subversion, Sapling and Bazaar are protected like .git, at any depth, in any
// spelling, from every verb.
func TestOtherRepositoriesFromOutside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	testbed.Plant(t, dir, 0o755, map[string]string{"a.txt": "x", "sub/.hg/hgrc": "old", ".svn/entries": "x"})
	c := connect(t, dir)
	for _, name := range []string{".git", ".hg", ".jj", ".svn", ".sl", ".bzr", ".HG", "HG~1", ".s\u200dl"} {
		for _, path := range []string{name + "/hgrc", "deep/" + name + "/hooks/x"} {
			for tool, args := range map[string]map[string]any{
				"rw_safe_write": {"path": path, "content": "x"},
				"rw_move":       {"path": "a.txt", "to": path},
				"rw_tx":         {"ops": []any{map[string]any{"op": "write", "path": "b.txt", "content": "x"}, map[string]any{"op": "write", "path": path, "content": "x"}}},
			} {
				if out := call(t, c, tool, args); reason(out) != "protected_path" {
					t.Errorf("%s %q: %v", tool, path, out)
				}
			}
		}
	}
	for tool, args := range map[string]map[string]any{
		"rw_edit":   {"path": "sub/.hg/hgrc", "edits": []any{map[string]any{"old": "old", "new": "new"}}},
		"rw_delete": {"path": ".svn/entries"},
	} {
		if out := call(t, c, tool, args); reason(out) != "protected_path" {
			t.Errorf("%s: %v", tool, out)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "b.txt")); err == nil {
		t.Error("a part of a refused transaction is there")
	}
	for _, path := range []string{".hgignore", "svn/x", "a.hg/x"} {
		if out := call(t, c, "rw_safe_write", map[string]any{"path": path, "content": "x"}); out["ok"] != true {
			t.Errorf("%s: %v", path, out)
		}
	}
}

// TestNoRootInARepositoryFromOutside: the command does not work inside the
// directory of a version control system.
func TestNoRootInARepositoryFromOutside(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	testbed.Plant(t, base, 0o755, map[string]string{
		"bare/HEAD": "ref: refs/heads/x\n", "bare/objects/x": "", "bare/refs/x": "", "bare/hooks/x": "", "w/.git/HEAD": "ref: refs/heads/x\n", "w/.git/objects/x": "", "w/.git/refs/x": "", "w/src/x": "", "h/.hg/x": "",
	})
	for dir, want := range map[string]int{"bare": 3, "bare/hooks": 3, "w/.git": 3, "w/.git/refs": 3, "h/.hg": 3, "w": 0, "w/src": 0, "h": 0} {
		cmd := exec.Command(build(t), "describe", "--root", filepath.Join(base, dir))
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != want || strings.Contains(string(out), `"unsafe_root"`) != (want != 0) {
			t.Errorf("%s: exit %d: %s", dir, got, out)
		}
	}
}

// TestRepositoriesAsTestDataFromOutside: only a policy that the user names
// allows a repository to be written as test data, and nowhere else.
func TestRepositoriesAsTestDataFromOutside(t *testing.T) {
	t.Parallel()
	const exception = "protect_exceptions: [testdata/repo]\n"
	named := filepath.Join(t.TempDir(), "rules.yaml")
	policyAt(t, named, exception)
	write := func(dir, at string, args ...string) string {
		c := connect(t, dir, args...)
		defer c.Close()
		last := ""
		for path, text := range map[string]string{"HEAD": "ref: refs/heads/main\n", "objects/x": "x", "refs/x": "x"} {
			if out := call(t, c, "rw_safe_write", map[string]any{"path": at + "/" + path, "content": text}); out["ok"] != true {
				last = reason(out)
			}
		}
		return last
	}
	for name, row := range map[string]struct{ dir, at, want, policy string }{
		"named":            {t.TempDir(), "testdata/repo", "", named},
		"named, elsewhere": {t.TempDir(), "other/repo", "protected_path", named},
		"shipped":          {policyWorkspace(t, exception, true), "testdata/repo", "protected_path", ""},
		"none":             {t.TempDir(), "testdata/repo", "protected_path", ""},
	} {
		var args []string
		if row.policy != "" {
			args = []string{"-policy-file", row.policy}
		}
		if got := write(row.dir, row.at, args...); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

// TestWeakPoliciesAreToldFromOutside: the server reports a policy that weakens
// the defaults, and one that git tracks and that does not apply.
func TestWeakPoliciesAreToldFromOutside(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, row := range []struct {
		policy  string
		tracked bool
		want    string // "" for none
	}{
		{"gate: {mode: off}\n", false, "policy_weakens_default"},
		{"gate: {mode: off}\n", true, "policy_not_trusted"},
		{"protect_defaults: off\n", false, "policy_weakens_default"},
		{"gate: {mode: block}\n", false, ""},
		{"gate: {mode: block}\n", true, ""},
	} {
		c := connect(t, policyWorkspace(t, row.policy, row.tracked))
		said := fmt.Sprint(call(t, c, "rw_describe", nil)["recovery"])
		told := ""
		for _, reason := range []string{"policy_weakens_default", "policy_not_trusted"} {
			if strings.Contains(said, reason) {
				told = reason
			}
		}
		if told != row.want {
			t.Errorf("%q, tracked %v: %q, want %q: %s", row.policy, row.tracked, told, row.want, said)
		}
	}
}

// TestAProtectedRefusalAsksTheUser checks its class, its action, and the line
// of the policy that allows the path, without a hint to try again.
func TestAProtectedRefusalAsksTheUser(t *testing.T) {
	t.Parallel()
	c := connect(t, t.TempDir())
	for path, line := range map[string]string{".mcp.json": `protect_exceptions: [".mcp.json"]`, "deep/.claude/settings.json": `protect_exceptions: ["deep/.claude/settings.json"]`} {
		out := call(t, c, "rw_safe_write", createArgs(path))
		about := out["context"].(map[string]any)
		if out["error"] != "policy_violation" || out["reason_hint"] != "permission" || out["suggested_action"] != "ask_user" || about["reason"] != "protected_default" || about["policy_line"] != line {
			t.Errorf("%s: %v", path, out)
		}
	}
}

// TestMovesDoNotLaunderFromOutside: content that the policy allows at one path
// cannot leave it by a move, alone, with its directory, or in a transaction; a
// move to a path that git does not ignore is reported.
func TestMovesDoNotLaunderFromOutside(t *testing.T) {
	t.Parallel()
	dir := policyWorkspace(t, "allow: [{path: 'fixtures/**', reason: tests}]\n", false)
	testbed.Plant(t, dir, 0o644, map[string]string{".gitignore": ".env\n", ".env": "A=" + token(77) + "\n"})
	c := connect(t, dir)
	secret := "key = " + token(78) + "\n"
	if out := call(t, c, "rw_safe_write", map[string]any{"path": "fixtures/key.txt", "content": secret}); out["ok"] != true {
		t.Fatalf("%v", out)
	}
	for tool, args := range map[string]map[string]any{
		"rw_move": {"path": "fixtures/key.txt", "to": "src/key.txt"},
		"rw_tx":   {"ops": []any{map[string]any{"op": "move", "path": "fixtures/key.txt", "to": "src/key.txt"}}},
	} {
		if out := call(t, c, tool, args); reason(out) != "risk_blocked" {
			t.Errorf("%s: %v", tool, out)
		}
	}
	if out := call(t, c, "rw_move", map[string]any{"path": "fixtures", "to": "src"}); reason(out) != "risk_blocked" {
		t.Errorf("a directory: %v", out)
	}
	if out := call(t, c, "rw_move", map[string]any{"path": "fixtures/key.txt", "to": "fixtures/deep/key.txt"}); out["ok"] != true {
		t.Errorf("where it is allowed as well: %v", out)
	}
	if out := call(t, c, "rw_move", map[string]any{"path": ".env", "to": "env.txt"}); !slices.Contains(strings.Fields(saying(out)), "secret_unignored") {
		t.Errorf("into the sight of git: %v", out)
	}
}
