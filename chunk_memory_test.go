package resilientwrite_test

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestComposeInConstantMemory: 100 MB of pieces become one file without ever
// being in memory together.
func TestComposeInConstantMemory(t *testing.T) {
	size := 10 << 20
	if *long {
		size = 100 << 20
	}
	const pieces = 10
	s, dir := chunkStore(t)
	addChunk(t, s, "big", "")
	for i := range pieces {
		f, err := os.Create(chunkDir(dir, "big", fmt.Sprintf("part-%03d.txt", i+2)))
		if err != nil {
			t.Fatal(err)
		}
		io.Copy(f, &endless{left: int64(size / pieces)})
		f.Close()
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // as the library runs elsewhere
	peak, stop := peakMemory()
	r := composed(t, s, "big", "big.txt")
	p, err := s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: "big", MaxBytes: 10, Classify: true})
	stop()
	if err != nil || r.Bytes != int64(size) || p.SHA256 != r.SHA256 {
		t.Fatalf("%v %+v", err, r)
	}
	if *peak > 24<<20 {
		t.Errorf("%d MB of memory for %d MB of pieces", *peak>>20, size>>20)
	}
	t.Logf("peak %.1f MB for %d MB", float64(*peak)/(1<<20), size>>20)
}

// peakMemory samples how much the heap grows until stop is called.
func peakMemory() (peak *uint64, stop func()) {
	var before, now runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	peak = new(uint64)
	end, done := make(chan bool), make(chan bool)
	go func() {
		defer close(done)
		for {
			runtime.ReadMemStats(&now)
			if now.HeapInuse > before.HeapInuse {
				*peak = max(*peak, now.HeapInuse-before.HeapInuse)
			}
			select {
			case <-end:
				return
			case <-time.After(time.Millisecond):
			}
		}
	}()
	return peak, func() { close(end); <-done }
}
