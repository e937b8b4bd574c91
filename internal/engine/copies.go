package engine

import (
	"io"
	"sync"

	"github.com/resilientwrite/resilientwrite/internal/blob"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// A file that leaves the workspace on another file system than that of history is
// copied into history. Readers find the copy at once. Copies are flushed in
// batches, after the reply; until then the version is durable in its slot, where
// recovery finds it.
type copies struct {
	flush sync.Mutex // held by the one that flushes
	mu    sync.Mutex
	list  []copied
}

type copied struct {
	lingerer
	kind  fsx.Kind
	nlink uint64
	to    *blob.Draft
}

func (x *copies) any() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.list) > 0
}

// maxCopies is how many copies wait for their flush at most. Each holds a file
// descriptor.
const maxCopies = 64

func (x *copies) many(descriptors int) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.list) >= min(maxCopies, descriptors/8)
}

// copyAway is keep from another file system. The lock of history is held.
func (s *Engine) copyAway(x spent, f fsx.File, st fsx.Stat, sha string) error {
	to, err := s.History.Copy(io.NewSectionReader(f, 0, st.Size), st.Size, sha)
	if err != nil {
		return err
	}
	s.countKept(x, st.Size, sha)
	x.held = nil // its owner closes it
	s.copies.mu.Lock()
	s.copies.list = append(s.copies.list, copied{lingerer{spent: x, size: st.Size, mtime: st.Mtime}, st.Kind, st.Nlink, to})
	s.copies.mu.Unlock()
	s.Heads.soon(false)
	return nil
}

// FlushCopies makes the waiting copies durable, and empties their slots. If that fails the
// slots stay, and the next Open makes the copies again.
func (s *Engine) FlushCopies() error {
	s.copies.flush.Lock()
	defer s.copies.flush.Unlock()
	s.copies.mu.Lock()
	list := s.copies.list
	s.copies.list = nil
	s.copies.mu.Unlock()
	if len(list) == 0 || s.Poisoned.Load() {
		closeCopies(list)
		return nil
	}
	made := make([]*blob.Draft, len(list))
	for i, x := range list {
		made[i] = x.to
	}
	err := s.flushObjects(made)
	if err == nil {
		err = s.syncObjects(made)
	}
	closeCopies(list)
	if err != nil {
		return err
	}
	for _, x := range list {
		if x.kind == fsx.Regular && x.nlink == 1 {
			s.lookAgainAt(x.lingerer)
		} else {
			s.removeSlot(x.slot)
		}
	}
	return nil
}

func closeCopies(list []copied) {
	for _, x := range list {
		x.to.File.Close()
	}
}

// close drops the copies that are still waiting.
func (x *copies) close() {
	x.mu.Lock()
	defer x.mu.Unlock()
	closeCopies(x.list)
	x.list = nil
}
