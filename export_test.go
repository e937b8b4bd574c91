package resilientwrite

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/analytics"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/index"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/layer/chunks"
	"github.com/resilientwrite/resilientwrite/internal/layer/scratch"
	"github.com/resilientwrite/resilientwrite/internal/place"
	"github.com/resilientwrite/resilientwrite/internal/progress"
	"github.com/resilientwrite/resilientwrite/internal/relpath"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
	"github.com/resilientwrite/resilientwrite/internal/usage"
)

// Sim configures the opening of a store on a simulated file system.
type Sim struct {
	Segment int64 // bytes of a journal segment
	Nonce   string
	Manual  bool // leave background settling undone
	// AppendFrom is the size from which a file is appended to in place; 0: the default.
	AppendFrom int64
	AheadFrom  int           // bytes from which content is written to a slot before it is hashed
	Slots      int           // that are made together; 0: 2
	LockWait   time.Duration // for the lock of the journal
	Many       int           // files from which a commit holds few of them open
	Beside     bool          // run side by side what may
	User       int           // who the process is
	Years      int           // by which the clock of the process is off
	// Unrecovered leaves what dead writers left to others.
	Unrecovered bool
	State       string         // the state directory; "" = that in the workspace
	Mount       bool           // the state directory is a file system of its own; the environment can ask for that too, with RW_MOUNT
	Process     *simfs.Process // that opens it; nil: the first one since the last Kill
}

// OpenSim opens a store on a simulated file system: time is frozen, and concurrent work
// runs in a fixed order, so that every run makes the same operations.
func OpenSim(fs *simfs.FS, opts *Options, sim Sim) (*Store, error) {
	return OpenSimWithin(context.Background(), fs, opts, sim)
}

// OpenSimWithin is OpenSim with a context.
func OpenSimWithin(ctx context.Context, fs *simfs.FS, opts *Options, sim Sim) (*Store, error) {
	sim.Nonce = cmp.Or(sim.Nonce, "0000")
	when := time.Date(2026+sim.Years, 11, 21, 12, 0, 0, 0, time.UTC)
	if sim.State == "" && (sim.Mount || os.Getenv("RW_MOUNT") != "") {
		fs.MountAt(StateDirName)
	}
	root := fs.Root()
	if sim.Process != nil {
		root = sim.Process.Root()
	}
	return openOn(ctx, root, opts, engine.TestHooks{
		Now:    func() time.Time { return when },
		Nonce:  func() string { return sim.Nonce },
		User:   func() int { return sim.User },
		InTurn: !sim.Beside, Manual: sim.Manual, Segment: sim.Segment, Preallocate: 4096, NoReserve: true, Slots: cmp.Or(sim.Slots, 2), State: sim.State, AppendFrom: sim.AppendFrom, AheadFrom: sim.AheadFrom, Unrecovered: sim.Unrecovered, LockWait: sim.LockWait, Many: sim.Many,
	})
}

// openOn opens a store on an open directory.
func openOn(ctx context.Context, root fsx.Dir, opts *Options, hooks engine.TestHooks) (*Store, error) {
	return openWith(ctx, opts, hooks, func(s *Store) (string, error) {
		s.engine.SetRoot(root, relpath.Rules{Roots: []string{"/ws"}})
		at := strings.Split(cmp.Or(hooks.State, StateDirName), "/")
		parent, err := root, error(nil)
		for _, up := range at[:len(at)-1] {
			above := parent
			if parent, err = above.OpenDir(up); above != root {
				above.Close()
			}
			if err != nil {
				return "", err
			}
		}
		return "/ws", s.engine.OpenState(parent, at[len(at)-1], false)
	})
}

// SetMany sets the number of files from which a commit holds few of them open.
func (s *Store) SetMany(n int) { s.engine.TestHooks.Many = n }

// CommitAll makes several writes as one commit.
func (s *Store) CommitAll(ctx context.Context, reqs ...SafeWriteRequest) error {
	var all *commit
	for _, r := range reqs { // a copy: newWrite sets defaults
		c, m := s.newWrite(ctx, &r)
		m.Content = engine.MemBody([]byte(r.Content))
		if all == nil {
			all = c
			continue
		}
		all.Muts = append(all.Muts, m)
	}
	return s.commit(ctx, all)
}

// StageNames are the stages in their order.
func StageNames() []Stage {
	var names []Stage
	for _, st := range engine.Stages {
		names = append(names, Stage(st.Name))
	}
	return names
}

// StateDirName is the name of the state directory.
const StateDirName = engine.StateDirName

// Unfinished returns the names in staging/ that are no free slots.
func (s *Store) Unfinished() ([]string, error) {
	left, _, err := s.engine.HeldSlots()
	if err != nil {
		return nil, err
	}
	names, err := s.engine.Disk.Staging.Names()
	for _, name := range names {
		if _, _, ok := publish.ParseSlot(name); !ok && !strings.HasPrefix(name, engine.WitnessStem) {
			left = append(left, name)
		}
	}
	return left, err
}

// DetailOf classifies an error of the layers below.
func (s *Store) DetailOf(err error) *Error { return errorFrom(s.engine.ErrorOf(err)) }

// FillJournal writes n rows that refer to n/10 paths, without files.
func (s *Store) FillJournal(n int) error {
	for done := 0; done < n; {
		var recs []*journal.Record
		for range min(1000, n-done, n/10) {
			recs = append(recs, &journal.Record{
				Kind: journal.KindCommit, Writer: s.engine.Writer, Caller: "bench", Settled: uint64(done),
				Muts: []journal.Mutation{{Op: "overwrite", Path: fmt.Sprintf("p%d", done%max(1, n/10)), SHA256: engine.HashOf([]byte(fmt.Sprint(done))), Bytes: 1}},
			})
			done++
		}
		link := func(head uint64) error {
			for _, rec := range recs {
				m := &rec.Muts[0]
				last, err := s.engine.Rows.Last(m.Path)
				if err != nil {
					return err
				}
				m.PrevSeq, m.Rev = last.Seq, uint64(last.Rev)+1
			}
			return nil
		}
		if _, err := s.engine.Log.Write(&journal.Batch{Recs: recs, Before: link}); err != nil {
			return err
		}
	}
	return s.engine.Log.Show(s.engine.Log.Head())
}

// LastRows follows the rows of a path back, at most n.
func (s *Store) LastRows(path string, n int) (int, error) {
	last, err := s.engine.Rows.Last(path)
	if err != nil {
		return 0, err
	}
	count := 0
	for seq := last.Seq; seq > 0 && count < n; count++ {
		rec, err := s.engine.Log.Find(seq)
		if err != nil {
			return count, err
		}
		seq = rec.Muts[0].PrevSeq
	}
	return count, nil
}

// The tests of this package keep the state in the workspace, where many of them read
// it.
func init() { placeFor = placeInTree }

func placeInTree(w *place.Workspace, readOnly bool) (place.Opened, error) {
	return w.OpenAt(w.Of(place.Tree), !readOnly)
}

// AnalyticsDecoded makes the figures from rows that were decoded in full.
func (s *Store) AnalyticsDecoded() (analytics.Result, error) {
	return usage.Read(context.Background(), analytics.Request{}, func(fn func(*journal.Record) error) error {
		return s.engine.Log.Range(1, func(rec *journal.Record, _ journal.Pos) error { return fn(rec) })
	})
}

// WriteUnasked writes as if the user had not been asked because an idempotency
// key was to answer.
func (s *Store) WriteUnasked(ctx context.Context, r SafeWriteRequest) error {
	c, m := s.newWrite(ctx, &r)
	c.Req.Hash = r.hash(m.Hold([]byte(r.Content)))
	c.Unasked = true
	return s.commit(ctx, c)
}

// ResealManifest gives a manifest the hash that makes it ours, whatever its content; ok
// is false for data that cannot be a manifest.
func ResealManifest(data []byte, session string) (sealed []byte, ok bool) {
	var m chunks.Manifest
	if json.Unmarshal(data, &m) != nil {
		return nil, false
	}
	m.Session = session
	sealed, err := m.Encode()
	return sealed, err == nil
}

// FlushWidth is how many flushes of one commit run at a time on goroutines.
const FlushWidth = engine.FlushWidth

// Together runs all as a commit runs its flushes.
func Together(all ...func() error) error {
	return (&engine.Engine{Opts: engine.Options{Sync: engine.SyncFull}}).Together(all...)
}

// PrepareHistory makes the directories of history at once, as every Open on a
// real file system does.
// HoldHistory takes the lock of history as a sweep does, until release is called.
func (s *Store) HoldHistory() (release func(), err error) {
	return s.engine.Locks.History(context.Background(), time.Second, "prune")
}

func (s *Store) PrepareHistory() error { return s.engine.History.Prepare() }

// UnifiedDiff is the diff that replies show.
func UnifiedDiff(path string, before, after []byte) string {
	return engine.UnifiedDiff(path, before, after)
}

// WhileQuiet makes fn run where a store waits whether another process is still writing
// the policy file.
func (s *Store) WhileQuiet(fn func()) { s.engine.TestHooks.Quiet = fn }

// LetPatternsTake sets how long the patterns of the policy may compute in a call.
func (s *Store) LetPatternsTake(most time.Duration) { s.engine.TestHooks.Patterns = most }

// Account makes an account of a call and uses it as a write of two pieces
// does.
func Account(ctx context.Context) {
	ctx, m, end := progress.Begin(ctx)
	defer end()
	for i := range engine.Stages {
		m.At(engine.Stages[i].Name)
	}
	src := progress.Of(ctx).Counting(strings.NewReader("ab"))
	for range 2 {
		src.Read(make([]byte, 1))
	}
}

// OpenSimWithReserve is OpenSim of a store that keeps a reserve.
func OpenSimWithReserve(fs *simfs.FS, opts *Options, sim Sim) (*Store, error) {
	when := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	return openOn(context.Background(), fs.Root(), opts, engine.TestHooks{
		Now:    func() time.Time { return when },
		Nonce:  func() string { return sim.Nonce },
		InTurn: true, Manual: sim.Manual, Segment: sim.Segment, Preallocate: 4096,
	})
}

// ReserveSize is how large the reserve is when it is whole.
const ReserveSize = engine.ReserveSize

// KeyCount and KeyAge are how many idempotency keys are kept and how long.
const (
	KeyCount = engine.KeyCount
	KeyAge   = engine.KeyAge
)

// KeyIndex is the index of a store without its journal.
type KeyIndex struct{ rows *engine.RowIndex }

// OpenKeyIndex loads the newest snapshot of a directory.
func OpenKeyIndex(dir fsx.Dir) (*KeyIndex, error) {
	r, err := engine.OpenRows(dir)
	return &KeyIndex{r}, err
}

// Fold takes the row of a commit with a key, made some time ago.
func (x *KeyIndex) Fold(seq uint64, key, path string, ago time.Duration) {
	x.rows.Fold(&journal.Record{
		Seq: seq, Kind: journal.KindCommit, Key: key, TS: stamp.Text(time.Now().Add(-ago)),
		Muts: []journal.Mutation{{Op: "create", Path: path, Rev: 1}},
	}, journal.Pos{})
}

// Save writes a snapshot when the journal has come to a row.
func (x *KeyIndex) Save(dir fsx.Dir, head uint64) error {
	return x.rows.WriteAt(dir, journal.Pos{Seq: head})
}

// Knows returns the rows of a key and of a path; 0 for none.
func (x *KeyIndex) Knows(key, path string) (ofKey, ofPath uint64, err error) {
	k, err := x.rows.Get(index.IdemKey(key))
	if err != nil {
		return 0, 0, err
	}
	p, err := x.rows.Last(path)
	return k.Seq, p.Seq, err
}

// Close releases the snapshot.
func (x *KeyIndex) Close() error { return x.rows.Close() }

// ReplyOf returns the reply that the row of a commit contains.
func (s *Store) ReplyOf(seq uint64) (json.RawMessage, error) {
	rec, err := s.engine.Log.Find(seq)
	if err != nil {
		return nil, err
	}
	return rec.Reply, nil
}

// KeepWithoutReply writes the row of an edit as earlier versions did, without its
// reply.
func (s *Store) KeepWithoutReply(r EditRequest, sha string) error {
	_, err := s.engine.Log.Write(&journal.Batch{Recs: []*journal.Record{{
		Kind: journal.KindCommit, Writer: s.engine.Writer, Key: r.IdempotencyKey, KeyHash: identity("edit", r), TS: stamp.Text(s.engine.Now()),
		Muts: []journal.Mutation{{Op: "edit", Path: r.Path, SHA256: sha, PrevSHA256: engine.HashOf([]byte("?")), Rev: 1}},
	}}})
	if err != nil {
		return err
	}
	return s.engine.Log.Show(s.engine.Log.Head())
}

// SetNow lets a test choose the time of a store that nothing else uses at the
// moment.
func (s *Store) SetNow(now time.Time) { s.engine.TestHooks.Now = func() time.Time { return now } }

// ScratchLimits are the caps of the scratchpad in bytes.
const (
	MaxScratch      = scratch.MaxObject
	MaxScratchTotal = scratch.MaxTotal
)

// SnapshotNow writes a snapshot of the index even if the last one is recent.
func (s *Store) SnapshotNow() error { return s.engine.Rows.Write(s.engine.Disk.Index, s.engine.Log) }

// RollJournal begins a new segment.
func (s *Store) RollJournal() error { return s.engine.Log.Roll(context.Background()) }

// CountRows counts the rows of the journal, archived ones too.
func (s *Store) CountRows() (n int, err error) {
	err = s.engine.Log.Range(1, func(*journal.Record, journal.Pos) error { n++; return nil })
	return n, err
}

// RebuildRows folds the journal again.
func (s *Store) RebuildRows() error { return s.engine.RebuildRows() }
