package journal_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestTornRowsNeedNoSpace: on a disk without a free byte the journal opens
// after a torn row of any length, in every reading, every row before
// it is there, and the row that comes when there is room follows them. So it does after a
// row that lacks its newline, which the next one ends.
func TestTornRowsNeedNoSpace(t *testing.T) {
	for _, text := range []string{"", "z", "\n{\"seq\":3,", strings.Repeat("z", 300), strings.Repeat("z", 200_000)} {
		fs := simfs.New()
		l := open(t, fs, journal.Options{})
		for _, path := range []string{"a", "b"} {
			testbed.NoErr(t, write(l, path, true))
		}
		testbed.NoErr(t, l.Close())
		name := fmt.Sprintf("journal/%020d.jsonl", 1)
		data, _ := fs.ReadFile(name)
		if text == "" {
			data = bytes.TrimRight(data, "\n\x00")
		}
		fs.WriteFile(name, append(data, text...), 0o600)
		fs.CapBytes(1) // everything that is there stays
		for range 3 {
			fs.Kill()
			l, rep, err := tryOpen(fs, journal.Options{})
			testbed.NoErr(t, err, text)
			got := fmt.Sprint(paths(t, l))
			testbed.Expect(t, (got == "[a b]" || text == "") && l.Head() == 2, "%.10q: %s, head %d, %+v", text, got, l.Head(), rep)
		}
		fs.Kill()
		fs.CapBytes(0)
		l = open(t, fs, journal.Options{})
		testbed.NoErr(t, write(l, "c", true))
		got := fmt.Sprint(paths(t, l))
		testbed.Expect(t, got == "[a b c]" && l.Head() == 3, "%.10q: %s, head %d", text, got, l.Head())
		l.Close()
	}
}

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
	dir := testbed.Must(disk.Root().OpenDir("journal"))(t)
	f := testbed.Must(dir.Open(fmt.Sprintf("%020d.jsonl", segment), fsx.Read|fsx.Write, 0))(t)
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

// behindTimes is a directory whose segments are read as a busy machine may read
// them: the first time a part of the bytes is not there yet, although what
// comes after it is.
type behindTimes struct {
	fsx.Dir
	from, to int64
	reads    *int
}

func (d behindTimes) Open(name string, flag fsx.Flag, perm uint32) (fsx.File, error) {
	f, err := d.Dir.Open(name, flag, perm)
	if err != nil || !strings.HasSuffix(name, ".jsonl") {
		return f, err
	}
	return behindFile{f, d}, nil
}

type behindFile struct {
	fsx.File
	d behindTimes
}

func (f behindFile) ReadAt(p []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(p, off)
	if len(p) < 100 { // only a look whether there is something
		return n, err
	}
	if *f.d.reads++; *f.d.reads == 1 {
		for i := max(f.d.from, off); i < min(f.d.to, off+int64(n)); i++ {
			p[i-off] = 0
		}
	}
	return n, err
}

// TestAReadIsNotOneMoment: a reader that sees later rows of another process
// before earlier ones still takes all of them, in order.
func TestAReadIsNotOneMoment(t *testing.T) {
	fs := simfs.New()
	writer := open(t, fs, journal.Options{})
	var ends []int64 // of the rows
	for _, path := range []string{"a", "b", "c", "d", "e", "f"} {
		testbed.NoErr(t, write(writer, path, true))
		ends = append(ends, writer.End().Offset)
	}
	for name, part := range map[string][2]int64{
		"whole rows":            {ends[0], ends[2]},
		"the end of one":        {ends[1] - 30, ends[1]},
		"with the line break":   {ends[1] - 30, ends[1] - 1},
		"the beginning of one":  {ends[1], ends[1] + 30},
		"from the middle of it": {ends[1] - 40, ends[3] - 40},
		"the first rows":        {0, ends[1]},
	} {
		dir := testbed.Must(fs.Root().OpenDir("journal"))(t)
		lock := testbed.Must(fs.Root().Open("lock", fsx.Read|fsx.Write, 0o600))(t)
		var took []string
		reads := 0
		l, rep, err := journal.Open(ctx, journal.Options{
			Dir: behindTimes{dir, part[0], part[1], &reads}, Lock: lock, Writer: "reader", ReadOnly: true,
			OnRecord: func(r *journal.Record, _ journal.Pos) {
				for _, m := range r.Muts {
					took = append(took, m.Path)
				}
			},
		})
		testbed.NoErr(t, err)
		testbed.Expect(t, slices.Equal(took, []string{"a", "b", "c", "d", "e", "f"}) && rep.Malformed == 0 && reads >= 2,
			"%s: took %v, %d malformed, after %d reads", name, took, rep.Malformed, reads)
		l.Close()
	}
}
