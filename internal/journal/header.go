package journal

import (
	"cmp"
	"context"
	"encoding/binary"
	"hash/crc32"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/lock"
)

// The lock file begins with a header that the live processes share. It is never
// flushed. After a crash it may be old or garbage: then its values are too low, never
// too high, because each field is written after its value is true.
//
//	offset  size  field
//	0       8     magic "rwjhead1"
//	8       8     first seq of the segment that is written to
//	16      8     poison epoch
//	24      4     CRC-32 (IEEE) of the bytes before
//	64      8     highest seq that is known to be on stable storage
//	72      4     CRC-32 of these 8 bytes
const (
	headMagic   = "rwjhead1"
	headSize    = 28
	durableAt   = 64
	durableSize = 12

	// Bytes that are locked. They are after everything that is written.
	lockByte        = 1 << 40
	durableLockByte = lockByte + 1
)

type header struct {
	segment uint64
	epoch   uint64
}

// shared is what one read of the lock file finds.
type shared struct {
	header
	ok        bool   // the header is whole
	durable   uint64 // highest seq known to be on stable storage
	durableOK bool
}

func (l *Log) readShared() (s shared) {
	var b [durableAt + durableSize]byte
	if l.o.Lock == nil {
		return s
	}
	n, _ := l.o.Lock.ReadAt(b[:], 0)
	if n >= headSize && string(b[:8]) == headMagic && crc32.ChecksumIEEE(b[:24]) == binary.LittleEndian.Uint32(b[24:]) {
		s.header, s.ok = header{binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:])}, true
	}
	if n == len(b) && crc32.ChecksumIEEE(b[durableAt:durableAt+8]) == binary.LittleEndian.Uint32(b[durableAt+8:]) {
		s.durable, s.durableOK = binary.LittleEndian.Uint64(b[durableAt:]), true
	}
	return s
}

func (l *Log) readHeader() (header, bool) {
	s := l.readShared()
	return s.header, s.ok
}

// readDurable returns the highest seq known to be on stable storage.
func (l *Log) readDurable() (uint64, bool) {
	s := l.readShared()
	return s.durable, s.durableOK
}

func (l *Log) writeHeader(h header) error {
	var b [headSize]byte
	copy(b[:], headMagic)
	binary.LittleEndian.PutUint64(b[8:], h.segment)
	binary.LittleEndian.PutUint64(b[16:], h.epoch)
	binary.LittleEndian.PutUint32(b[24:], crc32.ChecksumIEEE(b[:24]))
	_, err := l.o.Lock.WriteAt(b[:], 0)
	return err
}

// The lock of the durable number is held for two operations. A process that was stopped with
// it delays the others by raiseWait once, then not again for raiseBusy.
const (
	raiseWait = time.Second
	raiseBusy = 5 * time.Second
)

// raiseDurable notes that every row up to seq is on stable storage.
func (l *Log) raiseDurable(ctx context.Context, seq uint64, force bool) error {
	l.raiseMu.Lock()
	defer l.raiseMu.Unlock()
	wait := min(l.lockWait(), raiseWait)
	if time.Now().Before(l.raiseAt) {
		wait = 0
	}
	unlock, err := l.kernelLock(ctx, durableLockByte, wait)
	if err != nil {
		l.raiseAt = time.Now().Add(raiseBusy)
		return err
	}
	defer unlock()
	now := l.readShared()
	if now.ok && now.epoch != l.epoch { // the flush of another process failed before
		return l.learnPoison()
	}
	if now.durableOK && now.durable >= seq && !force {
		return nil
	}
	var b [durableSize]byte
	binary.LittleEndian.PutUint64(b[:], seq)
	binary.LittleEndian.PutUint32(b[8:], crc32.ChecksumIEEE(b[:8]))
	_, err = l.o.Lock.WriteAt(b[:], durableAt)
	return err
}

func (l *Log) lockWait() time.Duration { return cmp.Or(l.o.LockWait, defaultLockWait) }

// kernelLock takes one byte of the lock file, which dies with the process.
func (l *Log) kernelLock(ctx context.Context, at int64, limit time.Duration) (unlock func(), err error) {
	ok, err := lock.Poll(ctx, l.o.Lock, at, true, time.Now().Add(limit), 2*time.Millisecond)
	if err == nil && !ok {
		err = ErrLocked
	}
	if err != nil {
		return nil, err
	}
	return func() { l.o.Lock.Unlock(at, 1) }, nil
}
