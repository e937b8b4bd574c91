package upkeep

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
)

// outside is an error of the caller's reader or writer, with a hint, unless it
// is one of our own.
func (c *Call) outside(err error, hint string) error {
	var own *fault.Fault
	if errors.As(err, &own) {
		return err
	}
	if e := c.Engine.ErrorOf(err); e.Code != fault.Internal {
		return e
	}
	return fault.New(fault.IOError).Because(err).Hintf("%s", hint)
}

// importing is one Import in progress.
type importing struct {
	*Call
	from  io.Reader
	mixed bool // also into a store with rows of its own
	info  journal.Imported
	id    string                        // of the export, in the rows that come from it
	last  map[string]engine.LastVersion // the newest imported row of each path
	out   admin.ImportResult

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
	setID        = 0o7000    // bits of a mode that no other machine sets
)

func (in *importing) run(ctx context.Context) error {
	in.Meter.Things(StepImport, 0, "verifying the export")
	if in.DryRun {
		return in.plan(ctx)
	}
	spool, err := in.spool(ctx)
	if err != nil {
		return err
	}
	defer in.Engine.Disk.Staging.Remove(spool.name)
	defer spool.file.Close()
	if err := in.survey(); err != nil {
		return err
	}
	if err := in.resume(ctx, io.NewSectionReader(spool.file, 0, spool.size)); err != nil {
		return err
	}
	in.Meter.Things(StepImport, in.out.Rows, "importing rows")
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
	name := in.tempName()
	f, err := in.Engine.Disk.Staging.Open(name, fsx.Read|fsx.Write|fsx.Create|fsx.Excl, 0o600)
	if err != nil {
		return exportCopy{}, err
	}
	copied := &countingWriter{w: f}
	err = in.verify(ctx, io.TeeReader(in.from, copied), func(*journal.Record) {})
	if copied.err != nil {
		err = copied.err
	}
	if err != nil {
		f.Close()
		return exportCopy{}, err
	}
	return exportCopy{file: f, name: name, size: copied.n}, nil
}

// plan counts the rows that would be imported. The export is read once. A commit
// precedes the row that undoes it, so such a commit is subtracted at the end.
func (in *importing) plan(ctx context.Context) error {
	become := map[uint64]int{} // rows here, by those of the export
	err := in.verify(ctx, in.from, func(rec *journal.Record) {
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
		in.Meter.One()
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
		return in.outside(err, "the export could not be read")
	}
	in.id = exportedRow + in.info.Footer.SHA256[:16] + ":"
	return nil
}

// survey determines what the store contains: nothing, a part of this export, or rows of
// its own.
func (in *importing) survey() error {
	aborted := map[uint64]bool{}
	if err := in.Engine.Log.Range(1, func(rec *journal.Record, _ journal.Pos) error {
		if rec.Kind == journal.KindAbort {
			aborted[rec.Ref] = true
		}
		return nil
	}); err != nil {
		return err
	}
	own := false
	err := in.Engine.Log.Range(1, func(rec *journal.Record, _ journal.Pos) error {
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
	if err == nil && own && !in.mixed {
		err = fault.New(fault.StoreNotEmpty)
	}
	in.out.Present = int64(len(in.there))
	return err
}

// placeOf reports which row of the export a row came from.
func (in *importing) placeOf(rec *journal.Record) (at importPlace, ours bool) {
	if len(rec.Muts) == 0 {
		return at, false
	}
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

// resume finds how far an earlier import has progressed. A power failure may have
// removed rows of its last batch while later ones survived: those are rolled back, so
// that all of them are imported again, in order.
func (in *importing) resume(ctx context.Context, r io.Reader) error {
	if len(in.there) == 0 {
		return nil
	}
	hole := false
	after := map[uint64]bool{} // rows here after the hole
	_, err := journal.ReadExport(r, func(rec *journal.Record) error {
		for part := range in.rows(rec) {
			at := importPlace{rec.Seq, part}
			seq, there := in.there[at]
			switch {
			case !there:
				hole = true
			case hole:
				after[seq] = true
			default:
				in.upto = at
			}
		}
		return canceled(ctx)
	})
	if err != nil || len(after) == 0 {
		return err
	}
	return in.remove(ctx, after)
}

func (in *importing) remove(ctx context.Context, after map[uint64]bool) error {
	clear(in.last)
	var list []*journal.Record
	err := in.Engine.Log.Range(1, func(rec *journal.Record, _ journal.Pos) error {
		if after[rec.Seq] {
			list = append(list, rec)
		} else if at, ours := in.placeOf(rec); ours && in.there[at] == rec.Seq {
			in.remember(rec)
		}
		return nil
	})
	if err != nil {
		return err
	}
	in.Effect = fault.EffectUnknown
	for i := len(list) - 1; i >= 0; i-- {
		row := in.Engine.RowAbout(journal.KindAbort, list[i], "import_cut_off")
		changed := list[i].Muts
		if kind := list[i].Kind; kind == journal.KindNote || kind == journal.KindRefused {
			changed = nil // it is only a record: the history of its paths is not undone
		}
		for _, m := range changed { // the rows before it may be lost
			was := in.last[m.Identity()]
			row.Muts = append(row.Muts, journal.Mutation{
				Op: m.Op, Path: m.Path, Real: m.Real, SHA256: m.PrevSHA256, Bytes: m.PrevBytes, Rev: was.Rev, PrevSeq: was.Seq,
			})
		}
		if err := in.Engine.WriteRow(context.WithoutCancel(ctx), row); err != nil {
			return in.journalFailed(err)
		}
	}
	in.out.Present -= int64(len(list))
	return in.Engine.Log.Sync()
}

// take writes the rows.
func (in *importing) take(ctx context.Context, r io.Reader) error {
	_, err := journal.ReadExport(r, func(rec *journal.Record) error {
		if err := canceled(ctx); err != nil {
			return err
		}
		in.Meter.One()
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
		return in.flush()
	})
	if err == nil {
		err = in.flush()
	}
	if err != nil || in.out.Imported == 0 {
		return err
	}
	return in.note(ctx, journal.Note{What: journal.NoteImport, Text: "export", SHA256: in.info.Footer.SHA256, Rows: in.out.Imported + in.out.Present, Skipped: in.out.Skipped})
}

// flush writes the batch and makes it durable.
func (in *importing) flush() error {
	if len(in.batch) == 0 {
		return nil
	}
	in.Effect = fault.EffectUnknown
	_, err := in.Engine.Log.Write(&journal.Batch{Recs: in.batch, Before: in.link})
	if err == nil {
		err = in.Engine.Log.Sync()
	}
	if err != nil {
		return in.journalFailed(err)
	}
	in.out.Imported += int64(len(in.batch))
	in.Seq = in.batch[len(in.batch)-1].Seq
	in.batch, in.size = nil, 0
	return nil
}

// link sets, for every row, the previous row of its path. If the newest row of a path
// is not from this import, the path has another origin: the row then becomes a note,
// which is a record and changes nothing.
func (in *importing) link(head uint64) error {
	for i, rec := range in.batch {
		if rec.Kind == journal.KindRefused {
			continue
		}
		seq := head + uint64(i) + 1
		for j := range rec.Muts {
			e, err := in.Engine.Rows.Last(rec.Muts[j].Identity())
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

// rows returns what a row of the old store becomes: nothing if it refers to that store
// itself, several rows if one would be too long.
func (in *importing) rows(rec *journal.Record) []*journal.Record {
	switch rec.Kind {
	case journal.KindCommit:
		if in.info.Aborted[rec.Seq] {
			return nil
		}
	case journal.KindConflict, journal.KindRefused, journal.KindObserved:
	default:
		return nil
	}
	if !engine.ShortTexts(rec.Caller, rec.Session, rec.Reason, rec.Invocation, rec.Tx, rec.Policy, rec.TS) {
		return nil
	}
	if v := rec.Via; v != nil && !engine.ShortTexts(v.Client, v.Version, v.Connection, v.Thread, v.Call, v.Model, v.Turn, v.Trace) {
		return nil
	}
	if g := rec.Group; g != nil && (!engine.ShortTexts(g.Calls...) || !engine.ShortTexts(g.Ignored...) || len(g.Command) > observe.MaxCommand || len(g.Calls) > observe.MaxCalls) {
		return nil
	}
	head := journal.Record{
		TS: rec.TS, Kind: rec.Kind, Writer: in.Engine.Writer, Caller: rec.Caller, Session: rec.Session, Via: rec.Via,
		Invocation: rec.Invocation, Tx: rec.Tx, Reason: rec.Reason, Policy: rec.Policy, AcceptRisk: in.SafeText(rec.AcceptRisk), Group: rec.Group,
	}
	var out []*journal.Record
	size, most := 0, min(importedRow, journal.MaxRecord-encoded(head))
	for i := range rec.Muts {
		m, ok := in.mutation(rec, i)
		if !ok {
			continue
		}
		long := encoded(m)
		if long > most {
			return nil
		}
		if n := len(out); n == 0 || len(out[n-1].Muts) == importedMuts || size+long > most {
			row := head
			size, out = 0, append(out, &row)
		}
		row := out[len(out)-1]
		m.ImportID = fmt.Sprintf("%s%d.%d", in.id, rec.Seq, len(out)-1)
		row.Muts = append(row.Muts, m)
		size += long
	}
	return out
}

// encoded returns how many bytes something takes in a row, at most. What is set when the
// row is written has a part of its own.
func encoded(v any) int {
	data, err := json.Marshal(v)
	if err != nil {
		return journal.MaxRecord
	}
	return len(data) + 128
}

// mutation is one file of an old row. Objects of the old state directory are not taken
// over, and neither is what no row of ours could have.
func (in *importing) mutation(rec *journal.Record, i int) (journal.Mutation, bool) {
	old := rec.Muts[i]
	for _, p := range []string{old.Path, old.Real, old.From} {
		if strings.HasPrefix(p, engine.StateDirName+"/") {
			return old, false
		}
	}
	if old.Class != "" || !engine.Acceptable(&old) {
		return old, false
	}
	m := journal.Mutation{
		Op: old.Op, Path: old.Path, Real: old.Real, From: old.From, SHA256: old.SHA256, Bytes: old.Bytes,
		PrevSHA256: old.PrevSHA256, PrevBytes: old.PrevBytes, PrevMode: old.PrevMode &^ setID, PrevGit: old.PrevGit, PrevExtra: old.PrevExtra, Mode: old.Mode &^ setID, How: old.How, JournalID: old.JournalID,
	}
	if rec.Kind == journal.KindConflict && old.Rev == 0 { // it is only a record
		m.How = ""
	}
	if m.JournalID == "" {
		m.JournalID = engine.JournalID(rec.Seq, i)
	}
	return m, true
}
