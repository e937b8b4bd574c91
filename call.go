package resilientwrite

import (
	"cmp"
	"context"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/adapter"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/gate"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/budget"
	"github.com/resilientwrite/resilientwrite/internal/visible"
)

// Call is what a call that changes something says about itself: who makes it, its
// idempotency key, whether it is a dry run.
type Call = call.Call

// request is what a mutating call declares about itself.
type request struct {
	op      string // the verb
	caller  string
	session string
	key     string // idempotency key
	hash    string // of everything the caller asked for
	dryRun  bool
	tx      string
	risk    gate.Risk
	args    any   // the request of the verb, for its names
	of      *Call // what is checked of it; nil: nothing

	complete bool // a handoff that says that the task is done
	frees    bool // a way out of a full disk, so it may have the reserve
	long     bool // it may change more files than a call can name
}

// requestOf returns what a commit of the verb op knows of its call. args is the
// request of the verb.
func requestOf(c Call, op string, args any) request {
	return request{
		op: op, caller: c.Caller, session: c.Session, key: c.IdempotencyKey, dryRun: c.DryRun,
		risk: gate.Risk{Accept: c.AcceptRisk}, args: args, of: &c, hash: identity(op, args),
	}
}

// checkCall validates the arguments common to all mutating requests: names, and
// digests that did not arrive as one.
func checkCall(ctx context.Context, c Call) *fault.Fault {
	if e := badDigest(ctx, ""); e != nil {
		return e
	}
	return cmp.Or(checkLabels(c.Caller, c.Session, c.IdempotencyKey), gate.Risk{Accept: c.AcceptRisk}.Check())
}

// checkLabels validates the names that every mutating request may set.
func checkLabels(caller, session, key string) *fault.Fault {
	for _, arg := range []struct{ name, value string }{
		{"caller", caller}, {"session", session}, {"idempotency_key", key},
	} {
		if len(arg.value) > maxLabel || !utf8.ValidString(arg.value) {
			return fault.New(fault.InvalidArgument).Hintf("%s must be valid UTF-8 of at most %d bytes", arg.name, maxLabel).With("argument", arg.name)
		}
	}
	if gate.OfAdapter(session) {
		return fault.New(fault.InvalidArgument).With("argument", "session").
			Hintf("session names that begin with %s are reserved for connections; omit session, or use another name", gate.AdapterPrefix)
	}
	return nil
}

// maxLabel is the limit of the names a caller gives, in bytes.
const maxLabel = 200

// badDigest refuses an argument that is not a digest, among those whose names
// have the prefix.
func badDigest(ctx context.Context, prefix string) *fault.Fault {
	for _, name := range adapter.Malformed(ctx) {
		if rest, ok := strings.CutPrefix(name, prefix); ok && strings.HasSuffix(rest, "sha256") && !strings.Contains(rest, ".") {
			return fault.New(fault.BadSHA256).With("argument", rest).Hintf("%s must be 64 hexadecimal digits; copy it from the reply that contained it", rest)
		}
	}
	return nil
}

// identity returns the hash of what a request asks for. Two calls with one
// idempotency key must have the same hash, and failures are counted by it. The
// caller and the dry-run flag are not part of it.
func identity(op string, args any) string {
	if args == nil {
		return "" // the verb makes its own
	}
	v := reflect.ValueOf(args)
	if f := v.FieldByName("Call"); f.IsValid() {
		like := reflect.New(v.Type()).Elem()
		like.Set(v)
		like.FieldByName("Call").Set(reflect.ValueOf(Call{AcceptRisk: f.Interface().(Call).AcceptRisk}))
		args = like.Interface()
	}
	return budget.RequestHash([]any{op, args})
}

// Via is what an adapter knows of a call, whatever the call says of itself. It
// comes with the context ([WithVia]) and never from an argument.
type Via = call.Via

type viaKey struct{}

// WithVia returns a context whose calls came through the adapter that via
// describes. via is recorded with every row in addition to the caller and the
// session in the request, and selects the commits of [Store.Undo] when the
// request names neither. A thread is the session of the call whatever the request
// names.
//
// A text of more than 200 bytes is truncated, invisible and control characters
// are replaced, and so are secrets when it is recorded. A thread that is too
// long, contains such characters, or begins with mcp- counts as absent: after the
// change it could be equal to the name of another one.
func WithVia(ctx context.Context, via Via) context.Context {
	if !clean(via.Thread) || gate.OfAdapter(via.Thread) {
		via.Thread = ""
	}
	for _, text := range []*string{&via.Client, &via.Version, &via.Connection, &via.Call, &via.Model, &via.Turn, &via.Trace} {
		*text = visible.Line(gate.Label(*text), utf8.RuneError)
	}
	return context.WithValue(ctx, viaKey{}, via)
}

// viaOf returns a row's origin in the form for readers.
func viaOf(v *journal.Via) *Via {
	if v == nil {
		return nil
	}
	via := Via(*v)
	return &via
}

// clean reports whether a name can be kept unchanged.
func clean(name string) bool {
	return len(name) <= maxLabel && utf8.ValidString(name) && !strings.ContainsRune(name, utf8.RuneError) && visible.Line(name, utf8.RuneError) == name
}

// labels are the names that a context gives its calls.
type labels struct{ caller, session string }

type labelsKey struct{}

// WithCaller returns a context whose calls are made by caller, in the working
// session of that name, if their requests name none. An adapter uses it to pass
// what it knows of the connection. Both take precedence over those of the
// options; "" keeps the value in ctx. They appear in rows and receipts, and
// select the commits of [Store.Undo] and the files of a handoff. The session is
// not part of the identity of a call: the same call in another session has the
// same retry budget and the same idempotency key.
//
// A name of more than 200 bytes is truncated, and invalid UTF-8 is replaced.
func WithCaller(ctx context.Context, caller, session string) context.Context {
	l := labelsOf(ctx)
	l.caller, l.session = cmp.Or(gate.Label(caller), l.caller), cmp.Or(gate.Label(session), l.session)
	return context.WithValue(ctx, labelsKey{}, l)
}

// labelsOf returns the names that a context sets.
func labelsOf(ctx context.Context) labels {
	l, _ := ctx.Value(labelsKey{}).(labels)
	return l
}

type (
	fenceKey    struct{}
	operatorKey struct{}
)

// WithFence returns a context whose calls change something only while the claim
// with this number holds; otherwise they fail with [ErrClaimLost]. This stops a
// caller that was suspended until its claim expired.
func WithFence(ctx context.Context, fence uint64) context.Context {
	return context.WithValue(ctx, fenceKey{}, fence)
}

// WithOperator returns a context whose calls are made by a person. Claims do not
// bind them.
func WithOperator(ctx context.Context) context.Context {
	return context.WithValue(ctx, operatorKey{}, true)
}

func isOperator(ctx context.Context) bool { return ctx.Value(operatorKey{}) != nil }

// Digest is the SHA-256 of a file or of other bytes.
type Digest = call.Digest

// digest returns the digest whose text the engine has.
func digest(text string) Digest {
	d, _ := call.ParseDigest(text)
	return d
}

// Expect is what a file must be before a call changes it: [AnyVersion],
// [Absent], or a version. A file that is something else is left alone, and the
// call is refused with [ErrHashMismatch].
type Expect = call.Expect

var (
	AnyVersion = call.AnyVersion // any content, or no file
	Absent     = call.Absent     // no file
)

// Exactly expects a file with the digest d; no file for the zero Digest.
func Exactly(d Digest) Expect { return call.Exactly(d) }

// Timestamp is a time in the journal or the state directory, with its text: another
// program or version may have written it.
type Timestamp = call.Timestamp

// timestamp returns the Timestamp with a text.
func timestamp(text string) (t Timestamp) {
	t.UnmarshalText([]byte(text)) // any text is one
	return t
}

// Receipt reports what one mutating call did. Every such call has one: on
// success in its result, on refusal in the context of the error.
type Receipt = call.Receipt

// Status is how a mutating call ended.
type Status = call.Status

// How a mutating call can end.
const (
	StatusSucceeded = call.Succeeded
	StatusUnchanged = call.Unchanged // the bytes were already there
	StatusReplayed  = call.Replayed  // the idempotency key had done it before
	StatusFailed    = call.Failed    // the storage or the system failed
	StatusRefused   = call.Refused   // a rule or a precondition refused it
)

// Warning is one thing the caller should know although the call succeeded.
type Warning = call.Warning

// convert returns f of each element. The result is not nil.
func convert[A, B any](list []A, f func(A) B) []B {
	out := make([]B, len(list))
	for i, x := range list {
		out[i] = f(x)
	}
	return out
}
