//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

var sessionLoss = scenario{
	id: "C6", name: "session loss", level: "full", trials: 160, smoke: 4,
	extra:  []extra{{"pieces sent again, per trial", "sent_again", ""}},
	fault:  "the tool and the agent die: half of the time while a large file is written in 10 pieces of 8 KiB, half of the time while a change of 8 files is made; half of the time in the last call of the job, which makes it visible where a tool has such a one, else in one before; there in front of any of the system calls with which the tool changes the disk, each with the same chance, or behind the last one with the answer unsent; a new agent knows the task and nothing of what was done",
	oracle: "only the piece that was in transit is sent again; in the end every file is whole; when the tool is back no part of the large file is seen under its name, and the 8 files are all old or all new",
	run: apart(20, func(r *ring, p *proc, n int) (trial, error) {
		if n%2 == 1 {
			return r.changeLost(p, n)
		}
		return r.piecesLost(p, n)
	}),
}

const (
	pieces  = 10
	members = 8 // files of one change
)

// fate is the moment at which a session ends.
type fate struct {
	step int // the step in which it ends
	call int // system call of the step before which it ends; -1: after all of them, with the reply unsent
}

// fateOf picks a moment: half of the time in the last step, which makes the
// work visible if the tool has such a step, otherwise in one of the earlier
// steps. The moment is before any of the system calls there, which calls counts
// for each step, or after the last one of a step, all with equal probability.
func fateOf(calls []int, d *rand.Rand) fate {
	last := len(calls) - 1
	first, steps := 0, calls[:last]
	if d.IntN(2) == 0 {
		first, steps = last, calls[last:]
	}
	all := 0
	for _, n := range steps {
		all += n + 1
	}
	point := int(d.Float64() * float64(all))
	for i, n := range steps {
		switch {
		case point < n:
			return fate{first + i, point}
		case point == n:
			return fate{first + i, -1}
		}
		point -= n + 1
	}
	return fate{last, -1}
}

// paces is the number of system calls of each step of a job when nothing goes wrong.
type paces struct{ pieces, change []int }

// paces does both jobs, each twice: the first time directories are created that exist
// later.
func (r *ring) paces() (paces, error) {
	return once("steps of "+r.arm, func() (all paces, err error) {
		err = r.elsewhere(func(own *ring, p *proc) error {
			for n := range 2 {
				d := own.dice(2_000_000 + n)
				if all.pieces, err = own.pace(p, own.pieceJob(p, d, fmt.Sprintf("c6/m%03d.txt", n))); err != nil {
					return err
				}
				change, err := own.changeJob(p, d, 900+n)
				if err != nil {
					return err
				}
				if all.change, err = own.pace(p, change); err != nil {
					return err
				}
			}
			return nil
		})
		return all, err
	})
}

// pace returns the number of system calls of each step of a job.
func (r *ring) pace(p *proc, j *sequence) (list []int, err error) {
	for _, c := range j.steps {
		n, err := p.counted(r.ctx, c)
		if err != nil {
			return nil, fmt.Errorf("measuring %s: %w", c.Verb, err)
		}
		list = append(list, n)
	}
	return list, nil
}

// dying makes steps until its fate, and returns how many were made. The step in
// progress when the process died was sent and not answered. The process is dead
// then.
func (r *ring) dying(p *proc, steps []call, f fate) (sent int, err error) {
	for i, c := range steps {
		if i == f.step {
			w, err := p.watched()
			if err != nil {
				return i, err
			}
			p.drop, p.doomed = true, true
			w.observe(f.call)
		}
		rep := p.Call(r.ctx, c)
		if rep.Gone {
			return i + 1, nil
		}
		if !rep.OK {
			return i, fmt.Errorf("step %d: %s", i, rep.Text)
		}
	}
	return len(steps), fmt.Errorf("the process was to die in step %d", f.step)
}

// sequence is a job that takes several calls.
type sequence struct {
	steps  []call
	found  func() (some, all bool)        // how much of what it makes is on the disk
	stored func(sent int) map[string]bool // the texts that are safe after so many steps were sent
	resume func(w *run) bool              // what a new agent does when the job may have been started
}

// interrupted makes the steps of a job up to its fate, and lets a new agent continue.
func (r *ring) interrupted(p *proc, j *sequence, f fate) (*run, trial, error) {
	sent, err := r.dying(p, j.steps, f)
	if err != nil {
		return nil, trial{}, err
	}
	w := r.agent(p)
	w.start()
	if err := p.restart(); err != nil {
		return nil, trial{}, err
	}
	var some, all bool
	var stored map[string]bool
	w.harness(func() {
		some, all = j.found()
		stored = j.stored(sent)
	})
	done := j.resume(w)
	w.end()
	again := 0
	w.waste(func(c call) bool {
		resent := c.Text != "" && stored[c.Text]
		again += btoi(resent)
		return resent
	})
	_, isNew := j.found()
	out := w.finish(done && isNew, !isNew, some && !all)
	out.Counts["sent_again"] = again
	return w, out, p.err
}

func (r *ring) piecesLost(p *proc, n int) (trial, error) {
	pace, err := r.paces()
	if err != nil {
		return trial{}, err
	}
	d := r.dice(n)
	j := r.pieceJob(p, d, fmt.Sprintf("c6/%03d.txt", n))
	_, out, err := r.interrupted(p, j, fateOf(pace.pieces, d))
	return out, err
}

// pieceJob writes a large file.
func (r *ring) pieceJob(t tool, d *rand.Rand, path string) *sequence {
	text := prose(d, pieces*8<<10)
	steps := r.pieceSteps(t, path, cut(text, 8<<10))
	return &sequence{
		steps: steps,
		found: func() (some, all bool) {
			got, there, err := r.content(path)
			return there || err != nil, err == nil && got == text
		},
		stored: func(sent int) map[string]bool { return r.storedPieces(t, path, steps, sent) },
		resume: func(w *run) bool { return w.resume(path, steps) },
	}
}

// pieceSteps returns the calls that write a large file with this tool.
func (r *ring) pieceSteps(t tool, path string, parts []string) []call {
	var steps []call
	for i, part := range parts {
		c := call{Verb: appendTo, Path: path, Text: part, Key: keyed(path, i)}
		switch {
		case t.Has(piece):
			c = call{Verb: piece, Session: sessionOf(call{Path: path}), Index: i + 1, Total: len(parts), Text: part, Key: keyed(path, i)}
		case i == 0:
			c.Verb = write
		}
		steps = append(steps, c)
	}
	if t.Has(piece) {
		steps = append(steps, call{Verb: join, Session: sessionOf(call{Path: path}), Path: path, Key: keyed(path, len(parts))})
	}
	return steps
}

// storedPieces returns the pieces that are safe after the tool was restarted:
// those that were acknowledged, and the last one if it can be seen to be
// complete.
func (r *ring) storedPieces(t tool, path string, steps []call, sent int) map[string]bool {
	had := map[string]bool{}
	for _, c := range steps[:sent-1] {
		had[c.Text] = true
	}
	last := steps[sent-1]
	if t.Has(piece) {
		state := t.Call(r.ctx, call{Verb: progress, Session: last.Session})
		had[last.Text] = last.Verb == piece && state.Known
		for _, i := range state.List {
			had[last.Text] = had[last.Text] && i != last.Index
		}
		return had
	}
	got, _, _ := r.content(path)
	had[last.Text] = strings.HasSuffix(got, last.Text)
	return had
}

// resume is what a new agent does with a large file that may have been started.
func (r *run) resume(path string, steps []call) bool {
	from := 0
	switch {
	case r.who == guided && r.tool.Has(progress):
		return r.sendMissing(steps)
	case r.who != blind:
		rep := r.send(call{Verb: read, Path: path})
		for whole := ""; rep.OK && from < len(steps); from++ {
			if whole += steps[from].Text; !strings.HasPrefix(rep.Body, whole) {
				break
			}
			if rep.Body == whole {
				from++
				break
			}
		}
		if rep.OK && from > 0 && len(rep.Body) != textLen(steps[:from]) {
			from = 0 // it ends within a piece: start again
		}
	}
	for _, c := range steps[from:] {
		if done, _ := r.persist(c); !done {
			return false
		}
	}
	return true
}

func textLen(steps []call) int {
	n := 0
	for _, c := range steps {
		n += len(c.Text)
	}
	return n
}

// sendMissing asks the tool what is missing and sends that.
func (r *run) sendMissing(steps []call) bool {
	state := r.send(call{Verb: progress, Session: steps[0].Session})
	if !state.OK {
		return r.stop()
	}
	missing := map[int]bool{}
	for _, i := range state.List {
		missing[i] = true
	}
	for _, c := range steps {
		if c.Verb == piece && state.Known && !missing[c.Index] {
			continue
		}
		if done, _ := r.persist(c); !done {
			return false
		}
	}
	return true
}
