package resilientwrite

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// besidePrefix begins the name of a slot beside its target. The name of the
// slot in the state directory that names its target follows.
const besidePrefix = ".rw-"

// howToReplace chooses the primitive for a whole new file.
func howToReplace(m *mutation, s *engine) publish.How {
	switch {
	case !m.prev.exists:
		return publish.Create
	case m.prev.stat.Nlink > 1 && s.opts.HardLinks == hardLinksInPlace:
		m.warn(warnRewrittenInPlace)
		return publish.InPlace
	}
	if m.prev.stat.Nlink > 1 {
		m.warn(warnHardLinkBroken)
	}
	return publish.Replace
}

// slotted is a mutation's slot with its file, open for reading and writing.
type slotted struct {
	publish.Slot
	mark *publish.Slot // in the state directory, of a slot beside the target
	file fsx.File
}

// takeSlot takes a slot of the state directory.
func (c *engineCommit) takeSlot() (*slotted, error) {
	var slot publish.Slot
	err := c.spare.try(func() (err error) {
		slot, err = c.s.slots.Take(len(c.muts) - 1)
		return err
	})
	if err != nil {
		return nil, err
	}
	f, err := slot.Dir.Open(slot.Name, fsx.Read|fsx.Write, 0)
	if err != nil {
		slot.Remove()
		return nil, err
	}
	return &slotted{Slot: slot, file: f}, nil
}

// drop removes the slot with what it holds.
func (x *slotted) drop() {
	if x == nil {
		return
	}
	x.close()
	x.Remove()
	if x.mark != nil {
		x.mark.Remove()
	}
}

func (x *slotted) close() {
	if x != nil && x.file != nil {
		x.file.Close()
		x.file = nil
	}
}

// takeBeside makes a slot in the directory of a target that is on another file
// system than the state directory. A slot there holds its place for a sweep,
// durably and before it is made: nothing else would lead there.
//
//	write(mark)  fsync(mark)  openat(parent, .rw-mark.new)  renameat(.rw-mark.new, .rw-mark-inode)  fsync(parent)
func (c *engineCommit) takeBeside(m *mutation) (*slotted, error) {
	mark, err := c.takeSlot()
	if err != nil {
		return nil, err
	}
	x := &slotted{mark: &mark.Slot}
	fail := func(err error) (*slotted, error) {
		mark.drop()
		return nil, err
	}
	_, err = spareWriter{mark.file, &c.spare}.Write([]byte(besideMark + m.target.Path))
	if err == nil && c.s.opts.Sync != syncOff {
		err = mark.file.Sync()
	}
	if err != nil {
		return fail(err)
	}
	mark.close()
	dir := m.target.Parent
	err = c.spare.try(func() (err error) {
		x.Name, err = publish.MakeSlot(dir, besidePrefix+mark.Name)
		return err
	})
	if err != nil {
		return fail(err)
	}
	x.Dir, x.Ino = dir, besideInode(x.Name)
	if x.file, err = dir.Open(x.Name, fsx.Read|fsx.Write, 0); err == nil && c.s.opts.Sync != syncOff {
		err = c.s.syncDir(dir)
	}
	if err != nil {
		x.drop()
		return nil, err
	}
	return x, nil
}

// besideInode reads the inode from the name of a slot beside its target, and
// besideMarkName the name of the slot that names its target.
func besideInode(name string) uint64 {
	ino, _ := strconv.ParseUint(name[strings.LastIndexByte(name, '-')+1:], 36, 64)
	return ino
}

func besideMarkName(name string) string {
	stem, ok := strings.CutPrefix(name, besidePrefix)
	if i := strings.LastIndexByte(stem, '-'); ok && i >= 0 {
		return stem[:i]
	}
	return ""
}

// stage writes the final bytes to the slot, with the metadata of the file they
// will replace.
//
//	openat(slot)  write…  [fchown  fsetxattr…  fchmod]  fstat
//
// The metadata comes before the flush, which covers it.
func (m *mutation) stage(ctx context.Context, c *engineCommit) error {
	if m.carried() || m.op == opDelete && !m.prev.exists {
		return nil // of a move, the slot is that of the new name
	}
	m.copyAppend(c.s)
	if err := m.place(c); err != nil {
		return err
	}
	switch {
	case m.source != nil:
		return m.stageMove(c)
	case m.how == publish.Delete:
		return nil
	}
	if !m.spooled {
		if err := m.fill(ctx, c); err != nil {
			return err
		}
	}
	switch m.how {
	case publish.Create, publish.Replace:
		return m.applyMetadata()
	case publish.InPlace: // recovery reads the version before from history
		return c.spare.try(func() error { return m.savePrev(c.s) })
	}
	return nil
}

// checkStaged looks whether the slot holds what was written: by its size, or
// deep, by its content.
func (m *mutation) checkStaged(deep bool) error {
	if !m.holdsBytes() {
		return nil
	}
	st, err := m.slot.file.Stat()
	if err != nil {
		return err
	}
	m.stageSt = st
	if m.how == publish.Create {
		m.mode = st.Mode
	}
	sha := m.stageSHA
	if deep {
		d, _, err := hashFile(m.slot.file, st.Size)
		if err != nil {
			return err
		}
		sha = d.hex()
	}
	if st.Size != m.final.size() || sha != m.stageSHA {
		return fault.New(fault.ReadBackMismatch)
	}
	return nil
}

// place takes the slot on the file system of the target, if there is none yet.
func (m *mutation) place(c *engineCommit) error {
	beside := false
	if m.how != publish.Append && m.how != publish.InPlace {
		parent, err := m.target.Parent.Stat()
		if err != nil {
			return err
		}
		beside = parent.Dev != c.s.disk.dev
	}
	old := m.slot
	if old != nil && !beside {
		return nil
	}
	var err error
	if beside {
		m.slot, err = c.takeBeside(m)
	} else {
		m.slot, err = c.takeSlot()
	}
	if err != nil || old == nil {
		if m.slot == nil {
			m.slot = old
		}
		return err
	}
	// What was spooled in the state directory is copied over.
	m.spooled = false
	c.handles = append(c.handles, old.file)
	return old.Remove()
}

// fill writes and hashes the bytes of the slot.
func (m *mutation) fill(ctx context.Context, c *engineCommit) error {
	out := spareWriter{m.slot.file, &c.spare}
	if whole, ok := m.final.whole(); ok {
		_, err := out.Write(whole)
		return err
	}
	sum := newDigest()
	if _, err := move(io.MultiWriter(out, sum), newStoppable(ctx, m.final.reader())); err != nil {
		return err
	}
	if sum.hex() != m.stageSHA {
		return fault.New(fault.ChangedDuringWrite)
	}
	return nil
}

// hashFile hashes the first size bytes of f.
func hashFile(f fsx.File, size int64) (digest, int64, error) {
	d := newDigest()
	n, err := move(d, io.NewSectionReader(f, 0, size))
	return d, n, err
}

// spooled is content that was put into a slot before its commit was decided.
type spooled struct {
	slot *slotted
	size int64
	got  measurement
}

func (in spooled) body() body { return fileBody(in.slot.file, in.size) }

// spool copies a stream of unknown length into a slot.
func (c *engineCommit) spool(r io.Reader) (spooled, error) {
	slot, err := c.takeSlot()
	if err != nil {
		return spooled{}, err
	}
	if !c.counted { // Close waits until the slot is given back
		c.counted = true
		c.s.flights.Add(1)
	}
	out := spooled{slot: slot, got: measurement{digest: newDigest()}}
	out.size, err = move(io.MultiWriter(spareWriter{slot.file, &c.spare}, out.got.digest, &out.got.traits), r)
	if err != nil {
		slot.drop()
		return spooled{}, err
	}
	return out, nil
}

// takeSpooled makes what was spooled the content of the mutation.
func (m *mutation) takeSpooled(in spooled) {
	m.slot.drop()
	m.slot, m.spooled = in.slot, true
	m.content, m.measured = in.body(), &in.got
}

// dropSpooled removes what was taken for a mutation that is not to be.
func (m *mutation) dropSpooled() {
	m.slot.drop()
	m.slot, m.spooled = nil, false
}

// newChange is the mutation as its primitive sees it.
func (m *mutation) newChange(c *engineCommit) *publish.Change {
	ch := &publish.Change{
		How: m.how, Slot: m.slot.Slot,
		Target:  publish.Name{Dir: m.target.Parent, Name: m.target.Name},
		Old:     m.prev.asFile(),
		Guarded: m.expected != nil,
		Retry:   c.s.whileBusy,
		Flush:   c.s.syncDirs,
		Save:    func() error { m.warn(warnStrangerRace); return m.savePrev(c.s) },
	}
	if m.source != nil {
		from := m.source.target
		ch.Source, ch.Moved = publish.Name{Dir: from.Parent, Name: from.Name}, m.source.prev.asFile()
		return ch
	}
	ch.New = publish.File{Exists: true, Stat: m.stageSt, SHA256: m.stageSHA, Bytes: m.slot.file}
	return ch
}

func (p fileFacts) asFile() publish.File {
	f := publish.File{Exists: p.exists, Stat: p.stat, SHA256: p.sha}
	if p.file != nil {
		f.Bytes = p.file
	}
	return f
}

// savePrev makes the previous content a durable version. Where the lock of
// history cannot be had, a sweep that was stopped passes the new object over.
func (m *mutation) savePrev(s *engine) error {
	if done, err := s.shareHistory(); err == nil {
		defer done()
	}
	return s.history.Save(m.prev.reader(), m.prev.stat.Size, m.prev.sha)
}

// publish brings the mutation under its name.
func (m *mutation) publish(c *engineCommit) error {
	if m.unchanged() || m.carried() { // one of several; the others change
		return nil
	}
	m.ch = m.newChange(c)
	if m.how == publish.InPlace {
		if err := m.oldFromHistory(c); err != nil {
			return err
		}
	}
	err := m.ch.Publish()
	if errors.Is(err, publish.ErrBusy) && c.s.opts.InPlaceOnBusy && m.how == publish.Replace {
		err = m.publishOnBusy(c)
	}
	if err != nil {
		return m.publishError(err)
	}
	return m.published(c)
}

// publishOnBusy writes over a file whose name cannot be replaced. The note says
// so before the first byte is written, because the row says otherwise.
func (m *mutation) publishOnBusy(c *engineCommit) error {
	m.warn(warnRewrittenInPlace)
	if err := m.savePrev(c.s); err != nil {
		return err
	}
	if err := c.noteInPlace(m); err != nil {
		return err
	}
	m.how, m.ch.How = publish.InPlace, publish.InPlace
	if err := m.oldFromHistory(c); err != nil {
		return err
	}
	return m.ch.Publish()
}

// oldFromHistory makes the kept version the one that an undo writes back: the
// file itself will hold the new bytes.
func (m *mutation) oldFromHistory(c *engineCommit) error {
	f, err := c.s.history.Open(m.prev.sha)
	if err != nil {
		return err
	}
	c.handles = append(c.handles, f)
	m.ch.Old.Bytes = f
	return nil
}

// publishError says what a failed publication means to the caller.
func (m *mutation) publishError(err error) error {
	switch {
	case errors.Is(err, publish.ErrForeign):
		return fault.New(fault.ChangedDuringWrite)
	case errors.Is(err, publish.ErrExists):
		return fault.New(fault.FileAlreadyExists).Hintf("another program just created the file; read it before you replace it")
	case errors.Is(err, publish.ErrBusy):
		return fault.New(fault.IOBusy).Because(err)
	case errors.Is(err, publish.ErrCrossDevice):
		return fault.New(fault.CrossDevice).Because(err)
	}
	return err
}

// published takes over what was found when the mutation got its name.
func (m *mutation) published(c *engineCommit) error {
	if !m.ch.Foreign {
		return nil
	}
	m.warn(warnStrangerKept)
	if m.how != publish.Append {
		return nil
	}
	// What another program appended a moment before stays, and the reply is
	// about the file as it is.
	f := m.ch.Opened()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	d, _, err := hashFile(f, st.Size)
	if err != nil {
		return err
	}
	m.sha, m.size, m.midState = d.hex(), st.Size, d.state()
	return c.noteStranger(m, m.sha, m.size)
}

// unpublish takes the mutation back.
func (m *mutation) unpublish() error {
	if m.ch == nil {
		return nil
	}
	err := m.ch.Undo()
	if errors.Is(err, publish.ErrForeign) {
		return fault.New(fault.ChangedDuringWrite)
	}
	return err
}
