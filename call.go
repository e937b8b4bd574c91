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

// Via is what an adapter knows of a call, whatever the call says of itself. It
// comes with the context ([WithVia]) and never from an argument.
type Via = call.Via

// requestOf returns what a commit of the verb op knows of its call. args is the
// request of the verb.
func requestOf(c Call, op string, args any) request {
	return request{
		op: op, caller: c.Caller, session: c.Session, key: c.IdempotencyKey, dryRun: c.DryRun,
		risk: gate.Risk{Accept: c.AcceptRisk}, args: args, hash: identity(op, args),
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

// badDigest refuses an argument that is not a digest, among those whose names
// have the prefix.
func badDigest(ctx context.Context, prefix string) *fault.Fault {
	for _, name := range adapter.Malformed(ctx) {
		if rest, ok := strings.CutPrefix(name, prefix); ok && strings.HasSuffix(rest, "sha256") && !strings.Contains(rest, ".") {
			return fault.New(fault.BadSHA256).With("argument", rest)
		}
	}
	return nil
}

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
	if !clean(via.Thread) || ofAdapter(via.Thread) {
		via.Thread = ""
	}
	for _, text := range []*string{&via.Client, &via.Version, &via.Connection, &via.Call, &via.Model, &via.Turn, &via.Trace} {
		*text = visible.Line(asLabel(*text), utf8.RuneError)
	}
	return context.WithValue(ctx, viaKey{}, via)
}

// via returns what is recorded about the origin of the call; nil if no adapter
// was used.
func (s *Store) via(ctx context.Context) *journal.Via {
	via, ok := ctx.Value(viaKey{}).(Via)
	if !ok {
		return nil
	}
	return s.gate.Via(journal.Via(via))
}

// viaOf returns a row's origin in the form for readers.
func viaOf(v *journal.Via) *Via {
	if v == nil {
		return nil
	}
	via := Via(*v)
	return &via
}

// adapterPrefix begins the session names that an adapter assigns.
const adapterPrefix = "mcp-"

// ofAdapter reports whether a session name is reserved for adapters, in any
// letter case, because other spellings would look alike.
func ofAdapter(session string) bool {
	return len(session) >= len(adapterPrefix) && strings.EqualFold(session[:len(adapterPrefix)], adapterPrefix)
}

// clean reports whether a name can be kept unchanged.
func clean(name string) bool {
	return len(name) <= maxLabel && utf8.ValidString(name) && !strings.ContainsRune(name, utf8.RuneError) && visible.Line(name, utf8.RuneError) == name
}

// enterReader counts a reading call in, unless its context has ended.
func (s *Store) enterReader(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.engine.EnterReader()
}

// enter counts a changing call in, unless its context has ended.
func (s *Store) enter(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.engine.Enter()
}

// attempt is a call of a verb that changes nothing in the workspace.
type attempt struct{ *budget.Attempt }

// begin counts a call in, unless its retry budget is used up. The caller ends it
// with Leave of the engine or with failed.
func (s *Store) begin(ctx context.Context, op, path string, req any) (attempt, error) {
	a, e := s.budgets.Begin(ctx, op, path, req)
	if e != nil {
		return attempt{}, errorFrom(e)
	}
	return attempt{a}, nil
}

// failed ends the call with an error.
func (a attempt) failed(err error) *Error { return errorFrom(a.Fail(err)) }

// reading runs f as a call of a verb that changes nothing in the workspace.
func reading[T any](ctx context.Context, s *Store, op, path string, req any, f func() (T, error)) (out T, err error) {
	var none T
	a, err := s.begin(ctx, op, path, req)
	if err != nil {
		return none, err
	}
	left := false
	defer func() { // also when a validator of the host panics
		if !left {
			s.engine.Leave()
		}
	}()
	if out, err = f(); err != nil {
		left = true // by failed
		return none, a.failed(err)
	}
	return out, nil
}

// looking runs f as a call that changes nothing and counts no failures.
func looking[T any](ctx context.Context, s *Store, op string, f func() (T, error)) (out T, err error) {
	if err := s.enterReader(ctx); err != nil {
		return out, s.verbError(op, err)
	}
	defer s.engine.Leave()
	if out, err = f(); err != nil {
		return out, s.verbError(op, err)
	}
	return out, nil
}

func init() {
	adapter.CountRefusal = func(store any, verb string, args []byte, refusal error) error {
		return errorFrom(store.(*Store).budgets.Refused(verb, args, refusal.(*Error).fault()))
	}
}

// describeCode returns a failure in the form of last_error.
func describeCode(code fault.Code) map[string]any {
	class := code.Class()
	return map[string]any{
		"error": Kind(class.Kind), "reason_hint": Reason(class.Reason), "suggested_action": Action(class.Action), "reason": Detail(code),
	}
}

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
type Expect struct {
	version Digest
	given   bool
}

var (
	AnyVersion = Expect{}            // any content, or no file
	Absent     = Expect{given: true} // no file
)

// Exactly expects a file with the digest d; no file for the zero Digest.
func Exactly(d Digest) Expect { return Expect{version: d, given: true} }

// MarshalText returns the text of the expected version, empty for [Absent].
func (e Expect) MarshalText() ([]byte, error) { return e.version.MarshalText() }

// UnmarshalText reads the text of an expected version, empty for [Absent].
func (e *Expect) UnmarshalText(text []byte) error {
	var d Digest
	if err := d.UnmarshalText(text); err != nil {
		return err
	}
	*e = Exactly(d)
	return nil
}

// hash returns the expected hash as text, nil for any version.
func (e Expect) hash() *string {
	if !e.given {
		return nil
	}
	text := e.version.String()
	return &text
}

// Timestamp is a time in the journal or the state directory, with its text: another
// program or version may have written it.
type Timestamp = call.Timestamp

// timestamp returns the Timestamp with a text.
func timestamp(text string) (t Timestamp) {
	t.UnmarshalText([]byte(text)) // any text is one
	return t
}
