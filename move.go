package resilientwrite

import (
	"context"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/move"
)

// DeleteRequest asks for one file to be removed.
type DeleteRequest struct {
	Call `omit:"accept_risk"`

	Path string `json:"path" required:"true"` // Path of the file, relative to the workspace.
	// SHA-256 the file must have now.
	Expect Expect `json:"expected_prev_sha256,omitzero"`
	Force  bool   `json:"force,omitempty"` // Allow a read-only file to be removed.
}

// DeleteResult is what a deletion did. History keeps the content of PrevSHA256.
type DeleteResult struct {
	Receipt   `json:"receipt" copies:"path,prev_sha256,journal_id,wrote_at,status,warnings"`
	PrevBytes int64 `json:"prev_bytes"` // Size of the deleted file in bytes.
	// What would be deleted, as a diff, truncated when long; dry run only.
	Diff string `json:"diff,omitempty"`
}

// Delete removes one file. Its content is kept in history and can be restored. A
// symbolic link inside the workspace is followed: the target is removed, the link
// stays. Directories are not removed.
//
// Errors: those of every write, the path details, [ErrNotFound],
// [ErrIsADirectory], [ErrHashMismatch], [ErrReadOnlyFile],
// [ErrChangedDuringWrite].
func (s *Store) Delete(ctx context.Context, r DeleteRequest) (DeleteResult, error) {
	req := requestOf(r.Call, "delete", r)
	req.frees = true
	c := s.newCommit(ctx, req)
	m := &engine.Mutation{Path: r.Path, Op: engine.OpDelete, Force: r.Force, Expected: r.Expect.Hash()}
	c.Muts = []*engine.Mutation{m}
	if err := s.commit(ctx, c); err != nil {
		return DeleteResult{}, err
	}
	out := DeleteResult{Receipt: c.finished(), PrevBytes: m.Prev.Stat.Size, Diff: c.Diff}
	if c.Replayed != nil {
		out.PrevBytes = c.Replayed.Muts[0].PrevBytes
	}
	return out, nil
}

// MoveRequest asks for a file or a directory to get another name.
type MoveRequest struct {
	Call `omit:"accept_risk"`

	// Path of the file or directory, relative to the workspace.
	Path string `json:"path" required:"true"`
	// New path, relative to the workspace. Missing directories are created.
	To string `json:"to" required:"true"`
	// Allow existing files to be replaced; history keeps them.
	Overwrite bool `json:"overwrite,omitempty"`
	// SHA-256 the file at path must have now. Not for directories.
	Expect Expect `json:"expected_prev_sha256,omitzero"`
	// Allow read-only files to be moved or replaced.
	Force bool `json:"force,omitempty"`
}

// MoveResult is what a move did. SHA256 and Bytes of a directory are those of its
// first file.
type MoveResult struct {
	Receipt `json:"receipt" copies:"sha256,bytes,journal_id,wrote_at,status,warnings"`
	Path    string `json:"path"`  // Previous path.
	To      string `json:"to"`    // New path.
	Files   int    `json:"files"` // Number of files moved.
}

// Move gives a file, or the files of a directory, another name, without copying:
// the file keeps its inode, mode, owner and times, and its history.
//
// A directory is moved as all its files (at most 4,096) in one commit.
// Directories that become empty are removed, and new directories get the modes of
// the old ones. Subdirectories without files do not move: they stay with the old
// directory. If the new path is an existing directory, the two are merged: its
// entries stay, and a file at a target path refuses the move unless overwrite is
// set. A directory that contains a symbolic link or a special file, at any depth,
// is not moved.
//
// Errors: those of [Store.Delete] for path, [ErrFileAlreadyExists] for a target
// that exists without overwrite, [ErrInvalidArgument] for a path moved to
// itself, [ErrNotFound] for a directory without files, [ErrNotARegularFile] for
// one with a link or a special file, [ErrTooLarge] for one with more than 4,096
// files, [ErrCrossDevice] if the two paths are on different file systems. A
// directory is never moved in part.
func (s *Store) Move(ctx context.Context, r MoveRequest) (MoveResult, error) {
	req := requestOf(r.Call, "move", r)
	req.long = true
	c := s.newCommit(ctx, req)
	m := &move.Move{From: r.Path, To: r.To, Overwrite: r.Overwrite, Force: r.Force}
	dst, src := move.Pair(r.Path, r.To, r.Overwrite, r.Force)
	c.Muts, src.Expected = []*engine.Mutation{dst, src}, r.Expect.Hash()
	err := s.commitPrepared(ctx, c, func(context.Context) error { return m.Prepare(c.Commit, s.engine, s.keyKnown(r.IdempotencyKey)) })
	if err != nil {
		return MoveResult{}, err
	}
	rec := c.finished()
	n := len(c.Muts)
	if c.Replayed != nil {
		n = len(engine.ChangedBy(c.Replayed))
	}
	return MoveResult{Receipt: rec, Path: m.From, To: m.To, Files: n / 2}, nil
}
