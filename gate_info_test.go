package resilientwrite_test

import (
	"fmt"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

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
	if r.Verdict != rw.VerdictHigh {
		t.Fatalf("%s, %v", r.Verdict, r.Score)
	}
	for _, f := range r.DetectedPatterns {
		if f.Kind != "size" && f.Confidence != "info" {
			t.Fatalf("more than information: %+v", f)
		}
	}
	for _, at := range []rw.Verdict{rw.VerdictHigh, rw.VerdictMedium, rw.VerdictLow} {
		dir := ramspace(t)
		s := openGated(t, dir, &rw.Options{Gate: rw.Gate{Mode: rw.GateBlock, RejectAt: at, Overrides: rw.OverrideNone}})
		wants(t, passes(t, s, put("a.txt", text, rw.ModeCreate)), rw.WarnRiskLow)
		wants(t, passes(t, s, put("a.txt", text, rw.ModeAppend)), rw.WarnRiskLow+" "+rw.WarnRiskPreexisting)
		wants(t, passes(t, s, put("a.txt", text+"more jo@else-mail.org\n", rw.ModeOverwrite)), rw.WarnRiskLow+" "+rw.WarnRiskPreexisting)
		check(t, s, true)
	}
}

// TestABlobDoesNotTipTheGate: two likely values are not refused; with a long base64
// text, mail addresses and other informative findings, the score grows to high and they
// are still not refused. One more likely value of another family is.
func TestABlobDoesNotTipTheGate(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	s := openGated(t, dir, nil)
	two := "password = \"" + random(alphaBase, 16, 310) + "\"\nsecret = \"" + random(alphaBase, 16, 311) + "\"\n"
	wants(t, passes(t, s, put("two.txt", two, rw.ModeCreate)), rw.WarnRiskMedium)
	tipped := two + "blob " + random(alphaBase+"+/", 240, 312) + "\njo@acme-mail.org\n"
	if r := rw.ScoreContent([]byte(tipped), nil); r.Verdict != rw.VerdictHigh {
		t.Fatalf("%s, %v", r.Verdict, r.Score)
	}
	wants(t, passes(t, s, put("blob.txt", tipped, rw.ModeCreate)), rw.WarnRiskMedium)
	e := gated(t, s, dir, put("more.txt", tipped+"ssn 536-22-8714\nssn 536-22-8715\n"+"db = postgres://app:"+random(alphaBase, 16, 313)+"@db.acme-corp.io/x\n", rw.ModeCreate))
	if e.Context["verdict"] != rw.VerdictHigh {
		t.Errorf("%v", e.Context)
	}
}

// TestARefusalListsEveryFamily: also those whose findings are too many to be
// listed one by one, after the first confirmed one and at the end of the text.
func TestARefusalListsEveryFamily(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	s := openGated(t, dir, nil)
	var b strings.Builder
	for i := range uint64(1500) {
		b.WriteString("id " + awsID(1000+i) + "\n")
	}
	b.WriteString(strings.Repeat("filler line\n", 200_000))
	b.WriteString("tok " + ghToken(314) + "\n" + pemKey(315) + "jo@acme-mail.org\n" + jwt(316) + "\n")
	e := gated(t, s, dir, put("all.txt", b.String(), rw.ModeCreate))
	if got := strings.Join(e.Patterns, " "); got != "api_key github_pat jwt pem_block pii" {
		t.Errorf("families %q", got)
	}
	if !strings.Contains(e.Hint, "api_key, github_pat, jwt, pem_block, pii") {
		t.Errorf("the text of the refusal is %q", e.Hint)
	}
}
