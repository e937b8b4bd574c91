package resilientwrite

import (
	"context"
	"errors"
	"fmt"

	"github.com/resilientwrite/resilientwrite/internal/failpoint"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// resolve finds where each path leads, without following anything out of the
// workspace.
func (c *engineCommit) resolve(ctx context.Context) error {
	for _, m := range c.muts {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := c.resolveOne(m); err != nil {
			return c.about(m, err)
		}
	}
	return nil
}

func (c *engineCommit) resolveOne(m *mutation) error { return c.resolveIn(c.s.tree, m) }

func (c *engineCommit) resolveIn(tree relpath.Tree, m *mutation) error {
	if m.private {
		target, err := c.s.locateObject(m.object)
		if err != nil {
			return err
		}
		m.target.Close()
		m.target = target
		return nil
	}
	rel, portable, err := relpath.Clean(m.path, c.s.tree.Rules)
	if err != nil {
		m.path = "" // not a path of the workspace: it is told to nobody
		return err
	}
	m.path = rel
	if !portable {
		m.warn(warnNameNotPortable)
	}
	target, err := tree.Resolve(rel)
	if err != nil {
		return err
	}
	for _, path := range []string{rel, target.Path} { // a link has two names
		if err := c.s.host.Permitted(path); err != nil {
			target.Close()
			return err
		}
	}
	m.target.Close()
	m.target = target
	return nil
}

// maxMoves is how often a path may lead somewhere else between two looks
// before the commit gives up.
const maxMoves = 8

// lock takes the locks of all paths, in sorted order, then looks again where
// the paths lead: they are judged as they are under the lock. A dead writer's
// unfinished commit of one of the paths is finished first.
func (c *engineCommit) lock(ctx context.Context) error {
	for range maxMoves {
		names, err := c.judge.LockNames()
		if err != nil {
			return err
		}
		unlock, err := c.takeLocks(ctx, names)
		if err != nil {
			return err
		}
		c.unlock = unlock
		if c.plan != nil {
			err := c.plan(ctx)
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
		if !moved {
			if err := c.s.log.CatchUp(); err != nil {
				return err
			}
			c.head = c.s.log.Head()
			left, err := c.s.leftBehind(append(c.paths(), c.judge.Touches()...))
			if err != nil {
				return err
			}
			if left == nil {
				return nil
			}
			c.unlock()
			c.unlock = nil
			if err := c.s.finishDead(ctx, left, new(recoveryReport)); err != nil {
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
func (c *engineCommit) takeLocks(ctx context.Context, names []string) (unlock func(), err error) {
	if c.alone {
		return c.s.locks.Tree(ctx, c.s.opts.LockTimeout, c.req.op)
	}
	return c.s.locks.Keys(ctx, c.s.opts.LockTimeout, c.req.op, c.lockKeys(names)...)
}

// lockKeys are the names the commit must own: its paths, and its idempotency
// key, which is a lock like any other so that two calls with one key cannot
// both find it free.
func (c *engineCommit) lockKeys(names []string) []string {
	keys := make([]string, 0, len(c.muts)+1)
	for _, m := range c.muts {
		keys = append(keys, pathLock(m.target.Path))
	}
	keys = append(keys, names...)
	if c.req.key != "" {
		keys = append(keys, "key\x00"+c.req.key)
	}
	return append(keys, c.also...)
}

func pathLock(path string) string { return "path\x00" + relpath.Key(path) }

// moved reports whether a path leads somewhere else than when it was locked.
// It is refused where the way leads through what git runs programs by.
func (c *engineCommit) moved(ctx context.Context) (bool, error) {
	moved := false
	tree := c.s.tree
	tree.Visit = c.judge.OnTheWay()
	for _, m := range c.muts {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		before := m.target.Path
		if err := c.resolveIn(tree, m); err != nil {
			return false, c.about(m, err)
		}
		moved = moved || m.target.Path != before && !m.private // those the plan chooses
	}
	return moved, c.judge.Located()
}

// precondition judges, under the lock and by content, whether the request
// fits what is there. The idempotency key comes first: a repeated request
// must not fail because the first one changed the file.
func (c *engineCommit) precondition(ctx context.Context) error {
	if c.req.key != "" {
		if done, err := c.replay(); done || err != nil {
			return err
		}
	}
	if c.unasked { // the key was to answer, and it is gone
		return fault.New(fault.ChangedDuringWrite).Hintf("the result of the idempotency key is no longer known; send the call again, so that the user can be asked")
	}
	for _, m := range c.muts {
		if err := m.look(ctx, c.s); err != nil {
			return c.about(m, err)
		}
	}
	for _, m := range c.muts {
		if err := m.judge(ctx, c.s); err != nil {
			return c.about(m, err)
		}
	}
	return nil
}

// about makes an error name the file it is about, where there are several, and
// in a transaction the operation.
func (c *engineCommit) about(m *mutation, err error) error {
	e := c.s.errorOf(err)
	if e.Path == "" && !m.private {
		e.Path = m.path
	}
	if c.indexOf != nil && e.Context["op_index"] == nil {
		if i := c.indexOf(m); i >= 0 {
			e.With("op_index", i)
		}
	}
	return e
}

// compose makes the final bytes of every file and judges them against what
// was there.
func (c *engineCommit) compose(ctx context.Context) error {
	unchanged := 0
	for _, m := range c.muts {
		if err := c.judge.Transform(ctx, m); err != nil {
			return c.about(m, err)
		}
		if err := m.composeFinal(ctx, c); err != nil {
			return c.about(m, err)
		}
		if m.unchanged() {
			unchanged++
		}
	}
	if err := c.judge.Composed(); err != nil {
		return err
	}
	if c.req.dryRun || c.showDiff {
		for _, m := range c.muts {
			c.diff += m.preview()
		}
	}
	if unchanged == len(c.muts) && !(c.complete && c.judge.Verifies()) {
		c.ended = true
		return c.keepUnchanged()
	}
	return nil
}

// keepUnchanged ends a commit whose bytes are all on disk already: nothing is
// written, but at the durable levels what is there is made durable, because
// somebody else may have written it.
func (c *engineCommit) keepUnchanged() error {
	if c.req.dryRun || c.s.opts.Sync == syncOff {
		return nil
	}
	for _, m := range c.muts {
		if m.op == opDelete {
			continue
		}
		f, err := m.target.Parent.Open(m.target.Name, fsx.Read, 0)
		if err != nil {
			return err
		}
		err = f.Sync()
		f.Close()
		if err != nil {
			return c.s.poison(err)
		}
		if err := c.s.syncDir(m.target.Parent); err != nil {
			return c.s.poison(err)
		}
	}
	return nil
}

// stage writes the final bytes to slots, shows them to the verifiers and makes
// them durable.
func (c *engineCommit) stage(ctx context.Context) error {
	if err := c.planDirs(); err != nil {
		return err
	}
	for _, m := range c.muts {
		if err := c.spare.try(func() error { return c.makeParents(ctx, m) }); err != nil {
			return err
		}
		if err := m.stage(ctx, c); err != nil {
			return err
		}
	}
	if err := c.judge.VerifyStaged(ctx); err != nil {
		return err
	}
	deep := c.s.opts.VerifyReadBack || c.judge.Verifies()
	for _, m := range c.muts {
		if err := m.checkStaged(deep); err != nil {
			return c.about(m, err)
		}
	}
	return c.flushStaged()
}

// maxNewDirs is how many directories one commit makes at most: each of them is
// held open until the commit ends.
const maxNewDirs = 1024

// planDirs lists the directories that the commit has to make, for its row, and
// refuses one that would make too many, or more than its row can name, before it
// makes one.
func (c *engineCommit) planDirs() error {
	named, size := map[string]bool{}, 0
	for _, m := range c.muts {
		path := existingPath(m.target)
		for _, name := range m.target.Missing {
			if path = joinPath(path, name); !named[path] {
				named[path] = true
				c.newDirs = append(c.newDirs, path)
				size += len(path) + len(`"",`)
			}
		}
		if size > journal.MaxRecord || len(named) > maxNewDirs {
			return fault.New(fault.TooLarge).With("max_directories", maxNewDirs).
				Hintf("the call would create more than %d directories, or more than one journal row can list; create fewer at a time", maxNewDirs)
		}
	}
	return nil
}

// makeParents makes the directories that the target needs. Targets of one commit
// share the directories that they go through.
func (c *engineCommit) makeParents(ctx context.Context, m *mutation) error {
	if m.target.Exists() {
		return nil
	}
	dir, path := m.target.Parent, existingPath(m.target)
	for _, name := range m.target.Missing {
		if err := ctx.Err(); err != nil {
			return err
		}
		parent := dir
		path = joinPath(path, name)
		if dir = c.entered[path]; dir != nil {
			continue
		}
		err := parent.Mkdir(name, dirPerm(m.path))
		if err == nil {
			c.made = append(c.made, madeDir{parent, name, path})
		} else if !isExist(err) {
			return err
		}
		if dir, err = parent.OpenDir(name); err != nil {
			return err
		}
		c.handles = append(c.handles, dir)
		if c.entered == nil {
			c.entered = map[string]fsx.Dir{}
		}
		c.entered[path] = dir
	}
	c.handles = append(c.handles, m.target)
	m.target = m.target.Entered(dir)
	return nil
}

// unmakeDirs removes the directories that were made, innermost first. One that
// another program put something into stays.
func (c *engineCommit) unmakeDirs() {
	for i := len(c.made) - 1; i >= 0; i-- {
		c.made[i].parent.Rmdir(c.made[i].name)
	}
}

// record writes the journal row of the whole commit and makes it durable: the
// commit point. Everything that it names is durable already.
func (c *engineCommit) record(ctx context.Context) error {
	rec, err := c.row()
	if err != nil {
		return err
	}
	c.s.unsettled.begin(c, c.s.log.Head)
	err = c.spare.try(func() error { return c.s.appendRow(ctx, rec, c.unmoved) })
	var we *journal.WriteError
	if err == nil || errors.As(err, &we) && we.Effect == journal.EffectUnknown {
		c.rec = rec
	}
	switch {
	case err == nil:
		return nil
	case c.rec != nil || c.s.log.Poisoned() && !errors.Is(err, journal.ErrPoisoned):
		return c.s.poison(err)
	}
	c.s.unsettled.done(c)
	return err
}

// appendRow appends one row, unless before refuses it, and flushes it unless the
// level is off.
func (s *engine) appendRow(ctx context.Context, rec *journal.Record, before func(uint64) error) error {
	batch := &journal.Batch{Recs: []*journal.Record{rec}, Before: before}
	if s.opts.Sync != syncOff {
		_, err := s.log.Commit(ctx, batch)
		return err
	}
	if _, err := s.log.Write(ctx, batch); err != nil {
		return err
	}
	if err := s.log.Show(rec.Seq); err != nil {
		return &journal.WriteError{Effect: journal.EffectUnknown, Err: err}
	}
	return nil
}

// publish brings every file under its name, in order.
func (c *engineCommit) publish(context.Context) error {
	for i, m := range c.muts {
		if i > 0 {
			failpoint.At("publish.next") // between two files
		}
		if err := c.publishOne(m); err != nil {
			return err
		}
	}
	return nil
}

// publishOne is publish for one file. What only gives names can be tried again
// as long as it did not happen.
func (c *engineCommit) publishOne(m *mutation) (err error) {
	return c.spare.try(func() error {
		if err == nil || m.ch != nil && !m.ch.Done && m.ch.Opened() == nil {
			err = m.publish(c)
		}
		return err
	})
}

// settle makes the names durable, then empties the slots. Where the slot is a
// mark that would repeat the mutation if it came back, its removal is durable
// before the reply.
func (c *engineCommit) settle(ctx context.Context) error {
	defer c.judge.Wait()
	todo := c.settlement()
	for _, m := range c.muts {
		m.remember(c.s)
		if c.s.opts.Sync != syncOff {
			c.s.written.put(m.target.Path, c.rec.Seq, m.sha)
		}
	}
	if c.s.opts.Sync == syncJournal {
		c.keepHeads()
		c.handed = true
		todo.closers = c.handles
		for _, m := range c.muts {
			m.slot.close() // the next commit of the path finds that nobody can write to it
			todo.closers = append(todo.closers, m.target, m)
		}
		return c.s.behind.add(todo)
	}
	if err := todo.flush(c.s); err != nil {
		return c.s.poison(err)
	}
	c.keepHeads()
	if todo.clean(c.s) {
		for _, m := range c.muts {
			m.warn(warnHistorySkipped)
		}
	}
	if todo.marks && c.s.opts.Sync == syncFull {
		if err := c.s.syncDir(c.s.disk.staging); err != nil {
			return c.s.poison(err)
		}
	}
	return nil
}

// row is the journal record of the commit.
func (c *engineCommit) row() (*journal.Record, error) {
	rec := &journal.Record{
		TS:   c.s.now().UTC().Format(timeFormat),
		Kind: journal.KindCommit, Writer: c.s.writer,
		Settled: c.s.unsettled.floor(c.s.log.Head()),
		Commit:  c.id, Caller: c.req.caller, Session: c.req.session, Via: c.via, Invocation: c.inv,
		Key: c.req.key, KeyHash: c.keyHash(), Tx: c.req.tx,
		Policy: c.s.host.PolicyHash(), AcceptRisk: c.accepted, Reply: c.reply(),
	}
	for _, m := range c.muts {
		row, err := m.row(c.s)
		if err != nil {
			return nil, err
		}
		rec.Muts = append(rec.Muts, row)
	}
	rec.Muts[0].Dirs = c.newDirs
	return rec, nil
}

func (c *engineCommit) keyHash() string {
	if c.req.key == "" {
		return ""
	}
	return c.req.hash
}

// timeFormat is RFC 3339 with microseconds.
const timeFormat = "2006-01-02T15:04:05.000000Z07:00"

// journalID identifies the row of one mutation.
func journalID(seq uint64, i int) string { return fmt.Sprintf("wj_%d.%d", seq, i) }
