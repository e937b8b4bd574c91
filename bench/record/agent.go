//go:build linux

package main

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// agent is how a script reacts to the reply of a tool. All agents want to write
// the same.
type agent string

const (
	blind  agent = "blind"  // sends the same bytes again, at most mostSame times in total
	worded agent = "text"   // acts on words of the answer, by the list below
	guided agent = "guided" // acts on next_actions and suggested_action, else as text does
)

var agents = []agent{blind, worded, guided}

const (
	mostSame  = 5   // times that the same call is sent
	mostCalls = 300 // in one task, whatever happens
)

// step is what an agent does after a refusal.
type step string

const (
	again  step = "again"  // the same bytes at once
	wait   step = "wait"   // the same bytes after a while
	split  step = "split"  // send in pieces
	censor step = "censor" // have the secrets taken out
	look   step = "look"   // read the file, continue from its content
	repair step = "repair" // correct the arguments
	ask    step = "ask"    // stop and ask the user
)

// words are the rules of the agent that reads text: the first rule with a word
// in the reply decides. They are what can be expected of a reader who knows how
// programs usually word their errors.
var words = []struct {
	do   step
	when []string
}{
	{again, []string{"connection closed"}},
	{censor, []string{"secret", "credential", "redact"}},
	{ask, []string{"name too long", "path too long", "path_too_long"}},
	{look, []string{"already exists", "file_already_exists", "changed since", "mismatch", "conflict"}},
	{wait, []string{"no space", "disk is full", "disk full", "quota exceeded", "disk quota", "too many open files", "busy", "temporarily", "try again", "timed out"}},
	{split, []string{"too large", "would be larger", "file_too_big"}},
	{ask, []string{"permission", "denied", "not permitted", "read-only", "directory", "outside", "i/o error", "input/output", "corrupt"}},
	{repair, []string{"invalid argument", "required", "expected string", "unknown argument", "unknown_argument", "no content", "must be", "utf-8", "decode"}},
}

func byWords(text string) step {
	text = strings.ToLower(text)
	for _, rule := range words {
		if has(text, rule.when...) {
			return rule.do
		}
	}
	return again
}

// envelope is the part of a refusal that the guided agent follows.
type envelope struct {
	OK      *bool  `json:"ok"`
	Action  string `json:"suggested_action"`
	Context struct {
		Reason   string `json:"reason"`
		Code     int    `json:"code"`
		DraftRef string `json:"draft_ref"`
		Next     []struct {
			Tool string `json:"tool"`
		} `json:"next_actions"`
	} `json:"context"`
}

func envelopeOf(text string) (e envelope, ok bool) {
	err := json.Unmarshal([]byte(text), &e)
	return e, err == nil && e.OK != nil && !*e.OK && e.Action != ""
}

// byNext are the next actions that change what an agent does.
var byNext = map[string]step{
	"rw_read": look, "rw_redact": censor, "rw_chunk_append": split,
}

// byAction maps suggested actions to steps. abort is not among them: the only
// remedy is other arguments or, if the arguments are right, the user.
var byAction = map[string]step{
	"redact": censor, "split": split, "escape": repair, "retry_later": wait, "ask_user": ask,
}

// codeInvalid is the numeric class of invalid input.
const codeInvalid = 5

func byGuidance(text string) (step, bool) {
	e, ok := envelopeOf(text)
	if !ok {
		return "", false
	}
	if len(e.Context.Next) > 0 {
		if s, known := byNext[e.Context.Next[0].Tool]; known {
			return s, true
		}
	}
	if s, known := byAction[e.Action]; known {
		return s, true
	}
	if e.Context.Code == codeInvalid {
		return repair, true
	}
	return ask, true
}

// next returns what the agent does after a refusal.
func (a agent) next(r reply) step {
	switch a {
	case blind:
		return again
	case guided:
		if s, ok := byGuidance(r.Text); ok {
			return s
		}
	}
	return byWords(r.Text)
}

// entry is one call that was made.
type entry struct {
	call   call
	ok     bool
	gone   bool
	wasted bool
}

// run is one agent at work on one task.
type run struct {
	ctx   context.Context
	who   agent
	tool  tool
	log   []entry
	waits int
	asked bool
	first step // step after the first refusal

	before func(call)        // called by the harness before every call
	after  func(call, reply) // and after it
	revive func()            // restarts a tool that died

	began  time.Time     // time of the first reply that was not a success
	paused time.Duration // time since then that the harness used
	refail int           // calls since then
	ended  time.Time     // when the run ended
}

// start starts the clock at once: in the initial state something is already
// wrong.
func (r *run) start() { r.began, r.refail = time.Now(), -1 }

// end stops the clock: what follows is the oracle's time.
func (r *run) end() { r.ended = time.Now() }

// send makes one call. A call is wasted when the same call was refused before
// and is refused again.
func (r *run) send(c call) reply {
	if r.before != nil {
		r.harness(func() { r.before(c) })
	}
	rep := r.tool.Call(r.ctx, c)
	e := entry{call: c, ok: rep.OK, gone: rep.Gone}
	for i := range r.log {
		if old := &r.log[i]; !rep.OK && !rep.Gone && !old.ok && !old.gone && old.call.same(c) {
			e.wasted = true
		}
	}
	r.log = append(r.log, e)
	if !rep.OK && r.began.IsZero() {
		r.began = time.Now()
	} else if !r.began.IsZero() {
		r.refail++
	}
	if rep.Gone && r.revive != nil {
		r.revive()
	}
	if r.after != nil {
		r.harness(func() { r.after(c, rep) })
	}
	return rep
}

// harness runs fn without counting its time as the agent's.
func (r *run) harness(fn func()) {
	t := time.Now()
	fn()
	if !r.began.IsZero() {
		r.paused += time.Since(t)
	}
}

// times returns how often the call was sent.
func (r *run) times(c call) int {
	n := 0
	for i := range r.log {
		if r.log[i].call.same(c) {
			n++
		}
	}
	return n
}

// waste marks the calls chosen by pick as calls that could not help.
func (r *run) waste(pick func(call) bool) {
	for i := range r.log {
		r.log[i].wasted = r.log[i].wasted || pick(r.log[i].call)
	}
}
