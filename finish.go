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

// conflict leaves the target alone, keeps our version in history, and leaves a
// row that tells of it.
func (f *finisher) conflict(ctx context.Context, p *part, found RecoveredPath) error {
	reason := "changed_by_somebody_else"
	if p.verdict == lost {
		reason = "staged_bytes_lost"
	}
	if err := f.keepOurs(p); err != nil {
		return err
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
	return f.s.writeRow(withSpare(ctx), row)
}

// keepOurs puts the version that could not be published into history; of an
// append, what was to be added, unless a power cut has torn it.
func (f *finisher) keepOurs(p *part) error {
	if p.staged == nil || p.m.How == howUnlink || p.m.Class != "" {
		return nil
	}
	sha, err := shaOf(p.staged, p.stageSt.Size)
	if err != nil || p.m.How == howAppend && sha != p.m.PaySHA256 {
		return err
	}
	return f.s.history.Save(io.NewSectionReader(p.staged, 0, p.stageSt.Size), p.stageSt.Size, sha)
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
