package resilientwrite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/edit"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
)

// opEdit changes parts of an existing file.

// EditOp replaces one string of a file.
type EditOp struct {
	// The exact text to replace, with enough context to be unique. A newline
	// matches the line ending of the file.
	Old string `json:"old" required:"true"`
	// The replacement text.
	New string `json:"new" required:"true"`
	// How often old must occur: 1 exactly once, N exactly N times, -1 at least
	// once. All occurrences are replaced.
	Count int `json:"count,omitempty" default:"1" min:"-1"`
}

// EditRequest asks for strings of one file to be replaced.
type EditRequest struct {
	Call

	// Path of the file, relative to the workspace.
	Path string `json:"path" required:"true"`
	// Replacements, made in order, each on the result of the previous one; all or
	// none are applied.
	Edits []EditOp `json:"edits" required:"true"`
	// SHA-256 the file must have now, from Store.Read or the last reply.
	Expect Expect `json:"expected_prev_sha256,omitzero"`
	// What to do when the file changed since expected_prev_sha256: off refuses,
	// clean merges the change with those of others where no line of both touches.
	Merge MergeMode `json:"merge,omitempty" enum:"off,clean"`
	// Encoding of a file that is not UTF-8. Default: it is found; name it when
	// the call is refused because it could be several.
	Encoding string `json:"encoding,omitempty" enum:"utf-8,@charsets"`
	// Refuse a result with invalid syntax, judged by the extension of the path.
	Validate bool `json:"validate,omitempty"`
	// Allow a file of 1 KiB or more to shrink to less than a fifth of its size.
	AllowShrink bool `json:"allow_shrink,omitempty"`
	// Allow a read-only file to be changed.
	Force bool `json:"force,omitempty"`
	// true makes the content gate refuse secrets, false turns it off where the
	// policy allows. Default: the policy decides.
	Classify *bool `json:"classify,omitempty"`
	// Refuse content from this verdict on, where that is stricter than the
	// policy.
	ClassifyRejectAt Verdict `json:"classify_reject_at,omitempty" enum:"low,medium,high"`
}

// EditResult is what an edit did.
type EditResult struct {
	// Path of the file, relative to the workspace.
	Path string `json:"path"`
	// SHA-256 of the whole final file.
	SHA256 Digest `json:"sha256"`
	// Size of the whole final file in bytes.
	Bytes int64 `json:"bytes"`
	// The operation.
	ModeApplied string `json:"mode_applied" enum:"edit"`
	// Number of places replaced.
	Replacements int `json:"replacements"`
	// Encoding in which the file was edited, when it is not UTF-8; ascii when
	// only ASCII was replaced by ASCII and it is not known.
	Encoding string `json:"encoding,omitempty"`
	// Unified diff of the change, truncated when long; empty for large or binary
	// files.
	Diff string `json:"diff"`
	// True when the file had changed since expected_prev_sha256, and the edits
	// were merged with what others did.
	Merged bool `json:"merged,omitempty"`
	// What others did, as a diff from the version that was expected, without
	// secrets, truncated when long.
	OthersDiff string `json:"others_diff,omitempty"`
	// Identifier of the journal row; absent when nothing was written.
	JournalID string `json:"journal_id,omitempty"`
	// When, RFC 3339 UTC.
	WroteAt string `json:"wrote_at"`
	// Outcome of the call.
	Status Status `json:"status" enum:"succeeded,unchanged,replayed"`
	// What the caller should know although the call succeeded.
	Warnings []Warning `json:"warnings"`
	// The full record of the call.
	Receipt Receipt `json:"receipt"`
}

// Edit replaces exact strings of a file, all or none, with the promises of
// [Store.SafeWrite]. Bytes outside the replaced strings are never changed. In a
// file with CRLF, a newline of old matches CRLF, and new takes the style of what
// it replaces. A file that is not UTF-8 is matched in its encoding: that of its
// byte order mark, that of the request, or the only one that fits the file and
// the strings. A repeated idempotency key gets the first reply; its diff is made
// from history and is empty when the bytes are no longer kept.
//
// With [MergeClean], a request whose expected version is no longer current is
// applied to that version, if history keeps it, and merged with the changes that
// others made since; see [MergeMode].
//
// Errors: [ErrFileNotFound], [ErrNoEdits], [ErrEmptyOldString], [ErrOldStringNotFound]
// (with the closest line), [ErrAmbiguousMatch], [ErrTooManyMatches] and
// [ErrInsufficientMatches] (with the lines of the matches), [ErrNoChange] and
// [ErrNotUTF8] for a file that is no text or could have several encodings,
// [ErrNotEncodable], with nothing written; and those of SafeWrite, without the
// ones about a content that cannot be decoded.
func (s *Store) Edit(ctx context.Context, r EditRequest) (EditResult, error) {
	m := &engine.Mutation{
		Path: r.Path, Op: engine.OpEdit, AllowShrink: r.AllowShrink, Force: r.Force, Validate: r.Validate, Expected: r.Expect.hash(),
	}
	c := s.newCommit(ctx, r.request("edit", r))
	c.risk.classify, c.risk.rejectAt = r.Classify, r.ClassifyRejectAt
	c.Muts, c.ShowDiff = []*engine.Mutation{m}, true
	if e := cmp.Or(r.Call.check(ctx), c.risk.check(), r.Merge.check()); e != nil {
		return EditResult{}, c.Failed(e)
	}
	var done edit.Result
	m.Revise, m.Merge = revision(r.Edits, r.Encoding, &done), s.merger(r.Merge, m)
	c.Outcome = func() any { return outcome{Replacements: done.Replacements, Encoding: done.Encoding} }
	if err := s.commit(ctx, c); err != nil {
		return EditResult{}, err
	}
	rec, status := c.finished()
	if c.Replayed != nil {
		c.Diff = s.diffOf(c.Replayed)
	}
	merged, others := s.merged(ctx, c)
	return EditResult{
		Merged: merged, OthersDiff: others,
		Path: m.Path, SHA256: rec.SHA256, Bytes: rec.Bytes, ModeApplied: string(engine.OpEdit), Replacements: c.storedOutcome().Replacements, Encoding: c.storedOutcome().Encoding, Diff: c.Diff,
		JournalID: rec.JournalID, WroteAt: c.wroteAt(), Status: status, Warnings: rec.Warnings, Receipt: rec,
	}, nil
}

// revision makes the function that turns the old bytes into the new ones.
func revision(ops []EditOp, encoding string, done *edit.Result) engine.Reviser {
	list := make([]edit.Edit, len(ops))
	for i, op := range ops {
		list[i] = edit.Edit{Old: op.Old, New: op.New, Count: op.Count}
		if op.Count == 0 {
			list[i].Count = 1
		}
	}
	return func(ctx context.Context, before []byte) ([]byte, error) {
		out, err := edit.Apply(ctx, before, list, encoding)
		if err != nil {
			return nil, editFailure(err)
		}
		*done = out
		return out.Content, nil
	}
}

// editFailures maps each way in which an edit fails to its detail.
var editFailures = map[string]fault.Code{
	edit.NoEdits: fault.NoEdits, edit.EmptyOldString: fault.EmptyOldString, edit.OldStringNotFound: fault.OldStringNotFound,
	edit.AmbiguousMatch: fault.AmbiguousMatch, edit.InsufficientMatches: fault.InsufficientMatches, edit.TooManyMatches: fault.TooManyMatches,
	edit.NotUTF8: fault.NotUTF8, edit.NotEncodable: fault.NotEncodable, edit.BadEncoding: fault.InvalidArgument, edit.BadCount: fault.InvalidArgument, edit.NoChange: fault.NoChange, edit.ResultTooLarge: fault.TooLarge,
	edit.TooMuchWork: fault.TooLarge,
}

// editFailure reports which edit failed and what to do about it.
func editFailure(err error) error {
	var f *edit.Failure
	if !errors.As(err, &f) {
		return err
	}
	e := fault.New(editFailures[f.Reason])
	if f.Edit > 0 {
		e.With("edit", f.Edit)
	}
	if f.Matches > 0 {
		e.With("matches", f.Matches).With("lines", f.Lines)
	}
	switch {
	case f.Closest != nil:
		e.With("closest", map[string]any{"line": f.Closest.Line, "similarity": f.Closest.Similarity, "why": f.Closest.Why})
		e.Hintf("old is not in the file; line %d is closest (%s): read the file and copy the text exactly", f.Closest.Line, strings.ReplaceAll(f.Closest.Why, "_", " "))
	case f.Reason == edit.AmbiguousMatch:
		e.Hintf("old occurs %d times, on lines %s; include more context to make it unique, or pass count", f.Matches, numbers(f.Lines))
	case f.Reason == edit.InsufficientMatches, f.Reason == edit.TooManyMatches:
		e.Hintf("old occurs %d times, on lines %s; correct count", f.Matches, numbers(f.Lines))
	case f.Reason == edit.TooMuchWork:
		e.Hintf("a call has at most %d edits, and the number of edits times the size of the file is at most %d; send them in several calls", edit.MaxEdits, int64(edit.MaxWork))
	case f.Reason == edit.NotUTF8 && len(f.Encodings) > 0:
		e.Hintf("the file is not UTF-8 and could be %s; name its encoding with encoding", strings.Join(f.Encodings, " or ")).With("choices", f.Encodings)
	case f.Reason == edit.NotEncodable && f.Char != 0:
		e.Hintf("U+%04X of %s is not in %s, the encoding of the file; use other characters, or name another encoding with encoding", f.Char, map[bool]string{true: "new", false: "old"}[f.InNew], f.Encodings[0])
	case f.Reason == edit.BadEncoding:
		return badChoice("encoding", edit.Encodings()...)
	case f.Reason == edit.BadCount:
		e.Hintf("count must be 1 or more, or -1 for all").With("argument", "count")
	}
	return e
}

func numbers(list []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ", "), "[]")
}

// DeleteRequest asks for one file to be removed.
type DeleteRequest struct {
	Call `omit:"accept_risk"`

	// Path of the file, relative to the workspace.
	Path string `json:"path" required:"true"`
	// SHA-256 the file must have now.
	Expect Expect `json:"expected_prev_sha256,omitzero"`
	// Allow a read-only file to be removed.
	Force bool `json:"force,omitempty"`
}

// DeleteResult is what a deletion did.
type DeleteResult struct {
	// Path of the file, relative to the workspace.
	Path string `json:"path"`
	// SHA-256 of the deleted file; its content is kept in history.
	PrevSHA256 Digest `json:"prev_sha256"`
	// Size of the deleted file in bytes.
	PrevBytes int64 `json:"prev_bytes"`
	// Identifier of the journal row.
	JournalID string `json:"journal_id,omitempty"`
	// When, RFC 3339 UTC.
	WroteAt string `json:"wrote_at"`
	// Outcome of the call.
	Status Status `json:"status" enum:"succeeded,unchanged,replayed"`
	// What would be deleted, as a diff, truncated when long; dry run only.
	Diff string `json:"diff,omitempty"`
	// What the caller should know although the call succeeded.
	Warnings []Warning `json:"warnings"`
	// The full record of the call.
	Receipt Receipt `json:"receipt"`
}

// Delete removes one file. Its content is kept in history and can be restored. A
// symbolic link inside the workspace is followed: the target is removed, the link
// stays. Directories are not removed.
//
// Errors: the path details, [ErrNotFound], [ErrIsADirectory], [ErrHashMismatch],
// [ErrReadOnlyFile], [ErrIdempotencyKeyReused], [ErrLockTimeout], [ErrIOBusy],
// [ErrChangedDuringWrite], the storage details, [ErrStorePoisoned],
// [ErrStoreClosed], [ErrStoreReadOnly], [ErrCanceled]. After an error the file
// still exists, unless Effect reports otherwise.
func (s *Store) Delete(ctx context.Context, r DeleteRequest) (DeleteResult, error) {
	m := &engine.Mutation{Path: r.Path, Op: engine.OpDelete, Force: r.Force}
	req := r.request("delete", r)
	req.frees = true
	c := s.newCommit(ctx, req)
	c.Muts = []*engine.Mutation{m}
	m.Expected = r.Expect.hash()
	if e := r.Call.check(ctx); e != nil {
		return DeleteResult{}, c.Failed(e)
	}
	if err := s.commit(ctx, c); err != nil {
		return DeleteResult{}, err
	}
	rec, status := c.finished()
	out := DeleteResult{
		Path: m.Path, PrevSHA256: rec.PrevSHA256, PrevBytes: m.Prev.Stat.Size, JournalID: rec.JournalID,
		WroteAt: c.wroteAt(), Status: status, Diff: c.Diff, Warnings: rec.Warnings, Receipt: rec,
	}
	if c.Replayed != nil {
		out.PrevBytes = c.Replayed.Muts[0].PrevBytes
	}
	return out, nil
}
