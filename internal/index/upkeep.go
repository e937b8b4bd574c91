package index

import (
	"bytes"
	"errors"
	"io/fs"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Snapshot is one snapshot file as it was found.
type Snapshot struct {
	Name  string
	State []byte // the state that the caller saved with it
	Err   error  // ErrDamaged if a part of it differs from what was written
}

// Snapshots reads every snapshot as a whole, newest first.
func Snapshots(dir fsx.Dir) ([]Snapshot, error) {
	names, err := snapshots(dir)
	if err != nil {
		return nil, err
	}
	list := make([]Snapshot, 0, len(names))
	for _, name := range names {
		snap := Snapshot{Name: name}
		x, state, err := load(dir, name)
		if err == nil {
			snap.State, err = state, x.verify()
			x.Close()
		}
		var kind *fsx.TypeError
		if errors.As(err, &kind) {
			err = ErrDamaged
		}
		if errors.Is(err, fs.ErrNotExist) { // a newer one took its place
			continue
		}
		if err != nil && !errors.Is(err, ErrDamaged) {
			return nil, err
		}
		snap.Err = err
		list = append(list, snap)
	}
	return list, nil
}

// verify reads every block: its checksum, the order of its keys, and its first key as
// recorded in the footer.
func (x *Index) verify() error {
	var buf [blockSize]byte
	var last Key
	for n := range x.first {
		block, err := x.block(n, &buf)
		if err != nil {
			return err
		}
		if len(block) == 0 || Key(block[:16]) != x.first[n] {
			return ErrDamaged
		}
		for i := 0; i < len(block); i += entrySize {
			key := Key(block[i : i+16])
			if (n > 0 || i > 0) && bytes.Compare(key[:], last[:]) <= 0 {
				return ErrDamaged
			}
			last = key
		}
	}
	return nil
}

// Adopt makes x what o is, and o empty. A concurrent reader of x sees the one
// or the other.
func (x *Index) Adopt(o *Index) {
	o.mu.Lock()
	overlay, file, first, count := o.overlay, o.file, o.first, o.count
	o.overlay, o.file, o.first, o.count = map[Key]Entry{}, nil, nil, 0
	o.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.file != nil {
		x.file.Close()
	}
	x.overlay, x.file, x.first, x.count = overlay, file, first, count
}
