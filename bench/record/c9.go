//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
)

const (
	writers = 4
	updates = 25 // of each writer
)

var concurrency = scenario{
	id: "C9", name: "concurrency", level: "full", trials: 4, smoke: 1, unsteady: true,
	extra:  []extra{{"updates acknowledged", "acknowledged", "wanted"}, {"updates in the file", "effects", "wanted"}, {"stores the check finds fault with", "unexplained", "rounds"}},
	fault:  "4 processes each read one file, think for up to 2 ms, add a line of their own and write the file back, 25 times",
	oracle: "the file ends up with exactly the 100 lines; what a tool acknowledged is there; the journal has no gap",
	run: func(r *ring, add func(trial)) error {
		for n := range r.n {
			if n > 0 {
				if err := r.renew(); err != nil {
					return err
				}
			}
			if err := r.race(n, add); err != nil {
				return err
			}
		}
		return nil
	},
}

// tally is what one writer did with one line.
type tally struct {
	Line  string
	Done  bool // the tool reported success
	Trial trial
}

// racer is the order for one writer.
type racer struct {
	Seed      uint64
	ID, Round int
	Who       agent
	Updates   int
}

const board = "board.txt"

// race runs the writers of one round and counts which of their lines remain.
func (r *ring) race(n int, add func(trial)) error {
	count := updates
	if r.small {
		count = 5
	}
	if err := r.put(board, "the board\n"); err != nil {
		return err
	}
	var procs []*proc
	for range writers {
		p, err := startProc(r.arm, r.dir, r.s.level)
		if err != nil {
			return err
		}
		defer p.kill()
		procs = append(procs, p)
	}
	lists, errs := make([][]tally, writers), make([]error, writers)
	var all sync.WaitGroup
	for id, p := range procs {
		all.Go(func() {
			errs[id] = p.ask(order{Do: "race", Race: racer{r.seed, id, n, r.who, count}}, &lists[id])
			p.stop()
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("a writer: %w", err)
	}
	return r.countBoard(lists, add)
}

// countBoard compares the file with the acknowledged updates.
func (r *ring) countBoard(lists [][]tally, add func(trial)) error {
	text, _, err := r.content(board)
	if err != nil {
		return err
	}
	found := map[string]int{}
	for line := range strings.Lines(text) {
		found[strings.TrimSuffix(line, "\n")]++
	}
	clean, err := r.explained()
	if err != nil {
		return err
	}
	for id, list := range lists {
		for i, l := range list {
			t := l.Trial
			t.Lost = l.Done && found[l.Line] != 1
			t.Broken = t.Lost || found[l.Line] > 1
			t.Right = l.Done && found[l.Line] == 1
			t.Fault = t.Fault || t.Lost
			t.Counts = map[string]int{"effects": found[l.Line], "acknowledged": btoi(l.Done), "wanted": 1, "rounds": btoi(id+i == 0), "unexplained": btoi(id+i == 0 && !clean)}
			add(t)
		}
	}
	return nil
}

// explained reports whether the tool's own check is clean: the journal has no
// gap, and the files match it.
func (r *ring) explained() (bool, error) {
	t, err := r.tool()
	if err != nil {
		return false, err
	}
	defer closeTool(t)
	return inspect(t).Clean, nil
}

// run makes the updates of one writer.
func (me racer) run(t tool) (list []tally) {
	d := dice(me.Seed, "C9", me.Round*writers+me.ID)
	for i := range me.Updates {
		line := fmt.Sprintf("round %d writer %d line %d", me.Round, me.ID, i)
		think := time.Duration(d.IntN(2000)) * time.Microsecond
		list = append(list, update(t, me.Who, line, think))
	}
	return list
}

// update does one read, one pause and one write, until the write succeeds.
func update(t tool, who agent, line string, think time.Duration) tally {
	w := &run{ctx: context.Background(), who: who, tool: t}
	got := w.send(call{Verb: read, Path: board})
	c := call{Verb: write, Path: board, Replace: true, Key: line}
	apply := func(old string) string {
		time.Sleep(think)
		if strings.Contains(old, line+"\n") {
			return old
		}
		return old + line + "\n"
	}
	done := false
	if got.OK {
		c.Text, c.Prev = apply(got.Body), got.Hash
		done = w.pursue(task{call: c, apply: apply})
	}
	return tally{Line: line, Done: done, Trial: w.finish(done, false, false)}
}
