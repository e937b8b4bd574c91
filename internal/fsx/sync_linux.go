package fsx

import (
	"io/fs"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// SyncEach hands all flushes to the kernel in one call (io_submit(2) with
// IOCB_CMD_FSYNC, each the same as an fsync(2)). The kernel begins them all
// before it waits for any, which is what lets them share a commit of the file
// system. Goroutines that each call fsync do not come as close together: one
// that waits in the kernel keeps a processor of the Go scheduler until that
// notices, so about as many begin at a time as there are processors.
func (d *dir) SyncEach(list []Syncer) ([]error, error) {
	all := make([]syncing, 0, len(list))
	for _, x := range list {
		h := handleOf(x)
		if h == nil {
			return nil, unsupported("synceach", ".", unix.EINVAL)
		}
		all = append(all, syncing{fd: h.fd(), name: h.name})
	}
	errs := make([]error, len(all))
	if len(all) == 0 {
		return errs, nil
	}
	q, err := queues.take()
	if err != nil {
		return nil, unsupported("synceach", ".", err)
	}
	begun, err := q.run(all)
	if err != nil {
		return nil, bare("synceach", ".", err) // it is unknown which of its flushes are in progress, so the queue is not used again
	}
	queues.giveBack(q)
	runtime.KeepAlive(list)
	if begun == 0 {
		return nil, unsupported("synceach", ".", unix.ENOSYS)
	}
	for i := range all {
		if all[i].errno != 0 {
			errs[i] = &fs.PathError{Op: "sync", Path: all[i].name, Err: all[i].errno}
		}
	}
	return errs, nil
}

// handleOf returns the descriptor of a file or directory of this package.
func handleOf(x Syncer) *handle {
	switch x := x.(type) {
	case *file:
		return &x.handle
	case *dir:
		return &x.handle
	}
	return nil
}

// syncing is one flush of many.
type syncing struct {
	fd    int
	name  string
	errno unix.Errno
}

// syncQueue is a context of the kernel's asynchronous input and output.
type syncQueue uintptr

const (
	queueDepth = 256 // flushes that one queue takes at a time
	maxQueues  = 4   // of this process; the system has room for a limited number
)

// queues are those of this process. They are kept for its life, because the
// kernel takes tens of milliseconds to take one down.
var queues queuePool

type queuePool struct {
	mu   sync.Mutex
	free []syncQueue
	made int
}

// take lends a queue. It fails where the kernel has none to give, and when all
// are in use.
func (p *queuePool) take() (syncQueue, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		q := p.free[n-1]
		p.free = p.free[:n-1]
		return q, nil
	}
	if p.made == maxQueues {
		return 0, unix.EAGAIN
	}
	var q syncQueue
	if _, _, errno := unix.Syscall(unix.SYS_IO_SETUP, queueDepth, uintptr(unsafe.Pointer(&q)), 0); errno != 0 {
		return 0, errno
	}
	p.made++
	return q, nil
}

func (p *queuePool) giveBack(q syncQueue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, q)
}

// controlBlock and event are struct iocb and struct io_event of
// <linux/aio_abi.h>. The fields between data and opcode stay zero; their order
// depends on the machine.
type controlBlock struct {
	data   uint64
	_      [8]byte
	opcode uint16
	_      int16
	fd     uint32
	_      [40]byte
}

type event struct {
	data, block uint64
	result      int64
	_           int64
}

const opFsync = 2 // IOCB_CMD_FSYNC

// run makes all flushes and records the result of each. It returns how many the kernel
// accepted; the others were made one by one, unless it accepted none. After an error,
// flushes are in progress whose state is unknown.
func (q syncQueue) run(all []syncing) (begun int, err error) {
	for i := 0; i < len(all); {
		part := all[i:min(i+queueDepth, len(all))]
		n := q.submit(part)
		if n == 0 {
			if begun == 0 {
				return 0, nil
			}
			n = 1
			all[i].errno = errnoOf(retry(func() error { return unix.Fsync(all[i].fd) }))
		} else if err := q.wait(part[:n]); err != nil {
			return begun, err
		} else {
			begun += n
		}
		i += n
	}
	return begun, nil
}

// submit begins as many flushes as the kernel takes, from the first on.
func (q syncQueue) submit(part []syncing) int {
	blocks := make([]controlBlock, len(part))
	list := make([]*controlBlock, len(part))
	for i := range part {
		blocks[i] = controlBlock{data: uint64(i), opcode: opFsync, fd: uint32(part[i].fd)}
		list[i] = &blocks[i]
	}
	n, _, errno := unix.Syscall(unix.SYS_IO_SUBMIT, uintptr(q), uintptr(len(list)), uintptr(unsafe.Pointer(&list[0])))
	runtime.KeepAlive(blocks)
	if errno != 0 {
		return 0
	}
	return int(n)
}

// wait returns when all of part are done.
func (q syncQueue) wait(part []syncing) error {
	events := make([]event, len(part))
	for left := len(part); left > 0; {
		n, _, errno := unix.Syscall6(unix.SYS_IO_GETEVENTS, uintptr(q), uintptr(left), uintptr(left), uintptr(unsafe.Pointer(&events[0])), 0, 0)
		if errno == unix.EINTR {
			continue
		}
		if errno != 0 {
			return errno
		}
		for _, e := range events[:n] {
			if e.data >= uint64(len(part)) {
				return unix.EIO
			}
			if e.result < 0 {
				part[e.data].errno = unix.Errno(-e.result)
			}
		}
		left -= int(n)
	}
	return nil
}

func errnoOf(err error) unix.Errno {
	if err == nil {
		return 0
	}
	if n, ok := err.(unix.Errno); ok {
		return n
	}
	return unix.EIO
}
