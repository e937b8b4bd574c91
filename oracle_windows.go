package resilientwrite

import "os/exec"

// killGroup leaves it at the command itself: what it started is not known.
func killGroup(*exec.Cmd) {}
