//go:build linux

package main

import "golang.org/x/sys/unix"

// olderCalls are system calls that newer architectures do not have.
var olderCalls = []uint32{unix.SYS_RENAME, unix.SYS_LINK, unix.SYS_UNLINK, unix.SYS_RMDIR, unix.SYS_MKDIR, unix.SYS_CREAT, unix.SYS_TRUNCATE, unix.SYS_CHMOD}
