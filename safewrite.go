package resilientwrite

import (
	"cmp"
	"context"
	"io"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/gate"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// WriteMode is what a write does with a file that is already there.
type WriteMode string

const (
	ModeCreate    WriteMode = "create"    // refuse an existing file
	ModeOverwrite WriteMode = "overwrite" // replace it, or create it
	ModeAppend    WriteMode = "append"    // add to its end, or create it
)

// SafeWriteRequest asks for one file to be written. Content is the bytes themselves;
// only in JSON may they be base64.
type SafeWriteRequest struct {
	Call

	Path string `json:"path" required:"true"` // Path of the file, relative to the workspace.
	// The text to write, or base64 when encoding is base64. May be empty. For
	// long text send the first part with mode create and the others with mode
	// append.
	Content []byte `json:"content" required:"true"`
	// create refuses an existing file, overwrite replaces it, append adds to its
	// end; overwrite and append create a missing file.
	Mode WriteMode `json:"mode,omitempty" enum:"create,overwrite,append" default:"create"`
	// How content is encoded. Use base64 for bytes that are not UTF-8 text.
	_ schema.Encoding `wire:"encoding,omitempty" enum:"utf-8,base64" default:"utf-8"`
	// SHA-256 the file must have now, from Store.Read or the last reply; the empty
	// string means that it must not exist. Use it whenever you replace what you
	// read.
	Expect Expect `json:"expected_prev_sha256,omitzero"`
	// What mode overwrite does when the file changed since expected_prev_sha256:
	// off refuses, clean merges the content with what others did where no line of
	// both touches.
	Merge MergeMode `json:"merge,omitempty" enum:"off,clean"`
	// Refuse a final file with invalid syntax, judged by the extension of the
	// path; see Store.Validate.
	Validate bool `json:"validate,omitempty"`
	// Line endings: as_is writes the content as sent, preserve uses those of the
	// file, lf and crlf convert.
	EOL string `json:"eol,omitempty" enum:"as_is,preserve,lf,crlf" default:"as_is"`
	// Byte order mark: preserve keeps that of the file.
	BOM string `json:"bom,omitempty" enum:"as_is,preserve" default:"as_is"`
	// Allow a file of 1 KiB or more to shrink to less than a fifth of its size.
	AllowShrink bool `json:"allow_shrink,omitempty"`
	Force       bool `json:"force,omitempty"` // Allow a read-only file to be replaced.
	// true makes the content gate refuse secrets, false turns it off where the
	// policy allows. Default: the policy decides.
	Classify *bool `json:"classify,omitempty"`
	// Refuse content from this verdict on. It can be stricter than the policy,
	// not weaker unless the policy allows.
	ClassifyRejectAt Verdict `json:"classify_reject_at,omitempty" enum:"low,medium,high"`
	// SHA-256 of the bytes sent; a mismatch means that the call was truncated.
	ContentSHA256 Digest `json:"content_sha256,omitzero"`
}

// SafeWriteResult is what a write did.
type SafeWriteResult struct {
	Receipt `json:"receipt" copies:"path,sha256,bytes,journal_id,wrote_at,status,warnings"`
	// The operation: create, overwrite or append.
	ModeApplied string `json:"mode_applied" enum:"create,overwrite,append"`
	// Unified diff, truncated when long; dry run only.
	Diff string `json:"diff,omitempty"`
	// True when the file had changed since expected_prev_sha256, and the content
	// was merged with what others did.
	Merged bool `json:"merged,omitempty"`
	// What others did, as a diff from the version that was expected, without
	// secrets, truncated when long.
	OthersDiff string `json:"others_diff,omitempty"`
}

// SafeWrite creates, replaces or appends to one file so that a crash leaves
// the old bytes or the new ones, never a mixture. (Bytes that are appended to
// an existing file are the exception for readers: while they are written a
// reader may see the first part of them.)
//
// When it returns nil at [SyncFull], the bytes, their name, every directory
// that was made and the journal row are on stable storage. Mode bits, owner,
// extended attributes and ACLs of a replaced file are kept; what cannot be
// kept is a warning. Symbolic links inside the workspace are followed and
// stay. The previous version goes into history.
//
// Errors: those of every write, the path details, [ErrFileAlreadyExists],
// [ErrHashMismatch], [ErrDestructiveShrink], [ErrReadOnlyFile],
// [ErrHardLinkRefused], [ErrChangedDuringWrite], [ErrBadSHA256],
// [ErrContentHashMismatch], [ErrTooLarge], [ErrRiskBlocked] (the draft is kept, see
// [Store.DraftGet]). Effect reports what is on disk; for EffectUnknown open the
// store again.
func (s *Store) SafeWrite(ctx context.Context, r SafeWriteRequest) (SafeWriteResult, error) {
	c, m := s.newWrite(ctx, &r)
	if c.check(s.takes(ctx, r.Content)); c.bad == nil {
		defer c.Wait()
		sum := c.Hold(ctx, m, r.Content)
		c.Req.Hash = r.hash(sum)
		c.check(compareContent(r.ContentSHA256, sum))
	}
	if c.bad != nil {
		c.Req.Hash = r.hash("raw " + engine.HashOf(r.Content))
	}
	return c.wrote(ctx, s.commit(ctx, c))
}

// SafeWriteFrom is [Store.SafeWrite] with the content read from src, of any
// length and in constant memory: the content is copied to the state directory and
// read to its end before the path is locked. Content of the request must be
// empty. An error of src is returned as the cause of the error, with nothing
// written.
func (s *Store) SafeWriteFrom(
	ctx context.Context, r SafeWriteRequest, src io.Reader,
) (SafeWriteResult, error) {
	c, m := s.newWrite(ctx, &r)
	if len(r.Content) > 0 {
		c.check(fault.New(fault.InvalidArgument).Hintf("the content is read from the reader; leave content empty").With("argument", "content"))
	}
	if src == nil {
		c.check(fault.New(fault.InvalidArgument).Hintf("give a reader of the content").With("argument", "src"))
	}
	c.Req.Hash = r.hash("")
	return c.wrote(ctx, s.commitPrepared(ctx, c, func(ctx context.Context) error {
		sum, err := c.Take(ctx, m, src)
		if err != nil && s.engine.ErrorOf(err).Code == fault.Internal { // those of the store have a detail
			err = fault.New(fault.InvalidArgument).With("argument", "content").Hintf("the content could not be read from its source; nothing was written").Because(err)
		}
		if e := compareContent(r.ContentSHA256, sum); err == nil && e != nil {
			err = e
		}
		if err != nil { // what did not arrive whole cannot be compared with what comes next
			sum = "stream " + c.Inv
		}
		c.Req.Hash = r.hash(sum)
		return err
	}))
}

// newWrite makes the commit of a write request.
func (s *Store) newWrite(ctx context.Context, r *SafeWriteRequest) (*commit, *engine.Mutation) {
	r.Mode = cmp.Or(r.Mode, ModeCreate)
	m := &engine.Mutation{
		Path: r.Path, Op: engine.WriteOp(r.Mode), EOL: r.EOL, BOM: r.BOM,
		AllowShrink: r.AllowShrink, Force: r.Force, Validate: r.Validate, Expected: r.Expect.Hash(),
	}
	req := requestOf(r.Call, "safe_write", nil)
	req.args, req.risk.Classify, req.risk.RejectAt = r, r.Classify, string(r.ClassifyRejectAt)
	c := s.newCommit(ctx, req)
	c.Muts, m.Merge = []*engine.Mutation{m}, s.gate.Merger(string(r.Merge), m)
	c.check(r.check())
	return c, m
}

// check validates the arguments that need no access to the disk.
func (r *SafeWriteRequest) check() *fault.Fault {
	return cmp.Or(
		fault.CheckChoice("mode", r.Mode, ModeCreate, ModeOverwrite, ModeAppend),
		fault.CheckChoice("eol", r.EOL, "as_is", "preserve", "lf", "crlf"),
		fault.CheckChoice("bom", r.BOM, "as_is", "preserve"),
		gate.Risk{RejectAt: string(r.ClassifyRejectAt)}.Check(), r.Merge.check(),
	)
}

// hash returns the identity of a write of content with the given SHA-256.
func (r SafeWriteRequest) hash(sum string) string {
	r.Content, r.ContentSHA256 = []byte(sum), Digest{}
	return identity("safe_write", r)
}

// compareContent detects content that was truncated on its way here.
func compareContent(promised Digest, arrived string) *fault.Fault {
	if promised.IsZero() || promised.String() == arrived {
		return nil
	}
	return fault.New(fault.ContentHashMismatch).With("content_sha256", promised.String()).With("arrived_sha256", arrived)
}

// wrote makes the reply of a write that ended with err.
func (c *commit) wrote(ctx context.Context, err error) (SafeWriteResult, error) {
	c.GiveBack()
	if err != nil {
		return SafeWriteResult{}, err
	}
	rec := c.finished()
	merged, others := c.merged(ctx)
	return SafeWriteResult{Receipt: rec, ModeApplied: string(c.First().Applied), Diff: c.Diff, Merged: merged, OthersDiff: others}, nil
}

// Warn adds a warning that the adapter reports.
func (r *SafeWriteResult) Warn(reason string) {
	r.Warnings = append(r.Warnings, call.WarningOf(reason))
}
