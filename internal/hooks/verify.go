package hooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/hook"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fault"
)

// Verifies reports whether verifiers inspect the staged files.
func (r *Run) Verifies() bool { return len(r.Hooks.Verify) > 0 }

// VerifyStaged passes the staged files to the verifiers.
func (r *Run) VerifyStaged(ctx context.Context) error {
	list := r.Hooks.Verify
	if len(list) == 0 || r.Hooks.RealRoot == "" {
		return nil
	}
	c, view := r.Gate.Commit, r.view()
	if len(view.Files) == 0 {
		return nil
	}
	limit := r.Hooks.VerifyTimeout
	if limit <= 0 {
		limit = time.Minute
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
		if lines := r.Hooks.shownLines(ctx, text); lines != "" {
			e.With("output", lines)
		}
		var about *hook.FileError
		errors.As(err, &about)
		for _, m := range c.Muts {
			if about != nil && !m.Private && m.Target.Path == about.Path {
				return c.About(m, e)
			}
		}
		return e
	}
	return nil
}

// view returns the commit as passed to a verifier.
func (r *Run) view() hook.Staged {
	c := r.Gate.Commit
	view := hook.Staged{Call: callOf(c), Root: r.Hooks.RealRoot}
	for _, m := range c.Muts {
		if m.Private {
			continue
		}
		f := hook.File{Path: m.Target.Path, Append: m.Primitive == publish.Append}
		if m.Op != engine.OpDelete {
			f.Staged = r.Hooks.stagedPlace(m)
		}
		view.Files = append(view.Files, f)
	}
	return view
}

// stagedPlace returns the path of the final bytes, for programs; for a move, that
// of the file itself.
func (l *Layer) stagedPlace(m *engine.Mutation) string {
	if m.Source != nil {
		return filepath.Join(l.RealRoot, filepath.FromSlash(m.Source.Target.Path))
	}
	if in := m.SlotDir(); in != "" {
		return filepath.Join(l.RealRoot, filepath.FromSlash(in), m.Slot.Name)
	}
	return filepath.Join(l.StatePlace, "staging", m.Slot.Name)
}

// grace returns how long a verifier may take to end after its context did. The
// last output of a killed command is worth a short wait, but not a long one:
// other writers wait for the locks.
func grace(limit time.Duration) time.Duration {
	return min(max(limit/4, 100*time.Millisecond), 2*time.Second)
}

// runVerify runs one verifier, and does not wait for one that never ends, because
// the locks are held.
func runVerify(ctx context.Context, v hook.Verifier, view hook.Staged, grace time.Duration) error {
	view.Call, view.Files = own(view.Call), slices.Clone(view.Files)
	done := make(chan error, 1)
	go func() {
		err := errors.New("a verifier returned no answer") // it ended its goroutine
		defer func() { done <- err }()
		_, err = contained("a verifier panicked", func() (text string, err error) {
			if err = v.Verify(ctx, view); err != nil {
				text = err.Error() // which must not panic later
			}
			return text, err
		})
	}()
	select {
	case err := <-done:
		return cmp.Or(err, ctx.Err())
	case <-ctx.Done():
	}
	select {
	case err := <-done:
		return cmp.Or(err, ctx.Err())
	case <-time.After(grace):
		return errors.New("a verifier continues after its time limit")
	}
}

// shownLines returns the start of a verifier's output as an error may show it:
// redacted, and without paths outside the workspace.
func (l *Layer) shownLines(ctx context.Context, text string) string {
	text = strings.ToValidUTF8(text, "?")
	if l.RealRoot != "" {
		for _, sep := range []string{string(filepath.Separator), "/"} {
			text = strings.ReplaceAll(text, l.StatePlace+sep, engine.StateDirName+"/")
			text = strings.ReplaceAll(text, l.RealRoot+sep, "")
		}
	}
	opt := l.Gate.Policy().Options("")
	opt.Context = ctx
	clean, _ := l.Gate.Policy().Scanner().Redact([]byte(text), opt) // first: a line of a key may look like a path
	text = absolutePath.ReplaceAllStringFunc(string(clean), func(found string) string {
		from := absolutePath.FindStringSubmatchIndex(found)[4]
		return found[:from] + "…/" + path.Base(strings.ReplaceAll(found[from:], `\`, "/"))
	})
	return engine.FirstLines(text, engine.ErrorLines)
}

// absolutePath matches what looks like an absolute path, after what may precede
// one. A comment, a lone slash and a URL do not match.
var absolutePath = regexp.MustCompile("(?m)(^|[\\s\"'`(=<\\[,;:|])((?:[A-Za-z]:[\\\\/]|\\\\\\\\|/)[^\\s/\\\\\"'`()<>,;:|\\[\\]][^\\s\"'`()<>,;:|\\[\\]]*)")
