package resilientwrite

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/failpoint"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/gate"
	"github.com/resilientwrite/resilientwrite/internal/history"
	"github.com/resilientwrite/resilientwrite/internal/hooks"
	"github.com/resilientwrite/resilientwrite/internal/layer/budget"
	"github.com/resilientwrite/resilientwrite/internal/layer/checkpoint"
	"github.com/resilientwrite/resilientwrite/internal/layer/chunks"
	"github.com/resilientwrite/resilientwrite/internal/layer/drafts"
	handoffs "github.com/resilientwrite/resilientwrite/internal/layer/handoff"
	"github.com/resilientwrite/resilientwrite/internal/layer/lease"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
	"github.com/resilientwrite/resilientwrite/internal/layer/scratch"
	"github.com/resilientwrite/resilientwrite/internal/place"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/scan"
	"github.com/resilientwrite/resilientwrite/internal/ship"
)

// Open opens the workspace dir and makes its state directory when there is
// none. nil options mean the defaults.
//
// Writes that a dead process left unfinished are finished or undone first;
// [Store.Recovery] reports what was found. Open may run while other processes
// have the workspace open. It fails with [ErrUnsafeRoot] for a system or home
// directory and for one inside the git directory of a repository,
// [ErrBadStateDir] for a state directory that is a symbolic link or no directory,
// [ErrStateNotWritable] for one that exists and cannot be written,
// [ErrNewerFormat] for one that a newer version wrote, and with the details of
// the file system's errors. A failed Open leaves a workspace that can be opened
// again.
func Open(ctx context.Context, dir string, opts *Options) (*Store, error) {
	return openWith(ctx, opts, engine.TestHooks{Now: time.Now, Nonce: randomNonce}, func(s *Store) (string, error) {
		err := s.openDirs(dir)
		return s.engine.RealRoot, err
	})
}

// openWith opens a store whose directories dirs opens, which returns where the workspace is.
// It tries again if there was no space for what opening writes and the reserve was released
// for it.
func openWith(ctx context.Context, opts *Options, hooks engine.TestHooks, dirs func(*Store) (string, error)) (*Store, error) {
	o, e := opts.withDefaults()
	if e != nil {
		e.Op = "open"
		return nil, errorFrom(e)
	}
	attempt := func(gave int64) (*Store, error) {
		s := newStore(o, hooks)
		s.engine.Reserve.Gave = gave
		root, err := dirs(s)
		if err == nil {
			err = s.gate.OpenPolicy(root, defaultGate(ctx))
		}
		if err != nil {
			s.engine.CloseDirs()
			return s, s.verbError("open", err)
		}
		return s, s.start(ctx)
	}
	s, err := attempt(0)
	if err != nil && s.engine.Reserve.Gave > 0 {
		s, err = attempt(s.engine.Reserve.Gave)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// newStore makes a store that is not open yet.
func newStore(o Options, with engine.TestHooks) *Store {
	s := &Store{opts: o}
	s.engine = &engine.Engine{TestHooks: with, Version: Version, Opts: engine.Options{
		Sync: engine.SyncLevel(o.Sync), HardLinks: engine.HardLinks(o.HardLinks), LockTimeout: o.LockTimeout, MaxContentBytes: o.MaxContentBytes,
		ReadOnly: o.ReadOnly, InPlaceOnBusy: o.InPlaceOnBusy, VerifyReadBack: o.VerifyReadBack,
	}}
	s.versions = &history.Layer{Engine: s.engine}
	s.scratch = &scratch.Layer{Engine: s.engine}
	s.chunks = &chunks.Layer{Engine: s.engine}
	s.checkpoints = &checkpoint.Layer{Engine: s.engine}
	s.handoffs = &handoffs.Layer{Engine: s.engine}
	s.drafts = &drafts.Layer{Engine: s.engine}
	s.observed = &observe.Layer{Engine: s.engine}
	s.gate = &gate.Layer{Engine: s.engine, Keep: s.drafts.Keep, Ignored: s.observed.Ignored, Options: gate.Options{
		Setting: o.Gate.setting(), PolicyFile: o.PolicyFile, Optional: o.PolicyFileOptional, ServeWithBad: o.ServeWithBadPolicy,
		Trust: o.TrustWorkspacePolicy, Transforms: len(o.Hooks.Transform) > 0, Validators: o.validate,
	}}
	s.leases = &lease.Layer{Engine: s.engine}
	s.hooks = &hooks.Layer{Engine: s.engine, Gate: s.gate, Hooks: o.Hooks, VerifyTimeout: o.VerifyTimeout, Channel: s.channelTo, KeyKnown: s.keyKnown}
	s.engine.Host = engineHost{s.gate, s}
	s.engine.Pinned, s.engine.Shipped = s.observed.Pinned, func() (uint64, bool, error) { return ship.Shipped(s.engine) }
	return s
}

// start starts the opened store.
func (s *Store) start(ctx context.Context) error {
	s.budgets = &budget.Layer{Engine: s.engine, Gate: s.gate, Describe: describeCode, DraftPath: drafts.Path}
	s.budgets.Load()
	s.gate.OpenRepositories()
	if err := s.engine.Start(ctx); err != nil {
		return s.verbError("open", err)
	}
	if s.opts.ReadOnly {
		return nil
	}
	s.noteRoot(ctx)
	err := s.engine.Tidy(ctx, s.drafts.Sweep)
	if terr := s.sweepTxs(ctx); err != nil || terr != nil {
		s.engine.Report.Warn(call.WarnDraftsNotSwept)
	}
	return nil
}

func randomNonce() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// openDirs opens the workspace and the directory of the state.
func (s *Store) openDirs(dir string) error {
	abs, real, err := place.Resolve(dir, s.opts.AllowUnsafeRoot)
	if s.engine.RealRoot = real; err != nil {
		return err
	}
	root, err := fsx.OpenRoot(real)
	if err != nil {
		return err
	}
	s.engine.SetRoot(root, relpath.Rules{
		Roots:   []string{filepath.ToSlash(abs), filepath.ToSlash(real)},
		Windows: runtime.GOOS == "windows",
		Folds:   runtime.GOOS == "windows" || relpath.Folds(real),
	})
	if s.opts.StateDir == "" {
		return s.openPlaced(real)
	}
	at, parent, err := place.Given(root, real, s.opts.StateDir)
	if err != nil {
		return err
	}
	s.engine.StatePlace = at
	if err = s.engine.OpenState(parent, filepath.Base(at), false); err == nil && !s.opts.ReadOnly {
		err = place.Writable(at)
	}
	return s.unwritable(at, err)
}

// RecoveryReport says what [Open] found and did.
type RecoveryReport struct {
	Finished []RecoveredPath `json:"finished"` // Committed writes that were completed.
	// Writes that were never acknowledged and were rolled back.
	Aborted []RecoveredPath `json:"aborted"`
	// Files that another program changed meanwhile. They were left alone, and our
	// version is kept in history.
	Conflicts []RecoveredPath `json:"conflicts"`
	Swept     int             `json:"swept"` // Stale staging files that were removed.
	// Unfinished writes left to a live writer, to the next Open, or as they were.
	Pending   int   `json:"pending"`
	TornBytes int64 `json:"torn_bytes"` // Bytes of torn journal rows that were skipped.
	Malformed int   `json:"malformed"`  // Unreadable journal lines.
	// Rows imported from the single-file journal of the Python implementation.
	Imported      int64 `json:"imported"`
	ImportSkipped int64 `json:"import_skipped"` // Unreadable lines of that journal.
	// True when missing or damaged caches were rebuilt from the journal.
	Rebuilt  bool      `json:"rebuilt"`
	Poisoned bool      `json:"poisoned"` // True when a flush had failed in an earlier process.
	Warnings []Warning `json:"warnings"` // What the operator should know.
}

// RecoveredPath is one file that recovery looked at.
type RecoveredPath struct {
	Path   string `json:"path"`             // Path relative to the workspace.
	Seq    uint64 `json:"seq,omitempty"`    // Its journal row.
	SHA256 string `json:"sha256,omitempty"` // SHA-256 recorded in the journal row.
	Reason string `json:"reason,omitempty"` // The reason.
}

// Recovery returns what Open found and did.
func (s *Store) Recovery() RecoveryReport {
	r := &s.engine.Report
	return RecoveryReport{
		Finished: recoveredPaths(r.Finished), Aborted: recoveredPaths(r.Aborted), Conflicts: recoveredPaths(r.Conflicts),
		Swept: r.Swept, Pending: r.Pending, TornBytes: r.TornBytes, Malformed: r.Malformed,
		Imported: r.Imported, ImportSkipped: r.ImportSkipped, Rebuilt: r.Rebuilt, Poisoned: r.Poisoned,
		Warnings: append(warnings(r.Warnings), warnings(s.gate.Policy().Warnings)...),
	}
}

func recoveredPaths(list []engine.RecoveredPath) []RecoveredPath {
	return convert(list, func(p engine.RecoveredPath) RecoveredPath { return RecoveredPath(p) })
}

// engineHost presents the store to its engine.
type engineHost struct {
	*gate.Layer
	s *Store
}

func (h engineHost) Translate(err error) error { return h.s.translate(err) }

// Within reports whether the workspace is the directory dir or is below it, after
// resolving symbolic links. A host can use it to check whether the workspace is
// in a directory that its user chose. It returns false for a directory that is
// not absolute or does not exist.
func (s *Store) Within(dir string) bool {
	if s.engine.RealRoot == "" || !filepath.IsAbs(dir) {
		return false
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return false
	}
	return relpath.Contains(real, s.engine.RealRoot)
}

// openPlaced opens the state directory of the workspace real at the place that
// package place determines.
func (s *Store) openPlaced(real string) error {
	w, err := place.Look(real)
	if err != nil {
		return err
	}
	at, err := placeFor(w, s.opts.ReadOnly)
	if err != nil {
		return s.unwritable(at.Path, err)
	}
	failpoint.At("open:placed")
	s.workspace, s.placed, s.engine.StatePlace, s.gate.Placed = w, at.Place, at.Path, true
	if at.Kind == place.Git {
		s.engine.Beside = filepath.Dir(at.Path)
	}
	parent := at.Parent
	parent = cmp.Or(parent, s.engine.Disk.Root)
	if err := s.engine.OpenState(parent, at.Name, at.Found); err != nil {
		if _, gone := parent.Lstat(at.Name); at.Found && errors.Is(gone, fs.ErrNotExist) {
			if at.Parent != nil {
				at.Parent.Close()
			}
			return s.openPlaced(real) // it was moved or removed meanwhile
		}
		return s.unwritable(at.Path, err)
	}
	for _, reason := range at.Notes {
		s.engine.Report.Warn(reason)
	}
	if s.opts.ReadOnly {
		return nil
	}
	return s.unwritable(at.Path, place.Writable(at.Path))
}

// placeFor chooses the place. Tests replace it.
var placeFor = func(w *place.Workspace, readOnly bool) (place.Opened, error) { return w.Open(readOnly) }

// unwritable returns the error of a state directory that exists and cannot be
// used. No other one is made in its place.
func (s *Store) unwritable(dir string, err error) error {
	forbidden := errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
	if !forbidden || s.opts.ReadOnly || place.Writable(dir) == nil {
		return err
	}
	return fault.New(fault.StateNotWritable).Because(err)
}

// noteRoot records in the state directory to which workspace it belongs. If that
// fails, the next open tries again.
func (s *Store) noteRoot(ctx context.Context) {
	if s.workspace != nil {
		s.engine.Tidy(ctx, func() error { return s.workspace.Note(s.placed, s.engine.Disk.State) })
	}
}

// Close waits for the calls in flight, completes the work that was deferred until
// after their replies, saves the caches and releases everything. Later calls fail
// with [ErrStoreClosed]. When ctx ends first, Close fails with [ErrCanceled] and
// the store stays closed for new calls; everything is released when the last call
// ends, and what is not settled is completed by the next Open. A second Close
// waits for the same, as long as its own ctx allows. Other errors: the storage
// details. None of them affects what was acknowledged before.
func (s *Store) Close(ctx context.Context) error {
	s.engine.Gate.Lock()
	first := s.engine.Open
	s.engine.Open = false
	s.engine.Gate.Unlock()
	if first {
		defer s.watchers.Close(ctx)
		go func() {
			s.engine.Flights.Wait()
			s.engine.Ended <- s.engine.End()
			close(s.engine.Ended)
		}()
	}
	select {
	case err := <-s.engine.Ended:
		if err != nil {
			return s.verbError("close", err)
		}
		return nil
	case <-ctx.Done():
		return s.verbError("close", ctx.Err())
	}
}

// translate maps errors of the scanner, and those of hooks and adapters that
// called the store, to faults.
func (s *Store) translate(err error) error {
	var costly *scan.CostlyError
	if errors.As(err, &costly) {
		return s.gate.Costly(costly)
	}
	var e *Error
	var f *fault.Fault
	if !errors.As(err, &f) && errors.As(err, &e) {
		return e.fault()
	}
	return err
}
