// Package fault is the error type of the packages inside the library. The root
// package turns a Fault into its public *Error in one place.
package fault

import (
	"fmt"
	"strings"
)

// Effect says what a failed call left on disk.
type Effect string

const (
	EffectNone    Effect = "none"    // nothing the caller asked for
	EffectApplied Effect = "applied" // everything the caller asked for
	EffectUnknown Effect = "unknown" // only the next Open, or a check, can determine it
)

// DefaultRetryBudget is the number of identical attempts after which a failing
// call is refused without being tried, unless the policy says otherwise.
const DefaultRetryBudget = 3

// Fault is one failure. Its text holds no content, no secret and no path
// outside the workspace; Err may.
type Fault struct {
	Code        Code
	Op          string // the verb
	Path        string // relative to the workspace, "" when none
	Stage       string // of the write path in which it failed
	Effect      Effect
	Patterns    []string // families of secrets that the gate found, sorted
	RetryBudget int      // identical attempts that are left
	Hint        string   // one sentence that says what to do next
	Context     map[string]any
	Err         error // the cause
}

// New returns a fault without effect, with the hint of the code.
func New(c Code) *Fault {
	if _, ok := classes[c]; !ok {
		c = Internal
	}
	return &Fault{Code: c, RetryBudget: DefaultRetryBudget, Effect: EffectNone, Hint: classes[c].Hint}
}

// With adds one key to the context and returns f.
func (f *Fault) With(key string, value any) *Fault {
	if f.Context == nil {
		f.Context = map[string]any{}
	}
	f.Context[key] = value
	return f
}

// Hintf replaces the hint and returns f.
func (f *Fault) Hintf(format string, args ...any) *Fault {
	f.Hint = fmt.Sprintf(format, args...)
	return f
}

// Because sets the cause and returns f.
func (f *Fault) Because(err error) *Fault {
	f.Err = err
	return f
}

// OfStorage reports whether a call failed rather than being refused.
func (f *Fault) OfStorage() bool {
	exit := f.Code.Class().Exit
	return exit == CodeStorage || exit == CodeInternal
}

// Error returns the operation, the path, the kind and the code in one line.
func (f *Fault) Error() string {
	var b strings.Builder
	b.WriteString(f.Op)
	if f.Path != "" {
		fmt.Fprintf(&b, " %s", f.Path)
	}
	fmt.Fprintf(&b, ": %s: %s", strings.ReplaceAll(string(f.Code.Class().Kind), "_", " "), f.Code)
	if f.Effect != EffectNone && f.Effect != "" {
		fmt.Fprintf(&b, " (effect %s)", f.Effect)
	}
	return b.String()
}

// Is reports whether target is the code of f.
func (f *Fault) Is(target error) bool {
	c, ok := target.(Code)
	return ok && c == f.Code
}

// Unwrap returns the cause.
func (f *Fault) Unwrap() error { return f.Err }
