package resilientwrite

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/adapter"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/isoduration"
	"github.com/resilientwrite/resilientwrite/internal/layer/scratch"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

const maxNotes = 2000 // characters

// ScratchPutRequest asks for something to be kept apart.
type ScratchPutRequest struct {
	Call `omit:"accept_risk"`

	// The content to keep, or base64 when encoding is base64. Secrets are allowed
	// here; the content never reaches the workspace.
	Content []byte `json:"content" required:"true"`
	// How content is encoded. Use base64 for bytes that are not UTF-8 text.
	_ schema.Encoding `wire:"encoding,omitempty" enum:"utf-8,base64" default:"utf-8"`
	// A label to find it by. Several objects may share a label; the newest is
	// returned.
	Label string `json:"label,omitempty" maxlen:"200"`
	// Media type, such as text/plain.
	ContentType string `json:"content_type,omitempty" maxlen:"200"`
	// Remarks. Put no secrets here: notes are listed.
	Notes string `json:"notes,omitempty" maxlen:"2000"`
	// How long to keep it, an ISO 8601 duration such as PT12H or P1W. Default:
	// until it is deleted.
	TTL string `json:"ttl,omitempty" maxlen:"100"`
}

// ScratchPutResult is what a put did.
type ScratchPutResult struct {
	// SHA-256 of the bytes; Store.ScratchGet takes it.
	SHA256 Digest `json:"sha256"`
	// Path of the bytes in the state directory.
	ScratchPath string `json:"scratch_path"`
	// Size in bytes.
	Bytes int64 `json:"bytes"`
	// True when the same bytes were already stored; they are stored once.
	Deduped bool `json:"deduped"`
	// True when the stored bytes were damaged and were replaced; the damaged copy
	// is in quarantine.
	Repaired bool `json:"repaired"`
	// When it expires, RFC 3339 UTC; absent when it does not.
	ExpiresAt string `json:"expires_at,omitempty"`
	// Number of expired objects removed during the call.
	ExpiredRemoved int `json:"expired_removed"`
	// Identifier of the journal row; absent for a dry run.
	JournalID string `json:"journal_id,omitempty"`
	// Outcome of the call.
	Status Status `json:"status" enum:"succeeded,unchanged,replayed"`
	// What the caller should know although the call succeeded.
	Warnings []Warning `json:"warnings"`
	// The full record of the call.
	Receipt Receipt `json:"receipt"`
}

// ScratchPut keeps bytes in the scratchpad, under their SHA-256 and a label. The
// content gate does not inspect them: the scratchpad is for raw material.
//
// When it returns nil at [SyncFull], the bytes and their row of the index are on
// stable storage; both appear in one commit or neither does. The same bytes are
// stored once: a second put verifies the stored ones, replaces them if they are
// damaged (the damaged ones are first copied to quarantine/), and adds its row,
// so that one object may have several labels. Each call also removes expired
// objects, at most 100. One object has at most 64 MiB, all together 512 MiB.
//
// Errors: [ErrTooLarge], [ErrScratchFull],
// [ErrInvalidArgument] for a ttl that is no duration, [ErrIdempotencyKeyReused],
// [ErrBadStateDir] when a part of the state directory is a symbolic link,
// [ErrLockTimeout], the storage details, [ErrStorePoisoned], [ErrStoreClosed],
// [ErrStoreReadOnly], [ErrCanceled]. Nothing is kept then.
func (s *Store) ScratchPut(ctx context.Context, r ScratchPutRequest) (ScratchPutResult, error) {
	c := s.newCommit(ctx, r.request("scratch_put", r))
	row, err := s.scratchRow(ctx, c, &r)
	if err != nil {
		return ScratchPutResult{}, c.Failed(err)
	}
	p := s.scratch.NewPut(c.Commit, row, r.Content)
	if err := s.commit(ctx, c); err != nil {
		return ScratchPutResult{}, err
	}
	return c.scratchPut(p), nil
}

// scratchRow validates the arguments.
func (s *Store) scratchRow(ctx context.Context, c *commit, r *ScratchPutRequest) (row scratch.Entry, err error) {
	if e := r.Call.check(ctx); e != nil {
		return row, e
	}
	if e := checkTexts(
		boundedText{"label", r.Label, maxLabel}, boundedText{"content_type", r.ContentType, maxLabel}, boundedText{"notes", r.Notes, maxNotes},
	); e != nil {
		return row, e
	}
	now := c.Began.UTC()
	row = scratch.Entry{Label: r.Label, ContentType: r.ContentType, Notes: r.Notes, Caller: c.Req.Caller, TS: now.Format(engine.TimeFormat), BinExists: true}
	if r.TTL != "" {
		d, err := isoduration.Parse(r.TTL)
		if err != nil {
			return row, badTTL("PT12H or P1W")
		}
		row.ExpiresAt = d.After(now).Format(engine.TimeFormat)
	}
	if adapter.IsMalformed(ctx, "content") {
		return row, fault.New(fault.BadBase64)
	}
	if limit := min(scratch.MaxObject, s.opts.MaxContentBytes); int64(len(r.Content)) > limit {
		return row, fault.New(fault.TooLarge).With("bytes", len(r.Content)).With("max_bytes", limit).
			Hintf("an object of the scratchpad has at most %d bytes; store it in several parts, each with its own label", limit)
	}
	return row, nil
}

// scratchPut makes the reply of a successful commit.
func (c *commit) scratchPut(p *scratch.Put) ScratchPutResult {
	visible, err := c.s.stateDirVisible()
	if err == nil && visible {
		p.Object.Warn(WarnStateDirVisible)
	}
	r, status := c.finishedWith(p.Object, p.Row.SHA256, p.Row.Bytes)
	out := ScratchPutResult{
		SHA256: digest(p.Row.SHA256), ScratchPath: p.Object.Path, Bytes: p.Row.Bytes, Deduped: p.Deduped, Repaired: p.Repaired,
		ExpiresAt: p.Row.ExpiresAt, ExpiredRemoved: p.Expired, JournalID: r.JournalID,
		Status: status, Warnings: r.Warnings, Receipt: r,
	}
	if rec := c.Replayed; rec != nil { // as in the first reply
		out.Deduped, out.Repaired, out.ExpiredRemoved = true, false, 0
		for _, m := range rec.Muts {
			switch {
			case m.Path == p.Object.Path:
				out.Deduped, out.Repaired = false, m.PrevSHA256 != ""
			case m.SHA256 == "" && strings.HasSuffix(m.Path, scratch.BinSuffix):
				out.ExpiredRemoved++
			}
		}
		if p.Before != "" && p.Expires {
			out.ExpiresAt = p.Before
		}
	}
	return out
}

// ScratchDeleteRequest asks for something to be removed from the scratchpad.
type ScratchDeleteRequest struct {
	Call `omit:"accept_risk"`

	// SHA-256 of the bytes. Give this or label; if both are given, both must
	// match.
	SHA256 Digest `json:"sha256,omitzero" maxlen:"200"`
	// Label; the newest entry with it is used.
	Label string `json:"label,omitempty" maxlen:"200"`
}

// ScratchDeleteResult reports what was removed.
type ScratchDeleteResult struct {
	// SHA-256 of the removed object; empty when none was found.
	SHA256 Digest `json:"sha256"`
	// False when nothing matched.
	Removed bool `json:"removed"`
	// Number of index entries removed, under all labels.
	RowsRemoved int `json:"rows_removed"`
	// Size of the removed object in bytes.
	BytesFreed int64 `json:"bytes_freed"`
	// Number of other expired objects removed during the call.
	ExpiredRemoved int `json:"expired_removed"`
	// Identifier of the journal row; absent when nothing was written.
	JournalID string `json:"journal_id,omitempty"`
	// Outcome of the call.
	Status Status `json:"status" enum:"succeeded,unchanged,replayed"`
	// What the caller should know although the call succeeded.
	Warnings []Warning `json:"warnings"`
	// The full record of the call.
	Receipt Receipt `json:"receipt"`
}

// ScratchDelete removes an object of the scratchpad for good, with all its
// entries, under all labels. The scratchpad has no history. Deleting an object
// that does not exist is no error. Object and entries are removed in one commit;
// other expired objects are removed too. A repeated idempotency key gets the
// first reply and removes nothing more.
//
// Errors: [ErrMustProvideRef] for neither sha256 nor label, [ErrBadSHA256],
// [ErrInvalidArgument], [ErrIdempotencyKeyReused], [ErrBadStateDir], [ErrLockTimeout], the
// storage details, [ErrStorePoisoned], [ErrStoreClosed], [ErrStoreReadOnly], [ErrCanceled].
func (s *Store) ScratchDelete(ctx context.Context, r ScratchDeleteRequest) (ScratchDeleteResult, error) {
	c := s.newCommit(ctx, r.request("scratch_delete", r))
	sha, e := checkRef(ctx, r.SHA256, r.Label)
	if e == nil {
		e = r.Call.check(ctx)
	}
	if e != nil {
		return ScratchDeleteResult{}, c.Failed(e)
	}
	gone := scratch.Removal{Object: &engine.Mutation{Private: true}}
	c.Also = scratch.Locks()
	c.Plan = func(context.Context) error {
		if done, err := c.Answered(); done || err != nil {
			return err
		}
		var err error
		gone, err = s.scratch.PlanDelete(c.Commit, sha, r.Label)
		return err
	}
	c.Outcome = func() any {
		return outcome{Object: gone.SHA, Entries: gone.Rows, Freed: gone.Freed, Expired: gone.Expired}
	}
	if err := s.commit(ctx, c); err != nil {
		return ScratchDeleteResult{}, err
	}
	was := c.storedOutcome()
	out := ScratchDeleteResult{
		SHA256: digest(was.Object), Removed: was.Object != "", RowsRemoved: was.Entries, BytesFreed: was.Freed, ExpiredRemoved: was.Expired,
	}
	rec, status := c.finishedWith(gone.Object, "", 0)
	out.JournalID, out.Status, out.Warnings, out.Receipt = rec.JournalID, status, rec.Warnings, rec
	return out, nil
}

// finishedWith makes the receipt of a successful commit for one object that need
// not be part of it.
func (c *commit) finishedWith(m *engine.Mutation, sha string, size int64) (Receipt, Status) {
	status := c.status()
	for _, other := range c.Muts {
		for _, w := range other.Warnings {
			m.Warn(w)
		}
	}
	r := c.receipt(m, status)
	r.SHA256, r.Bytes = digest(sha), size
	if c.Replayed != nil {
		r.PrevSHA256 = digest("")
	}
	c.deliver(r)
	return r, status
}

// boundedText is an argument that people read.
type boundedText struct {
	name, value string
	max         int // characters
}

func checkTexts(args ...boundedText) *fault.Fault {
	for _, a := range args {
		if !utf8.ValidString(a.value) {
			return fault.New(fault.NotValidUTF8).With("argument", a.name).Hintf("%s is not valid UTF-8", a.name)
		}
		if utf8.RuneCountInString(a.value) > a.max {
			return fault.New(fault.InvalidArgument).With("argument", a.name).Hintf("%s has at most %d characters", a.name, a.max)
		}
	}
	return nil
}

func badTTL(examples string) *fault.Fault {
	return fault.New(fault.InvalidArgument).With("argument", "ttl").Hintf("ttl must be a positive ISO 8601 duration, such as %s", examples)
}

// checkRef validates the two ways to name an object in the scratchpad, and
// returns the text of the hash.
func checkRef(ctx context.Context, sha Digest, label string) (string, *fault.Fault) {
	if e := badDigest(ctx, ""); e != nil {
		return "", e
	}
	if sha.IsZero() && label == "" {
		return "", fault.New(fault.MustProvideRef)
	}
	if e := checkTexts(boundedText{"label", label, maxLabel}); e != nil {
		return "", e
	}
	return sha.String(), nil
}
