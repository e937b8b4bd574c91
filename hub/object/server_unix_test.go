//go:build unix

package object

import (
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/hub/object/s3test"
)

// TestRealServer checks the promises of every backend on a server of another project, and makes
// clients contend while it is killed and started again, directly and through faults.
func TestRealServer(t *testing.T) {
	credentials(t)
	s := s3test.StartGateway(t, "")
	t.Run("conformance", func(t *testing.T) {
		store := client(t, s.URL())
		if err := probe(ctx, store); err != nil {
			t.Fatal(err)
		}
		conform(t, store)
	})
	through := s.Handler()
	for name, choose := range map[string]func(*http.Request) s3test.Fault{"killed": nil, "killed, with faults": s3test.Random(1, 6)} {
		t.Run(name, func(t *testing.T) {
			p := &s3test.Proxy{Next: through, Choose: choose}
			var clients []Store
			for range 6 {
				c := serve(t, p)
				c.pause = 5 * time.Millisecond
				clients = append(clients, c)
			}
			var over atomic.Bool
			var wg sync.WaitGroup
			restarts := 0
			wg.Go(func() {
				for !over.Load() {
					time.Sleep(100 * time.Millisecond)
					s.Kill()
					s.Start()
					restarts++
				}
			})
			race(t, clients, func() Store {
				over.Store(true)
				wg.Wait()
				p.Flush()
				c := client(t, s.URL())
				return c
			}, 2, 100)
			t.Logf("%d restarts", restarts)
			c := client(t, s.URL())
			for _, key := range all(t, c, "race/") {
				if err := c.Delete(ctx, key); err != nil {
					t.Error(err)
				}
			}
		})
	}
}
