package resilientwrite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
)

// Transactions are measured in bench/, together with other ways to write several files.

// BenchmarkUndo undoes one overwrite of 1 KiB, then undoes the undo, and so on.
func BenchmarkUndo(b *testing.B) {
	s := openBench(b, rw.SyncFull)
	for i := range 2 {
		must(s.SafeWrite(context.Background(), put("a.txt", fmt.Sprintf("%01024d", i), rw.ModeOverwrite)))(b)
	}
	for b.Loop() {
		must(s.Undo(context.Background(), rw.UndoRequest{}))(b)
	}
}

// BenchmarkHistory lists the newest twenty versions of a path.
func BenchmarkHistory(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		dir := journalOf(b, n)
		b.Run(fmt.Sprintf("rows=%d", n), func(b *testing.B) {
			s := must(rw.Open(context.Background(), dir, &rw.Options{ReadOnly: true}))(b)
			defer s.Close(context.Background())
			for b.Loop() {
				must(s.History(context.Background(), rw.HistoryRequest{Path: "p1"}))(b)
			}
		})
	}
}

// BenchmarkManyFiles scans files of 1 KiB that another program has changed, 20 in a
// directory, and undoes their group.
func BenchmarkManyFiles(b *testing.B) {
	for _, n := range []int{5_000, 100_000} {
		b.Run(fmt.Sprintf("files=%d", n), func(b *testing.B) {
			dir := b.TempDir()
			change := func(round int) {
				for i := range n {
					name := filepath.Join(dir, fmt.Sprintf("d%d/e%d/f%d", i/1000, i/20, i))
					noErr(b, os.MkdirAll(filepath.Dir(name), 0o755))
					noErr(b, os.WriteFile(name, fmt.Appendf(nil, "%01024d\n%d\n", i, round), 0o644))
				}
			}
			change(0)
			s := must(rw.Open(background, dir, nil))(b)
			defer s.Close(background)
			must(s.Scan(background, rw.ScanRequest{}))(b)
			var scans, undos time.Duration
			rounds := 0
			for b.Loop() {
				rounds++
				b.StopTimer()
				change(rounds)
				b.StartTimer()
				at := time.Now()
				found, err := s.Scan(background, rw.ScanRequest{})
				if err != nil || len(found.Files) == 0 {
					b.Fatal(err)
				}
				scans += time.Since(at)
				at = time.Now()
				must(s.Undo(background, rw.UndoRequest{Group: found.Group}))(b)
				undos += time.Since(at)
			}
			b.ReportMetric(scans.Seconds()/float64(rounds), "s/scan")
			b.ReportMetric(undos.Seconds()/float64(rounds), "s/undo")
		})
	}
}
