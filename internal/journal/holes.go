package journal

// A power failure may lose a part of the unflushed bytes: rows in the middle, while
// later ones survive. The rows after such a hole were never acknowledged either, but
// they are complete, and they stay. A note names the lost bytes and numbers.

// hole is a place where rows are missing.
type hole struct {
	note    Note
	flushed bool // the rows were on stable storage once: no crash took them
	noted   bool // a note names it
}

// watchHole is called for every good row while the journal is opened.
func (l *Log) watchHole(rec *Record, r row, limit uint64) error {
	for i := range l.holes {
		h := &l.holes[i]
		h.flushed = h.flushed || rec.Settled >= h.note.Missing[0]
		if n := rec.Note; n != nil && n.What == NoteTorn && n.Segment == h.note.Segment && n.From == h.note.From {
			h.noted = true
		}
	}
	// Only the newest segment can contain unflushed rows.
	if limit > 0 || rec.Seq <= l.pos.Seq+1 || r.start-1 <= l.pos.Offset {
		return nil
	}
	gap := make([]byte, min(r.start-1-l.pos.Offset, 1<<20))
	if _, err := l.file.ReadAt(gap, l.pos.Offset); err != nil {
		return err
	}
	l.holes = append(l.holes, hole{note: Note{
		What: NoteTorn, Segment: l.pos.Segment, From: l.pos.Offset, To: r.start - 1, SHA256: textHash(gap),
		Missing: &[2]uint64{l.pos.Seq + 1, rec.Seq - 1},
	}, flushed: rec.Settled > l.pos.Seq})
	return nil
}

// tellHoles leaves a note for every hole that a crash has made.
func (l *Log) tellHoles(rep *OpenReport) error {
	known := l.o.Flushed
	if d, ok := l.readDurable(); ok {
		known = max(known, d)
	}
	var recs []*Record
	for i := range l.holes {
		h := &l.holes[i]
		if h.flushed || h.noted || h.note.Missing[0] <= known {
			continue
		}
		recs = append(recs, l.noteRecord(&h.note))
		rep.Torn = append(rep.Torn, h.note)
	}
	l.holes = nil
	if len(recs) == 0 {
		return nil
	}
	return l.writeRows(recs)
}

// tooFar reports whether the seq of a row is further ahead than possible. The first row
// of a segment has the seq in the name of the segment, even if earlier segments are
// lost.
func (l *Log) tooFar(seq uint64) bool {
	return seq-l.pos.Seq > maxGap && l.pos.Seq > 0 && seq != l.pos.Segment
}
