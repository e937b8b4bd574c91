package policyfile

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

const (
	maxGlob         = 1000 // bytes
	maxAlternatives = 256  // globs that the braces of one glob can expand to
	maxGlobs        = 2000 // of a file, braces written out: each path of a call may meet all of them
	maxRegexCost    = 2000 // instructions of all expressions, roughly: each byte of a text may meet all of them
)

var (
	sets   = regexp.MustCompile(`\[[!^]?([^\]]*)`)
	ranges = regexp.MustCompile(`(.)-(.)`)
)

const smallerRepeats = "use smaller repeat counts"

// checkRegex checks an expression of RE2.
func checkRegex(s string) *problem {
	if len(s) > MaxRegex {
		return &problem{BadRegex, fmt.Sprintf("the expression has %d bytes; at most %d are allowed", len(s), MaxRegex), ""}
	}
	tree, err := syntax.Parse(s, syntax.Perl)
	if err != nil {
		hint := ""
		if e, ok := err.(*syntax.Error); ok && (e.Code == syntax.ErrInvalidPerlOp || e.Code == syntax.ErrInvalidEscape) {
			hint = "expressions are those of RE2, without look-around and back-references"
		}
		return &problem{BadRegex, strings.TrimPrefix(err.Error(), "error parsing regexp: "), hint}
	}
	if cost(tree) > maxRegexCost {
		return &problem{BadRegex, "the expression is too large when its repeats are written out", smallerRepeats}
	}
	prog, err := syntax.Compile(tree.Simplify())
	if err != nil {
		return &problem{BadRegex, err.Error(), ""}
	}
	if canBeEmpty(prog) {
		return &problem{BadRegex, "the expression matches the empty string", "use + instead of *, or add what must be there"}
	}
	return nil
}

// cost estimates the number of instructions of an expression.
func cost(re *syntax.Regexp) int {
	sum := 1 + len(re.Rune)/8
	for _, sub := range re.Sub {
		sum += cost(sub)
	}
	if re.Op == syntax.OpRepeat {
		sum *= max(re.Min, re.Max, 1)
	}
	return min(sum, 1<<20) // which is too much, and times the largest repetition fits into 32 bits
}

// canBeEmpty reports whether an expression can match at some place without
// taking a character, such as \b or a*.
func canBeEmpty(prog *syntax.Prog) bool {
	seen := make([]bool, len(prog.Inst))
	for todo := []uint32{uint32(prog.Start)}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[at] {
			continue
		}
		seen[at] = true
		switch inst := prog.Inst[at]; inst.Op {
		case syntax.InstMatch:
			return true
		case syntax.InstAlt, syntax.InstAltMatch:
			todo = append(todo, inst.Out, inst.Arg)
		case syntax.InstCapture, syntax.InstEmptyWidth, syntax.InstNop:
			todo = append(todo, inst.Out)
		}
	}
	return false
}

// GlobTooLarge reports whether matching a glob could take long: a glob with braces
// counts as all globs that they expand to.
func GlobTooLarge(s string) bool { return len(s) > maxGlob || alternatives(s) > maxAlternatives }

// Covers reports whether one of the globs matches a path or a directory above it,
// in any letter case, because the file system may fold names.
func Covers(globs []string, path string) bool {
	key := relpath.Key(path)
	return slices.ContainsFunc(globs, func(glob string) bool { return !GlobTooLarge(glob) && within(relpath.Key(glob), key) })
}

// Within reports whether one of the globs matches a path or a directory above it.
func Within(globs []string, path string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool { return within(glob, path) })
}

func within(glob, path string) bool { return Match(glob, path) || Match(glob+"/**", path) }

// Match reports whether a glob matches a path. Its braces are written out, because the
// library does not match "a" with "a*{,x}".
func Match(glob, path string) bool {
	return slices.ContainsFunc(expand(glob), func(g string) bool { return doublestar.MatchUnvalidated(g, path) })
}

// badGlob checks a glob of paths, and returns what is wrong. Forms that are legal but can match no path of a
// store, or not what they seem to, are refused as well: they would silently leave a
// path unprotected.
func badGlob(s string) (message, hint string) {
	switch {
	case len(s) > maxGlob:
		return fmt.Sprintf("the glob has %d bytes; at most %d are allowed", len(s), maxGlob), ""
	case strings.TrimSpace(s) != s:
		return "the glob begins or ends with a space", ""
	case strings.Contains(s, `\`):
		return `a glob must not hold \`, "separate names with /, and write [*] for a star itself"
	case strings.HasPrefix(s, "/") || len(s) > 1 && s[1] == ':':
		return "a glob must be relative to the store", "leave out what precedes the first name"
	case strings.HasPrefix(s, "!"):
		return "a glob cannot be negated", "leave out the !"
	case strings.HasSuffix(s, "/"):
		return "a glob that ends with / matches nothing", "did you mean " + s + "**?"
	case !doublestar.ValidatePattern(s):
		return "the glob " + clip(s) + " is not valid", "close every [ and {"
	case alternatives(s) > maxAlternatives:
		return "the braces of the glob expand to too many globs", "write more than one glob"
	}
	return badSegment(s)
}

// badSegment checks the names of a glob between the slashes.
func badSegment(s string) (message, hint string) {
	for _, set := range sets.FindAllStringSubmatch(s, -1) {
		if strings.ContainsAny(set[1], "/{},") {
			return "a set in brackets must not hold any of / { } ,", "write {a,b} for a choice"
		}
		for _, r := range ranges.FindAllStringSubmatch(relpath.Key(set[1]), -1) {
			if r[1] > r[2] {
				return "the range " + clip(r[0]) + " matches nothing, in lower case as it is compared", "begin a range with its lowest character"
			}
		}
	}
	for _, glob := range expand(s) {
		for part := range strings.SplitSeq(glob, "/") {
			switch {
			case part == "":
				return "a glob must not hold an empty name", "leave out one /"
			case part == "." || part == "..":
				return "a glob must not hold " + part, "paths of a store have no " + part
			case strings.Contains(part, "**") && part != "**":
				one := strings.ReplaceAll(strings.ReplaceAll(part, "***", "*"), "**", "*")
				return "** must be alone between slashes", "did you mean **/" + one + "?"
			}
		}
	}
	return "", ""
}

// expand writes out the braces of a glob, unless it holds some that are no choice.
func expand(s string) []string {
	start := strings.IndexByte(s, '{')
	if start < 0 || strings.Contains(s, `\`) || slices.ContainsFunc(sets.FindAllString(s, -1), func(set string) bool { return strings.ContainsAny(set, "{},") }) {
		return []string{s}
	}
	depth, from := 0, start+1
	var choices, out []string
	for i := start; i < len(s); i++ {
		switch {
		case s[i] == '{':
			depth++
		case s[i] == ',' && depth == 1:
			choices, from = append(choices, s[from:i]), i+1
		case s[i] == '}':
			if depth--; depth > 0 {
				continue
			}
			for _, choice := range append(choices, s[from:i]) {
				out = append(out, expand(s[:start]+choice+s[i+1:])...)
			}
			return out
		}
	}
	return []string{s}
}

// alternatives bounds the number of globs that the braces of a glob expand to.
func alternatives(s string) int {
	total := 1
	var open []int
	for _, r := range s {
		switch n := len(open); {
		case r == '{':
			open = append(open, 1)
		case r == ',' && n > 0:
			open[n-1]++
		case r == '}' && n > 0:
			total = min(total*open[n-1], 1<<20)
			open = open[:n-1]
		}
	}
	return total
}
