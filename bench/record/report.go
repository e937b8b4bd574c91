//go:build linux

package main

import "fmt"

func (b *results) text() string {
	out := ""
	for _, c := range b.cells {
		lo, hi := wilson(c.Lost, c.Trials)
		out += fmt.Sprintf("%-4s %-15s %-7s n=%d faults=%d right=%d lost=%d [%.3f %.3f] broken=%d calls=%d wasted=%d tries=%d waits=%d wall=%v model=%v %v\n",
			c.Scenario, c.Arm, c.Agent, c.Trials, c.Faults, c.Right, c.Lost, lo, hi, c.Broken, c.Calls, c.Wasted, c.Tries, c.Waits, median(c.wall), median(c.modeled), c.Counts)
	}
	return out
}
func (b *results) markdown() string { return "" }
func (b *results) plot() string     { return "" }
