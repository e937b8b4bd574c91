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
