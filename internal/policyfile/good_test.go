package policyfile

import (
	"cmp"
	"encoding/json"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	godiff "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/xeipuuv/gojsonschema"
	"go.yaml.in/yaml/v4"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

const full = `# The policy of the team.
version: 1
extend_patterns:
  acme:
    - name: acme_token
      regex: 'acme_[0-9a-f]{32}'
      weight: 0.9
      keywords: [acme_, "ACME"]
    - name: acme_id
      regex: \bacme-\d{4}\b
  # a second family
  zeta:
  - {name: zeta_key, regex: "zk\\.[a-z]+"}
disable_families: [email]
disable_patterns:
- generic_secret
- acme_id
thresholds: {high: 0.8, medium: .5, low: 0.2}
retry_budget:
  default: 5
gate:
  mode: off
  reject_at: medium
  overrides: reason
  inline_markers: true
allow:
  - path: docs/**/*.md
    pattern: acme_token
    reason: >-
      Examples of the
      documentation.
  - pattern: "*"
    path: 'test data/**'
    reason: Made up values,
      as the tests need them.
protect:
  - .github/**
  - "**/*.pem"
protect_defaults: warn
placeholders: score
merge: clean
protect_exceptions: [testdata/repos]
history:
  max_bytes: 1GiB
  max_age: P30DT12H
  max_versions: 20
  max_object_bytes: 10MB
  keep_head_max: 2MiB
capture:
  include: [build/gen]
  exclude:
    - "**/*.sqlite"
exec:
  allow_write: [~/.cache, $GOCACHE, /opt/tool]
`

var fullFile = &File{
	Version: 1,
	ExtendPatterns: []Family{
		{Name: "acme", Patterns: []Pattern{
			{Name: "acme_token", Regex: "acme_[0-9a-f]{32}", Weight: 0.9, Keywords: []string{"acme_", "ACME"}, Line: 5},
			{Name: "acme_id", Regex: `\bacme-\d{4}\b`, Weight: 0.35, Line: 9},
		}},
		{Name: "zeta", Patterns: []Pattern{{Name: "zeta_key", Regex: `zk\.[a-z]+`, Weight: 0.35, Line: 13}}},
	},
	DisableFamilies: []string{"email"},
	DisablePatterns: []string{"generic_secret", "acme_id"},
	Thresholds:      Thresholds{0.8, 0.5, 0.2},
	RetryBudget:     RetryBudget{5},
	Gate:            Gate{Setting{"off", "medium", "reason"}, true},
	Allow: []Allow{
		{"docs/**/*.md", "acme_token", "Examples of the documentation."},
		{"test data/**", "*", "Made up values, as the tests need them."},
	},
	Protect: []string{".github/**", "**/*.pem"}, ProtectDefaults: "warn", Merge: "clean", Placeholders: "score", ProtectExceptions: []string{"testdata/repos"},
	History: History{1 << 30, 10_000_000, 30*24*time.Hour + 12*time.Hour, 20, 2 << 20},
	Capture: Capture{[]string{"build/gen"}, []string{"**/*.sqlite"}},
	Exec:    Exec{[]string{"~/.cache", "$GOCACHE", "/opt/tool"}},
}

func defaults() *File {
	return &File{Version: 1, Thresholds: Thresholds{0.7, 0.4, 0.1}, RetryBudget: RetryBudget{3}}
}

var quiet = cmpopts.IgnoreUnexported(File{})

func TestFullFile(t *testing.T) {
	for _, text := range []string{full, "\ufeff" + strings.ReplaceAll(full, "\n", "\r\n"), "---\n" + full[strings.Index(full, "\n")+1:] + "...\n# end\n"} {
		f, problems := Parse([]byte(text))
		testbed.Require(t, problems == nil, "%v", problems)
		testbed.Equal(t, godiff.Diff(fullFile, f, quiet), "")
	}
}

func TestGoodFiles(t *testing.T) {
	set := func(change func(*File)) *File {
		f := defaults()
		change(f)
		return f
	}
	for text, want := range map[string]*File{
		"":                            defaults(),
		"\n\n":                        defaults(),
		"# nothing\r\n  # more\r\n":   defaults(),
		"---\n":                       defaults(),
		"---\n# c\n...\n":             defaults(),
		"\ufeff":                      defaults(),
		"{}":                          defaults(),
		"version: 1":                  defaults(),
		"protect: []\nallow: []\n":    defaults(),
		"thresholds: {}\nhistory: {}": defaults(),
		"history: {max_bytes: 0}":     defaults(),
		"thresholds: {high: 1}":       set(func(f *File) { f.Thresholds.High = 1 }),
		"gate: {mode: \"off\"}":       set(func(f *File) { f.Gate.Mode = "off" }),
		"gate:\n  mode: advise # x":   set(func(f *File) { f.Gate.Mode = "advise" }),
		"'gate': {'reject_at': high}": set(func(f *File) { f.Gate.RejectAt = "high" }),
		"protect: [a#b, 'c ''d''']":   set(func(f *File) { f.Protect = []string{"a#b", "c 'd'"} }),
		"protect: [\"\\u00e9\\x41\"]": set(func(f *File) { f.Protect = []string{"éA"} }),
		"protect:\n- a\n\n# c\n- b\n": set(func(f *File) { f.Protect = []string{"a", "b"} }),
		"history: {max_bytes: 4096}":  set(func(f *File) { f.History.MaxBytes = 4096 }),
		"history: {max_bytes: 64KiB}": set(func(f *File) { f.History.MaxBytes = 64 << 10 }),
		"history: {max_bytes: '3B'}":  set(func(f *File) { f.History.MaxBytes = 3 }),
		"history: {max_bytes: 9223372036854775807}": set(func(f *File) { f.History.MaxBytes = math.MaxInt64 }),
		"exec: {allow_write: []}":                   set(func(f *File) { f.Exec.AllowWrite = []string{} }),
		"allow: [{path: a, reason: \"b\\tc\"}]":     set(func(f *File) { f.Allow = []Allow{{Path: "a", Reason: "b\tc"}} }),
		"history: {max_age: 90m}":                   set(func(f *File) { f.History.MaxAge = 90 * time.Minute }),
		"history: {max_age: 2w}":                    set(func(f *File) { f.History.MaxAge = 14 * 24 * time.Hour }),
		"history: {max_age: \"PT1H\"}":              set(func(f *File) { f.History.MaxAge = time.Hour }),
		"allow:\n- path: a\n  reason: |\n    b\n    c\n": set(func(f *File) {
			f.Allow = []Allow{{Path: "a", Reason: "b\nc"}}
		}),
	} {
		f, problems := Parse([]byte(text))
		if problems != nil {
			t.Errorf("%q: %v", text, problems)
			continue
		}
		testbed.Equal(t, godiff.Diff(want, f, quiet), "", text)
	}
}

// TestSchema: spec/policy.schema.json takes the good files and refuses bad
// ones, and it has exactly the keys and choices of the table. What a schema
// cannot say, such as expressions that compile, only Parse checks.
func TestSchema(t *testing.T) {
	text := testbed.Must(os.ReadFile("../../spec/policy.schema.json"))(t)
	schema := testbed.Must(gojsonschema.NewSchema(gojsonschema.NewBytesLoader(text)))(t)
	doc := testbed.Decoded[described](t, text)
	compareSchema(t, policy, doc, "")
	valid := func(text string) bool {
		var v any
		testbed.NoErr(t, yaml.Unmarshal([]byte(text), &v))
		data := testbed.Must(json.Marshal(v))(t)
		result := testbed.Must(schema.Validate(gojsonschema.NewBytesLoader(data)))(t)
		return result.Valid()
	}
	testbed.Expect(t, valid(full) && valid("{}") && valid("history: {max_age: 30d, max_bytes: 0}"), "the schema refuses a good file")
	beyond := map[string]bool{ // what a schema does not say
		"duplicate": true, "duplicate inside": true, "duplicate family": true, "name twice": true, "missing dash": true,
		"escape in reason": true, "threshold order": true, "threshold order in a line": true, "hexadecimal size": true, "threshold default": true, "infinity": true, "hexadecimal": true,
		"underscore": true, "leading zero": true, "huge size": true, "age in months": true, "long age": true, "long age of ISO 8601": true, "version with a point": true,
	}
	for _, group := range [][]bad{badKeys, badValues} {
		for _, b := range group {
			testbed.Expect(t, beyond[b.name] || !valid(b.text), "the schema accepts %s: %q", b.name, b.text)
		}
	}
}

// described is what a JSON Schema says of a value.
type described struct {
	Properties           map[string]described
	Items                *described
	AdditionalProperties json.RawMessage
	Required, Enum       []string
	Pattern              string
	Minimum, Maximum     *float64
	ExclusiveMinimum     *float64
}

func compareSchema(t *testing.T, s *spec, d described, path string) {
	t.Helper()
	testbed.Expect(t, len(s.keys) == len(d.Properties) && slices.Equal(s.choices, d.Enum),
		"%s: %d keys, choices %v; the schema has %d and %v", path, len(s.keys), s.choices, len(d.Properties), d.Enum)
	for _, k := range s.keys {
		testbed.Expect(t, slices.Contains(d.Required, k.name) == (k.missing != ""), "%s%s: required or not", path, k.name)
		compareSchema(t, k.spec, d.Properties[k.name], path+k.name+".")
	}
	switch least := cmp.Or(d.Minimum, d.ExclusiveMinimum); {
	case s.form == object && string(d.AdditionalProperties) != "false":
		t.Errorf("%s is open", path)
	case s.form == listOf:
		compareSchema(t, s.item, *d.Items, path)
	case s.form == families:
		item := testbed.Decoded[described](t, d.AdditionalProperties)
		compareSchema(t, s.item, item, path)
	case s.form == name && d.Pattern != namePattern:
		t.Errorf("%s: %s", path, d.Pattern)
	case (s.form == whole || s.form == number) && (least == nil || *least != s.min || *d.Maximum != s.max || (d.Minimum == nil) != s.above):
		t.Errorf("%s: other bounds", path)
	}
}

// TestEveryKeyCounts: every key of the table is used in the full file, whose
// values all differ from the defaults and which is compared as a whole.
func TestEveryKeyCounts(t *testing.T) {
	var walk func(s *spec, path string)
	walk = func(s *spec, path string) {
		for _, k := range s.keys {
			testbed.Expect(t, strings.Contains(full, k.name+":"), "%s%s is not in the full file", path, k.name)
			walk(k.spec, path+k.name+".")
		}
		if s.item != nil {
			walk(s.item, path)
		}
	}
	walk(policy, "")
}

// FuzzLinear: reading a policy takes work in proportion to its length.
func FuzzLinear(f *testing.F) {
	seeds := []string{"- ", "protect: [ … ]", "  - a#\n", "  - \"**/a#/{a,b}\"\n", "allow:\n", "  - {path: a#, reason: b}\n", "version: 1\n", "{a,b}", "(a{9}", "(a|b)*"}
	testbed.FuzzLinear(f, 4<<10, 20*time.Microsecond, seeds, func(text []byte) int {
		Parse(text)
		for _, head := range []string{"version: 1\nprotect:\n", "version: 1\nallow:\n", "version: 1\nextend_patterns:\n  own:\n", "version: 1\nprotect: [\"", "version: 1\nprotect: [", "version: 1\nextend_patterns: {own: [{name: a, weight: 0.5, regex: '"} {
			Parse(append([]byte(head), text...))
		}
		return 0
	})
}

// leaves are the keys of the table of the parser that hold a value.
func leaves(s *spec, at string) (keys []string) {
	for _, k := range s.keys {
		if k.spec.form == object {
			keys = append(keys, leaves(k.spec, at+k.name+".")...)
			continue
		}
		keys = append(keys, at+k.name)
	}
	return keys
}

// TestEveryKeyHasItsStrictness: a key that is added without a row would be
// taken over from a file that is not trusted.
func TestEveryKeyHasItsStrictness(t *testing.T) {
	known := map[string]bool{}
	for _, s := range Strictnesses {
		testbed.Expect(t, !known[s.Key], "%s has two rows", s.Key)
		known[s.Key] = true
		testbed.Expect(t, s.Rule != "", "%s has no rule for readers", s.Key)
	}
	keys := leaves(policy, "")
	for _, key := range keys {
		top, _, _ := strings.Cut(key, ".")
		testbed.Expect(t, known[key] || known[top], "%s has no row in Strictnesses", key)
	}
	for key := range known {
		testbed.Expect(t, slices.ContainsFunc(keys, func(k string) bool { top, _, _ := strings.Cut(k, "."); return k == key || top == key }), "%s is no key of the file", key)
	}
}

// TestHold: what is weaker than the base is brought up to it, what is stricter
// stays.
func TestHold(t *testing.T) {
	base := Default()
	base.Gate.Setting = Setting{Mode: "block", RejectAt: "medium", Overrides: "reason"}
	for _, row := range []struct {
		text    string
		changed []string
		check   func(f *File) bool
	}{
		{"gate: {mode: off}\n", []string{"gate.mode"}, func(f *File) bool { return f.Gate.Mode == "block" }},
		{"gate: {mode: advise}\n", []string{"gate.mode"}, func(f *File) bool { return f.Gate.Mode == "block" }},
		{"gate: {mode: block}\n", nil, func(f *File) bool { return f.Gate.Mode == "block" }},
		{"gate: {reject_at: high}\n", []string{"gate.reject_at"}, func(f *File) bool { return f.Gate.RejectAt == "medium" }},
		{"gate: {reject_at: low}\n", nil, func(f *File) bool { return f.Gate.RejectAt == "low" }},
		{"gate: {overrides: any}\n", []string{"gate.overrides"}, func(f *File) bool { return f.Gate.Overrides == "reason" }},
		{"gate: {overrides: none}\n", nil, func(f *File) bool { return f.Gate.Overrides == "none" }},
		{"gate: {inline_markers: true}\n", []string{"gate.inline_markers"}, func(f *File) bool { return !f.Gate.InlineMarkers }},
		{"thresholds: {high: 1, medium: 0.3, low: 0.2}\n", []string{"thresholds.high", "thresholds.low"}, func(f *File) bool {
			return f.Thresholds == Thresholds{High: 0.7, Medium: 0.3, Low: 0.1}
		}},
		{"disable_families: [pii]\ndisable_patterns: [jwt_triplet]\n", []string{"disable_families", "disable_patterns"}, func(f *File) bool {
			return f.DisableFamilies == nil && f.DisablePatterns == nil
		}},
		{"allow: [{path: x, reason: y}]\n", []string{"allow"}, func(f *File) bool { return f.Allow == nil }},
		{"protect: [x]\nextend_patterns: {a: [{name: b, regex: cc}]}\n", nil, func(f *File) bool { return len(f.Protect) == 1 && len(f.ExtendPatterns) == 1 }},
		{"retry_budget: {default: 100}\n", []string{"retry_budget.default"}, func(f *File) bool { return f.RetryBudget.Default == 3 }},
		{"retry_budget: {default: 1}\n", []string{"retry_budget.default"}, func(f *File) bool { return f.RetryBudget.Default == 3 }},
		{"retry_budget: {default: 3}\n", nil, func(f *File) bool { return f.RetryBudget.Default == 3 }},
		{"capture: {exclude: [x]}\n", []string{"capture"}, func(f *File) bool { return f.Capture.Exclude == nil }},
		{"history: {max_versions: 1}\n", []string{"history"}, func(f *File) bool { return f.History == History{} }},
		{"history: {max_bytes: 1GiB, max_age: 1d, max_object_bytes: 1}\n", []string{"history"}, func(f *File) bool { return f.History == History{} }},
		{"merge: clean\n", []string{"merge"}, func(f *File) bool { return f.Merge == "" }},
		{"merge: off\n", nil, func(f *File) bool { return f.Merge == "off" }},
		{"protect_defaults: warn\nprotect_exceptions: [x]\n", []string{"protect_defaults", "protect_exceptions"}, func(f *File) bool {
			return f.ProtectDefaults == "" && f.ProtectExceptions == nil
		}},
		{"version: 1\n", nil, func(f *File) bool { return true }},
	} {
		f, problems := Parse([]byte(row.text))
		testbed.Require(t, problems == nil, "%q: %v", row.text, problems)
		weaker := f.Weaker(base)
		testbed.Expect(t, slices.Equal(weaker, row.changed), "%q is weaker in %v, want %v", row.text, weaker, row.changed)
		changed := f.Hold(base, nil)
		testbed.Expect(t, slices.Equal(changed, row.changed) && row.check(f), "%q: changed %v, want %v; now %+v", row.text, changed, row.changed, f)
	}
}
