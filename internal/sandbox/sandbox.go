// Package sandbox runs a command over a private copy-on-write view of a
// directory tree, in namespaces of its own, and lists what differs afterwards.
// Linux only: elsewhere [Run] answers with [Unavailable].
package sandbox

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// The ways to make a view, in the order in which they are tried.
const (
	Overlay     = "overlayfs"
	FuseOverlay = "fuse-overlayfs"
	Reflink     = "reflink"
	Copy        = "copy"
)

// CopyLimit is how many bytes a plain copy of the tree may have.
const CopyLimit = 1 << 30

// KeepFor is how long a view that was kept stays.
const KeepFor = 7 * 24 * time.Hour

// Job is a command and the workspace that it runs in.
type Job struct {
	Root     string   // absolute, without symbolic links
	Base     string   // where views are made: absolute, outside of Root
	Dir      string   // working directory, relative to Root
	Argv     []string // the command
	Env      []string
	Closed   []string // absolute paths that cannot be written, such as .git
	Writable []string // absolute paths outside of Root that the command may write to
	Copy     bool     // a plain copy is allowed
	Only     string   // the one way to be tried; "": all
	Helper   string   // program whose main function calls Main; "": this one

	Stdin          io.Reader
	Stdout, Stderr io.Writer
}

// Exit is how the command ended: its code, 128 and the signal where one ended
// it. Error says that it could not be started.
type Exit struct {
	Code  int
	Error string
}

// Unavailable reports that no isolation could be proved, so nothing was started.
type Unavailable struct {
	Tried []string // "WAY: what is missing"
}

func (u *Unavailable) Error() string { return "no isolation: " + strings.Join(u.Tried, "; ") }

// View is the directory with the results of a command.
type View struct {
	ID    string
	Dir   string // absolute
	Way   string
	root  string
	lock  *os.File
	began int64
	bare  bool             // it is a copy that the command sees where it is stored
	was   map[string]stamp // of a copy: the stamps at its creation
}

// The entries of a view's directory.
const (
	prefix    = "exec_"
	lockName  = "lock"
	keptName  = "kept"
	upperName = "upper" // what differs; of a copy, all
	workName  = "work"
	tmpName   = "tmp"
	probeName = "probe" // not writable: the probe tries
)

// newView makes an empty view, after it has removed those that dead processes
// left.
func newView(base, root string) (*View, error) {
	if err := os.MkdirAll(base, 0o700); err != nil {
		return nil, err
	}
	base, err := filepath.EvalSymlinks(base)
	if err != nil {
		return nil, err
	}
	if relpath.Contains(root, base) {
		return nil, errors.New("the directory of views is inside the workspace; set XDG_STATE_HOME to a directory outside of it")
	}
	unlock, err := lockFile(filepath.Join(base, lockName), true)
	if err != nil {
		return nil, err
	}
	defer unlock.Close()
	sweep(base)
	var random [4]byte
	rand.Read(random[:])
	v := &View{ID: prefix + time.Now().UTC().Format("20060102T150405-") + hex.EncodeToString(random[:]), root: root}
	v.Dir = filepath.Join(base, v.ID)
	for _, name := range []string{"", upperName, workName, tmpName, probeName} {
		if err := os.Mkdir(filepath.Join(v.Dir, name), 0o700); err != nil {
			return nil, err
		}
	}
	if dir, err := fsx.OpenRoot(v.Dir); err == nil {
		st, _ := dir.Stat()
		v.began = st.Ctime
		dir.Close()
	}
	if st, err := os.Stat(root); err == nil { // the view shows the mode of this one
		os.Chmod(v.Upper(), st.Mode())
	}
	if v.lock, err = lockFile(filepath.Join(v.Dir, lockName), false); err != nil {
		os.RemoveAll(v.Dir)
		return nil, err
	}
	return v, nil
}

// sweep removes the views that no process holds, except those that were kept
// lately. The lock of base is held.
func sweep(base string) {
	names, _ := filepath.Glob(filepath.Join(base, prefix+"*"))
	for _, dir := range names {
		lock, err := lockFile(filepath.Join(dir, lockName), false)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if st, kerr := os.Stat(filepath.Join(dir, keptName)); kerr != nil || time.Since(st.ModTime()) > KeepFor {
			removeAll(dir)
		}
		if err == nil {
			lock.Close()
		}
	}
}

// Began is the change time that a file has at least that was changed after the
// view was made.
func (v *View) Began() int64 { return v.began }

// Upper is the directory with what differs.
func (v *View) Upper() string { return filepath.Join(v.Dir, upperName) }

// Remove removes the view.
func (v *View) Remove() error {
	err := removeAll(v.Dir)
	v.lock.Close()
	return err
}

// Keep leaves the view for [KeepFor].
func (v *View) Keep() error {
	for _, name := range []string{workName, tmpName, probeName} {
		removeAll(filepath.Join(v.Dir, name))
	}
	err := os.WriteFile(filepath.Join(v.Dir, keptName), []byte(v.root+"\n"), 0o600)
	v.lock.Close()
	return err
}

// removeAll removes a tree, also where directories in it are closed.
func removeAll(dir string) error {
	if err := os.RemoveAll(dir); err == nil {
		return nil
	}
	filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			os.Chmod(p, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// Run makes a view, proves that it is isolated, and runs the command over it.
// The view is returned also with an error that came after its beginning; nil when
// nothing was started. When ctx ends, so does the command, with all of its
// processes.
func Run(ctx context.Context, j Job) (*View, Exit, error) {
	tried, bare := &Unavailable{}, false
	for ways := []string{Overlay, FuseOverlay, Reflink, Copy}; len(ways) > 0; {
		way := ways[0]
		if way != cmp.Or(j.Only, way) || way == Copy && !j.Copy || bare && (way == Overlay || way == FuseOverlay) {
			ways = ways[1:]
			continue
		}
		v, err := newView(j.Base, j.Root)
		if err != nil {
			return nil, Exit{}, err
		}
		v.Way, v.bare = way, bare
		exit, started, err := v.run(ctx, j)
		var missing *missingError
		switch {
		case started || err == nil:
			return v, exit, err
		case errors.As(err, &missing):
			tried.Tried = append(tried.Tried, way+": "+missing.what)
		default:
			v.Remove()
			return nil, Exit{}, err
		}
		v.Remove()
		switch {
		case missing.always:
			return nil, Exit{}, tried
		case missing.mounts && !bare:
			bare = true // a copy can do without
		default:
			ways = ways[1:]
		}
	}
	return nil, Exit{}, tried
}

// missingError reports why one way to make a view does not work here.
type missingError struct {
	what   string
	always bool // another way would not either
	mounts bool // there are no namespaces, or nothing may be mounted in them
}

func (m *missingError) Error() string { return m.what }

// Caches are the directories outside of the workspace that a command may write to
// unless a policy names others: those of common tools.
var Caches = []string{
	"~/.cache", "~/.npm", "~/.yarn", "~/.local/share/pnpm", "~/.bun/install/cache", "~/go/pkg", "~/.cargo/registry", "~/.cargo/git",
	"~/.gradle/caches", "~/.m2/repository", "~/.nuget/packages",
	"$XDG_CACHE_HOME", "$GOCACHE", "$GOMODCACHE", "$npm_config_cache", "$PIP_CACHE_DIR", "$UV_CACHE_DIR",
}

// Writable resolves a list of directories: absolute ones, ~/NAME, and $NAME for
// one that a variable names. What does not exist is left out. One that holds any
// of the closed paths, or is inside of one, is left out of [Caches] and refused
// elsewhere.
func Writable(list, closed []string) (paths []string, err error) {
	given := list != nil
	if !given {
		list = Caches
	}
	home, _ := os.UserHomeDir()
	for _, entry := range list {
		dir := entry
		if rest, ok := strings.CutPrefix(entry, "~/"); ok && home != "" {
			dir = filepath.Join(home, rest)
		} else if name, ok := strings.CutPrefix(entry, "$"); ok {
			if dir = os.Getenv(name); dir == "" {
				continue
			}
		}
		if !filepath.IsAbs(dir) {
			if given {
				return nil, fmt.Errorf("%q is no absolute path, ~/NAME or $NAME", entry)
			}
			continue
		}
		real, err := filepath.EvalSymlinks(dir)
		if err != nil {
			continue
		}
		if slices.ContainsFunc(closed, func(c string) bool { return relpath.Contains(real, c) || relpath.Contains(c, real) }) {
			if given {
				return nil, fmt.Errorf("%q holds the workspace, its state or the views, or is inside of them", entry)
			}
			continue
		}
		paths = append(paths, real)
	}
	return paths, nil
}

// Kind is the final state of a path of a view.
type Kind int

// The kinds.
const (
	Gone      Kind = iota // a file or a directory that is not there any more
	File                  // a regular file that was written, or that is new
	Directory             // one that is new, or has another mode
	Link                  // a symbolic link
	Other                 // a FIFO, a socket, a device
)

// Change is one path that may differ. A file may have been opened for writing
// only.
type Change struct {
	Path string // relative to the workspace
	Kind Kind
	Dir  bool   // of Gone: it was a directory; its content is listed after it
	Link bool   // of Gone: it was a symbolic link
	Mode uint32 // permission bits
	Size int64
}

// Path is the place of a file of the view.
func (v *View) Path(rel string) string { return filepath.Join(v.Upper(), filepath.FromSlash(rel)) }

// goneBelow lists everything below a path of the workspace, and the path itself.
func (v *View) goneBelow(rel string, each func(Change) error) error {
	st, err := os.Lstat(filepath.Join(v.root, rel))
	if err != nil {
		return nil // nothing is left to take away
	}
	if err := each(Change{Path: rel, Kind: Gone, Dir: st.IsDir(), Link: st.Mode()&os.ModeSymlink != 0}); err != nil || !st.IsDir() {
		return err
	}
	list, err := os.ReadDir(filepath.Join(v.root, rel))
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := v.goneBelow(path.Join(rel, e.Name()), each); err != nil {
			return err
		}
	}
	return nil
}
