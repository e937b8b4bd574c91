package resilientwrite

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/internal/changes"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	handoffs "github.com/resilientwrite/resilientwrite/internal/layer/handoff"
)

// HandoffWrite writes what one agent leaves for the next: a Markdown file with
// the envelope as YAML front matter and a body that is preserved byte for byte.
// The envelope is validated (required fields, hashes, a dependency graph without
// cycles), updated_at is filled in, and every file of last_good_state is compared
// with the current content.
//
// With Archive the previous handoff moves to the state directory in the same
// commit, under a unique name that begins with its task_id. Without Archive,
// the same happens to a handoff that no one has acknowledged by
// [Store.HandoffRead] since it was written, and to a file that is not a
// handoff. The previous content goes into history as well, as with any write.
// The content gate judges the whole file.
//
// The front matter has at most 1 MiB, the file 64 MiB. Errors: those of
// [Store.SafeWrite], [ErrMissingFields], [ErrDuplicateStep], [ErrUnknownStep],
// [ErrDependencyCycle], [ErrStateDrift] when strict, [ErrNotValidUTF8].
func (s *Store) HandoffWrite(
	ctx context.Context, r handoff.WriteRequest,
) (handoff.WriteResult, error) {
	r.Path = cmp.Or(r.Path, handoff.DefaultPath)
	req := requestOf(r.Call, "handoff_write", r)
	req.complete = r.Envelope.Status == handoff.Complete
	c := s.newCommit(ctx, req)
	w := s.handoffs.NewWrite(c.Commit, r, changes.HandedOver(c.Commit, c.session).Made)
	c.check(w.Check())
	refs, plan := []string{}, c.Plan
	c.Plan = func(ctx context.Context) (err error) {
		if refs, err = s.checkpoints.Names(); err != nil {
			return err
		}
		return plan(ctx)
	}
	if err := s.commit(ctx, c); err != nil {
		if c.bad == nil { // there are two files in the commit; the error is about this one
			err = s.errorAt("handoff_write", c.First().Path, err)
		}
		return handoff.WriteResult{}, err
	}
	return handoff.WriteResult{
		Receipt: c.finished(), HandoffPath: c.First().Path, DriftWarnings: append([]handoff.Drift{}, w.Drift...), CheckpointRefs: refs,
		ArchivedPath: w.Archived, Diff: c.Diff,
	}, nil
}

// HandoffRead returns a handoff: its envelope, its body, the files that differ
// from last_good_state, the steps that can be worked on, the existing checkpoints
// and archives, and who has read it. It accepts what people write by hand:
// unquoted timestamps and numbers, comments, CRLF, a byte order mark, a single
// text in place of a list. A missing required field is reported, not refused.
//
// With AcknowledgeAs it durably records that this version was read; reading does
// not change the handoff itself. An archive whose bytes were changed goes to
// quarantine/.
//
// A handoff has at most 64 MiB. Errors: the common ones, the path details,
// [ErrNotFound], [ErrMissingDelimiter], [ErrUnterminatedFrontMatter],
// [ErrFrontMatterNotMapping], [ErrYAML] with line and column of the file,
// [ErrBadEnvelope] with the field, [ErrTooLarge], [ErrStateDrift] when strict,
// [ErrHashDriftOnRead] for an archive; with AcknowledgeAs also those of every
// write and [ErrRiskBlocked].
func (s *Store) HandoffRead(
	ctx context.Context, r handoff.ReadRequest,
) (handoff.ReadResult, error) {
	r.Path = cmp.Or(r.Path, handoff.DefaultPath)
	var req any = r
	if r.Optional {
		req = []any{r} // another call: the failures of one that is not do not count
	}
	var d handoffs.Doc
	absent := false
	out, err := reading(ctx, s, "handoff_read", r.Path, req, func() (out handoff.ReadResult, err error) {
		if e := checkReader(r); e != nil {
			return out, e
		}
		out, d, err = s.handoffs.Read(ctx, r)
		if f := (*fault.Fault)(nil); r.Optional && errors.As(err, &f) && f.Code == fault.NotFound {
			absent = true
			return handoff.ReadResult{}, nil
		}
		if err == nil {
			out.CheckpointRefs, err = s.checkpoints.Names()
		}
		return out, err
	})
	if err == nil && r.AcknowledgeAs != "" && !absent {
		err = s.acknowledge(ctx, r, d, &out)
	} else if err != nil {
		err = s.errorAt("handoff_read", d.Path, err)
	}
	if err != nil {
		return handoff.ReadResult{}, err
	}
	return out, nil
}

func checkReader(r handoff.ReadRequest) *fault.Fault {
	if e := checkLabels(r.Caller, r.Session, ""); e != nil {
		return e
	}
	name := r.AcknowledgeAs
	if len(name) > maxLabel || !utf8.ValidString(name) || name != "" && strings.TrimSpace(name) == "" {
		return fault.New(fault.InvalidArgument).With("argument", "acknowledge_as").Hintf("acknowledge_as must be valid UTF-8 of at most %d bytes and not blank", maxLabel)
	}
	return nil
}

// acknowledge records that an agent has read a handoff.
func (s *Store) acknowledge(ctx context.Context, r handoff.ReadRequest, d handoffs.Doc, out *handoff.ReadResult) error {
	c := s.newCommit(ctx, request{args: r, op: "handoff_read", caller: r.Caller, session: r.Session})
	a, err := s.handoffs.NewAcknowledgment(c.Commit, d, r.AcknowledgeAs)
	if err != nil {
		return c.Failed(err)
	}
	if err := s.commit(ctx, c); err != nil {
		return err
	}
	rec := c.finished()
	out.ReadBy, out.JournalID, out.Receipt = a.Readers, rec.JournalID, &rec
	out.Warnings = append(out.Warnings, rec.Warnings...)
	return nil
}
