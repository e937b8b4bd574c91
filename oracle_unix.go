//go:build !windows

package resilientwrite

import (
	"os/exec"
	"syscall"
)

// killGroup has the end of a command's time end what it started, too.
func killGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
