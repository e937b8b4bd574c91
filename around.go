package resilientwrite

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/blame"
	"github.com/resilientwrite/resilientwrite/internal/changes"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/gate"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
	"github.com/resilientwrite/resilientwrite/internal/versions"
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
// that differ are read. Nothing in the workspace is changed. Errors: those of
// every write.
func (s *Store) Scan(ctx context.Context, r around.ScanRequest) (around.ScanResult, error) {
	out, _, err := s.scan(ctx, r)
	if err != nil {
		return out, s.verbError("scan", err)
	}
	out.Claimed = changes.ClaimedFiles(s.scanner(ctx).Claimed(out, r.Session))
	return out, nil
}

// scanner returns what finds the changes of other programs for one call.
func (s *Store) scanner(ctx context.Context) *changes.Scanner {
	return &changes.Scanner{Layer: s.observed, Gate: s.gate, Leases: s.leases, Inspect: s.gateFor(ctx).Mode != GateOff}
}

// scan is [Store.Scan] without the claims.
func (s *Store) scan(ctx context.Context, r around.ScanRequest) (around.ScanResult, *observe.Index, error) {
	if e := checkLabels(r.Host, r.Session, ""); e != nil {
		return around.ScanResult{}, nil, e
	}
	return s.scanner(ctx).Scan(ctx, r, nil, nil)
}

// scanAll scans, and fails if the scan did not see all changes.
func (s *Store) scanAll(ctx context.Context, session string) (*observe.Index, error) {
	found, index, err := s.scan(ctx, around.ScanRequest{Session: session})
	if err == nil && (found.Partial || len(found.Busy) > 0) {
		err = fault.New(fault.ChangedDuringWrite).With("files", found.Busy).Hintf("files of the workspace are being changed, or cannot be opened at the moment; try again")
	}
	return index, err
}

// aroundCall scans when a call begins or ends, and records that it does.
func (s *Store) aroundCall(ctx context.Context, c around.ToolCall, ends bool) (around.ScanResult, error) {
	return changing(ctx, s, "scan", func() (around.ScanResult, error) {
		scanner := s.scanner(ctx)
		return scanner.Call(ctx, scanner.Clean(c), ends)
	})
}

// Changes lists the files that were changed, with the net change of each,
// including changes that other programs made and a [Store.Scan] found. It reads
// only the journal; scan first to include changes since the last scan. Errors:
// the common ones.
func (s *Store) Changes(ctx context.Context, r around.ChangesRequest) (around.ChangesResult, error) {
	return looking(ctx, s, "changes", func() (around.ChangesResult, error) {
		list, err := s.listChanges(ctx, r)
		return list.Report(), err
	})
}

// listChanges returns the changes that r selects; with an error an empty list.
func (s *Store) listChanges(ctx context.Context, r around.ChangesRequest) (*changes.List, error) {
	if e := checkLabels(r.Agent, r.Session, ""); e != nil {
		return &changes.List{}, e
	}
	if s.engine.Log == nil {
		return &changes.List{}, nil
	}
	list, err := s.changes().List(ctx, changes.Filter(r))
	if err != nil {
		return &changes.List{}, err
	}
	return list, nil
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
func (s *Store) StageChanges(
	ctx context.Context, r around.ChangesRequest,
) (around.StageResult, error) {
	r.Hunks = true
	return looking(ctx, s, "stage", func() (around.StageResult, error) {
		list, err := s.listChanges(ctx, r)
		out, failed := list.Stage(ctx, s.engine.RealRoot)
		return out, cmp.Or(err, failed)
	})
}

// BeginCall records that a tool call has begun. First it records the changes
// until now, as [Store.Scan] does: during the calls that are open or, without
// any, outside all calls.
//
// A call that does not end within an hour is forgotten. The record is not part of
// the journal; a crash may lose it, and the changes of the call are then
// attributed to none. Errors: those of Scan.
func (s *Store) BeginCall(ctx context.Context, c around.ToolCall) (around.ScanResult, error) {
	return s.aroundCall(ctx, c, false)
}

// EndCall records that a tool call has ended, and records the changes since it
// began, as one group that [Store.Undo] undoes. Changes that were made while
// other calls were open belong to all of these. If there is not enough time for
// all changes, the rest is recorded by the next call of BeginCall or EndCall,
// under the same identifier.
//
// With an identifier it returns each finding that no earlier EndCall has
// returned, including those of changes that other calls recorded. The same
// applies to files that another session had claimed. Errors: those of Scan; the
// call then stays open.
func (s *Store) EndCall(ctx context.Context, c around.ToolCall) (around.ScanResult, error) {
	return s.aroundCall(ctx, c, true)
}

// SeenCall reports whether the same event of the same call (host, session, ID,
// Event) was passed to it before, less than a minute ago and with no other
// event of the call since: a host that is configured twice reports everything
// twice. A call without an identifier of its own has no repeated events.
// Errors: the common ones.
func (s *Store) SeenCall(ctx context.Context, c around.ToolCall) (bool, error) {
	if c.ID == "" || c.Alike {
		return false, nil
	}
	return changing(ctx, s, "scan", func() (bool, error) {
		first, err := s.observed.First(strings.Join([]string{c.Host, c.Session, c.ID}, "\x00"), c.Event)
		return !first && err == nil, err
	})
}

// Capture returns which programs report their tool calls. Errors: the common
// ones.
func (s *Store) Capture(ctx context.Context) (around.CaptureStatus, error) {
	return looking(ctx, s, "capture", func() (around.CaptureStatus, error) {
		w, err := s.observed.Calls()
		out := w.Status()
		out.DiskLow = s.observed.DiskLow()
		return out, err
	})
}

// SnapshotRestoreRequest asks for the workspace to become what it was.
type SnapshotRestoreRequest struct {
	Call `omit:"accept_risk"`
	ID   string `json:"id"` // Identifier of the snapshot.
	// Also replace what was changed since without a tool call: most likely the
	// edits of a person. History keeps them.
	Force bool `json:"force,omitempty"`
}

// SnapshotRestoreResult reports what was restored.
type SnapshotRestoreResult struct {
	// The full record of the call, with the facts of the first file.
	Receipt `json:"receipt" copies:"status"`
	Results []call.FileResult `json:"results"` // The files that were written or deleted.
	Seq     uint64            `json:"seq"`     // Journal row of the commit; 0 when nothing differed.
}

// Snapshot records the state of the workspace: every file whose changes a
// [Store.Scan] records, with its hash and mode. It scans first, and only reads
// what changed since the last scan. The bytes are in history, or in git if its
// object equals the file; those of files above 8 MiB are not kept. The 50 newest
// snapshots of the last 30 days are kept, and always the newest one; where there
// are more, those with a label that a newer one has go first. History keeps the
// bytes that they need as far as its limit of bytes allows. Errors: those of
// [Store.Scan], and [ErrChangedDuringWrite] for a file that was changed meanwhile.
func (s *Store) Snapshot(ctx context.Context, r around.SnapshotRequest) (around.Snapshot, error) {
	out, err := s.snapshot(ctx, r)
	if err != nil {
		return around.Snapshot{}, s.verbError("snapshot", err)
	}
	return out, nil
}

func (s *Store) snapshot(ctx context.Context, r around.SnapshotRequest) (around.Snapshot, error) {
	if e := checkLabels(r.Label, r.Session, ""); e != nil {
		return around.Snapshot{}, e
	}
	index, err := s.scanAll(ctx, r.Session)
	if err != nil {
		return around.Snapshot{}, err
	}
	if err := s.engine.Enter(); err != nil {
		return around.Snapshot{}, err
	}
	defer s.engine.Leave()
	snap, err := s.observed.Save(ctx, index, observe.Snapshot{Seq: s.headSeq(), Label: gate.Label(s.gate.SafeText(r.Label)), Session: r.Session, BaseCommit: s.observed.Head()})
	return snap.Report(), err
}

// SnapshotList lists the snapshots, newest first. Errors: the common ones.
func (s *Store) SnapshotList(
	ctx context.Context, _ around.SnapshotListRequest,
) (around.SnapshotListResult, error) {
	return looking(ctx, s, "snapshot_list", func() (around.SnapshotListResult, error) {
		list, err := s.observed.List()
		return around.SnapshotListResult{Snapshots: convert(list, observe.Snapshot.Report)}, err
	})
}

// SnapshotDiff lists the differences between two snapshots, or between one and
// the workspace, which is scanned first. Errors: [ErrNotFound] for a snapshot
// that does not exist, [ErrHashDriftOnRead] for a damaged one, those of
// [Store.Scan], and [ErrChangedDuringWrite] for a file that was changed
// meanwhile.
func (s *Store) SnapshotDiff(
	ctx context.Context, r around.SnapshotDiffRequest,
) (around.SnapshotDiffResult, error) {
	return looking(ctx, s, "snapshot_diff", func() (around.SnapshotDiffResult, error) {
		from, to, err := s.twoStates(ctx, r.From, r.To)
		if err != nil {
			return around.SnapshotDiffResult{Files: []around.FileChange{}}, err
		}
		return changes.DiffOf(from, to), nil
	})
}

// twoStates returns two snapshots, or one and the workspace if the second has no name.
func (s *Store) twoStates(ctx context.Context, from, to string) (x, y *observe.Index, err error) {
	if _, x, err = s.observed.Load(from); err != nil {
		return nil, nil, err
	}
	if to != "" {
		_, y, err = s.observed.Load(to)
	} else {
		y, err = s.scanAll(ctx, "")
	}
	return x, y, err
}

// SnapshotRestore makes the workspace what it was in a snapshot, in one commit
// that changes only what differs and that [Store.Undo] undoes. Files that were
// created since are deleted; the current content is kept in history. It fails
// with [ErrChangedOutside], and names the files, when one of those that differ
// was changed since without a tool call, unless force is set. It always fails so
// when a file changes while it runs, or when a file would replace a directory
// that holds anything the snapshot does not have (context files). Other errors:
// [ErrNotFound], [ErrVersionNotKept] for bytes that neither history nor git has
// any more (context base_gone: git collected them), [ErrHashDriftOnRead],
// [ErrChangedDuringWrite] for a file that was changed during the scan, those of
// [Store.Scan] and [Store.SafeWrite].
func (s *Store) SnapshotRestore(
	ctx context.Context, r SnapshotRestoreRequest,
) (SnapshotRestoreResult, error) {
	req := requestOf(r.Call, "snapshot_restore", r)
	req.long = true
	c := s.newCommit(ctx, req)
	out := SnapshotRestoreResult{Results: []call.FileResult{}}
	err := s.commitPrepared(ctx, c, func(ctx context.Context) error { return s.prepareSnapshot(ctx, c, r) })
	if err == errNothing {
		out.Status = StatusUnchanged
		return out, nil
	}
	if err != nil {
		return out, err
	}
	out.Receipt, out.Results = c.finished(), c.Changed()
	out.Seq = out.JournalSeq
	return out, nil
}

// prepareSnapshot makes the mutations that lead back to a snapshot.
func (s *Store) prepareSnapshot(ctx context.Context, c *commit, r SnapshotRestoreRequest) error {
	if s.keyKnown(c.Req.Key) {
		c.Muts = []*engine.Mutation{} // the key answers
		return nil
	}
	snap, then, err := s.observed.Load(r.ID)
	if err != nil {
		return err
	}
	now, err := s.scanAll(ctx, "")
	if err != nil {
		return err
	}
	err = s.changes().Rewind(ctx, c.Commit, snap, then, now, r.Force, c.taking(ctx))
	if err == nil && len(c.Muts)+len(c.Dirs) == 0 {
		err = errNothing
	}
	return err
}

// Blame reports for each line of a file which call wrote it, who made the call
// and when. It follows the file through earlier names. Lines that an undo or a
// restoration brought back belong to the call that wrote them first. Errors:
// the common ones, the path details, [ErrFileNotFound], [ErrVersionNotFound]
// and [ErrVersionNotKept] for a content, [ErrTooLarge] for a file over 8 MiB,
// [ErrNotUTF8] for a binary one.
func (s *Store) Blame(ctx context.Context, r around.BlameRequest) (around.BlameResult, error) {
	return looking(ctx, s, "blame", func() (around.BlameResult, error) {
		path, err := versions.Identity(s.engine, r.Path)
		if err != nil {
			return around.BlameResult{}, err
		}
		return (&blame.Layer{Versions: s.versions, Observed: s.observed}).Read(ctx, path, r.SHA256.String())
	})
}

// Claim keeps the calls of other sessions from changing paths: they fail with
// [ErrPathClaimed], which says who has the claim and until when. A directory
// covers everything below it; a path need not exist. The session is that of the
// context ([WithVia], [WithCaller]) or of the options, and a call without one
// cannot claim. A claim expires after ttl, at most [around.MaxClaim];
// [Store.Renew] extends it and [Store.Release] ends it.
//
// When it returns nil, no call of another session that could still change the
// paths is in progress, in this process or another. Claims bind calls of this
// library only. What other programs change is reported by [Store.Scan].
//
// Errors: those of every write, the path details, [ErrPathClaimed].
func (s *Store) Claim(ctx context.Context, paths []string, ttl time.Duration) (around.Claim, error) {
	session, caller := s.sessionOf(ctx)
	return changing(ctx, s, "claim", func() (around.Claim, error) {
		via, _ := ctx.Value(viaKey{}).(Via) // a thread that contains a secret is not in session
		for i, name := range append([]string{session, via.Thread, caller}, paths...) {
			argument := []string{"session", "session", "caller", "path"}[min(i, 3)]
			if family, pattern, found := s.gate.SecretIn(argument, name); found && s.gateFor(ctx).Mode == GateBlock {
				return around.Claim{}, gate.SecretInName(strings.Replace(argument, "path", "paths", 1), family, pattern)
			}
		}
		return s.leases.Claim(ctx, around.Claim{Session: session, Caller: caller, Paths: paths}, ttl, func(path string) (string, error) { return versions.Identity(s.engine, path) })
	})
}

// Renew extends a claim to ttl from now. An expired claim cannot be renewed:
// [ErrClaimLost]. Other errors: those of [Store.Claim].
func (s *Store) Renew(ctx context.Context, fence uint64, ttl time.Duration) (around.Claim, error) {
	session, _ := s.sessionOf(ctx)
	return changing(ctx, s, "claim", func() (around.Claim, error) { return s.leases.Renew(ctx, session, fence, ttl) })
}

// Release ends a claim of the session, or any claim in the context of an operator
// ([WithOperator]). Releasing an expired claim is no error. Errors: those of
// [Store.Claim].
func (s *Store) Release(ctx context.Context, fence uint64) error {
	session, _ := s.sessionOf(ctx)
	_, err := changing(ctx, s, "claim", func() (around.Claim, error) {
		return around.Claim{}, s.leases.Release(ctx, session, fence, isOperator(ctx))
	})
	return err
}

// Claims lists the claims that hold. Errors: the common ones.
func (s *Store) Claims(ctx context.Context) ([]around.Claim, error) {
	return looking(ctx, s, "claim", func() ([]around.Claim, error) {
		list, err := s.leases.List()
		return append([]around.Claim{}, list...), err
	})
}

// sessionOf returns the session and the caller of a call that names neither.
func (s *Store) sessionOf(ctx context.Context) (session, caller string) {
	of, via := labelsOf(ctx), journal.Via{}
	if known := s.via(ctx); known != nil {
		via = *known
	}
	return cmp.Or(via.Thread, via.Connection, of.session, s.opts.Session), cmp.Or(via.Client, of.caller, s.opts.Caller)
}
