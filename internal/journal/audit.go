package journal

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Problem is one thing Audit finds wrong.
type Problem struct {
	Code     string
	Segment  uint64
	Seq      uint64
	Detail   string
	Evidence string // the damage that was found, so that a later check can compare it
	Name     string // of a file
}

// The codes of problems.
const (
	ProblemName      = "segment_name"     // a segment whose name does not match its first row
	ProblemGarbage   = "malformed_line"   // bytes that are neither a row nor named by a note
	ProblemChanged   = "torn_changed"     // bytes that a note names are not those it saw
	ProblemChain     = "chain_broken"     // a row that does not carry the hash of the row before
	ProblemMissing   = "seq_missing"      // missing rows that no note explains
	ProblemOrder     = "seq_out_of_order" // a row after one with a higher seq
	ProblemForeign   = "unknown_file"     // a file that is no segment
	ProblemTruncated = "tail_missing"     // the journal ends before a row that was known
	ProblemHead      = "head_changed"     // the newest row of an earlier time is another one now
	ProblemArchive   = "archive_missing"  // a parked segment is gone
	ProblemParked    = "archive_changed"  // a parked segment differs from what was parked
)

// Counts lists what Audit checked.
type Counts struct {
	Segments  int
	Parked    int // of these, in the archive
	Rows      int
	Malformed int
	Accepted  int // problems that the operator has accepted
	Pos       Pos // of the last row
}

// Auditor has the callbacks of a caller of Audit.
type Auditor struct {
	Problem func(Problem)
	Start   func(*Known)        // once, before the first row
	Row     func(*Record, Pos)  // every row
	Deep    bool                // also hash the parked segments
	Watch   map[uint64][32]byte // filled in with the hash of the rows that it names
}

// Audit reads all segments and reports everything that does not fit together.
func (l *Log) Audit(o Auditor) (Counts, error) {
	a := &audit{o: o}
	live, segs, err := l.all()
	if err != nil {
		return a.counts, err
	}
	if a.known, err = l.Known(); err != nil {
		return a.counts, err
	}
	if o.Start != nil {
		o.Start(a.known)
	}
	if err := a.foreign(l); err != nil {
		return a.counts, err
	}
	for i, seg := range segs {
		limit := uint64(0)
		if i+1 < len(segs) {
			limit = segs[i+1]
		}
		if err := a.segment(l, seg, limit); err != nil {
			return a.counts, err
		}
	}
	a.counts.Segments, a.counts.Parked, a.counts.Pos = len(segs), len(segs)-len(live), a.pos
	a.heads()
	return a.counts, a.archive(l, segs)
}

// audit is the state of one pass.
type audit struct {
	o      Auditor
	known  *Known
	counts Counts
	pos    Pos
}

func (a *audit) report(p Problem) {
	if a.known.Accepts(p) {
		a.counts.Accepted++
		return
	}
	a.o.Problem(p)
}

// foreign names the files that are no segments.
func (a *audit) foreign(l *Log) error {
	dirs := []fsx.Dir{l.o.Dir}
	if park, err := l.archive(false); err != nil {
		return err
	} else if park != nil {
		dirs = append(dirs, park)
	}
	for i, dir := range dirs {
		names, err := dir.Names()
		if err != nil {
			return err
		}
		for _, name := range names {
			if _, ok := parseSegment(name); !ok {
				a.report(Problem{Code: ProblemForeign, Detail: name, Name: []string{"journal/", "archive/"}[i] + name, Evidence: name})
			}
		}
	}
	return nil
}

func (a *audit) segment(l *Log, seg, limit uint64) error {
	f, err := l.openSegment(seg)
	if isAbsent(err) { // taken away since it was listed
		return nil
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
	first, at := true, int64(0) // at: after the last row
	err = lines(f, 0, end, func(r row) error {
		rec, ok, err := l.whole(r.line)
		if err != nil {
			return err
		}
		if !ok {
			return nil // judged with the bytes around it
		}
		if limit > 0 && rec.Seq >= limit {
			at = r.end
			return nil
		}
		// A row begins with a newline of its own, which is no garbage.
		torn, err := a.between(f, seg, at, r.start-1)
		if err != nil {
			return err
		}
		pos := Pos{Segment: seg, Offset: r.end, Seq: rec.Seq, Chain: chainOf(r.line)}
		a.row(rec, pos, torn)
		if first && rec.Seq != seg && !torn {
			a.report(Problem{Code: ProblemName, Segment: seg, Seq: rec.Seq, Evidence: chainText(pos.Chain), Detail: "the first row is not the one that the name gives"})
		}
		first, at = false, r.end
		return nil
	})
	if err != nil {
		return err
	}
	_, err = a.between(f, seg, at, end)
	return err
}

// between judges the bytes between two rows and reports whether they are a
// torn range that a note names.
func (a *audit) between(f fsx.File, seg uint64, from, to int64) (torn bool, err error) {
	if to <= from {
		return false, nil
	}
	gap := make([]byte, min(to-from, 1<<20))
	if _, err := f.ReadAt(gap, from); err != nil && err != io.EOF {
		return false, err
	}
	note, ok := a.known.torn[tornKey{seg, from}]
	if len(bytes.Trim(gap, "\n\x00")) == 0 && note.To == 0 {
		return false, nil
	}
	a.counts.Malformed++
	if !ok {
		a.report(Problem{Code: ProblemGarbage, Segment: seg, Seq: a.pos.Seq, Evidence: textHash(gap), Detail: "bytes that are no row"})
		return false, nil
	}
	// The newline that begins a row may have been written after the range.
	seen := gap[:min(int64(len(gap)), note.To-note.From)]
	if sum := textHash(seen); !a.known.leads(Change{Segment: seg, From: from}.key(), note.SHA256, sum) {
		a.report(Problem{Code: ProblemChanged, Segment: seg, Seq: a.pos.Seq, Evidence: sum, Detail: "torn bytes are not those that the note names"})
	}
	return true, nil
}

func textHash(b []byte) string {
	sum := chainOf(b)
	return hex.EncodeToString(sum[:])
}

// row judges one row against the one before.
func (a *audit) row(rec *Record, pos Pos, torn bool) {
	a.counts.Rows++
	gap := rec.Seq > a.pos.Seq+1
	explained := torn || gap && a.known.explains(a.pos.Seq+1, rec.Seq-1)
	switch {
	case rec.Seq <= a.pos.Seq:
		a.report(Problem{Code: ProblemOrder, Segment: pos.Segment, Seq: rec.Seq, Evidence: chainText(pos.Chain), Detail: "the row follows one with a higher seq"})
	case gap && !explained:
		a.report(Problem{Code: ProblemMissing, Segment: pos.Segment, Seq: a.pos.Seq + 1, Evidence: fmt.Sprint(a.pos.Seq+1, "-", rec.Seq-1), Detail: "rows are missing"})
	}
	was, now := rec.Chain, chainText(a.pos.Chain)
	if was != now && !(gap && explained) && !(rec.Seq == a.pos.Seq+1 && a.known.RowLeads(a.pos.Seq, was, now)) {
		a.report(Problem{Code: ProblemChain, Segment: pos.Segment, Seq: rec.Seq, Evidence: was + ">" + now, Detail: "the row does not carry the hash of the row before"})
	}
	a.pos = pos
	if _, ok := a.o.Watch[rec.Seq]; ok {
		a.o.Watch[rec.Seq] = pos.Chain
	}
	if a.o.Row != nil {
		a.o.Row(rec, pos)
	}
}

// heads reports what an Open found: the journal was not the one that the last
// Close had seen.
func (a *audit) heads() {
	for _, n := range a.known.heads {
		p := Problem{Code: ProblemHead, Seq: n.Last, Evidence: n.SHA256, Detail: "the row was another one when the store was closed"}
		if n.Missing != nil {
			p.Code, p.Seq, p.Detail = ProblemTruncated, n.Missing[0], "rows were missing at the end when the store was opened"
		}
		a.report(p)
	}
}

// archive looks for the segments that were parked.
func (a *audit) archive(l *Log, segs []uint64) error {
	have := map[uint64]bool{}
	for _, s := range segs {
		have[s] = true
	}
	for _, seg := range slices.Sorted(maps.Keys(a.known.archived)) {
		n := a.known.archived[seg]
		if !have[seg] {
			a.report(Problem{Code: ProblemArchive, Segment: seg, Seq: seg, Evidence: n.SHA256, Name: "archive/" + SegmentFile(seg), Detail: "a parked segment is gone"})
			continue
		}
		if !a.o.Deep {
			continue
		}
		facts, err := l.Facts(seg)
		if err != nil {
			return err
		}
		if !a.known.FileLeads(SegmentFile(seg), n.SHA256, facts.SHA256) {
			a.report(Problem{Code: ProblemParked, Segment: seg, Seq: seg, Evidence: facts.SHA256, Name: "archive/" + SegmentFile(seg), Detail: "a parked segment is not what was parked"})
		}
	}
	return nil
}
