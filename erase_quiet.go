package resilientwrite

import (
	"context"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/lock"
)

// quiet waits until every commit that is under way now is settled for good, and
// brings those of dead writers to their end.
func (e *eraser) quiet(ctx context.Context) error {
	if e.dryRun {
		return nil
	}
	if err := e.s.behind.drain(); err != nil {
		return err
	}
	if err := e.s.settleDead(ctx); err != nil {
		return err
	}
	under, err := e.s.leftovers()
	if err != nil {
		return err
	}
	deadline := time.Now().Add(e.s.opts.LockTimeout)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		now, err := e.s.leftovers()
		if err != nil {
			return err
		}
		waiting := false
		for id := range under {
			waiting = waiting || now[id] != nil
		}
		if !waiting {
			return e.u.forGood()
		}
		if time.Now().After(deadline) {
			return fail(LockTimeout).hint("a write of another caller is still under way; call again when it is done")
		}
		select {
		case <-ctx.Done():
			return canceled(ctx)
		case <-time.After(wait):
		}
		if err := e.s.settleDead(ctx); err != nil {
			return err
		}
	}
}

// settleDead finishes or sweeps what dead writers left since the store was
// opened.
func (s *Store) settleDead(ctx context.Context) error {
	found, err := s.leftovers()
	if err != nil {
		return err
	}
	for id, l := range found {
		live, err := lock.Alive(s.disk.locks, l.writer)
		if err != nil {
			return err
		}
		if live || l.writer == s.writer {
			delete(found, id)
		}
	}
	dead, err := s.findRows(found)
	if err != nil {
		return err
	}
	for _, l := range dead {
		if l.rec == nil {
			err = s.sweep(l)
		} else {
			err = s.finishDead(ctx, l.rec)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
