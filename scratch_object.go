package resilientwrite

import (
	"errors"
	"io"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// The states of a stored object.
const (
	scratchAbsent = iota
	scratchIntact
	scratchDamaged
)

// inspectScratch compares a stored object with its name. One that is intact is
// made durable: whoever put it there may not have done so.
func (s *Store) inspectScratch(sha string) (int, error) {
	dir, err := s.statePart(scratchDir)
	if dir == nil || err != nil {
		return scratchAbsent, err
	}
	defer dir.Close()
	f, err := dir.Open(binName(sha), fsx.Read, 0)
	var kind *fsx.TypeError
	switch {
	case engine.IsAbsent(err):
		return scratchAbsent, nil
	case errors.As(err, &kind): // something else bears its name
		return scratchDamaged, nil
	case err != nil:
		return scratchAbsent, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return scratchAbsent, err
	}
	d, t, err := engine.Measure(io.NewSectionReader(f, 0, st.Size))
	if err != nil {
		return scratchAbsent, err
	}
	if d.Hex() != sha {
		// What was remembered of the file does not hold.
		s.engine.Hashes.Put(st, engine.HashEntry{SHA: d.Hex(), State: d.State(), Traits: t})
		return scratchDamaged, nil
	}
	if s.opts.Sync == SyncOff {
		return scratchIntact, nil
	}
	if err := f.Sync(); err != nil {
		return scratchIntact, s.engine.Poison(err)
	}
	if err := s.engine.SyncDir(dir); err != nil {
		return scratchIntact, s.engine.Poison(err)
	}
	return scratchIntact, nil
}

// quarantineObject copies a damaged object of the state directory to
// quarantine/. The name of the copy tells what it was, and the hash of what it
// holds, so that doing it twice leaves one. What is no file, or cannot be read,
// is moved there instead; moved tells.
func (s *Store) quarantineObject(part, name string) (moved bool, err error) {
	dir, err := s.statePart(part)
	if dir == nil || err != nil {
		return false, err
	}
	defer dir.Close()
	err = s.engine.Alone("quarantine", func() error {
		to, err := s.engine.OpenPart("quarantine")
		if err != nil {
			return err
		}
		defer to.Close()
		err = copyDamaged(dir, name, to, part+"-"+name)
		if err == nil || engine.IsAbsent(err) {
			return nil
		}
		if s.engine.ErrorOf(err).Code == fault.DiskFull {
			return err
		}
		if err := dir.Rename(name, to, durable.TempName(part+"-"+name)+".odd"); err != nil {
			return err
		}
		moved = true
		if err := to.Sync(); err != nil {
			return err
		}
		return dir.Sync()
	})
	return moved, err
}

func copyDamaged(dir fsx.Dir, name string, to fsx.Dir, as string) error {
	f, err := dir.Open(name, fsx.Read, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	sha, err := engine.ShaOf(f, st.Size)
	if err != nil {
		return err
	}
	as += "." + sha[:12]
	if _, err := to.Lstat(as); !engine.IsAbsent(err) {
		return err
	}
	if err := writeStream(to, as, io.NewSectionReader(f, 0, st.Size)); err != nil {
		return err
	}
	return to.Sync()
}
