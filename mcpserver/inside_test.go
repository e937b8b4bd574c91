package mcpserver

import (
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/server"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
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

// Rest is what a call does, until the test ends, while that which it told is
// written.
func Rest(t *testing.T, f func()) {
	before := rest
	rest = f
	t.Cleanup(func() { rest = before })
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

// noErr and must check errors, as testbed describes.
var noErr = testbed.NoErr

func must[T any](v T, err error) func(testing.TB, ...any) T { return testbed.Must(v, err) }
