package protect

import (
	"strings"
	"sync"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// Rule is one row of the table.
type Rule struct {
	Pattern string // at any depth, in any letter case
	Answer  Answer
	Class   Class
	Since   int
	Scripts bool // only when the member scripts of the JSON changed
}

// Reason describes the effect of the files of the rule.
func (r Rule) Reason() string { return Reasons[r.Class] }

// Rules returns the table in its order, which is the order of precedence.
func Rules() []Rule {
	var list []Rule
	for _, g := range table {
		for _, p := range g.patterns {
			list = append(list, Rule{Pattern: p, Answer: g.answer, Class: g.class, Since: g.since, Scripts: g.scripts})
		}
	}
	return list
}

// Match returns the first rule that applies to a path. A commit matches every path, so
// the rules are looked up by the names in it.
func Match(path string) (Rule, bool) { return match(path, false) }

// MatchLink is Match for a symbolic link, to which the rules for the content of a
// directory of its name also apply.
func MatchLink(path string) (Rule, bool) { return match(path, true) }

func match(path string, link bool) (Rule, bool) {
	ix := made()
	best := -1
	take := func(n int) {
		if best < 0 || n < best {
			best = n
		}
	}
	names := strings.Split(path, "/")
	for i := range names {
		names[i] = relpath.Fold(names[i])
	}
	name, rest := "", strings.Join(names, "/")
	for more := true; more; {
		name, rest, more = strings.Cut(rest, "/")
		for _, e := range ix.first[name] {
			within := link && e.rest != "" && (rest == "" || strings.HasPrefix(e.rest, rest+"/"))
			if within || e.rest == rest || e.rest != "" && rest != "" && doublestar.MatchUnvalidated(e.rest, rest) {
				take(e.rule)
			}
		}
	}
	for _, e := range ix.endings {
		if strings.HasSuffix(name, e.rest) {
			take(e.rule)
		}
	}
	if best < 0 {
		return Rule{}, false
	}
	return ix.rules[best], true
}

// index finds the rules by the first name of their patterns.
type index struct {
	rules   []Rule
	first   map[string][]entry
	endings []entry
}

// entry is an alternative of a pattern: what follows its first name, or the
// ending of a name.
type entry struct {
	rest string
	rule int
}

var made = sync.OnceValue(func() *index {
	ix := &index{rules: Rules(), first: map[string][]entry{}}
	for n, r := range ix.rules {
		for _, p := range alternatives(strings.ToLower(r.Pattern)) {
			if ending, ok := strings.CutPrefix(p, "*"); ok {
				ix.endings = append(ix.endings, entry{ending, n})
				continue
			}
			name, rest, _ := strings.Cut(p, "/")
			ix.first[name] = append(ix.first[name], entry{rest, n})
		}
	}
	return ix
})

// alternatives resolves the braces of a pattern, which are not nested.
func alternatives(p string) []string {
	open := strings.IndexByte(p, '{')
	if open < 0 {
		return []string{p}
	}
	end := open + strings.IndexByte(p[open:], '}')
	var list []string
	for _, choice := range strings.Split(p[open+1:end], ",") {
		list = append(list, alternatives(p[:open]+choice+p[end+1:])...)
	}
	return list
}
