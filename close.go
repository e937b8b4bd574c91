package resilientwrite

import (
	"context"

	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Close waits for the calls in flight, completes what was left to be done after
// their replies, saves the caches and releases everything. Later calls fail with
// [StoreClosed]. When ctx ends first, Close fails with [Canceled] and the store
// stays closed for new calls; everything is released when the last call ends,
// and what is not settled is completed by the next Open. Closing again waits for
// the same, as long as its own ctx allows. Errors besides: the storage details.
// What was acknowledged before is not affected by any of them.
func (s *Store) Close(ctx context.Context) error {
	s.gate.Lock()
	first := s.open
	s.open = false
	s.gate.Unlock()
	if first {
		defer s.watchers.close(ctx)
		go func() {
			s.flights.Wait()
			s.ended <- s.end()
			close(s.ended)
		}()
	}
	select {
	case err := <-s.ended:
		return err
	case <-ctx.Done():
		return s.verbError("close", ctx.Err())
	}
}

// end closes a store that no call uses.
func (s *Store) end() error {
	var err error
	lost := s.present() != nil
	if !s.opts.ReadOnly && !s.poisoned.Load() && !lost {
		if err = s.behind.drain(); err == nil {
			s.heads.drain()
			s.lookAgain(-1)
			err = s.alone("close", s.saveCaches)
		}
	}
	if serr := s.shut(); err == nil && !lost { // what is lost cannot be left tidy
		err = serr
	}
	if err != nil {
		return s.verbError("close", err)
	}
	return nil
}

// saveCaches writes what makes the next Open fast. A full disk is no failure:
// caches can be rebuilt.
func (s *Store) saveCaches() error {
	// The rows first: a cache must not know of rows that a power cut takes.
	if err := s.log.Sync(); err != nil {
		return s.poison(err)
	}
	err := s.rows.save(s.disk.index, s.log)
	if err == nil {
		err = s.writeMeta()
	}
	if err != nil && s.errorOf(err).Code == fault.DiskFull {
		return nil
	}
	return err
}

// snapshot writes a snapshot of the index while the store is in use.
func (s *Store) snapshot() {
	if !s.snapping.TryLock() {
		return
	}
	defer s.snapping.Unlock()
	s.alone("snapshot", func() error {
		if err := s.log.Sync(); err != nil {
			return err
		}
		return s.rows.save(s.disk.index, s.log)
	})
}

// shut releases everything, in the order opposite to opening.
func (s *Store) shut() error {
	if s.heads != nil {
		s.heads.close()
	}
	var first error
	keep := func(err error) {
		if first == nil {
			first = err
		}
	}
	if s.behind != nil {
		s.behind.stop()
	}
	if s.slots != nil && s.lost.Load() == nil {
		s.slots.Close()
	}
	if s.log != nil {
		keep(s.log.Close())
	}
	if s.rows != nil {
		keep(s.rows.close())
	}
	if s.unlive != nil {
		keep(s.unlive())
	}
	if s.locks != nil {
		keep(s.locks.Close())
	}
	if s.history != nil {
		keep(s.history.Close())
	}
	s.closeDirs()
	return first
}

func (s *Store) closeDirs() {
	if s.disk.lockf != nil {
		s.disk.lockf.Close()
	}
	if s.disk.above != nil && s.disk.above != s.disk.root {
		s.disk.above.Close()
	}
	for _, d := range []fsx.Dir{s.disk.index, s.disk.locks, s.disk.staging, s.disk.journal, s.disk.state, s.disk.root} {
		if d != nil {
			d.Close()
		}
	}
}
