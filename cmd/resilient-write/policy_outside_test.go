package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/client"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// policyWorkspace returns a workspace with a policy file in its state
// directory, which git may track.
func policyWorkspace(t *testing.T, policy string, tracked bool) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	policyAt(t, filepath.Join(dir, ".resilient_write", "policy.yaml"), policy)
	for _, args := range [][]string{{"init", "-q"}, {"add", "-f", ".resilient_write/policy.yaml"}} {
		if args[0] == "add" && !tracked {
			continue
		}
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return dir
}

func policyAt(t *testing.T, place, text string) {
	t.Helper()
	noErr(t, os.MkdirAll(filepath.Dir(place), 0o700))
	noErr(t, os.WriteFile(place, []byte(text), 0o600))
}

// outsideCredential returns a credential that is generated at run time, a
// different one each time.
func outsideCredential(n int) string {
	const letters = "QZRX4VNK7MWTJ5HB2LGD"
	key := ""
	for i := range 16 {
		key += string(letters[(i*7+n)%len(letters)])
	}
	return "id " + "AK" + "IA" + key + "\n"
}

func becomes(t *testing.T, c *client.Client, path, content string) string {
	t.Helper()
	out := call(t, c, "rw_safe_write", map[string]any{"path": path, "content": content, "mode": "overwrite", "dry_run": true})
	if out["ok"] == true {
		return "ok"
	}
	return reason(out)
}

// TestShippedPolicyCannotWeaken checks the policy file of a repository against
// flags and defaults: tracked, untracked, trusted, and named.
func TestShippedPolicyCannotWeaken(t *testing.T) {
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	secret := outsideCredential(7)
	for _, row := range []struct {
		name    string
		policy  string
		tracked bool
		args    []string
		want    string
	}{
		{"tracked, flag", "gate: {mode: off}\n", true, []string{"-gate", "block"}, "risk_blocked"},
		{"tracked, default", "gate: {mode: off}\n", true, nil, "risk_blocked"},
		{"tracked, advise", "gate: {mode: advise}\n", true, nil, "risk_blocked"},
		{"tracked, allow", "allow: [{path: '**', reason: x}]\n", true, nil, "risk_blocked"},
		{"tracked, disabled", "disable_families: [api_key]\n", true, nil, "risk_blocked"},
		{"untracked, flag", "gate: {mode: off}\n", false, []string{"-gate", "block"}, "risk_blocked"},
		{"untracked, flag, allow", "allow: [{path: '**', reason: x}]\n", false, []string{"-gate", "block"}, "risk_blocked"},
		{"untracked, default", "gate: {mode: off}\n", false, nil, "ok"},
		{"trusted, default", "gate: {mode: off}\n", true, []string{"-trust-workspace-policy"}, "ok"},
		{"trusted, flag", "gate: {mode: off}\n", true, []string{"-trust-workspace-policy", "-gate", "block"}, "risk_blocked"},
		{"named, flag", "gate: {mode: off}\n", true, []string{"-policy-file", ".resilient_write/policy.yaml", "-gate", "block"}, "ok"},
		{"stricter, tracked, flag", "gate: {mode: block}\n", true, []string{"-gate", "off"}, "risk_blocked"},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := connect(t, policyWorkspace(t, row.policy, row.tracked), row.args...)
			if got := becomes(t, c, "a.txt", secret); got != row.want {
				t.Errorf("%s, want %s", got, row.want)
			}
		})
	}
}

// TestTrustCommand: the record applies to these bytes and this workspace, is
// outside the workspace, and can be revoked.
func TestTrustCommand(t *testing.T) {
	config := t.TempDir()
	t.Setenv("XDG_CONFIG_HOME", config)
	secret := outsideCredential(8)
	dir := policyWorkspace(t, "gate: {mode: off}\n", true)
	run := func(code int, args ...string) string {
		t.Helper()
		cmd := exec.Command(build(t), args...)
		cmd.Env = append(os.Environ(), "RW_WORKSPACE="+dir)
		out, _ := cmd.Output()
		if got := cmd.ProcessState.ExitCode(); got != code {
			t.Fatalf("%v: exit %d: %s", args, got, out)
		}
		return string(out)
	}
	state := func() string { c := connect(t, dir); defer c.Close(); return becomes(t, c, "a.txt", secret) }
	if got := state(); got != "risk_blocked" {
		t.Fatal(got)
	}
	if out := run(0, "trust"); !strings.Contains(out, `"weakens":["gate.mode"]`) {
		t.Error(out)
	}
	if got := state(); got != "ok" {
		t.Errorf("trusted: %s", got)
	}
	if out := run(0, "trust", "--list"); !strings.Contains(out, filepath.Base(dir)) {
		t.Error(out)
	}
	records, _ := filepath.Glob(filepath.Join(config, "resilientwrite", "trusted", "*.json"))
	if len(records) != 1 {
		t.Fatal(records)
	}
	if st, err := os.Stat(records[0]); err != nil || runtime.GOOS != "windows" && st.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", st.Mode(), err)
	}
	policyAt(t, filepath.Join(dir, ".resilient_write", "policy.yaml"), "gate: {mode: off} # changed\n")
	if got := state(); got != "risk_blocked" {
		t.Errorf("other bytes: %s", got)
	}
	policyAt(t, filepath.Join(dir, ".resilient_write", "policy.yaml"), "gate: {mode: off}\n")
	if runtime.GOOS != "windows" { // a record that others can write does not count
		os.Chmod(records[0], 0o666)
		if got := state(); got != "risk_blocked" {
			t.Errorf("a record that others can write: %s", got)
		}
		os.Chmod(records[0], 0o600)
	}
	if out := run(0, "trust", "--remove"); !strings.Contains(out, `"removed":1`) {
		t.Error(out)
	}
	if got := state(); got != "risk_blocked" {
		t.Errorf("removed: %s", got)
	}
	policyAt(t, filepath.Join(dir, ".resilient_write", "policy.yaml"), "gate: {mod: off}\n")
	run(5, "trust")
	os.Remove(filepath.Join(dir, ".resilient_write", "policy.yaml"))
	run(4, "trust")
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "config"))
	policyAt(t, filepath.Join(dir, ".resilient_write", "policy.yaml"), "gate: {mode: off}\n")
	run(3, "trust")
}

// TestBrokenPolicyIsServed: the server answers, reports what is wrong, and
// accepts writes once the file is valid, without a restart.
func TestBrokenPolicyIsServed(t *testing.T) {
	dir := t.TempDir()
	place := filepath.Join(dir, ".resilient_write", "policy.yaml")
	noErr(t, os.WriteFile(filepath.Join(dir, "old.txt"), []byte("old\n"), 0o644))
	policyAt(t, place, "gate: {mode: blok}\n")
	c := connect(t, dir)
	for _, row := range []struct {
		text, problem string
		line          float64
	}{
		{"gate: {mode: blok}\n", "bad_value", 1}, {"gate:\n  mod: block\n", "unknown_key", 2}, {"- x\n", "not_a_mapping", 1}, {"gate: [\n", "bad_yaml", 0},
		{"version: 2\n", "unsupported_version", 1}, {"gate: {}\ngate: {}\n", "duplicate_key", 2}, {"protect: ['../x']\n", "bad_glob", 1},
		{"\nextend_patterns:\n  a: [{name: b, regex: 'a('}]\n", "bad_regex", 3}, {"thresholds: {low: 0.5}\n", "bad_thresholds", 1},
		{"#" + strings.Repeat("x", 2<<20), "too_large", 0}, {"disable_patterns: [emial]\n", "bad_value", 1},
	} {
		policyAt(t, place, row.text)
		out := call(t, c, "rw_safe_write", map[string]any{"path": "a.txt", "content": "x"})
		about, _ := out["context"].(map[string]any)
		if reason(out) != "bad_policy" || about["problem"] != row.problem || about["file"] != ".resilient_write/policy.yaml" || row.line > 0 && about["line"] != row.line {
			t.Errorf("%.30q: %v", row.text, out)
		}
		if strings.Contains(fmt.Sprint(out), dir) {
			t.Errorf("an absolute path: %v", out)
		}
		for tool, args := range map[string]map[string]any{
			"rw_journal_since": {"agent": "a", "after_seq": 0}, "rw_delete": {"path": "old.txt"}, "rw_undo": {}, "rw_scratch_put": {"content": "x", "label": "l"}, "rw_tx_begin": {}, "rw_checkpoint": {"name": "c", "data": map[string]any{}},
		} {
			if out := call(t, c, tool, args); reason(out) != "bad_policy" {
				t.Errorf("%.30q: %s: %v", row.text, tool, out)
			}
		}
		if read := call(t, c, "rw_read", map[string]any{"path": "old.txt"}); read["content"] != "old\n" {
			t.Errorf("%v", read)
		}
	}
	policyAt(t, place, "gate: {mode: block}\nprotect: [LICENSE]\n")
	if out := call(t, c, "rw_safe_write", map[string]any{"path": "a.txt", "content": "x"}); out["ok"] != true {
		t.Errorf("%v", out)
	}
	if out := call(t, c, "rw_safe_write", map[string]any{"path": "LICENSE", "content": "x"}); reason(out) != "protected_path" {
		t.Errorf("%v", out)
	}
	policyAt(t, place, "gate: {mode: off}\n")
	if got := becomes(t, c, "b.txt", outsideCredential(9)); got != "risk_blocked" {
		t.Errorf("a valid policy is not pinned: %s", got)
	}
}

// TestMissingPolicyFileFromOutside: if the flag names a missing file, every
// change is refused; if the variable does, it is a warning. No tool creates
// anything on the path to it.
func TestMissingPolicyFileFromOutside(t *testing.T) {
	dir := t.TempDir()
	c := connect(t, dir, "-policy-file", "rules/deep/rw.yaml")
	for range 2 {
		for _, path := range []string{"a.txt", "rules", "rules/x"} {
			out := call(t, c, "rw_safe_write", map[string]any{"path": path, "content": "x"})
			about, _ := out["context"].(map[string]any)
			if reason(out) != "bad_policy" || about["problem"] != "missing" || about["file"] != "rules/deep/rw.yaml" {
				t.Errorf("%v", out)
			}
		}
	}
	policyAt(t, filepath.Join(dir, "rules", "deep", "rw.yaml"), "protect: [LICENSE]\n")
	if out := call(t, c, "rw_safe_write", map[string]any{"path": "a.txt", "content": "x"}); out["ok"] != true {
		t.Errorf("%v", out)
	}
	dir = t.TempDir()
	t.Setenv("RW_POLICY_FILE", "rules/deep/rw.yaml")
	c = connect(t, dir)
	for path, want := range map[string]string{"a.txt": "ok", "rules": "protected_path", "rules/x": "protected_path", "rules/deep": "protected_path", "rules/deep/rw.yaml": "protected_path"} {
		if got := becomes(t, c, path, "x"); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

// TestStateOfOthersFromOutside checks a state directory or policy file that
// belongs to another user, or that others can write.
func TestStateOfOthersFromOutside(t *testing.T) {
	if runtime.GOOS == "windows" || os.Getuid() != 0 {
		t.Skip("only root can give files away")
	}
	open := func(dir string, args ...string) (string, int) {
		cmd := exec.Command(build(t), append(args, "describe")...)
		cmd.Env = append(os.Environ(), "RW_WORKSPACE="+dir)
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	for name, row := range map[string]struct {
		make func(dir, state string)
		code int
		says string
	}{
		"another owner":         {func(dir, state string) { os.Chown(state, 4711, 4711) }, 3, "uid 4711"},
		"another owner, 0777":   {func(dir, state string) { os.Chown(state, 4711, 4711); os.Chmod(state, 0o777) }, 3, "chown -R 0"},
		"the owner of the root": {func(dir, state string) { os.Chown(dir, 4711, 4711); os.Chown(state, 4711, 4711) }, 0, ""},
		"journal of another":    {func(dir, state string) { os.Mkdir(state+"/journal", 0o700); os.Chown(state+"/journal", 4711, 4711) }, 3, ".resilient_write/journal"},
		"policy of another": {func(dir, state string) {
			policyAt(t, state+"/policy.yaml", "version: 1\n")
			os.Chown(state+"/policy.yaml", 4711, 4711)
		}, 3, "policy.yaml"},
		"a link for the journal": {func(dir, state string) { os.Symlink(dir, state+"/journal") }, 3, "symbolic link"},
	} {
		dir := t.TempDir()
		state := filepath.Join(dir, ".resilient_write")
		os.Mkdir(state, 0o700)
		row.make(dir, state)
		out, code := open(dir)
		if code != row.code || !strings.Contains(out, row.says) || row.code != 0 && !strings.Contains(out, "bad_state_dir") || strings.Contains(out, dir) {
			t.Errorf("%s: exit %d: %s", name, code, out)
		}
	}
	// The directory of a policy file that the flag names, and that of a link to it.
	for name, row := range map[string]struct {
		owner int
		mode  os.FileMode
		link  bool
		code  int
	}{
		"ours": {0, 0o755, false, 0}, "a group's": {0, 0o775, false, 0}, "like /tmp": {0, 0o777 | os.ModeSticky, false, 0}, "all write": {0, 0o777, false, 3},
		"another's": {4711, 0o755, false, 3}, "another's, by a link": {4711, 0o755, true, 3}, "ours, by a link": {0, 0o755, true, 0},
	} {
		rules, real := filepath.Join(t.TempDir(), "rules"), filepath.Join(t.TempDir(), "real")
		policyAt(t, filepath.Join(rules, "rw.yaml"), "version: 1\n")
		if row.link {
			os.Rename(rules, real)
			os.Mkdir(rules, 0o700)
			os.Symlink(filepath.Join(real, "rw.yaml"), filepath.Join(rules, "rw.yaml"))
		}
		os.Chown(rules, row.owner, row.owner)
		os.Chmod(rules, row.mode)
		out, code := open(t.TempDir(), "-policy-file", filepath.Join(rules, "rw.yaml"))
		if code != row.code || row.code != 0 && !strings.Contains(out, "bad_state_dir") || strings.Contains(out, rules) {
			t.Errorf("directory of the policy file, %s: exit %d: %s", name, code, out)
		}
	}
	// Ours but writable by others: the mode is narrowed, and reported.
	dir := t.TempDir()
	state := filepath.Join(dir, ".resilient_write")
	policyAt(t, filepath.Join(state, "policy.yaml"), "version: 1\n")
	os.Chmod(filepath.Join(state, "policy.yaml"), 0o666)
	os.Chmod(state, 0o777)
	c := connect(t, dir)
	out := call(t, c, "rw_describe", map[string]any{})
	if !strings.Contains(fmt.Sprint(out["recovery"]), "state_dir_narrowed") {
		t.Errorf("%v", out["recovery"])
	}
	for place, want := range map[string]os.FileMode{state: 0o700, filepath.Join(state, "policy.yaml"): 0o600} {
		if st, err := os.Stat(place); err != nil || st.Mode().Perm() != want {
			t.Errorf("%s: %v %v", filepath.Base(place), st.Mode(), err)
		}
	}
}

// TestCostlyPatternFromOutside: a pattern that takes too long on a text makes
// the call fail with its file and line; other texts are written.
func TestCostlyPatternFromOutside(t *testing.T) {
	t.Parallel()
	if !testbed.Long() && os.Getenv("RW_CI_FULL") == "" {
		t.Skip("takes 20 seconds: RW_LONG=1")
	}
	dir, file := t.TempDir(), filepath.Join(t.TempDir(), "rules.yaml")
	policyAt(t, file, "gate: {mode: block}\nextend_patterns:\n  own:\n  - {name: quick, regex: 'BADGE-[0-9]{6}'}\n  - name: slow\n    regex: '[ab]{1,990}c'\n")
	c := connect(t, dir, "-policy-file", file)
	out := call(t, c, "rw_safe_write", args{"path": "long.txt", "content": strings.Repeat("ab", 4<<20)})
	about, _ := out["context"].(map[string]any)
	if reason(out) != "bad_policy" || about["problem"] != "too_costly" || about["file"] != "rules.yaml" || about["line"] != 5.0 || about["pattern"] != "slow" {
		t.Errorf("%.600v", out)
	}
	if _, err := os.Stat(filepath.Join(dir, "long.txt")); err == nil {
		t.Error("long.txt was written")
	}
	for content, want := range map[string]string{"short: abababc-free\n": "ok", strings.Repeat("another text\n", 1<<10): "ok", "abc abc\n": "ok"} {
		if got := becomes(t, c, "a.txt", content); got != want {
			t.Errorf("%.20s: %s", content, got)
		}
	}
}
