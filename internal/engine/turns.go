package engine

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"syscall"

	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// A name turns when a commit removes a directory with everything below it and
// places a file or a symbolic link there, or the reverse. Such a commit is published
// in three steps: first the mutations that clear the names, which are the files
// below a directory that goes and the file that a directory replaces; then
// directories are removed and made; then the rest. Each step is durable before the
// next begins, because a directory that a power cut takes away takes along what is in
// it. The mutations of the row are in this order, and recovery takes the same steps.

// turn is one name that turns.
type turn struct {
	path string
	into bool      // it becomes a directory; otherwise it was one
	mode uint32    // of the directory, with fsx.ModeDir; only that where it is not known
	of   *Mutation // the file; nil in recovery
	was  []goingDir
}

// goingDir is a directory that a commit removes to make way for a file.
type goingDir struct {
	path string
	mode uint32
}

// turns are the names that turn, by path.
type turns map[string]*turn

// over returns the turn of a name or of a directory above it, nil for none.
func (ts turns) over(path string) *turn {
	if len(ts) == 0 {
		return nil
	}
	for ; path != ""; path = ParentOf(path) {
		if t := ts[path]; t != nil {
			return t
		}
	}
	return nil
}

// clears reports whether a file that is deleted makes way.
func (ts turns) clears(path string) bool {
	t := ts.over(path)
	return t != nil && t.into == (path == t.path)
}

// late reports whether the directory of a path is made while the commit is published.
func (ts turns) late(path string) bool {
	t := ts.over(path)
	return t != nil && t.into && path != t.path
}

// inOrder are the turns by their paths.
func (ts turns) inOrder() []*turn {
	return slices.SortedFunc(maps.Values(ts), func(a, b *turn) int { return strings.Compare(a.path, b.path) })
}

// mark has the modes of a row say that its name turns.
func (ts turns) mark(row *journal.Mutation) {
	t := ts[row.Identity()]
	switch {
	case t == nil:
	case t.into:
		row.PrevMode, row.Mode = row.Mode, t.mode
	case len(t.was) > 0:
		row.PrevMode = t.mode
	}
}

// turnsOf are the names that a row turns.
func turnsOf(rec *journal.Record) turns {
	ts := turns{}
	for i := range rec.Muts {
		m := &rec.Muts[i]
		if d, ok := m.Directory(); ok && m.Class == "" {
			ts[d.Path] = &turn{path: d.Path, into: d.Mode != 0, mode: cmp.Or(d.Mode, d.PrevMode)}
		}
	}
	return ts
}

// leavesAbsent reports whether the mutation deletes a file that is gone already.
func (m *Mutation) leavesAbsent() bool { return m.Op == OpDelete && !m.Prev.Exists }

// findTurns finds the names that the commit turns: those of which it changes the
// file and the directory, and files above others. What clears them comes first.
func (c *Commit) findTurns() {
	if c.turns != nil || !slices.ContainsFunc(c.Muts, func(m *Mutation) bool { return m.NoFollow }) {
		return
	}
	c.turns = turns{}
	files := map[string]*Mutation{}
	for _, m := range c.Muts {
		if m.NoFollow { // the path is that of the entry itself
			files[m.Path] = m
		}
	}
	for _, d := range c.Dirs {
		if m := files[d.Path]; m != nil && (d.Mode == 0) != (d.PrevMode == 0) && (m.Op == OpDelete) == (d.Mode != 0) {
			c.turns[d.Path] = &turn{path: d.Path, into: d.Mode != 0, mode: cmp.Or(d.Mode, d.PrevMode), of: m}
		}
	}
	for _, m := range c.Muts {
		if !m.NoFollow || m.Forgotten || m.Op == OpDelete && m.AbsentOK && m.Expected != nil && *m.Expected == "" {
			continue
		}
		for dir := ParentOf(m.Path); dir != ""; dir = ParentOf(dir) {
			if over := files[dir]; over != nil && !over.Forgotten && c.turns[dir] == nil && (over.Op == OpDelete) != (m.Op == OpDelete) {
				c.addTurn(over)
			}
		}
	}
	if len(c.turns) == 0 {
		return
	}
	slices.SortStableFunc(c.Muts, func(a, b *Mutation) int { return c.order(a) - c.order(b) })
	for c.clearing < len(c.Muts) && c.order(c.Muts[c.clearing]) == 0 {
		c.clearing++
	}
}

// addTurn adds a turn whose directory has a mode that is not known.
func (c *Commit) addTurn(m *Mutation) {
	t := &turn{path: m.Path, into: m.Op == OpDelete, mode: fsx.ModeDir, of: m}
	d := journal.Mutation{Path: m.Path, PrevMode: t.mode}
	if t.into {
		d.Mode, d.PrevMode = t.mode, 0
	}
	c.turns[m.Path], c.Dirs = t, append(c.Dirs, d)
}

func (c *Commit) order(m *Mutation) int {
	if m.Op == OpDelete && c.turns.clears(m.Path) {
		return 0
	}
	return 1
}

// Turns reports whether the commit turns a name.
func (c *Commit) Turns(path string) bool { return c.turns[path] != nil }

// Tree is the workspace as the commit finds its paths.
func (c *Commit) Tree() relpath.Tree {
	tree := c.s.Tree
	if len(c.turns) > 0 {
		tree.Cleared = func(path string) bool { return c.turns[path] != nil && c.turns[path].into }
	}
	return tree
}

// look finds the current content of a file. A directory in its place is looked into.
func (c *Commit) look(ctx context.Context, m *Mutation) error {
	err := m.look(ctx, c.s)
	t := c.turns[m.Path]
	var other *fsx.TypeError
	if t == nil || !errors.As(err, &other) || other.Kind != fsx.Directory {
		return err
	}
	if t.into { // the file that is to make way is gone
		return nil
	}
	dir, err := m.Target.Parent.OpenDir(m.Target.Name)
	if err != nil {
		return err
	}
	defer dir.Close()
	in := goingInto{ctx: ctx, goes: c.going(), turn: t}
	if err := in.look(dir, t.path); err != nil {
		return err
	}
	if len(in.unknown) == 0 {
		return nil
	}
	e := fault.New(fault.ChangedOutside).With("files", in.unknown).
		Hintf("the directory holds entries that the call does not know, made later or ignored by git, so nothing was changed: %s; move them elsewhere or delete them, then repeat the call", strings.Join(in.unknown[:min(len(in.unknown), shownUnknown)], ", "))
	e.Path = t.path
	return e
}

// going are the files and the directories below turning names that the commit takes
// away; true for a directory.
func (c *Commit) going() map[string]bool {
	if c.goes != nil {
		return c.goes
	}
	c.goes = map[string]bool{}
	for _, m := range c.Muts[:c.clearing] {
		c.goes[m.Path] = false
		for dir := ParentOf(m.Path); c.turns.over(dir) != nil && !c.goes[dir]; dir = ParentOf(dir) {
			c.goes[dir] = true
		}
	}
	for _, d := range c.Dirs {
		if d.Mode == 0 && c.turns.over(d.Path) != nil {
			c.goes[d.Path] = true
		}
	}
	return c.goes
}

// How many entries a refusal names, in its context and in its hint.
const (
	maxUnknown   = 20
	shownUnknown = 3
)

// goingInto looks into a directory that is to go.
type goingInto struct {
	ctx     context.Context
	goes    map[string]bool
	turn    *turn
	unknown []string // the first entries that do not go with it
}

func (in *goingInto) look(dir fsx.Dir, path string) error {
	st, err := dir.Stat()
	if err != nil {
		return err
	}
	in.turn.was = append(in.turn.was, goingDir{path, st.Mode})
	if path == in.turn.path {
		in.turn.mode = fsx.ModeDir | st.Mode
	}
	names, err := dir.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := in.ctx.Err(); err != nil {
			return err
		}
		if err := in.entry(dir, st.Dev, name, JoinPath(path, name)); err != nil {
			return err
		}
	}
	return nil
}

func (in *goingInto) entry(dir fsx.Dir, dev uint64, name, path string) error {
	st, err := dir.Lstat(name)
	if err != nil {
		return err
	}
	isDir, goes := in.goes[path]
	if !goes || isDir != (st.Kind == fsx.Directory) {
		if len(in.unknown) < maxUnknown {
			in.unknown = append(in.unknown, path)
		}
		return nil
	}
	if !isDir {
		return nil
	}
	if st.Dev != dev {
		return fault.New(fault.CrossDevice)
	}
	below, err := dir.OpenDir(name)
	if err != nil {
		return err
	}
	defer below.Close()
	return in.look(below, path)
}

// makeWay makes the directories that lead to a target, early or once its names have
// turned.
func (c *Commit) makeWay(ctx context.Context, m *Mutation, late bool) error {
	if c.turns.late(m.Target.Path) != late {
		return nil
	}
	return c.grant.Try(func() error { return c.enterAgain(ctx, m, c.enter(ctx, m)) })
}

// turn removes and makes the directories of the names that turn, once they are clear.
//
//	fsync(directory of what was cleared) …  unlinkat(directory, AT_REMOVEDIR) …
//	mkdirat(directory) …  fsync(its parent) …
func (c *Commit) turn(ctx context.Context) error {
	if c.turned || len(c.turns) == 0 {
		return nil
	}
	c.turned, c.earlier = true, len(c.made)
	var dirs []fsx.Dir
	for _, m := range c.Muts[:c.clearing] {
		if m.Slot != nil {
			dirs = append(dirs, m.Target.Parent)
		}
	}
	if err := c.s.syncDirs(dirs...); err != nil {
		return c.s.Poison(err)
	}
	for _, t := range c.turns.inOrder() {
		for _, d := range slices.Backward(t.was) {
			if err := c.removeDir(d); err != nil {
				return c.About(t.of, err)
			}
		}
	}
	for _, m := range slices.Concat(c.ways, c.Muts) {
		if err := c.makeWay(ctx, m, true); err != nil {
			if IsExist(err) || errors.Is(err, syscall.ENOTDIR) {
				err = fault.New(fault.ChangedDuringWrite).Because(err)
			}
			return c.About(m, err)
		}
	}
	dirs = nil
	for _, d := range c.made[c.earlier:] {
		dirs = append(dirs, d.parent)
	}
	if err := c.s.syncDirs(dirs...); err != nil {
		return c.s.Poison(err)
	}
	return nil
}

// removeDir removes a directory, which must be empty. One that is gone is no error.
func (c *Commit) removeDir(d goingDir) error {
	err := c.s.inDirOf(d.path, func(dir fsx.Dir, name string) error { return dir.Rmdir(name) })
	if IsAbsent(err) {
		return nil
	}
	c.removed = append(c.removed, d) // also after an error: it may have been carried out
	if IsExist(err) || errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.ENOTDIR) {
		return fault.New(fault.ChangedDuringWrite).Because(err)
	}
	return err
}

// inDirOf calls fn with the directory of a path, if no symbolic link leads there.
func (s *Engine) inDirOf(path string, fn func(dir fsx.Dir, name string) error) error {
	target, err := s.LocateEntry(path)
	if err != nil {
		return err
	}
	defer target.Close()
	if !target.Exists() {
		return syscall.ENOENT
	}
	if target.Linked {
		return syscall.ENOTDIR
	}
	return fn(target.Parent, target.Name)
}

// unturn makes the names that turned what they were: directories that were made are
// removed if they are empty, and those that were removed are made again, before what
// was in them gets its names back.
func (c *Commit) unturn() error {
	if !c.turned {
		return nil
	}
	if err := c.flushUndone(c.Muts[c.clearing:]); err != nil {
		return err
	}
	made := c.made
	c.made = made[c.earlier:]
	c.unmakeDirs()
	c.made = made[:c.earlier]
	for _, d := range slices.Backward(c.removed) {
		err := c.grant.Try(func() error { return c.s.inDirOf(d.path, d.again(c.s)) })
		if err != nil && !IsExist(err) && !IsAbsent(err) && !errors.Is(err, syscall.ENOTDIR) {
			return err
		}
	}
	c.relocate()
	return nil
}

// again makes a directory again, durably, with its mode.
func (d goingDir) again(s *Engine) func(parent fsx.Dir, name string) error {
	return func(parent fsx.Dir, name string) error {
		if err := parent.Mkdir(name, 0o777); err != nil {
			return err
		}
		dir, err := parent.OpenDir(name)
		if err != nil {
			return err
		}
		defer dir.Close()
		dir.Chmod(d.mode) // it may stay another one
		return s.syncDirs(dir, parent)
	}
}

// relocate finds the directories, which are others now, of what was cleared. What has
// none any more, because another program has taken the name, is kept as a version.
func (c *Commit) relocate() {
	tree := c.s.Tree
	tree.NoFollow = true
	if c.dirs != nil {
		tree.Dirs = new(relpath.Dirs)
		c.Handles = append(c.Handles, tree.Dirs)
	}
	for _, m := range c.Muts[:c.clearing] {
		if m.ch == nil || !m.ch.Done || c.turns.over(m.Target.Path).into {
			continue
		}
		target, err := tree.Resolve(m.Target.Path)
		if err != nil || !target.Exists() || target.Linked {
			m.ch.Done, m.ch.Displaced = false, true
			continue
		}
		m.Target.Close()
		m.Target, m.ch.Target.Dir = target, target.Parent
	}
}

// flushCleared makes durable, for a commit of a dead writer, that what clears the names
// is gone from there, before the first mutation that clears nothing.
func (f *finisher) flushCleared() error {
	if f.turned || len(f.turns) == 0 {
		return nil
	}
	f.turned = true
	for _, p := range f.parts {
		if p.cleared = p.target != nil; p.cleared {
			if err := f.s.SyncDir(p.target.Parent); err != nil {
				return err
			}
		}
	}
	return nil
}

// clearName removes the directories that the file replaces, if it is not published
// yet. One that is not empty stays, which is then found under the name.
func (p *recovered) clearName() error {
	t := p.f.turns[p.m.Identity()]
	if t == nil || t.into {
		return nil
	}
	if held, err := p.ch.Slot.Holds(); err != nil || held != publish.Staged {
		return err
	}
	for _, path := range p.f.going(t) {
		err := p.f.s.inDirOf(path, func(dir fsx.Dir, name string) error { return dir.Rmdir(name) })
		if err != nil && !IsAbsent(err) && !IsExist(err) && !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, syscall.ENOTDIR) {
			return err
		}
	}
	return nil
}

// going are the directories that make way for a file, the innermost first.
func (f *deadCommit) going(t *turn) []string {
	if f.goes == nil {
		f.goes = map[*turn][]string{}
		seen := map[string]bool{}
		add := func(path string) {
			for ; f.turns.over(path) != nil && !seen[path]; path = ParentOf(path) {
				seen[path] = true
				over := f.turns.over(path)
				f.goes[over] = append(f.goes[over], path)
			}
		}
		for i := range f.rec.Muts {
			if m := &f.rec.Muts[i]; m.Class == journal.ClassDirectory && m.Mode == 0 {
				add(m.Path)
			} else if f.turns[m.Identity()] == nil {
				add(ParentOf(m.Identity()))
			} else {
				add(m.Identity())
			}
		}
	}
	list := f.goes[t]
	slices.SortFunc(list, func(a, b string) int { return strings.Compare(b, a) })
	return list
}

// makeEmpty makes the directories of names that turn in which no file is. The others
// are made for their files.
func (f *finisher) makeEmpty() error {
	above := map[string]bool{}
	for i := range f.rec.Muts {
		for dir := ParentOf(f.rec.Muts[i].Identity()); f.rec.Muts[i].SHA256 != "" && dir != "" && !above[dir]; dir = ParentOf(dir) {
			above[dir] = true
		}
	}
	for _, path := range f.rec.Muts[0].Dirs {
		t := f.turns.over(path)
		if t == nil || !t.into || above[path] {
			continue
		}
		last, err := f.s.LastRow(t.path)
		if err != nil {
			return err
		}
		if last.Seq != f.rec.Seq {
			continue
		}
		var flush error
		err = f.s.inDirOf(path, func(dir fsx.Dir, name string) error {
			err := dir.Mkdir(name, dirPerm(path))
			if err == nil || IsExist(err) {
				flush = f.s.SyncDir(dir)
			}
			return err
		})
		if flush != nil || IsShortage(err) {
			return cmp.Or(flush, err)
		}
	}
	return nil
}
