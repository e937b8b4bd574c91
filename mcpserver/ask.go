package mcpserver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/hook"
)

// Questions of the host's hooks reach the user through the client. The call
// that raised one ends without a trace, and is repeated with the answer: by the
// client, where the protocol has no requests of the server (2026-07-28),
// otherwise by this package, after an elicitation.

// maxRounds is how often one call of an older client may ask again, because its change
// differs from the one that the user was asked about.
const maxRounds = 3

// converse answers a call, including all questions to the user.
func (h *host) converse(ctx context.Context, t ToolInfo, req mcp.CallToolRequest, args json.RawMessage) *mcp.CallToolResult {
	name, opts := t.Name, origin(ctx, req.Params.Meta)
	if called := metaText(req.Params.Meta, calledAs); called != "" {
		if same, ok := h.box.Resolve(called); ok && same == name {
			name = called
		}
	}
	box, args, refusal := h.target(ctx, t, args)
	if refusal != nil {
		return h.result(h.box.Refuse(t.Stem, refusal))
	}
	if !canAsk(ctx) {
		return h.result(box.Call(ctx, name, args, opts))
	}
	d := &dialog{said: map[subject]said{}}
	modern := server.IsModernRequest(ctx)
	if modern {
		d.resume(req.Params.MultiRoundTripParams)
	}
	for round := 0; ; round++ {
		a := box.Call(rw.WithAsk(ctx, d.ask), name, args, opts)
		switch {
		case a.OK || len(d.open) == 0 || round == maxRounds:
			return h.result(a)
		case modern:
			return d.required()
		}
		d.elicit(ctx)
	}
}

// canAsk reports whether the client puts forms to its user.
func canAsk(ctx context.Context) bool {
	if info := server.RequestProtocolInfoFromContext(ctx); info != nil && info.Modern {
		return info.ClientCapabilities != nil && hasForms(info.ClientCapabilities.Elicitation)
	}
	session := server.ClientSessionFromContext(ctx)
	if _, ok := session.(server.SessionWithElicitation); !ok {
		return false
	}
	info, ok := session.(server.SessionWithClientInfo)
	return ok && hasForms(info.GetClientCapabilities().Elicitation)
}

// hasForms reports whether a client that elicits has forms: one that names no
// mode does.
func hasForms(c *mcp.ElicitationCapability) bool {
	return c != nil && (c.Form != nil || c.URL == nil)
}

// dialog is the questions of one call and the user's answers.
type dialog struct {
	ticket *ticket // with which the client was asked; nil if it was not
	valid  bool    // the ticket, once it is used
	said   map[subject]said
	open   []asked
}

type said struct {
	answer hook.Answer
	err    error
}

// asked is a question that has no answer yet.
type asked struct {
	about       subject
	text        string
	destructive bool
}

// resume takes the answers that came with a call. They count only with the
// ticket that we gave out with these questions.
func (d *dialog) resume(came mcp.MultiRoundTripParams) {
	t := tickets.find(came.RequestState)
	if t == nil {
		return
	}
	d.ticket = t
	for i, about := range t.asked {
		answer, err := read(server.ElicitationResponse(came.InputResponses, formName(i)))
		d.said[about] = said{answer, err}
	}
}

// ask is the channel to the user as the Store sees it.
func (d *dialog) ask(_ context.Context, op hook.Call, text string) (hook.Answer, error) {
	q := asked{about: subjectOf(op, text), text: text, destructive: op.Destructive()}
	if s, ok := d.said[q.about]; ok && d.counts() {
		return s.answer, s.err
	}
	for _, o := range d.open {
		if o.about == q.about { // asked for twice
			return hook.Answer{}, rw.ErrInputRequired
		}
	}
	d.open = append(d.open, q)
	return hook.Answer{}, rw.ErrInputRequired
}

// counts reports whether the answers may be used. A ticket is valid for one call.
func (d *dialog) counts() bool {
	if d.ticket != nil && !d.valid {
		d.valid = tickets.redeem(d.ticket)
		if !d.valid {
			d.said = map[subject]said{}
		}
		return d.valid
	}
	return true
}

func formName(i int) string { return fmt.Sprintf("consent_%d", i+1) }

// required is the result of a call that has open questions.
func (d *dialog) required() *mcp.CallToolResult {
	var about []subject
	for _, q := range d.open {
		about = append(about, q.about)
	}
	b := server.NewInputRequestBuilder(tickets.issue(about))
	for i, q := range d.open {
		b.Elicit(formName(i), q.form())
	}
	return b.ToolResult()
}

// elicit puts the open questions to the user, one after the other. After a no
// the others are spared.
func (d *dialog) elicit(ctx context.Context) {
	s := server.ServerFromContext(ctx)
	allowed := s != nil
	for _, q := range d.open {
		out := said{err: errors.New("the user was not asked")}
		if allowed {
			res, err := s.RequestElicitation(ctx, mcp.ElicitationRequest{Params: q.form()})
			if err == nil {
				out.answer, err = read(res)
			}
			out.err = err
			allowed = err == nil && out.answer.Allow
		}
		d.said[q.about] = out
	}
	d.open = nil
}

// form is the question as the user sees it.
func (q asked) form() mcp.ElicitationParams {
	fields := map[string]any{
		"allow":  map[string]any{"type": "boolean", "title": "Allow it", "description": "Allow this change."},
		"always": map[string]any{"type": "boolean", "title": "And from now on", "description": "Do not ask again for the same change of the same files.", "default": false},
	}
	if !q.destructive {
		fields["pattern"] = map[string]any{
			"type": "string", "title": "For these files", "maxLength": 200,
			"description": "A glob such as docs/**: with the box above, applies to all matching files, as long as nothing is deleted or replaced. Empty: the files of this change.",
		}
	}
	return mcp.ElicitationParams{
		Mode: mcp.ElicitationModeForm, Message: q.text,
		RequestedSchema: map[string]any{"type": "object", "properties": fields, "required": []string{"allow"}},
	}
}

// read reads the user's answer. Only a clear yes counts as consent.
func read(res *mcp.ElicitationResult) (hook.Answer, error) {
	unclear := errors.New("the answer cannot be read")
	switch {
	case res == nil:
		return hook.Answer{}, unclear
	case res.Action == mcp.ElicitationResponseActionDecline:
		return hook.Answer{}, nil
	case res.Action != mcp.ElicitationResponseActionAccept:
		return hook.Answer{}, errors.New("the user closed the question")
	}
	data, err := json.Marshal(res.Content)
	if err != nil {
		return hook.Answer{}, unclear
	}
	fields := map[string]any{} // not a struct: the names are exact
	if json.Unmarshal(data, &fields) != nil {
		return hook.Answer{}, unclear
	}
	allow, ok := fields["allow"].(bool)
	always, isBool := fields["always"].(bool)
	pattern, isText := fields["pattern"].(string)
	if !ok || fields["always"] != nil && !isBool || fields["pattern"] != nil && !isText {
		return hook.Answer{}, unclear
	}
	if !allow {
		return hook.Answer{}, nil
	}
	return hook.Answer{Allow: true, Always: always, Pattern: pattern}, nil
}

// When the client puts the questions to the user, it holds them between the two calls.
// Their request state names a ticket: this server asked exactly these questions
// recently, and takes one set of answers to them. An answer without a ticket, or with
// that of another question, is ignored, and the user is asked again.

const (
	ticketAge  = time.Hour
	maxTickets = 4096 // that wait for answers
)

// subject identifies the content of a question: the call with all its arguments, the
// changes that it would make to which files, and the text.
type subject [sha256.Size]byte

func subjectOf(op hook.Call, text string) subject {
	type change struct {
		Op, Path, RealPath, From, RealFrom string
		Exists                             bool
	}
	about := struct {
		Verb, Request, Caller, Session, Text string
		Changes                              []change
	}{Verb: op.Verb, Request: op.Request, Caller: op.Caller, Session: op.Session, Text: text}
	for _, ch := range op.Changes {
		about.Changes = append(about.Changes, change{ch.Op, ch.Path, ch.RealPath, ch.From, ch.RealFrom, ch.Exists})
	}
	data, err := json.Marshal(about)
	if err != nil { // strings and booleans
		panic(err)
	}
	return sha256.Sum256(data)
}

// ticket is what a client was asked under one request state.
type ticket struct {
	state   string
	expires time.Time
	asked   []subject
}

// office issues and redeems tickets.
type office struct {
	now func() time.Time

	mu   sync.Mutex
	open map[string]*ticket // by request state
}

// tickets is one for the process: a host may make a server for each
// connection, and the second call may come over another one.
var tickets = &office{now: time.Now}

// issue makes the request state for some questions.
func (o *office) issue(about []subject) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	if len(o.open) >= maxTickets {
		maps.DeleteFunc(o.open, func(_ string, t *ticket) bool { return !now.Before(t.expires) })
	}
	if o.open == nil || len(o.open) >= maxTickets {
		o.open = map[string]*ticket{} // the pending questions are asked again
	}
	t := &ticket{state: rand.Text(), expires: now.Add(ticketAge), asked: about}
	o.open[t.state] = t
	return t.state
}

// find returns the ticket of a request state, nil if it is not ours, too old, or was
// used.
func (o *office) find(state string) *ticket {
	o.mu.Lock()
	defer o.mu.Unlock()
	if t := o.open[state]; t != nil && o.now().Before(t.expires) {
		return t
	}
	return nil
}

// redeem uses a ticket up. It is false for one that was used before.
func (o *office) redeem(t *ticket) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, ok := o.open[t.state]
	delete(o.open, t.state)
	return ok
}
