package resilientwrite_test

import (
	"context"
	"fmt"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// Transactions are measured in bench/, beside other ways to write several files.

// BenchmarkUndo takes one overwrite of 1 KiB back, and the taking back, and so
// on.
func BenchmarkUndo(b *testing.B) {
	s := openBench(b, rw.SyncFull)
	for i := range 2 {
		if _, err := s.SafeWrite(context.Background(), put("a.txt", fmt.Sprintf("%01024d", i), rw.ModeOverwrite)); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, err := s.Undo(context.Background(), rw.UndoRequest{}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHistory lists the newest twenty versions of a path.
func BenchmarkHistory(b *testing.B) {
	for _, n := range []int{1_000, 100_000} {
		dir := journalOf(b, n)
		b.Run(fmt.Sprintf("rows=%d", n), func(b *testing.B) {
			s, err := rw.Open(context.Background(), dir, &rw.Options{ReadOnly: true})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close(context.Background())
			for b.Loop() {
				if _, err := s.History(context.Background(), rw.HistoryRequest{Path: "p1"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
