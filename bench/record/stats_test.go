//go:build linux

package main

import (
	"math"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestWilsonAgainstPublishedValues checks the examples of Newcombe (1998),
// method 3, and the ends of the scale.
func TestWilsonAgainstPublishedValues(t *testing.T) {
	for _, c := range []struct {
		hits, n   int
		low, high float64
	}{
		{81, 263, 0.2553, 0.3662}, {15, 148, 0.0624, 0.1605}, {0, 20, 0, 0.1611}, {1, 29, 0.0061, 0.1718},
		{29, 29, 0.8830, 1}, {5, 10, 0.2366, 0.7634}, {0, 0, 0, 1},
	} {
		low, high := wilson(c.hits, c.n)
		testbed.Expect(t, math.Abs(low-c.low) <= 0.00006 && math.Abs(high-c.high) <= 0.00006, "%d of %d: %.4f to %.4f, want %.4f to %.4f", c.hits, c.n, low, high, c.low, c.high)
	}
	for n := 1; n <= 60; n++ {
		for hits := 0; hits <= n; hits++ {
			low, high := wilson(hits, n)
			p := share(hits, n)
			testbed.Require(t, low <= p+1e-12 && high >= p-1e-12 && low >= 0 && high <= 1, "%d of %d: %v to %v", hits, n, low, high)
			otherLow, otherHigh := wilson(n-hits, n)
			testbed.Require(t, math.Abs(low-(1-otherHigh)) <= 1e-12 && math.Abs(high-(1-otherLow)) <= 1e-12, "%d of %d is no mirror of the others", hits, n)
		}
	}
}

func TestMedian(t *testing.T) {
	for _, c := range []struct {
		list []time.Duration
		want time.Duration
	}{{nil, 0}, {[]time.Duration{7}, 7}, {[]time.Duration{9, 1, 5}, 5}, {[]time.Duration{8, 2, 4, 6}, 5}} {
		testbed.Equal(t, median(c.list), c.want, c.list)
	}
	list := []time.Duration{3, 1, 2}
	median(list)
	testbed.Expect(t, list[0] == 3, "the list was sorted under its owner")
}

// TestCellCounts checks what counts as a fault, and which times count.
func TestCellCounts(t *testing.T) {
	c := &cell{}
	c.add(trial{Calls: 1}) // nothing went wrong
	c.add(trial{Fault: true, Right: true, Calls: 3, Wasted: 1, Tries: 2, Waits: 1, Wall: 10 * time.Millisecond, Counts: map[string]int{"x": 2}})
	c.add(trial{Fault: true, Lost: true, Broken: true, Calls: 5, Wasted: 4, Tries: 5, Wall: time.Hour, Counts: map[string]int{"x": 1}})
	c.add(trial{Right: true, Calls: 1}) // right, but not a recovery
	testbed.Expect(t, c.Trials == 4 && c.Faults == 2 && c.Right == 1 && c.Lost == 1 && c.Broken == 1 && c.Calls == 10 && c.Wasted == 5 && c.Tries == 7 && c.Counts["x"] == 3, "%+v", *c)
	testbed.Expect(t, len(c.wall) == 1 && c.modeled[0] == 10*time.Millisecond+callTime+waitTime, "times %v %v", c.wall, c.modeled)
}

// TestTotalsWeighCellsAlike: a cell of a thousand trials weighs no more than
// one of ten. Scenarios that do not measure loss are left out of it.
func TestTotalsWeighCellsAlike(t *testing.T) {
	total := sum([]*cell{
		{Trials: 1000, Faults: 1000, Right: 1000, Calls: 1000, wall: []time.Duration{time.Second}, modeled: []time.Duration{2 * time.Second}},
		{Trials: 10, Faults: 10, Lost: 10, Broken: 5, Calls: 10, Wasted: 5},
		{Trials: 10, NoLoss: true, Broken: 10, Calls: 10},
	}, func(c *cell) bool { return c.Trials == 10 })
	testbed.Expect(t, total.Loss == 0.5 && total.LostTrials == 10 && total.LossAsked == 1010 && total.Broken == 0.25 && total.Right == 0.5 && math.Abs(total.Wasted-0.5/3) <= 1e-12, "%+v", total)
	testbed.Expect(t, total.Wall == time.Second && total.Modeled == 2*time.Second && total.Hopeless == 1 && total.Shared == 0, "%+v", total)
	// A scenario with one cell for all agents counts as much as one with three.
	total = sum([]*cell{
		{Scenario: "a", Trials: 10, Lost: 10}, {Scenario: "b", Trials: 10}, {Scenario: "b", Trials: 10, Lost: 3}, {Scenario: "b", Trials: 10, Lost: 3},
	}, func(*cell) bool { return true })
	testbed.Expect(t, math.Abs(total.Loss-0.6) <= 1e-12, "a loss of %v, want 0.6", total.Loss)
}

// TestTheIntervalOfTotalsAgainstPublishedValues: the difference of 56 of 70 and
// 48 of 80 is between 0.0524 and 0.3339 (Newcombe 1998, method 10). The
// complement of 48 of 80 is 32 of 80, and a mean is half of a sum. Within a
// scenario, measuring three times does not narrow the interval.
func TestTheIntervalOfTotalsAgainstPublishedValues(t *testing.T) {
	one, two := &cell{Scenario: "a", Trials: 70, Lost: 56}, &cell{Scenario: "b", Trials: 80, Lost: 32}
	low, high := lossInterval([]*cell{one, two})
	testbed.Expect(t, math.Abs(low-(1+0.0524)/2) <= 0.00006 && math.Abs(high-(1+0.3339)/2) <= 0.00006, "%.4f to %.4f", low, high)
	low, high = lossInterval([]*cell{one, one, one})
	l, h := wilson(56, 70)
	testbed.Expect(t, math.Abs(low-l) <= 1e-12 && math.Abs(high-h) <= 1e-12, "one cell three times: %.4f to %.4f", low, high)
	if low, high = lossInterval(nil); low != 0 || high != 1 {
		t.Errorf("of nothing: %v to %v", low, high)
	}
}

func TestQuantile(t *testing.T) {
	list := []time.Duration{40, 10, 30, 20, 50}
	for q, want := range map[float64]time.Duration{0: 10, 0.25: 20, 0.5: 30, 0.625: 35, 0.75: 40, 1: 50} {
		testbed.Equal(t, quantile(list, q), want, q)
	}
}

// TestDiceAreTheSameForAllArms: the numbers of a trial depend on seed,
// scenario and trial, and on each of them.
func TestDiceAreTheSameForAllArms(t *testing.T) {
	seen := map[uint64]string{}
	for _, scenario := range []string{"C1", "C2"} {
		for seed := range uint64(3) {
			for n := range 50 {
				v := dice(seed, scenario, n).Uint64()
				testbed.Require(t, v == dice(seed, scenario, n).Uint64(), "not the same twice")
				other, ok := seen[v]
				testbed.Require(t, !ok, "%s %d %d is also %s", scenario, seed, n, other)
				seen[v] = scenario
			}
		}
	}
	a, b := prose(dice(1, "a", 1), 5000), prose(dice(1, "a", 2), 5000)
	testbed.Expect(t, a != b && len(a) == 5000 && a[:30] != b[:30], "two drafts look alike")
	testbed.Expect(t, len(prose(dice(1, "a", 3), 3<<20)) == 3<<20, "a long draft has another length")
}
