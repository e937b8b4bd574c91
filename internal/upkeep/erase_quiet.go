package upkeep

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/lock"
)

// quiet waits until every commit in progress is settled, and
// brings those of dead writers to their end.
func (e *eraser) quiet(ctx context.Context) error {
	if e.DryRun {
		return nil
	}
	if err := e.Engine.Drain(); err != nil {
		return err
	}
	if err := e.haltCopies(ctx); err != nil {
		return err
	}
	if err := e.Engine.RecoverDead(ctx, new(engine.Report)); err != nil {
		return err
	}
	under, err := e.slotsInUse()
	if err != nil {
		return err
	}
	deadline := time.Now().Add(e.LockTimeout)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		now, err := e.slotsInUse()
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(under, func(name string) bool { return slices.Contains(now, name) }) {
			return e.forGood()
		}
		if time.Now().After(deadline) {
			return fault.New(fault.LockTimeout).Hintf("another write is in progress; call again when it has ended")
		}
		select {
		case <-ctx.Done():
			return canceled(ctx)
		case <-time.After(wait):
		}
		if err := e.Engine.RecoverDead(ctx, new(engine.Report)); err != nil {
			return err
		}
	}
}

// haltCopies makes all processes give up the copies of newest versions that they have
// not made yet, and removes the remains of interrupted ones.
func (e *eraser) haltCopies(ctx context.Context) error {
	unlock, err := e.aloneInHistory(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if err := e.Engine.Log.CatchUp(); err != nil {
		return err
	}
	if e.began = e.Engine.Log.Head(); e.began == 0 {
		return nil
	}
	if err := e.Engine.Locks.SetMark(e.began); err != nil {
		return err
	}
	return e.Engine.History.RemoveDrafts()
}

// aloneInHistory takes the lock of history. Each attempt waits for less time than a
// writer that adds a version does.
func (e *eraser) aloneInHistory(ctx context.Context) (unlock func(), err error) {
	for end := time.Now().Add(e.LockTimeout); ; {
		unlock, err = e.Engine.Locks.History(ctx, 4*engine.SweepWait, "erase")
		var timeout *lock.TimeoutError
		if !errors.As(err, &timeout) || time.Now().After(end) {
			return unlock, err
		}
	}
}

// cameBetween reports whether a commit was made since the round began: it may
// have brought the secret back.
func (e *eraser) cameBetween() (came bool, err error) {
	if err := e.Engine.Log.CatchUp(); err != nil {
		return false, err
	}
	err = e.Engine.Log.Range(e.began+1, func(rec *journal.Record, _ journal.Pos) error {
		came = came || rec.Kind == journal.KindCommit
		return nil
	})
	return came, err
}

// left are the slots in which recovery left a version that could not reach
// history, by their labels.
func (e *eraser) left() map[string]publish.Slot {
	slots := map[string]publish.Slot{}
	e.Engine.Unkept.Range(func(label, slot any) bool {
		slots[label.(string)] = slot.(publish.Slot)
		return true
	})
	return slots
}

// slotsInUse lists the slots that commits use.
func (e *eraser) slotsInUse() ([]string, error) {
	held, _, err := e.Engine.HeldSlots()
	left := e.left()
	return slices.DeleteFunc(held, func(label string) bool { return left[label].Name != "" }), err
}

// slots erases versions that were left in slots. Only files that were made as slots are
// overwritten. Another file in a slot has become a version, and the next round waits for a commit
// in progress.
func (e *eraser) slots(ctx context.Context) error {
	left := e.left()
	for _, label := range slices.Sorted(maps.Keys(left)) {
		slot := left[label]
		f := file{slot.Dir, strings.TrimSuffix(label, "/"+slot.Name), slot.Name}
		st, err := f.dir.Lstat(f.name)
		if engine.IsAbsent(err) {
			continue
		}
		if err != nil {
			return err
		}
		if hit, err := e.contains(f); err != nil {
			return err
		} else if !hit || st.Ino != slot.Ino || st.Nlink > 1 {
			continue
		}
		was, err := fileSHA(f)
		if err != nil {
			return err
		}
		e.add(f, was, func() error { return zero(slot) }).place = "staging"
	}
	return e.carry(ctx)
}

// zero overwrites a slot before it is removed.
//
//	write NULs…  fsync  ftruncate(0)  fsync  unlinkat
func zero(slot publish.Slot) error {
	f, err := slot.Dir.Open(slot.Name, fsx.Write, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	for at, buf := int64(0), make([]byte, 64<<10); at < st.Size; {
		n, err := f.WriteAt(buf[:min(int64(len(buf)), st.Size-at)], at)
		if at += int64(n); err != nil {
			return err
		}
	}
	for _, step := range []func() error{f.Sync, func() error { return f.Truncate(0) }, f.Sync, slot.Remove} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}
