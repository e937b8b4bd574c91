// Package blob keeps file contents under the name of their SHA-256: <aa>/<sha256> below
// one directory, each content once. Other users have no access to the directory. An
// object has mode 0600, or the mode of the original file as long as that mode lets only
// the owner write and grants no rights to others.
//
// A file becomes an object without a copy, by a rename (Adopt, which the caller makes durable).
// Save copies, and is durable when it returns. A reader of an object compares its content with its
// name; Verify does only that. An object that the operator erased leaves an empty mark,
// <sha256>.erased.
package blob

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"
	"io/fs"
	"strings"
	"sync"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// ErrDamaged is returned when the content of an object does not match its name.
var ErrDamaged = errors.New("object does not match its name")

// Store is a directory of objects. It is safe for concurrent use by goroutines
// and by processes.
type Store struct {
	// Flushed, where set, is called with the result of each flush of a directory, or of
	// an object that another process may have written, and returns what it means. A
	// failed one may have lost what others made, whatever the next one says.
	Flushed func(error) error
	// Distrust is set after a failed flush: objects that exist may be lost, and are
	// written again when they are kept again.
	Distrust bool

	dir  fsx.Dir
	most int // directories that are kept open
	mu   sync.Mutex
	subs map[string]*sub
	full bool // all directories exist
	all  bool // and their names are durable
}

// sub is an open directory of objects.
type sub struct {
	fsx.Dir
	users int
	made  bool // its name is durable
}

// New returns the store in dir. Close closes dir as well. It keeps at most a
// quarter of the descriptors that a process may have beyond 64.
func New(dir fsx.Dir) *Store {
	return &Store{dir: dir, most: max(4, (fsx.DescriptorLimit()-64)/4), subs: map[string]*sub{}}
}

// Close releases the directories.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.subs {
		d.Close()
	}
	s.subs = map[string]*sub{}
	return s.dir.Close()
}

// sub opens the directory of the objects whose hashes have the same first byte as sha.
//
//	mkdirat(dir, aa)  fsync(dir)
//
// The flush must precede any use of the directory, also of one that another process
// made: an object is lost with its directory. Where all directories exist, one flush is
// for all. done releases the directory.
func (s *Store) sub(sha string, make bool) (dir fsx.Dir, done func(), err error) {
	if len(sha) != 2*sha256.Size {
		return nil, nil, fs.ErrInvalid
	}
	return s.named(sha[:2], make)
}

// named is sub by the name of the directory.
func (s *Store) named(name string, make bool) (dir fsx.Dir, done func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.subs[name]
	if d == nil {
		d = &sub{}
		d.Dir, err = s.open(name, make)
	} else if make && !s.all && !d.made { // it was opened by a reader
		err = s.mkdir(name)
	}
	if err != nil {
		return nil, nil, err
	}
	s.subs[name] = d
	d.made = d.made || make
	d.users++
	return d.Dir, func() { s.done(name, d) }, nil
}

// open opens a directory; with make its name exists, and is durable.
func (s *Store) open(name string, make bool) (fsx.Dir, error) {
	if make && !s.all {
		if err := s.mkdir(name); err != nil {
			return nil, err
		}
	}
	d, err := s.dir.OpenDir(name)
	if make && s.full && errors.Is(err, fs.ErrNotExist) { // it was removed
		s.full, s.all = false, false
		return s.open(name, make)
	}
	return d, err
}

// mkdir makes directories and their names durable. They may be some that another process
// has made and not flushed.
func (s *Store) mkdir(names ...string) error {
	err := durable.Mkdirs(s.dir, 0o700, names...)
	var lost *durable.FlushError
	if errors.As(err, &lost) {
		for _, name := range names { // those that others made, too: a directory in use is not empty
			s.dir.Rmdir(name)
		}
	} else if err != nil {
		return err
	}
	err = s.judged(err)
	s.all = err == nil && s.full
	return err
}

// flush makes the names in a directory durable.
func (s *Store) flush(d fsx.Dir) error { return s.judged(d.Sync()) }

func (s *Store) judged(err error) error {
	if s.Flushed != nil {
		return s.Flushed(err)
	}
	return err
}

// done closes a directory that is not in use, where many are open.
func (s *Store) done(name string, d *sub) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d.users--
	here := s.subs[name] == d
	if d.users == 0 && (!here || len(s.subs) > s.most) {
		if here {
			delete(s.subs, name)
		}
		d.Close()
	}
}

// removed reports whether err came because another program has removed the directory of sha
// while it was open. It is made again for the next call.
func (s *Store) removed(sha string, err error) bool {
	if !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.subs[sha[:2]]
	if d == nil {
		return false
	}
	if st, err := d.Stat(); err != nil || st.Nlink > 0 {
		return false
	}
	delete(s.subs, sha[:2])
	if s.full, s.all = false, false; d.users == 0 {
		d.Close()
	}
	return true
}

// Trim closes the directories that are not in use, for a process that has no
// descriptors left.
func (s *Store) Trim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, d := range s.subs {
		if d.users == 0 {
			delete(s.subs, name)
			d.Close()
		}
	}
}

// OneByOne is set by tests that open many small stores: a new store then has no
// directories of objects. Making, reading and removing 256 would be most of its work.
var OneByOne bool

// Prepare makes the directories of all objects at once, so that no single
// object has to wait for its own. It may be left out.
//
//	256 × mkdirat(dir, aa)  fsync(dir)
func (s *Store) Prepare() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	have, err := s.dir.Names()
	if s.full = len(have) >= 256; err != nil || s.full {
		return err
	}
	var names []string
	for i := range 256 {
		names = append(names, hex.EncodeToString([]byte{byte(i)}))
	}
	err = s.mkdir(names...)
	s.full, s.all = err == nil, err == nil
	return err
}

// Open opens the object sha for reading. The caller checks the content, as [Verify]
// does.
func (s *Store) Open(sha string) (fsx.File, error) {
	d, done, err := s.sub(sha, false)
	if err != nil {
		return nil, err
	}
	defer done()
	return d.Open(sha, fsx.Read, 0)
}

// Has reports whether there is an object of that name.
func (s *Store) Has(sha string) bool {
	d, done, err := s.sub(sha, false)
	if err != nil {
		return false
	}
	defer done()
	_, err = d.Lstat(sha)
	return err == nil
}

// Adopt moves the file name of dir, which holds the content sha, into the store in one
// step. An existing object is replaced, which also repairs a damaged one. The caller
// makes sure that no other process can write to the file, whose mode is mode. The move
// is durable once dir is flushed.
//
//	[fchmod(dir/name, 0600)]  renameat(dir/name, aa/sha)
func (s *Store) Adopt(dir fsx.Dir, name string, f fsx.File, mode uint32, sha string) error {
	sub, done, err := s.sub(sha, true)
	if err != nil {
		return err
	}
	defer done()
	if mode&0o7022 != 0 {
		if err := f.Chmod(0o600); err != nil {
			return err
		}
	}
	if err = dir.Rename(name, sub, sha); s.removed(sha, err) {
		return s.Adopt(dir, name, f, mode, sha)
	}
	return err
}

// Release moves an object out of the store, durably once dir is flushed too: one that
// another process turned out to have open.
//
//	renameat(aa/sha, dir/name)  fsync(aa)
func (s *Store) Release(sha string, dir fsx.Dir, name string) error {
	sub, done, err := s.sub(sha, false)
	if err != nil {
		return err
	}
	defer done()
	if err := sub.Rename(sha, dir, name); err != nil {
		return err
	}
	return s.flush(sub)
}

// Save copies size bytes of r into the store as sha, durably.
//
//	openat(aa, sha.tmp)  write…  fsync  renameat(sha.tmp, sha)  fsync(aa)
//
// r is only taken for sha when it hashes to it: else ErrDamaged, and nothing
// is kept.
func (s *Store) Save(r io.Reader, size int64, sha string) error {
	d, err := s.add(r, size, sha, true)
	if err != nil {
		return err
	}
	defer d.File.Close()
	if d.had { // it may not be on stable storage yet
		err = s.judged(d.File.Sync())
	}
	if err == nil {
		err = d.SyncDir()
	}
	if err != nil {
		d.Renew()
	}
	return err
}

// Copy is Save without its flushes: readers find the object, and it is durable after
// Sync of its File, then SyncDir.
//
//	openat(aa, sha.tmp)  write…  renameat(sha.tmp, sha)
func (s *Store) Copy(r io.Reader, size int64, sha string) (*Draft, error) {
	return s.add(r, size, sha, false)
}

// add makes an object that has its name, or opens the one that is there. flush makes
// the bytes of a new one durable before it gets its name; without it, too, if it replaces
// one, which may be durable.
func (s *Store) add(r io.Reader, size int64, sha string, flush bool) (*Draft, error) {
	sub, done, err := s.sub(sha, true)
	if err != nil {
		return nil, err
	}
	defer done()
	st, err := sub.Lstat(sha)
	if err == nil && st.Size == size && !s.Distrust && s.Verify(sha) == nil {
		f, err := again(sub, sha)
		if err != nil {
			return nil, err
		}
		return &Draft{File: f, of: s, sha: sha, had: true}, nil
	}
	flush = flush || !errors.Is(err, fs.ErrNotExist)
	d, err := s.Draft(sha)
	if err != nil {
		return nil, err
	}
	if err = d.Fill(r); err == nil && flush {
		err = d.File.Sync()
	}
	if err == nil {
		err = d.sub.Rename(d.tmp, d.sub, sha)
	}
	if err != nil {
		d.Discard()
		return nil, err
	}
	d.done()
	d.tmp = ""
	return d, nil
}

// Again opens the object sha, to keep it once more: a sweep that has chosen it leaves it. It
// is durable, whoever made it, after Sync of its File and SyncDir.
//
//	openat(aa, sha)  fchmod
func (s *Store) Again(sha string) (*Draft, error) {
	if s.Distrust {
		return nil, fs.ErrNotExist
	}
	sub, done, err := s.sub(sha, false)
	if err != nil {
		return nil, err
	}
	f, err := again(sub, sha)
	if err != nil {
		done()
		return nil, err
	}
	return &Draft{File: f, of: s, sub: sub, done: done, sha: sha, had: true}, nil
}

func again(sub fsx.Dir, sha string) (fsx.File, error) {
	f, err := sub.Open(sha, fsx.Read, 0)
	if err != nil {
		return nil, err
	}
	if err = f.Chmod(0o600); err != nil { // a new ctime
		f.Close()
		return nil, err
	}
	return f, nil
}

// Draft is an object that is being made, under a temporary name until Place.
type Draft struct {
	File fsx.File
	of   *Store
	sub  fsx.Dir
	done func() // gives sub back
	tmp  string
	sha  string
	had  bool // the object was there before
}

// Draft begins the object sha.
func (s *Store) Draft(sha string) (*Draft, error) {
	sub, done, err := s.sub(sha, true)
	if err != nil {
		return nil, err
	}
	tmp := durable.TempName(sha)
	f, err := sub.Open(tmp, fsx.Read|fsx.Write|fsx.Create|fsx.Excl, 0o600)
	if err != nil {
		if done(); s.removed(sha, err) {
			return s.Draft(sha)
		}
		return nil, err
	}
	return &Draft{File: f, of: s, sub: sub, done: done, tmp: tmp, sha: sha}, nil
}

// DraftOf begins the object sha as a second name of the object in another store on the
// same file system. The error is fs.ErrNotExist if the other store has none, ErrDamaged
// if its content does not match its name, and another one if the file system has no
// hard links. Each store removes only its own name.
//
//	linkat(other/aa/sha, aa/sha.tmp)  openat(aa, sha.tmp)  read…
func (s *Store) DraftOf(other *Store, sha string) (*Draft, error) {
	from, given, err := other.sub(sha, false)
	if err != nil {
		return nil, err
	}
	defer given()
	st, err := from.Lstat(sha)
	if err != nil {
		return nil, err
	}
	if st.Kind != fsx.Regular || st.Mode&0o022 != 0 {
		return nil, ErrDamaged
	}
	sub, done, err := s.sub(sha, true)
	if err != nil {
		return nil, err
	}
	tmp := durable.TempName(sha)
	if err = from.Link(sha, sub, tmp); err != nil {
		done()
		return nil, err
	}
	f, err := sub.Open(tmp, fsx.Read|fsx.Write, 0)
	if err != nil {
		sub.Remove(tmp)
		done()
		return nil, err
	}
	d := &Draft{File: f, of: s, sub: sub, done: done, tmp: tmp, sha: sha}
	if err := holds(f, sha); err != nil {
		d.Discard()
		return nil, err
	}
	return d, nil
}

// Named reports whether readers find the object, of which they do not know whether it is
// durable.
func (d *Draft) Named() bool { return d.tmp == "" }

// Fill copies r, which has to hash to the name: else ErrDamaged.
func (d *Draft) Fill(r io.Reader) error {
	sum := sha256.New()
	err := copyTo(io.MultiWriter(d.File, sum), r)
	if err == nil && hexSum(sum) != d.sha {
		err = ErrDamaged
	}
	return err
}

// Place gives the object its name. It is durable after the file was flushed
// before, and SyncDir after.
func (d *Draft) Place() error {
	defer d.done()
	err := d.File.Close()
	if d.had {
		return err
	}
	if err == nil {
		err = d.sub.Rename(d.tmp, d.sub, d.sha)
	}
	if err != nil {
		d.sub.Remove(d.tmp)
		return err
	}
	d.tmp = ""
	return nil
}

// Renew writes an object again, after a failed flush, whose loss a later one would not
// report. Other processes may rely on the object. Its name is not flushed.
//
//	openat(aa, sha.tmp)  write…  fsync  renameat(sha.tmp, sha)
func (d *Draft) Renew() error {
	f, err := d.of.Open(d.sha)
	if err != nil {
		return err
	}
	defer f.Close()
	again, err := d.of.Draft(d.sha)
	if err != nil {
		return err
	}
	if err = again.Fill(f); err == nil {
		err = again.File.Sync()
	}
	if err != nil {
		again.Discard()
		return err
	}
	return again.Place()
}

// Discard removes the draft.
func (d *Draft) Discard() {
	defer d.done()
	d.File.Close()
	if !d.had {
		d.sub.Remove(d.tmp)
	}
}

// RemoveDrafts removes what drafts have left that were not placed.
func (s *Store) RemoveDrafts() error {
	return s.Each(func(name string, _ fsx.Stat, ok bool) error {
		prefix, file, in := strings.Cut(name, "/")
		if ok || !in || !strings.HasSuffix(file, durable.TempSuffix) {
			return nil
		}
		d, err := s.dir.OpenDir(prefix)
		if err != nil {
			return err
		}
		defer d.Close()
		if err := d.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

// Dir names the directory of the object; drafts in one share a flush.
func (d *Draft) Dir() string { return d.sha[:2] }

// SyncDir makes the name of an object durable.
func (d *Draft) SyncDir() error {
	sub, done, err := d.of.sub(d.sha, false)
	if err != nil {
		return err
	}
	defer done()
	return d.of.flush(sub)
}

// buffers are lent to copies.
var buffers = sync.Pool{New: func() any { return new([64 << 10]byte) }}

func copyTo(w io.Writer, r io.Reader) error {
	buf := buffers.Get().(*[64 << 10]byte)
	defer buffers.Put(buf)
	_, err := io.CopyBuffer(w, struct{ io.Reader }{r}, buf[:])
	return err
}

func hexSum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// Verify reads the object and compares it with its name. Errors: fs.ErrNotExist if
// there is none, ErrDamaged if it differs.
func (s *Store) Verify(sha string) error {
	f, err := s.Open(sha)
	if err != nil {
		return err
	}
	defer f.Close()
	return holds(f, sha)
}

// holds compares a file with the name of an object.
func holds(f fsx.File, sha string) error {
	sum := sha256.New()
	if err := copyTo(sum, f); err != nil {
		return err
	}
	if hexSum(sum) != sha {
		return ErrDamaged
	}
	return nil
}

// RemoveIf removes the object sha if it still is the file that st describes. One
// that was saved again meanwhile stays.
func (s *Store) RemoveIf(sha string, st fsx.Stat) (gone bool, err error) {
	d, done, err := s.sub(sha, false)
	if err != nil {
		return false, err
	}
	defer done()
	now, err := d.Lstat(sha)
	if err != nil || (now.Ino != st.Ino || now.Ctime != st.Ctime) {
		return false, err
	}
	err = d.Remove(sha)
	return err == nil, err
}

// Each calls fn for every object with its name, in order. Names that are no
// object are passed with ok false.
func (s *Store) Each(fn func(name string, st fsx.Stat, ok bool) error) error {
	prefixes, err := s.dir.Names()
	if err != nil {
		return err
	}
	for _, p := range prefixes {
		d, done, err := s.named(p, false)
		if fsx.NotDir(err) {
			if err := fn(p, fsx.Stat{}, false); err != nil {
				return err
			}
			continue
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		err = eachIn(d, p, fn)
		done()
		if err != nil {
			return err
		}
	}
	return nil
}

func eachIn(d fsx.Dir, prefix string, fn func(string, fsx.Stat, bool) error) error {
	names, err := d.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		st, err := d.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		ok := st.Kind == fsx.Regular && len(name) == 2*sha256.Size && name[:2] == prefix
		if !ok {
			name = prefix + "/" + name
		}
		if err := fn(name, st, ok); err != nil {
			return err
		}
	}
	return nil
}
