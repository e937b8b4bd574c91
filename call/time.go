package call

import (
	"cmp"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// Timestamp is a time in the journal or the state directory. Another version or
// program may have written it, so it keeps its text. The zero Timestamp has none.
type Timestamp struct {
	Time time.Time // zero if the text is not in the form of RFC 3339
	text string    // unless it is the one that a Time is written with
}

// IsZero reports whether t has no text.
func (t Timestamp) IsZero() bool { return t == Timestamp{} }

// String returns the text of t.
func (t Timestamp) String() string { return cmp.Or(t.text, stamp.Text(t.Time)) }

// MarshalText returns the text of t.
func (t Timestamp) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads a Timestamp. It accepts any text.
func (t *Timestamp) UnmarshalText(text []byte) error {
	*t = Timestamp{Time: stamp.Parse(string(text))}
	if stamp.Text(t.Time) != string(text) {
		t.text = string(text)
	}
	return nil
}
