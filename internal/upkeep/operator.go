package upkeep

import (
	"cmp"
	"context"

	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/adapter"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/gate"
	"github.com/resilientwrite/resilientwrite/internal/lock"
	"github.com/resilientwrite/resilientwrite/internal/progress"
)

// begin starts a call and excludes others of its kind.
func (s *Store) begin(ctx context.Context, op string, r call.Call, enter func() error) (*Call, context.Context, error) {
	c := &Call{Store: s, Host: s.Host(ctx, op, r), DryRun: r.DryRun, Effect: fault.EffectNone}
	err := c.CheckLabels(r.Caller, r.Session)
	if err == nil {
		err = enter()
	}
	if err != nil {
		return nil, ctx, c.fail(err)
	}
	c.end = append(c.end, s.Engine.Leave)
	if !adapter.IsReported(ctx) {
		c.end = append(c.end, s.Engine.Announce(func() lock.Call { return lock.Call{Op: op, Caller: s.SafeText(r.Caller)} }))
	}
	if err := ctx.Err(); err != nil {
		return nil, ctx, c.fail(fault.New(fault.Canceled).Because(err))
	}
	if s.Engine.Locks != nil {
		unlock, err := s.Engine.Locks.Names(ctx, s.LockTimeout, op, "upkeep")
		if err != nil {
			return nil, ctx, c.fail(err)
		}
		c.end = append(c.end, unlock)
	}
	ctx, account, end := progress.Begin(ctx)
	c.Meter, c.end = account, append(c.end, end)
	return c, ctx, nil
}

func (c *Call) close() {
	for i := len(c.end) - 1; i >= 0; i-- {
		c.end[i]()
	}
	c.end = nil
}

// fail ends the call with an error. Its files in staging/ would look like work in
// progress.
func (c *Call) fail(err error) error {
	for _, name := range c.temps {
		c.Engine.Disk.Staging.Remove(name)
	}
	c.close()
	return c.Failed(err, c.Effect)
}

// done ends the call.
func (c *Call) done(changed bool, warnings ...string) call.Receipt {
	c.close()
	return c.Done(changed, c.Seq, warnings...)
}

func invalid(argument, hint string) error {
	return fault.New(fault.InvalidArgument).With("argument", argument).Hintf("%s", hint)
}

// digest returns the digest whose text the engine has.
func digest(text string) call.Digest {
	d, _ := call.ParseDigest(text)
	return d
}

// Repair is [admin.Operator.Repair].
func (s *Store) Repair(ctx context.Context, r admin.RepairRequest) (out admin.RepairResult, err error) {
	c, ctx, err := s.begin(ctx, "repair", r.Call, s.Engine.Enter)
	if err != nil {
		return out, err
	}
	if e := fault.CheckText("acknowledge", r.Acknowledge, gate.MaxReason); e != nil {
		return out, c.fail(e)
	}
	done, err := c.repair(ctx, r.Acknowledge)
	if err != nil {
		return out, c.fail(err)
	}
	done.Receipt = c.done(len(done.Actions) > 0)
	return done, nil
}

// Compact is [admin.Operator.Compact].
func (s *Store) Compact(ctx context.Context, r admin.CompactRequest) (out admin.CompactResult, err error) {
	c, ctx, err := s.begin(ctx, "compact", r.Call, s.Engine.Enter)
	if err != nil {
		return out, err
	}
	keep := 10_000 // of the newest rows that cursors reach
	if r.KeepRows != nil {
		keep = *r.KeepRows
	}
	if keep < 0 {
		return out, c.fail(invalid("keep_rows", "keep_rows must be 0 or more"))
	}
	p, err := c.compact(ctx, keep)
	if err != nil {
		return out, c.fail(err)
	}
	var warnings []string
	if p.blocked {
		warnings = append(warnings, "other_writer_live")
	}
	p.out.Receipt = c.done(p.changed, warnings...)
	return p.out, nil
}

// Erase is [admin.Operator.Erase].
func (s *Store) Erase(ctx context.Context, r admin.EraseRequest) (out admin.EraseResult, err error) {
	c, ctx, err := s.begin(ctx, "erase", call.Call{DryRun: r.DryRun}, s.Engine.Enter) // the labels are not checked yet
	if err != nil {
		return out, err
	}
	if err := c.CheckLabels(r.Caller, r.Session); err != nil {
		return out, c.fail(err)
	}
	if e := fault.CheckText("reason", r.Reason, gate.MaxReason); e != nil {
		return out, c.fail(e)
	}
	what, err := c.choose(r.Secret, r.SHA256.String(), r.DraftRef, map[string]string{"caller": r.Caller, "session": r.Session, "reason": r.Reason})
	if err != nil {
		return out, c.fail(err)
	}
	what.Reason, what.Workspace = s.SafeText(r.Reason), !r.SkipWorkspace
	by := &c.Asked().Req
	by.Caller, by.Session = cmp.Or(r.Caller, by.Caller), cmp.Or(r.Session, by.Session)
	done, err := c.erase(ctx, what)
	if err != nil {
		return out, c.fail(err)
	}
	var warnings []string
	if len(done.Left) > 0 {
		warnings = append(warnings, "secret_left")
	}
	if len(done.Workspace) > 0 {
		warnings = append(warnings, "secret_in_workspace")
	}
	done.Receipt = c.done(len(done.Places) > 0, warnings...)
	return done, nil
}

// Export is [admin.Operator.Export].
func (s *Store) Export(ctx context.Context, r admin.ExportRequest) (out admin.ExportResult, err error) {
	c, ctx, err := s.begin(ctx, "export", call.Call{Caller: r.Caller, Session: r.Session}, s.Engine.EnterReader)
	if err != nil {
		return out, err
	}
	if r.W == nil {
		return out, c.fail(invalid("w", "give a writer"))
	}
	foot, err := c.export(ctx, r.W, r.After, r.Upto, r.Same, s.Engine.Version)
	if err != nil {
		return out, c.fail(err)
	}
	c.close()
	return admin.ExportResult{
		Rows: foot.Rows, First: foot.First, Last: foot.Last, Malformed: foot.Malformed, SHA256: digest(foot.SHA256), Chain: digest(foot.Chain),
	}, nil
}

// Import is [admin.Operator.Import].
func (s *Store) Import(ctx context.Context, r admin.ImportRequest) (out admin.ImportResult, err error) {
	c, ctx, err := s.begin(ctx, "import", r.Call, s.Engine.Enter)
	if err != nil {
		return out, err
	}
	if r.R == nil {
		return out, c.fail(invalid("r", "give a reader"))
	}
	done, err := c.load(ctx, r.R, r.AllowNonEmpty)
	if err != nil {
		return out, c.fail(err)
	}
	done.Receipt = c.done(done.Imported > 0)
	return done, nil
}
