package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Rights of the command on a file that it may write to.
const (
	fileRights = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	dirRights  = fileRights | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
)

// landlockVersion returns the version of the kernel, 0 for none.
func landlockVersion() int {
	v, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(v)
}

// confine lets this thread, and every process that it starts, write only to the
// paths and below them, and keeps it from typing into a terminal. Those paths that
// are not there are left out. It cannot be undone, and a confined thread mounts
// nothing.
func confine(writable []string) error {
	version := landlockVersion()
	if version == 0 {
		return errors.New("the kernel has no Landlock")
	}
	attr := unix.LandlockRulesetAttr{Access_fs: dirRights}
	size := uintptr(8)
	if version < 2 {
		attr.Access_fs &^= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version < 3 {
		attr.Access_fs &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 6 {
		attr.Scoped, size = unix.LANDLOCK_SCOPE_SIGNAL, unsafe.Sizeof(attr)
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("landlock_create_ruleset: %w", errno)
	}
	defer unix.Close(int(fd))
	for _, path := range writable {
		err := allow(int(fd), path, attr.Access_fs)
		if err != nil && !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.EBADFD) { // that is a pipe, which needs no rule
			return err
		}
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no_new_privs: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("landlock_restrict_self: %w", errno)
	}
	return keepTerminal()
}

// allow adds one path to a ruleset.
func allow(ruleset int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		rights &= fileRights
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("landlock_add_rule: %w", errno)
	}
	return nil
}

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
