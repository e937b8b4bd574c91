// Package changes reports what was changed in a workspace, by tools and by other
// programs, and plans the commits that undo changes.
package changes

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"

	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/history"
	"github.com/resilientwrite/resilientwrite/internal/hunks"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// Layer reads the changes of a workspace.
type Layer struct {
	*engine.Engine
	Versions *history.Layer
	Observed *observe.Layer
}

// Filter selects changes. An empty field excludes nothing.
type Filter around.ChangesRequest

// selects reports whether a row matches.
func (f *Filter) selects(rec *journal.Record) bool {
	via := journal.Via{}
	if rec.Via != nil {
		via = *rec.Via
	}
	if f.Session != "" && rec.Session != f.Session && via.Thread != f.Session || f.Agent != "" && rec.Caller != f.Agent && via.Client != f.Agent {
		return false
	}
	ts := stamp.Parse(rec.TS)
	return ts.IsZero() || !ts.Before(f.Since)
}

// List is what was changed.
type List struct {
	around.ChangesResult
	Files []*File // by path
}

// Report returns the list in the form of its readers.
func (l *List) Report() around.ChangesResult {
	out := l.ChangesResult
	out.Files, out.Groups = []around.ChangedFile{}, append([]around.ObservedGroup{}, out.Groups...)
	for _, f := range l.Files {
		out.Files = append(out.Files, f.ChangedFile)
	}
	return out
}

func observedGroup(rec *journal.Record, files int) around.ObservedGroup {
	g := around.ObservedGroup{Group: observe.GroupID(rec.Seq), Seq: rec.Seq, TS: stamp.Parse(rec.TS), Files: files, Dirs: observe.DirsIn(rec), Session: rec.Session}
	if rec.Via != nil && rec.Via.Client != around.CallerOutside {
		g.Host = rec.Via.Client
	}
	if rec.Group != nil {
		g.Calls, g.Command, g.Partial, g.Ignored = rec.Group.Calls, rec.Group.Command, rec.Group.Partial, rec.Group.Ignored
		g.Ambiguous = len(g.Calls) > 1
	}
	return g
}

// Stage puts the listed changes, which must have their lines, into the index of the
// repository in root.
func (l *List) Stage(ctx context.Context, root string) (around.StageResult, error) {
	out := around.StageResult{Staged: []string{}, Already: []string{}, Skipped: []around.SkippedFile{}}
	var nets []*hunks.Net
	for _, f := range l.Files {
		switch {
		case f.Omitted != "":
			out.Skipped = append(out.Skipped, around.SkippedFile{Path: f.Path, Reason: f.Omitted})
		case f.net != nil && !f.net.Same():
			nets = append(nets, f.net)
		}
	}
	if len(nets) == 0 {
		return out, nil
	}
	done, err := hunks.Stage(ctx, root, nets)
	if err != nil {
		return out, err
	}
	out.Skipped = append(out.Skipped, done.Skipped...)
	out.Staged, out.Already = append(out.Staged, done.Staged...), append(out.Already, done.Already...)
	return out, nil
}

// File is a file and what all changes together made of it.
type File struct {
	around.ChangedFile
	net *hunks.Net // without what others changed; only with Filter.Hunks

	sha, prevSHA   string // as the journal has them; "" for none
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
		err = l.lines(ctx, rows, out.Files)
	}
	return out, err
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
			f = &File{sha: m.PrevSHA256, prevSHA: m.PrevSHA256, prevMode: m.ModeBefore()}
			f.Path, f.Callers = m.Identity(), []string{}
			files[f.Path] = f
		}
		f.Conflict = f.Conflict || f.sha != m.PrevSHA256
		f.sha, f.Bytes, f.Seq, f.mode, f.Link = m.SHA256, m.Bytes, rec.Seq, m.Mode, m.Link()
		f.Changes++
		if !slices.Contains(f.Callers, rec.Caller) {
			f.Callers = append(f.Callers, rec.Caller)
		}
	}
	switch observed := rec.Kind == journal.KindObserved; {
	case found == 0 && (!observed || len(rec.Muts) == 0):
	case observed:
		out.Observed++
		out.Groups = append(out.Groups, observedGroup(rec, found))
		if len(out.Groups) > maxRows {
			out.Groups, out.Truncated = out.Groups[1:], true
		}
	default:
		out.Commits++
		if rec.Group != nil {
			out.Executed = append(out.Executed, around.ExecutedCommand{
				Seq: rec.Seq, TS: stamp.Parse(rec.TS), Files: found, Session: rec.Session, Caller: rec.Caller, Command: rec.Group.Command,
			})
			out.Executed = out.Executed[max(0, len(out.Executed)-maxRows):]
		}
	}
}

// finish sorts and counts the files.
func (out *List) finish(files map[string]*File) {
	for _, f := range files {
		counter := &out.Changed
		switch {
		case f.prevSHA == "" && f.sha == "":
			f.Change, counter = "reverted", &out.Reverted
		case f.prevSHA == "":
			f.Change, counter = "created", &out.Created
		case f.sha == "":
			f.Change, counter = "deleted", &out.Deleted
		case f.sha != f.prevSHA || fsx.KindOf(f.mode) != fsx.KindOf(f.prevMode):
			f.Change = "changed"
		case f.prevMode != f.mode && f.prevMode != 0 && f.mode != 0:
			f.Change = "mode"
		default:
			f.Change, counter = "reverted", &out.Reverted
		}
		*counter++
		f.SHA256.UnmarshalText([]byte(f.sha)) // "" for none
		f.PrevSHA256.UnmarshalText([]byte(f.prevSHA))
		out.Files = append(out.Files, f)
	}
	slices.SortFunc(out.Files, func(a, b *File) int { return strings.Compare(a.Path, b.Path) })
	if len(out.Files) > MaxFiles {
		out.Files, out.Truncated = out.Files[:MaxFiles:MaxFiles], true
	}
}

// Take takes the content of a file, and its mode if it is created, for a mutation, and
// returns the hash of the content.
type Take func(m *engine.Mutation, src io.Reader, mode uint32) (sha string, err error)

// version is the content that a file is to get.
type version struct {
	sha      string
	size     int64
	mode     uint32              // of the file, if it is created; 0: as the mutation says
	recorded uint32              // the same, if history has the version
	by       []*journal.Mutation // that may have replaced it
}

// restored returns the mutation that gives a file another version in place of believed.
func restored(kind, path, believed string, link bool) *engine.Mutation {
	return &engine.Mutation{
		Path: path, Op: engine.OpOverwrite, Kind: kind, Force: true, AllowShrink: true, Ungated: true, Expected: &believed, ExpectJournalHash: true,
		NoFollow: true, WasLink: link,
	}
}

// take takes a version from history, or from the first other place that has it. Many
// files are read from history directly.
func (l *Layer) take(c *engine.Commit, m *engine.Mutation, v version, take Take, places ...func() (io.ReadCloser, error)) error {
	sum, ok, unread := c.TakeFile(m, func() (fsx.File, error) { return l.OpenVersion(v.sha, v.by...) })
	if unread == nil && ok {
		if m.Perm == nil && v.recorded != 0 && !l.IsThere(m.Path) {
			m.Perm = &v.recorded
		}
		if sum == v.sha {
			return nil
		}
	}
	places = append(places, func() (io.ReadCloser, error) { return l.OpenVersion(v.sha, v.by...) }) // it may have left the file for history meanwhile
	for _, place := range append([]func() (io.ReadCloser, error){func() (io.ReadCloser, error) { return l.Observed.Kept(v.sha, v.size, v.by...) }}, places...) {
		src, err := place()
		if src == nil {
			unread = cmp.Or(mayBe(err), unread)
			continue
		}
		sum, err := take(m, src, v.mode)
		src.Close()
		if err != nil || sum == v.sha {
			return err
		}
		m.DropSpooled()
	}
	return cmp.Or(mayBe(unread), error(l.Versions.NotKept(v.sha)))
}

// mayBe returns an error that says nothing of whether a version is kept; nil for others.
func mayBe(err error) error {
	if engine.IsShortage(err) || errors.Is(err, syscall.EIO) || errors.Is(err, fs.ErrPermission) {
		return err
	}
	return nil
}

// contentBefore opens what a file held before the commit seq, whose mutation is m, if a
// later version holds it: one that was left unchanged or appended to, or one under the
// name it was moved to; nil if there is none.
func (l *Layer) contentBefore(m *journal.Mutation, seq uint64) (src io.ReadCloser, err error) {
	switch {
	case m.PaySHA256 != "" || m.SHA256 == m.PrevSHA256:
		src, _, err = l.Versions.ContentAt(m.Identity(), seq, m.PrevBytes)
	case m.SHA256 == "":
		src, _, err = l.Versions.MovedContent(seq, m.Identity(), m.PrevBytes)
	}
	return src, err
}

// Whose selects commits. An empty field excludes nothing.
type Whose struct {
	Caller  string // as the commit claims
	Session string
	Origin  *journal.Via // what the adapter must have known of it
	Client  *journal.Via // the same, of the client alone
	None    bool
	Row     uint64 // this commit alone; 0: any
	Group   string // this group of observed changes alone; "": any commit
}

// WhoseOf returns the commits that a call with this caller and this session refers
// to: its own when both are empty. What the adapter knows of a commit cannot be
// claimed by another client; what the commit itself declares can.
func WhoseOf(c *engine.Commit, caller, session string) Whose {
	switch {
	case caller != "" || c.Via == nil && session != "":
		return Whose{Caller: c.Req.Caller, Session: session}
	case c.Via == nil:
		return Whose{Caller: c.Req.Caller, Session: c.Req.Session}
	case session != "":
		return Whose{Session: session, Client: c.Via, Caller: c.Req.Caller}
	}
	return Whose{Session: c.Req.Session, Origin: c.Via, None: c.Via.Thread == "" && c.Via.Connection == ""}
}

// HandedOver returns the commits that a handoff refers to: the call's own, those of the
// session that it names, or those of the caller if there is no session. session is that
// of the request.
func HandedOver(c *engine.Commit, session string) Whose {
	own := WhoseOf(c, "", "")
	switch {
	case c.Via != nil && session == "" && !own.None:
		return own
	case c.Req.Session != "":
		return Whose{Session: c.Req.Session}
	}
	return Whose{Caller: c.Req.Caller}
}

// Made reports whether a commit is selected.
func (w Whose) Made(rec *journal.Record) bool {
	switch {
	case w.Group != "":
		return observe.InGroup(rec, w.Group)
	case w.Row != 0:
		return rec.Seq == w.Row
	case w.None || w.Session != "" && rec.Session != w.Session:
		return false
	case w.Origin != nil:
		return sameOrigin(rec.Via, w.Origin)
	case w.Client != nil && rec.Via != nil:
		return rec.Via.Client == w.Client.Client
	}
	return w.Caller == "" || rec.Caller == w.Caller
}

// sameOrigin reports whether an adapter recorded the same origin for a commit and
// a call: the same client in the same thread or, if the host names none, over the
// same connection.
func sameOrigin(commit, call *journal.Via) bool {
	return commit != nil && commit.Client == call.Client && commit.Thread == call.Thread &&
		(call.Thread != "" || commit.Connection == call.Connection)
}

// Itself returns a function that reports whether a commit was made by the caller of
// this call, under the given name. Without an adapter only the name is compared. With
// an adapter that knows neither thread nor connection, no commit matches.
func Itself(via *journal.Via, caller string) func(*journal.Record) bool {
	return func(rec *journal.Record) bool {
		switch {
		case rec.Caller != caller:
			return false
		case via == nil:
			return rec.Via == nil
		}
		return (via.Thread != "" || via.Connection != "") && sameOrigin(rec.Via, via)
	}
}
