//go:build linux

// Write compares writing files with other ways to do it, and makes the tables of
// docs/benchmark.md, in at most five minutes.
//
//	cd bench && go run ./write [-write] [-dir DIR] [-rounds 5] [-time 300ms] [-only TEXT]
//
// The arms of a row take turns, a different one first in each round, so that a machine
// whose speed changes affects all equally. The figure of an arm is the median over the
// rounds of its throughput relative to the first arm of the same round.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/resilientwrite/resilientwrite/bench/internal/page"
)

const (
	begin = "<!-- Made by `cd bench && go run ./write -write`, up to the end mark. Do not edit. -->"
	end   = "<!-- End of the tables of writes. -->"
)

// bench is one run of the command.
type bench struct {
	place  string // a directory on the measured file system
	rounds int
	turn   time.Duration
	only   string
	image  int // size of an image in MiB
	out    strings.Builder
}

func main() {
	log.SetFlags(0)
	if len(os.Args) > 1 && os.Args[1] == "child" {
		if err := child(os.Args[2:]); err != nil {
			log.Fatal(err)
		}
		return
	}
	write := flag.Bool("write", false, "put the tables into ../docs/benchmark.md")
	place := flag.String("dir", "", "directory to write in; default: a new ext4 image with a journal, mounted")
	b := &bench{}
	flag.IntVar(&b.rounds, "rounds", 5, "rounds of each row")
	flag.DurationVar(&b.turn, "time", 300*time.Millisecond, "least time of a turn")
	flag.StringVar(&b.only, "only", "", "only rows whose name has this in it, as in 1 KiB × 16")
	flag.IntVar(&b.image, "image", 4<<10, "size of an image in MiB: enough for the versions of one arm and their bound, a twentieth of it")
	flag.Parse()
	if *place == "" && os.Getenv(insideName) == "" {
		os.Exit(inside())
	}
	if err := b.run(*place, *write); err != nil {
		log.Fatal(err)
	}
}

// insideName is set in the process whose mounts are its own.
const insideName = "RW_BENCH_INSIDE"

// inside runs this program again, with mounts of its own and a directory for its images,
// and returns its exit code. However that process ends, its mounts go with it, and the
// directory is removed here.
func inside() int {
	dir, err := os.MkdirTemp("", "rwbench")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), insideName+"=1", "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if err := cmd.Start(); err != nil {
		log.Print("there can be no mounts here, give -dir: ", err)
		return 1
	}
	if cmd.Wait() != nil {
		return 1
	}
	return 0
}

func (b *bench) run(place string, write bool) error {
	on := "the file system of " + place
	if place == "" {
		dir, err := b.mountExt4()
		if err != nil {
			return fmt.Errorf("no ext4 image with a journal can be mounted here, give -dir: %w", err)
		}
		place, on = dir, "a loop-mounted ext4 image with a journal and without holes, made for this run"
	}
	b.place = place
	b.printf("Measured %s on %s, %d cores, load %s at the start. Medians of %d rounds, with the lowest and the highest.\n\n",
		time.Now().UTC().Format("2006-01-02"), on, runtime.NumCPU(), page.Load(), b.rounds)
	for _, part := range []func() error{b.replaces, b.onXFS, b.onTwo, b.transactions, b.processes, b.latency, b.opens} {
		if err := part(); err != nil {
			return err
		}
	}
	b.printf("Load %s at the end.\n", page.Load())
	if !write {
		return nil
	}
	return page.Replace("../docs/benchmark.md", begin, end, b.out.String())
}

// printf adds to the tables, and prints the text.
func (b *bench) printf(format string, args ...any) {
	fmt.Printf(format, args...)
	fmt.Fprintf(&b.out, format, args...)
}

func (b *bench) wanted(name string) bool { return strings.Contains(name, b.only) }

// arm is one way to do something in a separate directory: start returns the
// operation that worker w does the i-th time, and what is done at the end.
type arm struct {
	name  string
	start func(dir string) (do func(w, i int) error, stop func() error, err error)
}

// measure runs the arms in turns and reports how fast each is relative to the
// first one.
func (b *bench) measure(workers int, arms []arm) (map[string]string, error) {
	ratios := map[string][]float64{}
	for round := range b.rounds + 1 { // the first one warms up
		speed := map[string]float64{}
		for i := range arms {
			a := arms[(i+round)%len(arms)]
			v, err := b.one(a, workers)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", a.name, err)
			}
			speed[a.name] = v
		}
		for name, v := range speed {
			if round > 0 {
				ratios[name] = append(ratios[name], v/speed[arms[0].name])
			}
		}
	}
	out := map[string]string{}
	for name, list := range ratios {
		out[name] = spreadOf(list)
	}
	return out, nil
}

// one runs one turn of an arm and returns operations per second.
func (b *bench) one(a arm, workers int) (float64, error) {
	dir, err := os.MkdirTemp(b.place, "arm")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	do, stop, err := a.start(dir)
	if err != nil {
		return 0, err
	}
	for w := range workers { // from here on every file is replaced
		if err := do(w, 0); err != nil {
			return 0, err
		}
	}
	n, took, err := during(b.turn, workers, do)
	return float64(n) / took.Seconds(), errors.Join(err, stop())
}

// during makes every worker repeat its operation for a while.
func during(turn time.Duration, workers int, do func(w, i int) error) (n int, took time.Duration, err error) {
	began := time.Now()
	counts, errs := make([]int, workers), make([]error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := 1; errs[w] == nil && (i <= 3 || time.Since(began) < turn); i++ {
				errs[w] = do(w, i)
				counts[w]++
			}
		})
	}
	wg.Wait()
	took = time.Since(began)
	for _, c := range counts {
		n += c
	}
	return n, took, errors.Join(errs...)
}

// spreadOf returns the median of a list, with its lowest and highest value.
func spreadOf(list []float64) string {
	slices.Sort(list)
	return fmt.Sprintf("%.2f (%.2f–%.2f)", list[len(list)/2], list[0], list[len(list)-1])
}
