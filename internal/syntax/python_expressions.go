package syntax

var (
	// pyValueKeywords are the keywords that a value can start with.
	pyValueKeywords = nameSet("None True False lambda not await")
	// pyStarters are the keywords that only a statement can start with.
	pyStarters = nameSet("assert break class continue def del elif except finally global import nonlocal pass raise return try while with")
	// pyConstants are the keywords that are values.
	pyConstants = nameSet("None True False")
	// pyAugmented are the operators that assign.
	pyAugmented = nameSet("+= -= *= /= //= %= @= &= |= ^= >>= <<= **=")
	// pyDangling are the operators that need a value to their right, in every
	// place where they can stand.
	pyDangling = nameSet(`+ - // % << >> & | ^ ~ == != < > <= >= = := -> and or not is
		+= -= *= /= //= %= @= &= |= ^= >>= <<= **= import from as global nonlocal del assert in for`)
	// pyBinary are the operators that need a value to their left as well, in
	// every place where they can stand.
	pyBinary = nameSet(`// % << >> & | ^ == != < > <= >= = := and or is
		+= -= *= /= //= %= @= &= |= ^= >>= <<= **=`)
)

// neighbours checks each pair of tokens that follow each other: two values with
// nothing between them, and an operator without a value to its right.
func (c *pyChecker) neighbours(line []pyToken) {
	for i, tk := range line {
		if i+1 == len(line) {
			star := (c.is(tk, "*") || c.is(tk, "**") || c.is(tk, "@")) && !c.is(line[0], "from")
			if tk.kind != pyString && (pyDangling[c.word(tk)] || star || c.is(tk, ".")) {
				c.fail(tk.end, "a value is missing after %q", c.word(tk))
			}
			return
		}
		next := line[i+1]
		switch {
		case next.kind == pyKeyword && pyStarters[c.word(next)] && (tk.depth > 0 || !c.is(tk, ";") && !c.is(tk, ":") && !c.is(tk, "async")) && !(c.is(next, "import") && c.is(line[0], "from")):
			c.fail(next.start, "%q cannot stand inside a statement", c.word(next))
			return
		case c.endsValue(tk) && c.startsValue(next) && !(tk.kind == pyString && next.kind == pyString):
			if i == 0 && tk.kind == pyName && c.softKeyword(tk) {
				continue
			}
			c.fail(next.start, "an operator or a comma is missing between %s and %s", c.shown(tk), c.shown(next))
			return
		case c.is(tk, "[") && c.is(next, "]") && i > 0 && c.endsValue(line[i-1]), c.is(tk, ":") && c.is(next, "}"):
			c.fail(next.start, "a value is missing before %q", c.word(next))
			return
		case c.is(tk, ".") && next.kind != pyName && !(i > 0 && c.relative(line[i-1]) && (c.is(next, "import") || c.relative(next))):
			c.fail(next.start, "a name is missing after '.'")
			return
		case tk.kind == pyString || next.kind == pyString, c.is(tk, "from") && c.relative(next):
		case pyDangling[c.word(tk)] && c.cannotStart(next) && !(c.is(tk, "not") && c.is(next, "in")):
			c.fail(next.start, "a value is missing between %q and %q", c.word(tk), c.word(next))
			return
		case (c.is(tk, ",") || c.is(tk, "(") || c.is(tk, "[") || c.is(tk, "{")) && tk.kind == pyOp && c.is(next, ","):
			c.fail(next.start, "a value is missing before ','")
			return
		}
	}
}

// relative reports whether a token is one of those before the name of a module
// in a relative import.
func (c *pyChecker) relative(tk pyToken) bool {
	return c.is(tk, "from") || c.is(tk, ".") || c.is(tk, "...")
}

// softKeyword reports whether a name at the start of a line may be a keyword
// there.
func (c *pyChecker) softKeyword(tk pyToken) bool {
	return c.is(tk, "match") || c.is(tk, "case") || c.is(tk, "type")
}

func (c *pyChecker) shown(tk pyToken) string { return quoted(c.src[tk.start:tk.end]) }

func (c *pyChecker) endsValue(tk pyToken) bool {
	switch tk.kind {
	case pyOp:
		// Three dots are left out, since they may belong to a relative import.
		return c.is(tk, ")") || c.is(tk, "]") || c.is(tk, "}")
	case pyKeyword:
		return pyConstants[c.word(tk)]
	}
	return true
}

func (c *pyChecker) startsValue(tk pyToken) bool {
	switch tk.kind {
	case pyOp:
		return c.is(tk, "{") || c.is(tk, "~")
	case pyKeyword:
		word := c.word(tk)
		return pyConstants[word] || word == "lambda" || word == "await"
	}
	return true
}

// cannotStart reports whether no value starts with tk.
func (c *pyChecker) cannotStart(tk pyToken) bool {
	word := c.word(tk)
	if tk.kind == pyKeyword {
		return pyBinary[word] || word == "if" || word == "else" || word == "for" || word == "in" || word == "import"
	}
	if tk.kind != pyOp {
		return false
	}
	switch word {
	case ")", "]", "}", ",", ":", ";", "/", ".", "->":
		return true
	}
	return pyBinary[word]
}

// assignment checks what stands to the left of the assignment operators of a
// statement. A colon starts an annotation, which may hold anything.
func (c *pyChecker) assignment(tokens []pyToken) {
	lambdas, start := 0, 0
	for i, tk := range tokens {
		if tk.depth > 0 || tk.kind == pyName || tk.kind == pyNumber || tk.kind == pyString {
			continue
		}
		switch word := c.word(tk); {
		case word == "lambda":
			lambdas++
		case word == ":" && lambdas > 0:
			lambdas--
		case word == ":":
			c.target(tokens[start:i], tk)
			return
		case lambdas > 0:
			// A default value of a parameter.
		case pyAugmented[word]:
			c.target(tokens[start:i], tk)
			return
		case word == "=":
			c.target(tokens[start:i], tk)
			start = i + 1
		}
	}
}

// target checks one target of an assignment.
func (c *pyChecker) target(tokens []pyToken, op pyToken) {
	if len(tokens) == 0 {
		c.t.errorAt(op.start, "nothing stands before %q to assign to", c.word(op))
		return
	}
	start := 0
	for i := 0; i <= len(tokens); i++ {
		if i < len(tokens) && !(tokens[i].depth == tokens[0].depth && tokens[i].kind == pyOp && c.is(tokens[i], ",")) {
			continue
		}
		if i > start {
			if what := c.unassignable(tokens[start:i]); what != "" {
				c.t.errorAt(tokens[start].start, "cannot assign to %s", what)
				return
			}
		}
		start = i + 1
	}
}

// unassignable names what makes it impossible to assign to an expression, or
// returns "".
func (c *pyChecker) unassignable(tokens []pyToken) string {
	for len(tokens) > 1 && c.is(tokens[0], "*") {
		tokens = tokens[1:]
	}
	first, last := tokens[0], tokens[len(tokens)-1]
	if len(tokens) == 1 {
		switch {
		case first.kind == pyNumber, first.kind == pyString:
			return "the literal " + c.shown(first)
		case first.kind == pyKeyword && pyConstants[c.word(first)]:
			return c.word(first)
		case first.kind == pyKeyword:
			return "the keyword " + c.word(first)
		}
		return ""
	}
	opener := -1
	for i, tk := range tokens {
		if tk.depth != first.depth || tk.kind == pyName || tk.kind == pyString || tk.kind == pyNumber {
			continue
		}
		switch word := c.word(tk); word {
		case ".", ")", "]", "}", ",", "None", "True", "False", "...":
		case "(", "[", "{":
			opener = i
		case ":=":
			return "an assignment expression"
		default:
			return "an expression with " + c.shown(tk)
		}
	}
	if last.kind == pyOp && c.is(last, ")") && opener > 0 {
		return "the result of a call"
	}
	return ""
}
