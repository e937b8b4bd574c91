package resilientwrite

import (
	"context"
	"math"
	"math/bits"
	"sort"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
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
// with what a look has to read, all of the journal and all of history. Processes
// that make one commit each look when the journal has grown by an eighth.
func (s *Store) pruneDue(seq uint64) bool {
	step := max(256, uint64(1)<<bits.Len64(seq)>>4)
	return s.keptBytes.Load() > s.historyCaps().bytes/8 || s.keptObjects.Load() > max(64, s.pruneRead.Load()/8) || seq%step == 0
}

// countsForPruning reports whether keeping the version before revision rev of a
// path may exceed a bound that is not one of bytes. A path that has not been
// changed that often cannot have too many versions. 0 is a revision that is not
// known.
func (s *Store) countsForPruning(rev uint64) bool {
	caps := s.historyCaps()
	return rev == 0 || caps.age > 0 || rev > uint64(caps.versions)
}

// pruneLater prunes beside the caller, unless this process does so already.
func (s *Store) pruneLater() {
	if !s.sweeping.TryLock() {
		return
	}
	if s.countIn() != nil {
		s.sweeping.Unlock()
		return
	}
	prune := func() {
		defer s.leave()
		defer s.sweeping.Unlock()
		s.prune(context.Background(), sweepWait) // what cannot be removed now is over the bound for longer
	}
	if s.seam.inTurn {
		prune()
		return
	}
	go prune()
}

// The lock of history is shared by whoever adds a version and owned by a sweep,
// in every process. Nobody waits long for it: a process may have been stopped
// with it. A sweep is then left for later, and who adds a version tries again
// later.
const (
	sweepWait  = 20 * time.Millisecond
	shareWait  = 250 * time.Millisecond
	busyFor    = 5 * time.Second // it is not waited for again
	sweepSlice = 128             // versions that a sweep removes before it lets others in
)

// shareHistory keeps sweeps out while a version is added.
func (s *Store) shareHistory() (done func(), err error) {
	wait := shareWait
	if time.Now().UnixNano() < s.historyBusy.Load() {
		wait = 0
	}
	done, err = s.locks.ShareHistory(context.Background(), wait)
	if err != nil && wait > 0 {
		s.historyBusy.Store(time.Now().Add(busyFor).UnixNano())
	}
	return done, err
}

// kept is a version in history as pruning sees it.
type kept struct {
	sha   string
	st    fsx.Stat
	seq   uint64    // of the newest commit that replaced it
	when  time.Time // of that commit
	rank  int       // how many versions of its path were replaced since, at least
	stays bool      // it is the newest prior version of a path
}

// prune removes what is over a bound, beside other processes. What is over is
// found without the lock. Under it, only what nobody has kept again since goes: a
// commit that does so has written its row before.
func (s *Store) prune(ctx context.Context, wait time.Duration) (gone []*kept, err error) {
	if s.opts.ReadOnly || s.history == nil || s.log == nil || s.poisoned.Load() {
		return nil, nil
	}
	s.keptBytes.Store(0)
	s.keptObjects.Store(0)
	s.pruneRead.Store(0)
	list, upto, err := s.overBounds()
	for len(list) > 0 && err == nil {
		n := min(len(list), sweepSlice)
		var went []*kept
		went, err = s.sweep(ctx, wait, list[:n], upto)
		gone, list = append(gone, went...), list[n:]
	}
	return gone, err
}

// sweep removes versions that were over a bound up to the row upto.
func (s *Store) sweep(ctx context.Context, wait time.Duration, list []*kept, upto uint64) (gone []*kept, err error) {
	unlock, err := s.locks.History(ctx, wait, "prune")
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := s.log.CatchUp(); err != nil {
		return nil, err
	}
	again := map[string]bool{}
	err = s.log.Range(upto+1, func(rec *journal.Record, _ journal.Pos) error {
		for i := range rec.Muts {
			again[rec.Muts[i].PrevSHA256], again[rec.Muts[i].SHA256] = true, true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, k := range list {
		if again[k.sha] {
			continue
		}
		went, err := s.history.RemoveIf(k.sha, k.st)
		if err != nil && !isAbsent(err) {
			return gone, err
		}
		if went {
			gone = append(gone, k)
		}
	}
	return gone, nil
}

// justKept is how long a version stays that no row knows: a commit that is about
// to write its row may need it.
const justKept = time.Hour

// overBounds lists the versions that are over a bound, in the order in which
// they go, and the newest row that was read.
func (s *Store) overBounds() (due []*kept, upto uint64, err error) {
	objects := map[string]*kept{}
	var total int64
	err = s.history.Each(func(name string, st fsx.Stat, ok bool) error {
		if ok {
			// What no row knows is a stranger's, saved at the last moment: it
			// goes last.
			objects[name] = &kept{sha: name, st: st, rank: -1, seq: math.MaxUint64}
			s.pruneRead.Add(1)
			total += st.Size
		}
		return nil
	})
	if err != nil || len(objects) == 0 {
		return nil, 0, err
	}
	if err := s.log.CatchUp(); err != nil {
		return nil, 0, err
	}
	if upto, err = s.rankKept(objects); err != nil {
		return nil, 0, err
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
	for _, k := range list {
		over := total > caps.bytes || k.rank >= caps.versions ||
			caps.object > 0 && k.st.Size > caps.object || caps.age > 0 && !k.when.IsZero() && now.Sub(k.when) > caps.age
		fresh := k.seq == math.MaxUint64 && now.UnixNano()-k.st.Ctime < int64(justKept)
		if !over || k.stays || fresh {
			continue
		}
		due = append(due, k)
		total -= k.st.Size
	}
	return due, upto, nil
}

// rankKept tells from the journal when each version was replaced, and how many
// versions of its path were replaced since. The rows come oldest first, so the
// order in which each path replaced its versions is collected and read
// backward.
func (s *Store) rankKept(objects map[string]*kept) (upto uint64, err error) {
	replaced := map[string][]string{}
	err = s.log.SkimPrevious(func(rec *journal.Record) error {
		upto = rec.Seq
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
		return upto, err
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
	return upto, nil
}
