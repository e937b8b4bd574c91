package place

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/gitdir"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// unsafeRoots are directories that are not accepted as a workspace. Directories
// below them are accepted.
var unsafeRoots = []string{"/", "/bin", "/sbin", "/usr", "/etc", "/var", "/tmp"}

// Resolve returns the absolute path of a directory that is to be a workspace, as it is
// and with symbolic links resolved. Unless anywhere is set, it refuses a system or home
// directory, and one in a repository's own directory.
func Resolve(dir string, anywhere bool) (abs, real string, err error) {
	if abs, err = filepath.Abs(dir); err != nil {
		return "", "", err
	}
	real, err = filepath.EvalSymlinks(abs)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = fault.New(fault.NotFound).Because(err).Hintf("the workspace directory does not exist; create it, or give the path of an existing one")
	case err != nil:
	case !anywhere && isUnsafe(real):
		err = fault.New(fault.UnsafeRoot)
	case !anywhere && insideRepository(real):
		err = fault.New(fault.UnsafeRoot).Hintf("this directory is inside a repository's own directory, where files can make git or another program run code; open the work tree, or allow it explicitly")
	default:
		if st, serr := os.Stat(real); serr == nil && !st.IsDir() {
			err = fault.New(fault.NotADirectory).Hintf("the workspace is a file; give the path of a directory")
		}
	}
	return abs, real, err
}

func isUnsafe(real string) bool {
	if filepath.Dir(real) == real { // the root of a Windows volume
		return true
	}
	dirs := unsafeRoots
	if home, err := os.UserHomeDir(); err == nil {
		dirs = append(slices.Clip(dirs), home)
	}
	return slices.ContainsFunc(dirs, func(dir string) bool {
		d, err := filepath.EvalSymlinks(dir)
		return err == nil && d == real || dir == real
	})
}

// insideRepository reports whether a directory without links is in a
// repository's own directory.
func insideRepository(real string) bool {
	return gitdir.Inside(real) || slices.ContainsFunc(strings.Split(filepath.ToSlash(real), "/"), func(name string) bool { return relpath.ProtectedName(name, nil) })
}

// Given returns the state directory that the operator named for the workspace real,
// which is open as root, and its open parent.
func Given(root fsx.Dir, real, dir string) (at string, parent fsx.Dir, err error) {
	if at = filepath.Clean(dir); !filepath.IsAbs(dir) {
		at = filepath.Join(real, dir)
	}
	if filepath.Dir(at) == real {
		return at, root, nil
	}
	parent, err = openRoot(filepath.Dir(at))
	if errors.Is(err, fs.ErrNotExist) {
		err = fault.New(fault.NotFound).Because(err).Hintf("the parent of the state directory does not exist; create it, or choose another location")
	}
	return at, parent, err
}
