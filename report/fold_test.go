package report_test

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/google/go-cmp/cmp"

	"github.com/resilientwrite/resilientwrite/analytics"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/report"
)

func commit(seq uint64, ts, path string) report.Row {
	return report.Row{Seq: seq, TS: ts, Kind: "commit", Op: "edit", Path: path, Caller: "coder"}
}

// TestOnlyWhatHappenedIsCounted: commits that were rolled back, before or after
// their row came, rows of the state directory and rows of another time are not
// writes.
func TestOnlyWhatHappenedIsCounted(t *testing.T) {
	since := time.Date(2026, 3, 14, 9, 0, 0, 0, time.UTC)
	a := report.NewActivity(since, 100, same)
	for _, r := range []report.Row{
		commit(1, "2026-03-14T08:59:59Z", "too-early"),
		commit(2, "2026-03-14T09:00:00Z", "kept"),
		commit(3, "2026-03-14T09:01:00Z", "taken-back"),
		{Seq: 4, TS: "2026-03-14T09:01:00Z", Kind: "abort", Ref: 3, Path: "taken-back"},
		{Seq: 5, TS: "2026-03-14T09:01:00Z", Kind: "abort", Ref: 6, Path: "taken-back-first"},
		commit(6, "2026-03-14T09:02:00Z", "taken-back-first"),
		{Seq: 7, TS: "2026-03-14T09:02:00Z", Kind: "refused", Path: "refused"},
		{Seq: 8, TS: "2026-03-14T09:02:00Z", Kind: "note", Path: "note"},
		commit(9, "2026-03-14T09:03:00Z", ".resilient_write/chunks/s/part-001.txt"),
		commit(10, "not a time", "untimed"),
		commit(11, "2026-03-14T09:04:00+01:00", "an-hour-too-early"),
	} {
		a.Add(r)
	}
	testbed.Equal(t, cmp.Diff([]string{"kept", "untimed"}, a.Hot(10)), "")
	page := write(t, &report.Input{Made: made, Activity: a}, same)
	testbed.Contains(t, page, "Rows 2 to 10: 2 writes of files, 1 write of the store&#39;s own objects. 1 write has no time", ">abort<")
}

// TestActivityKeepsTheNewest: more rows than fit push out the oldest, and the
// files and the summary follow.
func TestActivityKeepsTheNewest(t *testing.T) {
	a := report.NewActivity(time.Time{}, 3, same)
	for i := range 5 {
		a.Add(commit(uint64(i+1), "2026-03-14T09:00:00Z", fmt.Sprint("f", i)))
		if i == 1 && len(a.Hot(9)) != 2 { // a summary that was asked for early does not stay
			t.Errorf("%v", a.Hot(9))
		}
	}
	if diff := cmp.Diff([]string{"f2", "f3", "f4"}, a.Hot(9)); diff != "" || a.Dropped() != 2 {
		t.Errorf("%d dropped\n%s", a.Dropped(), diff)
	}
}

// TestAxesHoldAnyTime: from one second to all the years a calendar has, an axis
// has a bounded number of bars and holds both ends.
func TestAxesHoldAnyTime(t *testing.T) {
	_, _, n := report.AxisOf(report.NoTime, report.NoTime)
	testbed.Expect(t, n == 0, "no time has %d bars", n)
	last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC).Unix()
	for _, c := range [][2]int64{{0, 0}, {59, 60}, {0, 3600}, {86399, 86400 * 3}, {1, 86400 * 365}, {0, last}, {last, last}} {
		start, width, n := report.AxisOf(c[0], c[1])
		testbed.Expect(t, n >= 12 && n <= 96 && start <= c[0] && c[0]-start < width && start+int64(n)*width > c[1] && start%width == 0,
			"%v: from %d, %d bars of %d", c, start, n, width)
	}
}

// TestTimesAreThoseOfTheReader: a page made in Berlin, in the week in which the
// clocks change there, has the times and the days of Berlin.
func TestTimesAreThoseOfTheReader(t *testing.T) {
	berlin := testbed.Must(time.LoadLocation("Europe/Berlin"))(t)
	a := report.NewActivity(time.Time{}, 10, same)
	for i, ts := range []string{"2026-03-27T23:30:00Z", "2026-04-01T21:30:00Z"} {
		a.Add(commit(uint64(i+1), ts, "f"))
	}
	in := &report.Input{Made: time.Date(2026, 4, 2, 8, 0, 0, 0, berlin), Since: time.Date(2026, 3, 27, 0, 0, 0, 0, time.UTC), Activity: a,
		Usage: analytics.Result{TotalWrites: 2, Period: period("2026-03-27T23:30:00Z", "2026-04-01T21:30:00Z")}}
	page := write(t, in, same)
	for _, want := range []string{
		"Rows from 2026-03-28 00:30:00 to 2026-04-01 23:30:00, looked at from 2026-03-27 01:00:00 on.", "Made 2026-04-02 08:00:00.", "Times are CEST (UTC&#43;02:00).",
	} {
		testbed.Expect(t, strings.Contains(page, want), "%s is not in the page", want)
	}
	testbed.Expect(t, !strings.Contains(page, "UTC)<") && !strings.Contains(page, " UTC."), "a time is said to be UTC")
	days := report.Spans(time.Date(2026, 3, 1, 9, 0, 0, 0, berlin), time.Date(2026, 5, 20, 9, 0, 0, 0, berlin), berlin)
	for i := range 81 {
		day := time.Date(2026, 3, 1+i, 0, 0, 0, 0, berlin).Format("2006-01-02")
		want := day + ": " + day + " to " + day
		testbed.Expect(t, days[i] == want, "bar %d is %s, want %s", i, days[i], want)
	}
	hours := report.Spans(time.Date(2026, 4, 1, 22, 10, 0, 0, berlin), time.Date(2026, 4, 1, 22, 50, 0, 0, berlin), berlin)
	testbed.Expect(t, hours[0] == "22:10: 2026-04-01 22:10–22:11", "a bar is %s", hours[0])
	kolkata := time.FixedZone("IST", 5*3600+1800)
	hours = report.Spans(time.Date(2026, 4, 1, 9, 10, 0, 0, kolkata), time.Date(2026, 4, 3, 9, 10, 0, 0, kolkata), kolkata)
	testbed.Expect(t, hours[0] == "04-01 09:00: 2026-04-01 09:00–10:00", "a bar is %s", hours[0])
}

// TestHostileTimesDrawNoNonsense: the years 1970 and 9999 in one chart, sizes
// and counts at the ends of their types.
func TestHostileTimesDrawNoNonsense(t *testing.T) {
	a := report.NewActivity(time.Time{}, 100, same)
	for i, ts := range []string{"1970-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00Z", "1969-12-31T23:59:59Z", ""} {
		r := commit(math.MaxUint64-uint64(i), ts, "f")
		r.Bytes = math.MaxInt64 - int64(i)
		a.Add(r)
	}
	in := &report.Input{Made: made, Activity: a, Usage: analytics.Result{
		TotalWrites: math.MaxInt, TotalBytesWritten: math.MinInt64, WriteVelocity: analytics.Velocity{WritesPerMinute: math.Inf(1)}, Period: period("x", "9999-12-31T23:59:59Z"),
	}}
	page := write(t, in, same)
	outline(t, page)
	testbed.Expect(t, !strings.Contains(page, "NaN") && len(page) <= 200<<10, "%d bytes", len(page))
}

// held is how much memory is in use.
func held() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestALargeJournalMakesASmallPage: 100 000 rows, with names as long and as
// many as they may be, fit into a page of less than 2 MB and into little memory.
// (The diffs have a budget of their own.)
func TestALargeJournalMakesASmallPage(t *testing.T) {
	fold := func(rows int, path func(int) string) *report.Activity {
		a := report.NewActivity(time.Time{}, 100_000, same)
		at := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		for i := range rows {
			r := commit(uint64(i+1), at.Add(time.Duration(i)*13*time.Second).Format(time.RFC3339), path(i))
			r.Caller, r.Session = fmt.Sprint("agent-", i%7), fmt.Sprint("session-", i/500)
			a.Add(r)
		}
		return a
	}
	page := write(t, &report.Input{Made: made, Activity: fold(100_000, func(i int) string { return fmt.Sprintf("src/p%d/file%d.go", i%40, i%997) })}, same)
	t.Logf("100000 ordinary rows: %d bytes", len(page))
	testbed.Expect(t, len(page) <= 200<<10, "%d bytes for ordinary rows", len(page))
	testbed.Expect(t, strings.Contains(write(t, &report.Input{Made: made, Usage: analytics.Result{WriteVelocity: analytics.Velocity{WritesPerMinute: 42227.33}}}, same), "<dd>42,227<"),
		"many writes per minute are not rounded")
	long := strings.Repeat("a\u202e", 1000)
	before := held()
	a := fold(10_000, func(i int) string { return fmt.Sprint(long, i) }) // 40 MB of names
	more := held() - before
	testbed.Expect(t, more <= 20<<20, "%d MiB are held", more>>20)
	in := full(long, same)
	in.Activity = a
	grow := func(rows []report.Row) []report.Row {
		for len(rows) < 1000 {
			rows = append(rows, rows[0])
		}
		return rows
	}
	in.Newest, in.Refused.Recent = grow(in.Newest), grow(in.Refused.Recent)
	file := in.Files[0]
	file.Now, file.Versions[0].Diff = nil, report.Diff{}
	for len(file.Versions) < 20 {
		file.Versions = append(file.Versions, file.Versions[0])
	}
	for in.Files = nil; len(in.Files) < 60; {
		in.Files = append(in.Files, file)
	}
	for len(in.Check.Problems) < 1000 {
		in.Check.Problems = append(in.Check.Problems, in.Check.Problems[0])
	}
	page = write(t, in, same)
	t.Logf("hostile rows: %d bytes", len(page))
	testbed.Expect(t, len(page) <= 2<<20, "%d bytes for hostile rows", len(page))
	testbed.Contains(t, page, "9,980 more files not shown.", "900 more problems not shown.", "950 more of the rows that were looked at are not shown.", "10 more files whose versions are not shown.")
}
