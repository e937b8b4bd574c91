package simfs

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// dir is an open directory of one process.
type dir struct {
	handle
	failed func(error) // is told of failed flushes; nil: nothing is
}

func (d *dir) at(name string) string {
	if checkName(name) != nil {
		return path.Join(d.path, name)
	}
	return join(d.path, name)
}

// run makes one operation on the entry name.
func (d *dir) run(kind, name string, apply func(Op) error) error {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	return d.runTo(Op{Kind: kind}, name, apply)
}

// find returns the inode of a name, nil for none.
func (d *dir) find(name string) *inode { return d.n.names[d.f.called(d.n, name)] }

// runTo is run with f.mu held.
func (d *dir) runTo(op Op, name string, apply func(Op) error) error {
	if op.Path = name; d.f.observed() {
		op.Path = d.at(name)
	}
	return d.f.do(d.process, op, func(op Op) error {
		if err := checkName(name); err != nil {
			return fail(op, err)
		}
		if err := d.refuses(op.Kind); err != nil {
			return fail(op, err)
		}
		return apply(op)
	})
}

// refuses goes by the permission of the owner to write. Foreign programs have more
// rights. A removed directory takes no entries.
func (d *dir) refuses(kind string) error {
	switch kind {
	case "create", "mkdir", "symlink", "rename", "exchange":
		if d.n.nlink == 0 {
			return syscall.ENOENT
		}
	}
	switch kind {
	case "access", "create", "mkdir", "symlink", "rename", "exchange", "remove", "rmdir":
		if d.n.meta.mode&0o200 == 0 && !d.process.foreign {
			return syscall.EACCES
		}
	}
	return nil
}

func checkName(name string) error {
	switch {
	case name == "" || name == "." || name == ".." || strings.IndexByte(name, '/') >= 0 || strings.IndexByte(name, 0) >= 0:
		return syscall.EINVAL
	case len(name) > 255:
		return syscall.ENAMETOOLONG
	}
	return nil
}

// entry returns the inode of a name or ENOENT.
func (d *dir) entry(op Op, name string) (*inode, error) {
	if n := d.find(name); n != nil {
		return n, nil
	}
	return nil, fail(op, syscall.ENOENT)
}

func (d *dir) OpenDir(name string) (fsx.Dir, error) {
	var out *dir
	err := d.run("opendir", name, func(op Op) error {
		n, err := d.entry(op, name)
		if err != nil {
			return err
		}
		if n.kind != fsx.Directory {
			return fail(op, syscall.ENOTDIR)
		}
		out = &dir{handle: handle{f: d.f, n: n, path: d.at(name), process: d.process}, failed: d.failed}
		d.process.openedDir(out)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

func (d *dir) Open(name string, flag fsx.Flag, perm uint32) (fsx.File, error) {
	kind := "open"
	d.f.mu.Lock()
	if flag&fsx.Create != 0 && d.find(name) == nil {
		kind = "create"
	}
	d.f.mu.Unlock()
	var out *file
	err := d.run(kind, name, func(op Op) error {
		n := d.find(name)
		switch {
		case n == nil && flag&fsx.Create == 0:
			return fail(op, syscall.ENOENT)
		case n != nil && flag&fsx.Create != 0 && flag&fsx.Excl != 0:
			return fail(op, syscall.EEXIST)
		case n != nil && n.kind != fsx.Regular:
			return fail(op, &fsx.TypeError{Kind: n.kind})
		case n == nil:
			n = d.f.newInode(fsx.Regular, d.n.dev, d.f.newMode(perm))
			if !d.f.Ordered {
				n.dmeta.mode = 0 // until it is synced
			}
			d.f.change(assign{d.n, name, n})
		}
		out = &file{handle: handle{f: d.f, n: n, path: d.at(name), process: d.process}, flag: flag}
		d.process.opened(out)
		return nil
	})
	if err != nil {
		if out != nil { // the file was made, and the caller gets no handle
			out.Close()
		}
		return nil, err
	}
	return out, nil
}

func (f *FS) newMode(perm uint32) uint32 {
	if f.NoChmod {
		return 0o777
	}
	return perm &^ f.Umask
}

func (d *dir) Mkdir(name string, perm uint32) error {
	return d.run("mkdir", name, func(op Op) error {
		if d.find(name) != nil {
			return fail(op, syscall.EEXIST)
		}
		d.f.change(assign{d.n, name, d.f.newInode(fsx.Directory, d.n.dev, d.f.newMode(perm))})
		return nil
	})
}

// Symlink makes a symbolic link, whose target is as durable as its name.
func (d *dir) Symlink(target, name string) error {
	return d.run("symlink", name, func(op Op) error {
		if d.f.NoSymlink {
			return fail(op, errors.Join(fsx.ErrUnsupported, syscall.EPERM))
		}
		if d.find(name) != nil {
			return fail(op, syscall.EEXIST)
		}
		n := d.f.newInode(fsx.Symlink, d.n.dev, fsx.ModeLink)
		n.target = target
		d.f.change(assign{d.n, name, n})
		return nil
	})
}

func (n *inode) stat() fsx.Stat {
	return fsx.Stat{
		Kind: n.kind, Dev: n.dev, Ino: n.id, Nlink: uint64(n.nlink), Mode: n.meta.mode,
		UID: n.meta.uid, GID: n.meta.gid, Size: int64(len(n.data) + len(n.target)), Mtime: n.mtime, Ctime: n.ctime, Btime: n.born,
	}
}

func (d *dir) Lstat(name string) (st fsx.Stat, err error) {
	err = d.run("lstat", name, func(op Op) error {
		n, err := d.entry(op, name)
		if err == nil {
			st = n.stat()
		}
		return err
	})
	return st, err
}

func (d *dir) Look(path string) (st fsx.Stat, err error) {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	err = d.f.do(d.process, Op{Kind: "lstat", Path: join(d.path, path)}, func(op Op) error {
		n := d.n
		for name := range strings.SplitSeq(path, "/") {
			in := &dir{handle: handle{f: d.f, n: n}}
			if n, err = in.entry(op, name); err != nil {
				return err
			}
		}
		st = n.stat()
		return nil
	})
	return st, err
}

func (d *dir) Readlink(name string) (target string, err error) {
	err = d.run("readlink", name, func(op Op) error {
		n, err := d.entry(op, name)
		if err != nil {
			return err
		}
		if n.kind != fsx.Symlink {
			return fail(op, syscall.EINVAL)
		}
		target = n.target
		return nil
	})
	return target, err
}

func (d *dir) Names() (names []string, err error) {
	err = d.self(Op{Kind: "readdir"}, func(Op) error {
		names = slices.Sorted(maps.Keys(d.n.names))
		return nil
	})
	return names, err
}

// two runs an operation on an entry here and one in another directory.
func (d *dir) two(kind, name string, to fsx.Dir, newName string, apply func(op Op, to *dir, n *inode) error) error {
	t := to.(*dir)
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	return d.runTo(Op{Kind: kind, To: t.at(newName)}, name, func(op Op) error {
		if err := checkName(newName); err != nil {
			return fail(op, err)
		}
		n, err := d.entry(op, name)
		if err != nil {
			return err
		}
		if d.n.dev != t.n.dev {
			return fail(op, syscall.EXDEV)
		}
		if err := t.refuses("rename"); err != nil {
			return fail(op, err)
		}
		return apply(op, t, n)
	})
}

func (d *dir) Link(name string, to fsx.Dir, newName string) error {
	return d.two("link", name, to, newName, func(op Op, t *dir, n *inode) error {
		switch {
		case d.f.NoLink:
			return fail(op, errors.Join(fsx.ErrUnsupported, syscall.EPERM))
		case n.kind == fsx.Directory:
			return fail(op, errors.Join(fsx.ErrUnsupported, syscall.EPERM))
		case t.find(newName) != nil:
			return fail(op, syscall.EEXIST)
		}
		n.nlink++
		n.ctime = d.f.clock
		d.f.change(assign{t.n, newName, n})
		return nil
	})
}

func (d *dir) Rename(name string, to fsx.Dir, newName string) error {
	return d.two("rename", name, to, newName, func(op Op, t *dir, n *inode) error {
		old := t.find(newName)
		switch {
		case old == n:
			return nil
		case old != nil && old.kind == fsx.Directory && n.kind != fsx.Directory:
			return fail(op, syscall.EISDIR)
		case old != nil && old.kind != fsx.Directory && n.kind == fsx.Directory:
			return fail(op, syscall.ENOTDIR)
		case old != nil && len(old.names) > 0:
			return fail(op, syscall.ENOTEMPTY)
		}
		if old != nil {
			if old.nlink--; old.kind == fsx.Directory {
				old.nlink = 0
			}
			old.ctime = d.f.clock
		}
		n.ctime = d.f.clock
		d.f.change(assign{d.n, name, nil}, assign{t.n, newName, n})
		return nil
	})
}

func (d *dir) RenameNoReplace(name string, to fsx.Dir, newName string) error {
	return d.two("rename", name, to, newName, func(op Op, t *dir, n *inode) error {
		if d.f.NoReplace {
			return fail(op, errors.Join(fsx.ErrUnsupported, syscall.EINVAL))
		}
		if t.find(newName) != nil {
			return fail(op, syscall.EEXIST)
		}
		n.ctime = d.f.clock
		d.f.change(assign{d.n, name, nil}, assign{t.n, newName, n})
		return nil
	})
}

func (d *dir) Exchange(name string, to fsx.Dir, newName string) error {
	return d.two("exchange", name, to, newName, func(op Op, t *dir, n *inode) error {
		if d.f.NoExchange {
			return fail(op, errors.Join(fsx.ErrUnsupported, syscall.EINVAL))
		}
		other := t.find(newName)
		if other == nil {
			return fail(op, syscall.ENOENT)
		}
		n.ctime, other.ctime = d.f.clock, d.f.clock
		d.f.change(assign{d.n, name, other}, assign{t.n, newName, n})
		return nil
	})
}

func (d *dir) Remove(name string) error {
	return d.run("remove", name, func(op Op) error {
		n, err := d.entry(op, name)
		if err != nil {
			return err
		}
		if n.kind == fsx.Directory {
			return fail(op, syscall.EISDIR)
		}
		n.nlink--
		n.ctime = d.f.clock
		d.f.change(assign{d.n, name, nil})
		return nil
	})
}

func (d *dir) Rmdir(name string) error {
	return d.run("rmdir", name, func(op Op) error {
		n, err := d.entry(op, name)
		switch {
		case err != nil:
			return err
		case n.kind != fsx.Directory:
			return fail(op, syscall.ENOTDIR)
		case len(n.names) > 0:
			return fail(op, syscall.ENOTEMPTY)
		}
		n.nlink = 0
		d.f.change(assign{d.n, name, nil})
		return nil
	})
}

func (d *dir) Writable() error {
	return d.self(Op{Kind: "access"}, func(op Op) error {
		if err := d.refuses(op.Kind); err != nil {
			return fail(op, err)
		}
		return nil
	})
}

func (d *dir) Volume() (v fsx.Volume, err error) {
	err = d.self(Op{Kind: "statfs"}, func(Op) error {
		v = fsx.Volume{Type: "simfs", Free: 1 << 40, Births: true, Ordered: d.f.Ordered}
		if d.f.cap > 0 {
			v.Free, v.Size = max(0, d.f.cap-d.f.used()), d.f.cap
		}
		return nil
	})
	return v, err
}

func (d *dir) Xattr(name string) ([]byte, error) {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	if v, ok := d.n.meta.xattrs[name]; ok {
		return []byte(v), nil
	}
	return nil, &fs.PathError{Op: "getxattr", Path: name, Err: fs.ErrNotExist}
}

func (d *dir) OnFailedSync(failed func(error)) { d.failed = failed }

func (d *dir) Sync() error {
	err := d.self(Op{Kind: "syncdir"}, func(Op) error {
		d.f.persist(func(n *inode) bool { return n == d.n })
		d.n.dmeta = d.n.meta.clone()
		return nil
	})
	if err != nil && d.failed != nil {
		d.failed(err)
	}
	return err
}

// SyncEach is one operation for each flush, in order.
func (d *dir) SyncEach(list []fsx.Syncer) (errs []error, err error) {
	if d.f.NoSyncEach {
		return nil, &fs.PathError{Op: "synceach", Path: ".", Err: errors.Join(fsx.ErrUnsupported, syscall.ENOSYS)}
	}
	for _, x := range list {
		errs = append(errs, x.Sync())
	}
	return errs, nil
}

func (d *dir) Close() error {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	delete(d.process.dirs, d)
	return nil
}
