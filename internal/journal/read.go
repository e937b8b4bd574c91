package journal

import (
	"bytes"
	"errors"
	"io"
	"slices"
)

// visible is the highest seq readers may see: no cursor may run ahead of the
// disk.
func (l *Log) visible() uint64 {
	l.stateMu.Lock()
	own := l.durable
	l.stateMu.Unlock()
	if d, ok := l.readDurable(); ok && d > own {
		return d
	}
	return own
}

// Tail returns the newest n records that keep accepts, oldest first. It reads backward,
// so its cost depends only on the rows it passes. most bounds the number of rows it
// reads; 0 is no bound.
func (l *Log) Tail(n int, keep func(*Record) bool, most int) ([]*Record, int, error) {
	if err := l.CatchUp(); err != nil {
		return nil, 0, err
	}
	segs, err := segments(l.o.Dir)
	if err != nil {
		return nil, 0, err
	}
	t := tailer{n: n, keep: keep, most: most, visible: l.visible()}
	if err := t.segments(l, segs); err != nil {
		return nil, t.malformed, err
	}
	if !t.full() && (len(segs) == 0 || segs[0] > 1) {
		all, err := l.withParked(segs)
		if err != nil {
			return nil, t.malformed, err
		}
		older := slices.DeleteFunc(all, func(first uint64) bool { return slices.Contains(segs, first) })
		if err := t.segments(l, older); err != nil {
			return nil, t.malformed, err
		}
	}
	slices.Reverse(t.out)
	return t.out, t.malformed, nil
}

// tailer collects rows from the end.
type tailer struct {
	n, most   int
	keep      func(*Record) bool
	visible   uint64
	below     uint64 // rows from here on are in the next segment
	seen      int
	malformed int
	out       []*Record // newest first
}

func (t *tailer) full() bool { return len(t.out) >= t.n || t.most > 0 && t.seen >= t.most }

// segments reads some segments, the last one first.
func (t *tailer) segments(l *Log, segs []uint64) error {
	for i := len(segs) - 1; i >= 0 && !t.full(); i-- {
		if err := t.segment(l, segs[i]); err != nil {
			return err
		}
		t.below = segs[i]
	}
	return nil
}

// segment reads one segment backward, block by block.
func (t *tailer) segment(l *Log, seg uint64) error {
	f, err := l.openSegment(seg)
	if isAbsent(err) {
		return nil // taken away
	}
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	end, err := dataEnd(f, st.Size, 0)
	if err != nil {
		return err
	}
	const block = 32 << 10
	var rest []byte // the beginning of a line that ends in the following block
	for end > 0 && !t.full() {
		n := min(block, end)
		buf := make([]byte, int(n)+len(rest))
		if _, err := f.ReadAt(buf[:n], end-n); err != nil && err != io.EOF {
			return err
		}
		copy(buf[n:], rest)
		end -= n
		for !t.full() {
			i := bytes.LastIndexByte(buf, '\n')
			if i < 0 {
				break
			}
			if err := t.line(l, buf[i+1:]); err != nil {
				return err
			}
			buf = buf[:i]
		}
		rest = buf
		if len(rest) > 2*MaxRecord { // no row is that long
			t.malformed++
			rest = nil
		}
	}
	if end == 0 && !t.full() {
		return t.line(l, rest)
	}
	return nil
}

func (t *tailer) line(l *Log, line []byte) error {
	if line = bytes.Trim(line, "\x00"); len(line) == 0 || t.full() {
		return nil
	}
	rec, ok, err := l.whole(line)
	if err != nil {
		return err
	}
	if !ok {
		t.malformed++
		return nil
	}
	if rec.Seq > t.visible || t.below > 0 && rec.Seq >= t.below {
		return nil
	}
	t.seen++
	if t.keep == nil || t.keep(rec) {
		t.out = append(t.out, rec)
	}
	return nil
}

// errStop ends a pass through rows or lines, without an error for its caller.
var errStop = errors.New("stop")

// Since returns the records with a seq greater than after, oldest first: at least one when
// there is one, and about limit. next is the cursor to go on with. It is less than after
// when that is ahead of the journal. oldest is the first row that is left, if rows
// after the cursor are no longer there; otherwise 0.
func (l *Log) Since(after uint64, limit int, keep func(*Record) bool) (recs []*Record, next, oldest uint64, malformed int, err error) {
	if err := l.CatchUp(); err != nil {
		return nil, after, 0, 0, err
	}
	visible := l.visible()
	if after > l.Head() {
		return nil, l.Head(), 0, 0, nil
	}
	segs, err := segments(l.o.Dir)
	if err != nil {
		return nil, after, 0, 0, err
	}
	next = after
	if len(segs) > 0 && after+1 < segs[0] { // reported once, also if the rows that follow are not visible yet
		next, oldest = segs[0]-1, segs[0]
	}
	malformed, err = l.rowsIn(segs, after+1, func(rec *Record, _ []byte, _ Pos) error {
		if rec.Seq > visible || len(recs) >= limit {
			return errStop
		}
		next = rec.Seq
		if keep == nil || keep(rec) {
			recs = append(recs, rec)
		}
		return nil
	})
	return recs, next, oldest, malformed, err
}

// Find returns the record seq.
func (l *Log) Find(seq uint64) (*Record, error) {
	var found *Record
	_, err := l.rows(seq, func(rec *Record, _ []byte, _ Pos) error {
		if rec.Seq == seq {
			found = rec
		}
		return errStop
	})
	if err == nil && found == nil {
		err = ErrNotFound
	}
	return found, err
}

// FindAll returns the records with these seqs that exist.
func (l *Log) FindAll(seqs []uint64) (map[uint64]*Record, error) {
	found := make(map[uint64]*Record, len(seqs))
	if len(seqs) == 0 {
		return found, nil
	}
	first, last := slices.Min(seqs), slices.Max(seqs)
	if last-first > 4*uint64(len(seqs)) { // far apart
		for _, seq := range seqs {
			rec, err := l.Find(seq)
			if err == nil {
				found[seq] = rec
			} else if err != ErrNotFound {
				return nil, err
			}
		}
		return found, nil
	}
	_, err := l.rows(first, func(rec *Record, _ []byte, _ Pos) error {
		if rec.Seq > last {
			return errStop
		}
		if slices.Contains(seqs, rec.Seq) {
			found[rec.Seq] = rec
		}
		return nil
	})
	return found, err
}

// HashOf is the hash of the row seq, as the next one carries it.
func (l *Log) HashOf(seq uint64) (hash string, err error) {
	_, err = l.rows(seq, func(rec *Record, _ []byte, pos Pos) error {
		if rec.Seq == seq {
			hash = chainText(pos.Chain)
		}
		return errStop
	})
	if err == nil && hash == "" {
		err = ErrNotFound
	}
	return hash, err
}

// Range calls fn for every record from seq on, flushed or not.
func (l *Log) Range(from uint64, fn func(*Record, Pos) error) error {
	_, err := l.rows(from, func(rec *Record, _ []byte, pos Pos) error { return fn(rec, pos) })
	return err
}

// rows passes the records from seq on, in order, each once, with its line. It
// returns how many lines between them are no records.
func (l *Log) rows(from uint64, fn func(*Record, []byte, Pos) error) (malformed int, err error) {
	segs, err := l.reach(from)
	if err != nil {
		return 0, err
	}
	return l.rowsIn(segs, from, fn)
}

// rowsIn is rows of some segments.
func (l *Log) rowsIn(segs []uint64, from uint64, fn func(*Record, []byte, Pos) error) (malformed int, err error) {
	return l.pass(segs, from, &passage{parse: l.whole, block: 16 << 10, fn: func(rec *Record, line []byte, pos Pos) error {
		pos.Chain = chainOf(line)
		return fn(rec, line, pos)
	}})
}

// passage is one way through the rows.
type passage struct {
	parse func(line []byte) (*Record, bool, error)
	block int                              // bytes that are read at once
	fn    func(*Record, []byte, Pos) error // Pos is without the hash
}

// pass passes the records of some segments from seq on.
func (l *Log) pass(segs []uint64, from uint64, p *passage) (malformed int, err error) {
	last := from - min(from, 1) // the newest seq that was passed
	for i, seg := range segs {
		limit := uint64(0)
		if i+1 < len(segs) {
			if limit = segs[i+1]; limit <= from {
				continue
			}
		}
		bad, err := l.passSegment(seg, from, limit, &last, p)
		malformed += bad
		if err == errStop {
			return malformed, nil
		}
		if err != nil {
			return malformed, err
		}
	}
	return malformed, nil
}

func (l *Log) passSegment(seg, from, limit uint64, last *uint64, p *passage) (malformed int, err error) {
	f, err := l.openSegment(seg)
	if isAbsent(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return 0, err
	}
	// Halving does not mind the preallocated end: no row is found there.
	start, err := seek(f, st.Size, from)
	if err != nil {
		return 0, err
	}
	err = linesBy(f, start, st.Size, p.block, func(r row) error {
		if seq, ok := seqOf(r.line); ok && seq < from {
			return nil
		}
		rec, ok, err := p.parse(r.line)
		if err != nil {
			return err
		}
		if !ok || limit > 0 && rec.Seq >= limit {
			malformed++
			return nil
		}
		if rec.Seq <= *last {
			return nil
		}
		*last = rec.Seq
		return p.fn(rec, r.line, Pos{Segment: seg, Offset: r.end, Seq: rec.Seq})
	})
	return malformed, err
}
