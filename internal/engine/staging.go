package engine

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"syscall"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/blob"
	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// howToReplace chooses the primitive for a whole new file.
func howToReplace(m *Mutation, s *Engine) publish.Primitive {
	switch {
	case !m.Prev.Exists:
		return publish.Create
	case m.Link() || m.Prev.Link():
		return publish.Replace
	case m.Prev.Stat.Nlink > 1 && s.Opts.HardLinks == hardLinksInPlace:
		m.warnInPlace()
		return publish.InPlace
	}
	if m.Prev.Stat.Nlink > 1 {
		m.Warn(call.WarnHardLinkBroken)
	}
	return publish.Replace
}

// warnInPlace says what other programs may see and lose: the file is looked at
// immediately before its first byte is overwritten, but nothing keeps them out.
func (m *Mutation) warnInPlace() {
	m.Warn(call.WarnRewrittenInPlace)
	m.Warn(call.WarnForeignWriteRace)
}

// slotted is a mutation's slot with its file, open for reading and writing.
type slotted struct {
	publish.Slot
	in    *slotDir
	from  *publish.Slots
	File  fsx.File
	roomy bool // made with room
}

// takeSlot takes a slot of a directory, one with room if it can.
func (c *Commit) takeSlot(in *slotDir, roomy bool) (*slotted, error) {
	var slot publish.Slot
	var err error
	from := in.roomy
	if roomy = roomy && from != nil; roomy {
		slot, err = from.Take(0)
		roomy = err == nil
	}
	if !roomy {
		from = in.slots
		err = c.grant.Try(func() (err error) {
			slot, err = from.Take(max(len(c.Muts), c.Expects) - 1)
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	f, err := slot.Dir.Open(slot.Name, fsx.Read|fsx.Write, 0)
	if err != nil {
		slot.Remove()
		return nil, err
	}
	x := &slotted{Slot: slot, in: in, from: from, File: f, roomy: roomy}
	return x, c.lendSlot(x)
}

// lendSlot has the file of a slot opened again when it is needed.
func (c *Commit) lendSlot(x *slotted) error {
	h := c.lending()
	if h == nil {
		return nil
	}
	st, err := x.File.Stat()
	if err != nil {
		x.Drop()
		return err
	}
	x.File = h.lend(x.File, func() (fsx.File, error) {
		return openSame(inode{st.Dev, st.Ino}, fsx.Read|fsx.Write, publish.Name{Dir: x.Dir, Name: x.Name})
	})
	return nil
}

// suitsRoom reports whether the mutation takes a slot with room: its flush is then one of
// the device alone. Beside other commits it would be one more, not part of the one that serves
// them all. Where an earlier commit of the path is to be flushed first, the file system commits
// its journal anyway.
func (m *Mutation) suitsRoom(c *Commit) bool {
	return len(c.Muts) == 1 && c.Expects <= 1 && !m.Private && m.Source == nil && m.Final.Size() <= publish.Room &&
		m.Prev.Stat.Size != publish.Room && // in a copy of the store it could be taken for the staged file
		(m.Primitive == publish.Create || m.Primitive == publish.Replace) &&
		!c.s.flushes.many() && !c.s.Settler.waits(m.Target.Path) && !c.s.Opts.VerifyReadBack && !c.judge.Verifies()
}

// takeLink makes a slot that holds a symbolic link.
func (c *Commit) takeLink(in *slotDir, target string) (x *slotted, err error) {
	x = &slotted{in: in, from: in.slots}
	err = c.grant.Try(func() (err error) {
		x.Slot, err = in.slots.Link(target)
		return err
	})
	if err != nil {
		return nil, err
	}
	if x.File, err = fsx.OpenEntry(x.Dir, x.Name); err != nil {
		x.Drop()
		return nil, err
	}
	return x, nil
}

// linkTarget is the target of the symbolic link that the mutation makes, "" for a
// file.
func (m *Mutation) linkTarget(ctx context.Context) (string, error) {
	if !m.Link() {
		return "", nil
	}
	target, err := io.ReadAll(NewStoppable(ctx, m.Final.Reader()))
	if err == nil && len(target) == 0 {
		err = fault.New(fault.Internal)
	}
	return string(target), err
}

// Drop removes the slot with what it holds.
func (x *slotted) Drop() {
	if x == nil {
		return
	}
	x.close()
	x.Remove()
}

// discard is Drop for a commit that was refused. A power cut may undo the removal, so the
// bytes are cut off before, durably if there is a secret among them.
func (x *slotted) discard(secret bool) {
	if x != nil && x.File != nil && x.File.Truncate(0) == nil && secret {
		x.File.Sync()
	}
	x.Drop()
}

func (x *slotted) close() {
	if x != nil && x.File != nil {
		x.File.Close()
		x.File = nil
	}
}

// stage writes the final bytes to the slot, with the metadata of the file they
// will replace.
//
//	openat(slot)  write…  [fchown  fsetxattr…  fchmod]  fstat
//
// The metadata comes before the flush, which covers it.
func (m *Mutation) stage(ctx context.Context, c *Commit) error {
	if m.carried() || m.Op == OpDelete && !m.Prev.Exists {
		return nil // of a move, the slot is that of the new name
	}
	m.copyAppend(c.s)
	if err := m.place(ctx, c); err != nil {
		return err
	}
	switch {
	case m.Source != nil:
		return m.stageMove(c)
	case m.Primitive == publish.Delete:
		m.extra = !m.Private && m.hasExtra()
		return nil
	case m.Link():
		return nil
	}
	if !m.Spooled {
		if err := m.fill(ctx, c); err != nil {
			return err
		}
	}
	switch m.Primitive {
	case publish.Create, publish.Replace:
		if err := m.applyMetadata(c.s); err != nil || !m.metadata {
			return err
		}
		return m.cut() // its flush commits the journal of the file system anyway
	case publish.InPlace: // recovery reads the version before from history
		return m.savePrevFor(c)
	}
	return nil
}

// checkStaged looks whether the slot holds what was written: by its size, or
// deep, by its content.
func (m *Mutation) checkStaged(deep bool) error {
	if !m.holdsBytes() {
		return nil
	}
	st := m.stageSt // of a file that got its metadata as it was made
	if st.Ino == 0 || deep {
		var err error
		if st, err = m.Slot.File.Stat(); err != nil {
			return err
		}
	}
	m.stageSt = st
	if m.Primitive == publish.Create || m.Prev.Link() {
		m.Mode = st.Mode
	}
	sha := m.stageSHA
	if deep {
		var err error
		if sha, _, err = HashFile(m.Slot.File); err != nil {
			return err
		}
	}
	if st.Size != m.Final.Size() && !(m.Slot.roomy && st.Size == publish.Room) || sha != m.stageSHA {
		return fault.New(fault.ReadBackMismatch)
	}
	return nil
}

// place takes the slot on the file system of the target, if there is none yet.
// What is copied from the slot may be anywhere.
func (m *Mutation) place(ctx context.Context, c *Commit) error {
	in := &c.s.slotDirs.home
	old := m.Slot
	if m.Primitive == publish.Append || m.Primitive == publish.InPlace {
		if old != nil {
			return nil
		}
	} else {
		parent, err := m.Target.Parent.Stat()
		if err != nil {
			return err
		}
		m.home = inode{parent.Dev, parent.Ino}
		if err := m.mayLeave(parent, c.s.user()); err != nil {
			return err
		}
		if in, err = c.s.slotDirOf(ctx, m, parent); err != nil {
			return err
		}
		if old != nil && old.in == in && !m.Link() {
			return nil
		}
	}
	if err := m.takeSlot(ctx, c, in); err != nil || old == nil {
		return err
	}
	// What was spooled elsewhere is copied over.
	m.Spooled = false
	c.Handles = append(c.Handles, old.File)
	return old.Remove()
}

// mayLeave reports what would keep the mutation from being published: it is looked at before
// the row is written, so that no commit has to be rolled back for it.
func (m *Mutation) mayLeave(parent fsx.Stat, self int) error {
	if m.Private {
		return nil
	}
	if err := m.Target.Parent.Writable(); err != nil {
		return err
	}
	if m.Source == nil {
		return m.Prev.mayBeReplaced(parent, self)
	}
	from, err := m.Source.Target.Parent.Stat()
	if err == nil {
		err = m.Source.Target.Parent.Writable()
	}
	return cmp.Or(err, m.Prev.mayBeReplaced(parent, self), m.Source.Prev.mayBeReplaced(from, self))
}

// mayBeReplaced returns an error for a file of another user in a sticky directory, where
// only its owner or that of the directory can rename or remove it.
func (p fileFacts) mayBeReplaced(parent fsx.Stat, self int) error {
	if !p.Exists || parent.Mode&Sticky == 0 || self <= 0 || p.Stat.UID == self || parent.UID == self {
		return nil
	}
	return &fs.PathError{Op: "replace", Path: "?", Err: syscall.EPERM}
}

// takeSlot takes a slot in a directory, or makes one that holds a link. Where
// the directory was removed, as git clean does, another one is made. It fails if that of
// the state directory was emptied.
func (m *Mutation) takeSlot(ctx context.Context, c *Commit, in *slotDir) error {
	target, err := m.linkTarget(ctx)
	if err != nil {
		return err
	}
	var x *slotted
	for again := false; ; again = true {
		if target != "" {
			x, err = c.takeLink(in, target)
		} else {
			x, err = c.takeSlot(in, m.suitsRoom(c))
		}
		if !IsAbsent(err) || again {
			break
		}
		if in.path == "" {
			if err := c.s.find(); err != nil {
				return err
			}
			return c.s.lose(stateEmptied)
		}
		c.s.dropSlotDir(in)
		parent, err := m.Target.Parent.Stat()
		if err != nil {
			return err
		}
		if in, err = c.s.slotDirOf(ctx, m, parent); err != nil {
			return err
		}
	}
	if target != "" && errors.Is(err, fsx.ErrUnsupported) {
		err = c.About(m, fault.New(fault.NotARegularFile).Because(err).Hintf("a symbolic link was here, and none can be made on this file system or by this process, so nothing was changed; restore the other files one by one"))
	}
	if err == nil {
		m.Slot = x
	}
	return err
}

// fill writes and hashes the bytes of the slot.
func (m *Mutation) fill(ctx context.Context, c *Commit) error {
	out := grantWriter{m.Slot.File, &c.grant}
	if whole, ok := m.Final.Whole(); ok {
		_, err := out.Write(whole)
		return err
	}
	sum := NewDigest()
	if _, err := Move(io.MultiWriter(out, sum), NewStoppable(ctx, m.Final.Reader())); err != nil {
		return err
	}
	if sum.Hex() != m.stageSHA {
		return fault.New(fault.ChangedDuringWrite)
	}
	return nil
}

// spooled is content that was put into a slot before its commit was decided.
type spooled struct {
	Slot *slotted
	Size int64
	Got  measurement
}

func (in spooled) body() Body { return FileBody(in.Slot.File, in.Size) }

// Spool copies a stream of unknown length into a slot.
func (c *Commit) Spool(ctx context.Context, r io.Reader) (spooled, error) {
	slot, err := c.earlySlot(ctx)
	if err != nil {
		return spooled{}, err
	}
	out := spooled{Slot: slot, Got: measurement{Digest: NewDigest()}}
	out.Size, err = Move(io.MultiWriter(grantWriter{slot.File, &c.grant}, out.Got.Digest, &out.Got.traits), r)
	if err != nil {
		slot.Drop()
		return spooled{}, err
	}
	return out, nil
}

// earlySlot takes a slot before the commit is decided. Close waits until the commit
// has given it back.
func (c *Commit) earlySlot(ctx context.Context) (*slotted, error) {
	slot, err := c.takeSlot(c.s.usualSlotDir(ctx), false)
	if err == nil && !c.counted {
		c.counted = true
		c.s.Flights.Add(1)
	}
	return slot, err
}

// WriteAhead puts content that is in memory into a slot before it is hashed, so that the
// device writes it meanwhile. If that fails, or other commits need the descriptors of the
// process, the content is written when it is staged.
func (c *Commit) WriteAhead(ctx context.Context, m *Mutation, content []byte) {
	if c.s.Opts.Sync == SyncOff || m.Op == OpAppend || m.converts() || c.Many() || c.s.Enter() != nil {
		return
	}
	defer c.s.Leave()
	if c.leave == nil {
		c.leave = c.s.tryAdmit(len(c.Muts))
	}
	if c.leave == nil {
		return
	}
	slot, err := c.earlySlot(ctx)
	if err != nil {
		return
	}
	if _, err := slot.File.Write(content); err != nil {
		slot.Drop()
		return
	}
	slot.File.WriteOut()
	m.Slot, m.Spooled = slot, true
}

// TakeSpooled makes what was spooled the content of the mutation.
func (m *Mutation) TakeSpooled(in spooled) {
	m.Slot.Drop()
	m.Slot, m.Spooled = in.Slot, true
	m.Content, m.Measured = in.body(), &in.Got
}

// TakeFile makes a file that open opens the content of a mutation, and returns the
// hash of it. A commit of many files opens it again when the bytes are staged; ok is
// false, and nothing is done, in any other.
func (c *Commit) TakeFile(m *Mutation, open func() (fsx.File, error)) (sha string, ok bool, err error) {
	h := c.lending()
	if h == nil {
		return "", false, nil
	}
	f, err := open()
	if err != nil {
		return "", true, err
	}
	lent := h.lend(f, open)
	c.Handles = append(c.Handles, lent)
	st, err := lent.Stat()
	if err != nil {
		return "", true, err
	}
	m.Content, m.Measured = FileBody(lent, st.Size), new(measurement)
	m.Measured.Digest, m.Measured.traits, err = Measure(m.Content.Reader())
	return m.Measured.Digest.Hex(), true, err
}

// DropSpooled removes what was taken for a mutation that is not to be.
func (m *Mutation) DropSpooled() {
	m.Slot.Drop()
	m.Slot, m.Spooled = nil, false
}

// newChange is the mutation as its primitive sees it.
func (m *Mutation) newChange(c *Commit) *publish.Change {
	ch := &publish.Change{
		Primitive: m.Primitive, Slot: m.Slot.Slot,
		Target:  publish.Name{Dir: m.Target.Parent, Name: m.Target.Name},
		Old:     m.Prev.asFile(),
		Guarded: m.Expected != nil,
		Retry:   c.s.retryBusy,
		Flush:   c.s.syncDirs,
		Save:    func() error { m.Warn(call.WarnForeignWriteRace); return m.savePrev(c.s) },
	}
	if m.Source != nil {
		from := m.Source.Target
		ch.Source, ch.Moved = publish.Name{Dir: from.Parent, Name: from.Name}, m.Source.Prev.asFile()
		return ch
	}
	ch.New = publish.File{Exists: true, Stat: m.stageSt, SHA256: m.stageSHA, Bytes: m.Slot.File}
	return ch
}

func (p fileFacts) asFile() publish.File {
	f := publish.File{Exists: p.Exists, Stat: p.Stat, SHA256: p.SHA}
	f.Stat.Btime = 0 // the file is open, so its number is not used again; overlayfs makes another file of it
	if p.File != nil {
		f.Bytes = p.File
	}
	return f
}

// savePrev makes the previous content a durable version. Where the lock of
// history cannot be had, a sweep that was stopped passes the new object over.
func (m *Mutation) savePrev(s *Engine) error {
	if done, err := s.shareHistory(); err == nil {
		defer done()
	}
	return m.keepPrev(s)
}

// savePrevFor is savePrev before the row of the commit is written. Sweeps are kept
// out until it names the version: only a row says that it is needed.
func (m *Mutation) savePrevFor(c *Commit) error {
	if c.sharing == nil {
		if done, err := c.s.shareHistory(); err == nil {
			c.sharing = done
		}
	}
	return c.grant.Try(func() error { return m.keepPrev(c.s) })
}

func (m *Mutation) keepPrev(s *Engine) error {
	err := s.History.Save(m.Prev.Reader(), m.Prev.Stat.Size, m.Prev.SHA)
	if errors.Is(err, blob.ErrDamaged) { // another program has written to the file since
		return fault.New(fault.ChangedDuringWrite)
	}
	return err
}

// endSharing lets sweeps of history in again.
func (c *Commit) endSharing() {
	if c.sharing != nil {
		c.sharing()
		c.sharing = nil
	}
}

// publish brings the mutation under its name.
func (m *Mutation) publish(c *Commit) error {
	if m.Unchanged() || m.carried() { // one of several; the others change
		return nil
	}
	m.ch = m.newChange(c)
	if m.Primitive == publish.InPlace {
		if err := m.oldFromHistory(c); err != nil {
			return err
		}
	}
	err := m.ch.Publish()
	if m.Primitive == publish.Create || m.Primitive == publish.Move {
		for range maxMoves {
			if !IsAbsent(err) || m.ch.Done {
				break
			}
			if err = c.wayAgain(m, err); err == nil {
				m.ch = m.newChange(c)
				err = m.ch.Publish()
			}
		}
	}
	if errors.Is(err, publish.ErrBusy) && c.s.Opts.InPlaceOnBusy && m.Primitive == publish.Replace {
		err = m.publishOnBusy(c)
	}
	if err != nil {
		return m.publishError(err)
	}
	return m.published(c)
}

// publishOnBusy writes over a file whose name cannot be replaced. The note says
// so before the first byte is written, because the row says otherwise.
func (m *Mutation) publishOnBusy(c *Commit) error {
	m.warnInPlace()
	if err := m.savePrev(c.s); err != nil {
		return err
	}
	if err := c.noteOver(m); err != nil {
		return err
	}
	m.Primitive, m.ch.Primitive = publish.InPlace, publish.InPlace
	if err := m.oldFromHistory(c); err != nil {
		return err
	}
	return m.ch.Publish()
}

// oldFromHistory makes the kept version the one that an undo writes back: the
// file itself will hold the new bytes.
func (m *Mutation) oldFromHistory(c *Commit) error {
	f, err := c.s.History.Open(m.Prev.SHA)
	if err != nil {
		return err
	}
	c.Handles = append(c.Handles, f)
	m.ch.Old.Bytes = f
	return nil
}

// publishError says what a failed publication means to the caller.
func (m *Mutation) publishError(err error) error {
	switch {
	case errors.Is(err, publish.ErrForeign):
		return fault.New(fault.ChangedDuringWrite)
	case errors.Is(err, publish.ErrExists):
		return fault.New(fault.FileAlreadyExists).Hintf("another program just created the file; read it before you replace it")
	case errors.Is(err, publish.ErrBusy), publish.IsBusy(err):
		return m.busy(err)
	case errors.Is(err, publish.ErrCrossDevice):
		return fault.New(fault.CrossDevice).Because(err)
	}
	return err
}

// busy is the error of a file that cannot be replaced. A mount point never can be.
func (m *Mutation) busy(err error) error {
	e := fault.New(fault.IOBusy).Because(err)
	for _, of := range []*Mutation{m, m.Source} {
		if of == nil || !of.Prev.Exists {
			continue
		}
		at, err := of.Target.Parent.Stat()
		switch {
		case err != nil || of.Prev.Stat.SameVolume(at):
		case m.Primitive == publish.Replace:
			return e.Hintf("the file is a mount point, which cannot be replaced, now or later; ask the user to allow writing it in place (--in-place-on-busy, Options.InPlaceOnBusy)")
		default:
			return e.Hintf("the file is a mount point, which cannot be moved, moved over or removed, now or later; write to it, or ask the user to unmount it")
		}
	}
	return e
}

// published takes over what was found when the mutation got its name.
func (m *Mutation) published(c *Commit) error {
	if !m.ch.Foreign {
		return nil
	}
	m.Warn(call.WarnForeignWriteKept)
	if m.Primitive != publish.Append {
		return nil
	}
	// What another program appended a moment before stays, and the reply is
	// about the file as it is.
	f := m.ch.Opened()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	d, _, err := Measure(io.NewSectionReader(f, 0, st.Size))
	if err != nil {
		return err
	}
	m.SHA, m.Size, m.midState = d.Hex(), st.Size, d.State()
	return c.noteForeign(m, m.SHA, m.Size)
}

// unpublish takes the mutation back.
func (m *Mutation) unpublish() error {
	if m.ch == nil {
		return nil
	}
	err := m.ch.Undo()
	if errors.Is(err, publish.ErrForeign) {
		return fault.New(fault.ChangedDuringWrite)
	}
	return err
}
