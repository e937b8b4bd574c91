// Command mutants checks that the sweeps detect faults. Each mutant is a change of one
// place of the code that reintroduces a fault which the store once had. The command
// compiles the tests of a package with one mutant at a time and runs its sweeps, which
// must fail.
//
//	go run ./internal/mutants            # every mutant, about a minute each
//	go run ./internal/mutants -run 2,9   # those of points 2 and 9
//	go run ./internal/mutants -list      # the table of docs/durability.md
//
// It writes nothing to the source tree: the changed file is given to the
// compiler as an overlay. The exit status is 1 when a mutant does not compile or
// is not caught, or when the sweeps fail without a mutant.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// mutant is one fault. Old occurs once in File; New takes its place.
type mutant struct {
	Point    int    // of the list of requirements in docs/durability.md
	Fault    string // in one line
	File     string // from the root of the module
	Old, New string
	Dir      string // the package whose tests are run; "" is the root
	Run      string // pattern of the tests; "" is every sweep
	Race     bool   // the race detector finds it
}

func main() {
	points := flag.String("run", "", "points to run, separated by commas; all when empty")
	list := flag.Bool("list", false, "print the table for docs/durability.md and exit")
	limit := flag.Duration("timeout", 10*time.Minute, "limit for the tests of one mutant; a mutant that exceeds it is caught")
	flag.Parse()
	if *list {
		fmt.Print(table())
		return
	}
	chosen, err := choose(*points)
	if err == nil {
		err = run(chosen, *limit)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// choose returns the mutants of the points.
func choose(points string) ([]mutant, error) {
	if points == "" {
		return mutants, nil
	}
	want := map[int]bool{}
	for _, p := range strings.Split(points, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(p))
		if err != nil {
			return nil, fmt.Errorf("-run: %q is no number", p)
		}
		want[n] = true
	}
	return slices.DeleteFunc(slices.Clone(mutants), func(m mutant) bool { return !want[m.Point] }), nil
}

func run(chosen []mutant, limit time.Duration) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	bad := 0
	passed := map[mutant]bool{} // tests without a mutant
	for _, m := range chosen {
		if tests := (mutant{Dir: m.Dir, Run: m.Run, Race: m.Race}); !passed[tests] {
			if verdict, err := try(tests, root, dir, limit); err != nil || verdict != missed {
				return fmt.Errorf("the tests fail without a mutant: %s, %v", verdict, err)
			}
			passed[tests] = true
		}
		verdict, err := try(m, root, dir, limit)
		if err != nil {
			verdict = err.Error()
		}
		if err != nil || verdict == missed {
			bad++
		}
		fmt.Printf("%2d  %-70s %s\n", m.Point, m.Fault, verdict)
	}
	fmt.Printf("%d mutants, %d caught\n", len(chosen), len(chosen)-bad)
	if bad > 0 {
		return fmt.Errorf("%d of %d mutants were not caught", bad, len(chosen))
	}
	return nil
}

const missed = "MISSED"

// try runs the tests with one mutant, or without one if its file is empty, and
// returns the names of those that failed.
func try(m mutant, root, dir string, limit time.Duration) (string, error) {
	bin := filepath.Join(dir, "tests")
	args := []string{"test", "-c", "-o", bin}
	if m.File != "" {
		overlay, err := m.overlay(root, dir)
		if err != nil {
			return "", err
		}
		args = append(args, "-overlay", overlay)
	}
	if m.Race {
		args = append(args, "-race")
	}
	pkg := filepath.Join(root, m.Dir)
	build := exec.Command("go", append(args, ".")...)
	build.Dir = pkg
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("does not compile: %w\n%s", err, out)
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	pattern := m.Run
	if pattern == "" {
		pattern = "Sweep"
	}
	for _, seed := range seeds {
		test := exec.CommandContext(ctx, bin, "-test.failfast", "-test.run", pattern)
		test.Dir = pkg
		test.Env = append(os.Environ(), "RW_SEED="+seed, "RW_LONG=10")
		out, err := test.CombinedOutput()
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return "caught: the tests do not end", nil
		}
		if err != nil {
			return "caught by " + failedTests(out), nil
		}
	}
	return missed, nil
}

// seeds are tried one after the other: a sweep takes a part of its table for each.
var seeds = []string{"1", "2", "3"}

var failLine = regexp.MustCompile(`(?m)^\s*--- FAIL: (Test\w+)`)

func failedTests(out []byte) string {
	var names []string
	for _, m := range failLine.FindAllSubmatch(out, -1) {
		if name := string(m[1]); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "a crash of the tests"
	}
	return strings.Join(names, ", ")
}

// overlay writes the file with the fault, and the overlay that names it, to dir.
func (m mutant) overlay(root, dir string) (string, error) {
	src, err := m.apply(root)
	if err != nil {
		return "", err
	}
	changed, overlay := filepath.Join(dir, "changed.go"), filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(changed, src, 0o600); err != nil {
		return "", err
	}
	data, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, m.File): changed}})
	if err != nil {
		return "", err
	}
	return overlay, os.WriteFile(overlay, data, 0o600)
}

// apply returns the file with the fault.
func (m mutant) apply(root string) ([]byte, error) {
	src, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(src), m.Old); n != 1 {
		return nil, fmt.Errorf("%s: the place of point %d (%s) was found %d times, want once", m.File, m.Point, m.Fault, n)
	}
	return []byte(strings.Replace(string(src), m.Old, m.New, 1)), nil
}

// moduleRoot is the directory that holds go.mod.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", err
	}
	mod := strings.TrimSpace(string(out))
	if mod == "" || mod == os.DevNull {
		return "", errors.New("not inside the module")
	}
	return filepath.Dir(mod), nil
}

// table is the list for docs/durability.md.
func table() string {
	var b strings.Builder
	b.WriteString("| point | fault | place |\n|---|---|---|\n")
	for _, m := range mutants {
		fmt.Fprintf(&b, "| %d | %s | %s |\n", m.Point, m.Fault, m.File)
	}
	return b.String()
}
