package journal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io/fs"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Batch is what one caller writes: all of its records in one write, or none.
type Batch struct {
	Recs []*Record
	// Before, when set, runs under the journal lock with the log caught up.
	// An error keeps the batch out.
	Before func(head uint64) error
	// Long allows records that are too long for a line: their mutations go into
	// a manifest.
	Long bool
	// Ctx, when set, ends the wait for the journal lock, unless this batch waits for
	// another one to get it.
	Ctx context.Context
}

// Effect is whether a failed write may have happened.
type Effect int

const (
	EffectNone    Effect = iota // nothing of it can be read
	EffectUnknown               // it may be read, now or after a crash
)

// WriteError reports a failed write or flush.
type WriteError struct {
	Effect Effect
	Err    error
}

func (e *WriteError) Error() string { return "journal write: " + e.Err.Error() }
func (e *WriteError) Unwrap() error { return e.Err }

// group are the callers that are served together. One of them leads: it waits for the
// journal lock, and serves all who wait by then.
type group struct {
	mu       sync.Mutex
	waiting  []*waiter
	led      bool
	expected int           // callers that come soon
	all      chan struct{} // closed when they have; nil: no leader waits for them
}

// waiter is a caller that waits for its group.
type waiter struct {
	batch *Batch
	until time.Time // how long the journal lock is waited for
	wake  chan bool // true: it was served; false: it leads
	err   error
	head  uint64
}

// expectTime limits how long a leader waits for callers that are expected.
const expectTime = 500 * time.Microsecond

// gather waits for the callers that are expected.
func (g *group) gather() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.expected == 0 {
		return
	}
	all := make(chan struct{})
	g.all = all
	g.mu.Unlock()
	limit := time.NewTimer(expectTime)
	defer limit.Stop()
	select {
	case <-all:
	case <-limit.C:
	}
	g.mu.Lock()
	g.expected, g.all = 0, nil
}

// arrive counts off a caller that may have been expected. g.mu is held.
func (g *group) arrive() {
	if g.expected == 0 {
		return
	}
	if g.expected--; g.expected == 0 && g.all != nil {
		close(g.all)
		g.all = nil
	}
}

// first is when the first of those who wait gives up.
func (g *group) first() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.MinFunc(g.waiting, func(a, b *waiter) int { return a.until.Compare(b.until) }).until
}

// take removes the waiters of which is holds, and returns them.
func (g *group) take(is func(*waiter) bool) (list []*waiter) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.waiting = slices.DeleteFunc(g.waiting, func(w *waiter) bool {
		if is(w) {
			list = append(list, w)
			return true
		}
		return false
	})
	return list
}

// pass wakes the next leader, and then those who were served.
func (g *group) pass(served []*waiter) {
	g.mu.Lock()
	more := len(g.waiting) > 0
	if g.led = more; more {
		g.waiting[0].wake <- false
	}
	g.mu.Unlock()
	for _, w := range served {
		w.wake <- true
	}
	if more { // the scheduler takes who was woken last first
		runtime.Gosched()
	}
}

// Write gives every record its seq and chain and writes them after the newest
// row. Callers that arrive while another write runs are written together, in
// one system call. Nothing is flushed; Flush does that. On success it returns
// the seq of the last record.
func (l *Log) Write(b *Batch) (uint64, error) {
	return l.join(&l.writes, b, l.writeGroup)
}

// join has run serve b, together with the batches of concurrent callers.
func (l *Log) join(g *group, b *Batch, run func(g *group, leader *waiter) (served []*waiter)) (uint64, error) {
	if l.o.ReadOnly {
		return 0, ErrReadOnly
	}
	if err := l.spill(b); err != nil {
		return 0, &WriteError{EffectNone, err}
	}
	w := &waiter{batch: b, until: time.Now().Add(l.lockWait()), wake: make(chan bool, 1)}
	g.mu.Lock()
	g.waiting = append(g.waiting, w)
	g.arrive()
	leads := !g.led
	g.led = true
	g.mu.Unlock()
	for leads || !<-w.wake {
		leads = false
		g.pass(run(g, w))
	}
	return w.head, w.err
}

// writeGroup writes the batches of a group under the journal lock, and returns those who
// were served. If the lock is not free in time, only those who have waited long enough are.
func (l *Log) writeGroup(g *group, leader *waiter) (list []*waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx := context.Background()
	if leader.batch.Ctx != nil {
		ctx = leader.batch.Ctx
	}
	unlock, err := l.begin(ctx, time.Until(g.first()))
	if err != nil {
		now, locked := time.Now(), errors.Is(err, ErrLocked)
		list = g.take(func(w *waiter) bool {
			if ctx.Err() != nil {
				return w == leader
			}
			return !locked || !now.Before(w.until)
		})
		failGroup(list, &WriteError{EffectNone, err})
		return list
	}
	defer unlock()
	list = g.take(func(*waiter) bool { return true })
	var recs []*Record
	var in []*waiter
	for _, w := range list {
		if w.batch.Before != nil {
			if w.err = w.batch.Before(l.pos.Seq + uint64(len(recs))); w.err != nil {
				continue
			}
		}
		if w.err = fit(w.batch.Recs); w.err != nil {
			continue
		}
		recs, in = append(recs, w.batch.Recs...), append(in, w)
	}
	if len(recs) == 0 {
		return list
	}
	if err := l.writeRows(recs); err != nil {
		failGroup(in, err)
		return list
	}
	for _, w := range in {
		if n := len(w.batch.Recs); n > 0 {
			w.head = w.batch.Recs[n-1].Seq
		}
	}
	return list
}

func failGroup(list []*waiter, err error) {
	for _, w := range list {
		w.err = cmp.Or(w.err, err)
	}
}

// Commit is Write followed by Flush. Callers that arrive while rows are flushed
// wait, and are then written in one system call and flushed together.
func (l *Log) Commit(b *Batch) (uint64, error) {
	return l.join(&l.commits, b, l.commitGroup)
}

// Expect announces n calls of Commit that will come soon: the next group waits a short
// while for them, so that they share its flush.
func (l *Log) Expect(n int) {
	l.commits.mu.Lock()
	defer l.commits.mu.Unlock()
	l.commits.expected += n
}

// commitGroup writes and flushes the batches of a group.
func (l *Log) commitGroup(g *group, leader *waiter) []*waiter {
	g.gather()
	list := l.writeGroup(g, leader)
	var last uint64
	for _, w := range list {
		last = max(last, w.head)
	}
	if last == 0 { // nothing was written
		return list
	}
	if err := l.Flush(last); err != nil {
		for _, w := range list {
			if w.head > 0 {
				w.err = err
			}
		}
	}
	return list
}

// headroom is what seq and chain may add to a record after fit saw it.
const headroom = 128

// fit refuses records that would be too long, before anything is written.
func fit(recs []*Record) error {
	for _, r := range recs {
		if len(r.Muts) < 64 && len(r.Reply) < MaxRecord/4 && r.Note == nil {
			continue // cannot be: paths are bounded
		}
		if line, err := encode(r); err != nil {
			return err
		} else if len(line)+headroom > MaxRecord {
			return ErrTooLarge
		}
	}
	return nil
}

// begin takes the journal lock and brings the log up to date: rows of other
// processes, a new segment, bytes that a killed writer left.
func (l *Log) begin(ctx context.Context, wait time.Duration) (unlock func(), err error) {
	if l.closed {
		return nil, fs.ErrClosed
	}
	if l.Poisoned() {
		return nil, ErrPoisoned
	}
	if unlock, err = l.kernelLock(ctx, lockByte, wait); err != nil {
		return nil, err
	}
	if err = l.current(); err == nil {
		err = l.writable()
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// current takes the rows of others, under the journal lock.
func (l *Log) current() error {
	if l.met = l.readShared(); l.met.ok && l.met.epoch != l.epoch {
		return l.learnPoison()
	}
	if l.o.Present != nil {
		if err := l.o.Present(); err != nil {
			return err
		}
	}
	if err := l.stillThere(); err != nil {
		return err
	}
	return l.catchUp(locked)
}

// writable makes sure that there is a segment to write to.
func (l *Log) writable() error {
	if l.file == nil || l.pos.Offset >= l.o.SegmentBytes {
		return l.roll()
	}
	if !l.met.ok || l.met.segment != l.pos.Segment {
		return l.adopt()
	}
	return nil
}

// adopt makes a segment durable whose maker died before it could record it.
func (l *Log) adopt() error {
	err := l.file.Sync()
	if err == nil {
		err = l.o.Dir.Sync()
	}
	if err != nil {
		l.poisonLocked()
		return err
	}
	return l.publishHeader()
}

// stillThere makes sure that the segment in hand is the one that other processes find
// under its name. Another process may have written the segment again, and a program that
// restores a backup may have replaced it.
func (l *Log) stillThere() error {
	if l.file == nil {
		return nil
	}
	if same, err := l.leads(); err != nil || same {
		return err
	}
	return l.findPlace()
}

// findPlace continues after the newest row that is known, in the segment that has it now.
func (l *Log) findPlace() error {
	segs, err := l.reach(max(l.pos.Seq, 1))
	if err != nil || len(segs) == 0 {
		return ErrGone
	}
	pos := Pos{Segment: upto(segs, l.pos.Seq), Seq: l.pos.Seq, Chain: l.pos.Chain}
	if pos.Offset, err = l.findNewest(pos.Segment); err != nil {
		return err
	}
	if err := l.enter(pos.Segment); err != nil {
		return ErrGone
	}
	l.pos = pos
	return nil
}

// leads reports whether the name of the segment in hand leads to it.
func (l *Log) leads() (bool, error) {
	name := SegmentFile(l.pos.Segment)
	if l.o.Leads != nil {
		return l.o.Leads(name, l.at)
	}
	st, err := l.o.Dir.Lstat(name)
	return err == nil && st.SameFile(l.at), nil
}

// endsAsKnown reports whether the bytes before the position are the end of the newest
// row. They are not after a program has written older content into the segment. A row ends with the name of a slot or with an identifier, so that no two end alike.
func (l *Log) endsAsKnown() bool {
	if l.pos.Offset == 0 {
		return true
	}
	var b [len(l.tail)]byte
	n, _ := l.file.ReadAt(b[:], max(0, l.pos.Offset-int64(len(b))))
	end := bytes.TrimRight(b[:n], "\n\x00")
	return len(end) >= len(b)/2 && bytes.HasSuffix(l.tail[:], end)
}

// findNewest returns the offset after the newest row that is known, in the segment. Its
// bytes may have been replaced on purpose, which a note says.
func (l *Log) findNewest(segment uint64) (end int64, err error) {
	f, err := l.openSegment(segment)
	if err != nil {
		return 0, ErrGone
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil || l.pos.Seq == 0 {
		return 0, err
	}
	was, now := chainText(l.pos.Chain), ""
	err = lines(f, 0, st.Size, func(r row) error {
		if seq, ok := seqOf(r.line); ok && seq == l.pos.Seq {
			now, end = textHash(r.line), r.end
			return errStop
		}
		return nil
	})
	if err != nil || now == was {
		return end, err
	}
	known := NewKnown()
	_, err = l.rows(1, func(rec *Record, _ []byte, _ Pos) error {
		known.Take(rec)
		return nil
	})
	if err == nil && (now == "" || !known.RowLeads(l.pos.Seq, was, now)) {
		err = ErrGone
	}
	return end, err
}

// roll begins a new segment. The old one is flushed first, because a later flush of the
// new one does not cover it. The directory entry of the new one is durable before the
// first row is written to it.
//
//	[ftruncate(old)  fsync(old)]  openat(new, O_EXCL)  [write NULs]  fsync(new)  fsync(dir)
func (l *Log) roll() error {
	if l.file != nil {
		if err := l.file.Truncate(l.pos.Offset); err != nil {
			return err
		}
		l.alloc = l.pos.Offset
		if err := l.file.Sync(); err != nil {
			l.poisonLocked()
			return err
		}
	}
	first := l.pos.Seq + 1
	f, err := l.o.Dir.Open(SegmentFile(first), fsx.Read|fsx.Write|fsx.Create|fsx.Excl, 0o600)
	if errors.Is(err, fs.ErrExist) { // a roller died before it could use it
		f, err = l.o.Dir.Open(SegmentFile(first), fsx.Read|fsx.Write, 0)
	}
	if err != nil {
		return err
	}
	if l.o.Preallocate > 0 {
		f.WriteAt(make([]byte, min(l.o.Preallocate, 64<<10)), 0)
	}
	if err = f.Sync(); err == nil {
		err = l.o.Dir.Sync()
	}
	f.Close()
	if err != nil {
		l.poisonLocked()
		return err
	}
	if err := l.enter(first); err != nil {
		return err
	}
	return l.publishHeader()
}

// writeRows encodes the records and writes them at the end, in one call. The
// caller holds the journal lock.
func (l *Log) writeRows(recs []*Record) error {
	seq, chain := l.pos.Seq, l.pos.Chain
	var buf []byte
	ends := make([]int, 0, len(recs))
	for _, r := range recs {
		seq++
		r.Seq, r.Chain = seq, chainText(chain)
		if r.TS == "" {
			r.TS = l.stamp()
		}
		line, err := encode(r)
		if err != nil {
			return &WriteError{EffectNone, err}
		}
		buf = append(append(append(buf, '\n'), line...), '\n')
		ends = append(ends, len(buf))
		chain = chainOf(line)
	}
	if l.file == nil {
		if err := l.roll(); err != nil {
			return &WriteError{EffectNone, err}
		}
	}
	l.preallocate(int64(len(buf)))
	if n, err := l.file.WriteAt(buf, l.pos.Offset); err != nil {
		return l.rollback(n, err)
	}
	start := l.pos.Offset
	l.alloc = max(l.alloc, start+int64(len(buf)))
	from := 0
	for i, r := range recs {
		line := buf[from+1 : ends[i]-1]
		l.head.Store(r.Seq)
		l.moveTo(r.Seq, start+int64(ends[i]), line)
		if l.o.OnRecord != nil {
			l.o.OnRecord(r, l.pos)
		}
		from = ends[i]
	}
	return nil
}

// rollback makes the bytes of a failed write invisible, durably: a row that is
// rolled back only in the page cache can still reach the disk, and would be a
// commit then. If that fails, what will be read there is unknown.
func (l *Log) rollback(n int, cause error) error {
	if n == 0 {
		return &WriteError{EffectNone, cause}
	}
	_, err := l.file.WriteAt(make([]byte, n), l.pos.Offset)
	if err != nil {
		if err = l.file.Truncate(l.pos.Offset); err == nil {
			l.alloc = l.pos.Offset
		}
	}
	if err == nil {
		err = l.file.Datasync()
	}
	if err != nil {
		l.poisonLocked()
		return &WriteError{EffectUnknown, cause}
	}
	return &WriteError{EffectNone, cause}
}

// preallocate writes NULs ahead of the rows, so that flushing a row need not
// flush a change of the file's size or blocks. Without space it does nothing.
func (l *Log) preallocate(need int64) {
	step := l.o.Preallocate
	if step <= 0 || l.pos.Offset+need <= l.alloc {
		return
	}
	at := max(l.alloc, l.pos.Offset)
	if n, err := l.file.WriteAt(make([]byte, need+step), at); err == nil {
		l.alloc = at + int64(n)
	} else if n > 0 {
		l.file.Truncate(at)
	}
}

// Flush returns when every row up to seq is on stable storage. Calls that run
// at the same time share one flush, which always starts after the last of them
// asked; when it fails, it fails for all, and the journal is poisoned.
func (l *Log) Flush(seq uint64) error {
	l.stateMu.Lock()
	done, bad := l.flushed >= seq, l.poisoned
	l.stateMu.Unlock()
	if done {
		return nil
	}
	if bad {
		return &WriteError{EffectUnknown, ErrPoisoned}
	}
	if err := l.flushes.Do(l.flushNow); err != nil {
		return &WriteError{EffectUnknown, err}
	}
	return nil
}

// Sync makes every row of this process durable, also those that were only
// shown.
func (l *Log) Sync() error {
	if l.Poisoned() {
		return ErrPoisoned
	}
	l.mu.Lock()
	empty := l.file == nil
	l.mu.Unlock()
	if empty {
		return nil
	}
	if err := l.flushes.Do(l.flushNow); err != nil {
		return &WriteError{EffectUnknown, err}
	}
	return nil
}

func (l *Log) flushNow() error {
	l.mu.Lock()
	l.flushMu.Lock()
	file, head := l.file, l.pos.Seq
	l.mu.Unlock()
	err := file.Datasync()
	l.flushMu.Unlock()
	if err != nil {
		l.Poison()
		return err
	}
	return l.know(head)
}

// know records that this process has flushed the rows up to seq.
func (l *Log) know(seq uint64) error {
	l.stateMu.Lock()
	l.durable, l.flushed = max(l.durable, seq), max(l.flushed, seq)
	l.stateMu.Unlock()
	return l.publishDurable(seq)
}

// publishDurable raises the number up to which readers see rows. If that is not possible,
// because a stopped process holds the lock of the number or the file cannot be written,
// the rows are durable anyway: the next flush or Close raises the number.
func (l *Log) publishDurable(seq uint64) error {
	if err := l.raiseDurable(context.Background(), seq, false); errors.Is(err, ErrPoisoned) {
		return err
	}
	return nil
}

// Show lets readers see the rows up to seq although they were not flushed, for
// a store that promises nothing about power cuts. Rows of others among them
// are flushed first, because theirs may promise it.
func (l *Log) Show(seq uint64) error {
	l.stateMu.Lock()
	foreign := l.taken
	l.stateMu.Unlock()
	if foreign > l.visible() {
		return l.Flush(seq)
	}
	l.stateMu.Lock()
	l.durable = max(l.durable, seq)
	l.stateMu.Unlock()
	return l.publishDurable(seq)
}
