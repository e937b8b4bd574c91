package journal_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestLostBytesSweep: a power cut takes some bytes of the rows that were not
// flushed, from any byte on, also after a failed flush. Open, the readers, the
// audit and the next Open agree on which rows are left, and the journal goes
// on.
func TestLostBytesSweep(t *testing.T) {
	for _, o := range []journal.Options{{}, {Lost: lostFrom(3)}, {SegmentBytes: 900}, {SegmentBytes: 900, Lost: lostFrom(3)}} {
		fs := simfs.New()
		l := open(t, fs, o)
		flushed := journal.Pos{Segment: 1}
		for i := range 5 {
			testbed.NoErr(t, write(l, fmt.Sprint(i), i < 2))
			if i < 2 {
				flushed = l.End()
			}
		}
		end := l.End()
		if end.Segment > flushed.Segment {
			flushed.Offset = 0 // the segments before are flushed
		}
		var gaps [][2]int64
		for _, lost := range []int64{1, 2, 3, 60, 512} {
			for at := flushed.Offset; at < end.Offset; at += 1 + lost/20 {
				gaps = append(gaps, [2]int64{at, min(at+lost, end.Offset)})
			}
		}
		for _, gap := range testbed.Share(t, gaps, 16, nil) {
			disk := fs.Crash(0, simfs.None)
			lose(t, disk, end.Segment, gap)
			agree(t, disk, o)
			testbed.Require(t, !t.Failed(), "%d bytes a segment, bytes %d of segment %d are lost", o.SegmentBytes, gap, end.Segment)
		}
	}
}

// lose makes some bytes of a segment NUL.
func lose(t *testing.T, disk *simfs.FS, segment uint64, gap [2]int64) {
	t.Helper()
	dir, err := disk.Root().OpenDir("journal")
	testbed.NoErr(t, err)
	f, err := dir.Open(fmt.Sprintf("%020d.jsonl", segment), fsx.Read|fsx.Write, 0)
	testbed.NoErr(t, err)
	defer f.Close()
	testbed.Must(f.WriteAt(make([]byte, gap[1]-gap[0]), gap[0]))(t)
}

// agree opens what a crash left and writes a row, then opens it again.
func agree(t *testing.T, disk *simfs.FS, o journal.Options) {
	t.Helper()
	var before []string
	for _, path := range []string{"after", "later"} {
		var took []string
		o.OnRecord = func(r *journal.Record, _ journal.Pos) {
			for _, m := range r.Muts {
				took = append(took, m.Path)
			}
		}
		l := open(t, disk, o)
		o.Lost = nil
		testbed.Expect(t, (before == nil || slices.Equal(took, before)) && (before != nil || len(took) >= 2), "Open took %v after %v", took, before)
		testbed.NoErr(t, write(l, path, true))
		audit(t, l)
		if before = paths(t, l); !slices.Equal(took, before) {
			t.Errorf("took %v, Range found %v", took, before)
		}
		l.Close()
	}
}
