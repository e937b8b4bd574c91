// Package around defines what a store reports besides its own writes: changes
// that other programs made, the tool calls during which they were made,
// snapshots, the origin of lines, and claims. Names such as Undo and
// ErrVersionNotKept are those of the root package.
package around

import (
	"time"

	"github.com/resilientwrite/resilientwrite/call"
)

// CallerOutside is the caller of changes that other programs made.
const CallerOutside = "outside"

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
	// Identifier of the group of changes, for Undo; empty without changes.
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
	// True when less than 5 % of the disk and less than 10 GiB are free: then no
	// bytes are kept, only hashes.
	DiskLow bool `json:"disk_low,omitempty"`
	// Files that were being written; the next scan finds them.
	Busy []string `json:"busy,omitempty"`
	// Files that could not be read, or whose names the journal cannot hold.
	Skipped []string `json:"skipped,omitempty"`
	Unseen  []string `json:"unseen,omitempty"` // Directories that could not be read.
	// Directories that git ignores and that changed. Their files are not kept.
	Ignored []string `json:"ignored,omitempty"`

	// Directories returns those that the scan entered, by their paths, in order; the
	// workspace itself is "". A program that watches them learns of every change that
	// a scan would find.
	Directories func() []string `json:"-"`
}

// ObservedFile is one change that another program made.
type ObservedFile struct {
	Path string `json:"path"`           // Path relative to the workspace.
	Op   string `json:"op"`             // The change: create, overwrite, delete, move or chmod.
	From string `json:"from,omitempty"` // Previous path of a file that was moved.
	// SHA-256 afterwards and before; empty for a file that is not there.
	SHA256     call.Digest `json:"sha256"`
	PrevSHA256 call.Digest `json:"prev_sha256"`
	Bytes      int64       `json:"bytes"` // Size afterwards in bytes.
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
	// The commands that Exec ran and committed, oldest first; the newest 1000.
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
	// True when the file was changed between two of the changes, and that change is
	// not one of them.
	Conflict bool `json:"conflict,omitempty"`
	// The changed lines, and the same as git apply takes it; only when asked for.
	Hunks []ChangedHunk `json:"hunks,omitempty"`
	Patch string        `json:"patch,omitempty"`
	// Why there are no hunks although they were asked for.
	Omitted string `json:"omitted,omitempty" enum:"overlap,binary,link,too_large,not_kept"`
}

// ObservedGroup is the changes that one scan found.
type ObservedGroup struct {
	Group string    `json:"group"` // Identifier for Undo.
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
	Seq   uint64    `json:"seq"`   // Journal row, for Undo.
	TS    time.Time `json:"ts"`    // When, RFC 3339 UTC.
	Files int       `json:"files"` // Number of changed files.
	// Name of the session and of the caller.
	Session string `json:"session,omitempty"`
	Caller  string `json:"caller,omitempty"`
	Command string `json:"command"` // Command line, without secrets.
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
	HunksUnmerged = "unmerged"  // in the index it has a conflict, is no regular file, or has skip-worktree or assume-unchanged
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

// ToolCall is a call of a tool of another program, such as a shell command,
// during which files may change.
type ToolCall struct {
	ID      string        // identifier of the call; empty in EndCall: every open call of the session
	Host    string        // name of the program that runs it
	Session string        // name of its session
	Event   string        // what the host says; shown as its newest event
	Command string        // command line; secrets in it are replaced
	Within  time.Duration // see [ScanRequest]

	// The host gives calls no identifier, and ID is the same for equal ones: the
	// store makes them distinct. EndCall ends the oldest that is open.
	Alike bool

	// Report, if not nil, is given the result of EndCall before its findings count as
	// returned: when the process ends meanwhile, a later EndCall returns them again.
	Report func(ScanResult)
}

// CaptureStatus says which programs report their tool calls.
type CaptureStatus struct {
	Open  []CapturedCall `json:"open"`  // Tool calls that have begun and not ended.
	Hosts []CaptureHost  `json:"hosts"` // The newest event of each host.
	// True when less than 5 % of the disk and less than 10 GiB are free: then no
	// bytes of what other programs change are kept, only hashes.
	DiskLow bool `json:"disk_low,omitempty"`
}

// CapturedCall is a tool call that has begun and not ended.
type CapturedCall struct {
	ID      string    `json:"id"`                // Identifier of the call.
	Host    string    `json:"host,omitempty"`    // Program that runs it.
	Session string    `json:"session,omitempty"` // Its session.
	Command string    `json:"command,omitempty"` // Command line.
	Since   time.Time `json:"since"`             // When it began.
}

// CaptureHost is the newest event of a host.
type CaptureHost struct {
	Host  string    `json:"host"`  // Program that reports its calls.
	Event string    `json:"event"` // What it reported last.
	At    time.Time `json:"at"`    // When.
	// Seconds between the last scan for an event that saw everything and this
	// event: changes of that time may not be recorded yet. 0 when nothing is missing.
	LagSeconds float64 `json:"lag_seconds"`
}

// SnapshotRequest asks for a snapshot of the workspace.
type SnapshotRequest struct {
	Label   string `json:"label,omitempty"`   // What it is for, in a few words.
	Session string `json:"session,omitempty"` // Name of the working session.
}

// Snapshot describes the state of the workspace at one moment.
type Snapshot struct {
	ID      string    `json:"id"`                // Identifier.
	At      time.Time `json:"at"`                // When it was made, RFC 3339 UTC.
	Seq     uint64    `json:"seq"`               // Newest journal row then.
	Label   string    `json:"label,omitempty"`   // What it is for.
	Session string    `json:"session,omitempty"` // Name of the working session.
	// Commit that was checked out in the repository of the workspace.
	BaseCommit string `json:"base_commit,omitempty"`
	// Number of files, and of those whose bytes git has.
	Files   int   `json:"files"`
	FromGit int   `json:"from_git"`
	Bytes   int64 `json:"bytes"` // Size of all files in bytes.
	// Number of files whose bytes are not kept, because they are too large.
	NotKept int `json:"not_kept,omitempty"`
}

// SnapshotListRequest asks for the snapshots.
type SnapshotListRequest struct{}

// SnapshotListResult lists the snapshots, newest first.
type SnapshotListResult struct {
	Snapshots []Snapshot `json:"snapshots"`
}

// SnapshotDiffRequest asks what differs between two snapshots.
type SnapshotDiffRequest struct {
	From string `json:"from"`         // Identifier of the earlier one.
	To   string `json:"to,omitempty"` // Identifier of the later one; empty: the workspace as it is.
}

// SnapshotDiffResult lists the files that differ.
type SnapshotDiffResult struct {
	Created int `json:"created"`
	Changed int `json:"changed"`
	Deleted int `json:"deleted"`
	// The files, in the order of their paths; at most 10,000.
	Files     []FileChange `json:"files"`
	Truncated bool         `json:"truncated,omitempty"` // True when there are more.
}

// FileChange is a file that differs in two states of the workspace.
type FileChange struct {
	Path string `json:"path"` // Path relative to the workspace.
	// The change from the earlier to the later state; reverted means that there is
	// none any more.
	Change string `json:"change" enum:"created,changed,mode,deleted,reverted"`
	// SHA-256 in the later and the earlier state; empty for a file that is not
	// there.
	SHA256     call.Digest `json:"sha256"`
	PrevSHA256 call.Digest `json:"prev_sha256"`
	Bytes      int64       `json:"bytes"` // Size in the later state, in bytes.
	// True for a symbolic link in the later state. Its content is its target.
	Link bool `json:"link,omitempty"`
}

// BlameRequest asks who wrote the lines of a file.
type BlameRequest struct {
	Path string `json:"path" required:"true"` // Path of the file, relative to the workspace.
	// The newest version with this content, in place of the file as it is.
	SHA256 call.Digest `json:"sha256,omitzero"`
}

// BlameResult says who wrote the lines of a file.
type BlameResult struct {
	Path   string      `json:"path"`   // Path of the file, relative to the workspace.
	SHA256 call.Digest `json:"sha256"` // SHA-256 of the file.
	Lines  []BlameLine `json:"lines"`  // The lines of the file as it is.
	// The calls and groups that changed the file, newest first, those included of
	// which no line is left.
	Calls []BlameCall `json:"calls"`
	// False when the content of a version is not kept, or there are more than
	// 1000: lines that came before have no row.
	Complete bool `json:"complete"`
}

// BlameLine is a line of a file.
type BlameLine struct {
	Line int    `json:"line"` // Number, from 1.
	Row  uint64 `json:"row"`  // Journal row of the change that wrote it; 0 where that is not known.
	// True when no row records the change: the file was changed since by another
	// program, and no scan has seen it.
	Unrecorded bool   `json:"unrecorded,omitempty"`
	Text       string `json:"text"` // The line, without its end.
}

// BlameCall is a change of a file.
type BlameCall struct {
	Row     uint64         `json:"row"`               // Journal row.
	Op      string         `json:"op"`                // Operation.
	TS      call.Timestamp `json:"ts"`                // When, RFC 3339 UTC.
	Caller  string         `json:"caller"`            // Who; outside means another program.
	Session string         `json:"session,omitempty"` // Working session.
	// What the adapter knew of the call: client, model, call, turn, trace.
	Via *call.Via `json:"via,omitempty"`
	// Of a change by another program: the tool calls that were open, and the
	// command line, without secrets. With several calls it is not known which of
	// them made it.
	During  []string `json:"during,omitempty"`
	Command string   `json:"command,omitempty"`
	Lines   int      `json:"lines"` // Lines of the file that it wrote.
	// Journal row of the undo or the restoration that took the change back.
	UndoneBy uint64 `json:"undone_by,omitempty"`
}

// MaxClaim is how long a claim holds unless it is renewed.
const MaxClaim = 10 * time.Minute

// Claim is paths that only the calls of one session may change for a while.
type Claim struct {
	Fence uint64 `json:"fence"` // Number of the claim: higher than that of every earlier one.
	// Session that made it.
	Session string    `json:"session"`
	Caller  string    `json:"caller,omitempty"`
	Paths   []string  `json:"paths"` // Files and directories, with everything below.
	Until   time.Time `json:"until"` // When it ends unless it is renewed.
}

// ClaimedFile is a file that a session has claimed and that another one, or
// another program, changed.
type ClaimedFile struct {
	Path    string    `json:"path"`    // Path relative to the workspace.
	Session string    `json:"session"` // Who has claimed it.
	Until   time.Time `json:"until"`   // When the claim ends.
}
