package resilientwrite

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/gate"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
	"github.com/resilientwrite/resilientwrite/internal/scan"
)

// CallerOutside is the caller of changes that other programs made.
const CallerOutside = observe.Caller

// ScanRequest asks for the changes that other programs made since the last scan.
// What it says of a tool call is recorded with them: they were made during the
// call, which does not prove that it made them.
type ScanRequest struct {
	// Name of the working session; recorded in the journal.
	Session string `json:"session,omitempty"`
	// Name of the program that runs the tool calls.
	Host string `json:"host,omitempty"`
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
	// Journal row of the group.
	Seq uint64 `json:"seq,omitempty"`
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
	// Files whose changes are recorded.
	Watched int `json:"watched"`
	// Files that had to be read.
	Read int `json:"read"`
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
	// Directories that could not be read.
	Unseen []string `json:"unseen,omitempty"`
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
	// Path relative to the workspace.
	Path string `json:"path"`
	// The change: create, overwrite, delete, move or chmod.
	Op string `json:"op"`
	// Previous path of a file that was moved.
	From string `json:"from,omitempty"`
	// SHA-256 afterwards and before; empty for a file that is not there.
	SHA256     Digest `json:"sha256"`
	PrevSHA256 Digest `json:"prev_sha256"`
	// Size afterwards in bytes.
	Bytes int64 `json:"bytes"`
	// True when a symbolic link is there afterwards. Its content is its target.
	Link bool `json:"link,omitempty"`
}

// ObservedDir is a change of a directory itself. Undoing it removes a directory only
// if it is empty.
type ObservedDir struct {
	// Path relative to the workspace.
	Path string `json:"path"`
	// created, deleted or mode.
	Change string `json:"change" enum:"created,deleted,mode"`
}

// observedDirs returns the directories of a row.
func observedDirs(rec *journal.Record) (list []ObservedDir) {
	change := map[string]string{"mkdir": "created", "rmdir": "deleted", "chmod": "mode"}
	for i := range rec.Muts {
		if d, ok := rec.Muts[i].Directory(); ok && len(list) < maxObserved {
			list = append(list, ObservedDir{d.Path, change[engine.DirectoryOp(&d)]})
		}
	}
	return list
}

// ObservedFinding is one thing that the gate found in bytes that another program
// wrote.
type ObservedFinding struct {
	// Path relative to the workspace.
	Path string `json:"path"`
	// Family and rule of the finding.
	Kind    string `json:"kind"`
	Pattern string `json:"pattern"`
	// Line of its start, from 1.
	Line int `json:"line"`
	// confirmed, likely or info.
	Confidence string `json:"confidence"`
	// The same for the same secret, in whatever file; it does not contain it.
	Fingerprint string `json:"fingerprint"`
}

const (
	maxObserved = 1000 // files and findings of one reply
	maxCommand  = observe.MaxCommand
	maxCalls    = observe.MaxCalls
)

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
		return ScanResult{Files: []ObservedFile{}, Findings: []ObservedFinding{}}, s.verbError("scan", err)
	}
	return out, nil
}

// scan is [Store.Scan]. If pend is not nil, it is called with the findings before
// the row is written.
func (s *Store) scan(ctx context.Context, r ScanRequest, pend func([]ObservedFinding) error) (ScanResult, *observe.Index, error) {
	if err := s.engine.Enter(); err != nil {
		return ScanResult{}, nil, err
	}
	defer s.engine.Leave()
	if e := checkLabels(r.Host, r.Session, ""); e != nil {
		return ScanResult{}, nil, e
	}
	if len(r.Calls) > maxCalls {
		return ScanResult{}, nil, fault.New(fault.InvalidArgument).With("argument", "calls").Hintf("give at most %d calls", maxCalls)
	}
	found := &inspection{s: s, ctx: s.bounded(ctx)}
	req := s.observing(r)
	if s.gateFor(ctx).Mode != GateOff {
		req.Inspect = found.look
		req.Recording = func() error {
			found.sort()
			if pend == nil || len(found.list) == 0 {
				return nil
			}
			return pend(found.list)
		}
	}
	res, err := s.observed.Scan(ctx, req)
	if ctx.Err() != nil {
		err = fault.New(fault.Canceled).Because(ctx.Err())
	}
	if err != nil {
		return ScanResult{}, nil, err
	}
	out := scanResult(res, found)
	out.Claimed = s.claimedOf(out.Files, r.Session)
	return out, res.Index, nil
}

// observing returns the scan request for package observe, without secrets.
func (s *Store) observing(r ScanRequest) observe.Request {
	req := observe.Request{Session: r.Session, Via: &journal.Via{Client: asLabel(s.safeText(r.Host)), Thread: r.Session}}
	req.Capture = observe.Capture(s.policy().File.Capture)
	if r.Within > 0 {
		req.Until = time.Now().Add(r.Within)
	}
	for _, call := range r.Calls {
		req.Group.Calls = append(req.Group.Calls, asLabel(s.safeText(call)))
	}
	if len(r.Calls) == 1 {
		req.Via.Call = req.Group.Calls[0]
	}
	if r.Host == "" && len(r.Calls) == 0 {
		req.Via = &journal.Via{Client: CallerOutside}
	}
	req.Group.Command = s.commandText(r.Command)
	return req
}

// groupPrefix begins the identifier of a group. The number of the row follows.
const groupPrefix = "obs_"

func groupID(seq uint64) string { return fmt.Sprint(groupPrefix, seq) }

func scanResult(res observe.Result, found *inspection) ScanResult {
	out := ScanResult{
		Files: []ObservedFile{}, Findings: []ObservedFinding{}, Baseline: res.Baseline, Partial: res.Partial, Watched: res.Files, Read: res.Read,
		NotKept: res.Unkept, DiskLow: res.Low, Busy: res.Busy, Skipped: res.Skipped, Unseen: res.Unseen, Ignored: res.Ignored, index: res.Index,
	}
	if res.Rec == nil {
		return out
	}
	out.Seq, out.Group, out.Dirs = res.Rec.Seq, groupID(res.Rec.Seq), observedDirs(res.Rec)
	recorded := map[string]bool{}
	for i := range res.Rec.Muts {
		m := &res.Rec.Muts[i]
		if m.Class != "" {
			continue
		}
		recorded[m.Path] = true
		switch {
		case m.Op == "create":
			out.Created++
		case m.Op == "overwrite":
			out.Changed++
		case m.Op == "delete":
			out.Deleted++
		case m.Op == "chmod":
			out.Modes++
		case m.From != "":
			out.Moved++
		default:
			continue // the old name of a move
		}
		if len(out.Files) < maxObserved {
			out.Files = append(out.Files, ObservedFile{m.Path, m.Op, m.From, digest(m.SHA256), digest(m.PrevSHA256), m.Bytes, m.Link()})
		}
	}
	for _, f := range found.list {
		if recorded[f.Path] && len(out.Findings) < maxObserved {
			out.Findings = append(out.Findings, f)
		}
	}
	return out
}

// inspection collects what the gate finds in the files of a scan.
type inspection struct {
	s    *Store
	ctx  context.Context
	mu   sync.Mutex
	list []ObservedFinding
}

func (in *inspection) sort() {
	slices.SortFunc(in.list, func(a, b ObservedFinding) int { return cmp.Or(strings.Compare(a.Path, b.Path), a.Line-b.Line) })
}

// look scans the bytes of one file and omits findings that the version before
// had, if history has that version.
func (in *inspection) look(path string, data []byte, prev string) {
	p := in.s.policy()
	opt := p.Options(path)
	opt.Context = in.ctx
	var now []scan.Finding
	var seen gate.Fingerprints
	opt.Each = func(x scan.Finding) {
		seen.Add(x)
		if len(now) < gate.MaxListed {
			now = append(now, x)
		}
	}
	p.Scanner.Score(data, opt)
	if len(now) == 0 {
		return
	}
	if f, err := in.s.keptContent(prev, observe.MaxFile); err == nil && f != nil {
		if before, err := io.ReadAll(f); err == nil {
			opt.Each = seen.Mark
			p.Scanner.Score(before, opt)
		}
		f.Close()
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, x := range now {
		if !seen.Marked(x) && !x.Placeholder && len(in.list) < 10*maxObserved {
			in.list = append(in.list, ObservedFinding{path, x.Family, x.Pattern, x.Line, string(x.Confidence), fmt.Sprintf("%x", x.Fingerprint[:8])})
		}
	}
}

// observedIn reports whether a row belongs to the group that an identifier names:
// that of the row, or that of a tool call.
func (w whose) observedIn(rec *journal.Record) bool {
	if rec.Kind != journal.KindObserved {
		return false
	}
	return groupID(rec.Seq) == w.group || rec.Group != nil && slices.Contains(rec.Group.Calls, w.group)
}

// checkGroup refuses a group that belongs to several calls if it is named by one
// of them.
func (w whose) checkGroup(recs []*journal.Record) error {
	for _, rec := range recs {
		if rec.Group != nil && len(rec.Group.Calls) > 1 && groupID(rec.Seq) != w.group {
			return fault.New(fault.InvalidArgument).With("argument", "group").With("calls", rec.Group.Calls).
				Hintf("the changes were made while several calls were open; pass %s to undo all of them", groupID(rec.Seq))
		}
	}
	return nil
}

// gitContent opens the git object that has the bytes of the file according to a
// scan; nil if git does not have it.
func gitContent(git *observe.Git, path, object string) (io.ReadCloser, error) {
	if object == "" {
		return nil, nil
	}
	data, err := git.Read(engine.ParentOf(path), object)
	if err != nil {
		return nil, nil
	}
	return io.NopCloser(bytes.NewReader(data)), nil
}
