package engine

import (
	"cmp"
	"context"
	"io/fs"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// A commit can make directories, remove empty ones and change modes of
// directories. It makes them before its row is written, like those that its files
// need. It does the rest once the names of its files are durable, because a lost
// directory loses its entries too. Recovery repeats that part.

// directoryTargets adds a target inside each directory that the commit makes, so
// that it is made like the parent of a file.
func (c *Commit) directoryTargets() error {
	for _, d := range c.Dirs {
		if d.Mode == 0 || d.PrevMode != 0 {
			continue
		}
		if err := c.s.Host.Permitted(d.Path); err != nil {
			return err
		}
		tree := c.Tree()
		tree.NoFollow = true
		target, err := tree.Resolve(d.Path + "/.rw")
		if err != nil {
			return err
		}
		if target.Linked || target.Exists() {
			target.Close()
			continue
		}
		c.ways = append(c.ways, &Mutation{Path: d.Path, Target: target})
		if c.modes == nil {
			c.modes = map[string]uint32{}
		}
		c.modes[d.Path] = d.Mode
	}
	return nil
}

// dirPerm returns the mode with which the commit makes a directory: no wider than
// the final mode, and accessible to its owner.
func (c *Commit) dirPerm(path string) uint32 {
	if mode := c.modes[path] & 0o777; mode != 0 {
		return mode | 0o700
	}
	return dirPerm(path + "/")
}

// giveOwner sets the intended owner and group of a new directory, or only the
// group if the process may not set the owner.
func (c *Commit) giveOwner(m *Mutation, path string, dir fsx.Dir) {
	owner, ok := c.Owners[path]
	if st, err := dir.Stat(); !ok || err == nil && st.UID == owner.UID && st.GID == owner.GID {
		return
	}
	if dir.Chown(owner.UID, owner.GID) != nil {
		m.Warn(call.WarnMetadataNotKept)
		dir.Chown(-1, owner.GID)
	}
}

// makeDirectories makes the directories of the commit.
func (c *Commit) makeDirectories(ctx context.Context) error {
	for _, m := range c.ways {
		if err := c.makeWay(ctx, m, false); err != nil {
			return err
		}
	}
	return nil
}

// enterAgain locates a target again and makes its directories, if err is that another
// process has removed one of them meanwhile. It returns err if that is not so.
func (c *Commit) enterAgain(ctx context.Context, m *Mutation, err error) error {
	for range maxMoves {
		if !IsAbsent(err) || m.Private || len(c.turns) > 0 {
			break
		}
		was := m.Target
		before, serr := was.Parent.Stat()
		if serr != nil {
			return err
		}
		m.Target = nil // which stays open: directories were made in it
		tree := c.Tree()
		tree.Visit = c.visit
		if err := c.resolveIn(tree, m); err != nil {
			m.Target = was
			return err
		}
		c.Handles = append(c.Handles, was)
		if m.Target.Path != was.Path {
			return fault.New(fault.ChangedDuringWrite).Because(err)
		}
		if err := c.judge.Located(); err != nil {
			return err
		}
		after, serr := m.Target.Parent.Stat()
		if serr != nil || was.Exists() && m.Target.Exists() && before.SameFile(after) {
			return err
		}
		for path := ParentOf(was.Path); path != ""; path = ParentOf(path) {
			delete(c.entered, path)
		}
		err = c.enter(ctx, m)
	}
	return err
}

// wayAgain is enterAgain while the commit is published: the directories are durable before
// they get the file.
func (c *Commit) wayAgain(m *Mutation, err error) error {
	if err := c.enterAgain(context.Background(), m, err); err != nil || c.s.Opts.Sync == SyncOff {
		return err
	}
	st, err := m.Target.Parent.Stat()
	if err != nil {
		return err
	}
	m.home = inode{st.Dev, st.Ino}
	for dir := ParentOf(m.Target.Path); dir != ""; dir = ParentOf(dir) {
		if err := c.s.syncParent(dir); err != nil {
			return c.s.Poison(err)
		}
	}
	return nil
}

// directoryRows returns the rows of the directories of the commit. A name that is
// also one of its files records the change in the modes of that row.
func (c *Commit) directoryRows() ([]journal.Mutation, error) {
	files := map[string]bool{}
	for _, m := range c.Muts {
		files[m.Target.Path] = true
	}
	var rows []journal.Mutation
	for _, d := range c.Dirs {
		if files[d.Path] {
			continue
		}
		last, err := c.s.LastRow(d.Path)
		if err != nil {
			return nil, err
		}
		d.Class, d.Rev, d.PrevSeq = journal.ClassDirectory, uint64(last.Rev)+1, last.Seq
		d.Op = cmp.Or(d.Op, DirectoryOp(&d))
		rows = append(rows, d)
	}
	return rows, nil
}

// DirectoryOp names the change of a directory.
func DirectoryOp(d *journal.Mutation) string {
	switch {
	case d.PrevMode == 0:
		return "mkdir"
	case d.Mode == 0:
		return "rmdir"
	}
	return "chmod"
}

// arrange removes the directories that the row removes, if they are empty, and
// sets the modes of the others, if no other program has changed them. A path with
// a later row is left alone. What cannot be done is left as it is.
func (s *Engine) arrange(rec *journal.Record) error {
	var dirs []*journal.Mutation
	for i := range rec.Muts {
		m := &rec.Muts[i]
		d, ok := m.Directory()
		if !ok || m.Class == "" && (d.Mode == 0 || d.Mode == fsx.ModeDir) { // a file is there, or the mode is not known
			continue
		}
		if last, err := s.LastRow(d.Path); err == nil && last.Seq == rec.Seq {
			dirs = append(dirs, &d)
		}
	}
	slices.SortFunc(dirs, func(a, b *journal.Mutation) int { return strings.Compare(b.Path, a.Path) }) // what is inside first
	changed := map[string]bool{}
	for _, m := range dirs {
		if s.arrangeOne(m) {
			changed[m.Path] = true
		}
	}
	if s.Opts.Sync == SyncOff {
		return nil
	}
	synced := map[string]bool{}
	for _, m := range dirs {
		if parent := ParentOf(m.Path); changed[m.Path] && m.Mode == 0 && !changed[parent] && !synced[parent] {
			synced[parent] = true
			if err := s.syncParent(m.Path); err != nil {
				return err
			}
		}
	}
	return nil
}

// arrangeOne reports whether it changed the directory.
func (s *Engine) arrangeOne(m *journal.Mutation) bool {
	target, err := s.LocateEntry(m.Path)
	if err != nil {
		return false
	}
	defer target.Close()
	if !target.Exists() || target.Linked {
		return false
	}
	if m.Mode == 0 {
		return target.Parent.Rmdir(target.Name) == nil
	}
	dir, err := target.Parent.OpenDir(target.Name)
	if err != nil {
		return false
	}
	defer dir.Close()
	st, err := dir.Stat()
	if mode := m.Mode &^ fsx.ModeDir; err != nil || st.Mode == mode || m.PrevMode != 0 && st.Mode != m.PrevMode&^fsx.ModeDir || dir.Chmod(mode) != nil {
		return false
	}
	if s.Opts.Sync != SyncOff {
		s.SyncDir(dir)
	}
	return true
}

// ListDirectory returns the names in a directory of the workspace, and its mode.
// It follows no links.
func (s *Engine) ListDirectory(path string) (names []string, mode uint32, err error) {
	target, err := s.LocateEntry(path)
	if err != nil {
		return nil, 0, err
	}
	defer target.Close()
	if target.Linked || !target.Exists() {
		return nil, 0, fs.ErrNotExist
	}
	dir, err := target.Parent.OpenDir(target.Name)
	if err != nil {
		return nil, 0, err
	}
	defer dir.Close()
	st, err := dir.Stat()
	if err != nil {
		return nil, 0, err
	}
	names, err = dir.Names()
	return names, st.Mode | fsx.ModeDir, err
}
