// Package blame finds out which version of a file each of its lines came with.
package blame

import "github.com/resilientwrite/resilientwrite/internal/merge"

// Version is the content of a file at one time. Versions are given oldest first.
type Version struct {
	Row    uint64 // the row to which its new lines are attributed; 0: unknown
	SHA    string // "" for absent
	Back   bool   // it may be an earlier version that was brought back
	Opaque bool   // its content cannot be had
	Text   []byte
}

// File is the origin of the lines of a file, as far as it is known.
type File struct {
	Restored map[string]bool // the contents that a later version may bring back

	rows    []uint64   // of each line
	past    [][]uint64 // of each version with such a content
	list    []Version
	undone  []int // of each version: the one that undid it
	text    []byte
	unknown bool
}

// Add adds the next version.
func (f *File) Add(v Version) error {
	same := -1
	if v.Back {
		for i := len(f.list) - 2; i >= 0 && same < 0; i-- {
			if f.list[i].SHA == v.SHA {
				same = i
			}
		}
	}
	switch {
	case same >= 0:
		f.wentBack(same)
		if f.rows = f.past[same]; f.list[same].Opaque {
			f.rows = make([]uint64, len(merge.Lines(v.Text)))
		}
	case v.Opaque:
		f.unknown = true
		f.rows = nil
	default:
		rows, err := f.attribute(v)
		if err != nil {
			return err
		}
		f.rows = rows
	}
	past := f.rows
	if !f.Restored[v.SHA] {
		past = nil // of every version they would take far more memory than the file
	}
	f.text = v.Text
	f.list, f.past = append(f.list, Version{Row: v.Row, SHA: v.SHA, Opaque: v.Opaque}), append(f.past, past)
	f.undone = append(f.undone, 0)
	return nil
}

// attribute gives the lines of the next version their rows. After one that
// cannot be had, the origin of its lines is unknown.
func (f *File) attribute(v Version) ([]uint64, error) {
	rows := make([]uint64, len(merge.Lines(v.Text)))
	if n := len(f.list); n > 0 && f.list[n-1].Opaque {
		return rows, nil
	}
	list, err := merge.Hunks(f.text, v.Text)
	if err != nil {
		return nil, err
	}
	old, now := 0, 0
	for _, h := range list {
		copy(rows[now:], f.rows[old:h.From])
		for i := h.NewFrom; i < h.NewTo; i++ {
			rows[i] = v.Row
		}
		old, now = h.To, h.NewTo
	}
	copy(rows[now:], f.rows[old:])
	return rows, nil
}

// wentBack records that the next version restores version i: the changes after it are
// undone, and changes that had been undone after it are no longer undone.
func (f *File) wentBack(i int) {
	for j := range f.list {
		if f.undone[j] > i {
			f.undone[j] = 0
		}
		if j > i {
			f.undone[j] = len(f.list)
		}
	}
}

// Rows returns the row to which each line of the newest version is attributed. complete
// is false if the content of a version was not available.
func (f *File) Rows() (rows []uint64, complete bool) { return f.rows, !f.unknown }

// UndoneBy is the row that undid another one; 0 when none did.
func (f *File) UndoneBy(row uint64) uint64 {
	for i, v := range f.list {
		if v.Row == row && f.undone[i] > 0 {
			return f.list[f.undone[i]].Row
		}
	}
	return 0
}
