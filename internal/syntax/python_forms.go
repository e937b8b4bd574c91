package syntax

// simpleForm checks a simple statement by its grammar.
func (c *pyChecker) simpleForm(tokens []pyToken) {
	g := &pyGrammar{c: c, line: tokens}
	g.simple()
	if !g.done() {
		g.unexpected("the end of the statement")
	}
}

func (g *pyGrammar) simple() {
	switch first := g.line[0]; {
	case first.kind == pyName && g.is("type") && len(g.line) > 1 && g.line[1].kind == pyName:
		g.next = 2
		g.typeParameters()
		g.expect("=")
		g.value(pyLimits{})
	case g.take("pass"), g.take("break"), g.take("continue"):
	case g.take("del"):
		g.list(pyLimits{})
	case g.take("return"):
		if !g.done() {
			g.list(pyLimits{})
		}
	case g.take("raise"):
		if !g.done() {
			g.value(pyLimits{})
			if g.take("from") {
				g.value(pyLimits{})
			}
		}
	case g.take("assert"):
		g.value(pyLimits{})
		if g.take(",") {
			g.value(pyLimits{})
		}
	case g.take("global"), g.take("nonlocal"):
		g.names(g.name)
	case g.take("import"):
		g.names(func() {
			g.dotted()
			g.renamed()
		})
	case g.take("from"):
		g.fromImport()
	default:
		g.expression()
	}
}

// expression reads an expression or an assignment.
func (g *pyGrammar) expression() {
	g.list(pyLimits{})
	switch {
	case g.failed:
	case g.take(":"):
		g.value(pyLimits{})
		if g.take("=") {
			g.list(pyLimits{})
		}
	case g.takeOf(pyAugmented):
		g.list(pyLimits{})
	default:
		for !g.failed && g.take("=") {
			g.list(pyLimits{})
		}
	}
}

// names reads one entry or more with commas between them.
func (g *pyGrammar) names(entry func()) {
	for entry(); !g.failed && g.take(","); {
		entry()
	}
}

// dotted reads the name of a module.
func (g *pyGrammar) dotted() {
	for g.name(); !g.failed && g.take("."); {
		g.name()
	}
}

// renamed reads "as" and a name, if it is there.
func (g *pyGrammar) renamed() {
	if !g.failed && g.take("as") {
		g.name()
	}
}

// fromImport reads "from" with a module and the names to import.
func (g *pyGrammar) fromImport() {
	relative := false
	for g.take(".") || g.take("...") {
		relative = true
	}
	if !relative || !g.is("import") {
		g.dotted()
	}
	if !g.expect("import") || g.take("*") {
		return
	}
	entry := func() {
		g.name()
		g.renamed()
	}
	if !g.take("(") {
		g.names(entry)
		return
	}
	for entry(); !g.failed && g.take(",") && !g.is(")"); {
		entry()
	}
	g.expect(")")
}

// typeParameters passes the square brackets behind the name of a class, function
// or type, whose inside is not checked.
func (g *pyGrammar) typeParameters() {
	if !g.is("[") {
		return
	}
	depth := g.line[g.next].depth
	for g.next++; g.next < len(g.line) && g.line[g.next].depth > depth; g.next++ {
	}
	g.expect("]")
}

// headerForm checks a header, without its colon, by its grammar.
func (c *pyChecker) headerForm(head []pyToken, keyword string) {
	g := &pyGrammar{c: c, line: head, next: 1}
	g.header(keyword)
	if !g.done() {
		g.unexpected("':'")
	}
}

func (g *pyGrammar) header(keyword string) {
	switch keyword {
	case "if", "elif", "while":
		g.value(pyLimits{})
	case "for":
		g.list(pyLimits{in: true})
		if g.expect("in") {
			g.list(pyLimits{})
		}
	case "with":
		g.as = true
		g.names(func() {
			g.value(pyLimits{})
			g.alias()
		})
	case "except":
		g.as = true
		if g.take("*"); !g.done() {
			g.list(pyLimits{})
		}
	case "class":
		g.name()
		g.typeParameters()
		if g.take("(") {
			g.entries(")", "=")
		}
	case "def":
		g.name()
		g.typeParameters()
		if g.expect("(") {
			g.parameters(")", true)
			g.expect(")")
		}
		if !g.failed && g.take("->") {
			g.value(pyLimits{})
		}
	case "match":
		g.list(pyLimits{})
	case "case":
		g.as = true
		g.list(pyLimits{choice: true})
		if !g.failed && g.take("if") {
			g.value(pyLimits{})
		}
	}
}

// decoratorForm checks the line of a decorator.
func (c *pyChecker) decoratorForm(line []pyToken) {
	g := &pyGrammar{c: c, line: line, next: 1}
	g.value(pyLimits{})
	if !g.done() {
		g.unexpected("the end of the statement")
	}
}
