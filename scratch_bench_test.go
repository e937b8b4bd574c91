package resilientwrite_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// BenchmarkScratchPut keeps one new object of 1 KiB after the other.
func BenchmarkScratchPut(b *testing.B) {
	for _, level := range []rw.SyncLevel{rw.SyncFull, rw.SyncOff} {
		b.Run(string(level), func(b *testing.B) {
			s := openBench(b, level)
			for i := range b.N {
				r := rw.ScratchPutRequest{Content: []byte(fmt.Sprintf("%01024d", i)), Label: "bench"}
				if _, err := s.ScratchPut(background, r); err != nil {
					b.Fatal(err)
				}
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
				s, err := rw.Open(background, dir, &rw.Options{Sync: rw.SyncOff})
				if err != nil {
					b.Fatal(err)
				}
				defer s.Close(background)
				for i := range 3 { // the first calls read the existing content
					if _, err := s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte(fmt.Sprintf("warm %d", i)), Label: "bench"}); err != nil {
						b.Fatal(err)
					}
				}
				b.ResetTimer()
				for i := range b.N {
					r := rw.ScratchPutRequest{Content: []byte(fmt.Sprintf("%01024d", i)), Label: "bench"}
					if again {
						r.Content = []byte("warm 1")
					}
					if _, err := s.ScratchPut(background, r); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// fillScratch makes a scratchpad of n objects, as so many puts would.
func fillScratch(t testing.TB, dir string, n int) {
	t.Helper()
	pad := filepath.Join(dir, ".resilient_write", "scratch")
	s, err := rw.Open(background, dir, &rw.Options{Sync: rw.SyncOff})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte("first")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(background); err != nil {
		t.Fatal(err)
	}
	index, err := os.OpenFile(filepath.Join(pad, "index.jsonl"), os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		content := fmt.Sprintf("object %d", i)
		sum := sha256.Sum256([]byte(content))
		sha := hex.EncodeToString(sum[:])
		line := fmt.Sprintf(`{"sha256":%q,"bytes":%d,"label":"l%d","content_type":"","notes":"","caller":"test","ts":"2026-01-01T00:00:00.000000Z"}`+"\n", sha, len(content), i)
		for name, text := range map[string]string{sha + ".bin": content, sha + ".jsonl": line} {
			if err := os.WriteFile(filepath.Join(pad, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := index.WriteString(line); err != nil {
			t.Fatal(err)
		}
	}
	if err := index.Close(); err != nil {
		t.Fatal(err)
	}
}
