package engine

import (
	"bytes"
	"cmp"
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

// Poison ends the store's taking of mutations: after a failed flush no process
// knows which pages are on disk, whatever the next flush says. Every process
// that has the store open learns of it; the next Open writes what is in doubt
// again.
func (s *Engine) Poison(cause error) error {
	s.Poisoned.Store(true)
	var known *journal.WriteError // the journal has reported the others
	if !errors.As(cause, &known) && !errors.Is(cause, journal.ErrPoisoned) {
		s.Log.Poison()
	}
	e := s.ErrorOf(cause)
	if e.Code != fault.StorePoisoned && e.Context["poisoned"] == nil {
		if e.Hint != "" {
			e.Hint += "; "
		}
		e.Hint += fault.StorePoisoned.Class().Hint
	}
	return e.With("poisoned", true)
}

// lostNames poisons the store after a failed flush of a directory, of the workspace or of the
// state: it may have lost what other processes made there. If this process is using the
// journal, the others learn of it at the end of the call.
func (s *Engine) lostNames(err error) {
	if s.Log == nil {
		s.unflushed = cmp.Or(s.unflushed, err)
		return
	}
	s.Poisoned.Store(true)
	if !s.Log.TryPoison() {
		s.poisonDue.Store(true)
	}
}

// tellPoison ends what lostNames began.
func (s *Engine) tellPoison() {
	if s.poisonDue.Load() && s.poisonDue.Swap(false) {
		s.Log.Poison()
	}
}

// certify fails if a flush of any process has failed: then no later one proves anything.
func (s *Engine) certify() error {
	if s.Poisoned.Load() || s.Log.Failed() {
		return journal.ErrPoisoned
	}
	return nil
}

// flushedHistory judges a flush in history: what other processes made is lost with a
// failed one.
func (s *Engine) flushedHistory(err error) error {
	if err != nil {
		return s.Poison(err)
	}
	return s.certify()
}

// markPoisoned adds a line to the mark: rows from first on are in doubt. It is
// enough that the line can be read: a power cut takes the pages that are in
// doubt as well.
func (s *Engine) markPoisoned(first uint64) {
	writers, err := lock.Writers(s.Disk.locks)
	if err != nil || !slices.Contains(writers, s.Writer) {
		writers = append(writers, s.Writer)
	}
	line, err := json.Marshal(doubt{FirstSeq: first, Writers: writers})
	if err != nil {
		return
	}
	if s.addMark(append(line, '\n')) == nil {
		return
	}
	s.Reserve.mu.Lock() // most often there is no space
	s.giveUp()
	s.Reserve.mu.Unlock()
	s.addMark(append(line, '\n'))
}

func (s *Engine) addMark(line []byte) error {
	f, err := s.Disk.State.Open(poisonMark, fsx.Append|fsx.Create, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err = f.Append(line); err == nil {
		f.Sync()
		s.Disk.State.Sync()
	}
	return err
}

// marked reports whether a line was added to the mark since it was read.
func (s *Engine) marked() bool {
	data, err := durable.ReadFile(s.Disk.State, poisonMark, markLimit)
	return err == nil && !bytes.Equal(data, s.doubt.read)
}

// lostRows reads the mark, for the journal, and returns the first row that is in
// doubt. Of a line that cannot be read, everything is.
func (s *Engine) lostRows() (uint64, error) {
	data, err := durable.ReadFile(s.Disk.State, poisonMark, markLimit)
	if IsAbsent(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	s.doubt = doubt{read: data, FirstSeq: ^uint64(0)}
	for line := range bytes.Lines(data) {
		var d doubt
		if json.Unmarshal(line, &d) != nil || d.FirstSeq == 0 {
			if d.Writers, err = lock.Writers(s.Disk.locks); err != nil {
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
func (s *Engine) inDoubt(writer string) bool {
	return writer != s.Writer && slices.Contains(s.doubt.Writers, writer)
}

// clearPoison removes the mark when everything it names was put in order, and
// nothing was added to it meanwhile.
func (s *Engine) clearPoison() error {
	if !s.Report.Poisoned || s.doubt.left {
		return nil
	}
	return s.Log.Alone(context.Background(), func() error {
		data, err := durable.ReadFile(s.Disk.State, poisonMark, markLimit)
		if IsAbsent(err) || err == nil && !bytes.Equal(data, s.doubt.read) {
			return nil
		}
		if err == nil {
			err = s.Disk.State.Remove(poisonMark)
		}
		if err != nil {
			return err
		}
		return s.Disk.State.Sync()
	})
}
