package resilientwrite

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Hooks are how a host keeps its policy out of the layers. A hook is any value
// that has one or more of the methods of [Authorizer], [Observer],
// [Transformer] and [Verifier]; [Options.Hooks] lists them, and they are asked
// in that order. A hook must not call the Store.

// Operation is a mutating call as hooks see it.
type Operation struct {
	Verb         string // safe_write, edit, tx …
	Caller       string
	Session      string
	InvocationID string
	DryRun       bool
	Changes      []Change
}

// Change is what an operation does to one file of the workspace. Objects of
// the state directory, such as chunks, are no changes.
type Change struct {
	Op       string // create, overwrite, append, edit, delete, move
	Path     string // as it was asked for, relative to the workspace
	RealPath string // behind symbolic links
	From     string // of a move
	Exists   bool   // something is there now
}

// Destructive reports whether the operation takes something away or replaces
// it.
func (o Operation) Destructive() bool {
	for _, c := range o.Changes {
		if c.Op == string(modeDelete) || c.Op == string(ModeOverwrite) && c.Exists || c.Op == string(modeMove) {
			return true
		}
	}
	return false
}

// Decision is what an authorizer says. The zero value denies.
type Decision struct {
	verdict int
	reason  string
}

const (
	verdictDeny = iota
	verdictAllow
	verdictAsk
)

// Allow lets an operation pass, as far as this authorizer is concerned.
func Allow() Decision { return Decision{verdict: verdictAllow} }

// Deny refuses it. The reason is told to the caller.
func Deny(reason string) Decision { return Decision{verdictDeny, reason} }

// AskUser leaves it to [Options.Ask], and refuses where there is none.
func AskUser(reason string) Decision { return Decision{verdictAsk, reason} }

// Authorizer decides whether an operation may happen, before anything is
// locked. The first refusal counts, but every authorizer sees every operation.
// An error or a panic refuses.
type Authorizer interface {
	Authorize(ctx context.Context, op Operation) (Decision, error)
}

// Observer is told of every operation that ended, well or not, dry runs too.
// A panic in it is contained.
type Observer interface {
	Observe(ctx context.Context, op Operation, r Receipt, err error)
}

// Transformer may change the content of a write before it is composed with
// what is there: formatting, redaction. Several are chained. The hash that the
// caller promises and the identity of the request are those of what was sent.
// Edits and what is restored are not transformed. An error refuses the write.
type Transformer interface {
	Transform(ctx context.Context, op Operation, path string, content io.Reader) (io.Reader, error)
}

// Verifier looks at the staged files before the commit point: a compiler, a
// linter, a test. An error or a panic refuses the whole commit; nothing has
// happened then. It runs while the paths are locked, for at most
// [Options.VerifyTimeout].
type Verifier interface {
	Verify(ctx context.Context, c Commit) error
}

// Commit is what a verifier sees.
type Commit struct {
	Operation
	Root  string       // the workspace, absolute
	Files []StagedFile // in order; an append shows only what is added
}

// StagedFile is one file before it is published.
type StagedFile struct {
	Path   string // relative to the workspace
	Staged string // where its bytes are now, absolute; "" for one that is removed
	Append bool
}

// Answer is what a user says to a question.
type Answer struct {
	Allow  bool
	Always bool // for this verb and these paths, as long as the store is open
}

const defaultVerifyTimeout = time.Minute

// operation is the commit as hooks see it.
func (c *commit) operation() Operation {
	o := Operation{Verb: c.req.op, Caller: c.req.caller, Session: c.req.session, InvocationID: c.inv, DryRun: c.req.dryRun}
	for _, m := range c.muts {
		if m.private || m.forgotten {
			continue
		}
		ch := Change{Op: string(m.op), Path: m.path, RealPath: m.path}
		if m.target != nil {
			ch.RealPath = m.target.Path
			if m.target.Exists() {
				_, err := m.target.Parent.Lstat(m.target.Name)
				ch.Exists = err == nil
			}
		}
		if m.source != nil {
			ch.From = m.source.path
		}
		o.Changes = append(o.Changes, ch)
	}
	return o
}

// answers remembers what a user allowed for good.
type answers struct {
	mu   sync.Mutex
	seen map[string]bool
}

func (a *answers) has(key string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.seen[key]
}

func (a *answers) add(key string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.seen == nil {
		a.seen = map[string]bool{}
	}
	a.seen[key] = true
}

// authorize asks the host whether the caller may do this.
func (c *commit) authorize(ctx context.Context) error {
	if len(c.s.opts.Hooks) == 0 {
		return nil
	}
	op := c.operation()
	if len(op.Changes) == 0 {
		return nil
	}
	var refusal *Error
	ask := ""
	for _, h := range c.s.opts.Hooks {
		a, ok := h.(Authorizer)
		if !ok {
			continue
		}
		d, err := decide(ctx, a, op)
		switch {
		case refusal != nil:
		case err != nil:
			refusal = fail(Denied).because(err).hint("the check of this operation failed, so it is refused; ask the user")
		case d.verdict == verdictDeny:
			refusal = fail(Denied)
			if d.reason != "" {
				refusal.hint("%s", c.s.safeText(d.reason))
			}
		case d.verdict == verdictAsk && ask == "":
			if ask = d.reason; ask == "" {
				ask = "this operation needs the user's consent"
			}
		}
	}
	if refusal != nil {
		return refusal
	}
	if ask != "" {
		return c.ask(ctx, op, ask)
	}
	return nil
}

// decide asks one authorizer; a panic is an error.
func decide(ctx context.Context, a Authorizer, op Operation) (d Decision, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("an authorizer panicked")
		}
	}()
	return a.Authorize(ctx, op)
}

// ask puts the question to the user.
func (c *commit) ask(ctx context.Context, op Operation, question string) error {
	key := op.Verb
	for _, ch := range op.Changes {
		key += "\x00" + ch.Op + "\x00" + ch.RealPath
	}
	if c.s.answers.has(key) {
		return nil
	}
	if c.s.opts.Ask == nil {
		return fail(Denied).with("question", c.s.safeText(question)).hint("%s; nobody can be asked here, so it is refused", c.s.safeText(question))
	}
	answer, err := func() (a Answer, err error) {
		defer func() {
			if v := recover(); v != nil {
				err = fmt.Errorf("the question panicked")
			}
		}()
		return c.s.opts.Ask(ctx, op, question)
	}()
	if err != nil {
		return fail(Denied).because(err).hint("the user could not be asked, so it is refused")
	}
	if !answer.Allow {
		return fail(Denied).hint("the user said no; do something else")
	}
	if answer.Always {
		c.s.answers.add(key)
	}
	return nil
}

// observe tells every observer how a call ended.
func (c *commit) observe(r Receipt, err error) {
	for _, h := range c.s.opts.Hooks {
		if o, ok := h.(Observer); ok {
			func() {
				defer func() { recover() }() // what observes must not break what it observes
				o.Observe(context.Background(), c.operation(), r, err)
			}()
		}
	}
}

// transform lets the host change what the caller sent.
func (c *commit) transform(ctx context.Context, m *mutation) error {
	if m.private || m.source != nil || m.op == modeDelete || m.op == modeEdit || m.revise != nil || m.ungated {
		return nil
	}
	var src io.Reader
	for _, h := range c.s.opts.Hooks {
		t, ok := h.(Transformer)
		if !ok {
			continue
		}
		if src == nil {
			src = m.content.reader()
		}
		next, err := runTransform(ctx, t, c.operation(), m.path, src)
		if err != nil {
			return fail(TransformFailed).because(err)
		}
		src = next
	}
	if src == nil {
		return nil
	}
	limit := c.s.opts.MaxContentBytes
	data, err := io.ReadAll(io.LimitReader(src, limit+1))
	if err != nil {
		return fail(TransformFailed).because(err)
	}
	if int64(len(data)) > limit {
		return fail(TooLarge).with("max_bytes", limit)
	}
	if m.spooled {
		// The spooled bytes are not what will be written.
		m.spooled, m.staged = false, false
		m.file.Close()
		m.file = nil
		if err := c.s.disk.staging.Remove(m.stageName(c.id, c.index(m))); err != nil && !isAbsent(err) {
			return err
		}
	}
	m.hold(data)
	return nil
}

func (c *commit) index(m *mutation) int {
	for i, x := range c.muts {
		if x == m {
			return i
		}
	}
	return 0
}

func runTransform(ctx context.Context, t Transformer, op Operation, path string, src io.Reader) (out io.Reader, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("a transformer panicked")
		}
	}()
	return t.Transform(ctx, op, path, src)
}

// verifyStaged shows the staged files to the verifiers.
func (c *commit) verifyStaged(ctx context.Context) error {
	var list []Verifier
	for _, h := range c.s.opts.Hooks {
		if v, ok := h.(Verifier); ok {
			list = append(list, v)
		}
	}
	if len(list) == 0 || c.s.realRoot == "" {
		return nil
	}
	view := Commit{Operation: c.operation(), Root: c.s.realRoot}
	for i, m := range c.muts {
		if m.private {
			continue
		}
		f := StagedFile{Path: m.target.Path, Append: m.how == howAppend}
		if m.op != modeDelete {
			f.Staged = filepath.Join(c.s.statePlace, "staging", stagedName(c.id, i))
			if m.beside {
				f.Staged = filepath.Join(c.s.realRoot, filepath.Dir(filepath.FromSlash(m.target.Path)), besideName(c.id, i))
			}
		}
		view.Files = append(view.Files, f)
	}
	if len(view.Files) == 0 {
		return nil
	}
	limit := c.s.opts.VerifyTimeout
	if limit <= 0 {
		limit = defaultVerifyTimeout
	}
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	for _, v := range list {
		if err := runVerify(ctx, v, view); err != nil {
			e := fail(VerifyFailed).because(err)
			if lines := c.s.shownLines(err.Error()); lines != "" {
				e.with("output", lines)
			}
			return e
		}
	}
	return nil
}

func runVerify(ctx context.Context, v Verifier, view Commit) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("a verifier panicked")
		}
	}()
	if err := v.Verify(ctx, view); err != nil {
		return err
	}
	return ctx.Err()
}

// shownLines is the start of a verifier's output as an error may show it:
// redacted, without paths outside the workspace.
func (s *Store) shownLines(text string) string {
	if s.realRoot != "" {
		text = strings.ReplaceAll(text, s.statePlace, "")
		text = strings.ReplaceAll(text, s.realRoot, "")
	}
	clean, _ := s.policy.scanner.Redact([]byte(strings.ToValidUTF8(text, "?")), s.policy.options(""))
	return firstLines(string(clean), errorLines)
}
