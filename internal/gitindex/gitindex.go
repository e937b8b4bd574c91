// Package gitindex reports whether git tracks a file. It reads the index itself,
// because every git command may run programs that the repository configures (a file
// system monitor, hooks, filters), and the answer is needed before anything in the
// repository is trusted.
//
// A file counts as tracked if anything cannot be understood: a damaged index, an
// unknown format, a work tree of another version control system.
package gitindex

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/gitdir"
)

// maxIndex is the maximum size in bytes of an index that is read. A larger index is
// treated as not understood.
const maxIndex = 1 << 30

// others are the directories of version control systems whose lists of files
// are not read.
var others = []string{".hg", ".svn", ".jj", ".sl", ".bzr"}

// Tracked reports whether a repository that contains the file lists it in its index.
// file is absolute and without symbolic links. Every directory above it is searched for
// a repository, since repositories can be nested. Names are compared by same (nil: byte
// by byte).
func Tracked(file string, same func(tracked, name string) bool) bool {
	if same == nil {
		same = func(a, b string) bool { return a == b }
	}
	names := []string{filepath.Base(file)}
	for dir := filepath.Dir(file); ; dir = filepath.Dir(dir) {
		if trackedIn(dir, names, same) {
			return true
		}
		if dir == filepath.Dir(dir) {
			return false
		}
		names = append([]string{filepath.Base(dir)}, names...)
	}
}

// trackedIn searches the repository whose work tree begins at dir, if there is one.
func trackedIn(dir string, names []string, same func(a, b string) bool) bool {
	place := filepath.Join(dir, ".git")
	st, err := os.Stat(place)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return otherSystem(dir)
	case err != nil:
		return true
	case !st.IsDir():
		if place, err = linked(dir, place); err != nil {
			return true
		}
	}
	found, err := lists(place, "index", names, same, 0)
	return found || err != nil
}

func otherSystem(dir string) bool {
	return slices.ContainsFunc(others, func(name string) bool {
		st, err := os.Lstat(filepath.Join(dir, name))
		return err == nil && st.IsDir()
	})
}

// linked follows a .git file, as worktrees and submodules have one.
func linked(dir, place string) (string, error) {
	data, err := durable.ReadRegular(place, gitdir.MaxPointer)
	if err != nil {
		return "", err
	}
	target := gitdir.Pointed(string(data), dir)
	if target == "" {
		return "", errors.New("no gitdir line")
	}
	st, err := os.Stat(target)
	if err == nil && !st.IsDir() {
		err = errors.New("gitdir is no directory")
	}
	return target, err
}

// lists reports whether an index of a git directory lists the file. A
// repository without an index lists nothing.
func lists(dir, name string, names []string, same func(a, b string) bool, depth int) (bool, error) {
	if _, err := os.Lstat(filepath.Join(dir, name)); errors.Is(err, fs.ErrNotExist) && depth == 0 {
		return false, nil
	}
	data, err := durable.ReadRegular(filepath.Join(dir, name), maxIndex)
	if err != nil {
		return false, err
	}
	found, understood := false, false
	for _, size := range hashSizes {
		listed := false
		ix := index{data: data, hash: size, each: func(name []byte, _ int) { listed = listed || matches(name, names, same) }}
		if ix.parse() != nil {
			continue
		}
		understood = true
		found = found || listed
		if ix.base == "" || listed {
			continue
		}
		if depth > 0 {
			return false, errBad
		}
		below, err := lists(dir, "sharedindex."+ix.base, names, same, depth+1)
		if err != nil {
			return false, err
		}
		found = found || below
	}
	if !understood {
		return false, errBad
	}
	return found, nil
}
