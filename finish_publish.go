package resilientwrite

import (
	"errors"
	"io"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

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
