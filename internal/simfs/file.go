package simfs

import (
	"errors"
	"io"
	"syscall"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// file is an open file of one process.
type file struct {
	f       *FS
	n       *inode
	path    string // a current name; the last one if it has none
	flag    fsx.Flag
	process *Process
	pos     int64
	closed  bool
}

// held is a locked range.
type held struct {
	by     *file
	off, n int64
	excl   bool
}

func (x *file) writes() bool { return x.flag&(fsx.Write|fsx.Append) != 0 }

func (x *file) run(op Op, apply func(Op) error) error {
	x.f.mu.Lock()
	defer x.f.mu.Unlock()
	if x.f.find(x.path) != x.n {
		x.path = x.f.nameOf(x.n, x.path)
	}
	op.Path = x.path
	return x.f.do(x.process, op, func(op Op) error {
		if x.closed {
			return fail(op, syscall.EBADF)
		}
		return apply(op)
	})
}

func (x *file) Read(b []byte) (int, error) {
	n, err := x.ReadAt(b, x.pos)
	x.pos += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

func (x *file) ReadAt(b []byte, off int64) (n int, err error) {
	eof := false
	err = x.run(Op{Kind: "read", Off: off, Len: int64(len(b))}, func(Op) error {
		if off < int64(len(x.n.data)) {
			n = copy(b, x.n.data[off:])
		}
		eof = n < len(b)
		return nil
	})
	if err == nil && eof {
		err = io.EOF
	}
	return n, err
}

func (x *file) Write(b []byte) (int, error) {
	if x.flag&fsx.Append != 0 {
		_, err := x.Append(b)
		if err != nil {
			return 0, err
		}
		return len(b), nil
	}
	n, err := x.WriteAt(b, x.pos)
	x.pos += int64(n)
	return n, err
}

func (x *file) WriteAt(b []byte, off int64) (n int, err error) {
	err = x.run(Op{Kind: "write", Off: off, Len: int64(len(b))}, func(op Op) error {
		n, err = x.put(op, b[:op.Len], off)
		return err
	})
	return n, err
}

func (x *file) Append(b []byte) (off int64, err error) {
	err = x.run(Op{Kind: "append", Len: int64(len(b))}, func(op Op) error {
		off = int64(len(x.n.data))
		_, err := x.put(op, b[:op.Len], off)
		return err
	})
	return off, err
}

// put writes what fits on the disk.
func (x *file) put(op Op, b []byte, off int64) (int, error) {
	if !x.writes() {
		return 0, fail(op, syscall.EBADF)
	}
	full := false
	if grow := off + int64(len(b)) - int64(len(x.n.data)); x.f.cap > 0 && grow > 0 {
		if free := x.f.cap - x.f.used(); grow > free {
			full = true
			b = b[:max(0, int64(len(b))-(grow-max(0, free)))]
		}
	}
	if len(b) > 0 {
		if need := off + int64(len(b)); need > int64(len(x.n.data)) {
			x.n.resize(need)
		}
		x.n.touch(off, off+int64(len(b)))
		copy(x.n.data[off:], b)
		x.n.mtime, x.n.ctime = x.f.clock, x.f.clock
	}
	if full {
		return len(b), fail(op, syscall.ENOSPC)
	}
	return len(b), nil
}

func (n *inode) resize(size int64) {
	n.past.size(len(n.data))
	if size <= int64(len(n.data)) {
		n.data = n.data[:size:size]
		return
	}
	n.data = append(n.data, make([]byte, size-int64(len(n.data)))...)
}

// touch marks the sectors of a range as about to change.
func (n *inode) touch(from, to int64) {
	for s := from / sector; s*sector < to; s++ {
		if n.dirty[s] && s*sector < int64(len(n.data)) {
			n.past.sector(s, n.data[s*sector:min((s+1)*sector, int64(len(n.data)))])
		}
		n.dirty[s] = true
		delete(n.lost, s)
	}
}

func (x *file) Stat() (st fsx.Stat, err error) {
	err = x.run(Op{Kind: "fstat"}, func(Op) error {
		st = x.n.stat()
		return nil
	})
	return st, err
}

func (x *file) Sync() error {
	return x.run(Op{Kind: "sync"}, func(Op) error {
		x.n.persist()
		x.n.dmeta = x.n.meta.clone()
		return nil
	})
}

func (x *file) Datasync() error {
	return x.run(Op{Kind: "datasync"}, func(Op) error {
		x.n.persist()
		return nil
	})
}

// persist makes data and size durable, except the sectors that a failed sync lost.
func (n *inode) persist() {
	disk := make([]byte, len(n.data))
	copy(disk, n.disk)
	for s := range n.dirty {
		if n.lost[s] {
			continue
		}
		if from := s * sector; from < int64(len(n.data)) {
			copy(disk[from:], n.data[from:min(from+sector, int64(len(n.data)))])
		}
		delete(n.dirty, s)
	}
	n.disk, n.past = disk, past{}
}

func (x *file) Truncate(size int64) error {
	return x.run(Op{Kind: "truncate", Len: size}, func(op Op) error {
		old := int64(len(x.n.data))
		x.n.touch(min(old, size), max(old, size))
		x.n.resize(size)
		x.n.mtime, x.n.ctime = x.f.clock, x.f.clock
		return nil
	})
}

func (x *file) Chmod(mode uint32) error {
	return x.run(Op{Kind: "chmod", Len: int64(mode)}, func(Op) error {
		if !x.f.NoChmod {
			x.n.meta.mode, x.n.ctime = mode&0o7777, x.f.clock
		}
		return nil
	})
}

func (x *file) Chown(uid, gid int) error {
	return x.run(Op{Kind: "chown"}, func(Op) error {
		x.n.meta.chown(uid, gid)
		x.n.ctime = x.f.clock
		return nil
	})
}

// chown sets the ids that are not -1.
func (m *meta) chown(uid, gid int) {
	if uid >= 0 {
		m.uid = uid
	}
	if gid >= 0 {
		m.gid = gid
	}
}

func (x *file) Xattrs() (map[string][]byte, error) {
	out := map[string][]byte{}
	err := x.run(Op{Kind: "xattrs"}, func(Op) error {
		for k, v := range x.n.meta.xattrs {
			out[k] = []byte(v)
		}
		return nil
	})
	return out, err
}

func (x *file) SetXattr(name string, value []byte) error {
	return x.run(Op{Kind: "setxattr"}, func(Op) error {
		x.n.meta.xattrs[name] = string(value)
		x.n.ctime = x.f.clock
		return nil
	})
}

func (x *file) Unshared() bool {
	x.f.mu.Lock()
	defer x.f.mu.Unlock()
	return len(x.n.writers) == 0 && !x.f.NoLeases
}

func (x *file) InUse() bool { return !x.f.NoLeases && !x.Unshared() }

// WriteOut changes nothing: everything it would write may be lost anyway.
func (x *file) WriteOut() {}

// Forget has nothing to forget.
func (x *file) Forget() {}

func (x *file) Clone(src fsx.File) error {
	return x.run(Op{Kind: "clone"}, func(op Op) error {
		from := src.(*file)
		if !x.f.Clones || from.n.dev != x.n.dev {
			return fail(op, errors.Join(fsx.ErrUnsupported, syscall.EOPNOTSUPP))
		}
		_, err := x.put(op, from.n.data, 0)
		return err
	})
}

func (x *file) TryLock(off, n int64, exclusive bool) (ok bool, err error) {
	err = x.run(Op{Kind: "lock", Off: off, Len: n}, func(Op) error {
		for _, h := range x.n.locks {
			if h.by != x && (h.excl || exclusive) && h.off < off+n && off < h.off+h.n {
				return nil
			}
		}
		x.unlock(off, n)
		x.n.locks = append(x.n.locks, held{x, off, n, exclusive})
		ok = true
		return nil
	})
	return ok, err
}

func (x *file) Unlock(off, n int64) error {
	return x.run(Op{Kind: "unlock", Off: off, Len: n}, func(Op) error {
		x.unlock(off, n)
		return nil
	})
}

// unlock releases the locks of this file in a range.
func (x *file) unlock(off, n int64) {
	var left []held
	for _, h := range x.n.locks {
		if h.by != x || h.off >= off+n || off >= h.off+h.n {
			left = append(left, h)
			continue
		}
		if h.off < off {
			left = append(left, held{x, h.off, off - h.off, h.excl})
		}
		if end := h.off + h.n; end > off+n {
			left = append(left, held{x, off + n, end - off - n, h.excl})
		}
	}
	x.n.locks = left
}

func (x *file) Close() error {
	x.f.mu.Lock()
	defer x.f.mu.Unlock()
	if x.closed {
		return nil
	}
	x.release()
	return nil
}

// release ends the handle and its locks.
func (x *file) release() {
	x.closed = true
	delete(x.process.files, x)
	delete(x.n.writers, x)
	var left []held
	for _, h := range x.n.locks {
		if h.by != x {
			left = append(left, h)
		}
	}
	x.n.locks = left
}
