package syntax

import (
	"math/rand/v2"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// article wraps text so that it is a whole document.
func article(body string) string {
	return "\\documentclass{article}\n\\begin{document}\n" + body + "\n\\end{document}\n"
}

func TestLaTeX(t *testing.T) {
	for _, body := range []string{
		"", "Text with \\{ \\} \\% \\$ \\_ \\& \\# and {a group}.", "% a comment with } \\begin{x} $ _\n", "$a_b$ and $$c_d$$ and \\(e_f\\) and \\[g_h\\]",
		"\\begin{itemize}\n\\item a\n\\end{itemize}", "\\begin{align*}\na_1 &= b_2 \\\\[2pt]\nc\n\\end{align*}", "\\verb|$_%{| and \\verb*+}+ and \\lstinline{a_b} and \\lstinline[x]!a_b$!",
		"\\begin{verbatim}\n\\begin{x} } $ _ %\n\\end{verbatim}", "\\begin{lstlisting}[language=C]\nint a_b = '{';\n\\end{lstlisting}",
		"\\url{http://a.b/c_d#e} \\href{http://a.b/c\\%20d}{text}", "\\ref{fig:a_b} \\cite{a_b} \\includegraphics[width=1cm]{a_b.png}",
		"\\newcommand{\\be}{\\begin{equation}}\n\\newcommand{\\ee}{\\end{equation}}\n", "\\newenvironment{a}{\\begin{b}}{\\end{b}}\n", "\\def\\be#1{\\begin{equation}}\n",
		"$x \\text{ if $y$ } z$", "\\begin{equation}\na_{b_c}\n\\mbox{$d$}\n\\end{equation}", "\\begin{unknown} a_b \\end{unknown} \\mycommand{a_b}",
		"\\iffalse } \\begin{x} \\fi", "\\begin{ tabular }{l|r} a & b \\\\ \\end{tabular}", "a\\\\[1ex] b", "\\begin{filecontents}{a_b}\n}\n\\end{filecontents}",
	} {
		accept(t, "latex", article(body))
	}
	accept(t, "latex",
		article("")+"anything } \\end{x} $ after the end is not read", "\\NeedsTeXFormat{LaTeX2e}\n\\ProvidesPackage{a}\n\\def\\a@b{x_y}\n",
		"\\documentclass{article}\n\\lstnewenvironment{code}{}{}\n\\begin{document}\n\\begin{code}\n} $\n\\end{code}\n\\end{document}",
	)
}

func TestLaTeXErrors(t *testing.T) {
	reject(t, "latex",
		badCase{"\\begin{a}\n", 1, 1, "\\begin{a} is never closed"},
		badCase{"\\begin{a}\n\\begin{b}\n\\end{a}\n", 3, 1, "\\end{a} mismatches \\begin{b} opened at line 2"},
		badCase{"\\begin{itemize}\n\\end{enumerate}\n", 2, 1, "\\end{enumerate} mismatches \\begin{itemize} opened at line 1"},
		badCase{"text\n\\end{a}\n", 2, 1, "\\end{a} closes nothing"},
		badCase{"\\being{a}\n\\end{a}\n", 1, 1, "\\being is no command; \\begin is likely meant"},
		badCase{"a {b\n", 1, 3, "'{' is never closed"},
		badCase{"a } b\n", 1, 3, "'}' closes nothing"},
		badCase{"a $b\n\nc", 1, 3, "'$' opened at line 1 is not closed before the blank line"},
		badCase{"a $b", 1, 3, "'$' is never closed"},
		badCase{"$$a$ b\n", 1, 4, "a single '$' ends the '$$' opened at line 1"},
		badCase{"\\[a\n\\)", 2, 1, "\\) does not match \\[ opened at line 1"},
		badCase{"a \\]\n", 1, 3, "\\] closes nothing"},
		badCase{"{$a}\n", 1, 2, "'$' is not closed before the '}'"},
		badCase{"{\\begin{a}}\n", 1, 2, "\\begin{a} is not closed before the '}'"},
		badCase{"\\begin{a}{\n\\end{a}\n", 2, 1, "'{' opened at line 1 is not closed before \\end{a}"},
		badCase{"\\verb|a\n|", 1, 1, "\\verb is not closed"},
		badCase{"\\begin{verbatim}\n\\end{verbatim*}\n", 1, 1, "\\begin{verbatim} is never closed"},
		badCase{"\\url{a\n\nb}", 1, 1, "the argument of \\url is never closed"},
		badCase{"\\iffalse\nx", 1, 9, "has no \\fi"},
		badCase{"% }\n}", 2, 1, "closes nothing"},
	)
	warn(t, "latex",
		badCase{"text\n", 1, 1, "neither a \\documentclass"},
		badCase{"\\documentclass{a}\n", 1, 1, "no \\begin{document}"},
		badCase{"\\begin{document}\\end{document}\n", 1, 1, "no \\documentclass"},
		badCase{article("a_b"), 3, 2, "'_' outside of mathematics"},
		badCase{article("$a$ \\emph{b_c}"), 3, 12, "'_' outside of mathematics"},
		badCase{article("\\url{http://a/b%20c}"), 3, 16, "unescaped '%' in the argument of \\url"},
		badCase{article("\\href{http://a/b%20c}{d}"), 3, 17, "unescaped '%' in the argument of \\href"},
		// A text may change the meaning of characters.
		badCase{"\\documentclass{a}\\begin{document}\\catcode`\\|=1 }\\end{document}", 1, 48, "closes nothing"},
	)
}

// TestLaTeXPairs compares the brackets that are found once for a line with those
// found by looking for the partner of each from its own place.
func TestLaTeXPairs(t *testing.T) {
	partner := func(src string, at int) int {
		depth := 0
		for i := at; i < len(src); i++ {
			switch src[i] {
			case '[':
				depth++
			case ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
		}
		return at
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		src := make([]byte, random.IntN(12))
		for i := range src {
			src[i] = "[]{}a"[random.IntN(5)]
		}
		whole := append([]byte("[a]\n"), src...)
		s := &latexScanner{t: &text{src: whole}, src: whole, lineStop: -1}
		s.skipBetween('[', s.lineEnd())
		testbed.MustEqual(t, s.pos, 3, "the pair of the line before ends at")
		// The position only ever moves on.
		for at := range src {
			s.pos = 4 + at
			s.skipBetween('[', s.lineEnd())
			want := 4 + partner(string(src), at)
			testbed.Require(t, src[at] != '[' || s.pos == want, "%q from %d: to %d, want %d", src, at, s.pos-4, want-4)
		}
	}
}

// TestLaTeXLineEnd makes sure that the remembered line end is that of the line at hand.
func TestLaTeXLineEnd(t *testing.T) {
	src := []byte("ab\n\nc\nd")
	s := &latexScanner{t: &text{src: src}, src: src, lineStop: -1}
	for at, want := range []int{2, 2, 2, 3, 5, 5, 7} {
		if s.pos = at; s.lineEnd() != want {
			t.Errorf("the line of %d ends at %d, want %d", at, s.lineEnd(), want)
		}
	}
}
