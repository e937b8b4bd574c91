// Write measures replacing files beside other ways to do it, and makes the
// tables of docs/benchmark.md.
//
//	cd bench && go run ./write [-write] [-dir DIR] [-rounds 5] [-time 300ms]
//
// Every cell runs its arms in turns, a different one first in each round, so
// that a machine whose speed changes treats all alike. The figure of an arm is
// the median over the rounds of its throughput relative to the minimal durable
// replace of the same round.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/bench/internal/minimal"
)

const (
	begin = "<!-- Made by `cd bench && go run ./write -write`, up to the end mark. Do not edit. -->"
	end   = "<!-- End of the tables of writes. -->"
)

// cell is one size and number of writers.
type cell struct{ size, writers int }

var cells = []cell{
	{1 << 10, 1}, {1 << 10, 16}, {1 << 10, 64}, {64 << 10, 1}, {64 << 10, 16}, {1 << 20, 1}, {1 << 20, 16},
}

// goals are throughputs relative to the minimal durable replace.
var goals = map[string]map[cell]float64{
	"full":    {{1 << 10, 1}: .75, {1 << 10, 16}: .70, {1 << 10, 64}: .9, {64 << 10, 1}: .75, {64 << 10, 16}: .65, {1 << 20, 1}: .7},
	"journal": {{1 << 10, 1}: 1.3, {1 << 10, 16}: 1.0, {64 << 10, 1}: 1.2, {64 << 10, 16}: .8, {1 << 20, 1}: .8},
}

// arm is one way to replace a file.
type arm struct {
	name  string
	start func(dir string) (write func(path string, data []byte) error, stop func() error, err error)
}

var arms = []arm{
	{"minimal", plain(minimal.Replace)},
	{"os.WriteFile", plain(func(path string, data []byte) error { return os.WriteFile(path, data, 0o644) })},
	{"full", store(rw.SyncFull)},
	{"journal", store(rw.SyncJournal)},
	{"off", store(rw.SyncOff)},
}

func plain(write func(string, []byte) error) func(string) (func(string, []byte) error, func() error, error) {
	return func(dir string) (func(string, []byte) error, func() error, error) {
		return func(path string, data []byte) error { return write(filepath.Join(dir, path), data) }, func() error { return nil }, nil
	}
}

func store(level rw.SyncLevel) func(string) (func(string, []byte) error, func() error, error) {
	return func(dir string) (func(string, []byte) error, func() error, error) {
		ctx := context.Background()
		// The gate looks at everything and advises, as it does by default.
		s, err := rw.Open(ctx, dir, &rw.Options{Sync: level})
		if err != nil {
			return nil, nil, err
		}
		write := func(path string, data []byte) error {
			_, err := s.SafeWriteFrom(ctx, rw.SafeWriteRequest{Path: path, Mode: rw.ModeOverwrite, AllowShrink: true}, bytes.NewReader(data))
			return err
		}
		return write, func() error { return s.Close(ctx) }, nil
	}
}

func main() {
	log.SetFlags(0)
	write := flag.Bool("write", false, "put the tables into ../docs/benchmark.md")
	place := flag.String("dir", "", "directory to write in; default: a new ext4 image with a journal, mounted")
	rounds := flag.Int("rounds", 5, "rounds of each cell")
	turn := flag.Duration("time", 400*time.Millisecond, "least time of a turn")
	only := flag.String("cells", "", "only cells whose name has this in it, as in 1 KiB × 16")
	flag.Parse()
	err := run(*place, *rounds, *turn, *only, *write)
	if err != nil {
		log.Fatal(err)
	}
}

func run(place string, rounds int, turn time.Duration, only string, write bool) error {
	on := "the file system of " + place
	if place == "" {
		dir, unmount, err := mountImage()
		if err != nil {
			return fmt.Errorf("no ext4 image with a journal can be mounted here, give -dir: %w", err)
		}
		defer unmount()
		place, on = dir, "a loop-mounted ext4 image with a journal, made for this run"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Measured %s on %s. Median of %d rounds, and the lowest and highest round.\n\n", time.Now().UTC().Format("2006-01-02"), on, rounds)
	b.WriteString("| size × writers | os.WriteFile | `full` | goal | `journal` | goal | `off` |\n|---|---|---|---|---|---|---|\n")
	for _, c := range cells {
		if !strings.Contains(c.String(), only) {
			continue
		}
		m, err := measure(place, c, rounds, turn)
		if err != nil {
			return err
		}
		row := fmt.Sprintf("| %v | %s | %s | %s | %s | %s | %s |\n", c, m["os.WriteFile"], m["full"], goal("full", c), m["journal"], goal("journal", c), m["off"])
		fmt.Fprint(os.Stderr, row)
		b.WriteString(row)
	}
	if !write {
		fmt.Print(b.String())
		return nil
	}
	return replaceBetween("../docs/benchmark.md", b.String())
}

func goal(arm string, c cell) string {
	if g, ok := goals[arm][c]; ok {
		return fmt.Sprint(g)
	}
	return "–"
}

func (c cell) String() string {
	size := fmt.Sprintf("%d KiB", c.size>>10)
	if c.size >= 1<<20 {
		size = fmt.Sprintf("%d MiB", c.size>>20)
	}
	return fmt.Sprintf("%s × %d", size, c.writers)
}

// measure runs the arms of a cell in turns.
func measure(place string, c cell, rounds int, turn time.Duration) (map[string]string, error) {
	ratios := map[string][]float64{}
	for round := range rounds + 1 { // the first one warms up
		speed := map[string]float64{}
		for i := range arms {
			a := arms[(i+round)%len(arms)]
			v, err := one(place, a, c, turn, round)
			if err != nil {
				return nil, fmt.Errorf("%s, %v: %w", a.name, c, err)
			}
			speed[a.name] = v
		}
		for name, v := range speed {
			if round > 0 {
				ratios[name] = append(ratios[name], v/speed["minimal"])
			}
		}
	}
	out := map[string]string{}
	for name, list := range ratios {
		slices.Sort(list)
		out[name] = fmt.Sprintf("%.2f (%.2f–%.2f)", list[len(list)/2], list[0], list[len(list)-1])
	}
	return out, nil
}

// one is a turn of an arm: writes per second.
func one(place string, a arm, c cell, turn time.Duration, round int) (float64, error) {
	dir, err := os.MkdirTemp(place, strings.ReplaceAll(a.name, ".", ""))
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	write, stop, err := a.start(dir)
	if err != nil {
		return 0, err
	}
	texts := make([][]byte, c.writers)
	for w := range texts {
		texts[w] = text(c.size, w+round)
		if err := write(name(w), texts[w]); err != nil { // from here on every file is replaced
			return 0, err
		}
	}
	began := time.Now()
	counts := make([]int, c.writers)
	errs := make([]error, c.writers)
	var wg sync.WaitGroup
	for w := range c.writers {
		wg.Go(func() {
			for i := 0; errs[w] == nil && (i < 3 || time.Since(began) < turn); i++ {
				copy(texts[w], fmt.Sprintf("Line %d of %d.\n", i, w))
				errs[w] = write(name(w), texts[w])
				counts[w]++
			}
		})
	}
	wg.Wait()
	took := time.Since(began)
	errs = append(errs, stop())
	all := 0
	for _, n := range counts {
		all += n
	}
	return float64(all) / took.Seconds(), errors.Join(errs...)
}

func name(w int) string { return fmt.Sprintf("f%d.txt", w) }

// words are those of the texts that are written: ordinary English.
var words = strings.Fields(`the store keeps a version of every file that is replaced so that a call can be taken back later and
the journal says what was written when and by whom while readers see the old bytes or the new ones but never a mixture of both`)

// text is ordinary prose that differs for every n.
func text(size, n int) []byte {
	var b bytes.Buffer
	x := uint32(n)*2654435761 + 1
	for b.Len() < size {
		x = x*1664525 + 1013904223
		b.WriteString(words[int(x>>16)%len(words)])
		if x>>28 == 0 {
			b.WriteString(".\n")
		} else {
			b.WriteByte(' ')
		}
	}
	return b.Bytes()[:size]
}

// mountImage makes an ext4 file system with a journal in a file and mounts it.
func mountImage() (dir string, unmount func(), err error) {
	base, err := os.MkdirTemp("", "rwbench")
	if err != nil {
		return "", nil, err
	}
	image, dir := filepath.Join(base, "image"), filepath.Join(base, "mnt")
	unmount = func() {
		exec.Command("umount", dir).Run()
		os.RemoveAll(base)
	}
	if err = os.Mkdir(dir, 0o755); err == nil {
		err = os.WriteFile(image, nil, 0o600)
	}
	if err == nil {
		err = os.Truncate(image, 4<<30)
	}
	for _, args := range [][]string{{"mkfs.ext4", "-q", "-F", "-O", "has_journal", image}, {"mount", "-o", "loop", image, dir}} {
		if err != nil {
			break
		}
		var out []byte
		if out, err = exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			err = fmt.Errorf("%s: %w: %s", args[0], err, bytes.TrimSpace(out))
		}
	}
	if err != nil {
		unmount()
		return "", nil, err
	}
	return dir, unmount, nil
}

// replaceBetween puts a text between the marks of a document.
func replaceBetween(doc, text string) error {
	data, err := os.ReadFile(doc)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(data), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no marks", doc)
	}
	return os.WriteFile(doc, []byte(before+begin+"\n\n"+text+"\n"+end+after), 0o644)
}
