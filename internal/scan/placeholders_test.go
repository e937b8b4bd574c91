package scan

import (
	"fmt"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// unusable are values that cannot be used, by pattern, as the fixtures of the
// Python implementation have them.
func unusable() map[string]string {
	all := map[string]string{
		"anthropic_oat":         "sk-ant-oat01-" + strings.Repeat("A", 42),
		"anthropic_api":         "sk-ant-api03-" + strings.Repeat("B", 42),
		"openai_project_key":    "sk-proj-" + strings.Repeat("Z", 40),
		"openai_key":            "sk-" + strings.Repeat("C", 40),
		"datadog_client_key":    "pub" + strings.Repeat("a", 32),
		"statsig_client_key":    "client-" + strings.Repeat("x", 30),
		"aws_access_key_id":     "AKIA" + "IOSFODNN7" + "EXAMPLE",
		"bearer_token":          "Bearer " + strings.Repeat("x", 24),
		"jwt_triplet":           "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJqYXkifQ.signaturepart_XYZ",
		"pem_private_key":       "-----BEGIN RSA " + "PRIVATE KEY-----\nMIIEvQ...\n",
		"aws_secret_access_key": "aws_secret_access_key = " + strings.Repeat("D", 40),
		"email":                 "user@example.com",
		"ssn":                   "123-45-" + "6789",
		"long_base64_blob":      strings.Repeat("A", 220),
	}
	for i, id := range []string{"gho", "ghp", "ghu", "ghs", "ghr"} {
		all[id] = id + "_" + strings.Repeat(string(rune('D'+i)), 36)
	}
	return all
}

func scannerOf(t *testing.T, placeholders string) *Scanner {
	t.Helper()
	s := testbed.Must(New(&Policy{Placeholders: placeholders}))(t)
	return s
}

// TestPlaceholders: each is listed without weight under report and where it is
// asked for, weighed by its family under score, and not looked for under
// ignore. Long texts are judged piece by piece.
func TestPlaceholders(t *testing.T) {
	report, score, ignore := scannerOf(t, ""), scannerOf(t, PlaceholdersScore), scannerOf(t, PlaceholdersIgnore)
	filler := strings.Repeat("filler line\n", (block+Window)/12+1)
	for id, value := range unusable() {
		texts := []string{value, "x = \"" + value + "\"\n"}
		if id == "ghp" || id == "email" {
			texts = append(texts, filler+value+"\n"+filler)
		}
		for _, text := range texts {
			r := report.Score([]byte(text), Options{Placeholders: true})
			if len(r.Findings) != 1 || r.Findings[0].Pattern != id || !r.Findings[0].Placeholder || len(r.Families()) > 0 || report.ContentVerdict(&r) != VerdictSafe {
				t.Errorf("%s under report: %+v", id, r.Findings)
			}
			testbed.Expect(t, !strings.Contains(r.Findings[0].Match, value), "%s is shown: %q", id, r.Findings[0].Match)
			for _, quiet := range []Report{report.Score([]byte(text), Options{}), ignore.Score([]byte(text), Options{Placeholders: true})} {
				testbed.Expect(t, len(quiet.Findings) == 0, "%s is listed where it is not asked for: %+v", id, quiet.Findings)
			}
			r = score.Score([]byte(text), Options{})
			tally := r.Tally()
			sum, _ := score.VerdictOf(&tally)
			testbed.Expect(t, len(r.Findings) == 1 && sum == weights[r.Findings[0].Family], "%s under score: %v %+v", id, sum, r.Findings)
			if id == "long_base64_blob" { // it informs, and is not redacted
				continue
			}
			sum, _ = score.GateVerdict(&tally)
			testbed.Expect(t, sum == weights[r.Findings[0].Family], "%s does not count in the gate", id)
			clean, _ := score.Redact([]byte(text), Options{})
			left := score.Score(clean, Options{})
			testbed.Expect(t, len(left.Findings) == 0, "%s is left by redaction under score: %+v", id, left.Findings)
			same, _ := report.Redact([]byte(text), Options{Placeholders: false})
			testbed.Expect(t, string(same) == text, "%s is redacted under report", id)
		}
	}
}

// TestWhatIsUsedIsNoPlaceholder: a real finding stays what it is, and ordinary
// text has none.
func TestWhatIsUsedIsNoPlaceholder(t *testing.T) {
	s := scannerOf(t, "")
	for i, template := range []string{"AKIA{b32 16}", "ghp_{an 30}{crc 30}", "sk-ant-api03-{url 93}AA", "jane.{low 6}@acme-corp.io", "Authorization: Bearer {an 40}", "client-{an 40}", "pub{hex 32}", "{b64 240}", "git clone git@github.com:a/b", "logo@2x.png"} {
		for _, f := range s.Score([]byte(expand(template, uint64(i))), Options{Placeholders: true}).Findings {
			testbed.Expect(t, !f.Placeholder, "%s: %+v", template, f)
		}
	}
	off := testbed.Must(New(&Policy{DisableFamilies: []string{familyPII}, DisablePatterns: []string{"ghp"}}))(t)
	all := unusable()
	text := all["email"] + " " + all["ghp"] + " " + all["gho"]
	r := off.Score([]byte(text), Options{Placeholders: true})
	testbed.Expect(t, len(r.Findings) == 1 && r.Findings[0].Pattern == "gho", "%+v", r.Findings)
	allowed := Options{Placeholders: true, Allow: func(family, _ string) bool { return family == familyGitHub }}
	r = s.Score([]byte(text), allowed)
	testbed.Expect(t, len(r.Findings) == 1 && r.Allowed == 2, "%+v", r)
}

// TestPlaceholdersCostWritesNothing: a scan that does not ask for them does not
// look for them.
func TestPlaceholdersCostWritesNothing(t *testing.T) {
	s := scannerOf(t, "")
	text := []byte(fmt.Sprint(unusable()))
	found := []raw{}
	testbed.Expect(t, len(s.withPlaceholders(text, found, Options{})) == 0, "looked for")
	if n := testing.AllocsPerRun(10, func() { s.withPlaceholders(text, found, Options{}) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
