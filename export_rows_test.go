package resilientwrite

import (
	"context"
	"encoding/json"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/index"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// KeyCount and KeyAge are how many idempotency keys are kept and how long.
const (
	KeyCount = engine.KeyCount
	KeyAge   = engine.KeyAge
)

// KeyIndex is the index of a store without its journal.
type KeyIndex struct{ rows *engine.RowIndex }

// OpenKeyIndex loads the newest snapshot of a directory.
func OpenKeyIndex(dir fsx.Dir) (*KeyIndex, error) {
	r, err := engine.OpenRows(dir)
	return &KeyIndex{r}, err
}

// Fold takes the row of a commit with a key, made some time ago.
func (x *KeyIndex) Fold(seq uint64, key, path string, ago time.Duration) {
	x.rows.Fold(&journal.Record{
		Seq: seq, Kind: journal.KindCommit, Key: key, TS: time.Now().Add(-ago).UTC().Format(engine.TimeFormat),
		Muts: []journal.Mutation{{Op: "create", Path: path, Rev: 1}},
	}, journal.Pos{})
}

// Save writes a snapshot when the journal has come to a row.
func (x *KeyIndex) Save(dir fsx.Dir, head uint64) error {
	return x.rows.WriteAt(dir, journal.Pos{Seq: head})
}

// Knows returns the rows of a key and of a path; 0 for none.
func (x *KeyIndex) Knows(key, path string) (ofKey, ofPath uint64, err error) {
	k, err := x.rows.Get(index.IdemKey(key))
	if err != nil {
		return 0, 0, err
	}
	p, err := x.rows.Last(path)
	return k.Seq, p.Seq, err
}

// Close releases the snapshot.
func (x *KeyIndex) Close() error { return x.rows.Close() }

// ReplyOf returns the reply that the row of a commit contains.
func (s *Store) ReplyOf(seq uint64) (json.RawMessage, error) {
	rec, err := s.engine.Log.Find(seq)
	if err != nil {
		return nil, err
	}
	return rec.Reply, nil
}

// KeepWithoutReply writes the row of an edit as earlier versions did, without its
// reply.
func (s *Store) KeepWithoutReply(r EditRequest, sha string) error {
	_, err := s.engine.Log.Write(context.Background(), &journal.Batch{Recs: []*journal.Record{{
		Kind: journal.KindCommit, Writer: s.engine.Writer, Key: r.IdempotencyKey, KeyHash: identity("edit", r), TS: s.engine.Now().UTC().Format(engine.TimeFormat),
		Muts: []journal.Mutation{{Op: "edit", Path: r.Path, SHA256: sha, PrevSHA256: engine.HashOf([]byte("?")), Rev: 1}},
	}}})
	if err != nil {
		return err
	}
	return s.engine.Log.Show(s.engine.Log.Head())
}
