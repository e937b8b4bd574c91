package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/internal/visible"
)

// hostileText controls a terminal in every way that a text can: control
// sequences of 7 and of 8 bits, bidirectional controls, invisible characters.
const hostileText = "a\x1b]0;t\x07\x1b[2Jb\u009bc\u202ed\u2066e\u200bf\u2028g\u3164h\ufe0fi\U000e0041j"

// shownSafely fails if the output contains what a terminal must not get.
func shownSafely(t *testing.T, what, out string) {
	t.Helper()
	for _, r := range out {
		if !visible.Rune(r) && r != '\n' && r != '\t' {
			t.Errorf("%s prints %U: %.300q", what, r, out)
			return
		}
	}
}

// hostileStore returns a workspace in which every name and text that a reply
// could show is hostile.
func hostileStore(t *testing.T) (shell, []string) {
	s := newShell(t)
	who := []string{"--caller", hostileText, "--session", hostileText}
	s.with(hostileText + "\n").ok(append([]string{"write", hostileText}, who...)...)
	s.with(hostileText + "\nmore\n").ok(append([]string{"write", hostileText, "--mode", "overwrite", "--idempotency-key", hostileText}, who...)...)
	s.with(hostileText).run(append([]string{"write", hostileText}, who...)...) // refused
	s.with(hostileText).run("scratch", "put", "--label", hostileText, "--notes", hostileText, "--caller", hostileText)
	s.with(hostileText).run("chunk", "append", "s")
	s.run("checkpoint", "save", "c", "--data", `{"`+strings.Repeat("x", 3)+`":"`+"\u202e"+`"}`)
	s.run("tx", "begin", "--caller", hostileText)
	return s, []string{hostileText, "s", "c", "1", "2"}
}

// leaves calls each for the subcommands that do something.
func leaves(cmd *cobra.Command, path []string, each func(path []string, cmd *cobra.Command)) {
	for _, one := range cmd.Commands() {
		here := append(append([]string{}, path...), one.Name())
		if one.HasSubCommands() {
			leaves(one, here, each)
			continue
		}
		each(here, one)
	}
}

// TestNothingHostileReachesATerminal runs every subcommand as a person would,
// with a hostile text in every argument and every flag, in a workspace full of
// them, with output as text and as JSON.
func TestNothingHostileReachesATerminal(t *testing.T) {
	s, values := hostileStore(t)
	asPerson(t)
	t.Chdir(t.TempDir()) // for what --out names
	ran := 0
	a := &app{args: everyName(t), env: func(string) string { return "" }}
	leaves(a.root(), nil, func(path []string, cmd *cobra.Command) {
		name := strings.Join(path, " ")
		switch path[0] + path[len(path)-1] {
		case "serveserve", "journalfollow", "watchwatch", "completionbash": // the second and the third have separate tests
			return
		}
		try := func(args ...string) {
			ran++
			r := s.with(hostileText).run(append(append(append([]string{}, path...), args...), "--color", "never")...)
			shownSafely(t, name+fmt.Sprintf(" %q", args), r.out)
			shownSafely(t, name+fmt.Sprintf(" %q on stderr", args), strings.ReplaceAll(r.errs, wipe, "")) // the bar is ours
		}
		try()
		for _, value := range values {
			try(value)
			try(value, "--json")
			try(value, value)
		}
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Value.Type() != "bool" && f.Name != "color" && !strings.HasSuffix(f.Name, "-fd") {
				try("--"+f.Name, hostileText)
				try(hostileText, "--"+f.Name, hostileText)
			}
		})
		try("--" + hostileText)
	})
	if ran < 500 {
		t.Errorf("only %d calls", ran)
	}
	for _, args := range [][]string{{hostileText}, {"serve", hostileText}, {"serve", "-" + hostileText}, {"serve", "-root", filepath.Join(s.dir, hostileText)}, {"help", hostileText}, {"serve", "-tier", hostileText}, {"serve", "-transport", hostileText}} {
		r := s.run(args...)
		shownSafely(t, fmt.Sprintf("%q", args), r.out+r.errs)
	}
}

// TestTrustListShowsNoHostileName: the name of a workspace directory can be
// hostile, too.
func TestTrustListShowsNoHostileName(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	s, root := newShell(t), filepath.Join(t.TempDir(), hostileText)
	testbed.Plant(t, root, 0o600, map[string]string{".resilient_write/policy.yaml": "gate: {mode: off}\n"})
	asPerson(t)
	for _, args := range [][]string{{"trust", "--root", root}, {"trust", "--list"}, {"trust", "--list", "--json"}, {"trust", "--remove", "--root", root}} {
		r := s.run(append(args, "--color", "never")...)
		if shownSafely(t, strings.Join(args, " "), r.out+r.errs); r.code != 0 || strings.Contains(args[1], "list") && !strings.Contains(r.out, "]0;t") {
			t.Errorf("%q: exit %d: %q %q", args, r.code, r.out, r.errs)
		}
	}
}

// everyName returns the names of all subcommands. Naming them all makes all
// their flags.
func everyName(t *testing.T) (names []string) {
	a := &app{env: func(string) string { return "" }}
	leaves(a.root(), nil, func(path []string, _ *cobra.Command) { names = append(names, path...) })
	return names
}

// TestJSONOnATerminalMeansTheSame: an escaped character decodes to the
// original.
func TestJSONOnATerminalMeansTheSame(t *testing.T) {
	s, _ := hostileStore(t)
	asPerson(t)
	r := s.ok("journal", "tail", "--json")
	shownSafely(t, "journal tail --json", r.out)
	entries := r.doc["entries"].([]any)
	if got := entries[0].(map[string]any)["path"]; got != hostileText {
		t.Errorf("%q", got)
	}
	doc, _ := json.Marshal(hostileText)
	var back string
	if err := json.Unmarshal(escaped(doc), &back); err != nil || back != hostileText {
		t.Errorf("%q %v", back, err)
	}
}
