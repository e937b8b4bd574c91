package isoduration

import (
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"
)

// errTooLong is the answer to durations that exceed the maximum.
var errTooLong = fmt.Errorf("longer than the maximum of %d years", MaxYears)

const (
	day = 24 * time.Hour
	// maxDays is the number of days from 2000-01-01 to 2100-01-01.
	maxDays = 36525
)

// unit is one component: its letter, what it may be at most, and how it is
// added. The fraction is given as its digits, empty if there is none.
type unit struct {
	letter byte
	most   int64
	add    func(d *Duration, n int64, frac string) error
}

var (
	dateUnits = []unit{
		{'Y', MaxYears, addYears},
		{'M', 12 * MaxYears, addMonths},
		{'W', maxDays / 7, addWeeks},
		{'D', maxDays, addDays},
	}
	timeUnits = []unit{
		{'H', maxDays * 24, addClock(time.Hour)},
		{'M', maxDays * 24 * 60, addClock(time.Minute)},
		{'S', maxDays * 24 * 60 * 60, addClock(time.Second)},
	}
)

// Parse reads a duration of the form PnYnMnDTnHnMnS or PnW. Components may be
// left out, but one must be there, and one after the T if there is a T. The
// last component may have a fraction, after a point or a comma, as long as it
// comes to whole months (for years) or whole nanoseconds; a fraction of a
// month is refused, because months differ in length.
//
// Everything else is refused: signs, spaces, lower case, weeks beside other
// components, a total of zero, and more than [MaxYears] years.
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
	rest, ok := strings.CutPrefix(s, "P")
	if !ok {
		return Duration{}, errors.New("it must begin with P")
	}
	date, clock, hasClock := strings.Cut(rest, "T")
	if hasClock && clock == "" {
		return Duration{}, errors.New("nothing follows the T")
	}
	if date == "" && clock == "" {
		return Duration{}, errors.New("nothing follows the P")
	}
	var d Duration
	fraction, err := d.read(date, dateUnits)
	if err != nil {
		return Duration{}, err
	}
	if fraction && hasClock {
		return Duration{}, errors.New("only the last component may have a fraction")
	}
	if _, err := d.read(clock, timeUnits); err != nil {
		return Duration{}, err
	}
	if strings.Contains(s, "W") && strings.Trim(rest, "0123456789.,") != "W" {
		return Duration{}, errors.New("weeks cannot be combined with other components")
	}
	if d == (Duration{}) {
		return Duration{}, errors.New("it must be longer than zero")
	}
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	if d.After(start).After(start.AddDate(MaxYears, 0, 0)) {
		return Duration{}, errTooLong
	}
	return d, nil
}

// read adds the components of s to d. It reports whether the last of them has
// a fraction.
func (d *Duration) read(s string, units []unit) (fraction bool, err error) {
	for s != "" {
		if fraction {
			return false, errors.New("only the last component may have a fraction")
		}
		end := digits(s)
		if end == 0 {
			return false, errors.New("a number is missing")
		}
		whole, frac := s[:end], ""
		s = s[end:]
		if s != "" && (s[0] == '.' || s[0] == ',') {
			end = 1 + digits(s[1:])
			if end == 1 {
				return false, errors.New("digits are missing in a fraction")
			}
			frac, s, fraction = s[1:end], s[end:], true
		}
		if s == "" {
			return false, errors.New("a number has no unit")
		}
		at := 0
		for at < len(units) && units[at].letter != s[0] {
			at++
		}
		if at == len(units) {
			return false, fmt.Errorf("unit %q is unknown, repeated or out of order", s[:1])
		}
		n, err := number(whole, units[at].most)
		if err != nil {
			return false, err
		}
		if err := units[at].add(d, n, frac); err != nil {
			return false, err
		}
		s, units = s[1:], units[at+1:]
	}
	return fraction, nil
}

// digits returns how many decimal digits s begins with.
func digits(s string) int {
	n := 0
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}

// number reads decimal digits that must not exceed most.
func number(digits string, most int64) (int64, error) {
	digits = strings.TrimLeft(digits, "0")
	if len(digits) > 12 {
		return 0, errTooLong
	}
	var n int64
	for _, c := range digits {
		n = 10*n + int64(c-'0')
	}
	if n > most {
		return 0, errTooLong
	}
	return n, nil
}

// share returns 0.frac of whole. It is an error if that is not an integer.
func share(frac string, whole int64, of string) (int64, error) {
	frac = strings.TrimRight(frac, "0")
	if frac == "" {
		return 0, nil
	}
	if len(frac) > 30 {
		return 0, fmt.Errorf("the fraction is not a whole number of %s", of)
	}
	n, _ := new(big.Int).SetString(frac, 10)
	n.Mul(n, big.NewInt(whole))
	ten := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(len(frac))), nil)
	n, rest := n.QuoRem(n, ten, new(big.Int))
	if rest.Sign() != 0 {
		return 0, fmt.Errorf("the fraction is not a whole number of %s", of)
	}
	return n.Int64(), nil
}

func addYears(d *Duration, n int64, frac string) error {
	months, err := share(frac, 12, "months")
	d.Years, d.Months = int(n), int(months)
	return err
}

func addMonths(d *Duration, n int64, frac string) error {
	if strings.Trim(frac, "0") != "" {
		return errors.New("a fraction of a month has no fixed length")
	}
	d.Months += int(n)
	return nil
}

func addWeeks(d *Duration, n int64, frac string) error {
	rest, err := share(frac, int64(7*day), "nanoseconds")
	d.Weeks = int(n)
	d.Days, d.Clock = int(rest/int64(day)), time.Duration(rest%int64(day))
	return err
}

func addDays(d *Duration, n int64, frac string) error {
	rest, err := share(frac, int64(day), "nanoseconds")
	d.Days, d.Clock = int(n), time.Duration(rest)
	return err
}

// addClock returns how a component of the given length is added. The sum may
// not leave the range of a [time.Duration].
func addClock(length time.Duration) func(*Duration, int64, string) error {
	return func(d *Duration, n int64, frac string) error {
		rest, err := share(frac, int64(length), "nanoseconds")
		if err != nil {
			return err
		}
		sum := time.Duration(n)*length + time.Duration(rest)
		if sum > maxDays*day-d.Clock {
			return errTooLong
		}
		d.Clock += sum
		return nil
	}
}
