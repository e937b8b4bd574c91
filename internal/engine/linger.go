package engine

import (
	"context"
	"slices"
	"sync"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// A previous version that another program has open for writing may still change
// after it was replaced in the workspace. It was copied into history; its file
// stays in the slot while it is open, and is checked again before it is removed.
// If a process leaves such files, the next Open takes them over with its slots.
type lingering struct {
	mu   sync.Mutex
	list []lingerer
}

// lingerer is such a file, with its state when it was copied.
type lingerer struct {
	spent
	size, mtime int64
}

// linger keeps the slot if another program may still write to its file, or has
// written to it since it was copied.
func (s *Engine) linger(x spent, f fsx.File, was fsx.Stat) bool {
	if !f.InUse() {
		now, err := f.Stat()
		if err == nil && now.Size == was.Size && now.Mtime == was.Mtime {
			return false
		}
	}
	x.held = nil // its owner closes it
	s.lingering.add(lingerer{x, was.Size, was.Mtime})
	return true
}

func (l *lingering) add(x lingerer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.list = append(l.list, x)
}

// lookAgain checks the first n files that linger, or all when n is negative.
// Those that are still open stay.
func (s *Engine) lookAgain(n int) {
	l := &s.lingering
	l.mu.Lock()
	if n < 0 || n > len(l.list) {
		n = len(l.list)
	}
	list := slices.Clone(l.list[:n])
	l.list = slices.Delete(l.list, 0, n)
	l.mu.Unlock()
	for _, x := range list {
		s.lookAgainAt(x)
	}
}

func (s *Engine) lookAgainAt(x lingerer) {
	f, err := x.slot.Dir.Open(x.slot.Name, fsx.Read, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if f.InUse() && s.slotDirs.has(x.slot.Dir) { // nothing would lead to a slot elsewhere
		s.lingering.add(x)
		return
	}
	now, err := f.Stat()
	if err == nil && now.Size == x.size && now.Mtime == x.mtime {
		x.slot.Remove()
		return
	}
	s.keepChanged(x.spent, f)
}

// keepChanged makes a version of what another program wrote to a file after it
// was replaced, and writes a row that records it.
func (s *Engine) keepChanged(x spent, f fsx.File) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	d, _, err := HashFile(f, st.Size)
	if err != nil {
		return err
	}
	x.check, x.was, x.had = true, fsx.Stat{}, false
	if err := s.keep(x); err != nil || x.seq == 0 || d.Hex() == x.old {
		return err
	}
	note := s.RowAbout(journal.KindNote, &journal.Record{Seq: x.seq}, "stranger")
	note.Note = &journal.Note{What: "stranger", Path: x.path, SHA256: d.Hex(), Bytes: st.Size}
	s.WriteRow(WithSpare(context.Background()), note)
	return nil
}
