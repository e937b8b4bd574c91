package engine

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// StatePart opens a directory of the state directory for reading, by its path there; nil
// when there is none.
func (s *Engine) StatePart(path string) (fsx.Dir, error) {
	if s.Disk.State == nil {
		return nil, nil
	}
	dir, _, err := fsx.OpenPath(s.Disk.State, path)
	switch {
	case IsAbsent(err):
		return nil, nil
	case fsx.NotDir(err):
		return nil, Misplaced(path)
	}
	return dir, err
}

// Misplaced returns the error of an entry that is not what belongs in its place.
func Misplaced(path string) *fault.Fault {
	return fault.New(fault.BadStateDir).With("part", path).
		Hintf("%s in the state directory is a link, or has another type than what belongs there; ask the user to run resilient-write check --repair, which moves it to quarantine", path)
}

// inPart calls fn with a directory of the state directory. The error is
// fs.ErrNotExist when there is none.
func (s *Engine) inPart(part string, fn func(dir fsx.Dir) error) error {
	dir, err := s.StatePart(part)
	if err != nil {
		return err
	}
	if dir == nil {
		return fs.ErrNotExist
	}
	defer dir.Close()
	return fn(dir)
}

// ReadPart reads a file in a directory of the state directory, of at most limit bytes.
func (s *Engine) ReadPart(part, name string, limit int64) (data []byte, err error) {
	err = s.inPart(part, func(dir fsx.Dir) error {
		data, err = durable.ReadFile(dir, name, limit)
		return err
	})
	return data, err
}

// WritePart writes a file in a directory of the state directory, durably. Callers that
// may write one file at the same time take a lock first.
func (s *Engine) WritePart(part, name string, data []byte) error {
	dir, err := s.OpenPart(part)
	if err != nil {
		return err
	}
	defer dir.Close()
	if st, err := dir.Lstat(name); err == nil && st.Kind == fsx.Directory {
		return Misplaced(part + "/" + name)
	}
	return durable.WriteFile(dir, name, data, 0o600)
}

// LstatPart returns the stat of an entry of a directory of the state directory.
func (s *Engine) LstatPart(part, name string) (st fsx.Stat, err error) {
	err = s.inPart(part, func(dir fsx.Dir) error {
		st, err = dir.Lstat(name)
		return err
	})
	return st, err
}

// StateOf returns a text that changes when an entry of the state directory does; "" if there
// is none.
func (s *Engine) StateOf(object string) string {
	if s.Disk.State == nil {
		return ""
	}
	dir, done, err := fsx.OpenPath(s.Disk.State, ParentOf(object))
	if err != nil {
		return ""
	}
	defer done()
	st, err := dir.Lstat(path.Base(object))
	if err != nil {
		return ""
	}
	return fmt.Sprint(st.Ino, st.Size, st.Mtime, st.Ctime, st.Mode, st.Nlink)
}

// EachIn calls fn for every name in a directory of the state directory, none if it is
// absent.
func (s *Engine) EachIn(part string, fn func(dir fsx.Dir, name string) error) error {
	dir, err := s.StatePart(part)
	if dir == nil || err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := fn(dir, name); err != nil {
			return err
		}
	}
	return nil
}

// PartNames lists the names in a directory of the state directory, none if it is absent.
func (s *Engine) PartNames(part string) (names []string, err error) {
	err = s.inPart(part, func(dir fsx.Dir) error {
		names, err = dir.Names()
		return err
	})
	if IsAbsent(err) {
		return nil, nil
	}
	return names, err
}

// Quarantine calls fn with quarantine/, while no other process changes it.
func (s *Engine) Quarantine(fn func(to fsx.Dir) error) error {
	return s.Alone("quarantine", func() error {
		to, err := s.OpenPart("quarantine")
		if err != nil {
			return err
		}
		defer to.Close()
		return fn(to)
	})
}

// maxStem is how many bytes the name of what is set aside begins with.
const maxStem = 200

// SetAside moves an entry of the state directory to quarantine/, unchanged, under a name
// that begins with stem, and returns that name. The error is fs.ErrNotExist if another
// process did so.
func (s *Engine) SetAside(dir fsx.Dir, name, stem string) (as string, err error) {
	if len(stem) > maxStem {
		stem = stem[:maxStem-20] + HashOf([]byte(stem))[:16]
	}
	err = s.Quarantine(func(to fsx.Dir) (err error) {
		as, err = durable.MoveAside(dir, name, to, stem)
		return err
	})
	return as, err
}

// QuarantineObject copies a damaged object of the state directory to
// quarantine/. The name of the copy says what it was, and the hash of what it
// holds, so that doing it twice leaves one. What is no file, or cannot be read,
// is moved there instead; moved reports that.
func (s *Engine) QuarantineObject(part, name string) (moved bool, err error) {
	dir, err := s.StatePart(part)
	if dir == nil || err != nil {
		return false, err
	}
	defer dir.Close()
	err = s.Quarantine(func(to fsx.Dir) error {
		err := CopyDamaged(dir, name, to, part+"-"+name)
		if err == nil || IsAbsent(err) {
			return nil
		}
		if s.ErrorOf(err).Code == fault.DiskFull || s.Poisoned.Load() {
			return err
		}
		_, err = durable.MoveAside(dir, name, to, part+"-"+name+".odd")
		moved = err == nil
		return err
	})
	return moved, err
}

func CopyDamaged(dir fsx.Dir, name string, to fsx.Dir, as string) error {
	f, err := dir.Open(name, fsx.Read, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	sha, st, err := HashFile(f)
	if err != nil {
		return err
	}
	as += "." + sha[:12]
	if _, err := to.Lstat(as); !IsAbsent(err) {
		return err
	}
	if err := durable.WriteStream(to, as, io.NewSectionReader(f, 0, st.Size)); err != nil {
		return err
	}
	return to.Sync()
}

// Choose makes muts what the commit does, from inside its plan.
func (c *Commit) Choose(muts ...*Mutation) error {
	kept := map[*Mutation]bool{}
	for _, m := range muts {
		kept[m] = true
	}
	for _, m := range c.Muts {
		if !kept[m] {
			m.Close()
			m.Target.Close()
		}
	}
	c.Muts = muts
	for _, m := range muts {
		if err := c.ResolveOne(m); err != nil {
			return err
		}
	}
	return nil
}

// ParseTime reads a time in RFC 3339; the zero time when it is invalid.
func ParseTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}
