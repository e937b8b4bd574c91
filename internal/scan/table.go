package scan

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"hash/maphash"
	"maps"
	"slices"
	"strings"
	"sync"
)

// A rule is one format. Every rule is a row of a table that says all about it;
// samples.txt has the texts that it must find and those that it must not.
type rule struct {
	id     string // the pattern on the wire
	family string
	what   string // for readers: whose secret, of what kind

	// words are the keywords of the prefilter, without regard to case. None
	// means the literal in the expression.
	words []string
	// expr describes the secret in the notation of expr.go. Without within it
	// holds the keyword itself; a group marks the secret.
	expr string
	// within says that the keyword is only near: the secret begins at most so
	// many bytes after it.
	within int
	// look replaces the expression for formats that it cannot describe. It is
	// called for each place of a keyword.
	look func(t *text, r *rule, pos, end int)
	// place is where the keywords are looked for. A row says it only where
	// look decides what a match is.
	place placeOfWords

	has        string  // a marker the secret holds
	entropy    float64 // least bits per byte; 0 = by length
	check      check   // checksum or other proof; nil for none
	confidence Confidence
	inside     bool      // may be inside a longer word
	alone      aloneRule // has no keyword: the code looks for it
	short      bool      // its words are short, and say little
	starts     bool      // the secret begins with the keyword; without look it is found out

	samples // of samples.txt

	order  int // of two rules that fit, the first in the table
	x      *expr
	masked string // the literal and a mask
	cut    bool   // the keyword says enough to look for the rest in the next line
	solid  bool   // no white space, quote or backslash can be in a match
	glued  bool   // says enough to be found inside of a longer word, too
	plain  bool   // the prefix is a word, which may be the last one of a name
	worded bool   // its values are known by the words before them only
}

// aloneRule is a rule that the code refers to; 0 is any other.
type aloneRule int

const (
	emailRule aloneRule = iota + 1
	ssnRule
	cardRule
	ibanRule
	phoneRule
	blobRule
	hiddenRule
	discordRule
	twilioKeyRule
	twilioAccountRule
	aloneRules
)

// Families with a meaning of their own.
const (
	familyAPIKey    = "api_key"
	familyGitHub    = "github_pat"
	familyJWT       = "jwt"
	familyPEM       = "pem_block"
	familyAWS       = "aws_secret"
	familyPII       = "pii"
	familyBinary    = "binary_hint"
	familyAI        = "ai_key"
	familyCloud     = "cloud_key"
	familyCode      = "source_host"
	familyRegistry  = "package_registry"
	familyChat      = "chat"
	familyPayment   = "payment"
	familyMail      = "mail"
	familySaaS      = "saas_key"
	familyKey       = "private_key"
	familyDB        = "db_uri"
	familyBasic     = "basic_auth"
	familyGeneric   = "generic_secret"
	familyFilter    = "filter_trigger"
	familyInvisible = "invisible_unicode"
)

// weights are what one finding of a family adds to the score.
var weights = map[string]float64{
	familyAPIKey: 0.35, familyGitHub: 0.35, familyJWT: 0.25, familyPEM: 0.50, familyAWS: 0.40, familyPII: 0.15, familyBinary: 0.20,
	familyAI: 0.35, familyCloud: 0.35, familyCode: 0.35, familyRegistry: 0.35, familyChat: 0.35, familyPayment: 0.35,
	familyMail: 0.35, familySaaS: 0.35, familyKey: 0.50, familyDB: 0.40, familyBasic: 0.35, familyGeneric: 0.40,
	familyFilter: 0.05, familyInvisible: 0.05,
}

const customWeight = 0.35

// table is every rule with its samples, which scanning does not need.
func table() []*rule {
	all := rules()
	seen := map[string]int{}
	for _, r := range all {
		if of := ruleSamples()[r.id]; seen[r.id] < len(of) {
			r.samples = of[seen[r.id]]
		}
		seen[r.id]++
	}
	return all
}

// rules is every rule, the more specific before the more general one.
func rules() (all []*rule) {
	for _, part := range [][]rule{
		rulesChat, rulesAI, rulesCode, rulesCloud, rulesRegistry, rulesSaaS, rulesKeys, rulesURI, rulesCommand, rulesContext, rulesServices, rulesHints,
	} {
		for i := range part {
			r := part[i]
			all = append(all, &r)
		}
	}
	return all
}

// compile makes the scanner of a policy.
func compile(p *Policy) (*Scanner, error) {
	s := &Scanner{policy: *p, seed: maphash.MakeSeed(), weights: maps.Clone(weights)}
	s.policy.High, s.policy.Medium, s.policy.Low = cmp.Or(p.High, DefaultHigh), cmp.Or(p.Medium, DefaultMedium), cmp.Or(p.Low, DefaultLow)
	off := map[string]bool{}
	for _, name := range p.DisablePatterns {
		off["pattern "+name] = true
	}
	for _, name := range p.DisableFamilies {
		off["family "+name] = true
	}
	if len(off) == 0 {
		s.builtin = allRules()
	} else {
		s.builtin = newBuiltin(off)
	}
	return s, s.extend(p.Extend, off)
}

// allRules is shared by the policies that turn no rule off.
var allRules = sync.OnceValue(func() *builtin { return newBuiltin(nil) })

// newBuiltin compiles the tables without the rules that are off.
func newBuiltin(off map[string]bool) *builtin {
	s := &builtin{classes: &classes{}}
	s.wordClass, s.valueClass, s.passClass = s.classes.add(setOf(isWord)), s.classes.add(setOf(inValue)), s.classes.add(setOf(inPassword))
	for _, p := range placeholderShapes() {
		if !off["pattern "+p.rule.id] && !off["family "+p.rule.family] {
			s.shapes = append(s.shapes, p)
		}
	}
	var words [beforeToken + 1][]word
	var known [beforeToken + 1]map[string]int
	for i := range known {
		known[i] = map[string]int{}
	}
	for order, r := range rules() {
		r.order, s.orders = order, order+1
		s.prepare(r)
		if off["pattern "+r.id] || off["family "+r.family] {
			continue
		}
		s.rules = append(s.rules, r)
		s.alone[r.alone] = r
		for _, w := range r.words {
			w = strings.ToLower(w)
			n, ok := known[r.place][w]
			if !ok {
				n = len(words[r.place])
				known[r.place][w] = n
				words[r.place] = append(words[r.place], word{text: w})
			}
			words[r.place][n].add(r)
		}
	}
	s.inTokens, s.beforeTokens, s.anywhere = newPrefilter(words[inToken], rarest), newPrefilter(words[beforeToken], rarest), newTextFilter(words[anywhere])
	s.inBoth = newPrefilter(slices.Concat(words[inToken], words[beforeToken]), rarest)
	return s
}

// prepare compiles the expression of a rule and settles its keywords.
func (s *builtin) prepare(r *rule) {
	if r.expr != "" {
		r.x = s.classes.compile(r.expr)
		if r.x.ambiguous && r.within == 0 && r.look == nil && r.alone == 0 {
			panic("scan: two runs before the keyword of " + r.id)
		}
		if r.words == nil && r.alone == 0 {
			r.words = []string{r.x.literal}
		}
		r.masked = r.x.literal[:min(len(r.x.literal), 16)] + "…"
		r.solid = r.look == nil && s.classes.only(r.x.seq, &solidBytes, &solidBytes)
		r.glued, r.plain = r.standsOut(), plainPrefixes[r.x.literal]
		r.cut = r.words != nil && (strings.ContainsAny(r.words[0], "_-.") || len(r.x.literal) >= 4 && r.x.literal != strings.ToLower(r.x.literal))
	}
	if r.within > 0 || r.family == familyGeneric {
		r.words = respelled(r.words, "_", "-", "", ".", " ") // cf_api is also cf-api, cfApi, cf.api and "cf api"
	}
	r.worded = r.within > 0 || r.family == familyGeneric || onWords[r.id]
	r.settle(s.classes)
	if slices.ContainsFunc(r.words, func(w string) bool { return len(w) < 3 }) {
		panic("scan: a keyword is too short for " + r.id)
	}
}

// solidBytes are no white space, quote or backslash.
var solidBytes = setOf(func(b byte) bool { return !ends(b) && b != '\\' })

// plainPrefixes end like a prefix of a vendor, and are also the ends of words
// and names before identifiers of other kinds.
var plainPrefixes = map[string]bool{
	"key-": true, "key_": true, "secret-": true, "secret_": true, "api_": true, "api-": true, "pat-": true, "cal_": true, "ion_": true, "ico-": true,
	"ls__": true, "lip_": true, "pul-": true, "da2-": true, "os_v2_": true, "v1.0-": true, "token_": true, "token-": true, "auth_": true, "sdk-": true,
}

// standsOut reports whether a rule needs no boundary around what it finds: it
// has distinctive prefixes of at least four characters that end in _ or -, and a
// fixed length or a checksum that proves a token.
func (r *rule) standsOut() bool {
	x := r.x
	if r.look != nil || r.within > 0 || r.inside || x.lead > 0 || !r.fixed() && r.check == nil || len(r.words) == 0 {
		return false
	}
	for _, w := range r.words {
		last := w[len(w)-1]
		if len(w) < 4 || last != '_' && last != '-' || plainPrefixes[w] || !strings.HasPrefix(w, x.literal) {
			return false
		}
	}
	return true
}

// fixed reports whether all that the expression fits is equally long.
func (r *rule) fixed() bool { return r.x.least == r.x.most }

// respelled adds to words, whose joints are underscores, those with other joints.
func respelled(words []string, joints ...string) (all []string) {
	seen := map[string]bool{}
	for _, w := range words {
		for _, joint := range joints {
			other := strings.ReplaceAll(w, "_", joint)
			if joint != "_" && w[0] == '_' {
				break
			}
			if len(other) > 2 && !seen[other] {
				seen[other] = true
				all = append(all, other)
			}
		}
	}
	return all
}

// extend adds the rules of the policy.
func (s *Scanner) extend(custom []CustomRule, off map[string]bool) error {
	for _, c := range custom {
		own, err := newCustomRule(&c)
		if err != nil {
			return err
		}
		if off["pattern "+c.Name] || off["family "+c.Family] {
			continue
		}
		weight := cmp.Or(c.Weight, customWeight)
		if _, builtin := weights[c.Family]; !builtin {
			s.weights[c.Family] = max(s.weights[c.Family], weight)
		}
		s.custom = append(s.custom, own)
	}
	return nil
}

// mask is what may be shown of a secret: the prefix that is the same for all
// of its kind.
func (r *rule) mask(secret []byte) string {
	if r.family == familyInvisible || r.family == familyBinary {
		return "…"
	}
	if r.x != nil && r.within == 0 && r.x.lead == 0 && len(r.x.seq) > 0 && bytes.HasPrefix(secret, []byte(r.x.literal)) {
		return r.masked
	}
	return "***…"
}

// fingerprint is the same for two findings of the same secret.
func (r *rule) fingerprint(secret []byte) (out [16]byte) {
	var buf [512]byte // as long as nearly all of them
	sum := sha256.Sum256(append(append(append(buf[:0], r.id...), 0), secret...))
	copy(out[:], sum[:])
	return out
}

// RuleInfo describes one rule to readers.
type RuleInfo struct {
	ID, Family, What string
	Confidence       Confidence
	Example          string // a template: what is in braces is random
	Weight           float64
}

// Names lists the families and the ids of the rules.
func Names() (families, ids []string) {
	for _, r := range rules() {
		if !slices.Contains(families, r.family) {
			families = append(families, r.family)
		}
		ids = append(ids, r.id)
	}
	return families, ids
}

// Rules lists the rules, by family and id.
func Rules() []RuleInfo {
	var list []RuleInfo
	for _, r := range table() {
		list = append(list, RuleInfo{ID: r.id, Family: r.family, What: r.what, Confidence: r.grade(), Example: r.hits[0], Weight: weights[r.family]})
	}
	slices.SortFunc(list, func(a, b RuleInfo) int { return cmp.Or(cmp.Compare(a.Family, b.Family), cmp.Compare(a.ID, b.ID)) })
	return list
}

// grade is the confidence of a full match; unset means confirmed.
func (r *rule) grade() Confidence {
	if r.confidence == "" {
		return Confirmed
	}
	return r.confidence
}
