package resilientwrite

import (
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// existingPath is the path of the deepest directory on the way to a target
// that exists, "" for the workspace itself.
func existingPath(t *relpath.Target) string {
	names := strings.Split(t.Path, "/")
	return strings.Join(names[:len(names)-1-len(t.Missing)], "/")
}

func joinPath(dir, name string) string {
	if dir == "" {
		return name
	}
	return dir + "/" + name
}
