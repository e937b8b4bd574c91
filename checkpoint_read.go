package resilientwrite

import (
	"context"
	"encoding/json"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/layer/checkpoint"
)

// CheckpointReadRequest asks for a checkpoint.
type CheckpointReadRequest struct {
	// Name of the checkpoint.
	Name string `json:"name" required:"true" maxlen:"128"`
}

// CheckpointReadResult is a checkpoint with its data.
type CheckpointReadResult struct {
	// Name of the checkpoint.
	Name string `json:"name"`
	// Format of data.
	Format string `json:"format" enum:"json,yaml,markdown"`
	// How long it is kept: session, permanent or an ISO 8601 duration.
	TTL string `json:"ttl"`
	// Path of the document in the state directory.
	CheckpointPath string `json:"checkpoint_path"`
	// SHA-256 of data: of the JSON text, or of the string.
	SHA256 Digest `json:"sha256"`
	// Size of data in bytes.
	Bytes int64 `json:"bytes"`
	// When a checkpoint of this name was first saved.
	CreatedAt string `json:"created_at"`
	// When it was last saved.
	UpdatedAt string `json:"updated_at"`
	// When it expires; absent for session and permanent.
	ExpiresAt string `json:"expires_at,omitempty"`
	// Session that saved it; empty when unknown.
	Session string `json:"session"`
	// True when data is stored in a file of its own.
	Chunked bool `json:"chunked"`
	// True when it has expired; it can be read until Store.CheckpointCleanup
	// removes it.
	Expired bool `json:"expired"`
	// The data, exactly as saved.
	Data json.RawMessage `json:"data"`
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
// Errors: [ErrCheckpointNotFound], [ErrHashDriftOnRead] for a damaged one (the
// others are not affected; [Store.CheckpointCleanup] moves it to quarantine),
// [ErrInvalidArgument] for an invalid name, [ErrBadStateDir], the storage
// details, [ErrStoreClosed]. Nothing is changed on disk.
func (s *Store) CheckpointRead(ctx context.Context, r CheckpointReadRequest) (CheckpointReadResult, error) {
	about := []string{}
	if checkpoint.CheckName(r.Name) == nil {
		about = append(about, checkpoint.Path(r.Name))
	}
	a, err := s.begin(ctx, "checkpoint_read", "", s.budgets.About(r, about...))
	if err != nil {
		return CheckpointReadResult{}, err
	}
	out, err := s.checkpointRead(r.Name)
	if err != nil {
		return CheckpointReadResult{}, a.failed(err)
	}
	s.engine.Leave()
	return out, nil
}

func (s *Store) checkpointRead(name string) (CheckpointReadResult, error) {
	if e := checkpoint.CheckName(name); e != nil {
		return CheckpointReadResult{}, e
	}
	c, err := s.checkpoints.Read(name, false)
	if engine.IsAbsent(err) || err == nil && c.OtherName(name) {
		return CheckpointReadResult{}, fault.New(fault.CheckpointNotFound).With("name", name)
	}
	if err != nil {
		return CheckpointReadResult{}, err
	}
	if c.Corrupt != "" {
		return CheckpointReadResult{}, fault.New(fault.HashDriftOnRead).With("name", name).With("problem", c.Corrupt).
			Hintf("the stored checkpoint is damaged: %s; save it again, or let Store.CheckpointCleanup move it to quarantine", c.Corrupt)
	}
	i := s.checkpointInfo(c)
	return CheckpointReadResult{
		Name: i.Name, Format: i.Format, TTL: i.TTL, CheckpointPath: i.CheckpointPath, SHA256: i.SHA256, Bytes: i.Bytes,
		CreatedAt: i.CreatedAt, UpdatedAt: i.UpdatedAt, ExpiresAt: i.ExpiresAt, Session: i.Session,
		Chunked: i.Chunked, Expired: i.Expired, Data: c.Data,
	}, nil
}

// CheckpointListRequest asks which checkpoints there are.
type CheckpointListRequest struct{}

// CheckpointListResult lists the checkpoints.
type CheckpointListResult struct {
	// The checkpoints, sorted by name, without their data.
	Checkpoints []CheckpointInfo `json:"checkpoints"`
	// Number of checkpoints.
	Count int `json:"count"`
}

// CheckpointInfo is what is known of a checkpoint without its data.
type CheckpointInfo struct {
	// Name of the checkpoint.
	Name string `json:"name"`
	// Format of data: json, yaml or markdown; empty when unknown.
	Format string `json:"format"`
	// How long it is kept: session, permanent or an ISO 8601 duration.
	TTL string `json:"ttl"`
	// Path of the document in the state directory.
	CheckpointPath string `json:"checkpoint_path"`
	// SHA-256 of data: of the JSON text, or of the string.
	SHA256 Digest `json:"sha256"`
	// Size of data in bytes.
	Bytes int64 `json:"bytes"`
	// When a checkpoint of this name was first saved.
	CreatedAt string `json:"created_at"`
	// When it was last saved.
	UpdatedAt string `json:"updated_at"`
	// When it expires; absent for session and permanent.
	ExpiresAt string `json:"expires_at,omitempty"`
	// Session that saved it; empty when unknown.
	Session string `json:"session"`
	// True when data is stored in a file of its own.
	Chunked bool `json:"chunked"`
	// True when it has expired; Store.CheckpointCleanup removes it.
	Expired bool `json:"expired"`
	// True when it is damaged and cannot be read; Store.CheckpointCleanup moves it
	// to quarantine.
	Corrupt bool `json:"corrupt"`
}

// CheckpointList lists all checkpoints by name, without their data. The data of
// each is verified: damaged ones are marked and do not affect the others.
//
// Errors: [ErrBadStateDir], the storage details, [ErrStoreClosed]. Nothing is
// changed on disk.
func (s *Store) CheckpointList(ctx context.Context, r CheckpointListRequest) (CheckpointListResult, error) {
	a, err := s.begin(ctx, "checkpoint_list", "", s.budgets.About(r, checkpoint.Dir))
	if err != nil {
		return CheckpointListResult{}, err
	}
	out, err := s.checkpointList(ctx)
	if err != nil {
		return CheckpointListResult{}, a.failed(err)
	}
	s.engine.Leave()
	return out, nil
}

func (s *Store) checkpointList(ctx context.Context) (CheckpointListResult, error) {
	out := CheckpointListResult{Checkpoints: []CheckpointInfo{}}
	names, err := s.checkpoints.List()
	if err != nil {
		return out, err
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return out, err
		}
		c, err := s.checkpoints.Read(name, false)
		if engine.IsAbsent(err) { // removed meanwhile
			continue
		}
		if err != nil {
			return out, err
		}
		out.Checkpoints = append(out.Checkpoints, s.checkpointInfo(c))
	}
	out.Count = len(out.Checkpoints)
	return out, nil
}

// checkpointInfo returns a checkpoint in its wire form.
func (s *Store) checkpointInfo(c *checkpoint.Stored) CheckpointInfo {
	name := c.Name
	if name == "" || c.Corrupt != "" {
		name = c.Stem
	}
	return CheckpointInfo{
		Name: name, Format: c.Format, TTL: c.TTL, CheckpointPath: checkpoint.Path(c.Stem), SHA256: digest(c.SHA256), Bytes: c.Bytes,
		CreatedAt: c.CreatedAt, UpdatedAt: c.UpdatedAt, ExpiresAt: c.ExpiresAt, Session: c.Session,
		Chunked: c.Chunked, Expired: c.Corrupt == "" && c.Expired(s.engine.Now()), Corrupt: c.Corrupt != "",
	}
}
