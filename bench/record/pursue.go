//go:build linux

package main

import "fmt"

// task is one call that is to succeed, and what its agent knows in addition.
type task struct {
	call
	// apply makes the new content from the current one. nil: Text replaces it.
	apply func(old string) string
	// fixed is the call with its arguments corrected. nil: there is nothing
	// that the agent could correct.
	fixed *call
}

// pursue makes the call and follows the replies until the call succeeds, the
// user is asked, or no step is left.
func (r *run) pursue(t task) bool {
	c, before := t.call, map[step]int{}
	for len(r.log) < mostCalls {
		rep := r.send(c)
		if rep.OK {
			return true
		}
		do := r.who.next(rep)
		if r.first == "" {
			r.first = do
		}
		before[do]++
		switch do {
		case again:
			if r.times(c) >= mostSame {
				return false
			}
		case wait:
			if r.waits++; r.times(c) >= mostSame {
				return r.stop()
			}
		case look:
			there, done, ok := r.looked(t, c)
			if done || !ok {
				return done
			}
			c = there
		case split:
			if before[split] > 1 || c.Verb != write {
				return r.stop()
			}
			return r.inPieces(c)
		case censor:
			clean, ok := r.censored(c, rep)
			if !ok || before[censor] > 2 {
				return r.stop()
			}
			c.Text = clean
		case repair:
			if t.fixed == nil || before[repair] > 1 {
				return r.stop()
			}
			c = *t.fixed
		default:
			return r.stop()
		}
	}
	return false
}

// stop asks the user.
func (r *run) stop() bool {
	r.asked = true
	return false
}

// looked reads the file and returns what to send now. done is true if the file
// holds what it should.
func (r *run) looked(t task, c call) (next call, done, ok bool) {
	rep := r.send(call{Verb: read, Path: c.Path})
	if !rep.OK {
		if r.times(call{Verb: read, Path: c.Path}) > 2 {
			return c, false, r.stop()
		}
		c.Replace, c.Prev = false, "" // the file does not exist: create it
		return c, false, true
	}
	want := t.Text
	if t.apply != nil {
		want = t.apply(rep.Body)
	}
	if rep.Body == want {
		return c, true, true
	}
	c.Text, c.Replace, c.Prev = want, true, rep.Hash
	return c, false, true
}

// censored returns the text without its secrets: the draft that the tool keeps
// if the agent follows the reply, otherwise its own text.
func (r *run) censored(c call, rep reply) (string, bool) {
	if !r.tool.Has(redact) {
		return "", false
	}
	q := call{Verb: redact, Path: c.Path, Text: c.Text}
	if e, ok := envelopeOf(rep.Text); ok && r.who == guided && e.Context.DraftRef != "" {
		q.Text, q.Ref = "", e.Context.DraftRef
	}
	got := r.send(q)
	return got.Body, got.OK
}

// pieceSizes are the sizes that an agent sends at once when it splits: smaller
// each time the tool still reports that it is too much.
var pieceSizes = []int{16 << 10, 4 << 10, 1 << 10}

// inPieces sends a text in pieces.
func (r *run) inPieces(c call) bool {
	for _, size := range pieceSizes {
		done, smaller := r.piecesOf(c, size)
		if done {
			return true
		}
		if !smaller {
			break
		}
	}
	return r.stop()
}

// piecesOf sends the pieces with the tool for that, if there is one, otherwise
// as a write and appends.
func (r *run) piecesOf(c call, size int) (done, smaller bool) {
	parts := cut(c.Text, size)
	session := fmt.Sprintf("%s-%d", sessionOf(c), size)
	for i, part := range parts {
		p := call{Verb: appendTo, Path: c.Path, Text: part, Key: keyed(c.Key+session, i)}
		switch {
		case r.tool.Has(piece):
			p.Verb, p.Path, p.Session, p.Index, p.Total = piece, "", session, i+1, len(parts)
		case i == 0:
			p.Verb, p.Replace = write, true
		}
		if done, smaller = r.persist(p); !done {
			return false, smaller
		}
	}
	if !r.tool.Has(piece) {
		return true, false
	}
	done, _ = r.persist(call{Verb: join, Session: session, Path: c.Path, Key: keyed(c.Key+session, len(parts))})
	return done, false
}

// persist repeats a call as long as its agent considers that useful. smaller
// reports that the agent would rather send less.
func (r *run) persist(c call) (done, smaller bool) {
	for {
		rep := r.send(c)
		if rep.OK || r.times(c) >= mostSame || len(r.log) >= mostCalls {
			return rep.OK, false
		}
		switch r.who.next(rep) {
		case again:
		case wait:
			r.waits++
		case split:
			return false, true
		default:
			return false, false
		}
	}
}

func cut(text string, size int) []string {
	var parts []string
	for len(text) > size {
		parts, text = append(parts, text[:size]), text[size:]
	}
	return append(parts, text)
}
