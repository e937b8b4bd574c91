package syntax

var (
	// pyPrefixes are the operators that stand before a value.
	pyPrefixes = nameSet("+ - ~ not await")
	// pyInfixes are the operators that stand between two values.
	pyInfixes = nameSet("+ - * / // % @ ** << >> & | ^ == != < > <= >= := and or is in")
)

// pyLimits says what an expression cannot hold, because it would belong to what
// is around it.
type pyLimits struct {
	in, choice bool // the operator "in", and "if" with its "else"
}

// pyGrammar reads the tokens of one statement by the grammar of the language. It
// accepts a little more than that: how tightly operators bind does not matter to
// it. It stops at the first mistake.
type pyGrammar struct {
	c      *pyChecker
	line   []pyToken
	next   int
	as     bool // a value may be followed by "as" and a name, in brackets too
	failed bool
}

func (g *pyGrammar) done() bool { return g.failed || g.next == len(g.line) }

// is reports whether the next token is the given keyword, operator or name.
func (g *pyGrammar) is(word string) bool { return g.isAt(g.next, word) }

func (g *pyGrammar) isAt(i int, word string) bool {
	return i < len(g.line) && g.c.is(g.line[i], word)
}

// take passes the next token if it is the given word.
func (g *pyGrammar) take(word string) bool {
	if !g.is(word) {
		return false
	}
	g.pass()
	return true
}

// takeOf passes the next token if it is a keyword or operator of a set.
func (g *pyGrammar) takeOf(set map[string]bool) bool {
	if g.next == len(g.line) {
		return false
	}
	tk := g.line[g.next]
	if tk.kind != pyOp && tk.kind != pyKeyword || !set[string(g.c.src[tk.start:tk.end])] {
		return false
	}
	g.pass()
	return true
}

func (g *pyGrammar) pass() {
	g.next++
	g.c.t.looked(1)
}

// unexpected reports that the next token cannot stand where it does.
func (g *pyGrammar) unexpected(wanted string) {
	if g.failed {
		return
	}
	g.failed = true
	if g.next == len(g.line) {
		g.c.t.errorAt(g.line[len(g.line)-1].end, "%s is expected at the end of the statement", wanted)
		return
	}
	tk := g.line[g.next]
	g.c.t.errorAt(tk.start, "%s is expected, found %s", wanted, g.c.shown(tk))
}

func (g *pyGrammar) expect(word string) bool {
	if g.failed || g.take(word) {
		return !g.failed
	}
	g.unexpected("'" + word + "'")
	return false
}

// name reads a name that is no keyword.
func (g *pyGrammar) name() {
	if g.next < len(g.line) && g.line[g.next].kind == pyName {
		g.pass()
		return
	}
	g.unexpected("a name")
}

// value reads an expression.
func (g *pyGrammar) value(without pyLimits) {
	choices := 0
	for !g.failed {
		for g.takeOf(pyPrefixes) {
		}
		if g.take("lambda") {
			g.parameters(":", false)
			g.expect(":")
			continue
		}
		if g.take("yield") {
			if !g.take("from") && g.listEnds() {
				break
			}
			continue
		}
		g.operand()
		switch {
		case g.failed:
		case without.in && g.is("in"):
		case g.takeOf(pyInfixes):
			continue
		case g.is("not") && g.isAt(g.next+1, "in"):
			g.next += 2
			continue
		case !without.choice && g.take("if"):
			choices++
			continue
		case choices > 0 && g.take("else"):
			choices--
			continue
		}
		break
	}
	if choices > 0 && !g.failed {
		g.unexpected("'else'")
	}
}

// operand reads a single value with what is attached to it.
func (g *pyGrammar) operand() {
	if g.next == len(g.line) {
		g.unexpected("a value")
		return
	}
	switch tk := g.line[g.next]; {
	case tk.kind == pyString:
		for g.next < len(g.line) && g.line[g.next].kind == pyString {
			g.pass()
		}
	case tk.kind == pyName, tk.kind == pyNumber, g.c.is(tk, "..."), tk.kind == pyKeyword && pyConstants[g.c.word(tk)]:
		g.pass()
	case g.take("("):
		g.entries(")", "")
	case g.take("["):
		g.entries("]", "")
	case g.take("{"):
		g.braces()
	default:
		g.unexpected("a value")
		return
	}
	for !g.failed {
		switch {
		case g.take("."):
			g.name()
		case g.take("("):
			g.entries(")", "=")
		case g.take("["):
			if g.is("]") {
				g.unexpected("a value")
			}
			g.entries("]", ":")
		default:
			return
		}
	}
}

// entries reads what is in a pair of brackets. Between those of a call an entry
// can be a name with "=", and between those of an index it can be a slice.
func (g *pyGrammar) entries(closing, joint string) {
	for !g.failed && !g.take(closing) {
		if joint == ":" && g.is(":") {
			g.slice()
		} else {
			if !g.take("*") && joint == "=" {
				g.take("**")
			}
			g.value(pyLimits{})
			g.alias()
			switch {
			case joint == ":":
				g.slice()
			case joint == "=" && g.take("="):
				g.value(pyLimits{})
			}
			if g.comprehension() && closing == "]" {
				g.expect(closing)
				return
			}
		}
		g.comma(closing)
	}
}

// comma reads the comma between two entries.
func (g *pyGrammar) comma(closing string) {
	if !g.failed && !g.is(closing) && !g.take(",") {
		g.unexpected("',' or '" + closing + "'")
	}
}

// slice reads the rest of a slice after its first value.
func (g *pyGrammar) slice() {
	for parts := 0; parts < 2 && g.take(":"); parts++ {
		if !g.is(":") && !g.is(",") && !g.is("]") {
			g.value(pyLimits{})
		}
	}
}

// braces reads a set or a dictionary. The first entry decides which it is.
func (g *pyGrammar) braces() {
	dictionary, known := false, false
	for !g.failed && !g.take("}") {
		start, pair := g.next, g.take("**")
		star := !pair && g.take("*")
		g.value(pyLimits{})
		g.alias()
		if !pair && !star && g.take(":") {
			pair = true
			g.value(pyLimits{})
			g.alias()
		}
		switch {
		case g.failed:
			return
		case !known:
			dictionary, known = pair, true
		case dictionary && !pair:
			g.unexpected("':'")
		case !dictionary && pair:
			g.failed = true
			g.c.t.errorAt(g.line[start].start, "a pair of key and value among the values of a set")
		}
		if g.comprehension() {
			g.expect("}")
			return
		}
		g.comma("}")
	}
}

// comprehension reads the "for" and "if" parts behind an entry, if any.
func (g *pyGrammar) comprehension() bool {
	found := false
	for !g.failed && (g.is("for") || g.is("async") && g.isAt(g.next+1, "for")) {
		found = true
		g.take("async")
		g.pass()
		g.list(pyLimits{in: true})
		g.expect("in")
		g.value(pyLimits{choice: true})
		for !g.failed && g.take("if") {
			g.value(pyLimits{choice: true})
		}
	}
	return found
}

// alias reads "as" and what follows, where that is allowed.
func (g *pyGrammar) alias() {
	if g.as && !g.failed && g.take("as") {
		g.value(pyLimits{choice: true})
	}
}

// list reads values with commas between them, perhaps one behind the last.
func (g *pyGrammar) list(without pyLimits) {
	for !g.failed {
		g.take("*")
		g.value(without)
		g.alias()
		if g.failed || !g.take(",") || g.listEnds() {
			return
		}
	}
}

// listEnds reports whether the next token cannot start a value because it ends
// the list of values at hand.
func (g *pyGrammar) listEnds() bool {
	if g.next == len(g.line) {
		return true
	}
	tk := g.line[g.next]
	if tk.kind != pyOp {
		return g.c.is(tk, "in") && tk.kind == pyKeyword
	}
	switch word := g.c.word(tk); word {
	case ")", "]", "}", "=", ":", ",":
		return true
	default:
		return pyAugmented[word]
	}
}

// parameters reads the parameters of a function or lambda up to what ends them.
func (g *pyGrammar) parameters(closing string, annotated bool) {
	for !g.failed && !g.is(closing) {
		if !g.take("/") {
			single := g.take("*")
			double := !single && g.take("**")
			if !single || !g.is(",") {
				g.name()
				if annotated && g.take(":") {
					g.take("*")
					g.value(pyLimits{})
				}
				if !single && !double && g.take("=") {
					g.value(pyLimits{})
				}
			}
		}
		if g.failed || !g.take(",") {
			return
		}
	}
}
