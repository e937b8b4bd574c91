//go:build linux

package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

var killCounts = []extra{{"files left over, per trial", "left_over", ""}, {"stores the check finds fault with, per trial", "unexplained", ""}}

var killAtCall = scenario{
	id: "C3", name: "partial write, killed at a system call", level: "full", trials: 100, smoke: 4,
	extra:  killCounts,
	fault:  "the tool is killed (SIGKILL) before one of the system calls with which it changes the disk, each with the same chance, or after the last one with the reply unsent; files of 64 KiB to 4 MiB; create, overwrite, append",
	oracle: "when the tool is back: what was acknowledged before is there; the file is old or new, whole; nothing is left over; the journal explains the disk. In the end: the new bytes once",
	run:    apart(batch, func(r *ring, p *proc, n int) (trial, error) { return r.killed(p, n, false) }),
}

var killAnywhere = scenario{
	id: "C3r", name: "partial write, killed at a random moment", level: "full", trials: 40, smoke: 2, unsteady: true, repeats: true,
	extra:  killCounts,
	fault:  "as C3, but the kill comes at a random moment of the time that such a call took before",
	oracle: "as C3",
	run:    apart(batch, func(r *ring, p *proc, n int) (trial, error) { return r.killed(p, n, true) }),
}

// deed is one way to change a file.
type deed struct {
	do   string // create, overwrite, append
	size int
}

// extent is the time and the number of calls of a deed when nothing goes wrong.
type extent struct {
	calls int // that change the disk
	took  time.Duration
}

// batch is how many trials share a workspace.
const batch = 10

func (r *ring) killed(p *proc, n int, anywhere bool) (trial, error) {
	all, err := r.extents()
	if err != nil {
		return trial{}, err
	}
	d := r.dice(n)
	sizes := r.sizes()
	how := deed{do: deeds[n%len(deeds)], size: sizes[d.IntN(len(sizes))]}
	at, ext := d.Float64(), all[how]
	path, near := fmt.Sprintf("c3/%03d.txt", n), fmt.Sprintf("c3/%03d-before.txt", n)
	old, text := prose(d, between(d, 8<<10, 64<<10)), prose(d, how.size)
	for _, c := range how.setUp(path, near, old) {
		if rep := p.Call(r.ctx, c); !rep.OK {
			return trial{}, fmt.Errorf("set-up: %s", rep.Text)
		}
		r.known[c.Path] = true
	}
	r.known[path] = true
	c, wanted := how.call(path, old, text)
	w := r.agent(p)
	var found aftermath
	var broke error
	look := func(before string) {
		if broke = p.restart(); broke == nil {
			w.harness(func() { found, broke = r.aftermath(p, []string{path, before, wanted}, []string{near, old}) })
		}
	}
	w.revive = func() { look(how.before(old)) }
	if err := r.condemn(p, ext, at, anywhere); err != nil {
		return trial{}, err
	}
	done := w.pursue(task{call: c, apply: how.apply(text)})
	w.end()
	if w.began.IsZero() { // the answer came before the kill
		look(wanted)
	}
	isNew, whole := r.is(path, wanted), r.oldOrNew(path, how.before(old), wanted)
	out := w.finish(done && isNew, !whole || done && !isNew || found.forgotten, found.broken || found.forgotten)
	out.Counts["left_over"], out.Counts["unexplained"] = found.leftOver, found.unexplained
	return out, errors.Join(broke, p.err)
}

// condemn sets the moment at which the process is killed.
func (r *ring) condemn(p *proc, ext extent, at float64, anywhere bool) error {
	p.doomed = true
	if anywhere {
		process := p.cmd.Process
		time.AfterFunc(time.Duration(at*float64(ext.took)), func() { process.Kill() })
		return nil
	}
	w, err := p.watched()
	if err != nil {
		return err
	}
	point := int(at * float64(ext.calls+1))
	if point == ext.calls {
		point = -1
	}
	p.drop = true // even if it makes fewer calls than before
	w.observe(point)
	return nil
}

// call returns the call of a deed, and the content of the file after it.
func (how deed) call(path, old, text string) (c call, wanted string) {
	c = call{Verb: write, Path: path, Text: text, Key: path}
	switch how.do {
	case "append":
		c.Verb = appendTo
		return c, old + text
	case "overwrite":
		c.Replace, c.Prev = true, hashOf(old)
	}
	return c, text
}

// apply returns the change that the agent makes to an existing file.
func (how deed) apply(text string) func(string) string {
	if how.do != "append" {
		return nil
	}
	return func(there string) string {
		if strings.HasSuffix(there, text) {
			return there
		}
		return there + text
	}
}

// setUp returns the calls that write the initial files.
func (how deed) setUp(path, near, old string) []call {
	list := []call{{Verb: write, Path: near, Text: old, Key: near}}
	if how.do != "create" {
		list = append(list, call{Verb: write, Path: path, Text: old, Key: path + "/old"})
	}
	return list
}

// before returns the initial content of the file, or "" if there is none.
func (how deed) before(old string) string {
	if how.do == "create" {
		return ""
	}
	return old
}

var deeds = []string{"overwrite", "append", "create"}

// sizes returns the sizes of the files, each as often as it occurs.
func (r *ring) sizes() []int {
	if r.small {
		return []int{64 << 10}
	}
	return []int{64 << 10, 64 << 10, 64 << 10, 64 << 10, 256 << 10, 256 << 10, 256 << 10, 1 << 20, 1 << 20, 4 << 20}
}

// extents returns the extent of every deed in this arm: every deed is done twice,
// once for the time, and once with its system calls counted.
func (r *ring) extents() (map[deed]extent, error) {
	return once(fmt.Sprint("deeds of ", r.arm, r.small), func() (map[deed]extent, error) {
		known := map[deed]extent{}
		return known, r.elsewhere(func(own *ring, p *proc) error {
			for _, count := range []bool{false, true} {
				for _, do := range deeds {
					for _, size := range slices.Compact(r.sizes()) {
						how := deed{do, size}
						ext, err := own.measure(p, how, count)
						if err != nil {
							return fmt.Errorf("measuring %v: %w", how, err)
						}
						known[how] = extent{calls: ext.calls, took: max(known[how].took, ext.took)}
					}
				}
			}
			return nil
		})
	})
}

func (r *ring) measure(p *proc, how deed, count bool) (ext extent, err error) {
	d := r.dice(1_000_000 + how.size)
	path, old := fmt.Sprintf("c3/%s-%d-%v.txt", how.do, how.size, count), prose(d, 32<<10)
	c, _ := how.call(path, old, prose(d, how.size))
	for _, c := range how.setUp(path, path+"-before", old) {
		if rep := p.Call(r.ctx, c); !rep.OK {
			return ext, errors.New(rep.Text)
		}
	}
	if count {
		ext.calls, err = p.counted(r.ctx, c)
		return ext, err
	}
	began := time.Now()
	rep := p.Call(r.ctx, c)
	if ext.took = time.Since(began); !rep.OK {
		err = errors.New(rep.Text)
	}
	return ext, err
}

// aftermath is what is found after the tool was restarted.
type aftermath struct {
	broken      bool // neither old nor new
	forgotten   bool // content that was acknowledged before is missing
	leftOver    int  // unexpected files
	unexplained int  // problems reported by the store's own check
}

// aftermath examines the file that was being written (path, old, new) and one
// that was acknowledged before (path, text).
func (r *ring) aftermath(p *proc, file, near []string) (aftermath, error) {
	out := aftermath{broken: !r.oldOrNew(file[0], file[1], file[2]), forgotten: !r.is(near[0], near[1])}
	list, err := r.strays()
	if err != nil {
		return out, err
	}
	for _, name := range list {
		r.known[filepath.ToSlash(name)] = true // count it once
	}
	f, err := p.inspect()
	out.leftOver, out.unexplained = len(list)+f.Staged, btoi(!f.Clean)
	return out, err
}
