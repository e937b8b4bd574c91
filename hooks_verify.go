package resilientwrite

import (
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fault"
)

// VerifyStaged passes the staged files to the verifiers.
func (c *commit) VerifyStaged(ctx context.Context) error {
	list := c.s.opts.Hooks.Verify
	if len(list) == 0 || c.s.engine.RealRoot == "" {
		return nil
	}
	view := c.view()
	if len(view.Files) == 0 {
		return nil
	}
	limit := c.s.opts.VerifyTimeout
	if limit <= 0 {
		limit = defaultVerifyTimeout
	}
	within, stop := context.WithTimeout(ctx, limit)
	defer stop()
	for _, v := range list {
		err := runVerify(within, v, view, grace(limit))
		if err == nil {
			continue
		}
		if ctx.Err() != nil {
			return fault.New(fault.Canceled).Because(err)
		}
		if within.Err() != nil {
			err = fmt.Errorf("the check took longer than %v: %w", limit, err)
		}
		e := fault.New(fault.VerifyFailed).Because(err)
		text := err.Error()
		for _, f := range view.Files {
			if f.Staged != "" {
				text = strings.ReplaceAll(text, f.Staged, f.Path)
			}
		}
		if lines := c.s.shownLines(ctx, text); lines != "" {
			e.With("output", lines)
		}
		var one *FileError
		for _, m := range c.Muts {
			if errors.As(err, &one) && !m.Private && m.Target.Path == one.Path {
				return c.About(m, e)
			}
		}
		return e
	}
	return nil
}

// view returns the commit as passed to a verifier.
func (c *commit) view() StagedCommit {
	view := StagedCommit{HookCall: c.operation(), Root: c.s.engine.RealRoot}
	for _, m := range c.Muts {
		if m.Private {
			continue
		}
		f := StagedFile{Path: m.Target.Path, Append: m.How == publish.Append}
		if m.Op != engine.OpDelete {
			f.Staged = c.s.stagedPlace(m)
		}
		view.Files = append(view.Files, f)
	}
	return view
}

// stagedPlace returns the path of the final bytes, for programs; for a move, that
// of the file itself.
func (s *Store) stagedPlace(m *engine.Mutation) string {
	if m.Source != nil {
		return filepath.Join(s.engine.RealRoot, filepath.FromSlash(m.Source.Target.Path))
	}
	if in := m.SlotDir(); in != "" {
		return filepath.Join(s.engine.RealRoot, filepath.FromSlash(in), m.Slot.Name)
	}
	return filepath.Join(s.engine.StatePlace, "staging", m.Slot.Name)
}

// grace returns how long a verifier may take to end after its context did. The
// last output of a killed command is worth a short wait, but not a long one:
// other writers wait for the locks.
func grace(limit time.Duration) time.Duration {
	return min(max(limit/4, 100*time.Millisecond), 2*time.Second)
}

// runVerify runs one verifier, and does not wait for one that never ends, because
// the locks are held.
func runVerify(ctx context.Context, v Verifier, view StagedCommit, grace time.Duration) error {
	done := make(chan error, 1)
	go func() {
		err := errors.New("a verifier returned no answer")
		defer func() {
			if recover() != nil {
				err = errors.New("a verifier panicked")
			}
			done <- err
		}()
		view.Changes, view.Files = slices.Clone(view.Changes), slices.Clone(view.Files)
		err = v.Verify(ctx, view)
	}()
	late := make(<-chan time.Time)
	stop := ctx.Done()
	for {
		select {
		case err := <-done:
			if err == nil {
				err = ctx.Err()
			}
			return err
		case <-stop:
			stop, late = nil, time.After(grace)
		case <-late:
			return errors.New("a verifier continues after its time limit")
		}
	}
}

// shownLines returns the start of a verifier's output as an error may show it:
// redacted, and without paths outside the workspace.
func (s *Store) shownLines(ctx context.Context, text string) string {
	text = strings.ToValidUTF8(text, "?")
	if s.engine.RealRoot != "" {
		for _, sep := range []string{string(filepath.Separator), "/"} {
			text = strings.ReplaceAll(text, s.engine.StatePlace+sep, engine.StateDirName+"/")
			text = strings.ReplaceAll(text, s.engine.RealRoot+sep, "")
		}
	}
	opt := s.policy().Options("")
	opt.Context = ctx
	clean, _ := s.policy().Scanner.Redact([]byte(text), opt) // first: a line of a key may look like a path
	text = absolutePath.ReplaceAllStringFunc(string(clean), func(found string) string {
		from := absolutePath.FindStringSubmatchIndex(found)[4]
		return found[:from] + "…/" + path.Base(strings.ReplaceAll(found[from:], `\`, "/"))
	})
	return engine.FirstLines(text, engine.ErrorLines)
}

// absolutePath matches what looks like an absolute path, after what may precede
// one. A comment, a lone slash and a URL do not match.
var absolutePath = regexp.MustCompile("(?m)(^|[\\s\"'`(=<\\[,;:|])((?:[A-Za-z]:[\\\\/]|\\\\\\\\|/)[^\\s/\\\\\"'`()<>,;:|\\[\\]][^\\s\"'`()<>,;:|\\[\\]]*)")
