package resilientwrite_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

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
			if e.Context["argument"] != call.argument || e.Kind != rw.ErrBlocked || e.Context["draft_ref"] != nil {
				t.Errorf("%d %d: %v", i, j, e.Context)
			}
			said.Write(conformsEnvelope(t, e))
			fmt.Fprintf(&said, "%v %+v\n", e, e)
		}
	}
	rows := must(s.JournalTail(background, rw.JournalTailRequest{N: 100, IncludeRefused: true}))(t)
	doc, _ := json.Marshal(rows)
	if said.Write(doc); !bytes.Contains(doc, []byte("{AWS-ACCESS-KEY-ID-REDACTED}")) {
		t.Errorf("the rows of the refusals do not show a redacted name: %s", doc)
	}
	for _, n := range needles {
		if bytes.Contains(said.Bytes(), []byte(n)) {
			t.Errorf("a reply or receipt tells a name that begins with %.4s", n)
		}
	}
	if found := leaks(t, dir, needles...); len(found) > 0 {
		t.Error(found)
	}
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
		if got := became(r, err); got != row.want {
			t.Errorf("%d: %s, want %s", i, got, row.want)
		}
		s.Close(background)
	}
}

// TestWhatHasASecretNameCanBeRead: a file to which another program gave such a name can
// be read, and the error about one shows the name redacted.
func TestWhatHasASecretNameCanBeRead(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	s := openGated(t, dir, nil)
	name := ghToken(440) + ".txt"
	noErr(t, os.WriteFile(filepath.Join(dir, name), []byte("x\n"), 0o644))
	if r, err := s.Read(background, rw.ReadRequest{Path: name}); err != nil || string(r.Content) != "x\n" {
		t.Errorf("%v %+v", err, r)
	}
	if _, err := s.Read(background, rw.ReadRequest{Path: "none/" + name}); err == nil || strings.Contains(err.Error(), name[:40]) {
		t.Errorf("%v", err)
	}
}
