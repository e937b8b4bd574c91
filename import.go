package resilientwrite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// ImportRequest asks for the rows of an export to be taken over.
type ImportRequest struct {
	Call `omit:"idempotency_key,accept_risk"`

	R io.Reader `json:"-"` // the export; it is read to its end
	// Also import into a store that has rows of its own. Rows of paths it already
	// knows become notes.
	AllowNonEmpty bool `json:"allow_non_empty,omitempty"`
}

// ImportResult reports what was taken over.
type ImportResult struct {
	// Rows in the export.
	Rows int64 `json:"rows"`
	// Number of rows imported, or that would be imported.
	Imported int64 `json:"imported"`
	// Number of rows that an earlier call imported.
	Present int64 `json:"present"`
	// Rows about the old store itself: notes, rolled-back commits, objects of its
	// state directory.
	Skipped int64 `json:"skipped"`
	// Hash in the last line of the export, which identifies it.
	SHA256 Digest `json:"sha256"`
	// Outcome of the call.
	Status Status `json:"status" enum:"succeeded,unchanged"`
	// What the caller should know although the call succeeded.
	Warnings []Warning `json:"warnings"`
	// The full record of the call.
	Receipt Receipt `json:"receipt"`
}

// Import takes the rows of an export over into a fresh store, where tail,
// history and analytics show them with the ids they had. The export is read to
// its end and verified before anything is written: header, order, chain, number
// of rows, final hash. No content comes with it: versions of imported rows are
// available only where history has their bytes.
//
// Rows are written in batches. Killed in the middle, it leaves a store with a
// part of them, and importing the same export again goes on where it stopped;
// when everything is there the call is unchanged. Idempotency keys are not
// taken over.
//
// Errors: [ErrExportDamaged] for an export that is cut off or changed, with nothing
// left on disk; [ErrNewerFormat]; [ErrStoreNotEmpty] for a store with rows of its own
// unless it is asked for; [ErrInvalidArgument] without a reader; [ErrLockTimeout]; the
// storage details – also those of R –; [ErrStorePoisoned], [ErrStoreClosed],
// [ErrStoreReadOnly], [ErrCanceled].
func (a Admin) Import(ctx context.Context, r ImportRequest) (ImportResult, error) {
	s := a.s
	u, ctx, err := s.beginUpkeep(ctx, upkeepCall{op: "import", caller: r.Caller, session: r.Session, dryRun: r.DryRun})
	if err != nil {
		return ImportResult{}, err
	}
	in := &importing{s: s, u: u, req: r, last: map[string]engine.LastVersion{}, there: map[importPlace]uint64{}}
	in.out.Warnings = []Warning{}
	if r.R == nil {
		return ImportResult{}, u.failed(fault.New(fault.InvalidArgument).With("argument", "r").Hintf("give a reader"))
	}
	if err := in.run(ctx); err != nil {
		return ImportResult{}, u.failed(err)
	}
	in.out.Status = StatusUnchanged
	if in.out.Imported > 0 {
		in.out.Status = StatusSucceeded
	}
	in.out.Receipt = u.done(in.out.Status, in.out.Warnings)
	return in.out, nil
}

// importing is one Import in progress.
type importing struct {
	s    *Store
	u    *upkeep
	req  ImportRequest
	info journal.Imported
	id   string                        // of the export, in the rows that come from it
	last map[string]engine.LastVersion // the newest imported row of each path
	out  ImportResult

	there map[importPlace]uint64 // rows that are imported already, by their seq here
	upto  importPlace            // everything up to here is

	batch []*journal.Record
	size  int
}

// importPlace names an imported row: the old seq and the part of a row that
// became several.
type importPlace struct {
	seq  uint64
	part int
}

const (
	importBatch  = 400       // rows per journal write
	importBytes  = 1 << 20   // of a batch
	importedMuts = 200       // of one row
	importedRow  = 128 << 10 // bytes of the mutations of one row
)

func (in *importing) run(ctx context.Context) error {
	in.u.account.things(StepImport, 0, "verifying the export")
	if in.req.DryRun {
		return in.plan(ctx)
	}
	spool, err := in.spool(ctx)
	if err != nil {
		return err
	}
	defer in.s.engine.Disk.Staging.Remove(spool.name)
	defer spool.file.Close()
	if err := in.survey(); err != nil {
		return err
	}
	if err := in.resume(ctx, io.NewSectionReader(spool.file, 0, spool.size)); err != nil {
		return err
	}
	in.u.account.things(StepImport, in.out.Rows, "importing rows")
	return in.take(ctx, io.NewSectionReader(spool.file, 0, spool.size))
}

// exportCopy is the export in staging/.
type exportCopy struct {
	file fsx.File
	name string
	size int64
}

// spool copies the export into the state directory while it is verified. A
// crash leaves a name that the next Open sweeps.
func (in *importing) spool(ctx context.Context) (exportCopy, error) {
	name := in.u.tempName()
	f, err := in.u.createTemp(name)
	if err != nil {
		return exportCopy{}, err
	}
	copied := &countingWriter{f: f}
	err = in.verify(ctx, io.TeeReader(in.req.R, copied), func(*journal.Record) {})
	if copied.err != nil {
		err = copied.err
	}
	if err != nil {
		f.Close()
		return exportCopy{}, err
	}
	return exportCopy{file: f, name: name, size: copied.n}, nil
}

// countingWriter keeps the error of our own disk apart from that of the
// caller's reader.
type countingWriter struct {
	f   fsx.File
	n   int64
	err error
}

func (c *countingWriter) Write(p []byte) (int, error) {
	n, err := c.f.Write(p)
	c.n += int64(n)
	if err != nil {
		c.err = err
	}
	return n, err
}

// plan counts what would be taken over. The export is read once, and a commit
// precedes the row that undoes it, so it is taken out at the end.
func (in *importing) plan(ctx context.Context) error {
	become := map[uint64]int{} // rows here, by those of the export
	err := in.verify(ctx, in.req.R, func(rec *journal.Record) {
		if n := len(in.rows(rec)); n > 0 {
			become[rec.Seq] = n
		}
	})
	if err != nil {
		return err
	}
	for seq := range in.info.Aborted {
		delete(become, seq)
	}
	if err := in.survey(); err != nil {
		return err
	}
	for _, n := range become {
		in.out.Imported += int64(n)
	}
	in.out.Skipped = in.out.Rows - int64(len(become))
	in.out.Imported = max(0, in.out.Imported-in.out.Present)
	return nil
}

// verify reads an export to its end.
func (in *importing) verify(ctx context.Context, r io.Reader, each func(*journal.Record)) error {
	var err error
	in.info, err = journal.ReadExport(r, func(rec *journal.Record) error {
		in.u.account.one()
		in.out.Rows++
		each(rec)
		return canceled(ctx)
	})
	in.out.SHA256 = digest(in.info.Footer.SHA256)
	switch {
	case errors.Is(err, journal.ErrExport):
		return fault.New(fault.ExportDamaged).Because(err).Hintf("%s; nothing was imported; export the journal again", err)
	case errors.Is(err, journal.ErrNewerExport):
		return fault.New(fault.NewerFormat).With("format", in.info.Header.Version).With("supported", journal.ExportVersion)
	case err != nil:
		return in.u.outside(err, "the export could not be read")
	}
	in.id = exportedRow + in.out.SHA256.String()[:16] + ":"
	return nil
}

// survey looks at what the store has: nothing, a part of this export, or rows
// of its own.
func (in *importing) survey() error {
	aborted := map[uint64]bool{}
	if err := in.s.engine.Log.Range(1, func(rec *journal.Record, _ journal.Pos) error {
		if rec.Kind == journal.KindAbort {
			aborted[rec.Ref] = true
		}
		return nil
	}); err != nil {
		return err
	}
	own := false
	err := in.s.engine.Log.Range(1, func(rec *journal.Record, _ journal.Pos) error {
		if len(rec.Muts) == 0 || aborted[rec.Seq] || rec.Kind == journal.KindAbort {
			return nil
		}
		at, ours := in.placeOf(rec)
		if !ours {
			own = true
			return nil
		}
		in.there[at] = rec.Seq
		in.remember(rec)
		return nil
	})
	if err == nil && own && !in.req.AllowNonEmpty {
		err = fault.New(fault.StoreNotEmpty)
	}
	in.out.Present = int64(len(in.there))
	return err
}

// placeOf reports which row of the export a row came from.
func (in *importing) placeOf(rec *journal.Record) (at importPlace, ours bool) {
	rest, ours := strings.CutPrefix(rec.Muts[0].ImportID, in.id)
	if ours {
		fmt.Sscanf(rest, "%d.%d", &at.seq, &at.part)
	}
	return at, ours
}

// remember notes the newest imported row of each path.
func (in *importing) remember(rec *journal.Record) {
	if rec.Kind == journal.KindRefused || rec.Kind == journal.KindNote {
		return
	}
	for i := range rec.Muts {
		m := &rec.Muts[i]
		in.last[m.Identity()] = engine.LastVersion{Seq: rec.Seq, Rev: m.Rev}
	}
}

// resume finds how far an earlier import has come. A power cut may have taken
// rows of its last batch while later ones survived: those are undone, so
// that all come again, in order.
func (in *importing) resume(ctx context.Context, r io.Reader) error {
	if len(in.there) == 0 {
		return nil
	}
	hole := false
	behind := map[uint64]bool{} // rows here after the hole
	_, err := journal.ReadExport(r, func(rec *journal.Record) error {
		for part := range in.rows(rec) {
			at := importPlace{rec.Seq, part}
			seq, there := in.there[at]
			switch {
			case !there:
				hole = true
			case hole:
				behind[seq] = true
			default:
				in.upto = at
			}
		}
		return canceled(ctx)
	})
	if err != nil || len(behind) == 0 {
		return err
	}
	return in.takeBack(ctx, behind)
}

func (in *importing) takeBack(ctx context.Context, behind map[uint64]bool) error {
	clear(in.last)
	var list []*journal.Record
	err := in.s.engine.Log.Range(1, func(rec *journal.Record, _ journal.Pos) error {
		if behind[rec.Seq] {
			list = append(list, rec)
		} else if at, ours := in.ourPlace(rec); ours && in.there[at] == rec.Seq {
			in.remember(rec)
		}
		return nil
	})
	if err != nil {
		return err
	}
	in.u.effect = fault.EffectUnknown
	for i := len(list) - 1; i >= 0; i-- {
		row := in.s.engine.RowAbout(journal.KindAbort, list[i], "import_cut_off")
		changed := list[i].Muts
		if kind := list[i].Kind; kind == journal.KindNote || kind == journal.KindRefused {
			changed = nil // it is only a record: the history of its paths is not undone
		}
		for _, m := range changed { // the rows in front of it may be lost
			was := in.last[m.Identity()]
			row.Muts = append(row.Muts, journal.Mutation{
				Op: m.Op, Path: m.Path, Real: m.Real, SHA256: m.PrevSHA256, Bytes: m.PrevBytes, Rev: was.Rev, PrevSeq: was.Seq,
			})
		}
		if err := in.s.engine.WriteRow(context.WithoutCancel(ctx), row); err != nil {
			return in.u.journalFailed(err)
		}
	}
	in.out.Present -= int64(len(list))
	return in.s.engine.Log.Sync()
}

func (in *importing) ourPlace(rec *journal.Record) (at importPlace, ours bool) {
	if len(rec.Muts) == 0 {
		return at, false
	}
	return in.placeOf(rec)
}

// take writes the rows.
func (in *importing) take(ctx context.Context, r io.Reader) error {
	_, err := journal.ReadExport(r, func(rec *journal.Record) error {
		if err := canceled(ctx); err != nil {
			return err
		}
		in.u.account.one()
		rows := in.rows(rec)
		if len(rows) == 0 {
			in.out.Skipped++
		}
		for part, row := range rows {
			if at := (importPlace{rec.Seq, part}); at.seq < in.upto.seq || at.seq == in.upto.seq && at.part <= in.upto.part {
				continue
			}
			in.batch = append(in.batch, row)
			for i := range row.Muts {
				in.size += len(row.Muts[i].Path) + 512
			}
		}
		if len(in.batch) < importBatch && in.size < importBytes {
			return nil
		}
		return in.flush(ctx)
	})
	if err == nil {
		err = in.flush(ctx)
	}
	if err != nil || in.out.Imported == 0 {
		return err
	}
	return in.u.note(ctx, journal.Note{What: journal.NoteImport, Text: "export", SHA256: in.out.SHA256.String(), Rows: in.out.Imported + in.out.Present, Skipped: in.out.Skipped})
}

// flush writes the batch and makes it durable.
func (in *importing) flush(ctx context.Context) error {
	if len(in.batch) == 0 {
		return nil
	}
	in.u.effect = fault.EffectUnknown
	_, err := in.s.engine.Log.Write(context.WithoutCancel(ctx), &journal.Batch{Recs: in.batch, Before: in.link})
	if err == nil {
		err = in.s.engine.Log.Sync()
	}
	if err != nil {
		return in.u.journalFailed(err)
	}
	in.out.Imported += int64(len(in.batch))
	in.u.seq = in.batch[len(in.batch)-1].Seq
	in.batch, in.size = nil, 0
	return nil
}

// link gives every row the row of its path before it. A path whose newest row
// is not one of this import has another origin: then the row becomes a
// note, which is a record and changes nothing.
func (in *importing) link(head uint64) error {
	for i, rec := range in.batch {
		if rec.Kind == journal.KindRefused {
			continue
		}
		seq := head + uint64(i) + 1
		for j := range rec.Muts {
			e, err := in.s.engine.Rows.Last(rec.Muts[j].Identity())
			if err != nil {
				return err
			}
			if mine := in.last[rec.Muts[j].Identity()]; e.Seq != 0 && e.Seq > mine.Seq {
				rec.Kind = journal.KindNote
				rec.Note = &journal.Note{What: journal.NoteImport, Text: "of a path that has rows of its own"}
			}
		}
		if rec.Kind == journal.KindNote {
			continue
		}
		for j := range rec.Muts {
			m := &rec.Muts[j]
			before := in.last[m.Identity()]
			m.PrevSeq, m.Rev = before.Seq, before.Rev+1
			in.last[m.Identity()] = engine.LastVersion{Seq: seq, Rev: m.Rev}
		}
	}
	return nil
}
