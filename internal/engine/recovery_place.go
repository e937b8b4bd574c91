package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// deadCommit is a commit of a dead writer.
type deadCommit struct {
	rec   *journal.Record
	again bool                         // its writer saw a flush fail: what it published is published again
	dirs  map[string]bool              // that it makes
	taken map[string]*journal.Mutation // that take away a name

	turns  turns // names that it turns
	turned bool  // what clears them is durable
	left   bool  // slots hold the only copies of its versions
	goes   map[*turn][]string
}

func (s *Engine) newDeadCommit(rec *journal.Record) *deadCommit {
	d := &deadCommit{rec: rec, again: s.inDoubt(rec.Writer), dirs: map[string]bool{}, taken: map[string]*journal.Mutation{}, turns: turnsOf(rec)}
	for i := range rec.Muts {
		m := &rec.Muts[i]
		for _, dir := range m.Dirs {
			d.dirs[dir] = true
		}
		if m.SHA256 == "" {
			d.taken[m.Identity()] = m
		}
	}
	return d
}

// finisher completes one commit of a dead writer, or some mutations of a large one.
// Doing it twice, or being killed in the middle and doing it again, gives the same result as once.
type finisher struct {
	*deadCommit
	s           *Engine
	found       Report
	muts        []journal.Mutation
	first, last bool // mutations of the commit are among them
	parts       []*recovered
	marks       []fsx.Dir // of slots whose removal is to be durable
	skipped     bool      // a version could not be kept
}

func (f *finisher) close() {
	for _, p := range f.parts {
		p.close()
	}
}

// place brings every file of the commit under its name by itself: that the
// commit happened is decided.
func (f *finisher) place(ctx context.Context) error {
	for i := range f.muts {
		m := &f.muts[i]
		if m.SHA256 != "" || !f.turns.clears(m.Identity()) {
			if err := f.flushCleared(); err != nil {
				return err
			}
		}
		if m.Slot == "" {
			continue
		}
		p := &recovered{f: f, m: m}
		f.parts = append(f.parts, p)
		err := p.open()
		if err != nil && p.ch == nil {
			return err
		}
		later, lerr := p.isOver()
		switch {
		case lerr != nil:
			err = lerr
		case later && !IsShortage(err):
			p.keepOrLeave()
			continue
		case err == nil:
			err = p.place()
		}
		if IsShortage(err) {
			return err // it says nothing of this file: the next Open places it
		}
		if err != nil && err != errGone {
			if errors.Is(err, syscall.EIO) {
				f.found.broken = err
			}
			if m.Class != "" || f.again { // history has none of its bytes, or they may be under a name that can be lost
				p.leave()
				f.found.Pending++
				f.found.doubtful = f.found.doubtful || f.again
				continue
			}
			p.reason = "unplaced"
		}
		if p.reason != "" {
			if err := p.conflict(ctx); err != nil {
				return err
			}
		}
	}
	if !f.last {
		return nil
	}
	if err := f.flushCleared(); err != nil {
		return err
	}
	return f.makeEmpty()
}

// flush makes the names of the commit durable, whatever process published them. What is
// in seen is flushed already.
func (f *finisher) flush(seen map[inode]bool) error {
	for _, p := range f.parts {
		for _, t := range []*relpath.Target{p.target, p.source} {
			if t == nil || p.cleared {
				continue
			}
			st, err := t.Parent.Stat()
			key := inode{st.Dev, st.Ino}
			if err == nil && seen[key] {
				continue
			}
			if err := f.s.SyncDir(t.Parent); err != nil {
				return err
			}
			seen[key] = true
		}
	}
	if !f.first { // before any slot is emptied
		return nil
	}
	for i := range f.rec.Muts {
		for _, dir := range f.rec.Muts[i].Dirs { // the dead writer may not have flushed them
			if err := f.s.syncParent(dir); err != nil {
				return err
			}
		}
	}
	return nil
}

// empty empties the slots.
func (f *finisher) empty() error {
	for _, p := range f.parts {
		if m := p.m; p.reason == "" && m.Class == "" && m.SHA256 != "" {
			f.s.Heads.add(&head{sha: m.SHA256, size: m.Bytes, path: m.Identity(), rev: m.Rev, seq: f.rec.Seq})
		}
		mark, err := p.empty()
		if err != nil {
			return err
		}
		if (mark || f.again) && p.ch != nil && p.ch.Slot.Dir != nil {
			f.marks = append(f.marks, p.ch.Slot.Dir)
		}
	}
	return nil
}

// recovered is one mutation of the commit.
type recovered struct {
	f      *finisher
	m      *journal.Mutation
	target *relpath.Target
	source *relpath.Target // of a move
	file   fsx.File        // what the slot holds, while it is the staged file
	old    fsx.File        // of a write in place: the version before
	// replaced is what the slot received from the workspace.
	replaced fsx.File
	flushed  bool // replaced is durable
	ch       *publish.Change
	reason   string // why the file could not be placed
	left     bool   // the slot holds the only copy of our version
	in       *slotDir
	witness  witness // of in
	cleared  bool    // the directory of target was flushed, and may be gone
}

func (p *recovered) close() {
	for _, f := range []fsx.File{p.file, p.old, p.replaced} {
		if f != nil {
			f.Close()
		}
	}
	p.target.Close()
	p.source.Close()
	if p.ch != nil {
		p.ch.Close()
	}
}

// open makes the change of the row again.
func (p *recovered) open() error {
	s, m := p.f.s, p.m
	var err error
	ch := &publish.Change{Primitive: publish.Primitive(m.How), Guarded: true, Redo: true, Old: beforeOf(m), Save: p.saveTarget, Flush: s.syncDirs}
	if ch.Primitive == publish.Replace && s.Rows.isOver(p.f.rec.Seq, m.Identity()) {
		ch.Primitive = publish.InPlace
	}
	if p.in, err = s.slotDirAt(m.SlotDir); err != nil {
		return err
	}
	if p.witness, err = p.in.witnessed(); err != nil {
		return err
	}
	ch.Slot = p.in.slot(m.Slot)
	ch.Slot.Born = m.SlotBorn
	ch.Slot.Copied, ch.Slot.Is = p.witness == witnessCopied, p.isStaged
	p.ch = ch // where the name leads nowhere, the bytes are kept
	if err := p.openBytes(); err != nil {
		return err
	}
	if p.target, err = s.LocateEntry(m.Identity()); err == nil && p.target.Linked && p.f.turns.over(m.Identity()) != nil {
		err = publish.ErrForeign
	}
	if err != nil {
		if p.file == nil {
			return p.foundGone(err)
		}
		return err
	}
	if m.From != "" {
		if p.source, err = s.Locate(m.From); err != nil {
			return err
		}
		p.ch.Source = publish.Name{Dir: p.source.Parent, Name: p.source.Name}
		if src := p.f.taken[m.From]; src != nil {
			p.ch.Moved = beforeOf(src)
		}
	}
	p.ch.Target = publish.Name{Dir: p.target.Parent, Name: p.target.Name}
	return nil
}

// foundGone is open where the name leads nowhere any more: a mutation that was
// published has nothing left to be done.
func (p *recovered) foundGone(err error) error {
	if held, herr := p.ch.Slot.Holds(); herr != nil || held == publish.Staged {
		return err
	}
	var errno syscall.Errno
	if p.f.again && errors.As(err, &errno) && !IsAbsent(err) && !fsx.NotDir(err) { // the name may lead there
		return err
	}
	return errGone
}

var errGone = errors.New("published under a name that leads nowhere now")

// isStaged reports, of a copied store, whether the slot holds what was staged.
func (p *recovered) isStaged(st fsx.Stat) (bool, error) {
	how := p.ch.Primitive
	if how == publish.Move || how == publish.Delete {
		return st.Size == 0, nil
	}
	if st.Kind != fsx.KindOf(p.m.Mode) {
		return false, nil
	}
	f, err := fsx.OpenEntry(p.ch.Slot.Dir, p.ch.Slot.Name)
	if err != nil {
		return false, err
	}
	defer f.Close()
	want, size := p.m.SHA256, st.Size
	switch {
	case how == publish.Append:
		want = p.m.PaySHA256
	case p.m.PrevBytes != publish.Room:
		if size, err = publish.SizeIn(f, st, p.m.Bytes); err != nil {
			return false, err
		}
	}
	sum, _, err := Measure(io.NewSectionReader(f, 0, size))
	return sum.Hex() == want, err
}

// saveTarget makes what is under the name a version.
func (p *recovered) saveTarget() error {
	f, err := fsx.OpenEntry(p.target.Parent, p.target.Name)
	if IsAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	sha, st, err := HashFile(f)
	if err != nil {
		return err
	}
	return p.save(f, st.Size, sha)
}

func (p *recovered) save(f fsx.File, size int64, sha string) error {
	if done, err := p.f.s.shareHistory(); err == nil {
		defer done()
	}
	return p.f.s.History.Save(io.NewSectionReader(f, 0, size), size, sha)
}

// openBytes opens the staged file and, of a write in place or a move over
// another file, the version before.
func (p *recovered) openBytes() error {
	held, err := p.ch.Slot.Holds()
	if err != nil || held != publish.Staged {
		return err
	}
	if p.file, err = fsx.OpenEntry(p.ch.Slot.Dir, p.ch.Slot.Name); err != nil {
		return err
	}
	st, err := p.file.Stat()
	if err == nil && st.Size == publish.Room && p.m.Bytes < publish.Room {
		if err = p.ch.Slot.Cut(st, p.m.Bytes); err == nil {
			st, err = p.file.Stat()
		}
	}
	if err != nil {
		return err
	}
	p.ch.New = publish.File{Exists: true, Stat: st, SHA256: p.m.SHA256, Bytes: p.file}
	if p.ch.Primitive == publish.Append {
		p.ch.New.SHA256 = p.m.PaySHA256
	}
	if (p.ch.Primitive == publish.InPlace || p.ch.Primitive == publish.Move) && p.m.PrevSHA256 != "" {
		if p.old, err = p.f.s.History.Open(p.m.PrevSHA256); err == nil {
			p.ch.Old.Bytes = p.old
		} else if !IsAbsent(err) {
			return err
		}
	}
	return nil
}

// isOver reports whether a later row of one of the paths decides what is there.
func (p *recovered) isOver() (bool, error) {
	for _, path := range p.paths() {
		last, err := p.f.s.LastRow(path)
		if err != nil || last.Seq != p.f.rec.Seq {
			return err == nil, err
		}
	}
	return false, nil
}

// place brings the file under its name where that is still to be done and the
// target is what the row expects. Otherwise it says why not.
func (p *recovered) place() error {
	if seen, err := p.witnessed(); err != nil || !seen {
		return err
	}
	if ok, err := p.makeParents(); err != nil || !ok {
		return err
	}
	if p.f.again {
		if err := p.reopen(); err != nil {
			return err
		}
	}
	if err := p.clearName(); err != nil {
		return err
	}
	state, err := p.ch.Judge()
	if err != nil || state == publish.Published {
		return err
	}
	if state == publish.Taken {
		p.reason = "changed_by_somebody_else"
		return nil
	}
	if whole, err := p.isWhole(); err != nil || !whole {
		p.reason = "staged_bytes_lost"
		return err
	}
	err = p.ch.Publish()
	if errors.Is(err, publish.ErrForeign) || errors.Is(err, publish.ErrExists) {
		p.reason = "changed_by_somebody_else"
		return p.ch.Undo()
	}
	if err != nil {
		return err
	}
	p.f.found.Finished = append(p.f.found.Finished, p.found())
	return nil
}

// reopen makes a mutation pending again whose names may be lost although they
// can be seen: flushing them once more would prove nothing, so this comes before
// the judgment, which completes a move. What another program has changed since
// stays as it is.
func (p *recovered) reopen() error {
	if rewritten, err := p.rewritten(); err != nil || rewritten {
		return err
	}
	back, err := p.ch.Reopen()
	if err != nil || !back {
		return err
	}
	return p.openBytes()
}

// rewritten reports whether the file was written in place by another of its names since.
func (p *recovered) rewritten() (bool, error) {
	if id, err := sharedFile(p.target); p.m.SHA256 == "" || err != nil || id == (inode{}) {
		return false, err
	}
	sha, _, err := p.f.s.HashEntry(p.m.Identity())
	return err == nil && sha != p.m.SHA256, err
}

// witnessed reports whether a slot that is gone says that the mutation was
// published. Where the directory of slots itself was removed, only the target can say so.
func (p *recovered) witnessed() (bool, error) {
	if p.witness != witnessGone {
		return true, nil
	}
	held, err := p.ch.Slot.Holds()
	if err != nil || held != publish.Empty {
		return err == nil, err
	}
	sha, _, _ := p.f.s.HashEntry(p.m.Identity())
	from, _, _ := p.f.s.HashEntry(p.m.From)
	if sha != p.m.SHA256 || p.m.From != "" && from != "" {
		p.reason = "unwitnessed"
	}
	return false, nil
}

// paths are the names that the mutation changes.
func (p *recovered) paths() []string {
	if p.m.From != "" {
		return []string{p.m.Identity(), p.m.From}
	}
	return []string{p.m.Identity()}
}

// makeParents makes the directories that the row says the commit makes. ok is
// false where others are missing: then the target is not what the row expects.
func (p *recovered) makeParents() (ok bool, err error) {
	if p.target.Exists() {
		return true, nil
	}
	held, err := p.ch.Slot.Holds()
	if err != nil || held != publish.Staged || p.ch.Primitive == publish.Delete {
		return false, err
	}
	path := ExistingPath(p.target)
	for _, name := range p.target.Missing {
		if path = JoinPath(path, name); !p.f.dirs[path] {
			p.reason = "changed_by_somebody_else"
			return false, nil
		}
	}
	for !p.target.Exists() {
		was := p.target
		dir, name := was.Parent, was.Missing[0]
		if err := durable.Mkdirs(dir, dirPerm(p.m.Identity()), name); err != nil {
			return false, err
		}
		next, err := dir.OpenDir(name)
		if err != nil {
			return false, err
		}
		p.target = &relpath.Target{Parent: next, Missing: was.Missing[1:], Name: was.Name, Path: was.Path}
		was.Close()
	}
	p.ch.Target.Dir = p.target.Parent
	return true, nil
}

// isWhole compares the staged bytes with the row.
func (p *recovered) isWhole() (bool, error) {
	if p.ch.Primitive == publish.Move || p.ch.Primitive == publish.Delete {
		return true, nil
	}
	if p.file == nil {
		return false, nil
	}
	sha, _, err := HashFile(p.file)
	return sha == p.ch.New.SHA256, err
}

// keepOrLeave makes the staged bytes a version, or leaves them in the slot for the next Open.
func (p *recovered) keepOrLeave() {
	if p.keepOurs() != nil {
		p.leave()
		p.f.found.Warn(call.WarnHistorySkipped)
	}
}

// leave leaves the staged bytes in the slot for the next Open.
func (p *recovered) leave() {
	p.left = true
	p.f.s.Unkept.Store(p.in.label(p.m.Slot), p.ch.Slot)
}

var errUnread = errors.New("the staged file could not be opened")

// keepOurs makes the staged bytes a version; of an append, the bytes to be
// added.
func (p *recovered) keepOurs() error {
	if p.m.Class != "" || p.ch.Primitive == publish.Move || p.ch.Primitive == publish.Delete {
		return nil
	}
	if p.file == nil {
		held, err := p.ch.Slot.Holds()
		if err == nil && held == publish.Staged {
			err = errUnread
		}
		return err
	}
	st, err := p.file.Stat()
	if err != nil {
		return err
	}
	size, err := publish.SizeIn(p.file, st, p.m.Bytes) // it may not have been cut
	if err != nil {
		return err
	}
	sum, _, err := Measure(io.NewSectionReader(p.file, 0, size))
	if err != nil {
		return err
	}
	return p.save(p.file, size, sum.Hex())
}

func (p *recovered) found() RecoveredPath {
	return RecoveredPath{Path: p.m.Identity(), Seq: p.f.rec.Seq, SHA256: p.m.SHA256, Reason: p.reason}
}

// conflict leaves the target alone, keeps our version in history, and leaves a
// row that says so.
func (p *recovered) conflict(ctx context.Context) error {
	s := p.f.s
	p.keepOrLeave()
	p.f.found.Conflicts = append(p.f.found.Conflicts, p.found())
	row := s.RowAbout(journal.KindConflict, p.f.rec, p.reason)
	for _, path := range p.paths() {
		sha, size, _ := s.HashEntry(path) // what cannot be read has none
		m := journal.Mutation{Op: p.m.Op, Path: path, SHA256: sha, Bytes: size, PrevSHA256: p.m.SHA256, PrevBytes: p.m.Bytes}
		if path == p.m.Identity() {
			m.Path, m.Real = p.m.Path, p.m.Real
		} else {
			m.PrevSHA256, m.PrevBytes = "", 0
		}
		last, err := s.LastRow(path)
		if err != nil {
			return err
		}
		if last.Seq == p.f.rec.Seq { // otherwise the path has moved on, and the row only says
			m.Rev, m.PrevSeq = uint64(last.Rev)+1, p.f.rec.Seq
		}
		row.Muts = append(row.Muts, m)
	}
	return s.WriteRow(WithSpare(ctx), row)
}

// empty removes the slot. A previous version that it holds becomes one of
// history. mark reports that what was removed could repeat the mutation.
func (p *recovered) empty() (mark bool, err error) {
	if p.ch == nil || p.left {
		return false, nil
	}
	slot, held := p.ch.Slot, publish.Other
	if p.replaced == nil {
		if held, err = slot.Holds(); err != nil {
			return false, err
		}
	}
	if held == publish.Other && p.keepsOld() {
		x := spent{slot: slot, old: p.m.PrevSHA256, held: p.replaced, check: true, flushed: p.flushed, path: p.m.Identity(), seq: p.f.rec.Seq}
		if p.f.s.keep(x) != nil {
			p.f.skipped = true
			return false, nil
		}
	} else if err := slot.Remove(); err != nil {
		return false, err
	}
	return held == publish.Staged || p.ch.Linked, nil
}

// openReplaced opens what the slot received from the workspace, if it did.
func (p *recovered) openReplaced() bool {
	if p.ch == nil || p.left || p.m.Class != "" {
		return false
	}
	held, err := p.ch.Slot.Holds()
	if err != nil || held != publish.Other {
		return false
	}
	if p.replaced, err = p.ch.Slot.Dir.Open(p.ch.Slot.Name, fsx.Read, 0); err != nil { // a symbolic link was flushed with its name
		p.replaced = nil
	}
	return err == nil
}

// keepsOld reports whether what another file of the slot is kept. What an
// append replaced is the beginning of the new file, as long as that is there.
func (p *recovered) keepsOld() bool {
	if p.m.Class != "" {
		return false
	}
	if p.m.PaySHA256 == "" {
		return true
	}
	f, err := p.ch.Slot.Dir.Open(p.ch.Slot.Name, fsx.Read, 0)
	if err != nil {
		return true
	}
	defer f.Close()
	free := f.Unshared() // before it is hashed
	sha, _, err := HashFile(f)
	now, _, _ := p.f.s.HashEntry(p.m.Identity())
	return err != nil || !free || sha != p.m.PrevSHA256 || now != p.m.SHA256
}

// id is the identity of the file in a row: inode, size, modification and change
// time in nanoseconds, and the time of birth where it counts.
func (p fileFacts) id(s *Engine) string {
	if !p.Exists {
		return ""
	}
	id := fmt.Sprintf("%d.%d.%d.%d", p.Stat.Ino, p.Stat.Size, p.Stat.Mtime, p.Stat.Ctime)
	if born := s.bornAt(p.Stat); born != 0 {
		id += fmt.Sprintf(".%d", born)
	}
	return id
}

// bornAt is the time of birth of a file, 0 where the file system does not keep it.
func (s *Engine) bornAt(st fsx.Stat) int64 {
	if !s.births {
		return 0
	}
	return st.Btime
}

// beforeOf is the file that a mutation replaces, as its row says.
func beforeOf(m *journal.Mutation) publish.File {
	f := publish.File{Exists: m.PrevSHA256 != "", SHA256: m.PrevSHA256}
	f.Stat.Size = m.PrevBytes
	if before := m.ModeBefore(); fsx.KindOf(before) == fsx.Symlink {
		f.Stat.Mode = before
	}
	fmt.Sscanf(strings.ReplaceAll(m.PrevID, ".", " "), "%d %d %d %d %d", &f.Stat.Ino, &f.Stat.Size, &f.Stat.Mtime, &f.Stat.Ctime, &f.Stat.Btime)
	return f
}
