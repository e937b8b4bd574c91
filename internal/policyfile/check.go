package policyfile

import (
	"fmt"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/strictyaml"
)

// checker compares the tree of a file with the table of keys and collects the
// problems.
type checker struct {
	problems []*Problem
	globs    int // so far, with the braces written out
}

// maxCollected bounds what is collected before it is sorted and cut.
const maxCollected = 1000

// add reports a problem at a node.
func (c *checker) add(n *node, reason, message, hint string) {
	if len(c.problems) < maxCollected {
		c.problems = append(c.problems, &Problem{n.Line, n.Column, reason, message, hint})
	}
}

// check compares one value with its spec.
func (c *checker) check(n *node, s *spec) {
	switch s.form {
	case object:
		if c.kind(n, mapping) {
			c.object(n, s)
		}
	case families:
		if c.kind(n, mapping) {
			c.families(n, s)
		}
	case listOf:
		c.list(n, s)
	default:
		c.scalar(n, s)
		return
	}
	if s.extra != nil {
		s.extra(c, n, s)
	}
}

// kind reports a value that is of the wrong kind.
func (c *checker) kind(n *node, want strictyaml.NodeKind) bool {
	if n.Kind == want {
		return true
	}
	hint := ""
	if n.Kind == nothing {
		hint = "remove the key or give it a value"
	} else if want == list {
		hint = "write it as a list, with a dash before each item"
	}
	c.add(n, BadType, fmt.Sprintf("expected %s, found %s", kindName(want), kindName(n.Kind)), hint)
	return false
}

// object checks the keys of a mapping against the table.
func (c *checker) object(n *node, s *spec) {
	n.known = map[string]*node{}
	for _, f := range n.fields {
		if next := s.find(f.key.Text); next != nil {
			n.known[f.key.Text] = f.value
			c.check(f.value, next)
			continue
		}
		c.add(f.key, UnknownKey, "unknown key "+clip(f.key.Text), didYouMean(f.key.Text, s.keyNames(), s))
	}
	for _, k := range s.keys {
		if k.required && n.known[k.name] == nil {
			c.add(n, BadValue, fmt.Sprintf("the key %q is missing", k.name), k.missing)
		}
	}
	for _, k := range s.anyOf {
		if n.known[k] != nil {
			return
		}
	}
	if len(s.anyOf) > 0 {
		c.add(n, BadValue, fmt.Sprintf("one of the keys %s is missing", strings.Join(s.anyOf, " and ")), "say what the exception is for")
	}
}

// families checks a mapping whose keys are names of families.
func (c *checker) families(n *node, s *spec) {
	n.known = map[string]*node{}
	for _, f := range n.fields {
		c.scalar(f.key, &spec{form: name})
		n.known[f.key.Text] = f.value
		c.check(f.value, s.item)
	}
}

// list checks every item of a list.
func (c *checker) list(n *node, s *spec) {
	if !c.kind(n, list) {
		return
	}
	if len(n.items) < s.atLeast {
		c.add(n, BadValue, "the list is empty", "remove the key or give it an item")
	}
	for i, item := range n.items {
		if i == MaxItems {
			c.add(item, TooLarge, fmt.Sprintf("the list has more than %d items", MaxItems), "write globs that cover more")
			return
		}
		c.check(item, s.item)
	}
}

// checkPatterns counts the added rules and their keywords, adds up what their
// expressions cost and compares their names.
func checkPatterns(c *checker, n *node, _ *spec) {
	first := map[string]int{}
	count, words, sum := 0, 0, 0
	for _, f := range n.fields {
		for _, item := range f.value.items {
			if count++; count == MaxPatterns+1 {
				c.add(item, TooLarge, fmt.Sprintf("more than %d patterns", MaxPatterns), "")
			}
			if regex := item.known["regex"]; regex != nil && regex.value != nil && sum <= maxRegexCost {
				if sum += costOf(regex.Text); sum > maxRegexCost {
					c.add(regex, TooLarge, "the expressions up to this one are too large together when their repeats are written out", smallerRepeats+", or fewer patterns")
				}
			}
			if list := item.known["keywords"]; list != nil && words <= MaxKeywords {
				if words += len(list.items); words > MaxKeywords {
					c.add(list, TooLarge, fmt.Sprintf("more than %d keywords in all", MaxKeywords), "give the rules fewer keywords")
				}
			}
			id := item.known["name"]
			if id == nil || id.value == nil {
				continue
			}
			if line, again := first[id.Text]; again {
				c.add(id, BadValue, fmt.Sprintf("the name %q is given twice", id.Text), fmt.Sprintf("first given on line %d", line))
				continue
			}
			first[id.Text] = id.Line
		}
	}
}

// checkThresholds compares the thresholds with each other; what is not given
// has its default. The problem is at the later one of the two in the file.
func checkThresholds(c *checker, n *node, s *spec) {
	order := []string{"low", "medium", "high"}
	for i := range order[1:] {
		small, large := n.known[order[i]], n.known[order[i+1]]
		if small != nil && small.value == nil || large != nil && large.value == nil || small == nil && large == nil {
			continue
		}
		a, b := scoreOf(small, s.find(order[i])), scoreOf(large, s.find(order[i+1]))
		if a < b {
			continue
		}
		at := large
		if large == nil || small != nil && (small.Line > large.Line || small.Line == large.Line && small.Column > large.Column) {
			at = small
		}
		hint := "low < medium < high"
		if small == nil {
			hint = fmt.Sprintf("%s is %g by default", order[i], a)
		} else if large == nil {
			hint = fmt.Sprintf("%s is %g by default", order[i+1], b)
		}
		c.add(at, BadThresholds, fmt.Sprintf("%s (%g) must be below %s (%g)", order[i], a, order[i+1], b), hint)
	}
}

// scoreOf returns the threshold that is given, else the default.
func scoreOf(n *node, s *spec) float64 {
	if n != nil {
		return n.value.(float64)
	}
	return s.def.(float64)
}
