package journal_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
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
			testbed.NoErr(t, write(l, fmt.Sprint(i), true))
		}
		lagging := open(t, fs, withArchive(fs))
		sealed, err := l.Sealed()
		testbed.Require(t, err == nil && len(sealed) >= 4, "%v %v", sealed, err)
		testbed.NoErr(t, l.Park(ctx, append(sealed, 99, l.End().Segment)))
		if err := l.Park(ctx, sealed); err != nil { // nothing is left to do
			t.Fatal(err)
		}
		for i := range 3 {
			testbed.NoErr(t, write(l, fmt.Sprint("more ", i), true))
		}
		testbed.NoErr(t, write(lagging, "by another", true))
		folded := 0
		o := withArchive(fs)
		o.OnRecord = func(*journal.Record, journal.Pos) { folded++ }
		for name, l := range map[string]*journal.Log{"own": l, "lagging": lagging, "fresh": open(t, fs, o)} {
			got := paths(t, l)
			testbed.Expect(t, len(got) == 24 && got[0] == "0" && got[23] == "by another", "%s: %v", name, got)
			if r, err := l.Find(2); err != nil || r.Muts[0].Path != "1" {
				t.Errorf("%s: %v", name, err)
			}
			if recs, _, err := l.Tail(24, nil, 0); err != nil || len(recs) != 24 || recs[0].Seq != 1 {
				t.Errorf("%s: %d rows, %v", name, len(recs), err)
			}
			oldest, _ := l.Oldest()
			recs, _, first, bad, err := l.Since(0, 100, nil)
			if err != nil || first != oldest || bad > 0 || recs[0].Seq != oldest || oldest != sealed[len(sealed)-1]+sealedRows(t, l, sealed[len(sealed)-1]) {
				t.Errorf("%s: left from %d, %d bad, from %d, %v", name, first, bad, recs[0].Seq, err)
			}
			audit(t, l)
		}
		testbed.Equal(t, folded, 24, "rows were folded")
	}
}

// sealedRows counts the rows of one segment.
func sealedRows(t *testing.T, l *journal.Log, first uint64) uint64 {
	t.Helper()
	f, err := l.Facts(first)
	testbed.Require(t, err == nil && f.First == first && f.Last >= first && int64(f.Last-f.First+1) == f.Rows && len(f.SHA256) == 64, "%+v %v", f, err)
	return uint64(f.Rows)
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
	testbed.IsErr(t, l.Park(ctx, sealed), journal.ErrTaken)
	got := paths(t, l)
	testbed.Expect(t, len(got) == 10, "%v", got)
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
		testbed.Must(l.Write(created(strings.Fields("0 1 2 3 4 5 6 7 8 9 10 11")...)))(t)
		disk := fs.Crash(seed, simfs.Some)
		for range 2 {
			l, rep, err := tryOpen(disk, journal.Options{Flushed: 1})
			testbed.NoErr(t, err)
			holes += testbed.Count(rep.Torn, func(n journal.Note) bool { return n.Missing != nil })
			testbed.NoErr(t, write(l, "after", true))
			audit(t, l)
			l.Close()
			testbed.Require(t, !t.Failed(), "seed %d: %+v", seed, rep)
		}
	}
	testbed.Expect(t, holes >= 10, "only %d holes were seen", holes)
}

// TestHolesThatNoCrashMakes: rows that were flushed and are gone are not
// explained away, also where the bytes cannot be read.
func TestHolesThatNoCrashMakes(t *testing.T) {
	for name, lose := range map[string]func(row []byte) []byte{
		"cut":  func(row []byte) []byte { return row[:20] },
		"NULs": func(row []byte) []byte { return append(row[:20], make([]byte, len(row)-20)...) },
		"all":  func(row []byte) []byte { return make([]byte, len(row)) },
	} {
		fs := simfs.New()
		l := open(t, fs, journal.Options{})
		for i := range 6 {
			write(l, fmt.Sprint(i), true)
		}
		l.Close()
		file := "journal/" + journal.SegmentFile(1)
		data, _ := fs.ReadFile(file)
		rows := bytes.SplitAfter(bytes.Trim(data, "\x00"), []byte("}\n"))
		rows[2] = lose(rows[2])
		fs.WriteFile(file, bytes.Join(rows, nil), 0o600)
		l = open(t, fs, journal.Options{Flushed: 6})
		for n, reached := -1, true; reached; n++ {
			count := -1
			reached = n < 0
			fs.Inject(func(op simfs.Op) (f simfs.Fault) {
				if count++; op.Kind == "read" && count == n {
					reached, f.Err = true, syscall.EIO
				}
				reached = reached || count == n
				return f
			})
			var codes []string
			_, err := l.Audit(journal.Auditor{Problem: func(p journal.Problem) { codes = append(codes, p.Code) }})
			fs.Inject(nil)
			testbed.Expect(t, slices.Contains(codes, journal.ProblemMissing) || n >= 0 && errors.Is(err, syscall.EIO), "%s, operation %d: found %s: %v", name, n, codes, err)
			testbed.Expect(t, name == "all" || err != nil || slices.Contains(codes, journal.ProblemGarbage), "%s: found %s", name, codes)
		}
	}
}

// TestReplacedSegmentIsFollowed: a writer whose segment was replaced by
// one with the same rows goes on after them, whatever came since, and although it could not
// be read at first.
func TestReplacedSegmentIsFollowed(t *testing.T) {
	for _, behind := range []bool{true, false} {
		for n, reached := -1, true; reached; n++ {
			reached = followsReplaced(t, behind, n)
		}
	}
}

// followsReplaced lets operation n fail that reads, and reports whether there was one.
func followsReplaced(t *testing.T, behind bool, n int) (reached bool) {
	fs := simfs.New()
	a := open(t, fs, journal.Options{SegmentBytes: 900})
	write(a, "0", true)
	b := open(t, fs, journal.Options{SegmentBytes: 900})
	for i := 1; i < 8; i++ {
		write(a, fmt.Sprint(i), true)
	}
	if !behind {
		testbed.NoErr(t, b.CatchUp())
	}
	dir, _ := fs.Root().OpenDir("journal")
	f, _ := dir.Open("copy", fsx.Read|fsx.Write|fsx.Create, 0o600)
	old, _ := fs.ReadFile("journal/" + journal.SegmentFile(b.End().Segment))
	f.Write(old)
	f.Close()
	testbed.NoErr(t, dir.Rename("copy", dir, journal.SegmentFile(b.End().Segment)))
	count := -1
	fs.Inject(func(op simfs.Op) (f simfs.Fault) {
		if op.Kind == "read" || op.Kind == "open" {
			if count++; count == n {
				reached, f.Err = true, syscall.EIO
			}
		}
		return f
	})
	err := write(b, "by b", true)
	fs.Inject(nil)
	if err != nil {
		testbed.NoErr(t, write(b, "by b", true), n)
	}
	got := paths(t, b)
	testbed.Expect(t, len(got) == 9 && got[8] == "by b" && b.Head() == 9, "operation %d: %v, %v, head %d", n, err, got, b.Head())
	audit(t, b)
	audit(t, a)
	return reached || n < 0
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
	testbed.Require(t, err == nil && foot.Rows == 10 && foot.First == 1 && foot.Last == 10, "%+v %v", foot, err)
	n := 0
	in, err := journal.ReadExport(bytes.NewReader(b.Bytes()), func(r *journal.Record) error { n++; return nil })
	testbed.Expect(t, err == nil && n == 10 && in.Footer == foot, "%v: %d rows, %+v", err, n, in)
	testbed.Fails(journal.ReadExport(io.LimitReader(&b, int64(b.Len()-1)), func(*journal.Record) error { return nil }))(t, journal.ErrExport)
	testbed.Fails(l.Export(failing{}, journal.ExportHeader{}, 0, func() error { return nil }))(t, syscall.EPIPE)
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
		testbed.Require(t, err == nil || errors.Is(err, journal.ErrExport) || errors.Is(err, journal.ErrNewerExport), "%v", err)
		testbed.Require(t, err != nil || bytes.Contains(data, []byte(journal.ExportFormat)), "accepted what is no export")
	})
}

type shelf map[string][]byte

func (s shelf) Save(write func(io.Writer) error) (string, error) {
	var data bytes.Buffer
	if err := write(&data); err != nil {
		return "", err
	}
	sum := sha256.Sum256(data.Bytes())
	s[hex.EncodeToString(sum[:])] = data.Bytes()
	return hex.EncodeToString(sum[:]), nil
}

func (s shelf) Any() bool { return len(s) > 0 }

func (s shelf) Load(sha string) ([]byte, error) {
	if data, ok := s[sha]; ok {
		return data, nil
	}
	return nil, journal.ErrNotFound
}

// TestLongRowsHaveAManifest: a record with more mutations than fit in a line is
// read with all of them by every reader, also after it was opened again, and a
// short one has no manifest.
func TestLongRowsHaveAManifest(t *testing.T) {
	disk, kept := simfs.New(), shelf{}
	l := open(t, disk, journal.Options{Manifests: kept})
	long := &journal.Record{Kind: journal.KindObserved, Writer: "w"}
	for i := range 20_000 {
		long.Muts = append(long.Muts, journal.Mutation{Op: "create", Path: fmt.Sprintf("dir/%05d", i), SHA256: strings.Repeat("a", 64), PrevSHA256: strings.Repeat("b", 64), Bytes: int64(i)})
	}
	write(l, "before", true)
	testbed.Must(l.Commit(&journal.Batch{Recs: []*journal.Record{long}, Long: true}))(t)
	write(l, "after", true)
	testbed.Require(t, len(kept) == 1 && long.Manifest != "" && len(long.Muts) == 20_000, "%v %v %v", len(kept), long.Manifest, len(long.Muts))
	l.Close()
	folded := 0
	l = open(t, disk, journal.Options{Manifests: kept, OnRecord: func(r *journal.Record, _ journal.Pos) { folded += len(r.Muts) }})
	defer l.Close()
	check := func(what string, r *journal.Record, err error) {
		t.Helper()
		testbed.Require(t, err == nil && len(r.Muts) == 20_000 && r.Muts[19_999].Path == "dir/19999" && r.Muts[19_999].Bytes == 19_999,
			"%v %v %v", what, err, len(r.Muts))
	}
	testbed.Equal(t, folded, 20_002, "folded")
	rec, err := l.Find(2)
	check("Find", rec, err)
	recs, _, err := l.Tail(2, nil, 0)
	check("Tail", recs[0], err)
	recs, _, _, _, err = l.Since(1, 10, nil)
	check("Since", recs[0], err)
	var seen []int
	previous := func(fn func(*journal.Record) error) error { return l.SkimPrevious(1, fn) }
	for _, skim := range []func(func(*journal.Record) error) error{l.Skim, previous} {
		seen = nil
		if err := skim(func(r *journal.Record) error {
			if r.Seq == 2 {
				check("Skim", r, nil)
			}
			seen = append(seen, len(r.Muts))
			return nil
		}); err != nil || fmt.Sprint(seen) != "[1 20000 1]" {
			t.Fatal(seen, err)
		}
	}
	check("Find again", rec, nil) // skimming wrote over nothing
	audit(t, l)
}

// busyShelf has too many files open.
type busyShelf struct{ shelf }

func (busyShelf) Load(string) ([]byte, error) { return nil, syscall.EMFILE }

// TestManifestIsMissing: a row whose manifest is gone is a row without
// mutations, one whose manifest cannot be read now cannot be read either, and a record
// whose manifest cannot be kept is not written.
func TestManifestIsMissing(t *testing.T) {
	disk, kept := simfs.New(), shelf{}
	long := &journal.Record{Kind: journal.KindObserved, Writer: "w", Muts: make([]journal.Mutation, 20_000)}
	l := open(t, disk, journal.Options{})
	_, err := l.Commit(&journal.Batch{Recs: []*journal.Record{long}, Long: true})
	testbed.Require(t, errors.Is(err, journal.ErrTooLarge), "%v", err)
	l.Close()
	l = open(t, disk, journal.Options{Manifests: kept})
	testbed.Must(l.Commit(&journal.Batch{Recs: []*journal.Record{long}, Long: true}))(t)
	l.Close()
	_, _, err = tryOpen(disk, journal.Options{Manifests: busyShelf{kept}})
	testbed.Require(t, errors.Is(err, syscall.EMFILE), "%v", err)
	clear(kept)
	l = open(t, disk, journal.Options{Manifests: kept})
	defer l.Close()
	rec, err := l.Find(1)
	testbed.Require(t, err == nil && len(rec.Muts) == 0 && rec.Manifest != "", "%v %v", rec, err)
}
