package resilientwrite

import (
	"context"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// WhileQuiet makes fn run where a store waits whether another process is still writing
// the policy file.
func (s *Store) WhileQuiet(fn func()) { s.engine.TestHooks.Quiet = fn }

// LetPatternsTake sets how long the patterns of the policy may compute in a call.
func (s *Store) LetPatternsTake(most time.Duration) { s.engine.TestHooks.Patterns = most }

// OpenSimAs is OpenSim for a user.
func OpenSimAs(fs *simfs.FS, opts *Options, user int) (*Store, error) {
	return openOn(context.Background(), fs.Root(), opts, engine.TestHooks{
		Now: time.Now, Nonce: func() string { return "0000" }, User: func() int { return user }, InTurn: true, Preallocate: 4096, NoReserve: true,
	})
}
