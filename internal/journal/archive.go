package journal

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"slices"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Segments with old rows may be parked in another directory, the archive. They keep
// their names and bytes, and are read from there, except by a cursor. A segment that is
// in both places, after a crash, counts once.

// archive opens the directory of parked segments; nil if there is none.
func (l *Log) archive(make bool) (fsx.Dir, error) {
	if l.o.Archive == nil {
		return nil, nil
	}
	l.parkMu.Lock()
	defer l.parkMu.Unlock()
	if l.park != nil {
		return l.park, nil
	}
	d, err := l.o.Archive(make)
	if isAbsent(err) || fsx.NotDir(err) { // Check reports what is there instead
		return nil, nil
	}
	l.park = d
	return d, err
}

func (l *Log) closeArchive() {
	l.parkMu.Lock()
	defer l.parkMu.Unlock()
	if l.park != nil {
		l.park.Close()
		l.park = nil
	}
}

// reach lists the segments that contain rows from seq from on: the live ones
// and, when those begin later, the parked ones as well.
func (l *Log) reach(from uint64) ([]uint64, error) {
	live, err := segments(l.o.Dir)
	if err != nil || len(live) > 0 && live[0] <= max(from, 1) {
		return live, err
	}
	return l.withParked(live)
}

// upto is the last of some segments that begins with a row up to seq, or the first one.
func upto(segs []uint64, seq uint64) uint64 {
	at, found := slices.BinarySearch(segs, seq)
	if !found {
		at = max(at, 1) - 1
	}
	return segs[at]
}

// withParked adds the parked segments to the live ones. The live ones must
// have been listed first: a segment that moves meanwhile is then seen twice
// and never missed.
func (l *Log) withParked(live []uint64) ([]uint64, error) {
	dir, err := l.archive(false)
	if dir == nil || err != nil {
		return live, err
	}
	parked, err := segments(dir)
	if err != nil {
		return nil, err
	}
	all := append(parked, live...)
	slices.Sort(all)
	return slices.Compact(all), nil
}

// all lists the live segments, and these with the parked ones.
func (l *Log) all() (live, all []uint64, err error) {
	if live, err = segments(l.o.Dir); err == nil {
		all, err = l.withParked(live)
	}
	return live, all, err
}

// openSegment opens a segment for reading, wherever it is.
func (l *Log) openSegment(first uint64) (fsx.File, error) {
	f, err := l.o.Dir.Open(SegmentFile(first), fsx.Read, 0)
	if !isAbsent(err) {
		return f, err
	}
	dir, aerr := l.archive(false)
	if aerr != nil {
		return nil, aerr
	}
	if dir == nil {
		return nil, err
	}
	return dir.Open(SegmentFile(first), fsx.Read, 0)
}

// Roll begins a new segment, so that every row so far is in a sealed one.
func (l *Log) Roll(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	unlock, err := l.begin(ctx, l.lockWait())
	if err != nil {
		return err
	}
	defer unlock()
	if l.pos.Offset == 0 {
		return nil
	}
	return l.roll()
}

// Sealed lists the segments that are no longer written to, oldest first.
func (l *Log) Sealed() ([]uint64, error) {
	live, all, err := l.all()
	if err != nil || len(live) == 0 {
		return all, err
	}
	return all[:slices.Index(all, live[len(live)-1])], nil
}

// Unparked lists those of them that are not in the archive alone.
func (l *Log) Unparked() ([]uint64, error) {
	live, err := segments(l.o.Dir)
	return live[:max(len(live), 1)-1], err
}

// Oldest returns the first seq of the oldest live segment, or 0 if there is none.
func (l *Log) Oldest() (uint64, error) {
	live, err := segments(l.o.Dir)
	if err != nil || len(live) == 0 {
		return 0, err
	}
	return live[0], nil
}

// SegmentFacts describes one segment.
type SegmentFacts struct {
	First  uint64
	Last   uint64 // the newest valid row; 0 if there is none
	Rows   int64
	Bytes  int64
	SHA256 string
}

// Facts reads a sealed segment.
func (l *Log) Facts(first uint64) (SegmentFacts, error) {
	out := SegmentFacts{First: first}
	f, err := l.openSegment(first)
	if err != nil {
		return out, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return out, err
	}
	out.Bytes = st.Size
	sum := sha256.New()
	if _, err := io.CopyBuffer(sum, io.NewSectionReader(f, 0, st.Size), make([]byte, 64<<10)); err != nil {
		return out, err
	}
	out.SHA256 = hex.EncodeToString(sum.Sum(nil))
	err = lines(f, 0, st.Size, func(r row) error {
		if rec, ok := decode(r.line); ok && rec.Seq > out.Last {
			out.Last = rec.Seq
			out.Rows++
		}
		return nil
	})
	return out, err
}

// ErrTaken is returned when the archive has another segment of that name.
var ErrTaken = errors.New("the archive has another segment of this name")

// Park moves sealed segments into the archive. Doing it again after a crash
// finishes it: at every moment each segment has a durable name. They leave the
// journal one after the other, the oldest first, so that the live segments
// never have a hole.
//
//	linkat(journal/n, archive/n) …  fsync(archive)  [unlinkat(journal/n)  fsync(journal)] …
func (l *Log) Park(ctx context.Context, firsts []uint64) error {
	dir, err := l.archive(true)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	unlock, err := l.begin(ctx, l.lockWait())
	if err != nil {
		return err
	}
	defer unlock()
	live, err := l.Unparked()
	if err != nil {
		return err
	}
	var moved []uint64
	for _, first := range slices.Sorted(slices.Values(firsts)) {
		if !slices.Contains(live, first) {
			continue
		}
		gone, err := l.parkOne(dir, SegmentFile(first))
		if err != nil {
			return err
		}
		if !gone {
			moved = append(moved, first)
			continue
		}
		if err := dir.Sync(); err != nil {
			return err
		}
		if err := l.o.Dir.Sync(); err != nil {
			return err
		}
	}
	if err := dir.Sync(); err != nil {
		return err
	}
	if len(moved) == 0 { // what an attempt that failed took away may not be flushed yet
		return l.o.Dir.Sync()
	}
	for _, first := range moved {
		if err := l.o.Dir.Remove(SegmentFile(first)); err != nil && !isAbsent(err) {
			return err
		}
		if err := l.o.Dir.Sync(); err != nil {
			return err
		}
	}
	return nil
}

// parkOne moves a segment to the archive. gone reports that it has already lost its
// other name, on a file system without links.
func (l *Log) parkOne(dir fsx.Dir, name string) (gone bool, err error) {
	err = l.o.Dir.Link(name, dir, name)
	switch {
	case err == nil:
		return false, nil
	case isExist(err):
		same, err := sameBytes(l.o.Dir, dir, name)
		if err == nil && !same {
			err = ErrTaken
		}
		return false, err
	case errors.Is(err, fsx.ErrUnsupported):
		err = l.o.Dir.RenameNoReplace(name, dir, name)
		if errors.Is(err, fsx.ErrUnsupported) {
			if _, serr := dir.Lstat(name); isAbsent(serr) {
				err = l.o.Dir.Rename(name, dir, name)
			}
		}
		if isExist(err) {
			return false, ErrTaken
		}
		return err == nil, err
	}
	return false, err
}

// sameBytes reports whether two files of one name are the same.
func sameBytes(a, b fsx.Dir, name string) (bool, error) {
	x, err := a.Lstat(name)
	if err != nil {
		return false, err
	}
	y, err := b.Lstat(name)
	if err != nil || x.SameFile(y) || x.Size != y.Size {
		return x.SameFile(y), err
	}
	one, err := readWhole(a, name)
	if err != nil {
		return false, err
	}
	other, err := readWhole(b, name)
	return bytes.Equal(one, other), err
}

// leaveArchive closes a parked segment: the next write begins a new segment.
func (l *Log) leaveArchive() error {
	live, err := segments(l.o.Dir)
	if err != nil || len(live) > 0 || l.file == nil {
		return err
	}
	err = l.file.Close()
	l.file, l.alloc = nil, 0
	return err
}

func isAbsent(err error) bool { return errors.Is(err, fs.ErrNotExist) }
func isExist(err error) bool  { return errors.Is(err, fs.ErrExist) }
