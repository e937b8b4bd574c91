// Package policyfile reads the policy file of a store: which texts the gate
// refuses, which rules are added or left out, which paths are protected and
// how much history is kept.
//
// Parsing is strict, because a mistake in this file must never weaken the gate
// silently. Every unknown key, every value that does not have exactly the required
// form, and every YAML feature that could hide something (anchors, aliases, tags, merge
// keys, a second document, a duplicate key) is a problem with a line and a column. A
// file with a problem yields no policy.
package policyfile

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/strictyaml"
)

// The reasons a [Problem] can have. They are stable.
const (
	BadYAML            = "bad_yaml"
	NotAMapping        = "not_a_mapping"
	UnknownKey         = "unknown_key"
	DuplicateKey       = "duplicate_key"
	BadType            = "bad_type"
	BadValue           = "bad_value"
	BadRegex           = "bad_regex"
	BadGlob            = "bad_glob"
	BadThresholds      = "bad_thresholds"
	UnsupportedVersion = "unsupported_version"
	TooLarge           = "too_large"
)

// Limits beyond which a file is refused.
const (
	MaxBytes    = 1 << 20 // of a file
	MaxDepth    = 32      // of mappings and lists inside each other
	MaxPatterns = 200     // under extend_patterns
	MaxKeywords = 1000    // of all patterns
	MaxRegex    = 2000    // bytes of one regular expression
	MaxProblems = 20      // that are reported
	MaxItems    = 1000    // of one list
)

// Problem is one mistake in a policy file.
type Problem struct {
	Line, Column int    // from 1; the column in characters
	Reason       string // one of the stable names
	Message      string
	Hint         string // what to do about it, "" when there is nothing to say
}

// Error returns the problem with its position and its hint.
func (p *Problem) Error() string {
	s := fmt.Sprintf("line %d, column %d: %s", p.Line, p.Column, p.Message)
	if p.Hint != "" {
		s += " (" + p.Hint + ")"
	}
	return s
}

// File is a policy file without problems. Missing values have their defaults.
type File struct {
	Version         int // always 1
	ExtendPatterns  []Family
	DisableFamilies []string
	DisablePatterns []string
	Thresholds      Thresholds
	RetryBudget     RetryBudget
	Gate            Gate
	Allow           []Allow
	Protect         []string // globs of paths
	Placeholders    string   // report, score or ignore
	// ProtectDefaults is ask, warn or off, "" when it is not given.
	ProtectDefaults string
	// ProtectExceptions are globs of paths that the defaults do not hold for.
	ProtectExceptions []string
	// Merge is off or clean, "" when it is not given.
	Merge   string
	History History
	Capture Capture
	Exec    Exec

	names []nameUse // the names that CheckNames checks
}

// Family is a family of patterns that the file adds, or adds to.
type Family struct {
	Name     string
	Patterns []Pattern
	Line     int
}

// Pattern is a rule that the file adds.
type Pattern struct {
	Name     string
	Regex    string // compiles with package regexp and never matches the empty string
	Weight   float64
	Keywords []string
	Line     int
}

// Thresholds are the least scores of the verdicts.
type Thresholds struct{ High, Medium, Low float64 }

// RetryBudget limits how often a refused write may be tried again.
type RetryBudget struct{ Default int }

// Gate defines how risky writes are handled.
type Gate struct {
	Setting
	InlineMarkers bool
}

// Setting is how the gate is set. A text is "" when it is not given.
type Setting struct {
	Mode      string // block, advise or off
	RejectAt  string // low, medium or high
	Overrides string // none, reason or any
}

// Or fills the empty fields of s from next.
func (s Setting) Or(next Setting) Setting {
	return Setting{cmp.Or(s.Mode, next.Mode), cmp.Or(s.RejectAt, next.RejectAt), cmp.Or(s.Overrides, next.Overrides)}
}

// String describes the setting for messages.
func (s Setting) String() string {
	return s.Mode + " at " + s.RejectAt + ", overrides " + s.Overrides
}

// Allow is one exception. Path or Pattern may be "", but not both.
type Allow struct {
	Path    string // a glob
	Pattern string // the name of a rule or of a family, or "*"
	Reason  string
	Line    int
}

// Capture selects, by globs of paths, which files changed by other programs are
// recorded: some although git ignores them, some not at all.
type Capture struct{ Include, Exclude []string }

// Exec defines what a command that Store.Exec runs may do. AllowWrite lists directories
// outside of the workspace: absolute paths, ~/NAME and $NAME. Nil means not given.
type Exec struct{ AllowWrite []string }

// History limits the kept earlier versions. Zero means not given.
type History struct {
	MaxBytes       int64
	MaxObjectBytes int64
	MaxAge         time.Duration
	MaxVersions    int
	KeepHeadMax    int64
}

// Parse reads a policy file. When there is any problem, the file is nil and
// the problems are sorted by position; no more than [MaxProblems] are
// reported. A text that is empty or holds only comments gives the defaults.
func Parse(data []byte) (*File, []*Problem) {
	c := &checker{file: Default(), used: map[*limit]int{}, names: map[string]int{}}
	root := c.read(data)
	switch {
	case root == nil:
	case root.Kind != strictyaml.Map:
		c.add(root, NotAMapping, "a policy is a mapping of keys, not "+kindNames[root.Kind], "begin with version: 1")
	default:
		c.check(root, policy)
	}
	if len(c.problems) > 0 {
		return nil, sorted(c.problems)
	}
	return c.file, nil
}

// Default is the file of a store that has none.
func Default() *File {
	return &File{Version: 1, Thresholds: Thresholds{defaultHigh, defaultMedium, defaultLow}, RetryBudget: RetryBudget{defaultBudget}}
}

// sorted orders problems by position and truncates the list to its limit.
func sorted(problems []*Problem) []*Problem {
	slices.SortStableFunc(problems, func(a, b *Problem) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	return problems[:min(len(problems), MaxProblems)]
}
