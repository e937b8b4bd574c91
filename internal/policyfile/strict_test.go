package policyfile

import (
	"slices"
	"testing"
)

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
		if known[s.Key] {
			t.Errorf("%s has two rows", s.Key)
		}
		known[s.Key] = true
		if s.Rule == "" {
			t.Errorf("%s has no rule for readers", s.Key)
		}
	}
	keys := leaves(policy, "")
	for _, key := range keys {
		if top, _, _ := cutDot(key); !known[key] && !known[top] {
			t.Errorf("%s has no row in Strictnesses", key)
		}
	}
	for key := range known {
		if !slices.ContainsFunc(keys, func(k string) bool { top, _, _ := cutDot(k); return k == key || top == key }) {
			t.Errorf("%s is no key of the file", key)
		}
	}
}

func cutDot(key string) (before, after string, found bool) {
	for i := range key {
		if key[i] == '.' {
			return key[:i], key[i+1:], true
		}
	}
	return key, "", false
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
		if len(problems) > 0 {
			t.Fatalf("%q: %v", row.text, problems[0])
		}
		if weaker := f.Weaker(base); !slices.Equal(weaker, row.changed) {
			t.Errorf("%q is weaker in %v, want %v", row.text, weaker, row.changed)
		}
		if changed := f.Hold(base, nil); !slices.Equal(changed, row.changed) || !row.check(f) {
			t.Errorf("%q: changed %v, want %v; now %+v", row.text, changed, row.changed, f)
		}
	}
}
