package upkeep

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/index"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/checkpoint"
	"github.com/resilientwrite/resilientwrite/internal/layer/chunks"
	"github.com/resilientwrite/resilientwrite/internal/layer/drafts"
	"github.com/resilientwrite/resilientwrite/internal/layer/scratch"
)

// repairing is one Repair in progress.
type repairing struct {
	*Call
	reason string // to accept damage
	out    admin.RepairResult
	seen   map[string]bool // problems that were worked on

	journal bool // segments were changed, so the caches of the journal are made again
}

// repairRounds is how often the store is checked: putting one thing right may
// show another.
const repairRounds = 3

func (p *repairing) run(ctx context.Context) error {
	if p.Engine.Log == nil {
		return nil
	}
	if !p.DryRun {
		if err := p.Engine.Settler.Drain(); err != nil {
			return err
		}
		if err := p.Engine.RecoverDead(ctx, new(engine.Report)); err != nil {
			return err
		}
		if err := p.forGood(); err != nil {
			return err
		}
	}
	var c *checker
	for range repairRounds {
		p.Meter.Things(StepRepair, 0, "checking and repairing")
		var err error
		if c, err = p.check(ctx); err != nil {
			return err
		}
		before := len(p.out.Actions)
		if err := p.round(ctx, c); err != nil {
			return err
		}
		if len(p.out.Actions) == before || p.DryRun {
			break
		}
	}
	if err := p.caches(); err != nil {
		return err
	}
	if err := p.acknowledge(ctx, c); err != nil {
		return err
	}
	return p.rest(ctx, c)
}

func (p *repairing) check(ctx context.Context) (*checker, error) {
	c := newChecker(p.Store, true, nil)
	return c, c.run(ctx)
}

// does notes one action, and reports whether it is to be carried out.
func (p *repairing) does(kind admin.RepairKind, q admin.CheckProblem, detail string) bool {
	p.out.Actions = append(p.out.Actions, admin.RepairAction{Did: kind, Code: q.Code, Path: q.Path, Seq: q.Seq, Detail: detail})
	if !p.DryRun {
		p.Effect = fault.EffectUnknown
	}
	return !p.DryRun
}

// round works on every problem that has not been worked on.
func (p *repairing) round(ctx context.Context, c *checker) error {
	for _, q := range c.out.Problems {
		if err := canceled(ctx); err != nil {
			return err
		}
		if p.seen[keyOf(q)] {
			continue
		}
		p.seen[keyOf(q)] = true
		if err := p.one(ctx, q); err != nil {
			return err
		}
	}
	return p.segments(ctx, c)
}

// keyOf identifies a problem.
func keyOf(q admin.CheckProblem) string { return fmt.Sprint(q.Code, " ", q.Path, " ", q.Seq) }

// one puts a single problem right, if that can be done by itself.
func (p *repairing) one(ctx context.Context, q admin.CheckProblem) error {
	switch q.Code {
	case "meta_unreadable":
		if p.does(admin.RepairRebuilt, q, "rebuilt from the journal") {
			return p.Engine.Alone("repair", p.Engine.WriteMeta)
		}
	case "stale_staging":
		if p.does(admin.RepairFinished, q, "completed or rolled back") {
			return p.Engine.RecoverDead(ctx, new(engine.Report))
		}
	case problemForeign, "object_damaged", problemBudgets, problemCursor, problemHandoffs, problemSnapshot, problemScratch:
		return p.aside(ctx, q)
	case "file_differs":
		if object, ok := strings.CutPrefix(q.Path, engine.StateDirName+"/"+chunks.Dir+"/"); ok && chunks.IndexOf(object) > 0 {
			return p.aside(ctx, q) // a chunk that differs from what was sent has to be sent again
		}
	case problemScratchIndex:
		if q.Path != scratch.Index { // a facts file, whose lines the index also has
			return p.aside(ctx, q)
		}
		return p.scratchIndex(ctx, q)
	case problemCheckpoint:
		return p.checkpoint(ctx, q)
	case problemManifest:
		return p.manifest(ctx, q)
	case problemDraft:
		return p.draft(q)
	}
	return nil
}

// segments puts the segments in order in which a problem was found.
func (p *repairing) segments(ctx context.Context, c *checker) error {
	var firsts []uint64
	for _, q := range c.rows {
		if q.Segment > 0 && !slices.Contains(firsts, q.Segment) {
			firsts = append(firsts, q.Segment)
		}
	}
	slices.Sort(firsts)
	for _, first := range firsts {
		if err := p.segment(ctx, c, first); err != nil {
			return err
		}
	}
	return nil
}

func (p *repairing) segment(ctx context.Context, c *checker, first uint64) error {
	if first == p.Engine.Log.End().Segment {
		if plan, err := p.Engine.Log.PlanMending(c.known, first); err != nil || plan == nil {
			return err
		}
		if !p.DryRun {
			p.Effect = fault.EffectUnknown
			if err := p.Engine.Log.Roll(ctx); err != nil {
				return p.journalFailed(err)
			}
		}
	}
	plan, err := p.Engine.Log.PlanMending(c.known, first)
	if err != nil || plan == nil {
		return err
	}
	q := admin.CheckProblem{Code: journal.ProblemOrder, Path: "journal/" + journal.SegmentFile(first), Seq: first}
	for _, r := range c.rows {
		if r.Segment == first {
			q.Code = r.Code
			break
		}
	}
	if !p.does(admin.RepairOrdered, q, fmt.Sprintf("all %d rows are present, as the hash chain proves, and are in order now", plan.Rows)) {
		return nil
	}
	if err := p.keepCopy(plan.Dir(), journal.SegmentFile(first), "journal-"+journal.SegmentFile(first)); err != nil {
		return err
	}
	if err := p.noteChanges(ctx, journal.NoteMended, "segment reordered", plan.Changes); err != nil {
		return err
	}
	p.journal = true
	return plan.Apply(p.Engine.Disk.Staging, p.tempName())
}

// caches makes the snapshots of the index again when something they are made
// from was changed, or when one of them was damaged.
func (p *repairing) caches() error {
	if p.DryRun {
		return nil
	}
	list, err := index.Snapshots(p.Engine.Disk.Index)
	if err != nil {
		return err
	}
	stale := p.journal || slices.ContainsFunc(p.out.Actions, func(a admin.RepairAction) bool { return a.Code == problemSnapshot }) ||
		slices.ContainsFunc(list, func(s index.Snapshot) bool { return s.Err != nil })
	if !stale {
		return nil
	}
	return p.renewRows()
}

// acknowledge accepts the damage of the journal that is left.
func (p *repairing) acknowledge(ctx context.Context, c *checker) error {
	if p.reason == "" {
		return nil
	}
	var err error
	if !p.DryRun { // the current state
		if c, err = p.check(ctx); err != nil {
			return err
		}
	}
	var list []journal.Accepted
	for _, q := range c.rows {
		if q.Code == journal.ProblemForeign {
			continue
		}
		list = append(list, journal.Accepted{Code: q.Code, Segment: q.Segment, Seq: q.Seq, Evidence: q.Evidence})
		p.does(admin.RepairAcknowledged, admin.CheckProblem{Code: q.Code, Path: q.Name, Seq: q.Seq}, q.Detail)
	}
	if p.DryRun {
		return nil
	}
	reason := p.SafeText(p.reason)
	for len(list) > 0 {
		n := min(len(list), 400)
		if err := p.note(ctx, journal.Note{What: journal.NoteAccepted, Text: reason, Accepted: list[:n]}); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// rest lists the problems that a check still reports.
func (p *repairing) rest(ctx context.Context, c *checker) error {
	var err error
	if !p.DryRun {
		if c, err = p.check(ctx); err != nil {
			return err
		}
	}
	handled := map[string]bool{}
	aside := map[string]bool{} // with the file goes that it differs from its row
	for _, a := range p.out.Actions {
		handled[keyOf(admin.CheckProblem{Code: a.Code, Path: a.Path, Seq: a.Seq})] = true
		aside[engine.StateDirName+"/"+a.Path] = aside[engine.StateDirName+"/"+a.Path] || a.Did == admin.RepairSetAside
	}
	for _, q := range c.out.Problems {
		if p.DryRun && (handled[keyOf(q)] || p.reason != "" && whyLeft[q.Code] == needsWord) {
			continue
		}
		if p.DryRun && q.Code == "file_differs" && aside[q.Path] {
			continue
		}
		why, ok := whyLeft[q.Code]
		if !ok {
			why = "it could not be repaired now; call again when there is no other writer"
		}
		p.out.Left = append(p.out.Left, admin.LeftProblem{CheckProblem: q, Why: why})
	}
	return nil
}

const needsWord = "lost rows cannot be restored; find out what happened, then acknowledge the damage with a reason"

// whyLeft lists the reasons why a problem is not repaired.
var whyLeft = map[string]string{
	"file_differs":           "the file was changed outside this store, which is not damage; write it again, or restore the version you want",
	problemForeign:           "quarantine/ is not a directory; move it away by hand",
	"file_unreadable":        "the file of the workspace cannot be read; correct its permissions or type",
	journal.ProblemChain:     needsWord,
	journal.ProblemMissing:   needsWord,
	journal.ProblemOrder:     needsWord,
	journal.ProblemGarbage:   needsWord,
	journal.ProblemChanged:   needsWord,
	journal.ProblemName:      needsWord,
	journal.ProblemTruncated: needsWord,
	journal.ProblemHead:      needsWord,
	journal.ProblemParked:    needsWord,
	journal.ProblemArchive:   "the archived segment is missing; restore it from a backup, or acknowledge the loss with a reason",
	"history_link_broken":    needsWord,
	"manifest_missing":       needsWord,
}

// splitPath is the directory and the name of a file of the state directory.
func splitPath(p string) (part, name string) {
	part, name = path.Split(p)
	return strings.TrimSuffix(part, "/"), name
}

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
	if !p.does(admin.RepairSetAside, q, "moved to quarantine") {
		return nil
	}
	if err := p.goes(ctx, engine.JoinPath(part, name)); err != nil {
		return err
	}
	return p.moveAside(dir, part, name)
}

// goes records that an object is moved away although its row says that it exists.
func (p *repairing) goes(ctx context.Context, object string) error {
	sha, err := p.Chunks.RecordedSHA(object)
	if sha == "" {
		return err
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
	if !p.does(admin.RepairRebuilt, q, "rewritten with every known entry; unreadable lines are in quarantine") {
		return nil
	}
	return p.choose(ctx, "scratch_index", engine.PathLock(engine.StateDirName+"/"+scratch.Index), func(c *engine.Commit) ([]*engine.Mutation, error) {
		pad, err := p.Scratch.Open()
		if err != nil {
			return nil, err
		}
		m, err := p.Scratch.IndexWithout(c, pad, nil)
		return []*engine.Mutation{m}, err
	})
}

// choose commits the mutations that plan returns under a lock.
func (p *repairing) choose(ctx context.Context, what, lock string, plan func(*engine.Commit) ([]*engine.Mutation, error)) error {
	return p.Commit(ctx, what, func(c *engine.Commit) {
		c.ExtraLocks = []string{lock}
		c.Plan = func(context.Context) error {
			muts, err := plan(c)
			if err != nil {
				return err
			}
			return c.Choose(muts...)
		}
	})
}

// checkpoint sets one damaged checkpoint aside, with its data.
func (p *repairing) checkpoint(ctx context.Context, q admin.CheckProblem) error {
	_, file := splitPath(q.Path)
	name := strings.TrimSuffix(file, checkpoint.FileSuffix)
	if !p.does(admin.RepairSetAside, q, "moved to quarantine") {
		return nil
	}
	if err := p.oddFiles(ctx, name); err != nil {
		return err
	}
	return p.choose(ctx, "checkpoint "+name, engine.PathLock(checkpoint.Path(name)), func(*engine.Commit) (muts []*engine.Mutation, err error) {
		old, err := p.Checkpoints.Read(name, true)
		if engine.IsAbsent(err) || err == nil && old.Corrupt == "" {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		files, err := p.Checkpoints.Quarantine(old, false)
		for _, file := range files {
			muts = append(muts, checkpoint.Object(file, engine.OpDelete))
		}
		return muts, err
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
	if !p.does(admin.RepairRebuilt, q, "rebuilt from the chunks and the journal") {
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
	return p.choose(ctx, "manifest "+session, chunks.Lock(session), func(*engine.Commit) ([]*engine.Mutation, error) {
		sess, err := p.Chunks.Read(session)
		if err != nil || sess.State == chunks.ManifestWhole || !sess.Found {
			return nil, err
		}
		if err := p.Chunks.FillHashes(sess); err != nil {
			return nil, err
		}
		m := engine.NewObject(chunks.ManifestObject(session), "manifest", engine.OpOverwrite)
		m.Ungated = true
		return []*engine.Mutation{m}, chunks.HoldManifest(m, sess)
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
	if !p.does(admin.RepairSetAside, q, "it is already in quarantine and no longer used") {
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
