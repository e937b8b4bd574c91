//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// inRoot returns a command that runs in another root directory, as another
// user.
func inRoot(dir string, user uint32, name string, args ...string) *exec.Cmd {
	cmd := &exec.Cmd{Path: name, Args: append([]string{name}, args...)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir, Credential: &syscall.Credential{Uid: user, Gid: user}}
	return cmd
}
