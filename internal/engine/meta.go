package engine

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"regexp"
	"slices"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// Meta is meta.json. Everything in it but the format can be rebuilt.
type Meta struct {
	Format  int    `json:"format"`
	Version string `json:"version"`
	NextSeq uint64 `json:"next_seq,omitempty"`
	Head    string `json:"head,omitempty"`
	// Settled is the row up to which every commit is settled, so that Open does
	// not check commits of writers that ended long ago.
	Settled uint64 `json:"settled,omitempty"`
}

const (
	MetaName  = "meta.json"
	MetaLimit = 1 << 20 // bytes
)

// checkFormat refuses a state directory of a newer version. A damaged meta.json
// is not refused, because it is a cache.
func (s *Engine) checkFormat() error {
	data, err := durable.ReadFile(s.Disk.State, MetaName, MetaLimit)
	if IsAbsent(err) {
		return nil
	}
	if err != nil && !errors.Is(err, durable.ErrTooLong) {
		return err
	}
	var m Meta
	if json.Unmarshal(data, &m) != nil {
		s.Report.Rebuilt = true
		return nil
	}
	if m.Format > FormatVersion {
		return fault.New(fault.NewerFormat).With("format", m.Format).With("supported", FormatVersion)
	}
	s.closed = m
	return nil
}

// stagedBefore matches the names that a commit used in staging/ in format 1.
var stagedBefore = regexp.MustCompile(`^[0-9a-z]+-[0-9a-z]+-[0-9a-z]+\.[0-9]+$`)

// migrate converts a store of format 1, whose rows this version reads unchanged.
// It fails while that format has unfinished work, which only its own version can
// finish. The new format is written first and the writers are checked again
// afterwards, so that a process of the old version cannot open the store in
// between.
func (s *Engine) migrate() error {
	if err := s.checkFormat(); err != nil || s.closed.Format == FormatVersion { // another process has done it
		return err
	}
	names, err := s.Disk.Staging.Names()
	if err != nil {
		return err
	}
	unfinished := slices.ContainsFunc(names, stagedBefore.MatchString)
	if s.closed.Format == 1 && !unfinished {
		_, err := s.Disk.State.Lstat(poisonMark)
		unfinished = err == nil
	}
	if unfinished {
		return fault.New(fault.BadStateDir).With("part", StateDirName+"/staging").With("format", 1).
			Hintf("version 0.1 of resilient-write left unfinished writes in this workspace; run resilient-write check of that version once to complete them, then open the store again")
	}
	if s.closed.Format == 0 { // new, or without its cache
		return nil
	}
	for _, raise := range []bool{true, false} {
		if others, err := s.othersLive(); err != nil || others {
			if err == nil {
				err = fault.New(fault.IOBusy).With("format", 1).Hintf("a process of version 0.1 of resilient-write has the workspace open; end it, then open the store again")
			}
			return err
		}
		if !raise {
			break
		}
		next := s.closed
		next.Format = FormatVersion
		data, err := json.MarshalIndent(next, "", "  ")
		if err != nil {
			return err
		}
		if err := durable.WriteFile(s.Disk.State, MetaName, append(data, '\n'), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// WriteMeta writes meta.json.
func (s *Engine) WriteMeta() error {
	// A row that a power cut takes must not be the head.
	return s.Log.Freeze(s.writeMetaAt)
}

func (s *Engine) writeMetaAt(pos journal.Pos) error {
	data, err := json.MarshalIndent(Meta{
		Format: FormatVersion, Version: s.Version, NextSeq: pos.Seq + 1, Head: hex.EncodeToString(pos.Chain[:]),
		Settled: s.Unsettled.Floor(s.Rows.settledTo(pos.Seq)),
	}, "", "  ")
	if err != nil {
		return err
	}
	return durable.WriteFile(s.Disk.State, MetaName, append(data, '\n'), 0o600)
}

// FormatVersion is the version of the state directory.
const FormatVersion = 2
