package report

import "time"

const (
	hour = 60 * 60
	day  = 24 * hour
)

// widths are how long the bars of a timeline may be, in seconds. Beyond them
// they double.
var widths = []int64{
	60, 2 * 60, 5 * 60, 10 * 60, 15 * 60, 30 * 60, hour, 2 * hour, 3 * hour, 6 * hour, 12 * hour,
	day, 2 * day, 7 * day, 14 * day, 28 * day, 91 * day, 364 * day,
}

// axis is the time of a chart, in bars of equal length.
type axis struct {
	start, width int64 // Unix seconds, seconds
	n            int
	zone         *time.Location
}

// fewBars is how many bars an axis has at least: one write makes no bar as wide
// as the page.
const fewBars = 12

// axisOf is the axis that holds both times, with no more bars than a page has
// room for. Bars begin at full hours and days of the zone. noTime gives an axis
// without bars.
func axisOf(first, last int64, zone *time.Location) axis {
	if first == noTime || last == noTime {
		return axis{}
	}
	a := axis{zone: zone}
	_, east := time.Unix(first, 0).In(zone).Zone()
	for i := 0; ; i++ {
		if i < len(widths) {
			a.width = widths[i]
		} else {
			a.width *= 2
		}
		a.start = floor(first+int64(east), a.width) - int64(east)
		if n := (last-a.start)/a.width + 1; n <= maxBars {
			a.n = max(int(n), fewBars)
			return a
		}
	}
}

// at is the bar of a time, -1 for one that is on no bar.
func (a axis) at(t int64) int {
	if t == noTime || a.n == 0 || t < a.start || t >= a.start+int64(a.n)*a.width {
		return -1
	}
	return int((t - a.start) / a.width)
}

// from is the time at which a bar begins.
func (a axis) from(i int) time.Time { return time.Unix(a.start+int64(i)*a.width, 0).In(a.zone) }

// dayOf is the day on which a bar of whole days begins: where the clocks change,
// that is an hour off.
func (a axis) dayOf(i int) string { return a.from(i).Add(2 * time.Hour).Format("2006-01-02") }

// span is the period of a bar, in words.
func (a axis) span(i int) string {
	from, to := a.from(i), a.from(i+1)
	if a.width >= day {
		return a.dayOf(i) + " to " + to.Add(-12*time.Hour).Format("2006-01-02")
	}
	if from.YearDay() == to.YearDay() {
		return from.Format("2006-01-02 15:04") + "–" + to.Format("15:04")
	}
	return from.Format("2006-01-02 15:04") + " to " + to.Format("2006-01-02 15:04")
}

// label is the text below the beginning of a bar.
func (a axis) label(i int) string {
	t := a.from(i)
	switch {
	case a.width >= day:
		return a.dayOf(i)
	case int64(a.n)*a.width > day:
		return t.Format("01-02 15:04")
	}
	return t.Format("15:04")
}

// length is how long a bar is, in words.
func (a axis) length() string {
	for _, u := range []struct {
		seconds   int64
		one, many string
	}{{day, "day", "days"}, {hour, "hour", "hours"}, {60, "minute", "minutes"}} {
		if a.width >= u.seconds && a.width%u.seconds == 0 {
			return counted(a.width/u.seconds, u.one, u.many)
		}
	}
	return counted(a.width, "second", "seconds")
}
