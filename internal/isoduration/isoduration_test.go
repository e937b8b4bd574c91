package isoduration_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resilientwrite/resilientwrite/internal/isoduration"
)

type duration = isoduration.Duration

func TestParse(t *testing.T) {
	for _, c := range []struct {
		in   string
		want duration
		text string // what String gives, if not in
	}{
		{in: "P1W", want: duration{Weeks: 1}},
		{in: "P1Y2M3DT4H5M6S", want: duration{1, 2, 0, 3, 4*time.Hour + 5*time.Minute + 6*time.Second}},
		{in: "PT1.5H", want: duration{Clock: 90 * time.Minute}, text: "PT1H30M"},
		{in: "PT1,5H", want: duration{Clock: 90 * time.Minute}, text: "PT1H30M"},
		{in: "PT0.5S", want: duration{Clock: 500 * time.Millisecond}},
		{in: "PT0,5S", want: duration{Clock: 500 * time.Millisecond}, text: "PT0.5S"},
		{in: "PT0.000000001S", want: duration{Clock: 1}},
		{in: "P1.5D", want: duration{Days: 1, Clock: 12 * time.Hour}, text: "P1DT12H"},
		{in: "P1.5W", want: duration{Weeks: 1, Days: 3, Clock: 12 * time.Hour}, text: "P10DT12H"},
		{in: "P0.5Y", want: duration{Months: 6}, text: "P6M"},
		{in: "P1.0M", want: duration{Months: 1}, text: "P1M"},
		{in: "P1Y0.5D", want: duration{Years: 1, Clock: 12 * time.Hour}, text: "P1YT12H"},
		{in: "P1M", want: duration{Months: 1}},
		{in: "PT1M", want: duration{Clock: time.Minute}},
		{in: "PT36H", want: duration{Clock: 36 * time.Hour}},
		{in: "P0DT1H", want: duration{Clock: time.Hour}, text: "PT1H"},
		{in: "P007D", want: duration{Days: 7}, text: "P7D"},
		{in: "P100Y", want: duration{Years: 100}},
		{in: "P36525D", want: duration{Days: 36525}},
		{in: "PT876600H", want: duration{Clock: 876600 * time.Hour}},
	} {
		got, err := isoduration.Parse(c.in)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", c.in, diff)
		}
		if c.text == "" {
			c.text = c.in
		}
		if got.String() != c.text {
			t.Errorf("%s: String gives %s, want %s", c.in, got, c.text)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const number, zero, long = "number", "longer than zero", "100 years"
	for in, want := range map[string]string{
		"": "begin with P", "P": "nothing follows the P", "PT": "nothing follows the T",
		"P1DT": "nothing follows the T", "PT0S": zero, "P0D": zero, "P0W": zero, "P0.0D": zero,
		"P1D\n": number, "P1D ": number, " P1D": "begin with P", "P 1D": number, "P1 D": "unit",
		"p1d": "begin with P", "P1d": "unit", "Pt1H": number, "PT1h": "unit",
		"-P1D": "begin with P", "+P1D": "begin with P", "P-1D": number, "P+1D": number,
		"1": "begin with P", "86400": "begin with P", "P1": "no unit", "PT1": "no unit", "P1D2": "no unit",
		"P1D1Y": "order", "PT1S1M": "order", "P1H": "unit", "PT1D": "unit", "PT1Y": "unit",
		"P1D1D": "repeated", "PT1H1H": "repeated", "P1DT1HT1M": number, "PP1D": number,
		"P1W1D": "weeks", "P1Y1W": "weeks", "P1WT1H": "weeks",
		"P1.5DT1H": "fraction", "P1.5Y1M": "fraction", "PT1.5H1M": "fraction",
		"P1.D": "fraction", "P.5D": number, "P1.2.3D": "unit", "P1,D": "fraction",
		"P0.5M": "month", "P0.3Y": "whole number of months", "PT0.0000000001S": "nanoseconds",
		"PT0." + strings.Repeat("3", 1000) + "H": "nanoseconds",
		"P101Y":                                  long, "P1201M": long, "P100Y1D": long, "P99Y366D": long, "P36526D": long, "P5218W": long,
		"PT876600H1S": long, "PT876600H52596000M3155760000S": long,
		"P99999999999999999999Y": long, "P9223372036854775808D": long, "PT" + strings.Repeat("9", 1000) + "S": long,
		"P\uff11D": number, "P1D\x00": number, "tomorrow": "begin with P", "1 week": "begin with P",
		"P2026-01-01T00:00:00": "unit",
	} {
		got, err := isoduration.Parse(in)
		if err == nil {
			t.Errorf("%q: accepted as %v", in, got)
		} else if !strings.Contains(err.Error(), want) || len(err.Error()) > 250 {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
}

func TestAfter(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no time zones here:", err)
	}
	at := func(s string) time.Time {
		when, err := time.ParseInLocation("2006-01-02 15:04:05", s, zone)
		if err != nil {
			t.Fatal(err)
		}
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
		d, err := isoduration.Parse(c.add)
		if err != nil {
			t.Fatal(err)
		}
		if got := d.After(at(c.start)); !got.Equal(at(c.want)) || got.Location() != zone {
			t.Errorf("%s + %s = %v, want %s", c.start, c.add, got, c.want)
		}
	}
}

// FuzzParse: what is accepted is above zero, at most a hundred years, and has
// the same effect after it was written and read again.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"P1W", "P1Y2M3DT4H5M6S", "PT1.5H", "P1.5D", "P1,5W", "P0.5Y", "PT0S", "P100Y", "P1DT", ""} {
		f.Add(s)
	}
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		d, err := isoduration.Parse(s)
		if err != nil {
			if d != (duration{}) {
				t.Fatalf("%q: %v beside an error", s, d)
			}
			return
		}
		end := d.After(start)
		if !end.After(start) || end.After(start.AddDate(isoduration.MaxYears, 0, 0)) {
			t.Fatalf("%q ends %v", s, end)
		}
		again, err := isoduration.Parse(d.String())
		if err != nil || !again.After(start).Equal(end) || again.String() != d.String() {
			t.Fatalf("%q: %q is read as %v, %v", s, d.String(), again, err)
		}
	})
}
