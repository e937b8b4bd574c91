package analytics

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resilientwrite/resilientwrite/internal/journal"
)

// TestAbort takes commits back near and far behind them. What is left must be
// exactly what the journal without those commits gives.
func TestAbort(t *testing.T) {
	gone := commit(2, 7200, "bob", file("create", "gone", 99), file("edit", "kept", 99),
		state("chunk", "chunks/s/part-001.txt"), state("checkpoint", "checkpoints/c.json"))
	first := commit(1, 10, "ann", file("create", "kept", 1))
	for _, c := range []struct {
		what    string
		filler  int    // commits between the commit and its abort
		settled uint64 // that its writer has told of in them
		before  bool   // the abort stands before the commit
		counted bool   // nonetheless
	}{
		{what: "at once"},
		{what: "before", before: true},
		{what: "within the window", filler: window - 10},
		{what: "at the edge of the window", filler: window - 2},
		{what: "far behind, never settled", filler: 2 * window},
		{what: "far behind, settled, which cannot be", filler: 2 * window, settled: 2, counted: true},
	} {
		t.Run(c.what, func(t *testing.T) {
			var filler []*journal.Record
			for i := range c.filler {
				r := commit(uint64(i+3), 20+i%60, "", file("edit", fmt.Sprint("f", i%7), 1))
				r.Writer = "w3"
				r.Settled = r.Seq - 1
				filler = append(filler, r)
			}
			if c.settled > 0 {
				filler[0].Writer, filler[0].Settled = gone.Writer, c.settled
			}
			end := uint64(c.filler + 3)
			rows := append([]*journal.Record{first, gone}, filler...)
			rows = append(rows, aborted(end, 2))
			if c.before {
				rows = []*journal.Record{first, aborted(3, 2), gone}
			}
			want := append([]*journal.Record{first}, filler...)
			if c.counted {
				want = rows[:len(rows)-1]
			}
			if diff := cmp.Diff(fold(Options{}, want...), fold(Options{}, rows...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestAbortOfOthers aborts what is not there, and one of two commits of a path.
func TestAbortOfOthers(t *testing.T) {
	one, two := commit(1, 1, "", file("create", "a", 1)), commit(3, 2, "", file("edit", "a", 2))
	got := fold(Options{}, one, aborted(2, 0), two, aborted(4, 2), aborted(5, 4), aborted(6, 6), aborted(7, 3), aborted(8, 3))
	if diff := cmp.Diff(fold(Options{}, one), got); diff != "" {
		t.Error(diff)
	}
}

// TestAbortOfLargeCommit aborts a commit that does not fit into the window.
func TestAbortOfLargeCommit(t *testing.T) {
	large := commit(2, 1, "")
	for i := range window + 100 {
		large.Muts = append(large.Muts, file("create", fmt.Sprint(i), 1))
	}
	one, three := commit(1, 1, "", file("create", "a", 1)), commit(3, 2, "", file("edit", "a", 2))
	f := New(Options{})
	for _, r := range []*journal.Record{one, large, three, aborted(4, 2)} {
		f.Add(r)
	}
	if f.lateLen != 1 { // of the first commit, which nobody said is settled
		t.Errorf("%d mutations are held to the end", f.lateLen)
	}
	if diff := cmp.Diff(fold(Options{}, one, three), f.Result()); diff != "" {
		t.Error(diff)
	}
}

// TestInDoubt has commits that nobody settles: they are counted in the end, the
// timeline is in the order of the journal, and what is held stays bounded.
func TestInDoubt(t *testing.T) {
	const rows = 4 * window
	f := New(Options{})
	for i := range rows {
		r := commit(uint64(i+1), i, "", file("edit", "a", 1))
		r.Writer = fmt.Sprint("w", i)
		if i%1000 > 0 && i < rows-100 { // the last hundred and some others
			r.Settled = r.Seq
		}
		f.Add(r)
		if len(f.ring) > window || f.lateLen > lateLimit || len(f.writers) > 2*window {
			t.Fatalf("holds %d, %d and %d", len(f.ring), f.lateLen, len(f.writers))
		}
	}
	if f.lateLen == 0 {
		t.Error("nothing was held for longer")
	}
	got := f.Result()
	if got.TotalWrites != rows || len(got.Timeline) != timelineLen {
		t.Errorf("%d writes, %d shown", got.TotalWrites, len(got.Timeline))
	}
	for i, e := range got.Timeline {
		if e.Seq != uint64(rows-timelineLen+1+i) {
			t.Errorf("%d: %d", i, e.Seq)
		}
	}
	if diff := cmp.Diff(got, f.Result()); diff != "" {
		t.Error(diff)
	}
}

// TestLateTimeline shows a commit in doubt where it belongs, although it is
// counted after newer ones.
func TestLateTimeline(t *testing.T) {
	f := New(Options{})
	f.Add(commit(1, 1, "", file("create", "a", 1)))
	for i := range window + 10 {
		r := commit(uint64(i+2), 2, "", state("scratch_put", "scratch/x"))
		if i < 5 {
			r.Muts[0] = file("edit", "b", 1)
		}
		r.Writer, r.Settled = "w3", uint64(i+2)
		f.Add(r)
	}
	var got []uint64
	for _, e := range f.Result().Timeline {
		got = append(got, e.Seq)
	}
	if diff := cmp.Diff([]uint64{1, 2, 3, 4, 5, 6}, got); diff != "" {
		t.Error(diff)
	}
}

func TestTooManyInDoubt(t *testing.T) {
	f := New(Options{})
	for i := range window + 2*lateLimit {
		f.Add(commit(uint64(i+1), 1, "", file("edit", "a", 1)))
	}
	if f.lateLen != lateLimit {
		t.Errorf("%d", f.lateLen)
	}
	if got := f.Result(); got.TotalWrites != window+2*lateLimit || got.Timeline[0].Seq != uint64(window+2*lateLimit-timelineLen+1) {
		t.Errorf("%d %+v", got.TotalWrites, got.Timeline[0])
	}
}
