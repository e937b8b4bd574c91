package main

import (
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// gitIn runs git as a user who does not know what is in dir.
func gitIn(t *testing.T, dir, home string, args ...string) error {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "GIT_CONFIG_NOSYSTEM=1", "GIT_CEILING_DIRECTORIES=" + filepath.Dir(home),
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
	}
	return cmd.Run()
}

// runs reports whether git, in any directory of the tree, runs the command that
// makes mark.
func runs(t *testing.T, dir, mark string) bool {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if d.Name() == ".git" || d.Name() == ".resilient_write" {
			return fs.SkipDir
		}
		gitIn(t, path, filepath.Dir(mark), "status")
		gitIn(t, path, filepath.Dir(mark), "st") // an alias of the configuration
		return nil
	})
	noErr(t, err)
	gitIn(t, dir, filepath.Dir(mark), "commit", "--allow-empty", "-m", "x")
	_, err = os.Stat(mark)
	os.Remove(mark)
	return err == nil
}

// attack is a workspace and what an agent does in it to make git run a command
// there.
type attack struct {
	git   []string          // git arguments that prepare the workspace; none: it is empty
	there map[string]string // files that exist before
	write map[string]string // files that are to exist in the end
	steps []step            // attempts of the agent; nil: one write for each file, and one transaction
}

type step struct {
	tool string
	args map[string]any
}

func attacks(monitor, hook string) map[string]attack {
	tree := monitor + "\tbare = false\n\tworktree = ..\n"
	shape := map[string]string{"d/HEAD": "ref: refs/heads/main\n", "d/objects/x": "x", "d/refs/x": "x", "d/config": tree}
	with := func(files map[string]string, more ...string) map[string]string {
		out := map[string]string{}
		maps.Copy(out, files)
		for i := 0; i < len(more); i += 2 {
			out[more[i]] = more[i+1]
		}
		return out
	}
	write := func(path, text string) step {
		return step{"rw_safe_write", map[string]any{"path": path, "content": text}}
	}
	move := func(from, to string) step { return step{"rw_move", map[string]any{"path": from, "to": to}} }
	return map[string]attack{
		"a directory of git's shape": {write: shape},
		"in the workspace itself":    {write: map[string]string{"HEAD": shape["d/HEAD"], "objects/x": "x", "refs/x": "x", "config": tree}},
		"a .git file":                {write: with(shape, "w/.git", "gitdir: ../d\n")},
		"a linked work tree":         {write: map[string]string{"d/HEAD": "ref: refs/heads/main\n", "d/commondir": "../c\n", "c/objects/x": "", "c/refs/x": "", "c/config": tree}},
		"moved into place": {write: shape, steps: []step{
			write("p/HEAD.txt", shape["d/HEAD"]), write("p/o/x", "x"), write("p/r/x", "x"), write("p/config", tree),
			move("p/o", "p/objects"), move("p/r", "p/refs"), move("p/HEAD.txt", "p/HEAD"), move("p", "d"),
		}},
		"composed, edited, brought back": {write: shape, steps: []step{
			write("d/HEAD", shape["d/HEAD"]), {"rw_delete", map[string]any{"path": "d/HEAD"}}, write("d/objects/x", "x"), write("d/refs/x", "x"),
			write("d/config", tree), {"rw_undo", map[string]any{"n": 2}}, {"rw_restore", map[string]any{"path": "d/HEAD"}},
			{"rw_chunk_append", map[string]any{"session": "s", "content": shape["d/HEAD"]}}, {"rw_chunk_compose", map[string]any{"session": "s", "output_path": "d/HEAD"}},
			write("d/HEAD", "re: refs/heads/main\n"), {"rw_edit", map[string]any{"path": "d/HEAD", "edits": []any{map[string]any{"old": "re", "new": "ref"}}}},
		}},
		"a bare repository":       {git: []string{"init", "-q", "--bare", "d"}, write: map[string]string{"d/config": tree}},
		"a separate directory":    {git: []string{"init", "-q", "--separate-git-dir", "store", "."}, write: map[string]string{"store/config": monitor}},
		"an included file":        {git: []string{"init", "-q"}, there: map[string]string{".git/config": "[core]\n\trepositoryformatversion = 0\n[include]\n\tpath = ../team.cfg\n"}, write: map[string]string{"team.cfg": monitor}},
		"a directory of hooks":    {git: []string{"init", "-q"}, there: map[string]string{".git/config": "[core]\n\trepositoryformatversion = 0\n\thooksPath = tools\n", "tools/pre-commit": "#!/bin/sh\n"}, write: map[string]string{"tools/pre-commit": hook}},
		"the repository":          {git: []string{"init", "-q"}, write: map[string]string{".git/config": monitor}},
		"in another letter case":  {git: []string{"init", "-q"}, write: map[string]string{".git/config": monitor}, steps: []step{write(".GIT/config", monitor), write("git~1/config", monitor), write(".g\u200cit/config", monitor), write("x/../.git/config", monitor)}},
		"a repository in the way": {git: []string{"init", "-q", "sub"}, write: map[string]string{"sub/.git/config": monitor}, steps: []step{write("sub/.git/config", monitor), move("sub", "s2"), {"rw_delete", map[string]any{"path": "sub/.git/config"}}, {"rw_handoff_write", map[string]any{"path": "sub/.git/config", "envelope": map[string]any{"task_id": "t", "status": "partial", "agent": "a", "summary": monitor, "next_steps": []any{}}, "auto_state": true}}}},
	}
}

// TestNoCallMakesGitRunAProgram: whatever an agent tries through the binary,
// the user's git commands run none of it in any directory. If the same files
// are created by hand, git runs the command.
func TestNoCallMakesGitRunAProgram(t *testing.T) {
	t.Parallel()
	testbed.Needs(t, "git")
	base := t.TempDir()
	mark := filepath.Join(base, "mark")
	monitor := "[alias]\n\tst = \"!touch '" + mark + "'\"\n[core]\n\trepositoryformatversion = 0\n\tfsmonitor = \"touch '" + mark + "'; false\"\n"
	all := attacks(monitor, "#!/bin/sh\ntouch '"+mark+"'\n")
	for _, name := range testbed.Share(t, slices.Sorted(maps.Keys(all)), 3, nil) {
		a := all[name]
		prepare := func(dir string) {
			os.MkdirAll(dir, 0o755)
			if a.git != nil {
				noErr(t, gitIn(t, dir, base, a.git...), name)
			}
			testbed.Plant(t, dir, 0o755, a.there)
		}
		control := filepath.Join(base, strings.ReplaceAll(name, " ", "-"), "control")
		prepare(control)
		testbed.Plant(t, control, 0o755, a.write)
		expect(t, runs(t, control, mark), "%s: by hand, git runs nothing", name)
		dir := filepath.Join(filepath.Dir(control), "work")
		prepare(dir)
		steps := a.steps
		if steps == nil {
			var ops []any
			for path, text := range a.write {
				steps = append(steps, step{"rw_safe_write", map[string]any{"path": path, "content": text, "mode": "overwrite"}})
				ops = append(ops, map[string]any{"op": "write", "path": path, "content": text, "mode": "overwrite"})
			}
			steps = append([]step{{"rw_tx", map[string]any{"ops": ops}}}, steps...)
		}
		c := connect(t, dir)
		refused := 0
		for _, s := range steps {
			if out := callTool(t, c, s.tool, s.args); out["ok"] != true && reason(out) == "protected_path" {
				refused++
			}
		}
		expect(t, !runs(t, dir, mark), "%s: git runs the command", name)
		expect(t, refused != 0, "%s: nothing was refused", name)
		c.Close()
	}
}
