package main_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
)

// shellIn runs a shell command in a directory, without the configuration of the user.
func shellIn(t *testing.T, dir, line string) {
	t.Helper()
	cmd := exec.Command("sh", "-ec", line)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir+"/.none", "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.org")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
}

// namesIn lists the entries of a directory, except .git.
func namesIn(dir string) (list []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != ".git" {
			list = append(list, e.Name())
		}
	}
	return list
}

// TestWorktreesAreKeptApart: one server serves the work trees of a repository.
// Each call goes to one of them, by its absolute path or its argument. A call
// that names none is refused, so that an agent in its own worktree never writes
// into the checkout of another one.
func TestWorktreesAreKeptApart(t *testing.T) {
	t.Setenv("RW_STATE_DIR", "")
	top := must(filepath.EvalSymlinks(t.TempDir()))(t)
	repo, linked, later := filepath.Join(top, "repo"), filepath.Join(top, "linked"), filepath.Join(top, "repo", ".claude", "worktrees", "later")
	os.Mkdir(repo, 0o755)
	shellIn(t, repo, "git init -q; git commit -q --allow-empty -m x; git worktree add -q ../linked; ln -s ../repo ../linked/link")
	c := connect(t, repo, "serve", "--worktrees")
	write := func(args map[string]any) map[string]any {
		args["content"] = "x\n"
		return call(t, c, "rw_safe_write", args)
	}
	is := func(out map[string]any, want string) {
		t.Helper()
		about, _ := out["context"].(map[string]any)
		if got := about["reason"]; out["ok"] == true != (want == "") || want != "" && got != want {
			t.Errorf("%v, want %q", out, want)
		}
		if want == "ambiguous_workspace" && (about["action"] != "fix_call" || !strings.Contains(about["hint"].(string), `"repo" "linked"`)) {
			t.Errorf("%v", about)
		}
	}
	ambiguous := "ambiguous_workspace"
	is(write(map[string]any{"path": "a.txt"}), ambiguous)
	is(write(map[string]any{"path": "a.txt", "workspace": "nowhere"}), ambiguous)
	is(write(map[string]any{"path": filepath.Join(repo, "a.txt"), "workspace": "linked"}), ambiguous)
	is(call(t, c, "rw_undo", map[string]any{}), ambiguous)
	is(call(t, c, "rw_undo", nil), ambiguous)
	is(call(t, c, "rw_chunk_append", map[string]any{"session": "s", "content": "x"}), ambiguous)
	op := func(dir, name string) map[string]any {
		return map[string]any{"op": "write", "path": filepath.Join(dir, name), "content": "x"}
	}
	for _, ops := range [][]any{{op(repo, "a"), op(linked, "b")}, {op(linked, "a"), op("", "b")}} {
		is(call(t, c, "rw_tx", map[string]any{"ops": ops}), ambiguous)
	}
	is(call(t, c, "rw_move", map[string]any{"path": filepath.Join(linked, "a"), "to": filepath.Join(repo, "a")}), ambiguous)
	if left := slices.Concat(namesIn(repo), namesIn(linked)); !slices.Equal(left, []string{"link"}) {
		t.Errorf("a refused call left %v", left)
	}
	is(write(map[string]any{"path": filepath.Join(linked, "a.txt")}), "")
	is(write(map[string]any{"path": "b.txt", "workspace": "linked"}), "")
	is(write(map[string]any{"path": "c.txt", "workspace": linked}), "")
	is(call(t, c, "rw_tx", map[string]any{"ops": []any{op(linked, "d"), op(linked, "e")}}), "")
	is(write(map[string]any{"path": "m.txt", "workspace": "repo"}), "")
	is(call(t, c, "rw_undo", map[string]any{"workspace": "linked"}), "") // d and e, not the newer m.txt
	for _, p := range []string{filepath.Join(linked, "link", "x"), filepath.Join(linked, "..", "outside")} {
		if out := write(map[string]any{"path": p}); out["ok"] == true {
			t.Errorf("%s: %v", p, out)
		}
	}
	if out := write(map[string]any{"path": "link/x", "workspace": "linked"}); out["ok"] == true {
		t.Errorf("through a link: %v", out)
	}
	if r, l := namesIn(repo), namesIn(linked); !slices.Equal(r, []string{"m.txt"}) || !slices.Equal(l, []string{"a.txt", "b.txt", "c.txt", "link"}) {
		t.Errorf("%v %v", r, l)
	}
	// A worktree that is created inside the checkout, while the server runs.
	shellIn(t, repo, "git worktree add -q .claude/worktrees/later")
	is(write(map[string]any{"path": filepath.Join(later, "n.txt")}), "")
	if list, _ := os.ReadDir(filepath.Join(repo, ".git", "resilientwrite")); len(list) != 3 {
		t.Errorf("%d stores", len(list))
	}
	shellIn(t, repo, "git worktree remove --force ../linked; git worktree remove --force .claude/worktrees/later; rm -r .claude")
	is(write(map[string]any{"path": "o.txt"}), "")
}

// TestAllowedRoots: a directory that the operator allows is served, no other one.
// The argument is listed, and the default list stays within its limit.
func TestAllowedRoots(t *testing.T) {
	t.Setenv("RW_REPLIES", "")
	root, more, other := t.TempDir(), t.TempDir(), t.TempDir()
	c := connect(t, root, "serve", "--allow-root", more)
	var req mcp.CallToolRequest
	for dir, want := range map[string]bool{root: true, more: true, other: false} {
		req.Params.Name, req.Params.Arguments = "rw_safe_write", map[string]any{"path": filepath.Join(dir, "a.txt"), "content": "x"}
		res, err := c.CallTool(t.Context(), req)
		if err != nil || res.IsError == want {
			t.Errorf("%v: %+v", err, res)
		}
		if _, err := os.Stat(filepath.Join(dir, "a.txt")); (err == nil) != want {
			t.Error(err)
		}
	}
	list := must(c.ListTools(t.Context(), mcp.ListToolsRequest{}))(t)
	for _, tool := range list.Tools {
		if _, ok := tool.InputSchema.Properties["workspace"]; !ok {
			t.Errorf("%s does not list the argument", tool.Name)
		}
	}
	if doc, _ := json.Marshal(list.Tools); len(doc) > 10240 {
		t.Errorf("%d bytes", len(doc))
	}
}
