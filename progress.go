package resilientwrite

import (
	"cmp"
	"context"

	"github.com/resilientwrite/resilientwrite/internal/adapter"
	"github.com/resilientwrite/resilientwrite/internal/progress"
)

// Progress reports how far a long call has come.
type Progress struct {
	Stage   Stage  // what is being done: a stage of a write, or one of the steps below
	Done    int64  // so far, in bytes of content or in things; never falls within a call
	Total   int64  // what Done will be in the end; 0 while that is not known
	Message string // the same in words, without content; may be empty
}

// The steps of calls that are no stages of a write.
const (
	StepRead     Stage = "read"     // content is read into the state directory
	StepVersions Stage = "versions" // the files that are undone are looked up, one by one
	StepJournal  Stage = "journal"  // the rows of the journal are checked
	StepHistory  Stage = "history"  // the kept versions are looked at
	StepFiles    Stage = "files"    // files are compared with the journal
	StepSweep    Stage = "sweep"    // what has expired is removed
	StepErase    Stage = "erase"    // the state directory is searched and written over
	StepRepair   Stage = "repair"   // what is damaged is set aside or made again
	StepExport   Stage = "export"   // rows are written out
	StepImport   Stage = "import"   // rows are taken over
)

// WithProgress returns a context whose calls report their progress to f: writes
// of a stream, composing, undoing, checking, and any other long call. A report is
// made at the start of a step and while the step runs, at most one every 100 ms.
// A call that ends sooner usually reports nothing.
//
// One call reports in order, never two reports at a time, and never after it has
// returned. It waits for f, so f should return quickly. f must not call the Store
// with this context. A panic in f is contained.
func WithProgress(ctx context.Context, f func(Progress)) context.Context {
	if f == nil {
		return ctx
	}
	return progress.With(ctx, func(p progress.Report) { f(Progress{Stage(p.Stage), p.Done, p.Total, p.Message}) })
}

func init() {
	adapter.ReportCall = func(ctx context.Context, store any, verb string, args []byte) (context.Context, func()) {
		s := store.(*Store)
		of, via := labelsOf(ctx), Via{}
		if v, ok := ctx.Value(viaKey{}).(Via); ok {
			via = v
		}
		caller := cmp.Or(via.Client, of.caller, s.opts.Caller)
		return adapter.WithReported(ctx), s.gate.Announce(verb, caller, func() []string { return adapter.PathsIn(args) })
	}
}
