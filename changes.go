package resilientwrite

import (
	"context"
	"time"

	"github.com/resilientwrite/resilientwrite/around"
	"github.com/resilientwrite/resilientwrite/internal/changes"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/layer/lease"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
	"github.com/resilientwrite/resilientwrite/internal/scan"
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
func (s *Store) Scan(ctx context.Context, r around.ScanRequest) (around.ScanResult, error) {
	out, _, err := s.scan(ctx, r, nil)
	if err != nil {
		return out, s.verbError("scan", err)
	}
	out.Claimed = claimedFiles(s.claimed(out, r.Session))
	return out, nil
}

// scan is [Store.Scan]. If pend is not nil, it is called with the findings before
// the row is written.
func (s *Store) scan(ctx context.Context, r around.ScanRequest, pend func([]around.ObservedFinding) error) (out around.ScanResult, _ *observe.Index, err error) {
	out = (&observe.Result{}).Report()
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
	return res.Report(), res.Index, nil
}

// claimed returns those of the files of a scan that another session than these has
// claimed.
func (s *Store) claimed(out around.ScanResult, sessions ...string) []lease.File {
	var paths []string
	for _, f := range out.Files {
		paths = append(paths, f.Path, f.From)
	}
	return s.leases.Over(paths, sessions)
}

// Changes lists the files that were changed, with the net change of each,
// including changes that other programs made and a [Store.Scan] found. It reads
// only the journal; scan first to include changes since the last scan. Errors:
// [ErrInvalidArgument], the storage details, [ErrStoreClosed].
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

// changes returns the reader of what was changed.
func (s *Store) changes() *changes.Layer {
	return &changes.Layer{Engine: s.engine, Versions: s.versions, Observed: s.observed, Folds: s.gate.Folds}
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
		if err != nil {
			return (&changes.List{}).Stage(ctx, "")
		}
		return list.Stage(ctx, s.engine.RealRoot)
	})
}
