package resilientwrite_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// weakPolicy uses every key that can weaken, and two that tighten.
const weakPolicy = `gate: {mode: off, reject_at: high, overrides: any, inline_markers: true}
allow: [{path: '**', reason: all of it}]
disable_families: [api_key]
disable_patterns: [jwt_triplet]
thresholds: {low: 0.8, medium: 0.9, high: 1}
retry_budget: {default: 100}
history: {max_versions: 1}
protect: [LICENSE]
extend_patterns: {acme: [{name: acme_ticket, regex: 'ACME-[0-9]{9}', weight: 0.8}]}
`

// gitWorkspace makes a workspace in a repository whose index lists the policy file.
func gitWorkspace(t *testing.T, policy string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("git is not installed")
	}
	dir := ramspace(t)
	writePolicy(t, dir, policy)
	for _, args := range [][]string{{"init", "-q"}, {"add", "-f", rw.StateDirName + "/policy.yaml"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	return dir
}

// TestTrackedPolicyOnlyTightens: of a policy file that git tracks, only the settings
// that make the rules stricter apply, whatever the gate of the call.
func TestTrackedPolicyOnlyTightens(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	dir := gitWorkspace(t, weakPolicy)
	marked := "id " + awsID(93) + " # resilientwrite:allow\n"
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	if got := reasons(s.Recovery().Warnings); got != rw.WarnPolicyNotTrusted {
		t.Errorf("warnings %q", got)
	}
	for _, cell := range []struct {
		text string
		gate rw.Gate
		want string
	}{
		{risky.high, rw.GateOfAgents, "risk_blocked"}, {marked, rw.GateOfAgents, "risk_blocked"}, {risky.low, rw.GateOfAgents, "ok risk_low"},
		{risky.highUnsure, rw.GateOfAgents, "risk_blocked"}, {risky.medium, rw.GateOfAgents, "ok risk_medium"},
		{"ACME-123456789\n", rw.GateOfAgents, "risk_blocked"},
		{risky.high, rw.Gate{}, "ok risk_high"}, {risky.high, rw.Gate{Mode: rw.GateOff}, "ok"},
	} {
		r, err := s.SafeWrite(rw.WithGate(background, cell.gate), rw.SafeWriteRequest{Path: "a.txt", Content: []byte(cell.text), Call: rw.Call{DryRun: true}})
		if got := became(r, err); got != cell.want {
			t.Errorf("%.20q under %s: %s, want %s", cell.text, cell.gate, got, cell.want)
		}
	}
	refused(t, s, dir, put("LICENSE", "x", rw.ModeCreate), rw.ErrProtectedPath)
	facts, err := s.Describe(rw.WithGate(background, rw.GateOfAgents), rw.DescribeRequest{})
	if err != nil || facts.Policy.RetryBudget != 3 || facts.Policy.Exceptions != 0 || facts.Policy.Gate != rw.GateOfAgents || facts.Limits["history_versions_kept"] != 100 {
		t.Errorf("%v %+v", err, facts.Policy)
	}
	if facts.Policy.Source != "workspace" || !slices.Contains(facts.Policy.Ignored, "allow") || slices.Contains(facts.Policy.Ignored, "protect") || facts.Policy.Hash != hash(weakPolicy) {
		t.Errorf("%+v", facts.Policy)
	}
	s.Close(background)
	s = open(t, dir, &rw.Options{Sync: rw.SyncOff, TrustWorkspacePolicy: true})
	if got := reasons(s.Recovery().Warnings); got != "" {
		t.Errorf("trusted: warnings %q", got)
	}
	r, err := s.SafeWrite(agents(), rw.SafeWriteRequest{Path: "a.txt", Content: []byte(risky.high), Call: rw.Call{DryRun: true}})
	if got := became(r, err); got != "ok" {
		t.Errorf("trusted: %s", got)
	}
	// Trusted or not, it does not weaken the options.
	s.Close(background)
	s = open(t, dir, &rw.Options{Sync: rw.SyncOff, TrustWorkspacePolicy: true, Gate: rw.Gate{Mode: rw.GateBlock, RejectAt: rw.VerdictLow, Overrides: rw.OverrideNone}})
	facts, err = s.Describe(background, rw.DescribeRequest{})
	if want := (rw.Gate{Mode: rw.GateBlock, RejectAt: rw.VerdictLow, Overrides: rw.OverrideNone}); err != nil || facts.Policy.Gate != want || facts.Policy.Exceptions != 1 {
		t.Errorf("%v %+v", err, facts.Policy)
	}
}

// TestUntrackedPolicyAndTheOptions: against a default the file holds in full,
// with a warning; against an option nothing of it that weakens the gate does.
func TestUntrackedPolicyAndTheOptions(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	for _, row := range []struct {
		policy   string
		opts     rw.Options
		want     string // of a credential
		warnings string
		ignored  string
	}{
		{weakPolicy, rw.Options{}, "ok", rw.WarnPolicyWeakens, ""},
		{"gate: {mode: advise}\n", rw.Options{}, "ok risk_high", rw.WarnPolicyWeakens, ""},
		{"gate: {mode: block, reject_at: low}\nprotect: [x]\n", rw.Options{}, "risk_blocked", "", ""},
		{"version: 1\n", rw.Options{}, "risk_blocked", "", ""},
		{"gate: {mode: off}\n", rw.Options{Gate: rw.Gate{Mode: rw.GateBlock}}, "risk_blocked", rw.WarnPolicyNotTrusted, "gate.mode"},
		{"gate: {mode: advise}\n", rw.Options{Gate: rw.Gate{Mode: rw.GateBlock}}, "risk_blocked", rw.WarnPolicyNotTrusted, "gate.mode"},
		{"gate: {mode: block}\n", rw.Options{Gate: rw.Gate{Mode: rw.GateOff}}, "risk_blocked", "", ""},
		{"allow: [{path: '**', reason: x}]\n", rw.Options{Gate: rw.Gate{Mode: rw.GateBlock}}, "risk_blocked", rw.WarnPolicyNotTrusted, "allow"},
		{"disable_families: [api_key]\n", rw.Options{Gate: rw.Gate{Mode: rw.GateBlock}}, "risk_blocked", rw.WarnPolicyNotTrusted, "disable_families"},
		{"allow: [{path: '**', reason: x}]\n", rw.Options{}, "ok", rw.WarnPolicyWeakens, ""},
		{"allow: [{path: '**', reason: x}]\n", rw.Options{Gate: rw.Gate{Mode: rw.GateBlock}, TrustWorkspacePolicy: true}, "ok", "", ""},
		{"gate: {mode: off}\n", rw.Options{Gate: rw.Gate{Mode: rw.GateBlock}, TrustWorkspacePolicy: true}, "risk_blocked", rw.WarnPolicyNotTrusted, "gate.mode"},
		{"history: {max_versions: 2}\n", rw.Options{Gate: rw.Gate{Mode: rw.GateBlock}}, "risk_blocked", rw.WarnPolicyWeakens, ""},
	} {
		dir := ramspace(t)
		row.opts.Sync = rw.SyncOff
		writePolicy(t, dir, row.policy)
		s := must(rw.Open(agents(), dir, &row.opts))(t)
		name := fmt.Sprintf("%.40q %+v", row.policy, row.opts.Gate)
		if got := reasons(s.Recovery().Warnings); got != row.warnings {
			t.Errorf("%s: warnings %q, want %q", name, got, row.warnings)
		}
		r, err := s.SafeWrite(agents(), rw.SafeWriteRequest{Path: "a.txt", Content: []byte(risky.high), Call: rw.Call{DryRun: true}})
		if got := became(r, err); got != row.want {
			t.Errorf("%s: %s, want %s", name, got, row.want)
		}
		facts, _ := s.Describe(agents(), rw.DescribeRequest{})
		if got := strings.Join(facts.Policy.Ignored, " "); got != row.ignored {
			t.Errorf("%s: ignored %q, want %q", name, got, row.ignored)
		}
		s.Close(background)
	}
}

// TestExplicitPolicyGoesFirst: the policy that the options name applies in full,
// tracked or not, and precedes the other options.
func TestExplicitPolicyGoesFirst(t *testing.T) {
	t.Parallel()
	dir := gitWorkspace(t, weakPolicy)
	for _, place := range []string{filepath.Join(dir, rw.StateDirName, "policy.yaml"), rw.StateDirName + "/policy.yaml"} {
		s := open(t, dir, &rw.Options{Sync: rw.SyncOff, PolicyFile: place, Gate: rw.GateOfAgents})
		r, err := s.SafeWrite(background, rw.SafeWriteRequest{Path: "a.txt", Content: []byte(risky.high), Call: rw.Call{DryRun: true}})
		if got := became(r, err); got != "ok" || reasons(s.Recovery().Warnings) != "" {
			t.Errorf("%s %q", got, reasons(s.Recovery().Warnings))
		}
		facts, _ := s.Describe(background, rw.DescribeRequest{})
		if facts.Policy.Source != "explicit" || len(facts.Policy.Ignored) > 0 {
			t.Errorf("%+v", facts.Policy)
		}
		s.Close(background)
	}
}

// TestTrustChangesTheBudget: a call that was refused too often while a key was
// ignored is another call once the key holds.
func TestTrustChangesTheBudget(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	dir := gitWorkspace(t, "allow: [{path: 'a.txt', reason: x}]\n")
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	r := put("a.txt", risky.high, rw.ModeCreate)
	for range 4 {
		if _, err := s.SafeWrite(agents(), r); err == nil {
			t.Fatal("written")
		}
	}
	s.Close(background)
	s = open(t, dir, &rw.Options{Sync: rw.SyncOff, TrustWorkspacePolicy: true})
	must(s.SafeWrite(agents(), r))(t)
}

// TestServeWithBadPolicy: reads work, every call that changes something is
// refused, nothing of it is in the journal, and once the file is valid it holds
// and stays.
func TestServeWithBadPolicy(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	os.WriteFile(filepath.Join(dir, "old.txt"), []byte("old\n"), 0o644)
	writePolicy(t, dir, "gate:\n  mod: block\n")
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff, ServeWithBadPolicy: true})
	if got := reasons(s.Recovery().Warnings); got != rw.WarnPolicyBroken {
		t.Errorf("warnings %q", got)
	}
	before := snapshot(t, dir)
	for range 5 { // the budget does not count it
		e := refused(t, s, dir, put("a.txt", "x", rw.ModeCreate), rw.ErrBadPolicy)
		if e.Context["file"] != rw.StateDirName+"/policy.yaml" || e.Context["line"] != 2 || e.Context["column"] != 3 || e.Context["problem"] != "unknown_key" ||
			e.Context["journaled"] != false || e.Action != rw.ActionAskUser || !strings.Contains(e.Hint, "did you mean mode") {
			t.Fatalf("%+v", e)
		}
		conformsEnvelope(t, e)
	}
	for name, call := range mutations(s) {
		isErr(t, call(), rw.ErrBadPolicy, name)
	}
	if after := snapshot(t, dir); after != before {
		t.Errorf("changed\n%s\nto\n%s", before, after)
	}
	if r, err := s.Read(background, rw.ReadRequest{Path: "old.txt"}); err != nil || string(r.Content) != "old\n" {
		t.Errorf("%v %+v", err, r)
	}
	must(s.Check(background, rw.CheckRequest{}))(t)
	if r, err := s.RiskScore(background, rw.RiskScoreRequest{Content: []byte(risky.high)}); err != nil || r.Verdict != rw.VerdictHigh {
		t.Errorf("%v %+v", err, r)
	}
	if d, err := s.Describe(background, rw.DescribeRequest{}); err != nil || d.Policy.Problem == nil || d.Policy.Problem.Line != 2 || d.Policy.Problem.File != rw.StateDirName+"/policy.yaml" {
		t.Errorf("%v %+v", err, d.Policy)
	}
	writePolicy(t, dir, "gate: {mode: blok}\n") // another mistake
	if e := refused(t, s, dir, put("a.txt", "x", rw.ModeCreate), rw.ErrBadPolicy); e.Context["line"] != 1 || e.Context["problem"] != "bad_value" {
		t.Errorf("%+v", e)
	}
	writePolicy(t, dir, "gate: {mode: block}\nprotect: [LICENSE]\n")
	passes(t, s, put("a.txt", "x", rw.ModeCreate))
	refused(t, s, dir, put("LICENSE", "x", rw.ModeCreate), rw.ErrProtectedPath)
	gated(t, s, dir, put("b.txt", risky.high, rw.ModeCreate))
	if d, err := s.Describe(background, rw.DescribeRequest{}); err != nil || d.Policy.Problem != nil || reasons(d.Recovery.Warnings) != "" {
		t.Errorf("%v %+v", err, d)
	}
	for _, text := range []string{"gate: [", "gate: {mode: off}\n", ""} { // valid is pinned
		writePolicy(t, dir, text)
		gated(t, s, dir, put("b.txt", risky.high, rw.ModeCreate))
		s.ResetTask(background)
	}
	check(t, s, true)
}

// mutations are calls that change something, one of each kind.
func mutations(s *rw.Store) map[string]func() error {
	return map[string]func() error{
		"edit": func() error {
			_, err := s.Edit(background, rw.EditRequest{Path: "old.txt", Edits: []rw.EditOp{{Old: "old", New: "new"}}})
			return err
		},
		"delete": func() error { _, err := s.Delete(background, rw.DeleteRequest{Path: "old.txt"}); return err },
		"move":   func() error { _, err := s.Move(background, rw.MoveRequest{Path: "old.txt", To: "b"}); return err },
		"tx": func() error {
			_, err := s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "b", Content: []byte("x")}}})
			return err
		},
		"tx_begin": func() error { _, err := s.TxBegin(background, rw.TxBeginRequest{}); return err },
		"undo":     func() error { _, err := s.Undo(background, rw.UndoRequest{}); return err },
		"chunk_append": func() error {
			_, err := s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte("x")})
			return err
		},
		"chunk_reset": func() error { _, err := s.ChunkReset(background, rw.ChunkResetRequest{Session: "s"}); return err },
		"scratch_put": func() error {
			_, err := s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte("x")})
			return err
		},
		"checkpoint": func() error {
			_, err := s.Checkpoint(background, rw.CheckpointRequest{Name: "n", Data: []byte(`{"a":1}`)})
			return err
		},
		"checkpoint_cleanup": func() error { _, err := s.CheckpointCleanup(background, rw.CheckpointCleanupRequest{}); return err },
		"compact":            func() error { _, err := s.Admin().Compact(background, rw.CompactRequest{}); return err },
		"repair":             func() error { _, err := s.Admin().Repair(background, rw.RepairRequest{}); return err },
		"stream": func() error {
			_, err := s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "b", Mode: rw.ModeCreate}, &endless{left: 2 << 20})
			return err
		},
	}
}

// TestBadPolicyOfEveryKind: each is refused with its problem, and mended while
// the store is open.
func TestBadPolicyOfEveryKind(t *testing.T) {
	t.Parallel()
	place := "conf/rw.yaml"
	for name, row := range map[string]struct {
		make    func(p string) error
		problem string
	}{
		"missing":         {func(p string) error { return nil }, "missing"},
		"a directory":     {func(p string) error { return os.Mkdir(p, 0o755) }, "not_a_regular_file"},
		"a dangling link": {func(p string) error { return os.Symlink("none", p) }, "missing"},
		"a loop":          {func(p string) error { return os.Symlink("rw.yaml", p) }, "unreadable"},
		"too large":       {func(p string) error { return os.WriteFile(p, []byte("#"+strings.Repeat("x", 2<<20)), 0o644) }, "too_large"},
		"an expression": {func(p string) error {
			return os.WriteFile(p, []byte("extend_patterns: {a: [{name: b, regex: 'a('}]}\n"), 0o644)
		}, "bad_regex"},
		"not UTF-8":        {func(p string) error { return os.WriteFile(p, []byte("\xff\xfe"), 0o644) }, "bad_yaml"},
		"a list":           {func(p string) error { return os.WriteFile(p, []byte("- x\n"), 0o644) }, "not_a_mapping"},
		"another version":  {func(p string) error { return os.WriteFile(p, []byte("version: 2\n"), 0o644) }, "unsupported_version"},
		"a key twice":      {func(p string) error { return os.WriteFile(p, []byte("gate: {}\ngate: {}\n"), 0o644) }, "duplicate_key"},
		"an unknown rule":  {func(p string) error { return os.WriteFile(p, []byte("disable_patterns: [emial]\n"), 0o644) }, "bad_value"},
		"a wrong protect":  {func(p string) error { return os.WriteFile(p, []byte("protect: ['../x']\n"), 0o644) }, "bad_glob"},
		"wrong thresholds": {func(p string) error { return os.WriteFile(p, []byte("thresholds: {low: 0.5}\n"), 0o644) }, "bad_thresholds"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := ramspace(t)
			p := filepath.Join(dir, filepath.FromSlash(place))
			os.Mkdir(filepath.Dir(p), 0o755)
			noErr(t, row.make(p))
			if s, err := rw.Open(background, dir, &rw.Options{PolicyFile: place}); !errors.Is(err, rw.ErrBadPolicy) {
				s.Close(background)
				t.Fatalf("Open: %v", err)
			}
			s := open(t, dir, &rw.Options{Sync: rw.SyncOff, PolicyFile: place, ServeWithBadPolicy: true})
			for range 2 {
				e := refused(t, s, dir, put("a.txt", "x", rw.ModeCreate), rw.ErrBadPolicy)
				if e.Context["problem"] != row.problem || e.Context["file"] != place || !strings.Contains(e.Hint, place) {
					t.Errorf("%+v %s", e.Context, e.Hint)
				}
				conformsEnvelope(t, e)
			}
			os.RemoveAll(p)
			os.WriteFile(p, []byte("gate: {mode: block}\n"), 0o644)
			passes(t, s, put("a.txt", "x", rw.ModeCreate))
			gated(t, s, dir, put("b.txt", risky.high, rw.ModeCreate))
		})
	}
}

// TestHalfAPolicyIsNotTaken: a file that an editor has partly written may be valid, and
// would apply until the store is closed.
func TestHalfAPolicyIsNotTaken(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	writePolicy(t, dir, "gate: [\n")
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff, ServeWithBadPolicy: true})
	writePolicy(t, dir, "# the rules of this workspace\n")
	lines := []string{"protect: [LICENSE]\n", "gate: {mode: block}\n"}
	s.WhileQuiet(func() {
		if len(lines) == 0 {
			return
		}
		f := must(os.OpenFile(statePath(dir, "policy.yaml"), os.O_WRONLY|os.O_APPEND, 0))(t)
		defer f.Close()
		f.WriteString(lines[0])
		lines = lines[1:]
	})
	passes(t, s, put("a.txt", "x", rw.ModeCreate))
	gated(t, s, dir, put("b.txt", risky.high, rw.ModeCreate))
	refused(t, s, dir, put("LICENSE", "x", rw.ModeCreate), rw.ErrProtectedPath)
}

// TestWhatLeadsToThePolicyFile: no tool makes a name on the way to the policy
// file, as a file or as a directory, or takes one away.
func TestWhatLeadsToThePolicyFile(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	os.MkdirAll(filepath.Join(dir, "there"), 0o755)
	os.Symlink("later/deep", filepath.Join(dir, "dangling"))
	for _, row := range []struct {
		place string
		no    []string
		yes   []string
	}{
		{"conf/deep/rw.yaml", []string{"conf", "conf/x", "conf/deep", "conf/deep/x", "conf/deep/rw.yaml", "CONF/x", "./conf", "there/../conf/x"}, []string{"con", "conf.txt", "there/conf"}},
		{"there/deep/rw.yaml", []string{"there", "there/deep", "there/deep/x"}, []string{"there/x", "there/deeper/x"}},
		{"dangling/rw.yaml", []string{"later", "later/x", "later/deep", "later/deep/x", "later/deep/rw.yaml", "dangling/x", "dangling"}, []string{"late/x"}},
	} {
		s := open(t, dir, &rw.Options{Sync: rw.SyncOff, PolicyFile: row.place, PolicyFileOptional: true})
		for _, path := range row.no {
			for _, mode := range []rw.WriteMode{rw.ModeCreate, rw.ModeAppend, rw.ModeOverwrite} {
				refused(t, s, dir, put(path, "x", mode), rw.ErrProtectedPath)
			}
			fails(s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "fine.txt", Content: []byte("x")}, {Op: "write", Path: path, Content: []byte("x")}}}))(t, rw.ErrProtectedPath, "tx ", path)
		}
		for _, path := range row.yes {
			passes(t, s, put(path, "x", rw.ModeAppend))
			if _, err := s.Move(background, rw.MoveRequest{Path: path, To: row.no[0]}); err == nil {
				t.Errorf("%s was moved to %s", path, row.no[0])
			}
			must(s.Delete(background, rw.DeleteRequest{Path: path}))(t)
		}
		s.Close(background)
	}
}
