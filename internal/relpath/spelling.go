package relpath

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"unicode"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Spelling replaces the names of a path that exist by what their directories call them,
// on a file system that takes several spellings of a name for one, as those of macOS and
// Windows do. So a file has one path, whatever a caller writes. It is safe for
// concurrent use.
type Spelling struct {
	// Known reports whether a path stays as it is, without a look at its directories.
	Known func(path string) bool
	folds atomic.Int32 // whether the file system does so, found out once; 0: not yet
}

const (
	foldsNot = iota + 1
	foldsCase
)

// apply replaces the first n names of a path, which exist. The first is in root, and each
// other in the directory before it.
func (s *Spelling) apply(root fsx.Dir, dirs []fsx.Dir, names []string, n int) {
	if s == nil || n == 0 {
		return
	}
	s.foldsIn(root, names[0]) // before Known, which reads the journal
	if s.folds.Load() == foldsNot || s.Known(strings.Join(names, "/")) {
		return
	}
	parent := root
	for i := range n {
		if s.foldsIn(parent, names[i]) {
			names[i] = Listed(parent, names[i])
		}
		if i < len(dirs) {
			parent = dirs[i]
		}
	}
}

// foldsIn reports whether the file system takes several spellings of a name for one. The
// first name that has letters shows it.
func (s *Spelling) foldsIn(dir fsx.Dir, name string) bool {
	if was := s.folds.Load(); was != 0 {
		return was == foldsCase
	}
	other := swapCase(name)
	st, err := dir.Lstat(name)
	if other == name || err != nil {
		return false
	}
	is := int32(foldsNot)
	if same, err := dir.Lstat(other); err == nil && same.SameFile(st) {
		is = foldsCase
	}
	s.folds.Store(is)
	return is == foldsCase
}

func swapCase(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsUpper(r) {
			return unicode.ToLower(r)
		}
		return unicode.ToUpper(r)
	}, name)
}

// Folds reports whether a directory is found under its name in the other letter case too.
func Folds(dir string) bool {
	other := filepath.Join(filepath.Dir(dir), swapCase(filepath.Base(dir)))
	is, err := os.Lstat(dir)
	if err != nil || other == dir {
		return false
	}
	found, err := os.Lstat(other)
	return err == nil && os.SameFile(is, found)
}

// Listed returns what a directory calls the entry that name finds, and name where that
// cannot be seen.
func Listed(dir fsx.Dir, name string) string {
	names, err := dir.Names()
	if err != nil || slices.Contains(names, name) {
		return name
	}
	if i := slices.IndexFunc(names, func(n string) bool { return SameName(n, name) }); i >= 0 {
		return names[i]
	}
	st, err := dir.Lstat(name)
	if err != nil {
		return name
	}
	for _, n := range names { // another form of its accents, or a short name
		if is, err := dir.Lstat(n); err == nil && is.SameFile(st) {
			return n
		}
	}
	return name
}
