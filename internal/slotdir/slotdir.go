// Package slotdir manages the directories of slots that a store has outside its state
// directory, on the file systems of its files: the list of them in the state directory,
// and how they are opened and removed.
//
// The name of each ends with a random identifier. A directory that came with the files
// of a workspace cannot have that name, and a replacement has another name.
package slotdir

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// ListName is the file of the state directory that lists them.
const ListName = "slots.json"

const listLimit = 16 << 20 // bytes

// List is the directories of slots of one store. A directory is in the list
// before it is made.
type List struct {
	Root string `json:"root,omitempty"` // the workspace, absolute
	Dirs []Dir  `json:"dirs"`
}

// Dir is one directory of slots.
type Dir struct {
	Path string `json:"path"` // in the workspace
	// Ready is set when the directory and its dependencies are durable. A directory
	// whose maker did not get that far is not used.
	Ready bool `json:"ready,omitempty"`
}

// Read reads the list in a state directory. The list is empty if it is absent or
// damaged: rows name the directories whose slots still matter.
func Read(state fsx.Dir) (l List, err error) {
	data, err := durable.ReadFile(state, ListName, listLimit)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return l, err
	}
	if json.Unmarshal(data, &l) != nil {
		return List{}, nil
	}
	return l, nil
}

// Write writes the list durably.
func (l List) Write(state fsx.Dir) error {
	data, err := json.Marshal(l)
	if err != nil {
		return err
	}
	return durable.WriteFile(state, ListName, append(data, '\n'), 0o600)
}

// In is the directory of slots that was made last in the directory parent, "" for
// none.
func (l List) In(parent string) (path string) {
	for _, d := range l.Dirs {
		if in, _ := Split(d.Path); in == parent && d.Ready {
			path = d.Path
		}
	}
	return path
}

// Split splits a path into the directory, "" for the workspace, and the name.
func Split(path string) (parent, name string) {
	i := strings.LastIndexByte(path, '/')
	return path[:max(i, 0)], path[i+1:]
}

// Remove removes the directories of a store that no process has open, those that are
// this user's.
func Remove(root fsx.Dir, l List) error {
	var all error
	for _, d := range l.Dirs {
		all = errors.Join(all, remove(root, d.Path))
	}
	return all
}

func remove(root fsx.Dir, path string) error {
	in, name := Split(path)
	if !relpath.IsSlots(name) {
		return nil
	}
	parent, done, err := fsx.OpenPath(root, in)
	if err != nil {
		return unlessGone(err)
	}
	defer done()
	dir, err := parent.OpenDir(name)
	if err != nil {
		return unlessGone(err)
	}
	defer dir.Close()
	st, err := dir.Stat()
	if self := os.Geteuid(); err != nil || self >= 0 && st.UID != self && st.UID != 0 {
		return err
	}
	names, err := dir.Names()
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := dir.Remove(n); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return unlessGone(parent.Rmdir(name))
}

// unlessGone returns err, unless it reports that the object does not exist or is not a
// directory.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || fsx.NotDir(err) {
		return nil
	}
	return err
}
