package journal

import (
	"bytes"
	"io"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/needle"
)

// Redaction is the changes that overwrite a secret in one segment. The segment keeps its
// length, so that no row and no range that a note names moves.
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

// fixed reports whether a field of a row is a part of the journal itself: nothing of it
// can be erased.
func fixed(field string) bool {
	switch field {
	case "seq", "ts", "kind", "writer", "chain", "settled", "commit", "ref", "key_hash", "policy", "manifest", "op", "sha256",
		"prev_sha256", "pay_sha256", "how", "class", "what", "was", "now", "evidence", "code", "invocation":
		return true
	}
	return false
}

// PlanRedaction finds the changes that erase a secret from a sealed segment. It writes
// nothing. The error is needle.ErrStructure if the secret is also in the structure of
// the journal.
func (l *Log) PlanRedaction(known *Known, first uint64, secret *needle.Needle) (*Redaction, error) {
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
		// Rows are written by us, in one form of JSON, which is among the forms of a needle.
		if !secret.Within(data) {
			continue
		}
		plan := Redaction{First: first}
		out, err := plan.redact(known, data, secret)
		if err != nil {
			return nil, err
		}
		if bytes.Equal(out, data) {
			continue
		}
		if len(r.out) == 0 {
			r.Changes, r.Rows = plan.Changes, plan.Rows
		}
		r.out = append(r.out, rewritten{dir, out})
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

// redact goes through a segment as Audit does, and returns it without the secret.
func (r *Redaction) redact(known *Known, data []byte, secret *needle.Needle) ([]byte, error) {
	out, size := bytes.Clone(data), int64(len(data))
	change := func(c Change, from, to int64) {
		c.Was, c.Now = textHash(data[from:to]), textHash(out[from:to])
		r.Changes = append(r.Changes, c)
	}
	at := int64(0) // after the last row
	between := func(to int64) {
		masked, changed := secret.Mask(data[at:max(at, to)])
		copy(out[at:], masked)
		if note, ok := known.torn[tornKey{r.First, at}]; changed && ok && note.To <= size {
			change(Change{Segment: r.First, From: at}, at, min(note.To, at+1<<20))
		}
	}
	err := lines(bytes.NewReader(data), 0, size, func(l row) error {
		rec, ok := decode(l.line)
		if !ok {
			return nil
		}
		between(l.start)
		at = l.end
		masked, changed, err := secret.MaskJSON(l.line, fixed)
		if err != nil || !changed {
			return err
		}
		r.Rows++
		copy(out[l.start:], masked)
		change(Change{Seq: rec.Seq}, l.start, l.start+int64(len(l.line)))
		return nil
	})
	if err != nil {
		return nil, err
	}
	if between(size); !bytes.Equal(out, data) {
		change(Change{Path: SegmentFile(r.First)}, 0, size)
	}
	return out, nil
}

// Apply puts the changed segment into the place of the old one, wherever
// it is stored. The new bytes are written to the file name of tmp first. Doing it
// again, or after a crash, is harmless.
//
//	openat(tmp, name)  write…  fsync  renameat(tmp/name, journal/n)  fsync(journal)
func (r *Redaction) Apply(tmp fsx.Dir, name string) error {
	for _, w := range r.out {
		if err := durable.WriteFrom(tmp, name, w.dir, SegmentFile(r.First), w.data, 0o600); err != nil {
			return err
		}
	}
	return nil
}
