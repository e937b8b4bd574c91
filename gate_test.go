package resilientwrite_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/scan"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/spec"
)

// The secrets of these tests are generated at run time, so that no file of ours
// contains anything that looks like a live one.
const (
	alphaUpper = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	alphaBase  = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	alphaHex   = "0123456789abcdef"
)

// random is n letters of an alphabet with a digit and a letter among them.
func random(alphabet string, n int, seed uint64) string {
	rng := rand.New(rand.NewPCG(seed, 0xfeed))
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[rng.IntN(len(alphabet))]
	}
	if strings.Contains(alphabet, "7") && n >= 8 {
		b[n/2], b[n/2+1] = '7', '4'
	}
	return string(b)
}

// awsID returns an access key id: its shape alone confirms it.
func awsID(seed uint64) string { return "AK" + "IA" + random(alphaUpper, 16, seed) }

// ghToken is a token with a correct checksum.
func ghToken(seed uint64) string {
	body := random(alphaBase, 30, seed)
	return "gh" + "p_" + body + scan.Checksum(body)
}

func pemKey(seed uint64) string {
	var b strings.Builder
	b.WriteString("-----BEGIN RSA " + "PRIVATE KEY-----\n")
	for i := range uint64(6) {
		b.WriteString(random(alphaBase+"+/", 64, seed*100+i) + "\n")
	}
	b.WriteString("-----END RSA " + "PRIVATE KEY-----\n")
	return b.String()
}

func jwt(seed uint64) string {
	enc := base64.RawURLEncoding
	return enc.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." +
		enc.EncodeToString([]byte(`{"sub":"`+random(alphaBase, 12, seed)+`","iat":1700000000}`)) + "." + random(alphaBase+"-_", 43, seed+1)
}

// ramspace is a workspace in memory where the system has a place for it: these
// tests are not about the disk, and there are many of them.
func ramspace(t *testing.T) string {
	t.Helper()
	shm := testbed.RAM()
	if shm == "" {
		return workspace(t)
	}
	parent, err := os.MkdirTemp(shm, "rw-test-")
	if err != nil {
		return workspace(t)
	}
	t.Cleanup(func() { os.RemoveAll(parent) })
	dir := filepath.Join(parent, "ws")
	noErr(t, os.Mkdir(dir, 0o755))
	return dir
}

// credential is one secret and a text that holds it.
type credential struct{ name, family, secret, text string }

// credentials are confirmed ones, each of another kind.
func credentials() []credential {
	pem := pemKey(3)
	password := random(alphaBase, 24, 5)
	dop := "do" + "p_v1_" + random(alphaHex, 64, 6)
	return []credential{
		{"aws id", "api_key", awsID(1), "key = " + awsID(1) + "\n"},
		{"github token", "github_pat", ghToken(2), "export GH_TOKEN=" + ghToken(2) + "\n"},
		{"private key", "pem_block", strings.Split(pem, "\n")[2], pem},
		{"password of a database", "db_uri", password, "url: postgres://app:" + password + "@db.internal.corp.net:5432/app\n"},
		{"cloud token", "cloud_key", dop, "token=" + dop + "\n"},
	}
}

// agents is the context of a call that came from an agent.
func agents() context.Context { return rw.WithGate(background, rw.GateOfAgents) }

// openGated opens a store with the gate settings for agents.
func openGated(t *testing.T, dir string, opts *rw.Options) *rw.Store {
	t.Helper()
	o := unsynced(opts)
	if o.Gate == (rw.Gate{}) {
		o.Gate = rw.GateOfAgents
	}
	return open(t, dir, o)
}

// unsynced is a copy of options, with SyncOff unless they set a level.
func unsynced(opts *rw.Options) *rw.Options {
	var o rw.Options
	if opts != nil {
		o = *opts
	}
	o.Sync = cmp.Or(o.Sync, rw.SyncOff)
	return &o
}

// gatedStore is such a store in a workspace of its own.
func gatedStore(t *testing.T) (*rw.Store, string) {
	t.Helper()
	dir := ramspace(t)
	return openGated(t, dir, nil), dir
}

// openWith opens a store with a policy file in its state directory.
func openWith(t *testing.T, dir, policy string, opts *rw.Options) *rw.Store {
	t.Helper()
	writePolicy(t, dir, policy)
	return open(t, dir, unsynced(opts))
}

// policed is such a store in a workspace of its own.
func policed(t *testing.T, policy string) (*rw.Store, string) {
	t.Helper()
	dir := ramspace(t)
	return openWith(t, dir, policy, nil), dir
}

func writePolicy(t *testing.T, dir, policy string) {
	t.Helper()
	noErr(t, os.MkdirAll(statePath(dir), 0o700))
	noErr(t, os.WriteFile(statePath(dir, "policy.yaml"), []byte(policy), 0o600))
}

// gated makes a call that the gate must refuse: nothing changes, the envelope
// conforms, and it asks for redaction.
func gated(t *testing.T, s *rw.Store, dir string, r rw.SafeWriteRequest) *rw.Error {
	t.Helper()
	e := refused(t, s, dir, r, rw.ErrRiskBlocked)
	isGateRefusal(t, e)
	return e
}

func isGateRefusal(t *testing.T, e *rw.Error) {
	t.Helper()
	if e.Kind != rw.ErrBlocked || e.Reason != rw.ReasonContentFilter || e.Action != rw.ActionRedact || e.Stage != rw.StageClassify || e.Code() != rw.CodePolicy {
		t.Errorf("%s %s %s in %s, code %d", e.Kind, e.Reason, e.Action, e.Stage, e.Code())
	}
	conformsEnvelope(t, e)
}

func conformsEnvelope(t *testing.T, e *rw.Error) []byte {
	t.Helper()
	doc := must(json.Marshal(e))(t)
	noErr(t, spec.Validate("errors", doc), "the envelope does not conform: ", doc)
	return doc
}

// passes makes a call that the gate must let pass.
func passes(t *testing.T, s *rw.Store, r rw.SafeWriteRequest) rw.SafeWriteResult {
	t.Helper()
	return must(s.SafeWrite(background, r))(t, r.Path)
}

func reasons(ws []rw.Warning) string {
	var list []string
	for _, w := range ws {
		list = append(list, w.Reason)
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// wants fails unless the warnings of a result match.
func wants(t *testing.T, r rw.SafeWriteResult, want string) {
	t.Helper()
	equal(t, reasons(r.Warnings), want, r.Path, ": warnings")
}

// detectedOf are the findings in the context of a refusal, as on the wire.
func detectedOf(t *testing.T, e *rw.Error) []rw.RiskFinding {
	t.Helper()
	data := must(json.Marshal(e.Context["detected"]))(t)
	list := testbed.Decoded[[]rw.RiskFinding](t, data)
	return list
}

func linesOf(t *testing.T, e *rw.Error) []int {
	t.Helper()
	lines := []int{}
	for _, f := range detectedOf(t, e) {
		lines = append(lines, *f.Line)
	}
	return lines
}

func refOf(t *testing.T, e *rw.Error) string {
	t.Helper()
	ref, ok := e.Context["draft_ref"].(string)
	require(t, ok && ref != "", "no draft_ref in %v", e.Context)
	return ref
}

// rawRows returns the records of the journal as stored on disk.
func rawRows(t *testing.T, dir string) []map[string]any {
	t.Helper()
	names, _ := filepath.Glob(statePath(dir, "journal", "*.jsonl"))
	var rows []map[string]any
	for _, name := range names {
		data := must(os.ReadFile(name))(t)
		for _, line := range bytes.Split(data, []byte{'\n'}) {
			var row map[string]any
			if line = bytes.Trim(line, "\x00"); len(line) == 0 {
				continue
			}
			noErr(t, json.Unmarshal(line, &row), line)
			rows = append(rows, row)
		}
	}
	return rows
}

func refusalsIn(t *testing.T, dir string) int {
	t.Helper()
	return testbed.Count(rawRows(t, dir), func(row map[string]any) bool { return row["kind"] == "refused" })
}

func draftFiles(dir string) []string {
	names, _ := filepath.Glob(statePath(dir, "quarantine", "draft_*"))
	return names
}

// TestLibraryAdvisesByDefault: a host without gate options gets its file and a warning,
// and no draft is kept.
func TestLibraryAdvisesByDefault(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	s := open(t, dir, nil)
	for i, c := range credentials() {
		path := fmt.Sprintf("f%d.txt", i)
		r := write(t, s, path, c.text, rw.ModeCreate)
		wants(t, r, call.WarnRiskHigh)
		expect(t, reasons(r.Receipt.Warnings) == call.WarnRiskHigh && r.Warnings[0].Hint != "", "%s: the receipt does not warn: %+v", c.name,
			r.Receipt.Warnings)
		fileIs(t, dir, path, c.text)
	}
	wants(t, write(t, s, "mail.txt", "write to jo@acme-mail.org\n", rw.ModeCreate), call.WarnRiskLow)
	wants(t, write(t, s, "plain.txt", "nothing to see\n", rw.ModeCreate), "")
	length(t, draftFiles(dir), 0, "drafts without a refusal")
	check(t, s, true)
}

// TestAgentsAreBlockedAtHigh: the whole shape of a refusal of the gate.
func TestAgentsAreBlockedAtHigh(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	var receipts []rw.Receipt
	s := open(t, dir, &rw.Options{ReceiptSink: func(r rw.Receipt) { receipts = append(receipts, r) }})
	text := "a\nid " + awsID(1) + "\n\n  tok " + ghToken(2) + "\n" + "mail jo@acme-mail.org\n"
	before := snapshot(t, dir)
	_, err := s.SafeWrite(agents(), put("deep/new/a.env", text, rw.ModeCreate))
	require(t, errors.Is(err, rw.ErrRiskBlocked) && errors.Is(err, rw.ErrBlocked), "%v", err)
	equal(t, snapshot(t, dir), before, "the refusal changed")
	e := rw.AsError("", err)
	isGateRefusal(t, e)
	env := e.Envelope()
	equal(t, strings.Join(env.DetectedPatterns, " "), "api_key github_pat pii", "detected_patterns")
	expect(t, e.Path == "deep/new/a.env" && env.Context["path"] == "deep/new/a.env" && env.Context["verdict"] == rw.VerdictHigh &&
		env.Context["classify_reject_at"] == rw.VerdictHigh && env.Context["effect"] == "none" && env.Context["journaled"] == true && env.RetryBudget == 2, "%+v", env)
	if score, ok := env.Context["score"].(float64); !ok || score != 0.70 { // without the mail address, which never refuses
		t.Errorf("score %v", env.Context["score"])
	}
	var shown []string
	for _, f := range detectedOf(t, e) {
		shown = append(shown, fmt.Sprintf("%s %s %d:%d", f.Kind, f.Pattern, *f.Line, f.Column))
		if f.Match == nil || len(*f.Match) > 19 || strings.Contains(text, strings.TrimSuffix(*f.Match, "…")) && len(strings.TrimSuffix(*f.Match, "…")) > 4 {
			t.Errorf("the snippet %v shows too much", f.Match)
		}
	}
	equal(t, strings.Join(shown, ", "), "api_key aws_access_key_id 2:4, github_pat ghp 4:7, pii email 5:6", "detected")
	actions, _ := json.Marshal(env.Context["suggested_actions"])
	equal(t, string(actions), `[{"action":"redact","targets":["api_key","github_pat","pii"]}]`, "suggested_actions")
	ref := refOf(t, e)
	expect(t, strings.Contains(e.Hint, "draft_ref") && strings.Contains(e.Hint, "Store.Redact"), "the hint does not say what to do: %s", e.Hint)

	tail, err := s.JournalTail(background, rw.JournalTailRequest{IncludeRefused: true})
	require(t, err == nil && len(tail.Entries) == 1, "%v %+v", err, tail)
	if row := tail.Entries[0]; row.Kind != "refused" || row.Reason != "risk_blocked" || row.Path != "deep/new/a.env" || row.InvocationID != env.Context["invocation_id"] {
		t.Errorf("row %+v", row)
	}
	tail, _ = s.JournalTail(background, rw.JournalTailRequest{})
	expect(t, len(tail.Entries) == 0, "a refusal is shown to who did not ask for refusals")
	expect(t, len(receipts) == 1 && receipts[0].Status == rw.StatusRefused && receipts[0].Durability == "none", "receipts %+v", receipts)
	equal(t, env.Context["receipt"].(rw.Receipt).InvocationID, receipts[0].InvocationID, "another receipt in the context")

	st, err := os.Stat(statePath(dir, "quarantine"))
	require(t, err == nil && st.Mode().Perm() == 0o700, "quarantine: %v %v", err, st)
	files := draftFiles(dir)
	mustEqual(t, len(files), 2)
	for _, f := range files {
		st, err := os.Lstat(f)
		expect(t, err == nil && st.Mode() == 0o600 && strings.Contains(filepath.Base(f), ref), "%s: %v %v", f, err, st.Mode())
	}
	check(t, s, true)
}

// TestEveryConfirmedCredentialIsRefused, through both doors and every mode.
func TestEveryConfirmedCredentialIsRefused(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	os.WriteFile(filepath.Join(dir, "old.txt"), []byte("harmless\n"), 0o644)
	for i, c := range credentials() {
		e := gated(t, s, dir, put(fmt.Sprintf("new%d/x.txt", i), c.text, rw.ModeCreate))
		expect(t, slices.Contains(e.Patterns, c.family), "%s: families %v", c.name, e.Patterns)
		gated(t, s, dir, put("old.txt", "harmless\n"+c.text, rw.ModeOverwrite))
		gated(t, s, dir, put("old.txt", c.text, rw.ModeAppend))
		gated(t, s, dir, rw.SafeWriteRequest{Path: "b64.txt", Content: []byte(c.text)})
		before := snapshot(t, dir)
		_, err := s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "stream.txt"}, strings.NewReader(c.text))
		expect(t, errors.Is(err, rw.ErrRiskBlocked) && snapshot(t, dir) == before, "%s: streamed: %v", c.name, err)
	}
	check(t, s, true)
}

// TestBenignTextOfAnySizeIsNotRefused: size alone is no content.
func TestBenignTextOfAnySizeIsNotRefused(t *testing.T) {
	t.Parallel()
	s, _ := gatedStore(t)
	prose := strings.Repeat("The quick brown fox jumps over the lazy dog, again and again.\n", 20_000)
	for i, text := range []string{prose, strings.Repeat("a", 300_000), "AKIAIOSFODNN7EXAMPLE\n", "key = {AWS-ACCESS-KEY-ID-REDACTED}\n", ""} {
		path := fmt.Sprintf("f%d.txt", i)
		wants(t, passes(t, s, put(path, text, rw.ModeCreate)), "")
	}
	check(t, s, false)
}

// leaks lists the files below dir that hold one of the needles, in their names
// too, quarantine left out.
func leaks(t *testing.T, dir string, needles ...string) []string {
	t.Helper()
	var found []string
	files := readTree(t, dir, true)
	for _, p := range slices.Sorted(maps.Keys(files)) {
		for _, n := range needles {
			if bytes.Contains(files[p], []byte(n)) {
				found = append(found, p+": "+n[:4]+"…")
			}
		}
	}
	return found
}

// readTree reads the files below dir, or those that are not in quarantine: the name and
// the content of each by its path, and the name of each directory.
func readTree(t *testing.T, dir string, out bool) map[string][]byte {
	t.Helper()
	files, without := map[string][]byte{}, ""
	if out {
		without = rw.StateDirName + "/quarantine"
	}
	for e := range testbed.Entries(t, dir, without) {
		files[e.Path] = []byte(path.Base(e.Path) + strings.TrimRight(e.Text, "\x00"))
	}
	return files
}

// TestRefusedSecretIsOnlyInQuarantine (promise 24): no other file and no message of a
// refusal contains the secret.
func TestRefusedSecretIsOnlyInQuarantine(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	var said bytes.Buffer
	note := func(v any) {
		data := must(json.Marshal(v))(t)
		said.Write(data)
		fmt.Fprintf(&said, " %+v %v\n", v, v)
	}
	s := openGated(t, dir, &rw.Options{Sync: rw.SyncFull, ReceiptSink: func(r rw.Receipt) { note(r) }})
	os.WriteFile(filepath.Join(dir, "old.txt"), []byte("harmless\n"), 0o644)
	var needles []string
	for i, c := range credentials() {
		needles = append(needles, testbed.Forms(c.secret)...)
		key := fmt.Sprintf("k%d", i)
		b64 := base64.StdEncoding.EncodeToString([]byte(c.text))
		for _, r := range []rw.SafeWriteRequest{
			{Path: "a/b.txt", Content: []byte(c.text), Call: rw.Call{IdempotencyKey: key}},
			{Path: "a/b.txt", Content: []byte("\xff" + c.text)},
			{Path: "wrapped.txt", Content: []byte("blob " + b64 + "\n")},
			{Path: "old.txt", Content: []byte("x\n" + c.text), Mode: rw.ModeOverwrite},
			{Path: "old.txt", Content: []byte(c.text), Mode: rw.ModeAppend, EOL: "crlf"},
			{Path: "a/b.txt", Content: []byte(c.text), Call: rw.Call{AcceptRisk: "because " + c.text}},
			{Path: "dry.txt", Content: []byte(c.text), Call: rw.Call{DryRun: true}},
		} {
			if r.AcceptRisk != "" && len(r.AcceptRisk) > 500 {
				r.AcceptRisk = r.AcceptRisk[:500]
			}
			for range 4 { // the last one is exhausted
				_, err := s.SafeWrite(background, r)
				require(t, err != nil, "%s: %s was written", c.name, r.Path)
				e := rw.AsError("", err)
				note(e)
				note(e.Error())
				note(fmt.Sprint(errors.Unwrap(err)))
				said.Write(conformsEnvelope(t, e))
			}
		}
		if _, err := s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "stream.txt"}, io.MultiReader(&endless{left: 2 << 20}, strings.NewReader("\n"+c.text))); err == nil {
			t.Fatalf("%s: the stream was written", c.name)
		} else {
			note(rw.AsError("", err))
		}
		score, err := s.RiskScore(background, rw.RiskScoreRequest{Content: []byte(c.text)})
		expect(t, err == nil && score.Verdict == rw.VerdictHigh, "%s: %v %v", c.name, err, score.Verdict)
		note(score)
		clean, err := s.Redact(background, rw.RedactRequest{Content: []byte(c.text)})
		expect(t, err == nil && clean.Verdict == rw.VerdictSafe, "%s: %v %v", c.name, err, clean.Verdict)
		note(clean)
	}
	list, err := s.DraftList(background, rw.DraftListRequest{})
	require(t, err == nil && list.Count != 0, "%v %v", err, list.Count)
	note(list)
	for _, n := range needles {
		expect(t, !bytes.Contains(said.Bytes(), []byte(n)), "a reply, error or receipt holds a secret that begins with %.4s", n)
	}
	length(t, leaks(t, dir, needles...), 0, "found in")
	nothingStaged(t, s)
	check(t, s, true)
	noErr(t, s.Close(background))
	open(t, dir, nil)
	length(t, leaks(t, dir, needles...), 0, "found after the next open in")
}

// TestARefusedTransactionNamesTheFamiliesOfEveryFile: the caller can mend all
// files at once, and each of the first ones has its draft.
func TestARefusedTransactionNamesTheFamiliesOfEveryFile(t *testing.T) {
	t.Parallel()
	s, _ := gatedStore(t)
	ops := []rw.TxOp{
		{Op: "write", Path: "a.txt", Content: []byte("key = " + ghToken(41) + "\n")}, {Op: "write", Path: "b.txt", Content: []byte("harmless\n")},
		{Op: "write", Path: "c.txt", Content: []byte(pemKey(42))},
	}
	err := transact(s, ops...)
	e := rw.AsError("", err)
	also, _ := e.Context["also_refused"].([]any)
	require(t, errors.Is(err, rw.ErrRiskBlocked) && e.Path == "a.txt" && e.Context["op_index"] == 0 && slices.Equal(e.Patterns, []string{"github_pat", "pem_block"}) && len(also) == 1 && strings.Contains(e.Hint, "also_refused"),
		"%v %v %v %q", err, e.Patterns, also, e.Hint)
	isGateRefusal(t, e)
	facts := also[0].(map[string]any)
	ref, _ := facts["draft_ref"].(string)
	out, err := s.Redact(background, rw.RedactRequest{DraftRef: ref})
	expect(t, facts["path"] == "c.txt" && facts["op_index"] == 2 && err == nil && out.Verdict == rw.VerdictSafe, "%v: %v", facts, err)
	for i := range 100 { // more than a reply lists
		ops = append(ops, rw.TxOp{Op: "write", Path: fmt.Sprint("more", i), Content: []byte(ghToken(uint64(100+i)) + "\n")})
	}
	ops = append(ops, rw.TxOp{Op: "write", Path: "last", Content: []byte(awsID(300) + "\n")})
	e = rw.AsError("", transact(s, ops...))
	also, _ = e.Context["also_refused"].([]any)
	if drafts, err := s.DraftList(background, rw.DraftListRequest{}); !slices.Contains(e.Patterns, "api_key") || len(also) != 20 || err != nil || drafts.Count > 25 {
		t.Errorf("%v, %d files, %d drafts, %v", e.Patterns, len(also), drafts.Count, err)
	}
	isGateRefusal(t, e)
}

// TestSecretOverTwoAppends (promise 25): the second half completes the secret and is
// refused; the reported line is that of the whole file.
func TestSecretOverTwoAppends(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	for i, secret := range []string{awsID(11), ghToken(12), "hv" + "s." + random(alphaBase, 24, 13)} {
		for _, cut := range []int{3, 5, len(secret) / 2, len(secret) - 1} {
			path := fmt.Sprintf("f%d-%d.txt", i, cut)
			wants(t, passes(t, s, put(path, "one\ntwo\nthree "+secret[:cut], rw.ModeAppend)), "")
			e := gated(t, s, dir, put(path, secret[cut:]+"\n", rw.ModeAppend))
			got := linesOf(t, e)
			expect(t, slices.Equal(got, []int{3}), "%s: lines %v", path, got)
			fileIs(t, dir, path, "one\ntwo\nthree "+secret[:cut])
			passes(t, s, put(path, "\n", rw.ModeAppend)) // harmless text can still be appended
		}
	}
	check(t, s, true)
}

// TestAppendReportsLinesOfTheWholeFile, even for a file that is far larger than the part
// that is scanned again.
func TestAppendReportsLinesOfTheWholeFile(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	line := "a line of text that is of no interest to anybody\n"
	for _, lines := range []int{3, scan.Window/len(line) - 1, scan.Window / len(line), scan.Window/len(line) + 1, 3000, 60_000} {
		for _, eol := range []string{"\n", "\r\n"} {
			path := fmt.Sprintf("f%d-%d.txt", lines, len(eol))
			os.WriteFile(filepath.Join(dir, path), []byte(strings.Repeat(strings.TrimSuffix(line, "\n")+eol, lines)), 0o644)
			e := gated(t, s, dir, put(path, "more"+eol+"  "+awsID(15)+eol+eol+ghToken(16)+eol, rw.ModeAppend))
			got := linesOf(t, e)
			expect(t, slices.Equal(got, []int{lines + 2, lines + 4}), "%s: lines %v, want %d and %d", path, got, lines+2, lines+4)
			// The same with the store's memory of the file.
			passes(t, s, put(path, "more"+eol, rw.ModeAppend))
			e = gated(t, s, dir, put(path, awsID(15), rw.ModeAppend))
			f := detectedOf(t, e)
			expect(t, len(f) == 1 && *f[0].Line == lines+2 && f[0].Column == 1, "%s: %+v", path, f)
		}
	}
	check(t, s, false)
}

// TestAppendReportsTheColumnOfALongLine: the line began before the part that is scanned
// again.
func TestAppendReportsTheColumnOfALongLine(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	os.WriteFile(filepath.Join(dir, "a.txt"), []byte("first\n"+strings.Repeat("word ", 9000)), 0o644)
	e := gated(t, s, dir, put("a.txt", awsID(17), rw.ModeAppend))
	f := detectedOf(t, e)
	expect(t, len(f) == 1 && *f[0].Line == 2 && f[0].Column == 45_001, "line %d, column %d, want 2 and 45001", *f[0].Line, f[0].Column)
}

// TestManyFindingsDoNotHideTheWorst: a text with more findings than are listed names
// the family of a credential at its end, and a credential cannot be accepted by hiding
// it after them.
func TestManyFindingsDoNotHideTheWorst(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	for _, reason := range []string{"", "test data"} {
		r := put("users.txt", addresses(1200)+awsID(19)+"\n", rw.ModeCreate)
		r.AcceptRisk = reason
		e := gated(t, s, dir, r)
		expect(t, slices.Contains(e.Patterns, "api_key"), "detected_patterns %v", e.Patterns)
	}
}

// TestAppendThroughAnotherName: a file with several names is copied, and the gate scans
// it anyway.
func TestAppendThroughAnotherName(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	secret := ghToken(21)
	os.WriteFile(filepath.Join(dir, "a.txt"), []byte("one\n"+secret[:20]), 0o644)
	testbed.SkipIf(t, os.Link(filepath.Join(dir, "a.txt"), filepath.Join(dir, "b.txt")) != nil, "no hard links here")
	e := gated(t, s, dir, put("b.txt", secret[20:]+"\n", rw.ModeAppend))
	got := linesOf(t, e)
	expect(t, slices.Equal(got, []int{2}), "lines %v", got)
}

// TestLargeStreamWithSecretsIsRefused, wherever the secret is, and without memory for
// the whole stream.
func TestLargeStreamWithSecretsIsRefused(t *testing.T) {
	dir := ramspace(t)
	s := openGated(t, dir, &rw.Options{Sync: rw.SyncOff})
	const size, block = 30 << 20, 1 << 20
	line := []byte(strings.Repeat("lorem ipsum dolor sit amet ", 3) + "\n")
	secret := ghToken(23)
	stream := func(at ...int64) io.Reader {
		var parts []io.Reader
		var pos int64
		for _, a := range at {
			parts = append(parts, io.LimitReader(&repeat{line: line}, a-pos-1), strings.NewReader("\n"+secret+"\n"))
			pos = a + int64(len(secret)) + 1
		}
		return io.MultiReader(append(parts, io.LimitReader(&repeat{line: line}, size-pos))...)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i, at := range [][]int64{
		{10, block - 20, block + scan.Window - 20, 15*block - 7, 20*block + 3*scan.Window}, {size - 60},
	} {
		was := snapshot(t, dir)
		_, err := s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: fmt.Sprintf("big%d.txt", i), Mode: rw.ModeOverwrite}, stream(at...))
		isErr(t, err, rw.ErrRiskBlocked, at)
		e := rw.AsError("", err)
		isGateRefusal(t, e)
		equal(t, len(detectedOf(t, e)), len(at), at, " findings")
		equal(t, snapshot(t, dir), was, "the refusal changed")
		must(s.DraftDelete(background, rw.DraftDeleteRequest{DraftRef: refOf(t, e)}))(t)
	}
	runtime.ReadMemStats(&after)
	used := (after.TotalAlloc - before.TotalAlloc) / 2
	expect(t, used <= 24<<20, "%d MiB were allocated for a file of 30 MiB", used>>20)
	nothingStaged(t, s)
	check(t, s, false)
}

// repeat is one line for ever.
type repeat struct {
	line []byte
	at   int
}

func (r *repeat) Read(p []byte) (int, error) {
	n := 0
	for n < len(p) {
		c := copy(p[n:], r.line[r.at:])
		n += c
		r.at = (r.at + c) % len(r.line)
	}
	return n, nil
}

// TestDraftTooLargeToKeep is still refused, and the refusal says that it was not kept.
func TestDraftTooLargeToKeep(t *testing.T) {
	t.Parallel()
	testbed.SkipIf(t, testing.Short(), "writes 65 MiB")
	s, dir := gatedStore(t)
	line := []byte(strings.Repeat("lorem ipsum dolor sit amet ", 30) + "\n")
	_, err := s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "big.txt"}, io.MultiReader(strings.NewReader(awsID(24)+"\n"), io.LimitReader(&repeat{line: line}, 65<<20)))
	isErr(t, err, rw.ErrRiskBlocked)
	e := rw.AsError("", err)
	isGateRefusal(t, e)
	expect(t, e.Context["draft_kept"] == false && e.Context["draft_ref"] == nil && e.Context["draft_problem"] == rw.ErrTooLarge && len(draftFiles(dir)) == 0,
		"%v %v", e.Context, draftFiles(dir))
}

// TestAppendAfterOldFindings: findings in the old content neither refuse harmless text
// nor hide a finding in the appended one, nor make its verdict milder, however many
// there are.
func TestAppendAfterOldFindings(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	filler := strings.Repeat("text without interest\n", 4000)
	keys := ""
	for i := range uint64(1100) {
		keys += awsID(5000+i) + "\n"
	}
	for i, row := range []struct{ old, warn, added string }{
		{awsID(44) + "\n" + filler, "", ghToken(45)}, // far away, and not scanned again
		{filler + awsID(44) + "\n", call.WarnRiskPreexisting, ghToken(45)},
		{"key " + awsID(44), call.WarnRiskPreexisting, ghToken(45)},
		{keys, call.WarnRiskPreexisting, ghToken(9) + "\n"},
		{addresses(1800), call.WarnRiskPreexisting, "key " + awsID(18) + "\n"}, // all within scan.Window
		{addresses(1800), call.WarnRiskPreexisting, risky.highUnsure},
	} {
		path := fmt.Sprintf("f%d.txt", i)
		os.WriteFile(filepath.Join(dir, path), []byte(row.old), 0o644)
		gated(t, s, dir, put(path, row.added, rw.ModeAppend))
		wants(t, passes(t, s, put(path, "\nharmless\n", rw.ModeAppend)), row.warn)
		gated(t, s, dir, put(path, row.added, rw.ModeAppend))
	}
}

// addresses are so many findings, a line each.
func addresses(n int) string {
	var list strings.Builder
	for i := range n {
		fmt.Fprintf(&list, "u%d@acme.org\n", i)
	}
	return list.String()
}

// TestRewritingManyOldSecrets: one can be removed from a file that holds more
// of them than a report lists.
func TestRewritingManyOldSecrets(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	var lines []string
	for i := range uint64(1100) {
		lines = append(lines, awsID(1000+i))
	}
	os.WriteFile(filepath.Join(dir, "keys.txt"), []byte(strings.Join(lines, "\n")), 0o644)
	r := must(s.SafeWrite(background, put("keys.txt", strings.Join(lines[1:], "\n"), rw.ModeOverwrite)))(t, "one of ", len(lines), " secrets cannot be removed")
	wants(t, r, call.WarnRiskPreexisting)
}

// TestRedactByReferenceThenWrite: the way out of a refusal without sending the
// text again.
func TestRedactByReferenceThenWrite(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	for i, c := range credentials() {
		path := fmt.Sprintf("sub/f%d.txt", i)
		text := "first\n" + c.text + "last jo@acme-mail.org\n"
		e := gated(t, s, dir, put(path, text, rw.ModeCreate))
		clean, err := s.Redact(background, rw.RedactRequest{DraftRef: refOf(t, e)})
		require(t, err == nil && clean.Verdict == rw.VerdictSafe && clean.SHA256.String() == hash(string(clean.Content)), "%s: %v %+v", c.name, err,
			clean)
		expect(t, len(clean.Spans) >= 2 && clean.Spans[0].Line == 2 && strings.Contains(string(clean.Content), "-REDACTED}") && !strings.Contains(string(clean.Content), c.secret) &&
			strings.Count(string(clean.Content), "\n") == strings.Count(text, "\n"),
			"%s: %+v", c.name, clean)
		wants(t, passes(t, s, put(path, string(clean.Content), rw.ModeCreate)), "")
		again, err := s.Redact(background, rw.RedactRequest{Content: clean.Content})
		expect(t, err == nil && string(again.Content) == string(clean.Content) && len(again.Spans) == 0, "%s: redacting twice: %v %+v", c.name, err,
			again.Spans)
	}
	check(t, s, true)
}

// TestScoreAgreesWithTheVerb: the verb, the function and the gate agree.
func TestScoreAgreesWithTheVerb(t *testing.T) {
	t.Parallel()
	s := open(t, ramspace(t), nil)
	for _, c := range credentials() {
		want := rw.ScoreContent([]byte(c.text), nil)
		got := must(s.RiskScore(background, rw.RiskScoreRequest{Content: []byte(c.text)}))(t)
		a, _ := json.Marshal(want)
		b, _ := json.Marshal(got)
		expect(t, bytes.Equal(a, b), "%s: %s and %s", c.name, a, b)
	}
	_, err := s.RiskScore(background, rw.RiskScoreRequest{Content: []byte("x"), TargetPath: "../x"})
	isErr(t, err, rw.ErrEscapesWorkspace)
	conformsEnvelope(t, rw.AsError("", err))
}

// TestPrivateKeyLineByLine: a key that comes in one line at a time does not
// get in whole.
func TestPrivateKeyLineByLine(t *testing.T) {
	t.Parallel()
	s, _ := gatedStore(t)
	for _, line := range strings.SplitAfter(pemKey(51), "\n") {
		if line == "" {
			continue
		}
		if _, err := s.SafeWrite(background, put("k.pem", line, rw.ModeAppend)); err != nil {
			isErr(t, err, rw.ErrRiskBlocked)
			isGateRefusal(t, rw.AsError("", err))
			return
		}
	}
	t.Error("all of it was written")
}

// TestWrappedSecretOverTwoAppends (promise 25): a wrapped secret is also found when its
// second half is appended.
func TestWrappedSecretOverTwoAppends(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	secret := ghToken(52)
	percent := ""
	for _, c := range []byte(secret) {
		percent += fmt.Sprintf("%%%02X", c)
	}
	for name, text := range map[string]string{
		"base64": base64.StdEncoding.EncodeToString([]byte("token " + secret + " end")), "percent": percent,
		"zero width": secret[:10] + "\u200b" + secret[10:25] + "\u200d" + secret[25:], "hex": hex.EncodeToString([]byte(secret)),
	} {
		for _, filler := range []int{0, 3 * scan.Window} {
			path := fmt.Sprintf("%s-%d.txt", name[:3], filler)
			cut := len(text)/2 - len(text)/2%4
			for !strings.HasPrefix(text[cut:], "%") && name == "percent" {
				cut++
			}
			os.WriteFile(filepath.Join(dir, path), []byte(strings.Repeat("dull text\n", filler/10)+"v = "), 0o644)
			if _, err := s.SafeWrite(background, put(path, text[:cut], rw.ModeAppend)); err != nil {
				t.Errorf("%s: the first half alone: %v", path, err)
				continue
			}
			e := gated(t, s, dir, put(path, text[cut:]+"\n", rw.ModeAppend))
			got := linesOf(t, e)
			expect(t, len(got) != 0 && got[0] == filler/10+1, "%s: lines %v, want %d", path, got, filler/10+1)
		}
	}
}

// TestScannedEarly: content that is scanned while it is hashed gets the same
// warnings as content that is scanned later, however the call and the policy
// are, and a gate that blocks refuses it.
func TestScannedEarly(t *testing.T) {
	t.Parallel()
	secret := awsID(11)
	allow := "allow: [{path: b.txt, reason: a synthetic key of this test}]\n"
	calls := []struct {
		name, policy, before string
		change               func(*rw.SafeWriteRequest)
	}{
		{name: "create"},
		{name: "replace", before: "harmless\n"},
		{name: "secret was there", before: "x " + secret + "\n"},
		{name: "line ends", change: func(r *rw.SafeWriteRequest) { r.EOL = "crlf" }},
		{name: "append", before: "harmless\n", change: func(r *rw.SafeWriteRequest) { r.Mode = rw.ModeAppend }},
		{name: "allowed", policy: allow, change: func(r *rw.SafeWriteRequest) { r.Path = "b.txt" }},
		{name: "allowed elsewhere", policy: allow},
		{name: "stricter", change: func(r *rw.SafeWriteRequest) { yes := true; r.Classify = &yes }},
	}
	for _, c := range calls {
		var answer [2]string
		for i, size := range []int{64 << 10, 512 << 10} {
			line := "a line of ordinary words that say nothing\n"
			text := strings.Repeat(line, size/2/len(line)) + "key " + secret + "\n" + strings.Repeat(line, size/2/len(line))
			s, _ := policed(t, "gate: {mode: advise}\n"+c.policy)
			r := rw.SafeWriteRequest{Path: "a.txt", Content: []byte(text), Mode: rw.ModeOverwrite}
			if c.change != nil {
				c.change(&r)
			}
			if c.before != "" {
				passes(t, s, put(r.Path, c.before, rw.ModeCreate))
			}
			out, err := s.SafeWrite(background, r)
			answer[i] = reasons(out.Warnings)
			if err != nil {
				answer[i] = string(rw.AsError("", err).Detail)
			}
		}
		expect(t, answer[0] == answer[1], "%s: %q where it is scanned early, %q where it is not", c.name, answer[1], answer[0])
		allowed := c.name == "allowed"
		expect(t, (answer[0] == "") == allowed, "%s: %q", c.name, answer)
	}
}

// TestAdviceIsNotLost: a call that hands its files over to be settled warns of a secret,
// also if they are closed at once.
func TestAdviceIsNotLost(t *testing.T) {
	t.Parallel()
	line := "a line of ordinary words that say nothing\n"
	text := strings.Repeat(line, 512<<10/len(line)) + "key " + awsID(11) + "\n"
	for _, level := range []rw.SyncLevel{rw.SyncOff, rw.SyncJournal} {
		s := open(t, workspace(t), &rw.Options{Sync: level})
		for i := range 34 { // of which each sixteenth begins the settlement
			path := fmt.Sprint(i, ".txt")
			passes(t, s, put(path, line, rw.ModeCreate))
			r := must(s.SafeWrite(background, put(path, fmt.Sprint(i, text), rw.ModeOverwrite)))(t)
			expect(t, strings.Contains(reasons(r.Warnings), "risk_"), "%s %d: %q", level, i, reasons(r.Warnings))
		}
	}
}

// information is a text that scores high by findings of confidence info and by
// its size alone: mail addresses, blobs, masked prefixes, invisible characters.
func information() string {
	var b strings.Builder
	for i := range uint64(3) {
		fmt.Fprintf(&b, "jo%d@acme-mail.org\nblob %s\nkey %s\npay\u200bload\n", i, random(alphaBase+"+/", 240, 300+i), "gh"+"p_****")
	}
	return b.String() + strings.Repeat("long line ", 300) + "\n"
}

// TestInformationNeverRefuses: rw_risk_score reports high, and the gate writes the text
// at every setting, because it decides on a sum of its own.
func TestInformationNeverRefuses(t *testing.T) {
	t.Parallel()
	text := information()
	r := rw.ScoreContent([]byte(text), nil)
	require(t, r.Verdict == rw.VerdictHigh, "%s, %v", r.Verdict, r.Score)
	for _, f := range r.DetectedPatterns {
		require(t, f.Kind == "size" || f.Confidence == "info", "more than information: %+v", f)
	}
	for _, at := range []rw.Verdict{rw.VerdictHigh, rw.VerdictMedium, rw.VerdictLow} {
		dir := ramspace(t)
		s := openGated(t, dir, &rw.Options{Gate: rw.Gate{Mode: rw.GateBlock, RejectAt: at, Overrides: rw.OverrideNone}})
		wants(t, passes(t, s, put("a.txt", text, rw.ModeCreate)), call.WarnRiskLow)
		wants(t, passes(t, s, put("a.txt", text, rw.ModeAppend)), call.WarnRiskLow+" "+call.WarnRiskPreexisting)
		wants(t, passes(t, s, put("a.txt", text+"more jo@else-mail.org\n", rw.ModeOverwrite)), call.WarnRiskLow+" "+call.WarnRiskPreexisting)
		check(t, s, true)
	}
}

// TestABlobDoesNotTipTheGate: two likely values are not refused; with a long base64
// text, mail addresses and other informative findings, the score grows to high and they
// are still not refused. One more likely value of another family is.
func TestABlobDoesNotTipTheGate(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	two := "password = \"" + random(alphaBase, 16, 310) + "\"\nsecret = \"" + random(alphaBase, 16, 311) + "\"\n"
	wants(t, passes(t, s, put("two.txt", two, rw.ModeCreate)), call.WarnRiskMedium)
	tipped := two + "blob " + random(alphaBase+"+/", 240, 312) + "\njo@acme-mail.org\n"
	r := rw.ScoreContent([]byte(tipped), nil)
	require(t, r.Verdict == rw.VerdictHigh, "%s, %v", r.Verdict, r.Score)
	wants(t, passes(t, s, put("blob.txt", tipped, rw.ModeCreate)), call.WarnRiskMedium)
	e := gated(t, s, dir, put("more.txt", tipped+"ssn 536-22-8714\nssn 536-22-8715\n"+"db = postgres://app:"+random(alphaBase, 16, 313)+"@db.acme-corp.io/x\n", rw.ModeCreate))
	equal[any](t, e.Context["verdict"], rw.VerdictHigh, e.Context)
}

// TestARefusalListsEveryFamily: also those whose findings are too many to be
// listed one by one, after the first confirmed one and at the end of the text.
func TestARefusalListsEveryFamily(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	var b strings.Builder
	for i := range uint64(1500) {
		b.WriteString("id " + awsID(1000+i) + "\n")
	}
	b.WriteString(strings.Repeat("filler line\n", 200_000))
	b.WriteString("tok " + ghToken(314) + "\n" + pemKey(315) + "jo@acme-mail.org\n" + jwt(316) + "\n")
	e := gated(t, s, dir, put("all.txt", b.String(), rw.ModeCreate))
	equal(t, strings.Join(e.Patterns, " "), "api_key github_pat jwt pem_block pii", "families")
	expect(t, strings.Contains(e.Hint, "api_key, github_pat, jwt, pem_block, pii"), "the text of the refusal is %q", e.Hint)
}

// mostLive returns the maximum number of bytes of the heap in use during work, in
// excess of the number before it. Garbage that is not yet collected is not included.
func mostLive(work func()) int64 {
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	runtime.GC()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	before, most := int64(live[0].Value.Uint64()), int64(0)
	done, answer := make(chan bool), make(chan bool)
	go func() {
		defer close(answer)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			metrics.Read(live)
			most = max(most, int64(live[0].Value.Uint64())-before)
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	}()
	work()
	close(done)
	<-answer
	return most
}

// crowd is a text in which every line or word is a finding.
type crowd struct {
	name string
	text func(from int) io.Reader
	most int64  // bytes that judging it may take, however long it is
	only string // the only case in short tests
}

func crowds() []crowd {
	return []crowd{
		{"addresses", func(int) io.Reader { return &repeat{line: []byte("a@b.co ")} }, 48 << 20, "create score redact"},
		{"passwords", func(int) io.Reader { return &repeat{line: []byte("pass" + "word=a1B2c3D4e5\n")} }, 24 << 20, "append"},
		{"customers", func(from int) io.Reader { return &customers{n: from} }, 20 << 20, "create replace redact"},
	}
}

// customers is a list in which every line has another address.
type customers struct {
	n    int
	line []byte
}

func (c *customers) Read(p []byte) (int, error) {
	if len(c.line) == 0 {
		c.n++
		c.line = fmt.Appendf(nil, "%d,jo%d@acme%d.org\n", c.n, c.n, c.n%97)
	}
	n := copy(p, c.line)
	c.line = c.line[n:]
	return n, nil
}

// crowdBytes is the length of the texts. If every finding were kept, the memory would
// be several times the limits.
func crowdBytes() int64 {
	if *long {
		return 64 << 20
	}
	return 4 << 20
}

func (c *crowd) tries(step string) bool { return *long || strings.Contains(c.only, step) }

// TestJudgingNeedsConstantMemory (promise 15): the gate, whether a file is new,
// replaced or appended to, and rw_risk_score use memory that does not grow with their
// findings.
func TestJudgingNeedsConstantMemory(t *testing.T) {
	size := crowdBytes()
	for _, c := range testbed.Share(t, crowds(), 3, nil) {
		s, _ := gatedStore(t)
		write := func(mode rw.WriteMode, from int, n int64) func() {
			return func() {
				r, err := s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "list.txt", Mode: mode, Call: rw.Call{AcceptRisk: "test data"}}, io.LimitReader(c.text(from), n))
				expect(t, err == nil && len(r.Warnings) != 0, "%s: %v, warnings %v", c.name, err, r.Warnings)
			}
		}
		content := ""
		score := func() {
			r, err := s.RiskScore(background, rw.RiskScoreRequest{Content: []byte(content)})
			expect(t, err == nil && r.Omitted >= 1000 && len(r.DetectedPatterns) <= 1010, "%s: %v, %d omitted", c.name, err, r.Omitted)
		}
		if !c.tries("create") {
			write(rw.ModeCreate, 0, 1000)()
		}
		for _, step := range []struct {
			name string
			work func()
			more int64
		}{
			{"create", write(rw.ModeCreate, 0, size), 0}, {"replace", write(rw.ModeOverwrite, 100_000, size-19), 0}, // half of it new
			{"append", write(rw.ModeAppend, 0, size), 0},
			{"score", score, size}, // the bytes of the text, besides the text
		} {
			if !c.tries(step.name) {
				continue
			}
			if step.name == "score" {
				var b strings.Builder
				io.Copy(&b, io.LimitReader(c.text(0), size))
				content = b.String()
			}
			used, most := mostLive(step.work), c.most
			if testbed.RaceDetector { // it lets a grown slice and the one before live together for longer
				most += most / 3
			}
			expect(t, used <= most+step.more, "%s: %s took %d MiB for a text of %d MiB", c.name, step.name, used>>20, size>>20)
			t.Logf("%s, %s: %.1f MiB", c.name, step.name, float64(used)/(1<<20))
		}
		s.Close(background)
	}
}

// TestRedactingNeedsMemoryForTheTextOnly: a text full of findings is redacted with
// memory of a small multiple of the result, and the reply lists a limited number of
// places.
func TestRedactingNeedsMemoryForTheTextOnly(t *testing.T) {
	size := crowdBytes()
	s := openGated(t, ramspace(t), nil)
	for _, c := range crowds() {
		if !c.tries("redact") {
			continue
		}
		var b strings.Builder
		io.Copy(&b, io.LimitReader(c.text(0), size))
		content := b.String()
		var r rw.RedactResult
		var err error
		used := mostLive(func() { r, err = s.Redact(background, rw.RedactRequest{Content: []byte(content)}) })
		require(t, err == nil && len(r.Spans) == 1000 && r.Omitted >= 1000 && r.Verdict == rw.VerdictSafe, "%s: %v, %d spans, %d omitted, %s", c.name,
			err, len(r.Spans), r.Omitted, r.Verdict)
		equal(t, strings.Count(string(r.Content), "-REDACTED}"), len(r.Spans)+r.Omitted, c.name, " places are redacted")
		most := c.most + 3*int64(len(content)+len(r.Content))
		expect(t, used <= most, "%s: %d MiB, want at most %d, for %d MiB that become %d", c.name, used>>20, most>>20, size>>20, len(r.Content)>>20)
		t.Logf("%s: %.1f MiB for %d that become %d", c.name, float64(used)/(1<<20), size>>20, len(r.Content)>>20)
	}
}

// TestWhatIsNewIsCountedExactly: of thousands of findings old and new, a
// refusal counts those that the write brings in, and lists twenty.
func TestWhatIsNewIsCountedExactly(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	var old, both strings.Builder
	for i := range uint64(2400) {
		key := awsID(i) + "\n"
		if i%2 == 0 {
			old.WriteString(key)
		}
		both.WriteString(key)
	}
	noErr(t, os.WriteFile(filepath.Join(dir, "keys.txt"), []byte(old.String()), 0o644))
	for _, r := range []rw.SafeWriteRequest{put("keys.txt", both.String(), rw.ModeOverwrite), put("new.txt", old.String(), rw.ModeCreate)} {
		e := gated(t, s, dir, r)
		list := detectedOf(t, e)
		expect(t, len(list) == 20 && e.Context["detected_omitted"] == 1200-20 && strings.Join(e.Patterns, " ") == "api_key",
			"%s: %d listed, %v omitted, %v", r.Path, len(list), e.Context["detected_omitted"], e.Patterns)
		if r.Path == "keys.txt" && (*list[0].Line != 2 || *list[19].Line != 40) {
			t.Errorf("lines %d to %d, want the first that are new", *list[0].Line, *list[19].Line)
		}
	}
	wants(t, passes(t, s, put("keys.txt", old.String()[len(awsID(0))+1:], rw.ModeOverwrite)), call.WarnRiskPreexisting)
}

// BenchmarkGateOfACrowdedFile creates, and replaces, a file of 16 MiB that is
// full of findings.
func BenchmarkGateOfACrowdedFile(b *testing.B) {
	const size = 16 << 20
	for _, c := range crowds() {
		for _, mode := range []rw.WriteMode{rw.ModeCreate, rw.ModeOverwrite} {
			b.Run(c.name+"/"+string(mode), func(b *testing.B) {
				s := must(rw.Open(background, b.TempDir(), &rw.Options{Sync: rw.SyncOff}))(b)
				defer s.Close(background)
				b.SetBytes(size)
				b.ReportAllocs()
				n := 0
				judge := func() {
					path := "list.txt"
					if n++; mode == rw.ModeCreate {
						path = fmt.Sprintf("list%d.txt", n)
					}
					text := io.LimitReader(c.text(1000*n), size-int64(n)) // another one each time
					must(s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: path, Mode: mode}, text))(b)
				}
				judge()
				for b.Loop() {
					judge()
				}
			})
		}
	}
}

const allowSamples = "gate: {mode: block, overrides: any}\nallow: [{path: 'testdata/**', reason: samples}, {path: 'more/**', pattern: aws_access_key_id, reason: samples}]\n"

// TestAMoveOfWhatWasThereIsNotRefused: without an exception at the old path
// nothing refuses a move, and a large file moves unseen with a warning.
func TestAMoveOfWhatWasThereIsNotRefused(t *testing.T) {
	t.Parallel()
	s, dir := policed(t, allowSamples)
	plant(t, dir, map[string]string{"src/old.txt": "id " + awsID(502) + "\n"})
	r := must(s.Move(background, rw.MoveRequest{Path: "src/old.txt", To: "src/new.txt"}))(t)
	expect(t, len(r.Warnings) == 0, "%v", r.Warnings)
	large := "id " + awsID(503) + "\n" + strings.Repeat("filler line\n", 9<<20/12)
	plant(t, dir, map[string]string{"testdata/large.txt": large})
	r, err := s.Move(background, rw.MoveRequest{Path: "testdata/large.txt", To: "src/large.txt"})
	expect(t, err == nil && reasons(r.Warnings) == call.WarnNotScanned, "%v %v", err, r.Warnings)
}

// TestAMoveIntoTheSightOfGitIsReported: a secret that leaves an ignored path, with
// the workspace at the top of the repository and below it.
func TestAMoveIntoTheSightOfGitIsReported(t *testing.T) {
	t.Parallel()
	for _, inside := range []string{"", "sub/workspace"} {
		top := ramspace(t)
		noErr(t, os.MkdirAll(filepath.Join(top, ".git"), 0o755))
		dir := filepath.Join(top, inside)
		plant(t, top, map[string]string{".gitignore": "*.env\n/" + strings.TrimPrefix(inside+"/private/", "/") + "\n"})
		plant(t, dir, map[string]string{"conf/.gitignore": "!kept.env\n", "h.env": "nothing\n"})
		s := openWith(t, dir, "gate: {mode: block}\n", nil)
		for i, row := range []struct{ from, to, want string }{
			{"a.env", "a.txt", call.WarnSecretUnignored},
			{"b.env", "c/b.env", ""}, // still ignored
			{"private/d.txt", "d.txt", call.WarnSecretUnignored},
			{"private/e.env", "conf/kept.env", call.WarnSecretUnignored},
			{"f.txt", "g.txt", ""}, // git saw it before
		} {
			plant(t, dir, map[string]string{row.from: "id " + awsID(510+uint64(i)) + "\n"})
			r, err := s.Move(background, rw.MoveRequest{Path: row.from, To: row.to})
			expect(t, err == nil && reasons(r.Warnings) == row.want, "%q: %s: %v %v, want %q", inside, row.from, err, r.Warnings, row.want)
		}
		r := must(s.Move(background, rw.MoveRequest{Path: "h.env", To: "h.txt"}))(t)
		expect(t, len(r.Warnings) == 0, "%v", r.Warnings)
		s.Close(background)
	}
}

// TestPlaceholdersOfThePolicy: by default rw_risk_score lists them with weight 0 and a
// write does not mention them; under score they count in both; under ignore neither
// lists them.
func TestPlaceholdersOfThePolicy(t *testing.T) {
	t.Parallel()
	text := "id AKIA" + "IOSFODNN7" + "EXAMPLE\ntok ghp_" + strings.Repeat("E", 36) + "\nkey sk-proj-" + strings.Repeat("Z", 40) + "\nmail user@example.com\nssn 123-45-" + "6789\n-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEvQ...\n"
	const names = "aws_access_key_id ghp openai_project_key email ssn pem_private_key"
	for _, row := range []struct {
		policy, listed string
		verdict        rw.Verdict
		write          string
	}{
		{"gate: {mode: block, reject_at: low}\n", names, rw.VerdictSafe, "ok"},
		{"gate: {mode: block, reject_at: low}\nplaceholders: report\n", names, rw.VerdictSafe, "ok"},
		{"gate: {mode: block}\nplaceholders: score\n", names, rw.VerdictHigh, "risk_blocked"},
		{"gate: {mode: block, reject_at: low}\nplaceholders: ignore\n", "", rw.VerdictSafe, "ok"},
	} {
		s, _ := policed(t, row.policy)
		r, err := s.RiskScore(background, rw.RiskScoreRequest{Content: []byte(text)})
		expect(t, err == nil && r.Verdict == row.verdict, "%s: %v %v", row.policy, err, r.Verdict)
		var listed []string
		for _, f := range r.DetectedPatterns {
			listed = append(listed, f.Pattern)
			expect(t, f.Placeholder, "%s: %+v", row.policy, f)
		}
		equal(t, strings.Join(listed, " "), row.listed, row.policy, ": listed")
		out, err := s.SafeWrite(background, put("a.txt", text, rw.ModeCreate))
		equal(t, became(out, err), row.write, row.policy)
		clean := must(s.Redact(background, rw.RedactRequest{Content: []byte(text)}))(t)
		expect(t, (string(clean.Content) == text) == (row.write == "ok"), "%s: %+v", row.policy, clean.Spans)
		s.Close(background)
	}
	r := rw.ScoreContent([]byte(text), nil)
	expect(t, len(r.DetectedPatterns) == 6 && r.Score == 0, "%+v", r)
}

// TestAWrongChecksumSaysWhyItPassed: the token that most users try first is written,
// and the warning says why and how to see a refusal.
func TestAWrongChecksumSaysWhyItPassed(t *testing.T) {
	t.Parallel()
	s, dir := gatedStore(t)
	good := ghToken(600)
	for i, mode := range []rw.WriteMode{rw.ModeCreate, rw.ModeOverwrite, rw.ModeAppend} {
		bad := ghToken(610 + uint64(i))
		bad = bad[:len(bad)-6] + strings.ToUpper(bad[len(bad)-6:len(bad)-3]) + "0a0"
		r := passes(t, s, put("a.env", "try "+bad+"\n", mode))
		got := reasons(r.Warnings)
		require(t, strings.HasPrefix(got, call.WarnChecksumFailed+" risk_"), "%s: warnings %s", mode, got)
		for _, w := range r.Warnings {
			expect(t, w.Reason != call.WarnChecksumFailed || strings.Contains(w.Hint, "resilient-write demo"), "%+v", w)
		}
	}
	gated(t, s, dir, put("b.env", "try "+good+"\n", rw.ModeCreate))
	wants(t, passes(t, s, put("c.env", "a password = \""+random(alphaBase, 16, 601)+"\"\n", rw.ModeCreate)), call.WarnRiskMedium)
}

// TestNamesOfOrdinaryKindsPass: what hosts and agents use as labels and paths is
// no credential, even after the words that make a value one in a text.
func TestNamesOfOrdinaryKindsPass(t *testing.T) {
	t.Parallel()
	s := openGated(t, ramspace(t), &rw.Options{Gate: rw.Gate{Mode: rw.GateBlock, RejectAt: rw.VerdictLow, Overrides: rw.OverrideNone}})
	for i, name := range []string{
		"0b9f6a52-3c1d-4e7f-8a90-1b2c3d4e5f60", random(alphaHex, 64, 400), random(alphaHex, 40, 401), "toolu_" + random(alphaBase, 24, 402),
		"call_" + random(alphaBase, 24, 403), "chatcmpl-" + random(alphaBase, 29, 404), "api" + strings.Repeat("-", 1) + "0b9f6a52-3c1d-4e7f-8a90-1b2c3d4e5f60", "jo@acme-mail.org",
		"api_key=" + random(alphaBase, 32, 406), "password: " + random(alphaBase, 20, 407), "Bearer " + random(alphaBase, 20, 408),
		"sha256-" + base64.StdEncoding.EncodeToString([]byte(random(alphaBase, 32, 409))), "msg_" + random(alphaBase, 24, 410), "thread/" + random(alphaUpper, 26, 411),
	} {
		must(s.SafeWrite(background, rw.SafeWriteRequest{
			Path: "d/" + strings.Trim(strings.NewReplacer("/", "_", ":", "_", " ", "_").Replace(name), "="), Content: []byte("x\n"),
			Call: rw.Call{Caller: name, Session: name, IdempotencyKey: name},
		}))(t, i, " ", name)
	}
}

// TestACredentialInANameIsRefused: as file name, directory name, label and key, wrapped
// or among other characters; the refusal names the argument, and reports of the call
// show the name redacted.
func TestACredentialInANameIsRefused(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	var said bytes.Buffer
	s := openGated(t, dir, &rw.Options{ReceiptSink: func(r rw.Receipt) { fmt.Fprintf(&said, "%+v\n", r) }})
	passes(t, s, put("a.txt", "x\n", rw.ModeCreate))
	var needles []string
	for i, secret := range []string{awsID(420), ghToken(421), jwt(422)} {
		needles = append(needles, testbed.Forms(secret)...)
		for j, call := range []struct {
			argument string
			r        rw.SafeWriteRequest
		}{
			{"path", rw.SafeWriteRequest{Path: secret}},
			{"path", rw.SafeWriteRequest{Path: "docs/" + secret + "/a.txt"}},
			{"path", rw.SafeWriteRequest{Path: "docs/my=" + secret + " old.txt"}},
			{"caller", rw.SafeWriteRequest{Path: "b.txt", Call: rw.Call{Caller: "agent " + secret}}},
			{"session", rw.SafeWriteRequest{Path: "b.txt", Call: rw.Call{Session: secret}}},
			{"idempotency_key", rw.SafeWriteRequest{Path: "b.txt", Call: rw.Call{IdempotencyKey: secret}}},
			{"caller", rw.SafeWriteRequest{Path: "b.txt", Call: rw.Call{Caller: base64.StdEncoding.EncodeToString([]byte(secret))[:min(200, len(secret))]}}},
		} {
			if len(call.r.Caller) > 190 || j == 6 && i != 0 {
				continue // too long for a label, or cut
			}
			if j == 6 {
				call.r.Caller = base64.StdEncoding.EncodeToString([]byte(secret))
			}
			call.r.Content = []byte(fmt.Sprintf("%d %d\n", i, j))
			e := refused(t, s, dir, call.r, rw.ErrSecretInName)
			expect(t, e.Context["argument"] == call.argument && e.Kind == rw.ErrBlocked && e.Context["draft_ref"] == nil, "%d %d: %v", i, j, e.Context)
			said.Write(conformsEnvelope(t, e))
			fmt.Fprintf(&said, "%v %+v\n", e, e)
		}
	}
	rows := must(s.JournalTail(background, rw.JournalTailRequest{N: 100, IncludeRefused: true}))(t)
	doc, _ := json.Marshal(rows)
	said.Write(doc)
	expect(t, bytes.Contains(doc, []byte("{AWS-ACCESS-KEY-ID-REDACTED}")), "the rows of the refusals do not show a redacted name: %s", doc)
	for _, n := range needles {
		expect(t, !bytes.Contains(said.Bytes(), []byte(n)), "a reply or receipt holds a name that begins with %.4s", n)
	}
	length(t, leaks(t, dir, needles...), 0)
	check(t, s, true)
}

// TestNamesFollowTheGate: advice is a warning, off does not look, an exception
// of the policy holds for the path it names, and any override accepts.
func TestNamesFollowTheGate(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	secret := awsID(430)
	allow := "gate: {mode: block}\nallow: [{path: 'testdata/**', reason: samples}]\n"
	for i, row := range []struct {
		policy, path, accept, want string
	}{
		{"gate: {mode: advise}\n", secret, "", "ok secret_in_name"},
		{"gate: {mode: off}\n", secret, "", "ok"},
		{"gate: {mode: block}\n", secret, "", "secret_in_name"},
		{"gate: {mode: block, overrides: reason}\n", secret, "why", "secret_in_name"},
		{"gate: {mode: block, overrides: any}\n", secret, "why", "ok risk_accepted"},
		{allow, "testdata/" + secret, "", "ok"},
		{allow, "docs/" + secret, "", "secret_in_name"},
		{"gate: {mode: block}\ndisable_patterns: [aws_access_key_id]\n", secret, "", "ok"},
	} {
		s := openWith(t, dir, row.policy, nil)
		r, err := s.SafeWrite(background, rw.SafeWriteRequest{Path: row.path, Content: []byte("x\n"), Call: rw.Call{DryRun: true, AcceptRisk: row.accept}})
		equal(t, became(r, err), row.want, i)
		s.Close(background)
	}
}
