//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The tool writes to a sink that accepts nothing that contains a credential: a
// mirror, a hook of the repository, a filter of the platform. What it refuses
// is not on disk afterwards. In half of the trials it fails silently; in the
// other half the call fails with an uninformative message.
var contentFilter = scenario{
	id: "C1", name: "content filter", level: "full", trials: 200, smoke: 6,
	extra:  []extra{{"dropped in silence, per trial", "silent", ""}},
	fault:  "a sink behind the tool refuses what holds a credential; half of the time the tool says `Error: tool execution failed`, half of the time it reports success",
	oracle: "the file ends up with the draft less the credential; the draft itself was never lost (it is on disk somewhere when the agent gives up)",
	run:    inside((*ring).filtered),
}

// sink lets a call through, and removes what it must not hold.
type sink struct {
	tool
	r      *ring
	secret string
	opaque bool
	drops  int
}

func (s *sink) Call(ctx context.Context, c call) reply {
	before, was, err := s.r.content(c.Path)
	if err != nil {
		return failed(err)
	}
	rep := s.tool.Call(ctx, c)
	if c.Verb != write || !rep.OK {
		return rep
	}
	text, _, err := s.r.content(c.Path)
	if err != nil || !strings.Contains(text, s.secret) {
		return rep
	}
	s.drops++
	full := filepath.Join(s.r.dir, c.Path)
	if was {
		err = os.WriteFile(full, []byte(before), 0o644)
	} else {
		err = os.Remove(full)
	}
	if err != nil {
		return failed(err)
	}
	if s.opaque {
		return reply{Text: "Error: tool execution failed"}
	}
	return rep
}

func (r *ring) filtered(t tool, n int) (trial, error) {
	d := r.dice(n)
	sec := makeSecret(d, n)
	draft, at := spreadText(d, 6000, sec.line)
	path := fmt.Sprintf("c1/%03d.txt", n)
	s := &sink{tool: t, r: r, secret: sec.value, opaque: n%2 == 0}
	w := r.agent(s)
	done := w.pursue(task{call: call{Verb: write, Path: path, Text: draft, Key: path}})
	w.end()
	got, there, err := r.content(path)
	if err != nil {
		return trial{}, err
	}
	clean := there && redactedOnly(draft, got, sec.value, at, at+len(sec.line))
	lost := !clean
	if lost {
		kept, err := r.keptDraft(t, draft)
		if err != nil {
			return trial{}, err
		}
		lost = !kept
	}
	out := w.finish(done && clean, lost, there && !clean)
	out.Fault = out.Fault || s.drops > 0 // even if the agent got no error
	out.Counts["silent"] = btoi(s.drops > 0 && !s.opaque)
	return out, nil
}

// redactedOnly reports whether got is the draft with only the part between from
// and to changed, and without the secret.
func redactedOnly(draft, got, secret string, from, to int) bool {
	return !strings.Contains(got, secret) && len(got) >= from+len(draft)-to &&
		strings.HasPrefix(got, draft[:from]) && strings.HasSuffix(got, draft[to:])
}

// keptDraft reports whether the draft still exists, byte for byte: in any file
// below the workspace, whatever created it, or in a reply of the tool.
func (r *ring) keptDraft(t tool, draft string) (bool, error) {
	if t.Has(drafts) {
		ref := t.Call(r.ctx, call{Verb: drafts}).Ref
		if ref != "" && t.Call(r.ctx, call{Verb: drafts, Ref: ref}).Body == draft {
			return true, nil
		}
	}
	return r.onDisk(".", draft)
}

// onDisk reports whether a text is in a file below a directory of the
// workspace, the tool's own files included.
func (r *ring) onDisk(dir, text string) (found bool, err error) {
	err = r.read(dir, "", func(data []byte) (more bool) {
		found = bytes.Contains(data, []byte(text))
		return !found
	})
	return found, err
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
