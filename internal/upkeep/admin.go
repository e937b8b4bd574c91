// Package upkeep implements the operator's calls on a store: checking, repairing,
// compacting and erasing it, and importing the rows of another one. The table of parts
// contains the work of each part of the state directory in these verbs.
package upkeep

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/adapter"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/gate"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/budget"
	"github.com/resilientwrite/resilientwrite/internal/layer/checkpoint"
	"github.com/resilientwrite/resilientwrite/internal/layer/chunks"
	"github.com/resilientwrite/resilientwrite/internal/layer/drafts"
	"github.com/resilientwrite/resilientwrite/internal/layer/handoff"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
	"github.com/resilientwrite/resilientwrite/internal/layer/scratch"
	"github.com/resilientwrite/resilientwrite/internal/layer/staged"
	"github.com/resilientwrite/resilientwrite/internal/lock"
	"github.com/resilientwrite/resilientwrite/internal/progress"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// Store is a store as the verbs see it.
type Store struct {
	Engine      *engine.Engine
	Scratch     *scratch.Layer
	Chunks      *chunks.Layer
	Checkpoints *checkpoint.Layer
	Handoffs    *handoff.Layer
	Drafts      *drafts.Layer
	Budgets     *budget.Layer
	LockTimeout time.Duration
	// SafeText is a text without secrets.
	SafeText func(string) string
	// DropStaged drops the staged transactions that have expired.
	DropStaged func(context.Context) error
	// CleanCheckpoints removes some expired checkpoints, and reports whether there may be
	// more.
	CleanCheckpoints func(ctx context.Context, caller, session string, dryRun bool) (removed int, more bool, err error)
	// Host returns what the store adds to a call of the operator.
	Host func(ctx context.Context, op string, r call.Call) Host
}

// Host is a call as the store sees it: who makes it, its receipt, and its commits.
type Host interface {
	// Asked is never committed: it identifies the call.
	Asked() *engine.Commit
	// CheckLabels validates who calls.
	CheckLabels(caller, session string) error
	// Commit makes a commit that prepare completes; what identifies it.
	Commit(ctx context.Context, what string, prepare func(*engine.Commit)) error
	// Failed returns the error of the call, Done its receipt.
	Failed(err error, effect fault.Effect) error
	Done(changed bool, seq uint64, warnings ...string) call.Receipt
}

// Call is one call of an operator in progress.
type Call struct {
	*Store
	Host
	DryRun bool
	Meter  *progress.Meter

	Effect fault.Effect // the effect on disk if the call fails now
	Seq    uint64       // the newest row it wrote
	temps  []string     // files in staging/ that were made to take the place of others
}

// The steps of calls of the operator.
const (
	StepSweep   = "sweep"
	StepErase   = "erase"
	StepRepair  = "repair"
	StepImport  = "import"
	StepJournal = "journal"
	StepHistory = "history"
	StepFiles   = "files"
)

// Part is one part of the state directory: a directory with the files of a layer, or a
// file. Check and Compact call the function that a part has for them.
type Part struct {
	name   string
	isFile bool
	files  []string // in the directory, that are replaced and so must be no directories
	dirs   []string // in the directory
	check  func(*checker) error
	expire func(*compaction, context.Context) error
}

// parts are in the order in which Compact goes through them. The first ones
// only remove names: on a full disk they make room for the others. The journal
// is no part: it precedes them in Check, and follows them in Compact.
var parts = []Part{
	{name: quarantineName, check: (*checker).drafts, expire: (*compaction).drafts},
	{name: "history", check: (*checker).history, expire: (*compaction).versions},
	{name: staged.Dir, expire: (*compaction).transactions},
	{name: scratch.Dir, check: (*checker).scratchpad, expire: (*compaction).scratch},
	{name: checkpoint.Dir, check: (*checker).checkpoints, expire: (*compaction).checkpoints},
	{name: chunks.Dir, check: (*checker).sessions},
	{name: budget.Name, isFile: true, check: (*checker).budgets, expire: (*compaction).budgets},
	{name: "index", check: (*checker).snapshots},
	{name: "cursors", check: (*checker).cursors},
	{name: handoff.Dir, check: (*checker).handoffs},
	{name: "archive"},
	{name: "manifests"},
	{name: "claims", files: []string{"claims.json"}},
	{name: "hub", files: []string{"ship.json"}},
	{name: observe.Dir, files: []string{"index", "calls.json"}, dirs: []string{"snapshots", "events"}},
}

// note writes a note about the journal or the state directory, and makes it durable at
// every level: the following steps rely on it.
func (c *Call) note(ctx context.Context, n journal.Note) error {
	by := c.Asked()
	rec := &journal.Record{
		TS: stamp.Text(c.Engine.Now()), Kind: journal.KindNote, Writer: c.Engine.Writer,
		Settled: c.Engine.Unsettled.Floor(c.Engine.Log.Head()),
		Caller:  by.Req.Caller, Session: by.Req.Session, Via: by.Via, Invocation: by.Inv, Note: &n,
	}
	c.Effect = fault.EffectUnknown
	err := c.Engine.WriteRow(context.WithoutCancel(ctx), rec)
	if err == nil {
		err = c.Engine.Log.Sync()
	}
	if err != nil {
		return c.journalFailed(err)
	}
	c.Seq = rec.Seq
	return nil
}

// journalFailed judges a journal that did not take a row: if its content is unknown,
// the store accepts no more writes.
func (c *Call) journalFailed(err error) error {
	var we *journal.WriteError
	if errors.As(err, &we) && we.Effect == journal.EffectUnknown || c.Engine.Log.Poisoned() {
		return c.Engine.Poison(err)
	}
	return err
}

// noteBytes bounds one note: a row of the journal has at most 256 KiB.
const noteBytes = 128 << 10

// noteChanges records the intended changes before they are made, in as many notes as it
// takes.
func (c *Call) noteChanges(ctx context.Context, what, text string, list []journal.Change) error {
	for len(list) > 0 {
		n, size := 0, 0
		for n < len(list) && size < noteBytes {
			data, err := json.Marshal(list[n])
			if err != nil {
				return err
			}
			size += len(data) + 1
			n++
		}
		if err := c.note(ctx, journal.Note{What: what, Text: text, Changed: list[:n]}); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// forGood flushes the removal of the entries of settled commits. If a power failure
// restored such an entry, recovery would repeat the commit, and with it the content
// that this call is about to remove.
func (c *Call) forGood() error {
	if c.Engine.Disk.Staging == nil {
		return nil
	}
	return c.Engine.SyncSlots()
}

// tempName returns a name in staging/ for a file that replaces another one. The next
// Open removes files that a crash left there.
func (c *Call) tempName() string {
	name := c.Engine.NewCommitID() + engine.TempSuffix
	c.temps = append(c.temps, name)
	return name
}

// renewRows makes the index of rows and its snapshot again.
func (c *Call) renewRows() error {
	if err := c.Engine.RebuildRows(); err != nil {
		return err
	}
	return c.Engine.Alone("snapshot", func() error { return c.Engine.Rows.Write(c.Engine.Disk.Index, c.Engine.Log) })
}

// inTurn takes steps until one fails or ctx ends.
func inTurn(ctx context.Context, steps ...func(context.Context) error) error {
	for _, step := range steps {
		if err := canceled(ctx); err != nil {
			return err
		}
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// canceled is the error of a call that was broken off between two steps.
func canceled(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fault.New(fault.Canceled).Because(err).Hintf("the call was canceled between two steps; completed steps remain, and calling again continues")
	}
	return nil
}

// run runs do as a call, which excludes others of its kind. The call is complete then: its
// receipt is left to the caller.
func (s *Store) run(ctx context.Context, op string, r call.Call, enter func() error, do func(context.Context, *Call) error) (*Call, error) {
	c := &Call{Store: s, Host: s.Host(ctx, op, r), DryRun: r.DryRun, Effect: fault.EffectNone}
	err := c.CheckLabels(r.Caller, r.Session)
	if err == nil {
		err = c.alone(ctx, op, r.Caller, enter, do)
	}
	if err != nil {
		err = c.Failed(err, c.Effect)
	}
	return c, err
}

func (c *Call) alone(ctx context.Context, op, caller string, enter func() error, do func(context.Context, *Call) error) error {
	if err := enter(); err != nil {
		return err
	}
	defer c.Engine.Leave()
	if !adapter.IsReported(ctx) {
		defer c.Engine.Announce(func() lock.Call { return lock.Call{Op: op, Caller: c.SafeText(caller)} })()
	}
	if err := ctx.Err(); err != nil {
		return fault.New(fault.Canceled).Because(err)
	}
	if c.Engine.Locks != nil {
		unlock, err := c.Engine.Locks.Names(ctx, c.LockTimeout, op, "upkeep")
		if err != nil {
			return err
		}
		defer unlock()
	}
	ctx, meter, end := progress.Begin(ctx)
	defer end()
	c.Meter = meter
	err := do(ctx, c)
	if err != nil { // its files in staging/ would look like work in progress
		for _, name := range c.temps {
			c.Engine.Disk.Staging.Remove(name)
		}
	}
	return err
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
	c, err := s.run(ctx, "repair", r.Call, s.Engine.Enter, func(ctx context.Context, c *Call) (err error) {
		if e := fault.CheckText("acknowledge", r.Acknowledge, gate.MaxReason); e != nil {
			return e
		}
		p := &repairing{Call: c, out: admin.RepairResult{Actions: []admin.RepairAction{}, Left: []admin.LeftProblem{}}, reason: r.Acknowledge, seen: map[string]bool{}}
		err = p.run(ctx)
		out, out.Clean = p.out, len(p.out.Left) == 0
		return err
	})
	if err != nil {
		return admin.RepairResult{}, err
	}
	out.Receipt = c.Done(len(out.Actions) > 0, c.Seq)
	return out, nil
}

// Compact is [admin.Operator.Compact].
func (s *Store) Compact(ctx context.Context, r admin.CompactRequest) (out admin.CompactResult, err error) {
	keep := 10_000 // of the newest rows that cursors reach
	if r.KeepRows != nil {
		keep = *r.KeepRows
	}
	var p *compaction
	c, err := s.run(ctx, "compact", r.Call, s.Engine.Enter, func(ctx context.Context, c *Call) (err error) {
		if keep < 0 {
			return invalid("keep_rows", "keep_rows must be 0 or more")
		}
		p = &compaction{Call: c, out: admin.CompactResult{Archived: []admin.ArchivedSegment{}}, reserve: c.Engine.NewReserveGrant(ctx, !c.DryRun), keep: keep, known: map[uint64]journal.SegmentFacts{}}
		return p.spend(ctx)
	})
	if err != nil {
		return out, err
	}
	var warnings []string
	if p.blocked {
		warnings = append(warnings, "other_writer_live")
	}
	p.out.Receipt = c.Done(p.changed, c.Seq, warnings...)
	return p.out, nil
}

// Erase is [admin.Operator.Erase].
func (s *Store) Erase(ctx context.Context, r admin.EraseRequest) (out admin.EraseResult, err error) {
	var e *eraser
	unchecked := call.Call{DryRun: r.DryRun} // newEraser looks at the labels first
	c, err := s.run(ctx, "erase", unchecked, s.Engine.Enter, func(ctx context.Context, c *Call) (err error) {
		if err := c.CheckLabels(r.Caller, r.Session); err != nil {
			return err
		}
		if e := fault.CheckText("reason", r.Reason, gate.MaxReason); e != nil {
			return e
		}
		if e, err = c.newEraser(r); err != nil {
			return err
		}
		by := &c.Asked().Req
		by.Caller, by.Session = cmp.Or(r.Caller, by.Caller), cmp.Or(r.Session, by.Session)
		return e.run(ctx, !r.SkipWorkspace)
	})
	if err != nil {
		return out, err
	}
	out = e.result()
	var warnings []string
	if len(out.Left) > 0 {
		warnings = append(warnings, "secret_left")
	}
	if len(out.Workspace) > 0 {
		warnings = append(warnings, "secret_in_workspace")
	}
	out.Receipt = c.Done(len(out.Places) > 0, c.Seq, warnings...)
	return out, nil
}

// Export is [admin.Operator.Export].
func (s *Store) Export(ctx context.Context, r admin.ExportRequest) (out admin.ExportResult, err error) {
	_, err = s.run(ctx, "export", call.Call{Caller: r.Caller, Session: r.Session}, s.Engine.EnterReader, func(ctx context.Context, c *Call) error {
		if r.W == nil {
			return invalid("w", "give a writer")
		}
		foot, err := c.export(ctx, r.W, r.After, r.Upto, r.Same, s.Engine.Version)
		if err == nil {
			out = admin.ExportResult{
				Rows: foot.Rows, First: foot.First, Last: foot.Last, Malformed: foot.Malformed, SHA256: digest(foot.SHA256), Chain: digest(foot.Chain),
			}
		}
		return err
	})
	return out, err
}

// Import is [admin.Operator.Import].
func (s *Store) Import(ctx context.Context, r admin.ImportRequest) (out admin.ImportResult, err error) {
	c, err := s.run(ctx, "import", r.Call, s.Engine.Enter, func(ctx context.Context, c *Call) (err error) {
		if r.R == nil {
			return invalid("r", "give a reader")
		}
		in := &importing{Call: c, from: r.R, mixed: r.AllowNonEmpty, last: map[string]engine.LastVersion{}, there: map[importPlace]uint64{}}
		err = in.run(ctx)
		out = in.out
		return err
	})
	if err != nil {
		return admin.ImportResult{}, err
	}
	out.Receipt = c.Done(out.Imported > 0, c.Seq)
	return out, nil
}

// export writes the rows after one number up to another, 0 for all, to w. With same
// the same rows are the same bytes; otherwise the export names the version tool.
func (c *Call) export(ctx context.Context, w io.Writer, after, upto uint64, same bool, tool string) (journal.ExportFooter, error) {
	if c.Engine.Log == nil {
		return journal.ExportFooter{}, fault.New(fault.NotFound).Hintf("there is no journal here")
	}
	c.Meter.Things("export", int64(c.Engine.Log.Head()), "exporting rows")
	to := &countingWriter{w: w}
	head := journal.ExportHeader{Head: upto, CreatedAt: stamp.Text(c.Engine.Now()), Tool: tool}
	if same {
		head.Version, head.CreatedAt, head.Tool = journal.ExportVersion, "", ""
	}
	foot, err := c.Engine.Log.Export(to, head, after, func() error {
		c.Meter.One()
		return canceled(ctx)
	})
	if to.err != nil {
		err = c.outside(to.err, "the export could not be written; what was written is incomplete")
	}
	return foot, err
}

// countingWriter distinguishes errors of its writer from other errors.
type countingWriter struct {
	w   io.Writer
	n   int64
	err error
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	if c.n += int64(n); err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		c.err = err
	}
	return n, err
}
