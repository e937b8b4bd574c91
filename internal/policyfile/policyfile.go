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
	"reflect"
	"slices"
	"strings"
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
//
// The tags of its fields are the table of all keys: key is the name; form is the form of
// a text, choices lists its values; min, max and above are the bounds of a number, and
// reason is that of one out of range; missing is the hint when a required key is
// missing; empty says that an empty list is not the same as none. What tightens a policy is in the tags stricter, absent, gate and vouched, see
// [Strictnesses]. spec/policy.schema.json contains the same rules; a test compares them.
type File struct {
	Version         int         `key:"version" min:"1" max:"1" reason:"unsupported_version" default:"1" stricter:"makes no difference"`
	ExtendPatterns  []Family    `key:"extend_patterns" stricter:"more is stricter" gate:"true"`
	DisableFamilies []string    `key:"disable_families" form:"name" use:"family" gate:"true"`
	DisablePatterns []string    `key:"disable_patterns" form:"name" use:"pattern" gate:"true"`
	Thresholds      Thresholds  `key:"thresholds" gate:"true"`
	RetryBudget     RetryBudget `key:"retry_budget"`
	Gate            Gate        `key:"gate" gate:"true"`
	Allow           []Allow     `key:"allow" gate:"true"`
	// Protect are globs of paths.
	Protect []string `key:"protect" form:"glob" stricter:"more is stricter"`
	// ProtectDefaults is "" when it is not given.
	ProtectDefaults string `key:"protect_defaults" choices:"ask,warn,off"`
	// ProtectExceptions are globs of paths that the defaults do not hold for.
	ProtectExceptions []string `key:"protect_exceptions" form:"glob" vouched:"true"`
	// Merge is "" when it is not given.
	Merge        string  `key:"merge" choices:"off,clean" stricter:"clean < off" absent:"off"`
	Placeholders string  `key:"placeholders" choices:"report,score,ignore" stricter:"ignore < report < score" absent:"report"`
	History      History `key:"history" stricter:"as a whole"`
	Capture      Capture `key:"capture" stricter:"as a whole"`
	Exec         Exec    `key:"exec"`

	names []nameUse // the names that CheckNames checks
}

// Family is a family of patterns that the file adds, or adds to.
type Family struct {
	Name     string
	Patterns []Pattern
}

// Pattern is a rule that the file adds. Its expression compiles with package regexp and
// never matches the empty string.
type Pattern struct {
	Name     string   `key:"name" form:"name" use:"added" missing:"give the rule a name"`
	Regex    string   `key:"regex" form:"regex" missing:"give the rule an expression"`
	Weight   float64  `key:"weight" above:"0" max:"1" default:"0.35"`
	Keywords []string `key:"keywords" form:"word" limit:"keywords"`
	Line     int
}

// Thresholds are the least scores of the verdicts.
type Thresholds struct {
	High   float64 `key:"high" above:"0" max:"1" reason:"bad_thresholds" default:"0.70" stricter:"lower is stricter"`
	Medium float64 `key:"medium" above:"0" max:"1" reason:"bad_thresholds" default:"0.40" stricter:"lower is stricter"`
	Low    float64 `key:"low" above:"0" max:"1" reason:"bad_thresholds" default:"0.10" stricter:"lower is stricter"`
}

// RetryBudget limits how often a refused write may be tried again.
type RetryBudget struct {
	Default int `key:"default" min:"1" max:"100" default:"3"`
}

// Gate defines how risky writes are handled.
type Gate struct {
	Setting
	InlineMarkers bool `key:"inline_markers"`
}

// Setting is how the gate is set. A text is "" when it is not given.
type Setting struct {
	Mode      string `key:"mode" choices:"block,advise,off" stricter:"off < advise < block"`
	RejectAt  string `key:"reject_at" choices:"low,medium,high" stricter:"high < medium < low"`
	Overrides string `key:"overrides" choices:"none,reason,any" stricter:"any < reason < none"`
}

// Or fills the empty fields of s from next.
func (s Setting) Or(next Setting) Setting {
	return Setting{cmp.Or(s.Mode, next.Mode), cmp.Or(s.RejectAt, next.RejectAt), cmp.Or(s.Overrides, next.Overrides)}
}

// String describes the setting for messages.
func (s Setting) String() string {
	return s.Mode + " at " + s.RejectAt + ", overrides " + s.Overrides
}

// Allow is one exception. Path, a glob, or Pattern, the name of a rule or of a family or
// "*", may be "", but not both.
type Allow struct {
	Path    string `key:"path" form:"glob"`
	Pattern string `key:"pattern" form:"nameStar" use:"pattern or family"`
	Reason  string `key:"reason" form:"prose" missing:"say why the exception is safe"`
}

// Capture selects, by globs of paths, which files changed by other programs are
// recorded: some although git ignores them, some not at all.
type Capture struct {
	Include []string `key:"include" form:"glob"`
	Exclude []string `key:"exclude" form:"glob"`
}

// Exec defines what a command that Store.Exec runs may do. AllowWrite lists directories
// outside of the workspace: absolute paths, ~/NAME and $NAME. Nil means not given,
// an empty list none.
type Exec struct {
	AllowWrite []string `key:"allow_write" form:"word" vouched:"true" empty:"none"`
}

// History limits the kept earlier versions. Zero means not given.
type History struct {
	MaxBytes       int64         `key:"max_bytes"`
	MaxObjectBytes int64         `key:"max_object_bytes"`
	MaxAge         time.Duration `key:"max_age"`
	MaxVersions    int           `key:"max_versions" min:"0" max:"1000000000"`
	KeepHeadMax    int64         `key:"keep_head_max"`
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
		c.check(root, policy, reflect.ValueOf(c.file).Elem())
	}
	if len(c.problems) > 0 {
		return nil, sorted(c.problems)
	}
	return c.file, nil
}

// Default is the file of a store that has none.
func Default() *File {
	f := &File{}
	policy.setDefaults(reflect.ValueOf(f).Elem())
	return f
}

// sorted orders problems by position and truncates the list to its limit.
func sorted(problems []*Problem) []*Problem {
	slices.SortStableFunc(problems, func(a, b *Problem) int { return cmp.Or(a.Line-b.Line, a.Column-b.Column) })
	return problems[:min(len(problems), MaxProblems)]
}

// Strictness defines for one key what makes a policy stricter. The table of all keys
// decides what an untrusted policy file may do, and docs/policy.md shows it.
type Strictness struct {
	Key  string // as in the file, with dots
	Rule string // for readers
	Gate bool   // a setting of the content gate
	// Vouched: it holds only in a file that the user has named or recorded,
	// not in one that happens to be in the state directory.
	Vouched bool
	// Order has the values of a setting of the gate from the weakest to the strictest,
	// where they are words.
	Order []string

	field []int // in File
	// weaker reports whether a value is weaker than the least one that is required.
	weaker func(v, least reflect.Value) bool
}

// Strictnesses has a row for every key of the file. The tag stricter of its field is the
// rule; without one, every use of the key weakens the policy. The values of an ordered
// key that one of two files lacks are those of the tag absent, or are not compared.
var Strictnesses = policy.strictnesses("", nil, false)

// wholly is the rule of a mapping that is compared as a whole.
const wholly = "as a whole"

// strictnesses returns the rows of an object, which is the field of File, or File.
func (s *spec) strictnesses(prefix string, field []int, gate bool) (list []Strictness) {
	for _, k := range s.keys {
		tag, at := k.spec.tag, slices.Concat(field, k.spec.index)
		row := Strictness{Key: prefix + k.name, Rule: tag.Get("stricter"), Gate: gate || tag.Get("gate") == "true", Vouched: tag.Get("vouched") == "true", field: at}
		if k.spec.form == object && row.Rule != wholly {
			list = append(list, k.spec.strictnesses(row.Key+".", at, row.Gate)...)
			continue
		}
		row.compare(tag.Get("absent"))
		if row.Vouched {
			row.Rule += ", and needs a file that is named or trusted"
		}
		list = append(list, row)
	}
	return list
}

// compare sets how the values are compared.
func (s *Strictness) compare(absent string) {
	switch order := strings.Split(s.Rule, " < "); {
	case len(order) > 1:
		s.weaker = func(v, least reflect.Value) bool {
			a, b := cmp.Or(v.String(), absent), cmp.Or(least.String(), absent)
			return a != "" && b != "" && slices.Index(order, a) < slices.Index(order, b)
		}
		if absent == "" {
			s.Order = order
		}
	case s.Rule == "lower is stricter":
		s.weaker = func(v, least reflect.Value) bool { return v.Float() > least.Float() }
	case s.Rule == "" || s.Rule == wholly:
		s.Rule = "every use weakens"
		s.weaker = func(v, least reflect.Value) bool { return !reflect.DeepEqual(v.Interface(), least.Interface()) }
	default:
		s.weaker = func(_, _ reflect.Value) bool { return false }
	}
}

// Hold makes f at least as strict as base in the keys that only chooses (nil:
// in all of them) and returns those in which it was weaker.
func (f *File) Hold(base *File, only func(Strictness) bool) (changed []string) {
	file, than := reflect.ValueOf(f).Elem(), reflect.ValueOf(base).Elem()
	for _, s := range Strictnesses {
		if only != nil && !only(s) {
			continue
		}
		if v, least := file.FieldByIndex(s.field), than.FieldByIndex(s.field); s.weaker(v, least) {
			v.Set(least)
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
