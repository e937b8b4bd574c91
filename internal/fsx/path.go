package fsx

import "strings"

// OpenPath opens the directory at a path below root, name by name, so that it follows
// no link. The path "" is root itself. done closes the directory, if one was opened.
func OpenPath(root Dir, path string) (dir Dir, done func(), err error) {
	if path == "" {
		return root, func() {}, nil
	}
	dir = root
	for name := range strings.SplitSeq(path, "/") {
		next, err := dir.OpenDir(name)
		if dir != root {
			dir.Close()
		}
		if err != nil {
			return nil, func() {}, err
		}
		dir = next
	}
	return dir, func() { dir.Close() }, nil
}
