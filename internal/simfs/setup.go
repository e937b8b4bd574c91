package simfs

import (
	"path"
	"slices"
	"strings"
	"unsafe"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// What follows prepares and inspects a disk for a test. It is not traced,
// cannot fail, and is durable at once.

// WriteFile makes or replaces a file, and the directories it needs.
func (f *FS) WriteFile(p string, data []byte, perm uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.mkdirAll(path.Dir(p))
	n := d.names[path.Base(p)]
	if n == nil {
		n = f.newInode(fsx.Regular, d.dev, perm)
		d.names[path.Base(p)], d.dskns[path.Base(p)] = n, n
	}
	f.clock++
	n.data, n.fixed = slices.Clone(data), true
	n.disk = n.data
	n.meta.mode = perm
	n.dmeta = n.meta.clone()
	n.dirty, n.lost, n.past = nil, nil, past{}
	n.mtime, n.ctime = f.clock, f.clock
}

// Symlink makes or replaces a symbolic link, and the directories it needs.
func (f *FS) Symlink(p, target string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	d := f.mkdirAll(path.Dir(p))
	n := f.newInode(fsx.Symlink, d.dev, fsx.ModeLink)
	n.target = target
	d.names[path.Base(p)], d.dskns[path.Base(p)] = n, n
}

func (f *FS) mkdirAll(p string) *inode {
	n := f.root
	for _, name := range strings.Split(p, "/") {
		if name == "" || name == "." {
			continue
		}
		c := n.names[name]
		if c == nil {
			c = f.newInode(fsx.Directory, n.dev, 0o755)
			n.names[name], n.dskns[name] = c, c
		}
		n = c
	}
	return n
}

// MkdirAll makes a directory and its parents.
func (f *FS) MkdirAll(p string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mkdirAll(p)
}

// Own sets the owner and the mode of the file at p.
func (f *FS) Own(p string, uid int, mode uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.find(p)
	n.meta.uid, n.meta.mode = uid, mode
	n.dmeta = n.meta.clone()
}

// Mode returns the permission bits of the file at p.
func (f *FS) Mode(p string) uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.find(p).meta.mode
}

// MountAt makes the directory p another file system, unless it is one already.
func (f *FS) MountAt(p string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	top := f.mkdirAll(p)
	if top.dev != f.mkdirAll(path.Dir(p)).dev {
		return
	}
	f.nextDev++
	dev := f.nextDev
	each(top, map[*inode]bool{}, func(n *inode) { n.dev = dev })
}

// ReadFile returns the visible content of a file.
func (f *FS) ReadFile(p string) ([]byte, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.find(p)
	if n == nil || n.kind != fsx.Regular {
		return nil, false
	}
	return append([]byte(nil), n.data...), true
}

// Remove removes a name.
func (f *FS) Remove(p string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if d := f.find(path.Dir(p)); d != nil {
		delete(d.names, path.Base(p))
		delete(d.dskns, path.Base(p))
	}
}

// Tree returns the content of every file by its path, of directories "/".
func (f *FS) Tree() map[string]string {
	f.mu.Lock()
	defer f.mu.Unlock()
	out := map[string]string{}
	var walk func(n *inode, at string)
	walk = func(n *inode, at string) {
		for name, c := range n.names {
			p := join(at, name)
			switch c.kind {
			case fsx.Directory:
				out[p] = "/"
				walk(c, p)
			case fsx.Symlink:
				out[p] = "-> " + c.target
			default:
				c.fixed = true
				out[p] = unsafe.String(unsafe.SliceData(c.data), len(c.data))
			}
		}
	}
	walk(f.root, "")
	return out
}

// Copied is the disk after its files were copied to another one: all of it
// visible, with other inode numbers.
func (f *FS) Copied() *FS {
	out := f.Crash(0, None)
	each(out.root, map[*inode]bool{}, func(n *inode) { n.id += out.nextIno })
	out.nextIno *= 2
	return out
}
