package resilientwrite

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/hunks"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
)

// ChangesRequest asks what was changed: by a session, by an agent, since a time,
// or all of these. Without any it is everything that the journal holds.
type ChangesRequest struct {
	// Name of the session, or of the conversation as its host names it.
	Session string `json:"session,omitempty"`
	// Name of the caller or of the client.
	Agent string `json:"agent,omitempty"`
	// Only later changes.
	Since time.Time `json:"-"`
	// Only rows after this one.
	AfterSeq uint64 `json:"-"`
	// Hunks has the changed lines listed, without those that others changed
	// meanwhile.
	Hunks bool `json:"-"`
}

// ChangesResult lists the changed files.
type ChangesResult struct {
	// Number of files that are there now and were not before, that have another
	// content or mode, and that are gone.
	Created int `json:"created"`
	Changed int `json:"changed"`
	Deleted int `json:"deleted"`
	// Number of files that were changed and are as they were before.
	Reverted int `json:"reverted"`
	// Number of commits, and of groups of changes that other programs made.
	Commits  int `json:"commits"`
	Observed int `json:"observed"`
	// The changed files, in the order of their paths; at most 10,000.
	Files []ChangedFile `json:"files"`
	// The groups of observed changes, oldest first; the newest 1000.
	Groups []ObservedGroup `json:"groups"`
	// The commands that [Store.Exec] ran and committed, oldest first; the newest 1000.
	Executed []ExecutedCommand `json:"executed,omitempty"`
	// True when there are more files or groups.
	Truncated bool `json:"truncated,omitempty"`
}

// ChangedFile is a file and what all changes together made of it.
type ChangedFile struct {
	// Path relative to the workspace.
	Path string `json:"path"`
	// created, changed, mode, deleted or reverted.
	Change string `json:"change" enum:"created,changed,mode,deleted,reverted"`
	// SHA-256 now and before the first change; empty for a file that is not
	// there.
	SHA256     Digest `json:"sha256"`
	PrevSHA256 Digest `json:"prev_sha256"`
	// Size in bytes now.
	Bytes int64 `json:"bytes"`
	// True when a symbolic link is there now. Its content is its target.
	Link bool `json:"link,omitempty"`
	// Number of changes.
	Changes int `json:"changes"`
	// Who made them; outside means other programs.
	Callers []string `json:"callers"`
	// The newest row.
	Seq uint64 `json:"seq"`
	// True when the first of the changes came upon another content than the one
	// that the journal had recorded last, or one between them did.
	Conflict bool `json:"conflict,omitempty"`
	// The changed lines, and the same as git apply takes it; only when asked for.
	Hunks []ChangedHunk `json:"hunks,omitempty"`
	Patch string        `json:"patch,omitempty"`
	// Why there are no hunks although they were asked for.
	Omitted string `json:"omitted,omitempty" enum:"overlap,binary,link,too_large,not_kept"`

	prevMode, mode uint32
	last           string
	net            *hunks.Net
}

// ObservedGroup is the changes that one scan found.
type ObservedGroup struct {
	// Identifier for [Store.Undo].
	Group string `json:"group"`
	// Journal row.
	Seq uint64 `json:"seq"`
	// When the scan ended, RFC 3339 UTC.
	TS string `json:"ts"`
	// Number of changed files.
	Files int `json:"files"`
	// Directories that were made, removed, or got another mode; at most 1000.
	Dirs []ObservedDir `json:"dirs,omitempty"`
	// Name of the session and of the program that ran the calls.
	Session string `json:"session,omitempty"`
	Host    string `json:"host,omitempty"`
	// The tool calls that were open.
	Calls []string `json:"calls,omitempty"`
	// True when several were, so that it is not known which made the changes.
	Ambiguous bool `json:"ambiguous,omitempty"`
	// Command line of the call, without secrets.
	Command string `json:"command,omitempty"`
	// True when the scan could not see everything.
	Partial bool `json:"partial,omitempty"`
	// Ignored directories that changed and are not kept.
	Ignored []string `json:"ignored,omitempty"`
}

// ExecutedCommand is a command whose changes are one commit.
type ExecutedCommand struct {
	// Journal row, for [Store.Undo].
	Seq uint64 `json:"seq"`
	// When, RFC 3339 UTC.
	TS string `json:"ts"`
	// Number of changed files.
	Files int `json:"files"`
	// Name of the session and of the caller.
	Session string `json:"session,omitempty"`
	Caller  string `json:"caller,omitempty"`
	// Command line, without secrets.
	Command string `json:"command"`
}

const (
	maxChangedFiles = 10_000
	maxGroups       = 1000
)

// Changes lists the files that were changed, with the net change of each,
// including changes that other programs made and a [Store.Scan] found. It reads
// only the journal; scan first to include changes since the last scan. Errors:
// [ErrInvalidArgument], the storage details, [ErrStoreClosed].
func (s *Store) Changes(ctx context.Context, r ChangesRequest) (ChangesResult, error) {
	out := ChangesResult{Files: []ChangedFile{}, Groups: []ObservedGroup{}}
	if err := s.engine.EnterReader(); err != nil {
		return out, s.verbError("changes", err)
	}
	defer s.engine.Leave()
	if e := checkLabels(r.Agent, r.Session, ""); e != nil {
		return out, s.verbError("changes", e)
	}
	if s.engine.Log == nil {
		return out, nil
	}
	if err := s.listChanges(ctx, r, &out); err != nil {
		return ChangesResult{Files: []ChangedFile{}, Groups: []ObservedGroup{}}, s.verbError("changes", err)
	}
	return out, nil
}

func (s *Store) listChanges(ctx context.Context, r ChangesRequest, out *ChangesResult) error {
	if err := s.engine.Log.CatchUp(); err != nil && !s.opts.ReadOnly {
		return err
	}
	aborted := map[uint64]bool{}
	var recs, others []*journal.Record
	err := s.engine.Log.Range(r.AfterSeq+1, func(rec *journal.Record, _ journal.Pos) error {
		if ctx.Err() != nil {
			return fault.New(fault.Canceled).Because(ctx.Err())
		}
		if rec.Kind == journal.KindAbort {
			aborted[rec.Ref] = true
		}
		if rec.Kind == journal.KindCommit || rec.Kind == journal.KindObserved {
			if r.wants(rec) {
				recs = append(recs, rec)
			} else if r.Hunks && len(recs) > 0 {
				others = append(others, rec)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	files := map[string]*ChangedFile{}
	for _, rec := range recs {
		if !aborted[rec.Seq] {
			out.take(rec, files)
		}
	}
	out.finish(files)
	if !r.Hunks {
		return nil
	}
	net := s.newNetting(ctx)
	all := append(slices.Clone(recs), others...)
	slices.SortFunc(all, func(a, b *journal.Record) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, rec := range all {
		if !aborted[rec.Seq] {
			_, mine := slices.BinarySearchFunc(recs, rec.Seq, func(r *journal.Record, seq uint64) int { return cmp.Compare(r.Seq, seq) })
			net.take(rec, mine)
		}
	}
	net.finish(out.Files)
	return nil
}

// wants reports whether a row matches the request.
func (r ChangesRequest) wants(rec *journal.Record) bool {
	via := journal.Via{}
	if rec.Via != nil {
		via = *rec.Via
	}
	if r.Session != "" && rec.Session != r.Session && via.Thread != r.Session || r.Agent != "" && rec.Caller != r.Agent && via.Client != r.Agent {
		return false
	}
	if r.Since.IsZero() {
		return true
	}
	ts, err := time.Parse(time.RFC3339Nano, rec.TS)
	return err != nil || !ts.Before(r.Since)
}

// take adds the changes of one row.
func (out *ChangesResult) take(rec *journal.Record, files map[string]*ChangedFile) {
	found := 0
	for i := range rec.Muts {
		m := &rec.Muts[i]
		if m.Class != "" || m.ImportID != "" {
			continue
		}
		found++
		f := files[m.Identity()]
		if f == nil {
			f = &ChangedFile{Path: m.Identity(), PrevSHA256: digest(m.PrevSHA256), prevMode: m.ModeBefore(), last: m.PrevSHA256, Callers: []string{}}
			files[f.Path] = f
		}
		f.Conflict = f.Conflict || f.last != m.PrevSHA256
		f.SHA256, f.last, f.Bytes, f.Seq, f.mode, f.Link = digest(m.SHA256), m.SHA256, m.Bytes, rec.Seq, m.Mode, m.Link()
		f.Changes++
		if !slices.Contains(f.Callers, rec.Caller) {
			f.Callers = append(f.Callers, rec.Caller)
		}
	}
	if found == 0 && (rec.Kind != journal.KindObserved || len(rec.Muts) == 0) {
		return
	}
	if rec.Kind != journal.KindObserved {
		out.Commits++
		if rec.Group != nil {
			out.Executed = append(out.Executed, ExecutedCommand{rec.Seq, rec.TS, found, rec.Session, rec.Caller, rec.Group.Command})
			out.Executed = out.Executed[max(0, len(out.Executed)-maxGroups):]
		}
		return
	}
	out.Observed++
	if len(out.Groups) == maxGroups {
		out.Groups, out.Truncated = slices.Delete(out.Groups, 0, 1), true
	}
	out.Groups = append(out.Groups, observedGroup(rec, found))
}

func observedGroup(rec *journal.Record, files int) ObservedGroup {
	g := ObservedGroup{Group: observe.GroupID(rec.Seq), Seq: rec.Seq, TS: rec.TS, Files: files, Session: rec.Session}
	for _, d := range observe.DirsIn(rec) {
		g.Dirs = append(g.Dirs, ObservedDir(d))
	}
	if rec.Via != nil && rec.Via.Client != CallerOutside {
		g.Host = rec.Via.Client
	}
	if rec.Group != nil {
		g.Calls, g.Command, g.Partial, g.Ignored = rec.Group.Calls, rec.Group.Command, rec.Group.Partial, rec.Group.Ignored
		g.Ambiguous = len(g.Calls) > 1
	}
	return g
}

// finish sorts and counts the files.
func (out *ChangesResult) finish(files map[string]*ChangedFile) {
	for _, f := range files {
		switch {
		case f.PrevSHA256.IsZero() && f.SHA256.IsZero():
			f.Change = "reverted"
		case f.PrevSHA256.IsZero():
			f.Change = "created"
		case f.SHA256.IsZero():
			f.Change = "deleted"
		case f.SHA256 != f.PrevSHA256 || fsx.KindOf(f.mode) != fsx.KindOf(f.prevMode):
			f.Change = "changed"
		case f.prevMode != f.mode && f.prevMode != 0 && f.mode != 0:
			f.Change = "mode"
		default:
			f.Change = "reverted"
		}
		switch f.Change {
		case "created":
			out.Created++
		case "deleted":
			out.Deleted++
		case "reverted":
			out.Reverted++
		default:
			out.Changed++
		}
		out.Files = append(out.Files, *f)
	}
	slices.SortFunc(out.Files, func(a, b ChangedFile) int { return strings.Compare(a.Path, b.Path) })
	if len(out.Files) > maxChangedFiles {
		out.Files, out.Truncated = out.Files[:maxChangedFiles:maxChangedFiles], true
	}
}
