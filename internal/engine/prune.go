package engine

import (
	"cmp"
	"context"
	"maps"
	"math"
	"math/bits"
	"slices"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// History is bounded by the policy: bytes of all kept versions, age, versions
// of one path with the one that its file holds, size of one. What is over a
// bound goes, the oldest first, but never the newest prior version of a path: the
// last change of every file can always be undone.

const (
	DefaultHistoryBytes    = 1 << 30 // or
	DefaultHistoryShare    = 20      // the part of the disk, if that is less
	DefaultHistoryVersions = 100
)

// HistoryCaps are the bounds in force; 0 is none.
type HistoryCaps struct {
	Bytes, Object int64
	Head          int64 // largest newest version that is copied
	Age           time.Duration
	Versions      int
}

// pruneAfter prunes after a commit when enough was kept since the last time that
// a bound may be exceeded: an eighth of the bytes, or a number of versions that
// grows with what a look has to read, all of the journal and all of history.
// What other processes wrote is counted in rows: it is looked at when the journal
// has grown by an eighth by them, also by processes that make one commit each. It
// is done in the background unless that falls behind.
func (s *Engine) pruneAfter(seq uint64) {
	bytes, objects := s.Host.HistoryCaps().Bytes/8, max(256, s.pruneRead.Load()/2)
	step := max(256, uint64(1)<<bits.Len64(seq)>>4)
	own := s.ownRows.Add(1)
	if s.keptObjects.Load() > objects || seq%step == 0 && seq+1 >= s.prunedTo.Load()+own+step {
		s.pruneAll.Store(true)
	}
	switch {
	case !s.pruneDue():
	case s.TestHooks.InTurn || s.keptBytes.Load() > 2*bytes || s.keptObjects.Load() > 2*objects:
		s.pruneNow()
	default:
		s.Heads.sweepSoon()
	}
}

// pruneDue reports whether a bound may be exceeded.
func (s *Engine) pruneDue() bool {
	return s.keptBytes.Load() > s.Host.HistoryCaps().Bytes/8 || s.pruneAll.Load()
}

// countsForPruning reports whether keeping the version before revision rev of a
// path may exceed a bound that is not one of bytes. A path that has not been
// changed that often cannot have too many versions. 0 is a revision that is not
// known.
func (s *Engine) countsForPruning(rev uint64) bool {
	caps := s.Host.HistoryCaps()
	return rev == 0 || caps.Age > 0 || rev > uint64(caps.Versions)
}

// pruneNow prunes, or waits until another call of this process has.
func (s *Engine) pruneNow() {
	before := s.pruned.Load()
	s.Sweeping.Lock()
	defer s.Sweeping.Unlock()
	if s.pruned.Load() != before {
		return
	}
	if !s.pruneNext() {
		s.Prune(context.Background(), SweepWait) // what cannot be removed now is over the bound for longer
	}
}

// pruneNext removes the versions that were next at the last look, for as many bytes as
// were kept since. It reports whether that is enough: it is not if another bound may be
// exceeded, or if other processes have written more than a little.
func (s *Engine) pruneNext() bool {
	b, caps, own := &s.bounds, s.Host.HistoryCaps(), s.ownRows.Load()
	if b.upto == 0 || s.pruneAll.Load() || caps.Age > 0 || s.Poisoned.Load() || s.Log.Head() > s.prunedTo.Load()+own+own/8 {
		return false
	}
	named, upto, err := s.namedAfter(b.upto)
	if err != nil {
		return false
	}
	b.upto = upto
	b.next = slices.DeleteFunc(b.next, func(k *Kept) bool { return named[k.sha] })
	n, bytes := 0, b.bytes+s.keptBytes.Load()
	for ; bytes > caps.Bytes; n++ {
		if n == len(b.next) {
			return false
		}
		bytes -= b.next[n].St.Size
	}
	s.pruned.Add(1)
	b.bytes += s.keptBytes.Swap(0)
	if err := s.sweepAll(context.Background(), SweepWait, b.next[:n], nil); err == nil {
		b.next = b.next[n:]
	}
	return true
}

// namedAfter returns the hashes that rows after seq name, and the newest row.
func (s *Engine) namedAfter(seq uint64) (named map[string]bool, upto uint64, err error) {
	if err := s.Log.CatchUp(); err != nil {
		return nil, 0, err
	}
	named, upto = map[string]bool{}, seq
	err = s.Log.SkimPrevious(seq+1, func(rec *journal.Record) error {
		upto = rec.Seq
		for i := range rec.Muts {
			named[rec.Muts[i].PrevSHA256], named[rec.Muts[i].SHA256] = true, true
		}
		return nil
	})
	return named, upto, err
}

// The lock of history is shared by those that add a version and owned by a sweep,
// in every process. Nobody waits long for it: a process may have been stopped
// with it. A sweep is then left for later, and who adds a version tries again
// later.
const (
	SweepWait  = 20 * time.Millisecond
	shareWait  = 250 * time.Millisecond
	busyFor    = 5 * time.Second // it is not waited for again
	sweepSlice = 128             // versions that a sweep removes before it lets others in
)

// shareHistory keeps sweeps out while a version is added.
func (s *Engine) shareHistory() (done func(), err error) {
	wait := shareWait
	if time.Now().UnixNano() < s.historyBusy.Load() {
		wait = 0
	}
	done, err = s.Locks.ShareHistory(context.Background(), wait)
	if err != nil && wait > 0 {
		s.historyBusy.Store(time.Now().Add(busyFor).UnixNano())
	}
	return done, err
}

// Kept is a version in history as pruning sees it.
type Kept struct {
	sha    string
	St     fsx.Stat
	seq    uint64    // of the newest commit that made or replaced it
	when   time.Time // when it was replaced last, at the latest; zero if that is not known
	rank   int       // how many versions of its path are newer, at least
	newest bool      // a file should hold it
	stays  bool      // it is the newest prior version of a path
	into   string    // the version that begins with it, when it only was added to
	alone  bool      // it was replaced, too
}

// Prune removes what is over a bound, beside other processes. What is over is
// found without the lock. Under it, only what no process has kept again since is removed: a
// commit that does so has written its row before.
func (s *Engine) Prune(ctx context.Context, wait time.Duration) (gone []*Kept, err error) {
	if s.Opts.ReadOnly || s.History == nil || s.Log == nil || s.Poisoned.Load() {
		return nil, nil
	}
	s.pruned.Add(1)
	s.keptBytes.Store(0)
	s.keptObjects.Store(0)
	s.ownRows.Store(0)
	s.pruneAll.Store(false)
	s.bounds = Bounds{}
	b, err := s.OverBounds()
	s.keptBytes.Add(-b.counted)
	s.prunedTo.Store(b.upto)
	s.pruneRead.Store(b.read)
	if err != nil {
		return nil, err
	}
	over := b.Over
	b.Over, b.next = nil, slices.Clone(b.next[:min(len(b.next), nextKept)])
	s.bounds = b
	err = s.sweepAll(ctx, wait, over, &gone)
	return gone, err
}

// sweepAll is sweep in slices. It adds what it removed to gone, unless that is nil.
func (s *Engine) sweepAll(ctx context.Context, wait time.Duration, list []*Kept, gone *[]*Kept) error {
	for part := range slices.Chunk(list, sweepSlice) {
		went, err := s.sweep(ctx, wait, part, s.bounds.upto)
		for _, k := range went {
			s.bounds.bytes -= k.St.Size
		}
		if gone != nil {
			*gone = append(*gone, went...)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// sweep removes versions that were over a bound up to the row upto.
func (s *Engine) sweep(ctx context.Context, wait time.Duration, list []*Kept, upto uint64) (gone []*Kept, err error) {
	unlock, err := s.Locks.History(ctx, wait, "prune")
	if err != nil {
		return nil, err
	}
	defer unlock()
	again, _, err := s.namedAfter(upto)
	if err != nil {
		return nil, err
	}
	for _, k := range list {
		if again[k.sha] {
			continue
		}
		went, err := s.History.RemoveIf(k.sha, k.St)
		if err != nil && !IsAbsent(err) {
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

// Bounds is what a look at all of history has found.
type Bounds struct {
	Over  []*Kept // over a bound, in the order in which they go
	next  []*Kept // go after them when more is kept, in this order
	bytes int64   // in history

	counted int64  // of keptBytes, when history had been listed
	upto    uint64 // newest row that was read
	read    int64  // versions and files of rows that were read
}

// nextKept is how many versions a process remembers to remove next.
const nextKept = 4096

// OverBounds lists the versions that are over a bound.
func (s *Engine) OverBounds() (b Bounds, err error) {
	objects := map[string]*Kept{}
	err = s.History.Each(func(name string, st fsx.Stat, ok bool) error {
		if ok {
			// A version that no row names was saved by another program: it
			// goes last.
			objects[name] = &Kept{sha: name, St: st, rank: -1, seq: math.MaxUint64}
			b.bytes += st.Size
		}
		return nil
	})
	b.counted = s.keptBytes.Load()
	if err != nil || len(objects) == 0 {
		return b, err
	}
	if err := s.Log.CatchUp(); err != nil {
		return b, err
	}
	b.read = int64(len(objects))
	if err := s.rankKept(objects, &b); err != nil {
		return b, err
	}
	list := slices.SortedFunc(maps.Values(objects), func(a, b *Kept) int {
		return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.sha, b.sha))
	})
	caps, now, goes, pinned := s.Host.HistoryCaps(), s.Now(), map[*Kept]bool{}, map[string]bool{}
	if s.Pinned != nil {
		if pinned, err = s.Pinned(); err != nil {
			return b, err
		}
	}
	shipped, ships := uint64(0), false
	if s.Shipped != nil {
		if shipped, ships, err = s.Shipped(); err != nil {
			return b, err
		}
	}
	bytes := b.bytes
	for _, k := range list {
		waits := ships && k.seq > shipped && k.seq < math.MaxUint64
		over := bytes > caps.Bytes || !pinned[k.sha] && !waits && (k.rank >= caps.Versions ||
			caps.Object > 0 && k.St.Size > caps.Object || caps.Age > 0 && !k.newest && !k.when.IsZero() && now.Sub(k.when) > caps.Age)
		fresh := k.seq == math.MaxUint64 && now.UnixNano()-k.St.Ctime < int64(justKept)
		switch {
		case k.stays || fresh:
		case !over:
			b.next = append(b.next, k)
		default:
			b.Over = append(b.Over, k)
			goes[k] = true
			bytes -= k.St.Size
		}
	}
	b.Over = append(b.Over, addedTo(objects, goes)...)
	return b, nil
}

// rankKept finds in the journal when each version was replaced, how many
// versions of its path came since, and which one of a file that was only added
// to has its bytes. The rows come oldest first, so the order in which each path
// had its versions is collected and read backward.
func (s *Engine) rankKept(objects map[string]*Kept, b *Bounds) error {
	replaced, newest, clock := map[string][]string{}, map[string]string{}, rowClock{now: s.Now()}
	err := s.Log.SkimPrevious(1, func(rec *journal.Record) error {
		b.upto = rec.Seq
		clock.row(rec)
		switch rec.Kind {
		case journal.KindCommit, journal.KindObserved, journal.KindConflict, journal.KindAbort:
		default:
			return nil
		}
		b.read += int64(len(rec.Muts))
		for i := range rec.Muts {
			m := &rec.Muts[i]
			if m.Class != "" {
				continue
			}
			path := m.Identity()
			delete(newest, path)
			if k := objects[m.SHA256]; k != nil {
				newest[path] = m.SHA256
				k.madeBy(rec.Seq)
			}
			k := objects[m.PrevSHA256]
			if k == nil || rec.Kind == journal.KindAbort {
				continue
			}
			k.replacedBy(rec, m)
			clock.set(k)
			replaced[path] = append(replaced[path], m.PrevSHA256)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, sha := range newest {
		objects[sha].newest, objects[sha].rank = true, 0
	}
	for path, list := range replaced {
		rankPath(objects, newest[path], list)
	}
	return nil
}

// rowClock derives from the times of rows, which are in order, when each was written at
// the latest. The clock may have been wrong: no row is older than one before it, and none
// was written in the future.
type rowClock struct {
	now, last time.Time
	ahead     bool    // the current row has a time in the future
	waiting   []*Kept // replaced by rows with such a time, since the last other row
}

// row takes the next row.
func (c *rowClock) row(rec *journal.Record) {
	t := ParseTime(rec.TS)
	if c.ahead = t.IsZero() || t.After(c.now); c.ahead {
		return
	}
	if t.After(c.last) {
		c.last = t
	}
	for _, k := range c.waiting {
		k.when = c.last
	}
	c.waiting = nil
}

// set sets when a version was replaced by the current row. It stays unknown until a later
// row has a possible time.
func (c *rowClock) set(k *Kept) {
	k.when = c.last
	if c.ahead {
		k.when = time.Time{}
		c.waiting = append(c.waiting, k)
	}
}

// madeBy notes the row of a commit whose file the version was.
func (k *Kept) madeBy(seq uint64) {
	if k.seq == math.MaxUint64 || k.seq < seq {
		k.seq = seq
	}
}

// replacedBy notes the row of a commit that replaced the version, or added to it.
func (k *Kept) replacedBy(rec *journal.Record, m *journal.Mutation) {
	k.madeBy(rec.Seq)
	if m.PaySHA256 != "" && !k.alone {
		k.into = m.SHA256
	} else {
		k.alone, k.into = true, ""
	}
}

// rankPath ranks the versions of one path, which were replaced in this order.
func rankPath(objects map[string]*Kept, newest string, list []string) {
	seen, prior := map[string]bool{}, false
	if newest != "" {
		seen[newest] = true
	}
	for i := len(list) - 1; i >= 0; i-- {
		if seen[list[i]] {
			continue
		}
		k := objects[list[i]]
		if k.rank < 0 || len(seen) < k.rank {
			k.rank = len(seen)
		}
		k.stays = k.stays || !prior
		prior, seen[list[i]] = true, true
	}
}

// addedTo are the versions that only are the beginning of a later one, which is
// kept: they can be had from that.
func addedTo(objects map[string]*Kept, goes map[*Kept]bool) (more []*Kept) {
	for _, sha := range slices.Sorted(maps.Keys(objects)) {
		k := objects[sha]
		if k.newest || goes[k] {
			continue
		}
		for at := k; at != nil && at.into != ""; { // each is longer than the one before
			if at = objects[at.into]; at != nil && !goes[at] {
				more = append(more, k)
				break
			}
		}
	}
	return more
}
