package isoduration

import (
	"errors"
	"fmt"
	"math/big"
	"strconv"
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

// units are the components in their order: the letter, what it may be at most,
// and what a fraction of it is counted in, months for years.
var units = []struct {
	letter byte
	clock  bool // after the T
	most   int64
	size   time.Duration
}{
	{'Y', false, MaxYears, 0}, {'M', false, 12 * MaxYears, 0}, {'W', false, maxDays / 7, 7 * day}, {'D', false, maxDays, day},
	{'H', true, maxDays * 24, time.Hour}, {'M', true, maxDays * 24 * 60, time.Minute}, {'S', true, maxDays * 24 * 60 * 60, time.Second},
}

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

func parse(s string) (d Duration, err error) {
	rest, ok := strings.CutPrefix(s, "P")
	switch {
	case !ok:
		return d, errors.New("it must begin with P")
	case rest == "":
		return d, errors.New("nothing follows the P")
	case strings.HasSuffix(rest, "T"):
		return d, errors.New("nothing follows the T")
	}
	clock, fraction, next := false, false, 0
	for rest != "" {
		if rest[0] == 'T' && !clock {
			clock, rest = true, rest[1:]
			continue
		}
		if fraction {
			return d, errors.New("only the last component may have a fraction")
		}
		whole, frac := "", ""
		if whole, rest = digits(rest); whole == "" {
			return d, errors.New("a number is missing")
		}
		if rest != "" && (rest[0] == '.' || rest[0] == ',') {
			if frac, rest = digits(rest[1:]); frac == "" {
				return d, errors.New("digits are missing in a fraction")
			}
			fraction = true
		}
		if rest == "" {
			return d, errors.New("a number has no unit")
		}
		for next < len(units) && (units[next].letter != rest[0] || units[next].clock != clock) {
			next++
		}
		if next == len(units) {
			return d, fmt.Errorf("unit %q is unknown, repeated or out of order", rest[:1])
		}
		if err := d.add(next, whole, frac); err != nil {
			return d, err
		}
		rest, next = rest[1:], next+1
	}
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	switch {
	case strings.Contains(s, "W") && strings.Trim(s[1:], "0123456789.,") != "W":
		err = errors.New("weeks cannot be combined with other components")
	case d == (Duration{}):
		err = errors.New("it must be longer than zero")
	case d.After(start).After(start.AddDate(MaxYears, 0, 0)):
		err = errTooLong
	}
	return d, err
}

// digits cuts the decimal digits off the beginning of s.
func digits(s string) (number, rest string) {
	rest = strings.TrimLeft(s, "0123456789")
	return s[:len(s)-len(rest)], rest
}

// add adds a component.
func (d *Duration) add(at int, whole, frac string) error {
	u := units[at]
	n, err := strconv.ParseInt(whole, 10, 64)
	if err != nil || n > u.most {
		return errTooLong
	}
	if u.size == 0 {
		if u.letter == 'Y' {
			months, err := share(frac, 12, "months")
			d.Years, d.Months = int(n), int(months)
			return err
		}
		if strings.Trim(frac, "0") != "" {
			return errors.New("a fraction of a month has no fixed length")
		}
		d.Months += int(n)
		return nil
	}
	rest, err := share(frac, int64(u.size), "nanoseconds")
	switch {
	case err != nil:
		return err
	case u.letter == 'W':
		d.Weeks, d.Days = int(n), int(rest/int64(day))
		rest %= int64(day)
	case u.letter == 'D':
		d.Days = int(n)
	default:
		if rest += n * int64(u.size); int64(d.Clock)+rest > maxDays*int64(day) {
			return errTooLong
		}
	}
	d.Clock += time.Duration(rest)
	return nil
}

// share returns 0.frac of whole, which must be an integer.
func share(frac string, whole int64, of string) (int64, error) {
	if frac = strings.TrimRight(frac, "0"); frac == "" {
		return 0, nil
	}
	if len(frac) <= 30 {
		r, _ := new(big.Rat).SetString("0." + frac)
		if r.Mul(r, new(big.Rat).SetInt64(whole)); r.IsInt() {
			return r.Num().Int64(), nil
		}
	}
	return 0, fmt.Errorf("the fraction is not a whole number of %s", of)
}
