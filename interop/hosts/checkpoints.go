package main

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// checkpoints describes how a host is configured to keep its own checkpoints, and how
// its file tools are called.
type checkpoints struct {
	env   []string
	file  string // of a setting: name, and text
	text  string
	read  string // the tools
	write string
	path  string // the argument
}

// ownCheckpoints maps hosts to their checkpoints. Other hosts have none to turn
// on.
var ownCheckpoints = map[string]checkpoints{
	"claude-code": {env: []string{"CLAUDE_CODE_ENABLE_SDK_FILE_CHECKPOINTING=1"}, read: "Read", write: "Write", path: "file_path"},
	"gemini":      {file: ".gemini/settings.json", text: `{"general": {"checkpointing": {"enabled": true}}}`, read: "read_file", write: "write_file", path: "file_path"},
	"qwen":        {file: ".qwen/settings.json", text: `{"general": {"checkpointing": {"enabled": true}}}`, read: "read_file", write: "write_file", path: "file_path"},
}

// driveCheckpoints makes the model of a host, whose own checkpoints are on,
// replace one file with the tool of the host and others by shell. It reports
// for which of them the earlier bytes still exist outside the project.
func driveCheckpoints(h host, ways []hooks, text string) (string, error) {
	if len(ways) == 0 {
		return "its shell is not driven", nil
	}
	own, k := ownCheckpoints[h.name], ways[0]
	h.approve, h.command, h.env = "", slices.Clone(k.command), append(slices.Clone(h.env), own.env...)
	if h.name == "claude-code" {
		h.command[len(h.command)-1] = "Bash,Read,Write"
	}
	s, err := begin(h, text)
	if err != nil {
		return "", err
	}
	defer s.end()
	files := map[string]string{}
	for _, name := range []string{"by-tool.txt", "by-sed.txt", "by-rm.txt", "by-script.txt"} {
		files[name] = "earlier bytes of " + name + "\n"
	}
	all := maps.Clone(files)
	all["fix.sh"] = "sed -i s/earlier/later/ by-script*\n"
	if own.file != "" {
		all[own.file] = own.text
	}
	if err := s.plant(all); err != nil {
		return "", err
	}
	p := &play{}
	if own.write != "" {
		name := s.d.place("by-tool.txt")
		p.steps = append(p.steps,
			step{what: "read", tool: own.read, args: func() map[string]any { return obj{own.path: name} }},
			step{what: "write", tool: own.write, args: func() map[string]any { return obj{own.path: name, "content": "later bytes\n"} }})
	}
	line := "sed -i s/earlier/later/ by-sed.txt && rm by-rm.txt && sh fix.sh"
	p.steps = append(p.steps, step{what: line, tool: k.shell, args: func() map[string]any { return k.args(line) }})
	if err := s.perform(p); err != nil {
		return "", err
	}
	var said []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		now, _ := os.ReadFile(s.d.place(name))
		switch {
		case string(now) == files[name]:
			said = append(said, name+": not changed")
		case s.holds(files[name]):
			said = append(said, name+": kept")
		default:
			said = append(said, name+": not kept")
		}
	}
	return strings.Join(said, ", "), nil
}

// holds reports whether a file of the host, or an object of a git directory
// below its home or of the project, has these bytes.
func (s *session) holds(text string) (found bool) {
	hash := exec.Command("git", "hash-object", "--stdin")
	hash.Stdin = strings.NewReader(text)
	id, err := hash.Output()
	if err != nil {
		return false
	}
	filepath.WalkDir(s.d.dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil || found {
			return nil
		}
		if d.IsDir() {
			if _, err := os.Stat(filepath.Join(name, "objects")); err == nil {
				found = exec.Command("git", "--git-dir="+name, "cat-file", "-e", strings.TrimSpace(string(id))).Run() == nil
			}
			return nil
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() && info.Size() < 1<<20 {
			data, _ := os.ReadFile(name)
			if found = string(data) == text; found {
				fmt.Fprintln(s.log, "held by", name)
			}
		}
		return nil
	})
	return found
}
