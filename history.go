package resilientwrite

import (
	"cmp"
	"context"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/history"
	"github.com/resilientwrite/resilientwrite/internal/versions"
)

// maxVersions is how many versions one call of History lists.
const maxVersions = 1000

// HistoryRequest asks for the versions of one file.
type HistoryRequest struct {
	// Path of the file, relative to the workspace. The file need not exist any
	// more.
	Path string `json:"path" required:"true"`
	N    int    `json:"n,omitempty" default:"20" min:"1" max:"1000"` // Maximum number of versions.
}

// HistoryResult lists the versions of one file.
type HistoryResult struct {
	Path     string        `json:"path"`     // Path of the file, relative to the workspace.
	Versions []FileVersion `json:"versions"` // The versions, newest first.
	More     bool          `json:"more"`     // True when there are older versions.
}

// FileVersion is what a file was after one commit.
type FileVersion struct {
	Version uint64 `json:"version"` // Identifier of the version: the journal row that created it.
	// Number of the version at its path: 1, 2, 3; the others keep theirs when one
	// is pruned.
	Rev    uint64 `json:"rev"`
	Path   string `json:"path"`           // Path of the file at that time.
	From   string `json:"from,omitempty"` // Previous path, when the commit moved the file.
	SHA256 Digest `json:"sha256"`         // SHA-256 of the file; empty when the commit removed it.
	Bytes  int64  `json:"bytes"`          // Size of the file in bytes.
	Link   bool   `json:"link,omitempty"` // True for a symbolic link, whose content is its target.
	// The operation: create, overwrite, append, edit, delete, move …
	Op     string    `json:"op"`
	TS     Timestamp `json:"ts"`     // When, RFC 3339 UTC; informational.
	Caller string    `json:"caller"` // Who made it.
	// Command line that made the change, or during which it was made, without
	// secrets.
	Command string `json:"command,omitempty"`
	// What the server knows of the call, independent of caller.
	Via       *Via `json:"via,omitempty"`
	Available bool `json:"available"` // True when its content can still be read and restored.
	// True for the newest version when history has no copy of it: its content is
	// only in the file itself, where other programs can change or remove it.
	HeadNotKept bool   `json:"head_not_kept,omitempty"`
	Erased      bool   `json:"erased,omitempty"`  // True when the operator erased its content.
	Problem     Detail `json:"problem,omitempty"` // Why it cannot be read, such as permission_denied.
}

// History lists the versions of a file, newest first, across deletions and moves:
// every file that was at the path and, for a file that was moved there, its
// versions under earlier names. If a move replaced a file, or was made to a path
// that had one before, the versions of both are listed, in the order in which
// they were made, and path names the file of each. A file that was moved from
// here to another path is listed there as well.
//
// Every listed version can be passed to [Store.Read], [Store.Diff] and
// [Store.Restore], which find the newest 10,000 versions of a path. If a number
// occurs twice, it refers to the version at the requested path. The cost is
// proportional to the versions requested. Errors: the common ones, the path
// details, [ErrNotFound] for a path the journal does not know.
func (s *Store) History(ctx context.Context, r HistoryRequest) (HistoryResult, error) {
	return reading(ctx, s, "history", r.Path, r, func() (HistoryResult, error) { return s.listVersions(r) })
}

func (s *Store) listVersions(r HistoryRequest) (HistoryResult, error) {
	n := cmp.Or(r.N, 20)
	if n < 1 || n > maxVersions {
		return HistoryResult{}, fault.New(fault.InvalidArgument).With("argument", "n").Hintf("n must be 1 to %d", maxVersions)
	}
	path, err := versions.Path(s.engine, r.Path)
	if err != nil {
		return HistoryResult{}, err
	}
	list, more, err := versions.List(s.versions, path, n)
	if err != nil {
		return HistoryResult{}, err
	}
	out := HistoryResult{Path: path, Versions: make([]FileVersion, len(list)), More: more}
	for i, v := range list {
		out.Versions[i] = FileVersion{
			Version: v.Seq, Rev: v.M.Rev, Path: v.Path, From: v.M.From, SHA256: digest(v.M.SHA256), Bytes: v.M.Bytes, Link: v.M.Link(), Op: v.M.Op, TS: timestamp(v.TS), Caller: v.Caller, Via: viaOf(v.Via),
			Available: v.Available, HeadNotKept: v.HeadNotKept, Erased: v.Erased, Problem: Detail(v.Problem),
		}
		if v.Group != nil {
			out.Versions[i].Command = v.Group.Command
		}
	}
	return out, nil
}

// DiffRequest asks what changed between two versions of a file.
type DiffRequest struct {
	// Path of the file, relative to the workspace. The file need not exist any
	// more.
	Path string `json:"path" required:"true"`
	// The earlier version, from Store.History. Default: the newest version before
	// the other side that differs from it.
	From uint64 `json:"from,omitempty" min:"0"`
	To   uint64 `json:"to,omitempty" min:"0"` // The later version. Default: the current file.
}

// DiffResult is the change between two versions of a file.
type DiffResult struct {
	Path string `json:"path"` // Path of the file, relative to the workspace.
	// The earlier version; 0 when there was none, so that the whole file is new.
	From uint64 `json:"from"`
	To   uint64 `json:"to"` // The later version; 0 for the current file.
	// SHA-256 of the earlier version; empty where the file did not exist.
	FromSHA256 Digest `json:"from_sha256"`
	// SHA-256 of the later version; empty where the file did not exist.
	ToSHA256  Digest `json:"to_sha256"`
	Identical bool   `json:"identical"` // True when both versions are identical.
	// Unified diff, at most 32 KiB; empty when there are no differences to show.
	Diff      string `json:"diff"`
	Truncated bool   `json:"truncated"` // True when the diff was truncated.
	// Why there is no diff although the versions differ.
	Omitted string `json:"omitted,omitempty" enum:"binary,too_large"`
}

// Diff returns the unified diff between two versions of a file, or between a
// version and the current file. The versions are those of [Store.History],
// including those of a file that another one replaced. Files that contain a
// NUL, or that together exceed 1 MiB, are compared only by their hashes.
// Errors: the common ones, the path details, [ErrNotFound] for a path that is
// neither on disk nor in the journal, [ErrVersionNotFound],
// [ErrVersionNotKept], [ErrHashDriftOnRead].
func (s *Store) Diff(ctx context.Context, r DiffRequest) (DiffResult, error) {
	return reading(ctx, s, "diff", r.Path, r, func() (DiffResult, error) {
		path, err := versions.Path(s.engine, r.Path)
		if err != nil {
			return DiffResult{}, err
		}
		d, err := versions.Compare(s.versions, path, r.From, r.To)
		return DiffResult{
			Path: path, From: d.From, To: d.To, FromSHA256: digest(d.FromSHA256), ToSHA256: digest(d.ToSHA256),
			Identical: d.FromSHA256 == d.ToSHA256, Diff: d.Text, Truncated: d.Truncated, Omitted: d.Omitted,
		}, err
	})
}

// RestoreRequest asks for a file to become what it was.
type RestoreRequest struct {
	Call `omit:"accept_risk"`

	// Path of the file, relative to the workspace. The file need not exist any
	// more.
	Path string `json:"path" required:"true"`
	// The version to restore, from Store.History. Give this or sha256.
	Version uint64 `json:"version,omitempty" min:"0"`
	SHA256  Digest `json:"sha256,omitzero"` // The newest version with this SHA-256.
	// Restore although the file was changed outside this store; the current
	// content is kept in history.
	Force bool `json:"force,omitempty"`
}

// RestoreResult is what a restoration did. SHA256 is empty when the file does not
// exist now.
type RestoreResult struct {
	Receipt `json:"receipt" copies:"path,sha256,bytes,journal_id,wrote_at,status,warnings"`
	Version uint64 `json:"version"`        // The version that was restored.
	Diff    string `json:"diff,omitempty"` // Unified diff, truncated when long; dry run only.
}

// Restore makes a file what it was after an earlier commit: one of the versions
// that [Store.History] lists for its path, including those of a file that another
// one replaced, or, by its hash, what another program saved before a commit or
// during it ([call.WarnForeignWriteKept]). The result is a new version itself, so
// it can be undone. Restoring a version in which the file did not exist removes
// it. The bytes are copied from history.
//
// If the content differs from the one that the journal recorded last, another
// program changed the file, and Restore fails with [ErrChangedOutside] unless
// force is set; the current content then goes into history. Other errors: the
// common ones, the path details, [ErrVersionNotFound], [ErrVersionNotKept] for
// bytes that are no longer kept, [ErrHashDriftOnRead], and those of
// [Store.SafeWrite].
func (s *Store) Restore(ctx context.Context, r RestoreRequest) (RestoreResult, error) {
	c := s.newCommit(ctx, requestOf(r.Call, "restore", r))
	if (r.Version == 0) == r.SHA256.IsZero() {
		c.check(fault.New(fault.InvalidArgument).With("argument", "version").Hintf("give either version or sha256; Store.History lists them"))
	}
	c.Muts = []*engine.Mutation{{Path: r.Path}}
	v := &history.Version{Seq: r.Version}
	c.Outcome = func() any { return outcome{Version: v.Seq} }
	err := s.commitPrepared(ctx, c, func(ctx context.Context) (err error) {
		if !s.keyKnown(c.Req.Key) { // otherwise the key answers
			v, err = s.prepareRestore(ctx, c, r)
		}
		return err
	})
	if err != nil {
		return RestoreResult{}, err
	}
	return RestoreResult{Receipt: c.finished(), Version: cmp.Or(c.storedOutcome().Version, v.Seq), Diff: c.Diff}, nil
}

// prepareRestore finds the version and takes its bytes.
func (s *Store) prepareRestore(ctx context.Context, c *commit, r RestoreRequest) (*history.Version, error) {
	restore := &versions.Restore{
		Op: c.Req.Op, Path: r.Path, Seq: r.Version, SHA256: r.SHA256.String(), Force: r.Force,
		Take: c.taking(ctx),
	}
	m, v, err := restore.Plan(s.versions)
	if err != nil {
		return nil, err
	}
	c.Muts = []*engine.Mutation{m}
	c.Plan = func(context.Context) error { return restore.Again(s.versions, m, v) }
	c.Dirs, err = s.changes().GoneDirs(c.Muts, nil)
	return v, err
}
