package journal

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Mending is a sealed segment that can be put in order without inventing
// anything: all its rows are there, and the chain from the row before them to
// the row after them proves it. Only their order, their number, their name or
// the bytes between them were wrong.
type Mending struct {
	First   uint64   // the segment by its name
	Name    uint64   // the name it should have
	Rows    int      // that it holds
	Changes []Change // for the note
	dir     fsx.Dir
	data    []byte
}

// Dir is the directory of the segment.
func (m *Mending) Dir() fsx.Dir { return m.dir }

// PlanMending looks for what can be put in order in a sealed segment, nil when
// that is nothing. Nothing is written.
func (l *Log) PlanMending(known *Known, first uint64) (*Mending, error) {
	for key := range known.torn {
		if key.segment == first {
			return nil, nil // the bytes that the note names must keep their position
		}
	}
	segs, err := l.Sealed()
	if err != nil {
		return nil, err
	}
	if first == l.End().Segment { // only to report what could be done
		segs = append(segs, first)
	}
	at := slices.Index(segs, first)
	if at < 0 {
		return nil, nil
	}
	m := &Mending{First: first, dir: l.o.Dir}
	if _, err := l.o.Dir.Lstat(SegmentFile(first)); isAbsent(err) {
		if m.dir, err = l.archive(false); err != nil || m.dir == nil {
			return nil, err
		}
	}
	old, err := readWhole(m.dir, SegmentFile(first))
	if err != nil {
		return nil, err
	}
	before, err := l.lastOf(segs[:at], first)
	if err != nil {
		return nil, err
	}
	after, err := l.firstAfter(first)
	if err != nil {
		return nil, err
	}
	if !m.assemble(known, old, before, after) {
		return nil, nil
	}
	m.Changes = []Change{{Path: SegmentFile(first), Was: textHash(old), Now: textHash(m.data)}}
	return m, nil
}

// Apply puts the segment in order. The old bytes must have been kept
// elsewhere; tmp and name are where the new ones are written first.
func (m *Mending) Apply(tmp fsx.Dir, name string) error {
	if err := durable.WriteFrom(tmp, name, m.dir, SegmentFile(m.Name), m.data, 0o600); err != nil {
		return err
	}
	if m.Name == m.First {
		return nil
	}
	if err := m.dir.Remove(SegmentFile(m.First)); err != nil && !isAbsent(err) {
		return err
	}
	return m.dir.Sync()
}

// link is a row by its seq and hash.
type link struct {
	seq   uint64
	chain [32]byte
	holds string // the hash that it carries
	ok    bool
}

// lastOf returns the last valid row of some segments, which end at the first row of the
// segment limit.
func (l *Log) lastOf(segs []uint64, limit uint64) (link, error) {
	var last link
	if len(segs) == 0 {
		return last, nil
	}
	_, err := l.rowsIn(segs[len(segs)-1:], 1, func(rec *Record, _ []byte, pos Pos) error {
		if rec.Seq < limit {
			last = link{seq: rec.Seq, chain: pos.Chain, ok: true}
		}
		return nil
	})
	return last, err
}

// firstAfter is the first row after a segment.
func (l *Log) firstAfter(first uint64) (link, error) {
	_, all, err := l.all()
	if err != nil {
		return link{}, err
	}
	var next link
	_, err = l.rowsIn(all[slices.Index(all, first)+1:], 1, func(rec *Record, _ []byte, pos Pos) error {
		next = link{seq: rec.Seq, chain: pos.Chain, holds: rec.Chain, ok: true}
		return errStop
	})
	if !next.ok { // nothing follows it: it ends where the journal does
		end := l.End()
		next = link{seq: end.Seq + 1, holds: chainText(end.Chain), ok: true}
	}
	return next, err
}

// candidate is a row that was found somewhere in the bytes of a segment.
type candidate struct {
	rec  *Record
	line []byte
}

// assemble puts the existing rows in order and reports whether the result is proven and
// differs from the old bytes.
func (m *Mending) assemble(known *Known, old []byte, before, after link) bool {
	found := candidates(old)
	seq, chain := before.seq, before.chain
	if !before.ok && m.First > 1 && len(found[m.First]) > 0 && len(found[1]) == 0 {
		seq = m.First - 1 // what preceded it is gone
		carried, _ := hex.DecodeString(found[m.First][0].rec.Chain)
		copy(chain[:], carried)
	}
	m.Name = seq + 1
	var last []byte
	for {
		next := follow(known, found[seq+1], seq, chain)
		if next == nil {
			break
		}
		last = next
		seq++
		chain = chainOf(next)
		m.data = append(append(append(m.data, '\n'), next...), '\n')
		m.Rows++
	}
	if last == nil || !after.ok || after.seq != seq+1 || after.holds != chainText(chain) && !known.RowLeads(seq, after.holds, chainText(chain)) {
		return false
	}
	for s, list := range found {
		if s > seq || s >= m.Name && len(list) > 1 {
			return false // a row that has no place, or two that claim one
		}
	}
	return m.Name != m.First || !bytes.Equal(bytes.TrimRight(old, "\x00"), m.data)
}

// follow is the row that carries the hash of the row before it.
func follow(known *Known, list []candidate, seq uint64, chain [32]byte) []byte {
	for _, c := range list {
		if c.rec.Chain == chainText(chain) || known.RowLeads(seq, c.rec.Chain, chainText(chain)) {
			return c.line
		}
	}
	return nil
}

// candidates are all rows in some bytes, wherever they begin, by seq, each
// text once.
func candidates(data []byte) map[uint64][]candidate {
	found := map[uint64][]candidate{}
	for at := 0; ; {
		i := bytes.Index(data[at:], seqPrefix)
		if i < 0 {
			return found
		}
		at += i
		var raw json.RawMessage
		dec := json.NewDecoder(bytes.NewReader(data[at:min(len(data), at+MaxRecord+1)]))
		if dec.Decode(&raw) != nil {
			at += len(seqPrefix)
			continue
		}
		rec, ok := decode(raw)
		if !ok || bytes.IndexByte(raw, '\n') >= 0 {
			at += len(seqPrefix)
			continue
		}
		line := data[at : at+len(raw)]
		if !slices.ContainsFunc(found[rec.Seq], func(c candidate) bool { return bytes.Equal(c.line, line) }) {
			found[rec.Seq] = append(found[rec.Seq], candidate{rec, line})
		}
		at += len(raw)
	}
}
