package gate

import (
	"context"
	"io"
	"path"
	"strings"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/aside"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/merge"
	"github.com/resilientwrite/resilientwrite/internal/syntax"
)

// MaxValidated is the size in bytes up to which a write checks the syntax of
// the whole final file.
const MaxValidated = 16 << 20

// maxSyntaxShown is how many problems a refusal lists.
const maxSyntaxShown = 5

// CheckSyntax runs the checker of a text's format, that of the host if there is
// one. Secrets in what it quotes are redacted.
func (l *Layer) CheckSyntax(ctx context.Context, hint, target string, content []byte) (syntax.Report, error) {
	return aside.Run(ctx, len(content), func() syntax.Report {
		rep := l.checkNow(strings.ToLower(hint), target, content)
		for i, p := range rep.Problems {
			rep.Problems[i].Message = l.HideName(p.Message)
		}
		return rep
	})
}

func (l *Layer) checkNow(hint, target string, content []byte) syntax.Report {
	for _, name := range []string{hint, strings.ToLower(path.Ext(target))} {
		if l.Validators != nil && name != "" {
			if problems, ok := l.Validators(name, content); ok {
				return syntax.NewReport(name, problems, "")
			}
		}
	}
	return syntax.Check(syntax.Detect(hint, target, content), content)
}

// wellFormed refuses final files with invalid syntax, if the request asks for
// that. The context of the refusal has the problems as []syntax.Problem.
func (c *Check) wellFormed(ctx context.Context) error {
	for _, m := range c.Commit.Muts {
		if !m.Validate || m.Op == engine.OpDelete || m.Unchanged() {
			continue
		}
		if m.Size > MaxValidated {
			m.Warn(call.WarnNotValidated)
			continue
		}
		if err := c.fileWellFormed(ctx, m); err != nil {
			return c.Commit.About(m, err)
		}
	}
	return nil
}

func (c *Check) fileWellFormed(ctx context.Context, m *engine.Mutation) error {
	src := m.Final.Reader()
	if m.Primitive == publish.Append {
		src = io.MultiReader(m.Prev.Reader(), src)
	}
	content, err := io.ReadAll(engine.NewStoppable(ctx, src))
	if err != nil {
		return err
	}
	rep, err := c.Layer.CheckSyntax(ctx, "", m.Target.Path, content)
	if err != nil || rep.Valid {
		return err
	}
	var shown []syntax.Problem
	for _, p := range rep.Problems {
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

// The values of a mode of merging.
const (
	MergeOff   = "off"
	MergeClean = "clean"
)

// Merger returns how a stale call with the given mode is merged; nil: it is
// refused. The key merge of the policy file applies to calls that name no mode,
// and off applies to all.
func (l *Layer) Merger(asked string, m *engine.Mutation) engine.Merger {
	set := l.Policy().File.Merge
	if asked == "" {
		asked = set
	}
	if asked != MergeClean || set == MergeOff {
		return nil
	}
	return func(ctx context.Context, base, theirs, mine []byte) ([]byte, []int, error) {
		content, lines, err := merge.Clean(base, theirs, mine)
		if err != nil || content == nil {
			return nil, lines, err
		}
		rep, err := l.CheckSyntax(ctx, "", m.Target.Path, content)
		if err != nil || !rep.Valid {
			return nil, nil, err
		}
		return content, nil, nil
	}
}
