package engine

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/slotdir"
)

// A rename needs both names on one file system, so the slot of a file is on the
// file system of its target: in staging/ where the state directory is there
// too, otherwise in a directory of slots at the top of that file system, as far
// as it is in the workspace, or as near to it as one can be made.

// slotDir is a directory of slots.
type slotDir struct {
	path  string   // in the workspace, as rows name it; "" is staging/
	dir   fsx.Dir  // nil: there is none, or one that is not ours
	at    fsx.Stat // of dir
	slots *publish.Slots
	roomy *publish.Slots // with room; nil: the file system does not suit them
	ready atomic.Bool    // slots may be made in it

	witness atomic.Pointer[string] // its name, once it was found
}

// slotDirs are those that this process has opened.
type slotDirs struct {
	home slotDir // staging/
	made atomic.Uint64
	mu   sync.Mutex                 // changes list and old
	list atomic.Pointer[[]*slotDir] // without home
	old  []*slotDir                 // that others have taken the place of
}

// label names a slot for people.
func (d *slotDir) label(slot string) string {
	if d.path == "" {
		return "staging/" + slot
	}
	return d.path + "/" + slot
}

// slot is the slot of a row. Where the directory is gone, it is empty.
func (d *slotDir) slot(name string) publish.Slot {
	_, ino, _ := publish.ParseSlot(name)
	return publish.Slot{Dir: d.dir, Name: name, Ino: ino}
}

// opened are the directories of slots outside the state directory that are open.
func (x *slotDirs) opened() []*slotDir {
	if list := x.list.Load(); list != nil {
		return *list
	}
	return nil
}

// replace puts d in the place of was; either may be nil. x.mu is held.
func (x *slotDirs) replace(was, d *slotDir) {
	list := slices.Clone(x.opened())
	if i := slices.Index(list, was); i >= 0 {
		list = slices.Delete(list, i, i+1)
		x.old = append(x.old, was)
	}
	if d != nil {
		list = append(list, d)
	}
	x.list.Store(&list)
}

// has reports whether a directory is one of slots that is open.
func (x *slotDirs) has(dir fsx.Dir) bool {
	return dir == x.home.dir || slices.ContainsFunc(x.opened(), func(d *slotDir) bool { return d.dir == dir })
}

// is reports whether what is described is a directory of slots that is open.
func (x *slotDirs) is(st fsx.Stat) bool {
	return slices.ContainsFunc(x.opened(), func(d *slotDir) bool { return d.at.SameFile(st) })
}

// close removes the slots that were not used, where the store is not lost.
func (x *slotDirs) close(lost bool) {
	x.wait()
	for _, d := range append(slices.Clone(x.opened()), &x.home) {
		if !lost {
			d.each((*publish.Slots).Close)
		}
	}
}

// wait returns when no slots are being made.
func (x *slotDirs) wait() {
	x.mu.Lock()
	list := slices.Concat(x.opened(), x.old, []*slotDir{&x.home})
	x.mu.Unlock()
	for _, d := range list {
		d.each((*publish.Slots).Wait)
	}
}

func (x *slotDirs) closeDirs() {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, d := range x.opened() {
		x.replace(d, nil)
	}
	for _, d := range x.old {
		d.dir.Close()
	}
	x.old = nil
}

// makeSlots makes the sets of slots of a directory.
func (s *Engine) makeSlots(d *slotDir) {
	fsx.Plain(d.dir) // a file gets its group and ACL from the directory of its name
	set := func(room bool) *publish.Slots {
		return &publish.Slots{Dir: d.dir, Writer: s.Writer, Room: room, Made: &s.slotDirs.made, Set: s.TestHooks.Slots, InTurn: s.TestHooks.InTurn,
			Sync: func(d fsx.Dir) error { return s.syncDirs(d) }}
	}
	d.slots = set(false)
	if vol, err := d.dir.Volume(); err == nil && vol.Ordered && s.Opts.Sync != SyncOff {
		d.roomy = set(true)
	}
}

// each calls fn for the sets of slots of the directory.
func (d *slotDir) each(fn func(*publish.Slots)) {
	for _, set := range []*publish.Slots{d.slots, d.roomy} {
		if set != nil {
			fn(set)
		}
	}
}

// SlotDir is the directory of the slot, a path in the workspace; "" is staging/.
func (m *Mutation) SlotDir() string { return m.Slot.in.path }

// slotDirOf returns the directory for the slot of a mutation; at describes the
// directory of its target.
func (s *Engine) slotDirOf(ctx context.Context, m *Mutation, at fsx.Stat) (*slotDir, error) {
	if m.Private {
		return &s.slotDirs.home, nil
	}
	return s.slotDirFor(ctx, ParentOf(m.Target.Path), at)
}

// slotDirFor returns the directory for the slots of files in the directory
// parent, which at describes. It is made where there is none.
func (s *Engine) slotDirFor(ctx context.Context, parent string, at fsx.Stat) (d *slotDir, err error) {
	x := &s.slotDirs
	if at.SameVolume(x.home.at) {
		return &x.home, nil
	}
	if d = x.find(parent, at); d != nil {
		return d, nil
	}
	err = s.AloneWithin(ctx, "stage", func() (err error) {
		if d = x.find(parent, at); d == nil {
			d, err = s.makeSlotDir(parent, at)
		}
		return err
	})
	return d, err
}

// usualSlotDir is where content waits whose target is not known yet.
func (s *Engine) usualSlotDir(ctx context.Context) *slotDir {
	at, err := s.Disk.Root.Stat()
	if err == nil {
		if d, err := s.slotDirFor(ctx, "", at); err == nil {
			return d
		}
	}
	return &s.slotDirs.home
}

// find finds an open directory of slots on the file system of the directory
// parent, at its top or nearer to parent.
func (x *slotDirs) find(parent string, at fsx.Stat) *slotDir {
	for _, d := range x.opened() {
		top := ParentOf(d.path)
		if d.ready.Load() && d.at.SameVolume(at) && (top == "" || parent == top || strings.HasPrefix(parent, top+"/")) {
			return d
		}
	}
	return nil
}

// makeSlotDir makes or opens the directory of slots for files in parent: at the
// top of its file system, where that cannot be below it, at last in parent.
func (s *Engine) makeSlotDir(parent string, at fsx.Stat) (*slotDir, error) {
	var names []string
	if parent != "" {
		names = strings.Split(parent, "/")
	}
	dir, path := s.Disk.Root, ""
	var first error
	for i := 0; ; i++ {
		d, err := s.trySlotDir(dir, path, at)
		first = cmp.Or(first, err)
		if err != nil && !isUnusable(err) {
			s.leave(dir)
			return nil, err
		}
		if d != nil || i == len(names) {
			s.leave(dir)
			return d, orTaken(d, first)
		}
		next, err := dir.OpenDir(names[i])
		s.leave(dir)
		if err != nil {
			return nil, err
		}
		dir, path = next, JoinPath(path, names[i])
	}
}

func (s *Engine) leave(dir fsx.Dir) {
	if dir != s.Disk.Root {
		dir.Close()
	}
}

// errNotOurs is the error of a directory with the name of one of slots.
var errNotOurs = errors.New("others can write to the directory of slots")

// isUnusable reports whether an error says that there can be no directory of
// slots at a place.
func isUnusable(err error) bool {
	these := []error{errNotOurs, fs.ErrPermission, syscall.EROFS, syscall.ENOTDIR, syscall.ELOOP}
	return slices.ContainsFunc(these, func(e error) bool { return errors.Is(err, e) })
}

func orTaken(d *slotDir, err error) error {
	switch {
	case d != nil:
		return nil
	case err == nil: // the directory is on another file system by now
		return fault.New(fault.ChangedDuringWrite)
	case errors.Is(err, errNotOurs), fsx.NotDir(err):
		return fault.New(fault.BadStateDir).Because(err).With("part", relpath.SlotsPrefix+"*").
			Hintf("what is called %s* at the top of the file system of this file is no directory of this user alone; check its content, then remove it", relpath.SlotsPrefix)
	}
	return err
}

// trySlotDir is makeSlotDir in one directory. It returns nil where that is on
// another file system. A directory that was emptied is not used again: a slot
// that is missing there would say that its commit is published.
//
//	write(slots.json)  mkdirat(dir, .rw-slots-id)  write(.gitignore)  openat(witness)  fsync(.rw-slots-id)  fsync(dir)  write(slots.json)
func (s *Engine) trySlotDir(dir fsx.Dir, path string, at fsx.Stat) (*slotDir, error) {
	st, err := dir.Stat()
	if err != nil || !st.SameVolume(at) {
		return nil, err
	}
	list, err := slotdir.Read(s.Disk.State)
	if err != nil {
		return nil, err
	}
	if last := list.In(path); last != "" {
		_, name := slotdir.Split(last)
		d, err := s.openSlotDir(dir, name, last)
		if err == nil {
			var w witness
			if w, err = d.witnessed(); err == nil && w == witnessSeen {
				d.ready.Store(true)
				return d, nil
			}
		}
		if err != nil && !IsAbsent(err) && !isUnusable(err) {
			return nil, err
		}
	}
	name := relpath.SlotsPrefix + s.TestHooks.Nonce() + strconv.Itoa(len(list.Dirs))
	list.Root, list.Dirs = s.RealRoot, append(list.Dirs, slotdir.Dir{Path: JoinPath(path, name)})
	if err := list.Write(s.Disk.State); err != nil {
		return nil, err
	}
	if err := dir.Mkdir(name, 0o700); err != nil {
		return nil, err
	}
	d, err := s.openSlotDir(dir, name, JoinPath(path, name))
	if err != nil {
		return nil, err
	}
	if err = ignoreIn(d.dir); err == nil {
		_, err = publish.MakeSlot(d.dir, WitnessStem, "")
	}
	if err == nil {
		err = s.SyncDir(d.dir)
	}
	if err == nil { // whatever the level: commits of others rely on it
		err = s.SyncDir(dir)
	}
	if err == nil {
		list.Dirs[len(list.Dirs)-1].Ready = true
		err = list.Write(s.Disk.State)
	}
	if err != nil {
		s.dropSlotDir(d)
		return nil, err
	}
	d.ready.Store(true)
	return d, nil
}

// openSlotDir opens the directory of slots name of dir. What is another user's,
// or can be written by others, is not used: a process that can write there decides
// what is published.
func (s *Engine) openSlotDir(dir fsx.Dir, name, path string) (*slotDir, error) {
	sub, err := dir.OpenDir(name)
	if err != nil {
		return nil, err
	}
	st, err := sub.Stat()
	if err == nil {
		err = s.trustSlotDir(sub, st)
	}
	if err != nil {
		sub.Close()
		return nil, err
	}
	x := &s.slotDirs
	x.mu.Lock()
	defer x.mu.Unlock()
	var was *slotDir
	for _, d := range x.opened() {
		if d.path != path {
			continue
		}
		if d.at.SameFile(st) && d.at.Mount == st.Mount {
			sub.Close()
			return d, nil
		}
		was = d
	}
	d := &slotDir{path: path, dir: sub, at: st}
	if !s.Opts.ReadOnly {
		s.makeSlots(d)
	}
	x.replace(was, d)
	return d, nil
}

// trustSlotDir refuses a directory of slots to which others can write.
func (s *Engine) trustSlotDir(dir fsx.Dir, st fsx.Stat) error {
	c, err := s.NewCustody()
	if err != nil || c.Fine(st) {
		return err
	}
	if s.Opts.ReadOnly || c.try(dir, "probe-"+s.TestHooks.Nonce()) {
		return errNotOurs
	}
	return nil // no modes are kept here
}

// slotDirAt opens the directory of slots that a row names. It is looked for
// each time: one that was replaced says nothing about the slots of the other.
func (s *Engine) slotDirAt(path string) (*slotDir, error) {
	if path == "" {
		return &s.slotDirs.home, nil
	}
	in, name := slotdir.Split(path)
	parent, done, err := fsx.OpenPath(s.Disk.Root, in)
	if err != nil {
		return missing(path, err)
	}
	defer done()
	if !relpath.IsSlots(name) {
		return missing(path, errNotOurs)
	}
	d, err := s.openSlotDir(parent, name, path)
	if err != nil {
		return missing(path, err)
	}
	return d, nil
}

// missing is a directory of slots that is not there, where an error says so.
func missing(path string, err error) (*slotDir, error) {
	if IsAbsent(err) || isUnusable(err) {
		return &slotDir{path: path}, nil
	}
	return nil, err
}

// eachSlotDir calls fn for every directory of slots of the store, staging/
// first. Those that are not there, because their file system is not mounted
// perhaps, are passed over.
func (s *Engine) eachSlotDir(fn func(*slotDir) error) error {
	if err := fn(&s.slotDirs.home); err != nil {
		return err
	}
	list, err := slotdir.Read(s.Disk.State)
	if err != nil {
		return err
	}
	for _, x := range list.Dirs {
		d, err := s.slotDirAt(x.Path)
		if err == nil && d.dir != nil {
			err = fn(d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// SlotDirs are the directories of slots outside the state directory that are open,
// as paths in the workspace.
func (s *Engine) SlotDirs() (list []string) {
	for _, d := range s.slotDirs.opened() {
		list = append(list, d.path)
	}
	return list
}

// SyncSlots makes the removal of slots durable.
func (s *Engine) SyncSlots() error {
	return s.eachSlotDir(func(d *slotDir) error { return s.SyncDir(d.dir) })
}

// dropSlotDir forgets a directory of slots that was removed.
func (s *Engine) dropSlotDir(d *slotDir) {
	s.slotDirs.mu.Lock()
	defer s.slotDirs.mu.Unlock()
	s.slotDirs.replace(d, nil)
}

// tidySlotDirs removes the directories of slots that are not used any more and
// are empty: those that another one has taken the place of, and those on the file
// system of the state directory, which was moved there.
func (s *Engine) tidySlotDirs() error {
	list, err := slotdir.Read(s.Disk.State)
	if err != nil || len(list.Dirs) == 0 {
		return err
	}
	kept := list
	kept.Dirs = nil
	for _, x := range list.Dirs {
		in, _ := slotdir.Split(x.Path)
		last := list.In(in) == x.Path
		d, err := s.slotDirAt(x.Path)
		if err != nil {
			return err
		}
		if d.dir == nil && last || d.dir != nil && (last && !d.at.SameVolume(s.slotDirs.home.at) || !d.isUnused()) {
			kept.Dirs = append(kept.Dirs, x)
			continue
		}
		if d.dir == nil { // it is gone, or another one has its name
			continue
		}
		s.dropSlotDir(d)
		if err := slotdir.Remove(s.Disk.Root, slotdir.List{Dirs: []slotdir.Dir{x}}); err != nil {
			return err
		}
	}
	if len(kept.Dirs) == len(list.Dirs) {
		return nil
	}
	return kept.Write(s.Disk.State)
}

// isUnused reports whether a directory holds no slot.
func (d *slotDir) isUnused() bool {
	names, err := d.dir.Names()
	return err == nil && !slices.ContainsFunc(names, func(name string) bool {
		return name != IgnoreName && !strings.HasPrefix(name, WitnessStem)
	})
}
