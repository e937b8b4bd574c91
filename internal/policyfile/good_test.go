package policyfile

import (
	"cmp"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	godiff "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/xeipuuv/gojsonschema"

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
		{Name: "acme", Line: 4, Patterns: []Pattern{
			{Name: "acme_token", Regex: "acme_[0-9a-f]{32}", Weight: 0.9, Keywords: []string{"acme_", "ACME"}, Line: 5},
			{Name: "acme_id", Regex: `\bacme-\d{4}\b`, Weight: 0.35, Line: 9},
		}},
		{Name: "zeta", Line: 12, Patterns: []Pattern{{Name: "zeta_key", Regex: `zk\.[a-z]+`, Weight: 0.35, Line: 13}}},
	},
	DisableFamilies: []string{"email"},
	DisablePatterns: []string{"generic_secret", "acme_id"},
	Thresholds:      Thresholds{0.8, 0.5, 0.2},
	RetryBudget:     RetryBudget{5},
	Gate:            Gate{Setting{"off", "medium", "reason"}, true},
	Allow: []Allow{
		{"docs/**/*.md", "acme_token", "Examples of the documentation.", 27},
		{"test data/**", "*", "Made up values, as the tests need them.", 32},
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
		if problems != nil {
			t.Fatal(problems)
		}
		if diff := godiff.Diff(fullFile, f, quiet); diff != "" {
			t.Error(diff)
		}
	}
}

func TestGoodFiles(t *testing.T) {
	set := func(change func(*File)) *File {
		f := defaults()
		change(f)
		return f
	}
	for text, want := range map[string]*File{
		"":                             defaults(),
		"\n\n":                         defaults(),
		"# nothing\r\n  # more\r\n":    defaults(),
		"---\n":                        defaults(),
		"---\n# c\n...\n":              defaults(),
		"\ufeff":                       defaults(),
		"{}":                           defaults(),
		"version: 1":                   defaults(),
		"protect: []\nallow: []\n":     defaults(),
		"thresholds: {}\nhistory: {}":  defaults(),
		"history: {max_bytes: 0}":      defaults(),
		"thresholds: {high: 1}":        set(func(f *File) { f.Thresholds.High = 1 }),
		"gate: {mode: \"off\"}":        set(func(f *File) { f.Gate.Mode = "off" }),
		"gate:\n  mode: advise # x":    set(func(f *File) { f.Gate.Mode = "advise" }),
		"'gate': {'reject_at': high}":  set(func(f *File) { f.Gate.RejectAt = "high" }),
		"protect: [a#b, 'c ''d''']":    set(func(f *File) { f.Protect = []string{"a#b", "c 'd'"} }),
		"protect: [\"\\u00e9\\x41\"]":  set(func(f *File) { f.Protect = []string{"éA"} }),
		"protect:\n- a\n\n# c\n- b\n":  set(func(f *File) { f.Protect = []string{"a", "b"} }),
		"history: {max_bytes: 4096}":   set(func(f *File) { f.History.MaxBytes = 4096 }),
		"history: {max_bytes: 64KiB}":  set(func(f *File) { f.History.MaxBytes = 64 << 10 }),
		"history: {max_bytes: '3B'}":   set(func(f *File) { f.History.MaxBytes = 3 }),
		"history: {max_age: 90m}":      set(func(f *File) { f.History.MaxAge = 90 * time.Minute }),
		"history: {max_age: 2w}":       set(func(f *File) { f.History.MaxAge = 14 * 24 * time.Hour }),
		"history: {max_age: \"PT1H\"}": set(func(f *File) { f.History.MaxAge = time.Hour }),
		"allow:\n- path: a\n  reason: |\n    b\n    c\n": set(func(f *File) {
			f.Allow = []Allow{{Path: "a", Reason: "b\nc", Line: 2}}
		}),
	} {
		f, problems := Parse([]byte(text))
		if problems != nil {
			t.Errorf("%q: %v", text, problems)
			continue
		}
		if diff := godiff.Diff(want, f, quiet); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

// TestSchema: spec/policy.schema.json takes the good files and refuses bad
// ones, and it has exactly the keys and choices of the table. What a schema
// cannot say, such as expressions that compile, only Parse checks.
func TestSchema(t *testing.T) {
	text := testbed.Must(os.ReadFile("../../spec/policy.schema.json"))(t)
	schema := testbed.Must(gojsonschema.NewSchema(gojsonschema.NewBytesLoader(text)))(t)
	var doc described
	testbed.NoErr(t, json.Unmarshal(text, &doc))
	compareSchema(t, policy, doc, "")
	valid := func(text string) bool {
		var v any
		testbed.NoErr(t, yaml.Unmarshal([]byte(text), &v))
		data := testbed.Must(json.Marshal(v))(t)
		result := testbed.Must(schema.Validate(gojsonschema.NewBytesLoader(data)))(t)
		return result.Valid()
	}
	if !valid(full) || !valid("{}") || !valid("history: {max_age: 30d, max_bytes: 0}") {
		t.Error("the schema refuses a good file")
	}
	beyond := map[string]bool{ // what a schema does not say
		"duplicate": true, "duplicate inside": true, "duplicate family": true, "name twice": true, "missing dash": true,
		"escape in reason": true, "threshold order": true, "threshold default": true, "infinity": true, "hexadecimal": true,
		"underscore": true, "leading zero": true, "huge size": true, "age in months": true, "long age": true, "version with a point": true,
	}
	for _, group := range [][]bad{badKeys, badValues} {
		for _, b := range group {
			if !beyond[b.name] && valid(b.text) {
				t.Errorf("the schema accepts %s: %q", b.name, b.text)
			}
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
	if len(s.keys) != len(d.Properties) || !slices.Equal(s.choices, d.Enum) {
		t.Errorf("%s: %d keys, choices %v; the schema has %d and %v", path, len(s.keys), s.choices, len(d.Properties), d.Enum)
	}
	for _, k := range s.keys {
		if slices.Contains(d.Required, k.name) != (k.missing != "") {
			t.Errorf("%s%s: required or not", path, k.name)
		}
		compareSchema(t, k.spec, d.Properties[k.name], path+k.name+".")
	}
	switch least := cmp.Or(d.Minimum, d.ExclusiveMinimum); {
	case s.form == object && string(d.AdditionalProperties) != "false":
		t.Errorf("%s is open", path)
	case s.form == listOf:
		compareSchema(t, s.item, *d.Items, path)
	case s.form == families:
		var item described
		testbed.NoErr(t, json.Unmarshal(d.AdditionalProperties, &item))
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
			if !strings.Contains(full, k.name+":") {
				t.Errorf("%s%s is not in the full file", path, k.name)
			}
			walk(k.spec, path+k.name+".")
		}
		if s.item != nil {
			walk(s.item, path)
		}
	}
	walk(policy, "")
}
