// Guard shows a host with its own rules for every write. It asks before
// anything outside docs/ is changed, and before anything is replaced anywhere.
// A compiler checks a file before it is published. An agent that repeats itself
// is stopped until a human begins a new task. One observer sees all calls.
//
// Run it with go run ./examples/guard
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/examples/internal/demo"
	"github.com/resilientwrite/resilientwrite/hook"
)

func main() { demo.Main("guard", run) }

// host is the program that runs the agent: it answers for the user and counts
// how calls end.
type host struct {
	out   io.Writer
	ended map[rw.Status]int
}

// answer plays the user, who allows everything in cmd/ but not go.mod.
func (h *host) answer(_ context.Context, op hook.Call, question string) (hook.Answer, error) {
	a := hook.Answer{Allow: !strings.Contains(question, "go.mod"), Always: strings.Contains(question, "cmd/")}
	fmt.Fprintf(h.out, "  asked     %s — %s\n", question, map[hook.Answer]string{
		{}: "no", {Allow: true}: "yes", {Allow: true, Always: true}: "yes, always",
	}[a])
	return a, nil
}

// Observe makes the host itself a hook.
func (h *host) Observe(_ context.Context, _ hook.Call, r rw.Receipt, _ error) { h.ended[r.Status]++ }

func run(out io.Writer, dir string) error {
	ctx := context.Background()
	h := &host{out, map[rw.Status]int{}}
	circles := &hook.LoopGuard{Repeats: 2}
	hooks := hook.Hooks{
		Authorize: []hook.Authorizer{hook.PathRules{Deny: []string{"deploy/**"}}, hook.Permission{AutoApprove: []string{"docs/**"}}, circles},
		Observe:   []hook.Observer{circles, h},
	}
	_, err := exec.LookPath("gofmt")
	compiler := err == nil
	if compiler {
		hooks.Verify = []hook.Verifier{hook.CommandOracle{Match: []string{"**/*.go"}, Command: []string{"gofmt", "-e", "{}"}}}
	}
	store, err := rw.Open(ctx, dir, &rw.Options{Caller: "agent", Hooks: hooks, Ask: h.answer})
	if err != nil {
		return err
	}
	for _, part := range []struct {
		title string
		play  func(context.Context, agent) error
	}{{"permission", permission}, {"compiler", check}, {"loop", loop}} {
		fmt.Fprintln(out, part.title)
		if part.title == "compiler" && !compiler {
			fmt.Fprintln(out, "  skipped   there is no gofmt here")
			continue
		}
		if err := part.play(ctx, agent{out, store}); err != nil {
			return err
		}
	}
	fmt.Fprintf(out, "seen by the host: %d succeeded, %d refused\n", h.ended[rw.StatusSucceeded], h.ended[rw.StatusRefused])
	return store.Close(ctx)
}

// agent writes files and prints the outcome.
type agent struct {
	out   io.Writer
	store *rw.Store
}

// write reports whether the write happened. A refusal by a hook is expected;
// every other error is returned.
func (a agent) write(ctx context.Context, path, content string, mode rw.WriteMode) (bool, error) {
	done, err := a.store.SafeWrite(ctx, rw.SafeWriteRequest{Path: path, Content: []byte(content), Mode: mode})
	if err == nil {
		fmt.Fprintf(a.out, "  written   %s  %d bytes\n", done.Path, done.Bytes)
		return true, nil
	}
	if !errors.Is(err, rw.ErrDenied) && !errors.Is(err, rw.ErrVerifyFailed) {
		return false, err
	}
	e := rw.AsError("agent", err)
	fmt.Fprintf(a.out, "  refused   %v, suggested action %s\n", e, e.Action)
	fmt.Fprintf(a.out, "            hint: %s\n", e.Hint)
	if lines, _ := e.Context["output"].(string); lines != "" {
		fmt.Fprintf(a.out, "            | %s\n", strings.ReplaceAll(strings.TrimSpace(lines), "\n", "\n            | "))
	}
	return false, nil
}

// permission writes inside docs/ and outside.
func permission(ctx context.Context, a agent) error {
	for _, w := range []struct {
		path, content string
		mode          rw.WriteMode
	}{
		{"docs/plan.md", "# Plan\n", rw.ModeCreate},
		{"docs/plan.md", "1. write\n", rw.ModeAppend},
		{"docs/plan.md", "# Plan B\n", rw.ModeOverwrite}, // replaces something
		{"cmd/log.txt", "begun\n", rw.ModeAppend},
		{"cmd/log.txt", "going on\n", rw.ModeAppend}, // "always" covers this
		{"go.mod", "module evil\n", rw.ModeCreate},
		{"deploy/prod.yaml", "replicas: 0\n", rw.ModeCreate},
	} {
		if _, err := a.write(ctx, w.path, w.content, w.mode); err != nil {
			return err
		}
	}
	return nil
}

// check writes a file that does not compile, and then one that does.
func check(ctx context.Context, a agent) error {
	for _, body := range []string{"func main() {\n", "func main() {}\n"} {
		if _, err := a.write(ctx, "cmd/main.go", "package main\n\n"+body, rw.ModeCreate); err != nil {
			return err
		}
	}
	return nil
}

// loop alternates between two contents until it is stopped.
func loop(ctx context.Context, a agent) error {
	for i := range 10 {
		ok, err := a.write(ctx, "cmd/config.txt", []string{"retries: 3\n", "retries: 5\n"}[i%2], rw.ModeOverwrite)
		if err != nil {
			return err
		}
		if ok {
			continue
		}
		if err := a.store.ResetTask(ctx); err != nil {
			return err
		}
		fmt.Fprintln(a.out, "  reset     by a human")
		_, err = a.write(ctx, "cmd/config.txt", "retries: 4\n", rw.ModeOverwrite)
		return err
	}
	return errors.New("the loop was not stopped")
}
