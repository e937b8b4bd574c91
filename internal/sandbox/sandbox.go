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
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
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

// DefaultBase is where views are made unless another place is named: in the state
// directory of the user.
func DefaultBase() (string, error) {
	dir := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "resilientwrite", "exec"), nil
}

// Within reports whether a path is dir or below it.
func Within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}

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
	if Within(base, root) {
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
