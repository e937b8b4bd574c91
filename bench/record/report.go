//go:build linux

package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// percent formats a share for the tables. A share above zero is never shown as
// zero.
func percent(v float64) string {
	switch {
	case v > 0 && v < 0.0005:
		return "<0.1 %"
	case v > 0.9995 && v < 1:
		return ">99.9 %"
	}
	return fmt.Sprintf("%.1f %%", 100*v)
}

func seconds(d time.Duration) string {
	switch s := d.Seconds(); {
	case s < 0.0001:
		return "<0.0001 s"
	case s < 0.1:
		return fmt.Sprintf("%.4f s", s)
	default:
		return fmt.Sprintf("%.2f s", s)
	}
}

// spreadOf returns the median with the quartiles.
func spreadOf(list []time.Duration) string {
	return fmt.Sprintf("%s (%s–%s)", seconds(median(list)), strings.TrimSuffix(seconds(quantile(list, 0.25)), " s"), strings.TrimSuffix(seconds(quantile(list, 0.75)), " s"))
}

func interval(low, high float64) string {
	return fmt.Sprintf("%.2f–%.2f %%", 100*low, 100*high)
}

const none = "–"

// grid is a table.
type grid struct {
	head []string
	rows [][]string
}

func (g *grid) add(row ...string) { g.rows = append(g.rows, row) }

// markdown returns the table as Markdown.
func (g *grid) markdown() string {
	var b strings.Builder
	line := func(row []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | ")) }
	line(g.head)
	b.WriteString(strings.Repeat("|---", len(g.head)) + "|\n")
	for _, row := range g.rows {
		line(row)
	}
	return b.String()
}

// text returns the table for a terminal.
func (g *grid) text() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{g.head}, g.rows...) {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush()
	return b.String()
}

// of returns the cells of an arm that count in totals; who "" means all agents.
func (b *results) of(arm, who string) []*cell {
	var list []*cell
	for _, c := range b.cells {
		s := b.scenario(c.Scenario)
		if c.Arm == arm && !s.repeats && (who == "" || c.Agent == who || c.Agent == anyAgent) {
			list = append(list, c)
		}
	}
	return list
}

// shared returns a function that reports whether a cell's scenario and agent
// recovered with every arm: times of other cells cannot be compared.
func (b *results) shared() func(*cell) bool {
	arms := map[string]int{}
	for _, c := range b.cells {
		if len(c.wall) > 0 {
			arms[c.Scenario+c.Agent]++
		}
	}
	return func(c *cell) bool { return arms[c.Scenario+c.Agent] == len(armNames) }
}

// sum returns the totals of an arm with one agent, or "" for all.
func (b *results) sum(arm, who string) total { return sum(b.of(arm, who), b.shared()) }

func (b *results) scenario(id string) *scenario {
	i := slices.IndexFunc(b.done, func(s scenario) bool { return s.id == id })
	return &b.done[i]
}

// literature are the figures of arXiv 2604.10842, in the order of the arms.
// Loss and self-correction are estimates of its authors.
var literature = []struct{ recovery, loss, right, wasted float64 }{
	{10, 5, 5, 25}, {5.5, 1, 15, 12.5}, {2, 0.1, 65, 3},
}

var totalHead = []string{"", "recovery, measured", "with 0.4 s a call", "where every arm recovers", "data loss", "95 % interval", "lost trials", "broken on disk", "self-correction", "cells without any", "wasted calls", "attempts"}

func totalRow(name string, t total) []string {
	return []string{name, seconds(t.Wall), seconds(t.Modeled), seconds(t.Shared), percent(t.Loss), interval(t.LossLow, t.LossHi), fmt.Sprintf("%d of %d", t.LostTrials, t.LossAsked),
		percent(t.Broken), percent(t.Right), fmt.Sprintf("%d of %d", t.Hopeless, t.Cells), percent(t.Wasted), fmt.Sprintf("%.1f", t.Tries)}
}

// totals returns one row for each arm, over all agents and scenarios.
func (b *results) totals() *grid {
	g := &grid{head: totalHead}
	for _, arm := range armNames {
		g.add(totalRow(arm, b.sum(arm, ""))...)
	}
	return g
}

func (b *results) byAgent() *grid {
	g := &grid{head: append([]string{"agent"}, totalHead...)}
	for _, who := range agents {
		for _, arm := range armNames {
			g.add(append([]string{string(who)}, totalRow(arm, b.sum(arm, string(who)))...)...)
		}
	}
	return g
}

// one returns the table of one scenario.
func (b *results) one(s *scenario) *grid {
	g := &grid{head: []string{"", "agent", "n", "recovery, measured: median (quartiles)", "with 0.4 s a call", "data loss", "95 % (Wilson)", "broken on disk", "self-correction", "wasted calls", "attempts"}}
	for _, e := range s.extra {
		g.head = append(g.head, e.title)
	}
	for _, arm := range armNames {
		for _, c := range b.cells {
			if c.Arm == arm && c.Scenario == s.id {
				g.add(append([]string{arm}, c.row(s)...)...)
			}
		}
	}
	return g
}

func (c *cell) row(s *scenario) []string {
	wall, modeled := none, none
	if len(c.wall) > 0 && !s.timeless {
		wall, modeled = spreadOf(c.wall), spreadOf(c.modeled)
	}
	loss, ci := none, none
	if !c.NoLoss {
		loss = percent(share(c.Lost, c.Trials))
		ci = interval(wilson(c.Lost, c.Trials))
	}
	right, tries := none, none
	if c.Faults > 0 {
		right, tries = fmt.Sprintf("%s (%d of %d)", percent(share(c.Right, c.Faults)), c.Right, c.Faults), fmt.Sprintf("%.1f", share(c.Tries, c.Faults))
	}
	row := []string{c.Agent, fmt.Sprint(c.Trials), wall, modeled, loss, ci, percent(share(c.Broken, c.Trials)), right, percent(share(c.Wasted, c.Calls)), tries}
	for _, e := range s.extra {
		switch {
		case e.of == "":
			row = append(row, fmt.Sprintf("%.2f", share(c.Counts[e.count], c.Trials)))
		case c.Counts[e.of] == 0:
			row = append(row, none)
		default:
			row = append(row, percent(share(c.Counts[e.count], c.Counts[e.of])))
		}
	}
	return row
}

// text returns everything for a terminal.
func (b *results) text() string {
	var out strings.Builder
	if len(b.done) > 1 {
		fmt.Fprintf(&out, "\nAll scenarios, all agents\n%s\nBy agent\n%s", b.totals().text(), b.byAgent().text())
	}
	for i := range b.done {
		s := &b.done[i]
		fmt.Fprintf(&out, "\n%s %s\n%s", s.id, s.name, b.one(s).text())
	}
	fmt.Fprintf(&out, "\nseed %d, %.0f s\n", b.seed, b.took.Seconds())
	return out.String()
}

// equals lists the cells where another arm does as well as resilientwrite or
// better.
func (b *results) equals() *grid {
	g := &grid{head: []string{"scenario", "agent", "figure", "resilientwrite", "as good or better"}}
	for _, ours := range b.cells {
		if ours.Arm != "resilientwrite" {
			continue
		}
		s := b.scenario(ours.Scenario)
		for _, f := range figures {
			mine, ok := f.of(ours, s)
			if !ok {
				continue
			}
			var others []string
			for _, c := range b.cells {
				if c.Arm == ours.Arm || c.Scenario != ours.Scenario || c.Agent != ours.Agent {
					continue
				}
				if v, ok := f.of(c, s); ok && f.better(v, mine) {
					others = append(others, fmt.Sprintf("%s %s", c.Arm, f.show(v)))
				}
			}
			if len(others) > 0 {
				g.add(s.id, ours.Agent, f.name, f.show(mine), strings.Join(others, ", "))
			}
		}
	}
	return g
}

// figure is one number of a cell that can be compared.
type figure struct {
	name   string
	of     func(c *cell, s *scenario) (v float64, ok bool)
	better func(theirs, mine float64) bool // or as good, if that is worth reporting
	show   func(v float64) string
}

var figures = []figure{
	{"self-correction", func(c *cell, _ *scenario) (float64, bool) { return share(c.Right, c.Faults), c.Faults > 0 },
		func(theirs, mine float64) bool { return theirs >= mine && theirs > 0 }, percent},
	{"recovery with 0.4 s a call", func(c *cell, s *scenario) (float64, bool) {
		return median(c.modeled).Seconds(), len(c.modeled) > 0 && !s.timeless
	}, func(theirs, mine float64) bool { return theirs < 0.98*mine }, func(v float64) string { return seconds(time.Duration(v * float64(time.Second))) }},
	{"data loss", func(c *cell, _ *scenario) (float64, bool) { return share(c.Lost, c.Trials), !c.NoLoss },
		func(theirs, mine float64) bool { return theirs <= mine }, percent},
	{"wasted calls", func(c *cell, _ *scenario) (float64, bool) { return share(c.Wasted, c.Calls), c.Calls > 0 },
		func(theirs, mine float64) bool { return theirs < mine }, percent},
}
