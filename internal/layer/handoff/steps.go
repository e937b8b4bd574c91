package handoff

import (
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/visible"
)

// isDone reports whether nothing is left to do for a step.
func isDone(st handoff.Step) bool {
	switch strings.ToLower(strings.TrimSpace(st.Status)) {
	case "done", "complete":
		return true
	}
	return false
}

// checkSteps refuses a graph that cannot be worked through: two steps with one
// name, a step that depends on none there is, steps that wait for each other.
func checkSteps(steps []handoff.Step) *fault.Fault {
	index := make(map[string]int, len(steps))
	for i, st := range steps {
		if st.ID == "" {
			return fault.New(fault.InvalidArgument).With("argument", "envelope.dependency_graph").Hintf("every step of dependency_graph needs an id")
		}
		if _, known := index[st.ID]; known {
			return fault.New(fault.DuplicateStep).With("id", shortName(st.ID)).Hintf("two steps have the id %s; give each its own", shortName(st.ID))
		}
		index[st.ID] = i
	}
	for _, st := range steps {
		for _, on := range st.DependsOn {
			if _, known := index[on]; !known {
				return fault.New(fault.UnknownStep).With("id", shortName(st.ID)).With("depends_on", shortName(on)).
					Hintf("step %s depends on %s, which is not in dependency_graph", shortName(st.ID), shortName(on))
			}
		}
	}
	if cycle := findCycle(steps, index); len(cycle) > 0 {
		return fault.New(fault.DependencyCycle).With("cycle", cycle).Hintf("these steps depend on each other in a cycle: %s", strings.Join(cycle, " → "))
	}
	return nil
}

// maxCycle is how many names of a cycle are reported.
const maxCycle = 20

// findCycle returns the names on a cycle of the graph, or nil if there is none.
func findCycle(steps []handoff.Step, index map[string]int) []string {
	const (
		untouched = iota
		open
		closed
	)
	state := make([]int, len(steps))
	var way []int
	var visit func(at int) []string
	visit = func(at int) []string {
		if state[at] == open {
			var names []string
			for _, step := range way[slices.Index(way, at):] {
				names = append(names, shortName(steps[step].ID))
			}
			if len(names) > maxCycle {
				names = append(names[:maxCycle-1:maxCycle-1], "…")
			}
			return append(names, shortName(steps[at].ID))
		}
		state[at], way = open, append(way, at)
		for _, name := range steps[at].DependsOn {
			if to, known := index[name]; known && state[to] != closed {
				if cycle := visit(to); cycle != nil {
					return cycle
				}
			}
		}
		state[at], way = closed, way[:len(way)-1]
		return nil
	}
	for start := range steps {
		if state[start] == untouched {
			if cycle := visit(start); cycle != nil {
				return cycle
			}
		}
	}
	return nil
}

// shortName is a name that a caller made up, as an error may show it.
func shortName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	return visible.Cut(s, 60)
}

// ready returns the steps that can be worked on now: a step that is not done and whose
// dependencies are all done. A step whose dependency is not in the graph waits.
func ready(steps []handoff.Step) []string {
	done := map[string]bool{}
	for i := range steps {
		if isDone(steps[i]) {
			done[steps[i].ID] = true
		}
	}
	list := []string{}
	for i := range steps {
		free := !isDone(steps[i])
		for _, on := range steps[i].DependsOn {
			free = free && done[on]
		}
		if free {
			list = append(list, steps[i].ID)
		}
	}
	return list
}
