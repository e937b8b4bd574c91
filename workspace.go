package resilientwrite

import (
	"path/filepath"
	"strings"
)

// Within reports whether the workspace is the directory dir or is below it,
// symbolic links followed. It is for a host that knows which directories its
// user means; a directory that is not absolute or not there is never one of
// them.
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
