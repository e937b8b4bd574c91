package testbed

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// TestLinearSeesWhatIsNot: a count, an allocation and a plain loop that are
// quadratic fail; what is linear passes, also when it has a limit.
func TestLinearSeesWhatIsNot(t *testing.T) {
	for _, row := range []struct {
		name  string
		fails bool
		do    func(n int) int
	}{
		{"counted", true, func(n int) int { return n * n / 100 }},
		{"counted, linear", false, func(n int) int { return 10 * n }},
		{"a limit", false, func(n int) int {
			if n > 5000 {
				return 100 * n
			}
			return n
		}},
		{"allocated", true, func(n int) int {
			text := ""
			for range n / 8 {
				text += "12345678"
			}
			return min(len(text), 1)
		}},
		{"objects", true, func(n int) int {
			for range n * n / 4000 {
				sink = new(int)
			}
			return 0
		}},
		{"allocated, linear", false, func(n int) int { return len(strings.Repeat("12345678", n)) / (n + 1) }},
		{"grown", false, func(n int) int {
			var b bytes.Buffer
			for range n {
				b.WriteString("12345678")
			}
			return 0
		}},
		{"a loop", true, func(n int) int {
			work(time.Duration(n * n / 2))
			return 0
		}},
	} {
		c := &complaints{TB: t}
		linear(c, row.name, 4<<10, 20*time.Nanosecond, func() float64 { return 1 }, row.do)
		if (c.n > 0) != row.fails {
			t.Errorf("%s: %d complaints", row.name, c.n)
		}
	}
}

// TestLinearLeavesOutSlowRuns: runs that take more processor time than they need, as when
// the machine has other work, are not the ones that count.
func TestLinearLeavesOutSlowRuns(t *testing.T) {
	runs, c := 0, &complaints{TB: t}
	Linear(c, "disturbed", 4<<10, time.Nanosecond, func(n int) int {
		if runs++; runs%3 == 2 {
			work(time.Duration(100*slowness()) * time.Millisecond)
		}
		return n
	})
	if c.n > 0 || runs < 4 && !RaceDetector {
		t.Errorf("%d complaints of %d runs", c.n, runs)
	}
}

var sink *int

// work uses processor time.
func work(d time.Duration) {
	for began := processorTime(); processorTime()-began < d; {
	}
}

func TestText(t *testing.T) {
	for _, row := range []struct {
		open, shut string
		n          int
		want       string
	}{
		{"[", "]", 6, "[[[]]]"}, {"a", "", 3, "aaa"}, {"k#,", "", 16, "k100000,k100001,"}, {"", "", 9, ""}, {"abc", "", 1, "abc"}, {"<#>", "</#>", 20, "<100000></100000>"},
	} {
		if got := string(Text(row.open, row.shut, row.n)); got != row.want {
			t.Errorf("%q %q: %q, want %q", row.open, row.shut, got, row.want)
		}
	}
}

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
