package resilientwrite

import (
	"errors"
	"io"
	"io/fs"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// publishAppend adds the staged bytes to the end of the file, in place: what
// is there is not copied, so the cost is that of the new bytes. The intent is
// in the journal and the bytes are in staging/, so recovery can complete what
// a crash cuts off. A reader may see a part of the new bytes while they are
// being written.
//
//	openat(parent, name, O_APPEND)  fstat  write…
func (m *mutation) publishAppend(c *commit) error {
	f, err := m.target.Parent.Open(m.target.Name, fsx.Read|fsx.Append, 0)
	if err != nil {
		return err
	}
	m.grown = f
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if was := m.prev.stat; !st.SameFile(was) || st.Size != was.Size || st.Mtime != was.Mtime {
		return fail(ChangedDuringWrite)
	}
	src, buf := m.final.reader(), make([]byte, min(copyBuffer, m.final.size()+1))
	for {
		n, err := io.ReadFull(src, buf)
		if n > 0 {
			if werr := m.appendPiece(buf[:n]); werr != nil {
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
	m.done = true
	return m.inspectAppended(c)
}

// appendPiece writes one piece and notes where it landed.
func (m *mutation) appendPiece(p []byte) error {
	off, err := m.grown.Append(p)
	var n int64
	if st, serr := m.grown.Stat(); err != nil && serr == nil {
		n = max(0, st.Size-m.prev.stat.Size-m.wrote) // a short write leaves its part
	}
	if err != nil {
		m.wrote += n
		return err
	}
	if m.wrote == 0 {
		m.landed = off
	} else if off != m.landed+m.wrote {
		// A stranger wrote between two pieces; nobody can put that in order.
		m.wrote += int64(len(p))
		return fail(ChangedDuringWrite)
	}
	m.wrote += int64(len(p))
	return nil
}

// inspectAppended handles bytes of a stranger that were appended just before
// ours: they stay, and the reply tells of the file as it is.
func (m *mutation) inspectAppended(c *commit) error {
	if m.landed == m.prev.stat.Size {
		return nil
	}
	st, err := m.grown.Stat()
	if err != nil {
		return err
	}
	d, _, err := hashFile(m.grown, st.Size)
	if err != nil {
		return err
	}
	m.sha, m.size, m.midState = d.hex(), st.Size, d.state()
	m.stranger = true
	m.warn(WarnStrangerKept)
	return c.noteStranger(m, m.sha, m.size)
}

// cutBack removes what an append wrote before it failed, as long as nobody
// wrote behind it.
func (m *mutation) cutBack() error {
	if m.wrote == 0 {
		return nil
	}
	st, err := m.grown.Stat()
	if err != nil {
		return err
	}
	if m.landed != m.prev.stat.Size && m.landed != 0 || st.Size != m.prev.stat.Size+m.wrote {
		return fail(ChangedDuringWrite)
	}
	w, err := m.target.Parent.Open(m.target.Name, fsx.Write, 0)
	if err != nil {
		return err
	}
	defer w.Close()
	wst, err := w.Stat()
	if err != nil {
		return err
	}
	if !wst.SameFile(st) {
		return nil // the name leads elsewhere now; what we wrote to is gone
	}
	if err := w.Truncate(m.prev.stat.Size); err != nil {
		return err
	}
	return w.Sync()
}

// publishInPlace writes the staged bytes over the file, for a name that
// cannot be replaced and for a file that is to change under all its names.
// The old bytes are saved first and the intent is journaled, so recovery can
// tell a half-written file from one that a stranger wrote.
//
//	[save to history]  [journal note]  openat(parent, name)  write…  ftruncate  fsync
func (m *mutation) publishInPlace(c *commit) error {
	if err := c.s.history.Save(m.prev.reader(), m.prev.stat.Size, m.prev.sha); err != nil {
		return err
	}
	if err := c.noteInPlace(m); err != nil {
		return err
	}
	f, err := m.target.Parent.Open(m.target.Name, fsx.Read|fsx.Write, 0)
	if err != nil {
		return err
	}
	m.grown, m.done = f, true
	return overwrite(f, m.final.reader(), m.size)
}

// putBack restores the bytes that publishInPlace wrote over.
func (m *mutation) putBack() error {
	if m.grown == nil {
		return nil
	}
	return overwrite(m.grown, m.prev.reader(), m.prev.stat.Size)
}

// overwrite makes f hold the size bytes of r.
func overwrite(f fsx.File, r io.Reader, size int64) error {
	buf, off := make([]byte, copyBuffer), int64(0)
	for {
		n, err := io.ReadFull(r, buf)
		if n > 0 {
			if _, werr := f.WriteAt(buf[:n], off); werr != nil {
				return werr
			}
			off += int64(n)
		}
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			break
		}
		if err != nil {
			return err
		}
	}
	if err := f.Truncate(size); err != nil {
		return err
	}
	return f.Sync()
}

// completeAppend brings the bytes at base of a file to those of the payload,
// after a crash: it writes only where the file ends early or holds NULs that a
// lost sector left, and reports false when it finds anything else.
func completeAppend(f fsx.File, base int64, payload fsx.File, size int64) (bool, error) {
	for _, write := range []bool{false, true} { // look at everything before touching anything
		want, have := make([]byte, copyBuffer), make([]byte, copyBuffer)
		for off := int64(0); off < size; {
			n, err := payload.ReadAt(want[:min(copyBuffer, size-off)], off)
			if n == 0 {
				return false, err
			}
			got, err := f.ReadAt(have[:n], base+off)
			if err != nil && !errors.Is(err, io.EOF) {
				return false, err
			}
			if !write {
				if !onlyMissing(want[:got], have[:got]) {
					return false, nil
				}
			} else if got < n || string(want[:n]) != string(have[:n]) {
				if _, err := f.WriteAt(want[:n], base+off); err != nil {
					return false, err
				}
			}
			off += int64(n)
		}
	}
	return true, f.Sync()
}

// onlyMissing reports whether have is want but for bytes that read as NUL.
func onlyMissing(want, have []byte) bool {
	for i := range have {
		if have[i] != want[i] && have[i] != 0 {
			return false
		}
	}
	return true
}

func isAbsent(err error) bool { return errors.Is(err, fs.ErrNotExist) }
