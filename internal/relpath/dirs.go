package relpath

import (
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Dirs are the directories that one walk over many paths has opened. Each is
// opened once, and stays open for all paths that lead through it.
type Dirs struct {
	open  map[string]fsx.Dir // by the way without links
	shown bool               // the root
}

func (d *Dirs) find(way []string, name string) fsx.Dir {
	if d == nil {
		return nil
	}
	return d.open[strings.Join(append(way[:len(way):len(way)], name), "/")]
}

func (d *Dirs) keep(way []string, dir fsx.Dir) {
	if d == nil {
		return
	}
	if d.open == nil {
		d.open = map[string]fsx.Dir{}
	}
	d.open[strings.Join(way, "/")] = dir
}

// begun reports whether the root was shown, and notes that it is.
func (d *Dirs) begun() bool {
	if d == nil {
		return false
	}
	was := d.shown
	d.shown = true
	return was
}

// Len is the number of directories that are open.
func (d *Dirs) Len() int {
	if d == nil {
		return 0
	}
	return len(d.open)
}

// Close closes them. Targets with these directories must not be used afterwards.
func (d *Dirs) Close() error {
	if d == nil {
		return nil
	}
	for _, dir := range d.open {
		dir.Close()
	}
	d.open = nil
	return nil
}
