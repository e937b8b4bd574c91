package policyfile

import "github.com/resilientwrite/resilientwrite/internal/strictyaml"

// form is the form that a value must have.
type form int

const (
	object   form = iota // a mapping with the keys of the table
	families             // a mapping with names as keys
	listOf
	prose    // text for people
	word     // text on one line
	name     // the name of a rule or of a family
	nameStar // a name, or *
	pathGlob
	regex
	choice
	truth
	whole
	number
	bytesSize
	age
)

// spec defines the valid form of a value and its destination. spec/policy.schema.json
// contains the same rules; a test compares them.
type spec struct {
	form     form
	into     func(*File) any
	keys     []key // of an object
	item     *spec // of a list, and of each value of families
	begin    func(f *File, n *node)
	atLeast  int // items of a list
	choices  []string
	min, max float64
	above    bool     // min itself is not allowed
	reason   string   // for a number out of range; bad_value when ""
	anyOf    []string // keys, one of which is required
	limit    *limit   // counts in the whole file
	use      nameKind // of a name
}

// node is a value of the file.
type node = strictyaml.Node

// key is one key of an object.
type key struct {
	name    string
	spec    *spec
	missing string // the hint when a required key is missing, "" when it may be
}

// limit bounds the total of all values of a kind.
type limit struct {
	most          int
	message, hint string
}

var (
	manyPatterns = &limit{MaxPatterns, "more than %d patterns", ""}
	manyKeywords = &limit{MaxKeywords, "more than %d keywords in all", "give the rules fewer keywords"}
	manyGlobs    = &limit{maxGlobs, "the file has more than %d globs, the choices in braces counted", "write globs that cover more"}
	largeRegexes = &limit{maxRegexCost, "the expressions up to this one have more than %d instructions together when their repeats are written out", smallerRepeats + ", or fewer patterns"}
)

// The defaults of missing values.
const (
	defaultHigh, defaultMedium, defaultLow = 0.70, 0.40, 0.10
	defaultBudget                          = 3
	defaultWeight                          = 0.35
)

// policy is the table of all keys of a policy file.
var policy = &spec{form: object, keys: []key{
	{"version", &spec{form: whole, min: 1, max: 1, reason: UnsupportedVersion, into: func(f *File) any { return &f.Version }}, ""},
	{"extend_patterns", &spec{form: families, item: patternList, begin: func(f *File, n *node) {
		f.ExtendPatterns = append(f.ExtendPatterns, Family{Name: n.Text, Line: n.Line})
	}}, ""},
	{"disable_families", &spec{form: listOf, item: &spec{form: name, use: familyName, into: func(f *File) any { return &f.DisableFamilies }}}, ""},
	{"disable_patterns", &spec{form: listOf, item: &spec{form: name, use: patternName, into: func(f *File) any { return &f.DisablePatterns }}}, ""},
	{"thresholds", &spec{form: object, keys: []key{
		{"high", score(func(f *File) any { return &f.Thresholds.High }), ""},
		{"medium", score(func(f *File) any { return &f.Thresholds.Medium }), ""},
		{"low", score(func(f *File) any { return &f.Thresholds.Low }), ""},
	}}, ""},
	{"retry_budget", &spec{form: object, keys: []key{
		{"default", &spec{form: whole, min: 1, max: 100, into: func(f *File) any { return &f.RetryBudget.Default }}, ""},
	}}, ""},
	{"gate", gate, ""},
	{"allow", &spec{form: listOf, item: exception}, ""},
	{"protect", &spec{form: listOf, item: globs(func(f *File) any { return &f.Protect })}, ""},
	{"protect_defaults", &spec{form: choice, choices: []string{"ask", "warn", "off"}, into: func(f *File) any { return &f.ProtectDefaults }}, ""},
	{"protect_exceptions", &spec{form: listOf, item: globs(func(f *File) any { return &f.ProtectExceptions })}, ""},
	{"merge", &spec{form: choice, choices: []string{"off", "clean"}, into: func(f *File) any { return &f.Merge }}, ""},
	{"placeholders", &spec{form: choice, choices: []string{"report", "score", "ignore"}, into: func(f *File) any { return &f.Placeholders }}, ""},
	{"history", history, ""},
	{"capture", &spec{form: object, keys: []key{
		{"include", &spec{form: listOf, item: globs(func(f *File) any { return &f.Capture.Include })}, ""},
		{"exclude", &spec{form: listOf, item: globs(func(f *File) any { return &f.Capture.Exclude })}, ""},
	}}, ""},
	{"exec", &spec{form: object, keys: []key{
		{"allow_write", &spec{form: listOf, item: &spec{form: word, into: func(f *File) any { return &f.Exec.AllowWrite }}}, ""},
	}}, ""},
}}

// added is the rule that is being read.
func added(f *File) *Pattern {
	rules := f.ExtendPatterns[len(f.ExtendPatterns)-1].Patterns
	return &rules[len(rules)-1]
}

var patternList = &spec{form: listOf, atLeast: 1, item: &spec{form: object, limit: manyPatterns, begin: func(f *File, n *node) {
	family := &f.ExtendPatterns[len(f.ExtendPatterns)-1]
	family.Patterns = append(family.Patterns, Pattern{Weight: defaultWeight, Line: n.Line})
}, keys: []key{
	{"name", &spec{form: name, use: addedName, into: func(f *File) any { return &added(f).Name }}, "give the rule a name"},
	{"regex", &spec{form: regex, limit: largeRegexes, into: func(f *File) any { return &added(f).Regex }}, "give the rule an expression"},
	{"weight", &spec{form: number, above: true, max: 1, into: func(f *File) any { return &added(f).Weight }}, ""},
	{"keywords", &spec{form: listOf, limit: manyKeywords, item: &spec{form: word, into: func(f *File) any { return &added(f).Keywords }}}, ""},
}}}

func score(into func(*File) any) *spec {
	return &spec{form: number, above: true, max: 1, reason: BadThresholds, into: into}
}

func globs(into func(*File) any) *spec { return &spec{form: pathGlob, limit: manyGlobs, into: into} }

var gate = &spec{form: object, keys: []key{
	{"mode", &spec{form: choice, choices: []string{"block", "advise", "off"}, into: func(f *File) any { return &f.Gate.Mode }}, ""},
	{"reject_at", &spec{form: choice, choices: []string{"low", "medium", "high"}, into: func(f *File) any { return &f.Gate.RejectAt }}, ""},
	{"overrides", &spec{form: choice, choices: []string{"none", "reason", "any"}, into: func(f *File) any { return &f.Gate.Overrides }}, ""},
	{"inline_markers", &spec{form: truth, into: func(f *File) any { return &f.Gate.InlineMarkers }}, ""},
}}

func allowed(f *File) *Allow { return &f.Allow[len(f.Allow)-1] }

var exception = &spec{form: object, anyOf: []string{"path", "pattern"}, begin: func(f *File, n *node) { f.Allow = append(f.Allow, Allow{Line: n.Line}) }, keys: []key{
	{"path", &spec{form: pathGlob, limit: manyGlobs, into: func(f *File) any { return &allowed(f).Path }}, ""},
	{"pattern", &spec{form: nameStar, use: eitherName, into: func(f *File) any { return &allowed(f).Pattern }}, ""},
	{"reason", &spec{form: prose, into: func(f *File) any { return &allowed(f).Reason }}, "say why the exception is safe"},
}}

var history = &spec{form: object, keys: []key{
	{"max_bytes", &spec{form: bytesSize, into: func(f *File) any { return &f.History.MaxBytes }}, ""},
	{"max_age", &spec{form: age, into: func(f *File) any { return &f.History.MaxAge }}, ""},
	{"max_versions", &spec{form: whole, min: 0, max: 1_000_000_000, into: func(f *File) any { return &f.History.MaxVersions }}, ""},
	{"max_object_bytes", &spec{form: bytesSize, into: func(f *File) any { return &f.History.MaxObjectBytes }}, ""},
	{"keep_head_max", &spec{form: bytesSize, into: func(f *File) any { return &f.History.KeepHeadMax }}, ""},
}}

// find returns the spec of a key, or nil if there is none.
func (s *spec) find(name string) *spec {
	for _, k := range s.keys {
		if k.name == name {
			return k.spec
		}
	}
	return nil
}
