package journal

import (
	"fmt"
	"slices"
)

// Known is what the notes of a journal explain. It is built before anything is judged,
// because a note follows the rows that it explains.
type Known struct {
	torn     map[tornKey]Note
	missing  map[uint64]uint64 // first to last
	archived map[uint64]Note
	changed  map[string][]Change
	rows     map[uint64]bool // that were changed
	accepted map[Accepted]bool
	heads    []Note
}

type tornKey struct {
	segment uint64
	from    int64
}

// NewKnown returns the knowledge of a journal without notes.
func NewKnown() *Known {
	return &Known{
		torn: map[tornKey]Note{}, missing: map[uint64]uint64{}, archived: map[uint64]Note{},
		changed: map[string][]Change{}, rows: map[uint64]bool{}, accepted: map[Accepted]bool{},
	}
}

// Take learns from one row.
func (k *Known) Take(rec *Record) {
	if rec.Note == nil {
		return
	}
	n := *rec.Note
	switch n.What {
	case NoteTorn:
		k.torn[tornKey{n.Segment, n.From}] = n
	case NoteArchived:
		k.archived[n.Segment] = n
	case NoteHead:
		k.heads = append(k.heads, n)
	}
	if n.Missing != nil {
		k.missing[n.Missing[0]] = max(n.Missing[1], k.missing[n.Missing[0]])
	}
	for _, c := range n.Changed {
		k.changed[c.key()] = append(k.changed[c.key()], c)
		if c.Seq > 0 {
			k.rows[c.Seq] = true
		}
	}
	for _, a := range n.Accepted {
		k.accepted[a] = true
	}
}

// Archived reports whether a note records that the segment is parked, with these bytes.
func (k *Known) Archived(first uint64, sha string) bool {
	n, ok := k.archived[first]
	return ok && k.FileLeads(SegmentFile(first), n.SHA256, sha)
}

// explains reports whether missing rows are in segments that were
// parked, or are known to be missing.
func (k *Known) explains(from, to uint64) bool {
	for from <= to {
		next := k.missing[from] + 1
		for _, n := range k.archived {
			if n.Segment <= from && n.Last >= from {
				next = max(next, n.Last+1)
			}
		}
		if next <= from {
			return false
		}
		from = next
	}
	return true
}

// key identifies the object of the change.
func (c Change) key() string {
	switch {
	case c.Seq > 0:
		return fmt.Sprint("row ", c.Seq)
	case c.Path != "":
		return "file " + c.Path
	}
	return fmt.Sprint("bytes ", c.Segment, " ", c.From)
}

// leads reports whether the known changes of one object lead from one hash to another,
// in any number of steps.
func (k *Known) leads(key, was, now string) bool {
	reached := []string{was}
	for i := 0; i < len(reached); i++ {
		if reached[i] == now {
			return true
		}
		for _, c := range k.changed[key] {
			if c.Was == reached[i] && !slices.Contains(reached, c.Now) {
				reached = append(reached, c.Now)
			}
		}
	}
	return false
}

// HeadTold reports whether a note records that the row of this hash, which was once the
// newest one, was replaced or lost.
func (k *Known) HeadTold(sha string) bool {
	return slices.ContainsFunc(k.heads, func(n Note) bool { return n.SHA256 == sha })
}

// RowChanged reports whether bytes of the row were replaced on purpose.
func (k *Known) RowChanged(seq uint64) bool { return k.rows[seq] }

// RowLeads reports whether the row, which had the one hash, may have the other.
func (k *Known) RowLeads(seq uint64, was, now string) bool {
	return k.leads(Change{Seq: seq}.key(), was, now)
}

// FileLeads reports whether the file, which had the one hash, may have the
// other; "" is no file.
func (k *Known) FileLeads(path, was, now string) bool {
	return k.leads(Change{Path: path}.key(), was, now)
}

// Accepts reports whether the problem is known to the operator.
func (k *Known) Accepts(p Problem) bool {
	return k.accepted[Accepted{p.Code, p.Segment, p.Seq, p.Evidence}]
}

// Known reads all notes.
func (l *Log) Known() (*Known, error) {
	k := NewKnown()
	err := l.Range(1, func(rec *Record, _ Pos) error {
		k.Take(rec)
		return nil
	})
	return k, err
}
