package resilientwrite_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// BenchmarkTx sets one transaction of n files of 1 KiB beside n single writes
// and beside what a careful program does without a library: each file written,
// flushed, renamed and its directory flushed, between two flushed lines of a
// journal of its own.
func BenchmarkTx(b *testing.B) {
	for _, n := range []int{10, 100} {
		content := func(i, f int) string { return fmt.Sprintf("%01000d %d", i, f) }
		b.Run(fmt.Sprintf("files=%d/tx", n), func(b *testing.B) {
			s := openBench(b, rw.SyncFull)
			for i := 0; b.Loop(); i++ {
				var ops []rw.TxOp
				for f := range n {
					ops = append(ops, rw.TxOp{Op: "write", Path: fmt.Sprintf("f%d.txt", f), Content: content(i, f), Mode: rw.ModeOverwrite})
				}
				if _, err := s.Tx(context.Background(), rw.TxRequest{Ops: ops}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("files=%d/single", n), func(b *testing.B) {
			s := openBench(b, rw.SyncFull)
			for i := 0; b.Loop(); i++ {
				for f := range n {
					if _, err := s.SafeWrite(context.Background(), put(fmt.Sprintf("f%d.txt", f), content(i, f), rw.ModeOverwrite)); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
		b.Run(fmt.Sprintf("files=%d/naive", n), func(b *testing.B) {
			dir := b.TempDir()
			journal, err := os.OpenFile(filepath.Join(dir, "journal"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				b.Fatal(err)
			}
			defer journal.Close()
			line := func() {
				fmt.Fprintln(journal, strings.Repeat("j", 200))
				journal.Sync()
			}
			for i := 0; b.Loop(); i++ {
				line()
				for f := range n {
					durably(b, dir, fmt.Sprintf("f%d.txt", f), content(i, f))
				}
				line()
			}
		})
	}
}

// durably is the minimal correct durable replace.
func durably(b *testing.B, dir, name, content string) {
	b.Helper()
	tmp := filepath.Join(dir, name+".tmp")
	f, err := os.Create(tmp)
	if err == nil {
		f.WriteString(content)
		err = f.Sync()
		f.Close()
	}
	if err == nil {
		err = os.Rename(tmp, filepath.Join(dir, name))
	}
	if err != nil {
		b.Fatal(err)
	}
	d, err := os.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	d.Sync()
	d.Close()
}

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
