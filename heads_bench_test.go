package resilientwrite_test

import (
	"bytes"
	"fmt"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

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
