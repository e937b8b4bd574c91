package publish

import (
	"errors"
	"io"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// publishAppend writes the staged bytes at the end of the target, in place:
// the current content is not copied. The row and the slot hold what is needed to
// complete it. A reader may see a part of the new bytes while they are written.
//
//	openat(target, O_APPEND)  fstat  write…
func publishAppend(c *Change) error {
	if c.Redo {
		return completeAppend(c)
	}
	f, err := c.Target.Dir.Open(c.Target.Name, fsx.Read|fsx.Append, 0)
	if err != nil {
		return err
	}
	c.opened = f
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if !c.Old.is(st) {
		return ErrForeign
	}
	src, buf := io.NewSectionReader(c.New.Bytes, 0, c.New.Stat.Size), make([]byte, min(copyBuffer, c.New.Stat.Size+1))
	for {
		n, err := io.ReadFull(src, buf)
		if n > 0 {
			if werr := appendPiece(c, buf[:n]); werr != nil {
				return werr
			}
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		}
		if err != nil {
			return err
		}
	}
	c.Done = true
	// Bytes that another program appended just before stay.
	c.Foreign = c.landed != c.Old.Stat.Size
	return nil
}

// appendPiece writes one piece and notes where it went.
func appendPiece(c *Change, p []byte) error {
	off, err := c.opened.Append(p)
	if err != nil {
		if st, serr := c.opened.Stat(); serr == nil { // a short write leaves its part
			c.wrote += max(0, st.Size-c.Old.Stat.Size-c.wrote)
		}
		return err
	}
	if c.wrote == 0 {
		c.landed = off
	} else if off != c.landed+c.wrote {
		c.wrote += int64(len(p))
		return ErrForeign // another program wrote between two pieces
	}
	c.wrote += int64(len(p))
	return nil
}

// undoAppend removes what was written, as long as nothing was written after it.
func undoAppend(c *Change) error {
	if c.wrote == 0 {
		return nil
	}
	st, err := c.opened.Stat()
	if err != nil {
		return err
	}
	if c.landed != c.Old.Stat.Size && c.landed != 0 || st.Size != c.Old.Stat.Size+c.wrote {
		return ErrForeign
	}
	if err := c.opened.Truncate(c.Old.Stat.Size); err != nil {
		return err
	}
	return c.opened.Sync()
}

// judgeAppend compares the target with what was there, followed by the staged
// bytes as far as they arrived.
func judgeAppend(c *Change, held Held) (State, error) {
	if held != Staged {
		return Published, nil
	}
	f, st, err := c.openTarget()
	if f == nil || err != nil {
		return Taken, err
	}
	defer f.Close()
	if st.Size < c.Old.Stat.Size || st.Size > c.Old.Stat.Size+c.New.Stat.Size {
		return Taken, nil
	}
	base, err := hashOf(f, c.Old.Stat.Size)
	if err != nil || base != c.Old.SHA256 {
		return Taken, err
	}
	fits, err := eachPiece(c, f, func(want, have []byte, _ int64) (bool, error) {
		return onlyMissing(want, have), nil
	})
	if err != nil || !fits {
		return Taken, err
	}
	return Pending, nil
}

// completeAppend writes the staged bytes to their place.
func completeAppend(c *Change) error {
	f, err := c.Target.Dir.Open(c.Target.Name, fsx.Read|fsx.Write, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	// All of them: after a failed flush, bytes that can be read may not be on
	// stable storage.
	_, err = eachPiece(c, f, func(want, _ []byte, at int64) (bool, error) {
		_, err := f.WriteAt(want, at)
		return true, err
	})
	if err == nil {
		err = f.Sync()
	}
	c.Done = err == nil
	return err
}

// eachPiece calls fn with pieces of the staged bytes and what the target holds
// in their place, which may be shorter, until fn returns false.
func eachPiece(c *Change, f fsx.File, fn func(want, have []byte, at int64) (bool, error)) (bool, error) {
	want, have := make([]byte, copyBuffer), make([]byte, copyBuffer)
	base, size := c.Old.Stat.Size, c.New.Stat.Size
	for off := int64(0); off < size; {
		n, err := c.New.Bytes.ReadAt(want[:min(copyBuffer, size-off)], off)
		if n == 0 {
			return false, err
		}
		got, err := f.ReadAt(have[:n], base+off)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, err
		}
		if more, err := fn(want[:n], have[:got], base+off); err != nil || !more {
			return false, err
		}
		off += int64(n)
	}
	return true, nil
}

// onlyMissing reports whether have is the beginning of want but for bytes that
// read as NUL, which is what a lost sector leaves.
func onlyMissing(want, have []byte) bool {
	for i := range have {
		if have[i] != want[i] && have[i] != 0 {
			return false
		}
	}
	return true
}
