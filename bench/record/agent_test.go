//go:build linux

package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestWordsDecide checks what the agent that reads text does about the errors
// of common tools.
func TestWordsDecide(t *testing.T) {
	for text, want := range map[string]step{
		"Error: open a/b: permission denied":                 ask,
		"Error: open a: Read-only file system":               ask,
		"Error: open a: is a directory":                      ask,
		"Error: mkdir a/b: not a directory":                  ask,
		"Error: open nnn: file name too long":                ask,
		"Error: write a: no space left on device":            wait,
		"Error: write a: disk quota exceeded":                wait,
		"Error: open a: too many open files":                 wait,
		"Error: rename a b: device or resource busy":         wait,
		"Error: write a: file too large":                     split,
		"Error: the draft holds a secret":                    censor,
		"Error: open a: file already exists":                 look,
		"Error: the file changed since you read it":          look,
		"Error: invalid arguments: content: expected string": repair,
		"Error: open a: invalid argument":                    repair,
		"Error: path \"../a\" is outside of the workspace":   ask,
		"Error: tool execution failed":                       again,
		"Error: connection closed before a reply came":       again,
		"Error: write a: input/output error":                 ask,
		"":                                                   again,
	} {
		testbed.Equal(t, worded.next(reply{Text: text}), want, text)
		testbed.Equal(t, guided.next(reply{Text: text}), want, text)
		testbed.Equal(t, blind.next(reply{Text: text}), again, text)
	}
}

// TestGuidedFollowsEveryDetail: after no refusal of the library does the guided
// agent send the same bytes at once.
func TestGuidedFollowsEveryDetail(t *testing.T) {
	want := map[rw.Action]step{rw.ActionRedact: censor, rw.ActionSplit: split, rw.ActionRetryLater: wait, rw.ActionAskUser: ask}
	for _, d := range rw.Details() {
		doc := testbed.Must(json.Marshal(rw.NewError("safe_write", d, "", nil)))(t)
		got, ok := byGuidance(string(doc))
		testbed.Expect(t, ok && got != again, "%s: %q", d, got)
		_, _, action, code, _ := d.Describe()
		w, known := want[action]
		testbed.Expect(t, !known || got == w, "%s suggests %s, the agent does %s", d, action, got)
		testbed.Expect(t, action != rw.ActionAbort || code == rw.CodeInvalid || got == ask, "%s: %s instead of stopping", d, got)
	}
	if got, ok := byGuidance(`{"ok":false,"suggested_action":"ask_user","context":{"next_actions":[{"tool":"rw_read","args":{}}]}}`); !ok || got != look {
		t.Errorf("next_actions are not followed: %s", got)
	}
	for _, text := range []string{"", "[]", "null", `{"ok":true,"suggested_action":"split"}`, `{"ok":false}`, `{"suggested_action":"split"}`} {
		if got, ok := byGuidance(text); ok {
			t.Errorf("%q is no guidance, yet %s", text, got)
		}
	}
}

// script is a tool with scripted replies.
type script struct {
	answers []reply // the last one is repeated
	calls   []call
	verbs   map[verb]bool
}

func (s *script) Has(v verb) bool { return s.verbs == nil || s.verbs[v] }

func (s *script) Call(_ context.Context, c call) reply {
	s.calls = append(s.calls, c)
	return s.answers[min(len(s.calls), len(s.answers))-1]
}

var yes, no = reply{OK: true}, reply{Text: "Error: tool execution failed"}

func at(who agent, s *script) *run { return &run{ctx: context.Background(), who: who, tool: s} }

// TestBlindSendsTheSameAtMostFiveTimes also checks that all calls but the first
// are wasted.
func TestBlindSendsTheSameAtMostFiveTimes(t *testing.T) {
	s := &script{answers: []reply{no}}
	w := at(blind, s)
	testbed.Require(t, !w.pursue(task{call: call{Verb: write, Path: "a", Text: "b"}}), "done?")
	got := w.finish(false, false, false)
	testbed.Expect(t, len(s.calls) == 5 && got.Calls == 5 && got.Wasted == 4 && got.Tries == 5 && got.Fault && !w.asked, "%d calls, %+v", len(s.calls), got)
}

// TestRepetitionThatHelpsIsNotWasted also checks that a call after a lost reply
// is not wasted.
func TestRepetitionThatHelpsIsNotWasted(t *testing.T) {
	for _, first := range []reply{no, lost} {
		s := &script{answers: []reply{first, yes}}
		w := at(blind, s)
		done := w.pursue(task{call: call{Verb: write, Path: "a", Text: "b"}})
		got := w.finish(done, false, false)
		testbed.Expect(t, done && got.Wasted == 0 && got.Calls == 2 && got.Tries == 2 && got.modeled() >= callTime && got.modeled() < callTime+waitTime, "%v: %+v", first, got)
	}
}

// TestNothingWrongIsNoFault.
func TestNothingWrongIsNoFault(t *testing.T) {
	w := at(guided, &script{answers: []reply{yes}})
	done := w.pursue(task{call: call{Verb: write}})
	got := w.finish(done, false, false)
	testbed.Expect(t, done && !got.Fault && got.Tries == 0 && got.Wall == 0, "%+v", got)
}

// TestSplitSendsEverythingOnce sends in smaller and smaller pieces while the
// tool asks for that, with tools of both kinds.
func TestSplitSendsEverythingOnce(t *testing.T) {
	text := prose(dice(1, "split", 0), 50_000)
	big := reply{Text: "Error: write a: file too large"}
	for _, verbs := range []map[verb]bool{{write: true, appendTo: true, read: true}, nil} {
		s := &script{answers: []reply{big, yes, big, yes}, verbs: verbs}
		w := at(worded, s)
		testbed.Require(t, w.pursue(task{call: call{Verb: write, Path: "a", Text: text, Key: "k"}}), "not done after %d calls", len(s.calls))
		var sent strings.Builder
		for _, c := range s.calls[3:] {
			testbed.Expect(t, len(c.Text) <= 4<<10, "a piece of %d bytes after the tool said that it is too much", len(c.Text))
			sent.WriteString(c.Text)
		}
		testbed.Expect(t, sent.String() == text, "the pieces are not the text")
		last := s.calls[len(s.calls)-1]
		testbed.Expect(t, verbs != nil || last.Verb == join && last.Path == "a", "the last call is %v", last.Verb)
	}
	s := &script{answers: []reply{big}}
	if w := at(worded, s); w.pursue(task{call: call{Verb: write, Path: "a", Text: text}}) || !w.asked || len(s.calls) > 6 {
		t.Errorf("never asks: %d calls", len(s.calls))
	}
}

// TestAskingEndsIt: an agent makes no further call after a reply that says that
// only the user can help.
func TestAskingEndsIt(t *testing.T) {
	s := &script{answers: []reply{{Text: "Error: open a: permission denied"}}}
	w := at(worded, s)
	testbed.Expect(t, !w.pursue(task{call: call{Verb: write}}) && w.asked && len(s.calls) == 1 && w.first == ask, "%d calls, asked %v", len(s.calls), w.asked)
}

// TestLookingMergesInsteadOfOverwriting: the agent reads the current content,
// and applies the change to it.
func TestLookingMergesInsteadOfOverwriting(t *testing.T) {
	stale := reply{Text: "Error: the file changed since you read it"}
	s := &script{answers: []reply{stale, {OK: true, Body: "theirs ", Hash: "h2"}, yes}}
	w := at(worded, s)
	c := call{Verb: write, Path: "a", Text: "old mine", Replace: true, Prev: "h1"}
	testbed.Require(t, w.pursue(task{call: c, apply: func(old string) string { return old + "mine" }}), "not done")
	last := s.calls[2]
	testbed.Expect(t, last.Text == "theirs mine" && last.Prev == "h2" && last.Replace, "sent %+v", last)
	s = &script{answers: []reply{stale, {OK: true, Body: "mine"}}}
	if w = at(worded, s); !w.pursue(task{call: call{Verb: write, Text: "mine"}}) || len(s.calls) != 2 {
		t.Errorf("the existing content was sent again: %d calls", len(s.calls))
	}
}
