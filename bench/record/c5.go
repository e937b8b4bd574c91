//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/resilientwrite/resilientwrite/spec"
)

var opaque = scenario{
	id: "C5", name: "opaque errors", level: "full", trials: 240, smoke: 20,
	extra:  []extra{{"refusals that no program can read", "untyped", "refused"}, {"first steps that can help", "helpful_next", "first_steps"}, {"wrong suggestions", "wrong_action", "suggestions"}, {"written outside of the workspace, per trial", "escaped", ""}},
	fault:  "each of 12 error numbers, most of them answered by the kernel in place of a real system call of the tool, some for as long as 1 to 6 attempts, some for ever; and 8 calls with wrong arguments",
	oracle: "every refusal conforms to the published schema and suggests the action that the rules demand; the agent's next step is one that can help; the old bytes stay",
	run: apart(math.MaxInt, func(r *ring, p *proc, n int) (trial, error) {
		c := plight(n)
		got, err := r.suffer(p, c, n)
		if err == nil && c.errno == unix.EIO && !p.dead { // a store stops after a failed flush until it is opened again
			err = p.restart()
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", c.name, err)
		}
		return got, err
	}),
}

// trouble is one way in which a call can go wrong.
type trouble struct {
	name    string
	errno   unix.Errno // 0: nothing is injected
	calls   []uint32   // system calls that fail with it
	passing bool       // it ends after some attempts
	set     func(r *ring, dir string) (path string, err error)
	raw     func(path, text string) string // wrong arguments, which the agent can correct
	helps   []step                         // steps that can lead to the goal or to a proper end
	actions []string                       // suggestions that the rules of resilientwrite allow
}

var (
	writing = []uint32{unix.SYS_WRITE, unix.SYS_PWRITE64, unix.SYS_FALLOCATE, unix.SYS_COPY_FILE_RANGE}
	naming  = []uint32{unix.SYS_RENAMEAT, unix.SYS_RENAMEAT2, unix.SYS_LINKAT}
	making  = []uint32{unix.SYS_OPENAT}
)

// troubles of the disk.
var troubles = []trouble{
	{name: "ENOSPC", errno: unix.ENOSPC, calls: writing, passing: true, helps: []step{wait, again}, actions: []string{"retry_later"}},
	{name: "EDQUOT", errno: unix.EDQUOT, calls: writing, passing: true, helps: []step{wait, again}, actions: []string{"retry_later"}},
	{name: "EMFILE", errno: unix.EMFILE, calls: making, passing: true, helps: []step{wait, again}, actions: []string{"retry_later"}},
	{name: "EBUSY", errno: unix.EBUSY, calls: append(slices.Clone(naming), making...), passing: true, helps: []step{wait, again}, actions: []string{"retry_later"}},
	{name: "EFBIG", errno: unix.EFBIG, calls: writing, helps: []step{split, ask}, actions: []string{"split"}},
	{name: "EIO", errno: unix.EIO, calls: append([]uint32{unix.SYS_FSYNC, unix.SYS_FDATASYNC, unix.SYS_IO_SUBMIT}, writing...), helps: []step{ask}, actions: []string{"abort"}},
	{name: "EROFS", errno: unix.EROFS, calls: making, helps: []step{ask}, actions: []string{"ask_user"}},
	{name: "EACCES", errno: unix.EACCES, calls: making, helps: []step{ask}, actions: []string{"ask_user"}},
	{name: "EPERM", errno: unix.EPERM, calls: append(slices.Clone(naming), making...), helps: []step{ask}, actions: []string{"ask_user"}},
	{name: "ENAMETOOLONG", set: impossible[2], helps: []step{ask, repair}, actions: []string{"abort"}},
	{name: "ENOTDIR", set: impossible[1], helps: []step{ask, repair}, actions: []string{"abort"}},
	{name: "EISDIR", set: impossible[0], helps: []step{ask, repair}, actions: []string{"abort"}},
}

// mistakes of the caller. Wrong arguments of a model are written as the JSON
// that the tool receives.
var mistakes = []trouble{
	{name: "content missing", raw: func(p, _ string) string { return object("path", p) }, helps: []step{repair, split}, actions: []string{"split", "abort"}},
	{name: "content of the wrong type", raw: func(p, _ string) string { return object("path", p, "content", 17) }, helps: []step{repair}, actions: []string{"abort"}},
	{name: "path missing", raw: func(_, t string) string { return object("content", t) }, helps: []step{repair}, actions: []string{"abort"}},
	{name: "path of the wrong type", raw: func(p, t string) string { return object("path", []string{p}, "content", t) }, helps: []step{repair}, actions: []string{"abort"}},
	{name: "an argument by a wrong name", raw: func(p, t string) string { return object("path", p, "contents", t) }, helps: []step{repair, split}, actions: []string{"abort", "split"}},
	{name: "not JSON", raw: func(p, t string) string {
		return `{"path": "` + p + `", "content": "` + t[:12]
	}, helps: []step{repair}, actions: []string{"abort"}},
	{name: "a path out of the workspace", raw: func(p, t string) string { return object("path", "../"+outside, "content", t) }, helps: []step{repair, ask}, actions: []string{"abort"}},
	{name: "NUL in the path", raw: func(p, t string) string { return object("path", p+"\x00", "content", t) }, helps: []step{repair, ask}, actions: []string{"abort"}},
}

// outside is a name outside the workspace.
const outside = "outside.txt"

func object(pairs ...any) string {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[pairs[i].(string)] = pairs[i+1]
	}
	doc, err := json.Marshal(m)
	if err != nil {
		panic(err) // strings and numbers
	}
	return string(doc)
}

// plight returns the trouble of one trial.
func plight(n int) trouble {
	all := slices.Concat(troubles, mistakes)
	return all[n%len(all)]
}

func (r *ring) suffer(p *proc, tr trouble, n int) (trial, error) {
	d := r.dice(n)
	path, old, text := fmt.Sprintf("c5/%03d/f.txt", n), prose(d, 24<<10), prose(d, 40<<10)
	attempts := between(d, 1, 6)
	c := call{Verb: write, Path: path, Text: text, Key: path}
	if tr.set != nil {
		var err error
		if c.Path, err = tr.set(r, fmt.Sprintf("c5/%03d", n)); err != nil {
			return trial{}, err
		}
	} else if err := r.put(path, old); err != nil {
		return trial{}, err
	} else {
		c.Replace, c.Prev = true, hashOf(old)
	}
	t := task{call: c}
	if tr.raw != nil {
		good := c
		t.Raw = tr.raw(path, text)
		t.fixed = &good
	}
	w, s := r.agent(p), &suffering{trouble: tr, first: true}
	if tr.errno != 0 {
		if err := r.inject(p, w, s, attempts); err != nil {
			return trial{}, err
		}
	}
	w.after = func(c call, rep reply) {
		s.after(rep)
		s.broken = s.broken || tr.set == nil && !r.oldOrNew(path, old, text)
	}
	done := w.pursue(t)
	w.end()
	if s.rest != nil {
		s.rest()
	}
	return r.judge(p, w, s, done, [3]string{path, old, text})
}

// typed reports whether a refusal is machine-readable: an envelope that
// conforms to the published schema.
func typed(text string) bool { return spec.ValidateEnvelope([]byte(text)) == nil }

// suffering is what is observed during one trial.
type suffering struct {
	trouble
	first, broken    bool
	refused, untyped int
	judged, wrong    int // suggestions
	rest             func()
}

// after records a reply.
func (s *suffering) after(rep reply) {
	if rep.OK || rep.Gone {
		return
	}
	s.refused++
	if !typed(rep.Text) {
		s.untyped++
		return
	}
	if s.first { // the second refusal of the same call may be that of the retry budget
		e, ok := envelopeOf(rep.Text)
		s.wrong += btoi(!ok || !slices.Contains(s.actions, e.Action))
		s.judged++
	}
	s.first = false
}

// inject makes the system calls of the tool fail, for the given number of
// refusals if the trouble is temporary.
func (r *ring) inject(p *proc, w *run, s *suffering, attempts int) error {
	watch, err := p.watched()
	if err != nil {
		return err
	}
	s.rest = func() { watch.rest() }
	w.before = func(call) {
		if s.passing && s.refused >= attempts {
			watch.rest()
			return
		}
		watch.refuse(s.calls, s.errno)
	}
	return nil
}

func (r *ring) judge(p *proc, w *run, s *suffering, done bool, f [3]string) (trial, error) {
	path, old, text := f[0], f[1], f[2]
	harmed := s.set == nil && !r.oldOrNew(path, old, text)
	escaped, err := r.escaped()
	if err != nil {
		return trial{}, err
	}
	good := done && r.is(path, text)
	if s.set != nil || s.errno != 0 && !s.passing {
		good = !done && w.asked && w.most() <= budget // only the user can help
	}
	out := w.finish(good && !harmed && !escaped, harmed, s.broken || escaped)
	out.Fault = out.Fault || escaped // the agent got no error
	out.Counts["refused"], out.Counts["untyped"], out.Counts["wrong_action"] = s.refused, s.untyped, s.wrong
	out.Counts["escaped"], out.Counts["suggestions"] = btoi(escaped), s.judged
	if w.first != "" {
		out.Counts["helpful_next"] = btoi(slices.Contains(s.helps, w.first))
		out.Counts["first_steps"] = 1
	}
	return out, p.err
}

// most returns how often the most frequent call was sent.
func (r *run) most() int {
	n := 0
	for i := range r.log {
		if v := r.log[i].call.Verb; v == write || v == appendTo {
			n = max(n, r.times(r.log[i].call))
		}
	}
	return n
}
