package resilientwrite_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/admin"
	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

func none() *int { n := 0; return &n }

func compact(t *testing.T, s *rw.Store, r admin.CompactRequest) admin.CompactResult {
	t.Helper()
	return must(s.Admin().Compact(background, r))(t, "compact")
}

// manyRows gives a store rows over several segments: versions of three paths, a
// refusal, a move and a deletion.
func manyRows(t *testing.T, s *rw.Store, rounds int) {
	t.Helper()
	for i := range rounds {
		for _, p := range []string{"a.txt", "d/b.txt", "c.txt"} {
			write(t, s, p, fmt.Sprintf("version %d of %s\n", i, p), rw.ModeOverwrite)
		}
	}
	s.SafeWrite(background, put("a.txt", "x", rw.ModeCreate))
	noErr(t, move("c.txt", "moved.txt", false)(s))
	must(s.Delete(background, rw.DeleteRequest{Path: "d/b.txt"}))(t)
}

var manyPaths = []string{"a.txt", "d/b.txt", "c.txt", "moved.txt"}

// TestAGapIsReportedOnce: rows are written and archived while a reader asks for those after
// its cursor. It is told of the gap, and goes on after it.
func TestAGapIsReportedOnce(t *testing.T) {
	for n := range 8 {
		fs := simfs.New()
		s, other := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001"}))(t), must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0002", Segment: 3000}))(t)
		rows := func(n int) {
			for range n {
				write(t, other, "a.txt", fmt.Sprint(fs.Muts()), rw.ModeOverwrite)
			}
		}
		rows(10)
		left := n
		fs.Before(func(op simfs.Op) {
			if left--; strings.Contains(op.Path, "/journal") && left < 0 {
				fs.Before(nil)
				rows(40)
				compact(t, other, admin.CompactRequest{KeepRows: none()})
			}
		})
		gaps, after := 0, uint64(1)
		for more := true; more; {
			r := must(s.JournalSince(background, rw.JournalSinceRequest{AfterSeq: &after}))(t)
			if r.Gap {
				gaps++
				expect(t, len(r.Entries) == 0 || r.Entries[0].Seq == r.Archived.To+1, "operation %d: %+v, and row %d", n, r.Archived, r.Entries[0].Seq)
			}
			more, after = r.Gap || r.NextSeq > after, r.NextSeq
			require(t, gaps < 3, "operation %d: the gap is reported again and again", n)
		}
		expect(t, gaps <= 1, "operation %d: %d gaps", n, gaps)
	}
}

// TestCompactParksAndLosesNothing: rows in the archive are still in history and tail,
// can be undone to and are checked; only cursors report a gap.
func TestCompactParksAndLosesNothing(t *testing.T) {
	fs := simfs.New()
	s, err := rw.OpenSim(fs, nil, rw.Sim{Segment: 3200})
	noErr(t, err)
	manyRows(t, s, 8)
	history := allHistory(t, s, manyPaths...)
	tail, _ := s.JournalTail(background, rw.JournalTailRequest{N: 1000, IncludeRefused: true})
	rows, _ := s.CountRows()

	plan := compact(t, s, admin.CompactRequest{KeepRows: none(), Call: rw.Call{DryRun: true}})
	before := treeOf(fs)
	require(t, len(plan.Archived) >= 3 && plan.LiveFrom == 1 && before == treeOf(fs), "dry run: %+v", plan)
	r := compact(t, s, admin.CompactRequest{KeepRows: none(), Call: rw.Call{Caller: "operator"}})
	require(t, fmt.Sprint(r.Archived[:len(plan.Archived)]) == fmt.Sprint(plan.Archived) && r.Snapshots == 2 && r.Status == rw.StatusSucceeded &&
		r.LiveFrom == r.Archived[len(r.Archived)-1].Last+1 && r.Receipt.JournalSeq != 0 && r.Receipt.Caller == "operator",
		"%+v\nplanned %+v", r, plan)
	length(t, simFiles(fs, "archive"), len(r.Archived), "archive holds")
	look := func(s *rw.Store) {
		t.Helper()
		check(t, s, true)
		equal(t, allHistory(t, s, manyPaths...), history, "history is")
		got, err := s.JournalTail(background, rw.JournalTailRequest{N: 1000, IncludeRefused: true})
		expect(t, err == nil && len(got.Entries) == len(tail.Entries) && got.Entries[0] == tail.Entries[0] && got.Malformed == 0,
			"%v: tail has %d entries, had %d", err, len(got.Entries), len(tail.Entries))
		n := must(s.CountRows())(t)
		expect(t, n >= rows+len(r.Archived), "%d rows, had %d", n, rows)
		zero, last := uint64(0), r.LiveFrom-1
		since, err := s.JournalSince(background, rw.JournalSinceRequest{AfterSeq: &zero, Limit: 1000})
		expect(t, err == nil && since.Gap && since.Reason == "archived" && since.Archived != nil &&
			*since.Archived == (rw.ArchivedRows{From: 1, To: last, Rows: last}), "%v %+v", err, since.Archived)
		for _, e := range since.Entries {
			expect(t, e.Seq >= r.LiveFrom, "row %d of the archive came through a cursor", e.Seq)
		}
		since, _ = s.JournalSince(background, rw.JournalSinceRequest{AfterSeq: &last})
		expect(t, !since.Gap, "a gap that does not exist")
	}
	look(s)
	again := compact(t, s, admin.CompactRequest{KeepRows: none()})
	expect(t, again.Status == rw.StatusUnchanged && len(again.Archived) == 0 && again.Receipt.JournalSeq == 0, "again: %+v", again)
	s.Close(background)
	for _, name := range append(simFiles(fs, "index"), "") {
		s, err = rw.OpenSim(fs, nil, rw.Sim{Segment: 3200, Nonce: "9" + name[max(0, len(name)-7):max(0, len(name)-5)]})
		noErr(t, err)
		look(s)
		s.Close(background)
		fs.Remove(rw.StateDirName + "/index/" + name)
	}
	s, _ = rw.OpenSim(fs, nil, rw.Sim{Segment: 3200, Nonce: "0abc"})
	expect(t, s.Recovery().Rebuilt || s.Recovery().Malformed <= 0, "%+v", s.Recovery())
	look(s)
	must(s.Restore(background, rw.RestoreRequest{Path: "a.txt", SHA256: digest(hash("version 0 of a.txt\n"))}))(t, "restore of an archived version")
	must(s.Undo(background, rw.UndoRequest{N: 4}))(t, "undo")
	check(t, s, true)
}

// TestArchiveMayBeTakenAway: without the archive the store continues to work, and Check
// reports the missing rows.
func TestArchiveMayBeTakenAway(t *testing.T) {
	fs := simfs.New()
	s, _ := rw.OpenSim(fs, nil, rw.Sim{Segment: 3200})
	handOff(t, s, handoff.WriteRequest{Envelope: anEnvelope("old")})
	kept := handOff(t, s, handoff.WriteRequest{Envelope: anEnvelope("new"), Archive: true}).ArchivedPath
	manyRows(t, s, 8)
	r := compact(t, s, admin.CompactRequest{KeepRows: none()})
	s.Close(background)
	for i, gone := range [][]string{simFiles(fs, "archive")[1:3], simFiles(fs, "archive"), simFiles(fs, "index")} {
		for _, name := range gone {
			fs.Remove(rw.StateDirName + "/archive/" + name)
			fs.Remove(rw.StateDirName + "/index/" + name)
		}
		s := must(rw.OpenSim(fs, nil, rw.Sim{Segment: 3200, Nonce: fmt.Sprint("000", i+2)}))(t)
		write(t, s, "a.txt", fmt.Sprint("on and on ", i), rw.ModeOverwrite)
		h, err := s.History(background, rw.HistoryRequest{Path: "a.txt", N: 1000})
		expect(t, err == nil && len(h.Versions) != 0 && h.Versions[0].SHA256.String() == hash(fmt.Sprint("on and on ", i)), "%v %+v", err, h)
		equal(t, takeOver(t, s, handoff.ReadRequest{Path: kept}).Envelope.TaskID, "old")
		got := must(s.Check(background, admin.CheckRequest{Deep: true}))(t)
		missing := 0
		for _, p := range got.Problems {
			equal(t, p.Code, "archive_missing", p)
			missing++
		}
		want := []int{2, len(r.Archived), len(r.Archived)}[i]
		expect(t, missing == want, "%d segments are named, want %d", missing, want)
		s.Close(background)
	}
}

// TestCompactBesideALaggingStore: a store that has read nothing for long finds
// its way through segments that moved meanwhile.
func TestCompactBesideALaggingStore(t *testing.T) {
	fs := simfs.New()
	a, _ := rw.OpenSim(fs, nil, rw.Sim{Segment: 2000, Nonce: "000a"})
	write(t, a, "first.txt", "1", rw.ModeCreate)
	b := must(rw.OpenSim(fs, nil, rw.Sim{Segment: 2000, Nonce: "000b"}))(t)
	ro := must(rw.OpenSim(fs, &rw.Options{ReadOnly: true}, rw.Sim{Segment: 2000, Nonce: "000c"}))(t)
	manyRows(t, a, 8)
	r := compact(t, a, admin.CompactRequest{KeepRows: none()})
	require(t, len(r.Archived) >= 3 && len(r.Warnings) == 0, "%+v", r)
	history := allHistory(t, a, manyPaths...)
	for name, s := range map[string]*rw.Store{"writer": b, "reader": ro} {
		if name == "writer" { // a reader knows the rows that it has read when it was opened
			equal(t, allHistory(t, s, manyPaths...), history, name, ": history is\n")
		}
		check(t, s, true)
	}
	write(t, b, "a.txt", "by b", rw.ModeOverwrite)
	write(t, a, "a.txt", "by a", rw.ModeOverwrite)
	h, _ := b.History(background, rw.HistoryRequest{Path: "a.txt"})
	expect(t, len(h.Versions) == 10 && h.Versions[0].SHA256.String() == hash("by a") && h.Versions[1].SHA256.String() == hash("by b"),
		"%+v", h.Versions)
	check(t, b, true)
	for _, s := range []*rw.Store{a, b, ro} {
		noErr(t, s.Close(background))
	}
}

// TestCompactBesideWriters: writers in two stores continue while segments are moved.
func TestCompactBesideWriters(t *testing.T) {
	fs := simfs.New()
	var stores [2]*rw.Store
	for i := range stores {
		s := must(rw.OpenSim(fs, &rw.Options{Sync: rw.SyncOff, LockTimeout: time.Minute}, rw.Sim{Segment: 2000, Nonce: fmt.Sprint("00", i)}))(t)
		stores[i] = s
	}
	var wg sync.WaitGroup
	done := make(chan bool)
	for w := range 4 {
		wg.Go(func() {
			for i := range 25 {
				_, err := stores[w%2].SafeWrite(background, put(fmt.Sprintf("%d.txt", w), fmt.Sprint("version ", i), rw.ModeOverwrite))
				expect(t, err == nil, "write: %v (%v)", err, errors.Unwrap(err))
			}
		})
	}
	go func() { wg.Wait(); close(done) }()
	parked := 0
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		parked += len(compact(t, stores[parked%2], admin.CompactRequest{KeepRows: none()}).Archived)
	}
	expect(t, parked >= 5, "%d segments were parked", parked)
	for _, s := range stores {
		for w := range 4 {
			h, err := s.History(background, rw.HistoryRequest{Path: fmt.Sprintf("%d.txt", w), N: 100})
			expect(t, err == nil && len(h.Versions) == 25, "%v: %d versions", err, len(h.Versions))
		}
		check(t, s, true)
		s.Close(background)
	}
}

// TestSnapshotsBesideWriters: writing a snapshot and adding rows never wait for each
// other for ever, and folding again hides no row in the meantime.
func TestSnapshotsBesideWriters(t *testing.T) {
	t.Parallel()
	s, _ := opened(t, &rw.Options{Sync: rw.SyncOff})
	var wg sync.WaitGroup
	stop := make(chan bool)
	for w := range 3 {
		wg.Go(func() {
			for i := 0; i < 60; i++ {
				write(t, s, fmt.Sprintf("%d.txt", w), fmt.Sprint(i), rw.ModeOverwrite)
			}
		})
	}
	go func() { wg.Wait(); close(stop) }()
	timeout := time.After(5 * time.Minute)
	for running := true; running; {
		select {
		case <-stop:
			running = false
		case <-timeout:
			t.Fatal("writers and snapshots wait for each other")
		default:
			noErr(t, s.SnapshotNow())
			noErr(t, s.RebuildRows())
		}
	}
	check(t, s, true)
}

// TestCompactRemovesWhatExpired, and nothing else.
func TestCompactRemovesWhatExpired(t *testing.T) {
	s, _ := opened(t, &rw.Options{Gate: rw.Gate{Mode: rw.GateBlock}})
	for i, ttl := range []rw.TTL{"", "P1D", "PT1H"} {
		must(s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte(fmt.Sprint("object ", i)), Label: fmt.Sprint(i), TTL: ttl}))(t)
		ttl = cmp.Or(ttl, "session")
		must(s.Checkpoint(background, rw.CheckpointRequest{Name: fmt.Sprint("c", i), Data: []byte(`{"n":1}`), TTL: ttl}))(t)
	}
	s.SetNow(time.Now().Add(2 * time.Hour))
	plan := compact(t, s, admin.CompactRequest{Call: rw.Call{DryRun: true}})
	expect(t, plan.ScratchRemoved == 1 && plan.CheckpointsGone == 1, "dry run: %+v", plan)
	r := compact(t, s, admin.CompactRequest{})
	expect(t, r.ScratchRemoved == 1 && r.CheckpointsGone == 1 && r.Status == rw.StatusSucceeded, "%+v", r)
	list, _ := s.ScratchList(background, rw.ScratchListRequest{})
	points, _ := s.CheckpointList(background, rw.CheckpointListRequest{})
	expect(t, len(list.Entries) == 2 && len(points.Checkpoints) == 2,
		"%d objects and %d checkpoints are left", len(list.Entries), len(points.Checkpoints))
	check(t, s, true)
	equal(t, compact(t, s, admin.CompactRequest{}).Status, rw.StatusUnchanged, "again")
}

// TestCompactAppliesTheLimitsOfHistory when no other process writes.
func TestCompactAppliesTheLimitsOfHistory(t *testing.T) {
	dir := withHistoryPolicy(t, "{max_versions: 3}")
	s := open(t, dir, nil)
	for i := range 10 {
		write(t, s, "a.txt", fmt.Sprint("version ", i), rw.ModeOverwrite)
	}
	noErr(t, s.Sync(background)) // three are the newest one and two before
	plan := compact(t, s, admin.CompactRequest{Call: rw.Call{DryRun: true}})
	expect(t, plan.VersionsRemoved == 7 && plan.VersionBytes == 7*int64(len("version 0")), "dry run: %+v", plan)
	h := must(s.History(background, rw.HistoryRequest{Path: "a.txt", N: 100}))(t)
	expect(t, h.Versions[9].Available, "a dry run removed versions:")
	r := compact(t, s, admin.CompactRequest{})
	expect(t, r.VersionsRemoved == 7 && r.VersionBytes == 7*int64(len("version 0")), "%+v", r)
	check(t, s, true)
	must(s.Undo(background, rw.UndoRequest{}))(t, "the newest prior version is gone")
}

// TestCompactRefusals change nothing.
func TestCompactRefusals(t *testing.T) {
	s, dir := opened(t, nil)
	write(t, s, "a.txt", "a", rw.ModeCreate)
	minus := -1
	fails(s.Admin().Compact(background, admin.CompactRequest{KeepRows: &minus}))(t, rw.ErrInvalidArgument)
	fails(s.Admin().Compact(background, admin.CompactRequest{Call: rw.Call{Caller: strings.Repeat("x", 300)}}))(t, rw.ErrInvalidArgument)
	ro := open(t, dir, &rw.Options{ReadOnly: true})
	fails(ro.Admin().Compact(background, admin.CompactRequest{}))(t, rw.ErrStoreReadOnly)
	expect(t, errorOf(os.Stat(filepath.Join(statePath(dir), "archive"))) != nil, "an archive was made")
}

// TestCompactSweep kills Compact everywhere and makes every operation fail.
func TestCompactSweep(t *testing.T) {
	upkeepSweep{
		step: 3, name: "compact", sim: rw.Sim{Segment: 2500},
		before: func(t *testing.T, s *rw.Store) { manyRows(t, s, 4) },
		run: func(ctx context.Context, s *rw.Store) error {
			return errorOf(s.Admin().Compact(ctx, admin.CompactRequest{KeepRows: none()}))
		},
		same: func(t *testing.T, s *rw.Store) string { return allHistory(t, s, manyPaths...) },
		after: func(t *testing.T, s *rw.Store, fs *simfs.FS) {
			if live, parked := simFiles(fs, "journal"), simFiles(fs, "archive"); len(live) > 2 || len(parked) < 2 {
				t.Errorf("live %v, parked %v", live, parked)
			}
		},
	}.sweeps(t)
}
