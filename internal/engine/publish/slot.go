package publish

import (
	"cmp"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Slot is the entry of a directory of the store that a mutation uses. Its name
// holds the inode that was made for it, so that the entry alone says whether
// the mutation has been published.
type Slot struct {
	Dir  fsx.Dir // nil: the directory is gone, and the slot with it
	Name string
	Ino  uint64
	Born int64 // when the file was made; 0 where that is not known
	// Copied is set where inode numbers say nothing, because the store was
	// copied. Is then says whether a file is the staged one.
	Copied bool
	Is     func(fsx.Stat) (bool, error)
}

// Held is what a slot holds.
type Held int

const (
	Staged Held = iota // the file that was made for it: not published
	Other              // another file: published
	Empty              // nothing: published
)

// Holds looks at the slot.
func (s Slot) Holds() (Held, error) {
	if s.Dir == nil {
		return Empty, nil
	}
	st, exists, err := Name{s.Dir, s.Name}.lstat()
	switch {
	case err != nil:
		return Other, err
	case !exists:
		return Empty, nil
	case s.Copied:
		if is, err := s.Is(st); err != nil || is {
			return Staged, err
		}
	case st.Ino == s.Ino:
		return Staged, nil
	}
	return Other, nil
}

// made reports whether st is the file that was made for the slot. Its inode number may be
// used again once it has left the slot and was deleted. In the slot itself it cannot: a file
// that comes there was made while this one existed.
func (s Slot) made(st fsx.Stat) bool {
	return File{Stat: fsx.Stat{Ino: s.Ino, Btime: s.Born}}.same(st)
}

// Remove removes the slot.
func (s Slot) Remove() error {
	if s.Dir == nil {
		return nil
	}
	err := s.Dir.Remove(s.Name)
	if isAbsent(err) {
		return nil
	}
	return err
}

const (
	slotSep  = "-"
	firstSet = 4
	fullSet  = 64
)

// Unnamed ends the name of a slot whose inode is not known yet.
const Unnamed = ".new"

func slotName(stem string, ino uint64) string { return stem + slotSep + strconv.FormatUint(ino, 36) }

// ParseSlot splits the name of a slot: the writer that made it and the inode
// that was made for it, 0 for one that never got its name.
func ParseSlot(name string) (writer string, ino uint64, ok bool) {
	stem, fresh := strings.CutSuffix(name, Unnamed)
	parts := strings.Split(stem, slotSep)
	if fresh && len(parts) == 2 {
		return parts[0], 0, parts[0] != ""
	}
	if len(parts) != 3 || parts[0] == "" {
		return "", 0, false
	}
	ino, err := strconv.ParseUint(parts[2], 36, 64)
	return parts[0], ino, err == nil
}

// Room is the size in bytes of a slot with room: a file of zeros whose blocks are allocated
// and written, so that a flush of new content needs no commit of the file system's journal.
// It is cut to the size of its content before its row is written. On a file system that
// keeps such a cut before a later rename (fsx.Volume.Ordered), a power cut brings back the
// size Room only as long as the slot has not been published.
const Room = 16 << 10

// minFree is the free space in bytes below which no slots with room are made: the space that
// the reserve gives up is for other calls.
const minFree = 16 << 20

var errNoRoom = errors.New("too little space for slots with room")

// IsUnused reports whether a file that was made as a slot holds nothing yet.
func IsUnused(dir fsx.Dir, name string, st fsx.Stat) (bool, error) {
	if st.Size != Room {
		return st.Size == 0, nil
	}
	f, err := fsx.OpenEntry(dir, name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	size, err := SizeIn(f, st, 0)
	return size == 0, err
}

// SizeIn returns the size of the content in the file of a slot that is to hold size bytes: it
// may have room beyond them.
func SizeIn(f io.ReaderAt, st fsx.Stat, size int64) (int64, error) {
	if st.Size != Room || size >= Room {
		return st.Size, nil
	}
	tail := make([]byte, Room-size)
	if _, err := f.ReadAt(tail, size); err != nil && err != io.EOF {
		return 0, err
	}
	if slices.ContainsFunc(tail, func(b byte) bool { return b != 0 }) { // another program has written there
		return st.Size, nil
	}
	return size, nil
}

// Cut cuts the slot, which holds the file made for it, described by st, to the size of its content where a
// power cut has brought back its room.
func (s Slot) Cut(st fsx.Stat, size int64) error {
	f, err := s.Dir.Open(s.Name, fsx.Read|fsx.Write, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	if size, err = SizeIn(f, st, size); err != nil || size == st.Size {
		return err
	}
	return f.Truncate(size)
}

// Slots are the slots of one writer: files without content whose names are durable. They
// are made in sets, each twice as large as the one before, up to 64.
type Slots struct {
	Dir    fsx.Dir
	Writer string
	Room   bool                // each is made with Room
	Made   *atomic.Uint64      // how many this writer has made, in all directories: a name is never used again
	Sync   func(fsx.Dir) error // makes the names durable
	Set    int                 // size of every set; 0: 4, 8 … 64
	InTurn bool                // a set is made only when the one before is used up

	mu     sync.Mutex
	free   []string
	size   int
	making chan struct{} // closed when the set that is being made is there; nil: none is
}

// Take returns a free slot. more is how many others the commit takes besides,
// so that one flush serves them.
func (s *Slots) Take(more int) (Slot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.free) == 0 {
		if s.wait(); len(s.free) > 0 {
			break
		}
		s.making = make(chan struct{})
		if err := s.fill(max(s.nextSet(), more+1)); err != nil {
			return Slot{}, err
		}
	}
	name := s.free[0]
	s.free = s.free[1:]
	_, ino, _ := ParseSlot(name)
	return Slot{Dir: s.Dir, Name: name, Ino: ino}, nil
}

// Ahead starts to make slots when few are left. What goes wrong is returned by the
// call of Take that finds no slot.
func (s *Slots) Ahead() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.InTurn || s.making != nil || len(s.free) > s.size/2 {
		return
	}
	s.making = make(chan struct{})
	go func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.fill(s.nextSet())
	}()
}

// Wait returns when no slots are being made.
func (s *Slots) Wait() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wait()
}

// wait is Wait with s.mu held, which it gives up meanwhile.
func (s *Slots) wait() {
	for s.making != nil {
		made := s.making
		s.mu.Unlock()
		<-made
		s.mu.Lock()
	}
}

func (s *Slots) nextSet() int {
	if s.Set > 0 {
		return s.Set
	}
	s.size = min(fullSet, max(firstSet, 2*s.size))
	return s.size
}

// fill makes n slots, with s.making set and s.mu held, which it gives up
// meanwhile. It fails only when it could make none: on a full disk a few may do.
//
//	n × openat(dir, w-n.new, O_CREAT|O_EXCL) fstat close renameat(w-n.new, w-n-ino)  fsync(dir)
func (s *Slots) fill(n int) error {
	from := s.Made.Add(uint64(n)) - uint64(n)
	s.mu.Unlock()
	made, err := s.makeSet(from, n)
	s.mu.Lock()
	s.free = append(s.free, made...)
	close(s.making)
	s.making = nil
	return err
}

func (s *Slots) makeSet(from uint64, n int) ([]string, error) {
	if s.Room {
		if vol, err := s.Dir.Volume(); err != nil || vol.Free < minFree {
			return nil, cmp.Or(err, errNoRoom)
		}
	}
	var made []string
	for i := range n {
		name, err := makeSlot(s.Dir, s.Writer+slotSep+strconv.FormatUint(from+uint64(i), 36), "", s.Room)
		if err != nil && len(made) == 0 {
			return nil, err
		}
		if err != nil {
			break
		}
		made = append(made, name)
	}
	if err := s.Sync(s.Dir); err != nil {
		return nil, err
	}
	return made, nil
}

// Link makes a slot that holds a symbolic link. Its name and the link are durable
// after Sync of the directory.
func (s *Slots) Link(target string) (Slot, error) {
	n := s.Made.Add(1) - 1
	name, err := MakeSlot(s.Dir, s.Writer+slotSep+strconv.FormatUint(n, 36), target)
	_, ino, _ := ParseSlot(name)
	return Slot{Dir: s.Dir, Name: name, Ino: ino}, err
}

// MakeSlot makes the entry stem-inode in dir and returns its name: an empty file,
// or a symbolic link where it has a target.
func MakeSlot(dir fsx.Dir, stem, target string) (string, error) {
	return makeSlot(dir, stem, target, false)
}

func makeSlot(dir fsx.Dir, stem, target string, room bool) (string, error) {
	st, err := makeEntry(dir, stem+Unnamed, target, room)
	if err != nil && st.Ino == 0 {
		return "", err
	}
	name := slotName(stem, st.Ino)
	if err == nil {
		err = dir.Rename(stem+Unnamed, dir, name)
	}
	if err != nil {
		dir.Remove(stem + Unnamed)
		dir.Remove(name) // a rename that failed may have been carried out
		return "", err
	}
	return name, nil
}

func makeEntry(dir fsx.Dir, name, target string, room bool) (st fsx.Stat, err error) {
	if target != "" {
		if err := dir.Symlink(target, name); err != nil {
			return st, err
		}
		return dir.Lstat(name)
	}
	// The umask applies as to any new file; the directory keeps others out.
	f, err := dir.Open(name, fsx.Write|fsx.Create|fsx.Excl, 0o666)
	if err != nil {
		return st, err
	}
	defer f.Close()
	if st, err = f.Stat(); err == nil && room {
		_, err = f.Write(make([]byte, Room))
		f.WriteOut()
	}
	return st, err
}

// Close removes the slots that were not used.
func (s *Slots) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wait()
	for _, name := range s.free {
		s.Dir.Remove(name)
	}
	s.free = nil
}
