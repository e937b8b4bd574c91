//go:build !windows

package hook

import (
	"os/exec"
	"syscall"
)

// killGroup makes the end of a command also end the processes that it started.
func killGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
