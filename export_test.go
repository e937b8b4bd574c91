package resilientwrite

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/place"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// Sim configures the opening of a store on a simulated file system.
type Sim struct {
	Segment int64 // bytes of a journal segment
	Nonce   string
	Manual  bool // leave background settling undone
	// AppendFrom is the size from which a file is appended to in place; 0: the default.
	AppendFrom int64
	LockWait   time.Duration // for the lock of the journal
	Many       int           // files from which a commit holds few of them open
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
	if sim.Nonce == "" {
		sim.Nonce = "0000"
	}
	when := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
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
		User:   func() int { return 0 }, // of the files of a simulated disk
		InTurn: true, Manual: sim.Manual, Segment: sim.Segment, Preallocate: 4096, NoReserve: true, Slots: 2, State: sim.State, AppendFrom: sim.AppendFrom, Unrecovered: sim.Unrecovered, LockWait: sim.LockWait, Many: sim.Many,
	})
}

// SetMany sets the number of files from which a commit holds few of them open.
func (s *Store) SetMany(n int) { s.engine.TestHooks.Many = n }

// CommitAll makes several writes as one commit.
func (s *Store) CommitAll(ctx context.Context, reqs ...SafeWriteRequest) error {
	var all *commit
	for i := range reqs {
		c, m := s.newWrite(ctx, "tx", &reqs[i])
		m.Content = engine.MemBody([]byte(reqs[i].Content))
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
	left, err := s.engine.HeldSlots()
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
		if _, err := s.engine.Log.Write(context.Background(), &journal.Batch{Recs: recs, Before: link}); err != nil {
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
// it, except those that request the default.
func init() { placeFor = placeInTree }

func placeInTree(w *place.Workspace, readOnly bool) (place.Opened, error) {
	return w.OpenAt(w.Of(place.Tree), !readOnly)
}

// DefaultPlace has stores opened where they are by default, until restore is
// called.
func DefaultPlace() (restore func()) {
	placeFor = func(w *place.Workspace, readOnly bool) (place.Opened, error) { return w.Open(readOnly) }
	return func() { placeFor = placeInTree }
}
