package resilientwrite

import (
	"bytes"
	"context"
	"encoding/json"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/aside"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/layer/checkpoint"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/syntax"
)

// CheckpointRequest asks for a named state to be kept. Text, for yaml and
// markdown, is a JSON string: json.Marshal makes it of a text.
type CheckpointRequest struct {
	Call

	// Name of the checkpoint: letters, digits, dot, underscore and hyphen, at
	// most 128.
	Name string `json:"name" required:"true" maxlen:"128"`
	// The value to keep: any JSON value for formats json and yaml, a string for
	// markdown. A string of format yaml must be YAML.
	Data json.RawMessage `json:"data" required:"true"`
	// Format of data. YAML must parse; Markdown may be any text.
	Format string `json:"format,omitempty" enum:"json,yaml,markdown" default:"json"`
	// How long to keep it: session (until Store.CheckpointCleanup), permanent, or
	// an ISO 8601 duration such as P1W or PT1.5H.
	TTL string `json:"ttl,omitempty" maxlen:"100" default:"session"`
}

// CheckpointResult reports the outcome of a checkpoint that was saved.
type CheckpointResult struct {
	// Name of the checkpoint.
	Name string `json:"name"`
	// Format of data.
	Format string `json:"format" enum:"json,yaml,markdown"`
	// How long it is kept.
	TTL string `json:"ttl"`
	// Path of the document in the state directory.
	CheckpointPath string `json:"checkpoint_path"`
	// SHA-256 of data: of the JSON text as sent, or of the string.
	SHA256 Digest `json:"sha256"`
	// Size of data in bytes.
	Bytes int64 `json:"bytes"`
	// Identifier of the journal row; absent when nothing was written.
	JournalID string `json:"journal_id,omitempty"`
	// When a checkpoint of this name was first saved, RFC 3339 UTC.
	CreatedAt string `json:"created_at"`
	// When this checkpoint was saved, RFC 3339 UTC.
	UpdatedAt string `json:"updated_at"`
	// When it expires, RFC 3339 UTC; absent for session and permanent.
	ExpiresAt string `json:"expires_at,omitempty"`
	// True when data is larger than 1 MiB and is stored in a file of its own.
	Chunked bool `json:"chunked"`
	// Outcome of the call.
	Status Status `json:"status" enum:"succeeded,unchanged,replayed"`
	// What the caller should know although the call succeeded.
	Warnings []Warning `json:"warnings"`
	// The full record of the call.
	Receipt Receipt `json:"receipt"`
}

// Checkpoint saves a named state of an agent's work. It replaces a checkpoint of
// the same name; created_at is kept.
//
// When it returns nil at [SyncFull], the checkpoint is on stable storage. A crash
// leaves the old one or the new one, also when its data is over 1 MiB and is in a
// file of its own. Data is returned exactly as it was given: the text of numbers,
// the order of keys, every character of a string. White space around the value is
// removed. The content gate inspects it like any write.
//
// Checkpoints have no history. A damaged one that is replaced is first copied to
// quarantine/.
// copied to quarantine/ first.
//
// Errors: [ErrInvalidArgument] for a bad name, format or ttl, [ErrSyntaxInvalid] for
// data that is not JSON (or holds a key twice) or not YAML, with its line,
// [ErrNotValidUTF8], [ErrTooLarge], [ErrRiskBlocked] (the stored document is kept as a
// draft), [ErrIdempotencyKeyReused], [ErrBadStateDir], [ErrLockTimeout], the storage
// details, [ErrStorePoisoned], [ErrStoreClosed], [ErrStoreReadOnly], [ErrCanceled].
func (s *Store) Checkpoint(ctx context.Context, r CheckpointRequest) (CheckpointResult, error) {
	c := s.newCommit(ctx, r.request("checkpoint", r))
	p := &checkpointSave{s: s, c: c, req: r}
	if err := p.prepare(ctx); err != nil {
		return CheckpointResult{}, c.Failed(err)
	}
	c.Also = []string{engine.PathLock(checkpoint.Path(r.Name))}
	c.Plan = p.plan
	if err := s.commit(ctx, c); err != nil {
		e := AsError("checkpoint", err)
		if e.Detail == ErrRiskBlocked && e.Context["draft_ref"] != nil {
			e.Hint += "; the draft is the stored document, and the checkpoint is its field data"
		}
		return CheckpointResult{}, e
	}
	return p.result(), nil
}

// checkpointSave is one save in progress.
type checkpointSave struct {
	s       *Store
	c       *commit
	req     CheckpointRequest
	content []byte // the JSON text, or the string
	head    checkpoint.Head
	doc     *engine.Mutation
	old     *checkpoint.Stored // the checkpoint stored under the name; nil if there is none
}

// prepare validates the arguments.
func (p *checkpointSave) prepare(ctx context.Context) error {
	r := &p.req
	if r.Format == "" {
		r.Format = "json"
	}
	if r.TTL == "" {
		r.TTL = checkpoint.TTLSession
	}
	r.Data = bytes.Trim(r.Data, " \t\r\n")
	p.c.Req.Hash = identity("checkpoint", *r)
	if e := r.Call.check(ctx); e != nil {
		return e
	}
	if e := checkpoint.CheckName(r.Name); e != nil {
		return e
	}
	now := p.c.Began.UTC()
	expires, e := checkpoint.Expiry(r.TTL, now)
	if e != nil {
		return e
	}
	var raw bool
	if p.content, raw, e = p.s.checkpointContent(ctx, r.Data, r.Format); e != nil {
		return e
	}
	p.doc = &engine.Mutation{Private: true}
	p.head = checkpoint.Head{
		Version: checkpoint.Version, Name: r.Name, Format: r.Format, TTL: r.TTL,
		CreatedAt: now.Format(engine.TimeFormat), UpdatedAt: now.Format(engine.TimeFormat), ExpiresAt: expires,
		Session: p.c.Req.Session, Caller: p.c.Req.Caller,
		SHA256: engine.HashOf(p.content), Bytes: int64(len(p.content)), Chunked: len(p.content) > checkpoint.MaxInlineData, Raw: raw,
	}
	return nil
}

// checkpointContent returns the bytes to keep, once their format is verified. raw
// reports that they are a JSON value although the format is yaml, which includes
// JSON.
func (s *Store) checkpointContent(ctx context.Context, data json.RawMessage, format string) (content []byte, raw bool, e *fault.Fault) {
	if len(data) == 0 {
		return nil, false, fault.New(fault.MissingContent).With("argument", "data").Hintf("data is required")
	}
	if limit := s.opts.MaxContentBytes; int64(len(data)) > limit {
		return nil, false, fault.New(fault.TooLarge).With("bytes", len(data)).With("max_bytes", limit)
	}
	if !utf8.Valid(data) {
		return nil, false, fault.New(fault.NotValidUTF8).With("argument", "data")
	}
	if e := wellFormedAs(ctx, "json", data); e != nil {
		return nil, false, e
	}
	if !json.Valid(data) {
		return nil, false, fault.New(fault.SyntaxInvalid).With("format", "json").Hintf("data must be a single JSON value")
	}
	if format == "json" {
		return bytes.Clone(data), false, nil
	}
	if format != "yaml" && format != "markdown" {
		return nil, false, badChoice("format", "json", "yaml", "markdown")
	}
	plain, ok := checkpoint.StringIn(data)
	if !ok && format == "yaml" {
		return bytes.Clone(data), true, nil
	}
	if !ok {
		return nil, false, fault.New(fault.InvalidArgument).With("argument", "data").Hintf("data of format %s must be a string; for an object use format json", format)
	}
	if format == "yaml" {
		if e := wellFormedAs(ctx, "yaml", []byte(plain)); e != nil {
			return nil, false, e
		}
	}
	return []byte(plain), false, nil
}

// wellFormedAs refuses a text that is not of its format, with the position of the
// first problem.
func wellFormedAs(ctx context.Context, format string, text []byte) *fault.Fault {
	rep, err := aside.Run(ctx, len(text), func() syntax.Report { return syntax.Check(format, text) })
	if err != nil {
		return fault.New(fault.Canceled).Because(err)
	}
	if rep.Valid {
		return nil
	}
	for _, p := range rep.Problems {
		if p.Severity == syntax.Error {
			return fault.New(fault.SyntaxInvalid).With("format", format).With("argument", "data").With("line", p.Line).With("col", p.Col).
				Hintf("data is not valid %s: line %d, column %d: %s", format, p.Line, p.Col, p.Message)
		}
	}
	return nil
}

// plan reads the checkpoint stored under that name.
func (p *checkpointSave) plan(context.Context) error {
	name := p.req.Name
	old, err := p.s.checkpoints.Read(name, true)
	if err != nil && !engine.IsAbsent(err) {
		return err
	}
	p.head.CreatedAt, p.old = p.head.UpdatedAt, nil
	var obsolete []string
	if err == nil {
		p.old = old
		if old.Corrupt == "" && old.OtherName(name) {
			return fault.New(fault.InvalidArgument).With("argument", "name").Hintf("a checkpoint exists whose name differs only in letter case, which this file system ignores; choose another name")
		}
		if !engine.ParseTime(old.CreatedAt).IsZero() {
			p.head.CreatedAt = old.CreatedAt
		}
		if obsolete, err = p.s.checkpoints.Quarantine(old, p.c.Req.DryRun); err != nil {
			return err
		}
	}
	return p.c.Choose(p.mutations(obsolete)...)
}

// mutations returns the document and, in the same commit, the file of its data if
// that is long. The data comes first, so that the document never names a missing
// file.
func (p *checkpointSave) mutations(obsolete []string) []*engine.Mutation {
	p.doc = checkpoint.Object(p.req.Name+checkpoint.FileSuffix, engine.OpOverwrite)
	if !relpath.Portable(p.req.Name + checkpoint.FileSuffix) {
		p.doc.Warn(WarnNameNotPortable)
	}
	var muts []*engine.Mutation
	data, blob := p.content, ""
	if p.head.Chunked {
		blob = checkpoint.BlobName(p.req.Name, p.head.SHA256)
		m := checkpoint.Object(blob, engine.OpOverwrite)
		m.Hold(p.content)
		muts, data = append(muts, m), nil
	} else if p.req.Format != "json" {
		data = p.req.Data
	}
	p.doc.Hold(p.head.Document(data))
	muts = append(muts, p.doc)
	for _, name := range obsolete {
		if name != blob && name != p.req.Name+checkpoint.FileSuffix {
			muts = append(muts, checkpoint.Object(name, engine.OpDelete))
		}
	}
	return muts
}

// result returns the reply of a successful commit.
func (p *checkpointSave) result() CheckpointResult {
	r, status := p.c.finishedWith(p.doc, p.doc.SHA, p.doc.Size)
	h := &p.head
	if p.c.Replayed != nil {
		p.asItWas()
	}
	return CheckpointResult{
		Name: h.Name, Format: h.Format, TTL: h.TTL, CheckpointPath: checkpoint.Path(h.Name),
		SHA256: digest(h.SHA256), Bytes: h.Bytes, JournalID: r.JournalID,
		CreatedAt: h.CreatedAt, UpdatedAt: h.UpdatedAt, ExpiresAt: h.ExpiresAt, Chunked: h.Chunked,
		Status: status, Warnings: r.Warnings, Receipt: r,
	}
}

// asItWas sets the times to those of the first reply, if they are known: a later
// save may have replaced the checkpoint.
func (p *checkpointSave) asItWas() {
	h, at := &p.head, engine.ParseTime(p.c.Replayed.TS)
	if p.old != nil && p.old.SHA256 == h.SHA256 && p.old.TTL == h.TTL && !engine.ParseTime(p.old.UpdatedAt).IsZero() {
		at = engine.ParseTime(p.old.UpdatedAt)
	}
	h.UpdatedAt = at.Format(engine.TimeFormat)
	if at.Before(engine.ParseTime(h.CreatedAt)) || p.old == nil {
		h.CreatedAt = h.UpdatedAt
	}
	h.ExpiresAt, _ = checkpoint.Expiry(h.TTL, at)
}
