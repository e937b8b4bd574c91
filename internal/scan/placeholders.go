package scan

import (
	"bytes"
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// What a policy says about placeholders: values that have the shape of a
// credential and cannot be used as one.
const (
	PlaceholdersReport = "report" // a report asked for them lists them, without weight; the default
	PlaceholdersScore  = "score"  // they count like likely findings, everywhere; a blob only informs
	PlaceholdersIgnore = "ignore" // they are not looked for
)

// placeholderShape is a shape that a placeholder may have. The shapes, their names and
// their families are those that the Python implementation scores by.
type placeholderShape struct {
	rule *rule
	word string // the text is looked at only when it holds it, in lower case
	re   *regexp.Regexp
	weak bool // the shape alone is no format of its own: the value must be implausible too
}

// placeholderShapes lists the shapes. None of them needs more than one pass over a text.
var placeholderShapes = sync.OnceValue(func() (list []placeholderShape) {
	add := func(family, word, expr string, weak bool, ids ...string) {
		for _, id := range ids {
			w, x := strings.ReplaceAll(word, "ID", id), strings.ReplaceAll(expr, "ID", id)
			r := &rule{id: id, family: family, confidence: Likely, order: 1<<20 + len(list)}
			list = append(list, placeholderShape{r, w, regexp.MustCompile(x), weak})
		}
	}
	add(familyAPIKey, "sk-ant-oat", `sk-ant-oat\d+-[\w-]{40,}`, false, "anthropic_oat")
	add(familyAPIKey, "sk-ant-api", `sk-ant-api\d+-[\w-]{40,}`, false, "anthropic_api")
	add(familyAPIKey, "sk-proj-", `sk-proj-[\w-]{40,}`, false, "openai_project_key")
	add(familyAPIKey, "sk-", `sk-[[:alnum:]]{30,}`, true, "openai_key")
	add(familyAPIKey, "pub", `pub[0-9a-f]{32}`, true, "datadog_client_key")
	add(familyAPIKey, "client-", `client-[[:alnum:]]{30,}`, true, "statsig_client_key")
	add(familyAPIKey, "akia", `AKIA[0-9A-Z]{16}`, false, "aws_access_key_id")
	add(familyAPIKey, "bearer", `(?i:bearer)\s+[\w.=-]{20,}`, true, "bearer_token")
	add(familyGitHub, "ID_", `ID_[[:alnum:]]{36}`, false, "gho", "ghp", "ghu", "ghs", "ghr")
	add(familyJWT, "eyj", `eyJ[\w-]+\.eyJ[\w-]+\.[\w-]+`, false, "jwt_triplet")
	add(familyPEM, "-----begin ", `-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----`, false, "pem_private_key")
	add(familyAWS, "aws_secret_access_key", `(?i:aws_secret_access_key)["'\s:=]+[[:alnum:]/+=]{40}`, true, "aws_secret_access_key")
	add(familyPII, "@", `[\w.%+-]+@(?:[\w-]+\.)*(?:example\.(?:com|org|net|edu)|example|test|invalid)\b`, false, "email")
	add(familyPII, "-", `\b\d{3}-\d{2}-\d{4}\b`, false, "ssn")
	blob := &rule{id: "long_base64_blob", family: familyBinary, confidence: Info, order: 1<<20 + len(list)}
	return append(list, placeholderShape{rule: blob, weak: true})
})

// find lists the places of a text that have the shape.
func (p *placeholderShape) find(b []byte) (places [][]int) {
	if p.re != nil {
		if containsFold(b, p.word) {
			return p.re.FindAllIndex(b, -1)
		}
		return nil
	}
	for from := 0; from < len(b); {
		to := from
		for to < len(b) && (letter(b[to]) || digit(b[to]) || b[to] == '+' || b[to] == '/' || b[to] == '=') {
			to++
		}
		if to-from >= blobFrom {
			places = append(places, []int{from, to})
		}
		from = to + 1
	}
	return places
}

// matches reports whether a match can be a placeholder.
func (p *placeholderShape) matches(match []byte) bool {
	if !p.weak {
		return true
	}
	value := match
	if p.rule.id == "bearer_token" || p.rule.id == "aws_secret_access_key" {
		value = match[bytes.LastIndexAny(match, "\"' \t\r\n:")+1:]
	}
	value = bytes.TrimPrefix(value, []byte(p.word))
	return published(value) || placeholder(value) || measured(value[:min(len(value), longest)]).entropy < 2.8
}

// withPlaceholders adds to what was found in b the placeholders that are in
// none of it, where they are wanted.
func (s *Scanner) withPlaceholders(b []byte, found []raw, opt Options) []raw {
	if s.policy.Placeholders == PlaceholdersIgnore || s.policy.Placeholders != PlaceholdersScore && !opt.Placeholders {
		return found
	}
	all, n := found, len(found)
	for i := range s.shapes {
		p := &s.shapes[i]
		at := 0
		for _, m := range p.find(b) {
			for at < n && found[at].end <= m[0] {
				at++
			}
			if at < n && found[at].start < m[1] || !p.matches(b[m[0]:m[1]]) {
				continue
			}
			if len(all) == n {
				all = slices.Clone(found)
			}
			all = append(all, raw{rule: p.rule, start: m[0], end: m[1], secret: b[m[0]:m[1]], confidence: p.rule.confidence, placeholder: true})
		}
	}
	if len(all) == n {
		return found
	}
	slices.SortStableFunc(all, func(a, b raw) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.rule.order, b.rule.order))
	})
	out := all[:1] // of two that overlap, the first
	for _, f := range all[1:] {
		if f.placeholder && f.start < out[len(out)-1].end {
			continue
		}
		out = append(out, f)
	}
	return out
}
