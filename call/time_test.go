package call_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestTimestampsKeepTheirText whatever it is, beside the time that it names.
func TestTimestampsKeepTheirText(t *testing.T) {
	at := time.Date(2026, 4, 11, 10, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"2026-04-11T10:00:00.000000Z": at, "2026-04-11T10:00:00Z": at, "2026-04-11T12:00:00+02:00": at,
		"2026-04-11 10:00:00": {}, "yesterday": {}, "": {},
	} {
		var a, b call.Timestamp
		doc, _ := json.Marshal(text)
		testbed.NoErr(t, json.Unmarshal(doc, &a))
		again, err := json.Marshal(a)
		testbed.Expect(t, err == nil && string(again) == string(doc) && a.String() == text && a.Time == want && a.IsZero() == (text == ""),
			"%q became %s, %v %v", text, again, a.Time, err)
		if b.UnmarshalText([]byte(text)); a != b {
			t.Errorf("%q is read in two ways: %v, %v", text, a, b)
		}
	}
	testbed.Equal(t, (call.Timestamp{Time: at.Add(120 * time.Millisecond).In(time.FixedZone("", 3600))}).String(), "2026-04-11T10:00:00.120000Z")
}
