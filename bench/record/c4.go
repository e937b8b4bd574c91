//go:build linux

package main

import (
	"fmt"
	"strings"
)

// budget is how often an identical call may be attempted: the default of
// resilientwrite, against which the other arms are measured.
const budget = 3

var thrash = scenario{
	id: "C4", name: "retry thrash", level: "full", trials: 200, smoke: 8,
	extra:  []extra{{"attempts that did work, per trial", "worked", ""}, {"trials over the budget, per trial", "over_budget", ""}},
	fault:  "the same payload of 64 KiB is refused however often it is sent: the path names a directory, a parent is a file, the name is too long, or the path goes through a link in a circle",
	oracle: "at most 3 attempts do any work; nothing on disk changes; the agent stops and reports to the user",
	run:    inside((*ring).thrashed),
}

// impossible are paths at which nothing can be written. Each gets the path of a
// separate directory.
var impossible = []func(r *ring, dir string) (path string, err error){
	func(r *ring, dir string) (string, error) { return dir + "/d", r.put(dir+"/d/f.txt", "in a directory") },
	func(r *ring, dir string) (string, error) { return dir + "/f/g.txt", r.put(dir+"/f", "a file") },
	func(r *ring, dir string) (string, error) { return dir + "/" + strings.Repeat("n", 300), nil },
	func(r *ring, dir string) (string, error) { return dir + "/a/f.txt", r.link(dir+"/a", "a") },
}

func (r *ring) thrashed(t tool, n int) (trial, error) {
	d := r.dice(n)
	dir := fmt.Sprintf("c4/%03d", n)
	path, err := impossible[n%len(impossible)](r, dir)
	if err == nil {
		err = r.put(dir+"/beside.txt", prose(d, 500))
	}
	if err != nil {
		return trial{}, err
	}
	before, err := r.tree(dir)
	if err != nil {
		return trial{}, err
	}
	w, worked := r.agent(t), 0
	w.after = func(c call, rep reply) {
		if c.Verb == read {
			return
		}
		e, ok := envelopeOf(rep.Text)
		worked += btoi(!ok || e.Context.Reason != "retry_exhausted")
	}
	done := w.pursue(task{call: call{Verb: write, Path: path, Text: prose(d, 64<<10), Key: path}})
	w.end()
	after, err := r.tree(dir)
	if err != nil {
		return trial{}, err
	}
	changed := before != after
	out := w.finish(!done && w.asked && worked <= budget && !changed, changed, changed)
	out.Counts["worked"], out.Counts["over_budget"] = worked, btoi(worked > budget)
	return out, nil
}
