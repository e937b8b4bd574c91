package views

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
	"github.com/resilientwrite/resilientwrite/internal/place"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/sandbox"
)

const (
	maxArgv   = 1000
	maxOutput = 64 << 10 // bytes of each stream that are kept
)

// Command is a command, and how it ended.
type Command struct {
	sandbox.Job
	Timeout time.Duration // 0: no limit

	View     *sandbox.View // nil if it was not started
	Code     int
	TimedOut bool
	Cut      bool      // the beginning of the output is left out
	Output   [2][]byte // the end of what Job has no writer for
}

// Line returns the command in shell syntax.
func (c *Command) Line() string {
	words := make([]string, len(c.Argv))
	for i, w := range c.Argv {
		if words[i] = w; w == "" || strings.ContainsAny(w, " \t\r\n'\"\\$`&|;<>()*?[]{}#~!") {
			words[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
	}
	return strings.Join(words, " ")
}

// Check refuses arguments that no command has.
func (c *Command) Check(e *engine.Engine) *fault.Fault {
	bad := func(argument, format string, a ...any) *fault.Fault {
		return fault.New(fault.InvalidArgument).With("argument", argument).Hintf(format, a...)
	}
	switch {
	case len(c.Argv) == 0 || c.Argv[0] == "" || len(c.Argv) > maxArgv:
		return bad("argv", "give the command and its arguments, at most %d", maxArgv)
	case slices.ContainsFunc(c.Argv, func(a string) bool { return strings.ContainsRune(a, 0) }):
		return bad("argv", "arguments cannot hold NUL bytes")
	case c.Timeout < 0:
		return bad("timeout_seconds", "timeout_seconds cannot be negative")
	}
	if c.Dir != "" {
		dir, _, err := relpath.Clean(c.Dir, e.Tree.Rules)
		if err != nil && c.Dir != "." {
			return e.ErrorOf(err).With("argument", "dir")
		}
		c.Dir = filepath.FromSlash(dir)
	}
	return nil
}

// Run runs the command over a view of the workspace as scan finds it. allow is
// exec.allow_write of the policy.
func (c *Command) Run(ctx context.Context, e *engine.Engine, allow []string, scan func() (*observe.Index, error)) (*observe.Index, error) {
	if err := c.prepare(e, allow); err != nil {
		return nil, err
	}
	start, err := scan()
	if err != nil {
		return nil, err
	}
	for _, dir := range start.Repositories() {
		c.Closed = append(c.Closed, filepath.Join(c.Root, filepath.FromSlash(dir), ".git"))
	}
	limited := ctx
	if c.Timeout > 0 {
		var cancel func()
		limited, cancel = context.WithTimeout(ctx, c.Timeout)
		defer cancel()
	}
	outs := [2]tail{}
	if c.Stdout == nil {
		c.Stdout = &outs[0]
	}
	if c.Stderr == nil {
		c.Stderr = &outs[1]
	}
	view, exit, err := sandbox.Run(limited, c.Job)
	c.View, c.Code = view, exit.Code
	c.Output, c.Cut = [2][]byte{outs[0].data, outs[1].data}, outs[0].cut || outs[1].cut
	var none *sandbox.Unavailable
	switch {
	case errors.As(err, &none):
		return nil, fault.New(fault.NoIsolation).With("tried", none.Tried).
			Hintf("nothing here isolates the command, so it was not started (%s); allow user namespaces and overlayfs, or pass copy for a workspace of at most 1 GiB", strings.Join(none.Tried, "; "))
	case ctx.Err() != nil:
		return nil, fault.New(fault.Canceled).Because(ctx.Err()).Hintf("the command was ended, and its changes were thrown away")
	case limited.Err() != nil:
		c.TimedOut, c.Code = true, cmp.Or(c.Code, 128+9)
		return start, nil
	case exit.Error != "":
		return nil, fault.New(fault.InvalidArgument).With("argument", "argv").Hintf("the command could not be started: %s", exit.Error)
	}
	return start, err
}

// prepare fills in the paths to which the command may and may not write.
func (c *Command) prepare(e *engine.Engine, allow []string) (err error) {
	c.Root = e.RealRoot
	if c.Base == "" {
		home := place.StateHome()
		if home == "" {
			return fault.New(fault.NoIsolation).Hintf("there is no home directory for the view; set XDG_STATE_HOME")
		}
		c.Base = filepath.Join(home, "resilientwrite", "exec")
	}
	if c.Env == nil {
		c.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "RW_") })
	}
	state, err := filepath.EvalSymlinks(e.StatePlace)
	if err != nil {
		return err
	}
	for _, p := range []string{filepath.Join(c.Root, ".git"), state} {
		st, err := os.Lstat(p)
		if err != nil && !engine.IsAbsent(err) {
			return e.ErrorOf(err)
		}
		if err == nil && st.Mode()&os.ModeSymlink == 0 && relpath.Contains(c.Root, p) {
			c.Closed = append(c.Closed, p)
		}
	}
	if len(c.Closed) == 2 && relpath.Contains(c.Closed[0], c.Closed[1]) {
		c.Closed = c.Closed[:1] // the state in .git is closed with that
	}
	for _, path := range e.SlotDirs() {
		c.Closed = append(c.Closed, filepath.Join(c.Root, filepath.FromSlash(path)))
	}
	c.Writable, err = sandbox.Writable(allow, []string{c.Root, state, c.Base})
	if err != nil {
		return fault.New(fault.BadPolicy).With("problem", "exec.allow_write").Hintf("exec.allow_write of the policy: %s", err)
	}
	return nil
}

// tail keeps the end of what is written to it.
type tail struct {
	data []byte
	cut  bool
}

func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if over := len(t.data) - maxOutput; over > 0 {
		t.data, t.cut = append(t.data[:0], t.data[over:]...), true
	}
	return len(p), nil
}
