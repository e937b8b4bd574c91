//go:build linux

// Command record is the benchmark of record: ten ways in which writing goes
// wrong, three ways to write, three kinds of agents. It prints a table and
// writes docs/benchmark-record.md and docs/benchmark-record.svg, and its part of
// docs/benchmark.md.
//
//	cd bench && go run ./record
//	cd bench && go run ./record -smoke
//	cd bench && go run ./record -scenario C3,C6 -trials 50
//
// It needs Linux with user notifications of seccomp(2), and the go command for
// one scenario.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/resilientwrite/resilientwrite/bench/internal/page"
	"github.com/resilientwrite/resilientwrite/bench/internal/shell"
)

func main() {
	if ran, err := job(); ran {
		if err != nil {
			fmt.Fprintln(os.Stderr, "record: child:", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := program(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

// settings holds the flags.
type settings struct {
	seed     uint64
	trials   int
	scenario string
	out      string
	smoke    bool
	quiet    bool
	shell    bool
}

func program(ctx context.Context, args []string) error {
	var s settings
	flags := flag.NewFlagSet("record", flag.ContinueOnError)
	flags.Uint64Var(&s.seed, "seed", 1, "of everything that is picked at random")
	flags.IntVar(&s.trials, "trials", 0, "in each cell; 0 means what the scenario is worth")
	flags.StringVar(&s.scenario, "scenario", "", "which ones, as in C1,C3; empty means all")
	flags.StringVar(&s.out, "out", "", "directory for benchmark-record.md and .svg; empty means ../docs for a whole run, nothing for a part")
	flags.BoolVar(&s.smoke, "smoke", false, "a few trials of everything, in seconds")
	flags.BoolVar(&s.shell, "shell", false, "play only the shell commands, which have no times, and replace their table in the pages")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("what is %q?", flags.Arg(0))
	}
	if s.out == "" && s.whole() {
		s.out = filepath.Join("..", "docs")
	}
	if s.out != "" {
		if st, err := os.Stat(s.out); err != nil || !st.IsDir() {
			return fmt.Errorf("-out: there is no directory %s", s.out)
		}
	}
	if s.shell {
		table, err := shell.Table("")
		if err != nil {
			return err
		}
		docs := cmp.Or(s.out, filepath.Join("..", "docs"))
		return cmp.Or(
			page.Replace(filepath.Join(docs, "benchmark-record.md"), shellBegin, shellEnd, table),
			page.Replace(filepath.Join(docs, "around.md"), shellBegin, shellEnd, table))
	}
	began := time.Now()
	b, err := measureAll(ctx, s)
	if err != nil {
		return err
	}
	b.took = time.Since(began)
	fmt.Print(b.text())
	if s.out == "" {
		return nil
	}
	return b.publish(s.out)
}

// publish writes the page and the plot, and their parts of benchmark.md and around.md
// if the directory has these pages.
func (b *results) publish(dir string) error {
	errs := []error{
		os.WriteFile(filepath.Join(dir, "benchmark-record.md"), []byte(b.markdown()), 0o644),
		os.WriteFile(filepath.Join(dir, "benchmark-record.svg"), []byte(b.plot()), 0o644),
	}
	for _, err := range []error{
		page.Replace(filepath.Join(dir, "benchmark.md"), blockBegin, blockEnd, b.block()+"\n"),
		page.Replace(filepath.Join(dir, "around.md"), shellBegin, shellEnd, b.shell),
	} {
		if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// results holds everything that was measured.
type results struct {
	settings
	cells  []*cell
	done   []scenario
	shell  string // the table of the undo of shell commands
	took   time.Duration
	anchor time.Duration // of one durable replace
}

// measureAll runs the requested scenarios.
func measureAll(ctx context.Context, s settings) (*results, error) {
	wanted, err := chosen(s)
	if err != nil {
		return nil, err
	}
	base, err := scratch(s.smoke)
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(base)
	out := &results{settings: s}
	if out.anchor, err = anchor(base); err != nil {
		return nil, err
	}
	for i := range wanted {
		sc := &wanted[i]
		began := time.Now()
		cells, err := measureOne(ctx, s, sc, filepath.Join(base, sc.id))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", sc.id, err)
		}
		if !s.quiet {
			fmt.Fprintf(os.Stderr, "%-4s %-45s %6.1f s\n", sc.id, sc.name, time.Since(began).Seconds())
		}
		out.cells, out.done = append(out.cells, cells...), append(out.done, *sc)
	}
	if s.scenario == "" {
		only := ""
		if s.smoke {
			only = "goes on"
		}
		out.shell, err = shell.Table(only)
	}
	return out, err
}

// scratch creates the directory of all workspaces. A smoke run measures
// nothing, so the directory may be in memory.
func scratch(smoke bool) (string, error) {
	if smoke && os.Getenv("TMPDIR") == "" {
		if dir, err := os.MkdirTemp("/dev/shm", "record-"); err == nil {
			return dir, nil
		}
	}
	return os.MkdirTemp("", "record-")
}

func chosen(s settings) ([]scenario, error) {
	all := scenarios()
	if s.scenario == "" {
		return all, nil
	}
	var list []scenario
	for id := range strings.SplitSeq(s.scenario, ",") {
		i := slices.IndexFunc(all, func(sc scenario) bool { return strings.EqualFold(sc.id, strings.TrimSpace(id)) })
		if i < 0 {
			return nil, fmt.Errorf("there is no scenario %q", id)
		}
		list = append(list, all[i])
	}
	return list, nil
}

// measureOne makes the cells of one scenario. The arms run concurrently, so
// that each is measured under the load of the two others.
func measureOne(ctx context.Context, s settings, sc *scenario, base string) ([]*cell, error) {
	if sc.whole != nil {
		return sc.whole(ctx, s, sc)
	}
	var list []*cell
	for _, who := range agents {
		row := make([]*cell, len(armNames))
		errs := make([]error, len(armNames))
		var all sync.WaitGroup
		for i, arm := range armNames {
			all.Go(func() {
				row[i], errs[i] = measureCell(ctx, s, sc, filepath.Join(base, arm, string(who)), arm, who)
				if errs[i] != nil {
					errs[i] = fmt.Errorf("%s, %s: %w", arm, who, errs[i])
				}
			})
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
		list = append(list, row...)
	}
	return list, nil
}

// measureCell makes the trials of one cell.
func measureCell(ctx context.Context, s settings, sc *scenario, base, arm string, who agent) (*cell, error) {
	if err := os.MkdirAll(base, 0o755); err != nil {
		return nil, err
	}
	defer os.RemoveAll(base)
	spread(base)
	r := &ring{ctx: ctx, seed: s.seed, s: sc, arm: arm, who: who, base: base, n: sc.count(s), small: s.smoke}
	if err := r.renew(); err != nil {
		return nil, err
	}
	c := &cell{Scenario: sc.id, Arm: arm, Agent: string(who), NoLoss: sc.noLoss}
	err := sc.run(r, func(t trial) { c.add(t) })
	if err == nil {
		err = ctx.Err()
	}
	return c, err
}

// count returns the number of trials of a cell.
func (sc *scenario) count(s settings) int {
	switch {
	case s.trials > 0:
		return s.trials
	case s.smoke:
		return max(1, sc.smoke)
	}
	return sc.trials
}
