//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

var handoffs = scenario{
	id: "C8", name: "handoff failure", level: "full", trials: 200, smoke: 8,
	extra:  []extra{{"faults that were noticed", "found", "faults"}},
	fault:  "between two agents a file of the handoff is edited by a human, or removed, or the handoff is cut off at any byte, or a third agent leaves its own handoff while the second one works",
	oracle: "the second agent learns of it before it builds on it; the edit of the human and the handoff of the third agent are not gone",
	run:    inside((*ring).handedOff),
}

// relay is one task that goes from one agent to the next.
type relay struct {
	dir   string
	paths []string
	texts map[string]string // as the first agent left them
	note  string            // path of the handoff
	added string            // what the next agent adds to each file
}

const (
	relayFiles = 3
	humanLine  = "a line that only a human knows\n"
)

// start makes the first agent write its files and a handoff.
func (r *ring) start(t tool, n int) (*relay, error) {
	d := r.dice(n)
	v := &relay{dir: fmt.Sprintf("c8/%03d", n), texts: map[string]string{}, added: fmt.Sprintf("next step of task %d\n", n)}
	v.note = v.dir + "/HANDOFF.md"
	var files []file
	for i := range relayFiles {
		path, text := fmt.Sprintf("%s/part%d.txt", v.dir, i), prose(d, 3000)
		if rep := t.Call(r.ctx, call{Verb: write, Path: path, Text: text, Key: path}); !rep.OK {
			return nil, fmt.Errorf("set-up: %s", rep.Text)
		}
		v.paths, v.texts[path] = append(v.paths, path), text
		files = append(files, file{Path: path, Hash: hashOf(text), Size: len(text)})
	}
	c := note(t, v.note, fmt.Sprintf("t%d-a", n), "The first parts are written. "+prose(d, 300), files)
	if rep := t.Call(r.ctx, c); !rep.OK {
		return nil, fmt.Errorf("handoff: %s", rep.Text)
	}
	return v, nil
}

// note returns the call that writes a handoff: with a tool for it, or as
// Markdown that an agent writes by itself. An agent cannot compute hashes.
func note(t tool, path, who, summary string, files []file) call {
	if t.Has(handoff) {
		return call{Verb: handoff, Path: path, Task: who, Text: summary, Files: files, Key: path + who}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# Handoff of %s\n\n%s\n\n## Files that are good\n\n", who, summary)
	for _, f := range files {
		fmt.Fprintf(&b, "- %s\n", f.Path)
	}
	return call{Verb: write, Path: path, Text: b.String(), Replace: true, Key: path + who}
}

func (r *ring) handedOff(t tool, n int) (trial, error) {
	v, err := r.start(t, n)
	if err != nil {
		return trial{}, err
	}
	d := r.dice(n + 1_000_000)
	switch n % 4 {
	case 0: // a human edits
		edited := v.paths[d.IntN(relayFiles)]
		return r.takesOver(t, v, r.put(edited, v.texts[edited]+humanLine), edited)
	case 1:
		gone := v.paths[d.IntN(relayFiles)]
		return r.takesOver(t, v, os.Remove(filepath.Join(r.dir, gone)), "")
	case 2:
		text, _, err := r.content(v.note)
		if err == nil {
			err = r.put(v.note, text[:between(d, 1, len(text)-2)])
		}
		return r.takesOver(t, v, err, "")
	}
	return r.bothWrite(t, v, n)
}

// takesOver lets the second agent read the handoff and extend every file that
// it names. edited is the file that a human changed.
func (r *ring) takesOver(t tool, v *relay, fault error, edited string) (trial, error) {
	if fault != nil {
		return trial{}, fault
	}
	w := r.agent(t)
	w.start()
	found, done := w.goOn(v)
	w.end()
	complete, lost := true, false
	for _, p := range v.paths {
		text, _, err := r.content(p)
		if err != nil {
			return trial{}, err
		}
		complete = complete && strings.HasSuffix(text, v.added)
		lost = lost || p == edited && !strings.Contains(text, humanLine)
	}
	if lost {
		kept, err := r.anywhere(v.dir, humanLine)
		if err != nil {
			return trial{}, err
		}
		lost = !kept
	}
	out := w.finish(found && !lost && (done && complete || w.asked), lost, lost)
	out.Counts["found"], out.Counts["faults"] = btoi(found), 1
	return out, nil
}

// goOn reads the handoff, and adds to each file that it names. found reports
// whether the agent noticed that something is wrong.
func (r *run) goOn(v *relay) (found, done bool) {
	rep := r.insist(v.open(r.tool))
	if !rep.OK {
		return true, false
	}
	files := rep.Files
	if len(files) == 0 {
		files = listed(rep.Body)
	}
	drift := map[string]bool{}
	if r.who == guided {
		for _, f := range rep.Drift {
			drift[f.Path] = true
		}
	}
	done = true
	for _, f := range files {
		done = r.extend(f, v.added, drift[f.Path]) && done
	}
	return len(drift) > 0 || slices.ContainsFunc(r.log, func(e entry) bool { return !e.ok }), done
}

// open returns the call that reads the handoff.
func (v *relay) open(t tool) call {
	if t.Has(takeover) {
		return call{Verb: takeover, Path: v.note, Task: "b"}
	}
	return call{Verb: read, Path: v.note}
}

// insist repeats a call as long as its agent would send just the same again.
func (r *run) insist(c call) reply {
	for {
		rep := r.send(c)
		if !rep.OK && r.who.next(rep) != again {
			r.stop()
			return rep
		}
		if rep.OK || r.times(c) >= mostSame {
			return rep
		}
	}
}

// extend reads a file and adds to it. If the handoff has the hash, the write
// expects that hash, unless the agent was informed that the file has changed.
// An agent cannot continue a missing file: only the user knows what happened to
// it.
func (r *run) extend(f file, added string, drifted bool) bool {
	t := task{
		call:  call{Verb: write, Path: f.Path, Replace: true, Prev: f.Hash, Key: f.Path + "/b"},
		apply: func(old string) string { return strings.TrimSuffix(old, added) + added },
	}
	there := r.insist(call{Verb: read, Path: f.Path})
	if !there.OK {
		return false
	}
	if drifted {
		t.Prev = there.Hash
	}
	t.Text = t.apply(there.Body)
	return r.pursue(t)
}

// listed returns the files of a handoff in Markdown.
func listed(text string) []file {
	var files []file
	_, list, _ := strings.Cut(text, "## Files")
	for line := range strings.Lines(list) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "- "); ok {
			files = append(files, file{Path: p})
		}
	}
	return files
}

// bothWrite lets a third agent write a handoff after the second one read the
// note and before it writes its own.
func (r *ring) bothWrite(t tool, v *relay, n int) (trial, error) {
	w := r.agent(t)
	got := w.send(v.open(t))
	if !got.OK {
		return trial{}, fmt.Errorf("takeover: %s", got.Text)
	}
	third := fmt.Sprintf("only the third agent of task %d knows this", n)
	if rep := t.Call(r.ctx, note(t, v.note, fmt.Sprintf("t%d-c", n), third, nil)); !rep.OK {
		return trial{}, fmt.Errorf("third agent: %s", rep.Text)
	}
	w.start()
	mine := fmt.Sprintf("the second agent of task %d is done", n)
	own := note(t, v.note, fmt.Sprintf("t%d-b", n), mine, nil)
	own.Prev = got.Hash
	done := w.pursue(task{call: own})
	w.end()
	text, _, err := r.content(v.note)
	if err != nil {
		return trial{}, err
	}
	kept, err := r.anywhere(v.dir, third)
	if err != nil {
		return trial{}, err
	}
	lost := !kept
	out := w.finish((done && strings.Contains(text, mine) || w.asked) && !lost, lost, lost)
	out.Counts["found"], out.Counts["faults"] = btoi(!lost), 1
	return out, nil
}

// anywhere reports whether a text is in a file of the task, or in what the tool
// stores.
func (r *ring) anywhere(dir, text string) (bool, error) {
	for _, place := range []string{dir, stateName} {
		if found, err := r.onDisk(place, text); found || err != nil {
			return found, err
		}
	}
	return false, nil
}
