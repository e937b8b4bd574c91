package resilientwrite

import (
	"context"
	"io"
	"path"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/aside"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/internal/syntax"
)

// SyntaxProblem is one thing that is wrong with a text.
type SyntaxProblem struct {
	Line     int    `json:"line"`                          // Line, from 1.
	Col      int    `json:"col"`                           // Column in characters, from 1.
	Message  string `json:"message"`                       // The problems found.
	Severity string `json:"severity" enum:"error,warning"` // Only errors make a text invalid.
}

// Validator checks a text of one format. It must not keep the content, and must
// run in time linear in its size.
type Validator func(content []byte) []SyntaxProblem

// ValidateRequest asks whether a text is well formed.
type ValidateRequest struct {
	// The text to check, or base64 when encoding is base64.
	Content []byte `json:"content" required:"true"`
	// How content is encoded.
	_ schema.Encoding `wire:"encoding,omitempty" enum:"utf-8,base64" default:"utf-8"`
	// Format of the text: json, jsonl, yaml, toml, xml, go, python, latex,
	// markdown. Default: from the extension of target_path, else from the first
	// characters.
	FormatHint string `json:"format_hint,omitempty" maxlen:"200"`
	// Intended path of the text; its extension selects the format.
	TargetPath string `json:"target_path,omitempty"`
}

// ValidateResult reports what is wrong with a text.
type ValidateResult struct {
	Valid  bool   `json:"valid"`  // True when there is no error. A text of unknown format is valid.
	Format string `json:"format"` // The format it was checked as; unknown when it was not checked.
	// Errors and warnings in order of position, at most 100 and one that gives
	// the number of the others.
	Errors  []SyntaxProblem `json:"errors"`
	Summary string          `json:"summary"` // One sentence.
	// What the check does not cover for this format.
	NotChecked string `json:"not_checked,omitempty"`
}

// Validate checks the syntax of a text before it is written: JSON, JSON lines,
// YAML, TOML, XML, Go, Python, LaTeX, the front matter of Markdown, and what
// [Options.Validators] adds. No external program is called, and nothing is
// changed on disk.
//
// Errors: [ErrTooLarge], the path details for an invalid target path, [ErrStoreClosed].
func (s *Store) Validate(ctx context.Context, r ValidateRequest) (ValidateResult, error) {
	return reading(ctx, s, "validate", r.TargetPath, r, func() (ValidateResult, error) {
		target, err := s.scanned(ctx, r.Content, r.TargetPath)
		if err != nil {
			return ValidateResult{}, err
		}
		return s.checkSyntax(ctx, r.FormatHint, target, r.Content)
	})
}

// checkSyntax runs the checker of a text's format. Secrets in what it quotes are
// redacted.
func (s *Store) checkSyntax(ctx context.Context, hint, target string, content []byte) (ValidateResult, error) {
	return aside.Run(ctx, len(content), func() ValidateResult {
		rep := s.checkNow(hint, target, content)
		out := ValidateResult{Valid: rep.Valid, Format: rep.Format, Errors: make([]SyntaxProblem, len(rep.Problems)), Summary: rep.Summary(), NotChecked: rep.NotChecked}
		for i, p := range rep.Problems {
			out.Errors[i] = SyntaxProblem(p)
			out.Errors[i].Message = s.hideName(p.Message)
		}
		return out
	})
}

func (s *Store) checkNow(hint, target string, content []byte) syntax.Report {
	hint = strings.ToLower(hint)
	for _, name := range []string{hint, strings.ToLower(path.Ext(target))} {
		if own, ok := s.opts.Validators[name]; ok && name != "" {
			var problems []syntax.Problem
			for _, p := range own(content) {
				problems = append(problems, syntax.Problem(p))
			}
			return syntax.NewReport(name, problems, "")
		}
	}
	return syntax.Check(syntax.Detect(hint, target, content), content)
}

// maxValidated is the size in bytes up to which a write checks the syntax of
// the whole final file.
const maxValidated = 16 << 20

// maxSyntaxShown is how many problems a refusal lists.
const maxSyntaxShown = 5

// wellFormed refuses a final file with invalid syntax, if the request asks for
// that.
func (c *commit) wellFormed(ctx context.Context, m *engine.Mutation) error {
	if !m.Validate || m.Op == engine.OpDelete || m.Unchanged() {
		return nil
	}
	if m.Size > maxValidated {
		m.Warn(WarnNotValidated)
		return nil
	}
	src := m.Final.Reader()
	if m.How == publish.Append {
		src = io.MultiReader(m.Prev.Reader(), src)
	}
	content, err := io.ReadAll(engine.NewStoppable(ctx, src))
	if err != nil {
		return err
	}
	rep, err := c.s.checkSyntax(ctx, "", m.Target.Path, content)
	if err != nil {
		return err
	}
	if rep.Valid {
		return nil
	}
	var shown []SyntaxProblem
	for _, p := range rep.Errors {
		if p.Severity == syntax.Error && len(shown) < maxSyntaxShown {
			shown = append(shown, p)
		}
	}
	e := fault.New(fault.SyntaxInvalid).With("format", rep.Format).With("errors", shown)
	if len(shown) > 0 {
		e.Hintf("line %d, column %d: %s; correct the text and send it again", shown[0].Line, shown[0].Col, shown[0].Message)
	}
	return e
}
