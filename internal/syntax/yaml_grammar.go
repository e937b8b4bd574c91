package syntax

// yamlGrammar checks the order of the tokens of a document.
type yamlGrammar struct {
	s     *yamlScanner
	next  int
	depth int
}

// peek returns the next token.
func (g *yamlGrammar) peek() yamlToken {
	for g.s.tokens[g.next].kind == yamlNothing {
		g.next++
	}
	return g.s.tokens[g.next]
}

// take passes the next token if it is of the given kind.
func (g *yamlGrammar) take(kind yamlKind) bool {
	if g.peek().kind != kind {
		return false
	}
	g.next++
	g.s.t.looked(1)
	return true
}

// before reports whether the next token is of one of the given kinds.
func (g *yamlGrammar) before(kinds ...yamlKind) bool {
	next := g.peek().kind
	for _, kind := range kinds {
		if next == kind {
			return true
		}
	}
	return false
}

// unexpected reports that the next token cannot stand where it does.
func (g *yamlGrammar) unexpected(where string) {
	tk := g.peek()
	what := map[yamlKind]string{
		yamlBlockSequence: "a list", yamlBlockMapping: "a mapping", yamlEntry: "a '-' entry", yamlKey: "a key", yamlValue: "a ':'",
		yamlOpenSquare: "'['", yamlCloseSquare: "']'", yamlOpenBrace: "'{'", yamlCloseBrace: "'}'", yamlComma: "','",
		yamlAnchor: "an anchor", yamlAlias: "an alias", yamlTag: "a tag", yamlScalar: "a value", yamlEnd: "the end of the document",
		yamlDirective: "a directive", yamlDocument: "---", yamlBlockEnd: "the end of the block",
	}[tk.kind]
	g.s.fail(tk.offset, "%s cannot stand here, %s", what, where)
}

func (g *yamlGrammar) document() {
	directives := false
	for g.take(yamlDirective) {
		directives = true
	}
	if !g.take(yamlDocument) && directives {
		g.unexpected("because a directive must be followed by ---")
		return
	}
	for !g.s.failed && !g.before(yamlEnd) {
		if !g.before(yamlDocument) {
			g.node(true, false)
		}
		if !g.s.failed && !g.take(yamlDocument) && !g.before(yamlEnd) {
			g.unexpected("after the end of the document's value")
		}
	}
}

// node reads a value with its anchor and tag. A list that is the value of a key
// need not be indented further than the key.
func (g *yamlGrammar) node(block, level bool) {
	if g.depth++; g.depth > 2*maxYAMLDepth {
		g.s.fail(g.peek().offset, "nested deeper than %d levels; the text is not checked", 2*maxYAMLDepth)
	}
	defer func() { g.depth-- }()
	if g.s.failed || g.take(yamlAlias) {
		return
	}
	anchored, tagged := g.take(yamlAnchor), g.take(yamlTag)
	if tagged && !anchored {
		anchored = g.take(yamlAnchor)
	}
	switch {
	case g.take(yamlScalar):
	case level && g.before(yamlEntry):
		for g.take(yamlEntry) && !g.s.failed {
			if !g.before(yamlEntry, yamlKey, yamlValue, yamlBlockEnd) {
				g.node(true, false)
			}
		}
	case g.take(yamlOpenSquare):
		g.brackets(yamlCloseSquare)
	case g.take(yamlOpenBrace):
		g.brackets(yamlCloseBrace)
	case block && g.take(yamlBlockSequence):
		g.blockSequence()
	case block && g.take(yamlBlockMapping):
		g.blockMapping()
	case anchored || tagged:
		// An empty value.
	default:
		g.unexpected("where a value is expected")
	}
}

func (g *yamlGrammar) blockSequence() {
	for !g.s.failed && g.take(yamlEntry) {
		if !g.before(yamlEntry, yamlBlockEnd) {
			g.node(true, false)
		}
	}
	if !g.s.failed && !g.take(yamlBlockEnd) {
		g.unexpected("between the '-' entries of a list")
	}
}

func (g *yamlGrammar) blockMapping() {
	for !g.s.failed {
		key := g.take(yamlKey)
		if key && !g.before(yamlKey, yamlValue, yamlBlockEnd) {
			g.node(true, true)
		}
		value := g.take(yamlValue)
		if value && !g.before(yamlKey, yamlValue, yamlBlockEnd) {
			g.node(true, true)
		}
		if !key && !value {
			break
		}
	}
	if !g.s.failed && !g.take(yamlBlockEnd) {
		g.unexpected("between the keys of a mapping")
	}
}

// brackets reads the inside of [] or {}. An entry may be a pair in both.
func (g *yamlGrammar) brackets(closing yamlKind) {
	opened := g.s.tokens[g.next-1].offset
	for first := true; !g.s.failed && !g.take(closing); first = false {
		if g.before(yamlEnd) {
			g.s.fail(opened, "the bracket opened at line %d is never closed", g.s.t.lineOf(g.s.base+opened))
			return
		}
		if !first {
			if !g.take(yamlComma) {
				g.unexpected("where a ',' or the closing bracket is expected")
				return
			}
			if g.take(closing) {
				return
			}
		}
		key := g.take(yamlKey)
		if !g.before(yamlValue) && !(key && g.before(yamlComma, closing)) {
			g.node(false, false)
		}
		if g.take(yamlValue) && !g.before(yamlComma, closing) {
			g.node(false, false)
		}
	}
}
