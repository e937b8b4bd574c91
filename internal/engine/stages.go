package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/failpoint"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// Resolve finds where each path leads, without following anything out of the
// workspace.
func (c *Commit) Resolve(ctx context.Context) error {
	c.findTurns()
	tree := c.Tree()
	tree.Dirs = c.openDirs()
	for _, m := range c.Muts {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.resolveIn(tree, m); err != nil {
			return c.About(m, err)
		}
	}
	return nil
}

func (c *Commit) ResolveOne(m *Mutation) error { return c.resolveIn(c.s.Tree, m) }

func (c *Commit) resolveIn(tree relpath.Tree, m *Mutation) error {
	if m.Private {
		target, err := c.s.LocateObject(m.Object)
		if err != nil {
			return err
		}
		m.Target.Close()
		m.Target = target
		return nil
	}
	rel, portable, err := relpath.Clean(m.Path, c.s.Tree.Rules)
	if err != nil {
		m.Path = "" // not a path of the workspace: it is not reported
		return err
	}
	m.Path = rel
	if !portable {
		m.Warn(call.WarnNameNotPortable)
	}
	tree.NoFollow = m.NoFollow
	target, err := tree.Resolve(rel)
	if errors.Is(err, syscall.ENOTDIR) && m.NoFollow && m.ExpectJournalHash {
		return ChangedOutside(m.Kind, *m.Expected, "")
	}
	if err != nil {
		return err
	}
	if m.NoFollow && target.Linked {
		target.Close()
		return fault.New(fault.ChangedOutside).Hintf("a directory of the path is a symbolic link by now, so nothing was changed; remove the link, or choose another path")
	}
	for _, path := range []string{rel, target.Path} { // a link has two names
		if err := c.s.Host.Permitted(path); err != nil {
			target.Close()
			return err
		}
	}
	m.Target.Close()
	m.Target = target
	most := c.s.descriptors() / 2
	if len(c.turns) > 0 { // a roll-back opens them again
		most /= 2
	}
	if tree.Dirs.Len() > most {
		return fault.New(fault.TooLarge).With("max_directories", most).
			Hintf("the files are in more than %d directories, and the process may have %d files and directories open; raise that limit (ulimit -n), or change fewer files together", most, 2*most)
	}
	return nil
}

// maxMoves is how often a path may lead somewhere else between two looks
// before the commit gives up.
const maxMoves = 8

// lock takes the locks of all paths, in sorted order, then looks again where
// the paths lead: they are judged as they are under the lock. A dead writer's
// unfinished commit of one of the paths is finished first.
func (c *Commit) lock(ctx context.Context) error {
	for range maxMoves {
		names, err := c.judge.LockNames()
		if err != nil {
			return err
		}
		if _, err := c.findShared(); err != nil {
			return err
		}
		unlock, err := c.takeLocks(ctx, names)
		if err != nil {
			return err
		}
		c.unlock = unlock
		// Those who had the locks before may have died, or may be unable to show their rows.
		if err := c.s.Log.Reach(ctx); err != nil {
			return err
		}
		if c.Plan != nil {
			err := c.Plan(ctx)
			if err == nil {
				_, err = c.judge.LockNames() // of what the plan chose
			}
			if err != nil {
				return err
			}
		}
		moved, err := c.moved(ctx)
		if err != nil {
			return err
		}
		shared, err := c.findShared()
		if err != nil {
			return err
		}
		if !moved && !shared {
			c.head = c.s.Log.Head()
			left, err := c.s.LeftBehind(append(c.paths(), c.judge.Touches()...))
			if err == nil && left == nil && c.sharesFile() {
				left, err = c.leftInFile()
			}
			if err == nil && left == nil && c.Req.Key != "" {
				left, err = c.leftOfKey()
			}
			if err != nil {
				return err
			}
			if left == nil {
				if c.flushing = c.brief(); c.flushing {
					c.s.flushes.begin()
				}
				return nil
			}
			c.unlock()
			c.unlock = nil
			if err := c.s.FinishDead(ctx, left, new(Report)); err != nil {
				return err
			}
			continue
		}
		c.unlock()
		c.unlock = nil
	}
	return fault.New(fault.LockTimeout).Hintf("the path keeps resolving to different files; try again when its directories are no longer being moved")
}

// takeLocks takes the locks of the commit, or the one for all of them.
func (c *Commit) takeLocks(ctx context.Context, names []string) (unlock func(), err error) {
	if c.Alone || c.Many() || len(c.turns) > 0 {
		return c.s.Locks.Tree(ctx, c.s.Opts.LockTimeout, c.Req.Op)
	}
	return c.s.Locks.Keys(ctx, c.s.Opts.LockTimeout, c.Req.Op, c.lockKeys(names)...)
}

// lockKeys are the names the commit must own: its paths, and its idempotency
// key, which is a lock like any other so that two calls with one key cannot
// both find it free.
func (c *Commit) lockKeys(names []string) []string {
	keys := make([]string, 0, len(c.Muts)+1)
	for _, m := range c.Muts {
		keys = append(keys, PathLock(m.Target.Path))
		if m.shared != (inode{}) {
			keys = append(keys, m.shared.lock())
		}
	}
	keys = append(keys, names...)
	if c.Req.Key != "" {
		keys = append(keys, "key\x00"+c.Req.Key)
	}
	return append(keys, c.ExtraLocks...)
}

func PathLock(path string) string { return "path\x00" + relpath.Key(path) }

// lock is the name of the lock of a file that several names share.
func (i inode) lock() string { return fmt.Sprintf("inode\x00%d %d", i.dev, i.ino) }

// findShared finds the files that are written in place although they have other names,
// and reports whether they are not those that it found before. They are locked, too,
// because a writer of another name locks another path.
func (c *Commit) findShared() (changed bool, err error) {
	if c.s.Opts.HardLinks != hardLinksInPlace {
		return false, nil
	}
	for _, m := range c.Muts {
		now, err := sharedFile(m.Target)
		if err != nil {
			return false, err
		}
		changed = changed || now != m.shared
		m.shared = now
	}
	return changed, nil
}

// sharesFile reports whether a file of the commit is written in place although it has
// other names.
func (c *Commit) sharesFile() bool {
	return slices.ContainsFunc(c.Muts, func(m *Mutation) bool { return m.shared != (inode{}) })
}

// leftInFile is LeftBehind for files with several names: it returns the commit of a
// writer that died while it wrote such a file in place by another name.
func (c *Commit) leftInFile() (*journal.Record, error) {
	shared := map[uint64]bool{}
	for _, m := range c.Muts {
		if m.shared != (inode{}) {
			shared[m.shared.ino] = true
		}
	}
	recs, err := c.s.unsettledRows(c.s.Rows.unsettled(c.s.Writer))
	if err != nil {
		return nil, err
	}
	for _, rec := range recs {
		if !slices.ContainsFunc(rec.Muts, func(m journal.Mutation) bool {
			return writesInPlace(&m) && shared[beforeOf(&m).Stat.Ino]
		}) {
			continue
		}
		if ended, err := c.s.hasEnded(rec.Writer); err != nil {
			return nil, err
		} else if ended {
			return rec, nil
		}
	}
	return nil, nil
}

// sharedFile returns the file of a target that has other names as well, the zero inode
// for any other.
func sharedFile(t *relpath.Target) (inode, error) {
	if !t.Exists() {
		return inode{}, nil
	}
	st, err := t.Parent.Lstat(t.Name)
	if err != nil || st.Kind != fsx.Regular || st.Nlink < 2 {
		if IsAbsent(err) {
			err = nil
		}
		return inode{}, err
	}
	return inode{st.Dev, st.Ino}, nil
}

// moved reports whether a path leads somewhere else than when it was locked.
// It is refused where the way leads through what git runs programs by.
func (c *Commit) moved(ctx context.Context) (bool, error) {
	moved := false
	tree := c.Tree()
	c.visit = c.judge.OnTheWay()
	tree.Visit, tree.Dirs = c.visit, c.openDirs()
	for _, m := range c.Muts {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		before := m.Target.Path
		if err := c.resolveIn(tree, m); err != nil {
			return false, c.About(m, err)
		}
		moved = moved || m.Target.Path != before && !m.Private // those the plan chooses
	}
	return moved, c.judge.Located()
}

// precondition judges, under the lock and by content, whether the request
// fits the current file. The idempotency key comes first: a repeated request
// must not fail because the first one changed the file.
func (c *Commit) precondition(ctx context.Context) error {
	if done, err := c.Answered(); done || err != nil {
		return err
	}
	if c.Unasked { // the key was to answer, and it is gone
		return fault.New(fault.ChangedDuringWrite).Hintf("the result of the idempotency key is no longer known; send the call again, so that the user can be asked")
	}
	heirs := map[*Mutation]*Mutation{}
	for _, m := range c.Muts {
		if m.Source != nil {
			heirs[m.Source] = m
		}
	}
	for _, m := range c.Muts {
		if err := c.look(ctx, m); err != nil {
			return c.About(m, err)
		}
		c.lendPrev(m, heirs[m])
	}
	for _, m := range c.Muts {
		if err := m.judge(ctx, c.s); err != nil {
			return c.About(m, err)
		}
	}
	return nil
}

// About makes an error name the file it is about, where there are several, and
// in a transaction the operation.
func (c *Commit) About(m *Mutation, err error) error {
	e := c.s.ErrorOf(err)
	if m.Private && (e.Code == fault.IsADirectory || e.Code == fault.NotARegularFile) {
		e = Misplaced(m.Object)
	}
	if e.Path == "" && !m.Private {
		e.Path = m.Path
	}
	if c.IndexOf != nil && e.Context["op_index"] == nil {
		if i := c.IndexOf(m); i >= 0 {
			e.With("op_index", i)
		}
	}
	return e
}

// compose makes the final bytes of every file and judges them against what
// was there.
func (c *Commit) compose(ctx context.Context) error {
	unchanged := 0
	for _, m := range c.Muts {
		if !m.Link() {
			if err := c.judge.Transform(ctx, m); err != nil {
				return c.About(m, err)
			}
		}
		if err := m.composeFinal(ctx, c); err != nil {
			return c.About(m, err)
		}
		if m.Unchanged() {
			unchanged++
		}
	}
	if err := c.judge.Composed(); err != nil {
		return err
	}
	if c.Req.DryRun || c.ShowDiff {
		for _, m := range c.Muts {
			c.Diff += m.preview()
		}
	}
	if unchanged == len(c.Muts) && len(c.Dirs) == 0 && !(c.Complete && c.judge.Verifies()) {
		c.Ended = true
		return c.keepUnchanged()
	}
	return nil
}

// keepUnchanged ends a commit whose bytes are all on disk already: nothing is
// written, but at the durable levels the current file is made durable, because
// another program, or a process at the level off, may have written it.
func (c *Commit) keepUnchanged() error {
	if c.Req.DryRun || c.s.Opts.Sync == SyncOff {
		return nil
	}
	for _, m := range c.Muts {
		if err := c.s.syncEntry(m.Target); err != nil {
			return err
		}
	}
	return c.flushWays()
}

// stage writes the final bytes to slots, shows them to the verifiers and makes
// them durable.
func (c *Commit) stage(ctx context.Context) error {
	if err := c.directoryTargets(); err != nil {
		return err
	}
	if err := c.planDirs(); err != nil {
		return err
	}
	if err := c.makeDirectories(ctx); err != nil {
		return err
	}
	for _, m := range c.Muts {
		if err := c.makeWay(ctx, m, false); err != nil {
			return err
		}
		if err := m.stage(ctx, c); err != nil {
			return err
		}
	}
	if err := c.judge.VerifyStaged(ctx); err != nil {
		return err
	}
	deep := c.s.Opts.VerifyReadBack || c.judge.Verifies()
	for _, m := range c.Muts {
		if err := m.checkStaged(deep); err != nil {
			return c.About(m, err)
		}
	}
	return c.flushStaged()
}

// maxNewDirs is how many directories one commit makes at most, if it is not one of
// many files: each of them is held open until the commit ends.
const maxNewDirs = 1024

func (c *Commit) mostNewDirs() int {
	if c.Req.Long {
		return fsx.DescriptorLimit() / 4
	}
	return maxNewDirs
}

// planDirs lists the directories that the commit has to make, for its row, and
// refuses one that would make too many, or more than its row can name, before it
// makes one.
func (c *Commit) planDirs() error {
	named, size := map[string]bool{}, 0
	for _, m := range slices.Concat(c.Muts, c.ways) {
		if m.leavesAbsent() {
			continue
		}
		path := ExistingPath(m.Target)
		for _, name := range m.Target.Missing {
			if path = JoinPath(path, name); !named[path] {
				named[path] = true
				c.newDirs = append(c.newDirs, path)
				size += len(path) + len(`"",`)
			}
		}
		if most := c.mostNewDirs(); size > journal.MaxRecord && !c.Req.Long || len(named) > most {
			return fault.New(fault.TooLarge).With("max_directories", most).
				Hintf("the call would create more than %d directories, or more than one journal row can list; create fewer at a time", most)
		}
	}
	return nil
}

// enter makes the directories that the target needs and opens them. Targets of one commit
// share the directories that they go through.
func (c *Commit) enter(ctx context.Context, m *Mutation) error {
	if m.Target.Exists() || m.leavesAbsent() {
		return nil
	}
	dir, path := m.Target.Parent, ExistingPath(m.Target)
	for _, name := range m.Target.Missing {
		if err := ctx.Err(); err != nil {
			return err
		}
		parent := dir
		path = JoinPath(path, name)
		if dir = c.entered[path]; dir != nil {
			continue
		}
		err := parent.Mkdir(name, c.dirPerm(path))
		made := err == nil
		if !IsExist(err) { // also after another error: it may have been carried out
			c.made = append(c.made, madeDir{parent, name, path})
			if err != nil {
				return err
			}
		}
		if dir, err = parent.OpenDir(name); err != nil {
			return err
		}
		c.Handles = append(c.Handles, dir)
		if made {
			c.giveOwner(m, path, dir)
		}
		if c.entered == nil {
			c.entered = map[string]fsx.Dir{}
		}
		c.entered[path] = dir
	}
	c.Handles = append(c.Handles, m.Target)
	m.Target = m.Target.Entered(dir)
	return nil
}

// unmakeDirs removes the directories that were made, innermost first. One that
// another program put something into stays.
func (c *Commit) unmakeDirs() {
	for i := len(c.made) - 1; i >= 0; i-- {
		c.made[i].parent.Rmdir(c.made[i].name)
	}
}

// record writes the journal row of the whole commit and makes it durable: the
// commit point. Everything that it names is durable already.
func (c *Commit) record(ctx context.Context) error {
	rec, err := c.row()
	if err != nil {
		return err
	}
	c.s.Unsettled.begin(c, c.s.Log.Head)
	err = c.grant.Try(func() error {
		return c.s.appendRow(&journal.Batch{Recs: []*journal.Record{rec}, Before: c.unmoved, Long: c.Req.Long, Ctx: ctx})
	})
	c.endSharing()
	var we *journal.WriteError
	if err == nil || errors.As(err, &we) && we.Effect == journal.EffectUnknown {
		c.Rec = rec
	}
	switch {
	case err == nil:
		return nil
	case c.Rec != nil || c.s.Log.Poisoned() && !errors.Is(err, journal.ErrPoisoned):
		return c.s.Poison(err)
	}
	c.s.Unsettled.done(c)
	return err
}

// appendRow appends one row and flushes it unless the level is off.
func (s *Engine) appendRow(batch *journal.Batch) error {
	if s.Opts.Sync != SyncOff {
		_, err := s.Log.Commit(batch)
		return err
	}
	if _, err := s.Log.Write(batch); err != nil {
		return err
	}
	if err := s.Log.Show(batch.Recs[0].Seq); err != nil {
		return &journal.WriteError{Effect: journal.EffectUnknown, Err: err}
	}
	return nil
}

// publish brings every file under its name, in order.
func (c *Commit) publish(ctx context.Context) error {
	for i, m := range c.Muts {
		if i > 0 {
			failpoint.At("publish.next") // between two files
		}
		if i == c.clearing {
			if err := c.turn(ctx); err != nil {
				return err
			}
		}
		if err := c.publishOne(m); err != nil {
			return err
		}
	}
	return c.turn(ctx)
}

// publishOne is publish for one file. What only gives names can be tried again
// as long as it did not happen.
func (c *Commit) publishOne(m *Mutation) (err error) {
	return c.grant.Try(func() error {
		if err == nil || m.ch != nil && !m.ch.Done && m.ch.Opened() == nil {
			err = m.publish(c)
		}
		return err
	})
}

// settlesLater reports whether the slots are emptied after the reply: at the level journal,
// where the names are flushed then too, and at full, once they are, beside other commits,
// which would wait for it at their next flush.
func (c *Commit) settlesLater(t *settlement) bool {
	large := func(m *Mutation) bool { return m.Prev.Stat.Size >= largeVersion }
	switch c.s.Opts.Sync {
	case SyncOff:
		return false
	case SyncFull:
		if !c.flushing || len(t.marks) > 0 || !c.s.flushes.many() || slices.ContainsFunc(c.Muts, large) {
			return false
		}
	}
	return len(c.Dirs) == 0 && !c.sharesFile() && !c.sharesOld()
}

// settle makes the names durable, then empties the slots. Where the slot is a
// mark that would repeat the mutation if it came back, its removal is durable
// before the reply.
func (c *Commit) settle(ctx context.Context) error {
	defer c.judge.Wait()
	todo := c.settlement()
	for _, m := range c.Muts {
		m.remember(c.s)
		if c.s.Opts.Sync != SyncOff && m.ch != nil {
			c.s.written.put(m.Target.Path, c.Rec.Seq, m.SHA, m.left())
		}
	}
	later := c.settlesLater(todo)
	if !later || c.s.Opts.Sync == SyncFull {
		err := todo.flush(c.s)
		c.endFlushing()
		if err != nil {
			return c.s.Poison(err)
		}
		todo.flushed, todo.paths = true, nil
	}
	if later {
		c.judge.Wait() // it may read the files that the settlement closes
		c.endFlushing()
		c.keepHeads()
		c.handed = true
		todo.closers = append(c.Handles, c.dirs)
		for _, m := range c.Muts {
			m.Slot.close() // the next commit of the path finds that no process can write to it
			todo.closers = append(todo.closers, m.Target, m)
		}
		return c.s.Settler.add(todo)
	}
	c.keepHeads()
	if todo.clean(c.s) {
		for _, m := range c.Muts {
			m.Warn(call.WarnHistorySkipped)
		}
	}
	if err := c.s.arrange(c.Rec); err != nil { // no slot is in a directory any more
		return c.s.Poison(err)
	}
	if c.s.Opts.Sync == SyncFull || c.sharesFile() && c.s.Opts.Sync != SyncOff {
		if err := c.s.syncMarks(todo.marks); err != nil {
			return c.s.Poison(err)
		}
	}
	return nil
}

// row is the journal record of the commit.
func (c *Commit) row() (*journal.Record, error) {
	rec := &journal.Record{
		TS:   stamp.Text(c.s.Now()),
		Kind: journal.KindCommit, Writer: c.s.Writer,
		Settled: c.s.Unsettled.Floor(c.s.Log.Head()),
		Commit:  c.ID, Caller: c.Req.Caller, Session: c.Req.Session, Via: c.Via, Invocation: c.Inv,
		Key: c.Req.Key, KeyHash: c.keyHash(), Tx: c.Req.Tx,
		Policy: c.s.Host.PolicyHash(), AcceptRisk: c.Accepted, Reply: c.reply(),
	}
	if c.Command != "" {
		rec.Group = &journal.Group{Command: c.Command}
	}
	rec.Muts = make([]journal.Mutation, 0, len(c.Muts))
	for _, m := range c.Muts {
		row, err := m.row(c.s)
		if err != nil {
			return nil, err
		}
		c.turns.mark(&row)
		rec.Muts = append(rec.Muts, row)
	}
	dirs, err := c.directoryRows()
	if err != nil {
		return nil, err
	}
	rec.Muts = append(rec.Muts, dirs...)
	if c.s.Opts.Sync == SyncOff {
		rec.Level = string(SyncOff)
	}
	rec.Muts[0].Dirs = c.newDirs
	return rec, nil
}

func (c *Commit) keyHash() string {
	if c.Req.Key == "" {
		return ""
	}
	return c.Req.Hash
}

// JournalID identifies the row of one mutation.
func JournalID(seq uint64, i int) string { return fmt.Sprintf("wj_%d.%d", seq, i) }
