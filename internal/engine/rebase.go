package engine

import (
	"bytes"
	"context"
	"errors"
	"io"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/aside"
	"github.com/resilientwrite/resilientwrite/internal/blob"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/merge"
)

// MergeLimit is the size in bytes up to which a text is merged.
const MergeLimit = 8 << 20

// A Merger merges what the caller and others made of base. It returns no bytes
// where that is not possible, with the lines of theirs that are in the way.
type Merger func(ctx context.Context, base, theirs, mine []byte) (merged []byte, lines []int, err error)

// mergeable reports whether a stale call may be merged with the current content, and
// takes the version that it expects.
func (m *Mutation) mergeable(s *Engine) (ok bool, err error) {
	if m.Merge == nil || m.Op != OpEdit && m.Op != OpOverwrite || m.Prev.Stat.Size > MergeLimit {
		return false, nil
	}
	m.base, err = s.kept(m.Target.Path, *m.Expected, MergeLimit)
	return m.base != nil, err
}

// kept reads a version of a file that history holds; nil when it does not, or when it is
// larger.
func (s *Engine) kept(path, sha string, limit int64) ([]byte, error) {
	switch sha {
	case "":
		return nil, nil
	case HashOf(nil):
		return []byte{}, nil
	}
	if err := s.Drain(); err != nil {
		return nil, err
	}
	_, _, last, err := s.NewNewest().Of(path)
	if err != nil {
		return nil, err
	}
	f, err := s.OpenVersion(sha, last)
	if IsAbsent(err) || errors.Is(err, blob.ErrDamaged) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil || int64(len(data)) > limit || HashOf(data) != sha {
		return nil, err
	}
	return data, nil
}

// rebase merges the content of a stale call with the current content.
func (m *Mutation) rebase(ctx context.Context, s *Engine) error {
	if m.base == nil {
		return nil
	}
	e, others := m.stale(ctx, s)
	if m.Final.Size() > MergeLimit {
		return e
	}
	theirs, err := io.ReadAll(NewStoppable(ctx, m.Prev.Reader()))
	if err != nil {
		return err
	}
	if HashOf(theirs) != m.Prev.SHA {
		return fault.New(fault.ChangedDuringWrite)
	}
	mine, err := io.ReadAll(NewStoppable(ctx, m.Final.Reader()))
	if err != nil {
		return err
	}
	for _, text := range [][]byte{m.base, theirs, mine} {
		if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
			return m.alreadyDone(e)
		}
	}
	merged, lines, err := m.Merge(ctx, m.base, theirs, mine)
	if err != nil {
		return err
	}
	if merged == nil {
		if len(lines) > 0 {
			e.With("conflict_lines", lines)
		}
		if diff := s.shownDiff(ctx, m.Target.Path, m.base, mine); diff != "" {
			e.With("your_diff", FirstLines(diff, ErrorLines))
		}
		return e
	}
	m.DropSpooled()
	m.Final, m.converted = MemBody(merged), true
	m.Base, m.Others = *m.Expected, others
	return nil
}

// orStale is the refusal of an edit that does not fit the version that its
// caller expects, which is not there any more.
func (m *Mutation) orStale(ctx context.Context, s *Engine, err error) error {
	if m.base == nil || ctx.Err() != nil {
		return err
	}
	e, _ := m.stale(ctx, s)
	return e
}

// stale is the refusal of a call that expects another version than there is. It
// shows what others changed since, where history holds that version; the whole
// diff is returned too.
func (m *Mutation) stale(ctx context.Context, s *Engine) (e *fault.Fault, others string) {
	e = fault.New(fault.HashMismatch).With("expected_prev_sha256", *m.Expected).With("actual_prev_sha256", m.Prev.SHA)
	base := m.base
	if m.Prev.Traits.nul || base == nil && m.Prev.Stat.Size > DiffLimit {
		return e, ""
	}
	if base == nil {
		base, _ = s.kept(m.Target.Path, *m.Expected, DiffLimit)
	}
	if base == nil {
		return e, ""
	}
	now, err := io.ReadAll(m.Prev.Reader())
	if err != nil {
		return e, ""
	}
	if others = s.shownDiff(ctx, m.Target.Path, base, now); others != "" {
		e.With("diff", FirstLines(others, ErrorLines))
	}
	return e, others
}

// shownDiff is a diff of a file without the secrets of both sides.
func (s *Engine) shownDiff(ctx context.Context, path string, before, after []byte) string {
	if !utf8.Valid(before) || !utf8.Valid(after) {
		return ""
	}
	from, to := merge.Names(path)
	before, after = s.Host.Redacted(ctx, path, before), s.Host.Redacted(ctx, path, after)
	diff, _ := aside.Run(ctx, len(before)+len(after), func() string {
		diff, _ := merge.Unified(from, to, before, after)
		return diff
	})
	return CutDiff(diff, DiffCap)
}

// KeptDiff is the diff between two versions of a file without their secrets, as
// far as history keeps both.
func (s *Engine) KeptDiff(ctx context.Context, path, from, to string) string {
	before, _ := s.kept(path, from, MergeLimit)
	after, _ := s.kept(path, to, MergeLimit)
	if before == nil || after == nil {
		return ""
	}
	return s.shownDiff(ctx, path, before, after)
}
