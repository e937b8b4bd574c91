package syntax

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// maxLaTeXDepth is the number of nested groups at which TeX itself stops.
const maxLaTeXDepth = 255

// latexKind is the kind of an open construct.
type latexKind int

const (
	latexBrace latexKind = iota
	latexEnv
	latexDollar  // $ … $
	latexDollars // $$ … $$
	latexParen   // \( … \)
	latexBracket // \[ … \]
)

// latexGroup is something that is open and must be closed.
type latexGroup struct {
	kind   latexKind
	name   string // of an environment
	offset int
	math   bool // the inside is mathematics
	prose  bool // the inside is surely text
	body   bool // the inside is part of a definition
}

// latexScanner reads the text once from its start to its end.
type latexScanner struct {
	t     *text
	src   []byte
	pos   int
	stack []latexGroup

	command     string      // the command whose arguments may follow; "" in running text
	option      bool        // inside the square brackets after a command
	definitions int         // arguments of a definition still to come
	defDepth    int         // where they are
	pkg         bool        // the text is a package, where @ is a letter
	lineStop    int         // the end of the current line, if it is not before pos
	ink         int         // what follows the current blanks, if it is not before pos
	pairs       map[int]int // for the line that ends at pairsEnd, the place of the bracket that closes another one
	pairsEnd    int
	underscore  bool // the underscore has been given another meaning
	recoded     bool // so may have other characters
	stop        bool

	class, document bool
	verbatim        map[string]bool // environments the text itself defines
}

func inspectLaTeX(t *text) {
	s := &latexScanner{t: t, src: t.src, verbatim: map[string]bool{}, lineStop: -1}
	for s.pos < len(s.src) && !s.stop {
		s.step()
	}
	if s.pos < len(s.src) {
		return
	}
	for _, g := range s.stack {
		s.fail(g.offset, "%s is never closed", s.opening(g))
	}
	switch {
	case s.pkg:
	case s.class && !s.document:
		t.warnAt(0, `there is a \documentclass but no \begin{document}`)
	case s.document && !s.class:
		t.warnAt(0, `there is a \begin{document} but no \documentclass`)
	case !s.class:
		t.warnAt(0, `there is neither a \documentclass nor a \begin{document}, so this can only be part of another document`)
	}
}

// fail reports an error, or a warning if the text has changed what characters
// mean, which can make anything right.
func (s *latexScanner) fail(offset int, format string, args ...any) {
	if s.recoded {
		s.t.warnAt(offset, format, args...)
		return
	}
	s.t.errorAt(offset, format, args...)
}

// opening shows what opened a group.
func (s *latexScanner) opening(g latexGroup) string {
	switch g.kind {
	case latexBrace:
		return "brace '{'"
	case latexDollar:
		return "'$'"
	case latexDollars:
		return "'$$'"
	case latexParen:
		return `\(`
	case latexBracket:
		return `\[`
	}
	return `\begin{` + shorten(g.name) + "}"
}

// step reads one token.
func (s *latexScanner) step() {
	s.t.looked(1)
	switch c := s.src[s.pos]; c {
	case '\\':
		s.control()
		return
	case '%':
		s.pos = s.lineEnd()
		return
	case '{':
		s.openBrace()
	case '}':
		s.closeBrace()
	case '$':
		s.dollar()
		return
	case '\n', '\r':
		s.newline()
		return
	case '[':
		s.option = s.option || s.command != ""
	case ']':
		s.option = false
	case '_':
		s.bareUnderscore()
	case ' ', '\t', '*':
	default:
		if !s.option {
			s.command = ""
		}
	}
	s.pos++
}

// lineEnd returns the offset of the end of the current line. It is remembered,
// because a line may hold any number of commands that ask for it.
func (s *latexScanner) lineEnd() int {
	if s.lineStop < s.pos {
		s.lineStop = len(s.src)
		if i := bytes.IndexByte(s.src[s.pos:], '\n'); i >= 0 {
			s.lineStop = s.pos + i
		}
		s.t.looked(s.lineStop - s.pos)
	}
	return s.lineStop
}

func (s *latexScanner) top() *latexGroup {
	if len(s.stack) == 0 {
		return nil
	}
	return &s.stack[len(s.stack)-1]
}

// inBody reports whether the place is inside a definition.
func (s *latexScanner) inBody() bool {
	g := s.top()
	return g != nil && g.body
}

func (s *latexScanner) push(g latexGroup) {
	if len(s.stack) == maxLaTeXDepth {
		s.t.errorAt(g.offset, "nested deeper than %d levels; the rest is not checked", maxLaTeXDepth)
		s.stop = true
		return
	}
	if outer := s.top(); outer != nil {
		g.body = g.body || outer.body
		g.math = g.math || outer.math && g.kind == latexBrace
		g.prose = g.prose && outer.prose
	}
	s.stack = append(s.stack, g)
	s.command, s.option = "", false
}

func (s *latexScanner) openBrace() {
	g := latexGroup{kind: latexBrace, offset: s.pos}
	g.prose = s.command == "" || latexTextCommands[s.command]
	command := s.command
	if s.definitions > 0 && len(s.stack) == s.defDepth {
		s.definitions--
		g.body = true
	}
	s.push(g)
	// It becomes the command of the group's end again, for its next argument.
	if top := s.top(); top != nil {
		top.name = command
	}
}

func (s *latexScanner) closeBrace() {
	at := -1
	for i := len(s.stack) - 1; i >= 0 && at < 0; i-- {
		if s.stack[i].kind == latexBrace {
			at = i
		}
	}
	if at < 0 {
		s.fail(s.pos, "brace '}' closes nothing")
		return
	}
	for _, g := range s.stack[at+1:] {
		s.fail(g.offset, "%s is not closed before the '}' at line %d", s.opening(g), s.t.lineOf(s.pos))
	}
	s.command = s.stack[at].name
	s.stack = s.stack[:at]
}

// newline reads a line end. A blank line ends the paragraph, and formulas do not
// go on beyond one.
func (s *latexScanner) newline() {
	if bytes.HasPrefix(s.src[s.pos:], []byte("\r\n")) {
		s.pos++
	}
	s.pos++
	// What follows is remembered as well: there may be any number of lone CR.
	if s.ink < s.pos {
		s.ink = len(s.src) - len(bytes.TrimLeft(s.src[s.pos:], " \t\r"))
		s.t.looked(s.ink - s.pos)
	}
	if s.ink == len(s.src) || s.src[s.ink] != '\n' {
		return
	}
	s.command, s.option = "", false
	if len(s.stack) == s.defDepth {
		s.definitions = 0
	}
	if g := s.top(); g != nil && g.kind >= latexDollar {
		s.fail(g.offset, "%s opened at line %d is not closed before the blank line", s.opening(*g), s.t.lineOf(g.offset))
		s.stack = s.stack[:len(s.stack)-1]
	}
}

func (s *latexScanner) dollar() {
	s.command = ""
	start := s.pos
	double := s.pos+1 < len(s.src) && s.src[s.pos+1] == '$'
	s.pos++
	if s.inBody() {
		return
	}
	switch g := s.top(); {
	case g != nil && g.kind == latexDollar:
		s.stack = s.stack[:len(s.stack)-1]
	case g != nil && g.kind == latexDollars:
		if double {
			s.pos++
		} else {
			s.fail(start, "a single '$' ends the '$$' opened at line %d", s.t.lineOf(g.offset))
		}
		s.stack = s.stack[:len(s.stack)-1]
	case double:
		s.pos++
		s.push(latexGroup{kind: latexDollars, offset: start, math: true})
	default:
		s.push(latexGroup{kind: latexDollar, offset: start, math: true})
	}
}

// bareUnderscore warns of an underscore that LaTeX would refuse outside of
// mathematics. Where the text goes to an unknown command or environment it may
// be fine.
func (s *latexScanner) bareUnderscore() {
	if s.option || s.underscore || s.pkg || s.inBody() {
		return
	}
	if g := s.top(); g != nil && (g.math || !g.prose) {
		return
	}
	s.t.warnAt(s.pos, `'_' outside of mathematics; as a character it is written \_`)
}

// control reads a backslash and the rest of its command.
func (s *latexScanner) control() {
	start := s.pos
	s.pos++
	name := s.name()
	if name == "" {
		s.symbol(start)
		return
	}
	switch {
	case s.inBody():
		// Only braces count here.
	case name == "begin", latexTypos[name]:
		if env, ok := s.argument(); ok {
			if name != "begin" {
				s.fail(start, `\%s is no command; \begin is likely meant`, name)
			}
			s.begin(start, env)
			return
		}
	case name == "end":
		if env, ok := s.argument(); ok {
			s.end(start, env)
			return
		}
	case latexVerbatimMakers[name]:
		if env, ok := s.argument(); ok {
			s.verbatim[env] = true
		}
	}
	s.known(start, name)
	s.command, s.option = name, false
}

// name reads the letters of a command.
func (s *latexScanner) name() string {
	start := s.pos
	for s.pos < len(s.src) {
		c := s.src[s.pos]
		if c|0x20 < 'a' || c|0x20 > 'z' {
			if c != '@' || !s.pkg {
				break
			}
		}
		s.pos++
	}
	return string(s.src[start:s.pos])
}

// symbol reads a command of one character that is no letter.
func (s *latexScanner) symbol(start int) {
	if s.pos == len(s.src) {
		return
	}
	_, size := utf8.DecodeRune(s.src[s.pos:])
	c := s.src[s.pos]
	if c != '\n' && c != '\r' {
		s.pos += size
	}
	defined := s.command != "" && latexDefiners[s.command] > 0 || s.command == "let"
	s.command = ""
	if s.inBody() || defined {
		return
	}
	switch c {
	case '(':
		s.push(latexGroup{kind: latexParen, offset: start, math: true})
	case '[':
		s.push(latexGroup{kind: latexBracket, offset: start, math: true})
	case ')':
		s.closeMath(start, latexParen, `\)`)
	case ']':
		s.closeMath(start, latexBracket, `\]`)
	}
}

func (s *latexScanner) closeMath(start int, kind latexKind, closing string) {
	g := s.top()
	switch {
	case g == nil || g.kind < latexDollar && (g.kind != latexEnv || !g.math):
		s.fail(start, "%s closes nothing", closing)
	case g.kind != kind:
		s.fail(start, "%s does not match %s opened at line %d", closing, s.opening(*g), s.t.lineOf(g.offset))
		if g.kind != latexEnv {
			s.stack = s.stack[:len(s.stack)-1]
		}
	default:
		s.stack = s.stack[:len(s.stack)-1]
	}
}

// argument reads a plain name in braces. Anything else, such as a parameter of a
// macro, leaves the position where it was.
func (s *latexScanner) argument() (string, bool) {
	rest := s.src[s.pos:]
	inner := bytes.TrimLeft(rest[:min(len(rest), 1000)], " \t\r\n*")
	if len(inner) == 0 || inner[0] != '{' {
		return "", false
	}
	end := bytes.IndexAny(inner[1:], "{}\\#%\n")
	s.t.looked(max(end, 0))
	if end < 0 || inner[1+end] != '}' {
		return "", false
	}
	s.pos += len(rest[:min(len(rest), 1000)]) - len(inner) + end + 2
	return strings.TrimSpace(string(inner[1 : 1+end])), true
}

func (s *latexScanner) begin(start int, env string) {
	s.definitions = 0
	if env == "document" {
		s.document = true
	}
	plain := strings.TrimSuffix(env, "*")
	if latexVerbatim[plain] || s.verbatim[env] {
		closing := []byte(`\end{` + env + "}")
		if i := bytes.Index(s.src[s.pos:], closing); i >= 0 {
			s.pos += i + len(closing)
			return
		}
		s.fail(start, `\begin{%s} is never closed`, shorten(env))
		s.stop = true
		return
	}
	prose := latexText[plain]
	s.push(latexGroup{kind: latexEnv, name: env, offset: start, math: latexMath[plain], prose: prose})
	// The arguments of the environment follow, such as the columns of a table.
	s.command = "begin"
}

func (s *latexScanner) end(start int, env string) {
	s.command, s.definitions = "", 0
	at := -1
	for i := len(s.stack) - 1; i >= 0 && at < 0; i-- {
		if s.stack[i].kind == latexEnv && s.stack[i].name == env {
			at = i
		}
	}
	g := s.top()
	switch {
	case g == nil:
		s.fail(start, `\end{%s} closes nothing`, shorten(env))
		return
	case at == len(s.stack)-1:
	case g.kind == latexEnv:
		s.fail(start, `\end{%s} mismatches \begin{%s} opened at line %d`, shorten(env), shorten(g.name), s.t.lineOf(g.offset))
		if at < 0 {
			// Likely the name is misspelt, so the innermost one ends here.
			at = len(s.stack) - 1
		}
	default:
		s.fail(start, `%s opened at line %d is not closed before \end{%s}`, s.opening(*g), s.t.lineOf(g.offset), shorten(env))
		if at < 0 {
			return
		}
	}
	s.stack = s.stack[:at]
	if env == "document" {
		// TeX does not read on.
		s.pos = len(s.src)
	}
}

// known applies the effect of a command on the rest of the scan.
func (s *latexScanner) known(start int, name string) {
	defined := s.command == "let" || latexDefiners[s.command] > 0
	if n, ok := latexDefiners[name]; ok {
		s.definitions, s.defDepth = n, len(s.stack)
		return
	}
	if defined {
		// This is the name being defined, not a use of it.
		return
	}
	switch name {
	case "documentclass", "documentstyle":
		s.class = true
	case "ProvidesPackage", "ProvidesClass", "ProvidesExplPackage", "NeedsTeXFormat", "makeatletter":
		s.pkg = s.pkg || name != "NeedsTeXFormat"
	case "makeatother":
		s.pkg = false
	case "ExplSyntaxOn", "underscoreoff":
		s.underscore = true
	case "usepackage":
		s.underscore = s.underscore || bytes.Contains(s.src[s.pos:min(s.lineEnd(), s.pos+200)], []byte("underscore"))
	case "catcode":
		s.recoded = true
	case "string":
		// The character after it loses its meaning.
		if s.pos < len(s.src) && bytes.IndexByte([]byte("{}$%_"), s.src[s.pos]) >= 0 {
			s.pos++
		}
	case "iffalse":
		s.skipFalse()
	case "verb", "Verb", "lstinline", "mintinline":
		s.verb(start, name)
	default:
		if latexLiteral[name] && !s.inBody() {
			s.address(start, name)
		}
	}
}

// skipFalse skips text that has been commented out with \iffalse.
func (s *latexScanner) skipFalse() {
	if i := bytes.Index(s.src[s.pos:], []byte(`\fi`)); i >= 0 {
		s.pos += i + len(`\fi`)
		return
	}
	s.fail(s.pos, `\iffalse has no \fi`)
	s.stop = true
}

// verb reads \verb and its likes: the text between two equal characters is taken
// literally.
func (s *latexScanner) verb(start int, name string) {
	end := s.lineEnd()
	if s.pos < end && s.src[s.pos] == '*' {
		s.pos++
	}
	if name != "verb" {
		s.skipBetween('[', end)
	}
	if name == "mintinline" {
		s.skipBetween('{', end)
	}
	if s.pos >= end || s.inBody() {
		return
	}
	mark := s.src[s.pos]
	if mark == '{' {
		if name != "verb" {
			s.skipBetween('{', end)
		}
		return
	}
	if i := bytes.IndexByte(s.src[s.pos+1:end], mark); i >= 0 {
		s.t.looked(i)
		s.pos += i + 2
		return
	}
	s.fail(start, `\%s is not closed by a second %q on its line`, name, mark)
	s.pos = end
}

// skipBetween skips a pair of brackets and its content, if one starts here and is
// closed before the end of the line. The pairs of a line are looked for once: a line
// may hold any number of brackets that are never closed.
func (s *latexScanner) skipBetween(open byte, end int) {
	if s.pos >= end || s.src[s.pos] != open {
		return
	}
	if s.pairsEnd != end {
		s.pairs, s.pairsEnd = map[int]int{}, end
		for _, kind := range []string{"[]", "{}"} { // those of one kind may be between two of the other
			var opened []int
			for i := s.pos; i < end; i++ {
				switch n := len(opened); {
				case s.src[i] == kind[0]:
					opened = append(opened, i)
				case s.src[i] == kind[1] && n > 0:
					s.pairs[opened[n-1]] = i
					opened = opened[:n-1]
				}
			}
		}
		s.t.looked(2 * (end - s.pos))
	}
	if at, closed := s.pairs[s.pos]; closed {
		s.pos = at + 1
	}
}

// address reads the argument of \url and similar commands, in which most characters are
// literal. A percent sign is literal only if the command is not inside the argument of
// another one, hence the warning.
func (s *latexScanner) address(start int, name string) {
	s.skipBetween('[', s.lineEnd())
	if s.pos >= len(s.src) || s.src[s.pos] != '{' {
		return
	}
	depth, from := 0, s.pos
	defer func() { s.t.looked(s.pos - from) }()
	for ; s.pos < len(s.src); s.pos++ {
		switch s.src[s.pos] {
		case '\\':
			s.pos++
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				s.pos++
				return
			}
		case '%':
			s.t.warnAt(s.pos, `unescaped '%%' in the argument of \%s; write \%%`, name)
		case '\n':
			line, size := nextLine(s.src[s.pos+1:])
			s.t.looked(size)
			if len(bytes.TrimSpace(line)) == 0 {
				s.fail(start, `the argument of \%s is never closed`, name)
				return
			}
		}
	}
	s.pos = len(s.src)
	s.fail(start, `the argument of \%s is never closed`, name)
}

// latexMath lists the environments that contain mathematics.
var latexMath = nameSet(`math displaymath equation align gather multline flalign alignat xalignat
	xxalignat eqnarray split aligned alignedat gathered cases array matrix pmatrix bmatrix Bmatrix vmatrix Vmatrix
	smallmatrix subarray dmath dgroup dseries darray IEEEeqnarray dcases rcases multlined empheq`)

// latexText lists the environments that are known to contain text, the only ones where
// a bare underscore is certainly a mistake.
var latexText = nameSet(`document abstract itemize enumerate description center flushleft flushright
	quote quotation verse figure table tabular tabularx longtable minipage titlepage theorem lemma proof corollary
	definition proposition remark example frame block letter thebibliography appendix multicols`)

// latexVerbatim lists the environments whose content is not read as LaTeX.
var latexVerbatim = nameSet(`verbatim Verbatim BVerbatim LVerbatim SaveVerbatim VerbatimOut lstlisting minted comment
	filecontents alltt tcblisting luacode pycode sageblock asy semiverbatim`)

// latexVerbatimMakers are the commands that define one more such environment.
var latexVerbatimMakers = nameSet(`lstnewenvironment DefineVerbatimEnvironment RecustomVerbatimEnvironment newminted
	newtcblisting newverbatim NewTCBListing DeclareTCBListing excludecomment`)

// latexTextCommands are the commands whose argument is text.
var latexTextCommands = nameSet(`textbf textit textrm textsf textsc texttt textup emph underline mbox fbox
	part chapter section subsection subsubsection paragraph subparagraph caption footnote title author date item
	thanks centerline`)

// latexLiteral are the commands whose first argument is a web address.
var latexLiteral = nameSet(`url href nolinkurl path`)

// latexTypos are misspellings that are no commands.
var latexTypos = nameSet(`being beign bgein bengin`)

// latexDefiners maps the commands that define others to the number of arguments
// in braces they take at most. Their content need not be balanced, except
// for its braces: a command may well expand to a \begin without its \end.
var latexDefiners = map[string]int{
	"def": 1, "gdef": 1, "edef": 1, "xdef": 1, "let": 0, "futurelet": 0,
	"newcommand": 2, "renewcommand": 2, "providecommand": 2, "DeclareRobustCommand": 2, "DeclareMathOperator": 2,
	"newenvironment": 3, "renewenvironment": 3, "provideenvironment": 3, "newtheoremstyle": 9,
	"NewDocumentCommand": 3, "RenewDocumentCommand": 3, "ProvideDocumentCommand": 3, "DeclareDocumentCommand": 3,
	"NewDocumentEnvironment": 4, "RenewDocumentEnvironment": 4, "DeclareDocumentEnvironment": 4, "ProvideDocumentEnvironment": 4,
	"AtBeginDocument": 1, "AtEndDocument": 1, "AtBeginEnvironment": 2, "AtEndEnvironment": 2, "BeforeBeginEnvironment": 2,
	"AfterEndEnvironment": 2, "newcolumntype": 2, "pretocmd": 4, "apptocmd": 4, "patchcmd": 5, "titleformat": 5,
	"newsavebox": 1, "toks": 1, "g@addto@macro": 2, "AddToHook": 2, "lstset": 1, "lstdefinestyle": 2, "lstdefinelanguage": 3,
	"newtcolorbox": 3, "surroundwithmdframed": 1, "@namedef": 2, "DeclareOption": 2, "ifthenelse": 3, "newunicodechar": 2,
}

func nameSet(names string) map[string]bool {
	set := map[string]bool{}
	for _, name := range strings.Fields(names) {
		set[name] = true
	}
	return set
}
