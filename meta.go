package resilientwrite

import (
	"encoding/hex"
	"encoding/json"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// meta is meta.json. Everything in it but the format can be rebuilt.
type meta struct {
	Format  int    `json:"format"`
	Version string `json:"version"`
	NextSeq uint64 `json:"next_seq,omitempty"`
	Settled uint64 `json:"settled,omitempty"`
	Head    string `json:"head,omitempty"`
}

const (
	metaName  = "meta.json"
	metaLimit = 1 << 20 // bytes
)

// checkFormat refuses a state directory of a newer version. A damaged
// meta.json is no reason to refuse: it is a cache.
func (s *Store) checkFormat() error {
	data, err := durable.ReadFile(s.disk.state, metaName, metaLimit)
	if isAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var m meta
	if json.Unmarshal(data, &m) != nil {
		s.report.Rebuilt = true
		return nil
	}
	if m.Format > FormatVersion {
		return fail(NewerFormat).with("format", m.Format).with("supported", FormatVersion)
	}
	s.settledFloor, s.closed = m.Settled, m
	return nil
}

// writeMeta writes meta.json. While other writers live, nothing is said about
// what is settled.
func (s *Store) writeMeta() error {
	// A row that a power cut takes must not be the head.
	return s.log.Freeze(s.writeMetaAt)
}

func (s *Store) writeMetaAt(pos journal.Pos) error {
	settled := s.unsettled.floor(pos.Seq)
	if others, err := s.othersLive(); err != nil || others {
		settled = min(settled, s.settledFloor)
	}
	data, err := json.MarshalIndent(meta{
		Format: FormatVersion, Version: Version, NextSeq: pos.Seq + 1,
		Settled: settled, Head: hex.EncodeToString(pos.Chain[:]),
	}, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(s.disk.state, metaName, append(data, '\n'), 0o600)
}
