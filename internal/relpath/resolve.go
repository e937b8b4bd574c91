package relpath

import (
	"errors"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// maxLinks is how many symlinks one path may go through, as on Linux.
const maxLinks = 40

// Target is the result of resolving a path.
type Target struct {
	Parent  fsx.Dir  // the deepest existing directory of the path; Close releases it
	Missing []string // directories that must be created below Parent
	Name    string   // final name, in Parent when nothing is missing
	Path    string   // the way without symlinks, slash-separated, relative to the workspace
	Linked  bool     // a symlink was followed

	borrowed bool // Parent is the root of the tree, or shared, and stays open
}

// Exists reports whether the parent of the target exists.
func (t *Target) Exists() bool { return len(t.Missing) == 0 }

// Entered is the target once its missing directories were made: parent is the
// innermost of them, which stays open when the target is closed.
func (t *Target) Entered(parent fsx.Dir) *Target {
	return &Target{Parent: parent, Name: t.Name, Path: t.Path, Linked: t.Linked, borrowed: true}
}

// Close releases the parent.
func (t *Target) Close() error {
	if t == nil || t.Parent == nil || t.borrowed {
		return nil
	}
	return t.Parent.Close()
}

// Tree is a workspace as Resolve walks it.
type Tree struct {
	Root  fsx.Dir
	Rules Rules
	// Guard is called for every directory of the path; an error ends the walk. It
	// recognizes protected directories by identity, not by name. nil checks nothing.
	Guard func(fsx.Stat) error
	// NoFollow makes the path name a symlink itself, if its final name is one.
	NoFollow bool
	// Cleared reports whether something else now has the name of a directory of the
	// path and will be replaced by a directory. It counts as missing. nil: there is
	// none.
	Cleared func(path string) bool
	// Visit is called for every directory of the path, first for the root as "", with
	// the resolved path; an error ends the walk. nil does nothing.
	Visit func(dir fsx.Dir, path string) error
	// Spelling replaces other spellings of names that exist. nil: names stay as they are.
	Spelling *Spelling
	// Dirs keeps the directories open for the next path, which is not shown those
	// again that Guard and Visit have seen. nil: each path has its own.
	Dirs *Dirs
}

// Resolve walks rel, which Clean returned, and follows symlinks that stay inside. The
// final name need not exist; a dangling link inside the tree resolves to the name it
// points at.
func (t Tree) Resolve(rel string) (*Target, error) {
	w := walk{tree: t, todo: strings.Split(rel, "/")}
	defer w.release()
	if !w.tree.Dirs.begun() {
		if err := w.visit(); err != nil {
			return nil, err
		}
	}
	for len(w.todo) > 0 {
		if err := w.step(); err != nil {
			return nil, err
		}
	}
	return w.target()
}

// walk is the state of one resolution: the directories that are open from the
// root down, the names that do not exist yet, and the names still to go.
type walk struct {
	tree    Tree
	dirs    []fsx.Dir // below the root, owned
	names   []string  // their names
	missing []string  // names after the last directory that do not exist
	final   string    // the last name of the path, once reached
	there   bool      // it exists
	todo    []string
	links   int
}

func (w *walk) top() fsx.Dir {
	if len(w.dirs) == 0 {
		return w.tree.Root
	}
	return w.dirs[len(w.dirs)-1]
}

// step takes the next name of the path.
func (w *walk) step() error {
	name := w.todo[0]
	w.todo = w.todo[1:]
	last := len(w.todo) == 0
	switch {
	case name == "" || name == ".":
		if last {
			return ErrDirectory
		}
		return nil
	case name == "..":
		if last {
			return ErrDirectory
		}
		return w.up()
	case len(name) > MaxName:
		return ErrTooLong
	case ProtectedName(name, w.tree.Rules.Protected):
		return ErrProtected
	}
	if len(w.missing) > 0 {
		return w.beyond(name, last)
	}
	if last {
		return w.finish(name)
	}
	if w.tree.Cleared != nil && w.tree.Cleared(strings.Join(append(w.names[:len(w.names):len(w.names)], name), "/")) {
		return w.beyond(name, false)
	}
	if d := w.tree.Dirs.find(w.names, name); d != nil {
		w.dirs, w.names = append(w.dirs, d), append(w.names, name)
		return nil
	}
	d, err := w.top().OpenDir(name)
	switch {
	case err == nil:
		return w.down(name, d)
	case errors.Is(err, fs.ErrNotExist):
		return w.beyond(name, last)
	}
	return w.follow(name, err)
}

// down enters an open directory, unless the guard objects.
func (w *walk) down(name string, d fsx.Dir) error {
	w.dirs, w.names = append(w.dirs, d), append(w.names, name)
	if w.tree.Guard != nil {
		st, err := d.Stat()
		if err != nil {
			return err
		}
		if err := w.tree.Guard(st); err != nil {
			return err
		}
	}
	if err := w.visit(); err != nil {
		return err
	}
	w.tree.Dirs.keep(w.names, d)
	return nil
}

// visit shows the directory that the walk is in.
func (w *walk) visit() error {
	if w.tree.Visit == nil {
		return nil
	}
	return w.tree.Visit(w.top(), strings.Join(w.names, "/"))
}

// up returns to the parent through which the innermost directory was entered, which
// cannot lead out of the tree even if directories are moved concurrently.
func (w *walk) up() error {
	switch {
	case len(w.missing) > 0:
		w.missing = w.missing[:len(w.missing)-1]
	case len(w.dirs) > 0:
		n := len(w.dirs) - 1
		w.closed(w.names, w.dirs[n])
		w.dirs, w.names = w.dirs[:n], w.names[:n]
	default:
		return ErrEscapes
	}
	return nil
}

// beyond takes a name below a directory that does not exist.
func (w *walk) beyond(name string, last bool) error {
	if last {
		w.final = name
	} else {
		w.missing = append(w.missing, name)
	}
	return nil
}

// finish takes the last name of the path, which may be a symlink.
func (w *walk) finish(name string) error {
	st, err := w.top().Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		w.final = name
		return nil
	case err != nil:
		return err
	case st.Kind == fsx.Symlink && !w.tree.NoFollow:
		return w.expand(name)
	}
	w.final, w.there = name, true
	return nil
}

// follow handles a name that could not be entered: a symlink is expanded,
// anything else keeps the error of the attempt.
func (w *walk) follow(name string, cause error) error {
	st, err := w.top().Lstat(name)
	if err != nil {
		return cause
	}
	if st.Kind == fsx.Symlink {
		return w.expand(name)
	}
	if st.Kind != fsx.Directory {
		return syscall.ENOTDIR
	}
	return cause
}

// expand inserts the target of the symlink name before the rest of the path.
func (w *walk) expand(name string) error {
	if w.links++; w.links > maxLinks {
		return ErrLoop
	}
	target, err := w.top().Readlink(name)
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, fs.ErrNotExist) {
		// It was a link a moment ago; look again.
		w.todo = append([]string{name}, w.todo...)
		return nil
	}
	if err != nil {
		return err
	}
	if w.tree.Rules.Windows {
		target = strings.ReplaceAll(target, `\`, "/")
	}
	if IsAbs(target) {
		// os.Root refuses every absolute link; one that points into the tree
		// is walked again from the top.
		rest, err := below(path.Clean(target), w.tree.Rules)
		switch {
		case errors.Is(err, ErrDirectory): // the root itself
			rest = "."
		case err != nil:
			return ErrEscapes
		}
		w.release()
		w.dirs, w.names, target = nil, nil, rest
	}
	if target == "" || len(target) > MaxPath {
		return ErrTooLong
	}
	w.todo = append(strings.Split(target, "/"), w.todo...)
	return nil
}

// target hands over the innermost directory.
func (w *walk) target() (*Target, error) {
	all := append(append(slices.Clone(w.names), w.missing...), w.final)
	exist := len(w.names)
	if w.there {
		exist++
	}
	w.tree.Spelling.apply(w.tree.Root, w.dirs, all, exist)
	t := &Target{Missing: w.missing, Name: all[len(all)-1], Linked: w.links > 0, Path: strings.Join(all, "/")}
	if len(t.Path) > MaxPath {
		return nil, ErrTooLong
	}
	if n := len(w.dirs); n > 0 {
		t.Parent, t.borrowed = w.dirs[n-1], w.tree.Dirs != nil
		w.dirs = w.dirs[:n-1]
		return t, nil
	}
	t.Parent, t.borrowed = w.tree.Root, true
	return t, nil
}

// closed closes the innermost directory, unless it is kept for other paths.
func (w *walk) closed(names []string, d fsx.Dir) {
	if w.tree.Dirs == nil || w.tree.Dirs.open[strings.Join(names, "/")] != d {
		d.Close()
	}
}

func (w *walk) release() {
	for i, d := range w.dirs {
		w.closed(w.names[:i+1], d)
	}
	w.dirs = nil
}

// Resolved returns a path of the file system with the links of its existing directories
// followed, and its own if it exists.
func Resolved(p string) string {
	rest := ""
	for dir := filepath.Clean(p); ; dir = filepath.Dir(dir) {
		if real, err := filepath.EvalSymlinks(dir); err == nil {
			return filepath.Join(real, rest)
		}
		if dir == filepath.Dir(dir) {
			return filepath.Clean(p)
		}
		rest = filepath.Join(filepath.Base(dir), rest)
	}
}
