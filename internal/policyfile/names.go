package policyfile

import (
	"fmt"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// nameKind is the required form of a name in the file.
type nameKind int

const (
	familyName  nameKind = iota + 1
	patternName          // of a rule
	eitherName           // of a rule or of a family
	addedName            // of a rule that the file adds
)

// nameKinds are the values of the tag use.
var nameKinds = map[string]nameKind{"family": familyName, "pattern": patternName, "either": eitherName, "added": addedName}

// nameUse is a name and its place in the file.
type nameUse struct {
	name string
	kind nameKind
	at   *node
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
		p := &Problem{Line: use.at.Line, Column: use.at.Column, Reason: BadValue}
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
		p.Message = fmt.Sprintf("unknown %s %q", what, use.name)
		hint := ""
		switch {
		case use.kind == familyName && slices.Contains(knownPatterns, use.name):
			hint = "it is a pattern; name it under disable_patterns"
		case use.kind == patternName && slices.Contains(knownFamilies, use.name):
			hint = "it is a family; name it under disable_families"
		}
		p.Hint = didYouMean(use.name, known, hint)
		problems = append(problems, p)
	}
	return sorted(problems)
}

// didYouMean returns a hint for a misspelt word: the nearest of the choices, otherwise
// one that the word begins or that begins the word, otherwise the given text.
func didYouMean(word string, choices []string, otherwise string) string {
	best, lower := schema.Closest(word, choices), strings.ToLower(word)
	for _, c := range choices {
		if best == "" && len(word) > 1 && (strings.HasPrefix(c, lower) || len(c) > 2 && strings.HasPrefix(lower, c)) {
			best = c
		}
	}
	if best == "" {
		return otherwise
	}
	return "did you mean " + best + "?"
}

// unknownKey returns a hint for a key that an object does not have: one of its
// keys, else the place in the policy where a key of this name belongs.
func unknownKey(word string, s *spec) string {
	var names []string
	for _, k := range s.keys {
		names = append(names, k.name)
	}
	elsewhere := keyPlace(strings.ToLower(word), policy, s, "")
	if elsewhere != "" {
		elsewhere = "did you mean " + elsewhere + "?"
	}
	return didYouMean(word, names, elsewhere)
}

// keyPlace finds a key in another object of the policy, such as gate.mode.
func keyPlace(word string, s, not *spec, path string) string {
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
