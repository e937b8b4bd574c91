package engine

import (
	"bufio"
	"errors"
	"io"

	"github.com/resilientwrite/resilientwrite/internal/blob"
	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// ManifestDir holds the mutations of rows that are too long for a line of the
// journal. A manifest is as durable as its row, and is kept as long.
const ManifestDir = "manifests"

// ManifestMasked is the suffix of a file next to a manifest in which a secret was
// overwritten. The file holds the new hash of the manifest.
const ManifestMasked = ".masked"

// manifests is the manifests as the journal uses them.
type manifests struct{ s *Engine }

func (m manifests) Save(write func(io.Writer) error) (string, error) {
	dir, err := m.s.OpenPart(ManifestDir)
	if err != nil {
		return "", err
	}
	store := blob.New(dir)
	defer store.Close()
	d := NewDigest()
	size := journal.Size(0)
	if err := write(io.MultiWriter(d, &size)); err != nil {
		return "", err
	}
	r, w := io.Pipe()
	go func() {
		to := bufio.NewWriterSize(w, CopyBuffer)
		err := write(to)
		if err == nil {
			err = to.Flush()
		}
		w.CloseWithError(err)
	}()
	defer r.Close() // also where it is not read to its end
	return d.Hex(), store.Save(r, int64(size), d.Hex())
}

func (m manifests) Load(sha string) ([]byte, error) {
	dir, err := m.s.StatePart(ManifestDir)
	if err != nil {
		return nil, err
	}
	if dir == nil {
		return nil, journal.ErrNotFound
	}
	store := blob.New(dir)
	defer store.Close()
	f, err := store.Open(sha)
	if IsAbsent(err) || IsOdd(err) {
		return nil, errors.Join(err, journal.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := durable.ReadUpTo(f, journal.MaxManifest)
	now := HashOf(data)
	if err != nil && !IsOdd(err) || err == nil && now == sha {
		return data, err
	}
	masked, err := m.masked(dir, sha)
	if err == nil && now != masked {
		err = errors.Join(blob.ErrDamaged, journal.ErrNotFound)
	}
	return data, err
}

// masked returns the hash of a manifest in which something was overwritten, "" if
// there is none.
func (m manifests) masked(dir fsx.Dir, sha string) (string, error) {
	sub, err := dir.OpenDir(sha[:2])
	if err != nil {
		return "", err
	}
	defer sub.Close()
	text, err := durable.ReadFile(sub, sha+ManifestMasked, MetaLimit)
	if IsAbsent(err) {
		err = nil
	}
	return string(text), err
}

func (m manifests) Any() bool {
	dir, err := m.s.StatePart(ManifestDir)
	if dir == nil || err != nil {
		return false
	}
	defer dir.Close()
	names, err := dir.Names()
	return err == nil && len(names) > 0
}
