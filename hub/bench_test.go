package hub

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
)

// text is text of n bytes that does not compress to nothing.
func text(n int) string {
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "line %d %x\n", b.Len(), rand.Uint64())
	}
	return b.String()[:n]
}

// BenchmarkShip ships 1,000 commits of 4 KiB, in one call as after a pause and by the
// batches of Follow, and puts as many packs of as many bytes into the hub beside it.
// Reported are rows and bytes per second, the requests, and the time beside that of
// the bare requests.
func BenchmarkShip(b *testing.B) {
	for _, batch := range []int{1000, followRows} {
		b.Run(fmt.Sprint("batch=", batch), func(b *testing.B) {
			dir := b.TempDir()
			h, err := Open(b.Context(), filepath.Join(dir, "hub"), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer h.Close()
			os.Mkdir(filepath.Join(dir, "a"), 0o755)
			s, err := rw.Open(b.Context(), filepath.Join(dir, "a"), &rw.Options{Sync: rw.SyncOff})
			if err != nil {
				b.Fatal(err)
			}
			defer s.Close(context.Background())
			ship := &Shipper{Hub: h, Store: s}
			var spent, bare time.Duration
			var rows, bytes, requests int64
			for b.Loop() {
				for i := range 1000 {
					if _, err := s.SafeWrite(b.Context(), rw.SafeWriteRequest{Path: fmt.Sprintf("d/%d.txt", i), Content: []byte(text(4096)), Mode: rw.ModeOverwrite}); err != nil {
						b.Fatal(err)
					}
					if i%batch != batch-1 {
						continue
					}
					began := time.Now()
					out, err := ship.Ship(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					spent += time.Since(began)
					rows, bytes, requests = rows+out.Rows, bytes+out.Bytes, requests+out.Requests
					// The same bytes, by as many writes as a shipment has: pack, slice, head.
					began = time.Now()
					for j := range 3 {
						data := []byte(text(max(1, int(out.Bytes/2)*(1-min(j, 1)))))
						if _, err := h.store.PutIfAbsent(b.Context(), fmt.Sprintf("objects/xx/%x", rand.Uint64()), data); err != nil {
							b.Fatal(err)
						}
					}
					bare += time.Since(began)
				}
			}
			b.ReportMetric(float64(rows)/spent.Seconds(), "rows/s")
			b.ReportMetric(float64(bytes)/spent.Seconds()/1e6, "MB/s")
			b.ReportMetric(float64(requests)*1000/float64(rows), "requests/1000")
			b.ReportMetric(float64(spent)/float64(bare), "x-bare")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkResume publishes 1,000 files of 4 KiB and resumes them elsewhere.
func BenchmarkResume(b *testing.B) {
	dir := b.TempDir()
	h, err := Open(b.Context(), filepath.Join(dir, "hub"), nil)
	if err != nil {
		b.Fatal(err)
	}
	defer h.Close()
	open := func(name string) *Shipper {
		root := filepath.Join(dir, name)
		os.MkdirAll(root, 0o755)
		s, err := rw.Open(b.Context(), root, nil)
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { s.Close(context.Background()) })
		return &Shipper{Hub: h, Store: s}
	}
	for i := range 1000 {
		path := filepath.Join(dir, "a", fmt.Sprint(i%50), fmt.Sprint(i))
		os.MkdirAll(filepath.Dir(path), 0o755)
		os.WriteFile(path, []byte(text(4096)), 0o644)
	}
	if _, err := open("a").Publish(b.Context(), PublishRequest{Task: "t", Root: filepath.Join(dir, "a")}); err != nil {
		b.Fatal(err)
	}
	n := 0
	for b.Loop() {
		b.StopTimer()
		n++
		s := open(fmt.Sprint("b", n))
		before := h.requests
		b.StartTimer()
		out, err := s.Resume(b.Context(), ResumeRequest{Task: "t", Force: true})
		if err != nil || out.Written != 1000 {
			b.Fatal(err, out.Written)
		}
		b.ReportMetric(float64(h.requests-before), "requests")
	}
}
