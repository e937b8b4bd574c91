package gate

import (
	"cmp"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/gitdir"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// A file in a repository's own directory can make the next git command run a
// program. Directories named .git are refused by name (package relpath). This
// file handles those with other names. They are recognized by identity when a
// .git file or a configuration names them, and by shape, which a commit must
// neither complete nor change. A configuration file that another one includes is
// recognized by its path.

// repositories describes the repositories of the workspace.
type repositories struct {
	user gitdir.User

	mu    sync.Mutex
	known map[string]*repository // by work tree, absolute
	above string                 // the work tree that the workspace is in, when that is another directory
}

// repository is one of them, as far as it concerns the workspace.
type repository struct {
	*gitdir.Repository
	ids   []fsx.Stat // its directories and those of its hooks
	paths []string   // the same and its configuration files, relative to the workspace, folded
	hooks bool       // hooks are run in the workspace directory itself
}

// OpenRepositories finds the repository that the workspace is in.
func (l *Layer) OpenRepositories() {
	r := &l.repositories
	r.known = map[string]*repository{}
	if l.RealRoot == "" {
		return
	}
	r.user = gitdir.ThisUser()
	if top := gitdir.Top(l.RealRoot); top != "" && top != l.RealRoot {
		if known, err := l.repositoryAt(top); known != nil || err != nil {
			r.above = top
		}
	}
}

// repositoryAt returns the repository of a work tree, nil if there is none.
func (l *Layer) repositoryAt(top string) (*repository, error) {
	r := &l.repositories
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := r.known[top]; known != nil && known.Fresh() {
		return known, nil
	}
	delete(r.known, top)
	found := gitdir.Find(top, r.user)
	if found == nil {
		return nil, nil
	}
	known := &repository{Repository: found}
	for _, name := range slices.Concat(found.Dirs, found.Configs) {
		known.keep(l.RealRoot, name)
	}
	for _, dir := range found.Hooks {
		if relpath.Resolved(dir) == l.RealRoot {
			known.hooks = true
			continue
		}
		known.keep(l.RealRoot, dir)
	}
	if found.Err != nil {
		return nil, found.Err
	}
	r.known[top] = known
	return known, nil
}

// keep adds a directory or a file to those that no tool may change. A directory
// that contains the workspace is omitted: Open has already decided whether the
// workspace may be there.
func (r *repository) keep(root, name string) {
	for _, name := range []string{name, relpath.Resolved(name)} {
		if rel, ok := relpath.Below(root, name); ok && rel != "." {
			r.paths = append(r.paths, relpath.Key(rel))
		}
	}
	d, err := fsx.OpenRoot(name)
	if engine.IsShortage(err) {
		r.Err = err
	}
	if err != nil {
		return // it does not exist yet, or is a file: its path counts
	}
	defer d.Close()
	if st, err := d.Stat(); err == nil {
		r.ids = append(r.ids, st)
	}
}

// sighting is what a commit finds in the directories that lead to its paths, once
// for each directory.
type sighting struct {
	layer  *Layer
	ids    map[string]fsx.Stat // of directories, by path
	shaped map[string]bool     // git takes them for repositories
	near   []*repository
	err    error
}

func (v *sighting) add(top string) {
	r, err := v.layer.repositoryAt(top)
	if v.err = cmp.Or(v.err, err); r != nil {
		v.near = append(v.near, r)
	}
}

// visit inspects one directory on the path. In an ordinary directory that costs
// two lookups, HEAD and .git.
func (v *sighting) visit(dir fsx.Dir, at string) error {
	if _, ok := v.ids[at]; ok {
		return nil
	}
	st, err := dir.Stat()
	if err != nil {
		return err
	}
	v.ids[at] = st
	if v.shaped[at], err = gitdir.Is(dir); err != nil {
		return err
	}
	_, err = dir.Lstat(".git")
	switch {
	case err == nil && v.layer.RealRoot != "":
		v.add(filepath.Join(v.layer.RealRoot, filepath.FromSlash(at)))
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return v.err
}

// judge refuses a path in a directory or file from which git runs programs.
func (v *sighting) judge(m *engine.Mutation) error {
	if m.Private {
		return nil
	}
	key := relpath.Key(m.Target.Path)
	own := slices.ContainsFunc(v.near, func(r *repository) bool { return r.names(key) })
	for dir := engine.ExistingPath(m.Target); ; dir = engine.ParentOf(dir) {
		if v.shaped[dir] && !v.layer.Policy().Excepts(m.Target.Path) {
			return inRepository()
		}
		if st, ok := v.ids[dir]; ok && dir != "" {
			own = own || slices.ContainsFunc(v.near, func(r *repository) bool { return slices.ContainsFunc(r.ids, st.SameFile) })
		}
		if own {
			return fault.New(fault.ProtectedPath).With("rule", "git_directory").
				Hintf("git keeps its hooks, configuration or own files at the path; choose another path, or ask the user to make the change")
		}
		if dir == "" {
			return nil
		}
	}
}

func inRepository() *fault.Fault {
	return fault.New(fault.ProtectedPath).With("rule", "git_directory").
		Hintf("the directory would look like a git repository, and a file there can make git run programs; choose another path, or ask the user, who can list it under protect_exceptions of the policy")
}

// names reports whether a folded path is one of the repository's own files or is
// in one of its directories.
func (r *repository) names(key string) bool {
	return r.hooks && gitdir.IsHook(key) ||
		slices.ContainsFunc(r.paths, func(p string) bool { return key == p || strings.HasPrefix(key, p) && key[len(p)] == '/' })
}

// maxShaped is how many directories one call may reach through names of entries
// by which git recognizes a repository.
const maxShaped = 1024

// shaped lists the directories whose shape the commit may change: those in
// which it changes an entry by which git recognizes a repository.
func (c *Check) shaped() []string {
	var dirs []string
	seen := map[string]bool{}
	for _, m := range c.Commit.Muts {
		if m.Private || m.Target == nil {
			continue
		}
		at, more := 0, true
		for name, rest := "", m.Target.Path; more; at += len(name) + 1 {
			name, rest, more = strings.Cut(rest, "/")
			if dir := m.Target.Path[:max(at-1, 0)]; gitdir.Part(name) != "" && !seen[dir] {
				seen[dir] = true
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// LockNames returns the locks of the shapes that the commit may change: each is
// judged by one commit at a time. It refuses a call with too many of them.
func (c *Check) LockNames() (names []string, err error) {
	dirs := c.shaped()
	if len(dirs) > maxShaped {
		return nil, fault.New(fault.TooLarge).With("max_directories", maxShaped).
			Hintf("the paths of the call contain the names HEAD, objects, refs, commondir or config in more than %d directories; split the call", maxShaped)
	}
	for _, dir := range dirs {
		names = append(names, "git\x00"+relpath.Key(dir))
	}
	return names, nil
}

// OnTheWay starts an inspection of the directories that lead to the files. It is
// made under the locks.
func (c *Check) OnTheWay() func(fsx.Dir, string) error {
	c.seen = &sighting{layer: c.Layer, ids: map[string]fsx.Stat{}, shaped: map[string]bool{}}
	if above := c.Layer.repositories.above; above != "" {
		c.seen.add(above)
	}
	return c.seen.visit
}

// Touches returns the parts of a repository that the commit may complete.
func (c *Check) Touches() []string {
	var paths []string
	for _, dir := range c.shaped() {
		for _, part := range []string{gitdir.Head, gitdir.Common, gitdir.Config} {
			paths = append(paths, engine.JoinPath(dir, part))
		}
	}
	return paths
}

// judgeShapes refuses a commit after which git would treat a directory as a
// repository. The final bytes are known, and the locks of all directories in
// question are held, so no two commits make a repository together.
func (c *Check) judgeShapes() error {
	for _, dir := range c.shaped() {
		shape, about, err := c.shapeOf(dir)
		if err != nil {
			return err
		}
		if about != nil && shape.Repository() && !c.Layer.Policy().Excepts(about.Target.Path) {
			return c.Commit.About(about, inRepository())
		}
	}
	return nil
}

// shapeOf returns the shape that a directory will have, and the mutation that
// contributes to it and is not excepted.
func (c *Check) shapeOf(dir string) (gitdir.Shape, *engine.Mutation, error) {
	shape, settled := gitdir.Shape{}, map[string]bool{}
	var about *engine.Mutation
	for _, m := range c.Commit.Muts {
		if m.Private {
			continue
		}
		rest, ok := below(m.Target.Path, dir)
		name, inner, nested := strings.Cut(rest, "/")
		part := gitdir.Part(name)
		if !ok || part == "" {
			continue
		}
		if about == nil || c.Layer.Policy().Excepts(about.Target.Path) {
			about = m
		}
		exact := name == part // another spelling may be another file
		switch {
		case nested && inner != "":
			if m.Op != engine.OpDelete { // the directories on the way stay when a file goes
				shape[part], settled[part] = shape[part] || part == gitdir.Objects || part == gitdir.Refs, settled[part] || exact
			}
		default:
			has, err := makes(m, part)
			if err != nil {
				return nil, nil, err
			}
			shape[part], settled[part] = shape[part] || has, settled[part] || exact
		}
	}
	err := shapeOnDisk(c.Commit.Tree(), dir, shape, settled)
	return shape, about, err
}

// shapeOnDisk adds the entries that the commit does not change.
func shapeOnDisk(tree relpath.Tree, dir string, shape gitdir.Shape, settled map[string]bool) error {
	t, err := tree.Resolve(engine.JoinPath(dir, "x"))
	if err != nil {
		return err
	}
	defer t.Close()
	if !t.Exists() {
		return nil
	}
	for _, part := range gitdir.Parts() {
		if settled[part] {
			continue
		}
		if shape[part], err = gitdir.Has(t.Parent, part); err != nil {
			return err
		}
	}
	return nil
}

// makes reports whether the entry counts for the shape after its mutation.
func makes(m *engine.Mutation, part string) (bool, error) {
	if m.Op == engine.OpDelete {
		return false, nil
	}
	if m.Link() {
		return true, nil
	}
	switch part {
	case gitdir.Head:
		head := m.Final.Reader()
		if m.Primitive == publish.Append {
			head = io.MultiReader(m.Prev.Reader(), head)
		}
		data, err := io.ReadAll(io.LimitReader(head, gitdir.HeadBytes))
		return gitdir.ValidHead(data), err
	case gitdir.Objects, gitdir.Refs:
		return executable(m)
	}
	return true, nil
}

// executable reports whether the final file will have an execute bit.
func executable(m *engine.Mutation) (bool, error) {
	if m.Spooled && m.Slot != nil {
		st, err := m.Slot.File.Stat()
		if err != nil || st.Mode&0o111 != 0 {
			return true, err
		}
	}
	return m.Mode&0o111 != 0, nil
}

// below returns a path relative to a directory above it.
func below(p, dir string) (rest string, ok bool) {
	if dir == "" {
		return p, true
	}
	at := 0
	for range strings.Count(dir, "/") + 1 {
		n := strings.IndexByte(p[at:], '/')
		if n < 0 {
			return "", false
		}
		at += n + 1
	}
	return p[at:], relpath.Key(p[:at-1]) == relpath.Key(dir)
}
