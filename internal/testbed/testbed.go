// Package testbed provides helpers for the tests of several packages: the share
// of a large set that a short run takes, and a place in memory for the
// directories of tests. No command and no library imports it.
package testbed

import (
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/blob"
)

// Long reports whether the tests run at their full size: RW_LONG is set.
func Long() bool { return os.Getenv("RW_LONG") != "" }

// NotRun skips a test that cannot run here and logs the reason. If everything must run
// (RW_CI_FULL is 1) that is a failure.
func NotRun(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("RW_CI_FULL") == "1" {
		t.Fatal("NOT RUN: " + why)
	}
	t.Skip("NOT RUN: " + why)
}

// SkipIf skips a test that cannot run here.
func SkipIf(t testing.TB, cond bool, why string) {
	if cond {
		t.Helper()
		t.Skip(why)
	}
}

// Needs skips a test if a program that it runs is not installed.
func Needs(t testing.TB, program string) {
	t.Helper()
	_, err := exec.LookPath(program)
	SkipIf(t, err != nil, "NOT RUN: "+program+" is not installed")
}

// Seed is another one for each run, which -v shows and a failed test prints; RW_SEED
// repeats a run.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("RW_SEED"), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("RW_SEED=%d", seed)
	return seed
}

// Share returns one of n parts of all, every nth element from a start that
// changes from run to run, so that runs visit everything in turn; RW_SEED
// repeats a run. Elements that sure names are in every share. In a long run
// the share is everything.
func Share[T any](t testing.TB, all []T, n int, sure func(T) bool) []T {
	t.Helper()
	if Long() || n < 2 {
		return all
	}
	start := rand.New(rand.NewPCG(Seed(t), 0)).IntN(n)
	t.Logf("part %d of %d", start, n)
	var share []T
	for i, one := range all {
		if i%n == start || sure != nil && sure(one) {
			share = append(share, one)
		}
	}
	return slices.Clip(share)
}

// Set gives a variable of a package a value until the test ends. The test fails
// if others run beside it.
func Set[T any](t testing.TB, variable *T, value T) {
	t.Setenv("RW_TEST_ALONE", "1") // refused where t.Parallel was called
	before := *variable
	*variable = value
	t.Cleanup(func() { *variable = before })
}

// State gives the stores outside of repositories a directory of the tests in
// place of the user's.
func State() (remove func()) {
	dir, err := os.MkdirTemp("", "rw-state-")
	if err != nil {
		panic(err)
	}
	os.Setenv("XDG_STATE_HOME", dir)
	return func() { os.RemoveAll(dir) }
}

// Main runs the tests of a package with [Memory] and [State], and calls after with the exit
// code when they are done. The garbage collector runs less often, also in the commands that
// the tests run, because it would run all the time with the small heaps of small stores.
// A profile of memory needs -memprofilerate.
// The stores of this process begin without directories of history.
func Main(m *testing.M, after ...func(code int)) {
	blob.OneByOne = true
	runtime.MemProfileRate = 0
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
		os.Setenv("GOGC", "400")
	}
	remove, forget := Memory(), State()
	code := m.Run()
	for _, f := range after {
		f(code)
	}
	remove()
	forget()
	os.Exit(code)
}
