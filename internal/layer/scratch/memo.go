package scratch

import (
	"bytes"
	"sync"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// A put reads the whole index and the names of all objects only if it must. It keeps
// the result as long as nothing in it is expired, unreadable or missing; the next put
// then reads only the lines that were added since. A rewritten index is another file,
// so it is read completely. A change in its middle by another program is noticed by the
// operations that read the whole index: listing, deleting, check, and the first put of
// a store.

const (
	memoObjects = 1 << 20   // of more objects nothing is kept
	memoTail    = 256       // bytes before the end by which the index is known again
	memoAdded   = 256 << 10 // of more added lines the whole index is read
)

// padMemo is the content of the scratchpad as a put has read it.
type padMemo struct {
	mu      sync.Mutex
	valid   bool
	file    fsx.Stat // the index, of which size bytes were read
	size    int64
	tail    []byte // the last of these bytes
	known   map[string]bool
	total   int64     // bytes of all objects
	soonest time.Time // when the first entry expires; zero for never
}

// indexStat returns the stat of the index file; ok is false if there is none.
func (s *Layer) indexStat() (st fsx.Stat, ok bool) {
	st, err := s.LstatPart(Dir, IndexFile)
	return st, err == nil && st.Kind == fsx.Regular
}

// learn keeps the result of a put, if the index was the same before and after.
func (m *padMemo) learn(s *Layer, before fsx.Stat, pad *Pad) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.valid = false
	after, ok := s.indexStat()
	if !ok || after != before || !pad.exists || pad.Odd || pad.Torn || pad.Malformed+pad.Rebuilt+pad.recalled > 0 || len(pad.Stored) > memoObjects {
		return
	}
	known := make(map[string]bool, len(pad.Stored))
	var soonest time.Time
	for i := range pad.Rows {
		row := &pad.Rows[i]
		if row.Over {
			return
		}
		soonest = sooner(soonest, engine.ParseTime(row.ExpiresAt))
		if pad.Stored[row.SHA256] {
			known[row.SHA256] = true
		}
	}
	tail, err := s.indexBytes(max(after.Size-memoTail, 0), after.Size)
	if err != nil || len(known) < len(pad.Stored) {
		return
	}
	m.file, m.size, m.tail, m.known, m.total, m.soonest, m.valid = after, after.Size, tail, known, pad.Total(nil), soonest, true
}

// sooner is the earlier of two times; the zero time is never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// indexBytes reads a part of the index.
func (s *Layer) indexBytes(from, to int64) ([]byte, error) {
	dir, err := s.StatePart(Dir)
	if dir == nil || err != nil {
		return nil, err
	}
	defer dir.Close()
	f, err := dir.Open(IndexFile, fsx.Read, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	part := make([]byte, to-from)
	if n, err := f.ReadAt(part, from); n < len(part) {
		return nil, err
	}
	return part, nil
}

// current reads the lines that were added and reports whether the memo is valid now.
// The caller holds m.mu.
func (m *padMemo) current(s *Layer, now time.Time) bool {
	st, ok := s.indexStat()
	if !m.valid || !ok || !st.SameFile(m.file) || st.Size < m.size || st.Size-m.size > memoAdded || st.Size == m.size && st != m.file {
		m.valid = false
		return false
	}
	from := m.size - int64(len(m.tail))
	part, err := s.indexBytes(from, st.Size)
	if err != nil || !bytes.HasPrefix(part, m.tail) || !bytes.HasSuffix(part, []byte{'\n'}) {
		m.valid = false
		return false
	}
	for line := range bytes.Lines(part[len(m.tail):]) {
		if m.valid = m.valid && m.add(bytes.TrimSpace(line), now); !m.valid {
			return false
		}
	}
	m.file, m.size, m.tail = st, st.Size, bytes.Clone(part[max(len(part)-memoTail, 0):])
	return m.soonest.IsZero() || m.soonest.After(now)
}

// add reads one line; it returns false if the line requires the whole index.
func (m *padMemo) add(line []byte, now time.Time) bool {
	if len(line) == 0 {
		return true
	}
	row, ok := (&Pad{}).parse(line, now)
	if !ok || row.Over || len(line) >= maxIndexLine || row.Bytes < 0 || row.Bytes > MaxObject || len(m.known) >= memoObjects {
		return false
	}
	m.soonest = sooner(m.soonest, engine.ParseTime(row.ExpiresAt))
	if !m.known[row.SHA256] {
		m.known[row.SHA256] = true
		m.total += row.Bytes
	}
	return true
}

// briefly is plan for the usual case, at a cost that does not grow with the
// Pad: nothing has to go, nothing is damaged, there is room. done is
// false for every other case, and nothing is decided then.
func (p *Put) briefly() (done bool, err error) {
	m := &p.l.memo
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.current(p.l, p.l.Now()) {
		return false, nil
	}
	known := m.known[p.Row.SHA256]
	if known && p.c.Req.Key != "" && p.Expires || !known && m.total+p.Row.Bytes > MaxTotal {
		return false, nil
	}
	found, err := p.l.inspectScratch(p.Row.SHA256)
	if err != nil || known != (found == scratchIntact) || found == scratchDamaged {
		return false, err
	}
	facts, err := p.factsBriefly(known)
	if facts == nil || err != nil {
		return false, err
	}
	p.Before, p.Expired, p.Deduped, p.Repaired = "", 0, known, false
	muts := []*engine.Mutation{p.Object, facts, addedRow(p.Row, false)}
	if known {
		p.Object.SHA, p.Object.Size, p.Object.Prev.SHA = p.Row.SHA256, p.Row.Bytes, p.Row.SHA256
		muts = muts[1:]
	}
	return true, p.c.Choose(muts...)
}

// factsBriefly returns the change to the facts file of the object, or nil if all of its
// lines must be read.
func (p *Put) factsBriefly(known bool) (*engine.Mutation, error) {
	st, err := p.l.LstatPart(Dir, FactsName(p.Row.SHA256))
	switch {
	case engine.IsAbsent(err) && !known:
		m := scratchFacts(p.Row.SHA256, engine.OpOverwrite)
		m.Hold(p.Row.line())
		return m, nil
	case engine.IsAbsent(err):
		return nil, nil
	case err != nil:
		return nil, err
	case st.Kind != fsx.Regular || st.Size == 0 || st.Size >= factsRewrite || !known:
		return nil, nil
	}
	return addedFacts(p.Row), nil
}
