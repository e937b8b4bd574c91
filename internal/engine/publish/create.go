package publish

import "github.com/resilientwrite/resilientwrite/internal/fsx"

// publishNew gives the staged file its name and never replaces another.
//
//	renameat2(slot, target, RENAME_NOREPLACE)
func publishNew(c *Change) error {
	err := c.moveNew(Name{c.Slot.Dir, c.Slot.Name}, c.Target)
	if isExist(err) {
		return ErrExists
	}
	if c.Done = err == nil; !c.Done {
		st, exists, serr := c.Target.lstat()
		c.Done = serr == nil && exists && c.linked(st)
	}
	return err
}

// linked reports whether the staged file has its name besides the slot.
func (c *Change) linked(st fsx.Stat) bool { return c.Slot.made(st) && st.Nlink > 1 }

// undoNew takes the name from the staged file. It is looked at after it is out:
// another program may have saved it at the last moment.
//
//	renameat2(target, slot, RENAME_NOREPLACE)
func undoNew(c *Change) error {
	st, exists, err := c.Target.lstat()
	if err != nil || !exists || !c.New.is(st) {
		return err
	}
	if held, err := c.Slot.Holds(); err != nil {
		return err
	} else if held == Staged { // a second name, where names cannot be moved without replacing
		if err := c.Slot.Remove(); err != nil {
			return err
		}
	}
	err = c.moveNew(c.Target, Name{c.Slot.Dir, c.Slot.Name})
	if isAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	out, err := c.Slot.Dir.Lstat(c.Slot.Name)
	if err != nil || c.New.is(out) {
		return err
	}
	err = c.moveNew(Name{c.Slot.Dir, c.Slot.Name}, c.Target)
	if isExist(err) {
		c.Displaced = true
		return nil
	}
	return err
}

func judgeNew(c *Change, held Held) (State, error) {
	if held != Staged {
		return Published, nil
	}
	st, exists, err := c.Target.lstat()
	switch {
	case err != nil:
		return Taken, err
	case !exists:
		return Pending, nil
	case c.linked(st):
		return Published, nil
	}
	return Taken, nil
}
