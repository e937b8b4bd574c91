//go:build unix

package resilientwrite_test

import (
	"syscall"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
)

// BenchmarkAnalytics folds a journal of a million rows into figures: as
// Analytics reads it, and with every row decoded in full.
func BenchmarkAnalytics(b *testing.B) {
	dir := journalOf(b, 1_000_000)
	s := must(rw.Open(background, dir, &rw.Options{ReadOnly: true}))(b)
	defer s.Close(background)
	for _, way := range []struct {
		name    string
		figures func() (rw.AnalyticsResult, error)
	}{
		{"skimmed", func() (rw.AnalyticsResult, error) { return s.Analytics(background, rw.AnalyticsRequest{}) }},
		{"decoded", s.AnalyticsDecoded},
	} {
		b.Run(way.name, func(b *testing.B) {
			b.ReportAllocs()
			before := cpuTime()
			for b.Loop() {
				if r, err := way.figures(); err != nil || r.TotalWrites != 1_000_000 {
					b.Fatal(r.TotalWrites, err)
				}
			}
			b.ReportMetric((cpuTime()-before).Seconds()/float64(b.N), "cpu-s/op")
		})
	}
}

func cpuTime() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
