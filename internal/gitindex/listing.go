package gitindex

import (
	"bytes"
	"errors"
	"io/fs"
	"path/filepath"
	"sort"

	"github.com/resilientwrite/resilientwrite/internal/durable"
)

// Listing is the files that an index lists, by name.
type Listing struct {
	names []byte
	items []item
	data  []byte
	hash  int
}

type item struct{ from, to, id int } // the name in names, the object in data

// Read reads the index of a git directory. A repository without one lists
// nothing. ok is false for an index that is not understood, also for a split
// or sparse one.
func Read(dir string) (l *Listing, ok bool) {
	data, err := durable.ReadRegular(filepath.Join(dir, "index"), maxIndex)
	if err != nil {
		return &Listing{}, errors.Is(err, fs.ErrNotExist)
	}
	for _, size := range []int{20, 32} {
		l := &Listing{data: data, hash: size}
		ix := index{data: data, hash: size, same: func(a, b string) bool { return false }, each: l.add}
		if ix.parse() != nil || ix.base != "" || ix.sparse {
			continue
		}
		if !sort.SliceIsSorted(l.items, func(i, j int) bool { return bytes.Compare(l.name(i), l.name(j)) < 0 }) {
			return &Listing{}, false
		}
		return l, true
	}
	return &Listing{}, false
}

func (l *Listing) add(name []byte, id int) {
	from := len(l.names)
	l.names = append(l.names, name...)
	l.items = append(l.items, item{from, len(l.names), id})
}

func (l *Listing) name(i int) []byte { return l.names[l.items[i].from:l.items[i].to] }

// search is the place of the first name that is not less than name.
func (l *Listing) search(name string) int {
	return sort.Search(len(l.items), func(i int) bool { return string(l.name(i)) >= name })
}

// Find returns the binary name of the object that the index lists for a file.
func (l *Listing) Find(name string) (object string, ok bool) {
	i := l.search(name)
	if i == len(l.items) || string(l.name(i)) != name {
		return "", false
	}
	return string(l.data[l.items[i].id:][:l.hash]), true
}

// Below reports whether the index lists a file in a directory.
func (l *Listing) Below(dir string) bool {
	i := l.search(dir + "/")
	return i < len(l.items) && bytes.HasPrefix(l.name(i), []byte(dir+"/"))
}
