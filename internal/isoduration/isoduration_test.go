package isoduration_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resilientwrite/resilientwrite/internal/isoduration"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

type duration = isoduration.Duration

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in   string
		want duration
	}{
		{in: "P1W", want: duration{Weeks: 1}},
		{in: "P1Y2M3DT4H5M6S", want: duration{1, 2, 0, 3, 4*time.Hour + 5*time.Minute + 6*time.Second}},
		{in: "PT1.5H", want: duration{Clock: 90 * time.Minute}},
		{in: "PT1,5H", want: duration{Clock: 90 * time.Minute}},
		{in: "PT0.5S", want: duration{Clock: 500 * time.Millisecond}},
		{in: "PT0,5S", want: duration{Clock: 500 * time.Millisecond}},
		{in: "PT0.000000001S", want: duration{Clock: 1}},
		{in: "P1.5D", want: duration{Days: 1, Clock: 12 * time.Hour}},
		{in: "P1.5W", want: duration{Weeks: 1, Days: 3, Clock: 12 * time.Hour}},
		{in: "P0.5Y", want: duration{Months: 6}},
		{in: "P1.0M", want: duration{Months: 1}},
		{in: "P1Y0.5D", want: duration{Years: 1, Clock: 12 * time.Hour}},
		{in: "P1M", want: duration{Months: 1}},
		{in: "PT1M", want: duration{Clock: time.Minute}},
		{in: "PT36H", want: duration{Clock: 36 * time.Hour}},
		{in: "P0DT1H", want: duration{Clock: time.Hour}},
		{in: "P007D", want: duration{Days: 7}},
		{in: "P100Y", want: duration{Years: 100}},
		{in: "P36525D", want: duration{Days: 36525}},
		{in: "PT876600H", want: duration{Clock: 876600 * time.Hour}},
	} {
		got, err := isoduration.Parse(c.in)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		testbed.Equal(t, cmp.Diff(c.want, got), "", c.in)
	}
}

func TestParseRefuses(t *testing.T) {
	const form, zero, long, month, fraction, nanoseconds = "not of the form", "longer than zero", "100 years", "whole number of months", "only the last", "whole number of nanoseconds"
	for want, list := range map[string][]string{
		form: {"", "P", "PT", "P1DT", "P1D\n", "P1D ", " P1D", "P 1D", "P1 D", "p1d", "P1d", "Pt1H", "PT1h", "-P1D", "+P1D", "P-1D", "P+1D", "1", "86400", "P1", "PT1", "P1D2",
			"P1D1Y", "PT1S1M", "P1H", "PT1D", "PT1Y", "P1D1D", "PT1H1H", "P1DT1HT1M", "PP1D", "P1W1D", "P1Y1W", "P1WT1H", "P1.D", "P.5D", "P1.2.3D", "P1,D",
			"P\uff11D", "P1D\x00", "tomorrow", "1 week", "P2026-01-01T00:00:00"},
		zero:        {"PT0S", "P0D", "P0W", "P0.0D"},
		fraction:    {"P1.5DT1H", "P1.5Y1M", "PT1.5H1M"},
		month:       {"P0.5M", "P0.3Y"},
		nanoseconds: {"PT0.0000000001S", "PT0." + strings.Repeat("3", 1000) + "H", "PT1." + strings.Repeat("0", 40) + "1H"},
		long: {"P101Y", "P1201M", "P100Y1D", "P99Y366D", "P36526D", "P5218W", "PT876600H1S", "PT876600H52596000M3155760000S",
			"P99999999999999999999Y", "P9223372036854775808D", "PT" + strings.Repeat("9", 1000) + "S"},
	} {
		for _, in := range list {
			got, err := isoduration.Parse(in)
			if err == nil {
				t.Errorf("%q: accepted as %v", in, got)
			} else if !strings.Contains(err.Error(), want) || len(err.Error()) > 250 {
				t.Errorf("%q: %v, want %q", in, err, want)
			}
		}
	}
}

func TestAfter(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no time zones here:", err)
	}
	at := func(s string) time.Time {
		when := testbed.Must(time.ParseInLocation("2006-01-02 15:04:05", s, zone))(t)
		return when
	}
	for _, c := range []struct{ start, add, want string }{
		{"2026-01-31 10:00:00", "P1M", "2026-02-28 10:00:00"},
		{"2028-01-31 10:00:00", "P1M", "2028-02-29 10:00:00"},
		{"2028-02-29 10:00:00", "P1Y", "2029-02-28 10:00:00"},
		{"2026-11-30 10:00:00", "P3M", "2027-02-28 10:00:00"},
		{"2026-12-31 10:00:00", "P1M1D", "2027-02-01 10:00:00"},
		{"2026-11-21 10:00:00", "P1W", "2026-11-28 10:00:00"},
		{"2026-11-21 10:00:00", "P0.5Y", "2027-05-21 10:00:00"},
		{"2026-10-24 10:00:00", "P1D", "2026-10-25 10:00:00"},   // 25 hours
		{"2026-10-24 10:00:00", "PT24H", "2026-10-25 09:00:00"}, // 24 hours
		{"2026-11-21 10:00:00", "P1Y2M3DT4H5M6S", "2028-01-24 14:05:06"},
	} {
		d := testbed.Must(isoduration.Parse(c.add))(t)
		got := d.After(at(c.start))
		testbed.Expect(t, got.Equal(at(c.want)) && got.Location() == zone, "%s + %s = %v, want %s", c.start, c.add, got, c.want)
	}
}

// FuzzParse: what is accepted is above zero and at most a hundred years.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"P1W", "P1Y2M3DT4H5M6S", "PT1.5H", "P1.5D", "P1,5W", "P0.5Y", "PT0S", "P100Y", "P1DT", ""} {
		f.Add(s)
	}
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		d, err := isoduration.Parse(s)
		if err != nil {
			testbed.Require(t, d == (duration{}), "%q: %v beside an error", s, d)
			return
		}
		end := d.After(start)
		testbed.Require(t, end.After(start) && !end.After(start.AddDate(isoduration.MaxYears, 0, 0)), "%q ends %v", s, end)
	})
}

// FuzzLinear: reading a duration takes work in proportion to its length.
func FuzzLinear(f *testing.F) {
	testbed.FuzzLinear(f, 16<<10, time.Microsecond, []string{"9", "1Y", "T1H", "0", "P", "1.", ".9"}, func(text []byte) int {
		for _, s := range []string{string(text), "P" + string(text), "P" + string(text) + "D", "PT0." + string(text) + "H", "P1DT" + string(text) + "S"} {
			isoduration.Parse(s)
		}
		return 0
	})
}
