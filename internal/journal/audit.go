package journal

import (
	"bytes"
	"encoding/hex"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Problem is one thing Audit finds wrong.
type Problem struct {
	Code    string
	Segment uint64
	Seq     uint64
	Detail  string
}

// The codes of problems.
const (
	ProblemName      = "segment_name"     // a segment whose first row is not the one it is named by
	ProblemGarbage   = "malformed_line"   // bytes that are no row and that no note names
	ProblemChanged   = "torn_changed"     // bytes that a note names are not those it saw
	ProblemChain     = "chain_broken"     // a row that does not carry the hash of the row before
	ProblemMissing   = "seq_missing"      // rows that nobody explains
	ProblemOrder     = "seq_out_of_order" // a row behind one with a higher seq
	ProblemForeign   = "unknown_file"     // a file that is no segment
	ProblemTruncated = "tail_missing"     // the journal ends before a row that was known
)

// Counts is what Audit looked at.
type Counts struct {
	Segments  int
	Rows      int
	Malformed int
	Pos       Pos // of the last row
}

// Audit reads all segments and reports everything that does not fit together.
// each, when set, gets every row.
func (l *Log) Audit(report func(Problem), each func(*Record, Pos)) (Counts, error) {
	a := &audit{report: report, each: each, torn: map[tornKey]Note{}, missing: map[uint64]uint64{}}
	names, err := l.o.Dir.Names()
	if err != nil {
		return a.counts, err
	}
	for _, name := range names {
		if _, ok := parseSegment(name); !ok {
			report(Problem{Code: ProblemForeign, Detail: name})
		}
	}
	segs, err := segments(l.o.Dir)
	if err != nil {
		return a.counts, err
	}
	// Notes stand behind what they explain, so they are read first.
	if _, err := l.rows(1, func(rec *Record, _ []byte, _ Pos) error {
		a.note(rec)
		return nil
	}); err != nil {
		return a.counts, err
	}
	for i, seg := range segs {
		limit := uint64(0)
		if i+1 < len(segs) {
			limit = segs[i+1]
		}
		if err := a.segment(l.o.Dir, seg, limit); err != nil {
			return a.counts, err
		}
	}
	a.counts.Segments, a.counts.Pos = len(segs), a.pos
	return a.counts, nil
}

type tornKey struct {
	segment uint64
	from    int64
}

// audit is the state of one pass.
type audit struct {
	report  func(Problem)
	each    func(*Record, Pos)
	torn    map[tornKey]Note
	missing map[uint64]uint64 // first to last
	counts  Counts
	pos     Pos
	garbage []Note // of the current segment, since the last row
}

func (a *audit) note(rec *Record) {
	if rec.Note == nil {
		return
	}
	switch n := *rec.Note; n.What {
	case NoteTorn:
		a.torn[tornKey{n.Segment, n.From}] = n
	case NoteMissing:
		if n.Missing != nil {
			a.missing[n.Missing[0]] = n.Missing[1]
		}
	}
}

func (a *audit) segment(dir fsx.Dir, seg, limit uint64) error {
	f, err := dir.Open(segmentName(seg), fsx.Read, 0)
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
	first, at := true, int64(0) // at: behind the last row
	a.garbage = nil
	_, err = lines(f, 0, end, func(r row) error {
		line := bytes.Trim(r.line, "\x00")
		if len(line) == 0 {
			return nil
		}
		rec, ok := decode(line)
		if !ok {
			return nil // judged with the bytes around it
		}
		if limit > 0 && rec.Seq >= limit {
			at = r.end
			return nil
		}
		// A row begins with a newline of its own, which is no garbage.
		torn := a.between(f, seg, at, r.start-1)
		a.row(rec, line, Pos{Segment: seg, Offset: r.end, Seq: rec.Seq, Chain: chainOf(line)}, torn)
		if first && rec.Seq != seg {
			a.report(Problem{ProblemName, seg, rec.Seq, "the first row is not the one the name tells"})
		}
		first, at = false, r.end
		return nil
	})
	if err != nil {
		return err
	}
	a.between(f, seg, at, end)
	return nil
}

// between judges the bytes between two rows and reports whether they are a
// torn range that a note names.
func (a *audit) between(f fsx.File, seg uint64, from, to int64) bool {
	if to <= from {
		return false
	}
	gap := make([]byte, min(to-from, 1<<20))
	f.ReadAt(gap, from)
	if len(bytes.Trim(gap, "\n\x00")) == 0 && a.torn[tornKey{seg, from}].To == 0 {
		return lastByte(gap) < 0
	}
	a.counts.Malformed++
	// The newline that begins a row may have been written behind the range.
	note, ok := a.torn[tornKey{seg, from}]
	if !ok {
		a.report(Problem{ProblemGarbage, seg, a.pos.Seq, "bytes that are no row"})
		return false
	}
	seen := gap[:min(int64(len(gap)), note.To-note.From)]
	if sum := chainOf(seen); hex.EncodeToString(sum[:]) != note.SHA256 {
		a.report(Problem{ProblemChanged, seg, a.pos.Seq, "torn bytes are not those the note tells of"})
	}
	return true
}

// row judges one row against the one before.
func (a *audit) row(rec *Record, line []byte, pos Pos, torn bool) {
	a.counts.Rows++
	gap := rec.Seq > a.pos.Seq+1
	explained := torn || a.missing[a.pos.Seq+1] >= rec.Seq-1 && gap
	switch {
	case rec.Seq <= a.pos.Seq:
		a.report(Problem{ProblemOrder, pos.Segment, rec.Seq, "the row stands behind one with a higher seq"})
	case gap && !explained && a.pos.Seq > 0:
		a.report(Problem{ProblemMissing, pos.Segment, a.pos.Seq + 1, "rows are missing"})
	case gap && a.pos.Seq == 0 && pos.Segment == 1:
		a.report(Problem{ProblemMissing, pos.Segment, 1, "rows are missing"})
	}
	if rec.Chain != chainText(a.pos.Chain) && !(gap && explained) && !(a.pos.Seq == 0 && pos.Segment > 1) {
		a.report(Problem{ProblemChain, pos.Segment, rec.Seq, "the row does not carry the hash of the row before"})
	}
	a.pos = pos
	if a.each != nil {
		a.each(rec, pos)
	}
}
