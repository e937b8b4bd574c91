package resilientwrite

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"strings"
	"sync"
	"time"
)

// ReadOnly is a hook that refuses every change.
type ReadOnly struct{}

// Authorize refuses.
func (ReadOnly) Authorize(context.Context, Operation) (Decision, error) {
	return Deny("this workspace takes no changes now; ask the user"), nil
}

// PathRules is a hook that decides by path. Globs are those of the policy
// file: ** spans directories, letter case does not count.
type PathRules struct {
	Allow []string // when not empty, only paths that one of them matches may be changed
	Deny  []string // paths that may not be changed; Deny goes before Allow
}

// Authorize decides by the paths of the operation, with and without links.
func (r PathRules) Authorize(_ context.Context, op Operation) (Decision, error) {
	for _, ch := range op.Changes {
		for _, p := range []string{ch.Path, ch.RealPath, ch.From} {
			if p == "" {
				continue
			}
			if matchesAny(r.Deny, p) {
				return Deny("the path " + p + " may not be changed; choose another one or ask the user"), nil
			}
			if len(r.Allow) > 0 && !matchesAny(r.Allow, p) {
				return Deny("only " + strings.Join(r.Allow, ", ") + " may be changed; " + p + " is none of it"), nil
			}
		}
	}
	return Allow(), nil
}

func matchesAny(globs []string, path string) bool {
	for _, g := range globs {
		if matches(g, path) {
			return true
		}
	}
	return false
}

// Permission is a hook that asks the user before anything is changed, except
// where AutoApprove matches. What takes away or replaces something is asked
// for all the same.
type Permission struct {
	AutoApprove []string // globs of paths that need no question
}

// Authorize asks, or lets pass what needs no question.
func (p Permission) Authorize(_ context.Context, op Operation) (Decision, error) {
	if op.DryRun {
		return Allow(), nil
	}
	var paths []string
	for _, ch := range op.Changes {
		if op.Destructive() || !matchesAny(p.AutoApprove, ch.RealPath) || ch.From != "" && !matchesAny(p.AutoApprove, ch.From) {
			paths = append(paths, ch.Op+" "+ch.RealPath)
		}
	}
	if len(paths) == 0 {
		return Allow(), nil
	}
	if len(paths) > 5 {
		paths = append(paths[:5], fmt.Sprintf("and %d more", len(paths)-5))
	}
	return AskUser("may " + op.Verb + " do this: " + strings.Join(paths, ", ") + "?"), nil
}

// Budget is a hook that bounds what one task may do; 0 is no bound. A new task
// begins with [Store.ResetTask].
type Budget struct {
	Bytes    int64 // written
	Writes   int   // files changed
	Failures int   // calls that failed

	mu       sync.Mutex
	bytes    int64
	writes   int
	failures int
}

// Authorize refuses when a bound is reached.
func (b *Budget) Authorize(_ context.Context, op Operation) (Decision, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.Bytes > 0 && b.bytes >= b.Bytes:
		return Deny(fmt.Sprintf("this task has written %d bytes, which is its budget; report to the user", b.bytes)), nil
	case b.Writes > 0 && b.writes+len(op.Changes) > b.Writes:
		return Deny(fmt.Sprintf("this task has changed %d files, its budget is %d; report to the user", b.writes, b.Writes)), nil
	case b.Failures > 0 && b.failures >= b.Failures:
		return Deny(fmt.Sprintf("%d calls of this task have failed, which is its budget; stop and report to the user", b.failures)), nil
	}
	return Allow(), nil
}

// Observe counts.
func (b *Budget) Observe(_ context.Context, op Operation, r Receipt, err error) {
	if op.DryRun {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case err != nil:
		b.failures++
	case r.Status == StatusSucceeded:
		b.bytes += r.Bytes
		b.writes += len(op.Changes)
	}
}

// ResetTask begins a new task.
func (b *Budget) ResetTask() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.bytes, b.writes, b.failures = 0, 0, 0
}

// LoopGuard is a hook that stops a caller who writes in a circle: the same
// file again and again, back and forth between contents it had before.
// Identical calls that fail are stopped by the retry budget of the store.
type LoopGuard struct {
	Repeats int // contents that come back before it refuses; 0 means 6

	mu   sync.Mutex
	past map[string]*circle
}

// circle is the way of one file.
type circle struct {
	seen    map[string]bool
	repeats int
}

// maxGuarded is how many files and contents of a file are remembered.
const maxGuarded = 1000

func (g *LoopGuard) limit() int {
	if g.Repeats > 0 {
		return g.Repeats
	}
	return 6
}

// Authorize refuses a file that goes in a circle.
func (g *LoopGuard) Authorize(_ context.Context, op Operation) (Decision, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, ch := range op.Changes {
		if c := g.past[ch.RealPath]; c != nil && c.repeats >= g.limit() {
			return Deny(fmt.Sprintf("%s has come back %d times to a content it had before; stop changing it, look at what is wrong, and ask the user", ch.RealPath, c.repeats)), nil
		}
	}
	return Allow(), nil
}

// Observe follows the contents of each file.
func (g *LoopGuard) Observe(_ context.Context, op Operation, r Receipt, err error) {
	if op.DryRun || err != nil || len(op.Changes) != 1 || r.Status != StatusSucceeded {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.past == nil || len(g.past) > maxGuarded {
		g.past = map[string]*circle{}
	}
	c := g.past[op.Changes[0].RealPath]
	if c == nil {
		c = &circle{seen: map[string]bool{}}
		g.past[op.Changes[0].RealPath] = c
	}
	if len(c.seen) > maxGuarded {
		c.seen = map[string]bool{}
	}
	if c.seen[r.SHA256] {
		c.repeats++
	}
	c.seen[r.SHA256], c.seen[r.PrevSHA256] = true, true
}

// ResetTask forgets.
func (g *LoopGuard) ResetTask() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.past = nil
}

// CommandOracle is a hook that runs a command before a commit: it sees the
// staged files, and a commit that it does not like is refused with its output.
// The command gets {} replaced by the staged path of each file, once for each
// file; without {} it runs once. It runs in a private directory, with the
// workspace in RW_ROOT, the path in RW_PATH and the staged file in RW_STAGED.
type CommandOracle struct {
	Match   []string      // globs of paths it looks at; empty means all
	Command []string      // program and arguments
	Timeout time.Duration // of one run; 0 means 30 seconds
	Env     []string      // besides the environment of the process and the variables above
}

// maxOracleOutput is how much of a command's output is read, in bytes.
const maxOracleOutput = 64 << 10

// Verify runs the command.
func (o CommandOracle) Verify(ctx context.Context, c Commit) error {
	if len(o.Command) == 0 {
		return errors.New("the oracle has no command")
	}
	perFile := strings.Contains(strings.Join(o.Command, " "), "{}")
	looked := false
	for _, f := range c.Files {
		if f.Staged == "" || len(o.Match) > 0 && !matchesAny(o.Match, f.Path) {
			continue
		}
		if !perFile && looked {
			break
		}
		looked = true
		if err := o.run(ctx, c, f); err != nil {
			return err
		}
	}
	return nil
}

func (o CommandOracle) run(ctx context.Context, c Commit, f StagedFile) error {
	limit := o.Timeout
	if limit <= 0 {
		limit = 30 * time.Second
	}
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	dir, err := os.MkdirTemp("", "oracle")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	// A compiler wants the name of the file, not that of the staged one.
	staged := dir + string(os.PathSeparator) + path.Base(f.Path)
	data, err := os.ReadFile(f.Staged)
	if err == nil {
		err = os.WriteFile(staged, data, 0o600)
	}
	if err != nil {
		return err
	}
	args := make([]string, len(o.Command))
	for i, a := range o.Command {
		args[i] = strings.ReplaceAll(a, "{}", staged)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir, cmd.WaitDelay = dir, time.Second
	cmd.Env = append(append(cmd.Environ(), "RW_ROOT="+c.Root, "RW_PATH="+f.Path, "RW_STAGED="+staged), o.Env...)
	out := &capped{left: maxOracleOutput}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("the check of %s took longer than %v", f.Path, limit)
		}
		return fmt.Errorf("the check of %s failed: %v\n%s", f.Path, err, strings.ReplaceAll(out.String(), dir+string(os.PathSeparator), ""))
	}
	return nil
}

// capped keeps the first bytes of an output.
type capped struct {
	bytes.Buffer
	left int
}

func (c *capped) Write(p []byte) (int, error) {
	n := min(len(p), c.left)
	c.left -= n
	c.Buffer.Write(p[:n])
	return len(p), nil
}
