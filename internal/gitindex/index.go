package gitindex

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"io/fs"
	"path/filepath"
	"sort"

	"github.com/resilientwrite/resilientwrite/internal/durable"
)

var errBad = errors.New("the index is not understood")

// hashSizes are the lengths of the name of an object: SHA-1, SHA-256.
var hashSizes = []int{20, 32}

// index is the text of an index file, of format 2, 3 or 4.
type index struct {
	data []byte
	hash int                       // bytes of an object's name
	each func(name []byte, id int) // called for every entry with the place of its object's name

	base   string // the shared index that this one modifies, "" if there is none
	sparse bool   // there are entries of whole directories
}

const (
	headerBytes = 12
	statBytes   = 40 // times, device, inode, mode, owner, size of an entry
	extended    = 0x4000
	nameBits    = 0x0fff
	maxPath     = 4 * 4096 // bytes of a path that may be the one of a file
	maxName     = 255      // and of one name in it
)

// parse reads the whole index, in one pass and linear time. It fails if anything up to
// the last byte violates the format.
func (ix *index) parse() error {
	if len(ix.data) < headerBytes+ix.hash || string(ix.data[:4]) != "DIRC" {
		return errBad
	}
	version, count := binary.BigEndian.Uint32(ix.data[4:]), binary.BigEndian.Uint32(ix.data[8:])
	if version < 2 || version > 4 {
		return errBad
	}
	end := len(ix.data) - ix.hash // where the checksum begins
	at := headerBytes
	var name []byte
	for range count {
		next, err := ix.entry(at, end, version, &name)
		if err != nil {
			return err
		}
		ix.each(name, at+statBytes)
		at = next
	}
	return ix.extensions(at, end)
}

// entry reads one entry and returns the offset of the next one. name is the name of the
// previous entry, and becomes the name of this one.
func (ix *index) entry(at, end int, version uint32, name *[]byte) (int, error) {
	start, fixed := at, statBytes+ix.hash+2
	if end-at < fixed {
		return 0, errBad
	}
	flags := binary.BigEndian.Uint16(ix.data[at+fixed-2:])
	at += fixed
	if flags&extended != 0 {
		if version < 3 || end-at < 2 {
			return 0, errBad
		}
		at += 2
	}
	kept := 0
	if version == 4 {
		strip, n := offset(ix.data[at:end])
		if n == 0 || strip > len(*name) {
			return 0, errBad
		}
		at += n
		kept = len(*name) - strip
	}
	n := bytes.IndexByte(ix.data[at:end], 0)
	if n < 0 {
		return 0, errBad
	}
	if kept+n > maxPath { // in format 4 few bytes can make many
		return 0, errBad
	}
	*name = append((*name)[:kept], ix.data[at:at+n]...)
	if said := int(flags & nameBits); said != min(len(*name), nameBits) {
		return 0, errBad
	}
	at += n
	if version == 4 {
		return at + 1, nil
	}
	next := start + (at-start+8)&^7 // one to eight NULs
	if next > end || len(bytes.Trim(ix.data[at:next], "\x00")) > 0 {
		return 0, errBad
	}
	return next, nil
}

// offset reads a number in the form of format 4 and returns its length, 0 when
// it is invalid.
func offset(b []byte) (value, n int) {
	for i, c := range b {
		if i > 4 {
			return 0, 0
		}
		value = value<<7 | int(c&0x7f)
		if c&0x80 == 0 {
			return value, i + 1
		}
		value++
	}
	return 0, 0
}

// extensions reads the bytes between the entries and the checksum.
func (ix *index) extensions(at, end int) error {
	for at < end {
		if end-at < 8 {
			return errBad
		}
		what, size := string(ix.data[at:at+4]), binary.BigEndian.Uint32(ix.data[at+4:])
		at += 8
		if int64(size) > int64(end-at) {
			return errBad
		}
		body := ix.data[at : at+int(size)]
		at += int(size)
		switch {
		case what == "link":
			if len(body) < ix.hash {
				return errBad
			}
			if base := body[:ix.hash]; len(bytes.Trim(base, "\x00")) > 0 {
				ix.base = hex.EncodeToString(base)
			}
		case what == "sdir": // matches handles them
			ix.sparse = true
		case what[0] < 'A' || what[0] > 'Z': // one that a reader has to know
			return errBad
		}
	}
	return nil
}

// matches reports whether an entry is the file with the given names, or represents a
// directory in which it is: a submodule, or a directory of a sparse index.
func matches(entry []byte, names []string, same func(a, b string) bool) bool {
	entry = bytes.TrimSuffix(entry, []byte("/"))
	if len(entry) == 0 { // of a split index: the name is in the shared one
		return false
	}
	for _, want := range names {
		part, rest, more := bytes.Cut(entry, []byte("/"))
		if len(part) > maxName || !same(string(part), want) {
			return false
		}
		if !more {
			return true
		}
		entry = rest
	}
	return false
}

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
	for _, size := range hashSizes {
		l := &Listing{data: data, hash: size}
		ix := index{data: data, hash: size, each: l.add}
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
