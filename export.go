package resilientwrite

import (
	"context"
	"io"

	"github.com/resilientwrite/resilientwrite/internal/admin"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// ExportRequest asks for the journal as one stream.
type ExportRequest struct {
	W io.Writer `json:"-"` // gets the export; it is not closed
	// After and Upto select rows by number: those after After, up to Upto. 0: all.
	After, Upto uint64 `json:"-"`
	// Same leaves out the time and the version of the program, so that the same
	// rows are the same bytes.
	Same bool `json:"-"`
	// Who is asking.
	Caller string `json:"caller,omitempty" maxlen:"200"`
	// Name of the working session.
	Session string `json:"session,omitempty" maxlen:"200"`
}

// ExportResult reports what was exported.
type ExportResult struct {
	// Number of rows exported.
	Rows int64 `json:"rows"`
	// The first row; 0 when there is none.
	First uint64 `json:"first"`
	// The last row.
	Last uint64 `json:"last"`
	// Lines that are not valid rows and were left out.
	Malformed int64 `json:"malformed"`
	// Hash in the last line, covering everything before it.
	SHA256 Digest `json:"sha256"`
	// Hash of the last row.
	Chain Digest `json:"-"`
}

// Export writes the journal to W, archived rows too, as JSON lines: a header,
// every row unchanged, and a last line with the number of rows and the hash of
// everything before it. It writes the journal as it was when the call began;
// writers are not blocked. It takes constant memory.
//
// [Admin.Import] reads an export. It holds no content, but paths, callers and
// reasons are in it. Errors: [ErrInvalidArgument] without a writer,
// [ErrLockTimeout] while another call of the operator runs, the storage details –
// also those of W –, [ErrStoreClosed], [ErrCanceled]. After an error the output
// is incomplete, and Import refuses it. Nothing is changed on disk.
// whole, and Import refuses it. Nothing is changed on disk.
func (a Admin) Export(ctx context.Context, r ExportRequest) (ExportResult, error) {
	s := a.s
	u, ctx, err := s.beginUpkeep(ctx, upkeepCall{op: "export", caller: r.Caller, session: r.Session, reads: true})
	if err != nil {
		return ExportResult{}, err
	}
	if r.W == nil {
		return ExportResult{}, u.failed(fault.New(fault.InvalidArgument).With("argument", "w").Hintf("give a writer"))
	}
	if s.engine.Log == nil {
		return ExportResult{}, u.failed(fault.New(fault.NotFound).Hintf("there is no journal here"))
	}
	u.Meter.Things(string(StepExport), int64(s.engine.Log.Head()), "exporting rows")
	w := &failingWriter{w: r.W}
	head := journal.ExportHeader{Head: r.Upto, CreatedAt: s.engine.Now().UTC().Format(engine.TimeFormat), Tool: Version}
	if r.Same {
		head.Version, head.CreatedAt, head.Tool = journal.ExportVersion, "", ""
	}
	foot, err := s.engine.Log.Export(w, head, r.After, func() error {
		u.Meter.One()
		return admin.Canceled(ctx)
	})
	if w.err != nil {
		err = admin.Outside(s.engine, w.err, "the export could not be written; what was written is incomplete")
	}
	if err != nil {
		return ExportResult{}, u.failed(err)
	}
	u.close()
	return ExportResult{Rows: foot.Rows, First: foot.First, Last: foot.Last, Malformed: foot.Malformed, SHA256: digest(foot.SHA256), Chain: digest(foot.Chain)}, nil
}

// failingWriter distinguishes errors of the caller's writer from those of the
// store.
type failingWriter struct {
	w   io.Writer
	err error
}

func (f *failingWriter) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if err == nil && n < len(p) {
		err = io.ErrShortWrite
	}
	if err != nil {
		f.err = err
	}
	return n, err
}
