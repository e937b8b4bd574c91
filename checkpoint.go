package resilientwrite

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"

	"github.com/resilientwrite/resilientwrite/internal/layer/checkpoint"
)

const (
	TTLSession   TTL = checkpoint.TTLSession   // until [Store.CheckpointCleanup]
	TTLPermanent TTL = checkpoint.TTLPermanent // until it is replaced
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
	TTL TTL `json:"ttl,omitempty" maxlen:"100" default:"session"`
}

// CheckpointResult reports the outcome of a checkpoint that was saved.
type CheckpointResult struct {
	Receipt `json:"receipt" copies:"journal_id,status,warnings"`
	Name    string `json:"name"`                             // Name of the checkpoint.
	Format  string `json:"format" enum:"json,yaml,markdown"` // Format of data.
	TTL     TTL    `json:"ttl"`                              // How long it is kept.
	// Path of the document in the state directory.
	CheckpointPath string `json:"checkpoint_path"`
	// SHA-256 of data: of the JSON text as sent, or of the string.
	SHA256 Digest `json:"sha256"`
	Bytes  int64  `json:"bytes"` // Size of data in bytes.
	// When a checkpoint of this name was first saved, RFC 3339 UTC.
	CreatedAt Timestamp `json:"created_at"`
	UpdatedAt Timestamp `json:"updated_at"` // When this checkpoint was saved, RFC 3339 UTC.
	// When it expires, RFC 3339 UTC; absent for session and permanent.
	ExpiresAt Timestamp `json:"expires_at,omitzero"`
	// True when data is larger than 1 MiB and is stored in a file of its own.
	Chunked bool `json:"chunked"`
}

// Checkpoint saves a named state of an agent's work. It replaces a checkpoint of
// the same name; created_at is kept.
//
// A crash leaves the old one or the new one, also when its data is over 1 MiB
// and is in a file of its own. Data is returned exactly as it was given: the
// text of numbers, the order of keys, every character of a string. White space
// around the value is removed. The content gate inspects it like any write.
//
// Checkpoints have no history. But when the one that is replaced has other data and
// was saved by another session, it is kept under its name with .replaced at the
// end, or twice if that is the name of another one, and the result has the warning
// replaced_other_session; the next one that is replaced so takes its place. A
// damaged one that is replaced is first copied to quarantine/.
//
// Errors: those of every write, [ErrInvalidArgument] for a bad name, format or
// ttl, [ErrSyntaxInvalid] for data that is not JSON (or holds a key twice) or
// not YAML, with its line, [ErrNotValidUTF8], [ErrTooLarge], [ErrRiskBlocked]
// (the stored document is kept as a draft).
func (s *Store) Checkpoint(ctx context.Context, r CheckpointRequest) (CheckpointResult, error) {
	r.Format, r.TTL, r.Data = cmp.Or(r.Format, "json"), cmp.Or(r.TTL, TTLSession), bytes.Trim(r.Data, " \t\r\n")
	c := s.newCommit(ctx, requestOf(r.Call, "checkpoint", r))
	p, e := s.checkpoints.NewSave(ctx, c.Commit, checkpoint.Request{Name: r.Name, Data: r.Data, Format: r.Format, TTL: string(r.TTL)})
	c.check(e)
	if err := s.commit(ctx, c); err != nil {
		e := AsError("checkpoint", err)
		if e.Detail == ErrRiskBlocked && e.Context["draft_ref"] != nil {
			e.Hint += "; the draft is the stored document, and the checkpoint is its field data"
		}
		return CheckpointResult{}, e
	}
	p.Finish()
	return CheckpointResult{
		Receipt: c.finishedWith(p.Doc, p.Doc.SHA, p.Doc.Size),
		Name:    p.Name, Format: p.Format, TTL: TTL(p.TTL), CheckpointPath: checkpoint.Path(p.Name), SHA256: digest(p.SHA256), Bytes: p.Bytes,
		CreatedAt: timestamp(p.CreatedAt), UpdatedAt: timestamp(p.UpdatedAt), ExpiresAt: timestamp(p.ExpiresAt), Chunked: p.Chunked,
	}, nil
}

// CheckpointReadRequest asks for a checkpoint.
type CheckpointReadRequest struct {
	Name string `json:"name" required:"true" maxlen:"128"` // Name of the checkpoint.
}

// CheckpointReadResult is a checkpoint with its data.
type CheckpointReadResult struct {
	Name            string `json:"name"`                             // Name of the checkpoint.
	Format          string `json:"format" enum:"json,yaml,markdown"` // Format of data.
	CheckpointFacts `json:",inline"`
	// True when it has expired; it can be read until Store.CheckpointCleanup
	// removes it.
	Expired bool            `json:"expired"`
	Data    json.RawMessage `json:"data"` // The data, exactly as saved.
}

// CheckpointFacts is what is known of a stored checkpoint besides its name and
// format.
type CheckpointFacts struct {
	// How long it is kept: session, permanent or an ISO 8601 duration.
	TTL            TTL    `json:"ttl"`
	CheckpointPath string `json:"checkpoint_path"` // Path of the document in the state directory.
	// SHA-256 of data: of the JSON text, or of the string.
	SHA256    Digest    `json:"sha256"`
	Bytes     int64     `json:"bytes"`      // Size of data in bytes.
	CreatedAt Timestamp `json:"created_at"` // When a checkpoint of this name was first saved.
	UpdatedAt Timestamp `json:"updated_at"` // When it was last saved.
	// When it expires; absent for session and permanent.
	ExpiresAt Timestamp `json:"expires_at,omitzero"`
	Session   string    `json:"session"` // Session that saved it; empty when unknown.
	Chunked   bool      `json:"chunked"` // True when data is stored in a file of its own.
}

// CheckpointRead returns a checkpoint with its data, after comparing the data
// with its recorded hash: data that was changed on disk is never returned. A
// checkpoint that another program wrote without a hash is returned as it is. An
// expired one can be read until it is removed.
//
// Data is exactly what was saved. The text of a tool's reply has it unchanged
// too; encoding/json and the structured content of a reply remove blanks between
// tokens and may escape characters differently.
//
// Errors: the common ones, [ErrCheckpointNotFound], [ErrHashDriftOnRead] for a
// damaged one (the others are not affected; [Store.CheckpointCleanup] moves it
// to quarantine), [ErrInvalidArgument] for an invalid name.
func (s *Store) CheckpointRead(
	ctx context.Context, r CheckpointReadRequest,
) (CheckpointReadResult, error) {
	about := []string{}
	if checkpoint.CheckName(r.Name) == nil {
		about = append(about, checkpoint.Path(r.Name))
	}
	return reading(ctx, s, "checkpoint_read", "", s.budgets.About(r, about...), func() (CheckpointReadResult, error) {
		c, err := s.checkpoints.Get(r.Name)
		if err != nil {
			return CheckpointReadResult{}, err
		}
		i := s.checkpointInfo(c)
		return CheckpointReadResult{i.Name, i.Format, i.CheckpointFacts, i.Expired, c.Data}, nil
	})
}

// CheckpointListRequest asks which checkpoints there are.
type CheckpointListRequest struct{}

// CheckpointListResult lists the checkpoints.
type CheckpointListResult struct {
	// The checkpoints, sorted by name, without their data.
	Checkpoints []CheckpointInfo `json:"checkpoints"`
	Count       int              `json:"count"` // Number of checkpoints.
}

// CheckpointInfo is what is known of a checkpoint without its data.
type CheckpointInfo struct {
	Name string `json:"name"` // Name of the checkpoint.
	// Format of data: json, yaml or markdown; empty when unknown.
	Format          string `json:"format"`
	CheckpointFacts `json:",inline"`
	// True when it has expired; Store.CheckpointCleanup removes it.
	Expired bool `json:"expired"`
	// True when it is damaged or cannot be read; Store.CheckpointCleanup moves a
	// damaged one to quarantine.
	Corrupt bool `json:"corrupt"`
}

// CheckpointList lists all checkpoints by name, without their data. The data of
// each is verified: damaged ones are marked and do not affect the others.
//
// Errors: the common ones.
func (s *Store) CheckpointList(
	ctx context.Context, r CheckpointListRequest,
) (CheckpointListResult, error) {
	return reading(ctx, s, "checkpoint_list", "", s.budgets.About(r, checkpoint.Dir), func() (CheckpointListResult, error) {
		all, err := s.checkpoints.All(ctx)
		return CheckpointListResult{Checkpoints: convert(all, s.checkpointInfo), Count: len(all)}, err
	})
}

// checkpointInfo returns a checkpoint in its wire form.
func (s *Store) checkpointInfo(c *checkpoint.Stored) CheckpointInfo {
	name := c.Name
	if name == "" || c.Corrupt != "" {
		name = c.Stem
	}
	return CheckpointInfo{name, c.Format, CheckpointFacts{
		TTL: TTL(c.TTL), CheckpointPath: checkpoint.Path(c.Stem), SHA256: digest(c.SHA256), Bytes: c.Bytes,
		CreatedAt: timestamp(c.CreatedAt), UpdatedAt: timestamp(c.UpdatedAt), ExpiresAt: timestamp(c.ExpiresAt), Session: c.Session,
		Chunked: c.Chunked,
	}, c.Corrupt == "" && c.Expired(s.engine.Now()), c.Corrupt != ""}
}

// CheckpointCleanupRequest asks for checkpoints to be removed.
type CheckpointCleanupRequest struct {
	Call `omit:"accept_risk"`

	// Also remove checkpoints with ttl session, whichever session saved them.
	// Pass false while other agents are working.
	IncludeSession *bool `json:"include_session,omitempty" default:"true"`
}

// CheckpointCleanupResult reports what was removed.
type CheckpointCleanupResult struct {
	Receipt `json:"receipt" copies:"journal_id,status,warnings"`
	Removed []RemovedCheckpoint `json:"removed"` // The checkpoints that were removed, by name.
	Kept    int                 `json:"kept"`    // How many checkpoints remain.
	// True when one call could not remove all of them; call again, with another
	// idempotency key.
	More bool `json:"more"`
}

// RemovedCheckpoint is one checkpoint that was removed.
type RemovedCheckpoint struct {
	Name string `json:"name"` // Name of the checkpoint.
	TTL  TTL    `json:"ttl"`  // Its TTL; empty when unknown.
	// Why it was removed. A corrupt checkpoint is kept in quarantine.
	Reason string `json:"reason" enum:"session_cleanup,expired,corrupt"`
}

// CheckpointCleanup removes expired checkpoints, those with ttl session unless
// they are left out, and damaged ones, which are first copied to quarantine/. All
// removals are one commit: a crash leaves all of them or none. One call removes
// at most 100, or fewer with an idempotency key and long names, because the
// journal keeps the reply; More reports that others remain. A repeated key
// returns the first reply and removes nothing more.
//
// Errors: those of every write.
func (s *Store) CheckpointCleanup(
	ctx context.Context, r CheckpointCleanupRequest,
) (CheckpointCleanupResult, error) {
	session := r.IncludeSession == nil || *r.IncludeSession
	r.IncludeSession = &session
	c := s.newCommit(ctx, requestOf(r.Call, "checkpoint_cleanup", r))
	if c.bad != nil {
		return CheckpointCleanupResult{}, c.Failed(c.bad)
	}
	p, err := s.checkpoints.NewCleanup(c.Commit, session)
	if err != nil {
		return CheckpointCleanupResult{}, c.Failed(err)
	}
	c.Outcome = func() any { return outcome{Cleaned: p.Briefs(), Kept: p.Kept(), More: p.More} }
	if err := s.commit(ctx, c); err != nil {
		return CheckpointCleanupResult{}, err
	}
	was := c.storedOutcome()
	return CheckpointCleanupResult{
		Receipt: c.finished(), Kept: was.Kept, More: was.More,
		Removed: convert(checkpoint.Unbrief(was.Cleaned), func(r checkpoint.Removed) RemovedCheckpoint {
			return RemovedCheckpoint{r.Name, TTL(r.TTL), r.Reason}
		}),
	}, nil
}

// TTL is how long something is kept: [TTLSession], [TTLPermanent] or an ISO 8601
// duration, such as P1M or PT1.5H. A month has no fixed length.
type TTL string
