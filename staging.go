package resilientwrite

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"strconv"
	"syscall"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// spoolSuffix marks a staging file that was never part of a commit.
const spoolSuffix = ".spool"

// How the final bytes get under their name. The journal row tells it, so that
// recovery knows what the traces mean.
const (
	howLink     = "link"     // second name for the staged file; never replaces
	howExchange = "exchange" // swap with the staged file, which then holds the old one
	howRename   = "rename"   // the old file is linked into history, then replaced
	howAppend   = "append"   // the staged bytes are added to the end
	howInPlace  = "inplace"  // the old bytes are saved, then written over
	howUnlink   = "unlink"   // the file takes the place of an empty staged one
)

// howToReplace chooses the primitive for a whole new file.
func howToReplace(m *mutation, s *Store) string {
	switch {
	case !m.prev.exists:
		return howLink
	case m.prev.stat.Nlink > 1 && s.opts.HardLinks == HardLinksInPlace:
		m.warn(WarnRewrittenInPlace)
		return howInPlace
	}
	if m.prev.stat.Nlink > 1 {
		m.warn(WarnHardLinkBroken)
	}
	return howExchange
}

// stageDir is where the staged file of m lies: in the state directory, or
// beside the target when that is on another file system.
func (m *mutation) stageDir(s *Store) fsx.Dir {
	if m.beside {
		return m.target.Parent
	}
	return s.disk.staging
}

// stageName is the name of the staged file there.
func (m *mutation) stageName(id string, i int) string {
	if m.beside {
		return besideName(id, i)
	}
	return stagedName(id, i)
}

func stagedName(id string, i int) string { return id + "." + strconv.Itoa(i) }

// besideName is short and hidden, and a sweep knows it by its form.
func besideName(id string, i int) string { return ".rw-" + stagedName(id, i) + ".tmp" }

// stage writes the final bytes to the staged file, with the metadata of the
// file they will replace.
//
//	openat(staging, id.i, O_CREAT|O_EXCL)  write…  [fchown  fsetxattr…  fchmod]
//
// The metadata comes before the flush, which covers it.
func (m *mutation) stage(ctx context.Context, c *commit, i int) error {
	if err := m.place(c, i); err != nil {
		return err
	}
	if m.source != nil {
		return m.stageMove(c, i)
	}
	if !m.spooled {
		if err := m.fill(ctx, c, i); err != nil {
			return err
		}
	}
	if m.how != howAppend && m.how != howInPlace && m.how != howUnlink {
		if err := m.dress(); err != nil {
			return err
		}
	}
	st, err := m.file.Stat()
	m.stageSt = st
	if m.how == howLink {
		m.mode = st.Mode
	}
	return err
}

// place decides on which file system the staged file must lie.
func (m *mutation) place(c *commit, i int) error {
	if m.how == howAppend || m.how == howInPlace {
		return nil
	}
	parent, err := m.target.Parent.Stat()
	if err != nil {
		return err
	}
	if parent.Dev == c.s.disk.dev {
		return nil
	}
	if m.spooled { // what was spooled in the state directory is copied over
		m.spooled = false
		c.handles = append(c.handles, m.file)
		m.file = nil
		if err := c.s.disk.staging.Remove(stagedName(c.id, i)); err != nil {
			return err
		}
	}
	// The entry in staging/ stays the evidence that the commit is under way.
	mark, err := c.spare.create(c.s.disk.staging, stagedName(c.id, i), 0o600)
	if err != nil {
		return err
	}
	m.beside = true
	return c.writeMark(mark, m.target.Path)
}

// writeMark tells a sweep where the file beside the target is, durably and
// before that file is made: nothing else would lead there.
//
//	write(staging/id.i)  fsync  fsync(staging)
func (c *commit) writeMark(mark fsx.File, path string) error {
	s := c.s
	_, err := spareWriter{mark, &c.spare}.Write([]byte(besideMark + path))
	if err == nil && s.opts.Sync != SyncOff {
		err = mark.Sync()
	}
	if cerr := mark.Close(); err == nil {
		err = cerr
	}
	if err == nil && s.opts.Sync != SyncOff {
		err = s.syncDir(s.disk.staging)
	}
	return err
}

// fill writes and hashes the bytes of the staged file.
func (m *mutation) fill(ctx context.Context, c *commit, i int) error {
	return m.fillAs(ctx, &c.spare, m.stageDir(c.s), m.stageName(c.id, i))
}

func (m *mutation) fillAs(ctx context.Context, own *spare, dir fsx.Dir, name string) error {
	perm := uint32(0o600)
	if !m.prev.exists && !m.private {
		perm = 0o666 // less the umask: the staging directory keeps everybody else out
	}
	f, err := own.create(dir, name, perm)
	if err != nil {
		return err
	}
	m.file, m.staged = f, true
	out := spareWriter{f, own}
	if whole, ok := m.final.whole(); ok {
		_, err = out.Write(whole)
		return err
	}
	sum := newDigest()
	if _, err := move(io.MultiWriter(out, sum), stoppable{ctx, m.final.reader()}); err != nil {
		return err
	}
	if sum.hex() != m.stageSHA {
		return fail(ChangedDuringWrite)
	}
	return nil
}

// verify reads the staged file back.
func (m *mutation) verify() error {
	if !m.staged {
		return nil
	}
	st, err := m.file.Stat()
	if err != nil {
		return err
	}
	d, _, err := hashFile(m.file, st.Size)
	if err != nil {
		return err
	}
	if d.hex() != m.stageSHA {
		return fail(ReadBackMismatch)
	}
	return nil
}

// hashFile hashes the first size bytes of f.
func hashFile(f fsx.File, size int64) (digest, int64, error) {
	d := newDigest()
	n, err := move(d, io.NewSectionReader(f, 0, size))
	return d, n, err
}

// spooled is content that was put into staging/ before its commit began.
type spooled struct {
	file fsx.File
	name string
	size int64
	got  measurement
}

// spool copies a stream of unknown length into staging/ as name.
func (c *commit) spool(r io.Reader, name string) (spooled, error) {
	s := c.s
	// The umask applies as it will to the published file.
	f, err := c.spare.create(s.disk.staging, name, 0o666)
	if err != nil {
		return spooled{}, err
	}
	out := spooled{file: f, name: name, got: measurement{digest: newDigest()}}
	out.size, err = move(io.MultiWriter(spareWriter{f, &c.spare}, out.got.digest, &out.got.traits), r)
	if err != nil {
		f.Close()
		s.disk.staging.Remove(name)
		return spooled{}, err
	}
	return out, nil
}

// publish puts the staged file under its name, or its bytes at the end of the
// file.
func (m *mutation) publish(c *commit, i int) error {
	if m.unchanged() { // one of several; the others changed
		return nil
	}
	switch m.how {
	case howAppend:
		return m.publishAppend(c)
	case howInPlace:
		return m.publishInPlace(c)
	}
	stage, name := m.stageDir(c.s), m.stageName(c.id, i)
	if m.how == howUnlink {
		return m.publishUnlink(c, stage, name)
	}
	var err error
	switch m.how {
	case howLink:
		err = m.publishNew(stage, name)
	case howExchange:
		err = m.publishOver(c, stage, name)
	}
	if m.how == howInPlace { // the name could not be replaced
		return err
	}
	st, serr := m.target.Parent.Lstat(m.target.Name)
	if err != nil {
		// A call that failed may have happened all the same.
		m.done = m.done || serr == nil && st.SameFile(m.stageSt)
		return err
	}
	m.done = true
	if serr != nil {
		return serr
	}
	if !st.SameFile(m.stageSt) {
		return fail(ChangedDuringWrite)
	}
	return nil
}

// publishNew gives the staged file its name and never replaces another.
//
//	linkat(staging/id.i, parent/name)
func (m *mutation) publishNew(stage fsx.Dir, name string) error {
	err := stage.Link(name, m.target.Parent, m.target.Name)
	if errors.Is(err, fsx.ErrUnsupported) {
		err = stage.RenameNoReplace(name, m.target.Parent, m.target.Name)
	}
	if errors.Is(err, fs.ErrExist) {
		return fail(FileAlreadyExists).hint("another program created the file a moment ago; read it before you replace it")
	}
	return err
}

// publishUnlink takes the file away by moving it over the empty staged one, so
// that whatever was there ends up in staging/.
//
//	renameat(parent/name, staging/id.i)
func (m *mutation) publishUnlink(c *commit, stage fsx.Dir, name string) error {
	err := c.s.whileBusy(func() error { return m.target.Parent.Rename(m.target.Name, stage, name) })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, serr := m.target.Parent.Lstat(m.target.Name); isAbsent(serr) {
			m.done, m.gone = true, true // somebody was faster
			return nil
		}
		return err
	case isBusy(err):
		return fail(IOBusy).because(err)
	case err != nil:
		// A call that failed may have happened all the same.
		st, serr := stage.Lstat(name)
		m.done = serr == nil && st.SameFile(m.prev.stat)
		return err
	}
	m.done = true
	return m.inspectOld(stage, name)
}

// publishOver swaps the staged file with what is there, so that whatever is
// there, also what somebody wrote a moment ago, ends up in staging/.
//
//	renameat2(staging/id.i, parent/name, RENAME_EXCHANGE)
func (m *mutation) publishOver(c *commit, stage fsx.Dir, name string) error {
	err := c.s.whileBusy(func() error { return stage.Exchange(name, m.target.Parent, m.target.Name) })
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// Somebody removed the file. Its bytes are not ours to bring back, and
		// the new ones go where they were asked to go.
		m.how = howLink
		return m.publishNew(stage, name)
	case errors.Is(err, fsx.ErrUnsupported):
		return m.publishRename(c, stage, name)
	case isBusy(err):
		if !c.s.opts.InPlaceOnBusy {
			return fail(IOBusy).because(err)
		}
		m.warn(WarnRewrittenInPlace)
		m.how = howInPlace
		return m.publishInPlace(c)
	case err != nil:
		return err
	}
	m.done = true
	return m.inspectOld(stage, name)
}

// inspectOld compares what the exchange brought out with what the
// precondition judged. Bytes that a stranger wrote in between are kept in
// history; where the request named the version it replaces, or the file is
// moved, the call fails and they stay under their name.
func (m *mutation) inspectOld(stage fsx.Dir, name string) error {
	old, err := stage.Lstat(name)
	if err != nil {
		return err
	}
	was := m.prev.stat
	if old.SameFile(was) && old.Size == was.Size && old.Mtime == was.Mtime && old.Kind == fsx.Regular {
		return nil
	}
	if m.expected != nil || m.forgotten || old.Kind != fsx.Regular {
		return fail(ChangedDuringWrite)
	}
	m.stranger = true
	m.warn(WarnStrangerKept)
	return nil
}

// publishRename replaces the file where names cannot be swapped: the old one
// gets its name in history first.
//
//	linkat(parent/name, history/aa/sha)  renameat(staging/id.i, parent/name)
func (m *mutation) publishRename(c *commit, stage fsx.Dir, name string) error {
	m.warn(WarnStrangerRace)
	m.how = howRename
	if err := c.s.history.Link(m.target.Parent, m.target.Name, m.prev.sha); err != nil {
		if err := c.s.history.Save(m.prev.reader(), m.prev.stat.Size, m.prev.sha); err != nil {
			return err
		}
	}
	err := c.s.whileBusy(func() error { return stage.Rename(name, m.target.Parent, m.target.Name) })
	if isBusy(err) {
		return fail(IOBusy).because(err)
	}
	return err
}

func isExist(err error) bool { return errors.Is(err, fs.ErrExist) }

// isBusy reports whether a name cannot be replaced at the moment.
func isBusy(err error) bool {
	return errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.ETXTBSY) || isSharingViolation(err)
}

// dropSpooled removes what was taken for a mutation that is not to be.
func (m *mutation) dropSpooled(s *Store, c *commit, i int) {
	if m.staged && m.file != nil {
		m.file.Close()
		m.file, m.staged = nil, false
		s.disk.staging.Remove(stagedName(c.id, i))
	}
}
