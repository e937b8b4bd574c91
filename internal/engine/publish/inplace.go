package publish

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

const (
	copyBuffer = 256 << 10 // bytes moved at a time
	sector     = 512       // bytes that a device writes as a whole
)

// publishInPlace writes the staged bytes over the target, for a file that is to
// change under all its names and for a name that cannot be replaced. The caller
// has made the old content a durable version.
//
//	openat(target)  fstat  write…  ftruncate  fsync
func publishInPlace(c *Change) error {
	f, err := c.Target.Dir.Open(c.Target.Name, fsx.Read|fsx.Write, 0)
	if err != nil {
		return err
	}
	c.opened = f
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if !c.Redo && !c.Old.is(st) {
		return ErrForeign
	}
	c.Done = true
	err = overwrite(f, c.New.Bytes, c.New.Stat.Size)
	if c.after, c.unseen = f.Stat(); err == nil {
		err = c.unseen
	}
	if err == nil && c.after.Size != c.New.Stat.Size {
		c.after = fsx.Stat{} // another program has written to it
		err = ErrForeign
	}
	return err
}

// undoInPlace writes the old bytes again, unless another program has written
// to the file since: then it stays as it is.
func undoInPlace(c *Change) error {
	if c.opened == nil {
		return nil
	}
	st, err := c.opened.Stat()
	if err = cmp.Or(c.unseen, err); err != nil || st.Size != c.after.Size || st.Mtime != c.after.Mtime {
		return err
	}
	return overwrite(c.opened, c.Old.Bytes, c.Old.Stat.Size)
}

// judgeInPlace reports that the write can be done again: the target is a mixture of the
// old and the new content. The old content is read from c.Old.Bytes; where
// that is not there, only a target that holds all of one version counts.
func judgeInPlace(c *Change, held Held) (State, error) {
	if held != Staged {
		return Published, nil
	}
	f, st, err := c.openTarget()
	if f == nil || err != nil {
		return Taken, err
	}
	defer f.Close()
	if mixed, err := isMixture(f, st.Size, c.Old, c.New); err != nil || !mixed {
		return Taken, err
	}
	return Pending, nil
}

// isMixture reports whether each sector of a file is that of one of two others, begins as
// one of them and goes on as the other, or was lost. A write that was broken off, or did
// not cut the file yet, ends in a sector.
func isMixture(f io.ReaderAt, size int64, a, b File) (bool, error) {
	if size > max(a.Stat.Size, b.Stat.Size) {
		return false, nil
	}
	have, one, two := make([]byte, sector), make([]byte, sector), make([]byte, sector)
	for off := int64(0); off < size; off += sector {
		n, err := readPiece(f, have, off, size)
		if err == nil {
			err = b.sectorAt(two, off)
		}
		if err != nil {
			return false, err
		}
		if onlyMissing(two[:n], have[:n]) {
			continue
		}
		if err := a.sectorAt(one, off); err != nil {
			return false, err
		}
		if !turns(one[:n], two[:n], have[:n]) && !turns(two[:n], one[:n], have[:n]) {
			return false, nil
		}
	}
	return true, nil
}

// sectorAt reads a sector; what the file does not have is NULs.
func (f File) sectorAt(buf []byte, off int64) error {
	n, err := 0, error(nil)
	if f.Bytes != nil {
		n, err = readPiece(f.Bytes, buf, off, f.Stat.Size)
	}
	clear(buf[n:])
	return err
}

// turns reports whether have begins as one text and goes on as the other, but for bytes
// that read as NUL.
func turns(one, other, have []byte) bool {
	i := 0
	for i < len(have) && (have[i] == one[i] || have[i] == 0) {
		i++
	}
	return onlyMissing(other[i:], have[i:])
}

// readPiece fills buf from off, as far as the file has bytes.
func readPiece(r io.ReaderAt, buf []byte, off, size int64) (int, error) {
	n := min(int64(len(buf)), size-off)
	if n <= 0 {
		return 0, nil
	}
	k, err := r.ReadAt(buf[:n], off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return k, err
}

// overwrite makes f hold the size bytes of r, durably.
func overwrite(f fsx.File, r io.ReaderAt, size int64) error {
	buf, off := make([]byte, min(copyBuffer, size+1)), int64(0)
	for off < size {
		n, err := readPiece(r, buf, off, size)
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrUnexpectedEOF
		}
		if _, err := f.WriteAt(buf[:n], off); err != nil {
			return err
		}
		off += int64(n)
	}
	if err := f.Truncate(size); err != nil {
		return err
	}
	return f.Sync()
}

// hashOf hashes the first size bytes of f.
func hashOf(f io.ReaderAt, size int64) (string, error) {
	sum := sha256.New()
	_, err := io.CopyBuffer(sum, struct{ io.Reader }{io.NewSectionReader(f, 0, size)}, make([]byte, min(copyBuffer, size+1)))
	return hex.EncodeToString(sum.Sum(nil)), err
}

// isType reports that a name is no regular file.
func isType(err error) bool {
	var kind *fsx.TypeError
	return errors.As(err, &kind)
}
