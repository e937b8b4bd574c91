// Package simfs is a file system in memory that can crash. It implements the
// interfaces of package fsx, records every operation, fails the ones a test
// picks, and yields the disks that a power cut could leave.
//
// # What is on stable storage
//
// A file has a visible content and a synced one; the difference is kept in
// sectors of 512 bytes. Sync makes data, size and metadata durable, Datasync
// data and size. In a crash every sector that was not synced, and the size, is
// kept or lost on its own.
//
// Every change of names is one atomic step: a set of assignments (directory,
// name) → file or nothing. A rename or exchange between two directories is one
// step. Nothing else is ordered: Sync of a directory makes every step that
// touches it durable, whole, and of the other steps any subset may survive a
// crash, applied entry by entry. With [FS.PerDirectory] set, even the two
// sides of one step are independent.
//
// A file whose data was never synced may be found empty, torn or whole under
// a durable name. A directory whose own entry is lost is gone with everything
// in it.
//
// After a Sync that was made to fail without being applied, the changes are
// clean: they stay visible, and no later Sync makes them durable until they
// are made again, as on Linux.
package simfs

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path"
	"sort"
	"strings"
	"sync"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// ErrDead is behind the error of every operation of a process that was
// killed, or that stopped at [FS.StopAt].
var ErrDead = errors.New("process is dead")

const sector = 512 // bytes

// FS is a disk together with what the kernel has in memory of it. It is safe
// for concurrent use.
type FS struct {
	// PerDirectory drops the atomicity of steps that touch two directories.
	PerDirectory bool
	// NoExchange and NoLink make the operations fail with
	// [fsx.ErrUnsupported].
	NoExchange, NoLink bool
	// Umask applies to new files and directories.
	Umask uint32

	mu      sync.Mutex
	root    *inode
	nextIno uint64
	clock   int64
	process int // handles of an earlier process are dead
	pending []*step
	inject  func(Op) Fault
	trace   []Op
	muts    int // mutating operations so far
	stopAt  int // mutating operation from which on the process is dead; -1 never
	stopped bool
	cap     int64 // bytes of data the disk holds; 0 without limit
	nextDev uint64
}

// inode is a file or directory, whatever its names are.
type inode struct {
	id, dev      uint64
	kind         fsx.Kind
	target       string // of a symlink
	data, disk   []byte
	dirty        map[int64]bool // sectors that differ from the disk
	lost         map[int64]bool // sectors whose sync failed
	meta, dmeta  meta
	names, dskns map[string]*inode // of a directory: visible and durable
	nlink        int
	mtime, ctime int64
	open         int // handles that may write
	locks        []held
}

type meta struct {
	mode     uint32
	uid, gid int
	xattrs   map[string]string
}

func (m meta) clone() meta {
	c := m
	c.xattrs = make(map[string]string, len(m.xattrs))
	for k, v := range m.xattrs {
		c.xattrs[k] = v
	}
	return c
}

// step is one atomic change of names that is not durable.
type step struct {
	sets   []assign
	failed bool
}

type assign struct {
	dir  *inode
	name string
	to   *inode // nil: the name is free
}

// New returns an empty disk.
func New() *FS {
	f := &FS{Umask: 0o022, stopAt: -1, nextDev: 1}
	f.root = f.newInode(fsx.Directory, 1)
	f.root.meta.mode, f.root.nlink = 0o755, 2
	f.root.dmeta = f.root.meta.clone()
	return f
}

func (f *FS) newInode(kind fsx.Kind, dev uint64) *inode {
	f.nextIno++
	f.clock++
	n := &inode{id: f.nextIno, dev: dev, kind: kind, mtime: f.clock, ctime: f.clock}
	n.meta, n.dmeta = meta{xattrs: map[string]string{}}, meta{xattrs: map[string]string{}}
	if kind == fsx.Directory {
		n.names, n.dskns = map[string]*inode{}, map[string]*inode{}
	}
	n.dirty, n.lost = map[int64]bool{}, map[int64]bool{}
	return n
}

// Root is the top directory as a process that starts now sees it.
func (f *FS) Root() fsx.Dir {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &dir{f: f, n: f.root, process: f.process}
}

// Kill ends every process: their handles are dead and their locks free. What
// they wrote stays.
func (f *FS) Kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.process++
	f.stopAt, f.stopped = -1, false
	each(f.root, map[*inode]bool{}, func(n *inode) { n.locks, n.open = nil, 0 })
}

func each(n *inode, seen map[*inode]bool, fn func(*inode)) {
	if seen[n] {
		return
	}
	seen[n] = true
	fn(n)
	for _, c := range n.names {
		each(c, seen, fn)
	}
}

// StopAt kills the process at its mutating operation n, counted from now on:
// that one and all that follow fail and change nothing. Negative means never.
func (f *FS) StopAt(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = false
	if f.stopAt = n; n >= 0 {
		f.stopAt = f.muts + n
	}
}

// Muts is the number of mutating operations so far.
func (f *FS) Muts() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.muts
}

// CapBytes limits the data of all files together; 0 takes the limit away.
func (f *FS) CapBytes(n int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cap = n
}

func (f *FS) used() int64 {
	sum := int64(0)
	each(f.root, map[*inode]bool{}, func(n *inode) { sum += int64(len(n.data)) })
	return sum
}

// Op is one operation.
type Op struct {
	Index int // of all operations
	Mut   int // of the mutating ones; -1 for the others
	Kind  string
	Path  string
	To    string
	Off   int64
	Len   int64
	Err   error
}

func (o Op) String() string {
	s := o.Kind + " " + o.Path
	if o.To != "" {
		s += " " + o.To
	}
	switch o.Kind {
	case "write", "append":
		s += fmt.Sprintf(" %d", o.Len)
	case "chmod":
		s += fmt.Sprintf(" %#o", o.Len)
	case "truncate":
		s += fmt.Sprintf(" %d", o.Len)
	}
	if o.Err != nil {
		s += " !"
	}
	return s
}

// Fault is what an injector answers. The zero Fault lets the operation be.
type Fault struct {
	Err     error
	Applied bool // it happens all the same
	Short   int  // of a write: so many bytes happen; negative for none
}

// Inject has fn asked before every operation; nil ends that. fn must not use
// the file system.
func (f *FS) Inject(fn func(Op) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inject = fn
}

// Trace returns the operations since the last ResetTrace.
func (f *FS) Trace() []Op {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]Op(nil), f.trace...)
}

// ResetTrace forgets the operations so far.
func (f *FS) ResetTrace() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trace = nil
}

var mutating = map[string]bool{
	"create": true, "write": true, "append": true, "truncate": true, "chmod": true, "chown": true, "setxattr": true,
	"sync": true, "datasync": true, "syncdir": true, "mkdir": true, "link": true, "rename": true, "exchange": true,
	"remove": true, "rmdir": true,
}

// do runs one operation: it is traced, may be made to fail, and changes
// something only in apply. f.mu is held by the caller.
func (f *FS) do(process int, op Op, apply func(op Op) error) error {
	op.Index, op.Mut = len(f.trace), -1
	if mutating[op.Kind] {
		op.Mut = f.muts
		if f.stopAt >= 0 && f.muts >= f.stopAt {
			f.stopped = true
		}
	}
	if process != f.process || f.stopped {
		return fail(op, ErrDead)
	}
	if op.Mut >= 0 {
		f.muts++
		f.clock++
	}
	var fault Fault
	if f.inject != nil {
		fault = f.inject(op)
	}
	if fault.Err != nil && !fault.Applied {
		if fault.Short > 0 && op.Len > int64(fault.Short) {
			op.Len = int64(fault.Short)
			apply(op)
		}
		f.syncFailed(op)
		op.Err = fault.Err
		f.trace = append(f.trace, op)
		return fail(op, fault.Err)
	}
	err := apply(op)
	if err == nil && fault.Err != nil {
		err = fail(op, fault.Err)
	}
	op.Err = err
	f.trace = append(f.trace, op)
	return err
}

func fail(op Op, err error) error {
	return &fs.PathError{Op: op.Kind, Path: path.Base(op.Path), Err: err}
}

// syncFailed makes what a failed sync should have written clean.
func (f *FS) syncFailed(op Op) {
	n := f.find(op.Path)
	if n == nil {
		return
	}
	switch op.Kind {
	case "sync", "datasync":
		for s := range n.dirty {
			n.lost[s] = true
		}
	case "syncdir":
		for _, s := range f.pending {
			for _, a := range s.sets {
				s.failed = s.failed || a.dir == n
			}
		}
	}
}

// find returns the inode of a path, nil when there is none.
func (f *FS) find(p string) *inode {
	n := f.root
	for _, name := range strings.Split(p, "/") {
		if name == "" || name == "." {
			continue
		}
		if n.kind != fsx.Directory || n.names[name] == nil {
			return nil
		}
		n = n.names[name]
	}
	return n
}

// change makes one atomic step visible.
func (f *FS) change(sets ...assign) {
	for _, a := range sets {
		if a.to == nil {
			delete(a.dir.names, a.name)
		} else {
			a.dir.names[a.name] = a.to
		}
		a.dir.mtime, a.dir.ctime = f.clock, f.clock
	}
	f.pending = append(f.pending, &step{sets: sets})
}

// persist makes the steps durable that touch d.
func (f *FS) persist(d *inode) {
	var left []*step
	for _, s := range f.pending {
		mine := false
		for _, a := range s.sets {
			mine = mine || a.dir == d
		}
		if !mine || s.failed {
			left = append(left, s)
			continue
		}
		var rest []assign
		for _, a := range s.sets {
			if f.PerDirectory && a.dir != d {
				rest = append(rest, a)
				continue
			}
			setDurable(a)
			for _, earlier := range left {
				earlier.drop(a)
			}
		}
		if len(rest) > 0 {
			left = append(left, &step{sets: rest})
		}
	}
	f.pending = left
}

func setDurable(a assign) {
	if a.to == nil {
		delete(a.dir.dskns, a.name)
	} else {
		a.dir.dskns[a.name] = a.to
	}
}

// drop takes out what a later durable assignment replaced.
func (s *step) drop(a assign) {
	kept := s.sets[:0]
	for _, b := range s.sets {
		if b.dir != a.dir || b.name != a.name {
			kept = append(kept, b)
		}
	}
	s.sets = kept
}

// Loss says how much of what was not synced a crash takes.
type Loss int

const (
	All  Loss = iota // everything that was not synced
	None             // nothing
	Some             // a part of it, picked by the seed
)

// Crash returns a disk that a power cut at this moment could leave. f stays as
// it is, so that other outcomes can be looked at.
func (f *FS) Crash(seed uint64, loss Loss) *FS {
	f.mu.Lock()
	defer f.mu.Unlock()
	c := &crash{
		loss: loss, rng: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)),
		names: map[*inode]map[string]*inode{}, copies: map[*inode]*inode{},
	}
	for _, s := range f.pending {
		keep := c.keep() && !s.failed
		for _, a := range s.sets {
			if f.PerDirectory {
				keep = c.keep() && !s.failed
			}
			if keep {
				c.set(a)
			}
		}
	}
	out := &FS{PerDirectory: f.PerDirectory, NoExchange: f.NoExchange, NoLink: f.NoLink, Umask: f.Umask,
		nextIno: f.nextIno, clock: f.clock + 1, stopAt: -1, nextDev: f.nextDev, cap: f.cap}
	out.root = c.copy(f.root)
	return out
}

// crash builds the disk behind a power cut.
type crash struct {
	loss   Loss
	rng    *rand.Rand
	names  map[*inode]map[string]*inode
	copies map[*inode]*inode
}

func (c *crash) keep() bool {
	switch c.loss {
	case All:
		return false
	case None:
		return true
	}
	return c.rng.IntN(2) == 0
}

func (c *crash) entries(d *inode) map[string]*inode {
	m := c.names[d]
	if m == nil {
		m = make(map[string]*inode, len(d.dskns))
		for k, v := range d.dskns {
			m[k] = v
		}
		c.names[d] = m
	}
	return m
}

func (c *crash) set(a assign) {
	if a.to == nil {
		delete(c.entries(a.dir), a.name)
	} else {
		c.entries(a.dir)[a.name] = a.to
	}
}

// copy returns the inode as it is found behind the crash.
func (c *crash) copy(n *inode) *inode {
	if m := c.copies[n]; m != nil {
		m.nlink++
		return m
	}
	m := &inode{id: n.id, dev: n.dev, kind: n.kind, target: n.target, mtime: n.mtime, ctime: n.ctime, nlink: 1,
		dirty: map[int64]bool{}, lost: map[int64]bool{}}
	c.copies[n] = m
	m.meta = n.dmeta.clone()
	if c.keep() {
		m.meta = n.meta.clone()
	}
	m.dmeta = m.meta.clone()
	if n.kind == fsx.Directory {
		m.nlink = 2
		m.names, m.dskns = map[string]*inode{}, map[string]*inode{}
		have := c.entries(n)
		list := make([]string, 0, len(have))
		for name := range have {
			list = append(list, name)
		}
		sort.Strings(list) // the outcome depends on the seed alone
		for _, name := range list {
			child := c.copy(have[name])
			m.names[name], m.dskns[name] = child, child
		}
		return m
	}
	m.data = c.content(n)
	m.disk = append([]byte(nil), m.data...)
	return m
}

func (c *crash) content(n *inode) []byte {
	size := len(n.disk)
	if len(n.data) != size && c.keep() {
		size = len(n.data)
	}
	out := make([]byte, size)
	copy(out, n.disk)
	list := make([]int64, 0, len(n.dirty))
	for s := range n.dirty {
		list = append(list, s)
	}
	sort.Slice(list, func(i, j int) bool { return list[i] < list[j] })
	for _, s := range list {
		if n.lost[s] || !c.keep() {
			continue
		}
		from := s * sector
		if from >= int64(size) {
			continue
		}
		to := min(from+sector, int64(size))
		for i := from; i < to; i++ {
			out[i] = 0
			if i < int64(len(n.data)) {
				out[i] = n.data[i]
			}
		}
	}
	return out
}
