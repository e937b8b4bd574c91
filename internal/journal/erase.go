package journal

import (
	"bytes"
	"cmp"
	"io"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Mask selects the parts of a segment that are erased. Both functions return a text of
// the same length, so that no row and no range that a note names moves.
type Mask struct {
	In   func(text []byte) bool                                  // a quick look: false spares the others
	Line func(line []byte) (out []byte, changed bool, err error) // the JSON of a row
	Raw  func(text []byte) (out []byte, changed bool)            // bytes that are no row
}

// Redaction is the changes to one segment.
type Redaction struct {
	First   uint64
	Changes []Change
	Rows    int
	out     []rewritten // the segment may be in the journal and in the archive
}

type rewritten struct {
	dir  fsx.Dir
	data []byte
}

// Fixed reports whether a field of a row is a part of the journal itself:
// nothing of it can be erased.
func Fixed(field string) bool {
	switch field {
	case "seq", "ts", "kind", "writer", "chain", "settled", "commit", "ref", "key_hash", "policy", "manifest", "op", "sha256",
		"prev_sha256", "pay_sha256", "how", "class", "what", "was", "now", "evidence", "code", "invocation":
		return true
	}
	return false
}

// PlanRedaction finds the changes that a mask makes in a sealed segment. It writes
// nothing.
func (l *Log) PlanRedaction(known *Known, first uint64, mask Mask) (*Redaction, error) {
	r := &Redaction{First: first}
	park, err := l.archive(false)
	if err != nil {
		return nil, err
	}
	for _, dir := range []fsx.Dir{l.o.Dir, park} {
		if dir == nil {
			continue
		}
		data, err := readWhole(dir, SegmentFile(first))
		if isAbsent(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !mask.In(data) {
			continue
		}
		m := masking{known: known, first: first, mask: mask, in: data, seen: map[Change]bool{}}
		if err := m.run(); err != nil {
			return nil, err
		}
		if m.out == nil {
			continue
		}
		if len(r.out) == 0 {
			r.Changes, r.Rows = m.changes, m.rows
		}
		r.out = append(r.out, rewritten{dir, m.out})
	}
	return r, nil
}

func readWhole(dir fsx.Dir, name string) ([]byte, error) {
	f, err := dir.Open(name, fsx.Read, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// masking goes through one segment as Audit does.
type masking struct {
	known   *Known
	first   uint64
	mask    Mask
	in, out []byte
	changes []Change
	seen    map[Change]bool
	rows    int
}

func (m *masking) run() error {
	at := int64(0) // after the last row
	end := int64(len(m.in))
	err := lines(bytes.NewReader(m.in), 0, end, func(r row) error {
		rec, ok := decode(r.line)
		if !ok {
			return nil
		}
		m.between(at, r.start)
		at = r.end
		out, changed, err := m.mask.Line(r.line)
		if err != nil || !changed {
			return err
		}
		m.rows++
		m.write(r.start, out)
		m.note(Change{Seq: rec.Seq, Was: textHash(r.line), Now: textHash(out)})
		return nil
	})
	if err != nil {
		return err
	}
	m.between(at, end)
	if m.out != nil {
		m.note(Change{Path: SegmentFile(m.first), Was: textHash(m.in), Now: textHash(m.out)})
	}
	return nil
}

func (m *masking) note(c Change) {
	if !m.seen[c] {
		m.seen[c] = true
		m.changes = append(m.changes, c)
	}
}

func (m *masking) write(at int64, text []byte) {
	if m.out == nil {
		m.out = bytes.Clone(m.in)
	}
	copy(m.out[at:], text)
}

// between masks bytes that are no rows.
func (m *masking) between(from, to int64) {
	if to <= from {
		return
	}
	out, changed := m.mask.Raw(m.in[from:to])
	if !changed {
		return
	}
	m.write(from, out)
	note, ok := m.known.torn[tornKey{m.first, from}]
	if !ok || note.To > int64(len(m.in)) {
		return
	}
	upto := min(note.To, from+1<<20)
	m.note(Change{Segment: m.first, From: from, Was: textHash(m.in[from:upto]), Now: textHash(m.out[from:upto])})
}

// Apply puts the changed segment into the place of the old one, wherever
// it is stored. The new bytes are written to the file name of tmp first. Doing it
// again, or after a crash, is harmless.
//
//	openat(tmp, name)  write…  fsync  renameat(tmp/name, journal/n)  fsync(journal)
func (r *Redaction) Apply(tmp fsx.Dir, name string) error {
	for _, w := range r.out {
		if err := replace(tmp, name, w.dir, SegmentFile(r.First), w.data); err != nil {
			return err
		}
	}
	return nil
}

// replace gives a file other bytes, in one step.
func replace(tmp fsx.Dir, name string, dir fsx.Dir, as string, data []byte) error {
	f, err := tmp.Open(name, fsx.Write|fsx.Create|fsx.Excl, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	err = cmp.Or(err, f.Close())
	if err == nil {
		err = tmp.Rename(name, dir, as)
	}
	if err != nil {
		tmp.Remove(name)
		return err
	}
	return dir.Sync()
}
