package observe

import (
	"maps"
	"slices"
	"strings"
)

// Difference is a file that differs between two states.
type Difference struct {
	Path          string
	Change        string // created, changed, mode or deleted
	SHA, PrevSHA  Digest
	Bytes         int64
	Link, WasLink bool
}

// States returns the files of two indexes. Symbolic links that the earlier format of one
// does not record are omitted from the other.
func States(x, y *Index) (a, b map[string]File) {
	a, b = x.All(), y.All()
	unknown := func(of map[string]File) func(string, File) bool {
		return func(p string, f File) bool { return f.Link() && of[p].Entry == nil }
	}
	if !x.Links {
		maps.DeleteFunc(b, unknown(a))
	}
	if !y.Links {
		maps.DeleteFunc(a, unknown(b))
	}
	return a, b
}

// Differences returns the changes from one state to another, in the order of paths.
func Differences(from, to map[string]File) (list []Difference) {
	for p, now := range to {
		was, ok := from[p]
		switch {
		case !ok:
			list = append(list, Difference{Path: p, Change: "created", SHA: now.SHA, Bytes: now.Size, Link: now.Link()})
		case was.SHA != now.SHA || was.Link() != now.Link():
			list = append(list, Difference{p, "changed", now.SHA, was.SHA, now.Size, now.Link(), was.Link()})
		case was.Mode != now.Mode:
			list = append(list, Difference{p, "mode", now.SHA, was.SHA, now.Size, false, false})
		}
	}
	for p, was := range from {
		if _, ok := to[p]; !ok {
			list = append(list, Difference{Path: p, Change: "deleted", PrevSHA: was.SHA, WasLink: was.Link()})
		}
	}
	slices.SortFunc(list, func(a, b Difference) int { return strings.Compare(a.Path, b.Path) })
	return list
}
