package scan

import (
	"strings"
	"testing"
	"unicode"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

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
				if text := "before\n" + assign(name, value) + "\nafter\n"; !blocks(s, text) {
					t.Errorf("%s as %s: %q", r.id, how, text)
				}
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
				if got := s.Score([]byte(text), Options{}); len(got.Findings) == 0 {
					t.Errorf("%s in %s: %q", r.id, how, text)
				}
			}
		}
	}
}
