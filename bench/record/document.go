//go:build linux

package main

import (
	"fmt"
	"strings"
)

// markdown returns docs/benchmark-record.md.
func (b *results) markdown() string {
	var out strings.Builder
	p := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	p("<!-- Made by `cd bench && go run ./record`. Do not edit. -->")
	p("# The benchmark of record")
	p("")
	p("Ten ways in which writing goes wrong, three ways to write, three kinds of agents.")
	p("")
	p("`cd bench && go run ./record` measures all of it again and writes this page, its plot and its part of benchmark.md; `-seed`, `-trials`, `-scenario C3,C6`, `-out` and `-smoke` are there for parts of it. It needs Linux.")
	p("")
	p("## All of it in one table")
	p("")
	p("%s\n\n%s\n\n%s", blockBegin, b.block(), blockEnd)
	p("")
	p("The other figures of the totals:")
	p("")
	p("%s", strings.TrimSpace(b.totals().markdown()))
	p("")
	p("## By agent")
	p("")
	p("%s", strings.TrimSpace(b.byAgent().markdown()))
	p("")
	p("## Where the others do as well, or better")
	p("")
	p("%s", strings.TrimSpace(readEquals))
	p("")
	p("%s", strings.TrimSpace(b.equals().markdown()))
	p("")
	p("## The scenarios")
	for i := range b.done {
		s := &b.done[i]
		p("\n### %s %s", s.id, s.name)
		p("")
		p("Fault: %s.", s.fault)
		p("")
		p("Must hold: %s.", s.oracle)
		p("")
		p("resilientwrite at level `%s`.%s", s.level, s.remark())
		p("")
		p("%s", strings.TrimSpace(b.one(s).markdown()))
	}
	p("")
	p("## Shell commands")
	p("")
	p("%s", strings.TrimSpace(readShell))
	p("")
	p("%s\n\n%s\n\n%s\n", shellBegin, strings.TrimSpace(b.shell), shellEnd)
	p("%s", strings.TrimSpace(method))
	return out.String()
}

// remark returns what a reader must know about the figures of a scenario.
func (s *scenario) remark() string {
	out := ""
	if s.unsteady {
		out += " What is found depends on the moment, so it differs from run to run."
	}
	if s.timeless {
		out += " The agents do not differ: what they see is a call without an answer, and all of them send it again. There is no time on that disk, so none is given."
	}
	if s.caveat != "" {
		out += " " + s.caveat
	}
	if s.repeats {
		out += " It asks what another scenario asks, and counts in no total."
	}
	return out
}

// summary compares the arms with the literature.
func (b *results) summary() *grid {
	g := &grid{head: []string{"", "", "recovery", "where every arm recovers", "data loss", "95 % interval", "self-correction", "wasted calls"}}
	for _, view := range views {
		for _, arm := range armNames {
			t := b.sum(arm, view.agent)
			g.add(view.name, arm, seconds(t.Modeled), seconds(t.Shared), percent(t.Loss), interval(t.LossLow, t.LossHi), percent(t.Right), percent(t.Wasted))
		}
	}
	for i, name := range []string{"naive", "defensive", "their system"} {
		l := literature[i]
		g.add("literature", name, fmt.Sprintf("%g s", l.recovery), none, fmt.Sprintf("%g %% *", l.loss), none, fmt.Sprintf("%g %% *", l.right), fmt.Sprintf("%g %%", l.wasted))
	}
	return g
}

// views are the two views of the arms: with the agent that does what a tool
// says, and with all of them.
var views = []struct{ name, agent string }{{"guided agent", string(guided)}, {"mean of all agents", ""}}
