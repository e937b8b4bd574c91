// Package gitcmd runs git so that neither the environment nor the configuration of a
// repository can redirect it or make it run programs.
package gitcmd

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"time"
)

// New is a call of git in a directory. The command itself must not be one that
// applies filters.
func New(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", append([]string{"--no-optional-locks", "-c", "core.fsmonitor=false",
		"-c", "core.hooksPath=" + os.DevNull, "-c", "protocol.allow=never"}, args...)...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, environment(), time.Second
	return cmd
}

// environment is the one of the process without what directs git elsewhere.
func environment() (env []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GIT_") {
			env = append(env, v)
		}
	}
	return append(env, "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "GIT_NO_REPLACE_OBJECTS=1", "LC_ALL=C")
}
