package journal_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// withArchive are options of a journal that may park segments.
func withArchive(fs *simfs.FS) journal.Options {
	return journal.Options{SegmentBytes: 900, Archive: func(make bool) (fsx.Dir, error) {
		root := fs.Root()
		if make {
			root.Mkdir("archive", 0o700)
			if err := root.Sync(); err != nil {
				return nil, err
			}
		}
		return root.OpenDir("archive")
	}}
}

// TestParkedRowsAreRead: by number, by range, from the end; a cursor reports
// the gap; a journal that is opened again folds them too.
func TestParkedRowsAreRead(t *testing.T) {
	for _, noLink := range []bool{false, true} {
		fs := simfs.New()
		fs.NoLink = noLink
		l := open(t, fs, withArchive(fs))
		for i := range 20 {
			if err := write(l, fmt.Sprint(i), true); err != nil {
				t.Fatal(err)
			}
		}
		lagging := open(t, fs, withArchive(fs))
		sealed, err := l.Sealed()
		if err != nil || len(sealed) < 4 {
			t.Fatalf("%v %v", sealed, err)
		}
		if err := l.Park(ctx, append(sealed, 99, l.End().Segment)); err != nil {
			t.Fatal(err)
		}
		if err := l.Park(ctx, sealed); err != nil { // nothing is left to do
			t.Fatal(err)
		}
		for i := range 3 {
			if err := write(l, fmt.Sprint("more ", i), true); err != nil {
				t.Fatal(err)
			}
		}
		if err := write(lagging, "by another", true); err != nil {
			t.Fatal(err)
		}
		folded := 0
		o := withArchive(fs)
		o.OnRecord = func(*journal.Record, journal.Pos) { folded++ }
		for name, l := range map[string]*journal.Log{"own": l, "lagging": lagging, "fresh": open(t, fs, o)} {
			if got := paths(t, l); len(got) != 24 || got[0] != "0" || got[23] != "by another" {
				t.Errorf("%s: %v", name, got)
			}
			if r, err := l.Find(2); err != nil || r.Muts[0].Path != "1" {
				t.Errorf("%s: %v", name, err)
			}
			if recs, _, err := l.Tail(24, nil, 0); err != nil || len(recs) != 24 || recs[0].Seq != 1 {
				t.Errorf("%s: %d rows, %v", name, len(recs), err)
			}
			oldest, _ := l.Oldest()
			recs, _, gap, bad, err := l.Since(0, 100, nil)
			if err != nil || !gap || bad > 0 || recs[0].Seq != oldest || oldest != sealed[len(sealed)-1]+uint64(len(sealedRows(t, l, sealed[len(sealed)-1]))) {
				t.Errorf("%s: gap %v, %d bad, from %d, %v", name, gap, bad, recs[0].Seq, err)
			}
			audit(t, l)
		}
		if folded != 24 {
			t.Errorf("%d rows were folded", folded)
		}
	}
}

// sealedRows are the rows of one segment.
func sealedRows(t *testing.T, l *journal.Log, first uint64) []int64 {
	t.Helper()
	f, err := l.Facts(first)
	if err != nil || f.First != first || f.Last < first || int64(f.Last-f.First+1) != f.Rows || len(f.SHA256) != 64 {
		t.Fatalf("%+v %v", f, err)
	}
	return make([]int64, f.Rows)
}

// TestArchiveOfAnotherJournal: a segment of the same name with other bytes is
// never replaced.
func TestArchiveOfAnotherJournal(t *testing.T) {
	fs := simfs.New()
	l := open(t, fs, withArchive(fs))
	for i := range 10 {
		write(l, fmt.Sprint(i), true)
	}
	sealed, _ := l.Sealed()
	fs.WriteFile("archive/"+journal.SegmentFile(sealed[1]), []byte("something else"), 0o600)
	if err := l.Park(ctx, sealed); !errors.Is(err, journal.ErrTaken) {
		t.Errorf("%v", err)
	}
	if got := paths(t, l); len(got) != 10 {
		t.Errorf("%v", got)
	}
}

// TestHolesThatACrashMakes: of rows that were written together and not flushed,
// later ones may survive without earlier ones. They are kept, a note names the
// hole, and the audit is clean.
func TestHolesThatACrashMakes(t *testing.T) {
	holes := 0
	for seed := range uint64(150) {
		fs := simfs.New()
		l := open(t, fs, journal.Options{})
		write(l, "flushed", true)
		var recs []*journal.Record
		for i := range 12 {
			recs = append(recs, &journal.Record{Kind: journal.KindCommit, Writer: "w", Muts: []journal.Mutation{{Op: "create", Path: fmt.Sprint(i), SHA256: strings.Repeat("b", 64)}}})
		}
		if _, err := l.Write(&journal.Batch{Recs: recs}); err != nil {
			t.Fatal(err)
		}
		disk := fs.Crash(seed, simfs.Some)
		for range 2 {
			l, rep, err := tryOpen(disk, journal.Options{Flushed: 1})
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range rep.Torn {
				if n.Missing != nil {
					holes++
				}
			}
			if err := write(l, "after", true); err != nil {
				t.Fatal(err)
			}
			audit(t, l)
			l.Close()
			if t.Failed() {
				t.Fatalf("seed %d: %+v", seed, rep)
			}
		}
	}
	if holes < 10 {
		t.Errorf("only %d holes were seen", holes)
	}
}

// TestHolesThatNoCrashMakes: rows that were flushed and are gone are not
// explained away.
func TestHolesThatNoCrashMakes(t *testing.T) {
	fs := simfs.New()
	l := open(t, fs, journal.Options{})
	for i := range 6 {
		write(l, fmt.Sprint(i), true)
	}
	l.Close()
	name := "journal/" + journal.SegmentFile(1)
	data, _ := fs.ReadFile(name)
	rows := bytes.Split(bytes.Trim(data, "\n\x00"), []byte("\n\n"))
	rows[2] = rows[2][:20]
	fs.WriteFile(name, append(append([]byte("\n"), bytes.Join(rows, []byte("\n\n"))...), '\n'), 0o600)
	l = open(t, fs, journal.Options{Flushed: 6})
	var codes []string
	if _, err := l.Audit(journal.Auditor{Problem: func(p journal.Problem) { codes = append(codes, p.Code) }}); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(codes, " "); !strings.Contains(got, journal.ProblemGarbage) || !strings.Contains(got, journal.ProblemMissing) {
		t.Errorf("found %s", got)
	}
}

// TestReplacedSegmentIsFollowed: a writer whose sealed segment was replaced by
// one with the same rows goes on after them, whatever came since.
func TestReplacedSegmentIsFollowed(t *testing.T) {
	fs := simfs.New()
	a := open(t, fs, journal.Options{SegmentBytes: 900})
	write(a, "0", true)
	b := open(t, fs, journal.Options{SegmentBytes: 900})
	for i := 1; i < 8; i++ {
		write(a, fmt.Sprint(i), true)
	}
	dir, _ := fs.Root().OpenDir("journal")
	f, _ := dir.Open("copy", fsx.Read|fsx.Write|fsx.Create, 0o600)
	old, _ := fs.ReadFile("journal/" + journal.SegmentFile(1))
	f.Write(old)
	f.Close()
	if err := dir.Rename("copy", dir, journal.SegmentFile(1)); err != nil {
		t.Fatal(err)
	}
	if err := write(b, "by b", true); err != nil {
		t.Fatal(err)
	}
	if got := paths(t, b); len(got) != 9 || got[8] != "by b" {
		t.Errorf("%v", got)
	}
	audit(t, b)
	audit(t, a)
}

// TestExportIsVerified: what ReadExport accepts is what Export wrote.
func TestExportIsVerified(t *testing.T) {
	fs := simfs.New()
	l := open(t, fs, withArchive(fs))
	for i := range 10 {
		write(l, fmt.Sprint(i), true)
	}
	sealed, _ := l.Sealed()
	l.Park(ctx, sealed)
	write(l, "not shown", false)
	var b bytes.Buffer
	foot, err := l.Export(&b, journal.ExportHeader{}, 0, func() error { return nil })
	if err != nil || foot.Rows != 10 || foot.First != 1 || foot.Last != 10 {
		t.Fatalf("%+v %v", foot, err)
	}
	n := 0
	in, err := journal.ReadExport(bytes.NewReader(b.Bytes()), func(r *journal.Record) error { n++; return nil })
	if err != nil || n != 10 || in.Footer != foot {
		t.Errorf("%v: %d rows, %+v", err, n, in)
	}
	if _, err := journal.ReadExport(io.LimitReader(&b, int64(b.Len()-1)), func(*journal.Record) error { return nil }); !errors.Is(err, journal.ErrExport) {
		t.Errorf("%v", err)
	}
	if _, err := l.Export(failing{}, journal.ExportHeader{}, 0, func() error { return nil }); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("%v", err)
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// FuzzReadExport: no input makes the reader fail otherwise than it says.
func FuzzReadExport(f *testing.F) {
	fs := simfs.New()
	l := open(f, fs, journal.Options{})
	for i := range 3 {
		write(l, fmt.Sprint(i), true)
	}
	var b bytes.Buffer
	l.Export(&b, journal.ExportHeader{}, 0, func() error { return nil })
	f.Add(b.Bytes())
	f.Add([]byte("{}\n{}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		_, err := journal.ReadExport(bytes.NewReader(data), func(*journal.Record) error { return nil })
		if err != nil && !errors.Is(err, journal.ErrExport) && !errors.Is(err, journal.ErrNewerExport) {
			t.Fatal(err)
		}
		if err == nil && !bytes.Contains(data, []byte(journal.ExportFormat)) {
			t.Fatal("accepted what is no export")
		}
	})
}
