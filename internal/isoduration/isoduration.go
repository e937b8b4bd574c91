// Package isoduration reads durations written in ISO 8601, such as P1W, P2Y6M
// or PT1.5H, and adds them to a point in time.
//
// Parsing is strict: anything but a duration of the standard is refused, so that a
// mistyped deadline is noticed when it is written.
package isoduration

import (
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"sync"
	"time"
)

// MaxYears is the longest duration that is accepted, in years, and Max in days from
// 2000-01-01.
const (
	MaxYears = 100
	Max      = 36525 * day
)

// Duration is a duration above zero and of at most [MaxYears] years. A day or a month
// has no fixed length, so the calendar parts are kept apart from the clock part. A
// fraction of a day or of a week is kept in the smaller fields: P1.5D is one day and
// twelve hours, P0.5Y is six months.
type Duration struct {
	Years, Months, Weeks, Days int
	Clock                      time.Duration
}

// After returns the time d after t. Years and months are added
// first, in the calendar and time zone of t: a day that the month reached does
// not have becomes the last day of that month, so 31 January and P1M give
// 28 or 29 February. Then weeks and days are added, which keep the time of day
// also when the clocks are changed, and at last the hours, minutes and
// seconds, which are elapsed time.
func (d Duration) After(t time.Time) time.Time {
	if d.Years != 0 || d.Months != 0 {
		wanted := t.Day()
		for t = t.AddDate(d.Years, d.Months, 0); t.Day() != wanted && t.Day() < 4; {
			t = t.AddDate(0, 0, -1)
		}
	}
	return t.AddDate(0, 0, 7*d.Weeks+d.Days).Add(d.Clock)
}

// form has a group for each component: years, months, days, the clock with its
// T, hours, minutes, seconds, and weeks.
var form = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(strings.ReplaceAll(`^P(?:(N)Y)?(?:(N)M)?(?:(N)D)?(T(?:(N)H)?(?:(N)M)?(?:(N)S)?)?$|^P(N)W$`, "N", `[0-9]+(?:[.,][0-9]+)?`))
})

const day = 24 * time.Hour

// ErrTooLong is returned for a duration of more than [MaxYears] years.
var ErrTooLong = fmt.Errorf("longer than the maximum of %d years", MaxYears)

var most = new(big.Rat).SetInt64(int64(Max))

// Parse reads a duration of the form PnYnMnDTnHnMnS or PnW. Components may be left out,
// but at least one is required, and at least one after a T. The last component may have
// a fraction, after a point or a comma, if the result is a whole number of months (for
// years) or of nanoseconds. A fraction of a month is refused, because months differ in
// length.
//
// Everything else is refused: signs, spaces, lower case, weeks with other components, a
// total of zero, and more than [MaxYears] years.
func Parse(s string) (Duration, error) {
	d, err := parse(s)
	if err != nil {
		shown := s
		if len(shown) > 40 {
			shown = shown[:40] + "..."
		}
		return Duration{}, fmt.Errorf("not an ISO 8601 duration: %q: %w", shown, err)
	}
	return d, nil
}

func parse(s string) (Duration, error) {
	m := form().FindStringSubmatch(s)
	if m == nil || s == "P" || m[4] == "T" {
		return Duration{}, errors.New("it is not of the form PnYnMnDTnHnMnS or PnW, with at least one component, and one after a T")
	}
	if i := strings.IndexAny(s, ".,"); i >= 0 && strings.ContainsAny(strings.TrimLeft(s[i+1:], "0123456789")[1:], "0123456789") {
		return Duration{}, errors.New("only the last component may have a fraction")
	}
	var wrong error
	// amount returns a component in a smaller unit, of which it must be a whole number.
	amount := func(text string, unit int64, name string) int64 {
		n, ok := new(big.Rat).SetString("0" + strings.Replace(text[:min(len(text), 40)], ",", ".", 1))
		n.Mul(n, new(big.Rat).SetInt64(unit))
		switch {
		case !ok || n.Cmp(most) > 0:
			wrong = ErrTooLong
			return 0
		case !n.IsInt() || len(text) > 40:
			wrong = fmt.Errorf("the fraction is not a whole number of %s", name)
			return 0
		}
		return n.Num().Int64()
	}
	months := amount(m[1], 12, "months")
	d := Duration{Years: int(months / 12), Months: int(months%12 + amount(m[2], 1, "months"))}
	days := time.Duration(amount(m[3], int64(day), "nanoseconds"))
	weeks := time.Duration(amount(m[8], int64(7*day), "nanoseconds"))
	d.Weeks, d.Days = int(weeks/(7*day)), int((weeks%(7*day)+days)/day)
	d.Clock = (weeks + days) % day
	for i, unit := range []time.Duration{time.Hour, time.Minute, time.Second} {
		if d.Clock += time.Duration(amount(m[5+i], int64(unit), "nanoseconds")); d.Clock > Max {
			wrong = ErrTooLong // a sum of two does not overflow
			break
		}
	}
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	switch {
	case wrong != nil:
		return d, wrong
	case d == (Duration{}):
		return d, errors.New("it must be longer than zero")
	case d.Months > 12*MaxYears || d.After(start).After(start.AddDate(MaxYears, 0, 0)):
		return d, ErrTooLong
	}
	return d, nil
}
