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
	s, err := rw.Open(context.Background(), b.TempDir(), &rw.Options{Sync: level})
	if err != nil {
		b.Fatal(err)
	}
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
				if _, err := s.SafeWrite(context.Background(), put("a.txt", fmt.Sprintf("%01024d", i), rw.ModeOverwrite)); err != nil {
					b.Fatal(err)
				}
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
			if _, err := s.SafeWriteFrom(ctx, rw.SafeWriteRequest{Path: "a.log"}, &endless{left: size}); err != nil {
				b.Fatal(err)
			}
			line := string(bytes.Repeat([]byte("x"), 1023)) + "\n"
			if _, err := s.SafeWrite(ctx, put("a.log", line, rw.ModeAppend)); err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			for range b.N {
				if _, err := s.SafeWrite(ctx, put("a.log", line, rw.ModeAppend)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
