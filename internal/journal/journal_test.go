package journal_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

var ctx = context.Background()

// open opens a journal on a simulated disk.
func open(t testing.TB, fs *simfs.FS, o journal.Options) *journal.Log {
	t.Helper()
	l, _, err := tryOpen(fs, o)
	testbed.NoErr(t, err)
	return l
}

func tryOpen(fs *simfs.FS, o journal.Options) (*journal.Log, journal.OpenReport, error) {
	return openIn(fs.Root(), o)
}

// openIn opens a journal in a directory, which is that of a process.
func openIn(root fsx.Dir, o journal.Options) (*journal.Log, journal.OpenReport, error) {
	if err := root.Mkdir("journal", 0o700); err == nil {
		if err := root.Sync(); err != nil {
			return nil, journal.OpenReport{}, err
		}
	}
	dir, err := root.OpenDir("journal")
	if err != nil {
		return nil, journal.OpenReport{}, err
	}
	lockf, err := root.Open("lock", fsx.Read|fsx.Write|fsx.Create, 0o600)
	if err != nil {
		return nil, journal.OpenReport{}, err
	}
	if slow, ok := o.Dir.(*slowDisk); ok {
		slow.Dir = dir
	} else {
		o.Dir = dir
	}
	o.Lock, o.Preallocate, o.Temp = lockf, 2048, root
	o.Writer = cmp.Or(o.Writer, "w")
	return journal.Open(ctx, o)
}

// created is the batch of commits that create files.
func created(paths ...string) *journal.Batch {
	b := &journal.Batch{}
	for _, p := range paths {
		b.Recs = append(b.Recs, &journal.Record{Kind: journal.KindCommit, Writer: "w", Muts: []journal.Mutation{{Op: "create", Path: p, SHA256: strings.Repeat("a", 64)}}})
	}
	return b
}

func write(l *journal.Log, path string, flush bool) error {
	batch := created(path)
	if flush {
		_, err := l.Commit(batch)
		return err
	}
	_, err := l.Write(batch)
	return err
}

func paths(t testing.TB, l *journal.Log) []string {
	t.Helper()
	var list []string
	last := uint64(0)
	testbed.NoErr(t, l.Range(1, func(r *journal.Record, _ journal.Pos) error {
		testbed.Expect(t, r.Seq > last, "seq %d after %d", r.Seq, last)
		last = r.Seq
		for _, m := range r.Muts {
			list = append(list, m.Path)
		}
		return nil
	}))
	return list
}

func audit(t testing.TB, l *journal.Log) {
	t.Helper()
	testbed.Must(l.Audit(journal.Auditor{Problem: func(p journal.Problem) { t.Errorf("audit: %+v", p) }}))(t)
}

// TestCrashSweep kills the journal at every operation of a run over several
// segments; what was flushed is there, the order has no doubles, and the audit
// is clean.
func TestCrashSweep(t *testing.T) {
	for n := 0; ; n++ {
		fs := simfs.New()
		fs.StopAt(n)
		flushed, done := 0, false
		if l, _, err := tryOpen(fs, journal.Options{SegmentBytes: 900}); err == nil {
			for i := range 8 {
				if err = write(l, fmt.Sprint(i), true); err != nil {
					break
				}
				flushed++
			}
			done = err == nil
		}
		fs.StopAt(-1)
		for seed := range uint64(12) {
			loss := simfs.Some
			if seed == 0 {
				loss = simfs.All
			} else if seed == 1 {
				loss = simfs.None
			}
			disk := fs.Crash(seed, loss)
			l := open(t, disk, journal.Options{SegmentBytes: 900})
			got := paths(t, l)
			for i := range flushed {
				testbed.Require(t, i < len(got) && got[i] == fmt.Sprint(i), "op %d seed %d: %d flushed, found %v", n, seed, flushed, got)
			}
			testbed.NoErr(t, write(l, "after", true))
			audit(t, l)
			l.Close()
		}
		if done {
			return
		}
	}
}

// slowDisk is a disk whose flushes take their time, as those of a device do,
// without keeping anybody from writing meanwhile. What is written meanwhile is
// not flushed.
type slowDisk struct {
	fsx.Dir
	flushes atomic.Int64
}

func (d *slowDisk) Open(name string, flag fsx.Flag, perm uint32) (fsx.File, error) {
	f, err := d.Dir.Open(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return slowFile{f, d}, nil
}

type slowFile struct {
	fsx.File
	disk *slowDisk
}

func (f slowFile) Datasync() error {
	err := f.File.Datasync()
	f.disk.flushes.Add(1)
	time.Sleep(200 * time.Microsecond)
	return err
}

// TestGroupCommit: sixteen writers share writes and flushes, and a flush never
// covers a row that was written after it began. Time passes only while all of
// them wait, so each flush finds the rows of all who did not wait for the one
// before.
func TestGroupCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fs := simfs.New()
		slow := &slowDisk{}
		l := open(t, fs, journal.Options{Dir: slow})
		var wg sync.WaitGroup
		for w := range 16 {
			wg.Go(func() {
				for i := range 50 {
					err := write(l, fmt.Sprintf("%d-%d", w, i), true)
					testbed.Expect(t, err == nil, "%v", err)
				}
			})
		}
		wg.Wait()
		n := slow.flushes.Load()
		testbed.Expect(t, n >= 50 && n <= 2*50+2, "%d flushes for 800 rows of 16 writers", n)
		disk := fs.Crash(1, simfs.All)
		l = open(t, disk, journal.Options{})
		got := paths(t, l)
		testbed.Expect(t, len(got) == 800, "%d rows survived of 800 that were flushed", len(got))
		audit(t, l)
	})
}

// TestExpectedRowsShareAFlush: a commit waits for those that are announced, and is
// flushed with them. One that does not come delays the others a little, and once.
func TestExpectedRowsShareAFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := &slowDisk{}
		l := open(t, simfs.New(), journal.Options{Dir: slow})
		for _, c := range []struct {
			expected, come int
			least          time.Duration
		}{{4, 4, 300 * time.Microsecond}, {4, 3, 500 * time.Microsecond}, {0, 1, 0}, {1, 1, 0}} {
			began, flushed := time.Now(), slow.flushes.Load()
			l.Expect(c.expected)
			var wg sync.WaitGroup
			for i := range c.come {
				wg.Go(func() {
					time.Sleep(time.Duration(i) * 100 * time.Microsecond)
					err := write(l, fmt.Sprint(i), true)
					testbed.Expect(t, err == nil, "%v", err)
				})
			}
			wg.Wait()
			took, flushes := time.Since(began), slow.flushes.Load()-flushed
			testbed.Expect(t, took >= c.least && took <= c.least+300*time.Microsecond && flushes == 1,
				"%d of %d came: %v, %d flushes", c.come, c.expected, took, flushes)
		}
	})
}

// lostFrom says that rows from first on are in doubt.
func lostFrom(first uint64) func() (uint64, error) {
	return func() (uint64, error) { return first, nil }
}

// TestFailedFlushSweep: each flush of a run over several segments fails. The
// process that opens the journal then makes durable what it shows, none of its
// rows is passed over or has the number of another, and those that had it open
// before write no more.
func TestFailedFlushSweep(t *testing.T) {
	for n := 0; ; n++ {
		fs := simfs.New()
		doubt := uint64(0)
		o := journal.Options{SegmentBytes: 900, Failed: func(first uint64) { doubt = first }}
		a := open(t, fs, o)
		b := open(t, fs, journal.Options{SegmentBytes: 900, Writer: "b"})
		flush, failed := 0, simfs.Op{}
		fs.Inject(func(op simfs.Op) simfs.Fault {
			if !strings.Contains(op.Kind, "sync") {
				return simfs.Fault{}
			}
			if flush++; flush != n+1 {
				return simfs.Fault{}
			}
			failed = op
			return simfs.Fault{Err: syscall.EIO}
		})
		var err error
		for i := 0; i < 8 && err == nil; i++ {
			err = write(a, fmt.Sprint(i), true)
		}
		fs.Inject(nil)
		if failed.Kind == "" {
			return
		}
		var we *journal.WriteError
		known := errors.As(err, &we) && (failed.Kind != "datasync" || we.Effect == journal.EffectUnknown)
		testbed.Require(t, doubt != 0 && known, "%v failed: %v, and rows from %d on are in doubt", failed, err, doubt)
		c := open(t, fs, journal.Options{SegmentBytes: 900, Lost: lostFrom(doubt)})
		shown := paths(t, c)
		for _, l := range []*journal.Log{a, b} {
			err := write(l, "late", true)
			testbed.Expect(t, errors.Is(err, journal.ErrPoisoned), "%v failed, and a process that was there writes: %v", failed, err)
		}
		for _, name := range []string{"then", "and then", "at last"} {
			testbed.NoErr(t, write(c, name, true))
			shown = append(shown, name)
		}
		l := open(t, fs.Crash(1, simfs.All), journal.Options{})
		got := paths(t, l)
		testbed.Expect(t, slices.Equal(got, shown), "%v failed: the opener showed %v, a power cut left %v", failed, shown, got)
		audit(t, l)
		if t.Failed() {
			return
		}
	}
}

// TestReadersSeeOnlyWhatIsFlushed: no cursor can run ahead of the disk.
func TestReadersSeeOnlyWhatIsFlushed(t *testing.T) {
	fs := simfs.New()
	a, b := open(t, fs, journal.Options{Writer: "a"}), open(t, fs, journal.Options{Writer: "b"})
	write(a, "one", true)
	write(a, "two", false)
	for _, l := range []*journal.Log{a, b} {
		recs, _, err := l.Tail(10, nil, 0)
		testbed.Expect(t, err == nil && len(recs) == 1, "tail shows %d rows: %v", len(recs), err)
		recs, next, _, _, err := l.Since(0, 10, nil)
		testbed.Expect(t, err == nil && len(recs) == 1 && next == 1, "since shows %d rows, next %d: %v", len(recs), next, err)
	}
	testbed.NoErr(t, a.Flush(2))
	recs, _, _ := b.Tail(10, nil, 0)
	testbed.Expect(t, len(recs) == 2, "%d rows after the flush", len(recs))
}

// TestRollIsNotSeen: rows of many segments read as one journal, from both ends
// and by seq, also for a process that did not roll.
func TestRollIsNotSeen(t *testing.T) {
	fs := simfs.New()
	a, b := open(t, fs, journal.Options{Writer: "a", SegmentBytes: 2000}), open(t, fs, journal.Options{Writer: "b", SegmentBytes: 2000})
	for i := range 200 {
		testbed.NoErr(t, write([]*journal.Log{a, b}[i%2], fmt.Sprint(i), true))
	}
	for _, l := range []*journal.Log{a, b} {
		l.CatchUp()
		got := paths(t, l)
		testbed.Require(t, len(got) == 200, "%d rows", len(got))
		for _, seq := range []uint64{1, 2, 57, 199, 200} {
			testbed.Equal(t, testbed.Must(l.Find(seq))(t).Muts[0].Path, fmt.Sprint(seq-1), "find ", seq)
		}
		testbed.Fails(l.Find(201))(t, journal.ErrNotFound, "find 201")
		for _, seqs := range [][]uint64{nil, {60, 57, 58}, {200, 201, 199}, {200, 3, 1}, {201}} {
			found, err := l.FindAll(seqs)
			want := 0
			for _, seq := range seqs {
				if seq == 201 {
					continue
				}
				if want++; found[seq] == nil || found[seq].Muts[0].Path != fmt.Sprint(seq-1) {
					t.Errorf("find %d of %v: %v", seq, seqs, err)
				}
			}
			testbed.Expect(t, err == nil && len(found) == want, "find %v: %d rows, %v", seqs, len(found), err)
		}
		recs, _, err := l.Tail(30, nil, 0)
		testbed.Expect(t, err == nil && len(recs) == 30 && recs[0].Seq == 171 && recs[29].Seq == 200, "tail: %d %v", len(recs), err)
		recs, next, gap, _, err := l.Since(100, 25, nil)
		testbed.Expect(t, err == nil && gap == 0 && len(recs) == 25 && recs[0].Seq == 101 && next == 125, "since: %d %d %v %v", len(recs), next, gap, err)
		audit(t, l)
	}
}

// FuzzDecode: whatever bytes stand in a segment, opening, reading, writing and
// auditing it neither panic nor lose the rows that are whole.
func FuzzDecode(f *testing.F) {
	f.Add([]byte("\n{\"seq\":2,\"kind\":\"commit\"}\n"))
	f.Add([]byte("\x00\x00\n{\"seq\":1"))
	f.Add([]byte("}{\n\n[]\n{\"seq\":18446744073709551615,\"kind\":\"x\"}\n"))
	f.Fuzz(func(t *testing.T, garbage []byte) {
		fs := simfs.New()
		l := open(t, fs, journal.Options{})
		testbed.NoErr(t, write(l, "kept", true))
		l.Close()
		name := "journal/00000000000000000001.jsonl"
		data, _ := fs.ReadFile(name)
		fs.WriteFile(name, append(data, garbage...), 0o600)
		l, _, err := tryOpen(fs, journal.Options{})
		testbed.NoErr(t, err)
		got := paths(t, l)
		testbed.Require(t, len(got) != 0 && got[0] == "kept", "found %v", got)
		testbed.NoErr(t, write(l, "more", true))
		testbed.Require(t, l.Head() <= 1<<20, "garbage moved the head to %d", l.Head())
		l.Audit(journal.Auditor{Problem: func(journal.Problem) {}})
	})
}

// FuzzLinear: reading a row in both ways, a segment that ends in garbage, and
// an export takes work in proportion to their length.
func FuzzLinear(f *testing.F) {
	seeds := []string{`{"op":"create","path":"a","sha256":"","bytes":0,"prev_sha256":""},`, `{"seq":#,"kind":"note"}` + "\n", `"muts":[],`, `{"a":{`, `"seq":#,`, usualRow + "\n"}
	testbed.FuzzLinear(f, 16<<10, 5*time.Microsecond, seeds, func(text []byte) int {
		for _, row := range []string{`{"seq":1,"kind":"commit",` + string(text) + `"ref":2}`, `{"seq":1,"kind":"commit","muts":[` + string(text) + `{"op":""}]}`, `{"seq":1,"kind":"x","reply":` + string(text) + `}`} {
			journal.DecodeRow([]byte(row))
			journal.SkimRow([]byte(row))
		}
		journal.ReadExport(bytes.NewReader(text), func(*journal.Record) error { return nil })
		fs := simfs.New()
		if l, _, err := tryOpen(fs, journal.Options{}); err == nil {
			l.Close()
		}
		fs.WriteFile("journal/00000000000000000001.jsonl", text, 0o600)
		if l, _, err := tryOpen(fs, journal.Options{}); err == nil {
			l.Skim(func(*journal.Record) error { return nil })
			l.Close()
		}
		return 0
	})
}
