package resilientwrite_test

import (
	"flag"
	"iter"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// The long sweeps run at a tenth, or at the share of their turn, unless -long
// is given or RW_LONG is set: to 1 for their full size, to n for an nth of it.
var long = flag.Bool("long", os.Getenv("RW_LONG") == "1", "run the sweeps at their full size")

func scale(full int) int {
	if *long {
		return full
	}
	if n, err := strconv.Atoi(os.Getenv("RW_LONG")); err == nil && n > 0 {
		return max(1, full/n)
	}
	return max(1, full/10)
}

// short reports whether the sweeps take turns.
func short() bool { return !*long && !testbed.Long() }

// turn is a number that changes from run to run, by which the sweeps of a short run
// alternate: different runs visit different operations. RW_SEED repeats a run; a failed
// run prints it.
var turn = sync.OnceValue(func() uint64 {
	if seed, err := strconv.ParseUint(os.Getenv("RW_SEED"), 10, 64); err == nil {
		return seed
	}
	return uint64(time.Now().UnixNano())
})

// stride is the distance between the operations at which a sweep stops, short in a
// longer run, twice that in a short one. Under the race detector, which checks something
// else and makes everything ten times slower, it is four times that.
func stride(short int) int {
	switch {
	case *long:
		return 1
	case testbed.Long():
		return short
	case raceDetector:
		return 4 * short
	}
	return 2*short + 1 // odd, so that sweeps with two kinds of operations visit both
}

// turns is the stride of a sweep that takes every operation in a long run, and
// every nth of them in a short one. It has no divisor in common with the errors.
func turns(n int) int {
	if !short() {
		return 1
	}
	return n
}

// phase is the first operation of a sweep that takes every stepth.
func phase(step int) int {
	if !short() || step < 2 {
		return 0
	}
	return int(turn() % uint64(step))
}

// someLosses are the seeds of the disks that a sweep checks after operation n: the
// first of full in a long run, else a sixtieth of them, others for each operation and
// in each run.
func someLosses(full, n int) iter.Seq[uint64] {
	count, first := scale(full), uint64(0)
	if short() {
		count = max(1, full/60)
		first = turn() + uint64(n*count)
	}
	return func(yield func(uint64) bool) {
		for i := range uint64(count) {
			if !yield((first + i) % uint64(full)) {
				return
			}
		}
	}
}

// errorsOfASweep are the errors of one pass over the operations: each alone in
// a long run, in turns in a short one.
func errorsOfASweep() [][]syscall.Errno {
	if !short() {
		return [][]syscall.Errno{{syscall.EIO}, {syscall.ENOSPC}}
	}
	if turn()%2 == 0 {
		return [][]syscall.Errno{{syscall.EIO, syscall.ENOSPC}}
	}
	return [][]syscall.Errno{{syscall.ENOSPC, syscall.EIO}}
}
