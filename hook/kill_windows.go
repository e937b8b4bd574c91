package hook

import "os/exec"

// killGroup does nothing: only the command itself is ended, because the processes
// that it started are not known.
func killGroup(*exec.Cmd) {}
