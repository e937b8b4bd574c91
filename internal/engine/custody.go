package engine

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// The store trusts its state directory: it records which writes must be
// completed, what a file was before, what the gate refuses. So no other user may
// write there. A user who can has effectively made the store's files their own.

const writableByOthers = 0o022

// openedParts are the parts without which no store is opened.
var openedParts = []string{"journal", "staging", "locks", "index", "history"}

// Custody checks who owns the state directory and the policy file, and who can
// write them. Systems without owners and modes (Windows) are not checked: there
// the directory has the access control list that it inherits.
type Custody struct {
	s        *Engine
	Self     int   // this user; negative where there are no owners
	rootUID  int   // owner of the workspace, whom root believes too
	keeps    *bool // whether modes are kept, once it was tried
	Loose    bool  // modes are not kept here, or may not be changed now
	narrowed []string
}

// user is who this process is; negative where there are no users.
func (s *Engine) user() int {
	if s.TestHooks.User != nil {
		return s.TestHooks.User()
	}
	return os.Geteuid()
}

func (s *Engine) NewCustody() (Custody, error) {
	c := Custody{s: s, Self: s.user(), rootUID: -1}
	if c.Self != 0 {
		return c, nil
	}
	st, err := s.Disk.Root.Stat()
	c.rootUID = st.UID
	return c, err
}

// takeCustody checks the state directory and its direct entries. Permissions of
// our own entries that others can write are narrowed.
func (s *Engine) takeCustody() error {
	if s.Disk.State == nil {
		return nil
	}
	c, err := s.NewCustody()
	if err != nil || c.Self < 0 {
		return err
	}
	if err := c.dir(StateDirName, s.Disk.State); err != nil {
		return err
	}
	names, err := s.Disk.State.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := c.part(name); err != nil && !IsAbsent(err) { // others may remove what they made
			return err
		}
	}
	s.Report.Warnings = append(s.Report.Warnings, c.Warnings()...)
	return nil
}

// part checks one entry of the state directory.
func (c *Custody) part(name string) error {
	st, err := c.s.Disk.State.Lstat(name)
	if err != nil {
		return err
	}
	what := StateDirName + "/" + name
	switch st.Kind {
	case fsx.Symlink:
		if !slices.Contains(openedParts, name) {
			return nil // nothing follows it; Check names it and Repair sets it aside
		}
		return fault.New(fault.BadStateDir).With("part", what).Hintf("%s is a symbolic link; check where it points, then remove it", what)
	case fsx.Directory:
		if c.Fine(st) {
			return nil
		}
		d, err := c.s.Disk.State.OpenDir(name)
		if err != nil {
			return err
		}
		defer d.Close()
		return c.dir(what, d)
	case fsx.Regular:
		if c.Fine(st) {
			return nil
		}
		f, err := c.s.Disk.State.Open(name, fsx.Read, 0)
		if err != nil {
			return c.refuse(what, st) // one of others that we may not read
		}
		defer f.Close()
		return c.File(what, f, true)
	}
	return nil
}

// singleNames refuses files of the state directory that are written in place and have
// another name: that may be one of a file of the user, or of a backup.
func (s *Engine) singleNames() error {
	segments, err := s.Disk.journal.Names()
	if err != nil {
		return err
	}
	last := ""
	for _, name := range segments {
		last = max(last, name)
	}
	for _, f := range []struct {
		dir        fsx.Dir
		part, name string
	}{
		{s.Disk.State, "", reserveName}, {s.Disk.State, "", poisonMark},
		{s.Disk.locks, "locks/", "journal"}, {s.Disk.locks, "locks/", "paths"}, {s.Disk.journal, "journal/", last},
	} {
		if f.name == "" {
			continue
		}
		if st, err := f.dir.Lstat(f.name); err == nil && st.Kind == fsx.Regular && st.Nlink > 1 {
			what := StateDirName + "/" + f.part + f.name
			return fault.New(fault.BadStateDir).With("part", what).
				Hintf("%s is a hard link to another file, which the store would write to; replace it by a copy of itself, or remove it if it is not from this store", what)
		}
	}
	return nil
}

func (c *Custody) dir(what string, d fsx.Dir) error {
	st, err := d.Stat()
	if err != nil {
		return err
	}
	return c.check(what, st, st.Mode&^0o077, d)
}

// File checks a file of the state directory, or the policy file that the options
// name, which others may still read.
func (c *Custody) File(what string, f fsx.File, state bool) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	narrow := st.Mode &^ writableByOthers
	if state {
		narrow = st.Mode &^ 0o077
	}
	return c.check(what, st, narrow, f)
}

// Sticky is the mode of a directory in which only the owner of a file may
// replace it.
const Sticky = 0o1000

// Ours reports whether files of a user are trusted.
func (c *Custody) Ours(uid int) bool {
	return uid == c.Self || uid == 0 || c.Self == 0 && uid == c.rootUID
}

// Fine reports whether only this user can change the described file.
func (c *Custody) Fine(st fsx.Stat) bool {
	return c.Self < 0 || c.Ours(st.UID) && st.Mode&writableByOthers == 0
}

// check refuses what others own or can write, unless the mode can be corrected.
func (c *Custody) check(what string, st fsx.Stat, narrow uint32, f interface {
	Chmod(uint32) error
	Stat() (fsx.Stat, error)
}) error {
	if c.Fine(st) {
		return nil
	}
	if !c.Ours(st.UID) || c.Self != 0 && st.UID != c.Self {
		return c.refuse(what, st)
	}
	if c.s.Opts.ReadOnly {
		c.Loose = true
		return nil
	}
	err := f.Chmod(narrow)
	now, serr := f.Stat()
	switch {
	case serr != nil:
		return serr
	case c.Fine(now):
		c.narrowed = append(c.narrowed, what)
		return nil
	case err == nil: // chmod that does nothing
		c.Loose = true
		return nil
	}
	return c.refuse(what, st)
}

// refuse returns the error for a file that others own or can write, if the file
// system keeps owners and modes at all.
func (c *Custody) refuse(what string, st fsx.Stat) error {
	if !c.kept(what) {
		c.Loose = true
		return nil
	}
	name := what
	if rest, ok := strings.CutPrefix(what, StateDirName); ok && c.s.StatePlace != "" {
		name = filepath.Base(c.s.StatePlace) + rest
	}
	owner, mode := fmt.Sprintf("uid %d", st.UID), fmt.Sprintf("%04o", st.Mode)
	command := fmt.Sprintf("sudo chown -R %d '%s' && chmod -R go-w '%s'", c.Self, strings.ReplaceAll(name, "'", `'\''`), strings.ReplaceAll(name, "'", `'\''`))
	if c.Self == 0 {
		command = strings.TrimPrefix(command, "sudo ")
	}
	return fault.New(fault.BadStateDir).With("part", what).With("owner", owner).With("mode", mode).With("command", command).
		Hintf("%s is owned by %s with mode %s, so other users can change what this store relies on; check its content, then remove it, or run in its parent directory: %s", what, owner, mode, command)
}

// kept tests, once, whether a new file in the state directory belongs only to
// this user. On some mounts all files have one owner and mode, whatever was set.
func (c *Custody) kept(what string) bool {
	state := c.s.Disk.State
	if c.s.Opts.ReadOnly || state == nil || what != StateDirName && !strings.HasPrefix(what, StateDirName+"/") {
		return true
	}
	if c.keeps == nil {
		keeps := c.try(state, "probe-"+c.s.TestHooks.Nonce())
		c.keeps = &keeps
	}
	return *c.keeps
}

func (c *Custody) try(state fsx.Dir, name string) bool {
	f, err := state.Open(name, fsx.Write|fsx.Create|fsx.Excl, 0o600)
	if err != nil {
		return true
	}
	defer state.Remove(name)
	defer f.Close()
	st, err := f.Stat()
	return err != nil || st.UID == c.Self && st.Mode&0o077 == 0
}

func (c *Custody) Warnings() (list []Note) {
	if len(c.narrowed) > 0 {
		list = append(list, Note{call.WarnStateNarrowed, strings.Join(c.narrowed[:min(len(c.narrowed), 8)], ", ")})
	}
	if c.Loose {
		list = append(list, Note{call.WarnModesNotEnforced, ""})
	}
	return list
}
