package resilientwrite

import (
	"math"
	"sort"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// History is bounded by the policy: bytes of all kept versions, age, versions
// of one path, size of one. What is over a bound goes, the least recently
// replaced first, but never the newest prior version of a path: the last
// change of every file can always be taken back.

const (
	defaultHistoryBytes    = 1 << 30
	defaultHistoryVersions = 100
)

// historyCaps are the bounds in force; 0 is none.
type historyCaps struct {
	bytes, object int64
	age           time.Duration
	versions      int
}

func (s *Store) historyCaps() historyCaps {
	h := s.policy().file.History
	caps := historyCaps{bytes: h.MaxBytes, object: h.MaxObjectBytes, age: h.MaxAge, versions: h.MaxVersions}
	if caps.bytes == 0 {
		caps.bytes = defaultHistoryBytes
	}
	if caps.versions == 0 {
		caps.versions = defaultHistoryVersions
	}
	return caps
}

// pruneDue reports whether enough was kept since the last look that a bound
// may be exceeded: an eighth of the bytes, or a number of versions that grows
// with what a look has to read, all of the journal and all of history.
func (s *Store) pruneDue() bool {
	return s.keptBytes.Load() > s.historyCaps().bytes/8 || s.keptObjects.Load() > max(64, s.pruneRead.Load()/8)
}

// countsForPruning reports whether keeping the version before revision rev of a
// path may exceed a bound that is not one of bytes. A path that has not been
// changed that often cannot have too many versions. 0 is a revision that is not
// known.
func (s *Store) countsForPruning(rev uint64) bool {
	caps := s.historyCaps()
	return rev == 0 || caps.age > 0 || rev > uint64(caps.versions)
}

// pruneIdle prunes when no other commit of this process is under way; when one
// is, a later one does it.
func (s *Store) pruneIdle() {
	if !s.pruning.TryLock() {
		return
	}
	defer s.pruning.Unlock()
	s.prune() // what cannot be removed now is over the bound for longer
}

// kept is a version in history as pruning sees it.
type kept struct {
	sha   string
	size  int64
	seq   uint64    // of the newest commit that replaced it
	when  time.Time // of that commit
	rank  int       // how many versions of its path were replaced since, at least
	stays bool      // it is the newest prior version of a path
}

// prune removes what is over a bound. It runs while no commit of this process
// is under way, and not beside another live writer, who may be about to keep
// the same bytes again.
func (s *Store) prune() error {
	if s.opts.ReadOnly || s.history == nil || s.log == nil || s.poisoned.Load() {
		return nil
	}
	if others, err := s.othersLive(); err != nil || others {
		return err
	}
	s.keptBytes.Store(0)
	s.keptObjects.Store(0)
	s.pruneRead.Store(0)
	list, err := s.overBounds()
	if err != nil {
		return err
	}
	for _, k := range list {
		if err := s.history.Remove(k.sha); err != nil && !isAbsent(err) {
			return err
		}
	}
	return nil
}

// overBounds lists the versions that are over a bound, in the order in which
// they go.
func (s *Store) overBounds() ([]*kept, error) {
	objects := map[string]*kept{}
	var total int64
	err := s.history.Each(func(name string, size int64, ok bool) error {
		if ok {
			// What no row knows is a stranger's, saved at the last moment: it
			// goes last.
			objects[name] = &kept{sha: name, size: size, rank: -1, seq: math.MaxUint64}
			s.pruneRead.Add(1)
			total += size
		}
		return nil
	})
	if err != nil || len(objects) == 0 {
		return nil, err
	}
	if err := s.rankKept(objects); err != nil {
		return nil, err
	}
	list := make([]*kept, 0, len(objects))
	for _, k := range objects {
		list = append(list, k)
	}
	sort.Slice(list, func(i, j int) bool {
		if list[i].seq != list[j].seq {
			return list[i].seq < list[j].seq
		}
		return list[i].sha < list[j].sha
	})
	caps, now := s.historyCaps(), s.now()
	var due []*kept
	for _, k := range list {
		over := total > caps.bytes || k.rank >= caps.versions ||
			caps.object > 0 && k.size > caps.object || caps.age > 0 && !k.when.IsZero() && now.Sub(k.when) > caps.age
		if !over || k.stays {
			continue
		}
		due = append(due, k)
		total -= k.size
	}
	return due, nil
}

// rankKept tells from the journal when each version was replaced, and how many
// versions of its path were replaced since. The rows come oldest first, so the
// order in which each path replaced its versions is collected and read
// backward.
func (s *Store) rankKept(objects map[string]*kept) error {
	replaced := map[string][]string{}
	err := s.log.Range(1, func(rec *journal.Record, _ journal.Pos) error {
		if rec.Kind != journal.KindCommit && rec.Kind != journal.KindConflict {
			return nil
		}
		s.pruneRead.Add(int64(len(rec.Muts)))
		for i := range rec.Muts {
			m := &rec.Muts[i]
			k := objects[m.PrevSHA256]
			if k == nil || m.Class != "" {
				continue
			}
			k.seq = rec.Seq
			if t, err := time.Parse(time.RFC3339Nano, rec.TS); err == nil {
				k.when = t
			}
			path := m.Identity()
			replaced[path] = append(replaced[path], m.PrevSHA256)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, list := range replaced {
		seen := map[string]bool{}
		for i := len(list) - 1; i >= 0; i-- {
			if seen[list[i]] {
				continue
			}
			k := objects[list[i]]
			if k.rank < 0 || len(seen) < k.rank {
				k.rank = len(seen)
			}
			k.stays = k.stays || len(seen) == 0
			seen[list[i]] = true
		}
	}
	return nil
}
