package journal

import (
	"context"
	"errors"
)

// CatchUp reads the rows that other processes have written and flushed, or shown.
// It takes no lock, so it goes no further: rows after the published end may be
// rolled back by their writer, or be lost with it.
func (l *Log) CatchUp() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil
	}
	now, until := l.readShared(), uint64(maxSeq)
	l.met = now
	if !l.o.ReadOnly || now.durableOK { // without a header nothing has been written since
		if !now.ok || !now.durableOK || now.durable <= l.pos.Seq && now.segment == l.pos.Segment {
			return nil
		}
		until = now.durable
	}
	if err := l.catchUp(until); err != nil || until == maxSeq || l.pos.Seq >= until {
		return err
	}
	// The segment was written again, by an Open after a failed flush.
	if err := l.stillThere(); err != nil {
		return err
	}
	return l.catchUp(until)
}

// Reach is CatchUp for a caller that must know every row that was written before the
// call: it also reads those that their writer has not shown, because it died or could not.
// The journal lock is taken only if there are any.
func (l *Log) Reach(ctx context.Context) error {
	if err := l.CatchUp(); err != nil {
		return err
	}
	if !l.unshown() {
		return nil
	}
	return l.Alone(ctx, l.current)
}

// unshown reports whether rows may follow those that CatchUp has read.
func (l *Log) unshown() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return false
	case l.met.segment != l.pos.Segment:
		return true
	case l.file == nil: // there are no rows
		return false
	}
	st, err := l.file.Stat()
	if err != nil || st.Nlink == 0 { // the segment was written again
		return true
	}
	end, err := firstNUL(l.file, l.pos.Offset)
	return err != nil || end > l.pos.Offset
}

// Settle takes every row that there is, and makes it durable: a writer may have
// died between writing its rows and flushing them.
func (l *Log) Settle(ctx context.Context) error {
	var head uint64
	err := l.Alone(ctx, func() (err error) {
		err = l.current()
		head = l.pos.Seq
		return err
	})
	if err != nil {
		return err
	}
	return l.Certain(head)
}

// Certain makes sure that the row seq, which another process may have written,
// is durable.
func (l *Log) Certain(seq uint64) error {
	if seq <= l.visible() {
		return nil
	}
	return l.Flush(seq)
}

// catchUp continues reading at the position, up to the row until. Under the journal
// lock, and without such a limit, no write is in progress, so bytes that are not a row
// are adjudicated.
func (l *Log) catchUp(until uint64) error {
	for {
		if l.file == nil {
			segs, err := l.reach(l.pos.Seq + 1)
			if err != nil || len(segs) == 0 {
				return err
			}
			if live, err := segments(l.o.Dir); err != nil || len(live) == 0 {
				return err // nothing has come since
			}
			if err := l.enter(upto(segs, l.pos.Seq+1)); err != nil {
				return err
			}
		}
		if err := l.catchUpSegment(until); err != nil {
			return err
		}
		next, err := l.nextSegment()
		if err != nil || next == 0 || until < next-1 {
			return err
		}
		// The rest of the old segment was written before the next one began.
		if err := l.catchUpSegment(until); err != nil {
			return err
		}
		if l.pos.Seq+1 < next { // after a failed flush an opener wrote the segment again
			if err := l.enter(l.pos.Segment); err != nil {
				return err
			}
			if err := l.catchUpSegment(until); err != nil {
				return err
			}
		}
		if err := l.enter(next); err != nil {
			return err
		}
	}
}

// locked is the limit of catchUp for a caller with the journal lock.
const locked = ^uint64(0)

func (l *Log) catchUpSegment(until uint64) error {
	if !l.endsAsKnown() {
		if err := l.findPlace(); err != nil {
			return err
		}
	}
	end, err := firstNUL(l.file, l.pos.Offset)
	if err != nil || end == l.pos.Offset {
		return err
	}
	st, err := l.file.Stat()
	if err != nil {
		return err
	}
	l.alloc = st.Size
	var rep OpenReport
	was := l.pos.Seq
	if until != locked {
		return l.readOn(st.Size, 0, until, &rep)
	}
	// Rows have no NULs, and no write is in progress: what follows is preallocated.
	if err := l.readOn(end, 0, until, &rep); err != nil {
		return err
	}
	if l.pos.Seq > was {
		l.stateMu.Lock()
		l.taken = l.pos.Seq
		l.stateMu.Unlock()
	}
	if l.pos.Offset == end {
		return nil
	}
	return l.adjudicate(nil)
}

// nextSegment returns the segment after the current one, or 0 if there is none. The
// shared header, as read by the caller of catchUp, shows without a directory read that
// there is none.
func (l *Log) nextSegment() (uint64, error) {
	if l.met.ok && l.met.segment == l.pos.Segment {
		return 0, nil
	}
	segs, err := l.reach(l.pos.Seq + 1)
	if err != nil {
		return 0, err
	}
	for _, s := range segs {
		if s > l.pos.Segment {
			return s, nil
		}
	}
	return 0, nil
}

// readOn reads the complete rows of the current segment up to offset to and up to the
// row until. Rows from limit on are repeated in the next segment and are skipped.
//
// Another process may be writing rows at the same time, and a read is not atomic: it
// can see an old version of one page and the current version of the next one. So an
// apparent hole before a good row is read again. Rows are written in order, so the rows
// before one that was seen exist by then.
func (l *Log) readOn(to int64, limit, until uint64, rep *OpenReport) error {
	sure := int64(0) // before it nothing is missing
	for {
		err := l.readSure(to, limit, until, &sure, rep)
		if err != errLookAgain {
			return err
		}
	}
}

var errLookAgain = errors.New("journal: a hole is to be looked at again")

// readSure is readOn up to a hole that ends after sure, which it moves past
// the hole then.
func (l *Log) readSure(to int64, limit, until uint64, sure *int64, rep *OpenReport) error {
	bad := 0
	err := lines(l.file, l.pos.Offset, to, func(r row) error {
		rec, ok, err := l.skimmed(&l.reader, r.line)
		if err != nil {
			return err
		}
		if !ok || rec.Seq <= l.pos.Seq || l.tooFar(rec.Seq) || limit > 0 && rec.Seq >= limit {
			bad++
			return nil
		}
		if rec.Seq > until {
			bad = 0
			return errStop
		}
		if r.start-1 > l.pos.Offset && r.start > *sure {
			*sure = r.start
			return errLookAgain
		}
		rep.Malformed += bad // only counted once something good follows
		bad = 0
		if l.opening {
			if err := l.watchHole(rec, r, limit); err != nil {
				return err
			}
		}
		l.take(rec, r)
		if rec.Seq == until {
			return errStop
		}
		return nil
	})
	if limit > 0 && err == nil { // the segment has ended, so nothing will explain them
		rep.Malformed += bad
	}
	return err
}

// maxGap is how many rows a crash may have taken at most. A row that claims to
// be further ahead is no row: it would carry all that follow away with it.
const maxGap = 1 << 16

// take moves the position past a row.
func (l *Log) take(rec *Record, r row) {
	l.head.Store(rec.Seq)
	l.moveTo(rec.Seq, r.end, r.line)
	if l.o.OnRecord != nil {
		l.o.OnRecord(rec, l.pos)
	}
}

// moveTo moves the position to the end of a row.
func (l *Log) moveTo(seq uint64, end int64, line []byte) {
	l.pos.Offset, l.pos.Seq, l.pos.Chain = end, seq, chainOf(line)
	l.keepTail(line)
}

func (l *Log) keepTail(line []byte) { copy(l.tail[:], line[max(0, len(line)-len(l.tail)):]) }
