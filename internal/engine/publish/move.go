package publish

import (
	"errors"
	"syscall"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// publishMove renames the source to the target. What arrives is looked at: what
// another program saved under the source a moment ago goes back.
//
//	renameat2(source, target, RENAME_NOREPLACE)
func publishMove(c *Change) error {
	if c.Old.Exists {
		return moveOver(c)
	}
	err := c.moveNew(c.Source, c.Target)
	switch {
	case isExist(err):
		return ErrExists
	case isAbsent(err): // the file or the new directory
		return errors.Join(ErrForeign, err)
	case errors.Is(err, syscall.EXDEV):
		return ErrCrossDevice
	case err != nil:
		return moveFailed(c, err)
	}
	c.Done = true
	return arrived(c)
}

// moveFailed looks whether a rename that failed was carried out anyway.
func moveFailed(c *Change, err error) error {
	st, exists, serr := c.Target.lstat()
	c.Done = serr == nil && exists && c.Moved.same(st)
	return err
}

func arrived(c *Change) error {
	st, err := c.Target.Dir.Lstat(c.Target.Name)
	if err != nil {
		return err
	}
	if !c.Moved.is(st) {
		return ErrForeign
	}
	return nil
}

// moveOver moves a file over another one, of which the caller has kept a
// version: the two are swapped, then the replaced one is renamed over the empty
// slot.
//
//	renameat2(source, target, RENAME_EXCHANGE)  fsync(source/)  fsync(target/)  renameat(source, slot)
func moveOver(c *Change) error {
	err := c.retry(func() error {
		return c.Source.Dir.Exchange(c.Source.Name, c.Target.Dir, c.Target.Name)
	})
	switch {
	case isAbsent(err):
		return ErrForeign
	case errors.Is(err, fsx.ErrUnsupported):
		return moveOverByRename(c)
	case IsBusy(err):
		return ErrBusy
	case err != nil:
		return moveFailed(c, err)
	}
	c.Done = true
	if err := arrived(c); err != nil {
		return err
	}
	return clearSource(c)
}

// moveOverByRename is moveOver where names cannot be swapped.
//
//	renameat(source, target)
func moveOverByRename(c *Change) error {
	err := c.Source.Dir.Rename(c.Source.Name, c.Target.Dir, c.Target.Name)
	if err != nil {
		return moveFailed(c, err)
	}
	c.Done = true
	return arrived(c)
}

// clearSource takes the replaced file from the name of the source. What another
// program has saved there meanwhile gets its name back. The exchange is durable
// before: a power cut that undid it alone would leave the moved file nowhere.
func clearSource(c *Change) error {
	if c.Flush != nil {
		if err := c.Flush(c.Source.Dir, c.Target.Dir); err != nil {
			return err
		}
	}
	st, exists, err := c.Source.lstat()
	if err != nil || !exists {
		return err
	}
	if !c.Old.is(st) {
		return ErrForeign
	}
	if err := c.Source.Dir.Rename(c.Source.Name, c.Slot.Dir, c.Slot.Name); err != nil {
		if _, exists, serr := c.Source.lstat(); isAbsent(err) && serr == nil && !exists {
			return nil
		}
		return err
	}
	c.clear = true
	out, err := c.Slot.Dir.Lstat(c.Slot.Name)
	if err != nil || c.Old.is(out) {
		return err
	}
	return ErrForeign
}

// undoMove gives the moved file its old name again.
func undoMove(c *Change) error {
	if c.clear {
		if err := c.giveBack(c.Source); err != nil || c.Displaced {
			return err
		}
	}
	st, exists, err := c.Target.lstat()
	if err != nil {
		return err
	}
	if c.Old.Exists {
		return undoMoveOver(c, st, exists)
	}
	if !exists {
		return restoreSource(c)
	}
	came := c.moveNew(c.Target, c.Source)
	switch {
	case isExist(came):
		// Another program has made a file under the old name. The moved one
		// leaves the new name and is kept.
		if !c.Moved.is(st) {
			return nil
		}
		if src, _, err := c.Source.lstat(); err == nil && c.Moved.same(src) { // it never left it
			return c.Target.Dir.Remove(c.Target.Name)
		}
		c.Displaced = true
		return c.Target.Dir.Rename(c.Target.Name, c.Slot.Dir, c.Slot.Name)
	case isAbsent(came):
		return restoreSource(c)
	}
	return came
}

// undoMoveOver swaps the two names again.
func undoMoveOver(c *Change, st fsx.Stat, exists bool) error {
	if !exists {
		return restoreSource(c)
	}
	err := c.Source.Dir.Exchange(c.Source.Name, c.Target.Dir, c.Target.Name)
	if !isAbsent(err) && !errors.Is(err, fsx.ErrUnsupported) {
		return err
	}
	// Another program deleted what had the name of the source, or names cannot
	// be swapped and it never had one.
	if !c.Moved.is(st) {
		return restoreSource(c)
	}
	return moveBackByLink(c)
}

// moveBackByLink gives the moved file a second name, then replaces the first one
// by a copy of the file before. At each step recovery finds a state that it can
// complete, which it would not if the target were missing.
//
//	openat(slot.new)  write…  fsync  linkat(target, source)  fsync(source/)  renameat(slot.new, target)
func moveBackByLink(c *Change) error {
	if c.Old.Bytes == nil {
		return c.moveNew(c.Target, c.Source)
	}
	tmp, err := c.copyOf(c.Old)
	if err != nil {
		return err
	}
	err = c.Target.Dir.Link(c.Target.Name, c.Source.Dir, c.Source.Name)
	if err == nil && c.Flush != nil {
		err = c.Flush(c.Source.Dir) // or a power cut could leave the moved file nowhere
	}
	if err == nil {
		return c.Slot.Dir.Rename(tmp, c.Target.Dir, c.Target.Name)
	}
	c.Slot.Dir.Remove(tmp)
	if !errors.Is(err, fsx.ErrUnsupported) {
		return err
	}
	if err := c.moveNew(c.Target, c.Source); err != nil {
		return err
	}
	return c.restore(c.Target, c.Old)
}

// restoreSource writes the moved bytes under the old name, after another
// program took the file from the new one.
func restoreSource(c *Change) error { return c.restore(c.Source, c.Moved) }

// restore makes a file again under a name that is free.
func (c *Change) restore(n Name, file File) error {
	if _, exists, err := n.lstat(); err != nil || exists || file.Bytes == nil {
		return err
	}
	tmp, err := c.copyOf(file)
	if err != nil {
		return err
	}
	err = c.moveNew(Name{c.Slot.Dir, tmp}, n)
	if isExist(err) {
		return c.Slot.Dir.Remove(tmp)
	}
	return err
}

// judgeMove looks at both names. A process that died while it took a replacing
// move back may have emptied the slot again.
func judgeMove(c *Change, held Held) (State, error) {
	st, exists, err := c.Target.lstat()
	if err != nil {
		return Taken, err
	}
	src, there, err := c.Source.lstat()
	if err != nil {
		return Taken, err
	}
	moved := exists && c.Moved.same(st)
	if exists && c.Slot.Copied {
		if moved, err = c.Moved.found(c.Target, st, exists); err != nil {
			return Taken, err
		}
	}
	if moved {
		return Published, finishMove(c, held, src, there)
	}
	if held != Staged {
		if !c.Old.Exists || !exists || !there || !c.Old.is(st) || !c.Moved.is(src) {
			return Published, nil
		}
		if err := renew(c); err != nil {
			return Taken, err
		}
	}
	if same, err := c.Moved.found(c.Source, src, there); err != nil || !same {
		return Taken, err
	}
	if same, err := c.Old.found(c.Target, st, exists); err != nil || !same {
		return Taken, err
	}
	return Pending, nil
}

// finishMove takes from the name of the source what the move has left there.
func finishMove(c *Change, held Held, src fsx.Stat, there bool) error {
	switch {
	case !there:
		return nil
	case held == Staged && c.Moved.same(src): // linked, and not yet removed
		return c.Source.Dir.Remove(c.Source.Name)
	case !c.Old.Exists:
		return nil
	case c.Slot.Copied:
		if same, err := c.Old.found(c.Source, src, there); err != nil || !same {
			return err
		}
	case !c.Old.is(src):
		return nil
	}
	if held != Staged {
		if err := renew(c); err != nil {
			return err
		}
	}
	return clearSource(c)
}
