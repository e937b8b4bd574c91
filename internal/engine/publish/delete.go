package publish

import (
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// publishDelete takes the target away by renaming it over the empty slot, so
// that whatever was there ends up in the slot.
//
//	renameat(target, slot)
func publishDelete(c *Change) error {
	err := c.retry(func() error { return c.Target.Dir.Rename(c.Target.Name, c.Slot.Dir, c.Slot.Name) })
	switch {
	case isAbsent(err):
		if _, exists, serr := c.Target.lstat(); serr == nil && !exists {
			c.Done, c.Gone = true, true
			return nil
		}
		return err
	case IsBusy(err):
		return ErrBusy
	case err != nil:
		return err
	}
	c.Done = true
	return c.came()
}

// undoDelete gives the deleted file its name back. Where a process dies now,
// recovery finds the very file that the row deletes under its name.
//
//	linkat(slot, target)  or  renameat2(slot, target, RENAME_NOREPLACE)
func undoDelete(c *Change) error {
	if c.Gone {
		return nil
	}
	return c.giveBack(c.Target)
}

func judgeDelete(c *Change, held Held) (State, error) {
	st, exists, err := c.Target.lstat()
	if err != nil {
		return Taken, err
	}
	if held != Staged && exists {
		undone := held == Empty && c.Old.is(st)
		if held == Other {
			out, err := c.Slot.Dir.Lstat(c.Slot.Name)
			if err != nil {
				return Taken, err
			}
			// Or recovery died after it had renewed the slot.
			undone = out.Ino == st.Ino || out.Size == 0 && c.Old.is(st)
		}
		if undone { // it had its name back when its writer died
			c.Old.now(st)
			return Pending, renew(c)
		}
	}
	if held != Staged || !exists {
		return Published, nil
	}
	if same, err := c.Old.found(c.Target, st, exists); err != nil || !same {
		return Taken, err
	}
	return Pending, nil
}

// renew makes the slot an empty file again. A rename between two names of one
// file does nothing.
func renew(c *Change) error {
	tmp := c.Slot.Name + Unnamed
	f, err := c.Slot.Dir.Open(tmp, fsx.Write|fsx.Create, 0o600)
	if err != nil {
		return err
	}
	f.Close()
	return c.Slot.Dir.Rename(tmp, c.Slot.Dir, c.Slot.Name)
}
