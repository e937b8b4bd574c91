// Package toolbox offers the methods of a Store as tools for a language model:
// a list to show to the model, and a way to call a tool by name with JSON. It
// contains no protocol. Package mcpserver serves the same tools over MCP, and the
// modules below adapters/ give them to other frameworks.
//
//	box := toolbox.New(store, &toolbox.Options{Caller: "my-agent"})
//	for _, t := range box.Tools() {
//		list = append(list, function{t.Name, t.Description, t.InputMap()})
//	}
//	…
//	answer := box.Call(ctx, call.Name, call.Arguments, &toolbox.CallOpts{Session: conversation, CallID: call.ID})
//	messages = append(messages, toolResult{call.ID, answer.Text})
//
// A refusal is an answer too: its text says what was wrong, whether the disk
// was changed, and what to do next.
//
// The gate is stricter than the library's where neither the policy file nor the
// host configures it ([rw.GateOfAgents]), and the protected defaults ask the
// user ([rw.ProtectAsk]).
//
// A program that knows at compile time what it wants to write calls the methods
// of the Store instead.
package toolbox

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"slices"

	"golang.org/x/time/rate"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// Options are the settings of a [Toolbox]. nil means the defaults.
type Options struct {
	// Caller is recorded in the journal for calls that name none.
	Caller string
	// Tier chooses which tools are listed and how much is said of each.
	// Default [Standard]. A tool that is not listed can still be called,
	// but for exec and claim.
	Tier Preset
	// Tools adds tools to the list, by name, with or without the prefix.
	Tools []string
	// Replies is the form of replies. Default: full for the preset [Full] and
	// for dotted names, which older clients use, otherwise brief.
	Replies Replies
	// DottedNames lists the tools as rw.safe_write instead of rw_safe_write.
	// Some clients reject dots; both forms always work on call.
	DottedNames bool

	// Filter drops the tools for which it returns false: they are neither
	// listed nor can they be called. nil keeps all.
	Filter func(Tool) bool
	// Rename gives a tool another name, and in the instructions, descriptions,
	// schemas, hints and next steps. It is called with the name as it would be
	// listed and returns the one to list; the original names keep working on
	// call. If two tools get one name, or a name does not have the form
	// [A-Za-z0-9_.-]{1,64}, they keep their original names.
	Rename func(name string) string

	// Warnings returns what the host has to say of the store; describe adds it
	// to the warnings of the recovery. nil means nothing.
	Warnings func() []rw.Warning
	// Logger gets structured records without content. Default: none.
	Logger *slog.Logger
	// CallsPerSecond is the rate at which calls are answered in the long run;
	// twice as many may come at once. 0 means 1000, negative no limit.
	CallsPerSecond int
}

// lists reports whether the options list a tool.
func (o *Options) lists(t tool) bool {
	return o.Tier.Lists(t.tier()) || slices.ContainsFunc(o.Tools, func(name string) bool { return unprefixed(name) == t.name })
}

// orDefaults fills in what is not set.
func (o *Options) orDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	out.Tier = cmp.Or(out.Tier, Standard)
	switch {
	case out.Replies != "":
	case out.Tier == Full || out.DottedNames:
		out.Replies = FullReplies
	default:
		out.Replies = BriefReplies
	}
	out.Logger = cmp.Or(out.Logger, slog.New(slog.NewTextHandler(io.Discard, nil)))
	return out
}

// Toolbox is the tools of a store. It is safe for concurrent use. The caller
// closes the store after the last call.
type Toolbox struct {
	store *rw.Store
	opts  Options
	set   *toolset
	limit *rate.Limiter
	brief bool // the form of replies
	lines lineNumbers
}

// New returns the tools of the store. A nil store has tools that can be listed
// but not called.
func New(store *rw.Store, opts *Options) *Toolbox { return newToolbox(store, table, opts.orDefaults()) }

func newToolbox(store *rw.Store, tools []tool, o Options) *Toolbox {
	return &Toolbox{store: store, opts: o, set: newToolset(tools, o), limit: newLimit(o.CallsPerSecond), brief: o.Replies == BriefReplies}
}

// Tools lists the tools of the preset, under the names to call.
func (b *Toolbox) Tools() []Tool {
	return slices.DeleteFunc(b.All(), func(t Tool) bool { return !t.Listed })
}

// Replies is the form of replies.
func (b *Toolbox) Replies() Replies { return b.opts.Replies }

// All lists every tool that can be called.
func (b *Toolbox) All() []Tool {
	list := make([]Tool, len(b.set.offers))
	for i, of := range b.set.offers {
		list[i] = of.shown(b.opts.Tier)
	}
	return list
}

// Find returns the tool that a name means, with all its arguments, whatever the
// preset lists.
func (b *Toolbox) Find(name string) (Tool, bool) {
	of, ok := b.set.find(name)
	if !ok {
		return Tool{}, false
	}
	return of.shown(Full), true
}

// Resolve returns the name in the list of [Toolbox.All] that a name means.
func (b *Toolbox) Resolve(name string) (string, bool) {
	of, ok := b.set.find(name)
	if !ok {
		return "", false
	}
	return of.wire, true
}

// CallOpts says of a call what its arguments do not. nil means nothing.
type CallOpts struct {
	// Session names the conversation. It is the session of the call whatever
	// the arguments say: in the journal, for undo, and for repeated calls.
	Session string
	// CallID is the id by which the model or its API names the call. A call
	// that is repeated with the same id and arguments takes effect once, if the
	// id has at least 20 characters; shorter ones may be numbers of one turn.
	CallID string
	// IdempotencyKey makes a repeated call take effect once. It is for tools
	// that take one, and for calls whose arguments have none.
	IdempotencyKey string
	// Progress receives how far a long call has come.
	Progress func(rw.Progress)
	// Client and Version are what the client of a protocol calls itself.
	Client, Version string
	// Connection is the id of its connection, unique on this machine. The
	// journal has a hash of it: a reader could use the id to act as the client.
	Connection string
	// Model, Turn and Trace are what the host says of the language model, the
	// turn of the conversation and the trace of the call.
	Model, Turn, Trace string
}

type callOptsKey struct{}

// WithCallOpts returns a context whose calls have these options, where the
// options of a call leave one out: for a framework that carries the call.
func WithCallOpts(ctx context.Context, opts CallOpts) context.Context {
	return context.WithValue(ctx, callOptsKey{}, opts.or(ctx))
}

// or fills in what the context says.
func (o CallOpts) or(ctx context.Context) CallOpts {
	of, _ := ctx.Value(callOptsKey{}).(CallOpts)
	o.Session, o.CallID = cmp.Or(o.Session, of.Session), cmp.Or(o.CallID, of.CallID)
	o.IdempotencyKey = cmp.Or(o.IdempotencyKey, of.IdempotencyKey)
	o.Client, o.Version, o.Connection = cmp.Or(o.Client, of.Client), cmp.Or(o.Version, of.Version), cmp.Or(o.Connection, of.Connection)
	o.Model, o.Turn, o.Trace = cmp.Or(o.Model, of.Model), cmp.Or(o.Turn, of.Turn), cmp.Or(o.Trace, of.Trace)
	if o.Progress == nil {
		o.Progress = of.Progress
	}
	return o
}

// Answer is what a call returns.
type Answer struct {
	OK      bool    // false for a refusal
	Text    string  // what the model receives: a JSON object that begins with ok
	Receipt Receipt // what programs keep and models need not see
}

// Receipt is the record of a call, and what a program needs besides.
type Receipt struct {
	rw.Receipt   // zero for a call that leaves no record, such as a read
	InvocationID string
	Code         rw.Code
	Journaled    bool
	Alias        []string // names that the call used in place of ours
}

// MarshalJSON writes one object, without the members of the record where there
// is none.
func (r Receipt) MarshalJSON() ([]byte, error) {
	type facts struct {
		Code      rw.Code  `json:"code"`
		Journaled bool     `json:"journaled"`
		Alias     []string `json:"alias,omitempty"`
	}
	also := facts{r.Code, r.Journaled, r.Alias}
	if r.Op != "" {
		return schema.Encode(struct {
			rw.Receipt
			facts
		}{r.Receipt, also})
	}
	return schema.Encode(struct {
		InvocationID string `json:"invocation_id,omitempty"`
		facts
	}{r.InvocationID, also})
}

// Call calls a tool by any of its names with arguments as a JSON object. A
// refusal is an answer whose OK is false; there is no other error, and no
// panic. Canceling ctx has no effect once the call has passed its commit point.
func (b *Toolbox) Call(ctx context.Context, name string, args json.RawMessage, opts *CallOpts) Answer {
	of, ok := b.set.find(name)
	if !ok {
		return b.unknown(name).answer()
	}
	var o CallOpts
	if opts != nil {
		o = *opts
	}
	o = o.or(ctx)
	if b.opts.Caller != "" {
		ctx = rw.WithCaller(ctx, b.opts.Caller, "")
	}
	if o.Session+o.CallID+o.Client+o.Version+o.Connection+o.Model+o.Turn+o.Trace != "" {
		ctx = rw.WithVia(ctx, rw.Via{Client: o.Client, Version: o.Version, Connection: label(o.Connection), Thread: o.Session, Call: o.CallID, Model: o.Model, Turn: o.Turn, Trace: o.Trace})
	}
	return of.answer(rw.WithProgress(ctx, o.Progress), b, name, schema.Unquoted(args, '{'), o).answer()
}

// label names a connection in the journal.
func label(connection string) string {
	if connection == "" {
		return ""
	}
	sum := sha256.Sum256([]byte("resilientwrite session\x00" + connection))
	return "mcp-" + hex.EncodeToString(sum[:8])
}

// Refuse is a refusal in the form of this toolbox, for what a host itself
// refuses. tool is the name that was called, or "".
func (b *Toolbox) Refuse(tool string, e *rw.Error) Answer { return b.failure(tool, e).answer() }

// Allow takes one call off the limit of calls, for what a host answers besides
// tools. It reports whether the call is within the limit.
func (b *Toolbox) Allow() bool { return b.limit.Allow() }

// ForAgents returns the context of the calls of agents: what holds for them
// where neither the policy nor the options of the store say anything.
func ForAgents(ctx context.Context) context.Context {
	return rw.WithProtectDefaults(rw.WithGate(ctx, rw.GateOfAgents), rw.ProtectAsk)
}

// PanicError is what a caller gets for a panic in a tool. The effect is certain
// only for a tool that changes nothing: the panic may have come after the
// commit. What it panicked with may hold content and is never shown.
func PanicError(tool string, readOnly bool) *rw.Error {
	e := rw.NewError(tool, rw.ErrInternal, "", nil)
	if !readOnly {
		e.Effect = rw.EffectUnknown
		e.Hint = "internal error; the call may have been carried out: check with rw_operation before you send it again, and report the error together with the call"
	}
	return e
}

const defaultRate = 1000 // calls per second

// newLimit is a limit of the rate of calls that holds two seconds' worth of tokens.
func newLimit(perSecond int) *rate.Limiter {
	perSecond = cmp.Or(perSecond, defaultRate)
	if perSecond < 0 {
		return rate.NewLimiter(rate.Inf, 0)
	}
	return rate.NewLimiter(rate.Limit(perSecond), 2*perSecond)
}
