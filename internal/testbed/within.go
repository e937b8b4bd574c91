package testbed

import (
	"sync"
	"testing"
	"time"
)

// Within starts a measurement, and end fails the test if more processor time than limit
// was used since. It is for work that costs far more than the limit when it is done the
// wrong way. Time in which the process did not run does not count. On a machine that
// runs Go code slower than usual, or under the race detector, the limit grows
// accordingly. The time of other goroutines counts.
func Within(t testing.TB, limit time.Duration, what string) (end func()) {
	t.Helper()
	limit = time.Duration(float64(limit) * slowness())
	began := processorTime()
	return func() {
		t.Helper()
		if took := processorTime() - began; took > limit {
			t.Errorf("%s took %v of processor time, more than %v", what, took, limit)
		}
	}
}

// usual is the time of the reference work on a machine of 2024.
const usual = time.Millisecond

// slowness is how many times as long as usual Go code takes here, at least 1.
var slowness = sync.OnceValue(slownessNow)

// slownessNow measures it anew.
func slownessNow() float64 {
	best := time.Hour
	for range 5 {
		began := processorTime()
		yardstick()
		best = min(best, processorTime()-began)
	}
	return max(1, float64(best)/float64(usual))
}

// yardstick is some work of the kind that parsers do.
func yardstick() (sum int) {
	text := make([]byte, 1<<18)
	for i := range text {
		text[i] = byte(i*7 + i>>8)
	}
	seen := map[byte]int{}
	for i, c := range text {
		if c&7 == 0 {
			seen[c] = i
		} else if i > 0 && text[i-1] < c {
			sum++
		}
	}
	return sum + len(seen)
}
