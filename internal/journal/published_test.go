package journal_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// follow opens the journal as a process of its own and collects what it takes.
func follow(t *testing.T, fs *simfs.FS, o journal.Options, writer string) (*journal.Log, *[]string) {
	t.Helper()
	took := &[]string{}
	o.Writer = writer
	o.OnRecord = func(r *journal.Record, _ journal.Pos) {
		*took = append(*took, fmt.Sprint(r.Seq, " ", r.Writer))
		for _, m := range r.Muts {
			(*took)[len(*took)-1] += " " + m.Path
		}
	}
	l, _, err := openIn(fs.NewProcess().Root(), o)
	testbed.NoErr(t, err)
	return l, took
}

func batch(l *journal.Log, paths ...string) error {
	seq, err := l.Write(created(paths...))
	if err == nil {
		err = l.Flush(seq)
	}
	return err
}

// fullOnce makes the disk full in the middle of a batch of three rows.
func fullOnce(fs *simfs.FS) {
	full := false
	fs.Inject(func(op simfs.Op) simfs.Fault {
		if op.Kind == "write" && strings.Contains(op.Path, "journal/") && op.Len > 900 && op.Len < 2048 && !full {
			full = true
			return simfs.Fault{Err: syscall.ENOSPC, Short: 800}
		}
		return simfs.Fault{}
	})
}

// TestWithdrawnRowsSweep: the disk is full in the middle of a batch, which is
// rolled back, and the writer goes on. Others read the journal before each
// operation of that, or open it for reading. They never take a row that is not
// there, and no two rows of one number.
func TestWithdrawnRowsSweep(t *testing.T) {
	for n := 0; ; n++ {
		fs := simfs.New()
		a, _ := follow(t, fs, journal.Options{}, "a")
		b, took := follow(t, fs, journal.Options{}, "b")
		testbed.NoErr(t, batch(a, "first"))
		fullOnce(fs)
		count, reached := 0, false
		var reader *journal.Log
		var read *[]string
		fs.Before(func(simfs.Op) {
			if count++; count != n+1 {
				return
			}
			reached = true
			fs.Before(nil)
			err := b.CatchUp()
			testbed.Expect(t, err == nil, "%v", err)
			reader, read = follow(t, fs, journal.Options{ReadOnly: true, Live: true}, "r")
		})
		err := batch(a, "lost", "lost as well", "lost, too")
		testbed.Require(t, errors.Is(err, syscall.ENOSPC), "the batch was written: %v", err)
		testbed.NoErr(t, batch(a, "second"))
		fs.Before(nil)
		if !reached {
			return
		}
		logs, tooks := []*journal.Log{b, reader}, []*[]string{took, read}
		if fs.Inject(nil); reader == nil {
			logs = logs[:1]
		}
		_, want := follow(t, fs, journal.Options{}, "c")
		for i, l := range logs {
			testbed.NoErr(t, l.CatchUp())
			testbed.Require(t, slices.Equal(*tooks[i], *want), "read before operation %d: reader %d took %q, want %q", n, i, *tooks[i], *want)
		}
	}
}

// TestWithdrawnRowsStayAway: a batch that was rolled back on a full disk does not
// come back with a power cut, although the page cache held it.
func TestWithdrawnRowsStayAway(t *testing.T) {
	fs := simfs.New()
	a := open(t, fs, journal.Options{})
	testbed.NoErr(t, batch(a, "first"))
	fullOnce(fs)
	testbed.Require(t, batch(a, "lost", "lost as well", "lost, too") != nil, "the batch was written")
	for seed := range uint64(60) {
		got := paths(t, open(t, fs.Crash(seed, simfs.Older), journal.Options{}))
		testbed.Require(t, slices.Equal(got, []string{"first"}), "a power cut left %q", got)
	}
}

// TestShowFlushesRowsOfOthers: a store that promises nothing shows its rows;
// those of another one that does are on stable storage before readers see
// them, and its poisoned flush is not hidden.
func TestShowFlushesRowsOfOthers(t *testing.T) {
	fs := simfs.New()
	a := open(t, fs, journal.Options{Writer: "a"})
	off := open(t, fs, journal.Options{Writer: "off"})
	testbed.NoErr(t, write(off, "shown", false))
	testbed.NoErr(t, off.Show(1))
	write(a, "of another", false)
	write(off, "shown, too", false)
	testbed.NoErr(t, off.Show(3))
	recs, _, err := off.Tail(10, nil, 0)
	testbed.Require(t, err == nil && len(recs) == 3, "%d rows are shown: %v", len(recs), err)
	got := paths(t, open(t, fs.Crash(1, simfs.All), journal.Options{}))
	testbed.Expect(t, slices.Contains(got, "of another"), "readers saw a row of another process, which a power cut takes: %q", got)
}

// TestPublishedRowsAreDurableSweep: at no operation of a flush is a row published that a
// power cut would take. Other rows are written during each flush, which does not cover
// them.
func TestPublishedRowsAreDurableSweep(t *testing.T) {
	fs := simfs.New()
	l := open(t, fs, journal.Options{})
	check := func(op simfs.Op) {
		header, _ := fs.ReadFile("lock")
		published := binary.LittleEndian.Uint64(header[64:])
		kept := paths(t, open(t, fs.Crash(1, simfs.All), journal.Options{}))
		testbed.Expect(t, published <= uint64(len(kept)), "%v: %d rows are published, a power cut leaves %q", op, published, kept)
	}
	fs.Before(check)
	fs.After(func(op simfs.Op) {
		if op.Kind != "datasync" {
			return
		}
		err := write(l, "during it", false)
		testbed.Expect(t, err == nil, "%v", err)
	})
	for _, path := range []string{"first", "second"} {
		testbed.NoErr(t, write(l, path, true))
	}
	check(simfs.Op{})
}

// TestReadersFollowARewrittenSegment: a reader that does not write sees rows
// that were written after another process had written the segment again.
func TestReadersFollowARewrittenSegment(t *testing.T) {
	fs := simfs.New()
	a := open(t, fs, journal.Options{Writer: "a"})
	write(a, "one", true)
	b := open(t, fs, journal.Options{Writer: "b", Lost: lostFrom(1)})
	write(b, "two", true)
	recs, _, err := a.Tail(10, nil, 0)
	if err != nil || len(recs) != 2 || a.Head() != 2 {
		t.Errorf("%d rows, head %d: %v", len(recs), a.Head(), err)
	}
}

// TestReach: a process knows every row that another one wrote and did not show, also in
// another segment, and in one that was written again. It takes the journal lock only if
// there are such rows.
func TestReach(t *testing.T) {
	fs := simfs.New()
	b := open(t, fs, journal.Options{Writer: "b"})
	locked := false
	fs.Before(func(op simfs.Op) { locked = locked || op.Kind == "lock" })
	reach := func(head uint64, locks bool) {
		t.Helper()
		locked = false
		if err := b.Reach(ctx); err != nil || b.Head() != head || locked != locks {
			t.Fatalf("head %d, want %d; locked %v: %v", b.Head(), head, locked, err)
		}
	}
	reach(0, false)
	a := open(t, fs, journal.Options{Writer: "a", SegmentBytes: 500})
	for seq := range uint64(6) {
		write(a, "not shown", false)
		reach(seq+1, true)
		reach(seq+1, false)
	}
	if n, err := fs.Root().OpenDir("journal"); err != nil {
		t.Fatal(err)
	} else if names, _ := n.Names(); len(names) < 2 {
		t.Fatal("there is one segment", names)
	}
	again := open(t, fs, journal.Options{Writer: "c", Lost: lostFrom(1)})
	write(again, "not shown", false)
	reach(7, true)
	testbed.NoErr(t, b.Close())
	reach(7, false)
}
