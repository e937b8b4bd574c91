package testbed

import (
	"testing"
	"time"
)

// complaints counts what a test would have failed with.
type complaints struct {
	testing.TB
	n int
}

func (c *complaints) Helper()               {}
func (c *complaints) Errorf(string, ...any) { c.n++ }

// TestWithinCountsWorkAndNoWaiting: work over the limit is reported, waiting for
// longer than the limit is not.
func TestWithinCountsWorkAndNoWaiting(t *testing.T) {
	c := &complaints{TB: t}
	end := Within(c, 50*time.Millisecond, "waiting")
	time.Sleep(200 * time.Millisecond)
	if end(); c.n != 0 {
		t.Error("waiting counts")
	}
	began := processorTime()
	end = Within(c, time.Millisecond, "work")
	for range 20 {
		yardstick()
	}
	if end(); c.n != 1 {
		t.Errorf("%d complaints of %v of work", c.n, processorTime()-began)
	}
	t.Logf("code takes %.1f times as long as usual", slowness())
}
