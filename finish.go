package resilientwrite

import (
	"context"
	"errors"
	"io"
	"io/fs"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// verdict is what recovery finds of one mutation.
type verdict int

const (
	ready     verdict = iota // staged and whole, the target is as it was: publish
	published                // under its name; the traces remain to be taken away
	idle                     // nothing was to change here
	lost                     // the staged bytes are gone or torn, and were never published
	taken                    // somebody else changed the target: leave it, keep ours
)

// finisher brings one commit of a dead writer to its end. Doing it twice, or
// being killed in the middle and doing it again, gives the same result as once:
// each step only makes true what the next look will find.
type finisher struct {
	s     *Store
	rec   *journal.Record
	parts []*part
	over  bool // the file is to be written over in place, by a note
}

// part is one mutation of the commit as recovery sees it.
type part struct {
	m       *journal.Mutation
	i       int
	target  *relpath.Target
	staged  fsx.File // nil when nothing is staged
	stageSt fsx.Stat
	file    fsx.File // the target; nil when it does not exist
	fileSt  fsx.Stat
	sha     string // of the target
	later   []*journal.Mutation
	verdict verdict
	undone  bool // a file that was taken away had its name again when its writer died
}

func (f *finisher) close() {
	for _, p := range f.parts {
		if p.staged != nil {
			p.staged.Close()
		}
		if p.file != nil {
			p.file.Close()
		}
		p.target.Close()
	}
}

// finish judges every mutation before it touches any: the commit happens as a
// whole or not at all.
func (f *finisher) finish(ctx context.Context) error {
	aborted, err := f.readLater()
	if err != nil {
		return err
	}
	for i := range f.rec.Muts {
		p := f.parts[i]
		if err := f.open(p); err != nil {
			return err
		}
		if p.verdict, err = f.judge(p); err != nil {
			return err
		}
	}
	if aborted {
		return f.clear()
	}
	if f.has(lost) && !f.has(published) {
		return f.abort(ctx)
	}
	for _, p := range f.parts {
		f.holdBack(p)
		if err := f.forward(ctx, p); err != nil {
			return err
		}
	}
	if err := f.flush(); err != nil {
		return err
	}
	return f.clear()
}

// holdBack keeps the old name of a moved file whose new name is somebody
// else's: else the file would be gone from both.
func (f *finisher) holdBack(p *part) {
	if p.m.How != howUnlink || p.verdict != ready {
		return
	}
	for _, q := range f.parts {
		if q.m.From == p.m.Identity() && (q.verdict == taken || q.verdict == lost) {
			p.verdict = taken
		}
	}
}

func (f *finisher) has(v verdict) bool {
	for _, p := range f.parts {
		if p.verdict == v {
			return true
		}
	}
	return false
}

// readLater collects the rows behind the commit that speak of it or of its
// paths.
func (f *finisher) readLater() (aborted bool, err error) {
	for i := range f.rec.Muts {
		f.parts = append(f.parts, &part{m: &f.rec.Muts[i], i: i})
	}
	err = f.s.log.Range(f.rec.Seq+1, func(rec *journal.Record, _ journal.Pos) error {
		switch {
		case rec.Ref == f.rec.Seq && rec.Kind == journal.KindAbort:
			aborted = true
		case rec.Ref == f.rec.Seq && rec.Note != nil && rec.Note.What == "in_place":
			f.over = true
		case rec.Kind == journal.KindCommit:
			for j := range rec.Muts {
				for _, p := range f.parts {
					if rec.Muts[j].Identity() == p.m.Identity() {
						p.later = append(p.later, &rec.Muts[j])
					}
				}
			}
		}
		return nil
	})
	return aborted, err
}

// open opens what is staged and what is under the name.
func (f *finisher) open(p *part) error {
	var err error
	if p.target, err = f.s.locate(p.m.Identity()); err != nil {
		return err
	}
	if !p.m.Beside || p.target.Exists() {
		dir, name := f.stage(p)
		if p.staged, p.stageSt, err = openIfThere(dir, name); err != nil {
			return err
		}
	}
	if !p.target.Exists() {
		return nil
	}
	if p.file, p.fileSt, err = openIfThere(p.target.Parent, p.target.Name); err != nil {
		var kind *fsx.TypeError
		if errors.As(err, &kind) {
			p.sha = "not a file" // somebody put something else there
			return nil
		}
		return err
	}
	if p.file != nil {
		p.sha, err = shaOf(p.file, p.fileSt.Size)
	}
	return err
}

func (f *finisher) stage(p *part) (fsx.Dir, string) {
	if p.m.Beside {
		return p.target.Parent, besideName(f.rec.Commit, p.i)
	}
	return f.s.disk.staging, stagedName(f.rec.Commit, p.i)
}

func openIfThere(dir fsx.Dir, name string) (fsx.File, fsx.Stat, error) {
	f, err := dir.Open(name, fsx.Read, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fsx.Stat{}, nil
	}
	if err != nil {
		return nil, fsx.Stat{}, err
	}
	st, err := f.Stat()
	return f, st, err
}

func shaOf(f fsx.File, size int64) (string, error) {
	d, _, err := hashFile(f, size)
	if err != nil {
		return "", err
	}
	return d.hex(), nil
}

// judge decides what became of one mutation.
func (f *finisher) judge(p *part) (verdict, error) {
	if p.m.SHA256 == p.m.PrevSHA256 { // says nothing of the commit
		return idle, nil
	}
	switch p.m.How {
	case howAppend:
		return f.judgeAppend(p)
	case howUnlink:
		return f.judgeUnlink(p)
	}
	if p.staged == nil {
		// Traces are taken away only when the whole commit is published.
		if p.sha == p.m.SHA256 || p.isLater(p.sha) {
			return published, nil
		}
		return lost, nil
	}
	if p.file != nil && p.fileSt.SameFile(p.stageSt) {
		return published, nil
	}
	whole, err := p.holdsNew()
	if err != nil {
		return lost, err
	}
	switch {
	case whole && p.isLater(p.sha): // a later commit proves that it was published
		return published, nil
	case whole && p.sha == p.m.PrevSHA256:
		return ready, nil
	case whole && f.over, whole && p.m.How == howInPlace:
		return f.judgeInPlace(p), nil
	case whole && (p.sha == p.m.SHA256 || p.isLater(p.sha)):
		return published, nil // the staged file may be a copy, after a failed flush
	case whole:
		return taken, nil
	case p.sha == p.m.SHA256 || p.isLater(p.sha):
		return published, nil // the exchange brought the old bytes out
	case p.sha == p.m.PrevSHA256:
		return lost, nil // torn before it could be published
	}
	old, err := shaOf(p.staged, p.stageSt.Size)
	if err == nil && old == p.m.PrevSHA256 {
		return published, nil // and edited since
	}
	return taken, err
}

// judgeUnlink: the staged entry is an empty mark until the file takes its
// place.
func (f *finisher) judgeUnlink(p *part) (verdict, error) {
	p.undone = p.file != nil && p.staged != nil && p.fileSt.SameFile(p.stageSt)
	switch {
	case p.undone && p.sha == p.m.PrevSHA256:
		return ready, nil
	case p.file == nil, p.isLater(p.sha):
		return published, nil
	case p.staged == nil && p.sha == p.m.PrevSHA256:
		return lost, nil
	case p.sha == p.m.PrevSHA256 && p.stageSt.Size == 0:
		return ready, nil
	}
	return taken, nil
}

// judgeInPlace: a file that was being written over is neither the old one nor
// the new one, and the intent says that it may be ours.
func (f *finisher) judgeInPlace(p *part) verdict {
	if p.sha == p.m.SHA256 || p.file == nil {
		return published
	}
	return ready
}

// judgeAppend: the bytes up to the base must be those that were there, and
// what follows must be the payload or its beginning.
func (f *finisher) judgeAppend(p *part) (verdict, error) {
	if p.file == nil || p.fileSt.Size < p.m.PrevBytes {
		return taken, nil
	}
	base, err := shaOf(p.file, p.m.PrevBytes)
	if err != nil {
		return taken, err
	}
	if base != p.m.PrevSHA256 {
		return taken, nil
	}
	if p.fileSt.Size >= p.m.Bytes {
		if all, err := shaOf(p.file, p.m.Bytes); err != nil || all == p.m.SHA256 {
			return published, err
		}
	}
	whole := false
	if p.staged != nil && p.stageSt.Size == p.m.PayBytes {
		sha, err := shaOf(p.staged, p.stageSt.Size)
		if err != nil {
			return taken, err
		}
		whole = sha == p.m.PaySHA256
	}
	switch {
	case whole:
		return ready, nil
	case p.fileSt.Size == p.m.PrevBytes:
		return lost, nil
	}
	return taken, nil
}

// holdsNew reports whether the staged file holds the final bytes. One that was
// linked to its target may have been made longer by a later append. One that was
// exchanged may hold the old version instead, which may begin with the new one.
func (p *part) holdsNew() (bool, error) {
	grew := p.m.How == howLink && len(p.later) > 0 && p.stageSt.Size > p.m.Bytes
	if p.stageSt.Size != p.m.Bytes && !grew {
		return false, nil
	}
	sha, err := shaOf(p.staged, p.m.Bytes)
	return sha == p.m.SHA256, err
}

// isLater reports whether sha is what a later commit of the path wrote.
func (p *part) isLater(sha string) bool {
	for _, m := range p.later {
		if m.SHA256 == sha {
			return true
		}
	}
	return false
}

// forward takes one mutation to its published state.
func (f *finisher) forward(ctx context.Context, p *part) error {
	found := RecoveredPath{Path: p.m.Identity(), Seq: f.rec.Seq, SHA256: p.m.SHA256}
	switch p.verdict {
	case ready:
		changed, err := f.publish(p)
		if err != nil {
			return err
		}
		if changed {
			f.s.report.Finished = append(f.s.report.Finished, found)
			return nil
		}
		p.verdict = taken
		return f.conflict(ctx, p, found)
	case taken, lost:
		return f.conflict(ctx, p, found)
	}
	return nil
}

// publish does what the dead writer could not. It reports false when the
// target turned out to be somebody else's.
func (f *finisher) publish(p *part) (bool, error) {
	if p.m.How == howAppend {
		w, err := p.target.Parent.Open(p.target.Name, fsx.Read|fsx.Write, 0)
		if err != nil {
			return false, err
		}
		defer w.Close()
		return completeAppend(w, p.m.PrevBytes, p.staged, p.m.PayBytes)
	}
	if p.m.How == howUnlink {
		return true, f.takeAway(p)
	}
	if err := p.staged.Sync(); err != nil {
		return false, err
	}
	if err := f.makeParents(p); err != nil {
		return false, err
	}
	dir, name := f.stage(p)
	if err := f.s.syncDir(dir); err != nil {
		return false, err
	}
	if f.over || p.m.How == howInPlace {
		return true, f.writeOver(p)
	}
	if p.file == nil {
		err := dir.Link(name, p.target.Parent, p.target.Name)
		if errors.Is(err, fsx.ErrUnsupported) {
			err = dir.RenameNoReplace(name, p.target.Parent, p.target.Name)
		}
		if isExist(err) {
			return false, nil
		}
		return true, err
	}
	err := dir.Exchange(name, p.target.Parent, p.target.Name)
	if errors.Is(err, fsx.ErrUnsupported) {
		if err = f.s.history.Save(p.reader(), p.fileSt.Size, p.sha); err == nil {
			err = dir.Rename(name, p.target.Parent, p.target.Name)
		}
	}
	return true, err
}

// takeAway moves a file over its staged entry. Between two names of one file
// that would do nothing, so the entry is an empty mark again before.
func (f *finisher) takeAway(p *part) error {
	dir, name := f.stage(p)
	if p.undone {
		mark, err := dir.Open(name+spoolSuffix, fsx.Write|fsx.Create, 0o600)
		if err != nil {
			return err
		}
		mark.Close()
		if err := dir.Rename(name+spoolSuffix, dir, name); err != nil {
			return err
		}
		p.undone = false
	}
	return p.target.Parent.Rename(p.target.Name, dir, name)
}

func (p *part) reader() io.Reader { return io.NewSectionReader(p.file, 0, p.fileSt.Size) }

// writeOver completes a write in place. What is there now goes into history
// first: it may be a mixture, and it may be somebody's work.
func (f *finisher) writeOver(p *part) error {
	if err := f.s.history.Save(p.reader(), p.fileSt.Size, p.sha); err != nil {
		return err
	}
	w, err := p.target.Parent.Open(p.target.Name, fsx.Read|fsx.Write, 0)
	if err != nil {
		return err
	}
	defer w.Close()
	return overwrite(w, io.NewSectionReader(p.staged, 0, p.m.Bytes), p.m.Bytes)
}

// makeParents makes the directories the target needs, durably.
func (f *finisher) makeParents(p *part) error {
	dir := p.target.Parent
	for _, name := range p.target.Missing {
		if err := dir.Mkdir(name, dirPerm(p.m.Identity())); err != nil && !isExist(err) {
			return err
		}
		if err := dir.Sync(); err != nil {
			return err
		}
		next, err := dir.OpenDir(name)
		if err != nil {
			return err
		}
		if dir != p.target.Parent {
			dir.Close()
		}
		dir = next
	}
	if dir != p.target.Parent {
		old := p.target
		p.target = &relpath.Target{Parent: dir, Name: old.Name, Path: old.Path}
		old.Close()
	}
	return nil
}

// conflict leaves the target alone, keeps our version in history, and leaves a
// row that tells of it.
func (f *finisher) conflict(ctx context.Context, p *part, found RecoveredPath) error {
	reason := "changed_by_somebody_else"
	if p.verdict == lost {
		reason = "staged_bytes_lost"
	}
	if p.staged != nil && p.m.How != howAppend && p.m.How != howUnlink && p.m.Class == "" {
		sha, err := shaOf(p.staged, p.stageSt.Size)
		if err == nil {
			err = f.s.history.Save(io.NewSectionReader(p.staged, 0, p.stageSt.Size), p.stageSt.Size, sha)
		}
		if err != nil {
			return err
		}
	}
	if p.staged != nil && p.m.How == howAppend && p.m.Class == "" {
		if err := f.s.history.Save(io.NewSectionReader(p.staged, 0, p.stageSt.Size), p.stageSt.Size, p.m.PaySHA256); err != nil && p.stageSt.Size == p.m.PayBytes {
			return err
		}
	}
	row := f.s.rowAbout(journal.KindConflict, f.rec, reason)
	row.Muts = []journal.Mutation{{
		Op: p.m.Op, Path: p.m.Path, Real: p.m.Real, SHA256: p.sha, Bytes: p.fileSt.Size,
		PrevSHA256: p.m.SHA256, PrevBytes: p.m.Bytes, Rev: p.m.Rev + 1, PrevSeq: f.rec.Seq,
	}}
	if len(p.later) > 0 { // the path has moved on; the row only tells
		row.Muts[0].Rev, row.Muts[0].PrevSeq = 0, 0
	}
	found.Reason = reason
	f.s.report.Conflicts = append(f.s.report.Conflicts, found)
	return f.s.writeRow(ctx, row)
}

// abort undoes a commit that was never acknowledged. Nothing of it was
// published, so there is nothing to take back but directories.
func (f *finisher) abort(ctx context.Context) error {
	if err := f.s.writeAbort(ctx, f.rec, "crash_before_commit"); err != nil {
		return err
	}
	for _, p := range f.parts {
		f.s.report.Aborted = append(f.s.report.Aborted, RecoveredPath{
			Path: p.m.Identity(), Seq: f.rec.Seq, SHA256: p.m.SHA256, Reason: "crash_before_commit",
		})
	}
	if err := f.clear(); err != nil {
		return err
	}
	return f.unmakeDirs()
}

// unmakeDirs removes the directories that the commit made, as far as they are
// empty.
func (f *finisher) unmakeDirs() error {
	for _, m := range f.rec.Muts {
		for i := len(m.Dirs) - 1; i >= 0; i-- {
			target, err := f.s.locate(m.Dirs[i])
			if err != nil {
				continue
			}
			if target.Exists() {
				target.Parent.Rmdir(target.Name)
			}
			target.Close()
		}
	}
	return nil
}

// flush makes the names of the whole commit durable, whoever published them.
func (f *finisher) flush() error {
	for _, p := range f.parts {
		if !p.target.Exists() {
			continue
		}
		if p.verdict == published && p.file != nil {
			if err := p.file.Sync(); err != nil {
				return err
			}
		}
		if err := f.s.syncDir(p.target.Parent); err != nil {
			return err
		}
	}
	// Directories that the dead writer made may not be durable yet.
	for _, m := range f.rec.Muts {
		for _, dir := range m.Dirs {
			target, err := f.s.locate(dir)
			if err != nil {
				continue
			}
			err = f.s.syncDir(target.Parent)
			target.Close()
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// clear takes the traces away: what a staged name holds that is not the new
// version goes into history.
func (f *finisher) clear() error {
	for _, p := range f.parts {
		dir, name := f.stage(p)
		if err := dir.Remove(name + spoolSuffix); err != nil && !isAbsent(err) { // was never part of the commit
			return err
		}
		st, err := dir.Lstat(name)
		if err == nil {
			tr := trace{dir: dir, name: name}
			if p.holdsOld(st) {
				tr.old, tr.check = p.m.PrevSHA256, true
			}
			if tr.old == "" {
				err = dir.Remove(name)
			} else if f.s.keep(tr) != nil {
				f.s.report.Warnings = append(f.s.report.Warnings, warning(WarnHistorySkipped))
			}
		}
		if err != nil && !isAbsent(err) {
			return err
		}
		if p.m.Beside {
			if err := f.s.disk.staging.Remove(stagedName(f.rec.Commit, p.i)); err != nil && !isAbsent(err) {
				return err
			}
		}
	}
	return nil
}

// holdsOld reports whether the staged name, which st describes now, holds a
// previous version.
func (p *part) holdsOld(st fsx.Stat) bool {
	if p.m.Class != "" { // objects of the state directory have no history
		return false
	}
	if p.undone { // it has its name back, and the entry is only another one
		return false
	}
	if p.m.How == howUnlink {
		return st.Size > 0 || p.m.PrevBytes == 0 && p.verdict == published
	}
	if p.m.How != howExchange || p.m.SHA256 == p.m.PrevSHA256 {
		return false
	}
	switch p.verdict {
	case ready: // published by us: the exchange brought the old one out
		return !st.SameFile(p.stageSt)
	case published:
		whole, err := p.holdsNew()
		return err == nil && !whole && (p.file == nil || !st.SameFile(p.fileSt))
	}
	return false
}
