// Package changes reports what was changed in a workspace, by tools and by other
// programs, and plans the commits that undo changes.
package changes

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/history"
	"github.com/resilientwrite/resilientwrite/internal/hunks"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
	"github.com/resilientwrite/resilientwrite/internal/merge"
)

// Layer reads the changes of a workspace.
type Layer struct {
	*engine.Engine
	Versions *history.Layer
	Observed *observe.Layer
	Folds    bool // names that differ only in letter case are equal
}

// Filter selects changes. An empty field excludes nothing.
type Filter struct {
	Session, Agent string
	Since          time.Time
	AfterSeq       uint64
	Hunks          bool // the changed lines are listed
}

// selects reports whether a row matches.
func (f *Filter) selects(rec *journal.Record) bool {
	via := journal.Via{}
	if rec.Via != nil {
		via = *rec.Via
	}
	if f.Session != "" && rec.Session != f.Session && via.Thread != f.Session || f.Agent != "" && rec.Caller != f.Agent && via.Client != f.Agent {
		return false
	}
	if f.Since.IsZero() {
		return true
	}
	ts, err := time.Parse(time.RFC3339Nano, rec.TS)
	return err != nil || !ts.Before(f.Since)
}

// List is what was changed.
type List struct {
	Created, Changed, Deleted, Reverted int
	Commits, Observed                   int
	Files                               []*File // by path
	Groups, Executed                    []Row   // observed changes, and commits that a command made, oldest first
	Truncated                           bool
}

// Row is a row of the journal, and how many files it changes.
type Row struct {
	*journal.Record
	Files int
}

// File is a file and what all changes together made of it.
type File struct {
	Path         string
	Change       string // created, changed, mode, deleted or reverted
	SHA, PrevSHA string
	Bytes        int64
	Link         bool
	Changes      int
	Callers      []string
	Seq          uint64 // newest row
	Conflict     bool   // a change was made to other content than the one before had left

	Net     *hunks.Net // without what others changed; only with Filter.Hunks
	Hunks   []merge.Hunk
	Patch   string
	Omitted string // why there are no hunks

	prevMode, mode uint32
}

// MaxFiles is how many files are listed.
const MaxFiles = 10_000

const maxRows = 1000 // groups and commands that are listed

// row is a selected row, or one of others after the first of these.
type row struct {
	rec  *journal.Record
	mine bool
}

// List lists the changes that a filter selects. It reads only the journal.
func (l *Layer) List(ctx context.Context, f Filter) (*List, error) {
	if err := l.Log.CatchUp(); err != nil && !l.Opts.ReadOnly {
		return nil, err
	}
	aborted := map[uint64]bool{}
	var rows []row
	err := l.Log.Range(f.AfterSeq+1, func(rec *journal.Record, _ journal.Pos) error {
		if ctx.Err() != nil {
			return fault.New(fault.Canceled).Because(ctx.Err())
		}
		switch rec.Kind {
		case journal.KindAbort:
			aborted[rec.Ref] = true
		case journal.KindCommit, journal.KindObserved:
			if mine := f.selects(rec); mine || f.Hunks && len(rows) > 0 {
				rows = append(rows, row{rec, mine})
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(r row) bool { return aborted[r.rec.Seq] })
	out, files := &List{}, map[string]*File{}
	for _, r := range rows {
		if r.mine {
			out.take(r.rec, files)
		}
	}
	out.finish(files)
	if f.Hunks {
		l.lines(ctx, rows, out.Files)
	}
	return out, nil
}

// take adds the changes of one row.
func (out *List) take(rec *journal.Record, files map[string]*File) {
	found := 0
	for i := range rec.Muts {
		m := &rec.Muts[i]
		if m.Class != "" || m.ImportID != "" {
			continue
		}
		found++
		f := files[m.Identity()]
		if f == nil {
			f = &File{Path: m.Identity(), SHA: m.PrevSHA256, PrevSHA: m.PrevSHA256, prevMode: m.ModeBefore(), Callers: []string{}}
			files[f.Path] = f
		}
		f.Conflict = f.Conflict || f.SHA != m.PrevSHA256
		f.SHA, f.Bytes, f.Seq, f.mode, f.Link = m.SHA256, m.Bytes, rec.Seq, m.Mode, m.Link()
		f.Changes++
		if !slices.Contains(f.Callers, rec.Caller) {
			f.Callers = append(f.Callers, rec.Caller)
		}
	}
	switch observed := rec.Kind == journal.KindObserved; {
	case found == 0 && (!observed || len(rec.Muts) == 0):
	case observed:
		out.Observed++
		out.Groups = append(out.Groups, Row{rec, found})
		if len(out.Groups) > maxRows {
			out.Groups, out.Truncated = out.Groups[1:], true
		}
	default:
		out.Commits++
		if rec.Group != nil {
			out.Executed = append(out.Executed, Row{rec, found})
			out.Executed = out.Executed[max(0, len(out.Executed)-maxRows):]
		}
	}
}

// finish sorts and counts the files.
func (out *List) finish(files map[string]*File) {
	for _, f := range files {
		counter := &out.Changed
		switch {
		case f.PrevSHA == "" && f.SHA == "":
			f.Change, counter = "reverted", &out.Reverted
		case f.PrevSHA == "":
			f.Change, counter = "created", &out.Created
		case f.SHA == "":
			f.Change, counter = "deleted", &out.Deleted
		case f.SHA != f.PrevSHA || fsx.KindOf(f.mode) != fsx.KindOf(f.prevMode):
			f.Change = "changed"
		case f.prevMode != f.mode && f.prevMode != 0 && f.mode != 0:
			f.Change = "mode"
		default:
			f.Change, counter = "reverted", &out.Reverted
		}
		*counter++
		out.Files = append(out.Files, f)
	}
	slices.SortFunc(out.Files, func(a, b *File) int { return strings.Compare(a.Path, b.Path) })
	if len(out.Files) > MaxFiles {
		out.Files, out.Truncated = out.Files[:MaxFiles:MaxFiles], true
	}
}
