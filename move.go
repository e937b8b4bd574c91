package resilientwrite

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// opMove gives a file another name.

// maxMoved is how many files one move of a directory takes along.
const maxMoved = 4096

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

// MoveResult is what a move did.
type MoveResult struct {
	// Previous path.
	Path string `json:"path"`
	// New path.
	To string `json:"to"`
	// SHA-256 of the file; for a directory, of its first file.
	SHA256 Digest `json:"sha256"`
	// Size of the file in bytes; for a directory, of its first file.
	Bytes int64 `json:"bytes"`
	// Number of files moved.
	Files int `json:"files"`
	// Identifier of the journal row.
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
// that exists without overwrite, [ErrInvalidArgument] for a path moved to itself,
// [ErrNotFound] for a directory without files, [ErrNotARegularFile] for one with
// a link or a special file, [ErrTooLarge] for one with more than 4,096 files,
// [ErrCrossDevice] if the two paths are on different file systems. After an error
// nothing is moved, unless Effect reports otherwise; a directory is never moved
// in part.
func (s *Store) Move(ctx context.Context, r MoveRequest) (MoveResult, error) {
	req := r.request("move", r)
	req.long = true
	c := s.newCommit(ctx, req)
	out, tree, err := s.moved(ctx, c, r)
	if err != nil {
		return MoveResult{}, c.Failed(err)
	}
	c.Plan = c.distinct
	if tree != nil {
		c.Alone = true
		c.Plan = func(ctx context.Context) error { return s.planMoved(ctx, c, r, out, tree) }
	}
	if err := s.commit(ctx, c); err != nil {
		return MoveResult{}, err
	}
	rec, status := c.finished()
	out.Files = len(c.Muts) / 2
	if c.Replayed != nil {
		n := 0
		for i := range c.Replayed.Muts {
			if c.Replayed.Muts[i].Class == "" {
				n++
			}
		}
		out.Files = n / 2
	}
	out.SHA256, out.Bytes, out.JournalID, out.WroteAt = rec.SHA256, rec.Bytes, rec.JournalID, c.wroteAt()
	out.Status, out.Warnings, out.Receipt = status, rec.Warnings, rec
	return out, nil
}

// distinct refuses two mutations of one file, which can result from a link or
// from letter case: each would treat the other's file as its own. It also refuses
// a file at a path that must be a directory above another file, which would
// otherwise be detected only after the commit point. It runs under the locks.
func (c *commit) distinct(context.Context) error {
	seen := map[string][]*engine.Mutation{}
	for _, m := range c.Muts {
		if m.Private {
			continue
		}
		key := relpath.Key(m.Target.Path)
		for _, other := range seen[key] {
			if m.Target.Path != other.Target.Path && !sameFile(m.Target, other.Target) {
				continue
			}
			e := fault.New(fault.InvalidArgument).With("argument", "path").With("same_as", other.Path).
				Hintf("two paths of the call resolve to the same file; name each file once, by one path")
			return c.About(m, e)
		}
		seen[key] = append(seen[key], m)
	}
	for _, m := range c.Muts {
		if m.Private {
			continue
		}
		for dir := engine.ParentOf(relpath.Key(m.Target.Path)); dir != ""; dir = engine.ParentOf(dir) {
			if over := seen[dir]; over != nil && !c.Turns(over[0].Path) {
				e := fault.New(fault.NotADirectory).With("same_as", over[0].Path).
					Hintf("a call cannot contain both a file and files below it; choose another path, or use two calls")
				return c.About(m, e)
			}
		}
	}
	return nil
}

// sameFile reports whether two names are spellings of the same name.
func sameFile(a, b *relpath.Target) bool {
	if !a.Exists() || !b.Exists() {
		return false
	}
	x, err1 := a.Parent.Lstat(a.Name)
	y, err2 := b.Parent.Lstat(b.Name)
	return err1 == nil && err2 == nil && x.Nlink == 1 && x.SameFile(y)
}

// moved fills in the mutations of a move: for each file its new name and its old
// one. For a directory it returns the contents.
func (s *Store) moved(ctx context.Context, c *commit, r MoveRequest) (out MoveResult, tree *movedTree, err error) {
	if e := r.Call.check(ctx); e != nil {
		return out, nil, e
	}
	dst, src := movePair(r.Path, r.To, r)
	c.Muts = []*engine.Mutation{dst, src}
	src.Expected = r.Expect.hash()
	if err := s.engine.Enter(); err != nil {
		return out, nil, err
	}
	defer s.engine.Leave()
	from, _, err := relpath.Clean(r.Path, s.engine.Tree.Rules)
	if err != nil {
		return out, nil, err
	}
	to, err := s.newName(r.To)
	if err != nil {
		return out, nil, err
	}
	out.Path, out.To = from, to
	if from == to || strings.HasPrefix(to, from+"/") {
		return out, nil, fault.New(fault.InvalidArgument).With("argument", "to").Hintf("a directory cannot be moved into itself")
	}
	if s.keyKnown(r.IdempotencyKey) { // the key answers
		return out, nil, nil
	}
	if tree, err = s.treeBelow(from); err != nil {
		return out, nil, err
	}
	if tree == nil {
		return out, nil, s.ontoDirectory(from, to)
	}
	if r.Expect != AnyVersion {
		return out, nil, fault.New(fault.InvalidArgument).With("argument", "expected_prev_sha256").Hintf("a directory has no hash; omit expected_prev_sha256")
	}
	c.Muts = pairs(tree.files, out, r)
	return out, tree, nil
}

// ontoDirectory refuses to move a file to the name of a directory.
func (s *Store) ontoDirectory(from, to string) error {
	if _, _, err := s.engine.ListDirectory(to); err != nil {
		return nil
	}
	e := fault.New(fault.IsADirectory).With("argument", "to").
		Hintf("to is a directory; to move the file into it, give the new path as %s", engine.JoinPath(to, path.Base(from)))
	e.Path = to
	if !s.engine.IsThere(from) {
		e = fault.New(fault.NotFound).Hintf("there is no file at path")
		e.Path = from
	}
	return e
}

// newName returns the path to which something is moved. An error names that path,
// because a reader would first suspect the old one.
func (s *Store) newName(to string) (string, error) {
	rel, _, err := relpath.Clean(to, s.engine.Tree.Rules)
	if err == nil {
		return rel, nil
	}
	e := s.engine.ErrorOf(err).With("argument", "to")
	if to == "" {
		return "", e.Hintf("to, the new path, is required; give one relative to the workspace")
	}
	return "", e.Hintf("to is not a valid path of the workspace; %s", e.Hint)
}

// pairs returns the mutations by which the files of a directory move.
func pairs(files []string, out MoveResult, r MoveRequest) (list []*engine.Mutation) {
	for _, f := range files {
		dst, src := movePair(engine.JoinPath(out.Path, f), engine.JoinPath(out.To, f), r)
		list = append(list, dst, src)
	}
	return list
}

// planMoved reads the directory again under the locks: files that were added
// while the call waited move along.
func (s *Store) planMoved(ctx context.Context, c *commit, r MoveRequest, out MoveResult, tree *movedTree) error {
	now, err := s.treeBelow(out.Path)
	if err != nil {
		return err
	}
	if now == nil {
		return fault.New(fault.ChangedDuringWrite).Hintf("the directory was removed or replaced; check the path and send the call again")
	}
	if !slices.Equal(now.files, tree.files) {
		for _, m := range c.Muts {
			m.Close()
			m.Target.Close()
		}
		c.Muts = pairs(now.files, out, r)
		if err := c.Resolve(ctx); err != nil {
			return err
		}
	}
	if err := s.moveDirs(c, now, out.To); err != nil {
		return err
	}
	return c.distinct(ctx)
}

// moveDirs has the commit make the directories that a move needs, with the modes
// and owners of those that they replace, and remove the ones that it leaves
// empty.
func (s *Store) moveDirs(c *commit, tree *movedTree, to string) error {
	t, err := s.engine.Tree.Resolve(to)
	if err != nil {
		return err
	}
	defer t.Close()
	c.Dirs, c.Owners = nil, map[string]fsx.Stat{}
	for _, d := range tree.dirs {
		mode := d.st.Mode | fsx.ModeDir
		if dst := path.Join(t.Path, d.path); !s.engine.IsThere(dst) {
			c.Dirs = append(c.Dirs, journal.Mutation{Path: dst, Mode: mode})
			c.Owners[dst] = d.st
		}
		if d.empties {
			c.Dirs = append(c.Dirs, journal.Mutation{Path: path.Join(tree.path, d.path), PrevMode: mode})
		}
	}
	return nil
}

func movePair(from, to string, r MoveRequest) (dst, src *engine.Mutation) {
	src = &engine.Mutation{Path: from, Op: engine.OpDelete, Kind: string(engine.OpMove), Force: r.Force, Forgotten: true}
	dst = &engine.Mutation{Path: to, Op: engine.OpMove, Kind: string(engine.OpMove), Force: r.Force, Source: src, Overwrite: r.Overwrite, Ungated: true, AllowShrink: true}
	return dst, src
}

// movedTree is a directory that moves: its files, by their paths in it, and the
// directories that hold them at any depth, outermost first.
type movedTree struct {
	path  string
	files []string
	dirs  []movedDir
}

type movedDir struct {
	path    string
	st      fsx.Stat
	empties bool // nothing stays in it
}

// treeBelow lists a directory; it returns nil if there is none.
func (s *Store) treeBelow(rel string) (*movedTree, error) {
	t, err := s.engine.Tree.Resolve(rel)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	if !t.Exists() {
		return nil, nil
	}
	dir, err := t.Parent.OpenDir(t.Name)
	if err != nil {
		return nil, nil // what it is, the commit finds out
	}
	defer dir.Close()
	tree := &movedTree{path: t.Path}
	if _, err := tree.list(dir, ""); err != nil {
		return nil, err
	}
	if len(tree.files) == 0 {
		return nil, fault.New(fault.NotFound).Hintf("the directory contains no files, so there is nothing to move")
	}
	return tree, nil
}

// list adds the contents of a directory, and reports whether all of it moves.
func (t *movedTree) list(dir fsx.Dir, at string) (empties bool, err error) {
	names, err := dir.Names()
	if err != nil {
		return false, err
	}
	st, err := dir.Stat()
	if err != nil {
		return false, err
	}
	files, n := len(t.files), len(t.dirs)
	t.dirs = append(t.dirs, movedDir{path: at, st: st})
	empties = true
	for _, name := range names {
		st, err := dir.Lstat(name)
		if err != nil {
			return false, err
		}
		switch st.Kind {
		case fsx.Directory:
			sub, err := dir.OpenDir(name)
			if err != nil {
				return false, err
			}
			all, err := t.list(sub, path.Join(at, name))
			sub.Close()
			if err != nil {
				return false, err
			}
			empties = empties && all
		case fsx.Regular:
			if t.files = append(t.files, path.Join(at, name)); len(t.files) > maxMoved {
				return false, fault.New(fault.TooLarge).With("max_files", maxMoved).Hintf("move the directory in parts of at most %d files", maxMoved)
			}
		default:
			return false, fault.New(fault.NotARegularFile).Hintf("the directory contains a link or a special file; move its files one by one")
		}
	}
	if len(t.files) == files {
		t.dirs = t.dirs[:n]
		return false, nil
	}
	t.dirs[n].empties = empties
	return empties, nil
}
