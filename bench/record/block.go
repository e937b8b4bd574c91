//go:build linux

package main

import (
	"fmt"
	"strings"
	"time"
)

// The block is the part that both pages contain, byte for byte: the plot, the
// table and how to read them.

const (
	blockBegin = "<!-- Made by `cd bench && go run ./record`, up to the end mark. Do not edit. -->"
	blockEnd   = "<!-- end of what is made -->"

	// Around the table of shell commands in benchmark-record.md and around.md.
	shellBegin = "<!-- Made by `cd bench && go run ./record -shell` too. Do not edit. -->"
	shellEnd   = "<!-- end of the shell commands -->"
)

// block returns that part without its marks.
func (b *results) block() string {
	parts := []string{
		b.provenance(),
		"![The three ways to write, and the figures of the literature](benchmark-record.svg)",
		strings.TrimSpace(b.summary().markdown()),
		strings.TrimSpace(readTotals),
		b.verdict(),
	}
	return strings.Join(parts, "\n\n")
}

// provenance describes when, on what and with how many trials the figures were
// measured.
func (b *results) provenance() string {
	trials := 0
	for _, c := range b.cells {
		trials += c.Trials
	}
	out := fmt.Sprintf("Measured %s with seed %d in %.0f seconds: %d trials in %d cells, on %s, where one durable replace of 4 KiB takes %.1f ms (median of 50, by the defensive arm, nothing beside it).",
		time.Now().Format("2006-01-02"), b.seed, b.took.Seconds(), trials, len(b.cells), host(), 1000*b.anchor.Seconds())
	switch {
	case b.smoke:
		return "**A smoke run: a few trials of everything, in memory, so that the page has its form. Its figures say nothing.** " + out
	case !b.whole():
		return "**A part of the benchmark, or with fewer trials than it is worth.** " + out
	}
	return out
}

// whole reports whether a run is the complete benchmark.
func (s *settings) whole() bool { return s.scenario == "" && s.trials == 0 && !s.smoke }

// verdict describes, from the figures, where resilientwrite is better than the
// system of the literature and where it is not, and in which cells it lost
// data.
func (b *results) verdict() string {
	t, theirs := b.sum("resilientwrite", string(guided)), literature[2]
	var better, worse []string
	put := func(is bool, text string) {
		if is {
			better = append(better, text)
		} else {
			worse = append(worse, text)
		}
	}
	put(t.Modeled.Seconds() < theirs.recovery, fmt.Sprintf("recovery (%s, %g s)", seconds(t.Modeled), theirs.recovery))
	put(100*t.LossHi < theirs.loss, fmt.Sprintf("data loss (%s given a fault, and with 95 %% certainty below %.2f %%; %g %% by estimate)", percent(t.Loss), 100*t.LossHi, theirs.loss))
	put(100*t.Right > theirs.right, fmt.Sprintf("self-correction (%s, %g %% by estimate)", percent(t.Right), theirs.right))
	put(100*t.Wasted < theirs.wasted, fmt.Sprintf("wasted calls (%s, %g %%)", percent(t.Wasted), theirs.wasted))
	list := func(of []string) string {
		if len(of) == 0 {
			return "nothing"
		}
		return strings.Join(of, ", ")
	}
	return fmt.Sprintf("The aim was to be better than every figure of the literature, including that of its own system. With the guided agent resilientwrite is better in: %s. It is **not** better in: %s.\n\nBytes that resilientwrite itself lost: %s. Of the credentials of C7 it left on disk: %s.",
		list(better), list(worse), list(b.losses()), b.leaks())
}

// losses returns the cells in which resilientwrite lost data.
func (b *results) losses() []string {
	var list []string
	for _, c := range b.cells {
		if c.Arm == "resilientwrite" && c.Lost > 0 {
			list = append(list, fmt.Sprintf("%s %s %d of %d", c.Scenario, c.Agent, c.Lost, c.Trials))
		}
	}
	return list
}

func (b *results) leaks() string {
	leaked, of := 0, 0
	for _, c := range b.cells {
		if c.Arm == "resilientwrite" {
			leaked, of = leaked+c.Counts["leaked"], of+c.Counts["secrets"]
		}
	}
	return fmt.Sprintf("%d of %d", leaked, of)
}
