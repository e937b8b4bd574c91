package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"github.com/resilientwrite/resilientwrite/internal/blob"
	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// ManifestDir holds the mutations of rows that are too long for a line of the
// journal. A manifest is as durable as its row, and stays as long.
const ManifestDir = "manifests"

// ManifestMasked ends the name of a file beside a manifest in which a secret was
// written over. It holds the hash that the manifest has since.
const ManifestMasked = ".masked"

// manifests is the manifests as the journal uses them.
type manifests struct{ s *Engine }

func (m manifests) Save(data []byte) (string, error) {
	dir, err := m.s.OpenPart(ManifestDir)
	if err != nil {
		return "", err
	}
	store := blob.New(dir)
	defer store.Close()
	sum := sha256.Sum256(data)
	sha := hex.EncodeToString(sum[:])
	return sha, store.Save(bytes.NewReader(data), int64(len(data)), sha)
}

func (m manifests) Load(sha string) ([]byte, error) {
	dir, err := m.s.StatePart(ManifestDir)
	if dir == nil || err != nil {
		return nil, errors.Join(err, journal.ErrNotFound)
	}
	store := blob.New(dir)
	defer store.Close()
	f, err := store.Open(sha)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := durable.ReadUpTo(f, journal.MaxManifest)
	if now := HashOf(data); err == nil && now != sha && now != m.masked(dir, sha) {
		err = blob.ErrDamaged
	}
	return data, err
}

// masked is the hash of a manifest in which something was written over, "" for
// none.
func (m manifests) masked(dir fsx.Dir, sha string) string {
	sub, err := dir.OpenDir(sha[:2])
	if err != nil {
		return ""
	}
	defer sub.Close()
	text, _ := durable.ReadFile(sub, sha+ManifestMasked, MetaLimit)
	return string(text)
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
