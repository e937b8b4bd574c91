package resilientwrite

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/layer/observe"
	"github.com/resilientwrite/resilientwrite/internal/progress"
	"github.com/resilientwrite/resilientwrite/internal/ship"
)

// This file has what a hub (docs/hub.md) needs of a store besides [Admin.Export]:
// the position of its shipper, the bytes of versions and snapshots, and one
// commit that makes the workspace equal to another one.

// ShipState returns what [Admin.SetShipState] kept, nil when there is nothing.
// Errors: the storage details, [ErrStoreClosed].
func (a Admin) ShipState() ([]byte, error) {
	if err := a.s.engine.EnterReader(); err != nil {
		return nil, a.s.verbError("ship_state", err)
	}
	defer a.s.engine.Leave()
	data, err := ship.State(a.s.engine)
	if err != nil {
		return nil, a.s.verbError("ship_state", err)
	}
	return data, nil
}

// SetShipState keeps the state of a shipper in the state directory, durably and
// atomically: a JSON object of at most 1 MiB, whose member seq is the number of
// the newest row that no longer needs to be shipped; [Store.Describe] returns the
// members of [HubFacts]. While there is one, pruning keeps the versions of later
// rows; only the limit of bytes removes them. Call it under [Admin.HoldShipping].
// Errors: [ErrInvalidArgument], the storage details, [ErrStoreReadOnly],
// [ErrStoreClosed].
func (a Admin) SetShipState(data []byte) error {
	if err := a.s.engine.Enter(); err != nil {
		return a.s.verbError("set_ship_state", err)
	}
	defer a.s.engine.Leave()
	var state HubFacts
	if len(data) > ship.MaxState || json.Unmarshal(data, &state) != nil {
		return a.s.verbError("set_ship_state", fault.New(fault.InvalidArgument).With("argument", "data").Hintf("give a JSON object of at most %d bytes", ship.MaxState))
	}
	if err := ship.SetState(a.s.engine, data); err != nil {
		return a.s.verbError("set_ship_state", err)
	}
	return nil
}

// HoldShipping excludes other shippers of this store, in every process, until
// release is called. Errors: [ErrLockTimeout] while there is one,
// [ErrStoreReadOnly], [ErrStoreClosed], [ErrCanceled].
func (a Admin) HoldShipping(ctx context.Context) (release func(), err error) {
	if err := a.s.engine.Enter(); err != nil {
		return nil, a.s.verbError("hold_shipping", err)
	}
	defer a.s.engine.Leave()
	release, err = a.s.engine.Locks.Names(ctx, a.s.opts.LockTimeout, "ship", "ship")
	if err != nil {
		return nil, a.s.verbError("hold_shipping", err)
	}
	return release, nil
}

// shipped returns the part of a shipper's state that the store itself uses; nil
// if nothing is shipped.
func (s *Store) shipped() *HubFacts {
	data, err := ship.State(s.engine)
	facts := &HubFacts{}
	if err != nil || data == nil || json.Unmarshal(data, facts) != nil {
		return nil
	}
	return facts
}

// shippedTo returns the newest row for which pruning need not keep versions;
// false if nothing is shipped.
func (s *Store) shippedTo() (uint64, bool) {
	if f := s.shipped(); f != nil {
		return f.Seq, true
	}
	return 0, false
}

// hubFacts returns the state of the hub, with the number of rows up to head that
// it lacks.
func (s *Store) hubFacts(head uint64) *HubFacts {
	f := s.shipped()
	if f != nil {
		f.Task, f.LostTask = asLabel(s.safeText(f.Task)), asLabel(s.safeText(f.LostTask))
		f.Waiting = head - min(f.Seq, head)
	}
	return f
}

// ContentRequest names bytes that a row or a snapshot refers to.
type ContentRequest struct {
	Path string // Path of the file then, relative to the workspace, or of an archived handoff.
	// Hash and size of the content.
	SHA256 Digest
	Bytes  int64
	Seq    uint64 // Row that made it what it was; 0: of a snapshot.
	Git    string // Git object with the same bytes, in hex; empty: none.
}

// Content returns bytes that a row or a snapshot refers to: from history, git,
// the file itself, or a later version that begins with them. They have the
// requested hash. Errors: [ErrVersionNotKept] when none of these has them,
// [ErrTooLarge] above 64 MiB, the path and storage details, [ErrStoreClosed].
func (a Admin) Content(ctx context.Context, r ContentRequest) ([]byte, error) {
	s := a.s
	if err := s.engine.EnterReader(); err != nil {
		return nil, s.verbError("content", err)
	}
	defer s.engine.Leave()
	data, err := ship.Bytes{Path: r.Path, SHA256: r.SHA256.String(), Size: r.Bytes, Seq: r.Seq, Git: r.Git}.Read(ctx, s.versions, s.observed)
	if err != nil {
		e := s.engine.ErrorOf(err)
		e.Path = cmp.Or(e.Path, r.Path)
		return nil, s.verbError("content", e)
	}
	return data, nil
}

// TreeFile is one file of a state of a workspace.
type TreeFile struct {
	Path string `json:"path"` // Path relative to the workspace.
	// Hash, size and permission bits.
	SHA256 Digest `json:"sha256"`
	Bytes  int64  `json:"bytes"`
	Mode   uint32 `json:"mode"`
	Git    string `json:"git,omitempty"` // Git object with the same bytes, in hex; empty: none.
	// True when git ignores the file.
	Ignored bool `json:"ignored,omitempty"`
	NotKept bool `json:"not_kept,omitempty"` // True when its bytes were too large to be kept.
}

// TreeDir is one directory of a state of a workspace.
type TreeDir struct {
	Path string `json:"path"` // Path relative to the workspace.
	Mode uint32 `json:"mode"` // Permission bits.
}

// Tree is a state of a workspace, in the order of the paths.
type Tree struct {
	Files []TreeFile // The files, and symbolic links, whose bytes are their targets.
	// The directories, empty ones too; without the workspace itself and what git
	// ignores as a whole.
	Dirs []TreeDir
}

// SnapshotTree lists the files and directories of a snapshot. Errors:
// [ErrNotFound], [ErrHashDriftOnRead], the storage details, [ErrStoreClosed].
func (a Admin) SnapshotTree(ctx context.Context, id string) (Tree, error) {
	if err := a.s.engine.EnterReader(); err != nil {
		return Tree{}, a.s.verbError("snapshot_tree", err)
	}
	defer a.s.engine.Leave()
	_, x, err := a.s.observed.Load(id)
	if err != nil {
		return Tree{}, a.s.verbError("snapshot_tree", err)
	}
	t := Tree{Files: []TreeFile{}, Dirs: []TreeDir{}}
	for p, f := range x.All() {
		t.Files = append(t.Files, TreeFile{
			Path: p, SHA256: f.SHA, Bytes: f.Size, Mode: f.Mode, Git: f.GitHex(),
			Ignored: f.Flags&observe.Ignored != 0, NotKept: f.Flags&observe.Unkept != 0,
		})
	}
	slices.SortFunc(t.Files, func(a, b TreeFile) int { return strings.Compare(a.Path, b.Path) })
	for _, p := range x.Directories() {
		if mode := x.DirMode(p); p != "" && mode != 0 {
			t.Dirs = append(t.Dirs, TreeDir{p, mode & 0o777})
		}
	}
	return t, nil
}

// MaterializeRequest asks for the workspace to become a tree that another machine
// had.
type MaterializeRequest struct {
	Caller  string // Who is asking; recorded in the journal.
	Session string // Name of the working session; recorded in the journal.
	// The files and directories.
	Tree
	Keep []string // Paths that stay as they are, whether they exist or not.
	Base string   // Commit that must be checked out; empty: any, or none.
	// Open opens the bytes of a file that the workspace does not have yet. It is
	// called in the order of Files.
	Open func(TreeFile) (io.ReadCloser, error) `json:"-"`
}

// MaterializeResult reports what was written.
type MaterializeResult struct {
	// Files that were written and deleted.
	Written, Deleted int
	Dirs             int    // Directories that were made or removed, or that got another mode.
	Seq              uint64 // Journal row of the commit; 0 when nothing differed.
}

// Materialize makes the workspace equal to the tree of another one, in one commit
// that changes only what differs and that [Store.Undo] undoes. The workspace must
// be empty except for files that are in the tree with the same bytes, or that
// equal git's own object: git and history keep the bytes of these. Files that git
// ignores stay unless the tree has them. Directories are created and get their
// modes; those that the tree does not have are removed if they are empty. The
// bytes are compared with the tree before the commit.
//
// Errors: [ErrChangedOutside] for files that only the workspace has (context
// files), and when another commit than Base is checked out (context base and
// head), [ErrHashDriftOnRead] for bytes that are not those of the tree,
// [ErrTooLarge] for more files than the process may open, those of Open as their
// cause, and those of [Store.Scan] and [Store.SafeWrite]. After an error nothing
// has changed.
func (a Admin) Materialize(ctx context.Context, r MaterializeRequest) (MaterializeResult, error) {
	s := a.s
	// Each call is one of its own: what fails in it is most often not the request.
	c := s.newCommit(ctx, request{op: "materialize", caller: r.Caller, session: r.Session, hash: s.engine.NewCommitID(), long: true})
	ctx, _, end := progress.Begin(ctx)
	defer end()
	out := MaterializeResult{}
	err := error(nil)
	if e := checkLabels(r.Caller, r.Session, ""); e != nil {
		err = e
	} else {
		err = s.prepareTree(ctx, c, r, &out)
	}
	if err != nil {
		c.Release()
		return MaterializeResult{}, c.Failed(err)
	}
	if len(c.Muts)+len(c.Dirs) == 0 {
		c.Release()
		return out, nil
	}
	if err := s.commit(ctx, c); err != nil {
		return MaterializeResult{}, err
	}
	rec := c.finished()
	out.Seq = rec.JournalSeq
	return out, nil
}

// prepareTree makes the mutations that lead to a tree.
func (s *Store) prepareTree(ctx context.Context, c *commit, r MaterializeRequest, out *MaterializeResult) error {
	_, y, err := s.scan(ctx, ScanRequest{}, nil)
	if err != nil {
		return err
	}
	if head := s.observed.Head(); r.Base != "" && head != r.Base {
		return fault.New(fault.ChangedOutside).With("base", r.Base).With("head", head).Hintf("the tree rests on commit %s, and another one is checked out; check out that commit first", r.Base)
	}
	now, then, files := y.All(), map[string]observe.File{}, map[string]TreeFile{}
	for _, f := range r.Files {
		then[f.Path] = observe.File{Path: f.Path, Entry: &observe.Entry{SHA: f.SHA256, Size: f.Bytes, Mode: ship.Perm(f.Mode)}}
		files[f.Path] = f
	}
	if err := ship.Replaceable(now, then, r.Keep); err != nil {
		return err
	}
	dirs := map[string]uint32{}
	for _, d := range r.Dirs {
		dirs[d.Path] = fsx.ModeDir | d.Mode
	}
	c.Dirs = s.changes().DirsToMake(ship.Dirs(y, dirs))
	out.Dirs = len(c.Dirs)
	list, turn := observe.Differences(now, then), map[string]int{}
	for i, f := range r.Files {
		turn[f.Path] = i
	}
	slices.SortStableFunc(list, func(a, b observe.Difference) int { return turn[a.Path] - turn[b.Path] })
	for _, d := range list {
		if d.Change == "deleted" {
			out.Deleted++
		} else {
			out.Written++
		}
	}
	return s.changes().Into(c.Commit, list, func(m *engine.Mutation, path string) error { return s.takeTreeFile(ctx, c, m, files[path], r.Open) })
}

// takeTreeFile takes the bytes and the mode of a file of a tree; if only the mode
// differs, the file keeps its bytes.
func (s *Store) takeTreeFile(ctx context.Context, c *commit, m *engine.Mutation, f TreeFile, open func(TreeFile) (io.ReadCloser, error)) error {
	perm := ship.Perm(f.Mode)
	m.Perm = &perm
	src, err := open(f)
	if err != nil {
		return err
	}
	mode := perm
	if mode > 0o777 { // a kind, which Perm says
		mode = 0
	}
	sum, err := s.takeKept(ctx, c, m, src, mode)
	src.Close()
	if err == nil && sum != f.SHA256.String() {
		m.DropSpooled()
		err = fault.New(fault.HashDriftOnRead).Hintf("the bytes that were given are not those of the tree")
	}
	return err
}
