package resilientwrite

import (
	"context"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/layer/budget"
	"github.com/resilientwrite/resilientwrite/internal/layer/drafts"
	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// Draft is a draft that the gate refused.
type Draft struct {
	DraftRef  string    `json:"draft_ref"`  // Identifier of the draft.
	Path      string    `json:"path"`       // Intended path, relative to the workspace.
	Op        string    `json:"op"`         // The verb that was refused.
	Mode      string    `json:"mode"`       // The intended mode of the write.
	SHA256    Digest    `json:"sha256"`     // SHA-256 of the draft.
	Bytes     int64     `json:"bytes"`      // Size of the draft in bytes.
	Patterns  []string  `json:"patterns"`   // Families of the findings, sorted.
	Caller    string    `json:"caller"`     // Caller whose draft it is.
	CreatedAt time.Time `json:"created_at"` // When it was last refused, RFC 3339 UTC.
	ExpiresAt time.Time `json:"expires_at"` // When it expires, RFC 3339 UTC.
}

func draftOf(f drafts.Facts) Draft {
	return Draft{
		DraftRef: f.DraftRef, Path: f.Path, Op: f.Op, Mode: f.Mode, SHA256: digest(f.SHA256), Bytes: f.Bytes,
		Patterns: f.Patterns, Caller: f.Caller, CreatedAt: stamp.Parse(f.CreatedAt), ExpiresAt: stamp.Parse(f.ExpiresAt),
	}
}

// DraftListRequest asks which refused drafts are kept.
type DraftListRequest struct{}

// DraftListResult lists refused drafts.
type DraftListResult struct {
	Drafts []Draft `json:"drafts"` // The drafts, newest first, without their content.
	Count  int     `json:"count"`  // Number of drafts.
}

// DraftList lists the drafts that the gate refused and that are still kept:
// for seven days, at most 100, at most 256 MiB together. Errors: the storage
// details, [ErrStoreClosed].
func (s *Store) DraftList(ctx context.Context, r DraftListRequest) (DraftListResult, error) {
	return reading(ctx, s, "draft_list", "", r, func() (DraftListResult, error) {
		list, err := s.drafts.Live()
		out := DraftListResult{Drafts: make([]Draft, len(list)), Count: len(list)}
		for i, f := range list {
			out.Drafts[i] = draftOf(f)
		}
		return out, err
	})
}

// DraftGetRequest asks for a refused draft.
type DraftGetRequest struct {
	DraftRef string `json:"draft_ref" required:"true" maxlen:"200"` // draft_ref of a refusal.
	// How content is returned. Use base64 for bytes that are not UTF-8 text.
	_ schema.Encoding `wire:"encoding,omitempty" enum:"utf-8,base64" default:"utf-8"`
}

// DraftGetResult is a refused draft.
type DraftGetResult struct {
	Draft Draft `json:"draft"` // Facts about the draft.
	// The draft as sent. It contains the secrets for which it was refused.
	Content []byte          `json:"content"`
	_       schema.Encoding `wire:"encoding" enum:"utf-8,base64"` // How content is encoded.
}

// DraftGet returns a refused draft as it was sent, secrets included.
// [Options.DisableScratchGet] forbids it, as for the scratchpad.
//
// Errors: [ErrDraftNotFound], [ErrScratchGetDisabled], [ErrHashDriftOnRead] for a draft
// that was changed on disk, the storage
// details, [ErrStoreClosed]. Nothing is changed on disk.
func (s *Store) DraftGet(ctx context.Context, r DraftGetRequest) (DraftGetResult, error) {
	return reading(ctx, s, "draft_get", budget.DraftState+r.DraftRef, r, func() (DraftGetResult, error) {
		d, content, err := s.readDraft(r.DraftRef)
		return DraftGetResult{Draft: draftOf(d), Content: content}, err
	})
}

// readDraft reads a draft, unless the options forbid it.
func (s *Store) readDraft(ref string) (drafts.Facts, []byte, error) {
	if s.opts.DisableScratchGet {
		return drafts.Facts{}, nil, fault.New(fault.ScratchGetDisabled)
	}
	return s.drafts.Read(ref)
}

// DraftDeleteRequest asks for a refused draft to be removed.
type DraftDeleteRequest struct {
	DraftRef string `json:"draft_ref" required:"true" maxlen:"200"` // draft_ref of a refusal.
	// Report what would be removed, but change nothing.
	DryRun bool `json:"dry_run,omitempty"`
}

// DraftDeleteResult reports what was removed.
type DraftDeleteResult struct {
	DraftRef string `json:"draft_ref"` // The draft.
	Removed  bool   `json:"removed"`   // False when it did not exist.
}

// DraftDelete removes a refused draft for good. A draft that does not exist is no
// error: the call can be repeated after a lost reply without an idempotency key,
// and only removed distinguishes the second call from the first. It is not a
// commit and has no row in the journal.
//
// Errors: the storage details, [ErrStoreClosed], [ErrStoreReadOnly]. After an
// error, what is left of the draft is removed by the next Open, or can be removed
// again.
func (s *Store) DraftDelete(ctx context.Context, r DraftDeleteRequest) (DraftDeleteResult, error) {
	t, err := s.begin(ctx, "draft_delete", "", r)
	if err != nil {
		return DraftDeleteResult{}, err
	}
	out := DraftDeleteResult{DraftRef: s.hideName(r.DraftRef)}
	if s.opts.ReadOnly {
		err = fault.New(fault.StoreReadOnly)
	} else {
		out.Removed, err = s.drafts.Delete(r.DraftRef, r.DryRun)
	}
	if err != nil && !r.DryRun {
		return DraftDeleteResult{}, t.failed(err)
	}
	s.engine.Leave()
	if err != nil { // dry runs do not count
		return DraftDeleteResult{}, s.verbError("draft_delete", err)
	}
	return out, nil
}
