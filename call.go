package resilientwrite

import (
	"cmp"
	"context"
	"reflect"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/adapter"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/gate"
	"github.com/resilientwrite/resilientwrite/internal/layer/budget"
)

// Call is what a call that changes something says about itself. A call that
// writes no content takes no notice of AcceptRisk; those of [Admin] and
// [Store.TxCommit], which happens once, take none of IdempotencyKey. The chunk
// calls have a Session of their own, the name of the chunk session; the working
// session is that of their Call.
type Call struct {
	Caller string `json:"caller,omitempty" maxlen:"200"` // Who is asking; recorded in the journal.
	// Name of the working session; recorded in the journal.
	Session string `json:"session,omitempty" maxlen:"200"`
	// Idempotency key. Send the same key again after a lost reply: the change is
	// made once and the first reply is returned.
	IdempotencyKey string `json:"idempotency_key,omitempty" maxlen:"200"`
	// Check everything and report what would be done, such as the hash and a
	// diff, but change nothing.
	DryRun bool `json:"dry_run,omitempty"`
	// Justification for writing flagged content; recorded in the journal. The
	// policy decides whether it is accepted.
	AcceptRisk string `json:"accept_risk,omitempty" maxlen:"500"`
}

// request returns what a commit of the verb op knows of its call. args is the
// request of the verb.
func (c Call) request(op string, args any) request {
	return request{
		op: op, caller: c.Caller, session: c.Session, key: c.IdempotencyKey, dryRun: c.DryRun,
		risk: gate.Risk{Accept: c.AcceptRisk}, args: args, hash: identity(op, args),
	}
}

// check validates the arguments common to all mutating requests: names, and
// digests that did not arrive as one.
func (c Call) check(ctx context.Context) *fault.Fault {
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
