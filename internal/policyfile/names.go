package policyfile

import (
	"fmt"
	"slices"
	"strings"
)

// nameKind says what a name of the file must be.
type nameKind int

const (
	familyName  nameKind = iota
	patternName          // of a rule
	eitherName           // of a rule or of a family
	addedName            // of a rule that the file adds
)

// nameUse is a name and its place in the file.
type nameUse struct {
	name         string
	kind         nameKind
	line, column int
}

// CheckNames compares the names in the file with the built-in families and
// patterns. It reports names in disable_families, disable_patterns and allow
// that are neither built in nor added by the file itself, because a misspelt
// name would have no effect, and rules the file adds under the name of a
// built-in one. The problems are sorted and bounded as those of [Parse].
func (f *File) CheckNames(families, patterns []string) []*Problem {
	knownFamilies, knownPatterns := slices.Clone(families), slices.Clone(patterns)
	for _, family := range f.ExtendPatterns {
		knownFamilies = append(knownFamilies, family.Name)
		for _, p := range family.Patterns {
			knownPatterns = append(knownPatterns, p.Name)
		}
	}
	both := append(slices.Clone(knownPatterns), knownFamilies...)
	var problems []*Problem
	for _, use := range f.names {
		p := &Problem{Line: use.line, Column: use.column, Reason: BadValue}
		known, what := both, "pattern or family"
		switch use.kind {
		case familyName:
			known, what = knownFamilies, "family"
		case patternName:
			known, what = knownPatterns, "pattern"
		case addedName:
			if slices.Contains(patterns, use.name) {
				p.Message, p.Hint = fmt.Sprintf("the name %q is that of a built-in pattern", use.name), "choose another name"
				problems = append(problems, p)
			}
			continue
		}
		if slices.Contains(known, use.name) {
			continue
		}
		p.Message, p.Hint = fmt.Sprintf("unknown %s %q", what, use.name), didYouMean(use.name, known, nil)
		switch {
		case p.Hint != "":
		case use.kind == familyName && slices.Contains(knownPatterns, use.name):
			p.Hint = "it is a pattern; name it under disable_patterns"
		case use.kind == patternName && slices.Contains(knownFamilies, use.name):
			p.Hint = "it is a family; name it under disable_families"
		}
		problems = append(problems, p)
	}
	return sorted(problems)
}

// didYouMean returns a hint for a misspelt word: the nearest of the choices
// within two letters, else one that the word begins or that begins the word,
// else the place in the policy where a key of this name belongs. The object
// that lacks the key is left out of that search; nil turns it off.
func didYouMean(word string, choices []string, object *spec) string {
	best, least := "", 3
	lower := strings.ToLower(word)
	if len(word) <= 128 {
		for _, c := range choices {
			if d := distance(lower, c); d < least && d < len(c) {
				best, least = c, d
			}
		}
	}
	for _, c := range choices {
		if best == "" && len(word) > 1 && (strings.HasPrefix(c, lower) || len(c) > 2 && strings.HasPrefix(lower, c)) {
			best = c
		}
	}
	if best == "" && object != nil {
		best = keyPlace(lower, policy, object, "")
	}
	if best == "" {
		return ""
	}
	return "did you mean " + best + "?"
}

// keyPlace finds a key in another object of the policy, such as gate.mode.
func keyPlace(word string, s, not *spec, path string) string {
	if s.form != object {
		return ""
	}
	for _, k := range s.keys {
		if k.name == word && s != not {
			return path + k.name
		}
		if found := keyPlace(word, k.spec, not, path+k.name+"."); found != "" {
			return found
		}
	}
	return ""
}

// distance counts the letters to insert, remove or replace to get from a to b.
func distance(a, b string) int {
	last, now := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		now[0] = i + 1
		for j := range len(b) {
			step := last[j]
			if a[i] != b[j] {
				step++
			}
			now[j+1] = min(step, last[j+1]+1, now[j]+1)
		}
		last, now = now, last
	}
	return last[len(b)]
}
