// Package simfs is a file system in memory that can crash. It implements the interfaces
// of package fsx, records every operation, fails the ones a test picks, and yields the
// disks that a power failure could leave.
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
// crash, applied entry by entry.
//
// A file is written back while it changes: with [Older], a sector that was not
// synced may hold any content it had since it was synced last, and the size
// may be any size the file had.
//
// # Processes
//
// [FS.Root] is the disk as one process sees it. [FS.NewProcess] starts further
// ones, which can be killed and stopped one by one. [FS.Foreign] is a program
// that knows nothing of this project, such as an editor; with [FS.Before] it
// can act before every operation of the others.
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
	"maps"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// ErrDead is wrapped by the error of every operation of a process that was killed, or
// that stopped at [FS.StopAt].
var ErrDead = errors.New("process is dead")

const sector = 512 // bytes

// FS is a disk and the kernel's in-memory state of it. It is safe for concurrent use.
type FS struct {
	// NoExchange, NoReplace, NoLink, NoSymlink and NoSyncEach make the
	// operations fail with [fsx.ErrUnsupported]; NoReplace that of RenameNoReplace.
	NoExchange, NoReplace, NoLink, NoSymlink, NoSyncEach bool
	// NoLeases makes it unknown whether a file is open for writing.
	NoLeases bool
	// Ordered keeps what a file system with a journal of metadata keeps with a name: the mode
	// that its file was made with, and the size that it was cut to before (fsx.Volume).
	Ordered bool
	// Clones makes Clone work.
	Clones bool
	// NoChmod makes chmod succeed without effect, and new files and directories
	// get the mode 0777, as on file systems that keep no modes.
	NoChmod bool
	// Folds makes names equal that differ only in letter case, or in the form of an é.
	Folds bool
	// Umask applies to new files and directories.
	Umask uint32
	// User owns new files and directories.
	User int

	mu      sync.Mutex
	root    *inode
	nextIno uint64
	clock   int64
	current *Process // the process that Root uses
	started []*Process
	pending []*step
	inject  func(Op) Fault
	before  func(Op)
	after   func(Op)
	trace   []Op
	tracing bool
	muts    int // mutating operations so far
	stopAt  int // mutating operation from which on the process is dead; -1 never
	stopped bool
	cap     int64 // bytes of data the disk holds; 0 without limit
	nextDev uint64
	again   uint64 // inode number of the next file; 0: a new one
}

// inode is a file or directory, independent of its names.
type inode struct {
	id, dev      uint64
	kind         fsx.Kind
	target       string         // of a symlink
	data, disk   []byte         // no byte of disk ever changes
	fixed        bool           // data is in use elsewhere: no byte of it may change
	dirty        map[int64]bool // sectors that differ from the disk
	lost         map[int64]bool // sectors whose sync failed
	past         past           // their contents since the last sync
	cut          *cut           // the last one, on an ordered disk; nil: durable
	meta, dmeta  meta
	names, dskns map[string]*inode // of a directory: visible and durable
	nlink        int
	born         int64
	mtime, ctime int64
	writers      map[*file]bool // handles that may write
	locks        []held
}

type meta struct {
	mode     uint32
	uid, gid int
	xattrs   map[string]string
}

func (m meta) clone() meta {
	m.xattrs = maps.Clone(m.xattrs)
	return m
}

// step is one atomic change of names that is not durable.
type step struct {
	sets   []assign
	cuts   []*cut // of files that it names
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
	f.root = f.newInode(fsx.Directory, 1, 0o755)
	f.start()
	return f
}

// start begins the process that Root uses.
func (f *FS) start() {
	f.current = &Process{f: f, stopAt: -1, pauseAt: -1}
	f.started = []*Process{f.current}
}

// newInode makes a file that has one name. Its metadata is durable.
func (f *FS) newInode(kind fsx.Kind, dev uint64, mode uint32) *inode {
	f.nextIno++
	f.clock++
	n := &inode{id: f.nextIno, dev: dev, kind: kind, nlink: 1, born: f.clock, mtime: f.clock, ctime: f.clock}
	if f.again != 0 {
		n.id, f.again = f.again, 0
	}
	n.meta = meta{mode: mode, uid: f.User}
	n.dmeta = n.meta.clone()
	if kind == fsx.Directory {
		n.nlink, n.names, n.dskns = 2, map[string]*inode{}, map[string]*inode{}
	}
	return n
}

// UseAgain gives the next new file the inode number of one that is gone, as real file
// systems do.
func (f *FS) UseAgain(ino uint64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.again = ino
}

// Root is the top directory as the first process since the last Kill sees it.
func (f *FS) Root() fsx.Dir {
	f.mu.Lock()
	defer f.mu.Unlock()
	return &dir{handle: handle{f: f, n: f.root, process: f.current}}
}

// Open lists what the process that Root uses has open.
func (f *FS) Open() []string { return f.current.Open() }

// Kill ends every process: their handles are invalid and their locks are released.
// Their writes stay.
func (f *FS) Kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.started {
		p.kill()
	}
	f.stopAt, f.stopped = -1, false
	f.start()
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

// Stopped reports whether StopAt has killed the process.
func (f *FS) Stopped() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stopped
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
	Mut  int // number among the mutating ones, without those of foreign programs; -1 for the others
	Kind string
	Path string
	To   string
	Off  int64
	Len  int64
	Err  error
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
	Applied bool // it happens anyway
	Short   int  // of a write: so many bytes happen; negative for none
}

// Before has fn called before every operation that is not of a foreign
// program; nil ends that. fn may use the file system through [FS.Foreign].
func (f *FS) Before(fn func(Op)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.before = fn
}

// After has fn called when an operation that is not of a foreign program has succeeded, before
// its process goes on: what fn does happens while the operation lasts, and a flush does
// not cover it. nil ends that. fn may use the file system.
func (f *FS) After(fn func(Op)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.after = fn
}

// Inject has fn asked before every operation; nil ends that. fn must not use
// the file system.
func (f *FS) Inject(fn func(Op) Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inject = fn
}

// Trace returns the operations since the last ResetTrace, which must have been called.
func (f *FS) Trace() []Op {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.tracing {
		panic("simfs: Trace without ResetTrace")
	}
	return slices.Clone(f.trace)
}

// ResetTrace forgets the operations so far and begins to record them.
func (f *FS) ResetTrace() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.trace, f.tracing = nil, true
}

func mutating(kind string) bool {
	switch kind {
	case "create", "write", "append", "truncate", "chmod", "chown", "setxattr", "sync", "datasync", "syncdir", "syncvolume",
		"mkdir", "link", "symlink", "rename", "exchange", "remove", "rmdir", "clone":
		return true
	}
	return false
}

// do runs one operation: it is traced, may be made to fail, and changes
// something only in apply. f.mu is held by the caller, and released while the
// process is stopped or a foreign program acts.
func (f *FS) do(p *Process, op Op, apply func(op Op) error) error {
	if p.foreign {
		return f.doForeign(p, op, apply)
	}
	p.wait()
	if !p.dead && !f.stopped {
		f.call(f.before, op)
	}
	op.Mut = -1
	if mutating(op.Kind) {
		op.Mut = f.muts
		f.stopped = f.stopped || f.stopAt >= 0 && f.muts >= f.stopAt
		p.dead = p.dead || p.stopAt >= 0 && p.muts >= p.stopAt
	}
	if p.dead || f.stopped {
		return fail(op, ErrDead)
	}
	if op.Mut >= 0 {
		f.muts++
		p.muts++
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
		f.record(op)
		return fail(op, fault.Err)
	}
	err := apply(op)
	if err == nil && fault.Err != nil {
		err = fail(op, fault.Err)
	}
	op.Err = err
	f.record(op)
	if err == nil {
		f.call(f.after, op)
	}
	return err
}

// observed reports whether the path of an operation matters.
func (f *FS) observed() bool {
	return f.tracing || f.before != nil || f.after != nil || f.inject != nil
}

func (f *FS) record(op Op) {
	if f.tracing {
		f.trace = append(f.trace, op)
	}
}

// call calls a function of the test, without f.mu.
func (f *FS) call(fn func(Op), op Op) {
	if fn != nil {
		f.mu.Unlock()
		fn(op)
		f.mu.Lock()
	}
}

func fail(op Op, err error) error {
	return &fs.PathError{Op: op.Kind, Path: path.Base(op.Path), Err: err}
}

// syncFailed marks the data of a failed sync as clean.
func (f *FS) syncFailed(op Op) {
	n := f.find(op.Path)
	if n == nil {
		return
	}
	switch op.Kind {
	case "sync", "datasync":
		n.loseDirty()
	case "syncdir":
		f.loseNames(func(d *inode) bool { return d == n })
	case "syncvolume":
		each(f.root, map[*inode]bool{}, func(m *inode) {
			if m.dev == n.dev {
				m.loseDirty()
			}
		})
		f.loseNames(func(d *inode) bool { return d.dev == n.dev })
	}
}

func (n *inode) loseDirty() {
	if n.lost == nil {
		n.lost = map[int64]bool{}
	}
	maps.Copy(n.lost, n.dirty)
}

func (f *FS) loseNames(of func(*inode) bool) {
	for _, s := range f.pending {
		s.failed = s.failed || s.touches(of)
	}
}

// find returns the inode of a path, or nil if there is none.
func (f *FS) find(p string) *inode {
	n := f.root
	for p != "" {
		name := p
		if i := strings.IndexByte(p, '/'); i >= 0 {
			name, p = p[:i], p[i+1:]
		} else {
			p = ""
		}
		if name == "" || name == "." {
			continue
		}
		if n = n.names[name]; n == nil {
			return nil
		}
	}
	return n
}

// join returns the path of an entry of the directory at.
func join(at, name string) string {
	if at == "" {
		return name
	}
	return at + "/" + name
}

// nameOf returns a path of the file n, or else when it has no name any more.
func (f *FS) nameOf(n *inode, otherwise string) string {
	found := ""
	var walk func(d *inode, at string)
	walk = func(d *inode, at string) {
		for name, c := range d.names {
			if c.kind == fsx.Directory {
				walk(c, join(at, name))
			}
			if c == n {
				if p := join(at, name); found == "" || p < found {
					found = p
				}
			}
		}
	}
	walk(f.root, "")
	if found == "" {
		return otherwise
	}
	return found
}

// change makes one atomic step visible.
func (f *FS) change(sets ...assign) {
	for i, a := range sets {
		a.name = f.called(a.dir, a.name)
		sets[i] = a
		set(a.dir.names, a)
		a.dir.mtime, a.dir.ctime = f.clock, f.clock
	}
	s := &step{sets: sets}
	for _, a := range sets {
		if a.to != nil && a.to.cut != nil {
			s.cuts = append(s.cuts, a.to.cut)
		}
	}
	f.pending = append(f.pending, s)
}

// called returns what a directory calls the entry that name finds, and name where there
// is none.
func (f *FS) called(d *inode, name string) string {
	if f.Folds && d.names[name] == nil {
		for is := range d.names {
			if strings.EqualFold(composed(is), composed(name)) {
				return is
			}
		}
	}
	return name
}

func composed(name string) string { return strings.ReplaceAll(name, "e\u0301", "\u00e9") }

// persist makes the steps durable that touch one of the directories.
func (f *FS) persist(of func(*inode) bool) {
	var left []*step
	for _, s := range f.pending {
		if !s.touches(of) || s.failed {
			left = append(left, s)
			continue
		}
		for _, k := range s.cuts {
			k.persist()
		}
		for _, a := range s.sets {
			set(a.dir.dskns, a)
			for _, earlier := range left {
				earlier.drop(a)
			}
		}
	}
	f.pending = left
}

// touches reports whether the step changes one of the directories.
func (s *step) touches(of func(*inode) bool) bool {
	return slices.ContainsFunc(s.sets, func(a assign) bool { return of(a.dir) })
}

// set does in the entries of a directory what is assigned.
func set(names map[string]*inode, a assign) {
	if a.to == nil {
		delete(names, a.name)
	} else {
		names[a.name] = a.to
	}
}

// drop removes the assignments that a later durable one replaced.
func (s *step) drop(a assign) {
	s.sets = slices.DeleteFunc(s.sets, func(b assign) bool { return b.dir == a.dir && b.name == a.name })
}
