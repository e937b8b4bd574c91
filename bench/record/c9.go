//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
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
	Line  string `json:"line"`
	Done  bool   `json:"done"` // the tool reported success
	Trial trial  `json:"trial"`
}

// racer is the order for one writer.
type racer struct {
	Seed    uint64 `json:"seed"`
	ID      int    `json:"id"`
	Round   int    `json:"round"`
	Who     agent  `json:"who"`
	Updates int    `json:"updates"`
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
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var cmds []*exec.Cmd
	var outs []*bytes.Buffer
	for id := range writers {
		arg, err := json.Marshal(racer{r.seed, id, n, r.who, count})
		if err != nil {
			return err
		}
		cmd, out := exec.CommandContext(r.ctx, self), &bytes.Buffer{}
		cmd.Env = append(os.Environ(), jobEnv+"=count", armEnv+"="+r.arm, dirEnv+"="+r.dir, levelEnv+"="+r.s.level, argEnv+"="+string(arg))
		cmd.Stdout, cmd.Stderr = out, os.Stderr
		if err := cmd.Start(); err != nil {
			return err
		}
		cmds, outs = append(cmds, cmd), append(outs, out)
	}
	for _, cmd := range cmds {
		if werr := cmd.Wait(); werr != nil {
			err = werr
		}
	}
	if err != nil {
		return fmt.Errorf("a writer: %w", err)
	}
	return r.countBoard(outs, add)
}

// countBoard compares the file with the acknowledged updates.
func (r *ring) countBoard(outs []*bytes.Buffer, add func(trial)) error {
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
	for id, out := range outs {
		var list []tally
		if err := json.Unmarshal(out.Bytes(), &list); err != nil {
			return err
		}
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

// countUp is the main function of one writer.
func countUp(arg string) error {
	var me racer
	if err := json.Unmarshal([]byte(arg), &me); err != nil {
		return err
	}
	t, err := openArm(os.Getenv(armEnv), os.Getenv(dirEnv), os.Getenv(levelEnv))
	if err != nil {
		return err
	}
	d := dice(me.Seed, "C9", me.Round*writers+me.ID)
	var list []tally
	for i := range me.Updates {
		line := fmt.Sprintf("round %d writer %d line %d", me.Round, me.ID, i)
		think := time.Duration(d.IntN(2000)) * time.Microsecond
		list = append(list, update(t, me.Who, line, think))
	}
	if err := json.NewEncoder(os.Stdout).Encode(list); err != nil {
		return err
	}
	return closeTool(t)
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
