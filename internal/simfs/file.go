package simfs

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"syscall"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// handle is what one process has open: a file or a directory.
type handle struct {
	f       *FS
	n       *inode
	path    string // of a file a current name, or the last one it had; of a directory the one it was opened by
	process *Process
	closed  bool
}

// self makes one operation on what is open itself.
func (h *handle) self(op Op, apply func(Op) error) error {
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	if h.n.kind != fsx.Directory && h.f.find(h.path) != h.n {
		h.path = h.f.nameOf(h.n, h.path)
	}
	op.Path = cmp.Or(h.path, ".")
	return h.f.do(h.process, op, func(op Op) error {
		if h.closed {
			return fail(op, syscall.EBADF)
		}
		return apply(op)
	})
}

func (h *handle) Stat() (st fsx.Stat, err error) {
	err = h.self(Op{Kind: "stat"}, func(Op) error {
		st = h.n.stat()
		if h.n.kind == fsx.Directory {
			st.Mount = h.n.dev
		}
		return nil
	})
	return st, err
}

func (h *handle) Chmod(mode uint32) error {
	return h.self(Op{Kind: "chmod", Len: int64(mode)}, func(Op) error {
		if !h.f.NoChmod {
			h.n.meta.mode, h.n.ctime = mode&0o7777, h.f.clock
		}
		return nil
	})
}

func (h *handle) Chown(uid, gid int) error {
	return h.self(Op{Kind: "chown"}, func(Op) error {
		if uid >= 0 {
			h.n.meta.uid = uid
		}
		if gid >= 0 {
			h.n.meta.gid = gid
		}
		h.n.ctime = h.f.clock
		return nil
	})
}

// file is an open file of one process.
type file struct {
	handle
	flag fsx.Flag
	pos  int64
}

// held is a locked range.
type held struct {
	by     *file
	off, n int64
	excl   bool
}

func (x *file) writes() bool { return x.flag&(fsx.Write|fsx.Append) != 0 }

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
	err = x.self(Op{Kind: "read", Off: off, Len: int64(len(b))}, func(Op) error {
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
	err = x.self(Op{Kind: "write", Off: off, Len: int64(len(b))}, func(op Op) error {
		n, err = x.put(op, b[:op.Len], off)
		return err
	})
	return n, err
}

func (x *file) Append(b []byte) (off int64, err error) {
	err = x.self(Op{Kind: "append", Len: int64(len(b))}, func(op Op) error {
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
		if x.n.fixed {
			x.n.data, x.n.fixed = slices.Clone(x.n.data), false
		}
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
	if n.fixed {
		n.data, n.fixed = slices.Clip(n.data), false // it is copied
	}
	n.data = append(n.data, make([]byte, size-int64(len(n.data)))...)
}

// touch marks the sectors of a range as about to change.
func (n *inode) touch(from, to int64) {
	if n.dirty == nil {
		n.dirty = map[int64]bool{}
	}
	for s := from / sector; s*sector < to; s++ {
		if n.dirty[s] && s*sector < int64(len(n.data)) {
			n.past.sector(s, n.data[s*sector:min((s+1)*sector, int64(len(n.data)))])
		}
		n.dirty[s] = true
		delete(n.lost, s)
	}
}

func (x *file) Sync() error {
	return x.self(Op{Kind: "sync"}, func(Op) error {
		x.n.persist()
		x.n.dmeta = x.n.meta.clone()
		return nil
	})
}

func (x *file) Datasync() error {
	return x.self(Op{Kind: "datasync"}, func(Op) error {
		x.n.persist()
		return nil
	})
}

// persist makes data and size durable, except the sectors that a failed sync lost.
func (n *inode) persist() {
	n.cut = nil
	if len(n.lost) == 0 {
		clear(n.dirty)
		n.disk, n.fixed, n.past = n.data, true, past{}
		return
	}
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
	return x.self(Op{Kind: "truncate", Len: size}, func(op Op) error {
		old := int64(len(x.n.data))
		if x.f.Ordered && size < old {
			x.n.cut = &cut{x.n, int(size)}
		}
		x.n.touch(min(old, size), max(old, size))
		x.n.resize(size)
		x.n.mtime, x.n.ctime = x.f.clock, x.f.clock
		return nil
	})
}

// cut is a file cut to a size that is not durable yet.
type cut struct {
	n    *inode
	size int
}

// persist makes the cut durable, unless a sync or a later cut has superseded it.
func (k *cut) persist() {
	if k.n.cut == k {
		k.n.disk, k.n.cut = k.n.disk[:min(k.size, len(k.n.disk))], nil
	}
}

func (x *file) Xattrs() (map[string][]byte, error) {
	out := map[string][]byte{}
	err := x.self(Op{Kind: "xattrs"}, func(Op) error {
		for k, v := range x.n.meta.xattrs {
			out[k] = []byte(v)
		}
		return nil
	})
	return out, err
}

func (x *file) SetXattr(name string, value []byte) error {
	return x.self(Op{Kind: "setxattr"}, func(Op) error {
		if x.n.meta.xattrs == nil {
			x.n.meta.xattrs = map[string]string{}
		}
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
	return x.self(Op{Kind: "clone"}, func(op Op) error {
		from := src.(*file)
		if !x.f.Clones || from.n.dev != x.n.dev {
			return fail(op, errors.Join(fsx.ErrUnsupported, syscall.EOPNOTSUPP))
		}
		_, err := x.put(op, from.n.data, 0)
		return err
	})
}

func (x *file) TryLock(off, n int64, exclusive bool) (ok bool, err error) {
	err = x.self(Op{Kind: "lock", Off: off, Len: n}, func(Op) error {
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
	return x.self(Op{Kind: "unlock", Off: off, Len: n}, func(Op) error {
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
	x.n.locks = slices.DeleteFunc(x.n.locks, func(h held) bool { return h.by == x })
}
