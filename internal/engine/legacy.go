package engine

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
)

// LegacyName is the journal of the Python implementation: one JSON object per
// line, in the state directory itself. It is read, never changed. Lines that are
// added later are imported by the next Open.
const LegacyName = "journal.jsonl"

// legacyRow is one line of it.
type legacyRow struct {
	JournalID string `json:"journal_id"`
	TS        string `json:"ts"`
	Path      string `json:"path"`
	SHA256    string `json:"sha256"`
	Bytes     int64  `json:"bytes"`
	Mode      string `json:"mode"`
	Caller    string `json:"caller"`
}

const (
	legacyBatch   = 400     // rows per journal write
	legacyMaxLine = 1 << 20 // bytes
)

// importLegacy imports the lines that are not in our journal yet. Each row records the
// bytes it came from, so an interrupted import continues where it stopped. A power
// failure may have taken rows of its last batch while later ones survived: those are rolled
// back, so that all of them are imported again, in order.
func (s *Engine) importLegacy(ctx context.Context) error {
	f, err := s.Disk.State.Open(LegacyName, fsx.Read, 0)
	if IsAbsent(err) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if after := s.Rows.importedAhead(); len(after) > 0 {
		if err := s.dropLegacy(ctx, after); err != nil {
			return err
		}
	}
	from := s.Rows.importedTo()
	if from >= st.Size {
		return nil
	}
	in := &legacyImport{s: s, ctx: ctx, at: from, rowFrom: from, seen: map[string]LastVersion{}}
	r := bufio.NewReaderSize(io.NewSectionReader(f, from, st.Size-from), 64<<10)
	for {
		line, err := r.ReadString('\n')
		in.at += int64(len(line))
		if err == nil || len(line) > 0 && err == io.EOF {
			if err := in.line(line); err != nil {
				return err
			}
		}
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
	}
	return in.end()
}

// dropLegacy rolls imported rows back, the newest first.
func (s *Engine) dropLegacy(ctx context.Context, rows map[uint64]bool) error {
	last := map[string]LastVersion{} // of each path, without these
	var list []*journal.Record
	err := s.Log.Range(1, func(rec *journal.Record, _ journal.Pos) error {
		if rows[rec.Seq] {
			list = append(list, rec)
			return nil
		}
		for i := range rec.Muts {
			m := &rec.Muts[i]
			if rec.Kind == journal.KindAbort {
				last[m.Identity()] = LastVersion{m.PrevSeq, m.Rev, m.SHA256}
			} else if m.Rev > 0 {
				last[m.Identity()] = LastVersion{rec.Seq, m.Rev, m.SHA256}
			}
		}
		return nil
	})
	for i := len(list) - 1; i >= 0 && err == nil; i-- {
		m := list[i].Muts[0]
		was := last[m.Path]
		row := s.RowAbout(journal.KindAbort, list[i], "import_cut_off")
		row.Muts = []journal.Mutation{{Op: m.Op, Path: m.Path, SHA256: was.sha, Rev: was.Rev, PrevSeq: was.Seq, ImportID: m.ImportID}}
		err = s.WriteRow(ctx, row)
	}
	if err != nil {
		return err
	}
	return s.Log.Sync()
}

// legacyImport is an import in progress.
type legacyImport struct {
	s       *Engine
	ctx     context.Context
	at      int64 // after the current line
	rowFrom int64 // after the last row
	batch   []*journal.Record
	seen    map[string]LastVersion // of paths in the batch
	rows    int64
	skipped int64
}

type LastVersion struct {
	Seq, Rev uint64
	sha      string
}

// line imports one line; an invalid line is counted.
func (in *legacyImport) line(text string) error {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil
	}
	var row legacyRow
	if len(text) > legacyMaxLine || !utf8.ValidString(text) || json.Unmarshal([]byte(text), &row) != nil {
		in.skipped++
		return nil
	}
	id := fmt.Sprintf("%d-%d", in.rowFrom, in.at)
	rec := in.record(row, id)
	if rec == nil {
		in.skipped++
		return nil
	}
	in.rowFrom = in.at
	in.rows++
	in.batch = append(in.batch, rec)
	if len(in.batch) < legacyBatch {
		return nil
	}
	return in.flush()
}

// record makes the row of a line; nil if no row can be made of it.
func (in *legacyImport) record(row legacyRow, id string) *journal.Record {
	path, _, err := relpath.Clean(row.Path, relpath.Rules{Roots: in.s.Tree.Rules.Roots})
	m := journal.Mutation{Op: row.Mode, Path: path, SHA256: row.SHA256, Bytes: row.Bytes, ImportID: id, JournalID: row.JournalID}
	if err != nil || !Acceptable(&m) || !ShortTexts(row.TS, row.Caller) {
		return nil
	}
	return &journal.Record{TS: row.TS, Kind: journal.KindCommit, Writer: in.s.Writer, Caller: row.Caller, Muts: []journal.Mutation{m}}
}

// maxText bounds a text of a row that others have made, in bytes.
const maxText = 500

// ShortTexts reports whether texts can be in a row.
func ShortTexts(texts ...string) bool {
	return !slices.ContainsFunc(texts, func(t string) bool { return len(t) > maxText })
}

// Acceptable reports whether a mutation that others have recorded could be one of ours:
// anyone may have written it.
func Acceptable(m *journal.Mutation) bool {
	for _, p := range []string{m.Path, m.Real, m.From} {
		clean, _, err := relpath.Clean(p, relpath.Rules{})
		if p != "" && (err != nil || clean != p) {
			return false
		}
	}
	for _, sha := range []string{m.SHA256, m.PrevSHA256, m.PaySHA256} {
		if sha != "" && !ValidSHA256(sha) {
			return false
		}
	}
	for _, mode := range []uint32{m.Mode, m.PrevMode} {
		if kind := mode &^ 0o7777; kind != 0 && kind != fsx.ModeDir && mode != fsx.ModeLink {
			return false
		}
	}
	git, err := hex.DecodeString(m.PrevGit)
	return m.Path != "" && m.Bytes >= 0 && m.PrevBytes >= 0 && err == nil && slices.Contains([]int{0, 20, 32}, len(git)) && ShortTexts(m.Op, m.How, m.JournalID)
}

// flush writes the batch. Revisions are counted under the journal lock, when the
// sequence numbers are known.
func (in *legacyImport) flush() error {
	if len(in.batch) == 0 {
		return nil
	}
	clear(in.seen)
	_, err := in.s.Log.Write(&journal.Batch{Recs: in.batch, Before: in.link})
	if err == nil {
		err = in.s.Log.Flush(in.s.Log.Head())
	}
	in.batch = nil
	return err
}

// link sets in every row the previous row of its path.
func (in *legacyImport) link(head uint64) error {
	for i, rec := range in.batch {
		m := &rec.Muts[0]
		before, ok := in.seen[m.Path]
		if !ok {
			e, err := in.s.Rows.Last(m.Path)
			if err != nil {
				return err
			}
			before = LastVersion{Seq: e.Seq, Rev: uint64(e.Rev)}
		}
		m.PrevSeq, m.Rev, m.PrevSHA256 = before.Seq, before.Rev+1, before.sha
		in.seen[m.Path] = LastVersion{head + uint64(i) + 1, m.Rev, m.SHA256}
	}
	return nil
}

// end writes the remaining rows and a note about the import.
func (in *legacyImport) end() error {
	if err := in.flush(); err != nil {
		return err
	}
	in.s.Report.Imported, in.s.Report.ImportSkipped = in.rows, in.skipped
	if in.rows == 0 {
		return nil
	}
	note := &journal.Record{Kind: journal.KindNote, Writer: in.s.Writer, Note: &journal.Note{
		What: "import", Text: LegacyName, Bytes: in.at, Rows: in.rows, Skipped: in.skipped,
	}}
	return in.s.WriteRow(in.ctx, note)
}
