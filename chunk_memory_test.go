package resilientwrite_test

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestComposeInConstantMemory: 100 MB of chunks become one file without ever being in
// memory together. The test counts the allocations, not the memory in use, which
// depends on the garbage collector.
func TestComposeInConstantMemory(t *testing.T) {
	size := 10 << 20
	if !short() {
		size = 100 << 20
	}
	const pieces = 10
	s, dir := chunkStore(t)
	addChunk(t, s, "big", "")
	for i := range pieces {
		f := must(os.Create(chunkDir(dir, "big", fmt.Sprintf("part-%03d.txt", i+2))))(t)
		io.Copy(f, &endless{left: int64(size / pieces)})
		f.Close()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := composed(t, s, "big", "big.txt")
	p, err := s.ChunkPreview(background, rw.ChunkPreviewRequest{Session: "big", MaxBytes: 10, Classify: true})
	runtime.ReadMemStats(&after)
	if err != nil || r.Bytes != int64(size) || p.SHA256 != r.SHA256 {
		t.Fatalf("%v %+v", err, r)
	}
	used := after.TotalAlloc - before.TotalAlloc
	if used > 24<<20 { // one copy of the smaller size, grown by doubling, is as much
		t.Errorf("%d MB were allocated for %d MB of pieces", used>>20, size>>20)
	}
	t.Logf("%.1f MB were allocated for %d MB", float64(used)/(1<<20), size>>20)
}
