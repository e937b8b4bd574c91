package hooks

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/hook"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/gate"
	"github.com/resilientwrite/resilientwrite/internal/policyfile"
	"github.com/resilientwrite/resilientwrite/internal/scan"
	"github.com/resilientwrite/resilientwrite/internal/visible"
)

// question is a question of an authorizer for the user.
type question struct {
	hook int // which of the hooks asks, defaultsAsk for none
	text string
}

// defaultsAsk is the hook number of questions that no hook asks.
const defaultsAsk = -1

// maxQuestion is the limit of a question in bytes. Truncation is marked, so that
// a user does not consent to a question that only seems complete.
const maxQuestion = 4000

// questionText returns a question as it may be shown to a user: without secrets,
// and without characters that reorder or hide text.
func (l *Layer) questionText(text string) string {
	if text == "" {
		return "this call needs the user's consent"
	}
	clean, _ := l.Gate.Policy().Scanner().Redact([]byte(visible.Text(text, utf8.RuneError)), scan.Options{})
	if len(clean) <= maxQuestion {
		return string(clean)
	}
	return visible.Prefix(string(clean), maxQuestion) + " … (the question is longer than can be shown)"
}

// answers holds the answers that apply to later calls too.
type answers struct {
	mu       sync.Mutex
	exact    map[string]bool
	patterns []standing
}

// standing is an answer that applies to all files that a glob matches.
type standing struct {
	hook int
	verb string
	ops  []string
	glob string
}

// covers reports whether a question has been answered already.
func (a *answers) covers(op hook.Call, q question) bool {
	if q.hook == defaultsAsk { // whose answers are by path
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.exact[answerKey(op, q, true)] || !op.Destructive() && a.exact[answerKey(op, q, false)] {
		return true
	}
	return slices.ContainsFunc(a.patterns, func(p standing) bool { return p.hook == q.hook && p.covers(op) })
}

// remember keeps an answer that applies to later calls too.
func (a *answers) remember(op hook.Call, q question, answer hook.Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.exact == nil {
		a.exact = map[string]bool{}
	}
	a.exact[answerKey(op, q, op.Destructive())] = true
	p := standing{hook: q.hook, verb: op.Verb, glob: answer.Pattern}
	for _, ch := range op.Changes {
		p.ops = append(p.ops, ch.Op)
	}
	if answer.Pattern != "" && p.covers(op) {
		a.patterns = append(a.patterns, p)
	}
}

// covers reports whether the answer applies to the operation.
func (p standing) covers(op hook.Call) bool {
	if op.Verb != p.verb || op.Destructive() {
		return false
	}
	return !slices.ContainsFunc(op.Changes, func(ch hook.Change) bool {
		return !slices.Contains(p.ops, ch.Op) || !policyfile.Covers([]string{p.glob}, ch.RealPath)
	})
}

// answerKey identifies a question: its text, the verb, and the changes with their
// paths.
func answerKey(op hook.Call, q question, destructive bool) string {
	return strings.Join([]string{strconv.Itoa(q.hook), q.text, strconv.FormatBool(destructive), subject(op)}, "\x01")
}

// subject describes the changes of an operation and their paths.
func subject(op hook.Call) string {
	key := op.Verb
	for _, ch := range op.Changes {
		key += "\x00" + ch.Op + "\x00" + ch.RealFrom + "\x00" + ch.RealPath
	}
	return key
}

// ask puts the questions to the user. A dry run needs no consent because it
// changes nothing, nor does a call that was completed before under its
// idempotency key.
func (r *Run) ask(ctx context.Context, op hook.Call, questions []question, files []gate.Guarded) error {
	questions = slices.DeleteFunc(slices.Clone(questions), func(q question) bool { return r.Hooks.answers.covers(op, q) })
	if len(questions) == 0 {
		return nil
	}
	if r.Hooks.KeyKnown(r.Gate.Commit.Req.Key) {
		r.Gate.Commit.Unasked = true
		return nil
	}
	channel := r.Hooks.Channel(ctx)
	if channel == nil && len(files) > 0 { // a dry run reports it too
		return r.Gate.RefuseProtected(files, "this connection cannot ask the user, so the call was refused")
	}
	if op.DryRun {
		return nil
	}
	if channel == nil {
		text := questions[0].text
		return fault.New(fault.Denied).With("question", text).
			Hintf("%s; this connection cannot ask the user, so the call is refused: ask the user yourself, who can make the change or allow it in the settings of the host", text)
	}
	given := make([]hook.Answer, len(questions))
	var open []string
	for i, q := range questions {
		answer, err := contained("the question panicked", func() (hook.Answer, error) { return channel(ctx, own(op), q.text) })
		if err == nil && answer.Allow {
			given[i] = answer
			continue
		}
		if errors.Is(err, fault.InputRequired) && ctx.Err() == nil {
			open = append(open, q.text)
			continue
		}
		return r.unanswered(ctx, q, err, files)
	}
	if len(open) > 0 {
		return fault.New(fault.InputRequired).With("questions", open)
	}
	for i, q := range questions {
		switch {
		case q.hook == defaultsAsk:
			r.Gate.Consent(files, given[i].Always)
		case given[i].Always:
			r.Hooks.answers.remember(op, q, given[i])
		}
	}
	return nil
}

// unanswered returns the error of a question that was not answered with yes; err
// is nil for a no.
func (r *Run) unanswered(ctx context.Context, q question, err error, files []gate.Guarded) error {
	switch {
	case err != nil && ctx.Err() != nil:
		return fault.New(fault.Canceled).Because(err)
	case q.hook == defaultsAsk && err != nil:
		return r.Gate.RefuseProtected(files, "the user was asked and did not answer, so the call was refused")
	case q.hook == defaultsAsk:
		return r.Gate.RefuseProtected(files, "the user was asked and said no")
	case err != nil:
		return fault.New(fault.Denied).With("question", q.text).Because(err).
			Hintf("the question was not answered, so the call is refused; talk to the user, then send the call again")
	}
	return fault.New(fault.Denied).With("question", q.text).Hintf("the user said no; do something else, or ask the user what to do instead")
}
