package resilientwrite_test

import (
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

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
		dir := ramspace(t)
		s := openWith(t, dir, row.policy, nil)
		r, err := s.RiskScore(background, rw.RiskScoreRequest{Content: []byte(text)})
		if err != nil || r.Verdict != row.verdict {
			t.Errorf("%s: %v %v", row.policy, err, r.Verdict)
		}
		var listed []string
		for _, f := range r.DetectedPatterns {
			listed = append(listed, f.Pattern)
			if !f.Placeholder {
				t.Errorf("%s: %+v", row.policy, f)
			}
		}
		if got := strings.Join(listed, " "); got != row.listed {
			t.Errorf("%s: listed %s", row.policy, got)
		}
		out, err := s.SafeWrite(background, put("a.txt", text, rw.ModeCreate))
		if got := became(out, err); got != row.write {
			t.Errorf("%s: %s, want %s", row.policy, got, row.write)
		}
		if clean, err := s.Redact(background, rw.RedactRequest{Content: []byte(text)}); err != nil || (string(clean.Content) == text) != (row.write == "ok") {
			t.Errorf("%s: %v %+v", row.policy, err, clean.Spans)
		}
		s.Close(background)
	}
	if r := rw.ScoreContent([]byte(text), nil); len(r.DetectedPatterns) != 6 || r.Score != 0 {
		t.Errorf("%+v", r)
	}
}

// TestAWrongChecksumSaysWhyItPassed: the token that most users try first is written,
// and the warning says why and how to see a refusal.
func TestAWrongChecksumSaysWhyItPassed(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	s := openGated(t, dir, nil)
	good := ghToken(600)
	bad := good[:len(good)-6] + strings.ToUpper(good[len(good)-6:len(good)-3]) + "0a0"
	r := passes(t, s, put("a.env", "try "+bad+"\n", rw.ModeCreate))
	if got := reasons(r.Warnings); !strings.HasPrefix(got, rw.WarnChecksumFailed+" risk_") {
		t.Fatalf("warnings %s", got)
	}
	for _, w := range r.Warnings {
		if w.Reason == rw.WarnChecksumFailed && !strings.Contains(w.Hint, "resilient-write demo") {
			t.Errorf("%+v", w)
		}
	}
	gated(t, s, dir, put("b.env", "try "+good+"\n", rw.ModeCreate))
	wants(t, passes(t, s, put("c.env", "a password = \""+random(alphaBase, 16, 601)+"\"\n", rw.ModeCreate)), rw.WarnRiskMedium)
}
