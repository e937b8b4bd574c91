package resilientwrite

import (
	"context"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/changes"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/hunks"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/lease"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
	"github.com/resilientwrite/resilientwrite/internal/scan"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// CallerOutside is the caller of changes that other programs made.
const CallerOutside = observe.Caller

// ScanRequest asks for the changes that other programs made since the last scan.
// What it says of a tool call is recorded with them: they were made during the
// call, which does not prove that it made them.
type ScanRequest struct {
	// Name of the working session; recorded in the journal.
	Session string `json:"session,omitempty"`
	Host    string `json:"host,omitempty"` // Name of the program that runs the tool calls.
	// Identifiers of the tool calls that were open since the last scan. With
	// several it is not known which of them made a change.
	Calls []string `json:"calls,omitempty"`
	// Command line of the call. Secrets in it are replaced.
	Command string `json:"command,omitempty"`
	// Time after which no more files are read; what is left is found by the next
	// scan. 0: no limit.
	Within time.Duration `json:"-"`
}

// ScanResult reports what a scan found.
type ScanResult struct {
	// Identifier of the group of changes, for [Store.Undo]; empty without changes.
	Group string `json:"group,omitempty"`
	Seq   uint64 `json:"seq,omitempty"` // Journal row of the group.
	// Number of changes of each kind.
	Created int `json:"created"`
	Changed int `json:"changed"`
	Deleted int `json:"deleted"`
	Moved   int `json:"moved"`
	Modes   int `json:"modes"`
	// The changed files, in the order of their paths; at most 1000.
	Files []ObservedFile `json:"files"`
	// Directories that were made, removed, or got another mode; at most 1000.
	Dirs []ObservedDir `json:"dirs,omitempty"`
	// What the gate found in the new bytes and not in those before. Nothing was
	// reverted.
	Findings []ObservedFinding `json:"findings"`
	// Files that another session had claimed and that were changed anyway.
	Claimed []ClaimedFile `json:"claimed,omitempty"`
	// True when no scan was made before: what is in the workspace counts as known.
	Baseline bool `json:"baseline,omitempty"`
	// True when the time did not suffice. The next scan finds the rest.
	Partial bool `json:"partial,omitempty"`
	Watched int  `json:"watched"` // Files whose changes are recorded.
	Read    int  `json:"read"`    // Files that had to be read.
	// Changed files of which history has no copy, because they are too large or
	// the disk is nearly full.
	NotKept []string `json:"not_kept,omitempty"`
	// True when less than 5 % of the disk are free: then no bytes are kept, only
	// hashes.
	DiskLow bool `json:"disk_low,omitempty"`
	// Files that were being written; the next scan finds them.
	Busy []string `json:"busy,omitempty"`
	// Files that could not be read, or whose names the journal cannot hold.
	Skipped []string `json:"skipped,omitempty"`
	Unseen  []string `json:"unseen,omitempty"` // Directories that could not be read.
	// Directories that git ignores and that changed. Their files are not kept.
	Ignored []string `json:"ignored,omitempty"`

	index *observe.Index
}

// Directories are those that the scan entered, by their paths, in order; the
// workspace itself is "". A program that watches them learns of every change that
// a scan would find.
func (r ScanResult) Directories() []string { return r.index.Directories() }

// ObservedFile is one change that another program made.
type ObservedFile struct {
	Path string `json:"path"`           // Path relative to the workspace.
	Op   string `json:"op"`             // The change: create, overwrite, delete, move or chmod.
	From string `json:"from,omitempty"` // Previous path of a file that was moved.
	// SHA-256 afterwards and before; empty for a file that is not there.
	SHA256     Digest `json:"sha256"`
	PrevSHA256 Digest `json:"prev_sha256"`
	Bytes      int64  `json:"bytes"` // Size afterwards in bytes.
	// True when a symbolic link is there afterwards. Its content is its target.
	Link bool `json:"link,omitempty"`
}

// ObservedDir is a change of a directory itself. Undoing it removes a directory only
// if it is empty.
type ObservedDir struct {
	Path   string `json:"path"`                               // Path relative to the workspace.
	Change string `json:"change" enum:"created,deleted,mode"` // created, deleted or mode.
}

// ObservedFinding is one thing that the gate found in bytes that another program
// wrote.
type ObservedFinding struct {
	Path string `json:"path"` // Path relative to the workspace.
	// Family and rule of the finding.
	Kind       string `json:"kind"`
	Pattern    string `json:"pattern"`
	Line       int    `json:"line"`       // Line of its start, from 1.
	Confidence string `json:"confidence"` // confirmed, likely or info.
	// The same for the same secret, in whatever file; it does not contain it.
	Fingerprint string `json:"fingerprint"`
}

// Scan compares every file of the workspace with the state found by the last
// scan, and records what other programs changed: as one row of the journal, of
// kind observed, whose group [Store.Undo] undoes as a whole. New bytes become
// versions, which [Store.History], [Store.Diff] and [Store.Restore] handle like
// any other. Files that git ignores are not recorded, except single files of at
// most 1 MiB outside ignored directories; of files above 8 MiB only the hash is
// recorded. A symbolic link is recorded as such, with its target as its content;
// special files are not recorded. The first scan records the current files as
// known.
//
// Files are identified by size, time stamps, inode and mode, so that only those
// that differ are read. Nothing in the workspace is changed. Errors: the storage
// details, [ErrCanceled], [ErrLockTimeout], [ErrStoreReadOnly], [ErrStoreClosed].
func (s *Store) Scan(ctx context.Context, r ScanRequest) (ScanResult, error) {
	out, _, err := s.scan(ctx, r, nil)
	if err != nil {
		return out, s.verbError("scan", err)
	}
	out.Claimed = claimedFiles(s.claimed(out, r.Session))
	return out, nil
}

// scan is [Store.Scan]. If pend is not nil, it is called with the findings before
// the row is written.
func (s *Store) scan(ctx context.Context, r ScanRequest, pend func([]observe.Finding) error) (out ScanResult, _ *observe.Index, err error) {
	out = scanResult(&observe.Result{})
	if err := s.engine.Enter(); err != nil {
		return out, nil, err
	}
	defer s.engine.Leave()
	if e := checkLabels(r.Host, r.Session, ""); e != nil {
		return out, nil, e
	}
	if len(r.Calls) > observe.MaxCalls {
		return out, nil, fault.New(fault.InvalidArgument).With("argument", "calls").Hintf("give at most %d calls", observe.MaxCalls)
	}
	req := observe.Request{
		Session: r.Session, Host: asLabel(s.safeText(r.Host)), Command: s.commandText(r.Command),
		Capture: observe.Capture(s.policy().File.Capture), Recording: pend,
	}
	for _, call := range r.Calls {
		req.Calls = append(req.Calls, asLabel(s.safeText(call)))
	}
	if r.Within > 0 {
		req.Until = time.Now().Add(r.Within)
	}
	if s.gateFor(ctx).Mode != GateOff {
		bounded := s.bounded(ctx)
		req.Inspect = func(path string, data []byte, before func() []byte) []scan.Finding {
			return s.gate.Fresh(bounded, path, data, before)
		}
	}
	res, err := s.observed.Scan(ctx, req)
	if ctx.Err() != nil {
		err = fault.New(fault.Canceled).Because(ctx.Err())
	}
	if err != nil {
		return out, nil, err
	}
	return scanResult(&res), res.Index, nil
}

func scanResult(res *observe.Result) ScanResult {
	out := ScanResult{
		Seq: res.Seq, Created: res.Created, Changed: res.Changed, Deleted: res.Deleted, Moved: res.Moved, Modes: res.Modes,
		Files: []ObservedFile{}, Findings: []ObservedFinding{}, Baseline: res.Baseline, Partial: res.Partial, Watched: res.Watched, Read: res.Read,
		NotKept: res.Unkept, DiskLow: res.Low, Busy: res.Busy, Skipped: res.Skipped, Unseen: res.Unseen, Ignored: res.Ignored, index: res.Index,
	}
	if res.Seq > 0 {
		out.Group = observe.GroupID(res.Seq)
	}
	for _, m := range res.Files {
		out.Files = append(out.Files, ObservedFile{m.Path, m.Op, m.From, digest(m.SHA256), digest(m.PrevSHA256), m.Bytes, m.Link()})
	}
	for _, d := range res.Dirs {
		out.Dirs = append(out.Dirs, ObservedDir(d))
	}
	for _, f := range res.Findings {
		out.Findings = append(out.Findings, ObservedFinding(f))
	}
	return out
}

// claimed returns those of the files of a scan that another session than these has
// claimed.
func (s *Store) claimed(out ScanResult, sessions ...string) []lease.File {
	var paths []string
	for _, f := range out.Files {
		paths = append(paths, f.Path, f.From)
	}
	return s.leases.Over(paths, sessions)
}

// ChangesRequest asks what was changed: by a session, by an agent, since a time,
// or all of these. Without any it is everything that the journal holds.
type ChangesRequest struct {
	// Name of the session, or of the conversation as its host names it.
	Session  string    `json:"session,omitempty"`
	Agent    string    `json:"agent,omitempty"` // Name of the caller or of the client.
	Since    time.Time `json:"-"`               // Only later changes.
	AfterSeq uint64    `json:"-"`               // Only rows after this one.
	// Hunks has the changed lines listed, without those that others changed
	// meanwhile.
	Hunks bool `json:"-"`
}

// ChangesResult lists the changed files.
type ChangesResult struct {
	// Number of files that are there now and were not before, that have another
	// content or mode, and that are gone.
	Created  int `json:"created"`
	Changed  int `json:"changed"`
	Deleted  int `json:"deleted"`
	Reverted int `json:"reverted"` // Number of files that were changed and are as they were before.
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
	FileChange `json:",inline"` // from before the first change until now

	Changes int      `json:"changes"` // Number of changes.
	Callers []string `json:"callers"` // Who made them; outside means other programs.
	Seq     uint64   `json:"seq"`     // The newest row.
	// True when the first of the changes was made to other content than the one
	// that the journal had recorded last, or one between them did.
	Conflict bool `json:"conflict,omitempty"`
	// The changed lines, and the same as git apply takes it; only when asked for.
	Hunks []ChangedHunk `json:"hunks,omitempty"`
	Patch string        `json:"patch,omitempty"`
	// Why there are no hunks although they were asked for.
	Omitted string `json:"omitted,omitempty" enum:"overlap,binary,link,too_large,not_kept"`

	net *hunks.Net
}

// ObservedGroup is the changes that one scan found.
type ObservedGroup struct {
	Group string    `json:"group"` // Identifier for [Store.Undo].
	Seq   uint64    `json:"seq"`   // Journal row.
	TS    time.Time `json:"ts"`    // When the scan ended, RFC 3339 UTC.
	Files int       `json:"files"` // Number of changed files.
	// Directories that were made, removed, or got another mode; at most 1000.
	Dirs []ObservedDir `json:"dirs,omitempty"`
	// Name of the session and of the program that ran the calls.
	Session string   `json:"session,omitempty"`
	Host    string   `json:"host,omitempty"`
	Calls   []string `json:"calls,omitempty"` // The tool calls that were open.
	// True when several were, so that it is not known which made the changes.
	Ambiguous bool   `json:"ambiguous,omitempty"`
	Command   string `json:"command,omitempty"` // Command line of the call, without secrets.
	Partial   bool   `json:"partial,omitempty"` // True when the scan could not see everything.
	// Ignored directories that changed and are not kept.
	Ignored []string `json:"ignored,omitempty"`
}

// ExecutedCommand is a command whose changes are one commit.
type ExecutedCommand struct {
	Seq   uint64    `json:"seq"`   // Journal row, for [Store.Undo].
	TS    time.Time `json:"ts"`    // When, RFC 3339 UTC.
	Files int       `json:"files"` // Number of changed files.
	// Name of the session and of the caller.
	Session string `json:"session,omitempty"`
	Caller  string `json:"caller,omitempty"`
	Command string `json:"command"` // Command line, without secrets.
}

// Changes lists the files that were changed, with the net change of each,
// including changes that other programs made and a [Store.Scan] found. It reads
// only the journal; scan first to include changes since the last scan. Errors:
// [ErrInvalidArgument], the storage details, [ErrStoreClosed].
func (s *Store) Changes(ctx context.Context, r ChangesRequest) (ChangesResult, error) {
	if err := s.engine.EnterReader(); err != nil {
		return changesResult(&changes.List{}), s.verbError("changes", err)
	}
	defer s.engine.Leave()
	list, err := &changes.List{}, error(nil)
	if e := checkLabels(r.Agent, r.Session, ""); e != nil {
		err = e
	} else if s.engine.Log != nil {
		list, err = s.changes().List(ctx, changes.Filter(r))
	}
	if err != nil {
		return changesResult(&changes.List{}), s.verbError("changes", err)
	}
	return changesResult(list), nil
}

// changes returns the reader of what was changed.
func (s *Store) changes() *changes.Layer {
	return &changes.Layer{Engine: s.engine, Versions: s.versions, Observed: s.observed, Folds: s.gate.Folds}
}

func changesResult(l *changes.List) ChangesResult {
	out := ChangesResult{
		Created: l.Created, Changed: l.Changed, Deleted: l.Deleted, Reverted: l.Reverted, Commits: l.Commits, Observed: l.Observed,
		Files: []ChangedFile{}, Groups: []ObservedGroup{}, Truncated: l.Truncated,
	}
	for _, f := range l.Files {
		c := ChangedFile{
			FileChange: FileChange{f.Path, f.Change, digest(f.SHA), digest(f.PrevSHA), f.Bytes, f.Link},
			Changes:    f.Changes, Callers: f.Callers, Seq: f.Seq, Conflict: f.Conflict, Patch: f.Patch, Omitted: f.Omitted, net: f.Net,
		}
		if f.Net != nil {
			c.Hunks = []ChangedHunk{}
		}
		for _, h := range f.Hunks {
			c.Hunks = append(c.Hunks, ChangedHunk{h.From + 1, h.To - h.From, h.NewFrom + 1, h.NewTo - h.NewFrom})
		}
		out.Files = append(out.Files, c)
	}
	for _, rec := range l.Groups {
		out.Groups = append(out.Groups, observedGroup(rec.Record, rec.Files))
	}
	for _, rec := range l.Executed {
		out.Executed = append(out.Executed, ExecutedCommand{rec.Seq, stamp.Parse(rec.TS), rec.Files, rec.Session, rec.Caller, rec.Group.Command})
	}
	return out
}

func observedGroup(rec *journal.Record, files int) ObservedGroup {
	g := ObservedGroup{Group: observe.GroupID(rec.Seq), Seq: rec.Seq, TS: stamp.Parse(rec.TS), Files: files, Session: rec.Session}
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

// ChangedHunk is lines that were changed.
type ChangedHunk struct {
	// First line, from 1, and number of lines without the change.
	Line  int `json:"line"`
	Lines int `json:"lines"`
	// The same in the newest version that has the change.
	NewLine  int `json:"new_line"`
	NewLines int `json:"new_lines"`
}

// The reasons why a file has no hunks, or is not staged.
const (
	HunksOverlap  = "overlap"   // others changed the same lines, or the index has others
	HunksBinary   = "binary"    // it is no UTF-8 text
	HunksLink     = "link"      // it is or was a symbolic link
	HunksTooLarge = "too_large" // over 8 MiB
	HunksNotKept  = "not_kept"  // history does not have all versions
	HunksFiltered = "filtered"  // git converts its bytes, or would run a filter
	HunksIgnored  = "ignored"   // git ignores it
	HunksUnmerged = "unmerged"  // it has a conflict in the index, or is no regular file there
)

// StageResult is what was put into git's index.
type StageResult struct {
	// Files whose changes are staged now, in the order of their paths.
	Staged  []string      `json:"staged"`
	Already []string      `json:"already"` // Files whose changes were staged before.
	Skipped []SkippedFile `json:"skipped"` // Files that were left as they are, with the reason.
}

// SkippedFile is a file that was not staged.
type SkippedFile struct {
	Path string `json:"path"` // Path relative to the workspace.
	// Why.
	Reason string `json:"reason" enum:"overlap,binary,too_large,not_kept,filtered,ignored,unmerged"`
}

// StageChanges puts the changes that r selects into the index of the git
// repository of the workspace, and nothing else. Changes that others made to the
// same files are omitted, other entries of the index stay, and neither the work
// tree nor a ref is changed. A file is skipped if its changes cannot be separated
// from those of others, or cannot be merged with the index. It reads only the
// journal; scan first to include changes since the last scan.
//
// Errors: [ErrInvalidArgument] where there is no repository, [ErrIOBusy] while
// another program has locked the index, the storage details, [ErrStoreClosed].
func (s *Store) StageChanges(ctx context.Context, r ChangesRequest) (StageResult, error) {
	out := StageResult{Staged: []string{}, Already: []string{}, Skipped: []SkippedFile{}}
	r.Hunks = true
	found, err := s.Changes(ctx, r)
	if err != nil {
		return out, err
	}
	if err := s.engine.EnterReader(); err != nil {
		return out, s.verbError("stage", err)
	}
	defer s.engine.Leave()
	var nets []*hunks.Net
	for _, f := range found.Files {
		switch {
		case f.Omitted != "":
			out.Skipped = append(out.Skipped, SkippedFile{f.Path, f.Omitted})
		case f.net != nil && !f.net.Same():
			nets = append(nets, f.net)
		}
	}
	if len(nets) == 0 {
		return out, nil
	}
	done, err := hunks.Stage(ctx, s.engine.RealRoot, nets)
	if err != nil {
		return out, s.verbError("stage", err)
	}
	for _, f := range done.Skipped {
		out.Skipped = append(out.Skipped, SkippedFile(f))
	}
	out.Staged, out.Already = append(out.Staged, done.Staged...), append(out.Already, done.Already...)
	return out, nil
}
