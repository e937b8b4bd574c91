package engine

import (
	"strconv"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// Early versions created the slot of a file on another file system in the
// directory of its target, and a slot of staging/ that referred to it. Recovery
// completes what they left.

const (
	// besidePrefix begins the name of such a slot. The name of the slot of
	// staging/ and the inode follow.
	besidePrefix = ".rw-"
	// besideMark begins the content of the slot of staging/; the path of the
	// target follows.
	besideMark = "resilientwrite: staged beside "
)

// besideInode reads the inode from the end of a name, and besideMarkName the name
// of the slot of staging/.
func besideInode(name string) uint64 {
	ino, _ := strconv.ParseUint(name[strings.LastIndexByte(name, '-')+1:], 36, 64)
	return ino
}

func besideMarkName(name string) string {
	stem, ok := strings.CutPrefix(name, besidePrefix)
	if i := strings.LastIndexByte(stem, '-'); ok && i >= 0 {
		return stem[:i]
	}
	return ""
}

// slotBeside returns the slot that a row of an early version names.
func (s *Engine) slotBeside(m *journal.Mutation) (publish.Slot, func(), error) {
	target, err := s.LocateEntry(m.Identity())
	if err != nil {
		return publish.Slot{}, nil, err
	}
	return publish.Slot{Dir: target.Parent, Name: m.Slot, Ino: besideInode(m.Slot)}, func() { target.Close() }, nil
}

// forgetBeside removes the slot of staging/ once the removal of the slot in the
// target's directory is durable.
func (s *Engine) forgetBeside(slot publish.Slot) error {
	s.FlushCopies()
	if err := s.SyncDir(slot.Dir); err != nil {
		return err
	}
	err := s.Disk.Staging.Remove(besideMarkName(slot.Name))
	if IsAbsent(err) {
		return nil
	}
	return err
}

// sweepBeside removes the slot in a target's directory that a slot of staging/
// names, or keeps the previous version that it holds. Its removal is durable
// before that of the slot that names it.
func (s *Engine) sweepBeside(mark publish.Slot) error {
	data, err := durable.ReadFile(mark.Dir, mark.Name, MetaLimit)
	if err != nil || !strings.HasPrefix(string(data), besideMark) {
		return nil
	}
	target, err := s.LocateEntry(strings.TrimPrefix(string(data), besideMark))
	if err != nil {
		return nil
	}
	defer target.Close()
	names, err := target.Parent.Names()
	if err != nil {
		return nil
	}
	for _, name := range names {
		if !strings.HasPrefix(name, besidePrefix+mark.Name) {
			continue
		}
		slot := publish.Slot{Dir: target.Parent, Name: name, Ino: besideInode(name)}
		if held, err := slot.Holds(); err == nil && held == publish.Other && !strings.HasSuffix(name, publish.Unnamed) {
			s.keep(spent{slot: slot, old: "?", check: true})
			continue
		}
		slot.Remove()
	}
	s.FlushCopies()
	return s.SyncDir(target.Parent)
}
