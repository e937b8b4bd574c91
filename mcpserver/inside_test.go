package mcpserver

import (
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/server"
)

// What tests from outside have to see or to change inside, so that they need
// not guess how long something takes.

// Subscribers is how many clients and streams of a server are told what
// changes.
func Subscribers(s *server.MCPServer) int {
	subs := hostOf(s).live.subs
	subs.mu.Lock()
	defer subs.mu.Unlock()
	return len(subs.all)
}

// StopRefill stops the clock by which the limit of calls is filled up again.
func StopRefill(s *server.MCPServer) {
	limit := hostOf(s).limit
	at := time.Now()
	limit.now = func() time.Time { return at }
}

// Rest is what a call does, until the test ends, while that which it told is
// written.
func Rest(t *testing.T, f func()) {
	before := rest
	rest = f
	t.Cleanup(func() { rest = before })
}

// TestTheLimitOfCallsFillsUp at its rate and not beyond two seconds' worth,
// whatever the clock does.
func TestTheLimitOfCallsFillsUp(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	b := newBucket(10)
	b.now = func() time.Time { return now }
	taken := func() (n int) {
		for b.take() {
			n++
		}
		return n
	}
	for _, step := range []struct {
		later time.Duration
		want  int
	}{{0, 20}, {0, 0}, {99 * time.Millisecond, 0}, {time.Millisecond, 1}, {450 * time.Millisecond, 4}, {50 * time.Millisecond, 1}, {time.Hour, 20}} {
		now = now.Add(step.later)
		if got := taken(); got != step.want {
			t.Errorf("%v later: %d calls, want %d", step.later, got, step.want)
		}
	}
	if b := newBucket(-1); !b.take() {
		t.Error("no limit limits")
	}
}

// TestTooLargeNamesWhatIsListed: the refusal of a message that is too long names
// the chunk tools where they are listed, and a way without them everywhere.
func TestTooLargeNamesWhatIsListed(t *testing.T) {
	for preset, chunks := range map[Preset]bool{Core: false, Standard: true, Full: true} {
		e := carried(New(nil, &Options{Tier: preset})).TooLarge(5)
		if !strings.Contains(e.Hint, "5 bytes") || !strings.Contains(e.Hint, "mode append") || strings.Contains(e.Hint, "rw_chunk") != chunks || (e.Context["tools"] != nil) != chunks {
			t.Errorf("%s: %s %v", preset, e.Hint, e.Context)
		}
	}
}
