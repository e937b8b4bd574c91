package policyfile

import (
	"cmp"
	"reflect"
	"slices"
)

// Strictness defines for one key what makes a policy stricter. The table of all keys
// decides what an untrusted policy file may do, and docs/policy.md shows it.
type Strictness struct {
	Key  string // as in the file, with dots
	Rule string // for readers
	Gate bool   // a setting of the content gate
	// Vouched: it holds only in a file that the user has named or recorded,
	// not in one that happens to be in the state directory.
	Vouched bool
	// Order has the values from the weakest to the strictest, where they are
	// words.
	Order []string

	// hold makes f at least as strict as base in this key, and reports whether
	// that changed f.
	hold func(f, base *File) bool
}

// weaken is the rule of the keys whose use always weakens the policy.
const weaken = "every use weakens"

// Strictnesses has a row for every key of the file.
var Strictnesses = []Strictness{
	{Key: "version", Rule: "makes no difference", hold: never},
	ordered("gate.mode", func(f *File) *string { return &f.Gate.Mode }, "off", "advise", "block"),
	ordered("gate.reject_at", func(f *File) *string { return &f.Gate.RejectAt }, "high", "medium", "low"),
	ordered("gate.overrides", func(f *File) *string { return &f.Gate.Overrides }, "any", "reason", "none"),
	weakens("gate.inline_markers", true, func(f *File) *bool { return &f.Gate.InlineMarkers }),
	lower("thresholds.high", func(f *File) *float64 { return &f.Thresholds.High }),
	lower("thresholds.medium", func(f *File) *float64 { return &f.Thresholds.Medium }),
	lower("thresholds.low", func(f *File) *float64 { return &f.Thresholds.Low }),
	{Key: "extend_patterns", Rule: "more is stricter", Gate: true, hold: never},
	{Key: "protect", Rule: "more is stricter", hold: never},
	weakens("protect_defaults", false, func(f *File) *string { return &f.ProtectDefaults }),
	vouched(weakens("protect_exceptions", false, func(f *File) *[]string { return &f.ProtectExceptions })),
	weakens("disable_families", true, func(f *File) *[]string { return &f.DisableFamilies }),
	weakens("disable_patterns", true, func(f *File) *[]string { return &f.DisablePatterns }),
	weakens("allow", true, func(f *File) *[]Allow { return &f.Allow }),
	{Key: "placeholders", Rule: "ignore < report < score", hold: func(f, base *File) bool {
		rank := func(v string) int { return slices.Index([]string{"ignore", "report", "score"}, cmp.Or(v, "report")) }
		if rank(f.Placeholders) >= rank(base.Placeholders) {
			return false
		}
		f.Placeholders = base.Placeholders
		return true
	}},
	{Key: "merge", Rule: "`off` is stricter, `clean` weakens", hold: func(f, base *File) bool {
		if f.Merge != "clean" || base.Merge == "clean" {
			return false
		}
		f.Merge = base.Merge
		return true
	}},
	weakens("retry_budget.default", false, func(f *File) *int { return &f.RetryBudget.Default }),
	weakens("history", false, func(f *File) *History { return &f.History }),
	weakens("capture", false, func(f *File) *Capture { return &f.Capture }),
	vouched(weakens("exec.allow_write", false, func(f *File) *[]string { return &f.Exec.AllowWrite })),
}

func never(_, _ *File) bool { return false }

// ordered returns the rule for a key whose values are listed from the weakest to the
// strictest. A value that one of the two files lacks is not compared.
func ordered(key string, field func(*File) *string, values ...string) Strictness {
	rule := values[0]
	for _, v := range values[1:] {
		rule += " < " + v
	}
	return Strictness{Key: key, Rule: rule, Gate: true, Order: values, hold: func(f, base *File) bool {
		v, least := field(f), *field(base)
		if *v == "" || least == "" || slices.Index(values, *v) >= slices.Index(values, least) {
			return false
		}
		*v = least
		return true
	}}
}

// lower is a threshold.
func lower(key string, field func(*File) *float64) Strictness {
	return Strictness{Key: key, Rule: "lower is stricter", Gate: true, hold: func(f, base *File) bool {
		v, most := field(f), *field(base)
		if *v <= most {
			return false
		}
		*v = most
		return true
	}}
}

// weakens is a key that is never stricter.
func weakens[T any](key string, gate bool, field func(*File) *T) Strictness {
	return Strictness{Key: key, Rule: weaken, Gate: gate, hold: func(f, base *File) bool {
		v, kept := field(f), field(base)
		if reflect.DeepEqual(*v, *kept) {
			return false
		}
		*v = *kept
		return true
	}}
}

func vouched(s Strictness) Strictness {
	s.Rule += ", and needs a file that is named or trusted"
	s.Vouched = true
	return s
}

// Hold makes f at least as strict as base in the keys that only chooses (nil:
// in all of them) and returns those in which it was weaker.
func (f *File) Hold(base *File, only func(Strictness) bool) (changed []string) {
	for _, s := range Strictnesses {
		if (only == nil || only(s)) && s.hold(f, base) {
			changed = append(changed, s.Key)
		}
	}
	return changed
}

// Weaker returns the keys in which f is weaker than base.
func (f *File) Weaker(base *File) []string {
	probe := *f
	return probe.Hold(base, nil)
}
