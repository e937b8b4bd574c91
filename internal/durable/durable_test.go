package durable_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// TestWriteFileSurvives: at every operation the old file or the new one is
// found, and once the call returned, the new one.
func TestWriteFileSurvives(t *testing.T) {
	for n := 0; ; n++ {
		fs := simfs.New()
		fs.WriteFile("a", []byte("old"), 0o600)
		fs.StopAt(n)
		err := durable.WriteFile(fs.Root(), "a", []byte("new content"), 0o600)
		fs.StopAt(-1)
		for seed := range uint64(40) {
			disk := fs.Crash(seed, simfs.Some)
			got, _ := disk.ReadFile("a")
			if string(got) != "new content" && (err == nil || string(got) != "old") {
				t.Fatalf("operation %d: %q", n, got)
			}
			if err := durable.WriteFile(disk.Root(), "a", []byte("next"), 0o600); err != nil {
				t.Fatal(err) // a temporary file that is in the way
			}
		}
		if err == nil {
			return
		}
	}
}

// TestSharedStartsAfterItsCallers: whatever the schedule, the flush that
// answers a caller began after that caller asked, and a failed one fails all
// who waited for it.
func TestSharedStartsAfterItsCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s durable.Shared
		var clock, runs atomic.Int64
		var mu sync.Mutex
		results := map[error]int64{} // start of each run, by its result
		flush := func() error {
			started := clock.Add(1)
			runs.Add(1)
			time.Sleep(20 * time.Microsecond) // a flush takes its time
			err := fmt.Errorf("run %d", started)
			mu.Lock()
			results[err] = started
			mu.Unlock()
			return err
		}
		var wg sync.WaitGroup
		for range 64 {
			wg.Go(func() {
				for range 20 {
					asked := clock.Add(1)
					err := s.Do(flush)
					mu.Lock()
					started := results[err]
					mu.Unlock()
					if started < asked {
						t.Errorf("asked at %d, answered by a flush from %d", asked, started)
						return
					}
				}
			})
		}
		wg.Wait()
		// All others wait while one flush runs, so every caller is answered by
		// every second one.
		if n := runs.Load(); n > 2*20+2 {
			t.Errorf("%d flushes for 20 calls of each goroutine", n)
		}
	})
}
