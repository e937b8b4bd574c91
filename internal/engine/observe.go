package engine

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/blob"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// Changes that other programs made are recorded, not made: their row has no
// slots, since the workspace holds the bytes already. Like every row it follows
// its payload: what history is to keep of them is durable before it.

// Bytes are the content of one version that history is to keep.
type Bytes struct {
	SHA  string
	Size int64
	Data []byte    // or
	From io.Reader // read once; it must hash to SHA
}

// Keep makes versions objects of history, durably unless the level is off. One
// that another work tree of the repository has becomes a second name of that
// object.
func (s *Engine) Keep(batch []Bytes) error {
	done, err := s.shareHistory() // a sweep removes nothing that is found here
	if err != nil {
		return err
	}
	defer done()
	var drafts []*blob.Draft
	grown := int64(0)
	near := s.siblings()
	defer closeAll(near)
	for _, b := range batch {
		if d, err := s.History.Again(b.SHA); err == nil { // it may not be on stable storage yet
			drafts = append(drafts, d)
			continue
		}
		if d := s.shared(near, b.SHA); d != nil {
			drafts, grown = append(drafts, d), grown+b.Size
			continue
		}
		d, err := s.History.Draft(b.SHA)
		if err != nil {
			discard(drafts)
			return err
		}
		drafts, grown = append(drafts, d), grown+b.Size
		if b.Data != nil {
			_, err = d.File.Write(b.Data)
		} else {
			err = d.Fill(b.From)
		}
		if err != nil {
			discard(drafts)
			return err
		}
	}
	if err := s.flushObjects(drafts); err != nil {
		discard(drafts)
		return err
	}
	return s.placeKept(drafts, grown)
}

// siblings are the histories of the other work trees of the repository.
func (s *Engine) siblings() (list []*blob.Store) {
	if s.Beside == "" {
		return nil
	}
	all, err := fsx.OpenRoot(s.Beside)
	if err != nil {
		return nil
	}
	defer all.Close()
	names, err := all.Names()
	if err != nil {
		return nil
	}
	for _, name := range names {
		if name == filepath.Base(s.StatePlace) {
			continue
		}
		state, err := all.OpenDir(name)
		if err != nil {
			continue
		}
		if history, err := state.OpenDir("history"); err == nil {
			list = append(list, blob.New(history))
		}
		state.Close()
	}
	return list
}

// shared is an object of a sibling under a second name; nil where none has it
// whole, or it cannot have one.
func (s *Engine) shared(near []*blob.Store, sha string) *blob.Draft {
	for _, other := range near {
		if d, err := s.History.DraftOf(other, sha); err == nil {
			return d
		}
	}
	return nil
}

// ShareHistory makes the objects of history that another work tree of the
// repository has too further names of those, after their hashes were compared.
// It returns how many. Objects that have another name already stay.
func (s *Engine) ShareHistory(ctx context.Context, dryRun bool) (n int, err error) {
	near := s.siblings()
	defer closeAll(near)
	if len(near) == 0 {
		return 0, nil
	}
	err = s.History.Each(func(sha string, st fsx.Stat, ok bool) error {
		if err := ctx.Err(); err != nil || !ok || st.Nlink > 1 {
			return err
		}
		d := s.shared(near, sha)
		if d == nil {
			return nil
		}
		if dryRun {
			d.Discard()
			n++
			return nil
		}
		if err := s.flushFiles([]fsx.File{d.File}); err != nil {
			d.Discard()
			return err
		}
		done, err := s.shareHistory()
		if err != nil {
			d.Discard()
			return err
		}
		defer done()
		if !s.History.Has(sha) { // a sweep removed it
			d.Discard()
			return nil
		}
		n++
		return d.Place()
	})
	return n, err
}

// placeKept gives objects their names.
func (s *Engine) placeKept(drafts []*blob.Draft, grown int64) (err error) {
	for _, d := range drafts {
		if perr := d.Place(); IsAbsent(perr) {
			err = fault.New(fault.IOBusy).Because(perr).Hintf("the operator erases a secret, and what was being kept went with it; try again")
		} else if err == nil {
			err = perr
		}
	}
	if err != nil {
		return err
	}
	s.keptBytes.Add(grown)
	s.keptObjects.Add(int64(len(drafts)))
	return s.syncObjects(drafts)
}

func discard(drafts []*blob.Draft) {
	for _, d := range drafts {
		d.Discard()
	}
}

// Observe writes one row about changes that other programs made to the paths.
// Under their locks, with the commits of dead writers completed, judge returns
// the mutations as they are then; without any there is no row. It may be called
// more than once.
func (s *Engine) Observe(ctx context.Context, rec *journal.Record, paths []string, judge func() ([]journal.Mutation, error)) error {
	if err := s.Enter(); err != nil {
		return err
	}
	defer s.Leave()
	for range maxMoves {
		again, err := s.observeOnce(ctx, rec, paths, judge)
		if !again || err != nil {
			return err
		}
	}
	return fault.New(fault.ChangedDuringWrite)
}

// observeOnce is Observe unless a commit has to be completed before.
func (s *Engine) observeOnce(ctx context.Context, rec *journal.Record, paths []string, judge func() ([]journal.Mutation, error)) (again bool, err error) {
	unlock, err := s.lockPaths(ctx, s.Opts.LockTimeout, "scan", paths, len(paths))
	if err != nil {
		return false, err
	}
	defer func() {
		if unlock != nil {
			unlock()
		}
	}()
	if err := s.Log.CatchUp(); err != nil {
		return false, err
	}
	head := s.Log.Head()
	left, err := s.LeftBehind(paths)
	if err != nil {
		return false, err
	}
	if left != nil {
		unlock()
		unlock = nil
		return true, s.FinishDead(ctx, left, new(Report))
	}
	if rec.Muts, err = judge(); err != nil || len(rec.Muts) == 0 {
		return false, err
	}
	rec.TS, rec.Kind, rec.Writer = stamp.Text(s.Now()), journal.KindObserved, s.Writer
	rec.Settled, rec.Policy = s.Unsettled.Floor(s.Log.Head()), s.Host.PolicyHash()
	if s.Opts.Sync == SyncOff {
		rec.Level = string(SyncOff)
	}
	unmoved := func(uint64) error { // as Commit.unmoved
		for _, p := range paths {
			if e, _ := s.Rows.Last(p); e.Seq > head {
				return errRowCame
			}
		}
		return nil
	}
	err = s.appendRow(&journal.Batch{Recs: []*journal.Record{rec}, Before: unmoved, Long: true})
	var we *journal.WriteError
	switch {
	case err == errRowCame:
		return true, nil
	case err == nil:
		s.pruneAfter(rec.Seq)
	case errors.As(err, &we) && we.Effect == journal.EffectUnknown, s.Log.Poisoned() && !errors.Is(err, journal.ErrPoisoned):
		return false, s.Poison(err)
	}
	return false, err
}

var errRowCame = errors.New("a row came under the journal lock")

// lockPaths locks paths, and files that several names share, or the whole tree where a
// row has as many paths.
func (s *Engine) lockPaths(ctx context.Context, wait time.Duration, what string, paths []string, ofRow int, shared ...inode) (func(), error) {
	if s.Many(ofRow) {
		return s.Locks.Tree(ctx, wait, what)
	}
	keys := make([]string, len(paths), len(paths)+len(shared))
	for i, p := range paths {
		keys[i] = PathLock(p)
	}
	for _, i := range shared {
		keys = append(keys, i.lock())
	}
	return s.Locks.Keys(ctx, wait, what, keys...)
}

// Own reports whether an entry of the workspace belongs to the store: the state
// directory, also that of another store, or a directory of slots.
func (s *Engine) Own(name string, st fsx.Stat) bool {
	if relpath.IsSlots(name) {
		return true
	}
	return st.Kind == fsx.Directory && (st.SameFile(s.Disk.stateStat) || relpath.ProtectedName(name, s.Tree.Rules.Protected))
}
