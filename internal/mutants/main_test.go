// Package mutants checks that the sweeps detect faults. Each mutant is a change of one
// place of the code that reintroduces a fault which the store once had. The test
// compiles the tests of a package with one mutant at a time and runs its sweeps, which
// must fail. Those that failed must pass without the mutant.
//
//	go test ./internal/mutants                                       # the mutants find their places
//	go test ./internal/mutants -v -timeout 0 -judge                  # every mutant, less than a minute each
//	go test ./internal/mutants -v -timeout 0 -judge -run '/^(2|9)_'  # those of points 2 and 9
//
// It writes nothing to the source tree: the changed file is given to the
// compiler as an overlay.
package mutants

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// mutant is one fault. Old occurs once in File; New takes its place.
type mutant struct {
	Point    int    // of the list of requirements in docs/durability.md
	Fault    string // in one line
	File     string // from the root of the module
	Old, New string
	Dir      string // the package whose tests are run; "" is the root
	Run      string // pattern of tests that find it; "" is every sweep
	Race     bool   // the race detector finds it
}

var (
	judge = flag.Bool("judge", false, "also run the sweeps with each mutant, which must catch it")
	limit = flag.Duration("limit", 10*time.Minute, "limit for one run of the tests; a mutant that exceeds it twice is caught")
)

// TestMutants checks that every mutant finds its place and its tests and leaves a file that
// parses and, with -judge, that the sweeps catch it.
func TestMutants(t *testing.T) {
	r := runner{root: testbed.Must(filepath.Abs("../.."))(t), dir: t.TempDir(), clean: map[mutant]string{}, passed: map[string]bool{}, tests: map[string]string{}}
	for _, m := range mutants {
		t.Run(fmt.Sprint(m.Point, " ", m.Fault), func(t *testing.T) {
			src := testbed.Must(m.apply(r.root))(t)
			testbed.Must(parser.ParseFile(token.NewFileSet(), m.File, src, 0))(t)
			r.findsTests(t, m)
			if *judge {
				t.Log("caught by", testbed.Must(r.judge(m))(t))
			}
		})
	}
}

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)

// findsTests checks that each alternative of Run selects a test: a test that was renamed
// would not run.
func (r *runner) findsTests(t *testing.T, m mutant) {
	if r.tests[m.Dir] == "" {
		for _, file := range testbed.Must(filepath.Glob(filepath.Join(r.root, m.Dir, "*_test.go")))(t) {
			for _, found := range testFunc.FindAllSubmatch(testbed.Must(os.ReadFile(file))(t), -1) {
				r.tests[m.Dir] += string(found[1]) + "\n"
			}
		}
	}
	for one := range strings.SplitSeq(m.pattern(), "|") {
		top, _, _ := strings.Cut(one, "/")
		testbed.Expect(t, regexp.MustCompile("(?m)"+top).MatchString(r.tests[m.Dir]), "%s selects no test", one)
	}
}

// pattern selects the tests that find the mutant.
func (m mutant) pattern() string { return cmp.Or(m.Run, "Sweep") }

// runner compiles and runs tests.
type runner struct {
	root, dir string
	clean     map[mutant]string // test programs without a mutant
	passed    map[string]bool   // runs of them that passed
	tests     map[string]string // the tests of each package, one a line
}

// efforts are the settings of the sweeps, which are tried one after the other: in a
// short run a sweep takes a part of its table for each seed, in the last one all of it.
var efforts = [][]string{{"RW_SEED=1", "RW_LONG="}, {"RW_SEED=2", "RW_LONG="}, {"RW_SEED=3", "RW_LONG="}, {"RW_SEED=1", "RW_LONG=10"}, {"RW_SEED=1", "RW_LONG=1"}}

// judge runs the tests with the mutant until one fails, which must pass without it.
func (r *runner) judge(m mutant) (caught string, err error) {
	bin, err := r.build(m, "mutant")
	if err != nil {
		return "", err
	}
	pattern := m.pattern()
	for _, effort := range efforts {
		failed, err := r.run(m, bin, pattern, effort)
		if errors.Is(err, errEndless) { // the load of the machine may be the reason
			failed, err = r.run(m, bin, pattern, effort)
		}
		if err == nil {
			continue
		}
		if failed != "" {
			pattern = only(failed)
		}
		if err := r.passes(m, pattern, effort); err != nil {
			return "", fmt.Errorf("the tests fail without the mutant: %w", err)
		}
		return cmp.Or(failed, err.Error()), nil
	}
	return "", errors.New("no sweep catches it")
}

// only is the pattern of one test.
func only(test string) string {
	parts := strings.Split(test, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// passes returns an error if the tests fail without a mutant.
func (r *runner) passes(m mutant, pattern string, effort []string) error {
	tests := mutant{Dir: m.Dir, Race: m.Race}
	key := fmt.Sprint(tests, pattern, effort)
	if r.passed[key] {
		return nil
	}
	if r.clean[tests] == "" {
		bin, err := r.build(tests, fmt.Sprintf("clean-%d", len(r.clean)))
		if err != nil {
			return err
		}
		r.clean[tests] = bin
	}
	if failed, err := r.run(tests, r.clean[tests], pattern, effort); err != nil {
		return fmt.Errorf("%s: %w", failed, err)
	}
	r.passed[key] = true
	return nil
}

// build compiles the tests with a mutant, or without one if its file is empty.
func (r *runner) build(m mutant, name string) (bin string, err error) {
	bin = filepath.Join(r.dir, name)
	args := []string{"test", "-c", "-vet=off", "-o", bin}
	if m.File != "" {
		overlay, err := m.overlay(r.root, r.dir)
		if err != nil {
			return "", err
		}
		args = append(args, "-overlay", overlay)
	}
	if m.Race {
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, ".")...)
	build.Dir = filepath.Join(r.root, m.Dir)
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("does not compile: %w\n%s", err, out)
	}
	return bin, nil
}

var errEndless = errors.New("runs that do not end")

var failLine = regexp.MustCompile(`^\s*--- FAIL: (\S+)`)

// run runs tests until one fails, and returns its name. There is none if the tests
// crash or do not end within the limit.
func (r *runner) run(m mutant, bin, pattern string, effort []string) (failed string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), *limit)
	defer cancel()
	test := exec.CommandContext(ctx, bin, "-test.v", "-test.run", pattern)
	test.Dir = filepath.Join(r.root, m.Dir)
	test.Env = append(os.Environ(), effort...)
	out, err := test.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := test.Start(); err != nil {
		return "", err
	}
	lines := bufio.NewReader(out)
	for failed == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		if found := failLine.FindStringSubmatch(line); found != nil {
			failed = found[1]
			cancel() // it fails: what comes after makes no difference
		}
	}
	err = test.Wait()
	switch {
	case failed == "" && ctx.Err() != nil:
		return "", errEndless
	case failed == "" && err != nil:
		return "", fmt.Errorf("a crash of the tests: %w", err)
	}
	return failed, err
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

// TestMutantsAreListed checks that docs/durability.md has a row for each mutant.
func TestMutantsAreListed(t *testing.T) {
	table := "| point | fault | place |\n|---|---|---|\n"
	for _, m := range mutants {
		table += fmt.Sprintf("| %d | %s | %s |\n", m.Point, m.Fault, m.File)
	}
	page := testbed.Must(os.ReadFile("../../docs/durability.md"))(t)
	testbed.Expect(t, strings.Contains(string(page), table), "docs/durability.md does not have this table:\n%s", table)
}
