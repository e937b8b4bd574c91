// Package shell runs typical shell commands on the uncommitted work of a person,
// and counts what their undo restores: with git alone, with a shadow repository
// as hosts keep one, and with the hook of resilient-write.
package shell

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// scenario is a shell command of an agent, and the expected result of its undo:
// all files as they were before it, except those that others changed since.
type scenario struct {
	name    string
	command string
	since   string // what another person changes after the command
	after   string // a command of another session, between the events of the first one
	removes bool   // the command removes the workspace, which is created again before the undo
}

var scenarios = []scenario{
	{name: "`sed -i` over files with uncommitted changes", command: "sed -i s/line/LINE/ d*.txt u*.txt", since: "echo mine >> other.txt"},
	{name: "`rm` of uncommitted, untracked and ignored files", command: "rm -r d1.txt d2.txt u1.txt sub .env", since: "echo mine >> other.txt"},
	{name: "a formatter over 1,000 files", command: "find many -type f | xargs sed -i 's/  */ /g'", since: "echo mine >> other.txt"},
	{name: "`git checkout -f` of another branch", command: "git checkout -qf theirs", since: "echo mine >> mine.txt"},
	{name: "the person goes on in a file that the command changed", command: "sed -i s/line/LINE/ d1.txt", since: "echo mine >> d1.txt"},
	{name: "another session works in the same clone", command: "sed -i s/line/LINE/ d1.txt", after: "echo theirs >> d2.txt; rm u1.txt"},
	{name: "`git worktree remove --force`", command: "git worktree remove --force $PWD", removes: true},
}

// arm is a way to record what a command changes.
type arm struct {
	name   string
	before func(t *trial) error // the command is about to run
	after  func(t *trial) error // it has ended
	undo   func(t *trial) error
}

var arms = []arm{
	{"`git checkout -f`", nothing, nothing, func(t *trial) error { return t.sh("git checkout -qf ours && git clean -fdq many") }},
	{"shadow repository", shadowBefore, nothing, shadowUndo},
	{"resilientwrite", hookBefore, hookAfter, hookUndo},
}

func nothing(*trial) error { return nil }

// shadowBefore records the tree in a separate repository, and shadowUndo
// restores it, with the commands that hosts with such checkpoints run.
func shadowBefore(t *trial) error {
	return t.sh("git init -q --bare $SHADOW && git --git-dir=$SHADOW --work-tree=. add . && git --git-dir=$SHADOW write-tree > $SHADOW/before")
}

func shadowUndo(t *trial) error {
	return t.sh("git --git-dir=$SHADOW --work-tree=. restore --source=$(cat $SHADOW/before) . && git --git-dir=$SHADOW --work-tree=. clean -fdq")
}

func hookBefore(t *trial) error { return t.event("PreToolUse", "s1", "call_1", t.s.command) }
func hookAfter(t *trial) error  { return t.event("PostToolUse", "s1", "call_1", t.s.command) }

// hookUndo undoes the call. The state of a worktree that git removed is in the git
// directory; it is named for a new worktree, and a scan finds what is missing there.
func hookUndo(t *trial) error {
	if !t.s.removes {
		return t.run(t.rw, "undo", "--group", "call_1")
	}
	stores, err := filepath.Glob(filepath.Join(t.temp, "clone/.git/resilientwrite/*/journal"))
	for _, s := range stores {
		state := filepath.Dir(s)
		if err == nil && filepath.Base(state) != "main" {
			err = t.run(t.rw, "--state-dir", state, "changes", "--call", "removed")
			if err == nil {
				err = t.run(t.rw, "--state-dir", state, "undo", "--group", "removed")
			}
		}
	}
	return err
}

// trial is one scenario with one arm.
type trial struct {
	s        scenario
	rw, temp string
	dir      string // the workspace
}

func (t *trial) run(program string, args ...string) error {
	cmd := exec.Command(program, args...)
	cmd.Dir = t.dir
	cmd.Env = append(os.Environ(), "RW_WORKSPACE="+t.dir, "HOME="+t.temp, "XDG_STATE_HOME="+t.temp+"/state", "RW_STATE_DIR=", "SHADOW="+t.temp+"/shadow.git", "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=b", "GIT_AUTHOR_EMAIL=b@example.org", "GIT_COMMITTER_NAME=b", "GIT_COMMITTER_EMAIL=b@example.org")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %v: %w %.500s", program, args, err, out)
	}
	return nil
}

func (t *trial) sh(line string) error { return t.run("sh", "-ec", line) }

// event sends an event to the hook, as Claude Code does.
func (t *trial) event(name, session, call, command string) error {
	text, err := json.Marshal(map[string]any{"session_id": session, "cwd": t.dir, "hook_event_name": name, "tool_name": "Bash", "tool_use_id": call,
		"tool_input": map[string]string{"command": command}})
	if err != nil {
		return err
	}
	cmd := exec.Command(t.rw, "hook", "--host", "claude", "--deadline", "1m")
	cmd.Dir, cmd.Stdin = t.temp, bytes.NewReader(text)
	cmd.Env = append(os.Environ(), "HOME="+t.temp, "XDG_STATE_HOME="+t.temp+"/state", "RW_STATE_DIR=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w %.500s", name, err, out)
	}
	return nil
}

// prepare makes a repository with two branches and, in the workspace, changes that
// no commit holds.
func (t *trial) prepare() error {
	main := filepath.Join(t.temp, "clone")
	if err := os.MkdirAll(main, 0o755); err != nil {
		return err
	}
	t.dir = main
	err := t.sh(`git init -q -b ours .
mkdir sub many
for i in $(seq 1000); do printf 'a  line of %s\nand    one\n' $i > many/$i.txt; done
for f in d1.txt d2.txt d3.txt other.txt sub/s1.txt sub/s2.txt; do echo "a line of $f" > $f; done
echo .env > .gitignore
git add . && git commit -qm first && git checkout -qb theirs
echo theirs > d1.txt && git rm -q d3.txt && echo new > new.txt && git add . && git commit -qm second && git checkout -q ours`)
	if err != nil {
		return err
	}
	if t.s.removes {
		if err := t.sh("git worktree add -q ../tree -b work"); err != nil {
			return err
		}
		t.dir = filepath.Join(t.temp, "tree")
	}
	return t.sh(`for f in d1.txt d2.txt sub/s1.txt; do echo "an uncommitted line" >> $f; done
echo "an untracked line" > u1.txt && echo "a line" > u2.txt && echo KEY=value > .env && chmod +x u2.txt`)
}

// files returns the regular files of the workspace, with modes and bytes.
func (t *trial) files() (map[string]string, error) {
	out := map[string]string{}
	return out, filepath.WalkDir(t.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if base := d.Name(); d.IsDir() && (base == ".git" || base == ".resilient_write") {
			return filepath.SkipDir
		}
		if !d.Type().IsRegular() || d.Name() == ".git" {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		info, err := d.Info()
		rel, _ := filepath.Rel(t.dir, name)
		out[rel] = fmt.Sprint(info.Mode(), string(text))
		return err
	})
}

// play runs the scenario and describes what its undo restored.
func (t *trial) play(a arm) (string, error) {
	if err := t.prepare(); err != nil {
		return "", err
	}
	before, err := t.files()
	if err != nil {
		return "", err
	}
	if err := a.before(t); err != nil {
		return "", err
	}
	if err := t.sh(t.s.command); err != nil {
		return "", err
	}
	if t.s.removes { // it is created again
		clone := *t
		clone.dir = filepath.Join(t.temp, "clone")
		if err := clone.sh("git worktree add -q ../tree work"); err != nil {
			return "", err
		}
	}
	ran, err := t.files()
	if err != nil {
		return "", err
	}
	if !t.s.removes { // the workspace of the call is gone
		err = a.after(t)
	}
	if err != nil {
		return "", err
	}
	if t.s.after != "" {
		err = t.event("PreToolUse", "s2", "call_2", t.s.after)
	}
	if err == nil {
		err = t.sh(t.s.since + t.s.after)
	}
	if t.s.after != "" && err == nil {
		err = t.event("PostToolUse", "s2", "call_2", t.s.after)
	}
	if err != nil {
		return "", err
	}
	return t.judge(a, before, ran)
}

// judge undoes the command, and counts the files that are as before it and those
// of others that the undo changed.
func (t *trial) judge(a arm, before, ran map[string]string) (string, error) {
	since, err := t.files()
	if err != nil {
		return "", err
	}
	refused := a.undo(t)
	now, err := t.files()
	if err != nil {
		return "", err
	}
	changed, back, lost := 0, 0, 0
	for path := range union(before, ran, since, now) {
		switch {
		case ran[path] == since[path] && ran[path] != before[path]: // the command did
			changed++
			if now[path] == before[path] {
				back++
			}
		case now[path] != since[path]:
			lost++
		}
	}
	said := fmt.Sprintf("%d of %d files", back, changed)
	if changed == 0 {
		said = "nothing is to be undone"
	}
	if refused != nil {
		said = "refused, nothing changed"
	}
	if lost > 0 {
		said += fmt.Sprintf("; **%d of others lost**", lost)
	}
	return said, nil
}

// union returns the paths of several states.
func union(states ...map[string]string) map[string]bool {
	out := map[string]bool{}
	for _, files := range states {
		for path := range files {
			out[path] = true
		}
	}
	return out
}

// Table runs the scenarios whose names contain only, with all arms and a
// resilient-write that it builds from this tree, in a temporary directory.
func Table(only string) (string, error) {
	temp, err := os.MkdirTemp("", "shell-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(temp)
	rw, err := Build(temp)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString("| what happens |")
	for _, a := range arms {
		fmt.Fprintf(&out, " %s |", a.name)
	}
	out.WriteString("\n|---|" + strings.Repeat("---|", len(arms)) + "\n")
	for i, s := range scenarios {
		if !strings.Contains(s.name, only) {
			continue
		}
		fmt.Fprintf(&out, "| %s |", s.name)
		for j, a := range arms {
			t := &trial{s: s, rw: rw, temp: filepath.Join(temp, fmt.Sprint("t", i, "-", j))}
			said, err := t.play(a)
			if err != nil {
				return "", fmt.Errorf("%s, %s: %w", s.name, a.name, err)
			}
			fmt.Fprintf(&out, " %s |", said)
		}
		out.WriteByte('\n')
	}
	return out.String(), nil
}

// Build builds resilient-write into a directory and returns its path.
func Build(dir string) (string, error) {
	rw := filepath.Join(dir, "resilient-write")
	root, err := Root()
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-o", rw, "./cmd/resilient-write")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w %s", err, out)
	}
	return rw, nil
}

// Root returns the directory of the module that is measured.
func Root() (string, error) {
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/resilientwrite/resilientwrite").Output()
	if err != nil {
		return "", fmt.Errorf("go list: %w", err)
	}
	return strings.TrimSpace(string(root)), nil
}
