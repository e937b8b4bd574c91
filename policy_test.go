package resilientwrite_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// became is what became of a call: ok with its warnings, or the detail.
func became(r rw.SafeWriteResult, err error) string {
	if err != nil {
		return string(rw.AsError("", err).Detail)
	}
	return strings.TrimSpace("ok " + reasons(r.Warnings))
}

// risky are texts of each verdict.
var risky = struct{ low, medium, high, highUnsure string }{
	low: "ssn 536-22-8714\n", medium: "password = \"" + random(alphaBase, 16, 71) + "\"\n",
	high: "id " + awsID(72) + "\n",
	// High by its score, without a confirmed credential.
	highUnsure: "password = \"" + random(alphaBase, 16, 73) + "\"\nsecret = \"" + random(alphaBase, 16, 74) + "\"\napi_secret: \"" + random(alphaBase, 16, 75) + "\"\nssn 536-22-8714\n",
}

// TestRiskyTextsAreWhatTheyAreCalled guards the tests below.
func TestRiskyTextsAreWhatTheyAreCalled(t *testing.T) {
	for text, want := range map[string]rw.Verdict{risky.low: rw.VerdictLow, risky.medium: rw.VerdictMedium, risky.high: rw.VerdictHigh, risky.highUnsure: rw.VerdictHigh} {
		r := rw.ScoreContent([]byte(text), nil)
		confirmed := slices.ContainsFunc(r.DetectedPatterns, func(f rw.RiskFinding) bool { return f.Confidence == "confirmed" })
		expect(t, r.Verdict == want && confirmed == (text == risky.high), "%s %v %v for %+v", r.Verdict, r.Score, confirmed, r.DetectedPatterns)
	}
}

func yes(b bool) *bool { return &b }

// TestGateModes is the table of the policy's rules against the caller's requests. All
// calls are dry runs on one path, which have the same result as real ones.
func TestGateModes(t *testing.T) {
	t.Parallel()
	const block, advise, off = "gate: {mode: block}\n", "gate: {mode: advise}\n", "gate: {mode: off}\n"
	dir := ramspace(t)
	type ask struct {
		classify *bool
		at       rw.Verdict
		accept   string
	}
	for _, row := range []struct {
		policy string
		ask    ask
		low    string
		medium string
		unsure string // high by score
		high   string // a confirmed credential
	}{
		{block, ask{}, "ok risk_low", "ok risk_medium", "risk_blocked", "risk_blocked"},
		{advise, ask{}, "ok risk_low", "ok risk_medium", "ok risk_high", "ok risk_high"},
		{off, ask{}, "ok", "ok", "ok", "ok"},
		{"gate: {mode: block, reject_at: medium}\n", ask{}, "ok risk_low", "risk_blocked", "risk_blocked", "risk_blocked"},
		{"gate: {mode: block, reject_at: low}\n", ask{}, "risk_blocked", "risk_blocked", "risk_blocked", "risk_blocked"},
		{"gate: {mode: advise, reject_at: low}\n", ask{}, "ok risk_low", "ok risk_medium", "ok risk_high", "ok risk_high"},
		// classify true forces the gate.
		{advise, ask{classify: yes(true)}, "ok risk_low", "ok risk_medium", "risk_blocked", "risk_blocked"},
		{off, ask{classify: yes(true)}, "ok risk_low", "ok risk_medium", "risk_blocked", "risk_blocked"},
		{off, ask{classify: yes(true), at: rw.VerdictLow}, "risk_blocked", "risk_blocked", "risk_blocked", "risk_blocked"},
		// classify false only where everything may be overridden, or nothing
		// would be refused anyway.
		{"gate: {mode: block, overrides: none}\n", ask{classify: yes(false)}, "ok gate_kept risk_low", "ok gate_kept risk_medium", "risk_blocked", "risk_blocked"},
		{"gate: {mode: block, overrides: reason}\n", ask{classify: yes(false)}, "ok gate_kept risk_low", "ok gate_kept risk_medium", "risk_blocked", "risk_blocked"},
		{"gate: {mode: block, overrides: any}\n", ask{classify: yes(false)}, "ok", "ok", "ok", "ok"},
		{advise, ask{classify: yes(false)}, "ok", "ok", "ok", "ok"},
		// classify_reject_at: stricter always, weaker only where allowed.
		{"gate: {mode: block, overrides: none}\n", ask{at: rw.VerdictLow}, "risk_blocked", "risk_blocked", "risk_blocked", "risk_blocked"},
		{"gate: {mode: block, reject_at: low, overrides: reason}\n", ask{at: rw.VerdictHigh}, "risk_blocked", "risk_blocked", "risk_blocked", "risk_blocked"},
		{"gate: {mode: block, reject_at: low, overrides: any}\n", ask{at: rw.VerdictHigh}, "ok risk_low", "ok risk_medium", "risk_blocked", "risk_blocked"},
		{"gate: {mode: block, reject_at: medium, overrides: reason}\n", ask{at: rw.VerdictHigh}, "ok gate_kept risk_low", "risk_blocked", "risk_blocked", "risk_blocked"},
		{"gate: {mode: block, reject_at: medium, overrides: reason}\n", ask{at: rw.VerdictMedium}, "ok risk_low", "risk_blocked", "risk_blocked", "risk_blocked"},
		// accept_risk.
		{"gate: {mode: block, overrides: none}\n", ask{accept: "why"}, "ok risk_low", "ok risk_medium", "risk_blocked", "risk_blocked"},
		{"gate: {mode: block, overrides: reason}\n", ask{accept: "why"}, "ok risk_low", "ok risk_medium", "ok risk_accepted", "risk_blocked"},
		{"gate: {mode: block, overrides: any}\n", ask{accept: "why"}, "ok risk_low", "ok risk_medium", "ok risk_accepted", "ok risk_accepted"},
		{"gate: {mode: block, reject_at: low, overrides: reason}\n", ask{accept: "why"}, "ok risk_accepted", "ok risk_accepted", "ok risk_accepted", "risk_blocked"},
	} {
		s := openWith(t, dir, row.policy, nil)
		for _, cell := range []struct{ text, want string }{{risky.low, row.low}, {risky.medium, row.medium}, {risky.highUnsure, row.unsure}, {risky.high, row.high}} {
			r, err := s.SafeWrite(background, rw.SafeWriteRequest{
				Path: "a.txt", Content: []byte(cell.text), Call: rw.Call{DryRun: true, AcceptRisk: row.ask.accept}, Classify: row.ask.classify, ClassifyRejectAt: row.ask.at,
			})
			if got := became(r, err); got != cell.want {
				t.Errorf("%s %+v %s: %s, want %s", strings.TrimSpace(row.policy), row.ask, rw.ScoreContent([]byte(cell.text), nil).Verdict, got, cell.want)
			}
		}
		s.Close(background)
	}
}

// TestPrecedenceOfTheGate: the options, unless the policy file in the state
// directory is stricter, then that file, then the context, then the library;
// each field by itself.
func TestPrecedenceOfTheGate(t *testing.T) {
	t.Parallel()
	low := rw.Gate{RejectAt: rw.VerdictLow}
	dir := ramspace(t)
	for i, row := range []struct {
		policy string
		opts   rw.Gate
		ctx    rw.Gate
		low    string
		high   string
	}{
		{"", rw.Gate{}, rw.Gate{}, "ok risk_low", "ok risk_high"},
		{"", rw.Gate{}, rw.GateOfAgents, "ok risk_low", "risk_blocked"},
		{"", rw.Gate{Mode: rw.GateAdvise}, rw.GateOfAgents, "ok risk_low", "ok risk_high"},
		{"", rw.Gate{Mode: rw.GateOff}, rw.GateOfAgents, "ok", "ok"},
		{"gate: {mode: block}\n", rw.Gate{Mode: rw.GateOff}, rw.Gate{Mode: rw.GateAdvise}, "ok risk_low", "risk_blocked"},
		{"gate: {mode: off}\n", rw.Gate{Mode: rw.GateBlock}, rw.GateOfAgents, "ok risk_low", "risk_blocked"},
		{"gate: {mode: off}\n", rw.Gate{}, rw.GateOfAgents, "ok", "ok"},
		{"gate: {mode: block}\n", low, rw.GateOfAgents, "risk_blocked", "risk_blocked"},
		{"gate: {mode: block, reject_at: high}\n", low, low, "risk_blocked", "risk_blocked"},
		{"gate: {mode: block, reject_at: high}\n", rw.Gate{}, low, "ok risk_low", "risk_blocked"},
		{"gate: {mode: block}\n", rw.Gate{}, low, "risk_blocked", "risk_blocked"},
		{"version: 1\n", rw.Gate{}, rw.GateOfAgents, "ok risk_low", "risk_blocked"},
		{"version: 1\n", rw.Gate{}, rw.Gate{}, "ok risk_low", "ok risk_high"},
	} {
		s := openWith(t, dir, row.policy, &rw.Options{Gate: row.opts})
		for _, cell := range []struct{ text, want string }{{risky.low, row.low}, {risky.high, row.high}} {
			r, err := s.SafeWrite(rw.WithGate(background, row.ctx), rw.SafeWriteRequest{Path: "a.txt", Content: []byte(cell.text), Call: rw.Call{DryRun: true}})
			equal(t, became(r, err), cell.want, i)
		}
		s.Close(background)
	}
}

// TestOverridesHavePrecedenceToo: an agent's accept_risk for a credential.
func TestOverridesHavePrecedenceToo(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	for i, row := range []struct {
		policy string
		opts   rw.Gate
		want   string
	}{
		{"", rw.Gate{}, "risk_blocked"}, {"", rw.Gate{Overrides: rw.OverrideAny}, "ok risk_accepted"},
		{"gate: {overrides: none}\n", rw.Gate{Overrides: rw.OverrideAny}, "risk_blocked"}, {"gate: {overrides: any}\n", rw.Gate{Overrides: rw.OverrideNone}, "risk_blocked"},
		{"gate: {overrides: any}\n", rw.Gate{}, "ok risk_accepted"},
	} {
		s := openWith(t, dir, row.policy, &rw.Options{Gate: row.opts})
		r, err := s.SafeWrite(agents(), rw.SafeWriteRequest{Path: "a.txt", Content: []byte(risky.high), Call: rw.Call{DryRun: true, AcceptRisk: "why"}})
		equal(t, became(r, err), row.want, i)
	}
}

// TestBadGateInTheContextWeakensNothing: a misspelt override has no effect.
func TestBadGateInTheContextWeakensNothing(t *testing.T) {
	t.Parallel()
	s := open(t, ramspace(t), &rw.Options{Sync: rw.SyncOff})
	for _, g := range []rw.Gate{{Mode: "blok"}, {Mode: rw.GateBlock, RejectAt: "hihg"}, {Mode: rw.GateBlock, Overrides: "resaon"}} {
		_, err := s.SafeWrite(rw.WithGate(background, g), rw.SafeWriteRequest{Path: "a.txt", Content: []byte(risky.high), Call: rw.Call{DryRun: true, AcceptRisk: "why"}})
		expect(t, (g.Overrides == "" || err != nil) &&
			(g.Overrides != "" || err == nil || errors.Is(err, rw.ErrRiskBlocked) || errors.Is(err, rw.ErrInvalidArgument)), "%s: %v", g, err)
	}
}

func TestBadGateOptionsFailOpen(t *testing.T) {
	t.Parallel()
	for _, g := range []rw.Gate{{Mode: "blok"}, {RejectAt: rw.VerdictSafe}, {Overrides: "some"}} {
		fails(rw.Open(background, ramspace(t), &rw.Options{Gate: g}))(t, rw.ErrInvalidArgument, g)
	}
}

// TestBadRiskArguments are refused before anything is read.
func TestBadRiskArguments(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	for _, r := range []rw.SafeWriteRequest{
		{ClassifyRejectAt: "safe"}, {ClassifyRejectAt: "HIGH"}, {Call: rw.Call{AcceptRisk: "  \n"}}, {Call: rw.Call{AcceptRisk: strings.Repeat("x", 501)}}, {Call: rw.Call{AcceptRisk: "\xff"}},
	} {
		r.Path, r.Content = "a.txt", []byte("harmless")
		conformsEnvelope(t, refused(t, s, dir, r, rw.ErrInvalidArgument))
	}
}

// TestAcceptedRiskIsInTheJournal with its reason, and a secret in the
// reason does not.
func TestAcceptedRiskIsInTheJournal(t *testing.T) {
	t.Parallel()
	s, dir := policed(t, "gate: {mode: block, overrides: any}\n")
	other := ghToken(81)
	r := put("a.txt", risky.high, rw.ModeCreate)
	r.AcceptRisk = "fixture of a revoked key, see " + other + " é"
	out := passes(t, s, r)
	wants(t, out, call.WarnRiskAccepted)
	equal(t, reasons(out.Receipt.Warnings), call.WarnRiskAccepted, out.Receipt.Warnings)
	fileIs(t, dir, "a.txt", risky.high)
	rows := rawRows(t, dir)
	expect(t, len(rows) == 1 && rows[0]["accept_risk"] == "fixture of a revoked key, see {GHP-REDACTED} é", "%v", rows)
	length(t, leaks(t, dir, other), 0)
	// A reason where nothing had to be accepted is not kept.
	r = put("b.txt", "harmless", rw.ModeCreate)
	r.AcceptRisk = "just in case"
	wants(t, passes(t, s, r), "")
	rows = rawRows(t, dir)
	expect(t, rows[1]["accept_risk"] == nil, "%v", rows[1])
	// A long one is cut at its limit, between characters.
	r = put("c.txt", risky.high, rw.ModeCreate)
	r.AcceptRisk = strings.Repeat("é", 200) + strings.Repeat(" "+awsID(82), 4)
	passes(t, s, r)
	got := rawRows(t, dir)[2]["accept_risk"].(string)
	// It is also kept for a name.
	r = put("d/"+awsID(83), "harmless", rw.ModeCreate)
	r.AcceptRisk = "the name of a fixture"
	passes(t, s, r)
	equal(t, rawRows(t, dir)[3]["accept_risk"], any(r.AcceptRisk))
	expect(t, len(got) <= 500 && !strings.ContainsRune(got, '\ufffd') && !strings.Contains(got, "AKIA"), "%d bytes: %q", len(got), got)
	check(t, s, true)
}

// TestAllowRules: by path, by rule, by family, by all of them together, and
// only there.
func TestAllowRules(t *testing.T) {
	t.Parallel()
	aws, gh := "id "+awsID(91)+"\n", "t "+ghToken(92)+"\n"
	dir := ramspace(t)
	s := openWith(t, dir, `gate: {mode: block}
allow:
  - {path: "fixtures/**", reason: test data}
  - {path: "*.pem.md", pattern: "*", reason: documents}
  - {pattern: ghp, path: "tokens.txt", reason: revoked}
  - {pattern: github_pat, path: "tokens/*.txt", reason: revoked}
  - {pattern: statsig_client_key, reason: public}
`, nil)
	os.MkdirAll(filepath.Join(dir, "fixtures/deep"), 0o755)
	os.Symlink("fixtures", filepath.Join(dir, "alias"))
	os.Symlink("../elsewhere.txt", filepath.Join(dir, "fixtures/out.txt"))
	for _, row := range []struct{ path, text, want string }{
		{"fixtures/a.txt", aws + gh, "ok"}, {"fixtures/deep/er/a.txt", aws, "ok"}, {"fixtures.txt", aws, "risk_blocked"}, {"x/fixtures/a.txt", aws, "risk_blocked"},
		{"alias/a.txt", aws, "ok"},                // the file is in fixtures
		{"fixtures/out.txt", aws, "risk_blocked"}, // the file does not
		{"key.pem.md", aws, "ok"}, {"x/key.pem.md", aws, "risk_blocked"},
		{"tokens.txt", gh, "ok"}, {"tokens.txt", gh + aws, "risk_blocked"}, {"tokens.txt", aws, "risk_blocked"},
		{"tokens/a.txt", gh, "ok"}, {"tokens/b/a.txt", gh, "risk_blocked"}, {"other.txt", gh, "risk_blocked"},
	} {
		r, err := s.SafeWrite(background, rw.SafeWriteRequest{Path: row.path, Content: []byte(row.text), Call: rw.Call{DryRun: true}})
		equal(t, became(r, err), row.want, row.path)
	}
	// The scanning verbs know the same exceptions, for a path that is named.
	for path, want := range map[string]rw.Verdict{"fixtures/a.txt": rw.VerdictSafe, "": rw.VerdictHigh, "other.txt": rw.VerdictHigh} {
		r, err := s.RiskScore(background, rw.RiskScoreRequest{Content: []byte(aws), TargetPath: path})
		expect(t, err == nil && r.Verdict == want && (want == rw.VerdictSafe) == (r.Allowed == 1), "%q: %v %+v", path, err, r)
		c, err := s.Redact(background, rw.RedactRequest{Content: []byte(aws), TargetPath: path})
		expect(t, err == nil && (string(c.Content) == aws) == (want == rw.VerdictSafe), "%q: %v %+v", path, err, c)
	}
	// Append is judged by the path as well.
	passes(t, s, put("fixtures/log.txt", aws, rw.ModeAppend))
	passes(t, s, put("fixtures/log.txt", gh, rw.ModeAppend))
}

// TestLetterCaseOfThePolicy: a rule that allows matches the exact spelling, because
// another spelling is another directory; a rule that protects matches every spelling,
// because on some disks it is the same file.
func TestLetterCaseOfThePolicy(t *testing.T) {
	t.Parallel()
	s, _ := policed(t, "gate: {mode: block}\nallow:\n  - {path: 'testdata/**', reason: test data}\n  - {path: 'Fixtures/*.env', reason: test data}\nprotect: ['Infra/**']\n")
	text := "t " + ghToken(94) + "\n"
	for path, want := range map[string]string{
		"testdata/x.env": "ok", "TESTDATA/x.env": "risk_blocked", "Testdata/x.env": "risk_blocked", "a/testdata/x.env": "risk_blocked",
		"Fixtures/x.env": "ok", "fixtures/x.env": "risk_blocked", "Fixtures/x.ENV": "risk_blocked",
		"Infra/x": "protected_path", "infra/x": "protected_path", "INFRA/X": "protected_path",
	} {
		for _, mode := range []rw.WriteMode{rw.ModeCreate, rw.ModeAppend} {
			equal(t, became(s.SafeWrite(background, rw.SafeWriteRequest{Path: path, Content: []byte(text), Mode: mode, Call: rw.Call{DryRun: true}})), want, mode, " ", path)
		}
		r, err := s.RiskScore(background, rw.RiskScoreRequest{Content: []byte(text), TargetPath: path})
		expect(t, err == nil && (r.Verdict == rw.VerdictSafe) == (want == "ok"), "%s is scored %s, %v", path, r.Verdict, err)
	}
}

// TestProtectedPaths: by glob, in any letter case, with the content of a directory, and
// through symbolic links, for every mode.
func TestProtectedPaths(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	for _, d := range []string{"secrets/deep", "infra", "open", "SHOUT"} {
		os.MkdirAll(filepath.Join(dir, d), 0o755)
	}
	for _, f := range []string{"secrets/a.txt", "infra/main.tf", "infra/readme.md", "LICENSE", "open/a.txt"} {
		os.WriteFile(filepath.Join(dir, f), []byte("old\n"), 0o644)
	}
	for link, to := range map[string]string{"open/in": "../secrets", "open/license": "../LICENSE", "open/new": "../secrets/new.txt"} {
		os.Symlink(to, filepath.Join(dir, link))
	}
	s := openWith(t, dir, "protect: [secrets, '**/*.tf', LICENSE, 'Shout/**']\n", &rw.Options{Gate: rw.Gate{Mode: rw.GateOff}})
	for _, path := range []string{
		"secrets/a.txt", "secrets/new.txt", "secrets/deep/er/x", "Secrets/a.txt", "SECRETS/x", "./secrets/../secrets/a.txt", filepath.Join(dir, "secrets/a.txt"),
		"infra/main.tf", "infra/MAIN.TF", "main.tf", "LICENSE", "license", "shout/x", "SHOUT/x",
		"open/in/a.txt", "open/in/new.txt", "open/license", "open/new", "secrets",
	} {
		for _, mode := range []rw.WriteMode{rw.ModeCreate, rw.ModeOverwrite, rw.ModeAppend} {
			r := put(path, "evil", mode)
			r.Force, r.AllowShrink, r.AcceptRisk = true, true, "please"
			before := snapshot(t, dir)
			_, err := s.SafeWrite(background, r)
			expect(t, errors.Is(err, rw.ErrProtectedPath) || path == "secrets" && errors.Is(err, rw.ErrIsADirectory), "%s %s: %v", mode, path, err)
			mustEqual(t, snapshot(t, dir), before, mode, " ", path, " changed something")
			if err != nil {
				conformsEnvelope(t, rw.AsError("", err))
			}
		}
		expect(t, errorOf(s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: path, Mode: rw.ModeOverwrite}, &endless{left: 2 << 20})) != nil,
			"streamed to %s", path)
	}
	for _, path := range []string{"secrets.txt", "infra/readme.md", "open/a.txt", "x/LICENSE", "open/secrets2/x"} {
		passes(t, s, put(path, "fine\n", rw.ModeAppend))
	}
	// A protected file can still be read.
	r := must(s.Read(background, rw.ReadRequest{Path: "secrets/a.txt"}))(t)
	expect(t, string(r.Content) == "old\n", "%q", r.Content)
	check(t, s, true)
}

// TestPolicyOfTheScanner: thresholds, own patterns and switched off ones reach
// the gate.
func TestPolicyOfTheScanner(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	own := "ticket ACME-" + random("0123456789", 9, 95) + "\n"
	for i, row := range []struct{ policy, text, want string }{
		{"gate: {mode: block}\nthresholds: {low: 0.01, medium: 0.02, high: 0.05}\n", risky.low, "risk_blocked"},
		{"gate: {mode: block}\nthresholds: {high: 1, medium: 0.9}\n", risky.highUnsure, "ok risk_low"},
		{"gate: {mode: block}\nthresholds: {high: 1, medium: 0.9}\n", risky.high, "risk_blocked"}, // confirmed is high at any score
		{"gate: {mode: block}\nextend_patterns:\n  acme: [{name: acme_ticket, regex: 'ACME-[0-9]{9}', weight: 0.8, keywords: [acme-]}]\n", own, "risk_blocked"},
		{"gate: {mode: block}\nextend_patterns:\n  acme: [{name: acme_ticket, regex: 'ACME-[0-9]{9}', weight: 0.2}]\n", own, "ok risk_low"},
		{"gate: {mode: block}\nextend_patterns:\n  acme: [{name: acme_ticket, regex: 'ACME-[0-9]{9}', weight: 0.8}]\nallow: [{pattern: acme_ticket, reason: public}]\n", own, "ok"},
		{"gate: {mode: block}\ndisable_families: [api_key]\n", risky.high, "ok"},
		{"gate: {mode: block}\ndisable_patterns: [aws_access_key_id]\n", risky.high, "ok"},
		{"gate: {mode: block}\ndisable_patterns: [ssn]\n", risky.low, "ok"},
	} {
		s := openWith(t, dir, row.policy, nil)
		r, err := s.SafeWrite(background, put(fmt.Sprintf("%d.txt", i), row.text, rw.ModeCreate))
		equal(t, became(r, err), row.want, i)
		if row.want == "risk_blocked" && strings.HasPrefix(row.text, "ticket") {
			e := rw.AsError("", err)
			equal(t, strings.Join(e.Patterns, " "), "acme", "families ", e.Patterns)
			length(t, leaks(t, dir, own[7:21]), 0)
			doc := conformsEnvelope(t, e)
			expect(t, !strings.Contains(string(doc), own[12:21]), "the envelope shows what the own pattern found: %s", doc)
		}
	}
}

// TestPolicyIsPinned: changes to the file while the store is open have no effect, and
// each row names the policy that applied.
func TestPolicyIsPinned(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	const first, second = "gate: {mode: block}\n", "# weaker\ngate: {mode: off}\n"
	s := openWith(t, dir, first, nil)
	gated(t, s, dir, put("a.txt", risky.high, rw.ModeCreate))
	writePolicy(t, dir, second)
	gated(t, s, dir, put("b.txt", risky.high, rw.ModeCreate))
	os.Remove(statePath(dir, "policy.yaml"))
	gated(t, s, dir, put("c.txt", risky.high, rw.ModeCreate))
	passes(t, s, put("d.txt", "harmless", rw.ModeCreate))
	for _, row := range rawRows(t, dir) {
		equal[any](t, row["policy"], hash(first), "row of policy")
	}
	s.Close(background)
	s = openWith(t, dir, second, nil)
	passes(t, s, put("a.txt", risky.high, rw.ModeCreate))
	rows := rawRows(t, dir)
	equal[any](t, rows[len(rows)-1]["policy"], hash(second), "row of policy")
	s.Close(background)
	os.Remove(statePath(dir, "policy.yaml"))
	s = open(t, dir, &rw.Options{Sync: rw.SyncOff})
	passes(t, s, put("e.txt", "harmless", rw.ModeCreate))
	rows = rawRows(t, dir)
	got := rows[len(rows)-1]["policy"]
	expect(t, got == nil, "without a file the row names policy %v", got)
	check(t, s, true)
}

// TestPolicyFileIsProtected (promise 12): no tool writes it, by any name or path,
// whether it exists or not.
func TestPolicyFileIsProtected(t *testing.T) {
	t.Parallel()
	const weak = "gate: {mode: off}\n"
	dir := ramspace(t)
	os.MkdirAll(filepath.Join(dir, "conf"), 0o755)
	os.MkdirAll(filepath.Join(dir, "sub"), 0o755)
	for _, f := range []string{"policy.yaml", "conf/rw.yaml"} {
		os.WriteFile(filepath.Join(dir, f), []byte("gate: {mode: block}\n"), 0o644)
	}
	os.Symlink("conf/rw.yaml", filepath.Join(dir, "link.yaml"))
	os.Symlink("conf", filepath.Join(dir, "linked"))
	for _, name := range []string{"policy.yaml", "conf/rw.yaml", "link.yaml", "linked/rw.yaml", "missing/none.yaml"} {
		for _, absolute := range []bool{false, true} {
			file := name
			if absolute {
				file = filepath.Join(dir, name)
			}
			s := open(t, dir, &rw.Options{PolicyFile: file, PolicyFileOptional: true, Gate: rw.Gate{Mode: rw.GateBlock}, Sync: rw.SyncOff})
			os.Remove(filepath.Join(dir, "sub/alias"))
			os.Symlink("../"+name, filepath.Join(dir, "sub/alias"))
			paths := []string{name, strings.ToUpper(name), "sub/../" + name, "sub/alias", filepath.Join(dir, name)}
			if name == "link.yaml" || name == "linked/rw.yaml" {
				paths = append(paths, "conf/rw.yaml", "linked/rw.yaml", "link.yaml")
			}
			for _, path := range paths {
				for _, mode := range []rw.WriteMode{rw.ModeCreate, rw.ModeOverwrite, rw.ModeAppend} {
					refused(t, s, dir, put(path, weak, mode), rw.ErrProtectedPath)
				}
			}
			gated(t, s, dir, put("a.txt", risky.high, rw.ModeCreate))
			passes(t, s, put("conf/other.yaml", "x", rw.ModeAppend))
			s.ResetTask(background)
			s.Close(background)
		}
	}
}

// TestPolicyFileThroughALinkedRoot: the workspace was opened under another
// name than the one the policy file is given by, and the file is not there.
func TestPolicyFileThroughALinkedRoot(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	alias := filepath.Join(filepath.Dir(dir), "alias")
	os.Symlink("ws", alias)
	for _, name := range []string{"policy.yaml", "missing/policy.yaml"} {
		s := open(t, alias, &rw.Options{PolicyFile: filepath.Join(alias, name), PolicyFileOptional: true, Gate: rw.GateOfAgents, Sync: rw.SyncOff})
		refused(t, s, dir, put(name, "gate: {mode: off}\n", rw.ModeCreate), rw.ErrProtectedPath)
		s.Close(background)
	}
}

// TestStatePolicyIsProtected: the default place, through every spelling.
func TestStatePolicyIsProtected(t *testing.T) {
	t.Parallel()
	s, dir := policed(t, "gate: {mode: block}\n")
	os.Symlink(rw.StateDirName+"/policy.yaml", filepath.Join(dir, "p"))
	os.Symlink(rw.StateDirName, filepath.Join(dir, "st"))
	for _, path := range []string{rw.StateDirName + "/policy.yaml", ".Resilient_Write/policy.yaml", "p", "st/policy.yaml", "st/quarantine/x", "st/budgets.json"} {
		refused(t, s, dir, put(path, "gate: {mode: off}\n", rw.ModeOverwrite), rw.ErrProtectedPath)
	}
}

// TestMissingPolicyFileIsAWarning if the options allow it; the default policy applies
// then. Otherwise Open fails.
func TestMissingPolicyFileIsAWarning(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	outside := filepath.Join(filepath.Dir(dir), "policy.yaml")
	writePolicy(t, dir, "gate: {mode: off}\n") // not the one that was named
	s := open(t, dir, &rw.Options{PolicyFile: outside, PolicyFileOptional: true, Gate: rw.GateOfAgents, Sync: rw.SyncOff})
	equal(t, reasons(s.Recovery().Warnings), call.WarnPolicyFileMissing, "warnings")
	gated(t, s, dir, put("a.txt", risky.high, rw.ModeCreate))
	s.Close(background)
	for _, place := range []string{outside, "none.yaml", "none/none.yaml"} {
		_, err := rw.Open(background, dir, &rw.Options{PolicyFile: place})
		e := rw.AsError("", err)
		expect(t, errors.Is(err, rw.ErrBadPolicy) && e.Context["problem"] == "missing" && !strings.Contains(e.Hint, dir) &&
			strings.Contains(e.Hint, filepath.Base(place)), "%v %+v", err, e)
	}
	os.WriteFile(outside, []byte("gate: {mode: off}\n"), 0o644)
	s = open(t, dir, &rw.Options{PolicyFile: outside, PolicyFileOptional: true, Gate: rw.GateOfAgents, Sync: rw.SyncOff})
	equal(t, reasons(s.Recovery().Warnings), "", "warnings")
	passes(t, s, put("a.txt", risky.high, rw.ModeCreate))
}

// TestBadPolicyFailsOpen (promise 27): with its place and a suggestion, and
// the workspace can be opened once it is corrected.
func TestBadPolicyFailsOpen(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	for _, row := range []struct {
		policy string
		line   int
		column int
		hint   string
	}{
		{"gate:\n  mod: block\n", 2, 3, "mode"}, {"version: 1\ngaet: {mode: block}\n", 2, 1, "gate"}, {"gate: {mode: blok}\n", 1, 14, "block"},
		{"disable_families: [api_keys]\n", 1, 20, "api_key"}, {"allow:\n  - {pattern: gph, reason: x}\n", 2, 15, "did you mean"}, {"allow: [{path: x}]\n", 1, 9, "reason"},
		{"protect: ['secrets/']\n", 1, 11, "secrets/**"}, {"protect: ['../x']\n", 1, 11, ""}, {"thresholds: {low: 0.5}\n", 1, 19, ""},
		{"retry_budget: {default: 0}\n", 1, 25, ""}, {"extend_patterns:\n  a: [{name: b, regex: 'a('}]\n", 2, 24, ""}, {"gate: [\n", 2, 0, ""}, {"- x\n", 1, 1, "version: 1"},
		{"version: 2\n", 1, 10, ""}, {"gate: {mode: off}\ngate: {mode: block}\n", 2, 1, "line 1"}, {"gate: &a {mode: off}\n", 1, 0, ""},
	} {
		writePolicy(t, dir, row.policy)
		s, err := rw.Open(background, dir, nil)
		if !errors.Is(err, rw.ErrBadPolicy) {
			if s != nil {
				s.Close(background)
			}
			t.Errorf("%q: %v", row.policy, err)
			continue
		}
		e := rw.AsError("", err)
		doc := conformsEnvelope(t, e)
		expect(t, e.Kind == rw.ErrPolicyViolation && e.Reason == rw.ReasonEncoding && e.Op == "open", "%q: %s", row.policy, doc)
		if e.Context["line"] != row.line || row.column > 0 && e.Context["column"] != row.column || !strings.Contains(e.Hint, row.hint) ||
			!strings.Contains(e.Hint, fmt.Sprintf("line %d, column", row.line)) {
			t.Errorf("%q: line %v column %v, hint %q, want %d:%d %q", row.policy, e.Context["line"], e.Context["column"], e.Hint, row.line, row.column, row.hint)
		}
		expect(t, !strings.Contains(string(doc), dir), "%s", doc)
	}
	s := openWith(t, dir, "version: 1\n", nil)
	passes(t, s, put("a.txt", "x", rw.ModeCreate))
	check(t, s, true)
}

// TestStrangePolicyFiles: an entry in the state directory that cannot be read as a policy
// must not count as a missing one.
func TestStrangePolicyFiles(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	os.Mkdir(statePath(dir), 0o700)
	for name, mk := range map[string]func(p string) error{
		"directory":     func(p string) error { return os.Mkdir(p, 0o700) },
		"dangling link": func(p string) error { return os.Symlink("nowhere", p) },
		"link":          func(p string) error { return os.Symlink("/dev/null", p) },
		"too large":     func(p string) error { return os.WriteFile(p, []byte("#"+strings.Repeat("x", 1<<20-1)+"\n"), 0o600) },
	} {
		noErr(t, mk(statePath(dir, "policy.yaml")))
		fails(rw.Open(background, dir, nil))(t, rw.ErrBadPolicy, name)
		os.Remove(statePath(dir, "policy.yaml"))
		open(t, dir, nil).Close(background)
	}
}

// TestEmptyPolicyIsTheDefault.
func TestEmptyPolicyIsTheDefault(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "\n\n", "# only words\n", "version: 1\n"} {
		p := must(rw.ParsePolicy([]byte(text)))(t, text)
		a, _ := json.Marshal(rw.ScoreContent([]byte(risky.highUnsure+risky.high), p))
		b, _ := json.Marshal(rw.ScoreContent([]byte(risky.highUnsure+risky.high), rw.DefaultPolicy()))
		expect(t, string(a) == string(b), "%q scores %s, the default %s", text, a, b)
	}
	equal(t, rw.DefaultPolicy().Hash(), "", "the default has a hash")
	fails(rw.ParsePolicy([]byte("x: 1\n")))(t, rw.ErrBadPolicy)
}

// TestReadOnlyStoreScansByThePolicy.
func TestReadOnlyStoreScansByThePolicy(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	writePolicy(t, dir, "disable_families: [api_key]\n")
	s := open(t, dir, &rw.Options{ReadOnly: true})
	r, err := s.RiskScore(context.Background(), rw.RiskScoreRequest{Content: []byte(risky.high)})
	expect(t, err == nil && r.Verdict == rw.VerdictSafe, "%v %+v", err, r)
	length(t, must(os.ReadDir(statePath(dir)))(t), 1, "something was written")
}

// TestACostlyPatternFailsTheCall: where a pattern of the policy takes too long on
// a text, every call that scans the text fails with the file and the line of the
// pattern, nothing is written, and other texts are; advice warns.
func TestACostlyPatternFailsTheCall(t *testing.T) {
	t.Parallel()
	const policy = "gate: {mode: block}\nextend_patterns:\n  own:\n  - name: slow\n    regex: '[ab]{1,990}c'\n"
	s, dir := policed(t, policy)
	passes(t, s, put("old.txt", "an old text\n", rw.ModeCreate))
	must(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte(strings.Repeat("ab", 8<<10))}))(t)
	s.LetPatternsTake(1)
	text := strings.Repeat("ab", 8<<10)
	before := everyFile(t, dir)
	for name, call := range map[string]func() error{
		"write": func() error { return errorOf(s.SafeWrite(background, put("a.txt", text, rw.ModeCreate))) },
		"dry run": func() error {
			r := put("a.txt", text, rw.ModeCreate)
			r.DryRun = true
			return errorOf(s.SafeWrite(background, r))
		},
		"append":  func() error { return errorOf(s.SafeWrite(background, put("old.txt", text, rw.ModeAppend))) },
		"replace": func() error { return errorOf(s.SafeWrite(background, put("old.txt", text, rw.ModeOverwrite))) },
		"compose": func() error {
			return errorOf(s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "s", OutputPath: "a.txt"}))
		},
		"preview": func() error {
			return errorOf(s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: "s", Classify: true}))
		},
		"score":  func() error { return errorOf(s.RiskScore(background, rw.RiskScoreRequest{Content: []byte(text)})) },
		"redact": func() error { return errorOf(s.Redact(background, rw.RedactRequest{Content: []byte(text)})) },
		"tx": func() error {
			return errorOf(s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "x.txt", Content: []byte("x")}, {Op: "write", Path: "y.txt", Content: []byte(text)}}}))
		},
	} {
		err := call()
		e := rw.AsError("", err)
		expect(t, err != nil && e.Detail == rw.ErrBadPolicy && e.Context["problem"] == "too_costly" && e.Context["line"] == 4 && e.Context["pattern"] == "slow" && e.Context["file"] == ".resilient_write/policy.yaml" && strings.Contains(e.Hint, "line 4"), "%s: %+v", name, e)
	}
	for path := range everyFile(t, dir) {
		_, was := before[path]
		expect(t, was || strings.Contains(path, rw.StateDirName), "%s was made", path)
	}
	passes(t, s, put("b.txt", "a short text\n", rw.ModeCreate))
	s.LetPatternsTake(time.Hour)
	passes(t, s, put("a.txt", text[:1<<10], rw.ModeCreate))

	advised := openWith(t, ramspace(t), strings.Replace(policy, "block", "advise", 1), nil)
	advised.LetPatternsTake(1)
	for _, n := range []int{len(text), 200 << 10} { // judged before and during the write
		r, err := advised.SafeWrite(context.Background(), put("a.txt", strings.Repeat("ab", n/2), rw.ModeOverwrite))
		expect(t, err == nil && reasons(r.Warnings) == call.WarnNotScanned, "%d bytes under advise: %v %v", n, err, r.Warnings)
	}
}

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
	testbed.Needs(t, "git")
	dir := ramspace(t)
	writePolicy(t, dir, policy)
	gitIn(t, dir, "init", "-q")
	gitIn(t, dir, "add", "-f", rw.StateDirName+"/policy.yaml")
	return dir
}

// TestTrackedPolicyOnlyTightens: of a policy file that git tracks, only the settings
// that make the rules stricter apply, whatever the gate of the call.
func TestTrackedPolicyOnlyTightens(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	dir := gitWorkspace(t, weakPolicy)
	marked := "id " + awsID(93) + " # resilientwrite:allow\n"
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	equal(t, reasons(s.Recovery().Warnings), call.WarnPolicyNotTrusted, "warnings")
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
		equal(t, became(r, err), cell.want, cell.text, " under ", cell.gate)
	}
	refused(t, s, dir, put("LICENSE", "x", rw.ModeCreate), rw.ErrProtectedPath)
	facts, err := s.Describe(rw.WithGate(background, rw.GateOfAgents), rw.DescribeRequest{})
	expect(t, err == nil && facts.Policy.RetryBudget == 3 && facts.Policy.Exceptions == 0 && facts.Policy.Gate == rw.GateOfAgents &&
		facts.Limits.HistoryVersionsKept == 100, "%v %+v", err, facts.Policy)
	expect(t, facts.Policy.Source == "workspace" && slices.Contains(facts.Policy.Ignored, "allow") &&
		!slices.Contains(facts.Policy.Ignored, "protect") && facts.Policy.Hash == hash(weakPolicy), "%+v", facts.Policy)
	s.Close(background)
	s = open(t, dir, &rw.Options{Sync: rw.SyncOff, TrustWorkspacePolicy: true})
	equal(t, reasons(s.Recovery().Warnings), "", "trusted: warnings")
	r, err := s.SafeWrite(agents(), rw.SafeWriteRequest{Path: "a.txt", Content: []byte(risky.high), Call: rw.Call{DryRun: true}})
	equal(t, became(r, err), "ok", "trusted")
	// Trusted or not, it does not weaken the options.
	s.Close(background)
	s = open(t, dir, &rw.Options{Sync: rw.SyncOff, TrustWorkspacePolicy: true, Gate: rw.Gate{Mode: rw.GateBlock, RejectAt: rw.VerdictLow, Overrides: rw.OverrideNone}})
	facts, err = s.Describe(background, rw.DescribeRequest{})
	want := (rw.Gate{Mode: rw.GateBlock, RejectAt: rw.VerdictLow, Overrides: rw.OverrideNone})
	expect(t, err == nil && facts.Policy.Gate == want && facts.Policy.Exceptions == 1, "%v %+v", err, facts.Policy)
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
		{weakPolicy, rw.Options{}, "ok", call.WarnPolicyWeakens, ""},
		{"gate: {mode: advise}\n", rw.Options{}, "ok risk_high", call.WarnPolicyWeakens, ""},
		{"gate: {mode: block, reject_at: low}\nprotect: [x]\n", rw.Options{}, "risk_blocked", "", ""},
		{"version: 1\n", rw.Options{}, "risk_blocked", "", ""},
		{"gate: {mode: off}\n", rw.Options{Gate: rw.Gate{Mode: rw.GateBlock}}, "risk_blocked", call.WarnPolicyNotTrusted, "gate.mode"},
		{"gate: {mode: advise}\n", rw.Options{Gate: rw.Gate{Mode: rw.GateBlock}}, "risk_blocked", call.WarnPolicyNotTrusted, "gate.mode"},
		{"gate: {mode: block}\n", rw.Options{Gate: rw.Gate{Mode: rw.GateOff}}, "risk_blocked", "", ""},
		{"allow: [{path: '**', reason: x}]\n", rw.Options{Gate: rw.Gate{Mode: rw.GateBlock}}, "risk_blocked", call.WarnPolicyNotTrusted, "allow"},
		{"disable_families: [api_key]\n", rw.Options{Gate: rw.Gate{Mode: rw.GateBlock}}, "risk_blocked", call.WarnPolicyNotTrusted, "disable_families"},
		{"allow: [{path: '**', reason: x}]\n", rw.Options{}, "ok", call.WarnPolicyWeakens, ""},
		{"allow: [{path: '**', reason: x}]\n", rw.Options{Gate: rw.Gate{Mode: rw.GateBlock}, TrustWorkspacePolicy: true}, "ok", "", ""},
		{"gate: {mode: off}\n", rw.Options{Gate: rw.Gate{Mode: rw.GateBlock}, TrustWorkspacePolicy: true}, "risk_blocked", call.WarnPolicyNotTrusted, "gate.mode"},
		{"history: {max_versions: 2}\n", rw.Options{Gate: rw.Gate{Mode: rw.GateBlock}}, "risk_blocked", call.WarnPolicyWeakens, ""},
	} {
		dir := ramspace(t)
		row.opts.Sync = rw.SyncOff
		writePolicy(t, dir, row.policy)
		s := must(rw.Open(agents(), dir, &row.opts))(t)
		name := fmt.Sprintf("%.40q %+v", row.policy, row.opts.Gate)
		equal(t, reasons(s.Recovery().Warnings), row.warnings, name, ": warnings")
		r, err := s.SafeWrite(agents(), rw.SafeWriteRequest{Path: "a.txt", Content: []byte(risky.high), Call: rw.Call{DryRun: true}})
		equal(t, became(r, err), row.want, name)
		facts, _ := s.Describe(agents(), rw.DescribeRequest{})
		equal(t, strings.Join(facts.Policy.Ignored, " "), row.ignored, name, ": ignored")
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
		expect(t, facts.Policy.Source == "explicit" && len(facts.Policy.Ignored) == 0, "%+v", facts.Policy)
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
		require(t, errorOf(s.SafeWrite(agents(), r)) != nil, "written")
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
	equal(t, reasons(s.Recovery().Warnings), call.WarnPolicyBroken, "warnings")
	before := snapshot(t, dir)
	for range 5 { // the budget does not count it
		e := refused(t, s, dir, put("a.txt", "x", rw.ModeCreate), rw.ErrBadPolicy)
		require(t, e.Context["file"] == rw.StateDirName+"/policy.yaml" && e.Context["line"] == 2 && e.Context["column"] == 3 && e.Context["problem"] == "unknown_key" &&
			e.Context["journaled"] == false && e.Action == rw.ActionAskUser && strings.Contains(e.Hint, "did you mean mode"), "%+v", e)
		conformsEnvelope(t, e)
	}
	for name, call := range mutations(s) {
		isErr(t, call(), rw.ErrBadPolicy, name)
	}
	equal(t, snapshot(t, dir), before, "changed")
	equal(t, string(must(s.Read(background, rw.ReadRequest{Path: "old.txt"}))(t).Content), "old\n")
	must(s.Check(background, admin.CheckRequest{}))(t)
	equal(t, must(s.RiskScore(background, rw.RiskScoreRequest{Content: []byte(risky.high)}))(t).Verdict, rw.VerdictHigh)
	d := must(s.Describe(background, rw.DescribeRequest{}))(t)
	expect(t, d.Policy.Problem != nil && d.Policy.Problem.Line == 2 && d.Policy.Problem.File == rw.StateDirName+"/policy.yaml", "%+v", d.Policy)
	writePolicy(t, dir, "gate: {mode: blok}\n") // another mistake
	e := refused(t, s, dir, put("a.txt", "x", rw.ModeCreate), rw.ErrBadPolicy)
	expect(t, e.Context["line"] == 1 && e.Context["problem"] == "bad_value", "%+v", e)
	writePolicy(t, dir, "gate: {mode: block}\nprotect: [LICENSE]\n")
	passes(t, s, put("a.txt", "x", rw.ModeCreate))
	refused(t, s, dir, put("LICENSE", "x", rw.ModeCreate), rw.ErrProtectedPath)
	gated(t, s, dir, put("b.txt", risky.high, rw.ModeCreate))
	d, err := s.Describe(background, rw.DescribeRequest{})
	expect(t, err == nil && d.Policy.Problem == nil && reasons(d.Recovery.Warnings) == "", "%v %+v", err, d)
	for _, text := range []string{"gate: [", "gate: {mode: off}\n", ""} { // valid is pinned
		writePolicy(t, dir, text)
		gated(t, s, dir, put("b.txt", risky.high, rw.ModeCreate))
		s.ResetTask(background)
	}
	check(t, s, true)
}

// TestPolicyThatCannotBeRead: a policy file that could not be read for a moment is read
// with the next call, although it is as it was. Too many open files are none of its problems.
func TestPolicyThatCannotBeRead(t *testing.T) {
	for _, errno := range []syscall.Errno{syscall.EIO, syscall.EMFILE} {
		for i, more := 0, true; more; i++ {
			fs := simfs.New()
			noErr(t, must(rw.OpenSim(fs, nil, rw.Sim{}))(t).Close(background))
			fs.WriteFile(rw.StateDirName+"/policy.yaml", []byte("gate: {mode: block}\n"), 0o600)
			n := -1
			var s *rw.Store
			hit, err := injected(t, fs, func(op simfs.Op) (f simfs.Fault) {
				if strings.HasSuffix(op.Path, "policy.yaml") {
					if n++; n == i {
						f.Err = errno
					}
				}
				return f
			}, func() (err error) {
				s, err = rw.OpenSim(fs, &rw.Options{ServeWithBadPolicy: true}, rw.Sim{Nonce: "0002"})
				return err
			})
			if more = hit != ""; err != nil {
				require(t, !errors.Is(err, rw.ErrBadPolicy), "%s: %v", hit, err)
				continue
			}
			noErr(t, do(put("a.txt", "x", rw.ModeCreate))(s), hit)
			s.Close(background)
		}
	}
}

// mutations are calls that change something, one of each kind.
func mutations(s *rw.Store) map[string]func() error {
	return map[string]func() error{
		"edit": func() error {
			return errorOf(s.Edit(background, rw.EditRequest{Path: "old.txt", Edits: []rw.EditOp{{Old: "old", New: "new"}}}))
		},
		"delete": func() error { return errorOf(s.Delete(background, rw.DeleteRequest{Path: "old.txt"})) },
		"move":   func() error { return errorOf(s.Move(background, rw.MoveRequest{Path: "old.txt", To: "b"})) },
		"tx": func() error {
			return errorOf(s.Tx(background, rw.TxRequest{Ops: []rw.TxOp{{Op: "write", Path: "b", Content: []byte("x")}}}))
		},
		"tx_begin": func() error { return errorOf(s.TxBegin(background, rw.TxBeginRequest{})) },
		"undo":     func() error { return errorOf(s.Undo(background, rw.UndoRequest{})) },
		"chunk_append": func() error {
			return errorOf(s.ChunkAppend(background, rw.ChunkAppendRequest{Session: "s", Content: []byte("x")}))
		},
		"chunk_reset": func() error { return errorOf(s.ChunkReset(background, rw.ChunkResetRequest{Session: "s"})) },
		"scratch_put": func() error { return errorOf(s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte("x")})) },
		"checkpoint": func() error {
			return errorOf(s.Checkpoint(background, rw.CheckpointRequest{Name: "n", Data: []byte(`{"a":1}`)}))
		},
		"checkpoint_cleanup": func() error { return errorOf(s.CheckpointCleanup(background, rw.CheckpointCleanupRequest{})) },
		"compact":            func() error { return errorOf(s.Admin().Compact(background, admin.CompactRequest{})) },
		"repair":             func() error { return errorOf(s.Admin().Repair(background, admin.RepairRequest{})) },
		"stream": func() error {
			return errorOf(s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "b", Mode: rw.ModeCreate}, &endless{left: 2 << 20}))
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
				expect(t, e.Context["problem"] == row.problem && e.Context["file"] == place && strings.Contains(e.Hint, place), "%+v %s", e.Context, e.Hint)
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
	os.Symlink("soon/rw.yaml", filepath.Join(dir, "link.yaml"))
	for _, row := range []struct {
		place string
		no    []string
		yes   []string
	}{
		{"conf/deep/rw.yaml", []string{"conf", "conf/x", "conf/deep", "conf/deep/x", "conf/deep/rw.yaml", "CONF/x", "./conf", "there/../conf/x"}, []string{"con", "conf.txt", "there/conf"}},
		{"there/deep/rw.yaml", []string{"there", "there/deep", "there/deep/x"}, []string{"there/x", "there/deeper/x"}},
		{"dangling/rw.yaml", []string{"later", "later/x", "later/deep", "later/deep/x", "later/deep/rw.yaml", "dangling/x", "dangling"}, []string{"late/x"}},
		{"link.yaml", []string{"link.yaml", "soon/rw.yaml", "soon/x", "soon"}, []string{"sooner/x"}},
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
