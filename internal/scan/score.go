package scan

import (
	"fmt"
	"slices"
)

// Verdicts, from harmless to refused.
const (
	VerdictSafe   = "safe"
	VerdictLow    = "low"
	VerdictMedium = "medium"
	VerdictHigh   = "high"
)

// The documented thresholds of the verdicts.
const (
	DefaultHigh   = 0.70
	DefaultMedium = 0.40
	DefaultLow    = 0.10
)

// SizeHit is a limit that the size of a text exceeds.
type SizeHit struct {
	Pattern   string
	Value     int
	Threshold int
	Action    string // split or escape
	Key       string // what was measured
}

// sizeRules are the limits of size, strictly greater, and what each adds to
// the score.
var sizeRules = []struct {
	pattern, key, action string
	over                 int
	weight               float64
}{
	{"big_100kb", "total_bytes", "split", 100_000, 0.15},
	{"big_500kb", "total_bytes", "split", 500_000, 0.30},
	{"long_line", "max_line_len", "escape", 2_000, 0.20},
	{"many_lines", "line_count", "split", 5_000, 0.10},
}

// judge lists the limits of size that a text exceeds, and computes score and verdict.
func (s *Scanner) judge(r *Report) {
	size := 0.0
	r.Size = []SizeHit{}
	for _, rule := range sizeRules {
		value := r.Bytes
		switch rule.key {
		case "max_line_len":
			value = r.MaxLineLen
		case "line_count":
			value = r.LineCount
		}
		if value <= rule.over {
			continue
		}
		if size += rule.weight; len(r.Size) == 0 {
			r.Size = r.room().size[:0]
		}
		r.Size = append(r.Size, SizeHit{Pattern: rule.pattern, Value: value, Threshold: rule.over, Action: rule.action, Key: rule.key})
	}
	r.Score, r.Verdict = s.judged(&r.tally, false, size)
}

// VerdictRank orders verdicts.
func VerdictRank(v string) int {
	return max(0, slices.Index([]string{VerdictSafe, VerdictLow, VerdictMedium, VerdictHigh}, v))
}

// Action is one thing to do about a report.
type Action struct {
	Action  string   `json:"action"`
	Targets []string `json:"targets,omitempty"`
	Reason  string   `json:"reason,omitempty"`
}

// Actions says what to do: one redact with all families that hold secrets,
// then what the other findings ask for.
func (r *Report) Actions() []Action {
	out := []Action{}
	var targets []string
	blob, invisible := false, false
	for _, f := range r.Families() {
		switch f {
		case familyBinary:
			blob = true
		case familyInvisible:
			invisible = true
		default:
			targets = append(targets, f)
		}
	}
	if targets != nil {
		out = append(out, Action{Action: "redact", Targets: targets})
	}
	if invisible {
		out = append(out, Action{Action: "escape", Reason: "invisible_unicode"})
	}
	if blob {
		out = append(out, Action{Action: "split", Reason: "binary_content_detected"})
	}
	for _, h := range r.Size {
		out = append(out, Action{Action: h.Action, Reason: fmt.Sprintf("%s_%d_exceeds_%d", h.Key, h.Value, h.Threshold)})
	}
	return out
}
