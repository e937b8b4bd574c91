//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/resilientwrite/resilientwrite/internal/durable"
)

// bare makes the system calls that the protocol of the engine cannot omit, and does
// nothing else: no gate, no hashes, no locks, no version of what was replaced. It
// shows which part of a ratio is the price of the protocol.
//
//	openat(slot)  write  fsync  pwrite(journal)  fdatasync(journal)
//	renameat2(slot, name, RENAME_EXCHANGE)  fsync(directory)  unlinkat(slot)
//
// At the level journal the directory is flushed after the next slot instead, because
// every writer of the tables rewrites one file.
type bare struct {
	dir, slots, journal int
	flushAfter          bool // the directory, before the write returns

	rows   atomic.Int64 // written bytes of the journal
	groups durable.Shared

	mu   sync.Mutex
	made int
	free []string
}

const (
	rowBytes     = 700 // of the row of a write of one file
	journalBytes = 4 << 20
	slotSet      = 64
)

func (c cell) bare(flushAfter bool) starter {
	return func(dir string) (func(w, i int) error, func() error, error) {
		b := &bare{flushAfter: flushAfter}
		if err := b.open(dir); err != nil {
			return nil, nil, err
		}
		data := c.texts()
		return func(w, i int) error { return b.replace(name(w), data(w, i)) }, b.close, nil
	}
}

func (b *bare) open(dir string) (err error) {
	slots, journal := filepath.Join(dir, "slots"), filepath.Join(dir, "journal")
	if err = os.Mkdir(slots, 0o700); err == nil {
		err = os.WriteFile(journal, make([]byte, journalBytes), 0o600)
	}
	if err == nil {
		b.dir, err = unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	}
	if err == nil {
		b.slots, err = unix.Open(slots, unix.O_RDONLY|unix.O_DIRECTORY, 0)
	}
	if err == nil {
		b.journal, err = unix.Open(journal, unix.O_WRONLY, 0)
	}
	if err == nil {
		err = unix.Fsync(b.journal)
	}
	return err
}

func (b *bare) close() error {
	for _, fd := range []int{b.dir, b.slots, b.journal} {
		if err := unix.Close(fd); err != nil {
			return err
		}
	}
	return nil
}

// slot returns the name of an empty file whose name is durable.
func (b *bare) slot() (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.free) == 0 {
		for range slotSet {
			name := fmt.Sprint(b.made)
			b.made++
			fd, err := unix.Openat(b.slots, name, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY, 0o644)
			if err != nil {
				return "", err
			}
			if err := unix.Close(fd); err != nil {
				return "", err
			}
			b.free = append(b.free, name)
		}
		if err := unix.Fsync(b.slots); err != nil {
			return "", err
		}
	}
	name := b.free[0]
	b.free = b.free[1:]
	return name, nil
}

// record writes a row and flushes it together with those of other writers.
func (b *bare) record() error {
	at := b.rows.Add(rowBytes) - rowBytes
	if _, err := unix.Pwrite(b.journal, make([]byte, rowBytes), at%(journalBytes-rowBytes)); err != nil {
		return err
	}
	return b.groups.Do(func() error { return unix.Fdatasync(b.journal) })
}

func (b *bare) replace(name string, data []byte) error {
	slot, err := b.slot()
	if err != nil {
		return err
	}
	fd, err := unix.Openat(b.slots, slot, unix.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if _, err = unix.Write(fd, data); err == nil {
		err = unix.Fsync(fd)
	}
	if err == nil && !b.flushAfter {
		err = unix.Fsync(b.dir)
	}
	if err == nil {
		err = b.record()
	}
	if err != nil {
		return err
	}
	err = unix.Renameat2(b.slots, slot, b.dir, name, unix.RENAME_EXCHANGE)
	if err == unix.ENOENT {
		return unix.Renameat2(b.slots, slot, b.dir, name, unix.RENAME_NOREPLACE)
	}
	if err == nil && b.flushAfter {
		err = unix.Fsync(b.dir)
	}
	if err == nil {
		err = unix.Unlinkat(b.slots, slot, 0)
	}
	return err
}
