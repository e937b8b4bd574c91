//go:build linux

package main

import (
	"errors"
	"fmt"
	"math"
)

// The kernel writes up to the limit of the process and then fails
// (RLIMIT_FSIZE, setrlimit(2)): a true short write at any byte.
var truncation = scenario{
	id: "C2", name: "truncation", level: "full", trials: 200, smoke: 4,
	extra:  []extra{{"refusals that no program can read", "untyped", "refused"}, {"asked the user, per trial", "asked", ""}},
	fault:  "the kernel cuts every write of the tool off at byte k of a file and answers EFBIG, for the first 1 to 6 attempts (k anywhere in the text, 4 to 96 KiB)",
	oracle: "after every answer the file holds the old bytes or the new ones, whole; in the end the new ones; every refusal is typed",
	run:    apart(math.MaxInt, (*ring).truncated),
}

func (r *ring) truncated(p *proc, n int) (trial, error) {
	d := r.dice(n)
	size := between(d, 4<<10, 96<<10)
	path, text := fmt.Sprintf("c2/%03d.txt", n), prose(d, size)
	cutAt, attempts := between(d, 1, size-1), between(d, 1, 6)
	old := ""
	if n%4 != 0 { // the file existed before
		old = prose(d, between(d, 4<<10, 64<<10))
		if err := r.put(path, old); err != nil {
			return trial{}, err
		}
	}
	c := call{Verb: write, Path: path, Text: text, Key: path}
	if old != "" {
		rep := p.Call(r.ctx, call{Verb: read, Path: path})
		if !rep.OK {
			return trial{}, fmt.Errorf("the file cannot be read: %s", rep.Text)
		}
		c.Replace, c.Prev = true, rep.Hash
	}
	w, failures, broken, untyped := r.agent(p), 0, false, 0
	var fault error
	w.before = func(call) {
		limit := cutAt
		if failures >= attempts {
			limit = 0
		}
		if err := p.limit(limit); err != nil {
			fault = err
		}
	}
	w.after = func(c call, rep reply) {
		if rep.OK {
			broken = broken || !r.oldOrNew(path, old, text)
			return
		}
		failures++
		broken = broken || !r.oldOrNew(path, old, text)
		untyped += btoi(!typed(rep.Text))
	}
	done := w.pursue(task{call: c})
	w.end()
	if err := p.limit(0); err != nil {
		return trial{}, err
	}
	isNew, whole := r.is(path, text), r.oldOrNew(path, old, text)
	out := w.finish(isNew && done, !whole || done && !isNew, broken)
	out.Counts["untyped"] = untyped
	out.Counts["refused"] = failures
	out.Counts["asked"] = btoi(w.asked)
	return out, errors.Join(fault, p.err)
}

// oldOrNew reports whether a file holds one of two texts. An old text of ""
// means that the file did not exist.
func (r *ring) oldOrNew(path, old, text string) bool {
	got, there, err := r.content(path)
	switch {
	case err != nil:
		return false
	case !there:
		return old == ""
	}
	return got == text || old != "" && got == old
}
