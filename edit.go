package resilientwrite

import (
	"cmp"
	"context"
	"errors"

	"github.com/resilientwrite/resilientwrite/internal/edit"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/versions"
)

// EditOp replaces one string of a file.
type EditOp struct {
	// The exact text to replace, with enough context to be unique. A newline
	// matches the line ending of the file.
	Old string `json:"old" required:"true"`
	New string `json:"new" required:"true"` // The replacement text.
	// How often old must occur: 1 exactly once, N exactly N times, -1 at least
	// once. All occurrences are replaced.
	Count int `json:"count,omitempty" default:"1" min:"-1"`
}

// EditRequest asks for strings of one file to be replaced.
type EditRequest struct {
	Call

	Path string `json:"path" required:"true"` // Path of the file, relative to the workspace.
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
	Force       bool `json:"force,omitempty"` // Allow a read-only file to be changed.
	// true makes the content gate refuse secrets, false turns it off where the
	// policy allows. Default: the policy decides.
	Classify *bool `json:"classify,omitempty"`
	// Refuse content from this verdict on, where that is stricter than the
	// policy.
	ClassifyRejectAt Verdict `json:"classify_reject_at,omitempty" enum:"low,medium,high"`
}

// EditResult is what an edit did.
type EditResult struct {
	Receipt `json:"receipt" copies:"path,sha256,bytes,journal_id,wrote_at,status,warnings"`
	// The operation.
	ModeApplied  string `json:"mode_applied" enum:"edit"`
	Replacements int    `json:"replacements"` // Number of places replaced.
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
	c := s.newCommit(ctx, requestOf(r.Call, "edit", r))
	c.Risk.Classify, c.Risk.RejectAt = r.Classify, string(r.ClassifyRejectAt)
	c.check(cmp.Or(c.Risk.Check(), r.Merge.check()))
	var done edit.Result
	m := &engine.Mutation{
		Path: r.Path, Op: engine.OpEdit, AllowShrink: r.AllowShrink, Force: r.Force, Validate: r.Validate, Expected: r.Expect.Hash(),
		Revise: revision(r.Edits, r.Encoding, &done),
	}
	m.Merge = s.gate.Merger(string(r.Merge), m)
	c.Muts, c.ShowDiff = []*engine.Mutation{m}, true
	c.Outcome = func() any { return outcome{Replacements: done.Replacements, Encoding: done.Encoding} }
	if err := s.commit(ctx, c); err != nil {
		return EditResult{}, err
	}
	rec := c.finished()
	if c.Replayed != nil {
		c.Diff = versions.DiffOf(s.versions, s.observed, c.Replayed)
	}
	merged, others := c.merged(ctx)
	return EditResult{
		Receipt: rec, ModeApplied: string(engine.OpEdit), Replacements: c.storedOutcome().Replacements,
		Encoding: c.storedOutcome().Encoding, Diff: c.Diff, Merged: merged, OthersDiff: others,
	}, nil
}

// revision makes the function that turns the old bytes into the new ones.
func revision(ops []EditOp, encoding string, done *edit.Result) engine.Reviser {
	list := make([]edit.Edit, len(ops))
	for i, op := range ops {
		list[i] = edit.Edit(op)
		if op.Count == 0 {
			list[i].Count = 1
		}
	}
	return func(ctx context.Context, before []byte) ([]byte, error) {
		var f *edit.Failure
		var err error
		if *done, err = edit.Apply(ctx, before, list, encoding); errors.As(err, &f) {
			err = f.Fault()
		}
		return done.Content, err
	}
}

// MergeMode says how a write or an edit is handled whose expected version is no
// longer the current one.
//
// A merge takes three texts: the version that the call expects, which history
// must still keep, what others made of it, and what the call makes of it. Changes
// with at least one unchanged line between them are both applied; equal ones
// count once. It decides as git merge-file does. The texts must be UTF-8 of at
// most 8 MiB, and the result must pass the syntax check of its format. Everything
// else is refused with [ErrHashMismatch], as without a merge; the refusal
// shows both sides. The gate, the verifiers and the journal see the merged bytes.
type MergeMode string

const (
	// MergeOff refuses it, with ErrHashMismatch.
	MergeOff MergeMode = "off"
	// MergeClean merges it where that is possible without a conflict. The policy
	// file can forbid it.
	MergeClean MergeMode = "clean"
)

func (m MergeMode) check() *fault.Fault {
	return fault.CheckChoice("merge", m, MergeOff, MergeClean)
}
