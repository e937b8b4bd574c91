package resilientwrite

import (
	"path/filepath"
	"strings"
)

// Within reports whether the workspace is the directory dir or is below it, after
// resolving symbolic links. A host can use it to check whether the workspace is
// in a directory that its user chose. It returns false for a directory that is
// not absolute or does not exist.
func (s *Store) Within(dir string) bool {
	if s.engine.RealRoot == "" || !filepath.IsAbs(dir) {
		return false
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	rel, err := filepath.Rel(real, s.engine.RealRoot)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}
