// Package upkeep implements the operator's calls on a store: checking, repairing,
// compacting and erasing it, and importing the rows of another one. The table of parts
// contains the work of each part of the state directory in these verbs.
package upkeep

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/budget"
	"github.com/resilientwrite/resilientwrite/internal/layer/checkpoint"
	"github.com/resilientwrite/resilientwrite/internal/layer/chunks"
	"github.com/resilientwrite/resilientwrite/internal/layer/drafts"
	"github.com/resilientwrite/resilientwrite/internal/layer/handoff"
	"github.com/resilientwrite/resilientwrite/internal/layer/scratch"
	"github.com/resilientwrite/resilientwrite/internal/layer/staged"
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
	end    []func()
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
// file. Each verb calls the function that a part has for it.
type Part struct {
	name   string
	isFile bool
	check  func(*checker) error
	erase  func(*eraser, context.Context) error
	own    string // matches the names, below the directory, of the files that erase treats
	expire func(*compaction, context.Context) error
}

// parts are in the order in which Compact goes through them. The first ones
// only remove names: on a full disk they make room for the others. The journal
// is no part: it precedes them in Check and Erase, and follows them in Compact.
var parts = []Part{
	{name: quarantineName, check: (*checker).drafts, expire: (*compaction).drafts},
	{name: "history", check: (*checker).history, erase: (*eraser).versions, own: `[0-9a-f]{2}/[0-9a-f]{64}(\.[0-9-]+\.tmp)?`, expire: (*compaction).versions},
	{name: staged.Dir, erase: (*eraser).transactions, own: `.+`, expire: (*compaction).transactions},
	{name: scratch.Dir, check: (*checker).scratchpad, erase: (*eraser).scratch, own: `[0-9a-f]{64}\.bin`, expire: (*compaction).scratch},
	{name: checkpoint.Dir, check: (*checker).checkpoints, erase: (*eraser).checkpoints, expire: (*compaction).checkpoints},
	{name: chunks.Dir, check: (*checker).sessions, erase: (*eraser).sessions, own: `[^/]+/part-[0-9]+\.txt`},
	{name: budget.Name, isFile: true, check: (*checker).budgets, expire: (*compaction).budgets},
	{name: "index", check: (*checker).snapshots},
	{name: "cursors", check: (*checker).cursors},
	{name: handoff.Dir, check: (*checker).handoffs},
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

// createTemp makes such a file.
func (c *Call) createTemp(name string) (fsx.File, error) {
	return c.Engine.Disk.Staging.Open(name, fsx.Read|fsx.Write|fsx.Create|fsx.Excl, 0o600)
}

// canceled is the error of a call that was broken off between two steps.
func canceled(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return fault.New(fault.Canceled).Because(err).Hintf("the call was canceled between two steps; completed steps remain, and calling again continues")
	}
	return nil
}
