package resilientwrite

import (
	"context"

	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/internal/syntax"
)

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
// Errors: the common ones, [ErrTooLarge], the path details for an invalid
// target path.
func (s *Store) Validate(ctx context.Context, r ValidateRequest) (ValidateResult, error) {
	return reading(ctx, s, "validate", r.TargetPath, r, func() (ValidateResult, error) {
		target, err := s.scanned(ctx, r.Content, r.TargetPath)
		if err != nil {
			return ValidateResult{}, err
		}
		return validated(s.gate.CheckSyntax(ctx, r.FormatHint, target, r.Content))
	})
}

func validated(rep syntax.Report, err error) (ValidateResult, error) {
	if err != nil {
		return ValidateResult{}, err
	}
	return ValidateResult{
		Valid: rep.Valid, Format: rep.Format, Errors: syntaxProblems(rep.Problems), Summary: rep.Summary(), NotChecked: rep.NotChecked,
	}, nil
}
