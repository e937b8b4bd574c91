package publish

import (
	"errors"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// publishOver swaps the staged file with the target, so that whatever the
// target is at that moment ends up in the slot.
//
//	renameat2(slot, target, RENAME_EXCHANGE)
func publishOver(c *Change) error {
	err := c.retry(func() error { return c.Slot.Dir.Exchange(c.Slot.Name, c.Target.Dir, c.Target.Name) })
	switch {
	case isAbsent(err) && !c.Guarded:
		// Another program deleted the file. Its bytes are not ours to bring
		// back, and the new ones go where they were asked to go.
		c.Gone = true
		return publishNew(c)
	case isAbsent(err):
		return ErrForeign
	case errors.Is(err, fsx.ErrUnsupported):
		return replaceByRename(c)
	case IsBusy(err):
		return ErrBusy
	case err != nil:
		return err
	}
	c.Done = true
	return c.came()
}

// replaceByRename replaces the target where names cannot be swapped: a copy of
// it is kept first.
//
//	renameat(slot, target)
func replaceByRename(c *Change) error {
	if err := c.Save(); err != nil {
		return err
	}
	err := c.retry(func() error { return c.Slot.Dir.Rename(c.Slot.Name, c.Target.Dir, c.Target.Name) })
	if IsBusy(err) {
		return ErrBusy
	}
	c.Done = err == nil
	return err
}

// undoOver swaps the staged file with the one before it again. What comes out
// and is not the staged file goes back under the name.
//
//	renameat2(slot, target, RENAME_EXCHANGE)
func undoOver(c *Change) error {
	if c.Gone {
		return undoNew(c)
	}
	held, err := c.Slot.Holds()
	if err != nil {
		return err
	}
	st, exists, err := c.Target.lstat()
	if err != nil || !exists || !c.New.is(st) {
		c.Displaced = err == nil && held == Other
		return err
	}
	if held == Empty {
		return putBackByRename(c)
	}
	for again := false; ; again = true {
		err := c.Slot.Dir.Exchange(c.Slot.Name, c.Target.Dir, c.Target.Name)
		if isAbsent(err) {
			c.Displaced = true
			return nil
		}
		if err != nil || again {
			c.Displaced = again
			return err
		}
		if out, err := c.Slot.Dir.Lstat(c.Slot.Name); err != nil || c.New.is(out) {
			return err
		}
	}
}

// putBackByRename writes the replaced bytes to a new file and renames it over
// the target. The staged file keeps a second name in the slot, which says that
// the change is not published.
//
//	openat(slot.new)  write…  fsync  linkat(target, slot)  fsync(slots)  renameat(slot.new, target)
func putBackByRename(c *Change) error {
	tmp, err := c.copyOf(c.Old)
	if err != nil {
		return err
	}
	err = c.Target.Dir.Link(c.Target.Name, c.Slot.Dir, c.Slot.Name)
	if err == nil && c.Flush != nil {
		err = c.Flush(c.Slot.Dir) // the name in the slot comes before the rename
	}
	if err != nil && !errors.Is(err, fsx.ErrUnsupported) {
		return err
	}
	return c.Slot.Dir.Rename(tmp, c.Target.Dir, c.Target.Name)
}

func judgeOver(c *Change, held Held) (State, error) {
	if held != Staged {
		return Published, nil
	}
	st, exists, err := c.Target.lstat()
	if err != nil {
		return Taken, err
	}
	if exists && c.New.is(st) { // putBackByRename ended between its link and its rename
		return Published, c.Slot.Dir.Remove(c.Slot.Name)
	}
	if same, err := c.Old.found(c.Target, st, exists); err != nil || !same {
		return Taken, err
	}
	return Pending, nil
}
