//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// onFile are the system calls that change a file by its descriptor, which is
// their first argument. Those on files outside the workspace are allowed.
var onFile = []uint32{
	unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_WRITEV, unix.SYS_PWRITEV, unix.SYS_PWRITEV2,
	unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_SYNCFS, unix.SYS_FTRUNCATE, unix.SYS_FALLOCATE,
	unix.SYS_FCHMOD, unix.SYS_FCHOWN, unix.SYS_FSETXATTR, unix.SYS_COPY_FILE_RANGE,
}

// onPath are those that change names, and requests of several flushes at once.
var onPath = append([]uint32{
	unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT, unix.SYS_UNLINKAT, unix.SYS_MKDIRAT,
	unix.SYS_SYMLINKAT, unix.SYS_FCHMODAT, unix.SYS_FCHOWNAT, unix.SYS_IO_SUBMIT,
}, olderCalls...)

func watchedCalls() []uint32 { return slices.Concat(onFile, onPath) }

// watcher decides about the system calls of one process.
type watcher struct {
	fd  int
	dir string

	mu     sync.Mutex
	count  int                  // calls since counting began
	killAt int                  // the call before which the process is killed; -1: never
	fail   map[int32]unix.Errno // error numbers with which these calls fail
	hits   int                  // calls that were made to fail
	kill   func()
	active bool
}

// The arguments of SECCOMP_IOCTL_NOTIF_RECV and _SEND: struct seccomp_notif and
// struct seccomp_notif_resp of <linux/seccomp.h>.
type notice struct {
	ID    uint64
	PID   uint32
	Flags uint32
	NR    int32
	Arch  uint32
	IP    uint64
	Args  [6]uint64
}

type verdict struct {
	ID    uint64
	Val   int64
	Error int32
	Flags uint32
}

// receive receives the listener of a process from a socket.
func receive(sock int) (int, error) {
	b, oob := make([]byte, 1), make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(sock, b, oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return 0, err
	}
	msgs, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(msgs) != 1 {
		return 0, fmt.Errorf("no listener came: %w", errors.Join(err, os.ErrInvalid))
	}
	fds, err := unix.ParseUnixRights(&msgs[0])
	if err != nil || len(fds) != 1 {
		return 0, fmt.Errorf("no listener came: %w", errors.Join(err, os.ErrInvalid))
	}
	return fds[0], nil
}

// loop answers notifications until the process has ended.
func (w *watcher) loop() {
	defer unix.Close(w.fd)
	for {
		fds := []unix.PollFd{{Fd: int32(w.fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil && err != unix.EINTR {
			return
		}
		if fds[0].Revents&unix.POLLIN == 0 {
			if fds[0].Revents&(unix.POLLHUP|unix.POLLERR|unix.POLLNVAL) != 0 {
				return
			}
			continue
		}
		var n notice
		if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(w.fd), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&n))); errno != 0 {
			continue // the caller died meanwhile
		}
		v, ended := w.judge(n)
		if ended {
			continue // its caller never continues
		}
		unix.Syscall(unix.SYS_IOCTL, uintptr(w.fd), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&v)))
	}
}

// judge allows a call, fails it, or ends the process before it.
func (w *watcher) judge(n notice) (v verdict, ended bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	v = verdict{ID: n.ID, Flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	if !w.active || !w.ours(n) {
		return v, false
	}
	if errno, ok := w.fail[n.NR]; ok {
		w.hits++
		v.Flags, v.Error = 0, -int32(errno)
		return v, false
	}
	w.count++
	if w.killAt >= 0 && w.count > w.killAt {
		w.kill()
		return v, true
	}
	return v, false
}

// ours reports whether a call concerns the workspace.
func (w *watcher) ours(n notice) bool {
	if !slices.Contains(onFile, uint32(n.NR)) {
		return true
	}
	name, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", n.PID, n.Args[0]))
	return err == nil && strings.HasPrefix(name, w.dir)
}

// observe starts counting; the process is killed before call killAt.
func (w *watcher) observe(killAt int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active, w.count, w.killAt, w.fail, w.hits = true, 0, killAt, nil, 0
}

// refuse makes calls fail with an errno until rest.
func (w *watcher) refuse(calls []uint32, errno unix.Errno) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active, w.killAt, w.hits, w.fail = true, -1, 0, map[int32]unix.Errno{}
	for _, nr := range calls {
		w.fail[int32(nr)] = errno
	}
}

// rest allows all calls and returns what was counted.
func (w *watcher) rest() (count, hits int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.active = false
	return w.count, w.hits
}
