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

// spec says what a value must be and where it goes. The parser and the schema
// are both made from it.
type spec struct {
	form     form
	about    string // the description in the schema
	into     func(*File) any
	keys     []key // of an object
	item     *spec // of a list, and of each value of families
	begin    func(f *File, n *node)
	atLeast  int // items of a list
	choices  []string
	min, max float64
	above    bool     // min itself is not allowed
	reason   string   // for a number out of range; bad_value when ""
	def      any      // the default, for the schema
	anyOf    []string // keys of which one must be given
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

// limit bounds what all values of a kind come to together.
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

// The defaults of what a file does not give.
const (
	defaultHigh, defaultMedium, defaultLow = 0.70, 0.40, 0.10
	defaultBudget                          = 3
	defaultWeight                          = 0.35
)

// policy is the table of all keys of a policy file.
var policy = &spec{form: object, about: "The policy of a resilientwrite store.", keys: []key{
	{"version", &spec{form: whole, about: "The version of this format.", min: 1, max: 1, reason: UnsupportedVersion, def: 1, into: func(f *File) any { return &f.Version }}, ""},
	{"extend_patterns", &spec{form: families, about: "Rules to add, by family. At most 200 in all, with unique names; their expressions have 2,000 instructions together at most, repeats written out.", item: patternList, begin: func(f *File, n *node) {
		f.ExtendPatterns = append(f.ExtendPatterns, Family{Name: n.Text, Line: n.Line})
	}}, ""},
	{"disable_families", &spec{form: listOf, about: "Families of rules to leave out.", item: &spec{form: name, use: familyName, into: func(f *File) any { return &f.DisableFamilies }}}, ""},
	{"disable_patterns", &spec{form: listOf, about: "Rules to leave out.", item: &spec{form: name, use: patternName, into: func(f *File) any { return &f.DisablePatterns }}}, ""},
	{"thresholds", &spec{form: object, about: "The least score of each verdict; low < medium < high.", keys: []key{
		{"high", score(defaultHigh, func(f *File) any { return &f.Thresholds.High }), ""},
		{"medium", score(defaultMedium, func(f *File) any { return &f.Thresholds.Medium }), ""},
		{"low", score(defaultLow, func(f *File) any { return &f.Thresholds.Low }), ""},
	}}, ""},
	{"retry_budget", &spec{form: object, about: "How often a refused write may be tried again.", keys: []key{
		{"default", &spec{form: whole, about: "For every path.", min: 1, max: 100, def: defaultBudget, into: func(f *File) any { return &f.RetryBudget.Default }}, ""},
	}}, ""},
	{"gate", gate, ""},
	{"allow", &spec{form: listOf, about: "Exceptions.", item: exception}, ""},
	{"protect", &spec{form: listOf, about: "Paths that are protected.", item: globs(func(f *File) any { return &f.Protect })}, ""},
	{"protect_defaults", &spec{form: choice, about: "At most this becomes of a change of a file that executes, launches or grants: ask the user, warn, or nothing.", choices: []string{"ask", "warn", "off"}, into: func(f *File) any { return &f.ProtectDefaults }}, ""},
	{"protect_exceptions", &spec{form: listOf, about: "Paths that protect_defaults and the rule for directories of git's shape do not hold for.", item: globs(func(f *File) any { return &f.ProtectExceptions })}, ""},
	{"placeholders", &spec{form: choice, about: "What becomes of values that have the shape of a credential and that nobody could use: report lists them without weight, score counts them, ignore leaves them out.", choices: []string{"report", "score", "ignore"}, def: "report", into: func(f *File) any { return &f.Placeholders }}, ""},
	{"history", history, ""},
}}

// added is the rule that is being read.
func added(f *File) *Pattern {
	rules := f.ExtendPatterns[len(f.ExtendPatterns)-1].Patterns
	return &rules[len(rules)-1]
}

var patternList = &spec{form: listOf, atLeast: 1, about: "The rules of one family.", item: &spec{form: object, limit: manyPatterns, begin: func(f *File, n *node) {
	family := &f.ExtendPatterns[len(f.ExtendPatterns)-1]
	family.Patterns = append(family.Patterns, Pattern{Weight: defaultWeight, Line: n.Line})
}, keys: []key{
	{"name", &spec{form: name, about: "Unique in the file.", use: addedName, into: func(f *File) any { return &added(f).Name }}, "give the rule a name"},
	{"regex", &spec{form: regex, about: "An expression of RE2 that does not match the empty string.", limit: largeRegexes, into: func(f *File) any { return &added(f).Regex }}, "give the rule an expression"},
	{"weight", &spec{form: number, about: "What one finding counts.", above: true, max: 1, def: defaultWeight, into: func(f *File) any { return &added(f).Weight }}, ""},
	{"keywords", &spec{form: listOf, about: "The expression runs only on a text that holds one of them. At most 1,000 of all patterns.", limit: manyKeywords, item: &spec{form: word, into: func(f *File) any { return &added(f).Keywords }}}, ""},
}}}

func score(def float64, into func(*File) any) *spec {
	return &spec{form: number, above: true, max: 1, reason: BadThresholds, def: def, into: into}
}

func globs(into func(*File) any) *spec { return &spec{form: pathGlob, limit: manyGlobs, into: into} }

var gate = &spec{form: object, about: "What becomes of a risky write.", keys: []key{
	{"mode", &spec{form: choice, about: "block refuses, advise only reports, off does not scan.", choices: []string{"block", "advise", "off"}, into: func(f *File) any { return &f.Gate.Mode }}, ""},
	{"reject_at", &spec{form: choice, about: "The least verdict that is refused.", choices: []string{"low", "medium", "high"}, into: func(f *File) any { return &f.Gate.RejectAt }}, ""},
	{"overrides", &spec{form: choice, about: "Whether a caller may override a refusal: never, with a reason, or freely.", choices: []string{"none", "reason", "any"}, into: func(f *File) any { return &f.Gate.Overrides }}, ""},
	{"inline_markers", &spec{form: truth, about: "Whether a marker in a line lets the line pass.", def: false, into: func(f *File) any { return &f.Gate.InlineMarkers }}, ""},
}}

func allowed(f *File) *Allow { return &f.Allow[len(f.Allow)-1] }

var exception = &spec{form: object, anyOf: []string{"path", "pattern"}, begin: func(f *File, n *node) { f.Allow = append(f.Allow, Allow{Line: n.Line}) }, keys: []key{
	{"path", &spec{form: pathGlob, about: "The paths it is for; all when it is missing.", limit: manyGlobs, into: func(f *File) any { return &allowed(f).Path }}, ""},
	{"pattern", &spec{form: nameStar, about: "The rule or family it is for, or *; all when it is missing.", use: eitherName, into: func(f *File) any { return &allowed(f).Pattern }}, ""},
	{"reason", &spec{form: prose, about: "Why the exception is safe.", into: func(f *File) any { return &allowed(f).Reason }}, "say why the exception is safe"},
}}

var history = &spec{form: object, about: "How much is kept of earlier versions; 0 is the same as not given.", keys: []key{
	{"max_bytes", &spec{form: bytesSize, about: "Of all versions together.", into: func(f *File) any { return &f.History.MaxBytes }}, ""},
	{"max_age", &spec{form: age, about: "Such as 30d, 12h, 90m or P30D.", into: func(f *File) any { return &f.History.MaxAge }}, ""},
	{"max_versions", &spec{form: whole, about: "Of one path.", min: 0, max: 1_000_000_000, into: func(f *File) any { return &f.History.MaxVersions }}, ""},
	{"max_object_bytes", &spec{form: bytesSize, about: "Of one version; larger ones are not kept.", into: func(f *File) any { return &f.History.MaxObjectBytes }}, ""},
	{"keep_head_max", &spec{form: bytesSize, about: "Largest file of which the newest version is copied too, 8 MiB when it is missing; where the file system can clone, larger ones are cloned.", into: func(f *File) any { return &f.History.KeepHeadMax }}, ""},
}}

// find returns the spec of a key, nil if there is none of that name.
func (s *spec) find(name string) *spec {
	for _, k := range s.keys {
		if k.name == name {
			return k.spec
		}
	}
	return nil
}
