// Command around measures the cost of finding out what a shell command did. It starts the
// command resilient-write of this tree as a new process for each scan, as a hook of a
// host does, before a command (nothing changed) and after one (some files changed). It
// compares snapshots with `git add . && git write-tree` in a separate repository:
//
//	cd bench && go run ./around
//
// Times are medians over the rounds: wall time, and processor time in parentheses. The
// goals are those of the project: 150 and 300 ms for 15,000 files, 600 and 1,200 ms for
// 100,000.
package main

import (
	"flag"
	"fmt"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/bench/internal/page"
	"github.com/resilientwrite/resilientwrite/bench/internal/shell"
)

func main() {
	log.SetFlags(0)
	os.Setenv("RW_STATE_DIR", ".resilient_write") // its size is measured
	sizes := flag.String("files", "15000,100000", "numbers of files")
	rounds := flag.Int("rounds", 5, "rounds")
	flag.Parse()
	if err := run(*sizes, *rounds); err != nil {
		log.Fatal(err)
	}
}

func run(sizes string, rounds int) error {
	temp, err := os.MkdirTemp("", "around")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	rw, err := shell.Build(temp)
	if err != nil {
		return err
	}
	fmt.Printf("load %s, %d rounds\n\n| files | first scan | before, nothing changed | after, 10 files changed | after, 1000 files changed | undo of these | first snapshot | next snapshot | git: first | git: next |\n|---|---|---|---|---|---|---|---|---|---|\n", page.Load(), rounds)
	for text := range strings.SplitSeq(sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		w := &workspace{rw: rw, dir: filepath.Join(temp, text)}
		if err := w.make(n); err != nil {
			return err
		}
		line, err := w.measure(n, rounds)
		if err != nil {
			return err
		}
		fmt.Println(line)
	}
	return nil
}

// workspace is a repository with files of source text.
type workspace struct {
	rw, dir string
	edits   int
}

func (w *workspace) file(i int) string {
	return filepath.Join(w.dir, fmt.Sprintf("p%d/s%d/f%d.go", i/1000, i/20%50, i))
}

func (w *workspace) make(n int) error {
	for i := range n {
		name := w.file(i)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		text := fmt.Sprintf("package p%d\n", i) + strings.Repeat("func f(x int) int { return x + 1 }\n", 5+i*7919%200)
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"-c", "user.name=b", "-c", "user.email=b@example.org", "commit", "-qm", "x"}} {
		if _, err := w.cost("git", args...); err != nil {
			return err
		}
	}
	time.Sleep(3 * time.Second) // make the files older than the scan, as most files are
	return nil
}

// cost is what a program costs.
type cost struct{ wall, cpu time.Duration }

func (c cost) String() string {
	return fmt.Sprintf("%d (%d) ms", c.wall.Milliseconds(), c.cpu.Milliseconds())
}

func (w *workspace) cost(program string, args ...string) (cost, error) {
	cmd := exec.Command(program, args...)
	cmd.Dir = w.dir
	cmd.Env = append(os.Environ(), "RW_WORKSPACE="+w.dir, "GIT_CONFIG_NOSYSTEM=1", "HOME="+filepath.Dir(w.dir))
	start := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		return cost{}, fmt.Errorf("%s %v: %w %.500s", program, args, err, out)
	}
	return cost{time.Since(start), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()}, nil
}

// shadow runs git with a separate directory, as hosts keep their checkpoints.
func (w *workspace) shadow() (cost, error) {
	dir := "--git-dir=" + w.dir + ".shadow"
	if _, err := os.Lstat(w.dir + ".shadow"); err != nil {
		if _, err := w.cost("git", dir, "--work-tree="+w.dir, "init", "-q"); err != nil {
			return cost{}, err
		}
	}
	a, err := w.cost("git", dir, "--work-tree="+w.dir, "add", ".")
	if err != nil {
		return a, err
	}
	b, err := w.cost("git", dir, "--work-tree="+w.dir, "write-tree")
	return cost{a.wall + b.wall, a.cpu + b.cpu}, err
}

// edit changes some files, spread over the tree.
func (w *workspace) edit(n, of int) error {
	w.edits++
	for i := range n {
		f, err := os.OpenFile(w.file(i*(of/n)), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		fmt.Fprintf(f, "// edit %d\n", w.edits)
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

func (w *workspace) measure(n, rounds int) (string, error) {
	columns := make([][]cost, 9)
	add := func(i int, c cost, err error) error {
		columns[i] = append(columns[i], c)
		return err
	}
	run := func(i int, args ...string) error {
		c, err := w.cost(w.rw, args...)
		return add(i, c, err)
	}
	if err := run(0, "changes"); err != nil {
		return "", err
	}
	for round := range rounds {
		if err := run(1, "changes", "--since", "0s"); err != nil {
			return "", err
		}
		call := ""
		for i, some := range []int{10, 1000} {
			if err := w.edit(some, n); err != nil {
				return "", err
			}
			call = fmt.Sprintf("call-%d-%d", round, some)
			if err := run(2+i, "changes", "--since", "0s", "--call", call); err != nil {
				return "", err
			}
		}
		if err := run(4, "undo", "--group", call); err != nil { // the last one
			return "", err
		}
		at := 5 + min(round, 1)
		if err := run(at, "snapshot"); err != nil {
			return "", err
		}
		c, err := w.shadow()
		if err = add(at+2, c, err); err != nil {
			return "", err
		}
	}
	line := fmt.Sprintf("| %d |", n)
	for _, list := range columns {
		line += fmt.Sprintf(" %s |", median(list))
	}
	state, shadow := size(filepath.Join(w.dir, ".resilient_write")), size(w.dir+".shadow")
	return line + fmt.Sprintf("\n\nOn disk after %d rounds: state directory %.1f MiB, shadow repository %.1f MiB.\n", rounds, state, shadow), nil
}

func median(list []cost) cost {
	if len(list) == 0 {
		return cost{}
	}
	slices.SortFunc(list, func(a, b cost) int { return int(a.wall - b.wall) })
	return list[len(list)/2]
}

// size returns the size of the files below a directory, in MiB as blocks of 4
// KiB.
func size(dir string) float64 {
	blocks := int64(0)
	filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			blocks += (info.Size() + 4095) / 4096
		}
		return nil
	})
	return float64(blocks) * 4096 / (1 << 20)
}
