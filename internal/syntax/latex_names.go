package syntax

import "strings"

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
