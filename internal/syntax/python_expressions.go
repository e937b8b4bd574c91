package syntax

var (
	// pyValueKeywords are the keywords that a value can start with.
	pyValueKeywords = nameSet("None True False lambda not await")
	// pyStarters are the keywords that only a statement can start with.
	pyStarters = nameSet("assert break class continue def del elif except finally global import nonlocal pass raise return try while with")
	// pyAugmented are the operators that assign.
	pyAugmented = nameSet("+= -= *= /= //= %= @= &= |= ^= >>= <<= **=")
	// pyDangling are the tokens that need a value to their right, in every place
	// where they can occur.
	pyDangling = nameSet(`+ - // % << >> & | ^ ~ == != < > <= >= = := -> and or not is
		+= -= *= /= //= %= @= &= |= ^= >>= <<= **= import from as global nonlocal del assert in for`)
	// pyNoStart are the tokens that no value starts with.
	pyNoStart = nameSet(`// % << >> & | ^ == != < > <= >= = := and or is
		+= -= *= /= //= %= @= &= |= ^= >>= <<= **= ) ] } , : ; / . -> if else for in import`)
	pyConstants = nameSet("None True False")
	pyEnds      = nameSet(") ] } None True False")
	pyStarts    = nameSet("{ ~ None True False lambda await")
	pyBefore    = nameSet("from . ...") // the name of a module in a relative import
	pySoft      = nameSet("match case type")
	pyOpen      = nameSet("( [ {")
	// pyInTarget lists the tokens other than names that an assignment target may
	// contain.
	pyInTarget = nameSet(". ) ] } , None True False ... ( [ {")
)

func (tk pyToken) value() bool { return tk.kind != pyOp && tk.kind != pyKeyword }

// neighbours checks each pair of tokens that follow each other: two values with
// nothing between them, and an operator without a value to its right.
func (c *pyChecker) neighbours(line []pyToken) {
	from := line[0].text == "from"
	for i, tk := range line[:len(line)-1] {
		next := line[i+1]
		var before pyToken
		if i > 0 {
			before = line[i-1]
		}
		starter := next.kind == pyKeyword && pyStarters[next.text] && !(next.text == "import" && from)
		relative := pyBefore[tk.text] && (pyBefore[next.text] || next.text == "import" && tk.text != "from") && (tk.text == "from" || pyBefore[before.text])
		switch {
		case starter && (tk.depth > 0 || tk.text != ";" && tk.text != ":" && tk.text != "async"):
			c.fail(next.start, "%q is not allowed inside a statement", next.text)
		case (tk.value() || pyEnds[tk.text]) && (next.value() || pyStarts[next.text]) && (tk.kind != pyString || next.kind != pyString):
			if i == 0 && pySoft[tk.text] {
				continue
			}
			c.fail(next.start, "an operator or a comma is missing between %s and %s", c.shown(tk), c.shown(next))
		case tk.text == "[" && next.text == "]" && (before.end > 0 && before.value() || pyEnds[before.text]), tk.text == ":" && next.text == "}":
			c.fail(next.start, "a value is missing before %q", next.text)
		case relative:
			continue
		case tk.text == "." && next.kind != pyName:
			c.fail(next.start, "a name is missing after '.'")
		case pyDangling[tk.text] && pyNoStart[next.text] && !(tk.text == "not" && next.text == "in"):
			c.fail(next.start, "a value is missing between %q and %q", tk.text, next.text)
		case (tk.text == "," || pyOpen[tk.text]) && next.text == ",":
			c.fail(next.start, "a value is missing before ','")
		default:
			continue
		}
		return
	}
	last := line[len(line)-1]
	star := (last.text == "*" || last.text == "**" || last.text == "@") && !from
	if pyDangling[last.text] || star || last.text == "." {
		c.fail(last.end, "a value is missing after %q", last.text)
	}
}

func (c *pyChecker) shown(tk pyToken) string { return quoted(c.src[tk.start:tk.end]) }

// assignment checks the targets of the assignment operators of a statement. A colon
// starts an annotation, which may hold anything.
func (c *pyChecker) assignment(tokens []pyToken) {
	start := 0
	for i, tk := range tokens {
		switch {
		case tk.depth > 0:
		case tk.text == "lambda":
			return
		case tk.text == "=" || tk.text == ":" || pyAugmented[tk.text]:
			if i == start {
				c.t.errorAt(tk.start, "nothing precedes %q to assign to", tk.text)
			} else if what, at := c.unassignable(tokens[start:i]); what != "" {
				c.t.errorAt(at, "cannot assign to %s", what)
			}
			if tk.text != "=" {
				return
			}
			start = i + 1
		}
	}
}

// unassignable names the first part of a target that nothing can be assigned to,
// or returns "".
func (c *pyChecker) unassignable(tokens []pyToken) (what string, at int) {
	first, opener := 0, -1
	for i, tk := range tokens {
		if tk.depth > 0 {
			continue
		}
		last := i+1 == len(tokens) || tokens[i+1].depth == 0 && tokens[i+1].text == ","
		at = tokens[first].start
		switch alone := i == first && last; {
		case tk.text == ",", tk.text == "*" && i == first:
			first = i + 1
		case alone && pyConstants[tk.text]:
			return tk.text, at
		case alone && tk.kind == pyKeyword:
			return "the keyword " + tk.text, at
		case alone && (tk.kind == pyNumber || tk.kind == pyString):
			return "the literal " + c.shown(tk), at
		case tk.text == ":=":
			return "an assignment expression", at
		case !tk.value() && !pyInTarget[tk.text]:
			return "an expression with " + c.shown(tk), at
		case last && tk.text == ")" && opener > first:
			return "the result of a call", at
		case pyOpen[tk.text]:
			opener = i
		}
	}
	return "", 0
}
