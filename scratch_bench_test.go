package resilientwrite_test

import (
	"fmt"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// BenchmarkScratchPut keeps one new object of 1 KiB after the other.
func BenchmarkScratchPut(b *testing.B) {
	for _, level := range []rw.SyncLevel{rw.SyncFull, rw.SyncOff} {
		b.Run(string(level), func(b *testing.B) {
			s := openBench(b, level)
			for i := range b.N {
				r := rw.ScratchPutRequest{Content: fmt.Sprintf("%01024d", i), Label: "bench"}
				if _, err := s.ScratchPut(background, r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
