//go:build linux

package main

import (
	"math"
	"slices"
	"time"
)

// wilson is the Wilson score interval of hits in n trials, at 95 %. Nothing is
// known of nothing: n = 0 gives 0 to 1.
func wilson(hits, n int) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	const z = 1.959963984540054
	p, m := float64(hits)/float64(n), float64(n)
	middle := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return max(0, middle-half), min(1, middle+half)
}

// share is hits of n; 0 of nothing.
func share(hits, n int) float64 {
	if n == 0 {
		return 0
	}
	return float64(hits) / float64(n)
}

func median(list []time.Duration) time.Duration {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Clone(list)
	slices.Sort(sorted)
	mid := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[mid]
	}
	return (sorted[mid-1] + sorted[mid]) / 2
}

func mean(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	sum := 0.0
	for _, v := range list {
		sum += v
	}
	return sum / float64(len(list))
}

// cell is everything that was found for one scenario, arm and agent.
type cell struct {
	Scenario string `json:"scenario"`
	Arm      string `json:"arm"`
	Agent    string `json:"agent"`
	Trials   int    `json:"trials"`
	Faults   int    `json:"faults"` // trials in which something went wrong for the agent
	Right    int    `json:"right"`  // of those
	Lost     int    `json:"lost"`   // trials
	Broken   int    `json:"broken"` // trials
	Calls    int    `json:"calls"`
	Wasted   int    `json:"wasted"`
	Tries    int    `json:"tries"` // calls from the first one that failed
	Waits    int    `json:"waits"`
	NoLoss   bool   `json:"no_loss"` // the scenario does not ask for loss
	// Counts are what one scenario counts beyond that.
	Counts map[string]int `json:"counts,omitempty"`

	wall, modeled []time.Duration // of the trials that ended right
}

// add counts one trial.
func (c *cell) add(t trial) {
	c.Trials++
	c.Calls += t.Calls
	c.Wasted += t.Wasted
	c.Waits += t.Waits
	count := func(into *int, yes bool) {
		if yes {
			*into++
		}
	}
	count(&c.Lost, t.Lost)
	count(&c.Broken, t.Broken)
	count(&c.Faults, t.Fault)
	count(&c.Right, t.Fault && t.Right)
	if t.Fault {
		c.Tries += t.Tries
	}
	if t.Fault && t.Right {
		c.wall, c.modeled = append(c.wall, t.Wall), append(c.modeled, t.modeled())
	}
	for k, v := range t.Counts {
		if c.Counts == nil {
			c.Counts = map[string]int{}
		}
		c.Counts[k] += v
	}
}

// total are the figures of several cells, each with the same weight.
type total struct {
	Wall, Modeled         time.Duration // mean of the cells' medians, over cells in which somebody recovered
	Hopeless              int           // cells in which nobody recovered
	Loss, LossLow, LossHi float64       // mean of the cells; the interval is that of the trials together
	Broken                float64
	Right, Wasted, Tries  float64
	LostTrials, LossAsked int
	Cells                 int
}

// sum adds cells up.
func sum(cells []*cell) total {
	var out total
	var wall, modeled, loss, broken, right, wasted, tries []float64
	for _, c := range cells {
		out.Cells++
		if len(c.wall) > 0 {
			wall, modeled = append(wall, median(c.wall).Seconds()), append(modeled, median(c.modeled).Seconds())
		}
		out.Hopeless += btoi(c.Faults > 0 && c.Right == 0)
		if !c.NoLoss {
			loss, broken = append(loss, share(c.Lost, c.Trials)), append(broken, share(c.Broken, c.Trials))
			out.LostTrials += c.Lost
			out.LossAsked += c.Trials
		}
		if c.Faults > 0 {
			right = append(right, share(c.Right, c.Faults))
			tries = append(tries, share(c.Tries, c.Faults))
		}
		wasted = append(wasted, share(c.Wasted, c.Calls))
	}
	seconds := func(v float64) time.Duration { return time.Duration(v * float64(time.Second)) }
	out.Wall, out.Modeled = seconds(mean(wall)), seconds(mean(modeled))
	out.Loss, out.Broken, out.Right, out.Wasted, out.Tries = mean(loss), mean(broken), mean(right), mean(wasted), mean(tries)
	out.LossLow, out.LossHi = wilson(out.LostTrials, out.LossAsked)
	return out
}
