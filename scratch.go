package resilientwrite

import (
	"context"

	"github.com/resilientwrite/resilientwrite/internal/adapter"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/layer/scratch"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

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
	TTL TTL `json:"ttl,omitempty" maxlen:"100"`
}

// ScratchPutResult is what a put did. [Store.ScratchGet] takes the SHA256.
type ScratchPutResult struct {
	Receipt     `json:"receipt" copies:"sha256,bytes,journal_id,status,warnings"`
	ScratchPath string `json:"scratch_path"` // Path of the bytes in the state directory.
	// True when the same bytes were already stored; they are stored once.
	Deduped bool `json:"deduped"`
	// True when the stored bytes were damaged and were replaced; the damaged copy
	// is in quarantine.
	Repaired bool `json:"repaired"`
	// When it expires, RFC 3339 UTC; absent when it does not.
	ExpiresAt Timestamp `json:"expires_at,omitzero"`
	// Number of expired objects removed during the call.
	ExpiredRemoved int `json:"expired_removed"`
}

// ScratchPut keeps bytes in the scratchpad, under their SHA-256 and a label. The
// content gate does not inspect them: the scratchpad is for raw material.
//
// The bytes and their row of the index appear in one commit or neither does.
// The same bytes are stored once: a second put verifies the stored ones,
// replaces them if they are damaged (the damaged ones are first copied to
// quarantine/), and adds its row, so that one object may have several labels.
// Each call also removes expired objects, at most 100. One object has at most
// 64 MiB, all together 512 MiB.
//
// Errors: those of every write, [ErrTooLarge], [ErrScratchFull],
// [ErrInvalidArgument] for a ttl that is no duration, [ErrBadStateDir] when a
// part of the state directory is a symbolic link.
func (s *Store) ScratchPut(ctx context.Context, r ScratchPutRequest) (ScratchPutResult, error) {
	c := s.newCommit(ctx, requestOf(r.Call, "scratch_put", r))
	p, e := s.scratch.NewPut(c.Commit, scratch.Facts{Label: r.Label, ContentType: r.ContentType, Notes: r.Notes, TTL: string(r.TTL)}, r.Content)
	if c.check(e); adapter.IsMalformed(ctx, "content") {
		c.check(fault.New(fault.BadBase64))
	}
	if err := s.commit(ctx, c); err != nil {
		return ScratchPutResult{}, err
	}
	p.Finish()
	return ScratchPutResult{
		Receipt: c.finishedWith(p.Object, p.Row.SHA256, p.Row.Bytes), ScratchPath: p.Object.Path, Deduped: p.Deduped,
		Repaired: p.Repaired, ExpiresAt: timestamp(p.Row.ExpiresAt), ExpiredRemoved: p.Expired,
	}, nil
}

// ScratchDeleteRequest asks for something to be removed from the scratchpad.
type ScratchDeleteRequest struct {
	Call `omit:"accept_risk"`

	// SHA-256 of the bytes. Give this or label; if both are given, both must
	// match.
	SHA256 Digest `json:"sha256,omitzero" maxlen:"200"`
	Label  string `json:"label,omitempty" maxlen:"200"` // Label; the newest entry with it is used.
}

// ScratchDeleteResult reports what was removed.
type ScratchDeleteResult struct {
	Receipt `json:"receipt" copies:"journal_id,status,warnings"`
	SHA256  Digest `json:"sha256"`  // SHA-256 of the removed object; empty when none was found.
	Removed bool   `json:"removed"` // False when nothing matched.
	// Number of index entries removed, under all labels.
	RowsRemoved int   `json:"rows_removed"`
	BytesFreed  int64 `json:"bytes_freed"` // Size of the removed object in bytes.
	// Number of other expired objects removed during the call.
	ExpiredRemoved int `json:"expired_removed"`
}

// ScratchDelete removes an object of the scratchpad for good, with all its
// entries, under all labels. The scratchpad has no history. Deleting an object
// that does not exist is no error. Object and entries are removed in one commit;
// other expired objects are removed too. A repeated idempotency key gets the
// first reply and removes nothing more.
//
// Errors: those of every write, [ErrMustProvideRef] for neither sha256 nor
// label, [ErrBadSHA256].
func (s *Store) ScratchDelete(
	ctx context.Context, r ScratchDeleteRequest,
) (ScratchDeleteResult, error) {
	c := s.newCommit(ctx, requestOf(r.Call, "scratch_delete", r))
	gone, e := s.scratch.NewDelete(c.Commit, r.SHA256.String(), r.Label)
	c.check(e)
	c.Outcome = func() any {
		return outcome{Object: gone.SHA, Entries: gone.Rows, Freed: gone.Freed, Expired: gone.Expired}
	}
	if err := s.commit(ctx, c); err != nil {
		return ScratchDeleteResult{}, err
	}
	was := c.storedOutcome()
	return ScratchDeleteResult{
		Receipt: c.finishedWith(gone.Object, "", 0),
		SHA256:  digest(was.Object), Removed: was.Object != "", RowsRemoved: was.Entries, BytesFreed: was.Freed, ExpiredRemoved: was.Expired,
	}, nil
}

// ScratchRefRequest asks what is known of a thing in the scratchpad.
type ScratchRefRequest struct {
	// SHA-256 of the bytes. Give this or label; if both are given, both must
	// match.
	SHA256 Digest `json:"sha256,omitzero" maxlen:"200"`
	Label  string `json:"label,omitempty" maxlen:"200"` // Label; the newest entry with it is used.
}

// ScratchRefResult is what is known of a thing in the scratchpad.
type ScratchRefResult struct {
	Entry       ScratchEntry `json:"entry"`        // The newest matching entry.
	ScratchPath string       `json:"scratch_path"` // Path of the bytes in the state directory.
	// False when the index names the object but its bytes are gone.
	BinExists bool `json:"bin_exists"`
	// Number of entries that match the sha256 and the label that were given.
	AliasCount int `json:"alias_count"`
}

// ScratchRef finds an entry of the scratchpad by hash or label, without its
// bytes. Agents pass such a reference to each other instead of the raw material.
// The newest entry is returned. The index does not prove the bytes; only
// [Store.ScratchGet] hashes them.
//
// Errors: the common ones, [ErrMustProvideRef] for neither hash nor label,
// [ErrBadSHA256], [ErrNotFound].
func (s *Store) ScratchRef(ctx context.Context, r ScratchRefRequest) (ScratchRefResult, error) {
	return reading(ctx, s, "scratch_ref", "", s.budgets.About(r, scratch.Dir, scratch.Index), func() (ScratchRefResult, error) {
		if e := badDigest(ctx, ""); e != nil {
			return ScratchRefResult{}, e
		}
		e, aliases, err := s.scratch.Ref(r.SHA256.String(), r.Label)
		return ScratchRefResult{Entry: scratchEntry(e), ScratchPath: scratch.Path(e.SHA256), BinExists: e.BinExists, AliasCount: aliases}, err
	})
}

// ScratchGetRequest asks for the bytes of a thing in the scratchpad.
type ScratchGetRequest struct {
	// SHA-256 of the bytes, from Store.ScratchPut, Store.ScratchRef or
	// Store.ScratchList.
	SHA256 Digest `json:"sha256" required:"true" maxlen:"200"`
	// How content is returned. Use base64 for bytes that are not UTF-8 text.
	_ schema.Encoding `wire:"encoding,omitempty" enum:"utf-8,base64" default:"utf-8"`
}

// ScratchGetResult holds the bytes of a thing in the scratchpad, with what is
// known of them.
type ScratchGetResult struct {
	SHA256  Digest `json:"sha256"`  // SHA-256 of the bytes, computed again while reading.
	Content []byte `json:"content"` // The bytes, as text or base64. They may contain secrets.
	// How content is encoded.
	_     schema.Encoding `wire:"encoding" enum:"utf-8,base64"`
	Bytes int64           `json:"bytes"` // Size in bytes.
	// Media type of the newest entry.
	ContentType string `json:"content_type"`
	Label       string `json:"label"` // Label of the newest entry.
}

// ScratchGet returns the bytes of an object after hashing them: bytes that were
// changed on disk are never returned. [Options.DisableScratchGet] forbids it for
// the whole store, so that an agent can keep raw material and refer to it without
// being able to read it back.
//
// Errors: the common ones, [ErrScratchGetDisabled], [ErrBadSHA256],
// [ErrNotFound], [ErrHashDriftOnRead] for bytes that were changed on disk
// (putting the right ones again repairs them).
func (s *Store) ScratchGet(ctx context.Context, r ScratchGetRequest) (ScratchGetResult, error) {
	about, sha := []string{scratch.Dir}, r.SHA256.String()
	if sha != "" {
		about = append(about, scratch.Path(sha))
	}
	return reading(ctx, s, "scratch_get", "", s.budgets.About(r, about...), func() (ScratchGetResult, error) {
		if s.opts.DisableScratchGet {
			return ScratchGetResult{}, fault.New(fault.ScratchGetDisabled)
		}
		e, content, err := s.scratch.Get(sha)
		return ScratchGetResult{SHA256: r.SHA256, Content: content, Bytes: int64(len(content)), ContentType: e.ContentType, Label: e.Label}, err
	})
}

// ScratchListRequest asks what is in the scratchpad.
type ScratchListRequest struct {
	Label string `json:"label,omitempty" maxlen:"200"` // Only entries with this label.
	// Maximum number of entries; 0 means 100.
	Limit int `json:"limit,omitempty" min:"0" max:"1000"`
	// Number of entries to skip, from the newest.
	Offset int `json:"offset,omitempty" min:"0"`
}

// ScratchListResult lists the scratchpad.
type ScratchListResult struct {
	Entries []ScratchEntry `json:"entries"` // The entries, newest first, without the bytes.
	// Number of matching entries, including those not returned.
	Count         int   `json:"count"`
	Objects       int   `json:"objects"`         // Number of stored objects.
	TotalBytes    int64 `json:"total_bytes"`     // Total size of the objects in bytes.
	MaxTotalBytes int64 `json:"max_total_bytes"` // Maximum total size of the scratchpad in bytes.
	Malformed     int   `json:"malformed"`       // Unreadable index lines that were skipped.
	// Objects whose index entry was lost; their labels and notes are unknown.
	Rebuilt int `json:"rebuilt"`
	// Number of expired objects removed during the call.
	ExpiredRemoved int `json:"expired_removed"`
}

// ScratchEntry is one entry of the scratchpad.
type ScratchEntry struct {
	SHA256      Digest    `json:"sha256"`       // SHA-256 of the bytes.
	Bytes       int64     `json:"bytes"`        // Size in bytes.
	Label       string    `json:"label"`        // Its label; empty when it has none.
	ContentType string    `json:"content_type"` // Media type given by the caller.
	Notes       string    `json:"notes"`        // Remarks of the caller.
	Caller      string    `json:"caller"`       // Who stored it.
	TS          Timestamp `json:"ts"`           // When, RFC 3339 UTC.
	// When it expires, RFC 3339 UTC; absent when it does not.
	ExpiresAt Timestamp `json:"expires_at,omitzero"`
	// False when the index names the object but its bytes are gone.
	BinExists bool `json:"bin_exists"`
	// True when the index had lost the entry: label, notes and caller are
	// unknown, ts is that of the file.
	Rebuilt bool `json:"rebuilt"`
}

// ScratchList lists the scratchpad, newest entry first. Expired entries are not
// listed, and objects without other entries are removed in a separate commit, at
// most 100 in one call. If that is not possible now, or the store is read-only,
// they stay until the next call.
//
// Errors: the common ones.
func (s *Store) ScratchList(ctx context.Context, r ScratchListRequest) (ScratchListResult, error) {
	return reading(ctx, s, "scratch_list", "", s.budgets.About(r, scratch.Dir, scratch.Index), func() (ScratchListResult, error) {
		l, err := s.scratch.List(r.Label, r.Limit, r.Offset, func() int { return s.expireScratch(ctx) })
		if err != nil {
			return ScratchListResult{}, err
		}
		return ScratchListResult{
			Entries: convert(l.Entries, scratchEntry), Count: l.Count, Objects: len(l.Stored), TotalBytes: l.Total(nil), MaxTotalBytes: scratch.MaxTotal,
			Malformed: l.Malformed, Rebuilt: l.Rebuilt, ExpiredRemoved: l.Removed,
		}, nil
	})
}

// expireScratch removes expired objects and returns their number. A failed commit
// is reported by its receipt; the next call tries again.
func (s *Store) expireScratch(ctx context.Context) int {
	c := s.newCommit(ctx, request{op: "scratch_list"})
	removed := s.scratch.Expire(c.Commit)
	if s.commit(ctx, c) != nil {
		return 0
	}
	c.finished()
	return *removed
}

func scratchEntry(e scratch.Entry) ScratchEntry {
	return ScratchEntry{
		SHA256: digest(e.SHA256), Bytes: e.Bytes, Label: e.Label, ContentType: e.ContentType, Notes: e.Notes,
		Caller: e.Caller, TS: timestamp(e.TS), ExpiresAt: timestamp(e.ExpiresAt), BinExists: e.BinExists, Rebuilt: e.Rebuilt,
	}
}
