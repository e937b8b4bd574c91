package resilientwrite

import (
	"cmp"
	"context"
	"io"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/history"
	"github.com/resilientwrite/resilientwrite/internal/progress"
)

// RestoreRequest asks for a file to become what it was.
type RestoreRequest struct {
	Call `omit:"accept_risk"`

	// Path of the file, relative to the workspace. The file need not exist any
	// more.
	Path string `json:"path" required:"true"`
	// The version to restore, from Store.History. Give this or sha256.
	Version uint64 `json:"version,omitempty" min:"0"`
	// The newest version with this SHA-256.
	SHA256 Digest `json:"sha256,omitzero"`
	// Restore although the file was changed outside this store; the current
	// content is kept in history.
	Force bool `json:"force,omitempty"`
}

// RestoreResult is what a restoration did.
type RestoreResult struct {
	// Path of the file, relative to the workspace.
	Path string `json:"path"`
	// The version that was restored.
	Version uint64 `json:"version"`
	// SHA-256 of the current file; empty when it does not exist.
	SHA256 Digest `json:"sha256"`
	// Size of the file in bytes.
	Bytes int64 `json:"bytes"`
	// Unified diff, truncated when long; dry run only.
	Diff string `json:"diff,omitempty"`
	// Identifier of the journal row; absent when nothing was written.
	JournalID string `json:"journal_id,omitempty"`
	// When, RFC 3339 UTC.
	WroteAt string `json:"wrote_at"`
	// Outcome of the call.
	Status Status `json:"status" enum:"succeeded,unchanged,replayed"`
	// What the caller should know although the call succeeded.
	Warnings []Warning `json:"warnings"`
	// The full record of the call.
	Receipt Receipt `json:"receipt"`
}

// Restore makes a file what it was after an earlier commit: one of the versions
// that [Store.History] lists for its path, including those of a file that another
// one replaced. The result is a new version itself, so it can be undone.
// Restoring a version in which the file did not exist removes it. The bytes are
// copied from history.
//
// If the content differs from the one that the journal recorded last, another
// program changed the file, and Restore fails with [ErrChangedOutside] unless
// force is set; the current content then goes into history. Other errors: the
// path details, [ErrInvalidArgument], [ErrVersionNotFound], [ErrVersionNotKept]
// for bytes that are no longer kept, [ErrHashDriftOnRead], and those of
// [Store.SafeWrite].
func (s *Store) Restore(ctx context.Context, r RestoreRequest) (RestoreResult, error) {
	c := s.newCommit(ctx, r.request("restore", r))
	e := r.Call.check(ctx)
	if e == nil && (r.Version == 0) == r.SHA256.IsZero() {
		e = fault.New(fault.InvalidArgument).With("argument", "version").Hintf("give either version or sha256; Store.History lists them")
	}
	c.Muts = []*engine.Mutation{{Path: r.Path}}
	if e != nil {
		return RestoreResult{}, c.Failed(e)
	}
	ctx, _, end := progress.Begin(ctx)
	defer end()
	v, err := s.prepareRestore(ctx, c, r)
	if err != nil {
		c.Release()
		return RestoreResult{}, c.Failed(err)
	}
	c.Outcome = func() any { return outcome{Version: v.Seq} }
	if err := s.commit(ctx, c); err != nil {
		return RestoreResult{}, err
	}
	rec, status := c.finished()
	return RestoreResult{
		Path: c.First().Path, Version: cmp.Or(c.storedOutcome().Version, v.Seq), SHA256: rec.SHA256, Bytes: rec.Bytes, Diff: c.Diff, JournalID: rec.JournalID,
		WroteAt: c.wroteAt(), Status: status, Warnings: rec.Warnings, Receipt: rec,
	}, nil
}

// prepareRestore finds the version and takes its bytes.
func (s *Store) prepareRestore(ctx context.Context, c *commit, r RestoreRequest) (*history.Version, error) {
	if err := s.engine.EnterReader(); err != nil {
		return nil, err
	}
	defer s.engine.Leave()
	if s.keyKnown(c.Req.Key) { // the key answers
		return &history.Version{Seq: r.Version}, nil
	}
	path, err := s.versioned(r.Path)
	if err != nil {
		return nil, err
	}
	l, err := s.versions.Lineage(path)
	if err != nil {
		return nil, err
	}
	sha := r.SHA256.String()
	v, err := l.Find(r.Version, func(v *history.Version) bool { return v.Seq == r.Version || sha != "" && v.M.SHA256 == sha })
	if err != nil {
		return nil, err
	}
	to := r.Path
	at, err := s.identity(to)
	direct := err == nil && at == path
	if !direct { // the name itself, as it was
		to = path
	}
	m, err := s.restoring(ctx, c, 0, to, v, l.Got[0], r.Force)
	m.NoFollow = m.NoFollow || !direct
	if err != nil {
		return v, err
	}
	c.Muts = []*engine.Mutation{m}
	c.Dirs, err = s.changes().GoneDirs(c.Muts, nil)
	return v, err
}

// restoring returns the mutation that brings a file back to a version, if the
// file is still what it was in the newest one.
func (s *Store) restoring(ctx context.Context, c *commit, i int, path string, v, newest *history.Version, force bool) (*engine.Mutation, error) {
	believed := newest.M.SHA256
	m := &engine.Mutation{Path: path, Origin: v.Path, Op: engine.OpOverwrite, Kind: c.Req.Op, Force: true, AllowShrink: true, Ungated: true}
	if !force {
		m.Expected, m.Guarded = &believed, true
	}
	if v.M.Link() || newest.M.Link() {
		m.NoFollow, m.WasLink, m.Perm = true, newest.M.Link(), &v.M.Mode
	}
	if v.M.SHA256 == "" {
		m.Op, m.AbsentOK, m.Perm = engine.OpDelete, true, nil
		return m, nil
	}
	src, _, err := s.versions.VersionContent(v)
	if err != nil {
		return m, err
	}
	defer src.Close()
	mode := v.M.Mode
	if last := newest.M.ModeBefore(); newest.M.SHA256 == "" && fsx.KindOf(last) != fsx.Directory { // what was to be kept from others stays so
		mode = last
	}
	if m.NoFollow {
		mode = 0 // Perm is
	}
	sum, err := s.takeKept(ctx, c, m, src, mode)
	if err != nil {
		return m, err
	}
	if sum != v.M.SHA256 {
		m.DropSpooled()
		return m, fault.New(fault.HashDriftOnRead).Hintf("the kept content of this version is damaged; restore another one")
	}
	return m, nil
}

// mostKept is how many bytes of earlier versions a commit of many files holds in
// memory.
const mostKept = 64 << 20

// takeKept takes the bytes of an earlier version. If there is no file whose mode
// is kept, the new file gets the mode that the journal records.
func (s *Store) takeKept(ctx context.Context, c *commit, m *engine.Mutation, src io.Reader, mode uint32) (string, error) {
	there := mode == 0 || m.Link() || s.engine.IsThere(m.Path)
	if there && (!c.Many() || c.kept < mostKept) {
		sum, err := s.take(ctx, c, m, src)
		c.kept += m.Content.Size()
		return sum, err
	}
	if err := s.engine.Enter(); err != nil {
		return "", err
	}
	defer s.engine.Leave()
	account := progress.Of(ctx)
	account.Reading(src)
	in, err := c.Spool(account.Counting(engine.NewStoppable(ctx, src)))
	if err != nil {
		return "", err
	}
	m.TakeSpooled(in)
	if there {
		return in.Got.Digest.Hex(), nil
	}
	if err := in.Slot.File.Chmod(mode); err != nil {
		m.DropSpooled()
		return "", err
	}
	return in.Got.Digest.Hex(), nil
}
