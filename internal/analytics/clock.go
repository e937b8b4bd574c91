package analytics

import (
	"math"
	"time"
)

// instant is a time, microseconds since the Unix epoch.
type instant int64

// unknown is the time of a row that tells none.
const unknown instant = math.MinInt64

const (
	second = instant(time.Second / time.Microsecond)
	minute = 60 * second
)

const (
	instantFormat = "2006-01-02T15:04:05.000000Z07:00" // as in the rows of the journal
	minuteFormat  = "2006-01-02T15:04Z07:00"
)

// String is the time as RFC 3339 UTC, "" when it is not known.
func (t instant) String() string { return t.format(instantFormat) }

func (t instant) format(layout string) string {
	if t == unknown {
		return ""
	}
	return time.UnixMicro(int64(t)).UTC().Format(layout)
}

// minute is the beginning of the minute of t.
func (t instant) minute() instant {
	past := t % minute
	if past < 0 {
		past += minute
	}
	return t - past
}

// span is a stretch of time that grows with what is added to it. The clock may
// jump, so it goes from the earliest to the latest time, in whatever order they
// come.
type span struct{ first, last instant }

// never is the span without any time.
var never = span{unknown, unknown}

func (s *span) add(t instant) {
	if t == unknown {
		return
	}
	if s.first == unknown || t < s.first {
		s.first = t
	}
	s.last = max(s.last, t) // unknown is the least
}

// seconds is the length of the span.
func (s span) seconds() float64 {
	if s.first == unknown {
		return 0
	}
	return float64(s.last-s.first) / float64(second)
}

// parseInstant reads an RFC 3339 time; unknown when it is none. The form that
// our rows and those of the Python implementation have is read without
// [time.Parse], which takes several times as long.
func parseInstant(s string) instant {
	if t, ok := parseUTC(s); ok {
		return t
	}
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return unknown
	}
	return instant(t.UnixMicro())
}

// parseUTC reads 2006-01-02T15:04:05Z, with or without a fraction and with Z or
// +00:00. It leaves every other form, and every wrong one, to time.Parse.
func parseUTC(s string) (instant, bool) {
	if len(s) < 20 || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' {
		return 0, false
	}
	year, month, day := 100*two(s, 0)+two(s, 2), two(s, 5), two(s, 8)
	hour, mins, sec := two(s, 11), two(s, 14), two(s, 17)
	if year < 1 || month < 1 || month > 12 || day < 1 || day > 28 && day > daysIn(year, month) ||
		uint(hour) > 23 || uint(mins) > 59 || uint(sec) > 59 {
		return 0, false
	}
	micros, rest, ok := fraction(s[19:])
	if !ok || rest != "Z" && rest != "+00:00" {
		return 0, false
	}
	seconds := int64(daysSinceEpoch(year, month, day))*86400 + int64(hour*3600+mins*60+sec)
	return instant(seconds)*second + instant(micros), true
}

// two is the number of two digits at s[i:]; far below zero when they are none.
func two(s string, i int) int {
	tens, ones := s[i]-'0', s[i+1]-'0'
	if tens > 9 || ones > 9 {
		return -1_000_000
	}
	return int(tens)*10 + int(ones)
}

// fraction reads the microseconds behind a point, if there is one. More digits
// than that are cut off.
func fraction(s string) (micros int, rest string, ok bool) {
	if s[0] != '.' {
		return 0, s, true
	}
	i := 1
	for ; i < len(s) && s[i] >= '0' && s[i] <= '9'; i++ {
		if i <= 6 {
			micros = 10*micros + int(s[i]-'0')
		}
	}
	for n := i; n <= 6; n++ {
		micros *= 10
	}
	return micros, s[i:], i > 1 && i <= 10
}

func daysIn(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// daysSinceEpoch counts the days from 1970-01-01 in the Gregorian calendar. The
// year is taken to begin in March, so that the leap day is its last.
func daysSinceEpoch(year, month, day int) int {
	if month <= 2 {
		year--
		month += 12
	}
	leaps := year/4 - year/100 + year/400
	return 365*year + leaps + (153*(month-3)+2)/5 + day - 719469
}
