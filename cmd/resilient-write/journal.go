package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/overview"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

var journals = []verb{
	{"journal_tail", "tail", "Newest rows", "", nil, "", showRows},
	{"journal_since", "since [SEQ]", "Rows after a number, or after the cursor of an agent", "", []string{"after_seq?"}, "", showRows},
}

// journal is the parent of the subcommands that show, follow, export and import
// the journal.
func (a *app) journal() *cobra.Command {
	cmd := a.parent("journal", "Show, follow, export and import the journal", "look", journals)
	cmd.AddCommand(a.follow(), a.export(), a.imports())
	return cmd
}

// sinceStart makes a reader that names neither a row nor an agent begin at the
// first row.
func sinceStart(cmd *cobra.Command) func(*asked) error {
	cmd.Long += "\n\nWithout SEQ and --agent it starts at the first row."
	return func(call *asked) error {
		if call.fields["after_seq"] == nil && call.fields["agent"] == nil {
			call.fields["after_seq"] = json.RawMessage("0")
		}
		return nil
	}
}

func showRows(p *printer, r reply) {
	if gap := gapOf(r); gap != "" {
		p.line("%s", p.paint(yellow, gap))
	}
	var rows [][]string
	for _, e := range r.list("entries") {
		rows = append(rows, rowOf(e))
	}
	if len(rows) == 0 {
		p.line("no rows")
	} else {
		p.table(rowHeads, rows)
	}
	if n := r.number("malformed"); n != "" {
		p.line("%s", p.paint(yellow, n+" rows cannot be read; run check"))
	}
	if next := r.text("next_seq"); next != "" {
		p.line("%s", p.paint(faint, "continue with: since "+next))
	}
}

const scratchDir = ".resilient_write/scratch/"

var rowHeads = []string{"row", "time", "op", "path", "bytes", "caller", "sha256"}

func rowOf(e reply) []string {
	path := e.text("path")
	if object, ok := strings.CutPrefix(path, scratchDir); ok && len(object) > 64 { // a hash, and an extension
		path = scratchDir + short(object) + "…" + object[64:]
	}
	if kind := e.text("kind"); kind != "" && kind != "commit" {
		path += " (" + strings.TrimSuffix(kind+": "+e.text("reason"), ": ") + ")"
	}
	return []string{e.text("journal_id"), when(e.text("ts")), e.text("op"), path, e.bytes(e.text("bytes")), e.text("caller"), short(e.text("sha256"))}
}

// bytes returns the size after a row, with the given words. There is none for a
// directory, for a file that is gone, and for one that a refused call would have
// written.
func (r reply) bytes(words string) string {
	switch kind := r.text("kind"); {
	case r.text("sha256") != "":
		return words
	case r.text("op") == "mkdir", r.text("op") == "chmod":
		return "directory"
	case kind == "" || kind == "commit":
		return "gone"
	}
	return ""
}

// gapOf describes the rows that a reader did not get.
func gapOf(r reply) string {
	if r.text("gap") != "true" {
		return ""
	}
	if parked := r.object("archived"); parked.text("from") != "" {
		return fmt.Sprintf("rows %s to %s are in the archive; tail and history read them", parked.text("from"), parked.text("to"))
	}
	return "the journal has no row with that number yet"
}

// follow prints rows as they come, until it is interrupted.
func (a *app) follow() *cobra.Command {
	var after uint64
	cmd := &cobra.Command{
		Use: "follow", Short: "Print new rows as JSON lines or as a table, until Ctrl-C", Args: noArguments,
		Long: `Print new rows as JSON lines or as a table, until Ctrl-C.

It only reads: it creates no store and does not count as a writer. If there is
no store yet, it waits for one.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f := &follower{a: a, p: &printer{w: a.out}, after: after, known: cmd.Flags().Changed("after")}
			return a.everyLook(cmd.Context(), f.rows)
		},
	}
	cmd.Flags().Uint64Var(&after, "after", 0, "start after this row; default: the newest row")
	return cmd
}

// followBatch is the maximum number of rows per read.
const followBatch = 100

// follower reads the journal again when its directory changes. A row may become
// readable a moment later, when it is flushed, so the journal is also read at
// intervals.
type follower struct {
	a      *app
	p      *printer
	after  uint64
	known  bool // after is the starting row
	headed bool
}

// everyLook reads the store when there may be new rows, until ctx ends.
func (a *app) everyLook(ctx context.Context, read func(context.Context, *rw.Store) error) error {
	look := overview.Looker{State: a.set.stateDirectory()}
	for {
		if look.Due() {
			err := a.withStore(ctx, true, read)
			if ctx.Err() != nil {
				return nil // ended by Ctrl-C
			}
			if err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(overview.Every):
		}
	}
}

// rows prints everything that is new.
func (f *follower) rows(ctx context.Context, s *rw.Store) error {
	if !f.known {
		d, err := s.Describe(ctx, rw.DescribeRequest{})
		if err != nil {
			return err
		}
		f.after, f.known = d.HeadSeq, true
	}
	for {
		got, err := s.JournalSince(ctx, rw.JournalSinceRequest{AfterSeq: &f.after, Limit: followBatch, IncludeRefused: true})
		if err != nil {
			return err
		}
		if got.Gap && got.Archived != nil {
			fmt.Fprintf(f.a.messages(), "rows %d to %d are in the archive; tail and history read them\n", got.Archived.From, got.Archived.To)
		}
		for _, e := range got.Entries {
			if err := f.print(e); err != nil {
				return err
			}
		}
		if got.NextSeq <= f.after || len(got.Entries) == 0 {
			f.after = max(f.after, got.NextSeq)
			return nil
		}
		f.after = got.NextSeq
	}
}

func (f *follower) print(e rw.JournalEntry) error {
	data, err := schema.Encode(e)
	if err != nil {
		return err
	}
	if f.a.forPrograms() {
		return f.a.document(data)
	}
	const line = "%-9s %-19s  %-10s %9s  %-12s  %s"
	if !f.headed {
		f.headed = true
		f.p.line(line, "ROW", "TIME", "OP", "SIZE", "CALLER", "PATH")
	}
	var r reply
	if err := json.Unmarshal(data, &r.fields); err != nil {
		return err
	}
	cells := rowOf(r)
	path := printable(cells[3])
	f.p.line(line, cells[0], cells[1], cells[2], r.bytes(size(r.fields["bytes"])), printable(cells[5]), path)
	return f.a.out.failed() // later rows would be lost
}

// exportReply describes an export.
type exportReply struct {
	admin.ExportResult
	Bytes int64 `json:"bytes"`
}

// export writes the whole journal out.
func (a *app) export() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use: "export", Short: "Export the whole journal", Args: noArguments,
		Long: `Export the whole journal as JSON lines, archived rows included, to standard
output or to a file that is written atomically with mode 0600. It contains no
file content, but paths, callers and reasons. Nothing is changed, and writers
are not blocked.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runExport(cmd.Context(), out) },
	}
	cmd.Flags().StringVar(&out, "out", "-", "`file` for the export; - for standard output")
	return cmd
}

func (a *app) runExport(ctx context.Context, out string) error {
	if err := a.checkOut(out, "an", "export", "journal.export"); err != nil {
		return err
	}
	return a.withOldStore(ctx, true, func(ctx context.Context, s *rw.Store) error {
		var r exportReply
		write := func(w io.Writer) (err error) {
			var n journal.Size
			buffered := bufio.NewWriterSize(io.MultiWriter(w, &n), 64<<10)
			if r.ExportResult, err = s.Admin().Export(ctx, admin.ExportRequest{W: buffered}); err == nil {
				err = buffered.Flush()
			}
			r.Bytes = int64(n)
			return err
		}
		return deliver(a, out, "export", write, &r, showExport)
	})
}

func showExport(p *printer, r *exportReply) {
	p.line("%s %s, %s  %s", p.paint(green, "exported"), several(int(r.Rows), "row"), size(float64(r.Bytes)), p.paint(faint, short(r.SHA256.String())))
	if r.Malformed > 0 {
		p.line("%s", p.paint(yellow, fmt.Sprintf("%d lines that are not rows were left out; run check", r.Malformed)))
	}
}

// imports adds the rows of an export to the store.
func (a *app) imports() *cobra.Command {
	var r admin.ImportRequest
	cmd := &cobra.Command{
		Use: "import [FILE]", Short: "Import the rows of an export, from a file or standard input",
		Long: `Import the rows of an export into a new store, from a file or from standard
input. The whole export is verified before anything is written. It contains no
file content: a version is available only where history has its content.

If the import is interrupted, the store is valid and has part of the rows;
importing the same export again continues.`,
		Args: takes(0, 1, "import takes one export", ""),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Session = a.session
			return a.runImport(cmd.Context(), r, strings.Join(args, ""))
		},
	}
	f := cmd.Flags()
	f.BoolVar(&r.AllowNonEmpty, "allow-non-empty", false, "also import into a store that has rows of its own; rows of paths it already has become notes")
	f.BoolVar(&r.DryRun, "dry-run", false, "verify the export and report what would be imported, but change nothing")
	callerFlag(f, &r.Caller)
	return cmd
}

func (a *app) runImport(ctx context.Context, r admin.ImportRequest, name string) error {
	src, err := a.open(ctx, "FILE", name)
	if err != nil {
		return err
	}
	defer src.Close()
	r.R = src
	has, err := a.hasStore()
	if err != nil {
		return err
	}
	if r.DryRun && !has { // a dry run must not create one, so it uses a new temporary store
		dir, err := os.MkdirTemp("", "resilient-write-")
		if err != nil {
			return streamError(a.command, "a temporary workspace could not be created", err)
		}
		defer os.RemoveAll(dir)
		a.set.root, a.set.stateDir, a.set.policyFile = dir, "", ""
	}
	return administer(ctx, a, a.withStore, admin.Operator.Import, r, showImport)
}

func showImport(p *printer, r admin.ImportResult) {
	switch {
	case r.DryRun:
		p.line("%s the export is complete: %d rows; %d would be imported, %d were imported before, %d concern the old store itself", p.paint(yellow, "dry run"), r.Rows, r.Imported, r.Present, r.Skipped)
	case r.Status == rw.StatusUnchanged:
		p.line("%s all of its rows were imported before", p.paint(green, "unchanged"))
	default:
		p.line("%s %d of %d rows; %d were imported before, %d concern the old store itself", p.paint(green, "imported"), r.Imported, r.Rows, r.Present, r.Skipped)
	}
}
