package journal

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Manifests keeps the mutations of records that are too long for one line. The
// row then holds the hash of its manifest.
type Manifests interface {
	Save(write func(io.Writer) error) (sha string, err error) // what write writes, each time the same; durable when it returns
	Load(sha string) ([]byte, error)                          // ErrNotFound if it is lost or damaged
	Any() bool                                                // there is one
}

// MaxManifest bounds a manifest in bytes.
const MaxManifest = 128 << 20

// spill moves the mutations of records that are too long for a line into
// manifests, before the row is written.
func (l *Log) spill(b *Batch) error {
	if l.o.Manifests == nil || !b.Long {
		return nil
	}
	for _, r := range b.Recs {
		if len(r.Muts) < 64 || r.Manifest != "" {
			continue // cannot be: paths are bounded
		}
		if len(r.Muts)*leastMut <= MaxRecord {
			line, err := encode(r)
			if err == nil && len(line)+headroom <= MaxRecord {
				continue
			}
			if err != nil && !errors.Is(err, ErrTooLarge) {
				return err
			}
		}
		sha, err := l.o.Manifests.Save(func(w io.Writer) error { return encodeManifest(w, r.Muts) })
		if err != nil {
			return err
		}
		r.Manifest = sha
		l.manifests.keep(sha, r.Muts) // who wrote it often reads it next
	}
	return nil
}

// leastMut is less than a mutation takes in a row, in bytes.
const leastMut = 32

// encodeManifest writes one line of JSON for each mutation.
func encodeManifest(w io.Writer, muts []Mutation) error {
	size := Size(0)
	enc := json.NewEncoder(io.MultiWriter(w, &size))
	for i := range muts {
		if err := enc.Encode(&muts[i]); err != nil {
			return err
		}
		if size > MaxManifest {
			return ErrTooLarge
		}
	}
	return nil
}

// Size counts the bytes that are written to it.
type Size int64

func (n *Size) Write(b []byte) (int, error) {
	*n += Size(len(b))
	return len(b), nil
}

func decodeManifest(data []byte) ([]Mutation, error) {
	muts := make([]Mutation, bytes.Count(data, []byte{'\n'}))
	for i := range muts {
		line, rest, _ := bytes.Cut(data, []byte{'\n'})
		if err := json.Unmarshal(line, &muts[i]); err != nil {
			return nil, err
		}
		data = rest
	}
	if len(data) > 0 {
		return nil, errors.New("a manifest ends in the middle of a line")
	}
	return muts, nil
}

// manifestCache is the manifest that was read or written last: readers often ask for the
// same row again.
type manifestCache struct {
	mu   sync.Mutex
	sha  string
	muts []Mutation
}

func (c *manifestCache) keep(sha string, muts []Mutation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sha, c.muts = sha, muts
}

// ForgetManifest forgets the manifest that was read last.
func (l *Log) ForgetManifest() { l.manifests.keep("", nil) }

// whole is decode with the mutations of the manifest. A record whose manifest
// is lost has none.
func (l *Log) whole(line []byte) (rec *Record, ok bool, err error) {
	if rec, ok = decode(line); ok {
		err = l.fill(rec)
	}
	return rec, ok, err
}

// fill reads the mutations of a record that has a manifest.
func (l *Log) fill(rec *Record) error {
	if rec.Manifest == "" || l.o.Manifests == nil {
		return nil
	}
	c := &l.manifests
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sha != rec.Manifest {
		data, err := l.o.Manifests.Load(rec.Manifest)
		if err != nil {
			return fsx.Unless(err, ErrNotFound)
		}
		muts, err := decodeManifest(data)
		if err != nil {
			return nil
		}
		c.sha, c.muts = rec.Manifest, muts
	}
	rec.Muts = slices.Clip(c.muts)
	return nil
}

// exportedMut is a mutation of a record with a manifest, as an export has it: one
// line after the record.
type exportedMut struct {
	Of  uint64          `json:"of"`
	Mut json.RawMessage `json:"mut"`
}

const exportedMutPrefix = `{"of":`

// exportManifest writes the mutations of a record that has a manifest. One that
// is lost is left out.
func (l *Log) exportManifest(w io.Writer, rec *Record) error {
	if rec.Manifest == "" || l.o.Manifests == nil {
		return nil
	}
	data, err := l.o.Manifests.Load(rec.Manifest)
	if err != nil {
		return fsx.Unless(err, ErrNotFound)
	}
	for line := range bytes.Lines(data) {
		if err := writeLine(w, exportedMut{rec.Seq, bytes.TrimSpace(line)}); err != nil {
			return err
		}
	}
	return nil
}

// manifestLine takes a line of a manifest in an export.
func (v *Slices) manifestLine(line []byte) error {
	var one exportedMut
	var m Mutation
	v.weight += len(line)
	if v.held == nil || v.held.Manifest == "" || json.Unmarshal(line, &one) != nil || one.Of != v.held.Seq || json.Unmarshal(one.Mut, &m) != nil || v.weight > 2*MaxManifest {
		return damaged("the manifest of row %d is damaged", v.last.Seq)
	}
	v.hash(line)
	v.held.Muts = append(v.held.Muts, m)
	return nil
}

// handOver gives the row that waited for its manifest to each.
func (v *Slices) handOver(each func(*Record) error) error {
	rec := v.held
	v.held, v.weight = nil, 0
	if rec == nil {
		return nil
	}
	return each(rec)
}
