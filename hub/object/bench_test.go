package object

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/resilientwrite/resilientwrite/hub/object/s3test"
)

// BenchmarkStore measures puts and swaps of small and large objects. The directory is below TMPDIR,
// which selects the disk. For the bucket it measures the client and the protocol, without a disk
// and a network.
func BenchmarkStore(b *testing.B) {
	for name, open := range map[string]func(b *testing.B) Store{
		"directory": func(b *testing.B) Store { return mustOpen(b, b.TempDir()) },
		"bucket":    func(b *testing.B) Store { return serve(b, &s3test.Server{Keys: credentials(b)}) },
	} {
		for _, size := range []int{1 << 10, 256 << 10} {
			for _, writers := range []int{1, 8} {
				b.Run(fmt.Sprintf("%s/put=%d/writers=%d", name, size, writers), func(b *testing.B) {
					s := open(b)
					data := make([]byte, size)
					var n atomic.Int64
					b.SetBytes(int64(size))
					b.ResetTimer()
					var wg sync.WaitGroup
					for range writers {
						wg.Go(func() {
							for i := n.Add(1); i <= int64(b.N); i = n.Add(1) {
								if _, err := s.PutIfAbsent(ctx, fmt.Sprintf("objects/%02x/%d", byte(i), i), data); err != nil {
									b.Error(err)
								}
							}
						})
					}
					wg.Wait()
					b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "puts/s")
				})
			}
		}
		b.Run(name+"/swap", func(b *testing.B) {
			s := open(b)
			tag := ""
			for i := range b.N {
				var err error
				if tag, err = s.CompareAndSwap(ctx, "head", tag, fmt.Appendf(nil, "%01024d", i)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "swaps/s")
		})
	}
}
