package sandbox

import (
	"encoding/binary"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// x32 marks the system calls of x86-64 with short pointers, where ioctl(2) has the
// number 514.
const x32 = 0x40000000

// keepTerminal forbids this thread, and every process that it starts, to type into a
// terminal (TIOCSTI), or to paste into a console (TIOCLINUX): the shell of the user
// would run that outside of the view. It needs no_new_privs.
func keepTerminal() error {
	code := typing()
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&prog))); errno != 0 {
		return fmt.Errorf("seccomp: %w", errno)
	}
	return nil
}

// typing is a filter of seccomp(2) that refuses these two requests of ioctl(2). On a
// kernel that runs programs of a second architecture, it knows the number of
// ioctl(2) there too.
func typing() []unix.SockFilter {
	const number, arch = 0, 4 // offsets in struct seccomp_data
	request := uint32(24)     // of the low half of the second argument
	if binary.NativeEndian.Uint16([]byte{0, 1}) == 1 {
		request += 4
	}
	load := func(k uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: k}
	}
	jump := func(k uint32, then, otherwise uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: then, Jf: otherwise}
	}
	end := func(k uint32) unix.SockFilter { return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k} }
	second := map[string]struct{ arch, ioctl uint32 }{
		"amd64": {unix.AUDIT_ARCH_I386, 54}, "386": {unix.AUDIT_ARCH_X86_64, 16},
		"arm64": {unix.AUDIT_ARCH_ARM, 54}, "arm": {unix.AUDIT_ARCH_AARCH64, 29},
	}[runtime.GOARCH]
	return []unix.SockFilter{
		load(arch),
		jump(second.arch, 0, 2),
		load(number),
		jump(second.ioctl, 4, 3),
		load(number),
		jump(unix.SYS_IOCTL, 2, 0),
		jump(x32|514, 1, 0),
		end(unix.SECCOMP_RET_ALLOW),
		load(request),
		jump(unix.TIOCSTI, 2, 0),
		jump(unix.TIOCLINUX, 1, 0),
		end(unix.SECCOMP_RET_ALLOW),
		end(unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)),
	}
}
