package resilientwrite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/lock"
)

// poisonMark is the file in the state directory that says what a failed flush
// has left in doubt. It is written and removed under the journal lock, and goes
// when nothing of it is left.
const poisonMark = "poisoned"

// doubt is one line of the mark, or all of them together.
type doubt struct {
	// FirstSeq is the first row that may be lost although it can be read; 0
	// means none.
	FirstSeq uint64 `json:"first_seq"`
	// Writers are those that had the store open. None of them takes a write any
	// more, so their commits are finished by others.
	Writers []string `json:"writers"`

	read []byte // the mark
	left bool   // something of it could not be put in order
}

// poison ends the store's taking of mutations: after a failed flush nobody
// knows which pages are on disk, whatever the next flush says. Every process
// that has the store open learns of it; the next Open writes what is in doubt
// again.
func (s *engine) poison(cause error) error {
	s.poisoned.Store(true)
	var known *journal.WriteError // the journal has told the others
	if !errors.As(cause, &known) && !errors.Is(cause, journal.ErrPoisoned) {
		s.log.Poison()
	}
	e := s.errorOf(cause)
	if e.Code != fault.StorePoisoned {
		if e.Hint != "" {
			e.Hint += "; "
		}
		e.Hint += fault.StorePoisoned.Class().Hint
	}
	return e.With("poisoned", true)
}

// markPoisoned adds a line to the mark: rows from first on are in doubt. It is
// enough that the line can be read: a power cut takes the pages that are in
// doubt as well.
func (s *engine) markPoisoned(first uint64) {
	writers, err := lock.Writers(s.disk.locks)
	if err != nil || !slices.Contains(writers, s.writer) {
		writers = append(writers, s.writer)
	}
	line, err := json.Marshal(doubt{FirstSeq: first, Writers: writers})
	if err != nil {
		return
	}
	if s.addMark(append(line, '\n')) == nil {
		return
	}
	s.reserve.mu.Lock() // most often there is no space
	s.giveUp()
	s.reserve.mu.Unlock()
	s.addMark(append(line, '\n'))
}

func (s *engine) addMark(line []byte) error {
	f, err := s.disk.state.Open(poisonMark, fsx.Append|fsx.Create, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err = f.Append(line); err == nil {
		f.Sync()
		s.disk.state.Sync()
	}
	return err
}

// lostRows reads the mark, for the journal, and returns the first row that is in
// doubt. Of a line that cannot be read, everything is.
func (s *engine) lostRows() (uint64, error) {
	data, err := durable.ReadFile(s.disk.state, poisonMark, markLimit)
	if isAbsent(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	s.doubt = doubt{read: data, FirstSeq: ^uint64(0)}
	for line := range bytes.Lines(data) {
		var d doubt
		if json.Unmarshal(line, &d) != nil || d.FirstSeq == 0 {
			if d.Writers, err = lock.Writers(s.disk.locks); err != nil {
				return 0, err
			}
			d.FirstSeq = 1
		}
		s.doubt.FirstSeq = min(s.doubt.FirstSeq, d.FirstSeq)
		s.doubt.Writers = append(s.doubt.Writers, d.Writers...)
	}
	if len(data) == 0 {
		s.doubt.FirstSeq = 1
	}
	return s.doubt.FirstSeq, nil
}

// markLimit bounds the mark in bytes.
const markLimit = 16 << 20

// inDoubt reports whether a failed flush ended the writer, though its process
// may live.
func (s *engine) inDoubt(writer string) bool {
	return writer != s.writer && slices.Contains(s.doubt.Writers, writer)
}

// clearPoison removes the mark when everything it names was put in order, and
// nothing was added to it meanwhile.
func (s *engine) clearPoison() error {
	if !s.report.Poisoned || s.doubt.left {
		return nil
	}
	return s.log.Alone(context.Background(), func() error {
		data, err := durable.ReadFile(s.disk.state, poisonMark, markLimit)
		if isAbsent(err) || err == nil && !bytes.Equal(data, s.doubt.read) {
			return nil
		}
		if err == nil {
			err = s.disk.state.Remove(poisonMark)
		}
		if err != nil {
			return err
		}
		return s.disk.state.Sync()
	})
}
