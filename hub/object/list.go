package object

import (
	"context"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// walk appends the keys below dir, whose own path is at, until there is one more than a list has. In the order of keys a directory stands where its
// name with a slash does.
func (s *dirStore) walk(ctx context.Context, dir fsx.Dir, at, prefix, after string, list *[]Info) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	names, err := dir.Names()
	if err != nil {
		return err
	}
	type entry struct {
		path string // of a directory with a slash at its end
		st   fsx.Stat
	}
	var entries []entry
	for _, name := range names {
		path := at + name
		// Neither it nor a key below it can be in the list.
		if CheckKey(name) != nil || len(path) > MaxKey || !strings.HasPrefix(path, prefix) && !strings.HasPrefix(prefix, path+"/") ||
			path+"0" <= after { // "0" follows "/", so all keys below path come before it
			continue
		}
		st, err := dir.Lstat(name)
		switch {
		case absent(err):
			continue
		case err != nil:
			return err
		case st.Kind == fsx.Directory:
			path += "/"
		case st.Kind != fsx.Regular || path <= after || !strings.HasPrefix(path, prefix):
			continue
		}
		entries = append(entries, entry{path, st})
	}
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.path, b.path) })
	for _, e := range entries {
		if len(*list) > MaxList {
			return nil
		}
		if e.st.Kind == fsx.Regular {
			*list = append(*list, Info{e.path, e.st.Size})
			continue
		}
		next, err := dir.OpenDir(strings.TrimSuffix(e.path[len(at):], "/"))
		if absent(err) {
			continue
		}
		if err == nil {
			err = s.walk(ctx, next, e.path, prefix, after, list)
			next.Close()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
