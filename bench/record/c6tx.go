//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
)

// A change of several files. A tool with transactions stages them and makes
// them appear at once; another one writes one after the other.

func (r *ring) changeLost(p *proc, n int) (trial, error) {
	pace, err := r.paces()
	if err != nil {
		return trial{}, err
	}
	return r.changeDies(p, n, fateOf(pace.change, r.dice(n+1_000_000)))
}

// changeDies makes the nth change up to the moment of its fate, and lets a new
// agent continue.
func (r *ring) changeDies(p *proc, n int, f fate) (trial, error) {
	j, err := r.changeJob(p, r.dice(n), n)
	if err != nil {
		return trial{}, err
	}
	w, out, err := r.interrupted(p, j, f)
	if err == nil {
		err = r.forget(p, w, j.steps)
	}
	return out, err
}

// changeJob writes the old files of a change into the workspace, and makes the new ones.
func (r *ring) changeJob(t tool, d *rand.Rand, n int) (*sequence, error) {
	var names []string
	olds, news := map[string]string{}, map[string]string{}
	for i := range members {
		name := fmt.Sprintf("c6/%03d/%d.txt", n, i)
		names = append(names, name)
		olds[name], news[name] = prose(d, 2<<10), prose(d, 3<<10)
		if err := r.put(name, olds[name]); err != nil {
			return nil, err
		}
	}
	steps, err := r.changeSteps(t, names, news)
	return &sequence{
		steps:  steps,
		found:  func() (some, all bool) { return r.changed(names, olds, news) },
		stored: func(sent int) map[string]bool { return r.storedFiles(t, steps, sent) },
		resume: func(w *run) bool { return w.change(names, news, steps) },
	}, err
}

// changeSteps returns the calls that make the change with this tool.
func (r *ring) changeSteps(t tool, names []string, news map[string]string) ([]call, error) {
	var steps []call
	tx := ""
	if t.Has(begin) {
		rep := t.Call(r.ctx, call{Verb: begin})
		if tx = rep.Ref; !rep.OK || tx == "" {
			return nil, fmt.Errorf("begin: %s", rep.Text)
		}
	}
	for _, name := range names {
		c := call{Verb: write, Path: name, Text: news[name], Replace: true, Key: name}
		if tx != "" {
			c.Verb, c.Session = stage, tx
		}
		steps = append(steps, c)
	}
	if tx != "" {
		steps = append(steps, call{Verb: commit, Session: tx})
	}
	return steps, nil
}

// changed reports whether some of the files, and whether all of them, are new.
// A file that is neither old nor new counts as some.
func (r *ring) changed(names []string, olds, news map[string]string) (some, all bool) {
	all = true
	for _, name := range names {
		isNew, isOld := r.is(name, news[name]), r.is(name, olds[name])
		some, all = some || !isOld, all && isNew
	}
	return some, all
}

// storedFiles returns the texts that need not be sent again.
func (r *ring) storedFiles(t tool, steps []call, sent int) map[string]bool {
	had := map[string]bool{}
	for _, c := range steps[:sent] {
		if c.Verb == stage {
			had[c.Text] = t.Call(r.ctx, call{Verb: staged, Key: c.Key}).Known
		} else {
			had[c.Text] = r.is(c.Path, c.Text)
		}
	}
	return had
}

// change is what a new agent does with a change that may have been started.
func (r *run) change(names []string, news map[string]string, steps []call) bool {
	tx := ""
	if r.tool.Has(begin) {
		if tx = r.openChange(); tx == "" {
			if r.who == guided && r.isMade(names, news) {
				return true // it was committed, and the answer was lost
			}
			rep := r.send(call{Verb: begin})
			if tx = rep.Ref; !rep.OK {
				return r.stop()
			}
		}
	}
	for i, name := range names {
		c := call{Verb: write, Path: name, Text: news[name], Replace: true, Key: steps[i].Key}
		switch {
		case tx != "":
			c.Verb, c.Session = stage, tx
			if tx != steps[i].Session {
				c.Key = keyed(tx, i) // another transaction needs another key
			} else if r.send(call{Verb: staged, Key: c.Key}).Known {
				continue
			}
		case r.who != blind:
			if rep := r.send(call{Verb: read, Path: name}); rep.OK && rep.Body == news[name] {
				continue
			}
		}
		if done, _ := r.persist(c); !done {
			return false
		}
	}
	if tx == "" {
		return true
	}
	done, _ := r.persist(call{Verb: commit, Session: tx})
	return done
}

// openChange returns the transaction that was begun before, if the agent asks
// for it.
func (r *run) openChange() string {
	if r.who != guided {
		return ""
	}
	return r.send(call{Verb: pending}).Ref
}

// isMade reads the files until one is not new.
func (r *run) isMade(names []string, news map[string]string) bool {
	for _, name := range names {
		if rep := r.send(call{Verb: read, Path: name}); !rep.OK || rep.Body != news[name] {
			return false
		}
	}
	return true
}

// forget drops the transaction that a new agent did not continue, so that the
// next trial does not find it.
func (r *ring) forget(t tool, w *run, steps []call) error {
	if !t.Has(begin) || w.who == guided || t.Call(r.ctx, call{Verb: pending}).Ref == "" {
		return nil
	}
	if rep := t.Call(r.ctx, call{Verb: rollback, Session: steps[0].Session}); !rep.OK {
		return fmt.Errorf("rollback: %s", rep.Text)
	}
	return nil
}
