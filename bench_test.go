package resilientwrite_test

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

func openBench(b *testing.B, level rw.SyncLevel) *rw.Store {
	b.Helper()
	s := must(rw.Open(context.Background(), b.TempDir(), &rw.Options{Sync: level}))(b)
	b.Cleanup(func() { s.Close(context.Background()) })
	return s
}

// BenchmarkOverwrite replaces one small file; bench/ has the peers.
func BenchmarkOverwrite(b *testing.B) {
	for _, level := range []rw.SyncLevel{rw.SyncFull, rw.SyncJournal, rw.SyncOff} {
		b.Run(string(level), func(b *testing.B) {
			s := openBench(b, level)
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				must(s.SafeWrite(context.Background(), put("a.txt", fmt.Sprintf("%01024d", i), rw.ModeOverwrite)))(b)
			}
		})
	}
}

// BenchmarkAppend adds 1 KiB to files of very different sizes.
func BenchmarkAppend(b *testing.B) {
	for _, size := range []int64{1, 1 << 20, 256 << 20} {
		b.Run(fmt.Sprintf("file=%d", size), func(b *testing.B) {
			s := openBench(b, rw.SyncFull)
			ctx := context.Background()
			must(s.SafeWriteFrom(ctx, rw.SafeWriteRequest{Path: "a.log"}, &endless{left: size}))(b)
			line := string(bytes.Repeat([]byte("x"), 1023)) + "\n"
			must(s.SafeWrite(ctx, put("a.log", line, rw.ModeAppend)))(b)
			b.ResetTimer()
			for range b.N {
				must(s.SafeWrite(ctx, put("a.log", line, rw.ModeAppend)))(b)
			}
		})
	}
}

// journalOf makes a workspace with a journal of n rows, over n/10 paths.
func journalOf(b *testing.B, n int) string {
	b.Helper()
	dir := b.TempDir()
	s := must(rw.Open(context.Background(), dir, &rw.Options{Sync: rw.SyncOff}))(b)
	noErr(b, s.FillJournal(n))
	noErr(b, s.Close(context.Background()))
	return dir
}

// BenchmarkReaders measures what readers of a long journal wait for.
func BenchmarkReaders(b *testing.B) {
	for _, n := range []int{1_000, 100_000, 1_000_000} {
		dir := journalOf(b, n)
		ctx := context.Background()
		b.Run(fmt.Sprintf("rows=%d/open", n), func(b *testing.B) {
			for range b.N {
				s := must(rw.Open(ctx, dir, &rw.Options{ReadOnly: true}))(b)
				s.Close(ctx)
			}
		})
		s := must(rw.Open(ctx, dir, &rw.Options{Sync: rw.SyncOff}))(b)
		b.Run(fmt.Sprintf("rows=%d/tail20", n), func(b *testing.B) {
			for range b.N {
				if r, err := s.JournalTail(ctx, rw.JournalTailRequest{}); err != nil || len(r.Entries) != 20 {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("rows=%d/since", n), func(b *testing.B) {
			after := uint64(n / 2)
			for range b.N {
				if r, err := s.JournalSince(ctx, rw.JournalSinceRequest{AfterSeq: &after, Limit: 20}); err != nil || len(r.Entries) != 20 {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("rows=%d/history_of_path", n), func(b *testing.B) {
			for range b.N {
				if got, err := s.LastRows("p7", 10); err != nil || got != 10 {
					b.Fatal(got, err)
				}
			}
		})
		s.Close(ctx)
	}
}
