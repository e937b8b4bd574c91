package resilientwrite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/blob"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/index"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// maxVersions is how many versions one call of History lists; maxUndo how many
// commits one call of Undo takes back.
const (
	maxVersions = 1000
	maxUndo     = 50
)

// HistoryRequest asks for the versions of one file.
type HistoryRequest struct {
	Path string `json:"path" required:"true" desc:"Path of the file, relative to the workspace. The file need not be there any more."`
	N    int    `json:"n,omitempty" default:"20" min:"1" max:"1000" desc:"At most this many versions."`
}

// HistoryResult lists the versions of one file.
type HistoryResult struct {
	Path     string        `json:"path" desc:"Path of the file, relative to the workspace."`
	Versions []FileVersion `json:"versions" desc:"Newest first."`
	More     bool          `json:"more" desc:"True when there are older ones."`
}

// FileVersion is what a file was after one commit.
type FileVersion struct {
	Version   uint64 `json:"version" desc:"Names the version: the journal row that made it."`
	Path      string `json:"path" desc:"Where the file was then."`
	SHA256    string `json:"sha256" desc:"SHA-256 of the file; empty when the commit removed it."`
	Bytes     int64  `json:"bytes" desc:"Size of the file in bytes."`
	Op        string `json:"op" desc:"What was done: create, overwrite, append, edit, delete, move …"`
	TS        string `json:"ts" desc:"When, RFC 3339 UTC; informational."`
	Caller    string `json:"caller" desc:"Who did it."`
	Available bool   `json:"available" desc:"True when its bytes can still be read and restored."`
	Erased    bool   `json:"erased,omitempty" desc:"True when its bytes are gone because the operator erased them."`
}

// History lists the versions of a file, newest first, over deletions and
// moves. Its cost is that of the versions asked for. Errors: the path details,
// [InvalidArgument], [NotFound] for a path the journal does not know, the
// storage details, [StoreClosed]. Nothing is changed on disk.
func (s *Store) History(ctx context.Context, r HistoryRequest) (HistoryResult, error) {
	a, err := s.begin(ctx, "history", r.Path, r)
	if err != nil {
		return HistoryResult{}, err
	}
	out, err := s.listVersions(r)
	if err != nil {
		return HistoryResult{}, a.failed(err)
	}
	s.leave()
	return out, nil
}

func (s *Store) listVersions(r HistoryRequest) (HistoryResult, error) {
	n := r.N
	if n == 0 {
		n = 20
	}
	if n < 1 || n > maxVersions {
		return HistoryResult{}, fail(InvalidArgument).with("argument", "n").hint("n is 1 to %d", maxVersions)
	}
	path, err := s.identity(r.Path)
	if err != nil {
		return HistoryResult{}, err
	}
	list, err := s.versions(path, n+1)
	if err != nil {
		return HistoryResult{}, err
	}
	if len(list) == 0 {
		return HistoryResult{}, fail(NotFound).hint("the journal knows no file at this path; check the path")
	}
	out := HistoryResult{Path: path, Versions: []FileVersion{}, More: len(list) > n}
	for i, v := range list[:min(len(list), n)] {
		out.Versions = append(out.Versions, FileVersion{
			Version: v.seq, Path: v.m.Identity(), SHA256: v.m.SHA256, Bytes: v.m.Bytes, Op: v.m.Op, TS: v.ts, Caller: v.caller,
			Available: v.m.SHA256 == "" || s.available(list[:i+1]),
		})
		last := &out.Versions[i]
		last.Erased = !last.Available && s.isErased(list[:i+1])
	}
	return out, nil
}

// identity is the path without links that a path of a request has in the
// journal.
func (s *Store) identity(raw string) (string, error) {
	rel, _, err := relpath.Clean(raw, s.tree.Rules)
	if err != nil {
		return "", err
	}
	t, err := s.tree.Resolve(rel)
	if err != nil {
		return "", err
	}
	defer t.Close()
	return t.Path, nil
}

// version is one row of a file's history.
type version struct {
	seq    uint64
	i      int // of the mutation
	m      journal.Mutation
	ts     string
	caller string
}

// versions follows the rows of a path back, at most n, newest first. A row
// that moved the file here leads on to the rows of its old path.
func (s *Store) versions(path string, n int) ([]version, error) { return s.rowsOf(path, n, true) }

// rowsOf is versions, which follow moves, or the rows of the path alone: they
// also tell of files that a move replaced.
func (s *Store) rowsOf(path string, n int, follow bool) ([]version, error) {
	if s.log == nil {
		return nil, nil
	}
	if s.behind != nil { // what is settled behind goes into history only then
		if err := s.behind.drain(); err != nil {
			return nil, err
		}
	}
	if err := s.log.CatchUp(); err != nil && !s.opts.ReadOnly {
		return nil, err
	}
	last, err := s.lastRow(path)
	if err != nil {
		return nil, err
	}
	var list []version
	for seq := last.Seq; seq > 0 && len(list) < n; {
		rec, err := s.log.Find(seq)
		if errors.Is(err, journal.ErrNotFound) {
			break
		}
		if err != nil {
			return nil, err
		}
		i := mutationOf(rec, path)
		if i < 0 {
			break
		}
		m := rec.Muts[i]
		list = append(list, version{seq: rec.Seq, i: i, m: m, ts: rec.TS, caller: rec.Caller})
		seq = m.PrevSeq
		if m.From != "" && follow {
			if j := mutationOf(rec, m.From); j >= 0 {
				path, seq = m.From, rec.Muts[j].PrevSeq
			}
		}
	}
	return list, nil
}

// mutationOf is the index of the mutation of a path in a record, -1 for none.
func mutationOf(rec *journal.Record, path string) int {
	for i := range rec.Muts {
		if rec.Muts[i].Identity() == path {
			return i
		}
	}
	return -1
}

// available reports whether the bytes of the last of some versions, newest
// first, can be had.
func (s *Store) available(list []version) bool {
	r, _, err := s.versionContent(list)
	if err != nil {
		return false
	}
	r.Close()
	return true
}

// versionContent opens the bytes of the last of some versions, newest first:
// in history, in the file itself, or, for what was appended to, as the first
// part of the version behind it.
func (s *Store) versionContent(list []version) (io.ReadCloser, int64, error) {
	v := list[len(list)-1]
	if v.m.SHA256 == "" {
		return nil, 0, fail(VersionNotKept).hint("the file was not there in this version")
	}
	if s.history != nil {
		if f, err := s.history.Open(v.m.SHA256); err == nil {
			return sectionCloser{io.NewSectionReader(f, 0, v.m.Bytes), f}, v.m.Bytes, nil
		} else if !isAbsent(err) && !errors.Is(err, blob.ErrDamaged) {
			return nil, 0, err
		}
	}
	if len(list) == 1 {
		return s.currentContent(v)
	}
	next := list[len(list)-2]
	switch {
	case next.m.SHA256 == v.m.SHA256, next.m.How == howAppend && next.m.PrevSHA256 == v.m.SHA256: // moved, or left as it was
		return firstBytes(list[:len(list)-1], v.m.Bytes, s)
	case next.m.How == howUnlink && next.m.PrevSHA256 == v.m.SHA256:
		return s.movedContent(next.seq, v.m.Identity(), v.m.Bytes)
	}
	return nil, 0, s.notKept(v.m.SHA256)
}

// notKept is the error of a version whose bytes are gone; it tells when they
// were erased.
func (s *Store) notKept(sha string) *Error {
	e := fail(VersionNotKept)
	if s.history == nil || !s.history.Erased(sha) {
		return e
	}
	return e.with("erased", true).hint("the operator erased the bytes of this version because they held a secret")
}

// isErased reports whether the last of some versions, newest first, cannot be
// had because it, or the one whose beginning it is, was erased.
func (s *Store) isErased(list []version) bool {
	r, _, err := s.versionContent(list)
	if err == nil {
		r.Close()
	}
	var e *Error
	return errors.As(err, &e) && e.Context["erased"] == true
}

// firstBytes opens the first size bytes of the last of some versions.
func firstBytes(list []version, size int64, s *Store) (io.ReadCloser, int64, error) {
	r, have, err := s.versionContent(list)
	if err != nil {
		return nil, 0, err
	}
	if have < size {
		r.Close()
		return nil, 0, fail(VersionNotKept)
	}
	return sectionCloser{io.LimitReader(r, size), r}, size, nil
}

// movedContent opens what a file held when the commit seq moved it away: the
// bytes went on under the new name, and history may not have them.
func (s *Store) movedContent(seq uint64, path string, size int64) (io.ReadCloser, int64, error) {
	rec, err := s.log.Find(seq)
	if err != nil {
		return nil, 0, fail(VersionNotKept)
	}
	for i := range rec.Muts {
		if rec.Muts[i].From == path {
			return s.contentAt(rec.Muts[i].Identity(), seq, size)
		}
	}
	return nil, 0, fail(VersionNotKept)
}

// contentAt opens the first size bytes of what a file held after the commit
// seq.
func (s *Store) contentAt(path string, seq uint64, size int64) (io.ReadCloser, int64, error) {
	list, err := s.rowsOf(path, maxVersions, false)
	if err != nil {
		return nil, 0, err
	}
	for i := range list {
		if list[i].seq == seq {
			return firstBytes(list[:i+1], size, s)
		}
	}
	return nil, 0, fail(VersionNotKept)
}

// currentContent opens the file itself, when it still is what the version was.
func (s *Store) currentContent(v version) (io.ReadCloser, int64, error) {
	f, size, err := s.openCurrent(v.m.Identity())
	if isAbsent(err) {
		err = s.notKept(v.m.SHA256)
	}
	if err != nil {
		return nil, 0, err
	}
	if size != v.m.Bytes {
		f.Close()
		return nil, 0, s.notKept(v.m.SHA256)
	}
	return f, size, nil
}

// openCurrent opens a file as it is.
func (s *Store) openCurrent(path string) (io.ReadCloser, int64, error) {
	t, err := s.locate(path)
	if err != nil {
		return nil, 0, err
	}
	defer t.Close()
	if !t.Exists() {
		return nil, 0, fs.ErrNotExist
	}
	f, err := t.Parent.Open(t.Name, fsx.Read, 0)
	if err != nil {
		return nil, 0, err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return sectionCloser{io.NewSectionReader(f, 0, st.Size), f}, st.Size, nil
}

type sectionCloser struct {
	io.Reader
	io.Closer
}

// RestoreRequest asks for a file to become what it was.
type RestoreRequest struct {
	Path           string `json:"path" required:"true" desc:"Path of the file, relative to the workspace. The file need not be there any more."`
	Version        uint64 `json:"version,omitempty" min:"0" desc:"The version to restore, from rw_history. Give this or sha256."`
	SHA256         string `json:"sha256,omitempty" desc:"The newest version with this SHA-256."`
	Force          bool   `json:"force,omitempty" desc:"Restore although somebody changed the file without this store; what is there goes into history."`
	DryRun         bool   `json:"dry_run,omitempty" desc:"Decide as the real call would, return a diff, change nothing."`
	IdempotencyKey string `json:"idempotency_key,omitempty" maxlen:"200" desc:"Send the same key again after a lost reply: the call happens once."`
	Caller         string `json:"caller,omitempty" maxlen:"200" desc:"Who restores, for the journal."`
	Session        string `json:"session,omitempty" maxlen:"200" desc:"Name of the working session, for the journal."`
}

// RestoreResult is what a restoration did.
type RestoreResult struct {
	Path      string    `json:"path" desc:"Path of the file, relative to the workspace."`
	Version   uint64    `json:"version" desc:"The version that was restored."`
	SHA256    string    `json:"sha256" desc:"SHA-256 of the file now; empty when it is gone."`
	Bytes     int64     `json:"bytes" desc:"Size of the file in bytes."`
	Diff      string    `json:"diff,omitempty" desc:"Unified diff, dry run only, capped."`
	JournalID string    `json:"journal_id,omitempty" desc:"Identifier of the journal row; absent when nothing was written."`
	WroteAt   string    `json:"wrote_at" desc:"When, RFC 3339 UTC."`
	Status    Status    `json:"status" desc:"How the call ended." enum:"succeeded,unchanged,replayed"`
	Warnings  []Warning `json:"warnings" desc:"What you should know although the call succeeded."`
	Receipt   Receipt   `json:"receipt" desc:"The full account of the call."`
}

// Restore makes a file what it was after an earlier commit. That is a new
// version itself, so it can be taken back. A version in which the file was
// gone removes it. The bytes come from history as a copy.
//
// When the file is not what the journal last wrote, somebody changed it
// without this store, and Restore fails with [ChangedOutside] unless force is
// set; then what is there goes into history. Errors besides: the path details,
// [InvalidArgument], [VersionNotFound], [VersionNotKept] for bytes that are no
// longer there, [HashDriftOnRead], and those of [Store.SafeWrite].
func (s *Store) Restore(ctx context.Context, r RestoreRequest) (RestoreResult, error) {
	c := s.newCommit(request{
		op: "restore", caller: r.Caller, session: r.Session, key: r.IdempotencyKey, dryRun: r.DryRun,
		hash: requestHash([]string{"restore", r.Path, fmt.Sprint(r.Version), strings.ToLower(r.SHA256), flag(r.Force)}),
	})
	e := checkLabels(r.Caller, r.Session, r.IdempotencyKey)
	if e == nil && (r.Version == 0) == (r.SHA256 == "") {
		e = fail(InvalidArgument).with("argument", "version").hint("give version or sha256, one of them; rw_history lists them")
	}
	c.muts = []*mutation{{path: r.Path}}
	if e != nil {
		return RestoreResult{}, c.failed(e)
	}
	ctx, _, end := metered(ctx)
	defer end()
	v, err := s.prepareRestore(ctx, c, r)
	if err != nil {
		c.release()
		return RestoreResult{}, c.failed(err)
	}
	if err := s.commit(ctx, c); err != nil {
		return RestoreResult{}, err
	}
	rec, status := c.finished()
	return RestoreResult{
		Path: c.first().path, Version: v.seq, SHA256: rec.SHA256, Bytes: rec.Bytes, Diff: c.diff, JournalID: rec.JournalID,
		WroteAt: c.wroteAt(), Status: status, Warnings: rec.Warnings, Receipt: rec,
	}, nil
}

// prepareRestore finds the version and takes its bytes.
func (s *Store) prepareRestore(ctx context.Context, c *commit, r RestoreRequest) (version, error) {
	if err := s.enterReader(); err != nil {
		return version{}, err
	}
	defer s.leave()
	if s.keyKnown(c.req.key) { // the key answers
		return version{seq: r.Version}, nil
	}
	path, err := s.identity(r.Path)
	if err != nil {
		return version{}, err
	}
	for _, follow := range []bool{true, false} {
		list, err := s.rowsOf(path, maxVersions, follow)
		if err != nil {
			return version{}, err
		}
		for i, v := range list {
			if v.seq == r.Version || r.SHA256 != "" && v.m.SHA256 == strings.ToLower(r.SHA256) {
				m, err := s.restoring(ctx, c, 0, r.Path, list[:i+1], r.Force)
				if err != nil {
					return v, err
				}
				c.muts = []*mutation{m}
				return v, nil
			}
		}
	}
	return version{}, fail(VersionNotFound)
}

// restoring is the mutation that makes a file what it was in the last of some
// versions, newest first.
func (s *Store) restoring(ctx context.Context, c *commit, i int, path string, list []version, force bool) (*mutation, error) {
	v, last := list[len(list)-1], list[0].m
	believed := last.SHA256
	m := &mutation{path: path, op: ModeOverwrite, kind: c.req.op, force: true, allowShrink: true, ungated: true}
	if !force {
		m.expected, m.guarded = &believed, true
	}
	if v.m.SHA256 == "" {
		m.op, m.absentOK = modeDelete, true
		return m, nil
	}
	src, _, err := s.versionContent(list)
	if err != nil {
		return m, err
	}
	defer src.Close()
	mode := v.m.Mode
	if last.How == howUnlink { // what was to be kept from others stays so
		mode = last.Mode
	}
	sum, err := s.takeKept(ctx, c, m, src, i, mode)
	if err != nil {
		return m, err
	}
	if sum != v.m.SHA256 {
		m.dropSpooled(s, c, i)
		return m, fail(HashDriftOnRead).hint("the kept bytes of this version are not what they were; restore another one")
	}
	return m, nil
}

// takeKept takes the bytes of an earlier version. Where no file is whose mode
// is kept, the one that is made has the mode the journal knows.
func (s *Store) takeKept(ctx context.Context, c *commit, m *mutation, src io.Reader, i int, mode uint32) (string, error) {
	if mode == 0 || s.isThere(m.path) {
		return s.takeAt(ctx, c, m, src, i)
	}
	if err := s.enter(); err != nil {
		return "", err
	}
	defer s.leave()
	in, err := s.spool(meterOf(ctx).counting(stoppable{ctx, src}), stagedName(c.id, i))
	if err != nil {
		return "", err
	}
	m.file, m.staged, m.spooled = in.file, true, true
	m.content, m.measured = fileBody(in.file, in.size), &in.got
	if err := in.file.Chmod(mode); err != nil {
		m.dropSpooled(s, c, i)
		return "", err
	}
	return in.got.digest.hex(), nil
}

// isThere reports whether something is under a path.
func (s *Store) isThere(path string) bool {
	rel, _, err := relpath.Clean(path, s.tree.Rules)
	if err != nil {
		return false
	}
	t, err := s.tree.Resolve(rel)
	if err != nil {
		return false
	}
	defer t.Close()
	if !t.Exists() {
		return false
	}
	_, err = t.Parent.Lstat(t.Name)
	return err == nil
}

// keyKnown reports whether an idempotency key was used: then the key answers
// the call, whatever became of the files since.
func (s *Store) keyKnown(key string) bool {
	if key == "" || s.log == nil {
		return false
	}
	if !s.opts.ReadOnly && s.log.CatchUp() != nil {
		return false
	}
	e, err := s.rows.get(index.IdemKey(key))
	return err == nil && e.Seq != 0
}

// dropSpooled removes what was taken for a mutation that is not to be.
func (m *mutation) dropSpooled(s *Store, c *commit, i int) {
	if m.staged && m.file != nil {
		m.file.Close()
		m.file, m.staged = nil, false
		s.disk.staging.Remove(stagedName(c.id, i))
	}
}
