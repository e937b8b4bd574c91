package policyfile

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

// spec says what a value must be. The parser and the schema are both made
// from it.
type spec struct {
	form     form
	about    string // the description in the schema
	keys     []key  // of an object
	item     *spec  // of a list, and of each value of families
	atLeast  int    // items of a list
	choices  []string
	min, max float64
	above    bool   // min itself is not allowed
	reason   string // for a number out of range; bad_value when ""
	def      any    // the default, for the schema
	anyOf    []string
	extra    func(c *checker, n *node, s *spec) // checks that go over several keys
}

// key is one key of an object.
type key struct {
	name     string
	spec     *spec
	required bool
	missing  string // the hint when a required key is missing
}

// The defaults of what a file does not give.
const (
	defaultHigh, defaultMedium, defaultLow = 0.70, 0.40, 0.10
	defaultBudget                          = 3
	defaultWeight                          = 0.35
)

// policy is the table of all keys of a policy file.
var policy = &spec{form: object, about: "The policy of a resilientwrite store.", keys: []key{
	{name: "version", spec: &spec{form: whole, about: "The version of this format.", min: 1, max: 1, reason: UnsupportedVersion, def: 1}},
	{name: "extend_patterns", spec: &spec{form: families, about: "Rules to add, by family. At most 200 in all, with unique names; their expressions have 2,000 instructions together at most, repeats written out.", item: patternList, extra: checkPatterns}},
	{name: "disable_families", spec: &spec{form: listOf, about: "Families of rules to leave out.", item: &spec{form: name}}},
	{name: "disable_patterns", spec: &spec{form: listOf, about: "Rules to leave out.", item: &spec{form: name}}},
	{name: "thresholds", spec: thresholds},
	{name: "retry_budget", spec: &spec{form: object, about: "How often a refused write may be tried again.", keys: []key{
		{name: "default", spec: &spec{form: whole, about: "For every path.", min: 1, max: 100, def: defaultBudget}},
	}}},
	{name: "gate", spec: gate},
	{name: "allow", spec: &spec{form: listOf, about: "Exceptions.", item: exception}},
	{name: "protect", spec: &spec{form: listOf, about: "Paths that are protected.", item: &spec{form: pathGlob}}},
	{name: "protect_defaults", spec: &spec{form: choice, about: "At most this becomes of a change of a file that executes, launches or grants: ask the user, warn, or nothing.", choices: []string{"ask", "warn", "off"}}},
	{name: "protect_exceptions", spec: &spec{form: listOf, about: "Paths that protect_defaults and the rule for directories of git's shape do not hold for.", item: &spec{form: pathGlob}}},
	{name: "placeholders", spec: &spec{form: choice, about: "What becomes of values that have the shape of a credential and that nobody could use: report lists them without weight, score counts them, ignore leaves them out.", choices: []string{"report", "score", "ignore"}, def: "report"}},
	{name: "history", spec: history},
}}

var patternList = &spec{form: listOf, atLeast: 1, about: "The rules of one family.", item: &spec{form: object, keys: []key{
	{name: "name", required: true, missing: "give the rule a name", spec: &spec{form: name, about: "Unique in the file."}},
	{name: "regex", required: true, missing: "give the rule an expression", spec: &spec{form: regex, about: "An expression of RE2 that does not match the empty string."}},
	{name: "weight", spec: &spec{form: number, about: "What one finding counts.", min: 0, above: true, max: 1, def: defaultWeight}},
	{name: "keywords", spec: &spec{form: listOf, about: "The expression runs only on a text that holds one of them. At most 1,000 of all patterns.", item: &spec{form: word}}},
}}}

var thresholds = &spec{form: object, about: "The least score of each verdict; low < medium < high.", extra: checkThresholds, keys: []key{
	{name: "high", spec: score(defaultHigh)},
	{name: "medium", spec: score(defaultMedium)},
	{name: "low", spec: score(defaultLow)},
}}

func score(def float64) *spec {
	return &spec{form: number, min: 0, above: true, max: 1, reason: BadThresholds, def: def}
}

var gate = &spec{form: object, about: "What becomes of a risky write.", keys: []key{
	{name: "mode", spec: &spec{form: choice, about: "block refuses, advise only reports, off does not scan.", choices: []string{"block", "advise", "off"}}},
	{name: "reject_at", spec: &spec{form: choice, about: "The least verdict that is refused.", choices: []string{"low", "medium", "high"}}},
	{name: "overrides", spec: &spec{form: choice, about: "Whether a caller may override a refusal: never, with a reason, or freely.", choices: []string{"none", "reason", "any"}}},
	{name: "inline_markers", spec: &spec{form: truth, about: "Whether a marker in a line lets the line pass.", def: false}},
}}

var exception = &spec{form: object, anyOf: []string{"path", "pattern"}, keys: []key{
	{name: "path", spec: &spec{form: pathGlob, about: "The paths it is for; all when it is missing."}},
	{name: "pattern", spec: &spec{form: nameStar, about: "The rule or family it is for, or *; all when it is missing."}},
	{name: "reason", required: true, missing: "say why the exception is safe", spec: &spec{form: prose, about: "Why the exception is safe."}},
}}

var history = &spec{form: object, about: "How much is kept of earlier versions; 0 is the same as not given.", keys: []key{
	{name: "max_bytes", spec: &spec{form: bytesSize, about: "Of all versions together."}},
	{name: "max_age", spec: &spec{form: age, about: "Such as 30d, 12h, 90m or P30D."}},
	{name: "max_versions", spec: &spec{form: whole, about: "Of one path.", min: 0, max: 1_000_000_000}},
	{name: "max_object_bytes", spec: &spec{form: bytesSize, about: "Of one version; larger ones are not kept."}},
	{name: "keep_head_max", spec: &spec{form: bytesSize, about: "Largest file of which the newest version is copied too, 8 MiB when it is missing; where the file system can clone, larger ones are cloned."}},
}}

// keyNames lists the keys of an object.
func (s *spec) keyNames() []string {
	names := make([]string, len(s.keys))
	for i, k := range s.keys {
		names[i] = k.name
	}
	return names
}

// find returns the spec of a key, nil if there is none of that name.
func (s *spec) find(name string) *spec {
	for _, k := range s.keys {
		if k.name == name {
			return k.spec
		}
	}
	return nil
}
