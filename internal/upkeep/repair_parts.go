package upkeep

import (
	"context"
	"errors"
	"strings"

	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/checkpoint"
	"github.com/resilientwrite/resilientwrite/internal/layer/chunks"
	"github.com/resilientwrite/resilientwrite/internal/layer/drafts"
	"github.com/resilientwrite/resilientwrite/internal/layer/scratch"
)

// aside moves a file of the state directory to quarantine/.
func (p *repairing) aside(ctx context.Context, q admin.CheckProblem) error {
	part, name := splitPath(strings.TrimPrefix(q.Path, engine.StateDirName+"/"))
	if part == "" && name == quarantineName { // it has no place to go to
		return nil
	}
	if q.Code == "object_damaged" { // it is named without its directory
		part = engine.JoinPath(part, name[:2])
	}
	dir, done, err := fsx.OpenPath(p.Engine.Disk.State, part)
	if engine.IsAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer done()
	if _, err := dir.Lstat(name); engine.IsAbsent(err) {
		return nil
	}
	p.did(admin.RepairSetAside, q, "moved to quarantine")
	if p.DryRun {
		return nil
	}
	if err := p.goes(ctx, engine.JoinPath(part, name)); err != nil {
		return err
	}
	return p.moveAside(dir, part, name)
}

// goes records that an object is moved away although its row says that it exists.
func (p *repairing) goes(ctx context.Context, object string) error {
	sha := p.Chunks.RecordedSHA(object)
	if sha == "" {
		return nil
	}
	return p.noteChanges(ctx, journal.NoteMended, "damaged object set aside", []journal.Change{
		{Path: engine.StateDirName + "/" + object, Was: sha},
	})
}

// moveAside moves a file to quarantine/, under a free name that contains its old path.
func (s *Store) moveAside(dir fsx.Dir, part, name string) error {
	_, err := s.Engine.SetAside(dir, name, "damaged-"+strings.ReplaceAll(engine.JoinPath(part, name), "/", "-"))
	return err
}

// scratchIndex rewrites the index of the scratchpad, with an entry for every
// object; the damaged one is kept.
func (p *repairing) scratchIndex(ctx context.Context, q admin.CheckProblem) error {
	p.did(admin.RepairRebuilt, q, "rewritten with every known entry; unreadable lines are in quarantine")
	if p.DryRun {
		return nil
	}
	return p.Commit(ctx, "scratch_index", func(c *engine.Commit) {
		c.ExtraLocks = []string{engine.PathLock(engine.StateDirName + "/" + scratch.Index)}
		c.Plan = func(context.Context) error {
			pad, err := p.Scratch.Open()
			if err != nil {
				return err
			}
			m, err := p.Scratch.IndexWithout(c, pad, nil)
			if err != nil {
				return err
			}
			return c.Choose(m)
		}
	})
}

// checkpoint sets one damaged checkpoint aside, with its data.
func (p *repairing) checkpoint(ctx context.Context, q admin.CheckProblem) error {
	_, file := splitPath(q.Path)
	name := strings.TrimSuffix(file, checkpoint.FileSuffix)
	p.did(admin.RepairSetAside, q, "moved to quarantine")
	if p.DryRun {
		return nil
	}
	if err := p.oddFiles(ctx, name); err != nil {
		return err
	}
	return p.Commit(ctx, "checkpoint "+name, func(c *engine.Commit) {
		c.ExtraLocks = []string{engine.PathLock(checkpoint.Path(name))}
		c.Plan = func(context.Context) error {
			old, err := p.Checkpoints.Read(name, true)
			if engine.IsAbsent(err) || err == nil && old.Corrupt == "" {
				return c.Choose()
			}
			if err != nil {
				return err
			}
			files, err := p.Checkpoints.Quarantine(old, false)
			if err != nil {
				return err
			}
			var muts []*engine.Mutation
			for _, file := range files {
				muts = append(muts, checkpoint.Object(file, engine.OpDelete))
			}
			return c.Choose(muts...)
		}
	})
}

// oddFiles records which entries of a checkpoint are not regular files. They are moved,
// and no deletion row says that they are gone.
func (p *repairing) oddFiles(ctx context.Context, name string) error {
	saved, err := p.Checkpoints.Read(name, true)
	if engine.IsAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, file := range append(saved.Blobs, name+checkpoint.FileSuffix) {
		if !p.notAFile(checkpoint.Dir, file) {
			continue
		}
		if err := p.goes(ctx, checkpoint.Dir+"/"+file); err != nil {
			return err
		}
	}
	return nil
}

// manifest rewrites the list of a session from its pieces; the damaged one
// is kept.
func (p *repairing) manifest(ctx context.Context, q admin.CheckProblem) error {
	part, _ := splitPath(q.Path)
	session := strings.TrimPrefix(part, chunks.Dir+"/")
	p.did(admin.RepairRebuilt, q, "rebuilt from the chunks and the journal")
	if p.DryRun {
		return nil
	}
	dir, done, err := fsx.OpenPath(p.Engine.Disk.State, part)
	if err == nil {
		err = p.keepCopy(dir, chunks.ManifestName, "damaged-"+strings.ReplaceAll(q.Path, "/", "-"))
		done()
	}
	if err != nil {
		return err
	}
	return p.Commit(ctx, "manifest "+session, func(c *engine.Commit) {
		c.ExtraLocks = []string{chunks.Lock(session)}
		c.Plan = func(context.Context) error {
			sess, err := p.Chunks.Read(session)
			if err != nil || sess.State == chunks.ManifestWhole || !sess.Found {
				return errors.Join(err, c.Choose())
			}
			if err := p.Chunks.FillHashes(sess); err != nil {
				return err
			}
			m := engine.NewObject(chunks.ManifestObject(session), "manifest", engine.OpOverwrite)
			m.Ungated = true
			if err := chunks.HoldManifest(m, sess); err != nil {
				return err
			}
			return c.Choose(m)
		}
	})
}

// keepCopy copies a file that is about to be rewritten to quarantine/.
func (p *repairing) keepCopy(dir fsx.Dir, name, as string) error {
	return p.Engine.Quarantine(func(to fsx.Dir) error { return engine.CopyDamaged(dir, name, to, as) })
}

// draft renames a file that is no longer a draft, so that its name is free.
func (p *repairing) draft(q admin.CheckProblem) error {
	dir, err := p.Drafts.OpenDir()
	if dir == nil || err != nil {
		return err
	}
	defer dir.Close()
	p.did(admin.RepairSetAside, q, "it is already in quarantine and no longer used")
	if p.DryRun {
		return nil
	}
	_, file := splitPath(q.Path)
	ref := strings.TrimSuffix(file, drafts.FactsSuffix)
	for _, name := range []string{ref + drafts.FactsSuffix, ref + drafts.BytesSuffix} {
		if err := ignoreAbsent(p.moveAside(dir, "quarantine", name)); err != nil {
			return err
		}
	}
	return nil
}
