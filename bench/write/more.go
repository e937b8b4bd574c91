//go:build linux

package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/bench/internal/minimal"
	"github.com/resilientwrite/resilientwrite/internal/failpoint"
)

// transactions compares one transaction of n files of 1 KiB with n single
// writes, and with what a careful program does without a library: each file
// written, flushed, renamed and its directory flushed, between two flushed
// lines of its own journal, without atomicity over the files.
func (b *bench) transactions() error {
	b.printf("| files of 1 KiB | careful program | single writes | one transaction | goal |\n|---|---|---|---|---|\n")
	for _, n := range []int{10, 100} {
		if !b.wanted("transactions") {
			continue
		}
		goal := map[int]string{10: "3", 100: "3.7"}[n]
		m, err := b.measure(1, []arm{
			{"careful", careful(n)}, {"singles", singles(n)}, {"tx", transaction(n)},
		})
		if err != nil {
			return err
		}
		b.printf("| %d | 1 | %s | %s | %s |\n", n, m["singles"], m["tx"], goal)
	}
	b.printf("\n")
	return nil
}

// txContent returns 1 KiB that differs for every file and every time.
func txContent(i, f int) string { return fmt.Sprintf("%01000d %022d", i, f) }

func transaction(n int) starter {
	return onStore(rw.SyncFull, func(s *rw.Store, _, i int) error {
		var ops []rw.TxOp
		for f := range n {
			ops = append(ops, rw.TxOp{Op: "write", Path: name(f), Content: []byte(txContent(i, f)), Mode: rw.ModeOverwrite})
		}
		_, err := s.Tx(context.Background(), rw.TxRequest{Ops: ops})
		return err
	})
}

func singles(n int) starter {
	return onStore(rw.SyncFull, func(s *rw.Store, _, i int) error {
		for f := range n {
			if err := replace(s, name(f), []byte(txContent(i, f))); err != nil {
				return err
			}
		}
		return nil
	})
}

func careful(n int) starter {
	return func(dir string) (func(w, i int) error, func() error, error) {
		journal, err := os.OpenFile(filepath.Join(dir, "journal"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, nil, err
		}
		line := func() error {
			if _, err := fmt.Fprintln(journal, strings.Repeat("j", 200)); err != nil {
				return err
			}
			return journal.Sync()
		}
		return func(_, i int) error {
			if err := line(); err != nil {
				return err
			}
			for f := range n {
				if err := minimal.Replace(filepath.Join(dir, name(f)), []byte(txContent(i, f))); err != nil {
					return err
				}
			}
			return line()
		}, journal.Close, nil
	}
}

const processes, writersEach = 8, 8

// processes compares eight processes of eight writers on one workspace with as
// many that make minimal durable replaces.
func (b *bench) processes() error {
	if !b.wanted("processes") {
		return nil
	}
	var list []float64
	for round := range b.rounds + 1 {
		speed := map[string]float64{}
		for _, kind := range [][]string{{"minimal", "full"}, {"full", "minimal"}}[round%2] {
			n, err := b.manyProcesses(kind)
			if err != nil {
				return err
			}
			speed[kind] = n
		}
		if round > 0 {
			list = append(list, speed["full"]/speed["minimal"])
		}
	}
	b.printf("%d processes with %d writers of 1 KiB each, on one workspace, at `full`: %s of as many minimal durable replaces.\n\n", processes, writersEach, spreadOf(list))
	return nil
}

// manyProcesses runs one turn of children that start together and returns the
// operations per second of all.
func (b *bench) manyProcesses(kind string) (float64, error) {
	dir, err := os.MkdirTemp(b.place, "processes")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	all := 0.0
	var children []*started
	for p := range processes {
		c, err := startChild(kind, dir, strconv.Itoa(p), b.turn.String())
		if err != nil {
			return 0, err
		}
		defer c.kill()
		children = append(children, c)
	}
	for _, c := range children {
		if _, err := c.line(); err != nil { // the child is ready
			return 0, err
		}
	}
	for _, c := range children {
		fmt.Fprintln(c.in, "go")
	}
	for _, c := range children {
		text, err := c.line()
		if err != nil {
			return 0, err
		}
		n, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return 0, err
		}
		all += n
	}
	return all, nil
}

const (
	latencyWrites = 10_000
	latencyPaths  = 16
)

// latency reports how long the slowest of many small writes takes.
func (b *bench) latency() error {
	if !b.wanted("latency") {
		return nil
	}
	dir, err := os.MkdirTemp(b.place, "latency")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	do, stop, err := cell{1 << 10, latencyPaths}.store(rw.SyncFull)(dir)
	if err != nil {
		return err
	}
	took := make([]time.Duration, latencyWrites)
	for i := range took {
		began := time.Now()
		if err := do(i%latencyPaths, i); err != nil {
			return err
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	of := func(q float64) float64 {
		return float64(took[int(q*(latencyWrites-1))]) / float64(took[latencyWrites/2])
	}
	b.printf("Of %d writes of 1 KiB by one writer to %d files at `full`, relative to the median: 90 %% take at most %.1f, 99 %% %.1f (goal 5), 99.9 %% %.1f; the slowest took %.0f.\n\n",
		latencyWrites, latencyPaths, of(.9), of(.99), of(.999), of(1))
	return stop()
}

const unpublished = 1000

// opens reports how long Open takes after a process that was killed between the
// record and the publication of many commits.
func (b *bench) opens() error {
	if !b.wanted("open") {
		return nil
	}
	for _, kind := range []string{"new files", "replaced files"} {
		var list []float64
		for range b.rounds {
			ms, err := b.openKilled(kind)
			if err != nil {
				return err
			}
			list = append(list, ms)
		}
		slices.Sort(list)
		b.printf("Open after a kill -9 with %d recorded, unpublished commits of %s: %.0f ms (%.0f–%.0f; goal 100).\n\n", unpublished, kind, list[len(list)/2], list[0], list[len(list)-1])
	}
	return nil
}

func (b *bench) openKilled(kind string) (ms float64, err error) {
	dir, err := os.MkdirTemp(b.place, "open")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	c, err := startChild("unpublished", dir, kind)
	if err != nil {
		return 0, err
	}
	defer c.kill()
	if _, err := c.line(); err != nil {
		return 0, err
	}
	c.kill()
	began := time.Now()
	s, err := rw.Open(context.Background(), dir, &rw.Options{StateDir: stateOf(dir)})
	if err != nil {
		return 0, err
	}
	ms = float64(time.Since(began).Microseconds()) / 1000
	if n := len(s.Recovery().Finished); n != unpublished {
		return 0, fmt.Errorf("%d commits were completed", n)
	}
	return ms, s.Close(context.Background())
}

// started is a child process of this program.
type started struct {
	cmd *exec.Cmd
	in  io.Writer
	out *bufio.Reader
}

func startChild(args ...string) (*started, error) {
	cmd := exec.Command(os.Args[0], append([]string{"child"}, args...)...)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	return &started{cmd, in, bufio.NewReader(out)}, cmd.Start()
}

func (c *started) line() (string, error) {
	text, err := c.out.ReadString('\n')
	return strings.TrimSpace(text), err
}

func (c *started) kill() {
	c.cmd.Process.Kill()
	c.cmd.Wait()
}

// child is what a child process does.
func child(args []string) error {
	if args[0] == "unpublished" {
		return leaveUnpublished(args[1], args[2])
	}
	kind, dir := args[0], args[1]
	process, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	turn, err := time.ParseDuration(args[3])
	if err != nil {
		return err
	}
	write := func(path string, data []byte) error { return minimal.Replace(filepath.Join(dir, path), data) }
	if kind == "full" {
		s, err := rw.Open(context.Background(), dir, &rw.Options{StateDir: stateOf(dir)})
		if err != nil {
			return err
		}
		defer s.Close(context.Background())
		write = func(path string, data []byte) error { return replace(s, path, data) }
	}
	data := cell{1 << 10, writersEach}.texts()
	do := func(w, i int) error { return write(name(process*writersEach+w), data(w, i)) }
	fmt.Println("ready")
	bufio.NewReader(os.Stdin).ReadString('\n')
	n, took, err := during(turn, writersEach, do)
	if err != nil {
		return err
	}
	fmt.Println(float64(n) / took.Seconds())
	return nil
}

// leaveUnpublished makes commits that all stop after their rows, reports that,
// and waits to be killed.
func leaveUnpublished(dir, kind string) error {
	s, err := rw.Open(context.Background(), dir, &rw.Options{StateDir: stateOf(dir)})
	if err != nil {
		return err
	}
	for i := range unpublished {
		if kind == "replaced files" {
			if err := replace(s, name(i), []byte(txContent(1, i))); err != nil {
				return err
			}
		}
	}
	var there atomic.Int64
	failpoint.Arm(func(point string) {
		if point != string(rw.StagePublish) {
			return
		}
		if there.Add(1) == unpublished {
			fmt.Println("ready")
		}
		select {}
	})
	for i := range unpublished {
		go replace(s, name(i), []byte(txContent(0, i)))
	}
	_, err = io.Copy(io.Discard, os.Stdin) // ends when the parent does
	return err
}
