// Package isoduration reads durations written in ISO 8601, such as P1W, P2Y6M
// or PT1.5H, and adds them to a point in time.
//
// The reading is strict: what is not exactly a duration of the standard is
// refused, so that a mistyped deadline is noticed when it is written.
package isoduration

import (
	"strconv"
	"strings"
	"time"
)

// MaxYears is the longest duration that is accepted, in years.
const MaxYears = 100

// Duration is a duration above zero and of at most [MaxYears] years. A day or
// a month has no fixed length, therefore the calendar parts stand beside the
// clock part. A fraction of a day or of a week is kept in the smaller fields:
// P1.5D is one day and twelve hours, P0.5Y is six months.
type Duration struct {
	Years, Months, Weeks, Days int
	Clock                      time.Duration
}

// After returns the time that lies d after t. Years and months are added
// first, in the calendar and time zone of t: a day that the month reached does
// not have becomes the last day of that month, so 31 January and P1M give
// 28 or 29 February. Then weeks and days are added, which keep the time of day
// also when the clocks are changed, and at last the hours, minutes and
// seconds, which are elapsed time.
func (d Duration) After(t time.Time) time.Time {
	months := 12*d.Years + d.Months
	if months != 0 {
		year, month, day := t.Date()
		hour, minute, second := t.Clock()
		first := time.Date(year, month+time.Month(months), 1, 12, 0, 0, 0, time.UTC)
		if last := first.AddDate(0, 1, -1).Day(); day > last {
			day = last
		}
		t = time.Date(first.Year(), first.Month(), day, hour, minute, second, t.Nanosecond(), t.Location())
	}
	if days := 7*d.Weeks + d.Days; days != 0 {
		t = t.AddDate(0, 0, days)
	}
	return t.Add(d.Clock)
}

// String returns d in ISO 8601. [Parse] reads it back to a duration of the same
// effect; weeks stay weeks only when they stand alone, else they are written
// as days, because the standard does not combine them.
func (d Duration) String() string {
	if d.Weeks != 0 && (Duration{Weeks: d.Weeks}) == d {
		return "P" + strconv.Itoa(d.Weeks) + "W"
	}
	var b strings.Builder
	b.WriteByte('P')
	part(&b, d.Years, 'Y')
	part(&b, d.Months, 'M')
	part(&b, 7*d.Weeks+d.Days, 'D')
	if d.Clock != 0 {
		b.WriteByte('T')
		part(&b, int64(d.Clock/time.Hour), 'H')
		part(&b, int64(d.Clock%time.Hour/time.Minute), 'M')
		if rest := d.Clock % time.Minute; rest != 0 {
			b.WriteString(strconv.FormatFloat(rest.Seconds(), 'f', -1, 64))
			b.WriteByte('S')
		}
	}
	if b.Len() == 1 {
		return "PT0S"
	}
	return b.String()
}

// part writes one component unless it is zero.
func part[T int | int64](b *strings.Builder, n T, unit byte) {
	if n != 0 {
		b.WriteString(strconv.FormatInt(int64(n), 10))
		b.WriteByte(unit)
	}
}
