package scan

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// Every rule must find its hits and pass over its misses.
func TestRules(t *testing.T) {
	s := testbed.Must(New(nil))(t)
	seen := map[string]string{}
	rules := map[string]int{}
	for _, r := range table() {
		rules[r.id]++
		testbed.Expect(t, len(r.hits) != 0 && len(r.misses) != 0, "rule %s: samples.txt lacks texts that it must find, or that it must not", r.id)
		testbed.Expect(t, r.what != "" && weights[r.family] != 0, "rule %s: no description or unknown family %s", r.id, r.family)
		f, ok := seen[r.id]
		testbed.Expect(t, !ok || f == r.family, "pattern %s is in two families", r.id)
		seen[r.id] = r.family
		for _, h := range r.hits {
			for seed := range uint64(5) {
				found := s.newText([]byte(expand(h, seed))).findings()
				if !slices.ContainsFunc(found, func(f raw) bool { return f.rule.id == r.id && f.confidence.rank() >= r.grade().rank() }) {
					t.Errorf("rule %s (%s): %s not found with seed %d: %s", r.id, r.what, h, seed, describe(found))
					break
				}
			}
		}
		for _, m := range r.misses {
			for _, f := range s.newText([]byte(expand(m, 1))).findings() {
				testbed.Expect(t, f.rule.id != r.id, "rule %s (%s): found in %s", r.id, r.what, m)
			}
		}
	}
	for id, all := range ruleSamples() {
		testbed.Expect(t, len(all) == rules[id], "samples.txt has %d entries of %s, which has %d rules", len(all), id, rules[id])
	}
	testbed.Expect(t, len(seen) >= 200, "%d patterns", len(seen))
}

func describe(found []raw) string {
	var names []string
	for _, f := range found {
		names = append(names, f.rule.id+" "+string(f.confidence)+" "+f.from)
	}
	return strings.Join(names, ", ")
}

// What looks like a secret and is not one is at most information.
func TestNearMisses(t *testing.T) {
	s := scanner(t)
	for _, template := range []string{
		// digests and identifiers
		"commit {hex 40}\nAuthor: A\n", "index {hex 7}..{hex 7} 100644\n", "{hex 64}  dist/app.tar.gz\n", "sha256:{hex 64}\n", "md5 = {hex 32}\n",
		"request {uuid} took 12ms\n", "\"id\": \"{uuid}\",\n", "client_id = \"{uuid}\"\n", "trace_id: \"{hex 32}\"\n", "etag: W/\"{hex 32}\"\n",
		"\"integrity\": \"sha512-{b64 86}==\",\n", "integrity sha512-{b64 86}==\n", "golang.org/x/text v0.14.0 h1:{b64 43}=\n", "--hash=sha256:{hex 64} \\\n",
		"uses: actions/checkout@{hex 40}\n", "image: app@sha256:{hex 64}\n", "github.com/jira/sdk,v1.2.3,h1:{b64 43}=,{hex 40}\n", "checksum = \"{hex 64}\"\n",
		"SHA256:{b64 43} me@host\n", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{b64 43} me@host\n", "\"resolved\": \"https://registry.npmjs.org/a/-/a-1.0.0.tgz#{hex 40}\"\n",
		"request_token: {uuid}\n", "secret_version = \"{hex 64}\"\n", "api_key_version: \"{hex 32}\"\n",
		// embedded data and generated code
		"<img src=\"data:image/png;base64,iVBORw0KGgo{b64 900}==\">\n", "//# sourceMappingURL=data:application/json;base64,{b64 400}\n", "src: url(data:font/woff2;base64,d09GMgAB{b64 900})\n",
		"!function(e,t){var n=t(12),r=e.exports.{low 8}({num 5});return n}({hex 8});\n", ".css-{lan 8}-MuiButtonBase-root { color: #{hex 6} }\n", "__webpack_require__(\"{hex 20}\")\n",
		"{hex 2000}\n", "{an 300}ghp{an 300}\n", "{an 1500}AKIA{b32 16}{an 1500}\n",
		// a wrong length or alphabet
		"ghp_{an 35}\n", "ghp_{an 20}-{an 15}\n", "AKIA{b32 15}\n", "AKIA{lan 16}\n", "glpat-{an 12}\n", "xoxb-{num 3}-{num 3}-{an 3}\n", "sk-ant-api03-{an 20}\n", "SG.{an 21}.{an 20}\n", "AIza{an 30}\n", "dop_v1_{hex 40}\n",
		"npm_{an 30}\n", "hf_{an 30}\n", "sk_live_{an 8}\n", "shpat_{hex 20}\n", "key-{hex 20}\n", "dapi{hex 20}\n", "gsk_{an 40}\n", "pplx-{an 20}\n", "r8_{an 20}\n", "lin_api_{an 20}\n", "PMAK-{hex 24}-{hex 10}\n",
		// placeholders and references
		"GITHUB_TOKEN=ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n", "api_key: YOUR_API_KEY_HERE\n", "token = \"<your-token>\"\n", "password = \"********\"\n", "SECRET=${VAULT_SECRET_9a8b7c6d5e}\n", "token: {{ .Values.token9a8b7c6d }}\n",
		"apiKey: process.env.API_KEY_V2_2024\n", "secret = vault.read(\"secret/data/app1/key2\")\n", "password: !vault |\n", "token := next.Token(p12, q34)\n", "secretName: tls-cert-2024-prod-eu1\n", "key: app_v2_session_cache_key_2024\n",
		"aws_secret_access_key = \"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\"\n", "AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE\n", "self.token = self.lib.NID_aes_256_cbc1\n",
		// identifiers that are called tokens, samples, test vectors, short names
		"\"ChangeToken\": \"{uuid}\",\n", "\"lockToken\": \"{an 36}\"\n", "clientToken = \"{hex 32}\"\n", "sum('', 'test_secret') => '{hex 64}'\n", "monkey = \"{an 24}\"\n", "crc-16-buypass', 'Crc16Buypass2x'\n",
		"auth: '{tob64 isaacs:not my }'\n", "key: PKCS12PrivateKeyTypes | None = None,\n", "for key in table9x8y: pass\n", "key: string\n", "keys={an 24}\n", "cache.key = \"user:profile:settings:v2\"\n", "pass: second_pass2_over3_data\n",
		"shared_secret: \"{hex 64}\",\nciphertext: \"{hex 400}\"\n", "\"secret\": \"{hex 64}\",\n\"enc\": \"{hex 96}\" +\n\t\"{hex 96}\"\n", "password > minimum9length8x\n", "private_key_hex = \"{hex 300}\"\n",
		"key: \"MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE{b64 86}==\"\n", "<releaseManagerKey>{HEX 40}</releaseManagerKey>\n", "the token {hex 40} is a digest\n", "a token of_this_kind_2_and_3_more is\n", "X-Crowdin-Project: {hex 32}\n",
		"password = getpass2(prompt)\n", "'oauth_token': 'sdf0o9823sjdf7sdf',\n", "password: userPassword2,\n", "token = lexer9.next8()\n", "auth=digest qop=auth-int\n", "--password-file /run/secrets/db9x8w7v6u5\n", "--token $TOKEN9x8w7v6u5t4s\n", "--key=key_size_4096_bits2\n",
		// names of vendors in prose, addresses and lists
		"see https://github.com/datadog/agent/commit/{hex 40}\n", "LDAP and OpenLDAP-2.8 with BSD-4-clause-California texts\n", "follow us on twitter.com/{lan 30} or facebook.com/{hex 32}\n", "the jira ticket ABC-1234 of {num 8} in confluence/display/{an 24}\n",
		"Snowflake 2024.12.1-rc3 release notes\n", "wallet address 0x{hex 40}\n", "'key_{low 6}', 'gss_krb5_rfc1964_keydata', 'x'\n", "cloudflare ray id {hex 16}-AMS\n", "linkedin.com/in/jane-doe-{hex 8}\n",
		// numbers
		"4280 0111 4280\n", "2251799813685250.5\n", "-4234737173186232084, 5027552\n", "111-22-3333\n", "000-12-3456\n", "1764583200001 1764583200002\n", "tel:+49\n",
	} {
		for seed := range uint64(3) {
			text := expand(template, 20+seed)
			for _, f := range s.Score([]byte(text), Options{}).Findings {
				if f.Confidence != Info {
					t.Errorf("%s is %s in %q", f.Pattern, f.Confidence, strings.TrimSpace(text[:min(len(text), 160)]))
				}
			}
		}
	}
}

// The project's own tree can be written through its own default gate: no
// tracked text file reaches the verdict high.
func TestOwnTreePasses(t *testing.T) {
	root := testbed.Must(filepath.Abs("../.."))(t)
	list, err := exec.Command("git", "-C", root, "ls-files", "-z").Output()
	testbed.SkipIf(t, err != nil, "not a checkout of git")
	s, files := scanner(t), 0
	for name := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || bytes.IndexByte(b, 0) >= 0 {
			continue // removed, a link to a directory, not text
		}
		files++
		verdict, finding := gated(s, b)
		testbed.Expect(t, verdict != VerdictHigh, "%s is refused: %s", name, finding)
	}
	testbed.Expect(t, files >= 500, "%d files", files)
}

// gated is the verdict of the gate, which information does not move, and what
// it rests on.
func gated(s *Scanner, b []byte) (verdict, finding string) {
	var sum Tally
	var found []string
	s.Score(b, Options{Each: func(f Finding) {
		if f.Confidence != Info {
			sum.Add(f)
			found = append(found, f.Pattern+" "+string(f.Confidence))
		}
	}})
	_, verdict = s.VerdictOf(&sum)
	return verdict, strings.Join(found, ", ")
}

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
			testbed.Expect(t, len(r.Findings) == 1 && r.Findings[0].Pattern == id && r.Findings[0].Placeholder && len(r.Families()) == 0 && report.ContentVerdict(&r) == VerdictSafe,
				"%s under report: %+v", id, r.Findings)
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

// assignments are the ways in which a name of words joined by underscores is
// given a value.
var assignments = map[string]func(name, value string) string{
	"env":        func(n, v string) string { return strings.ToUpper(n) + "=" + v },
	"export":     func(n, v string) string { return "export " + strings.ToUpper(n) + "=\"" + v + "\"" },
	"toml":       func(n, v string) string { return n + " = \"" + v + "\"" },
	"object":     func(n, v string) string { return "  " + camel(n) + ": '" + v + "'," },
	"json":       func(n, v string) string { return "{\"" + n + "\":\"" + v + "\"}" },
	"json lines": func(n, v string) string { return "{\n  \"" + camel(n) + "\" : \"" + v + "\"\n}" },
	"json twice": func(n, v string) string { return "\"{\\\"" + n + "\\\": \\\"" + v + "\\\"}\"" },
	"yaml":       func(n, v string) string { return n + ": " + v + "\nother: 1" },
	"xml":        func(n, v string) string { return "<" + camel(n) + ">" + v + "</" + camel(n) + ">" },
	"xml add":    func(n, v string) string { return "<add key=\"" + pascal(n) + "\" value=\"" + v + "\" />" },
	"properties": func(n, v string) string { return strings.ReplaceAll(n, "_", ".") + "=" + v },
	"python":     func(n, v string) string { return "c = Client(" + n + "=\"" + v + "\", timeout=3)" },
	"environ":    func(n, v string) string { return "os.environ['" + strings.ToUpper(n) + "'] = '" + v + "'" },
	"php":        func(n, v string) string { return "'" + n + "' => '" + v + "'," },
	"define":     func(n, v string) string { return "define('" + strings.ToUpper(n) + "', '" + v + "');" },
	"c#":         func(n, v string) string { return "var " + pascal(n) + " = @\"" + v + "\";" },
	"go":         func(n, v string) string { return "\t" + camel(n) + " := \"" + v + "\"" },
	"go const":   func(n, v string) string { return "const " + pascal(n) + " string = \"" + v + "\"" },
	"typescript": func(n, v string) string { return "const " + camel(n) + ": string = `" + v + "`;" },
	"rust":       func(n, v string) string { return "const " + strings.ToUpper(n) + ": &str = \"" + v + "\";" },
	"ruby":       func(n, v string) string { return ":" + n + " => \"" + v + "\"" },
	"manifest":   func(n, v string) string { return "- name: " + strings.ToUpper(n) + "\n  value: \"" + v + "\"" },
	"option":     func(n, v string) string { return "run --" + strings.ReplaceAll(n, "_", "-") + "=" + v + " x" },
	"query":      func(n, v string) string { return "https://api.acme.io/v1?" + n + "=" + v + "&a=1" },
	"call":       func(n, v string) string { return "set_" + n + "(\"" + v + "\")" },
	"php join":   func(n, v string) string { return "$" + n + " .= \"" + v + "\";" },
	"make":       func(n, v string) string { return strings.ToUpper(n) + " :::= " + v },
	"xml lines":  func(n, v string) string { return "<" + camel(n) + ">\n    " + v + "\n</" + camel(n) + ">" },
	"ini":        func(n, v string) string { return n + " = " + v + "\nother = 1" },
	"compose": func(n, v string) string {
		return "services:\n  db:\n    environment:\n      " + strings.ToUpper(n) + ": " + v + "\n"
	},
	"flag":    func(n, v string) string { return "run --" + strings.ReplaceAll(n, "_", "-") + " " + v + " x" },
	"compare": func(n, v string) string { return "if " + n + " == \"" + v + "\" {" },
}

// loose are those that hand a value over without saying so; only a rule that
// knows the shape of the value can use them.
var loose = map[string]func(name, value string) string{
	"header":  func(n, v string) string { return "-H \"X-" + strings.ReplaceAll(n, "_", "-") + ": " + v + "\"" },
	"docker":  func(n, v string) string { return "ENV " + strings.ToUpper(n) + " " + v },
	"option":  func(n, v string) string { return "run --" + strings.ReplaceAll(n, "_", "-") + " " + v + " x" },
	"comment": func(n, v string) string { return "# " + strings.ReplaceAll(n, "_", " ") + ": " + v },
	"table":   func(n, v string) string { return "| " + n + " | `" + v + "` |" },
}

func pascal(name string) string {
	var b strings.Builder
	for _, w := range strings.FieldsFunc(name, func(r rune) bool { return r == '_' }) {
		b.WriteString(strings.ToUpper(w[:1]) + w[1:])
	}
	return b.String()
}

func camel(name string) string {
	p := pascal(name)
	return string(unicode.ToLower(rune(p[0]))) + p[1:]
}

// blocks reports whether a text holds a finding that is more than information.
func blocks(s *Scanner, text string) bool {
	for _, f := range s.Score([]byte(text), Options{}).Findings {
		if f.Confidence != Info {
			return true
		}
	}
	return false
}

// A key that only its vendor's name identifies must be found however it is assigned.
func TestContextRulesInEveryAssignment(t *testing.T) {
	s := scanner(t)
	for _, r := range table() {
		if len(r.hits) == 0 {
			continue // TestRules names it
		}
		at := strings.IndexAny(r.hits[0], "=:")
		if r.within == 0 || at < 0 {
			continue
		}
		name := strings.ToLower(strings.TrimSpace(r.hits[0][:at]))
		value := expand(strings.Trim(r.hits[0][at+1:], ` '"`), 3)
		for _, set := range []map[string]func(string, string) string{assignments, loose} {
			for how, assign := range set {
				text := "before\n" + assign(name, value) + "\nafter\n"
				testbed.Expect(t, blocks(s, text), "%s as %s: %q", r.id, how, text)
			}
		}
	}
}

// The strongest ones are confirmed: a name that says what the value is, and a
// value as long and as random as what vendors issue, in quotes or on a line of
// its own. What a test, an example or a comparison holds is not.
func TestCertainSecretsAreRefused(t *testing.T) {
	s := scanner(t)
	for _, name := range []string{"client_secret", "api_key", "acme_auth_token", "db_password"} {
		for _, how := range []string{"env", "export", "toml", "object", "json", "json lines", "yaml", "xml lines", "php", "c#", "go", "go const", "typescript", "rust", "ini", "compose", "manifest"} {
			for seed := range uint64(3) {
				text := assignments[how](name, expand("{an 32}", seed)) + "\n"
				verdict, finding := gated(s, []byte(text))
				testbed.Expect(t, verdict == VerdictHigh, "%s as %s: %s %s", name, how, verdict, finding)
			}
		}
	}
	for _, template := range []string{
		"test_api_key = \"{an 32}\"\n", "sample_token: {an 32}\n", "api_key = \"{an 16}\"\n", "if token == \"{an 32}\" {\n", "client_id = \"{an 32}\"\n", "request(token, \"{uuid}\")\n", "secret = \"{uuid}\"\n",
		"key = \"{an 32}\"\n", "auth: {an 32}\n", "set_token(\"{an 32}\")\n", "https://api.acme.io/v1?key={an 32}\n", "password = \"Lantern-{num 4}\"\n",
	} {
		verdict, finding := gated(s, []byte(expand(template, 5)))
		testbed.Expect(t, verdict != VerdictHigh, "%s is refused: %s", template, finding)
	}
}

func TestGenericSecretsInEveryAssignment(t *testing.T) {
	s := scanner(t)
	for _, name := range []string{"client_secret", "api_key", "access_token", "acme_auth_token", "signing_key", "db_password"} {
		for how, assign := range assignments {
			for seed := range uint64(5) {
				text := assign(name, expand("{an 32}", seed)) + "\n"
				testbed.Expect(t, blocks(s, text), "%s as %s: %q", name, how, text)
			}
		}
	}
}

// Every rule must find its secrets in more than the texts of its own row.
func TestEveryRuleInTwoWrappings(t *testing.T) {
	s := scanner(t)
	for _, r := range table() {
		if r.expr == "" {
			continue
		}
		for _, h := range r.hits {
			secret := expand(h, 8)
			for how, text := range map[string]string{
				"a string":  "value := \"" + secret + "\"\n",
				"a line":    "some words first\n" + secret + "\nand some after\n",
				"a diff":    "@@ -1 +1 @@\n+" + secret + "\n",
				"json":      "{\"text\": \"see " + strings.ReplaceAll(secret, `"`, `\"`) + "\"}\n",
				"code":      "use `" + secret + "` here\n",
				"a log":     "2026-10-02T08:14:55Z INFO msg=started " + secret + " retries=3\n",
				"an escape": "first line\\n" + secret + "\\nlast line",
			} {
				testbed.Expect(t, len(s.Score([]byte(text), Options{}).Findings) != 0, "%s in %s: %q", r.id, how, text)
			}
		}
	}
}

// judgedAlone is the verdict on a value that is in no text.
func judgedAlone(v []byte, quoted bool) verdict {
	var f facts
	f.measure(v, new([256]uint16))
	return f.judge(v, quoted)
}

// A verdict that is kept is that of the value as it was written: in quotes or
// without.
func TestKeptVerdicts(t *testing.T) {
	s := scanner(t)
	rng := rand.New(rand.NewPCG(9, 9))
	x := s.newText(nil)
	defer x.free()
	differ := 0
	for i := range 20_000 {
		v := []byte(expand([]string{"self.{lan 20}", "{low 6}_{low 5}_{num 2}", "{an 20}", "{hex 32}", "{low 9}{num 1}", "{low 4}-{num 2}-{low 5}"}[rng.IntN(6)], uint64(rng.IntN(200))))
		quoted := i%2 == 0
		want := judgedAlone(v, quoted)
		if judgedAlone(v, !quoted) != want {
			differ++
		}
		for _, q := range []bool{quoted, !quoted, quoted} {
			if got := x.judge(v, q); got != judgedAlone(v, q) {
				t.Fatalf("%q, quoted %v: %d, want %d", v, q, got, judgedAlone(v, q))
			}
		}
	}
	testbed.Expect(t, differ != 0, "quotes make no difference to any value")
	same := expand("conf.{lan 24}", 3)
	for _, text := range []string{"password = " + same + "\npassword = \"" + same + "\"\n", "password = \"" + same + "\"\npassword = " + same + "\n"} {
		r := s.Score([]byte(text), Options{})
		testbed.Expect(t, len(r.Findings) == 1, "%q: %d findings, want the one in quotes", text, len(r.Findings))
	}
}

// Literals that are joined may be escaped in part, with the escape cut by the
// joint, and more than one of them may be in a text.
func TestJoinedEscapes(t *testing.T) {
	s := scanner(t)
	for n := range 30 {
		token := expand("glpat-{an 20}", uint64(n))
		at := 1 + n%24
		c := token[at]
		for name, text := range map[string]string{
			"escape before the joint":  token[:at] + fmt.Sprintf(`\x%02x" + "`, c) + token[at+1:],
			"escape after the joint":   token[:at] + fmt.Sprintf(`" + "\x%02x`, c) + token[at+1:],
			"escape cut by the joint":  token[:at] + fmt.Sprintf(`%%%x" + "%x`, c>>4, c&15) + token[at+1:],
			"escape without a joint":   `a" + "b", "` + token[:at] + fmt.Sprintf(`\u%04x`, c) + token[at+1:],
			"joint without an escape":  `\u0041", "` + token[:at] + `" + "` + token[at:],
			"escaped quotes":           token[:at] + `\x22+\x22` + token[at:],
			"two joints, two escapes":  token[:2] + `" + "` + token[2 : at+1][:0] + token[2:6] + fmt.Sprintf(`\x%02x" + "`, token[6]) + token[7:10] + fmt.Sprintf(`\u%04x`, token[10]) + token[11:],
			"after a joint and escape": `a\x41" + "\x42c d", "` + token[:at] + fmt.Sprintf(`\x%02x`, c) + token[at+1:],
		} {
			text = prose(n) + "\nk(\"" + text + "\")\n"
			testbed.Equal(t, s.Score([]byte(text), Options{}).Verdict, VerdictHigh, name, " ", text)
		}
	}
}

// Text that looks like a dump is passed over, and does not hide what is in it.
func TestTextLikeDumps(t *testing.T) {
	s := scanner(t)
	var b strings.Builder
	rng := rand.New(rand.NewPCG(5, 5))
	for i := range 400 {
		switch i % 5 {
		case 0:
			fmt.Fprintf(&b, "%08x: be ad de fa ce ed at last\n", i)
		case 1:
			fmt.Fprintf(&b, "2024010%d 0%d42 1203 beef face 12 34\n", i%10, i%10)
		case 2:
			fmt.Fprintf(&b, "deadbeef dead beef cafe %04x\n", rng.IntN(1<<16))
		case 3:
			fmt.Fprintf(&b, "00000000:\n00000010:  \n0000020 \n")
		default:
			fmt.Fprintf(&b, "%07x %04x %04x %04x\n", i*16, rng.IntN(1<<16), rng.IntN(1<<16), rng.IntN(1<<16))
		}
	}
	r := s.Score([]byte(b.String()), Options{})
	testbed.Expect(t, r.Verdict == VerdictSafe, "%s: %+v", r.Verdict, r.Findings)
	token := expand("ghp_{an 30}{crc}", 3)
	for n := range 60 {
		text := b.String()[:500+n] + "\n00000000: 4142 4344 " + token + "\n" + b.String()
		testbed.Equal(t, s.Score([]byte(text), Options{}).Verdict, VerdictHigh, "a token in the line of a dump after ", n, " bytes")
	}
}

// What is decoded around a confirmed finding is not looked at, as that finding is
// preferred; once it is redacted, nothing else may be left in the piece.
func TestPiecesWithAConfirmedFinding(t *testing.T) {
	s := scanner(t)
	for n := range 40 {
		plain, hidden := expand("ghp_{an 30}{crc}", uint64(n)), expand("glpat-{an 20}", uint64(n))
		at := 1 + n%20
		for name, piece := range map[string]string{
			"joined before":  hidden[:at] + `"+"` + hidden[at:] + `"+"` + plain,
			"joined after":   plain + `"+"` + hidden[:at] + `"+"` + hidden[at:],
			"escaped":        plain + "&" + hidden[:at] + fmt.Sprintf("%%%02x", hidden[at]) + hidden[at+1:],
			"hidden":         plain + ":" + hidden[:at] + "\u200b" + hidden[at:],
			"both":           plain + `"+"` + hidden[:at] + fmt.Sprintf(`\x%02x" + "`, hidden[at]) + hidden[at+1:],
			"joined, nested": b64("a " + plain + `"+"` + hidden[:at] + `"+"` + hidden[at:] + " b"),
		} {
			text := []byte(prose(n) + "\nk(\"" + piece + "\")\n" + prose(50))
			r := s.Score(text, Options{})
			testbed.Expect(t, slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Pattern == "ghp" && f.Confidence == Confirmed }),
				"%s: %q: found %v", name, text, r.Findings)
			clean, _ := s.Redact(text, Options{})
			if rest := s.Score(clean, Options{}); slices.ContainsFunc(rest.Findings, func(f Finding) bool { return f.Confidence == Confirmed }) {
				t.Errorf("%s: %q is left as %q, with %v", name, text, clean, rest.Findings)
			}
		}
	}
}
