// Package move plans how a file, or the files of a directory, get other names.
package move

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

// maxFiles is how many files one move of a directory takes along.
const maxFiles = 4096

// Move is a change of names.
type Move struct {
	From, To         string
	Overwrite, Force bool

	e    *engine.Engine
	tree *tree // nil for a file
}

// Prepare has the commit move what is at m.From to m.To: for each file its new name and
// its old one. The caller knows the hash of a file if expected is not nil. A commit
// whose key is known is answered by the key.
func (m *Move) Prepare(c *engine.Commit, e *engine.Engine, known bool) (err error) {
	m.e = e
	c.Plan = func(context.Context) error { return Distinct(c) }
	if m.From, _, err = relpath.Clean(m.From, e.Tree.Rules); err != nil {
		return err
	}
	if m.To, err = NewName(e, m.To); err != nil {
		return err
	}
	if m.From == m.To || strings.HasPrefix(m.To, m.From+"/") {
		return fault.New(fault.InvalidArgument).With("argument", "to").Hintf("a path cannot be moved to itself or into itself")
	}
	if known {
		return nil
	}
	if m.tree, err = treeBelow(e, m.From); err != nil {
		return err
	}
	if m.tree == nil {
		return ontoDirectory(e, m.From, m.To)
	}
	if c.Muts[1].Expected != nil {
		return fault.New(fault.InvalidArgument).With("argument", "expected_prev_sha256").Hintf("a directory has no hash; omit expected_prev_sha256")
	}
	c.Muts, c.Alone = m.pairs(), true
	c.Plan = func(ctx context.Context) error { return m.again(ctx, c) }
	return nil
}

// ontoDirectory refuses to move a file to the name of a directory.
func ontoDirectory(e *engine.Engine, from, to string) error {
	if _, _, err := e.ListDirectory(to); err != nil {
		return nil
	}
	if !e.IsThere(from) {
		f := fault.New(fault.NotFound).Hintf("there is no file at path")
		f.Path = from
		return f
	}
	f := fault.New(fault.IsADirectory).With("argument", "to").
		Hintf("to is a directory; to move the file into it, give the new path as %s", engine.JoinPath(to, path.Base(from)))
	f.Path = to
	return f
}

// NewName returns the path to which something is moved. An error names that path,
// because a reader would first suspect the old one.
func NewName(e *engine.Engine, to string) (string, error) {
	rel, _, err := relpath.Clean(to, e.Tree.Rules)
	if err == nil {
		return rel, nil
	}
	f := e.ErrorOf(err).With("argument", "to")
	if to == "" {
		return "", f.Hintf("to, the new path, is required; give one relative to the workspace")
	}
	return "", f.Hintf("to is not a valid path of the workspace; %s", f.Hint)
}

// pairs returns the mutations by which the files of a directory move.
func (m *Move) pairs() (list []*engine.Mutation) {
	for _, f := range m.tree.files {
		dst, src := Pair(engine.JoinPath(m.From, f), engine.JoinPath(m.To, f), m.Overwrite, m.Force)
		list = append(list, dst, src)
	}
	return list
}

// again reads the directory under the locks: files that were added while the call
// waited move along. A repeated call is answered first: the directory is gone.
func (m *Move) again(ctx context.Context, c *engine.Commit) error {
	if done, err := c.Answered(); done || err != nil {
		return err
	}
	now, err := treeBelow(m.e, m.From)
	if err != nil {
		return err
	}
	if now == nil {
		return fault.New(fault.ChangedDuringWrite).Hintf("the directory was removed or replaced; check the path and send the call again")
	}
	same := slices.Equal(now.files, m.tree.files)
	if m.tree = now; !same {
		for _, m := range c.Muts {
			m.Close()
			m.Target.Close()
		}
		c.Muts = m.pairs()
		if err := c.Resolve(ctx); err != nil {
			return err
		}
	}
	if err := m.directories(c); err != nil {
		return err
	}
	return Distinct(c)
}

// directories has the commit make the directories that a move needs, with the modes
// and owners of those that they replace, and remove the ones that it leaves
// empty.
func (m *Move) directories(c *engine.Commit) error {
	t, err := m.e.Tree.Resolve(m.To)
	if err != nil {
		return err
	}
	defer t.Close()
	c.Dirs, c.Owners = nil, map[string]fsx.Stat{}
	for _, d := range m.tree.dirs {
		mode := d.st.Mode | fsx.ModeDir
		if dst := path.Join(t.Path, d.path); !m.e.IsThere(dst) {
			c.Dirs = append(c.Dirs, journal.Mutation{Path: dst, Mode: mode})
			c.Owners[dst] = d.st
		}
		if d.empties {
			c.Dirs = append(c.Dirs, journal.Mutation{Path: path.Join(m.tree.path, d.path), PrevMode: mode})
		}
	}
	return nil
}

// Pair returns the mutations by which one file moves.
func Pair(from, to string, overwrite, force bool) (dst, src *engine.Mutation) {
	src = &engine.Mutation{Path: from, Op: engine.OpDelete, Kind: string(engine.OpMove), Force: force, Forgotten: true}
	dst = &engine.Mutation{Path: to, Op: engine.OpMove, Kind: string(engine.OpMove), Force: force, Source: src, Overwrite: overwrite, Ungated: true, AllowShrink: true}
	return dst, src
}

// Distinct refuses two mutations of one file, which can result from a link or
// from letter case: each would treat the other's file as its own. It also refuses
// a file at a path that must be a directory above another file, which would
// otherwise be detected only after the commit point. It runs under the locks.
func Distinct(c *engine.Commit) error {
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
				Hintf("two paths of the call resolve to the same file; name each file once, by one path; to change letter case only, move the file to a third name first")
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

// tree is a directory that moves: its files, by their paths in it, and the
// directories that hold them at any depth, outermost first.
type tree struct {
	path  string
	files []string
	dirs  []directory
}

type directory struct {
	path    string
	st      fsx.Stat
	empties bool // nothing stays in it
}

// treeBelow lists a directory; it returns nil if there is none.
func treeBelow(e *engine.Engine, rel string) (*tree, error) {
	t, err := e.Tree.Resolve(rel)
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
	tr := &tree{path: t.Path}
	if _, err := tr.list(dir, ""); err != nil {
		return nil, err
	}
	if len(tr.files) == 0 {
		return nil, fault.New(fault.NotFound).Hintf("the directory contains no files, so there is nothing to move")
	}
	return tr, nil
}

// list adds the contents of a directory, and reports whether all of it moves.
func (t *tree) list(dir fsx.Dir, at string) (empties bool, err error) {
	names, err := dir.Names()
	if err != nil {
		return false, err
	}
	st, err := dir.Stat()
	if err != nil {
		return false, err
	}
	files, n := len(t.files), len(t.dirs)
	t.dirs = append(t.dirs, directory{path: at, st: st})
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
			if t.files = append(t.files, path.Join(at, name)); len(t.files) > maxFiles {
				return false, fault.New(fault.TooLarge).With("max_files", maxFiles).Hintf("move the directory in parts of at most %d files", maxFiles)
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
