package resilientwrite_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/around"
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
				r, err := s.JournalTail(ctx, rw.JournalTailRequest{})
				require(b, err == nil && len(r.Entries) == 20, "%v", err)
			}
		})
		b.Run(fmt.Sprintf("rows=%d/since", n), func(b *testing.B) {
			after := uint64(n / 2)
			for range b.N {
				r, err := s.JournalSince(ctx, rw.JournalSinceRequest{AfterSeq: &after, Limit: 20})
				require(b, err == nil && len(r.Entries) == 20, "%v", err)
			}
		})
		b.Run(fmt.Sprintf("rows=%d/history_of_path", n), func(b *testing.B) {
			for range b.N {
				mustEqual(b, must(s.LastRows("p7", 10))(b), 10)
			}
		})
		s.Close(ctx)
	}
}

// BenchmarkScratchPut keeps one new object of 1 KiB after the other.
func BenchmarkScratchPut(b *testing.B) {
	for _, level := range []rw.SyncLevel{rw.SyncFull, rw.SyncOff} {
		b.Run(string(level), func(b *testing.B) {
			s := openBench(b, level)
			for i := range b.N {
				r := rw.ScratchPutRequest{Content: []byte(fmt.Sprintf("%01024d", i)), Label: "bench"}
				must(s.ScratchPut(background, r))(b)
			}
		})
	}
}

// BenchmarkScratchPutAmong puts a new object, and an existing one, among as many others
// as its name indicates.
func BenchmarkScratchPutAmong(b *testing.B) {
	for _, n := range []int{10, 1000, 20_000} {
		for _, again := range []bool{false, true} {
			b.Run(fmt.Sprintf("objects=%d/again=%v", n, again), func(b *testing.B) {
				dir := b.TempDir()
				fillScratch(b, dir, n)
				s := must(rw.Open(background, dir, &rw.Options{Sync: rw.SyncOff}))(b)
				defer s.Close(background)
				for i := range 3 { // the first calls read the existing content
					must(s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte(fmt.Sprintf("warm %d", i)), Label: "bench"}))(b)
				}
				b.ResetTimer()
				for i := range b.N {
					r := rw.ScratchPutRequest{Content: []byte(fmt.Sprintf("%01024d", i)), Label: "bench"}
					if again {
						r.Content = []byte("warm 1")
					}
					must(s.ScratchPut(background, r))(b)
				}
			})
		}
	}
}

// fillScratch makes a scratchpad of n objects, as so many puts would.
func fillScratch(t testing.TB, dir string, n int) {
	t.Helper()
	pad := filepath.Join(dir, ".resilient_write", "scratch")
	s := must(rw.Open(background, dir, &rw.Options{Sync: rw.SyncOff}))(t)
	must(s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte("first")}))(t)
	noErr(t, s.Close(background))
	index := must(os.OpenFile(filepath.Join(pad, "index.jsonl"), os.O_APPEND|os.O_WRONLY, 0o600))(t)
	for i := range n {
		content := fmt.Sprintf("object %d", i)
		sum := sha256.Sum256([]byte(content))
		sha := hex.EncodeToString(sum[:])
		line := fmt.Sprintf(`{"sha256":%q,"bytes":%d,"label":"l%d","content_type":"","notes":"","caller":"test","ts":"2026-01-01T00:00:00.000000Z"}`+"\n", sha, len(content), i)
		for name, text := range map[string]string{sha + ".bin": content, sha + ".jsonl": line} {
			noErr(t, os.WriteFile(filepath.Join(pad, name), []byte(text), 0o600))
		}
		must(index.WriteString(line))(t)
	}
	noErr(t, index.Close())
}

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
			must(s.Scan(background, around.ScanRequest{}))(b)
			var scans, undos time.Duration
			rounds := 0
			for b.Loop() {
				rounds++
				b.StopTimer()
				change(rounds)
				b.StartTimer()
				at := time.Now()
				found, err := s.Scan(background, around.ScanRequest{})
				require(b, err == nil && len(found.Files) != 0, "%v", err)
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

// BenchmarkNewestVersion repeatedly writes one file, and new files, at the level full:
// it measures the cost of the copy of the newest version.
func BenchmarkNewestVersion(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10} {
		for _, fresh := range []bool{false, true} {
			b.Run(fmt.Sprintf("%dKiB/fresh=%v", size>>10, fresh), func(b *testing.B) {
				s := openBench(b, rw.SyncFull)
				text := bytes.Repeat([]byte("a line of text that is long enough\n"), size/35+1)[:size]
				b.SetBytes(int64(size))
				b.ResetTimer()
				for i := range b.N {
					path := "a.txt"
					if fresh {
						path = fmt.Sprintf("%d/%d.txt", i%100, i)
					}
					r := put(path, fmt.Sprintf("%08d", i)+string(text[8:]), rw.ModeOverwrite)
					must(s.SafeWrite(background, r))(b)
				}
			})
		}
	}
}
