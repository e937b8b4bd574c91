package resilientwrite

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/layer/budget"
	"github.com/resilientwrite/resilientwrite/internal/layer/scratch"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// ScratchRefRequest asks what is known of a thing in the scratchpad.
type ScratchRefRequest struct {
	// SHA-256 of the bytes. Give this or label; if both are given, both must
	// match.
	SHA256 Digest `json:"sha256,omitzero" maxlen:"200"`
	// Label; the newest entry with it is used.
	Label string `json:"label,omitempty" maxlen:"200"`
}

// ScratchRefResult is what is known of a thing in the scratchpad.
type ScratchRefResult struct {
	// The newest matching entry.
	Entry ScratchEntry `json:"entry"`
	// Path of the bytes in the state directory.
	ScratchPath string `json:"scratch_path"`
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
// Errors: [ErrMustProvideRef] for neither hash nor label, [ErrBadSHA256],
// [ErrInvalidArgument], [ErrNotFound], [ErrBadStateDir], the storage details,
// [ErrStoreClosed]. Nothing is changed on disk.
func (s *Store) ScratchRef(ctx context.Context, r ScratchRefRequest) (ScratchRefResult, error) {
	a, err := s.begin(ctx, "scratch_ref", "", s.asked(r, scratch.Dir, scratch.Index))
	if err != nil {
		return ScratchRefResult{}, err
	}
	out, err := s.scratchRef(ctx, r)
	if err != nil {
		return ScratchRefResult{}, a.failed(err)
	}
	s.engine.Leave()
	return out, nil
}

func (s *Store) scratchRef(ctx context.Context, r ScratchRefRequest) (ScratchRefResult, error) {
	sha, e := checkRef(ctx, r.SHA256, r.Label)
	if e != nil {
		return ScratchRefResult{}, e
	}
	pad, err := s.scratch.Open()
	if err != nil {
		return ScratchRefResult{}, err
	}
	entry, ok := pad.Find(sha, r.Label)
	if !ok {
		return ScratchRefResult{}, noScratch()
	}
	out := ScratchRefResult{Entry: scratchEntry(entry), BinExists: entry.BinExists, ScratchPath: scratch.Path(entry.SHA256)}
	for i := range pad.Rows {
		row := &pad.Rows[i]
		if !row.Over && (sha == "" || row.SHA256 == sha) && (r.Label == "" || row.Label == r.Label) {
			out.AliasCount++
		}
	}
	return out, nil
}

func noScratch() *fault.Fault {
	return fault.New(fault.NotFound).Hintf("the scratchpad has no such object; Store.ScratchList lists the objects")
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
	// SHA-256 of the bytes, computed again while reading.
	SHA256 Digest `json:"sha256"`
	// The bytes, as text or base64. They may contain secrets.
	Content []byte `json:"content"`
	// How content is encoded.
	_ schema.Encoding `wire:"encoding" enum:"utf-8,base64"`
	// Size in bytes.
	Bytes int64 `json:"bytes"`
	// Media type of the newest entry.
	ContentType string `json:"content_type"`
	// Label of the newest entry.
	Label string `json:"label"`
}

// ScratchGet returns the bytes of an object after hashing them: bytes that were
// changed on disk are never returned. [Options.DisableScratchGet] forbids it for
// the whole store, so that an agent can keep raw material and refer to it without
// being able to read it back.
//
// Errors: [ErrScratchGetDisabled], [ErrBadSHA256], [ErrNotFound], [ErrHashDriftOnRead] for
// bytes that were changed on disk (putting the right ones again repairs them),
// [ErrBadStateDir], the storage details,
// [ErrStoreClosed]. Nothing is changed on disk.
func (s *Store) ScratchGet(ctx context.Context, r ScratchGetRequest) (ScratchGetResult, error) {
	about := []string{scratch.Dir}
	if sha := r.SHA256.String(); sha != "" {
		about = append(about, scratch.Path(sha))
	}
	a, err := s.begin(ctx, "scratch_get", "", s.asked(r, about...))
	if err != nil {
		return ScratchGetResult{}, err
	}
	out, err := s.scratchGet(r)
	if err != nil {
		return ScratchGetResult{}, a.failed(err)
	}
	s.engine.Leave()
	return out, nil
}

func (s *Store) scratchGet(r ScratchGetRequest) (ScratchGetResult, error) {
	var out ScratchGetResult
	if s.opts.DisableScratchGet {
		return out, fault.New(fault.ScratchGetDisabled)
	}
	sha := r.SHA256.String()
	if sha == "" {
		return out, fault.New(fault.BadSHA256).With("argument", "sha256")
	}
	pad, err := s.scratch.Open()
	if err != nil {
		return out, err
	}
	entry, ok := pad.Find(sha, "")
	if !ok || !entry.BinExists {
		return out, noScratch()
	}
	dir, err := s.engine.StatePart(scratch.Dir)
	if err != nil {
		return out, err
	}
	if dir == nil {
		return out, noScratch()
	}
	defer dir.Close()
	content, err := durable.ReadFile(dir, scratch.BinName(sha), maxScratchRead)
	if engine.IsAbsent(err) {
		return out, noScratch()
	}
	if err != nil {
		return out, err
	}
	if engine.HashOf(content) != sha {
		return out, fault.New(fault.HashDriftOnRead).With("sha256", sha).Hintf("the stored bytes were changed on disk; store the original bytes again to repair the object, or delete it")
	}
	return ScratchGetResult{SHA256: digest(sha), Content: content, Bytes: int64(len(content)), ContentType: entry.ContentType, Label: entry.Label}, nil
}

// maxScratchRead exceeds the limit of a put, because another program may have
// stored the object.
const maxScratchRead = 4 * scratch.MaxObject

// ScratchListRequest asks what is in the scratchpad.
type ScratchListRequest struct {
	// Only entries with this label.
	Label string `json:"label,omitempty" maxlen:"200"`
	// Maximum number of entries; 0 means 100.
	Limit int `json:"limit,omitempty" min:"0" max:"1000"`
	// Number of entries to skip, from the newest.
	Offset int `json:"offset,omitempty" min:"0"`
}

// ScratchListResult lists the scratchpad.
type ScratchListResult struct {
	// The entries, newest first, without the bytes.
	Entries []ScratchEntry `json:"entries"`
	// Number of matching entries, including those not returned.
	Count int `json:"count"`
	// Number of stored objects.
	Objects int `json:"objects"`
	// Total size of the objects in bytes.
	TotalBytes int64 `json:"total_bytes"`
	// Maximum total size of the scratchpad in bytes.
	MaxTotalBytes int64 `json:"max_total_bytes"`
	// Unreadable index lines that were skipped.
	Malformed int `json:"malformed"`
	// Objects whose index entry was lost; their labels and notes are unknown.
	Rebuilt int `json:"rebuilt"`
	// Number of expired objects removed during the call.
	ExpiredRemoved int `json:"expired_removed"`
}

const defaultScratchList = 100

// ScratchList lists the scratchpad, newest entry first. Expired entries are not
// listed, and objects without other entries are removed in a separate commit, at
// most 100 in one call. If that is not possible now, or the store is read-only,
// they stay until the next call.
//
// Errors: [ErrInvalidArgument], [ErrBadStateDir], the storage details,
// [ErrStoreClosed].
func (s *Store) ScratchList(ctx context.Context, r ScratchListRequest) (ScratchListResult, error) {
	a, err := s.begin(ctx, "scratch_list", "", s.asked(r, scratch.Dir, scratch.Index))
	if err != nil {
		return ScratchListResult{}, err
	}
	out, err := s.scratchList(ctx, r)
	if err != nil {
		return ScratchListResult{}, a.failed(err)
	}
	s.engine.Leave()
	return out, nil
}

func (s *Store) scratchList(ctx context.Context, r ScratchListRequest) (ScratchListResult, error) {
	out := ScratchListResult{Entries: []ScratchEntry{}, MaxTotalBytes: scratch.MaxTotal}
	if e := checkTexts(boundedText{"label", r.Label, maxLabel}); e != nil {
		return out, e
	}
	if r.Limit < 0 || r.Offset < 0 || r.Limit > 10*defaultScratchList {
		return out, fault.New(fault.InvalidArgument).Hintf("limit must be 0 to %d and offset must not be negative", 10*defaultScratchList)
	}
	pad, err := s.scratch.Open()
	if err != nil {
		return out, err
	}
	out.Malformed, out.Rebuilt = pad.Malformed, pad.Rebuilt
	if len(pad.Over("")) > 0 && !s.opts.ReadOnly && !s.engine.Poisoned.Load() {
		out.ExpiredRemoved = s.sweepScratch(ctx)
		if pad, err = s.scratch.Open(); err != nil {
			return out, err
		}
	}
	out.Objects, out.TotalBytes = len(pad.Stored), pad.Total(nil)
	limit := r.Limit
	if limit == 0 {
		limit = defaultScratchList
	}
	for i := len(pad.Rows) - 1; i >= 0; i-- {
		row := &pad.Rows[i]
		if row.Over || r.Label != "" && row.Label != r.Label {
			continue
		}
		if out.Count++; out.Count > r.Offset && len(out.Entries) < limit {
			out.Entries = append(out.Entries, scratchEntry(row.Entry))
		}
	}
	return out, nil
}

// sweepScratch removes expired objects and returns their number. A failed commit
// is reported by its receipt; the next call tries again.
func (s *Store) sweepScratch(ctx context.Context) int {
	c := s.newCommit(ctx, request{op: "scratch_list"})
	removed := s.scratch.Expire(c.Commit)
	if s.commit(ctx, c) != nil {
		return 0
	}
	c.finished()
	return *removed
}

// asked combines a request with the state of the objects that it refers to: a
// call that failed because an object did not exist counts as another call once it
// exists.
func (s *Store) asked(req any, objects ...string) any { return askedAbout{s, req, objects} }

type askedAbout struct {
	s       *Store
	req     any
	objects []string
}

// MarshalJSON reads the objects when the budget of the call is checked.
func (a askedAbout) MarshalJSON() ([]byte, error) {
	var states []string
	for _, object := range a.objects {
		states = append(states, a.s.stateOfObject(strings.TrimPrefix(object, engine.StateDirName+"/")))
	}
	return json.Marshal(map[string]any{"req": a.req, "states": states})
}

func (s *Store) stateOfObject(object string) string {
	part, name, inside := strings.Cut(object, "/")
	dir, err := s.engine.StatePart(part)
	if dir == nil || err != nil {
		return budget.Absent
	}
	defer dir.Close()
	st, err := dir.Stat()
	if inside {
		st, err = dir.Lstat(name)
	}
	if err != nil {
		return budget.Absent
	}
	return fmt.Sprint(st.Ino, st.Size, st.Mtime, st.Mode)
}

// stateDirVisible reports whether git would see the state directory. The
// directory's own .gitignore must ignore everything, and nothing after that line
// may re-include it. A .gitignore of the workspace that names the directory also
// suffices.
func (s *Store) stateDirVisible() (bool, error) {
	own, err := durable.ReadFile(s.engine.Disk.State, engine.IgnoreName, engine.MetaLimit)
	if err != nil && !engine.IsAbsent(err) {
		return false, err
	}
	hidden := false
	for line := range strings.Lines(string(own)) {
		switch line = strings.TrimSpace(line); {
		case line == "*" || line == "/*" || line == "**" || line == "/**":
			hidden = true
		case strings.HasPrefix(line, "!"):
			hidden = false
		}
	}
	if hidden {
		return false, nil
	}
	root, err := durable.ReadFile(s.engine.Disk.Root, engine.IgnoreName, engine.MetaLimit)
	if err != nil {
		return true, nil
	}
	for line := range strings.Lines(string(root)) {
		if strings.Trim(strings.TrimSpace(line), "/") == engine.StateDirName {
			return false, nil
		}
	}
	return true, nil
}

// ScratchEntry is one entry of the scratchpad.
type ScratchEntry struct {
	// SHA-256 of the bytes.
	SHA256 Digest `json:"sha256"`
	// Size in bytes.
	Bytes int64 `json:"bytes"`
	// Its label; empty when it has none.
	Label string `json:"label"`
	// Media type given by the caller.
	ContentType string `json:"content_type"`
	// Remarks of the caller.
	Notes string `json:"notes"`
	// Who stored it.
	Caller string `json:"caller"`
	// When, RFC 3339 UTC.
	TS string `json:"ts"`
	// When it expires, RFC 3339 UTC; absent when it does not.
	ExpiresAt string `json:"expires_at,omitempty"`
	// False when the index names the object but its bytes are gone.
	BinExists bool `json:"bin_exists"`
	// True when the index had lost the entry: label, notes and caller are
	// unknown, ts is that of the file.
	Rebuilt bool `json:"rebuilt"`
}

func scratchEntry(e scratch.Entry) ScratchEntry {
	return ScratchEntry{
		SHA256: digest(e.SHA256), Bytes: e.Bytes, Label: e.Label, ContentType: e.ContentType, Notes: e.Notes,
		Caller: e.Caller, TS: e.TS, ExpiresAt: e.ExpiresAt, BinExists: e.BinExists, Rebuilt: e.Rebuilt,
	}
}
