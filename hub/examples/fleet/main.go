// Command fleet shows a task that moves from one machine to another: two agents, each with its
// own workspace and process, share a hub in a directory.
//
// The first agent is killed in the middle of its task. The second one takes the task over, with
// the same files and the handoff, and continues. Then the first one is started again and is
// fenced off: what it writes stays in its workspace and is not part of the task.
package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/hub"
)

const task = "translate-docs"

func main() {
	var err error
	if len(os.Args) == 4 {
		err = agent(os.Args[1], os.Args[2], os.Args[3], os.Stdout, os.Stdin)
	} else {
		var dir string
		if dir, err = os.MkdirTemp("", "fleet-"); err == nil {
			err = run(dir, os.Args[0], os.Stdout)
			os.RemoveAll(dir)
		}
	}
	if err != nil {
		log.Fatal(err)
	}
}

// run is the third process: it starts the agents and reads the hub.
func run(dir, program string, out io.Writer) error {
	one, two, shared := filepath.Join(dir, "one"), filepath.Join(dir, "two"), filepath.Join(dir, "hub")
	start := func(name, root string) (*exec.Cmd, *bufio.Scanner, error) {
		cmd := exec.Command(program, name, root, shared)
		cmd.Stderr = os.Stderr
		if _, err := cmd.StdinPipe(); err != nil { // open until the process ends
			return nil, nil, err
		}
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			return nil, nil, err
		}
		return cmd, bufio.NewScanner(pipe), cmd.Start()
	}
	first, said, err := start("first", one)
	if err != nil {
		return err
	}
	for said.Scan() && said.Text() != "first: works" {
		fmt.Fprintln(out, said.Text())
	}
	first.Process.Kill()
	first.Wait()
	fmt.Fprintln(out, "the first agent is killed")
	for _, step := range []struct{ name, root string }{{"second", two}, {"again", one}} {
		cmd, said, err := start(step.name, step.root)
		if err != nil {
			return err
		}
		for said.Scan() {
			fmt.Fprintln(out, said.Text())
		}
		if err := cmd.Wait(); err != nil {
			return err
		}
	}
	return report(shared, out)
}

// agent is one agent in a process of its own.
func agent(name, root, shared string, out io.Writer, in io.Reader) error {
	ctx := context.Background()
	if err := os.MkdirAll(root, 0o755); err != nil {
		return err
	}
	store, err := rw.Open(ctx, root, &rw.Options{Caller: name, StateDir: ".resilient_write"})
	if err != nil {
		return err
	}
	defer store.Close(ctx)
	h, err := hub.Open(ctx, shared, nil)
	if err != nil {
		return err
	}
	defer h.Close()
	s := &hub.Shipper{Hub: h, Store: store, Label: filepath.Base(root)}
	write := func(path, text string) error {
		_, err := store.SafeWrite(ctx, rw.SafeWriteRequest{Path: path, Content: []byte(text), Mode: rw.ModeOverwrite})
		return err
	}
	switch name {
	case "first":
		return begin(ctx, s, root, write, out, in)
	case "second":
		return resume(ctx, s, root, write, out)
	}
	if err := write("install.md", "# Übersetzt vom ersten Agenten\n"); err != nil {
		return err
	}
	_, err = s.Ship(ctx)
	fmt.Fprintln(out, "first, again: its write is in its workspace; the hub says", map[bool]string{true: hub.Fenced}[hub.IsCode(err, hub.Fenced)])
	return nil
}

func begin(ctx context.Context, s *hub.Shipper, root string, write func(path, text string) error, out io.Writer, in io.Reader) error {
	if err := write("readme.md", "# Liesmich\n"); err != nil {
		return err
	}
	_, err := s.Store.HandoffWrite(ctx, handoff.WriteRequest{AutoState: handoff.AutoStateSession, Envelope: handoff.Envelope{
		TaskID: task, Status: handoff.Partial, Agent: "first", Summary: "readme.md is translated", NextSteps: []string{"translate install.md"},
	}})
	if err != nil {
		return err
	}
	p, err := s.Publish(ctx, hub.PublishRequest{Task: task, Root: root})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "first: published %d files, epoch %d\n", p.Published.Files, p.Published.Epoch)
	fmt.Fprintln(out, "first: works")
	_, err = io.ReadAll(in) // until it is killed
	return err
}

func resume(ctx context.Context, s *hub.Shipper, root string, write func(path, text string) error, out io.Writer) error {
	r, err := s.Resume(ctx, hub.ResumeRequest{Task: task})
	if hub.IsCode(err, hub.Leased) {
		fmt.Fprintln(out, "second: the lease has not expired:", hub.Leased)
		r, err = s.Resume(ctx, hub.ResumeRequest{Task: task, Force: true}) // we know that the first one is dead
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "second: resumed %d files, epoch %d; %s; next: %s; drift: %d\n", r.Written, r.Epoch, r.Handoff.Summary, r.Handoff.NextSteps[0], len(r.Handoff.Drift))
	if err := write("install.md", "# Einrichten\n"); err != nil {
		return err
	}
	p, err := s.Publish(ctx, hub.PublishRequest{Task: task, Root: root})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "second: published %d files\n", p.Published.Files)
	return nil
}

// report prints the rows of the task, and whether the hub is sound.
func report(shared string, out io.Writer) error {
	ctx := context.Background()
	h, err := hub.Open(ctx, shared, nil)
	if err != nil {
		return err
	}
	defer h.Close()
	_, err = h.FoldTask(ctx, task, func(epoch uint64, row hub.Row) error {
		for _, f := range row.Files {
			fmt.Fprintf(out, "task, epoch %d: %s %s by %s\n", epoch, f.Op, f.Path, row.Caller)
		}
		return nil
	})
	if err != nil {
		return err
	}
	v, err := h.Verify(ctx, nil)
	fmt.Fprintf(out, "the hub: %d stores, %d problems\n", v.Stores, len(v.Problems))
	return err
}
