package object

import (
	"context"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// walk appends the keys below dir, whose own path is at, until there is one more than a list may
// have. In key order a directory sorts as its name with a slash, so it is inserted there once it is
// known to be a directory.
func (s *dirStore) walk(ctx context.Context, dir fsx.Dir, at, prefix, after string, list *[]Info) error {
	names, err := dir.Names()
	if err != nil {
		return err
	}
	var paths []string
	for _, name := range names {
		path := at + name
		// Otherwise neither it nor a key below it can be in the list: "0" follows "/".
		if CheckKey(name) == nil && len(path) <= MaxKey && (strings.HasPrefix(path, prefix) || strings.HasPrefix(prefix, path+"/")) && path+"0" > after {
			paths = append(paths, path)
		}
	}
	for i := 0; i < len(paths) && len(*list) <= MaxList; i++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		path := paths[i]
		if below, ok := strings.CutSuffix(path, "/"); ok {
			next, err := dir.OpenDir(below[len(at):])
			if err == nil {
				err = s.walk(ctx, next, path, prefix, after, list)
				next.Close()
			}
			if err != nil && !absent(err) {
				return err
			}
			continue
		}
		st, err := dir.Lstat(path[len(at):])
		switch {
		case absent(err):
		case err != nil:
			return err
		case st.Kind == fsx.Directory:
			j, _ := slices.BinarySearch(paths[i+1:], path+"/")
			paths = slices.Insert(paths, i+1+j, path+"/")
		case st.Kind == fsx.Regular && path > after && strings.HasPrefix(path, prefix):
			*list = append(*list, Info{path, st.Size})
		}
	}
	return nil
}
