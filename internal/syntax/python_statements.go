package syntax

import (
	"bytes"
	"regexp"
	"strings"
	"sync"
)

// maxPythonIndent is the number of indentation levels at which CPython stops.
const maxPythonIndent = 100

// pyOpener is a header whose block is still to come.
type pyOpener struct {
	keyword string
	offset  int
	doubted bool // the header is malformed, so the block may be missing as well
}

// pyLevel is one level of indentation.
type pyLevel struct {
	wide, narrow int    // its indentation, measured in two ways
	last         string // the clause its last statement began with; "" for a simple one
	lastAt       int
	function     bool // inside a function
	loop         bool // inside a loop of that function
	bare         bool // the current try has an except that takes everything
	match        bool // the cases of a match statement
}

// pyChecker checks the shape of the statements.
type pyChecker struct {
	*pyScanner
	levels    []pyLevel
	opener    *pyOpener
	decorator int // the offset of a decorator whose definition is to come, or -1
}

func inspectPython(t *text) {
	if at := bytes.IndexByte(t.src, 0); at >= 0 {
		t.errorAt(at, "a NUL byte, which no Python source may hold; write it as \\0 in a string")
		return
	}
	s := &pyScanner{t: t, src: string(t.src)}
	c := &pyChecker{pyScanner: s, levels: []pyLevel{{}}, decorator: -1}
	for {
		wide, narrow, ok := c.next()
		if !ok {
			break
		}
		at := s.pos
		if len(c.line) > 0 {
			at = c.line[0].start
		}
		if !c.indent(at, wide, narrow) {
			return
		}
		c.statement(c.line)
	}
	if c.stop {
		return
	}
	if c.opener != nil {
		c.missingBlock(len(t.src))
	}
	c.dedent(-1)
	if c.decorator >= 0 {
		t.errorAt(c.decorator, "a decorator must be followed by a function or class")
	}
}

func (c *pyChecker) top() *pyLevel { return &c.levels[len(c.levels)-1] }

func (c *pyChecker) missingBlock(at int) {
	if !c.opener.doubted {
		c.t.errorAt(at, "an indented block is expected after %q at line %d", c.opener.keyword, c.t.lineOf(c.opener.offset))
	}
	c.opener = nil
}

// indent compares the indentation of a line with that of the lines before it. It
// returns false if it makes no sense to go on.
func (c *pyChecker) indent(at, wide, narrow int) bool {
	top := c.top()
	if (wide > top.wide) != (narrow > top.narrow) && wide >= top.wide {
		c.t.errorAt(at, "tabs and spaces are mixed in the indentation in a way that depends on the width of a tab")
		narrow = top.narrow + wide - top.wide
	}
	if wide > top.wide {
		inner := pyLevel{wide: wide, narrow: narrow, function: top.function, loop: top.loop}
		if c.opener == nil {
			c.t.errorAt(at, "unexpected indentation")
		} else {
			inner = c.inside(c.opener.keyword)
			inner.wide, inner.narrow = wide, narrow
			c.opener = nil
		}
		if len(c.levels) == maxPythonIndent {
			c.t.errorAt(at, "indented deeper than %d levels; the rest is not checked", maxPythonIndent)
			return false
		}
		c.levels = append(c.levels, inner)
		return true
	}
	if c.opener != nil {
		c.missingBlock(at)
	}
	left := *top
	c.dedent(wide)
	switch top = c.top(); {
	case top.wide != wide:
		c.t.errorAt(at, "the indentation matches no outer level")
		left.wide, left.narrow, left.last = wide, narrow, ""
		c.levels = append(c.levels, left)
	case top.narrow != narrow:
		c.t.errorAt(at, "tabs and spaces are mixed in the indentation in a way that depends on the width of a tab")
	}
	return true
}

// dedent leaves the levels that are indented further than wide.
func (c *pyChecker) dedent(wide int) {
	for {
		top := c.top()
		if top.wide <= wide {
			return
		}
		c.unfinishedTry(top)
		if len(c.levels) == 1 {
			return
		}
		c.levels = c.levels[:len(c.levels)-1]
	}
}

// unfinishedTry reports a try that ends a level or is followed by a statement
// that is no clause of it.
func (c *pyChecker) unfinishedTry(level *pyLevel) {
	if level.last == "try" {
		c.t.errorAt(level.lastAt, "this try has neither an except nor a finally")
	}
	level.last = ""
}

// inside returns the level of the block after a header at the current level.
func (c *pyChecker) inside(keyword string) pyLevel {
	inner := pyLevel{function: c.top().function, loop: c.top().loop}
	switch keyword {
	case "def":
		inner.function, inner.loop = true, false
	case "class":
		inner.function, inner.loop = false, false
	case "for", "while":
		inner.loop = true
	case "match":
		inner.match = true
	}
	return inner
}

// statement checks one logical line.
func (c *pyChecker) statement(line []pyToken) {
	if len(line) == 0 {
		return
	}
	c.t.looked(3 * len(line))
	if !c.broken {
		c.neighbours(line)
	}
	first, keyword := line[0], line[0].text
	if keyword == "async" && len(line) > 1 {
		keyword = line[1].text
		if keyword != "def" && keyword != "for" && keyword != "with" {
			c.t.errorAt(first.start, `"async" must be followed by def, for or with`)
			return
		}
		line = line[1:]
	}
	if c.decorator >= 0 && keyword != "def" && keyword != "class" && keyword != "@" {
		c.t.errorAt(c.decorator, "a decorator must be followed by a function or class")
		c.decorator = -1
	}
	switch {
	case keyword == "@":
		c.follow("", first.start)
		c.decorator = first.start
		return
	case pyHeaders[keyword] && line[0].kind == pyKeyword, c.softHeader(line, keyword):
		c.decorator = -1
		c.header(line, keyword, first.start)
		return
	}
	if c.top().match {
		c.t.errorAt(first.start, `only "case" is allowed directly inside a match statement`)
		// Once is enough for the block.
		c.top().match = false
	}
	c.follow("", first.start)
	c.simpleLine(line, *c.top())
}

var pyHeaders = nameSet("if elif else for while try except finally with def class")

// softHeader reports whether a line that starts with match or case, which are
// names elsewhere, is the header of such a block.
func (c *pyChecker) softHeader(line []pyToken, keyword string) bool {
	if len(line) < 2 || line[0].kind != pyName {
		return false
	}
	next := line[1]
	operand := next.kind != pyOp && (next.kind != pyKeyword || pyValueKeywords[next.text])
	switch keyword {
	case "match":
		last := line[len(line)-1]
		return last.text == ":" && last.depth == 0 && len(line) > 2 && next.text != ":" || operand
	case "case":
		return c.top().match || operand
	}
	return false
}

// pyFollows says which clauses each clause can follow.
var pyFollows = map[string]map[string]bool{
	"elif":    nameSet("if elif"),
	"else":    nameSet("if elif for while except"),
	"except":  nameSet("try except"),
	"finally": nameSet("try except try-else"),
}

// follow enters a clause or simple statement at the current level.
func (c *pyChecker) follow(keyword string, at int) {
	top := c.top()
	allowed, dependent := pyFollows[keyword]
	switch {
	case !dependent:
		c.unfinishedTry(top)
	case !allowed[top.last]:
		c.unfinishedTry(top)
		c.t.errorAt(at, "%q without a statement before it that it could belong to", keyword)
	}
	if keyword == "else" && top.last == "except" {
		keyword = "try-else"
	}
	if keyword == "try" {
		top.bare = false
	}
	top.last, top.lastAt = keyword, at
}

// header checks a line that opens a block.
func (c *pyChecker) header(line []pyToken, keyword string, at int) {
	c.follow(keyword, at)
	if keyword == "case" && !c.top().match {
		c.t.errorAt(at, `"case" outside of a match statement`)
	} else if keyword != "case" && c.top().match {
		c.t.errorAt(at, `only "case" is allowed directly inside a match statement`)
		c.top().match = false
	}
	colon := c.colon(line)
	if colon < 0 {
		if !c.broken {
			c.t.errorAt(line[len(line)-1].end, "':' is missing after %q", keyword)
		}
		// Its block is taken as opened, so that it is not reported too.
		c.opener = &pyOpener{keyword, at, true}
		return
	}
	if !c.broken {
		c.headerParts(line[:colon], keyword)
	}
	if keyword == "except" {
		if c.top().bare {
			c.t.errorAt(at, `"except" after the bare "except:", which takes everything and must be the last`)
		}
		c.top().bare = colon == 1
	}
	body := line[colon+1:]
	if len(body) == 0 {
		c.opener = &pyOpener{keyword, at, false}
		return
	}
	if word := body[0].text; body[0].kind == pyKeyword && (pyHeaders[word] || word == "async") {
		c.t.errorAt(body[0].start, "%q is not allowed on the line of another header", word)
		c.opener = &pyOpener{word, at, true}
		return
	}
	c.simpleLine(body, c.inside(keyword))
}

// colon finds the colon that ends a header, which is not the one of a lambda.
func (c *pyChecker) colon(line []pyToken) int {
	lambdas := 0
	for i, tk := range line {
		switch {
		case tk.depth > 0:
		case tk.kind == pyKeyword && tk.text == "lambda":
			lambdas++
		case tk.kind == pyOp && tk.text == ":":
			if lambdas == 0 {
				return i
			}
			lambdas--
		}
	}
	return -1
}

// headerParts checks the part between the keyword and the colon.
func (c *pyChecker) headerParts(head []pyToken, keyword string) {
	rest := head[1:]
	end := head[len(head)-1].end
	switch keyword {
	case "else", "try", "finally":
		if len(rest) > 0 {
			c.t.errorAt(rest[0].start, "':' is missing after %q", keyword)
		}
	case "except":
	case "def", "class":
		if len(rest) == 0 || rest[0].kind != pyName {
			at := end
			if len(rest) > 0 {
				at = rest[0].start
			}
			c.t.errorAt(at, "a name is expected after %q", keyword)
			return
		}
		if len(rest) > 1 && rest[1].text != "(" && rest[1].text != "[" || keyword == "def" && len(rest) == 1 {
			c.t.errorAt(rest[0].end, "'(' is expected after the name of the %s", map[string]string{"def": "function", "class": "class"}[keyword])
		}
	default:
		if len(rest) == 0 {
			c.t.errorAt(end, "something is missing between %q and the ':'", keyword)
			return
		}
		if keyword == "for" {
			c.forHeader(rest)
		}
		for _, tk := range rest {
			switch condition := keyword == "if" || keyword == "elif" || keyword == "while"; {
			case tk.depth > 0 || tk.kind != pyOp:
			case tk.text == "=":
				c.t.errorAt(tk.start, "'=' in the condition; a comparison is written ==")
			case condition && tk.text == ",":
				c.t.errorAt(tk.start, "':' is expected, found \",\"")
				return
			}
		}
	}
}

func (c *pyChecker) forHeader(rest []pyToken) {
	for _, tk := range rest {
		if tk.depth == 0 && tk.kind == pyKeyword && tk.text == "in" {
			return
		}
	}
	c.t.errorAt(rest[0].start, `"in" is missing after "for"`)
}

// simpleLine checks the simple statements of a line, which semicolons separate.
func (c *pyChecker) simpleLine(line []pyToken, level pyLevel) {
	start := 0
	for i := 0; i <= len(line); i++ {
		if i < len(line) && !(line[i].depth == 0 && line[i].kind == pyOp && line[i].text == ";") {
			continue
		}
		if i > start {
			c.simple(line[start:i], level)
		} else if i < len(line) && !c.broken {
			c.t.errorAt(line[i].start, "';' without a statement before it")
		}
		start = i + 1
	}
}

// strayYield reports a yield that belongs to no function.
func (c *pyChecker) strayYield(tokens []pyToken, level pyLevel) {
	for _, tk := range tokens {
		if level.function || tk.kind == pyKeyword && tk.text == "lambda" {
			return
		}
		if tk.kind == pyKeyword && tk.text == "yield" {
			c.t.errorAt(tk.start, `"yield" outside of a function`)
			return
		}
	}
}

func (c *pyChecker) simple(tokens []pyToken, level pyLevel) {
	first := tokens[0]
	if first.kind == pyKeyword {
		switch word := first.text; {
		case word == "return" && !level.function:
			c.t.errorAt(first.start, `"return" outside of a function`)
		case (word == "break" || word == "continue") && !level.loop:
			c.t.errorAt(first.start, "%q outside of a loop", word)
		case pyHeaders[word]:
			c.t.errorAt(first.start, "%q is not allowed after a semicolon", word)
		case word == "raise" && !c.broken:
			for _, tk := range tokens {
				if tk.depth == 0 && tk.kind == pyOp && tk.text == "," {
					c.t.errorAt(tk.start, `"raise" takes one exception; its message goes in brackets`)
					break
				}
			}
		}
	}
	c.strayYield(tokens, level)
	if colon := c.colon(tokens); colon == len(tokens)-1 {
		if !c.broken {
			c.t.errorAt(tokens[colon].start, "':' after a statement that opens no block")
		}
		c.opener = &pyOpener{"the ':'", first.start, true}
		return
	}
	if !c.broken {
		c.assignment(tokens)
		c.shape(tokens)
	}
}

// pyShapes are the statements of a fixed shape, written with n for a name.
var pyShapes = sync.OnceValue(func() map[string]*regexp.Regexp {
	const module, names = `n(?: \. n)*`, `n(?: as n)?(?: , n(?: as n)?)*`
	shapes := map[string]string{
		"pass": "pass", "break": "break", "continue": "continue",
		"global": "global n(?: , n)*", "nonlocal": "nonlocal n(?: , n)*",
		"import": "import " + module + "(?: as n)?(?: , " + module + "(?: as n)?)*",
		"from":   `from(?: \.| \.\.\.)*(?: ` + module + `)? import (?:\*|` + names + `|\( ` + names + `(?: ,)? \))`,
	}
	out := map[string]*regexp.Regexp{}
	for word, shape := range shapes {
		out[word] = regexp.MustCompile("^" + shape + "$")
	}
	return out
})

// shape compares a statement that begins with a keyword with its shape.
func (c *pyChecker) shape(tokens []pyToken) {
	first := tokens[0]
	shape := pyShapes()[first.text]
	if shape == nil || first.kind != pyKeyword {
		return
	}
	words := make([]string, len(tokens))
	for i, tk := range tokens {
		if words[i] = tk.text; tk.kind == pyName {
			words[i] = "n"
		}
	}
	if !shape.MatchString(strings.Join(words, " ")) {
		c.t.errorAt(first.start, "this %q statement is malformed", first.text)
	}
}

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
