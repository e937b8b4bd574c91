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

// parseInstant reads an RFC 3339 time; unknown when it is none.
func parseInstant(s string) instant {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return unknown
	}
	return instant(t.UnixMicro())
}
