//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
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

// paces is the number of system calls of each step of a job when nothing goes
// wrong, measured once for each arm.
type paces struct {
	once   sync.Once
	pieces []int
	change []int
	err    error
}

func (r *ring) paces() (*paces, error) {
	got, _ := measured.LoadOrStore("steps of "+r.arm, &paces{})
	all := got.(*paces)
	all.once.Do(func() { all.err = r.measureSteps(all) })
	return all, all.err
}

// measureSteps does both jobs in a separate workspace, each twice: the first
// time directories are created that exist later.
func (r *ring) measureSteps(into *paces) error {
	own := *r
	own.dir, own.known = "", map[string]bool{}
	if err := own.renew(); err != nil {
		return err
	}
	defer os.RemoveAll(own.dir)
	p, err := startProc(own.arm, own.dir, own.s.level)
	if err != nil {
		return err
	}
	defer p.stop()
	w, err := p.watched()
	if err != nil {
		return err
	}
	count := func(steps []call) (list []int, err error) {
		for _, c := range steps {
			w.observe(-1)
			if rep := p.Call(own.ctx, c); !rep.OK {
				return nil, fmt.Errorf("measuring %s: %s", c.Verb, rep.Text)
			}
			n, _ := w.rest()
			list = append(list, n)
		}
		return list, nil
	}
	for n := range 2 {
		d := own.dice(2_000_000 + n)
		path := fmt.Sprintf("c6/m%03d.txt", n)
		if into.pieces, err = count(own.pieceSteps(p, path, cut(prose(d, pieces*8<<10), 8<<10))); err != nil {
			return err
		}
		names, _, news, err := own.changeFiles(d, 900+n)
		if err != nil {
			return err
		}
		steps, err := own.changeSteps(p, names, news)
		if err != nil {
			return err
		}
		if into.change, err = count(steps); err != nil {
			return err
		}
	}
	return nil
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

func (r *ring) piecesLost(p *proc, n int) (trial, error) {
	d := r.dice(n)
	path := fmt.Sprintf("c6/%03d.txt", n)
	text := prose(d, pieces*8<<10)
	pace, err := r.paces()
	if err != nil {
		return trial{}, err
	}
	steps := r.pieceSteps(p, path, cut(text, 8<<10))
	sent, err := r.dying(p, steps, fateOf(pace.pieces, d))
	if err != nil {
		return trial{}, err
	}
	w := r.agent(p) // the new agent
	w.start()
	if err := p.restart(); err != nil {
		return trial{}, err
	}
	var had map[string]bool
	partly := false
	w.harness(func() {
		var got string
		var there bool
		got, there, err = r.content(path)
		partly = there && got != text
		had = r.storedPieces(p, path, steps, sent)
	})
	if err != nil {
		return trial{}, err
	}
	done := w.resume(path, steps, text)
	w.end()
	isNew := r.is(path, text)
	out := w.resumed(done, isNew, partly, had)
	return out, p.err
}

// resumed returns the trial of a new agent. had are the texts that it need not send.
func (r *run) resumed(done, isNew, broken bool, had map[string]bool) trial {
	again := 0
	r.waste(func(c call) bool {
		resent := c.Text != "" && had[c.Text]
		again += btoi(resent)
		return resent
	})
	out := r.finish(done && isNew, !isNew, broken)
	out.Counts["sent_again"] = again
	return out
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
func (r *run) resume(path string, steps []call, text string) bool {
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
