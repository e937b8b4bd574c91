package mcpserver

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
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
	t, ok := tickets.parse(came.RequestState)
	if !ok {
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
// Their request state is a ticket: it proves that this server asked exactly these
// questions recently, and can be used once. An answer without a ticket, or with that of
// another question, is ignored, and the user is asked again. The ticket contains no
// decision and no secret.

const (
	ticketAge   = time.Hour
	ticketSpent = 4096 // used tickets that are remembered
	ticketForm  = "rw1."
	nonceBytes  = 16
	maxTicket   = 16 << 10 // bytes of a request state that are read
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

// ticket is a request state.
type ticket struct {
	nonce   [nonceBytes]byte
	expires int64 // seconds since 1970
	asked   []subject
	reign   int // of the key that signed it
}

// office issues and redeems tickets.
type office struct {
	now func() time.Time

	mu    sync.Mutex
	key   []byte // of this process; nil until it is needed
	reign int    // which key of the process it is
	spent map[[nonceBytes]byte]int64
}

// tickets is one for the process: a host may make a server for each
// connection, and the second call may come over another one.
var tickets = &office{now: time.Now}

// sign returns the proof of data. The caller holds the lock.
func (o *office) sign(data []byte) []byte {
	if o.key == nil {
		o.key = make([]byte, 32)
		rand.Read(o.key)
	}
	mac := hmac.New(sha256.New, o.key)
	mac.Write(data)
	return mac.Sum(nil)
}

// issue makes the request state for some questions.
func (o *office) issue(about []subject) string {
	data := make([]byte, nonceBytes, nonceBytes+8+len(about)*sha256.Size)
	rand.Read(data)
	data = binary.BigEndian.AppendUint64(data, uint64(o.now().Add(ticketAge).Unix()))
	for _, s := range about {
		data = append(data, s[:]...)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return ticketForm + base64.RawURLEncoding.EncodeToString(append(data, o.sign(data)...))
}

// parse reads a request state. It is false for one that is not ours or too
// old.
func (o *office) parse(state string) (*ticket, bool) {
	text, ok := strings.CutPrefix(state, ticketForm)
	if !ok || len(text) > maxTicket {
		return nil, false
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(data) < nonceBytes+8+sha256.Size || (len(data)-nonceBytes-8)%sha256.Size != 0 {
		return nil, false
	}
	data, mac := data[:len(data)-sha256.Size], data[len(data)-sha256.Size:]
	o.mu.Lock()
	proof, reign := o.sign(data), o.reign
	o.mu.Unlock()
	if !hmac.Equal(mac, proof) {
		return nil, false
	}
	t := &ticket{nonce: [nonceBytes]byte(data), expires: int64(binary.BigEndian.Uint64(data[nonceBytes:])), reign: reign}
	for rest := data[nonceBytes+8:]; len(rest) > 0; rest = rest[sha256.Size:] {
		t.asked = append(t.asked, subject(rest))
	}
	return t, o.now().Unix() < t.expires
}

// redeem uses a ticket up. It is false for one that was used before.
func (o *office) redeem(t *ticket) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, used := o.spent[t.nonce]; used || t.reign != o.reign {
		return false
	}
	now := o.now().Unix()
	if len(o.spent) >= ticketSpent {
		for nonce, expires := range o.spent {
			if expires <= now {
				delete(o.spent, nonce)
			}
		}
	}
	if len(o.spent) >= ticketSpent {
		// A ticket that cannot be remembered must not be valid: with another key,
		// pending questions are asked again.
		o.key, o.spent = nil, nil
		o.reign++
	}
	if o.spent == nil {
		o.spent = map[[nonceBytes]byte]int64{}
	}
	o.spent[t.nonce] = t.expires
	return true
}
