package usage

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/analytics"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// synthetic is a journal of n rows: 5 000 paths, 20 callers, 40 writers, 300
// sessions, some refusals and aborts. The rows repeat after a million or fewer.
func synthetic(n int) []journal.Record {
	rows := make([]journal.Record, n)
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	paths := make([]string, 5000)
	for i := range paths {
		paths[i] = fmt.Sprintf("src/dir%02d/file%04d.go", i%50, i)
	}
	for i := range rows {
		r := &rows[i]
		*r = journal.Record{
			Seq: uint64(i + 1), TS: stamp.Text(start.Add(time.Duration(i) * 100 * time.Millisecond)),
			Kind: journal.KindCommit, Writer: fmt.Sprint("writer", i%40), Settled: uint64(max(0, i-20)),
			Caller: fmt.Sprint("agent", i%20),
			Muts:   []journal.Mutation{{Op: "overwrite", Path: paths[i*7919%5000], SHA256: "aa", Bytes: int64(i % 9000)}},
		}
		switch {
		case i%50 == 0:
			r.Kind, r.Reason = journal.KindRefused, "hash_mismatch"
		case i%50 == 1 && i > 10:
			r.Kind, r.Ref = journal.KindAbort, uint64(i-5)
		case i%10 == 2:
			r.Muts[0] = state("chunk", fmt.Sprintf("chunks/s%d/part-%03d.txt", i/10%300, 1+i/3000%999))
		case i%10 == 3:
			r.Muts[0].Op, r.Muts[0].PaySHA256, r.Muts[0].PayBytes = "append", "bb", 40
		}
	}
	return rows
}

func BenchmarkRead(b *testing.B) {
	rows := synthetic(1_000_000)
	b.ReportAllocs()
	for b.Loop() {
		testbed.Require(b, read(rows).TotalWrites != 0, "nothing counted")
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(len(rows)), "ns/row")
}

func read(rows []journal.Record) analytics.Result {
	out, err := Read(context.Background(), analytics.Request{}, func(fn func(*journal.Record) error) error {
		for i := range rows {
			fn(&rows[i])
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	return out
}

// TestAllocations makes sure that a row costs no memory once its path, caller,
// session and minute are known.
func TestAllocations(t *testing.T) {
	rows := synthetic(100_000)
	once := testing.AllocsPerRun(1, func() { read(rows) })
	again := slices.Clone(rows)
	for i := range again {
		again[i].Seq += uint64(len(rows))
		again[i].Ref = 0
	}
	twice := testing.AllocsPerRun(1, func() { read(append(rows, again...)) })
	if perRow := (twice - once) / float64(len(rows)); perRow > 0.01 {
		t.Errorf("%.4f allocations per row", perRow)
	}
}
