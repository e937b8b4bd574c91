package journal

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// Options configure a Log.
type Options struct {
	Dir          fsx.Dir  // of the segments
	Lock         fsx.File // lock and shared header; may be nil when ReadOnly
	Writer       string
	SegmentBytes int64              // a segment is rolled from this size on; 0 = 10 MiB
	Preallocate  int64              // bytes written ahead; 0 = 256 KiB, negative = none
	Now          func() time.Time   // nil = time.Now
	ReadOnly     bool               // no lock, no write, no note about a torn tail
	Live         bool               // of a ReadOnly one: others write, so it reads the rows that they have published
	From         *Pos               // where a snapshot ends; nil = the first row
	LockWait     time.Duration      // how long a lock is waited for; 0 = 10 seconds
	Flushed      uint64             // rows up to here are known to have been on stable storage
	OnRecord     func(*Record, Pos) // called once for every row, in the order of seq, with the fields of [Log.Skim]
	// Present is called under the journal lock before anything is written; its error
	// prevents the write. nil = nothing can be wrong.
	Present func() error
	// Leads reports whether others find this segment under its name; the error is that Dir
	// is not the directory that they find. nil = Dir is.
	Leads func(name string, segment fsx.Stat) (bool, error)
	// Temp is where a segment that is written again has its name until it is
	// whole.
	Temp fsx.Dir
	// Lost is called under the journal lock by Open. It returns the first row that a
	// failed flush may have lost although it can be read, 0 for none. These rows are
	// written again. nil = none.
	Lost func() (first uint64, err error)
	// Failed is called under the journal lock when a flush failed, before the
	// other processes see it: rows from first on may be lost.
	Failed func(first uint64)
	// Marked reports whether another process has called its Failed since Open. nil = no.
	Marked func() bool

	// Archive opens the directory of parked segments, and creates it if make is set. It
	// is only called for rows older than the live segments. nil = there is none.
	Archive func(make bool) (fsx.Dir, error)
	// Manifests keeps the mutations of long records. nil = such a record is
	// refused.
	Manifests Manifests
}

const (
	defaultSegment  = 10 << 20
	defaultPrealloc = 256 << 10
	defaultLockWait = 10 * time.Second
)

// Pos is the place after a row.
type Pos struct {
	Segment uint64   `json:"segment"`
	Offset  int64    `json:"offset"`
	Seq     uint64   `json:"seq"`
	Chain   [32]byte `json:"chain"`
}

// OpenReport is the findings of Open.
type OpenReport struct {
	Malformed    int    // lines that are no rows
	Torn         []Note // torn ranges that were adjudicated now
	SnapshotUsed bool   // From fitted
}

// Log is the journal. It is safe for concurrent use, and any number of
// processes may have one open on the same directory.
type Log struct {
	o Options

	mu     sync.Mutex // position and file
	file   fsx.File
	at     fsx.Stat // of file, when it was opened
	pos    Pos
	tail   [64]byte // the end of the newest row
	head   atomic.Uint64
	met    shared // the shared header, as it was read last
	alloc  int64  // last known size of the file
	epoch  uint64 // poison epoch at Open
	closed bool

	writes  group // of Write
	commits group // of Commit

	flushMu  sync.Mutex // held while the file is flushed, so that a roll waits
	flushes  durable.Shared
	raiseMu  sync.Mutex // kernel locks do not keep goroutines apart
	raiseAt  time.Time  // until then its kernel lock is not waited for
	stateMu  sync.Mutex
	durable  uint64 // the newest row that this process knows to be durable
	flushed  uint64 // by this process: rows that others did not flush are among those up to durable
	taken    uint64 // of others, by locked; they may not have flushed it
	poisoned bool

	opening bool // Open reads the journal
	holes   []hole

	reader    skimmer // of the rows of others
	manifests manifestCache

	parkMu sync.Mutex
	park   fsx.Dir // the archive, once it was needed
}

// Open reads the journal from o.From, or from its first row, to its end, and makes what
// it read durable. Bytes after the last row that are not rows were left by a crash: a
// note names them.
func Open(ctx context.Context, o Options) (*Log, OpenReport, error) {
	o.SegmentBytes, o.Preallocate = cmp.Or(o.SegmentBytes, defaultSegment), cmp.Or(o.Preallocate, defaultPrealloc)
	if o.Now == nil {
		o.Now = time.Now
	}
	l := &Log{o: o}
	var rep OpenReport
	if o.ReadOnly {
		err := l.load(&rep)
		return l, rep, l.orClose(err)
	}
	unlock, err := l.kernelLock(ctx, lockByte, l.lockWait())
	if err != nil {
		return nil, rep, err
	}
	defer unlock()
	h, ok := l.readHeader()
	if ok {
		l.epoch = h.epoch
	}
	if err = l.rewriteLost(); err != nil {
		return l, rep, err
	}
	l.opening = true
	err = l.load(&rep)
	l.opening = false
	if err == nil {
		err = l.adjudicate(&rep)
	}
	if err == nil {
		err = l.tellHoles(&rep)
	}
	if err == nil && l.file != nil {
		// Rows that a killed writer left in the page cache become durable before they
		// are shown or built upon.
		if err = l.file.Sync(); err == nil {
			err = l.o.Dir.Sync()
		}
		if err != nil {
			l.poisonLocked()
		}
	}
	if err == nil {
		err = l.publishHeader()
	}
	if err == nil {
		l.durable, l.flushed = l.pos.Seq, l.pos.Seq
		if err = l.raiseDurable(ctx, l.pos.Seq, true); errors.Is(err, ErrLocked) {
			err = nil // its holder lives, so the number is not of before a power cut
		}
	}
	return l, rep, l.orClose(err)
}

func (l *Log) orClose(err error) error {
	if err != nil && l.file != nil {
		l.file.Close()
	}
	return err
}

// publishHeader publishes which segment is written to. An epoch that was
// raised meanwhile, by a process that could not wait for the lock, stays.
func (l *Log) publishHeader() error {
	if h, ok := l.readHeader(); ok && h.epoch != l.epoch {
		return l.learnPoison()
	}
	h := header{l.pos.Segment, l.epoch}
	l.met.header, l.met.ok = h, true
	if err := l.writeHeader(h); err != nil {
		return err
	}
	if l.o.Marked != nil && l.o.Marked() { // its epoch may have been written over just now
		h.epoch++
		l.writeHeader(h)
		return l.learnPoison()
	}
	return nil
}

// load reads everything after From.
func (l *Log) load(rep *OpenReport) error {
	first, from := uint64(1), l.o.From
	if rep.SnapshotUsed = from != nil && l.fits(*from); rep.SnapshotUsed && from.Seq > 0 {
		l.pos, first = *from, from.Segment
		l.head.Store(from.Seq)
	}
	segs, err := l.reach(first)
	if err != nil || len(segs) == 0 || from != nil && !rep.SnapshotUsed { // then the caller starts again without it
		return err
	}
	until := uint64(locked)
	if now := l.readShared(); l.o.Live && now.durableOK {
		until = now.durable
	}
	start := 0
	for start < len(segs)-1 && segs[start] < first {
		start++
	}
	for i := start; i < len(segs) && (segs[i]-1 <= until || i == start); i++ {
		if err := l.enter(segs[i]); err != nil {
			return err
		}
		limit := uint64(0)
		if i+1 < len(segs) {
			limit = segs[i+1]
		}
		if err := l.readOn(l.alloc, limit, until, rep); err != nil {
			return err
		}
	}
	if d, ok := l.readDurable(); l.o.ReadOnly {
		l.durable = l.pos.Seq
		if ok && d < l.pos.Seq {
			l.durable = d
		}
	}
	return l.leaveArchive()
}

// fits reports whether the row that ends at pos is the one the snapshot saw.
func (l *Log) fits(pos Pos) bool {
	if pos.Seq == 0 {
		return true
	}
	f, err := l.openSegment(pos.Segment)
	if err != nil {
		return false
	}
	defer f.Close()
	ok := false
	lines(f, max(0, pos.Offset-MaxRecord-2), pos.Offset, func(r row) error {
		if ok = r.end == pos.Offset && chainOf(r.line) == pos.Chain; ok {
			l.keepTail(r.line)
		}
		return nil
	})
	return ok
}

// enter makes seg the current segment.
func (l *Log) enter(seg uint64) error {
	flag := fsx.Read | fsx.Write
	if l.o.ReadOnly {
		flag = fsx.Read
	}
	f, err := l.o.Dir.Open(SegmentFile(seg), flag, 0)
	if isAbsent(err) {
		f, err = l.openSegment(seg)
	}
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		f.Close()
		return err
	}
	if l.file != nil {
		l.flushMu.Lock()
		l.file.Close()
		l.flushMu.Unlock()
	}
	if l.pos.Segment != seg {
		l.pos.Segment, l.pos.Offset = seg, 0
	}
	l.file, l.at, l.alloc = f, st, st.Size
	return nil
}

// adjudicate decides about bytes after the last row that are no rows: they
// stay, a note names them, and writing continues after them. Without space for
// the note they are overwritten with NULs, which needs none.
func (l *Log) adjudicate(rep *OpenReport) error {
	if l.file == nil {
		return nil
	}
	note, err := l.tornNote()
	if err != nil || note == nil {
		return err
	}
	if rep != nil {
		rep.Torn = append(rep.Torn, *note)
		rep.Malformed++
	}
	err = l.writeRows([]*Record{l.noteRecord(note)})
	var we *WriteError
	if !noSpace(err) || errors.As(err, &we) && we.Effect != EffectNone {
		return err
	}
	return l.blank(note)
}

// blank overwrites torn bytes in place; the next write begins at their start.
func (l *Log) blank(torn *Note) error {
	buf := make([]byte, min(torn.To-torn.From, 64<<10))
	for at := torn.From; at < torn.To; at += int64(len(buf)) {
		if _, err := l.file.WriteAt(buf[:min(int64(len(buf)), torn.To-at)], at); err != nil {
			return err
		}
	}
	l.pos.Offset = torn.From
	return nil
}

func noSpace(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

func (l *Log) noteRecord(n *Note) *Record {
	return &Record{TS: l.stamp(), Kind: KindNote, Writer: l.o.Writer, Note: n}
}

func (l *Log) stamp() string { return stamp.Text(l.o.Now()) }

// tornNote describes the bytes between the last row and the end of the data, if there are
// any, and moves the position past them.
func (l *Log) tornNote() (*Note, error) {
	st, err := l.file.Stat()
	if err != nil {
		return nil, err
	}
	l.alloc = st.Size
	end, err := dataEnd(l.file, st.Size, l.pos.Offset)
	if err != nil || end == l.pos.Offset {
		return nil, err
	}
	// Only the newline of the last row may be missing. The next writer
	// begins with one, which would make it a row again, so it is taken for one
	// now.
	if done, err := l.endRow(end); done || err != nil {
		return nil, err
	}
	garbage := make([]byte, min(end-l.pos.Offset, 1<<20))
	if _, err := l.file.ReadAt(garbage, l.pos.Offset); err != nil {
		return nil, err
	}
	note := &Note{What: NoteTorn, Segment: l.pos.Segment, From: l.pos.Offset, To: end, SHA256: textHash(garbage)}
	l.pos.Offset = end
	return note, nil
}

// endRow ends a whole row at end that only lacks its newline.
func (l *Log) endRow(end int64) (bool, error) {
	tail := make([]byte, min(end-l.pos.Offset, MaxRecord+1))
	if _, err := l.file.ReadAt(tail, end-int64(len(tail))); err != nil {
		return false, err
	}
	line := bytes.TrimLeft(tail[bytes.LastIndexByte(tail, '\n')+1:], "\x00")
	rec, ok := decode(line)
	if !ok || rec.Seq != l.pos.Seq+1 {
		return false, nil
	}
	_, err := l.file.WriteAt([]byte{'\n'}, end)
	if noSpace(err) { // the next row begins with one
		l.take(rec, row{line: line, end: end})
		return true, nil
	}
	if err != nil {
		return false, err
	}
	var rep OpenReport
	return true, l.readOn(end+1, 0, locked, &rep)
}

// Head returns the seq of the newest row that this process knows.
func (l *Log) Head() uint64 { return l.head.Load() }

// End returns the position after the newest row that this process knows.
func (l *Log) End() Pos {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.pos
}

// Poison ends writing for every process that has the journal open, because a flush of
// the caller failed. If the journal lock is not available, because its holder is
// stopped, Poison continues without it.
func (l *Log) Poison() {
	if l.o.ReadOnly {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.poison()
}

// TryPoison is Poison, unless this process is doing something with the log, or knows that
// it is poisoned.
func (l *Log) TryPoison() bool {
	if l.Poisoned() || l.o.ReadOnly {
		return true
	}
	if !l.mu.TryLock() {
		return false
	}
	defer l.mu.Unlock()
	l.poison()
	return true
}

// poison is Poison with l.mu held.
func (l *Log) poison() {
	if unlock, err := l.kernelLock(context.Background(), lockByte, l.lockWait()); err == nil {
		defer unlock()
	}
	l.poisonLocked()
}

// poisonLocked is Poison for a caller that has the journal lock. The rows in doubt are
// recorded first, so that a process that sees the new epoch finds it.
func (l *Log) poisonLocked() {
	l.stateMu.Lock()
	l.poisoned = true
	first := l.flushed + 1
	l.stateMu.Unlock()
	if l.o.Failed != nil {
		l.o.Failed(first)
	}
	h, ok := l.readHeader()
	if !ok {
		h = header{segment: l.pos.Segment, epoch: l.epoch}
	}
	h.epoch++
	l.writeHeader(h)
}

// learnPoison notes that another process poisoned the journal.
func (l *Log) learnPoison() error {
	l.stateMu.Lock()
	defer l.stateMu.Unlock()
	l.poisoned = true
	return ErrPoisoned
}

// Failed reports whether a flush of any process has failed.
func (l *Log) Failed() bool {
	if now := l.readShared(); now.ok && now.epoch != l.epoch {
		l.learnPoison()
	}
	return l.Poisoned()
}

// Poisoned reports whether this process takes no more writes.
func (l *Log) Poisoned() bool {
	l.stateMu.Lock()
	defer l.stateMu.Unlock()
	return l.poisoned
}

// Close releases the journal. The preallocated end of the segment is cut off
// when no other process is writing.
func (l *Log) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed || l.file == nil {
		l.closed = true
		l.closeArchive()
		return nil
	}
	l.closed = true
	if !l.o.ReadOnly && !l.Poisoned() {
		if ok, err := l.o.Lock.TryLock(lockByte, 1, true); err == nil && ok {
			l.met = l.readShared()
			// A segment must be read to its end before the end is known.
			if l.catchUp(locked) == nil && l.alloc > l.pos.Offset {
				l.file.Truncate(l.pos.Offset)
			}
			l.o.Lock.Unlock(lockByte, 1)
		}
		if have, ok := l.readDurable(); ok && have < l.durable {
			l.raiseDurable(context.Background(), l.durable, false)
		}
	}
	l.flushMu.Lock()
	defer l.flushMu.Unlock()
	l.closeArchive()
	return l.file.Close()
}
