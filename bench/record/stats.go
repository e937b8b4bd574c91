//go:build linux

package main

import (
	"math"
	"slices"
	"time"
)

// wilson returns the Wilson score interval of hits in n trials, at 95 %. For n
// = 0 it is 0 to 1.
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

// share returns hits divided by n, and 0 for n = 0.
func share(hits, n int) float64 {
	if n == 0 {
		return 0
	}
	return float64(hits) / float64(n)
}

func median(list []time.Duration) time.Duration { return quantile(list, 0.5) }

// quantile returns the quantile of a sorted list at the given share,
// interpolated between two values; 0 for an empty list.
func quantile(list []time.Duration, q float64) time.Duration {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Clone(list)
	slices.Sort(sorted)
	at := q * float64(len(sorted)-1)
	low := int(at)
	if low+1 >= len(sorted) {
		return sorted[low]
	}
	return sorted[low] + time.Duration((at-float64(low))*float64(sorted[low+1]-sorted[low]))
}

// cell holds all results for one scenario, arm and agent.
type cell struct {
	Scenario string `json:"scenario"`
	Arm      string `json:"arm"`
	Agent    string `json:"agent"`
	Trials   int    `json:"trials"`
	Faults   int    `json:"faults"` // trials in which the agent met a fault
	Right    int    `json:"right"`  // of those
	Lost     int    `json:"lost"`   // trials
	Broken   int    `json:"broken"` // trials
	Calls    int    `json:"calls"`
	Wasted   int    `json:"wasted"`
	Tries    int    `json:"tries"` // calls since the first failed one
	Waits    int    `json:"waits"`
	NoLoss   bool   `json:"no_loss"` // the scenario does not measure loss
	// Counts are what one scenario counts beyond that.
	Counts map[string]int `json:"counts,omitempty"`

	wall, modeled []time.Duration // of the trials with the right result
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

// total holds the figures of several cells. Every scenario has the same weight,
// however many of the cells are its own.
type total struct {
	Wall, Modeled         time.Duration // mean of the cells' medians, over cells with a recovery
	Shared                time.Duration // as Modeled, over cells with a recovery in every arm
	Hopeless              int           // cells without a recovery
	Loss, LossLow, LossHi float64       // mean of the cells, and its interval
	Broken                float64
	Right, Wasted, Tries  float64
	LostTrials, LossAsked int
	Cells                 int
}

// weighed accumulates a weighted mean.
type weighed struct{ sum, weight float64 }

func (m *weighed) add(v, weight float64) { m.sum, m.weight = m.sum+v*weight, m.weight+weight }

func (m *weighed) mean() float64 {
	if m.weight == 0 {
		return 0
	}
	return m.sum / m.weight
}

func (m *weighed) seconds() time.Duration { return time.Duration(m.mean() * float64(time.Second)) }

// sum adds up cells. shared reports whether a cell had a recovery with every
// arm.
func sum(cells []*cell, shared func(*cell) bool) total {
	var out total
	var wall, modeled, common, loss, broken, right, wasted, tries weighed
	of := map[string]int{}
	for _, c := range cells {
		of[c.Scenario]++
	}
	var asked []*cell
	for _, c := range cells {
		out.Cells++
		w := 1 / float64(of[c.Scenario])
		if len(c.wall) > 0 {
			wall.add(median(c.wall).Seconds(), w)
			modeled.add(median(c.modeled).Seconds(), w)
			if shared(c) {
				common.add(median(c.modeled).Seconds(), w)
			}
		}
		out.Hopeless += btoi(c.Faults > 0 && c.Right == 0)
		if !c.NoLoss {
			asked = append(asked, c)
			loss.add(share(c.Lost, c.Trials), w)
			broken.add(share(c.Broken, c.Trials), w)
			out.LostTrials += c.Lost
			out.LossAsked += c.Trials
		}
		if c.Faults > 0 {
			right.add(share(c.Right, c.Faults), w)
			tries.add(share(c.Tries, c.Faults), w)
		}
		wasted.add(share(c.Wasted, c.Calls), w)
	}
	out.Wall, out.Modeled, out.Shared = wall.seconds(), modeled.seconds(), common.seconds()
	out.Loss, out.Broken, out.Right, out.Wasted, out.Tries = loss.mean(), broken.mean(), right.mean(), wasted.mean(), tries.mean()
	out.LossLow, out.LossHi = lossInterval(asked)
	return out
}

// lossInterval returns the interval, at 95 %, of the mean loss of the
// scenarios. It combines the distances from each cell's share to the ends of
// its Wilson interval. They are added within a scenario, whose cells met the
// same faults, and squared and added between scenarios, which are independent
// (Newcombe's method of recovering variances).
func lossInterval(cells []*cell) (low, high float64) {
	of := map[string]int{}
	for _, c := range cells {
		of[c.Scenario]++
	}
	if len(of) == 0 {
		return 0, 1
	}
	below, above, p := map[string]float64{}, map[string]float64{}, 0.0
	for _, c := range cells {
		w := 1 / float64(of[c.Scenario]*len(of))
		v := share(c.Lost, c.Trials)
		l, h := wilson(c.Lost, c.Trials)
		p += w * v
		below[c.Scenario] += w * (v - l)
		above[c.Scenario] += w * (h - v)
	}
	norm := func(parts map[string]float64) float64 {
		squares := 0.0
		for _, v := range parts {
			squares += v * v
		}
		return math.Sqrt(squares)
	}
	return max(0, p-norm(below)), min(1, p+norm(above))
}
