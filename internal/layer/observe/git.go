package observe

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// gitLimit bounds one call of git.
const gitLimit = 10 * time.Second

// GitObject returns the bytes of a git object by the name that its index has, in
// the repository that holds a directory of the workspace. git is called with
// nothing that could run a program: cat-file knows no filters without being
// asked for them, the configuration of monitors and hooks is overruled, and
// nothing is fetched.
func (l *Layer) GitObject(ctx context.Context, dir, object string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, gitLimit)
	defer cancel()
	at := l.RealRoot
	for name := range strings.SplitSeq(dir, "/") { // the nearest directory that is there
		next := filepath.Join(at, name)
		if st, err := os.Lstat(next); err != nil || !st.IsDir() {
			break
		}
		at = next
	}
	cmd := exec.CommandContext(ctx, "git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", "core.hooksPath="+os.DevNull,
		"-c", "protocol.allow=never", "cat-file", "blob", object)
	cmd.Dir = at
	cmd.Env = gitEnvironment()
	var out bytes.Buffer
	cmd.Stdout = &capped{&out, MaxFile}
	err := cmd.Run()
	return out.Bytes(), err
}

// gitEnvironment is the environment without what directs git elsewhere.
func gitEnvironment() (env []string) {
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "GIT_") {
			env = append(env, v)
		}
	}
	return append(env, "GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0", "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")
}

// capped fails a writer that gets too much.
type capped struct {
	to   *bytes.Buffer
	left int
}

func (c *capped) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left < 0 {
		return 0, errors.New("the object is too large")
	}
	return c.to.Write(p)
}
