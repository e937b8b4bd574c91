package observe

import (
	"maps"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/around"
)

// Difference is a file that differs between two states.
type Difference struct {
	around.FileChange
	WasLink bool
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
	differs := func(p, change string, was, now File) {
		d := Difference{FileChange: around.FileChange{Path: p, Change: change, Link: now.Link()}, WasLink: was.Link()}
		if was.Entry != nil {
			d.PrevSHA256 = was.SHA
		}
		if now.Entry != nil {
			d.SHA256, d.Bytes = now.SHA, now.Size
		}
		list = append(list, d)
	}
	for p, now := range to {
		switch was, ok := from[p]; {
		case !ok:
			differs(p, "created", was, now)
		case was.SHA != now.SHA || was.Link() != now.Link():
			differs(p, "changed", was, now)
		case was.Mode != now.Mode:
			differs(p, "mode", was, now)
		}
	}
	for p, was := range from {
		if _, ok := to[p]; !ok {
			differs(p, "deleted", was, File{})
		}
	}
	slices.SortFunc(list, func(a, b Difference) int { return strings.Compare(a.Path, b.Path) })
	return list
}
