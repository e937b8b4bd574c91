// Package stamp formats times as in the journal, the state directory and the
// replies.
package stamp

import "time"

// Format is RFC 3339 with six fractional digits.
const Format = "2006-01-02T15:04:05.000000Z07:00"

// Of returns the moment t in UTC, in the precision of its text.
func Of(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }

// Text returns the text of t, in UTC. That of the zero time is empty.
func Text(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(Format)
}

// Parse returns the time with a text, in UTC, or the zero time if it is no such text.
func Parse(text string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}
